//! Reductions and normalizations of what a mask keeps (`torch.masked`).
use crate::args::Args;
use crate::distance::norm;
use crate::precision::{float_of, widen};
use crate::reduce::{AMAX, AMIN, ARGMAX, ARGMIN, SUM};
use crate::scan::{CUMPROD, CUMSUM};
use crate::softmax::{LOG_SOFTMAX, LOGSUMEXP, SOFTMAX};
use crate::sort::NANMEDIAN;
use crate::spelling::SPELLING;
use rtx_core::{DType, Kind, Result, Scalar};
use rtx_ir::{Arg, Bound, Builder, Grad, OpDef, Outs, Refusal, Sample, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &MASKED_SUM,
    &MASKED_MEAN,
    &MASKED_PROD,
    &MASKED_AMAX,
    &MASKED_AMIN,
    &MASKED_ARGMAX,
    &MASKED_ARGMIN,
    &MASKED_VAR,
    &MASKED_STD,
    &MASKED_NORM,
    &MASKED_SOFTMAX,
    &MASKED_LOG_SOFTMAX,
    &MASKED_SOFTMIN,
    &MASKED_NORMALIZE,
    &MASKED_LOGSUMEXP,
    &MASKED_LOGADDEXP,
    &MASKED_CUMSUM,
    &MASKED_CUMPROD,
    &MASKED_MEDIAN,
];

/// Argument `i` as a mask of `x`, or nothing: bool, and it broadcasts to x's shape.
fn mask_of(b: &mut Builder<'_>, args: &Args<'_>, i: usize, x: ValueId) -> Result<Option<ValueId>> {
    let Some(mask) = args.optional_tensor(i)? else { return Ok(None) };
    let (ty, shape) = (b.ty(mask).clone(), b.shape(x));
    let fits = ty.dtype == DType::Bool && rules::broadcast_shapes(&[&ty.shape, &shape]).is_ok_and(|s| s == shape);
    if !fits {
        let what = format_args!("the mask is bool and broadcasts to {shape}, got {ty}");
        return Err(rules::refuse(args.op(), Kind::Shape, what));
    }
    Ok(Some(b.expand(mask, &shape)?))
}
/// `x` where the mask holds, else the fill.
fn kept(b: &mut Builder<'_>, mask: Option<ValueId>, x: ValueId, fill: f64) -> Result<ValueId> {
    match mask {
        None => Ok(x),
        Some(mask) => {
            let fill = b.constant(b.dtype(x), fill)?;
            b.select(mask, x, fill)
        }
    }
}
/// `(self, dim, keepdim, dtype, mask)`: x of the dtype, and its mask.
fn operands(b: &mut Builder<'_>, args: &Args<'_>, dtype: usize, mask: usize) -> Result<(ValueId, Option<ValueId>)> {
    let mut x = args.tensor(0)?;
    if let Some(dtype) = args.dtype(dtype)? {
        x = b.cast(x, dtype)?;
    }
    let mask = mask_of(b, args, mask, x)?;
    Ok((x, mask))
}
/// How many elements a mask keeps over the axes, which stay as dims of size 1.
fn kept_count(b: &mut Builder<'_>, mask: Option<ValueId>, x: ValueId, dtype: DType, axes: &[usize]) -> Result<ValueId> {
    let ones = match mask {
        Some(mask) => b.cast(mask, dtype)?,
        None => b.full(dtype, &b.shape(x), 1.0)?,
    };
    b.reduce_keep(rtx_core::Fold::Sum, ones, axes)
}
/// A dim that was kept goes away unless asked for.
fn finish(b: &mut Builder<'_>, y: ValueId, axes: &[usize], keep: bool) -> Result<ValueId> {
    if keep {
        return Ok(y);
    }
    let shape = b.shape(y);
    let rest = (0..shape.rank()).filter(|i| !axes.contains(i)).map(|i| shape.dim(i)).collect();
    b.reshape(y, &rest)
}

