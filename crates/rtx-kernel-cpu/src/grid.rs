//! A buffer walked as `[outer, along, inner]`, and how the lines along its middle are shared among threads.
use rtx_cpu::pool;
use rtx_hal::Launch;
use std::ops::Range;

/// Lines with fewer elements in all than this run in the calling thread.
const SPLIT_FROM: usize = 16 << 10;
/// Columns that are walked side by side: a few kilobytes a row.
const COLUMNS: usize = 512;

/// The extents of a launch: its first three sizes.
#[derive(Clone, Copy)]
pub(crate) struct Extents {
    pub outer: usize,
    pub along: usize,
    pub inner: usize,
}

impl Extents {
    pub(crate) fn read(launch: &Launch<'_>) -> Self {
        let size = |i: usize| launch.sizes[i].max(0) as usize;
        Self { outer: size(0), along: size(1), inner: size(2) }
    }
    /// Calls `f` with an outer index and columns of it until every line has had its turn; lines are shared by threads
    /// where it is worth it.
    pub(crate) fn for_lines(self, f: &(dyn Fn(usize, Range<usize>) + Sync)) {
        let lines = self.outer * self.inner;
        let parts = if lines * self.along < SPLIT_FROM { 1 } else { pool::threads().min(lines).max(1) };
        pool::run(parts, &|part| {
            let (mut line, end) = (lines * part / parts, lines * (part + 1) / parts);
            while line < end {
                let (outer, first) = (line / self.inner, line % self.inner);
                let columns = first..self.inner.min(first + (end - line)).min(first + COLUMNS);
                line += columns.len();
                f(outer, columns);
            }
        });
    }
}

/// A buffer `[outer, along, inner]`; each of its strides is in elements.
#[derive(Clone, Copy)]
pub(crate) struct Grid<T> {
    ptr: *mut T,
    outer: isize,
    along: isize,
    pub inner: isize,
}
// SAFETY: who writes through a grid writes lines of its own.
unsafe impl<T> Sync for Grid<T> {}

impl<T> Grid<T> {
    /// Buffer `buffer` with the strides at `sizes[at..]`.
    pub(crate) fn read(launch: &Launch<'_>, buffer: usize, at: usize) -> Self {
        let stride = |i: usize| launch.sizes[at + i] as isize;
        Self { ptr: launch.buffers[buffer].cast(), outer: stride(0), along: stride(1), inner: stride(2) }
    }
    /// The same buffer without `along`: two strides.
    pub(crate) fn read_flat(launch: &Launch<'_>, buffer: usize, at: usize) -> Self {
        let stride = |i: usize| launch.sizes[at + i] as isize;
        Self { ptr: launch.buffers[buffer].cast(), outer: stride(0), along: 0, inner: stride(1) }
    }
    /// The same elements, each line of `n` backwards.
    pub(crate) fn backwards(self, n: usize) -> Self {
        let last = (n as isize - 1).max(0) * self.along;
        Self { ptr: self.ptr.wrapping_offset(last), along: -self.along, ..self }
    }
    pub(crate) fn at(self, outer: usize, along: usize, inner: usize) -> *mut T {
        let (o, a, i) = (outer as isize, along as isize, inner as isize);
        self.ptr.wrapping_offset(o * self.outer + a * self.along + i * self.inner)
    }
}
