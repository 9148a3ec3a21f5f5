//! Histograms of one and several variables, and reductions of neighbouring segments.
use crate::args::Args;
use crate::lines::{check_static, flat, head, known, tail};
use crate::precision::{highest, lowest};
use crate::search::counted;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Scalar, Shape};
use rtx_ir::{Arg, Bound, Builder, Grad, OpDef, Outs, Prim, Refusal, Sample, ScatterOp, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] =
    &[&HISTOGRAM, &HISTOGRAM_EDGES, &HISTOGRAMDD, &HISTOGRAMDD_INT, &HISTOGRAMDD_EDGES, &SEGMENT_REDUCE];

const HISTOGRAMS: OpDef = OpDef { grad: Grad::None, cost: 9, stability: Stability::Stable, ..SPELLING };

/// The smallest and the largest of a line, 0 and 1 of nothing.
fn ends_of(b: &mut Builder<'_>, x: ValueId) -> Result<[ValueId; 2]> {
    let dtype = b.dtype(x);
    if b.shape(x).numel() == 0 {
        return Ok([b.constant(dtype, 0.0)?, b.constant(dtype, 1.0)?]);
    }
    Ok([b.reduce(Fold::Min, x, &[0])?, b.reduce(Fold::Max, x, &[0])?])
}
/// So many bins of one width between two numbers, half a step around them where they are one: `[bins + 1]` edges.
fn even_edges(b: &mut Builder<'_>, [low, high]: [ValueId; 2], bins: usize) -> Result<ValueId> {
    let one = b.eq(low, high)?;
    let (below, above) = (b.sub(low, 0.5)?, b.add(high, 0.5)?);
    let (low, high) = (b.select(one, below, low)?, b.select(one, above, high)?);
    let (dtype, shape) = (b.dtype(low), Shape::from([bins + 1]));
    let width = b.sub(high, low)?;
    let step = b.div(width, bins as f64)?;
    let i = b.prim(Prim::Iota { shape, axis: 0 }, &[])?;
    let (i, back) = (b.cast(i, dtype)?, b.sub(bins as f64, i)?);
    let back = b.cast(back, dtype)?;
    // Counted from both ends, so that both are exact.
    let (up, down) = (b.mul(i, step)?, b.mul(back, step)?);
    let (up, down) = (b.add(low, up)?, b.sub(high, down)?);
    let first_half = b.lt(i, bins.div_ceil(2) as f64)?;
    b.select(first_half, up, down)
}
/// How many bins edges make.
fn bins_of(b: &Builder<'_>, op: &str, edges: ValueId) -> Result<usize> {
    match b.shape(edges).dims() {
        [n] if n.bound() > 1 => Ok(known(op, *n)? - 1),
        _ => {
            let what = format_args!("edges are a line of two or more, got {}", b.shape(edges));
            Err(rules::refuse(op, Kind::Shape, what))
        }
    }
}

/// Elements counted, or weights added up, by the bins that their coordinates lie in.
struct Histogram {
    op: &'static str,
    /// One line of coordinates for each variable.
    lines: Vec<ValueId>,
    /// The edges of the bins of each.
    edges: Vec<ValueId>,
    weight: Option<ValueId>,
    density: bool,
}
impl Histogram {
    fn emit(&self, b: &mut Builder<'_>) -> Result<ValueId> {
        let line = self.lines[0];
        let (dtype, n) = (b.dtype(line), b.shape(line).numel());
        let mut bins = Vec::new();
        let (mut place, mut inside) = (b.zeros(DType::I64, &[n].into())?, b.full(DType::Bool, &[n].into(), true)?);
        for (&x, &edges) in self.lines.iter().zip(&self.edges) {
            let k = bins_of(b, self.op, edges)?;
            let edges = b.cast(edges, dtype)?;
            let count = counted(b, self.op, edges, x, true, false)?;
            let (first, last) = (b.slice(edges, 0, 0, 1usize)?, b.slice(edges, 0, k as i64, 1usize)?);
            let (not_below, not_above) = (b.le(first, x)?, b.le(x, last)?);
            let within = b.and(not_below, not_above)?;
            inside = b.and(inside, within)?;
            // The last bin is closed.
            let own = b.sub(count, 1.0)?;
            let own = b.max(own, 0.0)?;
            let own = b.min(own, k as f64 - 1.0)?;
            let before = b.mul(place, k as f64)?;
            place = b.add(before, own)?;
            bins.push(k);
        }
        let ones = b.full(dtype, &[n].into(), 1.0)?;
        let amounts = match self.weight {
            Some(w) if b.shape(w).numel() == n => b.cast(w, dtype)?,
            Some(w) => {
                let what = format_args!("{} weights for {n} elements", b.shape(w).numel());
                return Err(rules::refuse(self.op, Kind::Shape, what));
            }
            None => ones,
        };
        let amounts = b.select(inside, amounts, 0.0)?;
        let none = b.zeros(dtype, &[bins.iter().product::<usize>()].into())?;
        let sums = b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Add }, &[none, place, amounts])?;
        let shape = Shape::of(&bins);
        let y = b.reshape(sums, &shape)?;
        if self.density { self.per_volume(b, y, &shape) } else { Ok(y) }
    }
    /// Divided by the whole and by the volumes of the bins.
    fn per_volume(&self, b: &mut Builder<'_>, y: ValueId, shape: &Shape) -> Result<ValueId> {
        let all: SmallVec<[usize; 4]> = (0..shape.rank()).collect();
        let whole = b.reduce(Fold::Sum, y, &all)?;
        let mut y = b.div(y, whole)?;
        for (axis, &edges) in self.edges.iter().enumerate() {
            let edges = b.cast(edges, b.dtype(y))?;
            let (after, before) = (tail(b, self.op, edges, 0)?, head(b, self.op, edges, 0)?);
            let width = b.sub(after, before)?;
            let width = crate::spatial::along(b, width, axis, shape.rank())?;
            y = b.div(y, width)?;
        }
        Ok(y)
    }
}

