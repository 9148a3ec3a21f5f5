//! The one definition of each transcendental (contract N7): polynomials over fma, bitcasts and selects.
//!
//! Every back end evaluates exactly these operations, so results are the same bit for bit on every instruction set.
//! No tables, no branches, no calls: loops over them vectorize when compiled for a set with fma (see
//! [`crate::Isa::run`]); elsewhere `mul_add` is libm's exact one: same bits, slower. Each function states its error
//! in units in the last place (ULP) of the exact result, and a test measures it. NaN gives NaN.
//!
//! Coefficients are minimax (Remez), for the relative error of the whole function, rounded to the type.
#![allow(clippy::excessive_precision, clippy::eq_op, reason = "coefficients as they were fitted; x != x is NaN")]

/// Horner's rule over fma, lowest coefficient first.
macro_rules! poly {
    ($x:expr; $c:expr) => { $c };
    ($x:expr; $c:expr, $($rest:expr),+) => { fma(poly!($x; $($rest),+), $x, $c) };
}

mod real;
pub(crate) mod single;
mod special;

pub(crate) use real::{Real, Short, Whole};

pub use special::{digamma_f32, digamma_f64, erfc_f32, erfc_f64, lgamma_f32, lgamma_f64};

#[inline(always)]
fn fma<T: Real>(a: T, b: T, c: T) -> T {
    a.fma(b, c)
}

/// Adding this rounds to an integer (half to even) and leaves it in the low bits.
const ROUND_F32: f32 = 12582912.0;
/// As [`ROUND_F32`].
const ROUND_F64: f64 = 6755399441055744.0;

const LN2_LO_F32: f32 = -1.904_654_3e-9;
const LN2_LO_F64: f64 = 2.319_046_813_846_299_6e-17;
const LN2_F32: f32 = std::f32::consts::LN_2;
const LN2_F64: f64 = std::f64::consts::LN_2;

/// `2^k` for `-1022 <= k <= 1023`.
#[inline(always)]
fn exp2i_f64(k: i64) -> f64 {
    f64::from_bits((k.wrapping_add(1023) as u64) << 52)
}

/// `(k, r)` with `x = k ln 2 + r`.
#[inline(always)]
fn exp_reduce_f64(x: f64) -> (i64, f64) {
    let m = x.mul_add(std::f64::consts::LOG2_E, ROUND_F64);
    let n = m - ROUND_F64;
    let r = n.mul_add(-LN2_LO_F64, n.mul_add(-LN2_F64, x));
    ((m.to_bits() as i64).wrapping_sub(ROUND_F64.to_bits() as i64), r)
}

/// `e^r - 1` for `|r| <= ln 2 / 2`.
#[inline(always)]
fn expm1_small_f64(r: f64) -> f64 {
    let q = poly!(r; 0.5, 0.16666666666666677, 0.041666666666666519, 0.0083333333333215215, 0.0013888888888959258,
        0.00019841269886451118, 2.480158717765823e-05, 2.755724383314988e-06, 2.7557398509419597e-07,
        2.5109184359835874e-08, 2.0876618547365056e-09);
    q.mul_add(r * r, r)
}

/// `e^x`. At most 1.1 ULP.
#[inline(always)]
pub fn exp_f32(x: f32) -> f32 {
    single::exp(x)
}
/// `e^x`. At most 1.1 ULP.
#[inline(always)]
pub fn exp_f64(x: f64) -> f64 {
    exp_sum_f64(x, 0.0)
}
/// `e^(x + tail)` for a tail below the last place of `x`.
#[inline(always)]
fn exp_sum_f64(x: f64, tail: f64) -> f64 {
    let (k, r) = exp_reduce_f64(x.clamp(-746.0, 710.0));
    let y = expm1_small_f64(r + tail) + 1.0;
    y * exp2i_f64(k >> 1) * exp2i_f64(k - (k >> 1))
}

