//! Random tensors from counter-based bits (contract M7): key and ordinal are rank-0 `i64` operands, so they never make
//! a new plan, and an element's bits depend on key, ordinal and its own position alone.
use crate::args::Args;
use crate::precision::widen;
use crate::spelling::SPELLING;
use rtx_core::{DType, Kind, Result, Shape};
use rtx_ir::{
    Attr, Body, Builder, Grad, Jvp, Op, OpDef, Prim, Refusal, Sample, Saves, Stability, Type, Types, ValueId, rules,
};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[&RANDOM_UNIFORM, &RANDOM_NORMAL, &RANDOM_DROPOUT, &CATEGORICAL];

const DRAW: OpDef = OpDef { grad: Grad::None, jvp: Jvp::None, saves: Saves::NONE, ..SPELLING };

/// Added to an ordinal for an op's second stream: ordinals count up from 0 and never come near.
const SECOND_STREAM: f64 = (1u64 << 62) as f64;

/// Uniform numbers.
pub static RANDOM_UNIFORM: OpDef = OpDef {
    sig: "random_uniform(Tensor key, Tensor ordinal, SymInt[] size, *, ScalarType? dtype=None) -> Tensor",
    doc: "Uniform in [0, 1): the upper 24 bits of a word times 2^-24; f64 takes 53 bits of two words.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let dtype = float_dtype(def, args.dtype(3)?)?;
        let u = uniform(b, args.tensor(0)?, args.tensor(1)?, &args.shape(2)?, rules::number_dtype(dtype))?;
        Ok(smallvec![b.cast(u, dtype)?])
    },
    samples: &[Sample::exact("i64[] = 1, i64[] = 2, [2,3]"), Sample::exact("i64[] = 1, i64[] = 2, [5], f64")],
    refuses: &[Refusal::of("i64[] = 1, i64[] = 2, [5], i64", "random_uniform: draws floats, got i64")],
    ..DRAW
};

fn float_dtype(def: &OpDef, dtype: Option<DType>) -> Result<DType> {
    let dtype = dtype.unwrap_or(DType::F32);
    if dtype.is_float() {
        Ok(dtype)
    } else {
        Err(rules::refuse(def.name(), Kind::DType, format_args!("draws floats, got {dtype}")))
    }
}
/// 32 random bits for each element.
pub(crate) fn bits(b: &mut Builder<'_>, key: ValueId, ordinal: ValueId, shape: &Shape) -> Result<ValueId> {
    b.prim(Prim::RandomBits { shape: shape.clone() }, &[key, ordinal])
}
/// Uniform in `[0, 1)`, f32 or f64.
fn uniform(b: &mut Builder<'_>, key: ValueId, ordinal: ValueId, shape: &Shape, dtype: DType) -> Result<ValueId> {
    let word = bits(b, key, ordinal, shape)?;
    if dtype != DType::F64 {
        let high = b.shr(word, 8.0)?;
        let x = b.cast(high, dtype)?;
        return b.mul(x, (-24f64).exp2());
    }
    // 27 + 26 bits: (high · 2^26 + low) · 2^-53.
    let second = b.add(ordinal, SECOND_STREAM)?;
    let other = bits(b, key, second, shape)?;
    let (high, low) = (b.shr(word, 5.0)?, b.shr(other, 6.0)?);
    let (high, low) = (b.cast(high, dtype)?, b.cast(low, dtype)?);
    let high = b.mul(high, 26f64.exp2())?;
    let whole = b.add(high, low)?;
    b.mul(whole, (-53f64).exp2())
}

/// Normal numbers.
pub static RANDOM_NORMAL: OpDef = OpDef {
    sig: "random_normal(Tensor key, Tensor ordinal, SymInt[] size, *, ScalarType? dtype=None) -> Tensor",
    doc: "Mean 0, deviation 1, by Box and Muller: √(-2 log(1 - u)) cos(2π w), u and w uniform in [0, 1) with 24 bits.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let dtype = float_dtype(def, args.dtype(3)?)?;
        let (key, ordinal, shape) = (args.tensor(0)?, args.tensor(1)?, args.shape(2)?);
        let compute = rules::number_dtype(dtype);
        let second = b.add(ordinal, SECOND_STREAM)?;
        let (u, w) =
            (short_uniform(b, key, ordinal, &shape, compute)?, short_uniform(b, key, second, &shape, compute)?);
        let rest = b.sub(1.0, u)?;
        let log = b.log(rest)?;
        let square = b.mul(log, -2.0)?;
        let radius = b.sqrt(square)?;
        let angle = b.mul(w, std::f64::consts::TAU)?;
        let direction = b.cos(angle)?;
        let x = b.mul(radius, direction)?;
        Ok(smallvec![b.cast(x, dtype)?])
    },
    samples: &[Sample::of("i64[] = 1, i64[] = 2, [2,3]", 64), Sample::of("i64[] = 1, i64[] = 2, [5], f64", 64)],
    ..DRAW
};
/// Uniform in `[0, 1)` with 24 bits of one word.
fn short_uniform(b: &mut Builder<'_>, key: ValueId, ordinal: ValueId, shape: &Shape, dtype: DType) -> Result<ValueId> {
    let word = bits(b, key, ordinal, shape)?;
    let high = b.shr(word, 8.0)?;
    let x = b.cast(high, dtype)?;
    b.mul(x, (-24f64).exp2())
}

