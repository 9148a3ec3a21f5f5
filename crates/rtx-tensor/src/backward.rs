//! The backward pass: records are walked from the newest to the oldest, and each emits its gradient as ordinary nodes.
use crate::{
    Location, Result, Tensor, engine,
    failure::OrPanic,
    frame,
    tape::{
        After, CustomRule, Edge, Hook, Leaf, OpRule, Payload, Record, Rule, Saved, Trace, Traced, lock, next_id,
        with_taping,
    },
};
use rtx_core::{Error, Kind, Shape};
use rtx_ir::{Type, ValueId};
use smallvec::SmallVec;
use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Arc, Weak},
};

/// How a walk goes.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// Are the gradients themselves on the tape?
    pub create_graph: bool,
    /// Are the records kept for another walk?
    pub retain_graph: bool,
    /// Who asked.
    pub at: Location,
}

/// What a walk found.
pub(crate) struct Walk {
    options: Options,
    /// Records that wait for all of their cotangents, by sequence: readers come before makers.
    waiting: BTreeMap<u64, Waiting>,
    /// Cotangents of leaves.
    leaves: BTreeMap<u64, (Arc<Leaf>, Traced)>,
    /// Cotangents of outputs of records that were asked for.
    wanted: Vec<(Edge, Option<Traced>)>,
    /// Nothing made before this is on the way to what was asked for.
    floor: u64,
    walked: Vec<Arc<Record>>,
}

struct Waiting {
    record: Arc<Record>,
    cotangents: SmallVec<[Option<Traced>; 1]>,
}

impl Walk {
    /// Walks what the roots depend on, all of it or what leads to the edges that are wanted. Nothing is changed but the
    /// region: neither `.grad` nor a record.
    pub fn run(roots: Vec<(Edge, Traced)>, wanted: &[Edge], options: Options) -> Result<Walk> {
        let floor = wanted.iter().map(Edge::sequence).min().unwrap_or(0);
        let wanted = wanted.iter().map(|e| (e.clone(), None)).collect();
        let (waiting, leaves) = (BTreeMap::new(), BTreeMap::new());
        let mut walk = Walk { options, waiting, leaves, wanted, floor, walked: Vec::new() };
        roots.into_iter().try_for_each(|(root, cotangent)| walk.arrive(&root, cotangent))?;
        while let Some((_, next)) = walk.waiting.pop_last() {
            walk.step(next)?;
        }
        walk.run_leaf_hooks()?;
        Ok(walk)
    }

    /// The cotangent that reached an edge that was asked for.
    pub fn found(&self, i: usize) -> Option<Traced> {
        match &self.wanted[i] {
            (Edge::Leaf(leaf), _) => self.leaves.get(&leaf.id).map(|(_, t)| t.clone()),
            (Edge::Node(..), t) => t.clone(),
        }
    }

    /// Leaves every leaf its gradient.
    pub fn commit_grads(&mut self) -> Result<()> {
        let taping = self.options.create_graph;
        let mut ready = Vec::new();
        for (leaf, grad) in std::mem::take(&mut self.leaves).into_values() {
            let old = lock(&leaf.grad).as_ref().map(Tensor::alias);
            let sum = match &old {
                Some(old) => add(&with_taping(taping, || old.traced())?, &grad, self.options)?,
                None => grad,
            };
            ready.push((leaf, old, sum));
        }
        let mut after: Vec<After> = Vec::new();
        for (leaf, old, sum) in ready {
            match old {
                Some(old) if !taping && !old.requires_grad() => old.replace_value(sum),
                _ => *lock(&leaf.grad) = Some(Tensor::from_traced(sum)),
            }
            after.extend(lock(&leaf.after).iter().map(|(_, f)| f.clone()));
        }
        after.iter().for_each(|f| f());
        Ok(())
    }

    /// Lets go of what the records kept, unless they are to be walked again.
    pub fn use_up(self) {
        if !self.options.retain_graph && !self.options.create_graph {
            self.walked.iter().for_each(|r| r.use_up(self.options.at));
        }
    }

