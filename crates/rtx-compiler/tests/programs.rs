//! Small programs through the whole compiler: fused, unfused and the oracle agree, and each optimization fires.
mod executor;

use executor::{Case, counter};
use rtx_compiler::Fusion;
use rtx_core::{DType, Fold, Layout, Shape};
use rtx_ir::oracle::Tensor;
use rtx_ir::{Builder, Prim, ValueId};
use rtx_plan::{OutputPlace, Plan};
use smallvec::SmallVec;

fn steps(plan: &Plan) -> usize {
    plan.steps.len()
}

fn softmax(b: &mut Builder<'_>, x: ValueId) -> ValueId {
    let last = b.rank(x) - 1;
    let max = b.reduce_keep(Fold::Max, x, &[last]).expect("max");
    let shifted = b.sub(x, max).expect("sub");
    let e = b.exp(shifted).expect("exp");
    let sum = b.reduce_keep(Fold::Sum, e, &[last]).expect("sum");
    b.div(e, sum).expect("div")
}

#[test]
fn a_pointwise_chain_with_broadcasts_is_one_kernel() {
    let mut c = Case::new();
    let (x, row, col) = (c.floats([3, 5]), c.floats([5]), c.floats([3, 1]));
    let mut b = c.b();
    let y = b.mul(x, row).expect("mul");
    let z = b.add(y, col).expect("add");
    let w = b.tanh(z).expect("tanh");
    c.want(w);
    let plan = c.check();
    assert_eq!(steps(&plan), 1, "{plan:?}");
    assert_eq!(plan.arena_bytes, 0);
}

#[test]
fn softmax_is_one_kernel() {
    let mut c = Case::new();
    let x = c.floats([2, 3, 7]);
    let y = softmax(&mut c.b(), x);
    c.want(y);
    let plan = c.check();
    assert_eq!(steps(&plan), 1, "{plan:?}");
}

#[test]
fn layer_norm_is_one_kernel_and_keeps_its_statistics() {
    let mut c = Case::new();
    let (x, g, beta) = (c.floats([4, 6]), c.floats([6]), c.floats([6]));
    let mut b = c.b();
    let sum = b.reduce_keep(Fold::Sum, x, &[1]).expect("sum");
    let mean = b.div(sum, 6.0).expect("mean");
    let d = b.sub(x, mean).expect("sub");
    let sq = b.mul(d, d).expect("sq");
    let sum2 = b.reduce_keep(Fold::Sum, sq, &[1]).expect("sum2");
    let var = b.div(sum2, 6.0).expect("var");
    let eps = b.add(var, 1e-5).expect("eps");
    let std = b.sqrt(eps).expect("sqrt");
    let xhat = b.div(d, std).expect("xhat");
    let y = b.mul(xhat, g).expect("scale");
    let y = b.add(y, beta).expect("shift");
    c.want(y);
    c.want(mean);
    c.want(std);
    let plan = c.check();
    assert_eq!(steps(&plan), 1, "{plan:?}");
    assert_eq!(plan.outputs.len(), 3);
}

#[test]
fn a_column_sum_takes_its_prologue() {
    let mut c = Case::new();
    let (x, y) = (c.floats([4, 3, 5]), c.floats([4, 3, 5]));
    let mut b = c.b();
    let p = b.mul(x, y).expect("mul");
    let s = b.reduce(Fold::Sum, p, &[0, 1]).expect("sum");
    c.want(s);
    let plan = c.check();
    assert_eq!(steps(&plan), 1, "{plan:?}");
}

#[test]
fn reductions_over_scattered_axes_copy_first() {
    let mut c = Case::new();
    let x = c.floats([3, 4, 5]);
    let mut b = c.b();
    let e = b.exp(x).expect("exp");
    let s = b.reduce(Fold::Sum, e, &[0, 2]).expect("sum");
    let m = b.reduce(Fold::Max, x, &[0, 1, 2]).expect("max");
    c.want(s);
    c.want(m);
    let plan = c.check();
    assert!(counter(&plan, "copies") > 0 || steps(&plan) > 1);
}

#[test]
fn a_dot_absorbs_bias_and_activation() {
    let mut c = Case::new();
    let (x, w, bias) = (c.floats([2, 3, 4]), c.floats([4, 5]), c.floats([5]));
    let mut b = c.b();
    let y =
        b.prim(Prim::Dot { batch: SmallVec::new(), contract: SmallVec::from_slice(&[(2, 0)]) }, &[x, w]).expect("dot");
    let y = b.add(y, bias).expect("bias");
    let y = b.tanh(y).expect("tanh");
    c.want(y);
    let plan = c.check();
    assert_eq!((steps(&plan), counter(&plan, "epilogues")), (1, 1), "{plan:?}");
    assert_eq!(plan.arena_bytes, 0, "the product lives in the result's memory");
}

