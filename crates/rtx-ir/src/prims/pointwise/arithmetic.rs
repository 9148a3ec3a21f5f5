//! Functions of two and three numbers.
use super::*;

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

pub(in crate::prims) static ADD: OpDef = OpDef {
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

pub(in crate::prims) static SUB: OpDef = OpDef {
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

pub(in crate::prims) static MUL: OpDef = OpDef {
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

pub(in crate::prims) static DIV: OpDef = OpDef {
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

pub(in crate::prims) static REM: OpDef = OpDef {
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

pub(in crate::prims) static POW: OpDef = OpDef {
    sig: "pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor",
    amp: crate::Amp::Full,
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

pub(in crate::prims) static ATAN2: OpDef = OpDef {
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

pub(in crate::prims) static MAX: OpDef = OpDef {
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

pub(in crate::prims) static MIN: OpDef = OpDef {
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

pub(in crate::prims) static AND: OpDef = OpDef {
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

pub(in crate::prims) static OR: OpDef = OpDef {
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

pub(in crate::prims) static XOR: OpDef = OpDef {
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

pub(in crate::prims) static SHL: OpDef = OpDef {
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

pub(in crate::prims) static SHR: OpDef = OpDef {
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

pub(in crate::prims) static FMA: OpDef = OpDef {
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
