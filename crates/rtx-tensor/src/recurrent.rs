//! `torch.lstm`, `torch.gru` and their cells: the functions behind recurrent layers.
use crate::{
    Result, Tensor,
    call::{self, Argument, op},
};

/// A stack of recurrent layers: its parameters in PyTorch's order, and how they are walked.
///
/// Unstable: what `nn::LSTM` and its kin call; use the layers.
#[derive(Clone, Debug)]
pub struct Stack {
    /// For each layer and direction `w_ih`, `w_hh`, then both biases where there are some.
    pub params: Vec<Tensor>,
    /// Are there biases?
    pub has_biases: bool,
    /// How many layers.
    pub num_layers: usize,
    /// In both directions?
    pub bidirectional: bool,
    /// Is the batch the first dim of input and output?
    pub batch_first: bool,
}

impl Stack {
    fn arguments(self, input: &Tensor, hx: Argument) -> [Argument; 9] {
        [
            input.into(),
            hx,
            Argument::Tensors(self.params),
            self.has_biases.into(),
            (self.num_layers as i64).into(),
            0.0.into(),
            false.into(),
            self.bidirectional.into(),
            self.batch_first.into(),
        ]
    }
}

/// An LSTM from states `[h, c]`: the outputs, the last h and the last c.
///
/// Unstable: what the layers call; use them.
///
/// # Errors
/// When shapes or the number of parameters do not fit.
#[track_caller]
pub fn lstm(input: &Tensor, [h, c]: [&Tensor; 2], stack: Stack) -> Result<(Tensor, Tensor, Tensor)> {
    let states = Argument::Tensors(vec![h.alias(), c.alias()]);
    call::call_many(op!("lstm"), &stack.arguments(input, states)).map(Into::into)
}
/// A GRU from a state: the outputs and the last state.
///
/// Unstable: what the layers call; use them.
///
/// # Errors
/// When shapes or the number of parameters do not fit.
#[track_caller]
pub fn gru(input: &Tensor, h: &Tensor, stack: Stack) -> Result<(Tensor, Tensor)> {
    call::call_many(op!("gru"), &stack.arguments(input, h.into())).map(Into::into)
}
/// A plain network with tanh from a state: the outputs and the last state.
///
/// Unstable: what the layers call; use them.
///
/// # Errors
/// When shapes or the number of parameters do not fit.
#[track_caller]
pub fn rnn_tanh(input: &Tensor, h: &Tensor, stack: Stack) -> Result<(Tensor, Tensor)> {
    call::call_many(op!("rnn_tanh"), &stack.arguments(input, h.into())).map(Into::into)
}
/// A plain network with relu from a state: the outputs and the last state.
///
/// Unstable: what the layers call; use them.
///
/// # Errors
/// When shapes or the number of parameters do not fit.
#[track_caller]
pub fn rnn_relu(input: &Tensor, h: &Tensor, stack: Stack) -> Result<(Tensor, Tensor)> {
    call::call_many(op!("rnn_relu"), &stack.arguments(input, h.into())).map(Into::into)
}

/// The weights of a cell: `w_ih`, `w_hh`, and both biases or none.
///
/// Unstable: what `nn::LSTMCell` and its kin call; use the layers.
pub type CellWeights<'a> = (&'a Tensor, &'a Tensor, Option<[&'a Tensor; 2]>);

fn cell_arguments(input: &Tensor, hx: Argument, (w_ih, w_hh, biases): CellWeights<'_>) -> [Argument; 6] {
    let bias = |i: usize| biases.map(|b| b[i]).into();
    [input.into(), hx, w_ih.into(), w_hh.into(), bias(0), bias(1)]
}

/// One step of an LSTM: the next h and c.
///
/// Unstable: what the layers call; use them.
///
/// # Errors
/// When shapes do not fit.
#[track_caller]
pub fn lstm_cell(input: &Tensor, [h, c]: [&Tensor; 2], weights: CellWeights<'_>) -> Result<(Tensor, Tensor)> {
    let states = Argument::Tensors(vec![h.alias(), c.alias()]);
    call::call_many(op!("lstm_cell"), &cell_arguments(input, states, weights)).map(Into::into)
}
/// One step of a GRU.
///
/// Unstable: what the layers call; use them.
///
/// # Errors
/// When shapes do not fit.
#[track_caller]
pub fn gru_cell(input: &Tensor, h: &Tensor, weights: CellWeights<'_>) -> Result<Tensor> {
    call::call_one(op!("gru_cell"), &cell_arguments(input, h.into(), weights))
}
/// One step of a plain network with tanh.
///
/// Unstable: what the layers call; use them.
///
/// # Errors
/// When shapes do not fit.
#[track_caller]
pub fn rnn_tanh_cell(input: &Tensor, h: &Tensor, weights: CellWeights<'_>) -> Result<Tensor> {
    call::call_one(op!("rnn_tanh_cell"), &cell_arguments(input, h.into(), weights))
}
/// One step of a plain network with relu.
///
/// Unstable: what the layers call; use them.
///
/// # Errors
/// When shapes do not fit.
#[track_caller]
pub fn rnn_relu_cell(input: &Tensor, h: &Tensor, weights: CellWeights<'_>) -> Result<Tensor> {
    call::call_one(op!("rnn_relu_cell"), &cell_arguments(input, h.into(), weights))
}
