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
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let loss = F::margin_ranking_loss(&tensor!([1.]), &tensor!([2.]), &tensor!([1.]), 0., "mean");
    /// assert_eq!(loss.item::<f32>()?, 1.);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    margin_ranking_loss(x1, x2, target; margin: f64, reduction: &'static str);
    /// 1 − cos for targets of 1, max(0, cos − margin) for −1.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let x = tensor!([[1., 0.]]);
    /// assert_eq!(F::cosine_embedding_loss(&x, &x, &tensor!([1.]), 0., "mean").item::<f32>()?, 0.);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    cosine_embedding_loss(x1, x2, target; margin: f64, reduction: &'static str);
    /// max(0, margin + d(anchor, positive) − d(anchor, negative)).
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let (a, far) = (tensor!([[0., 0.]]), tensor!([[3., 4.]]));
    /// assert!(F::triplet_margin_loss(&a, &a, &far, 1., 2., false, "mean").item::<f32>()? < 1e-3);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    triplet_margin_loss(anchor, positive, negative; margin: f64, p: f64, swap: bool, reduction: &'static str);
    /// exp x − target · x, or x − target · log(x + eps) without `log_input`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let loss = F::poisson_nll_loss(&tensor!([0.]), &tensor!([2.]), true, false, 1e-8, "mean");
    /// assert_eq!(loss.item::<f32>()?, 1.);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    poisson_nll_loss(x, target; log_input: bool, full: bool, eps: f64, reduction: &'static str);
    /// (log var + (x − target)² / var) / 2.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let loss = F::gaussian_nll_loss(&tensor!([1.]), &tensor!([3.]), &tensor!([1.]), false, 1e-6, "mean");
    /// assert_eq!(loss.item::<f32>()?, 2.);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    gaussian_nll_loss(x, target, var; full: bool, eps: f64, reduction: &'static str);
    /// Cross entropy of x · weightᵀ against classes or probabilities.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let loss = F::linear_cross_entropy(&torch::ones([2, 3]), &torch::zeros([4, 3]), &tensor!([0, 1]), "mean");
    /// assert!((loss.item::<f32>()? - 4_f32.ln()).abs() < 1e-6);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    linear_cross_entropy(x, weight, target; reduction: &'static str);
    /// The cosine of the angle between vectors along `dim`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let x = tensor!([[3., 4.]]);
    /// assert!((F::cosine_similarity(&x, &x, 1, 1e-8).item::<f32>()? - 1.).abs() < 1e-6);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    cosine_similarity(x1, x2; dim: i64, eps: f64);
    /// The p-norm of x1 − x2 over the last dim.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let (x1, x2) = (tensor!([[3., 4.]]), tensor!([[0., 0.]]));
    /// assert_eq!(F::pairwise_distance(&x1, &x2, 2., 0., false).item::<f32>()?, 5.);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pairwise_distance(x1, x2; p: f64, eps: f64, keepdim: bool);
    /// The p-norms of the differences of all rows of x1 to all rows of x2.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let (x1, x2) = (tensor!([[3., 4.]]), tensor!([[0., 0.]]));
    /// assert_eq!(F::cdist(&x1, &x2, 2.).item::<f32>()?, 5.);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    cdist(x1, x2; p: f64);
}
