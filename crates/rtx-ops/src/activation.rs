//! Activations: pointwise functions with gradients of their own.
use crate::args::Args;
use crate::elementwise::{FUNCTION, by_slope, in_float};
use crate::precision::widen;
use rtx_core::{DType, Kind, Result};
use rtx_ir::{
    Attr, Batch, Body, Bound, Builder, Grad, GradCx, Grads, Op, OpDef, Outs, Refusal, Sample, Saves, Stability, Type,
    Types, ValueId, rules,
};
use smallvec::smallvec;

/// The family.
pub const ALL: &[&OpDef] = &[
    &RELU,
    &GELU,
    &GELU_BACKWARD,
    &SILU,
    &SILU_BACKWARD,
    &SIGMOID,
    &SOFTPLUS,
    &LEAKY_RELU,
    &LOG_SIGMOID,
    &MISH,
    &TANHSHRINK,
    &GLU,
    &SOFTSIGN,
];

const POINTWISE: OpDef = OpDef {
    record: record_unary,
    infer: infer_float,
    batch: Batch::Pointwise,
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

/// One float tensor and no attributes.
fn record_unary(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let x = Args::new(def, args).tensor(0)?;
    b.composite(def, smallvec![], &[x])
}
/// Floats of one type.
pub(crate) fn infer_float(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_equal(op, inputs)?;
    rules::check_float(op.name(), inputs[0])?;
    Ok(smallvec![inputs[0].clone()])
}

/// `max(x, 0)`.
pub static RELU: OpDef = OpDef {
    sig: "relu(Tensor self) -> Tensor",
    doc: "max(x, 0); the gradient at 0 is 0.",
    infer: rules::infer_same,
    body: Body::Composite(|b, _, v| Ok(smallvec![b.max(v[0], 0.0)?])),
    grad: Grad::Rule(|b, cx| {
        let positive = {
            let zero = b.constant(b.dtype(cx.outputs[0]), 0.0)?;
            b.lt(zero, cx.outputs[0])?
        };
        Ok(smallvec![Some(b.select(positive, cx.ct(), 0.0)?)])
    }),
    saves: Saves::OUTPUT,
    samples: &[
        Sample { args: "f32[2,3] in 0.1..3", ulps: 0, grad: true },
        Sample { args: "f32[2,3] in -3..-0.1", ulps: 0, grad: true },
        Sample { args: "i64[4] in -3..3", ulps: 0, grad: false },
        Sample { args: "f32[0]", ulps: 0, grad: true },
    ],
    ..POINTWISE
};

/// Gaussian error linear unit.
pub static GELU: OpDef = OpDef {
    sig: "gelu(Tensor self, *, str approximate=\"none\") -> Tensor",
    doc: "x · Φ(x), where Φ is the normal distribution function; with \"tanh\" its approximation \
          (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2. Hendrycks and Gimpel, arXiv:1606.08415.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let attr = Attr::Str(args.choice(1, &["none", "tanh"])?);
        b.composite(def, smallvec![attr], &[args.tensor(0)?])
    },
    body: Body::Composite(gelu_body),
    grad: Grad::Rule(|b, cx| {
        Ok(smallvec![Some(b.composite(&GELU_BACKWARD, cx.op.attrs().into(), &[cx.ct(), cx.inputs[0]])?[0])])
    }),
    cost: 16,
    samples: &[
        Sample { args: "f32[2,3] in -3..3", ulps: 8, grad: true },
        Sample { args: "f32[2,3] in -3..3, \"tanh\"", ulps: 128, grad: true },
        Sample { args: "bf16[5] in -3..3", ulps: 2, grad: false },
    ],
    refuses: &[
        Refusal { args: "i64[2]", message: "gelu: needs a float tensor, got i64 [2]" },
        Refusal { args: "f32[2], \"erf\"", message: "gelu: \"erf\" is not one of \"none\", \"tanh\"" },
    ],
    ..POINTWISE
};

const SQRT_2_OVER_PI: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
const CUBIC: f64 = 0.044715;

/// `√(2/π) · (x + 0.044715 x³)`.
fn tanh_argument(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let square = b.mul(x, x)?;
    let cube = b.mul(square, x)?;
    let cube = b.mul(cube, CUBIC)?;
    let sum = b.add(x, cube)?;
    b.mul(sum, SQRT_2_OVER_PI)
}

/// `Φ(x) = (1 + erf(x / √2)) / 2`.
fn normal_cdf(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let scaled = b.mul(x, std::f64::consts::FRAC_1_SQRT_2)?;
    let erf = b.erf(scaled)?;
    let sum = b.add(erf, 1.0)?;
    b.mul(sum, 0.5)
}

