//! [`CudaDevice`]: memory, code and launches on one NVIDIA GPU.
use crate::cache::CodeCache;
use crate::code::{CudaCode, Function, NativeCode, TileCode, native_program};
use crate::graph;
use crate::nvrtc::{Compiled, Nvrtc};
use crate::profile::Clock;
use crate::reports::Reports;
use crate::staging::Staging;
use crate::sys::{self, Address, Cuda, Handle, Status};
use crate::{Template, library};
use rtx_core::{Error, Kind, Result};
use rtx_hal::{Code, Device, Kept, KernelSource, Lang, Launch, Listed, Receipt, Report, Stopped, Target};
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Locks. What a panic elsewhere left is whole, so it is no obstacle.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a GPU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// As its maker calls it.
    pub name: String,
    /// `sm_90a`.
    pub arch: String,
    /// How many processors it has.
    pub multiprocessors: usize,
    /// Bytes of memory in all.
    pub memory_bytes: usize,
    /// The CUDA version that the driver is for, as 13000.
    pub driver: i32,
    /// The compiler's, major and minor.
    pub nvrtc: (i32, i32),
}

/// A GPU's context, its one stream, and what compiles for it.
pub(crate) struct Context {
    pub(crate) cuda: Cuda,
    handle: Handle,
    pub(crate) stream: Handle,
    pool: Handle,
    index: usize,
    facts: Facts,
    nvrtc: Nvrtc,
    cache: CodeCache,
    /// Where kernels report: a `Fault` in device memory.
    pub(crate) fault: Address,
    /// Has something run that may report, since the last look?
    pub(crate) may_report: AtomicBool,
    compiled: AtomicU64,
    cached: AtomicU64,
    /// Memory that a kernel's launches share, and its bytes. Held while they are queued.
    pub(crate) scratch: Mutex<(Address, usize)>,
    /// Launches of fast kernels, and of those that run where the fast ones do not take the sizes.
    pub(crate) fast: (AtomicU64, AtomicU64),
    /// What happened to plans' graphs.
    pub(crate) graphs: Graphs,
    /// Where the time of every launch is kept, if the environment asks for it.
    pub(crate) clock: Option<Clock>,
}
/// Counts of graphs.
#[derive(Default)]
pub(crate) struct Graphs {
    pub(crate) made: AtomicU64,
    pub(crate) launched: AtomicU64,
    /// Launches in them that were brought up to date.
    pub(crate) set: AtomicU64,
}

// SAFETY: handles that the driver guards; a thread makes the context current before it uses them.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Bytes of a `Fault`: state, index, bound.
pub(crate) const FAULT_BYTES: usize = 24;

thread_local! {
    /// The context that is current in this thread.
    static CURRENT: Cell<Handle> = const { Cell::new(null_mut()) };
}

impl Context {
    /// Makes the context the calling thread's.
    pub(crate) fn enter(&self) -> Result<()> {
        if CURRENT.get() == self.handle {
            return Ok(());
        }
        // SAFETY: the context is retained for the life of the process.
        self.check(unsafe { (self.cuda.context_set)(self.handle) }, "its context")?;
        CURRENT.set(self.handle);
        Ok(())
    }

    /// A status as a result. A context that was lost says so at every later call.
    pub(crate) fn check(&self, status: Status, what: &str) -> Result<()> {
        check(&self.cuda, self.index, status, what)
    }

    /// Waits for all work.
    pub(crate) fn wait(&self) -> Result<()> {
        // SAFETY: the stream is this context's.
        self.check(unsafe { (self.cuda.stream_wait)(self.stream) }, "earlier work")
    }

    /// An entry of a text, compiled now or found in the cache.
    pub(crate) fn function(&self, text: &str, entry: &CStr) -> Result<Function> {
        let flags = rustg::cuda::FLAGS.join(" ");
        let version = format!("{}.{}", self.nvrtc.version.0, self.nvrtc.version.1);
        let parts = [text, &flags, &self.facts.arch, &version];
        let cubin = match self.cache.get(&parts) {
            Some(cubin) => {
                self.cached.fetch_add(1, Relaxed);
                cubin
            }
            None => {
                let Compiled { cubin, .. } = self.nvrtc.compile(text, &self.facts.arch, &rustg::cuda::FLAGS)?;
                self.compiled.fetch_add(1, Relaxed);
                self.cache.put(&parts, &cubin);
                cubin
            }
        };
        self.enter()?;
        Function::load(self, &cubin, entry)
    }

