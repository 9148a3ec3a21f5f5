//! Scans, sorts and Fourier transforms: every line along an axis on its own.
use super::{Axes, extent, grouped, output};
use crate::{scan, sort};
use rtx_hal::Target;
use rtx_ir::{FftKind, Graph, NodeId, Op, Prim, ValueId};
use rtx_plan::{Claim, Claimed, Grouped};

/// The axes before one, the one, and those after it.
fn around(axis: usize, rank: usize) -> [Axes; 3] {
    [(0..axis).collect(), [axis].into_iter().collect(), (axis + 1..rank).collect()]
}
/// A kernel over lines along `axis` of operands and outputs of one shape.
fn over_lines(graph: &Graph, axis: usize, text: String, operands: Vec<Grouped>, outputs: Vec<ValueId>) -> Claimed {
    let around = around(axis, graph.ty(outputs[0]).rank());
    Claimed {
        text,
        dims: around.iter().map(|axes| extent(graph, outputs[0], axes)).collect(),
        operands,
        outputs: outputs.into_iter().map(|v| grouped(v, around.clone())).collect(),
        epilogue: false,
        in_place: vec![],
    }
}
fn way(reverse: bool) -> &'static str {
    if reverse { "reverse" } else { "forward" }
}

/// `scan` of every fold.
pub struct ScanClaim;

impl Claim for ScanClaim {
    fn name(&self) -> &'static str {
        "scan"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let &Op::Prim(Prim::Scan { fold, axis, reverse }) = &node.op else { return None };
        let x = *node.inputs.first()?;
        let dtype = graph.ty(x).dtype;
        let text = format!("scan {} {dtype} {}", fold.name(), way(reverse));
        let operands = vec![grouped(x, around(axis, graph.ty(x).rank()))];
        scan::is_scanned(dtype).then(|| over_lines(graph, axis, text, operands, vec![output(node, 0)]))
    }
}

/// `linear_scan`.
pub struct LinearScanClaim;

impl Claim for LinearScanClaim {
    fn name(&self) -> &'static str {
        "linear_scan"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let &Op::Prim(Prim::LinearScan { axis, reverse }) = &node.op else { return None };
        let &[a, b, start] = node.inputs.as_slice() else { return None };
        let dtype = graph.ty(a).dtype;
        let around = around(axis, graph.ty(a).rank());
        let start = grouped(start, [(0..axis).collect(), (axis..graph.ty(start).rank()).collect()]);
        let operands = vec![grouped(a, around.clone()), grouped(b, around), start];
        let text = format!("linear_scan {dtype} {}", way(reverse));
        scan::is_scanned(dtype).then(|| over_lines(graph, axis, text, operands, vec![output(node, 0)]))
    }
}

/// `sort`.
pub struct SortClaim;

impl Claim for SortClaim {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let &Op::Prim(Prim::Sort { axis, descending }) = &node.op else { return None };
        let x = *node.inputs.first()?;
        let dtype = graph.ty(x).dtype;
        let text = format!("sort {dtype} {}", if descending { "descending" } else { "ascending" });
        let operands = vec![grouped(x, around(axis, graph.ty(x).rank()))];
        let outputs = vec![output(node, 0), output(node, 1)];
        sort::is_sorted(dtype).then(|| over_lines(graph, axis, text, operands, outputs))
    }
}

/// `fft`.
pub struct FftClaim;

impl Claim for FftClaim {
    fn name(&self) -> &'static str {
        "fft"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let &Op::Prim(Prim::Fft(f)) = &node.op else { return None };
        let (x, y) = (*node.inputs.first()?, output(node, 0));
        let way = if f.inverse { "inverse" } else { "forward" };
        let text = format!("fft {} {} {way} {}", graph.ty(x).dtype.real(), f.kind.name(), f.norm.name());
        let around = around(f.axis, graph.ty(x).rank());
        // What both have but along the axis, where n is the size of the real side.
        let sized = if matches!(f.kind, FftKind::FromHalf { .. }) { y } else { x };
        Some(Claimed {
            text,
            dims: around.iter().map(|axes| extent(graph, sized, axes)).collect(),
            operands: vec![grouped(x, around.clone())],
            outputs: vec![grouped(y, around)],
            epilogue: false,
            in_place: vec![],
        })
    }
}
