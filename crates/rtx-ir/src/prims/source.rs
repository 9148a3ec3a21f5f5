//! Values from nowhere: constants, run-time numbers, counters, random bits; and the barrier.
use crate::{Op, OpDef, Prim, Type, Types, rules};
use rtx_core::{DType, Kind, Result, Shape};
use smallvec::smallvec;

fn infer_source(op: &Op, inputs: &[&Type]) -> Result<Types> {
    match op.prim() {
        Some(Prim::Constant { dtype, .. } | Prim::Param { dtype }) if inputs.is_empty() => {
            Ok(smallvec![Type { dtype: *dtype, shape: Shape::scalar() }])
        }
        Some(Prim::Iota { shape, axis }) if inputs.is_empty() && *axis < shape.rank() => {
            Ok(smallvec![Type { dtype: DType::I64, shape: shape.clone() }])
        }
        _ => Err(rules::refuse(
            op.name(),
            Kind::Argument,
            format_args!("takes no operands and an axis of its shape, got {}", rules::show(inputs)),
        )),
    }
}
fn infer_random(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let Some(Prim::RandomBits { shape }) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not random_bits"));
    };
    if inputs.iter().any(|t| t.dtype != DType::I64 || t.rank() != 0) {
        return Err(rules::refuse(
            op.name(),
            Kind::DType,
            format_args!("key and ordinal are i64 [], got {}", rules::show(inputs)),
        ));
    }
    Ok(smallvec![Type { dtype: DType::U32, shape: shape.clone() }])
}

pub(super) static CONSTANT: OpDef = OpDef { sig: "constant() -> Tensor", infer: infer_source, ..OpDef::DEFAULT };
pub(super) static PARAM: OpDef = OpDef { sig: "param() -> Tensor", infer: infer_source, ..OpDef::DEFAULT };
pub(super) static IOTA: OpDef =
    OpDef { sig: "iota(SymInt[] size, int dim) -> Tensor", infer: infer_source, ..OpDef::DEFAULT };
pub(super) static RANDOM_BITS: OpDef = OpDef {
    sig: "random_bits(Tensor key, Tensor ordinal, SymInt[] size) -> Tensor",
    infer: infer_random,
    ..OpDef::DEFAULT
};
pub(super) static BARRIER: OpDef = OpDef { sig: "barrier(Tensor self) -> Tensor", ..OpDef::DEFAULT };
