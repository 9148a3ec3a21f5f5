//! Activations as layers, for `seq!`.
use crate::{Layer, Mode, Module, Param, functional as F, init};
use rtx_tensor::{Scalar, Tensor, options};

macro_rules! activations { ($($(#[$doc:meta])* $T:ident $f:expr;)*) => { $(
    $(#[$doc])*
    #[derive(Clone, Copy, Debug, Default, Module)]
    pub struct $T;
    impl Layer for $T {
        fn forward(&self, x: &Tensor) -> Tensor {
            let f: fn(&Tensor) -> Tensor = $f;
            f(x)
        }
    }
)* } }
activations! {
    /// `max(x, 0)`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::ReLU.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 2.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ReLU F::relu;
    /// `min(max(x, 0), 6)`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::ReLU6.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.0, 0.0, 2.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ReLU6 Tensor::relu6;
    /// `x · Φ(x)`, by erf.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::GELU.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.15865526, 0.0, 1.9544997]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    GELU F::gelu;
    /// [`GELU`] by its tanh approximation, as GPT-2 has it: `nn.GELU("tanh")`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::GELUTanh.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.158808, 0.0, 1.9545977]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    GELUTanh F::gelu_tanh;
    /// The hyperbolic tangent.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::Tanh.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.76159424, 0.0, 0.9640277]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Tanh Tensor::tanh;
    /// `1 / (1 + e⁻ˣ)`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::Sigmoid.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.26894143, 0.5, 0.880797]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Sigmoid Tensor::sigmoid;
    /// `x · sigmoid(x)`, also called swish.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::SiLU.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.26894143, 0.0, 1.761594]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    SiLU Tensor::silu;
    /// `x · tanh(softplus(x))` (Misra, arXiv:1908.08681).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::Mish.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.30340144, 0.0, 1.9439591]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Mish Tensor::mish;
    /// `log(sigmoid(x))`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::LogSigmoid.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.3132617, -0.6931472, -0.126928]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    LogSigmoid Tensor::log_sigmoid;
    /// `x - tanh(x)`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::Tanhshrink.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.23840576, 0.0, 1.0359724]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Tanhshrink Tensor::tanhshrink;
    /// `min(max(x + 3, 0), 6) / 6`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::Hardsigmoid.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.33333334, 0.5, 0.8333333]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Hardsigmoid Tensor::hardsigmoid;
    /// `x · hardsigmoid(x)`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::Hardswish.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.33333334, 0.0, 1.6666666]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Hardswish Tensor::hardswish;
    /// [`ELU`] with the scales that keep mean and variance (Klambauer et al., arXiv:1706.02515).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::SELU.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.1113307, 0.0, 2.101402]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    SELU Tensor::selu;
    /// What it gets.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::Identity.forward(&tensor!([-1., 0., 2.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 0.0, 2.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Identity Tensor::alias;
    /// [`Softmax`](crate::Softmax) over the channels of `[.., channels, height, width]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::zeros([1, 2, 3, 3]); // two channels, equally likely everywhere
    /// assert!(nn::Softmax2d.forward(&x).eq(0.5).all(..).item::<bool>()?);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Softmax2d |x| x.softmax(-3);
}

/// `x / (1 + |x|)`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer};
/// # use rtx_tensor::{self as torch, tensor};
/// let y = nn::Softsign.forward(&tensor!([-1., 0., 2.]));
/// assert_eq!(y.to_vec::<f32>()?, [-0.5, 0.0, 0.6666667]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Module)]
pub struct Softsign;

impl Layer for Softsign {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.softsign()
    }
}

/// Activations with numbers: a constructor with PyTorch's defaults, a setter for each number.
macro_rules! with_numbers { ($(
    $(#[$doc:meta])* $T:ident { $($(#[$ndoc:meta])* $number:ident = $default:expr),+ } |$s:ident, $x:ident| $f:expr;
)*) => { $(
    $(#[$doc])*
    #[derive(Clone, Copy, Debug, Module)]
    pub struct $T { $($number: f64),+ }
    impl $T {
        /// With PyTorch's defaults.
        pub fn new() -> Self {
            Self { $($number: $default),+ }
        }
        $($(#[$ndoc])*
        #[must_use]
        pub fn $number(self, $number: f64) -> Self {
            #[allow(clippy::needless_update, reason = "some have one number, some more")]
            Self { $number, ..self }
        })+
    }
    impl Default for $T {
        fn default() -> Self {
            Self::new()
        }
    }
    impl Layer for $T {
        fn forward(&self, $x: &Tensor) -> Tensor {
            let $s = self;
            $f
        }
    }
)* } }
with_numbers! {
    /// `x` above 0, `alpha · (eˣ - 1)` below (Clevert et al., arXiv:1511.07289).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ELU::new().alpha(2.);
    /// let y = layer.forward(&tensor!([-2., 0.25, 3.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.7293295, 0.25, 3.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ELU {
        /// What it tends to, far below 0; 1 at first.
        alpha = 1.0
    } |s, x| x.elu_with(options::Elu { alpha: Scalar::Float(s.alpha), ..Default::default() });
    /// `max(x, 0) + min(alpha · (e^(x/alpha) - 1), 0)` (Barron, arXiv:1704.07483).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::CELU::new().alpha(2.);
    /// let y = layer.forward(&tensor!([-2., 0.25, 3.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.2642411, 0.25, 3.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    CELU {
        /// What it tends to, far below 0; 1 at first.
        alpha = 1.0
    } |s, x| x.celu_with(options::Celu { alpha: Scalar::Float(s.alpha) });
    /// `x` above 0, `negative_slope · x` below.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::LeakyReLU::new().negative_slope(0.1);
    /// let y = layer.forward(&tensor!([-2., 0.25, 3.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.2, 0.25, 3.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    LeakyReLU {
        /// 0.01 at first.
        negative_slope = 0.01
    } |s, x| x.leaky_relu_with(options::LeakyRelu { negative_slope: Scalar::Float(s.negative_slope) });
    /// `log(1 + e^(beta · x)) / beta`; `x` itself where `beta · x` is above `threshold`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::Softplus::new().beta(2.).threshold(5.);
    /// let y = layer.forward(&tensor!([-2., 0.25, 3.]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.009074965, 0.4870385, 3.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Softplus {
        /// How sharp its bend is; 1 at first.
        beta = 1.0,
        /// 20 at first.
        threshold = 20.0
    } |s, x| x.softplus_with(options::Softplus { beta: Scalar::Float(s.beta), threshold: Scalar::Float(s.threshold) });
    /// Bounded on both sides.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::Hardtanh::new().min_val(-0.5).max_val(0.5);
    /// let y = layer.forward(&tensor!([-2., 0.25, 3.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.5, 0.25, 0.5]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Hardtanh {
        /// The lower bound, -1 at first.
        min_val = -1.0,
        /// The upper bound, 1 at first.
        max_val = 1.0
    } |s, x| x.hardtanh_with(options::Hardtanh { min_val: Scalar::Float(s.min_val), max_val: Scalar::Float(s.max_val) });
    /// 0 within `lambd` of 0, `x` elsewhere.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::Hardshrink::new().lambd(1.);
    /// let y = layer.forward(&tensor!([-2., 0.25, 3.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-2.0, 0.0, 3.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Hardshrink {
        /// 0.5 at first.
        lambd = 0.5
    } |s, x| x.hardshrink_with(options::Hardshrink { lambd: Scalar::Float(s.lambd) });
    /// 0 within `lambd` of 0, nearer to 0 by `lambd` elsewhere.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::Softshrink::new().lambd(1.);
    /// let y = layer.forward(&tensor!([-2., 0.25, 3.]));
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, 0.0, 2.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Softshrink {
        /// 0.5 at first.
        lambd = 0.5
    } |s, x| x.softshrink_with(options::Softshrink { lambd: Scalar::Float(s.lambd) });
}

