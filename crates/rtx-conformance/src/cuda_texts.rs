//! Every kernel for NVIDIA GPUs compiles for every architecture, without spilled registers and without products that
//! wait for each other. Needs NVIDIA's compiler, and no GPU.
use crate::cuda::samples;
use crate::cuda_bench::training_programs;
use crate::cuda_check::cases;
use crate::goldens;
use crate::on_device::{is_refusal, sample_graph};
use rtx_core::{DType, Layout};
use rtx_cuda::Text;
use rtx_hal::{KernelSource, Target};
use rtx_ir::{Graph, ValueId};
use rtx_plan::{Compile, InputFact, Request};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The architectures that kernels are compiled for: Ampere, Hopper, data-centre and desktop Blackwell.
pub const ARCHITECTURES: [&str; 4] = ["sm_80", "sm_90a", "sm_100a", "sm_120a"];

/// The texts of all kernels that a graph's plan has on a GPU, by the ops they are for.
fn texts_of(graph: &Graph, wanted: &[ValueId], into: &mut Texts) -> Result<(), String> {
    let target = Target { family: "cuda", isa: "sm_90a", threads: 132 };
    let fact =
        |v: ValueId| InputFact { layout: Layout::contiguous(&graph.ty(v).shape.sizes()), donated: false, alias: None };
    let facts: Vec<InputFact> = graph.inputs().map(fact).collect();
    let request = Request { graph, inputs: &facts, wanted, target: &target };
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

/// Kernels by their texts, with the ops they are for.
pub type Texts = BTreeMap<Text, String>;

/// All kernels of the table's samples, each text once.
///
/// # Errors
/// A sample whose plan cannot be made for another reason than that there is no kernel.
pub fn of_samples() -> Result<Texts, String> {
    let mut texts = Texts::new();
    for (def, sample, floats) in samples(&[None, Some(DType::BF16), Some(DType::F16)]) {
        let Some(g) = sample_graph(def, sample, floats)? else { continue };
        match texts_of(&g.graph, &g.outputs, &mut texts) {
            Err(e) if !is_refusal(&e) => return Err(format!("{}({}): {e}", def.name(), sample.args)),
            _ => {}
        }
    }
    Ok(texts)
}

/// What the regions that this process runs on its CPU would be on a GPU: their kernels, or why not.
static SEEN: Mutex<(Texts, Vec<String>)> = Mutex::new((Texts::new(), Vec::new()));

fn seen() -> MutexGuard<'static, (Texts, Vec<String>)> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn see(graph: &Graph, wanted: &[ValueId]) {
    let (texts, refused) = &mut *seen();
    refused.extend(texts_of(graph, wanted, texts).err());
}

/// The kernels of programs too large for a sample: the cases of `cuda check`, and training steps. The programs run on
/// the CPU; the plans that a GPU would have are made beside.
///
/// # Errors
/// What has no plan on a GPU.
pub fn of_programs() -> Result<Texts, String> {
    rtx_runtime::set_observer(Some(see));
    let device = rustytorch::Device::cpu();
    let ran = cases(&device).into_iter().find_map(Result::err).map_or_else(training_programs, Err);
    let dir = goldens::default_dir();
    let ran = ran
        .and_then(|()| goldens::gpt::run(&dir.join("train/gpt")).map(|_| ()))
        .and_then(|()| goldens::cnn::run(&dir.join("train/cnn")).map(|_| ()))
        .and_then(|()| goldens::lstm::run(&dir.join("train/lstm")).map(|_| ()));
    rtx_runtime::set_observer(None);
    ran.map_err(|e| e.to_string())?;
    let (texts, refused) = std::mem::take(&mut *seen());
    refused.into_iter().next().map_or(Ok(texts), Err)
}

/// What `compile` came to.
pub struct Compiled {
    /// Kernels compiled, over all architectures.
    pub kernels: usize,
    /// One line for each that does not compile or spills registers.
    pub faults: Vec<String>,
}

/// Compiles kernels for each architecture: all that programs have and those written for one architecture; of the
/// samples' others one of every `every`.
///
/// # Errors
/// Where there is no NVRTC, or the texts cannot be made.
pub fn compile(architectures: &[&str], every: usize) -> Result<Compiled, String> {
    let nvrtc = rtx_cuda::Nvrtc::open().map_err(|e| e.to_string())?;
    let mut texts = of_samples()?;
    let mut nth = 0..;
    texts.retain(|text, _| text.arch.is_some() || nth.next().is_some_and(|i: usize| i.is_multiple_of(every.max(1))));
    texts.extend(of_programs()?);
    let chosen: Vec<(&Text, &String)> = texts.iter().collect();
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

/// What the assembler says of registers that do not suffice, with the entry that it says it of.
fn spills(log: &str) -> Option<String> {
    // C75..: products of warp groups that wait for each other.
    let wrong = |l: &str| l.contains("C75") || l.contains("bytes spill") && !l.contains(" 0 bytes spill stores");
    let mut entry = "";
    log.lines().find_map(|line| {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            entry = name;
        }
        wrong(line).then(|| format!("{entry}: {}", line.trim().trim_start_matches("ptxas").trim_start()))
    })
}

#[cfg(test)]
mod tests {
    use super::spills;

    #[test]
    fn spilled_registers_are_named() {
        let log = |stores: u32| {
            format!(
                "ptxas info    : Function properties for gemm\nptxas         .     8 bytes stack frame, {stores} bytes spill \
                 stores, 4 bytes spill loads\nptxas info    : Used 80 registers"
            )
        };
        assert_eq!(spills(&log(0)), None);
        let said = spills(&log(4));
        assert_eq!(said.as_deref(), Some("gemm: .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads"));
        let waits = "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized";
        assert!(spills(waits).is_some());
    }
}
