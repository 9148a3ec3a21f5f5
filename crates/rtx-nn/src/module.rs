//! `Module`: everything about a model follows from one visit of its fields.
use crate::{Buffer, Mode, Param, StateDict, state};
use rtx_core::{DType, Error, Kind, Result};
use rtx_tensor::{Device, Place, Tensor};
use std::collections::BTreeMap;
use std::path::Path;

/// What a visit meets.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// nn::Linear::new(3, 2).for_each(&mut |name, leaf| match leaf {
///     nn::Leaf::Param(p) => println!("{name} is trained: {:?}", p.shape()),
///     nn::Leaf::Buffer(b) => println!("{name} is saved: {:?}", b.shape()),
///     nn::Leaf::Mode(_) => {}
/// });
/// # Ok::<(), torch::Error>(())
/// ```
pub enum Leaf<'a> {
    /// A trained tensor.
    Param(&'a Param),
    /// A saved tensor.
    Buffer(&'a Buffer),
    /// Training or evaluation.
    Mode(&'a Mode),
}

/// Walks a module and keeps the path to where it is: `blocks.0.ln1.weight`.
pub struct Visitor<'f> {
    path: String,
    see: &'f mut dyn FnMut(&str, Leaf<'_>),
}

impl Visitor<'_> {
    /// Visits what lies under `name`.
    pub fn scope(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        visit(self);
        self.path.truncate(length);
    }
    /// Reports a leaf called `name` here.
    pub fn leaf(&mut self, name: &str, leaf: Leaf<'_>) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        (self.see)(&self.path, leaf);
        self.path.truncate(length);
    }
}

