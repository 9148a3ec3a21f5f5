//! Functions of two and three numbers: quotients, remainders, extrema, logarithmic sums, closeness.
use crate::args::Args;
use crate::elementwise::{PAIR, VALUE_ONLY, in_float, is_nan, is_negative, record_met};
use crate::spelling::SPELLING;
use rtx_core::{DType, Kind, Result, Scalar};
use rtx_ir::record::{self, Promotion};
use rtx_ir::{
    Arg, Batch, Body, Bound, Builder, Grad, GradCx, Grads, Jvp, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability,
    ValueId, rules,
};
use smallvec::smallvec;
use std::f64::consts::LN_2;

/// The family.
pub const ALL: &[&OpDef] = &[
    &DIV_MODE,
    &FLOOR_DIVIDE,
    &FMOD,
    &FMAX,
    &FMIN,
    &COPYSIGN,
    &NEXTAFTER,
    &HEAVISIDE,
    &HYPOT,
    &LOGADDEXP,
    &LOGADDEXP2,
    &XLOGY,
    &XLOG1PY,
    &FLOAT_POWER,
    &LDEXP,
    &ADDCMUL,
    &ADDCDIV,
    &ISCLOSE,
    &GCD,
    &LCM,
];

const SPELLED: OpDef = OpDef { batch: Batch::Pointwise, stability: Stability::Stable, ..SPELLING };

