//! Movement: the same elements in another place.
use crate::{
    Bound, Builder, Grad, GradCx, Grads, Op, OpDef, Outs, Prim, Refusal, Sample, Saves, Stability, Type, Types,
    ValueId, record, rules,
};
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use smallvec::{SmallVec, smallvec};

fn wrong(op: &Op, inputs: &[&Type]) -> rtx_core::Error {
    rules::refuse(op.name(), Kind::Shape, format_args!("does not fit: {:?} of {}", op.prim(), rules::show(inputs)))
}
fn infer_reshape(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let Some(Prim::Reshape(to)) = op.prim() else { return Err(wrong(op, inputs)) };
    check_elements(op.name(), &inputs[0].shape, to)?;
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape: to.clone() }])
}
/// Both shapes have as many elements: equal products of numbers, and the same symbols.
fn check_elements(op: &str, from: &Shape, to: &Shape) -> Result<()> {
    let symbols = |s: &Shape| {
        let mut list: SmallVec<[Dim; 4]> = s.iter().filter(|d| d.known().is_none()).collect();
        list.sort_unstable();
        list
    };
    let numbers = |s: &Shape| s.iter().filter_map(Dim::known).product::<usize>();
    if from.is_static() && to.is_static() && from.numel() != to.numel() {
        let what = format_args!("{from} has {} elements, {to} takes {}", from.numel(), to.numel());
        return Err(rules::refuse(op, Kind::Shape, what));
    }
    if numbers(from) != numbers(to) || symbols(from) != symbols(to) {
        let what = format_args!("{from} into {to}: a product with a symbol in it is no size");
        return Err(rules::refuse(op, Kind::Unsupported, what));
    }
    Ok(())
}
fn infer_permute(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let Some(Prim::Permute(order)) = op.prim() else { return Err(wrong(op, inputs)) };
    let mut seen: smallvec::SmallVec<[usize; 4]> = order.clone();
    seen.sort_unstable();
    if !seen.iter().copied().eq(0..inputs[0].rank()) {
        return Err(wrong(op, inputs));
    }
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape: order.iter().map(|&o| inputs[0].shape.dim(o)).collect() }])
}
fn infer_expand(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let Some(Prim::Expand(to)) = op.prim() else { return Err(wrong(op, inputs)) };
    let from = &inputs[0].shape;
    let fits = from.rank() <= to.rank() && from.iter().rev().zip(to.iter().rev()).all(|(a, b)| a == b || a.is_one());
    if !fits {
        return Err(rules::refuse(op.name(), Kind::Shape, format_args!("{from} does not broadcast to {to}")));
    }
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape: to.clone() }])
}
fn check_start(op: &Op, start: &Type) -> Result<()> {
    if start.dtype == DType::I64 && start.rank() == 0 {
        return Ok(());
    }
    Err(rules::refuse(op.name(), Kind::DType, format_args!("the start is i64 [], got {start}")))
}
/// Elements that `len` steps of `step` span.
fn span(len: Dim, step: i64) -> u64 {
    if len.bound() == 0 { 0 } else { (len.bound() as u64 - 1).saturating_mul(step.unsigned_abs()).saturating_add(1) }
}
fn infer_slice(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    check_start(op, inputs[1])?;
    let Some(&Prim::Slice { axis, len, step }) = op.prim() else { return Err(wrong(op, inputs)) };
    if axis >= inputs[0].rank() || step == 0 || span(len, step) > inputs[0].shape.dim(axis).bound() as u64 {
        return Err(wrong(op, inputs));
    }
    let mut shape = inputs[0].shape.clone();
    shape.set(axis, len);
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape }])
}
fn infer_update_slice(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 3)?;
    check_start(op, inputs[2])?;
    let Some(&Prim::UpdateSlice { axis, step }) = op.prim() else { return Err(wrong(op, inputs)) };
    let (x, u) = (inputs[0], inputs[1]);
    let others = |t: &Type| {
        let mut s = t.shape.clone();
        if axis < s.rank() {
            s.set(axis, 1);
        }
        s
    };
    if axis >= x.rank()
        || step == 0
        || x.dtype != u.dtype
        || others(x) != others(u)
        || span(u.shape.dim(axis), step) > x.shape.dim(axis).bound() as u64
    {
        return Err(wrong(op, inputs));
    }
    Ok(smallvec![x.clone()])
}
fn infer_pad(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    let Some(&Prim::Pad { axis, before, after }) = op.prim() else { return Err(wrong(op, inputs)) };
    if axis >= inputs[0].rank() || inputs[1].rank() != 0 || inputs[1].dtype != inputs[0].dtype {
        return Err(wrong(op, inputs));
    }
    let Some(n) = inputs[0].shape.dim(axis).known() else {
        return Err(rules::refuse(op.name(), Kind::Unsupported, "a symbolic size is not padded"));
    };
    let Some(total) = (n as u64).checked_add(before).and_then(|t| t.checked_add(after)) else {
        return Err(wrong(op, inputs));
    };
    let mut shape = inputs[0].shape.clone();
    shape.set(axis, Dim::Const(total));
    Ok(smallvec![Type { dtype: inputs[0].dtype, shape }])
}
fn infer_concat(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let (Some(&Prim::Concat { axis }), Some(first)) = (op.prim(), inputs.first()) else {
        return Err(wrong(op, inputs));
    };
    if axis >= first.rank() {
        return Err(wrong(op, inputs));
    }
    let mut shape = first.shape.clone();
    let mut total = 0usize;
    for t in inputs {
        let mut s = t.shape.clone();
        let fits = t.dtype == first.dtype && t.rank() == first.rank();
        let Some(n) = fits.then(|| t.shape.dim(axis).known()).flatten() else { return Err(wrong(op, inputs)) };
        s.set(axis, shape.dim(axis));
        if s != shape {
            return Err(wrong(op, inputs));
        }
        total = total.checked_add(n).ok_or_else(|| wrong(op, inputs))?;
    }
    shape.set(axis, total);
    Ok(smallvec![Type { dtype: first.dtype, shape }])
}

