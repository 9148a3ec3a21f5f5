//! Ops by their names.
use rtx_core::Result;
use rtx_tensor::Tensor;

/// The result of an op; a mistake panics at the caller's line.
#[track_caller]
pub(crate) fn one(outs: Result<Vec<Tensor>>) -> Tensor {
    match outs {
        Ok(mut outs) => outs.swap_remove(0),
        Err(e) => panic!("{e}"),
    }
}
