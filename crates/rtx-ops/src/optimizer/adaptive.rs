//! Steps scaled by what gradients were: Adagrad, Adadelta, RMSprop, Adafactor.
use super::{STEP, Step, check_numbers, flag, infer_step, replaced};
use crate::formula::{Var, emit};
use crate::precision::mean_keep;
use rtx_core::{DType, Fold, Kind, Result};
use rtx_ir::{Attr, Body, Builder, Op, OpDef, Outs, Sample, Type, Types, ValueId, rules};

/// One step of Adagrad.
pub static ADAGRAD_STEP: OpDef = OpDef {
    sig: "adagrad_step(Tensor param, Tensor grad, Tensor sum, Tensor step, Scalar lr, Scalar lr_decay, Scalar eps, \
          Scalar weight_decay, bool maximize=False) -> (Tensor, Tensor)",
    doc: "g += wd · p, s' = s + g², p' = p - lr/(1 + (t - 1) · decay) · g/(√s' + ε). Duchi et al. (2011).",
    runtime: &["lr", "lr_decay", "eps", "weight_decay"],
    infer: |op, inputs| infer_step(op, inputs, 4, 0),
    body: Body::Composite(adagrad),
    cost: 10,
    samples: &[Sample::of(
        "f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, i64[] = 3, 0.01, 0.1, 1e-10, 0.1, true",
        64,
    )],
    ..STEP
};

fn adagrad(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, lr_decay, eps, weight_decay]) = Step::read(b, v, &flag(attrs, 0), 0)?;
    s.decay(b, lr, weight_decay, false)?;
    let rate = s.round(b, lr / (1.0 + (s.t - 1.0) * lr_decay))?;
    let eps = s.round(b, eps)?;
    let sum = emit(b, s.state[0] + s.g * s.g)?;
    let p = emit(b, s.p - s.g * rate / (sum.sqrt() + eps))?;
    s.finish(b, &[p, sum])
}

/// One step of Adadelta.
pub static ADADELTA_STEP: OpDef = OpDef {
    sig: "adadelta_step(Tensor param, Tensor grad, Tensor square_avg, Tensor acc_delta, Tensor step, Scalar lr, Scalar rho, \
          Scalar eps, Scalar weight_decay, bool maximize=False) -> (Tensor, Tensor, Tensor)",
    doc: "g += wd · p, s' = ρ s + (1 - ρ) g², δ = √(a + ε)/√(s' + ε) · g, a' = ρ a + (1 - ρ) δ², p' = p - lr δ. Zeiler, \
          arXiv:1212.5701.",
    runtime: &["lr", "rho", "eps", "weight_decay"],
    infer: |op, inputs| infer_step(op, inputs, 4, 0),
    body: Body::Composite(adadelta),
    cost: 15,
    samples: &[Sample::of(
        "f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, f32[5] in 0..1, i64[] = 3, 1.0, 0.9, 1e-6, 0.1",
        64,
    )],
    ..STEP
};

fn adadelta(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, rho, eps, weight_decay]) = Step::read(b, v, &flag(attrs, 0), 0)?;
    s.decay(b, lr, weight_decay, false)?;
    let (keep, rest) = (s.round(b, rho)?, s.round(b, 1.0 - rho)?);
    let (lr, eps) = (s.round(b, lr)?, s.round(b, eps)?);
    let square = emit(b, s.state[0] * keep + s.g * rest * s.g)?;
    let delta = emit(b, (s.state[1] + eps).sqrt() / (square + eps).sqrt() * s.g)?;
    let moved = emit(b, s.state[1] * keep + delta * rest * delta)?;
    let p = emit(b, s.p - delta * lr)?;
    s.finish(b, &[p, square, moved])
}

/// One step of RMSprop. Attributes: centered, maximize.
pub static RMSPROP_STEP: OpDef = OpDef {
    sig: "rmsprop_step(Tensor param, Tensor grad, Tensor square_avg, Tensor? grad_avg, Tensor? momentum_buffer, Tensor step, \
          Scalar lr, Scalar alpha, Scalar eps, Scalar weight_decay, Scalar momentum, bool centered=False, bool maximize=False) \
          -> (Tensor, Tensor, Tensor, Tensor)",
    doc: "g += wd · p, s' = α s + (1 - α) g², d = √s' + ε, centered √(s' - m'²) + ε with the mean m' of the gradient; \
          p' = p - lr g/d, with a momentum buffer b' = μ b + g/d, p' = p - lr b'. Hinton (2012), lecture 6; Graves, \
          arXiv:1308.0850.",
    runtime: &["lr", "alpha", "eps", "weight_decay", "momentum"],
    infer: |op, inputs| infer_step(op, inputs, 5, 0),
    body: Body::Composite(rmsprop),
    cost: 15,
    samples: &[
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, none, none, i64[] = 3, 0.01, 0.99, 1e-8, 0.1, 0.0",
            64,
        ),
        Sample::of(
            "f32[5] in -1..1, f32[5] in 0.5..1, f32[5] in 1..2, f32[5] in -0.5..0.5, f32[5] in -1..1, i64[] = 3, 0.01, 0.9, 1e-8, 0.1, \
             0.9, true",
            64,
        ),
    ],
    ..STEP
};

