//! Register tiles that walk an image where it lies: each step's elements are found through a table of offsets.
use crate::gemm::GemmNumber;
use crate::simd::{Scalars, Vector};
use rtx_cpu::Isa;

/// A sum of products for some rows, which read the image, and whole vectors of columns, which are packed.
#[derive(Clone, Copy)]
pub(super) struct Walk<T> {
    pub depth: usize,
    /// Where each step's element lies, from a row's start.
    pub offsets: *const isize,
    /// The first row's start; rows are `a_row` apart.
    pub a: *const T,
    pub a_row: isize,
    /// All columns of a step, step after step.
    pub b: *const T,
    /// Rows of all columns, one after the other.
    pub c: *mut T,
    /// Is this a later chunk, to be added to what C holds?
    pub add: bool,
}

/// A sum of products for some packed rows and neighbouring points of the image.
#[derive(Clone, Copy)]
pub(super) struct Sweep<T> {
    pub depth: usize,
    /// All rows of a step, step after step.
    pub a: *const T,
    /// Where each step's first point lies; full vectors are readable there.
    pub offsets: *const isize,
    pub b: *const T,
    pub c: *mut T,
    pub c_row: isize,
    /// Points to store, over NV - 1 and at most NV vectors.
    pub columns: usize,
    pub add: bool,
}

/// Sums of products, a problem in each lane: the image's elements of all lanes lie side by side, and so do the others'.
#[derive(Clone, Copy)]
pub(super) struct Abreast<T> {
    pub depth: usize,
    pub offsets: *const isize,
    pub a: *const T,
    /// Where each row starts.
    pub rows: *const isize,
    pub b: *const T,
    pub c: *mut T,
    pub add: bool,
}

pub(super) type WalkFn<T> = unsafe fn(&Walk<T>);
pub(super) type SweepFn<T> = unsafe fn(&Sweep<T>);
pub(super) type AbreastFn<T> = unsafe fn(&Abreast<T>);

#[inline(always)]
unsafe fn walk<V: Vector, const MR: usize, const NV: usize, const UNIT: bool>(w: &Walk<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[V::zero(); NV]; MR];
        let mut b = w.b;
        for p in 0..w.depth {
            let a = w.a.wrapping_offset(*w.offsets.add(p));
            let mut row = [V::zero(); NV];
            for v in 0..NV {
                row[v] = V::load(b.add(v * V::LANES));
            }
            for i in 0..MR {
                let x = V::splat(*a.wrapping_offset(if UNIT { i as isize } else { i as isize * w.a_row }));
                for v in 0..NV {
                    acc[i][v] = x.fma(row[v], acc[i][v]);
                }
            }
            b = b.wrapping_add(NV * V::LANES);
        }
        for i in 0..MR {
            for v in 0..NV {
                let c = w.c.add((i * NV + v) * V::LANES);
                (if w.add { V::load(c).plus(acc[i][v]) } else { acc[i][v] }).store(c);
            }
        }
    }
}

/// K1 rows of K2 neighbours, the rows `a_row` apart: all points of a small result at once.
#[inline(always)]
unsafe fn square<V: Vector, const K1: usize, const K2: usize, const NV: usize>(w: &Walk<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[[V::zero(); NV]; K2]; K1];
        let mut b = w.b;
        for p in 0..w.depth {
            let a = w.a.wrapping_offset(*w.offsets.add(p));
            let mut row = [V::zero(); NV];
            for v in 0..NV {
                row[v] = V::load(b.add(v * V::LANES));
            }
            for i in 0..K1 {
                for j in 0..K2 {
                    let x = V::splat(*a.wrapping_offset(i as isize * w.a_row).wrapping_add(j));
                    for v in 0..NV {
                        acc[i][j][v] = x.fma(row[v], acc[i][j][v]);
                    }
                }
            }
            b = b.wrapping_add(NV * V::LANES);
        }
        for i in 0..K1 {
            for j in 0..K2 {
                for v in 0..NV {
                    let (c, sum) = (w.c.add(((i * K2 + j) * NV + v) * V::LANES), acc[i][j][v]);
                    (if w.add { V::load(c).plus(sum) } else { sum }).store(c);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn sweep<V: Vector, const MR: usize, const NV: usize>(s: &Sweep<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[V::zero(); NV]; MR];
        let mut a = s.a;
        for p in 0..s.depth {
            let b = s.b.wrapping_offset(*s.offsets.add(p));
            let mut row = [V::zero(); NV];
            for v in 0..NV {
                row[v] = V::load(b.add(v * V::LANES));
            }
            for i in 0..MR {
                let x = V::splat(*a.add(i));
                for v in 0..NV {
                    acc[i][v] = x.fma(row[v], acc[i][v]);
                }
            }
            a = a.wrapping_add(MR);
        }
        let last = s.columns - (NV - 1) * V::LANES;
        for i in 0..MR {
            for v in 0..NV {
                let c = s.c.wrapping_offset(i as isize * s.c_row).wrapping_add(v * V::LANES);
                let columns = if v + 1 < NV { V::LANES } else { last };
                let x = if s.add { V::load_part(c, columns).plus(acc[i][v]) } else { acc[i][v] };
                x.store_part(c, columns);
            }
        }
    }
}

#[inline(always)]
unsafe fn abreast<V: Vector, const MR: usize>(s: &Abreast<V::T>) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [V::zero(); MR];
        let mut rows = [s.a; MR];
        for i in 0..MR {
            rows[i] = s.a.wrapping_offset(*s.rows.add(i));
        }
        for p in 0..s.depth {
            let offset = *s.offsets.add(p);
            let b = V::load(s.b.add(p * V::LANES));
            for i in 0..MR {
                acc[i] = V::load(rows[i].wrapping_offset(offset)).fma(b, acc[i]);
            }
        }
        for i in 0..MR {
            let c = s.c.add(i * V::LANES);
            (if s.add { V::load(c).plus(acc[i]) } else { acc[i] }).store(c);
        }
    }
}

