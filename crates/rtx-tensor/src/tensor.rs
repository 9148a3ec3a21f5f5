//! `Tensor`: a handle to a cell that holds a value (contract M1).
use crate::{
    Device, Location, Result, call,
    device::Place,
    engine::{self, Value},
    failure::OrPanic,
    frame,
    shape::{Int, wrap_dim},
    tape::{CustomRule, Edge, Leaf, Payload, Record, Rule, Trace, Traced, is_taping, lock},
    view::View,
};
use rtx_core::{DType, Error, Kind, Shape};
use rtx_ir::Type;
use smallvec::smallvec;
use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

/// A tensor handle. `alias` is Python's `b = a`; `clone` is PyTorch's `a.clone()`: an independent tensor that costs
/// nothing until one of the two is written.
///
/// # Example
/// ```
/// use rtx_tensor::{self as torch, tensor};
/// # fn main() -> torch::Result<()> {
/// let x = tensor!([[1., 2.], [3., 4.]]);
/// let (saved, same) = (x.clone(), x.alias());
/// x.i(0).add_(10); // a view writes through
/// assert_eq!(same.to_vec::<f32>()?, [11.0, 12.0, 3.0, 4.0]);
/// assert_eq!(saved.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
/// # Ok(()) }
/// ```
pub struct Tensor(Shown);

/// What a handle shows. Every op makes one that shows a whole cell, so that is no block of memory of its own.
enum Shown {
    Whole(Arc<Root>),
    View(Arc<Handle>),
}

/// A view.
struct Handle {
    root: Arc<Root>,
    view: View,
    /// What the view showed when its cell was at this version.
    cache: Mutex<Option<(Version, Traced)>>,
    kept_grad: OnceLock<KeptGrad>,
}

/// One identity for gradients over a storage: `detach` makes a second one over the same storage.
pub(crate) struct Root {
    storage: Arc<Storage>,
    /// The view of all of it.
    whole: View,
    /// Is `auto` more than its default? Set before that, under the lock of `auto`, and never unset.
    is_tracked: AtomicBool,
    auto: Mutex<Auto>,
    /// The gradient of a tensor that is no leaf, when it was asked to be kept.
    kept_grad: OnceLock<KeptGrad>,
}

#[derive(Default)]
struct Auto {
    /// Where the gradient of the storage's value goes.
    edge: Option<Edge>,
    /// Set on tensors that the user marked.
    leaf: Option<Arc<Leaf>>,
    /// Rises when `edge` changes without a write.
    generation: u64,
}

/// A cell: its identity is its address, its value is replaced by every write.
struct Storage(Mutex<Contents>);

struct Contents {
    value: Value,
    version: u64,
}

type Version = (u64, u64);
type KeptGrad = Arc<Mutex<Option<Tensor>>>;

/// Recorded as the identity: gradients reach the original, writes do not.
impl Clone for Tensor {
    #[track_caller]
    fn clone(&self) -> Self {
        let Traced { value, edge } = self.traced().or_panic();
        let edge = edge.filter(|_| is_taping()).map(|edge| {
            let types = smallvec![value.ty().clone()];
            let payload = Payload { edges: smallvec![Some(edge)], rule: Rule::Identity };
            Edge::Node(Record::new("clone", Location::caller(), types, payload), 0)
        });
        Self::from_traced(Traced { value, edge })
    }
}
/// Never evaluates: `dbg!(x)` must not change what runs.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} {:?} {})", self.dtype(), self.shape(), self.device())
    }
}
impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

/// Making handles, and what they hold.
impl Tensor {
    pub(crate) fn from_traced(t: Traced) -> Self {
        Self(Shown::Whole(Arc::new(Root {
            whole: View::whole(&t.value.ty().shape),
            storage: Arc::new(Storage(Mutex::new(Contents { value: t.value, version: 0 }))),
            is_tracked: AtomicBool::new(t.edge.is_some()),
            auto: Mutex::new(Auto { edge: t.edge, ..Auto::default() }),
            kept_grad: OnceLock::new(),
        })))
    }
    pub(crate) fn from_value(value: Value) -> Self {
        Self::from_traced(Traced { value, edge: None })
    }
    fn from_parts(root: Arc<Root>, view: View) -> Self {
        Self(Shown::View(Arc::new(Handle { root, view, cache: Mutex::new(None), kept_grad: OnceLock::new() })))
    }
    /// The same cell under another view; a view made while nothing is taped has no gradient, as in PyTorch.
    pub(crate) fn with_view(&self, view: View) -> Self {
        if is_taping() || !self.requires_grad() {
            return Self::from_parts(self.root().clone(), view);
        }
        Self::from_parts(self.root().detached(), view)
    }
    pub(crate) fn root(&self) -> &Arc<Root> {
        match &self.0 {
            Shown::Whole(root) => root,
            Shown::View(handle) => &handle.root,
        }
    }
    pub(crate) fn view_map(&self) -> &View {
        match &self.0 {
            Shown::Whole(root) => &root.whole,
            Shown::View(handle) => &handle.view,
        }
    }

