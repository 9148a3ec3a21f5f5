//! The index algebra of a group: which element of a value a point of the group's index space asks for, and how
//! that question passes through reshape, permute, expand and slice to the value underneath.
//!
//! A group's index space is made of *atoms*, the finest axes that any of its members needs. An axis of a value is
//! asked for at `offset + Σ coefficient · atom + computed parts`.
use crate::simplify::known_product;
use rtx_core::{Dim, Shape};
use rtx_ir::ValueId;
use rtx_plan::SizeExpr;
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;

/// One axis of a group's index space; never of size 1, except a walk over nothing but sizes of 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Atom {
    /// How many points.
    pub extent: Dim,
}

/// A computed part of an index: `coefficient · clamp(point - shift, 0, bound - 1)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dynamic {
    /// The group's point that computes it, `i64`.
    pub point: u32,
    /// Subtracted first.
    pub shift: SizeExpr,
    /// Steps per unit.
    pub coefficient: i64,
    /// The index is clamped below it.
    pub bound: SizeExpr,
    /// Is an index outside an error?
    pub checked: bool,
}

/// Where one axis of a value is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ix {
    /// Atoms with their steps, outermost first.
    pub terms: SmallVec<[(u32, i64); 2]>,
    /// The index where all atoms are 0.
    pub offset: SizeExpr,
    /// Computed parts.
    pub dynamic: SmallVec<[Dynamic; 1]>,
}

/// Where a value is asked for: one index an axis.
pub(crate) type Map = SmallVec<[Ix; 4]>;

impl Ix {
    /// One atom, step 1.
    pub fn atom(a: u32) -> Self {
        Self { terms: smallvec![(a, 1)], ..Self::default() }
    }
    /// Only a number?
    fn number(&self) -> Option<i64> {
        if self.terms.is_empty() && self.dynamic.is_empty() { self.offset.known() } else { None }
    }
    /// `self + factor · other`.
    fn add(&mut self, other: &Ix, factor: i64) {
        self.terms.extend(other.terms.iter().map(|&(a, c)| (a, c * factor)));
        self.offset = &self.offset + &(&other.offset * &SizeExpr::constant(factor));
        let scaled = |d: &Dynamic| Dynamic { coefficient: d.coefficient * factor, ..d.clone() };
        self.dynamic.extend(other.dynamic.iter().map(scaled));
    }
}

/// What a group's member does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    /// Loaded from memory, unless its producer joins the group.
    Open,
    /// The same number as another point's.
    Same(u32),
    /// Computed here from points.
    Computed(SmallVec<[u32; 4]>),
    /// Not a number but a place to store at.
    Target,
}

/// A value at an index.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    /// Which value.
    pub value: ValueId,
    /// Where.
    pub map: Map,
    /// What is done about it.
    pub state: State,
}

/// The index space and the members of what becomes one nest.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// The finest axes.
    pub atoms: Vec<Atom>,
    /// Parallel atoms, outermost first.
    pub parallel: Vec<u32>,
    /// Atoms that reductions run along, outermost first.
    pub walk: Option<Vec<u32>>,
    /// Members.
    pub points: Vec<Point>,
    by_value: HashMap<ValueId, SmallVec<[u32; 1]>>,
    /// Instructions so far.
    pub instrs: usize,
    /// Points that memory must provide, at most.
    pub open: usize,
}