    /// A cotangent reaches an edge.
    fn arrive(&mut self, edge: &Edge, cotangent: Traced) -> Result<()> {
        match edge {
            Edge::Leaf(leaf) => {
                let is_wanted = self.wanted.iter().any(|(e, _)| e.same(edge));
                if !is_wanted && (leaf.is_variable || !self.wanted.is_empty()) {
                    return Ok(());
                }
                let sum = match self.leaves.remove(&leaf.id) {
                    Some((_, before)) => add(&before, &cotangent, self.options)?,
                    None => cotangent,
                };
                self.leaves.insert(leaf.id, (leaf.clone(), sum));
            }
            Edge::Node(record, _) if record.sequence < self.floor => {}
            Edge::Node(record, i) => {
                let entry = self.waiting.entry(record.sequence).or_insert_with(|| Waiting {
                    record: record.clone(),
                    cotangents: record.types.iter().map(|_| None).collect(),
                });
                let slot = &mut entry.cotangents[*i as usize];
                *slot = Some(match slot.take() {
                    Some(before) => add(&before, &cotangent, self.options)?,
                    None => cotangent,
                });
            }
        }
        Ok(())
    }

    /// All cotangents of a record are there: its operands get theirs.
    fn step(&mut self, mut at: Waiting) -> Result<()> {
        run_hooks(&mut at, self.options)?;
        for (edge, found) in &mut self.wanted {
            if let Edge::Node(record, i) = edge
                && Arc::ptr_eq(record, &at.record)
            {
                *found = at.cotangents[*i as usize].clone();
            }
        }
        if !self.wanted.is_empty() && at.record.sequence == self.floor {
            // The oldest that was asked for: what is before it leads nowhere.
            return Ok(());
        }
        let payload = at.record.payload().map_err(|used| used_up(&at.record, used))?;
        let grads = match &payload.rule {
            Rule::Op(rule) => op_gradients(&at, &payload, rule, self.options)?,
            Rule::Identity => std::iter::once(at.cotangents[0].clone()).collect(),
            Rule::Again(again) => {
                again.record(self.options.at)?;
                std::iter::once(at.cotangents[0].clone()).collect()
            }
            Rule::Custom(rule) => custom_gradients(&at, &payload, &**rule, self.options)?,
            Rule::Gone => return Err(Error::new(Kind::Internal, "backward: a record lost its rule")),
        };
        if is_watched() {
            find_nan(&at.record, &grads)?;
        }
        self.walked.push(at.record);
        for (edge, grad) in payload.edges.iter().zip(grads) {
            if let (Some(edge), Some(grad)) = (edge, grad) {
                self.arrive(edge, grad)?;
            }
        }
        Ok(())
    }

    fn run_leaf_hooks(&mut self) -> Result<()> {
        for (leaf, grad) in self.leaves.values_mut() {
            let hooks: Vec<(u64, Hook)> = lock(&leaf.hooks).clone();
            for (_, hook) in hooks {
                *grad = call_hook(&hook, grad, self.options)?;
            }
        }
        Ok(())
    }
}

fn used_up(record: &Record, used: Location) -> Error {
    let what = format!("backward: the record of {} was used up by the backward pass at {used}", record.name);
    Error::new(Kind::Autograd, what)
        .hint("keep the records for a second pass: retain_graph() on the first one")
        .recorded_at(record.location)
}

fn run_hooks(at: &mut Waiting, options: Options) -> Result<()> {
    let hooks: Vec<(u32, u64, Hook)> = lock(&at.record.hooks).clone();
    for (i, _, hook) in hooks {
        if let Some(grad) = &mut at.cotangents[i as usize] {
            *grad = call_hook(&hook, grad, options)?;
        }
    }
    Ok(())
}
/// The user's code: no lock is held, nothing is being recorded (contract A5).
fn call_hook(hook: &Hook, grad: &Traced, options: Options) -> Result<Traced> {
    let before = Tensor::from_traced(grad.clone());
    let after = with_taping(options.create_graph, || hook(&before));
    match after {
        None => Ok(grad.clone()),
        Some(t) if t.shape() == before.shape() && t.dtype() == before.dtype() => t.traced(),
        Some(t) => {
            Err(Error::new(Kind::Autograd, format!("hook: the gradient is {}, the hook gave {}", before.ty(), t.ty())))
        }
    }
}

