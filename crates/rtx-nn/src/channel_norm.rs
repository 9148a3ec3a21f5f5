//! Norms of channels: over a batch with running statistics, over each example, over groups.
use crate::{Buffer, Layer, Mode, Module, Param, functional as F, init};
use rtx_tensor::{Tensor, no_grad};

/// Running statistics of channels: means, variances, and how many batches were seen.
type Running = [Buffer; 3];

/// Zeros, ones, and none seen.
fn running(channels: usize) -> Running {
    let constant = |value| Buffer::new(init::constant(&[channels], value));
    [constant(0.0), constant(1.0), Buffer::new(rtx_tensor::zeros(()).to(rtx_tensor::DType::I64))]
}

#[track_caller]
fn check_rank(layer: &str, x: &Tensor, ranks: &[usize]) {
    assert!(ranks.contains(&x.rank()), "{layer}: takes {ranks:?} dims, got {:?}", x.shape());
}

macro_rules! batch_norms {
    ($($(#[$doc:meta])* $T:ident $ranks:expr;)*) => { $(
        $(#[$doc])*
        /// In training by the batch's own statistics, towards which the running ones move; in evaluation by the running
        /// ones (Ioffe and Szegedy, arXiv:1502.03167).
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            /// `[channels]`, ones at first; or none.
            pub weight: Option<Param>,
            /// `[channels]`, zeros at first; or none.
            pub bias: Option<Param>,
            /// `[channels]`, zeros at first; or none.
            pub running_mean: Option<Buffer>,
            /// `[channels]`, ones at first; unbiased variances; or none.
            pub running_var: Option<Buffer>,
            /// How many batches were seen; or none.
            pub num_batches_tracked: Option<Buffer>,
            mode: Mode,
            eps: f64,
            #[module(skip)]
            momentum: Option<f64>,
        }
        impl $T {
            /// eps 1e-5, momentum 0.1.
            pub fn new(channels: usize) -> Self {
                let constant = |value| Some(Param::new(init::constant(&[channels], value)));
                let [mean, var, seen] = running(channels).map(Some);
                Self {
                    weight: constant(1.0),
                    bias: constant(0.0),
                    running_mean: mean,
                    running_var: var,
                    num_batches_tracked: seen,
                    mode: Mode::default(),
                    eps: 1e-5,
                    momentum: Some(0.1),
                }
            }
            /// Another eps.
            #[must_use]
            pub fn eps(self, eps: f64) -> Self {
                Self { eps, ..self }
            }
            /// How far the running statistics move at each step.
            #[must_use]
            pub fn momentum(self, momentum: f64) -> Self {
                Self { momentum: Some(momentum), ..self }
            }
            /// The running statistics are means over all batches seen: `momentum=None`.
            #[must_use]
            pub fn cumulative(self) -> Self {
                Self { momentum: None, ..self }
            }
            /// Without weight and bias.
            #[must_use]
            pub fn no_affine(self) -> Self {
                Self { weight: None, bias: None, ..self }
            }
            /// Without the bias.
            #[must_use]
            pub fn no_bias(self) -> Self {
                Self { bias: None, ..self }
            }
            /// Without running statistics: by the batch's own in evaluation, too. `track_running_stats=False`.
            #[must_use]
            pub fn no_running_stats(self) -> Self {
                Self { running_mean: None, running_var: None, num_batches_tracked: None, ..self }
            }
            /// Applies the layer.
            ///
            /// # Panics
            /// When the channels or dims of `x` are others, or a channel has one value in training.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                check_rank(stringify!($T), x, &$ranks);
                let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
                let (Some(mean), Some(var)) = (self.running_mean.as_deref(), self.running_var.as_deref()) else {
                    return F::batch_norm_plain(x, weight, bias, self.eps);
                };
                if !self.mode.is_training() {
                    return F::batch_norm(x, [mean, var], weight, bias, self.eps);
                }
                let momentum = self.momentum.unwrap_or(1.0);
                let [y, new_mean, new_var] = F::batch_norm_train(x, [mean, var], weight, bias, (momentum, self.eps))
                    .unwrap_or_else(|e| panic!("{e}"));
                no_grad(|| {
                    let Some(seen) = self.num_batches_tracked.as_deref() else { return };
                    seen.set_data(&(seen + 1));
                    for (old, new) in [(mean, new_mean.detach()), (var, new_var.detach())] {
                        match self.momentum {
                            Some(_) => old.set_data(&new),
                            // The mean of all so far moves by what the new one adds to it.
                            None => old.set_data(&(old + (new - old) / seen.to(old.dtype()))),
                        }
                    }
                });
                y
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
    )* };
}

batch_norms! {
    /// Batch normalization of `[n, channels]` or `[n, channels, l]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let norm = nn::BatchNorm1d::new(2).momentum(0.1).eps(1e-5);
    /// let y = norm.forward(&torch::rand([4, 2, 8])); // of this batch, and the running ones move
    /// assert!(y.mean(..).item::<f32>()?.abs() < 1e-4);
    /// norm.eval(); // by the running ones
    /// assert_eq!(norm.forward(&torch::rand([1, 2, 8])).shape(), [1, 2, 8]);
    /// // no_bias, no_affine: without the weights; cumulative: plain means; no_running_stats: none are kept
    /// let bare = nn::BatchNorm1d::new(2).no_affine().no_running_stats();
    /// assert_eq!(bare.num_parameters(), 0);
    /// let plain = nn::BatchNorm1d::new(2).cumulative().no_bias();
    /// assert_eq!(plain.num_parameters(), 2);
    /// # Ok::<(), torch::Error>(())
    /// ```
    BatchNorm1d [2, 3];
    /// Batch normalization of `[n, channels, h, w]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let norm = nn::BatchNorm2d::new(2).momentum(0.1).eps(1e-5);
    /// let y = norm.forward(&torch::rand([4, 2, 8, 8])); // of this batch, and the running ones move
    /// assert!(y.mean(..).item::<f32>()?.abs() < 1e-4);
    /// norm.eval(); // by the running ones
    /// assert_eq!(norm.forward(&torch::rand([1, 2, 8, 8])).shape(), [1, 2, 8, 8]);
    /// // no_bias, no_affine: without the weights; cumulative: plain means; no_running_stats: none are kept
    /// let bare = nn::BatchNorm2d::new(2).no_affine().no_running_stats();
    /// assert_eq!(bare.num_parameters(), 0);
    /// let plain = nn::BatchNorm2d::new(2).cumulative().no_bias();
    /// assert_eq!(plain.num_parameters(), 2);
    /// # Ok::<(), torch::Error>(())
    /// ```
    BatchNorm2d [4];
    /// Batch normalization of `[n, channels, d, h, w]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let norm = nn::BatchNorm3d::new(2).momentum(0.1).eps(1e-5);
    /// let y = norm.forward(&torch::rand([4, 2, 8, 8, 8])); // of this batch, and the running ones move
    /// assert!(y.mean(..).item::<f32>()?.abs() < 1e-4);
    /// norm.eval(); // by the running ones
    /// assert_eq!(norm.forward(&torch::rand([1, 2, 8, 8, 8])).shape(), [1, 2, 8, 8, 8]);
    /// // no_bias, no_affine: without the weights; cumulative: plain means; no_running_stats: none are kept
    /// let bare = nn::BatchNorm3d::new(2).no_affine().no_running_stats();
    /// assert_eq!(bare.num_parameters(), 0);
    /// let plain = nn::BatchNorm3d::new(2).cumulative().no_bias();
    /// assert_eq!(plain.num_parameters(), 2);
    /// # Ok::<(), torch::Error>(())
    /// ```
    BatchNorm3d [5];
}

macro_rules! instance_norms {
    ($($(#[$doc:meta])* $T:ident $rank:literal;)*) => { $(
        $(#[$doc])*
        /// Each channel of each example by its own statistics (Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022). The
        /// batch's dim may be left out.
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            /// `[channels]`, or none.
            pub weight: Option<Param>,
            /// `[channels]`, or none.
            pub bias: Option<Param>,
            /// `[channels]`, or none.
            pub running_mean: Option<Buffer>,
            /// `[channels]`, unbiased variances; or none.
            pub running_var: Option<Buffer>,
            /// Kept for files of PyTorch's, which has it and does not count; or none.
            pub num_batches_tracked: Option<Buffer>,
            mode: Mode,
            channels: usize,
            eps: f64,
            momentum: f64,
        }
        impl $T {
            /// eps 1e-5, momentum 0.1, without weight, bias and running statistics.
            pub fn new(channels: usize) -> Self {
                Self {
                    weight: None,
                    bias: None,
                    running_mean: None,
                    running_var: None,
                    num_batches_tracked: None,
                    mode: Mode::default(),
                    channels,
                    eps: 1e-5,
                    momentum: 0.1,
                }
            }
            /// Another eps.
            #[must_use]
            pub fn eps(self, eps: f64) -> Self {
                Self { eps, ..self }
            }
            /// How far the running statistics move at each step.
            #[must_use]
            pub fn momentum(self, momentum: f64) -> Self {
                Self { momentum, ..self }
            }
            /// With a weight of ones and a bias of zeros.
            #[must_use]
            pub fn affine(self) -> Self {
                let constant = |value| Some(Param::new(init::constant(&[self.channels], value)));
                Self { weight: constant(1.0), bias: constant(0.0), ..self }
            }
            /// Without the bias that [`affine`](Self::affine) gives.
            #[must_use]
            pub fn no_bias(self) -> Self {
                Self { bias: None, ..self }
            }
            /// With running statistics, which evaluation uses: `track_running_stats=True`.
            #[must_use]
            pub fn running_stats(self) -> Self {
                let [running_mean, running_var, num_batches_tracked] = running(self.channels).map(Some);
                Self { running_mean, running_var, num_batches_tracked, ..self }
            }
            /// Applies the layer.
            ///
            /// # Panics
            /// When the dims of `x` are others, its channels do not fit weights or statistics, or there is one value a
            /// channel.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                check_rank(stringify!($T), x, &[$rank - 1, $rank]);
                if x.rank() < $rank {
                    return self.forward(&x.unsqueeze(0)).squeeze(0);
                }
                let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
                let running = self.running_mean.as_deref().zip(self.running_var.as_deref());
                if let (Some((mean, var)), false) = (running, self.mode.is_training()) {
                    return F::batch_norm(x, [mean, var], weight, bias, self.eps);
                }
                // What is refused moves no statistics.
                let y = F::instance_norm(x, weight, bias, self.eps);
                if let Some(running) = running {
                    self.track(x, running);
                }
                y
            }
            /// Moves the running statistics towards the mean of the examples' own.
            fn track(&self, x: &Tensor, (mean, var): (&Tensor, &Tensor)) {
                no_grad(|| {
                    let rows = x.detach().flatten(2, -1);
                    for (old, new) in [(mean, rows.mean(-1).mean(0)), (var, rows.var(-1).mean(0))] {
                        old.set_data(&(old * (1.0 - self.momentum) + new * self.momentum));
                    }
                });
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
    )* };
}

instance_norms! {
    /// Instance normalization of `[n, channels, l]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let norm = nn::InstanceNorm1d::new(2).eps(1e-5); // without weights, as in PyTorch
    /// assert!(norm.forward(&torch::rand([1, 2, 8])).mean(..).item::<f32>()?.abs() < 1e-4);
    /// let norm = nn::InstanceNorm1d::new(2).affine().no_bias().running_stats().momentum(0.2);
    /// assert_eq!(norm.num_parameters(), 2);
    /// # Ok::<(), torch::Error>(())
    /// ```
    InstanceNorm1d 3;
    /// Instance normalization of `[n, channels, h, w]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let norm = nn::InstanceNorm2d::new(2).eps(1e-5); // without weights, as in PyTorch
    /// assert!(norm.forward(&torch::rand([1, 2, 8, 8])).mean(..).item::<f32>()?.abs() < 1e-4);
    /// let norm = nn::InstanceNorm2d::new(2).affine().no_bias().running_stats().momentum(0.2);
    /// assert_eq!(norm.num_parameters(), 2);
    /// # Ok::<(), torch::Error>(())
    /// ```
    InstanceNorm2d 4;
    /// Instance normalization of `[n, channels, d, h, w]`.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let norm = nn::InstanceNorm3d::new(2).eps(1e-5); // without weights, as in PyTorch
    /// assert!(norm.forward(&torch::rand([1, 2, 8, 8, 8])).mean(..).item::<f32>()?.abs() < 1e-4);
    /// let norm = nn::InstanceNorm3d::new(2).affine().no_bias().running_stats().momentum(0.2);
    /// assert_eq!(norm.num_parameters(), 2);
    /// # Ok::<(), torch::Error>(())
    /// ```
    InstanceNorm3d 5;
}

/// Division by a power of the mean square of neighbouring channels (Krizhevsky, Sutskever and Hinton 2012):
/// `x / (k + alpha · mean x²)^beta`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let norm = nn::LocalResponseNorm::new(3).alpha(1e-4).beta(0.75).k(1.);
/// assert_eq!(norm.forward(&torch::rand([1, 6, 5])).shape(), [1, 6, 5]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct LocalResponseNorm {
    size: i64,
    alpha: f64,
    beta: f64,
    k: f64,
}
impl LocalResponseNorm {
    /// Over so many channels; alpha 1e-4, beta 0.75, k 1.
    pub fn new(size: usize) -> Self {
        Self { size: size as i64, alpha: 1e-4, beta: 0.75, k: 1.0 }
    }
    /// What the mean square is multiplied by.
    #[must_use]
    pub fn alpha(self, alpha: f64) -> Self {
        Self { alpha, ..self }
    }
    /// The power.
    #[must_use]
    pub fn beta(self, beta: f64) -> Self {
        Self { beta, ..self }
    }
    /// What is added to the mean square.
    #[must_use]
    pub fn k(self, k: f64) -> Self {
        Self { k, ..self }
    }
}
impl Layer for LocalResponseNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        F::local_response_norm(x, self.size, self.alpha, self.beta, self.k)
    }
}

/// Normalization over channels in groups (Wu and He, arXiv:1803.08494).
///
/// # Shape
/// `[n, channels, ..]` to the same.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let norm = nn::GroupNorm::new(2, 6).eps(1e-5); // two groups of three channels
/// assert_eq!(norm.forward(&torch::rand([1, 6, 5])).shape(), [1, 6, 5]);
/// assert_eq!((nn::GroupNorm::new(2, 6).no_bias().num_parameters(), nn::GroupNorm::new(2, 6).no_affine().num_parameters()), (6, 0));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct GroupNorm {
    /// `[channels]`, ones at first; or none.
    pub weight: Option<Param>,
    /// `[channels]`, zeros at first; or none.
    pub bias: Option<Param>,
    groups: i64,
    eps: f64,
}
impl GroupNorm {
    /// eps 1e-5.
    pub fn new(groups: usize, channels: usize) -> Self {
        let constant = |value| Some(Param::new(init::constant(&[channels], value)));
        Self { weight: constant(1.0), bias: constant(0.0), groups: groups as i64, eps: 1e-5 }
    }
    /// Another eps.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }
    /// Without weight and bias.
    #[must_use]
    pub fn no_affine(self) -> Self {
        Self { weight: None, bias: None, ..self }
    }
    /// Without the bias.
    #[must_use]
    pub fn no_bias(self) -> Self {
        Self { bias: None, ..self }
    }
    /// Applies the layer.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        F::group_norm(x, self.groups, self.weight.as_deref(), self.bias.as_deref(), self.eps)
    }
}
impl Layer for GroupNorm {
    fn forward(&self, x: &Tensor) -> Tensor {
        GroupNorm::forward(self, x)
    }
}
