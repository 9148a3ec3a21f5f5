//! Pointwise ops that are spelled in primitives: comparisons, logic, masks, powers.
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{Comparison, DType, Kind, Result, Scalar};
use rtx_ir::record::{self, Promotion};
use rtx_ir::{
    Arg, Attr, Batch, Body, Bound, Builder, Grad, GradCx, Grads, OpDef, Outs, Refusal, Sample, Saves, Stability,
    ValueId, rules,
};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[
    &NE,
    &GT,
    &GE,
    &LOGICAL_NOT,
    &LOGICAL_AND,
    &LOGICAL_OR,
    &LOGICAL_XOR,
    &ISNAN,
    &ISINF,
    &ISFINITE,
    &MASKED_FILL,
    &CLAMP,
    &CLAMP_MIN,
    &CLAMP_MAX,
    &RSUB,
    &SQUARE,
    &RSQRT,
    &RECIPROCAL,
    &LERP,
    &CLONE,
];

const POINTWISE: OpDef = OpDef { batch: Batch::Pointwise, stability: Stability::Stable, ..SPELLING };

/// Two operands compared in the dtype and shape they meet in.
fn compare(b: &mut Builder<'_>, def: &OpDef, l: &Arg, r: &Arg, f: Comparison) -> Result<ValueId> {
    let args = [l.clone(), r.clone()];
    let dtype = record::meeting_dtype(b, def, &args, Promotion::Meet)?;
    let v = record::meet_in(b, def, &args, dtype)?;
    b.compare(f, v[0], v[1])
}

/// Not equal.
pub static NE: OpDef = OpDef {
    sig: "ne.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "self ≠ other, element by element; NaN differs from everything.",
    record: |b, def, a| {
        let equal = compare(b, def, a.get(0), a.get(1), Comparison::Eq)?;
        Ok(smallvec![b.not(equal)?])
    },
    grad: Grad::None,
    samples: &[Sample::exact("i64[2,3] in 0..3, i64[3] in 0..3"), Sample::exact("f32[3] = 1 nan 2, 1")],
    ..POINTWISE
};
/// Greater.
pub static GT: OpDef = OpDef {
    sig: "gt.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "self > other, element by element.",
    record: |b, def, a| Ok(smallvec![compare_swapped(b, def, a, Comparison::Lt)?]),
    grad: Grad::None,
    samples: &[Sample::exact("i64[2,3] in 0..3, i64[3] in 0..3"), Sample::exact("f32[3] = 1 nan 2, 1")],
    ..POINTWISE
};
/// Greater or equal.
pub static GE: OpDef = OpDef {
    sig: "ge.Tensor(Tensor self, Tensor other) -> Tensor",
    doc: "self ≥ other, element by element.",
    record: |b, def, a| Ok(smallvec![compare_swapped(b, def, a, Comparison::Le)?]),
    grad: Grad::None,
    samples: &[Sample::exact("i64[2,3] in 0..3, i64[3] in 0..3")],
    refuses: &[Refusal::of(
        "f32[2,3], f32[4,5]",
        "ge: shapes do not broadcast: lhs [2, 3], rhs [4, 5]\n  hint: dim 0: 2 against 4",
    )],
    ..POINTWISE
};

/// `self > other` is `other < self`; shapes are checked in the user's order.
fn compare_swapped(b: &mut Builder<'_>, def: &OpDef, a: &Bound, f: Comparison) -> Result<ValueId> {
    let args = [a.get(0).clone(), a.get(1).clone()];
    let dtype = record::meeting_dtype(b, def, &args, Promotion::Meet)?;
    let v = record::meet_in(b, def, &args, dtype)?;
    b.compare(f, v[1], v[0])
}

