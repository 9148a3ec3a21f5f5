//! Less memory for more work: which values of a graph are computed again after its fullest point instead of kept.
//!
//! The fullest point is where most bytes are alive, the end of the forward pass in a training step. Values that are made
//! before it and read after it are what is kept. Those chosen are computed again, right before their first late reader,
//! from what is still there; the copies carry a generation of their own, so that no pass merges them with the first
//! ones (contract A4). Which to choose is estimated here and measured by whoever compiles the result.
use rtx_ir::{Effects, Graph, Node, NodeId, Op, Prim, ValueId};
use std::collections::{HashMap, HashSet};

/// A graph with some of its values computed again.
pub struct Rewritten {
    /// The new graph.
    pub graph: Graph,
    /// For each value of the old graph, the first value of the new one that stands for it.
    pub values: Vec<ValueId>,
    /// For each node of the new graph, the node of the old one that it comes from.
    pub origins: Vec<NodeId>,
}

/// The choice of what is computed again in one graph.
pub struct Recomputation<'g> {
    graph: &'g Graph,
    wanted: HashSet<ValueId>,
    /// The last node before the fullest point.
    turn: usize,
    /// For each value, the node that reads it last.
    last: Vec<usize>,
    /// What may be chosen, the most bytes for the least work first.
    candidates: Vec<ValueId>,
    /// How many of these have been looked at.
    seen: usize,
    /// Those that made nothing smaller: looked at again when others have been chosen.
    rejected: Vec<ValueId>,
    /// Has one been chosen since?
    has_new: bool,
    chosen: HashSet<ValueId>,
    peak: u64,
}

impl<'g> Recomputation<'g> {
    /// Nothing is chosen yet.
    pub fn new(graph: &'g Graph, wanted: &[ValueId]) -> Self {
        let wanted: HashSet<ValueId> = wanted.iter().copied().collect();
        let last = last_readers(graph, &wanted);
        let (turn, peak) = fullest(graph, &last);
        let mut plan = Self {
            graph,
            wanted,
            turn,
            last,
            candidates: Vec::new(),
            seen: 0,
            rejected: Vec::new(),
            has_new: false,
            chosen: HashSet::new(),
            peak,
        };
        plan.candidates = plan.rank();
        plan
    }

    /// The estimate of the most bytes alive at once.
    pub fn peak(&self) -> u64 {
        self.peak
    }
    /// How many values are computed again.
    pub fn count(&self) -> usize {
        self.chosen.len()
    }
    /// Bytes of them.
    pub fn bytes(&self) -> u64 {
        self.chosen.iter().map(|&v| self.graph.ty(v).bytes() as u64).sum()
    }

    /// Chooses until the estimate is no more than `target` bytes. `false` when there is nothing left to choose.
    pub fn lower(&mut self, target: u64) -> bool {
        while self.peak > target {
            let Some(&v) = self.candidates.get(self.seen) else {
                if !std::mem::take(&mut self.has_new) {
                    return false;
                }
                (self.candidates, self.seen) = (std::mem::take(&mut self.rejected), 0);
                continue;
            };
            self.seen += 1;
            self.chosen.insert(v);
            let peak = self.estimate();
            if peak > self.peak {
                self.chosen.remove(&v);
                self.rejected.push(v);
            } else {
                self.has_new |= peak < self.peak;
                self.peak = peak;
            }
        }
        true
    }

    /// Values made before the turn and read after it that may be computed again.
    fn rank(&self) -> Vec<ValueId> {
        let crossing = (0..self.graph.value_count() as u32).map(ValueId).filter(|&v| self.is_kept(v));
        let mut ranked: Vec<(f64, ValueId)> = crossing
            .filter(|v| !self.wanted.contains(v))
            .filter_map(|v| Some((self.graph.ty(v).bytes() as f64 / (1.0 + self.work(v)?), v)))
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().map(|r| r.1).collect()
    }

    /// Is it made before the turn, and still there after it?
    fn is_kept(&self, v: ValueId) -> bool {
        let made = self.graph.value(v).node.index();
        made <= self.turn && self.last[v.index()] > self.turn && !is_free(self.graph.producer(v))
    }

    /// The work of making a value again from what else is kept; `None` where something on the way may not run twice.
    fn work(&self, v: ValueId) -> Option<f64> {
        let mut sum = 0.0;
        let mut seen = HashSet::new();
        let mut open = vec![v];
        while let Some(v) = open.pop() {
            let id = self.graph.value(v).node;
            if !seen.insert(id) {
                continue;
            }
            let node = self.graph.node(id);
            if node.op.def().is_none_or(|d| d.effects != Effects::None) {
                return None;
            }
            sum += work_of(self.graph, node);
            open.extend(node.inputs.iter().copied().filter(|&x| !self.is_kept(x) && !is_free(self.graph.producer(x))));
        }
        Some(sum)
    }

    fn estimate(&self) -> u64 {
        let new = self.rewrite(1);
        let wanted = self.wanted.iter().map(|v| new.values[v.index()]).collect();
        fullest(&new.graph, &last_readers(&new.graph, &wanted)).1
    }

    /// The graph with what is chosen computed again. Nodes after the turn are of a generation of their own too, so that
    /// what they share with nodes before it is not kept from there either.
    pub fn rewrite(&self, generation: u32) -> Rewritten {
        let mut copy = Copy {
            plan: self,
            new: Rewritten { graph: Graph::new(), values: Vec::new(), origins: Vec::new() },
            again: HashMap::new(),
            numbers: self.graph.params().iter().copied(),
            generation,
        };
        for (id, node) in self.graph.iter() {
            let late = id.index() > self.turn;
            if late {
                node.inputs.iter().for_each(|&v| copy.make_again(v));
            }
            copy.node(id, node, late);
        }
        copy.new
    }
}

