//! A rectangle of C by one thread: blocks that fit the caches, packed strips, register tiles.
//!
//! Loops, outermost first: columns of C by [`COLUMNS`]; k by [`CHUNK`]; rows of C by [`block_rows`]; strips of B one
//! tile wide; tiles. A strip of B is packed just before the first block of rows needs it and stays in cache for the
//! other blocks. Nothing but the chunks of k bears on the order of a sum (contract N3).
use super::kernels::{GemmNumber, Kernels};
use super::pack::{SLACK, Strip};
use super::product::Product;
use super::tile::Tile;
use rtx_cpu::with_scratch;
use std::ops::Range;

/// Steps of k that one sum of fmas runs over.
pub(crate) const CHUNK: usize = 512;
/// Columns of C that are worked on together: a multiple of every tile's width.
pub(crate) const COLUMNS: usize = 1008;
/// With at most this many tiles of rows, B is read where it lies if its rows are contiguous: a packed strip would be read
/// too seldom to pay. (128³: 93 % of the fma rate packed, 97 % in place; 64×256×784: 91 and 98.)
const DIRECT_B_TILES: usize = 16;
/// Rows of B this close together, in bytes, are read where they lie: a strip of them falls in enough sets of the caches.
const DIRECT_B_BYTES: usize = 1024;

/// Rows of C that are worked on together, so that a packed block of A takes about 300 KB of L2: a multiple of every
/// tile's height.
pub(crate) fn block_rows<T>() -> usize {
    if size_of::<T>() == 4 { 144 } else { 72 }
}

/// The operands of one product: its sizes and strides, and where its elements start.
#[derive(Clone, Copy)]
pub(crate) struct Operands<'a, T> {
    pub product: &'a Product,
    pub a: *const T,
    pub b: *const T,
    pub c: *mut T,
}

/// A rectangle of C with what it takes to compute it.
struct Work<'a, T: 'static> {
    kernels: &'static Kernels<T>,
    operands: Operands<'a, T>,
    rows: Range<usize>,
    columns: Range<usize>,
    pack_a: bool,
    pack_b: bool,
    /// Scratch for one block of A.
    a_scratch: *mut T,
    /// Scratch for the strips of B over one chunk.
    b_scratch: *mut T,
}

/// Computes a rectangle of C. Calls `done(rows, columns)` for each part of it that is final, while it is in cache.
///
/// # Safety
/// The operands are what their product says; nobody else touches the rectangle.
pub(crate) unsafe fn rectangle<T: GemmNumber>(
    kernels: &'static Kernels<T>,
    operands: Operands<'_, T>,
    rows: Range<usize>,
    columns: Range<usize>,
    done: &dyn Fn(Range<usize>, Range<usize>),
) {
    let p = operands.product;
    let depth = p.k.min(CHUNK);
    let a_elements = block_rows::<T>().min(rows.len().next_multiple_of(kernels.rows)) * depth + SLACK;
    let b_elements = COLUMNS.min(columns.len().next_multiple_of(kernels.columns)) * depth + SLACK;
    with_scratch((a_elements.next_multiple_of(16) + b_elements) * size_of::<T>(), |scratch| {
        let a_scratch = scratch.cast::<T>();
        let work = Work {
            kernels,
            operands,
            pack_a: packing_a_pays(kernels, p.a.row, p.a.column) && columns.len() > kernels.columns,
            pack_b: p.b.column != 1
                || rows.len() > DIRECT_B_TILES * kernels.rows
                    && p.b.row.unsigned_abs() * size_of::<T>() > DIRECT_B_BYTES,
            rows,
            columns,
            a_scratch,
            b_scratch: a_scratch.wrapping_add(a_elements.next_multiple_of(16)),
        };
        // SAFETY: the caller's promise, and the scratch has room for one block of A and the strips of one chunk of B.
        unsafe { work.run(done) }
    });
}

/// A is read where it lies if the elements that a tile takes are neighbours along k, or across it within one cache
/// line: then its loads are as fast as from a packed copy, which also has to be written (dW of 512×128×2048: 89 % of the
/// fma rate packed, 96 % in place; 1024³ and 2048³ are equal).
fn packing_a_pays<T>(kernels: &Kernels<T>, row: isize, column: isize) -> bool {
    let within_lines = row == 1 && 64usize.is_multiple_of(kernels.rows * size_of::<T>());
    column != 1 && !within_lines
}

/// One strip of B: the columns `j .. j + width` of C.
#[derive(Clone, Copy)]
struct Panel {
    j: usize,
    width: usize,
}

