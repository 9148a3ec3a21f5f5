//! `torch.nn.functional`: what is no method of `Tensor`, and the layers' functions.
use crate::{
    Result, Tensor,
    call::{self, op},
    failure::OrPanic,
    random,
    shape::{Int, IntoShape},
};
use rtx_core::{Error, Kind};

pub use crate::images::*;
pub use crate::losses::*;
pub use crate::spatial::*;

/// max(x, 0).
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::relu(&tensor!([-1., 2.])).to_vec::<f32>()?, [0., 2.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn relu(x: &Tensor) -> Tensor {
    x.relu()
}
/// x Φ(x), with Φ the normal distribution function.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::gelu(&tensor!([0.])).to_vec::<f32>()?, [0.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn gelu(x: &Tensor) -> Tensor {
    x.gelu()
}
/// [`gelu`] by its tanh approximation, as GPT-2 has it.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::gelu_tanh(&tensor!([0.])).to_vec::<f32>()?, [0.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn gelu_tanh(x: &Tensor) -> Tensor {
    call::call_bound(op!("gelu"), &[x.into()], &[("approximate", "tanh".into())]).or_panic()
}
/// x σ(x).
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::silu(&tensor!([0.])).to_vec::<f32>()?, [0.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn silu(x: &Tensor) -> Tensor {
    x.silu()
}
/// 1 / (1 + e⁻ˣ).
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::sigmoid(&tensor!([0.])).to_vec::<f32>()?, [0.5]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn sigmoid(x: &Tensor) -> Tensor {
    x.sigmoid()
}
/// Exponentials along a dim, scaled to sum to 1.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::softmax(&torch::zeros([1, 2]), -1).to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn softmax(x: &Tensor, dim: impl Int) -> Tensor {
    x.softmax(dim)
}
/// The logarithm of [`softmax`].
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::log_softmax(&tensor!([3.]), -1).to_vec::<f32>()?, [0.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn log_softmax(x: &Tensor, dim: impl Int) -> Tensor {
    x.log_softmax(dim)
}

/// x · weightᵀ + bias.
///
/// # Panics
/// When sizes or dtypes do not fit.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let (x, weight) = (tensor!([[1., 2.]]), tensor!([[3., 4.]]));
/// assert_eq!(F::linear(&x, &weight, Some(&tensor!([0.5]))).to_vec::<f32>()?, [11.5]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
    call::call_one(op!("linear"), &[x.into(), weight.into(), bias.into()]).or_panic()
}
/// Rows of `weight` at these positions.
///
/// # Panics
/// When the positions are no integers. Positions outside the table are found when the work runs.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::embedding(&tensor!([1]), &tensor!([[1., 2.], [3., 4.]])).to_vec::<f32>()?, [3., 4.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn embedding(ids: &Tensor, weight: &Tensor) -> Tensor {
    call::call_bound(op!("embedding"), &[weight.into(), ids.into()], &[]).or_panic()
}
/// (x − mean) / √(var + eps) · weight + bias over the last dims.
///
/// # Panics
/// When shapes do not fit.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::layer_norm(&tensor!([[1., 3.]]), 2, None, None, 0.).to_vec::<f32>()?, [-1., 1.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn layer_norm(
    x: &Tensor,
    normalized_shape: impl IntoShape,
    weight: Option<&Tensor>,
    bias: Option<&Tensor>,
    eps: f64,
) -> Tensor {
    let args = [x.into(), normalized_shape.sizes().into(), weight.into(), bias.into()];
    call::call_bound(op!("layer_norm"), &args, &[("eps", eps.into())]).or_panic()
}
/// x / √(mean x² + eps) · weight over the last dims.
///
/// # Panics
/// When shapes do not fit.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::rms_norm(&tensor!([[3., 3.]]), 2, None, Some(0.)).to_vec::<f32>()?, [1., 1.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn rms_norm(x: &Tensor, normalized_shape: impl IntoShape, weight: Option<&Tensor>, eps: Option<f64>) -> Tensor {
    let args = [x.into(), normalized_shape.sizes().into(), weight.into(), eps.into()];
    call::call_bound(op!("rms_norm"), &args, &[]).or_panic()
}
/// Elements set to 0 with probability `p`, the others scaled by 1 / (1 − p).
///
/// # Panics
/// When `p` is outside 0..=1.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert!(F::dropout(&torch::ones(100), 0.5).to_vec::<f32>()?.iter().all(|&x| x == 0. || x == 2.));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn dropout(x: &Tensor, p: f64) -> Tensor {
    try_dropout(x, p).or_panic()
}
#[track_caller]
fn try_dropout(x: &Tensor, p: f64) -> Result<Tensor> {
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::new(Kind::Argument, format!("dropout: p is a probability, got {p}")));
    }
    if p == 0.0 {
        return Ok(x.alias());
    }
    let [key, ordinal] = random::draw()?;
    call::call_bound(op!("random_dropout"), &[x.into(), key, ordinal, p.into()], &[])
}
/// An op of the dropout family in training.
#[track_caller]
fn dropped(name: &str, x: &Tensor, p: f64) -> Tensor {
    call::call(name, &[x.into(), p.into(), true.into()], &[]).or_panic().swap_remove(0)
}
/// Whole channels of `[N, C, L]` or `[C, L]` set to 0 with probability `p`, the others scaled by 1 / (1 − p).
///
/// # Panics
/// When `p` is outside 0..=1.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::dropout1d(&torch::ones([1, 2, 4]), 0.5).shape(), [1, 2, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn dropout1d(x: &Tensor, p: f64) -> Tensor {
    dropped("dropout1d", x, p)
}
/// The same of `[N, C, H, W]`.
///
/// # Panics
/// As [`dropout1d`].
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::dropout2d(&torch::ones([1, 2, 4, 4]), 0.5).shape(), [1, 2, 4, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn dropout2d(x: &Tensor, p: f64) -> Tensor {
    dropped("dropout2d", x, p)
}
/// The same of `[N, C, D, H, W]` or `[C, D, H, W]`.
///
/// # Panics
/// As [`dropout1d`].
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::dropout3d(&torch::ones([1, 2, 4, 4, 4]), 0.5).shape(), [1, 2, 4, 4, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn dropout3d(x: &Tensor, p: f64) -> Tensor {
    dropped("dropout3d", x, p)
}
/// Dropout to what SELU tends to, scaled and moved so that mean 0 and variance 1 stay.
///
/// # Panics
/// When `p` is outside 0..=1.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::alpha_dropout(&torch::ones([1, 2, 4]), 0.5).shape(), [1, 2, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn alpha_dropout(x: &Tensor, p: f64) -> Tensor {
    dropped("alpha_dropout", x, p)
}
/// The same, where what shares its first two indices is dropped or kept together.
///
/// # Panics
/// When `p` is outside 0..=1 or there are fewer than two dims.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::feature_alpha_dropout(&torch::ones([1, 2, 4]), 0.5).shape(), [1, 2, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn feature_alpha_dropout(x: &Tensor, p: f64) -> Tensor {
    dropped("feature_alpha_dropout", x, p)
}

