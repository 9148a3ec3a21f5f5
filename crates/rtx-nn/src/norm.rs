//! Normalization over the last dims.
use crate::{Layer, Module, Param, functional as F, init};
use rtx_tensor::{Tensor, shape::IntoShape};

/// Sizes of the last dims, for a layer's own use.
fn last_sizes(shape: impl IntoShape) -> Vec<usize> {
    shape.sizes().into_iter().map(|n| usize::try_from(n).unwrap_or(0)).collect()
}

/// `(x - mean) / √(var + eps) · weight + bias` over the last dims.
///
/// # Shape
/// Any that ends in the sizes given, to the same.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let norm = nn::LayerNorm::new(4).eps(1e-5);
/// let y = norm.forward(&tensor!([[1., 2., 3., 4.]])); // mean 0, variance 1
/// assert!(y.mean(..).item::<f32>()?.abs() < 1e-6);
/// assert_eq!((nn::LayerNorm::new([2, 4]).no_bias().num_parameters(), nn::LayerNorm::new(4).no_affine().num_parameters()), (8, 0));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct LayerNorm {
    /// The sizes given, ones at first; or none.
    pub weight: Option<Param>,
    /// The sizes given, zeros at first; or none.
    pub bias: Option<Param>,
    shape: Vec<usize>,
    eps: f64,
}

impl LayerNorm {
    /// Over last dims of these sizes (`768`, `[3, 4]`), eps 1e-5.
    pub fn new(shape: impl IntoShape) -> Self {
        let shape = last_sizes(shape);
        let constant = |value| Some(Param::new(init::constant(&shape, value)));
        Self { weight: constant(1.0), bias: constant(0.0), shape, eps: 1e-5 }
    }
    /// Another eps.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }
    /// Without the bias.
    #[must_use]
    pub fn no_bias(self) -> Self {
        Self { bias: None, ..self }
    }
    /// Without weight and bias.
    #[must_use]
    pub fn no_affine(self) -> Self {
        Self { weight: None, bias: None, ..self }
    }
    /// Applies the layer.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        F::layer_norm(x, self.shape.as_slice(), self.weight.as_deref(), self.bias.as_deref(), self.eps)
    }
}
impl Layer for LayerNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        LayerNorm::forward(self, x)
    }
}

/// `x / √(mean x² + eps) · weight` over the last dims (Zhang and Sennrich, arXiv:1910.07467).
///
/// # Shape
/// Any that ends in the sizes given, to the same.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let norm = nn::RMSNorm::new(2).eps(0.); // mean square 1
/// assert_eq!(norm.forward(&tensor!([[3., 3.]])).to_vec::<f32>()?, [1., 1.]);
/// assert_eq!(nn::RMSNorm::new(2).no_affine().num_parameters(), 0);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct RMSNorm {
    /// The sizes given, ones at first; or none.
    pub weight: Option<Param>,
    shape: Vec<usize>,
    eps: Option<f64>,
}

impl RMSNorm {
    /// Over last dims of these sizes; eps is the dtype's epsilon.
    pub fn new(shape: impl IntoShape) -> Self {
        let shape = last_sizes(shape);
        Self { weight: Some(Param::new(init::constant(&shape, 1.0))), shape, eps: None }
    }
    /// Another eps.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        Self { eps: Some(eps), ..self }
    }
    /// Without the weight.
    #[must_use]
    pub fn no_affine(self) -> Self {
        Self { weight: None, ..self }
    }
    /// Applies the layer.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        F::rms_norm(x, self.shape.as_slice(), self.weight.as_deref(), self.eps)
    }
}
impl Layer for RMSNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        RMSNorm::forward(self, x)
    }
}
