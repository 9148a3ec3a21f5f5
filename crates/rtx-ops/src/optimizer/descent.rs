//! Steps along the gradient: SGD, its average, signs only, orthogonal matrices.
use super::{STEP, Step, flag, infer_step};
use crate::formula::{Var, emit};
use rtx_core::{DType, Fold, Kind, Result};
use rtx_ir::{Attr, Body, Builder, OpDef, Outs, Sample, ValueId, rules};

/// One step of stochastic gradient descent with momentum. Attributes: nesterov, maximize.
pub static SGD_STEP: OpDef = OpDef {
    sig: "sgd_step(Tensor param, Tensor grad, Tensor? momentum_buffer, Tensor step, Scalar lr, Scalar momentum, \
          Scalar dampening, Scalar weight_decay, bool nesterov=False, bool maximize=False) -> (Tensor, Tensor)",
    doc: "g' = g + wd · p, buf' = μ buf + (1 - dampening) g' (g' itself where step is 1), p' = p - lr · buf', with nesterov \
          p - lr (g' + μ buf'), without a buffer p - lr · g'. In PyTorch's order of operations. Sutskever et al. (2013).",
    runtime: &["lr", "momentum", "dampening", "weight_decay"],
    infer: |op, inputs| infer_step(op, inputs, 4, 0),
    body: Body::Composite(sgd),
    cost: 8,
    samples: &[
        Sample::of("f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, i64[] = 3, 0.1, 0.9, 0.0, 0.01, true", 64),
        Sample::of("f32[5] in -1..1, f32[5] in -1..1, none, i64[] = 1, 0.1, 0.0, 0.0, 0.01, false, true", 64),
    ],
    ..STEP
};

fn sgd(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, momentum, dampening, weight_decay]) = Step::read(b, v, &flag(attrs, 1), 0)?;
    s.decay(b, lr, weight_decay, false)?;
    let (lr, momentum, rest) = (s.round(b, lr)?, s.round(b, momentum)?, s.round(b, 1.0 - dampening)?);
    let Some(&old) = s.state.first() else {
        let p = emit(b, s.p - s.g * lr)?;
        return s.finish(b, &[p]);
    };
    let buffer = emit(b, s.t.equals(1.0).choose(s.g, old * momentum + s.g * rest))?;
    let way = if attrs[0].bool() { s.g + buffer * momentum } else { buffer.into() };
    let p = emit(b, s.p - way * lr)?;
    s.finish(b, &[p, buffer])
}

/// One step of averaged stochastic gradient descent.
pub static ASGD_STEP: OpDef = OpDef {
    sig: "asgd_step(Tensor param, Tensor grad, Tensor ax, Tensor eta, Tensor mu, Tensor step, Scalar lr, Scalar lambd, \
          Scalar alpha, Scalar t0, Scalar weight_decay, bool maximize=False) -> (Tensor, Tensor, Tensor, Tensor)",
    doc: "g += wd · p, p' = (1 - λη) p - η g, ax' = ax + μ (p' - ax), then η' = lr/(1 + λ lr t)^α and μ' = 1/max(1, t - t0). \
          Polyak and Juditsky (1992).",
    runtime: &["lr", "lambd", "alpha", "t0", "weight_decay"],
    infer: |op, inputs| infer_step(op, inputs, 5, 2),
    body: Body::Composite(asgd),
    cost: 12,
    samples: &[Sample::of(
        "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f64[] = 0.01, f64[] = 0.5, i64[] = 7, 0.01, 1e-4, 0.75, 4, 0.1",
        64,
    )],
    ..STEP
};

fn asgd(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, lambd, alpha, t0, weight_decay]) = Step::read(b, v, &flag(attrs, 0), 2)?;
    s.decay(b, lr, weight_decay, false)?;
    let (ax, eta, mu) = (s.state[0], s.state[1], s.state[2]);
    let keep = s.round(b, 1.0 - lambd * eta)?;
    let (step_size, part) = (s.round(b, eta)?, s.round(b, mu)?);
    let p = emit(b, s.p * keep - s.g * step_size)?;
    // With μ = 1 the average is the parameter itself, not what rounding makes of it.
    let average = emit(b, mu.equals(1.0).choose(p, ax + (p - ax) * part))?;
    let eta = emit(b, lr / (1.0 + lambd * lr * s.t).pow(alpha))?;
    let mu = emit(b, 1.0 / (s.t - t0).max(1.0))?;
    s.finish(b, &[p, average, eta, mu])
}

/// One step of resilient backpropagation.
pub static RPROP_STEP: OpDef = OpDef {
    sig: "rprop_step(Tensor param, Tensor grad, Tensor prev, Tensor step_size, Tensor step, Scalar eta_minus, Scalar eta_plus, \
          Scalar step_size_min, Scalar step_size_max, bool maximize=False) -> (Tensor, Tensor, Tensor)",
    doc: "Each element has a step of its own: it grows by η⁺ where the gradient keeps its sign, shrinks by η⁻ where it turns \
          (and the gradient then counts as 0), within bounds; p' = p - sign(g) · step. Riedmiller and Braun (1993).",
    runtime: &["eta_minus", "eta_plus", "step_size_min", "step_size_max"],
    infer: |op, inputs| infer_step(op, inputs, 4, 0),
    body: Body::Composite(rprop),
    cost: 10,
    samples: &[Sample::of(
        "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0.1..1, i64[] = 3, 0.5, 1.2, 1e-6, 50",
        64,
    )],
    ..STEP
};

