//! Bessel functions of orders 0 and 1, and Airy's.
use super::coefficients::*;
use super::{at, body, chebyshev, slope};
use crate::elementwise::{FUNCTION, VALUE_ONLY};
use crate::formula::{Formula, Var, emit};
use rtx_core::Result;
use rtx_ir::{Body, Builder, Grad, OpDef, Sample};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_4, PI};

/// The family.
pub const ALL: &[&OpDef] = &[
    &I0,
    &I0E,
    &I1,
    &I1E,
    &MODIFIED_I0,
    &MODIFIED_I1,
    &MODIFIED_K0,
    &MODIFIED_K1,
    &SCALED_K0,
    &SCALED_K1,
    &J0,
    &J1,
    &Y0,
    &Y1,
    &SPHERICAL_J0,
    &AIRY_AI,
];

/// Where the expansions in x and in 1/x meet.
const NEAR: f64 = 8.0;

/// `exp(-|x|) I0(x)`.
fn i0e(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    let a = emit(b, x.abs())?;
    let near = chebyshev(b, a * 0.25 - 1.0, I0_NEAR)?;
    let far = chebyshev(b, 16.0 / a - 1.0, I0_FAR)?;
    emit(b, a.at_most(NEAR).choose(near, far / a.sqrt()))
}
/// `exp(-|x|) I1(x)`.
fn i1e(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    let a = emit(b, x.abs())?;
    let near = chebyshev(b, a * 0.25 - 1.0, I1_NEAR)?;
    let far = chebyshev(b, 16.0 / a - 1.0, I1_FAR)?;
    emit(b, a.at_most(NEAR).choose(x * near, x.sign() * far / a.sqrt()))
}
/// `I0(x)`, also for other functions' formulas.
pub(crate) fn i0(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    let y = i0e(b, x)?;
    emit(b, y * x.abs().exp())
}
fn i1(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    let y = i1e(b, x)?;
    emit(b, y * x.abs().exp())
}
/// `quotient(x)` where x is not 0, else its limit there.
fn limit_at_zero(
    b: &mut Builder<'_>,
    x: Var,
    limit: f64,
    quotient: impl FnOnce(&mut Builder<'_>, Var) -> Result<Formula>,
) -> Result<Var> {
    let zero = emit(b, x.equals(0.0))?;
    let safe = emit(b, zero.choose(1.0, x))?;
    let y = quotient(b, safe)?;
    emit(b, zero.choose(limit, y))
}

/// `dI1/dx = I0 - I1 / x`.
fn i1_slope(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    limit_at_zero(b, x, 0.5, |b, x| Ok(at(b, &I0, x)? - at(b, &I1, x)? / x))
}

const BESSEL: OpDef = OpDef { cost: 150, ..FUNCTION };

/// Modified Bessel function of order 0.
pub static I0: OpDef = OpDef {
    sig: "i0(Tensor self) -> Tensor",
    doc: "The modified Bessel function I0 by Chebyshev expansions of exp(-x) I0(x) up to 8 and of √x exp(-x) I0(x) from there.",
    body: Body::Composite(|b, _, v| body(b, v, i0)),
    grad: Grad::Rule(|b, cx| slope(b, cx, |b, x| at(b, &I1, x))),
    samples: &[
        Sample::grad("f32[2,3] in -4..4", 64),
        Sample::of("f32[5] = 0 8 8.1 -20 60", 256),
        Sample::of("f64[4] = 0 3 -9 30", 64),
    ],
    ..BESSEL
};
/// Scaled modified Bessel function of order 0.
pub static I0E: OpDef = OpDef {
    sig: "special_i0e(Tensor self) -> Tensor",
    doc: "exp(-|x|) I0(x).",
    body: Body::Composite(|b, _, v| body(b, v, i0e)),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let (first, zeroth) = (at(b, &I1E, x)?, at(b, &I0E, x)?);
            emit(b, first - x.sign() * zeroth)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.5..4", 64), Sample::of("f32[4] = 0 -9 100 inf", 64)],
    ..BESSEL
};
/// Modified Bessel function of order 1.
pub static I1: OpDef = OpDef {
    sig: "special_i1(Tensor self) -> Tensor",
    doc: "The modified Bessel function I1 = I0'.",
    body: Body::Composite(|b, _, v| body(b, v, i1)),
    grad: Grad::Rule(|b, cx| slope(b, cx, i1_slope)),
    samples: &[Sample::grad("f32[2,3] in 0.5..4", 64), Sample::of("f32[5] = 0 8 8.1 -20 60", 256)],
    ..BESSEL
};
/// Scaled modified Bessel function of order 1.
pub static I1E: OpDef = OpDef {
    sig: "special_i1e(Tensor self) -> Tensor",
    doc: "exp(-|x|) I1(x).",
    body: Body::Composite(|b, _, v| body(b, v, i1e)),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            limit_at_zero(b, x, 0.5, |b, x| Ok(at(b, &I0E, x)? - at(b, &I1E, x)? * (x.sign() + 1.0 / x)))
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.5..4", 64), Sample::of("f32[4] = 0 -9 100 inf", 64)],
    ..BESSEL
};
/// [`I0`] by its other name.
pub static MODIFIED_I0: OpDef = OpDef {
    sig: "special_modified_bessel_i0(Tensor self) -> Tensor",
    doc: "The modified Bessel function I0, as i0.",
    body: Body::Composite(|b, _, v| body(b, v, i0)),
    grad: Grad::Rule(|b, cx| slope(b, cx, |b, x| at(b, &I1, x))),
    samples: &[Sample::grad("f32[2,3] in -4..4", 64)],
    ..BESSEL
};
/// [`I1`] by its other name.
pub static MODIFIED_I1: OpDef = OpDef {
    sig: "special_modified_bessel_i1(Tensor self) -> Tensor",
    doc: "The modified Bessel function I1, as special_i1.",
    body: Body::Composite(|b, _, v| body(b, v, i1)),
    grad: Grad::Rule(|b, cx| slope(b, cx, i1_slope)),
    samples: &[Sample::grad("f32[2,3] in 0.5..4", 64)],
    ..BESSEL
};

/// `K0(x)` up to 2, and `√x exp(x) K0(x)` from there.
fn k0_parts(b: &mut Builder<'_>, x: Var) -> Result<[Var; 2]> {
    let smooth = chebyshev(b, x * x * 0.5 - 1.0, K0_NEAR)?;
    let grown = chebyshev(b, x * 0.25 - 1.0, I0_NEAR)?;
    let near = emit(b, smooth - (x * 0.5).log() * (grown * x.exp()))?;
    Ok([near, chebyshev(b, 4.0 / x - 1.0, K0_FAR)?])
}
/// The same of `K1`.
fn k1_parts(b: &mut Builder<'_>, x: Var) -> Result<[Var; 2]> {
    let smooth = chebyshev(b, x * x * 0.5 - 1.0, K1_NEAR)?;
    let grown = chebyshev(b, x * 0.25 - 1.0, I1_NEAR)?;
    let near = emit(b, (x * 0.5).log() * (grown * x * x.exp()) + smooth / x)?;
    let near = emit(b, x.equals(0.0).choose(f64::INFINITY, near))?;
    Ok([near, chebyshev(b, 4.0 / x - 1.0, K1_FAR)?])
}
fn k(b: &mut Builder<'_>, x: Var, [near, far]: [Var; 2]) -> Result<Var> {
    emit(b, x.at_most(2.0).choose(near, far * (-x).exp() / x.sqrt()))
}
fn scaled_k(b: &mut Builder<'_>, x: Var, [near, far]: [Var; 2]) -> Result<Var> {
    emit(b, x.at_most(2.0).choose(near * x.exp(), far / x.sqrt()))
}

/// Modified Bessel function of the second kind, order 0.
pub static MODIFIED_K0: OpDef = OpDef {
    sig: "special_modified_bessel_k0(Tensor self) -> Tensor",
    doc: "K0; infinite at 0, NaN below. Up to 2 an expansion of K0(x) + log(x/2) I0(x), from there of √x exp(x) K0(x).",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let parts = k0_parts(b, x)?;
            k(b, x, parts)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let y = at(b, &MODIFIED_K1, x)?;
            emit(b, -y)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.3..5", 64), Sample::of("f32[4] = 0 -1 2.1 30", 256)],
    ..BESSEL
};
/// Modified Bessel function of the second kind, order 1.
pub static MODIFIED_K1: OpDef = OpDef {
    sig: "special_modified_bessel_k1(Tensor self) -> Tensor",
    doc: "K1 = -K0'; infinite at 0, NaN below.",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let parts = k1_parts(b, x)?;
            k(b, x, parts)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let (zeroth, first) = (at(b, &MODIFIED_K0, x)?, at(b, &MODIFIED_K1, x)?);
            emit(b, -(zeroth + first / x))
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.3..5", 64), Sample::of("f32[4] = 0 -1 2.1 30", 256)],
    ..BESSEL
};
/// Scaled [`MODIFIED_K0`].
pub static SCALED_K0: OpDef = OpDef {
    sig: "special_scaled_modified_bessel_k0(Tensor x) -> Tensor",
    doc: "exp(x) K0(x).",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let parts = k0_parts(b, x)?;
            scaled_k(b, x, parts)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let (zeroth, first) = (at(b, &SCALED_K0, x)?, at(b, &SCALED_K1, x)?);
            emit(b, zeroth - first)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.3..5", 64), Sample::of("f32[4] = 0 -1 2.1 300", 256)],
    ..BESSEL
};
/// Scaled [`MODIFIED_K1`].
pub static SCALED_K1: OpDef = OpDef {
    sig: "special_scaled_modified_bessel_k1(Tensor x) -> Tensor",
    doc: "exp(x) K1(x).",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let parts = k1_parts(b, x)?;
            scaled_k(b, x, parts)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let (zeroth, first) = (at(b, &SCALED_K0, x)?, at(b, &SCALED_K1, x)?);
            emit(b, first - zeroth - first / x)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.3..5", 64), Sample::of("f32[4] = 0 -1 2.1 300", 256)],
    ..BESSEL
};

/// `√(2/πx) (P cos θ - 8/x Q sin θ)`, or with sine and cosine in each other's place, `θ = x - shift`, for a positive x.
fn wave(b: &mut Builder<'_>, x: Var, shift: f64, [p, q]: [&[f64]; 2], second: bool) -> Result<Var> {
    let r = emit(b, NEAR / x)?;
    let (p, q) = (chebyshev(b, r * r * 2.0 - 1.0, p)?, chebyshev(b, r * r * 2.0 - 1.0, q)?);
    let angle = emit(b, x - shift)?;
    let sum = if second { p * angle.sin() + r * q * angle.cos() } else { p * angle.cos() - r * q * angle.sin() };
    emit(b, sum * (FRAC_2_PI / x).sqrt())
}
fn near_argument(x: Var) -> Formula {
    x * x * (1.0 / 32.0) - 1.0
}
fn j0(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    let a = emit(b, x.abs())?;
    let near = chebyshev(b, near_argument(a), J0_NEAR)?;
    let far = wave(b, a, FRAC_PI_4, [P0_FAR, Q0_FAR], false)?;
    emit(b, a.at_most(NEAR).choose(near, far))
}
fn j1(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    let a = emit(b, x.abs())?;
    let near = chebyshev(b, near_argument(a), J1_NEAR)?;
    let far = wave(b, a, 3.0 * FRAC_PI_4, [P1_FAR, Q1_FAR], false)?;
    emit(b, a.at_most(NEAR).choose(x * near, x.sign() * far))
}

/// Bessel function of order 0.
pub static J0: OpDef = OpDef {
    sig: "special_bessel_j0(Tensor self) -> Tensor",
    doc: "J0: an expansion in x² up to 8, amplitude and phase from there (Abramowitz and Stegun 9.2.5).",
    body: Body::Composite(|b, _, v| body(b, v, j0)),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let y = at(b, &J1, x)?;
            emit(b, -y)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.5..9", 256), Sample::of("f32[4] = 0 -9 20 -30", 256)],
    ..BESSEL
};
/// Bessel function of order 1.
pub static J1: OpDef = OpDef {
    sig: "special_bessel_j1(Tensor self) -> Tensor",
    doc: "J1 = -J0'.",
    body: Body::Composite(|b, _, v| body(b, v, j1)),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| limit_at_zero(b, x, 0.5, |b, x| Ok(at(b, &J0, x)? - at(b, &J1, x)? / x)))
    }),
    samples: &[Sample::grad("f32[2,3] in 0.5..9", 256), Sample::of("f32[4] = 0 -9 20 -30", 256)],
    ..BESSEL
};
/// Bessel function of the second kind, order 0.
pub static Y0: OpDef = OpDef {
    sig: "special_bessel_y0(Tensor self) -> Tensor",
    doc: "Y0; -∞ at 0, NaN below.",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let (first, smooth) = (chebyshev(b, near_argument(x), J0_NEAR)?, chebyshev(b, near_argument(x), Y0_NEAR)?);
            let far = wave(b, x, FRAC_PI_4, [P0_FAR, Q0_FAR], true)?;
            emit(b, x.at_most(NEAR).choose(smooth + FRAC_2_PI * x.log() * first, far))
        })
    }),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let y = at(b, &Y1, x)?;
            emit(b, -y)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.5..9", 256), Sample::of("f32[4] = 0 -9 20 30", 256)],
    ..BESSEL
};
/// Bessel function of the second kind, order 1.
pub static Y1: OpDef = OpDef {
    sig: "special_bessel_y1(Tensor self) -> Tensor",
    doc: "Y1 = -Y0'; -∞ at 0, NaN below.",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let (first, smooth) = (chebyshev(b, near_argument(x), J1_NEAR)?, chebyshev(b, near_argument(x), Y1_NEAR)?);
            let near = emit(b, x * smooth + FRAC_2_PI * (x.log() * (first * x) - 1.0 / x))?;
            let near = emit(b, x.equals(0.0).choose(f64::NEG_INFINITY, near))?;
            let far = wave(b, x, 3.0 * FRAC_PI_4, [P1_FAR, Q1_FAR], true)?;
            emit(b, x.at_most(NEAR).choose(near, far))
        })
    }),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let (zeroth, first) = (at(b, &Y0, x)?, at(b, &Y1, x)?);
            emit(b, zeroth - first / x)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.5..9", 256), Sample::of("f32[4] = 0 -9 20 30", 256)],
    ..BESSEL
};
/// Spherical Bessel function of order 0.
pub static SPHERICAL_J0: OpDef = OpDef {
    sig: "special_spherical_bessel_j0(Tensor x) -> Tensor",
    doc: "sin x / x, by its series below 1/2; 0 at infinity.",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let (square, a) = (emit(b, x * x)?, emit(b, x.abs())?);
            let series = [1.0, -1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0];
            let near = super::polynomial(b, square, &series)?;
            let infinite = emit(b, a.equals(f64::INFINITY))?;
            emit(b, a.below(0.5).choose(near, infinite.choose(0.0, x.sin() / x)))
        })
    }),
    samples: &[Sample::of("f32[5] = 0 0.3 -4 inf 9", 16)],
    ..VALUE_ONLY
};

