//! Who joins whom: the rules by which a computed node becomes part of a group that asks for it.
use super::cost::is_cheap;
use super::walk::Walk;
use super::{Fit, Fuser, Fusion, MOST_BUFFERS, MOST_INSTRS, anchored, walks_evenly};
use crate::index::{Map, State};
use rtx_ir::{NodeId, Prim, ValueId};
use smallvec::{SmallVec, smallvec};

/// Instructions that a group must still have room for to take in a node beside its own.
const FREE_ROOM: usize = 16;

impl Fuser<'_> {
    /// Units that still ask for `v`, each with its open points.
    pub(super) fn open_sites(&self, v: ValueId) -> SmallVec<[(u32, SmallVec<[u32; 1]>); 2]> {
        let mut sites: SmallVec<[(u32, SmallVec<[u32; 1]>); 2]> = smallvec![];
        for &(u, p) in self.demands[v.index()].iter().filter(|&&d| self.is_open(d)) {
            match sites.iter_mut().find(|s| s.0 == u) {
                Some(s) => s.1.push(p),
                None => sites.push((u, smallvec![p])),
            }
        }
        sites
    }

    pub(super) fn visit_computed(&mut self, id: NodeId, v: ValueId) {
        let sites = self.open_sites(v);
        for &(u, ref points) in &sites {
            points.iter().for_each(|&p| self.open_rows(u, p, v));
        }
        let mut needed = self.needed[v.index()];
        let joins = |f: &mut Self, s: &(u32, SmallVec<[u32; 1]>)| s.1.iter().all(|&p| f.may_join(id, s.0, p));
        if self.fusion == Fusion::Off {
            needed = true;
        } else if self.free[v.index()].is_some() {
            for s in &sites {
                needed |= !(joins(self, s) && s.1.iter().all(|&p| self.join(id, s.0, p)));
            }
        } else if let Some(s) = self.host(id, v, &sites, needed) {
            let store = needed || sites.len() > 1;
            if self.join(id, s.0, s.1) {
                if store {
                    self.store_at_own(s.0, s.1);
                }
                return;
            }
            needed = true;
        } else if self.may_repeat(id, v, &sites) && sites.iter().all(|s| joins(self, s)) {
            for s in &sites {
                needed |= !s.1.iter().all(|&p| self.join(id, s.0, p));
            }
        } else {
            needed = true;
        }
        if needed {
            let (u, p) = match self.sibling(id, v) {
                Some((u, map)) => {
                    let p = self.demand(u, v, map);
                    self.store_at_own(u, p);
                    (u, p)
                }
                None => self.root(v),
            };
            let joined = self.join(id, u, p);
            debug_assert!(joined, "a node joins a group of its own");
        }
    }

    /// A group that walks an operand of `v` just as `v` would: it makes `v` too, and reads the operand once. Nobody
    /// who reads `v` may come before it.
    fn sibling(&self, id: NodeId, v: ValueId) -> Option<(u32, Map)> {
        let node = self.work.graph.node(id);
        let axes = self.axes(id);
        if self.fusion == Fusion::Off || self.free[v.index()].is_some() {
            return None;
        }
        // Over nothing there is nothing to share, and empty walks of other dims look alike.
        if node.inputs.iter().any(|&x| self.shape(x).numel() == 0) {
            return None;
        }
        // What a reduction folds is made on the way: its operands may be the ones that are shared.
        let made = node.inputs.iter().filter(|_| self.is_reduction(id)).flat_map(|&x| self.work.operands(x));
        let shape = self.shape(node.inputs.first().copied().unwrap_or(v)).clone();
        let shared =
            node.inputs.iter().chain(made).filter(|&&x| self.free[x.index()].is_none() && *self.shape(x) == shape);
        for &x in shared {
            for &(u, p) in self.demands[x.index()].iter().filter(|&&d| self.is_open(d)) {
                let (unit, group) = (&self.units[u as usize], &self.units[u as usize].group);
                let room = group.instrs + FREE_ROOM <= MOST_INSTRS
                    && group.open + unit.writes.len() + node.inputs.len() < MOST_BUFFERS;
                if !room || unit.native.is_some() || self.fit(u, p) != Fit::Exact || self.updates_state(u) {
                    continue;
                }
                let of_x = &group.points[p as usize].map;
                let map: Map = (0..of_x.len()).filter(|i| !axes.contains(i)).map(|i| of_x[i].clone()).collect();
                let walks = |map: &Map| match (self.is_reduction(id), &group.walk) {
                    (true, Some(_)) => self.fit_map(u, v, map) == Fit::Row,
                    (false, None) => self.shape(x) == self.shape(v) && self.stores_whole(u, v, map),
                    (true, None) | (false, Some(_)) => false,
                };
                // A group that still asks for `v` elsewhere reads it from memory, after it is made.
                let reads = group.points_of(v).iter().any(|&q| self.is_open((u, q)));
                if walks(&map) && !reads && self.may_host(u, v) {
                    return Some((u, map));
                }
            }
        }
        None
    }

    /// A group asks for a row's number that a reduction along its last atoms makes: those become the walk, so that
    /// the number is computed once a row.
    pub(super) fn open_rows(&mut self, u: u32, p: u32, v: ValueId) {
        let Some(reduction) = self.statistic[v.index()].filter(|_| self.fusion == Fusion::Full) else { return };
        if self.is_reduction(self.work.graph.value(v).node) || self.units[u as usize].native.is_some() {
            return;
        }
        if let Some(Walk::Tail(rows)) = self.walk_for(reduction, u, p, self.fit(u, p)) {
            let group = &mut self.units[u as usize].group;
            group.walk = Some(group.parallel.split_off(rows));
        }
    }

    /// The group that computes `v` for everyone, if one of those that ask for it can.
    pub(super) fn host(
        &mut self,
        id: NodeId,
        v: ValueId,
        sites: &[(u32, SmallVec<[u32; 1]>)],
        needed: bool,
    ) -> Option<(u32, u32)> {
        let alone = sites.len() == 1 && !needed;
        for (u, points) in sites {
            let [p] = points.as_slice() else { continue };
            let fit = self.fit(*u, *p);
            let whole = matches!(fit, Fit::Exact | Fit::Row) || (self.is_reduction(id) && fit == Fit::Repeat);
            let stores = whole && self.may_store(*u, *p, v) && self.may_host(*u, v);
            let computes = alone && (whole || fit == Fit::Part);
            // Several groups that would each do little for it recompute it instead.
            let repeats = sites.len() > 1 && !needed && self.may_repeat(id, v, sites);
            if (stores || computes) && !repeats && self.may_join(id, *u, *p) {
                return Some((*u, *p));
            }
        }
        None
    }

    /// May a stored value be stored from a group's rows?
    fn may_store(&self, u: u32, p: u32, v: ValueId) -> bool {
        let unit = &self.units[u as usize];
        unit.writes.len() + unit.group.open < MOST_BUFFERS
            && self.stores_whole(u, v, &unit.group.points[p as usize].map)
    }

    /// Does storing `v` at `map` fit the group's axes?
    fn stores_whole(&self, u: u32, v: ValueId, map: &Map) -> bool {
        let unit = &self.units[u as usize];
        let group = &unit.group;
        let classes = match (unit.native, unit.anchor) {
            (Some(id), Some(at)) => anchored(group, at, &self.work.claims[&id].claimed.outputs[0]),
            _ => group.walk.iter().cloned().collect(),
        };
        // A group that walks columns is no place for a whole tensor: it would keep row reductions out.
        let columns = group.walk.as_ref().and_then(|w| w.last()).is_some_and(|last| {
            let inner = map.iter().rev().find(|ix| !ix.terms.is_empty());
            map.iter().any(|ix| ix.terms.iter().any(|t| t.0 == *last))
                && inner.is_some_and(|ix| ix.terms.last().is_some_and(|t| t.0 != *last))
        });
        !columns && classes.iter().all(|c| walks_evenly(group, map, self.shape(v), Some(c)))
    }

    pub(super) fn is_reduction(&self, id: NodeId) -> bool {
        matches!(self.work.graph.node(id).op.prim(), Some(Prim::Reduce { .. } | Prim::ArgReduce { .. }))
    }

    /// Is it little work to compute the node again in each group, and does it not read more than it makes?
    pub(super) fn may_repeat(&self, id: NodeId, v: ValueId, sites: &[(u32, SmallVec<[u32; 1]>)]) -> bool {
        let node = self.work.graph.node(id);
        if !is_cheap(&node.op) || sites.len() > 4 {
            return false;
        }
        let mut operands: SmallVec<[ValueId; 4]> = node.inputs.clone();
        operands.sort_unstable();
        operands.dedup();
        let bytes: usize = operands.iter().map(|&x| self.bytes_behind(x)).sum();
        bytes <= self.work.graph.ty(v).bytes() * 5 / 4
    }

    /// Bytes of what a value is a view of.
    pub(super) fn bytes_behind(&self, mut v: ValueId) -> usize {
        let mut least = self.work.graph.ty(v).bytes();
        while self.work.is_view(v) {
            v = self.work.operands(v)[0];
            least = least.min(self.work.graph.ty(v).bytes());
        }
        match self.work.prim(v) {
            _ if self.free[v.index()].is_some() => 0,
            // A gather is worth more than its bytes.
            Some(Prim::Gather { .. }) => 2 * least,
            _ => least,
        }
    }

    pub(super) fn fit(&self, u: u32, p: u32) -> Fit {
        let point = &self.units[u as usize].group.points[p as usize];
        self.fit_map(u, point.value, &point.map)
    }
    fn fit_map(&self, u: u32, v: ValueId, map: &Map) -> Fit {
        let group = &self.units[u as usize].group;
        let shape = self.shape(v);
        if map.iter().any(|ix| !ix.dynamic.is_empty()) {
            return Fit::Computed;
        }
        let mut used: SmallVec<[u32; 8]> = map.iter().flat_map(|ix| ix.terms.iter().map(|t| t.0)).collect();
        let terms = used.len();
        used.sort_unstable();
        used.dedup();
        let has = |a: &u32| used.binary_search(a).is_ok();
        if terms != used.len() || !group.parallel.iter().all(has) || map.iter().any(|ix| group.overlaps(ix)) {
            return Fit::Repeat;
        }
        let plain = map.iter().zip(shape.iter()).all(|(ix, d)| {
            if d.is_one() { ix.terms.is_empty() && ix.offset.known() == Some(0) } else { group.is_plain(ix, d) }
        });
        match &group.walk {
            Some(w) if !w.iter().any(has) && plain => Fit::Row,
            Some(w) if !w.iter().all(has) => Fit::Repeat,
            _ if plain => Fit::Exact,
            _ => Fit::Part,
        }
    }

    /// May the node be computed at this point?
    pub(super) fn may_join(&self, id: NodeId, u: u32, p: u32) -> bool {
        let node = self.work.graph.node(id);
        let unit = &self.units[u as usize];
        let group = &unit.group;
        if group.instrs >= MOST_INSTRS || group.open + unit.writes.len() + node.inputs.len() > MOST_BUFFERS + 1 {
            return false;
        }
        let fit = self.fit(u, p);
        if self.is_reduction(id) {
            return unit.native.is_none() && self.walk_for(id, u, p, fit).is_some();
        }
        match fit {
            Fit::Exact | Fit::Row => true,
            Fit::Part | Fit::Repeat => {
                self.free[node.first.index()].is_some() || is_cheap(&node.op) || fit == Fit::Part
            }
            Fit::Computed => false,
        }
    }

    /// Computes the node at a point: the group asks for the operands instead.
    pub(super) fn join(&mut self, id: NodeId, u: u32, p: u32) -> bool {
        let node = self.work.graph.node(id);
        let map = self.units[u as usize].group.points[p as usize].map.clone();
        let operands: SmallVec<[u32; 4]> = match node.op.prim() {
            Some(Prim::Reduce { .. } | Prim::ArgReduce { .. }) => match self.join_walk(id, u, p) {
                Some(q) => smallvec![q],
                None => return false,
            },
            Some(Prim::RandomBits { .. }) => node.inputs.iter().map(|&x| self.demand(u, x, Map::new())).collect(),
            _ => node.inputs.iter().map(|&x| self.demand(u, x, map.clone())).collect(),
        };
        let unit = &mut self.units[u as usize];
        unit.group.settle(p, State::Computed(operands));
        unit.group.instrs += 1;
        unit.nodes.push(id);
        true
    }
}
