//! The tape: one record for each node whose operands want a gradient, made as the node is recorded (contract A1).
use crate::{
    Tensor,
    checkpoint::Again,
    engine::{Recorder, Value},
    frame,
};
use rtx_core::{IdMap, Location, Result};
use rtx_ir::{Grad, NodeId, Op, Prim, Type, ValueId};
use smallvec::SmallVec;
use std::{
    cell::{Cell, RefCell},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// A lock whose holder panicked is still good: no invariant spans two statements under one.
pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value and where its gradient goes.
#[derive(Clone)]
pub(crate) struct Traced {
    pub value: Value,
    pub edge: Option<Edge>,
}

/// Where a gradient goes.
#[derive(Clone)]
pub(crate) enum Edge {
    /// To a tensor that the user marked.
    Leaf(Arc<Leaf>),
    /// To an output of a record.
    Node(Arc<Record>, u32),
}

impl Edge {
    /// A number that no other edge has.
    pub fn key(&self) -> (usize, u32) {
        match self {
            Edge::Leaf(leaf) => (Arc::as_ptr(leaf) as usize, u32::MAX),
            Edge::Node(record, i) => (Arc::as_ptr(record) as usize, *i),
        }
    }
    /// When what it leads to was made.
    pub fn sequence(&self) -> u64 {
        match self {
            Edge::Leaf(leaf) => leaf.id,
            Edge::Node(record, _) => record.sequence,
        }
    }
    pub fn same(&self, other: &Edge) -> bool {
        match (self, other) {
            (Edge::Leaf(a), Edge::Leaf(b)) => Arc::ptr_eq(a, b),
            (Edge::Node(a, i), Edge::Node(b, j)) => Arc::ptr_eq(a, b) && i == j,
            (Edge::Leaf(_), Edge::Node(..)) | (Edge::Node(..), Edge::Leaf(_)) => false,
        }
    }
}

/// What a hook does with a gradient: looks at it, or replaces it.
pub(crate) type Hook = Arc<dyn Fn(&Tensor) -> Option<Tensor> + Send + Sync>;

/// The end of a gradient's way: a tensor marked by `requires_grad_`.
pub(crate) struct Leaf {
    pub id: u64,
    /// The variable of a transformation: `backward()` leaves nothing there.
    pub is_variable: bool,
    pub grad: Mutex<Option<Tensor>>,
    /// By number.
    pub hooks: Mutex<Vec<(u64, Hook)>>,
    /// Called when `.grad` has been left.
    pub after: Mutex<Vec<(u64, After)>>,
}
/// What is called when a gradient has been left in a leaf.
pub(crate) type After = Arc<dyn Fn() + Send + Sync>;

/// What is remembered of one node: contract A1's unit of saving.
pub(crate) struct Record {
    /// Rises as records are made, so every reader of an output has a larger one than its maker.
    pub sequence: u64,
    pub name: &'static str,
    pub location: Location,
    /// Output types.
    pub types: SmallVec<[Type; 1]>,
    /// By output and number.
    pub hooks: Mutex<Vec<(u32, u64, Hook)>>,
    state: Mutex<State>,
}

enum State {
    Live(Arc<Payload>),
    /// By the backward pass at this line.
    Used(Location),
}

/// What a gradient needs, until it is used up.
pub(crate) struct Payload {
    /// One for each operand.
    pub edges: SmallVec<[Option<Edge>; 4]>,
    pub rule: Rule,
}

pub(crate) enum Rule {
    /// The rule of the op's definition.
    Op(Box<OpRule>),
    /// A rule of the user's own.
    Custom(Box<dyn CustomRule>),
    /// The cotangent itself: a clone's.
    Identity,
    /// The same, once what was computed inside has been recorded again.
    Again(Arc<Again>),
    /// Already buried.
    Gone,
}

/// A node, and what its op's gradient reads of it.
pub(crate) struct OpRule {
    pub op: Op,
    pub inputs: Vec<Saved>,
    pub outputs: Vec<Saved>,
}

/// The backward half of a [`crate::autograd::Function`].
pub(crate) trait CustomRule: Send + Sync {
    fn gradients(&self, cotangent: &Tensor) -> Vec<Option<Tensor>>;
}

/// A value that a rule reads, or the type of one that it does not.
pub(crate) enum Saved {
    Value(Value),
    Type(Type),
}

static NEXT: AtomicU64 = AtomicU64::new(0);
pub(crate) fn next_id() -> u64 {
    NEXT.fetch_add(1, Relaxed)
}

impl Leaf {
    pub fn new() -> Arc<Self> {
        Self::with(false)
    }
    /// The variable of a transformation.
    pub fn variable() -> Arc<Self> {
        Self::with(true)
    }
    fn with(is_variable: bool) -> Arc<Self> {
        let (grad, hooks, after) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Self { id: next_id(), is_variable, grad, hooks, after })
    }
}

