//! Convolutions with large windows and few points, as the gradient of a weight is one: the windows' elements are walked
//! in chunks, whose part of the image is copied once for all points.
use super::direct::FROM_OUTS;
use super::pack::{copy_row, element};
use super::tiles::{Abreast, ConvNumber, Walk, WalkFn};
use super::{Job, SPLIT_FROM, Shape};
use crate::gemm::{CHUNK, SLACK, Strip};
use rtx_cpu::{pool, with_scratch};
use std::ops::Range;

/// More points than this are no sum over large windows.
const MOST_POINTS: usize = 128;
/// Elements of the image that are copied at once.
const FIELD: usize = 64 << 10;
/// Groups from which those of few outputs lie across the lanes.
const FROM_GROUPS: usize = 4;

/// Is this the way for such a convolution? It changes no sum.
pub(super) fn takes(shape: &Shape) -> bool {
    let (points, window) = (shape.points(), shape.window.iter().product::<usize>());
    shape.depth() > 0 && points <= MOST_POINTS && window >= 16 && window >= 4 * points
}

/// Neighbouring rows of one plane of the window.
#[derive(Clone, Copy, Default)]
struct Segment {
    channel: usize,
    plane: usize,
    first: usize,
    end: usize,
}

/// The part of the image that a chunk of products reads: `[row][segment][plane of the result][slot][element]`, where a
/// row is whatever stands in front.
struct Part<'a> {
    shape: &'a Shape,
    chunk: Range<usize>,
    segments: usize,
    in_place: bool,
    slots: usize,
    line: usize,
    /// Elements from one row to the next.
    row: usize,
}

