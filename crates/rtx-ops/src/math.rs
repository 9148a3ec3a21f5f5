//! Functions of one number: inverse and hyperbolic trigonometry, logarithms, rounding, signs and classes.
use crate::args::Args;
use crate::elementwise::{FUNCTION, VALUE_ONLY, above, by_slope, in_float, is_nan, is_negative};
use crate::spelling::SPELLING;
use rtx_core::{Class, DType, Kind, Result, Scalar};
use rtx_ir::record::{self, Promotion};
use rtx_ir::{
    Arg, Attr, Batch, Body, Bound, Builder, Grad, Jvp, OpDef, Outs, Refusal, Sample, Saves, Stability, ValueId, rules,
};
use smallvec::smallvec;
use std::f64::consts::{LN_2, LN_10, PI};

/// The family.
pub const ALL: &[&OpDef] = &[
    &ACOS,
    &ACOSH,
    &ASIN,
    &ASINH,
    &ATAN,
    &ATANH,
    &COSH,
    &SINH,
    &TAN,
    &SINC,
    &EXP2,
    &LOG2,
    &LOG10,
    &LOGIT,
    &FRAC,
    &ROUND_DECIMALS,
    &NAN_TO_NUM,
    &ISPOSINF,
    &ISNEGINF,
    &ISREAL,
    &SIGNBIT,
    &SGN,
    &POSITIVE,
    &REAL,
    &CONJ,
    &ANGLE,
    &RAD2DEG,
    &DEG2RAD,
    &FREXP,
];

/// `√((1 - x)(1 + x))`.
fn circle(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let (left, right) = (b.sub(1.0, x)?, b.add(x, 1.0)?);
    let product = b.mul(left, right)?;
    b.sqrt(product)
}

