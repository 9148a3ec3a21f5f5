//! Reading and writing at computed places: by position in the flattened tensor, by slices, by several indices at once,
//! by mask.
use crate::args::Args;
use crate::arrange::{atleast_1d, flat, sizes};
use crate::index::{as_indices, flat_places};
use crate::precision::{highest, lowest};
use crate::spelling::SPELLING;
use rtx_core::{Class, DType, Dim, Fold, Kind, Result, Scalar, Shape};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs, Prim, Refusal, Sample, ScatterOp, Stability, ValueId, record, rules};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[
    &TAKE,
    &TAKE_ALONG_DIM,
    &PUT,
    &INDEX_COPY,
    &INDEX_FILL,
    &INDEX_FILL_TENSOR,
    &INDEX_REDUCE,
    &INDEX,
    &INDEX_PUT,
    &UNSAFE_MASKED_INDEX,
    &UNSAFE_MASKED_INDEX_PUT,
    &SCATTER_VALUE,
    &SCATTER_WITH,
    &SCATTER_VALUE_WITH,
    &SCATTER_REDUCE,
    &MASKED_FILL_TENSOR,
    &MASKED_SCATTER,
];

const PLACING: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// Indices counted from the end where they are negative.
fn wrapped(b: &mut Builder<'_>, index: ValueId, n: usize) -> Result<ValueId> {
    let negative = b.lt(index, 0.0)?;
    let from_end = b.add(index, n as f64)?;
    b.select(negative, from_end, index)
}

