//! Recurrent layers: stacks of LSTM, GRU and plain cells, and the cells, with PyTorch's parameter names.
use crate::{Dropout, Field, Module, Param, Visitor, functional as F, init};
use rtx_core::Result;
use rtx_tensor::{CellWeights, Stack, Tensor, cat};

/// Sizes and parameters that the three layers share.
#[derive(Clone, Debug)]
struct Recurrent {
    /// Names as PyTorch's (`weight_ih_l0_reverse`), in the order of the walk.
    params: Vec<(String, Param)>,
    /// Rows of a weight for each unit: 4 for LSTM, 3 for GRU, 1.
    gates: usize,
    sizes: [usize; 2],
    num_layers: usize,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    relu: bool,
    /// What the state h is projected to; 0 where it is not.
    projection: usize,
    /// Between layers, in training.
    dropout: Dropout,
}

/// Parameters drawn uniformly within 1/√hidden: a weight of the input, one of the state, and a bias for each; the
/// projection of the state where there is one.
fn draw(
    gates: usize,
    [inputs, hidden, output]: [usize; 3],
    biases: bool,
    projection: usize,
    mut push: impl FnMut(&str, Param),
) {
    let (rows, bound) = (gates * hidden, 1.0 / (hidden.max(1) as f64).sqrt());
    let mut drawn = |name: &str, shape: &[usize]| push(name, Param::new(init::uniform(shape, -bound, bound)));
    drawn("weight_ih", &[rows, inputs]);
    drawn("weight_hh", &[rows, output]);
    if biases {
        drawn("bias_ih", &[rows]);
        drawn("bias_hh", &[rows]);
    }
    if projection > 0 {
        drawn("weight_hr", &[projection, hidden]);
    }
}

impl Recurrent {
    fn new(gates: usize, sizes: [usize; 2]) -> Self {
        let plain = Self {
            params: vec![],
            gates,
            sizes,
            num_layers: 1,
            has_biases: true,
            bidirectional: false,
            batch_first: false,
            relu: false,
            projection: 0,
            dropout: Dropout::new(0.0),
        };
        plain.drawn()
    }
    fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }
    /// Elements of the state h.
    fn output(&self) -> usize {
        if self.projection > 0 { self.projection } else { self.sizes[1] }
    }
    /// Parameters drawn anew.
    fn drawn(mut self) -> Self {
        let [inputs, hidden] = self.sizes;
        self.params.clear();
        for layer in 0..self.num_layers {
            let width = if layer == 0 { inputs } else { self.output() * self.directions() };
            for suffix in ["", "_reverse"].into_iter().take(self.directions()) {
                let (output, projection) = (self.output(), self.projection);
                let push = |name: &str, p| self.params.push((format!("{name}_l{layer}{suffix}"), p));
                draw(self.gates, [width, hidden, output], self.has_biases, projection, push);
            }
        }
        self
    }
    /// Layers `from..to`.
    fn stack(&self, from: usize, to: usize) -> Stack {
        let each = self.params.len() / self.num_layers.max(1);
        Stack {
            params: self.params[from * each..to * each].iter().map(|(_, p)| p.alias()).collect(),
            has_biases: self.has_biases,
            num_layers: to - from,
            bidirectional: self.bidirectional,
            batch_first: self.batch_first,
        }
    }
    /// Runs `f` on all layers at once, or on one after the other where something comes between them.
    fn through<const N: usize>(
        &self,
        x: &Tensor,
        states: [Tensor; N],
        f: impl Fn(&Tensor, [&Tensor; N], Stack) -> Result<(Tensor, [Tensor; N])>,
    ) -> Result<(Tensor, [Tensor; N])> {
        if self.projection == 0 && !self.dropout.is_active() {
            return f(x, std::array::from_fn(|i| &states[i]), self.stack(0, self.num_layers));
        }
        let (mut x, mut last) = (x.alias(), Vec::with_capacity(self.num_layers));
        for layer in 0..self.num_layers {
            if layer > 0 {
                x = self.dropout.forward(&x);
            }
            let of_layer = |s: &Tensor| s.narrow(0, layer * self.directions(), self.directions());
            let here: [Tensor; N] = std::array::from_fn(|i| of_layer(&states[i]));
            let (y, ends) = f(&x, std::array::from_fn(|i| &here[i]), self.stack(layer, layer + 1))?;
            x = y;
            last.push(ends);
        }
        let joined = |i: usize| cat(&last.iter().map(|ends| ends[i].alias()).collect::<Vec<_>>(), 0);
        Ok((x, std::array::from_fn(joined)))
    }
    /// Runs `f` on a batch of sequences and states `[layers · directions, batch, hidden]`, zeros where none are given. A
    /// single sequence is a batch of one, and its results come back without the dim of the batch.
    #[track_caller]
    fn run<const N: usize>(
        &self,
        x: &Tensor,
        states: Option<[&Tensor; N]>,
        f: impl Fn(&Tensor, [&Tensor; N], Stack) -> Result<(Tensor, [Tensor; N])>,
    ) -> (Tensor, [Tensor; N]) {
        let (single, batch) = (x.rank() == 2, if self.batch_first { 0 } else { 1 });
        let x = if single { x.unsqueeze(batch) } else { x.alias() };
        let examples = x.shape().get(batch).copied().unwrap_or(1);
        let given = |state: &Tensor| if single && state.rank() == 2 { state.unsqueeze(1) } else { state.alias() };
        let width = |i: usize| if i == 0 { self.output() } else { self.sizes[1] };
        let zeros = |i: usize| x.new_zeros([self.num_layers * self.directions(), examples, width(i)]);
        let states: [Tensor; N] = std::array::from_fn(|i| states.map_or_else(|| zeros(i), |s| given(s[i])));
        let (y, states) = self.through(&x, states, f).unwrap_or_else(|e| panic!("{e}"));
        if single { (y.squeeze(batch), states.map(|s| s.squeeze(1))) } else { (y, states) }
    }
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.params.iter().for_each(|(name, p)| p.visit_field(name, visitor));
        self.dropout.visit(visitor);
    }
}

