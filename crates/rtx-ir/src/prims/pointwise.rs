//! Element by element: functions of one, two and three numbers.
use crate::record::{self, Met, Promotion};
use crate::{
    Arg, Batch, Bound, Builder, Grad, GradCx, Grads, Jvp, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability,
    Type, Types, ValueId, rules,
};
use rtx_core::{Arith, Class, Comparison, DType, Function, Kind, Result, Scalar};
use smallvec::smallvec;

/// As many operands as the primitive takes, all of one type.
fn check_operands_equal(op: &Op, inputs: &[&Type]) -> Result<()> {
    let arity = match op.prim() {
        Some(Prim::Unary(_)) => 1,
        Some(Prim::Fma) => 3,
        _ => 2,
    };
    rules::check_arity(op, inputs, arity)?;
    rules::check_equal(op, inputs)
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

/// The larger (or smaller) operand takes the cotangent, equal ones half of it each; beside NaN both take it, as in
/// PyTorch.
fn grad_extremum(
    b: &mut Builder<'_>,
    cx: &GradCx<'_>,
    loses: fn(&mut Builder<'_>, ValueId, ValueId) -> Result<ValueId>,
) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [x, y]| {
        let tie = b.eq(x, y)?;
        let half = b.mul(g, 0.5)?;
        let shared = b.select(tie, half, g)?;
        let lost = if i == 0 { loses(b, x, y)? } else { loses(b, y, x)? };
        b.select(lost, 0.0, shared)
    })
}
fn grad_pow(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let reads = [cx.inputs[0], cx.inputs[1], cx.outputs[0]];
    cx.wide(b, reads, |b, i, g, [x, n, y]| {
        if i == 0 {
            // n x^(n-1); an exponent of 0 gives 0, also at x = 0.
            let less = b.sub(n, 1.0)?;
            let power = b.pow(x, less)?;
            let slope = b.mul(n, power)?;
            let constant = b.eq(n, 0.0)?;
            let slope = b.select(constant, 0.0, slope)?;
            return b.mul(g, slope);
        }
        // y log x; at x = 0 with n >= 0 the limit is 0.
        let log = b.log(x)?;
        let slope = b.mul(y, log)?;
        let (zero, up) = (b.eq(x, 0.0)?, b.le(0.0, n)?);
        let flat = b.and(zero, up)?;
        let slope = b.select(flat, 0.0, slope)?;
        b.mul(g, slope)
    })
}
fn grad_atan2(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [y, x]| {
        let (yy, xx) = (b.mul(y, y)?, b.mul(x, x)?);
        let square = b.add(yy, xx)?;
        let side = if i == 0 { x } else { b.neg(y)? };
        let slope = b.div(side, square)?;
        b.mul(g, slope)
    })
}
fn grad_div(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [x, y]| {
        if i == 0 {
            return b.div(g, y);
        }
        let ratio = b.div(x, y)?;
        let slope = b.div(ratio, y)?;
        let r = b.mul(g, slope)?;
        b.neg(r)
    })
}
fn grad_rem(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [x, y]| {
        if i == 0 {
            return Ok(g);
        }
        let ratio = b.div(x, y)?;
        let steps = b.floor(ratio)?;
        let r = b.mul(g, steps)?;
        b.neg(r)
    })
}
fn grad_erf(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
        let square = b.mul(x, x)?;
        let down = b.neg(square)?;
        let bell = b.exp(down)?;
        let slope = b.mul(bell, std::f64::consts::FRAC_2_SQRT_PI)?;
        b.mul(g, slope)
    })
}

pub(super) static NEG: OpDef = OpDef {
    sig: "neg(Tensor self) -> Tensor",
    doc: "`-x`; integers wrap.",
    record: |b, def, a| unary(b, def, a, Function::Neg),
    grad: Grad::Rule(|b, cx| cx.each(|_| b.neg(cx.ct()))),
    saves: Saves::NONE,
    samples: &[
        Sample::grad("f32[2,3] in -2..2", 0),
        Sample::exact("f32[0]"),
        Sample::exact("f32[5] = 0 -0 inf -inf nan"),
        Sample::exact("i64[7] in -9..9"),
        Sample::exact("f64[]"),
    ],
    refuses: &[Refusal::of("bool[2]", "neg: needs a tensor of numbers, got bool [2]")],
    ..POINTWISE
};

