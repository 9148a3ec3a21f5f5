//! Reductions over dims: a list, one, or all of them where none is given.
use crate::args::Args;
use crate::precision::{count, float_of, folded_shape, mean_keep, widen};
use crate::spelling::SPELLING;
use rtx_core::{DType, Extremum, Fold, Kind, Result, Scalar};
use rtx_ir::{
    Arg, Attr, Attrs, Body, Bound, Builder, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Refusal, Sample, Saves,
    Stability, Type, Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] =
    &[&SUM, &MEAN, &AMAX, &AMIN, &PROD, &VAR, &STD, &VECTOR_NORM, &ARGMAX, &ARGMIN, &ALL_OF, &ANY];

/// `(axes, keep)` of a reduction's attributes.
pub(crate) fn axes_attr(attrs: &[Attr]) -> (SmallVec<[usize; 4]>, bool) {
    (attrs[0].ints().iter().map(|&a| a as usize).collect(), attrs[1].bool())
}

/// Folds and drops or keeps the dims.
pub(crate) fn fold(b: &mut Builder<'_>, fold: Fold, x: ValueId, axes: &[usize], keep: bool) -> Result<ValueId> {
    if keep { b.reduce_keep(fold, x, axes) } else { b.reduce(fold, x, axes) }
}

/// Sums and products of integers and bools are `i64`.
pub(crate) fn accumulated(dtype: DType) -> DType {
    if dtype.is_int() || dtype == DType::Bool { DType::I64 } else { dtype }
}

/// Sum.
pub static SUM: OpDef = OpDef {
    sig: "sum.dim_IntList(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "Sum over the dims; integers and bools add up as i64.",
    record: |b, def, args| record_accumulation(b, def, args, Fold::Sum),
    samples: &[
        Sample { args: "f32[2,3] in -2..2", ulps: 16, grad: true },
        Sample { args: "f32[2,3,4] in -2..2, [0,-1]", ulps: 16, grad: true },
        Sample { args: "f32[2,3] in -2..2, [1], true", ulps: 16, grad: true },
        Sample { args: "i32[5] in 0..9", ulps: 0, grad: false },
        Sample { args: "bool[5]", ulps: 0, grad: false },
        Sample { args: "f32[0]", ulps: 0, grad: true },
    ],
    refuses: &[
        Refusal { args: "f32[2,3], [2]", message: "sum: dim 2 is outside -2..2 for a tensor of rank 2" },
        Refusal { args: "f32[2,3], [1,-1]", message: "sum: dim 1 is given twice" },
    ],
    stability: Stability::Stable,
    ..SPELLING
};

/// Product.
pub static PROD: OpDef = OpDef {
    sig: "prod.dim_int(Tensor self, int? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "Product over the dims; integers and bools multiply as i64.",
    record: |b, def, args| record_accumulation(b, def, args, Fold::Prod),
    samples: &[
        Sample { args: "f32[2,3] in 0.5..2, 1", ulps: 16, grad: true },
        Sample { args: "i64[3] in 1..4", ulps: 0, grad: false },
    ],
    ..SPELLING
};

/// `(self, dim, keepdim, dtype)`.
fn record_accumulation(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, f: Fold) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    let dtype = args.dtype(3)?.unwrap_or(accumulated(b.dtype(x)));
    let axes = args.dims_or_all(1, b.rank(x))?;
    let x = b.cast(x, dtype)?;
    Ok(smallvec![fold(b, f, x, &axes, args.flag(2)?)?])
}

/// Maximum.
pub static AMAX: OpDef = OpDef {
    sig: "amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    doc: "Maximum over the dims; NaN wins. The gradient is shared among equal maxima.",
    record: |b, def, args| record_extremum(b, def, args, Fold::Max),
    samples: &[
        Sample { args: "f32[2,5] in -9..9, 1", ulps: 0, grad: true },
        Sample { args: "i64[2,5] in -9..9", ulps: 0, grad: false },
    ],
    refuses: &[Refusal { args: "f32[2,0], 1", message: "amax: nothing to compare: f32 [2, 0] has size 0 along dim 1" }],
    stability: Stability::Stable,
    ..SPELLING
};
/// Minimum.
pub static AMIN: OpDef = OpDef {
    sig: "amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
    doc: "Minimum over the dims; NaN wins. The gradient is shared among equal minima.",
    record: |b, def, args| record_extremum(b, def, args, Fold::Min),
    samples: &[Sample { args: "f32[2,5] in -9..9, 0, true", ulps: 0, grad: true }],
    ..SPELLING
};

