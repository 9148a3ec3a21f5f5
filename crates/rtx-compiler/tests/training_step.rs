//! The plan of a training step of a small GPT: what is one kernel, what is updated in place, how long compiling takes.
mod executor;

use executor::{Case, TestDot, counter};
use rtx_compiler::Fusion;
use rtx_core::{DType, Scalar, Shape};
use rtx_hal::Target;
use rtx_ir::oracle::Tensor;
use rtx_ir::{Arg, Builder, Graph, NodeId, Prim, ValueId};
use rtx_plan::{Claim, Claimed, Grouped, OutputPlace, Plan};
use std::sync::Arc;

/// Claims named ops as whole dense tensors; never run.
struct Whole(&'static [&'static str]);
impl Claim for Whole {
    fn name(&self) -> &'static str {
        "whole"
    }
    fn claim(&self, graph: &Graph, node: NodeId, _: &Target) -> Option<Claimed> {
        let n = graph.node(node);
        let name = n.op.name();
        let scatters = matches!(n.op.prim(), Some(Prim::Scatter { .. }));
        if !scatters && !self.0.contains(&name) {
            return None;
        }
        // Attention walks batch, head, row and column on their own.
        let apart = name.starts_with("attention");
        let whole = |v: ValueId| {
            let axes = 0..graph.ty(v).rank();
            let groups = if apart { axes.map(|a| [a].into_iter().collect()).collect() } else { vec![axes.collect()] };
            Grouped { value: v, groups }
        };
        Some(Claimed {
            text: name.into(),
            dims: vec![],
            operands: n.inputs.iter().map(|&v| whole(v)).collect(),
            outputs: n.outs().map(whole).collect(),
            epilogue: false,
            in_place: if scatters { vec![(0, 0)] } else { vec![] },
        })
    }
}

fn op(b: &mut Builder<'_>, name: &str, args: &[Arg]) -> ValueId {
    rtx_ops::call(b, name, args, &[]).unwrap_or_else(|e| panic!("{e}"))[0]
}
fn v(x: ValueId) -> Arg {
    Arg::Value(x)
}
fn ints(x: &[i64]) -> Arg {
    Arg::Dims(x.iter().map(|&n| (n as usize).into()).collect())
}

struct Model {
    case: Case,
    params: Vec<ValueId>,
}
impl Model {
    fn param(&mut self, shape: &[usize]) -> ValueId {
        let n: usize = shape.iter().product();
        let k = self.case.inputs.len() as u64;
        let t = Tensor::floats(DType::F32, Shape::of(shape), (0..n as u64).map(|i| 0.1 * executor::draw(i + 31 * k)));
        let x = self.case.input(t);
        self.case.facts.last_mut().expect("added").donated = true;
        self.params.push(x);
        x
    }
}

const B: usize = 4;
const T: usize = 8;
const C: usize = 16;
const H: usize = 2;
const V: usize = 12;

