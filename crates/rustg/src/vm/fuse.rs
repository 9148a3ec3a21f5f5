//! Runs of calls that become one printed loop.
//!
//! A run is made of calls of one level whose instructions can be printed. A call that cannot is done before the run,
//! unless it waits for something in it. Inside a run a value is a register; it is written to its slot or argument only
//! if somebody outside reads it.
use super::args::{Args, Extra, Place};
use super::calls::{CONSTS, Level, Op, Operand, OuterStep, Phase, SCRATCH, VIEWS};
use super::reduce::{BLOCK, blocks};
use crate::Isa;
use crate::jit::{self, Code, Frame, MOST_MEMS, Mem, Region, Src, Step, What};
use rtx_core::DType;
use std::collections::HashMap;
use std::sync::Arc;

/// The kernel of an instruction that is always printed.
///
/// # Safety
/// Never called.
pub(super) unsafe fn never(_: &Args<'_>) {
    unreachable!("a binding with printed instructions prints all of them")
}

/// A printed loop and its operands.
pub(super) struct Fused {
    code: Arc<Code>,
    mems: Vec<FusedMem>,
    /// Does it fold rows? Then it is called for one block of each row at a time.
    folds: bool,
    /// Does it do whole rows, from the first load to the last store?
    rows: bool,
    /// Operands in memory that every block of rows uses again.
    local: Vec<u32>,
    /// The same with results written past the caches, where that pays, and which operands those are.
    past: Option<(Arc<Code>, Vec<u32>)>,
}

/// Bytes of a launch's streams from which on results are written past the caches.
const PAST_BYTES: i64 = 16 << 20;

/// Views whose tiles follow each other through much memory.
pub(super) struct Streams {
    pub views: Vec<u32>,
    /// Of all of them together.
    pub bytes: i64,
}

/// An operand of a printed loop.
#[derive(Clone, Copy, PartialEq)]
struct FusedMem {
    place: Place,
    pitch: isize,
    dense: isize,
    mem: Mem,
    /// Bytes of an element.
    size: isize,
}

impl Fused {
    pub fn places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        self.mems.iter_mut().map(|m| &mut m.place)
    }
    /// Do all rows run on into each other? `serves_all`, `runs_on`: of an operand with one element for a row, with one
    /// for every column.
    pub fn is_flat(&self, serves_all: impl Fn(&Operand) -> bool, runs_on: impl Fn(&Operand) -> bool) -> bool {
        !self.folds
            && self.mems.iter().all(|m| {
                let step = matches!(m.mem, Mem::Tile(_)) as usize;
                let operand = Operand { place: m.place, pitch: m.pitch, dense: m.dense, step, size: m.size };
                match m.mem {
                    Mem::Tile(_) => runs_on(&operand),
                    Mem::Row(_) => serves_all(&operand),
                    Mem::Const(..) => true,
                    Mem::Partial(_) => false,
                }
            })
    }
    /// Does it do whole rows, from the first load to the last store?
    pub fn is_rows(&self) -> bool {
        self.rows
    }
    /// Is everything that it reads and writes for each element an argument?
    pub fn reads_arguments_only(&self) -> bool {
        let local = |m: usize| self.local.contains(&(m as u32));
        let mut mems = self.mems.iter().enumerate();
        mems.all(|(k, m)| m.place.entry != SCRATCH || local(k) || (m.pitch == 0 && m.dense == 0 && m.is_row()))
    }
}
impl FusedMem {
    fn is_row(&self) -> bool {
        matches!(self.mem, Mem::Row(_))
    }
}

impl Fused {
    /// The code for operands at these places: results go past the caches only if they begin on cache lines and nothing
    /// else is there.
    fn code(&self, frame: &Frame) -> &Code {
        // SAFETY: `run` has set every operand.
        let get = |k: usize| unsafe { frame.get(k) };
        let Some((code, operands)) = &self.past else { return &self.code };
        let fits = operands.iter().all(|&m| {
            let (start, pitch) = get(m as usize);
            let is_alone = (0..self.mems.len()).all(|k| k == m as usize || get(k).0 != start);
            start % 64 == 0 && pitch % 64 == 0 && is_alone
        });
        if fits { code } else { &self.code }
    }
}

