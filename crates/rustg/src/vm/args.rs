//! What every kernel of the tile VM is called with, and how one body is compiled for each instruction set.
use super::fuse::Fused;
use crate::Isa;
use rtx_core::DType;

/// A move has its source and up to four indices.
pub(super) const MOST_OPERANDS: usize = 5;

/// Operands of one call, as rows of a tile. Pitches are in bytes.
pub(super) struct Args<'a> {
    pub dst: *mut u8,
    pub dst_pitch: isize,
    pub src: [*const u8; MOST_OPERANDS],
    pub pitch: [isize; MOST_OPERANDS],
    /// 1 where the operand has an element for every column, 0 where one element serves the row.
    pub step: [usize; MOST_OPERANDS],
    pub rows: usize,
    pub cols: usize,
    /// Position of the tile's first row and column in the index space.
    pub row0: i64,
    pub col0: i64,
    /// What the kernel needs beyond operands.
    pub extra: &'a Extra,
    pub machine: &'a Machine<'a>,
}

/// What some kernels need beyond operands.
pub(super) enum Extra {
    None,
    Move(Move),
    Reduce(Reduce),
    Cast { from: DType, to: DType },
    Fused(Box<Fused>),
}

/// How a move walks: bytes per column on both sides, and computed parts of the address.
pub(super) struct Move {
    pub dst_col: isize,
    pub src_col: isize,
    /// Operand `i + 1` is index `i`: added to the source's address, or the destination's when scattering.
    pub indices: Vec<Index>,
    pub scatter: bool,
}
/// A computed part of an address: `clamp(index) * stride`.
pub(super) struct Index {
    /// Bytes.
    pub stride: isize,
    pub bound: i64,
    pub checked: bool,
}
/// A place in the machine's memory: an entry of its table and bytes from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub entry: u32,
    pub offset: u32,
}

/// Where a reduction keeps what it has so far.
pub(super) struct Reduce {
    /// Lanes of the block under way (column kind), or best values (arg-reductions).
    pub lanes: Place,
    /// Results of blocks.
    pub partials: Place,
    /// Length of the walk.
    pub extent: i64,
}

/// The machine's pointers during a run.
pub(super) struct Machine<'a> {
    /// Scratch, constants, then one for every view.
    pub table: *const *mut u8,
    /// Told of every checked index that is outside.
    pub report: &'a dyn Fn(i64, i64),
}
impl Machine<'_> {
    #[inline(always)]
    pub fn at(&self, place: Place) -> *mut u8 {
        // SAFETY: places are made by the binding that also sized the table and the scratch.
        unsafe { (*self.table.add(place.entry as usize)).add(place.offset as usize) }
    }
}

/// A kernel of the tile VM.
///
/// # Safety
/// `Args` describes memory valid for what it covers; the destination overlaps no operand, except in moves, where it
/// may be the same elements.
pub(super) type Kernel = unsafe fn(&Args<'_>);

/// A kernel's body, to be inlined into one function for each instruction set.
pub(super) trait Body {
    /// # Safety
    /// As [`Kernel`].
    unsafe fn run(x: &Args<'_>);
}

unsafe fn plain<B: Body>(x: &Args<'_>) {
    // SAFETY: the caller's.
    unsafe { B::run(x) }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<B: Body>(x: &Args<'_>) {
    // SAFETY: the caller's.
    unsafe { B::run(x) }
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn avx512<B: Body>(x: &Args<'_>) {
    // SAFETY: the caller's.
    unsafe { B::run(x) }
}

/// A body compiled for the instruction set.
pub(super) fn hot<B: Body>(isa: Isa) -> Kernel {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => avx512::<B>,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => avx2::<B>,
        _ => plain::<B>,
    }
}
/// A body compiled for vector units alone.
#[cfg(target_arch = "x86_64")]
pub(super) fn vector<B: Body>(isa: Isa) -> Option<Kernel> {
    match isa {
        Isa::Avx512 => Some(avx512::<B>),
        Isa::Avx2 => Some(avx2::<B>),
        Isa::Scalar => None,
    }
}
/// A body compiled for AVX2 and for every machine: for types that are not worth a third copy.
pub(super) fn warm<B: Body>(isa: Isa) -> Kernel {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => avx2::<B>,
        _ => plain::<B>,
    }
}
/// A body compiled once: what is rare is not worth three copies.
pub(super) fn cold<B: Body>() -> Kernel {
    plain::<B>
}

/// Row `r` of an operand.
///
/// # Safety
/// The row has `x.cols` elements.
#[inline(always)]
pub(super) unsafe fn row_of<'a, T>(x: &Args<'a>, operand: usize, r: usize) -> &'a [T] {
    // SAFETY: the caller's; element types have no invalid bits that kernels could be given.
    unsafe {
        let start = x.src[operand].offset(r as isize * x.pitch[operand]) as *const T;
        std::slice::from_raw_parts(start, x.cols)
    }
}
/// The one element that serves row `r`.
///
/// # Safety
/// It is there.
#[inline(always)]
pub(super) unsafe fn splat_of<T: Copy>(x: &Args<'_>, operand: usize, r: usize) -> T {
    // SAFETY: the caller's.
    unsafe { *(x.src[operand].offset(r as isize * x.pitch[operand]) as *const T) }
}
/// Row `r` of the destination.
///
/// # Safety
/// The row has `x.cols` elements, and no operand overlaps it.
#[inline(always)]
pub(super) unsafe fn row_out<'a, T>(x: &Args<'a>, r: usize) -> &'a mut [T] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts_mut(x.dst.offset(r as isize * x.dst_pitch) as *mut T, x.cols) }
}
