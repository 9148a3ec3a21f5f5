//! Normalization over the last dims.
use crate::args::Args;
use crate::likeness::detached;
use crate::precision::{mean_keep, widen};
use crate::spelling::SPELLING;
use rtx_core::{DType, Fold, Kind, Result, Shape};
use rtx_ir::{
    Amp, Attr, Attrs, Body, Bound, Builder, Grad, GradCx, Grads, Op, OpDef, Outs, Refusal, Sample, Saves, Stability,
    Type, Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[&LAYER_NORM, &LAYER_NORM_BACKWARD, &NATIVE_LAYER_NORM, &RMS_NORM, &RMS_NORM_BACKWARD];

/// Layer normalization. Attributes: number of normalized dims, eps, has weight, has bias.
pub static LAYER_NORM: OpDef = OpDef {
    sig: "layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, \
          float eps=1e-05, bool cudnn_enable=True) -> Tensor",
    doc: "(x - mean) / √(var + eps) · weight + bias over the last dims; var divides by n. Halves are computed in f32. \
          Ba, Kiros and Hinton, arXiv:1607.06450.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, weight, bias) = (args.tensor(0)?, args.optional_tensor(2)?, args.optional_tensor(3)?);
        let dims = check_normalized(def, &args.shape(1)?, &b.shape(x))?;
        let attrs = smallvec![
            Attr::Int(dims),
            Attr::Float(args.float_or(4, 1e-5)?),
            Attr::Bool(weight.is_some()),
            Attr::Bool(bias.is_some()),
        ];
        let inputs: SmallVec<[ValueId; 3]> = [Some(x), weight, bias].into_iter().flatten().collect();
        b.composite(def, attrs, &inputs)
    },
    infer: infer_norm,
    body: Body::Composite(layer_norm_body),
    grad: Grad::Rule(layer_norm_grad),
    saves: Saves::Only { inputs: &[0, 1], outputs: &[] },
    amp: Amp::Full,
    cost: 10,
    samples: &[
        Sample { args: "f32[3,8] in -2..2, [8], f32[8] in -2..2, f32[8] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[3,2,4] in -2..2, [2,4]", ulps: 64, grad: true },
        Sample { args: "f32[3,8] in -2..2, [8], f32[8] in -2..2", ulps: 64, grad: true },
        Sample { args: "bf16[3,8] in -2..2, [8]", ulps: 2, grad: false },
    ],
    refuses: &[
        Refusal { args: "f32[3,8], [7]", message: "layer_norm: the last dims of x are not [7]: x [3, 8]" },
        Refusal {
            args: "f32[3,8], [8], f32[7]",
            message: "layer_norm: weight and bias are f32 [8], got f32 [7]: x [3, 8]",
        },
        Refusal { args: "i64[3,8], [8]", message: "layer_norm: needs a float tensor, got i64 [3, 8]" },
    ],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

/// The statistics beside the result.
pub static NATIVE_LAYER_NORM: OpDef = OpDef {
    sig: "native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`layer_norm`, the mean and 1 / √(var + eps), whose normalized dims are of size 1; the last two have no gradient.",
    record: |b, def, bound| {
        let args = Args::new(def, bound);
        let (x, dims) = (args.tensor(0)?, args.shape(1)?);
        check_normalized(def, &dims, &b.shape(x))?;
        let operands = [0, 1, 2, 3, 4].map(|i| args.get(i).clone());
        let y = b.call(&LAYER_NORM, operands)?[0];
        let dtype = b.dtype(x);
        let axes: SmallVec<[usize; 4]> = (b.rank(x) - dims.rank()..b.rank(x)).collect();
        let x = detached(b, x)?;
        let x = widen(b, x)?;
        let mean = mean_keep(b, x, &axes)?;
        let (_, rstd) = standardize(b, x, &axes, args.float_or(4, 1e-5)?)?;
        Ok(smallvec![y, b.cast(mean, dtype)?, b.cast(rstd, dtype)?])
    },
    amp: Amp::Full,
    samples: &[
        Sample { args: "f32[3,2,4] in -2..2, [2,4], f32[2,4] in -2..2, none, 1e-3", ulps: 64, grad: false },
        Sample { args: "f32[3,8] in -2..2, [8], none, none, 1e-3", ulps: 64, grad: false },
    ],
    refuses: &[Refusal {
        args: "f32[3,8], [7], none, none, 1e-3",
        message: "native_layer_norm: the last dims of x are not [7]: x [3, 8]",
    }],
    stability: Stability::Stable,
    ..SPELLING
};

/// How many dims are normalized.
fn check_normalized(def: &OpDef, normalized: &Shape, x: &Shape) -> Result<i64> {
    let n = normalized.rank();
    if n > 0 && n <= x.rank() && x.iter().skip(x.rank() - n).eq(normalized.iter()) {
        return Ok(n as i64);
    }
    Err(rules::refuse(def.name(), Kind::Shape, format_args!("the last dims of x are not {normalized}: x {x}")))
}

fn infer_norm(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let [x, affine @ ..] = inputs else { return Err(rules::refuse(op.name(), Kind::Argument, "takes a tensor")) };
    check_affine(op, x, affine)?;
    Ok(smallvec![(*x).clone()])
}

/// Weight and bias have the normalized shape and x's dtype.
fn check_affine(op: &Op, x: &Type, affine: &[&Type]) -> Result<()> {
    rules::check_float(op.name(), x)?;
    let n = op.attrs()[0].int() as usize;
    let want = Type { dtype: x.dtype, shape: x.shape.iter().skip(x.rank() - n).collect() };
    match affine.iter().find(|t| ***t != want) {
        None => Ok(()),
        Some(t) => Err(rules::refuse(
            op.name(),
            Kind::Shape,
            format_args!("weight and bias are {want}, got {t}: x {}", x.shape),
        )),
    }
}

/// The normalized axes of a tensor of this rank, and eps.
fn normalized(attrs: &[Attr], rank: usize) -> (SmallVec<[usize; 4]>, f64) {
    ((rank - attrs[0].int() as usize..rank).collect(), attrs[1].float())
}

/// `1 / √(variance + eps)`.
fn inverse_deviation(b: &mut Builder<'_>, variance: ValueId, eps: f64) -> Result<ValueId> {
    let sum = b.add(variance, eps)?;
    let root = b.sqrt(sum)?;
    b.div(1.0, root)
}

/// `(x - mean) · rstd` and `rstd`.
fn standardize(b: &mut Builder<'_>, x: ValueId, axes: &[usize], eps: f64) -> Result<(ValueId, ValueId)> {
    let mean = mean_keep(b, x, axes)?;
    let centered = b.sub(x, mean)?;
    let square = b.mul(centered, centered)?;
    let variance = mean_keep(b, square, axes)?;
    let rstd = inverse_deviation(b, variance, eps)?;
    Ok((b.mul(centered, rstd)?, rstd))
}

fn layer_norm_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (axes, eps) = normalized(attrs, b.rank(v[0]));
    let dtype = b.dtype(v[0]);
    let x = widen(b, v[0])?;
    let (mut y, _) = standardize(b, x, &axes, eps)?;
    let mut affine = v[1..].iter();
    if attrs[2].bool() {
        let weight = widen(b, *affine.next().expect("the attribute says so"))?;
        y = b.mul(y, weight)?;
    }
    if attrs[3].bool() {
        let bias = widen(b, *affine.next().expect("the attribute says so"))?;
        y = b.add(y, bias)?;
    }
    Ok(smallvec![b.cast(y, dtype)?])
}

