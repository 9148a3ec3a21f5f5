//! Dropout: nothing happens in evaluation.
use crate::{Layer, Mode, Module, functional as F};
use rtx_tensor::{Tensor, no_grad};

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

/// Which elements stand or fall together: those under the first dims up to the channel.
fn noise_shape(x: &Tensor, dims: usize) -> Vec<usize> {
    let shape = x.shape();
    let kept = shape.len().saturating_sub(dims);
    shape.iter().enumerate().map(|(i, &n)| if i < kept { n } else { 1 }).collect()
}
/// 1/(1-p) with probability 1-p, else 0.
fn noise(x: &Tensor, shape: Vec<usize>, p: f64) -> Tensor {
    no_grad(|| F::dropout(&x.new_ones(shape), p))
}

/// What SELU tends to, far below 0: -scale · alpha.
const SELU_FLOOR: f64 = -1.758_099_340_847_376_6;

/// What dropped elements become, so that mean 0 and variance 1 stay: dropped to SELU's floor, then moved and scaled
/// (Klambauer et al., arXiv:1706.02515).
fn alpha_dropout(x: &Tensor, shape: Vec<usize>, p: f64) -> Tensor {
    let scale = 1.0 / ((1.0 - p) * (1.0 + p * SELU_FLOOR * SELU_FLOOR)).sqrt();
    let shift = -scale * p * SELU_FLOOR;
    let kept = noise(x, shape, p).gt(0);
    kept.if_else(x, SELU_FLOOR) * scale + shift
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
    /// Dropout of whole channels of `[.., channels, length]` (Tompson et al., arXiv:1411.4280).
    Dropout1d |x, p| x * noise(x, noise_shape(x, 1), p);
    /// Dropout of whole channels of `[.., channels, height, width]`.
    Dropout2d |x, p| x * noise(x, noise_shape(x, 2), p);
    /// Dropout of whole channels of `[.., channels, depth, height, width]`.
    Dropout3d |x, p| x * noise(x, noise_shape(x, 3), p);
    /// Dropout that keeps mean and variance, for networks of [`SELU`](crate::SELU).
    AlphaDropout |x, p| alpha_dropout(x, x.shape(), p);
    /// [`AlphaDropout`] of whole channels of `[batch, channels, ..]`.
    FeatureAlphaDropout |x, p| alpha_dropout(x, noise_shape(x, x.rank().saturating_sub(2)), p);
}