/// Sum.
pub static MASKED_SUM: OpDef = OpDef {
    sig: "masked_sum(Tensor self, int[1]? dim=None, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) \
          -> Tensor",
    doc: "The sum over the dims of the elements that the mask keeps; 0 where it keeps none.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, mask) = operands(b, &args, 3, 4)?;
        let x = kept(b, mask, x, 0.0)?;
        b.call(&SUM, [Arg::Value(x), a.get(1).clone(), a.get(2).clone(), Arg::None])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, [1], false, none, bool[2,3]", 16),
        Sample::grad("f32[2,3] in -2..2, none, true, none, bool[3]", 16),
        Sample::exact("i64[2,3] in -2..2, 0"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], 0, false, none, f32[3]",
        "masked_sum: the mask is bool and broadcasts to [2, 3], got f32 [3]",
    )],
    ..SPELLING
};
/// Product.
pub static MASKED_PROD: OpDef = OpDef {
    sig: "masked_prod(Tensor self, int[1]? dim=None, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) \
          -> Tensor",
    doc: "The product over the dims of the elements that the mask keeps; 1 where it keeps none.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, mask) = operands(b, &args, 3, 4)?;
        let mut y = kept(b, mask, x, 1.0)?;
        if !b.dtype(y).is_float() {
            y = b.cast(y, DType::I64)?;
        }
        let axes = args.dims_or_all(1, b.rank(y))?;
        let y = b.reduce_keep(rtx_core::Fold::Prod, y, &axes)?;
        Ok(smallvec![finish(b, y, &axes, args.flag(2)?)?])
    },
    samples: &[
        Sample::grad("f32[2,3] in 0.5..2, [1], false, none, bool[2,3]", 16),
        Sample::exact("i64[2,3] in 1..3, [0,1], true"),
    ],
    ..SPELLING
};
/// Mean.
pub static MASKED_MEAN: OpDef = OpDef {
    sig: "masked_mean(Tensor self, int[1]? dim=None, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) \
          -> Tensor",
    doc: "The sum over the dims of the elements that the mask keeps, divided by how many these are; NaN where it keeps none.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, mask) = operands(b, &args, 3, 4)?;
        let (dtype, axes) = (float_of(b.dtype(x)), args.dims_or_all(1, b.rank(x))?);
        let x = b.cast(x, rules::number_dtype(dtype))?;
        let y = mean(b, x, mask, &axes)?;
        let y = b.cast(y, dtype)?;
        Ok(smallvec![finish(b, y, &axes, args.flag(2)?)?])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, [1], false, none, bool[2,3] = 1 0 1 0 1 1", 16),
        Sample::grad("f32[2,3] in -2..2", 16),
        Sample::of("f32[2,2] in -2..2, 1, false, none, bool[2,2] = 1 0 0 0", 16),
    ],
    ..SPELLING
};
fn mean(b: &mut Builder<'_>, x: ValueId, mask: Option<ValueId>, axes: &[usize]) -> Result<ValueId> {
    let filled = kept(b, mask, x, 0.0)?;
    let sum = b.reduce_keep(rtx_core::Fold::Sum, filled, axes)?;
    let n = kept_count(b, mask, x, b.dtype(x), axes)?;
    b.div(sum, n)
}

