//! The device contract: memory, loaded code, launches. Knows neither tensor graphs nor compilers.
//!
//! A driver implements [`Device`]. Everything it is asked to run arrives as data: a [`KernelSource`] (a language
//! and a text) becomes [`Code`], and a [`Launch`] names code, buffers and sizes.
#![allow(unsafe_code, reason = "device memory is raw memory")]

use rtx_core::{Kind, Result};
use std::sync::Arc;

/// The language of a kernel's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lang {
    /// rustg's tile program, run by the CPU's tile VM.
    Tile,
    /// The name and parameters of a kernel that the driver brings with it (see [`NativeKernel`]).
    Native,
}

/// One kernel as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelSource {
    /// For traces and dumps; not part of the meaning.
    pub name: String,
    /// What `text` is written in.
    pub lang: Lang,
    /// The kernel.
    pub text: String,
}

/// What a device is, as far as compilation depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The family inside which results are the same bit for bit: `cpu`, `cuda`.
    pub family: &'static str,
    /// The instruction set in use: `avx512`, `avx2`, `scalar`. Changes speed, never bits.
    pub isa: &'static str,
    /// Threads that one launch may use.
    pub threads: usize,
}

/// A kernel ready to run.
pub trait Code: Send + Sync {
    /// Runs the kernel to its end.
    ///
    /// # Safety
    /// Every pointer in `launch.buffers` must be valid for what the kernel reads and writes, and the sizes true.
    unsafe fn run(&self, launch: &Launch<'_>);
    /// Runs the kernel once per launch, none of which needs another's result, so that a driver may run them together.
    ///
    /// # Safety
    /// As [`Code::run`] for each, and no launch writes what another reads or writes.
    unsafe fn run_many(&self, launches: &[Launch<'_>]) {
        for launch in launches {
            // SAFETY: the caller's promise for each launch.
            unsafe { self.run(launch) }
        }
    }
    /// The code as any type, so that a kernel that absorbed an epilogue can reach it.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// The arguments of one run.
pub struct Launch<'a> {
    /// Kernel arguments: start of each buffer's first element (offsets already added).
    pub buffers: &'a [*mut u8],
    /// Sizes, strides and other integers.
    pub sizes: &'a [i64],
    /// Where a kernel reports an index out of range and the like. Never null.
    pub error: &'a ErrorSlot,
}

/// A launch of a list.
pub struct Listed<'a> {
    /// What runs.
    pub code: &'a dyn Code,
    /// Its arguments.
    pub launch: Launch<'a>,
    /// The plan's step that it belongs to, as reports name it.
    pub step: u32,
}

/// What a driver keeps of a list of launches.
pub type Kept = Option<Box<dyn std::any::Any + Send>>;

/// Where a list of launches stopped.
pub struct Stopped {
    /// The launch.
    pub at: usize,
    /// Why.
    pub error: rtx_core::Error,
}

/// Stands for work whose reports come later; ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Receipt(pub u64);

/// What work reported, if it did.
pub type Report = Option<DeviceError>;

/// The first thing that went wrong in a region's kernels: kernels clamp, report here, and go on (contract R5).
#[derive(Debug, Default)]
pub struct ErrorSlot {
    state: std::sync::atomic::AtomicU64,
    index: std::sync::atomic::AtomicI64,
    bound: std::sync::atomic::AtomicI64,
    step: std::sync::atomic::AtomicU32,
}

/// What an [`ErrorSlot`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// Which launch of the plan was running.
    pub step: u32,
    /// What was wrong.
    pub fault: Fault,
}

/// What a kernel reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An index outside its range.
    Index {
        /// The index.
        index: i64,
        /// The size it had to be under.
        bound: i64,
    },
    /// A condition of the program that does not hold; the kernel's text ends with its sentence.
    Check,
}

impl ErrorSlot {
    /// Says which launch runs from here on.
    pub fn enter(&self, step: u32) {
        self.step.store(step, std::sync::atomic::Ordering::Relaxed)
    }
    /// The launch that [`ErrorSlot::enter`] named last.
    pub fn step(&self) -> u32 {
        self.step.load(std::sync::atomic::Ordering::Relaxed)
    }
    /// Reports `index` outside `0..bound`; the first report is kept.
    pub fn report(&self, index: i64, bound: i64) {
        use std::sync::atomic::Ordering::*;
        let step = self.step.load(Relaxed) as u64;
        if self.state.compare_exchange(0, step + 1, AcqRel, Relaxed).is_ok() {
            self.index.store(index, Release);
            self.bound.store(bound, Release);
        }
    }
    /// Reports that a condition does not hold; the first report is kept.
    pub fn report_check(&self) {
        // No size is negative.
        self.report(0, -1);
    }
    /// Takes the report, if there is one, and clears the slot.
    pub fn take(&self) -> Option<DeviceError> {
        use std::sync::atomic::Ordering::*;
        let step = self.state.swap(0, AcqRel).checked_sub(1)?;
        let (index, bound) = (self.index.load(Acquire), self.bound.load(Acquire));
        Some(DeviceError {
            step: step as u32,
            fault: if bound < 0 { Fault::Check } else { Fault::Index { index, bound } },
        })
    }
}

/// A kernel written by hand: a name that kernel sources refer to, and a way to make code from their parameters.
pub trait NativeKernel: Send + Sync {
    /// The first word of its sources.
    fn name(&self) -> &'static str;
    /// Makes code from the text after the name. `device` loads absorbed epilogues.
    ///
    /// # Errors
    /// [`Kind::Internal`] when the text is not what its claim writes.
    fn load(&self, text: &str, device: &dyn Device) -> Result<Arc<dyn Code>>;
}

