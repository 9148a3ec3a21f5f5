//! Derivatives and relatives of the gamma function: polygamma, its multivariate form, the incomplete integrals, zeta.
use crate::args::Args;
use crate::elementwise::{FUNCTION, PAIR};
use crate::formula::{Formula, Var, emit};
use crate::precision::widen;
use rtx_core::{Function, Kind, Result};
use rtx_ir::{Attr, Body, Builder, Grad, Grads, OpDef, Outs, Refusal, Sample, ValueId, record, rules};
use smallvec::smallvec;
use std::f64::consts::PI;

/// The family.
pub const ALL: &[&OpDef] = &[&POLYGAMMA, &MVLGAMMA, &ZETA, &IGAMMA, &IGAMMAC];

/// Derivatives of digamma. Attribute: n.
pub static POLYGAMMA: OpDef = OpDef {
    sig: "polygamma(int n, Tensor self) -> Tensor",
    doc: "The nth derivative of digamma: (-1)^(n+1) n! ζ(n + 1, x), by reflection below 0 (Abramowitz and Stegun 6.4).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let n = args.int(0)?;
        if !(0..=20).contains(&n) {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("n is from 0 to 20, got {n}")));
        }
        let met = record::meet(b, def, &[args.get(1).clone()], record::Promotion::Float)?;
        b.composite(def, smallvec![Attr::Int(n)], &met.values)
    },
    body: Body::Composite(|b, attrs, v| {
        let n = attrs[0].int() as u32;
        crate::elementwise::in_float(
            b,
            v,
            |b, v| {
                if n == 0 { b.digamma(v[0]) } else { rtx_ir::prims::polygamma(b, n, v[0]) }
            },
        )
    }),
    grad: Grad::Rule(|b, cx| {
        let next: rtx_ir::Attrs = smallvec![Attr::Int(cx.op.attrs()[0].int() + 1)];
        cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
            let s = b.composite(&POLYGAMMA, next.clone(), &[x])?[0];
            b.mul(g, s)
        })
    }),
    cost: 200,
    samples: &[
        Sample::grad("0, f32[2,3] in 0.5..5", 64),
        Sample::grad("1, f32[2,3] in 0.5..5", 64),
        Sample::grad("3, f32[4] = 0.5 2 -1.6 -3.3", 256),
        Sample::of("2, i64[3] = 1 2 5", 64),
    ],
    refuses: &[Refusal::of("-1, f32[2]", "polygamma: n is from 0 to 20, got -1")],
    ..FUNCTION
};

/// Multivariate logarithm of the gamma function.
pub static MVLGAMMA: OpDef = OpDef {
    sig: "mvlgamma(Tensor self, int p) -> Tensor",
    doc: "Σ_j lgamma(x - j/2) for j from 0 to p - 1, and p (p - 1) / 4 · log π. For x > (p - 1) / 2.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let p = args.int(1)?;
        if p < 1 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("p is at least 1, got {p}")));
        }
        let met = record::meet(b, def, &[args.get(0).clone()], record::Promotion::Float)?;
        b.composite(def, smallvec![Attr::Int(p)], &met.values)
    },
    body: Body::Composite(|b, attrs, v| {
        let p = attrs[0].int();
        super::body(b, v, |b, x| {
            let mut sum: Formula = ((p * (p - 1)) as f64 / 4.0 * PI.ln()).into();
            for j in 0..p {
                let at = emit(b, x - j as f64 * 0.5)?;
                let term = Var(b.lgamma(at.0)?);
                sum = emit(b, sum + term)?.into();
            }
            emit(b, sum)
        })
    }),
    samples: &[Sample::grad("f32[2,3] in 1.6..5, 3", 64), Sample::of("f32[2,3] in 0.5..5, 1", 64)],
    refuses: &[Refusal::of("f32[2], 0", "mvlgamma: p is at least 1, got 0")],
    ..FUNCTION
};

