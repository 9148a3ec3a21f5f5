//! Normalization by statistics of channels: over the batch, over one image, over groups of channels, over neighbours.
use crate::args::Args;
use crate::likeness::detached;
use crate::lines::{known, number};
use crate::precision::{count, mean_keep, widen};
use crate::spatial::along;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use rtx_ir::{
    Amp, Attr, Attrs, Body, Builder, Grad, GradCx, Grads, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, Type,
    ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &BATCH_STANDARDIZE,
    &BATCH_STANDARDIZE_BACKWARD,
    &BATCH_NORM,
    &F_BATCH_NORM,
    &NATIVE_BATCH_NORM,
    &NATIVE_BATCH_NORM_LEGIT,
    &NATIVE_BATCH_NORM_LEGIT_NO_STATS,
    &NATIVE_BATCH_NORM_LEGIT_FUNCTIONAL,
    &BATCH_NORM_WITH_UPDATE,
    &INSTANCE_NORM,
    &F_INSTANCE_NORM,
    &GROUP_NORM,
    &NATIVE_GROUP_NORM,
    &LOCAL_RESPONSE_NORM,
];

/// All axes but the channels'.
fn other_axes(rank: usize) -> SmallVec<[usize; 4]> {
    (0..rank).filter(|&i| i != 1).collect()
}

/// Normalization by the batch's own statistics. Attributes: eps, has weight, has bias.
pub static BATCH_STANDARDIZE: OpDef = OpDef {
    sig: "batch_standardize(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "(x - mean) / √(var + eps) · weight + bias for each channel (dim 1), and mean and var, which divides by n. Halves \
          are computed in f32. Ioffe and Szegedy, arXiv:1502.03167.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, weight, bias) = (args.tensor(0)?, args.optional_tensor(1)?, args.optional_tensor(2)?);
        standardize_batch(b, def.name(), x, weight, bias, args.float_or(3, 1e-5)?)
    },
    infer: |op, inputs| {
        let [x, ..] = inputs else { return Err(rules::refuse(op.name(), Kind::Argument, "takes a tensor")) };
        let column = Type { dtype: rules::number_dtype(x.dtype), shape: Shape::from_iter([x.shape.dim(1)]) };
        Ok(smallvec![(*x).clone(), column.clone(), column])
    },
    body: Body::Composite(|b, attrs, v| {
        let (dtype, rank) = (b.dtype(v[0]), b.rank(v[0]));
        let axes = other_axes(rank);
        let x = widen(b, v[0])?;
        let mean = mean_keep(b, x, &axes)?;
        let centered = b.sub(x, mean)?;
        let square = b.mul(centered, centered)?;
        let variance = mean_keep(b, square, &axes)?;
        let rstd = inverse_root(b, variance, attrs[0].float())?;
        let y = b.mul(centered, rstd)?;
        let mut affine = v[1..].iter().copied();
        let weight = if attrs[1].bool() { affine.next() } else { None };
        let y = scaled(b, y, weight, affine.next())?;
        let column = Shape::from_iter([b.ty(x).shape.dim(1)]);
        Ok(smallvec![b.cast(y, dtype)?, b.reshape(mean, &column)?, b.reshape(variance, &column)?])
    }),
    grad: Grad::Rule(batch_grad),
    saves: Saves::Only { inputs: &[0, 1], outputs: &[1] },
    amp: Amp::Full,
    cost: 10,
    samples: &[
        Sample::grad("f32[4,3] in -2..2, f32[3] in -2..2, f32[3] in -2..2, 1e-3", 256),
        Sample::grad("f32[2,3,4] in -2..2, none, none, 1e-3", 256),
        Sample::grad("f32[2,2,2,3] in -2..2, f32[2] in -2..2, none, 1e-3", 256),
        Sample::grad("f32[3,2] in -2..2, none, f32[2] in -2..2, 1e-3", 256),
        Sample::of("bf16[4,3] in -2..2, none, none, 1e-5", 1 << 18),
    ],
    ..OpDef::DEFAULT
};

