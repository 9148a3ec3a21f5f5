//! Grouping: which nodes become one kernel, and which values get memory.
//!
//! Nodes are visited from the results to the inputs. A group asks for values at indices; a node whose value is
//! asked for joins the group that asks, if the rules allow, and the group then asks for the node's operands. What
//! joins nowhere gets memory and a group of its own. Bits do not depend on any of it.
use crate::index::{
    Dynamic, Group, Ix, Map, Start, State, is_empty, sliced, static_start, through_expand, through_permute,
};
use crate::simplify::known_product;
use crate::views::{Strided, common_stride, is_dense_input, resolve, stored};
use crate::work::Work;
use rtx_core::{Arith, Dim, Function, Result, Shape};
use rtx_ir::{NodeId, Op, Prim, ValueId};
use rtx_plan::{Grouped, SizeExpr};
use smallvec::{SmallVec, smallvec};

/// The most instructions of one group.
const MOST_INSTRS: usize = 64;
/// The most buffers of one group.
const MOST_BUFFERS: usize = 16;
/// Operations up to which a value that needs no memory is computed again wherever it is used.
const FREE_COST: u32 = 8;
/// Elements of a walk from which a reduction without rows keeps its kernel to itself.
const LONG_WALK: usize = 8192;

/// A result of a group.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The point whose number is stored.
    pub point: u32,
    /// The place: a target point.
    pub target: u32,
    /// The shape whose dense strides the target's map walks.
    pub shape: Shape,
}

/// What becomes one step, or nothing but another name for memory.
#[derive(Default)]
pub(crate) struct Unit {
    /// The claimed node that it runs; the group is then its epilogue.
    pub native: Option<NodeId>,
    /// The group's point of the native node's first output.
    pub anchor: Option<u32>,
    /// `.0` is `.1` under another name.
    pub alias: Option<(ValueId, ValueId)>,
    /// The mathematics; empty for a bare native node.
    pub group: Group,
    /// Results of the group.
    pub writes: Vec<Write>,
    /// Native operands as they lie in memory, in the claim's order.
    pub operands: Vec<Strided>,
    /// Values whose memory it writes.
    pub stores: SmallVec<[ValueId; 2]>,
    /// Units that must come later for another reason than data.
    pub before: SmallVec<[u32; 1]>,
    /// Nodes of the working graph that it computes.
    pub nodes: Vec<NodeId>,
}

/// The region as units.
pub(crate) struct Fused {
    /// In no particular order.
    pub units: Vec<Unit>,
    /// For each wanted value that is a view of other memory: how.
    pub views: Vec<Option<Strided>>,
    /// Groups that run as the epilogue of a native kernel.
    pub epilogues: u64,
}

/// Switches for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// As the rules allow.
    Full,
    /// Every node is a kernel of its own.
    Off,
}

/// Cuts the working graph into units.
pub(crate) fn fuse(work: &Work, fusion: Fusion) -> Result<Fused> {
    let n = work.graph.value_count();
    let mut fuser = Fuser {
        work,
        fusion,
        units: vec![],
        demands: vec![smallvec![]; n],
        readers: vec![smallvec![]; n],
        needed: vec![false; n],
        free: free_costs(work),
        statistic: statistics(work),
        epilogues: 0,
    };
    let views = work.wanted.iter().map(|&v| fuser.want(v)).collect();
    for (id, _) in work.graph.iter().rev() {
        fuser.visit(id);
    }
    Ok(Fused { units: fuser.units, views, epilogues: fuser.epilogues })
}

/// How a group's index space relates to a value that it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// Every element once.
    Exact,
    /// Every element once a row: no walk atom takes part, every parallel atom does.
    Row,
    /// Elements of a slice, each once.
    Part,
    /// Some element more than once.
    Repeat,
    /// At computed indices.
    Computed,
}

struct Fuser<'a> {
    work: &'a Work,
    fusion: Fusion,
    units: Vec<Unit>,
    /// For each value, the points that ask for it.
    demands: Vec<SmallVec<[(u32, u32); 2]>>,
    /// For each value, the units that read its memory otherwise.
    readers: Vec<SmallVec<[u32; 1]>>,
    /// Values that must have memory.
    needed: Vec<bool>,
    /// Operations to compute a value from nothing but numbers, where they are few.
    free: Vec<Option<u32>>,
    /// For each value, the reduction that it is computed from with one element a row.
    statistic: Vec<Option<NodeId>>,
    epilogues: u64,
}

