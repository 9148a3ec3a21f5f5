//! Programs within programs, groups of devices, kernels from outside, checks: what a plain kernel cannot be.
use crate::{
    Arg, Batch, Bound, Builder, Collective, Effects, Grad, Jvp, Op, OpDef, Outs, Prim, Program, Refusal, Sample, Saves,
    Type, Types, record, rules, text,
};
use rtx_core::{DType, Dim, Fold, Kind, Result};
use smallvec::{SmallVec, smallvec};

impl Collective {
    /// The name in text forms.
    pub const fn name(self) -> &'static str {
        match self {
            Collective::AllReduce(_) => "all_reduce",
            Collective::AllGather { .. } => "all_gather",
            Collective::ReduceScatter { .. } => "reduce_scatter",
            Collective::AllToAll { .. } => "all_to_all",
            Collective::SendRecv { .. } => "send_recv",
        }
    }
}

fn show<'a>(types: impl Iterator<Item = &'a Type>) -> String {
    types.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
fn is_scalar(ty: &Type, dtype: DType) -> bool {
    ty.dtype == dtype && ty.rank() == 0
}

fn infer_loop(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let Some(Prim::Loop(body)) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a loop"));
    };
    let counter = Type::new(DType::I64, []);
    let fits = inputs.first().is_some_and(|t| is_scalar(t, DType::I64))
        && body.input_types().eq(std::iter::once(&counter).chain(inputs.iter().skip(1).copied()))
        && body.output_types().eq(inputs.iter().skip(1).copied());
    if !fits {
        let (takes, gives) = (show(body.input_types()), show(body.output_types()));
        let what = format_args!("a body from ({takes}) to ({gives}) does not fit ({})", rules::show(inputs));
        return Err(rules::refuse(op.name(), Kind::Shape, what));
    }
    Ok(inputs.iter().skip(1).map(|t| (*t).clone()).collect())
}

fn infer_if(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let Some(Prim::If { then, otherwise }) = op.prim() else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a branch"));
    };
    let takes = |p: &Program| p.input_types().eq(inputs.iter().skip(1).copied());
    let fits = inputs.first().is_some_and(|t| is_scalar(t, DType::Bool))
        && takes(then)
        && takes(otherwise)
        && then.output_types().eq(otherwise.output_types());
    if !fits {
        let side = |p: &Program| format!("({}) to ({})", show(p.input_types()), show(p.output_types()));
        let what = format_args!(
            "branches from {} and from {} do not fit ({})",
            side(then),
            side(otherwise),
            rules::show(inputs)
        );
        return Err(rules::refuse(op.name(), Kind::Shape, what));
    }
    Ok(then.output_types().cloned().collect())
}

fn infer_collective(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 1)?;
    let (Some(&Prim::Collective { kind, members }), x) = (op.prim(), inputs[0]) else {
        return Err(rules::refuse(op.name(), Kind::Internal, "not a collective"));
    };
    let wrong = |what: &str| rules::refuse(kind.name(), Kind::Shape, format_args!("{what}, got {x}"));
    if members == 0 {
        return Err(rules::refuse(kind.name(), Kind::Argument, "a group has members"));
    }
    let mut shape = x.shape.clone();
    let (axis, split) = match kind {
        Collective::AllReduce(_) | Collective::SendRecv { .. } => return Ok(smallvec![x.clone()]),
        Collective::AllGather { axis } => (axis, false),
        Collective::ReduceScatter { axis, .. } | Collective::AllToAll { axis } => (axis, true),
    };
    if axis >= x.rank() {
        return Err(wrong(&format!("there is no dim {axis}")));
    }
    let Dim::Const(n) = x.shape.dim(axis) else { return Err(wrong("a symbolic size is not split among members")) };
    if split && n % u64::from(members) != 0 {
        return Err(wrong(&format!("dim {axis} does not split among {members} members")));
    }
    match kind {
        Collective::AllGather { .. } => {
            let all = n.checked_mul(members.into()).ok_or_else(|| wrong("too large"))?;
            shape.set(axis, Dim::Const(all));
        }
        Collective::ReduceScatter { .. } => shape.set(axis, Dim::Const(n / u64::from(members))),
        Collective::AllReduce(_) | Collective::AllToAll { .. } | Collective::SendRecv { .. } => {}
    }
    Ok(smallvec![Type { dtype: x.dtype, shape }])
}

fn infer_custom(op: &Op, _: &[&Type]) -> Result<Types> {
    match op.prim() {
        Some(Prim::CustomCall { results, .. }) if !results.is_empty() => Ok(results.clone()),
        _ => Err(rules::refuse(op.name(), Kind::Argument, "makes at least one tensor")),
    }
}

