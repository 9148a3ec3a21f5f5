//! Rows of floats: maximum, sums by the tree of contract N3, exponentials. Written over 16 lanes, so that they vectorize
//! for every instruction set and give the same bits on each.
use crate::gemm::GemmNumber;
use std::ops::{Add, Div, Mul, Sub};

/// Lanes of the tree.
pub(crate) const LANES: usize = 16;
/// Elements that are summed in sequence, lane by lane, before blocks are summed pairwise.
const BLOCK: usize = 4096;

/// A float that row kernels compute in.
pub(crate) trait Real:
    GemmNumber + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    const LOWEST: Self;
    const ONE: Self;
    const MINUS_ONE: Self;
    fn of(x: f64) -> Self;
    fn exp(self) -> Self;
    fn log(self) -> Self;
    fn tanh(self) -> Self;
}
impl Real for f32 {
    const LOWEST: Self = f32::NEG_INFINITY;
    const ONE: Self = 1.0;
    const MINUS_ONE: Self = -1.0;
    #[inline(always)]
    fn of(x: f64) -> Self {
        x as f32
    }
    #[inline(always)]
    fn exp(self) -> Self {
        rustg::math::exp_f32(self)
    }
    #[inline(always)]
    fn log(self) -> Self {
        rustg::math::log_f32(self)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        rustg::math::tanh_f32(self)
    }
}
impl Real for f64 {
    const LOWEST: Self = f64::NEG_INFINITY;
    const ONE: Self = 1.0;
    const MINUS_ONE: Self = -1.0;
    #[inline(always)]
    fn of(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn exp(self) -> Self {
        rustg::math::exp_f64(self)
    }
    #[inline(always)]
    fn log(self) -> Self {
        rustg::math::log_f64(self)
    }
    #[inline(always)]
    fn tanh(self) -> Self {
        rustg::math::tanh_f64(self)
    }
}

/// The larger one; a NaN on the right is passed over.
#[inline(always)]
fn larger<T: Real>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// The elements from `i` on, as many as there are lanes. Loops over the lanes of an array become vector instructions;
/// loops over slices would leave their ends to scalar ones.
#[inline(always)]
fn whole<T: Real>(row: &[T], i: usize) -> [T; LANES] {
    *row[i..].first_chunk().expect("the caller has looked")
}
/// The last elements, fewer than there are lanes, and `fill` after them.
#[inline(always)]
fn rest<T: Real>(row: &[T], i: usize, fill: T) -> [T; LANES] {
    let mut lanes = [fill; LANES];
    for (lane, x) in lanes.iter_mut().zip(&row[i..]) {
        *lane = *x;
    }
    lanes
}

/// The largest element that is not NaN; -infinity of none.
#[inline(always)]
pub(crate) fn row_max<T: Real>(row: &[T]) -> T {
    let (mut lanes, full) = ([T::LOWEST; LANES], row.len() / LANES * LANES);
    for i in (0..full).step_by(LANES) {
        let x = whole(row, i);
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], x[l]);
        }
    }
    for half in [8, 4, 2, 1] {
        for l in 0..half {
            lanes[l] = larger(lanes[l], lanes[l + half]);
        }
    }
    row[full..].iter().copied().fold(lanes[0], larger)
}

/// Lanes added pairwise.
#[inline(always)]
fn fold_lanes<T: Real>(mut lanes: [T; LANES]) -> T {
    for half in [8, 4, 2, 1] {
        for l in 0..half {
            lanes[l] = lanes[l] + lanes[l + half];
        }
    }
    lanes[0]
}

/// The terms of a sum, 16 at a time. A trait and not closures: what is not inlined is compiled without vectors.
trait Terms<T> {
    /// Terms from element `i` on.
    fn whole(&self, i: usize) -> [T; LANES];
    /// Terms from element `i` to the end, and zeros: a lane starts at +0 and is never -0, so they change nothing.
    fn rest(&self, i: usize) -> [T; LANES];
}

/// The sum of terms `lo..hi`, lane by lane.
#[inline(always)]
fn sum_block<T: Real>(terms: &impl Terms<T>, lo: usize, hi: usize) -> T {
    let full = lo + (hi - lo) / LANES * LANES;
    let mut lanes = [T::ZERO; LANES];
    for i in (lo..full).step_by(LANES) {
        let x = terms.whole(i);
        for l in 0..LANES {
            lanes[l] = lanes[l] + x[l];
        }
    }
    if full < hi {
        let x = terms.rest(full);
        for l in 0..LANES {
            lanes[l] = lanes[l] + x[l];
        }
    }
    fold_lanes(lanes)
}

/// The sum of `n` terms by the tree of contract N3: blocks are added pairwise, neighbours first, an odd one is carried.
#[inline(always)]
fn tree<T: Real>(n: usize, terms: &impl Terms<T>) -> T {
    // A stack of (height, sum): equal heights merge, as a binary counter does; what remains is merged from the right.
    let mut stack = [(0u32, T::ZERO); 64];
    let mut depth = 0;
    for lo in (0..n).step_by(BLOCK) {
        let (mut height, mut sum) = (0, sum_block(terms, lo, (lo + BLOCK).min(n)));
        while depth > 0 && stack[depth - 1].0 == height {
            depth -= 1;
            sum = stack[depth].1 + sum;
            height += 1;
        }
        stack[depth] = (height, sum);
        depth += 1;
    }
    let Some((_, mut sum)) = depth.checked_sub(1).map(|d| stack[d]) else { return T::ZERO };
    for d in (0..depth - 1).rev() {
        sum = stack[d].1 + sum;
    }
    sum
}