#[test]
fn the_raw_product_is_there_for_others() {
    let mut c = Case::new();
    let (x, w) = (c.floats([3, 4]), c.floats([4, 5]));
    let mut b = c.b();
    let y = b.matmul(x, w).expect("dot");
    let t = b.tanh(y).expect("tanh");
    let s = b.reduce(Fold::Sum, y, &[1]).expect("sum");
    c.want(t);
    c.want(s);
    c.want(y);
    let plan = c.check();
    assert_eq!(counter(&plan, "epilogues"), 1);
}

#[test]
fn dots_read_views_without_copies() {
    let mut c = Case::new();
    let x = c.floats([2, 5, 3, 4]);
    let mut b = c.b();
    // heads to the front, as attention does
    let q = b.permute(x, &[0, 2, 1, 3]).expect("permute");
    let k = b.permute(x, &[0, 2, 3, 1]).expect("permute");
    let s = b.matmul(q, k).expect("scores");
    c.want(s);
    let plan = c.compile(Fusion::Full);
    // batch [0, 2] has no one stride: one copy each
    assert!(steps(&plan) <= 3);
    c.check();
    let mut c = Case::new();
    let (x, w) = (c.floats([6, 4]), c.floats([5, 4]));
    let mut b = c.b();
    let wt = b.transpose_last(w).expect("transpose");
    let y = b.matmul(x, wt).expect("dot");
    c.want(y);
    assert_eq!(steps(&c.check()), 1);
}

#[test]
fn adamw_is_one_step_in_place() {
    let mut c = Case::new();
    let shapes: [&[usize]; 3] = [&[4, 3], &[3], &[2, 2, 2]];
    let mut states = vec![];
    for s in shapes {
        let state = |c: &mut Case, donated: bool| {
            let n: usize = s.iter().product();
            let k = c.inputs.len() as u64;
            let t = Tensor::floats(DType::F32, Shape::of(s), (0..n as u64).map(|i| executor::draw(i + 99 * k).abs()));
            let v = c.input(t);
            c.facts.last_mut().expect("added").donated = donated;
            v
        };
        states.push([state(&mut c, true), state(&mut c, true), state(&mut c, true), state(&mut c, false)]);
    }
    let mut outs = vec![];
    let mut b = c.b();
    let lr = b.param(DType::F32, 0.01.into()).expect("lr");
    for [p, m, v, g] in states {
        let m1 = b.mul(m, 0.9).expect("m");
        let gm = b.mul(g, 0.1).expect("g");
        let m1 = b.add(m1, gm).expect("m");
        let v1 = b.mul(v, 0.99).expect("v");
        let gg = b.mul(g, g).expect("gg");
        let gg = b.mul(gg, 0.01).expect("gg");
        let v1 = b.add(v1, gg).expect("v");
        let root = b.sqrt(v1).expect("sqrt");
        let d = b.add(root, 1e-8).expect("eps");
        let step = b.div(m1, d).expect("step");
        let step = b.mul(step, lr).expect("lr");
        let p1 = b.sub(p, step).expect("p");
        outs.extend([m1, v1, p1]);
    }
    outs.iter().for_each(|&v| c.want(v));
    let plan = c.check();
    assert_eq!((steps(&plan), plan.steps[0].instances.len()), (1, 3), "{plan:?}");
    assert_eq!((counter(&plan, "donated"), counter(&plan, "in_place")), (9, 9), "{plan:?}");
    let places: Vec<OutputPlace> = plan.outputs.iter().map(|o| o.place).collect();
    assert_eq!(places[..3], [OutputPlace::Donated(1), OutputPlace::Donated(2), OutputPlace::Donated(0)]);
    assert_eq!(plan.arena_bytes, 0);
}

#[test]
fn a_cache_is_updated_in_place_at_a_run_time_position() {
    let mut c = Case::new();
    let (cache, new) = (c.state([2, 8, 3]), c.floats([2, 2, 3]));
    let mut b = c.b();
    let at = b.param(DType::I64, 5.into()).expect("position");
    let doubled = b.mul(new, 2.0).expect("mul");
    let next = b.prim(Prim::UpdateSlice { axis: 1, step: 1 }, &[cache, doubled, at]).expect("update");
    let window = b.slice_at(next, 1, at, 2, 1).expect("slice");
    let y = b.exp(window).expect("exp");
    c.want(next);
    c.want(y);
    let plan = c.check();
    assert_eq!(plan.outputs[0].place, OutputPlace::Donated(0));
    assert_eq!((steps(&plan), counter(&plan, "copies_elided")), (2, 1), "{plan:?}");
}