/// Options of [`cross_entropy_with`]; the defaults are PyTorch's.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let options = F::CrossEntropy { label_smoothing: 0.1, ..Default::default() };
/// assert!(F::cross_entropy_with(&torch::zeros([2, 4]), &tensor!([0, 3]), options).item::<f32>()? > 1.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CrossEntropy {
    /// Targets of this value count nothing.
    pub ignore_index: i64,
    /// How much of the target's weight all classes share.
    pub label_smoothing: f64,
    /// `mean`, `sum` or `none`.
    pub reduction: &'static str,
    /// A weight for each class.
    pub weight: Option<Tensor>,
}
impl Default for CrossEntropy {
    fn default() -> Self {
        Self { ignore_index: -100, label_smoothing: 0.0, reduction: "mean", weight: None }
    }
}
/// The mean of −log softmax(logits) at each row's target.
///
/// # Panics
/// When shapes do not fit. A target outside the classes is found when the work runs.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let loss = F::cross_entropy(&torch::zeros([2, 4]), &tensor!([0, 3]));
/// assert!((loss.item::<f32>()? - 4_f32.ln()).abs() < 1e-6);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn cross_entropy(logits: &Tensor, target: &Tensor) -> Tensor {
    cross_entropy_with(logits, target, CrossEntropy::default())
}
/// [`cross_entropy`] with options.
///
/// # Panics
/// As [`cross_entropy`].
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let options = F::CrossEntropy { label_smoothing: 0.1, ..Default::default() };
/// assert!(F::cross_entropy_with(&torch::zeros([2, 4]), &tensor!([0, 3]), options).item::<f32>()? > 1.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn cross_entropy_with(logits: &Tensor, target: &Tensor, options: CrossEntropy) -> Tensor {
    let kwargs = [
        ("weight", options.weight.as_ref().into()),
        ("ignore_index", options.ignore_index.into()),
        ("label_smoothing", options.label_smoothing.into()),
        ("reduction", options.reduction.into()),
    ];
    call::call_bound(op!("cross_entropy"), &[logits.into(), target.into()], &kwargs).or_panic()
}
/// The mean of −log_probs at each row's target.
///
/// # Panics
/// When shapes do not fit.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::nll_loss(&tensor!([[-1., -2.]]), &tensor!([1])).item::<f32>()?, 2.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn nll_loss(log_probs: &Tensor, target: &Tensor) -> Tensor {
    let picked = log_probs.gather(-1, target.unsqueeze(-1));
    -picked.mean(..)
}
/// The mean of squared differences.
///
/// # Panics
/// When shapes do not broadcast.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::mse_loss(&tensor!([1., 2.]), &tensor!([1., 4.])).item::<f32>()?, 2.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn mse_loss(x: &Tensor, target: &Tensor) -> Tensor {
    x.mse_loss(target)
}

