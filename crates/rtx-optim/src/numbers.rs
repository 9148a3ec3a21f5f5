//! The numbers of one step as tensors, so that parameters that share a number share what is computed from it.
use rtx_core::{DType, Error, Kind, Result};
use rtx_tensor::{Tensor, call};

/// Numbers of one step, each made once.
#[derive(Default)]
pub(crate) struct Numbers(Vec<(Place, Tensor)>);

/// Which setting, and of which group if it is the group's own.
type Place = (usize, Option<usize>);

impl Numbers {
    /// A setting, read when the plan runs. Settings are told apart by their place, never by their value: a learning
    /// rate that happens to equal another number must not need a plan of its own.
    pub fn get(&mut self, place: Place, value: f64) -> Result<Tensor> {
        if let Some((_, made)) = self.0.iter().find(|(p, _)| *p == place) {
            return Ok(made.alias());
        }
        let made = number(value)?;
        self.0.push((place, made.alias()));
        Ok(made)
    }
}

/// A number, read when the plan runs.
fn number(x: f64) -> Result<Tensor> {
    let mut made = call("full", &[Vec::<i64>::new().into(), x.into()], &[("dtype", DType::F64.into())])?;
    made.pop().ok_or_else(|| Error::new(Kind::Internal, "full: made nothing"))
}
