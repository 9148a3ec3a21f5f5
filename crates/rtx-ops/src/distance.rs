//! Distances and directions of vectors.
use crate::args::Args;
use crate::elementwise::record_met;
use crate::formula::{Var, emit};
use crate::precision::{folded_shape, widen};
use crate::reduce::VECTOR_NORM;
use crate::spelling::SPELLING;
use rtx_core::{Dim, Fold, Kind, Result, Shape};
use rtx_ir::record::{self, Promotion};
use rtx_ir::{Amp, Arg, Attr, Body, Builder, OpDef, Prim, Refusal, Sample, Stability, Type, ValueId, rules};
use smallvec::{SmallVec, smallvec};

/// The family.
pub const ALL: &[&OpDef] = &[&COSINE_SIMILARITY, &PAIRWISE_DISTANCE, &CDIST, &PDIST, &DIST, &NORMALIZE, &RENORM];

const DISTANCE: OpDef = OpDef { amp: Amp::Full, cost: 6, stability: Stability::Stable, ..OpDef::DEFAULT };

/// `(Σ |x|^p)^(1/p)` over axes.
pub(crate) fn norm(b: &mut Builder<'_>, x: ValueId, p: f64, axes: &[usize], keep: bool) -> Result<ValueId> {
    let list = Attr::Ints(axes.iter().map(|&a| a as i64).collect());
    Ok(b.composite(&VECTOR_NORM, smallvec![list, Attr::Bool(keep), Attr::Float(p)], &[x])?[0])
}
/// `|x - y + eps|_p` over the last dim; operands broadcast.
pub(crate) fn pairwise_norm(
    b: &mut Builder<'_>,
    x: ValueId,
    y: ValueId,
    p: f64,
    eps: f64,
    keep: bool,
) -> Result<ValueId> {
    let d = b.sub(x, y)?;
    let d = b.add(d, eps)?;
    let last = b.rank(d) - 1;
    norm(b, d, p, &[last], keep)
}
/// `Σ x y / √((Σ x² + 10⁻¹²)(Σ y² + 10⁻¹²))` over the last dim.
pub(crate) fn cosine_of_rows(b: &mut Builder<'_>, x: ValueId, y: ValueId) -> Result<ValueId> {
    let last = b.rank(x) - 1;
    let mut sum = |l: ValueId, r: ValueId| {
        let product = b.mul(l, r)?;
        b.reduce(Fold::Sum, product, &[last]).map(Var)
    };
    let (xy, xx, yy) = (sum(x, y)?, sum(x, x)?, sum(y, y)?);
    Ok(emit(b, xy / ((xx + 1e-12) * (yy + 1e-12)).sqrt())?.0)
}

/// Cosine of the angle. Attributes: axis, eps.
pub static COSINE_SIMILARITY: OpDef = OpDef {
    sig: "cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
    doc: "Σ (x1 / max(|x1|, eps)) (x2 / max(|x2|, eps)) along dim. Where a length is below eps it counts as the constant \
          eps in the gradient, which PyTorch, too, divides by, but still differentiates.",
    record: |b, def, args| {
        let given = Args::new(def, args);
        let pair = record::first::<2>(args);
        let shapes = [b.shape(given.tensor(0)?), b.shape(given.tensor(1)?)];
        let rank = rules::broadcast_for(def.name(), &[&shapes[0], &shapes[1]])?.rank();
        let axis = rules::check_dim(def.name(), given.int_or(2, 1)?, rank)?;
        let attrs = smallvec![Attr::Int(axis as i64), Attr::Float(given.float_or(3, 1e-8)?)];
        record_met(b, def, &pair, Promotion::Float, attrs)
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 2)?;
        rules::check_equal(op, inputs)?;
        let axes: SmallVec<[usize; 1]> =
            if inputs[0].rank() == 0 { smallvec![] } else { smallvec![op.attrs()[0].int() as usize] };
        Ok(smallvec![Type { dtype: inputs[0].dtype, shape: folded_shape(&inputs[0].shape, &axes, false) }])
    },
    body: Body::Composite(|b, attrs, v| {
        let (dtype, eps) = (b.dtype(v[0]), attrs[1].float());
        let axes: SmallVec<[usize; 1]> =
            if b.rank(v[0]) == 0 { smallvec![] } else { smallvec![attrs[0].int() as usize] };
        let mut unit = |x: ValueId| {
            let x = widen(b, x)?;
            let length = norm(b, x, 2.0, &axes, true)?;
            let length = b.max(length, eps)?;
            b.div(x, length)
        };
        let (x, y) = (unit(v[0])?, unit(v[1])?);
        let product = b.mul(x, y)?;
        let sum = b.reduce(Fold::Sum, product, &axes)?;
        Ok(smallvec![b.cast(sum, dtype)?])
    }),
    samples: &[
        Sample::grad("f32[3,4] in 0.5..2, f32[3,4] in 0.5..2", 32),
        Sample::grad("f32[2,3] in 0.5..2, f32[2,1,3] in 0.5..2, -1", 32),
        Sample::of("f32[1,2] = 0 0, f32[1,2] = 1 2", 32),
    ],
    ..DISTANCE
};

