//! Losses as modules: options are set once, weights are saved with the model.
use crate::call::one;
use crate::{Buffer, Linear, Module, functional as F};
use rtx_tensor::{Argument, Tensor, call};
use std::sync::Arc;

/// Losses that are one op of the table: the tensors that they take, and options under PyTorch's names.
macro_rules! losses { ($(
    $(#[$doc:meta])* $T:ident $op:literal($($input:ident),+) {
        $($(#[$ndoc:meta])* $number:ident: $N:ty = $default:expr;)*
        $(@ $(#[$wdoc:meta])* $weight:ident;)*
    }
)*) => { $(
    $(#[$doc])*
    #[derive(Clone, Debug, Module)]
    pub struct $T {
        $($(#[$wdoc])* pub $weight: Option<Buffer>,)*
        $($number: $N,)*
        reduction: &'static str,
    }
    impl $T {
        /// With PyTorch's defaults.
        pub fn new() -> Self {
            Self { $($weight: None,)* $($number: $default,)* reduction: "mean" }
        }
        /// What becomes of the single losses: `mean`, `sum` or `none`.
        #[must_use]
        #[allow(clippy::needless_update, reason = "some losses have nothing else to set")]
        pub fn reduction(self, reduction: &'static str) -> Self {
            Self { reduction, ..self }
        }
        $($(#[$ndoc])*
        #[must_use]
        pub fn $number(self, $number: $N) -> Self {
            Self { $number, ..self }
        })*
        $($(#[$wdoc])*
        #[must_use]
        pub fn $weight(self, $weight: Tensor) -> Self {
            Self { $weight: Some(Buffer::new($weight)), ..self }
        })*
        /// The loss.
        ///
        /// # Panics
        /// When shapes or dtypes do not fit.
        #[track_caller]
        #[allow(clippy::too_many_arguments, reason = "the loss has as many inputs")]
        pub fn forward(&self, $($input: &Tensor),+) -> Tensor {
            let kwargs: &[(&str, Argument)] = &[
                $((stringify!($number), self.$number.into()),)*
                $((stringify!($weight), self.$weight.as_deref().into()),)*
                ("reduction", self.reduction.into()),
            ];
            one(call($op, &[$($input.into()),+], kwargs))
        }
    }
    impl Default for $T {
        fn default() -> Self {
            Self::new()
        }
    }
)* } }

losses! {
    /// |x - target|.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([1., 2., 4.]), tensor!([1., 4., 3.]));
    /// let loss = nn::L1Loss::new().forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 1.0);
    /// # Ok::<(), torch::Error>(())
    /// ```
    L1Loss "l1_loss"(x, target) {}
    /// (x - target)².
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([1., 2., 4.]), tensor!([1., 4., 3.]));
    /// let loss = nn::MSELoss::new().reduction("sum").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 5.0);
    /// # Ok::<(), torch::Error>(())
    /// ```
    MSELoss "mse_loss"(x, target) {}
    /// A parabola within `beta` of the target, a line outside: of slope 1.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([1., 2., 4.]), tensor!([1., 4., 3.]));
    /// let loss = nn::SmoothL1Loss::new().beta(0.5).reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.8333333);
    /// # Ok::<(), torch::Error>(())
    /// ```
    SmoothL1Loss "smooth_l1_loss"(x, target) {
        /// Where the parabola ends; 1 at first.
        beta: f64 = 1.0;
    }
    /// A parabola within `delta` of the target, a line outside: of slope `delta`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([1., 2., 4.]), tensor!([1., 4., 3.]));
    /// let loss = nn::HuberLoss::new().delta(0.5).reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.41666666);
    /// # Ok::<(), torch::Error>(())
    /// ```
    HuberLoss "huber_loss"(x, target) {
        /// Where the parabola ends; 1 at first.
        delta: f64 = 1.0;
    }
    /// -target · log x - (1 - target) · log(1 - x), for probabilities x.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([0.25, 0.75]), tensor!([0., 1.]));
    /// let loss = nn::BCELoss::new().weight(tensor!([1., 2.])).reduction("sum").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.86304617);
    /// # Ok::<(), torch::Error>(())
    /// ```
    BCELoss "binary_cross_entropy"(x, target) {
        @
        /// A weight for each element.
        weight;
    }
    /// [`BCELoss`] of sigmoid(x), computed so that nothing overflows.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([[-1., 2.]]), tensor!([[0., 1.]]));
    /// let loss = nn::BCEWithLogitsLoss::new().pos_weight(tensor!([1., 3.])).weight(tensor!([1., 1.])).reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.3470229);
    /// # Ok::<(), torch::Error>(())
    /// ```
    BCEWithLogitsLoss "binary_cross_entropy_with_logits"(x, target) {
        @
        /// A weight for each element.
        weight;
        @
        /// A weight for what should be 1.
        pos_weight;
    }
    /// -log_probs at each row's class.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (log_probs, target) = (torch::full([2, 3], -1.5), tensor!([0, -100])); // the second counts nothing
    /// let loss = nn::NLLLoss::new().ignore_index(-100).weight(torch::ones([3])).reduction("mean").forward(&log_probs, &target);
    /// assert_eq!(loss.item::<f32>()?, 1.5);
    /// # Ok::<(), torch::Error>(())
    /// ```
    NLLLoss "nll_loss"(log_probs, target) {
        /// Targets of this value count nothing; -100 at first.
        ignore_index: i64 = -100;
        @
        /// A weight for each class.
        weight;
    }
    /// -log softmax(x) at each row's class, or against a distribution over classes.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([[2., 0.], [0., 2.]]), tensor!([0, 1])); // logits, classes
    /// let loss = nn::CrossEntropyLoss::new().label_smoothing(0.1).ignore_index(-100).weight(torch::ones([2])).reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.22692809);
    /// # Ok::<(), torch::Error>(())
    /// ```
    CrossEntropyLoss "cross_entropy"(x, target) {
        /// Targets of this value count nothing; -100 at first.
        ignore_index: i64 = -100;
        /// How much of the target's weight all classes share; 0 at first.
        label_smoothing: f64 = 0.0;
        @
        /// A weight for each class.
        weight;
    }
    /// target · (log target - x), for log-probabilities x.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([[0.5, 0.5]]).log(), tensor!([[0.25, 0.75]]));
    /// let loss = nn::KLDivLoss::new().log_target(false).reduction("sum").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.13081205);
    /// # Ok::<(), torch::Error>(())
    /// ```
    KLDivLoss "kl_div"(x, target) {
        /// Is the target a log-probability too?
        log_target: bool = false;
    }
    /// x where the target is 1, max(0, margin - x) where it is -1.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([0.5, -2.]), tensor!([1., -1.]));
    /// let loss = nn::HingeEmbeddingLoss::new().margin(1.).reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 1.75);
    /// # Ok::<(), torch::Error>(())
    /// ```
    HingeEmbeddingLoss "hinge_embedding_loss"(x, target) {
        /// 1 at first.
        margin: f64 = 1.0;
    }
    /// max(0, -target · (x1 - x2) + margin): the target says which should be larger.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x1, x2, target) = (tensor!([1., 2.]), tensor!([2., 0.]), tensor!([1., 1.])); // the first is to be larger
    /// let loss = nn::MarginRankingLoss::new().margin(0.5).reduction("mean").forward(&x1, &x2, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.75);
    /// # Ok::<(), torch::Error>(())
    /// ```
    MarginRankingLoss "margin_ranking_loss"(x1, x2, target) {
        /// 0 at first.
        margin: f64 = 0.0;
    }
    /// 1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x1, x2) = (tensor!([[1., 0.], [0., 1.]]), tensor!([[1., 0.], [0., 1.]]));
    /// let loss = nn::CosineEmbeddingLoss::new().margin(0.).reduction("mean").forward(&x1, &x2, &tensor!([1., -1.]));
    /// assert_eq!(loss.item::<f32>()?, 0.5);
    /// # Ok::<(), torch::Error>(())
    /// ```
    CosineEmbeddingLoss "cosine_embedding_loss"(x1, x2, target) {
        /// 0 at first.
        margin: f64 = 0.0;
    }
    /// log(1 + exp(-target · x)).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([0.5, -2.]), tensor!([1., -1.]));
    /// let loss = nn::SoftMarginLoss::new().reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.30050248);
    /// # Ok::<(), torch::Error>(())
    /// ```
    SoftMarginLoss "soft_margin_loss"(x, target) {}
    /// Σ max(0, 1 - (x at a target - x elsewhere)) / classes, for several targets in each row, which end with -1.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([[0.1, 0.2, 0.4]]), tensor!([[2, -1, 0]])); // class 2; -1 ends the list
    /// let loss = nn::MultiLabelMarginLoss::new().reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.5);
    /// # Ok::<(), torch::Error>(())
    /// ```
    MultiLabelMarginLoss "multilabel_margin_loss"(x, target) {}
    /// [`BCEWithLogitsLoss`], averaged over the classes of each row.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([[1., -1.]]), tensor!([[1., 0.]]));
    /// let loss = nn::MultiLabelSoftMarginLoss::new().weight(torch::ones([2])).reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.31326172);
    /// # Ok::<(), torch::Error>(())
    /// ```
    MultiLabelSoftMarginLoss "multilabel_soft_margin_loss"(x, target) {
        @
        /// A weight for each class.
        weight;
    }
    /// Σ max(0, margin - x at the target + x elsewhere)ᵖ / classes.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([[0.25, 0.5, 1.]]), tensor!([2]));
    /// let loss = nn::MultiMarginLoss::new().p(1).margin(1.).weight(torch::ones([3])).reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 0.25);
    /// # Ok::<(), torch::Error>(())
    /// ```
    MultiMarginLoss "multi_margin_loss"(x, target) {
        /// 1 or 2; 1 at first.
        p: i64 = 1;
        /// 1 at first.
        margin: f64 = 1.0;
        @
        /// A weight for each class.
        weight;
    }
    /// -log of a Poisson distribution's probability of the target, but for what does not depend on x.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([1., 2., 4.]), tensor!([1., 4., 3.]));
    /// let loss = nn::PoissonNLLLoss::new().log_input(true).full(false).eps(1e-8).reduction("mean").forward(&x, &target);
    /// assert_eq!(loss.item::<f32>()?, 14.568497);
    /// # Ok::<(), torch::Error>(())
    /// ```
    PoissonNLLLoss "poisson_nll_loss"(x, target) {
        /// Is x the logarithm of the mean?
        log_input: bool = true;
        /// Adds Stirling's approximation of what does not depend on x.
        full: bool = false;
        /// Keeps the logarithm away from zero; 1e-8 at first.
        eps: f64 = 1e-8;
    }
    /// -log of a normal distribution's density at the target, but for a constant.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, target) = (tensor!([1., 2., 4.]), tensor!([1., 4., 3.]));
    /// let loss = nn::GaussianNLLLoss::new().full(false).eps(1e-6).reduction("mean").forward(&x, &target, &torch::ones([3]));
    /// assert_eq!(loss.item::<f32>()?, 0.8333333);
    /// # Ok::<(), torch::Error>(())
    /// ```
    GaussianNLLLoss "gaussian_nll_loss"(x, target, var) {
        /// Adds the constant.
        full: bool = false;
        /// The least variance; 1e-6 at first.
        eps: f64 = 1e-6;
    }
    /// max(0, |anchor - positive| - |anchor - negative| + margin).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (anchor, positive, negative) = (tensor!([[0., 0.]]), tensor!([[3., 4.]]), tensor!([[6., 8.]]));
    /// let loss = nn::TripletMarginLoss::new().margin(6.).p(2.).swap(false).eps(1e-6).reduction("mean").forward(&anchor, &positive, &negative);
    /// assert_eq!(loss.item::<f32>()?, 1.0000005);
    /// # Ok::<(), torch::Error>(())
    /// ```
    TripletMarginLoss "triplet_margin_loss"(anchor, positive, negative) {
        /// 1 at first.
        margin: f64 = 1.0;
        /// Which norm; 2 at first.
        p: f64 = 2.0;
        /// Added to each difference; 1e-6 at first.
        eps: f64 = 1e-6;
        /// Takes |positive - negative| where it is less than |anchor - negative|.
        swap: bool = false;
    }
    /// -log of the probability that an output sequence, its repetitions and blanks removed, is the target (Graves et al.,
    /// 2006).
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let log_probs = torch::zeros([4, 1, 3]).log_softmax(-1); // 4 steps, 1 sequence, 3 classes: all equally likely
    /// let loss = nn::CTCLoss::new().blank(0).zero_infinity(true).reduction("sum");
    /// let loss = loss.forward(&log_probs, &tensor!([[1, 2]]), &tensor!([4]), &tensor!([2]));
    /// assert!((loss.item::<f32>()? - (81f32 / 15.0).ln()).abs() < 1e-5); // 15 of 81 ways read "1 2"
    /// # Ok::<(), torch::Error>(())
    /// ```
    CTCLoss "ctc_loss"(log_probs, targets, input_lengths, target_lengths) {
        /// The class that stands for nothing; 0 at first.
        blank: i64 = 0;
        /// Losses that are infinite, because the target is longer than the output, count 0.
        zero_infinity: bool = false;
    }
}

/// How far two tensors of vectors are apart, a number for each pair.
type Distance = Arc<dyn Fn(&Tensor, &Tensor) -> Tensor + Send + Sync>;

/// [`TripletMarginLoss`] with any distance: max(0, d(anchor, positive) - d(anchor, negative) + margin).
///
/// ```
/// use rtx_nn::TripletMarginWithDistanceLoss;
/// let city_block = |x: &rtx_tensor::Tensor, y: &rtx_tensor::Tensor| (x - y).abs().sum(-1);
/// let loss = TripletMarginWithDistanceLoss::new().distance(city_block).margin(2.0).swap(true).reduction("mean");
/// let (near, far) = (rtx_tensor::zeros([4, 3]), rtx_tensor::ones([4, 3]));
/// assert_eq!(loss.forward(&near, &far, &near).item::<f32>().unwrap(), 5.0);
/// ```
#[derive(Clone, Module)]
pub struct TripletMarginWithDistanceLoss {
    #[module(skip)]
    distance: Distance,
    margin: f64,
    swap: bool,
    reduction: &'static str,
}

impl TripletMarginWithDistanceLoss {
    /// With the Euclidean distance, a margin of 1 and the mean.
    pub fn new() -> Self {
        let euclid = |x: &Tensor, y: &Tensor| one(call("pairwise_distance", &[x.into(), y.into()], &[]));
        Self { distance: Arc::new(euclid), margin: 1.0, swap: false, reduction: "mean" }
    }
    /// Another distance.
    #[must_use]
    pub fn distance(self, distance: impl Fn(&Tensor, &Tensor) -> Tensor + Send + Sync + 'static) -> Self {
        Self { distance: Arc::new(distance), ..self }
    }
    /// 1 at first.
    #[must_use]
    pub fn margin(self, margin: f64) -> Self {
        Self { margin, ..self }
    }
    /// Takes d(positive, negative) where it is less than d(anchor, negative).
    #[must_use]
    pub fn swap(self, swap: bool) -> Self {
        Self { swap, ..self }
    }
    /// What becomes of the single losses: `mean`, `sum` or `none`.
    #[must_use]
    pub fn reduction(self, reduction: &'static str) -> Self {
        Self { reduction, ..self }
    }
    /// The loss.
    ///
    /// # Panics
    /// When shapes do not fit, or the reduction is none of the three.
    #[track_caller]
    pub fn forward(&self, anchor: &Tensor, positive: &Tensor, negative: &Tensor) -> Tensor {
        let near = (self.distance)(anchor, positive);
        let mut far = (self.distance)(anchor, negative);
        if self.swap {
            far = far.minimum((self.distance)(positive, negative));
        }
        let losses = (near - far + self.margin).clamp_min(0.0);
        match self.reduction {
            "mean" => losses.mean(..),
            "sum" => losses.sum(..),
            "none" => losses,
            other => panic!("triplet_margin_with_distance_loss: {other:?} is none of mean, sum, none"),
        }
    }
}
impl Default for TripletMarginWithDistanceLoss {
    fn default() -> Self {
        Self::new()
    }
}
impl std::fmt::Debug for TripletMarginWithDistanceLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TripletMarginWithDistanceLoss")
            .field("margin", &self.margin)
            .field("swap", &self.swap)
            .field("reduction", &self.reduction)
            .finish_non_exhaustive()
    }
}

/// A linear layer and [`CrossEntropyLoss`] of what comes out.
///
/// # Shape
/// `[.., inputs]` and classes `[.., outputs..]`; weight `[classes · outputs, inputs]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let (x, target) = (torch::randn([4, 8]), tensor!([0, 1, 2, 3]));
/// let loss = nn::LinearCrossEntropyLoss::new(8, 10).bias().loss(nn::CrossEntropyLoss::new().label_smoothing(0.1));
/// assert!(loss.forward(&x, &target).item::<f32>()? > 0.);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct LinearCrossEntropyLoss {
    /// To the logits.
    pub linear: Linear,
    #[module(flatten)]
    loss: CrossEntropyLoss,
    classes: usize,
    outputs: Vec<usize>,
}

impl LinearCrossEntropyLoss {
    /// Without a bias, one class for each row.
    pub fn new(inputs: usize, classes: usize) -> Self {
        let loss = CrossEntropyLoss::new();
        Self { linear: Linear::new(inputs, classes).no_bias(), loss, classes, outputs: Vec::new() }
    }
    /// So many classes for each row: `[.., outputs..]` of them.
    #[must_use]
    pub fn outputs(self, outputs: impl Into<Vec<usize>>) -> Self {
        let outputs: Vec<usize> = outputs.into();
        let rows = self.classes * outputs.iter().product::<usize>();
        Self { linear: Linear::new(self.linear.weight.size(1), rows).no_bias(), outputs, ..self }
    }
    /// With a bias.
    #[must_use]
    pub fn bias(self) -> Self {
        let [outputs, inputs] = self.linear.weight.dims();
        Self { linear: Linear::new(inputs, outputs), ..self }
    }
    /// With the options of this loss.
    #[must_use]
    pub fn loss(self, loss: CrossEntropyLoss) -> Self {
        Self { loss, ..self }
    }
    /// The loss.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Tensor {
        let logits = F::linear(x, &self.linear.weight, self.linear.bias.as_deref());
        let mut shape = logits.shape();
        shape.pop();
        shape.push(self.classes);
        shape.extend(&self.outputs);
        self.loss.forward(&logits.reshape(shape), target)
    }
}
