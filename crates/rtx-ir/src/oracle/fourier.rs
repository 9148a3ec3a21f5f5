//! Fourier transforms by their definition.
use super::{Tensor, Value};
use crate::{Fft, FftKind, Type};

/// Every sum on its own.
pub(super) fn transform(f: Fft, x: &Tensor, ty: Type) -> Tensor {
    let sizes = x.ty.shape.sizes();
    let along = sizes[f.axis];
    let (outer, inner): (usize, usize) = (sizes[..f.axis].iter().product(), sizes[f.axis + 1..].iter().product());
    let n = f.len(along);
    let results = ty.shape.sizes()[f.axis];
    let mut out = vec![Value::Float(0.0); outer * results * inner];
    for o in 0..outer {
        for i in 0..inner {
            let line: Vec<(f64, f64)> = (0..along)
                .map(|j| {
                    let v = &x.elements[(o * along + j) * inner + i];
                    (v.float(), v.imaginary())
                })
                .collect();
            let whole: Vec<(f64, f64)> =
                if matches!(f.kind, FftKind::FromHalf { .. }) { mirrored(&line, n) } else { line };
            for k in 0..results {
                let (re, im) = part(&whole, k, f.inverse);
                let s = f.norm.factor(n);
                let y = match f.kind {
                    FftKind::FromHalf { .. } => Value::Float(re * s),
                    FftKind::Complex | FftKind::ToHalf => Value::Complex(re * s, im * s),
                };
                out[(o * results + k) * inner + i] = super::element::cast(y, ty.dtype);
            }
        }
    }
    Tensor::new(ty, out)
}

/// The whole spectrum of a real line from its first half.
fn mirrored(half: &[(f64, f64)], n: usize) -> Vec<(f64, f64)> {
    (0..n)
        .map(|j| match j {
            _ if j == 0 || 2 * j == n => (half[j].0, 0.0),
            _ if 2 * j < n => half[j],
            _ => (half[n - j].0, -half[n - j].1),
        })
        .collect()
}

/// Σ_j x[j] exp(∓2πi jk / n).
fn part(x: &[(f64, f64)], k: usize, inverse: bool) -> (f64, f64) {
    let n = x.len();
    let turn = if inverse { std::f64::consts::TAU } else { -std::f64::consts::TAU } / n as f64;
    x.iter().enumerate().fold((0.0, 0.0), |(re, im), (j, &(a, b))| {
        let (s, c) = (turn * (j * k % n) as f64).sin_cos();
        (re + a * c - b * s, im + a * s + b * c)
    })
}