macro_rules! layers {
    ($($(#[$doc:meta])* $T:ident $gates:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Shape
        /// `[steps, batch, inputs]`, `[batch, steps, inputs]` with `batch_first`, or `[steps, inputs]`; states
        /// `[layers · directions, batch, hidden]`.
        #[derive(Clone, Debug)]
        pub struct $T(Recurrent);
        impl $T {
            /// One layer in one direction, weights uniform within 1/√hidden, as PyTorch draws them.
            pub fn new(inputs: usize, hidden: usize) -> Self {
                Self(Recurrent::new($gates, [inputs, hidden]))
            }
            /// So many layers, one on the other; parameters are drawn anew.
            #[must_use]
            pub fn num_layers(self, num_layers: usize) -> Self {
                Self(Recurrent { num_layers, ..self.0 }.drawn())
            }
            /// In both directions, results side by side; parameters are drawn anew.
            #[must_use]
            pub fn bidirectional(self) -> Self {
                Self(Recurrent { bidirectional: true, ..self.0 }.drawn())
            }
            /// Without biases; parameters are drawn anew.
            #[must_use]
            pub fn no_bias(self) -> Self {
                Self(Recurrent { has_biases: false, ..self.0 }.drawn())
            }
            /// Dropout with this probability between layers, in training.
            #[must_use]
            pub fn dropout(self, p: f64) -> Self {
                Self(Recurrent { dropout: Dropout::new(p), ..self.0 })
            }
            /// The batch comes first.
            #[must_use]
            pub fn batch_first(self) -> Self {
                Self(Recurrent { batch_first: true, ..self.0 })
            }
        }
        impl Module for $T {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                self.0.visit(visitor);
            }
        }
    )* };
}