impl Group {
    /// A fresh atom, not yet in the order.
    pub fn fresh(&mut self, extent: Dim) -> u32 {
        self.atoms.push(Atom { extent });
        self.atoms.len() as u32 - 1
    }
    /// A group over the elements of `shape`, and the map that names each of them once.
    pub fn over(shape: &Shape) -> (Self, Map) {
        let mut group = Self::default();
        let map = shape.iter().map(|d| group.axis(d)).collect();
        (group, map)
    }
    /// A new parallel axis.
    pub fn axis(&mut self, extent: Dim) -> Ix {
        if extent.is_one() {
            return Ix::default();
        }
        let a = self.fresh(extent);
        self.parallel.push(a);
        Ix::atom(a)
    }
    /// The points of a value.
    pub fn points_of(&self, v: ValueId) -> &[u32] {
        self.by_value.get(&v).map_or(&[], |p| p.as_slice())
    }
    /// The point of `value` at `map`, and whether it is new.
    pub fn point(&mut self, value: ValueId, map: Map) -> (u32, bool) {
        if let Some(&p) = self.points_of(value).iter().find(|&&p| self.points[p as usize].map == map) {
            return (p, false);
        }
        let p = self.points.len() as u32;
        self.by_value.entry(value).or_default().push(p);
        self.points.push(Point { value, map, state: State::Open });
        self.open += 1;
        (p, true)
    }
    /// A place to store at.
    pub fn target(&mut self, value: ValueId, map: Map) -> u32 {
        self.points.push(Point { value, map, state: State::Target });
        self.points.len() as u32 - 1
    }
    /// Settles what is done about a point.
    pub fn settle(&mut self, p: u32, state: State) {
        self.points[p as usize].state = state;
        self.open -= 1;
    }

    /// Cuts atom `a` in two; the inner one has `inner` points. Returns the inner one.
    fn split(&mut self, a: u32, inner: usize, extra: &mut [&mut Map]) -> u32 {
        let whole = self.atoms[a as usize].extent.bound();
        self.atoms[a as usize].extent = Dim::from(whole / inner);
        let b = self.fresh(Dim::from(inner));
        for list in std::iter::once(&mut self.parallel).chain(&mut self.walk) {
            if let Some(i) = list.iter().position(|&x| x == a) {
                list.insert(i + 1, b);
            }
        }
        let recut = |ix: &mut Ix| {
            if let Some(i) = ix.terms.iter().position(|t| t.0 == a) {
                let c = ix.terms[i].1;
                ix.terms[i].1 = c * inner as i64;
                ix.terms.insert(i + 1, (b, c));
            }
        };
        let own = self.points.iter_mut().map(|p| &mut p.map);
        own.chain(extra.iter_mut().map(|m| &mut **m)).flat_map(|m| m.iter_mut()).for_each(recut);
        b
    }

    /// Is `ix` exactly the row-major position over its atoms, covering an axis of `extent`?
    pub fn is_plain(&self, ix: &Ix, extent: Dim) -> bool {
        if ix.offset.known() != Some(0) || !ix.dynamic.is_empty() {
            return false;
        }
        if let [(a, 1)] = ix.terms.as_slice() {
            return self.atoms[*a as usize].extent == extent;
        }
        let mut step = 1;
        for &(a, c) in ix.terms.iter().rev() {
            let Some(n) = self.atoms[a as usize].extent.known() else { return false };
            if c != step {
                return false;
            }
            step *= n as i64;
        }
        extent.known() == Some(step as usize)
    }

    /// May two points ask for one index, as overlapping windows do?
    pub fn overlaps(&self, ix: &Ix) -> bool {
        if ix.terms.len() < 2 {
            return false;
        }
        let mut terms = ix.terms.clone();
        terms.sort_unstable_by_key(|t| t.1.unsigned_abs());
        let mut reach = 0u64;
        terms.iter().any(|&(a, c)| {
            let overlaps = c.unsigned_abs() <= reach;
            reach += c.unsigned_abs() * (self.atoms[a as usize].extent.bound() as u64).saturating_sub(1);
            overlaps
        })
    }