/// What movement primitives share.
const MOVEMENT: OpDef = OpDef { cost: 0, stability: Stability::Stable, ..OpDef::DEFAULT };
/// Only the type of the operand is read.
const BLIND: OpDef = OpDef { saves: Saves::NONE, ..MOVEMENT };

fn reshape(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let from = b.shape(x);
    let to = close_sizes(def, &from, &record::open_sizes(def, a, 1)?)?;
    Ok(smallvec![b.reshape(x, &to)?])
}
/// Sizes with the one that was left open (-1) worked out.
fn close_sizes(def: &OpDef, from: &Shape, to: &[Option<Dim>]) -> Result<Shape> {
    let open = to.iter().filter(|d| d.is_none()).count();
    if open > 1 {
        return Err(rules::refuse(def.name(), Kind::Argument, "only one size may be -1"));
    }
    if open == 0 {
        return Ok(to.iter().flatten().copied().collect());
    }
    let missing = missing_size(from, to).ok_or_else(|| {
        let shown: Vec<String> = to.iter().map(|d| d.map_or("-1".into(), |d| d.to_string())).collect();
        let kind = if from.is_static() { Kind::Shape } else { Kind::Unsupported };
        rules::refuse(def.name(), kind, format_args!("{from} does not divide into [{}]", shown.join(", ")))
    })?;
    Ok(to.iter().map(|d| d.unwrap_or(missing)).collect())
}
/// What is left of `from` after the known sizes of `to`: a number, or one symbol.
fn missing_size(from: &Shape, to: &[Option<Dim>]) -> Option<Dim> {
    let known = |d: Dim| d.known().unwrap_or(1);
    let mut symbols: Vec<Dim> = from.iter().filter(|d| d.known().is_none()).collect();
    for d in to.iter().flatten().filter(|d| d.known().is_none()) {
        symbols.remove(symbols.iter().position(|s| s == d)?);
    }
    let have: usize = from.iter().map(known).product();
    let taken: usize = to.iter().flatten().copied().map(known).product();
    let left = have.checked_div(taken).filter(|l| l * taken == have)?;
    match symbols.as_slice() {
        [] => Some(left.into()),
        [s] if left == 1 => Some(*s),
        _ => None,
    }
}

fn permute(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let list = record::ints(def, a, 1)?;
    if list.len() != b.rank(x) {
        let what = format_args!("{} dims for a tensor of rank {}", list.len(), b.rank(x));
        return Err(rules::refuse(def.name(), Kind::Argument, what));
    }
    record::dims(b, def, a, 1, x)?;
    let rank = b.rank(x) as i64;
    let order: SmallVec<[usize; 4]> = list.iter().map(|d| d.rem_euclid(rank) as usize).collect();
    Ok(smallvec![b.permute(x, &order)?])
}
/// The permutation that undoes `order`.
fn inverse(order: &[usize]) -> SmallVec<[usize; 4]> {
    let mut out: SmallVec<[usize; 4]> = order.into();
    order.iter().enumerate().for_each(|(i, &o)| out[o] = i);
    out
}

