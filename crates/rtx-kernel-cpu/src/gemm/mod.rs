//! The claim's kernel `gemm`: batched matrix products of any strides, with an epilogue that runs on each block of C
//! while it is in cache.
//!
//! Text: `<dtype>` (f32, f64, i32, i64) or `bf16 f32` (A and B are bf16, C is f32: see [`half`]), then from the second line on the tile program of the epilogue, if any.
//! Buffers: A, B, C, then the epilogue's others. Sizes: see [`Product::parse`], then the epilogue's own.
//!
//! Numerics (contract N3), the same for every instruction set, stride and number of threads: an output is the sum of
//! its chunks of 512 products in ascending order, each chunk `acc = fma(a, b, acc)` from 0; with one row or one
//! column it is the 16-lane tree of [`gemv`]. Integers wrap. Without k it is 0.
mod blocked;
mod gemv;
mod half;
mod kernels;
mod pack;
mod product;
mod tile;

use crate::epilogue::{Epilogue, Rest};
pub(crate) use blocked::CHUNK;
use blocked::{Operands, rectangle};
pub(crate) use gemv::Gemv;
pub(crate) use kernels::{GemmNumber, Kernels};
pub(crate) use pack::{SLACK, Strip};
use product::Product;
pub use product::SIZES;
use rtx_core::{DType, Result};
use rtx_cpu::{isa, pool, with_scratch};
use rtx_hal::{Code, Device, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
pub(crate) use tile::Tile;

/// Products with fewer multiplications than this run in the calling thread.
const SPLIT_FROM: usize = 64 << 10;

/// See [`Form::has_few_rows`]: measured on 2 to 64 rows and columns of 64 to 3072 elements; with fewer elements or more
/// rows the packing is paid back.
const FEW_ROWS: usize = 16;
const LONG_COLUMNS: usize = 1024;

/// The kernel `gemm`.
pub struct Gemm;

impl NativeKernel for Gemm {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn load(&self, text: &str, device: &dyn Device) -> Result<Arc<dyn Code>> {
        let (dtype, epilogue) = text.split_once('\n').unwrap_or((text, ""));
        let epilogue = Epilogue::load(epilogue, device, 4)?;
        if dtype.trim() == "bf16 f32" {
            return Ok(Arc::new(GemmCode::<Bf16>::new(epilogue)));
        }
        match DType::parse(dtype.trim()) {
            Some(DType::F32) => Ok(Arc::new(GemmCode::<f32>::new(epilogue))),
            Some(DType::F64) => Ok(Arc::new(GemmCode::<f64>::new(epilogue))),
            Some(DType::I32) => Ok(Arc::new(GemmCode::<i32>::new(epilogue))),
            Some(DType::I64) => Ok(Arc::new(GemmCode::<i64>::new(epilogue))),
            _ => Err(malformed("gemm", text)),
        }
    }
}

struct GemmCode<T> {
    epilogue: Option<Epilogue>,
    of: PhantomData<T>,
}

impl<T> GemmCode<T> {
    fn new(epilogue: Option<Epilogue>) -> Self {
        Self { epilogue, of: PhantomData }
    }
}

/// How A and B lie in memory.
trait Operand: Send + Sync + 'static {
    /// See [`multiply`].
    unsafe fn multiply(product: &Product, buffers: [*mut u8; 3], done: &(dyn Fn(Part) + Sync));
}

impl<T: GemmNumber> Operand for T {
    unsafe fn multiply(product: &Product, [a, b, c]: [*mut u8; 3], done: &(dyn Fn(Part) + Sync)) {
        // SAFETY: the caller's promise.
        unsafe { multiply::<T>(product, a.cast(), b.cast(), c.cast(), done) }
    }
}

/// Pairs of bf16.
struct Bf16;

impl Operand for Bf16 {
    unsafe fn multiply(product: &Product, [a, b, c]: [*mut u8; 3], done: &(dyn Fn(Part) + Sync)) {
        // SAFETY: the caller's promise.
        unsafe { half::multiply(half::Pairs::of(isa()), product, a.cast(), b.cast(), c.cast(), done) }
    }
}

