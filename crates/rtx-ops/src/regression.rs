//! Losses of numbers against numbers.
use crate::args::Args;
use crate::formula::emit;
use crate::reduced::{LOSS, element_cotangent, loss_body, record_loss, reduction_attr};
use rtx_core::{Kind, Result};
use rtx_ir::{Attr, Body, Builder, Grad, GradCx, Grads, OpDef, Refusal, Sample, rules};
use std::f64::consts::TAU;

/// The family.
pub const ALL: &[&OpDef] = &[&L1_LOSS, &SMOOTH_L1_LOSS, &HUBER_LOSS, &POISSON_NLL_LOSS, &GAUSSIAN_NLL_LOSS];

/// Mean absolute error.
pub static L1_LOSS: OpDef = OpDef {
    sig: "l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    doc: "|self - target|: as it is (0, \"none\"), averaged (1, \"mean\") or summed (2, \"sum\").",
    record: |b, def, args| {
        let args = Args::new(def, args);
        record_loss(b, def, &[args.tensor(0)?, args.tensor(1)?], reduction_attr(&args, 2)?)
    },
    body: Body::Composite(|b, attrs, v| loss_body(b, attrs, v, |b, v| emit(b, (v[0] - v[1]).abs()))),
    samples: &[
        Sample::grad("f32[2,3] in 1..2, f32[3] in -2..-1", 16),
        Sample::grad("f32[2,3] in 1..2, f32[2,3] in -2..-1, 2", 16),
        Sample::grad("f32[2,3] in 1..2, f32[2,3] in -2..-1, 0", 16),
    ],
    refuses: &[Refusal::of("f32[2], f32[2], 3", "l1_loss: reduction 3 is none of 0, 1, 2")],
    ..LOSS
};
/// Squared error near 0, absolute error far from it.
pub static SMOOTH_L1_LOSS: OpDef = OpDef {
    sig: "smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
    doc: "With d = |self - target|: d² / (2 beta) where d < beta, else d - beta / 2. Girshick, arXiv:1504.08083.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let beta = args.float_or(3, 1.0)?;
        if beta < 0.0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("beta is not negative, got {beta}")));
        }
        let mut attrs = reduction_attr(&args, 2)?;
        attrs.push(Attr::Float(beta));
        record_loss(b, def, &[args.tensor(0)?, args.tensor(1)?], attrs)
    },
    body: Body::Composite(|b, attrs, v| {
        let beta = attrs[1].float();
        loss_body(b, attrs, v, |b, v| {
            let d = emit(b, (v[0] - v[1]).abs())?;
            if beta == 0.0 {
                return Ok(d);
            }
            emit(b, d.below(beta).choose(d * d * 0.5 / beta, d - 0.5 * beta))
        })
    }),
    samples: &[
        Sample::grad("f32[2,3] in 1..2, f32[3] in -2..-1", 16),
        Sample::grad("f32[2,3] in 1..2, f32[2,3] in -2..-1, 0, 5", 16),
        Sample::grad("f32[2,3] in 1..2, f32[2,3] in -2..-1, 2, 0", 16),
    ],
    refuses: &[Refusal::of("f32[2], f32[2], 1, -1.0", "smooth_l1_loss: beta is not negative, got -1")],
    ..LOSS
};
/// Squared error near 0, absolute error far from it, scaled alike.
pub static HUBER_LOSS: OpDef = OpDef {
    sig: "huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor",
    doc: "With d = |self - target|: d² / 2 where d ≤ delta, else delta (d - delta / 2). Huber, Ann. Math. Stat. 35 (1964).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let delta = args.float_or(3, 1.0)?;
        if delta <= 0.0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("delta is positive, got {delta}")));
        }
        let mut attrs = reduction_attr(&args, 2)?;
        attrs.push(Attr::Float(delta));
        record_loss(b, def, &[args.tensor(0)?, args.tensor(1)?], attrs)
    },
    body: Body::Composite(|b, attrs, v| {
        let delta = attrs[1].float();
        loss_body(b, attrs, v, |b, v| {
            let d = emit(b, (v[0] - v[1]).abs())?;
            emit(b, d.at_most(delta).choose(d * d * 0.5, (d - 0.5 * delta) * delta))
        })
    }),
    samples: &[
        Sample::grad("f32[2,3] in 1..2, f32[3] in -2..-1", 16),
        Sample::grad("f32[2,3] in 1..2, f32[2,3] in -2..-1, 0, 5", 16),
    ],
    refuses: &[Refusal::of("f32[2], f32[2], 1, 0.0", "huber_loss: delta is positive, got 0")],
    ..LOSS
};