/// Rows of columns that go to columns of rows.
#[derive(Clone, Copy)]
pub(super) struct Turn<T> {
    pub c: *const T,
    /// Rows, at most [`TURN`].
    pub rows: usize,
    /// Columns there are, and columns that are wanted.
    pub width: usize,
    pub columns: usize,
    /// Column j goes to `y + j · y_column`, row after row.
    pub y: *mut T,
    pub y_column: isize,
}
pub(super) type TurnFn<T> = unsafe fn(&Turn<T>);
/// The most rows that are turned at once.
pub(super) const TURN: usize = 16;
/// The most columns of a tile.
pub(super) const WIDEST: usize = 32;

#[inline(always)]
unsafe fn turn<V: Vector>(t: &Turn<V::T>) {
    let mut aside = [<V::T as crate::simd::Number>::ZERO; WIDEST * TURN];
    // SAFETY: the caller's promise; there is room for `width` lines of TURN elements.
    unsafe {
        for i in (0..t.rows).step_by(V::SQUARE) {
            for j in (0..t.columns).step_by(V::SQUARE) {
                let rows = (t.rows - i).min(V::SQUARE);
                let from = t.c.add(i * t.width + j);
                V::transpose(from, t.width as isize, rows, aside.as_mut_ptr().add(j * TURN + i), TURN);
            }
        }
        for j in 0..t.columns {
            let (from, to) = (aside.as_ptr().add(j * TURN), t.y.wrapping_offset(j as isize * t.y_column));
            for i in (0..t.rows).step_by(V::LANES) {
                V::load(from.add(i)).store_part(to.wrapping_add(i), (t.rows - i).min(V::LANES));
            }
        }
    }
}

/// The tiles for one element type and instruction set.
pub(super) struct Tiles<T: 'static> {
    /// By vectors - 1 and rows - 1: rows that are neighbours.
    pub near: &'static [&'static [WalkFn<T>]],
    /// Rows that are `a_row` apart.
    pub apart: &'static [&'static [WalkFn<T>]],
    /// Points of a small result, by neighbours: 3, 5 or 7 of them, then by vectors - 1 and rows - 1.
    pub squares: [&'static [&'static [WalkFn<T>]]; 3],
    /// By vectors - 1 and rows - 1.
    pub sweep: &'static [&'static [SweepFn<T>]],
    /// By rows - 1.
    pub abreast: &'static [AbreastFn<T>],
    pub turn: TurnFn<T>,
}

/// An element type with tiles.
pub(super) trait ConvNumber: GemmNumber {
    fn tiles(isa: Isa) -> &'static Tiles<Self>;
}

macro_rules! walk_row { ($nv:literal, $unit:literal, [$($mr:literal)*]) => { &[$(walk_of::<$mr, $nv, $unit>),*] }; }
macro_rules! square_rows {
    ($k2:literal, [$($nv:literal)*] $k1:tt) => { &[$(square_rows!(@ $k2, $nv, $k1)),*] };
    (@ $k2:literal, $nv:literal, [$($k1:literal)*]) => { &[$(square_of::<$k1, $k2, $nv>),*] };
}
macro_rules! sweep_row { ($nv:literal, [$($mr:literal)*]) => { &[$(sweep_of::<$mr, $nv>),*] }; }

