//! Running folds and the linear recurrence along a dim.
use crate::{
    Bound, Builder, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, Type, Types,
    ValueId, record, rules,
};
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use smallvec::smallvec;

fn infer_scan(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let x = inputs[0];
    let Some(&Prim::Scan { fold, axis, .. }) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a scan"));
    };
    check_numbers(op.name(), fold, x)?;
    if axis >= x.rank() {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("axis {axis} does not fit {x}")));
    }
    Ok(smallvec![x.clone()])
}
fn check_numbers(op: &str, fold: Fold, x: &Type) -> Result<()> {
    if x.dtype == DType::Bool && matches!(fold, Fold::Sum | Fold::Prod) {
        return Err(rules::refuse(op, Kind::DType, format_args!("needs a tensor of numbers, got {x}")));
    }
    Ok(())
}
fn infer_linear(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 3)?;
    let (a, b, start) = (inputs[0], inputs[1], inputs[2]);
    match op.prim() {
        Some(&Prim::LinearScan { axis, .. })
            if a == b
                && axis < a.rank()
                && a.dtype != DType::Bool
                && *start == (Type { dtype: a.dtype, shape: without(&a.shape, axis) }) =>
        {
            Ok(smallvec![b.clone()])
        }
        _ => Err(rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {}", rules::show(inputs)))),
    }
}
fn without(shape: &Shape, axis: usize) -> Shape {
    (0..shape.rank()).filter(|&i| i != axis).map(|i| shape.dim(i)).collect()
}

fn scan(b: &mut Builder<'_>, def: &OpDef, a: &Bound, fold: Fold) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let axis = record::dim(b, def, a, 1, x)?;
    let reverse = record::flag(def, a, 2)?;
    check_numbers(def.name(), fold, b.ty(x))?;
    Ok(smallvec![b.prim(Prim::Scan { fold, axis, reverse }, &[x])?])
}
fn linear(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let operands = [record::tensor(def, a, 0)?, record::tensor(def, a, 1)?, record::tensor(def, a, 2)?];
    let axis = record::dim(b, def, a, 3, operands[0])?;
    let reverse = record::flag(def, a, 4)?;
    Ok(smallvec![b.prim(Prim::LinearScan { axis, reverse }, &operands)?])
}

/// In which direction a scan goes along which axis.
#[derive(Clone, Copy)]
struct Way {
    axis: usize,
    reverse: bool,
}

impl Way {
    fn of(cx: &GradCx<'_>) -> Result<Way> {
        match cx.op.prim() {
            Some(&Prim::Scan { axis, reverse, .. } | &Prim::LinearScan { axis, reverse }) => Ok(Way { axis, reverse }),
            _ => Err(rules::refuse(cx.op.name(), Kind::Internal, "not a scan")),
        }
    }
    fn back(self) -> Way {
        Way { reverse: !self.reverse, ..self }
    }
    /// `y[t] = x[t - 1]` in this direction, the first one `first`, which lacks the axis.
    fn shifted(self, b: &mut Builder<'_>, x: ValueId, first: ValueId) -> Result<ValueId> {
        let Way { axis, reverse } = self;
        let shape = b.shape(x);
        let mut one = shape.clone();
        one.set(axis, 1);
        let first = b.reshape(first, &one)?;
        match shape.dim(axis) {
            Dim::Const(0) => Ok(x),
            Dim::Const(1) => Ok(first),
            Dim::Const(n) => {
                let rest = b.slice(x, axis, i64::from(reverse), n as usize - 1)?;
                b.prim(Prim::Concat { axis }, &if reverse { [rest, first] } else { [first, rest] })
            }
            // How many are left has no name: each looks its neighbour up, the first one itself.
            size @ Dim::Sym { .. } => {
                let line = Shape::from_iter([size]);
                let at = b.prim(Prim::Iota { shape: line.clone(), axis: 0 }, &[])?;
                let edge = if reverse { b.slice(at, 0, i64::MAX, 1)? } else { b.slice(at, 0, 0, 1)? };
                let edge = b.expand(edge, &line)?;
                let beside = b.add(at, if reverse { 1.0 } else { -1.0 })?;
                let is_first = b.eq(at, edge)?;
                let beside = b.select(is_first, at, beside)?;
                let moved = b.prim(Prim::Gather { axis }, &[x, beside])?;
                let along = Shape::from_iter((0..shape.rank()).map(|i| if i == axis { size } else { Dim::Const(1) }));
                let is_first = b.reshape(is_first, &along)?;
                let is_first = b.expand(is_first, &shape)?;
                let first = b.expand(first, &shape)?;
                b.select(is_first, first, moved)
            }
        }
    }
    /// The same with a number first.
    fn shifted_from(self, b: &mut Builder<'_>, x: ValueId, first: f64) -> Result<ValueId> {
        let first = b.full(b.dtype(x), &without(&b.shape(x), self.axis), first)?;
        self.shifted(b, x, first)
    }
    /// What flows back through a recurrence with these factors: `λ[t] = g[t] + a[t + 1] λ[t + 1]`.
    fn adjoint(self, b: &mut Builder<'_>, a: ValueId, g: ValueId) -> Result<ValueId> {
        let back = self.back();
        let a = back.shifted_from(b, a, 0.0)?;
        let none = b.zeros(b.dtype(g), &without(&b.shape(g), self.axis))?;
        b.prim(Prim::LinearScan { axis: self.axis, reverse: back.reverse }, &[a, g, none])
    }
}