/// Elements by their row-major number.
pub static TAKE: OpDef = OpDef {
    sig: "take(Tensor self, Tensor index) -> Tensor",
    doc: "Elements of the flattened tensor, in the shape of index; a negative number counts from the end.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, index) = (args.tensor(0)?, as_indices(b, def, args.tensor(1)?)?);
        let x = flat(b, def, x)?;
        let n = sizes(b, def, x)?[0];
        let index = wrapped(b, index, n)?;
        Ok(smallvec![b.prim(Prim::Gather { axis: 0 }, &[x, index])?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, i64[2,2] in -6..6", 0)],
    refuses: &[Refusal::of("f32[3], f32[2]", "take: indices are integers, got f32 [2]")],
    ..PLACING
};
/// Elements by number along a dim, the other dims broadcast.
pub static TAKE_ALONG_DIM: OpDef = OpDef {
    sig: "take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor",
    doc: "As gather, with self and indices broadcast against each other outside dim; without dim in the flattened tensor.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, index) = (args.tensor(0)?, as_indices(b, def, args.tensor(1)?)?);
        let Some(d) = args.optional_int(2)? else {
            let (x, index) = (flat(b, def, x)?, flat(b, def, index)?);
            let n = sizes(b, def, x)?[0];
            let index = wrapped(b, index, n)?;
            return Ok(smallvec![b.prim(Prim::Gather { axis: 0 }, &[x, index])?]);
        };
        let (xs, is) = (b.shape(x), b.shape(index));
        if xs.rank() != is.rank() || xs.rank() == 0 {
            let what = format!("indices {is} and self {xs} differ in rank");
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let axis = rules::check_dim(def.name(), d, xs.rank())?;
        let (mut left, mut right) = (xs.clone(), is.clone());
        left.set(axis, 1);
        right.set(axis, 1);
        let met = rules::broadcast_for(def.name(), &[&left, &right])?;
        let along = |n: Dim| -> Shape { (0..met.rank()).map(|i| if i == axis { n } else { met.dim(i) }).collect() };
        let (x, index) = (b.expand(x, &along(xs.dim(axis)))?, b.expand(index, &along(is.dim(axis)))?);
        let n = sizes(b, def, x)?[axis];
        sizes(b, def, index)?;
        let index = wrapped(b, index, n)?;
        let places = flat_places(b, x, index, axis)?;
        let x = flat(b, def, x)?;
        Ok(smallvec![b.prim(Prim::Gather { axis: 0 }, &[x, places])?])
    },
    samples: &[
        Sample::grad("f32[3,4] in -2..2, i64[3,2] in 0..4, 1", 0),
        Sample::grad("f32[1,4] in -2..2, i64[3,2] in -4..4, 1", 0),
        Sample::grad("f32[2,3] in -2..2, i64[4] in 0..6", 0),
    ],
    ..PLACING
};
/// Elements replaced by their row-major number.
pub static PUT: OpDef = OpDef {
    sig: "put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor",
    doc: "self with the elements of source at the row-major numbers index, added where accumulate says so; else the last \
          one of a place counts.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, index, source) = (args.tensor(0)?, as_indices(b, def, args.tensor(1)?)?, args.tensor(2)?);
        let (y, index, source) = (flat(b, def, x)?, flat(b, def, index)?, flat(b, def, source)?);
        let (n, k, given) = (sizes(b, def, y)?[0], sizes(b, def, index)?[0], sizes(b, def, source)?[0]);
        if k != given {
            let what = format!("{k} places for {given} elements");
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let index = wrapped(b, index, n)?;
        let op = if args.flag(3)? { ScatterOp::Add } else { ScatterOp::Set };
        let shape = b.shape(x);
        let y = b.prim(Prim::Scatter { axis: 0, op }, &[y, index, source])?;
        Ok(smallvec![b.reshape(y, &shape)?])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, i64[4] in -6..6, f32[4] in -2..2", 0),
        Sample::grad("f32[2,3] in -2..2, i64[4] in 0..6, f32[4] in -2..2, true", 16),
    ],
    refuses: &[Refusal::of("f32[3], i64[2] in 0..3, f32[3]", "put: 2 places for 3 elements")],
    ..PLACING
};

/// Slices of a call `(self, dim, index, source)`: a number is a vector of one.
struct Slices {
    x: ValueId,
    axis: usize,
    index: ValueId,
    shape: Shape,
}
impl Slices {
    fn of(b: &mut Builder<'_>, def: &OpDef, args: &Args<'_>) -> Result<Slices> {
        let x = args.tensor(0)?;
        let shape = b.shape(x);
        let (axis, index) = (args.dim(1, shape.rank())?, as_indices(b, def, args.tensor(2)?)?);
        if b.rank(index) > 1 {
            let what = format!("index has one dim, got {}", b.shape(index));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        Ok(Slices { x: atleast_1d(b, x)?, axis, index: atleast_1d(b, index)?, shape })
    }
    /// The shape of what is written.
    fn part(&self, b: &Builder<'_>) -> Shape {
        let mut shape = b.shape(self.x);
        shape.set(self.axis, b.shape(self.index).dim(0));
        shape
    }
    fn source(&self, b: &mut Builder<'_>, def: &OpDef, source: ValueId) -> Result<ValueId> {
        let (source, want) = (atleast_1d(b, source)?, self.part(b));
        if b.shape(source) != want {
            let what = format!("source is {}, the slices are {want}", b.shape(source));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        Ok(source)
    }
    fn scatter(&self, b: &mut Builder<'_>, op: ScatterOp, x: ValueId, source: ValueId) -> Result<ValueId> {
        b.prim(Prim::Scatter { axis: self.axis, op }, &[x, self.index, source])
    }
}
/// Slices added by number.
pub(crate) fn record_index_add(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let alpha = args.get(4).clone();
    let args = Args::new(def, args);
    let at = Slices::of(b, def, &args)?;
    let source = at.source(b, def, args.tensor(3)?)?;
    let source = scaled(b, def, source, &alpha)?;
    let y = at.scatter(b, ScatterOp::Add, at.x, source)?;
    Ok(smallvec![b.reshape(y, &at.shape)?])
}
/// Times a number of the user's; 1 is no multiplication.
pub(crate) fn scaled(b: &mut Builder<'_>, def: &OpDef, x: ValueId, by: &Arg) -> Result<ValueId> {
    let by = match by {
        Arg::None => return Ok(x),
        Arg::Scalar(Scalar::Int(1)) => return Ok(x),
        Arg::Scalar(s) => *s,
        Arg::Bool(x) => Scalar::Bool(*x),
        _ => return Err(rules::refuse(def.name(), Kind::Argument, "a factor is a number")),
    };
    let dtype = b.dtype(x);
    let compute = rules::number_dtype(dtype);
    let by = b.param(compute, by)?;
    let wide = b.cast(x, compute)?;
    let y = b.mul(wide, by)?;
    b.cast(y, dtype)
}
/// Slices replaced by number.
pub static INDEX_COPY: OpDef = OpDef {
    sig: "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    doc: "self with the slices along dim that index names replaced by those of source; the last one of a place counts.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let at = Slices::of(b, def, &args)?;
        let source = at.source(b, def, args.tensor(3)?)?;
        let y = at.scatter(b, ScatterOp::Set, at.x, source)?;
        Ok(smallvec![b.reshape(y, &at.shape)?])
    },
    samples: &[Sample::grad("f32[3,4] in -2..2, 1, i64[2] in 0..4, f32[3,2] in -2..2", 0)],
    refuses: &[Refusal::of(
        "f32[3,4], 0, i64[2] in 0..3, f32[3,4]",
        "index_copy: source is [3, 4], the slices are [2, 4]",
    )],
    ..PLACING
};
/// Slices filled by number.
pub static INDEX_FILL: OpDef = OpDef {
    sig: "index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    doc: "self with the slices along dim that index names filled with a number.",
    runtime: &["value"],
    record: record_index_fill,
    samples: &[Sample::grad("f32[3,4] in -2..2, 1, i64[2] in 0..4, 0.5", 0)],
    ..PLACING
};
/// Slices filled by number, with a tensor of one number.
pub static INDEX_FILL_TENSOR: OpDef = OpDef {
    sig: "index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor",
    doc: "self with the slices along dim that index names filled with the one number of a tensor.",
    record: record_index_fill,
    samples: &[Sample::grad("f32[3,4] in -2..2, 0, i64[2] in 0..3, f32[] in -2..2", 0)],
    refuses: &[Refusal::of("f32[3], 0, i64[2] in 0..3, f32[2]", "index_fill: value is one number, got [2]")],
    ..PLACING
};
fn record_index_fill(b: &mut Builder<'_>, def: &'static OpDef, bound: &Bound) -> Result<Outs> {
    let args = Args::new(def, bound);
    let at = Slices::of(b, def, &args)?;
    let value = one_number(b, def, at.x, bound, 3)?;
    let part = at.part(b);
    let filling = b.expand(value, &part)?;
    let y = at.scatter(b, ScatterOp::Set, at.x, filling)?;
    Ok(smallvec![b.reshape(y, &at.shape)?])
}
/// Argument `i`, a number or a tensor of rank 0, in the dtype of `x`.
fn one_number(b: &mut Builder<'_>, def: &OpDef, x: ValueId, args: &Bound, i: usize) -> Result<ValueId> {
    let dtype = b.dtype(x);
    let value = record::tensor_or_number(b, def, args, i, dtype)?;
    if b.rank(value) != 0 {
        let what = format!("value is one number, got {}", b.shape(value));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    b.cast(value, dtype)
}
/// Slices combined by number.
pub static INDEX_REDUCE: OpDef = OpDef {
    sig: "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor",
    doc: "self with the slices of source combined along dim where index says: prod, mean, amax, amin. Without \
          include_self what is written to starts from nothing.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let reduce = args.choice(4, &["prod", "mean", "amax", "amin"])?;
        let at = Slices::of(b, def, &args)?;
        let source = at.source(b, def, args.tensor(3)?)?;
        let combine = Combination { reduce, include_self: !matches!(args.get(5), Arg::Bool(false)) };
        let y = combine.emit(b, at.axis, at.x, at.index, source)?;
        Ok(smallvec![b.reshape(y, &at.shape)?])
    },
    samples: &[
        Sample::grad("f32[3,2] in 1..2, 0, i64[4] in 0..3, f32[4,2] in 1..2, \"prod\"", 16),
        Sample::grad("f32[3,2] in 1..2, 0, i64[4] in 0..3, f32[4,2] in 1..2, \"mean\", false", 16),
        Sample::grad("f32[3] in -2..2, 0, i64[4] in 0..3, f32[4] in -2..2, \"amax\", false", 0),
    ],
    refuses: &[Refusal::of(
        "f32[3], 0, i64[1] in 0..3, f32[1], \"sum\"",
        "index_reduce: \"sum\" is not one of \"prod\", \"mean\", \"amax\", \"amin\"",
    )],
    ..PLACING
};

/// How elements of one place are combined.
struct Combination {
    reduce: &'static str,
    include_self: bool,
}
impl Combination {
    fn emit(&self, b: &mut Builder<'_>, axis: usize, x: ValueId, index: ValueId, updates: ValueId) -> Result<ValueId> {
        let dtype = b.dtype(x);
        let (op, neutral) = match self.reduce {
            "sum" | "mean" => (ScatterOp::Add, Scalar::Int(0)),
            "prod" => (ScatterOp::Mul, Scalar::Int(1)),
            "amax" => (ScatterOp::Max, lowest(dtype)),
            _ => (ScatterOp::Min, highest(dtype)),
        };
        let scatter = |b: &mut Builder<'_>, op, x, u| b.prim(Prim::Scatter { axis, op }, &[x, index, u]);
        let (part, whole) = (b.shape(updates), b.shape(x));
        let mut start = x;
        if !self.include_self {
            let none = b.full(dtype, &part, neutral)?;
            start = scatter(b, ScatterOp::Set, x, none)?;
        }
        let y = scatter(b, op, start, updates)?;
        if self.reduce != "mean" {
            return Ok(y);
        }
        let counted = b.full(dtype, &whole, i64::from(self.include_self))?;
        let one = b.full(dtype, &part, 1i64)?;
        let count = scatter(b, ScatterOp::Add, counted, one)?;
        let count = b.max(count, 1.0)?;
        let mean = b.div(y, count)?;
        if dtype.class() != Class::Int {
            return Ok(mean);
        }
        // Rounded down, as PyTorch does: a division of integers here rounds towards zero.
        let back = b.mul(mean, count)?;
        let above = b.lt(y, back)?;
        let below = b.sub(mean, 1.0)?;
        b.select(above, below, mean)
    }
}
/// Several indices at once.
pub static INDEX: OpDef = OpDef {
    sig: "index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    doc: "x[i, :, j] of NumPy: the index tensors broadcast against each other and name elements of their dims; dims \
          without one stay. The broadcast shape stands where the indices stand, in front where they do not adjoin. A \
          negative index counts from the end. Masks are turned into indices before.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = args.tensor(0)?;
        let places = advanced_places(b, def, x, &args.optional_tensors(1)?)?;
        let x = flat(b, def, x)?;
        Ok(smallvec![b.prim(Prim::Gather { axis: 0 }, &[x, places])?])
    },
    samples: &[
        Sample::grad("f32[3,4] in -2..2, [i64[2] in -3..3, i64[2] in 0..4]", 0),
        Sample::grad("f32[3,4] in -2..2, [i64[2,2] in 0..3]", 0),
        Sample::grad("f32[3,4,2] in -2..2, [i64[2,1] in 0..3, i64[3] in 0..4]", 0),
    ],
    refuses: &[Refusal::of("f32[3], [i64[1] in 0..3, i64[1] in 0..3]", "index: 2 indices for a tensor of rank 1")],
    ..PLACING
};
/// Elements replaced at several indices.
pub static INDEX_PUT: OpDef = OpDef {
    sig: "index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
    doc: "self with x[i, :, j] replaced by values, which broadcast; added where accumulate says so, else the last one of a \
          place counts.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, values) = (args.tensor(0)?, args.tensor(2)?);
        let places = advanced_places(b, def, x, &args.optional_tensors(1)?)?;
        let op = if args.flag(3)? { ScatterOp::Add } else { ScatterOp::Set };
        Ok(smallvec![put_at(b, def, x, places, values, op)?])
    },
    samples: &[
        Sample::grad("f32[3,4] in -2..2, [i64[2] in -3..3, i64[2] in 0..4], f32[2] in -2..2", 0),
        Sample::grad("f32[3,4] in -2..2, [i64[2] in 0..3], f32[4] in -2..2, true", 16),
    ],
    ..PLACING
};
fn put_at(
    b: &mut Builder<'_>,
    def: &OpDef,
    x: ValueId,
    places: ValueId,
    values: ValueId,
    op: ScatterOp,
) -> Result<ValueId> {
    let (shape, part) = (b.shape(x), b.shape(places));
    if rules::broadcast_for(def.name(), &[&b.shape(values), &part])? != part {
        let what = format!("values {} do not broadcast to {part}", b.shape(values));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let values = b.cast(values, b.dtype(x))?;
    let values = b.expand(values, &part)?;
    let y = flat(b, def, x)?;
    let y = b.prim(Prim::Scatter { axis: 0, op }, &[y, places, values])?;
    b.reshape(y, &shape)
}
/// Row-major positions of `x[indices]`, in the shape that NumPy gives it; -1 for what lies outside.
fn advanced_places(b: &mut Builder<'_>, def: &OpDef, x: ValueId, indices: &[Option<ValueId>]) -> Result<ValueId> {
    let all = sizes(b, def, x)?;
    if indices.len() > all.len() {
        let what = format!("{} indices for a tensor of rank {}", indices.len(), all.len());
        return Err(rules::refuse(def.name(), Kind::Argument, what));
    }
    let strides = rtx_core::contiguous_strides(&all);
    let named: Vec<(usize, ValueId)> = indices.iter().enumerate().filter_map(|(d, i)| Some((d, (*i)?))).collect();
    let mut met = Shape::scalar();
    for &(_, i) in &named {
        sizes(b, def, i)?;
        met = rules::broadcast_for(def.name(), &[&met, &b.shape(i)])?;
    }
    let adjoin = named.windows(2).all(|w| w[1].0 == w[0].0 + 1);
    let kept: Vec<usize> = (0..all.len()).filter(|d| named.iter().all(|(n, _)| n != d)).collect();
    let first = if adjoin { named.first().map_or(0, |(d, _)| *d) } else { 0 };
    let before = kept.iter().filter(|d| adjoin && **d < first).count();
    let size = |d: &usize| Dim::Const(all[*d] as u64);
    let shape: Shape =
        kept[..before].iter().map(size).chain(met.iter()).chain(kept[before..].iter().map(size)).collect();
    let mut places = b.full(DType::I64, &shape, 0i64)?;
    let mut outside = b.full(DType::Bool, &shape, false)?;
    for (d, index) in named {
        let index = as_indices(b, def, index)?;
        let index = wrapped(b, index, all[d])?;
        // The index stands where the broadcast shape stands.
        let index = b.expand(index, &met)?;
        let mut aligned = b.shape(index);
        (before..kept.len()).for_each(|_| aligned.push(1));
        let index = b.reshape(index, &aligned)?;
        let index = b.expand(index, &shape)?;
        let negative = b.lt(index, 0.0)?;
        let last = b.constant(DType::I64, all[d] as i64 - 1)?;
        let above = b.lt(last, index)?;
        let wrong = b.or(negative, above)?;
        outside = b.or(outside, wrong)?;
        let along = b.mul(index, strides[d] as f64)?;
        places = b.add(places, along)?;
    }
    for (i, d) in kept.iter().enumerate() {
        let axis = if i < before { i } else { i + met.rank() };
        let along = b.prim(Prim::Iota { shape: shape.clone(), axis }, &[])?;
        let along = b.mul(along, strides[*d] as f64)?;
        places = b.add(places, along)?;
    }
    b.select(outside, -1.0, places)
}
/// Elements at several indices where a mask holds.
pub static UNSAFE_MASKED_INDEX: OpDef = OpDef {
    sig: "_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor",
    doc: "index where the mask holds, fill elsewhere; indices are clamped, so that those behind the mask may be anything.",
    runtime: &["fill"],
    record: |b, def, bound| {
        let args = Args::new(def, bound);
        let (x, mask) = (args.tensor(0)?, args.tensor(1)?);
        let indices = clamped(b, def, x, &args.optional_tensors(2)?)?;
        let places = advanced_places(b, def, x, &indices)?;
        let fill = one_number(b, def, x, bound, 3)?;
        let y = flat(b, def, x)?;
        let y = b.prim(Prim::Gather { axis: 0 }, &[y, places])?;
        Ok(smallvec![b.select(mask, y, fill)?])
    },
    samples: &[Sample::grad("f32[3,4] in -2..2, bool[2], [i64[2] in -9..9, i64[2] in 0..9], 0.5", 0)],
    ..PLACING
};
/// Elements added at several indices where a mask holds.
pub static UNSAFE_MASKED_INDEX_PUT: OpDef = OpDef {
    sig: "_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
    doc: "index_put that adds, where the mask holds; indices are clamped, so that those behind the mask may be anything.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, mask, values) = (args.tensor(0)?, args.tensor(1)?, args.tensor(3)?);
        let indices = clamped(b, def, x, &args.optional_tensors(2)?)?;
        let places = advanced_places(b, def, x, &indices)?;
        let values = b.select(mask, values, 0.0)?;
        Ok(smallvec![put_at(b, def, x, places, values, ScatterOp::Add)?])
    },
    samples: &[Sample::grad("f32[3,4] in -2..2, bool[2], [i64[2] in -9..9, i64[2] in 0..9], f32[2] in -2..2", 16)],
    ..PLACING
};
fn clamped(b: &mut Builder<'_>, def: &OpDef, x: ValueId, indices: &[Option<ValueId>]) -> Result<Vec<Option<ValueId>>> {
    let all = sizes(b, def, x)?;
    let mut out = Vec::new();
    for (d, index) in indices.iter().enumerate() {
        let Some(index) = index else {
            out.push(None);
            continue;
        };
        let n = all.get(d).copied().unwrap_or(1) as f64;
        let index = as_indices(b, def, *index)?;
        let index = b.max(index, -n)?;
        out.push(Some(b.min(index, n - 1.0)?));
    }
    Ok(out)
}

/// Elements along a dim replaced by a number.
pub static SCATTER_VALUE: OpDef = OpDef {
    sig: "scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
    doc: "self with the number where index says along dim.",
    runtime: &["value"],
    record: |b, def, args| scatter_value(b, def, args, "set"),
    samples: &[Sample::grad("f32[3,4] in -2..2, 1, i64[2,2] in 0..4, 0.5", 0)],
    ..PLACING
};
/// Elements along a dim combined with another tensor's.
pub static SCATTER_WITH: OpDef = OpDef {
    sig: "scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
    doc: "self with the elements of src added or multiplied in where index says along dim.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let op = if args.choice(4, &["add", "multiply"])? == "add" { ScatterOp::Add } else { ScatterOp::Mul };
        along(b, def, &args, args.tensor(3)?, |b, x, places, src| {
            b.prim(Prim::Scatter { axis: 0, op }, &[x, places, src])
        })
    },
    samples: &[
        Sample::grad("f32[3,4] in 1..2, 1, i64[3,2] in 0..4, f32[3,2] in 1..2, \"add\"", 16),
        Sample::grad("f32[3,4] in 1..2, 1, i64[3,2] in 0..4, f32[3,2] in 1..2, \"multiply\"", 16),
    ],
    ..PLACING
};
/// Elements along a dim combined with a number.
pub static SCATTER_VALUE_WITH: OpDef = OpDef {
    sig: "scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor",
    doc: "self with the number added or multiplied in where index says along dim.",
    runtime: &["value"],
    record: |b, def, args| {
        let word = Args::new(def, args).choice(4, &["add", "multiply"])?;
        scatter_value(b, def, args, word)
    },
    samples: &[Sample::grad("f32[3,4] in 1..2, 1, i64[3,2] in 0..4, 0.5, \"add\"", 16)],
    ..PLACING
};
fn scatter_value(b: &mut Builder<'_>, def: &'static OpDef, bound: &Bound, how: &str) -> Result<Outs> {
    let args = Args::new(def, bound);
    let (x, index) = (args.tensor(0)?, args.tensor(2)?);
    let value = one_number(b, def, x, bound, 3)?;
    let shape = b.shape(index);
    let src = b.expand(value, &shape)?;
    let op = match how {
        "set" => ScatterOp::Set,
        "add" => ScatterOp::Add,
        _ => ScatterOp::Mul,
    };
    along(b, def, &args, src, |b, x, places, src| b.prim(Prim::Scatter { axis: 0, op }, &[x, places, src]))
}
/// A scatter along a dim, PyTorch's way: `src` may be larger than the index.
fn along(
    b: &mut Builder<'_>,
    def: &OpDef,
    args: &Args<'_>,
    src: ValueId,
    emit: impl FnOnce(&mut Builder<'_>, ValueId, ValueId, ValueId) -> Result<ValueId>,
) -> Result<Outs> {
    let x = args.tensor(0)?;
    let shape = b.shape(x);
    let (axis, index) = (args.dim(1, shape.rank())?, as_indices(b, def, args.tensor(2)?)?);
    let (x, index, mut src) = (atleast_1d(b, x)?, atleast_1d(b, index)?, atleast_1d(b, src)?);
    let (whole, part, given) = (sizes(b, def, x)?, sizes(b, def, index)?, sizes(b, def, src)?);
    let ranks = part.len() == whole.len() && given.len() == whole.len();
    let inside = ranks && (0..part.len()).all(|i| part[i] <= given[i] && (i == axis || part[i] <= whole[i]));
    if !inside && part.iter().all(|n| *n > 0) {
        let what = format!("index {part:?} does not fit self {whole:?} and src {given:?}");
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    if part.contains(&0) {
        return Ok(smallvec![b.reshape(x, &shape)?]);
    }
    for (i, &n) in part.iter().enumerate() {
        if n < given[i] {
            src = b.slice(src, i, 0, n)?;
        }
    }
    let places = flat_places(b, x, index, axis)?;
    let (y, places, src) = (flat(b, def, x)?, flat(b, def, places)?, flat(b, def, src)?);
    let src = b.cast(src, b.dtype(y))?;
    let y = emit(b, y, places, src)?;
    Ok(smallvec![b.reshape(y, &shape)?])
}
/// Elements along a dim combined.
pub static SCATTER_REDUCE: OpDef = OpDef {
    sig: "scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor",
    doc: "self with the elements of src combined where index says along dim: sum, prod, mean, amax, amin. Without \
          include_self what is written to starts from nothing.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let reduce = args.choice(4, &["sum", "prod", "mean", "amax", "amin"])?;
        let combine = Combination { reduce, include_self: !matches!(args.get(5), Arg::Bool(false)) };
        along(b, def, &args, args.tensor(3)?, |b, x, places, src| combine.emit(b, 0, x, places, src))
    },
    samples: &[
        Sample::grad("f32[3,4] in 1..2, 0, i64[2,4] in 0..3, f32[2,4] in 1..2, \"sum\"", 16),
        Sample::grad("f32[3,4] in 1..2, 0, i64[2,4] in 0..3, f32[2,4] in 1..2, \"mean\", false", 16),
        Sample::grad("f32[5] in -2..2, 0, i64[4] in 0..5, f32[4] in -2..2, \"amin\"", 0),
    ],
    refuses: &[Refusal::of(
        "f32[3], 0, i64[2] in 0..3, f32[1], \"sum\"",
        "scatter_reduce: index [2] does not fit self [3] and src [1]",
    )],
    ..PLACING
};

/// A mask filled with the number of a tensor.
pub static MASKED_FILL_TENSOR: OpDef = OpDef {
    sig: "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
    doc: "The one number of value where the mask holds, self elsewhere; both broadcast.",
    record: |b, def, args| {
        let x = Args::new(def, args).tensor(0)?;
        let mask = mask_of(b, def, args)?;
        let value = one_number(b, def, x, args, 2)?;
        Ok(smallvec![b.select(mask, value, x)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, bool[3], f32[] in -2..2", 0)],
    refuses: &[Refusal::of("f32[2], i64[2], f32[]", "masked_fill: the mask is bool, got i64 [2]")],
    ..PLACING
};
fn mask_of(b: &Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<ValueId> {
    let mask = Args::new(def, args).tensor(1)?;
    if b.dtype(mask) == DType::Bool {
        return Ok(mask);
    }
    Err(rules::refuse(def.name(), Kind::DType, format_args!("the mask is bool, got {}", b.ty(mask))))
}
/// A mask filled from a row of elements.
pub static MASKED_SCATTER: OpDef = OpDef {
    sig: "masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor",
    doc: "The elements of source in row-major order where the mask holds, self elsewhere; self and mask broadcast. A \
          source that has too few repeats its last one.",
    record: |b, def, args| {
        let bound = args;
        let args = Args::new(def, args);
        let (x, mask, source) = (args.tensor(0)?, mask_of(b, def, bound)?, args.tensor(2)?);
        let [x, mask] = b.broadcast_pair(x, mask)?;
        let shape = b.shape(x);
        let source = flat(b, def, source)?;
        let n = sizes(b, def, source)?[0];
        let row = flat(b, def, mask)?;
        let row = b.cast(row, DType::I64)?;
        let count = b.prim(Prim::Scan { fold: Fold::Sum, axis: 0, reverse: false }, &[row])?;
        if n == 0 || sizes(b, def, x)?.contains(&0) {
            return Ok(smallvec![x]);
        }
        let place = b.sub(count, 1.0)?;
        let place = b.max(place, 0.0)?;
        let place = b.min(place, n as f64 - 1.0)?;
        let place = b.reshape(place, &shape)?;
        let taken = b.prim(Prim::Gather { axis: 0 }, &[source, place])?;
        let taken = b.cast(taken, b.dtype(x))?;
        Ok(smallvec![b.select(mask, taken, x)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, bool[2,3], f32[6] in -2..2", 0)],
    ..PLACING
};
