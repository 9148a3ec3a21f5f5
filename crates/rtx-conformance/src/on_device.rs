//! Graphs run on a device: as one region, and a region a node; what they give is held against each other and against
//! the oracle.
use rtx_core::{DType, Error, Kind, Location, Result, Shape};
use rtx_ir::oracle::Tensor;
use rtx_ir::{Builder, Graph, Node, Op, OpDef, Prim, Sample, ValueId};
use rtx_runtime::{Executor, Recorder, Value, record, set_eager};
use rtx_testkit::graphs::RandomGraph;
use rtx_testkit::{Random, draw};

/// A sample's call in a graph, with its floats as another type if one is named; `None` where the op does not take that.
///
/// # Errors
/// Why the sample cannot be recorded.
pub fn sample_graph(
    def: &'static OpDef,
    sample: &Sample,
    floats: Option<DType>,
) -> std::result::Result<Option<RandomGraph>, String> {
    let mut drawn = draw(def.sig, sample.args, &mut Random::new(2))?;
    if let Some(dtype) = floats {
        if !drawn.iter().flat_map(|d| d.tensors()).any(|t| matches!(t.ty.dtype, DType::F32 | DType::F64)) {
            return Ok(None);
        }
        drawn = drawn.into_iter().map(|d| d.with_floats(dtype)).collect();
    }
    let mut graph = Graph::new();
    let (bound, _) = rtx_testkit::record(&mut graph, &drawn);
    let outs = match Builder::new(&mut graph, Location::caller()).call(def, bound) {
        Ok(outs) => outs,
        // Refused by name: it does not take that type (or a program in its arguments says another one).
        Err(e) if floats.is_some() && e.kind() != Kind::Internal => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let mut outputs = outs.to_vec();
    outputs.sort_unstable();
    outputs.dedup();
    let inputs = drawn.iter().flat_map(|d| d.tensors().iter().cloned()).collect();
    Ok(Some(RandomGraph { graph, inputs, outputs }))
}

/// Is it said by name that there is no kernel, or none of this precision?
pub fn is_refusal(e: &str) -> bool {
    ["cpu", "cuda"].iter().any(|family| e.ends_with(&format!("no kernel of {family} takes it")))
        || e.contains(": needs an f32 or f64 tensor, got ")
}

/// Records one node; `bits` is the number behind a `Param`.
fn emit(r: &mut Recorder<'_>, node: &Node, operands: &[ValueId], bits: u64) -> Result<Vec<ValueId>> {
    match &node.op {
        Op::Prim(Prim::Param { dtype }) => Ok(vec![r.builder().graph_mut().push_param(*dtype, bits, node.location)]),
        op => r.builder().apply(op.clone(), operands).map(|outs| outs.to_vec()),
    }
}

fn inputs(executor: &Executor, g: &RandomGraph) -> Result<Vec<Value>> {
    g.inputs.iter().map(|t| Value::from_bytes(executor, t.ty.clone(), &t.to_bytes())).collect()
}

fn read(graph: &Graph, id: ValueId, value: &Value) -> Result<Tensor> {
    Tensor::from_bytes(graph.ty(id).clone(), &value.read()?)
}

/// One value fewer than a graph needs.
fn lacking() -> Error {
    Error::new(Kind::Internal, "a graph with fewer values than inputs and params")
}

/// All of it in one region: the outputs.
///
/// # Errors
/// What the device says.
pub fn run_whole(executor: &Executor, g: &RandomGraph) -> Result<Vec<Tensor>> {
    let given = inputs(executor, g)?;
    let outs: Result<Vec<Value>> = record(executor, Location::caller(), |r| {
        let (mut given, mut numbers) = (given.iter(), g.graph.params().iter());
        let mut ids: Vec<ValueId> = Vec::new();
        for node in g.graph.nodes() {
            if matches!(node.op, Op::Input) {
                ids.push(r.import(given.next().ok_or_else(lacking)?));
                continue;
            }
            let is_number = matches!(node.op, Op::Prim(Prim::Param { .. }));
            let bits = if is_number { *numbers.next().ok_or_else(lacking)? } else { 0 };
            let operands: Vec<ValueId> = node.inputs.iter().map(|v| ids[v.index()]).collect();
            ids.extend(emit(r, node, &operands, bits)?);
        }
        Ok(g.outputs.iter().map(|v| r.export(ids[v.index()])).collect())
    });
    g.outputs.iter().zip(&outs?).map(|(id, v)| read(&g.graph, *id, v)).collect()
}

/// A region a node: every value.
fn run_node_by_node(executor: &Executor, g: &RandomGraph) -> Result<Vec<Tensor>> {
    let given = inputs(executor, g)?;
    let (mut given, mut numbers) = (given.into_iter(), g.graph.params().iter());
    let mut values: Vec<Value> = Vec::new();
    for node in g.graph.nodes() {
        if matches!(node.op, Op::Input) {
            values.push(given.next().ok_or_else(lacking)?);
            continue;
        }
        let is_number = matches!(node.op, Op::Prim(Prim::Param { .. }));
        let bits = if is_number { *numbers.next().ok_or_else(lacking)? } else { 0 };
        let outs: Result<Vec<Value>> = record(executor, Location::caller(), |r| {
            let operands: Vec<ValueId> = node.inputs.iter().map(|v| r.import(&values[v.index()])).collect();
            let mut outs = emit(r, node, &operands, bits)?;
            if is_number {
                // A number is no result; a reshape of it is one.
                outs = r.builder().apply(Op::Prim(Prim::Reshape(Shape::scalar())), &outs)?.to_vec();
            }
            Ok(outs.into_iter().map(|o| r.export(o)).collect())
        });
        let outs = outs?;
        outs.iter()
            .try_for_each(Value::wait)
            .map_err(|e| Error::new(e.kind(), format!("{}: {}", node.op.name(), e.message())))?;
        values.extend(outs);
    }
    values.iter().enumerate().map(|(i, v)| read(&g.graph, ValueId(i as u32), v)).collect()
}

/// The same bits whole and node by node, and each node agrees with the oracle on the operands that it really had.
///
/// # Errors
/// What differs, or what the device says.
pub fn check(executor: &Executor, g: &RandomGraph) -> std::result::Result<(), String> {
    check_with(executor, g, usize::MAX)
}

/// [`check`] of a graph whose nodes from `derived` on are a gradient: there composites stand with operands that no
/// sample of theirs has, and are compared as sums are (`compare_node_as_sum`).
///
/// # Errors
/// What differs, or what the device says.
pub fn check_with(executor: &Executor, g: &RandomGraph, derived: usize) -> std::result::Result<(), String> {
    set_eager(Some(false));
    let deferred = run_whole(executor, g).map_err(|e| format!("deferred: {}", e.message()))?;
    let eager = run_node_by_node(executor, g).map_err(|e| format!("node by node: {}", e.message()))?;
    for (i, node) in g.graph.nodes().iter().enumerate() {
        if matches!(node.op, Op::Input | Op::Prim(Prim::Param { .. })) {
            continue;
        }
        let is_sum = i >= derived && matches!(node.op, Op::Composite(..));
        let compare_node = if is_sum { rtx_testkit::compare_node_as_sum } else { rtx_testkit::compare_node };
        let operands: Vec<&Tensor> = node.inputs.iter().map(|v| &eager[v.index()]).collect();
        let got: Vec<Tensor> = node.outs().map(|v| eager[v.index()].clone()).collect();
        compare_node(&node.op, &operands, &got).map_err(|e| format!("oracle: {:?}: {e}", node.op))?;
    }
    for (v, t) in g.outputs.iter().zip(&deferred) {
        let name = g.graph.producer(*v).op.name();
        rtx_testkit::compare(t, &eager[v.index()], 0)
            .map_err(|e| format!("deferred differs at %{} ({name}): {e}", v.0))?;
    }
    Ok(())
}
