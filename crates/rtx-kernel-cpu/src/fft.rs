//! The claim's kernel `fft`: discrete Fourier transforms of lines along one axis, in f64.
//!
//! Text: `<f32|f64> <complex|to_half|from_half> <forward|inverse> <none|root|size>`. Sizes: `outer n inner`, then the
//! strides `outer along inner` of operand and result.
//!
//! Sizes that are products of small primes go by Cooley's and Tukey's splitting, others by Bluestein's convolution of a
//! power of two. A line is one thread's, so bits do not depend on their number.
use crate::grid::{Extents, Grid};
use crate::real::Real;
use rtx_core::{Complex, DType, Result};
use rtx_cpu::with_scratch;
use rtx_hal::{Code, Device, Launch, NativeKernel, malformed};
use rtx_ir::{FftKind, FftNorm};
use std::any::Any;
use std::f64::consts::TAU;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// The kernel `fft`.
pub struct FftKernel;

impl NativeKernel for FftKernel {
    fn name(&self) -> &'static str {
        "fft"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || malformed("fft", text);
        let &[dtype, kind, way, norm] = words.as_slice() else { return Err(wrong()) };
        let kind = FftKind::parse(kind, 0).ok_or_else(wrong)?;
        let norm = FftNorm::parse(norm).ok_or_else(wrong)?;
        let inverse = match way {
            "forward" => false,
            "inverse" => true,
            _ => return Err(wrong()),
        };
        let settings = Settings { kind, inverse, norm };
        match DType::parse(dtype) {
            Some(DType::F32) => Ok(Arc::new(FftCode::<f32>::new(settings))),
            Some(DType::F64) => Ok(Arc::new(FftCode::<f64>::new(settings))),
            _ => Err(wrong()),
        }
    }
}

#[derive(Clone, Copy)]
struct Settings {
    kind: FftKind,
    inverse: bool,
    norm: FftNorm,
}

struct FftCode<T> {
    settings: Settings,
    /// Of the last launch.
    plan: Mutex<Option<Arc<Plan>>>,
    element: PhantomData<T>,
}

impl<T: Real> FftCode<T> {
    fn new(settings: Settings) -> Self {
        Self { settings, plan: Mutex::new(None), element: PhantomData }
    }
    fn plan(&self, n: usize) -> Arc<Plan> {
        let mut kept = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.as_ref().filter(|p| p.n == n) {
            Some(plan) => plan.clone(),
            None => kept.insert(Arc::new(Plan::new(n))).clone(),
        }
    }
    /// The elements of a line as complex numbers; for an inverse with their parts exchanged, which conjugates the
    /// transform.
    ///
    /// # Safety
    /// The elements exist.
    unsafe fn load(&self, sides: &Sides<T>, outer: usize, inner: usize, line: &mut [Point]) {
        let n = line.len();
        match self.settings.kind {
            FftKind::Complex => {
                let x = sides.complex_in;
                for (j, p) in line.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    let z = unsafe { x.at(outer, j, inner).read_unaligned() };
                    *p = Point { re: z.re.wide(), im: z.im.wide() };
                }
            }
            FftKind::ToHalf => {
                let x = sides.real_in;
                for (j, p) in line.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    *p = Point { re: unsafe { x.at(outer, j, inner).read_unaligned() }.wide(), im: 0.0 };
                }
            }
            FftKind::FromHalf { .. } => {
                let x = sides.complex_in;
                for j in 0..n / 2 + 1 {
                    // SAFETY: the caller's promise: there are n / 2 + 1.
                    let z = unsafe { x.at(outer, j, inner).read_unaligned() };
                    let alone = j == 0 || 2 * j == n;
                    line[j] = Point { re: z.re.wide(), im: if alone { 0.0 } else { z.im.wide() } };
                    if !alone {
                        line[n - j] = Point { im: -line[j].im, ..line[j] };
                    }
                }
            }
        }
        if self.settings.inverse {
            line.iter_mut().for_each(Point::exchange);
        }
    }
    /// # Safety
    /// The elements exist and are this thread's.
    unsafe fn store(&self, sides: &Sides<T>, outer: usize, inner: usize, line: &mut [Point]) {
        let n = line.len();
        if self.settings.inverse {
            line.iter_mut().for_each(Point::exchange);
        }
        let s = self.settings.norm.factor(n);
        match self.settings.kind {
            FftKind::FromHalf { .. } => {
                let y = sides.real_out;
                for (k, p) in line.iter().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { y.at(outer, k, inner).write(T::narrow(p.re * s)) };
                }
            }
            FftKind::Complex | FftKind::ToHalf => {
                let y = sides.complex_out;
                let results = if self.settings.kind == FftKind::Complex { n } else { n / 2 + 1 };
                for (k, p) in line[..results].iter().enumerate() {
                    let z = Complex { re: T::narrow(p.re * s), im: T::narrow(p.im * s) };
                    // SAFETY: the caller's promise.
                    unsafe { y.at(outer, k, inner).write(z) };
                }
            }
        }
    }
}

