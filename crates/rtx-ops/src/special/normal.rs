//! What belongs to the normal distribution: its distribution function, the inverse, the scaled error function, entropy.
use super::coefficients::ERFCX as ERFCX_SERIES;
use super::{at, body, chebyshev, polynomial, slope};
use crate::elementwise::FUNCTION;
use crate::formula::{Var, emit};
use rtx_core::{Function, Result};
use rtx_ir::{Body, Builder, Grad, OpDef, Sample};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI, FRAC_2_SQRT_PI, PI};

/// The family.
pub const ALL: &[&OpDef] = &[&ERFINV, &NDTRI, &NDTR, &LOG_NDTR, &ERFCX, &ENTR];

/// Wichura, Applied Statistics 37 (1988), algorithm AS 241, PPND16: numerators and denominators near the middle, and in
/// the tails up to √(-log p) = 5 and beyond.
const MIDDLE: [&[f64]; 2] = [
    &[
        3.387_132_872_796_366_6,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ],
    &[
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_854e3,
    ],
];
const TAIL: [&[f64]; 2] = [
    &[
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ],
    &[
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
];
const FAR_TAIL: [&[f64]; 2] = [
    &[
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    &[
        1.0,
        5.998_322_065_558_879e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_8e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
];

fn ratio(b: &mut Builder<'_>, x: Var, [above, below]: [&[f64]; 2]) -> Result<Var> {
    let (above, below) = (polynomial(b, x, above)?, polynomial(b, x, below)?);
    emit(b, above / below)
}
/// The normal quantile of `1/2 + q`, where `tail = 1/2 - |q|`.
fn quantile(b: &mut Builder<'_>, q: Var, tail: Var) -> Result<Var> {
    let r = emit(b, 0.180_625 - q * q)?;
    let middle = ratio(b, r, MIDDLE)?;
    let r = emit(b, (-tail.log()).sqrt())?;
    let near = emit(b, r - 1.6)?;
    let near = ratio(b, near, TAIL)?;
    let far = emit(b, r - 5.0)?;
    let far = ratio(b, far, FAR_TAIL)?;
    let outer = emit(b, r.at_most(5.0).choose(near, far))?;
    let outer = emit(b, tail.equals(0.0).choose(f64::INFINITY, outer))?;
    emit(b, q.abs().at_most(0.425).choose(q * middle, q.sign() * outer))
}

const NORMAL: OpDef = OpDef { cost: 80, ..FUNCTION };

/// Inverse of the error function.
pub static ERFINV: OpDef = OpDef {
    sig: "erfinv(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "The y with erf y = x: the normal quantile of (1 + x)/2 divided by √2 (Wichura, AS 241); ±∞ at ±1, NaN outside.",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let (q, tail) = (emit(b, x * 0.5)?, emit(b, (1.0 - x.abs()) * 0.5)?);
            let y = quantile(b, q, tail)?;
            emit(b, y * FRAC_1_SQRT_2)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let y = at(b, &ERFINV, x)?;
            emit(b, (y * y).exp() * (1.0 / FRAC_2_SQRT_PI))
        })
    }),
    samples: &[
        Sample::grad("f32[2,3] in -0.9..0.9", 64),
        Sample::of("f32[6] = 0 1 -1 2 0.999999 -0.86", 64),
        Sample::of("i64[3] = 0 1 2", 16),
    ],
    ..NORMAL
};
/// Inverse of the normal distribution function.
pub static NDTRI: OpDef = OpDef {
    sig: "special_ndtri(Tensor self) -> Tensor",
    doc: "The normal quantile (Wichura, AS 241); -∞ at 0, ∞ at 1, NaN outside.",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, p| {
            let q = emit(b, p - 0.5)?;
            let tail = emit(b, p.below(0.5).choose(p, 1.0 - p))?;
            quantile(b, q, tail)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, p| {
            let y = at(b, &NDTRI, p)?;
            emit(b, (y * y * 0.5).exp() * (2.0 * PI).sqrt())
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 0.1..0.9", 64), Sample::of("f32[6] = 0 1 -1 2 1e-30 0.98", 64)],
    ..NORMAL
};
/// Normal distribution function.
pub static NDTR: OpDef = OpDef {
    sig: "special_ndtr(Tensor self) -> Tensor",
    doc: "erfc(-x / √2) / 2.",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let turned = emit(b, x * -FRAC_1_SQRT_2)?;
            let y = Var(b.unary(Function::Erfc, turned.0)?);
            emit(b, y * 0.5)
        })
    }),
    grad: Grad::Rule(|b, cx| slope(b, cx, |b, x| emit(b, (x * x * -0.5).exp() * (1.0 / (2.0 * PI).sqrt())))),
    samples: &[Sample::grad("f32[2,3] in -3..3", 64), Sample::of("f32[4] = -9 0 -inf inf", 256)],
    ..NORMAL
};
/// Logarithm of the normal distribution function.
pub static LOG_NDTR: OpDef = OpDef {
    sig: "special_log_ndtr(Tensor self) -> Tensor",
    doc: "log(erfcx(-x/√2) / 2) - x²/2 below -1, log1p(-erfc(x/√2) / 2) from there.",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let t = emit(b, x * FRAC_1_SQRT_2)?;
            let low = emit(b, -t)?;
            let low = scaled_erfc(b, low)?;
            let high = Var(b.unary(Function::Erfc, t.0)?);
            emit(b, x.below(-1.0).choose((low * 0.5).log() - x * x * 0.5, (high * -0.5).log1p()))
        })
    }),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let turned = emit(b, x * -FRAC_1_SQRT_2)?;
            let y = at(b, &ERFCX, turned)?;
            emit(b, FRAC_2_PI.sqrt() / y)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in -3..3", 64), Sample::of("f32[4] = -30 0 9 -1", 256)],
    ..NORMAL
};
fn scaled_erfc(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    let a = emit(b, x.abs())?;
    let y = chebyshev(b, 1.0 - 7.5 / (a + 3.75), ERFCX_SERIES)?;
    let y = emit(b, y / (a + a + 1.0))?;
    emit(b, x.below(0.0).choose((x * x).exp() * 2.0 - y, y))
}
/// Scaled complementary error function.
pub static ERFCX: OpDef = OpDef {
    sig: "special_erfcx(Tensor self) -> Tensor",
    doc: "exp(x²) erfc(x): an expansion of (1 + 2x) erfcx(x) in (x - 3.75) / (x + 3.75), mirrored below 0 (Shepherd and \
          Laframboise, Math. Comp. 36, 1981).",
    body: Body::Composite(|b, _, v| body(b, v, scaled_erfc)),
    grad: Grad::Rule(|b, cx| {
        slope(b, cx, |b, x| {
            let y = at(b, &ERFCX, x)?;
            emit(b, x * 2.0 * y - FRAC_2_SQRT_PI)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in -2..2", 64), Sample::of("f32[5] = -4 0 9 1e10 inf", 256)],
    ..NORMAL
};
/// Entropy of one probability.
pub static ENTR: OpDef = OpDef {
    sig: "special_entr(Tensor self) -> Tensor",
    doc: "-x log x; 0 at 0, -∞ below.",
    body: Body::Composite(|b, _, v| {
        body(b, v, |b, x| {
            let zero = emit(b, x.equals(0.0))?;
            let y = emit(b, zero.choose(0.0, -x * x.log()))?;
            emit(b, x.below(0.0).choose(f64::NEG_INFINITY, y))
        })
    }),
    grad: Grad::Rule(|b, cx| slope(b, cx, |b, x| emit(b, -1.0 - x.log()))),
    samples: &[Sample::grad("f32[2,3] in 0.1..3", 16), Sample::of("f32[4] = 0 -1 inf nan", 16)],
    ..FUNCTION
};
