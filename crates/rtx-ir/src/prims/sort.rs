//! Sorting along a dim, with the positions that its gradient needs.
use crate::{
    Bound, Builder, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, ScatterOp, Stability, Type,
    Types, ValueId, record, rules,
};
use rtx_core::{Class, DType, Kind, Result, Shape, contiguous_strides};
use smallvec::smallvec;

fn infer(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let x = inputs[0];
    match op.prim() {
        Some(&Prim::Sort { axis, .. }) if axis < x.rank() && x.dtype.class() != Class::Complex => {
            Ok(smallvec![x.clone(), Type { dtype: DType::I64, shape: x.shape.clone() }])
        }
        _ => Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs)))),
    }
}

fn sort(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let axis = record::dim(b, def, a, 1, x)?;
    let descending = record::flag(def, a, 2)?;
    b.apply(Op::Prim(Prim::Sort { axis, descending }), &[x])
}

/// Every cotangent goes back to where its element came from.
fn grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::Sort { axis, .. }) = cx.op.prim() else {
        return Err(rules::refuse(cx.op.name(), Kind::Internal, "not a sort"));
    };
    let Some(g) = cx.cotangents[0] else { return Ok(smallvec![None]) };
    cx.each(|_| scatter_along(b, g, cx.outputs[1], axis))
}

/// `g` with its elements moved along `axis` to positions that are a permutation of it.
fn scatter_along(b: &mut Builder<'_>, g: ValueId, positions: ValueId, axis: usize) -> Result<ValueId> {
    let add = Prim::Scatter { axis: 0, op: ScatterOp::Add };
    let Type { dtype, shape } = b.ty(g).clone();
    if shape.rank() == 1 {
        let zeros = b.zeros(dtype, &shape)?;
        return b.prim(add, &[zeros, positions, g]);
    }
    if !shape.is_static() {
        return Err(rules::refuse("sort", Kind::Unsupported, "has no gradient along one of several symbolic dims"));
    }
    let strides = contiguous_strides(&shape.sizes());
    let scaled = |b: &mut Builder<'_>, v: ValueId, i: usize| b.mul(v, strides[i] as f64);
    let mut places = scaled(b, positions, axis)?;
    for i in (0..shape.rank()).filter(|&i| i != axis) {
        let along = b.prim(Prim::Iota { shape: shape.clone(), axis: i }, &[])?;
        let along = scaled(b, along, i)?;
        places = b.add(places, along)?;
    }
    let flat = Shape::from([shape.numel()]);
    let (places, g) = (b.reshape(places, &flat)?, b.reshape(g, &flat)?);
    let zeros = b.zeros(dtype, &flat)?;
    let back = b.prim(add, &[zeros, places, g])?;
    b.reshape(back, &shape)
}

pub(super) static SORT: OpDef = OpDef {
    sig: "sort_along(Tensor self, int dim, bool descending=False) -> (Tensor values, Tensor indices)",
    doc: "The elements in order along `dim` and their positions; equal ones stay in order, NaN is the largest number.",
    record: |b, def, a| sort(b, def, a),
    infer,
    grad: Grad::Rule(grad),
    saves: Saves::Only { inputs: &[], outputs: &[1] },
    cost: 20,
    stability: Stability::Stable,
    samples: &[
        Sample::grad("f32[3,4], 1, false", 0),
        Sample::grad("f32[3,2,2], 0, true", 0),
        Sample::grad("f64[5], 0, true", 0),
        Sample::exact("f32[8] = 1 nan -0 0 -inf nan inf 0, 0, false"),
        Sample::exact("f32[8] = 1 nan -0 0 -inf nan inf 0, 0, true"),
        Sample::exact("i64[3,7] in -2..2, 1, true"),
        Sample::exact("bool[6], 0, false"),
        Sample::exact("f32[0,3], 0, false"),
        Sample::exact("bf16[2,5], 1, false"),
    ],
    refuses: &[Refusal::of("f32[2], 1, false", "sort_along: dim 1 is outside -1..1 for a tensor of rank 1")],
    ..OpDef::DEFAULT
};
