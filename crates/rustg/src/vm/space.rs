//! The index space of a launch: which axes merge, which form the tile.
use crate::{AxisId, Instr, Nest, Size, TileProg, View};

/// Where an axis of the nest went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// Looped over, position among the outer axes.
    Outer(usize),
    /// The tile's rows.
    Row,
    /// The tile's columns.
    Col,
    /// One point, or merged into the axis after it.
    Gone,
}

/// Which axis of the tile is the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    Nothing,
    Rows,
    Cols,
}

/// The index space with its axes assigned.
#[derive(Debug)]
pub(super) struct Space {
    /// Extents of the axes looped over, outermost first.
    pub outer: Vec<i64>,
    pub rows: i64,
    pub cols: i64,
    pub walk: Along,
    /// Of each axis of the nest.
    pub spots: Vec<Spot>,
}

/// A view with its numbers known; strides in bytes.
#[derive(Debug)]
pub(super) struct BoundView {
    pub buffer: usize,
    pub offset: isize,
    pub outer: Vec<isize>,
    pub row: isize,
    pub col: isize,
}

pub(crate) fn value(size: Size, sizes: &[i64]) -> i64 {
    match size {
        Size::Const(n) => n,
        Size::Arg(i) => sizes[i as usize],
    }
}
fn stride_of(view: &View, axis: AxisId, sizes: &[i64]) -> i64 {
    view.strides.iter().find(|(a, _)| *a == axis).map_or(0, |&(_, s)| value(s, sizes))
}
pub(crate) fn views(nest: &Nest) -> impl Iterator<Item = &View> {
    let loads = nest.instrs.iter().filter_map(|i| match i {
        Instr::Load(view) => Some(view),
        _ => None,
    });
    loads.chain(nest.stores.iter().map(|s| &s.view))
}

impl Space {
    /// Assigns the axes. Boxes keep every axis apart.
    pub fn new(prog: &TileProg, sizes: &[i64], boxed: bool) -> Space {
        let nest = &prog.nest;
        let extents: Vec<i64> = nest.axes.iter().map(|a| value(a.extent, sizes).max(0)).collect();
        let walk = nest.walk();
        // Parallel axes that are left, innermost extent and axis of each.
        let mut kept: Vec<(AxisId, i64)> = vec![];
        for (i, &extent) in extents.iter().enumerate() {
            let axis = AxisId(i as u32);
            if Some(axis) == walk || extent == 1 {
                continue;
            }
            match kept.last_mut() {
                Some(last) if !boxed && may_merge(nest, sizes, last.0, axis, extent) => {
                    *last = (axis, last.1 * extent);
                }
                _ => kept.push((axis, extent)),
            }
        }
        let along = match walk {
            None => Along::Nothing,
            Some(w) if walks_rows(nest, sizes, w, kept.last()) => Along::Rows,
            Some(_) => Along::Cols,
        };
        let mut space = Space { outer: vec![], rows: 1, cols: 1, walk: along, spots: vec![Spot::Gone; extents.len()] };
        match along {
            Along::Nothing => {
                space.give(kept.pop(), Spot::Col);
                space.give(kept.pop(), Spot::Row);
            }
            Along::Rows => {
                space.give(walk.map(|w| (w, extents[w.index()])), Spot::Row);
                space.give(kept.pop(), Spot::Col);
            }
            Along::Cols => {
                space.give(walk.map(|w| (w, extents[w.index()])), Spot::Col);
                space.give(kept.pop(), Spot::Row);
            }
        }
        for (k, &(axis, extent)) in kept.iter().enumerate() {
            space.spots[axis.index()] = Spot::Outer(k);
            space.outer.push(extent);
        }
        space
    }

    /// Makes an axis the tile's rows or columns.
    fn give(&mut self, axis: Option<(AxisId, i64)>, spot: Spot) {
        let Some((axis, extent)) = axis else { return };
        self.spots[axis.index()] = spot;
        *(if spot == Spot::Row { &mut self.rows } else { &mut self.cols }) = extent;
    }

    /// A view's strides in this space.
    pub fn bind(&self, view: &View, size: usize, sizes: &[i64]) -> BoundView {
        let bytes = |n: i64| n as isize * size as isize;
        let mut bound = BoundView {
            buffer: view.buffer.index(),
            offset: bytes(value(view.offset, sizes)),
            outer: vec![0; self.outer.len()],
            row: 0,
            col: 0,
        };
        for &(axis, stride) in &view.strides {
            let stride = bytes(value(stride, sizes));
            match self.spots[axis.index()] {
                Spot::Outer(k) => bound.outer[k] = stride,
                Spot::Row => bound.row = stride,
                Spot::Col => bound.col = stride,
                Spot::Gone => {}
            }
        }
        bound
    }
}

/// May `inner`, of `extent` points, take in `outer`, the axis before it? Every view must step from one row of it to
/// the next as if it went on, and nothing may ask for a position along either.
pub(crate) fn may_merge(nest: &Nest, sizes: &[i64], outer: AxisId, inner: AxisId, extent: i64) -> bool {
    let positions = nest.instrs.iter().any(|i| matches!(i, Instr::Iota(a) if *a == outer || *a == inner));
    !positions && views(nest).all(|v| stride_of(v, outer, sizes) == stride_of(v, inner, sizes) * extent)
}

/// Is it better to walk down the rows of a tile? So when more views of both axes are contiguous along the last
/// parallel axis than along the walk.
pub(crate) fn walks_rows(nest: &Nest, sizes: &[i64], walk: AxisId, last: Option<&(AxisId, i64)>) -> bool {
    let Some(&(last, _)) = last else { return false };
    let both = |v: &&View| stride_of(v, walk, sizes) != 0 && stride_of(v, last, sizes) != 0;
    let count = |axis| views(nest).filter(both).filter(|v| stride_of(v, axis, sizes) == 1).count();
    count(last) > count(walk)
}
