//! Learning rates as functions of the step: `opt.set_lr(schedule.at(step))`. No state, so nothing to save, and a run
//! that resumes at step 1000 asks for step 1000.
//!
//! All of PyTorch's schedulers are here; `at(t)` is the rate after construction and `t` calls of `scheduler.step()`.
//! What follows a metric ([`Plateau`]) has to remember, and says what.
//!
//! ```
//! use rtx_optim::schedule::{Cosine, Linear, Schedule, Sequential};
//! let lr = Sequential::new(Linear::new(0.1, 10).from(0.1)).then(10, Cosine::new(0.1, 90));
//! assert_eq!(lr.at(0), 0.1 * 0.1);
//! assert_eq!(lr.at(10), 0.1);
//! assert!(lr.at(100) < 1e-9);
//! ```
mod cycle;
mod factor;
mod join;
mod plateau;

pub use cycle::{Anneal, Cyclic, CyclicMode, OneCycle, WarmRestarts};
pub use factor::{Constant, Cosine, Exponential, Lambda, Linear, MultiStep, Multiplicative, Polynomial, Step, Swa};
pub use join::{Chained, Sequential};
pub use plateau::{Plateau, PlateauState, Threshold};

/// A learning rate for each step.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// struct Halves; // any function of the step
/// impl optim::Schedule for Halves {
///     fn at(&self, step: u64) -> f64 {
///         self.base() / 2_f64.powi(step as i32)
///     }
///     fn base(&self) -> f64 {
///         1.
///     }
/// }
/// assert_eq!((Halves.at(2), Halves.momentum_at(2)), (0.25, None));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub trait Schedule: Send + Sync {
    /// The learning rate of step `step`, counted from 0.
    fn at(&self, step: u64) -> f64;
    /// The learning rate that the schedule bends: what [`Chained`] takes its part of.
    fn base(&self) -> f64;
    /// The momentum of step `step`, where the schedule moves it too.
    fn momentum_at(&self, step: u64) -> Option<f64> {
        let _ = step;
        None
    }
}

#[cfg(test)]
mod tests;
