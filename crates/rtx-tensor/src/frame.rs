//! Frames over tensors: what is recorded inside becomes a program of its own, which `checkpoint` and `vmap` record
//! again in their own ways.
use crate::{
    Location, Result, engine,
    engine::Value,
    tape::{Edge, Trace, Traced},
    tensor::Root,
};
use rtx_core::{Error, Kind};
use rtx_ir::{Graph, NodeId, Prim, Type, ValueId};
use rtx_runtime::{Frame, Program, Recorder};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    mem,
    sync::{Arc, Weak},
};

/// What a frame's program is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be recorded again when its gradient is wanted; the records made inside say what the gradient is.
    Checkpoint,
    /// To be recorded for many examples; the gradient is that of what is recorded then, so what the records made inside
    /// would say beside the graph (`detach`, `no_grad`) is noted with the nodes.
    Batch,
}

impl Purpose {
    fn name(self) -> &'static str {
        match self {
            Purpose::Checkpoint => "checkpoint",
            Purpose::Batch => "vmap",
        }
    }
}

struct Open {
    purpose: Purpose,
    frame: Frame,
    notes: Notes,
    written: Written,
}

/// What is known of a batch's program beside its graph.
#[derive(Default)]
pub(crate) struct Notes {
    /// Values from outside with their edges.
    pub captured: Vec<(ValueId, Traced)>,
    /// Where they are in that list, by address and edge.
    known: HashMap<(usize, (usize, u32)), ValueId>,
    /// Values through which a gradient flows.
    differentiable: HashSet<ValueId>,
    /// From which node on gradients flow or not.
    marks: Vec<(usize, bool)>,
    /// A rule of the user's own that was met.
    pub custom: Option<String>,
}

impl Notes {
    fn mark(&mut self, from: usize, flows: bool) {
        if self.marks.last().is_none_or(|m| m.1) != flows {
            self.marks.push((from, flows));
        }
    }
    /// Does a gradient flow through this node?
    pub fn flows(&self, node: NodeId) -> bool {
        let after = self.marks.partition_point(|m| m.0 <= node.index());
        after == 0 || self.marks[after - 1].1
    }
}

/// A cell from outside that was written inside.
pub(crate) struct Changed {
    cell: usize,
    /// What it holds.
    pub now: Traced,
    is_rerouted: bool,
}

/// Cells from outside that were written inside, with what they held before. Puts that back where it is not told what
/// they hold instead, on unwinding too.
#[derive(Default)]
pub(crate) struct Written(Vec<(Weak<Root>, Traced)>);

impl Written {
    /// The cells that somebody still holds, with what they hold now; without the edge where that is as it was.
    pub fn now(&self) -> Vec<Changed> {
        let now = |(cell, (root, old)): (usize, &(Weak<Root>, Traced))| {
            let Traced { value, edge } = root.upgrade()?.contents().0;
            let is_rerouted = match (&edge, &old.edge) {
                (Some(a), Some(b)) => !a.same(b),
                (a, b) => a.is_some() != b.is_some(),
            };
            Some(Changed { cell, now: Traced { value, edge: edge.filter(|_| is_rerouted) }, is_rerouted })
        };
        self.0.iter().enumerate().filter_map(now).collect()
    }
    /// From now on they hold these.
    pub fn replace(mut self, changed: &[Changed], with: Vec<Traced>) {
        let cells = mem::take(&mut self.0);
        cells
            .iter()
            .filter_map(|(root, old)| Some((root.upgrade()?, old)))
            .for_each(|(root, old)| root.restore(old.clone()));
        for (c, value) in changed.iter().zip(with) {
            if let Some(root) = cells[c.cell].0.upgrade() {
                root.set(value, c.is_rerouted);
            }
        }
    }
}
impl Drop for Written {
    fn drop(&mut self) {
        for (root, before) in mem::take(&mut self.0) {
            if let Some(root) = root.upgrade() {
                root.restore(before);
            }
        }
    }
}

thread_local! { static FRAMES: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) } }

