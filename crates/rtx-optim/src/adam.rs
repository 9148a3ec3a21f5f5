//! Adam (Kingma and Ba, arXiv:1412.6980) and AdamW (Loshchilov and Hutter, arXiv:1711.05101).
use crate::{
    Group, Optimizer, group,
    numbers::{number, of_groups},
    state::State,
};
use rtx_core::Result;
use rtx_nn::StateDict;
use rtx_tensor::{call, end_step};

/// What the two have in common.
#[derive(Debug)]
struct Core {
    groups: Vec<Group>,
    state: State,
    lr: f64,
    betas: (f64, f64),
    eps: f64,
    weight_decay: f64,
    decoupled: bool,
}

impl Core {
    fn new(name: &'static str, groups: Vec<Group>, lr: f64, weight_decay: f64, decoupled: bool) -> Self {
        let state = State::new(name, &["exp_avg", "exp_avg_sq"], &groups);
        Self { groups, state, lr, betas: (0.9, 0.999), eps: 1e-8, weight_decay, decoupled }
    }

    fn step(&mut self) -> Result<()> {
        let decoupled = self.decoupled;
        let lr = of_groups(&self.groups, self.lr, |g| g.lr)?;
        let decay = of_groups(&self.groups, self.weight_decay, |g| g.weight_decay)?;
        let [beta1, beta2, eps] = [number(self.betas.0)?, number(self.betas.1)?, number(self.eps)?];
        self.state.step(&self.groups, |u| {
            let numbers = [&lr[u.group], &beta1, &beta2, &eps, &decay[u.group]];
            let mut args = vec![(&**u.param).into(), (&u.grad).into()];
            args.extend(u.moments.iter().map(Into::into));
            args.push(u.step.into());
            args.extend(numbers.map(Into::into));
            args.push(decoupled.into());
            let new = call("adam_step", &args, &[])?;
            let cells = [&**u.param, &u.moments[0], &u.moments[1]];
            cells.iter().zip(&new).for_each(|(cell, value)| cell.set_data(value));
            Ok(())
        })?;
        end_step()
    }
}

macro_rules! optimizer { ($(#[$doc:meta])* $T:ident, $name:literal, $decay:literal, $decoupled:literal) => {
    $(#[$doc])*
    #[derive(Debug)]
    pub struct $T(Core);

    impl $T {
        /// One group of parameters.
        pub fn new(params: impl Into<Group>, lr: f64) -> Self {
            Self::groups([params.into()], lr)
        }
        /// Several groups; `lr` is for those that have none of their own.
        pub fn groups(groups: impl IntoIterator<Item = Group>, lr: f64) -> Self {
            Self(Core::new($name, groups.into_iter().collect(), lr, $decay, $decoupled))
        }
        /// How slowly the two moments move.
        #[must_use]
        pub fn betas(mut self, beta1: f64, beta2: f64) -> Self {
            self.0.betas = (beta1, beta2);
            self
        }
        /// Keeps the division away from zero.
        #[must_use]
        pub fn eps(mut self, eps: f64) -> Self {
            self.0.eps = eps;
            self
        }
        /// For groups that have none of their own.
        #[must_use]
        pub fn weight_decay(mut self, weight_decay: f64) -> Self {
            self.0.weight_decay = weight_decay;
            self
        }
    }

    impl Optimizer for $T {
        fn step(&mut self) -> Result<()> {
            self.0.step()
        }
        fn zero_grad(&mut self) {
            group::zero_grad(&self.0.groups);
        }
        fn set_lr(&mut self, lr: f64) {
            self.0.lr = lr;
        }
        fn state_dict(&self) -> StateDict {
            self.0.state.state_dict()
        }
        fn load_state_dict(&mut self, from: &StateDict) -> Result<()> {
            self.0.state.load_state_dict(&self.0.groups, from)
        }
    }
} }

optimizer! {
    /// Adam with decoupled weight decay, 0.01 by default: the parameter shrinks by `lr · weight_decay` at each step.
    AdamW, "AdamW", 0.01, true
}
optimizer! {
    /// Adam; weight decay, 0 by default, is added to the gradient.
    Adam, "Adam", 0.0, false
}