impl Record {
    pub fn new(name: &'static str, location: Location, types: SmallVec<[Type; 1]>, payload: Payload) -> Arc<Self> {
        let state = Mutex::new(State::Live(Arc::new(payload)));
        Arc::new(Self { sequence: next_id(), name, location, types, hooks: Mutex::new(Vec::new()), state })
    }
    /// What the gradient needs; the line that used it up if it is gone.
    pub fn payload(&self) -> Result<Arc<Payload>, Location> {
        match &*lock(&self.state) {
            State::Live(p) => Ok(p.clone()),
            State::Used(at) => Err(*at),
        }
    }
    /// Lets go of everything that it kept.
    pub fn use_up(&self, at: Location) {
        let old = mem::replace(&mut *lock(&self.state), State::Used(at));
        drop(old);
    }
}

type Remains = (SmallVec<[Option<Edge>; 4]>, Rule);
thread_local! { static GRAVES: RefCell<Option<Vec<Remains>>> = const { RefCell::new(None) } }

/// A chain of records is dropped by a loop, however long it is (contract A3): what is found inside one while it is
/// dropped is laid beside it, not dropped inside the drop.
impl Drop for Payload {
    fn drop(&mut self) {
        let remains = (mem::take(&mut self.edges), mem::replace(&mut self.rule, Rule::Gone));
        let outermost = GRAVES.try_with(|g| match &mut *g.borrow_mut() {
            Some(open) => {
                open.push(remains);
                false
            }
            closed => {
                *closed = Some(vec![remains]);
                true
            }
        });
        while let Ok(true) = outermost {
            let next = GRAVES.with_borrow_mut(|g| {
                let next = g.as_mut().and_then(Vec::pop);
                if next.is_none() {
                    *g = None;
                }
                next
            });
            if next.is_none() {
                return;
            }
        }
    }
}

thread_local! { static TAPING: Cell<bool> = const { Cell::new(true) } }

/// Does this thread record what gradients need?
pub(crate) fn is_taping() -> bool {
    TAPING.get()
}
/// Runs `f` with the tape on or off, and puts it back, on unwinding too.
pub(crate) fn with_taping<T>(on: bool, f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            TAPING.set(self.0);
        }
    }
    let _restore = Restore(TAPING.replace(on));
    f()
}

/// One stretch of recording: knows which values want gradients, and makes the records of the nodes appended.
pub(crate) struct Trace<'r, 'g> {
    pub recorder: &'r mut Recorder<'g>,
    taping: bool,
    /// Values that want a gradient.
    edges: IdMap<ValueId, Edge>,
    /// Imported values that want none.
    constants: SmallVec<[ValueId; 4]>,
    /// Nodes up to here have their records.
    seen: usize,
}

impl<'r, 'g> Trace<'r, 'g> {
    pub fn new(recorder: &'r mut Recorder<'g>, taping: bool) -> Self {
        let seen = recorder.builder().graph().nodes().len();
        frame::mark(seen, taping);
        Self { recorder, taping, edges: IdMap::default(), constants: SmallVec::new(), seen }
    }

