//! The one place where the runtime touches memory and starts kernels: the driver's unsafe calls, behind checks.
#![allow(unsafe_code, reason = "a driver's calls take raw memory; the plan has been checked against it")]

use crate::memory::Memory;
use rtx_core::{Error, Kind, Result};
use rtx_hal::{Code, Device, ErrorSlot, Kept, Launch, Listed, Stopped};
use smallvec::SmallVec;

/// Copies bytes to the start of a memory.
pub(crate) fn write(memory: &Memory, bytes: &[u8]) -> Result<()> {
    check_range(memory, 0, bytes.len())?;
    // SAFETY: the memory has room for the bytes, as checked.
    unsafe { memory.device().write(memory.ptr(), bytes) }
}

/// Copies bytes from a memory.
pub(crate) fn read(memory: &Memory, offset: usize, bytes: usize) -> Result<Vec<u8>> {
    check_range(memory, offset, bytes)?;
    let mut out = vec![0; bytes];
    // SAFETY: the memory has as many bytes after the offset, as checked; who runs writes only memory that no
    // value shows.
    unsafe { memory.device().read(&mut out, memory.ptr().add(offset))? };
    Ok(out)
}

fn check_range(memory: &Memory, offset: usize, bytes: usize) -> Result<()> {
    match offset.checked_add(bytes) {
        Some(end) if end <= memory.bytes() => Ok(()),
        _ => {
            let message = format!("{bytes} bytes at {offset} do not lie in a memory of {}", memory.bytes());
            Err(Error::new(Kind::Internal, message))
        }
    }
}

/// A buffer argument, ready to be passed.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Pointer(*mut u8);
// SAFETY: an address; it is used only while a region runs, under the executor's lock.
unsafe impl Send for Pointer {}

impl Pointer {
    /// The start of a memory and bytes to skip.
    pub(crate) fn new(memory: &Memory, offset_bytes: i64) -> Self {
        Pointer(memory.ptr().wrapping_offset(offset_bytes as isize))
    }
    /// An argument that no kernel of the plan reads.
    pub(crate) fn nowhere() -> Self {
        Pointer(std::ptr::null_mut())
    }
    /// So many bytes on.
    pub(crate) fn add(self, bytes: i64) -> Self {
        Pointer(self.0.wrapping_offset(bytes as isize))
    }
}

/// The arguments of one kernel run.
pub(crate) struct Arguments<'a> {
    pub(crate) buffers: &'a [Pointer],
    pub(crate) sizes: &'a [i64],
}

/// Runs one step of a plan.
pub(crate) fn run_step<'a>(
    device: &dyn Device,
    code: &dyn Code,
    error: &ErrorSlot,
    instances: impl ExactSizeIterator<Item = Arguments<'a>>,
) -> Result<()> {
    let launches: SmallVec<[Launch<'_>; 4]> =
        instances.map(|i| Launch { buffers: raw(i.buffers), sizes: i.sizes, error }).collect();
    // SAFETY: the compiler vouches for the plan; its places have been checked against the memory they name, and
    // that memory is held until the plan has run. Instances of one step are independent by the plan's contract.
    unsafe {
        match launches.as_slice() {
            [one] => device.launch(code, one),
            many => device.launch_many(code, many),
        }
    }
}

/// One kernel run of a plan.
pub(crate) struct Planned<'a> {
    pub(crate) code: &'a dyn Code,
    pub(crate) step: u32,
    pub(crate) arguments: Arguments<'a>,
}

/// Runs all of a plan, for a driver that takes lists.
pub(crate) fn run_list<'a>(
    device: &dyn Device,
    error: &ErrorSlot,
    kept: &mut Kept,
    all: impl Iterator<Item = Planned<'a>>,
) -> Result<(), Stopped> {
    let listed = |p: Planned<'a>| {
        let launch = Launch { buffers: raw(p.arguments.buffers), sizes: p.arguments.sizes, error };
        Listed { code: p.code, launch, step: p.step }
    };
    let list: Vec<Listed<'_>> = all.map(listed).collect();
    // SAFETY: as in `run_step`.
    unsafe { device.launch_list(&list, kept) }
}

/// The same pointers, as the driver's type.
fn raw(pointers: &[Pointer]) -> &[*mut u8] {
    // SAFETY: `Pointer` has one field of that type and is transparent.
    unsafe { std::slice::from_raw_parts(pointers.as_ptr().cast(), pointers.len()) }
}