    /// The value that this handle shows now, and where its gradient goes.
    #[track_caller]
    pub(crate) fn traced(&self) -> Result<Traced> {
        let (whole, version) = self.root().contents();
        let Shown::View(handle) = &self.0 else { return Ok(whole) };
        if handle.view.is_whole() {
            return Ok(whole);
        }
        if let Some((at, t)) = &*lock(&handle.cache)
            && *at == version
        {
            return Ok(t.clone());
        }
        let taping = whole.edge.is_some();
        let t = engine::record_where([&whole.value], Location::caller(), |r| {
            let mut trace = Trace::new(r, taping);
            let base = trace.import(&whole)?;
            let shown = handle.view.read(&mut trace.recorder.builder(), base)?;
            trace.export(shown)
        })?;
        if frame::may_keep(&whole.value) {
            *lock(&handle.cache) = Some((version, t.clone()));
        }
        Ok(t)
    }

    /// Replaces what this handle shows by `f` of it: a write through the view, recorded on the cell's value. The new
    /// value takes the dtype and the shape of the old one.
    #[track_caller]
    pub(crate) fn write(
        &self,
        op: &'static str,
        f: impl FnOnce(&mut Trace<'_, '_>, rtx_ir::ValueId) -> Result<rtx_ir::ValueId>,
    ) -> Result<()> {
        let (root, view) = (self.root(), self.view_map());
        root.check_writable(op)?;
        view.check_writable(op)?;
        let (whole, _) = root.contents();
        let new = engine::record_where([&whole.value], Location::caller(), |r| {
            let mut trace = Trace::new(r, is_taping());
            let base = trace.import(&whole)?;
            let shown = view.read(&mut trace.recorder.builder(), base)?;
            let update = f(&mut trace, shown)?;
            let mut b = trace.recorder.builder();
            let ty = b.ty(shown).clone();
            let update = call::fit(&mut b, op, update, &ty)?;
            let new = view.write(&mut b, base, update)?;
            trace.recorder.replaces(new, base);
            trace.export(new)
        })?;
        root.set(new, is_taping());
        Ok(())
    }

    /// Replaces the cell's value, outside the gradient's way. The shape is the same.
    pub(crate) fn replace_value(&self, new: Traced) {
        self.root().set(new, false);
    }
    /// Replaces the cell's value by one of the same shape, whatever its dtype. The tensor stays what it was for
    /// gradients: a leaf stays a leaf. For loading and moving parameters in place.
    ///
    /// # Panics
    /// When the shapes differ, or this is a view.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::zeros(2);
    /// x.set_data(&tensor!([1., 2.]));
    /// assert_eq!(x.to_vec::<f32>()?, [1., 2.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn set_data(&self, data: &Tensor) {
        self.try_set_data(data).or_panic();
    }
    #[track_caller]
    fn try_set_data(&self, data: &Tensor) -> Result<()> {
        if self.shape() != data.shape() || !self.view_map().is_whole() {
            let what = format!("set_data: a tensor of shape {:?} does not take {:?}", self.shape(), data.shape());
            return Err(Error::new(Kind::Shape, what));
        }
        let new = data.traced()?;
        let (old, _) = self.root().contents();
        let same_device = new.value.executor() == old.value.executor();
        if !new.value.is_ready() && new.value.ty() == old.value.ty() && same_device {
            // If what computes the new value fails before it begins, the cell stays as it was (contract R6).
            engine::record_where([&old.value], Location::caller(), |r| {
                let (new, old) = (r.import(&new.value), r.import(&old.value));
                r.replaces(new, old);
                Ok(())
            })?;
        }
        self.replace_value(new);
        Ok(())
    }
}