/// `e^x - 1`. At most 1.5 ULP.
#[inline(always)]
pub fn expm1_f32(x: f32) -> f32 {
    single::expm1(x)
}
/// `e^x - 1`. At most 1.5 ULP.
#[inline(always)]
pub fn expm1_f64(x: f64) -> f64 {
    let (k, r) = exp_reduce_f64(x.clamp(-60.0, 710.0));
    let p = expm1_small_f64(r);
    let half = exp2i_f64(k - 1);
    let y = 2.0 * p.mul_add(half, half - 0.5);
    let y = if k == 0 { p } else { y };
    if x == 0.0 { x } else { y }
}

/// `(k, f)` with `x = 2^k (1 + f)` and `1 + f` around 1, for `0 < x < inf`.
#[inline(always)]
fn log_reduce_f64(x: f64) -> (i64, f64) {
    const SQRT_HALF: i64 = 0x3fe6_a09e_667f_3bcd;
    let tiny = x < f64::MIN_POSITIVE;
    let bits = (if tiny { x * 4503599627370496.0 } else { x }).to_bits() as i64;
    let k = bits.wrapping_sub(SQRT_HALF) >> 52;
    let m = f64::from_bits(bits.wrapping_sub(k << 52) as u64);
    (k - if tiny { 52 } else { 0 }, m - 1.0)
}

/// `k ln 2 + log(1 + f)` for `1 + f` between the roots of 1/2 and 2.
#[inline(always)]
fn log_sum_f64(k: f64, f: f64) -> f64 {
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * poly!(z; 0.66666666666667362, 0.39999999999402963, 0.285714287453743, 0.22222198232309948,
        0.18183583669298581, 0.15313517332310622, 0.14801640693765714);
    let h = 0.5 * f * f;
    k.mul_add(LN2_F64, f - (h - s.mul_add(h + r, k * LN2_LO_F64)))
}

/// Puts the values of a logarithm outside `0 < u < inf` right.
macro_rules! log_edges {
    ($u:expr, $y:expr, $T:ident) => {{
        let y = if $u == <$T>::INFINITY { <$T>::INFINITY } else { $y };
        let y = if $u == 0.0 { <$T>::NEG_INFINITY } else { y };
        if $u >= 0.0 { y } else { <$T>::NAN }
    }};
}

/// Natural logarithm. At most 1 ULP.
#[inline(always)]
pub fn log_f32(x: f32) -> f32 {
    single::log(x)
}
/// Natural logarithm. At most 1 ULP.
#[inline(always)]
pub fn log_f64(x: f64) -> f64 {
    let (k, f) = log_reduce_f64(x);
    log_edges!(x, log_sum_f64(small_i64_to_f64(k), f), f64)
}

/// `k as f64` for `|k| < 2^51`, without the conversion that only AVX-512 has.
#[inline(always)]
fn small_i64_to_f64(k: i64) -> f64 {
    f64::from_bits((ROUND_F64.to_bits() as i64).wrapping_add(k) as u64) - ROUND_F64
}

/// `log(1 + x)`. At most 1.5 ULP.
#[inline(always)]
pub fn log1p_f32(x: f32) -> f32 {
    single::log1p(x)
}
/// `log(1 + x)`. At most 1.5 ULP.
#[inline(always)]
pub fn log1p_f64(x: f64) -> f64 {
    let u = 1.0 + x;
    let (k, f) = log_reduce_f64(u);
    let lost = if x >= 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) };
    let f = if k == 0 { x } else { lost.mul_add(exp2i_f64(if k < 1000 { -k } else { -1000 }), f) };
    let y = log_edges!(u, log_sum_f64(small_i64_to_f64(k), f), f64);
    if x == 0.0 { x } else { y }
}

const FRAC_PI_2_LO: f64 = 6.123_233_995_736_766e-17;
const FRAC_PI_2_LOLO: f64 = -1.497_384_904_859_169_7e-33;

