//! What holds on an NVIDIA GPU: every kernel compiles for every architecture (no GPU needed), and every sample gives
//! on the GPU what it gives on the CPU.
use crate::on_device::{check, is_refusal, run_whole, sample_graph};
use rtx_core::{DType, Layout};
use rtx_cuda::Text;
use rtx_hal::{KernelSource, Target};
use rtx_ir::{Op, OpDef, prims};
use rtx_plan::{Compile, InputFact, Request};
use rtx_testkit::graphs::RandomGraph;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The architectures that kernels are compiled for: Ampere, Hopper, data-centre and desktop Blackwell.
pub const ARCHITECTURES: [&str; 4] = ["sm_80", "sm_90a", "sm_100a", "sm_120a"];

/// Every sample of the table with its floats as they are written, then as each half.
fn samples(floats: &[Option<DType>]) -> Vec<(&'static OpDef, &'static rtx_ir::Sample, Option<DType>)> {
    let defs = || prims::ALL.iter().chain(rtx_ops::ALL).copied();
    let of = |f: Option<DType>| defs().flat_map(move |d| d.samples.iter().map(move |s| (d, s, f)));
    floats.iter().flat_map(|f| of(*f)).collect()
}

/// The texts of all kernels that a graph's plan has on a GPU, by the ops they are for.
fn texts_of(g: &RandomGraph, into: &mut BTreeMap<Text, String>) -> Result<(), String> {
    let target = Target { family: "cuda", isa: "sm_90a", threads: 132 };
    let fact = |t: &rtx_ir::oracle::Tensor| InputFact {
        layout: Layout::contiguous(&t.ty.shape.sizes()),
        donated: false,
        alias: None,
    };
    let facts: Vec<InputFact> = g.inputs.iter().map(fact).collect();
    let request = Request { graph: &g.graph, inputs: &facts, wanted: &g.outputs, target: &target };
    let plan = rtx_device::cuda_compiler().compile(&request).map_err(|e| e.message().to_owned())?;
    let templates = rtx_kernel_cuda::templates();
    for step in &plan.steps {
        let source: &KernelSource = &plan.kernels[step.kernel as usize];
        for instance in &step.instances {
            let sizes: Option<Vec<i64>> = instance.sizes.iter().map(|s| s.known()).collect();
            let Some(sizes) = sizes else { continue };
            for text in rtx_cuda::texts(source, &templates, &sizes).map_err(|e| e.message().to_owned())? {
                into.entry(text).or_insert_with(|| source.name.clone());
            }
        }
    }
    Ok(())
}

/// All kernels of the table's samples, each text once, with the ops they are for.
///
/// # Errors
/// A sample whose plan cannot be made for another reason than that there is no kernel.
pub fn all_texts() -> Result<BTreeMap<Text, String>, String> {
    let mut texts = BTreeMap::new();
    for (def, sample, floats) in samples(&[None, Some(DType::BF16), Some(DType::F16)]) {
        let Some(g) = sample_graph(def, sample, floats)? else { continue };
        match texts_of(&g, &mut texts) {
            Err(e) if !is_refusal(&e) => return Err(format!("{}({}): {e}", def.name(), sample.args)),
            _ => {}
        }
    }
    Ok(texts)
}

/// What `compile` came to.
pub struct Compiled {
    /// Kernels compiled, over all architectures.
    pub kernels: usize,
    /// One line for each that does not compile or spills registers.
    pub faults: Vec<String>,
}

/// Compiles one kernel of every `every` for each architecture, without a GPU.
///
/// # Errors
/// Where there is no NVRTC, or the texts cannot be made.
pub fn compile(architectures: &[&str], every: usize) -> Result<Compiled, String> {
    let nvrtc = rtx_cuda::Nvrtc::open().map_err(|e| e.to_string())?;
    let texts = all_texts()?;
    let chosen: Vec<(&Text, &String)> = texts.iter().step_by(every.max(1)).collect();
    let pairs = architectures.iter().flat_map(|a| chosen.iter().map(move |(t, n)| (*a, *t, *n)));
    let work: Vec<_> = pairs.filter(|(a, t, _)| t.arch.is_none_or(|only| only == *a)).collect();
    let flags = [rtx_cuda::FLAGS.as_slice(), &["--ptxas-options=-v"]].concat();
    let found = crate::goldens::in_parallel(&work, |(arch, text, name)| {
        let fault =
            nvrtc.compile(&text.text, arch, &flags).map_or_else(|e| Some(e.to_string()), |done| spills(&done.log));
        Ok(fault.map(|fault| format!("{name} for {arch}: {fault}")))
    });
    let faults = found.map_err(|e| e.to_string())?.into_iter().flatten().collect();
    Ok(Compiled { kernels: work.len(), faults })
}