/// Runs a printed loop over a part.
unsafe fn run(x: &Args<'_>) {
    let Extra::Fused(fused) = x.extra else { unreachable!("a printed loop comes with its code") };
    let mut frame = Frame::new();
    let consts = x.machine.at(Place { entry: CONSTS, offset: 0 });
    let mut done = 0;
    while done < x.cols {
        let cols = if fused.folds { (x.cols - done).min(BLOCK) } else { x.cols - done };
        for (k, m) in fused.mems.iter().enumerate() {
            let first = match m.mem {
                Mem::Tile(_) => done as isize * m.size,
                Mem::Partial(_) => ((x.col0 as usize + done) / BLOCK) as isize * m.size,
                Mem::Row(_) | Mem::Const(..) => 0,
            };
            let start = x.machine.at(m.place).wrapping_offset(first);
            frame.set(k, start, m.pitch + m.dense * x.cols as isize);
        }
        // SAFETY: the binding made the operands for this part's level, and chose the code by the machine.
        unsafe { fused.code(&frame).run(&mut frame, consts, x.rows, cols) };
        done += cols;
    }
}

/// Which slots calls read or write.
pub(super) fn used_slots<'a>(slots: usize, ops: impl Iterator<Item = &'a Op>, outer: &'a [OuterStep]) -> Vec<bool> {
    let mut used = vec![false; slots];
    let mut mark = |place: &Place| {
        if let (SCRATCH, Some(slot)) = (place.entry, used.get_mut(place.offset as usize)) {
            *slot = true;
        }
    };
    let outer_ops = outer.iter().filter_map(|s| if let OuterStep::Run(op) = s { Some(op) } else { None });
    for op in ops.chain(outer_ops) {
        match &op.extra {
            Extra::Fused(fused) => fused.mems.iter().for_each(|m| mark(&m.place)),
            extra => {
                mark(&op.dst.place);
                op.src[..op.operands].iter().for_each(|o| mark(&o.place));
                if let Extra::Reduce(reduce) = extra {
                    mark(&reduce.lanes);
                    mark(&reduce.partials);
                }
            }
        }
    }
    for step in outer {
        match step {
            OuterStep::Run(_) => {}
            OuterStep::Rebase { index, .. } => mark(index),
            OuterStep::Position { dst, .. } => mark(dst),
        }
    }
    used
}

/// Makes runs of calls into printed loops.
pub(super) struct Fuser<'a> {
    /// Has the space no row axis? Then what varies over the columns alone is a whole tile.
    no_rows: bool,
    isa: Isa,
    /// How often each place is read.
    reads: HashMap<Place, usize>,
    /// Views whose tiles follow each other in memory, worth fetching ahead.
    streams: &'a Streams,
    /// Calls that were printed.
    pub printed: usize,
}

impl<'a> Fuser<'a> {
    pub fn new<'b>(
        no_rows: bool,
        isa: Isa,
        ops: impl Iterator<Item = &'b Op>,
        outer: &'b [OuterStep],
        streams: &'a Streams,
    ) -> Self {
        let mut reads = HashMap::new();
        let mut count = |place: Place| *reads.entry(place).or_insert(0) += 1;
        let outer_ops = outer.iter().filter_map(|s| if let OuterStep::Run(op) = s { Some(op) } else { None });
        for op in ops.chain(outer_ops) {
            op.src[..op.operands].iter().for_each(|o| count(o.place));
        }
        for step in outer {
            if let OuterStep::Rebase { index, .. } = step {
                count(*index);
            }
        }
        Fuser { no_rows, isa, reads, streams, printed: 0 }
    }

    /// The same calls with runs printed. `Err`: the instruction that cannot be.
    pub fn fuse(&mut self, list: Vec<Op>) -> Result<Vec<Op>, usize> {
        let mut out = vec![];
        let mut run: Vec<Op> = vec![];
        for op in list {
            let joins = run.first().is_none_or(|first| self.is_one_level(first, &op));
            if op.means.is_some() {
                if !joins {
                    self.close(&mut run, &mut out)?;
                }
                run.push(op);
                continue;
            }
            if let Extra::Fused(_) = op.extra {
                out.push(op);
                continue;
            }
            let waits = op.src[..op.operands].iter().any(|o| run.iter().any(|r| r.dst.place == o.place));
            if waits || op.dst.place.entry >= VIEWS {
                self.close(&mut run, &mut out)?;
            }
            out.push(op);
        }
        self.close(&mut run, &mut out)?;
        Ok(out)
    }
    fn is_one_level(&self, a: &Op, b: &Op) -> bool {
        a.level == b.level || (self.no_rows && a.level.cols && b.level.cols)
    }

    fn close(&mut self, run: &mut Vec<Op>, out: &mut Vec<Op>) -> Result<(), usize> {
        let run = std::mem::take(run);
        if !run.is_empty() {
            self.print(&run, out)?;
        }
        Ok(())
    }
    /// Prints a run, in halves if it is too large.
    fn print(&mut self, run: &[Op], out: &mut Vec<Op>) -> Result<(), usize> {
        if let Some(op) = self.printed_loop(run) {
            self.printed += run.len();
            out.push(op);
            return Ok(());
        }
        if let [Op { means: Some((i, _)), .. }] = run {
            return Err(*i);
        }
        let (first, second) = run.split_at(run.len() / 2);
        self.print(first, out)?;
        self.print(second, out)
    }

    fn printed_loop(&self, run: &[Op]) -> Option<Op> {
        let mut maker = Maker { stage: 1, ..Maker::default() };
        run.iter().try_for_each(|op| maker.step(op))?;
        let level = run.iter().map(|op| op.level).reduce(Level::union)?;
        Some(maker.finish(self)?.call(level))
    }

    /// All phases of rows of one block as one loop over rows; `None` if something in them cannot be printed.
    pub fn rows(&mut self, phases: &[Phase]) -> Option<Op> {
        let mut maker = Maker { does_rows: true, ..Maker::default() };
        let of_rows = Level { rows: true, cols: false };
        let tile = Level { rows: true, cols: true };
        let is_plain = |ops: &[Op], level| ops.iter().all(|op| op.means.is_some() && op.level == level);
        for (n, phase) in phases.iter().enumerate() {
            if !is_plain(&phase.before, of_rows) || !is_plain(&phase.chunk, tile) {
                return None;
            }
            maker.stage = 2 * n as u32;
            phase.before.iter().try_for_each(|op| maker.step(op))?;
            maker.stage += 1;
            phase.chunk.iter().try_for_each(|op| maker.step(op))?;
            phase.after.iter().try_for_each(|op| maker.name_fold(op))?;
        }
        let printed = maker.region.steps.len() + phases.iter().map(|p| p.after.len()).sum::<usize>();
        let fused = maker.finish(self)?;
        self.printed += printed;
        Some(fused.call(tile))
    }
}

