//! Rates that go up and down, and the momentum against them.
use super::Schedule;
use std::f64::consts::PI;

/// The way from one number to another.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// assert_eq!(schedule::Anneal::Linear.between(1., 0., 0.25), 0.75);
/// assert!((schedule::Anneal::Cosine.between(1., 0., 0.5) - 0.5).abs() < 1e-12);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anneal {
    /// Half a cosine.
    #[default]
    Cosine,
    /// A straight line.
    Linear,
}
impl Anneal {
    /// Where it is after a part `done` (0 to 1) of the way.
    pub fn between(self, from: f64, to: f64, done: f64) -> f64 {
        match self {
            Anneal::Cosine => to + (from - to) / 2.0 * (1.0 + (PI * done).cos()),
            Anneal::Linear => from + (to - from) * done,
        }
    }
}

/// Half a cosine down, again and again, each longer than the last: `CosineAnnealingWarmRestarts` (Loshchilov and
/// Hutter, arXiv:1608.03983).
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::WarmRestarts::new(0.5, 10).times(2).floor(0.);
/// assert_eq!((lr.at(0), lr.at(10)), (0.5, 0.5)); // after 10 steps anew, then after 20
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WarmRestarts {
    base: f64,
    first: u64,
    times: u64,
    floor: f64,
}
impl WarmRestarts {
    /// Cycles of `first` steps.
    pub fn new(base: f64, first: u64) -> Self {
        Self { base, first: first.max(1), times: 1, floor: 0.0 }
    }
    /// Each cycle `times` as long as the one before.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self { times: times.max(1), ..self }
    }
    /// Down to this.
    #[must_use]
    pub fn floor(self, floor: f64) -> Self {
        Self { floor, ..self }
    }
    /// The learning rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        let (mut at, mut length) = (step, self.first);
        if self.times == 1 {
            at %= length;
        }
        while at >= length {
            at -= length;
            length = length.saturating_mul(self.times);
        }
        Anneal::Cosine.between(self.base, self.floor, at as f64 / length as f64)
    }
}
impl Schedule for WarmRestarts {
    fn at(&self, step: u64) -> f64 {
        WarmRestarts::at(self, step)
    }
    fn base(&self) -> f64 {
        self.base
    }
}

/// How the height of [`Cyclic`]'s triangles goes on.
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Cyclic::new(0.1, 0.5, 4).mode(schedule::CyclicMode::Triangular2);
/// assert!((lr.at(12) - 0.3).abs() < 1e-12); // half as high the second time
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum CyclicMode {
    /// All alike.
    #[default]
    Triangular,
    /// Each half as high as the one before.
    Triangular2,
    /// Times this number at each step.
    ExpRange(f64),
}

/// Triangles between two rates: `CyclicLR` (Smith, arXiv:1506.01186).
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::Cyclic::new(0.1, 0.5, 4).down(4).mode(schedule::CyclicMode::Triangular).momentum(0.8, 0.9);
/// assert_eq!((lr.at(0), lr.at(4), lr.at(8)), (0.1, 0.5, 0.1));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cyclic {
    low: f64,
    high: f64,
    up: u64,
    down: u64,
    mode: CyclicMode,
    momentum: (f64, f64),
}
impl Cyclic {
    /// Up from `low` to `high` in `up` steps, and down in as many.
    pub fn new(low: f64, high: f64, up: u64) -> Self {
        let up = up.max(1);
        Self { low, high, up, down: up, mode: CyclicMode::Triangular, momentum: (0.8, 0.9) }
    }
    /// Down in another number of steps.
    #[must_use]
    pub fn down(self, down: u64) -> Self {
        Self { down: down.max(1), ..self }
    }
    /// How heights go on.
    #[must_use]
    pub fn mode(self, mode: CyclicMode) -> Self {
        Self { mode, ..self }
    }
    /// Between which numbers the momentum goes, against the rate: 0.8 and 0.9 at first.
    #[must_use]
    pub fn momentum(self, low: f64, high: f64) -> Self {
        Self { momentum: (low, high), ..self }
    }
    /// How high it stands at a step, 0 to 1.
    fn height(&self, step: u64) -> f64 {
        let length = self.up + self.down;
        let (cycle, at) = (step / length, step % length);
        let height = if at <= self.up { at as f64 / self.up as f64 } else { (length - at) as f64 / self.down as f64 };
        height
            * match self.mode {
                CyclicMode::Triangular => 1.0,
                CyclicMode::Triangular2 => 0.5f64.powf(cycle as f64),
                CyclicMode::ExpRange(gamma) => gamma.powf(step as f64),
            }
    }
    /// The learning rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        self.low + (self.high - self.low) * self.height(step)
    }
}
impl Schedule for Cyclic {
    fn at(&self, step: u64) -> f64 {
        Cyclic::at(self, step)
    }
    fn base(&self) -> f64 {
        self.low
    }
    fn momentum_at(&self, step: u64) -> Option<f64> {
        let (low, high) = self.momentum;
        Some(high - (high - low) * self.height(step))
    }
}

