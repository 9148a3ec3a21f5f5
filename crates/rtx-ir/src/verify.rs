//! Is a graph well-formed? Passes run this in tests, readers of files always.
use crate::{Graph, Node, NodeId, Op, Prim, Type, Types};
use rtx_core::{Error, Kind, Result};
use smallvec::SmallVec;

/// Checks that operands come before their users, that types are what inference says, that every run-time number has
/// its value, and that nothing reads a ghost.
///
/// # Errors
/// [`Kind::Internal`] with the first node that is wrong: `verify: node 3 (add): reads %7, which comes later`.
pub fn verify(graph: &Graph) -> Result<()> {
    let (mut values, mut params) = (0, 0);
    for (id, node) in graph.iter() {
        let wrong = |what: String| {
            Error::new(Kind::Internal, format!("verify: node {} ({}): {what}", id.0, node.op.name()))
                .recorded_at(node.location)
        };
        check_node(graph, id, node, values).map_err(wrong)?;
        values += node.outputs;
        params += usize::from(matches!(node.op, Op::Prim(Prim::Param { .. })));
    }
    if values as usize != graph.value_count() || params != graph.params().len() {
        return Err(Error::new(Kind::Internal, "verify: values or run-time numbers without a node"));
    }
    Ok(())
}

fn check_node(graph: &Graph, id: NodeId, node: &Node, next: u32) -> Result<(), String> {
    if node.first.0 != next || node.outs().any(|v| v.index() >= graph.value_count() || graph.value(v).node != id) {
        return Err("its outputs are not the next values".into());
    }
    if let Some(v) = node.inputs.iter().find(|v| v.0 >= next) {
        return Err(format!("reads %{}, which comes later", v.0));
    }
    if let Some(v) = node.inputs.iter().find(|v| matches!(graph.producer(**v).op, Op::Ghost)) {
        return Err(format!("reads %{}, a ghost", v.0));
    }
    let Some(def) = node.op.def() else {
        let alone = node.inputs.is_empty() && node.outputs == 1;
        return if alone { Ok(()) } else { Err("takes no operands and makes one value".into()) };
    };
    let operands: SmallVec<[&Type; 4]> = node.inputs.iter().map(|&v| graph.ty(v)).collect();
    let inferred = (def.infer)(&node.op, &operands).map_err(|e| e.to_string())?;
    let recorded: Types = node.outs().map(|v| graph.ty(v).clone()).collect();
    if inferred != recorded {
        let show = |t: &Types| t.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(format!("is {}, inference says {}", show(&recorded), show(&inferred)));
    }
    Ok(())
}