/// `(2k)! / B_2k` of Euler's and Maclaurin's formula.
const MACLAURIN: [f64; 9] = [
    12.0,
    -720.0,
    30_240.0,
    -1_209_600.0,
    47_900_160.0,
    -1.892_437_580_318_379_3e9,
    7.472_424_96e10,
    -2.950_130_727_918_164e12,
    1.164_678_281_435_006_7e14,
];
/// Terms summed before the formula begins: enough for every q above -10.
const ZETA_TERMS: usize = 20;

/// Hurwitz's zeta function.
pub static ZETA: OpDef = OpDef {
    sig: "special_zeta(Tensor self, Tensor other) -> Tensor",
    doc: "ζ(x, q) = Σ (q + k)^-x over k from 0, by the formula of Euler and Maclaurin after 20 terms: infinite at x = 1 and \
          where q is 0, -1, …; NaN for x < 1 and for a q below 0 with an x that is no integer. PyTorch sums until q + k is \
          above 9; here a q below -10 is NaN. Differentiable in q, as PyTorch's.",
    body: Body::Composite(|b, _, v| {
        crate::elementwise::in_float(b, v, |b, v| {
            let (x, q) = (Var(v[0]), Var(v[1]));
            let turned = emit(b, -x)?;
            let mut sum: Option<Var> = None;
            for k in 0..ZETA_TERMS {
                let term = emit(b, (q + k as f64).pow(turned))?;
                sum = Some(match sum {
                    Some(s) => emit(b, s + term)?,
                    None => term,
                });
            }
            let end = emit(b, q + ZETA_TERMS as f64)?;
            let power = emit(b, end.pow(turned))?;
            let mut tail = emit(b, end / (x - 1.0) + 0.5)?;
            let inverse = emit(b, 1.0 / end)?;
            let mut factor = emit(b, x * inverse)?;
            for (k, c) in MACLAURIN.iter().enumerate() {
                tail = emit(b, tail + factor * (1.0 / c))?;
                let next = 2.0 * k as f64 + 1.0;
                factor = emit(b, factor * ((x + next) * inverse) * ((x + (next + 1.0)) * inverse))?;
            }
            let series = emit(b, power * tail)?;
            let y = emit(b, sum.unwrap_or(series) + series)?;
            let y = emit(b, x.equals(1.0).choose(f64::INFINITY, y))?;
            let low = emit(b, x.below(1.0))?;
            let y = emit(b, low.choose(f64::NAN, y))?;
            Ok(emit(b, q.below(-10.0).choose(f64::NAN, y))?.0)
        })
    }),
    grad: Grad::Rule(|b, cx| {
        let mut grads = cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, _, g, [x, q]| {
            let next = b.add(x, 1.0)?;
            let zeta = b.composite(&ZETA, smallvec![], &[next, q])?[0];
            Ok(emit(b, -Var(g) * Var(x) * Var(zeta))?.0)
        })?;
        grads[0] = None;
        Ok(grads)
    }),
    cost: 500,
    samples: &[
        Sample::of("f32[2,3] in 1.5..6, f32[2,3] in 0.5..5", 256),
        Sample::of("f32[5] = 1 2 0.5 3 2.5, f32[5] = 2 0 1 -3.5 -3.5", 256),
    ],
    ..PAIR
};

/// Terms of the series and of the continued fraction of the incomplete integrals: enough up to [`LARGE`].
const SERIES: usize = 64;
const FRACTION: usize = 60;
/// From here on the integral is computed as one, around its peak.
const LARGE: f64 = 64.0;
/// Nodes and weights of Gauss and Legendre on [0, 1]; the rest is symmetric.
const GAUSS: [(f64, f64); 10] = [
    (0.003_435_700_407_452_502, 0.008_807_003_569_575_447),
    (0.018_014_036_361_043_095, 0.020_300_714_900_193_223),
    (0.043_882_785_874_337_03, 0.031_336_024_167_054_395),
    (0.080_441_514_088_890_61, 0.041_638_370_788_352_36),
    (0.126_834_046_769_924_6, 0.050_965_059_908_620_35),
    (0.181_973_159_636_742_5, 0.059_097_265_980_759_3),
    (0.244_566_499_024_586_44, 0.065_844_319_224_588_44),
    (0.313_146_955_642_290_2, 0.071_048_054_659_191_2),
    (0.386_107_074_429_177_47, 0.074_586_493_236_302_12),
    (0.461_736_739_433_251_2, 0.076_376_693_565_363_14),
];

