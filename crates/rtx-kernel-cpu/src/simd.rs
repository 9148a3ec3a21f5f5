//! Vectors of one width and element type, so that a kernel is written once and compiled for each instruction set.
//!
//! Every method is inlined into a function that has the instruction set switched on; calling one elsewhere is
//! undefined behaviour on a machine without it. All of them round like their scalar twins.

/// An element type that kernels compute in.
pub trait Number: Copy + Send + Sync + 'static {
    /// Zero (for floats, +0).
    const ZERO: Self;
    /// `self * by + plus`: one rounding for floats, wrapping for integers.
    fn fma(self, by: Self, plus: Self) -> Self;
    /// [`Number::fma`] with the same bits, for code compiled without an instruction for it.
    #[inline(always)]
    fn fma_without_instruction(self, by: Self, plus: Self) -> Self {
        self.fma(by, plus)
    }
    /// `self + other`, wrapping for integers.
    fn plus(self, other: Self) -> Self;
}

impl Number for f32 {
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn fma(self, by: Self, plus: Self) -> Self {
        self.mul_add(by, plus)
    }
    #[inline(always)]
    fn fma_without_instruction(self, by: Self, plus: Self) -> Self {
        fma_through_f64(self, by, plus)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

/// Rounded once, as the instruction does. The product is exact in f64; the sum is rounded to odd there (its last bit
/// is set if anything was lost), which leaves the rounding to f32 right: Boldo and Melquiond, "Emulation of a FMA and
/// correctly rounded sums: proved algorithms using rounding to odd", 2008.
#[inline(always)]
fn fma_through_f64(a: f32, b: f32, c: f32) -> f32 {
    odd_through_f64(a, b, c) as f32
}

/// `a * b + c`, rounded to odd in f64.
#[inline(always)]
pub(crate) fn odd_through_f64(a: f32, b: f32, c: f32) -> f64 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // What the addition lost (Knuth); NaN where the sum is not finite, and then nothing is changed.
    let back = sum - product;
    let lost = (product - (sum - back)) + (c - back);
    let bits = sum.to_bits();
    let step = u64::from(lost.abs() > 0.0) & !bits & 1;
    let outwards = (bits ^ lost.to_bits()) >> 63 == 0;
    f64::from_bits(if outwards { bits + step } else { bits - step })
}

impl Number for f64 {
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn fma(self, by: Self, plus: Self) -> Self {
        self.mul_add(by, plus)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
}

macro_rules! integers { ($($T:ty)*) => { $(
    impl Number for $T {
        const ZERO: Self = 0;
        #[inline(always)]
        fn fma(self, by: Self, plus: Self) -> Self { self.wrapping_mul(by).wrapping_add(plus) }
        #[inline(always)]
        fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
    }
)* } }
integers!(i32 i64);

/// A register of [`Vector::LANES`] elements.
///
/// # Safety
/// Implementors keep the promise of each method; callers have the instruction set, and pointers good for the elements
/// named.
#[allow(clippy::missing_safety_doc, reason = "one promise for all methods: see the trait")]
pub unsafe trait Vector: Copy {
    /// The element type.
    type T: Number;
    /// Elements in a register.
    const LANES: usize;
    /// Side of the squares that [`Vector::transpose`] turns.
    const SQUARE: usize;
    /// All lanes zero.
    unsafe fn zero() -> Self;
    /// All lanes `x`.
    unsafe fn splat(x: Self::T) -> Self;
    /// Lanes from memory of any alignment.
    unsafe fn load(from: *const Self::T) -> Self;
    /// The first `n` lanes from memory (at most [`Vector::LANES`]), the rest zero. Reads no further.
    unsafe fn load_part(from: *const Self::T, n: usize) -> Self;
    /// Lanes to memory of any alignment.
    unsafe fn store(self, to: *mut Self::T);
    /// The first `n` lanes to memory (at most [`Vector::LANES`]). Writes no further.
    unsafe fn store_part(self, to: *mut Self::T, n: usize);
    /// `self * by + plus` in each lane, as [`Number::fma`].
    unsafe fn fma(self, by: Self, plus: Self) -> Self;
    /// `self + other` in each lane.
    unsafe fn plus(self, other: Self) -> Self;
    /// The sum of the lanes by halves: lane l with l + LANES / 2, and so on.
    unsafe fn sum_halves(self) -> Self::T;
    /// Reads a square of `rows` rows (at most [`Vector::SQUARE`]; missing rows are zero), `from_row` apart, and writes
    /// its transpose, rows `to_row` apart and in ascending order.
    unsafe fn transpose(from: *const Self::T, from_row: isize, rows: usize, to: *mut Self::T, to_row: usize);
}

/// A vector made of scalars, for machines and element types without a better one.
#[derive(Clone, Copy)]
pub struct Scalars<T>(pub(crate) [T; 4]);

// SAFETY: plain reads and writes of the elements named.
unsafe impl<T: Number> Vector for Scalars<T> {
    type T = T;
    const LANES: usize = 4;
    const SQUARE: usize = 4;
    #[inline(always)]
    unsafe fn zero() -> Self {
        Self([T::ZERO; 4])
    }
    #[inline(always)]
    unsafe fn splat(x: T) -> Self {
        Self([x; 4])
    }
    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: four elements are readable.
        Self(unsafe { from.cast::<[T; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_part(from: *const T, n: usize) -> Self {
        // SAFETY: `n` elements are readable.
        Self(std::array::from_fn(|l| if l < n { unsafe { from.add(l).read() } } else { T::ZERO }))
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: four elements are writable.
        unsafe { to.cast::<[T; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_part(self, to: *mut T, n: usize) {
        for l in 0..n.min(4) {
            // SAFETY: `n` elements are writable.
            unsafe { to.add(l).write(self.0[l]) }
        }
    }
    #[inline(always)]
    unsafe fn fma(self, by: Self, plus: Self) -> Self {
        Self(std::array::from_fn(|l| self.0[l].fma_without_instruction(by.0[l], plus.0[l])))
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Self(std::array::from_fn(|l| self.0[l].plus(other.0[l])))
    }
    #[inline(always)]
    unsafe fn sum_halves(self) -> T {
        let [a, b, c, d] = self.0;
        a.plus(c).plus(b.plus(d))
    }
    #[inline(always)]
    unsafe fn transpose(from: *const T, from_row: isize, rows: usize, to: *mut T, to_row: usize) {
        for p in 0..4 {
            for i in 0..4 {
                // SAFETY: `rows` rows of four are readable, four rows of four writable.
                unsafe {
                    let x = if i < rows { from.offset(i as isize * from_row).add(p).read() } else { T::ZERO };
                    to.add(p * to_row + i).write(x);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{F32x8, F32x16, F64x4, F64x8};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    /// Eight f32 in AVX2.
    #[derive(Clone, Copy)]
    pub struct F32x8(pub(crate) __m256);
    /// Sixteen f32 in AVX-512.
    #[derive(Clone, Copy)]
    pub struct F32x16(pub(crate) __m512);
    /// Four f64 in AVX2.
    #[derive(Clone, Copy)]
    pub struct F64x4(__m256d);
    /// Eight f64 in AVX-512.
    #[derive(Clone, Copy)]
    pub struct F64x8(__m512d);

    /// The methods that differ between the four only in the names of instructions.
    macro_rules! arithmetic {
        ($T:ty, $zero:ident, $splat:ident, $load:ident, $store:ident, $fma:ident, $add:ident) => {
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: one instruction of the set that the caller has.
                Self(unsafe { $zero() })
            }
            #[inline(always)]
            unsafe fn splat(x: $T) -> Self {
                // SAFETY: one instruction of the set that the caller has.
                Self(unsafe { $splat(x) })
            }
            #[inline(always)]
            unsafe fn load(from: *const $T) -> Self {
                // SAFETY: one instruction of the set that the caller has.
                Self(unsafe { $load(from) })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $T) {
                // SAFETY: one instruction of the set that the caller has.
                unsafe { $store(to, self.0) }
            }
            #[inline(always)]
            unsafe fn fma(self, by: Self, plus: Self) -> Self {
                // SAFETY: one instruction of the set that the caller has.
                Self(unsafe { $fma(self.0, by.0, plus.0) })
            }
            #[inline(always)]
            unsafe fn plus(self, other: Self) -> Self {
                // SAFETY: one instruction of the set that the caller has.
                Self(unsafe { $add(self.0, other.0) })
            }
        };
    }

    // SAFETY: each method is one instruction that does what the trait says.
    unsafe impl Vector for F32x16 {
        type T = f32;
        const LANES: usize = 16;
        const SQUARE: usize = 8;
        arithmetic!(
            f32,
            _mm512_setzero_ps,
            _mm512_set1_ps,
            _mm512_loadu_ps,
            _mm512_storeu_ps,
            _mm512_fmadd_ps,
            _mm512_add_ps
        );
        #[inline(always)]
        unsafe fn load_part(from: *const f32, n: usize) -> Self {
            // SAFETY: masked lanes are not read.
            Self(unsafe { _mm512_maskz_loadu_ps(low_bits(n) as __mmask16, from) })
        }
        #[inline(always)]
        unsafe fn store_part(self, to: *mut f32, n: usize) {
            // SAFETY: masked lanes are not written.
            unsafe { _mm512_mask_storeu_ps(to, low_bits(n) as __mmask16, self.0) }
        }
        #[inline(always)]
        unsafe fn sum_halves(self) -> f32 {
            // SAFETY: register arithmetic.
            unsafe { sum_f32x8(_mm256_add_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0))) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_row: isize, rows: usize, to: *mut f32, to_row: usize) {
            // SAFETY: the caller's promise.
            unsafe { transpose_8x8(from, from_row, rows, to, to_row) }
        }
    }

    // SAFETY: as above.
    unsafe impl Vector for F64x8 {
        type T = f64;
        const LANES: usize = 8;
        const SQUARE: usize = 4;
        arithmetic!(
            f64,
            _mm512_setzero_pd,
            _mm512_set1_pd,
            _mm512_loadu_pd,
            _mm512_storeu_pd,
            _mm512_fmadd_pd,
            _mm512_add_pd
        );
        #[inline(always)]
        unsafe fn load_part(from: *const f64, n: usize) -> Self {
            // SAFETY: masked lanes are not read.
            Self(unsafe { _mm512_maskz_loadu_pd(low_bits(n) as __mmask8, from) })
        }
        #[inline(always)]
        unsafe fn store_part(self, to: *mut f64, n: usize) {
            // SAFETY: masked lanes are not written.
            unsafe { _mm512_mask_storeu_pd(to, low_bits(n) as __mmask8, self.0) }
        }
        #[inline(always)]
        unsafe fn sum_halves(self) -> f64 {
            // SAFETY: register arithmetic.
            unsafe { sum_f64x4(_mm256_add_pd(_mm512_castpd512_pd256(self.0), _mm512_extractf64x4_pd::<1>(self.0))) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f64, from_row: isize, rows: usize, to: *mut f64, to_row: usize) {
            // SAFETY: the caller's promise.
            unsafe { transpose_4x4(from, from_row, rows, to, to_row) }
        }
    }

    // SAFETY: as above.
    unsafe impl Vector for F32x8 {
        type T = f32;
        const LANES: usize = 8;
        const SQUARE: usize = 8;
        arithmetic!(
            f32,
            _mm256_setzero_ps,
            _mm256_set1_ps,
            _mm256_loadu_ps,
            _mm256_storeu_ps,
            _mm256_fmadd_ps,
            _mm256_add_ps
        );
        #[inline(always)]
        unsafe fn load_part(from: *const f32, n: usize) -> Self {
            // SAFETY: masked lanes are not read.
            Self(unsafe { _mm256_maskload_ps(from, lanes_below_32(n)) })
        }
        #[inline(always)]
        unsafe fn store_part(self, to: *mut f32, n: usize) {
            // SAFETY: masked lanes are not written.
            unsafe { _mm256_maskstore_ps(to, lanes_below_32(n), self.0) }
        }
        #[inline(always)]
        unsafe fn sum_halves(self) -> f32 {
            // SAFETY: register arithmetic.
            unsafe { sum_f32x8(self.0) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_row: isize, rows: usize, to: *mut f32, to_row: usize) {
            // SAFETY: the caller's promise.
            unsafe { transpose_8x8(from, from_row, rows, to, to_row) }
        }
    }

    // SAFETY: as above.
    unsafe impl Vector for F64x4 {
        type T = f64;
        const LANES: usize = 4;
        const SQUARE: usize = 4;
        arithmetic!(
            f64,
            _mm256_setzero_pd,
            _mm256_set1_pd,
            _mm256_loadu_pd,
            _mm256_storeu_pd,
            _mm256_fmadd_pd,
            _mm256_add_pd
        );
        #[inline(always)]
        unsafe fn load_part(from: *const f64, n: usize) -> Self {
            // SAFETY: masked lanes are not read.
            Self(unsafe { _mm256_maskload_pd(from, lanes_below_64(n)) })
        }
        #[inline(always)]
        unsafe fn store_part(self, to: *mut f64, n: usize) {
            // SAFETY: masked lanes are not written.
            unsafe { _mm256_maskstore_pd(to, lanes_below_64(n), self.0) }
        }
        #[inline(always)]
        unsafe fn sum_halves(self) -> f64 {
            // SAFETY: register arithmetic.
            unsafe { sum_f64x4(self.0) }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f64, from_row: isize, rows: usize, to: *mut f64, to_row: usize) {
            // SAFETY: the caller's promise.
            unsafe { transpose_4x4(from, from_row, rows, to, to_row) }
        }
    }

    #[inline(always)]
    unsafe fn sum_f32x8(x: __m256) -> f32 {
        // SAFETY: register arithmetic.
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[inline(always)]
    unsafe fn sum_f64x4(x: __m256d) -> f64 {
        // SAFETY: register arithmetic.
        unsafe {
            let two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        }
    }

    /// `n` ones (at most 16) from the low end.
    #[inline(always)]
    fn low_bits(n: usize) -> u32 {
        (1u32 << n.min(16)) - 1
    }

    #[inline(always)]
    unsafe fn lanes_below_32(n: usize) -> __m256i {
        // SAFETY: register arithmetic.
        unsafe { _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)) }
    }

    #[inline(always)]
    unsafe fn lanes_below_64(n: usize) -> __m256i {
        // SAFETY: register arithmetic.
        unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
    }

    #[inline(always)]
    unsafe fn transpose_8x8(from: *const f32, from_row: isize, rows: usize, to: *mut f32, to_row: usize) {
        // SAFETY: the caller's promise: `rows` rows of 8 are readable, 8 rows of 8 writable.
        unsafe {
            let row = |i: usize| {
                if i < rows { _mm256_loadu_ps(from.offset(i as isize * from_row)) } else { _mm256_setzero_ps() }
            };
            // Pairs of rows interleaved, then pairs of pairs, then the 128-bit halves exchanged.
            let low = |i: usize| _mm256_unpacklo_ps(row(i), row(i + 1));
            let high = |i: usize| _mm256_unpackhi_ps(row(i), row(i + 1));
            let (l0, l2, l4, l6) = (low(0), low(2), low(4), low(6));
            let (h0, h2, h4, h6) = (high(0), high(2), high(4), high(6));
            let quads = |a, b| (_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xee>(a, b));
            let (a0, a1) = quads(l0, l2);
            let (a2, a3) = quads(h0, h2);
            let (b0, b1) = quads(l4, l6);
            let (b2, b3) = quads(h4, h6);
            let put = |p: usize, x| _mm256_storeu_ps(to.add(p * to_row), x);
            put(0, _mm256_permute2f128_ps::<0x20>(a0, b0));
            put(1, _mm256_permute2f128_ps::<0x20>(a1, b1));
            put(2, _mm256_permute2f128_ps::<0x20>(a2, b2));
            put(3, _mm256_permute2f128_ps::<0x20>(a3, b3));
            put(4, _mm256_permute2f128_ps::<0x31>(a0, b0));
            put(5, _mm256_permute2f128_ps::<0x31>(a1, b1));
            put(6, _mm256_permute2f128_ps::<0x31>(a2, b2));
            put(7, _mm256_permute2f128_ps::<0x31>(a3, b3));
        }
    }

    #[inline(always)]
    unsafe fn transpose_4x4(from: *const f64, from_row: isize, rows: usize, to: *mut f64, to_row: usize) {
        // SAFETY: the caller's promise: `rows` rows of 4 are readable, 4 rows of 4 writable.
        unsafe {
            let row = |i: usize| {
                if i < rows { _mm256_loadu_pd(from.offset(i as isize * from_row)) } else { _mm256_setzero_pd() }
            };
            let (r0, r1, r2, r3) = (row(0), row(1), row(2), row(3));
            let (a0, a1) = (_mm256_unpacklo_pd(r0, r1), _mm256_unpackhi_pd(r0, r1));
            let (b0, b1) = (_mm256_unpacklo_pd(r2, r3), _mm256_unpackhi_pd(r2, r3));
            let put = |p: usize, x| _mm256_storeu_pd(to.add(p * to_row), x);
            put(0, _mm256_permute2f128_pd::<0x20>(a0, b0));
            put(1, _mm256_permute2f128_pd::<0x20>(a1, b1));
            put(2, _mm256_permute2f128_pd::<0x31>(a0, b0));
            put(3, _mm256_permute2f128_pd::<0x31>(a1, b1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fma_through_f64_is_fma() {
        let mut edges =
            vec![0.0f32, 1.0, 1.5, f32::EPSILON, f32::MIN_POSITIVE, 1e-45, 1e-30, 3e38, f32::INFINITY, f32::NAN];
        // Bits of every kind, most of them near each other in size, so that sums cancel and tie.
        let mut state = 1u32;
        for i in 0..60 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            edges.push(f32::from_bits(if i % 2 == 0 { state } else { 0x3f80_0000 | (state >> 9 & 0x7_0007) }));
        }
        edges.extend(edges.clone().iter().map(|x| -x));
        for &a in &edges {
            for &b in &edges {
                for &c in edges.iter().chain(&[a * b, -(a * b)]) {
                    let (got, want) = (fma_through_f64(a, b, c), a.mul_add(b, c));
                    assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{a:e} * {b:e} + {c:e}");
                }
            }
        }
    }
}
