//! Running a bound program: the loops over tiles, chunks of the walk, and calls.
use super::args::{Args, MOST_OPERANDS, Machine};
use super::calls::{Binding, CONSTS, Key, Level, Op, OuterStep, Phase, SCRATCH, VIEWS};
use super::moves::clamped;
use super::space::{Along, Space, Spot, value};
use crate::{Instr, Isa, Nest, TileProg, jit};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

/// Memory that a thread keeps for its runs. Grows, never shrinks.
#[derive(Default)]
pub struct Scratch {
    memory: Vec<[u64; 8]>,
    table: Vec<*mut u8>,
    bases: Vec<*mut u8>,
    outer: Vec<i64>,
}
// SAFETY: the pointers are written and read within one run.
unsafe impl Send for Scratch {}

impl Scratch {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A program's bindings: one for each set of sizes met, up to a number.
#[derive(Default)]
pub(crate) struct Bindings(RwLock<Vec<Arc<Binding>>>, AtomicU64);

/// More sizes than this and all are forgotten.
const MOST_BINDINGS: usize = 64;

/// Has every instruction a kernel?
///
/// # Errors
/// The first one that has none.
pub(crate) fn check_supported(nest: &Nest) -> Result<(), String> {
    use super::{maps, moves, reduce};
    let types = nest.dtypes();
    for (i, instr) in nest.instrs.iter().enumerate() {
        let isa = Isa::Scalar;
        let found = match *instr {
            Instr::Const { .. } | Instr::Iota(_) | Instr::Sized(_) | Instr::Random { .. } | Instr::Cast(..) => true,
            Instr::Load(ref view) => {
                moves::move_elements(types[i].size()).is_some() && view.indexed.len() < MOST_OPERANDS
            }
            Instr::Unary(f, a) => maps::unary(f, types[a.index()], isa).is_some(),
            Instr::Binary(f, a, _) => maps::binary(f, types[a.index()], [1, 1], isa).is_some(),
            Instr::Compare(f, a, _) => maps::compare(f, types[a.index()], [1, 1], isa).is_some(),
            Instr::Fma(..) => maps::fma(types[i], [1; 3], isa).is_some(),
            Instr::Select(..) => maps::select(types[i].size(), [1; 3], isa).is_some(),
            Instr::Bitcast(..) => moves::move_elements(types[i].size()).is_some(),
            Instr::Reduce(f, a) => reduce::reduce(f, types[a.index()], false, isa).is_some(),
            Instr::ArgReduce(f, a) => reduce::arg_reduce(f, types[a.index()], false).is_some(),
        };
        if !found {
            let of = instr.operands().first().map_or(types[i], |a| types[a.index()]);
            return Err(format!("%{i}: no kernel for {of}"));
        }
    }
    match nest.stores.iter().position(|s| s.view.indexed.len() >= MOST_OPERANDS) {
        Some(s) => Err(format!("store {s}: more than {} indices", MOST_OPERANDS - 1)),
        None => Ok(()),
    }
}

impl TileProg {
    /// How many independent items of work there are: tiles of the parallel axes. Never splits a reduction; a function
    /// of the sizes alone.
    ///
    /// # Panics
    /// If `sizes` is shorter than the program's.
    pub fn work(&self, sizes: &[i64]) -> i64 {
        self.binding(sizes, None, 0, false).tiles().count()
    }
    /// Roughly how many nanoseconds one core needs: points times instructions, heavy ones counted more.
    ///
    /// # Panics
    /// If `sizes` is shorter than the program's.
    pub fn cost(&self, sizes: &[i64]) -> i64 {
        let points: i64 = self.nest.axes.iter().map(|a| value(a.extent, sizes).max(0)).product();
        let weight: i64 = self.nest.instrs.iter().map(weight_of).sum::<i64>() + 2 * self.nest.stores.len() as i64;
        points.saturating_mul(weight) / 32
    }

    /// Runs items `items` of [`TileProg::work`].
    ///
    /// # Safety
    /// `bufs` has a valid pointer for every buffer: every element that a view names for these sizes is there, aligned
    /// to its type. `isa` is available. Nothing else writes what is read, or touches what is written; other items may
    /// run at the same time, with their own scratch. Two buffers may be the same memory only if both views are equal.
    ///
    /// # Panics
    /// If `bufs` or `sizes` is shorter than the program's.
    pub unsafe fn run(
        &self,
        bufs: &[*mut u8],
        sizes: &[i64],
        items: Range<i64>,
        isa: Isa,
        scratch: &mut Scratch,
        report: &dyn Fn(i64, i64),
    ) {
        let binding = self.binding(sizes, Some(isa), self.aliased(bufs), false);
        let tiles = binding.tiles();
        let mut run = Run::new(&binding, bufs, scratch, report);
        let (mut item, end) = (items.start.max(0), items.end.min(tiles.count()));
        while item < end {
            let (row, col) = tiles.split(item, run.outer);
            let joined = if binding.seamless { tiles.neighbours(row, col).min(end - item) } else { 1 };
            let (rows, cols) = tiles.ranges(row, col, joined);
            // SAFETY: the caller's.
            unsafe { run.tile(rows, cols, (0, 0)) };
            item += joined;
        }
    }