impl<T: Real> Code for FftCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let extents = Extents::read(launch);
        let n = extents.along;
        if n == 0 {
            return;
        }
        let plan = self.plan(n);
        let sides = Sides {
            complex_in: Grid::read(launch, 0, 3),
            real_in: Grid::read(launch, 0, 3),
            complex_out: Grid::read(launch, 1, 6),
            real_out: Grid::read(launch, 1, 6),
        };
        let sides = &sides;
        extents.for_lines(&|outer, columns| {
            let points = 2 * n + plan.scratch();
            with_scratch(points * size_of::<Point>(), |scratch| {
                // SAFETY: the scratch memory has room for so many points, and its words are numbers of any bits.
                let points = unsafe {
                    std::ptr::write_bytes(scratch, 0, points * size_of::<Point>());
                    std::slice::from_raw_parts_mut(scratch.cast::<Point>(), points)
                };
                let (line, rest) = points.split_at_mut(n);
                let (result, rest) = rest.split_at_mut(n);
                for inner in columns.clone() {
                    // SAFETY: claims make the buffers as the sizes say; lines are apart.
                    unsafe { self.load(sides, outer, inner, line) };
                    plan.run(line, result, rest);
                    // SAFETY: as above.
                    unsafe { self.store(sides, outer, inner, result) };
                }
            });
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Operand and result, of whichever numbers they are.
struct Sides<T> {
    complex_in: Grid<Complex<T>>,
    real_in: Grid<T>,
    complex_out: Grid<Complex<T>>,
    real_out: Grid<T>,
}

/// A complex number.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    re: f64,
    im: f64,
}
impl Point {
    const ZERO: Point = Point { re: 0.0, im: 0.0 };
    fn exchange(&mut self) {
        *self = Point { re: self.im, im: self.re };
    }
    fn conjugate(self) -> Point {
        Point { im: -self.im, ..self }
    }
}
impl std::ops::Add for Point {
    type Output = Point;
    fn add(self, o: Point) -> Point {
        Point { re: self.re + o.re, im: self.im + o.im }
    }
}
impl std::ops::Sub for Point {
    type Output = Point;
    fn sub(self, o: Point) -> Point {
        Point { re: self.re - o.re, im: self.im - o.im }
    }
}
impl std::ops::Mul for Point {
    type Output = Point;
    fn mul(self, o: Point) -> Point {
        Point { re: self.re * o.re - self.im * o.im, im: self.re * o.im + self.im * o.re }
    }
}

/// `exp(-2πi k / n)`, by sine and cosine of an angle of at most π/4, so that quarters are exact.
fn root(k: usize, n: usize) -> Point {
    let k = k % n;
    // The nearest multiple of π/2, and how far the angle is from it in units of 2π / 4n.
    let quarter = (8 * k).div_euclid(n).div_ceil(2);
    let rest = 4 * k as i64 - (quarter * n) as i64;
    let rest = TAU * rest as f64 / (4 * n) as f64;
    let (s, c) = (rustg::math::sin_f64(rest), rustg::math::cos_f64(rest));
    match quarter % 4 {
        0 => Point { re: c, im: -s },
        1 => Point { re: -s, im: -c },
        2 => Point { re: -c, im: s },
        _ => Point { re: s, im: c },
    }
}

/// Largest prime that is split off.
const LARGEST_PRIME: usize = 31;

/// How a size is transformed.
struct Plan {
    n: usize,
    /// Primes (and fours) whose product is n; empty where Bluestein's way is taken.
    factors: Vec<usize>,
    /// `exp(-2πi k / n)`.
    roots: Vec<Point>,
    bluestein: Option<Box<Bluestein>>,
}

/// `x[j] y[k]`'s convolution with `exp(πi j² / n)`, cyclic in a power of two.
struct Bluestein {
    inner: Plan,
    /// `exp(-πi j² / n)`.
    chirp: Vec<Point>,
    /// The transform of the chirp's conjugate on both sides of 0.
    filter: Vec<Point>,
}

impl Plan {
    fn new(n: usize) -> Plan {
        let (mut rest, mut factors) = (n, Vec::new());
        for p in [4, 2].into_iter().chain((3..=LARGEST_PRIME).step_by(2)) {
            while rest.is_multiple_of(p) {
                factors.push(p);
                rest /= p;
            }
        }
        let roots = (0..n).map(|k| root(k, n)).collect();
        if rest == 1 {
            return Plan { n, factors, roots, bluestein: None };
        }
        let inner = Plan::new((2 * n - 1).next_power_of_two());
        let chirp: Vec<Point> = (0..n).map(|j| root(j * j % (2 * n), 2 * n)).collect();
        let m = inner.n;
        let mut around = vec![Point::ZERO; m];
        for (j, c) in chirp.iter().enumerate() {
            around[j] = c.conjugate();
            around[(m - j) % m] = c.conjugate();
        }
        let mut filter = vec![Point::ZERO; m];
        inner.run(&mut around, &mut filter, &mut []);
        Plan { n, factors: Vec::new(), roots, bluestein: Some(Box::new(Bluestein { inner, chirp, filter })) }
    }
    /// Points that a run needs besides operand and result.
    fn scratch(&self) -> usize {
        self.bluestein.as_ref().map_or(0, |b| 2 * b.inner.n)
    }
    /// The transform of `x` into `y`.
    fn run(&self, x: &mut [Point], y: &mut [Point], scratch: &mut [Point]) {
        match &self.bluestein {
            Some(b) => b.run(x, y, scratch),
            None => self.split(x, 1, y, &self.factors),
        }
    }
    /// The transform of every `stride`th of `x` into `y`: those of its parts, then their sums.
    fn split(&self, x: &[Point], stride: usize, y: &mut [Point], factors: &[usize]) {
        let Some((&p, rest)) = factors.split_first() else {
            y[0] = x[0];
            return;
        };
        let m = y.len() / p;
        for (q, part) in y.chunks_exact_mut(m).enumerate() {
            self.split(&x[q * stride..], stride * p, part, rest);
        }
        match p {
            2 => self.twos(y, stride, m),
            4 => self.fours(y, stride, m),
            _ => self.primes(y, stride, m, p),
        }
    }
    fn twos(&self, y: &mut [Point], stride: usize, m: usize) {
        for k in 0..m {
            let (a, b) = (y[k], y[m + k] * self.roots[k * stride]);
            (y[k], y[m + k]) = (a + b, a - b);
        }
    }
    fn fours(&self, y: &mut [Point], stride: usize, m: usize) {
        for k in 0..m {
            let a = y[k];
            let b = y[m + k] * self.roots[k * stride];
            let c = y[2 * m + k] * self.roots[2 * k * stride];
            let d = y[3 * m + k] * self.roots[3 * k * stride];
            let (even, odd) = (a + c, a - c);
            let (sum, turned) = (b + d, b - d);
            let turned = Point { re: turned.im, im: -turned.re };
            y[k] = even + sum;
            y[m + k] = odd + turned;
            y[2 * m + k] = even - sum;
            y[3 * m + k] = odd - turned;
        }
    }
    fn primes(&self, y: &mut [Point], stride: usize, m: usize, p: usize) {
        let mut parts = [Point::ZERO; LARGEST_PRIME];
        // exp(-2πi / p) is the root so many places on.
        let turn = self.n / p;
        for k in 0..m {
            for (q, part) in parts[..p].iter_mut().enumerate() {
                *part = y[q * m + k] * self.roots[q * k * stride];
            }
            for r in 0..p {
                let sum = parts[1..p].iter().enumerate();
                y[r * m + k] = sum.fold(parts[0], |s, (q, part)| s + *part * self.roots[(q + 1) * r % p * turn]);
            }
        }
    }
}

impl Bluestein {
    fn run(&self, x: &[Point], y: &mut [Point], scratch: &mut [Point]) {
        let (a, b) = scratch.split_at_mut(self.inner.n);
        a.fill(Point::ZERO);
        for ((a, x), c) in a.iter_mut().zip(x).zip(&self.chirp) {
            *a = *x * *c;
        }
        self.inner.run(a, b, &mut []);
        for (b, f) in b.iter_mut().zip(&self.filter) {
            *b = *b * *f;
            b.exchange();
        }
        self.inner.run(b, a, &mut []);
        let s = 1.0 / self.inner.n as f64;
        for ((y, a), c) in y.iter_mut().zip(a.iter_mut()).zip(&self.chirp) {
            a.exchange();
            *y = *c * Point { re: a.re * s, im: a.im * s };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each sum on its own.
    fn by_definition(x: &[Point]) -> Vec<Point> {
        let n = x.len();
        let part = |k| x.iter().enumerate().fold(Point::ZERO, |s, (j, p)| s + *p * root(j * k % n, n));
        (0..n).map(part).collect()
    }

    #[test]
    fn transforms_of_any_size_are_their_definition() {
        for n in (1..70).chain([97, 101, 128, 210, 256, 385, 1009, 1024]) {
            let mut x: Vec<Point> = (0..n)
                .map(|j| Point { re: ((j * 7 + 3) % 11) as f64 - 5.0, im: ((j * 5 + 1) % 13) as f64 - 6.0 })
                .collect();
            let want = by_definition(&x);
            let plan = Plan::new(n);
            let (mut y, mut scratch) = (vec![Point::ZERO; n], vec![Point::ZERO; plan.scratch()]);
            plan.run(&mut x, &mut y, &mut scratch);
            let worst =
                y.iter().zip(&want).map(|(a, b)| (a.re - b.re).abs().max((a.im - b.im).abs())).fold(0.0, f64::max);
            assert!(worst < 1e-11 * n as f64, "{n}: {worst}");
        }
    }

    #[test]
    fn roots_lie_on_the_circle() {
        for n in [1, 2, 3, 5, 8, 12, 30] {
            for k in 0..n {
                let (s, c) = (TAU * k as f64 / n as f64).sin_cos();
                let r = root(k, n);
                assert!((r.re - c).abs() < 1e-15 && (r.im + s).abs() < 1e-15, "{k}/{n}");
            }
        }
    }
}
