//! The factorizations themselves, under PyTorch's names.
use super::symmetric::symmetric;
use super::{checked, extents, factor, matrices};
use crate::args::Args;
use crate::spelling::SPELLING;
use rtx_core::{DType, Kind, Result, Shape};
use rtx_ir::{Bound, Builder, Factor, OpDef, Outs, Refusal, Sample, ValueId, rules};
use smallvec::smallvec;

fn cholesky(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound, check: bool) -> Result<Outs> {
    let args = Args::new(def, a);
    let (x, upper) = (matrices(b, &args, 0, true)?, args.flag(1)?);
    let x = symmetric(b, x, upper)?;
    let outs = factor(b, Factor::Cholesky, x)?;
    let l =
        if check { checked(b, def.name(), "a matrix is not positive definite", outs[0], outs[1])? } else { outs[0] };
    let l = if upper { b.transpose_last(l)? } else { l };
    Ok(smallvec![l, b.cast(outs[1], DType::I32)?])
}
fn first(outs: Outs) -> Outs {
    smallvec![outs[0]]
}

/// `L` of `A = L L'`.
pub static LINALG_CHOLESKY: OpDef = OpDef {
    sig: "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    doc: "The lower triangular L of A = L L', or the upper triangular L'; an error when A is not positive definite.",
    record: |b, def, a| Ok(first(cholesky(b, def, a, true)?)),
    samples: &[
        Sample::of("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3", 16),
        Sample::of("f32[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3, true", 16),
    ],
    refuses: &[Refusal::of("f32[2,3]", "linalg_cholesky: needs square matrices, got f32 [2, 3]")],
    ..SPELLING
};
/// [`LINALG_CHOLESKY`] under its old name.
pub static CHOLESKY: OpDef = OpDef {
    sig: "cholesky(Tensor self, bool upper=False) -> Tensor",
    doc: "As linalg_cholesky.",
    record: |b, def, a| Ok(first(cholesky(b, def, a, true)?)),
    samples: &[Sample::of("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3", 16)],
    ..SPELLING
};
/// `L`, and what went wrong.
pub static LINALG_CHOLESKY_EX: OpDef = OpDef {
    sig: "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)",
    doc: "As linalg_cholesky; info is 0, or the order of the first leading minor that is not positive, and then L is NaN.",
    record: |b, def, a| {
        let check = Args::new(def, a).flag(2)?;
        cholesky(b, def, a, check)
    },
    samples: &[Sample::of("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3", 16), Sample::of("f32[2,2] = 1 2 2 1", 16)],
    ..SPELLING
};

/// Argument 1 asks for partial pivoting, which is the only one.
fn check_pivoting(args: &Args<'_>) -> Result<()> {
    if !matches!(args.get(1), rtx_ir::Arg::Bool(false)) {
        return Ok(());
    }
    Err(rules::refuse(args.op(), Kind::Unsupported, "is built with partial pivoting only"))
}

/// Packed factors, pivots from 1, info.
fn lu_factor(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound, check: bool) -> Result<Outs> {
    let args = Args::new(def, a);
    let x = matrices(b, &args, 0, false)?;
    check_pivoting(&args)?;
    let outs = factor(b, Factor::Lu, x)?;
    let lu = if check { checked(b, def.name(), "a matrix is singular", outs[0], outs[3])? } else { outs[0] };
    let one = b.constant(DType::I64, 1i64)?;
    let pivots = b.add(outs[1], one)?;
    Ok(smallvec![lu, b.cast(pivots, DType::I32)?, b.cast(outs[3], DType::I32)?])
}

