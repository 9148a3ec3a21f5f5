//! The dropout family as PyTorch calls it: key and ordinal of the random bits stand at the end, and a caller by name gets
//! them drawn.
use crate::args::Args;
use crate::precision::widen;
use crate::random::{RANDOM_DROPOUT, bits, threshold};
use crate::spelling::SPELLING;
use rtx_core::{DType, Kind, Result, Shape};
use rtx_ir::{
    Arg, Attr, Attrs, Body, Bound, Builder, Grad, Op, OpDef, Outs, Refusal, Sample, Saves, Stability, Type, Types,
    ValueId, rules,
};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[
    &DROPOUT,
    &FEATURE_DROPOUT,
    &DROPOUT1D,
    &DROPOUT2D,
    &DROPOUT3D,
    &ALPHA_DROPOUT,
    &FEATURE_ALPHA_DROPOUT,
    &NATIVE_DROPOUT,
    &NATIVE_DROPOUT_BACKWARD,
    &RANDOM_FEATURE_DROPOUT,
    &RANDOM_ALPHA_DROPOUT,
];

const CALL: OpDef = OpDef { stability: Stability::Stable, ..SPELLING };

/// What a call says, where it drops something.
struct Draw {
    x: ValueId,
    p: f64,
    key: ValueId,
    ordinal: ValueId,
}

/// `(input, p, train, inplace, training, key, ordinal)`; nothing where the input comes back as it is.
fn read(b: &Builder<'_>, args: &Args<'_>, train: bool) -> Result<(ValueId, Option<Draw>)> {
    let (x, p) = (args.tensor(0)?, args.float_or(1, 0.5)?);
    rules::check_float(args.op(), b.ty(x))?;
    if !(0.0..=1.0).contains(&p) {
        return Err(rules::refuse(args.op(), Kind::Argument, format_args!("p is a probability, got {p}")));
    }
    let said = |i: usize| if *args.get(i) == Arg::None { Ok(None) } else { args.flag(i).map(Some) };
    let train = said(4)?.or(said(2)?).unwrap_or(train);
    if !train || p == 0.0 {
        return Ok((x, None));
    }
    match (args.optional_tensor(5)?, args.optional_tensor(6)?) {
        (Some(key), Some(ordinal)) => Ok((x, Some(Draw { x, p, key, ordinal }))),
        _ => Err(undrawn(args.op())),
    }
}
/// Random bits are asked for without saying which.
pub(crate) fn undrawn(op: &str) -> rtx_core::Error {
    rules::refuse(op, Kind::Argument, "needs the key and the ordinal of a random stream")
}

