//! What this machine can do at most, measured: multiply-adds, a copy, a read. Benchmarks give kernels as shares of it.
use crate::{Isa, isa, pool};
use std::hint::black_box;
use std::time::Instant;

/// Numbers in one buffer of a stream: 16 MiB.
const STREAM: usize = 4 << 20;
/// Numbers of a read: 64 MiB, a matrix of 4096 × 4096.
const READ: usize = 16 << 20;
/// Chains of multiply-adds that do not wait for each other, and links of each.
const CHAINS: usize = 12;
const LINKS: usize = 200_000;

/// Buffers to measure with, used again and again as a program's would be.
pub struct Yardstick {
    from: Vec<f32>,
    to: Vec<f32>,
    read: Vec<f32>,
}

impl Default for Yardstick {
    fn default() -> Self {
        Self { from: vec![1.0; STREAM + 16], to: vec![0.0; STREAM + 16], read: vec![1.0; READ] }
    }
}

impl Yardstick {
    /// f32 multiplications and additions a second, all threads together.
    pub fn flops(&self) -> f64 {
        let (threads, isa) = (pool::threads(), isa());
        let seconds = time(|| {
            pool::run(threads, &|_| {
                black_box(multiply_adds(isa, black_box(0.999)));
            });
        });
        (threads * CHAINS * LINKS * lanes(isa) * 2) as f64 / seconds
    }

    /// Bytes a second, read and written, of the better of two copies of 16 MiB: with stores past the caches, and
    /// without.
    pub fn copied(&mut self) -> f64 {
        let isa = isa();
        let plain = self.copy(&|from, to| to.copy_from_slice(from));
        let streamed = self.copy(&|from, to| copy_past_caches(isa, from, to));
        (2 * 4 * STREAM) as f64 / plain.min(streamed)
    }

    /// Bytes a second of reading 64 MiB.
    pub fn read(&self) -> f64 {
        let (threads, isa) = (pool::threads(), isa());
        let part = READ.div_ceil(threads);
        let seconds = time(|| {
            pool::run(threads, &|t| {
                let end = ((t + 1) * part).min(READ);
                black_box(sum(isa, &self.read[(t * part).min(end)..end]));
            });
        });
        (4 * READ) as f64 / seconds
    }

    /// Seconds of one copy that all threads share.
    fn copy(&mut self, copy: &(dyn Fn(&[f32], &mut [f32]) + Sync)) -> f64 {
        let threads = pool::threads();
        let part = STREAM.div_ceil(threads).next_multiple_of(16);
        // Stores past the caches want whole lines.
        let skip = self.to.as_ptr().align_offset(64).min(16);
        let to = &mut self.to[skip..skip + STREAM];
        let pieces: Vec<_> = to.chunks_mut(part).zip(self.from.chunks(part)).map(std::sync::Mutex::new).collect();
        time(|| {
            pool::run(pieces.len(), &|i| {
                if let Ok(mut piece) = pieces[i].lock() {
                    let (to, from) = &mut *piece;
                    copy(&from[..to.len()], to);
                }
            });
        })
    }
}

/// The best of three.
fn time(mut f: impl FnMut()) -> f64 {
    let once = |f: &mut dyn FnMut()| {
        let from = Instant::now();
        f();
        from.elapsed().as_secs_f64()
    };
    (0..3).map(|_| once(&mut f)).fold(f64::INFINITY, f64::min)
}

/// f32 numbers in a register.
fn lanes(isa: Isa) -> usize {
    match isa {
        Isa::Avx512 => 16,
        Isa::Avx2 => 8,
        Isa::Scalar => 1,
    }
}

fn multiply_adds(isa: Isa, by: f32) -> f32 {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa()` is at most what the machine has.
        Isa::Avx512 => unsafe { x86::multiply_adds_512(by) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { x86::multiply_adds_256(by) },
        _ => {
            let mut sums = [0f32; CHAINS];
            for _ in 0..LINKS {
                sums.iter_mut().for_each(|s| *s = *s * by + by);
            }
            sums.iter().sum()
        }
    }
}

fn copy_past_caches(isa: Isa, from: &[f32], to: &mut [f32]) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa()` is at most what the machine has.
        Isa::Avx512 => unsafe { x86::copy_512(from, to) },
        _ => to.copy_from_slice(from),
    }
}

fn sum(isa: Isa, x: &[f32]) -> f32 {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `isa()` is at most what the machine has.
        Isa::Avx512 => unsafe { x86::sum_512(x) },
        _ => x.chunks(16).map(|c| c.iter().sum::<f32>()).sum(),
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CHAINS, LINKS};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    pub(super) fn multiply_adds_512(by: f32) -> f32 {
        let by = _mm512_set1_ps(by);
        let mut sums = [_mm512_setzero_ps(); CHAINS];
        for _ in 0..LINKS {
            for s in &mut sums {
                *s = _mm512_fmadd_ps(*s, by, by);
            }
        }
        sums.iter().map(|s| _mm512_reduce_add_ps(*s)).sum()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn multiply_adds_256(by: f32) -> f32 {
        let by = _mm256_set1_ps(by);
        let mut sums = [_mm256_setzero_ps(); CHAINS];
        for _ in 0..LINKS {
            for s in &mut sums {
                *s = _mm256_fmadd_ps(*s, by, by);
            }
        }
        sums.iter().map(|s| _mm256_cvtss_f32(*s)).sum()
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn copy_512(from: &[f32], to: &mut [f32]) {
        let (from_lines, from_rest) = from.as_chunks::<16>();
        let (to_lines, to_rest) = to.as_chunks_mut::<16>();
        if !to_lines.as_ptr().addr().is_multiple_of(64) {
            return to.copy_from_slice(from);
        }
        for (from, to) in from_lines.iter().zip(to_lines) {
            // SAFETY: each is a line of 16 numbers, and the target is aligned to 64.
            unsafe { _mm512_stream_ps(to.as_mut_ptr(), _mm512_loadu_ps(from.as_ptr())) }
        }
        to_rest.copy_from_slice(from_rest);
        _mm_sfence();
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn sum_512(x: &[f32]) -> f32 {
        let mut sums = [_mm512_setzero_ps(); 8];
        for lines in x.as_chunks::<16>().0.chunks(8) {
            for (s, line) in sums.iter_mut().zip(lines) {
                // SAFETY: a line of 16 numbers.
                *s = _mm512_add_ps(*s, unsafe { _mm512_loadu_ps(line.as_ptr()) });
            }
        }
        sums.iter().map(|s| _mm512_reduce_add_ps(*s)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_copies_and_sums() {
        let from: Vec<f32> = (0..1000).map(|i| i as f32).collect();
        for isa in Isa::ALL.into_iter().filter(|&isa| isa <= Isa::detect()) {
            for skip in 0..20 {
                let mut to = vec![0.0; 1000];
                copy_past_caches(isa, &from[skip..], &mut to[skip..]);
                assert_eq!(to[skip..], from[skip..], "{isa:?}");
            }
            assert_eq!(sum(isa, &from[..992]), 991.0 * 992.0 / 2.0, "{isa:?}");
            assert!(multiply_adds(isa, 0.5).is_finite());
        }
    }
}
