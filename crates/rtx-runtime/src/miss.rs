//! Why a region found no plan: the field in which it differs from the nearest one there was (contract R2).
use crate::cache::{Entry, Family, PlanCache};
use crate::region::Body;
use crate::runner::{ABSENT, DENSE, DONATED, FullKey};
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
            let start = key.fact_starts[n - 1];
            let (was, is) = (family.structure.get(start).copied().unwrap_or(0), key.structure[start]);
            format!("input {} ({ty}) {}", n - 1, explain_fact(was, is))
        }
    }
}

/// What changed about an input's memory, from the flags of the two keys.
fn explain_fact(was: u8, is: u8) -> &'static str {
    let (new, gone) = (is & !was, was & !is);
    if new & DONATED != 0 {
        "may be overwritten, and could not be before"
    } else if gone & DONATED != 0 {
        "may not be overwritten, and could be before: somebody holds it"
    } else if (new | gone) & DENSE != 0 {
        "lies in another layout"
    } else if (new | gone) & ABSENT != 0 {
        "is the result of something that failed, or no longer is"
    } else {
        "shares its memory with another input, or no longer does"
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
