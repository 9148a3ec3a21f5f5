//! Where values fall: among sorted boundaries, in bins, in a set, off zero.
use crate::args::Args;
use crate::lines::{check_static, flat, known, number, pick};
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Scalar, Shape};
use rtx_ir::{Arg, Bound, Builder, Grad, Op, OpDef, Outs, Prim, Refusal, Sample, ScatterOp, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &SEARCHSORTED,
    &SEARCHSORTED_SCALAR,
    &BUCKETIZE,
    &BUCKETIZE_SCALAR,
    &HISTC,
    &ISIN,
    &ISIN_SCALAR,
    &SCALAR_ISIN,
    &COUNT_NONZERO,
    &COUNT_NONZERO_DIMS,
    &NONZERO_STATIC,
    &CARTESIAN_PROD,
];

const SEARCH: OpDef = OpDef { grad: Grad::None, stability: Stability::Stable, ..SPELLING };
/// Sorted lines up to this long are compared with as a whole; in longer ones each step halves what is left.
const COMPARED: usize = 64;

/// Places in sorted lines.
pub static SEARCHSORTED: OpDef = OpDef {
    sig: "searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    doc: "How many elements of the sorted line are less than each value; with right, not greater. The last dim of the \
          sequence is searched by the last dim of the values; a sequence of one dim by all values.",
    record: |b, def, args| searchsorted(b, def, args),
    samples: &[
        Sample::exact("f32[5] = 1 2 2 3 nan, f32[2,4] = 0 1 2 9 nan 3 2 2.5"),
        Sample::exact("f32[5] = 1 2 2 3 4, f32[4] = 0 1 2 9, false, true"),
        Sample::exact("i64[2,3] = 1 3 5 2 4 6, i64[2,2] = 3 6 3 6, true, false, \"right\""),
        Sample::exact("f32[3] = 3 1 2, f32[2] = 0 2.5, false, false, none, i64[3] = 1 2 0"),
        Sample::exact(
            "i64[100] = 0 0 0 0 0 0 0 0 0 0 1 1 1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2 2 2 3 3 3 3 3 3 3 3 3 3 4 4 4 4 4 4 4 4 4 4 5 5 5 5 5 5 5 5 5 5 6 6 6 6 6 6 6 6 6 6 7 7 7 7 7 7 7 7 7 7 8 8 8 8 8 8 8 8 8 8 9 9 9 9 9 9 9 9 9 9, i64[6] = -1 0 3 8 9 10",
        ),
        Sample::exact("f32[0], f32[2]"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[3,2]",
        "searchsorted: a sequence of [2, 3] is not searched by values of [3, 2]",
    )],
    ..SEARCH
};
/// The place of a number in a sorted line.
pub static SEARCHSORTED_SCALAR: OpDef = OpDef {
    sig: "searchsorted.Scalar(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
    doc: "How many elements of the sorted line are less than the number; with right, not greater.",
    record: |b, def, args| searchsorted(b, def, args),
    samples: &[Sample::exact("f32[4] = 1 2 2 3, 2.0"), Sample::exact("i64[4] = 1 2 2 3, 2, false, true")],
    ..SEARCH
};
/// `(sorted_sequence, self, out_int32, right, side, sorter)`.
fn searchsorted(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let mut line = args.tensor(0)?;
    if let Some(sorter) = args.optional_tensor(5)? {
        line = pick(b, def.name(), line, sorter, b.rank(line).max(1) - 1)?;
    }
    let right = args.flag(3)? || args.word_or(4, "left")? == "right";
    let values = value_or_number(b, args, 1, b.dtype(line))?;
    Ok(smallvec![counted(b, def.name(), line, values, right, args.flag(2)?)?])
}

