//! Deep learning in Rust: PyTorch's names, a plain loop, one replayed plan.
//!
//! `torch.X` is `torch::X`, a tensor's method is a method, `torch.nn.functional` is `F`. Ops are recorded and run when
//! a value is read or a step ends; whatever runs work or touches the world returns a [`Result`].
//!
//! # Tensors
//! ```
//! use rustytorch::{self as torch, prelude::*};
//! # fn main() -> Result<()> {
//! let a = tensor!([[1., 2.], [3., 4.]]); // f32, as in PyTorch; tensor!([1, 2]) is i64
//! let b = 2.0 * &a - torch::ones([2, 2]); // owned, borrowed, numbers: any mixture
//! assert_eq!(b.sum(-1).to_vec::<f32>()?, [4.0, 12.0]);
//! let x = torch::arange(0..24).reshape((2, -1, 4)); // 2 × 3 × 4
//! assert_eq!(x.i((.., 1..3, -1)).to_vec::<i64>()?, [7, 11, 19, 23]); // x[:, 1:3, -1]
//! # Ok(()) }
//! ```
//!
//! # Training
//! ```
//! use rustytorch::{self as torch, prelude::*};
//! # fn main() -> Result<()> {
//! torch::manual_seed(1);
//! let net = seq![nn::Linear::new(2, 16), nn::Tanh, nn::Linear::new(16, 1)];
//! let mut opt = optim::AdamW::new(net.parameters(), 1e-2);
//! let x = tensor!([[0., 0.], [0., 1.], [1., 0.], [1., 1.]]);
//! let y = tensor!([[0.], [1.], [1.], [0.]]);
//! for _ in 0..200 {
//!     let loss = F::mse_loss(&net.forward(&x), &y);
//!     opt.zero_grad();
//!     loss.backward();
//!     opt.step()?; // forward, backward and update run as one compiled plan
//! }
//! let loss: f32 = F::mse_loss(&net.forward(&x), &y).item()?;
//! assert!(loss < 0.05, "xor is learned: {loss}");
//! # Ok(()) }
//! ```
//!
//! # Models
//! ```
//! use rustytorch::{self as torch, prelude::*};
//! #[derive(Module)]
//! struct Residual { norm: nn::LayerNorm, inner: nn::Linear }
//! impl Residual {
//!     fn forward(&self, x: &Tensor) -> Tensor {
//!         x + self.inner.forward(&self.norm.forward(x))
//!     }
//! }
//! let block = Residual { norm: nn::LayerNorm::new(8), inner: nn::Linear::new(8, 8) };
//! assert_eq!(block.forward(&torch::ones([4, 8])).shape(), [4, 8]);
//! assert_eq!(block.named_parameters()[2].0, "inner.weight");
//! ```

/// The pages under `docs/`: their code is compiled and run with the tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/getting-started.md")]
    mod getting_started {}
    #[doc = include_str!("../../../docs/porting.md")]
    mod porting {}
    #[doc = include_str!("../../../docs/concepts.md")]
    mod concepts {}
    #[doc = include_str!("../../../docs/random.md")]
    mod random {}
    #[doc = include_str!("../../../docs/checkpoints.md")]
    mod checkpoints {}
}

/// Layers, and functions of `torch.nn`.
pub mod nn {
    #[doc(inline)]
    pub use rtx_nn::*;
}
/// Optimizers and schedules.
pub mod optim {
    #[doc(inline)]
    pub use rtx_optim::*;
}
/// Datasets, loaders and progress.
pub mod data {
    #[doc(inline)]
    pub use rtx_data::*;
}

#[doc(inline)]
pub use rtx_core::NUMERICS_VERSION;
#[doc(inline)]
pub use rtx_tensor::*;

/// Threads that work may use, the caller included. Results do not depend on them.
pub fn get_num_threads() -> usize {
    rtx_cpu::pool::threads()
}
/// Sets how many threads work may use, the caller included; 0 goes back to all there are.
pub fn set_num_threads(n: usize) {
    rtx_cpu::pool::set_threads(n);
}
/// The instruction set in use: `avx512`, `avx2` or `scalar`. All give the same bits.
pub fn cpu_capability() -> &'static str {
    rtx_cpu::isa().name()
}

/// Everything a training program needs, and no function names.
pub mod prelude {
    pub use crate::data::{DataLoader, Dataset, Progress as _};
    pub use crate::nn::{self, Buffer, Layer, Module, Param, functional as F, seq};
    pub use crate::optim::{self, Optimizer};
    pub use crate::{DType, Device, Ellipsis, Error, NewAxis, Result, Tensor, keep, step, tensor};
    pub use rtx_core::DType::{BF16, Bool, F16, F32, F64, I32, I64, U8};

    /// `..default()` in option structs.
    pub fn default<T: Default>() -> T {
        T::default()
    }
}
