//! Factorizations by their textbook algorithms, one matrix at a time, in f64.
use super::{Tensor, Value};
use crate::{Factor, Types};
use rtx_core::{Error, Kind, Result};

/// A dense matrix.
#[derive(Clone, Debug)]
struct Matrix {
    rows: usize,
    columns: usize,
    at: Vec<f64>,
}
impl Matrix {
    fn of(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Self {
        let at = (0..rows * columns).map(|p| f(p / columns, p % columns)).collect();
        Self { rows, columns, at }
    }
    fn get(&self, i: usize, j: usize) -> f64 {
        self.at[i * self.columns + j]
    }
    fn set(&mut self, i: usize, j: usize, x: f64) {
        self.at[i * self.columns + j] = x;
    }
    fn unit(n: usize) -> Self {
        Self::of(n, n, |i, j| f64::from(u8::from(i == j)))
    }
    fn t(&self) -> Self {
        Self::of(self.columns, self.rows, |i, j| self.get(j, i))
    }
    fn times(&self, other: &Self) -> Self {
        Self::of(self.rows, other.columns, |i, j| (0..self.columns).map(|k| self.get(i, k) * other.get(k, j)).sum())
    }
    fn part(&self, rows: usize, columns: usize) -> Self {
        Self::of(rows, columns, |i, j| self.get(i, j))
    }
    fn swap_rows(&mut self, a: usize, b: usize) {
        (0..self.columns).for_each(|j| self.at.swap(a * self.columns + j, b * self.columns + j));
    }
}

/// The results for one matrix, each in row-major order; whole numbers stand as floats.
fn results(f: Factor, a: &Matrix) -> Result<Vec<Vec<f64>>> {
    let k = a.rows.min(a.columns);
    Ok(match f {
        Factor::Cholesky => {
            let (l, info) = cholesky(a);
            vec![l.at, vec![info as f64]]
        }
        Factor::Lu => {
            let (lu, pivots, perm, info) = lu(a);
            let numbers = |v: Vec<usize>| v.into_iter().map(|i| i as f64).collect();
            vec![lu.at, numbers(pivots), numbers(perm), vec![info as f64]]
        }
        Factor::Qr { full } => {
            let (q, r) = qr(a);
            if full { vec![q.at, r.at] } else { vec![q.part(a.rows, k).at, r.part(k, a.columns).at] }
        }
        Factor::Eigh => {
            let (w, v) = eigh(&Matrix::of(a.rows, a.rows, |i, j| a.get(i.max(j), i.min(j))));
            vec![w, v.at]
        }
        Factor::Eig => return Err(Error::new(Kind::Unsupported, "oracle: eig is not built yet")),
        Factor::Svd { full } => {
            let (u, s, vt) = svd(a);
            if full { vec![u.at, s, vt.at] } else { vec![u.part(a.rows, k).at, s, vt.part(k, a.columns).at] }
        }
    })
}

pub(super) fn factor(f: Factor, x: &Tensor, types: Types) -> Result<Vec<Tensor>> {
    let sizes = x.sizes();
    let (m, n) = (sizes[sizes.len() - 2], sizes[sizes.len() - 1]);
    let batch: usize = sizes[..sizes.len() - 2].iter().product();
    let mut outs: Vec<Vec<f64>> = vec![Vec::new(); types.len()];
    for i in 0..batch {
        let a = Matrix::of(m, n, |r, c| x.elements[(i * m + r) * n + c].float());
        for (out, part) in outs.iter_mut().zip(results(f, &a)?) {
            out.extend(part);
        }
    }
    Ok(types.into_iter().zip(outs).map(|(ty, v)| Tensor::new(ty, v.into_iter().map(Value::Float).collect())).collect())
}

fn cholesky(a: &Matrix) -> (Matrix, usize) {
    let n = a.rows;
    let mut l = Matrix::of(n, n, |_, _| 0.0);
    for j in 0..n {
        for i in j..n {
            let sum: f64 = a.get(i, j) - (0..j).map(|k| l.get(i, k) * l.get(j, k)).sum::<f64>();
            if i == j && (sum.is_nan() || sum <= 0.0) {
                return (Matrix::of(n, n, |_, _| f64::NAN), j + 1);
            }
            let x = if i == j { sum.sqrt() } else { sum / l.get(j, j) };
            l.set(i, j, x);
        }
    }
    (l, 0)
}

fn lu(a: &Matrix) -> (Matrix, Vec<usize>, Vec<usize>, usize) {
    let (mut a, k) = (a.clone(), a.rows.min(a.columns));
    let (mut pivots, mut perm, mut info) = (Vec::new(), (0..a.rows).collect::<Vec<_>>(), 0);
    for j in 0..k {
        let best = (j..a.rows).fold(j, |best, i| if a.get(i, j).abs() > a.get(best, j).abs() { i } else { best });
        pivots.push(best);
        perm.swap(j, best);
        a.swap_rows(j, best);
        if a.get(j, j) == 0.0 {
            info = if info == 0 { j + 1 } else { info };
            continue;
        }
        for i in j + 1..a.rows {
            let x = a.get(i, j) / a.get(j, j);
            a.set(i, j, x);
            (j + 1..a.columns).for_each(|c| a.set(i, c, a.get(i, c) - x * a.get(j, c)));
        }
    }
    (a, pivots, perm, info)
}

/// Every reflection as a whole matrix.
fn qr(a: &Matrix) -> (Matrix, Matrix) {
    let (m, mut q, mut r) = (a.rows, Matrix::unit(a.rows), a.clone());
    for j in 0..m.min(a.columns) {
        let below: f64 = (j + 1..m).map(|i| r.get(i, j).powi(2)).sum();
        if below == 0.0 {
            continue;
        }
        let alpha = r.get(j, j);
        let beta = -(alpha * alpha + below).sqrt().copysign(alpha);
        let v: Vec<f64> =
            (0..m).map(|i| if i < j { 0.0 } else { r.get(i, j) - if i == j { beta } else { 0.0 } }).collect();
        let norm: f64 = v.iter().map(|x| x * x).sum();
        let h = Matrix::of(m, m, |i, c| f64::from(u8::from(i == c)) - 2.0 * v[i] * v[c] / norm);
        (q, r) = (q.times(&h), h.times(&r));
        (j + 1..m).for_each(|i| r.set(i, j, 0.0));
    }
    (q, r)
}

/// Jacobi's method, the largest element of each vector made positive.
fn eigh(a: &Matrix) -> (Vec<f64>, Matrix) {
    let (n, mut a, mut v) = (a.rows, a.clone(), Matrix::unit(a.rows));
    for _ in 0..60 {
        for (p, q) in (0..n).flat_map(|p| (p + 1..n).map(move |q| (p, q))) {
            if a.get(p, q) == 0.0 {
                continue;
            }
            let theta = 0.5 * (2.0 * a.get(p, q)).atan2(a.get(q, q) - a.get(p, p));
            let (s, c) = theta.sin_cos();
            let mut g = Matrix::unit(n);
            [(p, p, c), (q, q, c), (p, q, s), (q, p, -s)].into_iter().for_each(|(i, j, x)| g.set(i, j, x));
            (a, v) = (g.t().times(&a).times(&g), v.times(&g));
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a.get(i, i).total_cmp(&a.get(j, j)));
    let v = Matrix::of(n, n, |i, j| v.get(i, order[j]));
    (order.iter().map(|&i| a.get(i, i)).collect(), signed(&v).0)
}

/// Columns turned so that the largest element of each is positive, and which were turned.
fn signed(v: &Matrix) -> (Matrix, Vec<f64>) {
    let sign = |j: usize| {
        let largest =
            (0..v.rows).fold(0.0f64, |best, i| if v.get(i, j).abs() > best.abs() { v.get(i, j) } else { best });
        if largest < 0.0 { -1.0 } else { 1.0 }
    };
    let signs: Vec<f64> = (0..v.columns).map(sign).collect();
    (Matrix::of(v.rows, v.columns, |i, j| v.get(i, j) * signs[j]), signs)
}

/// From the eigenvectors of `a' a`; missing vectors are completed from the unit vectors.
fn svd(a: &Matrix) -> (Matrix, Vec<f64>, Matrix) {
    if a.rows < a.columns {
        let (v, s, ut) = svd(&a.t());
        let (u, signs) = signed(&ut.t());
        let v = Matrix::of(v.rows, v.columns, |i, j| v.get(i, j) * signs.get(j).unwrap_or(&1.0));
        return (u, s, v.t());
    }
    let (m, n) = (a.rows, a.columns);
    let (w, v) = eigh(&a.t().times(a));
    let v = Matrix::of(n, n, |i, j| v.get(i, n - 1 - j));
    let s: Vec<f64> = (0..n).map(|j| w[n - 1 - j].max(0.0).sqrt()).collect();
    let av = a.times(&v);
    let columns = (0..n).filter(|&j| s[j] > 0.0).map(|j| (0..m).map(|i| av.get(i, j) / s[j]).collect()).collect();
    let u = completed(columns, m);
    let (u, signs) = signed(&u);
    let v = Matrix::of(n, n, |i, j| v.get(i, j) * signs[j]);
    (u, s, v.t())
}

/// Orthonormal columns and, after them, what unit vectors add to their span.
fn completed(mut columns: Vec<Vec<f64>>, m: usize) -> Matrix {
    for e in 0..m {
        if columns.len() == m {
            break;
        }
        let mut x: Vec<f64> = (0..m).map(|i| f64::from(u8::from(i == e))).collect();
        for _ in 0..2 {
            for c in &columns {
                let along: f64 = c.iter().zip(&x).map(|(a, b)| a * b).sum();
                x.iter_mut().zip(c).for_each(|(x, c)| *x -= along * c);
            }
        }
        let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        if norm > 0.1 / (m as f64).sqrt() {
            columns.push(x.into_iter().map(|x| x / norm).collect());
        }
    }
    Matrix::of(m, m, |i, j| columns[j][i])
}

pub(super) fn solve(upper: bool, transpose: bool, unit: bool, a: &Tensor, x: &Tensor) -> Vec<Value> {
    let sizes = x.sizes();
    let (n, k) = (sizes[sizes.len() - 2], sizes[sizes.len() - 1]);
    let mut out: Vec<f64> = x.elements.iter().map(|v| v.float()).collect();
    for (i, x) in out.chunks_mut((n * k).max(1)).enumerate() {
        let at = |r: usize, c: usize| {
            let (r, c) = if transpose { (c, r) } else { (r, c) };
            a.elements[(i * n + r) * n + c].float()
        };
        for step in 0..n {
            let r = if upper != transpose { n - 1 - step } else { step };
            let solved = if upper != transpose { r + 1..n } else { 0..r };
            for c in 0..k {
                let sum: f64 = solved.clone().map(|j| at(r, j) * x[j * k + c]).sum();
                x[r * k + c] = (x[r * k + c] - sum) / if unit { 1.0 } else { at(r, r) };
            }
        }
    }
    out.into_iter().map(Value::Float).collect()
}
