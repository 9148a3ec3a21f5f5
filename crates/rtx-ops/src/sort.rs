//! Sorting along a dim, and what it decides: the largest, the middle, the most frequent.
use crate::args::Args;
use crate::lines::{Along, head, pick, tail};
use crate::spelling::SPELLING;
use rtx_core::{DType, Extremum, Fold, Kind, Result};
use rtx_ir::{Bound, Builder, Grad, Op, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId, rules};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[
    &SORT,
    &SORT_STABLE,
    &ARGSORT,
    &ARGSORT_STABLE,
    &MSORT,
    &TOPK,
    &KTHVALUE,
    &MEDIAN,
    &MEDIAN_OF_ALL,
    &NANMEDIAN,
    &NANMEDIAN_OF_ALL,
    &MODE,
];

const SORTED: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// Elements in order and their positions.
pub(crate) fn sorted(b: &mut Builder<'_>, along: Along, descending: bool) -> Result<[ValueId; 2]> {
    let outs = b.apply(Op::Prim(Prim::Sort { axis: along.axis, descending }), &[along.x])?;
    Ok([outs[0], outs[1]])
}

/// In order.
pub static SORT: OpDef = OpDef {
    sig: "sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    doc: "The elements in order along dim and their positions; equal ones stay in order, NaN is the largest.",
    record: |b, def, args| sort(b, def, args, 1),
    samples: &[
        Sample::grad("f32[2,5] in -2..2", 0),
        Sample::grad("f32[3,4] in -2..2, 0, true", 0),
        Sample::exact("i64[8] in -2..2"),
        Sample::exact("f32[] in -2..2, 0"),
        Sample::exact("bool[5]"),
    ],
    refuses: &[Refusal::of("f32[2], 1", "sort: dim 1 is outside -1..1 for a tensor of rank 1")],
    ..SORTED
};
/// In order, PyTorch's other signature.
pub static SORT_STABLE: OpDef = OpDef {
    sig: "sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
    doc: "As sort, which is always stable.",
    record: |b, def, args| sort(b, def, args, 2),
    samples: &[Sample::grad("f32[2,5] in -2..2, true, 0", 0)],
    ..SORTED
};
/// `(…, dim, descending)` from argument `i`.
fn sort(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, i: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let along = Along::of(b, args, i, -1)?;
    let [values, positions] = sorted(b, along, args.flag(i + 1)?)?;
    Ok(smallvec![along.whole(b, values)?, along.whole(b, positions)?])
}

/// Positions in order.
pub static ARGSORT: OpDef = OpDef {
    sig: "argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor",
    doc: "The positions of the elements in order along dim; equal ones stay in order.",
    record: |b, def, args| Ok(smallvec![sort(b, def, args, 1)?[1]]),
    grad: Grad::None,
    samples: &[Sample::exact("f32[2,5] in -2..2"), Sample::exact("i64[5,2] in -2..2, 0, true")],
    ..SORTED
};
/// Positions in order, PyTorch's other signature.
pub static ARGSORT_STABLE: OpDef = OpDef {
    sig: "argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
    doc: "As argsort, which is always stable.",
    record: |b, def, args| Ok(smallvec![sort(b, def, args, 2)?[1]]),
    grad: Grad::None,
    samples: &[Sample::exact("f32[2,5] in -2..2, true")],
    ..SORTED
};
/// In order along the first dim.
pub static MSORT: OpDef = OpDef {
    sig: "msort(Tensor self) -> Tensor",
    doc: "The elements in order along the first dim.",
    record: |b, def, args| {
        let along = Along::of(b, Args::new(def, args), 1, 0)?;
        let values = sorted(b, along, false)?[0];
        Ok(smallvec![along.whole(b, values)?])
    },
    samples: &[Sample::grad("f32[5,2] in -2..2", 0)],
    ..SORTED
};

