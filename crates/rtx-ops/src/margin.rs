//! Losses by margins, and losses of embeddings.
use crate::activation::soft_positive;
use crate::args::Args;
use crate::distance::{cosine_of_rows, pairwise_norm};
use crate::formula::{Var, emit};
use crate::pointwise::CLAMP;
use crate::precision::{count, widen};
use crate::reduced::{LOSS, loss_body, record_loss, reduce, reduction, reduction_attr};
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use rtx_ir::{Attr, Body, Builder, Op, OpDef, Outs, Prim, Refusal, Sample, Type, Types, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &MARGIN_RANKING_LOSS,
    &HINGE_EMBEDDING_LOSS,
    &SOFT_MARGIN_LOSS,
    &COSINE_EMBEDDING_LOSS,
    &TRIPLET_MARGIN_LOSS,
    &MULTI_MARGIN_LOSS,
    &MULTILABEL_MARGIN_LOSS,
    &MULTILABEL_SOFT_MARGIN_LOSS,
];

/// `max(x, 0)` whose gradient at 0 is 1, as clamp's is.
fn not_below_zero(b: &mut Builder<'_>, x: impl Into<crate::formula::Formula>) -> Result<Var> {
    let x = emit(b, x)?.0;
    let zero = b.constant(b.dtype(x), 0.0)?;
    let attrs = smallvec![Attr::Bool(true), Attr::Bool(false)];
    Ok(Var(b.composite(&CLAMP, attrs, &[x, zero])?[0]))
}

/// Margin between two scores.
pub static MARGIN_RANKING_LOSS: OpDef = OpDef {
    sig: "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> Tensor",
    doc: "max(0, margin - target (input1 - input2)); a target of 1 wants input1 larger, -1 smaller.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut attrs = reduction_attr(&args, 4)?;
        attrs.push(Attr::Float(args.float_or(3, 0.0)?));
        record_loss(b, def, &[args.tensor(0)?, args.tensor(1)?, args.tensor(2)?], attrs)
    },
    body: Body::Composite(|b, attrs, v| {
        let margin = attrs[1].float();
        loss_body(b, attrs, v, |b, v| not_below_zero(b, (v[1] - v[0]) * v[2] + margin))
    }),
    samples: &[
        Sample::grad("f32[2,3] in 1..2, f32[2,3] in 3..4, f32[2,3] in 0.5..1, 0.5", 16),
        Sample::grad("f32[3] in 1..2, f32[3] in 3..4, f32[3] = 1 -1 1, 0.5, 0", 16),
    ],
    ..LOSS
};
/// Distances that are small for alike pairs and above a margin for others.
pub static HINGE_EMBEDDING_LOSS: OpDef = OpDef {
    sig: "hinge_embedding_loss(Tensor self, Tensor target, float margin=1.0, int reduction=1) -> Tensor",
    doc: "self where target is 1, max(0, margin - self) where it is -1 (and the sum of both elsewhere).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut attrs = reduction_attr(&args, 3)?;
        attrs.push(Attr::Float(args.float_or(2, 1.0)?));
        record_loss(b, def, &[args.tensor(0)?, args.tensor(1)?], attrs)
    },
    body: Body::Composite(|b, attrs, v| {
        let margin = attrs[1].float();
        loss_body(b, attrs, v, |b, v| {
            let (x, t) = (v[0], v[1]);
            let apart = not_below_zero(b, margin - x)?;
            let apart = emit(b, t.equals(1.0).choose(0.0, apart))?;
            let near = emit(b, t.equals(-1.0).choose(0.0, x))?;
            emit(b, apart + near)
        })
    }),
    samples: &[
        Sample::grad("f32[4] in 0.1..0.9, f32[4] = 1 -1 1 -1", 16),
        Sample::grad("f32[2] in 0.1..0.9, f32[2] = 1 0, 2, 0", 16),
    ],
    ..LOSS
};
/// Logistic loss of two classes.
pub static SOFT_MARGIN_LOSS: OpDef = OpDef {
    sig: "soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    doc: "log(1 + exp(-target · self)), without overflow.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        record_loss(b, def, &[args.tensor(0)?, args.tensor(1)?], reduction_attr(&args, 2)?)
    },
    body: Body::Composite(|b, attrs, v| {
        loss_body(b, attrs, v, |b, v| {
            let score = emit(b, -(v[1] * v[0]))?;
            Ok(Var(soft_positive(b, score.0)?))
        })
    }),
    cost: 30,
    samples: &[
        Sample::grad("f32[2,3] in 0.1..2, f32[2,3] in 0.5..1", 16),
        Sample::of("f32[3] = 500 -500 0, f32[3] = 1 1 1, 0", 16),
    ],
    ..LOSS
};