/// Quotient, rounded on demand.
pub static DIV_MODE: OpDef = OpDef {
    sig: "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode=None) -> Tensor",
    doc: "self / other; rounded toward zero with \"trunc\", down with \"floor\" (as floor_divide). Integers are divided as \
          f32 without a mode and stay integers with one. The gradient of a rounded quotient is 0.",
    record: |b, def, a| match a.get(2) {
        Arg::None => true_quotient(b, def, a),
        Arg::Str("trunc") => rounded_quotient(b, def, a, truncated_quotient),
        Arg::Str("floor") => rounded_quotient(b, def, a, floored_quotient),
        Arg::Str(word) => {
            Err(rules::refuse(def.name(), Kind::Argument, format_args!("{word:?} is not one of \"trunc\", \"floor\"")))
        }
        _ => Err(rules::refuse(def.name(), Kind::Argument, "argument `rounding_mode` takes a word")),
    },
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[2,3] in 0.5..3", 0),
        Sample::grad("f32[3] in 1.1..1.9, f32[3] in 0.6..0.9, \"trunc\"", 0),
        Sample::exact("f32[4] = 7 -7 0 5, 2, \"floor\""),
        Sample::exact("i64[4] = 7 -7 7 -7, i64[4] = 2 2 -2 -2, \"trunc\""),
        Sample::exact("i64[4] = 7 -7 7 -7, i64[4] = 2 2 -2 -2, \"floor\""),
        Sample::of("i64[4] in 1..9, i64[4] in 1..9", 0),
    ],
    refuses: &[
        Refusal::of("f32[2], f32[2], \"up\"", "div: \"up\" is not one of \"trunc\", \"floor\""),
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "div: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
    ],
    ..SPELLED
};
fn true_quotient(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound) -> Result<Outs> {
    record::pointwise(b, def, &record::first::<2>(a), Promotion::Float, |b, m| b.div(m.values[0], m.values[1]))
}
/// A quotient that is a step function: its operands pass no gradient.
fn rounded_quotient(
    b: &mut Builder<'_>,
    def: &'static OpDef,
    a: &Bound,
    f: impl Fn(&mut Builder<'_>, ValueId, ValueId) -> Result<ValueId>,
) -> Result<Outs> {
    record::pointwise(b, def, &record::first::<2>(a), Promotion::Meet, |b, m| {
        let y = f(b, m.values[0], m.values[1])?;
        // Whole already: what counts is that `trunc` passes a gradient of 0.
        if m.compute.is_float() { b.trunc(y) } else { Ok(y) }
    })
}
/// Quotient rounded down.
pub static FLOOR_DIVIDE: OpDef = OpDef {
    sig: "floor_divide(Tensor self, Tensor other) -> Tensor",
    doc: "⌊self / other⌋, exact: (self - r) / other rounded, with r = fmod(self, other), and one less where r and other \
          differ in sign; a float divided by 0 is self / other, an integer 0.",
    record: |b, def, a| rounded_quotient(b, def, a, floored_quotient),
    grad: Grad::None,
    samples: &[Sample::exact("i64[6] = 7 -7 7 -7 0 5, i64[6] = 2 2 -2 -2 3 0"), Sample::exact("f32[4] = 7 -7 0 5, 2")],
    ..SPELLED
};
fn floored_quotient(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Result<ValueId> {
    if !b.dtype(x).is_float() {
        let rest = b.rem(x, y)?;
        let whole = b.sub(x, rest)?;
        return b.div(whole, y);
    }
    let rest = truncated_rest(b, x, y)?;
    let whole = b.sub(x, rest)?;
    let q = b.div(whole, y)?;
    let q = b.round_even(q)?;
    // The quotient was truncated up where the remainder is on the other side of 0 than the divisor.
    let (left, right) = (b.lt(rest, 0.0)?, b.lt(y, 0.0)?);
    let (apart, exact) = (b.xor(left, right)?, b.eq(rest, 0.0)?);
    let inexact = b.not(exact)?;
    let up = b.and(apart, inexact)?;
    let lower = b.sub(q, 1.0)?;
    let q = b.select(up, lower, q)?;
    let (plain, zero) = (b.div(x, y)?, b.eq(y, 0.0)?);
    b.select(zero, plain, q)
}
fn truncated_quotient(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Result<ValueId> {
    if b.dtype(x).is_float() {
        let q = b.div(x, y)?;
        return b.trunc(q);
    }
    let rest = truncated_rest(b, x, y)?;
    let whole = b.sub(x, rest)?;
    b.div(whole, y)
}
/// The remainder with the sign of x: `sign x · (|x| rem |y|)`, exact.
fn truncated_rest(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Result<ValueId> {
    let (size, step) = (b.abs(x)?, b.abs(y)?);
    let rest = b.rem(size, step)?;
    let negative = is_negative(b, x)?;
    let other = b.neg(rest)?;
    b.select(negative, other, rest)
}

/// Remainder with the sign of the dividend.
pub static FMOD: OpDef = OpDef {
    sig: "fmod.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "self - other · trunc(self / other), exact, with self's sign; integers by 0 are 0. The gradient is 1 for self and \
          -trunc(self / other) for other.",
    record: |b, def, a| {
        let args = record::first::<2>(a);
        if record::meeting_dtype(b, def, &args, Promotion::Meet)? == DType::Bool {
            return Err(rules::refuse(def.name(), Kind::DType, "needs tensors of numbers, got bool"));
        }
        record_met(b, def, &args, Promotion::Meet, smallvec![])
    },
    infer: rules::infer_same,
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| truncated_rest(b, v[0], v[1]))),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [x, y]| {
            if i == 0 {
                return Ok(g);
            }
            let steps = truncated_quotient(b, x, y)?;
            let r = b.mul(g, steps)?;
            b.neg(r)
        })
    }),
    samples: &[
        Sample::grad("f32[3] in 2.1..2.9, f32[3] in 0.55..0.65", 0),
        Sample::exact("f32[6] = 7 -7 7 -7 -0 5, f32[6] = 2 2 -2 -2 3 0"),
        Sample::exact("i64[6] = 7 -7 7 -7 0 5, i64[6] = 2 2 -2 -2 3 0"),
    ],
    refuses: &[Refusal::of("bool[2], bool[2]", "fmod: needs tensors of numbers, got bool")],
    ..PAIR
};

