//! Tensors from numbers.
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{DType, Kind, Result, Scalar, Shape};
use rtx_ir::{Arg, Bound, Builder, Grad, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, ValueId, rules};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[&ZEROS, &ONES, &FULL, &ARANGE, &EYE, &LINSPACE];

const CREATION: OpDef = OpDef { grad: Grad::None, saves: Saves::NONE, stability: Stability::Stable, ..SPELLING };

/// Zeros.
pub static ZEROS: OpDef = OpDef {
    sig: "zeros(SymInt[] size, *, ScalarType? dtype=None) -> Tensor",
    doc: "Zeros; f32 by default.",
    record: |b, def, args| fill(b, Args::new(def, args), 1, 0),
    samples: &[Sample::exact("[2,3]"), Sample::exact("[0]"), Sample::exact("[2], i64")],
    refuses: &[Refusal::of("[2,-3]", "zeros: a size is not negative, got -3")],
    ..CREATION
};
/// Ones.
pub static ONES: OpDef = OpDef {
    sig: "ones(SymInt[] size, *, ScalarType? dtype=None) -> Tensor",
    doc: "Ones; f32 by default.",
    record: |b, def, args| fill(b, Args::new(def, args), 1, 1),
    samples: &[Sample::exact("[2,3]"), Sample::exact("[], bool")],
    ..CREATION
};
fn fill(b: &mut Builder<'_>, args: Args<'_>, dtype: usize, number: i64) -> Result<Outs> {
    let dtype = args.dtype(dtype)?.unwrap_or(DType::F32);
    Ok(smallvec![b.full(dtype, &args.shape(0)?, number)?])
}

/// One number everywhere.
pub static FULL: OpDef = OpDef {
    sig: "full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor",
    doc: "The number everywhere, in its own type by default: bool, i64 or f32. It makes no new plan.",
    runtime: &["fill_value"],
    record: |b, def, args| {
        let args = Args::new(def, args);
        let shape = args.shape(0)?;
        let number = match args.get(1) {
            Arg::Scalar(s) => *s,
            Arg::Bool(x) => Scalar::Bool(*x),
            _ => return Err(rules::refuse(def.name(), Kind::Argument, "argument `fill_value` takes a number")),
        };
        let number = b.param(args.dtype(2)?.unwrap_or(number.dtype()), number)?;
        Ok(smallvec![b.expand(number, &shape)?])
    },
    samples: &[Sample::exact("[2,3], 0.5"), Sample::exact("[2], 7"), Sample::exact("[2], 7, f64")],
    ..CREATION
};

/// Numbers a step apart.
pub static ARANGE: OpDef = OpDef {
    sig: "arange.start_step(Scalar start, Scalar end=None, Scalar step=1, *, ScalarType? dtype=None) -> Tensor",
    doc: "start, start + step, … up to end, which is left out; with one number, from 0 to it. Integers give i64.",
    record: record_arange,
    samples: &[
        Sample::exact("5"),
        Sample::exact("2, 9, 3"),
        Sample::exact("5, 0, -2"),
        Sample::of("0, 1, 0.25", 4),
        Sample::exact("3, none, none, f32"),
    ],
    refuses: &[
        Refusal::of("0, 5, 0", "arange: the step is not 0"),
        Refusal::of("0, 5, -1", "arange: from 0 to 5 in steps of -1 has no end"),
    ],
    ..CREATION
};

