//! Parameters that share settings, and the state that belongs to each.
use rtx_nn::Param;

/// Parameters with settings of their own; what is not set is the optimizer's.
///
/// ```
/// use rtx_nn::{Linear, Module};
/// use rtx_optim::{AdamW, Group};
/// let net = Linear::new(3, 2);
/// let (biases, weights): (Vec<_>, Vec<_>) = net.named_parameters().into_iter().partition(|(name, _)| name == "bias");
/// let of = |named: Vec<(String, rtx_nn::Param)>| named.into_iter().map(|(_, p)| p);
/// let opt = AdamW::groups([Group::new(of(weights)), Group::new(of(biases)).weight_decay(0.0)], 1e-3);
/// ```
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let net = nn::Linear::new(2, 1);
/// let decayed = optim::Group::new([net.weight.tie()]).weight_decay(0.1).lr(1e-4);
/// let plain = optim::Group::new(net.bias.iter().map(|b| b.tie())).betas(0.9, 0.95).eps(1e-8);
/// let mut opt = optim::AdamW::groups([decayed, plain], 1e-3); // 1e-3 for the groups without a rate of their own
/// opt.set_group_lr(1, 1e-2);
/// assert_eq!(opt.params().len(), 2);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct Group {
    pub(crate) params: Vec<Param>,
    /// Settings by their names in the steps' signatures.
    pub(crate) own: Vec<(&'static str, f64)>,
}

impl Group {
    /// These parameters.
    pub fn new(params: impl IntoIterator<Item = Param>) -> Self {
        Self { params: params.into_iter().collect(), own: Vec::new() }
    }
    /// A learning rate of its own, which `set_lr` does not change.
    #[must_use]
    pub fn lr(self, lr: f64) -> Self {
        self.with("lr", lr)
    }
    /// A weight decay of its own.
    #[must_use]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        self.with("weight_decay", weight_decay)
    }
    /// A momentum of its own.
    #[must_use]
    pub fn momentum(self, momentum: f64) -> Self {
        self.with("momentum", momentum)
    }
    /// Moving means of its own, for Adam and its relatives.
    #[must_use]
    pub fn betas(self, beta1: f64, beta2: f64) -> Self {
        self.with("beta1", beta1).with("beta2", beta2)
    }
    /// An eps of its own.
    #[must_use]
    pub fn eps(self, eps: f64) -> Self {
        self.with("eps", eps)
    }
    /// Any other setting that is a number, by the name that PyTorch gives it (`rho`, `alpha`, `lr_decay` …).
    #[must_use]
    pub fn with(mut self, name: &'static str, value: f64) -> Self {
        self.set(name, value);
        self
    }
    pub(crate) fn set(&mut self, name: &'static str, value: f64) {
        self.own.retain(|(n, _)| *n != name);
        self.own.push((name, value));
    }
    pub(crate) fn own(&self, name: &str) -> Option<f64> {
        self.own.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }
}
/// A list of parameters is one group.
impl From<Vec<Param>> for Group {
    fn from(params: Vec<Param>) -> Self {
        Self::new(params)
    }
}

pub(crate) fn zero_grad(groups: &[Group]) {
    groups.iter().flat_map(|g| &g.params).for_each(|p| p.set_grad(None));
}
