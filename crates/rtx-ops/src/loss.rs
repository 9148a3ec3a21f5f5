//! Losses.
use crate::args::Args;
use crate::precision::widen;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use rtx_ir::{
    Amp, Attr, Attrs, Body, Bound, Builder, Grad, GradCx, Grads, Numerics, Op, OpDef, Outs, Prim, Refusal, Sample,
    Saves, Stability, Type, Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[&CROSS_ENTROPY_LOSS, &CROSS_ENTROPY, &CROSS_ENTROPY_BACKWARD, &MSE_LOSS];

/// Cross entropy as PyTorch's call has it: the loss alone.
pub static CROSS_ENTROPY_LOSS: OpDef = OpDef {
    sig: "cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, \
          float label_smoothing=0.0) -> Tensor",
    doc: "The first result of cross_entropy.",
    record: |b, _, args| Ok(b.call(&CROSS_ENTROPY, args.clone())?.into_iter().take(1).collect()),
    samples: &[
        Sample::grad("f32[4,5] in -3..3, i64[4] in 0..5", 64),
        Sample::grad("f32[4,5] in -3..3, f32[4,5] in 0..1, f32[5] in 0.5..2, 2", 64),
    ],
    stability: Stability::Stable,
    ..SPELLING
};

/// Cross entropy of logits `[N, C]` with classes `[N]`. Attributes: reduction, ignore_index, label_smoothing.
pub static CROSS_ENTROPY: OpDef = OpDef {
    sig: "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, str reduction=\"mean\", \
          SymInt ignore_index=-100, float label_smoothing=0.0) -> (Tensor loss, Tensor lse)",
    doc: "With lse = log Σ_c exp(x_c): (1 - ε)(lse - x_target) + ε/C Σ_c (lse - x_c), where ε smooths the labels; summed, \
          averaged over the rows that are not ignored, or as it is. The dim of classes is 1 (0 for one row). The second \
          result is lse of each row, which the gradient reads. Halves are computed in f32. Weights of classes, and \
          targets that are probabilities (floats of the input's shape), as cross_entropy_weighted has them.",
    record: record_cross_entropy,
    infer: infer_cross_entropy,
    body: Body::Composite(cross_entropy_body),
    grad: Grad::Rule(cross_entropy_grad),
    saves: Saves::Only { inputs: &[0, 1], outputs: &[1] },
    amp: Amp::Full,
    cost: 12,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::grad("f32[4,5] in -3..3, i64[4] in 0..5", 64),
        Sample::grad("f32[4,5] in -3..3, i64[4] in 0..5, none, \"sum\"", 64),
        Sample::grad("f32[4,5] in -3..3, i64[4] in 0..5, none, \"none\"", 64),
        Sample::grad("f32[4,5] in -3..3, i64[4] in 0..5, none, \"mean\", 2, 0.1", 64),
        Sample::grad("f32[2,5,3] in -3..3, i64[2,3] in 0..5", 64),
        Sample::grad("f32[5] in -3..3, i64[] in 0..5", 64),
        Sample::grad("f32[2,5,3] in -3..3, i64[2,3] in 0..5, f32[5] in 0.5..2, \"none\", 1, 0.1", 64),
        Sample::grad("f32[2,5,3] in -3..3, f32[2,5,3] in 0..1", 64),
        Sample::grad("f32[5] in -3..3, f32[5] in 0..1, none, \"sum\"", 64),
    ],
    refuses: &[
        Refusal::of("f32[4,5], i64[3] in 0..5", "cross_entropy: input [4, 5] needs targets [4], got [3]"),
        Refusal::of("f32[4,5], bool[4]", "cross_entropy: targets are integers, got bool [4]"),
        Refusal::of("f32[4,5], f32[4]", "cross_entropy: probabilities have the input's shape: [4, 5], got [4]"),
        Refusal::of("i64[4,5] in 0..5, i64[4] in 0..5", "cross_entropy: needs a float tensor, got i64 [4, 5]"),
        Refusal::of("f32[4,5], i64[4] in 0..5, f32[4]", "cross_entropy: weight is f32 [5], got f32 [4]"),
    ],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

fn record_cross_entropy(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let (x, target) = (args.tensor(0)?, args.tensor(1)?);
    if args.optional_tensor(2)?.is_some() || b.dtype(target).is_float() {
        return crate::likelihood::record_weighted(b, &args);
    }
    let reduction = crate::reduced::reduction(&args, 3)?;
    let attrs = smallvec![Attr::Str(reduction), Attr::Int(args.int_or(4, -100)?), Attr::Float(args.float_or(5, 0.0)?)];
    let rows = check_classes(def, b.ty(x), b.ty(target))?;
    let x = classes_last(b, x)?;
    let n = rows.numel();
    let target = b.cast(target, DType::I64)?;
    let target = b.reshape(target, &[n].into())?;
    let mut outs = b.composite(def, attrs, &[x, target])?;
    if reduction == "none" {
        outs[0] = b.reshape(outs[0], &rows)?;
    }
    outs[1] = b.reshape(outs[1], &rows)?;
    Ok(outs)
}

/// The shape of the rows: the input's without the dim of classes.
pub(crate) fn check_classes(def: &OpDef, x: &Type, target: &Type) -> Result<Shape> {
    rules::check_float(def.name(), x)?;
    if !target.dtype.is_int() {
        return Err(rules::refuse(def.name(), Kind::DType, format_args!("targets are integers, got {target}")));
    }
    if x.rank() == 0 {
        return Err(rules::refuse(def.name(), Kind::Shape, "the input has a dim of classes, got []"));
    }
    let mut rows = x.shape.clone();
    rows.remove(usize::from(x.rank() > 1));
    if target.shape != rows {
        let what = format!("input {} needs targets {rows}, got {}", x.shape, target.shape);
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    Ok(rows)
}

/// `[N, C, d..]` as `[N d.., C]`.
pub(crate) fn classes_last(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let rank = b.rank(x);
    if rank == 2 {
        return Ok(x);
    }
    let order: SmallVec<[usize; 4]> =
        if rank == 1 { smallvec![0] } else { std::iter::once(0).chain(2..rank).chain([1]).collect() };
    let x = b.permute(x, &order)?;
    let shape = b.shape(x);
    let classes = shape.dim(rank - 1);
    let rows: usize = shape.iter().take(rank - 1).map(Dim::bound).product();
    b.reshape(x, &[Dim::from(rows), classes].into_iter().collect())
}

fn infer_cross_entropy(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (x, target) = (inputs[0], inputs[1]);
    if x.rank() != 2 || target.rank() != 1 || x.shape.dim(0) != target.shape.dim(0) || target.dtype != DType::I64 {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs))));
    }
    let loss = if op.attrs()[0] == Attr::Str("none") { target.shape.clone() } else { Shape::scalar() };
    Ok(smallvec![
        Type { dtype: x.dtype, shape: loss },
        Type { dtype: rules::number_dtype(x.dtype), shape: target.shape.clone() },
    ])
}