/// Angles that are small for alike pairs. Attributes: reduction, margin.
pub static COSINE_EMBEDDING_LOSS: OpDef = OpDef {
    sig: "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, int reduction=1) -> Tensor",
    doc: "With c = Σ input1 input2 / √((Σ input1² + 10⁻¹²)(Σ input2² + 10⁻¹²)) over the last dim: 1 - c where target is 1, \
          max(0, c - margin) where it is -1, else 0.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, y, target) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
        let mut rows = b.shape(x);
        if b.shape(x) != b.shape(y) || rows.rank() == 0 || rows.rank() > 2 {
            let what = format_args!("takes [N, D] or [D] twice, got {}, {}", b.shape(x), b.shape(y));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        rows.remove(rows.rank() - 1);
        if b.shape(target) != rows {
            let what = format_args!("needs targets {rows}, got {}", b.shape(target));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        rules::check_float(def.name(), b.ty(x))?;
        let (y, target) = (b.cast(y, b.dtype(x))?, b.cast(target, b.dtype(x))?);
        let mut attrs = reduction_attr(&args, 4)?;
        attrs.push(Attr::Float(args.float_or(3, 0.0)?));
        b.composite(def, attrs, &[x, y, target])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 3)?;
        let rows = inputs[2].clone();
        let none = op.attrs()[0] == Attr::Str("none");
        Ok(smallvec![if none { rows } else { Type { dtype: rows.dtype, shape: Shape::scalar() } }])
    },
    body: Body::Composite(|b, attrs, v| {
        let (dtype, margin) = (b.dtype(v[0]), attrs[1].float());
        let (x, y, t) = (widen(b, v[0])?, widen(b, v[1])?, Var(widen(b, v[2])?));
        let c = Var(cosine_of_rows(b, x, y)?);
        let apart = not_below_zero(b, c - margin)?;
        let apart = emit(b, t.equals(-1.0).choose(apart, 0.0))?;
        let row = emit(b, t.equals(1.0).choose(1.0 - c, apart))?;
        let loss = reduce(b, row.0, &attrs[0])?;
        Ok(smallvec![b.cast(loss, dtype)?])
    }),
    cost: 10,
    samples: &[
        Sample::grad("f32[3,4] in 0.5..2, f32[3,4] in 0.5..2, f32[3] = 1 -1 1, 0.1", 32),
        Sample::grad("f32[4] in 0.5..2, f32[4] in 0.5..2, f32[] = -1, 0.1, 0", 32),
    ],
    refuses: &[Refusal::of("f32[2,3], f32[2,3], f32[3]", "cosine_embedding_loss: needs targets [2], got [3]")],
    ..LOSS
};

/// Distances to a like and an unlike example. Attributes: reduction, margin, p, eps, swap.
pub static TRIPLET_MARGIN_LOSS: OpDef = OpDef {
    sig: "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, \
          float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor",
    doc: "max(0, margin + d(anchor, positive) - d(anchor, negative)) with d the pairwise_distance; with swap the smaller of \
          d(anchor, negative) and d(positive, negative). Balntas et al., BMVC 2016.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let mut attrs = reduction_attr(&args, 7)?;
        attrs.extend(
            [3, 4, 5]
                .iter()
                .zip([1.0, 2.0, 1e-6])
                .map(|(&i, d)| args.float_or(i, d))
                .collect::<Result<Vec<_>>>()?
                .into_iter()
                .map(Attr::Float),
        );
        attrs.push(Attr::Bool(args.flag(6)?));
        record_loss(b, def, &[args.tensor(0)?, args.tensor(1)?, args.tensor(2)?], attrs)
    },
    infer: |op, inputs| {
        rules::check_equal(op, inputs)?;
        rules::check_float(op.name(), inputs[0])?;
        let rank = inputs[0].rank();
        if rank == 0 {
            return Err(rules::refuse(op.name(), Kind::Shape, "takes vectors, got []"));
        }
        let none = op.attrs()[0] == Attr::Str("none");
        let shape = if none { inputs[0].shape.iter().take(rank - 1).collect() } else { Shape::scalar() };
        Ok(smallvec![Type { dtype: inputs[0].dtype, shape }])
    },
    body: Body::Composite(|b, attrs, v| {
        let (margin, p, eps, swap) = (attrs[1].float(), attrs[2].float(), attrs[3].float(), attrs[4].bool());
        let (dtype, a, like, unlike) = (b.dtype(v[0]), widen(b, v[0])?, widen(b, v[1])?, widen(b, v[2])?);
        let near = Var(pairwise_norm(b, a, like, p, eps, false)?);
        let mut far = Var(pairwise_norm(b, a, unlike, p, eps, false)?);
        if swap {
            let other = Var(pairwise_norm(b, like, unlike, p, eps, false)?);
            far = emit(b, far.min(other))?;
        }
        let row = not_below_zero(b, near - far + margin)?;
        let loss = reduce(b, row.0, &attrs[0])?;
        Ok(smallvec![b.cast(loss, dtype)?])
    }),
    cost: 12,
    samples: &[
        Sample::grad("f32[3,4] in 0.5..1, f32[3,4] in 1.5..2, f32[3,4] in 1..2", 64),
        Sample::grad("f32[3,4] in 0.5..1, f32[3,4] in 1.5..2, f32[3,4] in 3..4, 5, 2, 1e-6, true, 0", 64),
    ],
    refuses: &[Refusal::of("f32[], f32[], f32[]", "triplet_margin_loss: takes vectors, got []")],
    ..LOSS
};