pub(super) static ABS: OpDef = OpDef {
    sig: "abs(Tensor self) -> Tensor",
    doc: "`|x|`; integers wrap. The derivative at 0 is 0.",
    record: |b, def, a| unary(b, def, a, Function::Abs),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
            let side = b.sign(x)?;
            b.mul(g, side)
        })
    }),
    saves: Saves::Inputs,
    samples: &[
        Sample::grad("f32[2,3] in -2..2", 0),
        Sample::grad("f32[3] = 0 1 -1", 0),
        Sample::exact("f32[5] = 0 -0 inf -inf nan"),
        Sample::exact("i64[7] in -9..9"),
    ],
    refuses: &[Refusal::of("bool[2]", "abs: needs a tensor of numbers, got bool [2]")],
    ..POINTWISE
};

pub(super) static SIGN: OpDef = OpDef {
    sig: "sign(Tensor self) -> Tensor",
    doc: "-1, 0 or 1; NaN stays NaN.",
    record: |b, def, a| unary(b, def, a, Function::Sign),
    samples: &[
        Sample::grad("f32[2,3] in 0.5..2", 0),
        Sample::exact("f32[5] = 0 -0 inf -inf nan"),
        Sample::exact("i64[7] in -9..9"),
    ],
    refuses: &[Refusal::of("bool[2]", "sign: needs a tensor of numbers, got bool [2]")],
    ..STEP
};

pub(super) static FLOOR: OpDef = OpDef {
    sig: "floor(Tensor self) -> Tensor",
    doc: "The largest integer that is not larger; integers stay.",
    record: |b, def, a| rounding(b, def, a, Function::Floor),
    samples: &[
        Sample::grad("f32[2,3] in 0.1..0.4", 0),
        Sample::exact("f32[9] = 0.5 1.5 2.5 -0.5 -1.5 -0 inf nan 16777217"),
        Sample::exact("f64[3] = 0.5 -2.5 1e300"),
        Sample::exact("i64[3] in -9..9"),
    ],
    refuses: &[Refusal::of("bool[2]", "floor: needs a tensor of numbers, got bool [2]")],
    ..STEP
};

pub(super) static CEIL: OpDef = OpDef {
    sig: "ceil(Tensor self) -> Tensor",
    doc: "The smallest integer that is not smaller; integers stay.",
    record: |b, def, a| rounding(b, def, a, Function::Ceil),
    samples: &[
        Sample::grad("f32[2,3] in 0.1..0.4", 0),
        Sample::exact("f32[9] = 0.5 1.5 2.5 -0.5 -1.5 -0 inf nan 16777217"),
        Sample::exact("f64[3] = 0.5 -2.5 1e300"),
        Sample::exact("i64[3] in -9..9"),
    ],
    refuses: &[Refusal::of("bool[2]", "ceil: needs a tensor of numbers, got bool [2]")],
    ..STEP
};

pub(super) static TRUNC: OpDef = OpDef {
    sig: "trunc(Tensor self) -> Tensor",
    doc: "The integer part; integers stay.",
    record: |b, def, a| rounding(b, def, a, Function::Trunc),
    samples: &[
        Sample::grad("f32[2,3] in 0.1..0.4", 0),
        Sample::exact("f32[9] = 0.5 1.5 2.5 -0.5 -1.5 -0 inf nan 16777217"),
        Sample::exact("f64[3] = 0.5 -2.5 1e300"),
        Sample::exact("i64[3] in -9..9"),
    ],
    refuses: &[Refusal::of("bool[2]", "trunc: needs a tensor of numbers, got bool [2]")],
    ..STEP
};

pub(super) static ROUND: OpDef = OpDef {
    sig: "round(Tensor self) -> Tensor",
    doc: "The nearest integer, halves to even; integers stay.",
    record: |b, def, a| rounding(b, def, a, Function::RoundEven),
    samples: &[
        Sample::grad("f32[2,3] in 0.1..0.4", 0),
        Sample::exact("f32[9] = 0.5 1.5 2.5 -0.5 -1.5 -0 inf nan 16777217"),
        Sample::exact("f64[3] = 0.5 -2.5 1e300"),
        Sample::exact("i64[3] in -9..9"),
    ],
    refuses: &[Refusal::of("bool[2]", "round: needs a tensor of numbers, got bool [2]")],
    ..STEP
};

