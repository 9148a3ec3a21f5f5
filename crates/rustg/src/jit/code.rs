//! Printed code in executable memory, found again by the region that it was printed from.
use super::x86::{self, FRAME_HEAD, FRAME_WORDS};
use super::{BYTES, LOOPS, LOOPS_AVX2, NANOSECONDS, Region};
use crate::Isa;
use std::collections::HashMap;
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

pub(crate) use super::x86::{MOST_MEMS, MOST_ROWS};

/// One loop of machine code.
pub(crate) struct Code {
    start: *mut libc::c_void,
    bytes: usize,
    literals: Vec<Line>,
}
/// Literals lie within cache lines.
#[repr(C, align(64))]
struct Line([u64; 8]);
// SAFETY: the memory is never written after it became executable, and is given back by the last owner.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

/// What the code reads: rows, columns, tables, then a pointer and a pitch for each operand. It steps the pointers.
pub(crate) struct Frame([MaybeUninit<u64>; FRAME_WORDS]);

impl Frame {
    /// Nothing yet.
    pub fn new() -> Self {
        Frame([MaybeUninit::uninit(); FRAME_WORDS])
    }
    /// An operand's first row and pitch.
    ///
    /// # Safety
    /// It was set.
    pub unsafe fn get(&self, operand: usize) -> (u64, u64) {
        let at = FRAME_HEAD + 2 * operand.min(MOST_MEMS - 1);
        // SAFETY: the caller's.
        unsafe { (self.0[at].assume_init(), self.0[at + 1].assume_init()) }
    }
    /// Sets an operand: where its first row begins, and bytes from row to row.
    pub fn set(&mut self, operand: usize, pointer: *mut u8, pitch: isize) {
        let at = FRAME_HEAD + 2 * operand.min(MOST_MEMS - 1);
        self.0[at].write(pointer as u64);
        self.0[at + 1].write(pitch as u64);
    }
}

/// The code for a region: printed once in a process. `None` if the region is too large, or memory is not to be had.
pub(crate) fn load(region: &Region, isa: Isa) -> Option<Arc<Code>> {
    static KNOWN: LazyLock<Mutex<HashMap<Isa, Known>>> = LazyLock::new(Mutex::default);
    type Known = HashMap<Region, Option<Arc<Code>>>;
    // More than any one model has; then all is forgotten.
    const MOST: usize = 4096;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.entry(isa).or_default();
    if let Some(found) = known.get(region) {
        return found.clone();
    }
    let start = Instant::now();
    let dumps = std::env::var("RTX_DUMP").is_ok_and(|list| list.split(',').any(|f| f.trim() == "source"));
    let code = match x86::print(region, isa, dumps) {
        Ok(printed) => {
            if dumps {
                eprintln!("{}{}", describe(region, isa, printed.bytes.len()), printed.listing);
            }
            Code::new(&printed.bytes, &printed.literals).map(Arc::new)
        }
        Err(_) => None,
    };
    LOOPS.fetch_add(code.is_some() as u64, Relaxed);
    LOOPS_AVX2.fetch_add((code.is_some() && isa == Isa::Avx2) as u64, Relaxed);
    BYTES.fetch_add(code.as_ref().map_or(0, |c| c.bytes as u64), Relaxed);
    NANOSECONDS.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(region.clone(), code.clone());
    code
}

/// The region as comments of a listing.
fn describe(region: &Region, isa: Isa, bytes: usize) -> String {
    let mut out = format!("; {} steps in {bytes} bytes of {}\n", region.steps.len(), isa.name());
    for (m, mem) in region.mems.iter().enumerate() {
        _ = writeln!(out, ";   m{m} = {mem:?}");
    }
    for (s, step) in region.steps.iter().enumerate() {
        let out_to = step.out.map_or(String::new(), |m| format!(" -> m{m}"));
        _ = writeln!(out, ";   s{s} = {:?} {} of {:?}{out_to}", step.means.what, step.means.to, step.src);
    }
    out
}

impl Code {
    /// Bytes in memory that is written first and then made executable, never both.
    fn new(bytes: &[u8], literals: &[u64]) -> Option<Code> {
        let length = bytes.len();
        let line = |words: &[u64]| {
            let mut line = Line([0; 8]);
            line.0[..words.len()].copy_from_slice(words);
            line
        };
        let literals = literals.chunks(8).map(line).collect();
        // SAFETY: a fresh private mapping; it has room for the bytes, and nobody else knows it.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if start == libc::MAP_FAILED {
                return None;
            }
            let code = Code { start, bytes: length, literals };
            start.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), length);
            let refused = libc::mprotect(start, length, libc::PROT_READ | libc::PROT_EXEC) != 0;
            if refused { None } else { Some(code) }
        }
    }

    /// Runs `rows` rows of `cols` columns.
    ///
    /// # Safety
    /// The frame has every operand of the region, in its order, valid for what rows and columns say; `consts` is the
    /// table that the region's constants lie in. The machine has the instruction set it was printed for.
    pub unsafe fn run(&self, frame: &mut Frame, consts: *const u8, rows: usize, cols: usize) {
        if rows == 0 || cols == 0 {
            return;
        }
        let head = [rows as u64, cols as u64, consts as u64, self.literals.as_ptr() as u64, 0, 0];
        for (word, value) in frame.0.iter_mut().zip(head) {
            word.write(value);
        }
        // SAFETY: the code was printed to be called like this; it reads the operands that its region names and writes
        // the frame, its own stack and what its region stores.
        unsafe {
            let enter = std::mem::transmute::<*mut libc::c_void, unsafe extern "sysv64" fn(*mut u64)>(self.start);
            enter(frame.0.as_mut_ptr().cast())
        }
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of this length, and nobody runs it any more.
        unsafe {
            libc::munmap(self.start, self.bytes);
        }
    }
}