/// Rows `[N, C]` of scores, which may be one row or one number.
fn rows_of(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let shape = b.shape(x);
    let rows = match shape.rank() {
        0 => [Dim::Const(1), Dim::Const(1)].into_iter().collect(),
        1 => [Dim::Const(1), shape.dim(0)].into_iter().collect(),
        _ => shape,
    };
    b.reshape(x, &rows)
}
/// Scores of rank 0 to 2, and targets with as many elements as there are rows (`per_class`: as there are scores).
fn check_scores(def: &OpDef, x: &Type, target: &Type, per_class: bool) -> Result<()> {
    rules::check_float(def.name(), x)?;
    if !target.dtype.is_int() {
        return Err(rules::refuse(def.name(), Kind::DType, format_args!("targets are integers, got {target}")));
    }
    let rows = if x.rank() == 2 { x.shape.dim(0).bound() } else { 1 };
    let wanted = if per_class { x.shape.numel() } else { rows };
    if x.rank() > 2 || target.shape.numel() != wanted || target.rank() > x.rank().max(1) {
        let what = format_args!("input {} and targets {} do not fit", x.shape, target.shape);
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    Ok(())
}
/// `[N, C]` and others: `[N]` with the reduction "none", else a number.
fn infer_rows(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let x = inputs[0];
    if x.rank() != 2 {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs))));
    }
    let none = op.attrs()[0] == Attr::Str("none");
    let shape = if none { [x.shape.dim(0)].into_iter().collect() } else { Shape::scalar() };
    Ok(smallvec![Type { dtype: x.dtype, shape }])
}
/// `out[.., c]`: is `class[..]` c?
fn one_hot(b: &mut Builder<'_>, class: ValueId, classes: Dim) -> Result<ValueId> {
    let mut shape = b.shape(class);
    shape.push(1);
    let column = b.reshape(class, &shape)?;
    shape.set(shape.rank() - 1, classes);
    let axis = shape.rank() - 1;
    let place = b.prim(Prim::Iota { shape, axis }, &[])?;
    b.eq(place, column)
}
/// Σ over the last dim of `x` where the mask holds.
fn sum_where(b: &mut Builder<'_>, mask: ValueId, x: ValueId) -> Result<ValueId> {
    let kept = b.select(mask, x, 0.0)?;
    let last = b.rank(kept) - 1;
    b.reduce(Fold::Sum, kept, &[last])
}

