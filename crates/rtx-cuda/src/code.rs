//! Kernels as code: texts compiled for the grids that their sizes make, and launches of them.
use crate::Template;
use crate::device::{Context, lock};
use crate::fast::FastCode;
use crate::graph::Sink;
use crate::sys::{self, Handle};
use crate::template::{Grid, Program};
use rtx_core::{Error, Kind, Result};
use rtx_hal::{Code, KernelSource, Lang, Launch};
use rustg::{Instr, TileProg, cuda};
use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::{CStr, CString, c_void};
use std::hash::{Hash, Hasher};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// An entry of a loaded module. Modules stay loaded: code is shared by plans and bounded by the runtime's cache.
pub(crate) struct Function(Handle);
// SAFETY: a handle of a context, used while that is current.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    pub(crate) fn handle(&self) -> Handle {
        self.0
    }

    /// Loads machine code; the context is current.
    pub(crate) fn load(context: &Context, cubin: &[u8], entry: &CStr) -> Result<Self> {
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: the code is NVRTC's, whole; two handles to write.
        unsafe {
            context.check((context.cuda.module_load)(&mut module, cubin.as_ptr().cast()), "a kernel's code")?;
            context.check((context.cuda.module_function)(&mut function, module, entry.as_ptr()), "a kernel's entry")?;
        }
        Ok(Self(function))
    }

    /// Asks for shared memory that is not a kernel's by default.
    pub(crate) fn ask_shared(&self, context: &Context, bytes: u32) -> Result<()> {
        if bytes <= USUAL_SHARED {
            return Ok(());
        }
        // SAFETY: the function is this context's.
        context
            .check(unsafe { (context.cuda.function_set)(self.0, sys::DYNAMIC_SHARED, bytes as i32) }, "shared memory")
    }

    /// Queues a launch.
    ///
    /// # Safety
    /// The arguments are what the entry takes, and what they point to is there.
    pub(crate) unsafe fn launch(&self, context: &Context, grid: Grid, arguments: &mut [u64]) -> Result<()> {
        if grid.blocks == 0 {
            return Ok(());
        }
        let blocks = grid.x()?;
        // One argument, a struct: the driver knows its size, and where its alignment puts it.
        let mut list: [*mut c_void; 1] = [arguments.as_mut_ptr().cast()];
        // SAFETY: the caller's promise.
        let status = unsafe {
            (context.cuda.launch)(
                self.0,
                blocks,
                1,
                1,
                grid.threads,
                1,
                1,
                grid.shared_bytes,
                context.stream,
                list.as_mut_ptr(),
                null_mut(),
            )
        };
        context.check(status, "a launch")
    }
}

/// What this driver's code is.
pub(crate) enum CudaCode {
    Tile(Box<TileCode>),
    Native(Box<NativeCode>),
}

impl CudaCode {
    /// Compiles what launches of these sizes need.
    pub(crate) fn make_ready(&self, sizes: &[i64]) -> Result<()> {
        match self {
            CudaCode::Tile(tile) => tile.ready(sizes).map(|_| ()),
            CudaCode::Native(native) => native.make_ready(sizes),
        }
    }

    /// Equal for sizes that need the same kernels.
    pub(crate) fn need(&self, sizes: &[i64]) -> u64 {
        match self {
            CudaCode::Tile(tile) => tile.own_sizes(sizes).map_or(0, |sizes| tile_need(&tile.program, sizes)),
            CudaCode::Native(native) => native.need(sizes),
        }
    }

    /// Queues a launch; the context is current.
    ///
    /// # Safety
    /// As [`Code::run`].
    pub(crate) unsafe fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                CudaCode::Tile(tile) => tile.launch(launch.buffers, launch.sizes, launch.error.step()),
                CudaCode::Native(native) => native.launch(launch),
            }
        }
    }

    /// Passes its launches on.
    ///
    /// # Safety
    /// As [`Code::run`], when what `sink` got is launched.
    pub(crate) unsafe fn queue(&self, launch: &Launch<'_>, sink: &mut Sink<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                CudaCode::Tile(tile) => tile.queue(launch.buffers, launch.sizes, launch.error.step(), sink),
                CudaCode::Native(native) => native.queue(launch, sink),
            }
        }
    }
}