pub(super) static SQRT: OpDef = OpDef {
    sig: "sqrt(Tensor self) -> Tensor",
    doc: "`√x`, correctly rounded.",
    record: |b, def, a| float_unary(b, def, a, Function::Sqrt),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.outputs[0]], |b, _, g, [v]| {
            let r = b.div(g, v)?;
            b.mul(r, 0.5)
        })
    }),
    saves: Saves::OUTPUT,
    cost: 4,
    samples: &[
        Sample::grad("f32[2,3] in 0.5..9", 0),
        Sample::grad("f64[5] in 0.5..9", 0),
        Sample::of("f32[7] = 0 -0 -1 inf nan 1e-40 2", 0),
        Sample::of("i64[3] = 0 1 2", 0),
        Sample::of("bool[2]", 0),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(super) static EXP: OpDef = OpDef {
    sig: "exp(Tensor self) -> Tensor",
    doc: "`e^x`.",
    record: |b, def, a| float_unary(b, def, a, Function::Exp),
    grad: Grad::Rule(|b, cx| cx.wide(b, [cx.outputs[0]], |b, _, g, [v]| b.mul(g, v))),
    saves: Saves::OUTPUT,
    samples: &[
        Sample::grad("f32[2,3] in -3..3", 2),
        Sample::grad("f64[5] in -3..3", 2),
        Sample::of("f32[9] = 0 -0 inf -inf nan 88 89 -87 -200", 2),
        Sample::of("i64[3] = 0 1 2", 2),
        Sample::of("bool[2]", 2),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(super) static EXPM1: OpDef = OpDef {
    sig: "expm1(Tensor self) -> Tensor",
    doc: "`e^x - 1` without cancellation near 0.",
    record: |b, def, a| float_unary(b, def, a, Function::Expm1),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.outputs[0]], |b, _, g, [v]| {
            let slope = b.add(v, 1.0)?;
            b.mul(g, slope)
        })
    }),
    saves: Saves::OUTPUT,
    samples: &[
        Sample::grad("f32[2,3] in -3..3", 2),
        Sample::grad("f64[5] in -3..3", 2),
        Sample::of("f32[8] = 0 -0 inf -inf nan 1e-6 88 -200", 2),
        Sample::of("i64[3] = 0 1 2", 2),
        Sample::of("bool[2]", 2),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(super) static LOG: OpDef = OpDef {
    sig: "log(Tensor self) -> Tensor",
    doc: "The natural logarithm.",
    record: |b, def, a| float_unary(b, def, a, Function::Log),
    grad: Grad::Rule(|b, cx| cx.wide(b, [cx.inputs[0]], |b, _, g, [v]| b.div(g, v))),
    saves: Saves::Inputs,
    samples: &[
        Sample::grad("f32[2,3] in 0.5..9", 2),
        Sample::grad("f64[5] in 0.5..9", 2),
        Sample::of("f32[7] = 0 1 -1 inf nan 1e-30 1e30", 2),
        Sample::of("i64[3] = 0 1 2", 2),
        Sample::of("bool[2]", 2),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(super) static LOG1P: OpDef = OpDef {
    sig: "log1p(Tensor self) -> Tensor",
    doc: "`log(1 + x)` without cancellation near 0.",
    record: |b, def, a| float_unary(b, def, a, Function::Log1p),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0]], |b, _, g, [v]| {
            let y = b.add(v, 1.0)?;
            b.div(g, y)
        })
    }),
    saves: Saves::Inputs,
    samples: &[
        Sample::grad("f32[2,3] in -0.5..9", 2),
        Sample::grad("f64[5] in -0.5..9", 2),
        Sample::of("f32[7] = 0 -0 -1 -2 inf nan 1e-6", 2),
        Sample::of("i64[3] = 0 1 2", 2),
        Sample::of("bool[2]", 2),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(super) static SIN: OpDef = OpDef {
    sig: "sin(Tensor self) -> Tensor",
    doc: "Sine of radians.",
    record: |b, def, a| float_unary(b, def, a, Function::Sin),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0]], |b, _, g, [v]| {
            let slope = b.cos(v)?;
            b.mul(g, slope)
        })
    }),
    saves: Saves::Inputs,
    samples: &[
        Sample::grad("f32[2,3] in -6..6", 4),
        Sample::grad("f64[5] in -6..6", 4),
        Sample::of("f32[6] = 0 -0 inf nan 1e-6 100", 4),
        Sample::of("i64[3] = 0 1 2", 4),
        Sample::of("bool[2]", 4),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(super) static COS: OpDef = OpDef {
    sig: "cos(Tensor self) -> Tensor",
    doc: "Cosine of radians.",
    record: |b, def, a| float_unary(b, def, a, Function::Cos),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0]], |b, _, g, [v]| {
            let slope = b.sin(v)?;
            let r = b.mul(g, slope)?;
            b.neg(r)
        })
    }),
    saves: Saves::Inputs,
    samples: &[
        Sample::grad("f32[2,3] in -6..6", 4),
        Sample::grad("f64[5] in -6..6", 4),
        Sample::of("f32[6] = 0 -0 inf nan 1e-6 100", 4),
        Sample::of("i64[3] = 0 1 2", 4),
        Sample::of("bool[2]", 4),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(super) static TANH: OpDef = OpDef {
    sig: "tanh(Tensor self) -> Tensor",
    doc: "Hyperbolic tangent.",
    record: |b, def, a| float_unary(b, def, a, Function::Tanh),
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.outputs[0]], |b, _, g, [v]| {
            let square = b.mul(v, v)?;
            let slope = b.sub(1.0, square)?;
            b.mul(g, slope)
        })
    }),
    saves: Saves::OUTPUT,
    samples: &[
        Sample::grad("f32[2,3] in -3..3", 3),
        Sample::grad("f64[5] in -3..3", 3),
        Sample::of("f32[7] = 0 -0 inf -inf nan 1e-6 20", 3),
        Sample::of("i64[3] = 0 1 2", 3),
        Sample::of("bool[2]", 3),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(super) static ERF: OpDef = OpDef {
    sig: "erf(Tensor self) -> Tensor",
    doc: "The error function, `2/√π ∫₀ˣ e^(-t²) dt`.",
    record: |b, def, a| float_unary(b, def, a, Function::Erf),
    grad: Grad::Rule(grad_erf),
    saves: Saves::Inputs,
    samples: &[
        Sample::grad("f32[2,3] in -3..3", 3),
        Sample::grad("f64[5] in -3..3", 3),
        Sample::of("f32[7] = 0 -0 inf -inf nan 1e-6 6", 3),
        Sample::of("i64[3] = 0 1 2", 3),
        Sample::of("bool[2]", 3),
        Sample::of("f32[0]", 0),
    ],
    ..TRANSCENDENTAL
};

pub(super) static NOT: OpDef = OpDef {
    sig: "bitwise_not(Tensor self) -> Tensor",
    doc: "Every bit turned; of bools the other one.",
    record: not,
    samples: &[Sample::exact("i64[5] in -9..9"), Sample::exact("bool[4]"), Sample::exact("i32[3] in -9..9")],
    refuses: &[Refusal::of("f32[2]", "bitwise_not: needs a bool or integer tensor, got f32 [2]")],
    ..BITS
};

pub(super) static ADD: OpDef = OpDef {
    sig: "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    doc: "`self + alpha * other`, two roundings; integers wrap; of bools `or`.",
    runtime: &["alpha"],
    record: |b, def, a| sum(b, def, a, Arith::Add),
    grad: Grad::Rule(|_, cx| cx.each(|_| Ok(cx.ct()))),
    saves: Saves::NONE,
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[2,3] in 0.5..3", 0),
        Sample::grad("f32[2,1] in -3..-1, f64[3] in 1..2", 0),
        Sample::of("f32[4] in 1..3, 0.1", 0),
        Sample::of("i64[3] in 1..9, i32[3] in 1..9", 0),
        Sample::of("f32[0,2], f32[2]", 0),
        Sample::of("bf16[3] in 1..3, 0.1", 0),
        Sample::grad("f32[2] in -1..1, f32[2] in -1..1, 0.5", 0),
        Sample::of("i64[3] in 0..9, i64[3] in 0..9, 2", 0),
        Sample::exact("bool[4], bool[4]"),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "add: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
        Refusal::of("i64[2], i64[2], 0.5", "add: alpha is a float, the tensors are not"),
        Refusal::of("1, 2", "add: needs at least one tensor, got only numbers"),
    ],
    ..POINTWISE
};

