//! A GRU layer in one direction, after the input's part of the gates is known.
use super::cells::{gru_gates, gru_step};
use super::{Sizes, at, before, gate, sequence, side_by_side, steps, times_transposed, weight_gradient};
use crate::formula::{Var, emit};
use crate::linear::matmul;
use rtx_core::{Fold, Kind, Result, Shape};
use rtx_ir::{Attr, Body, Builder, Grad, GradCx, Grads, Numerics, OpDef, Outs, Sample, Saves, Type, ValueId, rules};
use smallvec::smallvec;

/// A layer. Attribute: from the last step to the first?
pub static GRU_LAYER: OpDef = OpDef {
    sig: "gru_layer(Tensor gates, Tensor h, Tensor w_hh, Tensor b_hh, bool reverse=False) -> Tensor",
    doc: "The state after each step of a GRU whose gates are gates[t] and h[t-1] · w_hhᵀ + b_hh, in the order r, z, n.",
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 4)?;
        let sizes = Sizes::of(op, 3, inputs[0], inputs[1], inputs[2])?;
        let bias = Type { dtype: inputs[0].dtype, shape: Shape::from_iter([inputs[2].shape.dim(0)]) };
        Sizes::check(op, &[(inputs[3], &bias)])?;
        Ok(smallvec![sizes.sequence(inputs[0], 1)])
    },
    body: Body::Composite(|b, attrs, v| {
        let reverse = attrs[0].bool();
        let (mut h, mut outputs) = (v[1], Vec::new());
        for t in steps("gru_layer", b, v[0], reverse)? {
            let (x, own) = (at(b, v[0], t)?, times_transposed(b, h, v[2])?);
            let own = b.add(own, v[3])?;
            h = gru_step(b, x, own, h)?;
            outputs.push(h);
        }
        let mut like = b.ty(v[0]).clone();
        like.shape.set(2, b.ty(h).shape.dim(1));
        Ok(smallvec![sequence(b, outputs, reverse, &like)?])
    }),
    grad: Grad::Rule(gradient),
    saves: Saves::Only { inputs: &[0, 1, 2, 3], outputs: &[0] },
    cost: 50,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::grad("f32[3,2,6] in -1..1, f32[2,2] in -1..1, f32[6,2] in -1..1, f32[6] in -1..1, false", 64),
        Sample::grad("f32[2,1,9] in -1..1, f32[1,3] in -1..1, f32[9,3] in -1..1, f32[9] in -1..1, true", 64),
    ],
    ..OpDef::DEFAULT
};

/// All gates at once, which takes one large product, then back step by step.
fn gradient(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let reverse = cx.op.attrs()[0].bool();
    let &[x, h, weight, bias] = cx.inputs else { return Err(rules::refuse("gru_layer", Kind::Internal, "operands")) };
    let h_before = before(b, cx.outputs[0], h, reverse)?;
    let own = times_transposed(b, h_before, weight)?;
    let own = b.add(own, bias)?;
    let [r, z, n, n_own] = gru_gates(b, x, own)?;
    let gates = side_by_side(b, &[r, z, n])?;
    let operands = [gates, n_own, h_before, weight, cx.ct()];
    let back = b.composite(&GRU_LAYER_BACKWARD, smallvec![Attr::Bool(reverse)], &operands)?;
    cx.each(|i| match i {
        0 => Ok(back[0]),
        1 => Ok(back[2]),
        2 => weight_gradient(b, back[1], h_before),
        _ => b.reduce(Fold::Sum, back[1], &[0, 1]),
    })
}

/// Back through a layer. Operands: r, z and n, the state's part of n, the states before each step, the weights, the
/// cotangent of the states after each step. Results: those of the input's and the state's part of the gates, and of the
/// first state.
pub static GRU_LAYER_BACKWARD: OpDef = OpDef {
    sig: "gru_layer_backward(Tensor gates, Tensor own, Tensor before, Tensor w_hh, Tensor grad_h, bool reverse=False) -> (Tensor, Tensor, Tensor)",
    doc: "The cotangents of both parts of a GRU layer's gates and of its first state, step by step from the last.",
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 5)?;
        let before = inputs[2];
        let state = Type { dtype: before.dtype, shape: before.shape.iter().skip(1).collect() };
        let sizes = Sizes::of(op, 3, inputs[0], &state, inputs[3])?;
        Sizes::check(op, &[(before, &sizes.sequence(before, 1)), (inputs[1], before), (inputs[4], before)])?;
        Ok(smallvec![inputs[0].clone(), inputs[0].clone(), state])
    },
    body: Body::Composite(backward),
    cost: 50,
    numerics: Numerics::Claimed,
    samples: &[Sample::grad(
        "f32[3,2,6] in 0.1..0.9, f32[3,2,2] in -1..1, f32[3,2,2] in -1..1, f32[6,2] in -1..1, f32[3,2,2] in -1..1, true",
        64,
    )],
    ..OpDef::DEFAULT
};
fn backward(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let reverse = attrs[0].bool();
    let &[gates, own, h_before, weight, grad_h] = v else {
        return Err(rules::refuse("gru_layer_backward", Kind::Internal, "operands"));
    };
    let mut state = b.ty(h_before).clone();
    state.shape.remove(0);
    let mut dh = b.zeros(state.dtype, &state.shape)?;
    let (mut slopes, mut own_slopes) = (Vec::new(), Vec::new());
    for t in steps("gru_layer_backward", b, gates, !reverse)? {
        let used = at(b, gates, t)?;
        let mut part = |k: usize| gate(b, used, k, 3).map(Var);
        let (r, z, n) = (part(0)?, part(1)?, part(2)?);
        let (n_own, last) = (Var(at(b, own, t)?), Var(at(b, h_before, t)?));
        let more = Var(at(b, grad_h, t)?);
        let total = emit(b, Var(dh) + more)?;
        let dn = emit(b, total * (1.0 - z) * (1.0 - n * n))?;
        let dz = emit(b, total * (last - n) * (z * (1.0 - z)))?;
        let dr = emit(b, dn * n_own * (r * (1.0 - r)))?;
        let dn_own = emit(b, dn * r)?;
        let own_slope = side_by_side(b, &[dr.0, dz.0, dn_own.0])?;
        let through = Var(matmul(b, own_slope, weight)?);
        dh = emit(b, total * z + through)?.0;
        slopes.push(side_by_side(b, &[dr.0, dz.0, dn.0])?);
        own_slopes.push(own_slope);
    }
    let like = b.ty(gates).clone();
    Ok(smallvec![sequence(b, slopes, !reverse, &like)?, sequence(b, own_slopes, !reverse, &like)?, dh])
}
