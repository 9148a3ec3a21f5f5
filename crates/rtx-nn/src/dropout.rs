//! Dropout: nothing happens in evaluation.
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
    /// Does it drop anything now?
    pub(crate) fn is_active(&self) -> bool {
        self.mode.is_training() && self.p > 0.0
    }
    /// Applies the layer.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        if self.is_active() { F::dropout(x, self.p) } else { x.alias() }
    }
}
impl Layer for Dropout {
    fn forward(&self, x: &Tensor) -> Tensor {
        Dropout::forward(self, x)
    }
}

macro_rules! dropouts { ($($(#[$doc:meta])* $T:ident |$x:ident, $p:ident| $dropped:expr;)*) => { $(
    $(#[$doc])*
    #[derive(Clone, Debug, Default, Module)]
    pub struct $T {
        p: f64,
        mode: Mode,
    }
    impl $T {
        /// With probability `p`.
        pub fn new(p: f64) -> Self {
            Self { p, mode: Mode::default() }
        }
        /// Applies the layer.
        #[track_caller]
        pub fn forward(&self, $x: &Tensor) -> Tensor {
            let $p = self.p;
            if !self.mode.is_training() || $p == 0.0 { $x.alias() } else { $dropped }
        }
    }
    impl Layer for $T {
        fn forward(&self, x: &Tensor) -> Tensor {
            $T::forward(self, x)
        }
    }
)* } }
dropouts! {
    /// Dropout of whole channels of `[batch, channels, length]` or `[channels, length]` (Tompson et al., arXiv:1411.4280).
    Dropout1d |x, p| F::dropout1d(x, p);
    /// Dropout of whole channels of `[batch, channels, height, width]`.
    Dropout2d |x, p| F::dropout2d(x, p);
    /// Dropout of whole channels of `[batch, channels, depth, height, width]` or `[channels, depth, height, width]`.
    Dropout3d |x, p| F::dropout3d(x, p);
    /// Dropout that keeps mean and variance, for networks of [`SELU`](crate::SELU).
    AlphaDropout |x, p| F::alpha_dropout(x, p);
    /// [`AlphaDropout`] of whole channels of `[batch, channels, ..]`.
    FeatureAlphaDropout |x, p| F::feature_alpha_dropout(x, p);
}
