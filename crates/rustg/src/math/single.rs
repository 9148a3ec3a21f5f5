//! Transcendental functions of single precision, once for numbers and for the registers of printed code.
use super::{FRAC_PI_2_LO, FRAC_PI_2_LOLO, LN2_F32, LN2_LO_F32, ROUND_F32, ROUND_F64, Real, Short, Whole};
use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Horner's rule over fma, lowest coefficient first.
macro_rules! horner {
    ($x:expr; $c:expr) => { $x.lit($c) };
    ($x:expr; $c:expr, $($rest:expr),+) => { horner!($x; $($rest),+).fma($x, $x.lit($c)) };
}

/// Single precision: its literals are `f32`.
pub(crate) trait Single: Short<Lit = f32, Long: Real<Lit = f64>> {}
impl<R: Short<Lit = f32, Long: Real<Lit = f64>>> Single for R {}

/// `2^k` for `-126 <= k <= 127`.
#[inline(always)]
fn exp2i<R: Single>(k: R::Bits) -> R {
    R::from_bits(k.add(k.lit(127)).shl(23))
}

/// `(k, r)` with `x = k ln 2 + r`.
#[inline(always)]
fn exp_reduce<R: Single>(x: R) -> (R::Bits, R) {
    let (_, k, r) = exp_parts(x);
    (k, r)
}
/// `(k, k, r)` with `x = k ln 2 + r`: `k` as a number and as an integer.
#[inline(always)]
fn exp_parts<R: Single>(x: R) -> (R, R::Bits, R) {
    let round = x.lit(ROUND_F32);
    let m = x.fma(x.lit(std::f32::consts::LOG2_E), round);
    let n = m - round;
    let r = n.fma(x.lit(-LN2_LO_F32), n.fma(x.lit(-LN2_F32), x));
    (n, m.bits().sub(round.bits()), r)
}

/// `e^r - 1` for `|r| <= ln 2 / 2`.
#[inline(always)]
fn expm1_small<R: Single>(r: R) -> R {
    let q = horner!(r; 0.5, 0.166_666_66, 0.041_666_36, 0.008_333_382, 0.001_394_073_1, 0.000_198_497_19);
    q.fma(r * r, r)
}

/// `e^x`.
#[inline(always)]
pub(crate) fn exp<R: Single>(x: R) -> R {
    let (n, k, r) = exp_parts(x.within(-104.0, 89.0));
    let y = expm1_small(r) + x.lit(1.0);
    if let Some(y) = y.scaled(n) {
        return y;
    }
    // Two steps, so that neither factor overflows and a subnormal result is rounded once.
    let half = k.sar(1);
    y * exp2i::<R>(half) * exp2i::<R>(k.sub(half))
}

/// `e^x - 1`.
#[inline(always)]
pub(crate) fn expm1<R: Single>(x: R) -> R {
    let (k, r) = exp_reduce(x.within(-30.0, 89.0));
    let p = expm1_small(r);
    let half = exp2i::<R>(k.sub(k.lit(1)));
    let y = x.lit(2.0) * p.fma(half, half - x.lit(0.5));
    let y = R::pick(k.eq(k.lit(0)), p, y);
    R::pick(x.eq(x.lit(0.0)), x, y)
}

/// `(k, f)` with `x = 2^k (1 + f)` and `1 + f` around 1, for `0 < x < inf`.
#[inline(always)]
fn log_reduce<R: Single>(x: R) -> (R::Bits, R) {
    const SQRT_HALF: i32 = 0x3f35_04f3;
    let tiny = x.lt(x.lit(f32::MIN_POSITIVE));
    let bits = R::pick(tiny, x * x.lit(8388608.0), x).bits();
    let k = bits.sub(bits.lit(SQRT_HALF)).sar(23);
    let m = R::from_bits(bits.sub(k.shl(23)));
    (k.sub(R::Bits::pick(tiny, k.lit(23), k.lit(0))), m - x.lit(1.0))
}

/// `k ln 2 + log(1 + f)` for `1 + f` between the roots of 1/2 and 2.
#[inline(always)]
fn log_sum<R: Single>(k: R, f: R) -> R {
    let z = f * f;
    let p = horner!(f; 0.333_333_14, -0.250_000_1, 0.200_021_16, -0.166_679_86, 0.142_194_78, -0.124_054_1,
        0.118_889_384, -0.116_785_76, 0.067_487_6);
    let y = p.fma(f * z, k * f.lit(LN2_LO_F32));
    k.fma(f.lit(LN2_F32), f + z.fma(f.lit(-0.5), y))
}

/// Puts the values of a logarithm outside `0 < u < inf` right.
#[inline(always)]
fn log_edges<R: Single>(u: R, y: R) -> R {
    let infinity = u.lit(f32::INFINITY);
    let y = R::pick(u.eq(infinity), infinity, y);
    let y = R::pick(u.eq(u.lit(0.0)), u.lit(f32::NEG_INFINITY), y);
    R::pick(u.lit(0.0).le(u), y, u.lit(f32::NAN))
}

