//! A weight as a length and a direction.
use crate::{Layer, Linear, Module, Param, Visitor, functional as F};
use rtx_tensor::{Tensor, keep, no_grad};

/// A layer that applies a weight that it is given.
pub trait Weighted: Layer {
    /// The layer's own weight.
    fn weight(&self) -> &Param;
    /// The layer's own bias.
    fn bias(&self) -> Option<&Param>;
    /// Applies the layer with this weight in place of its own.
    fn forward_with_weight(&self, x: &Tensor, weight: &Tensor) -> Tensor;
}
impl Weighted for Linear {
    fn weight(&self) -> &Param {
        &self.weight
    }
    fn bias(&self) -> Option<&Param> {
        self.bias.as_ref()
    }
    fn forward_with_weight(&self, x: &Tensor, weight: &Tensor) -> Tensor {
        F::linear(x, weight, self.bias.as_deref())
    }
}

/// A layer whose weight is g · v / ‖v‖, a length for each output (Salimans and Kingma, arXiv:1602.07868). Its state is
/// what PyTorch's `parametrizations.weight_norm` saves: `parametrizations.weight.original0` (g) and `original1` (v).
///
/// ```
/// use rtx_nn::{Layer, Linear, WeightNorm};
/// # fn main() -> rtx_core::Result<()> {
/// let plain = Linear::new(3, 2);
/// let x = rtx_tensor::ones([1, 3]);
/// let before = plain.forward(&x);
/// let normed = WeightNorm::new(plain);
/// assert!((normed.forward(&x) - before).abs().amax(..).item::<f32>()? < 1e-6);
/// # Ok(()) }
/// ```
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::WeightNorm::new(nn::Linear::new(3, 2)); // a length and a direction for each row
/// assert_eq!(layer.forward(&torch::ones([1, 3])).shape(), [1, 2]);
/// assert_eq!((layer.length.shape(), layer.weight().shape()), (vec![2, 1], vec![2, 3]));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Debug)]
pub struct WeightNorm<L> {
    layer: L,
    /// Lengths, `[outputs, 1, ..]`.
    pub length: Param,
    /// Directions, of the weight's shape.
    pub direction: Param,
}

impl<L: Weighted> WeightNorm<L> {
    /// The same layer; length and direction are its weight's.
    pub fn new(layer: L) -> Self {
        let direction = layer.weight().clone();
        let length = no_grad(|| Param::new(norm(&direction)));
        Self { layer, length, direction }
    }
    /// The weight that they make.
    pub fn weight(&self) -> Tensor {
        &self.direction * (&self.length / norm(&self.direction))
    }
}

/// The 2-norm of all but the first dim, kept as dims of size 1.
fn norm(v: &Tensor) -> Tensor {
    let dims: Vec<i64> = (1..v.rank() as i64).collect();
    (v * v).sum(keep(dims.as_slice())).sqrt()
}

impl<L: Weighted> Module for WeightNorm<L> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(bias) = self.layer.bias() {
            visitor.leaf("bias", crate::Leaf::Param(bias));
        }
        visitor.scope("parametrizations", |v| {
            v.scope("weight", |v| {
                v.leaf("original0", crate::Leaf::Param(&self.length));
                v.leaf("original1", crate::Leaf::Param(&self.direction));
            });
        });
    }
}
impl<L: Weighted> Layer for WeightNorm<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.layer.forward_with_weight(x, &self.weight())
    }
}
