//! Averages of parameters over training: exponential (EMA), or of all steps alike (SWA).
use rtx_core::{Error, Kind, Result};
use rtx_nn::{Module, Param, StateDict};
use rtx_tensor::{Tensor, from_slice, no_grad};

/// An average of a model's parameters, which often does better than where training ends.
///
/// ```
/// use rtx_nn::{Linear, Module};
/// use rtx_optim::Average;
/// # fn main() -> rtx_core::Result<()> {
/// let net = Linear::new(3, 2);
/// let mut average = Average::ema(&net, 0.99);
/// average.update(); // after each optimizer step
/// let loss = average.apply(|| net.forward(&rtx_tensor::ones([1, 3])).sum(..).item::<f32>())?;
/// # Ok(()) }
/// ```
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let net = nn::Linear::new(2, 1);
/// let mut mean = optim::Average::ema(&net, 0.9); // or swa(&net): plain means
/// nn::init::zeros_(&net.weight);
/// mean.update(); // after each step
/// let averaged = mean.apply(|| net.weight.to_vec::<f32>())?; // evaluates with the means, then goes back
/// assert_eq!((averaged.len(), net.weight.to_vec::<f32>()?), (2, vec![0., 0.]));
/// let saved = mean.state_dict();
/// mean.load_state_dict(&saved)?;
/// mean.store(); // the means become the weights
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub struct Average {
    names: Vec<String>,
    params: Vec<Param>,
    /// The averages, as fixed cells.
    kept: Vec<Tensor>,
    /// How many updates there were, `f64 []`, on the device.
    count: Tensor,
    /// How much of the old average stays; equal weights where there is none.
    decay: Option<f64>,
}

impl Average {
    /// An exponential moving average: what an update leaves is `decay` · average + (1 - `decay`) · parameter. The first
    /// update takes the parameter itself.
    pub fn ema(model: &(impl Module + ?Sized), decay: f64) -> Self {
        Self::new(model, Some(decay))
    }
    /// The mean of the parameters at all updates: stochastic weight averaging (Izmailov et al., arXiv:1803.05407).
    pub fn swa(model: &(impl Module + ?Sized)) -> Self {
        Self::new(model, None)
    }
    fn new(model: &(impl Module + ?Sized), decay: Option<f64>) -> Self {
        let (names, params): (Vec<String>, Vec<Param>) = model.named_parameters().into_iter().unzip();
        let kept = params.iter().map(|p| p.detach().clone()).collect();
        Self { names, params, kept, count: from_slice(&[0f64], ()), decay }
    }
    /// Takes the parameters as they are now into the average.
    #[track_caller]
    pub fn update(&mut self) {
        no_grad(|| {
            let first = self.count.eq(0.0);
            let equal = 1.0 / (&self.count + 1.0);
            for (kept, param) in self.kept.iter().zip(&self.params) {
                let new = param.detach();
                let away = &new - kept;
                let part = match self.decay {
                    None => away * equal.to(kept.dtype()),
                    Some(decay) => away * (1.0 - decay),
                };
                // The first update takes the parameter's very bits.
                let mean = first.if_else(&new, kept + part);
                kept.set_data(&mean);
            }
            self.count.add_(1.0);
        });
    }
    /// Runs `f` while the model's parameters are the average.
    pub fn apply<T>(&self, f: impl FnOnce() -> T) -> T {
        /// Puts the parameters back, even when `f` panics.
        struct Back<'a>(&'a [Param], Vec<Tensor>);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.iter().zip(&self.1).for_each(|(p, old)| p.set_data(old));
            }
        }
        let old = self.params.iter().map(|p| p.detach().clone()).collect();
        let _back = Back(&self.params, old);
        self.store();
        f()
    }
    /// Makes the average the model's parameters for good.
    pub fn store(&self) {
        self.params.iter().zip(&self.kept).for_each(|(p, mean)| p.set_data(&mean.clone()));
    }
    /// The averages under the parameters' names, and `n_averaged`.
    pub fn state_dict(&self) -> StateDict {
        let named = self.names.iter().cloned().zip(self.kept.iter().map(Tensor::alias));
        named.chain([("n_averaged".to_owned(), self.count.alias())]).collect()
    }
    /// Takes the values of `from`.
    ///
    /// # Errors
    /// When a name is missing or a shape differs; then nothing is changed.
    pub fn load_state_dict(&mut self, from: &StateDict) -> Result<()> {
        let ours = self.state_dict();
        for (name, tensor) in &ours {
            let found = from.get(name).map(Tensor::shape);
            if found != Some(tensor.shape()) {
                let what = match found {
                    None => format!("{name} is missing"),
                    Some(shape) => format!("{name}: model {:?}, file {shape:?}", tensor.shape()),
                };
                return Err(Error::new(Kind::Format, format!("Average: state and model differ: {what}")));
            }
        }
        ours.iter().for_each(|(name, tensor)| tensor.set_data(&from[name].to(tensor.dtype())));
        Ok(())
    }
}