/// Arc cosine.
pub static ACOS: OpDef = OpDef {
    sig: "acos(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "The angle in [0, π] whose cosine is x: atan2(√((1 - x)(1 + x)), x); NaN outside [-1, 1].",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let side = circle(b, v[0])?;
            b.atan2(side, v[0])
        })
    }),
    grad: Grad::Rule(|b, cx| {
        by_slope(b, cx, |b, x| {
            let side = circle(b, x)?;
            b.div(-1.0, side)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in -0.9..0.9", 16), Sample::of("f32[4] = 1 -1 0 2", 16)],
    ..FUNCTION
};
/// Arc sine.
pub static ASIN: OpDef = OpDef {
    sig: "asin(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "The angle in [-π/2, π/2] whose sine is x: atan2(x, √((1 - x)(1 + x))); NaN outside [-1, 1].",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let side = circle(b, v[0])?;
            b.atan2(v[0], side)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        by_slope(b, cx, |b, x| {
            let side = circle(b, x)?;
            b.div(1.0, side)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in -0.9..0.9", 16), Sample::of("f32[4] = 1 -1 0 2", 16)],
    ..FUNCTION
};
/// Arc tangent.
pub static ATAN: OpDef = OpDef {
    sig: "atan(Tensor self) -> Tensor",
    doc: "The angle in [-π/2, π/2] whose tangent is x: atan2(x, 1).",
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| b.atan2(v[0], 1.0))),
    grad: Grad::Rule(|b, cx| {
        by_slope(b, cx, |b, x| {
            let square = b.mul(x, x)?;
            let below = b.add(square, 1.0)?;
            b.div(1.0, below)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in -4..4", 16), Sample::of("i64[3] in -4..4", 16)],
    ..FUNCTION
};

/// From here on `√(x² ± 1)` is x.
const FAR: f64 = 1e9;

/// Inverse hyperbolic cosine.
pub static ACOSH: OpDef = OpDef {
    sig: "acosh(Tensor self) -> Tensor",
    doc: "log1p(t + √(t (t + 2))) with t = x - 1, and log x + log 2 above 10⁹; NaN below 1.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let far = above(b, v[0], FAR)?;
            let near = b.select(far, 1.0, v[0])?;
            let t = b.sub(near, 1.0)?;
            let sum = b.add(t, 2.0)?;
            let product = b.mul(t, sum)?;
            let root = b.sqrt(product)?;
            let sum = b.add(t, root)?;
            let y = b.log1p(sum)?;
            let log = b.log(v[0])?;
            let limit = b.add(log, LN_2)?;
            b.select(far, limit, y)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        by_slope(b, cx, |b, x| {
            let (l, r) = (b.sub(x, 1.0)?, b.add(x, 1.0)?);
            let (l, r) = (b.sqrt(l)?, b.sqrt(r)?);
            let below = b.mul(l, r)?;
            b.div(1.0, below)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 1.1..9", 16), Sample::of("f32[4] = 1 0 -2 1e30", 16)],
    ..FUNCTION
};
/// Inverse hyperbolic sine.
pub static ASINH: OpDef = OpDef {
    sig: "asinh(Tensor self) -> Tensor",
    doc: "sign x · log1p(a + a² / (1 + √(a² + 1))) with a = |x|, and log a + log 2 for an a above 10⁹.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let a = b.abs(v[0])?;
            let far = above(b, a, FAR)?;
            let near = b.select(far, 1.0, a)?;
            let square = b.mul(near, near)?;
            let sum = b.add(square, 1.0)?;
            let root = b.sqrt(sum)?;
            let below = b.add(root, 1.0)?;
            let part = b.div(square, below)?;
            let sum = b.add(near, part)?;
            let y = b.log1p(sum)?;
            let log = b.log(a)?;
            let limit = b.add(log, LN_2)?;
            let y = b.select(far, limit, y)?;
            let sign = b.sign(v[0])?;
            b.mul(sign, y)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        by_slope(b, cx, |b, x| {
            let square = b.mul(x, x)?;
            let sum = b.add(square, 1.0)?;
            let root = b.sqrt(sum)?;
            b.div(1.0, root)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in -9..9", 16), Sample::of("f32[4] = 0 1e-9 -1e30 inf", 16)],
    ..FUNCTION
};
/// Inverse hyperbolic tangent.
pub static ATANH: OpDef = OpDef {
    sig: "atanh(Tensor self) -> Tensor",
    doc: "log1p(2x / (1 - x)) / 2; infinite at ±1, NaN outside.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let rest = b.sub(1.0, v[0])?;
            let twice = b.add(v[0], v[0])?;
            let ratio = b.div(twice, rest)?;
            let log = b.log1p(ratio)?;
            b.mul(log, 0.5)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        by_slope(b, cx, |b, x| {
            let (l, r) = (b.sub(1.0, x)?, b.add(x, 1.0)?);
            let below = b.mul(l, r)?;
            b.div(1.0, below)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in -0.9..0.9", 16), Sample::of("f32[3] = 1 -1 2", 16)],
    ..FUNCTION
};

/// `(h/2 · h, 1/2 / h / h)` with `h = exp(|x| / 2)`: halves of `exp |x|` and `exp -|x|` without overflow.
fn half_exponentials(b: &mut Builder<'_>, x: ValueId) -> Result<(ValueId, ValueId)> {
    let a = b.abs(x)?;
    let half = b.mul(a, 0.5)?;
    let h = b.exp(half)?;
    let up = b.mul(h, 0.5)?;
    let up = b.mul(up, h)?;
    let down = b.div(0.5, h)?;
    Ok((up, b.div(down, h)?))
}
fn cosh(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let (up, down) = half_exponentials(b, x)?;
    b.add(up, down)
}
fn sinh(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let (up, down) = half_exponentials(b, x)?;
    let far = b.sub(up, down)?;
    let a = b.abs(x)?;
    let distant = above(b, a, 1.0)?;
    // m = exp a - 1: (m + m / (m + 1)) / 2 keeps the digits of a small a.
    let near = b.select(distant, 0.0, a)?;
    let m = b.expm1(near)?;
    let below = b.add(m, 1.0)?;
    let ratio = b.div(m, below)?;
    let sum = b.add(m, ratio)?;
    let small = b.mul(sum, 0.5)?;
    let y = b.select(distant, far, small)?;
    let sign = b.sign(x)?;
    b.mul(sign, y)
}

/// Hyperbolic cosine.
pub static COSH: OpDef = OpDef {
    sig: "cosh(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "(exp x + exp -x) / 2, by exp(|x| / 2)², so that it is infinite only where cosh is.",
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| cosh(b, v[0]))),
    grad: Grad::Rule(|b, cx| by_slope(b, cx, |b, x| Ok(b.composite(&SINH, smallvec![], &[x])?[0]))),
    samples: &[Sample::grad("f32[2,3] in -3..3", 16), Sample::of("f32[3] = 0 89 -inf", 32)],
    ..FUNCTION
};
/// Hyperbolic sine.
pub static SINH: OpDef = OpDef {
    sig: "sinh(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "(exp x - exp -x) / 2, by exp(|x| / 2)², and by exp |x| - 1 where |x| ≤ 1.",
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| sinh(b, v[0]))),
    grad: Grad::Rule(|b, cx| by_slope(b, cx, |b, x| Ok(b.composite(&COSH, smallvec![], &[x])?[0]))),
    samples: &[Sample::grad("f32[2,3] in -3..3", 16), Sample::of("f32[4] = 0 1e-9 89 -inf", 32)],
    ..FUNCTION
};
/// Tangent.
pub static TAN: OpDef = OpDef {
    sig: "tan(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "sin x / cos x.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let (sin, cos) = (b.sin(v[0])?, b.cos(v[0])?);
            b.div(sin, cos)
        })
    }),
    // dx = dy (1 + y²)
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.outputs[0]], |b, _, g, [y]| {
            let square = b.mul(y, y)?;
            let slope = b.add(square, 1.0)?;
            b.mul(g, slope)
        })
    }),
    saves: Saves::OUTPUT,
    samples: &[Sample::grad("f32[2,3] in -1.2..1.2", 16)],
    ..FUNCTION
};
/// Cardinal sine.
pub static SINC: OpDef = OpDef {
    sig: "sinc(Tensor self) -> Tensor",
    doc: "sin(π x) / (π x), and 1 at 0.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let angle = b.mul(v[0], PI)?;
            let zero = b.eq(angle, 0.0)?;
            let safe = b.select(zero, 1.0, angle)?;
            let sin = b.sin(safe)?;
            let y = b.div(sin, safe)?;
            b.select(zero, 1.0, y)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.2..4", 16), Sample::grad("f32[2] = 0 0.5", 16)],
    ..FUNCTION
};

/// Power of two.
pub static EXP2: OpDef = OpDef {
    sig: "exp2(Tensor self) -> Tensor",
    doc: "2^x.",
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| b.pow(2.0, v[0]))),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.outputs[0]], |b, _, g, [y]| {
            let slope = b.mul(y, LN_2)?;
            b.mul(g, slope)
        })
    }),
    saves: Saves::OUTPUT,
    samples: &[Sample::grad("f32[2,3] in -9..9", 16), Sample::of("i64[3] in -4..4", 16)],
    ..FUNCTION
};
/// Logarithm to base 2.
pub static LOG2: OpDef = OpDef {
    sig: "log2(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "log x / log 2.",
    body: Body::Composite(|b, _, v| scaled_log(b, v, LN_2)),
    grad: Grad::Rule(|b, cx| by_slope(b, cx, |b, x| inverse_of(b, x, LN_2))),
    samples: &[Sample::grad("f32[2,3] in 0.1..9", 16), Sample::of("f32[3] = 0 -1 inf", 16)],
    ..FUNCTION
};
/// Logarithm to base 10.
pub static LOG10: OpDef = OpDef {
    sig: "log10(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "log x / log 10.",
    body: Body::Composite(|b, _, v| scaled_log(b, v, LN_10)),
    grad: Grad::Rule(|b, cx| by_slope(b, cx, |b, x| inverse_of(b, x, LN_10))),
    samples: &[Sample::grad("f32[2,3] in 0.1..9", 16), Sample::of("f32[3] = 0 -1 inf", 16)],
    ..FUNCTION
};
/// `log x / number`.
fn scaled_log(b: &mut Builder<'_>, v: &[ValueId], number: f64) -> Result<Outs> {
    in_float(b, v, |b, v| {
        let log = b.log(v[0])?;
        b.div(log, number)
    })
}
/// `1 / (number · x)`.
fn inverse_of(b: &mut Builder<'_>, x: ValueId, number: f64) -> Result<ValueId> {
    let below = b.mul(x, number)?;
    b.div(1.0, below)
}