    /// Runs the points with `lo <= axis < hi` of every parallel axis, and the whole walk.
    ///
    /// # Safety
    /// As [`TileProg::run`], for those points.
    ///
    /// # Panics
    /// If `bufs`, `sizes`, `lo` or `hi` is shorter than the program's.
    pub unsafe fn run_box(
        &self,
        bufs: &[*mut u8],
        sizes: &[i64],
        lo: &[i64],
        hi: &[i64],
        isa: Isa,
        scratch: &mut Scratch,
        report: &dyn Fn(i64, i64),
    ) {
        let binding = self.binding(sizes, Some(isa), self.aliased(bufs), true);
        let ranges = BoxRanges::new(self, &binding.space, lo, hi);
        if ranges.is_empty() {
            return;
        }
        let mut run = Run::new(&binding, bufs, scratch, report);
        run.outer.copy_from_slice(&ranges.first_outer());
        loop {
            for row in ranges.rows.clone().step_by(binding.tile_rows.max(1) as usize) {
                let rows = row..(row + binding.tile_rows).min(ranges.rows.end);
                for col in ranges.cols.clone().step_by(binding.tile_cols.max(1) as usize) {
                    let cols = col..(col + binding.tile_cols).min(ranges.cols.end);
                    // SAFETY: the caller's.
                    unsafe { run.tile(rows.clone(), cols, (ranges.rows.start, ranges.cols.start)) };
                }
            }
            if !ranges.next_outer(run.outer) {
                return;
            }
        }
    }

    /// Stores whose buffer is loaded from too, directly or under another name.
    fn aliased(&self, bufs: &[*mut u8]) -> u64 {
        let loaded = |b: usize| {
            self.nest.instrs.iter().any(|i| matches!(i, Instr::Load(v) if bufs[v.buffer.index()] == bufs[b]))
        };
        let stores = self.nest.stores.iter().take(64).enumerate();
        stores.fold(0, |mask, (s, store)| mask | (loaded(store.view.buffer.index()) as u64) << s)
    }

