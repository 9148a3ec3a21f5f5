//! Running a region: its inputs are settled, its key finds a plan or makes one, the plan runs, its values settle.
use crate::counters::{FlushReason, add};
use crate::facts::facts;
use crate::owed::Debt;
use crate::prepared::{Failed, Prepared};
use crate::region::{Body, Phase, Region};
use crate::runner::Job;
use crate::value::{Inner, State, Storage};
use crate::{Value, lock, mode, record};
use rtx_core::{Error, Kind, Result};
use rtx_hal::Receipt;
use rtx_ir::ValueId;
use smallvec::SmallVec;
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, PoisonError, Weak};

impl Region {
    /// Runs the region, unless that has been done; waits where another thread is at it.
    ///
    /// # Errors
    /// What went wrong, for the caller that ran it; others find it in the values.
    pub(crate) fn run(self: &Arc<Self>, reason: FlushReason) -> Result<(), Failure> {
        if self.frame.is_some() {
            return Ok(());
        }
        let Some(mut body) = self.start() else { return Ok(()) };
        self.executor.totals().flushed(reason);
        // A record call that was left by a panic may have appended nodes that nobody has written down.
        body.note_new_nodes();
        let mut results = Results { region: self, held: held(self, &body), again: Vec::new() };
        let done = results.run(&body);
        // The inputs go before anybody is told: memory that was given up is free when a read returns.
        match &done {
            Err(_) => results.wait_in_a_new_region(body),
            Ok(None) => self.executor.keep_body(body),
            Ok(Some((receipt, prepared))) => {
                body.forget_inputs();
                let (receipt, prepared) = (*receipt, prepared.clone());
                self.executor.owe(Debt { receipt, body, prepared, values: results.made() });
            }
        }
        drop(results);
        done.map(drop)
    }

    /// Runs the region for a caller who returns no `Result`: the executor keeps what went wrong for the next step's
    /// end, next to the values that carry it (contract R5).
    pub(crate) fn run_unheard(self: &Arc<Self>, reason: FlushReason) {
        if let Err(failure) = self.run(reason) {
            self.executor.keep_failure(failure.error)
        }
    }

    /// Takes the program out, if the region waits.
    fn start(&self) -> Option<Box<Body>> {
        assert!(!record::is_recording(), "a value was read, or a region flushed, within record");
        let recording = lock(self.executor.recording());
        let mut phase = lock(&self.phase);
        match std::mem::replace(&mut *phase, Phase::Running) {
            Phase::Waiting(body) => {
                self.sealed.store(true, Release);
                Some(body)
            }
            Phase::Running => {
                drop(recording);
                while matches!(*phase, Phase::Running) {
                    phase = self.done.wait(phase).unwrap_or_else(PoisonError::into_inner);
                }
                None
            }
            Phase::Done => {
                *phase = Phase::Done;
                None
            }
        }
    }
}

/// Why a region failed.
pub(crate) struct Failure {
    pub(crate) error: Error,
    /// The values that were put back as they were, and so do not carry the error.
    pub(crate) put_back: Vec<ValueId>,
}

/// The values that somebody holds and that wait for this region, ascending.
fn held(region: &Arc<Region>, body: &Body) -> Vec<(ValueId, Value)> {
    let ids = (0..body.exports.len() as u32).map(ValueId);
    ids.filter_map(|id| {
        let value = body.exported(id)?;
        (value.pending_in(region) == Some(id)).then_some((id, value))
    })
    .collect()
}

/// The values that a running region owes. None stays pending, whatever happens: dropping this settles them.
struct Results<'a> {
    region: &'a Arc<Region>,
    /// Values with the id that they wait for, ascending.
    held: Vec<(ValueId, Value)>,
    /// Where the region failed before its start: values that were put back and wait for an earlier value instead.
    again: Vec<(ValueId, Value)>,
}

impl Drop for Results<'_> {
    fn drop(&mut self) {
        for (id, value) in &self.held {
            if value.pending_in(self.region) == Some(*id) {
                let message = "the region that makes this value was left by a panic";
                value.set_state(State::Poisoned(Error::new(Kind::Internal, message)));
            }
        }
        *lock(&self.region.phase) = Phase::Done;
        self.region.done.notify_all();
    }
}