/// Which bucket.
pub static BUCKETIZE: OpDef = OpDef {
    sig: "bucketize.Tensor(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    doc: "How many of the sorted boundaries are less than each value; with right, not greater.",
    record: |b, def, args| bucketize(b, def, args),
    samples: &[
        Sample::exact("f32[2,3] = 0 1 2 3 4 9, f32[4] = 1 2 3 4"),
        Sample::exact("f32[2,3] = 0 1 2 3 4 9, f32[4] = 1 2 3 4, true, true"),
    ],
    refuses: &[Refusal::of("f32[2], f32[2,2]", "bucketize: boundaries have one dim, got [2, 2]")],
    ..SEARCH
};
/// Which bucket for a number.
pub static BUCKETIZE_SCALAR: OpDef = OpDef {
    sig: "bucketize.Scalar(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
    doc: "How many of the sorted boundaries are less than the number; with right, not greater.",
    record: |b, def, args| bucketize(b, def, args),
    samples: &[Sample::exact("2.5, f32[4] = 1 2 3 4")],
    ..SEARCH
};
/// `(self, boundaries, out_int32, right)`.
fn bucketize(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let line = args.tensor(1)?;
    if b.rank(line) != 1 {
        let what = format!("boundaries have one dim, got {}", b.shape(line));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let values = value_or_number(b, args, 0, b.dtype(line))?;
    Ok(smallvec![counted(b, def.name(), line, values, args.flag(3)?, args.flag(2)?)?])
}

/// A tensor, or a number as one of rank 0 in the dtype in which it meets `beside`.
fn value_or_number(b: &mut Builder<'_>, args: Args<'_>, i: usize, beside: DType) -> Result<ValueId> {
    match args.get(i) {
        Arg::Scalar(s) => {
            let number = b.param(s.promote(beside), *s)?;
            b.reshape(number, &Shape::scalar())
        }
        _ => args.tensor(i),
    }
}

/// How many elements of a sorted line come before each value.
pub(crate) fn counted(
    b: &mut Builder<'_>,
    op: &str,
    line: ValueId,
    values: ValueId,
    right: bool,
    narrow: bool,
) -> Result<ValueId> {
    let dtype = rules::promote(b, &[Arg::Value(line), Arg::Value(values)]).unwrap_or(DType::F32);
    let (line, values) = (b.cast(line, dtype)?, b.cast(values, dtype)?);
    let (long, wide) = (b.shape(line), b.shape(values));
    let shared = long.rank() == 1;
    let lead = long.rank().max(1) - 1;
    if !shared && (long.rank() != wide.rank() || (0..lead).any(|i| long.dim(i) != wide.dim(i))) {
        let what = format!("a sequence of {long} is not searched by values of {wide}");
        return Err(rules::refuse(op, Kind::Shape, what));
    }
    let n = known(op, long.dim(lead))?;
    let found = if n <= COMPARED { compared(b, line, values, right)? } else { halved(b, op, line, values, right)? };
    b.cast(found, if narrow { DType::I32 } else { DType::I64 })
}
/// Does `element` come before `value`? NaN comes after everything.
fn comes_before(b: &mut Builder<'_>, element: ValueId, value: ValueId, right: bool) -> Result<ValueId> {
    let not = if right { b.lt(value, element)? } else { b.le(value, element)? };
    b.not(not)
}
fn compared(b: &mut Builder<'_>, line: ValueId, values: ValueId, right: bool) -> Result<ValueId> {
    let mut column = b.shape(values);
    column.push(1);
    let values = b.reshape(values, &column)?;
    let mut row = b.shape(line);
    if row.rank() > 1 {
        row.insert(row.rank() - 1, 1);
    }
    let line = b.reshape(line, &row)?;
    let before = comes_before(b, line, values, right)?;
    let before = b.cast(before, DType::I64)?;
    b.reduce(Fold::Sum, before, &[column.rank() - 1])
}
/// Strides that halve: as many are taken as stay within the line and end before the value.
fn halved(b: &mut Builder<'_>, op: &str, line: ValueId, values: ValueId, right: bool) -> Result<ValueId> {
    check_static(b, op, values)?;
    let (shape, shared) = (b.shape(values), b.rank(line) == 1);
    let (n, axis) = (known(op, b.shape(line).dim(b.rank(line) - 1))?, b.rank(line) - 1);
    let (size, last) = (b.full(DType::I64, &shape, n as i64)?, b.full(DType::I64, &shape, n as i64 - 1)?);
    let mut found = b.zeros(DType::I64, &shape)?;
    let mut stride = n.next_power_of_two() as i64;
    while stride > 0 {
        let next = b.add(found, stride as f64)?;
        let at = b.sub(next, 1.0)?;
        let at = b.min(at, last)?;
        let element =
            if shared { b.prim(Prim::Gather { axis: 0 }, &[line, at])? } else { pick(b, op, line, at, axis)? };
        let before = comes_before(b, element, values, right)?;
        let within = b.le(next, size)?;
        let take = b.and(within, before)?;
        found = b.select(take, next, found)?;
        stride /= 2;
    }
    Ok(found)
}

/// Counts in even bins.
pub static HISTC: OpDef = OpDef {
    sig: "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor",
    doc: "How many elements lie in each of the bins between min and max, the last one closed; between the smallest and \
          the largest element where min = max.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let x = flat(b, def.name(), args.tensor(0)?)?;
        rules::check_float(def.name(), b.ty(x))?;
        let bins = args.int_or(1, 100)?;
        let (low, high) = (args.float_or(2, 0.0)?, args.float_or(3, 0.0)?);
        if bins < 1 || low > high {
            let what = format!("{bins} bins between {low} and {high}");
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        let dtype = b.dtype(x);
        let [low, high] = if low == high && b.shape(x).numel() > 0 {
            range_of(b, x)?
        } else if low == high {
            [b.constant(dtype, low - 1.0)?, b.constant(dtype, high + 1.0)?]
        } else {
            [number(b, args, 2, dtype, 0.0)?, number(b, args, 3, dtype, 0.0)?]
        };
        Ok(smallvec![binned(b, x, low, high, bins)?])
    },
    samples: &[
        Sample::exact("f32[20] in -2..2, 4"),
        Sample::exact("f32[6] = 0 1 2 3 4 nan, 4, 0, 4"),
        Sample::exact("f32[3] = 2 2 2, 2"),
        Sample::exact("f32[0], 2"),
    ],
    refuses: &[Refusal::of("f32[2], 0", "histc: 0 bins between 0 and 0")],
    ..SEARCH
};
/// The smallest and the largest element, one less and one more where they are one.
fn range_of(b: &mut Builder<'_>, x: ValueId) -> Result<[ValueId; 2]> {
    let (low, high) = (b.reduce(Fold::Min, x, &[0])?, b.reduce(Fold::Max, x, &[0])?);
    let one = b.eq(low, high)?;
    let (below, above) = (b.sub(low, 1.0)?, b.add(high, 1.0)?);
    Ok([b.select(one, below, low)?, b.select(one, above, high)?])
}
fn binned(b: &mut Builder<'_>, x: ValueId, low: ValueId, high: ValueId, bins: i64) -> Result<ValueId> {
    let (dtype, shape) = (b.dtype(x), b.shape(x));
    let (low, high) = (b.expand(low, &shape)?, b.expand(high, &shape)?);
    let (above, below) = (b.le(low, x)?, b.le(x, high)?);
    let inside = b.and(above, below)?;
    let (from, width) = (b.sub(x, low)?, b.sub(high, low)?);
    let scaled = b.mul(from, bins as f64)?;
    let place = b.div(scaled, width)?;
    let place = b.select(inside, place, 0.0)?;
    let place = b.cast(place, DType::I64)?;
    let place = b.min(place, (bins - 1) as f64)?;
    let ones = b.cast(inside, dtype)?;
    let none = b.zeros(dtype, &[bins as usize].into())?;
    b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Add }, &[none, place, ones])
}

