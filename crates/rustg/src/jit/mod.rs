//! Printed code: what the tile VM does in many passes over a tile, in one loop of machine code.
//!
//! A [`Region`] is a run of instructions of one phase of a tile program; it is printed for AVX-512 or AVX2 and called by
//! the tile VM in their place. What cannot be printed stays with the VM and is counted. Every operation gives the bits
//! that the VM's gives, in the same order, so that results do not depend on which of the two runs.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is printed here"))]
mod body;
#[cfg(target_arch = "x86_64")]
mod code;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "nothing is printed here"))]
mod region;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "x86_64")]
pub(crate) use code::{Code, Frame, MOST_MEMS, MOST_ROWS, load};
#[cfg(not(target_arch = "x86_64"))]
use elsewhere::has;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use elsewhere::{Code, Frame, MOST_MEMS, MOST_ROWS, load};
pub(crate) use region::{Means, Mem, Region, Src, Step, What, is_printable};
#[cfg(target_arch = "x86_64")]
use x86::has;

use crate::Isa;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// When programs are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jit {
    /// Never: the tile VM runs everything.
    Never,
    /// When a program has run a few times.
    Warm,
    /// Before a program's first run.
    Always,
}

/// 0 is "not set".
static JIT: AtomicU8 = AtomicU8::new(0);

/// Sets when programs are printed, for the whole process; `None` goes back to what `RTX_JIT` asks for (`0` never,
/// `1` always), else [`Jit::Warm`].
pub fn set_jit(when: Option<Jit>) {
    JIT.store(when.map_or(0, |w| 1 + w as u8), Relaxed)
}
/// When programs are printed.
pub fn jit() -> Jit {
    match JIT.load(Relaxed) {
        1 => Jit::Never,
        2 => Jit::Warm,
        3 => Jit::Always,
        _ => default_jit(),
    }
}
fn default_jit() -> Jit {
    static DEFAULT: OnceLock<Jit> = OnceLock::new();
    *DEFAULT.get_or_init(|| match std::env::var("RTX_JIT").as_deref() {
        Ok("0") => Jit::Never,
        Ok("1") => Jit::Always,
        Ok(other) if !other.is_empty() => {
            eprintln!("RTX_JIT: `{other}` is neither 0 nor 1; programs are printed when they are warm");
            Jit::Warm
        }
        _ => Jit::Warm,
    })
}

/// Runs after which a program is worth printing.
const WARM_RUNS: u64 = 3;

/// Should a program that has run so many times be printed for this instruction set?
pub(crate) fn is_wanted(runs: u64, isa: Isa) -> bool {
    cfg!(target_arch = "x86_64")
        && isa >= Isa::Avx2
        && match jit() {
            Jit::Never => false,
            Jit::Warm => runs >= WARM_RUNS,
            Jit::Always => true,
        }
}

/// What has been printed since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JitCounters {
    /// Pieces of code.
    pub loops: u64,
    /// Pieces of code for AVX2, among them.
    pub loops_avx2: u64,
    /// Instructions of tile programs that run in them.
    pub printed: u64,
    /// Instructions of printed programs that stay with the tile VM.
    pub left: u64,
    /// Bytes of code.
    pub bytes: u64,
    /// Nanoseconds spent on printing.
    pub nanoseconds: u64,
}

static LOOPS: AtomicU64 = AtomicU64::new(0);
static LOOPS_AVX2: AtomicU64 = AtomicU64::new(0);
static PRINTED: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static NANOSECONDS: AtomicU64 = AtomicU64::new(0);

/// What has been printed since the process began.
pub fn jit_counters() -> JitCounters {
    JitCounters {
        loops: LOOPS.load(Relaxed),
        loops_avx2: LOOPS_AVX2.load(Relaxed),
        printed: PRINTED.load(Relaxed),
        left: LEFT.load(Relaxed),
        bytes: BYTES.load(Relaxed),
        nanoseconds: NANOSECONDS.load(Relaxed),
    }
}
/// Counts a program's instructions: in loops, and left to the tile VM.
pub(crate) fn count(printed: usize, left: usize) {
    PRINTED.fetch_add(printed as u64, Relaxed);
    LEFT.fetch_add(left as u64, Relaxed);
}

/// Where nothing is printed.
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere {
    use super::Region;
    use crate::Isa;
    use std::sync::Arc;

    pub(crate) const MOST_MEMS: usize = 0;
    pub(crate) const MOST_ROWS: usize = 1;
    pub(crate) enum Code {}
    pub(crate) struct Frame;
    impl Frame {
        pub fn new() -> Self {
            Frame
        }
        pub fn set(&mut self, _: usize, _: *mut u8, _: isize) {}
        pub unsafe fn get(&self, _: usize) -> (u64, u64) {
            (0, 0)
        }
    }
    impl Code {
        pub unsafe fn run(&self, _: &mut Frame, _: *const u8, _: usize, _: usize) {
            match *self {}
        }
    }
    pub(crate) fn load(_: &Region, _: Isa) -> Option<Arc<Code>> {
        None
    }
    pub(crate) fn has(_: &super::body::Mop, _: Isa) -> bool {
        false
    }
}
