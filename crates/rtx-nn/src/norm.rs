//! Normalization.
use crate::{Layer, Module, Param, functional as F, init};
use rtx_tensor::Tensor;

/// `(x - mean) / √(var + eps) · weight + bias` over the last dim.
#[derive(Clone, Debug, Module)]
pub struct LayerNorm {
    /// `[width]`, ones at first.
    pub weight: Param,
    /// `[width]`, zeros at first.
    pub bias: Option<Param>,
    eps: f64,
}

impl LayerNorm {
    /// Over a last dim of `width`, eps 1e-5.
    pub fn new(width: usize) -> Self {
        let constant = |value| Param::new(init::constant(&[width], value));
        Self { weight: constant(1.0), bias: Some(constant(0.0)), eps: 1e-5 }
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
    /// Applies the layer.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        F::layer_norm(x, self.weight.shape(), Some(&self.weight), self.bias.as_deref(), self.eps)
    }
}
impl Layer for LayerNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        LayerNorm::forward(self, x)
    }
}
