//! Tile programs as code: their items of work spread over the pool.
use crate::{isa, pool};
use rtx_core::{Error, Kind, Result};
use rtx_hal::{Code, Launch};
use rustg::{Scratch, TileProg};
use std::any::Any;
use std::cell::Cell;
use std::ops::Range;

/// Nanoseconds of work that make it worth while to ask a thread for help.
const SHARE_NS: i64 = 8_000;

/// A tile program that is ready to run.
pub struct TileCode(TileProg);

impl TileCode {
    /// Reads a program's text.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        TileProg::parse(text)
            .map(Self)
            .map_err(|message| Error::new(Kind::Internal, format!("tile program: {message}")))
    }

    /// The program.
    pub fn program(&self) -> &TileProg {
        &self.0
    }

    /// Runs the points with `lo <= axis < hi` of every parallel axis in the calling thread: an absorbed epilogue, on
    /// a part of what its kernel has just computed.
    ///
    /// # Safety
    /// As [`Code::run`], for those points.
    pub unsafe fn run_box(&self, launch: &Launch<'_>, lo: &[i64], hi: &[i64]) {
        let report = |index, bound| launch.error.report(index, bound);
        // SAFETY: the caller's promise; `isa` is what the machine has.
        with_own_scratch(|scratch| unsafe {
            self.0.run_box(launch.buffers, launch.sizes, lo, hi, isa(), scratch, &report)
        });
    }

    /// Runs some of a launch's items in the calling thread.
    unsafe fn run_items(&self, launch: &Launch<'_>, items: Range<i64>) {
        if items.is_empty() {
            return;
        }
        let report = |index, bound| launch.error.report(index, bound);
        // SAFETY: the caller's promise; `isa` is what the machine has.
        with_own_scratch(|scratch| unsafe { self.0.run(launch.buffers, launch.sizes, items, isa(), scratch, &report) });
    }
}

impl Code for TileCode {
    unsafe fn run(&self, launch: &Launch<'_>) {
        // SAFETY: the caller's promise.
        unsafe { self.run_many(std::slice::from_ref(launch)) }
    }

