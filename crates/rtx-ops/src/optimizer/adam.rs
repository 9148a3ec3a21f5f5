//! Adam and its relatives: moving means of the gradient and of its square, corrected for their start at zero.
use super::{STEP, Step, flag, infer_step};
use crate::formula::{Var, emit};
use rtx_core::Result;
use rtx_ir::{Attr, Body, Builder, OpDef, Outs, Sample, ValueId};

/// One step of Adam or AdamW.
pub static ADAM_STEP: OpDef = OpDef {
    sig: "adam_step(Tensor param, Tensor grad, Tensor exp_avg, Tensor exp_avg_sq, Tensor? max_exp_avg_sq, Tensor step, \
          Scalar lr, Scalar beta1, Scalar beta2, Scalar eps, Scalar weight_decay, bool decoupled=True, bool maximize=False) \
          -> (Tensor, Tensor, Tensor, Tensor)",
    doc: "m' = m + (1 - β1)(g - m), v' = β2 v + (1 - β2) g², p' = p - lr/(1 - β1^t) · m' / (√v' / √(1 - β2^t) + ε), \
          where decoupled decay first scales p by 1 - lr · wd, and the other adds wd · p to g; with max_exp_avg_sq (amsgrad) \
          its larger self stands for v'. step is t, from 1, on the device; its powers are taken in f64. In PyTorch's order \
          of operations. Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter, arXiv:1711.05101; Reddi et al., \
          arXiv:1904.09237.",
    runtime: &["lr", "beta1", "beta2", "eps", "weight_decay"],
    infer: |op, inputs| infer_step(op, inputs, 5, 0),
    body: Body::Composite(adam),
    cost: 20,
    samples: &[
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, none, i64[] = 3, 0.001, 0.9, 0.999, 1e-8, 0.1",
            64,
        ),
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, none, i64[] = 1, 0.001, 0.9, 0.95, 1e-8, 0.1, false",
            64,
        ),
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, f32[5] in 0..1, i64[] = 2, 0.001, 0.9, 0.95, 1e-8, 0.1, \
             false, true",
            64,
        ),
    ],
    ..STEP
};

fn adam(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, beta1, beta2, eps, weight_decay]) = Step::read(b, v, &flag(attrs, 1), 0)?;
    s.decay(b, lr, weight_decay, attrs[0].bool())?;
    let step_size = s.round(b, lr / (1.0 - beta1.pow(s.t)))?;
    let root_correction = s.round(b, (1.0 - beta2.pow(s.t)).sqrt())?;
    let eps = s.round(b, eps)?;
    let (mean, square) = moments(b, &s, beta1, beta2)?;
    let largest = s.state.get(2).map(|&old| emit(b, old.max(square))).transpose()?;
    let p = emit(b, s.p - mean * step_size / (largest.unwrap_or(square).sqrt() / root_correction + eps))?;
    s.finish(b, &[p, mean, square].into_iter().chain(largest).collect::<Vec<_>>())
}

/// The two moving means of this step.
fn moments(b: &mut Builder<'_>, s: &Step<'_>, beta1: Var, beta2: Var) -> Result<(Var, Var)> {
    let mean = mean(b, s, beta1)?;
    let (keep, rest) = (s.round(b, beta2)?, s.round(b, 1.0 - beta2)?);
    let square = emit(b, s.state[1] * keep + s.g * rest * s.g)?;
    Ok((mean, square))
}
fn mean(b: &mut Builder<'_>, s: &Step<'_>, beta1: Var) -> Result<Var> {
    let rest = s.round(b, 1.0 - beta1)?;
    emit(b, s.state[0] + (s.g - s.state[0]) * rest)
}

/// One step of Adamax.
pub static ADAMAX_STEP: OpDef = OpDef {
    sig: "adamax_step(Tensor param, Tensor grad, Tensor exp_avg, Tensor exp_inf, Tensor step, Scalar lr, Scalar beta1, \
          Scalar beta2, Scalar eps, Scalar weight_decay, bool maximize=False) -> (Tensor, Tensor, Tensor)",
    doc: "g += wd · p, m' = m + (1 - β1)(g - m), u' = max(β2 u, |g| + ε), p' = p - lr/(1 - β1^t) · m'/u'. Kingma and Ba, \
          arXiv:1412.6980, section 7.1.",
    runtime: &["lr", "beta1", "beta2", "eps", "weight_decay"],
    infer: |op, inputs| infer_step(op, inputs, 5, 0),
    body: Body::Composite(adamax),
    cost: 15,
    samples: &[Sample::of(
        "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, i64[] = 3, 0.002, 0.9, 0.999, 1e-8, 0.1",
        64,
    )],
    ..STEP
};

fn adamax(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, beta1, beta2, eps, weight_decay]) = Step::read(b, v, &flag(attrs, 0), 0)?;
    s.decay(b, lr, weight_decay, false)?;
    let step_size = s.round(b, lr / (1.0 - beta1.pow(s.t)))?;
    let (beta2, eps) = (s.round(b, beta2)?, s.round(b, eps)?);
    let mean = mean(b, &s, beta1)?;
    let largest = emit(b, (s.state[1] * beta2).max(s.g.abs() + eps))?;
    let p = emit(b, s.p - mean * step_size / largest)?;
    s.finish(b, &[p, mean, largest])
}