fn block(m: &mut Model, x: ValueId) -> ValueId {
    let c = C as i64;
    let (g1, b1, g2, b2) = (m.param(&[C]), m.param(&[C]), m.param(&[C]), m.param(&[C]));
    let (wqkv, bqkv) = (m.param(&[3 * C, C]), m.param(&[3 * C]));
    let (wo, bo) = (m.param(&[C, C]), m.param(&[C]));
    let (up, bup, down, bdown) = (m.param(&[4 * C, C]), m.param(&[4 * C]), m.param(&[C, 4 * C]), m.param(&[C]));
    let b = &mut m.case.b();
    let h = op(b, "layer_norm", &[v(x), ints(&[c]), v(g1), v(b1)]);
    let qkv = op(b, "linear", &[v(h), v(wqkv), v(bqkv)]);
    let qkv = b.reshape(qkv, &Shape::from([B, T, 3, H, C / H])).expect("reshape");
    let qkv = b.permute(qkv, &[2, 0, 3, 1, 4]).expect("permute");
    let part = |b: &mut Builder<'_>, i: i64| {
        let s = b.slice(qkv, 0, i, 1).expect("slice");
        b.reshape(s, &Shape::from([B, H, T, C / H])).expect("reshape")
    };
    let (q, k, val) = (part(b, 0), part(b, 1), part(b, 2));
    let a = op(
        b,
        "scaled_dot_product_attention",
        &[v(q), v(k), v(val), Arg::None, Arg::Scalar(Scalar::Float(0.0)), Arg::Bool(true)],
    );
    let a = b.permute(a, &[0, 2, 1, 3]).expect("permute");
    let a = b.reshape(a, &Shape::from([B, T, C])).expect("reshape");
    let a = op(b, "linear", &[v(a), v(wo), v(bo)]);
    let x = b.add(x, a).expect("residual");
    let h = op(b, "layer_norm", &[v(x), ints(&[c]), v(g2), v(b2)]);
    let h = op(b, "linear", &[v(h), v(up), v(bup)]);
    let h = rtx_ops::call(b, "gelu", &[v(h)], &[("approximate", Arg::Str("tanh"))]).expect("gelu")[0];
    let h = op(b, "linear", &[v(h), v(down), v(bdown)]);
    b.add(x, h).expect("residual")
}

/// Forward, backward, AdamW.
fn training_step(layers: usize, clip: Option<f64>) -> (Case, usize) {
    let mut m = Model { case: Case::new(), params: vec![] };
    let tokens = m.case.input(Tensor::ints(DType::I64, [B, T], (0..B * T).map(|i| (i * 7 % V) as i64)));
    let targets = m.case.input(Tensor::ints(DType::I64, [B, T], (0..B * T).map(|i| (i * 5 % V) as i64)));
    let (tok, pos) = (m.param(&[V, C]), m.param(&[T, C]));
    let b = &mut m.case.b();
    let e = op(b, "embedding", &[v(tok), v(tokens)]);
    let mut x = b.add(e, pos).expect("add");
    for _ in 0..layers {
        x = block(&mut m, x);
    }
    let (g, beta) = (m.param(&[C]), m.param(&[C]));
    let b = &mut m.case.b();
    let x = op(b, "layer_norm", &[v(x), ints(&[C as i64]), v(g), v(beta)]);
    let logits = op(b, "linear", &[v(x), v(tok)]);
    let logits = b.reshape(logits, &Shape::from([B * T, V])).expect("reshape");
    let flat = b.reshape(targets, &Shape::from([B * T])).expect("reshape");
    let loss = op(b, "cross_entropy", &[v(logits), v(flat)]);
    let one = b.constant(DType::F32, 1.0).expect("one");
    let params = m.params.clone();
    let b = &mut m.case.b();
    let grads = rtx_autograd::gradient(b, &[loss], &[one], &params).expect("gradients");
    let mut grads: Vec<ValueId> = grads.into_iter().map(|g| g.expect("every parameter has one")).collect();
    if let Some(most) = clip {
        let squares: Vec<ValueId> = grads
            .iter()
            .map(|&g| {
                let s = b.mul(g, g).expect("square");
                let axes: Vec<usize> = (0..b.rank(s)).collect();
                b.reduce(rtx_core::Fold::Sum, s, &axes).expect("sum")
            })
            .collect();
        let total = squares[1..].iter().fold(squares[0], |a, &s| b.add(a, s).expect("add"));
        let norm = b.sqrt(total).expect("norm");
        let limit = b.constant(DType::F32, most).expect("limit");
        let below = b.add(norm, 1e-6).expect("eps");
        let scale = b.div(limit, below).expect("div");
        let scale = b.min(scale, 1.0).expect("min");
        grads.iter_mut().for_each(|g| *g = b.mul(*g, scale).expect("clip"));
    }
    m.case.want(loss);
    let mut states = vec![];
    for &p in &params {
        let shape = m.case.graph.ty(p).shape.clone();
        let mut state = || {
            let zeros = Tensor::floats(DType::F32, shape.clone(), std::iter::repeat_n(0.5, shape.numel()));
            let x = m.case.input(zeros);
            m.case.facts.last_mut().expect("added").donated = true;
            x
        };
        states.push([state(), state()]);
    }
    let step = m.case.input(Tensor::ints(DType::I64, [], [3]));
    let number = |x: f64| Arg::Scalar(Scalar::Float(x));
    for ((&p, g), [m1, m2]) in params.iter().zip(grads).zip(states) {
        let b = &mut m.case.b();
        let args = [
            v(p),
            v(g),
            v(m1),
            v(m2),
            Arg::None,
            v(step),
            number(1e-3),
            number(0.9),
            number(0.95),
            number(1e-8),
            number(0.1),
        ];
        let outs = rtx_ops::call(b, "adam_step", &args, &[]).unwrap_or_else(|e| panic!("{e}"));
        outs.iter().for_each(|&o| m.case.want(o));
    }
    (m.case, params.len())
}

