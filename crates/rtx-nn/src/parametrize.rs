//! Weights that are functions of what is trained, and models called with other weights than their own.
use crate::{Buffer, Layer, Leaf, Mode, Module, Param, StateDict, Visitor, Weighted};
use rtx_core::{Error, Kind, Result};
use rtx_tensor::{Tensor, no_grad, randn, with_stand_ins};

/// Makes a weight from the one that is trained; it may hold parameters and buffers of its own.
pub trait Parametrization: Module {
    /// The weight.
    fn apply(&self, original: &Tensor) -> Tensor;
}

/// A layer whose weight is a function of the one that is trained. Its state is what PyTorch's
/// `parametrize.register_parametrization` saves: `parametrizations.weight.original`, and what the function holds under
/// `parametrizations.weight.0`. One function tied into several layers is shared by them.
///
/// ```
/// use rtx_nn::{Linear, Module, Parametrization, Parametrized, Visitor};
/// use rtx_tensor::Tensor;
/// struct Symmetric; // in a program of yours: #[derive(Module)]
/// # impl Module for Symmetric { fn visit(&self, _: &mut Visitor<'_>) {} }
/// impl Parametrization for Symmetric {
///     fn apply(&self, w: &Tensor) -> Tensor {
///         w.triu() + w.triu_with(rtx_tensor::options::Triu { diagonal: 1 }).transpose(0, 1)
///     }
/// }
/// # fn main() -> rtx_core::Result<()> {
/// let layer = Parametrized::new(Linear::new(3, 3), Symmetric);
/// let w = layer.weight();
/// assert!(rtx_tensor::equal(&w, &w.transpose(0, 1))?);
/// assert_eq!(layer.named_parameters()[1].0, "parametrizations.weight.original");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Parametrized<L, P> {
    layer: L,
    /// What is trained.
    pub original: Param,
    /// What makes the weight of it.
    pub rule: P,
}
impl<L: Weighted, P: Parametrization> Parametrized<L, P> {
    /// The layer's weight is the one that is trained from now on.
    pub fn new(layer: L, rule: P) -> Self {
        let original = layer.weight().tie();
        Self { layer, original, rule }
    }
    /// The weight that is used.
    #[track_caller]
    pub fn weight(&self) -> Tensor {
        self.rule.apply(&self.original)
    }
}
impl<L: Weighted, P: Parametrization> Module for Parametrized<L, P> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(bias) = self.layer.bias() {
            visitor.leaf("bias", Leaf::Param(bias));
        }
        visitor.scope("parametrizations", |v| {
            v.scope("weight", |v| {
                v.leaf("original", Leaf::Param(&self.original));
                v.scope("0", |v| self.rule.visit(v));
            });
        });
    }
}
impl<L: Weighted, P: Parametrization> Layer for Parametrized<L, P> {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.layer.forward_with_weight(x, &self.weight())
    }
}

