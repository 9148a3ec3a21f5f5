//! What is known of each value before grouping: what it costs, and which reduction it comes from.
use super::FREE_COST;
use crate::work::Work;
use rtx_core::{Arith, Function};
use rtx_ir::{NodeId, Op, Prim};

/// One or two machine instructions an element.
pub(super) fn is_cheap(op: &Op) -> bool {
    match op.prim() {
        Some(Prim::Unary(f)) => {
            matches!(
                f,
                Function::Neg
                    | Function::Abs
                    | Function::Sign
                    | Function::Floor
                    | Function::Ceil
                    | Function::Trunc
                    | Function::RoundEven
                    | Function::Not
            )
        }
        Some(Prim::Binary(f)) => !matches!(f, Arith::Pow | Arith::Atan2 | Arith::Rem | Arith::Div),
        Some(Prim::Compare(_) | Prim::Fma | Prim::Select | Prim::Cast(_) | Prim::Bitcast(_) | Prim::Iota { .. }) => {
            true
        }
        _ => false,
    }
}

/// For each value, the reduction behind it, through operations that keep one element a row.
pub(super) fn statistics(work: &Work) -> Vec<Option<NodeId>> {
    let mut found: Vec<Option<NodeId>> = vec![None; work.graph.value_count()];
    for (id, node) in work.graph.iter() {
        if work.claims.contains_key(&id) || node.outputs != 1 {
            continue;
        }
        let shape = &work.graph.ty(node.first).shape;
        found[node.first.index()] = match node.op.prim() {
            Some(Prim::Reduce { .. } | Prim::ArgReduce { .. }) => Some(id),
            Some(
                Prim::Unary(_)
                | Prim::Binary(_)
                | Prim::Compare(_)
                | Prim::Fma
                | Prim::Select
                | Prim::Cast(_)
                | Prim::Bitcast(_)
                | Prim::Reshape(_)
                | Prim::Permute(_)
                | Prim::Expand(_),
            ) => node
                .inputs
                .iter()
                .filter(|x| work.graph.ty(**x).shape.numel() == shape.numel())
                .find_map(|x| found[x.index()]),
            _ => None,
        };
    }
    found
}

/// For each value, how many cheap operations make it from constants, run-time numbers and positions alone.
pub(super) fn free_costs(work: &Work) -> Vec<Option<u32>> {
    let mut cost = vec![None; work.graph.value_count()];
    for (id, node) in work.graph.iter() {
        if work.claims.contains_key(&id) || node.outputs != 1 {
            continue;
        }
        let operands = || node.inputs.iter().try_fold(0u32, |sum, x| Some(sum + cost[x.index()]?));
        cost[node.first.index()] = match &node.op {
            Op::Prim(Prim::Constant { .. } | Prim::Param { .. } | Prim::Iota { .. }) => Some(0),
            Op::Prim(Prim::Reshape(_) | Prim::Permute(_) | Prim::Expand(_) | Prim::Slice { .. }) => operands(),
            op if is_cheap(op) => operands().map(|c| c + 1).filter(|&c| c <= FREE_COST),
            _ => None,
        };
    }
    cost
}