/// Inverse of the logistic function. Attribute: eps.
pub static LOGIT: OpDef = OpDef {
    sig: "logit(Tensor self, float? eps=None) -> Tensor",
    doc: "log(x / (1 - x)), x kept inside [eps, 1 - eps] where eps is given; without it NaN outside [0, 1]. The gradient \
          is 0 where x was moved.",
    record: |b, def, a| {
        let eps = match Args::new(def, a).get(1) {
            Arg::Scalar(s) => Attr::Float(s.to_f64()),
            _ => Attr::None,
        };
        crate::elementwise::record_met(b, def, &record::first::<1>(a), Promotion::Float, smallvec![eps])
    },
    body: Body::Composite(|b, attrs, v| {
        let eps = if let Attr::Float(eps) = attrs[0] { Some(eps) } else { None };
        in_float(b, v, |b, v| {
            let x = match eps {
                Some(eps) => {
                    let (under, over) = (b.lt(v[0], eps)?, above(b, v[0], 1.0 - eps)?);
                    let x = b.select(over, 1.0 - eps, v[0])?;
                    b.select(under, eps, x)?
                }
                None => v[0],
            };
            let rest = b.sub(1.0, x)?;
            let ratio = b.div(x, rest)?;
            b.log(ratio)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        let eps = if let Attr::Float(eps) = cx.op.attrs()[0] { Some(eps) } else { None };
        by_slope(b, cx, |b, x| {
            let (low, high) = (eps.unwrap_or(0.0), 1.0 - eps.unwrap_or(0.0));
            let rest = b.sub(1.0, x)?;
            let below = b.mul(x, rest)?;
            let slope = b.div(1.0, below)?;
            let (under, over) = (b.lt(x, low)?, above(b, x, high)?);
            let outside = b.or(under, over)?;
            b.select(outside, if eps.is_some() { 0.0 } else { f64::NAN }, slope)
        })
    }),
    samples: &[
        Sample::grad("f32[2,3] in 0.1..0.9", 16),
        Sample::grad("f32[2,3] in 0.25..0.7, 0.2", 16),
        Sample::of("f32[4] = 0 1 -1 2", 16),
        Sample::of("f32[3] = 0.5 0.55 0.7, 0.6", 16),
    ],
    ..FUNCTION
};

/// What stands behind the point.
pub static FRAC: OpDef = OpDef {
    sig: "frac(Tensor self) -> Tensor",
    doc: "x - trunc x; the gradient is 1.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        rules::check_float(def.name(), b.ty(x))?;
        let whole = b.trunc(x)?;
        Ok(smallvec![b.sub(x, whole)?])
    },
    samples: &[Sample::grad("f32[2,3] in 0.1..0.9", 0), Sample::exact("f32[3] = 1.5 -1.5 0")],
    refuses: &[Refusal::of("i64[2]", "frac: needs a float tensor, got i64 [2]")],
    ..SPELLED
};

const SPELLED: OpDef = OpDef { batch: Batch::Pointwise, stability: Stability::Stable, ..SPELLING };

/// Rounded to a number of decimals. Attribute: decimals.
pub static ROUND_DECIMALS: OpDef = OpDef {
    sig: "round.decimals(Tensor self, *, int decimals=0) -> Tensor",
    doc: "The nearest multiple of 10^-decimals, halves to even: round(x · 10^d) / 10^d; integers are what they are. \
          The gradient is 0.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        if b.dtype(x) == DType::Bool {
            return Err(rules::refuse(
                def.name(),
                Kind::DType,
                format_args!("needs a tensor of numbers, got {}", b.ty(x)),
            ));
        }
        if b.dtype(x).is_int() {
            return Ok(smallvec![x]);
        }
        match Args::new(def, a).int_or(1, 0)? {
            0 => Ok(smallvec![b.round_even(x)?]),
            d => b.composite(def, smallvec![Attr::Int(d)], &[x]),
        }
    },
    body: Body::Composite(|b, attrs, v| {
        let (d, power) = (attrs[0].int(), 10f64.powi(attrs[0].int().unsigned_abs().min(300) as i32));
        in_float(b, v, |b, v| {
            let scaled = if d > 0 { b.mul(v[0], power)? } else { b.div(v[0], power)? };
            let whole = b.round_even(scaled)?;
            if d > 0 { b.div(whole, power) } else { b.mul(whole, power) }
        })
    }),
    grad: Grad::Rule(|b, cx| cx.zeros(b)),
    saves: Saves::NONE,
    samples: &[
        Sample::of("f32[2,3] in -9..9, 3", 4),
        Sample::of("f32[3] in -9e3..9e3, -3", 4),
        Sample::grad("f32[3] in 0.1..0.3", 0),
        Sample::exact("i64[3] in -9..9"),
    ],
    refuses: &[Refusal::of("bool[2]", "round: needs a tensor of numbers, got bool [2]")],
    ..FUNCTION
};

