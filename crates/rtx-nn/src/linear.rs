//! The affine layers.
use crate::call::one;
use crate::{Layer, Module, Param, functional as F, init};
use rtx_tensor::{Argument, Tensor, call};

/// `x · weightᵀ + bias` over the last dim.
///
/// # Shape
/// `[.., inputs]` to `[.., outputs]`; weight `[outputs, inputs]`, bias `[outputs]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::Linear::new(3, 2);
/// assert_eq!(layer.forward(&torch::ones([5, 3])).shape(), [5, 2]);
/// assert_eq!(layer.weight.shape(), [2, 3]);
/// assert!(nn::Linear::new(3, 2).no_bias().bias.is_none());
/// # Ok::<(), torch::Error>(())
/// ```
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

/// `x₁ᵀ · weight[o] · x₂ + bias[o]` for each output.
///
/// # Shape
/// `[.., inputs1]` and `[.., inputs2]` to `[.., outputs]`; weight `[outputs, inputs1, inputs2]`, bias `[outputs]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::Bilinear::new(3, 4, 2).no_bias();
/// assert_eq!(layer.forward(&torch::ones([5, 3]), &torch::ones([5, 4])).shape(), [5, 2]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Bilinear {
    /// `[outputs, inputs1, inputs2]`.
    pub weight: Param,
    /// `[outputs]`, or none.
    pub bias: Option<Param>,
}

impl Bilinear {
    /// Weight and bias uniform within 1/√inputs1, as PyTorch draws them.
    pub fn new(inputs1: usize, inputs2: usize, outputs: usize) -> Self {
        let bound = 1.0 / (inputs1.max(1) as f64).sqrt();
        let draw = |shape: &[usize]| Param::new(init::uniform(shape, -bound, bound));
        Self { weight: draw(&[outputs, inputs1, inputs2]), bias: Some(draw(&[outputs])) }
    }
    /// Without the bias.
    #[must_use]
    pub fn no_bias(self) -> Self {
        Self { bias: None, ..self }
    }
    /// Applies the layer.
    ///
    /// # Panics
    /// When the last dims are not `inputs1` and `inputs2`, or the others differ.
    #[track_caller]
    pub fn forward(&self, x1: &Tensor, x2: &Tensor) -> Tensor {
        let args: [Argument; 4] = [x1.into(), x2.into(), (&*self.weight).into(), self.bias.as_deref().into()];
        one(call("bilinear", &args, &[]))
    }
}
