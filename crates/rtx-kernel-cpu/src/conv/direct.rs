//! Convolutions whose tiles read the image where it lies: with outputs across the lanes, or, where those are few, with
//! points across the lanes.
use super::field::{Field, RowBlock};
use super::tiles::{ConvNumber, Sweep, TURN, Turn, WIDEST, Walk};
use super::{Job, SPLIT_FROM, Shape};
use crate::gemm::CHUNK;
use rtx_cpu::{pool, with_scratch};

/// Elements of the image that a block should read.
const FIELD: usize = 48 << 10;
/// Outputs from which they lie across the lanes.
pub(super) const FROM_OUTS: usize = 8;
/// Rows of the result shorter than this are left to packed windows.
const FROM_POINTS: usize = 4;
/// The most rows of a sweep.
const SWEEP_ROWS: usize = 4;

/// Is this the way for such a convolution? It changes no sum.
pub(super) fn takes(shape: &Shape) -> bool {
    shape.out[2] >= FROM_POINTS && shape.depth() > 0 && shape.y[2] == 1
}

/// Where a product's weight lies, from the output's first one.
pub(super) fn weight_at(shape: &Shape, k: usize) -> isize {
    let [w0, w1, w2] = shape.window;
    let at = [k / (w0 * w1 * w2), k / (w1 * w2) % w0, k / w2 % w1, k % w2];
    (0..4).map(|d| at[d] as isize * shape.w[1 + d]).sum()
}

/// How many rows of the result, and points of a row, are worked on together.
fn block_size(shape: &Shape, threads: usize) -> (usize, usize) {
    let s = &shape.steps;
    let [planes, rows, mut columns] = shape.out;
    let read = |columns: usize| {
        let row = columns * s.stride[2] as usize + (shape.window[2] - 1) * s.dilation[2] as usize;
        shape.channels * shape.window[0] * s.stride[1] as usize * row
    };
    let halo = (shape.window[1] - 1) * s.dilation[1] as usize / s.stride[1] as usize;
    while columns > 64 && read(columns) * (halo + 1) > FIELD {
        columns = (columns / 2).next_multiple_of(4);
    }
    let mut fit = (FIELD / read(columns).max(1)).saturating_sub(halo).clamp(1, rows);
    if columns < shape.out[2] {
        fit = 1;
    }
    let wanted = if shape.work() < SPLIT_FROM { 1 } else { 2 * threads };
    let have = shape.batch * s.groups * planes;
    if have * rows.div_ceil(fit) < wanted {
        fit = (rows * have / wanted).clamp(1, fit);
    }
    if have * rows < wanted {
        columns = columns.min((shape.out[2] * have * rows).div_ceil(wanted).next_multiple_of(4).max(24));
    }
    (rows.div_ceil(rows.div_ceil(fit)), columns.min(shape.out[2]))
}

/// The outputs of a group in panels.
#[derive(Clone, Copy)]
struct Panels {
    outs: usize,
    /// Of a whole panel.
    width: usize,
    lanes: usize,
}
impl Panels {
    fn count(self) -> usize {
        self.outs.div_ceil(self.width)
    }
    fn first(self, panel: usize) -> usize {
        panel * self.width
    }
    /// Outputs of a panel, and its width in whole vectors.
    fn size(self, panel: usize) -> (usize, usize) {
        let outs = (self.outs - self.first(panel)).min(self.width);
        (outs, if self.lanes == 1 { outs } else { outs.next_multiple_of(self.lanes) })
    }
}

/// What threads share.
struct Shared<'a, T> {
    field: Field,
    panels: Panels,
    offsets: *const isize,
    weights: *mut T,
    shape: &'a Shape,
}
// SAFETY: threads pack weights of panels of their own, and only read them later.
unsafe impl<T> Sync for Shared<'_, T> {}

