//! The canonical programs of `bench check`, on a device whose kernels do nothing.
use super::rows::{self, Work};
use crate::goldens::gpt::Sizes;
use rtx_compiler::Compiler;
use rtx_core::Result as CoreResult;
use rtx_cpu::NullDevice;
use rtx_hal::Lang;
use rtx_plan::{Compile, Plan, Request};
use rustytorch::{self as torch, Device, optim};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The decoder of the program `rtx`.
#[allow(dead_code, reason = "the program uses the rest")]
#[path = "../../../rtx-cli/src/gpt.rs"]
mod shipped;

/// Names and values, for one program.
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// One step of each, again and again.
pub(super) const PROGRAMS: &[(&str, fn() -> Work)] = &[
    ("mlp_step", || rows::mlp(|p| Box::new(optim::AdamW::new(p, 1e-3)))),
    ("cnn_step", rows::cnn),
    ("lstm_fb", rows::lstm),
    ("gpt_nano_step", || rows::gpt(Sizes { vocabulary: 256, context: 128, layers: 4, width: 128, heads: 4 }, 16)),
    ("decode", decode),
];

/// Steps after which nothing is new.
pub(super) const WARM: usize = 3;
/// Steps that are counted.
pub(super) const STEPS: usize = 10;

/// A token after another, from a cache; the context is not full before the steps are over.
fn decode() -> Work {
    let sizes = shipped::Sizes { vocabulary: 256, context: 64, layers: 2, width: 128, heads: 4 };
    // It lives as long as the process, as does the decoder that borrows it.
    let model: &'static shipped::Gpt = Box::leak(Box::new(shipped::Gpt::new(&sizes, 0.05)));
    let (mut decoder, mut ids) = (model.decoder(), vec![1i64; 8]);
    let mut is_new = true;
    Box::new(move || {
        if std::mem::take(&mut is_new) {
            decoder.prompt(&ids)?;
        }
        ids.push(1);
        decoder.next(&ids).map(drop)
    })
}

/// The house's compiler; what it makes is counted.
struct Watched {
    compiler: Compiler,
    counts: Mutex<Counts>,
    is_counting: AtomicU64,
}

impl Compile for Watched {
    fn compile(&self, request: &Request<'_>) -> CoreResult<Plan> {
        let plan = self.compiler.compile(request)?;
        if self.is_counting.load(Relaxed) == 1
            && let Ok(mut counts) = self.counts.lock()
        {
            let mut add = |name, n: usize| *counts.entry(name).or_default() += n as u64;
            add("plans", 1);
            add("kernels", plan.kernels.len());
            add("launches_in_plans", plan.steps.len());
            add("arena_bytes", plan.arena_bytes as usize);
            add("constant_bytes", plan.constants.len());
            let tiles = plan.kernels.iter().filter(|k| k.lang == Lang::Tile);
            add("tile_instructions", tiles.map(|k| k.text.lines().count()).sum());
        }
        Ok(plan)
    }
}

/// A program on its null device, ready to be stepped.
pub(super) struct Ready {
    pub work: Work,
    watched: Arc<Watched>,
}

impl Ready {
    /// Makes a fresh null device the default one, starts the program there and steps it until nothing is new.
    ///
    /// # Errors
    /// When a step fails.
    pub(super) fn new(make: fn() -> Work) -> torch::Result<Self> {
        let compiler = Compiler::new(rtx_kernel_cpu::claims());
        let watched = Arc::new(Watched { compiler, counts: Mutex::default(), is_counting: AtomicU64::new(0) });
        let executor = rtx_runtime::Executor::new(Arc::new(NullDevice::default()), watched.clone());
        torch::set_default_device(&Device::from(executor));
        torch::manual_seed(0);
        let mut work = make();
        torch::flush()?;
        watched.is_counting.store(1, Relaxed);
        (0..WARM).try_for_each(|_| work())?;
        Ok(Self { work, watched })
    }

    /// What its plans hold, and what a step of it does.
    ///
    /// # Errors
    /// When a step fails.
    pub(super) fn count(mut self) -> torch::Result<Counts> {
        let before = torch::counters();
        (0..STEPS).try_for_each(|_| (self.work)())?;
        let after = torch::counters();
        let steps = after.clone() - before;
        let mut counts = self.watched.counts.lock().map(|c| c.clone()).unwrap_or_default();
        counts.insert("new_plans_in_steps", steps.plans_compiled);
        counts.insert("allocations_in_steps", steps.device_allocations);
        counts.insert("regions_in_steps", steps.regions_run);
        counts.insert("launches_in_steps", steps.launches);
        counts.insert("kernel_runs_in_steps", steps.kernel_runs);
        counts.insert("copies_in_steps", steps.copies);
        counts.insert("plan_bytes", after.plan_peak_bytes);
        Ok(counts)
    }
}