fn record_arange(b: &mut Builder<'_>, def: &'static OpDef, bound: &Bound) -> Result<Outs> {
    let args = Args::new(def, bound);
    let number = |i: usize, default: Scalar| match args.get(i) {
        Arg::Scalar(s) => Ok(*s),
        Arg::None => Ok(default),
        _ => Err(rules::refuse(def.name(), Kind::Argument, "takes numbers")),
    };
    let first = number(0, Scalar::Int(0))?;
    let (start, end) = if *args.get(1) == Arg::None { (Scalar::Int(0), first) } else { (first, number(1, first)?) };
    let step = number(2, Scalar::Int(1))?;
    let whole = [start, end, step].iter().all(|s| matches!(s, Scalar::Int(_)));
    let dtype = args.dtype(3)?.unwrap_or(if whole { DType::I64 } else { DType::F32 });
    // i64 counts in whole numbers; other integers only start and step in them, as in PyTorch.
    let cut = |s: Scalar| Scalar::Int(s.to_i64());
    let (first, last, by) = if dtype == DType::I64 { (cut(start), cut(end), cut(step)) } else { (start, end, step) };
    let n = arange_len(def, first, last, by)?;
    let (start, step) = if dtype.is_int() { (cut(start), cut(step)) } else { (start, step) };
    let whole = whole || dtype.is_int();
    let count = b.prim(Prim::Iota { shape: Shape::from([n]), axis: 0 }, &[])?;
    let compute = if dtype.is_int() && whole {
        DType::I64
    } else {
        rules::number_dtype(if dtype.is_float() { dtype } else { DType::F64 })
    };
    let mut y = b.cast(count, compute)?;
    if step.to_f64() != 1.0 {
        let step = b.constant(compute, step)?;
        y = scale(b, y, step)?;
    }
    if start.to_f64() != 0.0 {
        let start = b.constant(compute, start)?;
        let start = b.expand(start, &Shape::from([n]))?;
        y = b.add(y, start)?;
    }
    Ok(smallvec![b.cast(y, dtype)?])
}
fn scale(b: &mut Builder<'_>, x: ValueId, by: ValueId) -> Result<ValueId> {
    let by = b.expand(by, &b.shape(x))?;
    b.mul(x, by)
}
/// `⌈(end - start) / step⌉`, exact for integers.
fn arange_len(def: &OpDef, start: Scalar, end: Scalar, step: Scalar) -> Result<usize> {
    let steps = step.to_f64();
    if steps == 0.0 {
        return Err(rules::refuse(def.name(), Kind::Argument, "the step is not 0"));
    }
    let span = (end.to_f64() - start.to_f64()) / steps;
    let finite = span.is_finite() && span < i64::MAX as f64;
    if span < 0.0 || !finite {
        return Err(rules::refuse(
            def.name(),
            Kind::Argument,
            format_args!("from {start} to {end} in steps of {step} has no end"),
        ));
    }
    if let (Scalar::Int(a), Scalar::Int(z), Scalar::Int(s)) = (start, end, step) {
        let (distance, each) = ((z as i128 - a as i128).unsigned_abs(), (s as i128).unsigned_abs());
        return Ok(distance.div_ceil(each) as usize);
    }
    Ok(span.ceil() as usize)
}

/// Numbers at equal distances.
pub static LINSPACE: OpDef = OpDef {
    sig: "linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None) -> Tensor",
    doc: "steps numbers from start to end, both included; the second half is counted from the end.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (start, end, n) = (args.float_or(0, 0.0)?, args.float_or(1, 0.0)?, args.int(2)?);
        let dtype = args.dtype(3)?.unwrap_or(DType::F32);
        if n < 0 {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                format_args!("a number of steps is not negative, got {n}"),
            ));
        }
        let shape = Shape::from([n as usize]);
        // Integers: of whole ends, cut off.
        let whole = dtype.class() < rtx_core::Class::Float;
        let (start, end) = if whole { (start.trunc(), end.trunc()) } else { (start, end) };
        let compute = if whole { DType::F64 } else { rules::number_dtype(dtype) };
        let each = if n > 1 { (end - start) / (n - 1) as f64 } else { 0.0 };
        let place = b.prim(Prim::Iota { shape, axis: 0 }, &[])?;
        let back = b.sub(n as f64 - 1.0, place)?;
        let early = b.lt(place, (n / 2).max(1) as f64)?;
        let (place, back) = (b.cast(place, compute)?, b.cast(back, compute)?);
        let (up, down) = (b.mul(place, each)?, b.mul(back, each)?);
        let (up, down) = (b.add(up, start)?, b.sub(end, down)?);
        let y = b.select(early, up, down)?;
        Ok(smallvec![b.cast(y, dtype)?])
    },
    samples: &[Sample::of("0, 1, 5", 4), Sample::of("3, -1, 4", 4), Sample::of("2, 9, 1", 4)],
    ..CREATION
};

/// Identity matrix.
pub static EYE: OpDef = OpDef {
    sig: "eye.m(SymInt n, SymInt? m=None, *, ScalarType? dtype=None) -> Tensor",
    doc: "Ones where row = column; f32 by default.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let rows = args.int(0)?;
        let columns = args.int_or(1, rows)?;
        if rows < 0 || columns < 0 {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                format_args!("a size is not negative, got {}", rows.min(columns)),
            ));
        }
        let shape = Shape::from([rows as usize, columns as usize]);
        let row = b.prim(Prim::Iota { shape: shape.clone(), axis: 0 }, &[])?;
        let column = b.prim(Prim::Iota { shape, axis: 1 }, &[])?;
        let same = b.eq(row, column)?;
        Ok(smallvec![b.cast(same, args.dtype(2)?.unwrap_or(DType::F32))?])
    },
    samples: &[Sample::exact("3"), Sample::exact("2, 3, i64")],
    ..CREATION
};