impl<T: Operand> Code for GemmCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let product = Product::parse(launch.sizes);
        let [a, b, c] = [launch.buffers[0], launch.buffers[1], launch.buffers[2]];
        let rest = Rest(Launch { buffers: &launch.buffers[2..], sizes: &launch.sizes[SIZES..], error: launch.error });
        let done = |part: Part| {
            let rest = &rest;
            if let Some(epilogue) = &self.epilogue {
                // SAFETY: the caller says that the buffers are what the sizes say; this part of C is final, and the
                // epilogue touches no other part.
                unsafe { epilogue.run_box(rest, &part.lo, &part.hi) }
            }
        };
        // SAFETY: the caller says that the buffers are what the sizes say.
        unsafe { T::multiply(&product, [a, b, c], &done) }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A part of C, per axis of `[b0, b1, m, n]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub lo: [i64; 4],
    pub hi: [i64; 4],
}

/// C = A·B. Calls `done` for each part of C when it is final, from the thread that computed it; the parts are apart
/// and together they are C.
///
/// # Safety
/// The pointers are good for what `product` says; C overlaps neither A nor B, and no two of its elements coincide.
pub(crate) unsafe fn multiply<T: GemmNumber>(
    product: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
    done: &(dyn Fn(Part) + Sync),
) {
    let kernels = T::kernels(isa());
    let form = Form::of(product);
    let [a, b] = if form.transposed { [b, a] } else { [a, b] };
    let memory = Memory { a, b, c };
    let threads = if product.work() < SPLIT_FROM { 1 } else { pool::threads() };
    let grid = Grid::of(&form, threads, kernels);
    pool::run(grid.parts(), &|part| {
        let memory = &memory;
        let (entry, rows, columns) = grid.part(part);
        // SAFETY: the caller's promise; parts of the grid are apart.
        unsafe { memory.run_part(&form, kernels, entry, rows, columns, done) }
    });
}

/// How a product is computed: turned so that the fast paths apply, which changes no sum.
struct Form {
    /// The product as the user's kernel names it.
    original: Product,
    /// The product that is computed.
    product: Product,
    /// Is it the transpose of the original?
    transposed: bool,
    /// Is it one row by the 16-lane tree?
    gemv: bool,
}

impl Form {
    fn of(original: &Product) -> Self {
        let gemv = original.is_gemv();
        let columns_first = original.c.column != 1 && original.c.row == 1;
        let transposed = if gemv { original.m != 1 } else { columns_first || Self::has_few_rows(original) };
        let turned = if transposed { original.transposed() } else { *original };
        let product = if gemv { turned } else { turned.with_batches_as_rows() };
        Self { original: *original, product, transposed, gemv }
    }

    /// Has A so few rows that B, whose columns lie along k, is better read where it lies than packed? Then A, the smaller
    /// one, is packed instead, and C is written a column at a time.
    fn has_few_rows(p: &Product) -> bool {
        let along_k = p.b.row == 1 && p.b.column != 1;
        along_k && p.k >= LONG_COLUMNS && p.with_batches_as_rows().m <= FEW_ROWS
    }

    fn entries(&self) -> usize {
        self.product.batch[0] * self.product.batch[1]
    }

    /// Calls `done` with the parts of the original C that are these rows and columns of the computed one.
    fn report(&self, entry: usize, rows: Range<usize>, columns: Range<usize>, done: &dyn Fn(Part)) {
        let (m, b1) = if self.transposed {
            (self.original.n, self.original.batch[1])
        } else {
            (self.original.m, self.original.batch[1])
        };
        let mut row = entry * self.product.m + rows.start;
        let end = entry * self.product.m + rows.end;
        while row < end {
            let (batch, i) = (row / m, row % m);
            let next = end.min((batch + 1) * m);
            let rows = i..i + (next - row);
            let [rows, columns] = if self.transposed { [columns.clone(), rows] } else { [rows, columns.clone()] };
            let (e0, e1) = (batch / b1, batch % b1);
            done(Part {
                lo: [e0, e1, rows.start, columns.start].map(|x| x as i64),
                hi: [e0 + 1, e1 + 1, rows.end, columns.end].map(|x| x as i64),
            });
            row = next;
        }
    }
}

/// A split of the batch entries' C into rectangles, which changes no sum.
struct Grid {
    entries: usize,
    rows: usize,
    columns: usize,
    row_parts: usize,
    column_parts: usize,
    row_step: usize,
    column_step: usize,
}

impl Grid {
    fn of<T>(form: &Form, threads: usize, kernels: &Kernels<T>) -> Self {
        let p = &form.product;
        let mut grid = Self {
            entries: form.entries(),
            rows: p.m,
            columns: p.n,
            row_parts: 1,
            column_parts: 1,
            row_step: kernels.rows,
            column_step: kernels.lanes,
        };
        let even = grid.entries.is_multiple_of(threads) || grid.entries >= 4 * threads;
        if !even {
            grid.split(threads);
        }
        grid
    }

    /// Splits one entry for `threads` threads so that the largest part has the least to compute and to pack.
    fn split(&mut self, threads: usize) {
        let cost = |row_parts: usize| {
            let rows = self.rows.div_ceil(self.row_step).div_ceil(row_parts) * self.row_step;
            let columns = self.columns.div_ceil(self.column_step).div_ceil(threads / row_parts) * self.column_step;
            rows.min(self.rows) * columns.min(self.columns) + 8 * (rows + columns)
        };
        let divisors = (1..=threads).filter(|d| threads.is_multiple_of(*d));
        self.row_parts = divisors.min_by_key(|d| cost(*d)).unwrap_or(1);
        self.column_parts = threads / self.row_parts;
    }

    fn parts(&self) -> usize {
        let empty = self.rows == 0 || self.columns == 0;
        if empty { 0 } else { self.entries * self.row_parts * self.column_parts }
    }

    /// A part's batch entry, rows and columns.
    fn part(&self, part: usize) -> (usize, Range<usize>, Range<usize>) {
        let (rest, column) = (part / self.column_parts, part % self.column_parts);
        let (entry, row) = (rest / self.row_parts, rest % self.row_parts);
        (
            entry,
            cut(self.rows, self.row_step, row, self.row_parts),
            cut(self.columns, self.column_step, column, self.column_parts),
        )
    }
}

/// Piece `index` of `parts` of `0..size`, cut at multiples of `step`.
fn cut(size: usize, step: usize, index: usize, parts: usize) -> Range<usize> {
    let steps = size.div_ceil(step);
    let at = |i: usize| (steps * i / parts * step).min(size);
    at(index)..at(index + 1)
}

/// Where the operands of the computed product start.
struct Memory<T> {
    a: *const T,
    b: *const T,
    c: *mut T,
}
// SAFETY: threads write disjoint parts of C and only read A and B.
unsafe impl<T: Sync> Sync for Memory<T> {}

impl<T: GemmNumber> Memory<T> {
    unsafe fn run_part(
        &self,
        form: &Form,
        kernels: &'static Kernels<T>,
        entry: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        done: &dyn Fn(Part),
    ) {
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        let p = &form.product;
        let (e0, e1) = ((entry / p.batch[1]) as isize, (entry % p.batch[1]) as isize);
        let at = |batch: [isize; 2]| e0 * batch[0] + e1 * batch[1];
        let operands = Operands {
            product: p,
            a: self.a.wrapping_offset(at(p.a.batch)),
            b: self.b.wrapping_offset(at(p.b.batch)),
            c: self.c.wrapping_offset(at(p.c.batch)),
        };
        // SAFETY: the caller's promise.
        unsafe {
            if form.gemv {
                run_gemv(kernels, operands, columns.clone());
                form.report(entry, rows, columns, done);
            } else {
                let report = |rows, columns| form.report(entry, rows, columns, done);
                rectangle(kernels, operands, rows, columns, &report);
            }
        }
    }
}

/// One row of C, the columns given.
unsafe fn run_gemv<T: GemmNumber>(kernels: &'static Kernels<T>, operands: Operands<'_, T>, columns: Range<usize>) {
    let p = operands.product;
    let first = columns.start as isize;
    let run = |x: *const T| {
        let g = Gemv {
            k: p.k,
            n: columns.len(),
            x,
            w: operands.b.wrapping_offset(first * p.b.column),
            w_k: p.b.row,
            w_n: p.b.column,
            y: operands.c.wrapping_offset(first * p.c.column),
            y_n: p.c.column,
        };
        // SAFETY: the caller's promise; `x` has k elements next to each other.
        unsafe { (kernels.gemv)(&g) }
    };
    if p.a.column == 1 {
        return run(operands.a);
    }
    with_scratch(p.k * size_of::<T>(), |scratch| {
        let x = scratch.cast::<T>();
        for k in 0..p.k {
            // SAFETY: A has k columns, the scratch room for k elements.
            unsafe { x.add(k).write(operands.a.wrapping_offset(k as isize * p.a.column).read()) }
        }
        run(x)
    });
}

#[cfg(test)]
mod tests;