/// Is it one of these?
pub static ISIN: OpDef = OpDef {
    sig: "isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
    doc: "Is each element among the test elements? With invert, is it not?",
    record: |b, def, args| isin(b, def, args),
    samples: &[
        Sample::exact("i64[2,3] in 0..9, i64[4] in 0..9"),
        Sample::exact("f32[4] = 1 nan 3 -0, f32[3] = 0 nan 3, false, true"),
        Sample::exact("i64[3] in 0..9, i64[0]"),
    ],
    ..SEARCH
};
/// Is it this number?
pub static ISIN_SCALAR: OpDef = OpDef {
    sig: "isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor",
    doc: "Is each element this number? With invert, is it not?",
    record: |b, def, args| isin(b, def, args),
    samples: &[Sample::exact("i64[5] in 0..3, 1")],
    ..SEARCH
};
/// Is this number one of these?
pub static SCALAR_ISIN: OpDef = OpDef {
    sig: "isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
    doc: "Is the number among the test elements? With invert, is it not?",
    record: |b, def, args| isin(b, def, args),
    samples: &[Sample::exact("1, i64[5] in 0..3")],
    ..SEARCH
};
/// `(elements, test_elements, assume_unique, invert)`.
fn isin(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let dtype = rules::promote(b, &[args.get(0).clone(), args.get(1).clone()]).unwrap_or(DType::F32);
    let (x, set) = (value_or_number(b, args, 0, dtype)?, value_or_number(b, args, 1, dtype)?);
    let (x, set) = (b.cast(x, dtype)?, b.cast(set, dtype)?);
    let set = flat(b, def.name(), set)?;
    let mut column = b.shape(x);
    column.push(1);
    let x = b.reshape(x, &column)?;
    let equal = b.eq(x, set)?;
    let found = b.reduce(Fold::Max, equal, &[column.rank() - 1])?;
    Ok(smallvec![if args.flag(3)? { b.not(found)? } else { found }])
}

