//! Running sums and their kin along a dim.
use crate::args::Args;
use crate::lines::{Along, head, known, number, tail};
use crate::precision::{float_of, widen};
use crate::spelling::SPELLING;
use rtx_core::{DType, Fold, Kind, Result, Shape};
use rtx_ir::{
    Arg, Attr, Body, Bound, Builder, Grad, GradCx, Grads, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability,
    ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &CUMSUM,
    &CUMPROD,
    &CUMMAX,
    &CUMMIN,
    &LOGCUMSUMEXP,
    &TRAPEZOID,
    &TRAPEZOID_X,
    &TRAPZ,
    &TRAPZ_X,
    &CUMULATIVE_TRAPEZOID,
    &CUMULATIVE_TRAPEZOID_X,
    &DIFF,
];

const SCAN: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// Running sums.
pub static CUMSUM: OpDef = OpDef {
    sig: "cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "y_t = x_0 + … + x_t along dim, one after the other; integers and bools add up as i64.",
    record: |b, def, args| accumulate(b, def, args, Fold::Sum),
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 1", 16),
        Sample::grad("f32[3,2] in -2..2, -2", 16),
        Sample::grad("f32[] in -2..2, 0", 0),
        Sample::exact("i32[2,5] in -9..9, 0"),
        Sample::exact("bool[7], 0"),
        Sample::exact("f32[0,2], 0"),
        Sample::exact("i64[4] in -9..9, 0, f32"),
    ],
    refuses: &[Refusal::of("f32[2,3], 2", "cumsum: dim 2 is outside -2..2 for a tensor of rank 2")],
    ..SCAN
};
/// Running products.
pub static CUMPROD: OpDef = OpDef {
    sig: "cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "y_t = x_0 · … · x_t along dim, one after the other; integers and bools multiply as i64.",
    record: |b, def, args| accumulate(b, def, args, Fold::Prod),
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 1", 16),
        Sample::grad("f32[2,4] = 1 0 2 3 0 1 0 2, 1", 16),
        Sample::exact("i64[5] in -3..3, 0"),
    ],
    ..SCAN
};
/// `(self, dim, dtype)`.
fn accumulate(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, fold: Fold) -> Result<Outs> {
    let args = Args::new(def, args);
    let mut along = Along::of(b, args, 1, 0)?;
    let dtype = b.dtype(along.x);
    let sum = if dtype.is_int() || dtype == DType::Bool { DType::I64 } else { dtype };
    along.x = b.cast(along.x, args.dtype(2)?.unwrap_or(sum))?;
    let y = b.prim(Prim::Scan { fold, axis: along.axis, reverse: false }, &[along.x])?;
    Ok(smallvec![along.whole(b, y)?])
}

/// Largest so far.
pub static CUMMAX: OpDef = OpDef {
    sig: "cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    doc: "The largest element so far along dim and its position, the last one of equal ones; NaN stays.",
    record: |b, def, args| extremum(b, def, args, Fold::Max),
    samples: &[
        Sample::grad("f32[2,6] in -2..2, 1", 0),
        Sample::exact("f32[6] = 1 3 3 nan 4 nan, 0"),
        Sample::exact("i64[3,4] in -3..3, 0"),
        Sample::exact("bool[5], 0"),
        Sample::exact("f32[] in -2..2, 0"),
        Sample::exact("f32[2,0], 1"),
    ],
    ..SCAN
};
/// Smallest so far.
pub static CUMMIN: OpDef = OpDef {
    sig: "cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)",
    doc: "The smallest element so far along dim and its position, the last one of equal ones; NaN stays.",
    record: |b, def, args| extremum(b, def, args, Fold::Min),
    samples: &[Sample::grad("f32[2,6] in -2..2, 0", 0), Sample::exact("f32[6] = 3 1 1 nan 0 nan, 0")],
    ..SCAN
};
/// An element leads where it is the extremum of all up to it; the position is that of the last one that did.
fn extremum(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, fold: Fold) -> Result<Outs> {
    let along = Along::of(b, Args::new(def, args), 1, 0)?;
    let Along { x, axis, .. } = along;
    let y = b.prim(Prim::Scan { fold, axis, reverse: false }, &[x])?;
    let mut leads = b.eq(x, y)?;
    if b.dtype(x).is_float() {
        let itself = b.eq(x, x)?;
        let nan = b.not(itself)?;
        leads = b.or(leads, nan)?;
    }
    let at = along.counter(b)?;
    let at = b.select(leads, at, 0.0)?;
    let at = b.prim(Prim::Scan { fold: Fold::Max, axis, reverse: false }, &[at])?;
    Ok(smallvec![along.whole(b, y)?, along.whole(b, at)?])
}

