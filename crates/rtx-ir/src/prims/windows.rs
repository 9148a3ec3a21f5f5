//! Windows along an axis, and their transpose.
use crate::{
    Bound, Builder, ConvDim, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, Type,
    Types, record, rules,
};
use rtx_core::{DType, Dim, Kind, Result};
use smallvec::smallvec;

fn wrong(op: &Op, inputs: &[&Type]) -> rtx_core::Error {
    rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {:?} of {}", op.prim(), rules::show(inputs)))
}
/// The size of an axis, which is no symbol.
fn known(op: &Op, ty: &Type, axis: usize) -> Result<u64> {
    let symbol = || rules::refuse(op.name(), Kind::Unsupported, "windows along a symbolic size");
    ty.shape.dim(axis).known().map(|n| n as u64).ok_or_else(symbol)
}
fn infer_windows(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let Some(&Prim::Windows { axis, size, stride, dilation }) = op.prim() else { return Err(wrong(op, inputs)) };
    let x = inputs[0];
    if axis >= x.rank() || size == 0 || stride == 0 || dilation == 0 {
        return Err(wrong(op, inputs));
    }
    let n = known(op, x, axis)?;
    let Ok(room) = u64::try_from(i128::from(n) - ConvDim::span(size, dilation)) else {
        return Err(wrong(op, inputs));
    };
    let mut shape = x.shape.clone();
    shape.set(axis, Dim::Const(room / stride + 1));
    shape.push(Dim::Const(size));
    Ok(smallvec![Type { dtype: x.dtype, shape }])
}
fn infer_overlap_add(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let Some(&Prim::OverlapAdd { axis, len, stride, dilation }) = op.prim() else { return Err(wrong(op, inputs)) };
    let x = inputs[0];
    if axis + 1 >= x.rank() || stride == 0 || dilation == 0 || x.dtype == DType::Bool {
        return Err(wrong(op, inputs));
    }
    let (count, size) = (known(op, x, axis)?, known(op, x, x.rank() - 1)?);
    let reach = ConvDim::span(count, stride) + ConvDim::span(size, dilation) - 1;
    if count > 0 && size > 0 && reach > i128::from(len) {
        return Err(wrong(op, inputs));
    }
    let mut shape: rtx_core::Shape = x.shape.iter().take(x.rank() - 1).collect();
    shape.set(axis, Dim::Const(len));
    Ok(smallvec![Type { dtype: x.dtype, shape }])
}

/// A number that is at least `least`.
fn count(def: &OpDef, a: &Bound, i: usize, (name, least): (&str, i64)) -> Result<u64> {
    let n = record::int(def, a, i)?;
    if n >= least {
        return Ok(n as u64);
    }
    Err(rules::refuse(def.name(), Kind::Argument, format_args!("{name} is at least {least}, got {n}")))
}
fn windows(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let axis = record::dim(b, def, a, 1, x)?;
    let size = count(def, a, 2, ("size", 1))?;
    let (stride, dilation) = (count(def, a, 3, ("stride", 1))?, count(def, a, 4, ("dilation", 1))?);
    let n = b.shape(x).iter().nth(axis).and_then(Dim::known);
    let span = ConvDim::span(size, dilation);
    if let Some(n) = n.filter(|&n| (n as i128) < span) {
        let what = format_args!("a window spans {span} elements, dim {axis} has {n}");
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    Ok(smallvec![b.prim(Prim::Windows { axis, size, stride, dilation }, &[x])?])
}
fn overlap_add(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let axis = record::dim(b, def, a, 1, x)?;
    let len = count(def, a, 2, ("length", 0))?;
    let (stride, dilation) = (count(def, a, 3, ("stride", 1))?, count(def, a, 4, ("dilation", 1))?);
    Ok(smallvec![b.prim(Prim::OverlapAdd { axis, len, stride, dilation }, &[x])?])
}

fn grad_windows(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::Windows { axis, stride, dilation, .. }) = cx.op.prim() else { return Err(wrong(cx.op, &[])) };
    let len = b.ty(cx.inputs[0]).shape.dim(axis).bound() as u64;
    cx.each(|_| b.prim(Prim::OverlapAdd { axis, len, stride, dilation }, &[cx.ct()]))
}
/// The windows that were added up; those that would have fitted behind them are left out.
fn grad_overlap_add(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::OverlapAdd { axis, stride, dilation, .. }) = cx.op.prim() else { return Err(wrong(cx.op, &[])) };
    let shape = b.shape(cx.inputs[0]);
    let (size, count) = (shape.dim(shape.rank() - 1).bound() as u64, shape.dim(axis));
    cx.each(|_| {
        if count == Dim::Const(0) || size == 0 {
            return b.zeros_like(cx.inputs[0]);
        }
        let y = b.prim(Prim::Windows { axis, size, stride, dilation }, &[cx.ct()])?;
        if b.ty(y).shape.dim(axis) == count { Ok(y) } else { b.slice(y, axis, 0, count) }
    })
}

