//! Grouping: which nodes become one kernel, and which values get memory.
//!
//! Nodes are visited from the results to the inputs. A group asks for values at indices; a node whose value is
//! asked for joins the group that asks, if the rules allow, and the group then asks for the node's operands. What
//! joins nowhere gets memory and a group of its own. Bits do not depend on any of it.
use crate::index::{Group, Map, State};
use crate::views::{Strided, resolve};
use crate::work::Work;
use rtx_core::{Result, Shape};
use rtx_ir::{NodeId, Op, Prim, ValueId};
use rtx_plan::SizeExpr;
use smallvec::{SmallVec, smallvec};

mod cost;
mod movement;
mod native;
mod rules;
mod walk;

use cost::{free_costs, statistics};
pub(crate) use native::anchored;

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
                || (base.shape.is_static()
                    && base.shape.numel() == self.shape(v).numel()
                    && !self.is_source(s.base)
                    // What is itself only a view would be stored for this: then rather `v`, dense.
                    && !self.work.is_view(s.base))
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
            Prim::Reshape(_)
            | Prim::Permute(_)
            | Prim::Expand(_)
            | Prim::Slice { .. }
            | Prim::Windows { .. }
            | Prim::Gather { .. } => self.visit_view(id, v),
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
            Prim::Scatter { .. }
            | Prim::Dot { .. }
            | Prim::Scan { .. }
            | Prim::LinearScan { .. }
            | Prim::Sort { .. }
            | Prim::OverlapAdd { .. }
            | Prim::Conv(_)
            | Prim::Factor(_)
            | Prim::TriangularSolve { .. }
            | Prim::Fft(_)
            | Prim::Loop(_)
            | Prim::If { .. }
            | Prim::Collective { .. }
            | Prim::CustomCall { .. }
            | Prim::Check(_) => {}
        }
    }

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