const COMPOSITES: &[&str] = &["attention", "attention_backward", "cross_entropy", "cross_entropy_backward"];

fn plan_of(case: &Case, composites: &'static [&'static str]) -> Plan {
    case.compile_with(Fusion::Full, vec![Arc::new(TestDot { epilogue: true }), Arc::new(Whole(composites))])
}

fn report(plan: &Plan) {
    if std::env::var("PRINT").is_ok() {
        for s in &plan.steps {
            let k = &plan.kernels[s.kernel as usize];
            println!("{:3} x{} {:?} {}", s.kernel, s.instances.len(), k.lang, k.name);
            if std::env::var("PRINT").as_deref() == Ok("source") {
                println!("{}", k.text);
            }
        }
        println!("{:?}", plan.counters);
    }
}

#[test]
fn a_training_step_is_few_kernels_and_keeps_state_in_place() {
    let (case, params) = training_step(2, None);
    let plan = plan_of(&case, COMPOSITES);
    report(&plan);
    let donated = plan.outputs.iter().filter(|o| matches!(o.place, OutputPlace::Donated(_))).count();
    assert_eq!(donated, 3 * params, "parameters and moments stay where they are");
    let adam: Vec<_> = plan.steps.iter().filter(|s| s.instances.len() >= params - 2).collect();
    assert!(!adam.is_empty(), "the optimizer is one step");
    // 27 products, 4 attentions, 2 losses, 1 scatter, and 20 steps of fused kernels.
    assert_eq!((plan.steps.len(), counter(&plan, "kernels")), (54, 24), "{plan}");
    assert_eq!(counter(&plan, "epilogues"), 6);
}

#[test]
fn layer_norm_backward_is_one_kernel_and_column_sums() {
    let mut c = Case::new();
    let (x, w, dy) = (c.floats([4, 8, 16]), c.floats([16]), c.floats([4, 8, 16]));
    let b = &mut c.b();
    let outs = rtx_ops::call(
        b,
        "layer_norm_backward",
        &[v(dy), v(x), v(w), Arg::Scalar(Scalar::Int(1)), Arg::Scalar(Scalar::Float(1e-5))],
        &[],
    );
    outs.expect("layer_norm_backward").iter().for_each(|&o| c.want(o));
    let plan = c.check();
    report(&plan);
    assert_eq!(plan.steps.len(), 2, "rows, and both column sums: {plan}");
}

#[test]
fn clipping_does_not_take_the_optimizer_apart() {
    let (case, params) = training_step(2, Some(1.0));
    let plan = plan_of(&case, COMPOSITES);
    report(&plan);
    let donated = plan.outputs.iter().filter(|o| matches!(o.place, OutputPlace::Donated(_))).count();
    assert_eq!(donated, 3 * params);
}

#[test]
fn compiling_is_quick() {
    let (case, _) = training_step(12, Some(1.0));
    let start = std::time::Instant::now();
    let plan = plan_of(&case, COMPOSITES);
    let expanded = start.elapsed();
    println!("12 layers: {:?}, {} steps, {} nodes", expanded, plan.steps.len(), counter(&plan, "nodes"));
    assert!(expanded.as_secs_f64() < 5.0, "{expanded:?}");
}
