//! [`Runner`]: a region's key finds a plan or makes one, and the plan runs.
use crate::cache::{PlanCache, Sizes};
use crate::counters::add;
use crate::prepared::{CodeCache, Done, Failed, Prepared, Run, Workspace};
use crate::region::Body;
use crate::symbolic::Pattern;
use crate::value::Storage;
use crate::{Executor, budget, miss};
use rtx_core::{DType, Error, Kind, Layout, Result, SymId};
use rtx_ir::{Graph, Type, ValueId};
use rtx_plan::{InputFact, Output, OutputPlace, Plan, Request};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What runs the regions of an executor, one after the other.
pub(crate) struct Runner {
    plans: PlanCache,
    codes: CodeCache,
    workspace: Workspace,
    /// Room for the key of the region that runs.
    key: FullKey,
}

/// A region that is about to run.
pub(crate) struct Job<'a> {
    pub(crate) executor: &'a Executor,
    pub(crate) body: &'a Body,
    pub(crate) facts: &'a [InputFact],
    /// The memory of each input; `None` for a poisoned one, which nothing that is wanted reads.
    pub(crate) storages: &'a [Option<Storage>],
    /// Ascending.
    pub(crate) wanted: &'a [ValueId],
}

/// A region's whole key: that of its graph, then what is known of its inputs.
#[derive(Default)]
pub(crate) struct FullKey {
    pub(crate) structure: Vec<u8>,
    pub(crate) dims: Vec<u64>,
    pub(crate) wanted: Vec<u32>,
    /// Where each input's facts start in `structure`.
    pub(crate) fact_starts: Vec<usize>,
}

// Flags of an input's facts in the key.
pub(crate) const DONATED: u8 = 1;
pub(crate) const DENSE: u8 = 2;
const SHARED: u8 = 4;
pub(crate) const ABSENT: u8 = 8;

type Symbols = SmallVec<[(SymId, i64); 2]>;

impl Job<'_> {
    /// Writes the region's key over another one.
    fn write_key(&self, key: &mut FullKey) {
        let FullKey { structure, dims, wanted, fact_starts } = key;
        structure.clear();
        structure.extend_from_slice(&self.body.key.structure);
        dims.clear();
        dims.extend_from_slice(&self.body.key.dims);
        wanted.clear();
        wanted.extend(self.wanted.iter().map(|v| v.0));
        fact_starts.clear();
        for ((fact, value), storage) in self.facts.iter().zip(&self.body.inputs).zip(self.storages) {
            key.push_fact(fact, &value.ty().shape.sizes(), storage.is_none());
        }
        if let Some(bytes) = self.body.budget {
            key.fact_starts.push(key.structure.len());
            key.structure.extend_from_slice(b"budget");
            key.structure.extend_from_slice(&bytes.to_le_bytes());
        }
    }

    pub(crate) fn compile(&self, graph: &Graph, facts: &[InputFact]) -> Result<Plan> {
        let target = self.executor.device().target();
        self.executor.compiler().compile(&Request { graph, inputs: facts, wanted: self.wanted, target })
    }
}

impl FullKey {
    fn push_fact(&mut self, fact: &InputFact, sizes: &[usize], absent: bool) {
        self.fact_starts.push(self.structure.len());
        let contiguous = fact.layout.is_contiguous(sizes);
        let flags = [(fact.donated, DONATED), (contiguous, DENSE), (fact.alias.is_some(), SHARED), (absent, ABSENT)];
        self.structure.push(flags.iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum());
        if let Some(first) = fact.alias {
            self.structure.extend_from_slice(&first.to_le_bytes());
        }
        if !contiguous {
            self.dims.extend(fact.layout.strides.iter().map(|&s| s as u64));
        }
    }
}

impl Runner {
    pub(crate) fn new(plan_bytes: usize) -> Self {
        let (plans, codes) = (PlanCache::new(plan_bytes), CodeCache::default());
        Self { plans, codes, workspace: Workspace::default(), key: FullKey::default() }
    }