impl Code for CudaCode {
    /// Queues the launch; what goes wrong is told by the device's next call, as every lost context does.
    unsafe fn run(&self, launch: &Launch<'_>) {
        // SAFETY: the caller's promise.
        _ = unsafe { self.launch(launch) };
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Buffers, sizes, fault and step as a kernel's `Args`.
fn pack(context: &Context, buffers: &[*mut u8], sizes: &[i64], step: u32) -> Vec<u64> {
    let mut words: Vec<u64> = Vec::with_capacity(buffers.len() + sizes.len() + 4);
    words.extend(buffers.iter().map(|b| b.addr() as u64));
    words.resize(buffers.len().max(1), 0);
    words.extend(sizes.iter().map(|s| *s as u64));
    words.resize(buffers.len().max(1) + sizes.len().max(1), 0);
    words.extend([context.fault, u64::from(step)]);
    words
}

/// A tile program: a kernel for each grid that its sizes have made.
pub(crate) struct TileCode {
    name: String,
    program: TileProg,
    context: Arc<Context>,
    reports: bool,
    kernels: Mutex<Kernels>,
}

#[derive(Default)]
struct Kernels {
    by_grid: HashMap<cuda::Grid, Arc<Function>>,
    /// Sizes met, and what they came to.
    by_sizes: HashMap<Vec<i64>, Arc<Launches>>,
}

/// One launch, or two with scratch memory between them.
struct Launches {
    all: Vec<(Arc<Function>, cuda::Launch)>,
    scratch: usize,
}

/// Lists of sizes that are remembered.
const MOST_SIZES: usize = 4096;

impl TileCode {
    pub(crate) fn parse(context: &Arc<Context>, name: &str, text: &str) -> Result<Self> {
        let program = tile_program(text)?;
        let checks = |i: &Instr| matches!(i, Instr::Load(view) if view.indexed.iter().any(|x| x.checked));
        let reports = program.nest().instrs.iter().any(checks);
        let name = name.to_owned();
        Ok(Self { name, program, context: context.clone(), reports, kernels: Mutex::default() })
    }

    fn own_sizes<'s>(&self, sizes: &'s [i64]) -> Result<&'s [i64]> {
        let few = || Error::new(Kind::Internal, "tile program: a launch with too few sizes");
        sizes.get(..self.program.nest().sizes as usize).ok_or_else(few)
    }

    /// The kernels for these sizes, and their launches.
    fn ready(&self, sizes: &[i64]) -> Result<Arc<Launches>> {
        let sizes = self.own_sizes(sizes)?;
        if let Some(launches) = lock(&self.kernels).by_sizes.get(sizes) {
            return Ok(launches.clone());
        }
        let (grids, scratch) = grids(&self.program, sizes);
        let mut all = Vec::with_capacity(grids.len());
        for grid in grids {
            let launch = grid.launch(&self.program, sizes);
            let known = lock(&self.kernels).by_grid.get(&grid).cloned();
            let function = match known {
                Some(function) => function,
                None => {
                    let entry = CString::new(cuda::ENTRY).unwrap_or_default();
                    // Not under the lock: several grids compile at once. One compiled twice is kept once.
                    let new = Arc::new(self.context.function(&cuda::print(&self.program, &grid), &entry)?);
                    lock(&self.kernels).by_grid.entry(grid).or_insert(new).clone()
                }
            };
            all.push((function, launch));
        }
        self.context.grow_scratch(&mut lock(&self.context.scratch), scratch)?;
        let launches = Arc::new(Launches { all, scratch });
        let mut kernels = lock(&self.kernels);
        if kernels.by_sizes.len() >= MOST_SIZES {
            kernels.by_sizes.clear();
        }
        kernels.by_sizes.insert(sizes.to_vec(), launches.clone());
        Ok(launches)
    }

    unsafe fn launch(&self, buffers: &[*mut u8], sizes: &[i64], step: u32) -> Result<()> {
        let Some(clock) = &self.context.clock else {
            // SAFETY: the caller's promise.
            return unsafe { self.queue(buffers, sizes, step, &mut Sink::Stream) };
        };
        let name = format!("{} {sizes:?}", self.name);
        // SAFETY: as above.
        clock.time(&self.context, name, || unsafe { self.queue(buffers, sizes, step, &mut Sink::Stream) })
    }