    /// The binding for these sizes; without `isa`, any.
    fn binding(&self, sizes: &[i64], isa: Option<Isa>, aliased: u64, boxed: bool) -> Arc<Binding> {
        let sizes = &sizes[..self.nest.sizes as usize];
        let fused = isa.is_some_and(|isa| jit::is_wanted(self.bindings.1.fetch_add(1, Relaxed), isa));
        let fits = |key: &Key| {
            let exact = isa.is_none_or(|isa| key.isa == isa && key.aliased == aliased && key.fused == fused);
            exact && key.boxed == boxed && key.sizes == sizes
        };
        let known = self.bindings.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.iter().find(|b| fits(&b.key)) {
            return found.clone();
        }
        drop(known);
        let mut known = self.bindings.0.write().unwrap_or_else(PoisonError::into_inner);
        // The threads of one launch all want the same one: the first makes it, the others wait.
        if let Some(found) = known.iter().find(|b| fits(&b.key)) {
            return found.clone();
        }
        let isa = isa.unwrap_or(Isa::detect());
        let key = Key { sizes: sizes.to_vec(), isa, aliased, boxed, fused };
        let made = Arc::new(Binding::new(self, key).expect("check_supported found a kernel for every instruction"));
        if known.len() >= MOST_BINDINGS {
            known.clear();
        }
        known.push(made.clone());
        made
    }
}

/// How heavy an instruction is, in additions.
fn weight_of(instr: &Instr) -> i64 {
    use crate::Function::*;
    match instr {
        Instr::Const { .. } | Instr::Sized(_) => 0,
        Instr::Unary(Exp | Expm1 | Log | Log1p | Sin | Cos | Tanh | Erf, _) => 12,
        Instr::Unary(Erfc, _) => 40,
        Instr::Unary(Lgamma | Digamma, _) => 120,
        Instr::Random { .. } => 64,
        Instr::Load(view) if !view.indexed.is_empty() => 6,
        _ => 2,
    }
}

/// The tiles of a whole run, in order: outer axes, rows, columns.
struct Tiles<'a> {
    space: &'a Space,
    rows: i64,
    cols: i64,
    tile_rows: i64,
    tile_cols: i64,
}
impl Binding {
    fn tiles(&self) -> Tiles<'_> {
        let count = |n: i64, tile: i64| if n == 0 { 0 } else { (n - 1) / tile.max(1) + 1 };
        let (rows, cols) = (count(self.space.rows, self.tile_rows), count(self.space.cols, self.tile_cols));
        Tiles {
            rows: if self.space.walk == Along::Rows { 1 } else { rows },
            cols: if self.space.walk == Along::Cols { 1 } else { cols },
            tile_rows: self.tile_rows,
            tile_cols: self.tile_cols,
            space: &self.space,
        }
    }
}
impl Tiles<'_> {
    fn count(&self) -> i64 {
        self.space.outer.iter().product::<i64>() * self.rows * self.cols
    }
    /// Writes the outer position of an item; gives its first row and its first column.
    fn split(&self, mut item: i64, outer: &mut [i64]) -> (i64, i64) {
        let col = item % self.cols;
        item /= self.cols;
        let row = item % self.rows;
        item /= self.rows;
        for (at, &extent) in outer.iter_mut().zip(&self.space.outer).rev() {
            *at = item % extent;
            item /= extent;
        }
        (row * self.tile_rows, col * self.tile_cols)
    }
    /// How many tiles from this one on make one larger tile: those of its row of tiles, or, when a tile is as wide as
    /// the space, those below it.
    fn neighbours(&self, row: i64, col: i64) -> i64 {
        match self.cols {
            1 => self.rows - row / self.tile_rows.max(1),
            _ => self.cols - col / self.tile_cols.max(1),
        }
    }
    /// Rows and columns of so many tiles.
    fn ranges(&self, row: i64, col: i64, tiles: i64) -> (Range<i64>, Range<i64>) {
        let (down, across) = if self.cols == 1 { (tiles, 1) } else { (1, tiles) };
        let rows = row..(row + down * self.tile_rows).min(self.space.rows);
        (rows, col..(col + across * self.tile_cols).min(self.space.cols))
    }
}

/// The ranges of a box, by the space's axes.
struct BoxRanges {
    outer: Vec<Range<i64>>,
    rows: Range<i64>,
    cols: Range<i64>,
    gone: bool,
}
impl BoxRanges {
    fn new(prog: &TileProg, space: &Space, lo: &[i64], hi: &[i64]) -> Self {
        let mut ranges =
            BoxRanges { outer: vec![0..0; space.outer.len()], rows: 0..space.rows, cols: 0..space.cols, gone: false };
        for (i, axis) in prog.nest.axes.iter().enumerate().filter(|(_, axis)| !axis.walk) {
            _ = axis;
            let range = lo[i]..hi[i];
            match space.spots[i] {
                Spot::Outer(k) => ranges.outer[k] = range,
                Spot::Row => ranges.rows = range,
                Spot::Col => ranges.cols = range,
                Spot::Gone => ranges.gone |= range.is_empty(),
            }
        }
        // One tile covers the walk, even an empty one.
        match space.walk {
            Along::Nothing => {}
            Along::Rows => ranges.rows = 0..1,
            Along::Cols => ranges.cols = 0..1,
        }
        ranges.gone |= ranges.outer.iter().any(|r| r.is_empty());
        ranges.gone |= ranges.rows.is_empty() || ranges.cols.is_empty();
        ranges
    }
    fn is_empty(&self) -> bool {
        self.gone
    }
    fn first_outer(&self) -> Vec<i64> {
        self.outer.iter().map(|r| r.start).collect()
    }
    /// Steps to the next outer position; false after the last.
    fn next_outer(&self, at: &mut [i64]) -> bool {
        for (at, range) in at.iter_mut().zip(&self.outer).rev() {
            *at += 1;
            if *at < range.end {
                return true;
            }
            *at = range.start;
        }
        false
    }
}

/// The part of the index space under way.
#[derive(Clone, Copy)]
struct Part {
    row0: i64,
    rows: i64,
    col0: i64,
    cols: i64,
}

/// One run of a binding on one thread.
struct Run<'a> {
    binding: &'a Binding,
    bufs: &'a [*mut u8],
    table: &'a mut [*mut u8],
    /// Where each view starts at the outer position.
    bases: &'a mut [*mut u8],
    /// The outer position; written by whoever steps it.
    outer: &'a mut [i64],
    /// The outer position, row and column whose values are in the scratch.
    done_outer: &'a mut [i64],
    done_row: i64,
    done_col: i64,
    report: &'a dyn Fn(i64, i64),
    ahead: Ahead,
}