/// Attributes of both ops.
struct Settings {
    reduction: Attr,
    ignore_index: i64,
    smoothing: f64,
}
impl Settings {
    fn of(attrs: &[Attr]) -> Self {
        Self { reduction: attrs[0].clone(), ignore_index: attrs[1].int(), smoothing: attrs[2].float() }
    }
    fn is(&self, reduction: &'static str) -> bool {
        self.reduction == Attr::Str(reduction)
    }
}

/// Which rows count, and the classes with 0 in the place of ignored ones.
fn valid_rows(b: &mut Builder<'_>, target: ValueId, s: &Settings) -> Result<(ValueId, ValueId)> {
    valid_rows_of(b, target, s.ignore_index)
}
/// The same by the class that is ignored.
pub(crate) fn valid_rows_of(b: &mut Builder<'_>, target: ValueId, ignore_index: i64) -> Result<(ValueId, ValueId)> {
    let ignored = b.constant(DType::I64, ignore_index)?;
    let ignored = b.eq(target, ignored)?;
    let valid = b.not(ignored)?;
    Ok((valid, b.select(valid, target, 0.0)?))
}

/// How many rows count, as a number of this dtype.
fn count_rows(b: &mut Builder<'_>, valid: ValueId, dtype: DType) -> Result<ValueId> {
    let ones = b.cast(valid, dtype)?;
    b.reduce(Fold::Sum, ones, &[0])
}