pub(crate) fn record_extremum(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, f: Fold) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    let axes = args.dims_or_all(1, b.rank(x))?;
    check_not_empty(def, b.ty(x), &axes)?;
    Ok(smallvec![fold(b, f, x, &axes, args.flag(2)?)?])
}

/// An extremum of nothing does not exist.
pub(crate) fn check_not_empty(def: &OpDef, x: &Type, axes: &[usize]) -> Result<()> {
    match axes.iter().find(|&&a| x.shape.dim(a).known() == Some(0)) {
        None => Ok(()),
        Some(a) => Err(rules::refuse(
            def.name(),
            Kind::Shape,
            format_args!("nothing to compare: {x} has size 0 along dim {a}"),
        )),
    }
}

/// All true?
pub static ALL_OF: OpDef = OpDef {
    sig: "all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    doc: "Are all elements over the dims not zero?",
    record: |b, def, args| record_logical(b, def, args, Fold::Min),
    samples: &[
        Sample { args: "bool[2,3], [1]", ulps: 0, grad: false },
        Sample { args: "f32[2,3] in 0..2", ulps: 0, grad: false },
    ],
    ..SPELLING
};
/// Any true?
pub static ANY: OpDef = OpDef {
    sig: "any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
    doc: "Is any element over the dims not zero?",
    record: |b, def, args| record_logical(b, def, args, Fold::Max),
    samples: &[Sample { args: "bool[2,3], [0], true", ulps: 0, grad: false }],
    ..SPELLING
};

fn record_logical(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, f: Fold) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = b.cast(args.tensor(0)?, DType::Bool)?;
    let axes = args.dims_or_all(1, b.rank(x))?;
    Ok(smallvec![fold(b, f, x, &axes, args.flag(2)?)?])
}

/// Position of the maximum.
pub static ARGMAX: OpDef = OpDef {
    sig: "argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    doc: "Position of the first maximum along dim, or in the flattened tensor; the first NaN wins.",
    record: |b, def, args| record_arg(b, def, args, Extremum::Max),
    grad: Grad::None,
    samples: &[
        Sample { args: "f32[2,5] in -9..9, 1", ulps: 0, grad: false },
        Sample { args: "f32[2,5] in -9..9", ulps: 0, grad: false },
    ],
    refuses: &[Refusal {
        args: "f32[2,0], 1",
        message: "argmax: nothing to compare: f32 [2, 0] has size 0 along dim 1",
    }],
    ..SPELLING
};
/// Position of the minimum.
pub static ARGMIN: OpDef = OpDef {
    sig: "argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
    doc: "Position of the first minimum along dim, or in the flattened tensor; the first NaN wins.",
    record: |b, def, args| record_arg(b, def, args, Extremum::Min),
    grad: Grad::None,
    samples: &[Sample { args: "f32[2,5] in -9..9, 0, true", ulps: 0, grad: false }],
    ..SPELLING
};

pub(crate) fn record_arg(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, extremum: Extremum) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    let kept = b.shape(x);
    let (x, axis) = match args.optional_int(1)? {
        Some(d) if b.rank(x) > 0 => (x, rules::check_dim(def.name(), d, b.rank(x))?),
        _ => (b.reshape(x, &[kept.numel()].into())?, 0),
    };
    check_not_empty(def, b.ty(x), &[axis])?;
    let y = b.prim(Prim::ArgReduce { extremum, axis }, &[x])?;
    if !args.flag(2)? {
        return Ok(smallvec![y]);
    }
    let axes: SmallVec<[usize; 4]> =
        if args.optional_int(1)?.is_some() { smallvec![axis] } else { (0..kept.rank()).collect() };
    Ok(smallvec![b.reshape(y, &folded_shape(&kept, &axes, true))?])
}

/// Attributes of mean, var, std, norm: axes, keep, and one more.
pub(crate) fn reduction_attrs(axes: &[usize], keep: bool, more: Option<Attr>) -> Attrs {
    let axes = Attr::Ints(axes.iter().map(|&a| a as i64).collect());
    [Some(axes), Some(Attr::Bool(keep)), more].into_iter().flatten().collect()
}
pub(crate) fn infer_reduction(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    rules::check_float(op.name(), inputs[0])?;
    let (axes, keep) = axes_attr(op.attrs());
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape: folded_shape(&inputs[0].shape, &axes, keep) }])
}

