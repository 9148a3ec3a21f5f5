//! [`Executor`]: one device with its plans, memory and counters.
use crate::budget::BudgetReport;
use crate::counters::{Counters, FlushReason, Totals};
use crate::held::Register;
use crate::memory::Pool;
use crate::owed::Owed;
use crate::record;
use crate::region::{Body, Region};
use crate::runner::Runner;
use crate::{lock, mode};
use rtx_core::{Error, Kind, Result};
use rtx_hal::Device;
use rtx_plan::Compile;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// One device with its plans, memory and counters. Cloning clones the handle.
#[derive(Clone)]
pub struct Executor(Arc<Shared>);

/// Bounds of an executor. The defaults are what the house ships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes since the last semantic point at which a region is cut.
    pub region_nodes: usize,
    /// Bytes of recorded values since the last semantic point at which a region is cut.
    pub region_bytes: usize,
    /// Bytes of keys and plans that are kept.
    pub plan_bytes: usize,
    /// Every op runs at once.
    pub eager: bool,
}

impl Default for Limits {
    fn default() -> Self {
        let eager = std::env::var("RTX_EAGER").is_ok_and(|v| v == "1");
        Self { region_nodes: 4096, region_bytes: 1 << 40, plan_bytes: 256 << 20, eager }
    }
}

/// What the handles of an executor share.
struct Shared {
    id: u64,
    device: Arc<dyn Device>,
    compiler: Arc<dyn Compile>,
    limits: Limits,
    pool: Arc<Pool>,
    totals: Totals,
    register: Register,
    /// Held while a thread appends to a region, so that one thread may close another's region between two of its
    /// record calls and never within one.
    recording: Mutex<()>,
    /// Held while a region runs: regions of one device run one after the other.
    runner: Mutex<Runner>,
    /// A failure whose values were put back as they were, so that no value carries it.
    failure: Mutex<Option<Error>>,
    owed: Owed,
    last_miss: Mutex<Option<String>>,
    budget: Mutex<Option<BudgetReport>>,
    /// An empty one whose room the next region takes.
    spare_body: Mutex<Option<Box<Body>>>,
}

impl Executor {
    /// An executor for a device, with the usual limits.
    pub fn new(device: Arc<dyn Device>, compiler: Arc<dyn Compile>) -> Self {
        Self::with_limits(device, compiler, Limits::default())
    }