fn gelu_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let dtype = b.dtype(v[0]);
    let x = widen(b, v[0])?;
    let y = if attrs[0] == Attr::Str("tanh") {
        let inner = tanh_argument(b, x)?;
        let t = b.tanh(inner)?;
        let one_plus = b.add(t, 1.0)?;
        let half = b.mul(x, 0.5)?;
        b.mul(half, one_plus)?
    } else {
        let cdf = normal_cdf(b, x)?;
        b.mul(x, cdf)?
    };
    Ok(smallvec![b.cast(y, dtype)?])
}

/// Gradient of [`GELU`].
pub static GELU_BACKWARD: OpDef = OpDef {
    sig: "gelu_backward(Tensor grad_output, Tensor self, *, str approximate=\"none\") -> Tensor",
    doc: "grad_output · (Φ(x) + x φ(x)); with \"tanh\" the derivative of the approximation.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let attr = Attr::Str(args.choice(2, &["none", "tanh"])?);
        b.composite(def, smallvec![attr], &[args.tensor(0)?, args.tensor(1)?])
    },
    body: Body::Composite(gelu_backward_body),
    cost: 24,
    samples: &[
        Sample { args: "f32[2,3] in -2..2, f32[2,3] in -3..3", ulps: 16, grad: true },
        Sample { args: "f32[2,3] in -2..2, f32[2,3] in -3..3, \"tanh\"", ulps: 64, grad: true },
    ],
    ..POINTWISE
};

fn gelu_backward_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let dtype = b.dtype(v[1]);
    let (dy, x) = (widen(b, v[0])?, widen(b, v[1])?);
    let slope = if attrs[0] == Attr::Str("tanh") { tanh_slope(b, x)? } else { normal_slope(b, x)? };
    let dx = b.mul(dy, slope)?;
    Ok(smallvec![b.cast(dx, dtype)?])
}

/// `Φ(x) + x φ(x)`, with `φ(x) = exp(-x²/2) / √(2π)`.
fn normal_slope(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let cdf = normal_cdf(b, x)?;
    let square = b.mul(x, x)?;
    let exponent = b.mul(square, -0.5)?;
    let bell = b.exp(exponent)?;
    let density = b.mul(bell, std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2 * 0.5)?;
    let tail = b.mul(x, density)?;
    b.add(cdf, tail)
}

/// With `t = tanh(u(x))`: `(1 + t)/2 + x/2 · (1 - t²) · u'(x)`.
fn tanh_slope(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let inner = tanh_argument(b, x)?;
    let t = b.tanh(inner)?;
    let one_plus = b.add(t, 1.0)?;
    let left = b.mul(one_plus, 0.5)?;
    let square = b.mul(x, x)?;
    let curve = b.mul(square, 3.0 * CUBIC)?;
    let curve = b.add(curve, 1.0)?;
    let inner_slope = b.mul(curve, SQRT_2_OVER_PI)?;
    let t_square = b.mul(t, t)?;
    let t_slope = b.sub(1.0, t_square)?;
    let half = b.mul(x, 0.5)?;
    let right = b.mul(half, t_slope)?;
    let right = b.mul(right, inner_slope)?;
    b.add(left, right)
}

/// `1 / (1 + exp(-x))`.
pub(crate) fn logistic(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let negative = b.neg(x)?;
    let e = b.exp(negative)?;
    let below = b.add(e, 1.0)?;
    b.div(1.0, below)
}

