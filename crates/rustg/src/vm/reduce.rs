//! Reductions by the tree of contract N3: 16 lanes in order within blocks of 4096, lanes by halves, blocks pairwise.
//!
//! The walk runs along the columns of a tile (*row* kernels) or along its rows (*column* kernels); both build the
//! same tree. Block results are kept until the walk ends, then folded pairwise in place.
use super::args::{Args, Body, Extra, Kernel, Reduce, cold, hot, row_of, warm};
use super::lanes::{Lanes, Plain};
use crate::{Extremum, Fold, Isa, math};
use rtx_core::DType;
use std::marker::PhantomData;

pub(super) const LANES: usize = 16;
pub(super) const BLOCK: usize = 4096;

/// A way to fold two numbers into one.
pub(super) trait Folding {
    type T: Copy;
    const IDENTITY: Self::T;
    fn fold(a: Self::T, b: Self::T) -> Self::T;
}

/// One block of each of `N` streams, interleaved so that their chains of operations overlap.
///
/// # Safety
/// As [`Lanes::take`].
#[inline(always)]
unsafe fn fold_blocks<F: Folding, L: Lanes<F>, const N: usize>(streams: [&[F::T]; N]) -> [F::T; N] {
    let len = streams[0].len();
    let whole = len / LANES * LANES;
    let mut lanes = [L::start(); N];
    // SAFETY: groups of 16 lie inside the streams, which are equally long.
    unsafe {
        for at in (0..whole).step_by(LANES) {
            for n in 0..N {
                lanes[n] = lanes[n].take(streams[n].as_ptr().add(at));
            }
        }
        if whole < len {
            for n in 0..N {
                // Folding the identity in changes no bits.
                let mut rest = [F::IDENTITY; LANES];
                rest[..len - whole].copy_from_slice(&streams[n][whole..len]);
                lanes[n] = lanes[n].take(rest.as_ptr());
            }
        }
        // A loop, not `map`: its closure would be compiled without the instruction set.
        let mut results = [F::IDENTITY; N];
        for n in 0..N {
            results[n] = lanes[n].finish();
        }
        results
    }
}

/// Neighbours, repeatedly; an odd last one is carried. `at` reads and writes a slot.
#[inline(always)]
fn fold_pairwise(mut n: usize, mut fold: impl FnMut(usize, usize, usize), mut carry: impl FnMut(usize, usize)) {
    while n > 1 {
        for i in 0..n / 2 {
            fold(i, 2 * i, 2 * i + 1);
        }
        if n % 2 == 1 {
            carry(n / 2, n - 1);
        }
        n = n.div_ceil(2);
    }
}

/// How many blocks a walk has.
pub(super) fn blocks(extent: i64) -> usize {
    (extent.max(0) as usize).div_ceil(BLOCK)
}
fn reduce_of<'a>(x: &Args<'a>) -> &'a Reduce {
    match x.extra {
        Extra::Reduce(reduce) => reduce,
        _ => unreachable!("the binding gives every reduction its places"),
    }
}

/// Blocks of each row into its partial results: `partials[row][block]`.
struct RowBlocks<F, L>(PhantomData<(F, L)>);
impl<F: Folding, L: Lanes<F>> Body for RowBlocks<F, L> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        let reduce = reduce_of(x);
        let total = blocks(reduce.extent);
        let first = x.col0 as usize / BLOCK;
        let partials = x.machine.at(reduce.partials) as *mut F::T;
        let row = |r: usize| {
            // SAFETY: the kernel's contract.
            unsafe { row_of::<F::T>(x, 0, r) }
        };
        // SAFETY: the binding made room for `total` blocks of each row.
        let put = |r: usize, block: usize, value: F::T| unsafe { *partials.add(r * total + first + block) = value };
        let mut r = 0;
        while r + 4 <= x.rows && x.cols <= BLOCK && x.cols > 0 {
            // SAFETY: compiled for the lanes' instruction set.
            let four = unsafe { fold_blocks::<F, L, 4>([row(r), row(r + 1), row(r + 2), row(r + 3)]) };
            for n in 0..4 {
                put(r + n, 0, four[n]);
            }
            r += 4;
        }
        while r < x.rows {
            let mut all = row(r);
            let mut block = 0;
            while all.len() >= 4 * BLOCK {
                let at = |n: usize| &all[n * BLOCK..(n + 1) * BLOCK];
                // SAFETY: compiled for the lanes' instruction set.
                let four = unsafe { fold_blocks::<F, L, 4>([at(0), at(1), at(2), at(3)]) };
                for n in 0..4 {
                    put(r, block + n, four[n]);
                }
                all = &all[4 * BLOCK..];
                block += 4;
            }
            for part in all.chunks(BLOCK) {
                // SAFETY: as above.
                put(r, block, unsafe { fold_blocks::<F, L, 1>([part]) }[0]);
                block += 1;
            }
            r += 1;
        }
    }
}
/// The partial results of each row to one number, into the destination, which is laid out along the rows.
struct RowFinish<F>(PhantomData<F>);
impl<F: Folding> Body for RowFinish<F> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        let reduce = reduce_of(x);
        let total = blocks(reduce.extent);
        let partials = x.machine.at(reduce.partials) as *mut F::T;
        let dst = x.dst as *mut F::T;
        for r in 0..x.cols {
            // SAFETY: as in `RowBlocks`; the destination has one element a row.
            unsafe {
                let p = partials.add(r * total);
                fold_pairwise(
                    total,
                    |to, a, b| *p.add(to) = F::fold(*p.add(a), *p.add(b)),
                    |to, from| *p.add(to) = *p.add(from),
                );
                *dst.add(r) = if total == 0 { F::IDENTITY } else { *p };
            }
        }
    }
}

