//! Plans that fit in a memory budget: values are computed again instead of kept until the plan is small enough.
use crate::memory::size_class;
use crate::runner::Job;
use rtx_autograd::{Recomputation, Rewritten};
use rtx_core::Result;
use rtx_ir::ValueId;
use rtx_plan::{OutputPlace, Plan, Request};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// Plans that are made for one region at most.
const TRIES: usize = 12;

/// What a plan that was made under a memory budget came to. Bytes are those of its inputs, its results and what lies
/// between them.
///
/// Unstable: for reports; may get another form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetReport {
    /// What it may take.
    pub budget_bytes: u64,
    /// What it would take if everything were kept.
    pub kept_bytes: u64,
    /// What it takes.
    pub peak_bytes: u64,
    /// How many values are computed again.
    pub recomputed: usize,
    /// Bytes of these.
    pub recomputed_bytes: u64,
    /// Plans that were made to find it.
    pub tries: usize,
}

impl BudgetReport {
    /// Is the plan within its budget?
    pub fn fits(&self) -> bool {
        self.peak_bytes <= self.budget_bytes
    }
}

impl fmt::Display for BudgetReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "memory budget {}: {} with everything kept, {} with {} values ({} bytes) computed again",
            self.budget_bytes, self.kept_bytes, self.peak_bytes, self.recomputed, self.recomputed_bytes
        )
    }
}

/// Bytes that a plan takes when it runs: its inputs' memory, its results, its arena.
pub(crate) fn plan_bytes(job: &Job<'_>, plan: &Plan) -> u64 {
    let mut seen = HashSet::new();
    let memories = job.storages.iter().flatten().map(|s| &s.memory).filter(|m| seen.insert(Arc::as_ptr(m)));
    let inputs: u64 = memories.map(|m| m.bytes() as u64).sum();
    let own = |bytes: u64| if bytes == 0 { 0 } else { size_class(bytes as usize) as u64 };
    let slot = |place: &OutputPlace| if let OutputPlace::Slot(b) = place { size_class(*b as usize) as u64 } else { 0 };
    let slots: u64 = plan.outputs.iter().map(|o| slot(&o.place)).sum();
    inputs + slots + own(plan.arena_bytes) + own(8 * u64::from(plan.params)) + own(plan.constants.len() as u64)
}

/// A plan for a region that takes no more than `budget` bytes, or the smallest that was found.
pub(crate) fn fit(job: &Job<'_>, budget: u64) -> Result<Plan> {
    let plan = job.compile(&job.body.graph, job.facts)?;
    let kept_bytes = plan_bytes(job, &plan);
    let mut report = BudgetReport {
        budget_bytes: budget,
        kept_bytes,
        peak_bytes: kept_bytes,
        recomputed: 0,
        recomputed_bytes: 0,
        tries: 1,
    };
    let mut best = plan;
    if kept_bytes > budget {
        let mut choice = Recomputation::new(&job.body.graph, job.wanted);
        let mut target = choice.peak();
        // What is alive at the fullest point in the estimate stands for what is above the least in the plan.
        let mut step = (kept_bytes - budget).max(kept_bytes / 50);
        while report.tries < TRIES && !report.fits() {
            let more = choice.lower(target);
            let plan = compile_again(job, &choice.rewrite(1))?;
            let bytes = plan_bytes(job, &plan);
            report.tries += 1;
            if bytes < report.peak_bytes {
                (report.peak_bytes, best) = (bytes, plan);
                (report.recomputed, report.recomputed_bytes) = (choice.count(), choice.bytes());
            }
            if !more {
                break;
            }
            step = bytes.saturating_sub(budget).max(kept_bytes / 50).min(step.max(1) * 2);
            target = choice.peak().saturating_sub(step);
        }
    }
    job.executor.set_budget_report(report);
    Ok(best)
}

/// A plan for another form of the region, in the region's own ids.
fn compile_again(job: &Job<'_>, new: &Rewritten) -> Result<Plan> {
    let wanted: Vec<ValueId> = job.wanted.iter().map(|v| new.values[v.index()]).collect();
    let target = job.executor.device().target();
    let request = Request { graph: &new.graph, inputs: job.facts, wanted: &wanted, target };
    let mut plan = job.executor.compiler().compile(&request)?;
    for output in &mut plan.outputs {
        if let Ok(at) = wanted.binary_search(&output.value) {
            output.value = job.wanted[at];
        }
    }
    for origin in plan.steps.iter_mut().flat_map(|s| &mut s.origins) {
        *origin = new.origins[origin.index()];
    }
    Ok(plan)
}
