//! From the recorded region to the working graph: live nodes only, claims asked, what nobody claims expanded.
use crate::canonical;
use crate::simplify::{Origin, Simplifier};
use crate::work::{Granted, Work};
use rtx_core::{DType, Error, Kind, Result};
use rtx_hal::Target;
use rtx_ir::{Attr, Body, Builder, Effects, Graph, Node, NodeId, Op, Prim, Type, ValueId};
use rtx_plan::{Claim, Claimed, Grouped, Request};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;

/// The counters of this pass.
#[derive(Default)]
pub(crate) struct Imported {
    /// Composites whose bodies were inlined.
    pub expanded: u64,
    /// Exact rewrites.
    pub rewritten: u64,
    /// Nodes merged with equal ones.
    pub merged: u64,
}

/// Copies what `wanted` needs.
pub(crate) fn import(request: &Request<'_>, claims: &[Arc<dyn Claim>]) -> Result<(Work, Imported)> {
    let graph = request.graph;
    let mut importer = Importer {
        out: Simplifier::new(),
        claims,
        target: request.target,
        granted: HashMap::new(),
        params: HashMap::new(),
        expanded: 0,
    };
    let live = live_nodes(graph, request.wanted);
    let mut values: Vec<Option<ValueId>> = vec![None; graph.value_count()];
    let (mut inputs, mut next_param) = (vec![], 0);
    for (id, node) in graph.iter() {
        let at = Origin { node: id, location: node.location, generation: node.generation };
        if matches!(node.op, Op::Input) {
            let n = importer.out.append(Op::Input, &[], [graph.ty(node.first).clone()], at);
            let v = importer.out.graph.node(n).first;
            inputs.push(v);
            values[node.first.index()] = Some(v);
            continue;
        }
        if let Op::Prim(Prim::Param { .. }) = node.op {
            next_param += 1;
            let n = importer.out.append(node.op.clone(), &[], [graph.ty(node.first).clone()], at);
            importer.params.insert(n, next_param - 1);
            values[node.first.index()] = Some(importer.out.graph.node(n).first);
            continue;
        }
        if !live[id.index()] {
            continue;
        }
        let operands = mapped(&values, &node.inputs)?;
        let outs = importer.import_node(graph, id, &operands, at)?;
        node.outs().zip(outs).for_each(|(from, to)| values[from.index()] = Some(to));
    }
    let mut wanted = mapped(&values, request.wanted)?.to_vec();
    wanted.iter_mut().for_each(|v| importer.give_memory(v));
    if request.inputs.len() != inputs.len() {
        return Err(Error::new(Kind::Internal, "compile: the request's facts are not one for each input"));
    }
    let counters =
        Imported { expanded: importer.expanded, rewritten: importer.out.rewritten, merged: importer.out.merged };
    let input_of = inputs.iter().enumerate().map(|(i, &v)| (v, i as u32)).collect();
    let work = Work {
        graph: importer.out.graph,
        origins: importer.out.origins,
        claims: importer.granted,
        facts: request.inputs.to_vec(),
        params: importer.params,
        inputs,
        wanted,
        input_of,
        layouts: HashMap::new(),
        parts: HashMap::new(),
    };
    Ok((work, counters))
}

/// Which nodes the wanted values need, and those that do something besides (contract R6).
pub(crate) fn live_nodes(graph: &Graph, wanted: &[ValueId]) -> Vec<bool> {
    let acts = |op: &Op| op.def().is_some_and(|d| d.effects == Effects::Ordered);
    let mut live: Vec<bool> = graph.nodes().iter().map(|n| acts(&n.op)).collect();
    wanted.iter().for_each(|&v| live[graph.value(v).node.index()] = true);
    for (id, node) in graph.iter().rev() {
        if live[id.index()] {
            node.inputs.iter().for_each(|&v| live[graph.value(v).node.index()] = true);
        }
    }
    live
}

