//! Parameters that share settings, and the state that belongs to each.
use rtx_nn::Param;

/// Parameters with settings of their own: `Group::new(biases).weight_decay(0.0)`.
#[derive(Debug)]
pub struct Group {
    pub(crate) params: Vec<Param>,
    pub(crate) lr: Option<f64>,
    pub(crate) weight_decay: Option<f64>,
}

impl Group {
    /// These parameters.
    pub fn new(params: impl IntoIterator<Item = Param>) -> Self {
        Self { params: params.into_iter().collect(), lr: None, weight_decay: None }
    }
    /// A learning rate of its own, which `set_lr` does not change.
    #[must_use]
    pub fn lr(self, lr: f64) -> Self {
        Self { lr: Some(lr), ..self }
    }
    /// A weight decay of its own.
    #[must_use]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        Self { weight_decay: Some(weight_decay), ..self }
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