impl Root {
    pub(crate) fn contents(&self) -> (Traced, Version) {
        let contents = lock(&self.storage.0);
        // Whoever wrote the value together with an edge has said so before it let go of the storage.
        if !self.is_tracked.load(Relaxed) {
            return (Traced { value: contents.value.clone(), edge: None }, (contents.version, 0));
        }
        drop(contents);
        let auto = lock(&self.auto);
        let contents = lock(&self.storage.0);
        let t = Traced { value: contents.value.clone(), edge: auto.edge.clone() };
        (t, (contents.version, auto.generation))
    }
    /// What is known for gradients, to be changed.
    fn auto(&self) -> MutexGuard<'_, Auto> {
        let auto = lock(&self.auto);
        self.is_tracked.store(true, Relaxed);
        auto
    }
    /// A write: the value is replaced, and where gradients go too if they are taped.
    pub(crate) fn set(self: &Arc<Self>, new: Traced, taping: bool) {
        frame::note_written(self);
        // Where there is no edge and comes none, gradients have nothing to do with it.
        let mut auto = (new.edge.is_some() || self.is_tracked.load(Relaxed)).then(|| self.auto());
        let mut contents = lock(&self.storage.0);
        let old_value = std::mem::replace(&mut contents.value, new.value);
        contents.version += 1;
        drop(contents);
        let old_edge = auto.as_mut().filter(|_| taping).and_then(|a| std::mem::replace(&mut a.edge, new.edge));
        drop(auto);
        drop((old_value, old_edge));
    }
    /// As it was before a write.
    pub(crate) fn restore(&self, old: Traced) {
        let mut auto = self.auto();
        let mut contents = lock(&self.storage.0);
        let now = std::mem::replace(&mut contents.value, old.value);
        contents.version += 1;
        drop(contents);
        let edge = std::mem::replace(&mut auto.edge, old.edge);
        drop(auto);
        drop((now, edge));
    }
    fn detached(&self) -> Arc<Root> {
        Arc::new(Root {
            storage: self.storage.clone(),
            whole: self.whole.clone(),
            is_tracked: AtomicBool::new(false),
            auto: Mutex::default(),
            kept_grad: OnceLock::new(),
        })
    }
    fn check_writable(&self, op: &str) -> Result<()> {
        if !is_taping() || lock(&self.auto).leaf.is_none() {
            return Ok(());
        }
        Err(Error::new(
            Kind::Autograd,
            format!("{op}: this tensor is a leaf that requires grad, and is written in place"),
        )
        .hint("write it inside no_grad(|| …), or write to a clone"))
    }
}

/// Handles.
impl Tensor {
    /// The same tensor once more: writing to one is seen in the other.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let (x, saved) = (torch::zeros(2), torch::zeros(2));
    /// let same = x.alias(); // Python's same = x
    /// x.fill_(1.);
    /// assert_eq!(same.to_vec::<f32>()?, [1., 1.]);
    /// # let _ = saved;
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn alias(&self) -> Tensor {
        Tensor(match &self.0 {
            Shown::Whole(root) => Shown::Whole(root.clone()),
            Shown::View(handle) => Shown::View(handle.clone()),
        })
    }
    /// Is it the same tensor, or the same view of one cell?
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::zeros(2);
    /// assert!(x.is_alias_of(&x.alias()) && !x.is_alias_of(&x.clone()));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn is_alias_of(&self, other: &Tensor) -> bool {
        self.shares_storage(other) && self.view_map() == other.view_map()
    }
    /// The same tensor as long as somebody holds it: what a hook keeps of it.
    pub(crate) fn downgrade(&self) -> impl Fn() -> Option<Tensor> + Send + Sync + use<> {
        let root = Arc::downgrade(self.root());
        let view = if let Shown::View(handle) = &self.0 { Some(handle.view.clone()) } else { None };
        move || {
            let root = root.upgrade()?;
            Some(match &view {
                None => Tensor(Shown::Whole(root)),
                Some(view) => Self::from_parts(root, view.clone()),
            })
        }
    }
    /// Do writes to one reach the other's cell?
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert!(x.shares_storage(&x.t()) && !x.shares_storage(&x.clone()));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn shares_storage(&self, other: &Tensor) -> bool {
        Arc::ptr_eq(&self.root().storage, &other.root().storage)
    }
    /// The same storage, outside the gradient's way.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2).requires_grad_();
    /// assert!(!x.detach().requires_grad());
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn detach(&self) -> Tensor {
        match &self.0 {
            Shown::Whole(root) => Tensor(Shown::Whole(root.detached())),
            Shown::View(handle) => Self::from_parts(handle.root.detached(), handle.view.clone()),
        }
    }
}

