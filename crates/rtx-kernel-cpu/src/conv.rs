//! The claim's kernel `conv`: a convolution as a product of the weights with windows that are never written down as
//! a tensor: strips of them are packed as gemm packs its right side.
//!
//! Text: `<dtype> <spatial> <groups>`, then for each spatial dim the strides, the low paddings, the base dilations and
//! the window dilations; from the second line on the tile program of the epilogue over `[n, o, points]`, if any.
//! Buffers: x, weight, y, then the epilogue's others. Sizes: `n o channels`, the spatial sizes of x, of the window and
//! of y, then the strides of x and weight, axis by axis, and of y `n o points`, then the epilogue's own.
//!
//! Numerics (contract N3), the same for every instruction set, stride and number of threads: an output is the sum of
//! its chunks of 512 products, channel after channel, each in row-major order of the window, each chunk
//! `acc = fma(weight, x, acc)` from 0; the zeros of the padding take part. Integers wrap.
mod direct;
mod field;
mod pack;
mod summed;
mod tiles;

use crate::epilogue::{Epilogue, Rest};
use crate::gemm::{CHUNK, Kernels, SLACK, Tile};
use pack::{Lines, Taps};
use rtx_core::{DType, Result};
use rtx_cpu::{isa, pool, with_scratch};
use rtx_hal::{Code, Device, Launch, NativeKernel, malformed};
use std::any::Any;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use tiles::{ConvNumber, Tiles};

/// Convolutions with fewer multiplications than this run in the calling thread.
const SPLIT_FROM: usize = 64 << 10;
/// Points of the result that are worked on together.
const COLUMNS: usize = 1008;
/// Outputs that are worked on together.
const ROWS: usize = 144;

/// The kernel `conv`.
pub struct Conv;

impl NativeKernel for Conv {
    fn name(&self) -> &'static str {
        "conv"
    }
    fn load(&self, text: &str, device: &dyn Device) -> Result<Arc<dyn Code>> {
        let (head, epilogue) = text.split_once('\n').unwrap_or((text, ""));
        let epilogue = Epilogue::load(epilogue, device, 3)?;
        let Some((dtype, steps)) = Steps::parse(head) else { return Err(malformed("conv", text)) };
        match dtype {
            DType::F32 => Ok(Arc::new(ConvCode::<f32> { steps, epilogue, of: PhantomData })),
            DType::F64 => Ok(Arc::new(ConvCode::<f64> { steps, epilogue, of: PhantomData })),
            DType::I32 => Ok(Arc::new(ConvCode::<i32> { steps, epilogue, of: PhantomData })),
            DType::I64 => Ok(Arc::new(ConvCode::<i64> { steps, epilogue, of: PhantomData })),
            _ => Err(malformed("conv", text)),
        }
    }
}

/// How windows move, in three spatial dims; those that a convolution lacks come first and do nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steps {
    spatial: usize,
    groups: usize,
    stride: [isize; 3],
    low: [isize; 3],
    base: [isize; 3],
    dilation: [isize; 3],
}

impl Steps {
    fn parse(text: &str) -> Option<(DType, Self)> {
        let mut words = text.split_whitespace();
        let dtype = DType::parse(words.next()?)?;
        let numbers: Vec<isize> = words.map(|w| w.parse().ok()).collect::<Option<_>>()?;
        let (&[spatial, groups], lists) = numbers.split_first_chunk::<2>()?;
        if !(1..=3).contains(&spatial) || groups < 1 || lists.len() != 4 * spatial as usize {
            return None;
        }
        let spatial = spatial as usize;
        let list = |i: usize, lacking: isize| {
            let mut of = [lacking; 3];
            of[3 - spatial..].copy_from_slice(&lists[i * spatial..(i + 1) * spatial]);
            of
        };
        let (stride, low, base, dilation) = (list(0, 1), list(1, 0), list(2, 1), list(3, 1));
        let moves = |l: &[isize; 3]| l.iter().all(|&n| n >= 1);
        (moves(&stride) && moves(&base) && moves(&dilation))
            .then_some((dtype, Self { spatial, groups: groups as usize, stride, low, base, dilation }))
    }
}

struct ConvCode<T> {
    steps: Steps,
    epilogue: Option<Epilogue>,
    of: PhantomData<T>,
}

/// Sizes and strides of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    steps: Steps,
    batch: usize,
    /// Outputs of one group.
    outs: usize,
    /// Channels of one group.
    channels: usize,
    size: [usize; 3],
    window: [usize; 3],
    out: [usize; 3],
    /// Batch, channel, three spatial dims.
    x: [isize; 5],
    /// Output, channel, three spatial dims.
    w: [isize; 5],
    /// Batch, output, points.
    y: [isize; 3],
}

impl Shape {
    /// How many sizes come before the epilogue's.
    fn count(spatial: usize) -> usize {
        10 + 5 * spatial
    }

