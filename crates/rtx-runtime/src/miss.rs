//! Why a region found no plan: the field in which it differs from the nearest one there was (contract R2).
use crate::cache::{Entry, Family, PlanCache};
use crate::region::Body;
use crate::runner::FullKey;
use rtx_ir::{NodeId, ValueId};

/// One sentence.
pub(crate) fn explain(plans: &PlanCache, body: &Body, key: &FullKey) -> String {
    let known = plans.families().filter(|f| !f.entries.is_empty());
    match known.max_by_key(|f| common(&f.structure, &key.structure)) {
        None => "it is the first".into(),
        Some(family) if *family.structure == *key.structure => explain_sizes(family, body, key),
        Some(family) => explain_structure(family, body, key),
    }
}

/// Ops, attributes or facts differ.
fn explain_structure(family: &Family, body: &Body, key: &FullKey) -> String {
    let at = common(&family.structure, &key.structure);
    match key.fact_starts.partition_point(|&start| start <= at) {
        0 => format!("{} is new there", node(body, body.key.node_of_byte(at))),
        n => {
            let ty = body.inputs.get(n - 1).map_or_else(String::new, |v| v.ty().to_string());
            format!("layout, donation or sharing of input {} differs ({ty})", n - 1)
        }
    }
}

/// Sizes, strides or wanted values differ.
fn explain_sizes(family: &Family, body: &Body, key: &FullKey) -> String {
    let misfit = |e: &Entry| e.sizes.first_misfit(&key.dims);
    let nearest = family.entries.iter().max_by_key(|e| misfit(e).map_or(usize::MAX, |(at, _)| at));
    let Some(entry) = nearest else { return "its plan was dropped".into() };
    match misfit(entry) {
        Some((at, _)) if at >= body.key.dims.len() => "strides of an input differ".into(),
        Some((at, own)) => format!("size {own} became {} at {}", key.dims[at], node(body, body.key.node_of_dim(at))),
        None => {
            let new = key.wanted.iter().filter(|v| entry.wanted.binary_search(v).is_err());
            let nodes = new.map(|&v| node(body, body.graph.value(ValueId(v)).node));
            format!("more is wanted: {}", nodes.collect::<Vec<_>>().join(", "))
        }
    }
}

fn node(body: &Body, id: NodeId) -> String {
    let node = body.graph.node(id);
    format!("`{}` recorded at {}", node.op.name(), node.location)
}

/// Bytes that agree from the start.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
