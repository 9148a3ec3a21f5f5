//! Optimizers with parameter groups. State lives on the device, a step is one plan; schedules are functions.

mod adam;
mod group;
mod numbers;
mod schedule;
mod sgd;
mod state;

pub use adam::{Adam, AdamW};
pub use group::Group;
pub use schedule::Cosine;
pub use sgd::Sgd as SGD;

use rtx_core::Result;
use rtx_nn::StateDict;

/// What every optimizer does.
pub trait Optimizer {
    /// Updates the parameters that have a gradient and closes the region: everything recorded so far runs as one plan.
    ///
    /// # Errors
    /// When a plan cannot be made or a kernel fails; memory shortage leaves parameters as they were.
    fn step(&mut self) -> Result<()>;
    /// Forgets the gradients.
    fn zero_grad(&mut self);
    /// Sets the learning rate of all groups that have none of their own. A number: nothing recompiles.
    fn set_lr(&mut self, lr: f64);
    /// Moments and step counts by name, as PyTorch calls them: `exp_avg.3` belongs to the fourth parameter.
    fn state_dict(&self) -> StateDict;
    /// Takes the values of `from`.
    ///
    /// # Errors
    /// When names or shapes differ; then nothing is changed.
    fn load_state_dict(&mut self, from: &StateDict) -> Result<()>;
}
