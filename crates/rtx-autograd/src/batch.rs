//! Batching as a graph rewrite: a program for one example becomes a program for many, which lie along a new first dim.
//!
//! Nodes are rewritten one by one. Those that no example changes are recorded as they are, once. Pointwise ones take
//! the new dim in front; composites are batched by their bodies; every other primitive has its rule in `batch/rules`.
use rtx_core::{Dim, Error, Kind, Result, Shape};
use rtx_ir::{Batch, Body, Builder, Graph, Node, NodeId, Op, Outs, Prim, ValueId};
use smallvec::{SmallVec, smallvec};
use std::collections::HashMap;

mod rules;
mod windows;

/// What random bits are to each example (contract M7 gives the bits).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Randomness {
    /// Random ops are refused.
    #[default]
    Error,
    /// Every example gets the same.
    Same,
    /// Every example gets its own.
    Different,
}

/// A value of the batched program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane {
    /// In the new graph.
    pub value: ValueId,
    /// Do the examples differ? Then its first dim counts them.
    pub is_batched: bool,
}
impl Lane {
    /// A value that differs from example to example.
    pub fn batched(value: ValueId) -> Self {
        Self { value, is_batched: true }
    }
    /// A value that is the same for all.
    pub fn shared(value: ValueId) -> Self {
        Self { value, is_batched: false }
    }
}

/// Rewrites the nodes of one graph into another.
pub struct Batcher<'g> {
    graph: &'g Graph,
    /// How many examples.
    size: Dim,
    randomness: Randomness,
    lanes: Vec<Option<Lane>>,
    /// The bits behind each `Param` node.
    params: HashMap<NodeId, u64>,
}

impl<'g> Batcher<'g> {
    /// For `size` examples of a program.
    pub fn new(graph: &'g Graph, size: Dim, randomness: Randomness) -> Self {
        let is_param = |op: &Op| matches!(op, Op::Prim(Prim::Param { .. }));
        let numbers = graph.iter().filter(|(_, n)| is_param(&n.op)).map(|(id, _)| id);
        let params = numbers.zip(graph.params().iter().copied()).collect();
        Self { graph, size, randomness, lanes: vec![None; graph.value_count()], params }
    }

    /// Says what stands for a value, an input say. Its node is not recorded again.
    pub fn give(&mut self, v: ValueId, lane: Lane) {
        self.lanes[v.index()] = Some(lane);
    }

    /// What stands for a value.
    ///
    /// # Errors
    /// [`Kind::Internal`] when its node has not been rewritten.
    pub fn lane(&self, v: ValueId) -> Result<Lane> {
        self.lanes[v.index()].ok_or_else(|| Error::new(Kind::Internal, format!("vmap: %{} has no value yet", v.0)))
    }

    /// The nodes that these values need, ascending; those whose values are given are not among them.
    pub fn needed(&self, outs: &[ValueId]) -> Vec<NodeId> {
        let mut seen = vec![false; self.graph.nodes().len()];
        let mut open: Vec<ValueId> = outs.to_vec();
        while let Some(v) = open.pop() {
            let node = self.graph.value(v).node;
            if self.lanes[v.index()].is_none() && !std::mem::replace(&mut seen[node.index()], true) {
                open.extend(&self.graph.node(node).inputs);
            }
        }
        (0..seen.len()).filter(|&i| seen[i]).map(|i| NodeId(i as u32)).collect()
    }

    /// Rewrites all nodes that these values need, and returns what stands for the values.
    ///
    /// # Errors
    /// [`Kind::Unsupported`], with the op's name, for an op that is not batched.
    pub fn run(&mut self, b: &mut Builder<'_>, outs: &[ValueId]) -> Result<Vec<Lane>> {
        for id in self.needed(outs) {
            self.step(b, id)?;
        }
        outs.iter().map(|&v| self.lane(v)).collect()
    }

