//! Packing of weights and of windows: what a tile reads, in the order in which it reads it.
use super::Shape;
use crate::gemm::CHUNK;
use crate::simd::Number;
use std::ops::Range;

/// One product of a sum: which channel and which element of the window.
#[derive(Clone, Copy, Default)]
struct Tap {
    /// Where its weight lies, from the output's first one.
    weight: isize,
    /// Where its channel lies, from the first one of an image.
    channel: isize,
    /// What to add to a window's start to have its position along each spatial dim.
    shift: [isize; 3],
}

/// One chunk of products.
pub(super) struct Taps {
    list: [Tap; CHUNK],
    len: usize,
}

impl Taps {
    /// Products `range` of a group's sums: channel after channel, each in row-major order of the window.
    pub fn of(shape: &Shape, group: usize, range: Range<usize>) -> Self {
        let mut taps = Self { list: [Tap::default(); CHUNK], len: range.len() };
        let [w0, w1, w2] = shape.window;
        for (tap, k) in taps.list.iter_mut().zip(range) {
            let (c, k0, k1, k2) = (k / (w0 * w1 * w2), k / (w1 * w2) % w0, k / w2 % w1, k % w2);
            let at = [k0, k1, k2].map(|k| k as isize);
            let shift = |d: usize| at[d] * shape.steps.dilation[d] - shape.steps.low[d];
            *tap = Tap {
                weight: c as isize * shape.w[1] + (0..3).map(|d| at[d] * shape.w[2 + d]).sum::<isize>(),
                channel: (group * shape.channels + c) as isize * shape.x[1],
                shift: [shift(0), shift(1), shift(2)],
            };
        }
        taps
    }

    pub fn len(&self) -> usize {
        self.len
    }
    fn iter(&self) -> impl Iterator<Item = &Tap> {
        self.list[..self.len].iter()
    }

    /// Packs `rows` outputs in strips of `width`, one after the other: element `i` of step `p` at `p · width + i`, zeros
    /// past the last output.
    ///
    /// # Safety
    /// `from` is the first output's weights, `row` apart; `to` has room for whole strips.
    pub unsafe fn pack_weights<T: Number>(&self, from: *const T, row: isize, rows: usize, width: usize, to: *mut T) {
        for first in (0..rows).step_by(width) {
            let to = to.wrapping_add(first * self.len);
            for (p, tap) in self.iter().enumerate() {
                for i in 0..width {
                    let weight = from.wrapping_offset((first + i) as isize * row + tap.weight);
                    // SAFETY: the caller's promise.
                    unsafe {
                        let value = if first + i < rows { weight.read() } else { T::ZERO };
                        to.add(p * width + i).write(value);
                    }
                }
            }
        }
    }

    /// Packs the windows of some columns: column `j` of step `p` at `p · step + j`, zeros from the last column to `step`
    /// and where a window sticks out.
    ///
    /// # Safety
    /// `x` is what the shape says; `to` has room for `step` elements a tap.
    pub unsafe fn pack_windows<T: Number>(&self, shape: &Shape, lines: &Lines, x: *const T, step: usize, to: *mut T) {
        for (p, tap) in self.iter().enumerate() {
            let row = to.wrapping_add(p * step);
            for line in lines.iter() {
                let to = row.wrapping_add(line.column);
                // SAFETY: the line's columns lie in this step's row.
                unsafe {
                    match line.row(shape, tap) {
                        Some(from) => line.copy(shape, tap, x.wrapping_offset(from), to),
                        None => fill(to, line.len),
                    }
                }
            }
            // SAFETY: the row has `step` elements.
            unsafe { fill(row.wrapping_add(lines.columns), step - lines.columns) }
        }
    }
}

#[inline(always)]
unsafe fn fill<T: Number>(to: *mut T, len: usize) {
    for t in 0..len {
        // SAFETY: the caller's promise: `len` elements are writable.
        unsafe { to.add(t).write(T::ZERO) }
    }
}

/// The most columns of a strip.
const WIDEST: usize = 48;

/// Neighbouring points of one row of the result.
#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    /// Its first column in the strip.
    pub column: usize,
    /// How many columns.
    pub len: usize,
    /// Which image.
    pub n: usize,
    /// Its first point in the image.
    pub point: usize,
    /// Where its first window starts, before padding.
    start: [isize; 3],
}

/// A strip of columns as lines.
pub(super) struct Lines {
    list: [Line; WIDEST],
    len: usize,
    columns: usize,
}

