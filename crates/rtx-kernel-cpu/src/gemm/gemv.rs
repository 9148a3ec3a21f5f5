//! One row times a matrix: `y[j] = Σ x[k] · w[k, j]` by the 16-lane tree of contract N3.
//!
//! Element k goes to lane k mod 16 within a block of 4096; at a block's end lanes combine by halves, and blocks
//! combine pairwise.
use super::tile::{prefetch, prefetch_l2};
use crate::simd::{Number, Vector};
use std::mem::MaybeUninit;

/// Lanes of the tree.
pub(crate) const LANES: usize = 16;
/// Elements of one block of the tree.
pub(crate) const BLOCK: usize = 4096;
/// Dot products that are computed together where rows of k lie in memory one after the other.
const TOGETHER: usize = 4;
/// The same where one vector holds all lanes of a row, so that registers are left.
const MORE_TOGETHER: usize = 8;
/// Lanes that one pass over a block of columns sums.
const PASS: usize = 4;
/// Vectors of columns that are summed together.
const WIDE: usize = 4;
/// Bytes of a row that are streamed together at most and at least, and rows from which that pays. Measured on 64 MB of
/// f32: 2, 4 and 8 KB read 31, 40 and 41 GB/s on one core.
const STREAM_BYTES: usize = 4096;
const STREAM_BYTES_LEAST: usize = 1024;
const STREAM_FROM: usize = 256;
/// Rows that a lane takes together while it streams: each a stream of its own for the memory (4 rows: 33 GB/s).
const ABREAST: usize = 8;
/// How far ahead of a row of columns another is asked for.
const AHEAD_ROWS: isize = 16;
/// How far ahead of a dot product its row is asked for.
const AHEAD_BYTES: usize = 1024;

/// A run of outputs. Strides are in elements.
#[derive(Clone, Copy)]
pub(crate) struct Gemv<T> {
    /// How many products each output sums.
    pub k: usize,
    /// How many outputs.
    pub n: usize,
    /// `k` elements next to each other.
    pub x: *const T,
    /// Element (k, j) at `w + k·w_k + j·w_n`.
    pub w: *const T,
    pub w_k: isize,
    pub w_n: isize,
    /// Output j at `y + j·y_n`.
    pub y: *mut T,
    pub y_n: isize,
}

/// A gemv compiled for one instruction set.
pub(crate) type GemvFn<T> = unsafe fn(&Gemv<T>);

/// Computes the outputs by the fastest way that the strides allow; every way gives the same bits. ROW vectors hold
/// the lanes of the tree.
///
/// # Safety
/// The pointers of `g` are good for what its fields say, and the machine has the vector's instruction set.
#[inline(always)]
pub(crate) unsafe fn gemv<V: Vector, const ROW: usize>(g: &Gemv<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        if g.w_k == 1 {
            gemv_dots::<V, ROW>(g)
        } else if g.w_n == 1 {
            gemv_columns::<V>(g)
        } else {
            gemv_elements(g)
        }
    }
}

/// k is contiguous: lanes of the tree are lanes of vectors.
#[inline(always)]
unsafe fn gemv_dots<V: Vector, const ROW: usize>(g: &Gemv<V::T>) {
    let mut j = 0;
    // SAFETY: the caller's promise; `j` and the outputs computed with it stay below `n`.
    unsafe {
        while ROW == 1 && j + MORE_TOGETHER <= g.n {
            dots::<V, ROW, MORE_TOGETHER>(g, j);
            j += MORE_TOGETHER;
        }
        while j + TOGETHER <= g.n {
            dots::<V, ROW, TOGETHER>(g, j);
            j += TOGETHER;
        }
        while j < g.n {
            dots::<V, ROW, 1>(g, j);
            j += 1;
        }
    }
}

/// Outputs `j .. j + R`.
#[inline(always)]
unsafe fn dots<V: Vector, const ROW: usize, const R: usize>(g: &Gemv<V::T>, j: usize) {
    let y = if g.k <= BLOCK {
        // SAFETY: the caller's promise.
        unsafe { block_of_dots::<V, ROW, R>(g, j, 0) }
    } else {
        let mut sums: [Pairwise<V::T>; R] = std::array::from_fn(|_| Pairwise::new());
        for k0 in (0..g.k).step_by(BLOCK) {
            // SAFETY: the caller's promise.
            let sum = unsafe { block_of_dots::<V, ROW, R>(g, j, k0) };
            for r in 0..R {
                sums[r].push(sum[r], Number::plus);
            }
        }
        std::array::from_fn(|r| sums[r].total(Number::plus).unwrap_or(V::T::ZERO))
    };
    for r in 0..R {
        // SAFETY: output `j + r` is below `n`.
        unsafe { g.y.offset((j + r) as isize * g.y_n).write(y[r]) }
    }
}

