//! Gradients as values, scopes without them, and rules of one's own.
use crate::{
    Location, Result, Tensor,
    backward::{self, Options},
    failure::OrPanic,
    frame,
    tape::{self, CustomRule, Edge, Payload, Record, Rule, Traced},
};
use rtx_core::{Error, Kind};
use smallvec::smallvec;

pub use crate::{
    backward::{RemovableHook, detect_anomaly},
    checkpoint::{Tensors, checkpoint, checkpoint_sequential, memory_budget},
};

/// Nothing recorded inside needs a gradient. A closure, not a guard: it cannot leak across `.await`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = torch::ones(2).requires_grad_();
/// assert!(!torch::no_grad(|| &x * 2.).requires_grad());
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    tape::with_taping(false, f)
}
/// Undoes [`no_grad`] inside it.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = torch::ones(2).requires_grad_();
/// let y = torch::no_grad(|| torch::autograd::enable_grad(|| &x * 2.));
/// assert!(y.requires_grad());
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn enable_grad<T>(f: impl FnOnce() -> T) -> T {
    tape::with_taping(true, f)
}
/// Does this thread record what gradients need?
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert!(torch::autograd::is_grad_enabled());
/// assert!(!torch::no_grad(torch::autograd::is_grad_enabled));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn is_grad_enabled() -> bool {
    tape::is_taping()
}

/// Gradients as values.
///
/// # Example
/// ```
/// use rtx_tensor::{grad, tensor};
/// # fn main() -> rtx_tensor::Result<()> {
/// let (x, w) = (tensor!([1., 2.]).requires_grad_(), tensor!([3., 4.]).requires_grad_());
/// let [gx, gw] = grad(&(&x * &w).sum(..), [&x, &w]);
/// assert_eq!((gx.to_vec::<f32>()?, gw.to_vec::<f32>()?), (vec![3., 4.], vec![1., 2.]));
/// # Ok(()) }
/// ```
///
/// # Panics
/// As [`Grad::wrt`].
#[track_caller]
pub fn grad<const N: usize>(out: &Tensor, wrt: [&Tensor; N]) -> [Tensor; N] {
    Grad::of(out).wrt(wrt)
}

/// `torch.autograd.grad` with its options.
///
/// # Example
/// ```
/// use rtx_tensor::{Grad, tensor};
/// # fn main() -> rtx_tensor::Result<()> {
/// let x = tensor!([1., 2.]).requires_grad_();
/// let [g] = Grad::of(&x.pow(3).sum(..)).create_graph().wrt([&x]); // 3 x²
/// g.sum(..).backward(); // 6 x
/// assert_eq!(x.grad().map(|g| g.to_vec::<f32>()).transpose()?, Some(vec![6., 12.]));
/// # Ok(()) }
/// ```
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = tensor!(2.).requires_grad_();
/// let y = &x * &x * &x;
/// let [first] = torch::Grad::of(&y).create_graph().wrt([&x]);
/// let [second] = torch::Grad::of(&first).gradient(&tensor!(1.)).retain_graph().wrt([&x]);
/// assert_eq!((first.item::<f32>()?, second.item::<f32>()?), (12., 12.));
/// assert!(torch::Grad::of(&y).find(&[&tensor!(1.).requires_grad_()])?[0].is_none());
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Grad<'a> {
    out: &'a Tensor,
    gradient: Option<&'a Tensor>,
    create_graph: bool,
    retain_graph: bool,
}