fn rmsprop(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let centered = attrs[0].bool();
    let (mut s, [lr, alpha, eps, weight_decay, momentum]) = Step::read(b, v, &flag(attrs, 1), 0)?;
    s.decay(b, lr, weight_decay, false)?;
    let (keep, rest) = (s.round(b, alpha)?, s.round(b, 1.0 - alpha)?);
    let (lr, eps, momentum) = (s.round(b, lr)?, s.round(b, eps)?, s.round(b, momentum)?);
    let square = emit(b, s.state[0] * keep + s.g * rest * s.g)?;
    let mut new = vec![s.p, square];
    let mut spread = square;
    if centered {
        let old = s.state[1];
        let mean = emit(b, old + (s.g - old) * rest)?;
        spread = emit(b, square - mean * mean)?;
        new.push(mean);
    }
    let below = emit(b, spread.sqrt() + eps)?;
    new[0] = match s.state.get(1 + usize::from(centered)) {
        None => emit(b, s.p - s.g * lr / below)?,
        Some(&old) => {
            let buffer = emit(b, old * momentum + s.g / below)?;
            new.push(buffer);
            emit(b, s.p - buffer * lr)?
        }
    };
    s.finish(b, &new)
}

/// One step of Adafactor.
pub static ADAFACTOR_STEP: OpDef = OpDef {
    sig: "adafactor_step(Tensor param, Tensor grad, Tensor? row_var, Tensor? col_var, Tensor? variance, Tensor step, Scalar lr, \
          Scalar beta2_decay, Scalar eps1, Scalar eps2, Scalar d, Scalar weight_decay, bool maximize=False) \
          -> (Tensor, Tensor, Tensor)",
    doc: "The second moment of a matrix kept as a row and a column: v = r c / mean(r), u = g/√max(v, ε1²), \
          p' = p - α u/max(1, rms(u)/d) with α = max(ε2, rms(p)) · min(lr, 1/√t); moving means take t^decay of what is new. \
          Vectors keep the whole moment. A negative ε1 stands \
          for the epsilon of the parameter's dtype. Shazeer and Stern, arXiv:1804.04235.",
    runtime: &["lr", "beta2_decay", "eps1", "eps2", "d", "weight_decay"],
    infer: infer_adafactor,
    body: Body::Composite(adafactor),
    cost: 40,
    samples: &[
        Sample::of(
            "f32[3,4] in -1..1, f32[3,4] in -1..1, f32[3,1] in 0.1..1, f32[1,4] in 0.1..1, none, i64[] = 3, 0.01, -0.8, 1e-7, 1e-3, 1.0, 0.1",
            256,
        ),
        Sample::of(
            "f32[4] in -1..1, f32[4] in -1..1, none, none, f32[4] in 0.1..1, i64[] = 1, 0.01, -0.8, 1e-7, 1e-3, 1.0, 0.1, true",
            256,
        ),
    ],
    ..STEP
};

fn infer_adafactor(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let tensors = check_numbers(op, inputs, 6)?;
    let of = |t: &Type, folded: usize| {
        (0..t.rank()).all(|i| {
            let size = t.shape.dim(i);
            if i == folded {
                size.is_one()
            } else {
                tensors[0].shape.rank() == t.rank() && size == tensors[0].shape.dim(i)
            }
        })
    };
    let rank = tensors[0].rank();
    let fits = match tensors[2..] {
        [row, column] if rank > 1 => of(row, rank - 1) && of(column, rank - 2),
        [whole] => rank <= 1 && whole.shape == tensors[0].shape,
        _ => false,
    };
    if !fits || tensors[0].shape != tensors[1].shape || tensors.iter().any(|t| !t.dtype.is_float()) {
        let what = format_args!("parameter, gradient and state differ: {}", rules::show(tensors));
        return Err(rules::refuse(op.name(), Kind::Shape, what));
    }
    Ok(replaced(tensors))
}

fn adafactor(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut s, [lr, beta2_decay, eps1, eps2, d, weight_decay]) = Step::read(b, v, &flag(attrs, 0), 0)?;
    let new_part = s.round(b, s.t.pow(beta2_decay))?;
    let rate = s.round(b, lr.min(1.0 / s.t.sqrt()))?;
    let own = Var(b.constant(DType::F64, epsilon(b.dtype(v[0])))?);
    let eps1 = emit(b, eps1.below(0.0).choose(own, eps1))?;
    let (eps1, eps2, d) = (s.round(b, eps1)?, s.round(b, eps2)?, s.round(b, d)?);
    let size = root_mean_square(b, s.p)?;
    let alpha = emit(b, eps2.max(size) * rate)?;
    s.decay(b, lr, weight_decay, true)?;
    let rank = b.rank(s.p.0);
    let square = emit(b, s.g * s.g)?;
    let (variance, kept) = if rank > 1 {
        let (rows, columns) = (mean_keep(b, square.0, &[rank - 1])?, mean_keep(b, square.0, &[rank - 2])?);
        let row = emit(b, s.state[0] + (Var(rows) - s.state[0]) * new_part)?;
        let column = emit(b, s.state[1] + (Var(columns) - s.state[1]) * new_part)?;
        let mean = Var(mean_keep(b, row.0, &[rank - 2])?);
        (emit(b, row * column / mean.max(eps1))?, vec![row, column])
    } else {
        let whole = emit(b, s.state[0] + (square - s.state[0]) * new_part)?;
        (whole, vec![whole])
    };
    let update = emit(b, s.g / variance.max(eps1 * eps1).sqrt())?;
    let size = root_mean_square(b, update)?;
    let p = emit(b, s.p - update * (alpha / (size / d).max(1.0)))?;
    s.finish(b, &[vec![p], kept].concat())
}

/// The distance from 1 to the next number of a float type.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f32::EPSILON.into(),
    }
}

/// √(mean x²), one number.
fn root_mean_square(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    let shape = b.shape(x.0);
    let axes: Vec<usize> = (0..shape.rank()).collect();
    let square = emit(b, x * x)?;
    let sum = b.reduce(Fold::Sum, square.0, &axes)?;
    let dtype: DType = b.dtype(sum);
    let count = crate::precision::count(b, dtype, &shape, &axes)?;
    emit(b, (Var(sum) / Var(count)).sqrt())
}