/// The largest or smallest.
pub static TOPK: OpDef = OpDef {
    sig: "topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)",
    doc: "The k largest (or smallest) along dim and their positions, in order; NaN is the largest.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let along = Along::of(b, args, 2, -1)?;
        let largest = matches!(args.get(3), rtx_ir::Arg::None) || args.flag(3)?;
        let (n, k) = (along.size(b, def.name())?, args.int(1)?);
        if !(0..=n as i64).contains(&k) {
            let what = format_args!("{k} elements of a dim of size {n}");
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        let outs = sorted(b, along, largest)?;
        let mut first = |v: ValueId| {
            let y = b.slice(v, along.axis, 0, k as usize)?;
            if k == 1 { along.whole(b, y) } else { Ok(y) }
        };
        Ok(smallvec![first(outs[0])?, first(outs[1])?])
    },
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 3", 0),
        Sample::grad("f32[5,2] in -2..2, 2, 0, false", 0),
        Sample::exact("i64[6] in -9..9, 6"),
        Sample::exact("f32[3], 0"),
    ],
    refuses: &[Refusal::of("f32[3], 4", "topk: 4 elements of a dim of size 3")],
    ..SORTED
};

/// The k-th smallest.
pub static KTHVALUE: OpDef = OpDef {
    sig: "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The k-th smallest element along dim, counted from 1, and its position; NaN is the largest.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let along = Along::of(b, args, 2, -1)?;
        let (n, k) = (along.size(b, def.name())?, args.int(1)?);
        if !(1..=n as i64).contains(&k) {
            let what = format_args!("element {k} of a dim of size {n}");
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        let outs = sorted(b, along, false)?;
        let mut kth = |v: ValueId| {
            let y = b.slice(v, along.axis, k - 1, 1)?;
            along.folded(b, y, args.flag(3)?)
        };
        Ok(smallvec![kth(outs[0])?, kth(outs[1])?])
    },
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 2", 0),
        Sample::grad("f32[5,2] in -2..2, 5, 0, true", 0),
        Sample::exact("f32[] in -2..2, 1"),
    ],
    refuses: &[Refusal::of("f32[3], 0", "kthvalue: element 0 of a dim of size 3")],
    ..SORTED
};

