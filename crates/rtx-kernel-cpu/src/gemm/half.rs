//! Products of bf16 matrices, summed in f32 two products a step.
//!
//! Numerics (contract N3), the same for every instruction set, stride and number of threads. k is cut in chunks of 512,
//! a chunk in pairs. From 0, a pair adds `fma(a[2p + 1], b[2p + 1], acc)` and then `fma(a[2p], b[2p], acc)`; an odd last
//! element has a zero as its partner. Chunks are added in ascending order. In all of it denormal operands count as
//! zeros of their sign, and so do denormal results. That is what the instruction `vdpbf16ps` does (Intel, Software
//! Developer's Manual, volume 2), and what others reach with two fmas while denormals are switched off. One row or one
//! column is widened and summed as f32.
use super::blocked::{COLUMNS, block_rows, run_apart};
use super::product::Strides;
use super::*;
use crate::simd::{Number, Vector, odd_through_f64};
use rtx_cpu::Isa;
use std::sync::OnceLock;
use tile::{TileFn, tile};

/// How an instruction set sums pairs: its tiles, which have the shapes of its f32 tiles.
#[derive(Clone, Copy)]
pub(super) struct Pairs {
    /// The instruction set.
    pub isa: Isa,
    tiles: &'static [&'static [TileFn<f32>]],
}

/// Every way that this machine has, the best for each instruction set last.
#[cfg(test)]
pub(super) fn ways() -> Vec<Pairs> {
    let mut all: Vec<Pairs> = Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect()).map(Pairs::by_fma).collect();
    all.extend(Pairs::by_instruction(Isa::detect()));
    all
}

impl Pairs {
    /// The fastest way of an instruction set.
    pub fn of(isa: Isa) -> Self {
        static BEST: [OnceLock<Pairs>; 3] = [const { OnceLock::new() }; 3];
        *BEST[isa as usize].get_or_init(|| Self::by_instruction(isa).unwrap_or_else(|| Self::by_fma(isa)))
    }

