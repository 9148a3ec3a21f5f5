//! A graph: nodes in the order they were recorded, each with its operands, types and the user's line.
use crate::{Op, Prim, Type};
use rtx_core::{DType, Location};
use smallvec::SmallVec;

rtx_core::id! {
    /// A node, by its position.
    NodeId
}
rtx_core::id! {
    /// A value, by its position; the outputs of a node are neighbours.
    ValueId
}

/// One application of an op.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it does.
    pub op: Op,
    /// Operands.
    pub inputs: SmallVec<[ValueId; 4]>,
    /// First output.
    pub first: ValueId,
    /// Number of outputs.
    pub outputs: u32,
    /// The user's line; no part of the program.
    pub location: Location,
    /// Nodes of different generations are never merged: recomputation re-emits under a new one (contract A4).
    pub generation: u32,
}

impl Node {
    /// The outputs.
    pub fn outs(&self) -> impl ExactSizeIterator<Item = ValueId> + use<> {
        let first = self.first.0;
        (0..self.outputs as usize).map(move |i| ValueId(first + i as u32))
    }
}

/// What is known of a value.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// Its type.
    pub ty: Type,
    /// Who makes it.
    pub node: NodeId,
}

/// A program: nodes in an order in which they can run.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    values: Vec<ValueInfo>,
    /// The numbers behind [`Prim::Param`] nodes, in the order of those nodes: bits of one element each.
    params: Vec<u64>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }
    /// Empties it; the room that it has taken stays.
    pub fn clear(&mut self) {
        self.nodes.clear();
        self.values.clear();
        self.params.clear();
    }
    /// All nodes in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
    /// All nodes with their ids.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(i, n)| (NodeId(i as u32), n))
    }
    /// One node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
    /// Number of values.
    pub fn value_count(&self) -> usize {
        self.values.len()
    }
    /// What is known of a value.
    pub fn value(&self, v: ValueId) -> &ValueInfo {
        &self.values[v.index()]
    }
    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &Type {
        &self.values[v.index()].ty
    }
    /// The node that makes a value.
    pub fn producer(&self, v: ValueId) -> &Node {
        &self.nodes[self.values[v.index()].node.index()]
    }
    /// The numbers behind the `Param` nodes, in the order of those nodes.
    pub fn params(&self) -> &[u64] {
        &self.params
    }
    /// The values that come from outside, in order.
    pub fn inputs(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.nodes.iter().filter(|n| matches!(n.op, Op::Input)).map(|n| n.first)
    }

    /// Appends a node whose output types are known to be right. [`crate::Builder`] infers them; passes that copy
    /// nodes from another graph call this directly.
    pub fn push(
        &mut self,
        op: Op,
        inputs: SmallVec<[ValueId; 4]>,
        types: impl IntoIterator<Item = Type>,
        location: Location,
        generation: u32,
    ) -> NodeId {
        let node = NodeId(self.nodes.len() as u32);
        let first = ValueId(self.values.len() as u32);
        for ty in types {
            self.values.push(ValueInfo { ty, node });
        }
        let outputs = self.values.len() as u32 - first.0;
        self.nodes.push(Node { op, inputs, first, outputs, location, generation });
        node
    }

    /// Appends a value from outside.
    pub fn push_input(&mut self, ty: Type, location: Location) -> ValueId {
        let n = self.push(Op::Input, SmallVec::new(), [ty], location, 0);
        self.node(n).first
    }

    /// Appends a value of which only the type is known.
    pub fn push_ghost(&mut self, ty: Type, location: Location) -> ValueId {
        let n = self.push(Op::Ghost, SmallVec::new(), [ty], location, 0);
        self.node(n).first
    }

    /// Appends a run-time number.
    pub fn push_param(&mut self, dtype: DType, bits: u64, location: Location) -> ValueId {
        self.params.push(bits);
        let n = self.push(Op::Prim(Prim::Param { dtype }), SmallVec::new(), [Type::new(dtype, [])], location, 0);
        self.node(n).first
    }

    /// For each value, how many nodes read it.
    pub fn use_counts(&self) -> Vec<u32> {
        let mut n = vec![0; self.values.len()];
        self.nodes.iter().flat_map(|x| &x.inputs).for_each(|v| n[v.index()] += 1);
        n
    }
}
