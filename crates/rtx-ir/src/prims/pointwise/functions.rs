//! Functions of one number.
use super::*;

fn grad_erf(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
        let square = b.mul(x, x)?;
        let down = b.neg(square)?;
        let bell = b.exp(down)?;
        let slope = b.mul(bell, std::f64::consts::FRAC_2_SQRT_PI)?;
        b.mul(g, slope)
    })
}

pub(in crate::prims) static NEG: OpDef = OpDef {
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

pub(in crate::prims) static ABS: OpDef = OpDef {
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
    ..POINTWISE
};

pub(in crate::prims) static SIGN: OpDef = OpDef {
    sig: "sign(Tensor self) -> Tensor",
    doc: "-1, 0 or 1; NaN stays NaN.",
    record: |b, def, a| unary(b, def, a, Function::Sign),
    samples: &[
        Sample::grad("f32[2,3] in 0.5..2", 0),
        Sample::exact("f32[5] = 0 -0 inf -inf nan"),
        Sample::exact("i64[7] in -9..9"),
    ],
    ..STEP
};

pub(in crate::prims) static FLOOR: OpDef = OpDef {
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

pub(in crate::prims) static CEIL: OpDef = OpDef {
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

pub(in crate::prims) static TRUNC: OpDef = OpDef {
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

pub(in crate::prims) static ROUND: OpDef = OpDef {
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

pub(in crate::prims) static SQRT: OpDef = OpDef {
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

pub(in crate::prims) static EXP: OpDef = OpDef {
    sig: "exp(Tensor self) -> Tensor",
    amp: crate::Amp::Full,
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

pub(in crate::prims) static EXPM1: OpDef = OpDef {
    sig: "expm1(Tensor self) -> Tensor",
    amp: crate::Amp::Full,
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

pub(in crate::prims) static LOG: OpDef = OpDef {
    sig: "log(Tensor self) -> Tensor",
    amp: crate::Amp::Full,
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

pub(in crate::prims) static LOG1P: OpDef = OpDef {
    sig: "log1p(Tensor self) -> Tensor",
    amp: crate::Amp::Full,
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

pub(in crate::prims) static SIN: OpDef = OpDef {
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

pub(in crate::prims) static COS: OpDef = OpDef {
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

pub(in crate::prims) static TANH: OpDef = OpDef {
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

pub(in crate::prims) static ERF: OpDef = OpDef {
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

pub(in crate::prims) static NOT: OpDef = OpDef {
    sig: "bitwise_not(Tensor self) -> Tensor",
    doc: "Every bit turned; of bools the other one.",
    record: not,
    samples: &[Sample::exact("i64[5] in -9..9"), Sample::exact("bool[4]"), Sample::exact("i32[3] in -9..9")],
    refuses: &[Refusal::of("f32[2]", "bitwise_not: needs a bool or integer tensor, got f32 [2]")],
    ..BITS
};

pub(in crate::prims) static CAST: OpDef = OpDef {
    sig: "to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor",
    doc: "Another element type: floats round to nearest even; float to integer truncates and saturates, NaN gives 0; integers wrap; to bool is `x != 0`. A complex number's real part is cast; a real number has no imaginary part.",
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
        Sample::exact("f32[9] = 0.3 -0 448 465 nan inf 0.001 -0.002 1e-9, f8e4m3"),
        Sample::exact("f64[9] = 0.3 -0 61440 57344 nan -inf 1e-5 -2e-5 1e-9, f8e5m2"),
        Sample::exact("f8e4m3[5] in -9..9, bf16"),
        Sample::exact("f8e5m2[5] in -9..9, i32"),
        Sample::exact("f32[3] = 1 nan -0, c64"),
        Sample::exact("c128[3] = 1.5 nan -0, f32"),
        Sample::exact("c64[3] = 1.5 0 nan, bool"),
        Sample::exact("u64[3] = 18446744073709551615 5 0, f32"),
        Sample::exact("bf16[4] = 0.1 300 -1 nan, u8"),
        Sample::exact("f16[4] = 0.1 300 -1 nan, i16"),
    ],
    ..POINTWISE
};

pub(in crate::prims) static BITCAST: OpDef = OpDef {
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