fn standardize_batch(
    b: &mut Builder<'_>,
    op: &str,
    x: ValueId,
    weight: Option<ValueId>,
    bias: Option<ValueId>,
    eps: f64,
) -> Result<Outs> {
    check_channels(b, op, x, &[("weight", weight), ("bias", bias)])?;
    let attrs: Attrs = smallvec![Attr::Float(eps), Attr::Bool(weight.is_some()), Attr::Bool(bias.is_some())];
    let inputs: SmallVec<[ValueId; 3]> = [Some(x), weight, bias].into_iter().flatten().collect();
    b.composite(&BATCH_STANDARDIZE, attrs, &inputs)
}

/// A float tensor with channels, and tensors with a number for each.
fn check_channels(b: &Builder<'_>, op: &str, x: ValueId, columns: &[(&str, Option<ValueId>)]) -> Result<()> {
    let ty = b.ty(x);
    rules::check_float(op, ty)?;
    if ty.rank() < 2 {
        return Err(rules::refuse(op, Kind::Shape, format_args!("takes two or more dims, got {}", ty.shape)));
    }
    let want = Shape::from_iter([ty.shape.dim(1)]);
    for (name, v) in columns.iter().filter_map(|(n, v)| Some((n, (*v)?))) {
        if b.shape(v) != want {
            let what = format_args!("input has {} channels, the {name} has {}", ty.shape.dim(1), b.shape(v));
            return Err(rules::refuse(op, Kind::Shape, what));
        }
    }
    Ok(())
}

/// `1 / √(variance + eps)`.
fn inverse_root(b: &mut Builder<'_>, variance: ValueId, eps: f64) -> Result<ValueId> {
    let sum = b.add(variance, eps)?;
    let root = b.sqrt(sum)?;
    b.div(1.0, root)
}
/// `y · weight + bias`, a number for each channel.
fn scaled(b: &mut Builder<'_>, y: ValueId, weight: Option<ValueId>, bias: Option<ValueId>) -> Result<ValueId> {
    let rank = b.rank(y);
    let mut y = y;
    if let Some(weight) = weight {
        let weight = widen(b, weight)?;
        let weight = along(b, weight, 1, rank)?;
        y = b.mul(y, weight)?;
    }
    if let Some(bias) = bias {
        let bias = widen(b, bias)?;
        let bias = along(b, bias, 1, rank)?;
        y = b.add(y, bias)?;
    }
    Ok(y)
}

fn batch_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let attrs = cx.op.attrs();
    let (has_weight, has_bias) = (attrs[1].bool(), attrs[2].bool());
    let x = cx.inputs[0];
    let mut grads: Grads = smallvec![None; cx.inputs.len()];
    if let Some(g) = cx.cotangents[0] {
        let mut inputs: SmallVec<[ValueId; 3]> = smallvec![g, x];
        if has_weight {
            inputs.push(cx.inputs[1]);
        }
        let attrs = smallvec![attrs[0].clone(), attrs[1].clone()];
        let outs = b.composite(&BATCH_STANDARDIZE_BACKWARD, attrs, &inputs)?;
        grads[0] = Some(outs[0]);
        if has_weight {
            grads[1] = Some(outs[1]);
        }
        if has_bias {
            grads[1 + usize::from(has_weight)] = Some(outs[2]);
        }
    }
    // What flows into the statistics: each element has 1/n of the mean and 2 (x - mean) / n of the variance.
    let (rank, axes) = (b.rank(x), other_axes(b.rank(x)));
    for (i, g) in cx.cotangents.iter().enumerate().skip(1).filter_map(|(i, g)| Some((i, (*g)?))) {
        let wide = widen(b, x)?;
        let n = count(b, b.dtype(wide), &b.shape(x), &axes)?;
        let g = b.div(g, n)?;
        let g = along(b, g, 1, rank)?;
        let more = if i == 1 {
            b.expand(g, &b.shape(x))?
        } else {
            let mean = along(b, cx.outputs[1], 1, rank)?;
            let centered = b.sub(wide, mean)?;
            let twice = b.mul(centered, 2.0)?;
            b.mul(twice, g)?
        };
        let more = b.cast(more, b.dtype(x))?;
        grads[0] = Some(if let Some(g) = grads[0] { b.add(g, more)? } else { more });
    }
    Ok(grads)
}