/// The middle one.
pub static MEDIAN: OpDef = OpDef {
    sig: "median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The middle element along dim, the lower one of two, and its position; the first NaN where there is one.",
    record: |b, def, args| middle(b, def, args, false),
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 1", 0),
        Sample::grad("f32[4,3] in -2..2, 0, true", 0),
        Sample::exact("f32[2,4] = 3 nan 1 nan 2 5 1 4, 1"),
        Sample::exact("i64[7] in -9..9, 0"),
        Sample::exact("f32[] in -2..2, 0, true"),
    ],
    refuses: &[Refusal::of("f32[2,0], 1", "median: nothing has no median: f32 [2, 0] has size 0 along dim 1")],
    ..SORTED
};
/// The middle one of all.
pub static MEDIAN_OF_ALL: OpDef = OpDef {
    sig: "median(Tensor self) -> Tensor",
    doc: "The middle element of all, the lower one of two; NaN where there is one.",
    record: |b, def, args| Ok(smallvec![middle(b, def, args, false)?[0]]),
    samples: &[Sample::grad("f32[2,3] in -2..2", 0), Sample::exact("f32[] in -2..2")],
    ..SORTED
};
/// The middle one of numbers.
pub static NANMEDIAN: OpDef = OpDef {
    sig: "nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The middle element along dim of those that are no NaN, the lower one of two, and its position.",
    record: |b, def, args| middle(b, def, args, true),
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 1", 0),
        Sample::exact("f32[2,4] = 3 nan 1 nan nan nan nan nan, 1"),
        Sample::exact("i64[7] in -9..9, 0, true"),
    ],
    ..SORTED
};
/// The middle one of all numbers.
pub static NANMEDIAN_OF_ALL: OpDef = OpDef {
    sig: "nanmedian(Tensor self) -> Tensor",
    doc: "The middle element of all that are no NaN, the lower one of two.",
    record: |b, def, args| Ok(smallvec![middle(b, def, args, true)?[0]]),
    samples: &[Sample::grad("f32[2,3] in -2..2", 0)],
    ..SORTED
};
/// `(self, dim, keepdim)`; all elements where there is no dim.
fn middle(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, skip_nan: bool) -> Result<Outs> {
    let args = Args::new(def, args);
    let along = Along::of_or_all(b, args, 1)?;
    let n = along.size(b, def.name())?;
    if n == 0 {
        let (x, axis) = (b.ty(along.x), along.axis);
        let what = format!("nothing has no median: {x} has size 0 along dim {axis}");
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let outs = sorted(b, along, false)?;
    let at = middle_position(b, along, n, skip_nan)?;
    let mut found = |v: ValueId| {
        let y = match at {
            Some(at) => pick(b, def.name(), v, at, along.axis)?,
            None => b.slice(v, along.axis, (n as i64 - 1) / 2, 1)?,
        };
        along.folded(b, y, args.flag(2)?)
    };
    Ok(smallvec![found(outs[0])?, found(outs[1])?])
}
/// Where the middle of each sorted line lies, NaN at its end; `None` where it is the same for all.
fn middle_position(b: &mut Builder<'_>, along: Along, n: usize, skip_nan: bool) -> Result<Option<ValueId>> {
    if !b.dtype(along.x).is_float() {
        return Ok(None);
    }
    let numbers = b.eq(along.x, along.x)?;
    let numbers = b.cast(numbers, DType::I64)?;
    let count = b.reduce_keep(Fold::Sum, numbers, &[along.axis])?;
    let shape = b.shape(count);
    if skip_nan {
        let last = b.sub(count, 1.0)?;
        let half = b.div(last, 2.0)?;
        return Ok(Some(b.max(half, 0.0)?));
    }
    let (middle, all) = (b.full(DType::I64, &shape, (n as i64 - 1) / 2)?, b.full(DType::I64, &shape, n as i64)?);
    let whole = b.eq(count, all)?;
    Ok(Some(b.select(whole, middle, count)?))
}

/// The most frequent.
pub static MODE: OpDef = OpDef {
    sig: "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    doc: "The most frequent element along dim, the smallest of several, and the position of its last occurrence.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let along = Along::of(b, args, 1, -1)?;
        if along.size(b, def.name())? == 0 {
            return Err(rules::refuse(def.name(), Kind::Shape, "nothing has no mode"));
        }
        let outs = sorted(b, along, false)?;
        let at = longest_run(b, def.name(), along, outs[0])?;
        let mut found = |v: ValueId| {
            let y = pick(b, def.name(), v, at, along.axis)?;
            along.folded(b, y, args.flag(2)?)
        };
        Ok(smallvec![found(outs[0])?, found(outs[1])?])
    },
    samples: &[
        Sample::grad("f32[2,5] in -2..2", 0),
        Sample::exact("i64[3,9] in 0..3, 1, true"),
        Sample::exact("i64[9,2] in 0..3, 0"),
        Sample::exact("f32[] in -2..2"),
    ],
    ..SORTED
};
/// The last position of the first longest run of equal elements in each sorted line.
fn longest_run(b: &mut Builder<'_>, op: &str, along: Along, sorted: ValueId) -> Result<ValueId> {
    let axis = along.axis;
    let (left, right) = (head(b, op, sorted, axis)?, tail(b, op, sorted, axis)?);
    let equal = b.eq(left, right)?;
    let differ = b.not(equal)?;
    let mut edge = b.shape(sorted);
    edge.set(axis, 1);
    let edge = b.full(DType::Bool, &edge, true)?;
    let starts = b.prim(Prim::Concat { axis }, &[edge, differ])?;
    let ends = b.prim(Prim::Concat { axis }, &[differ, edge])?;
    let at = along.counter(b)?;
    let start = b.select(starts, at, 0.0)?;
    let start = b.prim(Prim::Scan { fold: Fold::Max, axis, reverse: false }, &[start])?;
    let length = b.sub(at, start)?;
    let length = b.select(ends, length, -1.0)?;
    let found = b.prim(Prim::ArgReduce { extremum: Extremum::Max, axis }, &[length])?;
    let mut kept = b.shape(sorted);
    kept.set(axis, 1);
    b.reshape(found, &kept)
}