/// Margins between the target's score and all others. Attributes: reduction, p, margin.
pub static MULTI_MARGIN_LOSS: OpDef = OpDef {
    sig: "multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) \
          -> Tensor",
    doc: "Σ_{c ≠ t} weight[t] max(0, margin - self[t] + self[c])^p / C of each row, t its target; p is 1 or 2. A target \
          outside the classes counts as one whose score is 0.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, target) = (args.tensor(0)?, args.tensor(1)?);
        check_scores(def, b.ty(x), b.ty(target), false)?;
        let p = args.float_or(2, 1.0)?;
        if p != 1.0 && p != 2.0 {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("p is 1 or 2, got {p}")));
        }
        let rows = if b.rank(target) > 0 { b.shape(target) } else { Shape::scalar() };
        let x = rows_of(b, x)?;
        let n = b.shape(target).numel();
        let class = b.cast(target, DType::I64)?;
        let mut inputs: SmallVec<[ValueId; 3]> = smallvec![x, b.reshape(class, &[n].into())?];
        if let Some(weight) = args.optional_tensor(4)? {
            let want = Type { dtype: b.dtype(x), shape: [b.shape(x).dim(1)].into_iter().collect() };
            if *b.ty(weight) != want {
                let what = format_args!("weight is {want}, got {}", b.ty(weight));
                return Err(rules::refuse(def.name(), Kind::Shape, what));
            }
            inputs.push(weight);
        }
        let attrs = smallvec![Attr::Str(reduction(&args, 5)?), Attr::Float(p), Attr::Float(args.float_or(3, 1.0)?)];
        let y = b.composite(def, attrs, &inputs)?[0];
        Ok(smallvec![if b.rank(y) == 1 { b.reshape(y, &rows)? } else { y }])
    },
    infer: infer_rows,
    body: Body::Composite(|b, attrs, v| {
        let (dtype, p, margin) = (b.dtype(v[0]), attrs[1].float(), attrs[2].float());
        let x = widen(b, v[0])?;
        let classes = b.shape(x).dim(1);
        let hot = one_hot(b, v[1], classes)?;
        let score = sum_where(b, hot, x)?;
        let column: Shape = [b.shape(x).dim(0), Dim::Const(1)].into_iter().collect();
        let score = Var(b.reshape(score, &column)?);
        let mut gap = not_below_zero(b, margin - score + Var(x))?;
        if p == 2.0 {
            gap = emit(b, gap * gap)?;
        }
        if let Some(&weight) = v.get(2) {
            let weight = widen(b, weight)?;
            let weight = b.expand(weight, &b.shape(x))?;
            let each = sum_where(b, hot, weight)?;
            let each = Var(b.reshape(each, &column)?);
            gap = emit(b, gap * each)?;
        }
        let others = b.not(hot)?;
        let sum = sum_where(b, others, gap.0)?;
        let n = count(b, b.dtype(sum), &b.shape(x), &[1])?;
        let row = b.div(sum, n)?;
        let loss = reduce(b, row, &attrs[0])?;
        Ok(smallvec![b.cast(loss, dtype)?])
    }),
    samples: &[
        Sample::grad("f32[3,4] in 0..0.5, i64[3] in 0..4", 16),
        Sample::grad("f32[3,4] in 0..0.5, i64[3] in 0..4, 2, 0.7, f32[4] in 0.5..2, 0", 16),
        Sample::grad("f32[4] in 0..0.5, i64[] in 0..4", 16),
    ],
    refuses: &[Refusal::of("f32[3,4], i64[3] in 0..4, 3", "multi_margin_loss: p is 1 or 2, got 3")],
    ..LOSS
};