impl<T: ConvNumber> Shared<'_, T> {
    /// The weights of a group's panel: elements of a step side by side.
    fn panel(&self, group: usize, panel: usize) -> *mut T {
        let padded = if self.panels.lanes == 1 {
            self.panels.outs
        } else {
            self.panels.outs.next_multiple_of(self.panels.lanes)
        };
        self.weights.wrapping_add((group * padded + self.panels.first(panel)) * self.shape.depth())
    }
    unsafe fn pack(&self, job: &Job<'_, T>, group: usize, panel: usize) {
        let (shape, (outs, width)) = (self.shape, self.panels.size(panel));
        let first = group * shape.outs + self.panels.first(panel);
        let (from, to) = (job.w.wrapping_offset(first as isize * shape.w[0]), self.panel(group, panel));
        for k in 0..shape.depth() {
            let from = from.wrapping_offset(weight_at(shape, k));
            for o in 0..width {
                // SAFETY: the caller's promise: the output's weights are readable, the panel has room.
                unsafe {
                    let value = if o < outs { from.wrapping_offset(o as isize * shape.w[0]).read() } else { T::ZERO };
                    to.add(k * width + o).write(value);
                }
            }
        }
    }
}

/// Runs a convolution that [`takes`] accepts.
///
/// # Safety
/// The job's pointers are what its shape says.
pub(super) unsafe fn run<T: ConvNumber>(job: &Job<'_, T>) {
    let shape = &job.shape;
    let (lanes, depth) = (job.kernels.lanes, shape.depth());
    let across = shape.outs >= FROM_OUTS;
    let threads = if shape.work() < SPLIT_FROM { 1 } else { pool::threads() };
    let panels = match across {
        true => Panels { outs: shape.outs, width: job.tiles.near.len() * lanes, lanes },
        false => Panels { outs: shape.outs, width: SWEEP_ROWS, lanes: 1 },
    };
    let field = Field::of(shape, block_size(shape, pool::threads()), across);
    let groups = shape.steps.groups;
    let weights = groups * shape.outs.next_multiple_of(lanes) * depth;
    let table = (depth * size_of::<isize>()).next_multiple_of(64);
    with_scratch(table + weights * size_of::<T>(), |scratch| {
        let offsets = scratch.cast::<isize>();
        for k in 0..depth {
            // SAFETY: the table has an entry for each product.
            unsafe { offsets.add(k).write(field.offset(shape, k)) }
        }
        let shared = Shared { field, panels, offsets, weights: scratch.wrapping_add(table).cast(), shape };
        let all = groups * panels.count();
        let packers = if weights < SPLIT_FROM { 1 } else { threads.min(all) };
        pool::run(packers, &|part| {
            for i in all * part / packers..all * (part + 1) / packers {
                // SAFETY: the caller's promise; panels are apart.
                unsafe { shared.pack(job, i / panels.count(), i % panels.count()) }
            }
        });
        let blocks = shape.batch * shape.out[0] * field.blocks(shape);
        let all = groups * blocks;
        let parts = threads.min(all).max(1);
        pool::run(parts, &|part| {
            with_scratch((field.len(shape) + TURN * WIDEST) * size_of::<T>(), |scratch| {
                let (aside, copy) = (scratch.cast::<T>(), scratch.cast::<T>().wrapping_add(TURN * WIDEST));
                for i in all * part / parts..all * (part + 1) / parts {
                    let (group, block) = (i / blocks, field.block(shape, i % blocks));
                    // SAFETY: the caller's promise; blocks are apart; the scratch has room for the field.
                    unsafe {
                        let image = if field.in_place {
                            job.x
                        } else {
                            field.fill(shape, &block, group, job.x, copy);
                            copy.cast_const()
                        };
                        for panel in 0..panels.count() {
                            match across {
                                true => walk_block(job, &shared, (group, panel), &block, image, aside),
                                false => sweep_block(job, &shared, (group, panel), &block, image),
                            }
                        }
                        finish(job, group, &block);
                    }
                }
            });
        });
    });
}

/// Runs the epilogue on a block that is final.
unsafe fn finish<T: ConvNumber>(job: &Job<'_, T>, group: usize, block: &RowBlock) {
    let Some((epilogue, rest)) = &job.epilogue else { return };
    let (points, outs) = (block.points(&job.shape), job.shape.outs);
    let lo = [block.n, group * outs, points.start].map(|i| i as i64);
    let hi = [block.n + 1, (group + 1) * outs, points.end].map(|i| i as i64);
    // SAFETY: the caller's promise: this part of y is final and no other thread's.
    unsafe { epilogue.run_box(rest, &lo, &hi) }
}