fn innermost<T>(f: impl FnOnce(&mut Open) -> T) -> Option<T> {
    FRAMES.with_borrow_mut(|all| all.last_mut().map(f))
}

/// What the innermost frame is for; `None` outside all.
pub(crate) fn purpose() -> Option<Purpose> {
    innermost(|open| open.purpose)
}

/// Refuses what has no meaning inside a frame.
pub(crate) fn refuse_inside(what: &str, hint: &str) -> Result<()> {
    match purpose() {
        None => Ok(()),
        Some(p) => Err(Error::new(Kind::Autograd, format!("{what}: not inside {}", p.name())).hint(hint.to_string())),
    }
}

/// What was recorded in a frame.
pub(crate) struct Recorded<T> {
    /// What the closure returned.
    pub result: T,
    pub program: Program,
    pub notes: Notes,
    pub written: Written,
}

/// Runs `f` in a frame. It is given what stands for values of these types.
pub(crate) fn within<T>(
    purpose: Purpose,
    types: &[(Type, Option<Edge>)],
    f: impl FnOnce(Vec<Traced>) -> Result<T>,
) -> Result<Recorded<T>> {
    /// Takes the frame away, on unwinding too.
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            if self.0 {
                let open = FRAMES.with_borrow_mut(Vec::pop);
                drop(open);
            }
        }
    }
    let frame = Frame::enter(&engine::executor(), purpose.name());
    let mut notes = Notes::default();
    let mut given = Vec::new();
    for (ty, edge) in types {
        let value = frame.placeholder(ty.clone(), Location::caller());
        if let (Some(id), Some(_)) = (frame.id(&value), edge) {
            notes.differentiable.insert(id);
        }
        given.push(Traced { value, edge: edge.clone() });
    }
    FRAMES.with_borrow_mut(|all| all.push(Open { purpose, frame, notes, written: Written::default() }));
    let mut leave = Leave(true);
    let result = f(given)?;
    leave.0 = false;
    let open = FRAMES.with_borrow_mut(Vec::pop);
    let Some(Open { frame, notes, written, .. }) = open else {
        return Err(Error::new(Kind::Internal, "a frame was left twice"));
    };
    Ok(Recorded { result, program: frame.leave(), notes, written })
}

/// Runs `f` as if the frames for batches, from the innermost on, were not there.
pub(crate) fn outside_batches<T>(f: impl FnOnce() -> T) -> T {
    struct Back(Vec<Open>);
    impl Drop for Back {
        fn drop(&mut self) {
            let back = mem::take(&mut self.0);
            back.iter().rev().for_each(|open| open.frame.resume());
            FRAMES.with_borrow_mut(|all| all.extend(back.into_iter().rev()));
        }
    }
    let mut back = Back(Vec::new());
    while purpose() == Some(Purpose::Batch) {
        back.0.extend(FRAMES.with_borrow_mut(Vec::pop));
        back.0.last().iter().for_each(|open| open.frame.suspend());
    }
    f()
}

/// Importing into a frame for a batch: what comes from outside keeps its edge, and a value whose gradient was cut is
/// cut in the graph too. `None` in other places.
pub(crate) fn import(recorder: &mut Recorder<'_>, t: &Traced, taping: bool) -> Option<Result<ValueId>> {
    innermost(|open| {
        if open.purpose != Purpose::Batch || t.value.is_number() {
            return None;
        }
        let notes = &mut open.notes;
        if let Some(id) = open.frame.id(&t.value) {
            if t.edge.is_some() {
                notes.differentiable.insert(id);
            }
            if !taping || t.edge.is_some() || !notes.differentiable.contains(&id) {
                return Some(Ok(id));
            }
            let mut b = recorder.builder();
            let (from, shape) = (b.graph().nodes().len(), b.shape(id));
            let cut = b.prim(Prim::Reshape(shape), &[id]);
            notes.mark(from, false);
            notes.mark(from + 1, true);
            return Some(cut);
        }
        let key = (t.value.address(), t.edge.as_ref().map_or((0, 0), Edge::key));
        let at = recorder.location();
        if let Some(&id) = notes.known.get(&key) {
            return Some(Ok(id));
        }
        let id = recorder.builder().graph_mut().push_input(t.value.ty().clone(), at);
        notes.known.insert(key, id);
        notes.captured.push((id, t.clone()));
        if t.edge.is_some() {
            notes.differentiable.insert(id);
        }
        Some(Ok(id))
    })
    .flatten()
}

