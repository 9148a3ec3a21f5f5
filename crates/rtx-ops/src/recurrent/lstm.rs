//! An LSTM layer in one direction, after the input's part of the gates is known.
use super::cells::{lstm_step, sigmoid};
use super::{Sizes, at, before, gate, sequence, side_by_side, steps, times_transposed, weight_gradient};
use crate::formula::{Var, emit};
use crate::linear::matmul;
use rtx_core::Result;
use rtx_ir::{Attr, Body, Builder, Grad, GradCx, Grads, Numerics, OpDef, Outs, Sample, Saves, ValueId, rules};
use smallvec::smallvec;

/// A layer. Attribute: from the last step to the first?
pub static LSTM_LAYER: OpDef = OpDef {
    sig: "lstm_layer(Tensor gates, Tensor h, Tensor c, Tensor w_hh, bool reverse=False) -> (Tensor, Tensor)",
    doc: "The states h and c after each step of an LSTM whose gates are gates[t] + h[t-1] · w_hhᵀ, in the order i, f, g, o.",
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 4)?;
        let sizes = Sizes::of(op, 4, inputs[0], inputs[1], inputs[3])?;
        Sizes::check(op, &[(inputs[2], inputs[1])])?;
        Ok(smallvec![sizes.sequence(inputs[0], 1), sizes.sequence(inputs[0], 1)])
    },
    body: Body::Composite(|b, attrs, v| {
        let reverse = attrs[0].bool();
        let (mut h, mut c) = (v[1], v[2]);
        let (mut outputs, mut cells) = (Vec::new(), Vec::new());
        for t in steps("lstm_layer", b, v[0], reverse)? {
            let (x, own) = (at(b, v[0], t)?, times_transposed(b, h, v[3])?);
            let pre = b.add(own, x)?;
            [h, c] = lstm_step(b, pre, c)?;
            outputs.push(h);
            cells.push(c);
        }
        let mut like = b.ty(v[0]).clone();
        like.shape.set(2, b.ty(h).shape.dim(1));
        Ok(smallvec![sequence(b, outputs, reverse, &like)?, sequence(b, cells, reverse, &like)?])
    }),
    grad: Grad::Rule(gradient),
    saves: Saves::Only { inputs: &[0, 1, 2, 3], outputs: &[0, 1] },
    cost: 60,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::grad("f32[3,2,8] in -1..1, f32[2,2] in -1..1, f32[2,2] in -1..1, f32[8,2] in -1..1, false", 64),
        Sample::grad("f32[2,1,12] in -1..1, f32[1,3] in -1..1, f32[1,3] in -1..1, f32[12,3] in -1..1, true", 64),
        Sample::of("f32[0,2,8], f32[2,2], f32[2,2], f32[8,2], false", 64),
    ],
    ..OpDef::DEFAULT
};

/// All gates at once, which takes one large product, then back step by step.
fn gradient(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let reverse = cx.op.attrs()[0].bool();
    let &[x, h, c, weight] = cx.inputs else {
        return Err(rules::refuse("lstm_layer", rtx_core::Kind::Internal, "operands"));
    };
    let (outputs, cells) = (cx.outputs[0], cx.outputs[1]);
    let (h_before, c_before) = (before(b, outputs, h, reverse)?, before(b, cells, c, reverse)?);
    let own = times_transposed(b, h_before, weight)?;
    let pre = b.add(own, x)?;
    let squashed = squash(b, pre)?;
    let mut flow = |i: usize, like: ValueId| match cx.cotangents[i] {
        Some(g) => Ok(g),
        None => b.zeros_like(like),
    };
    let (dh, dc) = (flow(0, outputs)?, flow(1, cells)?);
    let operands = [squashed, cells, c_before, weight, dh, dc];
    let back = b.composite(&LSTM_LAYER_BACKWARD, smallvec![Attr::Bool(reverse)], &operands)?;
    cx.each(|i| match i {
        3 => weight_gradient(b, back[0], h_before),
        i => Ok(back[i]),
    })
}
/// The gates as they are used.
fn squash(b: &mut Builder<'_>, pre: ValueId) -> Result<ValueId> {
    let mut parts = Vec::new();
    for k in 0..4 {
        let x = gate(b, pre, k, 4)?;
        parts.push(if k == 2 { b.tanh(x)? } else { sigmoid(b, x)? });
    }
    side_by_side(b, &parts)
}