impl<T: GemmNumber> Work<'_, T> {
    unsafe fn run(&self, done: &dyn Fn(Range<usize>, Range<usize>)) {
        let k = self.operands.product.k;
        for j0 in self.columns.clone().step_by(COLUMNS) {
            let columns = j0..(j0 + COLUMNS).min(self.columns.end);
            // A product without k still has a chunk, of no steps, which stores the zeros.
            for p0 in (0..k.max(1)).step_by(CHUNK) {
                let steps = p0..(p0 + CHUNK).min(k);
                for i0 in self.rows.clone().step_by(block_rows::<T>()) {
                    let rows = i0..(i0 + block_rows::<T>()).min(self.rows.end);
                    // SAFETY: the caller's promise.
                    unsafe { self.block(&rows, &columns, &steps) }
                    if steps.end == k {
                        done(rows, columns.clone());
                    }
                }
            }
        }
    }

    /// One block of rows over one chunk of k.
    unsafe fn block(&self, rows: &Range<usize>, columns: &Range<usize>, steps: &Range<usize>) {
        if self.pack_a {
            // SAFETY: the rows and steps are A's; the scratch has room for a block.
            unsafe { self.pack_block_of_a(rows, steps) }
        }
        let mut j = columns.start;
        while j < columns.end {
            let panel = Panel { j, width: self.kernels.panel_width(columns.end - j) };
            // SAFETY: the caller's promise.
            unsafe {
                let (b, b_step) = self.strip_of_b(panel, columns.start, steps, rows.start == self.rows.start);
                for i in rows.clone().step_by(self.kernels.rows) {
                    let height = self.kernels.rows.min(rows.end - i);
                    self.tile(i, height, i - rows.start, panel, steps, b, b_step);
                }
            }
            j += panel.width;
        }
    }

    /// Packs strips of A one tile high, one after the other.
    unsafe fn pack_block_of_a(&self, rows: &Range<usize>, steps: &Range<usize>) {
        let (a, strides) = (self.operands.a, self.operands.product.a);
        let first = rows.start as isize * strides.row + steps.start as isize * strides.column;
        let strips = Strip {
            from: a.wrapping_offset(first),
            along: strides.column,
            across: strides.row,
            depth: steps.len(),
            count: rows.len(),
            width: self.kernels.rows,
            to: self.a_scratch,
        };
        // SAFETY: the rows and steps lie in A, and the scratch has room for a block.
        unsafe { (self.kernels.pack)(&strips) }
    }

    /// Where a panel's strip of B starts and how far its steps are apart; packs it for the first block of rows.
    unsafe fn strip_of_b(&self, panel: Panel, j0: usize, steps: &Range<usize>, first: bool) -> (*const T, isize) {
        let (b, strides) = (self.operands.b, self.operands.product.b);
        let from = b.wrapping_offset(steps.start as isize * strides.row + panel.j as isize * strides.column);
        let width = panel.width.next_multiple_of(self.kernels.lanes);
        if !self.pack_b && width == panel.width {
            return (from, strides.row);
        }
        // With one block of rows a strip is used once: all of them take turns in the same place, which stays in cache.
        let once = self.rows.len() <= block_rows::<T>();
        let to = self.b_scratch.wrapping_add(if once { 0 } else { (panel.j - j0) * steps.len() });
        if first {
            let strip = Strip {
                from,
                along: strides.row,
                across: strides.column,
                depth: steps.len(),
                count: panel.width,
                width,
                to,
            };
            // SAFETY: the strip lies in B, and its place in the scratch.
            unsafe { (self.kernels.pack)(&strip) }
        }
        (to, width as isize)
    }

    /// Rows `i .. i + height` of C in one panel; `at` is the row inside the packed block of A.
    unsafe fn tile(
        &self,
        i: usize,
        height: usize,
        at: usize,
        panel: Panel,
        steps: &Range<usize>,
        b: *const T,
        b_step: isize,
    ) {
        let (p, kernels) = (self.operands.product, self.kernels);
        let in_place = i as isize * p.a.row + steps.start as isize * p.a.column;
        let tile = Tile {
            depth: steps.len(),
            a: if self.pack_a {
                self.a_scratch.wrapping_add(at * steps.len())
            } else {
                self.operands.a.wrapping_offset(in_place)
            },
            a_row: p.a.row,
            a_step: p.a.column,
            b,
            b_step,
            c: self.operands.c.wrapping_offset(i as isize * p.c.row + panel.j as isize * p.c.column),
            c_row: p.c.row,
            columns: panel.width,
            add: steps.start > 0,
        };
        let tiles = if self.pack_a { kernels.packed } else { kernels.in_place };
        let run = tiles[panel.width.div_ceil(kernels.lanes) - 1][height - 1];
        // SAFETY: the operands hold the tile; `kernels` are for this machine.
        unsafe { if p.c.column == 1 { run(&tile) } else { run_apart(&tile, height, p.c.column, run) } }
    }
}

/// A tile of a C whose columns are `apart`: computed aside, then put or added element by element. Never inlined, so that
/// who changes how numbers are rounded around a call of it changes it for all of it.
#[inline(never)]
pub(crate) unsafe fn run_apart<T: GemmNumber>(tile: &Tile<T>, height: usize, apart: isize, run: unsafe fn(&Tile<T>)) {
    const ROW: usize = 48;
    let mut aside = [T::ZERO; ROW * 8];
    // SAFETY: a tile has at most 8 rows of 48 columns.
    unsafe { run(&Tile { c: aside.as_mut_ptr(), c_row: ROW as isize, add: false, ..*tile }) }
    for i in 0..height {
        for j in 0..tile.columns {
            let c = tile.c.wrapping_offset(i as isize * tile.c_row + j as isize * apart);
            let x = aside[i * ROW + j];
            // SAFETY: element (i, j) of the tile is C's.
            unsafe { c.write(if tile.add { c.read().plus(x) } else { x }) }
        }
    }
}