/// Nodes from this one on have records, or have none.
pub(crate) fn mark(from: usize, taping: bool) {
    innermost(|open| open.notes.mark(from, taping));
}
/// A gradient flows through this value.
pub(crate) fn note_differentiable(v: ValueId) {
    innermost(|open| open.purpose == Purpose::Batch && open.notes.differentiable.insert(v));
}
/// A rule of the user's own was recorded.
pub(crate) fn note_custom(name: &str) {
    innermost(|open| open.notes.custom.get_or_insert_with(|| name.to_string()).clone());
}
/// A cell is about to be written.
pub(crate) fn note_written(root: &Arc<Root>) {
    innermost(|open| {
        let old = root.contents().0;
        if open.frame.id(&old.value).is_none() {
            let known = open.written.0.iter().any(|(w, _)| w.as_ptr() == Arc::as_ptr(root));
            if !known {
                open.written.0.push((Arc::downgrade(root), old));
            }
        }
    });
}
/// May what a view shows of this value be kept with the handle? Not beyond a frame.
pub(crate) fn may_keep(value: &Value) -> bool {
    innermost(|open| open.frame.id(value).is_some()).unwrap_or(true)
}

/// Records the nodes of a program that `wanted` need, under a generation; the values from outside are imported.
pub(crate) fn replay(
    recorder: &mut Recorder<'_>,
    program: &Program,
    wanted: &[ValueId],
    generation: u32,
) -> HashMap<ValueId, ValueId> {
    let mut now: HashMap<ValueId, ValueId> = HashMap::new();
    for (id, value) in &program.captured {
        now.insert(*id, recorder.import(value));
    }
    let mut numbers = program.graph.params().iter().copied();
    let needed = needed(&program.graph, wanted);
    for (id, node) in program.graph.iter() {
        let is_number = matches!(node.op, rtx_ir::Op::Prim(Prim::Param { .. }));
        let bits = if is_number { numbers.next().unwrap_or(0) } else { 0 };
        if !needed[id.index()] || now.contains_key(&node.first) {
            continue;
        }
        let mut b = recorder.builder();
        let graph = b.graph_mut();
        if is_number {
            let dtype = program.graph.ty(node.first).dtype;
            now.insert(node.first, graph.push_param(dtype, bits, node.location));
            continue;
        }
        let inputs = node.inputs.iter().map(|v| *now.get(v).unwrap_or(v)).collect();
        let types: Vec<Type> = node.outs().map(|v| program.graph.ty(v).clone()).collect();
        let new = graph.push(node.op.clone(), inputs, types, node.location, generation);
        let outs = graph.node(new).outs();
        now.extend(node.outs().zip(outs));
    }
    for (new, old) in &program.replaced {
        if let (Some(&new), Some(&old)) = (now.get(new), now.get(old)) {
            recorder.replaces(new, old);
        }
    }
    now
}

/// Which nodes these values need.
fn needed(graph: &Graph, wanted: &[ValueId]) -> Vec<bool> {
    let mut needed = vec![false; graph.nodes().len()];
    wanted.iter().for_each(|&v| needed[graph.value(v).node.index()] = true);
    for (id, node) in graph.iter().rev() {
        if needed[id.index()] {
            node.inputs.iter().for_each(|&v| needed[graph.value(v).node.index()] = true);
        }
    }
    needed
}

impl Trace<'_, '_> {
    /// Appends nodes through which no gradient flows.
    pub(crate) fn without_records<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.record_new_nodes()?;
        let from = self.recorder.builder().graph().nodes().len();
        mark(from, false);
        let made = f(self)?;
        self.forget_new_nodes();
        Ok(made)
    }
}
