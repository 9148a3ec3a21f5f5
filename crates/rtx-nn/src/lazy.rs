//! Layers whose input size is read off the first tensor that they see.
use crate::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
    InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, Layer, Linear, Mode, Module, Visitor,
};
use rtx_tensor::{Tensor, shape::IntoShape};
use std::fmt;
use std::sync::OnceLock;

/// A layer that is made when it is first called, for the shape of what it is given. Until then it has no parameters:
/// call it once before an optimizer takes them or a file is loaded.
///
/// ```
/// use rtx_nn::{LazyLinear, Layer, Module};
/// let layer = LazyLinear::new(2);
/// assert_eq!(layer.num_parameters(), 0);
/// layer.forward(&rtx_tensor::ones([4, 3]));
/// assert_eq!(layer.num_parameters(), 8);
/// ```
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::LazyLinear::new(4);
/// assert!(layer.layer().is_none());
/// assert_eq!(layer.forward(&torch::ones([2, 7])).shape(), [2, 4]); // the first input says how many features
/// assert_eq!(layer.layer().expect("made").weight.shape(), [4, 7]);
///
/// // With settings, and a layer of your own making.
/// let layer = nn::LazyConv2d::new(8, 3).with(|layer| layer.padding(1));
/// assert_eq!(layer.forward(&torch::ones([1, 3, 5, 5])).shape(), [1, 8, 5, 5]);
/// let layer = nn::Lazy::from_fn(|shape| nn::Linear::new(shape[1], shape[1]));
/// assert_eq!(layer.forward(&torch::ones([2, 7])).shape(), [2, 7]);
/// # Ok::<(), torch::Error>(())
/// ```
pub struct Lazy<L> {
    made: OnceLock<L>,
    make: Box<dyn Fn(&[usize]) -> L + Send + Sync>,
    mode: Mode,
}

impl<L: Layer + 'static> Lazy<L> {
    /// `make` gets the shape of the first input.
    pub fn from_fn(make: impl Fn(&[usize]) -> L + Send + Sync + 'static) -> Self {
        Self { made: OnceLock::new(), make: Box::new(make), mode: Mode::default() }
    }
    /// With settings: `LazyConv2d::new(8, 3).with(|layer| layer.padding(1))`.
    #[must_use]
    pub fn with(self, set: impl Fn(L) -> L + Send + Sync + 'static) -> Self {
        let make = self.make;
        Self::from_fn(move |shape| set(make(shape)))
    }
    /// The layer, if it has been made.
    pub fn layer(&self) -> Option<&L> {
        self.made.get()
    }
    fn layer_for(&self, x: &Tensor) -> &L {
        self.made.get_or_init(|| {
            let made = (self.make)(&x.shape());
            if !self.mode.is_training() {
                made.eval();
            }
            made
        })
    }
}
impl<L: Layer> Module for Lazy<L> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.leaf("", crate::Leaf::Mode(&self.mode));
        if let Some(layer) = self.made.get() {
            layer.visit(visitor);
        }
    }
}
impl<L: Layer + 'static> Layer for Lazy<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.layer_for(x).forward(x)
    }
}
impl<L: fmt::Debug> fmt::Debug for Lazy<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.made.get() {
            Some(layer) => layer.fmt(f),
            None => f.write_str("Lazy(not made yet)"),
        }
    }
}

/// The size of the `back`th dim from the end, 1 for the last.
fn from_end(shape: &[usize], back: usize) -> usize {
    shape.len().checked_sub(back).map_or(0, |i| shape[i])
}

/// [`Linear`] of as many inputs as there are.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::LazyLinear::new(4);
/// assert_eq!(layer.forward(&torch::ones([2, 7])).shape(), [2, 4]);
/// # Ok::<(), torch::Error>(())
/// ```
pub type LazyLinear = Lazy<Linear>;
impl Lazy<Linear> {
    /// To so many outputs.
    pub fn new(outputs: usize) -> Self {
        Self::from_fn(move |shape| Linear::new(from_end(shape, 1), outputs))
    }
}