    /// An executor for a device.
    pub fn with_limits(device: Arc<dyn Device>, compiler: Arc<dyn Compile>, limits: Limits) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(Arc::new(Shared {
            id: NEXT.fetch_add(1, Relaxed),
            pool: Pool::new(device.clone()),
            device,
            compiler,
            totals: Totals::default(),
            register: Register::default(),
            recording: Mutex::default(),
            runner: Mutex::new(Runner::new(limits.plan_bytes)),
            failure: Mutex::default(),
            owed: Owed::default(),
            last_miss: Mutex::default(),
            budget: Mutex::default(),
            spare_body: Mutex::default(),
            limits,
        }))
    }

    /// The values in memory.
    pub(crate) fn register(&self) -> &Register {
        &self.0.register
    }

    /// An empty body for a new region.
    pub(crate) fn spare_body(&self) -> Box<Body> {
        lock(&self.0.spare_body).take().unwrap_or_default()
    }

    /// Takes a body that has been run: the next region is recorded into the same room.
    pub(crate) fn keep_body(&self, mut body: Box<Body>) {
        body.clear();
        *lock(&self.0.spare_body) = Some(body);
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.device
    }

    /// The device's name.
    pub fn name(&self) -> String {
        self.0.device.name()
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        let pool = self.pool();
        Counters {
            device_allocations: self.0.device.allocations(),
            bytes_live: pool.live_bytes() as u64,
            bytes_peak: pool.peak_bytes() as u64,
            bytes_cached: pool.cached_bytes() as u64,
            ..self.0.totals.snapshot()
        }
    }

    /// Starts a new measurement of [`Counters::bytes_peak`].
    pub fn reset_peak(&self) {
        self.pool().reset_peak()
    }

    /// Runs everything this thread has recorded for the device. Where kernels run later, so do their errors come: at
    /// the next call, or when a value is read.
    ///
    /// # Errors
    /// What went wrong, also in an earlier region of which no value tells.
    pub fn flush(&self) -> Result<()> {
        let regions = record::take_regions(self);
        regions.for_each(|region| region.run_unheard(FlushReason::Flush));
        self.look_back_unheard(false);
        self.take_failure()
    }

    /// Runs everything this thread has recorded for the device, and waits until it has run.
    ///
    /// # Errors
    /// As [`Executor::flush`], of everything that ran; a lost device.
    pub fn synchronize(&self) -> Result<()> {
        self.flush()?;
        self.device().wait()?;
        self.look_back_unheard(true);
        self.take_failure()
    }

    /// The end of a step: closes this thread's region. It runs at the next op recorded or value read, so that
    /// handles dropped until then make values dead (contract R3).
    ///
    /// # Errors
    /// What went wrong in an earlier region of which no value tells.
    pub fn seal_step(&self) -> Result<()> {
        if let Some(earlier) = record::seal_step(self) {
            earlier.run_unheard(FlushReason::Step);
        }
        self.look_back_unheard(false);
        self.take_failure()?;
        if self.is_eager() { self.flush() } else { Ok(()) }
    }

    /// Runs `f`, which must find every plan it needs. What other threads compile meanwhile does not count.
    ///
    /// # Errors
    /// [`Kind::Internal`] when this thread compiled a plan, for any device; the message says for what.
    pub fn no_new_plans<R>(&self, f: impl FnOnce() -> R) -> Result<R> {
        let (before, _) = mode::misses();
        let result = f();
        let (after, why) = mode::misses();
        match after - before {
            0 => Ok(result),
            n => Err(Error::new(Kind::Internal, format!("no_new_plans: {n} compiled; the last one because {why}"))),
        }
    }

    /// What was new about the region that was compiled last: the field that differs from the nearest plan there was.
    pub fn last_miss(&self) -> Option<String> {
        lock(&self.0.last_miss).clone()
    }

    /// What the last plan that was made under a memory budget came to.
    pub fn budget_report(&self) -> Option<BudgetReport> {
        lock(&self.0.budget).clone()
    }
    pub(crate) fn set_budget_report(&self, report: BudgetReport) {
        self.log_plans(format_args!("{report}"));
        *lock(&self.0.budget) = Some(report);
    }

    /// Gives memory that is kept for reuse back to the device.
    pub fn trim(&self) {
        lock(&self.0.runner).discard_workspace();
        self.pool().trim()
    }

    pub(crate) fn set_last_miss(&self, why: String) {
        self.log_plans(format_args!("new plan: {why}"));
        mode::note_miss(&why);
        *lock(&self.0.last_miss) = Some(why);
    }

    /// Writes a line for `RTX_LOG=plans`.
    pub(crate) fn log_plans(&self, line: fmt::Arguments<'_>) {
        if std::env::var("RTX_LOG").is_ok_and(|v| v.split(',').any(|word| word == "plans")) {
            eprintln!("rtx: {}: {line}", self.name());
        }
    }

    /// Runs the calling thread's closed step, unless that is `about_to_run` itself.
    pub(crate) fn submit_step(&self, about_to_run: Option<&Arc<Region>>) {
        match record::take_sealed(self) {
            Some(step) if about_to_run.is_none_or(|r| !Arc::ptr_eq(&step, r)) => step.run_unheard(FlushReason::Step),
            _ => (),
        }
    }

    /// Keeps a failure for the next [`Executor::seal_step`] or [`Executor::flush`].
    pub(crate) fn keep_failure(&self, error: Error) {
        lock(&self.0.failure).get_or_insert(error);
    }

    /// Forgets a kept failure, because a caller gets it now.
    pub(crate) fn take_failure(&self) -> Result<()> {
        lock(&self.0.failure).take().map_or(Ok(()), Err)
    }

    pub(crate) fn id(&self) -> u64 {
        self.0.id
    }
    pub(crate) fn is_eager(&self) -> bool {
        mode::eager().unwrap_or(self.0.limits.eager)
    }
    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }
    pub(crate) fn owed(&self) -> &Owed {
        &self.0.owed
    }
    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.0.pool
    }
    pub(crate) fn compiler(&self) -> &dyn Compile {
        &*self.0.compiler
    }
    pub(crate) fn totals(&self) -> &Totals {
        &self.0.totals
    }
    pub(crate) fn recording(&self) -> &Mutex<()> {
        &self.0.recording
    }
    pub(crate) fn runner(&self) -> &Mutex<Runner> {
        &self.0.runner
    }
}

/// The same device, plans and counters?
impl PartialEq for Executor {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for Executor {}
impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Executor({})", self.name())
    }
}