/// Rows into lanes: `lanes[row mod 16][column]`; at a block's end the lanes into `partials[block][column]`.
struct ColumnBlocks<F>(PhantomData<F>);
impl<F: Folding> Body for ColumnBlocks<F> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        let reduce = reduce_of(x);
        let lanes = x.machine.at(reduce.lanes) as *mut F::T;
        let partials = x.machine.at(reduce.partials) as *mut F::T;
        let cols = x.cols;
        // SAFETY: the binding made room for 16 lanes and every block of `cols` columns; they do not overlap.
        let lane = |l: usize| unsafe { std::slice::from_raw_parts_mut(lanes.add(l * cols), cols) };
        // SAFETY: the kernel's contract.
        let row = |r: usize| unsafe { row_of::<F::T>(x, 0, r) };
        let mut r = 0;
        while r < x.rows {
            let at = x.row0 as usize + r;
            if at.is_multiple_of(BLOCK) {
                (0..LANES).for_each(|l| lane(l).fill(F::IDENTITY));
            }
            let n = (BLOCK - at % BLOCK).min(x.rows - r);
            let mut i = 0;
            // Four rows of a lane at once, so that a lane is read and written once for them.
            while i + 4 * LANES <= n {
                for l in 0..LANES {
                    let at = |g: usize| row(r + i + g * LANES + l);
                    fold_rows4::<F>(lane((at_lane(x, r + i)) + l), at(0), at(1), at(2), at(3));
                }
                i += 4 * LANES;
            }
            while i < n {
                fold_row::<F>(lane((x.row0 as usize + r + i) % LANES), row(r + i));
                i += 1;
            }
            r += n;
            let end = x.row0 as usize + r;
            if end.is_multiple_of(BLOCK) || end as i64 == reduce.extent {
                let mut half = LANES / 2;
                while half > 0 {
                    (0..half).for_each(|l| fold_row::<F>(lane(l), lane(l + half)));
                    half /= 2;
                }
                // SAFETY: as for `lane`.
                let out = unsafe { std::slice::from_raw_parts_mut(partials.add((end - 1) / BLOCK * cols), cols) };
                out.copy_from_slice(lane(0));
            }
        }
    }
}
/// The lane of a row that begins a group of 16: chunks begin at multiples of 16, so it is lane 0.
#[inline(always)]
fn at_lane(x: &Args<'_>, r: usize) -> usize {
    (x.row0 as usize + r) % LANES
}
#[inline(always)]
fn fold_row<F: Folding>(acc: &mut [F::T], x: &[F::T]) {
    for (a, &x) in acc.iter_mut().zip(x) {
        *a = F::fold(*a, x);
    }
}
#[inline(always)]
fn fold_rows4<F: Folding>(acc: &mut [F::T], x0: &[F::T], x1: &[F::T], x2: &[F::T], x3: &[F::T]) {
    for ((((a, &x0), &x1), &x2), &x3) in acc.iter_mut().zip(x0).zip(x1).zip(x2).zip(x3) {
        *a = F::fold(F::fold(F::fold(F::fold(*a, x0), x1), x2), x3);
    }
}
/// The partial results of each column to one number, into the destination.
struct ColumnFinish<F>(PhantomData<F>);
impl<F: Folding> Body for ColumnFinish<F> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        let reduce = reduce_of(x);
        let total = blocks(reduce.extent);
        let cols = x.cols;
        let partials = x.machine.at(reduce.partials) as *mut F::T;
        // SAFETY: as in `ColumnBlocks`; the destination has one element a column.
        unsafe {
            let slot = |i: usize| partials.add(i * cols);
            fold_pairwise(
                total,
                |to, a, b| {
                    for c in 0..cols {
                        *slot(to).add(c) = F::fold(*slot(a).add(c), *slot(b).add(c));
                    }
                },
                |to, from| slot(to).copy_from_nonoverlapping(slot(from), cols),
            );
            for c in 0..cols {
                *(x.dst as *mut F::T).add(c) = if total == 0 { F::IDENTITY } else { *partials.add(c) };
            }
        }
    }
}