struct Plain<'a, T>(&'a [T]);
impl<T: Real> Terms<T> for Plain<'_, T> {
    #[inline(always)]
    fn whole(&self, i: usize) -> [T; LANES] {
        whole(self.0, i)
    }
    #[inline(always)]
    fn rest(&self, i: usize) -> [T; LANES] {
        rest(self.0, i, T::ZERO)
    }
}
/// Sum of a row.
#[inline(always)]
pub(crate) fn row_sum<T: Real>(row: &[T]) -> T {
    tree(row.len(), &Plain(row))
}

struct Products<'a, T>(&'a [T], &'a [T]);
impl<T: Real> Products<'_, T> {
    #[inline(always)]
    fn of(mut x: [T; LANES], y: [T; LANES]) -> [T; LANES] {
        for l in 0..LANES {
            x[l] = x[l] * y[l];
        }
        x
    }
}
impl<T: Real> Terms<T> for Products<'_, T> {
    #[inline(always)]
    fn whole(&self, i: usize) -> [T; LANES] {
        Self::of(whole(self.0, i), whole(self.1, i))
    }
    #[inline(always)]
    fn rest(&self, i: usize) -> [T; LANES] {
        Self::of(rest(self.0, i, T::ZERO), rest(self.1, i, T::ZERO))
    }
}
/// Sum of products of two rows of one length, each product rounded.
#[inline(always)]
pub(crate) fn row_dot<T: Real>(a: &[T], b: &[T]) -> T {
    tree(a.len(), &Products(a, &b[..a.len()]))
}

/// `exp(x - top)` of 16 elements.
#[inline(always)]
pub(crate) fn exps<T: Real>(mut x: [T; LANES], top: T) -> [T; LANES] {
    for x in &mut x {
        *x = (*x - top).exp();
    }
    x
}

/// Terms `exp(x - top)`.
struct Exps<'a, T>(&'a [T], T);
impl<T: Real> Terms<T> for Exps<'_, T> {
    #[inline(always)]
    fn whole(&self, i: usize) -> [T; LANES] {
        exps(whole(self.0, i), self.1)
    }
    #[inline(always)]
    fn rest(&self, i: usize) -> [T; LANES] {
        let mut e = exps(rest(self.0, i, self.1), self.1);
        for e in &mut e[self.0.len() - i..] {
            *e = T::ZERO;
        }
        e
    }
}
/// `Σ exp(x - top)`.
#[inline(always)]
pub(crate) fn row_exp_sum<T: Real>(row: &[T], top: T) -> T {
    tree(row.len(), &Exps(row, top))
}

/// Replaces `x` by `exp(x - top)`.
#[inline(always)]
pub(crate) fn row_exp<T: Real>(row: &mut [T], top: T) {
    let (blocks, last) = row.as_chunks_mut::<LANES>();
    for block in blocks {
        *block = exps(*block, top);
    }
    let e = exps(rest(last, 0, top), top);
    for (x, e) in last.iter_mut().zip(e) {
        *x = e;
    }
}

/// Replaces `x` by its logarithm, in whole groups of 16; what is left over stays.
#[inline(always)]
pub(crate) fn row_log<T: Real>(row: &mut [T]) {
    for block in row.as_chunks_mut::<LANES>().0 {
        for x in block {
            *x = x.log();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree as the contract says it, in another way.
    fn defined(row: &[f32]) -> f32 {
        let mut sums: Vec<f32> = row
            .chunks(BLOCK)
            .map(|block| {
                let mut lanes = [0f32; LANES];
                block.iter().enumerate().for_each(|(i, x)| lanes[i % LANES] += x);
                let mut lanes = lanes.to_vec();
                while lanes.len() > 1 {
                    let half = lanes.len() / 2;
                    lanes = (0..half).map(|l| lanes[l] + lanes[l + half]).collect();
                }
                lanes[0]
            })
            .collect();
        while sums.len() > 1 {
            sums = sums.chunks(2).map(|p| p.iter().copied().reduce(|a, b| a + b).unwrap_or(0.0)).collect();
        }
        sums.first().copied().unwrap_or(0.0)
    }

    #[test]
    fn sums_follow_the_tree() {
        for n in [0, 1, 15, 16, 17, 4095, 4096, 4097, 3 * 4096, 5 * 4096 + 3, 7 * 4096 + 100] {
            let row: Vec<f32> = (0..n).map(|i| ((i * 7919) % 1000) as f32 * 0.37 - 100.0).collect();
            assert_eq!(row_sum(&row).to_bits(), defined(&row).to_bits(), "{n}");
            let e: Vec<f32> = row.iter().map(|x| rustg::math::exp_f32(*x - 270.0)).collect();
            assert_eq!(row_exp_sum(&row, 270.0).to_bits(), defined(&e).to_bits(), "{n}");
            let mut in_place = row.clone();
            row_exp(&mut in_place, 270.0);
            assert_eq!(in_place, e);
            assert_eq!(row_max(&row), row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
    }
}
