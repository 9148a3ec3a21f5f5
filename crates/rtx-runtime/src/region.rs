//! [`Region`]: what a thread has recorded for a device and not run yet.
use crate::key::Key;
use crate::value::Inner;
use crate::{Executor, Value};
use rtx_core::{IdMap, Location};
use rtx_ir::{Graph, NodeId, ValueId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, Weak};

/// What a thread has recorded for a device and not run yet. Its values hold it; it holds them weakly.
pub(crate) struct Region {
    /// No other region has it; from 1.
    pub(crate) serial: u64,
    pub(crate) executor: Executor,
    /// Its name, if it is a frame: it never runs.
    pub(crate) frame: Option<&'static str>,
    /// No more is recorded here.
    pub(crate) sealed: AtomicBool,
    pub(crate) phase: Mutex<Phase>,
    /// Told when the region is done.
    pub(crate) done: Condvar,
}

/// How far a region has come.
pub(crate) enum Phase {
    /// Being recorded, or closed and waiting to run.
    Waiting(Box<Body>),
    /// A thread runs it.
    Running,
    /// Its values are ready or poisoned.
    Done,
}

/// The program of a region and how it hangs together with the world.
#[derive(Default)]
pub(crate) struct Body {
    pub(crate) graph: Graph,
    pub(crate) key: Key,
    /// One for each input of the graph, in order.
    pub(crate) inputs: Vec<Value>,
    /// Their ids, ascending.
    pub(crate) input_ids: Vec<ValueId>,
    /// The numbers that were imported; held so that their addresses stay theirs.
    pub(crate) numbers: Vec<Value>,
    /// What [`crate::Recorder::import`] gave for a value, by the value's address.
    pub(crate) imported: IdMap<usize, ValueId>,
    /// The handles' side of each value, by id; no entry or a dead one where there is none.
    pub(crate) exports: Vec<Weak<Inner>>,
    /// Values that take the place of others, see [`crate::Recorder::replaces`].
    pub(crate) replaced: Vec<(ValueId, ValueId)>,
    /// The part of the model that nodes from some point on belong to.
    scopes: Vec<(NodeId, Option<Arc<str>>)>,
    /// Nodes that have been counted.
    noted: usize,
    /// The memory that it may take when it runs.
    pub(crate) budget: Option<u64>,
    /// Bytes of all values recorded.
    pub(crate) bytes: usize,
}

impl Region {
    /// An empty one.
    pub(crate) fn new(executor: &Executor) -> Arc<Self> {
        Self::with_body(executor, executor.spare_body(), false, None)
    }

    /// One in which no more is recorded.
    pub(crate) fn closed(executor: &Executor, body: Box<Body>) -> Arc<Self> {
        Self::with_body(executor, body, true, None)
    }

    /// One that is never run.
    pub(crate) fn frame(executor: &Executor, what: &'static str) -> Arc<Self> {
        Self::with_body(executor, Box::default(), false, Some(what))
    }

    fn with_body(executor: &Executor, body: Box<Body>, sealed: bool, frame: Option<&'static str>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            serial: NEXT.fetch_add(1, Relaxed),
            executor: executor.clone(),
            frame,
            sealed: AtomicBool::new(sealed),
            phase: Mutex::new(Phase::Waiting(body)),
            done: Condvar::new(),
        })
    }
}

impl Body {
    /// Empties it; the room that it has taken stays.
    pub(crate) fn clear(&mut self) {
        // Every field is named, so that a new one is not forgotten.
        let Body { graph, key, inputs, input_ids, numbers, imported, exports, replaced, scopes, noted, budget, bytes } =
            self;
        graph.clear();
        key.clear();
        inputs.clear();
        input_ids.clear();
        numbers.clear();
        imported.clear();
        exports.clear();
        replaced.clear();
        scopes.clear();
        (*noted, *budget, *bytes) = (0, None, 0);
    }

    /// Lets go of what it was given: it has been run.
    pub(crate) fn forget_inputs(&mut self) {
        self.inputs.clear();
        self.numbers.clear();
        self.imported.clear();
    }

    /// The living handle of a value.
    pub(crate) fn exported(&self, id: ValueId) -> Option<Value> {
        self.exports.get(id.index())?.upgrade().map(Value)
    }

    /// Notes the handle of a value.
    pub(crate) fn set_exported(&mut self, id: ValueId, value: &Value) {
        let new = Arc::downgrade(&value.0);
        if self.exports.len() == id.index() {
            return self.exports.push(new);
        }
        if self.exports.len() < id.index() {
            self.exports.resize_with(id.index() + 1, Weak::new);
        }
        self.exports[id.index()] = new;
    }

    /// Writes down what was recorded since the last call: how many nodes.
    pub(crate) fn note_new_nodes(&mut self) -> usize {
        self.key.extend(&self.graph);
        let new = &self.graph.nodes()[self.noted..];
        self.noted += new.len();
        let outs = new.iter().flat_map(|n| n.outs());
        self.bytes += outs.map(|v| self.graph.ty(v).bytes()).sum::<usize>();
        new.len()
    }

    /// Which input a value is.
    pub(crate) fn input_position(&self, id: ValueId) -> Option<usize> {
        self.input_ids.binary_search(&id).ok()
    }

    /// Says which part of the model the nodes from here on belong to.
    pub(crate) fn enter_scope(&mut self, path: Option<Arc<str>>) {
        let same = match (self.scopes.last().and_then(|s| s.1.as_ref()), &path) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !same {
            self.scopes.push((NodeId(self.graph.nodes().len() as u32), path));
        }
    }

    /// The part of the model that a node belongs to.
    pub(crate) fn scope_of(&self, node: NodeId) -> Option<&str> {
        let after = self.scopes.partition_point(|s| s.0 <= node);
        self.scopes[..after].last()?.1.as_deref()
    }

    /// The line that recorded a value.
    pub(crate) fn location(&self, id: ValueId) -> Location {
        self.graph.producer(id).location
    }
}