/// Likelihood of counts.
pub static POISSON_NLL_LOSS: OpDef = OpDef {
    sig: "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, float eps=1e-08, \
          int reduction=1) -> Tensor",
    doc: "exp(input) - target · input, or input - target · log(input + eps) without log_input; full adds Stirling's \
          approximation of log target!, target log target - target + log(2π target) / 2, where target > 1.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut attrs = reduction_attr(&args, 5)?;
        let log_input = !matches!(args.get(2), rtx_ir::Arg::Bool(false));
        attrs.extend([Attr::Bool(log_input), Attr::Bool(args.flag(3)?), Attr::Float(args.float_or(4, 1e-8)?)]);
        record_loss(b, def, &[args.tensor(0)?, args.tensor(1)?], attrs)
    },
    body: Body::Composite(|b, attrs, v| {
        let (log_input, full, eps) = (attrs[1].bool(), attrs[2].bool(), attrs[3].float());
        loss_body(b, attrs, v, |b, v| {
            let (x, t) = (v[0], v[1]);
            let loss = emit(b, if log_input { x.exp() - t * x } else { x - t * (x + eps).log() })?;
            if !full {
                return Ok(loss);
            }
            let small = emit(b, t.at_most(1.0))?;
            let safe = emit(b, small.choose(1.0, t))?;
            let stirling = emit(b, safe * safe.log() - safe + (safe * TAU).log() * 0.5)?;
            emit(b, small.choose(loss, loss + stirling))
        })
    }),
    cost: 40,
    samples: &[
        Sample::grad("f32[2,3] in -2..2, f32[2,3] in 0..4", 16),
        Sample::grad("f32[2,3] in 0.5..2, f32[2,3] in 1.5..4, false, true, 1e-3, 0", 32),
        Sample::of("f32[2] in -2..2, f32[2] = 0 1, true, true, 1e-8, 2", 16),
    ],
    ..LOSS
};

/// Likelihood of numbers with their variances.
pub static GAUSSIAN_NLL_LOSS: OpDef = OpDef {
    sig: "gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, float eps=1e-06, int reduction=1) \
          -> Tensor",
    doc: "(log v + (input - target)² / v) / 2 with v = max(var, eps); full adds log(2π) / 2. A var of the input's shape \
          without the last dim is one for each row. The gradient passes to var as if it was not moved to eps. Nix and \
          Weigend (1994).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, mut var) = (args.tensor(0)?, args.tensor(2)?);
        let lead = b.rank(x).saturating_sub(1);
        if b.rank(x) > 0 && b.rank(var) == lead && b.shape(var).iter().eq(b.shape(x).iter().take(lead)) {
            let mut column = b.shape(var);
            column.push(1);
            var = b.reshape(var, &column)?;
        }
        let mut attrs = reduction_attr(&args, 5)?;
        attrs.extend([Attr::Bool(args.flag(3)?), Attr::Float(args.float_or(4, 1e-6)?)]);
        record_loss(b, def, &[x, args.tensor(1)?, var], attrs)
    },
    body: Body::Composite(|b, attrs, v| {
        let (full, eps) = (attrs[1].bool(), attrs[2].float());
        loss_body(b, attrs, v, |b, v| {
            let var = emit(b, v[2].max(eps))?;
            let d = emit(b, v[0] - v[1])?;
            let loss = emit(b, (var.log() + d * d / var) * 0.5)?;
            if full { emit(b, loss + 0.5 * TAU.ln()) } else { Ok(loss) }
        })
    }),
    grad: Grad::Rule(gaussian_grad),
    cost: 20,
    samples: &[
        Sample::grad("f32[2,3] in -2..2, f32[2,3] in -2..2, f32[2,1] in 0.5..2", 16),
        Sample::grad("f32[2,3] in -2..2, f32[3] in -2..2, f32[2] in 0.5..2, true, 1e-3, 0", 16),
        Sample::grad("f32[2,3] in -2..2, f32[2,3] in -2..2, f32[2,3] in 0.5..2, false, 1e-6, 2", 16),
    ],
    ..LOSS
};
/// With d = input - target: `dinput = g d / v`, `dtarget = -dinput`, `dvar = g (1/v - d²/v²) / 2`.
fn gaussian_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let eps = cx.op.attrs()[2].float();
    let g = element_cotangent(b, cx)?;
    cx.wide(b, [cx.inputs[0], cx.inputs[1], cx.inputs[2]], |b, i, _, [x, t, var]| {
        let [x, t, var] = [x, t, var].map(crate::formula::Var);
        let v = emit(b, var.max(eps))?;
        let d = emit(b, (x - t) / v)?;
        let slope = match i {
            0 => emit(b, g * d)?,
            1 => emit(b, -(g * d))?,
            _ => emit(b, g * (1.0 / v - d * d) * 0.5)?,
        };
        Ok(slope.0)
    })
}
