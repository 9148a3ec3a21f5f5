//! Losses of probabilities: negative log-likelihood, binary cross entropy, divergence.
use crate::args::Args;
use crate::formula::{Var, emit};
use crate::loss::{check_classes, classes_last, pick, row_lse, valid_rows_of};
use crate::pairs::XLOGY;
use crate::precision::widen;
use crate::reduced::{LOSS, element_cotangent, loss_body, record_loss, reduce, reduction, reduction_attr};
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use rtx_ir::{
    Arg, Attr, Attrs, Body, Bound, Builder, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Refusal, Sample, Type, ValueId,
    rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &NLL_LOSS,
    &CROSS_ENTROPY_WEIGHTED,
    &BINARY_CROSS_ENTROPY,
    &BINARY_CROSS_ENTROPY_WITH_LOGITS,
    &KL_DIV,
    &LINEAR_CROSS_ENTROPY,
];

/// Negative log-likelihood. Attributes: reduction, ignore_index. Operands: `[N, C]`, `[N]`, maybe `[C]`.
pub static NLL_LOSS: OpDef = OpDef {
    sig: "nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
    doc: "-weight[t] · self[t] of each row, t its target; summed, divided by the sum of the weights of the rows that are not \
          ignored, or as it is. The dim of classes is 1 (0 for one row). A target outside is an error when it runs.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, target) = (args.tensor(0)?, args.tensor(1)?);
        let attrs = smallvec![Attr::Str(reduction(&args, 3)?), Attr::Int(args.int_or(4, -100)?)];
        let rows = check_classes(def, b.ty(x), b.ty(target))?;
        let mut inputs = class_operands(b, x, target, &rows)?;
        inputs.extend(class_weights(b, &args, 2, inputs[0])?);
        let y = b.composite(def, attrs, &inputs)?[0];
        let shape = if b.rank(y) == 1 { rows } else { Shape::scalar() };
        Ok(smallvec![b.reshape(y, &shape)?])
    },
    infer: |op, inputs| {
        let rows = check_rows(op, inputs, DType::I64)?;
        let shape = if op.attrs()[0] == Attr::Str("none") { [rows].into_iter().collect() } else { Shape::scalar() };
        Ok(smallvec![Type { dtype: inputs[0].dtype, shape }])
    },
    body: Body::Composite(|b, attrs, v| {
        let dtype = b.dtype(v[0]);
        let x = widen(b, v[0])?;
        let (valid, class) = valid_rows_of(b, v[1], attrs[1].int())?;
        let picked = pick(b, x, class)?;
        let minus = b.neg(picked)?;
        let share = row_weights(b, valid, class, v.get(2).copied(), b.dtype(x))?;
        let row = b.mul(share, minus)?;
        let row = b.select(valid, row, 0.0)?;
        let y = weighted_mean(b, row, share, &attrs[0])?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    samples: &[
        Sample::grad("f32[4,5] in -3..-1, i64[4] in 0..5", 16),
        Sample::grad("f32[4,5] in -3..-1, i64[4] in 0..5, f32[5] in 0.5..2", 16),
        Sample::grad("f32[2,5,3] in -3..-1, i64[2,3] in 0..5, f32[5] in 0.5..2, 0, 2", 16),
        Sample::grad("f32[5] in -3..-1, i64[] in 0..5, none, 2", 16),
    ],
    refuses: &[
        Refusal::of("f32[4,5], i64[3] in 0..5", "nll_loss: input [4, 5] needs targets [4], got [3]"),
        Refusal::of("f32[4,5], i64[4] in 0..5, f32[4]", "nll_loss: weight is f32 [5], got f32 [4]"),
    ],
    ..LOSS
};

/// Scores `[N, C]` and classes `[N]` as i64.
fn class_operands(b: &mut Builder<'_>, x: ValueId, target: ValueId, rows: &Shape) -> Result<SmallVec<[ValueId; 3]>> {
    let x = classes_last(b, x)?;
    let n: usize = rows.iter().map(Dim::bound).product();
    let classes = b.shape(x).dim(b.rank(x) - 1);
    let x = b.reshape(x, &[Dim::from(n), classes].into_iter().collect())?;
    let target = b.cast(target, DType::I64)?;
    Ok(smallvec![x, b.reshape(target, &[n].into())?])
}
/// Argument `i`: a weight for each class of `x`, or nothing.
fn class_weights(b: &mut Builder<'_>, args: &Args<'_>, i: usize, x: ValueId) -> Result<Option<ValueId>> {
    let Some(weight) = args.optional_tensor(i)? else { return Ok(None) };
    let want = Type { dtype: b.dtype(x), shape: [b.shape(x).dim(1)].into_iter().collect() };
    if *b.ty(weight) != want {
        return Err(rules::refuse(args.op(), Kind::Shape, format_args!("weight is {want}, got {}", b.ty(weight))));
    }
    Ok(Some(weight))
}
/// `[N, C]`, targets of `N`, weights of `C`: how many rows.
fn check_rows(op: &Op, inputs: &[&Type], targets: DType) -> Result<Dim> {
    let [x, target, weight @ ..] = inputs else {
        return Err(rules::refuse(op.name(), Kind::Argument, "takes input and target"));
    };
    rules::check_float(op.name(), x)?;
    let indices = target.dtype == targets && target.rank() == 1;
    let fits = x.rank() == 2
        && (indices || target == x)
        && target.shape.dim(0) == x.shape.dim(0)
        && weight.iter().all(|w| w.rank() == 1 && w.shape.dim(0) == x.shape.dim(1) && w.dtype == x.dtype);
    if fits {
        return Ok(x.shape.dim(0));
    }
    Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs))))
}
/// The weight of each row's class, 0 where it does not count.
fn row_weights(
    b: &mut Builder<'_>,
    valid: ValueId,
    class: ValueId,
    weight: Option<ValueId>,
    dtype: DType,
) -> Result<ValueId> {
    let Some(weight) = weight else { return b.cast(valid, dtype) };
    let weight = widen(b, weight)?;
    let each = b.prim(Prim::Gather { axis: 0 }, &[weight, class])?;
    b.select(valid, each, 0.0)
}
/// The rows as they are, their sum, or that divided by the sum of their weights.
fn weighted_mean(b: &mut Builder<'_>, row: ValueId, share: ValueId, reduction: &Attr) -> Result<ValueId> {
    match reduction {
        Attr::Str("none") => Ok(row),
        Attr::Str("sum") => b.reduce(Fold::Sum, row, &[0]),
        _ => {
            let (sum, all) = (b.reduce(Fold::Sum, row, &[0])?, b.reduce(Fold::Sum, share, &[0])?);
            b.div(sum, all)
        }
    }
}

