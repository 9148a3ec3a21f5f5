//! Optimizer steps: one node a parameter, with numbers that are read at run time.
use crate::args::Args;
use crate::precision::widen;
use rtx_core::{DType, Kind, Result};
use rtx_ir::{
    Arg, Attr, Batch, Body, Bound, Builder, Grad, Jvp, Op, OpDef, Outs, Sample, Saves, Type, Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[&ADAM_STEP, &SGD_STEP];

const STEP: OpDef =
    OpDef { grad: Grad::None, jvp: Jvp::None, saves: Saves::NONE, batch: Batch::Refused, ..OpDef::DEFAULT };

/// A number operand: a rank-0 tensor, or a number that becomes a run-time f64.
fn number(b: &mut Builder<'_>, def: &OpDef, args: &Bound, i: usize) -> Result<ValueId> {
    let v = rtx_ir::record::tensor_or_number(b, def, args, i, DType::F64)?;
    if b.rank(v) != 0 {
        let name = rules::parameter_names(def.sig).get(i).copied().unwrap_or("?");
        return Err(rules::refuse(def.name(), Kind::Shape, format_args!("{name} is one number, got {}", b.ty(v))));
    }
    Ok(v)
}
/// A rank-0 operand as f64.
fn as_f64(b: &mut Builder<'_>, v: ValueId) -> Result<ValueId> {
    b.cast(v, DType::F64)
}

/// The state tensors have the parameter's shape.
fn check_state(op: &Op, state: &[&Type]) -> Result<()> {
    if state.iter().all(|t| t.shape == state[0].shape && t.dtype.is_float()) {
        return Ok(());
    }
    Err(rules::refuse(
        op.name(),
        Kind::Shape,
        format_args!("parameter, gradient and state differ: {}", rules::show(state)),
    ))
}

/// One step of Adam or AdamW. Attribute: decoupled.
pub static ADAM_STEP: OpDef = OpDef {
    sig: "adam_step(Tensor param, Tensor grad, Tensor exp_avg, Tensor exp_avg_sq, Tensor step, Scalar lr, Scalar beta1, \
          Scalar beta2, Scalar eps, Scalar weight_decay, bool decoupled=True) -> (Tensor, Tensor, Tensor)",
    doc: "m' = m + (1 - β1)(g - m), v' = β2 v + (1 - β2) g², p' = p - lr/(1 - β1^t) · m' / (√v' / √(1 - β2^t) + ε), \
          where decoupled decay first scales p by 1 - lr · wd, and the other adds wd · p to g. step is t, from 1, on the \
          device; its powers are taken in f64. In PyTorch's order of operations. Kingma and Ba, arXiv:1412.6980; \
          Loshchilov and Hutter, arXiv:1711.05101.",
    runtime: &["lr", "beta1", "beta2", "eps", "weight_decay"],
    record: |b, def, args| {
        let tensors = Args::new(def, args);
        let mut inputs: SmallVec<[ValueId; 10]> = SmallVec::new();
        for i in 0..4 {
            inputs.push(tensors.tensor(i)?);
        }
        for i in 4..10 {
            inputs.push(number(b, def, args, i)?);
        }
        let decoupled = *args.get(10) == Arg::None || tensors.flag(10)?;
        b.composite(def, smallvec![Attr::Bool(decoupled)], &inputs)
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 10)?;
        check_state(op, &inputs[..4])?;
        Ok(smallvec![inputs[0].clone(), inputs[2].clone(), inputs[3].clone()])
    },
    body: Body::Composite(adam_body),
    cost: 20,
    samples: &[
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, i64[] = 3, 0.001, 0.9, 0.999, 1e-8, 0.1",
            64,
        ),
        Sample::of(
            "f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, f32[5] in 0..1, i64[] = 1, 0.001, 0.9, 0.95, 1e-8, 0.1, false",
            64,
        ),
    ],
    ..STEP
};

fn adam_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let types = [v[0], v[2], v[3]].map(|x| b.dtype(x));
    let (mut p, m, second) = (widen(b, v[0])?, widen(b, v[2])?, widen(b, v[3])?);
    let compute = b.dtype(p);
    let mut g = b.cast(v[1], compute)?;
    let numbers = AdamNumbers::of(b, &v[4..], compute)?;
    if attrs[0].bool() {
        p = b.mul(p, numbers.keep)?;
    } else {
        let decay = b.mul(p, numbers.weight_decay)?;
        g = b.add(g, decay)?;
    }
    let (m, second) = (b.cast(m, compute)?, b.cast(second, compute)?);
    let way = b.sub(g, m)?;
    let way = b.mul(way, numbers.rest1)?;
    let m = b.add(m, way)?;
    let kept = b.mul(second, numbers.beta2)?;
    let part = b.mul(g, numbers.rest2)?;
    let part = b.mul(part, g)?;
    let second = b.add(kept, part)?;
    let root = b.sqrt(second)?;
    let root = b.div(root, numbers.root_correction2)?;
    let below = b.add(root, numbers.eps)?;
    let above = b.mul(m, numbers.step_size)?;
    let move_by = b.div(above, below)?;
    let p = b.sub(p, move_by)?;
    Ok(smallvec![b.cast(p, types[0])?, b.cast(m, types[1])?, b.cast(second, types[2])?])
}

