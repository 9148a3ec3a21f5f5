//! How a tile program lies over a grid of threads.
use crate::tile::{store_walks, walking};
use crate::vm::space::{may_merge, value, views, walks_rows};
use crate::{AxisId, Instr, Size, TileProg, View};
use rtx_core::DType;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Elements of a block of the reduction tree.
const BLOCK: i64 = 4096;
/// Threads of a block where nothing says otherwise.
const THREADS: i64 = 256;
/// Most threads of a block.
const MOST: i64 = 1024;

/// How threads share the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Points of the other axes that a block of threads works on.
    pub points: u32,
    /// Groups of 16 lanes that share the blocks of a walk.
    pub groups: u32,
    /// Do neighbouring threads take neighbouring elements of the walk, or neighbouring points?
    pub lanes_first: bool,
    /// Has a group one block of the walk at most?
    pub one_block: bool,
}

/// Which part of a kernel's work a launch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// All.
    Whole,
    /// Each block of each walk for itself, into scratch memory: 8 bytes for each reduction, point and block.
    Blocks,
    /// What the blocks came to, joined as the whole joins them.
    Joined,
}

/// What of sizes and strides the text of a kernel depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// The parallel axes that are left, outermost first; axes in one list are walked as one, by the last one's stride.
    pub axes: Vec<Vec<AxisId>>,
    /// Do all addresses fit in 31 bits?
    pub narrow: bool,
    /// The walk, if there is one.
    pub walk: Option<Walk>,
    /// Neighbouring points along the last axes that a thread works on, without a walk.
    pub wide: u32,
    /// What a launch does of it.
    pub part: Part,
}

/// How many blocks of how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Blocks; 0 where there is nothing to do.
    pub blocks: u32,
    /// Threads of each.
    pub threads: u32,
}

impl Grid {
    /// The grid for these sizes.
    pub fn new(prog: &TileProg, sizes: &[i64]) -> Self {
        let nest = &prog.nest;
        let extents: Vec<i64> = nest.axes.iter().map(|a| value(a.extent, sizes).max(0)).collect();
        let walk = nest.walk();
        let mut axes: Vec<Vec<AxisId>> = vec![];
        for (i, &extent) in extents.iter().enumerate() {
            let axis = AxisId(i as u32);
            if Some(axis) == walk || extent == 1 {
                continue;
            }
            match axes.last_mut() {
                Some(last) if may_merge(nest, sizes, last[last.len() - 1], axis, extent) => last.push(axis),
                _ => axes.push(vec![axis]),
            }
        }
        let last = axes.last().map(|group| (group[group.len() - 1], 0));
        let points: i64 =
            extents.iter().enumerate().filter(|(i, _)| walk.is_none_or(|w| w.index() != *i)).map(|(_, n)| n).product();
        let walk = walk.map(|w| {
            let along_rows = walks_rows(nest, sizes, w, last.as_ref());
            Walk::new(extents[w.index()], points, !along_rows)
        });
        let wide = if walk.is_none() { wide(prog, &extents, &axes, points) } else { 1 };
        Self { narrow: fits(prog, sizes, &extents), axes, walk, wide, part: Part::Whole }
    }

    /// Two launches instead of one where that would leave processors idle, and the bytes of scratch between them: the
    /// blocks of all walks at once, then their joining. The same tree, so the same bits.
    pub fn split(&self, prog: &TileProg, sizes: &[i64]) -> Option<([Self; 2], usize)> {
        let (nest, walk) = (&prog.nest, self.walk?);
        let folds = nest.instrs.iter().filter(|i| i.is_reduction()).count();
        let plain = nest.instrs.iter().enumerate().all(|(i, instr)| match instr {
            Instr::Reduce(..) => prog.phases[i] == 0,
            Instr::ArgReduce(..) => false,
            _ => true,
        });
        let walks = walking(nest);
        // What is stored on the way is stored by the blocks, and then nothing that rows share may lie there.
        let stores = nest.stores.iter().any(|s| store_walks(nest, s, &walks));
        let loads_rows = nest.instrs.iter().zip(&walks).any(|(i, walks)| matches!(i, Instr::Load(_)) && !walks);
        if folds == 0 || !plain || stores && (prog.store_phase != 0 || loads_rows) {
            return None;
        }
        let extent = value(nest.axes[nest.walk()?.index()].extent, sizes).max(0);
        let points = self.points(prog, sizes);
        let blocks = (extent as u64).div_ceil(BLOCK as u64) as i64;
        let busy = (points as u64).div_ceil(u64::from(walk.points));
        let least = if walk.lanes_first { 8 } else { 2 };
        if blocks < least || busy >= 100 || points.saturating_mul(extent) < 1 << 19 {
            return None;
        }
        let groups = if walk.lanes_first { 4 } else { 1 };
        let points_of_block = if walk.lanes_first { 1 } else { walk.points };
        let first = Walk { points: points_of_block, groups, one_block: true, ..walk };
        let bytes = 8 * folds * (points * blocks) as usize;
        let blocks = Self { walk: Some(first), part: Part::Blocks, ..self.clone() };
        Some(([blocks, Self { part: Part::Joined, ..self.clone() }], bytes))
    }