    #[cfg(target_arch = "x86_64")]
    fn by_instruction(isa: Isa) -> Option<Self> {
        (isa == Isa::Avx512 && is_x86_feature_detected!("avx512bf16")).then_some(Self { isa, tiles: x86::bf16::TILES })
    }
    #[cfg(target_arch = "x86_64")]
    fn by_fma(isa: Isa) -> Self {
        let tiles = match isa {
            Isa::Scalar => scalar::TILES,
            Isa::Avx2 => x86::avx2::TILES,
            Isa::Avx512 => x86::avx512::TILES,
        };
        Self { isa, tiles }
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn by_instruction(_: Isa) -> Option<Self> {
        None
    }
    #[cfg(not(target_arch = "x86_64"))]
    fn by_fma(isa: Isa) -> Self {
        Self { isa, tiles: scalar::TILES }
    }
}

/// C = A·B with A and B in bf16 and C in f32; see [`super::multiply`].
///
/// # Safety
/// As for [`super::multiply`].
pub(super) unsafe fn multiply(
    pairs: Pairs,
    product: &Product,
    a: *const u16,
    b: *const u16,
    c: *mut f32,
    done: &(dyn Fn(Part) + Sync),
) {
    if product.is_gemv() {
        // SAFETY: the caller's promise.
        return unsafe { multiply_widened(product, a, b, c, done) };
    }
    let kernels = f32::kernels(pairs.isa);
    let form = Form::of(product);
    let [a, b] = if form.transposed { [b, a] } else { [a, b] };
    let memory = Halves { a, b, c };
    let threads = if product.work() < SPLIT_FROM { 1 } else { pool::threads() };
    let grid = Grid::of(&form, threads, kernels);
    pool::run(grid.parts(), &|part| {
        let (memory, p) = (&memory, &form.product);
        let (entry, rows, columns) = grid.part(part);
        if rows.is_empty() || columns.is_empty() {
            return;
        }
        let (e0, e1) = ((entry / p.batch[1]) as isize, (entry % p.batch[1]) as isize);
        let at = |batch: [isize; 2]| e0 * batch[0] + e1 * batch[1];
        let entry_of = Halves {
            a: memory.a.wrapping_offset(at(p.a.batch)),
            b: memory.b.wrapping_offset(at(p.b.batch)),
            c: memory.c.wrapping_offset(at(p.c.batch)),
        };
        let report = |rows, columns| form.report(entry, rows, columns, done);
        // SAFETY: the caller's promise; parts of the grid are apart.
        unsafe { rectangle(pairs, kernels, p, &entry_of, rows, columns, &report) }
    });
}

/// Where the operands start.
struct Halves {
    a: *const u16,
    b: *const u16,
    c: *mut f32,
}
// SAFETY: threads write disjoint parts of C and only read A and B.
unsafe impl Sync for Halves {}

/// Both operands widened to f32 beside, then as f32.
unsafe fn multiply_widened(product: &Product, a: *const u16, b: *const u16, c: *mut f32, done: &(dyn Fn(Part) + Sync)) {
    let Product { batch, m, n, k, .. } = *product;
    let entries = |s: &Strides| (0..2).map(|i| if s.batch[i] == 0 { 1 } else { batch[i] }).product::<usize>();
    let (a_len, b_len) = (entries(&product.a) * m * k, entries(&product.b) * k * n);
    with_scratch((a_len + b_len) * size_of::<f32>(), |scratch| {
        let a_wide = scratch.cast::<f32>();
        let b_wide = a_wide.wrapping_add(a_len);
        // SAFETY: the operands are what the product says, and the scratch has room for both.
        unsafe {
            let wide = Product {
                a: widen(batch, [m, k], &product.a, a, a_wide),
                b: widen(batch, [k, n], &product.b, b, b_wide),
                ..*product
            };
            super::multiply::<f32>(&wide, a_wide, b_wide, c, done)
        }
    })
}

/// Copies a batch of matrices as f32, rows one after the other; gives the copy's strides.
unsafe fn widen(
    batch: [usize; 2],
    [rows, columns]: [usize; 2],
    s: &Strides,
    from: *const u16,
    to: *mut f32,
) -> Strides {
    let count = |i: usize| if s.batch[i] == 0 { 1 } else { batch[i] };
    let mut at = 0;
    for e0 in 0..count(0) {
        for e1 in 0..count(1) {
            for i in 0..rows {
                let row = e0 as isize * s.batch[0] + e1 as isize * s.batch[1] + i as isize * s.row;
                for j in 0..columns {
                    // SAFETY: the element lies in the operand, `at` below the copy's length.
                    unsafe {
                        let x = from.wrapping_offset(row + j as isize * s.column).read();
                        to.add(at).write(f32::from_bits(u32::from(x) << 16));
                    }
                    at += 1;
                }
            }
        }
    }
    let step = |i: usize, size: usize| if s.batch[i] == 0 { 0 } else { size as isize };
    let inner = rows * columns;
    Strides { batch: [step(0, count(1) * inner), step(1, inner)], row: columns as isize, column: 1 }
}

/// A rectangle of C with what it takes to compute it: the loops of `blocked`, over pairs.
struct Work<'a> {
    pairs: Pairs,
    kernels: &'static Kernels<f32>,
    product: &'a Product,
    memory: &'a Halves,
    rows: Range<usize>,
    a_packed: *mut f32,
    b_packed: *mut f32,
}

unsafe fn rectangle(
    pairs: Pairs,
    kernels: &'static Kernels<f32>,
    product: &Product,
    memory: &Halves,
    rows: Range<usize>,
    columns: Range<usize>,
    done: &dyn Fn(Range<usize>, Range<usize>),
) {
    let depth = product.k.min(CHUNK).div_ceil(2);
    let a_elements = block_rows::<f32>().min(rows.len().next_multiple_of(kernels.rows)) * depth + SLACK;
    let b_elements = COLUMNS.min(columns.len().next_multiple_of(kernels.columns)) * depth + SLACK;
    with_scratch((a_elements.next_multiple_of(16) + b_elements) * size_of::<f32>(), |scratch| {
        let a_packed = scratch.cast::<f32>();
        let b_packed = a_packed.wrapping_add(a_elements.next_multiple_of(16));
        let work = Work { pairs, kernels, product, memory, rows, a_packed, b_packed };
        // SAFETY: the caller's promise, and the scratch has room for one block of A and the strips of one chunk of B.
        unsafe { work.run(columns, done) }
    })
}