/// Maximum.
pub static MASKED_AMAX: OpDef = OpDef {
    sig: "masked_amax(Tensor self, int[1]? dim=None, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) \
          -> Tensor",
    doc: "The largest element over the dims that the mask keeps; where it keeps none -∞, or the smallest integer.",
    record: |b, def, a| extremum(b, def, a, &AMAX, false),
    samples: &[
        Sample::grad("f32[2,3] in -2..2, [1], false, none, bool[2,3] = 1 0 1 0 1 1", 0),
        Sample::grad("f32[2,3] in -2..2", 0),
    ],
    ..SPELLING
};
/// Minimum.
pub static MASKED_AMIN: OpDef = OpDef {
    sig: "masked_amin(Tensor self, int[1]? dim=None, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) \
          -> Tensor",
    doc: "The smallest element over the dims that the mask keeps; where it keeps none ∞, or the largest integer.",
    record: |b, def, a| extremum(b, def, a, &AMIN, true),
    samples: &[
        Sample::grad("f32[2,3] in -2..2, [1], false, none, bool[2,3] = 1 0 1 0 1 1", 0),
        Sample::grad("f32[2,3] in -2..2", 0),
    ],
    ..SPELLING
};
fn extremum(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound, op: &'static OpDef, largest: bool) -> Result<Outs> {
    let args = Args::new(def, a);
    let (x, mask) = operands(b, &args, 3, 4)?;
    let x = filled_with_end(b, mask, x, largest)?;
    let dims = if *a.get(1) == Arg::None { Arg::Ints(smallvec![]) } else { a.get(1).clone() };
    b.call(op, [Arg::Value(x), dims, a.get(2).clone()])
}
/// The largest or smallest number of the dtype where the mask does not hold.
fn filled_with_end(b: &mut Builder<'_>, mask: Option<ValueId>, x: ValueId, largest: bool) -> Result<ValueId> {
    let Some(mask) = mask else { return Ok(x) };
    let dtype = b.dtype(x);
    let bits = 8 * dtype.size() as u32;
    let end = match (dtype.is_float(), largest) {
        (true, true) => Scalar::Float(f64::INFINITY),
        (true, false) => Scalar::Float(f64::NEG_INFINITY),
        (false, true) => Scalar::Int(i64::MAX >> (64 - bits)),
        (false, false) => Scalar::Int(i64::MIN >> (64 - bits)),
    };
    let end = b.constant(dtype, end)?;
    b.select(mask, x, end)
}

/// Position of the maximum.
pub static MASKED_ARGMAX: OpDef = OpDef {
    sig: "masked_argmax(Tensor self, int? dim=None, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) \
          -> Tensor",
    doc: "Position along dim (or in the flattened tensor) of the first maximum of the elements that the mask keeps, as a number of \
          the elements' dtype.",
    record: |b, def, a| position(b, def, a, &ARGMAX, false),
    grad: Grad::None,
    samples: &[Sample::exact("f32[2,3] in -2..2, 1, false, none, bool[2,3]"), Sample::exact("f32[2,3] in -2..2")],
    ..SPELLING
};
/// Position of the minimum.
pub static MASKED_ARGMIN: OpDef = OpDef {
    sig: "masked_argmin(Tensor self, int? dim=None, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) \
          -> Tensor",
    doc: "Position along dim (or in the flattened tensor) of the first minimum of the elements that the mask keeps, as a number of \
          the elements' dtype.",
    record: |b, def, a| position(b, def, a, &ARGMIN, true),
    grad: Grad::None,
    samples: &[Sample::exact("f32[2,3] in -2..2, 1, false, none, bool[2,3]"), Sample::exact("f32[2,3] in -2..2")],
    ..SPELLING
};
fn position(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound, op: &'static OpDef, largest: bool) -> Result<Outs> {
    let args = Args::new(def, a);
    let (x, mask) = operands(b, &args, 3, 4)?;
    let x = filled_with_end(b, mask, x, largest)?;
    // PyTorch returns the position in the dtype of the elements.
    let dtype = b.dtype(x);
    let y = b.call(op, [Arg::Value(x), a.get(1).clone(), a.get(2).clone()])?[0];
    Ok(smallvec![b.cast(y, dtype)?])
}

