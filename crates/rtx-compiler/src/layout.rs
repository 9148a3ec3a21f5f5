//! How results of native kernels lie in memory: in the order in which who reads them walks them.
use crate::import::live_nodes;
use crate::index::dense_strides;
use crate::views::{Strided, common_stride, step_back, stored};
use crate::work::Work;
use rtx_core::Shape;
use rtx_ir::{NodeId, Prim, ValueId};
use rtx_plan::{Claimed, Grouped, SizeExpr};
use smallvec::SmallVec;
use std::collections::HashMap;

/// Where every kernel that reads a native result permutes it alike, it is stored permuted: the permutation is then a
/// view of dense memory, and what reshapes it needs no copy. Bits do not depend on it.
pub(crate) fn choose_layouts(work: &mut Work) {
    let readers = readers(work);
    let claims = work.graph.iter().filter_map(|(id, _)| Some(&work.claims.get(&id)?.claimed));
    let free = claims.filter(|c| !c.epilogue && c.in_place.is_empty());
    let results = free.flat_map(|c: &Claimed| &c.outputs);
    let chosen = results.filter_map(|g| Some((g.value, layout_of(work, g, &readers[g.value.index()])?)));
    work.layouts = chosen.collect();
}

/// What a native kernel makes for nothing but a concatenation, it writes where the concatenation lies: no copy, and no
/// memory of its own.
pub(crate) fn choose_parts(work: &mut Work) {
    let readers = readers(work);
    let live = live_nodes(&work.graph, &work.wanted);
    let mut parts = HashMap::new();
    for (_, node) in work.graph.iter().filter(|(id, _)| live[id.index()]) {
        let (Some(&Prim::Concat { axis }), whole) = (node.op.prim(), node.first) else { continue };
        if work.wanted.contains(&whole) || !work.graph.ty(whole).shape.is_static() {
            continue;
        }
        let mut before = 0;
        for &x in &node.inputs {
            let mut at = stored(work, whole);
            at.offset = &at.offset + &(&at.strides[axis] * &SizeExpr::constant(before));
            before += work.graph.ty(x).shape.dim(axis).bound() as i64;
            if let Some((v, at)) = part_of(work, &readers, x, at) {
                parts.insert(v, at);
            }
        }
    }
    work.layouts.retain(|v, _| !parts.contains_key(v));
    work.parts = parts;
}

/// The native result that `x` is, moved, and where it lies if `x` lies at `at`.
fn part_of(work: &Work, readers: &[SmallVec<[NodeId; 2]>], x: ValueId, at: Strided) -> Option<(ValueId, Strided)> {
    let (mut v, mut at) = (x, at);
    loop {
        if readers[v.index()].len() != 1 || work.wanted.contains(&v) {
            return None;
        }
        if let Some(granted) = work.claims.get(&work.graph.value(v).node) {
            let claimed = &granted.claimed;
            let free = granted.writes_parts && !claimed.epilogue && claimed.in_place.is_empty();
            let shape = &work.graph.ty(v).shape;
            let grouped = claimed.outputs.iter().find(|g| g.value == v).filter(|_| free && shape.numel() > 0)?;
            let even = grouped.groups.iter().all(|axes| common_stride(shape, axes, &at.strides).is_some());
            let rows = shape.rank() > 0 && at.strides.last().and_then(SizeExpr::known) == Some(1);
            return (even && rows).then_some((v, at));
        }
        let x = *work.operands(v).first()?;
        at = step_back(work, at, v, x)?;
        v = x;
    }
}

/// The nodes that read each value; what was rewritten away reads nothing.
fn readers(work: &Work) -> Vec<SmallVec<[NodeId; 2]>> {
    let mut readers = vec![SmallVec::new(); work.graph.value_count()];
    let live = live_nodes(&work.graph, &work.wanted);
    for (id, node) in work.graph.iter().filter(|(id, _)| live[id.index()]) {
        node.inputs.iter().for_each(|v| readers[v.index()].push(id));
    }
    readers
}

/// Strides other than dense ones that suit all readers and the kernel.
fn layout_of(work: &Work, g: &Grouped, readers: &[NodeId]) -> Option<SmallVec<[SizeExpr; 4]>> {
    if work.wanted.contains(&g.value) {
        return None;
    }
    // Native kernels take any strides.
    let mut plain = readers.iter().filter(|id| !work.claims.contains_key(id)).map(|&id| order_of(work, id));
    let order = plain.next()??;
    // Kernels expect the elements of a row side by side.
    let keeps_rows = order.last().is_some_and(|&o| o + 1 == order.len());
    if !keeps_rows || plain.any(|o| o != Some(order)) {
        return None;
    }
    let strides = permuted_strides(work, g.value, order);
    let shape = &work.graph.ty(g.value).shape;
    let even = g.groups.iter().all(|axes| common_stride(shape, axes, &strides).is_some());
    even.then_some(strides)
}

fn order_of(work: &Work, id: NodeId) -> Option<&SmallVec<[usize; 4]>> {
    match work.graph.node(id).op.prim() {
        Some(Prim::Permute(order)) => Some(order),
        _ => None,
    }
}

/// The strides of `v` where its permutation is dense.
fn permuted_strides(work: &Work, v: ValueId, order: &[usize]) -> SmallVec<[SizeExpr; 4]> {
    let shape = &work.graph.ty(v).shape;
    let permuted: Shape = order.iter().map(|&o| shape.dim(o)).collect();
    let mut strides = dense_strides(shape);
    order.iter().zip(dense_strides(&permuted)).for_each(|(&o, stride)| strides[o] = stride);
    strides
}
