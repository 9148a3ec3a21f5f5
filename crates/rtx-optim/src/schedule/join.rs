//! Schedules made of schedules.
use super::Schedule;

/// Schedules one after the other, each counting its steps from where it takes over: `SequentialLR`.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Sequential::new(schedule::Constant::new(0.5).factor(1.)).then(10, schedule::Exponential::new(0.5, 0.5));
/// assert_eq!((lr.at(9), lr.at(11)), (0.5, 0.25));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub struct Sequential {
    /// From which step each holds.
    parts: Vec<(u64, Box<dyn Schedule>)>,
}
impl Sequential {
    /// Begins with this.
    pub fn new(first: impl Schedule + 'static) -> Self {
        Self { parts: vec![(0, Box::new(first))] }
    }
    /// Goes on with this from step `from` on.
    #[must_use]
    pub fn then(mut self, from: u64, next: impl Schedule + 'static) -> Self {
        self.parts.push((from, Box::new(next)));
        self
    }
    fn part(&self, step: u64) -> (u64, &dyn Schedule) {
        let found = self.parts.iter().rev().find(|(from, _)| *from <= step).unwrap_or(&self.parts[0]);
        (step - found.0, &*found.1)
    }
    /// The learning rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        let (at, part) = self.part(step);
        part.at(at)
    }
}
impl Schedule for Sequential {
    fn at(&self, step: u64) -> f64 {
        Sequential::at(self, step)
    }
    fn base(&self) -> f64 {
        self.parts[0].1.base()
    }
    fn momentum_at(&self, step: u64) -> Option<f64> {
        let (at, part) = self.part(step);
        part.momentum_at(at)
    }
}

/// Schedules at once, each taking its part of the rate: `ChainedScheduler`. The rate is the first one's, times what each
/// other makes of its own base. (PyTorch changes the rate step by step; for schedules with a floor, as a cosine may have,
/// its result depends on their order, and this does not.)
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Chained::new(schedule::Exponential::new(0.5, 0.5)).with(schedule::Step::new(0.5, 1).gamma(0.5));
/// assert_eq!(lr.at(1), 0.125); // both factors
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub struct Chained(Vec<Box<dyn Schedule>>);
impl Chained {
    /// Begins with this.
    pub fn new(first: impl Schedule + 'static) -> Self {
        Self(vec![Box::new(first)])
    }
    /// And takes this one's part of it.
    #[must_use]
    pub fn with(mut self, next: impl Schedule + 'static) -> Self {
        self.0.push(Box::new(next));
        self
    }
    /// The learning rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        self.0[1..].iter().fold(self.0[0].at(step), |lr, next| lr * (next.at(step) / next.base()))
    }
}
impl Schedule for Chained {
    fn at(&self, step: u64) -> f64 {
        Chained::at(self, step)
    }
    fn base(&self) -> f64 {
        self.0[0].base()
    }
    fn momentum_at(&self, step: u64) -> Option<f64> {
        self.0.iter().find_map(|s| s.momentum_at(step))
    }
}
impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn at(&self, step: u64) -> f64 {
        (**self).at(step)
    }
    fn base(&self) -> f64 {
        (**self).base()
    }
    fn momentum_at(&self, step: u64) -> Option<f64> {
        (**self).momentum_at(step)
    }
}
