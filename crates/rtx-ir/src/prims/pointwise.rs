//! Element by element: functions of one, two and three numbers.
use crate::record::{self, Met, Promotion};
use crate::{
    Arg, Batch, Bound, Builder, Grad, GradCx, Grads, Jvp, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability,
    Type, Types, ValueId, rules,
};
use rtx_core::{Arith, Class, Comparison, DType, Function, Kind, Result, Scalar};
use smallvec::smallvec;

mod arithmetic;
mod comparison;
mod functions;
mod parts;
mod special;

pub(super) use arithmetic::{ADD, AND, ATAN2, DIV, FMA, MAX, MIN, MUL, OR, POW, REM, SHL, SHR, SUB, XOR};
pub(super) use comparison::{EQ, LE, LT, SELECT};
pub(super) use functions::{
    ABS, BITCAST, CAST, CEIL, COS, ERF, EXP, EXPM1, FLOOR, LOG, LOG1P, NEG, NOT, ROUND, SIGN, SIN, SQRT, TANH, TRUNC,
};
pub(super) use parts::{COMPLEX, IMAG, REAL};
pub use special::polygamma;
pub(super) use special::{DIGAMMA, ERFC, LGAMMA};

/// As many operands as the primitive takes, all of one type.
fn check_operands_equal(op: &Op, inputs: &[&Type]) -> Result<()> {
    let arity = match op.prim() {
        Some(Prim::Unary(_)) => 1,
        Some(Prim::Fma) => 3,
        _ => 2,
    };
    rules::check_arity(op, inputs, arity)?;
    rules::check_equal(op, inputs)?;
    rules::check_arithmetic(op.name(), inputs[0])
}
/// Anything.
fn infer_any(op: &Op, inputs: &[&Type]) -> Result<Types> {
    check_operands_equal(op, inputs)?;
    Ok(smallvec![inputs[0].clone()])
}
/// Floats only.
fn infer_float(op: &Op, inputs: &[&Type]) -> Result<Types> {
    check_operands_equal(op, inputs)?;
    rules::check_float(op.name(), inputs[0])?;
    Ok(smallvec![inputs[0].clone()])
}
/// Every number; bool is none.
fn infer_number(op: &Op, inputs: &[&Type]) -> Result<Types> {
    check_operands_equal(op, inputs)?;
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
    check_operands_equal(op, inputs)?;
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
    check_operands_equal(op, inputs)?;
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

/// What pointwise primitives share.
const POINTWISE: OpDef =
    OpDef { batch: Batch::Pointwise, stability: Stability::Stable, infer: infer_number, ..OpDef::DEFAULT };
/// Functions of a float; users may give integers.
const TRANSCENDENTAL: OpDef = OpDef { infer: infer_float, cost: 12, ..POINTWISE };
/// Steps: the derivative is zero wherever there is one.
const STEP: OpDef = OpDef { grad: Grad::Rule(|b, cx| cx.zeros(b)), saves: Saves::NONE, ..POINTWISE };
/// Functions of bits.
const BITS: OpDef = OpDef { infer: infer_bits, grad: Grad::None, jvp: Jvp::None, saves: Saves::NONE, ..POINTWISE };
/// Comparisons.
const COMPARISON: OpDef =
    OpDef { infer: infer_compare, grad: Grad::None, jvp: Jvp::None, saves: Saves::NONE, ..POINTWISE };

/// A function of one number that keeps the dtype.
fn unary(b: &mut Builder<'_>, def: &OpDef, a: &Bound, f: Function) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    // What is 0 or 1 is its own magnitude and sign.
    if b.dtype(x) == DType::Bool && matches!(f, Function::Abs | Function::Sign) {
        return Ok(smallvec![x]);
    }
    if b.dtype(x) == DType::Bool && f != Function::Not {
        return Err(needs_numbers(def, b.ty(x)));
    }
    Ok(smallvec![b.unary(f, x)?])
}
/// A function of a float: bool and integers become f32.
fn float_unary(b: &mut Builder<'_>, def: &OpDef, a: &Bound, f: Function) -> Result<Outs> {
    record::pointwise(b, def, &record::first::<1>(a), Promotion::Float, |b, m| b.unary(f, m.values[0]))
}
/// Rounding; integers are what they are.
fn rounding(b: &mut Builder<'_>, def: &OpDef, a: &Bound, f: Function) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    if b.dtype(x).is_int() { Ok(smallvec![x]) } else { unary(b, def, a, f) }
}
/// A function of two numbers that keeps the dtype in which they meet.
fn binary(b: &mut Builder<'_>, def: &OpDef, a: &Bound, p: Promotion, f: Arith) -> Result<Outs> {
    record::pointwise(b, def, &record::first::<2>(a), p, |b, m| {
        check_operands(b, def, m, f)?;
        b.binary(f, m.values[0], m.values[1])
    })
}
/// Refuses in the user's words what inference would refuse in the primitive's.
fn check_operands(b: &Builder<'_>, def: &OpDef, m: &Met, f: Arith) -> Result<()> {
    let ty = b.ty(m.values[0]);
    match f {
        Arith::And | Arith::Or | Arith::Xor if ty.dtype.class() > Class::Int => Err(needs_bits(def, ty)),
        Arith::Shl | Arith::Shr if !ty.dtype.is_int() => {
            Err(rules::refuse(def.name(), Kind::DType, format_args!("needs integer tensors, got {ty}")))
        }
        Arith::Rem | Arith::Pow if ty.dtype == DType::Bool => Err(needs_numbers(def, ty)),
        _ => Ok(()),
    }
}
fn needs_numbers(def: &OpDef, ty: &Type) -> rtx_core::Error {
    rules::refuse(def.name(), Kind::DType, format_args!("needs a tensor of numbers, got {ty}"))
}
fn needs_bits(def: &OpDef, ty: &Type) -> rtx_core::Error {
    rules::refuse(def.name(), Kind::DType, format_args!("needs a bool or integer tensor, got {ty}"))
}
fn not(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    if b.dtype(x).class() > Class::Int {
        return Err(needs_bits(def, b.ty(x)));
    }
    unary(b, def, a, Function::Not)
}
/// `self ± alpha * other`; of bools the sum is `or`, the product `and`, and there is no difference.
fn sum(b: &mut Builder<'_>, def: &OpDef, a: &Bound, f: Arith) -> Result<Outs> {
    let (args, alpha) = (record::first::<2>(a), a.get(2));
    record::pointwise(b, def, &args, Promotion::Meet, |b, m| {
        let bool = m.result == DType::Bool;
        if bool && f == Arith::Sub {
            return Err(rules::refuse(def.name(), Kind::DType, "bool tensors are not subtracted")
                .hint("bitwise_xor tells where two bool tensors differ"));
        }
        let other = scaled(b, def, m, alpha)?;
        b.binary(if bool { Arith::Or } else { f }, m.values[0], other)
    })
}
/// `alpha * other`; an alpha of 1, the usual one, leaves no trace.
fn scaled(b: &mut Builder<'_>, def: &OpDef, m: &Met, alpha: &Arg) -> Result<ValueId> {
    let other = m.values[1];
    let alpha = match alpha {
        Arg::None | Arg::Scalar(Scalar::Int(1)) => return Ok(other),
        Arg::Scalar(s) if *s == Scalar::Float(1.0) && m.result.is_float() => return Ok(other),
        Arg::Scalar(s) => *s,
        _ => return Err(rules::refuse(def.name(), Kind::Argument, "alpha takes a number")),
    };
    if matches!(alpha, Scalar::Float(_)) && !m.result.is_float() {
        return Err(rules::refuse(def.name(), Kind::Argument, "alpha is a float, the tensors are not"));
    }
    let alpha = b.param(m.compute, alpha)?;
    b.binary(if m.result == DType::Bool { Arith::And } else { Arith::Mul }, other, alpha)
}
fn product(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    record::pointwise(b, def, &record::first::<2>(a), Promotion::Meet, |b, m| {
        b.binary(if m.result == DType::Bool { Arith::And } else { Arith::Mul }, m.values[0], m.values[1])
    })
}
fn power(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    if let Arg::Scalar(Scalar::Int(n)) = a.get(1)
        && *n < 0
        && record::meeting_dtype(b, def, &record::first::<2>(a), Promotion::Meet)?.class() < Class::Float
    {
        let what = format_args!("integers have no negative powers, got the exponent {n}");
        return Err(rules::refuse(def.name(), Kind::Argument, what));
    }
    binary(b, def, a, Promotion::Meet, Arith::Pow)
}
/// Numbers are rounded to the tensor's dtype before they are compared, as PyTorch does.
fn comparison(b: &mut Builder<'_>, def: &OpDef, a: &Bound, f: Comparison) -> Result<Outs> {
    let args = record::first::<2>(a);
    let dtype = record::meeting_dtype(b, def, &args, Promotion::Meet)?;
    let v = record::meet_in(b, def, &args, dtype)?;
    Ok(smallvec![b.compare(f, v[0], v[1])?])
}
fn choice(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let cond = record::tensor(def, a, 0)?;
    if b.dtype(cond) != DType::Bool {
        return Err(rules::refuse(
            def.name(),
            Kind::DType,
            format_args!("the condition is a bool tensor, got {}", b.ty(cond)),
        ));
    }
    let sides = [a.get(1).clone(), a.get(2).clone()];
    let dtype = record::meeting_dtype(b, def, &sides, Promotion::Meet)?;
    let shape = {
        let shapes = [a.get(0), a.get(1), a.get(2)].into_iter();
        let shapes: Vec<_> =
            shapes.filter_map(|a| if let Arg::Value(v) = a { Some(&b.ty(*v).shape) } else { None }).collect();
        rules::broadcast_for(def.name(), &shapes)?
    };
    let v = record::meet_in(b, def, &sides, dtype)?;
    let operands = [b.expand(cond, &shape)?, b.expand(v[0], &shape)?, b.expand(v[1], &shape)?];
    Ok(smallvec![b.prim(Prim::Select, &operands)?])
}