/// Facts; none of them runs anything.
impl Tensor {
    pub(crate) fn ty(&self) -> Type {
        Type { dtype: self.dtype(), shape: self.dims_of().clone() }
    }
    pub(crate) fn dims_of(&self) -> &Shape {
        self.view_map().shape()
    }
    /// The sizes.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::zeros([2, 3]).shape(), [2, 3]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn shape(&self) -> Vec<usize> {
        self.dims_of().sizes().to_vec()
    }
    /// The element type.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(tensor!([1, 2]).dtype(), DType::I64);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn dtype(&self) -> DType {
        lock(&self.root().storage.0).value.ty().dtype
    }
    /// Where it lives.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(format!("{:?}", torch::zeros(2)), "Tensor(f32 [2] cpu)");
    /// let _where: torch::Device = torch::zeros(2).device();
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn device(&self) -> Device {
        lock(&self.root().storage.0).value.executor().clone().into()
    }
    /// Number of dims.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::zeros([2, 3]).rank(), 2);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn rank(&self) -> usize {
        self.dims_of().rank()
    }
    /// Number of elements.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::zeros([2, 3]).numel(), 6);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn numel(&self) -> usize {
        self.dims_of().numel()
    }
    /// All sizes at once, with the rank checked: `let [b, t, c] = x.dims();`
    ///
    /// # Panics
    /// When the rank is another one.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let [rows, columns] = torch::zeros([2, 3]).dims();
    /// assert_eq!((rows, columns), (2, 3));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> [usize; N] {
        let shape = self.shape();
        let text = || Error::new(Kind::Shape, format!("dims: {N} sizes asked for, shape is {shape:?}"));
        <[usize; N]>::try_from(shape.as_slice()).map_err(|_| text()).or_panic()
    }
    /// One size; `-1` is the last.
    ///
    /// # Panics
    /// When there is no such dim.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::zeros([2, 3]).size(-1), 3);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn size(&self, dim: impl Int) -> usize {
        let shape = self.shape();
        wrap_dim("size", dim.int(), shape.len())
            .and_then(|d| {
                shape.get(d).copied().ok_or_else(|| Error::new(Kind::Argument, "size: a tensor of rank 0 has no sizes"))
            })
            .or_panic()
    }
}

/// Placing.
impl Tensor {
    /// Another element type, device, or both: `x.to(BF16)`, `x.to(&device)`. The tensor itself where nothing changes.
    /// Gradients go the way back; a move to another device runs what computes the tensor.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(tensor!([1.5, 2.5]).to(DType::I64).to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn to(&self, place: impl Into<Place>) -> Tensor {
        self.try_to_place(place.into()).or_panic()
    }
    #[track_caller]
    pub(crate) fn try_to_place(&self, place: Place) -> Result<Tensor> {
        let moved = match place.device {
            Some(device) if device != self.device() => self.moved(&device)?,
            _ => self.alias(),
        };
        let dtype = place.dtype.unwrap_or(self.dtype());
        if dtype == self.dtype() {
            return Ok(moved);
        }
        call::record_one(&[(&moved).into()], |b, x| b.cast(x[0], dtype))
    }
    /// A copy on another device, and the way of gradients back. Runs what computes it.
    #[track_caller]
    fn moved(&self, device: &Device) -> Result<Tensor> {
        let Traced { value, edge } = self.traced()?;
        let copy = Value::from_bytes(device.executor(), value.ty().clone(), &value.read()?)?;
        let Some(edge) = edge.filter(|_| is_taping()) else { return Ok(Tensor::from_value(copy)) };
        let payload =
            Payload { edges: smallvec![Some(edge)], rule: Rule::Custom(Box::new(Moved { from: self.device() })) };
        let record = Record::new("to", Location::caller(), smallvec![copy.ty().clone()], payload);
        Ok(Tensor::from_traced(Traced { value: copy, edge: Some(Edge::Node(record, 0)) }))
    }
}

/// The gradient of a move goes back to where the tensor came from.
struct Moved {
    from: Device,
}
impl CustomRule for Moved {
    fn gradients(&self, cotangent: &Tensor) -> Vec<Option<Tensor>> {
        vec![Some(cotangent.to(&self.from))]
    }
}

