//! Loss scaling: gradients of half-precision training kept within range (Micikevicius et al. 2018, "Mixed precision
//! training").
use crate::{Optimizer, core::chosen};
use rtx_core::{DType, Error, Kind, Result};
use rtx_nn::StateDict;
use rtx_tensor::{Tensor, from_slice, full, no_grad};

/// Scales the loss so that gradients do not vanish in f16, and skips steps whose gradients overflowed. The scale, the
/// count of steps since it last changed and whether anything overflowed live on the device; a skipped step is a select.
///
/// ```
/// use rtx_core::DType::F16;
/// use rtx_optim::{GradScaler, Optimizer, SGD};
/// # use rtx_nn::Param;
/// # fn main() -> rtx_core::Result<()> {
/// let w = Param::new(rtx_tensor::tensor!([[1.0, -2.0]]));
/// let x = rtx_tensor::tensor!([[1.0], [2.0]]);
/// let (mut opt, mut scaler) = (SGD::new(vec![w.tie()], 0.01), GradScaler::new());
/// for _ in 0..20 {
///     let loss = rtx_tensor::autocast(F16, || w.matmul(&x)).to(rtx_core::DType::F32).square().sum(..);
///     opt.zero_grad();
///     scaler.scale(&loss).backward();
///     scaler.step(&mut opt)?;
///     scaler.update()?;
/// }
/// # Ok(()) }
/// ```
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = nn::Param::new(torch::ones([2]));
/// let mut opt = optim::SGD::new(vec![w.tie()], 0.5);
/// let mut scaler = optim::GradScaler::new().init_scale(1024.).growth_interval(100).growth_factor(2.).backoff_factor(0.5);
/// scaler.scale(&(&w * &w).sum(..)).backward(); // gradients of halves do not vanish
/// scaler.unscale(&opt)?; // only where gradients are clipped
/// scaler.step(&mut opt)?; // not where a gradient is infinite
/// scaler.update()?;
/// assert_eq!((scaler.get_scale()?, w.to_vec::<f32>()?), (1024., vec![0., 0.]));
/// let saved = scaler.state_dict();
/// scaler.load_state_dict(&saved)?;
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct GradScaler {
    /// `f32 []`.
    scale: Tensor,
    /// Steps since the scale last changed, `i64 []`.
    good_steps: Tensor,
    growth: f64,
    backoff: f64,
    interval: i64,
    /// Whether the gradients that `unscale` has seen, and no step has used yet, overflowed.
    unscaled: Option<Tensor>,
    /// The same of every step since the last update.
    found: Vec<Tensor>,
}

impl Default for GradScaler {
    fn default() -> Self {
        Self::new()
    }
}

impl GradScaler {
    /// PyTorch's settings: 65536 at first, doubled after 2000 good steps, halved after an overflow.
    pub fn new() -> Self {
        Self {
            scale: from_slice(&[65536f32], ()),
            good_steps: from_slice(&[0i64], ()),
            growth: 2.0,
            backoff: 0.5,
            interval: 2000,
            unscaled: None,
            found: Vec::new(),
        }
    }
    /// The scale at first.
    #[must_use]
    pub fn init_scale(mut self, scale: f64) -> Self {
        self.scale = from_slice(&[scale as f32], ());
        self
    }
    /// What the scale is multiplied by after `growth_interval` good steps in a row.
    #[must_use]
    pub fn growth_factor(mut self, factor: f64) -> Self {
        self.growth = factor;
        self
    }
    /// What the scale is multiplied by after an overflow.
    #[must_use]
    pub fn backoff_factor(mut self, factor: f64) -> Self {
        self.backoff = factor;
        self
    }
    /// After how many good steps in a row the scale grows.
    #[must_use]
    pub fn growth_interval(mut self, steps: usize) -> Self {
        self.interval = steps as i64;
        self
    }

