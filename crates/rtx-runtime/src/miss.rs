//! Why a region found no plan: the field in which it differs from the nearest one there was (contract R2).
use crate::cache::{Entry, Family, PlanCache, Sizes};
use crate::region::Body;
use rtx_ir::{NodeId, ValueId};

/// One sentence. `fact_starts` says where each input's facts start in the key, `graph_sizes` where its strides do.
pub(crate) fn explain(
    plans: &PlanCache,
    body: &Body,
    wanted: &[u32],
    fact_starts: &[usize],
    graph_sizes: usize,
) -> String {
    let structure = &body.key.structure;
    let nearest = plans.families().filter(|f| !f.entries.is_empty()).max_by_key(|f| common(&f.structure, structure));
    match nearest {
        None => "it is the first".into(),
        Some(family) if *family.structure == **structure => explain_sizes(family, body, wanted, graph_sizes),
        Some(family) => explain_structure(family, body, fact_starts),
    }
}

/// Ops, attributes or facts differ.
fn explain_structure(family: &Family, body: &Body, fact_starts: &[usize]) -> String {
    let at = common(&family.structure, &body.key.structure);
    match fact_starts.partition_point(|&start| start <= at) {
        0 => format!("{} is new there", node(body, body.key.node_of_byte(at))),
        n => format!("layout, donation or sharing of input {} differs ({})", n - 1, input(body, n - 1)),
    }
}

/// Sizes, strides or wanted values differ.
fn explain_sizes(family: &Family, body: &Body, wanted: &[u32], graph_sizes: usize) -> String {
    let dims = &body.key.dims;
    let differ = |e: &Entry| match &e.sizes {
        Sizes::Exactly(own) => own.iter().zip(dims).position(|(a, b)| a != b).map(|at| (at, own[at])),
        Sizes::Symbolic(pattern) => pattern.first_misfit(dims),
    };
    let nearest = family.entries.iter().max_by_key(|e| differ(e).map_or(usize::MAX, |(at, _)| at));
    let Some(entry) = nearest else { return "its plan was dropped".into() };
    match differ(entry) {
        Some((at, _)) if at >= graph_sizes => "strides of an input differ".into(),
        Some((at, own)) => format!("size {own} became {} at {}", dims[at], node(body, body.key.node_of_dim(at))),
        None => {
            let new: Vec<String> = wanted
                .iter()
                .filter(|v| entry.wanted.binary_search(v).is_err())
                .map(|&v| node(body, body.graph.value(ValueId(v)).node))
                .collect();
            format!("more is wanted: {}", new.join(", "))
        }
    }
}

fn node(body: &Body, id: NodeId) -> String {
    let node = body.graph.node(id);
    format!("`{}` recorded at {}", node.op.name(), node.location)
}

fn input(body: &Body, at: usize) -> String {
    body.inputs.get(at).map_or_else(String::new, |v| v.ty().to_string())
}

/// Bytes that agree from the start.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