/// Options of [`scaled_dot_product_attention`].
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let q = torch::randn([1, 2, 5, 8]);
/// let options = F::Attention { causal: true, scale: Some(0.25), ..Default::default() };
/// assert_eq!(F::scaled_dot_product_attention(&q, &q, &q, options).shape(), [1, 2, 5, 8]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attention<'a> {
    /// Added to the scores; or bool: where keys may be looked at.
    pub mask: Option<&'a Tensor>,
    /// May a position look only at earlier ones and itself?
    pub causal: bool,
    /// What the scores are multiplied by; 1/√(head size) where it is left out.
    pub scale: Option<f64>,
    /// How many keys exist, a rank-0 `i64` read when the work runs: the rest of a cache is not looked at.
    pub kv_len: Option<&'a Tensor>,
    /// With which probability a weight is dropped.
    pub dropout: f64,
}
/// softmax(q kᵀ · scale + mask) v.
///
/// # Panics
/// When shapes do not fit.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let q = torch::randn([1, 2, 5, 8]); // batch, heads, time, width
/// let causal = F::Attention { causal: true, ..Default::default() };
/// assert_eq!(F::scaled_dot_product_attention(&q, &q, &q, causal).shape(), [1, 2, 5, 8]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn scaled_dot_product_attention(q: &Tensor, k: &Tensor, v: &Tensor, options: Attention<'_>) -> Tensor {
    try_attention(q, k, v, &options).or_panic()
}
#[track_caller]
fn try_attention(q: &Tensor, k: &Tensor, v: &Tensor, options: &Attention<'_>) -> Result<Tensor> {
    let mut kwargs = vec![
        ("attn_mask", options.mask.into()),
        ("dropout_p", options.dropout.into()),
        ("is_causal", options.causal.into()),
        ("scale", options.scale.into()),
        ("kv_len", options.kv_len.into()),
    ];
    if options.dropout > 0.0 {
        let [key, ordinal] = random::draw()?;
        kwargs.extend([("random_key", key), ("random_ordinal", ordinal)]);
    }
    call::call_bound(op!("scaled_dot_product_attention"), &[q.into(), k.into(), v.into()], &kwargs)
}
/// 1 at each position's class, 0 elsewhere, `i64`.
///
/// # Panics
/// When the positions are no integers.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::one_hot(&tensor!([1]), 3).to_vec::<i64>()?, [0, 1, 0]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn one_hot(ids: &Tensor, classes: usize) -> Tensor {
    call::call_bound(op!("one_hot"), &[ids.into(), classes.into()], &[]).or_panic()
}

/// Mantissas in [1/2, 1) with the elements' signs, and exponents to base 2 (`i32`).
///
/// # Panics
/// When the dtype is neither f32 nor f64.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let (mantissa, exponent) = F::frexp(&tensor!([6.]));
/// assert_eq!((mantissa.to_vec::<f32>()?, exponent.to_vec::<i32>()?), (vec![0.75], vec![3]));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn frexp(x: &Tensor) -> (Tensor, Tensor) {
    let mut outs = call::call("frexp", &[x.into()], &[]).or_panic().into_iter();
    match (outs.next(), outs.next()) {
        (Some(mantissa), Some(exponent)) => (mantissa, exponent),
        _ => unreachable!("the op has two results"),
    }
}
/// `leaky_relu` with the slope (lower + upper) / 2.
///
/// # Panics
/// When the tensor is no float.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::rrelu(&tensor!([-2., 3.]), 0.5, 0.5).to_vec::<f32>()?, [-1., 3.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn rrelu(x: &Tensor, lower: f64, upper: f64) -> Tensor {
    call::call_bound(op!("rrelu"), &[x.into(), lower.into(), upper.into()], &[]).or_panic()
}