    /// Points of the axes that are left. An axis that is not in the list has one point, or is the walk.
    fn points(&self, prog: &TileProg, sizes: &[i64]) -> i64 {
        let extent = |a: &AxisId| value(prog.nest.axes[a.index()].extent, sizes).max(0);
        self.axes.iter().flatten().map(extent).product()
    }

    /// The launch for these sizes, which made the grid.
    pub fn launch(&self, prog: &TileProg, sizes: &[i64]) -> Launch {
        let points = self.points(prog, sizes);
        let (per_block, threads) = match &self.walk {
            None => (THREADS * i64::from(self.wide), THREADS),
            Some(w) => (w.points as i64, (w.points * w.groups * 16) as i64),
        };
        let of_walk = match (self.part, &self.walk, prog.nest.walk()) {
            (Part::Blocks, Some(w), Some(axis)) => {
                let extent = value(prog.nest.axes[axis.index()].extent, sizes).max(0) as u64;
                extent.div_ceil(BLOCK as u64).div_ceil(u64::from(w.groups))
            }
            _ => 1,
        };
        Launch {
            blocks: ((points as u64).div_ceil(per_block as u64) * of_walk).min(i32::MAX as u64) as u32,
            threads: threads as u32,
        }
    }

    /// A number for file names and tables.
    pub fn number(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// Most instructions of a kernel whose threads work on several points: the text of each is there for each point.
const WIDE_INSTRS: usize = 64;
/// Fewest points for it: fewer would leave processors without work.
const WIDE_POINTS: i64 = 1 << 18;

/// How many neighbouring points a thread takes, so that it reads and writes up to 16 bytes at once: 8 of halves and
/// smaller, 4 of others, 1 where rows are no multiple of that or nothing lies side by side.
fn wide(prog: &TileProg, extents: &[i64], axes: &[Vec<AxisId>], points: i64) -> u32 {
    let nest = &prog.nest;
    let Some(last) = axes.last() else { return 1 };
    let axis = last[last.len() - 1];
    let loaded =
        nest.instrs.iter().zip(&prog.types).filter(|(i, _)| matches!(i, Instr::Load(v) if side_by_side(v, axis)));
    let stored = nest.stores.iter().filter(|s| side_by_side(&s.view, axis)).map(|s| prog.types[s.value.index()]);
    let Some(most) = loaded.map(|(_, t)| *t).chain(stored).map(DType::size).max() else { return 1 };
    let (wide, row): (u32, i64) = (if most <= 2 { 8 } else { 4 }, last.iter().map(|a| extents[a.index()]).product());
    if row % i64::from(wide) == 0 && points >= WIDE_POINTS && nest.instrs.len() <= WIDE_INSTRS { wide } else { 1 }
}

/// Are the elements of neighbouring points along the axis neighbours in memory, wherever they lie?
pub(super) fn side_by_side(view: &View, axis: AxisId) -> bool {
    view.indexed.is_empty() && view.strides.iter().any(|&(a, stride)| a == axis && stride == Size::Const(1))
}

impl Walk {
    fn new(extent: i64, points: i64, lanes_first: bool) -> Self {
        let blocks = (extent.max(0) as u64).div_ceil(BLOCK as u64).max(1) as i64;
        // Few points and a long walk: as many threads as a block may have.
        let (most_groups, threads) = if points < 264 { (MOST / 16, MOST) } else { (16, THREADS) };
        let wanted = (blocks as u64).next_power_of_two() as i64;
        let (groups, per_block) = if lanes_first {
            let groups = wanted.min(most_groups);
            (groups, (threads / (16 * groups)).max(1))
        } else {
            let per_block = if points <= 16 { 16 } else { 32 };
            (wanted.min(MOST / (16 * per_block)), per_block)
        };
        let per_block = per_block.min((points.max(1) as u64).next_power_of_two() as i64);
        // Whole warps.
        let per_block = if 16 * groups * per_block < 32 { 2 } else { per_block };
        Self { points: per_block as u32, groups: groups as u32, lanes_first, one_block: blocks <= groups }
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.points * self.groups * 16
    }
}

/// Do all addresses and positions fit in 31 bits?
fn fits(prog: &TileProg, sizes: &[i64], extents: &[i64]) -> bool {
    let nest = &prog.nest;
    let points = extents.iter().fold(1i128, |n, &e| n * e.max(1) as i128);
    let reach = |view: &crate::View| {
        let steps = view
            .strides
            .iter()
            .map(|&(a, s)| value(s, sizes).unsigned_abs() as i128 * (extents[a.index()].max(1) - 1) as i128);
        let computed = view
            .indexed
            .iter()
            .map(|i| value(i.stride, sizes).unsigned_abs() as i128 * value(i.bound, sizes).max(1) as i128);
        steps.chain(computed).sum::<i128>() + value(view.offset, sizes).unsigned_abs() as i128
    };
    debug_assert!(nest.instrs.iter().all(|i| !matches!(i, Instr::Iota(a) if a.index() >= extents.len())));
    points + 4096 < i32::MAX as i128 && views(nest).all(|v| reach(v) < i32::MAX as i128)
}
