//! The part of an image that a block of rows of the result reads, copied so that no window sticks out and neighbouring
//! points read neighbouring elements; or the image itself where it lies like that.
use super::Shape;
use super::pack::{copy_row, element};
use crate::simd::Number;
use std::ops::Range;

/// How the part lies: `[channel][plane of the window][row][line][element]`.
#[derive(Clone, Copy)]
pub(super) struct Field {
    /// Is the image read where it lies?
    pub in_place: bool,
    /// Rows of the result in a block, and points of a row.
    rows: usize,
    columns: usize,
    /// Rows of the image.
    slots: usize,
    /// Rows of the image from one row of the result to the next.
    row_step: usize,
    /// A row of the image as this many lines, a stride's phases or a window's elements apart.
    lines: usize,
    line_len: usize,
    row: usize,
    plane: usize,
    channel: usize,
}

/// More elements at the end that may be read and are not used.
pub(super) const READ_PAST: usize = 64;

/// Rows of the result: those of one plane of one image.
#[derive(Clone, Debug)]
pub(super) struct RowBlock {
    pub n: usize,
    pub plane: usize,
    pub rows: Range<usize>,
    /// Of each row; all of them where there is more than one row.
    pub columns: Range<usize>,
}

impl RowBlock {
    /// The points of the result.
    pub fn points(&self, shape: &Shape) -> Range<usize> {
        let [_, rows, row] = shape.out;
        let at = |i: usize| (self.plane * rows + i) * row;
        at(self.rows.start) + self.columns.start..at(self.rows.end - 1) + self.columns.end
    }
}

impl Field {
    /// For blocks of at most so many rows of the result, and points of a row.
    pub fn of(shape: &Shape, (rows, columns): (usize, usize), may_be_in_place: bool) -> Self {
        let s = &shape.steps;
        let (w, out) = (shape.window, shape.out);
        let reaches = |d: usize| (out[d] as isize - 1) * s.stride[d] + (w[d] as isize - 1) * s.dilation[d];
        let inside = |d: usize| s.low[d] == 0 && s.base[d] == 1 && reaches(d) < shape.size[d] as isize;
        let in_place = may_be_in_place && (0..3).all(inside) && s.stride[2] == 1 && shape.x[4] == 1;
        let (stride, dilation) = (s.stride.map(|n| n as usize), s.dilation.map(|n| n as usize));
        let alone = w[1] == 1;
        let slots = if alone { rows } else { (rows - 1) * stride[1] + (w[1] - 1) * dilation[1] + 1 };
        let (lines, line_len) = match (stride[2], dilation[2]) {
            (1, d) => (1, columns + (w[2] - 1) * d),
            (s, 1) => (s.min(w[2]), columns + (w[2] - 1) / s),
            _ => (w[2], columns),
        };
        let row = lines * line_len;
        // Channels at a power of two apart would share few sets of the cache.
        let plane = slots * row;
        let channel = (w[0] * plane).next_multiple_of(16);
        let channel = if channel.is_multiple_of(256) { channel + 16 } else { channel };
        Self {
            in_place,
            rows,
            columns,
            slots,
            row_step: if alone { 1 } else { stride[1] },
            lines,
            line_len,
            row,
            plane,
            channel,
        }
    }

    /// Elements that a block takes in memory.
    pub fn len(&self, shape: &Shape) -> usize {
        if self.in_place { 0 } else { shape.channels * self.channel + READ_PAST }
    }
    /// Blocks of a plane.
    pub fn blocks(&self, shape: &Shape) -> usize {
        shape.out[1].div_ceil(self.rows) * self.across(shape)
    }
    /// Blocks of a row.
    fn across(&self, shape: &Shape) -> usize {
        shape.out[2].div_ceil(self.columns)
    }
    /// Block `index` of all blocks of all images.
    pub fn block(&self, shape: &Shape, index: usize) -> RowBlock {
        let each = self.blocks(shape);
        let (plane, block) = (index / each, index % each);
        let (block, column) = (block / self.across(shape), block % self.across(shape));
        let (first, column) = (block * self.rows, column * self.columns);
        RowBlock {
            n: plane / shape.out[0],
            plane: plane % shape.out[0],
            rows: first..(first + self.rows).min(shape.out[1]),
            columns: column..(column + self.columns).min(shape.out[2]),
        }
    }