/// NaN and infinities replaced by numbers.
pub static NAN_TO_NUM: OpDef = OpDef {
    sig: "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    doc: "NaN becomes nan (0), infinities become posinf and neginf (the largest and the smallest number of the dtype). The \
          gradient is 0 where an element was replaced.",
    runtime: &["nan", "posinf", "neginf"],
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        let dtype = b.dtype(x);
        if !dtype.is_float() {
            return Ok(smallvec![x]);
        }
        let largest = largest(dtype);
        let mut y = x;
        let cases = [(1, 0.0, f64::NAN), (2, largest, f64::INFINITY), (3, -largest, f64::NEG_INFINITY)];
        for (i, default, which) in cases {
            let number = match a.get(i) {
                Arg::Scalar(s) => *s,
                _ => Scalar::Float(default),
            };
            let number = b.param(dtype, number)?;
            let hit = if which.is_nan() { is_nan(b, x)? } else { b.eq(x, which)? };
            y = b.select(hit, number, y)?;
        }
        Ok(smallvec![y])
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2", 0),
        Sample::exact("f32[4] = nan inf -inf 1"),
        Sample::exact("f32[4] = nan inf -inf 1, 5, 6, 7"),
        Sample::exact("i64[3] in -9..9"),
    ],
    ..SPELLED
};
/// The largest finite number of a float type.
pub(crate) fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from_bits(0x47ef_e000_0000_0000),
        DType::F64 => f64::MAX,
        DType::F8E4M3 => 448.0,
        DType::F8E5M2 => 57344.0,
        _ => f64::from(f32::MAX),
    }
}

