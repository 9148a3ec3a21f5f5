//! Hand-written kernels as data: their text, and which of its entries run over which grid for which sizes.
use rtx_core::{Error, Kind, Result};

/// A hand-written kernel: a name that kernel sources refer to, and a program for each set of parameters. The program's
/// entries take what printed kernels take: `struct Args { u8* b[buffers]; i64 s[sizes]; Fault* fault; u64 step; }`.
pub trait Template: Send + Sync {
    /// The first word of its sources.
    fn name(&self) -> &'static str;
    /// The program for the text after the name.
    ///
    /// # Errors
    /// [`rtx_core::Kind::Internal`] when the text is not what its claim writes, [`rtx_core::Kind::Unsupported`] for what
    /// is not there on this device.
    fn program(&self, text: &str) -> Result<Program>;
}

/// Everything that NVRTC needs, and how it runs.
pub struct Program {
    /// CUDA C++, the prelude included, up to the arguments' struct, which the driver writes.
    pub prelude: String,
    /// The entries.
    pub text: String,
    /// How many buffers and sizes the entries take.
    pub arguments: (usize, usize),
    /// Entries, in order.
    pub stages: Vec<Stage>,
    /// A tile program that runs over all of the result afterwards.
    pub epilogue: Option<Epilogue>,
    /// Kernels for one architecture, run instead of the stages where they take the sizes.
    pub fast: Option<Fast>,
}

/// Kernels for one architecture. Their arguments are `struct Args { Map m[maps]; u8* b[buffers]; i64 s[sizes]; Fault*
/// fault; u64 step; u8* scratch; }`.
pub struct Fast {
    /// `sm_90a`.
    pub arch: &'static str,
    /// CUDA C++ after the arguments' struct and a shot's lines.
    pub text: String,
    /// The launches for these sizes on so many multiprocessors; `None` leaves them to the stages.
    #[allow(clippy::type_complexity, reason = "a function and what it may hold")]
    pub plan: Box<dyn Fn(&[i64], usize) -> Option<FastPlan> + Send + Sync>,
}

/// What [`Fast`] runs for certain sizes.
pub struct FastPlan {
    /// Launches in order.
    pub shots: Vec<Shot>,
    /// Bytes that they share while they run.
    pub scratch: usize,
}

/// One launch.
pub struct Shot {
    /// The kernel's name.
    pub entry: &'static str,
    /// Lines before the text: what of it this kernel is.
    pub define: String,
    /// Its grid.
    pub grid: Grid,
    /// How it sees its buffers.
    pub maps: Vec<TensorMap>,
}

/// A buffer of 16-bit elements as the tensor copy engine sees it, in boxes of 64 x `lines`, swizzled by 128 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Which of the launch's buffers.
    pub buffer: usize,
    /// Extents, the one whose elements lie side by side first.
    pub extents: [u64; 4],
    /// Bytes from element to element along the others; multiples of 16.
    pub strides: [u64; 3],
    /// Lines of a box.
    pub lines: u32,
}

impl TensorMap {
    /// A map of `extents` elements with strides in elements; `None` where the copy engine cannot walk it.
    pub fn new(buffer: usize, extents: [i64; 4], strides: [i64; 3], lines: u32) -> Option<Self> {
        let fits = extents.iter().all(|n| (1..1 << 31).contains(n));
        let mut bytes = [0u64; 3];
        for (i, stride) in strides.into_iter().enumerate() {
            // Along one element nothing is walked.
            let stride = if extents[i + 1] == 1 { 8 } else { stride };
            if stride <= 0 || stride % 8 != 0 || stride >= 1 << 38 {
                return None;
            }
            bytes[i] = 2 * stride as u64;
        }
        fits.then(|| Self { buffer, extents: extents.map(|n| n as u64), strides: bytes, lines })
    }
}

/// One entry.
pub struct Stage {
    /// Its name.
    pub entry: &'static str,
    /// Lines before the program's text: what of it this entry is.
    pub define: &'static str,
    /// The grid for these sizes; `None` where another entry serves them.
    pub grid: fn(&[i64]) -> Option<Grid>,
}

/// Blocks and threads of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x; nothing is launched where there are none.
    pub blocks: u64,
    /// Threads of each.
    pub threads: u32,
    /// Bytes of shared memory that the entry does not declare itself.
    pub shared_bytes: u32,
}

impl Grid {
    /// Blocks along x, if a launch takes so many.
    pub(crate) fn x(self) -> Result<u32> {
        let fits = u32::try_from(self.blocks).ok().filter(|b| *b <= i32::MAX as u32);
        fits.ok_or_else(|| Error::new(Kind::Unsupported, format!("cuda: a launch of {} blocks", self.blocks)))
    }
    /// So many threads of work in blocks of 256.
    pub fn over(work: i64) -> Option<Self> {
        Some(Self { blocks: (work.max(0) as u64).div_ceil(256), threads: 256, shared_bytes: 0 })
    }
}

/// What a kernel absorbed: its buffers are the kernel's from one on, its sizes likewise.
pub struct Epilogue {
    /// The tile program's text.
    pub text: String,
    /// Its first buffer among the launch's.
    pub first_buffer: usize,
    /// Its first size among the launch's.
    pub first_size: usize,
}

impl Program {
    /// The whole text of a fast kernel.
    pub fn fast_source(&self, fast: &Fast, shot: &Shot) -> String {
        let ((buffers, sizes), maps) = (self.arguments, shot.maps.len().max(1));
        let arguments = format!(
            "struct __align__(64) Map {{ u64 words[16]; }};\nstruct Args {{ Map m[{maps}]; u8* b[{buffers}]; i64 s[{sizes}]; Fault* fault; u64 step; u8* scratch; }};\n"
        );
        [self.prelude.as_str(), &arguments, &shot.define, &fast.text].concat()
    }
    /// The whole text of an entry.
    pub fn source(&self, stage: &Stage) -> String {
        let (buffers, sizes) = self.arguments;
        let arguments = format!("struct Args {{ u8* b[{buffers}]; i64 s[{sizes}]; Fault* fault; u64 step; }};\n");
        [self.prelude.as_str(), &arguments, stage.define, &self.text].concat()
    }
}
