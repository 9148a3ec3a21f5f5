//! Convolutions and the norms of channels: functions of `torch.nn.functional` that take weights.
use crate::{
    Result, Tensor,
    call::{self, Argument, op},
    failure::OrPanic,
};

/// How a convolution walks: for each spatial dim, or one number for all; empty lists mean PyTorch's defaults.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let options = F::ConvOptions { stride: vec![2], groups: 2, ..Default::default() };
/// let y = F::conv1d(&torch::ones([1, 2, 9]), &torch::ones([4, 1, 3]), None, &options);
/// assert_eq!(y.shape(), [1, 4, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    /// How far apart windows are.
    pub stride: Vec<i64>,
    /// Zeros on both sides.
    pub padding: Vec<i64>,
    /// How far apart a window's elements are.
    pub dilation: Vec<i64>,
    /// Into how many groups channels are split.
    pub groups: i64,
    /// For transposed convolutions: sizes added at the end of the result.
    pub output_padding: Vec<i64>,
    /// Zeros on both sides so that the result has the input's sizes, in place of `padding`; the odd one comes last.
    pub same: bool,
}
impl Default for ConvOptions {
    fn default() -> Self {
        Self { stride: vec![], padding: vec![], dilation: vec![], groups: 1, output_padding: vec![], same: false }
    }
}

impl ConvOptions {
    /// What is set, by name.
    fn keywords(&self, transposed: bool) -> Vec<(&'static str, Argument)> {
        let lists = [
            ("stride", &self.stride),
            ("padding", &self.padding),
            ("dilation", &self.dilation),
            ("output_padding", &self.output_padding),
        ];
        let given = lists.into_iter().filter(|(name, v)| !v.is_empty() && (transposed || *name != "output_padding"));
        let given = given.map(|(name, v)| (name, v.clone().into()));
        let same = self.same.then(|| ("padding", "same".into()));
        given
            .filter(|(name, _)| !self.same || *name != "padding")
            .chain(same)
            .chain([("groups", self.groups.into())])
            .collect()
    }
}

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident $transposed:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// # Panics
        /// When channels, groups or sizes do not fit.
        #[track_caller]
        pub fn $name(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>, options: &ConvOptions) -> Tensor {
            let args = [input.into(), weight.into(), bias.into()];
            let keywords = options.keywords($transposed);
            if options.same {
                // A word in place of numbers is another overload, which only a call by name finds.
                return call::call(stringify!($name), &args, &keywords).or_panic().swap_remove(0);
            }
            call::call_bound(op!(stringify!($name)), &args, &keywords).or_panic()
        }
    )* };
}

convolutions! {
    /// Convolution of `[n, c, l]` with `[o, c / groups, k]`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let (x, weight) = (torch::ones([1, 2, 4]), torch::ones([3, 2, 2]));
    /// assert_eq!(F::conv1d(&x, &weight, None, &F::ConvOptions::default()).shape(), [1, 3, 3]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    conv1d false;
    /// Convolution of `[n, c, h, w]` with `[o, c / groups, kh, kw]`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let (x, weight) = (torch::ones([1, 2, 4, 4]), torch::ones([3, 2, 2, 2]));
    /// assert_eq!(F::conv2d(&x, &weight, None, &F::ConvOptions::default()).shape(), [1, 3, 3, 3]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    conv2d false;
    /// Convolution of `[n, c, d, h, w]` with `[o, c / groups, kd, kh, kw]`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let (x, weight) = (torch::ones([1, 2, 4, 4, 4]), torch::ones([3, 2, 2, 2, 2]));
    /// assert_eq!(F::conv3d(&x, &weight, None, &F::ConvOptions::default()).shape(), [1, 3, 3, 3, 3]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    conv3d false;
    /// The transpose of [`conv1d`] with respect to its input; weight `[c, o / groups, k]`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let (x, weight) = (torch::ones([1, 2, 4]), torch::ones([2, 3, 2]));
    /// assert_eq!(F::conv_transpose1d(&x, &weight, None, &F::ConvOptions::default()).shape(), [1, 3, 5]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    conv_transpose1d true;
    /// The transpose of [`conv2d`] with respect to its input; weight `[c, o / groups, kh, kw]`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let (x, weight) = (torch::ones([1, 2, 4, 4]), torch::ones([2, 3, 2, 2]));
    /// assert_eq!(F::conv_transpose2d(&x, &weight, None, &F::ConvOptions::default()).shape(), [1, 3, 5, 5]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    conv_transpose2d true;
    /// The transpose of [`conv3d`] with respect to its input; weight `[c, o / groups, kd, kh, kw]`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, functional as F, tensor};
    /// let (x, weight) = (torch::ones([1, 2, 4, 4, 4]), torch::ones([2, 3, 2, 2, 2]));
    /// assert_eq!(F::conv_transpose3d(&x, &weight, None, &F::ConvOptions::default()).shape(), [1, 3, 5, 5, 5]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    conv_transpose3d true;
}

