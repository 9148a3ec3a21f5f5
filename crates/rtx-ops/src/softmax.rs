//! Normalized exponentials along one dim.
use crate::args::Args;
use crate::precision::{folded_shape, widen};
use crate::reduce;
use rtx_core::{Fold, Result};
use rtx_ir::{
    Amp, Attr, Body, Bound, Builder, Grad, GradCx, Grads, Op, OpDef, Outs, Refusal, Sample, Saves, Stability, Type,
    Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[&SOFTMAX, &LOG_SOFTMAX, &LOGSUMEXP, &SOFTMIN, &SAFE_SOFTMAX, &SOFTMAX_BACKWARD_DATA];

const ALONG_DIM: OpDef = OpDef {
    record: record_along_dim,
    infer: infer_along_dim,
    amp: Amp::Full,
    saves: Saves::OUTPUT,
    cost: 12,
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

/// `(self, dim, dtype)`: attribute is the axis.
fn record_along_dim(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let mut x = args.tensor(0)?;
    if let Some(dtype) = args.dtype(2)? {
        x = b.cast(x, dtype)?;
    }
    let axis = args.dim(1, b.rank(x))?;
    b.composite(def, smallvec![Attr::Int(axis as i64)], &[x])
}
fn infer_along_dim(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    rules::check_float(op.name(), inputs[0])?;
    Ok(smallvec![inputs[0].clone()])
}

/// The axis of the attribute, as a list: empty at rank 0, where one element is the whole.
fn axes(attrs: &[Attr], rank: usize) -> SmallVec<[usize; 1]> {
    if rank == 0 { smallvec![] } else { smallvec![attrs[0].int() as usize] }
}

/// `x - max(x)` along the axes. The maximum carries no gradient: it cancels.
fn shifted(b: &mut Builder<'_>, x: ValueId, axes: &[usize]) -> Result<ValueId> {
    let top = b.reduce_keep(Fold::Max, x, axes)?;
    b.sub(x, top)
}

/// Softmax.
pub static SOFTMAX: OpDef = OpDef {
    sig: "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    doc: "exp(x - max x) / Σ exp(x - max x) along dim; halves are computed in f32.",
    body: Body::Composite(|b, attrs, v| {
        let (dtype, axes) = (b.dtype(v[0]), axes(attrs, b.rank(v[0])));
        let x = widen(b, v[0])?;
        let x = shifted(b, x, &axes)?;
        let e = b.exp(x)?;
        let sum = b.reduce_keep(Fold::Sum, e, &axes)?;
        let y = b.div(e, sum)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    // dx = y (dy - Σ dy y)
    grad: Grad::Rule(|b, cx| {
        let (dtype, axes) = (b.dtype(cx.outputs[0]), axes(cx.op.attrs(), b.rank(cx.outputs[0])));
        let (y, dy) = (widen(b, cx.outputs[0])?, widen(b, cx.ct())?);
        let product = b.mul(dy, y)?;
        let sum = b.reduce_keep(Fold::Sum, product, &axes)?;
        let rest = b.sub(dy, sum)?;
        let dx = b.mul(y, rest)?;
        Ok(smallvec![Some(b.cast(dx, dtype)?)])
    }),
    samples: &[
        Sample { args: "f32[2,5] in -4..4, -1", ulps: 16, grad: true },
        Sample { args: "f32[3,2,2] in -4..4, 0", ulps: 16, grad: true },
        Sample { args: "f32[] in -4..4, 0", ulps: 16, grad: true },
        Sample { args: "bf16[2,5] in -4..4, 1", ulps: 2, grad: false },
    ],
    refuses: &[
        Refusal { args: "f32[2,3], 2", message: "softmax: dim 2 is outside -2..2 for a tensor of rank 2" },
        Refusal { args: "i64[2,3], 1", message: "softmax: needs a float tensor, got i64 [2, 3]" },
    ],
    ..ALONG_DIM
};

/// Logarithm of softmax.
pub static LOG_SOFTMAX: OpDef = OpDef {
    sig: "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    doc: "x - max x - log Σ exp(x - max x) along dim; halves are computed in f32.",
    body: Body::Composite(|b, attrs, v| {
        let (dtype, axes) = (b.dtype(v[0]), axes(attrs, b.rank(v[0])));
        let x = widen(b, v[0])?;
        let x = shifted(b, x, &axes)?;
        let e = b.exp(x)?;
        let sum = b.reduce_keep(Fold::Sum, e, &axes)?;
        let log = b.log(sum)?;
        let y = b.sub(x, log)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    // dx = dy - exp(y) Σ dy
    grad: Grad::Rule(|b, cx| {
        let (dtype, axes) = (b.dtype(cx.outputs[0]), axes(cx.op.attrs(), b.rank(cx.outputs[0])));
        let (y, dy) = (widen(b, cx.outputs[0])?, widen(b, cx.ct())?);
        let sum = b.reduce_keep(Fold::Sum, dy, &axes)?;
        let p = b.exp(y)?;
        let taken = b.mul(p, sum)?;
        let dx = b.sub(dy, taken)?;
        Ok(smallvec![Some(b.cast(dx, dtype)?)])
    }),
    samples: &[
        Sample { args: "f32[2,5] in -4..4, -1", ulps: 16, grad: true },
        Sample { args: "f32[3,2,2] in -4..4, 0", ulps: 64, grad: true },
    ],
    ..ALONG_DIM
};

/// Logarithm of a sum of exponentials.
pub static LOGSUMEXP: OpDef = OpDef {
    sig: "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    doc: "log Σ exp(x) over the dims, shifted by the maximum where that is finite; integers become f32.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut x = args.tensor(0)?;
        if b.dtype(x).class() < rtx_core::Class::Float {
            x = b.cast(x, rtx_core::DType::F32)?;
        }
        let axes = args.dims_or_all(1, b.rank(x))?;
        let axes = Attr::Ints(axes.iter().map(|&a| a as i64).collect());
        b.composite(def, smallvec![axes, Attr::Bool(args.flag(2)?)], &[x])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 1)?;
        rules::check_float(op.name(), inputs[0])?;
        let (axes, keep) = reduce::axes_attr(op.attrs());
        Ok(smallvec![Type { dtype: inputs[0].dtype, shape: folded_shape(&inputs[0].shape, &axes, keep) }])
    },
    body: Body::Composite(logsumexp_body),
    grad: Grad::Rule(logsumexp_grad),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    samples: &[
        Sample { args: "f32[2,5] in -4..4, -1", ulps: 16, grad: true },
        Sample { args: "f32[2,5] in -4..4, [0,1], true", ulps: 16, grad: true },
    ],
    ..ALONG_DIM
};

fn logsumexp_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (axes, keep) = reduce::axes_attr(attrs);
    let (dtype, shape) = (b.dtype(v[0]), b.shape(v[0]));
    let x = widen(b, v[0])?;
    let top = b.reduce_keep(Fold::Max, x, &axes)?;
    // An infinite maximum is not subtracted: inf - inf is NaN.
    let size = b.abs(top)?;
    let infinite = b.eq(size, f64::INFINITY)?;
    let top = b.select(infinite, 0.0, top)?;
    let shifted = b.sub(x, top)?;
    let e = b.exp(shifted)?;
    let sum = b.reduce_keep(Fold::Sum, e, &axes)?;
    let log = b.log(sum)?;
    let y = b.add(log, top)?;
    let y = b.reshape(y, &folded_shape(&shape, &axes, keep))?;
    Ok(smallvec![b.cast(y, dtype)?])
}

/// `dx = dy · exp(x - y)`.
fn logsumexp_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let (axes, _) = reduce::axes_attr(cx.op.attrs());
    let (x, y, dy) = (cx.inputs[0], cx.outputs[0], cx.ct());
    let kept = folded_shape(&b.shape(x), &axes, true);
    let (y, dy) = (b.reshape(y, &kept)?, b.reshape(dy, &kept)?);
    let difference = b.sub(x, y)?;
    let p = b.exp(difference)?;
    Ok(smallvec![Some(b.mul(p, dy)?)])
}

/// Softmax of the negative.
pub static SOFTMIN: OpDef = OpDef {
    sig: "softmin(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    amp: Amp::Full,
    doc: "softmax(-x) along dim.",
    record: |b, _, args| {
        let checked = Args::new(&SOFTMAX, args);
        let mut x = checked.tensor(0)?;
        if let Some(dtype) = checked.dtype(2)? {
            x = b.cast(x, dtype)?;
        }
        let x = b.neg(x)?;
        let axis = checked.dim(1, b.rank(x))?;
        b.composite(&SOFTMAX, smallvec![Attr::Int(axis as i64)], &[x])
    },
    samples: &[Sample::grad("f32[2,5] in -4..4, -1", 16)],
    stability: Stability::Stable,
    ..crate::spelling::SPELLING
};
/// Softmax whose rows of -∞ are 0.
pub static SAFE_SOFTMAX: OpDef = OpDef {
    sig: "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    doc: "softmax along dim, and 0 where all elements along dim are -∞.",
    body: Body::Composite(|b, attrs, v| {
        let (dtype, axes) = (b.dtype(v[0]), axes(attrs, b.rank(v[0])));
        let x = widen(b, v[0])?;
        let top = b.reduce_keep(Fold::Max, x, &axes)?;
        let blind = b.eq(top, f64::NEG_INFINITY)?;
        let top = b.select(blind, 0.0, top)?;
        let x = b.sub(x, top)?;
        let e = b.exp(x)?;
        let sum = b.reduce_keep(Fold::Sum, e, &axes)?;
        let sum = b.select(blind, 1.0, sum)?;
        let y = b.div(e, sum)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    grad: Grad::Rule(|b, cx| {
        let axis = cx.op.attrs()[0].clone();
        Ok(smallvec![Some(b.composite(&SOFTMAX_BACKWARD_DATA, smallvec![axis], &[cx.ct(), cx.outputs[0]])?[0])])
    }),
    samples: &[Sample::grad("f32[2,5] in -4..4, -1", 16), Sample::of("f32[2,2] = -inf -inf 0 -inf, 1", 16)],
    ..ALONG_DIM
};
/// Gradient of softmax.
pub static SOFTMAX_BACKWARD_DATA: OpDef = OpDef {
    sig: "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    doc: "output · (grad_output - Σ grad_output · output), the sum along dim; in the dtype of softmax's input.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (dy, y) = (args.tensor(0)?, args.tensor(1)?);
        let axis = args.dim(2, b.rank(y))?;
        let dx = b.composite(def, smallvec![Attr::Int(axis as i64)], &[dy, y])?[0];
        let dtype = args.dtype(3)?.unwrap_or(b.dtype(dx));
        Ok(smallvec![b.cast(dx, dtype)?])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 2)?;
        rules::check_float(op.name(), inputs[1])?;
        rules::infer_same(op, inputs)
    },
    body: Body::Composite(|b, attrs, v| {
        let (dtype, axes) = (b.dtype(v[1]), axes(attrs, b.rank(v[1])));
        let (dy, y) = (widen(b, v[0])?, widen(b, v[1])?);
        let product = b.mul(dy, y)?;
        let sum = b.reduce_keep(Fold::Sum, product, &axes)?;
        let rest = b.sub(dy, sum)?;
        let dx = b.mul(y, rest)?;
        Ok(smallvec![b.cast(dx, dtype)?])
    }),
    saves: Saves::Inputs,
    cost: 4,
    samples: &[Sample::grad("f32[2,5] in -1..1, f32[2,5] in 0..1, 1, f32", 16)],
    ..ALONG_DIM
};
