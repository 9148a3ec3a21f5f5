//! A small convolutional network trained from PyTorch's first weights on PyTorch's batches, in float64 and float32.
//!
//! The configuration: two convolutions, the second in two groups, each with batch normalization and a pool, then one
//! linear layer; cross-entropy smoothed by 0.1 over 16 images; SGD with Nesterov momentum 0.9 and decay 5e-4 on every
//! parameter; learning rate 0.05, lowered along half a cosine.
use super::trajectory::{Golden, Limits, Report, SINGLE, State, find};
use rtx_core::{Error, Kind};
use rustytorch::prelude::*;
use rustytorch::{Argument, call};
use std::f64::consts::PI;
use std::path::Path;

/// The images are stored in float32, and PyTorch's float64 run had them in float64: that is all that differs.
const DOUBLE: Limits = Limits { loss: 1e-8, norm: 1e-7, weight: 1e-6, own: 0.0 };

/// Trains and compares.
///
/// # Errors
/// For files in `dir` that are missing or of another form.
pub fn run(dir: &Path) -> Result<Report> {
    let golden = Golden::read(dir)?;
    let train = |dtype, limits| {
        golden.train(
            (dtype, limits),
            |params| Box::new(optim::SGD::new(params, 0.05).momentum(0.9).nesterov().weight_decay(5e-4)),
            |step| 0.05 * (1.0 + (PI * step as f64 / 40.0).cos()) / 2.0,
            |state, step| loss(state, &golden.batch(step, "x")?.to(dtype), golden.batch(step, "y")?),
        )
    };
    Ok(Report(vec![train(F64, DOUBLE)?, train(F32, SINGLE)?]))
}

fn loss(state: &mut State, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    let none = Argument::None;
    let x = conv(&[x.into(), state.param("c1.weight")?.into(), none, 1.into(), 1.into()])?;
    let x = batch_norm(state, "b1", &x)?.relu().max_pool2d(2);
    let (weight, bias) = (state.param("c2.weight")?, state.param("c2.bias")?);
    let x = conv(&[x.into(), weight.into(), bias.into(), 2.into(), 1.into(), 1.into(), 2.into()])?;
    let x = batch_norm(state, "b2", &x)?.silu().avg_pool2d(2);
    let logits = F::linear(&x.flatten(1, -1), &state.param("fc.weight")?, Some(&state.param("fc.bias")?));
    Ok(F::cross_entropy_with(&logits, y, F::CrossEntropy { label_smoothing: 0.1, ..default() }))
}

/// Input, weight, bias, stride, padding, dilation, groups.
fn conv(args: &[Argument]) -> Result<Tensor> {
    let [y] = outputs(call("conv2d", args, &[])?)?;
    Ok(y)
}

/// Normalizes by the batch, and moves the running statistics.
fn batch_norm(state: &mut State, name: &str, x: &Tensor) -> Result<Tensor> {
    let [mean, var, count] =
        ["running_mean", "running_var", "num_batches_tracked"].map(|what| format!("{name}.{what}"));
    let args = [
        x.into(),
        state.param(&format!("{name}.weight"))?.into(),
        state.param(&format!("{name}.bias"))?.into(),
        find(&state.buffers, &mean)?.into(),
        find(&state.buffers, &var)?.into(),
        true.into(),
        0.1.into(),
        1e-5.into(),
    ];
    let [y, _, _, new_mean, new_var] = outputs(call("_native_batch_norm_legit_functional", &args, &[])?)?;
    let counted = find(&state.buffers, &count)? + 1;
    state.buffers.extend([(mean, new_mean.detach()), (var, new_var.detach()), (count, counted)]);
    Ok(y)
}

fn outputs<const N: usize>(all: Vec<Tensor>) -> Result<[Tensor; N]> {
    all.try_into().map_err(|_| Error::new(Kind::Internal, format!("an op has not {N} outputs")))
}
