//! The claims' kernels `scan` and `linear_scan`: running folds and the recurrence `h = a h + b` along one axis.
//!
//! Text of `scan`: `<sum|prod|max|min> <dtype> <forward|reverse>`; of `linear_scan`: `<dtype> <forward|reverse>`.
//! Sizes: `outer along inner`, then the strides `outer along inner` of x and the result; of a, b, then `outer inner` of
//! the start, then of the result.
//!
//! Numerics: one element after the other, every operation rounded: bits do not depend on threads.
use crate::grid::{Extents, Grid};
use crate::scatter::Element;
use rtx_core::{DType, Fold, Result};
use rtx_cpu::isa;
use rtx_hal::{Code, Device, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The kernel `scan`.
pub struct Scan;
/// The kernel `linear_scan`.
pub struct LinearScan;

/// Element types with a kernel.
pub(crate) fn is_scanned(dtype: DType) -> bool {
    use DType::*;
    matches!(dtype, F32 | F64 | I32 | I64 | U8 | U64)
}

/// `$make!(T)` for the element type of a text, else a refusal.
macro_rules! by_dtype {
    ($dtype:expr, $wrong:expr, $make:ident) => {
        match DType::parse($dtype) {
            Some(DType::F32) => Ok($make!(f32)),
            Some(DType::F64) => Ok($make!(f64)),
            Some(DType::I32) => Ok($make!(i32)),
            Some(DType::I64) => Ok($make!(i64)),
            Some(DType::U8) => Ok($make!(u8)),
            Some(DType::U64) => Ok($make!(u64)),
            _ => Err($wrong),
        }
    };
}
pub(crate) use by_dtype;

fn direction(word: &str) -> Option<bool> {
    match word {
        "forward" => Some(false),
        "reverse" => Some(true),
        _ => None,
    }
}

impl NativeKernel for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || malformed("scan", text);
        let &[fold, dtype, way] = words.as_slice() else { return Err(wrong()) };
        let (fold, reverse) = Fold::parse(fold).zip(direction(way)).ok_or_else(wrong)?;
        macro_rules! make {
            ($T:ty) => {
                Arc::new(ScanCode::<$T>(fold, reverse, PhantomData)) as Arc<dyn Code>
            };
        }
        by_dtype!(dtype, wrong(), make)
    }
}
impl NativeKernel for LinearScan {
    fn name(&self) -> &'static str {
        "linear_scan"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || malformed("linear_scan", text);
        let &[dtype, way] = words.as_slice() else { return Err(wrong()) };
        let reverse = direction(way).ok_or_else(wrong)?;
        macro_rules! make {
            ($T:ty) => {
                Arc::new(LinearCode::<$T>(reverse, PhantomData)) as Arc<dyn Code>
            };
        }
        by_dtype!(dtype, wrong(), make)
    }
}

struct ScanCode<T>(Fold, bool, PhantomData<T>);

impl<T: Element> Code for ScanCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let extents = Extents::read(launch);
        let (mut x, mut y) = (Grid::<T>::read(launch, 0, 3), Grid::<T>::read(launch, 1, 6));
        if self.1 {
            (x, y) = (x.backwards(extents.along), y.backwards(extents.along));
        }
        extents.for_lines(&|outer, columns| {
            isa().run(
                #[inline(always)]
                // SAFETY: the caller's promise; lines are apart.
                || unsafe {
                    match self.0 {
                        Fold::Sum => scan_lines(x, y, extents.along, outer, columns, T::add),
                        Fold::Prod => scan_lines(x, y, extents.along, outer, columns, T::mul),
                        Fold::Max => scan_lines(x, y, extents.along, outer, columns, T::greatest),
                        Fold::Min => scan_lines(x, y, extents.along, outer, columns, T::least),
                    }
                },
            );
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The columns of one outer index.
#[inline(always)]
unsafe fn scan_lines<T: Element>(
    x: Grid<T>,
    y: Grid<T>,
    along: usize,
    outer: usize,
    columns: Range<usize>,
    f: impl Fn(T, T) -> T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if columns.len() == 1 {
            let column = columns.start;
            let mut sum: Option<T> = None;
            for t in 0..along {
                let new = x.at(outer, t, column).read_unaligned();
                let next = sum.map_or(new, |sum| f(sum, new));
                y.at(outer, t, column).write(next);
                sum = Some(next);
            }
            return;
        }
        for t in 0..along {
            let (from, to) = (x.at(outer, t, columns.start), y.at(outer, t, columns.start));
            if t == 0 {
                for j in 0..columns.len() as isize {
                    to.offset(j * y.inner).write(from.offset(j * x.inner).read_unaligned());
                }
                continue;
            }
            let before = y.at(outer, t - 1, columns.start);
            if x.inner == 1 && y.inner == 1 {
                for j in 0..columns.len() {
                    to.add(j).write(f(before.add(j).read(), from.add(j).read_unaligned()));
                }
            } else {
                for j in 0..columns.len() as isize {
                    let sum = f(before.offset(j * y.inner).read(), from.offset(j * x.inner).read_unaligned());
                    to.offset(j * y.inner).write(sum);
                }
            }
        }
    }
}

struct LinearCode<T>(bool, PhantomData<T>);

impl<T: Element> Code for LinearCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let extents = Extents::read(launch);
        let [mut a, mut b, mut y] = [(0, 3), (1, 6), (3, 11)].map(|(i, at)| Grid::<T>::read(launch, i, at));
        let start = Grid::<T>::read_flat(launch, 2, 9);
        if self.0 {
            [a, b, y] = [a, b, y].map(|g| g.backwards(extents.along));
        }
        extents.for_lines(&|outer, columns| {
            isa().run(
                #[inline(always)]
                // SAFETY: the caller's promise; lines are apart.
                || unsafe { linear_lines([a, b, y], start, extents.along, outer, columns) },
            );
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The columns of one outer index.
#[inline(always)]
unsafe fn linear_lines<T: Element>(
    [a, b, y]: [Grid<T>; 3],
    start: Grid<T>,
    along: usize,
    outer: usize,
    columns: Range<usize>,
) {
    let first = columns.start;
    // SAFETY: the caller's promise.
    unsafe {
        for t in 0..along {
            let (before, step) =
                if t == 0 { (start.at(outer, 0, first), start.inner) } else { (y.at(outer, t - 1, first), y.inner) };
            let (a_row, b_row, to) = (a.at(outer, t, first), b.at(outer, t, first), y.at(outer, t, first));
            if [a.inner, b.inner, y.inner, step] == [1; 4] {
                for j in 0..columns.len() {
                    let product = a_row.add(j).read_unaligned().mul(before.add(j).read_unaligned());
                    to.add(j).write(product.add(b_row.add(j).read_unaligned()));
                }
            } else {
                for j in 0..columns.len() as isize {
                    let state = before.offset(j * step).read_unaligned();
                    let product = a_row.offset(j * a.inner).read_unaligned().mul(state);
                    to.offset(j * y.inner).write(product.add(b_row.offset(j * b.inner).read_unaligned()));
                }
            }
        }
    }
}