fn add(a: &Traced, b: &Traced, options: Options) -> Result<Traced> {
    engine::record_where([&a.value, &b.value], options.at, |r| {
        let mut trace = Trace::new(r, options.create_graph);
        let (a, b) = (trace.import(a)?, trace.import(b)?);
        let sum = trace.recorder.builder().add_cotangents(a, b)?;
        trace.export(sum)
    })
}

type Cotangents = SmallVec<[Option<Traced>; 4]>;

fn op_gradients(at: &Waiting, payload: &Payload, rule: &OpRule, options: Options) -> Result<Cotangents> {
    let record = &at.record;
    let given = at.cotangents.iter().flatten().map(|t| &t.value);
    engine::record_where(given, record.location, |r| {
        let mut trace = Trace::new(r, options.create_graph);
        let mut ids: SmallVec<[ValueId; 4]> = SmallVec::new();
        for (saved, edge) in rule.inputs.iter().zip(&payload.edges) {
            ids.push(restore(&mut trace, saved, edge.clone(), record.location)?);
        }
        let mut outs: SmallVec<[ValueId; 1]> = SmallVec::new();
        for (i, saved) in rule.outputs.iter().enumerate() {
            let edge = Edge::Node(record.clone(), i as u32);
            outs.push(restore(&mut trace, saved, Some(edge), record.location)?);
        }
        let mut cotangents: SmallVec<[Option<ValueId>; 1]> = SmallVec::new();
        for c in &at.cotangents {
            cotangents.push(c.as_ref().map(|t| trace.import(t)).transpose()?);
        }
        let wants: SmallVec<[bool; 4]> = payload.edges.iter().map(Option::is_some).collect();
        let mut b = trace.recorder.builder();
        let grads = rtx_autograd::node_gradient(&mut b, &rule.op, &ids, &outs, &cotangents, &wants)?;
        grads.into_iter().map(|g| g.map(|v| trace.export(v)).transpose()).collect()
    })
}

/// A saved value back in the region; a ghost where the rule reads none (contract A1).
fn restore(trace: &mut Trace<'_, '_>, saved: &Saved, edge: Option<Edge>, at: Location) -> Result<ValueId> {
    match saved {
        Saved::Value(value) => trace.import(&Traced { value: value.clone(), edge }),
        Saved::Type(ty) => Ok(trace.recorder.builder().graph_mut().push_ghost(ty.clone(), at)),
    }
}

fn custom_gradients(at: &Waiting, payload: &Payload, rule: &dyn CustomRule, options: Options) -> Result<Cotangents> {
    let Some(cotangent) = at.cotangents[0].clone() else { return Ok(payload.edges.iter().map(|_| None).collect()) };
    let cotangent = Tensor::from_traced(cotangent);
    let grads = with_taping(options.create_graph, || rule.gradients(&cotangent));
    grads.into_iter().map(|g| g.map(|t| t.traced()).transpose()).collect()
}

/// Ones for a result of one element.
fn seed(out: &Tensor, gradient: Option<&Tensor>, at: Location) -> Result<Traced> {
    if let Some(g) = gradient {
        if g.shape() != out.shape() {
            let what = format!("backward: the tensor has shape {:?}, the gradient {:?}", out.shape(), g.shape());
            return Err(Error::new(Kind::Autograd, what));
        }
        return if g.dtype() == out.dtype() { g.traced() } else { g.to(out.dtype()).traced() };
    }
    if out.numel() != 1 {
        let what = format!("backward: needs one element, shape is {:?}", out.shape());
        return Err(Error::new(Kind::Autograd, what).hint("call .sum(..) or .mean(..) first, or give a gradient"));
    }
    let Type { dtype, shape } = out.ty();
    let there = out.traced()?.value;
    engine::record_where([&there], at, |r| {
        let one = r.builder().full(dtype, &Shape::scalar(), 1.0)?;
        let one = r.builder().expand(one, &shape)?;
        Ok(Traced { value: r.export(one), edge: None })
    })
}

