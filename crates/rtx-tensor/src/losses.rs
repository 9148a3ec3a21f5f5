//! Losses and distances of `torch.nn.functional` that are no methods, and what else takes several tensors of one rank.
use crate::{
    Tensor,
    call::{self, Argument, op},
    failure::OrPanic,
};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($tensor:ident),+; $($number:ident: $ty:ty),*);)*) => { $(
        $(#[$doc])*
        ///
        /// # Panics
        /// When shapes or dtypes do not fit, or a number is refused.
        #[track_caller]
        pub fn $name($($tensor: &Tensor,)+ $($number: $ty),*) -> Tensor {
            let args: &[Argument] = &[$($tensor.into()),+];
            call::call_bound(op!(stringify!($name)), args, &[$((stringify!($number), $number.into())),*]).or_panic()
        }
    )* };
}

functions! {
    /// max(0, margin − target (x1 − x2)): a target of 1 wants x1 larger, −1 smaller.
    margin_ranking_loss(x1, x2, target; margin: f64, reduction: &'static str);
    /// 1 − cos for targets of 1, max(0, cos − margin) for −1.
    cosine_embedding_loss(x1, x2, target; margin: f64, reduction: &'static str);
    /// max(0, margin + d(anchor, positive) − d(anchor, negative)).
    triplet_margin_loss(anchor, positive, negative; margin: f64, p: f64, swap: bool, reduction: &'static str);
    /// exp x − target · x, or x − target · log(x + eps) without `log_input`.
    poisson_nll_loss(x, target; log_input: bool, full: bool, eps: f64, reduction: &'static str);
    /// (log var + (x − target)² / var) / 2.
    gaussian_nll_loss(x, target, var; full: bool, eps: f64, reduction: &'static str);
    /// Cross entropy of x · weightᵀ against classes or probabilities.
    linear_cross_entropy(x, weight, target; reduction: &'static str);
    /// The cosine of the angle between vectors along `dim`.
    cosine_similarity(x1, x2; dim: i64, eps: f64);
    /// The p-norm of x1 − x2 over the last dim.
    pairwise_distance(x1, x2; p: f64, eps: f64, keepdim: bool);
    /// The p-norms of the differences of all rows of x1 to all rows of x2.
    cdist(x1, x2; p: f64);
}