/// The kernels of one reduction.
pub(super) struct Pair {
    /// Takes in a tile.
    pub take: Kernel,
    /// Writes the results when the walk is over.
    pub finish: Kernel,
}

/// A fold of f32 that has vector registers.
macro_rules! vector_fold {
    ($F:ident, $identity:expr, $fold:expr) => {
        pub(super) struct $F;
        impl Folding for $F {
            type T = f32;
            const IDENTITY: f32 = $identity;
            #[inline(always)]
            fn fold(a: f32, b: f32) -> f32 {
                $fold(a, b)
            }
        }
    };
}
vector_fold!(SumF32, 0.0, |a, b| a + b);
vector_fold!(MaxF32, f32::NEG_INFINITY, math::max_f32);
vector_fold!(MinF32, f32::INFINITY, math::min_f32);

#[cfg(target_arch = "x86_64")]
fn vector_pair<F: super::lanes::VectorFolding>(along_rows: bool, isa: Isa) -> Pair {
    use super::lanes::{Vector256, Vector512};
    let take = match (along_rows, isa) {
        (true, _) => hot::<ColumnBlocks<F>>(isa),
        (false, Isa::Scalar) => cold::<RowBlocks<F, Plain<f32>>>(),
        (false, Isa::Avx2) => hot::<RowBlocks<F, Vector256>>(isa),
        (false, Isa::Avx512) => hot::<RowBlocks<F, Vector512>>(isa),
    };
    Pair { take, finish: if along_rows { cold::<ColumnFinish<F>>() } else { cold::<RowFinish<F>>() } }
}
#[cfg(not(target_arch = "x86_64"))]
fn vector_pair<F: Folding<T = f32>>(along_rows: bool, _: Isa) -> Pair {
    match along_rows {
        true => Pair { take: cold::<ColumnBlocks<F>>(), finish: cold::<ColumnFinish<F>>() },
        false => Pair { take: cold::<RowBlocks<F, Plain<f32>>>(), finish: cold::<RowFinish<F>>() },
    }
}

/// A fold; `along_rows`: the walk is the tile's row axis.
pub(super) fn reduce(fold: Fold, dtype: DType, along_rows: bool, isa: Isa) -> Option<Pair> {
    macro_rules! folding {
        ($T:ident, $identity:expr, |$a:ident, $b:ident| $body:expr) => {{
            struct F;
            impl Folding for F {
                type T = $T;
                const IDENTITY: $T = $identity;
                #[inline(always)]
                fn fold($a: $T, $b: $T) -> $T {
                    $body
                }
            }
            folding!(@ $T F)
        }};
        (@ f64 $F:ident) => { folding!(hot $F) };
        (@ i64 $F:ident) => { folding!(hot $F) };
        (@ $T:ident $F:ident) => {
            match along_rows {
                true => Pair { take: cold::<ColumnBlocks<$F>>(), finish: cold::<ColumnFinish<$F>>() },
                false => Pair { take: cold::<RowBlocks<$F, Plain<_>>>(), finish: cold::<RowFinish<$F>>() },
            }
        };
        (hot $F:ident) => {
            match along_rows {
                true => Pair { take: warm::<ColumnBlocks<$F>>(isa), finish: cold::<ColumnFinish<$F>>() },
                false => Pair { take: warm::<RowBlocks<$F, Plain<_>>>(isa), finish: cold::<RowFinish<$F>>() },
            }
        };
    }
    macro_rules! floats {
        ($T:ident, $max:ident, $min:ident) => {
            match fold {
                Fold::Sum => folding!($T, 0.0, |a, b| a + b),
                Fold::Prod => folding!($T, 1.0, |a, b| a * b),
                Fold::Max => folding!($T, $T::NEG_INFINITY, |a, b| math::$max(a, b)),
                Fold::Min => folding!($T, $T::INFINITY, |a, b| math::$min(a, b)),
            }
        };
    }
    macro_rules! ints {
        ($T:ident) => {
            match fold {
                Fold::Sum => folding!($T, 0, |a, b| a.wrapping_add(b)),
                Fold::Prod => folding!($T, 1, |a, b| a.wrapping_mul(b)),
                Fold::Max => folding!($T, $T::MIN, |a, b| a.max(b)),
                Fold::Min => folding!($T, $T::MAX, |a, b| a.min(b)),
            }
        };
    }
    Some(match dtype {
        DType::F32 => match fold {
            Fold::Sum => vector_pair::<SumF32>(along_rows, isa),
            Fold::Max => vector_pair::<MaxF32>(along_rows, isa),
            Fold::Min => vector_pair::<MinF32>(along_rows, isa),
            Fold::Prod => folding!(f32, 1.0, |a, b| a * b),
        },
        DType::F64 => floats!(f64, max_f64, min_f64),
        DType::Bool => match fold {
            Fold::Max => folding!(u8, 0, |a, b| a | b),
            Fold::Min => folding!(u8, 1, |a, b| a & b),
            _ => return None,
        },
        DType::U8 => ints!(u8),
        DType::I8 => ints!(i8),
        DType::I16 => ints!(i16),
        DType::I32 => ints!(i32),
        DType::I64 => ints!(i64),
        DType::U16 => ints!(u16),
        DType::U32 => ints!(u32),
        DType::U64 => ints!(u64),
        _ => return None,
    })
}