/// Walks from `out`; `wanted` are the edges whose cotangents are asked for.
pub(crate) fn walk(out: &Tensor, gradient: Option<&Tensor>, wanted: &[Edge], options: Options) -> Result<Walk> {
    let Some(edge) = out.traced()?.edge else {
        return Err(Error::new(Kind::Autograd, "backward: this tensor does not depend on any that requires grad")
            .hint("was it computed inside no_grad, or from detached tensors?"));
    };
    let cotangent = seed(out, gradient, options.at)?;
    Walk::run(vec![(edge, cotangent)], wanted, options)
}

impl Tensor {
    /// Gradients of this one number with respect to every leaf that requires grad, added to their `.grad()`. Uses up
    /// the records on the way.
    ///
    /// # Panics
    /// When it has more than one element, depends on nothing that requires grad, or an earlier pass used the records
    /// up; the message says at which line.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = tensor!([1., 2.]).requires_grad_();
    /// (&x * &x).sum(..).backward();
    /// assert_eq!(x.grad().expect("of x").to_vec::<f32>()?, [2., 4.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn backward(&self) {
        self.backward_with(Backward::default());
    }
    /// The same with options.
    ///
    /// # Panics
    /// As [`Tensor::backward`].
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = tensor!([1., 2.]).requires_grad_();
    /// let seed = tensor!([1., 10.]);
    /// (&x * &x).backward_with(torch::Backward { gradient: Some(&seed), ..Default::default() });
    /// assert_eq!(x.grad().expect("of x").to_vec::<f32>()?, [2., 40.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn backward_with(&self, options: Backward<'_>) {
        self.try_backward_with(options).or_panic();
    }
    #[track_caller]
    pub(crate) fn try_backward_with(&self, o: Backward<'_>) -> Result<()> {
        frame::refuse_inside("backward", "ask for gradients as values: grad(&y, [&x])")?;
        let options = Options { create_graph: o.create_graph, retain_graph: o.retain_graph, at: Location::caller() };
        let mut walk = walk(self, o.gradient, &[], options)?;
        walk.commit_grads()?;
        walk.use_up();
        Ok(())
    }

    /// Calls `hook` with every gradient that reaches this tensor; what it returns takes its place. The handle removes it.
    ///
    /// # Panics
    /// When it does not require grad.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = tensor!(2.).requires_grad_();
    /// let hook = x.register_hook(|g| Some(g * 10.));
    /// (&x * 3.).backward();
    /// assert_eq!(x.grad().expect("of x").item::<f32>()?, 30.);
    /// hook.remove();
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn register_hook(&self, hook: impl Fn(&Tensor) -> Option<Tensor> + Send + Sync + 'static) -> RemovableHook {
        self.add_hook(Arc::new(hook)).or_panic()
    }
    #[track_caller]
    fn add_hook(&self, hook: Hook) -> Result<RemovableHook> {
        frame::note_custom("hook");
        let number = next_id();
        let place = match self.traced()?.edge {
            Some(Edge::Leaf(leaf)) => {
                lock(&leaf.hooks).push((number, hook));
                Place::Leaf(Arc::downgrade(&leaf))
            }
            Some(Edge::Node(record, i)) => {
                lock(&record.hooks).push((i, number, hook));
                Place::Record(Arc::downgrade(&record))
            }
            None => return Err(Error::new(Kind::Autograd, "register_hook: this tensor does not require grad")),
        };
        Ok(RemovableHook { place, number })
    }
    /// Calls `hook` with this leaf every time that `backward()` has left a gradient in it.
    ///
    /// # Panics
    /// When it is no leaf that requires grad.
    #[track_caller]
    pub fn register_post_accumulate_grad_hook(&self, hook: impl Fn(&Tensor) + Send + Sync + 'static) -> RemovableHook {
        let none = || {
            let what = "register_post_accumulate_grad_hook: this tensor is no leaf that requires grad";
            Error::new(Kind::Autograd, what)
        };
        let leaf = self.leaf().ok_or_else(none).or_panic();
        let (number, cell) = (next_id(), self.downgrade());
        let call = move || {
            if let Some(tensor) = cell() {
                hook(&tensor);
            }
        };
        lock(&leaf.after).push((number, Arc::new(call)));
        RemovableHook { place: Place::Leaf(Arc::downgrade(&leaf)), number }
    }
    /// Keeps the gradient of a tensor that is no leaf in its `.grad()`.
    ///
    /// # Panics
    /// When it does not require grad.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = tensor!(2.).requires_grad_();
    /// let y = &x * 3.;
    /// y.retain_grad();
    /// (&y * 4.).backward();
    /// assert_eq!(y.grad().expect("of y").item::<f32>()?, 4.);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn retain_grad(&self) {
        if self.leaf().is_some() {
            return;
        }
        let kept = Arc::downgrade(self.kept_grad());
        self.register_hook(move |g| {
            if let Some(kept) = kept.upgrade() {
                *lock(&kept) = Some(g.clone());
            }
            None
        });
    }
}

