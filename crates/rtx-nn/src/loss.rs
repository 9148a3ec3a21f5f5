//! Losses as modules: options are set once, weights are saved with the model.
use crate::{Buffer, Linear, Module, functional as F};
use rtx_core::Result;
use rtx_tensor::{Argument, Tensor, call};

/// The result of an op; a mistake panics at the caller's line.
#[track_caller]
pub(crate) fn one(outs: Result<Vec<Tensor>>) -> Tensor {
    match outs {
        Ok(mut outs) => outs.swap_remove(0),
        Err(e) => panic!("{e}"),
    }
}

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
    L1Loss "l1_loss"(x, target) {}
    /// (x - target)².
    MSELoss "mse_loss"(x, target) {}
    /// A parabola within `beta` of the target, a line outside: of slope 1.
    SmoothL1Loss "smooth_l1_loss"(x, target) {
        /// Where the parabola ends; 1 at first.
        beta: f64 = 1.0;
    }
    /// A parabola within `delta` of the target, a line outside: of slope `delta`.
    HuberLoss "huber_loss"(x, target) {
        /// Where the parabola ends; 1 at first.
        delta: f64 = 1.0;
    }
    /// -target · log x - (1 - target) · log(1 - x), for probabilities x.
    BCELoss "binary_cross_entropy"(x, target) {
        @
        /// A weight for each element.
        weight;
    }
    /// [`BCELoss`] of sigmoid(x), computed so that nothing overflows.
    BCEWithLogitsLoss "binary_cross_entropy_with_logits"(x, target) {
        @
        /// A weight for each element.
        weight;
        @
        /// A weight for what should be 1.
        pos_weight;
    }
    /// -log_probs at each row's class.
    NLLLoss "nll_loss"(log_probs, target) {
        /// Targets of this value count nothing; -100 at first.
        ignore_index: i64 = -100;
        @
        /// A weight for each class.
        weight;
    }
    /// -log softmax(x) at each row's class, or against a distribution over classes.
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
    KLDivLoss "kl_div"(x, target) {
        /// Is the target a log-probability too?
        log_target: bool = false;
    }
    /// x where the target is 1, max(0, margin - x) where it is -1.
    HingeEmbeddingLoss "hinge_embedding_loss"(x, target) {
        /// 1 at first.
        margin: f64 = 1.0;
    }
    /// max(0, -target · (x1 - x2) + margin): the target says which should be larger.
    MarginRankingLoss "margin_ranking_loss"(x1, x2, target) {
        /// 0 at first.
        margin: f64 = 0.0;
    }
    /// 1 - cos(x1, x2) where the target is 1, max(0, cos(x1, x2) - margin) where it is -1.
    CosineEmbeddingLoss "cosine_embedding_loss"(x1, x2, target) {
        /// 0 at first.
        margin: f64 = 0.0;
    }
    /// log(1 + exp(-target · x)).
    SoftMarginLoss "soft_margin_loss"(x, target) {}
    /// Σ max(0, 1 - (x at a target - x elsewhere)) / classes, for several targets in each row, which end with -1.
    MultiLabelMarginLoss "multilabel_margin_loss"(x, target) {}
    /// [`BCEWithLogitsLoss`], averaged over the classes of each row.
    MultiLabelSoftMarginLoss "multilabel_soft_margin_loss"(x, target) {
        @
        /// A weight for each class.
        weight;
    }
    /// Σ max(0, margin - x at the target + x elsewhere)ᵖ / classes.
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
    PoissonNLLLoss "poisson_nll_loss"(x, target) {
        /// Is x the logarithm of the mean?
        log_input: bool = true;
        /// Adds Stirling's approximation of what does not depend on x.
        full: bool = false;
        /// Keeps the logarithm away from zero; 1e-8 at first.
        eps: f64 = 1e-8;
    }
    /// -log of a normal distribution's density at the target, but for a constant.
    GaussianNLLLoss "gaussian_nll_loss"(x, target, var) {
        /// Adds the constant.
        full: bool = false;
        /// The least variance; 1e-6 at first.
        eps: f64 = 1e-6;
    }
    /// max(0, |anchor - positive| - |anchor - negative| + margin).
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
    CTCLoss "ctc_loss"(log_probs, targets, input_lengths, target_lengths) {
        /// The class that stands for nothing; 0 at first.
        blank: i64 = 0;
        /// Losses that are infinite, because the target is longer than the output, count 0.
        zero_infinity: bool = false;
    }
}

/// A linear layer and [`CrossEntropyLoss`] of what comes out.
///
/// # Shape
/// `[.., inputs]` and classes `[.., outputs..]`; weight `[classes · outputs, inputs]`.
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
