//! Computed addresses: gather and scatter.
use super::reduce::Zeros;
use crate::{
    Bound, Builder, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Sample, Saves, ScatterOp, Stability, Type, Types,
    ValueId, record, rules,
};
use rtx_core::{DType, Kind, Result, Shape};
use smallvec::smallvec;

/// `x` with `axis` replaced by the shape of the indices.
fn gathered(x: &Shape, axis: usize, indices: &Shape) -> Shape {
    x.iter().take(axis).chain(indices.iter()).chain(x.iter().skip(axis + 1)).collect()
}
fn infer_gather(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let (x, i) = (inputs[0], inputs[1]);
    match op.prim() {
        Some(&Prim::Gather { axis }) if axis < x.rank() && i.dtype == DType::I64 => {
            Ok(smallvec![Type { dtype: x.dtype, shape: gathered(&x.shape, axis, &i.shape) }])
        }
        _ => Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs)))),
    }
}
fn infer_scatter(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 3)?;
    let (x, i, u) = (inputs[0], inputs[1], inputs[2]);
    if !matches!(op.prim(), Some(Prim::Scatter { op: ScatterOp::Set, .. })) {
        rules::check_arithmetic(op.name(), x)?;
    }
    match op.prim() {
        Some(&Prim::Scatter { axis, .. })
            if axis < x.rank()
                && i.dtype == DType::I64
                && u.dtype == x.dtype
                && u.shape == gathered(&x.shape, axis, &i.shape) =>
        {
            Ok(smallvec![x.clone()])
        }
        _ => Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs)))),
    }
}

fn gather(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let (x, index) = (record::tensor(def, a, 0)?, record::tensor(def, a, 1)?);
    let axis = record::dim(b, def, a, 2, x)?;
    Ok(smallvec![b.prim(Prim::Gather { axis }, &[x, index])?])
}
fn scatter(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let operands = [record::tensor(def, a, 0)?, record::tensor(def, a, 1)?, record::tensor(def, a, 2)?];
    let axis = record::dim(b, def, a, 3, operands[0])?;
    let word = record::word(def, a, 4)?;
    let Some(op) = ScatterOp::ALL.into_iter().find(|o| o.name() == word) else {
        let what = format_args!("reduce takes set, add, mul, min or max, got {word:?}");
        return Err(rules::refuse(def.name(), Kind::Argument, what));
    };
    Ok(smallvec![b.prim(Prim::Scatter { axis, op }, &operands)?])
}

/// Where a scatter writes, for the parts of its gradient.
struct Places {
    axis: usize,
    index: ValueId,
}
impl Places {
    fn gather(&self, b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
        b.prim(Prim::Gather { axis: self.axis }, &[x, self.index])
    }
    fn scatter(&self, b: &mut Builder<'_>, op: ScatterOp, x: ValueId, updates: ValueId) -> Result<ValueId> {
        b.prim(Prim::Scatter { axis: self.axis, op }, &[x, self.index, updates])
    }
    /// Of the updates of one element only the last one counts: true where it is this one.
    fn winners(&self, b: &mut Builder<'_>, x: &Shape, updates: &Shape) -> Result<ValueId> {
        let shape = b.shape(self.index);
        let own = position(b, &shape)?;
        let none = b.zeros(DType::I64, &Shape::from_iter([x.dim(self.axis)]))?;
        let last = b.prim(Prim::Scatter { axis: 0, op: ScatterOp::Set }, &[none, self.index, own])?;
        let last = b.prim(Prim::Gather { axis: 0 }, &[last, self.index])?;
        let wins = b.eq(last, own)?;
        let mut aligned = shape;
        (self.axis + 1..x.rank()).for_each(|_| aligned.push(1));
        let wins = b.reshape(wins, &aligned)?;
        b.expand(wins, updates)
    }
}

/// A number for each position that grows in row-major order: sizes at their largest, so that symbols are no matter.
fn position(b: &mut Builder<'_>, shape: &Shape) -> Result<ValueId> {
    let mut sum = b.zeros(DType::I64, shape)?;
    let mut stride = 1i64;
    for axis in (0..shape.rank()).rev() {
        let at = b.prim(Prim::Iota { shape: shape.clone(), axis }, &[])?;
        let step = b.full(DType::I64, shape, stride)?;
        let along = b.mul(at, step)?;
        sum = b.add(sum, along)?;
        stride *= shape.dim(axis).bound() as i64;
    }
    Ok(sum)
}