/// Cross entropy with weights of classes, or against probabilities. Attributes: reduction, ignore_index,
/// label_smoothing. Operands: `[N, C]`, classes `[N]` or probabilities `[N, C]`, maybe weights `[C]`.
pub static CROSS_ENTROPY_WEIGHTED: OpDef = OpDef {
    sig: "cross_entropy_weighted(Tensor input, Tensor target, Tensor? weight=None, str reduction=\"mean\", \
          SymInt ignore_index=-100, float label_smoothing=0.0) -> (Tensor loss, Tensor lse)",
    doc: "The node of cross_entropy where classes have weights w or targets are probabilities q. With l = input - lse: \
          -(1 - ε) w_t l_t - ε/C Σ_c w_c l_c for a class t, -Σ_c w_c ((1 - ε) q_c + ε/C) l_c for probabilities. The mean \
          divides by the sum of the w_t of the rows that count, and by the number of rows.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let inputs: SmallVec<[ValueId; 3]> =
            [Some(args.tensor(0)?), Some(args.tensor(1)?), args.optional_tensor(2)?].into_iter().flatten().collect();
        let attrs = cross_entropy_attrs(&args)?;
        b.composite(def, attrs, &inputs)
    },
    infer: |op, inputs| {
        let rows: Shape = [check_rows(op, inputs, DType::I64)?].into_iter().collect();
        let shape = if op.attrs()[0] == Attr::Str("none") { rows.clone() } else { Shape::scalar() };
        let dtype = inputs[0].dtype;
        Ok(smallvec![Type { dtype, shape }, Type { dtype: rules::number_dtype(dtype), shape: rows }])
    },
    body: Body::Composite(weighted_body),
    cost: 20,
    samples: &[
        Sample::grad("f32[4,5] in -3..3, i64[4] in 0..5, f32[5] in 0.5..2, \"mean\", 2, 0.1", 64),
        Sample::grad("f32[4,5] in -3..3, f32[4,5] in 0..1, f32[5] in 0.5..2, \"mean\", -100, 0.1", 64),
        Sample::grad("f32[4,5] in -3..3, f32[4,5] in 0..1, none, \"none\"", 64),
    ],
    ..LOSS
};
fn cross_entropy_attrs(args: &Args<'_>) -> Result<Attrs> {
    Ok(
        smallvec![
            Attr::Str(reduction(args, 3)?),
            Attr::Int(args.int_or(4, -100)?),
            Attr::Float(args.float_or(5, 0.0)?),
        ],
    )
}
fn weighted_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (dtype, smoothing) = (b.dtype(v[0]), attrs[2].float());
    let x = widen(b, v[0])?;
    let lse = row_lse(b, x)?;
    let column = [b.shape(x).dim(0), Dim::Const(1)].into_iter().collect();
    let level = b.reshape(lse, &column)?;
    let minus_log = b.sub(level, x)?;
    let weight = v.get(2).map(|&w| widen(b, w)).transpose()?;
    let weighted = match weight {
        Some(w) => b.mul(minus_log, w)?,
        None => minus_log,
    };
    let classes = b.shape(x).dim(1).bound() as f64;
    if b.dtype(v[1]) != DType::I64 {
        let mut q = widen(b, v[1])?;
        if smoothing != 0.0 {
            q = emit(b, Var(q) * (1.0 - smoothing) + smoothing / classes)?.0;
        }
        let products = b.mul(q, weighted)?;
        let row = b.reduce(Fold::Sum, products, &[1])?;
        let loss = reduce(b, row, &attrs[0])?;
        return Ok(smallvec![b.cast(loss, dtype)?, lse]);
    }
    let (valid, class) = valid_rows_of(b, v[1], attrs[1].int())?;
    let share = row_weights(b, valid, class, weight, b.dtype(x))?;
    let mut row = pick(b, weighted, class)?;
    if smoothing != 0.0 {
        let all = b.reduce(Fold::Sum, weighted, &[1])?;
        row = emit(b, Var(row) * (1.0 - smoothing) + Var(all) * (smoothing / classes))?.0;
    }
    let row = b.select(valid, row, 0.0)?;
    let loss = weighted_mean(b, row, share, &attrs[0])?;
    Ok(smallvec![b.cast(loss, dtype)?, lse])
}

