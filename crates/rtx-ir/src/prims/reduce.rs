//! Reductions: axes folded away.
use crate::{
    Bound, Builder, Grad, GradCx, Grads, Jvp, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, Type, Types,
    ValueId, record, rules,
};
use rtx_core::{DType, Extremum, Fold, Kind, Result, Shape};
use smallvec::{SmallVec, smallvec};

fn infer_reduce(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let x = inputs[0];
    let Some(Prim::Reduce { fold, axes }) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a reduction"));
    };
    if axes.iter().any(|&a| a >= x.rank()) || axes.windows(2).any(|w| w[0] >= w[1]) {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("axes {axes:?} do not fit {x}")));
    }
    rules::check_arithmetic(op.name(), x)?;
    if x.dtype == DType::Bool && matches!(fold, Fold::Sum | Fold::Prod) {
        return Err(rules::refuse(op.name(), Kind::DType, format_args!("needs a tensor of numbers, got {x}")));
    }
    Ok(smallvec![Type {
        dtype: x.dtype,
        shape: (0..x.rank()).filter(|i| !axes.contains(i)).map(|i| x.shape.dim(i)).collect()
    }])
}
fn infer_arg(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let x = inputs[0];
    rules::check_arithmetic(op.name(), x)?;
    match op.prim() {
        Some(&Prim::ArgReduce { axis, .. }) if axis < x.rank() => Ok(smallvec![Type {
            dtype: DType::I64,
            shape: (0..x.rank()).filter(|&i| i != axis).map(|i| x.shape.dim(i)).collect()
        }]),
        _ => Err(rules::refuse(op.name(), Kind::Shape, format_args!("the axis does not fit {x}"))),
    }
}

const REDUCTION: OpDef = OpDef { infer: infer_reduce, stability: Stability::Stable, ..OpDef::DEFAULT };

fn reduce(b: &mut Builder<'_>, def: &OpDef, a: &Bound, fold: Fold) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let axes = record::dims(b, def, a, 1, x)?;
    if b.dtype(x) == DType::Bool && matches!(fold, Fold::Sum | Fold::Prod) {
        let what = format_args!("needs a tensor of numbers, got {}", b.ty(x));
        return Err(rules::refuse(def.name(), Kind::DType, what));
    }
    Ok(smallvec![b.reduce(fold, x, &axes)?])
}
fn arg_reduce(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let axis = record::dim(b, def, a, 1, x)?;
    let word = record::word(def, a, 2)?;
    let Some(extremum) = Extremum::parse(word) else {
        let what = format_args!("extremum takes max or min, got {word:?}");
        return Err(rules::refuse(def.name(), Kind::Argument, what));
    };
    Ok(smallvec![b.prim(Prim::ArgReduce { extremum, axis }, &[x])?])
}

/// The axes of a reduction and the operand's shape with them at size 1.
fn kept(b: &Builder<'_>, cx: &GradCx<'_>) -> Result<(SmallVec<[usize; 4]>, Shape)> {
    let Some(Prim::Reduce { axes, .. }) = cx.op.prim() else {
        return Err(rules::refuse(cx.op.name(), Kind::Internal, "not a reduction"));
    };
    let mut shape = b.shape(cx.inputs[0]);
    axes.iter().for_each(|&a| shape.set(a, 1));
    Ok((axes.clone(), shape))
}
/// A reduced value repeated along the axes that were folded.
fn spread(b: &mut Builder<'_>, v: ValueId, kept: &Shape, full: &Shape) -> Result<ValueId> {
    let v = b.reshape(v, kept)?;
    b.expand(v, full)
}
fn grad_sum(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let (_, kept) = kept(b, cx)?;
    let full = b.shape(cx.inputs[0]);
    cx.each(|_| spread(b, cx.ct(), &kept, &full))
}
/// Each factor's slope is the product of the others: of those that are not zero, divided by itself, times
/// the product of the others that are. Right to the second order where factors are zero, to any where none is.
fn grad_prod(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let (axes, kept) = kept(b, cx)?;
    let full = b.shape(cx.inputs[0]);
    cx.wide(b, [cx.inputs[0]], |b, _, g, [x]| {
        let zeros = Zeros::of(b, x)?;
        let product = b.reduce(Fold::Prod, zeros.nonzero, &axes)?;
        let (count, sum) = (b.reduce(Fold::Sum, zeros.zero, &axes)?, b.reduce(Fold::Sum, zeros.values, &axes)?);
        let g = b.mul(g, product)?;
        let g = spread(b, g, &kept, &full)?;
        let (count, sum) = (spread(b, count, &kept, &full)?, spread(b, sum, &kept, &full)?);
        let slope = b.div(g, zeros.nonzero)?;
        let of_zeros = zeros.product_of_others(b, count, sum)?;
        b.mul(slope, of_zeros)
    })
}