fn record(
    b: &mut Builder<'_>,
    def: &'static OpDef,
    args: &Bound,
    train: bool,
    drop: impl FnOnce(&mut Builder<'_>, Draw) -> Result<Outs>,
) -> Result<Outs> {
    match read(b, &Args::new(def, args), train)? {
        (x, None) => Ok(smallvec![x]),
        (_, Some(draw)) => drop(b, draw),
    }
}
fn elements(b: &mut Builder<'_>, d: Draw) -> Result<Outs> {
    b.composite(&RANDOM_DROPOUT, smallvec![Attr::Float(d.p)], &[d.x, d.key, d.ordinal])
}
fn features(b: &mut Builder<'_>, d: Draw) -> Result<Outs> {
    check_features("feature_dropout", b.ty(d.x))?;
    b.composite(&RANDOM_FEATURE_DROPOUT, smallvec![Attr::Float(d.p)], &[d.x, d.key, d.ordinal])
}
/// As [`features`], where a tensor of `rank` dims lacks the batch.
fn features_of(b: &mut Builder<'_>, mut d: Draw, rank: usize) -> Result<Outs> {
    if b.rank(d.x) != rank {
        return features(b, d);
    }
    let shape = b.shape(d.x);
    let mut batched = shape.clone();
    batched.insert(0, 1);
    d.x = b.reshape(d.x, &batched)?;
    let y = features(b, d)?[0];
    Ok(smallvec![b.reshape(y, &shape)?])
}

/// Dropout.
pub static DROPOUT: OpDef = OpDef {
    sig: "dropout(Tensor input, float p=0.5, bool train=True, bool inplace=False, bool? training=None, *, \
          Tensor? key=None, Tensor? ordinal=None) -> Tensor",
    doc: "Elements set to 0 with probability p, the others scaled by 1 / (1 - p); as it is without train (`training` in \
          torch.nn.functional). `inplace` changes nothing here.",
    record: |b, def, args| record(b, def, args, true, elements),
    samples: &[
        Sample::grad("f32[4,5] in -2..2, 0.25, true, false, none, i64[] = 3, i64[] = 0", 4),
        Sample::exact("f32[4,5] in -2..2, 0.25, false"),
        Sample::exact("f32[4,5] in -2..2, 1.0, true, false, none, i64[] = 3, i64[] = 0"),
    ],
    refuses: &[
        Refusal::of("f32[2], 1.5", "dropout: p is a probability, got 1.5"),
        Refusal::of("f32[2], 0.5", "dropout: needs the key and the ordinal of a random stream"),
    ],
    ..CALL
};
/// Dropout of whole channels.
pub static FEATURE_DROPOUT: OpDef = OpDef {
    sig: "feature_dropout(Tensor input, float p=0.5, bool train=True, bool inplace=False, bool? training=None, *, \
          Tensor? key=None, Tensor? ordinal=None) -> Tensor",
    doc: "dropout, where what shares its first two indices is dropped or kept together.",
    record: |b, def, args| record(b, def, args, true, features),
    samples: &[Sample::grad("f32[2,3,4] in -2..2, 0.25, true, false, none, i64[] = 3, i64[] = 0", 4)],
    ..CALL
};
/// Dropout of channels of signals.
pub static DROPOUT1D: OpDef = OpDef {
    sig: "dropout1d(Tensor input, float p=0.5, bool training=True, bool inplace=False, bool? train=None, *, \
          Tensor? key=None, Tensor? ordinal=None) -> Tensor",
    doc: "Dropout of whole channels of [N, C, L] or [C, L] (Tompson et al., arXiv:1411.4280).",
    record: |b, def, args| record(b, def, args, true, |b, d| features_of(b, d, 2)),
    samples: &[
        Sample::grad("f32[2,3,4] in -2..2, 0.25, true, false, none, i64[] = 3, i64[] = 0", 4),
        Sample::grad("f32[3,4] in -2..2, 0.25, true, false, none, i64[] = 3, i64[] = 0", 4),
    ],
    ..CALL
};
/// Dropout of channels of images.
pub static DROPOUT2D: OpDef = OpDef {
    sig: "dropout2d(Tensor input, float p=0.5, bool training=True, bool inplace=False, bool? train=None, *, \
          Tensor? key=None, Tensor? ordinal=None) -> Tensor",
    doc: "Dropout of whole channels of [N, C, H, W]; of three dims PyTorch takes [N, C, L], and so does this.",
    record: |b, def, args| record(b, def, args, true, features),
    samples: &[Sample::grad("f32[2,3,2,2] in -2..2, 0.25, true, false, none, i64[] = 3, i64[] = 0", 4)],
    ..CALL
};
/// Dropout of channels of volumes.
pub static DROPOUT3D: OpDef = OpDef {
    sig: "dropout3d(Tensor input, float p=0.5, bool training=True, bool inplace=False, bool? train=None, *, \
          Tensor? key=None, Tensor? ordinal=None) -> Tensor",
    doc: "Dropout of whole channels of [N, C, D, H, W] or [C, D, H, W].",
    record: |b, def, args| record(b, def, args, true, |b, d| features_of(b, d, 4)),
    samples: &[
        Sample::grad("f32[2,3,1,2,2] in -2..2, 0.25, true, false, none, i64[] = 3, i64[] = 0", 4),
        Sample::grad("f32[3,1,2,2] in -2..2, 0.25, true, false, none, i64[] = 3, i64[] = 0", 4),
    ],
    ..CALL
};
/// Dropout that keeps mean and variance.
pub static ALPHA_DROPOUT: OpDef = OpDef {
    sig: "alpha_dropout(Tensor input, float p=0.5, bool train=False, bool inplace=False, bool? training=None, *, \
          Tensor? key=None, Tensor? ordinal=None) -> Tensor",
    doc: "Elements set to what SELU tends to with probability p, then moved and scaled so that mean 0 and variance 1 stay \
          (Klambauer et al., arXiv:1706.02515).",
    record: |b, def, args| {
        record(b, def, args, false, |b, d| {
            let attrs = smallvec![Attr::Float(d.p), Attr::Bool(false)];
            b.composite(&RANDOM_ALPHA_DROPOUT, attrs, &[d.x, d.key, d.ordinal])
        })
    },
    samples: &[
        Sample::grad("f32[4,5] in -2..2, 0.25, true, false, none, i64[] = 3, i64[] = 0", 16),
        Sample::exact("f32[4,5] in -2..2"),
    ],
    ..CALL
};
/// The same of whole channels.
pub static FEATURE_ALPHA_DROPOUT: OpDef = OpDef {
    sig: "feature_alpha_dropout(Tensor input, float p=0.5, bool train=False, bool inplace=False, bool? training=None, *, \
          Tensor? key=None, Tensor? ordinal=None) -> Tensor",
    doc: "alpha_dropout, where what shares its first two indices is dropped or kept together.",
    record: |b, def, args| {
        record(b, def, args, false, |b, d| {
            check_features("feature_alpha_dropout", b.ty(d.x))?;
            let attrs = smallvec![Attr::Float(d.p), Attr::Bool(true)];
            b.composite(&RANDOM_ALPHA_DROPOUT, attrs, &[d.x, d.key, d.ordinal])
        })
    },
    samples: &[Sample::grad("f32[2,3,4] in -2..2, 0.25, true, false, none, i64[] = 3, i64[] = 0", 16)],
    refuses: &[Refusal::of(
        "f32[2], 0.5, true, false, none, i64[] = 3, i64[] = 0",
        "feature_alpha_dropout: needs dims of samples and channels, got f32 [2]",
    )],
    ..CALL
};

/// Dropout, and what was kept.
pub static NATIVE_DROPOUT: OpDef = OpDef {
    sig: "native_dropout(Tensor input, float p, bool? train, *, Tensor? key=None, Tensor? ordinal=None) -> (Tensor, Tensor)",
    doc: "dropout, and as bool which elements were kept; without train the input and all true.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let none = Arg::None;
        let call = [args.get(0), args.get(1), args.get(2), &none, &none, args.get(3), args.get(4)].map(Clone::clone);
        let call = Bound::from(call);
        match read(b, &Args::new(def, &call), true)? {
            (x, None) => {
                let shape = b.shape(x);
                Ok(smallvec![x, b.full(DType::Bool, &shape, true)?])
            }
            (x, Some(d)) => {
                let word = bits(b, d.key, d.ordinal, &b.shape(x))?;
                let drop = b.lt(word, threshold(d.p))?;
                let kept = b.not(drop)?;
                let y = elements(b, d)?[0];
                Ok(smallvec![y, kept])
            }
        }
    },
    samples: &[
        Sample::grad("f32[4,5] in -2..2, 0.25, true, i64[] = 3, i64[] = 0", 4),
        Sample::exact("f32[4,5] in -2..2, 0.25, false"),
    ],
    ..CALL
};
/// Gradient of [`NATIVE_DROPOUT`].
pub static NATIVE_DROPOUT_BACKWARD: OpDef = OpDef {
    sig: "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
    doc: "grad_output · mask · scale.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let (dy, mask) = (args.tensor(0)?, args.tensor(1)?);
        rules::check_float(def.name(), b.ty(dy))?;
        let dtype = b.dtype(dy);
        let wide = widen(b, dy)?;
        let mask = b.cast(mask, b.dtype(wide))?;
        let kept = b.mul(wide, mask)?;
        let y = b.mul(kept, args.float_or(2, 1.0)?)?;
        Ok(smallvec![b.cast(y, dtype)?])
    },
    samples: &[Sample::grad("f32[2,3] in -2..2, bool[2,3], 2.0", 4)],
    ..CALL
};

