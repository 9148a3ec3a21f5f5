//! Scaled dot-product attention and its gradient.
use crate::args::Args;
use crate::precision::widen;
use crate::spelling::SPELLING;
use rtx_core::{DType, Dim, Fold, Kind, Result, Shape};
use rtx_ir::{
    Amp, Arg, Attr, Attrs, Body, Bound, Builder, Grad, GradCx, Grads, Numerics, Op, OpDef, Outs, Prim, Refusal, Sample,
    Saves, Stability, Type, Types, ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[&SCALED_DOT_PRODUCT_ATTENTION, &FLASH_ATTENTION_FOR_CPU, &ATTENTION, &ATTENTION_BACKWARD];

/// Attention as users call it.
pub static SCALED_DOT_PRODUCT_ATTENTION: OpDef = OpDef {
    sig: "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, \
          float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False, \
          Tensor? kv_len=None, Tensor? random_key=None, Tensor? random_ordinal=None) -> Tensor",
    amp: Amp::Low,
    doc: "softmax(scale · query keyᵀ + mask) · value over the last two dims; a bool mask says what takes part; causal: \
          row t sees keys up to t. kv_len is the number of keys that exist, read at run time; then causal row t of T \
          sees keys up to kv_len - T + t. A row that sees nothing is 0. Dropout falls on the softmax; key and ordinal of its \
          bits stand at the end, and a caller by name gets them drawn. Halves are computed in f32.",
    record: |b, def, args| Ok(record_attention(b, def, args)?.into_iter().take(1).collect()),
    samples: &[
        Sample::grad("f32[2,2,3,4] in -1..1, f32[2,2,3,4] in -1..1, f32[2,2,3,4] in -1..1, none, 0.0, true", 64),
        Sample::grad("f32[2,2,4] in -1..1, f32[2,5,4] in -1..1, f32[2,5,3] in -1..1", 64),
        Sample::grad("f32[2,2,4] in -1..1, f32[2,3,4] in -1..1, f32[2,3,4] in -1..1, bool[2,3] = 1 0 1 0 1 1", 64),
        Sample::grad("f32[2,2,4] in -1..1, f32[2,3,4] in -1..1, f32[2,3,4] in -1..1, f32[2,1,3] in -1..1", 64),
        Sample::grad(
            "f32[1,4] in -1..1, f32[6,4] in -1..1, f32[6,4] in -1..1, none, 0.0, true, 0.5, false, i64[] = 4",
            64,
        ),
        Sample::grad(
            "f32[2,2,4] in -1..1, f32[2,5,4] in -1..1, f32[2,5,3] in -1..1, none, 0.25, false, none, false, none, \
             i64[] = 3, i64[] = 0",
            64,
        ),
    ],
    refuses: &[
        Refusal::of(
            "f32[2,3,4], f32[2,5,6], f32[2,5,6]",
            "scaled_dot_product_attention: query and key differ in their last size: query [2, 3, 4], key [2, 5, 6], \
             value [2, 5, 6]",
        ),
        Refusal::of(
            "f32[2,3,4], f32[2,5,4], f32[2,6,4]",
            "scaled_dot_product_attention: key and value differ in length: query [2, 3, 4], key [2, 5, 4], \
             value [2, 6, 4]",
        ),
        Refusal::of(
            "f32[3,4], f32[5,4], f32[5,4], none, 0.1",
            "scaled_dot_product_attention: needs the key and the ordinal of a random stream",
        ),
    ],
    stability: Stability::Stable,
    ..SPELLING
};

/// Attention with its second result, as PyTorch calls it.
pub static FLASH_ATTENTION_FOR_CPU: OpDef = OpDef {
    sig: "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float dropout_p=0.0, \
          bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor logsumexp)",
    doc: "As attention; no gradient flows through the second result.",
    record: |b, _, args| {
        let order = [0, 1, 2, 5, 3, 4, 6].map(|i| args.get(i).clone());
        let outs = b.call(&ATTENTION, order)?;
        Ok(smallvec![outs[0], b.call(&crate::likeness::DETACH, [Arg::Value(outs[1])])?[0]])
    },
    amp: Amp::Low,
    samples: &[Sample::of("f32[1,2,3,4] in -1..1, f32[1,2,5,4] in -1..1, f32[1,2,5,4] in -1..1, 0.0, true", 64)],
    ..SPELLING
};

/// The node of attention. Attributes: is_causal, scale, has mask, has kv_len. Operands: query, key, value of equal
/// leading dims, mask of the shape of the scores, kv_len.
pub static ATTENTION: OpDef = OpDef {
    sig: "attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, \
          bool is_causal=False, *, float? scale=None, bool enable_gqa=False, Tensor? kv_len=None) -> (Tensor out, Tensor lse)",
    doc: "As scaled_dot_product_attention; the second result is log Σ exp of each row's scores, which the gradient reads.",
    record: record_attention,
    infer: infer_attention,
    body: Body::Composite(attention_body),
    grad: Grad::Rule(attention_grad),
    saves: Saves::Only { inputs: &[0, 1, 2, 3, 4], outputs: &[0, 1] },
    amp: Amp::Low,
    cost: 200,
    numerics: Numerics::Claimed,
    samples: &[Sample::grad("f32[2,3,4] in -1..1, f32[2,5,4] in -1..1, f32[2,5,3] in -1..1", 64)],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};

fn record_attention(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let args = Args::new(def, args);
    let (q, mut k, mut v) = (args.tensor(0)?, args.tensor(1)?, args.tensor(2)?);
    let dropout = args.float_or(4, 0.0)?;
    let random = match (dropout, args.optional_tensor(9)?, args.optional_tensor(10)?) {
        (0.0, ..) => None,
        (_, Some(key), Some(ordinal)) => Some([key, ordinal]),
        _ => return Err(crate::dropout::undrawn(def.name())),
    };
    if args.flag(7)? {
        (k, v) = (repeat_heads(b, def, q, k)?, repeat_heads(b, def, q, v)?);
    }
    check_operands(def, b.ty(q), b.ty(k), b.ty(v))?;
    let lead = lead_shape(def, b, &[q, k, v])?;
    let inputs = [q, k, v].map(|x| stretch(b, &lead, x));
    let [q, k, v] = inputs;
    let (q, k, v) = (q?, k?, v?);
    let mask = args.optional_tensor(3)?.map(|m| scores_mask(b, def, m, q, k)).transpose()?;
    let kv_len = args.optional_tensor(8)?;
    let scale = args.float_or(6, 1.0 / (b.shape(q).dim(b.rank(q) - 1).bound() as f64).sqrt())?;
    let attrs = smallvec![
        Attr::Bool(args.flag(5)?),
        Attr::Float(scale),
        Attr::Bool(mask.is_some()),
        Attr::Bool(kv_len.is_some()),
    ];
    let inputs: SmallVec<[ValueId; 5]> = [Some(q), Some(k), Some(v), mask, kv_len].into_iter().flatten().collect();
    match random {
        None => b.composite(&ATTENTION, attrs, &inputs),
        Some(random) => with_dropout(b, &attrs, &inputs, dropout, random),
    }
}

/// Attention with dropout of its weights: no node of its own, as no kernel is claimed for it.
fn with_dropout(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId], p: f64, random: [ValueId; 2]) -> Result<Outs> {
    let (mut o, dtype) = (Operands::of(attrs, v), b.dtype(v[0]));
    (o.q, o.k, o.v) = (widen(b, o.q)?, widen(b, o.k)?, widen(b, o.v)?);
    let s = scores(b, attrs, &o)?;
    let (weights, lse) = weights_of(b, s)?;
    let call = [Arg::Value(weights), Arg::Value(random[0]), Arg::Value(random[1]), Arg::Scalar(p.into())];
    let kept = b.call(&crate::random::RANDOM_DROPOUT, call)?[0];
    let last = b.rank(s) - 1;
    let out = batched_dot(b, kept, o.v, last, last - 1)?;
    Ok(smallvec![b.cast(out, dtype)?, lse])
}