/// Gradients of [`BATCH_STANDARDIZE`]'s first result. Attributes: eps, has weight.
pub static BATCH_STANDARDIZE_BACKWARD: OpDef = OpDef {
    sig: "batch_standardize_backward(Tensor grad_out, Tensor input, Tensor? weight, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "With x̂ the normalized input and sums over all but the channels: dx = weight / √(var + eps) · (dy - mean dy - x̂ \
          mean(dy x̂)), dweight = Σ dy x̂, dbias = Σ dy.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let weight = args.optional_tensor(2)?;
        let attrs = smallvec![Attr::Float(args.float_or(3, 1e-5)?), Attr::Bool(weight.is_some())];
        let inputs: SmallVec<[ValueId; 3]> =
            [Some(args.tensor(0)?), Some(args.tensor(1)?), weight].into_iter().flatten().collect();
        b.composite(def, attrs, &inputs)
    },
    infer: |op, inputs| {
        let [dy, x, ..] = inputs else {
            return Err(rules::refuse(op.name(), Kind::Argument, "takes grad_out and input"));
        };
        rules::check_float(op.name(), x)?;
        rules::check_equal(op, &[*dy, *x])?;
        let column = Type { dtype: x.dtype, shape: Shape::from_iter([x.shape.dim(1)]) };
        Ok(smallvec![(*x).clone(), column.clone(), column])
    },
    body: Body::Composite(|b, attrs, v| {
        let (dtype, axes) = (b.dtype(v[1]), other_axes(b.rank(v[1])));
        let (dy, x) = (widen(b, v[0])?, widen(b, v[1])?);
        let mean = mean_keep(b, x, &axes)?;
        let centered = b.sub(x, mean)?;
        let square = b.mul(centered, centered)?;
        let variance = mean_keep(b, square, &axes)?;
        let rstd = inverse_root(b, variance, attrs[0].float())?;
        let hat = b.mul(centered, rstd)?;
        let by_hat = b.mul(dy, hat)?;
        let (dbias, dweight) = (b.reduce_keep(Fold::Sum, dy, &axes)?, b.reduce_keep(Fold::Sum, by_hat, &axes)?);
        let n = count(b, b.dtype(x), &b.shape(x), &axes)?;
        let (mean_dy, mean_by) = (b.div(dbias, n)?, b.div(dweight, n)?);
        let along_hat = b.mul(hat, mean_by)?;
        let dx = b.sub(dy, mean_dy)?;
        let dx = b.sub(dx, along_hat)?;
        let dx = b.mul(dx, rstd)?;
        let dx = scaled(b, dx, v.get(2).copied().filter(|_| attrs[1].bool()), None)?;
        let column = Shape::from_iter([b.ty(x).shape.dim(1)]);
        let (dweight, dbias) = (b.reshape(dweight, &column)?, b.reshape(dbias, &column)?);
        Ok(smallvec![b.cast(dx, dtype)?, b.cast(dweight, dtype)?, b.cast(dbias, dtype)?])
    }),
    amp: Amp::Full,
    cost: 20,
    samples: &[
        Sample::grad("f32[4,3] in -2..2, f32[4,3] in -2..2, f32[3] in -2..2, 1e-3", 512),
        Sample::grad("f32[2,2,3] in -2..2, f32[2,2,3] in -2..2, none, 1e-3", 512),
    ],
    ..OpDef::DEFAULT
};

/// The operands of a call of batch normalization.
struct Norm {
    x: ValueId,
    weight: Option<ValueId>,
    bias: Option<ValueId>,
    running: Option<(ValueId, ValueId)>,
    training: bool,
    eps: f64,
}

