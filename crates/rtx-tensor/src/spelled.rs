//! Ops that Rust or PyTorch spells in a way of its own, so that no method is derived from the signature.
use crate::{
    Result, Tensor,
    call::{self, Argument, op},
    failure::OrPanic,
    operand::Operand,
    shape::IntoAxes,
};

impl Tensor {
    /// PyTorch's `where`, a keyword here: elements of `a` where this mask holds, of `b` elsewhere.
    ///
    /// # Panics
    /// When this is no bool tensor, or the shapes do not broadcast.
    #[track_caller]
    pub fn if_else(&self, a: impl Operand, b: impl Operand) -> Tensor {
        self.choose(a.argument(), b.argument()).or_panic()
    }
    #[track_caller]
    pub(crate) fn choose(&self, a: Argument, b: Argument) -> Result<Tensor> {
        call::call_one(op!("where"), &[self.into(), a, b])
    }
    /// Elements below `min` become `min`, above `max` become `max`; both are numbers, or tensors that broadcast.
    #[track_caller]
    pub fn clamp(&self, min: impl Operand, max: impl Operand) -> Tensor {
        call::call_one(op!("clamp"), &[self.into(), min.argument(), max.argument()]).or_panic()
    }
    /// √Σ x² over dims.
    ///
    /// # Panics
    /// When a dim does not exist.
    #[track_caller]
    pub fn norm(&self, dim: impl IntoAxes) -> Tensor {
        let axes = dim.axes();
        let args = [self.into(), 2.into(), axes.list(), axes.keep.into()];
        call::call_one(op!("linalg_vector_norm"), &args).or_panic()
    }
}