/// Where the expansions of Airy's function meet, and `ζ = 2/3 x^1.5` there.
const MIDDLE: f64 = 2.5;
const ZETA: f64 = 2.635_231_383_473_649_4;

/// Airy's function.
pub static AIRY_AI: OpDef = OpDef {
    sig: "special_airy_ai(Tensor x) -> Tensor",
    doc: "Airy's Ai: an expansion in x up to 2.5 on both sides, amplitude and phase in ζ = 2/3 |x|^1.5 outside (Abramowitz and \
          Stegun 10.4.59).",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let a = emit(b, x.abs())?;
            let root = emit(b, a.sqrt())?;
            let zeta = emit(b, a * root * (2.0 / 3.0))?;
            let ratio = emit(b, ZETA / zeta)?;
            let scale = emit(b, root.sqrt() * PI.sqrt())?;
            let near = chebyshev(b, x * (1.0 / MIDDLE), AI_NEAR)?;
            let falling = chebyshev(b, ratio * 2.0 - 1.0, AI_FAR)?;
            let falling = emit(b, falling * (-zeta).exp() / (scale * 2.0))?;
            let cosine = chebyshev(b, ratio * ratio * 2.0 - 1.0, AI_COSINE)?;
            let sine = chebyshev(b, ratio * ratio * 2.0 - 1.0, AI_SINE)?;
            let angle = emit(b, zeta - FRAC_PI_4)?;
            let swinging = emit(b, (angle.cos() * cosine + angle.sin() * (ratio * sine)) / scale)?;
            let outside = emit(b, x.below(0.0).choose(swinging, falling))?;
            emit(b, a.at_most(MIDDLE).choose(near, outside))
        })
    }),
    samples: &[Sample::of("f32[8] = 0 2.4 -2.4 3 -3 9 -20 1", 512)],
    ..VALUE_ONLY
};