fn infer_check(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 2)?;
    if inputs[1].dtype != DType::Bool {
        let what = format_args!("the condition is a bool tensor, got {}", inputs[1]);
        return Err(rules::refuse(op.name(), Kind::DType, what));
    }
    Ok(smallvec![inputs[0].clone()])
}

/// Argument `i` as the text of a program of primitives.
fn program(def: &OpDef, a: &Bound, i: usize) -> Result<Program> {
    text::parse_program(record::word(def, a, i)?, &|_| None)
        .map_err(|what| rules::refuse(def.name(), Kind::Argument, what))
}
fn operands(def: &OpDef, b: &mut Builder<'_>, a: &Bound, first: DType) -> Result<SmallVec<[crate::ValueId; 4]>> {
    let mut all = smallvec![record::tensor_or_number(b, def, a, 0, first)?];
    all.extend_from_slice(record::tensors(def, a, 1)?);
    Ok(all)
}
fn collective(b: &mut Builder<'_>, def: &OpDef, a: &Bound) -> Result<Outs> {
    let x = record::tensor(def, a, 0)?;
    let (word, members) = (record::word(def, a, 1)?, record::int(def, a, 2)?);
    let members =
        u32::try_from(members).map_err(|_| rules::refuse(def.name(), Kind::Argument, "a group has members"))?;
    let number = if let Arg::None = a.get(3) { 0 } else { record::int(def, a, 3)? };
    let fold = match a.get(4) {
        Arg::None => Fold::Sum,
        _ => {
            let word = record::word(def, a, 4)?;
            Fold::parse(word).ok_or_else(|| {
                let what = format_args!("reduce takes sum, prod, max or min, got {word:?}");
                rules::refuse(def.name(), Kind::Argument, what)
            })?
        }
    };
    let axis = || rules::check_dim(def.name(), number, b.rank(x));
    let kind = match word {
        "all_reduce" => Collective::AllReduce(fold),
        "all_gather" => Collective::AllGather { axis: axis()? },
        "reduce_scatter" => Collective::ReduceScatter { fold, axis: axis()? },
        "all_to_all" => Collective::AllToAll { axis: axis()? },
        "send_recv" => Collective::SendRecv { shift: number },
        other => {
            return Err(rules::refuse(def.name(), Kind::Argument, format_args!("no collective is called {other:?}")));
        }
    };
    b.apply(Op::Prim(Prim::Collective { kind, members }), &[x])
}
/// What every member does backward: sums are handed to all, parts go back to where they came from.
fn grad_collective(b: &mut Builder<'_>, cx: &crate::GradCx<'_>) -> Result<crate::Grads> {
    let Some(&Prim::Collective { kind, members }) = cx.op.prim() else {
        return Err(rules::refuse(cx.op.name(), Kind::Internal, "not a collective"));
    };
    let back = match kind {
        Collective::AllReduce(Fold::Sum) => Collective::AllReduce(Fold::Sum),
        Collective::AllGather { axis } => Collective::ReduceScatter { fold: Fold::Sum, axis },
        Collective::ReduceScatter { fold: Fold::Sum, axis } => Collective::AllGather { axis },
        Collective::AllToAll { axis } => Collective::AllToAll { axis },
        Collective::SendRecv { shift } => Collective::SendRecv { shift: -shift },
        Collective::AllReduce(fold) | Collective::ReduceScatter { fold, .. } => {
            let what = format_args!("has no derivative for {}", fold.name());
            return Err(rules::refuse(kind.name(), Kind::Unsupported, what));
        }
    };
    cx.each(|_| b.prim(Prim::Collective { kind: back, members }, &[cx.ct()]))
}
/// A derivative that is planned and not there.
fn no_derivative(_: &mut Builder<'_>, cx: &crate::GradCx<'_>) -> Result<crate::Grads> {
    Err(rules::refuse(cx.op.name(), Kind::Unsupported, "has no derivative here"))
}

const CONTROL: OpDef = OpDef {
    grad: Grad::Rule(no_derivative),
    saves: Saves::NONE,
    jvp: Jvp::None,
    batch: Batch::Refused,
    ..OpDef::DEFAULT
};