/// `(P(a, x), Q(a, x))` for positive a and x: by the series below a + 1, by the continued fraction from there (Abramowitz
/// and Stegun 6.5.29, 6.5.31), for a large a by quadrature around the peak.
fn incomplete(b: &mut Builder<'_>, a: Var, x: Var) -> Result<[Var; 2]> {
    let large = emit(b, (LARGE + 0.0 * a).below(a))?;
    let small = emit(b, large.choose(1.0, a))?;
    let log_gamma = Var(b.lgamma(small.0)?);
    let scale = emit(b, (small * x.log() - x - log_gamma).exp())?;
    let mut series: Formula = 1.0.into();
    for k in (1..=SERIES).rev() {
        series = emit(b, x / (small + k as f64) * series + 1.0)?.into();
    }
    let lower = emit(b, scale / small * series)?;
    let start = emit(b, x - small + 1.0)?;
    let mut fraction = emit(b, start + 2.0 * FRACTION as f64)?;
    for k in (1..=FRACTION).rev() {
        let k = k as f64;
        fraction = emit(b, start + (2.0 * k - 2.0) - (k - small) * k / fraction)?;
    }
    let upper = emit(b, scale / fraction)?;
    let by_series = emit(b, x.below(small + 1.0))?;
    let p = emit(b, by_series.choose(lower, 1.0 - upper))?;
    let q = emit(b, by_series.choose(1.0 - lower, upper))?;
    let wide = emit(b, large.choose(a, LARGE))?;
    let (above, tail) = peak(b, wide, x)?;
    let rest = emit(b, 1.0 - tail)?;
    let (wide_p, wide_q) = (emit(b, above.choose(rest, tail))?, emit(b, above.choose(tail, rest))?);
    Ok([emit(b, large.choose(wide_p, p))?, emit(b, large.choose(wide_q, q))?])
}
/// Is x above the peak, and the integral from x outward, away from it.
fn peak(b: &mut Builder<'_>, a: Var, x: Var) -> Result<(Var, Var)> {
    let top = emit(b, a - 1.0)?;
    let width = emit(b, top.sqrt())?;
    let above = emit(b, top.below(x))?;
    let high = emit(b, (top + width * 11.5).max(x + width * 6.0))?;
    let low = emit(b, (top - width * 7.5).min(x - width * 5.0).max(0.0))?;
    let span = emit(b, above.choose(high - x, x - low))?;
    let signed = emit(b, above.choose(span, -span))?;
    let mut sum: Option<Var> = None;
    for (node, weight) in GAUSS.iter().flat_map(|&(n, w)| [(n, w), (1.0 - n, w)]) {
        let part = emit(b, (x + signed * node - top) / top)?;
        let term = emit(b, (top * (part.log1p() - part)).exp() * weight)?;
        sum = Some(match sum {
            Some(s) => emit(b, s + term)?,
            None => term,
        });
    }
    let inverse = emit(b, 1.0 / top)?;
    let stirling = emit(b, (inverse * (inverse * inverse * (1.0 / 360.0) - 1.0 / 12.0)).exp())?;
    let total = emit(b, sum.unwrap_or(span) * span * stirling / (width * (2.0 * PI).sqrt()))?;
    Ok((above, total))
}
/// The edges of the domain: `at_zero` where x is 0 or a is infinite, `at_end` where a is 0 or x is infinite.
fn edges(b: &mut Builder<'_>, a: Var, x: Var, y: Var, at_zero: f64, at_end: f64) -> Result<Var> {
    let infinite = |v: Var| v.equals(f64::INFINITY);
    let end = emit(b, a.equals(0.0).choose(at_end, y))?;
    let end = emit(b, infinite(x).choose(at_end, end))?;
    let start = emit(b, x.equals(0.0).choose(at_zero, end))?;
    let start = emit(b, infinite(a).choose(at_zero, start))?;
    let (ones, twice) = (emit(b, infinite(a))?, emit(b, infinite(x))?);
    let both = Var(b.and(ones.0, twice.0)?);
    let (ones, twice) = (emit(b, a.equals(0.0))?, emit(b, x.equals(0.0))?);
    let none = Var(b.and(ones.0, twice.0)?);
    let y = emit(b, both.choose(f64::NAN, none.choose(f64::NAN, start)))?;
    let y = emit(b, a.below(0.0).choose(f64::NAN, y))?;
    emit(b, x.below(0.0).choose(f64::NAN, y))
}
/// `exp(-x) x^(a-1) / Γ(a)`, which is -dQ/dx; nothing flows to a, as in PyTorch.
fn incomplete_grad(b: &mut Builder<'_>, cx: &rtx_ir::GradCx<'_>, sign: f64) -> Result<Grads> {
    let mut grads = cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, _, g, [a, x]| {
        let log_gamma = Var(b.unary(Function::Lgamma, a)?);
        let (g, a, x) = (Var(g), Var(a), Var(x));
        Ok(emit(b, g * (((a - 1.0) * x.log() - x - log_gamma).exp() * sign))?.0)
    })?;
    grads[0] = None;
    Ok(grads)
}
fn pair_body(b: &mut Builder<'_>, v: &[ValueId], which: usize) -> Result<Outs> {
    let dtype = b.dtype(v[0]);
    let (a, x) = (Var(widen(b, v[0])?), Var(widen(b, v[1])?));
    let inside = incomplete(b, a, x)?[which];
    let (at_zero, at_end) = if which == 0 { (0.0, 1.0) } else { (1.0, 0.0) };
    let y = edges(b, a, x, inside, at_zero, at_end)?;
    Ok(smallvec![b.cast(y.0, dtype)?])
}