fn expand(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let (from, sizes) = (b.shape(x), record::open_sizes(def, a, 1)?);
    let lead = sizes.len().checked_sub(from.rank());
    let keep = |(i, d): (usize, &Option<Dim>)| d.or_else(|| Some(from.dim(i.checked_sub(lead?)?)));
    let to: Option<SmallVec<[Dim; 4]>> = lead.and_then(|_| sizes.iter().enumerate().map(keep).collect());
    let shown = || sizes.iter().map(|d| d.map_or("-1".into(), |d| d.to_string())).collect::<Vec<_>>().join(", ");
    let no = || rules::refuse(def.name(), Kind::Shape, format_args!("{from} does not broadcast to [{}]", shown()));
    let to = Shape::from_iter(to.ok_or_else(no)?);
    let fits = from.iter().rev().zip(to.iter().rev()).all(|(f, t)| f == t || f.is_one());
    if fits { Ok(smallvec![b.expand(x, &to)?]) } else { Err(no()) }
}

fn slice(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let start = record::tensor_or_number(b, def, a, 1, DType::I64)?;
    let axis = record::dim(b, def, a, 2, x)?;
    let len = record::shape(def, a, 3)?;
    let step = record::int(def, a, 4)?;
    Ok(smallvec![b.slice_at(x, axis, start, *len.dims().first().unwrap_or(&Dim::Const(0)), step)?])
}
fn pad(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let dtype = b.dtype(x);
    let fill = record::tensor_or_number(b, def, a, 1, dtype)?;
    let axis = record::dim(b, def, a, 2, x)?;
    let count = |i: usize| {
        let n = record::int(def, a, i)?;
        u64::try_from(n).map_err(|_| rules::refuse(def.name(), Kind::Argument, format_args!("size {n} is negative")))
    };
    Ok(smallvec![b.prim(Prim::Pad { axis, before: count(3)?, after: count(4)? }, &[x, fill])?])
}
/// Tensors meet in one dtype; empty tensors of rank 1 are skipped, as PyTorch does.
fn concat(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let all = record::tensors(def, a, 0)?;
    let dtype = all.iter().map(|&v| b.dtype(v)).reduce(DType::promote);
    let Some(dtype) = dtype else { return Err(rules::refuse(def.name(), Kind::Argument, "takes at least one tensor")) };
    let empty = |v: &ValueId| b.ty(*v).shape == Shape::from([0]);
    let mut parts: SmallVec<[ValueId; 4]> = all.iter().copied().filter(|v| !empty(v)).collect();
    if parts.is_empty() {
        parts.push(all[0]);
    }
    let axis = record::dim(b, def, a, 1, parts[0])?;
    check_parts(b, def, &parts, axis)?;
    for v in &mut parts {
        *v = b.cast(*v, dtype)?;
    }
    Ok(smallvec![if parts.len() == 1 { parts[0] } else { b.prim(Prim::Concat { axis }, &parts)? }])
}
fn check_parts(b: &Builder<'_>, def: &OpDef, parts: &[ValueId], axis: usize) -> Result<()> {
    let first = &b.ty(parts[0]).shape;
    if first.rank() == 0 {
        return Err(rules::refuse(def.name(), Kind::Shape, "a tensor of rank 0 has no dim to join along"));
    }
    for &v in parts {
        let s = &b.ty(v).shape;
        if s.rank() != first.rank() || (0..s.rank()).any(|i| i != axis && s.dim(i) != first.dim(i)) {
            let what = format_args!("sizes differ outside dim {axis}: {first} and {s}");
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
    }
    Ok(())
}
fn update_slice(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let (x, update) = (record::tensor(def, a, 0)?, record::tensor(def, a, 1)?);
    let start = record::tensor_or_number(b, def, a, 2, DType::I64)?;
    let axis = record::dim(b, def, a, 3, x)?;
    let step = record::int(def, a, 4)?;
    Ok(smallvec![b.prim(Prim::UpdateSlice { axis, step }, &[x, update, start])?])
}

fn grad_slice(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::Slice { axis, step, .. }) = cx.op.prim() else { return Err(wrong(cx.op, &[])) };
    cx.each(|_| {
        let zeros = b.zeros_like(cx.inputs[0])?;
        b.prim(Prim::UpdateSlice { axis, step }, &[zeros, cx.ct(), cx.inputs[1]])
    })
}
fn grad_update_slice(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::UpdateSlice { axis, step }) = cx.op.prim() else { return Err(wrong(cx.op, &[])) };
    let start = cx.inputs[2];
    cx.each(|i| {
        if i == 0 {
            let zeros = b.zeros_like(cx.inputs[1])?;
            return b.prim(Prim::UpdateSlice { axis, step }, &[cx.ct(), zeros, start]);
        }
        let len = b.ty(cx.inputs[1]).shape.dim(axis);
        b.slice_at(cx.ct(), axis, start, len, step)
    })
}
fn grad_pad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::Pad { axis, before, after }) = cx.op.prim() else { return Err(wrong(cx.op, &[])) };
    let n = b.ty(cx.inputs[0]).shape.dim(axis);
    cx.each(|i| {
        if i == 0 {
            return b.slice(cx.ct(), axis, before as i64, n);
        }
        let head = b.slice(cx.ct(), axis, 0, before as usize)?;
        let tail = b.slice(cx.ct(), axis, before as i64 + n.bound() as i64, after as usize)?;
        let all: SmallVec<[usize; 4]> = (0..b.rank(head)).collect();
        let (head, tail) = (b.reduce(Fold::Sum, head, &all)?, b.reduce(Fold::Sum, tail, &all)?);
        b.add(head, tail)
    })
}
fn grad_concat(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let Some(&Prim::Concat { axis }) = cx.op.prim() else { return Err(wrong(cx.op, &[])) };
    let mut start = 0;
    let mut out = Grads::new();
    for (&x, &want) in cx.inputs.iter().zip(cx.wants) {
        let len = b.ty(x).shape.dim(axis);
        out.push(if want { Some(b.slice(cx.ct(), axis, start, len)?) } else { None });
        start += len.bound() as i64;
    }
    Ok(out)
}