/// Variance.
pub static MASKED_VAR: OpDef = OpDef {
    sig: "masked_var(Tensor self, int[1]? dim=None, bool? unbiased=None, *, Scalar? correction=None, bool keepdim=False, \
          ScalarType? dtype=None, Tensor? mask=None) -> Tensor",
    doc: "Σ (x - mean)² / max(n - correction, 0) over the n elements that the mask keeps; the correction is 1, or 0 where \
          unbiased is false.",
    record: |b, def, a| {
        let (y, dtype) = spread(b, def, a)?;
        Ok(smallvec![b.cast(y, dtype)?])
    },
    samples: &[
        Sample::grad("f32[2,4] in -2..2, [1], none, none, false, none, bool[2,4] = 1 0 1 1 0 1 1 1", 64),
        Sample::grad("f32[2,3] in -2..2, 0, false, none, true", 64),
    ],
    ..SPELLING
};
/// Standard deviation.
pub static MASKED_STD: OpDef = OpDef {
    sig: "masked_std(Tensor self, int[1]? dim=None, bool? unbiased=None, *, Scalar? correction=None, bool keepdim=False, \
          ScalarType? dtype=None, Tensor? mask=None) -> Tensor",
    doc: "√ of masked_var.",
    record: |b, def, a| {
        let (y, dtype) = spread(b, def, a)?;
        let y = b.sqrt(y)?;
        Ok(smallvec![b.cast(y, dtype)?])
    },
    samples: &[
        Sample::grad("f32[2,4] in -2..2, [1], none, none, false, none, bool[2,4] = 1 0 1 1 0 1 1 1", 64),
        Sample::grad("f32[2,3] in -2..2, 0, false, none, true", 64),
    ],
    ..SPELLING
};
/// The variance in compute precision, and to which dtype it is rounded.
fn spread(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound) -> Result<(ValueId, DType)> {
    let args = Args::new(def, a);
    let (x, mask) = operands(b, &args, 5, 6)?;
    let unbiased = !matches!(a.get(2), Arg::Bool(false) | Arg::Scalar(Scalar::Bool(false)));
    let correction = args.float_or(3, f64::from(u8::from(unbiased)))?;
    let (dtype, axes) = (float_of(b.dtype(x)), args.dims_or_all(1, b.rank(x))?);
    let x = b.cast(x, rules::number_dtype(dtype))?;
    let center = mean(b, x, mask, &axes)?;
    let off = b.sub(x, center)?;
    let square = b.mul(off, off)?;
    let square = kept(b, mask, square, 0.0)?;
    let sum = b.reduce_keep(rtx_core::Fold::Sum, square, &axes)?;
    let n = kept_count(b, mask, x, b.dtype(x), &axes)?;
    let n = b.sub(n, correction)?;
    let n = b.max(n, 0.0)?;
    let y = b.div(sum, n)?;
    Ok((finish(b, y, &axes, args.flag(4)?)?, dtype))
}

/// Vector norm.
pub static MASKED_NORM: OpDef = OpDef {
    sig: "masked_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, *, bool keepdim=False, ScalarType? dtype=None, \
          Tensor? mask=None) -> Tensor",
    doc: "(Σ |x|^ord)^(1/ord) over the dims, of the elements that the mask keeps; ord is 2 by default.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, mask) = operands(b, &args, 4, 5)?;
        rules::check_float(def.name(), b.ty(x))?;
        let (order, axes) = (args.float_or(1, 2.0)?, args.dims_or_all(2, b.rank(x))?);
        let x = kept(b, mask, x, if order >= 0.0 { 0.0 } else { f64::INFINITY })?;
        Ok(smallvec![norm(b, x, order, &axes, args.flag(3)?)?])
    },
    samples: &[
        Sample::grad("f32[2,3] in 0.5..2, 2, [1], false, none, bool[2,3] = 1 0 1 0 1 1", 64),
        Sample::grad("f32[2,3] in 0.5..2, 3", 64),
    ],
    ..SPELLING
};