/// Running log-sum-exp.
pub static LOGCUMSUMEXP: OpDef = OpDef {
    sig: "logcumsumexp(Tensor self, int dim) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "y_t = log Σ_{i ≤ t} exp x_i along dim: with m_t the largest so far, m_t + log s_t where \
          s_t = s_{t-1} exp(m_{t-1} - m_t) + exp(x_t - m_t). Where elements are as large as 10⁴ PyTorch's f32 gradient differs \
          from its f64 one by 10⁻³; this one does not.",
    record: |b, def, args| {
        let along = Along::of(b, Args::new(def, args), 1, 0)?;
        rules::check_float(def.name(), b.ty(along.x))?;
        let y = b.composite(def, smallvec![Attr::Int(along.axis as i64)], &[along.x])?[0];
        Ok(smallvec![along.whole(b, y)?])
    },
    infer: rules::infer_same,
    body: Body::Composite(logcumsumexp_body),
    grad: Grad::Rule(logcumsumexp_grad),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    cost: 20,
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 1", 64),
        Sample::grad("f32[4,2] in -2..2, 0", 64),
        Sample::grad("f64[3] = 10000 10001 10000, 0", 64),
        Sample::of("f32[6] = -inf -100 1 90 -inf 91, 0", 64),
        Sample::of("f32[4] = 1 inf 2 nan, 0", 64),
        Sample::of("f32[] in -2..2, 0", 64),
    ],
    refuses: &[Refusal::of("i64[2], 0", "logcumsumexp: needs a float tensor, got i64 [2]")],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};