fn check_operands(def: &OpDef, q: &Type, k: &Type, v: &Type) -> Result<()> {
    let refuse = |kind, what: &str| {
        let shapes = format!("query {}, key {}, value {}", q.shape, k.shape, v.shape);
        Err(rules::refuse(def.name(), kind, format_args!("{what}: {shapes}")))
    };
    rules::check_float(def.name(), q)?;
    if q.dtype != k.dtype || q.dtype != v.dtype {
        return refuse(Kind::DType, &format!("dtypes differ: {}, {}, {}", q.dtype, k.dtype, v.dtype));
    }
    if q.rank() < 2 || k.rank() < 2 || v.rank() < 2 {
        return refuse(Kind::Shape, "needs rank 2 or more");
    }
    let last = |t: &Type, i: usize| t.shape.dim(t.rank() - i);
    if last(q, 1) != last(k, 1) {
        return refuse(Kind::Shape, "query and key differ in their last size");
    }
    if last(k, 2) != last(v, 2) {
        return refuse(Kind::Shape, "key and value differ in length");
    }
    Ok(())
}

/// Leading dims of all operands, broadcast.
fn lead_shape(def: &OpDef, b: &Builder<'_>, operands: &[ValueId]) -> Result<Shape> {
    let leads: Vec<Shape> = operands.iter().map(|&x| b.shape(x).iter().take(b.rank(x) - 2).collect()).collect();
    rules::broadcast_for(def.name(), &leads.iter().collect::<Vec<_>>())
}
fn stretch(b: &mut Builder<'_>, lead: &Shape, x: ValueId) -> Result<ValueId> {
    let shape = b.shape(x);
    let to = lead.iter().chain(shape.iter().skip(shape.rank() - 2)).collect();
    b.expand(x, &to)
}