impl<'a> Grad<'a> {
    /// Gradients of this tensor.
    pub fn of(out: &'a Tensor) -> Self {
        Self { out, gradient: None, create_graph: false, retain_graph: false }
    }
    /// Starts from this cotangent instead of 1.
    pub fn gradient(self, gradient: &'a Tensor) -> Self {
        Self { gradient: Some(gradient), ..self }
    }
    /// The gradients can be differentiated again. Keeps the records.
    pub fn create_graph(self) -> Self {
        Self { create_graph: true, ..self }
    }
    /// Keeps the records for another pass.
    pub fn retain_graph(self) -> Self {
        Self { retain_graph: true, ..self }
    }
    /// With respect to these; `.grad()` of nothing changes.
    ///
    /// # Panics
    /// When the result does not depend on one of them, or for what [`Tensor::backward`] panics.
    #[track_caller]
    pub fn wrt<const N: usize>(self, wrt: [&Tensor; N]) -> [Tensor; N] {
        self.find_all(&wrt).or_panic()
    }
    #[track_caller]
    fn find_all<const N: usize>(self, wrt: &[&Tensor; N]) -> Result<[Tensor; N]> {
        let mut all = Vec::with_capacity(N);
        for (i, found) in self.find(wrt)?.into_iter().enumerate() {
            let missing = || Error::new(Kind::Autograd, format!("grad: the result does not depend on tensor {i}"));
            all.push(found.ok_or_else(missing)?);
        }
        all.try_into().map_err(|_| Error::new(Kind::Internal, "grad: one gradient each"))
    }
    /// The same for a list; `None` for tensors on which the result does not depend.
    ///
    /// # Errors
    /// For what [`Tensor::backward`] panics.
    #[track_caller]
    pub fn find(self, wrt: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
        let options =
            Options { create_graph: self.create_graph, retain_graph: self.retain_graph, at: Location::caller() };
        let mut edges = Vec::new();
        for (i, t) in wrt.iter().enumerate() {
            let edge = t.traced()?.edge;
            edges.push(
                edge.ok_or_else(|| Error::new(Kind::Autograd, format!("grad: tensor {i} does not require grad")))?,
            );
        }
        let walk = backward::walk(self.out, self.gradient, &edges, options)?;
        let found = (0..edges.len()).map(|i| walk.found(i).map(Tensor::from_traced)).collect();
        walk.use_up();
        Ok(found)
    }
}

/// A function with a gradient of its own.
///
/// # Example
/// ```
/// use rtx_tensor::{Tensor, autograd::{Function, Saved}, tensor};
/// /// Rounds, and lets gradients pass as if it did not.
/// struct RoundSte;
/// impl Function<1> for RoundSte {
///     fn forward(&self, _: &mut Saved, [x]: [&Tensor; 1]) -> Tensor { x.round() }
///     fn backward(&self, _: &Saved, g: &Tensor) -> [Option<Tensor>; 1] { [Some(g.clone())] }
/// }
/// let x = tensor!([1.4]).requires_grad_();
/// RoundSte.apply([&x]).sum(..).backward();
/// assert!(x.grad().is_some());
/// ```
pub trait Function<const N: usize>: Send + Sync + Sized + 'static {
    /// The value. Nothing inside is on the tape.
    fn forward(&self, saved: &mut Saved, inputs: [&Tensor; N]) -> Tensor;
    /// The gradients of the inputs, given that of the output; `None` where there is none.
    fn backward(&self, saved: &Saved, grad: &Tensor) -> [Option<Tensor>; N];
    /// Calls it. Not `#[track_caller]`: a mistake inside `forward` shows its own line.
    fn apply(self, inputs: [&Tensor; N]) -> Tensor {
        apply(self, inputs).or_panic()
    }
}

/// Tensors kept for the backward pass.
#[derive(Default)]
pub struct Saved(Vec<Tensor>);
impl Saved {
    /// Keeps a tensor's value as it is now.
    pub fn save(&mut self, t: &Tensor) {
        self.0.push(tape::with_taping(true, || t.clone()))
    }
    /// The `k`-th tensor kept.
    ///
    /// # Panics
    /// When fewer were kept.
    #[track_caller]
    pub fn get(&self, k: usize) -> &Tensor {
        &self.0[k]
    }
}

struct Custom<F, const N: usize> {
    function: F,
    saved: Saved,
}
impl<const N: usize, F: Function<N>> CustomRule for Custom<F, N> {
    fn gradients(&self, cotangent: &Tensor) -> Vec<Option<Tensor>> {
        self.function.backward(&self.saved, cotangent).into()
    }
}

fn apply<const N: usize, F: Function<N>>(function: F, inputs: [&Tensor; N]) -> Result<Tensor> {
    let mut saved = Saved::default();
    let out = no_grad(|| function.forward(&mut saved, inputs));
    let mut edges = smallvec![];
    for x in inputs {
        edges.push(x.traced()?.edge.filter(|_| tape::is_taping()));
    }
    if edges.iter().all(Option::is_none) || !out.dtype().is_differentiable() {
        return Ok(out);
    }
    frame::note_custom(std::any::type_name::<F>());
    let rule = Rule::Custom(Box::new(Custom { function, saved }));
    let record =
        Record::new(std::any::type_name::<F>(), Location::caller(), smallvec![out.ty()], Payload { edges, rule });
    Ok(Tensor::from_traced(Traced { value: out.traced()?.value, edge: Some(Edge::Node(record, 0)) }))
}
