//! Rows of a table, by number.
use crate::{Layer, Module, Param, functional as F};
use rtx_tensor::{Tensor, randn};

/// A table of `rows` vectors; the forward pass picks rows.
///
/// # Shape
/// `[..]` of integers to `[.., width]`; weight `[rows, width]`.
#[derive(Clone, Debug, Module)]
pub struct Embedding {
    /// `[rows, width]`.
    pub weight: Param,
}

impl Embedding {
    /// A table drawn from N(0, 1), as PyTorch draws it.
    pub fn new(rows: usize, width: usize) -> Self {
        Self { weight: Param::new(randn([rows, width])) }
    }
    /// The rows that `ids` name.
    #[track_caller]
    pub fn forward(&self, ids: &Tensor) -> Tensor {
        F::embedding(ids, &self.weight)
    }
}
impl Layer for Embedding {
    fn forward(&self, x: &Tensor) -> Tensor {
        Embedding::forward(self, x)
    }
}