/// `(q, r)` with `x = q π/2 + r`, `|r| <= π/4`, for `|x| <= 2^30`.
#[inline(always)]
fn trig_reduce(x: f64) -> (i64, f64) {
    let m = x.mul_add(std::f64::consts::FRAC_2_PI, ROUND_F64);
    let n = m - ROUND_F64;
    let r = (-n).mul_add(std::f64::consts::FRAC_PI_2, x); // exact
    let r = (-n).mul_add(FRAC_PI_2_LOLO, (-n).mul_add(FRAC_PI_2_LO, r));
    (m.to_bits() as i64, r)
}
/// `sin(q π/2 + r)`.
#[inline(always)]
fn sin_quadrant_f64(q: u64, r: f64) -> f64 {
    let z = r * r;
    let s = poly!(z; -0.16666666666666632, 0.0083333333333222293, -0.0001984126982964335, 2.7557313631618727e-06,
        -2.5050748328913011e-08, 1.5896212563700129e-10);
    let s = s.mul_add(r * z, r);
    let c = poly!(z; 0.041666666666666595, -0.0013888888888873858, 2.4801587289312666e-05, -2.7557314301675404e-07,
        2.0875716130010427e-09, -1.135926435024345e-11);
    // 1 - z/2 with what its rounding lost.
    let h = 0.5 * z;
    let w = 1.0 - h;
    let c = w + c.mul_add(z * z, (1.0 - w) - h);
    let y = if q & 1 == 0 { s } else { c };
    f64::from_bits(y.to_bits() ^ ((q & 2) << 62))
}

/// Sine of radians. At most 1.7 ULP for `|x| <= 2^30`; of no use beyond.
#[inline(always)]
pub fn sin_f32(x: f32) -> f32 {
    single::sin(x)
}
/// Cosine of radians. At most 1.7 ULP for `|x| <= 2^30`; of no use beyond.
#[inline(always)]
pub fn cos_f32(x: f32) -> f32 {
    single::cos(x)
}
/// Sine of radians. At most 1.5 ULP for `|x| <= 2^30`; of no use beyond.
#[inline(always)]
pub fn sin_f64(x: f64) -> f64 {
    let (q, r) = trig_reduce(x);
    let y = sin_quadrant_f64(q as u64, r);
    if x == 0.0 { x } else { y }
}
/// Cosine of radians. At most 1.5 ULP for `|x| <= 2^30`; of no use beyond.
#[inline(always)]
pub fn cos_f64(x: f64) -> f64 {
    let (q, r) = trig_reduce(x);
    sin_quadrant_f64((q as u64).wrapping_add(1), r)
}

/// Hyperbolic tangent, as `-m / (2 + m)` with `m = e^(-2|x|) - 1`. At most 2.5 ULP.
#[inline(always)]
pub fn tanh_f32(x: f32) -> f32 {
    single::tanh(x)
}
/// Hyperbolic tangent, as `-m / (2 + m)` with `m = e^(-2|x|) - 1`. At most 2 ULP.
#[inline(always)]
pub fn tanh_f64(x: f64) -> f64 {
    let a = x.abs();
    let (k, r) = exp_reduce_f64(-2.0 * if a > 20.0 { 20.0 } else { a });
    let scale = exp2i_f64(k);
    let m = expm1_small_f64(r).mul_add(scale, scale - 1.0);
    (-m / (2.0 + m)).copysign(x)
}

/// Error function. At most 1.5 ULP.
#[inline(always)]
pub fn erf_f32(x: f32) -> f32 {
    single::erf(x)
}
/// Error function. At most 1.5 ULP.
#[inline(always)]
pub fn erf_f64(x: f64) -> f64 {
    let a = x.abs();
    let small = erf_small_f64(x);
    // 1 - e^(-t²) erfcx(t), the latter a polynomial of (t - 2) / (t + 2); erfc(6) is below half a place of 1.
    let t = if a > 6.0 { 6.0 } else { a };
    let v = (t - 2.0) / (t + 2.0);
    let erfcx = poly!(v; 0.25539567631050575, -0.42718584741395832, 0.24165819424245708, -0.078978581015876306,
        0.0037328924054167599, 0.0069974617649696796, -0.00084714320886791674, -0.00098197824547596431,
        4.3549410750369636e-05, 0.00017437224504831701, 2.7672547406757603e-05, -2.7327925840840223e-05,
        -1.4671432800911511e-05, -1.6940075695623164e-06);
    let (k, r) = exp_reduce_f64(-t * t);
    let large = 1.0 - (expm1_small_f64(r) + 1.0) * exp2i_f64(k) * erfcx;
    if a < 1.0 { small } else { large.copysign(x) }
}

