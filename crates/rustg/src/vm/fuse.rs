//! Runs of calls that become one printed loop.
//!
//! A run is made of calls of one level whose instructions can be printed. A call that cannot is done before the run,
//! unless it waits for something in it. Inside a run a value is a register; it is written to its slot or argument only
//! if somebody outside reads it.
use super::args::{Args, Extra, Place};
use super::calls::{CONSTS, Op, Operand, OuterStep, SCRATCH, VIEWS};
use super::reduce::{BLOCK, blocks};
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
        self.mems.iter().all(|m| {
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
    /// Is everything that it reads and writes for each element an argument?
    pub fn reads_arguments_only(&self) -> bool {
        self.mems.iter().all(|m| m.place.entry != SCRATCH || (m.pitch == 0 && m.dense == 0 && m.is_row()))
    }
}
impl FusedMem {
    fn is_row(&self) -> bool {
        matches!(self.mem, Mem::Row(_))
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
        unsafe { fused.code.run(&mut frame, consts, x.rows, cols) };
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
pub(super) struct Fuser {
    /// Has the space no row axis? Then what varies over the columns alone is a whole tile.
    no_rows: bool,
    /// How often each place is read.
    reads: HashMap<Place, usize>,
    /// Calls that were printed.
    pub printed: usize,
}

impl Fuser {
    pub fn new<'a>(no_rows: bool, ops: impl Iterator<Item = &'a Op>, outer: &'a [OuterStep]) -> Self {
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
        Fuser { no_rows, reads, printed: 0 }
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
        if let ([op], Some((i, _))) = (run, run[0].means) {
            debug_assert!(op.means.is_some());
            return Err(i);
        }
        let (first, second) = run.split_at(run.len() / 2);
        self.print(first, out)?;
        self.print(second, out)
    }

    fn printed_loop(&self, run: &[Op]) -> Option<Op> {
        let mut maker = Maker::default();
        for op in run {
            maker.step(op)?;
        }
        maker.write_results(run, &self.reads)?;
        let code = jit::load(&maker.region)?;
        let folds = run.iter().any(|op| matches!(op.means, Some((_, m)) if matches!(m.what, What::Fold(_))));
        let fused = Fused { code, mems: maker.mems, folds };
        let level = run.iter().map(|op| op.level).reduce(|a, b| a.union(b))?;
        Some(Op {
            kernel: self::run,
            level,
            dst: Operand::default(),
            src: Default::default(),
            operands: 0,
            flat: false,
            tall: false,
            joinable: None,
            means: None,
            extra: Extra::Fused(Box::new(fused)),
        })
    }
}

/// A region under way.
#[derive(Default)]
struct Maker {
    region: Region,
    mems: Vec<FusedMem>,
    /// The step whose result is the value of a place.
    made: HashMap<Place, u32>,
    /// How often each step is read in the region.
    read: Vec<usize>,
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
    fn source(&mut self, o: &Operand, t: DType) -> Option<Src> {
        if let Some(&step) = self.made.get(&o.place) {
            self.read[step as usize] += 1;
            return Some(Src::Step(step));
        }
        let mem = match (o.place.entry, o.step) {
            (CONSTS, _) => Mem::Const(t, o.place.offset),
            (_, 0) => Mem::Row(t),
            _ => Mem::Tile(t),
        };
        // The table of constants is found by other means.
        let o = if o.place.entry == CONSTS { Operand { pitch: 0, dense: 0, ..*o } } else { *o };
        Some(Src::Mem(self.mem(mem, &o)?))
    }
    fn step(&mut self, op: &Op) -> Option<()> {
        let (_, means) = op.means?;
        let mut src = vec![];
        for (k, o) in op.src[..op.operands].iter().enumerate() {
            src.push(self.source(o, means.from[k.min(2)])?);
        }
        let mut step = Step { means, src, out: None, stage: 1 };
        match (&op.extra, means.what) {
            (Extra::Reduce(reduce), What::Fold(_)) => {
                let size = means.to.size() as isize;
                let pitch = blocks(reduce.extent) as isize * size;
                let o = Operand { place: reduce.partials, pitch, dense: 0, step: 0, size };
                step.out = Some(self.mem(Mem::Partial(means.to), &o)?);
            }
            (_, What::Copy) => step.out = Some(self.mem(Mem::Tile(means.to), &op.dst)?),
            _ => {
                self.made.insert(op.dst.place, self.region.steps.len() as u32);
            }
        }
        self.region.steps.push(step);
        self.read.push(0);
        Some(())
    }
    /// Values that are arguments, or that others read, are written.
    fn write_results(&mut self, run: &[Op], reads: &HashMap<Place, usize>) -> Option<()> {
        for (s, op) in run.iter().enumerate() {
            let place = op.dst.place;
            if self.made.get(&place) != Some(&(s as u32)) {
                continue;
            }
            let elsewhere = reads.get(&place).copied().unwrap_or(0) > self.read[s];
            if let (true, Some((_, means))) = (elsewhere || place.entry >= VIEWS, op.means) {
                self.region.steps[s].out = Some(self.mem(Mem::Tile(means.to), &op.dst)?);
            }
        }
        Some(())
    }
}
