//! Layers that change how many places there are: interpolation, pixels from channels, patches.
use crate::{Layer, Module, loss::one};
use rtx_tensor::{Argument, Tensor, call, shape::IntoShape};

/// Interpolation of the dims after batch and channels, to a size or by a factor.
///
/// # Shape
/// `[n, channels, l]`, `[n, channels, h, w]` or `[n, channels, d, h, w]`.
#[derive(Clone, Debug, Module)]
pub struct Upsample {
    #[module(skip)]
    size: Option<Vec<i64>>,
    #[module(skip)]
    scale: Option<Vec<f64>>,
    mode: &'static str,
    #[module(skip)]
    align_corners: Option<bool>,
}
impl Upsample {
    /// To this size: one number for each dim, or one for all.
    pub fn to_size(size: impl IntoShape) -> Self {
        Self { size: Some(size.sizes()), scale: None, mode: "nearest", align_corners: None }
    }
    /// By this factor, `floor(size · factor)`.
    pub fn by(factor: f64) -> Self {
        Self { size: None, scale: Some(vec![factor]), mode: "nearest", align_corners: None }
    }
    /// By a factor for each dim.
    pub fn by_each(factors: &[f64]) -> Self {
        Self { size: None, scale: Some(factors.to_vec()), mode: "nearest", align_corners: None }
    }
    /// `nearest` at first; `nearest-exact`, `linear`, `bilinear`, `bicubic`, `trilinear`, `area`.
    #[must_use]
    pub fn mode(self, mode: &'static str) -> Self {
        Self { mode, ..self }
    }
    /// Do the corners of both grids lie on each other? For the linear and cubic modes.
    #[must_use]
    pub fn align_corners(self, yes: bool) -> Self {
        Self { align_corners: Some(yes), ..self }
    }
    /// Applies the layer.
    ///
    /// # Panics
    /// When the mode does not fit the dims of `x`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let scale = self.scale.as_ref().map(|s| Argument::List(s.iter().map(|&f| f.into()).collect()));
        let kwargs: [(&str, Argument); 4] = [
            ("size", self.size.clone().into()),
            ("scale_factor", scale.unwrap_or(Argument::None)),
            ("mode", self.mode.into()),
            ("align_corners", self.align_corners.into()),
        ];
        one(call("interpolate", &[x.into()], &kwargs))
    }
}
impl Layer for Upsample {
    fn forward(&self, x: &Tensor) -> Tensor {
        Upsample::forward(self, x)
    }
}

macro_rules! rearrangements {
    ($($(#[$doc:meta])* $T:ident $op:literal $(#[$ndoc:meta])* $n:ident;)*) => { $(
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
                one(call($op, &[x.into(), self.$n.into()], &[]))
            }
        }
    )* };
}
rearrangements! {
    /// `[.., c · r², h, w]` to `[.., c, h · r, w · r]` (Shi et al., arXiv:1609.05158).
    PixelShuffle "pixel_shuffle"
    /// So many pixels of one, in each direction.
    factor;
    /// The way back from [`PixelShuffle`].
    PixelUnshuffle "pixel_unshuffle"
    /// So many pixels to one, in each direction.
    factor;
    /// Channels dealt out of groups in turn, `[n, c, ..]` (Zhang et al., arXiv:1707.01083).
    ChannelShuffle "channel_shuffle"
    /// Out of so many groups.
    groups;
}

macro_rules! patches {
    ($T:ident) => {
        impl $T {
            /// How far apart a patch's elements are.
            #[must_use]
            pub fn dilation(self, dilation: impl IntoShape) -> Self {
                Self { dilation: dilation.sizes(), ..self }
            }
            /// Zeros around the picture.
            #[must_use]
            pub fn padding(self, padding: impl IntoShape) -> Self {
                Self { padding: padding.sizes(), ..self }
            }
            /// How far apart patches are.
            #[must_use]
            pub fn stride(self, stride: impl IntoShape) -> Self {
                Self { stride: stride.sizes(), ..self }
            }
            fn options(&self) -> [(&'static str, Argument); 4] {
                [
                    ("kernel_size", self.kernel.clone().into()),
                    ("dilation", self.dilation.clone().into()),
                    ("padding", self.padding.clone().into()),
                    ("stride", self.stride.clone().into()),
                ]
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
#[derive(Clone, Debug, Module)]
pub struct Unfold {
    kernel: Vec<i64>,
    dilation: Vec<i64>,
    padding: Vec<i64>,
    stride: Vec<i64>,
}
impl Unfold {
    /// Patches of this size, one at each place.
    pub fn new(kernel: impl IntoShape) -> Self {
        Self { kernel: kernel.sizes(), dilation: vec![1], padding: vec![0], stride: vec![1] }
    }
    /// Applies the layer.
    ///
    /// # Panics
    /// When a patch does not fit.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        one(call("nn_functional_unfold", &[x.into()], &self.options()))
    }
}
patches!(Unfold);

/// Columns put back as patches of a picture, sums where they overlap: `[n, c · kernel, patches]` to `[n, c, h, w]`.
#[derive(Clone, Debug, Module)]
pub struct Fold {
    size: Vec<i64>,
    kernel: Vec<i64>,
    dilation: Vec<i64>,
    padding: Vec<i64>,
    stride: Vec<i64>,
}
impl Fold {
    /// Pictures of a size from patches of this size, one at each place.
    pub fn new(size: impl IntoShape, kernel: impl IntoShape) -> Self {
        let (size, kernel) = (size.sizes(), kernel.sizes());
        Self { size, kernel, dilation: vec![1], padding: vec![0], stride: vec![1] }
    }
    /// Applies the layer.
    ///
    /// # Panics
    /// When the patches are not as many as the picture has.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        one(call("fold", &[x.into(), self.size.clone().into()], &self.options()))
    }
}
patches!(Fold);
