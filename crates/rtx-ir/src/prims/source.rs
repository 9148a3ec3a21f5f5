//! Values from nowhere: constants, run-time numbers, counters, random bits; and the barrier.
use crate::{Effects, Grad, Jvp, Op, OpDef, Prim, Refusal, Sample, Saves, Stability, Type, Types, record, rules};
use rtx_core::{DType, Kind, Result, Shape};
use smallvec::smallvec;

fn infer_source(op: &Op, inputs: &[&Type]) -> Result<Types> {
    match op.prim() {
        Some(Prim::Param { dtype: DType::C128 }) => {
            Err(rules::refuse(op.name(), Kind::DType, "a run-time number has 8 bytes, c128 has 16"))
        }
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

const SOURCE: OpDef = OpDef {
    infer: infer_source,
    grad: Grad::None,
    jvp: Jvp::None,
    saves: Saves::NONE,
    cost: 0,
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

pub(super) static CONSTANT: OpDef = OpDef {
    sig: "constant(Scalar value, *, ScalarType dtype) -> Tensor",
    doc: "A number of rank 0 that is part of the program.",
    record: |b, def, a| Ok(smallvec![b.constant(record::dtype(def, a, 1)?, record::number(def, a, 0)?)?]),
    samples: &[
        Sample::exact("0.1, f32"),
        Sample::exact("-1, i64"),
        Sample::exact("true, bool"),
        Sample::exact("1, u8"),
        Sample::exact("0.1, f8e4m3"),
        Sample::exact("-0.1, f8e5m2"),
        Sample::exact("0.1, c64"),
        Sample::exact("0.1, c128"),
    ],
    ..SOURCE
};
pub(super) static PARAM: OpDef = OpDef {
    sig: "param(Scalar value, *, ScalarType dtype) -> Tensor",
    doc: "A number of rank 0 whose value is no part of the program.",
    runtime: &["value"],
    record: |b, def, a| {
        let (dtype, value) = (record::dtype(def, a, 1)?, record::number(def, a, 0)?);
        Ok(smallvec![b.param(dtype, value)?])
    },
    samples: &[
        Sample::exact("0.1, f32"),
        Sample::exact("-1, i64"),
        Sample::exact("0.1, bf16"),
        Sample::exact("0.1, c64"),
        Sample::exact("0.1, c128"),
        Sample::exact("0.1, f8e5m2"),
    ],
    ..SOURCE
};
pub(super) static IOTA: OpDef = OpDef {
    sig: "iota(SymInt[] size, int dim) -> Tensor",
    doc: "The position along `dim`, i64.",
    record: |b, def, a| {
        let shape = record::shape(def, a, 0)?;
        let axis = rules::check_dim(def.name(), record::int(def, a, 1)?, shape.rank())?;
        Ok(smallvec![b.prim(Prim::Iota { shape, axis }, &[])?])
    },
    samples: &[Sample::exact("[2, 3], 1"), Sample::exact("[2, 3], -2"), Sample::exact("[0], 0")],
    refuses: &[Refusal::of("[2], 1", "iota: dim 1 is outside -1..1 for a tensor of rank 1")],
    ..SOURCE
};
pub(super) static RANDOM_BITS: OpDef = OpDef {
    sig: "random_bits(Tensor key, Tensor ordinal, SymInt[] size) -> Tensor",
    doc: "Word 0 of Philox4x32-10 with key `key` at the counter (row-major position, `ordinal`), u32 (Salmon et al. \
          2011, \"Parallel random numbers: as easy as 1, 2, 3\").",
    runtime: &["key", "ordinal"],
    record: |b, def, a| {
        let key = record::tensor_or_number(b, def, a, 0, DType::I64)?;
        let ordinal = record::tensor_or_number(b, def, a, 1, DType::I64)?;
        Ok(smallvec![b.prim(Prim::RandomBits { shape: record::shape(def, a, 2)? }, &[key, ordinal])?])
    },
    infer: infer_random,
    cost: 40,
    samples: &[Sample::exact("7, 0, [2, 3]"), Sample::exact("-1, 12345678901, [5]"), Sample::exact("7, 1, [0]")],
    ..SOURCE
};
pub(super) static BARRIER: OpDef = OpDef {
    sig: "barrier(Tensor self) -> Tensor",
    doc: "The operand itself; nothing is merged or fused across it.",
    record: |b, def, a| Ok(smallvec![b.prim(Prim::Barrier, &[record::tensor(def, a, 0)?])?]),
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 1)?;
        Ok(smallvec![inputs[0].clone()])
    },
    grad: Grad::Rule(|_, cx| cx.each(|_| Ok(cx.ct()))),
    jvp: Jvp::FromGrad,
    effects: Effects::Barrier,
    samples: &[Sample::grad("f32[2,3]", 0), Sample::exact("i64[3] in 0..9")],
    ..SOURCE
};
