//! Comparisons and the choice between two values.
use super::*;

pub(in crate::prims) static EQ: OpDef = OpDef {
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

pub(in crate::prims) static LT: OpDef = OpDef {
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

pub(in crate::prims) static LE: OpDef = OpDef {
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

pub(in crate::prims) static SELECT: OpDef = OpDef {
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
