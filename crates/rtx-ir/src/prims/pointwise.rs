//! Element by element: functions of one, two and three numbers.
use crate::{Op, OpDef, Prim, Type, Types, rules};
use rtx_core::{Class, DType, Kind, Result};
use smallvec::smallvec;

/// Floats only.
fn infer_float(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_equal(op, inputs)?;
    rules::check_float(op.name(), inputs[0])?;
    Ok(smallvec![inputs[0].clone()])
}
/// Every number; bool is none.
fn infer_number(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_equal(op, inputs)?;
    if inputs[0].dtype == DType::Bool {
        return Err(rules::refuse(
            op.name(),
            Kind::DType,
            format_args!("needs a tensor of numbers, got {}", inputs[0]),
        ));
    }
    Ok(smallvec![inputs[0].clone()])
}
/// Bool and integers.
fn infer_bits(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_equal(op, inputs)?;
    if inputs[0].dtype.class() > Class::Int {
        return Err(rules::refuse(
            op.name(),
            Kind::DType,
            format_args!("needs a bool or integer tensor, got {}", inputs[0]),
        ));
    }
    Ok(smallvec![inputs[0].clone()])
}
fn infer_compare(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_equal(op, inputs)?;
    Ok(smallvec![Type { dtype: DType::Bool, shape: inputs[0].shape.clone() }])
}
fn infer_select(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 3)?;
    if inputs[0].dtype != DType::Bool || inputs[0].shape != inputs[1].shape || inputs[1] != inputs[2] {
        return Err(rules::refuse(
            op.name(),
            Kind::Shape,
            format_args!("operands do not fit: {}", rules::show(inputs)),
        ));
    }
    Ok(smallvec![inputs[1].clone()])
}
fn infer_cast(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let Some(Prim::Cast(to) | Prim::Bitcast(to)) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a cast"));
    };
    if matches!(op.prim(), Some(Prim::Bitcast(_))) && to.size() != inputs[0].dtype.size() {
        return Err(rules::refuse(op.name(), Kind::DType, format_args!("{} and {to} differ in size", inputs[0].dtype)));
    }
    Ok(smallvec![Type { dtype: *to, shape: inputs[0].shape.clone() }])
}

pub(super) static NEG: OpDef = OpDef { sig: "neg(Tensor self) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static ABS: OpDef = OpDef { sig: "abs(Tensor self) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static SIGN: OpDef = OpDef { sig: "sign(Tensor self) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static FLOOR: OpDef = OpDef { sig: "floor(Tensor self) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static CEIL: OpDef = OpDef { sig: "ceil(Tensor self) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static TRUNC: OpDef = OpDef { sig: "trunc(Tensor self) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static ROUND: OpDef = OpDef { sig: "round(Tensor self) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static SQRT: OpDef = OpDef { sig: "sqrt(Tensor self) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static EXP: OpDef = OpDef { sig: "exp(Tensor self) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static EXPM1: OpDef = OpDef { sig: "expm1(Tensor self) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static LOG: OpDef = OpDef { sig: "log(Tensor self) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static LOG1P: OpDef = OpDef { sig: "log1p(Tensor self) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static SIN: OpDef = OpDef { sig: "sin(Tensor self) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static COS: OpDef = OpDef { sig: "cos(Tensor self) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static TANH: OpDef = OpDef { sig: "tanh(Tensor self) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static ERF: OpDef = OpDef { sig: "erf(Tensor self) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static NOT: OpDef = OpDef { sig: "bitwise_not(Tensor self) -> Tensor", infer: infer_bits, ..OpDef::DEFAULT };
pub(super) static ADD: OpDef = OpDef {
    sig: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    infer: infer_number,
    ..OpDef::DEFAULT
};
pub(super) static SUB: OpDef = OpDef {
    sig: "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    infer: infer_number,
    ..OpDef::DEFAULT
};
pub(super) static MUL: OpDef =
    OpDef { sig: "mul.Tensor(Tensor self, Tensor other) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static DIV: OpDef =
    OpDef { sig: "div.Tensor(Tensor self, Tensor other) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static REM: OpDef =
    OpDef { sig: "remainder.Tensor(Tensor self, Tensor other) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static POW: OpDef =
    OpDef { sig: "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", infer: infer_number, ..OpDef::DEFAULT };
pub(super) static ATAN2: OpDef =
    OpDef { sig: "atan2(Tensor self, Tensor other) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static MAX: OpDef =
    OpDef { sig: "maximum(Tensor self, Tensor other) -> Tensor", infer: rules::infer_same, ..OpDef::DEFAULT };
pub(super) static MIN: OpDef =
    OpDef { sig: "minimum(Tensor self, Tensor other) -> Tensor", infer: rules::infer_same, ..OpDef::DEFAULT };
pub(super) static AND: OpDef =
    OpDef { sig: "bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", infer: infer_bits, ..OpDef::DEFAULT };
pub(super) static OR: OpDef =
    OpDef { sig: "bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", infer: infer_bits, ..OpDef::DEFAULT };
pub(super) static XOR: OpDef =
    OpDef { sig: "bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", infer: infer_bits, ..OpDef::DEFAULT };
pub(super) static SHL: OpDef = OpDef {
    sig: "bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor",
    infer: infer_bits,
    ..OpDef::DEFAULT
};
pub(super) static SHR: OpDef = OpDef {
    sig: "bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor",
    infer: infer_bits,
    ..OpDef::DEFAULT
};
pub(super) static EQ: OpDef =
    OpDef { sig: "eq.Tensor(Tensor self, Tensor other) -> Tensor", infer: infer_compare, ..OpDef::DEFAULT };
pub(super) static LT: OpDef =
    OpDef { sig: "lt.Tensor(Tensor self, Tensor other) -> Tensor", infer: infer_compare, ..OpDef::DEFAULT };
pub(super) static LE: OpDef =
    OpDef { sig: "le.Tensor(Tensor self, Tensor other) -> Tensor", infer: infer_compare, ..OpDef::DEFAULT };
pub(super) static FMA: OpDef =
    OpDef { sig: "fma(Tensor self, Tensor other, Tensor addend) -> Tensor", infer: infer_float, ..OpDef::DEFAULT };
pub(super) static SELECT: OpDef = OpDef {
    sig: "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    infer: infer_select,
    ..OpDef::DEFAULT
};
pub(super) static CAST: OpDef =
    OpDef { sig: "to.dtype(Tensor self, ScalarType dtype) -> Tensor", infer: infer_cast, ..OpDef::DEFAULT };
pub(super) static BITCAST: OpDef =
    OpDef { sig: "view.dtype(Tensor self, ScalarType dtype) -> Tensor", infer: infer_cast, ..OpDef::DEFAULT };
