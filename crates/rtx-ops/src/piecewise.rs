//! Activations made of pieces: linear, constant and exponential ones, joined at thresholds.
use crate::activation::infer_float;
use crate::args::Args;
use crate::elementwise::{above, in_float};
use rtx_core::{DType, Dim, Kind, Result, Shape};
use rtx_ir::{
    Attr, Attrs, Batch, Body, Bound, Builder, Op, OpDef, Outs, Refusal, Sample, Stability, Type, Types, ValueId, rules,
};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[
    &ELU,
    &CELU,
    &SELU,
    &HARDTANH,
    &RELU6,
    &HARDSIGMOID,
    &HARDSWISH,
    &HARDSHRINK,
    &SOFTSHRINK,
    &THRESHOLD,
    &PRELU,
    &RRELU,
];

const PIECES: OpDef =
    OpDef { infer: infer_float, batch: Batch::Pointwise, stability: Stability::Stable, cost: 3, ..OpDef::DEFAULT };

/// A float tensor, then numbers with these defaults, which become attributes.
fn record_numbers<const N: usize>(
    b: &mut Builder<'_>,
    def: &'static OpDef,
    args: &Bound,
    defaults: [f64; N],
) -> Result<Outs> {
    let args = Args::new(def, args);
    let numbers = defaults.iter().enumerate().map(|(i, d)| Ok(Attr::Float(args.float_or(i + 1, *d)?)));
    b.composite(def, numbers.collect::<Result<Attrs>>()?, &[args.tensor(0)?])
}

/// `scale x` above 0, `scale alpha (exp(input_scale x) - 1)` elsewhere. The exponential never sees a positive number.
fn exponential_unit(b: &mut Builder<'_>, x: ValueId, alpha: f64, scale: f64, input_scale: f64) -> Result<ValueId> {
    let positive = above(b, x, 0.0)?;
    let low = b.select(positive, 0.0, x)?;
    let low = if input_scale == 1.0 { low } else { b.mul(low, input_scale)? };
    let curve = b.expm1(low)?;
    let curve = b.mul(curve, alpha * scale)?;
    let line = if scale == 1.0 { x } else { b.mul(x, scale)? };
    b.select(positive, line, curve)
}

/// Exponential linear unit.
pub static ELU: OpDef = OpDef {
    sig: "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    doc: "scale · x above 0, scale · alpha · (exp(input_scale · x) - 1) elsewhere. Clevert et al., arXiv:1511.07289.",
    record: |b, def, a| record_numbers(b, def, a, [1.0; 3]),
    body: Body::Composite(|b, attrs, v| {
        in_float(b, v, |b, v| exponential_unit(b, v[0], attrs[0].float(), attrs[1].float(), attrs[2].float()))
    }),
    cost: 14,
    samples: &[
        Sample::grad("f32[2,3] in 0.1..3", 8),
        Sample::grad("f32[2,3] in -3..-0.1, 0.5, 2, 1.5", 8),
        Sample::of("f32[4] = 0 -0 1e30 nan", 8),
    ],
    refuses: &[Refusal::of("i64[2]", "elu: needs a float tensor, got i64 [2]")],
    ..PIECES
};
/// Exponential linear unit of continuous slope.
pub static CELU: OpDef = OpDef {
    sig: "celu(Tensor self, Scalar alpha=1.0) -> Tensor",
    doc: "x above 0, alpha (exp(x / alpha) - 1) elsewhere. Barron, arXiv:1704.07483.",
    record: |b, def, a| {
        let alpha = Args::new(def, a).float_or(1, 1.0)?;
        if alpha == 0.0 {
            return Err(rules::refuse(def.name(), Kind::Argument, "alpha is not 0"));
        }
        record_numbers(b, def, a, [1.0])
    },
    body: Body::Composite(|b, attrs, v| {
        let alpha = attrs[0].float();
        in_float(b, v, |b, v| exponential_unit(b, v[0], alpha, 1.0, 1.0 / alpha))
    }),
    cost: 14,
    samples: &[Sample::grad("f32[2,3] in 0.1..3", 8), Sample::grad("f32[2,3] in -3..-0.1, 0.5", 8)],
    refuses: &[Refusal::of("f32[2], 0", "celu: alpha is not 0")],
    ..PIECES
};
/// Self-normalizing exponential linear unit.
pub static SELU: OpDef = OpDef {
    sig: "selu(Tensor self) -> Tensor",
    doc: "elu with alpha 1.6732632423543772 and scale 1.0507009873554805. Klambauer et al., arXiv:1706.02515.",
    body: Body::Composite(|b, _, v| in_float(b, v, |b, v| exponential_unit(b, v[0], SELU_ALPHA, SELU_SCALE, 1.0))),
    cost: 14,
    samples: &[Sample::grad("f32[2,3] in 0.1..3", 8), Sample::grad("f32[2,3] in -3..-0.1", 8)],
    ..PIECES
};
/// With these two, zero mean and unit variance are a fixed point of `selu`.
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;

