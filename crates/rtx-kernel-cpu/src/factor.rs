//! The claims' kernels `factor`, `triangular_solve` and `check`: dense linear algebra of one matrix at a time, in f64.
//!
//! `factor <cholesky|lu|qr|eigh|svd> <f32|f64> <full|thin>`: sizes `batch m n`, then the strides of the operand and of
//! each result by its groups. `triangular_solve <f32|f64> <upper> <transpose> <unit>`: sizes `batch n k`, strides.
//! `check <bytes an element> <sentence>`: sizes `count`, `conditions`, strides.
//!
//! Matrices of a batch are shared among threads; each is one thread's, so bits do not depend on their number. f32 is
//! computed in f64 and rounded once.
use crate::real::Real;
use rtx_core::{DType, Result};
use rtx_cpu::{pool, with_scratch};
use rtx_hal::{Code, Device, Launch, NativeKernel, malformed};
use rtx_ir::Factor;
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

mod dense;

/// The kernel `factor`.
pub struct FactorKernel;
/// The kernel `triangular_solve`.
pub struct SolveKernel;
/// The kernel `check`.
pub struct CheckKernel;

impl NativeKernel for FactorKernel {
    fn name(&self) -> &'static str {
        "factor"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[kind, dtype, full] = words.as_slice() else { return Err(malformed("factor", text)) };
        let kind = Factor::parse(kind, full == "full").filter(|f| !matches!(f, Factor::Eig));
        match (kind, DType::parse(dtype)) {
            (Some(kind), Some(DType::F32)) => Ok(Arc::new(FactorCode::<f32>(kind, PhantomData))),
            (Some(kind), Some(DType::F64)) => Ok(Arc::new(FactorCode::<f64>(kind, PhantomData))),
            _ => Err(malformed("factor", text)),
        }
    }
}

/// A buffer of matrices: where an element of matrix `i` lies.
#[derive(Clone, Copy)]
struct Matrices<T> {
    ptr: *mut T,
    batch: isize,
    row: isize,
    column: isize,
}
impl<T: Copy> Matrices<T> {
    fn at(self, i: usize, r: usize, c: usize) -> *mut T {
        self.ptr.wrapping_offset(i as isize * self.batch + r as isize * self.row + c as isize * self.column)
    }
}
// SAFETY: each thread touches the matrices of its own part of the batch.
unsafe impl<T> Sync for Matrices<T> {}

/// Buffers one after the other, with `1 + inner` strides each.
struct Buffers<'a> {
    launch: &'a Launch<'a>,
    buffer: usize,
    size: usize,
}
impl Buffers<'_> {
    fn next<T>(&mut self, inner: usize) -> Matrices<T> {
        let stride = |i: usize| if i < inner { self.launch.sizes[self.size + 1 + i] as isize } else { 0 };
        let m = Matrices {
            ptr: self.launch.buffers[self.buffer].cast(),
            batch: self.launch.sizes[self.size] as isize,
            row: stride(0),
            column: stride(1),
        };
        self.buffer += 1;
        self.size += 1 + inner;
        m
    }
}

/// # Safety
/// The elements exist.
unsafe fn load<T: Real>(from: Matrices<T>, i: usize, rows: usize, columns: usize, to: &mut [f64]) {
    for (p, x) in to[..rows * columns].iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *x = unsafe { from.at(i, p / columns, p % columns).read() }.wide();
    }
}
/// # Safety
/// The elements exist and are this thread's.
unsafe fn store<T: Copy>(
    to: Matrices<T>,
    i: usize,
    rows: usize,
    columns: usize,
    from: &[f64],
    turn: impl Fn(f64) -> T,
) {
    for (p, &x) in from[..rows * columns].iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.at(i, p / columns, p % columns).write(turn(x)) };
    }
}

struct FactorCode<T>(Factor, PhantomData<T>);