/// [`erf_f64`] for `|x| <= 1`.
#[inline(always)]
fn erf_small_f64(x: f64) -> f64 {
    let z = x * x;
    let small = poly!(z; 0.12837916709551256, -0.37612638903183521, 0.11283791670944147, -0.026866170643107704,
        0.0052239776061003464, -0.00085483259288968985, 0.00012055293574743744, -1.4924712416289527e-05,
        1.6447134515944864e-06, -1.6206345827807801e-07, 1.37111528205131e-08, -7.7798423165418923e-10);
    small.mul_add(x, x)
}

/// IEEE's special cases of `x^y`, given `|x|^y` right for finite `|x|`, `y` other than those below.
macro_rules! pow_edges {
    ($x:expr, $y:expr, $p:expr, $T:ident) => {{
        let whole = $y.trunc() == $y;
        let half = 0.5 * $y;
        let odd = whole & (half.trunc() != half);
        let p = if odd { $p.copysign($x) } else { $p };
        let p = if ($x < 0.0) & ($x > <$T>::NEG_INFINITY) & !whole { <$T>::NAN } else { p };
        let p = if ($x != $x) | ($y != $y) { <$T>::NAN } else { p };
        if ($y == 0.0) | ($x == 1.0) { 1.0 } else { p }
    }};
}
/// `x^y` with IEEE's special cases. At most 0.6 ULP.
#[inline(always)]
pub fn pow_f32(x: f32, y: f32) -> f32 {
    let l = log_f64(x.abs() as f64);
    let t = if l == 0.0 { 0.0 } else { y as f64 * l };
    pow_edges!(x, y, exp_f64(t) as f32, f32)
}
/// `x^y` with IEEE's special cases. At most 2 ULP.
#[inline(always)]
pub fn pow_f64(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let (h, l) = log_pair_f64(a);
    let h = log_edges!(a, h, f64);
    let t = if h == 0.0 { 0.0 } else { y * h };
    // The rounding error of y·h, and y·l; nothing where the product is not an ordinary number.
    let tail = y.mul_add(h, -t) + y * l;
    let tail = if tail.abs() < 1.0 { tail } else { 0.0 };
    pow_edges!(x, y, exp_sum_f64(t, tail), f64)
}
/// `log x` as a sum of two, good to about 2^-65, for `0 < x < inf`.
#[inline(always)]
fn log_pair_f64(x: f64) -> (f64, f64) {
    let (k, f) = log_reduce_f64(x);
    let k = small_i64_to_f64(k);
    // s = f / (2 + f) as a pair.
    let d = 2.0 + f;
    let d_lo = f - (d - 2.0);
    let s = f / d;
    let s_lo = ((-s).mul_add(d, f) - s * d_lo) / d;
    // z = s² as a pair; log(1 + f) = 2s + (2/3) s³ + s⁵ R(z).
    let z = s * s;
    let z_lo = s.mul_add(s, -z) + 2.0 * s * s_lo;
    let r = poly!(z; 0.400000000000023, 0.28571428570072965, 0.22222222525270946, 0.18181783858492431,
        0.15386782256890838, 0.13256208830625515, 0.13202201692680801);
    // w = 2/3 + z R(z) as a pair, times s z.
    const TWO_THIRDS_LO: f64 = 3.700_743_415_417_188_4e-17;
    let w = z.mul_add(r, 2.0 / 3.0);
    let w_lo = z.mul_add(r, 2.0 / 3.0 - w) + TWO_THIRDS_LO;
    let c = s * z;
    let c_lo = s.mul_add(z, -c) + (s * z_lo + s_lo * z);
    let cubic = c * w;
    let cubic_lo = c.mul_add(w, -cubic) + (c * w_lo + c_lo * w);
    // k ln 2 + 2s + cubic, largest first.
    let base = k * LN2_F64;
    let base_lo = k.mul_add(LN2_F64, -base) + k * LN2_LO_F64;
    let (t, t_lo) = two_sum(base, 2.0 * s);
    let (h, h_lo) = two_sum(t, cubic);
    let lo = h_lo + t_lo + (base_lo + 2.0 * s_lo + cubic_lo);
    let hi = h + lo;
    (hi, lo - (hi - h))
}
/// `a + b` and the rounding error of that sum.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let t = s - a;
    (s, (a - (s - t)) + (b - t))
}