/// Natural logarithm.
#[inline(always)]
pub(crate) fn log<R: Single>(x: R) -> R {
    let (k, f) = log_reduce(x);
    log_edges(x, log_sum(R::from_whole(k), f))
}

/// `log(1 + x)`.
#[inline(always)]
pub(crate) fn log1p<R: Single>(x: R) -> R {
    let one = x.lit(1.0);
    let u = one + x;
    let (k, f) = log_reduce(u);
    // What rounding `1 + x` lost, in units of 2^k.
    let lost = R::pick(one.le(x), one - (u - x), x - (u - one));
    let minus = R::Bits::pick(k.lt(k.lit(100)), k.lit(0).sub(k), k.lit(-100));
    let f = R::pick(k.eq(k.lit(0)), x, lost.fma(exp2i::<R>(minus), f));
    let y = log_edges(u, log_sum(R::from_whole(k), f));
    R::pick(x.eq(x.lit(0.0)), x, y)
}

/// `(q, r)` with `x = q π/2 + r`, `|r| <= π/4`, for `|x| <= 2^30`.
#[inline(always)]
fn trig_reduce<R: Single>(x: R) -> (R::Bits, R) {
    let x = x.lengthen();
    let round = x.lit(ROUND_F64);
    let m = x.fma(x.lit(FRAC_2_PI), round);
    let minus = -(m - round);
    let r = minus.fma(x.lit(FRAC_PI_2), x); // exact
    let r = minus.fma(x.lit(FRAC_PI_2_LOLO), minus.fma(x.lit(FRAC_PI_2_LO), r));
    (R::low_bits(m), R::shorten(r))
}
/// `sin(q π/2 + r)`.
#[inline(always)]
fn sin_quadrant<R: Single>(q: R::Bits, r: R) -> R {
    let z = r * r;
    let s = horner!(z; -0.166_666_67, 0.008_333_329, -0.000_198_393_25, 2.718_212_3e-6).fma(r * z, r);
    let c = horner!(z; 0.041_666_668, -0.001_388_888_3, 2.479_950_9e-5, -2.720_926_5e-7);
    let c = c.fma(z * z, z.fma(r.lit(-0.5), r.lit(1.0)));
    let y = R::pick(q.and(q.lit(1)).eq(q.lit(0)), s, c);
    R::from_bits(y.bits().xor(q.and(q.lit(2)).shl(30)))
}

/// Sine of radians.
#[inline(always)]
pub(crate) fn sin<R: Single>(x: R) -> R {
    let (q, r) = trig_reduce(x);
    let y = sin_quadrant(q, r);
    R::pick(x.eq(x.lit(0.0)), x, y)
}
/// Cosine of radians.
#[inline(always)]
pub(crate) fn cos<R: Single>(x: R) -> R {
    let (q, r) = trig_reduce(x);
    sin_quadrant(q.add(q.lit(1)), r)
}

/// Hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh<R: Single>(x: R) -> R {
    let a = x.lit(10.0).below(x.abs());
    let (k, r) = exp_reduce(x.lit(-2.0) * a);
    let scale = exp2i::<R>(k);
    let m = expm1_small(r).fma(scale, scale - x.lit(1.0));
    (-m / (x.lit(2.0) + m)).copysign(x)
}

/// Error function.
#[inline(always)]
pub(crate) fn erf<R: Single>(x: R) -> R {
    let (a, z) = (x.abs(), x * x);
    let small = horner!(z; 0.128_379_17, -0.376_126_33, 0.112_836_87, -0.026_858_94, 0.005_199_91, -0.000_813_009_3,
        8.317_212e-5);
    let small = small.fma(x, x);
    // 1 - e^(log erfc a); erfc(4) is already below half a place of 1.
    let t = x.lit(4.0).below(a);
    let log_erfc = horner!(t; 0.000_176_156_64, -1.129_522_2, -0.633_331_86, -0.108_297_06, 0.025_130_67,
        -0.004_175_434_6, 0.000_435_385_84, -2.117_669e-5);
    let (k, r) = exp_reduce(log_erfc);
    let large = x.lit(1.0) - (expm1_small(r) + x.lit(1.0)) * exp2i::<R>(k);
    R::pick(a.lt(x.lit(0.93)), small, large.copysign(x))
}

/// The larger; NaN if either is NaN. Of two zeros the second.
#[inline(always)]
pub(crate) fn max<R: Real>(a: R, b: R) -> R {
    R::pick(a.is_nan(), a, a.above(b))
}
/// The smaller; NaN if either is NaN. Of two zeros the second.
#[inline(always)]
pub(crate) fn min<R: Real>(a: R, b: R) -> R {
    R::pick(a.is_nan(), a, a.below(b))
}
/// -1, 0 or 1; NaN stays NaN.
#[inline(always)]
pub(crate) fn sign<R: Single>(x: R) -> R {
    let (zero, one) = (x.lit(0.0), x.lit(1.0));
    let s = R::pick(zero.lt(x), one, zero) - R::pick(x.lt(zero), one, zero);
    R::pick(x.is_nan(), x, s)
}