    unsafe fn queue(&self, buffers: &[*mut u8], sizes: &[i64], step: u32, sink: &mut Sink<'_>) -> Result<()> {
        let launches = self.ready(sizes)?;
        if self.reports {
            self.context.may_report.store(true, Relaxed);
        }
        let buffers = &buffers[..self.program.nest().buffers.len().min(buffers.len())];
        let mut arguments = pack(&self.context, buffers, self.own_sizes(sizes)?, step);
        // Held until all are queued: the scratch memory is everybody's.
        let mut scratch = (launches.scratch > 0).then(|| lock(&self.context.scratch));
        if let Some(scratch) = &mut scratch {
            self.context.grow_scratch(scratch, launches.scratch)?;
            arguments.push(scratch.0);
        }
        for (function, launch) in &launches.all {
            let grid = Grid { blocks: launch.blocks.into(), threads: launch.threads, shared_bytes: 0 };
            // SAFETY: the caller's promise: the kernel was printed for these arguments.
            unsafe { sink.push(&self.context, function, grid, &mut arguments)? };
        }
        Ok(())
    }
}

/// How a program runs for these sizes, and the bytes of scratch memory that its launches share.
pub(crate) fn grids(program: &TileProg, sizes: &[i64]) -> (Vec<cuda::Grid>, usize) {
    let grid = cuda::Grid::new(program, sizes);
    match grid.split(program, sizes) {
        Some((parts, bytes)) => (parts.into(), bytes),
        None => (vec![grid], 0),
    }
}

/// As [`CudaCode::need`].
fn tile_need(program: &TileProg, sizes: &[i64]) -> u64 {
    let (grids, scratch) = grids(program, sizes);
    grids.iter().fold(scratch as u64, |n, grid| n.wrapping_mul(31).wrapping_add(grid.number()))
}

/// A hand-written program.
pub(crate) struct NativeCode {
    name: String,
    program: Program,
    fast: FastCode,
    context: Arc<Context>,
    reports: bool,
    epilogue: Option<TileCode>,
    /// Of each stage, once it was needed.
    functions: Mutex<Vec<Option<Arc<Function>>>>,
}

/// From this on an entry asks for shared memory that is not a kernel's by default.
const USUAL_SHARED: u32 = 48 << 10;

impl NativeCode {
    pub(crate) fn new(context: &Arc<Context>, name: &str, program: Program) -> Result<Self> {
        let epilogue = program.epilogue.as_ref().map(|e| TileCode::parse(context, name, &e.text)).transpose()?;
        Ok(Self {
            name: name.to_owned(),
            fast: FastCode::default(),
            reports: program.text.contains("report("),
            functions: Mutex::new(vec![None; program.stages.len()]),
            context: context.clone(),
            epilogue,
            program,
        })
    }

    fn stage(&self, i: usize, grid: Grid) -> Result<Arc<Function>> {
        if let Some(function) = &lock(&self.functions)[i] {
            return Ok(function.clone());
        }
        let entry = CString::new(self.program.stages[i].entry).unwrap_or_default();
        let new = Arc::new(self.context.function(&self.program.source(&self.program.stages[i]), &entry)?);
        new.ask_shared(&self.context, grid.shared_bytes)?;
        Ok(lock(&self.functions)[i].get_or_insert(new).clone())
    }

    /// As [`CudaCode::need`].
    fn need(&self, sizes: &[i64]) -> u64 {
        let own = &sizes[..self.program.arguments.1.min(sizes.len())];
        let stages = self.program.stages.iter().fold(0, |n, stage| 2 * n + (stage.grid)(own).is_some() as u64);
        let rest = match (&self.epilogue, &self.program.epilogue) {
            (Some(tile), Some(e)) => tile_need(&tile.program, &sizes[e.first_size.min(sizes.len())..]),
            _ => 0,
        };
        let fast = self.fast.plan(&self.context, &self.program, own).map_or(0, |plan| {
            let mut hasher = DefaultHasher::new();
            plan.shots.iter().for_each(|shot| shot.define.hash(&mut hasher));
            (plan.scratch, hasher.finish()).hash(&mut hasher);
            hasher.finish()
        });
        stages.wrapping_add(rest).wrapping_add(fast)
    }

