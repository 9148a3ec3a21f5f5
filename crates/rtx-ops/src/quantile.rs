//! Quantiles: between which sorted elements a share of a line lies, and what is taken there.
use crate::args::Args;
use crate::lines::{Along, pick};
use crate::sort::sorted;
use crate::spelling::SPELLING;
use rtx_core::{DType, Fold, Kind, Result, Shape};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs, Refusal, Sample, Stability, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[&QUANTILE, &QUANTILE_SCALAR, &NANQUANTILE, &NANQUANTILE_SCALAR];

const QUANTILES: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };
const WAYS: &[&str] = &["linear", "lower", "higher", "midpoint", "nearest"];

/// Quantiles along a dim.
pub static QUANTILE: OpDef = OpDef {
    sig: "quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor",
    doc: "What lies at position q · (n - 1) of the sorted elements along dim, or of all; between two, by interpolation. \
          Several q make a dim in front. NaN where there is one.",
    record: |b, def, args| quantile(b, def, args, false),
    samples: &[
        Sample::grad("f32[2,5] in -2..2, f64[3] = 0.1 0.4 0.9, 1", 64),
        Sample::grad("f32[5,2] in -2..2, f32[2] = 0.3 0.8, 0, true", 64),
        Sample::of("f32[2,4] in -2..2, f32[2] = 0.25 1, none, true", 64),
        Sample::of("f32[2,3] = 1 nan 2 3 4 5, f32[] = 0.3, 1", 64),
        Sample::exact("f32[6] in -2..2, f32[3] = 0.1 0.5 0.9, 0, false, \"lower\""),
        Sample::exact("f32[6] in -2..2, f32[3] = 0.1 0.5 0.9, 0, false, \"higher\""),
        Sample::exact("f32[6] in -2..2, f32[3] = 0.1 0.5 0.9, 0, false, \"nearest\""),
        Sample::of("f32[6] in -2..2, f32[3] = 0.1 0.5 0.9, 0, false, \"midpoint\"", 4),
    ],
    refuses: &[
        Refusal::of("f32[0], f32[1]", "quantile: nothing has no quantiles"),
        Refusal::of("i64[3], f32[1]", "quantile: needs a float tensor, got i64 [3]"),
        Refusal::of("f32[3], f32[1,1]", "quantile: q has at most one dim, got [1, 1]"),
    ],
    ..QUANTILES
};
/// One quantile along a dim.
pub static QUANTILE_SCALAR: OpDef = OpDef {
    sig: "quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor",
    doc: "What lies at position q · (n - 1) of the sorted elements along dim, or of all.",
    record: |b, def, args| quantile(b, def, args, false),
    samples: &[
        Sample::grad("f32[2,5] in -2..2, 0.3, 1", 64),
        Sample::grad("f32[5,2] in -2..2, 0.5, 0, true", 64),
        Sample::of("f32[2,4] in -2..2, 0.7", 64),
    ],
    refuses: &[Refusal::of("f32[3], 1.5", "quantile: q lies in 0..1, got 1.5")],
    ..QUANTILES
};
/// Quantiles of numbers along a dim.
pub static NANQUANTILE: OpDef = OpDef {
    sig: "nanquantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor",
    doc: "As quantile, of the elements that are no NaN.",
    record: |b, def, args| quantile(b, def, args, true),
    samples: &[
        Sample::grad("f32[2,5] in -2..2, f64[3] = 0.1 0.4 0.9, 1", 64),
        Sample::of("f32[2,3] = 1 nan 2 nan nan nan, f32[2] = 0.3 0.5, 1", 64),
    ],
    ..QUANTILES
};
/// One quantile of numbers along a dim.
pub static NANQUANTILE_SCALAR: OpDef = OpDef {
    sig: "nanquantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation=\"linear\") -> Tensor",
    doc: "As quantile, of the elements that are no NaN.",
    record: |b, def, args| quantile(b, def, args, true),
    samples: &[Sample::of("f32[2,3] = 1 nan 2 3 4 5, 0.3, 1", 64)],
    ..QUANTILES
};

