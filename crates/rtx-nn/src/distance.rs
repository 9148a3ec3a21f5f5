//! How near vectors are.
use crate::Module;
use crate::call::one;
use rtx_tensor::{Tensor, call};

/// x₁ · x₂ / (|x₁| |x₂|) along a dim.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let (x1, x2) = (tensor!([[3., 4.]]), tensor!([[6., 8.]]));
/// let y = nn::CosineSimilarity::new(1).eps(1e-8).forward(&x1, &x2);
/// assert!((y.item::<f32>()? - 1.).abs() < 1e-6);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct CosineSimilarity {
    dim: i64,
    eps: f64,
}
impl CosineSimilarity {
    /// Along this dim (PyTorch's default is 1); lengths below 1e-8 count as 1e-8.
    pub fn new(dim: i64) -> Self {
        Self { dim, eps: 1e-8 }
    }
    /// Another least length.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }
    /// Of each pair.
    #[track_caller]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Tensor {
        let length = |x: &Tensor| (x * x).sum(self.dim).sqrt().clamp_min(self.eps);
        (x1 * x2).sum(self.dim) / (length(x1) * length(x2))
    }
}

/// ‖x₁ - x₂ + eps‖ₚ over the last dim.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let (x1, x2) = (tensor!([[0., 0.]]), tensor!([[3., 4.]]));
/// let y = nn::PairwiseDistance::new().p(2.).eps(0.).keep_dim().forward(&x1, &x2);
/// assert_eq!((y.shape(), y.item::<f32>()?), (vec![1, 1], 5.));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct PairwiseDistance {
    p: f64,
    eps: f64,
    keep: bool,
}
impl PairwiseDistance {
    /// The 2-norm, eps 1e-6.
    pub fn new() -> Self {
        Self { p: 2.0, eps: 1e-6, keep: false }
    }
    /// Another norm.
    #[must_use]
    pub fn p(self, p: f64) -> Self {
        Self { p, ..self }
    }
    /// Another number added to each difference, so that the gradient exists where vectors are equal.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }
    /// Keeps the last dim, of size 1.
    #[must_use]
    pub fn keep_dim(self) -> Self {
        Self { keep: true, ..self }
    }
    /// Of each pair.
    #[track_caller]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Tensor {
        let away = x1 - x2 + self.eps;
        let args = [(&away).into(), self.p.into(), vec![-1].into(), self.keep.into()];
        one(call("linalg_vector_norm", &args, &[]))
    }
}
impl Default for PairwiseDistance {
    fn default() -> Self {
        Self::new()
    }
}
