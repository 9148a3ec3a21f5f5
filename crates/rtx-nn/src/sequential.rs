//! Layers one after the other.
use crate::{Layer, Module, Visitor};
use rtx_tensor::{Tensor, in_scope};

/// Layers one after the other. A mistake inside says `in: layer 3`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let net = nn::Sequential::new(vec![Box::new(nn::Linear::new(3, 4)), Box::new(nn::ReLU)]);
/// assert_eq!(net.forward(&torch::ones([2, 3])).shape(), [2, 4]);
/// assert_eq!(net.layers().len(), 2);
/// assert_eq!(net.named_parameters()[0].0, "0.weight");
/// # Ok::<(), torch::Error>(())
/// ```
pub struct Sequential(Vec<Box<dyn Layer>>);

impl Sequential {
    /// In this order; [`seq!`](crate::seq) boxes them.
    pub fn new(layers: Vec<Box<dyn Layer>>) -> Self {
        Self(layers)
    }
    /// The layers.
    pub fn layers(&self) -> &[Box<dyn Layer>] {
        &self.0
    }
}
impl Module for Sequential {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.iter().enumerate().for_each(|(i, layer)| visitor.scope(&i.to_string(), |v| layer.visit(v)));
    }
}
impl Layer for Sequential {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.alias();
        for (i, layer) in self.0.iter().enumerate() {
            x = in_scope(format!("layer {i}"), || layer.forward(&x));
        }
        x
    }
}

/// Layers one after the other.
///
/// ```
/// use rtx_nn::{Layer, Linear, Module, ReLU, seq};
/// let net = seq![Linear::new(784, 256), ReLU, Linear::new(256, 10)];
/// assert_eq!(net.forward(&rtx_tensor::ones([2, 784])).shape(), [2, 10]);
/// assert_eq!(net.named_parameters()[2].0, "2.weight"); // as PyTorch names them
/// ```
#[macro_export]
macro_rules! seq {
    ($($layer:expr),* $(,)?) => {
        $crate::Sequential::new(vec![$(Box::new($layer) as Box<dyn $crate::Layer>),*])
    };
}