/// Sums over the block of k from `k0` of the rows `j .. j + R`. A row's lanes take ROW vectors.
#[inline(always)]
unsafe fn block_of_dots<V: Vector, const ROW: usize, const R: usize>(g: &Gemv<V::T>, j: usize, k0: usize) -> [V::T; R] {
    const { assert!(ROW * V::LANES == LANES) };
    let (x, depth) = (g.x.wrapping_add(k0), BLOCK.min(g.k - k0));
    let mut rows = [g.w; R];
    for r in 0..R {
        rows[r] = g.w.wrapping_offset((j + r) as isize * g.w_n).wrapping_add(k0);
    }
    let whole = depth / LANES * LANES;
    // SAFETY: every load and store lies below `depth`.
    unsafe {
        let mut acc = [[V::zero(); ROW]; R];
        for k in (0..whole).step_by(LANES) {
            for r in 0..R {
                prefetch_l2(rows[r].wrapping_add(k + AHEAD_BYTES / size_of::<V::T>()));
            }
            for v in 0..ROW {
                let xs = V::load(x.add(k + v * V::LANES));
                for r in 0..R {
                    acc[r][v] = xs.fma(V::load(rows[r].add(k + v * V::LANES)), acc[r][v]);
                }
            }
        }
        let left = depth - whole;
        if left > 0 {
            let x = x.add(whole);
            let mut sums = [V::T::ZERO; R];
            for r in 0..R {
                sums[r] = sum_with_rest::<V, ROW>(&acc[r], x, rows[r].add(whole), left);
            }
            return sums;
        }
        let mut half = ROW / 2;
        while half > 0 {
            for r in 0..R {
                for v in 0..half {
                    acc[r][v] = acc[r][v].plus(acc[r][v + half]);
                }
            }
            half /= 2;
        }
        let mut sums = [V::T::ZERO; R];
        for r in 0..R {
            sums[r] = acc[r][0].sum_halves();
        }
        sums
    }
}

/// The sum of one row's lanes after `left` more elements.
#[inline(always)]
unsafe fn sum_with_rest<V: Vector, const ROW: usize>(
    acc: &[V; ROW],
    x: *const V::T,
    row: *const V::T,
    left: usize,
) -> V::T {
    let mut lanes = [V::T::ZERO; LANES];
    // SAFETY: the caller's promise: `left` elements, fewer than there are lanes.
    unsafe {
        for v in 0..ROW {
            acc[v].store(lanes.as_mut_ptr().add(v * V::LANES));
        }
        for l in 0..left {
            lanes[l] = x.add(l).read().fma(row.add(l).read(), lanes[l]);
        }
    }
    combine_lanes(lanes)
}

/// Outputs are contiguous: each lane of the tree is a vector of outputs.
#[inline(always)]
unsafe fn gemv_columns<V: Vector>(g: &Gemv<V::T>) {
    let mut j = 0;
    // SAFETY: the caller's promise; columns `j .. j + columns` are below `n`.
    unsafe {
        let (most, least) = (STREAM_BYTES / size_of::<V::T>(), STREAM_BYTES_LEAST / size_of::<V::T>());
        if (STREAM_FROM..=BLOCK).contains(&g.k) {
            while j + least <= g.n {
                let wide = most.min((g.n - j) / least * least);
                stream::<V>(g, j, wide);
                j += wide;
            }
        }
        while j + WIDE * V::LANES <= g.n {
            columns::<V, WIDE, false>(g, j, V::LANES);
            j += WIDE * V::LANES;
        }
        while j < g.n {
            columns::<V, 1, true>(g, j, V::LANES.min(g.n - j));
            j += V::LANES;
        }
    }
}