pub(super) static SUB: OpDef = OpDef {
    sig: "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    doc: "`self - alpha * other`, two roundings; integers wrap.",
    runtime: &["alpha"],
    record: |b, def, a| sum(b, def, a, Arith::Sub),
    grad: Grad::Rule(|b, cx| cx.each(|i| if i == 0 { Ok(cx.ct()) } else { b.neg(cx.ct()) })),
    saves: Saves::NONE,
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[2,3] in 0.5..3", 0),
        Sample::grad("f32[2,1] in -3..-1, f64[3] in 1..2", 0),
        Sample::of("f32[4] in 1..3, 0.1", 0),
        Sample::of("i64[3] in 1..9, i32[3] in 1..9", 0),
        Sample::of("f32[0,2], f32[2]", 0),
        Sample::of("bf16[3] in 1..3, 0.1", 0),
        Sample::grad("f32[2] in -1..1, f32[2] in -1..1, 0.5", 0),
        Sample::of("i64[3] in 0..9, i64[3] in 0..9, 2", 0),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "sub: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
        Refusal::of("i64[2], i64[2], 0.5", "sub: alpha is a float, the tensors are not"),
        Refusal::of("1, 2", "sub: needs at least one tensor, got only numbers"),
        Refusal::of(
            "bool[2], bool[2]",
            "sub: bool tensors are not subtracted\n  hint: bitwise_xor tells where two bool tensors differ",
        ),
    ],
    ..POINTWISE
};