/// Distance of each pair of rows. Attributes: p, eps, keep.
pub static PAIRWISE_DISTANCE: OpDef = OpDef {
    sig: "pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=9.9999999999999995e-07, bool keepdim=False) \
          -> Tensor",
    doc: "(Σ |x1 - x2 + eps|^p)^(1/p) over the last dim.",
    record: |b, def, args| {
        let given = Args::new(def, args);
        let attrs = smallvec![
            Attr::Float(given.float_or(2, 2.0)?),
            Attr::Float(given.float_or(3, 1e-6)?),
            Attr::Bool(given.flag(4)?),
        ];
        record_met(b, def, &record::first::<2>(args), Promotion::Float, attrs)
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 2)?;
        rules::check_equal(op, inputs)?;
        let Some(last) = inputs[0].rank().checked_sub(1) else {
            return Err(rules::refuse(op.name(), Kind::Shape, "takes vectors, got []"));
        };
        let shape = folded_shape(&inputs[0].shape, &[last], op.attrs()[2].bool());
        Ok(smallvec![Type { dtype: inputs[0].dtype, shape }])
    },
    body: Body::Composite(|b, attrs, v| {
        let (p, eps, keep, dtype) = (attrs[0].float(), attrs[1].float(), attrs[2].bool(), b.dtype(v[0]));
        let (x, y) = (widen(b, v[0])?, widen(b, v[1])?);
        let d = pairwise_norm(b, x, y, p, eps, keep)?;
        Ok(smallvec![b.cast(d, dtype)?])
    }),
    samples: &[
        Sample::grad("f32[3,4] in 0.5..1, f32[3,4] in 1.5..2", 32),
        Sample::grad("f32[4] in 0.5..1, f32[4] in 1.5..2, 5, 0.5, true", 64),
    ],
    ..DISTANCE
};