/// Angle of the point (x, y), in `-π..=π`. At most 0.6 ULP.
#[inline(always)]
pub fn atan2_f32(y: f32, x: f32) -> f32 {
    atan2_f64(y as f64, x as f64) as f32
}
/// Angle of the point (x, y), in `-π..=π`. At most 2.5 ULP.
#[inline(always)]
pub fn atan2_f64(y: f64, x: f64) -> f64 {
    let (ax, ay) = (x.abs(), y.abs());
    let steep = ay > ax;
    let (lo, hi) = if steep { (ax, ay) } else { (ay, ax) };
    // Two infinities meet at 45 degrees; huge numbers are scaled so that their sum stays finite.
    let (lo, hi) = if hi == f64::INFINITY { (if lo == hi { 1.0 } else { 0.0 }, 1.0) } else { (lo, hi) };
    let scale = if hi > 1e300 { 0.0625 } else { 1.0 };
    let (lo, hi) = (lo * scale, hi * scale);
    // atan(lo/hi) directly below tan(π/8), else π/4 + atan((lo - hi) / (lo + hi)).
    let wide = lo > hi * 0.41421356237309503;
    let t = if wide { (lo - hi) / (lo + hi) } else { lo / hi };
    let t = if hi == 0.0 { 0.0 } else { t };
    let z = t * t;
    let p = poly!(z; -0.33333333333333198, 0.19999999999953399, -0.14285714280174286, 0.11111110782179426,
        -0.090908977164153221, 0.076920594046269261, -0.066630940175819872, 0.058478105437334525,
        -0.050389247390880389, 0.038054294089796784, -0.017895321758866975);
    let a = p.mul_add(t * z, t);
    let a = if wide { std::f64::consts::FRAC_PI_4 + (a + 0.5 * FRAC_PI_2_LO) } else { a };
    let a = if steep { std::f64::consts::FRAC_PI_2 - (a - FRAC_PI_2_LO) } else { a };
    let a = if x.is_sign_negative() { std::f64::consts::PI - (a - 2.0 * FRAC_PI_2_LO) } else { a };
    if (x != x) | (y != y) { f64::NAN } else { a.copysign(y) }
}

/// What is not transcendental but has to be the same everywhere too.
macro_rules! plain {
    ($T:ident, $max:ident, $min:ident, $rem:ident) => {
        /// The larger; NaN if either is NaN. Of two zeros the second.
        #[inline(always)]
        pub fn $max(a: $T, b: $T) -> $T {
            single::max(a, b)
        }
        /// The smaller; NaN if either is NaN. Of two zeros the second.
        #[inline(always)]
        pub fn $min(a: $T, b: $T) -> $T {
            single::min(a, b)
        }
        /// What is left of `a` after whole steps of `b`, with the sign of `b`. Exact but for the last addition.
        #[inline(always)]
        pub fn $rem(a: $T, b: $T) -> $T {
            let r = a % b;
            if (r != 0.0) & ((r < 0.0) != (b < 0.0)) { r + b } else { r }
        }
    };
}
plain!(f32, max_f32, min_f32, rem_f32);
plain!(f64, max_f64, min_f64, rem_f64);

/// -1, 0 or 1; NaN stays NaN.
#[inline(always)]
pub fn sign_f32(x: f32) -> f32 {
    single::sign(x)
}
/// -1, 0 or 1; NaN stays NaN.
#[inline(always)]
pub fn sign_f64(x: f64) -> f64 {
    let s = if x > 0.0 { 1.0 } else { 0.0 } - if x < 0.0 { 1.0 } else { 0.0 };
    if x != x { x } else { s }
}