/// `x` above `threshold`, `value` elsewhere.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::Threshold::new(0.5, -1.);
/// assert_eq!(layer.forward(&tensor!([0.25, 3.])).to_vec::<f32>()?, [-1., 3.]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct Threshold {
    threshold: f64,
    value: f64,
}
impl Threshold {
    /// These two.
    pub fn new(threshold: f64, value: f64) -> Self {
        Self { threshold, value }
    }
}
impl Layer for Threshold {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.threshold(self.threshold, self.value)
    }
}

/// The first half of a dim, times the sigmoid of the second (Dauphin et al., arXiv:1612.08083).
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let y = nn::GLU::new(-1).forward(&tensor!([2., 4., 0., 0.])); // halves: a · sigmoid(b)
/// assert_eq!(y.to_vec::<f32>()?, [1., 2.]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct GLU {
    dim: i64,
}
impl GLU {
    /// Halves of this dim, -1 in PyTorch's default.
    pub fn new(dim: i64) -> Self {
        Self { dim }
    }
}
impl Default for GLU {
    fn default() -> Self {
        Self::new(-1)
    }
}
impl Layer for GLU {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.glu_with(options::Glu { dim: self.dim })
    }
}

/// `x` above 0, a trained slope times `x` below (He et al., arXiv:1502.01852).
///
/// # Shape
/// Any; with several slopes, one for each channel of `[batch, channels, ..]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::PReLU::new(1).init(0.5); // one slope, learned
/// assert_eq!(layer.forward(&tensor!([-2., 3.])).to_vec::<f32>()?, [-1., 3.]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct PReLU {
    /// `[slopes]`, 0.25 at first.
    pub weight: Param,
}
impl PReLU {
    /// One slope for all, or one for each of so many channels.
    pub fn new(slopes: usize) -> Self {
        Self { weight: Param::new(init::constant(&[slopes], 0.25)) }
    }
    /// Another first slope.
    #[must_use]
    pub fn init(self, slope: f64) -> Self {
        init::constant_(&self.weight, slope);
        self
    }
}
impl Default for PReLU {
    fn default() -> Self {
        Self::new(1)
    }
}
impl Layer for PReLU {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.prelu(&self.weight)
    }
}