layers! {
    /// Long short-term memory (Hochreiter and Schmidhuber 1997).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::randn([5, 2, 3]); // time, batch, features
    /// let (y, [h, c]) = nn::LSTM::new(3, 4).forward(&x, None);
    /// assert_eq!((y.shape(), h.shape(), c.shape()), (vec![5, 2, 4], vec![1, 2, 4], vec![1, 2, 4]));
    /// let net = nn::LSTM::new(3, 4).num_layers(2).bidirectional().batch_first().dropout(0.1).no_bias();
    /// assert_eq!(net.forward(&torch::randn([2, 5, 3]), None).0.shape(), [2, 5, 8]);
    /// assert_eq!(nn::LSTM::new(3, 4).projection(2).forward(&x, Some([&torch::zeros([1, 2, 2]), &c])).0.shape(), [5, 2, 2]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    LSTM 4;
    /// Gated recurrent units (Cho et al., arXiv:1406.1078).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::randn([5, 2, 3]); // time, batch, features
    /// let (y, state) = nn::GRU::new(3, 4).forward(&x, None);
    /// assert_eq!((y.shape(), state.shape()), (vec![5, 2, 4], vec![1, 2, 4]));
    /// let net = nn::GRU::new(3, 4).num_layers(2).bidirectional().batch_first().dropout(0.1).no_bias();
    /// assert_eq!(net.forward(&torch::randn([2, 5, 3]), None).0.shape(), [2, 5, 8]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    GRU 3;
    /// A plain recurrent network with tanh.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::randn([5, 2, 3]); // time, batch, features
    /// let (y, state) = nn::RNN::new(3, 4).forward(&x, None);
    /// assert_eq!((y.shape(), state.shape()), (vec![5, 2, 4], vec![1, 2, 4]));
    /// let net = nn::RNN::new(3, 4).num_layers(2).bidirectional().batch_first().dropout(0.1).no_bias().relu();
    /// assert_eq!(net.forward(&torch::randn([2, 5, 3]), None).0.shape(), [2, 5, 8]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    RNN 1;
}

impl LSTM {
    /// The state h is projected to so many elements (Sak, Senior and Beaufays, arXiv:1402.1128); parameters are drawn
    /// anew. Such a stack is recorded step by step.
    #[must_use]
    pub fn projection(self, projection: usize) -> Self {
        Self(Recurrent { projection, ..self.0 }.drawn())
    }
    /// Outputs, the last h and the last c, from states or zeros.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, states: Option<[&Tensor; 2]>) -> (Tensor, [Tensor; 2]) {
        self.0.run(x, states, |x, states, stack| match self.0.projection {
            0 => rtx_tensor::lstm(x, states, stack).map(|(y, h, c)| (y, [h, c])),
            _ => Ok(projected(x, states, &stack)),
        })
    }
}

/// One layer of an LSTM with projected states, in one direction or both.
fn projected(x: &Tensor, states: [&Tensor; 2], stack: &Stack) -> (Tensor, [Tensor; 2]) {
    let steps_at = i64::from(stack.batch_first);
    let directions = 1 + usize::from(stack.bidirectional);
    let each = stack.params.len() / directions;
    let (mut outs, mut ends) = (Vec::new(), [Vec::new(), Vec::new()]);
    for (direction, params) in stack.params.chunks(each).enumerate() {
        let (biases, projection) = (&params[2..each - 1], &params[each - 1]);
        let bias = |i: usize| biases.get(i);
        let [mut h, mut c] = states.map(|s| s.select(0, direction));
        let mut steps = x.unbind(steps_at);
        if direction == 1 {
            steps.reverse();
        }
        let mut ys = Vec::with_capacity(steps.len());
        for x in &steps {
            let gates = F::linear(x, &params[0], bias(0)) + F::linear(&h, &params[1], bias(1));
            let [i, f, g, o] = quarters(&gates);
            c = f.sigmoid() * c + i.sigmoid() * g.tanh();
            h = F::linear(&(o.sigmoid() * c.tanh()), projection, None);
            ys.push(h.alias());
        }
        if direction == 1 {
            ys.reverse();
        }
        outs.push(rtx_tensor::stack(&ys, steps_at));
        ends[0].push(h);
        ends[1].push(c);
    }
    (cat(&outs, -1), ends.map(|e| rtx_tensor::stack(&e, 0)))
}

