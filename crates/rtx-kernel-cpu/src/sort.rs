//! The claims' kernel `sort`: elements in order along one axis, and the positions they came from.
//!
//! Text: `<dtype> <ascending|descending>`. Sizes: `outer along inner`, then the strides `outer along inner` of x, of the
//! sorted elements, of the positions.
//!
//! Each line's elements become numbers whose order is theirs, with the position in the low half: all differ, so any
//! way of sorting them is stable.
use crate::grid::{Extents, Grid};
use rtx_core::{DType, Result};
use rtx_cpu::with_scratch;
use rtx_hal::{Code, Device, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

/// The kernel `sort`.
pub struct Sort;

/// Element types with a kernel.
pub(crate) fn is_sorted(dtype: DType) -> bool {
    crate::scan::is_scanned(dtype)
}

impl NativeKernel for Sort {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let wrong = || malformed("sort", text);
        let &[dtype, way] = words.as_slice() else { return Err(wrong()) };
        let descending = match way {
            "ascending" => false,
            "descending" => true,
            _ => return Err(wrong()),
        };
        macro_rules! make {
            ($T:ty) => {
                Arc::new(SortCode::<$T>(descending, PhantomData)) as Arc<dyn Code>
            };
        }
        crate::scan::by_dtype!(dtype, wrong(), make)
    }
}

/// An element as a number in its order.
trait Key: Copy + Send + Sync + 'static {
    /// Bits of the number.
    const BITS: u32;
    fn key(self) -> u64;
}
macro_rules! float_keys { ($($T:ty, $U:ty, $I:ty);*) => { $(impl Key for $T {
    const BITS: u32 = <$U>::BITS;
    fn key(self) -> u64 {
        if self.is_nan() {
            return <$U>::MAX.into();
        }
        // Both zeros are one; below zero more magnitude is less.
        let bits = (self + 0.0).to_bits();
        let negative = ((bits as $I) >> (<$U>::BITS - 1)) as $U;
        (bits ^ (negative | 1 << (<$U>::BITS - 1))).into()
    }
})* } }
float_keys!(f32, u32, i32; f64, u64, i64);
macro_rules! signed_keys { ($($T:ty, $U:ty);*) => { $(impl Key for $T {
    const BITS: u32 = <$U>::BITS;
    fn key(self) -> u64 {
        ((self as $U) ^ 1 << (<$U>::BITS - 1)).into()
    }
})* } }
signed_keys!(i32, u32; i64, u64);
macro_rules! unsigned_keys { ($($T:ty)*) => { $(impl Key for $T {
    const BITS: u32 = <$T>::BITS;
    fn key(self) -> u64 {
        self.into()
    }
})* } }
unsigned_keys!(u8 u64);

struct SortCode<T>(bool, PhantomData<T>);

impl<T: Key> Code for SortCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let extents = Extents::read(launch);
        let (x, values) = (Grid::<T>::read(launch, 0, 3), Grid::<T>::read(launch, 1, 6));
        let lines = Lines { x, values, positions: Grid::<i64>::read(launch, 2, 9), along: extents.along };
        // A position and a key of 32 bits fit into one word.
        let narrow = T::BITS <= 32 && extents.along <= u32::MAX as usize;
        extents.for_lines(&|outer, columns| {
            let lines = &lines;
            for inner in columns {
                // SAFETY: the caller's promise; lines are apart.
                unsafe {
                    if narrow {
                        lines.sort(
                            outer,
                            inner,
                            |i, key| self.turned(key) << 32 | i as u64,
                            |word| word as u32 as usize,
                        );
                    } else {
                        let word = |i: usize, key| u128::from(self.turned(key)) << 64 | i as u128;
                        lines.sort(outer, inner, word, |word| word as u64 as usize);
                    }
                }
            }
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
impl<T: Key> SortCode<T> {
    fn turned(&self, key: u64) -> u64 {
        if self.0 { !key & (u64::MAX >> (64 - T::BITS)) } else { key }
    }
}

/// A launch.
struct Lines<T> {
    x: Grid<T>,
    values: Grid<T>,
    positions: Grid<i64>,
    along: usize,
}

impl<T: Key> Lines<T> {
    /// One line by words made of position and key.
    unsafe fn sort<W: Ord + Copy>(
        &self,
        outer: usize,
        inner: usize,
        word: impl Fn(usize, u64) -> W,
        position: impl Fn(W) -> usize,
    ) {
        with_scratch(self.along * size_of::<W>(), |scratch| {
            let words = scratch.cast::<W>();
            // SAFETY: the caller's promise; the scratch memory has room for every word and each is written first.
            unsafe {
                for i in 0..self.along {
                    words.add(i).write(word(i, self.x.at(outer, i, inner).read_unaligned().key()));
                }
                let words = std::slice::from_raw_parts_mut(words, self.along);
                words.sort_unstable();
                for (i, &word) in words.iter().enumerate() {
                    let from = position(word);
                    self.values.at(outer, i, inner).write(self.x.at(outer, from, inner).read_unaligned());
                    self.positions.at(outer, i, inner).write(from as i64);
                }
            }
        });
    }
}
