//! A rate that falls when a metric no longer gets better.

/// What counts as better.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let plateau = schedule::Plateau::new(0.5).threshold(schedule::Threshold::Relative(1e-3)); // better by a thousandth
/// assert_eq!(plateau.lr(), 0.5);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Threshold {
    /// By this part of the best.
    Relative(f64),
    /// By this much.
    Absolute(f64),
}

/// Falls when a metric has not been better for some reports: `ReduceLROnPlateau`. It remembers, so a checkpoint holds
/// its [`state`](Self::state).
///
/// ```
/// let mut lr = rtx_optim::schedule::Plateau::new(0.1).patience(0);
/// assert_eq!(lr.report(2.0), 0.1);
/// assert_eq!(lr.report(2.0), 0.1 * 0.1);
/// ```
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let mut plateau = schedule::Plateau::new(0.5).factor(0.5).patience(1).cooldown(0).least(0.1).eps(1e-8);
/// for loss in [1., 1., 1.] {
///     plateau.report(loss); // twice no better: half the rate
/// }
/// assert_eq!(plateau.lr(), 0.25);
/// let saved = plateau.state(); // what a checkpoint keeps
/// plateau.set_state(saved);
/// let rising = schedule::Plateau::new(0.5).rising().threshold(schedule::Threshold::Absolute(0.01)); // of an accuracy
/// assert_eq!(rising.lr(), 0.5);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plateau {
    factor: f64,
    patience: u64,
    threshold: Threshold,
    cooldown: u64,
    least: f64,
    eps: f64,
    rises: bool,
    state: PlateauState,
}

/// What a [`Plateau`] remembers.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let plateau = schedule::Plateau::new(0.5);
/// assert_eq!(plateau.state().lr, 0.5);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlateauState {
    /// The learning rate.
    pub lr: f64,
    /// The best metric so far.
    pub best: f64,
    /// Reports since it.
    pub bad: u64,
    /// Reports that do not count yet.
    pub cooling: u64,
}

impl Plateau {
    /// For a metric that should fall; PyTorch's settings: times 0.1 after 10 reports without one that is better by 1e-4 of
    /// the best.
    pub fn new(lr: f64) -> Self {
        let state = PlateauState { lr, best: f64::INFINITY, bad: 0, cooling: 0 };
        let (factor, patience, threshold) = (0.1, 10, Threshold::Relative(1e-4));
        Self { factor, patience, threshold, cooldown: 0, least: 0.0, eps: 1e-8, rises: false, state }
    }
    /// For a metric that should rise.
    #[must_use]
    pub fn rising(mut self) -> Self {
        self.state.best = f64::NEG_INFINITY;
        Self { rises: true, ..self }
    }
    /// Times `factor` instead.
    #[must_use]
    pub fn factor(self, factor: f64) -> Self {
        Self { factor, ..self }
    }
    /// After more than `patience` bad reports.
    #[must_use]
    pub fn patience(self, patience: u64) -> Self {
        Self { patience, ..self }
    }
    /// What counts as better.
    #[must_use]
    pub fn threshold(self, threshold: Threshold) -> Self {
        Self { threshold, ..self }
    }
    /// After a fall, so many reports do not count as bad.
    #[must_use]
    pub fn cooldown(self, cooldown: u64) -> Self {
        Self { cooldown, ..self }
    }
    /// Never below this.
    #[must_use]
    pub fn least(self, least: f64) -> Self {
        Self { least, ..self }
    }
    /// A fall by no more than this is left out, 1e-8 at first.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        Self { eps, ..self }
    }

    /// Takes a metric and returns the learning rate that follows.
    pub fn report(&mut self, metric: f64) -> f64 {
        let s = &mut self.state;
        let bound = match (self.threshold, self.rises) {
            (Threshold::Relative(part), false) => s.best * (1.0 - part),
            (Threshold::Relative(part), true) => s.best * (1.0 + part),
            (Threshold::Absolute(by), false) => s.best - by,
            (Threshold::Absolute(by), true) => s.best + by,
        };
        if if self.rises { metric > bound } else { metric < bound } {
            (s.best, s.bad) = (metric, 0);
        } else {
            s.bad += 1;
        }
        if s.cooling > 0 {
            (s.cooling, s.bad) = (s.cooling - 1, 0);
        }
        if s.bad > self.patience {
            (s.cooling, s.bad) = (self.cooldown, 0);
            let lr = (s.lr * self.factor).max(self.least);
            if s.lr - lr > self.eps {
                s.lr = lr;
            }
        }
        s.lr
    }
    /// The learning rate now.
    pub fn lr(&self) -> f64 {
        self.state.lr
    }
    /// What it remembers.
    pub fn state(&self) -> PlateauState {
        self.state
    }
    /// Goes on from there.
    pub fn set_state(&mut self, state: PlateauState) {
        self.state = state;
    }
}