/// The larger, NaN aside.
pub static FMAX: OpDef = OpDef {
    sig: "fmax(Tensor self, Tensor other) -> Tensor",
    doc: "The larger of two elements; beside NaN the other one. The gradient goes to self where self ≥ other or other is NaN, \
          else to other.",
    record: record_extremum,
    infer: rules::infer_same,
    body: Body::Composite(|b, _, v| {
        let y = b.max(v[0], v[1])?;
        beside_nan(b, v, y)
    }),
    grad: Grad::Rule(|b, cx| extremum_grad(b, cx, |b, x, y| b.le(y, x))),
    samples: &[
        Sample::grad("f32[2,3] in 1..2, f32[3] in 3..4", 0),
        Sample::exact("f32[4] = nan 1 nan 2, f32[4] = 1 nan nan 3"),
        Sample::exact("i64[3] in 0..9, i64[3] in 0..9"),
    ],
    ..PAIR
};
/// The smaller, NaN aside.
pub static FMIN: OpDef = OpDef {
    sig: "fmin(Tensor self, Tensor other) -> Tensor",
    doc: "The smaller of two elements; beside NaN the other one. The gradient goes to self where self ≤ other or other is \
          NaN, else to other.",
    record: record_extremum,
    infer: rules::infer_same,
    body: Body::Composite(|b, _, v| {
        let y = b.min(v[0], v[1])?;
        beside_nan(b, v, y)
    }),
    grad: Grad::Rule(|b, cx| extremum_grad(b, cx, |b, x, y| b.le(x, y))),
    samples: &[
        Sample::grad("f32[2,3] in 1..2, f32[3] in 3..4", 0),
        Sample::exact("f32[4] = nan 1 nan 2, f32[4] = 1 nan nan 3"),
        Sample::exact("i64[3] in 0..9, i64[3] in 0..9"),
    ],
    ..PAIR
};
fn record_extremum(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound) -> Result<Outs> {
    record_met(b, def, &record::first::<2>(a), Promotion::Meet, smallvec![])
}
/// Where one is NaN the other, else `y`.
fn beside_nan(b: &mut Builder<'_>, v: &[ValueId], y: ValueId) -> Result<Outs> {
    if !b.dtype(y).is_float() {
        return Ok(smallvec![y]);
    }
    let (left, right) = (is_nan(b, v[0])?, is_nan(b, v[1])?);
    let y = b.select(right, v[0], y)?;
    Ok(smallvec![b.select(left, v[1], y)?])
}
fn extremum_grad(
    b: &mut Builder<'_>,
    cx: &GradCx<'_>,
    wins: fn(&mut Builder<'_>, ValueId, ValueId) -> Result<ValueId>,
) -> Result<Grads> {
    let (x, y) = (cx.inputs[0], cx.inputs[1]);
    let better = wins(b, x, y)?;
    let alone = is_nan(b, y)?;
    let first = b.or(better, alone)?;
    cx.each(|i| if i == 0 { b.select(first, cx.ct(), 0.0) } else { b.select(first, 0.0, cx.ct()) })
}

/// One number's size with another's sign.
pub static COPYSIGN: OpDef = OpDef {
    sig: "copysign.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "|self| with the sign of other; -0 is negative. The gradient is the change of sign, 0 where self is 0.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let size = b.abs(v[0])?;
            let other = b.neg(size)?;
            let negative = is_negative(b, v[1])?;
            b.select(negative, other, size)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [x, y]| {
            if i == 1 {
                return b.zeros_like(y);
            }
            let sign = b.sign(x)?;
            let r = b.mul(g, sign)?;
            let other = b.neg(r)?;
            let negative = is_negative(b, y)?;
            b.select(negative, other, r)
        })
    }),
    cost: 4,
    samples: &[
        Sample::grad("f32[2,3] in 1..2, f32[3] in -2..-1", 0),
        Sample::exact("f32[4] = 1 -1 2 0, f32[4] = -0 0 -3 -1"),
        Sample::exact("i64[3] in -3..3, -1"),
    ],
    ..PAIR
};