impl Lines {
    /// Columns `first .. first + columns` of the line of all points of all images.
    pub fn of(shape: &Shape, first: usize, columns: usize) -> Self {
        let mut lines = Self { list: [Line::default(); WIDEST], len: 0, columns };
        let (points, [_, rows, row]) = (shape.points(), shape.out);
        let mut column = 0;
        while column < columns {
            let (n, point) = ((first + column) / points, (first + column) % points);
            let at = [point / (rows * row), point / row % rows, point % row];
            let len = (row - at[2]).min(columns - column);
            let start = [0, 1, 2].map(|d| at[d] as isize * shape.steps.stride[d]);
            lines.list[lines.len] = Line { column, len, n, point, start };
            lines.len += 1;
            column += len;
        }
        lines
    }
    pub fn iter(&self) -> impl Iterator<Item = &Line> {
        self.list[..self.len].iter()
    }
    /// The image and the first point, if all columns are of one image.
    pub fn in_one_image(&self) -> Option<(usize, usize)> {
        let (first, last) = (&self.list[0], &self.list[self.len.max(1) - 1]);
        (first.n == last.n).then_some((first.n, first.point))
    }
}

/// The element at `position` of a dim of `size` elements, `base` apart; `None` between them and outside.
#[inline(always)]
pub(super) fn element(position: isize, base: isize, size: usize) -> Option<isize> {
    if position < 0 {
        return None;
    }
    let (at, exact) = if base == 1 { (position, true) } else { (position / base, position % base == 0) };
    (exact && at < size as isize).then_some(at)
}

impl Line {
    /// Where the row of `x` lies that a tap reads for this line; `None` where it reads only zeros.
    #[inline(always)]
    fn row(&self, shape: &Shape, tap: &Tap) -> Option<isize> {
        let along = |d: usize| element(self.start[d] + tap.shift[d], shape.steps.base[d], shape.size[d]);
        let (i0, i1) = (along(0)?, along(1)?);
        Some(self.n as isize * shape.x[0] + tap.channel + i0 * shape.x[2] + i1 * shape.x[3])
    }

    /// Copies what a tap reads for this line.
    #[inline(always)]
    unsafe fn copy<T: Number>(&self, shape: &Shape, tap: &Tap, from: *const T, to: *mut T) {
        let first = self.start[2] + tap.shift[2];
        // SAFETY: the caller's promise.
        unsafe { copy_row(shape, Some(from), (first, shape.steps.stride[2]), to, self.len) }
    }
}

/// Copies the elements at every `stride`th position from `first` on of a row of the image, zeros where there is none.
///
/// # Safety
/// `from` is a row of the image that the shape says; `to` has room for `len` elements.
#[inline(always)]
pub(super) unsafe fn copy_row<T: Number>(
    shape: &Shape,
    from: Option<*const T>,
    (first, stride): (isize, isize),
    to: *mut T,
    len: usize,
) {
    let (base, size, len) = (shape.steps.base[2], shape.size[2] as isize, len as isize);
    let Some(from) = from else {
        // SAFETY: the caller's promise.
        return unsafe { fill(to, len as usize) };
    };
    if base != 1 && stride == 1 {
        let lead = (-first).rem_euclid(base);
        let mut i = (first + lead) / base;
        // SAFETY: the caller's promise; only elements of the row are read.
        unsafe {
            fill(to, len as usize);
            for t in (lead..len).step_by(base as usize) {
                if (0..size).contains(&i) {
                    to.wrapping_offset(t).write(from.wrapping_offset(i * shape.x[4]).read());
                }
                i += 1;
            }
        }
        return;
    }
    if base != 1 {
        for t in 0..len {
            let value = match element(first + t * stride, base, shape.size[2]) {
                // SAFETY: the element lies in the row.
                Some(i) => unsafe { from.wrapping_offset(i * shape.x[4]).read() },
                None => T::ZERO,
            };
            // SAFETY: the caller's promise.
            unsafe { to.wrapping_offset(t).write(value) }
        }
        return;
    }
    // Windows lo .. hi read elements, the others padding.
    let steps_to = |position: isize| {
        let way = position - first;
        if way <= 0 { 0 } else { ((way + stride - 1) / stride).min(len) }
    };
    let (lo, hi) = (steps_to(0), steps_to(size));
    let hi = hi.max(lo);
    let step = stride * shape.x[4];
    let source = from.wrapping_offset((first + lo * stride) * shape.x[4]);
    // SAFETY: elements lo .. hi lie in the row; there is room for `len` elements.
    unsafe {
        fill(to, lo as usize);
        if step == 1 {
            std::ptr::copy_nonoverlapping(source, to.wrapping_offset(lo), (hi - lo) as usize);
        } else {
            for t in 0..hi - lo {
                to.wrapping_offset(lo + t).write(source.wrapping_offset(t * step).read());
            }
        }
        fill(to.wrapping_offset(hi), (len - hi) as usize);
    }
}
