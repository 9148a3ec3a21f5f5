//! The plan itself: kernel texts, steps with their arguments, outputs, counters.
use crate::lower::{Argument, Launch, Lowered};
use crate::memory::Homes;
use crate::schedule::Steps;
use crate::work::Work;
use rtx_core::{Dim, Error, Kind, Result, SymId};
use rtx_hal::{KernelSource, Lang};
use rtx_ir::NodeId;
use rtx_plan::{BufferArg, Instance, Output, Plan, Request, SizeExpr, Step};
use rustg::{BufferId, Instr, Nest};
use std::collections::{BTreeMap, HashMap};

/// Writes the plan.
pub(crate) fn assemble(
    request: &Request<'_>,
    work: &Work,
    lowered: &Lowered,
    steps: &Steps,
    homes: &Homes,
) -> Result<Plan> {
    let mut plan = Plan {
        kernels: vec![],
        steps: vec![],
        outputs: vec![],
        arena_bytes: homes.arena_bytes,
        constants: homes.constants.clone(),
        params: request.graph.params().len() as u32,
        symbols: symbols(work),
        counters: vec![],
    };
    let mut known = Known::default();
    for members in steps {
        let mut by_kernel: Vec<(u32, Step)> = vec![];
        for &i in members.iter().filter(|&&i| !homes.elided[i]) {
            let launch = settled(&lowered.launches[i], &homes.in_place[i]);
            let kernel = kernel_of(&mut plan, &mut known, work, &launch)?;
            let step = match by_kernel.iter_mut().position(|s| s.0 == kernel) {
                Some(k) => &mut by_kernel[k].1,
                None => {
                    by_kernel.push((kernel, Step { kernel, instances: vec![], origins: vec![] }));
                    let last = by_kernel.len() - 1;
                    &mut by_kernel[last].1
                }
            };
            let buffer = |a: &Argument| BufferArg {
                place: homes.place[&a.mem],
                offset_bytes: &a.offset * &SizeExpr::constant(a.dtype.size() as i64),
            };
            let buffers = launch.arguments.iter().map(buffer).collect();
            step.instances.push(Instance { buffers, sizes: launch.sizes.clone() });
            step.origins.extend(origins(work, &launch));
        }
        plan.steps.extend(by_kernel.into_iter().map(|s| s.1));
    }
    for step in &mut plan.steps {
        let mut seen = std::collections::HashSet::new();
        step.origins.retain(|o| seen.insert(*o));
    }
    plan.outputs = (request.wanted.iter().zip(&work.wanted).zip(&homes.outputs))
        .map(|((&value, &w), (place, layout))| Output {
            value,
            ty: work.graph.ty(w).clone(),
            place: *place,
            layout: layout.clone(),
        })
        .collect();
    Ok(plan)
}

/// Recorded nodes behind a launch; one that checks indices comes first, for its line is the one to report.
fn origins(work: &Work, launch: &Launch) -> Vec<NodeId> {
    let mut nodes = launch.nodes.clone();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.sort_by_key(|&n| {
        let checks = matches!(work.graph.node(n).op.prim(), Some(rtx_ir::Prim::Gather { .. }));
        !(checks || launch.native.is_some() && work.claims.contains_key(&n))
    });
    nodes.iter().flat_map(|n| work.origins[n.index()].iter().copied()).collect()
}

/// The launch with the arguments that share memory made one.
fn settled(launch: &Launch, in_place: &[(usize, usize)]) -> Launch {
    let mut launch = launch.clone();
    let mut pairs = in_place.to_vec();
    pairs.sort_by_key(|p| std::cmp::Reverse(p.1));
    for (r, w) in pairs {
        let position = |launch: &Launch, a: usize| launch.nest_arguments.iter().position(|&x| x == a);
        let (Some(read), Some(written)) = (position(&launch, r), position(&launch, w)) else { continue };
        if let Some(nest) = &mut launch.nest {
            share_buffer(nest, BufferId(read as u32), BufferId(written as u32));
        }
        launch.arguments[r].written = true;
        launch.arguments.remove(w);
        launch.nest_arguments.remove(written);
        launch.nest_arguments.iter_mut().filter(|a| **a > w).for_each(|a| *a -= 1);
    }
    launch
}

