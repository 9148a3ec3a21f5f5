//! Claims for convolutions and overlapping windows.
use crate::claims::{Axes, Extent, composite, extent, grouped, output};
use rtx_core::DType;
use rtx_hal::Target;
use rtx_ir::{ConvDim, Graph, NodeId, Op, Prim};
use rtx_plan::{Claim, Claimed};
use smallvec::smallvec;
use std::fmt::Write;

fn is_taken(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64)
}
/// Each axis a group of its own.
fn each(rank: usize) -> impl Iterator<Item = Axes> {
    (0..rank).map(|a| smallvec![a])
}

/// `conv_general`.
pub struct ConvClaim;

impl Claim for ConvClaim {
    fn name(&self) -> &'static str {
        "conv"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let Op::Prim(Prim::Conv(c)) = &node.op else { return None };
        let &[x, w] = node.inputs.as_slice() else { return None };
        let dtype = graph.ty(x).dtype;
        if !is_taken(dtype) {
            return None;
        }
        let (y, spatial) = (output(node, 0), c.dims.len());
        let mut text = format!("conv {dtype} {spatial} {}", c.groups);
        let lists: [fn(&ConvDim) -> i64; 4] =
            [|d| d.stride as i64, |d| d.low, |d| d.base as i64, |d| d.dilation as i64];
        for of in lists {
            // Writing to a string does not fail.
            c.dims.iter().for_each(|d| _ = write!(text, " {}", of(d)));
        }
        let sizes = |v, axes: std::ops::Range<usize>| axes.map(move |a| extent(graph, v, &[a]));
        let dims: Vec<Extent> = [extent(graph, x, &[0]), extent(graph, w, &[0]), extent(graph, w, &[1])]
            .into_iter()
            .chain(sizes(x, 2..spatial + 2))
            .chain(sizes(w, 2..spatial + 2))
            .chain(sizes(y, 2..spatial + 2))
            .collect();
        let points: Axes = (2..spatial + 2).collect();
        Some(Claimed {
            text,
            dims,
            operands: vec![grouped(x, each(spatial + 2)), grouped(w, each(spatial + 2))],
            outputs: vec![grouped(y, [smallvec![0], smallvec![1], points])],
            epilogue: true,
            in_place: vec![],
        })
    }
}

/// `overlap_add`.
pub struct OverlapAddClaim;

impl Claim for OverlapAddClaim {
    fn name(&self) -> &'static str {
        "overlap_add"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(node);
        let &Op::Prim(Prim::OverlapAdd { axis, stride, dilation, .. }) = &node.op else { return None };
        let &[x] = node.inputs.as_slice() else { return None };
        let (ty, y) = (graph.ty(x), output(node, 0));
        if !is_taken(ty.dtype) {
            return None;
        }
        let (outer, inner): (Axes, Axes) = ((0..axis).collect(), (axis + 1..ty.rank() - 1).collect());
        let last = ty.rank() - 1;
        Some(Claimed {
            text: format!("overlap_add {} {stride} {dilation}", ty.dtype),
            dims: vec![
                extent(graph, x, &outer),
                extent(graph, x, &[axis]),
                extent(graph, x, &inner),
                extent(graph, x, &[last]),
                extent(graph, y, &[axis]),
            ],
            operands: vec![grouped(x, [outer.clone(), smallvec![axis], inner.clone(), smallvec![last]])],
            outputs: vec![grouped(y, [outer, smallvec![axis], inner])],
            epilogue: false,
            in_place: vec![],
        })
    }
}

/// `windowed_max` over one to three dims.
pub struct WindowedMaxClaim;

impl Claim for WindowedMaxClaim {
    fn name(&self) -> &'static str {
        "windowed_max"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let (attrs, node) = composite(graph, node, &rtx_ops::pool::WINDOWED_MAX)?;
        let (x, n) = (node.inputs[0], attrs[4].ints().len());
        let ty = graph.ty(x);
        if !is_taken(ty.dtype) || !(1..=3).contains(&n) {
            return None;
        }
        let mut text = format!("windowed_max {} {n}", ty.dtype);
        for d in 0..n {
            // Writing to a string does not fail.
            (0..4).for_each(|l| _ = write!(text, " {}", attrs[l].ints().get(d).copied().unwrap_or(0)));
        }
        let (lead, all): (Axes, Axes) = ((0..ty.rank() - n).collect(), (ty.rank() - n..ty.rank()).collect());
        let sizes = |v| all.iter().map(move |&a| extent(graph, v, &[a]));
        let dims: Vec<Extent> =
            std::iter::once(extent(graph, x, &lead)).chain(sizes(x)).chain(sizes(output(node, 0))).collect();
        let each = std::iter::once(lead.clone()).chain(all.iter().map(|&a| smallvec![a]));
        let outputs = [0, 1].map(|i| grouped(output(node, i), [lead.clone(), all.clone()]));
        Some(Claimed {
            text,
            dims,
            operands: vec![grouped(x, each)],
            outputs: outputs.into(),
            epilogue: false,
            in_place: vec![],
        })
    }
}

/// `scatter_windows`.
pub struct ScatterWindowsClaim;

impl Claim for ScatterWindowsClaim {
    fn name(&self) -> &'static str {
        "scatter_windows"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let (attrs, node) = composite(graph, node, &rtx_ops::pool::SCATTER_WINDOWS)?;
        let (x, places, y) = (node.inputs[0], node.inputs[1], output(node, 0));
        let ty = graph.ty(x);
        if !is_taken(ty.dtype) {
            return None;
        }
        let lead = ty.rank() - attrs[0].ints().len();
        let halves = |v| -> [Axes; 2] { [(0..lead).collect(), (lead..graph.ty(v).rank()).collect()] };
        let [rows, points] = halves(x);
        Some(Claimed {
            text: format!("scatter_windows {}", ty.dtype),
            dims: vec![extent(graph, x, &rows), extent(graph, x, &points), extent(graph, y, &halves(y)[1])],
            operands: vec![grouped(x, halves(x)), grouped(places, halves(places))],
            outputs: vec![grouped(y, halves(y))],
            epilogue: false,
            in_place: vec![],
        })
    }
}