/// Outputs of a panel across the lanes, at the points of a block.
unsafe fn walk_block<T: ConvNumber>(
    job: &Job<'_, T>,
    shared: &Shared<'_, T>,
    (group, panel): (usize, usize),
    block: &RowBlock,
    image: *const T,
    aside: *mut T,
) {
    let (shape, (outs, width)) = (&job.shape, shared.panels.size(panel));
    let (depth, row) = (shape.depth(), block.columns.len());
    let tiles = job.tiles.near[width / job.kernels.lanes - 1];
    let weights = shared.panel(group, panel);
    let first = group * shape.outs + shared.panels.first(panel);
    let y = job.y.wrapping_offset(block.n as isize * shape.y[0] + first as isize * shape.y[1]);
    let cuts = row.div_ceil(tiles.len());
    for i in block.rows.clone() {
        let start = image.wrapping_offset(shared.field.start(shape, block, group, i));
        let point = (block.plane * shape.out[1] + i) * shape.out[2] + block.columns.start;
        for cut in 0..cuts {
            let columns = row * cut / cuts..row * (cut + 1) / cuts;
            for k in (0..depth).step_by(CHUNK) {
                let walk = Walk {
                    depth: CHUNK.min(depth - k),
                    offsets: shared.offsets.wrapping_add(k),
                    a: start.wrapping_add(columns.start),
                    a_row: 1,
                    b: weights.wrapping_add(k * width).cast_const(),
                    c: aside,
                    add: k > 0,
                };
                // SAFETY: the caller's promise; the tiles are for this machine.
                unsafe { tiles[columns.len() - 1](&walk) }
            }
            let turn = Turn {
                c: aside.cast_const(),
                rows: columns.len(),
                width,
                columns: outs,
                y: y.wrapping_add(point + columns.start),
                y_column: shape.y[1],
            };
            // SAFETY: these points of these outputs are the result's.
            unsafe { (job.tiles.turn)(&turn) }
        }
    }
}

/// Points across the lanes, for a few outputs.
unsafe fn sweep_block<T: ConvNumber>(
    job: &Job<'_, T>,
    shared: &Shared<'_, T>,
    (group, panel): (usize, usize),
    block: &RowBlock,
    image: *const T,
) {
    let (shape, (outs, _)) = (&job.shape, shared.panels.size(panel));
    let (depth, row, lanes) = (shape.depth(), block.columns.len(), job.kernels.lanes);
    let weights = shared.panel(group, panel);
    let first = group * shape.outs + shared.panels.first(panel);
    let y = job.y.wrapping_offset(block.n as isize * shape.y[0] + first as isize * shape.y[1]);
    let vectors = row.div_ceil(lanes);
    let cuts = vectors.div_ceil(job.tiles.sweep.len());
    for i in block.rows.clone() {
        let start = image.wrapping_offset(shared.field.start(shape, block, group, i));
        let point = (block.plane * shape.out[1] + i) * shape.out[2] + block.columns.start;
        for cut in 0..cuts {
            let (from, to) = (vectors * cut / cuts, vectors * (cut + 1) / cuts);
            let run = job.tiles.sweep[to - from - 1][outs - 1];
            for k in (0..depth).step_by(CHUNK) {
                let sweep = Sweep {
                    depth: CHUNK.min(depth - k),
                    a: weights.wrapping_add(k * outs).cast_const(),
                    offsets: shared.offsets.wrapping_add(k),
                    b: start.wrapping_add(from * lanes),
                    c: y.wrapping_add(point + from * lanes),
                    c_row: shape.y[1],
                    columns: row.min(to * lanes) - from * lanes,
                    add: k > 0,
                };
                // SAFETY: the caller's promise; the field can be read a few vectors past its end.
                unsafe { run(&sweep) }
            }
        }
    }
}