/// `(self, dim, dtype, mask)`: x with the fill where the mask does not hold.
fn along(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound, fill: f64) -> Result<(ValueId, i64)> {
    let args = Args::new(def, a);
    let (mut x, mask) = operands(b, &args, 2, 3)?;
    if !b.dtype(x).is_float() {
        x = b.cast(x, DType::F32)?;
    }
    Ok((kept(b, mask, x, fill)?, args.int(1)?))
}
/// Softmax.
pub static MASKED_SOFTMAX: OpDef = OpDef {
    sig: "masked_softmax(Tensor self, int dim, *, ScalarType? dtype=None, Tensor? mask=None) -> Tensor",
    doc: "softmax along dim with -∞ where the mask does not hold; NaN where it keeps nothing.",
    record: |b, def, a| {
        let (x, dim) = along(b, def, a, f64::NEG_INFINITY)?;
        b.call(&SOFTMAX, [Arg::Value(x), dim_arg(dim), Arg::None])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, 1, none, bool[2,3] = 1 0 1 0 1 1", 16),
        Sample::grad("f32[2,3] in -2..2, 0", 16),
    ],
    ..SPELLING
};
/// Logarithm of softmax.
pub static MASKED_LOG_SOFTMAX: OpDef = OpDef {
    sig: "masked_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None, Tensor? mask=None) -> Tensor",
    doc: "log_softmax along dim with -∞ where the mask does not hold.",
    record: |b, def, a| {
        let (x, dim) = along(b, def, a, f64::NEG_INFINITY)?;
        b.call(&LOG_SOFTMAX, [Arg::Value(x), dim_arg(dim), Arg::None])
    },
    samples: &[
        Sample::of("f32[2,3] in -2..2, 1, none, bool[2,3] = 1 0 1 0 1 1", 16),
        Sample::grad("f32[2,3] in -2..2, 0", 16),
    ],
    ..SPELLING
};
/// Softmax of the negative.
pub static MASKED_SOFTMIN: OpDef = OpDef {
    sig: "masked_softmin(Tensor self, int dim, *, ScalarType? dtype=None, Tensor? mask=None) -> Tensor",
    doc: "softmax(-x) along dim with 0 where the mask does not hold; NaN where it keeps nothing.",
    record: |b, def, a| {
        let (x, dim) = along(b, def, a, f64::INFINITY)?;
        let x = b.neg(x)?;
        b.call(&SOFTMAX, [Arg::Value(x), dim_arg(dim), Arg::None])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, 1, none, bool[2,3] = 1 0 1 0 1 1", 16),
        Sample::grad("f32[2,3] in -2..2, 0", 16),
    ],
    ..SPELLING
};
fn dim_arg(dim: i64) -> Arg {
    Arg::Scalar(Scalar::Int(dim))
}

/// Vectors of length one.
pub static MASKED_NORMALIZE: OpDef = OpDef {
    sig: "masked_normalize(Tensor self, Scalar ord, int dim, *, float eps=1e-12, ScalarType? dtype=None, \
          Tensor? mask=None) -> Tensor",
    doc: "x / max(|x|_ord, eps) along dim, 0 in place of what the mask does not keep.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, mask) = operands(b, &args, 4, 5)?;
        rules::check_float(def.name(), b.ty(x))?;
        let (order, eps) = (args.float_or(1, 2.0)?, args.float_or(3, 1e-12)?);
        let axes: SmallVec<[usize; 1]> = if b.rank(x) == 0 { smallvec![] } else { smallvec![args.dim(2, b.rank(x))?] };
        let wide = widen(b, x)?;
        let measured = kept(b, mask, wide, if order >= 0.0 { 0.0 } else { f64::INFINITY })?;
        let length = norm(b, measured, order, &axes, true)?;
        let length = b.max(length, eps)?;
        let shown = kept(b, mask, wide, 0.0)?;
        let y = b.div(shown, length)?;
        Ok(smallvec![b.cast(y, b.dtype(x))?])
    },
    samples: &[
        Sample::grad("f32[2,3] in 0.5..2, 2, 1, 1e-12, none, bool[2,3] = 1 0 1 0 1 1", 64),
        Sample::grad("f32[2,3] in 0.5..2, 1, 0", 64),
    ],
    ..SPELLING
};
/// Logarithm of a sum of exponentials.
pub static MASKED_LOGSUMEXP: OpDef = OpDef {
    sig: "masked_logsumexp(Tensor self, int[1]? dim=None, *, bool keepdim=False, ScalarType? dtype=None, \
          Tensor? mask=None) -> Tensor",
    doc: "log Σ exp x over the dims, of the elements that the mask keeps; -∞ where it keeps none.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (mut x, mask) = operands(b, &args, 3, 4)?;
        if !b.dtype(x).is_float() {
            x = b.cast(x, DType::F32)?;
        }
        let x = kept(b, mask, x, f64::NEG_INFINITY)?;
        let dims = if *a.get(1) == Arg::None { Arg::Ints(smallvec![]) } else { a.get(1).clone() };
        b.call(&LOGSUMEXP, [Arg::Value(x), dims, a.get(2).clone()])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, [1], false, none, bool[2,3] = 1 0 1 0 1 1", 16),
        Sample::grad("f32[2,3] in -2..2", 16),
    ],
    ..SPELLING
};
/// Logarithm of the sum of two exponentials.
pub static MASKED_LOGADDEXP: OpDef = OpDef {
    sig: "masked_logaddexp(Tensor self, Tensor other, *, ScalarType? dtype=None, Tensor? input_mask=None, \
          Tensor? other_mask=None) -> Tensor",
    doc: "log(exp self + exp other), -∞ in place of what the masks do not keep.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (mut x, mut y) = (args.tensor(0)?, args.tensor(1)?);
        if let Some(dtype) = args.dtype(2)? {
            (x, y) = (b.cast(x, dtype)?, b.cast(y, dtype)?);
        }
        rules::check_float(def.name(), b.ty(x))?;
        rules::check_float(def.name(), b.ty(y))?;
        let masks = [mask_of(b, &args, 3, x)?, mask_of(b, &args, 4, y)?];
        let x = kept(b, masks[0], x, f64::NEG_INFINITY)?;
        let y = kept(b, masks[1], y, f64::NEG_INFINITY)?;
        b.call(&crate::pairs::LOGADDEXP, [Arg::Value(x), Arg::Value(y)])
    },
    samples: &[
        Sample::of("f32[2,3] in -2..2, f32[2,3] in -2..2, none, bool[2,3] = 1 0 1 0 1 1, bool[3] = 1 1 1", 16),
        Sample::grad("f32[2,3] in -2..2, f32[2,3] in -2..2", 16),
    ],
    ..SPELLING
};

