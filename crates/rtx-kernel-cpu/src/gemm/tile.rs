//! The register tile: up to MR × (NV vectors) of C at once, k ascending, accumulators in registers.
//!
//! Per step of k: NV loads of B, MR broadcasts of A, MR·NV fused multiply-adds. With 8 × 48 floats that is 11 loads
//! for 24 fmas, which keeps the fma ports busy on every x86 core.
use crate::simd::{Number, Vector};

/// What one tile reads and writes. Strides are in elements.
#[derive(Clone, Copy)]
pub(crate) struct Tile<T> {
    /// Steps of k, all in one chunk.
    pub depth: usize,
    /// A: row i, step p at `a + i·a_row + p·a_step`; packed: at `a + p·WIDE + i`, and the strides are not looked at.
    pub a: *const T,
    pub a_row: isize,
    pub a_step: isize,
    /// B: step p at `b + p·b_step`, full vectors readable.
    pub b: *const T,
    pub b_step: isize,
    /// C: row i at `c + i·c_row`, columns next to each other.
    pub c: *mut T,
    pub c_row: isize,
    /// Columns to store, over NV - 1 and at most NV vectors.
    pub columns: usize,
    /// Is this a later chunk, to be added to what C holds?
    pub add: bool,
}

/// A tile compiled for one instruction set, one height and one width.
pub(crate) type TileFn<T> = unsafe fn(&Tile<T>);

/// Steps of k between two looks at the loop counter.
const UNROLL: usize = 4;

/// One tile of MR rows; a packed A has panels of WIDE rows.
///
/// # Safety
/// The pointers of `t` are good for what its fields say, and the machine has the vector's instruction set.
#[inline(always)]
pub(crate) unsafe fn tile<V: Vector, const MR: usize, const NV: usize, const WIDE: usize, const PACKED: bool>(
    t: &Tile<V::T>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        prefetch_c::<V, MR, NV>(t);
        let mut acc = [[V::zero(); NV]; MR];
        let (mut a, mut b) = (t.a, t.b);
        let a_step = if PACKED { WIDE as isize } else { t.a_step };
        for _ in 0..t.depth / UNROLL {
            for u in 0..UNROLL as isize {
                let (a, b) = (a.wrapping_offset(u * a_step), b.wrapping_offset(u * t.b_step));
                step::<V, MR, NV, PACKED>(&mut acc, a, t.a_row, b);
            }
            a = a.wrapping_offset(UNROLL as isize * a_step);
            b = b.wrapping_offset(UNROLL as isize * t.b_step);
        }
        for _ in 0..t.depth % UNROLL {
            step::<V, MR, NV, PACKED>(&mut acc, a, t.a_row, b);
            a = a.wrapping_offset(a_step);
            b = b.wrapping_offset(t.b_step);
        }
        store::<V, MR, NV>(t, &acc);
    }
}

#[inline(always)]
unsafe fn step<V: Vector, const MR: usize, const NV: usize, const PACKED: bool>(
    acc: &mut [[V; NV]; MR],
    a: *const V::T,
    a_row: isize,
    b: *const V::T,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut row = [V::zero(); NV];
        for v in 0..NV {
            row[v] = V::load(b.add(v * V::LANES));
        }
        for i in 0..MR {
            let x = V::splat(if PACKED { *a.add(i) } else { *a.offset(i as isize * a_row) });
            for v in 0..NV {
                acc[i][v] = x.fma(row[v], acc[i][v]);
            }
        }
    }
}

#[inline(always)]
unsafe fn store<V: Vector, const MR: usize, const NV: usize>(t: &Tile<V::T>, acc: &[[V; NV]; MR]) {
    let last = t.columns - (NV - 1) * V::LANES;
    for i in 0..MR {
        for v in 0..NV {
            let c = t.c.wrapping_offset(i as isize * t.c_row).wrapping_add(v * V::LANES);
            let columns = if v + 1 < NV { V::LANES } else { last };
            // SAFETY: the caller's promise: `t.columns` columns of each row are C's.
            unsafe {
                if columns == V::LANES {
                    let x = if t.add { V::load(c).plus(acc[i][v]) } else { acc[i][v] };
                    x.store(c);
                } else {
                    let x = if t.add { V::load_part(c, columns).plus(acc[i][v]) } else { acc[i][v] };
                    x.store_part(c, columns);
                }
            }
        }
    }
}

/// Asks for the rows of C, which the end of the tile needs.
#[inline(always)]
unsafe fn prefetch_c<V: Vector, const MR: usize, const NV: usize>(t: &Tile<V::T>) {
    for i in 0..MR {
        let row = t.c.wrapping_offset(i as isize * t.c_row);
        for line in (0..NV * V::LANES).step_by(64 / size_of::<V::T>()) {
            prefetch(row.wrapping_add(line));
        }
    }
}

/// Asks for one cache line; any address is fine.
#[inline(always)]
pub(crate) fn prefetch<T: Number>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Asks for one cache line, no nearer than the second cache; any address is fine.
#[inline(always)]
pub(crate) fn prefetch_l2<T: Number>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(line.cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