impl<'a> Part<'a> {
    fn of(shape: &'a Shape, chunk: Range<usize>) -> Self {
        let s = &shape.steps;
        let reaches =
            |d: usize| (shape.out[d] as isize - 1) * s.stride[d] + (shape.window[d] as isize - 1) * s.dilation[d];
        let inside = |d: usize| s.low[d] == 0 && s.base[d] == 1 && reaches(d) < shape.size[d] as isize;
        let mut part =
            Self { shape, chunk, segments: 0, in_place: (0..3).all(inside), slots: 0, line: part_line(shape), row: 0 };
        let (mut segments, mut slots) = (0, 0);
        part.for_segments(|_, segment| {
            segments += 1;
            slots = slots.max(part.slots_of(segment));
        });
        (part.segments, part.slots) = (segments, slots);
        let row = (segments * shape.out[0] * slots * part.line).next_multiple_of(16);
        part.row = if row.is_multiple_of(256) { row + 16 } else { row };
        part
    }
    fn slots_of(&self, segment: &Segment) -> usize {
        let (rows, s) = (segment.end - segment.first, &self.shape.steps);
        match self.shape.out[1] {
            1 => rows,
            points => (rows - 1) * s.dilation[1] as usize + (points - 1) * s.stride[1] as usize + 1,
        }
    }
    /// Calls `f` with each segment of the chunk and its number.
    fn for_segments(&self, mut f: impl FnMut(usize, &Segment)) {
        let [w0, w1, w2] = self.shape.window;
        let (mut row, end) = (self.chunk.start / w2, self.chunk.end.div_ceil(w2));
        let mut number = 0;
        while row < end {
            let (plane, first) = (row / w1, row % w1);
            let last = w1.min(first + end - row);
            f(number, &Segment { channel: plane / w0, plane: plane % w0, first, end: last });
            (number, row) = (number + 1, row + last - first);
        }
    }
    /// Writes where each product of the chunk finds its element, from a row's start, in units of `unit` elements.
    unsafe fn write_offsets(&self, unit: isize, offsets: *mut isize) {
        let (shape, s) = (self.shape, &self.shape.steps);
        let w2 = shape.window[2];
        let (row_step, step) = (
            if shape.out[1] == 1 { 1 } else { s.dilation[1] as usize },
            if shape.out[2] == 1 { 1 } else { s.dilation[2] as usize },
        );
        let mut at = self.chunk.start;
        self.for_segments(|number, segment| {
            for k1 in segment.first..segment.end {
                let row = ((segment.channel * shape.window[0] + segment.plane) * shape.window[1] + k1) * w2;
                while at < self.chunk.end && at < row + w2 {
                    let k2 = at - row;
                    let offset = match self.in_place {
                        true => {
                            let k = [segment.plane, k1, k2].map(|k| k as isize);
                            let along = |d: usize| k[d] * s.dilation[d] * shape.x[2 + d];
                            segment.channel as isize * shape.x[1] + along(0) + along(1) + along(2)
                        }
                        false => {
                            let slot = number * shape.out[0] * self.slots + (k1 - segment.first) * row_step;
                            (slot * self.line + k2 * step) as isize
                        }
                    };
                    // SAFETY: the table has an entry for each product of the chunk.
                    unsafe { offsets.add(at - self.chunk.start).write(offset * unit) }
                    at += 1;
                }
            }
        });
    }
    /// Where a point's elements lie, from those of point 0.
    fn point(&self, point: usize) -> isize {
        let (shape, s) = (self.shape, &self.shape.steps);
        let [_, rows, row] = shape.out;
        let at = [point / (rows * row), point / row % rows, point % row];
        if self.in_place {
            return (0..3).map(|d| at[d] as isize * s.stride[d] * shape.x[2 + d]).sum();
        }
        ((at[0] * self.slots + at[1] * s.stride[1] as usize) * self.line + at[2] * s.stride[2] as usize) as isize
    }
    /// Copies the part for `rows` rows, `apart` elements apart in the image.
    unsafe fn fill<T: ConvNumber>(&self, x: *const T, apart: isize, rows: usize, to: *mut T) {
        let (shape, s) = (self.shape, &self.shape.steps);
        let (alone1, alone2) = (shape.out[1] == 1, shape.out[2] == 1);
        for row in 0..rows {
            let (x, to) = (x.wrapping_offset(row as isize * apart), to.wrapping_add(row * self.row));
            self.for_segments(|number, segment| {
                let x = x.wrapping_offset(segment.channel as isize * shape.x[1]);
                for o0 in 0..shape.out[0] {
                    let at = o0 as isize * s.stride[0] + segment.plane as isize * s.dilation[0] - s.low[0];
                    let plane = element(at, s.base[0], shape.size[0]);
                    for slot in 0..self.slots_of(segment) {
                        let first = segment.first as isize * s.dilation[1] - s.low[1];
                        let at = first + slot as isize * if alone1 { s.dilation[1] } else { 1 };
                        let from = plane.zip(element(at, s.base[1], shape.size[1]));
                        let from = from.map(|(i0, i1)| x.wrapping_offset(i0 * shape.x[2] + i1 * shape.x[3]));
                        let to = to.wrapping_add(((number * shape.out[0] + o0) * self.slots + slot) * self.line);
                        let step = if alone2 { s.dilation[2] } else { 1 };
                        // SAFETY: the caller's promise: the row is the image's, the line the copy's.
                        unsafe { copy_row(shape, from, (-s.low[2], step), to, self.line) }
                    }
                }
            });
        }
    }
}

/// Elements of a line of the copy.
fn part_line(shape: &Shape) -> usize {
    let s = &shape.steps;
    match shape.out[2] {
        1 => shape.window[2],
        n => (shape.window[2] - 1) * s.dilation[2] as usize + (n - 1) * s.stride[2] as usize + 1,
    }
}

/// Packs the weights of a chunk: `count` of them, `across` apart, side by side for each product.
unsafe fn pack_weights<T: ConvNumber>(
    job: &Job<'_, T>,
    chunk: &Range<usize>,
    from: *const T,
    (across, count, width): (isize, usize, usize),
    to: *mut T,
) {
    let (shape, w) = (&job.shape, &job.shape.w);
    let [w0, w1, w2] = shape.window;
    // Products in one line in memory: a channel's, or a row's.
    let even = w[3] == w2 as isize * w[4] && w[2] == w1 as isize * w[3];
    let run = if even { w0 * w1 * w2 } else { w2 };
    let mut k = chunk.start;
    while k < chunk.end {
        let end = chunk.end.min((k / run + 1) * run);
        let strip = Strip {
            from: from.wrapping_offset(super::direct::weight_at(shape, k)),
            along: w[4],
            across,
            depth: end - k,
            count,
            width,
            to: to.wrapping_add((k - chunk.start) * width),
        };
        // SAFETY: the caller's promise; strips are packed in ascending order.
        unsafe { (job.kernels.pack)(&strip) }
        k = end;
    }
}