fn layer_norm_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let attrs = cx.op.attrs();
    let (has_weight, has_bias) = (attrs[2].bool(), attrs[3].bool());
    let mut inputs: SmallVec<[ValueId; 3]> = smallvec![cx.ct(), cx.inputs[0]];
    if has_weight {
        inputs.push(cx.inputs[1]);
    }
    let outs = b.composite(&LAYER_NORM_BACKWARD, attrs.into(), &inputs)?;
    let mut grads: Grads = smallvec![Some(outs[0])];
    grads.extend(has_weight.then_some(Some(outs[1])));
    grads.extend(has_bias.then_some(Some(outs[2])));
    Ok(grads)
}

/// Gradients of [`LAYER_NORM`]; its attributes.
pub static LAYER_NORM_BACKWARD: OpDef = OpDef {
    sig: "layer_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, int dims, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "With x̂ the normalized input and g = grad_out · weight: dx = (g - mean g - x̂ mean(g x̂)) / √(var + eps), \
          dweight = Σ grad_out x̂, dbias = Σ grad_out, sums over the leading dims.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let weight = args.optional_tensor(2)?;
        let attrs = smallvec![
            Attr::Int(args.int(3)?),
            Attr::Float(args.float_or(4, 1e-5)?),
            Attr::Bool(weight.is_some()),
            Attr::Bool(true),
        ];
        let inputs: SmallVec<[ValueId; 3]> =
            [Some(args.tensor(0)?), Some(args.tensor(1)?), weight].into_iter().flatten().collect();
        b.composite(def, attrs, &inputs)
    },
    infer: infer_norm_backward,
    body: Body::Composite(layer_norm_backward_body),
    amp: Amp::Full,
    cost: 20,
    samples: &[Sample {
        args: "f32[3,8] in -2..2, f32[3,8] in -2..2, f32[8] in -2..2, 1, 1e-5",
        ulps: 256,
        grad: true,
    }],
    ..OpDef::DEFAULT
};