    /// Where product `k` of a sum finds its element, from the point's.
    pub fn offset(&self, shape: &Shape, k: usize) -> isize {
        let [w0, w1, w2] = shape.window;
        let at = [k / (w0 * w1 * w2), k / (w1 * w2) % w0, k / w2 % w1, k % w2];
        let s = &shape.steps;
        if self.in_place {
            let along = |d: usize| at[1 + d] as isize * s.dilation[d] * shape.x[2 + d];
            return at[0] as isize * shape.x[1] + along(0) + along(1) + along(2);
        }
        let (stride, dilation) = (s.stride[2] as usize, s.dilation[2] as usize);
        let (line, element) = match (stride, dilation) {
            (1, d) => (0, at[3] * d),
            (s, 1) => (at[3] % s, at[3] / s),
            _ => (at[3], 0),
        };
        let row = at[2] * s.dilation[1] as usize;
        (at[0] * self.channel + at[1] * self.plane + row * self.row + line * self.line_len + element) as isize
    }
    /// Where a row's first point of the block lies.
    pub fn start(&self, shape: &Shape, block: &RowBlock, group: usize, row: usize) -> isize {
        if !self.in_place {
            return ((row - block.rows.start) * self.row_step * self.row) as isize;
        }
        let s = &shape.steps;
        block.n as isize * shape.x[0]
            + (group * shape.channels) as isize * shape.x[1]
            + block.plane as isize * s.stride[0] * shape.x[2]
            + row as isize * s.stride[1] * shape.x[3]
            + block.columns.start as isize
    }

    /// Copies what a block reads.
    ///
    /// # Safety
    /// `x` is what the shape says; `to` has room for [`Field::len`] elements.
    pub unsafe fn fill<T: Number>(&self, shape: &Shape, block: &RowBlock, group: usize, x: *const T, to: *mut T) {
        let s = &shape.steps;
        let slots = if shape.window[1] == 1 {
            block.rows.len()
        } else {
            self.slots - (self.rows - block.rows.len()) * self.row_step
        };
        let (first, step) =
            (block.rows.start as isize * s.stride[1], if shape.window[1] == 1 { s.stride[1] } else { 1 });
        for c in 0..shape.channels {
            let image = block.n as isize * shape.x[0] + (group * shape.channels + c) as isize * shape.x[1];
            for k0 in 0..shape.window[0] {
                let at = block.plane as isize * s.stride[0] + k0 as isize * s.dilation[0] - s.low[0];
                let plane = element(at, s.base[0], shape.size[0]);
                for slot in 0..slots {
                    let at = first + slot as isize * step - s.low[1];
                    let row = plane.zip(element(at, s.base[1], shape.size[1]));
                    let to = to.wrapping_add(c * self.channel + k0 * self.plane + slot * self.row);
                    let from = row.map(|(i0, i1)| x.wrapping_offset(image + i0 * shape.x[2] + i1 * shape.x[3]));
                    for line in 0..self.lines {
                        let apart = if s.dilation[2] == 1 { 1 } else { s.dilation[2] };
                        let start = block.columns.start as isize * s.stride[2] + line as isize * apart - s.low[2];
                        let to = to.wrapping_add(line * self.line_len);
                        // SAFETY: the caller's promise: the row is the image's, the line the copy's.
                        unsafe { copy_row(shape, from, (start, s.stride[2]), to, self.line_len) }
                    }
                }
            }
        }
    }
}
