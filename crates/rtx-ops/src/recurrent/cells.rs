//! One step for a batch of examples.
use super::{gate, times_transposed};
use crate::args::Args;
use crate::formula::{Var, emit};
use crate::precision::widen;
use rtx_core::{Dim, Kind, Result, Shape};
use rtx_ir::{
    Body, Bound, Builder, Numerics, Op, OpDef, Outs, Refusal, Sample, Stability, Type, Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// One step of an LSTM. Operands: x, h, c, w_ih, w_hh, then both biases.
pub static LSTM_CELL: OpDef = OpDef {
    sig: "lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)",
    doc: "With i, f, g, o the quarters of x · w_ihᵀ + b_ih + h · w_hhᵀ + b_hh: c' = σ(f) c + σ(i) tanh g and \
          h' = σ(o) tanh c'; the results are h' and c' (Hochreiter and Schmidhuber, 1997).",
    record: |b, def, args| record_cell(b, def, args, 2),
    infer: |op, inputs| infer_cell(op, inputs, 4, 2),
    body: Body::Composite(|b, _, v| {
        let dtype = b.dtype(v[0]);
        let (pre, _) = halves(b, v, 2, true)?;
        let c = widen(b, v[2])?;
        let [h, c] = lstm_step(b, pre, c)?;
        Ok(smallvec![b.cast(h, dtype)?, b.cast(c, dtype)?])
    }),
    cost: 40,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::grad(
            "f32[2,3] in -1..1, [f32[2,2] in -1..1, f32[2,2] in -1..1], f32[8,3] in -1..1, f32[8,2] in -1..1, f32[8] in -1..1, f32[8] in -1..1",
            64,
        ),
        Sample::grad(
            "f32[2,3] in -1..1, [f32[2,2] in -1..1, f32[2,2] in -1..1], f32[8,3] in -1..1, f32[8,2] in -1..1",
            64,
        ),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], [f32[2,2], f32[2,2]], f32[6,3], f32[8,2]",
        "lstm_cell: weights [6, 3] and [8, 2] do not take an input of [2, 3] and a state of [2, 2]",
    )],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};
/// One step of a GRU. Operands: x, h, w_ih, w_hh, then both biases.
pub static GRU_CELL: OpDef = OpDef {
    sig: "gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
    doc: "With r, z, n the thirds of x · w_ihᵀ + b_ih and of h · w_hhᵀ + b_hh: r = σ(r_x + r_h), z = σ(z_x + z_h), \
          n = tanh(n_x + r n_h) and h' = n + z (h - n) (Cho et al., 2014).",
    record: |b, def, args| record_cell(b, def, args, 1),
    infer: |op, inputs| infer_cell(op, inputs, 3, 1),
    body: Body::Composite(|b, _, v| {
        let dtype = b.dtype(v[0]);
        let (x, h_part) = halves(b, v, 1, false)?;
        let h = widen(b, v[1])?;
        let h = gru_step(b, x, h_part, h)?;
        Ok(smallvec![b.cast(h, dtype)?])
    }),
    cost: 30,
    numerics: Numerics::Claimed,
    samples: &[Sample::grad(
        "f32[2,3] in -1..1, f32[2,2] in -1..1, f32[6,3] in -1..1, f32[6,2] in -1..1, f32[6] in -1..1, f32[6] in -1..1",
        64,
    )],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};
/// One step of a plain network with tanh. Operands as of [`GRU_CELL`].
pub static RNN_TANH_CELL: OpDef = OpDef {
    sig: "rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
    doc: "h' = tanh(x · w_ihᵀ + b_ih + h · w_hhᵀ + b_hh) (Elman, 1990).",
    body: Body::Composite(|b, _, v| plain_cell(b, v, false)),
    samples: &[Sample::grad(
        "f32[2,3] in -1..1, f32[2,2] in -1..1, f32[2,3] in -1..1, f32[2,2] in -1..1, f32[2] in -1..1, f32[2] in -1..1",
        64,
    )],
    ..PLAIN
};
/// One step of a plain network with relu. Operands as of [`GRU_CELL`].
pub static RNN_RELU_CELL: OpDef = OpDef {
    sig: "rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor",
    doc: "h' = max(0, x · w_ihᵀ + b_ih + h · w_hhᵀ + b_hh).",
    body: Body::Composite(|b, _, v| plain_cell(b, v, true)),
    samples: &[Sample::grad(
        "f32[2,3] in -1..1, f32[2,2] in -1..1, f32[2,3] in -1..1, f32[2,2] in -1..1, f32[2] in -1..1, f32[2] in -1..1",
        64,
    )],
    ..PLAIN
};
const PLAIN: OpDef = OpDef {
    record: |b, def, args| record_cell(b, def, args, 1),
    infer: |op, inputs| infer_cell(op, inputs, 1, 1),
    cost: 10,
    numerics: Numerics::Claimed,
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};
fn plain_cell(b: &mut Builder<'_>, v: &[ValueId], relu: bool) -> Result<Outs> {
    let dtype = b.dtype(v[0]);
    let (pre, _) = halves(b, v, 1, true)?;
    let h = plain_step(b, pre, relu)?;
    Ok(smallvec![b.cast(h, dtype)?])
}

