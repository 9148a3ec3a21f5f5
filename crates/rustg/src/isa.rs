//! Which vector instructions are used, and how one body of Rust is compiled for each of them.
use std::sync::OnceLock;

/// An instruction set. It changes speed, never bits. Ordered from the least able to the most able.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// What every machine of the architecture has.
    Scalar,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL, and BMI2, which printed loops use.
    Avx512,
}

impl Isa {
    /// Every instruction set, least able first.
    pub const ALL: [Isa; 3] = [Isa::Scalar, Isa::Avx2, Isa::Avx512];

    /// The best one that this machine has.
    pub fn detect() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(best)
    }
    /// What `RTX_CPU` (`scalar`, `avx2`, `avx512`) asks for if this machine has it, else the best one it has.
    pub fn from_env() -> Isa {
        let asked = std::env::var("RTX_CPU").ok().and_then(|name| Isa::parse(&name));
        asked.map_or(Isa::detect(), |isa| isa.min(Isa::detect()))
    }
    /// Every one that this machine has, least able first.
    pub fn available() -> impl Iterator<Item = Isa> {
        Self::ALL.into_iter().filter(|&isa| isa <= Isa::detect())
    }
    /// `scalar`, `avx2`, `avx512`.
    pub const fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }
    /// The inverse of [`Isa::name`].
    pub fn parse(name: &str) -> Option<Isa> {
        Self::ALL.into_iter().find(|isa| isa.name() == name)
    }

    /// Runs `body` compiled for this set: its loops vectorize with it. Write `#[inline(always)]` before the closure,
    /// and on everything that it calls in a loop; what is not inlined is compiled for [`Isa::Scalar`]. A set that the
    /// machine lacks becomes the best it has.
    #[inline(always)]
    pub fn run<R>(self, body: impl FnOnce() -> R) -> R {
        match self.min(Isa::detect()) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` found these instructions.
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
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma");
        let avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
        if avx2 && avx512 && has!("bmi2") {
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

#[cfg(test)]
mod tests {
    use super::Isa;

    #[test]
    fn names_parse_and_every_set_runs() {
        for isa in Isa::ALL {
            assert_eq!(Isa::parse(isa.name()), Some(isa));
            let n = isa.run(
                #[inline(always)]
                || (0..10).sum::<i32>(),
            );
            assert_eq!(n, 45);
        }
    }
}