/// Normalization over channels in groups, `[n, c, ..]`, with a weight and a bias for each channel.
///
/// # Panics
/// When the groups do not split the channels.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::group_norm(&torch::rand([1, 4, 3]), 2, None, None, 1e-5).shape(), [1, 4, 3]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn group_norm(x: &Tensor, groups: i64, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
    let args = [x.into(), groups.into(), weight.into(), bias.into(), eps.into()];
    call::call_bound(op!("group_norm"), &args, &[]).or_panic()
}

/// Division by a power of the mean square of neighbouring channels (Krizhevsky et al. 2012).
///
/// # Panics
/// When `x` has no channels.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::local_response_norm(&torch::rand([1, 4, 3]), 2, 1e-4, 0.75, 1.).shape(), [1, 4, 3]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn local_response_norm(x: &Tensor, size: i64, alpha: f64, beta: f64, k: f64) -> Tensor {
    let args = [x.into(), size.into(), alpha.into(), beta.into(), k.into()];
    call::call_bound(op!("local_response_norm"), &args, &[]).or_panic()
}

/// Normalization of each channel by given statistics.
///
/// # Panics
/// When sizes differ from the channels.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let (x, mean, var) = (tensor!([[1.], [3.]]), tensor!([1.]), tensor!([4.]));
/// assert_eq!(F::batch_norm(&x, [&mean, &var], None, None, 0.).to_vec::<f32>()?, [0., 1.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn batch_norm(
    x: &Tensor,
    [mean, var]: [&Tensor; 2],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Tensor {
    let args = [x.into(), weight.into(), bias.into(), mean.into(), var.into(), false.into(), 0.1.into(), eps.into()];
    call::call_bound(op!("batch_norm"), &args, &[]).or_panic()
}

/// Normalization of each channel by its own statistics over the batch; also the running statistics moved towards them.
///
/// # Errors
/// When sizes differ from the channels, or there is one value a channel.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let (x, mean, var) = (tensor!([[1.], [3.]]), torch::zeros(1), torch::ones(1));
/// let [y, mean, _] = F::batch_norm_train(&x, [&mean, &var], None, None, (0.1, 0.))?;
/// assert_eq!(y.to_vec::<f32>()?, [-1., 1.]);
/// assert!((mean.item::<f32>()? - 0.2).abs() < 1e-6); // a tenth of the way
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn batch_norm_train(
    x: &Tensor,
    [mean, var]: [&Tensor; 2],
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    (momentum, eps): (f64, f64),
) -> Result<[Tensor; 3]> {
    let args =
        [x.into(), weight.into(), bias.into(), mean.into(), var.into(), true.into(), momentum.into(), eps.into()];
    let [y, _, _, mean, var] = call::call_many(op!("_native_batch_norm_legit_functional"), &args)?;
    Ok([y, mean, var])
}

/// Normalization of each channel by its own statistics over the batch, without running ones.
///
/// # Panics
/// When there is one value a channel.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::batch_norm_plain(&tensor!([[1.], [3.]]), None, None, 0.).to_vec::<f32>()?, [-1., 1.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn batch_norm_plain(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
    let none = Argument::None;
    let args = [x.into(), weight.into(), bias.into(), none.clone(), none, true.into(), 0.1.into(), eps.into()];
    call::call_bound(op!("batch_norm"), &args, &[]).or_panic()
}

/// Normalization of each channel of each example by its own statistics.
///
/// # Panics
/// When there is one value a channel.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::instance_norm(&tensor!([[[1., 3.]]]), None, None, 0.).to_vec::<f32>()?, [-1., 1.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn instance_norm(x: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
    let none = Argument::None;
    let args = [x.into(), weight.into(), bias.into(), none.clone(), none, true.into(), 0.1.into(), eps.into()];
    call::call_bound(op!("instance_norm"), &args, &[]).or_panic()
}
