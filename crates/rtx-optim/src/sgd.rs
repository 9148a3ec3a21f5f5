//! Stochastic gradient descent.
use crate::{
    Group, Optimizer, group,
    numbers::{number, of_groups},
    state::State,
};
use rtx_core::Result;
use rtx_nn::StateDict;
use rtx_tensor::{Argument, call, end_step};

/// Stochastic gradient descent, with momentum if wanted (Sutskever et al., 2013). Weight decay is added to the gradient.
#[derive(Debug)]
pub struct Sgd {
    groups: Vec<Group>,
    state: State,
    lr: f64,
    momentum: f64,
    dampening: f64,
    weight_decay: f64,
    nesterov: bool,
}

impl Sgd {
    /// One group of parameters.
    pub fn new(params: impl Into<Group>, lr: f64) -> Self {
        Self::groups([params.into()], lr)
    }
    /// Several groups; `lr` is for those that have none of their own.
    pub fn groups(groups: impl IntoIterator<Item = Group>, lr: f64) -> Self {
        let groups: Vec<Group> = groups.into_iter().collect();
        let state = State::new("SGD", &[], &groups);
        Self { groups, state, lr, momentum: 0.0, dampening: 0.0, weight_decay: 0.0, nesterov: false }
    }
    /// Adds `momentum` times the step before.
    #[must_use]
    pub fn momentum(self, momentum: f64) -> Self {
        let state = State::new("SGD", if momentum == 0.0 { &[] } else { &["momentum_buffer"] }, &self.groups);
        Self { momentum, state, ..self }
    }
    /// Scales what a gradient adds to the momentum by 1 - `dampening`.
    #[must_use]
    pub fn dampening(self, dampening: f64) -> Self {
        Self { dampening, ..self }
    }
    /// Nesterov's momentum: looks one step ahead.
    #[must_use]
    pub fn nesterov(self) -> Self {
        Self { nesterov: true, ..self }
    }
    /// For groups that have none of their own.
    #[must_use]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay, ..self }
    }
}

impl Optimizer for Sgd {
    fn step(&mut self) -> Result<()> {
        let nesterov = self.nesterov;
        let lr = of_groups(&self.groups, self.lr, |g| g.lr)?;
        let decay = of_groups(&self.groups, self.weight_decay, |g| g.weight_decay)?;
        let [momentum, dampening] = [number(self.momentum)?, number(self.dampening)?];
        self.state.step(&self.groups, |u| {
            let buffer: Argument = u.moments.first().into();
            let mut args = vec![(&**u.param).into(), (&u.grad).into(), buffer, u.step.into()];
            args.extend([&lr[u.group], &momentum, &dampening, &decay[u.group]].map(Into::into));
            args.push(nesterov.into());
            let new = call("sgd_step", &args, &[])?;
            let cells = std::iter::once(&**u.param).chain(u.moments);
            cells.zip(&new).for_each(|(cell, value)| cell.set_data(value));
            Ok(())
        })?;
        end_step()
    }
    fn zero_grad(&mut self) {
        group::zero_grad(&self.groups);
    }
    fn set_lr(&mut self, lr: f64) {
        self.lr = lr;
    }
    fn state_dict(&self) -> StateDict {
        self.state.state_dict()
    }
    fn load_state_dict(&mut self, from: &StateDict) -> Result<()> {
        self.state.load_state_dict(&self.groups, from)
    }
}