    /// What the GPU is.
    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Makes the scratch memory this large, where it is smaller.
    pub(crate) fn grow_scratch(&self, scratch: &mut (Address, usize), bytes: usize) -> Result<()> {
        if bytes <= scratch.1 {
            return Ok(());
        }
        self.enter()?;
        let mut new = 0;
        // SAFETY: one address to write; the old memory is freed after what is queued.
        unsafe {
            self.check((self.cuda.allocate)(&mut new, bytes, self.stream), "memory")?;
            if scratch.1 > 0 {
                self.check((self.cuda.free)(scratch.0, self.stream), "memory")?;
            }
        }
        *scratch = (new, bytes);
        Ok(())
    }
}

fn check(cuda: &Cuda, index: usize, status: Status, what: &str) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let text = |get: unsafe extern "C" fn(Status, *mut *const std::ffi::c_char) -> Status| {
        let mut text = std::ptr::null();
        // SAFETY: the result is null or a constant string of the driver's.
        unsafe {
            get(status, &mut text);
            if text.is_null() { "unknown".to_owned() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
        }
    };
    let kind = if status == sys::OUT_OF_MEMORY { Kind::Memory } else { Kind::Device };
    let message = format!("cuda:{index}: {what}: {} ({})", text(cuda.error_text), text(cuda.error_name));
    Err(Error::new(kind, message))
}

/// A GPU as a device. Launches are queued on one stream; a read waits for what comes before it.
pub struct CudaDevice {
    context: Arc<Context>,
    target: Target,
    templates: Vec<Arc<dyn Template>>,
    staging: Mutex<Staging>,
    reports: Mutex<Reports>,
    allocations: AtomicU64,
    live_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
}

impl CudaDevice {
    /// Opens GPU number `index` with these hand-written kernels.
    ///
    /// # Errors
    /// [`Kind::Device`]: no driver, one that is too old, no such GPU, no NVRTC.
    pub fn open(index: usize, templates: Vec<Arc<dyn Template>>) -> Result<Self> {
        let hint = "install NVIDIA's driver, or name the folder of libcuda.so.1 in RTX_CUDA_LIB_PATH";
        let library = library::open("NVIDIA driver", &["libcuda.so.1", "libcuda.so"], hint)?;
        let old = |name| Error::new(Kind::Device, format!("cuda: this driver is too old: it lacks {name}"));
        let cuda = Cuda::load(library).map_err(old)?;
        let context = Arc::new(open_context(cuda, index, Nvrtc::open()?)?);
        let facts = &context.facts;
        let target = Target {
            family: "cuda",
            // A handful of names, each once a device.
            isa: String::leak(facts.arch.clone()),
            threads: facts.multiprocessors,
        };
        let counter = AtomicUsize::default;
        Ok(Self {
            target,
            templates,
            staging: Mutex::default(),
            reports: Mutex::default(),
            allocations: AtomicU64::new(0),
            live_bytes: counter(),
            peak_bytes: counter(),
            context,
        })
    }

    /// What the GPU is.
    pub fn facts(&self) -> &Facts {
        &self.context.facts
    }

    /// Kernels compiled by this process, and those found in the cache.
    pub fn kernels(&self) -> (u64, u64) {
        (self.context.compiled.load(Relaxed), self.context.cached.load(Relaxed))
    }

    /// Hand-written kernels launched: those made for the architecture, and their general forms where the former did not
    /// take the sizes.
    pub fn fast_launches(&self) -> (u64, u64) {
        (self.context.fast.0.load(Relaxed), self.context.fast.1.load(Relaxed))
    }

    /// Bytes allocated and not freed.
    pub fn live_bytes(&self) -> usize {
        self.live_bytes.load(Relaxed)
    }

    /// The most that [`CudaDevice::live_bytes`] has been.
    pub fn peak_bytes(&self) -> usize {
        self.peak_bytes.load(Relaxed)
    }

    /// With `RTX_CUDA_PROFILE` set: every kernel with its sizes, how often it ran and for how many milliseconds, the
    /// longest first; what was counted is forgotten. Such a process waits for each launch.
    pub fn take_profile(&self) -> Vec<(String, u64, f64)> {
        self.context.clock.as_ref().map(Clock::take).unwrap_or_default()
    }

    /// Bytes that are free on the card, and all there are.
    fn memory(&self) -> (usize, usize) {
        let (mut free, mut total) = (0, 0);
        // SAFETY: two numbers to write; after a failure they are 0.
        unsafe { (self.context.cuda.memory_info)(&mut free, &mut total) };
        (free, total)
    }
}