fn grad_sum(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Way { axis, reverse } = Way::of(cx)?.back();
    cx.each(|_| b.prim(Prim::Scan { fold: Fold::Sum, axis, reverse }, &[cx.ct()]))
}
/// `y[t] = x[t] y[t - 1]` is a recurrence: the slope of `x[t]` is `y[t - 1]` times what flows back, without a division.
fn grad_prod(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let way = Way::of(cx)?;
    cx.wide(b, [cx.inputs[0], cx.outputs[0]], |b, _, g, [x, y]| {
        let before = way.shifted_from(b, y, 1.0)?;
        let flow = way.adjoint(b, x, g)?;
        b.mul(before, flow)
    })
}
/// A cotangent goes to the last element that was the extremum then.
fn grad_extremum(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let way = Way::of(cx)?;
    cx.wide(b, [cx.inputs[0], cx.outputs[0]], |b, _, g, [x, y]| {
        let (equal, itself) = (b.eq(x, y)?, b.eq(x, x)?);
        let nan = b.not(itself)?;
        let leads = b.or(equal, nan)?;
        let follows = b.not(leads)?;
        let follows = b.cast(follows, b.dtype(g))?;
        let flow = way.adjoint(b, follows, g)?;
        b.select(leads, flow, 0.0)
    })
}
fn grad_linear(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let way = Way::of(cx)?;
    cx.wide(b, [cx.inputs[0], cx.inputs[2], cx.outputs[0]], |b, i, g, [a, start, h]| {
        let flow = way.adjoint(b, a, g)?;
        match i {
            0 => {
                let before = way.shifted(b, h, start)?;
                b.mul(flow, before)
            }
            1 => Ok(flow),
            _ => into_start(b, way, a, flow),
        }
    })
}
/// What flows into the state before the first step.
fn into_start(b: &mut Builder<'_>, way: Way, a: ValueId, flow: ValueId) -> Result<ValueId> {
    let rest = without(&b.shape(flow), way.axis);
    if b.shape(flow).dim(way.axis) == Dim::Const(0) {
        return b.zeros(b.dtype(flow), &rest);
    }
    let product = b.mul(a, flow)?;
    let first = b.slice(product, way.axis, if way.reverse { i64::MAX } else { 0 }, 1)?;
    b.reshape(first, &rest)
}

const SCAN: OpDef = OpDef { infer: infer_scan, stability: Stability::Stable, ..OpDef::DEFAULT };