/// Each head of keys or values for as many heads of queries.
fn repeat_heads(b: &mut Builder<'_>, def: &OpDef, q: ValueId, x: ValueId) -> Result<ValueId> {
    let (heads, shape, rank) = (b.shape(q), b.shape(x), b.rank(x));
    let fits = heads.rank() >= 3 && rank >= 3;
    let (many, few) = if fits { (heads.dim(heads.rank() - 3).bound(), shape.dim(rank - 3).bound()) } else { (1, 0) };
    if few == 0 || many % few != 0 {
        let what = format!("heads of the query are not a multiple of {shape}'s: {heads}");
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    let mut apart = shape.clone();
    apart.insert(rank - 2, 1);
    let mut wide = apart.clone();
    wide.set(rank - 2, many / few);
    let mut to = shape;
    to.set(rank - 3, many);
    let x = b.reshape(x, &apart)?;
    let x = b.expand(x, &wide)?;
    b.reshape(x, &to)
}

/// The mask in the shape of the scores.
fn scores_mask(b: &mut Builder<'_>, def: &OpDef, mask: ValueId, q: ValueId, k: ValueId) -> Result<ValueId> {
    let scores = scores_shape(b, q, k);
    let ty = b.ty(mask).clone();
    let fits = rules::broadcast_shapes(&[&scores, &ty.shape]).is_ok_and(|s| s == scores);
    if !fits || !(ty.dtype == DType::Bool || ty.dtype == b.dtype(q)) {
        let what = format!("the mask is bool or {} and broadcasts to {scores}, got {ty}", b.dtype(q));
        return Err(rules::refuse(def.name(), Kind::Shape, what));
    }
    b.expand(mask, &scores)
}
/// `[lead.., T, S]`.
fn scores_shape(b: &Builder<'_>, q: ValueId, k: ValueId) -> Shape {
    let mut shape = b.shape(q);
    shape.set(shape.rank() - 1, b.shape(k).dim(shape.rank() - 2));
    shape
}

fn infer_attention(op: &Op, inputs: &[&Type]) -> Result<Types> {
    let [q, k, v, ..] = inputs else { return Err(rules::refuse(op.name(), Kind::Argument, "takes query, key, value")) };
    let Some(def) = op.def() else { return Err(rules::refuse(op.name(), Kind::Internal, "not attention")) };
    check_operands(def, q, k, v)?;
    let mut out = (*q).clone();
    out.shape.set(q.rank() - 1, v.shape.dim(v.rank() - 1));
    let lse = Type { dtype: rules::number_dtype(q.dtype), shape: q.shape.iter().take(q.rank() - 1).collect() };
    Ok(smallvec![out, lse])
}

/// Operands by name.
struct Operands {
    q: ValueId,
    k: ValueId,
    v: ValueId,
    mask: Option<ValueId>,
    kv_len: Option<ValueId>,
    /// What follows them.
    rest: SmallVec<[ValueId; 4]>,
}
impl Operands {
    fn of(attrs: &[Attr], v: &[ValueId]) -> Self {
        let mut more = v[3..].iter().copied();
        let mask = if attrs[2].bool() { more.next() } else { None };
        let kv_len = if attrs[3].bool() { more.next() } else { None };
        Self { q: v[0], k: v[1], v: v[2], mask, kv_len, rest: more.collect() }
    }
}

/// `Dot` of rank-n tensors with all leading dims as batch; contracts these dims.
fn batched_dot(b: &mut Builder<'_>, l: ValueId, r: ValueId, left: usize, right: usize) -> Result<ValueId> {
    let batch = (0..b.rank(l) - 2).map(|i| (i, i)).collect();
    b.prim(Prim::Dot { batch, contract: smallvec![(left, right)] }, &[l, r])
}

/// `scale · q kᵀ`, masked with -infinity. Operands in compute precision.
fn scores(b: &mut Builder<'_>, attrs: &[Attr], o: &Operands) -> Result<ValueId> {
    let rank = b.rank(o.q);
    let dot = batched_dot(b, o.q, o.k, rank - 1, rank - 1)?;
    let mut s = b.mul(dot, attrs[1].float())?;
    if let Some(mask) = o.mask {
        s = if b.dtype(mask) == DType::Bool {
            b.select(mask, s, f64::NEG_INFINITY)?
        } else {
            let mask = widen(b, mask)?;
            b.add(s, mask)?
        };
    }
    match visible(b, attrs[0].bool(), o, &b.shape(s))? {
        Some(seen) => b.select(seen, s, f64::NEG_INFINITY),
        None => Ok(s),
    }
}

/// Which keys each row sees, where not all: `[T, S]`.
fn visible(b: &mut Builder<'_>, causal: bool, o: &Operands, scores: &Shape) -> Result<Option<ValueId>> {
    let (t, s) = (scores.dim(scores.rank() - 2), scores.dim(scores.rank() - 1));
    let plane: Shape = [t, s].into_iter().collect();
    let column = |b: &mut Builder<'_>| b.prim(Prim::Iota { shape: plane.clone(), axis: 1 }, &[]);
    let row = |b: &mut Builder<'_>| b.prim(Prim::Iota { shape: plane.clone(), axis: 0 }, &[]);
    let seen = match (causal, o.kv_len) {
        (false, None) => return Ok(None),
        (false, Some(n)) => {
            let column = column(b)?;
            b.lt(column, n)?
        }
        (true, None) => {
            let (column, row) = (column(b)?, row(b)?);
            b.le(column, row)?
        }
        // s <= t + n - T, written as s < t + (n - T + 1).
        (true, Some(n)) => {
            let rows = crate::precision::count(b, DType::I64, &plane, &[0])?;
            let shift = b.sub(n, rows)?;
            let (column, row) = (column(b)?, row(b)?);
            let last = b.add(row, shift)?;
            b.le(column, last)?
        }
    };
    Ok(Some(seen))
}

fn attention_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut o, dtype) = (Operands::of(attrs, v), b.dtype(v[0]));
    (o.q, o.k, o.v) = (widen(b, o.q)?, widen(b, o.k)?, widen(b, o.v)?);
    let s = scores(b, attrs, &o)?;
    let (weights, lse) = weights_of(b, s)?;
    let last = b.rank(s) - 1;
    let out = batched_dot(b, weights, o.v, last, last - 1)?;
    Ok(smallvec![b.cast(out, dtype)?, lse])
}