/// Logistic function.
pub static SIGMOID: OpDef = OpDef {
    sig: "sigmoid(Tensor self) -> Tensor",
    doc: "1 / (1 + exp(-x)); bool and integers become f32.",
    record: crate::elementwise::record_float::<1>,
    body: Body::Composite(|b, _, v| {
        let dtype = b.dtype(v[0]);
        let x = widen(b, v[0])?;
        let y = logistic(b, x)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    // dx = dy · y (1 - y)
    grad: Grad::Rule(|b, cx| {
        let y = cx.outputs[0];
        let rest = b.sub(1.0, y)?;
        let slope = b.mul(y, rest)?;
        Ok(smallvec![Some(b.mul(cx.ct(), slope)?)])
    }),
    saves: Saves::OUTPUT,
    cost: 8,
    samples: &[
        Sample { args: "f32[2,3] in -5..5", ulps: 8, grad: true },
        Sample { args: "i64[3] in -3..3", ulps: 8, grad: false },
        Sample { args: "bf16[5] in -3..3", ulps: 2, grad: false },
    ],
    ..POINTWISE
};

/// Swish.
pub static SILU: OpDef = OpDef {
    sig: "silu(Tensor self) -> Tensor",
    doc: "x · sigmoid(x).",
    body: Body::Composite(|b, _, v| {
        let dtype = b.dtype(v[0]);
        let x = widen(b, v[0])?;
        let gate = logistic(b, x)?;
        let y = b.mul(x, gate)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    grad: Grad::Rule(|b, cx| {
        Ok(smallvec![Some(b.composite(&SILU_BACKWARD, smallvec![], &[cx.ct(), cx.inputs[0]])?[0])])
    }),
    cost: 9,
    samples: &[Sample { args: "f32[2,3] in -5..5", ulps: 8, grad: true }],
    ..POINTWISE
};

/// Gradient of [`SILU`].
pub static SILU_BACKWARD: OpDef = OpDef {
    sig: "silu_backward(Tensor grad_output, Tensor self) -> Tensor",
    doc: "grad_output · s (1 + x (1 - s)), with s = sigmoid(x).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        b.composite(def, smallvec![], &[args.tensor(0)?, args.tensor(1)?])
    },
    body: Body::Composite(|b, _, v| {
        let dtype = b.dtype(v[1]);
        let (dy, x) = (widen(b, v[0])?, widen(b, v[1])?);
        let s = logistic(b, x)?;
        let rest = b.sub(1.0, s)?;
        let bend = b.mul(x, rest)?;
        let bend = b.add(bend, 1.0)?;
        let slope = b.mul(s, bend)?;
        let dx = b.mul(dy, slope)?;
        Ok(smallvec![b.cast(dx, dtype)?])
    }),
    cost: 12,
    samples: &[Sample { args: "f32[2,3] in -2..2, f32[2,3] in -5..5", ulps: 8, grad: true }],
    ..POINTWISE
};

/// Smooth `relu`.
pub static SOFTPLUS: OpDef = OpDef {
    sig: "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let attrs = smallvec![Attr::Float(args.float_or(1, 1.0)?), Attr::Float(args.float_or(2, 20.0)?)];
        b.composite(def, attrs, &[args.tensor(0)?])
    },
    body: Body::Composite(|b, attrs, v| {
        let (beta, threshold, dtype) = (attrs[0].float(), attrs[1].float(), b.dtype(v[0]));
        let x = widen(b, v[0])?;
        let scaled = b.mul(x, beta)?;
        let high = b.constant(b.dtype(x), threshold)?;
        let linear = b.lt(high, scaled)?;
        let small = b.select(linear, 0.0, scaled)?;
        let e = b.exp(small)?;
        let soft = b.log1p(e)?;
        let soft = b.div(soft, beta)?;
        let y = b.select(linear, x, soft)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    cost: 16,
    samples: &[Sample { args: "f32[2,3] in -5..5", ulps: 16, grad: true }],
    ..POINTWISE
};

/// `relu` with a slope below zero.
pub static LEAKY_RELU: OpDef = OpDef {
    sig: "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
    doc: "x where x > 0, else negative_slope · x.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        b.composite(def, smallvec![Attr::Float(args.float_or(1, 0.01)?)], &[args.tensor(0)?])
    },
    body: Body::Composite(|b, attrs, v| {
        let (x, below) = (v[0], b.mul(v[0], attrs[0].float())?);
        let positive = is_positive(b, x)?;
        Ok(smallvec![b.select(positive, x, below)?])
    }),
    grad: Grad::Rule(leaky_relu_grad),
    samples: &[
        Sample { args: "f32[2,3] in 0.1..3", ulps: 2, grad: true },
        Sample { args: "f32[2,3] in -3..-0.1", ulps: 2, grad: true },
    ],
    ..POINTWISE
};

fn is_positive(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let zero = b.constant(b.dtype(x), 0.0)?;
    b.lt(zero, x)
}

fn leaky_relu_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let below = b.mul(cx.ct(), cx.op.attrs()[0].float())?;
    let positive = is_positive(b, cx.inputs[0])?;
    debug_assert_eq!(b.dtype(positive), DType::Bool);
    Ok(smallvec![Some(b.select(positive, cx.ct(), below)?)])
}

/// `max(x, 0) + log1p(exp -|x|)`, the logarithm of `1 + exp x`.
pub(crate) fn soft_positive(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let size = b.abs(x)?;
    let down = b.neg(size)?;
    let e = b.exp(down)?;
    let log = b.log1p(e)?;
    let top = b.max(x, 0.0)?;
    b.add(top, log)
}

/// Logarithm of the logistic function.
pub static LOG_SIGMOID: OpDef = OpDef {
    sig: "log_sigmoid(Tensor self) -> Tensor",
    doc: "log(1 / (1 + exp(-x))) = min(x, 0) - log1p(exp -|x|).",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let x = b.neg(v[0])?;
            let y = soft_positive(b, x)?;
            b.neg(y)
        })
    }),
    // dx = dy / (1 + exp x)
    grad: Grad::Rule(|b, cx| {
        by_slope(b, cx, |b, x| {
            let other = b.neg(x)?;
            logistic(b, other)
        })
    }),
    cost: 24,
    samples: &[Sample::grad("f32[2,3] in -5..5", 16), Sample::of("f32[3] = -200 200 0", 16)],
    ..POINTWISE
};
/// A smooth `relu` that dips below 0.
pub static MISH: OpDef = OpDef {
    sig: "mish(Tensor self) -> Tensor",
    doc: "x · tanh(log(1 + exp x)). Misra, arXiv:1908.08681.",
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let soft = soft_positive(b, v[0])?;
            let gate = b.tanh(soft)?;
            b.mul(v[0], gate)
        })
    }),
    cost: 40,
    samples: &[Sample::grad("f32[2,3] in -5..-0.1", 16), Sample::grad("f32[2,3] in 0.1..5", 16)],
    ..POINTWISE
};
/// What `tanh` takes away.
pub static TANHSHRINK: OpDef = OpDef {
    sig: "tanhshrink(Tensor self) -> Tensor",
    doc: "x - tanh x.",
    record: crate::elementwise::record_float::<1>,
    body: Body::Composite(|b, _, v| {
        in_float(b, v, |b, v| {
            let t = b.tanh(v[0])?;
            b.sub(v[0], t)
        })
    }),
    cost: 13,
    samples: &[Sample::grad("f32[2,3] in -5..5", 64)],
    ..POINTWISE
};

