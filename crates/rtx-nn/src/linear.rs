//! The affine layer.
use crate::{Layer, Module, Param, functional as F, init};
use rtx_tensor::Tensor;

/// `x · weightᵀ + bias` over the last dim.
///
/// # Shape
/// `[.., inputs]` to `[.., outputs]`; weight `[outputs, inputs]`, bias `[outputs]`.
#[derive(Clone, Debug, Module)]
pub struct Linear {
    /// `[outputs, inputs]`.
    pub weight: Param,
    /// `[outputs]`, or none.
    pub bias: Option<Param>,
}

impl Linear {
    /// Weight and bias uniform within 1/√inputs, as PyTorch draws them.
    pub fn new(inputs: usize, outputs: usize) -> Self {
        let bound = 1.0 / (inputs.max(1) as f64).sqrt();
        let draw = |shape: &[usize]| Param::new(init::uniform(shape, -bound, bound));
        Self { weight: draw(&[outputs, inputs]), bias: Some(draw(&[outputs])) }
    }
    /// Without the bias; its draw was never computed.
    #[must_use]
    pub fn no_bias(self) -> Self {
        Self { bias: None, ..self }
    }
    /// Applies the layer.
    ///
    /// # Panics
    /// When the last dim of `x` is not `inputs`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        F::linear(x, &self.weight, self.bias.as_deref())
    }
}
impl Layer for Linear {
    fn forward(&self, x: &Tensor) -> Tensor {
        Linear::forward(self, x)
    }
}