/// What stands before each element along an axis, `first` before the first one.
fn before(b: &mut Builder<'_>, op: &str, x: ValueId, axis: usize, first: f64) -> Result<ValueId> {
    let mut edge = b.shape(x);
    edge.set(axis, known(op, edge.dim(axis))?.min(1));
    let edge = b.full(b.dtype(x), &edge, first)?;
    let rest = head(b, op, x, axis)?;
    b.prim(Prim::Concat { axis }, &[edge, rest])
}
fn logcumsumexp_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let axis = attrs[0].int() as usize;
    let (dtype, x) = (b.dtype(v[0]), widen(b, v[0])?);
    let top = b.prim(Prim::Scan { fold: Fold::Max, axis, reverse: false }, &[x])?;
    // An infinite level would leave nothing of the differences.
    let size = b.abs(top)?;
    let infinite = b.eq(size, f64::INFINITY)?;
    let level = b.select(infinite, 0.0, top)?;
    let (last, last_top) =
        (before(b, "logcumsumexp", level, axis, 0.0)?, before(b, "logcumsumexp", top, axis, f64::NEG_INFINITY)?);
    let nothing_yet = b.eq(last_top, f64::NEG_INFINITY)?;
    let decay = b.sub(last, level)?;
    let decay = b.exp(decay)?;
    let decay = b.select(nothing_yet, 0.0, decay)?;
    let new = b.sub(x, level)?;
    let new = b.exp(new)?;
    let mut rest = b.shape(x);
    rest.remove(axis);
    let none = b.zeros(b.dtype(x), &rest)?;
    let sum = b.prim(Prim::LinearScan { axis, reverse: false }, &[decay, new, none])?;
    let sum = b.log(sum)?;
    let y = b.add(sum, level)?;
    Ok(smallvec![b.cast(y, dtype)?])
}
/// `dx_i = r_i exp(x_i - y_i)` with `r_i = g_i + exp(y_i - y_{i+1}) r_{i+1}`: every exponent is at most 0.
fn logcumsumexp_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let axis = cx.op.attrs()[0].int() as usize;
    cx.wide(b, [cx.inputs[0], cx.outputs[0]], |b, _, g, [x, y]| {
        // Behind the last element stands itself: nothing flows from there, and the power of the difference is finite.
        let n = known("logcumsumexp", b.ty(y).shape.dim(axis))?;
        let (edge, rest) = (b.slice(y, axis, n.saturating_sub(1) as i64, n.min(1))?, tail(b, "logcumsumexp", y, axis)?);
        let next = b.prim(Prim::Concat { axis }, &[rest, edge])?;
        let decay = power_of_difference(b, y, next)?;
        let mut lines = b.shape(y);
        lines.remove(axis);
        let none = b.zeros(b.dtype(y), &lines)?;
        let flow = b.prim(Prim::LinearScan { axis, reverse: true }, &[decay, g, none])?;
        let share = power_of_difference(b, x, y)?;
        b.mul(flow, share)
    })
}
/// `exp(a - b)`, 1 where both are equal, infinite or not.
fn power_of_difference(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Result<ValueId> {
    let (difference, equal) = (b.sub(x, y)?, b.eq(x, y)?);
    let difference = b.select(equal, 0.0, difference)?;
    b.exp(difference)
}

/// The trapezoid rule, even steps.
pub static TRAPEZOID: OpDef = OpDef {
    sig: "trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    doc: "Σ (y_t + y_{t+1}) / 2 · dx along dim.",
    record: |b, def, args| even_trapezoid(b, def, args, false),
    samples: &[Sample::grad("f32[2,5] in -2..2", 16), Sample::grad("f32[4,2] in -2..2, 0.5, 0", 16)],
    ..SCAN
};
/// The trapezoid rule, steps given.
pub static TRAPEZOID_X: OpDef = OpDef {
    sig: "trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
    doc: "Σ (y_t + y_{t+1}) / 2 · (x_{t+1} - x_t) along dim.",
    record: |b, def, args| uneven_trapezoid(b, def, args, false),
    samples: &[
        Sample::grad("f32[2,5] in -2..2, f32[5] in -2..2", 16),
        Sample::grad("f32[4,2] in -2..2, f32[4,2] in -2..2, 0", 16),
    ],
    ..SCAN
};
/// The trapezoid rule under its other name.
pub static TRAPZ: OpDef = OpDef {
    sig: "trapz.dx(Tensor y, *, float dx=1., int dim=-1) -> Tensor",
    doc: "As trapezoid.",
    record: |b, def, args| even_trapezoid(b, def, args, false),
    samples: &[Sample::grad("f32[2,5] in -2..2", 16)],
    ..SCAN
};
/// The trapezoid rule under its other name, steps given.
pub static TRAPZ_X: OpDef = OpDef {
    sig: "trapz.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
    doc: "As trapezoid.",
    record: |b, def, args| uneven_trapezoid(b, def, args, false),
    samples: &[Sample::grad("f32[2,5] in -2..2, f32[5] in -2..2", 16)],
    ..SCAN
};
/// Running trapezoid rule, even steps.
pub static CUMULATIVE_TRAPEZOID: OpDef = OpDef {
    sig: "cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    doc: "Running sums of (y_t + y_{t+1}) / 2 · dx along dim.",
    record: |b, def, args| even_trapezoid(b, def, args, true),
    samples: &[Sample::grad("f32[2,5] in -2..2", 16), Sample::grad("f32[4,2] in -2..2, 0.5, 0", 16)],
    ..SCAN
};
/// Running trapezoid rule, steps given.
pub static CUMULATIVE_TRAPEZOID_X: OpDef = OpDef {
    sig: "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
    doc: "Running sums of (y_t + y_{t+1}) / 2 · (x_{t+1} - x_t) along dim.",
    record: |b, def, args| uneven_trapezoid(b, def, args, true),
    samples: &[Sample::grad("f32[2,5] in -2..2, f32[5] in -2..2", 16)],
    ..SCAN
};
/// Neighbours along the axis added, in a float type.
fn pairs(b: &mut Builder<'_>, op: &str, along: Along) -> Result<ValueId> {
    let y = b.cast(along.x, float_of(b.dtype(along.x)))?;
    let (left, right) = (head(b, op, y, along.axis)?, tail(b, op, y, along.axis)?);
    b.add(left, right)
}
fn summed(b: &mut Builder<'_>, x: ValueId, axis: usize, running: bool) -> Result<ValueId> {
    if running {
        return b.prim(Prim::Scan { fold: Fold::Sum, axis, reverse: false }, &[x]);
    }
    b.reduce(Fold::Sum, x, &[axis])
}
/// `(y, dx, dim)`.
fn even_trapezoid(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, running: bool) -> Result<Outs> {
    let args = Args::new(def, args);
    let along = Along::of(b, args, 2, -1)?;
    let sums = pairs(b, def.name(), along)?;
    let total = summed(b, sums, along.axis, running)?;
    let step = number(b, args, 1, b.dtype(total), 1.0)?;
    let half = b.mul(step, 0.5)?;
    Ok(smallvec![b.mul(total, half)?])
}
/// `(y, x, dim)`; an x of one dim lies along dim.
fn uneven_trapezoid(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, running: bool) -> Result<Outs> {
    let args = Args::new(def, args);
    let along = Along::of(b, args, 2, -1)?;
    let (mut x, rank, axis) = (args.tensor(1)?, b.rank(along.x), along.axis);
    if b.rank(x) == 1 {
        let n = b.shape(x).dim(0);
        let aligned: Shape = (0..rank).map(|i| if i == axis { n } else { 1usize.into() }).collect();
        x = b.reshape(x, &aligned)?;
    }
    if b.rank(x) < rank {
        let ones = std::iter::repeat_n(rtx_core::Dim::Const(1), rank - b.rank(x));
        let aligned: Shape = ones.chain(b.shape(x).iter()).collect();
        x = b.reshape(x, &aligned)?;
    }
    // Counted from the end, the axis is the same in a tensor of higher rank.
    let x_axis = b.rank(x) - rank + axis;
    let sums = pairs(b, def.name(), along)?;
    let x = b.cast(x, b.dtype(sums))?;
    let (left, right) = (head(b, def.name(), x, x_axis)?, tail(b, def.name(), x, x_axis)?);
    let steps = b.sub(right, left)?;
    let area = b.mul(sums, steps).map_err(|e| rules::refuse(def.name(), Kind::Shape, e.message()))?;
    let total = summed(b, area, x_axis, running)?;
    Ok(smallvec![b.mul(total, 0.5)?])
}

/// Differences of neighbours.
pub static DIFF: OpDef = OpDef {
    sig: "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    doc: "x_{t+1} - x_t along dim, n times, after prepend and append are joined on; of bools whether they differ.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let along = Along::of(b, args, 2, -1)?;
        if along.was_number {
            return Err(rules::refuse(def.name(), Kind::Shape, "needs at least one dim, got rank 0"));
        }
        let times = args.int_or(1, 1)?;
        if times < 0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("n is not negative, got {times}")));
        }
        if times == 0 {
            return Ok(smallvec![along.x]);
        }
        let parts = [args.optional_tensor(3)?, Some(along.x), args.optional_tensor(4)?];
        let parts: SmallVec<[ValueId; 4]> = parts.into_iter().flatten().collect();
        let mut x = joined(b, &parts, along.axis)?;
        let n = known(def.name(), b.ty(x).shape.dim(along.axis))?;
        for _ in 0..times.min(n as i64) {
            let (left, right) = (head(b, def.name(), x, along.axis)?, tail(b, def.name(), x, along.axis)?);
            x = if b.dtype(x) == DType::Bool { b.xor(right, left)? } else { b.sub(right, left)? };
        }
        Ok(smallvec![x])
    },
    samples: &[
        Sample::grad("f32[2,5] in -2..2", 0),
        Sample::grad("f32[5,2] in -2..2, 2, 0", 4),
        Sample::grad("f32[2,3] in -2..2, 1, 1, f32[2,1] in -2..2, f32[2,2] in -2..2", 0),
        Sample::exact("bool[5]"),
        Sample::exact("i64[3] in -9..9, 5"),
        Sample::exact("i64[3] in -9..9, 0"),
    ],
    refuses: &[
        Refusal::of("f32[]", "diff: needs at least one dim, got rank 0"),
        Refusal::of("f32[3], -1", "diff: n is not negative, got -1"),
    ],
    ..SCAN
};
/// Tensors one after the other, in the dtype they meet in.
fn joined(b: &mut Builder<'_>, parts: &[ValueId], axis: usize) -> Result<ValueId> {
    if let [only] = parts {
        return Ok(*only);
    }
    let given: Vec<Arg> = parts.iter().map(|&v| Arg::Value(v)).collect();
    let dtype = rules::promote(b, &given).unwrap_or(DType::F32);
    let parts = parts.iter().map(|&v| b.cast(v, dtype)).collect::<Result<SmallVec<[ValueId; 4]>>>()?;
    b.prim(Prim::Concat { axis }, &parts)
}
