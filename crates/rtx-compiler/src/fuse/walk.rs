//! Reductions: along which atoms of a group they run.
use super::{Fit, Fuser, LONG_WALK, walks_evenly};
use crate::index::{Ix, Map};
use crate::simplify::known_product;
use rtx_core::Dim;
use rtx_ir::{NodeId, Prim};
use smallvec::{SmallVec, smallvec};

/// How a reduction's walk comes about.
pub(super) enum Walk {
    /// New atoms.
    Fresh,
    /// The group's walk.
    Existing,
    /// The group's parallel atoms from this position on.
    Tail(usize),
}

impl Fuser<'_> {
    /// Which atoms a reduction would walk along in this group.
    pub(super) fn walk_for(&self, id: NodeId, u: u32, p: u32, fit: Fit) -> Option<Walk> {
        let node = self.work.graph.node(id);
        let (x, unit) = (node.inputs[0], &self.units[u as usize]);
        let group = &unit.group;
        let dims = self.reduced(id);
        let fills = |atoms: &[u32]| {
            let extents: SmallVec<[Dim; 4]> = atoms.iter().map(|&a| group.atoms[a as usize].extent).collect();
            let real: SmallVec<[Dim; 4]> = dims.iter().copied().filter(|d| !d.is_one()).collect();
            // Empty walks of other dims cannot be told apart by their number of points.
            let points = known_product(&extents).filter(|&n| n > 0);
            extents == real || (points.is_some() && points == known_product(&real))
        };
        match (&group.walk, fit) {
            (Some(w), Fit::Row) if fills(w) && !w.is_empty() => Some(Walk::Existing),
            (None, Fit::Exact) if unit.nodes.is_empty() => Some(Walk::Fresh),
            (None, Fit::Exact) => {
                let alike = |q: &u32| {
                    let point = &group.points[*q as usize];
                    let other = self.work.graph.value(point.value).node;
                    !self.is_reduction(other)
                        || (self.shape(self.work.graph.node(other).inputs[0]) == self.shape(x)
                            && self.axes(other) == self.axes(id))
                };
                let open = (0..group.points.len() as u32).filter(|&q| self.is_open((u, q)));
                let few = group.parallel.is_empty() && self.shape(x).numel() > LONG_WALK * 1024;
                (!self.updates_state(u) && !few && open.collect::<Vec<_>>().iter().all(alike)).then_some(Walk::Fresh)
            }
            (None, Fit::Repeat) if !self.updates_state(u) => {
                let point = &group.points[p as usize];
                let mine = |a: &u32| point.map.iter().any(|ix| ix.terms.iter().any(|t| t.0 == *a));
                let rows = group.parallel.iter().take_while(|a| mine(a)).count();
                let tail = &group.parallel[rows..];
                let shape = self.shape(point.value);
                let plain = point.map.iter().zip(shape.iter()).all(|(ix, d)| group.is_plain(ix, d));
                let uses = point.map.iter().map(|ix| ix.terms.len()).sum::<usize>();
                let long = rows == 0 && self.shape(x).numel() > LONG_WALK;
                let stores = unit
                    .writes
                    .iter()
                    .all(|w| walks_evenly(group, &group.points[w.target as usize].map, &w.shape, Some(tail)));
                (uses == rows && plain && !long && !tail.is_empty() && fills(tail) && stores)
                    .then_some(Walk::Tail(rows))
            }
            _ => None,
        }
    }

    pub(super) fn axes(&self, id: NodeId) -> SmallVec<[usize; 4]> {
        match self.work.graph.node(id).op.prim() {
            Some(Prim::Reduce { axes, .. }) => axes.clone(),
            Some(Prim::ArgReduce { axis, .. }) => smallvec![*axis],
            _ => smallvec![],
        }
    }
    pub(super) fn reduced(&self, id: NodeId) -> SmallVec<[Dim; 4]> {
        let x = self.work.graph.node(id).inputs[0];
        self.axes(id).iter().map(|&a| self.shape(x).dim(a)).collect()
    }

    /// Settles the walk of a reduction and asks for its operand. `None` if the walk's atoms do not fit its axes.
    pub(super) fn join_walk(&mut self, id: NodeId, u: u32, p: u32) -> Option<u32> {
        let walk = self.walk_for(id, u, p, self.fit(u, p))?;
        let (axes, dims, x) = (self.axes(id), self.reduced(id), self.work.graph.node(id).inputs[0]);
        let group = &mut self.units[u as usize].group;
        let along: Vec<Ix> = match walk {
            Walk::Fresh => {
                let atoms: Vec<u32> = dims.iter().filter(|d| !d.is_one()).map(|&d| group.fresh(d)).collect();
                let mut next = atoms.iter();
                let along = dims
                    .iter()
                    .map(|d| if d.is_one() { Ix::default() } else { Ix::atom(*next.next().expect("one an axis")) });
                let along = along.collect();
                let lone = atoms.is_empty().then(|| group.fresh(Dim::Const(1)));
                group.walk = Some(atoms.into_iter().chain(lone).collect());
                along
            }
            Walk::Existing => group.distribute(group.walk.clone()?, &dims, &mut [])?,
            Walk::Tail(rows) => {
                let tail = group.parallel[rows..].to_vec();
                let along = group.distribute(tail, &dims, &mut [])?;
                group.walk = Some(group.parallel.split_off(rows));
                along
            }
        };
        let own = &group.points[p as usize].map;
        let rank = own.len() + axes.len();
        let (mut own, mut along) = (own.iter(), along.into_iter());
        let map: Map =
            (0..rank).filter_map(|i| if axes.contains(&i) { along.next() } else { own.next().cloned() }).collect();
        Some(self.demand(u, x, map))
    }
}