impl Work<'_> {
    unsafe fn run(&self, columns: Range<usize>, done: &dyn Fn(Range<usize>, Range<usize>)) {
        let k = self.product.k;
        for j0 in columns.clone().step_by(COLUMNS) {
            let columns = j0..(j0 + COLUMNS).min(columns.end);
            for p0 in (0..k.max(1)).step_by(CHUNK) {
                let steps = p0..(p0 + CHUNK).min(k);
                for i0 in self.rows.clone().step_by(block_rows::<f32>()) {
                    let rows = i0..(i0 + block_rows::<f32>()).min(self.rows.end);
                    // SAFETY: the caller's promise.
                    unsafe { self.block(&rows, &columns, &steps) }
                    if steps.end == k {
                        done(rows, columns.clone());
                    }
                }
            }
        }
    }

    /// One block of rows over one chunk of k.
    unsafe fn block(&self, rows: &Range<usize>, columns: &Range<usize>, steps: &Range<usize>) {
        let (a, b, p0) = (self.product.a, self.product.b, steps.start as isize);
        let depth = steps.len().div_ceil(2);
        let pack = self.kernels.pack;
        let from = self.memory.a.wrapping_offset(rows.start as isize * a.row + p0 * a.column);
        let strip = Strip {
            from,
            along: a.column,
            across: a.row,
            depth: steps.len(),
            count: rows.len(),
            width: 0,
            to: std::ptr::null_mut(),
        };
        // SAFETY: the rows and steps lie in A, and the scratch has room for a block.
        unsafe { pack_pairs(&Strip { width: self.kernels.rows, ..strip }, self.a_packed, pack) }
        let mut j = columns.start;
        while j < columns.end {
            let width = self.kernels.panel_width(columns.end - j);
            let (to, padded) =
                (self.b_packed.wrapping_add((j - columns.start) * depth), width.next_multiple_of(self.kernels.lanes));
            if rows.start == self.rows.start {
                let from = self.memory.b.wrapping_offset(p0 * b.row + j as isize * b.column);
                let strip = Strip { from, along: b.row, across: b.column, count: width, width: padded, ..strip };
                // SAFETY: the strip lies in B, and its place in the scratch.
                unsafe { pack_pairs(&strip, to, pack) }
            }
            for i in rows.clone().step_by(self.kernels.rows) {
                let tile = Tile {
                    depth,
                    a: self.a_packed.wrapping_add((i - rows.start) * depth),
                    a_row: 0,
                    a_step: 0,
                    b: to,
                    b_step: padded as isize,
                    c: self
                        .memory
                        .c
                        .wrapping_offset(i as isize * self.product.c.row + j as isize * self.product.c.column),
                    c_row: self.product.c.row,
                    columns: width,
                    add: steps.start > 0,
                };
                let height = self.kernels.rows.min(rows.end - i);
                let run = self.pairs.tiles[width.div_ceil(self.kernels.lanes) - 1][height - 1];
                let apart = self.product.c.column;
                // SAFETY: the operands hold the tile; the tiles are for this machine.
                without_denormals(|| unsafe {
                    if apart == 1 { run(&tile) } else { run_apart(&tile, height, apart, run) }
                });
            }
            j += width;
        }
    }
}

