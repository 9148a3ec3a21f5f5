//! Factorizations of one dense row-major matrix of f64: plain scalar code, so that bits depend on nothing else.

/// `L` over the lower triangle of `a [n, n]`, zeros above. The order of the first leading minor that is not positive, or
/// 0; then everything is NaN.
pub(super) fn cholesky(a: &mut [f64], n: usize) -> usize {
    for j in 0..n {
        for i in j..n {
            let (before, row) = a.split_at(i * n);
            let pivot_row = if i == j { &row[..j] } else { &before[j * n..j * n + j] };
            let sum = row[j] - dot(&row[..j], pivot_row);
            if i == j && (sum.is_nan() || sum <= 0.0) {
                a.fill(f64::NAN);
                return j + 1;
            }
            a[i * n + j] = if i == j { sum.sqrt() } else { sum / a[j * n + j] };
        }
    }
    (0..n).for_each(|i| a[i * n + i + 1..(i + 1) * n].fill(0.0));
    0
}

/// The packed factors over `a [m, n]`. The position from 1 of the first zero on the diagonal, or 0.
pub(super) fn lu(a: &mut [f64], m: usize, n: usize, pivots: &mut [f64], perm: &mut [f64]) -> usize {
    let mut info = 0;
    (0..m).for_each(|i| perm[i] = i as f64);
    for j in 0..m.min(n) {
        let best = (j..m).fold(j, |best, i| if a[i * n + j].abs() > a[best * n + j].abs() { i } else { best });
        pivots[j] = best as f64;
        perm.swap(j, best);
        (0..n).for_each(|c| a.swap(j * n + c, best * n + c));
        let pivot = a[j * n + j];
        if pivot == 0.0 {
            info = if info == 0 { j + 1 } else { info };
            continue;
        }
        let (above, below) = a.split_at_mut((j + 1) * n);
        let pivot_row = &above[j * n + j + 1..];
        for row in below.chunks_exact_mut(n) {
            row[j] /= pivot;
            let factor = row[j];
            row[j + 1..].iter_mut().zip(pivot_row).for_each(|(x, p)| *x -= factor * p);
        }
    }
    info
}

/// `R` over `a [m, n]`, zeros below the diagonal, and `q [m, columns]`. `v` holds the reflections, `m` numbers each.
pub(super) fn qr(a: &mut [f64], m: usize, n: usize, q: &mut [f64], columns: usize, v: &mut [f64]) {
    let k = m.min(n);
    for j in 0..k {
        let v = &mut v[j * m..(j + 1) * m];
        v.fill(0.0);
        let below: f64 = (j + 1..m).map(|i| a[i * n + j] * a[i * n + j]).sum();
        if below == 0.0 {
            continue;
        }
        let alpha = a[j * n + j];
        let beta = -(alpha * alpha + below).sqrt().copysign(alpha);
        v[j] = 1.0;
        (j + 1..m).for_each(|i| v[i] = a[i * n + j] / (alpha - beta));
        reflect(a, n, j, v, (beta - alpha) / beta, j..n);
        a[j * n + j] = beta;
        (j + 1..m).for_each(|i| a[i * n + j] = 0.0);
    }
    q.fill(0.0);
    (0..m.min(columns)).for_each(|i| q[i * columns + i] = 1.0);
    for j in (0..k).rev() {
        let v = &v[j * m..(j + 1) * m];
        let norm = dot(v, v);
        if norm > 0.0 {
            reflect(q, columns, j, v, 2.0 / norm, 0..columns);
        }
    }
}
/// `a -= tau v v' a` for columns of `a`; `v` is zero before `from`.
fn reflect(a: &mut [f64], n: usize, from: usize, v: &[f64], tau: f64, columns: std::ops::Range<usize>) {
    for c in columns {
        let along: f64 = (from..v.len()).map(|i| v[i] * a[i * n + c]).sum();
        (from..v.len()).for_each(|i| a[i * n + c] -= tau * along * v[i]);
    }
}