/// Distances of all rows to all others. Attribute: p.
pub static CDIST: OpDef = OpDef {
    sig: "cdist(Tensor x1, Tensor x2, float p=2.0, int? compute_mode=None) -> Tensor",
    doc: "out[.., i, j] = (Σ_k |x1[.., i, k] - x2[.., j, k]|^p)^(1/p), leading dims broadcast; the differences are taken, \
          whatever compute_mode says. The gradient at distance 0 is 0.",
    record: |b, def, args| {
        let given = Args::new(def, args);
        let (x, y, p) = (given.tensor(0)?, given.tensor(1)?, given.float_or(2, 2.0)?);
        let (l, r) = (b.ty(x).clone(), b.ty(y).clone());
        let fits = l.rank() >= 2
            && r.rank() >= 2
            && l.dtype == r.dtype
            && l.shape.dim(l.rank() - 1) == r.shape.dim(r.rank() - 1);
        if !fits || p < 0.0 {
            let what = format_args!("takes [.., P, M] and [.., R, M] of one dtype and p ≥ 0, got {l}, {r}, p {p}");
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let lead = |t: &Type| -> Shape { t.shape.iter().take(t.rank() - 2).collect() };
        let lead = rules::broadcast_for(def.name(), &[&lead(&l), &lead(&r)])?;
        let stretched = |t: &Type| -> Shape { lead.iter().chain(t.shape.iter().skip(t.rank() - 2)).collect() };
        let (x, y) = (b.expand(x, &stretched(&l))?, b.expand(y, &stretched(&r))?);
        b.composite(def, smallvec![Attr::Float(p)], &[x, y])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 2)?;
        rules::check_float(op.name(), inputs[0])?;
        let mut out = inputs[0].clone();
        out.shape.set(out.rank() - 1, inputs[1].shape.dim(out.rank() - 2));
        Ok(smallvec![out])
    },
    body: Body::Composite(|b, attrs, v| {
        let dtype = b.dtype(v[0]);
        let (x, y) = (widen(b, v[0])?, widen(b, v[1])?);
        let at = b.rank(x) - 1;
        let (mut left, mut right) = (b.shape(x), b.shape(y));
        left.insert(at, 1);
        right.insert(at - 1, 1);
        let (x, y) = (b.reshape(x, &left)?, b.reshape(y, &right)?);
        let d = b.sub(x, y)?;
        let last = b.rank(d) - 1;
        let y = norm(b, d, attrs[0].float(), &[last], false)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    samples: &[
        Sample::grad("f32[3,4] in 0.5..1, f32[2,4] in 1.5..2", 64),
        Sample::grad("f32[2,3,4] in 0.5..1, f32[2,4] in 1.5..2, 1", 64),
        Sample::of("f32[1,2] = 1 2, f32[2,2] = 1 2 4 6", 16),
    ],
    refuses: &[Refusal::of(
        "f32[3,4], f32[2,5]",
        "cdist: takes [.., P, M] and [.., R, M] of one dtype and p ≥ 0, got f32 [3, 4], f32 [2, 5], p 2",
    )],
    ..DISTANCE
};

/// Distances of all pairs of rows. Attribute: p.
pub static PDIST: OpDef = OpDef {
    sig: "pdist(Tensor self, float p=2.0) -> Tensor",
    doc: "(Σ_k |self[i, k] - self[j, k]|^p)^(1/p) for all i < j, row after row; a vector of N (N - 1) / 2.",
    record: |b, def, args| {
        let given = Args::new(def, args);
        let (x, p) = (given.tensor(0)?, given.float_or(1, 2.0)?);
        if b.rank(x) != 2 || p < 0.0 {
            let what = format_args!("takes [N, M] and p ≥ 0, got {}, p {p}", b.ty(x));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        b.composite(def, smallvec![Attr::Float(p)], &[x])
    },
    infer: |op, inputs| {
        rules::check_arity(op, inputs, 1)?;
        rules::check_float(op.name(), inputs[0])?;
        let n = inputs[0].shape.dim(0).bound();
        Ok(smallvec![Type::new(inputs[0].dtype, [n * n.saturating_sub(1) / 2])])
    },
    body: Body::Composite(|b, attrs, v| {
        let dtype = b.dtype(v[0]);
        let x = widen(b, v[0])?;
        let (n, size) = (b.shape(x).dim(0).bound(), b.shape(x).dim(1));
        if n < 2 {
            return Ok(smallvec![b.zeros(dtype, &[0].into())?]);
        }
        // Row i against all rows behind it.
        let mut parts: SmallVec<[ValueId; 8]> = SmallVec::new();
        for i in 0..n - 1 {
            let row = b.slice(x, 0, i as i64, 1)?;
            let rest = b.slice(x, 0, i as i64 + 1, n - 1 - i)?;
            let row = b.expand(row, &[Dim::from(n - 1 - i), size].into_iter().collect())?;
            parts.push(b.sub(row, rest)?);
        }
        let d = if parts.len() == 1 { parts[0] } else { b.prim(Prim::Concat { axis: 0 }, &parts)? };
        let y = norm(b, d, attrs[0].float(), &[1], false)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    samples: &[
        Sample::grad("f32[3,4] in -2..2", 64),
        Sample::grad("f32[2,4] in -2..2, 1", 64),
        Sample::exact("f32[1,4]"),
    ],
    refuses: &[Refusal::of("f32[3]", "pdist: takes [N, M] and p ≥ 0, got f32 [3], p 2")],
    ..DISTANCE
};

/// Distance of two tensors.
pub static DIST: OpDef = OpDef {
    sig: "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
    doc: "(Σ |self - other|^p)^(1/p) over all elements; operands broadcast.",
    record: |b, def, args| {
        let p = Args::new(def, args).float_or(2, 2.0)?;
        let met = record::meet(b, def, &record::first::<2>(args), Promotion::Float)?;
        let d = b.sub(met.values[0], met.values[1])?;
        let axes: SmallVec<[usize; 4]> = (0..b.rank(d)).collect();
        Ok(smallvec![norm(b, d, p, &axes, false)?])
    },
    samples: &[
        Sample::grad("f32[2,3] in 0.5..1, f32[3] in 1.5..2", 64),
        Sample::grad("f32[3] in 0.5..1, f32[3] in 1.5..2, 4", 64),
    ],
    ..SPELLING
};

/// Vectors of length one.
pub static NORMALIZE: OpDef = OpDef {
    sig: "normalize(Tensor self, float p=2.0, int[1] dim=[1], float eps=1e-12) -> Tensor",
    doc: "self / max(|self|_p, eps), the length along dim.",
    record: |b, def, args| {
        let given = Args::new(def, args);
        let x = given.tensor(0)?;
        rules::check_float(def.name(), b.ty(x))?;
        let (p, eps) = (given.float_or(1, 2.0)?, given.float_or(3, 1e-12)?);
        let axes = if *given.get(2) == Arg::None {
            smallvec![rules::check_dim(def.name(), 1, b.rank(x))?]
        } else {
            given.dims_or_all(2, b.rank(x))?
        };
        let wide = widen(b, x)?;
        let length = norm(b, wide, p, &axes, true)?;
        let length = b.max(length, eps)?;
        let y = b.div(wide, length)?;
        Ok(smallvec![b.cast(y, b.dtype(x))?])
    },
    samples: &[
        Sample::grad("f32[2,3] in 0.5..2", 32),
        Sample::grad("f32[2,3] in 0.5..2, 1, 0", 32),
        Sample::of("f32[1,2] = 0 0", 0),
    ],
    refuses: &[Refusal::of("f32[3], 2, 1", "normalize: dim 1 is outside -1..1 for a tensor of rank 1")],
    ..SPELLING
};

/// Slices kept below a length. Attributes: axis, p, maxnorm.
pub static RENORM: OpDef = OpDef {
    sig: "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    doc: "Each slice along dim times maxnorm / (n + 10⁻⁷) where its p-norm n is above maxnorm.",
    record: |b, def, args| {
        let given = Args::new(def, args);
        let x = given.tensor(0)?;
        if b.rank(x) < 2 {
            let what = format_args!("needs two dims or more, got {}", b.shape(x));
            return Err(rules::refuse(def.name(), Kind::Shape, what));
        }
        let (p, most) = (given.float_or(1, 2.0)?, given.float_or(3, 1.0)?);
        if p <= 0.0 || most < 0.0 {
            let what = format_args!("p is positive and maxnorm not negative, got {p}, {most}");
            return Err(rules::refuse(def.name(), Kind::Argument, what));
        }
        let axis = given.dim(2, b.rank(x))?;
        b.composite(def, smallvec![Attr::Int(axis as i64), Attr::Float(p), Attr::Float(most)], &[x])
    },
    infer: crate::activation::infer_float,
    body: Body::Composite(|b, attrs, v| {
        let (axis, p, most, dtype) = (attrs[0].int() as usize, attrs[1].float(), attrs[2].float(), b.dtype(v[0]));
        let x = widen(b, v[0])?;
        let axes: SmallVec<[usize; 4]> = (0..b.rank(x)).filter(|&i| i != axis).collect();
        let n = Var(norm(b, x, p, &axes, true)?);
        let scale = emit(b, n.at_most(most).choose(1.0, most / (n + 1e-7)))?;
        let y = b.mul(x, scale.0)?;
        Ok(smallvec![b.cast(y, dtype)?])
    }),
    samples: &[Sample::grad("f32[2,3] in 1..2, 2, 0, 0.5", 32), Sample::grad("f32[2,3] in 0.1..0.2, 1, 1, 5", 32)],
    refuses: &[Refusal::of("f32[3], 2, 0, 1", "renorm: needs two dims or more, got [3]")],
    ..DISTANCE
};