    /// Gives `atoms` (outermost first) to axes of `dims`, cutting atoms where needed. `None` if they do not fit.
    pub fn distribute(&mut self, mut atoms: Vec<u32>, dims: &[Dim], extra: &mut [&mut Map]) -> Option<Vec<Ix>> {
        let mut out = vec![Ix::default(); dims.len()];
        for (i, &dim) in dims.iter().enumerate().rev() {
            if dim.is_one() {
                continue;
            }
            let last = *atoms.last()?;
            if self.atoms[last as usize].extent == dim {
                atoms.pop();
                out[i] = Ix::atom(last);
                continue;
            }
            let (mut rest, mut step) = (dim.known()?, 1i64);
            while rest != 1 {
                let last = *atoms.last()?;
                let n = self.atoms[last as usize].extent.known()?;
                if n == 0 {
                    return None;
                } else if rest % n == 0 {
                    atoms.pop();
                    out[i].terms.insert(0, (last, step));
                    (rest, step) = (rest / n, step * n as i64);
                } else if n % rest == 0 {
                    let inner = self.split(last, rest, extra);
                    // Indices already given out may name the atom that was cut; its new inner part is ours alone.
                    out[i].terms.insert(0, (inner, step));
                    rest = 1;
                } else {
                    return None;
                }
            }
        }
        atoms.is_empty().then_some(out)
    }

    /// Where a reshape's operand (`from`) is asked for when its result (`to`) is asked for at `map`. `None` when the
    /// operand's indices are no sums of steps.
    pub fn through_reshape(&mut self, from: &Shape, to: &Shape, mut map: Map) -> Option<Map> {
        let mut out: Map = smallvec![Ix::default(); from.rank()];
        for (f, t) in segments(from, to)? {
            match (f.len(), t.len()) {
                (1, 1) => out[f[0]] = map[t[0]].clone(),
                (1, _) => out[f[0]] = merge_axes(to, &t, &map)?,
                _ => self.split_axes(from, to, (&f, &t), &mut map, &mut out)?,
            }
        }
        Some(out)
    }

    /// Several axes of the operand behind one segment of the result.
    fn split_axes(
        &mut self,
        from: &Shape,
        to: &Shape,
        (f, t): (&[usize], &[usize]),
        map: &mut Map,
        out: &mut Map,
    ) -> Option<()> {
        let dims: Vec<Dim> = f.iter().map(|&j| from.dim(j)).collect();
        if let Some(numbers) = t.iter().map(|&i| map[i].number()).collect::<Option<Vec<i64>>>() {
            let flat = t.iter().zip(numbers).try_fold(0, |n, (&i, x)| Some(n * to.dim(i).known()? as i64 + x))?;
            let mut rest = flat;
            for (&j, d) in f.iter().zip(&dims).rev() {
                let n = d.known()? as i64;
                out[j].offset = SizeExpr::constant(rest % n.max(1));
                rest /= n.max(1);
            }
            return Some(());
        }
        if !t.iter().all(|&i| self.is_plain(&map[i], to.dim(i))) {
            return None;
        }
        let atoms: Vec<u32> = t.iter().flat_map(|&i| map[i].terms.iter().map(|x| x.0)).collect();
        let given = self.distribute(atoms, &dims, &mut [map, out])?;
        f.iter().zip(given).for_each(|(&j, ix)| out[j] = ix);
        Some(())
    }
}

/// Several axes of the result behind one axis of the operand: the row-major sum.
fn merge_axes(to: &Shape, t: &[usize], map: &Map) -> Option<Ix> {
    let mut ix = Ix::default();
    let mut factor = 1i64;
    let mut factors: SmallVec<[i64; 4]> = smallvec![];
    for &i in t.iter().rev() {
        factors.insert(0, factor);
        factor *= to.dim(i).known()? as i64;
    }
    t.iter().zip(factors).for_each(|(&i, c)| ix.add(&map[i], c));
    Some(ix)
}