fn mapped(values: &[Option<ValueId>], from: &[ValueId]) -> Result<SmallVec<[ValueId; 4]>> {
    let missing = || Error::new(Kind::Internal, "compile: a node reads a value that nothing makes");
    from.iter().map(|v| values.get(v.index()).copied().flatten().ok_or_else(missing)).collect()
}

struct Importer<'a> {
    out: Simplifier,
    claims: &'a [Arc<dyn Claim>],
    target: &'a Target,
    granted: HashMap<NodeId, Granted>,
    params: HashMap<NodeId, u32>,
    expanded: u64,
}

impl Importer<'_> {
    /// A number that is wanted as a tensor is copied to memory of its own.
    fn give_memory(&mut self, v: &mut ValueId) {
        let node = self.out.graph.producer(*v).clone();
        if let Op::Prim(Prim::Constant { .. } | Prim::Param { .. }) = node.op {
            let origin = self.out.origins[self.out.graph.value(*v).node.index()][0];
            let at = Origin { node: origin, location: node.location, generation: node.generation };
            let ty = self.out.graph.ty(*v).clone();
            let copy = self.out.append(Op::Prim(Prim::Barrier), &[*v], [ty], at);
            *v = self.out.graph.node(copy).first;
        }
    }

    /// A value that has memory of its own, for a gather: its index is checked where an element is loaded, and an
    /// element that is computed or repeated may be had without any load of the gathered axis.
    fn in_memory(&mut self, v: ValueId, at: Origin) -> ValueId {
        let node = self.out.graph.producer(v);
        let claimed = self.granted.contains_key(&self.out.graph.value(v).node);
        match node.op {
            Op::Input | Op::Prim(Prim::Barrier) => v,
            Op::Prim(Prim::Reshape(_) | Prim::Permute(_)) if self.in_memory_already(node.inputs[0]) => v,
            _ if claimed => v,
            _ => self.barrier(v, at),
        }
    }

    fn barrier(&mut self, v: ValueId, at: Origin) -> ValueId {
        let ty = self.out.graph.ty(v).clone();
        self.out.add(Op::Prim(Prim::Barrier), &[v], &[ty], at).0[0]
    }

    /// Does computing a value take a reduction? A load that has to be copied before its kernel cannot wait for one,
    /// so an index like that is computed before. Far back counts as yes.
    fn needs_reduction(&self, v: ValueId) -> bool {
        let (mut open, mut seen) = (vec![v], 0);
        while let Some(v) = open.pop() {
            let node = self.out.graph.producer(v);
            seen += 1;
            match node.op {
                Op::Input
                | Op::Ghost
                | Op::Composite(..)
                | Op::Prim(
                    Prim::Barrier
                    | Prim::Dot { .. }
                    | Prim::Scatter { .. }
                    | Prim::Scan { .. }
                    | Prim::LinearScan { .. }
                    | Prim::Sort { .. }
                    | Prim::OverlapAdd { .. }
                    | Prim::Conv(_),
                ) => {}
                Op::Prim(Prim::Reduce { .. } | Prim::ArgReduce { .. }) => return true,
                Op::Prim(_) => open.extend_from_slice(&node.inputs),
            }
            if seen > 64 {
                return true;
            }
        }
        false
    }

    fn in_memory_already(&self, v: ValueId) -> bool {
        let node = self.out.graph.producer(v);
        match node.op {
            Op::Input => true,
            Op::Prim(Prim::Reshape(_) | Prim::Permute(_)) => self.in_memory_already(node.inputs[0]),
            _ => false,
        }
    }

    /// One node of `graph`, whose operands are `inputs` in the working graph.
    fn import_node(
        &mut self,
        graph: &Graph,
        id: NodeId,
        inputs: &[ValueId],
        at: Origin,
    ) -> Result<SmallVec<[ValueId; 1]>> {
        let node = graph.node(id);
        let types: SmallVec<[Type; 1]> = node.outs().map(|v| graph.ty(v).clone()).collect();
        let claim = self.claims.iter().find_map(|c| Some((c, c.claim(graph, id, self.target)?)));
        if let Some((claim, claimed)) = claim {
            let (name, target) = (claim.name(), self.target);
            let (outs, fresh) = self.out.add(node.op.clone(), inputs, &types, at);
            if fresh {
                let mut claimed = renamed(claimed, node.inputs.as_slice(), inputs, node.first, outs[0])?;
                let sources: SmallVec<[_; 4]> =
                    claimed.operands.iter().map(|g| self.cast_source(g.value, at)).collect();
                claim.absorb_casts(&mut claimed, &sources, target);
                let node = self.out.graph.value(outs[0]).node;
                let writes_parts = claim.writes_parts(target);
                if writes_parts {
                    self.out.never_minus_zero.extend(outs.iter().copied());
                }
                self.granted.insert(node, Granted { name, claimed, writes_parts });
            }
            return Ok(outs);
        }
        match &node.op {
            Op::Prim(
                prim @ (Prim::Dot { .. }
                | Prim::Scatter { .. }
                | Prim::Scan { .. }
                | Prim::LinearScan { .. }
                | Prim::Sort { .. }
                | Prim::OverlapAdd { .. }
                | Prim::Conv(_)),
            ) => self.expand(inputs, at, |b, operands| {
                let (name, family) = (node.op.name(), self.target.family);
                canonical::rewrite(b, prim, operands)?
                    .ok_or_else(|| Error::new(Kind::Unsupported, format!("{name}: no kernel of {family} takes it")))
            }),
            Op::Prim(
                Prim::Factor(_)
                | Prim::TriangularSolve { .. }
                | Prim::Fft(_)
                | Prim::Loop(_)
                | Prim::If { .. }
                | Prim::Collective { .. }
                | Prim::CustomCall { .. }
                | Prim::Check(_),
            ) => {
                let (name, family) = (node.op.name(), self.target.family);
                Err(Error::new(Kind::Unsupported, format!("{name}: no kernel of {family} takes it")))
            }
            Op::Prim(Prim::Param { .. }) | Op::Input | Op::Ghost => {
                Err(Error::new(Kind::Internal, format!("compile: a body makes an {}", node.op.name())))
            }
            Op::Prim(Prim::Gather { .. } | Prim::Slice { .. } | Prim::UpdateSlice { .. }) => {
                let mut operands: SmallVec<[ValueId; 4]> = inputs.into();
                if matches!(node.op, Op::Prim(Prim::Gather { .. })) {
                    operands[0] = self.in_memory(operands[0], at);
                }
                // The index comes last.
                if let Some(index) = operands.last_mut().filter(|i| self.needs_reduction(**i)) {
                    *index = self.barrier(*index, at);
                }
                Ok(self.out.add(node.op.clone(), &operands, &types, at).0)
            }
            Op::Prim(_) => Ok(self.out.add(node.op.clone(), inputs, &types, at).0),
            Op::Composite(def, attrs) => {
                let Body::Composite(body) = def.body else {
                    return Err(Error::new(Kind::Unsupported, format!("{}: has no body and no kernel", def.name())));
                };
                if self.is_claimed_wide(graph, node) {
                    return self.expand(inputs, at, |b, operands| in_f32(b, &node.op, operands, &types));
                }
                self.expanded += 1;
                self.expand(inputs, at, |b, operands| body(b, attrs, operands))
            }
        }
    }

    /// What a value was cast from, where the recorded op that is being imported made the cast: whether a claim absorbs it
    /// does not depend on neighbours then (contract N4).
    fn cast_source(&self, v: ValueId, at: Origin) -> Option<(ValueId, DType)> {
        let node = self.out.graph.value(v).node;
        let own = self.out.origins[node.index()].contains(&at.node);
        let node = self.out.graph.node(node);
        let cast = matches!(node.op, Op::Prim(Prim::Cast(_)));
        (own && cast).then(|| (node.inputs[0], self.out.graph.ty(node.inputs[0]).dtype))
    }

    /// Does a kernel take a composite of halves once its operands are f32? Its body computes in f32, too: what it
    /// gives is rounded once (contract N1).
    fn is_claimed_wide(&self, graph: &Graph, node: &Node) -> bool {
        let half = |v: &ValueId| matches!(graph.ty(*v).dtype, DType::F16 | DType::BF16);
        if !node.inputs.iter().any(half) || node.op.attrs().iter().any(|a| matches!(a, Attr::DType(_))) {
            return false;
        }
        let mut wide = Graph::new();
        let f32 =
            |v: &ValueId| Type { dtype: if half(v) { DType::F32 } else { graph.ty(*v).dtype }, ..graph.ty(*v).clone() };
        let operands: Vec<ValueId> = node.inputs.iter().map(|v| wide.push_input(f32(v), node.location)).collect();
        let id = NodeId(wide.nodes().len() as u32);
        Builder::new(&mut wide, node.location).apply(node.op.clone(), &operands).is_ok()
            && self.claims.iter().any(|c| c.claim(&wide, id, self.target).is_some())
    }

    /// Inlines a body.
    fn expand(
        &mut self,
        inputs: &[ValueId],
        at: Origin,
        body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<rtx_ir::Outs>,
    ) -> Result<SmallVec<[ValueId; 1]>> {
        let mut inner = Graph::new();
        let operands: SmallVec<[ValueId; 4]> =
            inputs.iter().map(|&v| inner.push_input(self.out.graph.ty(v).clone(), at.location)).collect();
        let outs = body(&mut Builder::with_generation(&mut inner, at.location, at.generation), &operands)?;
        let live = live_nodes(&inner, &outs);
        let mut values: Vec<Option<ValueId>> = vec![None; inner.value_count()];
        operands.iter().zip(inputs).for_each(|(o, &v)| values[o.index()] = Some(v));
        for (id, node) in inner.iter().filter(|(id, n)| live[id.index()] && !matches!(n.op, Op::Input)) {
            let operands = mapped(&values, &node.inputs)?;
            let results = self.import_node(&inner, id, &operands, at)?;
            node.outs().zip(results).for_each(|(from, to)| values[from.index()] = Some(to));
        }
        Ok(mapped(&values, &outs)?.into_iter().collect())
    }
}

