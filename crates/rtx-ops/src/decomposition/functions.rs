//! Functions of matrices: the exponential, square roots, the polar form, the condition number.
use super::symmetric::symmetric;
use super::{extents, factor, lead, matrices};
use crate::args::Args;
use crate::formula::{Var, emit};
use crate::spelling::SPELLING;
use rtx_core::{Fold, Result, Scalar};
use rtx_ir::{Arg, Body, Builder, Factor, Grad, OpDef, Outs, Prim, Refusal, Sample, Stability, ValueId};
use smallvec::smallvec;

/// Terms of the exponential's series: enough for norms up to 1 in f64.
const TERMS: usize = 18;
/// The matrix is halved at most so often: norms up to 2^16.
const HALVINGS: usize = 16;

/// The exponential of a matrix.
pub static MATRIX_EXP: OpDef = OpDef {
    sig: "linalg_matrix_exp(Tensor self) -> Tensor",
    doc: "Σ A^k / k!: halved until its norm is at most 1 (up to 16 times), the series of 18 terms, squared as often (Moler and \
          Van Loan 2003, method 3). Its derivative in the direction E is the upper right block of exp([A E; 0 A]).",
    record: |b, def, args| {
        let x = matrices(b, &Args::new(def, args), 0, true)?;
        b.composite(def, smallvec![], &[x])
    },
    body: Body::Composite(|b, _, v| Ok(smallvec![exponential(b, v[0])?])),
    grad: Grad::Rule(|b, cx| {
        // exp([A' g; 0 A']): its upper right block is what flows back.
        let (n, x) = (extents(b, cx.inputs[0]).0, b.transpose_last(cx.inputs[0])?);
        let axis = b.rank(x) - 1;
        let zeros = b.zeros_like(x)?;
        let above = b.prim(Prim::Concat { axis }, &[x, cx.ct()])?;
        let below = b.prim(Prim::Concat { axis }, &[zeros, x])?;
        let whole = b.prim(Prim::Concat { axis: axis - 1 }, &[above, below])?;
        let e = b.composite(&MATRIX_EXP, smallvec![], &[whole])?[0];
        let rows = b.rows(e, 0, n)?;
        Ok(smallvec![Some(b.columns(rows, n, n)?)])
    }),
    cost: 1000,
    samples: &[
        Sample::grad("f64[3,3] in -1..1", 4096),
        Sample::of("f64[2,2] = 3 -8 5 1", 65536),
        Sample::of("f32[2,3,3] in -1..1", 1024),
    ],
    refuses: &[Refusal::of("f32[2,3]", "linalg_matrix_exp: needs square matrices, got f32 [2, 3]")],
    stability: Stability::Stable,
    ..OpDef::DEFAULT
};
fn exponential(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let rank = b.rank(x);
    let size = b.abs(x)?;
    let columns = b.reduce_keep(Fold::Sum, size, &[rank - 2])?;
    let norm = Var(b.reduce_keep(Fold::Max, columns, &[rank - 1])?);
    let mut scale = emit(b, norm * 0.0 + 1.0)?;
    let mut wanted = Vec::new();
    let mut rest = norm;
    for _ in 0..HALVINGS {
        let large = Var(b.lt(1.0, rest.0)?);
        scale = emit(b, large.choose(scale * 0.5, scale))?;
        rest = emit(b, rest * 0.5)?;
        wanted.push(large);
    }
    let small = b.mul(x, scale.0)?;
    let small = b.prim(Prim::Barrier, &[small])?;
    let shape = b.shape(x);
    let identity = b.identity(b.dtype(x), &shape)?;
    let mut y = identity;
    for k in (1..=TERMS).rev() {
        let product = b.matmul(small, y)?;
        let part = b.mul(product, 1.0 / k as f64)?;
        y = b.add(part, identity)?;
    }
    for large in wanted {
        let square = b.matmul(y, y)?;
        y = b.select(large.0, square, y)?;
    }
    Ok(y)
}

/// `V f(w) V'` of eigenvalues w of a symmetric matrix.
fn spread(b: &mut Builder<'_>, w: ValueId, v: ValueId) -> Result<ValueId> {
    let row = b.as_row(w)?;
    let scaled = b.mul(v, row)?;
    let vt = b.transpose_last(v)?;
    b.matmul(scaled, vt)
}