#[test]
fn an_update_of_memory_that_is_still_read_copies() {
    let mut c = Case::new();
    let (x, new) = (c.floats([6]), c.floats([2]));
    let mut b = c.b();
    let y = b.exp(x).expect("exp");
    let at = b.constant(DType::I64, 9).expect("start");
    let next = b.prim(Prim::UpdateSlice { axis: 0, step: -2 }, &[y, new, at]).expect("update");
    c.want(y);
    c.want(next);
    c.check();
}

#[test]
fn concat_pad_slice_and_gather() {
    let mut c = Case::new();
    let (x, y) = (c.floats([3, 4]), c.floats([2, 4]));
    let idx = c.input(Tensor::ints(DType::I64, [2, 2], [4, 0, 3, 3]));
    let mut b = c.b();
    let e = b.exp(x).expect("exp");
    let cat = b.prim(Prim::Concat { axis: 0 }, &[e, y]).expect("cat");
    let got = b.prim(Prim::Gather { axis: 0 }, &[cat, idx]).expect("gather");
    let got = b.neg(got).expect("neg");
    let zero = b.constant(DType::F32, 0.5).expect("fill");
    let pad = b.prim(Prim::Pad { axis: 1, before: 1, after: 2 }, &[x, zero]).expect("pad");
    let start = b.constant(DType::I64, 6).expect("start");
    let flip = b.slice_at(pad, 1, start, 3, -2).expect("slice");
    let flip = b.tanh(flip).expect("tanh");
    c.want(got);
    c.want(flip);
    c.want(pad);
    c.check();
}

#[test]
fn rotate_half_and_masks() {
    let mut c = Case::new();
    let x = c.floats([2, 3, 4]);
    let mut b = c.b();
    let shape = Shape::from([3, 3]);
    let (i, j) = (
        b.prim(Prim::Iota { shape: shape.clone(), axis: 0 }, &[]).expect("i"),
        b.prim(Prim::Iota { shape, axis: 1 }, &[]).expect("j"),
    );
    let mask = b.le(j, i).expect("mask");
    let lo = b.slice(x, 2, 0, 2).expect("lo");
    let hi = b.slice(x, 2, 2, 2).expect("hi");
    let neg = b.neg(hi).expect("neg");
    let rot = b.prim(Prim::Concat { axis: 2 }, &[neg, lo]).expect("rot");
    let r = b.add(rot, x).expect("add");
    let rt = b.transpose_last(r).expect("t");
    let s = b.matmul(r, rt).expect("scores");
    let s = b.select(mask, s, -1e9).expect("mask");
    let p = softmax(&mut b, s);
    c.want(p);
    let plan = c.check();
    assert!(steps(&plan) <= 5, "{plan:?}");
}

#[test]
fn reshapes_across_strides_and_outputs_that_are_views() {
    let mut c = Case::new();
    let x = c.floats([4, 6]);
    let mut b = c.b();
    let t = b.transpose_last(x).expect("t");
    let r = b.reshape(t, &Shape::from([8, 3])).expect("reshape");
    let e = b.exp(r).expect("exp");
    let odd = b.reshape(e, &Shape::from([3, 8])).expect("odd");
    let n = b.neg(odd).expect("neg");
    let back = b.permute(n, &[1, 0]).expect("permute");
    c.want(t);
    c.want(r);
    c.want(odd);
    c.want(back);
    c.want(n);
    let plan = c.check();
    assert_eq!(plan.outputs[0].place, OutputPlace::Input(0));
}

#[test]
fn strided_inputs_and_barriers() {
    let mut c = Case::new();
    let t = Tensor::floats(DType::F32, [3, 4], (0..12).map(|i| i as f64));
    let x = c.strided(t, Layout { offset: 0, strides: SmallVec::from_slice(&[1, 3]) });
    let mut b = c.b();
    let k = b.prim(Prim::Barrier, &[x]).expect("barrier");
    let r = b.reshape(x, &Shape::from([2, 6])).expect("reshape");
    let r = b.add(r, 1.0).expect("add");
    let k2 = b.exp(k).expect("exp");
    let k2 = b.prim(Prim::Barrier, &[k2]).expect("barrier");
    let one = b.constant(DType::F32, 3.0).expect("one");
    c.want(k);
    c.want(r);
    c.want(k2);
    c.want(one);
    c.check();
}