/// Logical negation.
pub static LOGICAL_NOT: OpDef = OpDef {
    sig: "logical_not(Tensor self) -> Tensor",
    doc: "Is the element zero?",
    record: |b, def, a| {
        let x = truth(b, record::tensor(def, a, 0)?)?;
        Ok(smallvec![b.not(x)?])
    },
    grad: Grad::None,
    samples: &[Sample::exact("bool[3]"), Sample::exact("f32[3] = 0 1 nan")],
    ..POINTWISE
};
/// Logical and.
pub static LOGICAL_AND: OpDef = OpDef {
    sig: "logical_and(Tensor self, Tensor other) -> Tensor",
    doc: "Are both elements not zero?",
    record: |b, def, a| logical(b, def, a, |b, x, y| b.and(x, y)),
    grad: Grad::None,
    samples: &[Sample::exact("bool[2,3], bool[3]"), Sample::exact("f32[3] = 0 1 2, i64[3] = 1 0 2")],
    ..POINTWISE
};
/// Logical or.
pub static LOGICAL_OR: OpDef = OpDef {
    sig: "logical_or(Tensor self, Tensor other) -> Tensor",
    doc: "Is one of the elements not zero?",
    record: |b, def, a| logical(b, def, a, |b, x, y| b.or(x, y)),
    grad: Grad::None,
    samples: &[Sample::exact("bool[2,3], bool[3]")],
    ..POINTWISE
};
/// Logical exclusive or.
pub static LOGICAL_XOR: OpDef = OpDef {
    sig: "logical_xor(Tensor self, Tensor other) -> Tensor",
    doc: "Is exactly one of the elements not zero?",
    record: |b, def, a| logical(b, def, a, |b, x, y| b.xor(x, y)),
    grad: Grad::None,
    samples: &[Sample::exact("bool[2,3], bool[3]")],
    ..POINTWISE
};

/// As bool: not zero.
fn truth(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    b.cast(x, DType::Bool)
}
fn logical(
    b: &mut Builder<'_>,
    def: &OpDef,
    a: &Bound,
    f: impl Fn(&mut Builder<'_>, ValueId, ValueId) -> Result<ValueId>,
) -> Result<Outs> {
    let (x, y) = (record::tensor(def, a, 0)?, record::tensor(def, a, 1)?);
    let (x, y) = (truth(b, x)?, truth(b, y)?);
    let v = record::meet_in(b, def, &[Arg::Value(x), Arg::Value(y)], DType::Bool)?;
    Ok(smallvec![f(b, v[0], v[1])?])
}

/// Not a number?
pub static ISNAN: OpDef = OpDef {
    sig: "isnan(Tensor self) -> Tensor",
    doc: "Is the element NaN?",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        let same = b.eq(x, x)?;
        Ok(smallvec![b.not(same)?])
    },
    grad: Grad::None,
    samples: &[Sample::exact("f32[3] = 0 nan inf"), Sample::exact("i64[3] in 0..3")],
    ..POINTWISE
};
/// Infinite?
pub static ISINF: OpDef = OpDef {
    sig: "isinf(Tensor self) -> Tensor",
    doc: "Is the element an infinity?",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        if !b.dtype(x).is_float() {
            return Ok(smallvec![b.full(DType::Bool, &b.shape(x), false)?]);
        }
        let size = b.abs(x)?;
        Ok(smallvec![b.eq(size, f64::INFINITY)?])
    },
    grad: Grad::None,
    samples: &[Sample::exact("f32[4] = 0 nan inf -inf"), Sample::exact("i64[3] in 0..3")],
    ..POINTWISE
};
/// Finite?
pub static ISFINITE: OpDef = OpDef {
    sig: "isfinite(Tensor self) -> Tensor",
    doc: "Is the element neither NaN nor an infinity?",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        if !b.dtype(x).is_float() {
            return Ok(smallvec![b.full(DType::Bool, &b.shape(x), true)?]);
        }
        let size = b.abs(x)?;
        Ok(smallvec![b.lt(size, f64::INFINITY)?])
    },
    grad: Grad::None,
    samples: &[Sample::exact("f32[4] = 0 nan inf -inf")],
    ..POINTWISE
};

