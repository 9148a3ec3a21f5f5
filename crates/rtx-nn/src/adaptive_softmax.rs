//! A softmax over very many classes, of which few are frequent.
use crate::{Linear, Module, functional as F};
use rtx_tensor::{Tensor, cat};

/// Log-probabilities of frequent classes from one layer, of rare ones from clusters with smaller layers (Grave et al.,
/// arXiv:1609.04309). Classes are numbered from the most frequent one on.
///
/// ```
/// use rtx_nn::AdaptiveLogSoftmaxWithLoss;
/// # fn main() -> rtx_core::Result<()> {
/// let last = AdaptiveLogSoftmaxWithLoss::new(8, 20, &[4, 10]);
/// let (x, target) = (rtx_tensor::randn([3, 8]), rtx_tensor::tensor!([0, 5, 19]));
/// let (log_probs, loss) = last.forward(&x, &target);
/// let all = last.log_prob(&x);
/// let same = all.gather(1, target.unsqueeze(1)).squeeze(1) - &log_probs;
/// assert!(same.abs().amax(..).item::<f32>()? < 1e-5);
/// assert!(loss.item::<f32>()? > 0.0);
/// # Ok(()) }
/// ```
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = torch::randn([5, 8]);
/// let head = nn::AdaptiveLogSoftmaxWithLoss::new(8, 20, &[4, 10]).div_value(2.).head_bias(); // frequent classes first
/// let (log_probs, loss) = head.forward(&x, &tensor!([0, 3, 5, 12, 19]));
/// assert_eq!((log_probs.shape(), loss.shape()), (vec![5], vec![]));
/// assert_eq!(head.log_prob(&x).shape(), [5, 20]);
/// assert_eq!(head.predict(&x).shape(), [5]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct AdaptiveLogSoftmaxWithLoss {
    /// To the frequent classes, and one for each cluster.
    pub head: Linear,
    /// For each cluster to its width, then to its classes.
    pub tail: Vec<[Linear; 2]>,
    #[module(skip)]
    cutoffs: Vec<usize>,
    #[module(skip)]
    sizes: [usize; 2],
}

impl AdaptiveLogSoftmaxWithLoss {
    /// Clusters begin at these classes; each is four times narrower than the one before.
    ///
    /// # Panics
    /// When the cutoffs do not rise, or are not below the number of classes.
    #[track_caller]
    pub fn new(inputs: usize, classes: usize, cutoffs: &[usize]) -> Self {
        let cutoffs: Vec<usize> = cutoffs.iter().copied().chain([classes]).collect();
        let rises = cutoffs.first().is_some_and(|&c| c > 0) && cutoffs.windows(2).all(|w| w[0] < w[1]);
        assert!(
            rises && cutoffs.len() > 1,
            "adaptive_log_softmax: cutoffs {cutoffs:?} must rise to the number of classes"
        );
        let head = Linear::new(inputs, cutoffs[0] + cutoffs.len() - 1).no_bias();
        Self { head, tail: Vec::new(), cutoffs, sizes: [inputs, classes] }.div_value(4.0)
    }
    /// Each cluster is so many times narrower than the one before.
    #[must_use]
    pub fn div_value(self, div_value: f64) -> Self {
        let inputs = self.sizes[0];
        let cluster = |i: usize| {
            let width = (inputs as f64 / div_value.powi(i as i32 + 1)).floor() as usize;
            let classes = self.cutoffs[i + 1] - self.cutoffs[i];
            [Linear::new(inputs, width).no_bias(), Linear::new(width, classes).no_bias()]
        };
        Self { tail: (0..self.cutoffs.len() - 1).map(cluster).collect(), ..self }
    }
    /// The head has a bias.
    #[must_use]
    pub fn head_bias(self) -> Self {
        let [outputs, inputs] = self.head.weight.dims();
        Self { head: Linear::new(inputs, outputs), ..self }
    }

    /// Log-probabilities of the head, `[n, frequent + clusters]`, and of each cluster's classes within it.
    #[track_caller]
    fn parts(&self, x: &Tensor) -> (Tensor, Vec<Tensor>) {
        let tail = self.tail.iter().map(|[to, out]| F::log_softmax(&out.forward(&to.forward(x)), -1));
        (F::log_softmax(&self.head.forward(x), -1), tail.collect())
    }
    /// The log-probability of each row's class, and the mean of their negatives.
    ///
    /// # Shape
    /// `[n, inputs]` and `[n]` to `[n]` and `[]`.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> (Tensor, Tensor) {
        let (head, tail) = self.parts(x);
        let frequent = self.cutoffs[0];
        let pick = |rows: &Tensor, column: Tensor| rows.gather(-1, column.unsqueeze(-1)).squeeze(-1);
        // A class that does not exist stays outside, for gather to refuse it.
        let mut found = pick(&head, target.clamp_max(frequent as i64 - 1));
        for (i, rows) in tail.iter().enumerate() {
            let (first, end) = (self.cutoffs[i] as i64, self.cutoffs[i + 1] as i64);
            let is_last = i + 1 == tail.len();
            let within = (target - first).clamp_min(0);
            let within = if is_last { within } else { within.clamp_max(end - first - 1) };
            let here = head.select(-1, frequent + i) + pick(rows, within);
            found = target.ge(first).if_else(here, found);
        }
        let loss = -found.mean(..);
        (found, loss)
    }
    /// Log-probabilities of all classes, `[n, classes]`.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn log_prob(&self, x: &Tensor) -> Tensor {
        let (head, tail) = self.parts(x);
        let frequent = self.cutoffs[0];
        let clusters = tail.iter().enumerate().map(|(i, rows)| rows + head.narrow(-1, frequent + i, 1));
        let all: Vec<Tensor> = std::iter::once(head.narrow(-1, 0, frequent)).chain(clusters).collect();
        cat(&all, -1)
    }
    /// The likeliest class of each row.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn predict(&self, x: &Tensor) -> Tensor {
        self.log_prob(x).argmax(-1)
    }
}