#[test]
fn random_bits_do_not_depend_on_fusion() {
    let mut c = Case::new();
    let x = c.floats([3, 5]);
    let mut b = c.b();
    let (key, ord) = (b.param(DType::I64, 7.into()).expect("key"), b.param(DType::I64, 3.into()).expect("ordinal"));
    let bits = b.prim(Prim::RandomBits { shape: Shape::from([3, 5]) }, &[key, ord]).expect("bits");
    let limit = b.constant(DType::U32, 1i64 << 31).expect("limit");
    let keep = b.lt(bits, limit).expect("keep");
    let y = b.select(keep, x, 0.0).expect("drop");
    let part = b.slice(bits, 1, 2, 2).expect("part");
    c.want(y);
    c.want(part);
    c.check();
}

#[test]
fn empty_and_rank_0_tensors() {
    let mut c = Case::new();
    let (x, s) = (c.floats([0, 3]), c.floats([]));
    let mut b = c.b();
    let e = b.exp(x).expect("exp");
    let rows = b.reduce(Fold::Sum, x, &[0]).expect("sum");
    let none = b.reduce(Fold::Sum, x, &[1]).expect("sum");
    let both = b.reduce(Fold::Max, x, &[0, 1]).expect("max");
    let scaled = b.mul(s, 3.0).expect("mul");
    let lone = b.reduce(Fold::Sum, scaled, &[]).expect("sum");
    let total = b.add(both, lone).expect("add");
    [e, rows, none, both, total].into_iter().for_each(|v| c.want(v));
    c.check();
}

#[test]
fn a_long_chain_is_cut_into_a_few_kernels() {
    let mut c = Case::new();
    let x = c.floats([3]);
    let mut b = c.b();
    let mut y = x;
    for _ in 0..512 {
        y = b.mul(y, 0.5).expect("mul");
        y = b.add(y, 1.0).expect("add");
    }
    c.want(y);
    let plan = c.check();
    assert_eq!(steps(&plan), 16);
}

#[test]
fn gradients_of_biases_merge() {
    let mut c = Case::new();
    let xs: Vec<ValueId> = (0..4).map(|_| c.floats([6, 5])).collect();
    let mut b = c.b();
    let sums: Vec<ValueId> = xs.iter().map(|&x| b.reduce(Fold::Sum, x, &[0]).expect("sum")).collect();
    sums.iter().for_each(|&s| c.want(s));
    let plan = c.check();
    assert_eq!((steps(&plan), counter(&plan, "instances")), (1, 4));
}

#[test]
fn gradients_of_slices_are_written_side_by_side() {
    let mut c = Case::new();
    let parts: Vec<ValueId> = (0..3).map(|_| c.floats([1, 2, 4])).collect();
    let mut b = c.b();
    let zeros = b.full(DType::F32, &Shape::from([3, 2, 4]), 0.0).expect("zeros");
    let mut sum: Option<ValueId> = None;
    for (i, &p) in parts.iter().enumerate() {
        let negated = b.mul(p, -0.0).expect("zeros of both signs");
        let p = if i == 1 { negated } else { p };
        let at = b.constant(DType::I64, 2 - i as i64).expect("start");
        let placed = b.prim(Prim::UpdateSlice { axis: 0, step: 1 }, &[zeros, p, at]).expect("placed");
        sum = Some(sum.map_or(placed, |s| b.add(s, placed).expect("add")));
    }
    let moved = b.permute(sum.expect("three"), &[1, 0, 2]).expect("permute");
    let flat = b.reshape(moved, &Shape::from([2, 12])).expect("reshape");
    let y = b.neg(flat).expect("neg");
    c.want(y);
    c.want(flat);
    let plan = c.check();
    assert_eq!(counter(&plan, "instances"), 4, "three parts and what reads them: {plan:?}");
}

#[test]
fn results_of_one_operand_are_made_together() {
    let mut c = Case::new();
    let (x, y) = (c.floats([6, 5]), c.floats([6, 5]));
    let mut b = c.b();
    let p = b.exp(x).expect("exp");
    let q = b.tanh(x).expect("tanh");
    let xy = b.mul(x, y).expect("mul");
    let s = b.reduce(Fold::Sum, xy, &[0]).expect("sum");
    let t = b.reduce(Fold::Sum, x, &[0]).expect("sum");
    [p, q, s, t].into_iter().for_each(|v| c.want(v));
    let plan = c.check();
    assert_eq!(steps(&plan), 2, "{plan}");
}