/// Packs a strip as pairs: element `j` of pair `p` at `to + p·width + j`, the even step in the low half. A strip that
/// counts more than `width` elements becomes several, one after the other. `pack` moves whole pairs.
///
/// # Safety
/// The pointers are good for what the strip says; `to` has room for the pairs and [`SLACK`] more.
unsafe fn pack_pairs(s: &Strip<u16>, to: *mut f32, pack: pack::PackFn<f32>) {
    let whole = s.depth.is_multiple_of(2) && s.along == 1 && s.across % 2 == 0 && s.from.addr().is_multiple_of(4);
    if whole {
        // Pairs lie in memory as they are packed.
        let (from, across) = (s.from.cast::<f32>(), s.across / 2);
        let strip = Strip { from, along: 1, across, depth: s.depth / 2, count: s.count, width: s.width, to };
        // SAFETY: the caller's promise.
        return unsafe { pack(&strip) };
    }
    let (depth, zeros) = (s.depth.div_ceil(2), 0u16);
    for first in (0..s.count).step_by(s.width) {
        let count = s.width.min(s.count - first);
        let to = to.wrapping_add(first * depth).cast::<u32>();
        for p in 0..depth {
            let even = s.from.wrapping_offset(2 * p as isize * s.along + first as isize * s.across);
            let has_odd = 2 * p + 1 < s.depth;
            let odd = if has_odd { even.wrapping_offset(s.along) } else { &raw const zeros };
            let odd_across = if has_odd { s.across } else { 0 };
            let to = to.wrapping_add(p * s.width);
            // SAFETY: the caller's promise: both steps have `count` elements, or the zero stands for all of the odd one.
            unsafe {
                if s.across == 1 && has_odd {
                    (0..count).for_each(|j| to.add(j).write(u32::from(*even.add(j)) | u32::from(*odd.add(j)) << 16));
                } else {
                    for j in 0..count {
                        let low = *even.offset(j as isize * s.across);
                        let high = *odd.offset(j as isize * odd_across);
                        to.add(j).write(u32::from(low) | u32::from(high) << 16);
                    }
                }
                (count..s.width).for_each(|j| to.add(j).write(0));
            }
        }
    }
}

/// Runs `f`, which the compiler must not inline, with denormal operands and results as zeros.
#[cfg(target_arch = "x86_64")]
fn without_denormals(f: impl FnOnce()) {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            set(self.0);
        }
    }
    fn set(value: u32) {
        // SAFETY: reads four bytes: a control word that was there before, with or without two bits that exist.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
    }
    const FLUSH_TO_ZERO: u32 = 1 << 15;
    const DENORMALS_ARE_ZEROS: u32 = 1 << 6;
    let mut before = 0u32;
    // SAFETY: stores four bytes into `before`.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut before, options(nostack, preserves_flags)) };
    set(before | FLUSH_TO_ZERO | DENORMALS_ARE_ZEROS);
    let _restore = Restore(before);
    f();
}

/// Other machines: [`Spelled`] leaves no denormals.
#[cfg(not(target_arch = "x86_64"))]
fn without_denormals(f: impl FnOnce()) {
    f();
}

/// A vector of f32 sums, and of pairs in the bits of f32, by another vector's loads and stores.
macro_rules! pairs_in {
    ($Name:ident, $V:ty, ($x:ident, $by:ident, $plus:ident) => $dot:expr, ($l:ident, $r:ident) => $sum:expr) => {
        #[derive(Clone, Copy)]
        struct $Name($V);
        // SAFETY: each method is the other vector's, or arithmetic.
        unsafe impl Vector for $Name {
            type T = f32;
            const LANES: usize = <$V>::LANES;
            const SQUARE: usize = <$V>::SQUARE;
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { <$V>::zero() })
            }
            #[inline(always)]
            unsafe fn splat(x: f32) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { <$V>::splat(x) })
            }
            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { <$V>::load(from) })
            }
            #[inline(always)]
            unsafe fn load_part(from: *const f32, n: usize) -> Self {
                // SAFETY: the caller's promise.
                Self(unsafe { <$V>::load_part(from, n) })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { self.0.store(to) }
            }
            #[inline(always)]
            unsafe fn store_part(self, to: *mut f32, n: usize) {
                // SAFETY: the caller's promise.
                unsafe { self.0.store_part(to, n) }
            }
            /// Adds the products of two pairs.
            #[inline(always)]
            unsafe fn fma(self, by: Self, plus: Self) -> Self {
                let ($x, $by, $plus) = (self.0, by.0, plus.0);
                // SAFETY: register arithmetic of the set that the caller has.
                Self(unsafe { $dot })
            }
            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                let ($l, $r) = (self.0, other.0);
                // SAFETY: as above.
                Self(unsafe { $sum })
            }
            #[inline(always)]
            unsafe fn sum_halves(self) -> f32 {
                // SAFETY: as above.
                unsafe { self.0.sum_halves() }
            }
            #[inline(always)]
            unsafe fn transpose(from: *const f32, from_row: isize, rows: usize, to: *mut f32, to_row: usize) {
                // SAFETY: the caller's promise.
                unsafe { <$V>::transpose(from, from_row, rows, to, to_row) }
            }
        }
    };
}