/// Eigenvalues, ascending, into `w`, and eigenvectors into the columns of `v`, by Jacobi's method with row sweeps;
/// `a [n, n]`, of which the lower triangle is read, is used up.
pub(super) fn eigh(a: &mut [f64], n: usize, w: &mut [f64], v: &mut [f64]) {
    for i in 0..n {
        (0..i).for_each(|j| a[j * n + i] = a[i * n + j]);
    }
    // Rows of `v` are eigenvectors until the end.
    v.fill(0.0);
    (0..n).for_each(|i| v[i * n + i] = 1.0);
    let scale = a.iter().fold(0.0f64, |s, x| s.max(x.abs()));
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..n {
            for q in p + 1..n {
                let apq = a[p * n + q];
                if apq.abs() <= f64::EPSILON * 1e-2 * scale || apq.is_nan() {
                    continue;
                }
                rotated = true;
                let (c, s) = rotation(a[p * n + p], a[q * n + q], apq);
                rotate_rows(a, n, p, q, c, s);
                for i in 0..n {
                    let (x, y) = (a[i * n + p], a[i * n + q]);
                    a[i * n + p] = c * x - s * y;
                    a[i * n + q] = s * x + c * y;
                }
                rotate_rows(v, n, p, q, c, s);
            }
        }
        if !rotated {
            break;
        }
    }
    (0..n).for_each(|i| w[i] = a[i * n + i]);
    for i in 0..n {
        let least = (i..n).fold(i, |b, j| if w[j].total_cmp(&w[b]).is_lt() { j } else { b });
        w.swap(i, least);
        (0..n).for_each(|c| v.swap(i * n + c, least * n + c));
    }
    turn_rows(v, n, n, &mut [], 0);
    transpose(v, n);
}
/// More rounds than convergence ever takes.
const SWEEPS: usize = 40;

/// Cosine and sine of the rotation that makes `[[p, x], [x, q]]` diagonal.
fn rotation(p: f64, q: f64, x: f64) -> (f64, f64) {
    let theta = (q - p) / (2.0 * x);
    let t = 1.0 / (theta.abs() + (theta * theta + 1.0).sqrt());
    let t = if theta < 0.0 { -t } else { t };
    let c = 1.0 / (t * t + 1.0).sqrt();
    (c, t * c)
}
fn rotate_rows(a: &mut [f64], n: usize, p: usize, q: usize, c: f64, s: f64) {
    let (first, second) = a.split_at_mut(q * n);
    for (x, y) in first[p * n..(p + 1) * n].iter_mut().zip(&mut second[..n]) {
        (*x, *y) = (c * *x - s * *y, s * *x + c * *y);
    }
}
fn transpose(a: &mut [f64], n: usize) {
    for i in 0..n {
        (0..i).for_each(|j| a.swap(i * n + j, j * n + i));
    }
}
fn largest_is_negative<'a>(v: impl Iterator<Item = &'a f64>) -> bool {
    v.fold(0.0f64, |best, x| if x.abs() > best.abs() { *x } else { best }) < 0.0
}