/// Words below it have probability `p`.
pub(crate) fn threshold(p: f64) -> f64 {
    (p * 32f64.exp2()).round().min(u32::MAX as f64)
}

/// Dropout. Attribute: p.
pub static RANDOM_DROPOUT: OpDef = OpDef {
    sig: "random_dropout(Tensor input, Tensor key, Tensor ordinal, float p=0.5) -> Tensor",
    doc: "0 where the element's random word is below p · 2^32, else input / (1 - p). Srivastava et al., JMLR 15 (2014).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, p) = (args.tensor(0)?, args.float_or(3, 0.5)?);
        rules::check_float(def.name(), b.ty(x))?;
        if !(0.0..=1.0).contains(&p) {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("p is a probability, got {p}")));
        }
        if p == 0.0 {
            return Ok(smallvec![x]);
        }
        b.composite(def, smallvec![Attr::Float(p)], &[x, args.tensor(1)?, args.tensor(2)?])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 3)?;
        rules::check_float(op.name(), inputs[0])?;
        Ok(smallvec![inputs[0].clone()])
    },
    body: Body::Composite(|b, attrs, v| {
        let (p, shape, dtype) = (attrs[0].float(), b.shape(v[0]), b.dtype(v[0]));
        if p >= 1.0 {
            return Ok(smallvec![b.zeros(dtype, &shape)?]);
        }
        let word = bits(b, v[1], v[2], &shape)?;
        let drop = b.lt(word, threshold(p))?;
        let x = widen(b, v[0])?;
        let scaled = b.mul(x, 1.0 / (1.0 - p))?;
        let y = b.select(drop, 0.0, scaled)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    grad: Grad::Rule(|b, cx| {
        let operands = [cx.ct(), cx.inputs[1], cx.inputs[2]];
        Ok(smallvec![Some(b.composite(&RANDOM_DROPOUT, cx.op.attrs().into(), &operands)?[0]), None, None])
    }),
    saves: Saves::Only { inputs: &[1, 2], outputs: &[] },
    cost: 30,
    samples: &[Sample::grad("f32[4,5] in -2..2, i64[] = 3, i64[] = 0, 0.25", 4)],
    refuses: &[Refusal::of("f32[2], i64[] = 3, i64[] = 0, 1.5", "random_dropout: p is a probability, got 1.5")],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

/// One draw from each row of weights.
pub static CATEGORICAL: OpDef = OpDef {
    sig: "categorical(Tensor weights, Tensor key, Tensor ordinal) -> Tensor",
    doc: "For each row the class that wins a race: argmax of weight / -log(1 - u), u uniform; class c wins with \
          probability weight_c / Σ weights.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        b.composite(def, smallvec![], &[args.tensor(0)?, args.tensor(1)?, args.tensor(2)?])
    },
    infer: infer_categorical,
    body: Body::Composite(|b, _, v| {
        let x = widen(b, v[0])?;
        let (shape, dtype) = (b.shape(x), b.dtype(x));
        let u = short_uniform(b, v[1], v[2], &shape, dtype)?;
        // u is a multiple of 2^-24 below 1; half a step more keeps the logarithm from 0.
        let u = b.add(u, (-25f64).exp2())?;
        let log = b.log(u)?;
        let time = b.neg(log)?;
        let speed = b.div(x, time)?;
        let axis = b.rank(x) - 1;
        Ok(smallvec![b.prim(Prim::ArgReduce { extremum: rtx_core::Extremum::Max, axis }, &[speed])?])
    }),
    grad: Grad::None,
    jvp: Jvp::None,
    saves: Saves::NONE,
    cost: 40,
    samples: &[Sample::exact("f32[4,5] in 0.1..1, i64[] = 3, i64[] = 0")],
    refuses: &[Refusal::of("f32[], i64[] = 3, i64[] = 0", "categorical: needs a dim of classes, got f32 []")],
    ..OpDef::DEFAULT
};
fn infer_categorical(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 3)?;
    let x = inputs[0];
    rules::check_float(op.name(), x)?;
    if x.rank() == 0 {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("needs a dim of classes, got {x}")));
    }
    Ok(smallvec![Type { dtype: DType::I64, shape: x.shape.iter().take(x.rank() - 1).collect() }])
}
