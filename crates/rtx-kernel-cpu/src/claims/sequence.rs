//! Losses of sequences: every sequence on its own.
use super::{composite, extent, grouped, output};
use rtx_hal::Target;
use rtx_ir::{Graph, NodeId, OpDef, ValueId};
use rtx_plan::{Claim, Claimed, Grouped};
use smallvec::smallvec;

/// Every axis on its own.
fn apart(graph: &Graph, v: ValueId) -> Grouped {
    grouped(v, (0..graph.ty(v).rank()).map(|a| smallvec![a]))
}
fn claimed(name: &str, def: &OpDef, graph: &Graph, node: NodeId) -> Option<Claimed> {
    let (attrs, node) = composite(graph, node, def)?;
    let (x, targets) = (node.inputs[0], node.inputs[1]);
    let dtype = graph.ty(x).dtype;
    let mut dims: Vec<_> = (0..3).map(|a| extent(graph, x, &[a])).collect();
    dims.push(extent(graph, targets, &[1]));
    super::is_real(dtype).then(|| Claimed {
        text: format!("{name} {dtype} {}", attrs[0].int()),
        dims,
        operands: node.inputs.iter().map(|&v| apart(graph, v)).collect(),
        outputs: vec![apart(graph, output(node, 0))],
        epilogue: false,
        in_place: vec![],
    })
}

/// `ctc`.
pub struct CtcClaim;

impl Claim for CtcClaim {
    fn name(&self) -> &'static str {
        "ctc"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        claimed("ctc", &rtx_ops::sequence::CTC, graph, node)
    }
}

/// `ctc_backward`.
pub struct CtcBackwardClaim;

impl Claim for CtcBackwardClaim {
    fn name(&self) -> &'static str {
        "ctc_backward"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        claimed("ctc_backward", &rtx_ops::sequence::CTC_BACKWARD, graph, node)
    }
}