/// What batch normalization makes.
struct Normed {
    y: ValueId,
    mean: ValueId,
    variance: ValueId,
}

impl Norm {
    /// From the positions of `input weight bias running_mean running_var training eps` in a call.
    fn of(args: Args<'_>, at: [usize; 5], training: Option<bool>, eps: usize) -> Result<Self> {
        let [x, weight, bias, mean, variance] = at;
        let running = args.optional_tensor(mean)?.zip(args.optional_tensor(variance)?);
        Ok(Self {
            x: args.tensor(x)?,
            weight: args.optional_tensor(weight)?,
            bias: args.optional_tensor(bias)?,
            running,
            training: training.unwrap_or(true),
            eps: args.float_or(eps, 1e-5)?,
        })
    }

    fn run(&self, b: &mut Builder<'_>, op: &str) -> Result<Normed> {
        let columns = [
            ("weight", self.weight),
            ("bias", self.bias),
            ("running_mean", self.running.map(|r| r.0)),
            ("running_var", self.running.map(|r| r.1)),
        ];
        check_channels(b, op, self.x, &columns)?;
        let (mean, variance) = match (self.training, self.running) {
            (false, Some(running)) => running,
            (false, None) => {
                return Err(rules::refuse(op, Kind::Argument, "needs running statistics when not training"));
            }
            (true, _) => {
                let outs = standardize_batch(b, op, self.x, self.weight, self.bias, self.eps)?;
                return Ok(Normed { y: outs[0], mean: outs[1], variance: outs[2] });
            }
        };
        let (dtype, rank) = (b.dtype(self.x), b.rank(self.x));
        let (x, mean, variance) = (widen(b, self.x)?, widen(b, mean)?, widen(b, variance)?);
        let rstd = inverse_root(b, variance, self.eps)?;
        let (mean_along, rstd) = (along(b, mean, 1, rank)?, along(b, rstd, 1, rank)?);
        let y = b.sub(x, mean_along)?;
        let y = b.mul(y, rstd)?;
        let y = scaled(b, y, self.weight, self.bias)?;
        Ok(Normed { y: b.cast(y, dtype)?, mean, variance })
    }

    /// How many elements a channel has.
    fn elements(&self, b: &mut Builder<'_>) -> Result<ValueId> {
        let axes = other_axes(b.rank(self.x));
        let dtype = rules::number_dtype(b.dtype(self.x));
        count(b, dtype, &b.shape(self.x), &axes)
    }
}

/// `running + momentum · (new - running)`, as `(1 - momentum) · running + momentum · new`.
fn moved(b: &mut Builder<'_>, running: ValueId, new: ValueId, momentum: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(running);
    let (running, new, momentum) = (widen(b, running)?, widen(b, new)?, b.cast(momentum, rules::number_dtype(dtype))?);
    let new = b.cast(new, b.dtype(running))?;
    let rest = b.sub(1.0, momentum)?;
    let (kept, added) = (b.mul(running, rest)?, b.mul(new, momentum)?);
    let sum = b.add(kept, added)?;
    b.cast(sum, dtype)
}

/// No elements and no channels, which PyTorch hands back as they are.
fn is_nothing(b: &Builder<'_>, x: ValueId) -> bool {
    b.shape(x) == Shape::from([0])
}
/// More than one element a channel, or there is no variance.
fn check_elements(b: &Builder<'_>, op: &str, x: ValueId) -> Result<()> {
    let shape = b.shape(x);
    let elements: usize = shape.iter().enumerate().filter(|(i, _)| *i != 1).map(|(_, d)| d.bound()).product();
    if elements != 1 {
        return Ok(());
    }
    Err(rules::refuse(op, Kind::Shape, format_args!("training takes more than one element a channel, got {shape}")))
}

const NORM: OpDef = OpDef { amp: Amp::Full, cost: 10, stability: Stability::Stable, ..SPELLING };

