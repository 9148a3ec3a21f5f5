//! A claim for tests: contractions, with or without an epilogue.
use rtx_core::Dim;
use rtx_hal::Target;
use rtx_ir::{Graph, NodeId, Prim, Type};
use rtx_plan::{Claim, Claimed, Grouped};
use smallvec::SmallVec;

/// Claims contractions of one pair, with batch dims: sizes are batch, m, n, k as groups.
pub struct TestDot {
    pub epilogue: bool,
}
impl Claim for TestDot {
    fn name(&self) -> &'static str {
        "dot"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let n = graph.node(node);
        let Some(Prim::Dot { batch, contract }) = n.op.prim() else { return None };
        let (l, r) = (graph.ty(n.inputs[0]), graph.ty(n.inputs[1]));
        type Axes = SmallVec<[usize; 4]>;
        let batch_l: Axes = batch.iter().map(|p| p.0).collect();
        let batch_r: Axes = batch.iter().map(|p| p.1).collect();
        let deep_l: Axes = contract.iter().map(|p| p.0).collect();
        let deep_r: Axes = contract.iter().map(|p| p.1).collect();
        let free = |rank, b: &Axes, c: &Axes| (0..rank).filter(|i| !b.contains(i) && !c.contains(i)).collect::<Axes>();
        let (m, nn) = (free(l.rank(), &batch_l, &deep_l), free(r.rank(), &batch_r, &deep_r));
        let dims = |t: &Type, axes: &Axes| axes.iter().map(|&a| t.shape.dim(a)).collect::<SmallVec<[Dim; 4]>>();
        let (nb, nm) = (batch_l.len(), m.len());
        let out: Vec<Axes> = vec![(0..nb).collect(), (nb..nb + nm).collect(), (nb + nm..nb + nm + nn.len()).collect()];
        Some(Claimed {
            text: "testdot f32".into(),
            dims: vec![dims(l, &batch_l), dims(l, &m), dims(r, &nn), dims(l, &deep_l)],
            operands: vec![
                Grouped { value: n.inputs[0], groups: vec![batch_l, m, deep_l] },
                Grouped { value: n.inputs[1], groups: vec![batch_r, nn, deep_r] },
            ],
            outputs: vec![Grouped { value: n.first, groups: out }],
            epilogue: self.epilogue,
            in_place: vec![],
        })
    }
    fn writes_parts(&self, _: &Target) -> bool {
        !self.epilogue
    }
}
