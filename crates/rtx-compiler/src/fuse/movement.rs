//! Movement: views become indices of what they look at; values put together from parts are stored part by part.
use super::{Fuser, State};
use crate::index::{
    Dynamic, Group, Ix, Map, Start, is_empty, sliced, static_start, through_expand, through_permute, through_windows,
};
use crate::views::is_dense_input;
use rtx_core::{Dim, Shape};
use rtx_ir::{NodeId, Prim, ValueId};
use rtx_plan::SizeExpr;
use smallvec::smallvec;

impl Fuser<'_> {
    pub(super) fn visit_view(&mut self, id: NodeId, v: ValueId) {
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
    pub(super) fn materialize_view(&mut self, id: NodeId, v: ValueId) {
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
    pub(super) fn must_copy(&self, x: ValueId) -> bool {
        self.is_source(x) || self.work.input_of.get(&x).is_some_and(|&i| !is_dense_input(self.work, i))
    }

    /// The elements of `x`, in row-major order, become the memory of `v`.
    pub(super) fn visit_copy(&mut self, v: ValueId, x: ValueId) {
        let shape = self.shape(x).clone();
        let (group, map) = Group::over(&shape);
        let u = self.unit(group);
        let p = self.demand(u, x, map.clone());
        self.units[u as usize].nodes.push(self.work.graph.value(v).node);
        self.store(u, p, v, map, shape);
    }

    /// Asks for a view's operand instead of the view.
    pub(super) fn forward(&mut self, id: NodeId, u: u32, p: u32) -> bool {
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
            Some(&Prim::Windows { axis, stride, dilation, .. }) => through_windows(axis, stride, dilation, &map),
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

    pub(super) fn start(&mut self, u: u32, v: ValueId, size: Dim, len: Dim, step: i64) -> Start {
        match self.work.constant(v).map(|c| c.1 as i64) {
            Some(0) if step > 0 => Start::Number(0),
            Some(n) => match static_start(n, size, len, step) {
                Some(n) => Start::Number(n),
                None => Start::Point(self.demand(u, v, Map::new())),
            },
            None => Start::Point(self.demand(u, v, Map::new())),
        }
    }

    /// A part of `v`: all of `x`, stored at `x`'s indices as `place` changes them.
    pub(super) fn part(
        &mut self,
        v: ValueId,
        x: ValueId,
        shape: &Shape,
        place: impl FnOnce(&mut Self, u32, &mut Map),
    ) -> u32 {
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

    pub(super) fn visit_concat(&mut self, id: NodeId, axis: usize) {
        let node = self.work.graph.node(id);
        let mut at = 0;
        for &x in &node.inputs {
            let shape = self.shape(x).clone();
            if let Some(made) = self.made_in_place(node.first, x) {
                self.needed[made.index()] = true;
            } else if !is_empty(&shape) {
                self.part(node.first, x, &shape, |_, _, map| shift(&mut map[axis], at));
            }
            at += shape.dim(axis).bound() as i64;
        }
    }

    /// The native result that `x` is a movement of, if it lies in `whole`.
    fn made_in_place(&self, whole: ValueId, mut x: ValueId) -> Option<ValueId> {
        while self.work.is_view(x) {
            x = self.work.operands(x)[0];
        }
        self.work.parts.get(&x).is_some_and(|part| part.base == whole).then_some(x)
    }

    pub(super) fn visit_pad(&mut self, id: NodeId, axis: usize, before: u64, after: u64) {
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

    pub(super) fn visit_update(&mut self, id: NodeId, axis: usize, step: i64) {
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
}

fn shift(ix: &mut Ix, by: i64) {
    ix.offset = &ix.offset + &SizeExpr::constant(by);
}