pub(super) static MUL: OpDef = OpDef {
    sig: "mul.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "`self * other`; integers wrap; of bools `and`.",
    record: product,
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [x, y]| b.mul(g, if i == 0 { y } else { x }))
    }),
    saves: Saves::Inputs,
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[2,3] in 0.5..3", 0),
        Sample::grad("f32[2,1] in -3..-1, f64[3] in 1..2", 0),
        Sample::of("f32[4] in 1..3, 0.1", 0),
        Sample::of("i64[3] in 1..9, i32[3] in 1..9", 0),
        Sample::of("f32[0,2], f32[2]", 0),
        Sample::of("bf16[3] in 1..3, 0.1", 0),
        Sample::exact("bool[4], bool[4]"),
        Sample::exact("f32[3] = 0 inf nan, f32[3] = inf 2 0"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5]",
        "mul: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
    )],
    ..POINTWISE
};

pub(super) static DIV: OpDef = OpDef {
    sig: "div.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "`self / other`, correctly rounded; bool and integers become f32.",
    record: |b, def, a| binary(b, def, a, Promotion::Float, Arith::Div),
    grad: Grad::Rule(grad_div),
    saves: Saves::Inputs,
    cost: 4,
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[2,3] in 0.5..3", 0),
        Sample::grad("f32[2,1] in -3..-1, f64[3] in 1..2", 0),
        Sample::of("f32[4] in 1..3, 0.1", 0),
        Sample::of("i64[3] in 1..9, i32[3] in 1..9", 0),
        Sample::of("f32[0,2], f32[2]", 0),
        Sample::of("bf16[3] in 1..3, 0.1", 0),
        Sample::exact("f32[4] = 0 1 -1 nan, f32[4] = 0 0 0 1"),
        Sample::exact("bool[3], i64[3] in 1..4"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5]",
        "div: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
    )],
    ..POINTWISE
};

pub(super) static REM: OpDef = OpDef {
    sig: "remainder.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "`self - other * floor(self / other)` with the sign of `other`; of integers `x % 0` is 0.",
    record: |b, def, a| binary(b, def, a, Promotion::Meet, Arith::Rem),
    grad: Grad::Rule(grad_rem),
    saves: Saves::Inputs,
    cost: 8,
    samples: &[
        Sample::grad("f32[2,2] = 5.3 -5.3 7.1 0.4, f32[2,2] = 2 3 -2.5 1", 1),
        Sample::exact("i64[6] = 5 -5 5 -5 7 0, i64[6] = 3 3 -3 -3 0 2"),
        Sample::exact("f32[5] = inf 1 1 -0 nan, f32[5] = 1 inf 0 2 1"),
        Sample::of("f32[4] in -9..9, 2.5", 1),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "remainder: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
        Refusal::of("bool[2], bool[2]", "remainder: needs a tensor of numbers, got bool [2]"),
    ],
    ..POINTWISE
};

pub(super) static POW: OpDef = OpDef {
    sig: "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    doc: "`self ^ exponent` with IEEE's special cases; integers wrap.",
    record: power,
    grad: Grad::Rule(grad_pow),
    saves: Saves::Only { inputs: &[0, 1], outputs: &[0] },
    cost: 30,
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[2,3] in -2..3", 4),
        Sample::of("f32[6] = 0 0 0 2 -2 1, f32[6] = 0 2 -1 inf 3 nan", 4),
        Sample::of("f32[4] in 0.5..3, 2", 4),
        Sample::exact("i64[4] = 2 3 -2 0, i64[4] = 10 4 3 0"),
        Sample::of("f32[3] in 1..2, 0.5", 4),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "pow: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
        Refusal::of("i64[2], -1", "pow: integers have no negative powers, got the exponent -1"),
    ],
    ..POINTWISE
};

