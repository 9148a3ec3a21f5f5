//! `torch.linalg`: decompositions, solvers and norms of matrices. Leading dims are a batch.
use crate::{
    Result, Tensor,
    call::{self, Argument, op},
    failure::OrPanic,
};

/// An op of one result.
macro_rules! one { ($($(#[$doc:meta])* $op:ident $name:ident($($tensor:ident),+; $($number:ident: $ty:ty),*) $example:literal;)*) => { $(
    $(#[$doc])*
    ///
    /// # Panics
    /// When shapes or dtypes do not fit.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, linalg, tensor};
    #[doc = $example]
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn $name($($tensor: &Tensor,)+ $($number: $ty),*) -> Tensor {
        let args: &[Argument] = &[$($tensor.into()),+];
        call::call_bound(op!(stringify!($op)), args, &[$((stringify!($number), $number.into())),*]).or_panic()
    }
)* } }

/// An op of several results.
macro_rules! several { ($($(#[$doc:meta])* $op:ident $name:ident($($tensor:ident),+) $n:literal $example:literal;)*) => { $(
    $(#[$doc])*
    ///
    /// # Panics
    /// When shapes or dtypes do not fit.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, linalg, tensor};
    #[doc = $example]
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn $name($($tensor: &Tensor),+) -> [Tensor; $n] {
        results(call::call(stringify!($op), &[$($tensor.into()),+], &[]))
    }
)* } }

/// As many results as the signature says.
#[track_caller]
fn results<const N: usize>(outs: Result<Vec<Tensor>>) -> [Tensor; N] {
    let mut outs = outs.or_panic().into_iter();
    std::array::from_fn(|_| outs.next().expect("the signature says how many"))
}

one! {
    /// The lower triangle L with L Lᵀ = a, for a positive definite a.
    linalg_cholesky cholesky(a;) "assert_eq!(linalg::cholesky(&tensor!([[4., 0.], [0., 9.]])).to_vec::<f32>()?, [2., 0., 0., 3.]);";
    /// The vector that stands on both, along `dim`.
    linalg_cross cross(a, b; dim: i64) "assert_eq!(linalg::cross(&tensor!([1., 0., 0.]), &tensor!([0., 1., 0.]), -1).to_vec::<f32>()?, [0., 0., 1.]);";
    /// The determinant.
    linalg_det det(a;) "assert_eq!(linalg::det(&tensor!([[2., 0.], [0., 3.]])).item::<f32>()?, 6.);";
    /// Eigenvalues of a symmetric matrix, rising; the lower triangle is read.
    linalg_eigvalsh eigvalsh(a;) "assert_eq!(linalg::eigvalsh(&tensor!([[3., 0.], [0., 2.]])).to_vec::<f32>()?, [2., 3.]);";
    /// The product of the reflections that a QR decomposition is kept as.
    linalg_householder_product householder_product(a, tau;) "assert_eq!(linalg::householder_product(&torch::eye(2), &torch::zeros(2)).to_vec::<f32>()?, [1., 0., 0., 1.]);";
    /// The inverse.
    linalg_inv inv(a;) "assert_eq!(linalg::inv(&tensor!([[2., 0.], [0., 4.]])).to_vec::<f32>()?, [0.5, 0., 0., 0.25]);";
    /// X with a X = b, from what [`lu_factor`] made of a.
    linalg_lu_solve lu_solve(lu, pivots, b;) "let [lu, pivots] = linalg::lu_factor(&tensor!([[2., 0.], [0., 4.]]));\nassert_eq!(linalg::lu_solve(&lu, &pivots, &tensor!([[2.], [2.]])).to_vec::<f32>()?, [1., 0.5]);";
    /// a · a · …, n times; the inverse's for a negative n.
    linalg_matrix_power matrix_power(a; n: i64) "assert_eq!(linalg::matrix_power(&tensor!([[1., 1.], [0., 1.]]), 3).to_vec::<f32>()?, [1., 3., 0., 1.]);";
    /// How many singular values are not negligible.
    linalg_matrix_rank matrix_rank(a;) "assert_eq!(linalg::matrix_rank(&tensor!([[1., 0.], [0., 0.]])).item::<i64>()?, 1);";
    /// The pseudo-inverse.
    linalg_pinv pinv(a;) "let a = tensor!([[1., 0.], [0., 2.], [0., 0.]]);\nassert!((linalg::pinv(&a).matmul(&a) - torch::eye(2)).abs().lt(1e-6).all(..).item::<bool>()?);";
    /// X with a X = b.
    linalg_solve solve(a, b;) "assert_eq!(linalg::solve(&tensor!([[2., 0.], [0., 4.]]), &tensor!([[2.], [2.]])).to_vec::<f32>()?, [1., 0.5]);";
    /// X with a X = b, for a triangle.
    linalg_solve_triangular solve_triangular(a, b; upper: bool) "let x = linalg::solve_triangular(&tensor!([[2., 0.], [2., 1.]]), &tensor!([[2.], [3.]]), false);\nassert_eq!(x.to_vec::<f32>()?, [1., 1.]);";
    /// Singular values, falling.
    linalg_svdvals svdvals(a;) "let s = linalg::svdvals(&tensor!([[3., 0.], [0., 4.]])).to_vec::<f32>()?;\nassert!((s[0] - 4.).abs() < 1e-5 && (s[1] - 3.).abs() < 1e-5);";
    /// The inverse of a tensor as a map from its last dims to its first `ind`.
    linalg_tensorinv tensorinv(a; ind: i64) "assert_eq!(linalg::tensorinv(&torch::eye(4).reshape([4, 2, 2]), 1).shape(), [2, 2, 4]);";
    /// X whose product with a over all dims of X is b.
    linalg_tensorsolve tensorsolve(a, b;) "let x = linalg::tensorsolve(&torch::eye(4).reshape([2, 2, 4]), &torch::ones([2, 2]));\nassert_eq!(x.to_vec::<f32>()?, [1.; 4]);";
    /// The powers 0, 1, 2, … of the numbers of a vector, one row for each.
    linalg_vander vander(x;) "assert_eq!(linalg::vander(&tensor!([2., 3.])).to_vec::<f32>()?, [1., 2., 1., 3.]);";
    /// The scalar product along `dim`.
    linalg_vecdot vecdot(x, y; dim: i64) "assert_eq!(linalg::vecdot(&tensor!([1., 2.]), &tensor!([3., 4.]), -1).item::<f32>()?, 11.);";
}
several! {
    /// [`cholesky`], and an integer that is not 0 where the matrix is not positive definite.
    linalg_cholesky_ex cholesky_ex(a) 2 "let [_, info] = linalg::cholesky_ex(&tensor!([[-1., 0.], [0., 1.]]));\nassert_eq!(info.to(torch::DType::I64).item::<i64>()?, 1);";
    /// Eigenvalues of a symmetric matrix, rising, and its eigenvectors as columns.
    linalg_eigh eigh(a) 2 "let [values, vectors] = linalg::eigh(&tensor!([[3., 0.], [0., 2.]]));\nassert_eq!((values.to_vec::<f32>()?, vectors.shape()), (vec![2., 3.], vec![2, 2]));";
    /// [`inv`], and an integer that is not 0 where there is none.
    linalg_inv_ex inv_ex(a) 2 "let [_, info] = linalg::inv_ex(&torch::zeros([2, 2]));\nassert!(info.to(torch::DType::I64).item::<i64>()? > 0);";
    /// X for which |a X - b| is least, residuals, the rank, singular values.
    linalg_lstsq lstsq(a, b) 4 "let [x, ..] = linalg::lstsq(&tensor!([[1.], [1.]]), &tensor!([[1.], [3.]]));\nassert!((x.item::<f32>()? - 2.).abs() < 1e-5);";
    /// P, L, U with a = P L U.
    linalg_lu lu(a) 3 "let a = tensor!([[1., 2.], [3., 4.]]);\nlet [p, l, u] = linalg::lu(&a);\nassert!((p.matmul(l).matmul(u) - a).abs().lt(1e-6).all(..).item::<bool>()?);";
    /// [`lu`] in one matrix, and which rows were exchanged.
    linalg_lu_factor lu_factor(a) 2 "let [lu, pivots] = linalg::lu_factor(&torch::eye(2));\nassert_eq!((lu.shape(), pivots.shape()), (vec![2, 2], vec![2]));";
    /// [`lu_factor`], and an integer that is not 0 where the matrix is singular.
    linalg_lu_factor_ex lu_factor_ex(a) 3 "let [_, _, info] = linalg::lu_factor_ex(&torch::eye(2));\nassert_eq!(info.to(torch::DType::I64).item::<i64>()?, 0);";
    /// Q with orthonormal columns and an upper triangle R with a = Q R.
    linalg_qr qr(a) 2 "let a = tensor!([[1., 2.], [3., 4.]]);\nlet [q, r] = linalg::qr(&a);\nassert!((q.matmul(r) - a).abs().lt(1e-5).all(..).item::<bool>()?);";
    /// The determinant's sign, and the logarithm of its magnitude.
    linalg_slogdet slogdet(a) 2 "let [sign, log] = linalg::slogdet(&tensor!([[-1., 0.], [0., 1.]]));\nassert_eq!((sign.item::<f32>()?, log.item::<f32>()?), (-1., 0.));";
    /// [`solve`], and an integer that is not 0 where the matrix is singular.
    linalg_solve_ex solve_ex(a, b) 2 "let [x, _] = linalg::solve_ex(&torch::eye(2), &tensor!([[1.], [2.]]));\nassert_eq!(x.to_vec::<f32>()?, [1., 2.]);";
    /// U, singular values falling, Vᵀ with a = U diag(S) Vᵀ; U and Vᵀ are square.
    linalg_svd svd(a) 3 "let [u, s, vh] = linalg::svd(&torch::ones([3, 2]));\nassert_eq!((u.shape(), s.shape(), vh.shape()), (vec![3, 3], vec![2], vec![2, 2]));";
}

/// The product of matrices, multiplied in the order that takes least work.
///
/// # Panics
/// When shapes or dtypes do not fit.
///
/// ```
/// # use rtx_tensor::{self as torch, linalg, tensor};
/// let product = linalg::multi_dot(&[torch::ones([2, 9]), torch::ones([9, 3]), torch::ones([3, 4])]);
/// assert_eq!(product.shape(), [2, 4]);
/// ```
#[track_caller]
pub fn multi_dot<T: AsRef<Tensor>>(parts: &[T]) -> Tensor {
    call::call_one(op!("linalg_multi_dot"), &[list(parts)]).or_panic()
}
/// The Euclidean norm of all elements.
///
/// ```
/// # use rtx_tensor::{self as torch, linalg, tensor};
/// assert_eq!(linalg::norm(&tensor!([3., 4.])).item::<f32>()?, 5.);
/// # Ok::<(), torch::Error>(())
/// ```
#[track_caller]
pub fn norm(x: &Tensor) -> Tensor {
    call::call_bound(op!("linalg_norm"), &[x.into()], &[]).or_panic()
}
/// The norm of matrices: `"fro"`, or `"nuc"`, the sum of singular values.
///
/// # Panics
/// When the word is another, or `x` has fewer than 2 dims.
///
/// ```
/// # use rtx_tensor::{self as torch, linalg, tensor};
/// assert_eq!(linalg::matrix_norm(&tensor!([[3., 0.], [0., 4.]]), "fro").item::<f32>()?, 5.);
/// # Ok::<(), torch::Error>(())
/// ```
#[track_caller]
pub fn matrix_norm(x: &Tensor, order: &'static str) -> Tensor {
    let [norm] = results(call::call("linalg_matrix_norm", &[x.into(), order.into()], &[]));
    norm
}
/// The diagonals of matrices.
///
/// ```
/// # use rtx_tensor::{self as torch, linalg, tensor};
/// assert_eq!(linalg::diagonal(&tensor!([[1, 2], [3, 4]])).to_vec::<i64>()?, [1, 4]);
/// # Ok::<(), torch::Error>(())
/// ```
#[track_caller]
pub fn diagonal(a: &Tensor) -> Tensor {
    call::call_bound(op!("linalg_diagonal"), &[a.into()], &[]).or_panic()
}

/// Tensors as one argument.
pub(crate) fn list<T: AsRef<Tensor>>(parts: &[T]) -> Argument {
    Argument::Tensors(parts.iter().map(|t| t.as_ref().alias()).collect())
}
