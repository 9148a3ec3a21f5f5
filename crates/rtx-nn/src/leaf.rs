//! The leaves of a module: trained tensors, saved tensors, and the mode.
use rtx_tensor::{Argument, Operand, Tensor};
use std::fmt;
use std::ops::{Add, Deref, Div, Mul, Sub};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A trained tensor. Frozen or not, it is saved.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let w = nn::Param::new(torch::ones([2]));
/// (&w * 3.).sum(..).backward();
/// assert_eq!(w.grad().expect("of w").to_vec::<f32>()?, [3., 3.]);
/// let shared = w.tie(); // one weight in two places
/// w.tensor().detach().fill_(5.);
/// assert_eq!(shared.to_vec::<f32>()?, [5., 5.]);
/// # Ok::<(), torch::Error>(())
/// ```
pub struct Param(Tensor);

/// A tensor that is saved and not trained: running statistics, masks.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let mean = nn::Buffer::new(torch::zeros([2])); // saved with the model, not trained
/// let same = mean.tie();
/// mean.tensor().fill_(1.);
/// assert_eq!(same.to_vec::<f32>()?, [1., 1.]);
/// # Ok::<(), torch::Error>(())
/// ```
pub struct Buffer(Tensor);

impl Param {
    /// Makes `t` a leaf that collects its gradient.
    #[track_caller]
    pub fn new(t: Tensor) -> Self {
        Self(t.requires_grad_())
    }
}
impl Buffer {
    /// Makes `t` a part of the module's state.
    pub fn new(t: Tensor) -> Self {
        Self(t)
    }
}

macro_rules! leaf { ($($T:ident)*) => { $(
    impl $T {
        /// The same tensor once more: `head.weight = tok.weight.tie()` shares a weight.
        pub fn tie(&self) -> Self {
            Self(self.0.alias())
        }
        /// The tensor, as an alias.
        pub fn tensor(&self) -> Tensor {
            self.0.alias()
        }
    }
    impl Deref for $T {
        type Target = Tensor;
        fn deref(&self) -> &Tensor {
            &self.0
        }
    }
    impl AsRef<Tensor> for $T {
        fn as_ref(&self) -> &Tensor {
            &self.0
        }
    }
    /// A leaf of its own with the same value (`deepcopy`).
    impl Clone for $T {
        fn clone(&self) -> Self {
            Self::new(self.0.detach().clone())
        }
    }
    impl fmt::Debug for $T {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}({} {:?})", stringify!($T), self.0.dtype(), self.0.shape())
        }
    }
    impl Operand for &$T {
        fn argument(self) -> Argument {
            (&self.0).argument()
        }
        fn as_tensor(&self) -> Option<&Tensor> {
            Some(&self.0)
        }
    }
    leaf!(@ $T Add add, Sub sub, Mul mul, Div div);
)* };
    (@ $T:ident $($Op:ident $f:ident),*) => { $(
        impl<R: Operand> $Op<R> for &$T {
            type Output = Tensor;
            #[track_caller]
            fn $f(self, rhs: R) -> Tensor {
                $Op::$f(&self.0, rhs)
            }
        }
    )* };
}
leaf!(Param Buffer);

/// Training or evaluation. A cell, so `eval()` works on a shared model.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::Dropout::new(0.5); // it holds a Mode, which train and eval set
/// layer.eval();
/// assert!(nn::Mode::default().is_training());
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Debug)]
pub struct Mode(AtomicBool);

impl Mode {
    /// Is the module being trained?
    pub fn is_training(&self) -> bool {
        self.0.load(Relaxed)
    }
    /// Sets training or evaluation.
    pub(crate) fn set(&self, training: bool) {
        self.0.store(training, Relaxed);
    }
}
/// Modules start in training, as PyTorch's do.
impl Default for Mode {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}
impl Clone for Mode {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.is_training()))
    }
}