pub(super) static ATAN2: OpDef = OpDef {
    sig: "atan2(Tensor self, Tensor other) -> Tensor",
    doc: "The angle of the point (`other`, `self`), in -π..=π.",
    record: |b, def, a| binary(b, def, a, Promotion::Float, Arith::Atan2),
    grad: Grad::Rule(grad_atan2),
    saves: Saves::Inputs,
    cost: 30,
    samples: &[
        Sample::grad("f32[2,3] in 0.5..3, f32[2,3] in -2..3", 4),
        Sample::of("f32[6] = 0 -0 0 -0 1 -1, f32[6] = 1 1 -1 -1 0 0", 4),
        Sample::of("i64[2] in 1..3, i64[2] in 1..3", 4),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5]",
        "atan2: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
    )],
    ..TRANSCENDENTAL
};

pub(super) static MAX: OpDef = OpDef {
    sig: "maximum(Tensor self, Tensor other) -> Tensor",
    doc: "The larger; NaN if either is NaN. Equal ones share the cotangent.",
    record: |b, def, a| binary(b, def, a, Promotion::Meet, Arith::Max),
    infer: infer_any,
    grad: Grad::Rule(|b, cx| grad_extremum(b, cx, |b, x, y| b.lt(x, y))),
    saves: Saves::Inputs,
    samples: &[
        Sample::grad("f32[2,3] in -2..2, f32[3] in -2..2", 0),
        Sample::grad("f32[3] = 1 2 0, f32[3] = 1 0 0", 0),
        Sample::exact("f32[3] = nan 1 inf, f32[3] = 1 nan -inf"),
        Sample::exact("i64[3] in -9..9, i32[3] in -9..9"),
        Sample::exact("bool[4], bool[4]"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5]",
        "maximum: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
    )],
    ..POINTWISE
};

pub(super) static MIN: OpDef = OpDef {
    sig: "minimum(Tensor self, Tensor other) -> Tensor",
    doc: "The smaller; NaN if either is NaN. Equal ones share the cotangent.",
    record: |b, def, a| binary(b, def, a, Promotion::Meet, Arith::Min),
    infer: infer_any,
    grad: Grad::Rule(|b, cx| grad_extremum(b, cx, |b, x, y| b.lt(y, x))),
    saves: Saves::Inputs,
    samples: &[
        Sample::grad("f32[2,3] in -2..2, f32[3] in -2..2", 0),
        Sample::grad("f32[3] = 1 2 0, f32[3] = 1 0 0", 0),
        Sample::exact("f32[3] = nan 1 inf, f32[3] = 1 nan -inf"),
        Sample::exact("i64[3] in -9..9, i32[3] in -9..9"),
        Sample::exact("bool[4], bool[4]"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5]",
        "minimum: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
    )],
    ..POINTWISE
};

pub(super) static AND: OpDef = OpDef {
    sig: "bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "Bits that both have.",
    record: |b, def, a| binary(b, def, a, Promotion::Meet, Arith::And),
    samples: &[
        Sample::exact("i64[5] in -9..9, i64[5] in -9..9"),
        Sample::exact("bool[4], bool[4]"),
        Sample::exact("i64[5] in -9..9, 5"),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "bitwise_and: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
        Refusal::of("f32[2], f32[2]", "bitwise_and: needs a bool or integer tensor, got f32 [2]"),
    ],
    ..BITS
};

pub(super) static OR: OpDef = OpDef {
    sig: "bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "Bits that either has.",
    record: |b, def, a| binary(b, def, a, Promotion::Meet, Arith::Or),
    samples: &[
        Sample::exact("i64[5] in -9..9, i64[5] in -9..9"),
        Sample::exact("bool[4], bool[4]"),
        Sample::exact("i64[5] in -9..9, 5"),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "bitwise_or: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
        Refusal::of("f32[2], f32[2]", "bitwise_or: needs a bool or integer tensor, got f32 [2]"),
    ],
    ..BITS
};