/// `cross_entropy` with weights or probabilities, as its record sees it.
pub(crate) fn record_weighted(b: &mut Builder<'_>, args: &Args<'_>) -> Result<Outs> {
    let (x, target) = (args.tensor(0)?, args.tensor(1)?);
    rules::check_float(args.op(), b.ty(x))?;
    let attrs = cross_entropy_attrs(args)?;
    let (rows, mut inputs) = if b.dtype(target).is_float() {
        if b.shape(x) != b.shape(target) || b.rank(x) == 0 {
            let what = format_args!("probabilities have the input's shape: {}, got {}", b.shape(x), b.shape(target));
            return Err(rules::refuse(args.op(), Kind::Shape, what));
        }
        let mut rows = b.shape(x);
        rows.remove(usize::from(rows.rank() > 1));
        let target = b.cast(target, b.dtype(x))?;
        let n: usize = rows.iter().map(Dim::bound).product();
        let mut flat = |x: ValueId| {
            let x = classes_last(b, x)?;
            let classes = b.shape(x).dim(b.rank(x) - 1);
            b.reshape(x, &[Dim::from(n), classes].into_iter().collect())
        };
        (rows, smallvec![flat(x)?, flat(target)?])
    } else {
        let rows = check_classes(&crate::loss::CROSS_ENTROPY, b.ty(x), b.ty(target))?;
        let inputs = class_operands(b, x, target, &rows)?;
        (rows, inputs)
    };
    inputs.extend(class_weights(b, args, 2, inputs[0])?);
    let mut outs = b.composite(&CROSS_ENTROPY_WEIGHTED, attrs, &inputs)?;
    if b.rank(outs[0]) == 1 {
        outs[0] = b.reshape(outs[0], &rows)?;
    }
    outs[1] = b.reshape(outs[1], &rows)?;
    Ok(outs)
}