/// One step of NAdam.
pub static NADAM_STEP: OpDef = OpDef {
    sig: "nadam_step(Tensor param, Tensor grad, Tensor exp_avg, Tensor exp_avg_sq, Tensor mu_product, Tensor step, Scalar lr, \
          Scalar beta1, Scalar beta2, Scalar eps, Scalar weight_decay, Scalar momentum_decay, bool decoupled=False, \
          bool maximize=False) -> (Tensor, Tensor, Tensor, Tensor)",
    doc: "Adam with Nesterov's momentum: μ_t = β1 (1 - 0.96^(t · ψ) / 2), p' = p - lr (1 - μ_t)/(1 - Π μ) · g/d - \
          lr μ_{t+1}/(1 - Π μ · μ_{t+1}) · m'/d with d = √(v'/(1 - β2^t)) + ε. Dozat (2016).",
    runtime: &["lr", "beta1", "beta2", "eps", "weight_decay", "momentum_decay"],
    infer: |op, inputs| infer_step(op, inputs, 6, 1),
    body: Body::Composite(nadam),
    cost: 25,
    samples: &[
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, f64[] = 0.8, i64[] = 3, 0.002, 0.9, 0.999, 1e-8, \
             0.1, 0.004",
            64,
        ),
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, f64[] = 1, i64[] = 1, 0.002, 0.9, 0.999, 1e-8, \
             0.1, 0.004, true",
            64,
        ),
    ],
    ..STEP
};

fn nadam(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, beta1, beta2, eps, weight_decay, momentum_decay]) = Step::read(b, v, &flag(attrs, 1), 1)?;
    s.decay(b, lr, weight_decay, attrs[0].bool())?;
    let base = Var(b.constant(rtx_core::DType::F64, 0.96)?);
    let mu = emit(b, beta1 * (1.0 - base.pow(s.t * momentum_decay) * 0.5))?;
    let next = emit(b, beta1 * (1.0 - base.pow((s.t + 1.0) * momentum_decay) * 0.5))?;
    let product = emit(b, s.state[2] * mu)?;
    let correction = s.round(b, 1.0 - beta2.pow(s.t))?;
    let eps = s.round(b, eps)?;
    let by_gradient = s.round(b, lr * (1.0 - mu) / (1.0 - product))?;
    let by_mean = s.round(b, lr * next / (1.0 - product * next))?;
    let (mean, square) = moments(b, &s, beta1, beta2)?;
    let below = emit(b, (square / correction).sqrt() + eps)?;
    let p = emit(b, s.p - s.g * by_gradient / below)?;
    let p = emit(b, p - mean * by_mean / below)?;
    s.finish(b, &[p, mean, square, product])
}

/// One step of RAdam.
pub static RADAM_STEP: OpDef = OpDef {
    sig: "radam_step(Tensor param, Tensor grad, Tensor exp_avg, Tensor exp_avg_sq, Tensor step, Scalar lr, Scalar beta1, \
          Scalar beta2, Scalar eps, Scalar weight_decay, bool decoupled=False, bool maximize=False) -> (Tensor, Tensor, Tensor)",
    doc: "Adam whose second moment is used only once its variance is known well enough: with ρ∞ = 2/(1 - β2) - 1 and \
          ρ = ρ∞ - 2 t β2^t/(1 - β2^t), the step is lr · m̂ · r · √(1 - β2^t)/(√v' + ε) where ρ > 5, else lr · m̂. \
          r² = (ρ - 4)(ρ - 2) ρ∞ / ((ρ∞ - 4)(ρ∞ - 2) ρ). Liu et al., arXiv:1908.03265.",
    runtime: &["lr", "beta1", "beta2", "eps", "weight_decay"],
    infer: |op, inputs| infer_step(op, inputs, 5, 0),
    body: Body::Composite(radam),
    cost: 25,
    samples: &[
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, i64[] = 3, 0.001, 0.9, 0.999, 1e-8, 0.1",
            64,
        ),
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, i64[] = 9, 0.001, 0.9, 0.99, 1e-8, 0.1, true",
            64,
        ),
    ],
    ..STEP
};

fn radam(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, beta1, beta2, eps, weight_decay]) = Step::read(b, v, &flag(attrs, 1), 0)?;
    s.decay(b, lr, weight_decay, attrs[0].bool())?;
    let correction1 = s.round(b, 1.0 - beta1.pow(s.t))?;
    let power = emit(b, beta2.pow(s.t))?;
    let correction2 = emit(b, 1.0 - power)?;
    let most = emit(b, 2.0 / (1.0 - beta2) - 1.0)?;
    let known = emit(b, most - s.t * 2.0 * power / correction2)?;
    let least = Var(b.constant(rtx_core::DType::F64, 5.0)?);
    let rectified = emit(b, least.below(known))?;
    // Where it is not used the square root is of a number below zero: 1 stands in.
    let square = ((known - 4.0) * (known - 2.0) * most) / ((most - 4.0) * (most - 2.0) * known);
    let rect = emit(b, rectified.choose(square, 1.0).sqrt())?;
    let rect = s.round(b, rect)?;
    let (root_correction, lr, eps) = (s.round(b, correction2.sqrt())?, s.round(b, lr)?, s.round(b, eps)?);
    let (mean, square) = moments(b, &s, beta1, beta2)?;
    let by_mean = emit(b, mean / correction1 * lr)?;
    let adaptive = by_mean * (root_correction / (square.sqrt() + eps)) * rect;
    let move_by = emit(b, rectified.choose(adaptive, by_mean))?;
    let p = emit(b, s.p - move_by)?;
    s.finish(b, &[p, mean, square])
}
