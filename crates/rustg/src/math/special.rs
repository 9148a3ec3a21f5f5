//! The error function's complement and the gamma function's logarithm and derivative.
//!
//! Single precision is the rounded double one: these are rare, and one rounding keeps their zeros. Coefficients are
//! Chebyshev interpolations, made with 60 digits, of what the line above each says.
use super::{cos_f64, erf_small_f64, exp_sum_f64, fma, log_f64, sin_f64};

/// `1 - erf(x)`. At most 1 ULP.
#[inline(always)]
pub fn erfc_f32(x: f32) -> f32 {
    erfc_f64(x as f64) as f32
}
/// `1 - erf(x)`. At most 4 ULP.
#[inline(always)]
pub fn erfc_f64(x: f64) -> f64 {
    let small = 1.0 - erf_small_f64(x);
    // Beyond 28 nothing is left.
    let a = if x.abs() > 28.0 { 28.0 } else { x.abs() };
    // (1 + 2a) e^(a²) erfc a, of v = (a - 4) / (a + 4) from -0.8 to 0.75.
    let v = (a - 4.0) / (a + 4.0);
    let scaled = poly!(v; 1.2329951186255526, -0.13962111684056247, 0.015379652102619715, 0.06809705425468811,
        -0.10103906603630125, 0.09373283499854572, -0.0663303658123262, 0.03716751553362761,
        -0.01619773405603698, 0.005031970019855797, -0.0007577733044361342, -0.0001992569711541667,
        0.00015062176339014575, -2.439804371983309e-5, -1.1222342808082265e-5, 5.706478882058901e-6,
        2.945352319527839e-7, -8.195074824608123e-7, 7.359250618870618e-8, 1.0327217607915146e-7,
        -1.7085755482994144e-8, -9.662784059797579e-9, 1.5563401531371313e-9);
    // e^(-a²) with what rounding takes from the square put back.
    let square = a * a;
    let tail = exp_sum_f64(-square, -a.mul_add(a, -square)) * (scaled / a.mul_add(2.0, 1.0));
    let large = if x < 0.0 { 2.0 - tail } else { tail };
    let y = if x.abs() < 0.5 { small } else { large };
    if x != x { x } else { y }
}

/// `log |Γ(x)|`; infinite at 0, -1, -2, …. At most 1 ULP above 0; below, of the largest of what is summed.
#[inline(always)]
pub fn lgamma_f32(x: f32) -> f32 {
    lgamma_f64(x as f64) as f32
}
/// `log |Γ(x)|`; infinite at 0, -1, -2, …. At most 5 ULP above 0; below, of the largest of what is summed.
#[inline(always)]
pub fn lgamma_f64(x: f64) -> f64 {
    let a = x.abs();
    let above = lgamma_positive_f64(a);
    // Γ(a) Γ(-a) = -π / (a sin πa); π of an argument less its nearest integer.
    let r = a - a.round_ties_even();
    let sine = sin_f64(std::f64::consts::PI * r).abs();
    let below = -log_f64(a * sine * std::f64::consts::FRAC_1_PI) - above;
    let below = if a < 1e-18 { above } else { below };
    let y = if x < 0.0 { below } else { above };
    if a == f64::INFINITY { a } else { y }
}
/// For `x >= 0`.
#[inline(always)]
fn lgamma_positive_f64(x: f64) -> f64 {
    let low = x < 8.0;
    let y = if low { x } else { 1.5 };
    let n = y.floor();
    // Γ(x) is Γ(1 + a) times what lies between, or divided by x where nothing does; both factors exact.
    let a = y - n;
    let b = a - 1.0;
    let mut between = 1.0;
    for k in 1..7 {
        let factor = y - k as f64;
        between *= if factor >= 1.0 { factor } else { 1.0 };
    }
    let of = if !low | (n == 0.0) { x } else { between };
    let log = log_f64(of);
    // log Γ(1 + a) / (a (a - 1)), of a - 1/2.
    let u = a - 0.5;
    let unit = poly!(u; 0.4831289505409809, -0.14595989591430608, 0.06291140107456439, -0.031308487501010646,
        0.01679709863127416, -0.009425622448525798, 0.005446457839126065, -0.0032120740737152814,
        0.0019229163127905161, -0.0011644145847310124, 0.000711519067515296, -0.00043799307479613914,
        0.00027131373861446925, -0.0001689178215524898, 0.00010535512483785591, -6.614136022346414e-5,
        4.30276814976503e-5, -2.7201673025504752e-5, 1.3186019073996835e-5, -8.355075869795273e-6,
        1.2140008083973407e-5, -7.760660152513446e-6);
    let unit = a * b * unit;
    let near = unit + if n == 0.0 { -log } else { log };
    // Stirling's series, of 1 / x² up to 1/64.
    let r = 1.0 / x;
    let z = r * r;
    let rest = poly!(z; 0.08333333333333333, -0.002777777777773988, 0.0007936507897524059, -0.0005952365845057049,
        0.0008414700852503147, -0.001890382993887715, 0.005065905360156132);
    // log(2π) / 2 - 1/2
    let far = (x - 0.5).mul_add(log - 1.0, rest.mul_add(r, 0.418_938_533_204_672_74));
    if low { near } else { far }
}

/// The derivative of `log |Γ(x)|`; NaN at -1, -2, …. At most 2 ULP of the largest of what is summed and 1.
#[inline(always)]
pub fn digamma_f32(x: f32) -> f32 {
    digamma_f64(x as f64) as f32
}
/// The derivative of `log |Γ(x)|`; NaN at -1, -2, …. At most 8 ULP of the largest of what is summed and 1.
#[inline(always)]
pub fn digamma_f64(x: f64) -> f64 {
    let negative = x < 0.0;
    let mut y = if negative { 1.0 - x } else { x };
    // ψ(y) = ψ(y + 1) - 1/y.
    let mut sum = 0.0;
    for _ in 0..8 {
        let low = y < 8.0;
        sum += if low { 1.0 / y } else { 0.0 };
        y += if low { 1.0 } else { 0.0 };
    }
    // (log y - 1/(2y) - ψ(y)) y², of 1 / y² up to 1/64.
    let r = 1.0 / y;
    let z = r * r;
    let rest = poly!(z; 0.08333333333333333, -0.008333333333331664, 0.003968253965999701, -0.004166665501516725,
        0.007575459920369176, -0.02105106090804774, 0.08002337465397756, -0.299425370626735);
    let above = log_f64(y) - r.mul_add(0.5, z * rest) - sum;
    // ψ(x) = ψ(1 - x) - π / tan πx.
    let r = std::f64::consts::PI * (x - x.round_ties_even());
    let (sine, cosine) = (sin_f64(r), cos_f64(r));
    let below = above - std::f64::consts::PI * (cosine / sine);
    let below = if sine == 0.0 { f64::NAN } else { below };
    let y = if negative { below } else { above };
    if x == 0.0 { f64::NEG_INFINITY.copysign(-x) } else { y }
}
