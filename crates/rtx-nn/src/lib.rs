//! Layers: modules whose fields are parameters, buffers and other modules, under PyTorch's names.
//!
//! ```
//! use rtx_nn::{Layer, Linear, Module, ReLU, seq};
//! let net = seq![Linear::new(8, 16), ReLU, Linear::new(16, 2)];
//! assert_eq!(net.forward(&rtx_tensor::ones([4, 8])).shape(), [4, 2]);
//! assert_eq!(net.named_parameters()[0].0, "0.weight");
//! ```

// The derive writes `::rustytorch::nn::…`, and this crate lies below `rustytorch`.
extern crate self as rustytorch;
#[doc(hidden)]
pub mod nn {
    pub use crate::*;
}

mod activation;
mod attention;
mod clip;
mod dropout;
mod embedding;
pub mod init;
mod leaf;
mod linear;
mod module;
mod norm;
mod sequential;
mod state;

pub use activation::{GELU, ReLU, Tanh};
pub use attention::{CausalSelfAttention, KvCache};
pub use clip::clip_grad_norm_;
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use leaf::{Buffer, Mode, Param};
pub use linear::Linear;
pub use module::{Field, Layer, Leaf, Module, Visitor};
pub use norm::LayerNorm;
pub use rtx_macros::Module;
pub use rtx_tensor::functional;
pub use sequential::Sequential;
pub use state::{StateDict, load_file, save_file};
