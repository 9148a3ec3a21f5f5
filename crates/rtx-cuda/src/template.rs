//! Hand-written kernels as data: their text, and which of its entries run over which grid for which sizes.
use rtx_core::Result;

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
    /// The whole text of an entry.
    pub fn source(&self, stage: &Stage) -> String {
        let (buffers, sizes) = self.arguments;
        let arguments = format!("struct Args {{ u8* b[{buffers}]; i64 s[{sizes}]; Fault* fault; u64 step; }};\n");
        [self.prelude.as_str(), &arguments, stage.define, &self.text].concat()
    }
}
