//! A rate times a factor that is a formula of the step.
use super::{Anneal, Schedule};
use std::f64::consts::PI;
use std::fmt;
use std::sync::Mutex;

/// Implements [`Schedule`] beside an inherent `at`, so that `lr.at(step)` needs no trait in scope.
macro_rules! schedule { ($T:ident, $($at:tt)*) => {
    impl $T {
        /// The learning rate of step `step`, counted from 0.
        pub fn at(&self, step: u64) -> f64 {
            let f: fn(&Self, u64) -> f64 = $($at)*;
            f(self, step)
        }
    }
    impl Schedule for $T {
        fn at(&self, step: u64) -> f64 {
            $T::at(self, step)
        }
        fn base(&self) -> f64 {
            self.base
        }
    }
} }

/// A rate times any function of the step: `LambdaLR`.
///
/// ```
/// let lr = rtx_optim::schedule::Lambda::new(0.1, |step| 1.0 / (1.0 + step as f64));
/// assert_eq!(lr.at(1), 0.05);
/// ```
pub struct Lambda {
    base: f64,
    factor: Box<dyn Fn(u64) -> f64 + Send + Sync>,
}
impl Lambda {
    /// `base` · `factor(step)`.
    pub fn new(base: f64, factor: impl Fn(u64) -> f64 + Send + Sync + 'static) -> Self {
        Self { base, factor: Box::new(factor) }
    }
}
schedule!(Lambda, |s, step| s.base * (s.factor)(step));
impl fmt::Debug for Lambda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lambda({} · f(step))", self.base)
    }
}

/// A rate that each step multiplies by a number of its own: `MultiplicativeLR`.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Multiplicative::new(0.5, |_| 0.5);
/// assert_eq!(lr.at(1), 0.25);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub struct Multiplicative {
    base: f64,
    factor: Box<dyn Fn(u64) -> f64 + Send + Sync>,
    /// The last step asked for and its rate: the next one is one multiplication further.
    last: Mutex<(u64, f64)>,
}
impl Multiplicative {
    /// `base` · `factor(1)` · … · `factor(step)`.
    pub fn new(base: f64, factor: impl Fn(u64) -> f64 + Send + Sync + 'static) -> Self {
        Self { base, factor: Box::new(factor), last: Mutex::new((0, base)) }
    }
}
schedule!(Multiplicative, |s, step| {
    let mut last = s.last.lock().unwrap_or_else(|e| e.into_inner());
    if step < last.0 {
        *last = (0, s.base);
    }
    *last = (last.0 + 1..=step).fold(*last, |(_, lr), t| (t, lr * (s.factor)(t)));
    last.1
});
impl fmt::Debug for Multiplicative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Multiplicative({} · Π f(step))", self.base)
    }
}

/// Falls by a factor every so many steps: `StepLR`.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Step::new(0.5, 10).gamma(0.5);
/// assert_eq!(lr.at(10), 0.25);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Step {
    base: f64,
    every: u64,
    gamma: f64,
}
impl Step {
    /// Times 0.1 after each `every` steps.
    pub fn new(base: f64, every: u64) -> Self {
        Self { base, every: every.max(1), gamma: 0.1 }
    }
    /// Times `gamma` instead.
    #[must_use]
    pub fn gamma(self, gamma: f64) -> Self {
        Self { gamma, ..self }
    }
}
schedule!(Step, |s, step| s.base * power(s.gamma, step / s.every));

/// `x` to a whole power.
fn power(x: f64, n: u64) -> f64 {
    i32::try_from(n).map_or_else(|_| x.powf(n as f64), |n| x.powi(n))
}

/// Falls by a factor at given steps: `MultiStepLR`.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::MultiStep::new(0.5, [2, 4]).gamma(0.5);
/// assert_eq!(lr.at(2), 0.25);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiStep {
    base: f64,
    milestones: Vec<u64>,
    gamma: f64,
}
impl MultiStep {
    /// Times 0.1 at each milestone, twice at one that is named twice.
    pub fn new(base: f64, milestones: impl Into<Vec<u64>>) -> Self {
        Self { base, milestones: milestones.into(), gamma: 0.1 }
    }
    /// Times `gamma` instead.
    #[must_use]
    pub fn gamma(self, gamma: f64) -> Self {
        Self { gamma, ..self }
    }
}
schedule!(MultiStep, |s, step| s.base * power(s.gamma, s.milestones.iter().filter(|m| **m <= step).count() as u64));

/// A part of the rate for the first steps: `ConstantLR`.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Constant::new(0.3).factor(0.5).steps(5);
/// assert_eq!(lr.at(0), 0.15);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Constant {
    base: f64,
    factor: f64,
    steps: u64,
}
impl Constant {
    /// A third of `base` for the first 5 steps, PyTorch's defaults.
    pub fn new(base: f64) -> Self {
        Self { base, factor: 1.0 / 3.0, steps: 5 }
    }
    /// This part.
    #[must_use]
    pub fn factor(self, factor: f64) -> Self {
        Self { factor, ..self }
    }
    /// For so many steps.
    #[must_use]
    pub fn steps(self, steps: u64) -> Self {
        Self { steps, ..self }
    }
}
schedule!(Constant, |s, step| if step < s.steps { s.base * s.factor } else { s.base });