pub(super) static WINDOWS: OpDef = OpDef {
    sig: "windows(Tensor self, int dim, int size, int stride=1, int dilation=1) -> Tensor",
    doc: "Windows of `size` elements along `dim`, `dilation` apart, one every `stride`: `dim` becomes their number, a last dim holds each.",
    record: |b, def, a| windows(b, def, a),
    infer: infer_windows,
    grad: Grad::Rule(grad_windows),
    saves: Saves::NONE,
    cost: 0,
    stability: Stability::Stable,
    samples: &[
        Sample::grad("f32[2,7], 1, 3, 2, 1", 0),
        Sample::grad("f32[6,2], 0, 2, 1, 2", 0),
        Sample::grad("f32[2,9,2], 1, 2, 4, 3", 0),
        Sample::exact("i64[5] in 0..9, 0, 5"),
        Sample::exact("bool[2,4], -1, 2, 2"),
        Sample::exact("f32[0,4], 1, 2"),
    ],
    refuses: &[
        Refusal::of("f32[4], 0, 3, 1, 2", "windows: a window spans 5 elements, dim 0 has 4"),
        Refusal::of("f32[4], 0, 0", "windows: size is at least 1, got 0"),
        Refusal::of("f32[4], 0, 2, 0", "windows: stride is at least 1, got 0"),
        Refusal::of("f32[4], 1, 2", "windows: dim 1 is outside -1..1 for a tensor of rank 1"),
    ],
    ..OpDef::DEFAULT
};
pub(super) static OVERLAP_ADD: OpDef = OpDef {
    sig: "overlap_add(Tensor self, int dim, int length, int stride=1, int dilation=1) -> Tensor",
    doc: "The transpose of `windows`: windows along the last dim are added up along `dim`, which becomes `length` elements; in ascending order of the windows.",
    record: |b, def, a| overlap_add(b, def, a),
    infer: infer_overlap_add,
    grad: Grad::Rule(grad_overlap_add),
    saves: Saves::NONE,
    stability: Stability::Stable,
    samples: &[
        Sample::grad("f32[2,3,3], 1, 7, 2, 1", 4),
        Sample::grad("f32[5,2,2], 0, 9, 1, 2", 4),
        Sample::grad("f32[2,2,2], 0, 12, 3, 1", 4),
        Sample::exact("i64[3,4] in -9..9, 0, 6"),
        Sample::exact("f32[0,3], 0, 2"),
        Sample::exact("f32[2,0,3], 1, 0"),
    ],
    refuses: &[
        Refusal::of(
            "f32[3,2], 0, 3",
            "overlap_add: does not fit: Some(OverlapAdd { axis: 0, len: 3, stride: 1, dilation: 1 }) of f32 [3, 2]",
        ),
        Refusal::of("f32[3,2], 0, -1", "overlap_add: length is at least 0, got -1"),
    ],
    ..OpDef::DEFAULT
};