impl Fused {
    /// The call of the loop.
    fn call(self, level: Level) -> Op {
        Op {
            kernel: self::run,
            level,
            dst: Operand::default(),
            src: Default::default(),
            operands: 0,
            flat: false,
            tall: false,
            joinable: None,
            means: None,
            extra: Extra::Fused(Box::new(self)),
        }
    }
}

/// A region under way.
#[derive(Default)]
struct Maker {
    region: Region,
    mems: Vec<FusedMem>,
    /// Even: once a row. Odd: a loop over the columns.
    stage: u32,
    /// Are rows done whole?
    does_rows: bool,
    /// The step whose result is the value of a place.
    made: HashMap<Place, u32>,
    /// Of each step: where its result would go, and how often it is read in the region.
    results: Vec<(Operand, usize)>,
    /// The step that folds into a place, and its place.
    folds: Vec<(Place, u32)>,
}

impl Maker {
    fn mem(&mut self, mem: Mem, o: &Operand) -> Option<u32> {
        let made = FusedMem { place: o.place, pitch: o.pitch, dense: o.dense, mem, size: o.size };
        if let Some(at) = self.mems.iter().position(|m| *m == made) {
            return Some(at as u32);
        }
        if self.mems.len() == MOST_MEMS {
            return None;
        }
        self.mems.push(made);
        self.region.mems.push(mem);
        Some(self.mems.len() as u32 - 1)
    }
    /// Is a step's result in registers at the stage under way?
    fn is_at_hand(&self, step: u32) -> bool {
        let made = &self.region.steps[step as usize];
        made.stage == self.stage || made.stage.is_multiple_of(2) || matches!(made.means.what, What::Fold(_))
    }
    fn source(&mut self, o: &Operand, t: DType) -> Option<Src> {
        if let Some(step) = self.made.get(&o.place).copied().filter(|&s| self.is_at_hand(s)) {
            self.results[step as usize].1 += 1;
            return Some(Src::Step(step));
        }
        let once = self.is_once_a_row();
        let mem = match (o.place.entry, o.step) {
            (CONSTS, _) => Mem::Const(t, o.place.offset),
            (_, 0) => Mem::Row(t),
            _ if once => Mem::Row(t),
            _ => Mem::Tile(t),
        };
        // The table of constants is found by other means. What is once a row lies element after element.
        let o = match mem {
            Mem::Const(..) => Operand { pitch: 0, dense: 0, ..*o },
            _ if once => Operand { pitch: o.size * o.step as isize, dense: 0, ..*o },
            _ => *o,
        };
        Some(Src::Mem(self.mem(mem, &o)?))
    }
    fn is_once_a_row(&self) -> bool {
        self.stage.is_multiple_of(2)
    }
    fn step(&mut self, op: &Op) -> Option<()> {
        let (_, means) = op.means?;
        let mut src = vec![];
        for (k, o) in op.src[..op.operands].iter().enumerate() {
            src.push(self.source(o, means.from[k.min(2)])?);
        }
        let mut step = Step { means, src, out: None, stage: self.stage };
        let this = self.region.steps.len() as u32;
        match (&op.extra, means.what) {
            (Extra::Reduce(reduce), What::Fold(_)) => {
                self.folds.push((reduce.partials, this));
                if !self.does_rows {
                    let size = means.to.size() as isize;
                    let pitch = blocks(reduce.extent) as isize * size;
                    let o = Operand { place: reduce.partials, pitch, dense: 0, step: 0, size };
                    step.out = Some(self.mem(Mem::Partial(means.to), &o)?);
                }
            }
            (_, What::Copy) => step.out = Some(self.mem(Mem::Tile(means.to), &op.dst)?),
            _ => {
                self.made.insert(op.dst.place, this);
            }
        }
        self.region.steps.push(step);
        self.results.push((op.dst, 0));
        Some(())
    }
    /// What ends a fold of one block: its result is the block's.
    fn name_fold(&mut self, op: &Op) -> Option<()> {
        let Extra::Reduce(reduce) = &op.extra else { return None };
        let &(_, step) = self.folds.iter().find(|(place, _)| *place == reduce.partials)?;
        self.made.insert(op.dst.place, step);
        self.results[step as usize].0 = op.dst;
        Some(())
    }
    /// The loop, printed.
    fn finish(mut self, fuser: &Fuser<'_>) -> Option<Fused> {
        self.write_results(&fuser.reads)?;
        self.fetch_ahead(fuser.streams);
        self.find_local(&fuser.reads);
        let code = jit::load(&self.region, fuser.isa)?;
        let past = if fuser.streams.bytes > PAST_BYTES { self.past(fuser.isa) } else { None };
        let folds = self.does_rows || !self.folds.is_empty();
        Some(Fused { code, past, folds, rows: self.does_rows, local: self.region.local, mems: self.mems })
    }
    /// Marks what whole rows keep for themselves: written and read here alone.
    fn find_local(&mut self, reads: &HashMap<Place, usize>) {
        let steps = &self.region.steps;
        let is_local = |k: usize, m: &FusedMem| {
            let here = steps.iter().flat_map(|s| &s.src).filter(|src| **src == Src::Mem(k as u32)).count();
            let inside = m.place.entry == SCRATCH && matches!(m.mem, Mem::Tile(_));
            inside && steps.iter().any(|s| s.out == Some(k as u32)) && reads.get(&m.place) == Some(&here)
        };
        let mems = self.mems.iter().enumerate().filter(|_| self.does_rows);
        self.region.local = mems.filter(|(k, m)| is_local(*k, m)).map(|(k, _)| k as u32).collect();
    }
    /// Marks the operands that are worth fetching ahead.
    fn fetch_ahead(&mut self, streams: &Streams) {
        let is_stream = |m: &FusedMem| {
            let view = m.place.entry.checked_sub(VIEWS);
            matches!(m.mem, Mem::Tile(_)) && view.is_some_and(|v| streams.views.contains(&v))
        };
        let marked = self.mems.iter().zip(0..).filter(|(m, _)| is_stream(m)).map(|(_, at)| at);
        self.region.ahead = marked.collect();
    }
    /// The same with large results written past the caches, so that they are not fetched first.
    fn past(&self, isa: Isa) -> Option<(Arc<Code>, Vec<u32>)> {
        let of_words = |m: u32| matches!(self.region.mems[m as usize], Mem::Tile(t) if t.size() >= 4);
        let written = |m: &u32| self.region.steps.iter().any(|s| s.out == Some(*m));
        let read = |m: &u32| self.region.steps.iter().any(|s| s.src.contains(&Src::Mem(*m)));
        let large = self.region.ahead.iter().copied().filter(|m| written(m) && !read(m) && of_words(*m));
        let past: Vec<u32> = large.collect();
        if past.is_empty() {
            return None;
        }
        let mut region = self.region.clone();
        region.ahead.retain(|m| !past.contains(m));
        region.past = past.clone();
        Some((jit::load(&region, isa)?, past))
    }
    /// Values that are arguments, or that others read, are written.
    fn write_results(&mut self, reads: &HashMap<Place, usize>) -> Option<()> {
        for s in 0..self.results.len() {
            let (dst, read) = self.results[s];
            if self.made.get(&dst.place) != Some(&(s as u32)) {
                continue;
            }
            if reads.get(&dst.place).copied().unwrap_or(0) > read || dst.place.entry >= VIEWS {
                let Step { means, stage, .. } = self.region.steps[s];
                let once = stage % 2 == 0 || matches!(means.what, What::Fold(_));
                self.region.steps[s].out = Some(match once {
                    true => self.mem(Mem::Partial(means.to), &Operand { pitch: dst.size, dense: 0, step: 0, ..dst })?,
                    false => self.mem(Mem::Tile(means.to), &dst)?,
                });
            }
        }
        Some(())
    }
}