/// Back through a layer. Operands: the gates as they are used, the cells, the cells before each step, the weights, the
/// cotangents of the states after each step. Results: those of the gates, of the first h and the first c.
pub static LSTM_LAYER_BACKWARD: OpDef = OpDef {
    sig: "lstm_layer_backward(Tensor gates, Tensor cells, Tensor before, Tensor w_hh, Tensor grad_h, Tensor grad_c, bool reverse=False) -> (Tensor, Tensor, Tensor)",
    doc: "The cotangents of an LSTM layer's gates (before they are squashed) and first states, step by step from the last.",
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 6)?;
        let state = rtx_ir::Type { dtype: inputs[1].dtype, shape: inputs[1].shape.iter().skip(1).collect() };
        let sizes = Sizes::of(op, 4, inputs[0], &state, inputs[3])?;
        let cells = inputs[1];
        Sizes::check(
            op,
            &[(cells, &sizes.sequence(cells, 1)), (inputs[2], cells), (inputs[4], cells), (inputs[5], cells)],
        )?;
        Ok(smallvec![inputs[0].clone(), sizes.state(cells), sizes.state(cells)])
    },
    body: Body::Composite(backward),
    cost: 60,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::grad(
            "f32[3,2,8] in 0.1..0.9, f32[3,2,2] in -1..1, f32[3,2,2] in -1..1, f32[8,2] in -1..1, f32[3,2,2] in -1..1, f32[3,2,2] in -1..1, false",
            64,
        ),
        Sample::of(
            "f32[2,1,4] in 0.1..0.9, f32[2,1,1] in -1..1, f32[2,1,1] in -1..1, f32[4,1] in -1..1, f32[2,1,1] in -1..1, f32[2,1,1] in -1..1, true",
            64,
        ),
    ],
    ..OpDef::DEFAULT
};
fn backward(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let reverse = attrs[0].bool();
    let &[gates, cells, c_before, weight, grad_h, grad_c] = v else {
        return Err(rules::refuse("lstm_layer_backward", rtx_core::Kind::Internal, "operands"));
    };
    let mut state = b.ty(cells).clone();
    state.shape.remove(0);
    let none = b.zeros(state.dtype, &state.shape)?;
    let (mut dh, mut dc, mut slopes) = (none, none, Vec::new());
    for t in steps("lstm_layer_backward", b, gates, !reverse)? {
        let used = at(b, gates, t)?;
        let mut part = |k: usize| gate(b, used, k, 4).map(Var);
        let (i, f, g, o) = (part(0)?, part(1)?, part(2)?, part(3)?);
        let (cell, last) = (at(b, cells, t)?, Var(at(b, c_before, t)?));
        let (more_h, more_c) = (Var(at(b, grad_h, t)?), Var(at(b, grad_c, t)?));
        let level = Var(b.tanh(cell)?);
        let total_h = emit(b, Var(dh) + more_h)?;
        let total_c = emit(b, total_h * o * (1.0 - level * level) + (Var(dc) + more_c))?;
        let parts = [
            emit(b, total_c * g * (i * (1.0 - i)))?.0,
            emit(b, total_c * last * (f * (1.0 - f)))?.0,
            emit(b, total_c * i * (1.0 - g * g))?.0,
            emit(b, total_h * level * (o * (1.0 - o)))?.0,
        ];
        let slope = side_by_side(b, &parts)?;
        (dh, dc) = (matmul(b, slope, weight)?, emit(b, total_c * f)?.0);
        slopes.push(slope);
    }
    let like = b.ty(gates).clone();
    Ok(smallvec![sequence(b, slopes, !reverse, &like)?, dh, dc])
}
