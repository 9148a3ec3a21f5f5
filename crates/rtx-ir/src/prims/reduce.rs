//! Reductions: axes folded away.
use crate::{Op, OpDef, Prim, Type, Types, rules};
use rtx_core::{DType, Fold, Kind, Result};
use smallvec::smallvec;

fn infer_reduce(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let x = inputs[0];
    let Some(Prim::Reduce { fold, axes }) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a reduction"));
    };
    if axes.iter().any(|&a| a >= x.rank()) || axes.windows(2).any(|w| w[0] >= w[1]) {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("axes {axes:?} do not fit {x}")));
    }
    if x.dtype == DType::Bool && matches!(fold, Fold::Sum | Fold::Prod) {
        return Err(rules::refuse(op.name(), Kind::DType, format_args!("needs a tensor of numbers, got {x}")));
    }
    Ok(smallvec![Type {
        dtype: x.dtype,
        shape: (0..x.rank()).filter(|i| !axes.contains(i)).map(|i| x.shape.dim(i)).collect()
    }])
}
fn infer_arg(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let x = inputs[0];
    match op.prim() {
        Some(&Prim::ArgReduce { axis, .. }) if axis < x.rank() => Ok(smallvec![Type {
            dtype: DType::I64,
            shape: (0..x.rank()).filter(|&i| i != axis).map(|i| x.shape.dim(i)).collect()
        }]),
        _ => Err(rules::refuse(op.name(), Kind::Shape, format_args!("the axis does not fit {x}"))),
    }
}

pub(super) static SUM: OpDef =
    OpDef { sig: "reduce_sum(Tensor self, int[] dim) -> Tensor", infer: infer_reduce, ..OpDef::DEFAULT };
pub(super) static PROD: OpDef =
    OpDef { sig: "reduce_prod(Tensor self, int[] dim) -> Tensor", infer: infer_reduce, ..OpDef::DEFAULT };
pub(super) static MAX: OpDef =
    OpDef { sig: "reduce_max(Tensor self, int[] dim) -> Tensor", infer: infer_reduce, ..OpDef::DEFAULT };
pub(super) static MIN: OpDef =
    OpDef { sig: "reduce_min(Tensor self, int[] dim) -> Tensor", infer: infer_reduce, ..OpDef::DEFAULT };
pub(super) static ARG: OpDef =
    OpDef { sig: "arg_reduce(Tensor self, int dim, str extremum) -> Tensor", infer: infer_arg, ..OpDef::DEFAULT };
