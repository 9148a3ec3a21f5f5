//! Orthogonal polynomials, the degree a number of each element.
use crate::elementwise::{VALUE_ONLY, in_float};
use crate::formula::{Formula, Var, emit};
use rtx_core::Result;
use rtx_ir::record::{self, Promotion};
use rtx_ir::{Batch, Body, Builder, OpDef, Outs, Sample, ValueId};

/// The family.
pub const ALL: &[&OpDef] = &[
    &CHEBYSHEV_T,
    &CHEBYSHEV_U,
    &CHEBYSHEV_V,
    &CHEBYSHEV_W,
    &SHIFTED_T,
    &SHIFTED_U,
    &SHIFTED_V,
    &SHIFTED_W,
    &HERMITE_H,
    &HERMITE_HE,
    &LAGUERRE_L,
    &LEGENDRE_P,
];

const POLYNOMIAL: OpDef = OpDef {
    record: |b, def, a| {
        crate::elementwise::record_met(b, def, &record::first::<2>(a), Promotion::Float, Default::default())
    },
    batch: Batch::FromBody,
    cost: 60,
    ..VALUE_ONLY
};

/// A body of x and the degree, which is cut to a whole number; 0 below 0.
fn of_degree(
    b: &mut Builder<'_>,
    v: &[ValueId],
    f: impl FnOnce(&mut Builder<'_>, Var, Var) -> Result<Var>,
) -> Result<Outs> {
    in_float(b, v, |b, v| {
        let n = emit(b, Var(v[1]).trunc())?;
        let y = f(b, Var(v[0]), n)?;
        Ok(emit(b, n.below(0.0).choose(0.0, y))?.0)
    })
}

/// What the closed forms of Chebyshev's polynomials share.
struct Angle {
    x: Var,
    n: Var,
    /// Is |x| at most 1?
    inside: Var,
    /// cos θ = x, or cosh θ = |x|.
    theta: Var,
    /// (-1)^n below 0, else 1.
    sign: Var,
}
impl Angle {
    fn of(b: &mut Builder<'_>, x: Var, n: Var) -> Result<Self> {
        let a = emit(b, x.abs())?;
        let inside = emit(b, a.at_most(1.0))?;
        let side = emit(b, ((1.0 - x) * (x + 1.0)).sqrt())?;
        let turn = Var(b.atan2(side.0, x.0)?);
        let growth = emit(b, (a + ((a - 1.0) * (a + 1.0)).sqrt()).log())?;
        let odd = parity(b, n)?;
        let sign = emit(b, x.below(0.0).choose(odd, 1.0))?;
        Ok(Self { x, n, inside, theta: emit(b, inside.choose(turn, growth))?, sign })
    }
    fn scaled(&self, b: &mut Builder<'_>, shift: f64) -> Result<Var> {
        let theta = self.theta;
        emit(b, (self.n + shift) * theta)
    }
}
/// (-1)^n.
fn parity(b: &mut Builder<'_>, n: Var) -> Result<Var> {
    emit(b, 1.0 - (n - (n * 0.5).floor() * 2.0) * 2.0)
}
fn cosh(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    emit(b, (x.exp() + (-x).exp()) * 0.5)
}
fn sinh(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    let m = emit(b, x.expm1())?;
    emit(b, (m + m / (m + 1.0)) * 0.5)
}

fn chebyshev_t(b: &mut Builder<'_>, x: Var, n: Var) -> Result<Var> {
    let angle = Angle::of(b, x, n)?;
    let scaled = angle.scaled(b, 0.0)?;
    let outside = cosh(b, scaled)?;
    emit(b, angle.inside.choose(scaled.cos(), angle.sign * outside))
}
fn chebyshev_u(b: &mut Builder<'_>, x: Var, n: Var) -> Result<Var> {
    let angle = Angle::of(b, x, n)?;
    let scaled = angle.scaled(b, 1.0)?;
    let (above, below) = (sinh(b, scaled)?, sinh(b, angle.theta)?);
    let y = emit(b, angle.inside.choose(scaled.sin() / angle.theta.sin(), angle.sign * above / below))?;
    emit(b, x.abs().equals(1.0).choose(angle.sign * (n + 1.0), y))
}
/// cos((n + 1/2) θ) / cos(θ/2).
fn chebyshev_v(b: &mut Builder<'_>, x: Var, n: Var) -> Result<Var> {
    let angle = Angle::of(b, x, n)?;
    let (scaled, half) = (angle.scaled(b, 0.5)?, emit(b, angle.theta * 0.5)?);
    let (up, down) = (cosh(b, scaled)?, cosh(b, half)?);
    let (left, right) = (sinh(b, scaled)?, sinh(b, half)?);
    let outside = emit(b, x.below(0.0).choose(angle.sign * left / right, up / down))?;
    let y = emit(b, angle.inside.choose(scaled.cos() / half.cos(), outside))?;
    emit(b, angle.x.equals(-1.0).choose(angle.sign * (n * 2.0 + 1.0), y))
}
/// V mirrored.
fn chebyshev_w(b: &mut Builder<'_>, x: Var, n: Var) -> Result<Var> {
    let mirrored = emit(b, -x)?;
    let (y, sign) = (chebyshev_v(b, mirrored, n)?, parity(b, n)?);
    emit(b, sign * y)
}

/// Degrees that are unrolled.
const DEGREES: usize = 64;

/// `p_0 = 1`, `p_1`, and `next(k, p_k, p_(k-1))`, up to the degree; NaN above [`DEGREES`].
fn recurrence(b: &mut Builder<'_>, n: Var, first: Var, next: impl Fn(f64, Var, Var) -> Formula) -> Result<Var> {
    let shape = b.shape(first.0);
    let (mut older, mut newer) = (Var(b.full(b.dtype(first.0), &shape, 1.0)?), first);
    let mut y = emit(b, n.below(1.0).choose(1.0, first))?;
    for k in 1..DEGREES {
        let p = emit(b, next(k as f64, newer, older))?;
        (older, newer) = (newer, p);
        y = emit(b, n.below(k as f64 + 1.0).choose(y, p))?;
    }
    emit(b, n.below(DEGREES as f64 + 1.0).choose(y, f64::NAN))
}

macro_rules! polynomials { ($($(#[$doc:meta])* $Name:ident $sig:literal $text:literal [$($sample:literal)*] |$b:ident, $x:ident, $n:ident| $y:expr;)*) => { $(
    $(#[$doc])*
    pub static $Name: OpDef = OpDef {
        sig: concat!($sig, "(Tensor x, Tensor n) -> Tensor"),
        doc: $text,
        body: Body::Composite(|b, _, v| of_degree(b, v, |$b, $x, $n| $y)),
        samples: &[$(Sample::of($sample, 4096)),*],
        ..POLYNOMIAL
    };
)* } }
polynomials! {
    /// Chebyshev polynomial of the first kind.
    CHEBYSHEV_T "special_chebyshev_polynomial_t" "T_n(x) = cos(n arccos x), and its continuation outside; n is cut to a whole number, below 0 the result is 0."
        ["f32[2,3] in -3..3, f32[2,3] in 0..6" "f32[4] = 1 -1 0.5 2, f32[4] = 3 3 -1 0"]
        |b, x, n| chebyshev_t(b, x, n);
    /// Chebyshev polynomial of the second kind.
    CHEBYSHEV_U "special_chebyshev_polynomial_u" "U_n(x) = sin((n + 1) arccos x) / sin(arccos x), and its continuation outside."
        ["f32[2,3] in -3..3, f32[2,3] in 0..6" "f32[4] = 1 -1 0.5 2, f32[4] = 3 3 -1 0"]
        |b, x, n| chebyshev_u(b, x, n);
    /// Chebyshev polynomial of the third kind.
    CHEBYSHEV_V "special_chebyshev_polynomial_v" "V_n(x) = cos((n + 1/2) θ) / cos(θ/2), x = cos θ, and its continuation outside."
        ["f32[2,3] in -3..3, f32[2,3] in 0..6" "f32[4] = 1 -1 0.5 2, f32[4] = 3 3 -1 0"]
        |b, x, n| chebyshev_v(b, x, n);
    /// Chebyshev polynomial of the fourth kind.
    CHEBYSHEV_W "special_chebyshev_polynomial_w" "W_n(x) = (-1)^n V_n(-x) = sin((n + 1/2) θ) / sin(θ/2), x = cos θ."
        ["f32[2,3] in -3..3, f32[2,3] in 0..6" "f32[4] = 1 -1 0.5 2, f32[4] = 3 3 -1 0"]
        |b, x, n| chebyshev_w(b, x, n);
    /// Shifted [`CHEBYSHEV_T`].
    SHIFTED_T "special_shifted_chebyshev_polynomial_t" "T_n(2x - 1)."
        ["f32[2,3] in -1..2, f32[2,3] in 0..6"]
        |b, x, n| { let x = emit(b, x + x - 1.0)?; chebyshev_t(b, x, n) };
    /// Shifted [`CHEBYSHEV_U`].
    SHIFTED_U "special_shifted_chebyshev_polynomial_u" "U_n(2x - 1)."
        ["f32[2,3] in -1..2, f32[2,3] in 0..6"]
        |b, x, n| { let x = emit(b, x + x - 1.0)?; chebyshev_u(b, x, n) };
    /// Shifted [`CHEBYSHEV_V`].
    SHIFTED_V "special_shifted_chebyshev_polynomial_v" "V_n(2x - 1)."
        ["f32[2,3] in -1..2, f32[2,3] in 0..6"]
        |b, x, n| { let x = emit(b, x + x - 1.0)?; chebyshev_v(b, x, n) };
    /// Shifted [`CHEBYSHEV_W`].
    SHIFTED_W "special_shifted_chebyshev_polynomial_w" "W_n(2x - 1)."
        ["f32[2,3] in -1..2, f32[2,3] in 0..6"]
        |b, x, n| { let x = emit(b, x + x - 1.0)?; chebyshev_w(b, x, n) };
    /// Hermite polynomial of the physicists.
    HERMITE_H "special_hermite_polynomial_h" "H_(k+1) = 2x H_k - 2k H_(k-1); NaN above degree 64."
        ["f32[2,3] in -3..3, f32[2,3] in 0..6" "f32[3] = 1 0.5 2, f32[3] = 65 -1 0"]
        |b, x, n| { let x = emit(b, x + x)?; recurrence(b, n, x, |k, p, q| x * p - q * (2.0 * k)) };
    /// Hermite polynomial of the probabilists.
    HERMITE_HE "special_hermite_polynomial_he" "He_(k+1) = x He_k - k He_(k-1); NaN above degree 64."
        ["f32[2,3] in -3..3, f32[2,3] in 0..6" "f32[3] = 1 0.5 2, f32[3] = 65 -1 0"]
        |b, x, n| recurrence(b, n, x, |k, p, q| x * p - q * k);
    /// Laguerre polynomial.
    LAGUERRE_L "special_laguerre_polynomial_l" "L_(k+1) = ((2k + 1 - x) L_k - k L_(k-1)) / (k + 1); NaN above degree 64, where PyTorch goes on."
        ["f32[2,3] in -3..3, f32[2,3] in 0..6" "f32[3] = 1 0.5 2, f32[3] = 65 -1 0"]
        |b, x, n| { let first = emit(b, 1.0 - x)?; recurrence(b, n, first, |k, p, q| ((2.0 * k + 1.0 - x) * p - q * k) / (k + 1.0)) };
    /// Legendre polynomial.
    LEGENDRE_P "special_legendre_polynomial_p" "P_(k+1) = ((2k + 1) x P_k - k P_(k-1)) / (k + 1); NaN above degree 64, where PyTorch goes on."
        ["f32[2,3] in -3..3, f32[2,3] in 0..6" "f32[3] = 1 0.5 2, f32[3] = 65 -1 0"]
        |b, x, n| recurrence(b, n, x, |k, p, q| (x * p * (2.0 * k + 1.0) - q * k) / (k + 1.0));
}