struct Copy<'a, 'g, I> {
    plan: &'a Recomputation<'g>,
    new: Rewritten,
    /// Late copies of values, by the old value.
    again: HashMap<ValueId, ValueId>,
    numbers: I,
    generation: u32,
}

impl<I: Iterator<Item = u64>> Copy<'_, '_, I> {
    /// Copies a chosen value, with whatever is needed for it and no longer there.
    fn make_again(&mut self, v: ValueId) {
        if !self.plan.chosen.contains(&v) {
            return;
        }
        let graph = self.plan.graph;
        let mut open = vec![v];
        let mut nodes = Vec::new();
        while let Some(v) = open.pop() {
            let gone = self.plan.chosen.contains(&v) || !self.plan.is_kept(v);
            let node = graph.value(v).node;
            if gone && !is_free(graph.node(node)) && !self.again.contains_key(&v) && !nodes.contains(&node) {
                nodes.push(node);
                open.extend(&graph.node(node).inputs);
            }
        }
        nodes.sort_unstable();
        for id in nodes {
            let node = graph.node(id);
            let first = self.push(id, node, self.generation, true);
            let outs = node.outs().enumerate().map(|(i, old)| (old, ValueId(first.0 + i as u32)));
            self.again.extend(outs);
        }
    }

    /// Copies a node in its place.
    fn node(&mut self, id: NodeId, node: &Node, late: bool) {
        let graph = self.plan.graph;
        let first = match &node.op {
            Op::Prim(Prim::Param { dtype }) => {
                self.new.origins.push(id);
                let bits = self.numbers.next().unwrap_or(0);
                self.new.graph.push_param(*dtype, bits, node.location)
            }
            Op::Input => {
                self.new.origins.push(id);
                self.new.graph.push_input(graph.ty(node.first).clone(), node.location)
            }
            _ => {
                // Generations that are there stay apart.
                let generation = if late { node.generation * 2 + self.generation * 2 } else { node.generation * 2 };
                self.push(id, node, generation, late)
            }
        };
        self.new.values.extend((0..node.outputs).map(|i| ValueId(first.0 + i)));
    }

    fn push(&mut self, id: NodeId, node: &Node, generation: u32, late: bool) -> ValueId {
        let place = |v: &ValueId| match self.again.get(v).filter(|_| late) {
            Some(&copy) => copy,
            None => self.new.values[v.index()],
        };
        let inputs = node.inputs.iter().map(place).collect();
        let types: Vec<_> = node.outs().map(|v| self.plan.graph.ty(v).clone()).collect();
        self.new.origins.push(id);
        let new = self.new.graph.push(node.op.clone(), inputs, types, node.location, generation);
        self.new.graph.node(new).first
    }
}

/// Takes no memory, or memory that is not the graph's.
fn is_free(node: &Node) -> bool {
    matches!(node.op, Op::Input | Op::Ghost | Op::Prim(Prim::Param { .. } | Prim::Constant { .. } | Prim::Iota { .. }))
}

/// Shows its operand's elements.
fn is_view(node: &Node) -> bool {
    use Prim::{Barrier, Expand, Permute, Reshape, Slice};
    matches!(node.op, Op::Prim(Reshape(_) | Permute(_) | Expand(_) | Slice { .. } | Barrier))
}

/// Rough operations of a node.
fn work_of(graph: &Graph, node: &Node) -> f64 {
    let elements = graph.ty(node.first).shape.numel() as f64;
    match &node.op {
        Op::Prim(Prim::Dot { contract, .. }) => {
            let shape = &graph.ty(node.inputs[0]).shape;
            2.0 * elements * contract.iter().map(|p| shape.dim(p.0).bound() as f64).product::<f64>()
        }
        _ if is_view(node) => 0.0,
        op => {
            let read = node.inputs.iter().map(|&v| graph.ty(v).shape.numel() as f64).fold(elements, f64::max);
            read * f64::from(op.def().map_or(1, |d| d.cost).max(1))
        }
    }
}

/// For each value the node that reads it last, views seen through; past the end for what is wanted.
fn last_readers(graph: &Graph, wanted: &HashSet<ValueId>) -> Vec<usize> {
    let end = graph.nodes().len();
    let mut last: Vec<usize> = (0..graph.value_count()).map(|i| graph.value(ValueId(i as u32)).node.index()).collect();
    wanted.iter().for_each(|v| last[v.index()] = end);
    for (id, node) in graph.iter().rev() {
        let until = if is_view(node) { last[node.first.index()] } else { id.index() };
        for v in &node.inputs {
            last[v.index()] = last[v.index()].max(until);
        }
    }
    last
}

/// The node after which most bytes are alive, and how many. A value that only pointwise neighbours read is part of their
/// kernel and has no bytes.
fn fullest(graph: &Graph, last: &[usize]) -> (usize, u64) {
    const NEAR: usize = 12;
    let mut ends: Vec<u64> = vec![0; graph.nodes().len() + 2];
    let (mut alive, mut most) = (0u64, (0, 0));
    for (id, node) in graph.iter() {
        let at = id.index();
        if !is_free(node) && !is_view(node) {
            let fuses = matches!(
                node.op,
                Op::Prim(
                    Prim::Unary(_) | Prim::Binary(_) | Prim::Compare(_) | Prim::Select | Prim::Cast(_) | Prim::Fma
                )
            );
            for v in node.outs() {
                if !(fuses && last[v.index()] <= at + NEAR) {
                    alive += graph.ty(v).bytes() as u64;
                    ends[last[v.index()] + 1] += graph.ty(v).bytes() as u64;
                }
            }
        }
        if alive > most.1 {
            most = (at, alive);
        }
        alive -= ends[at + 1];
    }
    most
}
