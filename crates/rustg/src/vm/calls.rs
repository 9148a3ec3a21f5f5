//! What a bound tile program is made of: kernel calls, their operands and levels, and the phases they stand in.
use super::args::{Extra, Index, Kernel, MOST_OPERANDS, Place};
use super::space::{BoundView, Space};
use crate::Isa;
use crate::jit::Means;
use rtx_core::Arith;

/// The axes of the tile that something varies over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    pub rows: bool,
    pub cols: bool,
}
impl Level {
    pub const ONE: Level = Level { rows: false, cols: false };
    pub fn union(self, other: Level) -> Level {
        Level { rows: self.rows | other.rows, cols: self.cols | other.cols }
    }
    pub fn is_tile(self) -> bool {
        self.rows && self.cols
    }
}

/// One operand of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Operand {
    pub place: Place,
    /// Bytes from row to row, besides `dense` times the number of columns.
    pub pitch: isize,
    pub dense: isize,
    pub step: usize,
    /// Bytes of an element.
    pub size: isize,
}

/// One kernel call.
pub(super) struct Op {
    pub kernel: Kernel,
    pub level: Level,
    pub dst: Operand,
    pub src: [Operand; MOST_OPERANDS],
    pub operands: usize,
    /// May rows run on into each other when the tile is as wide as the space?
    pub flat: bool,
    /// Of rows alone, and they stay rows: one column.
    pub tall: bool,
    /// The instruction and its arithmetic, while the next one may still join it.
    pub joinable: Option<(usize, Arith)>,
    /// The instruction and what it does, if it can be printed.
    pub means: Option<(usize, Means)>,
    pub extra: Extra,
}

impl Op {
    /// A call that may be joined to nothing and has no print.
    pub fn new(kernel: Kernel, level: Level, dst: Operand, sources: &[Operand], extra: Extra) -> Op {
        let mut src = [Operand::default(); MOST_OPERANDS];
        src[..sources.len()].copy_from_slice(sources);
        Op {
            kernel,
            level,
            dst,
            src,
            operands: sources.len(),
            flat: false,
            tall: false,
            joinable: None,
            means: None,
            extra,
        }
    }

    /// Goes over every place that the call names.
    pub fn patch(&mut self, patch: impl Fn(&mut Place)) {
        patch(&mut self.dst.place);
        self.src[..self.operands].iter_mut().for_each(|o| patch(&mut o.place));
        match &mut self.extra {
            Extra::Reduce(reduce) => {
                patch(&mut reduce.lanes);
                patch(&mut reduce.partials);
            }
            Extra::Fused(fused) => fused.places_mut().for_each(patch),
            _ => {}
        }
    }
}

/// What is done once for each point of the outer axes.
#[allow(clippy::large_enum_variant, reason = "few, and most are the large one")]
pub(super) enum OuterStep {
    Run(Op),
    /// Moves a view by a computed index.
    Rebase {
        view: usize,
        index: Place,
        by: Index,
    },
    /// Writes the position along an outer axis.
    Position {
        dst: Place,
        axis: usize,
    },
}

/// The calls of one phase.
#[derive(Default)]
pub(super) struct Phase {
    /// Before the walk: what does not vary over it.
    pub before: Vec<Op>,
    /// For each chunk of the walk.
    pub chunk: Vec<Op>,
    /// After it: results of reductions.
    pub after: Vec<Op>,
}

/// A store of something that does not vary over a tiled axis: done by the first tile along it.
pub(super) struct End {
    pub op: Op,
    pub first_row: bool,
    pub first_col: bool,
}

/// What a binding is for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    pub sizes: Vec<i64>,
    pub isa: Isa,
    /// Stores whose buffer is also loaded from, a bit each.
    pub aliased: u64,
    /// For boxes: axes are kept apart.
    pub boxed: bool,
    /// Are instructions printed where they can be?
    pub fused: bool,
}

/// A tile program for certain sizes.
pub(super) struct Binding {
    pub key: Key,
    pub space: Space,
    pub tile_rows: i64,
    pub tile_cols: i64,
    pub views: Vec<BoundView>,
    pub outer: Vec<OuterStep>,
    pub row_ops: Vec<Op>,
    pub col_ops: Vec<Op>,
    pub phases: Vec<Phase>,
    pub ends: Vec<End>,
    pub consts: Vec<u64>,
    pub scratch_bytes: usize,
    /// Views whose tiles follow each other in memory, worth fetching ahead: more than the caches near a core hold.
    pub streams: Vec<u32>,
    /// Is the work one loop that reads no scratch, so that neighbouring tiles run as one?
    pub seamless: bool,
    /// Calls of all phases, among which fetching ahead is spread.
    pub walk_calls: usize,
}

/// Entries of the machine's table.
pub(super) const SCRATCH: u32 = 0;
pub(super) const CONSTS: u32 = 1;
pub(super) const VIEWS: u32 = 2;