/// Packed LU factors.
pub static LINALG_LU_FACTOR: OpDef = OpDef {
    sig: "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    doc: "P A = L U with partial pivoting: L below the diagonal and U in one matrix; row i was swapped with row \
          pivots[i], counted from 1.",
    record: |b, def, a| Ok(lu_factor(b, def, a, false)?.into_iter().take(2).collect()),
    samples: &[Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3", 16), Sample::of("f32[2,3,5]", 64)],
    refuses: &[Refusal::of("f32[3]", "linalg_lu_factor: needs matrices in the last two dims, got f32 [3]")],
    ..SPELLING
};
/// Packed LU factors and info.
pub static LINALG_LU_FACTOR_EX: OpDef = OpDef {
    sig: "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)",
    doc: "As linalg_lu_factor; info is 0, or the position from 1 of the first zero on the diagonal of U.",
    record: |b, def, a| {
        let check = Args::new(def, a).flag(2)?;
        lu_factor(b, def, a, check)
    },
    samples: &[Sample::of("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3", 16), Sample::of("f32[2,2] = 0 0 0 0", 0)],
    refuses: &[],
    ..SPELLING
};
/// Packed LU factors, under `torch.lu`'s name.
pub static LU: OpDef = OpDef {
    sig: "lu(Tensor A, bool pivot=True, bool get_infos=False) -> Tensor[]",
    doc: "As linalg_lu_factor, with info as a third result if asked for.",
    record: |b, def, a| {
        let infos = Args::new(def, a).flag(2)?;
        Ok(lu_factor(b, def, a, false)?.into_iter().take(if infos { 3 } else { 2 }).collect())
    },
    samples: &[Sample::of("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3, true, true", 16)],
    refuses: &[],
    ..SPELLING
};

/// `P`, `L` and `U` from the packed factors and the permutation of rows.
fn unpack(b: &mut Builder<'_>, lu: ValueId, perm: ValueId) -> Result<[ValueId; 3]> {
    let (m, n) = extents(b, lu);
    let k = m.min(n);
    let (left, top) = (b.columns(lu, 0, k)?, b.rows(lu, 0, k)?);
    let below = b.tril(left, -1)?;
    let on = b.on_diagonal(&b.shape(left))?;
    let l = b.select(on, 1.0, below)?;
    let p = b.permutation(perm, b.dtype(lu))?;
    Ok([b.transpose_last(p)?, l, b.triu(top, 0)?])
}

/// `A = P L U`.
pub static LINALG_LU: OpDef = OpDef {
    sig: "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    doc: "A = P L U with partial pivoting: a permutation matrix, a lower triangular one with ones on the diagonal, an \
          upper triangular one.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let x = matrices(b, &args, 0, false)?;
        check_pivoting(&args)?;
        let outs = factor(b, Factor::Lu, x)?;
        Ok(unpack(b, outs[0], outs[2])?.into_iter().collect())
    },
    samples: &[Sample::grad("f64[3,3] = 0.5 2 1 4 1 -1 1 -2 3", 16), Sample::of("f32[2,3,5]", 64)],
    refuses: &[],
    ..SPELLING
};
/// `P`, `L` and `U` of packed factors.
pub static LU_UNPACK: OpDef = OpDef {
    sig: "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
    doc: "The factors of A = P L U from what lu_factor gives; those that are not asked for are empty.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let lu = matrices(b, &args, 0, false)?;
        let yes = |i: usize| !matches!(args.get(i), rtx_ir::Arg::Bool(false));
        let rows = extents(b, lu).0;
        let perm = super::solve::lu_permutation(b, args.tensor(1)?, rows)?;
        let [p, l, u] = unpack(b, lu, perm)?;
        let none = b.zeros(b.dtype(lu), &Shape::of(&[0]))?;
        let p = if yes(3) { p } else { none };
        Ok(if yes(2) { smallvec![p, l, u] } else { smallvec![p, none, none] })
    },
    samples: &[Sample::of("f64[3,3], i64[3] = 2 3 3", 0), Sample::of("f32[2,3], i64[2] = 2 2, true, false", 0)],
    ..SPELLING
};

/// `A = Q R`.
pub static LINALG_QR: OpDef = OpDef {
    sig: "linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)",
    doc: "A = Q R with orthonormal columns of Q and upper triangular R; mode complete has square Q, mode r no Q. By \
          Householder reflections, signs as LAPACK's.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let x = matrices(b, &args, 0, false)?;
        let mode = args.choice(1, &["reduced", "complete", "r"])?;
        let outs = factor(b, Factor::Qr { full: mode == "complete" }, x)?;
        let q = if mode == "r" { b.zeros(b.dtype(x), &Shape::of(&[0]))? } else { outs[0] };
        Ok(smallvec![q, outs[1]])
    },
    samples: &[
        Sample::grad("f64[4,2] = 0.5 2 4 1 1 -2 -1 3", 16),
        Sample::of("f32[2,3,5], \"complete\"", 64),
        Sample::of("f32[5,3], \"r\"", 64),
    ],
    refuses: &[Refusal::of("f32[2,2], \"full\"", "linalg_qr: \"full\" is not one of \"reduced\", \"complete\", \"r\"")],
    ..SPELLING
};