/// What all elements share: computed in f64, rounded to the compute precision.
struct AdamNumbers {
    /// `1 - lr · weight_decay`
    keep: ValueId,
    weight_decay: ValueId,
    /// `1 - beta1`
    rest1: ValueId,
    beta2: ValueId,
    /// `1 - beta2`
    rest2: ValueId,
    /// `lr / (1 - beta1^t)`
    step_size: ValueId,
    /// `√(1 - beta2^t)`
    root_correction2: ValueId,
    eps: ValueId,
}
impl AdamNumbers {
    /// From step, lr, beta1, beta2, eps, weight_decay.
    fn of(b: &mut Builder<'_>, v: &[ValueId], compute: DType) -> Result<Self> {
        let [step, lr, beta1, beta2, eps, weight_decay] = [v[0], v[1], v[2], v[3], v[4], v[5]].map(|x| as_f64(b, x));
        let (step, lr, beta1, beta2, eps, weight_decay) = (step?, lr?, beta1?, beta2?, eps?, weight_decay?);
        let decay = b.mul(lr, weight_decay)?;
        let keep = b.sub(1.0, decay)?;
        let (rest1, rest2) = (b.sub(1.0, beta1)?, b.sub(1.0, beta2)?);
        let correction1 = bias_correction(b, beta1, step)?;
        let correction2 = bias_correction(b, beta2, step)?;
        let step_size = b.div(lr, correction1)?;
        let root_correction2 = b.sqrt(correction2)?;
        let mut round = |x| b.cast(x, compute);
        Ok(Self {
            keep: round(keep)?,
            weight_decay: round(weight_decay)?,
            rest1: round(rest1)?,
            beta2: round(beta2)?,
            rest2: round(rest2)?,
            step_size: round(step_size)?,
            root_correction2: round(root_correction2)?,
            eps: round(eps)?,
        })
    }
}
/// `1 - beta^step`.
fn bias_correction(b: &mut Builder<'_>, beta: ValueId, step: ValueId) -> Result<ValueId> {
    let power = b.pow(beta, step)?;
    b.sub(1.0, power)
}

/// One step of stochastic gradient descent with momentum. Attribute: nesterov.
pub static SGD_STEP: OpDef = OpDef {
    sig: "sgd_step(Tensor param, Tensor grad, Tensor? momentum_buffer, Tensor step, Scalar lr, Scalar momentum, \
          Scalar dampening, Scalar weight_decay, bool nesterov=False) -> (Tensor, Tensor)",
    doc: "g' = g + wd · p, buf' = μ buf + (1 - dampening) g' (g' itself where step is 1), p' = p - lr · buf', with nesterov \
          p - lr (g' + μ buf'), without a buffer p - lr · g'. In PyTorch's order of operations. Sutskever et al. (2013).",
    runtime: &["lr", "momentum", "dampening", "weight_decay"],
    record: |b, def, args| {
        let tensors = Args::new(def, args);
        let buffer = tensors.optional_tensor(2)?;
        let mut inputs: SmallVec<[ValueId; 8]> = smallvec![tensors.tensor(0)?, tensors.tensor(1)?];
        for i in 3..8 {
            inputs.push(number(b, def, args, i)?);
        }
        inputs.extend(buffer);
        b.composite(def, smallvec![Attr::Bool(tensors.flag(8)?)], &inputs)
    },
    infer: |op, inputs| {
        if inputs.len() < 7 {
            return Err(rules::refuse(op.name(), Kind::Argument, "takes 7 operands or 8"));
        }
        let state: SmallVec<[&Type; 3]> = inputs[..2].iter().chain(inputs.get(7)).copied().collect();
        check_state(op, &state)?;
        Ok(std::iter::once(inputs[0].clone()).chain(inputs.get(7).map(|t| (*t).clone())).collect::<Types>())
    },
    body: Body::Composite(sgd_body),
    cost: 8,
    samples: &[
        Sample::of("f32[5] in -1..1, f32[5] in -1..1, f32[5] in -1..1, i64[] = 3, 0.1, 0.9, 0.0, 0.01, true", 64),
        Sample::of("f32[5] in -1..1, f32[5] in -1..1, none, i64[] = 1, 0.1, 0.0, 0.0, 0.01", 64),
    ],
    ..STEP
};

fn sgd_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let dtype = b.dtype(v[0]);
    let p = widen(b, v[0])?;
    let compute = b.dtype(p);
    let g = b.cast(v[1], compute)?;
    let first = b.eq(v[2], 1.0)?;
    let dampening = as_f64(b, v[5])?;
    let rest = b.sub(1.0, dampening)?;
    let [lr, momentum, weight_decay, rest] = [v[3], v[4], v[6], rest].map(|x| b.cast(x, compute));
    let (lr, momentum, weight_decay, rest) = (lr?, momentum?, weight_decay?, rest?);
    let decay = b.mul(p, weight_decay)?;
    let g = b.add(g, decay)?;
    let Some(&old) = v.get(7) else {
        let move_by = b.mul(g, lr)?;
        let p = b.sub(p, move_by)?;
        return Ok(smallvec![b.cast(p, dtype)?]);
    };
    let old_dtype = b.dtype(old);
    let buffer = b.cast(old, compute)?;
    let kept = b.mul(buffer, momentum)?;
    let part = b.mul(g, rest)?;
    let sum = b.add(kept, part)?;
    let buffer = b.select(first, g, sum)?;
    let direction = if attrs[0].bool() {
        let ahead = b.mul(buffer, momentum)?;
        b.add(g, ahead)?
    } else {
        buffer
    };
    let move_by = b.mul(direction, lr)?;
    let p = b.sub(p, move_by)?;
    Ok(smallvec![b.cast(p, dtype)?, b.cast(buffer, old_dtype)?])
}
