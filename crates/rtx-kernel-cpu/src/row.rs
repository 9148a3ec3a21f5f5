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
    fn of(x: f64) -> Self;
    fn exp(self) -> Self;
    fn log(self) -> Self;
}
impl Real for f32 {
    const LOWEST: Self = f32::NEG_INFINITY;
    const ONE: Self = 1.0;
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
}
impl Real for f64 {
    const LOWEST: Self = f64::NEG_INFINITY;
    const ONE: Self = 1.0;
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
}

/// The larger one; a NaN on the right is passed over.
#[inline(always)]
fn larger<T: Real>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// The largest element that is not NaN; -infinity of none.
#[inline(always)]
pub(crate) fn row_max<T: Real>(row: &[T]) -> T {
    let mut lanes = [T::LOWEST; LANES];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        for l in 0..LANES {
            lanes[l] = larger(lanes[l], block[l]);
        }
    }
    let top = lanes.into_iter().fold(T::LOWEST, larger);
    rest.iter().copied().fold(top, larger)
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

/// Sums of blocks added pairwise: neighbours first, an odd one is carried.
#[inline(always)]
fn fold_blocks<T: Real>(n: usize, mut block: impl FnMut(usize) -> T) -> T {
    // A stack of (height, sum): equal heights merge, as a binary counter does; what remains is merged from the right.
    let mut stack = [(0u32, T::ZERO); 64];
    let mut depth = 0;
    for i in 0..n {
        let (mut height, mut sum) = (0, block(i));
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

/// The sum of `f(element)` over `n` elements by the tree of contract N3; `f` sees 16 neighbours, or fewer at the end.
#[inline(always)]
fn tree<T: Real>(n: usize, mut f: impl FnMut(usize) -> T) -> T {
    let block = |b: usize| {
        let (lo, hi) = (b * BLOCK, ((b + 1) * BLOCK).min(n));
        let mut lanes = [T::ZERO; LANES];
        let mut i = lo;
        while i + LANES <= hi {
            for l in 0..LANES {
                lanes[l] = lanes[l] + f(i + l);
            }
            i += LANES;
        }
        for l in 0..hi - i {
            lanes[l] = lanes[l] + f(i + l);
        }
        fold_lanes(lanes)
    };
    if n <= BLOCK {
        let mut block = block;
        return block(0);
    }
    fold_blocks(n.div_ceil(BLOCK), block)
}

/// Sum of a row.
#[inline(always)]
pub(crate) fn row_sum<T: Real>(row: &[T]) -> T {
    tree(row.len(), |i| row[i])
}

/// Sum of products of two rows, each product rounded.
#[inline(always)]
pub(crate) fn row_dot<T: Real>(a: &[T], b: &[T]) -> T {
    let b = &b[..a.len()];
    tree(a.len(), |i| a[i] * b[i])
}

/// `Σ exp(x - top)`.
#[inline(always)]
pub(crate) fn row_exp_sum<T: Real>(row: &[T], top: T) -> T {
    tree(row.len(), |i| (row[i] - top).exp())
}

/// Replaces `x` by `exp(x - top)`.
#[inline(always)]
pub(crate) fn row_exp<T: Real>(row: &mut [T], top: T) {
    for x in row {
        *x = (*x - top).exp();
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
        }
    }
}
