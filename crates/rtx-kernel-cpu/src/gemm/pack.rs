//! Packing: a strip of A or B copied so that the register tile reads it from front to back.
use super::tile::prefetch;
use crate::simd::{Number, Vector};

/// A strip of `depth` steps of k, `count` elements wide, and where its packed form goes.
#[derive(Clone, Copy)]
pub(crate) struct Strip<T> {
    /// Element `j` of step `p` at `from + p·along + j·across`.
    pub from: *const T,
    pub along: isize,
    pub across: isize,
    pub depth: usize,
    pub count: usize,
    /// Packed: element `j` of step `p` at `to + p·width + j`; from `count` to `width` zeros.
    pub width: usize,
    /// Has room for `depth · width` elements and [`SLACK`] more.
    pub to: *mut T,
}

/// Elements past the end of a packed strip that packing may overwrite: rows are stored whole vectors at a time, front
/// to back, so that what one row spills the next one mends.
pub(crate) const SLACK: usize = 16;

/// A packing compiled for one instruction set.
pub(crate) type PackFn<T> = unsafe fn(&Strip<T>);

/// Packs a strip by the fastest way that its strides allow. If it is wider than `width`, it becomes several packed
/// strips, `depth · width` elements apart.
///
/// # Safety
/// The pointers of `s` are good for what its fields say, and the machine has the vector's instruction set.
#[inline(always)]
pub(crate) unsafe fn pack<V: Vector, const WIDE: usize>(s: &Strip<V::T>) {
    let mut first = 0;
    while first < s.count {
        let rest = Strip {
            from: s.from.wrapping_offset(first as isize * s.across),
            count: s.count - first,
            to: s.to.wrapping_add(first * s.depth),
            ..*s
        };
        // SAFETY: the caller's promise.
        unsafe {
            if s.across == 1 && s.width == WIDE && rest.count >= ABREAST * WIDE {
                pack_abreast::<V::T, WIDE>(&rest);
                first += ABREAST * WIDE;
            } else {
                pack_one::<V>(&Strip { count: rest.count.min(s.width), ..rest });
                first += s.width;
            }
        }
    }
}

/// Narrow strips that are packed together where steps lie in memory as rows, so that whole cache lines are read.
const ABREAST: usize = 4;

/// Steps ahead of the one being packed that are asked for.
const AHEAD: isize = 16;

/// Packs [`ABREAST`] strips of WIDE elements whose steps lie in memory as rows.
#[inline(always)]
unsafe fn pack_abreast<T: Number, const WIDE: usize>(s: &Strip<T>) {
    for p in 0..s.depth {
        let from = s.from.wrapping_offset(p as isize * s.along);
        for line in (0..ABREAST * WIDE).step_by(64 / size_of::<T>()) {
            prefetch(from.wrapping_offset(AHEAD * s.along).wrapping_add(line));
        }
        for strip in 0..ABREAST {
            // SAFETY: the strips' elements of step p are readable, and their places writable.
            unsafe {
                let row = from.add(strip * WIDE).cast::<[T; WIDE]>().read_unaligned();
                s.to.add((strip * s.depth + p) * WIDE).cast::<[T; WIDE]>().write_unaligned(row);
            }
        }
    }
}

/// Packs one strip.
#[inline(always)]
unsafe fn pack_one<V: Vector>(s: &Strip<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        if s.across == 1 {
            pack_rows::<V>(s)
        } else if s.along == 1 && (s.width.is_multiple_of(V::SQUARE) || s.width < V::SQUARE) {
            pack_squares::<V>(s)
        } else {
            pack_elements(s, 0)
        }
    }
}

/// Steps lie in memory as rows: copy them.
#[inline(always)]
unsafe fn pack_rows<V: Vector>(s: &Strip<V::T>) {
    let full = s.count / V::LANES * V::LANES;
    for p in 0..s.depth {
        let (from, to) = (s.from.wrapping_offset(p as isize * s.along), s.to.wrapping_add(p * s.width));
        // SAFETY: `count` elements are readable; a store past `width` lies in the next row or in the slack.
        unsafe {
            for j in (0..full).step_by(V::LANES) {
                V::load(from.add(j)).store(to.add(j));
            }
            for j in (full..s.width).step_by(V::LANES) {
                let left = s.count.saturating_sub(j);
                V::load_part(from.wrapping_add(j), left).store(to.add(j));
            }
        }
    }
}

/// Steps lie in memory as columns: transpose squares, steps ascending, a cache line's squares one after the other.
#[inline(always)]
unsafe fn pack_squares<V: Vector>(s: &Strip<V::T>) {
    let line = 64 / size_of::<V::T>();
    let squares = s.depth / V::SQUARE * V::SQUARE;
    for p0 in (0..squares).step_by(line) {
        for j in (0..s.width).step_by(V::SQUARE) {
            let rows = s.count.saturating_sub(j).min(V::SQUARE);
            for p in (p0..squares.min(p0 + line)).step_by(V::SQUARE) {
                let from = s.from.wrapping_add(p).wrapping_offset(j as isize * s.across);
                // SAFETY: `rows` rows of a square are readable; what is written past `width` lies in the next row, whose
                // own square follows, or in the slack.
                unsafe { V::transpose(from, s.across, rows, s.to.add(p * s.width + j), s.width) }
            }
        }
    }
    // SAFETY: the caller's promise.
    unsafe { pack_elements(s, squares) }
}

/// Any strides, element by element, from step `first` on.
#[inline(always)]
unsafe fn pack_elements<T: Number>(s: &Strip<T>, first: usize) {
    for p in first..s.depth {
        for j in 0..s.width {
            // SAFETY: elements below `count` are readable, those below `width` writable.
            unsafe {
                let from = s.from.wrapping_offset(p as isize * s.along + j as isize * s.across);
                s.to.add(p * s.width + j).write(if j < s.count { from.read() } else { T::ZERO });
            }
        }
    }
}