/// A function of a dim that sums to 1, or its logarithm.
macro_rules! over_a_dim { ($($(#[$doc:meta])* $T:ident $f:ident;)*) => { $(
    $(#[$doc])*
    #[derive(Clone, Copy, Debug, Module)]
    pub struct $T {
        dim: i64,
    }
    impl $T {
        /// Over this dim; -1 is the last.
        pub fn new(dim: i64) -> Self {
            Self { dim }
        }
    }
    impl Layer for $T {
        fn forward(&self, x: &Tensor) -> Tensor {
            x.$f(self.dim)
        }
    }
)* } }
over_a_dim! {
    /// Exponentials along a dim, scaled to sum to 1.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::Softmax::new(-1).forward(&torch::zeros([2, 4]));
    /// assert_eq!(y.to_vec::<f32>()?, [0.25; 8]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Softmax softmax;
    /// The logarithm of [`Softmax`].
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::LogSoftmax::new(-1).forward(&torch::zeros([2]));
    /// assert_eq!(y.to_vec::<f32>()?, [-0.6931472; 2]); // -log 2
    /// # Ok::<(), torch::Error>(())
    /// ```
    LogSoftmax log_softmax;
    /// [`Softmax`] of `-x`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::Softmin::new(-1).forward(&tensor!([0., 0., 100.])); // the least gets the most
    /// assert_eq!(y.to_vec::<f32>()?[..2], [0.5, 0.5]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Softmin softmin;
}

/// `x` above 0, `slope · x` below: in training a slope drawn for each element, in evaluation the mean of the bounds (Xu
/// et al., arXiv:1505.00853).
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::RReLU::new().lower(0.25).upper(0.75);
/// layer.eval(); // the slope is the middle one
/// assert_eq!(layer.forward(&tensor!([-2., 3.])).to_vec::<f32>()?, [-1., 3.]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct RReLU {
    lower: f64,
    upper: f64,
    mode: Mode,
}
impl RReLU {
    /// Slopes from 1/8 to 1/3.
    pub fn new() -> Self {
        Self { lower: 1.0 / 8.0, upper: 1.0 / 3.0, mode: Mode::default() }
    }
    /// The least slope.
    #[must_use]
    pub fn lower(self, lower: f64) -> Self {
        Self { lower, ..self }
    }
    /// The largest slope.
    #[must_use]
    pub fn upper(self, upper: f64) -> Self {
        Self { upper, ..self }
    }
}
impl Default for RReLU {
    fn default() -> Self {
        Self::new()
    }
}
impl Layer for RReLU {
    fn forward(&self, x: &Tensor) -> Tensor {
        if self.mode.is_training() {
            return F::rrelu(x, self.lower, self.upper);
        }
        x.leaky_relu_with(options::LeakyRelu { negative_slope: Scalar::Float((self.lower + self.upper) / 2.0) })
    }
}
