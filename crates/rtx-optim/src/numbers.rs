//! The numbers of one step as tensors, so that parameters that share a number share what is computed from it.
use rtx_core::{DType, Result};
use rtx_tensor::{Tensor, run_time_number};

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
        let made = run_time_number(value, DType::F64)?;
        self.0.push((place, made.alias()));
        Ok(made)
    }
}
