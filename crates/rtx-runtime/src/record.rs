//! Recording: ops are appended to the calling thread's pending region (contract R1).
use crate::counters::{FlushReason, add};
use crate::region::{Body, Phase, Region};
use crate::value::State;
use crate::{Executor, Value, frame, lock, mode, scope};
use rtx_core::Location;
use rtx_ir::{Builder, Graph, Op, Prim, ValueId};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The regions of one thread on one device.
struct Open {
    executor: u64,
    /// Where ops are appended.
    current: Option<Arc<Region>>,
    /// A closed step that has not been submitted.
    sealed: Option<Arc<Region>>,
}

thread_local! {
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    /// May this thread have a closed step that has not been submitted?
    static SEALED: Cell<bool> = const { Cell::new(false) };
}

/// Appends to the calling thread's region on a device, all under one line of the user's program. Between two calls
/// anything may happen; within one, no value is read and nothing else is recorded.
///
/// # Panics
/// When called from within `f`.
pub fn record<R>(executor: &Executor, location: Location, f: impl FnOnce(&mut Recorder<'_>) -> R) -> R {
    assert!(!is_recording(), "record: called within record");
    executor.submit_step(None);
    let (result, after) = append(executor, location, f);
    after.foreign.iter().for_each(|region| region.run_unheard(FlushReason::Thread));
    if let Some(reason) = after.flush {
        after.region.run_unheard(reason);
    }
    result
}

/// What is left to do once no lock is held.
struct After {
    region: Arc<Region>,
    /// Regions of other threads whose values were imported.
    foreign: Vec<Arc<Region>>,
    flush: Option<FlushReason>,
}

fn append<R>(executor: &Executor, location: Location, f: impl FnOnce(&mut Recorder<'_>) -> R) -> (R, After) {
    let _no_region_starts_to_run = lock(executor.recording());
    let region = frame::innermost(executor).unwrap_or_else(|| open_region(executor));
    let mut phase = lock(&region.phase);
    let Phase::Waiting(body) = &mut *phase else { unreachable!("an open region waits") };
    body.enter_scope(scope::path());
    body.budget = body.budget.into_iter().chain(mode::memory_budget()).min();
    let within = Within::enter();
    let mut recorder = Recorder { executor, region: &region, body, location, foreign: Vec::new() };
    let result = f(&mut recorder);
    drop(within);
    let foreign = recorder.foreign;
    let new = body.note_new_nodes();
    add(&executor.totals().nodes_recorded, new);
    let flush = if region.frame.is_some() { None } else { flush_reason(executor, body, new) };
    drop(phase);
    (result, After { region, foreign, flush })
}

/// Must the region run now?
fn flush_reason(executor: &Executor, body: &Body, new_nodes: usize) -> Option<FlushReason> {
    let limits = executor.limits();
    if new_nodes == 0 {
        None
    } else if executor.is_eager() {
        Some(FlushReason::Eager)
    } else if mode::flush_here() {
        Some(FlushReason::Random)
    } else if body.graph.nodes().len() >= limits.region_nodes || body.bytes >= limits.region_bytes {
        Some(FlushReason::Limit)
    } else {
        None
    }
}

/// Marks the time within a record call, also when it is left by a panic.
struct Within;
impl Within {
    fn enter() -> Self {
        RECORDING.set(true);
        Within
    }
}
impl Drop for Within {
    fn drop(&mut self) {
        RECORDING.set(false)
    }
}

/// Is a record call open on this thread?
pub(crate) fn is_recording() -> bool {
    RECORDING.get()
}

fn with_open<R>(executor: &Executor, f: impl FnOnce(&mut Open) -> R) -> R {
    OPEN.with_borrow_mut(|list| {
        let at = list.iter().position(|o| o.executor == executor.id()).unwrap_or_else(|| {
            list.push(Open { executor: executor.id(), current: None, sealed: None });
            list.len() - 1
        });
        f(&mut list[at])
    })
}

/// The region that this thread appends to: a new one where there is none or where the last one was closed or run.
/// Called under the recording lock, so it stays open until that is let go.
fn open_region(executor: &Executor) -> Arc<Region> {
    with_open(executor, |open| match &open.current {
        // A region that is taken to run is closed first.
        Some(region) if !region.sealed.load(Acquire) => region.clone(),
        _ => open.current.insert(Region::new(executor)).clone(),
    })
}

/// Closes this thread's region and keeps it for later; gives an earlier one that still waits.
pub(crate) fn seal_step(executor: &Executor) -> Option<Arc<Region>> {
    with_open(executor, |open| {
        let current = open.current.take()?;
        current.sealed.store(true, Release);
        SEALED.set(true);
        open.sealed.replace(current)
    })
}

/// Takes the closed step, if there is one.
pub(crate) fn take_sealed(executor: &Executor) -> Option<Arc<Region>> {
    if !SEALED.get() {
        return None;
    }
    OPEN.with_borrow_mut(|list| {
        let step = list.iter_mut().find(|o| o.executor == executor.id()).and_then(|open| open.sealed.take());
        SEALED.set(list.iter().any(|open| open.sealed.is_some()));
        step
    })
}

/// Takes this thread's regions in the order in which they run.
pub(crate) fn take_regions(executor: &Executor) -> impl Iterator<Item = Arc<Region>> {
    with_open(executor, |open| [open.sealed.take(), open.current.take()]).into_iter().flatten()
}

/// Appends to a region; see [`record`].
pub struct Recorder<'a> {
    executor: &'a Executor,
    region: &'a Arc<Region>,
    body: &'a mut Body,
    location: Location,
    foreign: Vec<Arc<Region>>,
}

impl Recorder<'_> {
    /// Appends ops.
    pub fn builder(&mut self) -> Builder<'_> {
        Builder::new(&mut self.body.graph, self.location)
    }

    /// The region's graph so far.
    pub fn graph(&self) -> &Graph {
        &self.body.graph
    }

    /// The line under which is recorded.
    pub fn location(&self) -> Location {
        self.location
    }

    /// The value in the region's graph: itself if it was recorded here, else an input, or a run-time number.
    /// Importing it again gives the same id.
    ///
    /// # Panics
    /// When it lies on another device.
    pub fn import(&mut self, value: &Value) -> ValueId {
        let own = value.executor() == self.executor;
        assert!(
            own || value.is_number(),
            "import: the value is on {:?}, the region on {:?}",
            value.executor(),
            self.executor
        );
        if let Some(id) = value.pending_in(self.region) {
            return id;
        }
        let address = value.address();
        if let Some(&id) = self.body.imported.get(&address) {
            return id;
        }
        let id = match value.state() {
            State::Number(bits) => {
                self.body.numbers.push(value.clone());
                self.body.graph.push_param(value.ty().dtype, bits, self.location)
            }
            State::Pending { region, .. } if region.frame.is_none() && self.region.frame.is_none() => {
                region.sealed.store(true, Release);
                self.foreign.push(region);
                self.push_input(value)
            }
            State::Pending { .. } | State::Ready(_) | State::Poisoned(_) => self.push_input(value),
        };
        self.body.imported.insert(address, id);
        // A host number that was made for another device stays that device's handle.
        if own {
            self.body.set_exported(id, value);
        }
        id
    }

    fn push_input(&mut self, value: &Value) -> ValueId {
        let id = self.body.graph.push_input(value.ty().clone(), self.location);
        self.body.inputs.push(value.clone());
        self.body.input_ids.push(id);
        id
    }

    /// A handle of a value of the region; the same one for the same id while it lives.
    pub fn export(&mut self, id: ValueId) -> Value {
        if let Some(value) = self.body.exported(id) {
            return value;
        }
        let state = self.number_behind(id).map(State::Number);
        let state = state.unwrap_or_else(|| State::Pending { region: self.region.clone(), id });
        let ty = self.body.graph.ty(id).clone();
        let value = Value::new(self.executor, ty, Some(self.body.location(id)), state);
        self.body.set_exported(id, &value);
        value
    }

    /// A value of another region, or of a frame, becomes this value of the region.
    pub(crate) fn adopt(&mut self, value: &Value, id: ValueId) {
        value.set_state(State::Pending { region: self.region.clone(), id });
        self.body.set_exported(id, value);
    }

    /// The bits of a run-time number.
    fn number_behind(&mut self, id: ValueId) -> Option<u64> {
        let info = self.body.graph.value(id);
        let node = info.node;
        if !matches!(self.body.graph.node(node).op, Op::Prim(Prim::Param { .. })) {
            return None;
        }
        self.body.key.extend(&self.body.graph);
        let at = self.body.key.param_index(node)?;
        self.body.graph.params().get(at).copied()
    }

    /// Says that `new` takes the place of `old` in some cell (a parameter after an update, say). If the region
    /// fails before its first kernel, `new` is as `old` was instead of poisoned (contract R6); the failure is told
    /// to whoever made the region run. An update that is not in place because `old` is still held is counted.
    pub fn replaces(&mut self, new: ValueId, old: ValueId) {
        self.body.replaced.push((new, old));
    }
}