    /// Gives the memory that is dead between runs back to the device.
    pub(crate) fn discard_workspace(&mut self) {
        self.workspace.discard()
    }

    /// Finds or makes the plan and runs it: where the wanted values lie, and the plan.
    ///
    /// # Errors
    /// Whether anything was written by then says [`Failed`].
    pub(crate) fn run(&mut self, job: &Job<'_>) -> Result<(Done, Arc<Prepared>), Failed> {
        let body = job.body;
        if body.input_ids.len() != body.graph.inputs().count() {
            return Err(Error::new(Kind::Internal, "an input was recorded without a value").into());
        }
        let (prepared, symbols) = self.plan(job)?;
        job.executor.totals().plan_peak.store(budget::plan_bytes(job, &prepared.plan), Relaxed);
        let typed = |(storage, id): (&Option<Storage>, &ValueId)| Some((storage.clone()?, body.graph.ty(*id).dtype));
        let inputs: Vec<Option<(Storage, DType)>> = job.storages.iter().zip(&body.input_ids).map(typed).collect();
        let run = Run { prepared: &prepared, inputs: &inputs, params: body.graph.params(), symbols: &symbols };
        let done = self.workspace.replay(job.executor, &run).map_err(|failed| match failed {
            Failed::InStep { step, error } => {
                Failed::InStep { step, error: name_step(body, &prepared.plan, step, &error) }
            }
            before => before,
        })?;
        count_donations(job, &prepared.plan);
        Ok((done, prepared))
    }

    /// The plan for a region, from the cache or from the compiler, and the values of its symbols.
    fn plan(&mut self, job: &Job<'_>) -> Result<(Arc<Prepared>, Symbols)> {
        let mut key = std::mem::take(&mut self.key);
        job.write_key(&mut key);
        let found = match self.plans.find(&key.structure, &key.dims, &key.wanted) {
            Some(entry) => {
                add(&job.executor.totals().replays, 1);
                Ok((entry.prepared.clone(), entry.sizes.symbols(&key.dims)))
            }
            None => {
                job.executor.set_last_miss(miss::explain(&self.plans, job.body, &key));
                self.compile(job, &key)
            }
        };
        self.key = key;
        found
    }

    fn compile(&mut self, job: &Job<'_>, key: &FullKey) -> Result<(Arc<Prepared>, Symbols)> {
        add(&job.executor.totals().plans_compiled, 1);
        let family = self.plans.family(&key.structure);
        let pattern =
            if family.static_only || job.body.budget.is_some() { None } else { Pattern::find(&family.seen, &key.dims) };
        family.see(&key.dims);
        let symbolic = pattern.and_then(|pattern| Some((self.compile_symbolic(job, key, &pattern)?, pattern)));
        let (prepared, sizes) = match symbolic {
            Some((prepared, pattern)) => (prepared, Sizes::Symbolic(pattern)),
            None => {
                let plan = match job.body.budget {
                    Some(bytes) => budget::fit(job, bytes)?,
                    None => job.compile(&job.body.graph, job.facts)?,
                };
                (self.prepare(job, plan)?, Sizes::Exactly(key.dims.as_slice().into()))
            }
        };
        let (prepared, symbols) = (Arc::new(prepared), sizes.symbols(&key.dims));
        let gone = self.plans.insert(&key.structure, sizes, &key.wanted, prepared.clone());
        add(&job.executor.totals().plans_evicted, gone);
        Ok((prepared, symbols))
    }

    /// A plan with symbols; `None`, counted and logged, where some op or the compiler refuses them.
    fn compile_symbolic(&mut self, job: &Job<'_>, key: &FullKey, pattern: &Pattern) -> Option<Prepared> {
        match self.try_symbolic(job, pattern) {
            Ok(prepared) => {
                add(&job.executor.totals().symbolic_plans, 1);
                job.executor.log_plans(format_args!("sizes turn symbolic"));
                Some(prepared)
            }
            Err(e) => {
                add(&job.executor.totals().symbolic_refusals, 1);
                job.executor.log_plans(format_args!("sizes stay static: {e}"));
                self.plans.family(&key.structure).static_only = true;
                None
            }
        }
    }

