//! [`CpuDevice`]: memory, kernels and launches on the processor.
use crate::{TileCode, isa, memory, pool, with_default_rounding};
use rtx_core::{Error, Kind, Result};
use rtx_hal::{Code, Device, KernelSource, Lang, Launch, NativeKernel, Target};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The processor as a device. Launches run at once, in the calling thread and the pool.
pub struct CpuDevice {
    target: Target,
    natives: Vec<Arc<dyn NativeKernel>>,
    allocations: AtomicU64,
    live_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    /// 0: none. n: the n-th allocation from here fails, and all after it.
    fail_in: AtomicU64,
}

impl CpuDevice {
    /// A device that knows these hand-written kernels.
    pub fn new(natives: Vec<Arc<dyn NativeKernel>>) -> Self {
        Self {
            target: Target { family: "cpu", isa: isa().name(), threads: pool::threads() },
            natives,
            allocations: AtomicU64::new(0),
            live_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            fail_in: AtomicU64::new(0),
        }
    }

    /// Makes the `k`-th allocation from here fail (1 is the next one), and all after it; `None` or 0 takes that back.
    /// For tests.
    pub fn fail_allocation_after(&self, k: Option<u64>) {
        self.fail_in.store(k.unwrap_or(0), Relaxed)
    }

    /// Bytes allocated and not freed.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes.load(Relaxed)
    }

    /// The most that [`CpuDevice::live_bytes`] has been since the start or [`CpuDevice::reset_peak`].
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Relaxed)
    }

    /// Starts a new measurement of the peak.
    pub fn reset_peak(&self) {
        self.peak_bytes.store(self.live_bytes(), Relaxed)
    }

    /// Is this one of the allocations that were asked to fail?
    fn must_fail(&self) -> bool {
        self.fail_in.fetch_update(Relaxed, Relaxed, |n| Some(if n > 1 { n - 1 } else { n })) == Ok(1)
    }

    fn load_native(&self, text: &str) -> Result<Arc<dyn Code>> {
        let name_end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (name, rest) = text.split_at(name_end);
        let kernel = self.natives.iter().find(|kernel| kernel.name() == name);
        let kernel = kernel.ok_or_else(|| Error::new(Kind::Internal, format!("cpu: no native kernel `{name}`")))?;
        kernel.load(rest.strip_prefix(' ').unwrap_or(rest), self)
    }
}

