//! The 16 lanes of a block's reduction, in registers.
//!
//! [`Plain`] lanes are an array and serve every type; sums and extrema of f32, which every training step is full of,
//! have vector registers.
use super::reduce::{Folding, LANES};

/// 16 partial results of a fold.
pub(super) trait Lanes<F: Folding>: Copy {
    /// All identity.
    fn start() -> Self;
    /// Folds the next 16 elements in.
    ///
    /// # Safety
    /// 16 elements are there, and the instruction set is the one that the caller is compiled for.
    unsafe fn take(self, x: *const F::T) -> Self;
    /// One number, by halves.
    ///
    /// # Safety
    /// As [`Lanes::take`].
    unsafe fn finish(self) -> F::T;
}

/// Lanes as an array.
#[derive(Clone, Copy)]
pub(super) struct Plain<T>([T; LANES]);
impl<F: Folding> Lanes<F> for Plain<F::T> {
    #[inline(always)]
    fn start() -> Self {
        Plain([F::IDENTITY; LANES])
    }
    #[inline(always)]
    unsafe fn take(mut self, x: *const F::T) -> Self {
        for j in 0..LANES {
            // SAFETY: the caller's.
            self.0[j] = F::fold(self.0[j], unsafe { *x.add(j) });
        }
        self
    }
    #[inline(always)]
    unsafe fn finish(mut self) -> F::T {
        let mut half = LANES / 2;
        while half > 0 {
            for j in 0..half {
                self.0[j] = F::fold(self.0[j], self.0[j + half]);
            }
            half /= 2;
        }
        self.0[0]
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Vector256, Vector512, VectorFolding};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Folding, LANES, Lanes};
    use crate::vm::reduce::{MaxF32, MinF32, SumF32};
    use std::arch::x86_64::*;

    /// A fold of f32 in vector registers: as [`Folding::fold`] in each lane.
    ///
    /// # Safety
    /// The methods need AVX-512, AVX2 and what every x86-64 has, by their width.
    pub(in crate::vm) trait VectorFolding: Folding<T = f32> {
        /// # Safety
        /// AVX-512.
        unsafe fn fold512(a: __m512, b: __m512) -> __m512;
        /// # Safety
        /// AVX2.
        unsafe fn fold256(a: __m256, b: __m256) -> __m256;
        /// # Safety
        /// AVX2.
        unsafe fn fold128(a: __m128, b: __m128) -> __m128;
    }
    impl VectorFolding for SumF32 {
        #[inline(always)]
        unsafe fn fold512(a: __m512, b: __m512) -> __m512 {
            // SAFETY: the caller's.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn fold256(a: __m256, b: __m256) -> __m256 {
            // SAFETY: the caller's.
            unsafe { _mm256_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn fold128(a: __m128, b: __m128) -> __m128 {
            // SAFETY: the caller's.
            unsafe { _mm_add_ps(a, b) }
        }
    }
    // The machine's max(a, b) is `if a > b { a } else { b }`; a NaN in `a` is put back.
    macro_rules! extremum {
        ($F:ident, $op512:ident, $op256:ident, $op128:ident) => {
            impl VectorFolding for $F {
                #[inline(always)]
                unsafe fn fold512(a: __m512, b: __m512) -> __m512 {
                    // SAFETY: the caller's.
                    unsafe { _mm512_mask_mov_ps($op512(a, b), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a), a) }
                }
                #[inline(always)]
                unsafe fn fold256(a: __m256, b: __m256) -> __m256 {
                    // SAFETY: the caller's.
                    unsafe { _mm256_blendv_ps($op256(a, b), a, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a)) }
                }
                #[inline(always)]
                unsafe fn fold128(a: __m128, b: __m128) -> __m128 {
                    // SAFETY: the caller's.
                    unsafe { _mm_blendv_ps($op128(a, b), a, _mm_cmpunord_ps(a, a)) }
                }
            }
        };
    }
    extremum!(MaxF32, _mm512_max_ps, _mm256_max_ps, _mm_max_ps);
    extremum!(MinF32, _mm512_min_ps, _mm256_min_ps, _mm_min_ps);

    /// Eight lanes to one.
    #[inline(always)]
    unsafe fn finish256<F: VectorFolding>(x: __m256) -> f32 {
        // SAFETY: the caller's.
        unsafe {
            let four = F::fold128(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = F::fold128(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(F::fold128(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    /// Lanes in one register of AVX-512.
    #[derive(Clone, Copy)]
    pub(in crate::vm) struct Vector512(__m512);
    impl<F: VectorFolding> Lanes<F> for Vector512 {
        #[inline(always)]
        fn start() -> Self {
            let lanes = [F::IDENTITY; LANES];
            // SAFETY: the same size, and any bits are valid.
            unsafe { std::mem::transmute::<[f32; LANES], Vector512>(lanes) }
        }
        #[inline(always)]
        unsafe fn take(self, x: *const f32) -> Self {
            // SAFETY: the caller's.
            unsafe { Vector512(F::fold512(self.0, _mm512_loadu_ps(x))) }
        }
        #[inline(always)]
        unsafe fn finish(self) -> f32 {
            // SAFETY: the caller's.
            unsafe {
                let x = self.0;
                let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(x)));
                finish256::<F>(F::fold256(_mm512_castps512_ps256(x), high))
            }
        }
    }

    /// Lanes in two registers of AVX2.
    #[derive(Clone, Copy)]
    pub(in crate::vm) struct Vector256(__m256, __m256);
    impl<F: VectorFolding> Lanes<F> for Vector256 {
        #[inline(always)]
        fn start() -> Self {
            let lanes = [F::IDENTITY; LANES];
            // SAFETY: the same size, and any bits are valid.
            unsafe { std::mem::transmute::<[f32; LANES], Vector256>(lanes) }
        }
        #[inline(always)]
        unsafe fn take(self, x: *const f32) -> Self {
            // SAFETY: the caller's.
            unsafe {
                let (low, high) = (_mm256_loadu_ps(x), _mm256_loadu_ps(x.add(8)));
                Vector256(F::fold256(self.0, low), F::fold256(self.1, high))
            }
        }
        #[inline(always)]
        unsafe fn finish(self) -> f32 {
            // SAFETY: the caller's.
            unsafe { finish256::<F>(F::fold256(self.0, self.1)) }
        }
    }
}
