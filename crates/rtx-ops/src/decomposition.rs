//! Factorizations of matrices and what is computed through them: systems of equations, inverses, determinants, ranks.
//!
//! Matrices lie in the last two dims; what stands before them is a batch. A symmetric or triangular matrix is read from
//! one triangle; gradients with respect to symmetric matrices are symmetric, as PyTorch's are.
use crate::args::Args;
use rtx_core::{DType, Dim, Kind, Result, Shape};
use rtx_ir::{Builder, Factor, Op, OpDef, Outs, Prim, ValueId, rules};

mod factors;
mod functions;
mod rank;
mod reflect;
mod reflections;
mod solve;
mod symmetric;

/// The family.
pub const ALL: &[&OpDef] = &[
    &symmetric::SYMMETRIC,
    &factors::LINALG_CHOLESKY,
    &factors::CHOLESKY,
    &factors::LINALG_CHOLESKY_EX,
    &factors::LINALG_LU_FACTOR,
    &factors::LINALG_LU_FACTOR_EX,
    &factors::LU,
    &factors::LINALG_LU,
    &factors::LU_UNPACK,
    &factors::LINALG_QR,
    &factors::LINALG_EIGH,
    &factors::LINALG_EIGVALSH,
    &factors::LINALG_SVD,
    &factors::SVD,
    &factors::LINALG_SVDVALS,
    &solve::SOLVE_SQUARE,
    &solve::LU_PERMUTATION,
    &solve::LINALG_SOLVE,
    &solve::LINALG_SOLVE_EX,
    &solve::LINALG_INV,
    &solve::INVERSE,
    &solve::LINALG_INV_EX,
    &solve::LINALG_SOLVE_TRIANGULAR,
    &solve::TRIANGULAR_SOLVE,
    &solve::CHOLESKY_SOLVE,
    &solve::CHOLESKY_INVERSE,
    &solve::LINALG_LU_SOLVE,
    &solve::LU_SOLVE,
    &solve::LINALG_TENSORSOLVE,
    &solve::LINALG_TENSORINV,
    &rank::LINALG_DET,
    &rank::DET,
    &rank::LOGDET,
    &rank::LINALG_SLOGDET,
    &rank::SLOGDET,
    &rank::PSEUDO_INVERSE,
    &rank::LINALG_PINV,
    &rank::PINVERSE,
    &rank::LINALG_MATRIX_RANK,
    &rank::LINALG_LSTSQ,
    &rank::NUCLEAR_NORM,
    &reflections::LINALG_HOUSEHOLDER_PRODUCT,
    &reflections::ORMQR,
    &reflect::GEQRF,
    &functions::MATRIX_EXP,
    &functions::LINALG_MATRIX_SQRTH,
    &functions::LINALG_POLAR,
    &functions::LINALG_COND,
    &functions::LINALG_COND_STR,
];

/// Argument `i` as a float tensor of matrices, square ones if asked.
fn matrices(b: &Builder<'_>, args: &Args<'_>, i: usize, square: bool) -> Result<ValueId> {
    let x = args.tensor(i)?;
    let ty = b.ty(x);
    if ty.rank() < 2 {
        return Err(rules::refuse(
            args.op(),
            Kind::Shape,
            format_args!("needs matrices in the last two dims, got {ty}"),
        ));
    }
    if !matches!(ty.dtype, DType::F32 | DType::F64) {
        return Err(rules::refuse(args.op(), Kind::DType, format_args!("needs an f32 or f64 tensor, got {ty}")));
    }
    let (m, n) = (ty.shape.dim(ty.rank() - 2), ty.shape.dim(ty.rank() - 1));
    if square && m != n {
        return Err(rules::refuse(args.op(), Kind::Shape, format_args!("needs square matrices, got {ty}")));
    }
    Ok(x)
}
/// Rows and columns.
fn extents(b: &Builder<'_>, x: ValueId) -> (usize, usize) {
    let shape = &b.ty(x).shape;
    (shape.dim(shape.rank() - 2).bound(), shape.dim(shape.rank() - 1).bound())
}
/// The dims before the matrix.
fn lead(b: &Builder<'_>, x: ValueId) -> Shape {
    let shape = &b.ty(x).shape;
    shape.iter().take(shape.rank() - 2).collect()
}
fn factor(b: &mut Builder<'_>, kind: Factor, x: ValueId) -> Result<Outs> {
    b.apply(Op::Prim(Prim::Factor(kind)), &[x])
}
/// `x`, or an error with this sentence where one of `info` is not 0.
fn checked(b: &mut Builder<'_>, op: &str, what: &str, x: ValueId, info: ValueId) -> Result<ValueId> {
    let zero = b.constant(DType::I64, 0i64)?;
    let well = b.eq(info, zero)?;
    b.prim(Prim::Check(format!("{op}: {what}").into()), &[x, well])
}
/// Both with the dims before the matrix that they meet in.
fn meet_batches(b: &mut Builder<'_>, op: &str, x: ValueId, y: ValueId) -> Result<(ValueId, ValueId)> {
    let batch = rules::broadcast_for(op, &[&lead(b, x), &lead(b, y)])?;
    let with = |b: &Builder<'_>, v: ValueId| -> Shape {
        let (m, n) = extents(b, v);
        batch.iter().chain([Dim::Const(m as u64), Dim::Const(n as u64)]).collect()
    };
    let (to_x, to_y) = (with(b, x), with(b, y));
    Ok((b.expand(x, &to_x)?, b.expand(y, &to_y)?))
}