/// Binary cross entropy. Attributes: reduction.
pub static BINARY_CROSS_ENTROPY: OpDef = OpDef {
    sig: "binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
    doc: "-weight (target · log self + (1 - target) · log(1 - self)), the logarithms not below -100. The gradient divides by \
          max(self (1 - self), 10⁻¹²).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let tensors: SmallVec<[ValueId; 3]> =
            [Some(args.tensor(0)?), Some(args.tensor(1)?), args.optional_tensor(2)?].into_iter().flatten().collect();
        record_loss(b, def, &tensors, reduction_attr(&args, 3)?)
    },
    body: Body::Composite(|b, attrs, v| {
        loss_body(b, attrs, v, |b, v| {
            let (left, right) = (floored_log(b, v[0])?, floored_log_rest(b, v[0])?);
            let t = v[1];
            let loss = emit(b, (t - 1.0) * right - t * left)?;
            if let Some(&w) = v.get(2) { emit(b, loss * w) } else { Ok(loss) }
        })
    }),
    grad: Grad::Rule(binary_grad),
    cost: 30,
    samples: &[
        Sample::grad("f32[2,3] in 0.1..0.9, f32[2,3] in 0..1", 16),
        Sample::grad("f32[2,3] in 0.1..0.9, f32[2,3] in 0..1, f32[3] in 0.5..2, 0", 16),
        Sample::of("f32[4] = 0 1 0 1, f32[4] = 0 1 1 0, none, 0", 16),
    ],
    ..LOSS
};
fn floored_log(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    emit(b, x.log().max(-100.0))
}
fn floored_log_rest(b: &mut Builder<'_>, x: Var) -> Result<Var> {
    emit(b, (-x).log1p().max(-100.0))
}
/// `dself = g w (x - t) / max(x (1 - x), 10⁻¹²)`, `dtarget = g w (log(1 - x) - log x)`.
fn binary_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let g = element_cotangent(b, cx)?;
    let w = match cx.inputs.get(2) {
        Some(&w) => widen(b, w).map(Var)?,
        None => Var(b.constant(b.dtype(g.0), 1.0)?),
    };
    cx.wide(b, [cx.inputs[0], cx.inputs[1]], |b, i, _, [x, t]| {
        let (x, t) = (Var(x), Var(t));
        let slope = match i {
            0 => emit(b, g * w * (x - t) / ((1.0 - x) * x).max(1e-12))?,
            1 => {
                let (left, right) = (floored_log(b, x)?, floored_log_rest(b, x)?);
                emit(b, g * w * (right - left))?
            }
            _ => {
                let (left, right) = (floored_log(b, x)?, floored_log_rest(b, x)?);
                emit(b, g * ((t - 1.0) * right - t * left))?
            }
        };
        Ok(slope.0)
    })
}

/// Binary cross entropy of logits. Attributes: reduction, has weight, has pos_weight.
pub static BINARY_CROSS_ENTROPY_WITH_LOGITS: OpDef = OpDef {
    sig: "binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, \
          int reduction=1) -> Tensor",
    doc: "weight ((1 - target) self + (1 + (pos_weight - 1) target) log(1 + exp -self)), the logarithm as \
          log1p(exp -|self|) + max(-self, 0).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (weight, positive) = (args.optional_tensor(2)?, args.optional_tensor(3)?);
        let tensors: SmallVec<[ValueId; 4]> =
            [Some(args.tensor(0)?), Some(args.tensor(1)?), weight, positive].into_iter().flatten().collect();
        let mut attrs = reduction_attr(&args, 4)?;
        attrs.extend([Attr::Bool(weight.is_some()), Attr::Bool(positive.is_some())]);
        record_loss(b, def, &tensors, attrs)
    },
    body: Body::Composite(|b, attrs, v| {
        let (has_weight, has_positive) = (attrs[1].bool(), attrs[2].bool());
        loss_body(b, attrs, v, |b, v| {
            let (x, t) = (v[0], v[1]);
            let soft = emit(b, (-x.abs()).exp().log1p() + (-x).max(0.0))?;
            let soft = if has_positive { emit(b, ((v[v.len() - 1] - 1.0) * t + 1.0) * soft)? } else { soft };
            let loss = emit(b, (1.0 - t) * x + soft)?;
            if has_weight { emit(b, loss * v[2]) } else { Ok(loss) }
        })
    }),
    cost: 30,
    samples: &[
        Sample::grad("f32[2,3] in -3..-0.1, f32[2,3] in 0..1", 16),
        Sample::grad("f32[2,3] in 0.1..3, f32[2,3] in 0..1, f32[3] in 0.5..2, f32[3] in 0.5..2, 0", 16),
        Sample::grad("f32[2,3] in 0.1..3, f32[2,3] in 0..1, none, f32[3] in 0.5..2, 2", 16),
        Sample::of("f32[3] = 500 -500 0, f32[3] = 0 1 1, none, none, 0", 16),
    ],
    ..LOSS
};