    fn read(steps: Steps, sizes: &[i64]) -> Self {
        let (n, lead) = (steps.spatial, 3 - steps.spatial);
        let size = |i: usize| sizes[i].max(0) as usize;
        let three = |first: usize| {
            let mut of = [1; 3];
            (0..n).for_each(|d| of[lead + d] = size(first + d));
            of
        };
        let five = |first: usize| {
            let mut of = [0; 5];
            (0..2).for_each(|i| of[i] = sizes[first + i] as isize);
            (0..n).for_each(|d| of[2 + lead + d] = sizes[first + 2 + d] as isize);
            of
        };
        let strides = 3 + 3 * n;
        let y = strides + 2 * (n + 2);
        let shape = Self {
            steps,
            batch: size(0),
            outs: size(1) / steps.groups,
            channels: size(2),
            size: three(3),
            window: three(3 + n),
            out: three(3 + 2 * n),
            x: five(strides),
            w: five(strides + n + 2),
            y: [0, 1, 2].map(|i| sizes[y + i] as isize),
        };
        shape.flat()
    }

    /// Windows of one element, every one of them, over a tensor whose spatial dims lie evenly: one long dim.
    fn flat(mut self) -> Self {
        let s = &self.steps;
        let plain = (0..3).all(|d| s.stride[d] == 1 && s.low[d] == 0 && s.base[d] == 1 && self.window[d] == 1)
            && self.size == self.out;
        let follows = |d: usize| self.size[d] == 1 || self.x[2 + d] == self.x[3 + d] * self.size[d + 1] as isize;
        if plain && follows(0) && follows(1) && self.size[1..].iter().all(|&n| n > 0) {
            let points = self.points();
            (self.size, self.out) = ([1, 1, points], [1, 1, points]);
        }
        self
    }

    /// Points of the result.
    fn points(&self) -> usize {
        self.out.iter().product()
    }
    /// Products that an output sums.
    fn depth(&self) -> usize {
        self.channels * self.window.iter().product::<usize>()
    }
    fn work(&self) -> usize {
        [self.steps.groups, self.outs, self.points(), self.depth()].iter().fold(self.batch, |w, n| w.saturating_mul(*n))
    }
}

/// A launch as threads see it.
struct Job<'a, T: 'static> {
    shape: Shape,
    kernels: &'static Kernels<T>,
    tiles: &'static Tiles<T>,
    x: *const T,
    w: *const T,
    y: *mut T,
    epilogue: Option<(&'a Epilogue, Rest<'a>)>,
}
// SAFETY: threads write disjoint parts of y and only read x and the weights.
unsafe impl<T: Sync> Sync for Job<'_, T> {}

impl<T: ConvNumber> Code for ConvCode<T> {
    unsafe fn run(&self, launch: &Launch<'_>) {
        let shape = Shape::read(self.steps, launch.sizes);
        let own = Shape::count(self.steps.spatial);
        let rest = || Rest(Launch { buffers: &launch.buffers[2..], sizes: &launch.sizes[own..], error: launch.error });
        let job = Job::<T> {
            shape,
            kernels: T::kernels(isa()),
            tiles: T::tiles(isa()),
            x: launch.buffers[0].cast_const().cast(),
            w: launch.buffers[1].cast_const().cast(),
            y: launch.buffers[2].cast(),
            epilogue: self.epilogue.as_ref().map(|e| (e, rest())),
        };
        let columns = shape.batch * shape.points();
        if columns == 0 || shape.outs == 0 {
            return;
        }
        // SAFETY: the caller says that the buffers are what the sizes say.
        unsafe {
            if summed::takes(&shape) {
                return summed::run(&job);
            }
            if direct::takes(&shape) {
                return direct::run(&job);
            }
        }
        // The groups' columns in one line, cut at whole tiles.
        let tiles = columns.div_ceil(job.kernels.columns);
        let all = shape.steps.groups * tiles;
        let parts = if shape.work() < SPLIT_FROM { 1 } else { pool::threads().min(all) };
        pool::run(parts, &|part| {
            let job = &job;
            let (mut at, end) = (all * part / parts, all * (part + 1) / parts);
            while at < end {
                let (group, first) = (at / tiles, at % tiles);
                let last = tiles.min(first + end - at);
                let cut = |tile: usize| (tile * job.kernels.columns).min(columns);
                // SAFETY: the caller says that the buffers are what the sizes say; columns of parts are apart.
                unsafe { job.run_columns(group, cut(first)..cut(last)) }
                at += last - first;
            }
        });
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Scratch of one thread.
#[derive(Clone, Copy)]
struct Room<T> {
    /// One block of rows over one chunk.
    a: *mut T,
    /// The strips of the columns worked on, over one chunk.
    b: *mut T,
}

/// What is worked on together: a group's outputs and columns over one chunk of products.
struct Block<'a> {
    group: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    taps: &'a Taps,
    first_chunk: bool,
}

impl<T: ConvNumber> Job<'_, T> {
    /// All outputs of a group at some of the points of the batch, which lie in one line.
    unsafe fn run_columns(&self, group: usize, columns: Range<usize>) {
        let (shape, depth) = (&self.shape, self.shape.depth());
        let steps = depth.clamp(1, CHUNK);
        let a = (ROWS.min(shape.outs.next_multiple_of(self.kernels.rows)) * steps + SLACK).next_multiple_of(16);
        let b = COLUMNS.min(columns.len().next_multiple_of(self.kernels.columns)) * steps + SLACK;
        with_scratch((a + b) * size_of::<T>(), |scratch| {
            let room = Room { a: scratch.cast::<T>(), b: scratch.cast::<T>().wrapping_add(a) };
            for j in columns.clone().step_by(COLUMNS) {
                let columns = j..(j + COLUMNS).min(columns.end);
                // A sum of nothing still has a chunk, which stores the zeros.
                for first in (0..depth.max(1)).step_by(CHUNK) {
                    let taps = Taps::of(shape, group, first..(first + CHUNK).min(depth));
                    for i in (0..shape.outs).step_by(ROWS) {
                        let block = Block {
                            group,
                            rows: i..(i + ROWS).min(shape.outs),
                            columns: columns.clone(),
                            taps: &taps,
                            first_chunk: first == 0,
                        };
                        // SAFETY: the caller's promise; the scratch has room for a block and the strips.
                        unsafe {
                            self.run_block(&block, room);
                            if first + CHUNK >= depth {
                                self.finish(&block);
                            }
                        }
                    }
                }
            }
        });
    }