/// Stores to `written` go to the element that is loaded from `read`; `written` is no buffer any more.
fn share_buffer(nest: &mut Nest, read: BufferId, written: BufferId) {
    let loaded = nest.instrs.iter().find_map(|i| match i {
        Instr::Load(view) if view.buffer == read => Some(view.clone()),
        _ => None,
    });
    let Some(loaded) = loaded else { return };
    nest.stores.iter_mut().filter(|s| s.view.buffer == written).for_each(|s| s.view = loaded.clone());
    nest.buffers[read.index()].written = true;
    nest.buffers.remove(written.index());
    let renumber = |b: &mut BufferId| {
        if b.0 > written.0 {
            b.0 -= 1;
        }
    };
    for instr in &mut nest.instrs {
        if let Instr::Load(view) = instr {
            renumber(&mut view.buffer);
        }
    }
    nest.stores.iter_mut().for_each(|s| renumber(&mut s.view.buffer));
}

/// The kernel's number; its text is made once.
fn kernel_of(plan: &mut Plan, known: &mut Known, work: &Work, launch: &Launch) -> Result<u32> {
    let nest = launch.nest.as_ref().map(Nest::print);
    let key = (launch.native.clone(), nest);
    if let Some(&k) = known.launches.get(&key) {
        return Ok(k);
    }
    let tile = launch.nest.as_ref().map(tile_text).transpose()?;
    let (lang, text) = match (&launch.native, tile) {
        (Some(native), Some(tile)) => (Lang::Native, format!("{native}\n{tile}")),
        (Some(native), None) => (Lang::Native, native.clone()),
        (None, Some(tile)) => (Lang::Tile, tile),
        (None, None) => return Err(Error::new(Kind::Internal, "compile: a launch of nothing")),
    };
    let k = *known.texts.entry(text.clone()).or_insert(plan.kernels.len() as u32);
    if k as usize == plan.kernels.len() {
        plan.kernels.push(KernelSource { name: name_of(work, launch), lang, text });
    }
    known.launches.insert(key, k);
    Ok(k)
}

/// Kernels by what they were made of, and by their texts.
#[derive(Default)]
struct Known {
    launches: HashMap<(Option<String>, Option<String>), u32>,
    texts: HashMap<String, u32>,
}

/// A nest as the text that the device is given.
fn tile_text(nest: &Nest) -> Result<String> {
    let wrong = |e| Error::new(Kind::Unsupported, format!("compile: no tile program: {e}")).hint(nest.print());
    Ok(rustg::schedule(nest).map_err(wrong)?.print())
}

/// The ops of a launch, for traces.
fn name_of(work: &Work, launch: &Launch) -> String {
    let mut nodes = launch.nodes.clone();
    nodes.sort_unstable();
    nodes.dedup();
    let moves = |n: &&NodeId| !crate::work::is_view_op(&work.graph.node(**n).op);
    let mut names: Vec<&str> = nodes.iter().filter(moves).map(|&n| work.graph.node(n).op.name()).collect();
    if names.is_empty() {
        names.push("copy");
    }
    let more = names.len().saturating_sub(4);
    names.truncate(4);
    let text = names.join("_");
    if more > 0 { format!("{text}_and_{more}") } else { text }
}

/// Every symbol of the region, with the largest of its bounds.
fn symbols(work: &Work) -> Vec<(SymId, u64)> {
    let mut found: BTreeMap<SymId, u64> = BTreeMap::new();
    for (_, node) in work.graph.iter() {
        for v in node.outs() {
            for d in work.graph.ty(v).shape.iter() {
                if let Dim::Sym { id, max } = d {
                    let bound = found.entry(id).or_default();
                    *bound = max.max(*bound);
                }
            }
        }
    }
    found.into_iter().collect()
}