/// Memory of a device. Freed when the last owner drops it.
pub struct Block {
    ptr: *mut u8,
    bytes: usize,
    device: Arc<dyn Device>,
}
// SAFETY: a block is raw memory; who may touch it when is decided by the runtime that owns it.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Takes memory from a device.
    ///
    /// # Errors
    /// [`Kind::Memory`] when there is none left.
    pub fn new(device: &Arc<dyn Device>, bytes: usize) -> Result<Self> {
        Ok(Self { ptr: device.allocate(bytes)?, bytes, device: device.clone() })
    }
    /// The first byte, aligned to 64.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }
    /// How many bytes were asked for.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
    /// The device it belongs to.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }
}
impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `ptr` came from `allocate(bytes)` of this device and is freed once.
        unsafe { self.device.free(self.ptr, self.bytes) }
    }
}

/// A driver.
pub trait Device: Send + Sync {
    /// `cpu`, `cuda:0`.
    fn name(&self) -> String;
    /// What compilation depends on.
    fn target(&self) -> &Target;
    /// Takes memory: 64-byte aligned, contents unspecified, never null.
    ///
    /// # Errors
    /// [`Kind::Memory`].
    fn allocate(&self, bytes: usize) -> Result<*mut u8>;
    /// Gives memory back.
    ///
    /// # Safety
    /// `ptr` came from `allocate(bytes)` on this device and nothing uses it any more.
    unsafe fn free(&self, ptr: *mut u8, bytes: usize);
    /// Turns a kernel's text into code.
    ///
    /// # Errors
    /// [`Kind::Internal`] for text that does not parse, [`Kind::Device`] for what the device refuses.
    fn load(&self, source: &KernelSource) -> Result<Arc<dyn Code>>;
    /// Copies bytes from the host.
    ///
    /// # Safety
    /// `dst` has room for `src`.
    unsafe fn write(&self, dst: *mut u8, src: &[u8]) -> Result<()>;
    /// Copies bytes to the host, after all earlier work.
    ///
    /// # Safety
    /// `src` has as many readable bytes as `dst`.
    unsafe fn read(&self, dst: &mut [u8], src: *const u8) -> Result<()>;
    /// Runs one launch after all earlier ones.
    ///
    /// # Safety
    /// As [`Code::run`].
    unsafe fn launch(&self, code: &dyn Code, launch: &Launch<'_>) -> Result<()>;
    /// Runs independent launches of one kernel after all earlier work.
    ///
    /// # Safety
    /// As [`Code::run_many`].
    unsafe fn launch_many(&self, code: &dyn Code, launches: &[Launch<'_>]) -> Result<()> {
        // SAFETY: the caller's promise for each launch.
        launches.iter().try_for_each(|launch| unsafe { self.launch(code, launch) })
    }
    /// Makes code ready for launches of these sizes, many at once where a driver compiles late.
    ///
    /// # Errors
    /// As [`Device::load`].
    fn make_ready(&self, _work: &[(&dyn Code, &[i64])]) -> Result<()> {
        Ok(())
    }
    /// Runs a plan's launches in order. A driver may keep in `kept` what it made of the list; the same `kept` comes with
    /// the same codes.
    ///
    /// # Errors
    /// What the device says, and of which launch.
    ///
    /// # Safety
    /// As [`Device::launch`] for each.
    unsafe fn launch_list(&self, list: &[Listed<'_>], kept: &mut Kept) -> std::result::Result<(), Stopped> {
        _ = kept;
        for (at, one) in list.iter().enumerate() {
            one.launch.error.enter(one.step);
            // SAFETY: the caller's promise.
            unsafe { self.launch(one.code, &one.launch) }.map_err(|error| Stopped { at, error })?;
        }
        Ok(())
    }
    /// Are plans rather run as lists ([`Device::launch_list`]) than step by step?
    fn takes_lists(&self) -> bool {
        false
    }
    /// For a driver whose kernels run later: a receipt for what kernels queued since the last one may report. `None`
    /// where nothing can report any more, or has done so to the slot.
    ///
    /// # Errors
    /// [`Kind::Device`] when the device was lost.
    fn receipt(&self) -> Result<Option<Receipt>> {
        Ok(None)
    }
    /// What the work of a receipt reported; `None` while it runs, unless the caller waits. After a report that of every
    /// receipt given so far is empty: one failure is told once.
    ///
    /// # Errors
    /// [`Kind::Device`] when the device was lost.
    fn redeem(&self, _receipt: Receipt, _wait: bool) -> Result<Option<Report>> {
        Ok(Some(None))
    }
    /// Waits until everything that was launched has run.
    ///
    /// # Errors
    /// [`Kind::Device`] when the device was lost.
    fn wait(&self) -> Result<()> {
        Ok(())
    }
    /// What it is, for people: a line each.
    fn describe(&self) -> Vec<String> {
        vec![self.name()]
    }
    /// Number of successful `allocate` calls since the start.
    fn allocations(&self) -> u64;
    /// What else the driver counts, by name, for people to read.
    fn details(&self) -> Vec<(&'static str, u64)> {
        vec![]
    }
}

/// Text that does not parse where only our own printer writes: a mistake of ours.
pub fn malformed(what: &str, text: &str) -> rtx_core::Error {
    rtx_core::Error::new(
        Kind::Internal,
        format!("{what}: malformed kernel text: {}", text.lines().next().unwrap_or("")),
    )
}