/// The softmax of each row of scores, and log Σ exp.
fn weights_of(b: &mut Builder<'_>, s: ValueId) -> Result<(ValueId, ValueId)> {
    let last = b.rank(s) - 1;
    let top = b.reduce_keep(Fold::Max, s, &[last])?;
    // A row that sees nothing has the maximum -inf; it is not subtracted, and all its weights are 0.
    let blind = b.eq(top, f64::NEG_INFINITY)?;
    let top = b.select(blind, 0.0, top)?;
    let shifted = b.sub(s, top)?;
    let e = b.exp(shifted)?;
    let sum = b.reduce_keep(Fold::Sum, e, &[last])?;
    let divisor = b.select(blind, 1.0, sum)?;
    let weights = b.div(e, divisor)?;
    let log = b.log(sum)?;
    let lse = b.add(log, top)?;
    let rows = b.shape(lse).iter().take(last).collect();
    Ok((weights, b.reshape(lse, &rows)?))
}

fn attention_grad(b: &mut Builder<'_>, cx: &GradCx<'_>) -> Result<Grads> {
    let attrs = cx.op.attrs();
    let (out, lse) = (cx.outputs[0], cx.outputs[1]);
    let dout = match cx.cotangents[0] {
        Some(d) => d,
        None => b.zeros_like(out)?,
    };
    let mut inputs: SmallVec<[ValueId; 9]> = cx.inputs.into();
    inputs.extend([out, lse, dout]);
    inputs.extend(cx.cotangents[1]);
    let outs = b.composite(&ATTENTION_BACKWARD, attrs.into(), &inputs)?;
    let mut grads: Grads = outs.iter().map(|&v| Some(v)).collect();
    grads.resize(cx.inputs.len(), None);
    if attrs[2].bool() && cx.wants[3] && b.dtype(cx.inputs[3]).is_float() {
        grads[3] = Some(mask_grad(b, attrs, &inputs)?);
    }
    Ok(grads)
}