/// The next number in a direction.
pub static NEXTAFTER: OpDef = OpDef {
    sig: "nextafter(Tensor self, Tensor other) -> Tensor",
    doc: "The next number of the dtype after self toward other; other where they are equal.",
    record: |b, def, a| {
        let dtype = record::meeting_dtype(b, def, &record::first::<2>(a), Promotion::Float)?;
        let operands = record::meet_in(b, def, &record::first::<2>(a), dtype)?;
        b.composite(def, Default::default(), &operands)
    },
    body: Body::Composite(|b, _, v| {
        let (x, y, dtype) = (v[0], v[1], b.dtype(v[0]));
        let (bits, least) = match dtype {
            DType::F64 => (DType::I64, -1074f64),
            DType::F16 => (DType::I16, -24.0),
            DType::BF16 => (DType::I16, -133.0),
            _ => (DType::I32, -149.0),
        };
        let word = b.prim(Prim::Bitcast(bits), &[x])?;
        // Away from 0 the bits count up, whatever the sign.
        let (up, positive) = (b.lt(x, y)?, b.lt(0.0, x)?);
        let apart = b.xor(up, positive)?;
        let (more, less) = (b.add(word, 1.0)?, b.sub(word, 1.0)?);
        let word = b.select(apart, less, more)?;
        let moved = b.prim(Prim::Bitcast(dtype), &[word])?;
        // Beside 0 stands the smallest subnormal number, with other's sign.
        let smallest = b.constant(dtype, least.exp2())?;
        let below = b.neg(smallest)?;
        let first = b.select(up, smallest, below)?;
        let (zero, same) = (b.eq(x, 0.0)?, b.eq(x, y)?);
        let moved = b.select(zero, first, moved)?;
        let moved = b.select(same, y, moved)?;
        let (left, right) = (is_nan(b, x)?, is_nan(b, y)?);
        let moved = b.select(left, x, moved)?;
        Ok(smallvec![b.select(right, y, moved)?])
    }),
    // A step away from self, wherever other lies.
    grad: Grad::Rule(|b, cx| cx.each(|i| if i == 0 { Ok(cx.ct()) } else { b.zeros_like(cx.inputs[1]) })),
    jvp: Jvp::FromGrad,
    samples: &[
        Sample::grad("f32[3] = 1 -1 2, f32[3] = 2 2 -3", 0),
        Sample::exact("f32[6] = 1 -1 0 0 2 nan, f32[6] = 2 2 1 -1 2 1"),
        Sample::exact("f64[2] in 1..2, 0.5"),
        Sample::exact("bf16[4] = 1 0 -2 nan, 0.5"),
    ],
    batch: Batch::FromBody,
    ..VALUE_ONLY
};

/// Step function.
pub static HEAVISIDE: OpDef = OpDef {
    sig: "heaviside(Tensor self, Tensor values) -> Tensor",
    doc: "0 below 0, values at 0, 1 above 0.",
    record: |b, def, a| {
        record::pointwise(b, def, &record::first::<2>(a), Promotion::Meet, |b, m| {
            let (x, at) = (m.values[0], m.values[1]);
            let zero = b.constant(m.compute, 0i64)?;
            let over = b.lt(zero, x)?;
            let step = b.cast(over, m.compute)?;
            let zero = b.eq(x, 0.0)?;
            b.select(zero, at, step)
        })
    },
    grad: Grad::None,
    samples: &[Sample::exact("f32[4] = -1 0 2 nan, 0.5"), Sample::exact("i64[3] = -1 0 2, i64[1] = 5")],
    ..SPELLED
};

/// Length of a vector of two.
pub static HYPOT: OpDef = OpDef {
    sig: "hypot(Tensor self, Tensor other) -> Tensor",
    doc: "√(self² + other²) as m √(1 + (n/m)²) with m the larger and n the smaller size, so that it is infinite only where \
          the length is.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let (l, r) = (b.abs(v[0])?, b.abs(v[1])?);
            let (large, small) = (b.max(l, r)?, b.min(l, r)?);
            let ratio = b.div(small, large)?;
            let square = b.mul(ratio, ratio)?;
            let sum = b.add(square, 1.0)?;
            let root = b.sqrt(sum)?;
            let y = b.mul(large, root)?;
            let (zero, infinite) = (b.eq(large, 0.0)?, b.eq(large, f64::INFINITY)?);
            let plain = b.or(zero, infinite)?;
            b.select(plain, large, y)
        })
    }),
    // dx = dy · x / y
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0], cx.inputs[1], cx.outputs[0]], |b, i, g, [x, y, h]| {
            let ratio = b.div(if i == 0 { x } else { y }, h)?;
            b.mul(g, ratio)
        })
    }),
    saves: Saves::Only { inputs: &[0, 1], outputs: &[0] },
    samples: &[
        Sample::grad("f32[2,3] in 1..2, f32[3] in -2..-1", 16),
        Sample::of("f32[3] = 0 1e30 inf, f32[3] = 0 1e30 1", 16),
    ],
    ..PAIR
};