/// Margins between the scores of classes that hold and of all others. Attributes: reduction.
pub static MULTILABEL_MARGIN_LOSS: OpDef = OpDef {
    sig: "multilabel_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor",
    doc: "Σ_{t, c} max(0, 1 - self[t] + self[c]) / C of each row, over its targets t, which are those before the first -1, \
          and the classes c that are no targets.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (x, target) = (args.tensor(0)?, args.tensor(1)?);
        check_scores(def, b.ty(x), b.ty(target), true)?;
        let rows = if b.rank(x) == 2 { [b.shape(x).dim(0)].into_iter().collect() } else { Shape::scalar() };
        let x = rows_of(b, x)?;
        let class = b.cast(target, DType::I64)?;
        let class = b.reshape(class, &b.shape(x))?;
        let y = b.composite(def, reduction_attr(&args, 2)?, &[x, class])?[0];
        Ok(smallvec![if b.rank(y) == 1 { b.reshape(y, &rows)? } else { y }])
    },
    infer: infer_rows,
    body: Body::Composite(multilabel_margin_body),
    cost: 40,
    samples: &[
        Sample::grad("f32[2,4] in 0..0.5, i64[2,4] = 3 0 -1 1 2 -1 0 0", 16),
        Sample::grad("f32[4] in 0..0.5, i64[4] = 3 0 -1 1, 0", 16),
        Sample::grad("f32[1,2] in 0..0.5, i64[1,2] = -1 0", 16),
    ],
    refuses: &[Refusal::of(
        "f32[2,4], i64[2,3] in 0..4",
        "multilabel_margin_loss: input [2, 4] and targets [2, 3] do not fit",
    )],
    ..LOSS
};
fn multilabel_margin_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let dtype = b.dtype(v[0]);
    let x = widen(b, v[0])?;
    let (rows, classes) = (b.shape(x).dim(0), b.shape(x).dim(1));
    // The position of the first -1 of each row; what stands behind it counts nothing.
    let place = b.prim(Prim::Iota { shape: b.shape(v[1]), axis: 1 }, &[])?;
    let end = b.lt(v[1], 0.0)?;
    let stop = b.select(end, place, classes.bound() as f64)?;
    let stop = b.reduce_keep(Fold::Min, stop, &[1])?;
    let valid = b.lt(place, stop)?;
    let class = b.select(valid, v[1], -1.0)?;
    // hot[n, j, c]: is target j of row n class c?
    let hot = one_hot(b, class, classes)?;
    let is_target = b.cast(hot, DType::I32)?;
    let is_target = b.reduce(Fold::Max, is_target, &[1])?;
    let is_target = b.cast(is_target, DType::Bool)?;
    let cube: Shape = [rows, classes, classes].into_iter().collect();
    let across: Shape = [rows, Dim::Const(1), classes].into_iter().collect();
    let wide = b.reshape(x, &across)?;
    let wide = b.expand(wide, &cube)?;
    let score = sum_where(b, hot, wide)?;
    let down: Shape = [rows, classes, Dim::Const(1)].into_iter().collect();
    let score = Var(b.reshape(score, &down)?);
    let gap = not_below_zero(b, 1.0 - score + Var(wide))?;
    let (other, valid) = (b.not(is_target)?, b.reshape(valid, &down)?);
    let other = b.reshape(other, &across)?;
    let (other, valid) = (b.expand(other, &cube)?, b.expand(valid, &cube)?);
    let counts = b.and(other, valid)?;
    let gap = b.select(counts, gap.0, 0.0)?;
    let sum = b.reduce(Fold::Sum, gap, &[1, 2])?;
    let n = count(b, b.dtype(sum), &b.shape(x), &[1])?;
    let row = b.div(sum, n)?;
    let loss = reduce(b, row, &attrs[0])?;
    Ok(smallvec![b.cast(loss, dtype)?])
}

/// Logistic losses of many classes. Attributes: reduction, has weight.
pub static MULTILABEL_SOFT_MARGIN_LOSS: OpDef = OpDef {
    sig: "multilabel_soft_margin_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
    doc: "The mean over the last dim of weight (target log(1 + exp -self) + (1 - target) log(1 + exp self)).",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let weight = args.optional_tensor(2)?;
        let tensors: SmallVec<[ValueId; 3]> =
            [Some(args.tensor(0)?), Some(args.tensor(1)?), weight].into_iter().flatten().collect();
        if tensors.iter().all(|&t| b.rank(t) == 0) {
            return Err(rules::refuse(def.name(), Kind::Shape, "needs a dim of classes, got []"));
        }
        record_loss(b, def, &tensors, reduction_attr(&args, 3)?)
    },
    infer: |op, inputs| {
        rules::check_equal(op, inputs)?;
        rules::check_float(op.name(), inputs[0])?;
        let none = op.attrs()[0] == Attr::Str("none");
        let rows = inputs[0].shape.iter().take(inputs[0].rank().saturating_sub(1)).collect();
        Ok(smallvec![Type { dtype: inputs[0].dtype, shape: if none { rows } else { Shape::scalar() } }])
    },
    body: Body::Composite(|b, attrs, v| {
        let dtype = b.dtype(v[0]);
        let (x, t) = (widen(b, v[0])?, Var(widen(b, v[1])?));
        let up = Var(soft_positive(b, x)?);
        let down = emit(b, up - Var(x))?;
        let mut each = emit(b, t * down + (1.0 - t) * up)?;
        if let Some(&w) = v.get(2) {
            let w = Var(widen(b, w)?);
            each = emit(b, each * w)?;
        }
        let last = b.rank(x) - 1;
        let sum = b.reduce(Fold::Sum, each.0, &[last])?;
        let n = count(b, b.dtype(sum), &b.shape(x), &[last])?;
        let row = b.div(sum, n)?;
        let loss = reduce(b, row, &attrs[0])?;
        Ok(smallvec![b.cast(loss, dtype)?])
    }),
    cost: 40,
    samples: &[
        Sample::grad("f32[2,3] in 0.1..2, f32[2,3] in 0..1", 32),
        Sample::grad("f32[2,3] in 0.1..2, f32[2,3] in 0..1, f32[3] in 0.5..2, 0", 32),
    ],
    refuses: &[Refusal::of("f32[], f32[]", "multilabel_soft_margin_loss: needs a dim of classes, got []")],
    ..LOSS
};