fn line_of(b: &mut Builder<'_>, args: Args<'_>, i: usize) -> Result<ValueId> {
    flat(b, args.op(), args.tensor(i)?)
}
fn weight_of(b: &mut Builder<'_>, args: Args<'_>, i: usize) -> Result<Option<ValueId>> {
    match args.optional_tensor(i)? {
        Some(w) => Ok(Some(flat(b, args.op(), w)?)),
        None => Ok(None),
    }
}
fn check_bins(op: &str, bins: i64) -> Result<usize> {
    match bins {
        1.. => Ok(bins as usize),
        _ => Err(rules::refuse(op, Kind::Argument, format_args!("a number of bins is positive, got {bins}"))),
    }
}
/// The ends of variable `d`: those of argument `i`, or of its elements.
fn ends(b: &mut Builder<'_>, args: Args<'_>, i: usize, (d, x): (usize, ValueId)) -> Result<[ValueId; 2]> {
    if matches!(args.get(i), Arg::None) {
        return ends_of(b, x);
    }
    let given = args.floats(i)?;
    match given.get(2 * d..2 * d + 2) {
        Some([low, high]) if low <= high => Ok([b.constant(b.dtype(x), *low)?, b.constant(b.dtype(x), *high)?]),
        _ => {
            let what = format_args!("a range has two rising numbers a variable, got {:?}", given.as_slice());
            Err(rules::refuse(args.op(), Kind::Argument, what))
        }
    }
}

/// Bins of one width.
pub static HISTOGRAM: OpDef = OpDef {
    sig: "histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    doc: "How many elements lie in each of so many bins of one width, and their edges: bins are open above but for the \
          last; between the smallest and the largest element, or in a range. Weights are added up in place of ones; a \
          density is divided by the whole and by the widths.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = line_of(b, args, 0)?;
        rules::check_float(def.name(), b.ty(x))?;
        let ends = ends(b, args, 2, (0, x))?;
        let edges = even_edges(b, ends, check_bins(def.name(), args.int_or(1, 100)?)?)?;
        let weight = weight_of(b, args, 3)?;
        let all = Histogram { op: def.name(), lines: vec![x], edges: vec![edges], weight, density: args.flag(4)? };
        Ok(smallvec![all.emit(b)?, edges])
    },
    samples: &[
        Sample::of("f32[20] in -2..2, 4", 16),
        Sample::of("f32[3] = 2 2 2, 2, none, f32[3] = 1 2 4, true", 16),
        Sample::of("f32[0], 2", 16),
    ],
    refuses: &[
        Refusal::of("f32[2], 0", "histogram: a number of bins is positive, got 0"),
        Refusal::of("f32[2], 2, none, f32[3]", "histogram: 3 weights for 2 elements"),
    ],
    ..HISTOGRAMS
};
/// Bins between given edges.
pub static HISTOGRAM_EDGES: OpDef = OpDef {
    sig: "histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    doc: "How many elements lie in each bin between rising edges, and the edges.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, edges) = (line_of(b, args, 0)?, args.tensor(1)?);
        let weight = weight_of(b, args, 2)?;
        let all = Histogram { op: def.name(), lines: vec![x], edges: vec![edges], weight, density: args.flag(3)? };
        Ok(smallvec![all.emit(b)?, edges])
    },
    samples: &[
        Sample::exact("f32[6] = -1 0 0.5 1 3 4, f32[4] = 0 1 2 3"),
        Sample::of("f32[4] = 0 1 2 3, f32[3] = 0 1 3, f32[4] = 1 2 3 4, true", 16),
    ],
    refuses: &[Refusal::of("f32[2], f32[1]", "histogram: edges are a line of two or more, got [1]")],
    ..HISTOGRAMS
};