fn rprop(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (s, [shrink, grow, least, most]) = Step::read(b, v, &flag(attrs, 0), 0)?;
    let (shrink, grow) = (s.round(b, shrink)?, s.round(b, grow)?);
    let (least, most) = (s.round(b, least)?, s.round(b, most)?);
    let sign = emit(b, (s.state[0] * s.g).sign())?;
    let zero = Var(b.constant(s.compute, 0.0)?);
    let (turned, kept) = (emit(b, sign.below(zero))?, emit(b, zero.below(sign))?);
    let size = emit(b, s.state[1] * turned.choose(shrink, kept.choose(grow, 1.0 + zero)))?;
    let size = emit(b, size.max(least).min(most))?;
    let g = emit(b, turned.choose(zero, s.g))?;
    let p = emit(b, s.p - g.sign() * size)?;
    s.finish(b, &[p, g, size])
}

/// One step of Muon. Attributes: Newton-Schulz steps, how the learning rate is adjusted, nesterov.
pub static MUON_STEP: OpDef = OpDef {
    sig: "muon_step(Tensor param, Tensor grad, Tensor momentum_buffer, Tensor step, Scalar lr, Scalar momentum, \
          Scalar weight_decay, Scalar eps, Scalar a, Scalar b, Scalar c, int[] ns_steps, str adjust_lr, bool nesterov=True, \
          bool maximize=False) -> (Tensor, Tensor)",
    doc: "For matrices: b' = b + (1 - μ)(g - b), u = b' or, with nesterov, g + μ (b' - g); u is made nearly orthogonal by steps \
          of X ← a X + (b XXᵀ + c (XXᵀ)²) X from u/‖u‖ in bf16; p' = (1 - lr · wd) p - lr' · X. lr' is lr times \
          √max(1, rows/columns) (`original`), 0.2 √max(rows, columns) (`match_rms_adamw`) or √(rows/columns) \
          (`spectral_unclamped`). Jordan et al. (2024).",
    runtime: &["lr", "momentum", "weight_decay", "eps", "a", "b", "c"],
    infer: |op, inputs| {
        if inputs.first().is_some_and(|t| t.rank() != 2) {
            return Err(rules::refuse(op.name(), Kind::Shape, format_args!("is for matrices, got {}", inputs[0])));
        }
        infer_step(op, inputs, 7, 0)
    },
    body: Body::Composite(muon),
    cost: 100,
    samples: &[Sample::of(
        "f32[3,2] in -1..1, f32[3,2] in -1..1, f32[3,2] in -1..1, i64[] = 3, 0.02, 0.95, 0.1, 1e-7, 3.4445, -4.775, 2.0315, \
         [2], \"original\"",
        1 << 16,
    )],
    ..STEP
};

fn muon(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, momentum, weight_decay, eps, c1, c2, c3]) = Step::read(b, v, &flag(attrs, 3), 0)?;
    let (steps, adjust, nesterov) = (attrs[0].ints()[0], &attrs[1], attrs[2].bool());
    let shape = b.shape(s.p.0);
    let (rows, columns) = (shape.dim(0).bound() as f64, shape.dim(1).bound() as f64);
    let factor = match adjust {
        Attr::Str("match_rms_adamw") => 0.2 * rows.max(columns).sqrt(),
        Attr::Str("spectral_unclamped") => (rows / columns).sqrt(),
        _ => (rows / columns).max(1.0).sqrt(),
    };
    s.decay(b, lr, weight_decay, true)?;
    let (keep, rest) = (s.round(b, momentum)?, s.round(b, 1.0 - momentum)?);
    let buffer = emit(b, s.state[0] + (s.g - s.state[0]) * rest)?;
    let way = if nesterov { emit(b, s.g + (buffer - s.g) * keep)? } else { buffer };
    let mut x = b.cast(way.0, DType::BF16)?;
    if rows > columns {
        x = b.transpose_last(x)?;
    }
    let wide = Var(b.cast(x, DType::F32)?);
    let square = emit(b, wide * wide)?;
    let norm = Var(b.reduce(Fold::Sum, square.0, &[0, 1])?);
    let [eps, c1, c2, c3] = [eps, c1, c2, c3].map(|n| b.cast(n.0, DType::F32).map(Var));
    let (eps, c1, c2, c3) = (eps?, c1?, c2?, c3?);
    let unit = emit(b, wide / norm.sqrt().max(eps))?;
    x = b.cast(unit.0, DType::BF16)?;
    for _ in 0..steps {
        let turned = b.transpose_last(x)?;
        let gram = product(b, x, turned)?;
        let square = product(b, gram.1, gram.1)?;
        let update = emit(b, gram.0 * c2 + square.0 * c3)?;
        let update = b.cast(update.0, DType::BF16)?;
        let moved = product(b, update, x)?;
        let old = Var(b.cast(x, DType::F32)?);
        let next = emit(b, old * c1 + moved.0)?;
        x = b.cast(next.0, DType::BF16)?;
    }
    if rows > columns {
        x = b.transpose_last(x)?;
    }
    let x = Var(b.cast(x, s.compute)?);
    let step_size = s.round(b, lr * factor)?;
    let p = emit(b, s.p - x * step_size)?;
    s.finish(b, &[p, buffer])
}

/// A product of bf16 matrices: in f32 as it is added up, and rounded.
fn product(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Result<(Var, ValueId)> {
    let (x, y) = (b.cast(x, DType::F32)?, b.cast(y, DType::F32)?);
    let wide = b.matmul(x, y)?;
    let narrow = b.cast(wide, DType::BF16)?;
    Ok((Var(b.cast(narrow, DType::F32)?), narrow))
}