/// Of `a [r, l]`, `r <= l`, whose rows are used up: singular values, descending, into `s`; left singular vectors into
/// the columns of `u [r, r]`; right singular vectors into the rows of `vt [rows, l]`, `rows` being `r` or `l`.
/// Jacobi's method on the rows (Hestenes 1958).
pub(super) fn svd_wide(a: &mut [f64], r: usize, l: usize, u: &mut [f64], s: &mut [f64], vt: &mut [f64], rows: usize) {
    u.fill(0.0);
    (0..r).for_each(|i| u[i * r + i] = 1.0);
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..r {
            for q in p + 1..r {
                let (x, y) = (&a[p * l..(p + 1) * l], &a[q * l..(q + 1) * l]);
                let (xx, yy, xy) = (dot(x, x), dot(y, y), dot(x, y));
                if xy.abs() <= f64::EPSILON * (xx * yy).sqrt() || xy.is_nan() {
                    continue;
                }
                rotated = true;
                let (c, sine) = rotation(xx, yy, xy);
                rotate_rows(a, l, p, q, c, sine);
                rotate_rows(u, r, p, q, c, sine);
            }
        }
        if !rotated {
            break;
        }
    }
    (0..r).for_each(|i| s[i] = dot(&a[i * l..(i + 1) * l], &a[i * l..(i + 1) * l]).sqrt());
    for i in 0..r {
        let most = (i..r).fold(i, |b, j| if s[j].total_cmp(&s[b]).is_gt() { j } else { b });
        s.swap(i, most);
        (0..l).for_each(|c| a.swap(i * l + c, most * l + c));
        (0..r).for_each(|c| u.swap(i * r + c, most * r + c));
    }
    let negligible = s.first().copied().unwrap_or(0.0) * f64::EPSILON * l as f64;
    let known = s[..r].iter().take_while(|x| **x > negligible).count();
    (0..known).for_each(|i| (0..l).for_each(|c| vt[i * l + c] = a[i * l + c] / s[i]));
    complete(vt, known, rows, l);
    transpose(u, r);
}

/// Rows `known..rows` of `v [rows, l]`: what unit vectors add to the span of the rows before.
fn complete(v: &mut [f64], known: usize, rows: usize, l: usize) {
    let mut next = known;
    for e in 0..l {
        if next == rows {
            return;
        }
        let (before, rest) = v.split_at_mut(next * l);
        let x = &mut rest[..l];
        x.fill(0.0);
        x[e] = 1.0;
        for _ in 0..2 {
            for row in before.chunks_exact(l) {
                let along = dot(row, x);
                x.iter_mut().zip(row).for_each(|(x, r)| *x -= along * r);
            }
        }
        let norm = dot(x, x).sqrt();
        if norm > 0.1 / (l as f64).sqrt() {
            x.iter_mut().for_each(|x| *x /= norm);
            next += 1;
        }
    }
}

/// `op(a)⁻¹ x` over `x [n, k]`.
pub(super) fn solve(a: &[f64], x: &mut [f64], n: usize, k: usize, upper: bool, transpose: bool, unit: bool) {
    let at = |r: usize, c: usize| if transpose { a[c * n + r] } else { a[r * n + c] };
    let from_below = upper != transpose;
    for step in 0..n {
        let r = if from_below { n - 1 - step } else { step };
        for j in if from_below { r + 1..n } else { 0..r } {
            let factor = at(r, j);
            for c in 0..k {
                x[r * k + c] -= factor * x[j * k + c];
            }
        }
        if !unit {
            let d = at(r, r);
            x[r * k..(r + 1) * k].iter_mut().for_each(|x| *x /= d);
        }
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// The columns of `u` and rows of `vt` turned so that the largest element of each column of `u` is positive.
pub(super) fn turn(u: &mut [f64], columns: usize, vt: &mut [f64], rows: usize, l: usize) {
    for j in 0..columns {
        if largest_is_negative(u.iter().skip(j).step_by(columns)) {
            u.iter_mut().skip(j).step_by(columns).for_each(|x| *x = -*x);
            if j < rows {
                vt[j * l..(j + 1) * l].iter_mut().for_each(|x| *x = -*x);
            }
        }
    }
}

/// Rows turned so that the largest element of each is positive, and with them the columns of `other [k, k]`.
pub(super) fn turn_rows(rows: &mut [f64], count: usize, l: usize, other: &mut [f64], k: usize) {
    for (j, row) in rows.chunks_exact_mut(l.max(1)).take(count).enumerate() {
        if largest_is_negative(row.iter()) {
            row.iter_mut().for_each(|x| *x = -*x);
            if j < k {
                other.iter_mut().skip(j).step_by(k).for_each(|x| *x = -*x);
            }
        }
    }
}
