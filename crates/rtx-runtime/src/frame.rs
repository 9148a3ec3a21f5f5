//! Frames: stretches of recording into a graph of their own, which is rewritten before anything of it runs.
//!
//! Between [`Frame::enter`] and [`Frame::leave`] what the thread records goes to the frame instead of its region, and
//! what it makes has no values: reading one is an error. Then the program is the caller's, to record again in
//! whatever form; what handles of its values are left may be given values with [`Program::settle`].
use crate::region::{Body, Phase, Region};
use crate::value::State;
use crate::{Executor, Recorder, Value, lock};
use rtx_core::{Error, Kind, Location};
use rtx_ir::{Graph, Type, ValueId};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! { static FRAMES: RefCell<Vec<Arc<Region>>> = const { RefCell::new(Vec::new()) } }

/// The innermost frame of this thread on a device.
pub(crate) fn innermost(executor: &Executor) -> Option<Arc<Region>> {
    FRAMES.with_borrow(|all| all.iter().rev().find(|r| r.executor == *executor).cloned())
}

/// Why a value of a frame is not read.
pub(crate) fn unreadable(what: &str) -> Error {
    let message = format!("read: inside {what} a tensor stands for values that are not there yet");
    Error::new(Kind::Argument, message).hint("return it, and read it outside")
}

/// An open frame. What is recorded until it is left goes into it.
pub struct Frame {
    region: Arc<Region>,
    /// Frames are a stack of this thread's.
    _here: PhantomData<*const ()>,
}

/// What was recorded in a frame.
pub struct Program {
    /// The nodes. Inputs are values from outside and placeholders.
    pub graph: Graph,
    /// The values from outside, with the inputs that they are in the graph.
    pub captured: Vec<(ValueId, Value)>,
    /// Pairs (new, old) of values of which the first takes the place of the second in some cell.
    pub replaced: Vec<(ValueId, ValueId)>,
    region: Arc<Region>,
    exports: Vec<std::sync::Weak<crate::value::Inner>>,
}

impl Frame {
    /// Opens a frame; `what` is its name in messages.
    pub fn enter(executor: &Executor, what: &'static str) -> Frame {
        let region = Region::frame(executor, what);
        FRAMES.with_borrow_mut(|all| all.push(region.clone()));
        Frame { region, _here: PhantomData }
    }

    /// A value of which only the type is known.
    pub fn placeholder(&self, ty: Type, location: Location) -> Value {
        let mut phase = lock(&self.region.phase);
        let Phase::Waiting(body) = &mut *phase else { unreachable!("an open frame waits") };
        let id = body.graph.push_input(ty.clone(), location);
        let state = State::Pending { region: self.region.clone(), id };
        let value = Value::new(&self.region.executor, ty, Some(location), state);
        body.set_exported(id, &value);
        value
    }

    /// Which value of the frame this is; `None` for one from outside.
    pub fn id(&self, value: &Value) -> Option<ValueId> {
        value.pending_in(&self.region)
    }

    /// Takes it off the stack for a while: what is recorded goes to the next one, or to the thread's region.
    pub fn suspend(&self) {
        FRAMES.with_borrow_mut(|all| all.retain(|r| !Arc::ptr_eq(r, &self.region)));
    }
    /// Puts it back on top.
    pub fn resume(&self) {
        FRAMES.with_borrow_mut(|all| all.push(self.region.clone()));
    }

    /// Closes it.
    pub fn leave(self) -> Program {
        let mut phase = lock(&self.region.phase);
        let body = match std::mem::replace(&mut *phase, Phase::Done) {
            Phase::Waiting(body) => body,
            Phase::Running | Phase::Done => Box::default(),
        };
        drop(phase);
        let Body { graph, inputs, input_ids, replaced, exports, .. } = *body;
        let captured = input_ids.into_iter().zip(inputs).collect();
        Program { graph, captured, replaced, region: self.region.clone(), exports }
    }
}

/// Also when it is left by a panic.
impl Drop for Frame {
    fn drop(&mut self) {
        self.suspend();
    }
}

impl Program {
    /// Which value of the program this is; `None` for one from outside.
    pub fn id(&self, value: &Value) -> Option<ValueId> {
        value.pending_in(&self.region)
    }

    /// The values that were made within and that somebody holds, ascending.
    pub fn held(&self) -> Vec<(ValueId, Value)> {
        let living =
            self.exports.iter().enumerate().filter_map(|(i, v)| Some((ValueId(i as u32), Value(v.upgrade()?))));
        living.filter(|(id, v)| v.pending_in(&self.region) == Some(*id)).collect()
    }

    /// From now on `value`, one of the program's, is the value `id` of the region that is being recorded. `id` is new:
    /// no other handle has been made of it.
    pub fn settle(&self, recorder: &mut Recorder<'_>, value: &Value, id: ValueId) {
        recorder.adopt(value, id);
    }
}