pub(super) static XOR: OpDef = OpDef {
    sig: "bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "Bits that one has and the other has not.",
    record: |b, def, a| binary(b, def, a, Promotion::Meet, Arith::Xor),
    samples: &[
        Sample::exact("i64[5] in -9..9, i64[5] in -9..9"),
        Sample::exact("bool[4], bool[4]"),
        Sample::exact("i64[5] in -9..9, 5"),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "bitwise_xor: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
        Refusal::of("f32[2], f32[2]", "bitwise_xor: needs a bool or integer tensor, got f32 [2]"),
    ],
    ..BITS
};

pub(super) static SHL: OpDef = OpDef {
    sig: "bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "Bits moved up; a shift of the width or more, or below 0, gives 0.",
    record: |b, def, a| binary(b, def, a, Promotion::Meet, Arith::Shl),
    samples: &[
        Sample::exact("i64[5] in -9..9, i64[5] in 0..9"),
        Sample::exact("i32[3] = -5 5 1, i32[3] = 31 32 40"),
        Sample::exact("u8[3] = 200 5 1, u8[3] = 1 7 8"),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "bitwise_left_shift: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
        Refusal::of("f32[2], f32[2]", "bitwise_left_shift: needs integer tensors, got f32 [2]"),
    ],
    ..BITS
};

pub(super) static SHR: OpDef = OpDef {
    sig: "bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "Bits moved down, the sign repeated; a shift of the width or more, or below 0, leaves only the sign.",
    record: |b, def, a| binary(b, def, a, Promotion::Meet, Arith::Shr),
    samples: &[
        Sample::exact("i64[5] in -9..9, i64[5] in 0..9"),
        Sample::exact("i32[3] = -5 5 1, i32[3] = 31 32 40"),
        Sample::exact("u8[3] = 200 5 1, u8[3] = 1 7 8"),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], f32[4,5]",
            "bitwise_right_shift: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
        ),
        Refusal::of("f32[2], f32[2]", "bitwise_right_shift: needs integer tensors, got f32 [2]"),
    ],
    ..BITS
};

pub(super) static EQ: OpDef = OpDef {
    sig: "eq.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "Are they equal? NaN is equal to nothing.",
    record: |b, def, a| comparison(b, def, a, Comparison::Eq),
    samples: &[
        Sample::exact("f32[4] = 0 1 nan -0, f32[4] = -0 2 nan 1"),
        Sample::exact("i64[2,3] in 0..3, i64[3] in 0..3"),
        Sample::exact("bool[4], bool[4]"),
        Sample::exact("bf16[3] = 0.1 1 2, 0.1"),
        Sample::exact("i64[3] in 0..3, 1.5"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5]",
        "eq: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
    )],
    ..COMPARISON
};

pub(super) static LT: OpDef = OpDef {
    sig: "lt.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "Is the first smaller? Of NaN false.",
    record: |b, def, a| comparison(b, def, a, Comparison::Lt),
    samples: &[
        Sample::exact("f32[4] = 0 1 nan -0, f32[4] = -0 2 nan 1"),
        Sample::exact("i64[2,3] in 0..3, i64[3] in 0..3"),
        Sample::exact("bool[4], bool[4]"),
        Sample::exact("bf16[3] = 0.1 1 2, 0.1"),
        Sample::exact("i64[3] in 0..3, 1.5"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5]",
        "lt: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
    )],
    ..COMPARISON
};

pub(super) static LE: OpDef = OpDef {
    sig: "le.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "Is the first smaller or equal? Of NaN false.",
    record: |b, def, a| comparison(b, def, a, Comparison::Le),
    samples: &[
        Sample::exact("f32[4] = 0 1 nan -0, f32[4] = -0 2 nan 1"),
        Sample::exact("i64[2,3] in 0..3, i64[3] in 0..3"),
        Sample::exact("bool[4], bool[4]"),
        Sample::exact("bf16[3] = 0.1 1 2, 0.1"),
        Sample::exact("i64[3] in 0..3, 1.5"),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5]",
        "le: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
    )],
    ..COMPARISON
};