macro_rules! convolutions { ($($Name:ident $T:ident $dims:literal $sizes:literal;)*) => { $(
    #[doc = concat!("[`", stringify!($T), "`] of as many channels as there are.\n\n```\n# use rtx_nn::{self as nn, Layer};\n\
        let layer = nn::", stringify!($Name), "::new(4, 3);\nlet y = layer.forward(&rtx_tensor::ones([2, 3", $sizes, "]));\n\
        assert_eq!(y.shape()[1], 4);\n```")]
    pub type $Name = Lazy<$T>;
    impl Lazy<$T> {
        /// To so many channels, with a kernel of this size.
        #[doc = concat!("\n```\n# use rtx_nn::{self as nn, Layer};\nlet layer = nn::", stringify!($Name),
            "::new(4, 3);\nassert_eq!(layer.forward(&rtx_tensor::ones([2, 3", $sizes, "])).shape()[1], 4);\n```")]
        pub fn new(outputs: usize, kernel: impl IntoShape) -> Self {
            let kernel = kernel.sizes();
            Self::from_fn(move |shape| $T::new(from_end(shape, $dims + 1), outputs, kernel.as_slice()))
        }
    }
)* } }
convolutions! {
    LazyConv1d Conv1d 1 ", 8";
    LazyConv2d Conv2d 2 ", 8, 8";
    LazyConv3d Conv3d 3 ", 8, 8, 8";
    LazyConvTranspose1d ConvTranspose1d 1 ", 8";
    LazyConvTranspose2d ConvTranspose2d 2 ", 8, 8";
    LazyConvTranspose3d ConvTranspose3d 3 ", 8, 8, 8";
}

macro_rules! norms { ($($Name:ident $T:ident $sizes:literal |$shape:ident| $channels:expr;)*) => { $(
    #[doc = concat!("[`", stringify!($T), "`] of as many channels as there are.\n\n```\n# use rtx_nn::{self as nn, Layer};\n\
        let layer = nn::", stringify!($Name), "::new();\nlet x = rtx_tensor::rand([2, 3", $sizes, "]);\n\
        assert_eq!(layer.forward(&x).shape(), x.shape());\n```")]
    pub type $Name = Lazy<$T>;
    impl Lazy<$T> {
        /// With PyTorch's defaults.
        #[doc = concat!("\n```\n# use rtx_nn::{self as nn, Layer};\nlet layer = nn::", stringify!($Name),
            "::new();\nlayer.forward(&rtx_tensor::rand([2, 3", $sizes, "]));\nassert!(layer.layer().is_some());\n```")]
        #[allow(clippy::new_without_default, reason = "the other lazy layers need arguments")]
        pub fn new() -> Self {
            Self::from_fn(|$shape| $T::new($channels))
        }
    }
)* } }
norms! {
    LazyBatchNorm1d BatchNorm1d ", 8" |shape| shape.get(1).copied().unwrap_or(0);
    LazyBatchNorm2d BatchNorm2d ", 8, 8" |shape| shape.get(1).copied().unwrap_or(0);
    LazyBatchNorm3d BatchNorm3d ", 8, 8, 8" |shape| shape.get(1).copied().unwrap_or(0);
    LazyInstanceNorm1d InstanceNorm1d ", 8" |shape| from_end(shape, 2);
    LazyInstanceNorm2d InstanceNorm2d ", 8, 8" |shape| from_end(shape, 3);
    LazyInstanceNorm3d InstanceNorm3d ", 8, 8, 8" |shape| from_end(shape, 4);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_the_mode_reach_what_is_made() {
        let conv = LazyConv2d::new(4, 3).with(|layer| layer.padding(1).no_bias());
        assert_eq!(conv.forward(&rtx_tensor::ones([1, 2, 5, 5])).shape(), [1, 4, 5, 5]);
        let names: Vec<String> = conv.named_parameters().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["weight"]);
        let norm = LazyBatchNorm1d::new();
        norm.eval();
        norm.forward(&rtx_tensor::ones([4, 3]));
        let seen = norm.layer().and_then(|l| l.num_batches_tracked.as_deref()?.item::<i64>().ok());
        assert_eq!(seen, Some(0));
    }
}
