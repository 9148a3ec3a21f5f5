//! Graphs run on the device: as one region, and a region a node; what they give is held against each other and against
//! the oracle.
use rtx_core::{Location, Shape};
use rtx_device::cpu;
use rtx_ir::oracle::Tensor;
use rtx_ir::{Graph, Node, Op, Prim, ValueId};
use rtx_runtime::{Recorder, Value, record, set_eager};
use rtx_testkit::graphs::RandomGraph;

/// Records one node; `bits` is the number behind a `Param`.
fn emit(r: &mut Recorder<'_>, node: &Node, operands: &[ValueId], bits: u64) -> Vec<ValueId> {
    match &node.op {
        Op::Prim(Prim::Param { dtype }) => vec![r.builder().graph_mut().push_param(*dtype, bits, node.location)],
        op => r.builder().apply(op.clone(), operands).expect("a random graph is well typed").to_vec(),
    }
}

fn inputs(g: &RandomGraph) -> Vec<Value> {
    let value = |t: &Tensor| {
        let bytes = t.to_bytes();
        Value::from_bytes(cpu(), t.ty.clone(), &bytes).expect("inputs fit in memory")
    };
    g.inputs.iter().map(value).collect()
}

fn read(graph: &Graph, id: ValueId, value: &Value) -> Result<Tensor, String> {
    let bytes = value.read().map_err(|e| e.to_string())?;
    Tensor::from_bytes(graph.ty(id).clone(), &bytes).map_err(|e| e.to_string())
}

/// All of it in one region: the outputs.
fn whole(g: &RandomGraph) -> Result<Vec<Tensor>, String> {
    let given = inputs(g);
    let outs: Vec<Value> = record(cpu(), Location::caller(), |r| {
        let (mut given, mut numbers) = (given.iter(), g.graph.params().iter());
        let mut ids: Vec<ValueId> = Vec::new();
        for node in g.graph.nodes() {
            if matches!(node.op, Op::Input) {
                ids.push(r.import(given.next().expect("one value an input")));
                continue;
            }
            let is_number = matches!(node.op, Op::Prim(Prim::Param { .. }));
            let bits = if is_number { *numbers.next().expect("one number a param") } else { 0 };
            let operands: Vec<ValueId> = node.inputs.iter().map(|v| ids[v.index()]).collect();
            ids.extend(emit(r, node, &operands, bits));
        }
        g.outputs.iter().map(|v| r.export(ids[v.index()])).collect()
    });
    g.outputs.iter().zip(&outs).map(|(id, v)| read(&g.graph, *id, v)).collect()
}

/// A region a node: every value.
fn node_by_node(g: &RandomGraph) -> Result<Vec<Tensor>, String> {
    let given = inputs(g);
    let (mut given, mut numbers) = (given.into_iter(), g.graph.params().iter());
    let mut values: Vec<Value> = Vec::new();
    for node in g.graph.nodes() {
        if matches!(node.op, Op::Input) {
            values.push(given.next().expect("one value an input"));
            continue;
        }
        let is_number = matches!(node.op, Op::Prim(Prim::Param { .. }));
        let bits = if is_number { *numbers.next().expect("one number a param") } else { 0 };
        let outs: Vec<Value> = record(cpu(), Location::caller(), |r| {
            let operands: Vec<ValueId> = node.inputs.iter().map(|v| r.import(&values[v.index()])).collect();
            let mut outs = emit(r, node, &operands, bits);
            if is_number {
                // A number is no result; a reshape of it is one.
                outs =
                    r.builder().apply(Op::Prim(Prim::Reshape(Shape::scalar())), &outs).expect("rank 0 stays").to_vec();
            }
            outs.into_iter().map(|o| r.export(o)).collect()
        });
        outs.iter().try_for_each(Value::wait).map_err(|e| format!("{}: {e}", node.op.name()))?;
        values.extend(outs);
    }
    values.iter().enumerate().map(|(i, v)| read(&g.graph, ValueId(i as u32), v)).collect()
}

/// The same bits whole and node by node, and each node agrees with the oracle on the operands that it really had.
pub fn check(g: &RandomGraph) -> Result<(), String> {
    set_eager(Some(false));
    let deferred = whole(g).map_err(|e| format!("deferred: {e}"))?;
    let eager = node_by_node(g).map_err(|e| format!("node by node: {e}"))?;
    for node in g.graph.nodes().iter().filter(|n| !matches!(n.op, Op::Input | Op::Prim(Prim::Param { .. }))) {
        let operands: Vec<&Tensor> = node.inputs.iter().map(|v| &eager[v.index()]).collect();
        let got: Vec<Tensor> = node.outs().map(|v| eager[v.index()].clone()).collect();
        rtx_testkit::compare_node(&node.op, &operands, &got).map_err(|e| format!("oracle: {:?}: {e}", node.op))?;
    }
    for (v, t) in g.outputs.iter().zip(&deferred) {
        let name = g.graph.producer(*v).op.name();
        rtx_testkit::compare(t, &eager[v.index()], 0)
            .map_err(|e| format!("deferred differs at %{} ({name}): {e}", v.0))?;
    }
    Ok(())
}