/// dx, then dweight and dbias of the normalized shape.
fn infer_norm_backward(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let [dy, x, weight @ ..] = inputs else {
        return Err(rules::refuse(op.name(), Kind::Argument, "takes grad_out and input"));
    };
    rules::check_equal(op, &[*dy, *x])?;
    check_affine(op, x, weight)?;
    let n = op.attrs()[0].int() as usize;
    let column = Type { dtype: x.dtype, shape: x.shape.iter().skip(x.rank() - n).collect() };
    let columns = if op.def() == Some(&RMS_NORM_BACKWARD) { 1 } else { 2 };
    Ok(std::iter::once((*x).clone()).chain(std::iter::repeat_n(column, columns)).collect())
}

fn layer_norm_backward_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (axes, eps) = normalized(attrs, b.rank(v[1]));
    let dtype = b.dtype(v[1]);
    let (dy, x) = (widen(b, v[0])?, widen(b, v[1])?);
    let (hat, rstd) = standardize(b, x, &axes, eps)?;
    let g = scaled_gradient(b, dy, v.get(2).copied())?;
    let g_mean = mean_keep(b, g, &axes)?;
    let product = b.mul(g, hat)?;
    let product_mean = mean_keep(b, product, &axes)?;
    let along = b.mul(hat, product_mean)?;
    let dx = b.sub(g, g_mean)?;
    let dx = b.sub(dx, along)?;
    let dx = b.mul(dx, rstd)?;
    let lead: SmallVec<[usize; 4]> = (0..axes[0]).collect();
    let by_hat = b.mul(dy, hat)?;
    let dweight = b.reduce(Fold::Sum, by_hat, &lead)?;
    let dbias = b.reduce(Fold::Sum, dy, &lead)?;
    Ok(smallvec![b.cast(dx, dtype)?, b.cast(dweight, dtype)?, b.cast(dbias, dtype)?])
}

/// `dy · weight`.
fn scaled_gradient(b: &mut Builder<'_>, dy: ValueId, weight: Option<ValueId>) -> Result<ValueId> {
    let Some(weight) = weight else { return Ok(dy) };
    let weight = widen(b, weight)?;
    b.mul(dy, weight)
}