fn open_context(cuda: Cuda, index: usize, nvrtc: Nvrtc) -> Result<Context> {
    let ok = |status, what| check(&cuda, index, status, what);
    let (mut driver, mut count, mut device) = (0, 0, 0);
    let (mut handle, mut stream, mut pool) = (null_mut(), null_mut(), null_mut());
    let mut name = [0u8; 128];
    let (mut memory_bytes, mut fault) = (0, 0);
    let refuse = |what: String| Error::new(Kind::Device, what);
    // SAFETY: each call writes results that stand here; the order is the driver's.
    unsafe {
        ok((cuda.init)(0), "the driver does not start")?;
        ok((cuda.driver_version)(&mut driver), "its version")?;
        if driver / 1000 < nvrtc.version.0 {
            let (major, minor) = nvrtc.version;
            let what = format!(
                "cuda: the driver is too old: it runs CUDA {}.{}, NVRTC is {major}.{minor}",
                driver / 1000,
                driver % 1000 / 10
            );
            return Err(
                refuse(what).hint("update the driver, or install an older NVRTC: pip install nvidia-cuda-nvrtc-cu12")
            );
        }
        ok((cuda.device_count)(&mut count), "the GPUs cannot be counted")?;
        if index >= count as usize {
            return Err(refuse(format!("cuda:{index}: there is no such GPU, of {count}")));
        }
        ok((cuda.device_get)(&mut device, index as i32), "no GPU")?;
        ok((cuda.device_name)(name.as_mut_ptr().cast(), 127, device), "its name")?;
        ok((cuda.device_memory)(&mut memory_bytes, device), "its memory")?;
        ok((cuda.context_retain)(&mut handle, device), "its context")?;
        ok((cuda.context_set)(handle), "its context")?;
        ok((cuda.stream_create)(&mut stream, sys::NON_BLOCKING), "a stream")?;
    }
    let attribute = |of| {
        let mut value = 0;
        // SAFETY: one number to write.
        ok(unsafe { (cuda.device_attribute)(&mut value, of, device) }, "an attribute").map(|()| value)
    };
    let (major, minor) = (attribute(sys::CAPABILITY_MAJOR)?, attribute(sys::CAPABILITY_MINOR)?);
    if major < 8 {
        let what = format!("cuda:{index}: compute capability {major}.{minor} is not supported; 8.0 is the least");
        return Err(refuse(what));
    }
    if attribute(sys::MEMORY_POOLS)? == 0 {
        return Err(refuse(format!("cuda:{index}: its driver has no memory pools")));
    }
    let multiprocessors = attribute(sys::MULTIPROCESSORS)? as usize;
    let mut keep = u64::MAX;
    // SAFETY: as above; what is freed stays with the process, in the order of the stream.
    unsafe {
        ok((cuda.pool_of)(&mut pool, device), "its memory pool")?;
        ok((cuda.pool_set)(pool, sys::POOL_KEEPS, (&raw mut keep).cast()), "its memory pool")?;
        ok((cuda.allocate)(&mut fault, FAULT_BYTES, stream), "memory")?;
        ok((cuda.fill)(fault, 0, FAULT_BYTES, stream), "memory")?;
    }
    CURRENT.set(handle);
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let facts = Facts {
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
        arch: format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" }),
        multiprocessors,
        memory_bytes,
        driver,
        nvrtc: nvrtc.version,
    };
    Ok(Context {
        cuda,
        handle,
        stream,
        pool,
        index,
        facts,
        nvrtc,
        cache: CodeCache::of_user(),
        fault,
        may_report: AtomicBool::new(false),
        compiled: AtomicU64::new(0),
        cached: AtomicU64::new(0),
        scratch: Mutex::new((0, 0)),
        fast: Default::default(),
        graphs: Graphs::default(),
        clock: std::env::var_os("RTX_CUDA_PROFILE").map(|_| Clock::default()),
    })
}

/// The code as this driver's.
pub(crate) fn own(code: &dyn Code) -> Result<&CudaCode> {
    let stranger = || Error::new(Kind::Internal, "cuda: code of another device");
    code.as_any().downcast_ref::<CudaCode>().ok_or_else(stranger)
}

