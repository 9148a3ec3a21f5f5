//! Computed addresses: gather and scatter.
use crate::{Op, OpDef, Prim, Type, Types, rules};
use rtx_core::{DType, Kind, Result, Shape};
use smallvec::smallvec;

/// `x` with `axis` replaced by the shape of the indices.
fn gathered(x: &Shape, axis: usize, indices: &Shape) -> Shape {
    x.iter().take(axis).chain(indices.iter()).chain(x.iter().skip(axis + 1)).collect()
}
fn infer_gather(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (x, i) = (inputs[0], inputs[1]);
    match op.prim() {
        Some(&Prim::Gather { axis }) if axis < x.rank() && i.dtype == DType::I64 => {
            Ok(smallvec![Type { dtype: x.dtype, shape: gathered(&x.shape, axis, &i.shape) }])
        }
        _ => Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs)))),
    }
}
fn infer_scatter(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 3)?;
    let (x, i, u) = (inputs[0], inputs[1], inputs[2]);
    match op.prim() {
        Some(&Prim::Scatter { axis, .. })
            if axis < x.rank()
                && i.dtype == DType::I64
                && u.dtype == x.dtype
                && u.shape == gathered(&x.shape, axis, &i.shape) =>
        {
            Ok(smallvec![x.clone()])
        }
        _ => Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs)))),
    }
}

pub(super) static GATHER: OpDef =
    OpDef { sig: "take_along(Tensor self, Tensor index, int dim) -> Tensor", infer: infer_gather, ..OpDef::DEFAULT };
pub(super) static SCATTER: OpDef = OpDef {
    sig: "scatter_along(Tensor self, Tensor index, Tensor src, int dim, str reduce) -> Tensor",
    infer: infer_scatter,
    ..OpDef::DEFAULT
};