/// Lower incomplete gamma function.
pub static IGAMMA: OpDef = OpDef {
    sig: "igamma(Tensor self, Tensor other) -> Tensor",
    doc: "P(a, x) = 1/Γ(a) ∫ t^(a-1) exp(-t) dt from 0 to x: by series, continued fraction, and for a > 64 by quadrature \
          around the peak. NaN below 0; 1 for a = 0. Differentiable in x, as PyTorch's.",
    body: Body::Composite(|b, _, v| pair_body(b, v, 0)),
    grad: Grad::Rule(|b, cx| incomplete_grad(b, cx, 1.0)),
    cost: 800,
    samples: &[
        Sample::of("f32[2,3] in 0.5..6, f32[2,3] in 0.5..9", 512),
        Sample::of("f32[7] = 0 1 -1 100 100 2 0, f32[7] = 1 0 1 90 120 inf 0", 4096),
    ],
    ..PAIR
};
/// Upper incomplete gamma function.
pub static IGAMMAC: OpDef = OpDef {
    sig: "igammac(Tensor self, Tensor other) -> Tensor",
    doc: "Q(a, x) = 1 - P(a, x), as igamma.",
    body: Body::Composite(|b, _, v| pair_body(b, v, 1)),
    grad: Grad::Rule(|b, cx| incomplete_grad(b, cx, -1.0)),
    cost: 800,
    samples: &[
        Sample::of("f32[2,3] in 0.5..6, f32[2,3] in 0.5..9", 512),
        Sample::of("f32[7] = 0 1 -1 100 100 2 0, f32[7] = 1 0 1 90 120 inf 0", 4096),
    ],
    ..PAIR
};