/// A number where a mask says so.
pub static MASKED_FILL: OpDef = OpDef {
    sig: "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
    doc: "value where the mask is true, self elsewhere; keeps self's dtype.",
    runtime: &["value"],
    record: |b, def, a| {
        let (x, mask) = (record::tensor(def, a, 0)?, record::tensor(def, a, 1)?);
        if b.dtype(mask) != DType::Bool {
            return Err(rules::refuse(
                def.name(),
                Kind::DType,
                format_args!("the mask is a bool tensor, got {}", b.ty(mask)),
            ));
        }
        let dtype = b.dtype(x);
        let value = record::tensor_or_number(b, def, a, 2, dtype)?;
        let value = b.cast(value, dtype)?;
        let shape = rules::broadcast_for(def.name(), &[&b.ty(x).shape, &b.ty(mask).shape])?;
        let (x, mask, value) = (b.expand(x, &shape)?, b.expand(mask, &shape)?, b.expand(value, &shape)?);
        Ok(smallvec![b.select(mask, value, x)?])
    },
    samples: &[Sample::grad("f32[2,3], bool[3], 7", 0), Sample::exact("i64[2,3] in 0..9, bool[2,1], -1")],
    refuses: &[Refusal::of("f32[2], f32[2], 0", "masked_fill: the mask is a bool tensor, got f32 [2]")],
    ..POINTWISE
};

/// Kept inside bounds. Attributes: has min, has max. Bounds are of rank 0 or of x's shape.
pub static CLAMP: OpDef = OpDef {
    sig: "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
    doc: "min(max(self, min), max); NaN stays; bounds are numbers or tensors that broadcast. The gradient passes where \
          min ≤ self ≤ max, to min where self < min < max, and to max where self > max or max < min.",
    runtime: &["min", "max"],
    record: |b, def, a| clamp(b, def, [a.get(0), a.get(1), a.get(2)]),
    infer: |op, inputs| {
        let x = inputs[0];
        let fits = inputs[1..].iter().all(|t| t.dtype == x.dtype && (t.rank() == 0 || t.shape == x.shape));
        let what = format_args!("does not fit: {}", rules::show(inputs));
        if fits { Ok(smallvec![x.clone()]) } else { Err(rules::refuse(op.name(), Kind::DType, what)) }
    },
    body: Body::Composite(|b, attrs, v| {
        let (low, high) = bounds(attrs, v);
        let mut y = v[0];
        if let Some(low) = low {
            y = b.max(y, low)?;
        }
        if let Some(high) = high {
            y = b.min(y, high)?;
        }
        Ok(smallvec![y])
    }),
    grad: Grad::Rule(clamp_grad),
    cost: 2,
    samples: &[
        Sample::grad("f32[2,3] in -2..2, -1, 1", 0),
        Sample::grad("f32[2,3] in -2..2, none, 1", 0),
        Sample::exact("i64[5] in -9..9, -2"),
        Sample::grad("f32[4] = 0 3 -3 1.5, f32[4] = -1 -1 -1 2, f32[1] = 1", 0),
        Sample::grad("f32[2,3] in -2..-1, f32[3] in 0..1", 0),
        Sample::exact("f32[2,3] in -2..2, i64[3] in 0..2, none"),
    ],
    refuses: &[Refusal::of("f32[2]", "clamp: needs min, max or both")],
    ..POINTWISE
};
/// Kept above a bound.
pub static CLAMP_MIN: OpDef = OpDef {
    sig: "clamp_min.Tensor(Tensor self, Tensor min) -> Tensor",
    doc: "max(self, min), a `clamp` by min alone.",
    record: |b, def, a| clamp(b, def, [a.get(0), a.get(1), &Arg::None]),
    samples: &[Sample::grad("f32[2,3] in 0..2, 1", 0), Sample::exact("f32[2,3] in -2..2, f32[3] in -1..1")],
    ..POINTWISE
};
/// Kept below a bound.
pub static CLAMP_MAX: OpDef = OpDef {
    sig: "clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
    doc: "min(self, max), a `clamp` by max alone.",
    record: |b, def, a| clamp(b, def, [a.get(0), &Arg::None, a.get(1)]),
    samples: &[Sample::grad("f32[2,3] in 0..2, 1", 0), Sample::exact("f32[2,3] in -2..2, f32[3] in -1..1")],
    ..POINTWISE
};