impl Device for CudaDevice {
    fn name(&self) -> String {
        format!("cuda:{}", self.context.index)
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn allocate(&self, bytes: usize) -> Result<*mut u8> {
        let context = &*self.context;
        context.enter()?;
        let mut address = 0;
        let wanted = bytes.max(64);
        let mut status = 0;
        for attempt in 0..2 {
            // SAFETY: one address to write.
            status = unsafe { (context.cuda.allocate)(&mut address, wanted, context.stream) };
            if status != sys::OUT_OF_MEMORY || attempt > 0 {
                break;
            }
            // What was freed comes back when the stream has passed it.
            context.wait()?;
            // SAFETY: the pool is the device's.
            context.check(unsafe { (context.cuda.pool_trim)(context.pool, 0) }, "its memory pool")?;
        }
        if status == sys::OUT_OF_MEMORY {
            let ((free, total), live) = (self.memory(), self.live_bytes());
            let message = format!(
                "out of memory on {}: {bytes} bytes asked for, {live} in use, {free} free of {total}",
                self.name()
            );
            return Err(Error::new(Kind::Memory, message));
        }
        context.check(status, "memory")?;
        self.allocations.fetch_add(1, Relaxed);
        let live = self.live_bytes.fetch_add(bytes, Relaxed) + bytes;
        self.peak_bytes.fetch_max(live, Relaxed);
        Ok(std::ptr::without_provenance_mut(address as usize))
    }

    unsafe fn free(&self, ptr: *mut u8, bytes: usize) {
        self.live_bytes.fetch_sub(bytes, Relaxed);
        if self.context.enter().is_ok() {
            // SAFETY: the caller's promise; freed in the stream's order. A lost device keeps its memory.
            unsafe { (self.context.cuda.free)(ptr.addr() as Address, self.context.stream) };
        }
    }

    fn load(&self, source: &KernelSource) -> Result<Arc<dyn Code>> {
        match source.lang {
            Lang::Tile => {
                Ok(Arc::new(CudaCode::Tile(Box::new(TileCode::parse(&self.context, &source.name, &source.text)?))))
            }
            Lang::Native => {
                let program = native_program(&self.templates, &source.text)?;
                Ok(Arc::new(CudaCode::Native(Box::new(NativeCode::new(&self.context, &source.name, program)?))))
            }
        }
    }

    fn make_ready(&self, work: &[(&dyn Code, &[i64])]) -> Result<()> {
        let mut seen = HashSet::new();
        let mut wanted = Vec::new();
        for (code, sizes) in work {
            let own = own(*code)?;
            if seen.insert((std::ptr::from_ref(own).addr(), own.need(sizes))) {
                wanted.push((own, *sizes));
            }
        }
        let (work, next) = (wanted, AtomicUsize::new(0));
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(work.len().max(1));
        let failed: Mutex<Option<Error>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some((code, sizes)) = work.get(next.fetch_add(1, Relaxed)) {
                        if let Err(e) = code.make_ready(sizes) {
                            lock(&failed).get_or_insert(e);
                        }
                    }
                });
            }
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    unsafe fn write(&self, dst: *mut u8, src: &[u8]) -> Result<()> {
        self.context.enter()?;
        // SAFETY: the caller says that there is room.
        unsafe { lock(&self.staging).write(&self.context, dst.addr() as Address, src) }
    }

    unsafe fn read(&self, dst: &mut [u8], src: *const u8) -> Result<()> {
        self.context.enter()?;
        // SAFETY: the caller says that there are as many bytes.
        unsafe { lock(&self.staging).read(&self.context, dst, src.addr() as Address) }
    }

    unsafe fn launch(&self, code: &dyn Code, launch: &Launch<'_>) -> Result<()> {
        self.context.enter()?;
        // SAFETY: the caller vouches for buffers and sizes.
        unsafe { own(code)?.launch(launch) }
    }

    unsafe fn launch_list(&self, list: &[Listed<'_>], kept: &mut Kept) -> std::result::Result<(), Stopped> {
        // SAFETY: the caller vouches for buffers and sizes.
        unsafe { graph::replay(&self.context, list, kept) }
    }

    fn takes_lists(&self) -> bool {
        self.context.clock.is_none()
    }

    fn receipt(&self) -> Result<Option<Receipt>> {
        if !self.context.may_report.swap(false, Relaxed) {
            return Ok(None);
        }
        self.context.enter()?;
        lock(&self.reports).receipt(&self.context).map(Some)
    }

    fn redeem(&self, receipt: Receipt, wait: bool) -> Result<Option<Report>> {
        self.context.enter()?;
        lock(&self.reports).redeem(&self.context, receipt, wait)
    }

    fn wait(&self) -> Result<()> {
        self.context.enter()?;
        self.context.wait()
    }

    fn describe(&self) -> Vec<String> {
        let f = self.facts();
        let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
        let ((free, total), driver) = (self.memory(), f.driver);
        vec![
            format!("{}, {}, {} multiprocessors", f.name, f.arch, f.multiprocessors),
            format!("{:.1} GiB, {:.1} free", gib(total), gib(free)),
            format!("driver for CUDA {}.{}, NVRTC {}.{}", driver / 1000, driver % 1000 / 10, f.nvrtc.0, f.nvrtc.1),
        ]
    }

    fn allocations(&self) -> u64 {
        self.allocations.load(Relaxed)
    }

    fn details(&self) -> Vec<(&'static str, u64)> {
        let graphs = &self.context.graphs;
        let ((fast, general), (compiled, cached)) = (self.fast_launches(), self.kernels());
        vec![
            ("graphs_made", graphs.made.load(Relaxed)),
            ("graphs_launched", graphs.launched.load(Relaxed)),
            ("graph_launches_set", graphs.set.load(Relaxed)),
            ("fast_launches", fast),
            ("general_launches", general),
            ("kernels_compiled", compiled),
            ("kernels_from_cache", cached),
        ]
    }
}