/// The factors of a product, zeros and others apart.
pub(super) struct Zeros {
    /// 1 where a factor is zero.
    pub nonzero: ValueId,
    /// 1 where a factor is zero, else 0.
    pub zero: ValueId,
    /// The factors that are zero (their values are 0, their tangents need not be); 0 for the others.
    pub values: ValueId,
}
impl Zeros {
    pub(super) fn of(b: &mut Builder<'_>, x: ValueId) -> Result<Zeros> {
        let is_zero = b.eq(x, 0.0)?;
        let (nonzero, values) = (b.select(is_zero, 1.0, x)?, b.select(is_zero, x, 0.0)?);
        Ok(Zeros { nonzero, zero: b.cast(is_zero, b.dtype(x))?, values })
    }
    /// The product of the zeros beside a factor, given how many all are and their sum: of none 1, of one itself, whose
    /// value is 0 and whose slope is 1, of more 0 with slope 0.
    pub(super) fn product_of_others(&self, b: &mut Builder<'_>, count: ValueId, sum: ValueId) -> Result<ValueId> {
        let (others, rest) = (b.sub(count, self.zero)?, b.sub(sum, self.values)?);
        let (none, one) = (b.eq(others, 0.0)?, b.eq(others, 1.0)?);
        let some = b.select(one, rest, 0.0)?;
        b.select(none, 1.0, some)
    }
}
/// Those that equal the result share its cotangent evenly.
fn grad_extremum(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let (axes, kept) = kept(b, cx)?;
    let full = b.shape(cx.inputs[0]);
    cx.wide(b, [cx.inputs[0], cx.outputs[0]], |b, _, g, [x, y]| {
        let y = spread(b, y, &kept, &full)?;
        let equal = b.eq(x, y)?;
        let equal = b.cast(equal, b.dtype(x))?;
        let count = b.reduce(Fold::Sum, equal, &axes)?;
        let share = b.div(g, count)?;
        let share = spread(b, share, &kept, &full)?;
        b.mul(equal, share)
    })
}

pub(super) static SUM: OpDef = OpDef {
    sig: "reduce_sum(Tensor self, int[] dim) -> Tensor",
    doc: "The sum over dims, by the tree of the target; integers wrap; of nothing 0.",
    record: |b, def, a| reduce(b, def, a, Fold::Sum),
    grad: Grad::Rule(grad_sum),
    saves: Saves::NONE,
    samples: &[
        Sample::grad("f32[2,3,4], [0, 2]", 4),
        Sample::grad("f64[5], [0]", 4),
        Sample::of("f32[3,5000], [1]", 64),
        Sample::exact("f32[0,3], [0]"),
        Sample::exact("i64[7] in -9..9, [0]"),
        Sample::exact("f32[2,3], []"),
        Sample::of("bf16[2,3], [1]", 4),
    ],
    refuses: &[
        Refusal::of("bool[2], [0]", "reduce_sum: needs a tensor of numbers, got bool [2]"),
        Refusal::of("f32[2], [1]", "reduce_sum: dim 1 is outside -1..1 for a tensor of rank 1"),
        Refusal::of("f32[2,2], [1, -1]", "reduce_sum: a dim is named twice in [1, -1]"),
    ],
    ..REDUCTION
};
pub(super) static PROD: OpDef = OpDef {
    sig: "reduce_prod(Tensor self, int[] dim) -> Tensor",
    doc: "The product over dims, by the tree of the target; integers wrap; of nothing 1.",
    record: |b, def, a| reduce(b, def, a, Fold::Prod),
    grad: Grad::Rule(grad_prod),
    saves: Saves::Inputs,
    cost: 2,
    samples: &[
        Sample::grad("f32[2,3] in 0.5..2, [1]", 4),
        Sample::grad("f32[3,3] = 0 1 2 0 0 3 4 5 6, [1]", 4),
        Sample::exact("f32[0,3], [0]"),
        Sample::exact("i64[7] in 1..4, [0]"),
    ],
    refuses: &[Refusal::of("bool[2], [0]", "reduce_prod: needs a tensor of numbers, got bool [2]")],
    ..REDUCTION
};
pub(super) static MAX: OpDef = OpDef {
    sig: "reduce_max(Tensor self, int[] dim) -> Tensor",
    doc: "The largest over dims, NaN if there is one; of bools `any`; of nothing the least value.",
    record: |b, def, a| reduce(b, def, a, Fold::Max),
    grad: Grad::Rule(grad_extremum),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    samples: &[
        Sample::grad("f32[2,3], [1]", 0),
        Sample::exact("f32[2,3] = 1 nan 2 -inf -inf -inf, [1]"),
        Sample::exact("f32[0,2], [0]"),
        Sample::exact("i64[2,3] in -9..9, [0]"),
        Sample::exact("bool[2,3], [1]"),
    ],
    ..REDUCTION
};
pub(super) static MIN: OpDef = OpDef {
    sig: "reduce_min(Tensor self, int[] dim) -> Tensor",
    doc: "The smallest over dims, NaN if there is one; of bools `all`; of nothing the greatest value.",
    record: |b, def, a| reduce(b, def, a, Fold::Min),
    grad: Grad::Rule(grad_extremum),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    samples: &[
        Sample::grad("f32[2,3], [1]", 0),
        Sample::exact("f32[2,3] = 1 nan 2 inf inf inf, [1]"),
        Sample::exact("i64[2,3] in -9..9, [0]"),
        Sample::exact("bool[2,3], [1]"),
    ],
    ..REDUCTION
};
pub(super) static ARG: OpDef = OpDef {
    sig: "arg_reduce(Tensor self, int dim, str extremum) -> Tensor",
    doc: "The position of an extremum along `dim`: the first of equal ones; the first NaN wins.",
    record: |b, def, a| arg_reduce(b, def, a),
    infer: infer_arg,
    grad: Grad::None,
    jvp: Jvp::None,
    saves: Saves::NONE,
    samples: &[
        Sample::exact("f32[2,5], 1, \"max\""),
        Sample::exact("f32[5] = 1 3 3 nan nan, 0, \"min\""),
        Sample::exact("i64[3,4] in 0..3, 0, \"max\""),
    ],
    refuses: &[Refusal::of("f32[2], 0, \"avg\"", "arg_reduce: extremum takes max or min, got \"avg\"")],
    ..REDUCTION
};