/// `clamp` of x, min and max, of which one bound may be missing.
fn clamp(b: &mut Builder<'_>, def: &OpDef, args: [&Arg; 3]) -> Result<Outs> {
    let given: Vec<Arg> = args.into_iter().filter(|a| **a != Arg::None).cloned().collect();
    if given.len() < 2 {
        return Err(rules::refuse(def.name(), Kind::Argument, "needs min, max or both"));
    }
    let result = record::meeting_dtype(b, def, &given, Promotion::Meet)?;
    let compute = rules::number_dtype(result);
    let tensors = given[1..].iter().any(|a| matches!(a, Arg::Value(v) if b.rank(*v) > 0));
    let inputs = if tensors {
        record::meet_in(b, def, &given, compute)?.to_vec()
    } else {
        let place = |arg: &Arg| match arg {
            Arg::Value(v) => b.cast(*v, compute),
            Arg::Scalar(s) => b.param(compute, *s),
            _ => Err(rules::refuse(def.name(), Kind::Argument, "a bound is not a number")),
        };
        given.iter().map(place).collect::<Result<Vec<ValueId>>>()?
    };
    let attrs = smallvec![Attr::Bool(*args[1] != Arg::None), Attr::Bool(*args[2] != Arg::None)];
    let y = b.composite(&CLAMP, attrs, &inputs)?[0];
    Ok(smallvec![b.cast(y, result)?])
}
fn bounds(attrs: &[Attr], v: &[ValueId]) -> (Option<ValueId>, Option<ValueId>) {
    let mut rest = v[1..].iter().copied();
    let low = if attrs[0].bool() { rest.next() } else { None };
    (low, if attrs[1].bool() { rest.next() } else { None })
}
fn clamp_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let (x, dy) = (cx.inputs[0], cx.ct());
    let (low, high) = bounds(cx.op.attrs(), cx.inputs);
    // Where x is below the lower bound, where above the upper one, and where the bounds have changed places.
    let under = low.map(|low| b.lt(x, low)).transpose()?;
    let over = high.map(|high| b.lt(high, x)).transpose()?;
    let crossed = if let (Some(low), Some(high)) = (low, high) { Some(b.lt(high, low)?) } else { None };
    let mut dx = dy;
    for outside in [under, over].into_iter().flatten() {
        dx = b.select(outside, 0.0, dx)?;
    }
    let mut grads: Grads = smallvec![Some(dx)];
    if let (Some(low), Some(under)) = (low, under) {
        let mut d = b.select(under, dy, 0.0)?;
        if let Some(crossed) = crossed {
            d = b.select(crossed, 0.0, d)?;
        }
        grads.push(Some(b.sum_to(d, &b.shape(low))?));
    }
    if let (Some(high), Some(over)) = (high, over) {
        let mut d = b.select(over, dy, 0.0)?;
        if let Some(crossed) = crossed {
            d = b.select(crossed, dy, d)?;
        }
        grads.push(Some(b.sum_to(d, &b.shape(high))?));
    }
    Ok(cx.wants.iter().zip(grads).map(|(&wanted, g)| g.filter(|_| wanted)).collect())
}