pub(super) static LOOP: OpDef = OpDef {
    sig: "loop(Scalar count, Tensor[] state, str body) -> Tensor[]",
    doc: "The state after `count` rounds of a body, which takes the round and the state. Planned: kernels, derivatives.",
    runtime: &["count"],
    record: |b, def, a| {
        let body = program(def, a, 2)?;
        let operands = operands(def, b, a, DType::I64)?;
        b.apply(Op::Prim(Prim::Loop(body)), &operands)
    },
    infer: infer_loop,
    samples: &[
        Sample::exact("3, [f32[2]], \"(%0: i64 [] = input; %1: f32 [2] = input; %2: f32 [2] = add %1 %1; return %2)\""),
        Sample::exact(
            "0, [i64[2] in 0..9], \"(%0: i64 [] = input; %1: i64 [2] = input; %2: i64 [2] = expand %0; return %2)\"",
        ),
    ],
    refuses: &[Refusal::of(
        "3, [f32[2]], \"(%0: i64 [] = input; return %0)\"",
        "loop: a body from (i64 []) to (i64 []) does not fit (i64 [], f32 [2])",
    )],
    ..CONTROL
};
pub(super) static IF: OpDef = OpDef {
    sig: "if(Tensor condition, Tensor[] operands, str then, str otherwise) -> Tensor[]",
    doc: "One of two programs, by a condition of rank 0. Planned: kernels, derivatives.",
    record: |b, def, a| {
        let (then, otherwise) = (program(def, a, 2)?, program(def, a, 3)?);
        let operands = operands(def, b, a, DType::Bool)?;
        b.apply(Op::Prim(Prim::If { then, otherwise }), &operands)
    },
    infer: infer_if,
    samples: &[Sample::exact(
        "bool[], [f32[2]], \"(%0: f32 [2] = input; return %0)\", \"(%0: f32 [2] = input; %1: f32 [2] = neg %0; return %1)\"",
    )],
    refuses: &[Refusal::of(
        "bool[], [f32[2]], \"(%0: f32 [2] = input; return %0)\", \"(%0: f32 [2] = input; %1: i64 [2] = cast %0; return %1)\"",
        "if: branches from (f32 [2]) to (f32 [2]) and from (f32 [2]) to (i64 [2]) do not fit (bool [], f32 [2])",
    )],
    ..CONTROL
};
pub(super) static COLLECTIVE: OpDef = OpDef {
    sig: "collective(Tensor self, str kind, int members, int dim=0, str? reduce=None) -> Tensor",
    doc: "What every member of a group does together: all_reduce, all_gather, reduce_scatter, all_to_all, or send_recv \
          `dim` places around the ring. Planned: kernels.",
    record: |b, def, a| collective(b, def, a),
    infer: infer_collective,
    grad: Grad::Rule(grad_collective),
    effects: Effects::Ordered,
    samples: &[
        Sample::grad("f32[2,3], \"all_reduce\", 1", 0),
        Sample::grad("f32[2,3], \"all_gather\", 1, 1", 0),
        Sample::grad("f32[2,3], \"reduce_scatter\", 1, 0", 0),
        Sample::grad("f32[2,3], \"all_to_all\", 1, 0", 0),
        Sample::grad("f32[2,3], \"send_recv\", 1, 1", 0),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3], \"reduce_scatter\", 2, 1",
            "reduce_scatter: dim 1 does not split among 2 members, got f32 [2, 3]",
        ),
        Refusal::of("f32[2], \"gossip\", 2", "collective: no collective is called \"gossip\""),
    ],
    ..CONTROL
};
pub(super) static CUSTOM_CALL: OpDef = OpDef {
    sig: "custom_call(Tensor[] operands, str name, str results) -> Tensor[]",
    doc: "A kernel from outside, by name, with results of given types (`f32 [2]; i64 []`); `identity` hands its operands \
          on. Planned: kernels.",
    record: |b, def, a| {
        let results = text::parse_types(record::word(def, a, 2)?)
            .map_err(|what| rules::refuse(def.name(), Kind::Argument, what))?;
        let name = record::word(def, a, 1)?.into();
        b.apply(Op::Prim(Prim::CustomCall { name, results }), record::tensors(def, a, 0)?)
    },
    infer: infer_custom,
    effects: Effects::Ordered,
    samples: &[Sample::exact("[f32[2], i64[] in 0..9], \"identity\", \"f32 [2]; i64 []\"")],
    refuses: &[
        Refusal::of("[f32[2]], \"f\", \"f33 [2]\"", "custom_call: \"f33 [2]\" is no type"),
        Refusal::of("[f32[2]], \"f\", \"\"", "custom_call: makes at least one tensor"),
    ],
    ..CONTROL
};
pub(super) static CHECK: OpDef = OpDef {
    sig: "check(Tensor self, Tensor condition, str message) -> Tensor",
    doc: "`self`, if every element of a bool condition holds; otherwise an error with a sentence, at the next read.",
    record: |b, def, a| {
        let operands = [record::tensor(def, a, 0)?, record::tensor(def, a, 1)?];
        b.apply(Op::Prim(Prim::Check(record::word(def, a, 2)?.into())), &operands)
    },
    infer: infer_check,
    grad: Grad::Rule(|_, cx| cx.each(|_| Ok(cx.ct()))),
    effects: Effects::Ordered,
    jvp: Jvp::FromGrad,
    samples: &[Sample::grad("f32[2,3], bool[2] = true true, \"all is well\"", 0)],
    refuses: &[Refusal::of("f32[2], f32[2], \"no\"", "check: the condition is a bool tensor, got f32 [2]")],
    ..CONTROL
};