/// Any number keeps its type; pieces of constants are cut to it.
fn infer_number(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    if inputs[0].dtype == DType::Bool {
        let what = format_args!("needs a tensor of numbers, got {}", inputs[0]);
        return Err(rules::refuse(op.name(), Kind::DType, what));
    }
    Ok(smallvec![inputs[0].clone()])
}

/// `low` up to low, `high` from high on, `middle` between; the ends belong to the constant pieces.
fn between(b: &mut Builder<'_>, x: ValueId, low: (f64, f64), high: (f64, f64), middle: ValueId) -> Result<ValueId> {
    let (under, edge) = (b.le(x, low.0)?, b.constant(b.dtype(x), high.0)?);
    let over = b.le(edge, x)?;
    let y = b.select(over, high.1, middle)?;
    b.select(under, low.1, y)
}

/// Kept inside bounds.
pub static HARDTANH: OpDef = OpDef {
    sig: "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    doc: "min_val up to min_val, max_val from max_val on, x between; the gradient at the ends is 0.",
    record: |b, def, a| record_numbers(b, def, a, [-1.0, 1.0]),
    infer: infer_number,
    body: Body::Composite(|b, attrs, v| {
        let (low, high) = (attrs[0].float(), attrs[1].float());
        Ok(smallvec![between(b, v[0], (low, low), (high, high), v[0])?])
    }),
    samples: &[
        Sample::grad("f32[2,3] in -0.9..0.9", 0),
        Sample::grad("f32[2,3] in 1.1..2", 0),
        Sample::exact("f32[5] = -2 -0.5 0 0.5 nan, -0.5, 0.5"),
    ],
    ..PIECES
};
/// `relu` up to 6.
pub static RELU6: OpDef = OpDef {
    sig: "relu6(Tensor self) -> Tensor",
    doc: "min(max(x, 0), 6); the gradient at the ends is 0.",
    infer: infer_number,
    body: Body::Composite(|b, _, v| Ok(smallvec![between(b, v[0], (0.0, 0.0), (6.0, 6.0), v[0])?])),
    samples: &[
        Sample::grad("f32[2,3] in 0.1..5", 0),
        Sample::grad("f32[2,3] in -5..-0.1", 0),
        Sample::exact("f32[3] = 6 7 0"),
    ],
    ..PIECES
};
/// A straight line in the place of the logistic function.
pub static HARDSIGMOID: OpDef = OpDef {
    sig: "hardsigmoid(Tensor self) -> Tensor",
    doc: "0 up to -3, 1 from 3 on, (x + 3) / 6 between; the gradient at the ends is 0.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let sum = b.add(v[0], 3.0)?;
            let line = b.div(sum, 6.0)?;
            between(b, v[0], (-3.0, 0.0), (3.0, 1.0), line)
        })
    }),
    samples: &[
        Sample::grad("f32[2,3] in -2.9..2.9", 4),
        Sample::grad("f32[2,3] in 3.1..5", 4),
        Sample::exact("f32[3] = -3 3 -9"),
    ],
    ..PIECES
};
/// `x` times a straight line in the place of the logistic function.
pub static HARDSWISH: OpDef = OpDef {
    sig: "hardswish(Tensor self) -> Tensor",
    doc: "0 up to -3, x from 3 on, x (x + 3) / 6 between. Howard et al., arXiv:1905.02244.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let sum = b.add(v[0], 3.0)?;
            let product = b.mul(v[0], sum)?;
            let curve = b.div(product, 6.0)?;
            let three = b.constant(b.dtype(v[0]), 3.0)?;
            let over = b.le(three, v[0])?;
            let y = b.select(over, v[0], curve)?;
            let under = b.le(v[0], -3.0)?;
            b.select(under, 0.0, y)
        })
    }),
    samples: &[
        Sample::grad("f32[2,3] in -2.9..2.9", 4),
        Sample::grad("f32[2,3] in 3.1..5", 4),
        Sample::exact("f32[3] = -3 3 -9"),
    ],
    ..PIECES
};

