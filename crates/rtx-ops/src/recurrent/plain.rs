//! A plain recurrent layer in one direction, after the input's part is known.
use super::cells::plain_step;
use super::{Sizes, at, before, sequence, steps, times_transposed, weight_gradient};
use crate::formula::{Var, emit};
use crate::linear::matmul;
use rtx_core::{Kind, Result};
use rtx_ir::{Attr, Body, Builder, Grad, Numerics, OpDef, Outs, Sample, Saves, Type, ValueId, rules};
use smallvec::smallvec;

/// A layer. Attributes: max(0, ·) in place of tanh? From the last step to the first?
pub static RNN_LAYER: OpDef = OpDef {
    sig: "rnn_layer(Tensor x, Tensor h, Tensor w_hh, bool relu=False, bool reverse=False) -> Tensor",
    doc: "The state after each step, h[t] = tanh(x[t] + h[t-1] · w_hhᵀ), or max(0, ·) of it.",
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 3)?;
        Sizes::of(op, 1, inputs[0], inputs[1], inputs[2])?;
        Ok(smallvec![inputs[0].clone()])
    },
    body: Body::Composite(|b, attrs, v| {
        let (relu, reverse) = (attrs[0].bool(), attrs[1].bool());
        let (mut h, mut outputs) = (v[1], Vec::new());
        for t in steps("rnn_layer", b, v[0], reverse)? {
            let (x, own) = (at(b, v[0], t)?, times_transposed(b, h, v[2])?);
            let pre = b.add(own, x)?;
            h = plain_step(b, pre, relu)?;
            outputs.push(h);
        }
        let like = b.ty(v[0]).clone();
        Ok(smallvec![sequence(b, outputs, reverse, &like)?])
    }),
    grad: Grad::Rule(|b, cx| {
        let (h, weight, outputs) = (cx.inputs[1], cx.inputs[2], cx.outputs[0]);
        let back = b.composite(&RNN_LAYER_BACKWARD, cx.op.attrs().into(), &[outputs, weight, cx.ct()])?;
        let reverse = cx.op.attrs()[1].bool();
        cx.each(|i| match i {
            2 => {
                let before = before(b, outputs, h, reverse)?;
                weight_gradient(b, back[0], before)
            }
            i => Ok(back[i]),
        })
    }),
    saves: Saves::Only { inputs: &[1, 2], outputs: &[0] },
    cost: 20,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::grad("f32[3,2,2] in -1..1, f32[2,2] in -1..1, f32[2,2] in -1..1", 64),
        Sample::grad("f32[3,1,3] in -1..1, f32[1,3] in -1..1, f32[3,3] in -1..1, true, true", 64),
    ],
    ..OpDef::DEFAULT
};

/// Back through a layer. Operands: the states, the weights, the states' cotangent. Results: those of the input's part
/// and of the first state.
pub static RNN_LAYER_BACKWARD: OpDef = OpDef {
    sig: "rnn_layer_backward(Tensor states, Tensor w_hh, Tensor grad_h, bool relu=False, bool reverse=False) -> (Tensor, Tensor)",
    doc: "The cotangents of a plain layer's input part and first state, step by step from the last.",
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 3)?;
        let x = inputs[0];
        let state = Type { dtype: x.dtype, shape: x.shape.iter().skip(1).collect() };
        Sizes::of(op, 1, x, &state, inputs[1])?;
        Sizes::check(op, &[(inputs[2], x)])?;
        Ok(smallvec![x.clone(), state])
    },
    body: Body::Composite(backward),
    cost: 20,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::grad("f32[3,2,2] in -0.9..0.9, f32[2,2] in -1..1, f32[3,2,2] in -1..1", 64),
        Sample::of("f32[3,2,2] in 0.1..0.9, f32[2,2] in -1..1, f32[3,2,2] in -1..1, true, true", 64),
    ],
    ..OpDef::DEFAULT
};
fn backward(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (relu, reverse) = (attrs[0].bool(), attrs[1].bool());
    let &[states, weight, grad_h] = v else {
        return Err(rules::refuse("rnn_layer_backward", Kind::Internal, "operands"));
    };
    let mut state = b.ty(states).clone();
    state.shape.remove(0);
    let (mut dh, mut slopes) = (b.zeros(state.dtype, &state.shape)?, Vec::new());
    for t in steps("rnn_layer_backward", b, states, !reverse)? {
        let (h, more) = (Var(at(b, states, t)?), Var(at(b, grad_h, t)?));
        let total = emit(b, Var(dh) + more)?;
        let slope = if relu {
            let dead = b.le(h.0, 0.0)?;
            b.select(dead, 0.0, total.0)?
        } else {
            emit(b, total * (1.0 - h * h))?.0
        };
        dh = matmul(b, slope, weight)?;
        slopes.push(slope);
    }
    let like = b.ty(states).clone();
    Ok(smallvec![sequence(b, slopes, !reverse, &like)?, dh])
}