macro_rules! tiles {
    ($module:ident: $V:ty, rows $rows:tt, widths [$($nv:literal)*], squares $k3:tt $k5:tt $k7:tt, $($features:literal)?) => {
        mod $module {
            use super::*;
            type T = <$V as Vector>::T;

            $(#[target_feature(enable = $features)])?
            unsafe fn walk_of<const MR: usize, const NV: usize, const UNIT: bool>(w: &Walk<T>) {
                // SAFETY: the caller's promise.
                unsafe { walk::<$V, MR, NV, UNIT>(w) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn square_of<const K1: usize, const K2: usize, const NV: usize>(w: &Walk<T>) {
                // SAFETY: the caller's promise.
                unsafe { square::<$V, K1, K2, NV>(w) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn sweep_of<const MR: usize, const NV: usize>(s: &Sweep<T>) {
                // SAFETY: the caller's promise.
                unsafe { sweep::<$V, MR, NV>(s) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn abreast_of<const MR: usize>(s: &Abreast<T>) {
                // SAFETY: the caller's promise.
                unsafe { abreast::<$V, MR>(s) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn turn_of(t: &Turn<T>) {
                // SAFETY: the caller's promise.
                unsafe { turn::<$V>(t) }
            }
            pub(super) static TILES: Tiles<T> = Tiles {
                near: &[$(walk_row!($nv, true, $rows)),*],
                apart: &[$(walk_row!($nv, false, $rows)),*],
                squares: [
                    square_rows!(3, [$($nv)*] $k3), square_rows!(5, [$($nv)*] $k5), square_rows!(7, [$($nv)*] $k7),
                ],
                sweep: &[sweep_row!(1, [1 2 3 4]), sweep_row!(2, [1 2 3 4]), sweep_row!(3, [1 2 3 4])],
                abreast: &[
                    abreast_of::<1>, abreast_of::<2>, abreast_of::<3>, abreast_of::<4>, abreast_of::<5>,
                    abreast_of::<6>, abreast_of::<7>, abreast_of::<8>, abreast_of::<9>,
                ],
                turn: turn_of,
            };
        }
    };
}

tiles!(f32_scalar: Scalars<f32>, rows [1 2 3 4], widths [1], squares [1] [1] [1],);
tiles!(f64_scalar: Scalars<f64>, rows [1 2 3 4], widths [1], squares [1] [1] [1],);
tiles!(i32_scalar: Scalars<i32>, rows [1 2 3 4], widths [1], squares [1] [1] [1],);
tiles!(i64_scalar: Scalars<i64>, rows [1 2 3 4], widths [1], squares [1] [1] [1],);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::simd::{F32x8, F32x16, F64x4, F64x8};
    tiles!(f32_avx2: F32x8, rows [1 2 3 4 5 6], widths [1 2], squares [1 2] [1] [], "avx2,fma");
    tiles!(f64_avx2: F64x4, rows [1 2 3 4 5 6], widths [1 2], squares [1 2] [1] [], "avx2,fma");
    tiles!(f32_avx512: F32x16, rows [1 2 3 4 5 6 7 8 9 10 11 12], widths [1 2], squares [1 2 3] [1 2] [1], "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
    tiles!(f64_avx512: F64x8, rows [1 2 3 4 5 6 7 8 9 10 11 12], widths [1 2], squares [1 2 3] [1 2] [1], "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");

    impl ConvNumber for f32 {
        fn tiles(isa: Isa) -> &'static Tiles<f32> {
            match isa {
                Isa::Scalar => &f32_scalar::TILES,
                Isa::Avx2 => &f32_avx2::TILES,
                Isa::Avx512 => &f32_avx512::TILES,
            }
        }
    }
    impl ConvNumber for f64 {
        fn tiles(isa: Isa) -> &'static Tiles<f64> {
            match isa {
                Isa::Scalar => &f64_scalar::TILES,
                Isa::Avx2 => &f64_avx2::TILES,
                Isa::Avx512 => &f64_avx512::TILES,
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl ConvNumber for f32 {
    fn tiles(_: Isa) -> &'static Tiles<f32> {
        &f32_scalar::TILES
    }
}
#[cfg(not(target_arch = "x86_64"))]
impl ConvNumber for f64 {
    fn tiles(_: Isa) -> &'static Tiles<f64> {
        &f64_scalar::TILES
    }
}
impl ConvNumber for i32 {
    fn tiles(_: Isa) -> &'static Tiles<i32> {
        &i32_scalar::TILES
    }
}
impl ConvNumber for i64 {
    fn tiles(_: Isa) -> &'static Tiles<i64> {
        &i64_scalar::TILES
    }
}