/// Gradients' marks.
impl Tensor {
    /// Marks it: `backward()` will leave its gradient in `.grad()`. A view becomes a tensor of its own first: what is
    /// written to it later does not reach the tensor that it showed a part of.
    ///
    /// # Panics
    /// When it holds no floats, or is itself computed from tensors that require gradients.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2).requires_grad_();
    /// (&x * 3.).sum(..).backward();
    /// assert_eq!(x.grad().expect("of x").to_vec::<f32>()?, [3., 3.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn requires_grad_(self) -> Self {
        let own = if self.view_map().is_whole() || self.requires_grad() { self } else { self.clone() };
        own.mark().or_panic();
        own
    }
    fn mark(&self) -> Result<()> {
        if !self.dtype().is_float() {
            let what = format!("requires_grad_: only floats have gradients, this is {}", self.ty());
            return Err(Error::new(Kind::Autograd, what));
        }
        if !self.view_map().is_whole() {
            return Err(Error::new(Kind::Autograd, "requires_grad_: this is a view of another tensor")
                .hint("mark its clone, or the tensor that it shows a part of"));
        }
        let mut auto = self.root().auto();
        if auto.edge.is_some() && auto.leaf.is_none() {
            return Err(Error::new(Kind::Autograd, "requires_grad_: this tensor is computed from others")
                .hint("it requires grad already; detach() it to cut the gradient's way"));
        }
        if auto.leaf.is_none() {
            let leaf = Leaf::new();
            auto.edge = Some(Edge::Leaf(leaf.clone()));
            auto.leaf = Some(leaf);
            auto.generation += 1;
        }
        Ok(())
    }
    /// Takes the mark of a leaf away; its `.grad()` goes too. `unfreeze_` marks it again.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2).requires_grad_();
    /// x.freeze_();
    /// assert!(!x.requires_grad());
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn freeze_(&self) -> &Self {
        let mut auto = self.root().auto();
        if auto.leaf.take().is_some() {
            auto.edge = None;
            auto.generation += 1;
        }
        drop(auto);
        self
    }
    /// Marks it, as [`Tensor::requires_grad_`] does, through a shared reference.
    ///
    /// # Panics
    /// As [`Tensor::requires_grad_`], and for a view.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2);
    /// x.unfreeze_();
    /// assert!(x.requires_grad());
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn unfreeze_(&self) -> &Self {
        self.mark().or_panic();
        self
    }
    /// Does a gradient flow to or through it?
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2).requires_grad_();
    /// assert!((&x * 2.).requires_grad());
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn requires_grad(&self) -> bool {
        let root = self.root();
        root.is_tracked.load(Relaxed) && lock(&root.auto).edge.is_some()
    }
    /// Is it not computed from tensors that require gradients?
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2).requires_grad_();
    /// assert!(x.is_leaf() && !(&x * 2.).is_leaf());
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn is_leaf(&self) -> bool {
        !self.requires_grad() || self.leaf().is_some()
    }
    pub(crate) fn leaf(&self) -> Option<Arc<Leaf>> {
        let root = self.root();
        if !root.is_tracked.load(Relaxed) || !self.view_map().is_whole() {
            return None;
        }
        lock(&root.auto).leaf.clone()
    }
    /// The gradient that `backward()` left.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2).requires_grad_();
    /// assert!(x.grad().is_none());
    /// x.sum(..).backward();
    /// assert_eq!(x.grad().expect("of x").to_vec::<f32>()?, [1., 1.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn grad(&self) -> Option<Tensor> {
        match (self.leaf(), self.kept().get()) {
            (Some(leaf), _) => lock(&leaf.grad).as_ref().map(Tensor::alias),
            (None, kept) => lock(kept?).as_ref().map(Tensor::alias),
        }
    }
    /// Puts a gradient there, or takes it away.
    ///
    /// # Panics
    /// When it is no leaf that requires grad, or the gradient has another shape.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2).requires_grad_();
    /// x.set_grad(Some(tensor!([3., 4.])));
    /// assert_eq!(x.grad().expect("of x").to_vec::<f32>()?, [3., 4.]);
    /// x.set_grad(None);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn set_grad(&self, grad: Option<Tensor>) {
        self.try_set_grad(grad).or_panic();
    }
    fn try_set_grad(&self, grad: Option<Tensor>) -> Result<()> {
        let Some(leaf) = self.leaf() else {
            return Err(Error::new(Kind::Autograd, "set_grad: this tensor is no leaf that requires grad"));
        };
        if let Some(g) = &grad
            && g.shape() != self.shape()
        {
            let what = format!("set_grad: the tensor has shape {:?}, the gradient {:?}", self.shape(), g.shape());
            return Err(Error::new(Kind::Shape, what));
        }
        // A gradient is a tensor of its own: it is added to in place.
        let own = grad.map(|g| if g.view_map().is_whole() { g } else { g.clone() });
        let old = std::mem::replace(&mut *lock(&leaf.grad), own);
        drop(old);
        Ok(())
    }
    pub(crate) fn kept_grad(&self) -> &KeptGrad {
        self.kept().get_or_init(Arc::default)
    }
    fn kept(&self) -> &OnceLock<KeptGrad> {
        match &self.0 {
            Shown::Whole(root) => &root.kept_grad,
            Shown::View(handle) => &handle.kept_grad,
        }
    }
}
