//! Claims for recurrent layers and the way back through them.
use super::{Axes, composite, extent, grouped, is_real, output};
use rtx_core::Dim;
use rtx_hal::Target;
use rtx_ir::{Attr, Graph, NodeId, OpDef, ValueId};
use rtx_ops::recurrent as ops;
use rtx_plan::{Claim, Claimed};
use smallvec::smallvec;

/// `lstm_layer`, `gru_layer`, `rnn_layer` and their backward twins, of more than one number of state.
pub struct RecurrentClaim;

impl Claim for RecurrentClaim {
    fn name(&self) -> &'static str {
        "recurrent"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let of = |def: &OpDef| composite(graph, node, def);
        let plain = |attrs: &[Attr]| if attrs[0].bool() { "relu" } else { "tanh" };
        // The operand whose last dim is the state's, and how many axes the weights stand behind.
        let (cell, way, (attrs, node), like) = if let Some(n) = of(&ops::LSTM_LAYER) {
            ("lstm", "forward", n, 1)
        } else if let Some(n) = of(&ops::LSTM_LAYER_BACKWARD) {
            ("lstm", "backward", n, 1)
        } else if let Some(n) = of(&ops::GRU_LAYER) {
            ("gru", "forward", n, 1)
        } else if let Some(n) = of(&ops::GRU_LAYER_BACKWARD) {
            ("gru", "backward", n, 1)
        } else if let Some(n) = of(&ops::RNN_LAYER) {
            (plain(n.0), "forward", n, 1)
        } else if let Some(n) = of(&ops::RNN_LAYER_BACKWARD) {
            (plain(n.0), "backward", n, 0)
        } else {
            return None;
        };
        let (sequence, like) = (node.inputs[0], node.inputs[like]);
        let (dtype, rank) = (graph.ty(sequence).dtype, graph.ty(like).rank());
        if !is_real(dtype) || matches!(graph.ty(like).shape.dim(rank - 1), Dim::Const(0 | 1)) {
            return None;
        }
        let each = |v: ValueId| grouped(v, (0..graph.ty(v).rank()).map(|a| -> Axes { smallvec![a] }));
        let reverse = attrs.last().is_some_and(Attr::bool);
        Some(Claimed {
            text: format!("recurrent {cell} {way} {dtype} {}", if reverse { "reverse" } else { "ahead" }),
            dims: vec![extent(graph, sequence, &[0]), extent(graph, sequence, &[1]), extent(graph, like, &[rank - 1])],
            operands: node.inputs.iter().map(|&v| each(v)).collect(),
            outputs: node.outs().enumerate().map(|(i, _)| each(output(node, i))).collect(),
            epilogue: false,
            in_place: vec![],
        })
    }
}