/// A model or a part of one. `#[derive(Module)]` writes `visit`; the rest is provided.
///
/// `&self` suffices for all of it, because leaves are cells: `model.eval()` works through an `Arc`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module, seq};
/// # use rtx_tensor::{self as torch, DType, tensor};
/// let net = seq![nn::Linear::new(3, 4), nn::BatchNorm1d::new(4), nn::Dropout::new(0.5)].to(DType::F32);
/// assert_eq!((net.num_parameters(), net.parameters().len()), (24, 4));
/// assert_eq!(net.named_parameters()[0].0, "0.weight");
/// assert_eq!(net.named_buffers()[0].0, "1.running_mean");
/// net.eval(); // and train(): what dropout and batch norm do
/// net.freeze(); // and unfreeze(): which weights are trained
/// net.unfreeze();
/// net.train();
/// net.zero_grad();
/// let path = std::env::temp_dir().join(format!("rtx-doc-module-{}.safetensors", std::process::id()));
/// net.save(&path)?;
/// net.load(&path)?; // refuses when names or shapes differ
/// net.load_state_dict(&net.state_dict())?;
/// assert!(net.load_matching(&net.state_dict())?.missing.is_empty());
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub trait Module: Send + Sync {
    /// Visits the fields in the order of their declaration.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// Calls `see` with the path of each leaf. Tied leaves come once for each path.
    fn for_each(&self, see: &mut dyn FnMut(&str, Leaf<'_>)) {
        self.visit(&mut Visitor { path: String::new(), see });
    }
    /// Trained tensors by name. Tied ones appear once, under their first name.
    fn named_parameters(&self) -> Vec<(String, Param)> {
        let mut found: Vec<(String, Param)> = Vec::new();
        self.for_each(&mut |name, leaf| {
            if let Leaf::Param(p) = leaf
                && !found.iter().any(|(_, q)| q.is_alias_of(p))
            {
                found.push((name.to_owned(), p.tie()));
            }
        });
        found
    }
    /// Trained tensors.
    fn parameters(&self) -> Vec<Param> {
        self.named_parameters().into_iter().map(|(_, p)| p).collect()
    }
    /// Saved, untrained tensors by name.
    fn named_buffers(&self) -> Vec<(String, Buffer)> {
        let mut found = Vec::new();
        self.for_each(&mut |name, leaf| {
            if let Leaf::Buffer(b) = leaf {
                found.push((name.to_owned(), b.tie()));
            }
        });
        found
    }
    /// How many numbers are trained.
    fn num_parameters(&self) -> usize {
        self.parameters().iter().map(|p| p.numel()).sum()
    }
    /// All parameters and buffers by name, sharing the model's cells.
    fn state_dict(&self) -> StateDict {
        let mut all = StateDict::new();
        self.for_each(&mut |name, leaf| {
            let tensor = match leaf {
                Leaf::Param(p) => p.detach(),
                Leaf::Buffer(b) => b.detach(),
                Leaf::Mode(_) => return,
            };
            all.insert(name.to_owned(), tensor);
        });
        all
    }
    /// Takes the values of `from`, each in the model's own dtype.
    ///
    /// # Errors
    /// When names or shapes differ: the error lists every one that does, and the model stays as it was.
    fn load_state_dict(&self, from: &StateDict) -> Result<()> {
        let ours = self.state_dict();
        check_fits(&ours, from)?;
        for (name, tensor) in &ours {
            tensor.set_data(&from[name].to(tensor.dtype()));
        }
        Ok(())
    }
    /// Takes the values of `from` whose names and shapes are the model's, and says which were not: PyTorch's
    /// `strict=False`.
    ///
    /// # Errors
    /// When a name is there with another shape: the model stays as it was.
    fn load_matching(&self, from: &StateDict) -> Result<Unmatched> {
        let ours = self.state_dict();
        let missing = ours.keys().filter(|name| !from.contains_key(*name)).cloned().collect();
        let unexpected = from.keys().filter(|name| !ours.contains_key(*name)).cloned().collect();
        let both: StateDict = ours.into_iter().filter(|(name, _)| from.contains_key(name)).collect();
        let given = both.keys().map(|name| (name.clone(), from[name].alias())).collect();
        check_fits(&both, &given)?;
        both.iter().for_each(|(name, tensor)| tensor.set_data(&from[name].to(tensor.dtype())));
        Ok(Unmatched { missing, unexpected })
    }
    /// Layers that behave differently in training (dropout) do so from now on.
    fn train(&self) {
        set_mode(self, true);
    }
    /// Layers that behave differently in training (dropout) do not from now on.
    fn eval(&self) {
        set_mode(self, false);
    }
    /// Forgets all gradients.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(|p| p.set_grad(None));
    }
    /// Trains nothing in here; it is saved all the same. [`Module::unfreeze`] undoes it.
    fn freeze(&self) {
        self.parameters().iter().for_each(|p| {
            p.freeze_();
        });
    }
    /// Trains all of it again.
    fn unfreeze(&self) {
        self.parameters().iter().for_each(|p| {
            p.unfreeze_();
        });
    }
    /// Moves or converts it: `model.to(F64)`, `model.to(&device)`. Integers keep their dtype. The cells stay the
    /// same, so an optimizer's handles stay valid.
    #[must_use]
    fn to(self, place: impl Into<Place>) -> Self
    where
        Self: Sized,
    {
        let place = place.into();
        for tensor in self.state_dict().values() {
            let dtype = place.dtype.filter(|_| tensor.dtype().is_float());
            tensor.set_data(&tensor.detach().to(Place { dtype, ..place.clone() }));
        }
        self
    }
    /// Writes all parameters and buffers to a safetensors file, whole or not at all.
    ///
    /// # Errors
    /// When work that the values depend on has failed, or the disk refuses.
    fn save(&self, path: impl AsRef<Path>) -> Result<()>
    where
        Self: Sized,
    {
        state::save_file(&self.state_dict(), path)
    }
    /// Reads parameters and buffers that [`Module::save`] (or PyTorch) wrote.
    ///
    /// # Errors
    /// When the file is damaged, or its names and shapes are not the model's.
    fn load(&self, path: impl AsRef<Path>) -> Result<()>
    where
        Self: Sized,
    {
        self.load_state_dict(&state::load_file(path)?)
    }
}

/// Names that only one side of [`Module::load_matching`] has.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let net = nn::Linear::new(3, 2);
/// let unmatched = net.load_matching(&[("weight".to_owned(), torch::ones([2, 3]))].into())?;
/// assert_eq!((unmatched.missing, unmatched.unexpected), (vec!["bias".to_owned()], vec![]));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmatched {
    /// The model's.
    pub missing: Vec<String>,
    /// The file's.
    pub unexpected: Vec<String>,
}

