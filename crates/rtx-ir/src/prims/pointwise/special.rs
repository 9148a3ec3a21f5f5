//! The gamma function's logarithm and its derivatives, and the error function's complement.
use super::*;

fn grad_erfc(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
        let square = b.mul(x, x)?;
        let down = b.neg(square)?;
        let bell = b.exp(down)?;
        let slope = b.mul(bell, -std::f64::consts::FRAC_2_SQRT_PI)?;
        b.mul(g, slope)
    })
}

pub(in crate::prims) static ERFC: OpDef = OpDef {
    sig: "erfc(Tensor self) -> Tensor",
    doc: "`1 - erf(x)` without cancellation.",
    record: |b, def, a| float_unary(b, def, a, Function::Erfc),
    grad: Grad::Rule(grad_erfc),
    saves: Saves::Inputs,
    cost: 40,
    samples: &[
        Sample::grad("f32[2,3] in -3..3", 3),
        Sample::grad("f64[5] in -3..3", 8),
        Sample::of("f32[9] = 0 -0 inf -inf nan 1e-6 6 9 10.5", 3),
        Sample::of("bf16[4] in -2..4", 1),
        Sample::of("i64[3] = 0 1 2", 3),
        Sample::of("bool[2]", 3),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(in crate::prims) static LGAMMA: OpDef = OpDef {
    sig: "lgamma(Tensor self) -> Tensor",
    doc: "`log |Γ(x)|`; infinite at 0 and below at every integer.",
    record: |b, def, a| float_unary(b, def, a, Function::Lgamma),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
            let slope = b.digamma(x)?;
            b.mul(g, slope)
        })
    }),
    saves: Saves::Inputs,
    cost: 120,
    samples: &[
        Sample::grad("f32[2,3] in 0.3..9", 3),
        Sample::grad("f64[5] in 0.3..9", 64),
        Sample::grad("f64[4] = -0.4 -1.6 -3.3 12", 64),
        Sample::of("f32[11] = 0 -0 -1 -7 inf -inf nan 1 2 1e30 -2.5", 3),
        Sample::of("bf16[4] in 0.5..20", 1),
        Sample::of("i64[3] = 1 2 5", 3),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(in crate::prims) static DIGAMMA: OpDef = OpDef {
    sig: "digamma(Tensor self) -> Tensor",
    doc: "The derivative of `log |Γ(x)|`; of 0 an infinity of the other sign, NaN at negative integers.",
    record: |b, def, a| float_unary(b, def, a, Function::Digamma),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
            let slope = polygamma(b, 1, x)?;
            b.mul(g, slope)
        })
    }),
    saves: Saves::Inputs,
    cost: 120,
    samples: &[
        Sample::grad("f32[2,3] in 0.3..9", 3),
        Sample::grad("f64[5] in 0.3..9", 64),
        Sample::grad("f64[4] = -0.4 -1.6 -3.3 12", 64),
        Sample::of("f32[8] = 0 -0 -1 -7 inf nan 1e30 -2.5", 3),
        Sample::of("bf16[4] in 2..20", 1),
        Sample::of("i64[3] = 1 2 5", 3),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

/// Terms of the sum before the series begins.
const SHIFT: usize = 10;
/// `B_2j / (2j)!` for j from 1.
const BERNOULLI: [f64; 7] = [
    1.0 / 12.0,
    -1.0 / 720.0,
    1.0 / 30_240.0,
    -1.0 / 1_209_600.0,
    1.0 / 47_900_160.0,
    -691.0 / 1_307_674_368_000.0,
    1.0 / 74_724_249_600.0,
];

/// The `n`th derivative of the digamma function, `n >= 1`, as other primitives: `(-1)^(n+1) n! ζ(n + 1, x)` with
/// Hurwitz's zeta function by the formula of Euler and Maclaurin, below 0 by reflection (Abramowitz and Stegun 6.4.7,
/// 6.4.10).
///
/// # Errors
/// Where `x` is no float.
pub fn polygamma(b: &mut Builder<'_>, n: u32, x: ValueId) -> Result<ValueId> {
    let below = b.lt(x, 0.0)?;
    let other = b.sub(1.0, x)?;
    let y = b.select(below, other, x)?;
    let zeta = hurwitz_zeta(b, n, y)?;
    let factorial: f64 = (1..=n).map(f64::from).product();
    let above = b.mul(zeta, if n % 2 == 1 { factorial } else { -factorial })?;
    // ψⁿ(x) = (-1)ⁿ ψⁿ(1 - x) - π dⁿ/dxⁿ cot πx.
    let reflected = cotangent_derivative(b, n, x, below)?;
    let turned = if n.is_multiple_of(2) { above } else { b.neg(above)? };
    let low = b.sub(turned, reflected)?;
    b.select(below, low, above)
}

/// `ζ(n + 1, y)` for `y >= 0`.
fn hurwitz_zeta(b: &mut Builder<'_>, n: u32, y: ValueId) -> Result<ValueId> {
    let mut sum: Option<ValueId> = None;
    for k in 0..SHIFT {
        let at = if k == 0 { y } else { b.add(y, k as f64)? };
        let inverse = b.div(1.0, at)?;
        let term = power(b, inverse, n + 1)?;
        sum = Some(sum.map_or(Ok(term), |s| b.add(s, term))?);
    }
    let end = b.add(y, SHIFT as f64)?;
    let r = b.div(1.0, end)?;
    let square = b.mul(r, r)?;
    // Σ B_2j / (2j)! · (n+1)(n+2)…(n+2j-1) r^2j, by Horner's rule.
    let rising = |j: usize| (1..2 * j).map(|i| f64::from(n) + i as f64).product::<f64>();
    let mut series: Option<ValueId> = None;
    for j in (1..=BERNOULLI.len()).rev() {
        let c = BERNOULLI[j - 1] * rising(j);
        let inner = match series {
            Some(s) => b.add(s, c)?,
            None => b.full(b.dtype(y), &b.shape(y), c)?,
        };
        series = Some(b.mul(inner, square)?);
    }
    let half = b.mul(r, 0.5)?;
    let mut tail = b.add(half, 1.0 / f64::from(n))?;
    if let Some(s) = series {
        tail = b.add(tail, s)?;
    }
    let scale = power(b, r, n)?;
    let tail = b.mul(tail, scale)?;
    sum.map_or(Ok(tail), |s| b.add(s, tail))
}

fn power(b: &mut Builder<'_>, x: ValueId, n: u32) -> Result<ValueId> {
    (1..n).try_fold(x, |y, _| b.mul(y, x))
}

/// `π dⁿ/dxⁿ cot πx` where `wanted`; something finite elsewhere, so that no derivative is spoiled.
fn cotangent_derivative(b: &mut Builder<'_>, n: u32, x: ValueId, wanted: ValueId) -> Result<ValueId> {
    use std::f64::consts::PI;
    let nearest = b.round_even(x)?;
    let rest = b.sub(x, nearest)?;
    let rest = b.select(wanted, rest, 0.25)?;
    let angle = b.mul(rest, PI)?;
    let (sine, cosine) = (b.sin(angle)?, b.cos(angle)?);
    let c = b.div(cosine, sine)?;
    // With c = cot u: dc/du = -(1 + c²), so each derivative is a polynomial in c.
    let mut p = vec![0.0, 1.0];
    for _ in 0..n {
        let mut next = vec![0.0; p.len() + 1];
        for (k, a) in p.iter().enumerate().skip(1) {
            next[k - 1] -= k as f64 * a;
            next[k + 1] -= k as f64 * a;
        }
        p = next;
    }
    let scale = PI.powi(n as i32 + 1);
    let mut y: Option<ValueId> = None;
    for a in p.into_iter().rev() {
        let a = a * scale;
        y = Some(match y {
            Some(y) => {
                let y = b.mul(y, c)?;
                b.add(y, a)?
            }
            None => b.full(b.dtype(c), &b.shape(c), a)?,
        });
    }
    y.ok_or_else(|| rules::refuse("polygamma", Kind::Internal, "an empty polynomial"))
}
