//! Dropout.
use crate::{Layer, Mode, Module, functional as F};
use rtx_tensor::Tensor;

/// In training, each element is zero with probability `p` and the rest is scaled by 1/(1-p); in evaluation nothing
/// happens.
#[derive(Clone, Debug, Default, Module)]
pub struct Dropout {
    p: f64,
    mode: Mode,
}

impl Dropout {
    /// With probability `p`.
    pub fn new(p: f64) -> Self {
        Self { p, mode: Mode::default() }
    }
    /// Applies the layer.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if self.mode.is_training() && self.p > 0.0 { F::dropout(x, self.p) } else { x.alias() }
    }
}
impl Layer for Dropout {
    fn forward(&self, x: &Tensor) -> Tensor {
        Dropout::forward(self, x)
    }
}