/// `max + f(exp -|x - y|)` where the sum is finite.
fn log_sum(b: &mut Builder<'_>, v: &[ValueId], base: f64) -> Result<Outs> {
    in_float(b, v, |b, v| {
        let top = b.max(v[0], v[1])?;
        let apart = b.sub(v[0], v[1])?;
        let gap = b.abs(apart)?;
        let exponent = b.mul(gap, -base)?;
        let e = b.exp(exponent)?;
        let log = b.log1p(e)?;
        let more = b.div(log, base)?;
        let y = b.add(top, more)?;
        // Of equal infinities the difference is NaN.
        let (same, size) = (b.eq(v[0], v[1])?, b.abs(top)?);
        let infinite = b.eq(size, f64::INFINITY)?;
        let plain = b.and(same, infinite)?;
        b.select(plain, top, y)
    })
}
/// `dx = dy / (1 + base^(y - x))`.
fn log_sum_grad(b: &mut Builder<'_>, cx: &GradCx<'_>, base: f64) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [x, y]| {
        let apart = if i == 0 { b.sub(x, y)? } else { b.sub(y, x)? };
        let scaled = b.mul(apart, base)?;
        let share = crate::activation::logistic(b, scaled)?;
        b.mul(g, share)
    })
}
/// Logarithm of a sum of exponentials.
pub static LOGADDEXP: OpDef = OpDef {
    sig: "logaddexp(Tensor self, Tensor other) -> Tensor",
    doc: "log(exp self + exp other) = max + log1p(exp -|self - other|).",
    body: Body::Composite(|b, _, v| log_sum(b, v, 1.0)),
    grad: Grad::Rule(|b, cx| log_sum_grad(b, cx, 1.0)),
    samples: &[
        Sample::grad("f32[2,3] in -4..4, f32[3] in -4..4", 16),
        Sample::of("f32[3] = inf -inf -inf, f32[3] = inf -inf 1", 16),
    ],
    ..PAIR
};
/// Logarithm to base 2 of a sum of powers of 2.
pub static LOGADDEXP2: OpDef = OpDef {
    sig: "logaddexp2(Tensor self, Tensor other) -> Tensor",
    doc: "log2(2^self + 2^other) = max + log2(1 + 2^-|self - other|).",
    body: Body::Composite(|b, _, v| log_sum(b, v, LN_2)),
    grad: Grad::Rule(|b, cx| log_sum_grad(b, cx, LN_2)),
    samples: &[
        Sample::grad("f32[2,3] in -4..4, f32[3] in -4..4", 16),
        Sample::of("f32[3] = inf -inf -inf, f32[3] = inf -inf 1", 16),
    ],
    ..PAIR
};

/// `x f(y)` with 0 where x is 0 and y no NaN.
fn times_log(
    b: &mut Builder<'_>,
    x: ValueId,
    y: ValueId,
    f: fn(&mut Builder<'_>, ValueId) -> Result<ValueId>,
) -> Result<ValueId> {
    let log = f(b, y)?;
    let product = b.mul(x, log)?;
    let zero = b.eq(x, 0.0)?;
    let r = b.select(zero, 0.0, product)?;
    let nan = is_nan(b, y)?;
    b.select(nan, f64::NAN, r)
}
/// The logarithm times x, 0 where `x` is 0 and `y + shift` not positive.
fn times_log_grad(
    b: &mut Builder<'_>,
    cx: &GradCx<'_>,
    shift: f64,
    f: fn(&mut Builder<'_>, ValueId) -> Result<ValueId>,
) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [x, y]| {
        if i == 1 {
            let below = b.add(y, shift)?;
            let slope = b.div(x, below)?;
            return b.mul(g, slope);
        }
        let log = f(b, y)?;
        let r = b.mul(g, log)?;
        let (zero, low) = (b.eq(x, 0.0)?, b.le(y, -shift)?);
        let flat = b.and(zero, low)?;
        b.select(flat, 0.0, r)
    })
}
/// `x log y`.
pub static XLOGY: OpDef = OpDef {
    sig: "xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "self · log other, 0 where self is 0; NaN where other is NaN.",
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| times_log(b, v[0], v[1], |b, y| b.log(y)))),
    grad: Grad::Rule(|b, cx| times_log_grad(b, cx, 0.0, |b, y| b.log(y))),
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[3] in 0.5..3", 16),
        Sample::of("f32[4] = 0 0 0 2, f32[4] = 0 nan -1 0", 16),
    ],
    ..PAIR
};
/// `x log(1 + y)`.
pub static XLOG1PY: OpDef = OpDef {
    sig: "special_xlog1py(Tensor self, Tensor other) -> Tensor",
    doc: "self · log(1 + other), 0 where self is 0; NaN where other is NaN.",
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| times_log(b, v[0], v[1], |b, y| b.log1p(y)))),
    grad: Grad::Rule(|b, cx| times_log_grad(b, cx, 1.0, |b, y| b.log1p(y))),
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[3] in -0.5..3", 16),
        Sample::of("f32[4] = 0 0 0 2, f32[4] = -1 nan -2 -1", 16),
    ],
    ..PAIR
};

