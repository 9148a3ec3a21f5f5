//! What the compiler says about its work: counters, and the forms that `RTX_DUMP` asks for.
use crate::fuse::Fused;
use crate::import::Imported;
use crate::lower::Lowered;
use crate::memory::Homes;
use crate::work::Work;
use rtx_ir::Graph;
use rtx_plan::{OutputPlace, Plan};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// What `RTX_DUMP` may name.
const FORMS: [&str; 4] = ["graph", "plan", "kernel", "source"];

/// Is this form among those that `RTX_DUMP=graph,plan,kernel,source` names? A word that is none is reported once.
fn wanted(form: &str) -> bool {
    static NAMED: OnceLock<Vec<String>> = OnceLock::new();
    let named = NAMED.get_or_init(|| {
        let list = std::env::var("RTX_DUMP").unwrap_or_default();
        let words = list.split(',').map(|w| w.trim().to_owned()).filter(|w| !w.is_empty());
        let (known, unknown): (Vec<_>, Vec<_>) = words.partition(|w| FORMS.contains(&w.as_str()));
        unknown.iter().for_each(|w| eprintln!("RTX_DUMP: there is no `{w}`; it takes {}", FORMS.join(", ")));
        known
    });
    named.iter().any(|w| w == form)
}

/// Prints a graph.
pub(crate) fn graph(stage: &str, graph: &Graph) {
    if wanted("graph") {
        eprintln!("# graph, {stage}\n{}", rtx_ir::text::print(graph));
    }
}

/// Prints a plan.
pub(crate) fn plan(plan: &Plan) {
    if wanted("plan") {
        eprintln!("# plan\n{plan}");
    }
    for (i, k) in plan.kernels.iter().enumerate().filter(|_| wanted("source")) {
        eprintln!("# source of kernel {i}: {}\n{}", k.name, k.text);
    }
}

/// Prints the nests that kernels are made of.
pub(crate) fn kernels(lowered: &Lowered) {
    for (i, nest) in lowered.launches.iter().enumerate().filter_map(|(i, l)| Some((i, l.nest.as_ref()?))) {
        if wanted("kernel") {
            eprintln!("# kernel of launch {i}\n{}", nest.print());
        }
    }
}

/// What was done, by name.
pub(crate) fn counters(
    work: &Work,
    imported: &Imported,
    fused: &Fused,
    lowered: &Lowered,
    homes: &Homes,
    plan: &Plan,
) -> Vec<(Cow<'static, str>, u64)> {
    let mut count: BTreeMap<&'static str, u64> = BTreeMap::new();
    count.insert("nodes", work.graph.nodes().len() as u64);
    count.insert("nodes_rewritten", imported.rewritten);
    count.insert("nodes_merged", imported.merged);
    count.insert("composites_expanded", imported.expanded);
    count.insert("kernels", plan.kernels.len() as u64);
    count.insert("steps", plan.steps.len() as u64);
    count.insert("instances", plan.steps.iter().map(|s| s.instances.len() as u64).sum());
    count.insert("steps_merged", plan.steps.iter().filter(|s| s.instances.len() > 1).count() as u64);
    let fused_groups = fused.units.iter().filter(|u| u.group.instrs > 1).count();
    count.insert("groups_fused", fused_groups as u64);
    count.insert("epilogues", fused.epilogues);
    count.insert("copies_elided", homes.elided.iter().filter(|e| **e).count() as u64);
    let copies = lowered.launches.iter().zip(&homes.elided).filter(|(l, elided)| !**elided && only_moves(l)).count();
    count.insert("copies", copies as u64);
    count.insert("in_place", homes.in_place.iter().map(|p| p.len() as u64).sum());
    let donated = plan.outputs.iter().filter(|o| matches!(o.place, OutputPlace::Donated(_))).count();
    count.insert("donated", donated as u64);
    count.insert("arena_bytes", plan.arena_bytes);
    for g in work.claims.values() {
        *count.entry(g.name).or_default() += 1;
    }
    count.into_iter().map(|(name, n)| (Cow::Borrowed(name), n)).collect()
}

/// Does the launch compute nothing?
fn only_moves(launch: &crate::lower::Launch) -> bool {
    launch.native.is_none()
        && launch.nest.as_ref().is_some_and(|n| matches!(n.instrs.as_slice(), [rustg::Instr::Load(_)]))
}