/// What the assembler says of registers that do not suffice.
fn spills(log: &str) -> Option<String> {
    // C75..: products of warp groups that wait for each other.
    let wrong = |l: &&str| l.contains("C75") || l.contains("bytes spill") && !l.contains(" 0 bytes spill stores");
    let line = log.lines().find(wrong)?;
    Some(line.trim().to_owned())
}

/// What `run_samples` came to.
#[derive(Default)]
pub struct Samples {
    /// The bits of the CPU.
    pub same: usize,
    /// Other bits, within the oracle's tolerance; which ops.
    pub close: BTreeSet<&'static str>,
    /// Said by name that there is no kernel; which ops.
    pub refused: BTreeSet<String>,
    /// What is wrong.
    pub faults: Vec<String>,
}

/// Runs samples on GPU 0 and on the CPU. `shard`: every n-th from the i-th on.
///
/// # Errors
/// Where there is no GPU.
pub fn run_samples(shard: (usize, usize), floats: &[Option<DType>], op: Option<&str>) -> Result<Samples, String> {
    let device = rtx_device::Device::cuda(0).map_err(|e| e.to_string())?;
    let mut out = Samples::default();
    let wanted = |d: &&OpDef| op.is_none_or(|name| d.name() == name);
    let all = samples(floats).into_iter().filter(|(d, ..)| wanted(d));
    for (def, sample, floats) in all.skip(shard.0).step_by(shard.1.max(1)) {
        let done = catch_unwind(AssertUnwindSafe(|| run_sample(&device, def, sample, floats)));
        let named = |what: &str| {
            let of = floats.map_or_else(String::new, |d| format!(" in {d}"));
            format!("{}({}){of}: {what}", def.name(), sample.args)
        };
        match done {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(true))) => out.same += 1,
            Ok(Ok(Some(false))) => _ = out.close.insert(def.name()),
            Ok(Err(e)) if is_refusal(&e) => _ = out.refused.insert(e.rsplit(": ").nth(1).unwrap_or(&e).to_owned()),
            Ok(Err(e)) => out.faults.push(named(&e)),
            Err(_) => out.faults.push(named("panics")),
        }
    }
    Ok(out)
}

/// Are the bits those of the CPU? `None`: the op does not take the type.
fn run_sample(
    device: &rtx_device::Device,
    def: &'static OpDef,
    sample: &rtx_ir::Sample,
    floats: Option<DType>,
) -> Result<Option<bool>, String> {
    let Some(g) = sample_graph(def, sample, floats)? else { return Ok(None) };
    rtx_runtime::set_eager(Some(false));
    let cpu = run_whole(rtx_device::cpu(), &g);
    let gpu = match (run_whole(device.executor(), &g), &cpu) {
        (Ok(gpu), _) => gpu,
        // A sample may fail on purpose: then it fails alike.
        (Err(e), Err(c)) if e.message() == c.message() => return Ok(Some(true)),
        (Err(e), _) => return Err(e.message().to_owned()),
    };
    let cpu = cpu.map_err(|e| e.message().to_owned())?;
    let differs = gpu.iter().zip(&cpu).find_map(|(g, c)| rtx_testkit::compare(g, c, 0).err());
    let Some(differs) = differs else { return Ok(Some(true)) };
    // Other bits: right all the same?
    check(device.executor(), &g).map_err(|e| format!("{e} (against the CPU: {differs})"))?;
    let composite = |o: &Op| matches!(o, Op::Composite(..));
    match g.graph.nodes().iter().any(|n| composite(&n.op) || matches!(n.op, Op::Prim(rtx_ir::Prim::Dot { .. }))) {
        true => Ok(Some(false)),
        false => Err(format!("other bits than the CPU: {differs}")),
    }
}