/// The cotangent of a mask that is added: that of the scores. No kernel is claimed for it, so it costs what the body does.
fn mask_grad(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<ValueId> {
    let mut o = Operands::of(attrs, v);
    (o.q, o.k, o.v) = (widen(b, o.q)?, widen(b, o.k)?, widen(b, o.v)?);
    let (_, ds) = slopes(b, attrs, &o)?;
    b.cast(ds, b.dtype(v[3]))
}

/// Gradients of [`ATTENTION`]; its attributes. Operands: its own, then out, lse, dout and, where
/// something flows in through lse, dlse.
pub static ATTENTION_BACKWARD: OpDef = OpDef {
    sig: "attention_backward(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, Tensor? kv_len, Tensor out, \
          Tensor lse, Tensor grad_out, Tensor? grad_lse, bool is_causal, float scale) -> (Tensor, Tensor, Tensor)",
    doc: "With P = exp(scores - lse), dP = dout valueᵀ and D = Σ dout · out - dlse: dS = P (dP - D), dquery = scale dS key, \
          dkey = scale dSᵀ query, dvalue = Pᵀ dout. Dao et al., arXiv:2205.14135.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (mask, kv_len) = (args.optional_tensor(3)?, args.optional_tensor(4)?);
        let attrs: Attrs = smallvec![
            Attr::Bool(args.flag(9)?),
            Attr::Float(args.float_or(10, 1.0)?),
            Attr::Bool(mask.is_some()),
            Attr::Bool(kv_len.is_some()),
        ];
        let fixed = [args.tensor(0)?, args.tensor(1)?, args.tensor(2)?];
        let results = [args.tensor(5)?, args.tensor(6)?, args.tensor(7)?];
        let inputs: SmallVec<[ValueId; 9]> =
            fixed.into_iter().chain(mask).chain(kv_len).chain(results).chain(args.optional_tensor(8)?).collect();
        b.composite(def, attrs, &inputs)
    },
    infer: |op, inputs| {
        let [q, k, v, ..] = inputs else {
            return Err(rules::refuse(op.name(), Kind::Argument, "takes query, key, value"));
        };
        rules::check_float(op.name(), q)?;
        Ok(smallvec![(*q).clone(), (*k).clone(), (*v).clone()])
    },
    body: Body::Composite(attention_backward_body),
    amp: Amp::Low,
    cost: 500,
    numerics: Numerics::Claimed,
    samples: &[Sample::of(
        "f32[2,3,4] in -1..1, f32[2,3,4] in -1..1, f32[2,3,4] in -1..1, none, none, f32[2,3,4] in -1..1, f32[2,3] in 1..2, \
         f32[2,3,4] in -1..1, none, true, 0.5",
        256,
    )],
    ..OpDef::DEFAULT
};

