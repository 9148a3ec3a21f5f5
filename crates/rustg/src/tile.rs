//! The second form of a kernel: instructions in phases, divided by the reductions they wait for.
//!
//! A *phase* walks the walk axis once. Its reductions are complete when the walk ends, and instructions that use
//! their results belong to later phases. Which axes form the tile, how large it is, and which registers hold what
//! depend on sizes and strides, which are launch arguments: that is settled when sizes are first met (`vm`), and
//! changes speed, never bits.
use crate::{AxisSet, Id, Nest, Store, halves, text};
use rtx_core::DType;
use std::fmt::Write;

/// A nest whose live instructions are ordered by phase, ready to run.
pub struct TileProg {
    pub(crate) nest: Nest,
    /// Of each instruction; ascending.
    pub(crate) phases: Vec<u32>,
    /// Of each instruction.
    pub(crate) types: Vec<DType>,
    /// The phase in which elements are stored: the last one that walks.
    pub(crate) store_phase: u32,
    pub(crate) bindings: crate::vm::Bindings,
}

/// Orders a nest's live instructions by phase: each one as late as its first use allows.
///
/// # Errors
/// What makes the nest ill formed, or what the tile VM has no kernel for.
pub fn schedule(nest: &Nest) -> Result<TileProg, String> {
    nest.verify()?;
    let nest = &halves::widen(nest);
    let live = find_live(nest);
    let stages = find_stages(nest);
    let walks = walking(nest);
    let store_phase = find_store_phase(nest, &live, &stages, &walks);
    // As late as the first use allows, so that registers are held shortly.
    let mut phases = vec![u32::MAX; nest.instrs.len()];
    let mut at_most = |id: Id, phase: u32| phases[id.index()] = phases[id.index()].min(phase);
    for store in &nest.stores {
        let phase = if store_walks(nest, store, &walks) { store_phase } else { stages[store.value.index()] };
        at_most(store.value, phase);
        store.view.indexed.iter().for_each(|i| at_most(i.index, stages[i.index.index()].max(phase)));
    }
    for (i, instr) in nest.instrs.iter().enumerate().rev().filter(|(i, _)| live[*i]) {
        if instr.is_reduction() {
            phases[i] = stages[i];
        }
        let phase = phases[i];
        instr.operands().into_iter().for_each(|a| {
            let own = &mut phases[a.index()];
            *own = (*own).min(phase);
        });
    }
    // An operand is never later than its users, and its position is before theirs: a stable sort keeps SSA order.
    let mut order: Vec<usize> = (0..nest.instrs.len()).filter(|&i| live[i]).collect();
    order.sort_by_key(|&i| phases[i]);
    let mut renamed = vec![Id(0); nest.instrs.len()];
    for (new, &old) in order.iter().enumerate() {
        renamed[old] = Id(new as u32);
    }
    let rename = |id: Id| renamed[id.index()];
    let mut ordered = Nest {
        instrs: order.iter().map(|&i| nest.instrs[i].map_operands(rename)).collect(),
        stores: nest.stores.clone(),
        ..nest.clone()
    };
    for store in &mut ordered.stores {
        store.value = rename(store.value);
        store.view = store.view.map_indices(rename);
    }
    TileProg::new(ordered, order.iter().map(|&i| phases[i]).collect())
}

impl TileProg {
    fn new(nest: Nest, phases: Vec<u32>) -> Result<TileProg, String> {
        crate::vm::check_supported(&nest)?;
        let live = vec![true; nest.instrs.len()];
        let (stages, walks) = (find_stages(&nest), walking(&nest));
        for (i, instr) in nest.instrs.iter().enumerate() {
            let late = instr.operands().into_iter().find(|a| phases[a.index()] > phases[i]);
            let exact = instr.is_reduction() && phases[i] != stages[i];
            if late.is_some() || exact || phases[i] < stages[i] || i > 0 && phases[i - 1] > phases[i] {
                return Err(format!("%{i} cannot be in phase {}", phases[i]));
            }
        }
        let store_phase = find_store_phase(&nest, &live, &stages, &walks);
        let types = nest.dtypes();
        Ok(TileProg { types, store_phase, phases, nest, bindings: Default::default() })
    }

