//! Running a region: its inputs are settled, its key finds a plan or makes one, the plan runs, its values settle.
use crate::cache::{PlanCache, Sizes};
use crate::counters::{FlushReason, add};
use crate::miss;
use crate::prepared::{CodeCache, Failed, Prepared, Run, Workspace};
use crate::region::{Body, Phase, Region};
use crate::symbolic::Pattern;
use crate::value::{State, Storage};
use crate::{Executor, Value, lock, record};
use rtx_core::{DType, Error, Kind, Layout, Result, SymId};
use rtx_ir::{Graph, ValueId};
use rtx_plan::{InputFact, OutputPlace, Plan, Request};
use smallvec::SmallVec;
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, PoisonError};

/// What runs the regions of an executor, one after the other.
pub(crate) struct Runner {
    plans: PlanCache,
    codes: CodeCache,
    workspace: Workspace,
}

impl Runner {
    pub(crate) fn new(plan_bytes: usize) -> Self {
        Self { plans: PlanCache::new(plan_bytes), codes: CodeCache::default(), workspace: Workspace::default() }
    }

    /// Gives the memory that is dead between runs back to the device.
    pub(crate) fn discard_workspace(&mut self) {
        self.workspace.discard()
    }
}

impl Region {
    /// Runs the region, unless that has been done; waits where another thread is at it.
    ///
    /// # Errors
    /// What went wrong, for the caller that ran it; others find it in the values.
    pub(crate) fn run(self: &Arc<Self>, reason: FlushReason) -> Result<(), Failure> {
        let Some(mut body) = self.start() else { return Ok(()) };
        self.executor.totals().flushed(reason);
        body.note_new_nodes();
        let results = Results { region: self, held: held(self, &body) };
        let done = results.run(&mut body);
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

impl Results<'_> {
    fn run(&self, body: &mut Body) -> Result<(), Failure> {
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
        match run_plan(&self.region.executor, body, &facts, &sources, &wanted) {
            Ok(done) => {
                self.settle(done);
                spread
            }
            Err((error, started)) => {
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
        let errors = spread_errors(&body.graph, sources);
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
fn spread_errors(graph: &Graph, sources: &[Source]) -> Vec<Option<Error>> {
    let mut errors: Vec<Option<Error>> = vec![None; graph.value_count()];
    for (id, source) in graph.inputs().zip(sources) {
        if let Source::Poisoned(e) = source {
            errors[id.index()] = Some(e.clone());
        }
    }
    for node in graph.nodes() {
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
    let at = body.graph.inputs().position(|v| v == id)?;
    if let Source::Ready(storage) = &sources[at] { Some(storage.clone()) } else { None }
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

/// What is known of the inputs' memory. Called while the input table is all that the region holds of them.
fn facts(body: &Body) -> Vec<InputFact> {
    let mut storages: Vec<Option<Storage>> = Vec::with_capacity(body.inputs.len());
    let mut facts = Vec::with_capacity(body.inputs.len());
    for value in &body.inputs {
        let unshared = value.is_unshared();
        let State::Ready(storage) = value.state() else {
            let layout = Layout::contiguous(&value.ty().shape.sizes());
            facts.push(InputFact { layout, donated: false, alias: None });
            storages.push(None);
            continue;
        };
        let same = |s: &Option<Storage>| s.as_ref().is_some_and(|s| Arc::ptr_eq(&s.memory, &storage.memory));
        let alias = if unshared { None } else { storages.iter().position(same) };
        let sizes = value.ty().shape.sizes();
        let donated = unshared && !overlaps_itself(&sizes, &storage.layout);
        let layout = if storage.layout.is_contiguous(&sizes) {
            Layout::contiguous(&sizes)
        } else {
            Layout { offset: 0, strides: storage.layout.strides.clone() }
        };
        facts.push(InputFact { layout, donated, alias: alias.map(|i| i as u32) });
        storages.push((!unshared).then_some(storage));
    }
    facts
}

/// May two elements lie in one place? Overlapping inputs are never donated (contract M2).
fn overlaps_itself(sizes: &[usize], layout: &Layout) -> bool {
    let mut dims: SmallVec<[(usize, usize); 4]> =
        sizes.iter().zip(&layout.strides).filter(|(n, _)| **n > 1).map(|(&n, s)| (s.unsigned_abs(), n)).collect();
    dims.sort_unstable();
    let mut reach = 0;
    dims.iter().any(|&(stride, n)| {
        let overlap = stride <= reach;
        reach += stride * (n - 1);
        overlap
    })
}

/// Finds or makes the plan and runs it. On failure: the error, and whether a kernel had started.
fn run_plan(
    executor: &Executor,
    body: &mut Body,
    facts: &[InputFact],
    sources: &[Source],
    wanted: &[ValueId],
) -> Result<Vec<(ValueId, Storage)>, (Error, bool)> {
    let before_start = |e: Error| (e, false);
    if body.graph.inputs().count() != facts.len() {
        return Err(before_start(Error::new(Kind::Internal, "an input was recorded without a value")));
    }
    let mut guard = lock(executor.runner());
    let runner = &mut *guard;
    let (prepared, symbols) = runner.plan(executor, body, facts, sources, wanted).map_err(before_start)?;
    let of = |(source, id): (&Source, ValueId)| match source {
        Source::Ready(storage) => Some((storage.clone(), body.graph.ty(id).dtype)),
        Source::Poisoned(_) => None,
    };
    let inputs: Vec<Option<(Storage, DType)>> = sources.iter().zip(body.graph.inputs()).map(of).collect();
    let run = Run { prepared: &prepared, inputs: &inputs, params: body.graph.params(), symbols: &symbols };
    let results = runner.workspace.replay(executor, &run).map_err(|failed| match failed {
        Failed::BeforeStart(e) => (e, false),
        Failed::InStep { step, error } => (name_step(&body.graph, &prepared.plan, step, &error), true),
    })?;
    drop(guard);
    count_donations(executor, body, &prepared.plan, facts);
    Ok(results)
}

/// The error of a step, with the op and the line that it came from.
fn name_step(graph: &Graph, plan: &Plan, step: usize, error: &Error) -> Error {
    let origin = plan.steps.get(step).and_then(|s| s.origins.first());
    match origin.filter(|n| n.index() < graph.nodes().len()) {
        Some(&n) => {
            let node = graph.node(n);
            let message = format!("{}: {}", node.op.name(), error.message());
            Error::new(error.kind(), message).recorded_at(node.location)
        }
        None => error.clone(),
    }
}

fn count_donations(executor: &Executor, body: &Body, plan: &Plan, facts: &[InputFact]) {
    let place = |id| plan.outputs.iter().find(|o| o.value == id).map(|o| o.place);
    let given = plan.outputs.iter().filter(|o| matches!(o.place, OutputPlace::Donated(_))).count();
    add(&executor.totals().donations, given);
    let copied = |&&(new, old): &&(ValueId, ValueId)| {
        let input = body.graph.inputs().position(|v| v == old);
        input.is_some_and(|i| !facts[i].donated) && matches!(place(new), Some(OutputPlace::Slot(_)))
    };
    add(&executor.totals().copies, body.replaced.iter().filter(copied).count());
}

type Symbols = SmallVec<[(SymId, i64); 2]>;

impl Runner {
    /// The plan for a region: from the cache, else from the compiler.
    fn plan(
        &mut self,
        executor: &Executor,
        body: &mut Body,
        facts: &[InputFact],
        sources: &[Source],
        wanted: &[ValueId],
    ) -> Result<(Arc<Prepared>, Symbols)> {
        let graph_sizes = body.key.dims.len();
        let mut fact_starts = Vec::with_capacity(facts.len());
        for ((fact, value), source) in facts.iter().zip(&body.inputs).zip(sources) {
            let absent = matches!(source, Source::Poisoned(_));
            fact_starts.push(body.key.fact(fact, &value.ty().shape.sizes(), absent));
        }
        let ids: Vec<u32> = wanted.iter().map(|v| v.0).collect();
        if let Some(entry) = self.plans.find(&body.key.structure, &body.key.dims, &ids) {
            add(&executor.totals().replays, 1);
            let symbols = match &entry.sizes {
                Sizes::Exactly(_) => Symbols::new(),
                Sizes::Symbolic(pattern) => pattern.values(&body.key.dims),
            };
            return Ok((entry.prepared.clone(), symbols));
        }
        executor.set_last_miss(miss::explain(&self.plans, body, &ids, &fact_starts, graph_sizes));
        self.compile(executor, body, facts, wanted, &ids, graph_sizes)
    }

    fn compile(
        &mut self,
        executor: &Executor,
        body: &Body,
        facts: &[InputFact],
        wanted: &[ValueId],
        ids: &[u32],
        graph_sizes: usize,
    ) -> Result<(Arc<Prepared>, Symbols)> {
        let (structure, dims) = (&body.key.structure, &body.key.dims);
        add(&executor.totals().plans_compiled, 1);
        let family = self.plans.family(structure);
        let pattern = if family.static_only { None } else { Pattern::find(&family.seen, dims) };
        family.see(dims);
        let symbolic =
            pattern.and_then(|p| Some((self.compile_symbolic(executor, body, facts, wanted, &p, graph_sizes)?, p)));
        let (prepared, sizes, symbols) = match symbolic {
            Some((prepared, pattern)) => {
                let values = pattern.values(dims);
                (prepared, Sizes::Symbolic(pattern), values)
            }
            None => {
                let request = Request { graph: &body.graph, inputs: facts, wanted, target: executor.device().target() };
                let plan = executor.compiler().compile(&request)?;
                let prepared = Prepared::new(executor, &mut self.codes, plan, facts.len())?;
                (prepared, Sizes::Exactly(dims.as_slice().into()), Symbols::new())
            }
        };
        let prepared = Arc::new(prepared);
        let gone = self.plans.insert(structure, sizes, ids, prepared.clone());
        add(&executor.totals().plans_evicted, gone);
        Ok((prepared, symbols))
    }

    /// A plan with symbols; `None`, counted, where some op or the compiler refuses them.
    fn compile_symbolic(
        &mut self,
        executor: &Executor,
        body: &Body,
        facts: &[InputFact],
        wanted: &[ValueId],
        pattern: &Pattern,
        graph_sizes: usize,
    ) -> Option<Prepared> {
        let made = self.try_symbolic(executor, body, facts, wanted, pattern, graph_sizes);
        match made {
            Ok(prepared) => {
                add(&executor.totals().symbolic_plans, 1);
                Some(prepared)
            }
            Err(e) => {
                add(&executor.totals().symbolic_refusals, 1);
                executor.log_plans(format_args!("sizes stay static: {e}"));
                self.plans.family(&body.key.structure).static_only = true;
                None
            }
        }
    }

    fn try_symbolic(
        &mut self,
        executor: &Executor,
        body: &Body,
        facts: &[InputFact],
        wanted: &[ValueId],
        pattern: &Pattern,
        graph_sizes: usize,
    ) -> Result<Prepared> {
        if pattern.varies_from(graph_sizes) {
            return Err(Error::new(Kind::Unsupported, "a stride of an input varies"));
        }
        let graph = pattern.rebuild(&body.graph)?;
        let dense = |(fact, id): (&InputFact, ValueId)| {
            let shape = &graph.ty(id).shape;
            let layout = if shape.is_static() { fact.layout.clone() } else { Layout::contiguous(&shape.sizes()) };
            InputFact { layout, ..fact.clone() }
        };
        let facts: Vec<InputFact> = facts.iter().zip(graph.inputs()).map(dense).collect();
        let request = Request { graph: &graph, inputs: &facts, wanted, target: executor.device().target() };
        let plan = executor.compiler().compile(&request)?;
        let fixed_strides =
            |o: &rtx_plan::Output| !o.ty.shape.is_static() && !o.layout.is_contiguous(&o.ty.shape.sizes());
        if plan.outputs.iter().any(fixed_strides) {
            return Err(Error::new(Kind::Unsupported, "an output of symbolic size is not dense"));
        }
        Prepared::new(executor, &mut self.codes, plan, facts.len())
    }
}
