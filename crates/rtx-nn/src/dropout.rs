//! Dropout: nothing happens in evaluation.
use crate::{Layer, Mode, Module, functional as F};
use rtx_tensor::Tensor;

/// In training, each element is zero with probability `p` and the rest is scaled by 1/(1-p); in evaluation nothing
/// happens.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::Dropout::new(0.5);
/// let y = layer.forward(&torch::ones([100]));
/// assert!(y.eq(0).logical_or(y.eq(2)).all(..).item::<bool>()?); // dropped, or doubled
/// layer.eval();
/// assert_eq!(layer.forward(&tensor!([1., 2.])).to_vec::<f32>()?, [1., 2.]);
/// # Ok::<(), torch::Error>(())
/// ```
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
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::Dropout1d::new(0.5);
    /// let y = layer.forward(&torch::ones([8, 4, 8])); // a channel is there, doubled, or it is not
    /// assert!(y.eq(0).logical_or(y.eq(2)).all(..).item::<bool>()?);
    /// layer.eval();
    /// assert_eq!(layer.forward(&torch::ones([1, 2, 8])).sum(..).item::<f32>()?, 16.);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Dropout1d |x, p| F::dropout1d(x, p);
    /// Dropout of whole channels of `[batch, channels, height, width]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::Dropout2d::new(0.5);
    /// let y = layer.forward(&torch::ones([8, 4, 8, 8])); // a channel is there, doubled, or it is not
    /// assert!(y.eq(0).logical_or(y.eq(2)).all(..).item::<bool>()?);
    /// layer.eval();
    /// assert_eq!(layer.forward(&torch::ones([1, 2, 8, 8])).sum(..).item::<f32>()?, 128.);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Dropout2d |x, p| F::dropout2d(x, p);
    /// Dropout of whole channels of `[batch, channels, depth, height, width]` or `[channels, depth, height, width]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::Dropout3d::new(0.5);
    /// let y = layer.forward(&torch::ones([8, 4, 8, 8, 8])); // a channel is there, doubled, or it is not
    /// assert!(y.eq(0).logical_or(y.eq(2)).all(..).item::<bool>()?);
    /// layer.eval();
    /// assert_eq!(layer.forward(&torch::ones([1, 2, 8, 8, 8])).sum(..).item::<f32>()?, 1024.);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Dropout3d |x, p| F::dropout3d(x, p);
    /// Dropout that keeps mean and variance, for networks of [`SELU`](crate::SELU).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::AlphaDropout::new(0.5);
    /// assert_eq!(layer.forward(&torch::randn([2, 3, 4])).shape(), [2, 3, 4]);
    /// layer.eval(); // nothing happens
    /// assert_eq!(layer.forward(&tensor!([[[1., 2.]]])).to_vec::<f32>()?, [1., 2.]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AlphaDropout |x, p| F::alpha_dropout(x, p);
    /// [`AlphaDropout`] of whole channels of `[batch, channels, ..]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::FeatureAlphaDropout::new(0.5);
    /// assert_eq!(layer.forward(&torch::randn([2, 3, 4])).shape(), [2, 3, 4]);
    /// layer.eval(); // nothing happens
    /// assert_eq!(layer.forward(&tensor!([[[1., 2.]]])).to_vec::<f32>()?, [1., 2.]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    FeatureAlphaDropout |x, p| F::feature_alpha_dropout(x, p);
}