/// `(input, hx, w_ih, w_hh, b_ih, b_hh)` with one or two states: tensors in order, biases both or none.
fn record_cell(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, states: usize) -> Result<Outs> {
    let args = Args::new(def, args);
    let mut operands: SmallVec<[ValueId; 8]> = smallvec![args.tensor(0)?];
    if states == 1 {
        operands.push(args.tensor(1)?);
    } else {
        let hx = args.tensors(1)?;
        if hx.len() != states {
            let what = format_args!("hx holds {states} states, got {}", hx.len());
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        operands.extend_from_slice(hx);
    }
    operands.extend([args.tensor(2)?, args.tensor(3)?]);
    match (args.optional_tensor(4)?, args.optional_tensor(5)?) {
        (None, None) => {}
        (Some(x), Some(h)) => operands.extend([x, h]),
        _ => return Err(rules::refuse(def.name(), Kind::Argument, "takes both biases or none")),
    }
    b.composite(def, smallvec![], &operands)
}

fn infer_cell(op: &Op, inputs: &[&Type], gates: u64, states: usize) -> Result<Types> {
    let refuse = |what: String| Err(rules::refuse(op.name(), Kind::Shape, what));
    if inputs.len() < states + 3 {
        return refuse("operands are missing".into());
    }
    let (x, h, w_ih, w_hh) = (inputs[0], inputs[1], inputs[states + 1], inputs[states + 2]);
    let fits = || {
        let (&[batch, wide], &[b, hidden]) = (x.shape.dims(), h.shape.dims()) else { return None };
        let all = Dim::Const(gates * hidden.known()? as u64);
        let weights = w_ih.shape == Shape::from_iter([all, wide]) && w_hh.shape == Shape::from_iter([all, hidden]);
        let biases = inputs[states + 3..].iter().all(|t| t.shape == Shape::from_iter([all]));
        let alike = inputs[1..=states].iter().all(|t| t.shape == h.shape);
        (batch == b && weights && biases && alike).then_some(())
    };
    if fits().is_none() {
        let (w, u, x, h) = (&w_ih.shape, &w_hh.shape, &x.shape, &h.shape);
        return refuse(format!("weights {w} and {u} do not take an input of {x} and a state of {h}"));
    }
    rules::check_float(op.name(), x)?;
    if inputs.iter().any(|t| t.dtype != x.dtype) {
        return Err(rules::refuse(op.name(), Kind::DType, format_args!("dtypes differ: {}", rules::show(inputs))));
    }
    Ok(inputs[1..=states].iter().map(|t| (*t).clone()).collect())
}

/// The input's and the state's part in compute precision, biases added; their sum in the first where it is asked for.
fn halves(b: &mut Builder<'_>, v: &[ValueId], states: usize, together: bool) -> Result<(ValueId, ValueId)> {
    let wide = v.iter().map(|&v| widen(b, v)).collect::<Result<SmallVec<[ValueId; 8]>>>()?;
    let mut x = times_transposed(b, wide[0], wide[states + 1])?;
    let mut h = times_transposed(b, wide[1], wide[states + 2])?;
    if let Some(&[x_bias, h_bias]) = wide.get(states + 3..states + 5) {
        (x, h) = (b.add(x, x_bias)?, b.add(h, h_bias)?);
    }
    Ok((if together { b.add(x, h)? } else { x }, h))
}

/// `1 / (1 + e⁻ˣ)`.
pub(super) fn sigmoid(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let x = b.neg(x)?;
    let x = b.exp(x)?;
    let below = b.add(x, 1.0)?;
    b.div(1.0, below)
}
/// The next `h` and `c` from gates that are not squashed yet.
pub(super) fn lstm_step(b: &mut Builder<'_>, pre: ValueId, c: ValueId) -> Result<[ValueId; 2]> {
    let [i, f, o] = [0, 1, 3].map(|k| gate(b, pre, k, 4).and_then(|x| sigmoid(b, x)));
    let g = gate(b, pre, 2, 4)?;
    let g = b.tanh(g)?;
    let (i, f, o, g, c) = (Var(i?), Var(f?), Var(o?), Var(g), Var(c));
    let c = emit(b, f * c + i * g)?.0;
    let level = b.tanh(c)?;
    Ok([b.mul(o.0, level)?, c])
}
/// The next `h` from the input's and the state's part of the gates.
pub(super) fn gru_step(b: &mut Builder<'_>, x: ValueId, h_part: ValueId, h: ValueId) -> Result<ValueId> {
    let [_, z, n, _] = gru_gates(b, x, h_part)?;
    let (z, n, h) = (Var(z), Var(n), Var(h));
    Ok(emit(b, (h - n) * z + n)?.0)
}
/// `r`, `z`, `n`, and the state's part of `n`.
pub(super) fn gru_gates(b: &mut Builder<'_>, x: ValueId, h_part: ValueId) -> Result<[ValueId; 4]> {
    let [r, z] = [0, 1].map(|k| {
        let (x, h) = (gate(b, x, k, 3)?, gate(b, h_part, k, 3)?);
        let sum = b.add(x, h)?;
        sigmoid(b, sum)
    });
    let (r, z) = (r?, z?);
    let (n_x, n_h) = (gate(b, x, 2, 3)?, gate(b, h_part, 2, 3)?);
    let part = b.mul(r, n_h)?;
    let n = b.add(part, n_x)?;
    Ok([r, z, b.tanh(n)?, n_h])
}
/// The next `h`.
pub(super) fn plain_step(b: &mut Builder<'_>, pre: ValueId, relu: bool) -> Result<ValueId> {
    if relu { b.max(pre, 0.0) } else { b.tanh(pre) }
}