fn grad_scatter(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::Scatter { axis, op }) = cx.op.prim() else {
        return Err(rules::refuse(cx.op.name(), Kind::Internal, "not a scatter"));
    };
    let at = Places { axis, index: cx.inputs[1] };
    match op {
        ScatterOp::Set => grad_set(b, cx, &at),
        ScatterOp::Add => cx.each(|i| if i == 0 { Ok(cx.ct()) } else { at.gather(b, cx.ct()) }),
        ScatterOp::Mul => grad_mul(b, cx, &at),
        ScatterOp::Min | ScatterOp::Max => grad_extremum(b, cx, &at),
    }
}
fn grad_set(b: &mut Builder<'_>, cx: &GradCx<'_>, at: &Places) -> Result<Grads> {
    let (x, updates) = (b.shape(cx.inputs[0]), b.shape(cx.inputs[2]));
    cx.each(|i| {
        if i == 0 {
            let zeros = b.zeros_like(cx.inputs[2])?;
            return at.scatter(b, ScatterOp::Set, cx.ct(), zeros);
        }
        let g = at.gather(b, cx.ct())?;
        let wins = at.winners(b, &x, &updates)?;
        b.select(wins, g, 0.0)
    })
}
/// Each factor's slope is the product of the others: of those that are not zero, divided by itself, times the product
/// of the others that are. Right to the second order where factors are zero, to any where none is.
fn grad_mul(b: &mut Builder<'_>, cx: &GradCx<'_>, at: &Places) -> Result<Grads> {
    let (x, updates) = (cx.inputs[0], cx.inputs[2]);
    cx.each(|i| {
        if i == 0 {
            let dtype = b.dtype(x);
            let ones = b.full(dtype, &b.shape(x), 1i64)?;
            let factor = at.scatter(b, ScatterOp::Mul, ones, updates)?;
            return b.mul(cx.ct(), factor);
        }
        let zeros = Zeros::of(b, updates)?;
        let product = at.scatter(b, ScatterOp::Mul, x, zeros.nonzero)?;
        let none = b.zeros_like(x)?;
        let count = at.scatter(b, ScatterOp::Add, none, zeros.zero)?;
        let sum = at.scatter(b, ScatterOp::Add, none, zeros.values)?;
        let g = b.mul(cx.ct(), product)?;
        let (g, count, sum) = (at.gather(b, g)?, at.gather(b, count)?, at.gather(b, sum)?);
        let slope = b.div(g, zeros.nonzero)?;
        let of_zeros = zeros.product_of_others(b, count, sum)?;
        b.mul(slope, of_zeros)
    })
}
/// Those that equal the result share its cotangent.
fn grad_extremum(b: &mut Builder<'_>, cx: &GradCx<'_>, at: &Places) -> Result<Grads> {
    let (x, updates, y) = (cx.inputs[0], cx.inputs[2], cx.outputs[0]);
    let dtype = b.dtype(x);
    let there = at.gather(b, y)?;
    let (old, new) = (b.eq(x, y)?, b.eq(updates, there)?);
    let (old, new) = (b.cast(old, dtype)?, b.cast(new, dtype)?);
    let count = at.scatter(b, ScatterOp::Add, old, new)?;
    let share = b.div(cx.ct(), count)?;
    cx.each(|i| {
        if i == 0 {
            return b.mul(old, share);
        }
        let share = at.gather(b, share)?;
        b.mul(new, share)
    })
}

pub(super) static GATHER: OpDef = OpDef {
    sig: "take_along(Tensor self, Tensor index, int dim) -> Tensor",
    doc: "`out[a.., i.., b..] = self[a.., index[i..], b..]`; an index outside the dim is an error when it runs.",
    record: |b, def, a| gather(b, def, a),
    infer: infer_gather,
    grad: Grad::Rule(|b, cx| {
        let Some(&Prim::Gather { axis }) = cx.op.prim() else {
            return Err(rules::refuse(cx.op.name(), Kind::Internal, "not a gather"));
        };
        let at = Places { axis, index: cx.inputs[1] };
        cx.each(|_| {
            let zeros = b.zeros_like(cx.inputs[0])?;
            at.scatter(b, ScatterOp::Add, zeros, cx.ct())
        })
    }),
    saves: Saves::Only { inputs: &[1], outputs: &[] },
    stability: Stability::Stable,
    samples: &[
        Sample::grad("f32[5,3], i64[2,2] in 0..5, 0", 0),
        Sample::grad("f32[2,5], i64[] in 0..5, 1", 0),
        Sample::exact("i64[4] in 0..9, i64[7] in 0..4, 0"),
        Sample::exact("f32[4,2], i64[0] in 0..4, 0"),
    ],
    ..OpDef::DEFAULT
};
pub(super) static SCATTER: OpDef = OpDef {
    sig: "scatter_along(Tensor self, Tensor index, Tensor src, int dim, str reduce) -> Tensor",
    doc: "`self` with `src` combined into it where `take_along` with the same index would read, in ascending order \
          of the position in `src`.",
    record: |b, def, a| scatter(b, def, a),
    infer: infer_scatter,
    grad: Grad::Rule(grad_scatter),
    saves: Saves::Only { inputs: &[0, 1, 2], outputs: &[0] },
    stability: Stability::Stable,
    samples: &[
        Sample::grad("f32[5,3], i64[4] in 0..5, f32[4,3], 0, \"add\"", 0),
        Sample::grad("f32[2,5], i64[2,2] in 0..5, f32[2,2,2], 1, \"set\"", 0),
        Sample::grad("f32[3], i64[4] in 0..3, f32[4] in 1..2, 0, \"mul\"", 0),
        Sample::grad("f32[2] in 1..2, i64[4] = 0 0 1 1, f32[4] = 0 3 2 1, 0, \"mul\"", 0),
        Sample::grad("f32[3], i64[4] in 0..3, f32[4], 0, \"max\"", 0),
        Sample::grad("f32[3] = 1 2 0, i64[4] = 0 0 1 2, f32[4] = 1 4 1 0, 0, \"min\"", 0),
        Sample::exact("i64[3] in 0..9, i64[6] in 0..3, i64[6] in 0..9, 0, \"add\""),
        Sample::exact("f32[3], i64[0] in 0..3, f32[0], 0, \"add\""),
    ],
    refuses: &[crate::Refusal::of(
        "f32[3], i64[1] in 0..3, f32[1], 0, \"sum\"",
        "scatter_along: reduce takes set, add, mul, min or max, got \"sum\"",
    )],
    ..OpDef::DEFAULT
};
