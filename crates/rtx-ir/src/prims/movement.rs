//! Movement: the same elements in another place.
use crate::{Op, OpDef, Prim, Type, Types, rules};
use rtx_core::{DType, Dim, Kind, Result};
use smallvec::smallvec;

fn wrong(op: &Op, inputs: &[&Type]) -> rtx_core::Error {
    rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {:?} of {}", op.prim(), rules::show(inputs)))
}
fn infer_reshape(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let Some(Prim::Reshape(to)) = op.prim() else { return Err(wrong(op, inputs)) };
    if to.is_static() && inputs[0].shape.is_static() && to.numel() != inputs[0].shape.numel() {
        return Err(rules::refuse(
            op.name(),
            Kind::Shape,
            format_args!("{} has {} elements, {to} takes {}", inputs[0].shape, inputs[0].shape.numel(), to.numel()),
        ));
    }
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape: to.clone() }])
}
fn infer_permute(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let Some(Prim::Permute(order)) = op.prim() else { return Err(wrong(op, inputs)) };
    let mut seen: smallvec::SmallVec<[usize; 4]> = order.clone();
    seen.sort_unstable();
    if !seen.iter().copied().eq(0..inputs[0].rank()) {
        return Err(wrong(op, inputs));
    }
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape: order.iter().map(|&o| inputs[0].shape.dim(o)).collect() }])
}
fn infer_expand(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let Some(Prim::Expand(to)) = op.prim() else { return Err(wrong(op, inputs)) };
    let from = &inputs[0].shape;
    let fits = from.rank() <= to.rank() && from.iter().rev().zip(to.iter().rev()).all(|(a, b)| a == b || a.is_one());
    if !fits {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("{from} does not broadcast to {to}")));
    }
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape: to.clone() }])
}
fn check_start(op: &Op, start: &Type) -> Result<()> {
    if start.dtype == DType::I64 && start.rank() == 0 {
        return Ok(());
    }
    Err(rules::refuse(op.name(), Kind::DType, format_args!("the start is i64 [], got {start}")))
}
/// Elements that `len` steps of `step` span.
fn span(len: Dim, step: i64) -> u64 {
    if len.bound() == 0 { 0 } else { (len.bound() as u64 - 1) * step.unsigned_abs() + 1 }
}
fn infer_slice(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    check_start(op, inputs[1])?;
    let Some(&Prim::Slice { axis, len, step }) = op.prim() else { return Err(wrong(op, inputs)) };
    if axis >= inputs[0].rank() || step == 0 || span(len, step) > inputs[0].shape.dim(axis).bound() as u64 {
        return Err(wrong(op, inputs));
    }
    let mut shape = inputs[0].shape.clone();
    shape.set(axis, len);
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape }])
}
fn infer_update_slice(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 3)?;
    check_start(op, inputs[2])?;
    let Some(&Prim::UpdateSlice { axis, step }) = op.prim() else { return Err(wrong(op, inputs)) };
    let (x, u) = (inputs[0], inputs[1]);
    let others = |t: &Type| {
        let mut s = t.shape.clone();
        if axis < s.rank() {
            s.set(axis, 1);
        }
        s
    };
    if axis >= x.rank()
        || step == 0
        || x.dtype != u.dtype
        || others(x) != others(u)
        || span(u.shape.dim(axis), step) > x.shape.dim(axis).bound() as u64
    {
        return Err(wrong(op, inputs));
    }
    Ok(smallvec![x.clone()])
}
fn infer_pad(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let Some(&Prim::Pad { axis, before, after }) = op.prim() else { return Err(wrong(op, inputs)) };
    if axis >= inputs[0].rank() || inputs[1].rank() != 0 || inputs[1].dtype != inputs[0].dtype {
        return Err(wrong(op, inputs));
    }
    let Some(n) = inputs[0].shape.dim(axis).known() else {
        return Err(rules::refuse(op.name(), Kind::Unsupported, "a symbolic size is not padded"));
    };
    let mut shape = inputs[0].shape.clone();
    shape.set(axis, n + before as usize + after as usize);
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape }])
}
fn infer_concat(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let (Some(&Prim::Concat { axis }), Some(first)) = (op.prim(), inputs.first()) else {
        return Err(wrong(op, inputs));
    };
    if axis >= first.rank() {
        return Err(wrong(op, inputs));
    }
    let mut shape = first.shape.clone();
    let mut total = 0;
    for t in inputs {
        let mut s = t.shape.clone();
        let fits = t.dtype == first.dtype && t.rank() == first.rank();
        let Some(n) = fits.then(|| t.shape.dim(axis).known()).flatten() else { return Err(wrong(op, inputs)) };
        s.set(axis, shape.dim(axis));
        if s != shape {
            return Err(wrong(op, inputs));
        }
        total += n;
    }
    shape.set(axis, total);
    Ok(smallvec![Type { dtype: first.dtype, shape }])
}

pub(super) static RESHAPE: OpDef =
    OpDef { sig: "reshape(Tensor self, SymInt[] shape) -> Tensor", infer: infer_reshape, ..OpDef::DEFAULT };
pub(super) static PERMUTE: OpDef =
    OpDef { sig: "permute(Tensor self, int[] dims) -> Tensor", infer: infer_permute, ..OpDef::DEFAULT };
pub(super) static EXPAND: OpDef = OpDef {
    sig: "expand(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    infer: infer_expand,
    ..OpDef::DEFAULT
};
pub(super) static SLICE: OpDef = OpDef {
    sig: "slice_at(Tensor self, Tensor start, int dim, SymInt len, int step) -> Tensor",
    infer: infer_slice,
    ..OpDef::DEFAULT
};
pub(super) static PAD: OpDef = OpDef {
    sig: "pad_axis(Tensor self, Tensor fill, int dim, int before, int after) -> Tensor",
    infer: infer_pad,
    ..OpDef::DEFAULT
};
pub(super) static CONCAT: OpDef =
    OpDef { sig: "cat(Tensor[] tensors, int dim=0) -> Tensor", infer: infer_concat, ..OpDef::DEFAULT };
pub(super) static UPDATE_SLICE: OpDef = OpDef {
    sig: "update_slice(Tensor self, Tensor update, Tensor start, int dim, int step) -> Tensor",
    infer: infer_update_slice,
    ..OpDef::DEFAULT
};