fn cross_entropy_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (s, dtype) = (Settings::of(attrs), b.dtype(v[0]));
    let x = widen(b, v[0])?;
    let lse = row_lse(b, x)?;
    let (valid, class) = valid_rows(b, v[1], &s)?;
    let picked = pick(b, x, class)?;
    let mut row = b.sub(lse, picked)?;
    if s.smoothing != 0.0 {
        let classes = b.shape(x).dim(1).bound() as f64;
        let sum = b.reduce(Fold::Sum, x, &[1])?;
        let all = b.mul(lse, classes)?;
        let all = b.sub(all, sum)?;
        let spread = b.mul(all, s.smoothing / classes)?;
        row = b.mul(row, 1.0 - s.smoothing)?;
        row = b.add(row, spread)?;
    }
    let row = b.select(valid, row, 0.0)?;
    let loss = if s.is("none") {
        row
    } else {
        let sum = b.reduce(Fold::Sum, row, &[0])?;
        if s.is("sum") {
            sum
        } else {
            let n = count_rows(b, valid, b.dtype(x))?;
            b.div(sum, n)?
        }
    };
    Ok(smallvec![b.cast(loss, dtype)?, lse])
}

/// `max + log Σ exp(x - max)` of each row.
pub(crate) fn row_lse(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let top = b.reduce_keep(Fold::Max, x, &[1])?;
    let shifted = b.sub(x, top)?;
    let e = b.exp(shifted)?;
    let sum = b.reduce(Fold::Sum, e, &[1])?;
    let log = b.log(sum)?;
    let top = b.reshape(top, &b.shape(log))?;
    b.add(log, top)
}

/// `x[i, class[i]]`; a class outside is an error when it runs.
pub(crate) fn pick(b: &mut Builder<'_>, x: ValueId, class: ValueId) -> Result<ValueId> {
    let (rows, classes) = (b.shape(x).dim(0), b.shape(x).dim(1).bound());
    let row = b.prim(Prim::Iota { shape: [rows].into_iter().collect(), axis: 0 }, &[])?;
    let place = b.mul(row, classes as f64)?;
    let place = b.add(place, class)?;
    let negative = b.lt(class, 0.0)?;
    let last = b.constant(DType::I64, classes as i64 - 1)?;
    let above = b.lt(last, class)?;
    let outside = b.or(negative, above)?;
    let place = b.select(outside, -1.0, place)?;
    let flat = b.reshape(x, &[rows.bound() * classes].into())?;
    b.prim(Prim::Gather { axis: 0 }, &[flat, place])
}

/// `cross_entropy_backward`, and what flows in through lse: `dlse · exp(x - lse)`.
fn cross_entropy_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let (x, target, lse) = (cx.inputs[0], cx.inputs[1], cx.outputs[1]);
    let mut dx = None;
    if let Some(dloss) = cx.cotangents[0] {
        dx = Some(b.composite(&CROSS_ENTROPY_BACKWARD, cx.op.attrs().into(), &[x, target, lse, dloss])?[0]);
    }
    if let Some(dlse) = cx.cotangents[1] {
        let wide = widen(b, x)?;
        let p = probabilities(b, wide, lse)?;
        let column = as_column(b, dlse)?;
        let by_lse = b.mul(p, column)?;
        let by_lse = b.cast(by_lse, b.dtype(x))?;
        dx = Some(match dx {
            Some(dx) => b.add(dx, by_lse)?,
            None => by_lse,
        });
    }
    Ok(smallvec![dx, None])
}

/// `[N]` as `[N, 1]`.
fn as_column(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let mut shape = b.shape(x);
    shape.push(1);
    b.reshape(x, &shape)
}
/// `exp(x - lse)`.
fn probabilities(b: &mut Builder<'_>, x: ValueId, lse: ValueId) -> Result<ValueId> {
    let lse = as_column(b, lse)?;
    let log = b.sub(x, lse)?;
    b.exp(log)
}