fn check_features(op: &str, x: &Type) -> Result<()> {
    if x.rank() >= 2 {
        return Ok(());
    }
    Err(rules::refuse(op, Kind::Shape, format_args!("needs dims of samples and channels, got {x}")))
}
/// Which elements are dropped, in the shape of x: each for itself, or by their first two indices.
fn dropped(b: &mut Builder<'_>, v: &[ValueId], p: f64, feature: bool) -> Result<ValueId> {
    let shape = b.shape(v[0]);
    let one = |i: usize| if feature && i >= 2 { 1usize.into() } else { shape.dim(i) };
    let noise: Shape = (0..shape.rank()).map(one).collect();
    let word = bits(b, v[1], v[2], &noise)?;
    let drop = b.lt(word, threshold(p))?;
    b.expand(drop, &shape)
}
fn infer_random(op: &Op, inputs: &[&Type]) -> Result<Types> {
    rules::check_arity(op, inputs, 3)?;
    rules::check_float(op.name(), inputs[0])?;
    Ok(smallvec![inputs[0].clone()])
}
fn record_random(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound, attrs: Attrs) -> Result<Outs> {
    let args = Args::new(def, args);
    check_features(def.name(), b.ty(args.tensor(0)?))?;
    let operands: SmallVec<[ValueId; 3]> = (0..3).map(|i| args.tensor(i)).collect::<Result<_>>()?;
    b.composite(def, attrs, &operands)
}

