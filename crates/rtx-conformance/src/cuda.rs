//! What holds on an NVIDIA GPU: every sample gives there what it gives on the CPU.
use crate::on_device::{check, is_refusal, run_whole, sample_graph};
use rtx_core::DType;
use rtx_ir::{Op, OpDef, prims};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Every sample of the table with its floats as they are written, then as each half.
pub(crate) fn samples(floats: &[Option<DType>]) -> Vec<(&'static OpDef, &'static rtx_ir::Sample, Option<DType>)> {
    let defs = || prims::ALL.iter().chain(rtx_ops::ALL).copied();
    let of = |f: Option<DType>| defs().flat_map(move |d| d.samples.iter().map(move |s| (d, s, f)));
    floats.iter().flat_map(|f| of(*f)).collect()
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