    /// Bytes of an element of each buffer.
    pub(crate) fn element_sizes(&self) -> Vec<isize> {
        self.nest.buffers.iter().map(|b| b.dtype.size() as isize).collect()
    }

    /// The nest it computes, instructions in the order of phases.
    pub fn nest(&self) -> &Nest {
        &self.nest
    }

    /// The program as text; [`TileProg::parse`] is its inverse.
    pub fn print(&self) -> String {
        let mut out = String::new();
        text::print_header(&mut out, "tile", &self.nest);
        let mut phase = None;
        for (i, instr) in self.nest.instrs.iter().enumerate() {
            if phase != Some(self.phases[i]) {
                phase = Some(self.phases[i]);
                _ = writeln!(out, "phase {}", self.phases[i]);
            }
            text::print_instr(&mut out, i, instr, self.types[i]);
        }
        self.nest.stores.iter().for_each(|s| text::print_store(&mut out, s));
        out
    }

    /// Reads a program and checks it.
    ///
    /// # Errors
    /// What is wrong and in which line.
    pub fn parse(text: &str) -> Result<TileProg, String> {
        let (nest, phases) = text::parse(text, "tile")?;
        TileProg::new(nest, phases)
    }
}

/// Which instructions some store needs.
fn find_live(nest: &Nest) -> Vec<bool> {
    let mut live = vec![false; nest.instrs.len()];
    for store in &nest.stores {
        live[store.value.index()] = true;
        store.view.indexed.iter().for_each(|i| live[i.index.index()] = true);
    }
    for (i, instr) in nest.instrs.iter().enumerate().rev() {
        if live[i] {
            instr.operands().into_iter().for_each(|a| live[a.index()] = true);
        }
    }
    live
}

/// How many reductions in a row come before each instruction.
fn find_stages(nest: &Nest) -> Vec<u32> {
    let mut stages: Vec<u32> = Vec::with_capacity(nest.instrs.len());
    for instr in &nest.instrs {
        let after = |a: Id| stages[a.index()] + nest.instrs[a.index()].is_reduction() as u32;
        stages.push(instr.operands().into_iter().map(after).max().unwrap_or(0));
    }
    stages
}

/// Which instructions vary over the walk axis.
pub(crate) fn walking(nest: &Nest) -> Vec<bool> {
    let walk: AxisSet = nest.walk().map_or(0, |w| 1 << w.0);
    nest.axis_sets().into_iter().map(|set| set & walk != 0).collect()
}

/// Does a store happen at every point of the walk?
pub(crate) fn store_walks(nest: &Nest, store: &Store, walks: &[bool]) -> bool {
    let named = nest.walk().is_some_and(|w| store.view.axis_set() >> w.0 & 1 != 0);
    named || walks[store.value.index()] || store.view.indexed.iter().any(|i| walks[i.index.index()])
}

/// The last phase that has to walk.
fn find_store_phase(nest: &Nest, live: &[bool], stages: &[u32], walks: &[bool]) -> u32 {
    let available = |id: Id| stages[id.index()] + nest.instrs[id.index()].is_reduction() as u32;
    let walking = (0..nest.instrs.len()).filter(|&i| live[i] && (walks[i] || nest.instrs[i].is_reduction()));
    let stored = nest.stores.iter().filter(|s| store_walks(nest, s, walks)).flat_map(|s| {
        let indices = s.view.indexed.iter().map(|i| i.index);
        indices.chain([s.value])
    });
    walking.map(|i| stages[i]).chain(stored.map(available)).max().unwrap_or(0)
}
