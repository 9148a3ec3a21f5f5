//! The inner loops of gemm, compiled once per element type and instruction set.
use super::gemv::{Gemv, GemvFn, LANES, gemv};
use super::pack::{PackFn, Strip, pack};
use super::tile::{Tile, TileFn, tile};
use crate::simd::{Number, Scalars, Vector};
use rtx_cpu::Isa;

/// The inner loops for one element type and instruction set.
pub(crate) struct Kernels<T: 'static> {
    /// Elements in a vector.
    pub lanes: usize,
    /// Rows of the largest tile, and the width of a packed strip of A.
    pub rows: usize,
    /// Columns of the largest tile.
    pub columns: usize,
    /// Tiles with A packed, by vectors - 1 and rows - 1.
    pub packed: &'static [&'static [TileFn<T>]],
    /// Tiles with A in place, likewise.
    pub in_place: &'static [&'static [TileFn<T>]],
    /// Packing of a strip.
    pub pack: PackFn<T>,
    /// One row times a matrix.
    pub gemv: GemvFn<T>,
}

impl<T> Kernels<T> {
    /// As wide as a tile may be; what would leave a sliver of at most one vector is split more evenly.
    pub fn panel_width(&self, left: usize) -> usize {
        let (lanes, widest) = (self.lanes, self.columns);
        let sliver = left > widest && left <= widest + lanes;
        if sliver && widest >= 3 * lanes { widest - lanes } else { left.min(widest) }
    }
}

/// An element type that gemm is compiled for.
pub(crate) trait GemmNumber: Number {
    /// The inner loops for an instruction set that the machine has.
    fn kernels(isa: Isa) -> &'static Kernels<Self>;
}

/// One row of a table of tiles: every height at one width.
macro_rules! tile_row {
    ($nv:literal, $packed:literal, [$($mr:literal)*]) => { &[$(tile_of::<$mr, $nv, $packed>),*] };
}

/// A module with the kernels of vector `$V`, compiled with `$features`; tiles of up to `$rows` by `$nv` vectors.
macro_rules! kernels {
    ($module:ident: $V:ty, $wide:literal rows of $rows:tt, widths [$($nv:literal)*], $($features:literal)?) => {
        pub(super) mod $module {
            use super::*;
            type T = <$V as Vector>::T;

            $(#[target_feature(enable = $features)])?
            unsafe fn tile_of<const MR: usize, const NV: usize, const PACKED: bool>(t: &Tile<T>) {
                // SAFETY: the caller's promise.
                unsafe { tile::<$V, MR, NV, $wide, PACKED>(t) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn pack_strip(s: &Strip<T>) {
                // SAFETY: the caller's promise.
                unsafe { pack::<$V, $wide>(s) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gemv_run(g: &Gemv<T>) {
                // SAFETY: the caller's promise.
                unsafe { gemv::<$V, { LANES / <$V>::LANES }>(g) }
            }

            const WIDTHS: &[usize] = &[$($nv),*];
            pub(crate) static KERNELS: Kernels<T> = Kernels {
                lanes: <$V>::LANES,
                rows: $wide,
                columns: WIDTHS.len() * <$V>::LANES,
                packed: &[$(tile_row!($nv, true, $rows)),*],
                in_place: &[$(tile_row!($nv, false, $rows)),*],
                pack: pack_strip,
                gemv: gemv_run,
            };
        }
    };
}

kernels!(f32_scalar: Scalars<f32>, 4 rows of [1 2 3 4], widths [1 2],);
kernels!(f64_scalar: Scalars<f64>, 4 rows of [1 2 3 4], widths [1 2],);
kernels!(i32_scalar: Scalars<i32>, 4 rows of [1 2 3 4], widths [1 2],);
kernels!(i64_scalar: Scalars<i64>, 4 rows of [1 2 3 4], widths [1 2],);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::simd::{F32x8, F32x16, F64x4, F64x8};
    kernels!(f32_avx2: F32x8, 6 rows of [1 2 3 4 5 6], widths [1 2], "avx2,fma");
    kernels!(f64_avx2: F64x4, 4 rows of [1 2 3 4], widths [1 2 3], "avx2,fma");
    kernels!(f32_avx512: F32x16, 8 rows of [1 2 3 4 5 6 7 8], widths [1 2 3], "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
    kernels!(f64_avx512: F64x8, 8 rows of [1 2 3 4 5 6 7 8], widths [1 2 3], "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma");
}

#[cfg(target_arch = "x86_64")]
impl GemmNumber for f32 {
    fn kernels(isa: Isa) -> &'static Kernels<f32> {
        match isa {
            Isa::Scalar => &f32_scalar::KERNELS,
            Isa::Avx2 => &x86::f32_avx2::KERNELS,
            Isa::Avx512 => &x86::f32_avx512::KERNELS,
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl GemmNumber for f64 {
    fn kernels(isa: Isa) -> &'static Kernels<f64> {
        match isa {
            Isa::Scalar => &f64_scalar::KERNELS,
            Isa::Avx2 => &x86::f64_avx2::KERNELS,
            Isa::Avx512 => &x86::f64_avx512::KERNELS,
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl GemmNumber for f32 {
    fn kernels(_: Isa) -> &'static Kernels<f32> {
        &f32_scalar::KERNELS
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl GemmNumber for f64 {
    fn kernels(_: Isa) -> &'static Kernels<f64> {
        &f64_scalar::KERNELS
    }
}

impl GemmNumber for i32 {
    fn kernels(_: Isa) -> &'static Kernels<i32> {
        &i32_scalar::KERNELS
    }
}

impl GemmNumber for i64 {
    fn kernels(_: Isa) -> &'static Kernels<i64> {
        &i64_scalar::KERNELS
    }
}
