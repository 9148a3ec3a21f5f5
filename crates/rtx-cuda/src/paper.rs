//! [`PaperDevice`]: a GPU that is not there. Programs are planned for it and nothing runs; what it would launch is counted.
use crate::code::{grids, native_program, tile_program};
use crate::device::lock;
use crate::{Program, Template};
use rtx_core::Result;
use rtx_hal::{Code, Device, KernelSource, Lang, Launch, Target};
use rustg::{Instr, Nest, Size, TileProg, View};
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What was launched of one kernel with these sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Kernel and sizes.
    pub name: String,
    /// How often it was asked for.
    pub runs: u64,
    /// Launches that these came to.
    pub launches: u64,
    /// Bytes of the elements that one run of a tile program or of an epilogue names, each once; 0 for what is written by
    /// hand.
    pub bytes: u64,
}

/// A target without a machine. Its memory reads as zeros.
pub struct PaperDevice {
    target: Target,
    templates: Vec<Arc<dyn Template>>,
    next: AtomicU64,
    allocations: AtomicU64,
    counted: Mutex<HashMap<String, Counted>>,
}

impl PaperDevice {
    /// A GPU of this architecture and with so many multiprocessors.
    pub fn new(arch: &'static str, multiprocessors: usize, templates: Vec<Arc<dyn Template>>) -> Self {
        Self {
            target: Target { family: "cuda", isa: arch, threads: multiprocessors },
            templates,
            next: AtomicU64::new(1 << 20),
            allocations: AtomicU64::new(0),
            counted: Mutex::default(),
        }
    }

    /// What was launched since the last call, the most bytes first.
    pub fn take(&self) -> Vec<Counted> {
        let mut all: Vec<Counted> = lock(&self.counted).drain().map(|(_, c)| c).collect();
        all.sort_by_key(|c| (std::cmp::Reverse(c.bytes * c.runs), c.name.clone()));
        all
    }

    fn count(&self, code: &PaperCode, sizes: &[i64]) {
        let (launches, bytes) = match code {
            PaperCode::Tile(_, program) => tile(program, sizes),
            PaperCode::Native(_, program, epilogue) => {
                let own = &sizes[..program.arguments.1.min(sizes.len())];
                let fast = program.fast.as_ref().filter(|f| f.arch == self.target.isa);
                let plan = fast.and_then(|f| (f.plan)(own, self.target.threads));
                let general = || program.stages.iter().filter(|s| (s.grid)(own).is_some()).count();
                let launches = plan.map_or_else(general, |plan| plan.shots.len()) as u64;
                let first = program.epilogue.as_ref().map_or(0, |e| e.first_size.min(sizes.len()));
                let after = epilogue.as_ref().map_or((0, 0), |tile_program| tile(tile_program, &sizes[first..]));
                (launches + after.0, after.1)
            }
        };
        let name = format!("{} {sizes:?}", code.name());
        let mut counted = lock(&self.counted);
        let entry = counted.entry(name.clone()).or_insert(Counted { name, bytes, ..Counted::default() });
        entry.runs += 1;
        entry.launches += launches;
    }
}

/// Launches of a tile program, and the bytes that it names.
fn tile(program: &TileProg, sizes: &[i64]) -> (u64, u64) {
    (grids(program, sizes).0.len() as u64, bytes(program.nest(), sizes))
}

fn bytes(nest: &Nest, sizes: &[i64]) -> u64 {
    let size = |s: Size| match s {
        Size::Const(n) => n,
        Size::Arg(i) => sizes.get(i as usize).copied().unwrap_or(0),
    };
    let extent = |view: &View| -> u64 {
        let elements: i64 = view.strides.iter().map(|(axis, _)| size(nest.axes[axis.index()].extent)).product();
        elements.max(0) as u64 * nest.buffers[view.buffer.index()].dtype.size() as u64
    };
    let loads = nest.instrs.iter().filter_map(|i| match i {
        Instr::Load(view) => Some(view),
        _ => None,
    });
    loads.chain(nest.stores.iter().map(|s| &s.view)).map(extent).sum()
}

/// A kernel that is only looked at.
enum PaperCode {
    Tile(String, Box<TileProg>),
    Native(String, Box<Program>, Option<Box<TileProg>>),
}

impl PaperCode {
    fn name(&self) -> &str {
        match self {
            PaperCode::Tile(name, _) | PaperCode::Native(name, ..) => name,
        }
    }
}

impl Code for PaperCode {
    unsafe fn run(&self, _: &Launch<'_>) {}
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Device for PaperDevice {
    fn name(&self) -> String {
        "paper".to_owned()
    }
    fn target(&self) -> &Target {
        &self.target
    }
    fn allocate(&self, bytes: usize) -> Result<*mut u8> {
        self.allocations.fetch_add(1, Relaxed);
        let at = self.next.fetch_add(bytes.max(1).next_multiple_of(256) as u64, Relaxed);
        Ok(std::ptr::without_provenance_mut(at as usize))
    }
    unsafe fn free(&self, _: *mut u8, _: usize) {}
    fn load(&self, source: &KernelSource) -> Result<Arc<dyn Code>> {
        let name = source.name.clone();
        Ok(Arc::new(match source.lang {
            Lang::Tile => PaperCode::Tile(name, Box::new(tile_program(&source.text)?)),
            Lang::Native => {
                let program = native_program(&self.templates, &source.text)?;
                let epilogue = program.epilogue.as_ref().map(|e| tile_program(&e.text).map(Box::new)).transpose()?;
                PaperCode::Native(name, Box::new(program), epilogue)
            }
        }))
    }
    unsafe fn write(&self, _: *mut u8, _: &[u8]) -> Result<()> {
        Ok(())
    }
    unsafe fn read(&self, dst: &mut [u8], _: *const u8) -> Result<()> {
        dst.fill(0);
        Ok(())
    }
    unsafe fn launch(&self, code: &dyn Code, launch: &Launch<'_>) -> Result<()> {
        if let Some(code) = code.as_any().downcast_ref::<PaperCode>() {
            self.count(code, launch.sizes);
        }
        Ok(())
    }
    fn allocations(&self) -> u64 {
        self.allocations.load(Relaxed)
    }
}
