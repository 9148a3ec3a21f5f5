//! Ops that Rust or PyTorch spells in a way of its own, so that no method is derived from the signature.
use crate::{
    Result, Tensor,
    call::{self, Argument, op},
    failure::OrPanic,
    number::IntoScalar,
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
    /// Elements below `min` become `min`, above `max` become `max`.
    #[track_caller]
    pub fn clamp(&self, min: impl IntoScalar, max: impl IntoScalar) -> Tensor {
        self.clamp_to(min.scalar().into(), max.scalar().into())
    }
    /// Elements below `min` become `min`.
    #[track_caller]
    pub fn clamp_min(&self, min: impl IntoScalar) -> Tensor {
        self.clamp_to(min.scalar().into(), Argument::None)
    }
    /// Elements above `max` become `max`.
    #[track_caller]
    pub fn clamp_max(&self, max: impl IntoScalar) -> Tensor {
        self.clamp_to(Argument::None, max.scalar().into())
    }
    #[track_caller]
    fn clamp_to(&self, min: Argument, max: Argument) -> Tensor {
        call::call_one(op!("clamp"), &[self.into(), min, max]).or_panic()
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