/// How many are not zero.
pub static COUNT_NONZERO: OpDef = OpDef {
    sig: "count_nonzero(Tensor self, int? dim=None) -> Tensor",
    doc: "How many elements over dim, or of all, are not zero.",
    record: |b, def, args| count_nonzero(b, def, args),
    samples: &[Sample::exact("i64[2,5] in -1..2, 1"), Sample::exact("f32[4] = 0 -0 nan 1"), Sample::exact("bool[3]")],
    ..SEARCH
};
/// How many are not zero over dims.
pub static COUNT_NONZERO_DIMS: OpDef = OpDef {
    sig: "count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor",
    doc: "How many elements over the dims are not zero.",
    record: |b, def, args| count_nonzero(b, def, args),
    samples: &[Sample::exact("i64[2,5,2] in -1..2, [0,-1]")],
    ..SEARCH
};
fn count_nonzero(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let x = args.tensor(0)?;
    let axes = args.dims_or_all(1, b.rank(x))?;
    let nonzero = b.cast(x, DType::Bool)?;
    let nonzero = b.cast(nonzero, DType::I64)?;
    Ok(smallvec![b.reduce(Fold::Sum, nonzero, &axes)?])
}

/// Positions of what is not zero, as many as asked for.
pub static NONZERO_STATIC: OpDef = OpDef {
    sig: "nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor",
    doc: "The positions of the first elements that are not zero, one row each; rows that are left hold fill_value.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, size, fill) = (args.tensor(0)?, args.int(1)?, args.int_or(2, -1)?);
        let Ok(size) = usize::try_from(size) else {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("size is not negative, got {size}")));
        };
        Ok(smallvec![nonzero_rows(b, def.name(), x, size, fill)?])
    },
    samples: &[
        Sample::exact("i64[2,5] in -1..2, 4"),
        Sample::exact("i64[2,2] in 0..2, 7, 9"),
        Sample::exact("f32[] in 1..2, 2"),
        Sample::exact("f32[0,2], 2"),
    ],
    refuses: &[Refusal::of("f32[2], -1", "nonzero_static: size is not negative, got -1")],
    ..SEARCH
};
/// Rows of positions: those that are not zero first, in order; what follows holds the fill.
fn nonzero_rows(b: &mut Builder<'_>, op: &str, x: ValueId, size: usize, fill: i64) -> Result<ValueId> {
    let sizes = b.shape(x).sizes();
    let x = flat(b, op, x)?;
    let n = b.shape(x).numel();
    let here = size.min(n);
    let nonzero = b.cast(x, DType::Bool)?;
    let first = b.apply(Op::Prim(Prim::Sort { axis: 0, descending: true }), &[nonzero])?[1];
    let first = b.slice(first, 0, 0, here)?;
    let count = b.cast(nonzero, DType::I64)?;
    let count = b.reduce(Fold::Sum, count, &[0])?;
    let row = b.prim(Prim::Iota { shape: [here].into(), axis: 0 }, &[])?;
    let there = b.lt(row, count)?;
    let fill_row = b.constant(DType::I64, Scalar::Int(fill))?;
    let mut columns: SmallVec<[ValueId; 4]> = SmallVec::new();
    for (&n, &stride) in sizes.iter().zip(&rtx_core::contiguous_strides(&sizes)) {
        let at = b.div(first, stride.max(1) as f64)?;
        let at = b.rem(at, n.max(1) as f64)?;
        let fill = b.expand(fill_row, &[here].into())?;
        let at = b.select(there, at, fill)?;
        columns.push(b.reshape(at, &[here, 1].into())?);
    }
    let found = match columns.len() {
        0 => b.zeros(DType::I64, &[here, 0].into())?,
        1 => columns[0],
        _ => b.prim(Prim::Concat { axis: 1 }, &columns)?,
    };
    if here == size {
        return Ok(found);
    }
    let rest = b.full(DType::I64, &[size - here, sizes.len()].into(), Scalar::Int(fill))?;
    b.prim(Prim::Concat { axis: 0 }, &[found, rest])
}

