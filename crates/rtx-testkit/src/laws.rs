//! Laws over a table of definitions: each returns what breaks it, one line a fault.
use crate::{Drawn, Random, check_derivative, check_second_derivative, draw, record, record_with, transforms};
use rtx_core::{Dim, Kind, Location, Result, SymId};
use rtx_ir::oracle::{self, Tensor};
use rtx_ir::{
    Arg, Body, Bound, Builder, Grad, Graph, Node, Op, OpDef, Outs, Sample, Signature, Type, ValueId, text, verify,
};
use std::collections::HashSet;

/// A table of definitions.
pub type Table<'a> = &'a [&'static OpDef];

/// Every law.
pub fn faults(table: Table<'_>) -> Vec<String> {
    let laws: [fn(Table<'_>) -> Vec<String>; 13] = [
        hygiene_faults,
        schema_faults,
        refusal_faults,
        inference_faults,
        symbol_faults,
        text_faults,
        saves_faults,
        gradient_faults,
        second_order_faults,
        transforms::batch_faults,
        transforms::tangent_faults,
        transforms::jacobian_faults,
        transforms::hessian_faults,
    ];
    laws.iter().flat_map(|law| law(table)).collect()
}

/// Signatures parse and are unique; each op says what it does in a sentence and has samples; `runtime` names
/// parameters.
pub fn hygiene_faults(table: Table<'_>) -> Vec<String> {
    let mut heads = HashSet::new();
    let mut out = Vec::new();
    for def in table {
        let mut fault = |what: &str| out.push(format!("{}: {what}", def.sig));
        let Some(sig) = Signature::parse(def.sig) else {
            fault("the signature does not parse");
            continue;
        };
        if !heads.insert(text::call_name(def)) {
            fault("another op has this name and overload");
        }
        if !def.doc.ends_with(['.', ')', '?']) {
            fault("the doc is no sentence");
        }
        if def.samples.is_empty() {
            fault("has no samples");
        }
        if let Some(name) = def.runtime.iter().find(|n| sig.parameters.iter().all(|p| p.name != **n)) {
            fault(&format!("runtime names {name}, which is no parameter"));
        }
    }
    out
}

/// PyTorch's published schemas, one a line, alias annotations left out. In-place and `out` forms are not in it.
const PUBLISHED: &str = include_str!("../data/aten_schemas.txt");

/// An op that PyTorch has means what it means there: it takes PyTorch's parameters by their names, in their order, with
/// their types and defaults, and returns as much. It may leave out those with a default, give a default to others, and
/// add some after them.
pub fn schema_faults(table: Table<'_>) -> Vec<String> {
    let published: Vec<Signature> = PUBLISHED.lines().filter_map(Signature::parse).collect();
    let fault = |def: &&OpDef| {
        let ours = Signature::parse(def.sig)?;
        let mut same_name = published.iter().filter(|p| p.name == ours.name).peekable();
        same_name.peek()?;
        let Some(theirs) = same_name.clone().find(|p| p.overload == ours.overload) else {
            let known: Vec<&str> = same_name.map(|p| p.overload).collect();
            return Some(format!("{}: PyTorch has the overloads {known:?}", def.sig));
        };
        schema_fault(&ours, theirs).map(|what| format!("{}: {what}", def.sig))
    };
    table.iter().filter_map(fault).collect()
}

fn schema_fault(ours: &Signature, theirs: &Signature) -> Option<String> {
    if ours.returns.len() != theirs.returns.len() {
        return Some(format!("returns {} values, PyTorch {}", ours.returns.len(), theirs.returns.len()));
    }
    let mut next = 0;
    for t in &theirs.parameters {
        let Some(at) = ours.parameters.iter().position(|o| o.name == t.name) else {
            if t.is_optional() {
                continue;
            }
            return Some(format!("{} is missing", t.name));
        };
        let o = &ours.parameters[at];
        if at < next {
            return Some(format!("{} stands before what PyTorch has before it", t.name));
        }
        next = at;
        if plain_type(o.ty) != plain_type(t.ty) || (t.is_optional() && !o.is_optional()) {
            return Some(format!("{} is {}, in PyTorch {}", t.name, o.ty, t.ty));
        }
        if t.default.is_some() && !same_default(o.default, t.default) {
            return Some(format!("{} is {:?} when left out, in PyTorch {:?}", t.name, o.default, t.default));
        }
    }
    let extra = ours.parameters.iter().find(|o| !o.is_optional() && theirs.parameters.iter().all(|t| t.name != o.name));
    extra.map(|o| format!("{} is no parameter of PyTorch's", o.name))
}

/// A type without what says only that it may be left out, or how long a list is, or what is aliased.
fn plain_type(ty: &str) -> String {
    let mut depth = 0;
    let keep = |c: &char| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0 && !matches!(c, ')' | '?' | '0'..='9')
    };
    ty.chars().filter(keep).collect()
}

fn same_default(a: Option<&str>, b: Option<&str>) -> bool {
    let number = |t: Option<&str>| t.and_then(|t| t.parse::<f64>().ok());
    a == b || (number(a).is_some() && number(a) == number(b))
}

/// Calls that are refused give exactly their message.
pub fn refusal_faults(table: Table<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for def in table {
        for r in def.refuses {
            let mut graph = Graph::new();
            let got = draw(def.sig, r.args, &mut Random::new(1)).map(|drawn| {
                let (bound, _) = record(&mut graph, &drawn);
                match call(&mut graph, def, &bound) {
                    Ok(_) => "no refusal".to_string(),
                    Err(e) => e.to_string(),
                }
            });
            let got = got.unwrap_or_else(|e| e);
            if got != r.message {
                out.push(format!("{}({}): says {got:?}, should say {:?}", def.name(), r.args, r.message));
            }
        }
    }
    out
}

/// Every sample's graph verifies, and what the oracle (a composite's body) computes has the types that inference says.
pub fn inference_faults(table: Table<'_>) -> Vec<String> {
    each_sample(table, |def, sample, drawn| {
        let (graph, inputs, _) = record_sample(def, &drawn)?;
        verify(&graph).map_err(|e| e.to_string())?;
        let values = oracle::eval(&graph, &inputs).map_err(|e| e.to_string())?;
        let wrong = (0..values.len()).find(|&i| values[i].ty != *graph.ty(ValueId(i as u32)));
        if let Some(i) = wrong {
            let said = graph.ty(ValueId(i as u32));
            return Err(format!("%{i}: inference says {said}, the body gives {}", values[i].ty));
        }
        if sample.grad && !inputs.iter().any(|t| t.ty.dtype.is_float()) {
            return Err("asks for a gradient and has no float tensor".into());
        }
        Ok(())
    })
}

/// With a symbol for the first size of every tensor (one symbol a size) a call is refused as [`Kind::Unsupported`] or
/// [`Kind::Shape`], or its graph computes the sizes that inference says (contract S1).
pub fn symbol_faults(table: Table<'_>) -> Vec<String> {
    each_sample(table, |def, _, drawn| {
        let mut graph = Graph::new();
        let (bound, _) = record_with(&mut graph, &drawn, |ty| Type {
            dtype: ty.dtype,
            shape: ty.shape.iter().enumerate().map(|(i, d)| if i == 0 { symbol_of(d) } else { d }).collect(),
        });
        match call(&mut graph, def, &bound) {
            Ok(_) => {}
            Err(e) if matches!(e.kind(), Kind::Unsupported | Kind::Shape) => return Ok(()),
            Err(e) => return Err(format!("with symbols: {e}")),
        }
        verify(&graph).map_err(|e| e.to_string())?;
        let values = oracle::eval(&graph, &tensors(&drawn)).map_err(|e| format!("with symbols: {e}"))?;
        for (i, value) in values.iter().enumerate() {
            let said = graph.ty(ValueId(i as u32));
            let sizes = said.shape.iter().map(|d| match d {
                Dim::Sym { id, .. } => id.index(),
                known => known.bound(),
            });
            if !sizes.eq(value.ty.shape.sizes()) {
                return Err(format!("with symbols: %{i}: inference says {said}, the body gives {}", value.ty));
            }
        }
        let composites: Vec<Node> = graph.nodes().iter().filter(|n| n.op.prim().is_none()).cloned().collect();
        composites.iter().try_for_each(|node| check_body(&mut graph, node))
    })
}

/// The body, recorded on the node's own operands, has the node's types.
fn check_body(graph: &mut Graph, node: &Node) -> Result<(), String> {
    let Some(Body::Composite(body)) = node.op.def().map(|d| &d.body) else { return Ok(()) };
    let outs = match body(&mut Builder::new(graph, Location::caller()), node.op.attrs(), &node.inputs) {
        Ok(outs) => outs,
        Err(e) if e.kind() == Kind::Unsupported => return Ok(()),
        Err(e) => return Err(format!("the body with symbols: {e}")),
    };
    match node.outs().zip(&outs).find(|(said, made)| graph.ty(*said) != graph.ty(**made)) {
        Some((said, made)) => Err(format!("inference says {}, the body makes {}", graph.ty(said), graph.ty(*made))),
        None => Ok(()),
    }
}

/// The symbol that stands for a size above 1: its id is the size, its largest value three more.
fn symbol_of(d: Dim) -> Dim {
    match d {
        Dim::Const(n) if n > 1 => Dim::Sym { id: SymId(n as u32), max: n + 3 },
        other => other,
    }
}

/// Every sample's graph prints, and parses back to what prints the same.
pub fn text_faults(table: Table<'_>) -> Vec<String> {
    each_sample(table, |def, _, drawn| {
        let (graph, _, _) = record_sample(def, &drawn)?;
        let printed = text::print(&graph);
        let lookup = |name: &str| table.iter().copied().find(|d| text::call_name(d) == name);
        let parsed = text::parse(&printed, &lookup).map_err(|e| format!("{e}\n{printed}"))?;
        let again = text::print(&parsed);
        if again == printed { Ok(()) } else { Err(format!("printed\n{printed}parsed\n{again}")) }
    })
}

/// A gradient rule (or a body) reads only what `saves` names: with ghosts for the rest its graph verifies, and its cotangents
/// have the types of the operands.
pub fn saves_faults(table: Table<'_>) -> Vec<String> {
    each_sample(table, |def, _, drawn| {
        let (graph, _, _) = record_sample(def, &drawn)?;
        let depends = depends_on_inputs(&graph);
        graph.nodes().iter().try_for_each(|node| check_saves(&graph, node, &depends))
    })
}

/// For each value: does it depend on a tensor? Numbers never want a cotangent.
fn depends_on_inputs(graph: &Graph) -> Vec<bool> {
    let mut out = vec![false; graph.value_count()];
    for node in graph.nodes() {
        let depends = matches!(node.op, Op::Input) || node.inputs.iter().any(|v| out[v.index()]);
        node.outs().for_each(|v| out[v.index()] = depends);
    }
    out
}

fn check_saves(from: &Graph, node: &Node, depends: &[bool]) -> Result<(), String> {
    let Some(def) = node.op.def().filter(|d| !matches!(d.grad, Grad::None)) else { return Ok(()) };
    let here = Location::caller();
    let mut graph = Graph::new();
    let mut place = |v: ValueId, saved: bool| {
        let ty = from.ty(v).clone();
        if saved { graph.push_input(ty, here) } else { graph.push_ghost(ty, here) }
    };
    let inputs: Vec<ValueId> = node.inputs.iter().enumerate().map(|(i, &v)| place(v, def.saves.input(i))).collect();
    let outputs: Vec<ValueId> = node.outs().enumerate().map(|(i, v)| place(v, def.saves.output(i))).collect();
    let float = |v: ValueId| from.ty(v).dtype.is_float();
    let cotangents: Vec<Option<ValueId>> = node.outs().map(|v| float(v).then(|| place(v, true))).collect();
    let wants: Vec<bool> = node.inputs.iter().map(|v| depends[v.index()]).collect();
    // All cotangents, then each one alone: a rule must not read one that is not there.
    let mut given = vec![cotangents.clone()];
    if cotangents.len() > 1 {
        given.extend(
            (0..cotangents.len())
                .map(|i| cotangents.iter().enumerate().map(|(j, c)| c.filter(|_| i == j)).collect::<Vec<_>>()),
        );
    }
    for cotangents in given {
        let mut b = Builder::new(&mut graph, here);
        let grads = match rtx_autograd::node_gradient(&mut b, &node.op, &inputs, &outputs, &cotangents, &wants) {
            Ok(grads) => grads,
            // A derivative that is not there is refused in so many words.
            Err(e) if e.kind() == Kind::Unsupported => return Ok(()),
            Err(e) => return Err(e.to_string()),
        };
        verify(&graph).map_err(|e| format!("reads more than it saves: {e}"))?;
        for (&v, g) in inputs.iter().zip(&grads) {
            if let Some(g) = g.filter(|g| graph.ty(*g) != graph.ty(v)) {
                return Err(format!("the cotangent of {} is {}", graph.ty(v), graph.ty(g)));
            }
        }
    }
    Ok(())
}

/// Gradients are central differences, in f64.
pub fn gradient_faults(table: Table<'_>) -> Vec<String> {
    each_sample(table, |def, sample, drawn| {
        if !sample.grad {
            return Ok(());
        }
        let drawn: Vec<Drawn> = drawn.into_iter().map(Drawn::in_f64).collect();
        check_derivative(&|b, v| replay(b, def, &drawn, v), &tensors(&drawn), &mut Random::new(3))
    })
}

/// Gradients of gradients are central differences too. Samples with given elements sit on kinks, where there are none.
pub fn second_order_faults(table: Table<'_>) -> Vec<String> {
    each_sample(table, |def, sample, drawn| {
        if !sample.grad || sample.args.contains('=') {
            return Ok(());
        }
        let drawn: Vec<Drawn> = drawn.into_iter().map(Drawn::in_f64).collect();
        check_second_derivative(&|b, v| replay(b, def, &drawn, v), &tensors(&drawn), &mut Random::new(4))
    })
}

pub(crate) fn each_sample(
    table: Table<'_>,
    law: impl Fn(&'static OpDef, &Sample, Vec<Drawn>) -> Result<(), String>,
) -> Vec<String> {
    let mut out = Vec::new();
    for def in table {
        for sample in def.samples {
            let result = draw(def.sig, sample.args, &mut Random::new(2)).and_then(|drawn| law(def, sample, drawn));
            if let Err(what) = result {
                out.push(format!("{}({}): {what}", text::call_name(def), sample.args));
            }
        }
    }
    out
}

pub(crate) fn tensors(drawn: &[Drawn]) -> Vec<Tensor> {
    drawn.iter().flat_map(|d| d.tensors().iter().cloned()).collect()
}
fn call(graph: &mut Graph, def: &'static OpDef, bound: &Bound) -> Result<Outs> {
    Builder::new(graph, Location::caller()).call(def, bound.clone())
}
/// A sample's call in a graph of its own: the graph, the values of its inputs, its results.
fn record_sample(def: &'static OpDef, drawn: &[Drawn]) -> Result<(Graph, Vec<Tensor>, Outs), String> {
    let mut graph = Graph::new();
    let (bound, _) = record(&mut graph, drawn);
    let outs = call(&mut graph, def, &bound).map_err(|e| e.to_string())?;
    Ok((graph, tensors(drawn), outs))
}
/// The same call on other values.
pub(crate) fn replay(
    b: &mut Builder<'_>,
    def: &'static OpDef,
    drawn: &[Drawn],
    values: &[ValueId],
) -> Result<Vec<ValueId>> {
    let mut next = values.iter().copied();
    let args = drawn.iter().map(|d| match d {
        Drawn::Plain(a) => a.clone(),
        Drawn::Tensor(_) => next.next().map_or(Arg::None, Arg::Value),
        Drawn::Tensors(ts) => Arg::Values(next.by_ref().take(ts.len()).collect()),
    });
    let bound = Bound(args.collect());
    Ok(b.call(def, bound)?.to_vec())
}

/// Which primitives a graph applies, for counting coverage.
pub fn applied(graph: &Graph) -> impl Iterator<Item = &'static str> + '_ {
    graph.nodes().iter().filter(|n| matches!(n.op, Op::Prim(_))).map(|n| n.op.name())
}