/// Gradient of [`CROSS_ENTROPY`]; its attributes.
pub static CROSS_ENTROPY_BACKWARD: OpDef = OpDef {
    sig: "cross_entropy_backward(Tensor input, Tensor target, Tensor lse, Tensor grad_loss, str reduction, \
          SymInt ignore_index, float label_smoothing) -> Tensor",
    doc: "g (exp(x - lse) - (1 - ε) onehot(target) - ε/C) in the rows that count, where g is the cotangent of the row's loss.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let attrs: Attrs = smallvec![
            Attr::Str(args.choice(4, &["mean", "sum", "none"])?),
            Attr::Int(args.int_or(5, -100)?),
            Attr::Float(args.float_or(6, 0.0)?),
        ];
        b.composite(def, attrs, &[args.tensor(0)?, args.tensor(1)?, args.tensor(2)?, args.tensor(3)?])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 4)?;
        rules::check_float(op.name(), inputs[0])?;
        Ok(smallvec![inputs[0].clone()])
    },
    body: Body::Composite(cross_entropy_backward_body),
    amp: Amp::Full,
    cost: 14,
    numerics: Numerics::Claimed,
    samples: &[
        Sample::of("f32[4,5] in -3..3, i64[4] in 0..5, f32[4] in 2..3, f32[] in 1..2, \"mean\", -100, 0.0", 64),
        Sample::of("f32[4,5] in -3..3, i64[4] in 0..5, f32[4] in 2..3, f32[4] in 1..2, \"none\", 2, 0.1", 64),
    ],
    ..OpDef::DEFAULT
};

fn cross_entropy_backward_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (s, dtype) = (Settings::of(attrs), b.dtype(v[0]));
    let (x, lse, dloss) = (widen(b, v[0])?, widen(b, v[2])?, widen(b, v[3])?);
    let (valid, class) = valid_rows(b, v[1], &s)?;
    let scale = if s.is("mean") {
        let n = count_rows(b, valid, b.dtype(x))?;
        b.div(dloss, n)?
    } else {
        dloss
    };
    let scale = b.select(valid, scale, 0.0)?;
    let p = probabilities(b, x, lse)?;
    let column = b.prim(Prim::Iota { shape: b.shape(x), axis: 1 }, &[])?;
    let class = as_column(b, class)?;
    let hot = b.eq(column, class)?;
    let classes = b.shape(x).dim(1).bound() as f64;
    let hot = b.cast(hot, b.dtype(x))?;
    let mut slope = if s.smoothing == 0.0 {
        b.sub(p, hot)?
    } else {
        let hot = b.mul(hot, 1.0 - s.smoothing)?;
        b.sub(p, hot)?
    };
    if s.smoothing != 0.0 {
        slope = b.sub(slope, s.smoothing / classes)?;
    }
    let scale = as_column(b, scale)?;
    let dx = b.mul(slope, scale)?;
    Ok(smallvec![b.cast(dx, dtype)?])
}

/// Mean squared error.
pub static MSE_LOSS: OpDef = OpDef {
    sig: "mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    amp: rtx_ir::Amp::Full,
    doc: "(self - target)²: as it is (0, \"none\"), averaged (1, \"mean\") or summed (2, \"sum\").",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, target) = (args.tensor(0)?, args.tensor(1)?);
        let reduction = crate::reduced::reduction(&args, 2)?;
        rules::check_float(def.name(), b.ty(x))?;
        let shape = rules::broadcast_for(def.name(), &[&b.ty(x).shape, &b.ty(target).shape])?;
        let target = b.cast(target, b.dtype(x))?;
        let (x, target) = (b.expand(x, &shape)?, b.expand(target, &shape)?);
        let difference = b.sub(x, target)?;
        let square = b.mul(difference, difference)?;
        let axes: Vec<usize> = (0..shape.rank()).collect();
        Ok(smallvec![match reduction {
            "none" => square,
            "sum" => b.reduce(Fold::Sum, square, &axes)?,
            _ => {
                let sum = b.reduce(Fold::Sum, square, &axes)?;
                let n = crate::precision::count(b, b.dtype(sum), &shape, &axes)?;
                b.div(sum, n)?
            }
        }])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, f32[2,3] in -2..2", 64)],
    ..SPELLING
};