/// Which cache lines of the next tile have been asked for, counted from its beginning in each stream.
#[derive(Clone, Copy, Default)]
struct Ahead {
    next: usize,
    end: usize,
    each: usize,
}
/// Asks for a cache line; any address will do.
#[inline(always)]
fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(at as *const i8)
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

impl<'a> Run<'a> {
    fn new(binding: &'a Binding, bufs: &'a [*mut u8], scratch: &'a mut Scratch, report: &'a dyn Fn(i64, i64)) -> Self {
        let grow = |n: usize, len: usize| n.max(len);
        let (lines, views, outer) =
            (binding.scratch_bytes.div_ceil(64), binding.views.len(), binding.space.outer.len());
        scratch.memory.resize(grow(lines, scratch.memory.len()), [0; 8]);
        scratch.table.resize(grow(VIEWS as usize + views, scratch.table.len()), std::ptr::null_mut());
        scratch.bases.resize(grow(views, scratch.bases.len()), std::ptr::null_mut());
        scratch.outer.resize(grow(2 * outer, scratch.outer.len()), 0);
        scratch.table[SCRATCH as usize] = scratch.memory.as_mut_ptr() as *mut u8;
        scratch.table[CONSTS as usize] = binding.consts.as_ptr() as *mut u8;
        let (outer, done_outer) = scratch.outer[..2 * outer].split_at_mut(outer);
        done_outer.fill(i64::MIN);
        Run {
            binding,
            bufs,
            table: &mut scratch.table,
            bases: &mut scratch.bases[..views],
            outer,
            done_outer,
            done_row: -2,
            done_col: -2,
            report,
            ahead: Ahead::default(),
        }
    }

    /// Computes one tile and, where the nest walks, its whole walk. `first` is where the range being tiled begins.
    unsafe fn tile(&mut self, rows: Range<i64>, cols: Range<i64>, first: (i64, i64)) {
        let binding = self.binding;
        let (tile_rows, tile_cols) = (binding.tile_rows, binding.tile_cols);
        let (mut row_range, mut col_range) = (rows, cols);
        match binding.space.walk {
            Along::Nothing => {}
            Along::Rows => row_range = 0..binding.space.rows.min(tile_rows),
            Along::Cols => col_range = 0..binding.space.cols.min(tile_cols),
        }
        let part = Part {
            row0: row_range.start,
            rows: row_range.end - row_range.start,
            col0: col_range.start,
            cols: col_range.end - col_range.start,
        };
        // SAFETY: the caller's: every call covers elements that the views name.
        unsafe {
            if self.done_row == -2 || self.done_outer != self.outer {
                self.enter_outer();
            }
            self.point(part);
            if self.done_row != part.row0 {
                self.done_row = part.row0;
                self.calls(&binding.row_ops, part);
            }
            if self.done_col != part.col0 {
                self.done_col = part.col0;
                self.calls(&binding.col_ops, part);
            }
            self.plan_ahead(part);
            for phase in &binding.phases {
                self.phase(phase, part);
            }
            self.point(part);
            for end in &binding.ends {
                if !(end.first_row && part.row0 != first.0 || end.first_col && part.col0 != first.1) {
                    self.calls(std::slice::from_ref(&end.op), part);
                }
            }
        }
    }

    unsafe fn phase(&mut self, phase: &Phase, part: Part) {
        let binding = self.binding;
        // SAFETY: as in `tile`.
        unsafe {
            self.calls(&phase.before, part);
            match binding.space.walk {
                _ if phase.chunk.is_empty() => {}
                Along::Nothing => self.walk_calls(&phase.chunk, part),
                Along::Rows => {
                    let mut row0 = 0;
                    while row0 < binding.space.rows {
                        let rows = binding.tile_rows.min(binding.space.rows - row0);
                        self.point(Part { row0, rows, ..part });
                        self.calls(&phase.chunk, Part { row0, rows, ..part });
                        row0 += rows;
                    }
                }
                Along::Cols => {
                    let mut col0 = 0;
                    while col0 < binding.space.cols {
                        let cols = binding.tile_cols.min(binding.space.cols - col0);
                        self.point(Part { col0, cols, ..part });
                        self.walk_calls(&phase.chunk, Part { col0, cols, ..part });
                        col0 += cols;
                    }
                }
            }
            self.calls(&phase.after, part);
        }
    }

