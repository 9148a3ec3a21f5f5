//! Convolution layers, and transposed ones.
use crate::{Layer, Module, Param, Weighted, functional as F, init};
use rtx_tensor::{Tensor, options, shape::IntoShape};

/// Sizes for each of `N` dims: one number stands for all.
fn each<const N: usize>(sizes: impl IntoShape) -> [i64; N] {
    let sizes = sizes.sizes();
    std::array::from_fn(|i| sizes.get(i).or(sizes.last()).copied().unwrap_or(1))
}

/// What stands around a tensor in a convolution.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::Conv1d::new(1, 1, 2).padding(1).padding_mode(nn::PaddingMode::Circular).no_bias();
/// layer.weight.set_data(&torch::ones([1, 1, 2]));
/// let y = layer.forward(&tensor!([[[1., 2., 3.]]])); // sums of neighbours in 3 1 2 3 1
/// assert_eq!(y.to_vec::<f32>()?, [4.0, 3.0, 5.0, 4.0]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaddingMode {
    /// Zeros.
    #[default]
    Zeros,
    /// The tensor mirrored, its border elements once.
    Reflect,
    /// The border elements, again and again.
    Replicate,
    /// The other end of the tensor.
    Circular,
}
impl PaddingMode {
    const fn word(self) -> &'static str {
        match self {
            PaddingMode::Zeros => "constant",
            PaddingMode::Reflect => "reflect",
            PaddingMode::Replicate => "replicate",
            PaddingMode::Circular => "circular",
        }
    }
}

/// The tensor with what stands around it, and the options of a convolution that adds nothing more.
#[track_caller]
fn surrounded(x: &Tensor, mode: PaddingMode, o: &F::ConvOptions, kernel: &[usize]) -> (Tensor, F::ConvOptions) {
    let of = |list: &[i64], i: usize, default: i64| list.get(i).or(list.last()).copied().unwrap_or(default);
    let both = |i: usize| {
        if !o.same {
            return [of(&o.padding, i, 0); 2];
        }
        let all = of(&o.dilation, i, 1) * (kernel[i] as i64 - 1);
        [all / 2, all - all / 2]
    };
    let pads: Vec<i64> = (0..kernel.len()).rev().flat_map(both).collect();
    let x = x.pad_with(pads.as_slice(), options::Pad { mode: mode.word(), value: None });
    (x, F::ConvOptions { padding: vec![0; kernel.len()], same: false, ..o.clone() })
}