/// From a part of the rate to another one, in equal steps: `LinearLR`. A warm-up.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Linear::new(0.5, 4).from(0.5).to(1.);
/// assert_eq!(lr.at(4), 0.5);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Linear {
    base: f64,
    start: f64,
    end: f64,
    steps: u64,
}
impl Linear {
    /// From a third of `base` to all of it at `steps`.
    pub fn new(base: f64, steps: u64) -> Self {
        Self { base, start: 1.0 / 3.0, end: 1.0, steps: steps.max(1) }
    }
    /// From this part.
    #[must_use]
    pub fn from(self, start: f64) -> Self {
        Self { start, ..self }
    }
    /// To this part.
    #[must_use]
    pub fn to(self, end: f64) -> Self {
        Self { end, ..self }
    }
}
schedule!(Linear, |s, step| {
    let done = step.min(s.steps) as f64 / s.steps as f64;
    s.base * (s.start + (s.end - s.start) * done)
});

/// Times a factor at each step: `ExponentialLR`.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Exponential::new(0.5, 0.5);
/// assert_eq!(lr.at(2), 0.125);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Exponential {
    base: f64,
    gamma: f64,
}
impl Exponential {
    /// `base` · `gamma`^step.
    pub fn new(base: f64, gamma: f64) -> Self {
        Self { base, gamma }
    }
}
schedule!(Exponential, |s, step| s.base * power(s.gamma, step));

/// Down to zero by a power of what is left: `PolynomialLR`.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Polynomial::new(0.5, 4).power(1.);
/// assert_eq!(lr.at(2), 0.25);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Polynomial {
    base: f64,
    steps: u64,
    power: f64,
}
impl Polynomial {
    /// `base` · (1 - step/`steps`): zero from `steps` on.
    pub fn new(base: f64, steps: u64) -> Self {
        Self { base, steps: steps.max(1), power: 1.0 }
    }
    /// To this power.
    #[must_use]
    pub fn power(self, power: f64) -> Self {
        Self { power, ..self }
    }
}
schedule!(Polynomial, |s, step| s.base * (1.0 - step.min(s.steps) as f64 / s.steps as f64).powf(s.power));

/// A linear rise over the warm-up, then half a cosine down to `floor`; it stays there, or [`repeats`](Self::repeating).
///
/// ```
/// let lr = rtx_optim::Cosine::new(1e-3, 100).warmup(10);
/// assert_eq!(lr.at(9), 1e-3);
/// assert!(lr.at(100) < 1e-9);
/// ```
#[derive(Clone, Debug)]
pub struct Cosine {
    base: f64,
    steps: u64,
    warmup: u64,
    floor: f64,
    repeating: bool,
}
impl Cosine {
    /// From `peak` at step 0 to zero at `steps`.
    pub fn new(peak: f64, steps: u64) -> Self {
        Self { base: peak, steps, warmup: 0, floor: 0.0, repeating: false }
    }
    /// Rises over the first `warmup` steps: step 0 uses peak / warmup.
    #[must_use]
    pub fn warmup(self, warmup: u64) -> Self {
        Self { warmup, ..self }
    }
    /// Ends at `floor`.
    #[must_use]
    pub fn floor(self, floor: f64) -> Self {
        Self { floor, ..self }
    }
    /// Goes up again after the end, as the cosine does: PyTorch's `CosineAnnealingLR`.
    #[must_use]
    pub fn repeating(self) -> Self {
        Self { repeating: true, ..self }
    }
}
schedule!(Cosine, |s, step| {
    if step < s.warmup {
        return s.base * (step + 1) as f64 / s.warmup as f64;
    }
    let length = s.steps.saturating_sub(s.warmup).max(1);
    let done = (step - s.warmup) as f64 / length as f64;
    let done = if s.repeating { done % 2.0 } else { done.min(1.0) };
    s.floor + 0.5 * (s.base - s.floor) * (1.0 + (PI * done).cos())
});

/// From the rate to the one at which weights are averaged, where it stays: `SWALR`.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Swa::new(0.5, 0.1, 4).anneal(schedule::Anneal::Linear);
/// assert_eq!(lr.at(0), 0.5);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Swa {
    base: f64,
    averaged: f64,
    steps: u64,
    anneal: Anneal,
}
impl Swa {
    /// From `base` to `averaged` over `steps` steps, as half a cosine.
    pub fn new(base: f64, averaged: f64, steps: u64) -> Self {
        Self { base, averaged, steps: steps.max(1), anneal: Anneal::Cosine }
    }
    /// By another way.
    #[must_use]
    pub fn anneal(self, anneal: Anneal) -> Self {
        Self { anneal, ..self }
    }
}
schedule!(Swa, |s, step| s.anneal.between(s.base, s.averaged, step.min(s.steps) as f64 / s.steps as f64));