    fn try_symbolic(&mut self, job: &Job<'_>, pattern: &Pattern) -> Result<Prepared> {
        if pattern.varies_from(job.body.key.dims.len()) {
            return Err(Error::new(Kind::Unsupported, "a stride of an input varies"));
        }
        let graph = pattern.rebuild(&job.body.graph)?;
        let widened = |(fact, id): (&InputFact, &ValueId)| {
            let (shape, sizes) = (&graph.ty(*id).shape, job.body.graph.ty(*id).shape.sizes());
            // Strides of an input that is not dense are in the key and do not vary: they hold for every size.
            let dense = !shape.is_static() && fact.layout.is_contiguous(&sizes);
            let layout = if dense { Layout::contiguous(&shape.sizes()) } else { fact.layout.clone() };
            InputFact { layout, ..fact.clone() }
        };
        let facts: Vec<InputFact> = job.facts.iter().zip(&job.body.input_ids).map(widened).collect();
        let plan = job.compile(&graph, &facts)?;
        let prepared = self.prepare(job, plan)?;
        let plan = &prepared.plan;
        let inputs: Vec<&Type> = job.body.input_ids.iter().map(|id| graph.ty(*id)).collect();
        if !plan.outputs.iter().all(|o| is_dense_and_whole(o, &inputs, plan)) {
            return Err(Error::new(Kind::Unsupported, "an output of a symbolic plan is not dense"));
        }
        Ok(prepared)
    }

    fn prepare(&mut self, job: &Job<'_>, plan: Plan) -> Result<Prepared> {
        Prepared::new(job.executor, &mut self.codes, plan, job.facts.len())
    }
}

/// Is an output dense, and all of its memory? An output's layout is numbers, so no other one could be told where it
/// depends on symbols.
fn is_dense_and_whole(output: &Output, inputs: &[&Type], plan: &Plan) -> bool {
    let bytes = output.ty.bytes();
    let whole = match output.place {
        OutputPlace::Slot(_) => true,
        OutputPlace::Donated(i) | OutputPlace::Input(i) => inputs[i as usize].bytes() == bytes,
        OutputPlace::Output(k) => plan.outputs[k as usize].ty.bytes() == bytes,
    };
    whole && output.layout.offset == 0 && output.layout.is_contiguous(&output.ty.shape.sizes())
}

/// The error of a step, with the op, the line and the part of the model that it came from.
pub(crate) fn name_step(body: &Body, plan: &Plan, step: usize, error: &Error) -> Error {
    let origin = plan.steps.get(step).and_then(|s| s.origins.first());
    let Some(&origin) = origin.filter(|n| n.index() < body.graph.nodes().len()) else { return error.clone() };
    let node = body.graph.node(origin);
    let message = format!("{}: {}", node.op.name(), error.message());
    let named = Error::new(error.kind(), message).recorded_at(node.location);
    match body.scope_of(origin) {
        Some(path) => named.in_scope(path),
        None => named,
    }
}

fn count_donations(job: &Job<'_>, plan: &Plan) {
    let given = plan.outputs.iter().filter(|o| matches!(o.place, OutputPlace::Donated(_))).count();
    add(&job.executor.totals().donations, given);
    let in_slot = |id| plan.outputs.iter().any(|o| o.value == id && matches!(o.place, OutputPlace::Slot(_)));
    let kept = |old| job.body.input_position(old).is_some_and(|i| !job.facts[i].donated);
    let copies = job.body.replaced.iter().filter(|(new, old)| kept(*old) && in_slot(*new)).count();
    add(&job.executor.totals().copies, copies);
}