/// Gated linear unit. Attribute: axis.
pub static GLU: OpDef = OpDef {
    sig: "glu(Tensor self, int dim=-1) -> Tensor",
    doc: "a · sigmoid(b), where a and b are the halves of x along dim. Dauphin et al., arXiv:1612.08083.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, dim) = (args.tensor(0)?, args.int_or(1, -1)?);
        let axis = rules::check_dim(def.name(), dim, b.rank(x))?;
        b.composite(def, smallvec![Attr::Int(axis as i64)], &[x])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 1)?;
        rules::check_float(op.name(), inputs[0])?;
        let (x, axis) = (inputs[0], op.attrs()[0].int() as usize);
        let size = if x.rank() == 0 { None } else { x.shape.dim(axis).known() };
        let Some(size) = size.filter(|n| n % 2 == 0) else {
            let what = format_args!("needs an even size along dim {axis}: {}", x.shape);
            return Err(rules::refuse(op.name(), Kind::Shape, what));
        };
        let mut out = x.clone();
        out.shape.set(axis, size / 2);
        Ok(smallvec![out])
    },
    body: Body::Composite(|b, attrs, v| {
        let axis = attrs[0].int() as usize;
        let half = b.shape(v[0]).dim(axis).bound() / 2;
        in_float(b, v, |b, v| {
            let (x, gate) = (b.slice(v[0], axis, 0, half)?, b.slice(v[0], axis, half as i64, half)?);
            let gate = logistic(b, gate)?;
            b.mul(x, gate)
        })
    }),
    batch: Batch::FromBody,
    cost: 9,
    samples: &[Sample::grad("f32[2,6] in -3..3", 16), Sample::grad("f32[4,3] in -3..3, 0", 16)],
    refuses: &[Refusal::of("f32[2,3]", "glu: needs an even size along dim 1: [2, 3]")],
    ..POINTWISE
};

/// `x / (1 + |x|)`.
pub static SOFTSIGN: OpDef = OpDef {
    sig: "softsign(Tensor self) -> Tensor",
    doc: "x / (1 + |x|).",
    body: Body::Composite(|b, _, v| {
        let magnitude = b.abs(v[0])?;
        let below = b.add(magnitude, 1.0)?;
        Ok(smallvec![b.div(v[0], below)?])
    }),
    samples: &[Sample { args: "f32[2,3] in -3..3", ulps: 8, grad: true }],
    ..FUNCTION
};