/// Neighbouring axes of both shapes that hold the same elements, in order; sizes of 1 belong to no segment. Empty
/// shapes have no segments: nothing is asked for.
pub(crate) fn segments(from: &Shape, to: &Shape) -> Option<Vec<(SmallVec<[usize; 2]>, SmallVec<[usize; 2]>)>> {
    let mut out = vec![];
    let empty = |s: &Shape| s.iter().any(|d| d.known() == Some(0));
    if empty(from) || empty(to) {
        return if from == to { Some((0..from.rank()).map(|i| (smallvec![i], smallvec![i])).collect()) } else { None };
    }
    let next = |s: &Shape, mut i: usize| {
        while i < s.rank() && s.dim(i).is_one() {
            i += 1
        }
        i
    };
    let (mut f, mut t) = (next(from, 0), next(to, 0));
    while f < from.rank() && t < to.rank() {
        let mut pair = (smallvec![f], smallvec![t]);
        if from.dim(f) == to.dim(t) {
            (f, t) = (next(from, f + 1), next(to, t + 1));
        } else {
            let (mut a, mut b) = (from.dim(f).known()?, to.dim(t).known()?);
            (f, t) = (next(from, f + 1), next(to, t + 1));
            while a != b {
                if a < b {
                    a *= from.iter().nth(f)?.known()?;
                    pair.0.push(f);
                    f = next(from, f + 1);
                } else {
                    b *= to.iter().nth(t)?.known()?;
                    pair.1.push(t);
                    t = next(to, t + 1);
                }
            }
        }
        out.push(pair);
    }
    (f == from.rank() && t == to.rank()).then_some(out)
}

/// Where a permute's operand is asked for.
pub(crate) fn through_permute(order: &[usize], map: &Map) -> Map {
    let mut out: Map = smallvec![Ix::default(); order.len()];
    order.iter().enumerate().for_each(|(i, &o)| out[o] = map[i].clone());
    out
}

/// Where an expand's operand is asked for.
pub(crate) fn through_expand(from: &Shape, to: &Shape, map: &Map) -> Map {
    let lead = to.rank() - from.rank();
    (0..from.rank()).map(|i| if from.dim(i).is_one() { Ix::default() } else { map[lead + i].clone() }).collect()
}

/// Where a windows' operand is asked for: along its axis at `stride · window + dilation · element`.
pub(crate) fn through_windows(axis: usize, stride: u64, dilation: u64, map: &Map) -> Map {
    let mut out: Map = map.iter().take(map.len() - 1).cloned().collect();
    out[axis] = Ix::default();
    out[axis].add(&map[axis], stride as i64);
    out[axis].add(&map[map.len() - 1], dilation as i64);
    out
}

/// Elements that `len` steps of `step` span, less one.
pub(crate) fn reach(len: Dim, step: i64) -> SizeExpr {
    &(&SizeExpr::from(len) + &SizeExpr::constant(-1)) * &SizeExpr::constant(step.abs())
}

/// A slice's start when it is a number of the program and so is the axis: clamped so that the slice lies inside.
pub(crate) fn static_start(start: i64, size: Dim, len: Dim, step: i64) -> Option<i64> {
    let (n, len) = (size.known()? as i64, len.known()? as i64);
    if len == 0 {
        return Some(0);
    }
    let reach = (len - 1) * step.abs();
    Some(if step > 0 { start.clamp(0, n - 1 - reach) } else { start.clamp(reach, n - 1) })
}

/// Where a slice's operand is asked for along its axis: `start + step · ix`. A start that is known only at run time
/// is a computed part.
pub(crate) fn sliced(ix: &Ix, start: Start, size: Dim, len: Dim, step: i64) -> Ix {
    let mut out = Ix::default();
    out.add(ix, step);
    match start {
        Start::Number(n) => out.offset = &out.offset + &SizeExpr::constant(n),
        Start::Point(point) => {
            let reach = reach(len, step);
            let shift = if step < 0 { reach.clone() } else { SizeExpr::default() };
            out.offset = &out.offset + &shift;
            let bound = &SizeExpr::from(size) + &(&reach * &SizeExpr::constant(-1));
            out.dynamic.push(Dynamic { point, shift, coefficient: 1, bound, checked: false });
        }
    }
    out
}

/// Where a slice starts.
pub(crate) enum Start {
    /// Known now.
    Number(i64),
    /// Computed by a point of the group.
    Point(u32),
}

/// Row-major strides of a dense value.
pub(crate) fn dense_strides(shape: &Shape) -> SmallVec<[SizeExpr; 4]> {
    let mut out: SmallVec<[SizeExpr; 4]> = smallvec![];
    let mut step = SizeExpr::constant(1);
    for d in shape.iter().rev() {
        out.insert(0, step.clone());
        step = &step * &SizeExpr::from(d);
    }
    out
}