/// Power in f64.
pub static FLOAT_POWER: OpDef = OpDef {
    sig: "float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    doc: "self^exponent, computed and returned in f64.",
    record: |b, def, a| {
        let args = record::first::<2>(a);
        record::meeting_dtype(b, def, &args, Promotion::Float)?;
        let v = record::meet_in(b, def, &args, DType::F64)?;
        Ok(smallvec![b.pow(v[0], v[1])?])
    },
    samples: &[Sample::grad("f32[2,3] in 0.5..3, f32[3] in -2..2", 4), Sample::of("i64[3] in 1..5, 2", 4)],
    ..SPELLED
};
/// Scaled by a power of two.
pub static LDEXP: OpDef = OpDef {
    sig: "ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "self · 2^other.",
    record: |b, def, a| {
        record::pointwise(b, def, &record::first::<2>(a), Promotion::Float, |b, m| {
            let power = b.pow(2.0, m.values[1])?;
            b.mul(m.values[0], power)
        })
    },
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[3] in -2..2", 4),
        Sample::of("f32[3] in 1..5, i64[3] in -3..3", 4),
    ],
    ..SPELLED
};

/// Sum with a scaled product.
pub static ADDCMUL: OpDef = OpDef {
    sig: "addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    doc: "self + value · tensor1 · tensor2.",
    runtime: &["value"],
    record: |b, def, a| with_value(b, def, a, Promotion::Meet, |b, x, y| b.mul(x, y)),
    samples: &[
        Sample::grad("f32[2,3] in -2..2, f32[2,1] in -2..2, f32[3] in -2..2, 0.5", 4),
        Sample::exact("i64[3] in 0..9, i64[3] in 0..9, i64[3] in 0..9, 2"),
    ],
    ..SPELLED
};
/// Sum with a scaled quotient.
pub static ADDCDIV: OpDef = OpDef {
    sig: "addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    doc: "self + value · tensor1 / tensor2, of floats.",
    runtime: &["value"],
    record: |b, def, a| with_value(b, def, a, Promotion::Float, |b, x, y| b.div(x, y)),
    samples: &[Sample::grad("f32[2,3] in -2..2, f32[2,1] in -2..2, f32[3] in 0.5..2, 0.5", 4)],
    ..SPELLED
};
fn with_value(
    b: &mut Builder<'_>,
    def: &OpDef,
    a: &Bound,
    promotion: Promotion,
    f: impl Fn(&mut Builder<'_>, ValueId, ValueId) -> Result<ValueId>,
) -> Result<Outs> {
    let args = record::first::<3>(a);
    let result = record::meeting_dtype(b, def, &args, promotion)?;
    let compute = rules::number_dtype(result);
    let v = record::meet_in(b, def, &args, compute)?;
    let mut part = f(b, v[1], v[2])?;
    match a.get(3) {
        Arg::None | Arg::Scalar(Scalar::Int(1)) => {}
        Arg::Scalar(Scalar::Float(x)) if !result.is_float() => {
            let what = format_args!("value is a float, the tensors are not: {x}");
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        Arg::Scalar(s) => {
            let value = b.param(compute, *s)?;
            part = b.mul(value, part)?;
        }
        _ => return Err(rules::refuse(def.name(), Kind::Argument, "argument `value` takes a number")),
    }
    let y = b.add(v[0], part)?;
    Ok(smallvec![b.cast(y, result)?])
}

/// Equal but for rounding?
pub static ISCLOSE: OpDef = OpDef {
    sig: "isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor",
    doc: "self = other, or |self - other| ≤ atol + rtol |other| and finite; NaN equals NaN with equal_nan.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (rtol, atol) = (args.float_or(2, 1e-5)?, args.float_or(3, 1e-8)?);
        if rtol < 0.0 || atol < 0.0 {
            return Err(rules::refuse(
                def.name(),
                Kind::Argument,
                format_args!("tolerances are not negative, got {rtol}, {atol}"),
            ));
        }
        let pair = record::first::<2>(a);
        let v = record::meet(b, def, &pair, Promotion::Meet)?;
        let (x, y) = (v.values[0], v.values[1]);
        let mut close = b.eq(x, y)?;
        if args.flag(4)? && v.compute.is_float() {
            let (left, right) = (is_nan(b, x)?, is_nan(b, y)?);
            let both = b.and(left, right)?;
            close = b.or(close, both)?;
        }
        if rtol == 0.0 && atol == 0.0 {
            return Ok(smallvec![close]);
        }
        let wide = if v.compute.is_float() { rules::number_dtype(v.compute) } else { DType::F64 };
        let (x, y) = (b.cast(x, wide)?, b.cast(y, wide)?);
        let apart = b.sub(x, y)?;
        let apart = b.abs(apart)?;
        let size = b.abs(y)?;
        let slack = b.mul(size, rtol)?;
        let slack = b.add(slack, atol)?;
        let (near, finite) = (b.le(apart, slack)?, b.lt(apart, f64::INFINITY)?);
        let near = b.and(near, finite)?;
        Ok(smallvec![b.or(close, near)?])
    },
    grad: Grad::None,
    samples: &[
        Sample::exact("f32[4] = 1 1 nan inf, f32[4] = 1.000001 1.1 nan inf"),
        Sample::exact("f32[2] = nan 1, f32[2] = nan 2, 0.0, 0.0, true"),
        Sample::exact("i64[3] in 0..3, i64[3] in 0..3"),
    ],
    refuses: &[Refusal::of("f32[2], f32[2], -1.0", "isclose: tolerances are not negative, got -1, 0.00000001")],
    ..SPELLED
};

/// How often Euclid's step is taken: enough for any two 64-bit numbers.
const EUCLID: usize = 92;

/// Greatest common divisor.
pub static GCD: OpDef = OpDef {
    sig: "gcd(Tensor self, Tensor other) -> Tensor",
    doc: "The greatest common divisor, by Euclid's algorithm with as many steps as the dtype can need; not negative.",
    record: record_divisor,
    infer: rules::infer_same,
    body: Body::Composite(|b, _, v| Ok(smallvec![divisor(b, v)?])),
    samples: &[
        Sample::exact("i64[6] = 12 -12 0 7 0 54, i64[6] = 18 18 5 0 0 24"),
        Sample::exact("i32[3] in 1..99, 12"),
    ],
    refuses: &[Refusal::of("f32[2], f32[2]", "gcd: needs integer tensors, got f32")],
    batch: Batch::FromBody,
    ..VALUE_ONLY
};
/// Least common multiple.
pub static LCM: OpDef = OpDef {
    sig: "lcm(Tensor self, Tensor other) -> Tensor",
    doc: "|self / gcd(self, other) · other|, 0 where one is 0.",
    record: record_divisor,
    infer: rules::infer_same,
    body: Body::Composite(|b, _, v| {
        let g = divisor(b, v)?;
        let part = b.div(v[0], g)?;
        let product = b.mul(part, v[1])?;
        Ok(smallvec![b.abs(product)?])
    }),
    samples: &[Sample::exact("i64[5] = 12 -12 0 7 4, i64[5] = 18 18 5 0 6")],
    refuses: &[Refusal::of("f32[2], f32[2]", "lcm: needs integer tensors, got f32")],
    batch: Batch::FromBody,
    ..VALUE_ONLY
};
fn record_divisor(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound) -> Result<Outs> {
    let args = record::first::<2>(a);
    let dtype = record::meeting_dtype(b, def, &args, Promotion::Meet)?;
    if !dtype.is_int() {
        return Err(rules::refuse(def.name(), Kind::DType, format_args!("needs integer tensors, got {dtype}")));
    }
    record_met(b, def, &args, Promotion::Meet, smallvec![])
}
fn divisor(b: &mut Builder<'_>, v: &[ValueId]) -> Result<ValueId> {
    let (mut x, mut y) = (b.abs(v[0])?, b.abs(v[1])?);
    // Sizes shrink by the golden ratio a step; the remainder by 0 is 0, and then nothing may change.
    let steps = EUCLID * b.dtype(x).size() / 8;
    for _ in 0..steps {
        let rest = b.rem(x, y)?;
        let done = b.eq(y, 0.0)?;
        let next = b.select(done, x, y)?;
        y = b.select(done, y, rest)?;
        x = next;
    }
    Ok(x)
}
