//! Activations as layers, for `seq!`.
use crate::{Layer, Module, functional as F};
use rtx_tensor::Tensor;

macro_rules! activations { ($($(#[$doc:meta])* $T:ident $f:path;)*) => { $(
    $(#[$doc])*
    #[derive(Clone, Copy, Debug, Default, Module)]
    pub struct $T;
    impl Layer for $T {
        fn forward(&self, x: &Tensor) -> Tensor { $f(x) }
    }
)* } }
activations! {
    /// `max(x, 0)`.
    ReLU F::relu;
    /// `x · Φ(x)`, by erf.
    GELU F::gelu;
    /// The hyperbolic tangent.
    Tanh Tensor::tanh;
}