/// Is the shape known to hold nothing?
pub(crate) fn is_empty(shape: &Shape) -> bool {
    known_product(shape.dims()) == Some(0) || shape.iter().any(|d| d.known() == Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(map: &Map) -> Vec<Vec<(u32, i64)>> {
        map.iter().map(|ix| ix.terms.to_vec()).collect()
    }

    #[test]
    fn a_reshape_cuts_atoms_where_it_must() {
        // [2, 12] asked for element by element; underneath lies [2, 3, 4].
        let to = Shape::from([2, 12]);
        let (mut group, map) = Group::over(&to);
        let (p, _) = group.point(ValueId(9), map.clone());
        let below = group.through_reshape(&Shape::from([2, 3, 4]), &to, map).expect("divides");
        assert_eq!(terms(&below), [vec![(0, 1)], vec![(1, 1)], vec![(2, 1)]]);
        let extents: Vec<usize> = group.atoms.iter().map(|a| a.extent.bound()).collect();
        assert_eq!((extents, group.parallel.clone()), (vec![2, 3, 4], vec![0, 1, 2]));
        // The map that was there before names both halves now.
        assert_eq!(terms(&group.points[p as usize].map), [vec![(0, 1)], vec![(1, 4), (2, 1)]]);
        assert!(group.is_plain(&group.points[p as usize].map[1], Dim::from(12)));
    }

    #[test]
    fn a_reshape_that_mixes_axes_has_no_indices() {
        let to = Shape::from([6, 4]);
        let (mut group, map) = Group::over(&to);
        assert!(group.through_reshape(&Shape::from([4, 6]), &to, map).is_none());
        assert!(segments(&Shape::from([1, 4, 6]), &Shape::from([24, 1])).is_some_and(|s| s.len() == 1));
        assert!(segments(&Shape::from([0, 2]), &Shape::from([2, 0])).is_none());
    }

    #[test]
    fn slices_are_clamped_inside() {
        assert_eq!(static_start(9, Dim::from(6), Dim::from(2), 1), Some(4));
        assert_eq!(static_start(-9, Dim::from(6), Dim::from(3), -2), Some(4));
        assert_eq!(static_start(3, Dim::from(6), Dim::from(0), 1), Some(0));
        let ix = sliced(&Ix::atom(0), Start::Number(5), Dim::from(6), Dim::from(3), -2);
        assert_eq!((ix.terms.as_slice(), ix.offset.known()), ([(0, -2)].as_slice(), Some(5)));
        let ix = sliced(&Ix::atom(0), Start::Point(7), Dim::from(6), Dim::from(3), -2);
        let d = &ix.dynamic[0];
        assert_eq!((d.shift.known(), d.bound.known(), ix.offset.known()), (Some(4), Some(2), Some(4)));
    }

    #[test]
    fn windows_overlap_where_they_are_longer_than_their_steps() {
        let (group, map) = Group::over(&Shape::from([2, 4, 3]));
        let below = through_windows(1, 2, 1, &map);
        assert_eq!(terms(&below), [vec![(0, 1)], vec![(1, 2), (2, 1)]]);
        assert!(group.overlaps(&below[1]) && !group.overlaps(&below[0]));
        let apart = through_windows(1, 3, 1, &map);
        assert!(!group.overlaps(&apart[1]) && group.is_plain(&apart[1], Dim::from(12)));
        // 0 4 8, 1 5 9, ..
        assert!(!group.overlaps(&through_windows(1, 1, 4, &map)[1]));
    }

    #[test]
    fn movements_pass_indices_down() {
        let map: Map = smallvec![Ix::atom(0), Ix::atom(1), Ix::atom(2)];
        assert_eq!(terms(&through_permute(&[2, 0, 1], &map)), [vec![(1, 1)], vec![(2, 1)], vec![(0, 1)]]);
        let below = through_expand(&Shape::from([1, 4]), &Shape::from([2, 3, 4]), &map);
        assert_eq!(terms(&below), [vec![], vec![(2, 1)]]);
    }
}