fn attention_backward_body(b: &mut Builder<'_>, attrs: &[Attr], v: &[ValueId]) -> Result<Outs> {
    let (mut o, dtype) = (Operands::of(attrs, v), b.dtype(v[0]));
    (o.q, o.k, o.v) = (widen(b, o.q)?, widen(b, o.k)?, widen(b, o.v)?);
    let dout = widen(b, o.rest[2])?;
    let (p, ds) = slopes(b, attrs, &o)?;
    let ds = b.mul(ds, attrs[1].float())?;
    let (t, last) = (b.rank(ds) - 2, b.rank(ds) - 1);
    let dq = batched_dot(b, ds, o.k, last, t)?;
    let dk = batched_dot(b, ds, o.q, t, t)?;
    let dv = batched_dot(b, p, dout, t, t)?;
    Ok(smallvec![b.cast(dq, dtype)?, b.cast(dk, dtype)?, b.cast(dv, dtype)?])
}

/// The weights `P` and the cotangent of the masked scores, `P (dP - D)`. Query, key and value in compute precision.
fn slopes(b: &mut Builder<'_>, attrs: &[Attr], o: &Operands) -> Result<(ValueId, ValueId)> {
    let (out, lse, dout) = (widen(b, o.rest[0])?, widen(b, o.rest[1])?, widen(b, o.rest[2])?);
    let s = scores(b, attrs, o)?;
    let last = b.rank(s) - 1;
    let lse = as_column(b, lse)?;
    // A row that saw nothing has lse = -inf and no weights.
    let blind = b.eq(lse, f64::NEG_INFINITY)?;
    let level = b.select(blind, 0.0, lse)?;
    let log = b.sub(s, level)?;
    let p = b.exp(log)?;
    let dp = batched_dot(b, dout, o.v, last, last)?;
    let product = b.mul(dout, out)?;
    let mut delta = b.reduce_keep(Fold::Sum, product, &[last])?;
    if let Some(&dlse) = o.rest.get(3) {
        let dlse = widen(b, dlse)?;
        let dlse = as_column(b, dlse)?;
        delta = b.sub(delta, dlse)?;
    }
    let rest = b.sub(dp, delta)?;
    Ok((p, b.mul(p, rest)?))
}

/// With a last dim of size 1.
fn as_column(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let mut shape = b.shape(x);
    shape.push(Dim::Const(1));
    b.reshape(x, &shape)
}