/// With PyTorch's order of operands.
pub static BATCH_NORM: OpDef = OpDef {
    sig: "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled=True) -> Tensor",
    doc: "(x - mean) / √(var + eps) · weight + bias for each channel (dim 1), by the batch's statistics when training, else by \
          the running ones, which are not changed: `_native_batch_norm_legit_functional` returns new ones.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let training = args.flag(5)?;
        if is_nothing(b, args.tensor(0)?) {
            return Ok(smallvec![args.tensor(0)?]);
        }
        if training {
            check_elements(b, def.name(), args.tensor(0)?)?;
        }
        Ok(smallvec![Norm::of(args, [0, 1, 2, 3, 4], Some(training), 7)?.run(b, def.name())?.y])
    },
    samples: &[
        Sample::grad("f32[4,3] in -2..2, f32[3], f32[3], none, none, true, 0.1, 1e-3", 256),
        Sample::grad("f32[2,3,2] in -2..2, f32[3], f32[3], f32[3], f32[3] in 0.5..2, false, 0.1, 1e-5", 256),
    ],
    refuses: &[
        Refusal::of(
            "f32[1,3], none, none, none, none, true, 0.1, 1e-5",
            "batch_norm: training takes more than one element a channel, got [1, 3]",
        ),
        Refusal::of(
            "f32[4,3], f32[4], none, none, none, true, 0.1, 1e-5",
            "batch_norm: input has 3 channels, the weight has [4]",
        ),
        Refusal::of(
            "f32[4,3], none, none, none, none, false, 0.1, 1e-5",
            "batch_norm: needs running statistics when not training",
        ),
        Refusal::of(
            "i64[4,3], none, none, none, none, true, 0.1, 1e-5",
            "batch_norm: needs a float tensor, got i64 [4, 3]",
        ),
    ],
    ..NORM
};
/// As Python's function has it.
pub static F_BATCH_NORM: OpDef = OpDef {
    sig: "nn_functional_batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
    doc: "`batch_norm` with Python's order of operands.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let training = args.flag(5)?;
        if is_nothing(b, args.tensor(0)?) {
            return Ok(smallvec![args.tensor(0)?]);
        }
        if training {
            check_elements(b, "batch_norm", args.tensor(0)?)?;
        }
        Ok(smallvec![Norm::of(args, [0, 3, 4, 1, 2], Some(training), 7)?.run(b, "batch_norm")?.y])
    },
    samples: &[Sample::grad("f32[2,3,2] in -2..2, f32[3], f32[3] in 0.5..2, f32[3], f32[3]", 256)],
    ..NORM
};