/// Root-mean-square normalization. Attributes: number of normalized dims, eps.
pub static RMS_NORM: OpDef = OpDef {
    sig: "rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
    doc: "x / √(mean x² + eps) · weight over the last dims; eps is the dtype's epsilon by default. Halves are computed \
          in f32. Zhang and Sennrich, arXiv:1910.07467.",
    record: record_rms_norm,
    infer: infer_norm,
    body: Body::Composite(|b, attrs, v| {
        let (axes, eps) = normalized(attrs, b.rank(v[0]));
        let dtype = b.dtype(v[0]);
        let x = widen(b, v[0])?;
        let (y, _) = unit_scale(b, x, &axes, eps)?;
        let y = scaled_gradient(b, y, v.get(1).copied())?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    grad: Grad::Rule(|b, cx| {
        let mut inputs: SmallVec<[ValueId; 3]> = smallvec![cx.ct()];
        inputs.extend_from_slice(cx.inputs);
        let outs = b.composite(&RMS_NORM_BACKWARD, cx.op.attrs().into(), &inputs)?;
        Ok(outs.iter().take(cx.inputs.len()).map(|&v| Some(v)).collect())
    }),
    amp: Amp::Full,
    cost: 8,
    samples: &[
        Sample { args: "f32[3,8] in -2..2, [8], f32[8] in -2..2", ulps: 64, grad: true },
        Sample { args: "f32[3,8] in -2..2, [8]", ulps: 64, grad: true },
    ],
    refuses: &[Refusal { args: "f32[3,8], [7]", message: "rms_norm: the last dims of x are not [7]: x [3, 8]" }],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

fn record_rms_norm(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let (x, weight) = (args.tensor(0)?, args.optional_tensor(2)?);
    let dims = check_normalized(def, &args.shape(1)?, &b.shape(x))?;
    let eps = args.float_or(3, epsilon(b.dtype(x)))?;
    let attrs: Attrs = smallvec![Attr::Int(dims), Attr::Float(eps)];
    let inputs: SmallVec<[ValueId; 2]> = [Some(x), weight].into_iter().flatten().collect();
    b.composite(def, attrs, &inputs)
}

/// The distance from 1 to the next number, in the precision of the computation.
fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F64 { f64::EPSILON } else { f32::EPSILON as f64 }
}

/// `x · r` and `r = 1 / √(mean x² + eps)`.
fn unit_scale(b: &mut Builder<'_>, x: ValueId, axes: &[usize], eps: f64) -> Result<(ValueId, ValueId)> {
    let square = b.mul(x, x)?;
    let mean = mean_keep(b, square, axes)?;
    let scale = inverse_deviation(b, mean, eps)?;
    Ok((b.mul(x, scale)?, scale))
}

/// Gradients of [`RMS_NORM`]; its attributes.
pub static RMS_NORM_BACKWARD: OpDef = OpDef {
    sig: "rms_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, int dims, float eps) -> (Tensor, Tensor)",
    doc: "With x̂ = x r, r = 1/√(mean x² + eps) and g = grad_out · weight: dx = r (g - x̂ mean(g x̂)), dweight = Σ grad_out x̂.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let attrs = smallvec![Attr::Int(args.int(3)?), Attr::Float(args.float_or(4, f32::EPSILON as f64)?)];
        let inputs: SmallVec<[ValueId; 3]> =
            [Some(args.tensor(0)?), Some(args.tensor(1)?), args.optional_tensor(2)?].into_iter().flatten().collect();
        b.composite(def, attrs, &inputs)
    },
    infer: infer_norm_backward,
    body: Body::Composite(|b, attrs, v| {
        let (axes, eps) = normalized(attrs, b.rank(v[1]));
        let dtype = b.dtype(v[1]);
        let (dy, x) = (widen(b, v[0])?, widen(b, v[1])?);
        let (hat, scale) = unit_scale(b, x, &axes, eps)?;
        let g = scaled_gradient(b, dy, v.get(2).copied())?;
        let product = b.mul(g, hat)?;
        let product_mean = mean_keep(b, product, &axes)?;
        let along = b.mul(hat, product_mean)?;
        let dx = b.sub(g, along)?;
        let dx = b.mul(dx, scale)?;
        let lead: SmallVec<[usize; 4]> = (0..axes[0]).collect();
        let by_hat = b.mul(dy, hat)?;
        let dweight = b.reduce(Fold::Sum, by_hat, &lead)?;
        Ok(smallvec![b.cast(dx, dtype)?, b.cast(dweight, dtype)?])
    }),
    amp: Amp::Full,
    cost: 16,
    samples: &[Sample {
        args: "f32[3,8] in -2..2, f32[3,8] in -2..2, f32[8] in -2..2, 1, 1e-5",
        ulps: 256,
        grad: true,
    }],
    ..OpDef::DEFAULT
};