/// Kullback and Leibler's divergence. Attributes: reduction, log_target.
pub static KL_DIV: OpDef = OpDef {
    sig: "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
    doc: "target (log target - self), 0 where target is 0; with log_target exp(target) (target - self). The reduction \
          \"batchmean\" divides the sum by the first size.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, target) = (args.tensor(0)?, args.tensor(1)?);
        let by_batch = *args.get(2) == Arg::Str("batchmean");
        let word = if by_batch { "sum" } else { reduction(&args, 2)? };
        let attrs = smallvec![Attr::Str(word), Attr::Bool(args.flag(3)?)];
        let y = record_loss(b, def, &[x, target], attrs)?;
        if !by_batch || b.rank(x) == 0 {
            return Ok(y);
        }
        let n = crate::precision::count(b, b.dtype(y[0]), &b.shape(x), &[0])?;
        Ok(smallvec![b.div(y[0], n)?])
    },
    body: Body::Composite(|b, attrs, v| {
        let log_target = attrs[1].bool();
        loss_body(b, attrs, v, |b, v| {
            let (x, t) = (v[0], v[1]);
            if log_target {
                return emit(b, t.exp() * (t - x));
            }
            let entropy = Var(b.composite(&XLOGY, smallvec![], &[t.0, t.0])?[0]);
            emit(b, entropy - t * x)
        })
    }),
    cost: 20,
    samples: &[
        Sample::grad("f32[2,3] in -3..-0.1, f32[2,3] in 0.1..1", 16),
        Sample::grad("f32[2,3] in -3..-0.1, f32[2,3] in -3..-0.1, 0, true", 16),
        Sample::grad("f32[2,3] in -3..-0.1, f32[2,3] in 0.1..1, \"batchmean\"", 16),
        Sample::of("f32[2] in -3..-0.1, f32[2] = 0 1, 2", 16),
    ],
    ..LOSS
};

/// Cross entropy of a linear layer's results.
pub static LINEAR_CROSS_ENTROPY: OpDef = OpDef {
    sig: "linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias=None, \
          *, str reduction=\"mean\", SymInt ignore_index=-100, float label_smoothing=0.0) -> Tensor",
    doc: "cross_entropy of input · linear_weightᵀ + linear_bias; a weight [C, d.., in] makes scores [N, C, d..].",
    record: record_linear_cross_entropy,
    samples: &[
        Sample::grad("f32[4,3] in -1..1, f32[5,3] in -1..1, i64[4] in 0..5", 64),
        Sample::grad("f32[4,3] in -1..1, f32[5,2,3] in -1..1, i64[4,2] in 0..5, none, \"sum\"", 64),
        Sample::grad("f32[3] in -1..1, f32[5,3] in -1..1, f32[5] in 0..1", 64),
    ],
    refuses: &[Refusal::of(
        "f32[4,3], f32[5,4], i64[4] in 0..5",
        "linear_cross_entropy: input has 3 features, the layer takes 4: x [4, 3], weight [5, 4]",
    )],
    ..crate::spelling::SPELLING
};
fn record_linear_cross_entropy(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let (x, weight) = (args.tensor(0)?, args.tensor(1)?);
    let (takes, has) = (b.shape(weight), b.shape(x));
    let last = |s: &Shape| (s.rank() > 0).then(|| s.dim(s.rank() - 1));
    let (Some(features), Some(wanted)) = (last(&has), last(&takes)) else {
        return Err(rules::refuse(def.name(), Kind::Shape, format_args!("needs dims: x {has}, weight {takes}")));
    };
    if features != wanted {
        let what = format_args!("input has {features} features, the layer takes {wanted}: x {has}, weight {takes}");
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let contract = smallvec![(has.rank() - 1, takes.rank() - 1)];
    let mut scores = b.prim(Prim::Dot { batch: smallvec![], contract }, &[x, weight])?;
    if let Some(bias) = args.optional_tensor(3)? {
        scores = b.add(scores, bias)?;
    }
    let call = [
        Arg::Value(scores),
        args.get(2).clone(),
        Arg::None,
        args.get(4).clone(),
        args.get(5).clone(),
        args.get(6).clone(),
    ];
    Ok(b.call(&crate::loss::CROSS_ENTROPY, call)?.into_iter().take(1).collect())
}
