//! What the passes work on: the region's live nodes, expanded and simplified, with what is known of each.
use crate::views::Strided;
use rtx_core::DType;
use rtx_ir::{Graph, NodeId, Op, Prim, ValueId};
use rtx_plan::{Claimed, InputFact, SizeExpr};
use smallvec::SmallVec;
use std::collections::HashMap;

/// A claim that was granted.
#[derive(Debug)]
pub(crate) struct Granted {
    /// Who claimed.
    pub name: &'static str,
    /// How it runs the node, in values of the working graph.
    pub claimed: Claimed,
    /// May its results be parts of larger memory?
    pub writes_parts: bool,
}

/// The region on its way to a plan.
pub(crate) struct Work {
    /// Live nodes only, in an order in which they can run.
    pub graph: Graph,
    /// For each node, the recorded nodes that it came from.
    pub origins: Vec<SmallVec<[NodeId; 1]>>,
    /// Nodes that run as native kernels.
    pub claims: HashMap<NodeId, Granted>,
    /// The region's inputs, in order.
    pub inputs: Vec<ValueId>,
    /// What is known of each input.
    pub facts: Vec<InputFact>,
    /// The wanted values, in the order of the request.
    pub wanted: Vec<ValueId>,
    /// The slot of each `Param` node in the parameter block.
    pub params: HashMap<NodeId, u32>,
    /// For each value, its position among the inputs.
    pub input_of: HashMap<ValueId, u32>,
    /// Strides of values that have memory of their own and do not lie dense in row-major order there.
    pub layouts: HashMap<ValueId, SmallVec<[SizeExpr; 4]>>,
    /// Results of native kernels that lie in the memory of the concatenation that they are a part of.
    pub parts: HashMap<ValueId, Strided>,
}

impl Work {
    /// The primitive behind a value; `None` for inputs and composites.
    pub fn prim(&self, v: ValueId) -> Option<&Prim> {
        self.graph.producer(v).op.prim()
    }
    /// The operands of a value's node.
    pub fn operands(&self, v: ValueId) -> &[ValueId] {
        &self.graph.producer(v).inputs
    }
    /// The constant behind a rank-0 value.
    pub fn constant(&self, v: ValueId) -> Option<(DType, u64)> {
        match self.prim(v) {
            Some(&Prim::Constant { dtype, bits }) => Some((dtype, bits)),
            _ => None,
        }
    }
    /// Is this value only another view of its node's first operand?
    pub fn is_view(&self, v: ValueId) -> bool {
        let node = self.graph.value(v).node;
        is_view_op(&self.graph.node(node).op) && !self.claims.contains_key(&node)
    }
}

/// Does the op only look at its first operand in another way?
pub(crate) fn is_view_op(op: &Op) -> bool {
    matches!(
        op.prim(),
        Some(Prim::Reshape(_) | Prim::Permute(_) | Prim::Expand(_) | Prim::Slice { .. } | Prim::Windows { .. })
    )
}
