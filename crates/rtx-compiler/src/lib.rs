//! The compiler: from a recorded region to a plan, for any device that claims and tile programs describe.
//!
//! [`Compiler::compile`] is the whole pipeline, one line a pass. Knows no drivers: what it writes is text and numbers.

mod assemble;
mod canonical;
mod dump;
#[cfg(test)]
mod filetests;
mod fuse;
mod import;
mod index;
mod layout;
mod lower;
mod memory;
mod pieces;
mod schedule;
mod simplify;
mod views;
mod work;

pub use fuse::Fusion;

use rtx_core::Result;
use rtx_plan::{Claim, Compile, Plan, Request};
use std::sync::Arc;

/// Makes plans of regions.
pub struct Compiler {
    claims: Vec<Arc<dyn Claim>>,
    fusion: Fusion,
}

impl Compiler {
    /// A compiler that offers every node to these claims, in order.
    pub fn new(claims: Vec<Arc<dyn Claim>>) -> Self {
        Self { claims, fusion: Fusion::Full }
    }
    /// The same with every node a kernel of its own: slower, and the same bits.
    #[must_use]
    pub fn with_fusion(mut self, fusion: Fusion) -> Self {
        self.fusion = fusion;
        self
    }
}

impl Compile for Compiler {
    fn compile(&self, request: &Request<'_>) -> Result<Plan> {
        dump::graph("recorded", request.graph);
        // Live nodes only; claims asked; bodies of unclaimed composites inlined; each node simplified, equal ones merged.
        let (mut work, imported) = import::import(request, &self.claims)?;
        // Results of native kernels lie as their readers walk them.
        layout::choose_layouts(&mut work);
        // What is made for nothing but a concatenation lies in it.
        layout::choose_parts(&mut work);
        dump::graph("expanded", &work.graph);
        // Nodes that walk the same points become one unit; movement becomes indices; epilogues join their kernels.
        let fused = fuse::fuse(&work, self.fusion)?;
        // Each unit becomes a launch: axes merged, addresses strides, sizes arguments; what no axis walks is copied.
        let lowered = lower::lower(&work, &fused.units)?;
        dump::kernels(&lowered);
        // Recorded order, updates of state last; small independent launches of one kernel become one step.
        let steps = schedule::schedule(&work, &lowered);
        // Copies of dead memory elided, results over dead operands, donated state kept in place, the arena cut.
        let homes = memory::plan_memory(&work, &lowered, &steps, &fused.views);
        // Texts, arguments and outputs as data.
        let mut plan = assemble::assemble(request, &work, &lowered, &steps, &homes)?;
        plan.counters = dump::counters(&work, &imported, &fused, &lowered, &homes, &plan);
        dump::plan(&plan);
        Ok(plan)
    }
}