    /// Sets where the next tile's memory begins, so that it comes while this one is computed.
    fn plan_ahead(&mut self, part: Part) {
        let binding = self.binding;
        self.ahead = Ahead::default();
        if binding.streams.is_empty() {
            return;
        }
        let view = &binding.views[binding.streams[0] as usize];
        let tile_bytes = part.rows as usize * part.cols as usize * view.col as usize;
        self.ahead.end = tile_bytes.div_ceil(64);
        self.ahead.each = self.ahead.end.div_ceil(binding.walk_calls.max(1));
    }
    /// Calls, each after fetching its share of the next tile.
    unsafe fn walk_calls(&mut self, ops: &[Op], part: Part) {
        if self.ahead.end == 0 {
            // SAFETY: the caller's.
            return unsafe { self.calls(ops, part) };
        }
        for op in ops {
            let lines = self.ahead.next..(self.ahead.next + self.ahead.each).min(self.ahead.end);
            self.ahead.next = lines.end;
            for &stream in &self.binding.streams {
                let here = self.table[VIEWS as usize + stream as usize].wrapping_add(self.ahead.end * 64);
                lines.clone().for_each(|line| fetch(here.wrapping_add(line * 64)));
            }
            // SAFETY: the caller's.
            unsafe { self.calls(std::slice::from_ref(op), part) };
        }
    }

    /// Moves every view to the outer position and computes what depends on it alone.
    unsafe fn enter_outer(&mut self) {
        let binding = self.binding;
        self.done_outer.copy_from_slice(self.outer);
        (self.done_row, self.done_col) = (-1, -1);
        for (base, view) in self.bases.iter_mut().zip(&binding.views) {
            let steps = self.outer.iter().zip(&view.outer).map(|(&at, &stride)| at as isize * stride);
            *base = self.bufs[view.buffer].wrapping_offset(view.offset + steps.sum::<isize>());
        }
        self.table[VIEWS as usize..][..self.bases.len()].copy_from_slice(self.bases);
        let one = Part { row0: 0, rows: 1, col0: 0, cols: 1 };
        for step in &binding.outer {
            // SAFETY: as in `tile`; places of the scratch hold what their slots were sized for.
            unsafe {
                match step {
                    OuterStep::Run(op) => self.calls(std::slice::from_ref(op), one),
                    OuterStep::Rebase { view, index, by } => {
                        let value = *(self.machine().at(*index) as *const i64);
                        let base = self.bases[*view].wrapping_offset(clamped(by, value, self.report));
                        self.bases[*view] = base;
                        self.table[VIEWS as usize + view] = base;
                    }
                    OuterStep::Position { dst, axis } => {
                        *(self.machine().at(*dst) as *mut i64) = self.outer[*axis];
                    }
                }
            }
        }
    }
    fn machine(&self) -> Machine<'_> {
        Machine { table: self.table.as_ptr(), report: self.report }
    }

    /// Points every view at the first element of a part.
    fn point(&mut self, part: Part) {
        let entries = self.table[VIEWS as usize..].iter_mut();
        for ((entry, base), view) in entries.zip(self.bases.iter()).zip(&self.binding.views) {
            *entry = base.wrapping_offset(part.row0 as isize * view.row + part.col0 as isize * view.col);
        }
    }

    /// Calls kernels over a part.
    unsafe fn calls(&self, ops: &[Op], part: Part) {
        let machine = self.machine();
        let space_cols = self.binding.space.cols;
        let any_width = self.binding.tile_cols != space_cols;
        for op in ops {
            let (mut rows, mut cols) = match op.level {
                Level { rows: true, cols: true } => (part.rows, part.cols),
                Level { rows: true, cols: false } if op.tall => (part.rows, 1),
                Level { rows: true, cols: false } => (1, part.rows),
                Level { rows: false, cols: true } => (1, part.cols),
                Level { rows: false, cols: false } => (1, 1),
            };
            let width = cols as isize;
            if op.flat && (any_width || cols == space_cols) {
                (rows, cols) = (1, rows * cols);
            }
            let mut args = Args {
                dst: machine.at(op.dst.place),
                dst_pitch: op.dst.pitch + op.dst.dense * width,
                src: [std::ptr::null(); MOST_OPERANDS],
                pitch: [0; MOST_OPERANDS],
                step: [0; MOST_OPERANDS],
                rows: rows as usize,
                cols: cols as usize,
                row0: part.row0,
                col0: part.col0,
                extra: &op.extra,
                machine: &machine,
            };
            for (k, src) in op.src[..op.operands].iter().enumerate() {
                args.src[k] = machine.at(src.place);
                args.pitch[k] = src.pitch + src.dense * width;
                args.step[k] = src.step;
            }
            // SAFETY: the binding made the call for this part's levels, and sized the scratch for it.
            unsafe { (op.kernel)(&args) };
        }
    }
}