/// All tuples.
pub static CARTESIAN_PROD: OpDef = OpDef {
    sig: "cartesian_prod(Tensor[] tensors) -> Tensor",
    doc: "Every tuple of one element of each tensor, a row each, the last one changing fastest; of one tensor itself.",
    record: |b, def, args| {
        let parts = Args::new(def, args).tensors(0)?;
        if parts.is_empty() || parts.iter().any(|&p| b.rank(p) != 1) {
            return Err(rules::refuse(def.name(), Kind::Shape, "needs tensors of one dim"));
        }
        if let [only] = parts {
            return Ok(smallvec![*only]);
        }
        let sizes = parts.iter().map(|&p| known(def.name(), b.shape(p).dim(0))).collect::<Result<Vec<_>>>()?;
        let (grid, rows) = (Shape::of(&sizes), sizes.iter().product::<usize>());
        let mut columns: SmallVec<[ValueId; 4]> = SmallVec::new();
        for (i, &part) in parts.iter().enumerate() {
            let line: Shape = (0..sizes.len()).map(|j| Dim::from(if i == j { sizes[i] } else { 1 })).collect();
            let x = b.reshape(part, &line)?;
            let x = b.expand(x, &grid)?;
            columns.push(b.reshape(x, &[rows, 1].into())?);
        }
        let given: Vec<Arg> = columns.iter().map(|&v| Arg::Value(v)).collect();
        let dtype = rules::promote(b, &given).unwrap_or(DType::F32);
        for column in &mut columns {
            *column = b.cast(*column, dtype)?;
        }
        Ok(smallvec![b.prim(Prim::Concat { axis: 1 }, &columns)?])
    },
    grad: Grad::FromBody,
    samples: &[
        Sample::grad("[f32[2], f32[3]]", 0),
        Sample::grad("[f32[4]]", 0),
        Sample::exact("[i64[2], f32[0], i64[1]]"),
    ],
    refuses: &[Refusal::of("[f32[2,2]]", "cartesian_prod: needs tensors of one dim")],
    ..SEARCH
};