    unsafe fn run_many(&self, launches: &[Launch<'_>]) {
        let line = Line::new(launches.iter().map(|l| (self.0.work(l.sizes), self.0.cost(l.sizes))));
        let parts = (line.cost() / SHARE_NS).clamp(1, pool::threads() as i64) as usize;
        let launches = Launches(launches);
        pool::run(parts, &|part| {
            let launches = &launches;
            for (launch, items) in line.part(part, parts) {
                // SAFETY: the caller's promise; items are apart.
                unsafe { self.run_items(&launches.0[launch], items) }
            }
        });
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Launches as several threads see them.
struct Launches<'a>(&'a [Launch<'a>]);
// SAFETY: threads only read the launches; what they write through the pointers is apart.
unsafe impl Sync for Launches<'_> {}

/// The items of several launches one after the other, measured by cost, so that they split evenly.
struct Line(Vec<Stretch>);

/// One launch's stretch of the line.
struct Stretch {
    start: i64,
    cost: i64,
    items: i64,
}

impl Line {
    /// From each launch's number of items and its cost.
    fn new(launches: impl Iterator<Item = (i64, i64)>) -> Self {
        let mut start = 0i64;
        let stretches = launches.map(|(items, cost)| {
            let stretch = Stretch { start, cost: cost.clamp(1, i64::MAX >> 16), items };
            start = start.saturating_add(stretch.cost);
            stretch
        });
        Self(stretches.collect())
    }

    fn cost(&self) -> i64 {
        self.0.last().map_or(0, |last| last.start.saturating_add(last.cost))
    }

    /// Each launch and its items in part `part` of `parts`. The parts are apart and cover the line.
    fn part(&self, part: usize, parts: usize) -> impl Iterator<Item = (usize, Range<i64>)> {
        let cut = |part: usize| (self.cost() as i128 * part as i128 / parts as i128) as i64;
        let (lo, hi) = (cut(part), cut(part + 1));
        self.0.iter().enumerate().map(move |(i, stretch)| (i, stretch.items_before(lo)..stretch.items_before(hi)))
    }
}

impl Stretch {
    /// How many of the launch's items lie before a point of the line.
    fn items_before(&self, point: i64) -> i64 {
        let into = (point - self.start).clamp(0, self.cost);
        (into as i128 * self.items as i128 / self.cost as i128) as i64
    }
}

/// Calls `f` with the thread's own scratch for tile programs.
fn with_own_scratch<R>(f: impl FnOnce(&mut Scratch) -> R) -> R {
    thread_local! { static OWN: Cell<Scratch> = Cell::default(); }
    let mut scratch = OWN.take();
    let result = f(&mut scratch);
    OWN.set(scratch);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_in_one_part() {
        for launches in [vec![(10, 100)], vec![(1, 5), (0, 0), (7, 1000), (3, 2)], vec![], vec![(4, 0); 30]] {
            let line = Line::new(launches.iter().copied());
            for parts in 1..=5 {
                let mut seen: Vec<Vec<u8>> = launches.iter().map(|l| vec![0; l.0 as usize]).collect();
                for (launch, items) in (0..parts).flat_map(|part| line.part(part, parts)) {
                    items.for_each(|i| seen[launch][i as usize] += 1);
                }
                assert!(seen.iter().flatten().all(|n| *n == 1), "{launches:?} in {parts} parts");
            }
        }
    }

    #[test]
    fn parts_cost_about_the_same() {
        let line = Line::new((0..30).map(|i| (100, 1000 * (1 + i % 3))));
        for part in 0..2 {
            let cost: i64 =
                line.part(part, 2).map(|(i, items)| (items.end - items.start) * 10 * (1 + i as i64 % 3)).sum();
            assert!((29_000..=31_000).contains(&cost), "part {part}: {cost}");
        }
    }

    /// `y[i] = x[i] + x[i]`, f32, `i < sizes[0]`.
    fn twice() -> TileCode {
        use rustg::{Arith, Axis, AxisId, BufferDecl, BufferId, Instr, Nest, Size, Store, View};
        let view = |buffer| View {
            buffer: BufferId(buffer),
            strides: vec![(AxisId(0), Size::Const(1))],
            offset: Size::Const(0),
            indexed: vec![],
        };
        let mut nest = Nest { axes: vec![Axis { extent: Size::Arg(0), walk: false }], sizes: 1, ..Nest::default() };
        nest.buffers = [false, true].map(|written| BufferDecl { dtype: rtx_core::DType::F32, written }).into();
        let x = nest.push(Instr::Load(view(0)));
        let sum = nest.push(Instr::Binary(Arith::Add, x, x));
        nest.stores.push(Store { view: view(1), value: sum });
        TileCode::parse(&rustg::schedule(&nest).expect("the nest is well formed").print()).expect("the text parses")
    }

    #[test]
    fn launches_run_together_and_alone() {
        let code = twice();
        let lengths = [100_000i64, 0, 1, 30_000, 77];
        let error = rtx_hal::ErrorSlot::default();
        let mut inputs: Vec<Vec<f32>> = lengths.iter().map(|&n| (0..n).map(|i| i as f32).collect()).collect();
        for together in [true, false] {
            let mut outputs: Vec<Vec<f32>> = lengths.iter().map(|&n| vec![-1.0; n as usize]).collect();
            let pairs = inputs.iter_mut().zip(&mut outputs);
            let buffers: Vec<[*mut u8; 2]> = pairs.map(|(x, y)| [x, y].map(|v| v.as_mut_ptr().cast())).collect();
            let sizes = lengths.map(|n| [n]);
            let launch = |i: usize| Launch { buffers: &buffers[i], sizes: &sizes[i], error: &error };
            let launches: Vec<Launch<'_>> = (0..lengths.len()).map(launch).collect();
            // SAFETY: the buffers have as many elements as the sizes say, and no two launches share one.
            unsafe {
                match together {
                    true => code.run_many(&launches),
                    false => launches.iter().for_each(|launch| code.run(launch)),
                }
            }
            for (x, y) in inputs.iter().zip(&outputs) {
                assert!(x.iter().zip(y).all(|(x, y)| *y == x + x), "{} elements, together: {together}", x.len());
            }
        }
    }

    #[test]
    fn what_does_not_parse_is_an_internal_error() {
        let error = TileCode::parse("tilt 3").err().expect("that is no program");
        assert_eq!(error.kind(), Kind::Internal);
        assert!(error.message().starts_with("tile program: "), "{error}");
    }
}
