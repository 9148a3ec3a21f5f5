//! Looking at what goes through a layer, and changing it.
use crate::{Layer, Module, Visitor};
use rtx_tensor::Tensor;

type Look = Box<dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync>;

/// A layer with hooks: each is shown a tensor on its way, and may give another in its place. Names of parameters stay
/// the layer's own.
///
/// ```
/// use rtx_nn::{Hooked, Layer, Linear};
/// use std::sync::{Arc, Mutex};
/// let seen = Arc::new(Mutex::new(Vec::new()));
/// let layer = Hooked::new(Linear::new(3, 2)).forward_hook({
///     let seen = seen.clone();
///     move |y| { seen.lock().unwrap().push(y.shape()); None }
/// });
/// layer.forward(&rtx_tensor::ones([4, 3]));
/// assert_eq!(*seen.lock().unwrap(), [vec![4, 2]]);
/// ```
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::Hooked::new(nn::ReLU)
///     .forward_pre_hook(|x| Some(x * -1.))
///     .forward_hook(|y| Some(y + 10.))
///     .backward_hook(|gradient| Some(gradient * 2.));
/// assert_eq!(layer.forward(&tensor!([-1., 2.])).to_vec::<f32>()?, [11., 10.]);
/// # Ok::<(), torch::Error>(())
/// ```
pub struct Hooked<L> {
    /// The layer itself.
    pub layer: L,
    before: Vec<Look>,
    after: Vec<Look>,
    backward: Vec<std::sync::Arc<dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync>>,
}

impl<L: Layer> Hooked<L> {
    /// A layer without hooks yet.
    pub fn new(layer: L) -> Self {
        Self { layer, before: Vec::new(), after: Vec::new(), backward: Vec::new() }
    }
    /// Is shown what goes in.
    #[must_use]
    pub fn forward_pre_hook(mut self, hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static) -> Self {
        self.before.push(Box::new(hook));
        self
    }
    /// Is shown what comes out.
    #[must_use]
    pub fn forward_hook(mut self, hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static) -> Self {
        self.after.push(Box::new(hook));
        self
    }
    /// Is shown the gradient of what came out, in the backward pass.
    #[must_use]
    pub fn backward_hook(mut self, hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static) -> Self {
        self.backward.push(std::sync::Arc::new(hook));
        self
    }
}

fn pass(hooks: &[Look], x: Tensor) -> Tensor {
    hooks.iter().fold(x, |x, hook| hook(&x).unwrap_or(x))
}

impl<L: Layer> Module for Hooked<L> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.layer.visit(visitor);
    }
}
impl<L: Layer> Layer for Hooked<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = pass(&self.before, x.alias());
        let y = pass(&self.after, self.layer.forward(&x));
        for hook in self.backward.iter().filter(|_| y.requires_grad()) {
            let hook = hook.clone();
            y.register_hook(move |grad| hook(grad));
        }
        y
    }
}