/// `(self, dim, dtype, mask)` with a neutral number where the mask does not hold.
fn running(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound, (op, neutral): (&'static OpDef, f64)) -> Result<Outs> {
    let args = Args::new(def, a);
    let (x, mask) = operands(b, &args, 2, 3)?;
    let x = kept(b, mask, x, neutral)?;
    b.call(op, [Arg::Value(x), a.get(1).clone(), Arg::None])
}
/// Running sums.
pub static MASKED_CUMSUM: OpDef = OpDef {
    sig: "masked_cumsum(Tensor self, int dim, *, ScalarType? dtype=None, Tensor? mask=None) -> Tensor",
    doc: "Running sums along dim of the elements that the mask keeps; the others add nothing.",
    record: |b, def, a| running(b, def, a, (&CUMSUM, 0.0)),
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 1, none, bool[2,5]", 16),
        Sample::exact("i64[2,3] in -2..2, 0, none, bool[3]"),
    ],
    ..SPELLING
};
/// Running products.
pub static MASKED_CUMPROD: OpDef = OpDef {
    sig: "masked_cumprod(Tensor self, int dim, *, ScalarType? dtype=None, Tensor? mask=None) -> Tensor",
    doc: "Running products along dim of the elements that the mask keeps; the others change nothing.",
    record: |b, def, a| running(b, def, a, (&CUMPROD, 1.0)),
    samples: &[Sample::grad("f32[2,5] in -2..2, 1, none, bool[2,5]", 16)],
    ..SPELLING
};
/// Median.
pub static MASKED_MEDIAN: OpDef = OpDef {
    sig: "masked_median(Tensor self, int dim=-1, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) -> Tensor",
    doc: "The lower median along dim of the elements that the mask keeps, NaN left out; NaN where it keeps none.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, mask) = operands(b, &args, 3, 4)?;
        rules::check_float(def.name(), b.ty(x))?;
        let x = kept(b, mask, x, f64::NAN)?;
        let mut outs = b.call(&NANMEDIAN, [Arg::Value(x), a.get(1).clone(), a.get(2).clone()])?;
        outs.truncate(1);
        Ok(outs)
    },
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 1, false, none, bool[2,5] = 1 0 1 1 0 0 1 1 0 1", 0),
        Sample::exact("f32[2,3] in -2..2, 0, true"),
        Sample::exact("f32[1,2] in -2..2, 1, false, none, bool[1,2] = 0 0"),
    ],
    refuses: &[Refusal::of("i64[2,3], 0", "masked_median: needs a float tensor, got i64 [2, 3]")],
    ..SPELLING
};