/// Is x within lambda of 0?
fn near_zero(b: &mut Builder<'_>, x: ValueId, lambda: f64) -> Result<ValueId> {
    let (low, high) = (b.constant(b.dtype(x), -lambda)?, b.constant(b.dtype(x), lambda)?);
    let (left, right) = (b.le(low, x)?, b.le(x, high)?);
    b.and(left, right)
}
/// Small numbers set to 0.
pub static HARDSHRINK: OpDef = OpDef {
    sig: "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    doc: "0 where -lambd ≤ x ≤ lambd, else x.",
    record: |b, def, a| record_numbers(b, def, a, [0.5]),
    body: Body::Composite(|b, attrs, v| {
        let small = near_zero(b, v[0], attrs[0].float())?;
        Ok(smallvec![b.select(small, 0.0, v[0])?])
    }),
    samples: &[
        Sample::grad("f32[2,3] in 0.6..3", 0),
        Sample::grad("f32[2,3] in -0.4..0.4", 0),
        Sample::exact("f32[4] = -0.5 0.5 0 nan"),
        Sample::exact("f32[2,3] in -1..1, -0.5"),
    ],
    ..PIECES
};
/// Numbers moved toward 0.
pub static SOFTSHRINK: OpDef = OpDef {
    sig: "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    doc: "x - lambd above lambd, x + lambd below -lambd, 0 between.",
    record: |b, def, a| {
        let lambda = Args::new(def, a).float_or(1, 0.5)?;
        if lambda < 0.0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("lambd is not negative, got {lambda}")));
        }
        record_numbers(b, def, a, [0.5])
    },
    body: Body::Composite(|b, attrs, v| {
        let lambda = attrs[0].float();
        in_float(b, v, |b, v| {
            let (left, right) = (b.add(v[0], lambda)?, b.sub(v[0], lambda)?);
            let negative = b.lt(v[0], 0.0)?;
            let moved = b.select(negative, left, right)?;
            let small = near_zero(b, v[0], lambda)?;
            b.select(small, 0.0, moved)
        })
    }),
    samples: &[
        Sample::grad("f32[2,3] in 0.6..3", 0),
        Sample::grad("f32[2,3] in -3..-0.6", 0),
        Sample::exact("f32[4] = -0.5 0.5 0 nan"),
    ],
    refuses: &[Refusal::of("f32[2], -1.0", "softshrink: lambd is not negative, got -1")],
    ..PIECES
};
/// A value up to a threshold.
pub static THRESHOLD: OpDef = OpDef {
    sig: "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    doc: "x above the threshold, else value.",
    record: |b, def, a| record_numbers(b, def, a, [0.0, 0.0]),
    infer: infer_number,
    body: Body::Composite(|b, attrs, v| {
        let under = b.le(v[0], attrs[0].float())?;
        Ok(smallvec![b.select(under, attrs[1].float(), v[0])?])
    }),
    samples: &[Sample::grad("f32[2,3] in 0.6..3, 0.5, 7", 0), Sample::grad("f32[2,3] in -3..0.4, 0.5, 7", 0)],
    ..PIECES
};

/// `relu` with learned slopes below 0.
pub static PRELU: OpDef = OpDef {
    sig: "prelu(Tensor self, Tensor weight) -> Tensor",
    amp: rtx_ir::Amp::Low,
    doc: "x above 0, else weight · x; one weight, or one for each channel (dim 1). He et al., arXiv:1502.01852.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let (x, weight) = (args.tensor(0)?, args.tensor(1)?);
        let shape = b.shape(x);
        let channels = if shape.rank() > 1 { shape.dim(1) } else { Dim::Const(1) };
        let (n, ty) = (b.shape(weight).numel(), b.ty(weight).clone());
        if ty.rank() > 1 || (n != 1 && n != channels.bound()) {
            let what = format_args!("weight has one element or {channels}: x {shape}, weight {}", ty.shape);
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        if ty.dtype != b.dtype(x) {
            return Err(rules::refuse(
                def.name(),
                Kind::DType,
                format_args!("dtypes differ: x {}, weight {ty}", b.ty(x)),
            ));
        }
        let column: Shape = (0..shape.rank()).map(|i| Dim::from(if i == 1 { n } else { 1 })).collect();
        let weight = b.reshape(weight, &column)?;
        let weight = b.expand(weight, &shape)?;
        b.composite(def, smallvec![], &[x, weight])
    },
    body: Body::Composite(|b, _, v| {
        let below = b.mul(v[1], v[0])?;
        let positive = above(b, v[0], 0.0)?;
        Ok(smallvec![b.select(positive, v[0], below)?])
    }),
    batch: Batch::FromBody,
    samples: &[
        Sample::grad("f32[2,3,2] in 0.1..3, f32[3] in 0.1..1", 0),
        Sample::grad("f32[2,3] in -3..-0.1, f32[1] in 0.1..1", 0),
        Sample::grad("f32[] in -3..-0.1, f32[] in 0.1..1", 0),
    ],
    refuses: &[Refusal::of("f32[2,3], f32[2]", "prelu: weight has one element or 3: x [2, 3], weight [2]")],
    ..PIECES
};
/// `relu` with a slope below 0 that is the middle of an interval.
pub static RRELU: OpDef = OpDef {
    sig: "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False, \
          Generator? generator=None) -> Tensor",
    doc: "x above 0, else x · (lower + upper) / 2, what random slopes in the interval are on average; random ones, for \
          training, are refused. Xu et al., arXiv:1505.00853.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        if args.flag(3)? {
            return Err(rules::refuse(def.name(), Kind::Unsupported, "random slopes (training) are not built yet"));
        }
        let slope = (args.float_or(1, 0.125)? + args.float_or(2, 1.0 / 3.0)?) / 2.0;
        b.composite(&crate::activation::LEAKY_RELU, smallvec![Attr::Float(slope)], &[args.tensor(0)?])
    },
    samples: &[Sample::grad("f32[2,3] in -3..-0.1", 2), Sample::grad("f32[2,3] in 0.1..3, 0, 1", 2)],
    refuses: &[Refusal::of("f32[2], 0.1, 0.2, true", "rrelu: random slopes (training) are not built yet")],
    ..crate::spelling::SPELLING
};
