//! The optimizers: each is a list of settings, of what is kept of a parameter, and the op that is its step.
use crate::{
    Group, Optimizer,
    core::{Core, Spec},
    state::Moment,
};
use rtx_core::Result;
use rtx_nn::{Param, StateDict};
use rtx_ops::optimizer;
use rtx_tensor::Tensor;

/// A front for an optimizer: `new`, `groups`, setters under PyTorch's names, and [`Optimizer`].
macro_rules! optimizer { (
    $(#[$doc:meta])* $T:ident($lr:ident): $spec:expr;
    $($(#[$ndoc:meta])* $number:ident;)*
    $(@ $(#[$fdoc:meta])* $flag:ident;)*
) => {
    $(#[$doc])*
    #[derive(Debug)]
    pub struct $T(Core);

    impl $T {
        const SPEC: &'static Spec = &$spec;
        /// One group of parameters.
        #[track_caller]
        pub fn new(params: impl Into<Group>, lr: f64) -> Self {
            Self::groups([params.into()], lr)
        }
        /// Several groups; `lr` is for those that have none of their own.
        ///
        /// # Panics
        /// When a group has a setting that this optimizer does not know.
        ///
        /// ```
        /// # use rtx_nn::Param;
        /// # use rtx_optim::{Group, Optimizer};
        /// let (w, b) = (Param::new(rtx_tensor::ones([2, 2])), Param::new(rtx_tensor::ones([2])));
        #[doc = concat!("let mut opt = rtx_optim::", stringify!($T), "::groups([Group::from(vec![w.tie()]), Group::from(vec![b.tie()])], 0.1);")]
        /// opt.set_group_lr(1, 0.01); // the second group goes slower
        /// assert_eq!(opt.params().len(), 2);
        /// ```
        #[track_caller]
        pub fn groups(groups: impl IntoIterator<Item = Group>, lr: f64) -> Self {
            Self(Core::new(Self::SPEC, groups).with(stringify!($lr), lr)).defaults()
        }
        $($(#[$ndoc])*
        #[must_use]
        pub fn $number(self, $number: f64) -> Self {
            Self(self.0.with(stringify!($number), $number))
        })*
        $($(#[$fdoc])*
        ///
        /// ```
        /// # use rtx_nn::Param;
        /// # let w = Param::new(rtx_tensor::ones([2, 2]));
        #[doc = concat!("let opt = rtx_optim::", stringify!($T), "::new(vec![w.tie()], 0.1).", stringify!($flag), "();")]
        /// # let _ = opt;
        /// ```
        #[must_use]
        pub fn $flag(self) -> Self {
            Self(self.0.with_flag(stringify!($flag), true))
        })*
    }

    impl Optimizer for $T {
        fn step(&mut self) -> Result<()> {
            self.0.step(None)
        }
        fn step_unless(&mut self, skip: &Tensor) -> Result<()> {
            self.0.step(Some(skip))
        }
        fn params(&self) -> Vec<Param> {
            self.0.params()
        }
        fn zero_grad(&mut self) {
            self.0.zero_grad();
        }
        fn set_lr(&mut self, lr: f64) {
            self.0.set("lr", lr);
        }
        fn lr(&self) -> f64 {
            self.0.shared("lr")
        }
        #[track_caller]
        fn set_group_lr(&mut self, group: usize, lr: f64) {
            self.0.set_group_lr(group, lr);
        }
        fn set_momentum(&mut self, momentum: f64) {
            self.0.set_momentum(momentum);
        }
        fn state_dict(&self) -> StateDict {
            self.0.state_dict()
        }
        fn load_state_dict(&mut self, from: &StateDict) -> Result<()> {
            self.0.load_state_dict(from)
        }
    }
} }

/// Optimizers whose flags are all off at first.
macro_rules! plain { ($($T:ident)*) => { $(impl $T {
    fn defaults(self) -> Self {
        self
    }
})* } }
plain!(ASGD Adadelta Adafactor Adagrad Adam Adamax NAdam RAdam RMSprop Rprop SGD);

macro_rules! betas { ($($T:ident)*) => { $(impl $T {
    /// How slowly the two moving means move, 0.9 and 0.999 at first.
    #[must_use]
    pub fn betas(self, beta1: f64, beta2: f64) -> Self {
        Self(self.0.with("beta1", beta1).with("beta2", beta2))
    }
})* } }
betas!(Adam AdamW Adamax NAdam RAdam);

optimizer! {
    /// Stochastic gradient descent, with momentum if wanted (Sutskever et al., 2013).
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::SGD::new(vec![w.tie()], 0.1).momentum(0.9).dampening(0.).weight_decay(0.01).nesterov();
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    SGD(lr): Spec {
        name: "SGD",
        op: &optimizer::SGD_STEP,
        numbers: &[("lr", 1e-3), ("momentum", 0.0), ("dampening", 0.0), ("weight_decay", 0.0)],
        starts: &[],
        flags: &["nesterov", "maximize"],
        options: &[],
        moments: |s, _| vec![if s.number("momentum") == 0.0 { None } else { Moment::zeros("momentum_buffer") }],
    };
    /// Adds `momentum` times the step before.
    momentum;
    /// Scales what a gradient adds to the momentum by 1 - `dampening`.
    dampening;
    /// Adds this much of a parameter to its gradient.
    weight_decay;
    @
    /// Nesterov's momentum: looks one step ahead.
    nesterov;
    @
    /// Climbs instead of descending.
    maximize;
}

/// Adam and AdamW.
const fn adam(name: &'static str, weight_decay: &'static [(&'static str, f64)]) -> Spec {
    Spec {
        name,
        op: &optimizer::ADAM_STEP,
        numbers: weight_decay,
        starts: &[],
        flags: &["decoupled_weight_decay", "maximize"],
        options: &["amsgrad"],
        moments: |s, _| {
            let largest = if s.flag("amsgrad") { Moment::zeros("max_exp_avg_sq") } else { None };
            vec![Moment::zeros("exp_avg"), Moment::zeros("exp_avg_sq"), largest]
        },
    }
}

optimizer! {
    /// Adam (Kingma and Ba, arXiv:1412.6980). Weight decay, 0 at first, is added to the gradient.
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::Adam::new(vec![w.tie()], 0.1).betas(0.9, 0.99).eps(1e-8).weight_decay(0.01).amsgrad();
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    Adam(lr): adam("Adam", &[("lr", 1e-3), ("beta1", 0.9), ("beta2", 0.999), ("eps", 1e-8), ("weight_decay", 0.0)]);
    /// Keeps the division away from zero.
    eps;
    /// Adds this much of a parameter to its gradient.
    weight_decay;
    @
    /// Weight decay shrinks the parameter itself, as in [`AdamW`].
    decoupled_weight_decay;
    @
    /// Divides by the largest second moment so far (Reddi et al., arXiv:1904.09237).
    amsgrad;
    @
    /// Climbs instead of descending.
    maximize;
}

optimizer! {
    /// Adam with decoupled weight decay, 0.01 at first: the parameter shrinks by `lr · weight_decay` at each step
    /// (Loshchilov and Hutter, arXiv:1711.05101).
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::AdamW::new(vec![w.tie()], 0.1).betas(0.9, 0.95).eps(1e-8).weight_decay(0.1);
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    AdamW(lr): adam("AdamW", &[("lr", 1e-3), ("beta1", 0.9), ("beta2", 0.999), ("eps", 1e-8), ("weight_decay", 0.01)]);
    /// Keeps the division away from zero.
    eps;
    /// For groups that have none of their own.
    weight_decay;
    @
    /// Divides by the largest second moment so far (Reddi et al., arXiv:1904.09237).
    amsgrad;
    @
    /// Climbs instead of descending.
    maximize;
}
impl AdamW {
    fn defaults(self) -> Self {
        Self(self.0.with_flag("decoupled_weight_decay", true))
    }
}

optimizer! {
    /// Adam with the largest gradient in place of the second moment (Kingma and Ba, arXiv:1412.6980, section 7.1).
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::Adamax::new(vec![w.tie()], 0.1).betas(0.9, 0.999).eps(1e-8).weight_decay(0.);
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    Adamax(lr): Spec {
        name: "Adamax",
        op: &optimizer::ADAMAX_STEP,
        numbers: &[("lr", 2e-3), ("beta1", 0.9), ("beta2", 0.999), ("eps", 1e-8), ("weight_decay", 0.0)],
        starts: &[],
        flags: &["maximize"],
        options: &[],
        moments: |_, _| vec![Moment::zeros("exp_avg"), Moment::zeros("exp_inf")],
    };
    /// Keeps the division away from zero.
    eps;
    /// Adds this much of a parameter to its gradient.
    weight_decay;
    @
    /// Climbs instead of descending.
    maximize;
}

optimizer! {
    /// Adam with Nesterov's momentum (Dozat, 2016).
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::NAdam::new(vec![w.tie()], 0.1).betas(0.9, 0.999).momentum_decay(4e-3).eps(1e-8).decoupled_weight_decay();
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    NAdam(lr): Spec {
        name: "NAdam",
        op: &optimizer::NADAM_STEP,
        numbers: &[
            ("lr", 2e-3), ("beta1", 0.9), ("beta2", 0.999), ("eps", 1e-8), ("weight_decay", 0.0), ("momentum_decay", 4e-3),
        ],
        starts: &[],
        flags: &["decoupled_weight_decay", "maximize"],
        options: &[],
        moments: |_, _| {
            vec![Moment::zeros("exp_avg"), Moment::zeros("exp_avg_sq"), Moment::number("mu_product", 1.0)]
        },
    };
    /// Keeps the division away from zero.
    eps;
    /// Adds this much of a parameter to its gradient.
    weight_decay;
    /// How fast the momentum reaches its full size, 0.004 at first.
    momentum_decay;
    @
    /// Weight decay shrinks the parameter itself, as in [`AdamW`].
    decoupled_weight_decay;
    @
    /// Climbs instead of descending.
    maximize;
}

optimizer! {
    /// Adam that waits until the second moment is known well enough (Liu et al., arXiv:1908.03265).
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::RAdam::new(vec![w.tie()], 0.1).betas(0.9, 0.999).eps(1e-8).weight_decay(0.).decoupled_weight_decay();
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    RAdam(lr): Spec {
        name: "RAdam",
        op: &optimizer::RADAM_STEP,
        numbers: &[("lr", 1e-3), ("beta1", 0.9), ("beta2", 0.999), ("eps", 1e-8), ("weight_decay", 0.0)],
        starts: &[],
        flags: &["decoupled_weight_decay", "maximize"],
        options: &[],
        moments: |_, _| vec![Moment::zeros("exp_avg"), Moment::zeros("exp_avg_sq")],
    };
    /// Keeps the division away from zero.
    eps;
    /// Adds this much of a parameter to its gradient.
    weight_decay;
    @
    /// Weight decay shrinks the parameter itself, as in [`AdamW`].
    decoupled_weight_decay;
    @
    /// Climbs instead of descending.
    maximize;
}

optimizer! {
    /// Steps scaled by the root of all squared gradients so far (Duchi et al., 2011).
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::Adagrad::new(vec![w.tie()], 0.1).lr_decay(0.).eps(1e-10).initial_accumulator_value(0.).weight_decay(0.);
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    Adagrad(lr): Spec {
        name: "Adagrad",
        op: &optimizer::ADAGRAD_STEP,
        numbers: &[
            ("lr", 1e-2), ("lr_decay", 0.0), ("eps", 1e-10), ("weight_decay", 0.0),
        ],
        starts: &[("initial_accumulator_value", 0.0)],
        flags: &["maximize"],
        options: &[],
        moments: |s, _| vec![Moment::filled("sum", s.number("initial_accumulator_value"))],
    };
    /// The learning rate of step t is lr / (1 + (t - 1) · `lr_decay`).
    lr_decay;
    /// Keeps the division away from zero.
    eps;
    /// Adds this much of a parameter to its gradient.
    weight_decay;
    /// What the sum of squares starts from.
    initial_accumulator_value;
    @
    /// Climbs instead of descending.
    maximize;
}

optimizer! {
    /// Steps in the parameter's own unit: moving means of squared gradients and of squared steps (Zeiler,
    /// arXiv:1212.5701). PyTorch's learning rate is 1.
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::Adadelta::new(vec![w.tie()], 0.1).rho(0.9).eps(1e-6).weight_decay(0.);
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    Adadelta(lr): Spec {
        name: "Adadelta",
        op: &optimizer::ADADELTA_STEP,
        numbers: &[("lr", 1.0), ("rho", 0.9), ("eps", 1e-6), ("weight_decay", 0.0)],
        starts: &[],
        flags: &["maximize"],
        options: &[],
        moments: |_, _| vec![Moment::zeros("square_avg"), Moment::zeros("acc_delta")],
    };
    /// How slowly the means move, 0.9 at first.
    rho;
    /// Keeps the division away from zero.
    eps;
    /// Adds this much of a parameter to its gradient.
    weight_decay;
    @
    /// Climbs instead of descending.
    maximize;
}

optimizer! {
    /// Steps scaled by the root of a moving mean of squared gradients (Hinton, 2012).
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::RMSprop::new(vec![w.tie()], 0.1).alpha(0.99).eps(1e-8).momentum(0.9).centered();
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    RMSprop(lr): Spec {
        name: "RMSprop",
        op: &optimizer::RMSPROP_STEP,
        numbers: &[("lr", 1e-2), ("alpha", 0.99), ("eps", 1e-8), ("weight_decay", 0.0), ("momentum", 0.0)],
        starts: &[],
        flags: &["centered", "maximize"],
        options: &[],
        moments: |s, _| {
            let keep = |wanted: bool, name| if wanted { Moment::zeros(name) } else { None };
            vec![
                Moment::zeros("square_avg"),
                keep(s.flag("centered"), "grad_avg"),
                keep(s.number("momentum") != 0.0, "momentum_buffer"),
            ]
        },
    };
    /// How slowly the mean moves, 0.99 at first.
    alpha;
    /// Keeps the division away from zero.
    eps;
    /// Adds this much of a parameter to its gradient.
    weight_decay;
    /// Adds `momentum` times the step before.
    momentum;
    @
    /// Divides by the deviation of the gradient in place of its size.
    centered;
    @
    /// Climbs instead of descending.
    maximize;
}

optimizer! {
    /// Adam's second moment kept as a row and a column of each matrix (Shazeer and Stern, arXiv:1804.04235).
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::Adafactor::new(vec![w.tie()], 0.1).beta2_decay(-0.8).d(1.).eps(1e-30, 1e-3).weight_decay(0.);
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    Adafactor(lr): Spec {
        name: "Adafactor",
        op: &optimizer::ADAFACTOR_STEP,
        numbers: &[
            ("lr", 1e-2), ("beta2_decay", -0.8), ("eps1", -1.0), ("eps2", 1e-3), ("d", 1.0), ("weight_decay", 0.0),
        ],
        starts: &[],
        flags: &["maximize"],
        options: &[],
        moments: |_, shape| {
            let rank = shape.len();
            if rank < 2 {
                return vec![None, None, Moment::zeros("variance")];
            }
            let (mut row, mut column) = (shape.to_vec(), shape.to_vec());
            (row[rank - 1], column[rank - 2]) = (1, 1);
            vec![Moment::shaped("row_var", row), Moment::shaped("col_var", column), None]
        },
    };
    /// The moving means of step t take t^`beta2_decay` of what is new, -0.8 at first.
    beta2_decay;
    /// How large an update may be before it is clipped, 1 at first.
    d;
    /// The parameter shrinks by `lr · weight_decay` at each step.
    weight_decay;
    @
    /// Climbs instead of descending.
    maximize;
}
impl Adafactor {
    /// The least size of a second moment's root, and the least size of a parameter that the step is relative to:
    /// the epsilon of the parameter's dtype, which a negative number stands for, and 0.001 at first.
    #[must_use]
    pub fn eps(self, eps1: f64, eps2: f64) -> Self {
        Self(self.0.with("eps1", eps1).with("eps2", eps2))
    }
}

optimizer! {
    /// Gradient descent and the average of where it was (Polyak and Juditsky, 1992), which is the state `ax`.
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::ASGD::new(vec![w.tie()], 0.1).lambd(1e-4).alpha(0.75).t0(1e6).weight_decay(0.);
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    ASGD(lr): Spec {
        name: "ASGD",
        op: &optimizer::ASGD_STEP,
        numbers: &[("lr", 1e-2), ("lambd", 1e-4), ("alpha", 0.75), ("t0", 1e6), ("weight_decay", 0.0)],
        starts: &[],
        flags: &["maximize"],
        options: &[],
        moments: |s, _| {
            vec![Moment::zeros("ax"), Moment::number("eta", s.number("lr")), Moment::number("mu", 1.0)]
        },
    };
    /// How strongly a step decays the parameter, 1e-4 at first.
    lambd;
    /// The power by which steps shrink, 0.75 at first.
    alpha;
    /// The step after which the average begins, 10⁶ at first.
    t0;
    /// Adds this much of a parameter to its gradient.
    weight_decay;
    @
    /// Climbs instead of descending.
    maximize;
}

optimizer! {
    /// A step of its own for each element, from the sign of the gradient alone (Riedmiller and Braun, 1993). For whole
    /// batches.
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::Rprop::new(vec![w.tie()], 0.1).etas(0.5, 1.2).step_sizes(1e-6, 50.);
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    Rprop(lr): Spec {
        name: "Rprop",
        op: &optimizer::RPROP_STEP,
        numbers: &[
            ("eta_minus", 0.5), ("eta_plus", 1.2), ("step_size_min", 1e-6), ("step_size_max", 50.0),
        ],
        starts: &[("lr", 1e-2)],
        flags: &["maximize"],
        options: &[],
        moments: |s, _| vec![Moment::zeros("prev"), Moment::filled("step_size", s.number("lr"))],
    };
    @
    /// Climbs instead of descending.
    maximize;
}
impl Rprop {
    /// By how much a step shrinks where the gradient turns, and grows where it does not: 0.5 and 1.2 at first.
    #[must_use]
    pub fn etas(self, minus: f64, plus: f64) -> Self {
        Self(self.0.with("eta_minus", minus).with("eta_plus", plus))
    }
    /// The least and the largest step: 1e-6 and 50 at first.
    #[must_use]
    pub fn step_sizes(self, least: f64, most: f64) -> Self {
        Self(self.0.with("step_size_min", least).with("step_size_max", most))
    }
}

optimizer! {
    /// Momentum made nearly orthogonal, for matrices inside a network (Jordan et al., 2024). Embeddings, heads and
    /// vectors belong to another optimizer. Decay is decoupled, 0.1 at first.
    ///
    /// ```
    /// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
    /// # use rtx_nn::{self as nn, Layer, Module, functional as F};
    /// # use rtx_tensor::{self as torch, tensor};
    /// let w = nn::Param::new(torch::ones([2, 2]));
    /// let mut opt = optim::Muon::new(vec![w.tie()], 0.1).momentum(0.95).ns_steps(5).weight_decay(0.1);
    /// let loss = (&w * &w).sum(..);
    /// loss.backward();
    /// opt.step()?;
    /// assert!(w.to_vec::<f32>()?.iter().all(|x| *x < 1.));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    Muon(lr): Spec {
        name: "Muon",
        op: &optimizer::MUON_STEP,
        numbers: &[
            ("lr", 1e-3), ("momentum", 0.95), ("weight_decay", 0.1), ("eps", 1e-7), ("a", 3.4445), ("b", -4.775), ("c", 2.0315),
        ],
        starts: &[],
        flags: &["nesterov", "maximize"],
        options: &[],
        moments: |_, _| vec![Moment::zeros("momentum_buffer")],
    };
    /// How slowly the mean of gradients moves, 0.95 at first.
    momentum;
    /// The parameter shrinks by `lr · weight_decay` at each step.
    weight_decay;
    /// Keeps the division by the update's size away from zero.
    eps;
}
impl Muon {
    fn defaults(self) -> Self {
        let core = self.0.with_flag("nesterov", true);
        Self(core.with_word(0, vec![5].into()).with_word(1, "original".into()))
    }
    /// Plain momentum instead of Nesterov's.
    #[must_use]
    pub fn no_nesterov(self) -> Self {
        Self(self.0.with_flag("nesterov", false))
    }
    /// How many Newton-Schulz steps, 5 at first.
    #[must_use]
    pub fn ns_steps(self, steps: usize) -> Self {
        Self(self.0.with_word(0, vec![steps as i64].into()))
    }
    /// The polynomial of a Newton-Schulz step: a X + (b XXᵀ + c (XXᵀ)²) X.
    #[must_use]
    pub fn ns_coefficients(self, a: f64, b: f64, c: f64) -> Self {
        Self(self.0.with("a", a).with("b", b).with("c", c))
    }
    /// How the learning rate follows a matrix's shape: `original`, `match_rms_adamw` or `spectral_unclamped`.
    #[must_use]
    pub fn adjust_lr(self, word: &'static str) -> Self {
        Self(self.0.with_word(1, word.into()))
    }
}