impl<T: Real> Code for FactorCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let [batch, m, n] = [0, 1, 2].map(|i| launch.sizes[i].max(0) as usize);
        let k = m.min(n);
        let mut buffers = Buffers { launch, buffer: 0, size: 3 };
        let x = buffers.next::<T>(2);
        match self.0 {
            Factor::Cholesky => {
                let (l, info) = (buffers.next::<T>(2), buffers.next::<i64>(0));
                // SAFETY: claims make the buffers as the sizes say; matrix `i` is one thread's.
                each_matrix(batch, n * n, |i, a| unsafe {
                    load(x, i, n, n, a);
                    let failed = dense::cholesky(a, n);
                    store(l, i, n, n, a, T::narrow);
                    info.at(i, 0, 0).write(failed as i64);
                });
            }
            Factor::Lu => {
                let (lu, pivots) = (buffers.next::<T>(2), buffers.next::<i64>(1));
                let (perm, info) = (buffers.next::<i64>(1), buffers.next::<i64>(0));
                // SAFETY: claims make the buffers as the sizes say; matrix `i` is one thread's.
                each_matrix(batch, m * n + k + m, |i, a| unsafe {
                    let (a, rest) = a.split_at_mut(m * n);
                    let (swaps, order) = rest.split_at_mut(k);
                    load(x, i, m, n, a);
                    let failed = dense::lu(a, m, n, swaps, order);
                    store(lu, i, m, n, a, T::narrow);
                    store(pivots, i, k, 1, swaps, |x| x as i64);
                    store(perm, i, m, 1, order, |x| x as i64);
                    info.at(i, 0, 0).write(failed as i64);
                });
            }
            Factor::Qr { full } => {
                let (q, r) = (buffers.next::<T>(2), buffers.next::<T>(2));
                let columns = if full { m } else { k };
                // SAFETY: claims make the buffers as the sizes say; matrix `i` is one thread's.
                each_matrix(batch, m * n + m * columns + k * m, |i, a| unsafe {
                    let (a, rest) = a.split_at_mut(m * n);
                    let (whole, reflections) = rest.split_at_mut(m * columns);
                    load(x, i, m, n, a);
                    dense::qr(a, m, n, whole, columns, reflections);
                    store(q, i, m, columns, whole, T::narrow);
                    store(r, i, columns, n, a, T::narrow);
                });
            }
            Factor::Eigh => {
                let (values, vectors) = (buffers.next::<T>(1), buffers.next::<T>(2));
                // SAFETY: claims make the buffers as the sizes say; matrix `i` is one thread's.
                each_matrix(batch, 2 * n * n + n, |i, a| unsafe {
                    let (a, rest) = a.split_at_mut(n * n);
                    let (v, w) = rest.split_at_mut(n * n);
                    load(x, i, n, n, a);
                    dense::eigh(a, n, w, v);
                    store(values, i, n, 1, w, T::narrow);
                    store(vectors, i, n, n, v, T::narrow);
                });
            }
            Factor::Svd { full } => {
                let (u, s, vt) = (buffers.next::<T>(2), buffers.next::<T>(1), buffers.next::<T>(2));
                // A tall matrix is the transpose of a wide one.
                let tall = m > n;
                let (l, rows) = (m.max(n), if full { m.max(n) } else { k });
                // SAFETY: claims make the buffers as the sizes say; matrix `i` is one thread's.
                each_matrix(batch, m * n + k * k + k + rows * l, |i, a| unsafe {
                    let (a, rest) = a.split_at_mut(m * n);
                    let (small, rest) = rest.split_at_mut(k * k);
                    let (values, long) = rest.split_at_mut(k);
                    let from = if tall { Matrices { row: x.column, column: x.row, ..x } } else { x };
                    load(from, i, k, l, a);
                    dense::svd_wide(a, k, l, small, values, long, rows);
                    store(s, i, k, 1, values, T::narrow);
                    if tall {
                        dense::turn_rows(long, rows, l, small, k);
                        store(Matrices { row: u.column, column: u.row, ..u }, i, rows, l, long, T::narrow);
                        store(Matrices { row: vt.column, column: vt.row, ..vt }, i, k, k, small, T::narrow);
                    } else {
                        dense::turn(small, k, long, rows, l);
                        dense::turn_rows(&mut long[k * l..], rows - k, l, &mut [], 0);
                        store(u, i, k, k, small, T::narrow);
                        store(vt, i, rows, l, long, T::narrow);
                    }
                });
            }
            Factor::Eig => unreachable!("load refuses it"),
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `f(i, scratch)` for each matrix of a batch.
fn each_matrix(batch: usize, numbers: usize, f: impl Fn(usize, &mut [f64]) + Sync) {
    let parts = pool::threads().min(batch).max(1);
    pool::run(parts, &|part| {
        with_scratch(numbers * size_of::<f64>(), |scratch| {
            // SAFETY: the scratch is ours, aligned, and long enough.
            let scratch = unsafe {
                std::ptr::write_bytes(scratch, 0, numbers * size_of::<f64>());
                std::slice::from_raw_parts_mut(scratch.cast::<f64>(), numbers)
            };
            (batch * part / parts..batch * (part + 1) / parts).for_each(|i| f(i, scratch));
        });
    });
}

impl NativeKernel for SolveKernel {
    fn name(&self) -> &'static str {
        "triangular_solve"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let &[dtype, upper, transpose, unit] = words.as_slice() else {
            return Err(malformed("triangular_solve", text));
        };
        let flags = [upper, transpose, unit].map(|w| w == "true");
        match DType::parse(dtype) {
            Some(DType::F32) => Ok(Arc::new(SolveCode::<f32>(flags, PhantomData))),
            Some(DType::F64) => Ok(Arc::new(SolveCode::<f64>(flags, PhantomData))),
            _ => Err(malformed("triangular_solve", text)),
        }
    }
}