/// One rise to a high rate and a long fall to almost nothing: `OneCycleLR` (Smith and Topin, arXiv:1708.07120).
///
/// ```
/// let lr = rtx_optim::schedule::OneCycle::new(0.2, 100);
/// assert!((lr.at(0) - 0.2 / 25.0).abs() < 1e-12);
/// assert!((lr.at(29) - 0.2).abs() < 1e-12);
/// ```
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let lr = schedule::OneCycle::new(0.5, 100).rise(0.3).anneal(schedule::Anneal::Cosine).div_factors(25., 1e4);
/// assert!((lr.at(0) - 0.5 / 25.).abs() < 1e-12);
/// assert!(lr.at(29) > 0.49 && lr.at(99) < 1e-4);
/// let slow = schedule::OneCycle::new(0.5, 100).three_phases().no_momentum();
/// assert_eq!(slow.momentum_at(0), None);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct OneCycle {
    high: f64,
    steps: u64,
    rise: f64,
    anneal: Anneal,
    momentum: Option<(f64, f64)>,
    div_factor: f64,
    final_div_factor: f64,
    three_phases: bool,
}
impl OneCycle {
    /// `steps` steps in all, up to `high` over the first 0.3 of them.
    pub fn new(high: f64, steps: u64) -> Self {
        let momentum = Some((0.85, 0.95));
        let (rise, anneal, three_phases) = (0.3, Anneal::Cosine, false);
        Self { high, steps, rise, anneal, momentum, div_factor: 25.0, final_div_factor: 1e4, three_phases }
    }
    /// Which part of the steps the rise takes.
    #[must_use]
    pub fn rise(self, part: f64) -> Self {
        Self { rise: part, ..self }
    }
    /// By another way.
    #[must_use]
    pub fn anneal(self, anneal: Anneal) -> Self {
        Self { anneal, ..self }
    }
    /// Starts at high / `div_factor`, 25 at first, and ends at that / `final_div_factor`, 10⁴ at first.
    #[must_use]
    pub fn div_factors(self, div_factor: f64, final_div_factor: f64) -> Self {
        Self { div_factor, final_div_factor, ..self }
    }
    /// Falls as fast as it rose, and only then to the end.
    #[must_use]
    pub fn three_phases(self) -> Self {
        Self { three_phases: true, ..self }
    }
    /// Between which numbers the momentum goes, against the rate: 0.85 and 0.95 at first.
    #[must_use]
    pub fn momentum(self, low: f64, high: f64) -> Self {
        Self { momentum: Some((low, high)), ..self }
    }
    /// Leaves the momentum alone.
    #[must_use]
    pub fn no_momentum(self) -> Self {
        Self { momentum: None, ..self }
    }
    /// Where it is: the last steps of the phases, and the rates and momenta there.
    fn value(&self, step: u64, start: f64, high: f64, mid: f64, end: f64) -> f64 {
        let (steps, step) = (self.steps as f64, step.min(self.steps.saturating_sub(1)) as f64);
        let rise = (self.rise * steps - 1.0).max(0.0);
        let all: &[(f64, f64)] = &if self.three_phases {
            vec![(0.0, start), (rise, high), (2.0 * self.rise * steps - 2.0, mid), (steps - 1.0, end)]
        } else {
            vec![(0.0, start), (rise, high), (steps - 1.0, end)]
        };
        let phase = all.windows(2).find(|w| step <= w[1].0).unwrap_or(&all[all.len() - 2..]);
        let ((from, a), (to, b)) = (phase[0], phase[1]);
        self.anneal.between(a, b, if to > from { (step - from) / (to - from) } else { 1.0 })
    }
    /// The learning rate of step `step`, counted from 0; after the last step it stays.
    pub fn at(&self, step: u64) -> f64 {
        let start = self.high / self.div_factor;
        self.value(step, start, self.high, start, start / self.final_div_factor)
    }
}
impl Schedule for OneCycle {
    fn at(&self, step: u64) -> f64 {
        OneCycle::at(self, step)
    }
    fn base(&self) -> f64 {
        self.high
    }
    fn momentum_at(&self, step: u64) -> Option<f64> {
        self.momentum.map(|(low, high)| self.value(step, high, low, high, high))
    }
}