/// Runs a convolution that [`takes`] accepts.
///
/// # Safety
/// The job's pointers are what its shape says.
pub(super) unsafe fn run<T: ConvNumber>(job: &Job<'_, T>) {
    let shape = &job.shape;
    if shape.outs < FROM_OUTS && shape.steps.groups >= FROM_GROUPS {
        // SAFETY: the caller's promise.
        unsafe { run_abreast(job) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { run_walks(job) }
    }
}

/// A thread's share: images and outputs of a group.
struct Unit {
    group: usize,
    images: Range<usize>,
    outs: Range<usize>,
    width: usize,
}

/// How a group's outputs and images are shared.
struct Shares {
    width: usize,
    panels: usize,
    splits: usize,
}
impl Shares {
    fn of(shape: &Shape, lanes: usize, vectors: usize, threads: usize) -> Self {
        let even = |n: usize| n.is_multiple_of(threads) || n >= 4 * threads;
        let panels = |v: usize| shape.outs.div_ceil(v * lanes);
        let groups = shape.steps.groups;
        for v in (1..=vectors).rev() {
            if even(groups * panels(v)) {
                return Self { width: v * lanes, panels: panels(v), splits: 1 };
            }
        }
        let splits = threads.min(shape.batch.div_ceil(4)).max(1);
        Self { width: vectors * lanes, panels: panels(vectors), splits }
    }
    fn unit(&self, shape: &Shape, lanes: usize, i: usize) -> Unit {
        let (rest, split) = (i / self.splits, i % self.splits);
        let (group, panel) = (rest / self.panels, rest % self.panels);
        let first = panel * self.width;
        let outs = first..(first + self.width).min(shape.outs);
        let cut = |i: usize| shape.batch * i / self.splits;
        Unit { group, images: cut(split)..cut(split + 1), width: outs.len().next_multiple_of(lanes), outs }
    }
}

/// Outputs across the lanes.
unsafe fn run_walks<T: ConvNumber>(job: &Job<'_, T>) {
    let (shape, lanes) = (&job.shape, job.kernels.lanes);
    let threads = if shape.work() < SPLIT_FROM { 1 } else { pool::threads() };
    let shares = Shares::of(shape, lanes, job.tiles.near.len(), threads);
    let all = shape.steps.groups * shares.panels * shares.splits;
    let parts = threads.min(all);
    pool::run(parts, &|part| {
        for i in all * part / parts..all * (part + 1) / parts {
            let unit = shares.unit(shape, lanes, i);
            // SAFETY: the caller's promise; units are apart.
            unsafe {
                run_unit(job, &unit);
                finish(
                    job,
                    unit.images,
                    unit.group * shape.outs + unit.outs.start..unit.group * shape.outs + unit.outs.end,
                );
            }
        }
    });
}

/// Runs the epilogue on images and outputs that are final.
unsafe fn finish<T: ConvNumber>(job: &Job<'_, T>, images: Range<usize>, outs: Range<usize>) {
    let Some((epilogue, rest)) = &job.epilogue else { return };
    let lo = [images.start, outs.start, 0].map(|i| i as i64);
    let hi = [images.end, outs.end, job.shape.points()].map(|i| i as i64);
    // SAFETY: the caller's promise: this part of y is final and no other thread's.
    unsafe { epilogue.run_box(rest, &lo, &hi) }
}

/// The tiles that sum all points of a small result at once, by their rows - 1.
fn squares<T: ConvNumber>(job: &Job<'_, T>, vectors: usize) -> Option<&'static [WalkFn<T>]> {
    let (shape, [planes, _, line]) = (&job.shape, job.shape.out);
    let side = [3, 5, 7].iter().position(|n| *n == line)?;
    let tiles = *job.tiles.squares[side].get(vectors - 1)?;
    (planes == 1 && shape.steps.stride[2] == 1 && shape.x[4] == 1 && !tiles.is_empty()).then_some(tiles)
}

unsafe fn run_unit<T: ConvNumber>(job: &Job<'_, T>, unit: &Unit) {
    let (shape, width, images) = (&job.shape, unit.width, unit.images.len());
    let (depth, points) = (shape.depth(), shape.points());
    let squares = squares(job, width / job.kernels.lanes);
    // Few images: neighbouring points are a tile's rows instead.
    let by_points = squares.is_none() && images < 4 && shape.out[2] > images;
    let (image_row, point_row) = if by_points || squares.is_some() { (points, 1) } else { (1, images) };
    let first_out = unit.group * shape.outs + unit.outs.start;
    let weights = job.w.wrapping_offset(first_out as isize * shape.w[0]);
    let x = job
        .x
        .wrapping_offset(unit.images.start as isize * shape.x[0] + (unit.group * shape.channels) as isize * shape.x[1]);
    let sums = images * points * width;
    let packed = CHUNK.min(depth) * width + SLACK;
    with_scratch((sums + packed) * size_of::<T>() + CHUNK * size_of::<isize>(), |scratch| {
        let offsets = scratch.cast::<isize>();
        let sums_at = scratch.wrapping_add(CHUNK * size_of::<isize>()).cast::<T>();
        let packed_at = sums_at.wrapping_add(sums);
        for k in (0..depth).step_by(CHUNK) {
            let chunk = k..(k + CHUNK).min(depth);
            let part = Part::of(shape, chunk.clone());
            // SAFETY: the caller's promise; the scratch has room for the table, the sums and the weights.
            unsafe {
                part.write_offsets(1, offsets);
                pack_weights(job, &chunk, weights, (shape.w[0], unit.outs.len(), width), packed_at);
                let walk = |a: *const T, a_row: isize, tile: WalkFn<T>, c: usize| {
                    let walk = Walk {
                        depth: chunk.len(),
                        offsets: offsets.cast_const(),
                        a,
                        a_row,
                        b: packed_at.cast_const(),
                        c: sums_at.wrapping_add(c * width),
                        add: k > 0,
                    };
                    tile(&walk)
                };
                let tiles = |a_row: isize| {
                    (if a_row == 1 { job.tiles.near } else { job.tiles.apart })[width / job.kernels.lanes - 1]
                };
                let tall = job.tiles.near[0].len();
                let some = if part.in_place {
                    images
                } else if squares.is_some() {
                    1
                } else {
                    (FIELD / part.row.max(1) / tall * tall).clamp(tall, images.max(tall))
                };
                let room = if part.in_place { 0 } else { some.min(images) * part.row };
                with_scratch(room * size_of::<T>(), |copy| {
                    for from in (0..images).step_by(some) {
                        let count = some.min(images - from);
                        let image = x.wrapping_offset(from as isize * shape.x[0]);
                        let (base, row) = if part.in_place {
                            (image, shape.x[0])
                        } else {
                            part.fill(image, shape.x[0], count, copy.cast::<T>());
                            (copy.cast::<T>().cast_const(), part.row as isize)
                        };
                        if let Some(squares) = squares {
                            let (line, tall) = (shape.out[2], squares.len());
                            for i in 0..count {
                                for p in (0..shape.out[1]).step_by(tall) {
                                    let at = base.wrapping_offset(i as isize * row + part.point(p * line));
                                    let square = squares[tall.min(shape.out[1] - p) - 1];
                                    walk(at, part.point(line), square, (from + i) * points + p * line);
                                }
                            }
                            continue;
                        }
                        if by_points {
                            let step = if part.in_place { shape.x[4] } else { 1 } * shape.steps.stride[2];
                            for i in 0..count {
                                for line in (0..points).step_by(shape.out[2]) {
                                    for p in (0..shape.out[2]).step_by(tall) {
                                        let at = base.wrapping_offset(i as isize * row + part.point(line + p));
                                        let c = (from + i) * image_row + (line + p) * point_row;
                                        walk(at, step, tiles(step)[tall.min(shape.out[2] - p) - 1], c);
                                    }
                                }
                            }
                            continue;
                        }
                        for i in (0..count).step_by(tall) {
                            for p in 0..points {
                                let at = base.wrapping_offset(i as isize * row + part.point(p));
                                let tile = tiles(row)[tall.min(count - i) - 1];
                                walk(at, row, tile, (from + i) * image_row + p * point_row);
                            }
                        }
                    }
                });
            }
        }
        let y = job.y.wrapping_offset(unit.images.start as isize * shape.y[0] + first_out as isize * shape.y[1]);
        for i in 0..images {
            for o in 0..unit.outs.len() {
                let y = y.wrapping_offset(i as isize * shape.y[0] + o as isize * shape.y[1]);
                for p in 0..points {
                    // SAFETY: every sum is final, and these are points of the result.
                    unsafe {
                        let sum = sums_at.add((i * image_row + p * point_row) * width + o).read();
                        y.wrapping_offset(p as isize * shape.y[2]).write(sum);
                    }
                }
            }
        }
    });
}

/// Groups across the lanes.
unsafe fn run_abreast<T: ConvNumber>(job: &Job<'_, T>) {
    let (shape, lanes) = (&job.shape, job.kernels.lanes);
    let threads = if shape.work() < SPLIT_FROM { 1 } else { pool::threads() };
    let all = shape.steps.groups.div_ceil(lanes);
    let parts = threads.min(all);
    pool::run(parts, &|part| {
        for i in all * part / parts..all * (part + 1) / parts {
            let groups = i * lanes..((i + 1) * lanes).min(shape.steps.groups);
            // SAFETY: the caller's promise; groups are apart.
            unsafe {
                run_groups(job, groups.clone());
                finish(job, 0..shape.batch, groups.start * shape.outs..groups.end * shape.outs);
            }
        }
    });
}

unsafe fn run_groups<T: ConvNumber>(job: &Job<'_, T>, groups: Range<usize>) {
    let (shape, lanes) = (&job.shape, job.kernels.lanes);
    let (depth, points, outs) = (shape.depth(), shape.points(), shape.outs);
    let sums = shape.batch * outs * points * lanes;
    let packed = CHUNK.min(depth) * lanes + SLACK;
    with_scratch((sums + packed) * size_of::<T>() + CHUNK * size_of::<isize>(), |scratch| {
        let offsets = scratch.cast::<isize>();
        let sums_at = scratch.wrapping_add(CHUNK * size_of::<isize>()).cast::<T>();
        let packed_at = sums_at.wrapping_add(sums);
        for k in (0..depth).step_by(CHUNK) {
            let chunk = k..(k + CHUNK).min(depth);
            let mut part = Part::of(shape, chunk.clone());
            part.in_place = false;
            // SAFETY: the caller's promise; the scratch has room for the table, the sums, the weights and the copies.
            unsafe {
                part.write_offsets(lanes as isize, offsets);
                let room = groups.len() * part.row + part.row * lanes + SLACK;
                with_scratch(room * size_of::<T>(), |copy| {
                    let plain = copy.cast::<T>();
                    let turned = plain.wrapping_add(groups.len() * part.row);
                    for n in 0..shape.batch {
                        let apart = shape.channels as isize * shape.x[1];
                        let x = job.x.wrapping_offset(n as isize * shape.x[0] + groups.start as isize * apart);
                        part.fill(x, apart, groups.len(), plain);
                        let strip = Strip {
                            from: plain.cast_const(),
                            along: 1,
                            across: part.row as isize,
                            depth: part.row,
                            count: groups.len(),
                            width: lanes,
                            to: turned,
                        };
                        (job.kernels.pack)(&strip);
                        for o in 0..outs {
                            let first = (groups.start * outs + o) as isize;
                            let (w, across) = (job.w.wrapping_offset(first * shape.w[0]), outs as isize * shape.w[0]);
                            pack_weights(job, &chunk, w, (across, groups.len(), lanes), packed_at);
                            for p in (0..points).step_by(job.tiles.abreast.len()) {
                                let count = job.tiles.abreast.len().min(points - p);
                                let mut rows = [0; 9];
                                (0..count).for_each(|i| rows[i] = part.point(p + i) * lanes as isize);
                                let c = sums_at.wrapping_add(((n * outs + o) * points + p) * lanes);
                                let (a, b) = (turned.cast_const(), packed_at.cast_const());
                                let rows = rows.as_ptr();
                                let add = k > 0;
                                let abreast = Abreast { depth: chunk.len(), offsets, a, rows, b, c, add };
                                job.tiles.abreast[count - 1](&abreast);
                            }
                        }
                    }
                });
            }
        }
        for n in 0..shape.batch {
            for o in 0..outs {
                for (lane, group) in groups.clone().enumerate() {
                    let out = (group * outs + o) as isize;
                    let y = job.y.wrapping_offset(n as isize * shape.y[0] + out * shape.y[1]);
                    for p in 0..points {
                        // SAFETY: every sum is final, and these are points of the result.
                        unsafe {
                            let sum = sums_at.add(((n * outs + o) * points + p) * lanes + lane).read();
                            y.wrapping_offset(p as isize * shape.y[2]).write(sum);
                        }
                    }
                }
            }
        }
    });
}