/// Which of two candidates an arg-reduction keeps.
trait Choosing {
    type T: Copy;
    /// Does a later `b` win over `a`? A NaN wins over numbers, not over an earlier NaN.
    fn wins(b: Self::T, a: Self::T) -> bool;
}
/// The best so far of each row: values in `partials`, positions in `lanes`.
struct ArgTake<C, const ALONG_ROWS: bool>(PhantomData<C>);
impl<C: Choosing, const ALONG_ROWS: bool> Body for ArgTake<C, ALONG_ROWS> {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        let reduce = reduce_of(x);
        let values = x.machine.at(reduce.partials) as *mut C::T;
        let places = x.machine.at(reduce.lanes) as *mut i64;
        for r in 0..x.rows {
            // SAFETY: the kernel's contract; the binding made room for one value and position a row or column.
            unsafe {
                let row = row_of::<C::T>(x, 0, r);
                let walked = if ALONG_ROWS { x.row0 + r as i64 } else { x.col0 };
                if ALONG_ROWS {
                    for (c, &b) in row.iter().enumerate() {
                        if walked == 0 || C::wins(b, *values.add(c)) {
                            (*values.add(c), *places.add(c)) = (b, walked);
                        }
                    }
                } else if let Some(&first) = row.first() {
                    let (mut best, mut at) = if walked == 0 { (first, 0) } else { (*values.add(r), *places.add(r)) };
                    for (c, &b) in row.iter().enumerate() {
                        if C::wins(b, best) {
                            (best, at) = (b, walked + c as i64);
                        }
                    }
                    (*values.add(r), *places.add(r)) = (best, at);
                }
            }
        }
    }
}
/// Positions into the destination; 0 for an empty walk.
struct ArgFinish;
impl Body for ArgFinish {
    #[inline(always)]
    unsafe fn run(x: &Args<'_>) {
        let reduce = reduce_of(x);
        let places = x.machine.at(reduce.lanes) as *const i64;
        for i in 0..x.cols {
            // SAFETY: as in `ArgTake`.
            unsafe { *(x.dst as *mut i64).add(i) = if reduce.extent > 0 { *places.add(i) } else { 0 } }
        }
    }
}

/// An arg-reduction; `along_rows`: the walk is the tile's row axis.
pub(super) fn arg_reduce(extremum: Extremum, dtype: DType, along_rows: bool) -> Option<Pair> {
    macro_rules! choosing {
        ($T:ident, |$b:ident, $a:ident| $wins:expr) => {{
            struct C;
            impl Choosing for C {
                type T = $T;
                #[inline(always)]
                fn wins($b: $T, $a: $T) -> bool {
                    $wins
                }
            }
            let take = if along_rows { cold::<ArgTake<C, true>>() } else { cold::<ArgTake<C, false>>() };
            Pair { take, finish: cold::<ArgFinish>() }
        }};
    }
    macro_rules! on {
        ($T:ident) => {
            match extremum {
                Extremum::Max => choosing!($T, |b, a| b > a),
                Extremum::Min => choosing!($T, |b, a| b < a),
            }
        };
    }
    macro_rules! floats {
        ($T:ident) => {
            match extremum {
                Extremum::Max => choosing!($T, |b, a| (b > a) | (b.is_nan() & !a.is_nan())),
                Extremum::Min => choosing!($T, |b, a| (b < a) | (b.is_nan() & !a.is_nan())),
            }
        };
    }
    Some(match dtype {
        DType::F32 => floats!(f32),
        DType::F64 => floats!(f64),
        DType::Bool | DType::U8 => on!(u8),
        DType::I8 => on!(i8),
        DType::I16 => on!(i16),
        DType::I32 => on!(i32),
        DType::I64 => on!(i64),
        DType::U16 => on!(u16),
        DType::U32 => on!(u32),
        DType::U64 => on!(u64),
        _ => return None,
    })
}