/// `wide` outputs from `j` on: rows are read front to back, [`ABREAST`] of them that a lane takes one after the other,
/// and the lanes' sums stay in cache. The rows after them are asked for into the second cache: asking the first one for
/// them halves the rate.
#[inline(always)]
unsafe fn stream<V: Vector>(g: &Gemv<V::T>, j: usize, wide: usize) {
    let mut sums = [const { MaybeUninit::<V::T>::uninit() }; LANES * STREAM_BYTES / 4];
    let sums = sums.as_mut_ptr().cast::<V::T>();
    let w = g.w.wrapping_add(j);
    // SAFETY: the caller's promise; the sums have a row of `wide` for each lane.
    unsafe {
        for i in (0..LANES * wide).step_by(V::LANES) {
            V::zero().store(sums.add(i));
        }
        let mut k = 0;
        while k + LANES * ABREAST <= g.k {
            for l in 0..LANES {
                let (row, sum) = (w.wrapping_offset((k + l) as isize * g.w_k), sums.add(l * wide));
                // The rows that come next: the next lane's, or the first lane's after those.
                let next = if l + 1 < LANES { g.w_k } else { (LANES * (ABREAST - 1) + 1) as isize * g.w_k };
                let mut xs = [V::zero(); ABREAST];
                for r in 0..ABREAST {
                    xs[r] = V::splat(*g.x.add(k + l + LANES * r));
                }
                for i in (0..wide).step_by(V::LANES) {
                    let mut acc = V::load(sum.add(i));
                    for r in 0..ABREAST {
                        let from = row.wrapping_offset((LANES * r) as isize * g.w_k).wrapping_add(i);
                        prefetch_l2(from.wrapping_offset(next));
                        acc = xs[r].fma(V::load(from), acc);
                    }
                    acc.store(sum.add(i));
                }
            }
            k += LANES * ABREAST;
        }
        for k in k..g.k {
            let (row, sum) = (w.wrapping_offset(k as isize * g.w_k), sums.add(k % LANES * wide));
            let x = V::splat(*g.x.add(k));
            for i in (0..wide).step_by(V::LANES) {
                x.fma(V::load(row.wrapping_add(i)), V::load(sum.add(i))).store(sum.add(i));
            }
        }
        for half in [8, 4, 2, 1] {
            for i in (0..half * wide).step_by(V::LANES) {
                V::load(sums.add(i)).plus(V::load(sums.add(i + half * wide))).store(sums.add(i));
            }
        }
        for i in (0..wide).step_by(V::LANES) {
            put::<V>(V::load(sums.add(i)), g, j + i, V::LANES);
        }
    }
}

/// Outputs `j .. j + W` vectors; with one vector, its first `width`.
#[inline(always)]
unsafe fn columns<V: Vector, const W: usize, const PART: bool>(g: &Gemv<V::T>, j: usize, width: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let y = if g.k <= BLOCK {
            block_of_columns::<V, W, PART>(g, j, 0, width)
        } else {
            let mut sums: [Pairwise<V>; W] = std::array::from_fn(|_| Pairwise::new());
            for k0 in (0..g.k).step_by(BLOCK) {
                let sum = block_of_columns::<V, W, PART>(g, j, k0, width);
                for v in 0..W {
                    sums[v].push(sum[v], |a, b| a.plus(b));
                }
            }
            std::array::from_fn(|v| sums[v].total(|a, b| a.plus(b)).unwrap_or(V::zero()))
        };
        for v in 0..W {
            put::<V>(y[v], g, j + v * V::LANES, width);
        }
    }
}

/// Sums over the block of k from `k0` of W vectors of columns from `j` on. The lanes are taken in passes of [`PASS`], so that W vectors of outputs for each fit in
/// registers and a row of memory is read W vectors at a time.
#[inline(always)]
unsafe fn block_of_columns<V: Vector, const W: usize, const PART: bool>(
    g: &Gemv<V::T>,
    j: usize,
    k0: usize,
    width: usize,
) -> [V; W] {
    let (x, depth) = (g.x.wrapping_add(k0), BLOCK.min(g.k - k0));
    let w = g.w.wrapping_offset(k0 as isize * g.w_k).wrapping_add(j);
    // SAFETY: the caller's promise: rows below `depth`, columns below `W` vectors or `width`.
    unsafe {
        let mut lanes = [[V::zero(); W]; LANES];
        for pass in (0..LANES).step_by(PASS) {
            let mut acc = [[V::zero(); W]; PASS];
            let mut k = pass;
            while k + PASS <= depth {
                for l in 0..PASS {
                    let row = w.wrapping_offset((k + l) as isize * g.w_k);
                    let xs = V::splat(*x.add(k + l));
                    prefetch(row.wrapping_offset(AHEAD_ROWS * g.w_k));
                    for v in 0..W {
                        acc[l][v] = xs.fma(load::<V, PART>(row.wrapping_add(v * V::LANES), width), acc[l][v]);
                    }
                }
                k += LANES;
            }
            for l in 0..PASS {
                if k + l < depth {
                    let row = w.wrapping_offset((k + l) as isize * g.w_k);
                    for v in 0..W {
                        acc[l][v] = V::splat(*x.add(k + l))
                            .fma(load::<V, PART>(row.wrapping_add(v * V::LANES), width), acc[l][v]);
                    }
                }
                lanes[pass + l] = acc[l];
            }
        }
        for half in [8, 4, 2, 1] {
            for l in 0..half {
                for v in 0..W {
                    lanes[l][v] = lanes[l][v].plus(lanes[l + half][v]);
                }
            }
        }
        lanes[0]
    }
}