/// Options of [`Tensor::backward_with`]; the defaults are PyTorch's.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = tensor!([1., 2.]).requires_grad_();
/// let seed = tensor!([1., 10.]);
/// (&x * &x).backward_with(torch::Backward { gradient: Some(&seed), ..Default::default() });
/// assert_eq!(x.grad().expect("of x").to_vec::<f32>()?, [2., 40.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Backward<'a> {
    /// The cotangent of the result; 1 where it is left out and the result is one number.
    pub gradient: Option<&'a Tensor>,
    /// Keep the records for another pass.
    pub retain_graph: bool,
    /// Record the gradients too, so that they can be differentiated. Keeps the records.
    pub create_graph: bool,
}

/// A hook that can be taken away. Dropping this leaves the hook where it is.
#[derive(Clone)]
pub struct RemovableHook {
    place: Place,
    number: u64,
}
#[derive(Clone)]
enum Place {
    Leaf(Weak<Leaf>),
    Record(Weak<Record>),
}
impl RemovableHook {
    /// Takes it away; again, and nothing happens.
    pub fn remove(&self) {
        match &self.place {
            Place::Leaf(leaf) => {
                if let Some(leaf) = leaf.upgrade() {
                    lock(&leaf.hooks).retain(|h| h.0 != self.number);
                    lock(&leaf.after).retain(|h| h.0 != self.number);
                }
            }
            Place::Record(record) => {
                if let Some(record) = record.upgrade() {
                    lock(&record.hooks).retain(|h| h.1 != self.number);
                }
            }
        }
    }
}
impl std::fmt::Debug for RemovableHook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemovableHook({})", self.number)
    }
}

thread_local! { static WATCHED: Cell<bool> = const { Cell::new(false) } }

fn is_watched() -> bool {
    WATCHED.get()
}

/// `torch.autograd.detect_anomaly`: a backward pass inside looks at every gradient as it is made, and stops with the op
/// and its line where one is NaN. Slow: every op's gradient is read.
pub fn detect_anomaly<T>(f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            WATCHED.set(self.0);
        }
    }
    let _restore = Restore(WATCHED.replace(true));
    f()
}

fn find_nan(record: &Record, grads: &[Option<Traced>]) -> Result<()> {
    for (i, g) in grads.iter().enumerate() {
        let Some(g) = g else { continue };
        let g = Tensor::from_traced(Traced { value: g.value.clone(), edge: None });
        if g.ne(&g).any(..).item()? {
            let what = format!("backward: the gradient of {} in operand {i} is NaN", record.name);
            return Err(Error::new(Kind::Autograd, what).recorded_at(record.location));
        }
    }
    Ok(())
}