/// A weight divided by its largest singular value, which power iteration follows, one step at each training pass
/// (Miyato et al., arXiv:1802.05957).
///
/// ```
/// use rtx_nn::{Layer, Linear, SpectralNorm};
/// # fn main() -> rtx_core::Result<()> {
/// let layer = SpectralNorm::of(Linear::new(4, 3));
/// let (x, y) = (rtx_tensor::randn([16, 4]), rtx_tensor::randn([16, 4]));
/// let apart = (layer.forward(&x) - layer.forward(&y)).norm(..).item::<f32>()?;
/// assert!(apart <= 1.05 * (x - y).norm(..).item::<f32>()?);
/// # Ok(()) }
/// ```
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::SpectralNorm::of(nn::Linear::new(3, 2));
/// layer.forward(&torch::ones([1, 3])); // each step in training comes closer
/// assert_eq!(layer.weight().shape(), [2, 3]);
/// let rule = nn::SpectralNorm::new(&torch::randn([2, 3])).steps(30); // for a weight of this shape
/// assert_eq!(nn::Parametrization::apply(&rule, &torch::ones([2, 3])).shape(), [2, 3]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Debug)]
pub struct SpectralNorm {
    u: Buffer,
    v: Buffer,
    mode: Mode,
    steps: usize,
    eps: f64,
}
impl SpectralNorm {
    /// Of a layer's weight, its first dim against all others.
    pub fn of<L: Weighted>(layer: L) -> Parametrized<L, SpectralNorm> {
        let rule = Self::new(layer.weight());
        Parametrized::new(layer, rule)
    }
    /// Of this weight; fifteen steps of the power iteration are made at once.
    #[track_caller]
    pub fn new(weight: &Tensor) -> Self {
        let rows = weight.detach().reshape((weight.size(0), -1));
        let buffer = |n: usize| Buffer::new(randn([n]).to(weight.dtype()));
        let (u, v) = (buffer(rows.size(0)), buffer(rows.size(1)));
        let norm = Self { u, v, mode: Mode::default(), steps: 1, eps: 1e-12 };
        (0..15).for_each(|_| norm.step(&rows));
        norm
    }
    /// So many steps at each training pass.
    #[must_use]
    pub fn steps(self, steps: usize) -> Self {
        Self { steps, ..self }
    }
    fn step(&self, rows: &Tensor) {
        no_grad(|| {
            let unit = |t: Tensor| &t / t.norm(..).clamp_min(self.eps);
            self.u.set_data(&unit(rows.matmul(&*self.v)));
            self.v.set_data(&unit(rows.transpose(0, 1).matmul(&*self.u)));
        });
    }
}
impl Module for SpectralNorm {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.leaf("_u", Leaf::Buffer(&self.u));
        visitor.leaf("_v", Leaf::Buffer(&self.v));
        visitor.leaf("mode", Leaf::Mode(&self.mode));
    }
}
impl Parametrization for SpectralNorm {
    fn apply(&self, original: &Tensor) -> Tensor {
        let rows = original.reshape((original.size(0), -1));
        if self.mode.is_training() {
            (0..self.steps).for_each(|_| self.step(&rows.detach()));
        }
        // Copies: the next pass moves the vectors while this one's gradient may still need them.
        let (u, v) = (self.u.detach().clone(), self.v.detach().clone());
        original / u.dot(rows.matmul(v))
    }
}

/// Calls a model with these tensors in place of its own parameters and buffers of these names: gradients go to the
/// tensors given. PyTorch's `torch.func.functional_call`; what `f` writes to a buffer that was replaced is gone
/// afterwards.
///
/// # Errors
/// When the model has no tensor of a name, or one of another shape or dtype; then `f` does not run.
///
/// # Example
/// ```
/// use rtx_nn::{Linear, Module, functional_call};
/// use rtx_tensor::{Tensor, func};
/// # fn main() -> rtx_core::Result<()> {
/// let model = Linear::new(2, 1).no_bias();
/// let x = rtx_tensor::tensor!([[1.0, 2.0]]);
/// let loss = |w: &Tensor| {
///     let given = [("weight".to_owned(), w.alias())].into();
///     functional_call(&model, &given, || model.forward(&x).sum(..)).expect("the name and the shape are right")
/// };
/// let gradient = func::grad(loss)(&rtx_tensor::zeros([1, 2]));
/// assert_eq!(gradient.to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok(()) }
/// ```
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let net = nn::Linear::new(2, 1);
/// let ones = [("weight".to_owned(), torch::ones([1, 2])), ("bias".to_owned(), torch::zeros([1]))].into();
/// let y = nn::functional_call(&net, &ones, || net.forward(&tensor!([[3., 4.]])))?;
/// assert_eq!(y.to_vec::<f32>()?, [7.]); // with these weights; the layer keeps its own
/// # Ok::<(), torch::Error>(())
/// ```
#[track_caller]
pub fn functional_call<T>(model: &dyn Module, given: &StateDict, f: impl FnOnce() -> T) -> Result<T> {
    let mut own: Vec<(String, Tensor)> = Vec::new();
    model.for_each(&mut |name, leaf| match leaf {
        Leaf::Param(p) => own.push((name.to_owned(), p.tensor())),
        Leaf::Buffer(b) => own.push((name.to_owned(), b.tensor())),
        Leaf::Mode(_) => {}
    });
    let mut pairs = Vec::with_capacity(given.len());
    for (name, tensor) in given {
        let Some((_, own)) = own.iter().find(|(n, _)| n == name) else {
            return Err(Error::new(Kind::Argument, format!("functional_call: the model has no {name}")));
        };
        if own.shape() != tensor.shape() || own.dtype() != tensor.dtype() {
            let what = format!("functional_call: {name} is {own:?} in the model, {tensor:?} is given");
            return Err(Error::new(Kind::Shape, what));
        }
        pairs.push((own, tensor));
    }
    with_stand_ins(&pairs, f)
}
