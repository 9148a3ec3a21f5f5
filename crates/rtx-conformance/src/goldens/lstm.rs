//! A small bidirectional LSTM trained from PyTorch's first weights on PyTorch's batches, in float64 and float32.
//!
//! The configuration: an embedding of 32 tokens in 16 numbers, two layers of width 24 in both directions from zero
//! states, one linear layer; mean cross-entropy over 8 × 32 tokens; Adam (0.9, 0.999), eps 1e-8, learning rate 2e-3.
use super::trajectory::{Golden, Limits, Report, SINGLE, State};
use rustytorch::prelude::*;
use rustytorch::{Stack, lstm, zeros};
use std::path::Path;

const LAYERS: usize = 2;
const WIDTH: usize = 24;
const LR: f64 = 2e-3;

/// Nothing but the order of additions differs.
const DOUBLE: Limits = Limits { loss: 1e-12, norm: 1e-10, weight: 1e-10, own: 0.0 };

/// Trains and compares.
///
/// # Errors
/// For files in `dir` that are missing or of another form.
pub fn run(dir: &Path) -> Result<Report> {
    let golden = Golden::read(dir)?;
    let train = |dtype, limits| {
        golden.train(
            (dtype, limits),
            |params| Box::new(optim::Adam::new(params, LR).betas(0.9, 0.999).eps(1e-8)),
            |_| LR,
            |state, step| loss(state, golden.batch(step, "tokens")?),
        )
    };
    Ok(Report(vec![train(F64, DOUBLE)?, train(F32, SINGLE)?]))
}

/// Mean cross-entropy of each next token of `tokens` `i64 [b, t + 1]`.
fn loss(state: &State, tokens: &Tensor) -> Result<Tensor> {
    let (ids, next) = (tokens.i((.., ..-1)), tokens.i((.., 1..)));
    let x = F::embedding(&ids, &state.param("e.weight")?);
    let zero = zeros((2 * LAYERS, ids.size(0), WIDTH)).to(x.dtype());
    let mut params = Vec::new();
    for layer in 0..LAYERS {
        for direction in ["", "_reverse"] {
            for what in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"] {
                params.push(state.param(&format!("lstm.{what}_l{layer}{direction}"))?);
            }
        }
    }
    let stack = Stack { params, has_biases: true, num_layers: LAYERS, bidirectional: true, batch_first: true };
    let (y, _, _) = lstm(&x, [&zero, &zero], stack)?;
    let logits = F::linear(&y, &state.param("fc.weight")?, Some(&state.param("fc.bias")?));
    Ok(F::cross_entropy(&logits.flatten(0, 1), &next.flatten(0, 1)))
}