    /// A loss times the scale.
    #[track_caller]
    pub fn scale(&self, loss: &Tensor) -> Tensor {
        loss * &self.scale
    }

    /// Divides the gradients of an optimizer's parameters by the scale, so that they can be clipped before `step`. With
    /// several optimizers each one is unscaled and stepped before the next.
    ///
    /// # Errors
    /// When it was done already for this step.
    #[track_caller]
    pub fn unscale(&mut self, optimizer: &impl Optimizer) -> Result<()> {
        if self.unscaled.is_some() {
            return Err(Error::new(Kind::Argument, "unscale: the gradients are unscaled already"));
        }
        let found = no_grad(|| {
            let inverse = self.scale.reciprocal();
            let mut all_finite: Option<Tensor> = None;
            for p in optimizer.params() {
                let Some(grad) = p.grad() else { continue };
                let unscaled = (grad.to(DType::F32) * &inverse).to(grad.dtype());
                let finite = unscaled.isfinite().all(..);
                all_finite = Some(all_finite.map_or(finite.alias(), |a| a.logical_and(&finite)));
                p.set_grad(Some(unscaled));
            }
            all_finite.map_or_else(|| full((), false), |a| a.logical_not())
        });
        self.unscaled = Some(found);
        Ok(())
    }

    /// The optimizer's step with unscaled gradients; where one of them is infinite or NaN, nothing changes.
    ///
    /// # Errors
    /// As [`Optimizer::step`].
    #[track_caller]
    pub fn step(&mut self, optimizer: &mut impl Optimizer) -> Result<()> {
        if self.unscaled.is_none() {
            self.unscale(optimizer)?;
        }
        let Some(found) = self.unscaled.take() else { return Ok(()) };
        self.found.push(found.alias());
        optimizer.step_unless(&found)
    }

    /// The scale for the next step: less after an overflow, more after enough good steps.
    ///
    /// # Errors
    /// When no step was made since the last update.
    #[track_caller]
    pub fn update(&mut self) -> Result<()> {
        let found = std::mem::take(&mut self.found).into_iter().reduce(|a, b| a.logical_or(&b));
        let found = found.ok_or_else(|| Error::new(Kind::Argument, "update: no step was made since the last one"))?;
        no_grad(|| {
            let counted = &self.good_steps + 1;
            let grows = counted.ge(self.interval);
            let larger = &self.scale * self.growth;
            // Growing past the largest number is no growth.
            let larger = chosen(&larger.isfinite(), &larger, &self.scale)?;
            let good = chosen(&grows, &larger, &self.scale)?;
            let zero = self.good_steps.zeros_like();
            let steps = chosen(&found.logical_or(&grows), &zero, &counted)?;
            self.good_steps.set_data(&steps);
            self.scale.set_data(&chosen(&found, &(&self.scale * self.backoff), &good)?);
            Ok(())
        })
    }

    /// The scale, read from the device.
    ///
    /// # Errors
    /// What went wrong while it was computed.
    pub fn get_scale(&self) -> Result<f32> {
        self.scale.item()
    }

    /// The scale and the count of good steps.
    pub fn state_dict(&self) -> StateDict {
        StateDict::from([
            ("scale".to_owned(), self.scale.alias()),
            ("_growth_tracker".to_owned(), self.good_steps.alias()),
        ])
    }
    /// Takes the values of `from`.
    ///
    /// # Errors
    /// When one is missing or is no number of rank 0; then nothing is changed.
    pub fn load_state_dict(&mut self, from: &StateDict) -> Result<()> {
        let of = |name: &str| {
            let found = from.get(name).filter(|t| t.rank() == 0);
            found.ok_or_else(|| Error::new(Kind::Format, format!("GradScaler: {name} is missing or has dims")))
        };
        let (scale, steps) = (of("scale")?, of("_growth_tracker")?);
        self.scale.set_data(&scale.to(DType::F32));
        self.good_steps.set_data(&steps.to(DType::I64));
        Ok(())
    }
}