/// `(self, bins, range, weight, density)` with a number of bins or edges for each column.
fn record_several(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    check_static(b, def.name(), x)?;
    let shape = b.shape(x);
    let Some(variables) = shape.rank().checked_sub(1).filter(|n| *n > 0).map(|n| shape.dim(n).bound()) else {
        let what = format_args!("takes rows of coordinates, got {shape}");
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    };
    let n = shape.numel() / variables.max(1);
    let rows = b.reshape(x, &[n, variables].into())?;
    let (mut lines, mut edges) = (Vec::new(), Vec::new());
    for d in 0..variables {
        let line = b.slice(rows, 1, d as i64, 1usize)?;
        lines.push(b.reshape(line, &[n].into())?);
    }
    let counts = |given: usize| {
        let what = format_args!("bins of {given} variables for {variables}");
        if given == variables && given > 0 { Ok(()) } else { Err(rules::refuse(def.name(), Kind::Argument, what)) }
    };
    if let Arg::Values(given) = args.get(1) {
        counts(given.len())?;
        edges.extend(given.iter().copied());
    } else {
        let mut bins = args.ints(1)?;
        if bins.len() == 1 {
            bins = SmallVec::from_elem(bins[0], variables);
        }
        counts(bins.len())?;
        for (d, &x) in lines.iter().enumerate() {
            let ends = ends(b, args, 2, (d, x))?;
            edges.push(even_edges(b, ends, check_bins(def.name(), bins[d])?)?);
        }
    }
    let (weight, density) = (weight_of(b, args, 3)?, args.flag(4)?);
    let all = Histogram { op: def.name(), lines, edges, weight, density };
    let mut outs: Outs = smallvec![all.emit(b)?];
    outs.extend(all.edges);
    Ok(outs)
}
/// Several variables, bins of one width.
pub static HISTOGRAMDD: OpDef = OpDef {
    sig: "histogramdd(Tensor self, int[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    doc: "As histogram, of rows of coordinates, with a dim of bins for each column; then the edges of each.",
    record: record_several,
    samples: &[
        Sample::of("f32[9,2] in -2..2, [2, 3]", 16),
        Sample::of("f32[5,2] in -2..2, [2, 2], none, f32[5], true", 64),
    ],
    refuses: &[Refusal::of("f32[4,2], [1, 2, 3]", "histogramdd: bins of 3 variables for 2")],
    ..HISTOGRAMS
};
/// Several variables, one number of bins.
pub static HISTOGRAMDD_INT: OpDef = OpDef {
    sig: "histogramdd.int_bins(Tensor self, int bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    doc: "As histogramdd, with as many bins in each dim.",
    record: record_several,
    samples: &[Sample::of("f32[9,2] in -2..2, 2", 16)],
    ..HISTOGRAMS
};
/// Several variables, bins between given edges.
pub static HISTOGRAMDD_EDGES: OpDef = OpDef {
    sig: "histogramdd.TensorList_bins(Tensor self, Tensor[] bins, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor[] bin_edges)",
    doc: "As histogramdd, between the rising edges of each column.",
    record: record_several,
    samples: &[Sample::exact("f32[3,2] = 0 0 1 5 2 2, [f32[3] = 0 1 2, f32[2] = 0 3]")],
    ..HISTOGRAMS
};