/// The four gates, side by side in the last dim.
fn quarters(gates: &Tensor) -> [Tensor; 4] {
    let each = gates.size(-1) / 4;
    std::array::from_fn(|i| gates.narrow(-1, i * each, each))
}
impl GRU {
    /// Outputs and the last state, from a state or zeros.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> (Tensor, Tensor) {
        let run = |x: &Tensor, [h]: [&Tensor; 1], stack| rtx_tensor::gru(x, h, stack).map(|(y, h)| (y, [h]));
        let (y, [h]) = self.0.run(x, state.map(|h| [h]), run);
        (y, h)
    }
}
impl RNN {
    /// With relu in place of tanh.
    #[must_use]
    pub fn relu(self) -> Self {
        Self(Recurrent { relu: true, ..self.0 })
    }
    /// Outputs and the last state, from a state or zeros.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> (Tensor, Tensor) {
        let step = if self.0.relu { rtx_tensor::rnn_relu } else { rtx_tensor::rnn_tanh };
        let run = |x: &Tensor, [h]: [&Tensor; 1], stack| step(x, h, stack).map(|(y, h)| (y, [h]));
        let (y, [h]) = self.0.run(x, state.map(|h| [h]), run);
        (y, h)
    }
}

macro_rules! cells {
    ($($(#[$doc:meta])* $T:ident $gates:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Shape
        /// `[batch, inputs]` or `[inputs]`; states `[batch, hidden]` or `[hidden]`.
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            /// Of the input, one row for each unit and gate.
            pub weight_ih: Param,
            /// Of the state, one row for each unit and gate.
            pub weight_hh: Param,
            /// Added to what comes of the input; or none.
            pub bias_ih: Option<Param>,
            /// Added to what comes of the state; or none.
            pub bias_hh: Option<Param>,
            relu: bool,
        }
        impl $T {
            /// Weights and biases uniform within 1/√hidden, as PyTorch draws them.
            pub fn new(inputs: usize, hidden: usize) -> Self {
                let mut drawn = Vec::new();
                draw($gates, [inputs, hidden, hidden], true, 0, |_, p| drawn.push(p));
                let [weight_ih, weight_hh, bias_ih, bias_hh] =
                    <[Param; 4]>::try_from(drawn).unwrap_or_else(|_| unreachable!("two weights and two biases"));
                Self { weight_ih, weight_hh, bias_ih: Some(bias_ih), bias_hh: Some(bias_hh), relu: false }
            }
            /// Without biases.
            #[must_use]
            pub fn no_bias(self) -> Self {
                Self { bias_ih: None, bias_hh: None, ..self }
            }
            fn weights(&self) -> CellWeights<'_> {
                (&self.weight_ih, &self.weight_hh, self.bias_ih.as_deref().zip(self.bias_hh.as_deref()).map(Into::into))
            }
            /// Runs `f` on a batch and its states, zeros where none are given; a single input is a batch of one.
            #[track_caller]
            fn run<const N: usize>(
                &self,
                x: &Tensor,
                states: Option<[&Tensor; N]>,
                f: impl FnOnce(&Tensor, [&Tensor; N]) -> Result<[Tensor; N]>,
            ) -> [Tensor; N] {
                let single = x.rank() == 1;
                let batch = |t: &Tensor| if single && t.rank() == 1 { t.unsqueeze(0) } else { t.alias() };
                let x = batch(x);
                let zeros = || x.new_zeros([x.size(0), self.weight_hh.size(1)]);
                let states: [Tensor; N] = std::array::from_fn(|i| states.map_or_else(zeros, |s| batch(s[i])));
                let outs = f(&x, std::array::from_fn(|i| &states[i])).unwrap_or_else(|e| panic!("{e}"));
                if single { outs.map(|t| t.squeeze(0)) } else { outs }
            }
        }
    )* };
}
cells! {
    /// One step of an [`LSTM`].
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (cell, x) = (nn::LSTMCell::new(3, 4).no_bias(), torch::randn([2, 3]));
    /// let [h, c] = cell.forward(&x, None);
    /// let [h, _] = cell.forward(&x, Some([&h, &c]));
    /// assert_eq!(h.shape(), [2, 4]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    LSTMCell 4;
    /// One step of a [`GRU`].
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (cell, x) = (nn::GRUCell::new(3, 4).no_bias(), torch::randn([2, 3]));
    /// let state = cell.forward(&x, None);
    /// assert_eq!(cell.forward(&x, Some(&state)).shape(), [2, 4]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    GRUCell 3;
    /// One step of an [`RNN`]: tanh, or relu if wanted.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (cell, x) = (nn::RNNCell::new(3, 4).relu().no_bias(), torch::randn([2, 3]));
    /// let state = cell.forward(&x, None);
    /// assert_eq!(cell.forward(&x, Some(&state)).shape(), [2, 4]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    RNNCell 1;
}