/// Reversed difference.
pub static RSUB: OpDef = OpDef {
    sig: "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    doc: "other - alpha · self; the way `1 - x` is recorded.",
    runtime: &["alpha"],
    record: |b, def, a| {
        let args = [a.get(1).clone(), a.get(0).clone()];
        record::pointwise(b, def, &args, Promotion::Meet, |b, m| {
            let taken = match a.get(2) {
                Arg::None | Arg::Scalar(Scalar::Int(1)) => m.values[1],
                Arg::Scalar(Scalar::Float(x)) if !m.result.is_float() => {
                    let what = format_args!("alpha is a float, the tensors are not: {x}");
                    return Err(rules::refuse(def.name(), Kind::Argument, what));
                }
                Arg::Scalar(s) => {
                    let alpha = b.param(m.compute, *s)?;
                    b.mul(m.values[1], alpha)?
                }
                _ => return Err(rules::refuse(def.name(), Kind::Argument, "argument `alpha` takes a number")),
            };
            b.sub(m.values[0], taken)
        })
    },
    samples: &[
        Sample::grad("f32[2,3] in -2..2, 1", 0),
        Sample::exact("i64[3] in 0..9, 5"),
        Sample::grad("f32[2,3] in -2..2, f32[3] in -2..2, 0.5", 4),
    ],
    refuses: &[Refusal::of("i64[2], i64[2], 0.5", "rsub: alpha is a float, the tensors are not: 0.5")],
    ..POINTWISE
};
/// `x²`.
pub static SQUARE: OpDef = OpDef {
    sig: "square(Tensor self) -> Tensor",
    doc: "self · self.",
    record: |b, def, a| {
        let x = record::tensor(def, a, 0)?;
        Ok(smallvec![b.mul(x, x)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2", 0), Sample::exact("i64[3] in -9..9")],
    ..POINTWISE
};
/// `1 / √x`.
pub static RSQRT: OpDef = OpDef {
    sig: "rsqrt(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "1 / √self, two roundings; halves are computed in f32.",
    record: |b, def, a| inverse(b, def, a, |b, x| b.sqrt(x)),
    cost: 2,
    samples: &[Sample::grad("f32[2,3] in 0.5..2", 4), Sample::of("i64[3] in 1..9", 4)],
    ..POINTWISE
};
/// `1 / x`.
pub static RECIPROCAL: OpDef = OpDef {
    sig: "reciprocal(Tensor self) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "1 / self.",
    record: |b, def, a| inverse(b, def, a, |_, x| Ok(x)),
    samples: &[Sample::grad("f32[2,3] in 0.5..2", 4)],
    ..POINTWISE
};
/// `1 / f(x)` in compute precision.
fn inverse(
    b: &mut Builder<'_>,
    def: &OpDef,
    a: &Bound,
    f: impl Fn(&mut Builder<'_>, ValueId) -> Result<ValueId>,
) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let dtype = crate::precision::float_of(b.dtype(x));
    let x = b.cast(x, rules::number_dtype(dtype))?;
    let y = f(b, x)?;
    let y = b.div(1.0, y)?;
    Ok(smallvec![b.cast(y, dtype)?])
}

/// Linear interpolation.
pub static LERP: OpDef = OpDef {
    sig: "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
    doc: "self + weight · (end - self).",
    runtime: &["weight"],
    record: |b, def, a| {
        record::pointwise(b, def, &record::first::<3>(a), Promotion::Float, |b, m| {
            let way = b.sub(m.values[1], m.values[0])?;
            let part = b.mul(m.values[2], way)?;
            b.add(m.values[0], part)
        })
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, f32[2,3] in -2..2, 0.25", 4)],
    ..POINTWISE
};
/// Identity as a node: an independent tensor (contract M1).
pub static CLONE: OpDef = OpDef {
    sig: "clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "The tensor itself: values are immutable, so nothing is copied.",
    record: |_, def, a| Ok(smallvec![Args::new(def, a).tensor(0)?]),
    saves: Saves::NONE,
    samples: &[Sample::grad("f32[2,3]", 0)],
    ..POINTWISE
};