struct SolveCode<T>([bool; 3], PhantomData<T>);

impl<T: Real> Code for SolveCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let [batch, n, k] = [0, 1, 2].map(|i| launch.sizes[i].max(0) as usize);
        let mut buffers = Buffers { launch, buffer: 0, size: 3 };
        let (a, b, x) = (buffers.next::<T>(2), buffers.next::<T>(2), buffers.next::<T>(2));
        let [upper, transpose, unit] = self.0;
        // SAFETY: as for `factor`.
        each_matrix(batch, n * n + n * k, |i, scratch| unsafe {
            let (matrix, rows) = scratch.split_at_mut(n * n);
            load(a, i, n, n, matrix);
            load(b, i, n, k, rows);
            dense::solve(matrix, rows, n, k, upper, transpose, unit);
            store(x, i, n, k, rows, T::narrow);
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl NativeKernel for CheckKernel {
    fn name(&self) -> &'static str {
        "check"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let size = text.split_whitespace().next().and_then(|w| w.parse().ok());
        Ok(Arc::new(CheckCode { bytes: size.ok_or_else(|| malformed("check", text))? }))
    }
}

struct CheckCode {
    bytes: usize,
}

impl Code for CheckCode {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let [count, conditions] = [0, 1].map(|i| launch.sizes[i].max(0) as usize);
        let [x_step, condition_step, y_step] = [2, 3, 4].map(|i| launch.sizes[i] as isize);
        let &[x, condition, y] = launch.buffers else { return };
        // SAFETY: claims make the buffers as the sizes say; one thread runs.
        unsafe {
            let fails = |i: usize| *condition.wrapping_offset(i as isize * condition_step) == 0;
            if (0..conditions).any(fails) {
                launch.error.report_check();
            }
            if x != y {
                for i in 0..count as isize {
                    let at = |p: *mut u8, step: isize| p.wrapping_offset(i * step * self.bytes as isize);
                    std::ptr::copy_nonoverlapping(at(x, x_step), at(y, y_step), self.bytes);
                }
            }
        }
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