/// `(self, q, dim, keepdim, interpolation)`.
fn quantile(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, skip_nan: bool) -> Result<Outs> {
    let args = Args::new(def, args);
    let given = args.tensor(0)?;
    rules::check_float(def.name(), b.ty(given))?;
    let along = Along::of_or_all(b, args, 2)?;
    if along.size(b, def.name())? == 0 {
        return Err(rules::refuse(def.name(), Kind::Shape, "nothing has no quantiles"));
    }
    let way = args.choice(4, WAYS)?;
    let (q, several) = shares(b, args, b.dtype(given))?;
    // The lines come last: [rest.., n].
    let rank = b.rank(along.x);
    let order: SmallVec<[usize; 4]> = (0..rank).filter(|&i| i != along.axis).chain([along.axis]).collect();
    let lines = Along { x: b.permute(along.x, &order)?, axis: rank - 1, was_number: false };
    let values = sorted(b, lines, false)?[0];
    let position = positions(b, lines, q, skip_nan)?;
    let y = between(b, def.name(), values, position, way)?;
    // [rest.., q] → [q, rest..]
    let order: SmallVec<[usize; 4]> = std::iter::once(rank - 1).chain(0..rank - 1).collect();
    let y = b.permute(y, &order)?;
    let mut shape: Shape = b.shape(y).iter().skip(usize::from(!several)).collect();
    let lead = usize::from(several);
    if args.flag(3)? && !along.was_number {
        if matches!(args.get(2), Arg::None) {
            (0..b.rank(given)).for_each(|_| shape.push(1));
        } else {
            shape.insert(lead + along.axis, 1);
        }
    }
    Ok(smallvec![b.reshape(y, &shape)?])
}

/// The shares in one dim, and whether the result has a dim for them.
fn shares(b: &mut Builder<'_>, args: Args<'_>, dtype: DType) -> Result<(ValueId, bool)> {
    let op = args.op();
    if let Arg::Scalar(q) = args.get(1) {
        if !(0.0..=1.0).contains(&q.to_f64()) {
            return Err(rules::refuse(op, Kind::Argument, format_args!("q lies in 0..1, got {q}")));
        }
        let q = b.param(dtype, *q)?;
        return Ok((b.reshape(q, &[1].into())?, false));
    }
    let q = args.tensor(1)?;
    if b.rank(q) > 1 {
        return Err(rules::refuse(op, Kind::Shape, format_args!("q has at most one dim, got {}", b.shape(q))));
    }
    let several = b.rank(q) == 1;
    let q = b.cast(q, dtype)?;
    let q = if several { q } else { b.reshape(q, &[1].into())? };
    Ok((q, several))
}

/// Positions in the sorted lines, `[rest.., q]`: past the numbers where a NaN decides.
fn positions(b: &mut Builder<'_>, lines: Along, q: ValueId, skip_nan: bool) -> Result<ValueId> {
    let dtype = b.dtype(lines.x);
    let (n, mut shape) = (lines.size(b, "quantile")?, b.shape(lines.x));
    shape.set(lines.axis, b.shape(q).dim(0));
    let numbers = b.eq(lines.x, lines.x)?;
    let numbers = b.cast(numbers, dtype)?;
    let count = b.reduce_keep(Fold::Sum, numbers, &[lines.axis])?;
    let q = b.expand(q, &shape)?;
    let count = b.expand(count, &shape)?;
    if skip_nan {
        let last = b.sub(count, 1.0)?;
        let last = b.max(last, 0.0)?;
        return b.mul(q, last);
    }
    let position = b.mul(q, (n - 1) as f64)?;
    let whole = b.eq(count, n as f64)?;
    b.select(whole, position, (n - 1) as f64)
}

fn between(b: &mut Builder<'_>, op: &str, values: ValueId, position: ValueId, way: &str) -> Result<ValueId> {
    let axis = b.rank(values) - 1;
    let at = |b: &mut Builder<'_>, place: ValueId| {
        let place = b.cast(place, DType::I64)?;
        pick(b, op, values, place, axis)
    };
    let floor = b.floor(position)?;
    match way {
        "lower" => return at(b, floor),
        "higher" => {
            let ceil = b.ceil(position)?;
            return at(b, ceil);
        }
        "nearest" => {
            let nearest = b.round_even(position)?;
            return at(b, nearest);
        }
        _ => {}
    }
    let ceil = b.ceil(position)?;
    let (low, high) = (at(b, floor)?, at(b, ceil)?);
    let weight = if way == "midpoint" { b.full(b.dtype(values), &b.shape(low), 0.5)? } else { b.sub(position, floor)? };
    // From the nearer end, as PyTorch's lerp.
    let step = b.sub(high, low)?;
    let (near, rest) = (b.lt(weight, 0.5)?, b.sub(1.0, weight)?);
    let (up, down) = (b.mul(weight, step)?, b.mul(step, rest)?);
    let (from_low, from_high) = (b.add(low, up)?, b.sub(high, down)?);
    b.select(near, from_low, from_high)
}
