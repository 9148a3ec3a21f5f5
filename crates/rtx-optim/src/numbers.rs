//! The numbers of one step as tensors, so that parameters that share a number share what is computed from it.
use crate::Group;
use rtx_core::{DType, Error, Kind, Result};
use rtx_tensor::{Tensor, call};

/// A number, read when the plan runs.
pub(crate) fn number(x: f64) -> Result<Tensor> {
    let mut made = call("full", &[Vec::<i64>::new().into(), x.into()], &[("dtype", DType::F64.into())])?;
    made.pop().ok_or_else(|| Error::new(Kind::Internal, "full: made nothing"))
}

/// One number a group: its own, or the one that all others share.
pub(crate) fn of_groups(groups: &[Group], shared: f64, own: impl Fn(&Group) -> Option<f64>) -> Result<Vec<Tensor>> {
    let shared = number(shared)?;
    groups.iter().map(|g| own(g).map_or_else(|| Ok(shared.alias()), number)).collect()
}
