//! Which vector instructions are used, and how one body of Rust is compiled for each of them.
use std::sync::OnceLock;

/// An instruction set. Changes speed, never bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// What every machine of the architecture has.
    Scalar,
    /// AVX2 and fma.
    Avx2,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
}

impl Isa {
    /// The best set of this machine, or the one that `RTX_CPU` (`scalar`, `avx2`, `avx512`) asks for if it is there.
    pub fn detect() -> Isa {
        static FOUND: OnceLock<Isa> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let best = best();
            let wanted = match std::env::var("RTX_CPU").as_deref() {
                Ok("scalar") => Isa::Scalar,
                Ok("avx2") => Isa::Avx2,
                _ => Isa::Avx512,
            };
            best.min(wanted)
        })
    }
    /// Every set that this machine has, least first.
    pub fn available() -> impl Iterator<Item = Isa> {
        let best = best();
        [Isa::Scalar, Isa::Avx2, Isa::Avx512].into_iter().filter(move |&isa| isa <= best)
    }
    /// `scalar`, `avx2`, `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
    /// Runs `body` compiled for this set: its loops vectorize with it. Write `#[inline(always)]` before the closure,
    /// and on everything that it calls in a loop; what is not inlined is compiled for [`Isa::Scalar`].
    ///
    /// # Panics
    /// Never, but the set must be one of [`Isa::available`]; this is checked in debug builds.
    #[inline(always)]
    pub fn run<R>(self, body: impl FnOnce() -> R) -> R {
        debug_assert!(self <= best(), "{} is not available here", self.name());
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: values other than `Scalar` come from `detect` or `available`.
            Isa::Avx512 => unsafe { run_avx512(body) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 => unsafe { run_avx2(body) },
            _ => body(),
        }
    }
}

fn best() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        if avx2 && avx512 {
            return Isa::Avx512;
        }
        if avx2 {
            return Isa::Avx2;
        }
    }
    Isa::Scalar
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn run_avx512<R>(body: impl FnOnce() -> R) -> R {
    body()
}
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2<R>(body: impl FnOnce() -> R) -> R {
    body()
}
