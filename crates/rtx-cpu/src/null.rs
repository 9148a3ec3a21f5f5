//! [`NullDevice`]: a device whose kernels do nothing, so that what is left is recording, keys, plans and replay.
use crate::memory;
use rtx_core::{Error, Kind, Result};
use rtx_hal::{Code, Device, KernelSource, Launch, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Memory is real and starts as zeros; kernels are loaded without a look at their text and leave it as it is. What
/// it says of itself does not depend on the machine, and so neither do the plans made for it.
pub struct NullDevice {
    target: Target,
    allocations: AtomicU64,
}

impl Default for NullDevice {
    fn default() -> Self {
        Self { target: Target { family: "cpu", isa: "avx512", threads: 2 }, allocations: AtomicU64::new(0) }
    }
}

struct Nothing;
impl Code for Nothing {
    unsafe fn run(&self, _: &Launch<'_>) {}
    unsafe fn run_many(&self, _: &[Launch<'_>]) {}
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl Device for NullDevice {
    fn name(&self) -> String {
        "null".into()
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn allocate(&self, bytes: usize) -> Result<*mut u8> {
        let message = || format!("out of memory on null: {bytes} bytes asked for");
        let ptr = memory::take(bytes).ok_or_else(|| Error::new(Kind::Memory, message()))?;
        // SAFETY: `take` gave so many bytes.
        unsafe { ptr.write_bytes(0, bytes) };
        self.allocations.fetch_add(1, Relaxed);
        Ok(ptr)
    }

    unsafe fn free(&self, ptr: *mut u8, bytes: usize) {
        // SAFETY: the caller says that `ptr` came from `allocate(bytes)`, which took it from `memory`.
        unsafe { memory::give(ptr, bytes) }
    }

    fn load(&self, _: &KernelSource) -> Result<Arc<dyn Code>> {
        Ok(Arc::new(Nothing))
    }

    unsafe fn write(&self, dst: *mut u8, src: &[u8]) -> Result<()> {
        // SAFETY: the caller says that `dst` has room; a device block and a host slice do not overlap.
        unsafe { dst.copy_from_nonoverlapping(src.as_ptr(), src.len()) };
        Ok(())
    }

    unsafe fn read(&self, dst: &mut [u8], src: *const u8) -> Result<()> {
        // SAFETY: the caller says that `src` has as many bytes; none is uninitialized.
        unsafe { src.copy_to_nonoverlapping(dst.as_mut_ptr(), dst.len()) };
        Ok(())
    }

    unsafe fn launch(&self, _: &dyn Code, _: &Launch<'_>) -> Result<()> {
        Ok(())
    }

    unsafe fn launch_many(&self, _: &dyn Code, _: &[Launch<'_>]) -> Result<()> {
        Ok(())
    }

    fn allocations(&self) -> u64 {
        self.allocations.load(Relaxed)
    }
}
