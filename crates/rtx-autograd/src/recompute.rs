//! Recomputation as a graph rewrite (contract A4): nodes are recorded again under a generation of their own.
use rtx_core::Result;
use rtx_ir::{Builder, Op, Prim, ValueId};
use std::collections::{HashMap, HashSet};

/// Records again whatever `targets` need and `kept` does not hold, and returns the new values of `targets`. The
/// builder's generation marks the new nodes, so that no pass merges them with the first ones. Inputs and sources
/// (run-time numbers, constants) are not copied; random bits keep their key and ordinal, so they come out the same.
///
/// # Errors
/// Those of recording a node; none for a graph that verified.
pub fn recompute(b: &mut Builder<'_>, targets: &[ValueId], kept: &[ValueId]) -> Result<Vec<ValueId>> {
    let mut again: HashMap<ValueId, ValueId> = kept.iter().map(|&v| (v, v)).collect();
    for at in needed_nodes(b, targets, kept) {
        let node = b.graph().nodes()[at].clone();
        if matches!(node.op, Op::Input | Op::Ghost | Op::Prim(Prim::Param { .. } | Prim::Constant { .. })) {
            continue;
        }
        let inputs: Vec<ValueId> = node.inputs.iter().map(|v| *again.get(v).unwrap_or(v)).collect();
        let outs = b.at(node.location).apply(node.op.clone(), &inputs)?;
        for (old, new) in node.outs().zip(outs) {
            again.entry(old).or_insert(new);
        }
    }
    Ok(targets.iter().map(|v| *again.get(v).unwrap_or(v)).collect())
}

/// Positions of the nodes between `kept` and `targets`, ascending.
fn needed_nodes(b: &Builder<'_>, targets: &[ValueId], kept: &[ValueId]) -> Vec<usize> {
    let graph = b.graph();
    let kept: HashSet<ValueId> = kept.iter().copied().collect();
    let mut seen = HashSet::new();
    let mut open: Vec<ValueId> = targets.iter().copied().filter(|v| !kept.contains(v)).collect();
    while let Some(v) = open.pop() {
        let node = graph.value(v).node;
        if seen.insert(node.index()) {
            open.extend(graph.node(node).inputs.iter().copied().filter(|v| !kept.contains(v)));
        }
    }
    let mut nodes: Vec<usize> = seen.into_iter().collect();
    nodes.sort_unstable();
    nodes
}