macro_rules! convolutions {
    ($($(#[$doc:meta])* $T:ident $N:literal $function:ident $transposed:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// Setters after `new`: `stride`, `padding`, `padding_mode`, `dilation`, `groups`, `no_bias`; a number counts for
        /// every dim.
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            /// Of a convolution `[outputs, inputs / groups, kernel..]`, of a transposed one `[inputs, outputs / groups, kernel..]`.
            pub weight: Param,
            /// `[outputs]`, or none.
            pub bias: Option<Param>,
            #[module(skip)]
            options: F::ConvOptions,
            #[module(skip)]
            mode: PaddingMode,
            channels: [usize; 2],
            kernel: Vec<usize>,
        }
        impl $T {
            /// Weight and bias uniform within 1/√(inputs of one output), as PyTorch draws them.
            pub fn new(inputs: usize, outputs: usize, kernel: impl IntoShape) -> Self {
                let kernel = each::<$N>(kernel).map(|n| usize::try_from(n).unwrap_or(0)).to_vec();
                Self::drawn([inputs, outputs], kernel, F::ConvOptions::default())
            }
            fn drawn([inputs, outputs]: [usize; 2], kernel: Vec<usize>, options: F::ConvOptions) -> Self {
                let groups = usize::try_from(options.groups).unwrap_or(1).max(1);
                let (first, second) =
                    if $transposed { (inputs, outputs / groups) } else { (outputs, inputs / groups) };
                let shape: Vec<usize> = [first, second].into_iter().chain(kernel.iter().copied()).collect();
                let fan = (second * kernel.iter().product::<usize>()).max(1);
                let bound = 1.0 / (fan as f64).sqrt();
                let draw = |shape: &[usize]| Param::new(init::uniform(shape, -bound, bound));
                Self { weight: draw(&shape), bias: Some(draw(&[outputs])), options, mode: PaddingMode::Zeros, channels: [inputs, outputs], kernel }
            }
            /// How far apart windows are.
            #[must_use]
            pub fn stride(mut self, stride: impl IntoShape) -> Self {
                self.options.stride = each::<$N>(stride).to_vec();
                self
            }
            /// Zeros on both sides.
            #[must_use]
            pub fn padding(mut self, padding: impl IntoShape) -> Self {
                self.options.padding = each::<$N>(padding).to_vec();
                self.options.same = false;
                self
            }
            /// What stands on both sides instead of zeros.
            ///
            /// # Panics
            /// When the convolution is a transposed one, which has zeros there.
            #[must_use]
            #[track_caller]
            pub fn padding_mode(self, mode: PaddingMode) -> Self {
                let fits = !$transposed || mode == PaddingMode::Zeros;
                assert!(fits, "{}: pads with zeros only, got {mode:?}", stringify!($function));
                Self { mode, ..self }
            }
            /// As many zeros as leave the sizes as they are, with windows side by side: `padding="same"`.
            #[must_use]
            pub fn same_padding(mut self) -> Self {
                self.options.same = true;
                self
            }
            /// How far apart a window's elements are.
            #[must_use]
            pub fn dilation(mut self, dilation: impl IntoShape) -> Self {
                self.options.dilation = each::<$N>(dilation).to_vec();
                self
            }
            /// Sizes added at the end of the result of a transposed convolution.
            #[must_use]
            pub fn output_padding(mut self, padding: impl IntoShape) -> Self {
                self.options.output_padding = each::<$N>(padding).to_vec();
                self
            }
            /// Channels in so many groups; weight and bias are drawn anew.
            #[must_use]
            pub fn groups(self, groups: usize) -> Self {
                let bias = self.bias.is_some();
                let options = F::ConvOptions { groups: groups as i64, ..self.options };
                let drawn = Self { mode: self.mode, ..Self::drawn(self.channels, self.kernel, options) };
                if bias { drawn } else { drawn.no_bias() }
            }
            /// Without the bias; its draw was never computed.
            #[must_use]
            pub fn no_bias(self) -> Self {
                Self { bias: None, ..self }
            }
            /// Applies the layer.
            ///
            /// # Panics
            /// When the channels of `x` are not `inputs`.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                self.forward_with_weight(x, &self.weight)
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
        impl Weighted for $T {
            fn weight(&self) -> &Param {
                &self.weight
            }
            fn bias(&self) -> Option<&Param> {
                self.bias.as_ref()
            }
            fn forward_with_weight(&self, x: &Tensor, weight: &Tensor) -> Tensor {
                if self.mode != PaddingMode::Zeros {
                    let (x, options) = surrounded(x, self.mode, &self.options, &self.kernel);
                    return F::$function(&x, weight, self.bias.as_deref(), &options);
                }
                F::$function(x, weight, self.bias.as_deref(), &self.options)
            }
        }
    )* };
}

convolutions! {
    /// Convolution over one dim: `[n, inputs, l]` to `[n, outputs, l']`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 3, 8]);
    /// assert_eq!(nn::Conv1d::new(3, 6, 3).padding(1).forward(&x).shape(), [1, 6, 8]);
    /// assert_eq!(nn::Conv1d::new(3, 6, 3).stride(2).padding(1).groups(3).no_bias().forward(&x).shape(), [1, 6, 4]);
    /// assert_eq!(nn::Conv1d::new(3, 6, 3).dilation(2).same_padding().forward(&x).shape(), [1, 6, 8]);
    /// let mirrored = nn::Conv1d::new(3, 6, 3).padding(1).padding_mode(nn::PaddingMode::Reflect);
    /// assert_eq!(mirrored.forward(&x).shape(), [1, 6, 8]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Conv1d 1 conv1d false;
    /// Convolution over two dims: `[n, inputs, h, w]` to `[n, outputs, h', w']`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 3, 8, 8]);
    /// assert_eq!(nn::Conv2d::new(3, 6, 3).padding(1).forward(&x).shape(), [1, 6, 8, 8]);
    /// assert_eq!(nn::Conv2d::new(3, 6, 3).stride(2).padding(1).groups(3).no_bias().forward(&x).shape(), [1, 6, 4, 4]);
    /// assert_eq!(nn::Conv2d::new(3, 6, 3).dilation(2).same_padding().forward(&x).shape(), [1, 6, 8, 8]);
    /// let mirrored = nn::Conv2d::new(3, 6, 3).padding(1).padding_mode(nn::PaddingMode::Reflect);
    /// assert_eq!(mirrored.forward(&x).shape(), [1, 6, 8, 8]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Conv2d 2 conv2d false;
    /// Convolution over three dims: `[n, inputs, d, h, w]` to `[n, outputs, d', h', w']`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 3, 8, 8, 8]);
    /// assert_eq!(nn::Conv3d::new(3, 6, 3).padding(1).forward(&x).shape(), [1, 6, 8, 8, 8]);
    /// assert_eq!(nn::Conv3d::new(3, 6, 3).stride(2).padding(1).groups(3).no_bias().forward(&x).shape(), [1, 6, 4, 4, 4]);
    /// assert_eq!(nn::Conv3d::new(3, 6, 3).dilation(2).same_padding().forward(&x).shape(), [1, 6, 8, 8, 8]);
    /// let mirrored = nn::Conv3d::new(3, 6, 3).padding(1).padding_mode(nn::PaddingMode::Reflect);
    /// assert_eq!(mirrored.forward(&x).shape(), [1, 6, 8, 8, 8]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    Conv3d 3 conv3d false;
    /// Transposed convolution over one dim.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 3, 8]);
    /// let layer = nn::ConvTranspose1d::new(3, 6, 3).stride(2).padding(1).output_padding(1);
    /// assert_eq!(layer.forward(&x).shape(), [1, 6, 16]);
    /// let layer =
    ///     nn::ConvTranspose1d::new(3, 6, 3).padding(2).dilation(2).groups(3).no_bias().padding_mode(nn::PaddingMode::Zeros);
    /// assert_eq!(layer.forward(&x).shape(), [1, 6, 8]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ConvTranspose1d 1 conv_transpose1d true;
    /// Transposed convolution over two dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 3, 8, 8]);
    /// let layer = nn::ConvTranspose2d::new(3, 6, 3).stride(2).padding(1).output_padding(1);
    /// assert_eq!(layer.forward(&x).shape(), [1, 6, 16, 16]);
    /// let layer =
    ///     nn::ConvTranspose2d::new(3, 6, 3).padding(2).dilation(2).groups(3).no_bias().padding_mode(nn::PaddingMode::Zeros);
    /// assert_eq!(layer.forward(&x).shape(), [1, 6, 8, 8]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ConvTranspose2d 2 conv_transpose2d true;
    /// Transposed convolution over three dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 3, 8, 8, 8]);
    /// let layer = nn::ConvTranspose3d::new(3, 6, 3).stride(2).padding(1).output_padding(1);
    /// assert_eq!(layer.forward(&x).shape(), [1, 6, 16, 16, 16]);
    /// let layer =
    ///     nn::ConvTranspose3d::new(3, 6, 3).padding(2).dilation(2).groups(3).no_bias().padding_mode(nn::PaddingMode::Zeros);
    /// assert_eq!(layer.forward(&x).shape(), [1, 6, 8, 8, 8]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ConvTranspose3d 3 conv_transpose3d true;
}
