//! Layers one after the other.
use crate::{Layer, Module, Visitor};
use rtx_tensor::{Tensor, in_scope};

/// Layers one after the other. A mistake inside says `in: layer 3`.
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

/// Layers one after the other: `seq![Linear::new(784, 256), ReLU, Linear::new(256, 10)]`.
#[macro_export]
macro_rules! seq {
    ($($layer:expr),* $(,)?) => {
        $crate::Sequential::new(vec![$(Box::new($layer) as Box<dyn $crate::Layer>),*])
    };
}