/// Infinite and above zero?
pub static ISPOSINF: OpDef = OpDef {
    sig: "isposinf(Tensor self) -> Tensor",
    doc: "Is the element +∞?",
    record: |b, def, a| is_infinity(b, def, a, f64::INFINITY),
    grad: Grad::None,
    samples: &[Sample::exact("f32[4] = 0 nan inf -inf"), Sample::exact("i64[3] in 0..3")],
    ..SPELLED
};
/// Infinite and below zero?
pub static ISNEGINF: OpDef = OpDef {
    sig: "isneginf(Tensor self) -> Tensor",
    doc: "Is the element -∞?",
    record: |b, def, a| is_infinity(b, def, a, f64::NEG_INFINITY),
    grad: Grad::None,
    samples: &[Sample::exact("f32[4] = 0 nan inf -inf"), Sample::exact("i64[3] in 0..3")],
    ..SPELLED
};
fn is_infinity(b: &mut Builder<'_>, def: &OpDef, a: &Bound, which: f64) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let shape = b.shape(x);
    Ok(smallvec![if b.dtype(x).is_float() { b.eq(x, which)? } else { b.full(DType::Bool, &shape, false)? }])
}
/// Real?
pub static ISREAL: OpDef = OpDef {
    sig: "isreal(Tensor self) -> Tensor",
    doc: "Has the element no imaginary part? True of every element of a tensor that is not complex.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        if b.dtype(x).class() == Class::Complex {
            let im = b.imag(x)?;
            return Ok(smallvec![b.eq(im, 0.0)?]);
        }
        let shape = b.shape(x);
        Ok(smallvec![b.full(DType::Bool, &shape, true)?])
    },
    grad: Grad::None,
    samples: &[Sample::exact("f32[4] = 0 nan inf -inf"), Sample::exact("i64[3] in 0..3")],
    ..SPELLED
};
/// Negative, with -0?
pub static SIGNBIT: OpDef = OpDef {
    sig: "signbit(Tensor self) -> Tensor",
    doc: "Is the element's sign set? True of -0; of NaN it says false.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        let shape = b.shape(x);
        Ok(smallvec![if b.dtype(x) == DType::Bool { b.full(DType::Bool, &shape, false)? } else { is_negative(b, x)? }])
    },
    grad: Grad::None,
    samples: &[Sample::exact("f32[6] = 0 -0 1 -1 inf -inf"), Sample::exact("i64[3] in -3..3")],
    ..SPELLED
};

