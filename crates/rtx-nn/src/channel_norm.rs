//! Norms of channels: over a batch with running statistics, over each example, over groups.
use crate::{Buffer, Layer, Mode, Module, Param, functional as F, init};
use rtx_tensor::{Tensor, no_grad};

macro_rules! batch_norms {
    ($($(#[$doc:meta])* $T:ident;)*) => { $(
        $(#[$doc])*
        /// In training by the batch's own statistics, towards which the running ones move; in evaluation by the running
        /// ones (Ioffe and Szegedy, arXiv:1502.03167).
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            /// `[channels]`, ones at first; or none.
            pub weight: Option<Param>,
            /// `[channels]`, zeros at first; or none.
            pub bias: Option<Param>,
            /// `[channels]`, zeros at first.
            pub running_mean: Buffer,
            /// `[channels]`, ones at first; unbiased variances.
            pub running_var: Buffer,
            /// How many batches were seen.
            pub num_batches_tracked: Buffer,
            mode: Mode,
            eps: f64,
            momentum: f64,
        }
        impl $T {
            /// eps 1e-5, momentum 0.1.
            pub fn new(channels: usize) -> Self {
                let constant = |value| init::constant(&[channels], value);
                Self {
                    weight: Some(Param::new(constant(1.0))),
                    bias: Some(Param::new(constant(0.0))),
                    running_mean: Buffer::new(constant(0.0)),
                    running_var: Buffer::new(constant(1.0)),
                    num_batches_tracked: Buffer::new(rtx_tensor::zeros(()).to(rtx_tensor::DType::I64)),
                    mode: Mode::default(),
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
            /// Without weight and bias.
            #[must_use]
            pub fn no_affine(self) -> Self {
                Self { weight: None, bias: None, ..self }
            }
            /// Applies the layer.
            ///
            /// # Panics
            /// When the channels of `x` are others, or a channel has one value in training.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                let (weight, bias) = (self.weight.as_deref(), self.bias.as_deref());
                let running = [&*self.running_mean, &*self.running_var];
                if !self.mode.is_training() {
                    return F::batch_norm(x, running, weight, bias, self.eps);
                }
                let [y, mean, var] = F::batch_norm_train(x, running, weight, bias, (self.momentum, self.eps))
                    .unwrap_or_else(|e| panic!("{e}"));
                no_grad(|| {
                    self.running_mean.set_data(&mean.detach());
                    self.running_var.set_data(&var.detach());
                    self.num_batches_tracked.set_data(&(&*self.num_batches_tracked + 1));
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
    BatchNorm1d;
    /// Batch normalization of `[n, channels, h, w]`.
    BatchNorm2d;
    /// Batch normalization of `[n, channels, d, h, w]`.
    BatchNorm3d;
}

/// Normalization over channels in groups (Wu and He, arXiv:1803.08494).
///
/// # Shape
/// `[n, channels, ..]` to the same.
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