    unsafe fn run_block(&self, block: &Block<'_>, room: Room<T>) {
        let (kernels, steps) = (self.kernels, block.taps.len());
        let first_row = block.group * self.shape.outs + block.rows.start;
        let weights = self.w.wrapping_offset(first_row as isize * self.shape.w[0]);
        // SAFETY: the rows and taps are the weights'; the scratch has room for a block.
        unsafe { block.taps.pack_weights(weights, self.shape.w[0], block.rows.len(), kernels.rows, room.a) }
        let mut j = block.columns.start;
        while j < block.columns.end {
            let width = (block.columns.end - j).min(kernels.columns);
            let step = width.next_multiple_of(kernels.lanes);
            let strip = room.b.wrapping_add((j - block.columns.start) * steps);
            let lines = Lines::of(&self.shape, j, width);
            if block.rows.start == 0 {
                // SAFETY: the columns are the result's; the scratch has room for every strip.
                unsafe { block.taps.pack_windows(&self.shape, &lines, self.x, step, strip) }
            }
            for i in block.rows.clone().step_by(kernels.rows) {
                let height = kernels.rows.min(block.rows.end - i);
                let tile = Tile {
                    depth: steps,
                    a: room.a.wrapping_add((i - block.rows.start) * steps).cast_const(),
                    a_row: 0,
                    a_step: 0,
                    b: strip.cast_const(),
                    b_step: step as isize,
                    c: self.y.wrapping_offset((block.group * self.shape.outs + i) as isize * self.shape.y[1]),
                    c_row: self.shape.y[1],
                    columns: width,
                    add: !block.first_chunk,
                };
                // SAFETY: the operands hold the tile; the kernels are for this machine.
                unsafe { self.run_tile(tile, height, &lines) }
            }
            j += width;
        }
    }

    /// One tile, whose `c` is its rows' first element; the lines say where its columns lie.
    unsafe fn run_tile(&self, tile: Tile<T>, height: usize, lines: &Lines) {
        const ROW: usize = 48;
        let run = self.kernels.packed[tile.columns.div_ceil(self.kernels.lanes) - 1][height - 1];
        let y = &self.shape.y;
        let at = |n: usize, point: usize| tile.c.wrapping_offset(n as isize * y[0] + point as isize * y[2]);
        if let (true, Some((n, point))) = (y[2] == 1, lines.in_one_image()) {
            // SAFETY: the caller's promise: the columns lie side by side.
            return unsafe { run(&Tile { c: at(n, point), ..tile }) };
        }
        let mut aside = [T::ZERO; ROW * 8];
        // SAFETY: a tile has at most 8 rows of 48 columns.
        unsafe { run(&Tile { c: aside.as_mut_ptr(), c_row: ROW as isize, add: false, ..tile }) }
        for line in lines.iter() {
            for i in 0..height {
                let row = at(line.n, line.point).wrapping_offset(i as isize * tile.c_row);
                for t in 0..line.len {
                    let c = row.wrapping_offset(t as isize * y[2]);
                    let value = aside[i * ROW + line.column + t];
                    // SAFETY: this column of the tile is the result's.
                    unsafe { c.write(if tile.add { c.read().plus(value) } else { value }) }
                }
            }
        }
    }

    /// Runs the epilogue on a block that is final.
    unsafe fn finish(&self, block: &Block<'_>) {
        let Some((epilogue, rest)) = &self.epilogue else { return };
        let points = self.shape.points();
        let outs = block.group * self.shape.outs;
        let mut at = block.columns.start;
        while at < block.columns.end {
            let (n, point) = (at / points, at % points);
            let end = points.min(point + block.columns.end - at);
            let lo = [n, outs + block.rows.start, point].map(|i| i as i64);
            let hi = [n + 1, outs + block.rows.end, end].map(|i| i as i64);
            // SAFETY: the caller's promise: this part of y is final and no other thread's.
            unsafe { epilogue.run_box(rest, &lo, &hi) }
            at += end - point;
        }
    }
}

#[cfg(test)]
mod tests;