pub(super) static SUM: OpDef = OpDef {
    sig: "scan_sum(Tensor self, int dim, bool reverse=False) -> Tensor",
    doc: "Running sums along `dim`, one element after the other; integers wrap.",
    record: |b, def, a| scan(b, def, a, Fold::Sum),
    grad: Grad::Rule(grad_sum),
    saves: Saves::NONE,
    samples: &[
        Sample::grad("f32[2,3,4], 1, false", 4),
        Sample::grad("f64[5], 0, true", 4),
        Sample::of("f32[3,500], 1, false", 64),
        Sample::exact("i64[7,2] in -9..9, 0, true"),
        Sample::exact("f32[0,3], 0, false"),
        Sample::of("bf16[2,9], 1, false", 4),
    ],
    refuses: &[
        Refusal::of("bool[2], 0, false", "scan_sum: needs a tensor of numbers, got bool [2]"),
        Refusal::of("f32[2], 1, false", "scan_sum: dim 1 is outside -1..1 for a tensor of rank 1"),
    ],
    ..SCAN
};
pub(super) static PROD: OpDef = OpDef {
    sig: "scan_prod(Tensor self, int dim, bool reverse=False) -> Tensor",
    doc: "Running products along `dim`, one element after the other; integers wrap.",
    record: |b, def, a| scan(b, def, a, Fold::Prod),
    grad: Grad::Rule(grad_prod),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    cost: 2,
    samples: &[
        Sample::grad("f32[2,3,4], 1, false", 8),
        Sample::grad("f32[2,5] = 1 2 0 3 4 2 0 1 0 5, 1, true", 8),
        Sample::exact("i64[7] in 1..4, 0, false"),
        Sample::exact("f32[2,1], 1, false"),
    ],
    refuses: &[Refusal::of("bool[2], 0, false", "scan_prod: needs a tensor of numbers, got bool [2]")],
    ..SCAN
};
pub(super) static MAX: OpDef = OpDef {
    sig: "scan_max(Tensor self, int dim, bool reverse=False) -> Tensor",
    doc: "The largest so far along `dim`, NaN from the first one on; of bools `any`.",
    record: |b, def, a| scan(b, def, a, Fold::Max),
    grad: Grad::Rule(grad_extremum),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    samples: &[
        Sample::grad("f32[2,6], 1, false", 0),
        Sample::grad("f32[6,2], 0, true", 0),
        Sample::exact("f32[5] = 1 -0 3 nan 4, 0, false"),
        Sample::exact("i64[2,5] in -9..9, 1, true"),
        Sample::exact("bool[2,3], 1, false"),
    ],
    ..SCAN
};
pub(super) static MIN: OpDef = OpDef {
    sig: "scan_min(Tensor self, int dim, bool reverse=False) -> Tensor",
    doc: "The smallest so far along `dim`, NaN from the first one on; of bools `all`.",
    record: |b, def, a| scan(b, def, a, Fold::Min),
    grad: Grad::Rule(grad_extremum),
    saves: Saves::Only { inputs: &[0], outputs: &[0] },
    samples: &[
        Sample::grad("f32[2,6], 1, false", 0),
        Sample::exact("f32[5] = 1 -0 3 nan 4, 0, true"),
        Sample::exact("i64[2,5] in -9..9, 0, false"),
        Sample::exact("bool[2,3], 0, false"),
    ],
    ..SCAN
};
pub(super) static LINEAR: OpDef = OpDef {
    sig: "linear_scan(Tensor a, Tensor b, Tensor initial, int dim, bool reverse=False) -> Tensor",
    doc: "The recurrence h[t] = a[t] h[t - 1] + b[t] along `dim`, from a state that lacks the dim.",
    record: |b, def, a| linear(b, def, a),
    infer: infer_linear,
    grad: Grad::Rule(grad_linear),
    saves: Saves::Only { inputs: &[0, 2], outputs: &[0] },
    cost: 2,
    stability: Stability::Stable,
    samples: &[
        Sample::grad("f32[2,3,4], f32[2,3,4], f32[2,4], 1, false", 8),
        Sample::grad("f32[3,2], f32[3,2], f32[2], 0, true", 8),
        Sample::grad("f32[1], f32[1], f32[], 0, false", 8),
        Sample::exact("f32[0,2], f32[0,2], f32[2], 0, false"),
        Sample::exact("i64[2,5] in -3..3, i64[2,5] in -3..3, i64[2] in -3..3, 1, false"),
        Sample::of("bf16[2,3], bf16[2,3], bf16[2], 1, false", 4),
    ],
    refuses: &[Refusal::of(
        "f32[2,3], f32[2,3], f32[3], 1, false",
        "linear_scan: does not fit: f32 [2, 3], f32 [2, 3], f32 [3]",
    )],
    ..OpDef::DEFAULT
};