/// Mean.
pub static MEAN: OpDef = OpDef {
    sig: "mean.dim(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "Sum over the dims divided by their size.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut x = args.tensor(0)?;
        if let Some(dtype) = args.dtype(3)? {
            x = b.cast(x, dtype)?;
        }
        let axes = args.dims_or_all(1, b.rank(x))?;
        b.composite(def, reduction_attrs(&axes, args.flag(2)?, None), &[x])
    },
    infer: infer_reduction,
    body: Body::Composite(|b, attrs, v| {
        let (axes, keep) = axes_attr(attrs);
        let (dtype, shape) = (b.dtype(v[0]), b.shape(v[0]));
        let x = widen(b, v[0])?;
        let y = mean_keep(b, x, &axes)?;
        let y = b.reshape(y, &folded_shape(&shape, &axes, keep))?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    // dx = dy / n
    grad: Grad::Rule(|b, cx| {
        let (axes, _) = axes_attr(cx.op.attrs());
        let shape = b.shape(cx.inputs[0]);
        let dy = widen(b, cx.ct())?;
        let n = count(b, b.dtype(dy), &shape, &axes)?;
        let each = b.div(dy, n)?;
        let each = b.cast(each, b.dtype(cx.ct()))?;
        let each = b.reshape(each, &folded_shape(&shape, &axes, true))?;
        Ok(smallvec![Some(b.expand(each, &shape)?)])
    }),
    saves: Saves::NONE,
    samples: &[
        Sample { args: "f32[2,3] in -2..2", ulps: 16, grad: true },
        Sample { args: "f32[2,3,4] in -2..2, [0,2], true", ulps: 16, grad: true },
        Sample { args: "bf16[2,3] in -2..2, 1", ulps: 2, grad: false },
    ],
    refuses: &[Refusal { args: "i64[2,3]", message: "mean: needs a float tensor, got i64 [2, 3]" }],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

/// Variance. Attributes: axes, keep, correction.
pub static VAR: OpDef = OpDef {
    sig: "var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    doc: "Σ (x - mean)² / (n - correction) over the dims, in two passes; the correction is 1 by default.",
    record: record_spread,
    infer: infer_reduction,
    body: Body::Composite(variance_body),
    cost: 4,
    samples: &[
        Sample { args: "f32[3,4] in -2..2, 1", ulps: 64, grad: true },
        Sample { args: "f32[3,4] in -2..2, [0,1], 0, true", ulps: 64, grad: true },
    ],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};
/// Standard deviation. Attributes as of [`VAR`].
pub static STD: OpDef = OpDef {
    sig: "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor",
    doc: "√ of the variance over the dims; the correction is 1 by default.",
    record: record_spread,
    infer: infer_reduction,
    body: Body::Composite(|b, attrs, v| {
        let dtype = b.dtype(v[0]);
        let x = widen(b, v[0])?;
        let variance = variance_body(b, attrs, &[x])?[0];
        let y = b.sqrt(variance)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    cost: 4,
    samples: &[Sample { args: "f32[3,4] in -2..2, 1", ulps: 64, grad: true }],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

pub(crate) fn record_spread(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    let axes = args.dims_or_all(1, b.rank(x))?;
    let correction = Attr::Float(args.float_or(2, 1.0)?);
    b.composite(def, reduction_attrs(&axes, args.flag(3)?, Some(correction)), &[x])
}

pub(crate) fn variance_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let ((axes, keep), correction) = (axes_attr(attrs), attrs[2].float());
    let (dtype, shape) = (b.dtype(v[0]), b.shape(v[0]));
    let x = widen(b, v[0])?;
    let mean = mean_keep(b, x, &axes)?;
    let centered = b.sub(x, mean)?;
    let square = b.mul(centered, centered)?;
    let sum = b.reduce_keep(Fold::Sum, square, &axes)?;
    let n = count(b, b.dtype(x), &shape, &axes)?;
    let n = b.sub(n, correction)?;
    let n = b.max(n, 0.0)?;
    let y = b.div(sum, n)?;
    let y = b.reshape(y, &folded_shape(&shape, &axes, keep))?;
    Ok(smallvec![b.cast(y, dtype)?])
}

/// Vector norm. Attributes: axes, keep, order.
pub static VECTOR_NORM: OpDef = OpDef {
    sig: "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "(Σ |x|^ord)^(1/ord) over the dims; the largest and the smallest size for infinite orders, how many are not 0 for \
          order 0. The gradient at 0 is 0.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut x = args.tensor(0)?;
        if let Some(dtype) = args.dtype(4)? {
            x = b.cast(x, dtype)?;
        }
        let order = match args.get(1) {
            Arg::None => Scalar::Float(2.0),
            Arg::Scalar(s) => *s,
            _ => return Err(rules::refuse(def.name(), Kind::Argument, "argument `ord` takes a number")),
        };
        let axes = args.dims_or_all(2, b.rank(x))?;
        if order.to_f64() < 0.0 || order.to_f64() == f64::INFINITY {
            check_not_empty(def, b.ty(x), &axes)?;
        }
        b.composite(def, reduction_attrs(&axes, args.flag(3)?, Some(Attr::Float(order.to_f64()))), &[x])
    },
    infer: infer_reduction,
    body: Body::Composite(|b, attrs, v| {
        let ((axes, keep), order) = (axes_attr(attrs), attrs[2].float());
        let dtype = b.dtype(v[0]);
        let x = widen(b, v[0])?;
        let y = if order == 2.0 {
            let square = b.mul(x, x)?;
            let sum = fold(b, Fold::Sum, square, &axes, keep)?;
            b.sqrt(sum)?
        } else {
            let size = b.abs(x)?;
            if order == f64::INFINITY {
                fold(b, Fold::Max, size, &axes, keep)?
            } else if order == f64::NEG_INFINITY {
                fold(b, Fold::Min, size, &axes, keep)?
            } else if order == 1.0 {
                fold(b, Fold::Sum, size, &axes, keep)?
            } else if order == 0.0 {
                let zero = b.eq(size, 0.0)?;
                let other = b.not(zero)?;
                let ones = b.cast(other, b.dtype(x))?;
                fold(b, Fold::Sum, ones, &axes, keep)?
            } else {
                let powers = b.pow(size, order)?;
                let sum = fold(b, Fold::Sum, powers, &axes, keep)?;
                b.pow(sum, 1.0 / order)?
            }
        };
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    grad: Grad::Rule(vector_norm_grad),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    cost: 2,
    samples: &[
        Sample { args: "f32[3,4] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[3,4] in 0.5..2, 1, [1], true", ulps: 64, grad: true },
        Sample::grad("f32[3,4] in 0.5..2, 3, [1]", 64),
        Sample::grad("f32[3,4] in 0.5..2, 0.5", 64),
        Sample::grad("f32[3,4] in 0.5..2, 1.5, [0]", 64),
        Sample::grad("f32[3,4] in -2..-0.5, -1, [0], true", 64),
        Sample::grad("f32[4] = 1 -3 2 0.5, -inf", 64),
        Sample::of("f32[4] = 1 0 2 0, 0", 0),
    ],
    ..OpDef::DEFAULT
};

/// Order 2: `dx = dy · x / y`. Order p: `dx = dy · sign x · (|x| / y)^(p - 1)`. Order 1: `dy · sign x`. Infinite ones:
/// `dy · sign x`, shared among the elements of the size `y`. Order 0: 0. Everywhere 0 where the power of a 0 stands.
fn vector_norm_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let ((axes, _), order) = (axes_attr(cx.op.attrs()), cx.op.attrs()[2].float());
    let x = cx.inputs[0];
    let kept = folded_shape(&b.shape(x), &axes, true);
    let (y, dy) = (b.reshape(cx.outputs[0], &kept)?, b.reshape(cx.ct(), &kept)?);
    let dx = if order == 0.0 {
        b.zeros_like(x)?
    } else if order == 2.0 {
        let ratio = b.div(dy, y)?;
        let zero = b.eq(y, 0.0)?;
        let ratio = b.select(zero, 0.0, ratio)?;
        b.mul(x, ratio)?
    } else if order == 1.0 {
        let sign = b.sign(x)?;
        b.mul(sign, dy)?
    } else if order.is_infinite() {
        let (sign, size) = (b.sign(x)?, b.abs(x)?);
        let dx = b.mul(sign, dy)?;
        let top = b.eq(size, y)?;
        let ones = b.cast(top, b.dtype(x))?;
        let n = b.reduce_keep(Fold::Sum, ones, &axes)?;
        let each = b.div(dx, n)?;
        b.select(top, each, 0.0)?
    } else {
        let (sign, size, shape) = (b.sign(x)?, b.abs(x)?, b.shape(x));
        let level = b.expand(y, &shape)?;
        let (none, flat) = (b.eq(size, 0.0)?, b.eq(level, 0.0)?);
        let zero = b.or(none, flat)?;
        // The base of the power is never 0, so that its slope is finite there, too.
        let ratio = b.div(size, level)?;
        let ratio = b.select(zero, 1.0, ratio)?;
        let power = b.pow(ratio, order - 1.0)?;
        let slope = b.mul(sign, power)?;
        let dx = b.mul(slope, dy)?;
        b.select(zero, 0.0, dx)?
    };
    debug_assert_eq!(float_of(b.dtype(x)), b.dtype(dx));
    Ok(smallvec![Some(dx)])
}