    /// Rewrites one node, whose operands have been rewritten.
    ///
    /// # Errors
    /// As [`Batcher::run`].
    pub fn step(&mut self, b: &mut Builder<'_>, id: NodeId) -> Result<()> {
        let node = self.graph.node(id);
        let b = &mut b.at(node.location);
        let lanes: SmallVec<[Lane; 4]> = node.inputs.iter().map(|&v| self.lane(v)).collect::<Result<_>>()?;
        let outs: SmallVec<[Lane; 1]> = match &node.op {
            Op::Input | Op::Ghost => return Err(Error::new(Kind::Internal, "vmap: an input was not given")),
            Op::Prim(Prim::Param { dtype }) => {
                let bits = self.params.get(&id).copied().unwrap_or(0);
                smallvec![Lane::shared(b.graph_mut().push_param(*dtype, bits, node.location))]
            }
            Op::Prim(Prim::RandomBits { shape }) => smallvec![self.random_bits(b, shape, &lanes)?],
            op if lanes.iter().all(|l| !l.is_batched) && !self.draws(op) => {
                let values: SmallVec<[ValueId; 4]> = lanes.iter().map(|l| l.value).collect();
                b.apply(op.clone(), &values)?.into_iter().map(Lane::shared).collect()
            }
            Op::Prim(prim @ (Prim::Sort { .. } | Prim::Factor(_))) => {
                let x = rules::Cx { b, size: self.size }.full(lanes[0])?;
                let prim = match *prim {
                    Prim::Sort { axis, descending } => Prim::Sort { axis: axis + 1, descending },
                    _ => prim.clone(),
                };
                b.apply(Op::Prim(prim), &[x])?.into_iter().map(Lane::batched).collect()
            }
            Op::Prim(Prim::Loop(_) | Prim::If { .. } | Prim::Collective { .. } | Prim::CustomCall { .. }) => {
                return Err(refused(&node.op));
            }
            Op::Prim(prim) => {
                smallvec![Lane::batched(rules::Cx { b, size: self.size }.prim(prim, &lanes)?)]
            }
            Op::Composite(def, attrs) => match (def.batch, &def.body) {
                (Batch::Pointwise, _) if self.is_even(node, &lanes) => self.pointwise(b, node, &lanes)?,
                (Batch::FromBody | Batch::Pointwise, Body::Composite(body)) => {
                    let types = node.inputs.iter().map(|&v| self.graph.ty(v).clone());
                    let mut alone = Graph::new();
                    let inputs: Vec<ValueId> = types.map(|ty| alone.push_input(ty, node.location)).collect();
                    let outs = body(&mut Builder::new(&mut alone, node.location), attrs, &inputs)?;
                    let mut inner = Batcher::new(&alone, self.size, self.randomness);
                    inputs.iter().zip(&lanes).for_each(|(&v, &lane)| inner.give(v, lane));
                    inner.run(b, &outs)?.into_iter().collect()
                }
                (Batch::Refused, _) | (_, Body::Primitive) => return Err(refused(&node.op)),
            },
        };
        for (v, lane) in node.outs().zip(outs) {
            self.give(v, lane);
        }
        Ok(())
    }

    /// Does a composite draw random bits inside? Then it is rewritten even where nothing that it reads is batched.
    fn draws(&self, op: &Op) -> bool {
        let takes_ordinal = |sig| rtx_ir::rules::parameter_names(sig).contains(&"ordinal");
        self.randomness != Randomness::Same && matches!(op, Op::Composite(def, _) if takes_ordinal(def.sig))
    }

    /// Does every operand that differs have the result's shape? (A bound of `clamp`, a number, has not.)
    fn is_even(&self, node: &Node, lanes: &[Lane]) -> bool {
        let like = &self.graph.ty(node.first).shape;
        node.inputs.iter().zip(lanes).all(|(&v, l)| !l.is_batched || self.graph.ty(v).shape == *like)
    }

    /// The same op on operands that have the new dim in front, where they have the result's shape.
    fn pointwise(&self, b: &mut Builder<'_>, node: &Node, lanes: &[Lane]) -> Result<SmallVec<[Lane; 1]>> {
        let like = &self.graph.ty(node.first).shape;
        let mut cx = rules::Cx { b, size: self.size };
        let mut place = |(&v, &l): (&ValueId, &Lane)| {
            if self.graph.ty(v).shape == *like && like.rank() > 0 { cx.full(l) } else { Ok(l.value) }
        };
        let values = node.inputs.iter().zip(lanes).map(&mut place).collect::<Result<SmallVec<[ValueId; 4]>>>()?;
        let outs: Outs = cx.b.apply(node.op.clone(), &values)?;
        Ok(outs.into_iter().map(Lane::batched).collect())
    }

    fn random_bits(&self, b: &mut Builder<'_>, shape: &Shape, lanes: &[Lane]) -> Result<Lane> {
        if lanes.iter().any(|l| l.is_batched) {
            return Err(Error::new(Kind::Unsupported, "vmap: a seed or an ordinal differs from example to example"));
        }
        let operands: SmallVec<[ValueId; 2]> = lanes.iter().map(|l| l.value).collect();
        match self.randomness {
            Randomness::Error => Err(Error::new(Kind::Argument, "vmap: a random op, and the randomness is `Error`")
                .hint("say what each example gets: randomness Same or Different")),
            Randomness::Same => Ok(Lane::shared(b.prim(Prim::RandomBits { shape: shape.clone() }, &operands)?)),
            Randomness::Different => {
                let mut all = shape.clone();
                all.insert(0, self.size);
                Ok(Lane::batched(b.prim(Prim::RandomBits { shape: all }, &operands)?))
            }
        }
    }
}

/// An op without a batching rule.
fn refused(op: &Op) -> Error {
    Error::new(Kind::Unsupported, format!("{}: is not batched by vmap", op.name()))
}