    /// The value in this region. Two tensors may hold one value and differ in where their gradients go (`x` and
    /// `x.detach()`): the second then passes through a reshape to its own shape, which costs nothing.
    pub fn import(&mut self, t: &Traced) -> Result<ValueId> {
        let mut v = match self.import_into_batch(t)? {
            Some(v) => v,
            None => self.recorder.import(&t.value),
        };
        if !self.taping {
            return Ok(v);
        }
        let other = match (self.edges.get(&v), &t.edge) {
            (None, Some(_)) => self.constants.contains(&v),
            (Some(a), Some(b)) => !a.same(b),
            (Some(_), None) => true,
            (None, None) => false,
        };
        if other {
            self.record_new_nodes()?;
            let mut b = self.recorder.builder();
            let shape = b.shape(v);
            v = b.prim(Prim::Reshape(shape), &[v])?;
            self.seen = b.graph().nodes().len();
        }
        match &t.edge {
            Some(edge) => drop(self.edges.insert(v, edge.clone())),
            None => self.constants.push(v),
        }
        Ok(v)
    }

    /// Inside a frame for a batch, see [`frame::import`].
    fn import_into_batch(&mut self, t: &Traced) -> Result<Option<ValueId>> {
        if frame::purpose() != Some(frame::Purpose::Batch) {
            return Ok(None);
        }
        self.record_new_nodes()?;
        let v = frame::import(self.recorder, t, self.taping).transpose()?;
        self.seen = self.recorder.builder().graph().nodes().len();
        Ok(v)
    }

    /// No records are made of the nodes appended since the last time.
    pub(crate) fn forget_new_nodes(&mut self) {
        self.seen = self.recorder.builder().graph().nodes().len();
        frame::mark(self.seen, self.taping);
    }

    /// The value, and where its gradient goes.
    pub fn export(&mut self, v: ValueId) -> Result<Traced> {
        self.record_new_nodes()?;
        let edge = self.edges.get(&v).cloned();
        Ok(Traced { value: self.recorder.export(v), edge })
    }

    /// Makes the records of the nodes appended since the last time.
    pub(crate) fn record_new_nodes(&mut self) -> Result<()> {
        let end = self.recorder.builder().graph().nodes().len();
        if !self.edges.is_empty() {
            (self.seen..end).try_for_each(|n| self.record_node(NodeId(n as u32)))?;
        }
        self.seen = end;
        Ok(())
    }

    fn record_node(&mut self, id: NodeId) -> Result<()> {
        let b = self.recorder.builder();
        let node = b.graph().node(id).clone();
        let edges: SmallVec<[Option<Edge>; 4]> = node.inputs.iter().map(|v| self.edges.get(v).cloned()).collect();
        let Some(def) = node.op.def().filter(|d| !matches!(d.grad, Grad::None)) else { return Ok(()) };
        if edges.iter().all(Option::is_none) {
            return Ok(());
        }
        let types: SmallVec<[Type; 1]> = node.outs().map(|v| b.ty(v).clone()).collect();
        if types.iter().all(|t| !t.dtype.is_differentiable()) {
            return Ok(());
        }
        let mut saved = |v: ValueId, read: bool| -> Result<Saved> {
            Ok(if read {
                Saved::Value(self.recorder.export(v))
            } else {
                Saved::Type(self.recorder.builder().ty(v).clone())
            })
        };
        let inputs =
            node.inputs.iter().enumerate().map(|(i, &v)| saved(v, def.saves.input(i))).collect::<Result<_>>()?;
        let outputs = node.outs().enumerate().map(|(i, v)| saved(v, def.saves.output(i))).collect::<Result<_>>()?;
        let floats: SmallVec<[bool; 4]> = types.iter().map(|t| t.dtype.is_differentiable()).collect();
        let rule = Rule::Op(Box::new(OpRule { op: node.op.clone(), inputs, outputs }));
        let record = Record::new(node.op.name(), node.location, types, Payload { edges, rule });
        for (i, v) in node.outs().enumerate().filter(|(i, _)| floats[*i]) {
            self.edges.insert(v, Edge::Node(record.clone(), i as u32));
            frame::note_differentiable(v);
        }
        Ok(())
    }
}