pub(super) static RESHAPE: OpDef = OpDef {
    sig: "reshape(Tensor self, SymInt[] shape) -> Tensor",
    doc: "The same elements in row-major order under another shape; one size may be -1.",
    record: |b, def, a| reshape(b, def, a),
    infer: infer_reshape,
    grad: Grad::Rule(|b, cx| {
        let shape = b.shape(cx.inputs[0]);
        cx.each(|_| b.reshape(cx.ct(), &shape))
    }),
    samples: &[
        Sample::grad("f32[2,3], [3, 2]", 0),
        Sample::grad("f32[2,6], [3, -1]", 0),
        Sample::exact("i64[6] in 0..9, [1, 6, 1]"),
        Sample::exact("f32[0,3], [3, 0]"),
        Sample::exact("f32[1], []"),
    ],
    refuses: &[
        Refusal::of("f32[2,3], [4, 2]", "reshape: [2, 3] has 6 elements, [4, 2] takes 8"),
        Refusal::of("f32[2,3], [4, -1]", "reshape: [2, 3] does not divide into [4, -1]"),
        Refusal::of("f32[2,3], [-1, -1]", "reshape: only one size may be -1"),
        Refusal::of("f32[2,3], [-2, 3]", "reshape: size -2 is negative"),
    ],
    ..BLIND
};
pub(super) static PERMUTE: OpDef = OpDef {
    sig: "permute(Tensor self, int[] dims) -> Tensor",
    doc: "Dims reordered: dim `i` of the result is dim `dims[i]` of the operand.",
    record: |b, def, a| permute(b, def, a),
    infer: infer_permute,
    grad: Grad::Rule(|b, cx| {
        let Some(Prim::Permute(order)) = cx.op.prim() else { return Err(wrong(cx.op, &[])) };
        cx.each(|_| b.permute(cx.ct(), &inverse(order)))
    }),
    samples: &[
        Sample::grad("f32[2,3,4], [2, 0, 1]", 0),
        Sample::grad("f32[2,3], [-1, 0]", 0),
        Sample::exact("bool[2,0], [1, 0]"),
        Sample::exact("f32[], []"),
    ],
    refuses: &[
        Refusal::of("f32[2,3], [0, 0]", "permute: a dim is named twice in [0, 0]"),
        Refusal::of("f32[2,3], [0]", "permute: 1 dims for a tensor of rank 2"),
        Refusal::of("f32[2,3], [0, 2]", "permute: dim 2 is outside -2..2 for a tensor of rank 2"),
    ],
    ..BLIND
};
pub(super) static EXPAND: OpDef = OpDef {
    sig: "expand(Tensor self, SymInt[] size, *, bool implicit=False) -> Tensor",
    doc: "Broadcast to a size: missing dims and dims of size 1 repeat; -1 keeps a dim.",
    record: |b, def, a| expand(b, def, a),
    infer: infer_expand,
    grad: Grad::Rule(|b, cx| {
        let shape = b.shape(cx.inputs[0]);
        cx.each(|_| b.sum_to(cx.ct(), &shape))
    }),
    samples: &[
        Sample::grad("f32[3], [2, 3]", 0),
        Sample::grad("f32[2,1,3], [4, -1, 5, 3]", 0),
        Sample::exact("f32[1], [0]"),
        Sample::exact("i64[] in 0..9, [2]"),
    ],
    refuses: &[
        Refusal::of("f32[3], [2, 4]", "expand: [3] does not broadcast to [2, 4]"),
        Refusal::of("f32[3], [-1, 3]", "expand: [3] does not broadcast to [-1, 3]"),
    ],
    ..BLIND
};
pub(super) static SLICE: OpDef = OpDef {
    sig: "slice_at(Tensor self, Tensor start, int dim, SymInt len, int step) -> Tensor",
    doc: "`len` elements along `dim`, `step` apart, from a start that is clamped so that they lie inside.",
    runtime: &["start"],
    record: |b, def, a| slice(b, def, a),
    infer: infer_slice,
    grad: Grad::Rule(grad_slice),
    saves: Saves::Only { inputs: &[1], outputs: &[] },
    samples: &[
        Sample::grad("f32[2,5], 1, 1, 2, 1", 0),
        Sample::grad("f32[7], 6, 0, 3, -2", 0),
        Sample::grad("f32[7], 1, 0, 3, 2", 0),
        Sample::exact("i64[4] in 0..9, 9, 0, 2, 1"),
        Sample::exact("i64[4] in 0..9, -9, 0, 2, -1"),
        Sample::exact("f32[4], 4, 0, 0, 1"),
        Sample::exact("f32[4], i64[] in 0..4, 0, 2, 1"),
    ],
    refuses: &[Refusal::of("f32[4], 0.5, 2, 1, 1", "slice_at: dim 2 is outside -1..1 for a tensor of rank 1")],
    ..MOVEMENT
};
pub(super) static PAD: OpDef = OpDef {
    sig: "pad_axis(Tensor self, Tensor fill, int dim, int before, int after) -> Tensor",
    doc: "Elements of one value before and after along `dim`.",
    runtime: &["fill"],
    record: |b, def, a| pad(b, def, a),
    infer: infer_pad,
    grad: Grad::Rule(grad_pad),
    samples: &[
        Sample::grad("f32[2,3], f32[], 1, 1, 2", 0),
        Sample::grad("f32[2,3], 0.5, 0, 0, 1", 0),
        Sample::exact("i64[0] in 0..9, 7, 0, 1, 1"),
    ],
    refuses: &[Refusal::of("f32[2], 0.5, 0, -1, 0", "pad_axis: size -1 is negative")],
    ..BLIND
};
pub(super) static CONCAT: OpDef = OpDef {
    sig: "cat(Tensor[] tensors, int dim=0) -> Tensor",
    doc: "Tensors one after the other along `dim`; they meet in one dtype, and empty tensors of rank 1 are skipped.",
    record: |b, def, a| concat(b, def, a),
    infer: infer_concat,
    grad: Grad::Rule(grad_concat),
    samples: &[
        Sample::grad("[f32[2,3], f32[1,3]], 0", 0),
        Sample::grad("[f32[2,3], f32[2,1], f32[2,0]], -1", 0),
        Sample::exact("[i64[2] in 0..9, i32[1] in 0..9], 0"),
        Sample::exact("[f32[0], f32[2,2]], 1"),
    ],
    refuses: &[
        Refusal::of("[f32[2,3], f32[2,4]], 0", "cat: sizes differ outside dim 0: [2, 3] and [2, 4]"),
        Refusal::of("[f32[], f32[]], 0", "cat: a tensor of rank 0 has no dim to join along"),
        Refusal::of("[], 0", "cat: takes at least one tensor"),
    ],
    ..BLIND
};
pub(super) static UPDATE_SLICE: OpDef = OpDef {
    sig: "update_slice(Tensor self, Tensor update, Tensor start, int dim, int step) -> Tensor",
    doc: "`self` with `update` written over it along `dim`, elements `step` apart from a start that is clamped.",
    runtime: &["start"],
    record: |b, def, a| update_slice(b, def, a),
    infer: infer_update_slice,
    grad: Grad::Rule(grad_update_slice),
    saves: Saves::Only { inputs: &[2], outputs: &[] },
    samples: &[
        Sample::grad("f32[2,5], f32[2,2], 1, 1, 1", 0),
        Sample::grad("f32[7], f32[3], 6, 0, -2", 0),
        Sample::exact("i64[4] in 0..9, i64[2] in 0..9, 9, 0, 1"),
        Sample::exact("f32[4], f32[0], 1, 0, 1"),
    ],
    ..MOVEMENT
};