impl LSTMCell {
    /// The next h and c, from states or zeros.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, states: Option<[&Tensor; 2]>) -> [Tensor; 2] {
        self.run(x, states, |x, states| rtx_tensor::lstm_cell(x, states, self.weights()).map(Into::into))
    }
}
impl GRUCell {
    /// The next state, from a state or zeros.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> Tensor {
        let step = |x: &Tensor, [h]: [&Tensor; 1]| rtx_tensor::gru_cell(x, h, self.weights()).map(|h| [h]);
        let [h] = self.run(x, state.map(|h| [h]), step);
        h
    }
}
impl RNNCell {
    /// With relu in place of tanh.
    #[must_use]
    pub fn relu(self) -> Self {
        Self { relu: true, ..self }
    }
    /// The next state, from a state or zeros.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> Tensor {
        let step = if self.relu { rtx_tensor::rnn_relu_cell } else { rtx_tensor::rnn_tanh_cell };
        let [h] = self.run(x, state.map(|h| [h]), |x, [h]| step(x, h, self.weights()).map(|h| [h]));
        h
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_shapes_are_pytorchs() {
        let net = LSTM::new(3, 4).num_layers(2).bidirectional().batch_first();
        let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 16);
        assert_eq!(&names[..5], ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse"]);
        let (y, [h, c]) = net.forward(&rtx_tensor::ones([2, 5, 3]), None);
        assert_eq!((y.shape(), h.shape(), c.shape()), (vec![2, 5, 8], vec![4, 2, 4], vec![4, 2, 4]));
        let (y, h) = GRU::new(3, 4).no_bias().forward(&rtx_tensor::ones([5, 2, 3]), None);
        assert_eq!((y.shape(), h.shape()), (vec![5, 2, 4], vec![1, 2, 4]));
    }
    #[test]
    fn a_single_sequence_is_a_batch_of_one() -> Result<()> {
        let (x, net) = (rtx_tensor::randn([5, 3]), GRU::new(3, 4).bidirectional());
        let (y, h) = net.forward(&x, None);
        let (batch, _) = net.forward(&x.unsqueeze(1), None);
        assert_eq!((y.shape(), h.shape()), (vec![5, 8], vec![2, 4]));
        assert!(rtx_tensor::equal(&y, &batch.squeeze(1))?);
        let cell = LSTMCell::new(3, 4);
        let [h, c] = cell.forward(&x.i(0), None);
        assert_eq!((h.shape(), c.shape()), (vec![4], vec![4]));
        let [h, c] = cell.forward(&x, Some([&rtx_tensor::ones([5, 4]), &rtx_tensor::ones([5, 4])]));
        assert_eq!((h.shape(), c.shape()), (vec![5, 4], vec![5, 4]));
        Ok(())
    }
}
