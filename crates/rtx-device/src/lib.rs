//! The one place where driver, kernels, claims and compiler become a device.
//!
//! The processor is always there: [`cpu`] needs no set-up, so neither does a tensor made without a word about
//! devices.

mod choose;
mod cuda;

pub use cuda::{cuda_compiler, cuda_driver};

use rtx_compiler::Compiler;
use rtx_cpu::CpuDevice;
use rtx_runtime::Executor;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// The processor and how it is put together.
struct Cpu {
    driver: Arc<CpuDevice>,
    executor: Executor,
}

static CPU: LazyLock<Cpu> = LazyLock::new(|| {
    let driver = Arc::new(CpuDevice::new(rtx_kernel_cpu::natives()));
    let executor = Executor::new(driver.clone(), Arc::new(Compiler::new(rtx_kernel_cpu::claims())));
    Cpu { driver, executor }
});

/// The processor's executor, made at the first call.
pub fn cpu() -> &'static Executor {
    &CPU.executor
}

/// The processor's driver: its own counters, and failing allocations for tests.
pub fn cpu_driver() -> &'static CpuDevice {
    &CPU.driver
}

/// A device, as users name it.
///
/// ```
/// use rtx_device::Device;
/// let device = Device::cpu();
/// assert_eq!(device.to_string(), "cpu");
/// println!("{}", device.describe().join("\n"));
/// device.flush()?; // runs what is recorded; `synchronize` waits for it too
/// device.synchronize()?;
///
/// // The first GPU, or what says why there is none; `best` takes the processor then.
/// match Device::cuda(0) {
///     Ok(gpu) => assert_eq!(gpu.to_string(), "cuda:0"),
///     Err(e) => println!("{e}"),
/// }
/// println!("runs on {}", Device::best());
/// # Ok::<(), rtx_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Device(Executor);

impl Device {
    /// The processor.
    pub fn cpu() -> Self {
        Device(cpu().clone())
    }

    /// What runs ops there.
    ///
    /// Unstable: the runtime behind a device, whose own API may change.
    pub fn executor(&self) -> &Executor {
        &self.0
    }

    /// What it is, for people: a line each.
    pub fn describe(&self) -> Vec<String> {
        self.0.device().describe()
    }

    /// Runs everything this thread has recorded for it, and waits until it has run.
    ///
    /// # Errors
    /// What went wrong, also in an earlier region of which no value tells; a lost device.
    pub fn synchronize(&self) -> rtx_core::Result<()> {
        self.0.synchronize()
    }

    /// Runs everything this thread has recorded for it.
    ///
    /// # Errors
    /// What went wrong, also in an earlier region of which no value tells.
    pub fn flush(&self) -> rtx_core::Result<()> {
        self.0.flush()
    }
}

/// The processor.
impl Default for Device {
    fn default() -> Self {
        Self::cpu()
    }
}
impl From<Executor> for Device {
    fn from(executor: Executor) -> Self {
        Device(executor)
    }
}
/// `cpu`, `cuda:0`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name())
    }
}
impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