/// Result, mean and inverse deviation as PyTorch's native ops return them: nothing for the last two in eval mode.
fn native(b: &mut Builder<'_>, op: &str, norm: &Norm) -> Result<Outs> {
    let normed = norm.run(b, op)?;
    if !norm.training {
        let dtype = b.dtype(normed.mean);
        let none = b.zeros(dtype, &[0].into())?;
        return Ok(smallvec![normed.y, none, none]);
    }
    let rstd = inverse_root(b, normed.variance, norm.eps)?;
    Ok(smallvec![normed.y, detached(b, normed.mean)?, detached(b, rstd)?])
}
/// The batch's own mean and inverse deviation beside the result.
pub static NATIVE_BATCH_NORM: OpDef = OpDef {
    sig: "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`batch_norm`, the mean and 1 / √(var + eps); the last two are empty when not training, and have no gradient.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let norm = Norm::of(args, [0, 1, 2, 3, 4], Some(args.flag(5)?), 7)?;
        native(b, def.name(), &norm)
    },
    samples: &[
        Sample::of("f32[4,3] in -2..2, f32[3], f32[3], none, none, true, 0.1, 1e-3", 256),
        Sample::of("f32[4,3] in -2..2, f32[3], f32[3], f32[3], f32[3] in 0.5..2, false, 0.1, 1e-3", 256),
    ],
    ..NORM
};
/// The same under its newer name.
pub static NATIVE_BATCH_NORM_LEGIT: OpDef = OpDef {
    sig: "_native_batch_norm_legit(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`native_batch_norm` with running statistics, which are not changed.",
    record: NATIVE_BATCH_NORM.record,
    samples: &[Sample::of("f32[4,3] in -2..2, f32[3], f32[3], f32[3], f32[3] in 0.5..2, true, 0.1, 1e-3", 256)],
    ..NORM
};
/// The same without running statistics.
pub static NATIVE_BATCH_NORM_LEGIT_NO_STATS: OpDef = OpDef {
    sig: "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`native_batch_norm` by the batch's statistics.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let norm = Norm { running: None, ..Norm::of(args, [0, 1, 2, 1, 2], Some(true), 5)? };
        native(b, def.name(), &norm)
    },
    samples: &[Sample::of("f32[4,3] in -2..2, f32[3], f32[3], true, 0.1, 1e-3", 256)],
    ..NORM
};
/// The running statistics as results.
pub static NATIVE_BATCH_NORM_LEGIT_FUNCTIONAL: OpDef = OpDef {
    sig: "_native_batch_norm_legit_functional(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    doc: "`native_batch_norm` and the running statistics after it: (1 - momentum) · running + momentum · batch, with the variance \
          that divides by n - 1.",
    runtime: &["momentum"],
    record: |b, def, args| {
        let args = Args::new(def, args);
        let norm = Norm::of(args, [0, 1, 2, 3, 4], Some(args.flag(5)?), 7)?;
        let (Some((mean, variance)), true) = (norm.running, norm.training) else {
            let mut outs = native(b, def.name(), &norm)?;
            outs.extend([args.tensor(3)?, args.tensor(4)?]);
            return Ok(outs);
        };
        let mut normed = norm.run(b, def.name())?;
        normed.mean = detached(b, normed.mean)?;
        normed.variance = detached(b, normed.variance)?;
        let rstd = inverse_root(b, normed.variance, norm.eps)?;
        let momentum = number(b, args, 6, rules::number_dtype(b.dtype(mean)), 0.1)?;
        let n = norm.elements(b)?;
        let below = b.sub(n, 1.0)?;
        let share = b.div(n, below)?;
        let unbiased = b.mul(normed.variance, share)?;
        let mean = moved(b, mean, normed.mean, momentum)?;
        let variance = moved(b, variance, unbiased, momentum)?;
        Ok(smallvec![normed.y, normed.mean, rstd, mean, variance])
    },
    samples: &[
        Sample::of("f32[4,3] in -2..2, f32[3], f32[3], f32[3], f32[3] in 0.5..2, true, 0.1, 1e-3", 256),
        Sample::of("f32[4,3] in -2..2, f32[3], f32[3], f32[3], f32[3] in 0.5..2, false, 0.1, 1e-3", 256),
    ],
    ..NORM
};
/// By the batch's statistics, with a reserve that only other devices use.
pub static BATCH_NORM_WITH_UPDATE: OpDef = OpDef {
    sig: "_batch_norm_with_update(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    doc: "`native_batch_norm` when training, and an empty tensor; the running statistics are not changed.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let norm = Norm::of(args, [0, 1, 2, 3, 4], Some(true), 6)?;
        let mut outs = native(b, def.name(), &norm)?;
        outs.push(b.zeros(DType::U8, &[0].into())?);
        Ok(outs)
    },
    samples: &[Sample::of("f32[4,3] in -2..2, f32[3], f32[3], f32[3], f32[3] in 0.5..2, 0.1, 1e-3", 256)],
    ..NORM
};