const RANDOM: OpDef = OpDef { infer: infer_random, cost: 30, stability: Stability::Stable, ..OpDef::DEFAULT };

/// Dropout of what shares its first two indices. Attribute: p.
pub static RANDOM_FEATURE_DROPOUT: OpDef = OpDef {
    sig: "random_feature_dropout(Tensor input, Tensor key, Tensor ordinal, float p=0.5) -> Tensor",
    doc: "random_dropout with one random word for what shares its first two indices.",
    record: |b, def, args| {
        let p = Args::new(def, args).float_or(3, 0.5)?;
        record_random(b, def, args, smallvec![Attr::Float(p)])
    },
    body: Body::Composite(|b, attrs, v| {
        let (p, dtype) = (attrs[0].float(), b.dtype(v[0]));
        let drop = dropped(b, v, p, true)?;
        let x = widen(b, v[0])?;
        let y = b.mul(x, if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 })?;
        let y = b.select(drop, 0.0, y)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    grad: Grad::Rule(|b, cx| {
        let operands = [cx.ct(), cx.inputs[1], cx.inputs[2]];
        Ok(smallvec![Some(b.composite(&RANDOM_FEATURE_DROPOUT, cx.op.attrs().into(), &operands)?[0]), None, None])
    }),
    saves: Saves::Only { inputs: &[1, 2], outputs: &[] },
    samples: &[Sample::grad("f32[4,5,2] in -2..2, i64[] = 3, i64[] = 0, 0.25", 4)],
    ..RANDOM
};

/// -1 times what SELU tends to far below 0: scale · alpha.
const SELU_FLOOR: f64 = 1.758_099_340_847_376_6;

/// Dropout to SELU's floor. Attributes: p, by the first two indices?
pub static RANDOM_ALPHA_DROPOUT: OpDef = OpDef {
    sig: "random_alpha_dropout(Tensor input, Tensor key, Tensor ordinal, float p=0.5, bool feature=False) -> Tensor",
    doc: "a x + a f p for what is kept and a f (p - 1) for what is dropped, with f = 1.7581 and a = 1/√((1 - p)(1 + p f²)); all \
          0 for p = 1.",
    record: |b, def, args| {
        let read = Args::new(def, args);
        let (p, feature) = (read.float_or(3, 0.5)?, read.flag(4)?);
        let operands = [read.tensor(0)?, read.tensor(1)?, read.tensor(2)?];
        b.composite(def, smallvec![Attr::Float(p), Attr::Bool(feature)], &operands)
    },
    body: Body::Composite(|b, attrs, v| {
        let (p, dtype) = (attrs[0].float(), b.dtype(v[0]));
        if p >= 1.0 {
            let shape = b.shape(v[0]);
            return Ok(smallvec![b.zeros(dtype, &shape)?]);
        }
        let a = 1.0 / ((1.0 - p) * (1.0 + p * SELU_FLOOR * SELU_FLOOR)).sqrt();
        let drop = dropped(b, v, p, attrs[1].bool())?;
        let x = widen(b, v[0])?;
        let kept = b.mul(x, a)?;
        let kept = b.add(kept, a * SELU_FLOOR * p)?;
        let y = b.select(drop, a * SELU_FLOOR * (p - 1.0), kept)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    samples: &[
        Sample::grad("f32[4,5] in -2..2, i64[] = 3, i64[] = 0, 0.25", 16),
        Sample::grad("f32[4,5,2] in -2..2, i64[] = 3, i64[] = 0, 0.25, true", 16),
    ],
    ..RANDOM
};