pub(super) static FMA: OpDef = OpDef {
    sig: "fma(Tensor self, Tensor other, Tensor addend) -> Tensor",
    doc: "`self * other + addend`, rounded once.",
    record: |b, def, a| {
        record::pointwise(b, def, &record::first::<3>(a), Promotion::Float, |b, m| b.prim(Prim::Fma, &m.values[..3]))
    },
    infer: infer_float,
    grad: Grad::Rule(|b, cx| {
        cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, g, [x, y]| match i {
            0 => b.mul(g, y),
            1 => b.mul(g, x),
            _ => Ok(g),
        })
    }),
    saves: Saves::Only { inputs: &[0, 1], outputs: &[] },
    cost: 2,
    samples: &[
        Sample::grad("f32[2,3] in -2..2, f32[2,3] in -2..2, f32[2,3] in -2..2", 0),
        Sample::exact("f64[5] in -2..2, f64[5] in -2..2, f64[5] in -2..2"),
        Sample::exact("bf16[5] in -2..2, bf16[5] in -2..2, bf16[5] in -2..2"),
    ],
    refuses: &[Refusal::of(
        "f32[2], f32[2], f32[3]",
        "fma: shapes do not broadcast: [2], [2], [3]\n  hint: dim 0: 2 against 3",
    )],
    ..POINTWISE
};

pub(super) static SELECT: OpDef = OpDef {
    sig: "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
    doc: "`self` where the condition holds, `other` elsewhere.",
    record: choice,
    infer: infer_select,
    grad: Grad::Rule(|b, cx| {
        cx.each(|i| {
            let (c, g) = (cx.inputs[0], cx.ct());
            if i == 1 { b.select(c, g, 0.0) } else { b.select(c, 0.0, g) }
        })
    }),
    saves: Saves::Only { inputs: &[0], outputs: &[] },
    samples: &[
        Sample::grad("bool[2,3], f32[2,3], f32[2,3]", 0),
        Sample::grad("bool[3], f32[2,1], f64[]", 0),
        Sample::exact("bool[3], i64[3] in 0..9, 7"),
        Sample::exact("bool[3], f32[3], 0.1"),
    ],
    refuses: &[
        Refusal::of("i64[2] in 0..2, f32[2], f32[2]", "where: the condition is a bool tensor, got i64 [2]"),
        Refusal::of(
            "bool[2], f32[2], f32[3]",
            "where: shapes do not broadcast: [2], [2], [3]\n  hint: dim 0: 2 against 3",
        ),
    ],
    ..POINTWISE
};

pub(super) static CAST: OpDef = OpDef {
    sig: "to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
    doc: "Another element type: floats round to nearest even; float to integer truncates and saturates, NaN gives 0; integers wrap; to bool is `x != 0`.",
    record: |b, def, a| {
        let (x, to) = (record::tensor(def, a, 0)?, record::dtype(def, a, 1)?);
        Ok(smallvec![b.cast(x, to)?])
    },
    infer: infer_cast,
    grad: Grad::Rule(|b, cx| {
        let to = b.dtype(cx.inputs[0]);
        cx.each(|_| b.cast(cx.ct(), to))
    }),
    saves: Saves::NONE,
    samples: &[
        Sample::grad("f32[2,3], f64", 0),
        Sample::grad("f64[2,3], f32", 0),
        Sample::exact("f64[9] = 0.1 -0 1e300 -inf nan 3.99 -3.99 1e20 -1e20, i64"),
        Sample::exact("f64[9] = 0.1 -0 1e300 -inf nan 3.99 -3.99 1e20 256, u8"),
        Sample::exact("i64[4] = 255 256 -1 70000, u8"),
        Sample::exact("f32[4] = 0 -0 nan 0.1, bool"),
        Sample::exact("bool[3], f32"),
        Sample::exact("f32[5] in -9..9, bf16"),
        Sample::exact("f64[5] in -9..9, f16"),
        Sample::exact("i64[2] = 9007199254740993 -9007199254740993, f64"),
    ],
    ..POINTWISE
};

pub(super) static BITCAST: OpDef = OpDef {
    sig: "view.dtype(Tensor self, ScalarType dtype) -> Tensor",
    doc: "The same bits read as another element type of the same size.",
    record: |b, def, a| {
        let (x, to) = (record::tensor(def, a, 0)?, record::dtype(def, a, 1)?);
        if to.size() != b.dtype(x).size() {
            let what = format_args!("{} and {to} differ in size", b.dtype(x));
            return Err(rules::refuse(def.name(), Kind::DType, what));
        }
        Ok(smallvec![b.prim(Prim::Bitcast(to), &[x])?])
    },
    infer: infer_cast,
    samples: &[
        Sample::exact("f32[4] = 0 -0 1 inf, u32"),
        Sample::exact("u32[3] in 0..9, f32"),
        Sample::exact("f64[2] = 1 -1, i64"),
    ],
    refuses: &[Refusal::of("f32[2], f64", "view: f32 and f64 differ in size")],
    ..BITS
};