/// Sign.
pub static SGN: OpDef = OpDef {
    sig: "sgn(Tensor self) -> Tensor",
    doc: "-1, 0 or 1; of a complex number its direction. The gradient is 0.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        if b.dtype(x).class() != Class::Complex {
            return Ok(smallvec![if b.dtype(x) == DType::Bool { x } else { b.sign(x)? }]);
        }
        let size = b.abs(x)?;
        let zero = b.eq(size, 0.0)?;
        let safe = b.select(zero, 1.0, size)?;
        let [re, im] = b.parts(x)?;
        let (re, im) = (b.div(re, safe)?, b.div(im, safe)?);
        Ok(smallvec![b.complex(re, im)?])
    },
    samples: &[
        Sample::grad("f32[2,3] in 0.1..2", 0),
        Sample::exact("i64[3] in -3..3"),
        Sample::exact("bool[3]"),
        Sample::of("c64[3]", 16),
    ],
    ..SPELLED
};
/// The tensor itself.
pub static POSITIVE: OpDef = OpDef {
    sig: "positive(Tensor self) -> Tensor",
    doc: "+x, which is x.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        if b.dtype(x) == DType::Bool {
            return Err(rules::refuse(
                def.name(),
                Kind::DType,
                format_args!("needs a tensor of numbers, got {}", b.ty(x)),
            ));
        }
        Ok(smallvec![x])
    },
    samples: &[Sample::grad("f32[2,3]", 0)],
    refuses: &[Refusal::of("bool[2]", "positive: needs a tensor of numbers, got bool [2]")],
    ..SPELLED
};
/// The real part.
pub static REAL: OpDef = OpDef {
    sig: "real(Tensor self) -> Tensor",
    doc: "The real part; of a tensor that is not complex the tensor itself.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        Ok(smallvec![if b.dtype(x).class() == Class::Complex { b.real(x)? } else { x }])
    },
    samples: &[Sample::grad("f32[2,3]", 0), Sample::exact("c64[3]")],
    ..SPELLED
};
/// The conjugate.
pub static CONJ: OpDef = OpDef {
    sig: "conj(Tensor self) -> Tensor",
    doc: "The complex conjugate; of a tensor that is not complex the tensor itself.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        if b.dtype(x).class() != Class::Complex {
            return Ok(smallvec![x]);
        }
        let [re, im] = b.parts(x)?;
        let im = b.neg(im)?;
        Ok(smallvec![b.complex(re, im)?])
    },
    samples: &[Sample::grad("f32[2,3]", 0), Sample::exact("c64[3]")],
    ..SPELLED
};
/// The direction of a number.
pub static ANGLE: OpDef = OpDef {
    sig: "angle(Tensor self) -> Tensor",
    doc: "π below 0, else 0; NaN stays. The gradient is 0. Of complex numbers the angle of their direction.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        if b.dtype(x).class() != Class::Complex {
            return crate::elementwise::record_float::<1>(b, def, a);
        }
        let [re, im] = b.parts(x)?;
        Ok(smallvec![b.atan2(im, re)?])
    },
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let below = b.lt(v[0], 0.0)?;
            let flat = b.full(b.dtype(v[0]), &b.shape(v[0]), 0.0)?;
            let y = b.select(below, PI, flat)?;
            let nan = is_nan(b, v[0])?;
            b.select(nan, v[0], y)
        })
    }),
    grad: Grad::Rule(|b, cx| cx.zeros(b)),
    saves: Saves::NONE,
    samples: &[
        Sample::grad("f32[2,3] in 0.1..2", 0),
        Sample::exact("f32[3] = -1 -0 nan"),
        Sample::of("i64[3] in -3..3", 0),
    ],
    ..FUNCTION
};