/// The square root of a symmetric matrix.
pub static LINALG_MATRIX_SQRTH: OpDef = OpDef {
    sig: "linalg_matrix_sqrth(Tensor self) -> Tensor",
    doc: "V √w V' with eigenvalues w and eigenvectors V of a symmetric matrix without negative eigenvalues, read from its lower \
          triangle.",
    record: |b, def, args| {
        let x = matrices(b, &Args::new(def, args), 0, true)?;
        let x = symmetric(b, x, false)?;
        let outs = factor(b, Factor::Eigh, x)?;
        let root = b.sqrt(outs[0])?;
        Ok(smallvec![spread(b, root, outs[1])?])
    },
    samples: &[Sample::of("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3", 1024)],
    ..SPELLING
};

/// The polar form of a matrix.
pub static LINALG_POLAR: OpDef = OpDef {
    sig: "linalg_polar(Tensor A) -> (Tensor U, Tensor H)",
    doc: "A = U P with orthonormal columns in U and a symmetric P without negative eigenvalues: U = W V' and P = V S V' of the \
          singular value decomposition.",
    record: |b, def, args| {
        let x = matrices(b, &Args::new(def, args), 0, false)?;
        let outs = factor(b, Factor::Svd { full: false }, x)?;
        let u = b.matmul(outs[0], outs[2])?;
        let v = b.transpose_last(outs[2])?;
        Ok(smallvec![u, spread(b, outs[1], v)?])
    },
    samples: &[Sample::of("f64[3,2] = 4 1 -1 1 5 0.5", 1024)],
    ..SPELLING
};

/// The condition number.
pub static LINALG_COND: OpDef = OpDef {
    sig: "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
    doc: "The largest over the smallest singular value (the other way for p = -2); for p = 1, -1, ∞, -∞ the norm of the matrix \
          times that of its inverse.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let p = if *args.get(1) == Arg::None { 2.0 } else { args.float_or(1, 2.0)? };
        let x = matrices(b, &args, 0, p.abs() != 2.0)?;
        if p.abs() != 2.0 {
            let order = Arg::Scalar(Scalar::Float(p));
            return by_inverse(b, x, |b, x| {
                Ok(b.call(&crate::statistics::MATRIX_NORM, [Arg::Value(x), order.clone()])?[0])
            });
        }
        let s = factor(b, Factor::Svd { full: false }, x)?[1];
        let axis = b.rank(s) - 1;
        let k = b.shape(s).dim(axis).bound();
        if k == 0 {
            let shape = lead(b, x);
            return Ok(smallvec![b.zeros(b.dtype(x), &shape)?]);
        }
        let mut one = |i: usize| {
            let part = b.slice(s, axis, i as i64, 1)?;
            b.reshape(part, &lead(b, x))
        };
        let (large, small) = (one(0)?, one(k - 1)?);
        Ok(smallvec![if p > 0.0 { b.div(large, small)? } else { b.div(small, large)? }])
    },
    samples: &[
        Sample::grad("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3", 1024),
        Sample::of("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3, 1", 1024),
        Sample::of("f64[2,3] in -2..2, -2", 1024),
    ],
    refuses: &[Refusal::of("f32[2,3], 1", "linalg_cond: needs square matrices, got f32 [2, 3]")],
    ..SPELLING
};
/// The condition number by a norm with a name.
pub static LINALG_COND_STR: OpDef = OpDef {
    sig: "linalg_cond.p_str(Tensor self, str p) -> Tensor",
    doc: "The norm of the matrix (\"fro\" or \"nuc\") times that of its inverse.",
    record: |b, def, args| {
        let args = Args::new(def, args);
        let word = args.choice(1, &["fro", "nuc"])?;
        let x = matrices(b, &args, 0, true)?;
        by_inverse(b, x, |b, x| Ok(b.call(&crate::statistics::MATRIX_NORM_STR, [Arg::Value(x), Arg::Str(word)])?[0]))
    },
    samples: &[Sample::of("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3, \"fro\"", 1024)],
    ..SPELLING
};
fn by_inverse(
    b: &mut Builder<'_>,
    x: ValueId,
    norm: impl Fn(&mut Builder<'_>, ValueId) -> Result<ValueId>,
) -> Result<Outs> {
    let inverse = b.call(&super::solve::LINALG_INV, [Arg::Value(x)])?[0];
    let (l, r) = (norm(b, x)?, norm(b, inverse)?);
    Ok(smallvec![b.mul(l, r)?])
}