fn set_mode<M: Module + ?Sized>(module: &M, training: bool) {
    module.for_each(&mut |_, leaf| {
        if let Leaf::Mode(mode) = leaf {
            mode.set(training);
        }
    });
}

/// One line for each name that is missing, misshapen or unexpected.
fn check_fits(ours: &StateDict, from: &StateDict) -> Result<()> {
    let mut lines = String::new();
    for (name, tensor) in ours {
        match from.get(name) {
            None => lines += &format!("\n  missing     {name} {:?}", tensor.shape()),
            Some(f) if f.shape() != tensor.shape() => {
                lines += &format!("\n  wrong shape {name}: model {:?}, file {:?}", tensor.shape(), f.shape());
            }
            Some(_) => {}
        }
    }
    for name in from.keys().filter(|name| !ours.contains_key(*name)) {
        lines += &format!("\n  unexpected  {name}");
    }
    if lines.is_empty() {
        return Ok(());
    }
    Err(Error::new(Kind::Format, format!("load_state_dict: file and model differ{lines}")))
}

/// What may stand in a module: modules, leaves, containers of them, and plain settings.
///
/// Unstable: what `#[derive(Module)]` calls; derive it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a module",
    note = "a tensor must say what it is: `Param` (trained) or `Buffer` (saved)",
    note = "mark settings with `#[module(skip)]`"
)]
pub trait Field {
    /// Visits the field called `name`.
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>);
}
impl<M: Module + ?Sized> Field for M {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        visitor.scope(name, |v| self.visit(v));
    }
}
impl Field for Param {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        visitor.leaf(name, Leaf::Param(self));
    }
}
impl Field for Buffer {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        visitor.leaf(name, Leaf::Buffer(self));
    }
}
impl Field for Mode {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        visitor.leaf(name, Leaf::Mode(self));
    }
}
impl<T: Field> Field for Vec<T> {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        visit_list(self, name, visitor);
    }
}
impl<T: Field, const N: usize> Field for [T; N] {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        visit_list(self, name, visitor);
    }
}
fn visit_list<T: Field>(items: &[T], name: &str, visitor: &mut Visitor<'_>) {
    visitor.scope(name, |v| items.iter().enumerate().for_each(|(i, item)| item.visit_field(&i.to_string(), v)));
}
impl<T: Field> Field for Option<T> {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        if let Some(item) = self {
            item.visit_field(name, visitor);
        }
    }
}
impl<T: Field> Field for BTreeMap<String, T> {
    fn visit_field(&self, name: &str, visitor: &mut Visitor<'_>) {
        visitor.scope(name, |v| self.iter().for_each(|(key, item)| item.visit_field(key, v)));
    }
}
macro_rules! settings { ($($T:ty)*) => { $(
    impl Field for $T {
        fn visit_field(&self, _: &str, _: &mut Visitor<'_>) {}
    }
)* } }
settings!(bool usize i32 i64 u32 u64 f32 f64 String &'static str DType Device);

impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        (**self).visit(visitor);
    }
}

/// One tensor in, one out: what `seq!` chains. Other models have a plain `forward` of their own.
///
/// ```
/// use rtx_nn::{Layer, Linear, Module, Visitor, seq};
/// use rtx_tensor::Tensor;
///
/// struct Residual(Linear);
/// // What `#[derive(Module)]` of `rustytorch` writes.
/// impl Module for Residual {
///     fn visit(&self, visitor: &mut Visitor<'_>) {
///         visitor.scope("0", |inner| self.0.visit(inner));
///     }
/// }
/// impl Layer for Residual {
///     fn forward(&self, x: &Tensor) -> Tensor {
///         x + self.0.forward(x)
///     }
/// }
/// let net = seq![Residual(Linear::new(4, 4)), Residual(Linear::new(4, 4))];
/// assert_eq!(net.forward(&rtx_tensor::ones([2, 4])).shape(), [2, 4]);
/// ```
// No `#[track_caller]` here: it would move a mistake inside your `forward` to the line that calls it.
pub trait Layer: Module {
    /// Applies the layer.
    fn forward(&self, x: &Tensor) -> Tensor;
}
impl<L: Layer + ?Sized> Layer for Box<L> {
    fn forward(&self, x: &Tensor) -> Tensor {
        (**self).forward(x)
    }
}