/// The tiles of a vector of pairs, in the shapes of the f32 tiles of its instruction set.
macro_rules! tiles {
    ($module:ident: $V:ty, $wide:literal rows of $rows:tt, widths [$($nv:literal)*], $($features:literal)?) => {
        pub(super) mod $module {
            use super::*;
            $(#[target_feature(enable = $features)])?
            unsafe fn tile_of<const MR: usize, const NV: usize>(t: &Tile<f32>) {
                // SAFETY: the caller's promise.
                unsafe { tile::<$V, MR, NV, $wide, true>(t) }
            }
            pub(crate) const TILES: &[&[TileFn<f32>]] = &[$(tiles!(@ $nv $rows)),*];
        }
    };
    (@ $nv:literal [$($mr:literal)*]) => { &[$(tile_of::<$mr, $nv>),*] };
}

use crate::simd::Scalars;
pairs_in!(Spelled, Scalars<f32>, (x, by, plus) => spelled_dot(x, by, plus), (l, r) => spelled_sum(l, r));
tiles!(scalar: Spelled, 4 rows of [1 2 3 4], widths [1 2],);

/// Denormals as zeros of their sign.
#[inline(always)]
fn flushed(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0f32.copysign(x) } else { x }
}

/// `fma(a, b, c)` of numbers that are no denormals, rounded as if there were no smallest exponent, and flushed.
#[inline(always)]
fn flushed_fma(a: f32, b: f32, c: f32) -> f32 {
    // What is at least half a last place below the smallest normal number rounds up to it.
    const LEAST: f64 = f32::MIN_POSITIVE as f64 * (1.0 - 1.0 / (1u64 << 25) as f64);
    let sum = odd_through_f64(a, b, c);
    if sum.abs() < LEAST { 0f64.copysign(sum) as f32 } else { sum as f32 }
}

#[inline(always)]
unsafe fn spelled_dot(x: Scalars<f32>, by: Scalars<f32>, plus: Scalars<f32>) -> Scalars<f32> {
    let half = |x: f32, shift: u32| flushed(f32::from_bits((x.to_bits() << shift) & 0xffff_0000));
    let each = |l: usize| {
        let odd = flushed_fma(half(x.0[l], 0), half(by.0[l], 0), plus.0[l]);
        flushed_fma(half(x.0[l], 16), half(by.0[l], 16), odd)
    };
    Scalars(std::array::from_fn(each))
}

#[inline(always)]
unsafe fn spelled_sum(l: Scalars<f32>, r: Scalars<f32>) -> Scalars<f32> {
    Scalars(std::array::from_fn(|i| flushed(l.0[i].plus(r.0[i]))))
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::simd::{F32x8, F32x16};
    use std::arch::x86_64::*;

    pairs_in!(Dot16, F32x16, (x, by, plus) => {
        F32x16(_mm512_dpbf16_ps(plus.0, std::mem::transmute::<__m512, __m512bh>(x.0), std::mem::transmute::<__m512, __m512bh>(by.0)))
    }, (l, r) => l.plus(r));
    pairs_in!(Fma16, F32x16, (x, by, plus) => {
        let (x, by) = (_mm512_castps_si512(x.0), _mm512_castps_si512(by.0));
        let odd = |x| _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(0xffff_0000u32 as i32)));
        let even = |x| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(x));
        F32x16(_mm512_fmadd_ps(even(x), even(by), _mm512_fmadd_ps(odd(x), odd(by), plus.0)))
    }, (l, r) => l.plus(r));
    pairs_in!(Fma8, F32x8, (x, by, plus) => {
        let (x, by) = (_mm256_castps_si256(x.0), _mm256_castps_si256(by.0));
        let odd = |x| _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32(0xffff_0000u32 as i32)));
        let even = |x| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(x));
        F32x8(_mm256_fmadd_ps(even(x), even(by), _mm256_fmadd_ps(odd(x), odd(by), plus.0)))
    }, (l, r) => l.plus(r));

    tiles!(avx2: Fma8, 6 rows of [1 2 3 4 5 6], widths [1 2], "avx2,fma");
    tiles!(avx512: Fma16, 8 rows of [1 2 3 4 5 6 7 8], widths [1 2 3], "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
    tiles!(bf16: Dot16, 8 rows of [1 2 3 4 5 6 7 8], widths [1 2 3], "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
}