impl Fuser<'_> {
    fn shape(&self, v: ValueId) -> &Shape {
        &self.work.graph.ty(v).shape
    }
    fn is_source(&self, v: ValueId) -> bool {
        matches!(self.work.prim(v), Some(Prim::Constant { .. } | Prim::Param { .. }))
    }

    /// A wanted value gets memory, or is a view of memory that is there anyway.
    fn want(&mut self, v: ValueId) -> Option<Strided> {
        let whole = |s: &Strided| {
            let base = self.work.graph.ty(s.base);
            let is_input = self.work.input_of.contains_key(&s.base);
            is_input
                || (base.shape.is_static() && base.shape.numel() == self.shape(v).numel() && !self.is_source(s.base))
        };
        if self.work.is_view(v)
            && self.shape(v).is_static()
            && let Some(s) = resolve(self.work, v).into_iter().find(|s| s.base != v && whole(s))
        {
            self.needed[s.base.index()] = true;
            return Some(s);
        }
        self.needed[v.index()] = true;
        None
    }

    fn visit(&mut self, id: NodeId) {
        let node = self.work.graph.node(id);
        if !node.outs().any(|v| self.needed[v.index()] || !self.demands[v.index()].is_empty()) {
            return;
        }
        if self.work.claims.contains_key(&id) {
            return self.visit_native(id);
        }
        let Op::Prim(prim) = &node.op else { return };
        let v = node.first;
        match prim {
            Prim::Constant { .. } | Prim::Param { .. } => {}
            Prim::Barrier if self.must_copy(node.inputs[0]) => self.visit_copy(v, node.inputs[0]),
            Prim::Barrier => self.alias(v, node.inputs[0]),
            Prim::Reshape(_) | Prim::Permute(_) | Prim::Expand(_) | Prim::Slice { .. } | Prim::Gather { .. } => {
                self.visit_view(id, v)
            }
            Prim::Concat { axis } => self.visit_concat(id, *axis),
            Prim::Pad { axis, before, after } => self.visit_pad(id, *axis, *before, *after),
            Prim::UpdateSlice { axis, step } => self.visit_update(id, *axis, *step),
            Prim::Iota { .. }
            | Prim::RandomBits { .. }
            | Prim::Unary(_)
            | Prim::Binary(_)
            | Prim::Compare(_)
            | Prim::Fma
            | Prim::Select
            | Prim::Cast(_)
            | Prim::Bitcast(_)
            | Prim::Reduce { .. }
            | Prim::ArgReduce { .. } => self.visit_computed(id, v),
            // Import has refused them.
            Prim::Scatter { .. } | Prim::Dot { .. } => {}
        }
    }

    // ---- units, points, edges

    fn unit(&mut self, group: Group) -> u32 {
        self.units.push(Unit { group, ..Unit::default() });
        self.units.len() as u32 - 1
    }

    /// Makes a group ask for a value.
    fn demand(&mut self, u: u32, v: ValueId, map: Map) -> u32 {
        let (p, fresh) = self.units[u as usize].group.point(v, map);
        if fresh {
            self.demands[v.index()].push((u, p));
        }
        p
    }

    /// A unit that stores `v`, all of it; returns the unit and the point of `v`.
    fn root(&mut self, v: ValueId) -> (u32, u32) {
        let (group, map) = Group::over(self.shape(v));
        let u = self.unit(group);
        let p = self.demand(u, v, map);
        self.store_at_own(u, p);
        (u, p)
    }

    /// The point's value is stored whole, at its own place.
    fn store_at_own(&mut self, u: u32, p: u32) {
        let (v, map) = {
            let point = &self.units[u as usize].group.points[p as usize];
            (point.value, point.map.clone())
        };
        let shape = self.shape(v).clone();
        self.store(u, p, v, map, shape);
    }

    fn store(&mut self, u: u32, point: u32, v: ValueId, map: Map, shape: Shape) {
        let unit = &mut self.units[u as usize];
        let target = unit.group.target(v, map);
        unit.writes.push(Write { point, target, shape });
        unit.stores.push(v);
    }

    /// `v` is the memory of `x` under another name.
    fn alias(&mut self, v: ValueId, x: ValueId) {
        let u = self.unit(Group::default());
        self.units[u as usize].alias = Some((v, x));
        self.units[u as usize].stores.push(v);
        self.units[u as usize].nodes.push(self.work.graph.value(v).node);
        self.needed[x.index()] = true;
        self.readers[x.index()].push(u);
    }

    /// Is the point loaded from memory, as far as is known?
    fn is_open(&self, (u, p): (u32, u32)) -> bool {
        self.units[u as usize].group.points[p as usize].state == State::Open
    }

    /// Does `to` need anything that `from` makes, directly or not?
    fn reaches(&self, from: u32, to: u32) -> bool {
        let mut seen = vec![false; self.units.len()];
        let mut stack = vec![from];
        while let Some(u) = stack.pop() {
            if u == to {
                return true;
            }
            if std::mem::replace(&mut seen[u as usize], true) {
                continue;
            }
            let unit = &self.units[u as usize];
            stack.extend(&unit.before);
            for v in &unit.stores {
                stack.extend(&self.readers[v.index()]);
                stack.extend(self.demands[v.index()].iter().filter(|&&d| d.0 != u && self.is_open(d)).map(|d| d.0));
            }
        }
        false
    }

    /// May unit `u` make `v` for everyone who reads it? Not if it needs what one of them makes.
    fn may_host(&self, u: u32, v: ValueId) -> bool {
        let open = self.demands[v.index()].iter().filter(|&&d| d.0 != u && self.is_open(d)).map(|d| d.0);
        let mut others: SmallVec<[u32; 8]> = open.chain(self.readers[v.index()].iter().copied()).collect();
        others.sort_unstable();
        others.dedup();
        others.iter().all(|&h| h != u && !self.reaches(h, u))
    }

    // ---- views

    fn visit_view(&mut self, id: NodeId, v: ValueId) {
        for (u, p) in self.demands[v.index()].clone() {
            if !self.is_open((u, p)) {
                continue;
            }
            if !self.forward(id, u, p) {
                self.needed[v.index()] = true;
            }
        }
        if self.needed[v.index()] {
            self.materialize_view(id, v);
        }
    }

    /// A view gets memory of its own, or the operand's under another name.
    fn materialize_view(&mut self, id: NodeId, v: ValueId) {
        let node = self.work.graph.node(id);
        let x = node.inputs[0];
        let (u, p) = self.root(v);
        if self.forward(id, u, p) {
            return;
        }
        // A reshape across strides that do not divide: the operand in row-major order is the result's memory.
        self.units.pop();
        self.demands[v.index()].retain(|d| d.0 != u);
        if self.must_copy(x) { self.visit_copy(v, x) } else { self.alias(v, x) }
    }

    /// Is the value not dense memory of the plan's own?
    fn must_copy(&self, x: ValueId) -> bool {
        self.is_source(x) || self.work.input_of.get(&x).is_some_and(|&i| !is_dense_input(self.work, i))
    }

    /// The elements of `x`, in row-major order, become the memory of `v`.
    fn visit_copy(&mut self, v: ValueId, x: ValueId) {
        let shape = self.shape(x).clone();
        let (group, map) = Group::over(&shape);
        let u = self.unit(group);
        let p = self.demand(u, x, map.clone());
        self.units[u as usize].nodes.push(self.work.graph.value(v).node);
        self.store(u, p, v, map, shape);
    }

    /// Asks for a view's operand instead of the view.
    fn forward(&mut self, id: NodeId, u: u32, p: u32) -> bool {
        let node = self.work.graph.node(id);
        let x = node.inputs[0];
        let (from, to) = (self.shape(x).clone(), self.shape(node.first).clone());
        let map = self.units[u as usize].group.points[p as usize].map.clone();
        let map = match node.op.prim() {
            Some(Prim::Reshape(_)) => match self.units[u as usize].group.through_reshape(&from, &to, map) {
                Some(map) => map,
                None => return false,
            },
            Some(Prim::Permute(order)) => through_permute(order, &map),
            Some(Prim::Expand(_)) => through_expand(&from, &to, &map),
            Some(&Prim::Slice { axis, len, step }) => {
                let start = self.start(u, node.inputs[1], from.dim(axis), len, step);
                let mut map = map;
                map[axis] = sliced(&map[axis], start, from.dim(axis), len, step);
                map
            }
            Some(&Prim::Gather { axis }) => {
                let indices = node.inputs[1];
                let rank = self.shape(indices).rank();
                let at: Map = map[axis..axis + rank].iter().cloned().collect();
                let point = self.demand(u, indices, at);
                let bound = SizeExpr::from(from.dim(axis));
                let dynamic = Dynamic { point, shift: SizeExpr::default(), coefficient: 1, bound, checked: true };
                let ix = Ix { dynamic: smallvec![dynamic], ..Ix::default() };
                map[..axis].iter().cloned().chain([ix]).chain(map[axis + rank..].iter().cloned()).collect()
            }
            _ => return false,
        };
        let q = self.demand(u, x, map);
        let unit = &mut self.units[u as usize];
        unit.group.settle(p, State::Same(q));
        unit.nodes.push(id);
        true
    }

    fn start(&mut self, u: u32, v: ValueId, size: Dim, len: Dim, step: i64) -> Start {
        match self.work.constant(v).map(|c| c.1 as i64) {
            Some(0) if step > 0 => Start::Number(0),
            Some(n) => match static_start(n, size, len, step) {
                Some(n) => Start::Number(n),
                None => Start::Point(self.demand(u, v, Map::new())),
            },
            None => Start::Point(self.demand(u, v, Map::new())),
        }
    }

    // ---- values put together from parts

    /// A part of `v`: all of `x`, stored at `x`'s indices as `place` changes them.
    fn part(&mut self, v: ValueId, x: ValueId, shape: &Shape, place: impl FnOnce(&mut Self, u32, &mut Map)) -> u32 {
        let (group, map) = Group::over(shape);
        let u = self.unit(group);
        let from = if self.shape(x).rank() == 0 { Map::new() } else { map.clone() };
        let p = self.demand(u, x, from);
        let mut to = map;
        place(self, u, &mut to);
        self.units[u as usize].nodes.push(self.work.graph.value(v).node);
        let whole = self.shape(v).clone();
        self.store(u, p, v, to, whole);
        u
    }

    fn visit_concat(&mut self, id: NodeId, axis: usize) {
        let node = self.work.graph.node(id);
        let mut at = 0;
        for &x in &node.inputs {
            let shape = self.shape(x).clone();
            if !is_empty(&shape) {
                self.part(node.first, x, &shape, |_, _, map| shift(&mut map[axis], at));
            }
            at += shape.dim(axis).bound() as i64;
        }
    }

    fn visit_pad(&mut self, id: NodeId, axis: usize, before: u64, after: u64) {
        let node = self.work.graph.node(id);
        let (x, fill) = (node.inputs[0], node.inputs[1]);
        let inner = self.shape(x).clone();
        let n = inner.dim(axis).bound() as i64;
        let parts = [(x, n, before as i64), (fill, before as i64, 0), (fill, after as i64, before as i64 + n)];
        for (value, len, at) in parts.into_iter().filter(|p| p.1 > 0) {
            let mut shape = inner.clone();
            shape.set(axis, len as usize);
            // A rank-1 operand of size 1 is no fill: only rank 0 is asked for without an index.
            self.part(node.first, value, &shape, |_, _, map| shift(&mut map[axis], at));
        }
    }

    fn visit_update(&mut self, id: NodeId, axis: usize, step: i64) {
        let node = self.work.graph.node(id);
        let (x, update, start) = (node.inputs[0], node.inputs[1], node.inputs[2]);
        let (whole, shape) = (self.shape(x).clone(), self.shape(update).clone());
        let first = self.part(node.first, x, &whole, |_, _, _| {});
        if is_empty(&shape) {
            return;
        }
        let (size, len) = (whole.dim(axis), shape.dim(axis));
        let second = self.part(node.first, update, &shape, |fuser, u, map| {
            let start = fuser.start(u, start, size, len, step);
            map[axis] = sliced(&map[axis], start, size, len, step);
        });
        self.units[first as usize].before.push(second);
    }

    // ---- native nodes

    fn visit_native(&mut self, id: NodeId) {
        let node = self.work.graph.node(id);
        let claimed = &self.work.claims[&id].claimed;
        let out = claimed.outputs.first().map(|g| g.value);
        let host = if claimed.epilogue && self.fusion == Fusion::Full {
            out.and_then(|o| self.epilogue_of(o, &claimed.outputs[0]))
        } else {
            None
        };
        let u = match host {
            Some((u, p)) => {
                self.epilogues += 1;
                self.units[u as usize].anchor = Some(p);
                u
            }
            None => self.unit(Group::default()),
        };
        let operands: Vec<Strided> = claimed.operands.iter().map(|g| self.native_operand(g)).collect();
        for s in &operands {
            self.needed[s.base.index()] = true;
            self.readers[s.base.index()].push(u);
        }
        let unit = &mut self.units[u as usize];
        unit.native = Some(id);
        unit.operands = operands;
        unit.stores.extend(node.outs());
        unit.nodes.push(id);
    }

    /// An operand as the kernel can walk it: the view deepest down whose groups each have one stride.
    fn native_operand(&self, g: &Grouped) -> Strided {
        let shape = self.shape(g.value);
        let fits = |s: &Strided| g.groups.iter().all(|axes| common_stride(shape, axes, &s.strides).is_some());
        let mut ways = resolve(self.work, g.value);
        match ways.iter().position(fits) {
            Some(i) => ways.swap_remove(i),
            // An input that lies unevenly: it is copied when the kernel is lowered.
            None => stored(self.work, g.value),
        }
    }

    /// A group that can run while the native kernel's output is hot: it asks for each element of the output once,
    /// and nothing that it needs comes after the kernel.
    fn epilogue_of(&mut self, o: ValueId, grouped: &Grouped) -> Option<(u32, u32)> {
        let sites = self.open_sites(o);
        let found = sites.iter().find(|(u, points)| {
            let unit = &self.units[*u as usize];
            unit.native.is_none()
                && unit.group.walk.is_none()
                && points.len() == 1
                && self.fit(*u, points[0]) == Fit::Exact
                && !self.updates_state(*u)
                && self.may_host(*u, o)
                && self.stores_evenly(unit, &anchored(&unit.group, points[0], grouped))
        })?;
        let (u, p) = (found.0, found.1[0]);
        let group = &mut self.units[u as usize].group;
        let map = &group.points[p as usize].map;
        let order: Vec<u32> =
            grouped.groups.iter().flatten().flat_map(|&axis| map[axis].terms.iter().map(|t| t.0)).collect();
        if order.len() != group.parallel.len() {
            return None;
        }
        group.parallel = order;
        Some((u, p))
    }

    /// Do all results of the unit step evenly through each of these lists of atoms?
    fn stores_evenly(&self, unit: &Unit, classes: &[Vec<u32>]) -> bool {
        unit.writes.iter().all(|w| {
            let map = &unit.group.points[w.target as usize].map;
            classes.iter().all(|c| walks_evenly(&unit.group, map, &w.shape, Some(c)))
        })
    }

    /// Does the unit make the new value of state that it reads? Such units come last and stay alike, so that they merge.
    fn updates_state(&self, u: u32) -> bool {
        let unit = &self.units[u as usize];
        let state = |p: &crate::index::Point| self.is_donated(p.value);
        let new = |w: &Write, old: ValueId| {
            let v = unit.group.points[w.target as usize].value;
            self.work.graph.ty(v) == self.work.graph.ty(old) && self.work.wanted.contains(&v)
        };
        unit.group.points.iter().filter(|p| state(p)).any(|p| unit.writes.iter().any(|w| new(w, p.value)))
    }
    fn is_donated(&self, v: ValueId) -> bool {
        self.work.input_of.get(&v).is_some_and(|&i| self.work.facts[i as usize].donated)
    }

    // ---- computed nodes

    /// Units that still ask for `v`, each with its open points.
    fn open_sites(&self, v: ValueId) -> SmallVec<[(u32, SmallVec<[u32; 1]>); 2]> {
        let mut sites: SmallVec<[(u32, SmallVec<[u32; 1]>); 2]> = smallvec![];
        for &(u, p) in self.demands[v.index()].iter().filter(|&&d| self.is_open(d)) {
            match sites.iter_mut().find(|s| s.0 == u) {
                Some(s) => s.1.push(p),
                None => sites.push((u, smallvec![p])),
            }
        }
        sites
    }

    fn visit_computed(&mut self, id: NodeId, v: ValueId) {
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
            let (u, p) = self.root(v);
            let joined = self.join(id, u, p);
            debug_assert!(joined, "a node joins a group of its own");
        }
    }

    /// A group asks for a row's number that a reduction along its last atoms makes: those become the walk, so that
    /// the number is computed once a row.
    fn open_rows(&mut self, u: u32, p: u32, v: ValueId) {
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
    fn host(
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
        let (group, map) = (&unit.group, &unit.group.points[p as usize].map);
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
        !columns
            && unit.writes.len() + group.open < MOST_BUFFERS
            && classes.iter().all(|c| walks_evenly(group, map, self.shape(v), Some(c)))
    }

    fn is_reduction(&self, id: NodeId) -> bool {
        matches!(self.work.graph.node(id).op.prim(), Some(Prim::Reduce { .. } | Prim::ArgReduce { .. }))
    }

    /// Is it little work to compute the node again in each group, and does it not read more than it makes?
    fn may_repeat(&self, id: NodeId, v: ValueId, sites: &[(u32, SmallVec<[u32; 1]>)]) -> bool {
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
    fn bytes_behind(&self, mut v: ValueId) -> usize {
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

    fn fit(&self, u: u32, p: u32) -> Fit {
        let group = &self.units[u as usize].group;
        let point = &group.points[p as usize];
        let shape = self.shape(point.value);
        if point.map.iter().any(|ix| !ix.dynamic.is_empty()) {
            return Fit::Computed;
        }
        let mut used: SmallVec<[u32; 8]> = point.map.iter().flat_map(|ix| ix.terms.iter().map(|t| t.0)).collect();
        let terms = used.len();
        used.sort_unstable();
        used.dedup();
        let has = |a: &u32| used.binary_search(a).is_ok();
        if terms != used.len() || !group.parallel.iter().all(has) {
            return Fit::Repeat;
        }
        let plain = point.map.iter().zip(shape.iter()).all(|(ix, d)| {
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
    fn may_join(&self, id: NodeId, u: u32, p: u32) -> bool {
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
    fn join(&mut self, id: NodeId, u: u32, p: u32) -> bool {
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

    /// Which atoms a reduction would walk along in this group.
    fn walk_for(&self, id: NodeId, u: u32, p: u32, fit: Fit) -> Option<Walk> {
        let node = self.work.graph.node(id);
        let (x, unit) = (node.inputs[0], &self.units[u as usize]);
        let group = &unit.group;
        let dims = self.reduced(id);
        let fills = |atoms: &[u32]| {
            let extents: SmallVec<[Dim; 4]> = atoms.iter().map(|&a| group.atoms[a as usize].extent).collect();
            let real: SmallVec<[Dim; 4]> = dims.iter().copied().filter(|d| !d.is_one()).collect();
            extents == real || (known_product(&extents).is_some() && known_product(&extents) == known_product(&real))
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

    fn axes(&self, id: NodeId) -> SmallVec<[usize; 4]> {
        match self.work.graph.node(id).op.prim() {
            Some(Prim::Reduce { axes, .. }) => axes.clone(),
            Some(Prim::ArgReduce { axis, .. }) => smallvec![*axis],
            _ => smallvec![],
        }
    }
    fn reduced(&self, id: NodeId) -> SmallVec<[Dim; 4]> {
        let x = self.work.graph.node(id).inputs[0];
        self.axes(id).iter().map(|&a| self.shape(x).dim(a)).collect()
    }

    /// Settles the walk of a reduction and asks for its operand. `None` if the walk's atoms do not fit its axes.
    fn join_walk(&mut self, id: NodeId, u: u32, p: u32) -> Option<u32> {
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

/// How a reduction's walk comes about.
enum Walk {
    /// New atoms.
    Fresh,
    /// The group's walk.
    Existing,
    /// The group's parallel atoms from this position on.
    Tail(usize),
}

/// The atoms of each axis of an epilogue, whose point `at` is the native kernel's first output.
pub(crate) fn anchored(group: &Group, at: u32, output: &Grouped) -> Vec<Vec<u32>> {
    let map = &group.points[at as usize].map;
    let atoms = |axes: &SmallVec<[usize; 4]>| axes.iter().flat_map(|&x| map[x].terms.iter().map(|t| t.0)).collect();
    output.groups.iter().map(atoms).collect()
}

fn shift(ix: &mut Ix, by: i64) {
    ix.offset = &ix.offset + &SizeExpr::constant(by);
}

/// Do the atoms of the walk step evenly through a dense value of `shape` that is stored at `map`?
fn walks_evenly(group: &Group, map: &Map, shape: &Shape, walk: Option<&[u32]>) -> bool {
    let Some(walk) = walk else { return true };
    if walk.len() < 2 {
        return true;
    }
    let strides = crate::index::dense_strides(shape);
    let step = |a: u32| {
        map.iter().zip(&strides).fold(SizeExpr::default(), |sum, (ix, s)| {
            ix.terms.iter().filter(|t| t.0 == a).fold(sum, |sum, t| &sum + &(s * &SizeExpr::constant(t.1)))
        })
    };
    walk.windows(2).all(|w| step(w[0]) == &step(w[1]) * &SizeExpr::from(group.atoms[w[1] as usize].extent))
}

/// One or two machine instructions an element.
fn is_cheap(op: &Op) -> bool {
    match op.prim() {
        Some(Prim::Unary(f)) => {
            matches!(
                f,
                Function::Neg
                    | Function::Abs
                    | Function::Sign
                    | Function::Floor
                    | Function::Ceil
                    | Function::Trunc
                    | Function::RoundEven
                    | Function::Not
            )
        }
        Some(Prim::Binary(f)) => !matches!(f, Arith::Pow | Arith::Atan2 | Arith::Rem | Arith::Div),
        Some(Prim::Compare(_) | Prim::Fma | Prim::Select | Prim::Cast(_) | Prim::Bitcast(_) | Prim::Iota { .. }) => {
            true
        }
        _ => false,
    }
}

/// For each value, the reduction behind it, through operations that keep one element a row.
fn statistics(work: &Work) -> Vec<Option<NodeId>> {
    let mut found: Vec<Option<NodeId>> = vec![None; work.graph.value_count()];
    for (id, node) in work.graph.iter() {
        if work.claims.contains_key(&id) || node.outputs != 1 {
            continue;
        }
        let shape = &work.graph.ty(node.first).shape;
        found[node.first.index()] = match node.op.prim() {
            Some(Prim::Reduce { .. } | Prim::ArgReduce { .. }) => Some(id),
            Some(
                Prim::Unary(_)
                | Prim::Binary(_)
                | Prim::Compare(_)
                | Prim::Fma
                | Prim::Select
                | Prim::Cast(_)
                | Prim::Bitcast(_)
                | Prim::Reshape(_)
                | Prim::Permute(_)
                | Prim::Expand(_),
            ) => node
                .inputs
                .iter()
                .filter(|x| work.graph.ty(**x).shape.numel() == shape.numel())
                .find_map(|x| found[x.index()]),
            _ => None,
        };
    }
    found
}

/// For each value, how many cheap operations make it from constants, run-time numbers and positions alone.
fn free_costs(work: &Work) -> Vec<Option<u32>> {
    let mut cost = vec![None; work.graph.value_count()];
    for (id, node) in work.graph.iter() {
        if work.claims.contains_key(&id) || node.outputs != 1 {
            continue;
        }
        let operands = || node.inputs.iter().try_fold(0u32, |sum, x| Some(sum + cost[x.index()]?));
        cost[node.first.index()] = match &node.op {
            Op::Prim(Prim::Constant { .. } | Prim::Param { .. } | Prim::Iota { .. }) => Some(0),
            Op::Prim(Prim::Reshape(_) | Prim::Permute(_) | Prim::Expand(_) | Prim::Slice { .. }) => operands(),
            op if is_cheap(op) => operands().map(|c| c + 1).filter(|&c| c <= FREE_COST),
            _ => None,
        };
    }
    cost
}