/// A vector of a row, or its first `width` elements.
#[inline(always)]
unsafe fn load<V: Vector, const PART: bool>(from: *const V::T, width: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe { if PART { V::load_part(from, width) } else { V::load(from) } }
}

/// Writes outputs `j .. j + columns`.
#[inline(always)]
unsafe fn put<V: Vector>(y: V, g: &Gemv<V::T>, j: usize, columns: usize) {
    let to = g.y.wrapping_offset(j as isize * g.y_n);
    let mut lanes = [V::T::ZERO; LANES];
    // SAFETY: `columns` outputs from `j` on are writable; a vector has at most 16 lanes.
    unsafe {
        if g.y_n == 1 && columns == V::LANES {
            return y.store(to);
        }
        y.store(lanes.as_mut_ptr());
        for l in 0..columns {
            to.offset(l as isize * g.y_n).write(lanes[l]);
        }
    }
}

/// Any strides, one product at a time.
#[inline(always)]
unsafe fn gemv_elements<T: Number>(g: &Gemv<T>) {
    for j in 0..g.n {
        let mut sum = Pairwise::<T>::new();
        for k0 in (0..g.k).step_by(BLOCK) {
            let mut lanes = [T::ZERO; LANES];
            for k in k0..g.k.min(k0 + BLOCK) {
                let w = g.w.wrapping_offset(k as isize * g.w_k + j as isize * g.w_n);
                // SAFETY: (k, j) is inside the matrix.
                let (x, w) = unsafe { (g.x.add(k).read(), w.read()) };
                lanes[k % LANES] = x.fma(w, lanes[k % LANES]);
            }
            sum.push(combine_lanes(lanes), Number::plus);
        }
        // SAFETY: output `j` is below `n`.
        unsafe { g.y.offset(j as isize * g.y_n).write(sum.total(Number::plus).unwrap_or(T::ZERO)) }
    }
}

/// Lanes combined by halves: l + 8, l + 4, l + 2, l + 1.
#[inline(always)]
fn combine_lanes<T: Number>(mut lanes: [T; LANES]) -> T {
    for half in [8, 4, 2, 1] {
        for l in 0..half {
            lanes[l] = lanes[l].plus(lanes[l + half]);
        }
    }
    lanes[0]
}

/// Sums of blocks, combined as adjacent pairs again and again, an odd one carried: kept as one partial sum per bit of
/// the number of blocks.
struct Pairwise<A: Copy> {
    partial: [MaybeUninit<A>; usize::BITS as usize],
    blocks: usize,
}

impl<A: Copy> Pairwise<A> {
    #[inline(always)]
    fn new() -> Self {
        Self { partial: [MaybeUninit::uninit(); usize::BITS as usize], blocks: 0 }
    }

    /// Adds the next block.
    #[inline(always)]
    fn push(&mut self, block: A, plus: impl Fn(A, A) -> A) {
        let (mut sum, mut depth, mut bits) = (block, self.depth(), self.blocks);
        while bits & 1 == 1 {
            depth -= 1;
            // SAFETY: the `depth()` lowest entries are written.
            sum = plus(unsafe { self.partial[depth].assume_init() }, sum);
            bits >>= 1;
        }
        self.partial[depth].write(sum);
        self.blocks += 1;
    }

    /// The sum of all blocks; `None` if there are none.
    #[inline(always)]
    fn total(&self, plus: impl Fn(A, A) -> A) -> Option<A> {
        let top = self.depth().checked_sub(1)?;
        // SAFETY: the `depth()` lowest entries are written.
        let mut sum = unsafe { self.partial[top].assume_init() };
        for depth in (0..top).rev() {
            // SAFETY: as above.
            sum = plus(unsafe { self.partial[depth].assume_init() }, sum);
        }
        Some(sum)
    }

    /// How many partial sums there are.
    #[inline(always)]
    fn depth(&self) -> usize {
        self.blocks.count_ones() as usize
    }
}