fn eigh(b: &mut Builder<'_>, def: &'static OpDef, a: &Bound) -> Result<Outs> {
    let args = Args::new(def, a);
    let (x, triangle) = (matrices(b, &args, 0, true)?, args.choice(1, &["L", "U", "l", "u"])?);
    let x = symmetric(b, x, triangle.eq_ignore_ascii_case("u"))?;
    factor(b, Factor::Eigh, x)
}
/// Eigenvalues and eigenvectors of symmetric matrices.
pub static LINALG_EIGH: OpDef = OpDef {
    sig: "linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor eigenvectors)",
    doc: "A = V diag(w) V' of a symmetric matrix, of which one triangle is read: w ascending, eigenvectors in columns, \
          the largest element of each positive.",
    record: eigh,
    samples: &[Sample::of("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3", 64), Sample::of("f32[2,2] = 2 1 9 3, \"U\"", 64)],
    refuses: &[Refusal::of("f32[2,3]", "linalg_eigh: needs square matrices, got f32 [2, 3]")],
    ..SPELLING
};
/// Eigenvalues of symmetric matrices.
pub static LINALG_EIGVALSH: OpDef = OpDef {
    sig: "linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor",
    doc: "The eigenvalues of a symmetric matrix, ascending.",
    record: |b, def, a| Ok(first(eigh(b, def, a)?)),
    samples: &[Sample::of("f64[3,3] = 4 1 -1 1 5 0.5 -1 0.5 3", 64)],
    ..SPELLING
};

/// Singular values and vectors.
pub static LINALG_SVD: OpDef = OpDef {
    sig: "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
    doc: "A = U diag(S) Vh: S descending, the largest element of each column of U positive.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let x = matrices(b, &args, 0, false)?;
        let full = !matches!(args.get(1), rtx_ir::Arg::Bool(false));
        factor(b, Factor::Svd { full }, x)
    },
    samples: &[
        Sample::grad("f64[2,3] = 0.5 2 1 4 1 -1, false", 64),
        Sample::of("f32[2,3,5]", 256),
        Sample::of("f32[5,3], false", 256),
    ],
    ..SPELLING
};
/// Singular values and vectors, under the old name: `V` instead of its transpose.
pub static SVD: OpDef = OpDef {
    sig: "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    doc: "A = U diag(S) V'; with some=False square U and V, without compute_uv zeros in their place.",
    record: |b, def, a| {
        let args = Args::new(def, a);
        let x = matrices(b, &args, 0, false)?;
        let yes = |i: usize| !matches!(args.get(i), rtx_ir::Arg::Bool(false));
        let full = !yes(1) || !yes(2);
        let outs = factor(b, Factor::Svd { full }, x)?;
        if yes(2) {
            return Ok(smallvec![outs[0], outs[1], b.transpose_last(outs[2])?]);
        }
        Ok(smallvec![b.zeros_like(outs[0])?, outs[1], b.zeros_like(outs[2])?])
    },
    samples: &[Sample::grad("f64[2,3] = 0.5 2 1 4 1 -1", 64), Sample::of("f32[5,3], false", 256)],
    ..SPELLING
};
/// Singular values.
pub static LINALG_SVDVALS: OpDef = OpDef {
    sig: "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
    doc: "The singular values, descending.",
    record: |b, def, a| {
        let x = matrices(b, &Args::new(def, a), 0, false)?;
        Ok(smallvec![factor(b, Factor::Svd { full: false }, x)?[1]])
    },
    samples: &[Sample::grad("f64[2,3] = 0.5 2 1 4 1 -1", 64), Sample::of("f32[2,5,3]", 64)],
    ..SPELLING
};