    fn make_ready(&self, sizes: &[i64]) -> Result<()> {
        let (all, sizes) = (sizes, &sizes[..self.program.arguments.1.min(sizes.len())]);
        if let Some(plan) = self.fast.plan(&self.context, &self.program, sizes) {
            self.fast.make_ready(&self.context, &self.program, &plan)?;
        } else {
            for (i, stage) in self.program.stages.iter().enumerate() {
                if let Some(grid) = (stage.grid)(sizes) {
                    self.stage(i, grid)?;
                }
            }
        }
        match (&self.epilogue, &self.program.epilogue) {
            (Some(tile), Some(e)) => tile.ready(&all[e.first_size.min(all.len())..]).map(|_| ()),
            _ => Ok(()),
        }
    }

    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<()> {
        let Some(clock) = &self.context.clock else {
            // SAFETY: the caller's promise.
            return unsafe { self.queue(launch, &mut Sink::Stream) };
        };
        let name = format!("{} {:?}", self.name, launch.sizes);
        // SAFETY: as above.
        clock.time(&self.context, name, || unsafe { self.queue(launch, &mut Sink::Stream) })
    }

    unsafe fn queue(&self, launch: &Launch<'_>, sink: &mut Sink<'_>) -> Result<()> {
        let (buffers, sizes) = self.program.arguments;
        let (Some(own), Some(own_sizes)) = (launch.buffers.get(..buffers), launch.sizes.get(..sizes)) else {
            return Err(Error::new(Kind::Internal, "cuda: a launch with too few arguments"));
        };
        let step = launch.error.step();
        if self.reports {
            self.context.may_report.store(true, Relaxed);
        }
        let mut arguments = pack(&self.context, own, own_sizes, step);
        let done = match self.fast.plan(&self.context, &self.program, own_sizes) {
            // SAFETY: the caller's promise.
            Some(plan) => unsafe { self.fast.launch(&self.context, &self.program, &plan, (&arguments, own), sink)? },
            None => false,
        };
        if !done {
            self.context.fast.1.fetch_add(1, Relaxed);
            for (i, stage) in self.program.stages.iter().enumerate() {
                if let Some(grid) = (stage.grid)(own_sizes) {
                    // SAFETY: the caller's promise.
                    unsafe { sink.push(&self.context, &self.stage(i, grid)?, grid, &mut arguments)? };
                }
            }
        }
        if let (Some(tile), Some(e)) = (&self.epilogue, &self.program.epilogue) {
            // SAFETY: as above: the epilogue's arguments follow the kernel's.
            unsafe { tile.queue(&launch.buffers[e.first_buffer..], &launch.sizes[e.first_size..], step, sink)? };
        }
        Ok(())
    }
}

pub(crate) fn tile_program(text: &str) -> Result<TileProg> {
    TileProg::parse(text).map_err(|e| Error::new(Kind::Internal, format!("tile program: {e}")))
}

/// The hand-written program that a text names by its first word.
pub(crate) fn native_program(templates: &[Arc<dyn Template>], text: &str) -> Result<Program> {
    let (name, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
    let none = || Error::new(Kind::Unsupported, format!("{name}: no kernel of cuda takes it"));
    let template = templates.iter().find(|t| t.name() == name).ok_or_else(none)?;
    template.program(rest.strip_prefix(' ').unwrap_or(rest))
}

/// What NVRTC is given.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text {
    /// CUDA C++.
    pub text: String,
    /// The one architecture that it is for, if there is one.
    pub arch: Option<&'static str>,
}

/// The texts that a source becomes for launches of these sizes. Needs no GPU.
///
/// # Errors
/// As `Device::load`.
pub fn texts(source: &KernelSource, templates: &[Arc<dyn Template>], sizes: &[i64]) -> Result<Vec<Text>> {
    let any = |text: String| Text { text, arch: None };
    let tile = |text: &str, sizes: &[i64]| {
        let program = tile_program(text)?;
        let (grids, _) = grids(&program, sizes);
        Ok::<_, Error>(grids.iter().map(|grid| any(cuda::print(&program, grid))).collect::<Vec<_>>())
    };
    if source.lang == Lang::Tile {
        return tile(&source.text, sizes);
    }
    let program = native_program(templates, &source.text)?;
    let own = &sizes[..program.arguments.1.min(sizes.len())];
    let runs = program.stages.iter().filter(|s| (s.grid)(own).is_some());
    let mut texts: Vec<Text> = runs.map(|s| any(program.source(s))).collect();
    if let Some(fast) = &program.fast
        && let Some(plan) = (fast.plan)(own, 132)
    {
        let text = |shot| Text { text: program.fast_source(fast, shot), arch: Some(fast.arch) };
        texts.extend(plan.shots.iter().map(text));
    }
    if let Some(e) = &program.epilogue {
        texts.extend(tile(&e.text, &sizes[e.first_size.min(sizes.len())..])?);
    }
    Ok(texts)
}
