//! Optimizers with parameter groups. State lives on the device, a step is one plan; schedules are functions.

mod algorithms;
mod average;
mod core;
mod group;
mod lbfgs;
mod numbers;
mod scaler;
pub mod schedule;
mod state;

pub use algorithms::{
    ASGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, Muon, NAdam, RAdam, RMSprop, Rprop, SGD,
};
pub use average::Average;
pub use group::Group;
pub use lbfgs::LBFGS;
pub use scaler::GradScaler;
pub use schedule::{Cosine, Schedule};

use rtx_core::Result;
use rtx_nn::{Param, StateDict};
use rtx_tensor::Tensor;

/// What every optimizer does.
///
/// ```
/// use rtx_optim::{Optimizer, SGD};
/// # use rtx_nn::Param;
/// # fn main() -> rtx_core::Result<()> {
/// let w = Param::new(rtx_tensor::tensor!([1.0, -2.0]));
/// let mut opt = SGD::new(vec![w.tie()], 0.1);
/// for _ in 0..50 {
///     let loss = (&w * &w).sum(..);
///     opt.zero_grad();
///     loss.backward();
///     opt.step()?;
/// }
/// assert!(w.to_vec::<f32>()?.iter().all(|x| x.abs() < 1e-4));
/// assert_eq!((opt.lr(), opt.params().len()), (0.1, 1));
///
/// // What schedules do, and what a checkpoint keeps.
/// let state = opt.state_dict();
/// opt.load_state_dict(&state)?;
/// opt.set_lr(0.05);
/// opt.set_momentum(0.9);
/// opt.set_group_lr(0, 0.01); // this group has a rate of its own from here on
///
/// // A step that is left out, without reading anything, where the loss is no number.
/// let loss = (&w * &w).sum(..);
/// opt.zero_grad();
/// loss.backward();
/// opt.step_unless(&loss.isnan())?;
/// # Ok(()) }
/// ```
pub trait Optimizer {
    /// Updates the parameters that have a gradient and closes the region: everything recorded so far runs as one plan.
    ///
    /// # Errors
    /// When a plan cannot be made or a kernel fails; memory shortage leaves parameters as they were.
    fn step(&mut self) -> Result<()>;
    /// As [`Optimizer::step`]; where `skip` (a bool tensor of rank 0) is true, neither parameters nor state change.
    ///
    /// # Errors
    /// As [`Optimizer::step`].
    fn step_unless(&mut self, skip: &Tensor) -> Result<()>;
    /// Its parameters, group after group.
    fn params(&self) -> Vec<Param>;
    /// Forgets the gradients.
    fn zero_grad(&mut self);
    /// Sets the learning rate of all groups that have none of their own. A number: nothing recompiles.
    fn set_lr(&mut self, lr: f64);
    /// The learning rate of all groups that have none of their own.
    fn lr(&self) -> f64;
    /// Gives one group a learning rate of its own.
    ///
    /// # Panics
    /// When there is no such group.
    fn set_group_lr(&mut self, group: usize, lr: f64);
    /// Sets what [`schedule::Cyclic`] and [`schedule::OneCycle`] move beside the learning rate: the momentum, or the
    /// first of the betas. Optimizers that have neither leave it.
    fn set_momentum(&mut self, momentum: f64);
    /// Moments and step counts by name, as PyTorch calls them: `exp_avg.3` belongs to the fourth parameter.
    fn state_dict(&self) -> StateDict;
    /// Takes the values of `from`.
    ///
    /// # Errors
    /// When names or shapes differ; then nothing is changed.
    fn load_state_dict(&mut self, from: &StateDict) -> Result<()>;
}