/// Each image and channel by its own statistics.
fn instance(b: &mut Builder<'_>, op: &str, norm: &Norm) -> Result<Outs> {
    if !norm.training {
        return Ok(smallvec![norm.run(b, op)?.y]);
    }
    check_channels(b, op, norm.x, &[("weight", norm.weight), ("bias", norm.bias)])?;
    let (shape, dtype) = (b.shape(norm.x), b.dtype(norm.x));
    if shape.rank() < 3 || shape.iter().skip(2).map(Dim::bound).product::<usize>() == 1 {
        let what = format_args!("takes more than one element an image and channel, got {shape}");
        return Err(rules::refuse(op, Kind::Shape, what));
    }
    let axes: SmallVec<[usize; 4]> = (2..shape.rank()).collect();
    let x = widen(b, norm.x)?;
    let (y, _, _) = standardized(b, x, &axes, norm.eps)?;
    let y = scaled(b, y, norm.weight, norm.bias)?;
    Ok(smallvec![b.cast(y, dtype)?])
}

/// `(x - mean) / √(var + eps)` over axes, the mean and the inverse deviation.
fn standardized(b: &mut Builder<'_>, x: ValueId, axes: &[usize], eps: f64) -> Result<(ValueId, ValueId, ValueId)> {
    let mean = mean_keep(b, x, axes)?;
    let centered = b.sub(x, mean)?;
    let square = b.mul(centered, centered)?;
    let variance = mean_keep(b, square, axes)?;
    let rstd = inverse_root(b, variance, eps)?;
    Ok((b.mul(centered, rstd)?, mean, rstd))
}

/// With PyTorch's order of operands.
pub static INSTANCE_NORM: OpDef = OpDef {
    sig: "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled=True) -> Tensor",
    doc: "(x - mean) / √(var + eps) · weight + bias by the statistics of each image and channel, or by the running ones of each \
          channel, which are not changed. Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let norm = Norm::of(args, [0, 1, 2, 3, 4], Some(args.flag(5)?), 7)?;
        instance(b, def.name(), &norm)
    },
    samples: &[
        Sample::grad("f32[2,3,4] in -2..2, f32[3], f32[3], none, none, true, 0.1, 1e-3", 256),
        Sample::grad("f32[2,3,4] in -2..2, none, none, f32[3], f32[3] in 0.5..2, false, 0.1, 1e-3", 256),
    ],
    refuses: &[Refusal::of(
        "f32[2,3,1], none, none, none, none, true, 0.1, 1e-3",
        "instance_norm: takes more than one element an image and channel, got [2, 3, 1]",
    )],
    ..NORM
};
/// As Python's function has it.
pub static F_INSTANCE_NORM: OpDef = OpDef {
    sig: "nn_functional_instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
    doc: "`instance_norm` with Python's order of operands.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let own = !crate::spatial::is_given(args, 5) || args.flag(5)?;
        let norm = Norm::of(args, [0, 3, 4, 1, 2], Some(own), 7)?;
        instance(b, "instance_norm", &norm)
    },
    samples: &[Sample::grad("f32[2,3,4] in -2..2", 256)],
    ..NORM
};

