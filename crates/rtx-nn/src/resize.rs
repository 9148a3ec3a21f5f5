//! Layers that change how many places there are: interpolation, pixels from channels, patches.
use crate::{Layer, Module, functional as F};
use rtx_tensor::{Tensor, shape::IntoShape};

/// Interpolation of the dims after batch and channels, to a size or by a factor.
///
/// # Shape
/// `[n, channels, l]`, `[n, channels, h, w]` or `[n, channels, d, h, w]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = tensor!([[[1., 2.]]]);
/// assert_eq!(nn::Upsample::by(2.).forward(&x).to_vec::<f32>()?, [1., 1., 2., 2.]);
/// let layer = nn::Upsample::to_size(3).mode("linear").align_corners(true);
/// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [1., 1.5, 2.]);
/// assert_eq!(nn::Upsample::by_each(&[2., 3.]).forward(&torch::ones([1, 1, 4, 4])).shape(), [1, 1, 8, 12]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Upsample {
    #[module(skip)]
    options: F::Interpolate,
}
impl Upsample {
    /// To this size: one number for each dim, or one for all.
    pub fn to_size(size: impl IntoShape) -> Self {
        Self { options: F::Interpolate { size: size.sizes(), ..F::Interpolate::default() } }
    }
    /// By this factor, `floor(size · factor)`.
    pub fn by(factor: f64) -> Self {
        Self::by_each(&[factor])
    }
    /// By a factor for each dim.
    pub fn by_each(factors: &[f64]) -> Self {
        Self { options: F::Interpolate { scale_factor: factors.to_vec(), ..F::Interpolate::default() } }
    }
    /// `nearest` at first; `nearest-exact`, `linear`, `bilinear`, `bicubic`, `trilinear`, `area`.
    #[must_use]
    pub fn mode(self, mode: &'static str) -> Self {
        Self { options: F::Interpolate { mode, ..self.options } }
    }
    /// Do the corners of both grids lie on each other? For the linear and cubic modes.
    #[must_use]
    pub fn align_corners(self, yes: bool) -> Self {
        Self { options: F::Interpolate { align_corners: Some(yes), ..self.options } }
    }
    /// Applies the layer.
    ///
    /// # Panics
    /// When the mode does not fit the dims of `x`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        F::interpolate(x, &self.options)
    }
}
impl Layer for Upsample {
    fn forward(&self, x: &Tensor) -> Tensor {
        Upsample::forward(self, x)
    }
}

macro_rules! rearrangements {
    ($($(#[$doc:meta])* $T:ident $op:ident $(#[$ndoc:meta])* $n:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Module)]
        pub struct $T {
            $n: i64,
        }
        impl $T {
            $(#[$ndoc])*
            pub fn new($n: usize) -> Self {
                Self { $n: $n as i64 }
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                x.$op(self.$n)
            }
        }
    )* };
}
rearrangements! {
    /// `[.., c · r², h, w]` to `[.., c, h · r, w · r]` (Shi et al., arXiv:1609.05158).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::PixelShuffle::new(2).forward(&torch::ones([1, 8, 3, 3])); // channels become pixels
    /// assert_eq!(y.shape(), [1, 2, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    PixelShuffle pixel_shuffle
    /// So many pixels of one, in each direction.
    factor;
    /// The way back from [`PixelShuffle`].
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::PixelUnshuffle::new(2).forward(&torch::ones([1, 2, 6, 6])); // pixels become channels
    /// assert_eq!(y.shape(), [1, 8, 3, 3]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    PixelUnshuffle pixel_unshuffle
    /// So many pixels to one, in each direction.
    factor;
    /// Channels dealt out of groups in turn, `[n, c, ..]` (Zhang et al., arXiv:1707.01083).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let y = nn::ChannelShuffle::new(2).forward(&torch::arange(0..4).reshape([1, 4, 1, 1]));
    /// assert_eq!(y.to_vec::<i64>()?, [0, 2, 1, 3]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ChannelShuffle channel_shuffle
    /// Out of so many groups.
    groups;
}

macro_rules! patches {
    ($T:ident) => {
        impl $T {
            /// How far apart a patch's elements are.
            #[must_use]
            pub fn dilation(self, dilation: impl IntoShape) -> Self {
                Self { patches: F::Patches { dilation: dilation.sizes(), ..self.patches }, ..self }
            }
            /// Zeros around the picture.
            #[must_use]
            pub fn padding(self, padding: impl IntoShape) -> Self {
                Self { patches: F::Patches { padding: padding.sizes(), ..self.patches }, ..self }
            }
            /// How far apart patches are.
            #[must_use]
            pub fn stride(self, stride: impl IntoShape) -> Self {
                Self { patches: F::Patches { stride: stride.sizes(), ..self.patches }, ..self }
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
    };
}

/// Patches of a picture as columns: `[n, c, h, w]` to `[n, c · kernel, patches]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let patches = nn::Unfold::new(2).stride(2).padding(0).dilation(1).forward(&torch::ones([1, 3, 4, 4]));
/// assert_eq!(patches.shape(), [1, 12, 4]); // four patches of 3 · 2 · 2 numbers
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Unfold {
    kernel: Vec<i64>,
    #[module(skip)]
    patches: F::Patches,
}
impl Unfold {
    /// Patches of this size, one at each place.
    pub fn new(kernel: impl IntoShape) -> Self {
        Self { kernel: kernel.sizes(), patches: F::Patches::default() }
    }
    /// Applies the layer.
    ///
    /// # Panics
    /// When a patch does not fit.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        F::unfold(x, &self.kernel, &self.patches)
    }
}
patches!(Unfold);

/// Columns put back as patches of a picture, sums where they overlap: `[n, c · kernel, patches]` to `[n, c, h, w]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let image = nn::Fold::new([4, 4], 2).stride(2).padding(0).dilation(1).forward(&torch::ones([1, 12, 4]));
/// assert_eq!(image.shape(), [1, 3, 4, 4]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Fold {
    size: Vec<i64>,
    kernel: Vec<i64>,
    #[module(skip)]
    patches: F::Patches,
}
impl Fold {
    /// Pictures of a size from patches of this size, one at each place.
    pub fn new(size: impl IntoShape, kernel: impl IntoShape) -> Self {
        Self { size: size.sizes(), kernel: kernel.sizes(), patches: F::Patches::default() }
    }
    /// Applies the layer.
    ///
    /// # Panics
    /// When the patches are not as many as the picture has.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        F::fold(x, &self.size, &self.kernel, &self.patches)
    }
}
patches!(Fold);
