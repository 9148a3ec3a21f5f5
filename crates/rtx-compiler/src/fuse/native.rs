//! Claimed nodes: operands as they lie in memory, and groups that run as epilogues.
use super::{Fit, Fuser, Fusion, Unit, Write, walks_evenly};
use crate::index::Group;
use crate::views::{Strided, common_stride, resolve, stored};
use rtx_ir::{NodeId, ValueId};
use rtx_plan::Grouped;
use smallvec::SmallVec;

impl Fuser<'_> {
    pub(super) fn visit_native(&mut self, id: NodeId) {
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
        unit.stores.extend(node.outs().filter_map(|v| Some(self.work.parts.get(&v)?.base)));
        unit.nodes.push(id);
    }

    /// An operand as the kernel can walk it: the view deepest down whose groups each have one stride.
    pub(super) fn native_operand(&self, g: &Grouped) -> Strided {
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
    pub(super) fn epilogue_of(&mut self, o: ValueId, grouped: &Grouped) -> Option<(u32, u32)> {
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
    pub(super) fn stores_evenly(&self, unit: &Unit, classes: &[Vec<u32>]) -> bool {
        unit.writes.iter().all(|w| {
            let map = &unit.group.points[w.target as usize].map;
            classes.iter().all(|c| walks_evenly(&unit.group, map, &w.shape, Some(c)))
        })
    }

    /// Does the unit make the new value of state that it reads? Such units come last and stay alike, so that they merge.
    pub(super) fn updates_state(&self, u: u32) -> bool {
        let unit = &self.units[u as usize];
        let state = |p: &crate::index::Point| self.is_donated(p.value);
        let new = |w: &Write, old: ValueId| {
            let v = unit.group.points[w.target as usize].value;
            self.work.graph.ty(v) == self.work.graph.ty(old) && self.work.wanted.contains(&v)
        };
        unit.group.points.iter().filter(|p| state(p)).any(|p| unit.writes.iter().any(|w| new(w, p.value)))
    }
    pub(super) fn is_donated(&self, v: ValueId) -> bool {
        self.work.input_of.get(&v).is_some_and(|&i| self.work.facts[i as usize].donated)
    }
}

/// The atoms of each axis of an epilogue, whose point `at` is the native kernel's first output.
pub(crate) fn anchored(group: &Group, at: u32, output: &Grouped) -> Vec<Vec<u32>> {
    let map = &group.points[at as usize].map;
    let atoms = |axes: &SmallVec<[usize; 4]>| axes.iter().flat_map(|&x| map[x].terms.iter().map(|t| t.0)).collect();
    output.groups.iter().map(atoms).collect()
}