/// Neighbouring rows combined.
pub static SEGMENT_REDUCE: OpDef = OpDef {
    sig: "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    doc: "Neighbouring slices along axis combined by sum, mean, max, min or prod: as many as each length says, or between \
          offsets. initial takes part in each segment and is what an empty one has; without it that is the neutral \
          number, and NaN for a mean.",
    runtime: &["initial"],
    record: record_segments,
    samples: &[
        Sample::grad("f32[5] in -2..2, \"sum\", i64[3] = 2 0 3", 16),
        Sample::grad("f32[5,2] in 1..2, \"mean\", i64[3] = 2 1 2, none, none, 0, false, 1.0", 16),
        Sample::grad("f32[2,3] in -2..2, \"max\", i64[2,2] = 1 2 3 0, none, none, 1, false, -5.0", 16),
        Sample::grad("f32[4] in 1..2, \"prod\", none, none, i64[3] = 0 1 4", 16),
        Sample::exact("f32[3] in -2..2, \"min\", i64[2] = 3 0"),
    ],
    refuses: &[
        Refusal::of("f32[3], \"sum\"", "segment_reduce: takes lengths or offsets"),
        Refusal::of("f32[3], \"sum\", i64[2,2]", "segment_reduce: lengths of [2, 2] do not fit axis 0 of [3]"),
    ],
    stability: Stability::Stable,
    ..SPELLING
};
fn record_segments(b: &mut Builder<'_>, def: &'static OpDef, bound: &Bound) -> Result<Outs> {
    let args = Args::new(def, bound);
    let (x, reduce) = (args.tensor(0)?, args.choice(1, &["sum", "mean", "max", "min", "prod"])?);
    check_static(b, def.name(), x)?;
    rules::check_float(def.name(), b.ty(x))?;
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let axis = rules::check_dim(def.name(), args.int_or(5, 0)?, shape.rank())?;
    let lengths = match (args.optional_tensor(2)?, args.optional_tensor(4)?) {
        (Some(lengths), _) => lengths,
        (None, Some(offsets)) => {
            let last = b.rank(offsets).max(1) - 1;
            let (after, before) = (tail(b, def.name(), offsets, last)?, head(b, def.name(), offsets, last)?);
            b.sub(after, before)?
        }
        (None, None) => return Err(rules::refuse(def.name(), Kind::Argument, "takes lengths or offsets")),
    };
    let given = b.shape(lengths);
    if given.rank() != axis + 1 || !given.iter().take(axis).eq(shape.iter().take(axis)) || !b.dtype(lengths).is_int() {
        let what = format_args!("lengths of {given} do not fit axis {axis} of {shape}");
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let lead = given.iter().take(axis).map(Dim::bound).product::<usize>();
    let (rows, n) = (shape.dim(axis).bound(), known(def.name(), given.dim(axis))?);
    let rest: Shape = shape.iter().skip(axis + 1).collect();
    // The segment of each row, by the ends of segments that are not behind it; one more holds what lies behind all.
    let lengths = b.cast(lengths, DType::I64)?;
    let lengths = b.reshape(lengths, &[lead, n].into())?;
    let ends = b.prim(Prim::Scan { fold: Fold::Sum, axis: 1, reverse: false }, &[lengths])?;
    let row = b.prim(Prim::Iota { shape: [lead, rows].into(), axis: 1 }, &[])?;
    let segment = counted(b, def.name(), ends, row, true, false)?;
    let line = b.prim(Prim::Iota { shape: [lead, rows].into(), axis: 0 }, &[])?;
    let line = b.mul(line, (n + 1) as f64)?;
    let place = b.add(line, segment)?;
    let place = b.reshape(place, &[lead * rows].into())?;
    let (op, neutral) = match reduce {
        "max" => (ScatterOp::Max, lowest(dtype)),
        "min" => (ScatterOp::Min, highest(dtype)),
        "prod" => (ScatterOp::Mul, Scalar::Int(1)),
        _ => (ScatterOp::Add, Scalar::Int(0)),
    };
    let start = match args.get(7) {
        Arg::Scalar(s) => b.param(dtype, *s)?,
        _ => b.constant(dtype, neutral)?,
    };
    let whole: Shape = [Dim::from(lead * (n + 1))].into_iter().chain(rest.iter()).collect();
    let start = b.expand(start, &whole)?;
    let listed: Shape = [Dim::from(lead * rows)].into_iter().chain(rest.iter()).collect();
    let data = b.reshape(x, &listed)?;
    let y = b.prim(Prim::Scatter { axis: 0, op }, &[start, place, data])?;
    let split: Shape = [lead, n + 1].map(Dim::from).into_iter().chain(rest.iter()).collect();
    let y = b.reshape(y, &split)?;
    let mut y = b.slice(y, 1, 0, n)?;
    if reduce == "mean" {
        let has_start = matches!(args.get(7), Arg::Scalar(_));
        let count = b.cast(lengths, dtype)?;
        // An empty segment keeps what it started with; 0 / 0 where that is nothing.
        let count = if has_start { b.max(count, 1.0)? } else { count };
        let column: Shape = [lead, n].map(Dim::from).into_iter().chain(rest.iter().map(|_| Dim::Const(1))).collect();
        let count = b.reshape(count, &column)?;
        y = b.div(y, count)?;
    }
    let out: Shape = given.iter().chain(rest.iter()).collect();
    Ok(smallvec![b.reshape(y, &out)?])
}
