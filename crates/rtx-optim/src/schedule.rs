//! Learning rates as functions of the step: no state, so nothing to save.
use std::f64::consts::PI;

/// A linear rise over the warm-up, then half a cosine down to `floor`.
///
/// ```
/// let lr = rtx_optim::Cosine::new(1e-3, 100).warmup(10);
/// assert_eq!(lr.at(9), 1e-3);
/// assert!(lr.at(100) < 1e-9);
/// ```
#[derive(Clone, Debug)]
pub struct Cosine {
    peak: f64,
    steps: u64,
    warmup: u64,
    floor: f64,
}

impl Cosine {
    /// From `peak` at step 0 to zero at `steps`.
    pub fn new(peak: f64, steps: u64) -> Self {
        Self { peak, steps, warmup: 0, floor: 0.0 }
    }
    /// Rises over the first `warmup` steps: step 0 uses peak / warmup.
    #[must_use]
    pub fn warmup(self, warmup: u64) -> Self {
        Self { warmup, ..self }
    }
    /// Ends at `floor` and stays there.
    #[must_use]
    pub fn floor(self, floor: f64) -> Self {
        Self { floor, ..self }
    }
    /// The learning rate of step `step`, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.peak * (step + 1) as f64 / self.warmup as f64;
        }
        let length = self.steps.saturating_sub(self.warmup).max(1);
        let done = ((step - self.warmup) as f64 / length as f64).min(1.0);
        self.floor + 0.5 * (self.peak - self.floor) * (1.0 + (PI * done).cos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The golden CNN's: CosineAnnealingLR with T_max 40.
    #[test]
    fn it_is_pytorchs() {
        let lr = Cosine::new(0.05, 40);
        for (t, want) in [(0, 0.05), (10, 0.05 * (1.0 + (PI / 4.0).cos()) / 2.0), (20, 0.025), (40, 0.0)] {
            assert!((lr.at(t) - want).abs() < 1e-15, "{t}");
        }
    }

    #[test]
    fn warm_up_and_floor() {
        let lr = Cosine::new(1.0, 110).warmup(10).floor(0.1);
        assert_eq!((lr.at(0), lr.at(9), lr.at(10)), (0.1, 1.0, 1.0));
        assert!((lr.at(60) - 0.55).abs() < 1e-12);
        assert_eq!((lr.at(110), lr.at(1000)), (0.1, 0.1));
    }
}
