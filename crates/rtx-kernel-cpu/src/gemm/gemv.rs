//! One row times a matrix: `y[j] = Σ x[k] · w[k, j]` by the 16-lane tree of contract N3.
//!
//! Element k goes to lane k mod 16 within a block of 4096; at a block's end lanes combine by halves, and blocks
//! combine pairwise.
use super::tile::prefetch;
use crate::simd::{Number, Vector};
use std::mem::MaybeUninit;

/// Lanes of the tree.
pub(crate) const LANES: usize = 16;
/// Elements of one block of the tree.
pub(crate) const BLOCK: usize = 4096;
/// Dot products that are computed together where rows of k lie in memory one after the other.
const TOGETHER: usize = 4;
/// How far ahead of a dot product its row is asked for.
const AHEAD_BYTES: usize = 768;

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

/// Computes the outputs by the fastest way that the strides allow; every way gives the same bits.
///
/// # Safety
/// The pointers of `g` are good for what its fields say, and the machine has the vector's instruction set.
#[inline(always)]
pub(crate) unsafe fn gemv<V: Vector>(g: &Gemv<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        if g.w_k == 1 {
            gemv_dots::<V>(g)
        } else if g.w_n == 1 {
            gemv_columns::<V>(g)
        } else {
            gemv_elements(g)
        }
    }
}

/// k is contiguous: lanes of the tree are lanes of vectors.
#[inline(always)]
unsafe fn gemv_dots<V: Vector>(g: &Gemv<V::T>) {
    let mut j = 0;
    // SAFETY: the caller's promise; `j` and the `TOGETHER - 1` after it stay below `n`.
    unsafe {
        while j + TOGETHER <= g.n {
            dots::<V, TOGETHER>(g, j);
            j += TOGETHER;
        }
        while j < g.n {
            dots::<V, 1>(g, j);
            j += 1;
        }
    }
}

/// Outputs `j .. j + R`.
#[inline(always)]
unsafe fn dots<V: Vector, const R: usize>(g: &Gemv<V::T>, j: usize) {
    let mut sums = [Pairwise::<V::T>::new(); R];
    for k0 in blocks(g.k) {
        let depth = BLOCK.min(g.k - k0);
        let row = |r: usize| g.w.wrapping_offset((j + r) as isize * g.w_n).wrapping_add(k0);
        // SAFETY: `depth` elements from `k0` are readable in `x` and in each row.
        let lanes = unsafe { lanes_of_block::<V, R>(g.x.add(k0), std::array::from_fn(row), depth) };
        for r in 0..R {
            sums[r].push(combine_lanes(lanes[r]), Number::plus);
        }
    }
    for r in 0..R {
        // SAFETY: output `j + r` is below `n`.
        unsafe { g.y.offset((j + r) as isize * g.y_n).write(sums[r].total(Number::plus).unwrap_or(V::T::ZERO)) }
    }
}

/// The lanes of R rows after one block. Vectors per row: 16 / LANES, never more than [`LANES`].
#[inline(always)]
unsafe fn lanes_of_block<V: Vector, const R: usize>(
    x: *const V::T,
    rows: [*const V::T; R],
    depth: usize,
) -> [[V::T; LANES]; R] {
    const { assert!(LANES.is_multiple_of(V::LANES)) };
    let mut out = [[V::T::ZERO; LANES]; R];
    let whole = depth / LANES * LANES;
    // SAFETY: every load and store lies below `depth` or in `out`.
    unsafe {
        let mut acc = [[V::zero(); LANES]; R];
        for k in (0..whole).step_by(LANES) {
            for r in 0..R {
                prefetch(rows[r].wrapping_add(k + AHEAD_BYTES / size_of::<V::T>()));
            }
            for v in 0..LANES / V::LANES {
                let xs = V::load(x.add(k + v * V::LANES));
                for r in 0..R {
                    acc[r][v] = xs.fma(V::load(rows[r].add(k + v * V::LANES)), acc[r][v]);
                }
            }
        }
        for r in 0..R {
            for v in 0..LANES / V::LANES {
                acc[r][v].store(out[r].as_mut_ptr().add(v * V::LANES));
            }
            for l in 0..depth - whole {
                out[r][l] = x.add(whole + l).read().fma(rows[r].add(whole + l).read(), out[r][l]);
            }
        }
    }
    out
}

/// Outputs are contiguous: each lane of the tree is a vector of outputs.
#[inline(always)]
unsafe fn gemv_columns<V: Vector>(g: &Gemv<V::T>) {
    for j in (0..g.n).step_by(V::LANES) {
        let columns = V::LANES.min(g.n - j);
        // SAFETY: the caller's promise; columns `j .. j + columns` are below `n`.
        unsafe {
            let load = |w: *const V::T| if columns == V::LANES { V::load(w) } else { V::load_part(w, columns) };
            let mut sum = Pairwise::<V>::new();
            for k0 in blocks(g.k) {
                let depth = BLOCK.min(g.k - k0);
                let w = |k: usize| g.w.wrapping_offset((k0 + k) as isize * g.w_k).wrapping_add(j);
                let mut acc = [V::zero(); LANES];
                let whole = depth / LANES * LANES;
                for k in (0..whole).step_by(LANES) {
                    for l in 0..LANES {
                        acc[l] = V::splat(*g.x.add(k0 + k + l)).fma(load(w(k + l)), acc[l]);
                    }
                }
                for l in 0..depth - whole {
                    acc[l] = V::splat(*g.x.add(k0 + whole + l)).fma(load(w(whole + l)), acc[l]);
                }
                for half in [8, 4, 2, 1] {
                    for l in 0..half {
                        acc[l] = acc[l].plus(acc[l + half]);
                    }
                }
                sum.push(acc[0], |a, b| a.plus(b));
            }
            let y = sum.total(|a, b| a.plus(b)).unwrap_or(V::zero());
            put::<V>(y, g, j, columns);
        }
    }
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
        for k0 in blocks(g.k) {
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

/// First elements of the blocks of `k`.
fn blocks(k: usize) -> std::iter::StepBy<std::ops::Range<usize>> {
    (0..k).step_by(BLOCK)
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
#[derive(Clone, Copy)]
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