impl Device for CpuDevice {
    fn name(&self) -> String {
        "cpu".into()
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn allocate(&self, bytes: usize) -> Result<*mut u8> {
        let taken = if self.must_fail() { None } else { memory::take(bytes) };
        let Some(ptr) = taken else {
            let live = self.live_bytes();
            let message = format!("out of memory on cpu: {bytes} bytes asked for, {live} in use");
            return Err(Error::new(Kind::Memory, message));
        };
        self.allocations.fetch_add(1, Relaxed);
        let live = self.live_bytes.fetch_add(bytes, Relaxed) + bytes;
        self.peak_bytes.fetch_max(live, Relaxed);
        Ok(ptr)
    }

    unsafe fn free(&self, ptr: *mut u8, bytes: usize) {
        self.live_bytes.fetch_sub(bytes, Relaxed);
        // SAFETY: the caller says that `ptr` came from `allocate(bytes)`, which took it from `memory`.
        unsafe { memory::give(ptr, bytes) }
    }

    fn load(&self, source: &KernelSource) -> Result<Arc<dyn Code>> {
        match source.lang {
            Lang::Tile => Ok(Arc::new(TileCode::parse(&source.text)?)),
            Lang::Native => self.load_native(&source.text),
        }
    }

    unsafe fn write(&self, dst: *mut u8, src: &[u8]) -> Result<()> {
        // SAFETY: the caller says that `dst` has room; a device block and a host slice do not overlap.
        unsafe { dst.copy_from_nonoverlapping(src.as_ptr(), src.len()) };
        Ok(())
    }

    unsafe fn read(&self, dst: &mut [u8], src: *const u8) -> Result<()> {
        // SAFETY: the caller says that `src` has as many bytes.
        unsafe { src.copy_to_nonoverlapping(dst.as_mut_ptr(), dst.len()) };
        Ok(())
    }

    unsafe fn launch(&self, code: &dyn Code, launch: &Launch<'_>) -> Result<()> {
        // SAFETY: the caller vouches for buffers and sizes.
        with_default_rounding(|| unsafe { code.run(launch) });
        Ok(())
    }

    unsafe fn launch_many(&self, code: &dyn Code, launches: &[Launch<'_>]) -> Result<()> {
        // SAFETY: the caller vouches for buffers and sizes, and that no launch needs another's result.
        with_default_rounding(|| unsafe { code.run_many(launches) });
        Ok(())
    }

    fn allocations(&self) -> u64 {
        self.allocations.load(Relaxed)
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let jit = rustg::jit_counters();
        vec![
            ("printed_loops", jit.loops),
            ("printed_loops_avx2", jit.loops_avx2),
            ("printed_instructions", jit.printed),
            ("instructions_left_to_the_vm", jit.left),
            ("bytes_of_printed_code", jit.bytes),
            ("printing_us", jit.nanoseconds / 1000),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtx_hal::{Block, ErrorSlot, malformed};

    /// Adds 1 to each of `sizes[0]` bytes.
    struct Increment;
    impl NativeKernel for Increment {
        fn name(&self) -> &'static str {
            "increment"
        }
        fn load(&self, text: &str, _: &dyn Device) -> Result<Arc<dyn Code>> {
            if text == "u8" { Ok(Arc::new(IncrementU8)) } else { Err(malformed("increment", text)) }
        }
    }
    struct IncrementU8;
    impl Code for IncrementU8 {
        unsafe fn run(&self, launch: &Launch<'_>) {
            // SAFETY: the test's buffer has `sizes[0]` bytes.
            unsafe { std::slice::from_raw_parts_mut(launch.buffers[0], launch.sizes[0] as usize) }
                .iter_mut()
                .for_each(|b| *b += 1);
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    }

    fn source(text: &str) -> KernelSource {
        KernelSource { name: "test".into(), lang: Lang::Native, text: text.into() }
    }

    #[test]
    fn bytes_go_in_through_a_native_kernel_and_out() {
        let cpu: Arc<dyn Device> = Arc::new(CpuDevice::new(vec![Arc::new(Increment)]));
        let code = cpu.load(&source("increment u8")).expect("the kernel is registered");
        let block = Block::new(&cpu, 3).expect("three bytes");
        let mut out = [0; 3];
        // SAFETY: the block has three bytes, and the launch says so.
        unsafe {
            cpu.write(block.ptr(), &[1, 2, 3]).expect("writes");
            let launch = Launch { buffers: &[block.ptr()], sizes: &[3], error: &ErrorSlot::default() };
            cpu.launch_many(&*code, &[launch]).expect("runs");
            cpu.read(&mut out, block.ptr()).expect("reads");
        }
        assert_eq!(out, [2, 3, 4]);
    }

    #[test]
    fn unknown_kernels_and_texts_are_named() {
        let cpu = CpuDevice::new(vec![Arc::new(Increment)]);
        let message = |text| cpu.load(&source(text)).err().map(|e| e.message().to_string());
        assert_eq!(message("decrement u8").as_deref(), Some("cpu: no native kernel `decrement`"));
        assert_eq!(message("increment f32").as_deref(), Some("increment: malformed kernel text: f32"));
    }

    #[test]
    fn allocations_fail_from_the_kth_on_and_counters_follow() {
        let cpu: Arc<CpuDevice> = Arc::new(CpuDevice::new(vec![]));
        let device: Arc<dyn Device> = cpu.clone();
        cpu.fail_allocation_after(Some(2));
        let first = Block::new(&device, 100).expect("the first allocation");
        let second = Block::new(&device, 50).err().expect("the second allocation fails");
        assert_eq!(second.kind(), Kind::Memory);
        assert_eq!(second.message(), "out of memory on cpu: 50 bytes asked for, 100 in use");
        assert!(Block::new(&device, 1).is_err(), "until it is taken back");
        cpu.fail_allocation_after(None);
        let third = Block::new(&device, 7 << 20).expect("the third allocation");
        assert_eq!((third.ptr() as usize % (2 << 20), first.ptr() as usize % 64), (0, 0));
        assert_eq!((cpu.allocations(), cpu.live_bytes()), (2, 100 + (7 << 20)));
        drop((first, third));
        assert_eq!((cpu.live_bytes(), cpu.peak_bytes()), (0, 100 + (7 << 20)));
        let too_much = Block::new(&device, usize::MAX).err().expect("no machine has that");
        assert_eq!(too_much.kind(), Kind::Memory);
    }
}
