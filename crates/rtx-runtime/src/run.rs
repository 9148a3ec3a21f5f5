//! Running a region: its inputs are settled, its key finds a plan or makes one, the plan runs, its values settle.
use crate::counters::{FlushReason, add};
use crate::facts::facts;
use crate::prepared::Failed;
use crate::region::{Body, Phase, Region};
use crate::runner::Job;
use crate::value::{State, Storage};
use crate::{Value, lock, record};
use rtx_core::{Error, Kind, Result};
use rtx_ir::ValueId;
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, PoisonError};

impl Region {
    /// Runs the region, unless that has been done; waits where another thread is at it.
    ///
    /// # Errors
    /// What went wrong, for the caller that ran it; others find it in the values.
    pub(crate) fn run(self: &Arc<Self>, reason: FlushReason) -> Result<(), Failure> {
        let Some(mut body) = self.start() else { return Ok(()) };
        self.executor.totals().flushed(reason);
        // A record call that was left by a panic may have appended nodes that nobody has written down.
        body.note_new_nodes();
        let results = Results { region: self, held: held(self, &body) };
        let done = results.run(&body);
        // The inputs go only now, but before anybody is told: memory that was given up is free when a read returns.
        drop(body);
        drop(results);
        done
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
    held: Vec<(ValueId, Value)>,
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

/// An input, settled.
enum Source {
    Ready(Storage),
    Poisoned(Error),
}
impl Source {
    fn storage(&self) -> Option<Storage> {
        if let Source::Ready(storage) = self { Some(storage.clone()) } else { None }
    }
}

impl Results<'_> {
    fn run(&self, body: &Body) -> Result<(), Failure> {
        let totals = self.region.executor.totals();
        if self.held.is_empty() {
            add(&totals.regions_dropped, 1);
            return Ok(());
        }
        add(&totals.regions_run, 1);
        add(&totals.nodes_run, body.graph.nodes().len());
        settle_inputs(body);
        let facts = facts(body);
        let sources: Vec<Source> = body.inputs.iter().map(source).collect();
        let spread = self.spread_poison(body, &sources);
        let wanted: Vec<ValueId> = self.pending().map(|(id, _)| *id).collect();
        if wanted.is_empty() {
            return spread;
        }
        let storages: Vec<Option<Storage>> = sources.iter().map(Source::storage).collect();
        let job = Job { executor: &self.region.executor, body, facts: &facts, storages: &storages, wanted: &wanted };
        let done = lock(self.region.executor.runner()).run(&job);
        match done {
            Ok(done) => {
                self.settle(done);
                spread
            }
            Err(failed) => {
                let (error, started) = match failed {
                    Failed::BeforeStart(error) => (error, false),
                    Failed::InStep { error, .. } => (error, true),
                };
                add(&totals.failures, 1);
                let poison = |(id, value): &(ValueId, Value)| poison(body, &sources, *id, value, &error, started);
                let put_back = self.pending().filter_map(poison).collect();
                Err(Failure { error, put_back })
            }
        }
    }

    /// What has not been settled.
    fn pending(&self) -> impl Iterator<Item = &(ValueId, Value)> {
        self.held.iter().filter(|(id, value)| value.pending_in(self.region) == Some(*id))
    }

    /// Values that depend on a poisoned input are poisoned alike (contract R5). That input's failure has been told
    /// or is carried by it, so this one is only a failure where values were put back.
    fn spread_poison(&self, body: &Body, sources: &[Source]) -> Result<(), Failure> {
        if sources.iter().all(|s| matches!(s, Source::Ready(_))) {
            return Ok(());
        }
        let errors = spread_errors(body, sources);
        let mut failure = None;
        for (id, value) in &self.held {
            let Some(error) = &errors[id.index()] else { continue };
            if let Some(back) = poison(body, sources, *id, value, error, false) {
                let failure = failure.get_or_insert_with(|| Failure { error: error.clone(), put_back: Vec::new() });
                failure.put_back.push(back);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn settle(&self, done: Vec<(ValueId, Storage)>) {
        for (id, storage) in done {
            if let Ok(at) = self.held.binary_search_by_key(&id, |h| h.0) {
                self.held[at].1.set_state(State::Ready(storage));
            }
        }
    }
}

/// For each value the first error among all that it depends on.
fn spread_errors(body: &Body, sources: &[Source]) -> Vec<Option<Error>> {
    let mut errors: Vec<Option<Error>> = vec![None; body.graph.value_count()];
    for (id, source) in body.input_ids.iter().zip(sources) {
        if let Source::Poisoned(e) = source {
            errors[id.index()] = Some(e.clone());
        }
    }
    for node in body.graph.nodes() {
        if let Some(e) = node.inputs.iter().find_map(|v| errors[v.index()].clone()) {
            node.outs().for_each(|v| errors[v.index()] = Some(e.clone()));
        }
    }
    errors
}

/// Poisons a value; where nothing has been written yet and it replaces another, that one is put back (contract R6)
/// and the id is given.
fn poison(
    body: &Body,
    sources: &[Source],
    id: ValueId,
    value: &Value,
    error: &Error,
    started: bool,
) -> Option<ValueId> {
    match if started { None } else { replaced(body, sources, id) } {
        Some(old) => {
            value.set_state(State::Ready(old));
            Some(id)
        }
        None => {
            value.set_state(State::Poisoned(error.clone()));
            None
        }
    }
}

/// The memory of the input that a value takes the place of, over any number of updates.
fn replaced(body: &Body, sources: &[Source], mut id: ValueId) -> Option<Storage> {
    for &(new, old) in body.replaced.iter().rev() {
        if new == id {
            id = old;
        }
    }
    sources[body.input_position(id)?].storage()
}

/// Runs the regions that the inputs wait for.
fn settle_inputs(body: &Body) {
    for value in &body.inputs {
        if let State::Pending { region, .. } = value.state() {
            region.run_unheard(FlushReason::Thread);
        }
    }
}

fn source(value: &Value) -> Source {
    match value.state() {
        State::Ready(storage) => Source::Ready(storage),
        State::Poisoned(e) => Source::Poisoned(e),
        State::Pending { .. } | State::Number(_) => {
            Source::Poisoned(Error::new(Kind::Internal, "an input has no memory"))
        }
    }
}