/// The op on operands in f32, its results in the types that they have.
fn in_f32(b: &mut Builder<'_>, op: &Op, operands: &[ValueId], types: &[Type]) -> Result<rtx_ir::Outs> {
    let mut wide: SmallVec<[ValueId; 4]> = operands.into();
    for v in &mut wide {
        if matches!(b.dtype(*v), DType::F16 | DType::BF16) {
            *v = b.cast(*v, DType::F32)?;
        }
    }
    let outs = b.apply(op.clone(), &wide)?;
    outs.iter().zip(types).map(|(&v, ty)| b.cast(v, ty.dtype)).collect()
}

/// The claim in values of the working graph.
fn renamed(
    mut claimed: Claimed,
    from: &[ValueId],
    to: &[ValueId],
    from_out: ValueId,
    to_out: ValueId,
) -> Result<Claimed> {
    let rename = |g: &mut Grouped| -> Result<()> {
        g.value = match from.iter().position(|&v| v == g.value) {
            Some(i) => to[i],
            None if g.value >= from_out => ValueId(to_out.0 + (g.value.0 - from_out.0)),
            None => return Err(Error::new(Kind::Internal, "compile: a claim names a value that is not its node's")),
        };
        Ok(())
    };
    claimed.operands.iter_mut().chain(&mut claimed.outputs).try_for_each(rename)?;
    Ok(claimed)
}