impl Results<'_> {
    /// What its kernels may still report, and the plan.
    fn run(&mut self, body: &Body) -> Result<Option<(Receipt, Arc<Prepared>)>, Failure> {
        let executor = &self.region.executor;
        if self.held.is_empty() {
            add(&executor.totals().regions_dropped, 1);
            return Ok(None);
        }
        executor.look_back_unheard(false);
        add(&executor.totals().regions_run, 1);
        add(&executor.totals().nodes_run, body.graph.nodes().len());
        settle_inputs(body);
        let spread = self.spread_poison(body);
        let wanted: Vec<ValueId> = self.pending().map(|(id, _)| *id).collect();
        if wanted.is_empty() {
            return spread.map(|()| None);
        }
        mode::observe(&body.graph, &wanted);
        // Facts come before anything else holds the inputs' memory.
        let facts = facts(body, &wanted);
        let storages: Vec<Option<Storage>> = body.inputs.iter().map(Value::storage).collect();
        let job = Job { executor, body, facts: &facts, storages: &storages, wanted: &wanted };
        let done = lock(executor.runner()).run(&job);
        match done {
            Ok((done, prepared)) => {
                self.settle(done.results);
                let owes = done.receipt.map(|receipt| (receipt, prepared));
                if let (Err(_), Some((receipt, _))) = (&spread, &owes) {
                    // One failure is told: that of the inputs.
                    _ = executor.device().redeem(*receipt, true);
                }
                spread.map(|()| owes)
            }
            Err(failed) => {
                add(&executor.totals().failures, 1);
                Err(self.fail(body, failed))
            }
        }
    }

    /// The values, held weakly.
    fn made(&self) -> Vec<Weak<Inner>> {
        self.held.iter().map(|(_, value)| Arc::downgrade(&value.0)).collect()
    }

    /// What has not been settled.
    fn pending(&self) -> impl Iterator<Item = &(ValueId, Value)> {
        self.held.iter().filter(|(id, value)| value.pending_in(self.region) == Some(*id))
    }

    fn settle(&self, done: Vec<(ValueId, Storage)>) {
        let mut there: SmallVec<[&Arc<Inner>; 16]> = SmallVec::new();
        for (id, storage) in done {
            if let Ok(at) = self.held.binary_search_by_key(&id, |h| h.0) {
                let value = &self.held[at].1;
                value.set_state(State::Ready(storage));
                there.push(&value.0);
            }
        }
        self.region.executor.register().note(there);
    }

    /// Values that depend on a poisoned input are poisoned alike, those that replace a good one are put back
    /// (contracts R5, R6). That input's failure has been told or is carried by it, so this one is a failure only
    /// where values were put back.
    fn spread_poison(&mut self, body: &Body) -> Result<(), Failure> {
        let Some(errors) = spread_errors(body) else { return Ok(()) };
        let good = |id: ValueId| errors[id.index()].is_none();
        let mut failure: Option<Failure> = None;
        for at in 0..self.held.len() {
            let (id, value) = self.held[at].clone();
            let Some(error) = &errors[id.index()] else { continue };
            match replaced(body, id).find(|old| good(*old)) {
                Some(old) if self.put_back(body, &value, old) => {
                    failure.get_or_insert_with(|| Failure { error: error.clone(), put_back: vec![] }).put_back.push(id)
                }
                _ => value.set_state(State::Poisoned(error.clone())),
            }
        }
        self.stay_here();
        failure.map_or(Ok(()), Err)
    }

    /// Values that were put back and wait for an earlier value of this region, which goes on, wait here.
    fn stay_here(&mut self) {
        for (id, value) in self.again.drain(..) {
            value.set_state(State::Pending { region: self.region.clone(), id });
            self.held.push((id, value));
        }
        self.held.sort_by_key(|(id, _)| *id);
        let waits = |(id, value): &(ValueId, Value)| value.pending_in(self.region) == Some(*id);
        self.held.retain(waits);
    }

    /// The region failed. Where nothing has been written, what it would have replaced stays (contract R6).
    fn fail(&mut self, body: &Body, failed: Failed) -> Failure {
        let (error, started) = match failed {
            Failed::BeforeStart(error) => (error, false),
            Failed::InStep { error, .. } => (error, true),
        };
        let mut put_back = Vec::new();
        for (id, value) in self.pending().cloned().collect::<Vec<_>>() {
            match replaced(body, id).last().filter(|_| !started) {
                Some(old) if self.put_back(body, &value, old) => put_back.push(id),
                _ => value.set_state(State::Poisoned(error.clone())),
            }
        }
        Failure { error, put_back }
    }

    /// Makes a value what an earlier one of the region is. `false` where that one has a handle of its own.
    fn put_back(&mut self, body: &Body, value: &Value, old: ValueId) -> bool {
        if let Some(storage) = body.input_position(old).and_then(|i| body.inputs[i].storage()) {
            value.set_state(State::Ready(storage));
            self.region.executor.register().note([&value.0]);
            return true;
        }
        let taken = self.held.iter().chain(&self.again).any(|(id, _)| *id == old);
        if !taken {
            self.again.push((old, value.clone()));
        }
        !taken
    }

    /// Values that were put back and wait for a value of the region that failed before its start wait in a new one
    /// with the same program.
    fn wait_in_a_new_region(&mut self, mut body: Box<Body>) {
        if self.again.is_empty() {
            return;
        }
        body.exports.clear();
        body.replaced.clear();
        self.again.iter().for_each(|(id, value)| body.set_exported(*id, value));
        let region = Region::closed(&self.region.executor, body);
        for (id, value) in self.again.drain(..) {
            value.set_state(State::Pending { region: region.clone(), id });
        }
    }
}

/// For each value the first error among all that it depends on; `None` where all inputs are good.
fn spread_errors(body: &Body) -> Option<Vec<Option<Error>>> {
    let mut errors: Vec<Option<Error>> = Vec::new();
    for (id, value) in body.input_ids.iter().zip(&body.inputs) {
        if let Some(e) = value.missing() {
            errors.resize(body.graph.value_count(), None);
            errors[id.index()] = Some(e);
        }
    }
    if errors.is_empty() {
        return None;
    }
    for node in body.graph.nodes() {
        if let Some(e) = node.inputs.iter().find_map(|v| errors[v.index()].clone()) {
            node.outs().for_each(|v| errors[v.index()] = Some(e.clone()));
        }
    }
    Some(errors)
}

/// The values that a value takes the place of, the latest first.
fn replaced(body: &Body, id: ValueId) -> impl Iterator<Item = ValueId> {
    let mut older = body.replaced.iter().rev();
    let mut now = id;
    std::iter::from_fn(move || {
        now = older.find(|(new, _)| *new == now)?.1;
        Some(now)
    })
}

/// Runs the regions that the inputs wait for.
fn settle_inputs(body: &Body) {
    for value in &body.inputs {
        if let State::Pending { region, .. } = value.state() {
            region.run_unheard(FlushReason::Thread);
        }
    }
}