/// Degrees of an angle in radians.
pub static RAD2DEG: OpDef = OpDef {
    sig: "rad2deg(Tensor self) -> Tensor",
    doc: "x · 180 / π.",
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| b.mul(v[0], 180.0 / PI))),
    cost: 1,
    samples: &[Sample::grad("f32[2,3] in -4..4", 2)],
    ..FUNCTION
};
/// Radians of an angle in degrees.
pub static DEG2RAD: OpDef = OpDef {
    sig: "deg2rad(Tensor self) -> Tensor",
    doc: "x · π / 180.",
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| b.mul(v[0], PI / 180.0))),
    cost: 1,
    samples: &[Sample::grad("f32[2,3] in -400..400", 2)],
    ..FUNCTION
};

/// Mantissa and exponent.
pub static FREXP: OpDef = OpDef {
    sig: "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    doc: "x = mantissa · 2^exponent with 1/2 ≤ |mantissa| < 1; 0, NaN and infinities are their own mantissa with exponent 0. \
          The gradient of the mantissa is 2^-exponent.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        rules::check_float(def.name(), b.ty(x))?;
        b.composite(def, smallvec![], &[x])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 1)?;
        let exponent = rtx_ir::Type { dtype: DType::I32, shape: inputs[0].shape.clone() };
        Ok(smallvec![inputs[0].clone(), exponent])
    },
    body: Body::Composite(|b, _, v| {
        let x = v[0];
        let (bits, shift, fields, half) = match b.dtype(x) {
            DType::F64 => (DType::I64, 52f64, 2047f64, 1022f64),
            DType::F16 => (DType::I16, 10.0, 31.0, 14.0),
            DType::BF16 => (DType::I16, 7.0, 255.0, 126.0),
            _ => (DType::I32, 23.0, 255.0, 126.0),
        };
        // A subnormal number is multiplied into the normal range first.
        let a = b.abs(x)?;
        let tiny = b.lt(a, (2.0 - half).exp2())?;
        let lifted = b.mul(x, shift.exp2())?;
        let normal = b.select(tiny, lifted, x)?;
        let word = b.prim(rtx_ir::Prim::Bitcast(bits), &[normal])?;
        let high = b.shr(word, shift)?;
        let field = b.and(high, fields)?;
        let exponent = b.sub(field, half)?;
        let lower = b.sub(exponent, shift)?;
        let exponent = b.select(tiny, lower, exponent)?;
        // The field of the exponent becomes that of 1/2: subtract the difference in place.
        let off = b.sub(field, half)?;
        let off = b.shl(off, shift)?;
        let word = b.sub(word, off)?;
        let mantissa = b.prim(rtx_ir::Prim::Bitcast(b.dtype(x)), &[word])?;
        let zero = b.eq(x, 0.0)?;
        let finite = b.lt(a, f64::INFINITY)?;
        let other = b.not(finite)?;
        let plain = b.or(zero, other)?;
        let exponent = b.select(plain, 0.0, exponent)?;
        Ok(smallvec![b.select(plain, x, mantissa)?, b.cast(exponent, DType::I32)?])
    }),
    grad: Grad::Rule(|b, cx| {
        let Some(g) = cx.cotangents[0] else { return cx.zeros(b) };
        let exponent = b.cast(cx.outputs[1], b.dtype(g))?;
        let scale = b.pow(2.0, exponent)?;
        Ok(smallvec![Some(b.div(g, scale)?)])
    }),
    saves: Saves::Only { inputs: &[], outputs: &[1] },
    jvp: Jvp::None,
    samples: &[Sample::grad("f32[2,3] in 1.1..1.9", 0), Sample::exact("f32[6] = 0 -6 inf nan 1e-40 -0.5")],
    refuses: &[Refusal::of("i64[2]", "frexp: needs a float tensor, got i64 [2]")],
    ..VALUE_ONLY
};
