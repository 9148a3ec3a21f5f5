//! Sizes: one kernel text for many sizes, symbols through every pass, memory that inputs share.
mod executor;

use executor::{Case, counter, draw};
use rtx_compiler::Fusion;
use rtx_core::{DType, Dim, Fold, Shape, SymId};
use rtx_ir::oracle::Tensor;
use rtx_ir::{Builder, Prim, ValueId};
use rtx_plan::{OutputPlace, Plan};

const S: SymId = SymId(4);

fn sym(max: u64) -> Dim {
    Dim::Sym { id: S, max }
}

fn softmax(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let last = b.rank(x) - 1;
    let max = b.reduce_keep(Fold::Max, x, &[last]).expect("max");
    let shifted = b.sub(x, max).expect("sub");
    let e = b.exp(shifted).expect("exp");
    let sum = b.reduce_keep(Fold::Sum, e, &[last]).expect("sum");
    b.div(e, sum).expect("div")
}

/// Scores of queries and keys, masked, normalized, times values; then a bias gradient.
fn program(c: &mut Case, q: ValueId, k: ValueId, bias: ValueId) {
    let mut b = c.b();
    let kt = b.transpose_last(k).expect("transpose");
    let s = b.matmul(q, kt).expect("scores");
    let shape = b.shape(s);
    let i = b.prim(Prim::Iota { shape: shape.clone(), axis: 1 }, &[]).expect("row");
    let j = b.prim(Prim::Iota { shape, axis: 2 }, &[]).expect("column");
    let mask = b.le(j, i).expect("mask");
    let s = b.select(mask, s, -1e9).expect("masked");
    let p = softmax(&mut b, s);
    let o = b.matmul(p, k).expect("values");
    let o = b.add(o, bias).expect("bias");
    let o = b.tanh(o).expect("tanh");
    let g = b.reduce(Fold::Sum, o, &[0, 1]).expect("columns");
    c.want(o);
    c.want(g);
}

fn floats(shape: &[usize], seed: u64) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::floats(DType::F32, Shape::of(shape), (0..n as u64).map(|i| draw(i + seed)))
}

fn of_length(t: usize) -> Case {
    let mut c = Case::new();
    let (q, k, bias) = (c.floats([2, t, 3]), c.floats([2, t, 3]), c.floats([3]));
    program(&mut c, q, k, bias);
    c
}

fn texts(p: &Plan) -> Vec<&str> {
    p.kernels.iter().map(|k| k.text.as_str()).collect()
}

#[test]
fn a_new_length_is_no_new_kernel() {
    let first = of_length(5).check();
    for t in [3, 7, 8, 12] {
        let plan = of_length(t).compile(Fusion::Full);
        assert_eq!(texts(&plan), texts(&first), "length {t}");
    }
}

#[test]
fn symbols_go_through_every_pass_and_change_no_bits() {
    for t in [1, 4, 6, 9] {
        let mut c = Case::new();
        let shape = Shape::from_iter([Dim::Const(2), sym(9), Dim::Const(3)]);
        let (q, k) = (c.symbolic(floats(&[2, t, 3], 5), shape.clone()), c.symbolic(floats(&[2, t, 3], 77), shape));
        let bias = c.floats([3]);
        program(&mut c, q, k, bias);
        let plan = c.check();
        assert_eq!(plan.symbols, [(S, 9)]);
        let fixed = of_length(5).compile(Fusion::Full);
        assert_eq!(texts(&plan), texts(&fixed), "kernels do not know whether sizes are symbols");
    }
}

#[test]
fn a_prefix_of_a_cache_has_a_symbolic_length() {
    for t in [1, 3, 8] {
        let mut c = Case::new();
        let cache = c.state([2, 8, 3]);
        let length = c.symbolic(floats(&[t], 3), Shape::from_iter([sym(8)]));
        let new = c.floats([2, 1, 3]);
        let mut b = c.b();
        let at = b.param(DType::I64, 2.into()).expect("position");
        let next = b.prim(Prim::UpdateSlice { axis: 1, step: 1 }, &[cache, new, at]).expect("update");
        let zero = b.constant(DType::I64, 0).expect("start");
        let seen = b.slice_at(next, 1, zero, sym(8), 1).expect("prefix");
        let scaled = b.exp(seen).expect("exp");
        let sums = b.reduce(Fold::Sum, scaled, &[1]).expect("sum");
        let tail = b.slice_at(next, 1, at, sym(8), 1).expect("clamped");
        let tail = b.neg(tail).expect("neg");
        let weights = b.add(length, 1.0).expect("weights");
        [next, sums, tail, weights].into_iter().for_each(|v| c.want(v));
        let plan = c.check();
        assert_eq!(plan.outputs[0].place, OutputPlace::Donated(0));
        assert_eq!(counter(&plan, "copies_elided"), 1);
    }
}

#[test]
fn shared_memory_is_never_overwritten() {
    let build = |alias: Option<u32>| {
        let mut c = Case::new();
        let (x, y) = (c.state([4]), c.floats([4]));
        c.facts[1].alias = alias;
        let mut b = c.b();
        let z = b.exp(x).expect("exp");
        let w = b.add(z, y).expect("add");
        c.want(w);
        c.compile(Fusion::Full)
    };
    assert_eq!(build(None).outputs[0].place, OutputPlace::Donated(0));
    assert_eq!(build(Some(0)).outputs[0].place, OutputPlace::Slot(16));
}

#[test]
fn state_that_is_read_later_is_updated_later() {
    let mut c = Case::new();
    let (w, x) = (c.state([3, 3]), c.floats([2, 3]));
    let mut b = c.b();
    let next = b.mul(w, 0.5).expect("update");
    let y = b.matmul(x, w).expect("reads the old one");
    let z = b.matmul(y, w).expect("and again");
    c.want(next);
    c.want(z);
    let plan = c.check();
    assert_eq!(plan.outputs[0].place, OutputPlace::Donated(0), "{plan}");
}

#[test]
fn state_returned_as_it_is_stays() {
    let mut c = Case::new();
    let w = c.state([3]);
    let mut b = c.b();
    let next = b.mul(w, 0.5).expect("update");
    c.want(w);
    c.want(next);
    let plan = c.check();
    assert_eq!(plan.outputs[0].place, OutputPlace::Input(0));
    assert_eq!(plan.outputs[1].place, OutputPlace::Slot(12));
}