/// Groups of channels of each image by their own statistics: the result, mean and inverse deviation.
fn by_groups(
    b: &mut Builder<'_>,
    args: Args<'_>,
    x: ValueId,
    groups: i64,
    eps: f64,
    affine: [usize; 2],
) -> Result<Outs> {
    let op = args.op();
    let (weight, bias) = (args.optional_tensor(affine[0])?, args.optional_tensor(affine[1])?);
    check_channels(b, op, x, &[("weight", weight), ("bias", bias)])?;
    let (shape, dtype) = (b.shape(x), b.dtype(x));
    let channels = known(op, shape.dim(1))?;
    if groups < 1 || !channels.is_multiple_of(groups as usize) {
        let what = format_args!("{channels} channels do not divide into {groups} groups");
        return Err(rules::refuse(op, Kind::Argument, what));
    }
    let groups = groups as usize;
    let elements: usize = shape.iter().skip(2).map(|d| known(op, d)).product::<Result<usize>>()?;
    let rows = Shape::from_iter([shape.dim(0), groups.into(), (channels / groups * elements).into()]);
    let wide = widen(b, x)?;
    let wide = b.reshape(wide, &rows)?;
    let (y, mean, rstd) = standardized(b, wide, &[2], eps)?;
    let y = b.reshape(y, &shape)?;
    let y = scaled(b, y, weight, bias)?;
    let two: Shape = rows.iter().take(2).collect();
    let (mean, rstd) = (b.reshape(mean, &two)?, b.reshape(rstd, &two)?);
    Ok(smallvec![b.cast(y, dtype)?, b.cast(mean, dtype)?, b.cast(rstd, dtype)?])
}
/// Over groups of channels.
pub static GROUP_NORM: OpDef = OpDef {
    sig: "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
    doc: "(x - mean) / √(var + eps) · weight + bias by the statistics of groups of channels of each image. Wu and He, \
          arXiv:1803.08494.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, groups, eps) = (args.tensor(0)?, args.int(1)?, args.float_or(4, 1e-5)?);
        let mut outs = by_groups(b, args, x, groups, eps, [2, 3])?;
        outs.truncate(1);
        Ok(outs)
    },
    samples: &[
        Sample::grad("f32[2,4,3] in -2..2, 2, f32[4], f32[4], 1e-3", 256),
        Sample::grad("f32[2,6] in -2..2, 2, none, none, 1e-3", 256),
    ],
    refuses: &[Refusal::of("f32[2,4,3], 3", "group_norm: 4 channels do not divide into 3 groups")],
    ..NORM
};
/// The statistics beside the result.
pub static NATIVE_GROUP_NORM: OpDef = OpDef {
    sig: "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`group_norm`, and the mean and 1 / √(var + eps) of each group. The sizes are those of the input.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, groups, eps) = (args.tensor(0)?, args.int(6)?, args.float_or(7, 1e-5)?);
        by_groups(b, args, x, groups, eps, [1, 2])
    },
    samples: &[Sample::grad("f32[2,4,3] in -2..2, f32[4], f32[4], 2, 4, 3, 2, 1e-3", 256)],
    ..NORM
};
/// By the neighbours among the channels.
pub static LOCAL_RESPONSE_NORM: OpDef = OpDef {
    sig: "local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
    doc: "x / (k + alpha · mean of x² over `size` neighbouring channels)^beta; channels outside are zeros. Krizhevsky, Sutskever \
          and Hinton, 2012.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, size) = (args.tensor(0)?, args.int(1)?);
        rules::check_float(def.name(), b.ty(x))?;
        if b.rank(x) < 3 {
            let what = format_args!("takes three or more dims, got {}", b.shape(x));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        if size < 1 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("size is at least 1, got {size}")));
        }
        if b.shape(x).iter().any(|d| d.known() == Some(0)) {
            return Ok(smallvec![x]);
        }
        let dtype = b.dtype(x);
        let x = widen(b, x)?;
        let square = b.mul(x, x)?;
        let zero = b.constant(b.dtype(x), 0.0)?;
        let (before, after) = (size as u64 / 2, (size as u64 - 1) / 2);
        let padded = b.prim(Prim::Pad { axis: 1, before, after }, &[square, zero])?;
        let near = b.prim(Prim::Windows { axis: 1, size: size as u64, stride: 1, dilation: 1 }, &[padded])?;
        let last = b.rank(near) - 1;
        let sum = b.reduce(Fold::Sum, near, &[last])?;
        let mean = b.div(sum, size as f64)?;
        let scaled = b.mul(mean, args.float_or(2, 1e-4)?)?;
        let scaled = b.add(scaled, args.float_or(4, 1.0)?)?;
        let below = b.pow(scaled, args.float_or(3, 0.75)?)?;
        let y = b.div(x, below)?;
        Ok(smallvec![b.cast(y, dtype)?])
    },
    samples: &[Sample::grad("f32[2,5,3] in -2..2, 3, 0.5", 256), Sample::grad("f32[2,4,2] in -2..2, 2, 0.5", 256)],
    refuses: &[Refusal::of("f32[2,5], 3", "local_response_norm: takes three or more dims, got [2, 5]")],
    ..NORM
};
