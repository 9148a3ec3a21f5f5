//! Which instruction set kernels use: the best one that the machine has, or a lower one on request.
pub use rustg::Isa;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// 0 is "not forced", else 1 + index in [`Isa::ALL`].
static FORCED: AtomicU8 = AtomicU8::new(0);

/// The instruction set that kernels use from here on: what [`set_isa`] forced, else what `RTX_CPU` asks for, else
/// [`Isa::detect`].
pub fn isa() -> Isa {
    match FORCED.load(Relaxed).checked_sub(1) {
        Some(index) => Isa::ALL[index as usize],
        None => default_isa(),
    }
}

/// Forces an instruction set for the whole process, or takes the force back; one that the machine lacks becomes the
/// best it has. For tests that compare instruction sets.
pub fn set_isa(isa: Option<Isa>) {
    FORCED.store(isa.map_or(0, |isa| 1 + isa.min(Isa::detect()) as u8), Relaxed)
}

fn default_isa() -> Isa {
    static DEFAULT: OnceLock<Isa> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        choose(std::env::var("RTX_CPU").ok().as_deref(), Isa::detect()).unwrap_or_else(|message| {
            eprintln!("{message}");
            Isa::detect()
        })
    })
}

/// What a value of `RTX_CPU` means on a machine that has `detected`.
fn choose(asked: Option<&str>, detected: Isa) -> Result<Isa, String> {
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else { return Ok(detected) };
    match Isa::parse(asked) {
        Some(isa) if isa <= detected => Ok(isa),
        Some(_) => Err(format!("RTX_CPU: this machine has no {asked}; using {}", detected.name())),
        None => {
            Err(format!("RTX_CPU: unknown instruction set `{asked}` (scalar, avx2, avx512); using {}", detected.name()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_asks_for_less_never_for_more() {
        assert_eq!(choose(None, Isa::Avx2), Ok(Isa::Avx2));
        assert_eq!(choose(Some("scalar"), Isa::Avx512), Ok(Isa::Scalar));
        assert_eq!(choose(Some("avx512"), Isa::Avx2), Err("RTX_CPU: this machine has no avx512; using avx2".into()));
        assert_eq!(
            choose(Some("sse9"), Isa::Avx2),
            Err("RTX_CPU: unknown instruction set `sse9` (scalar, avx2, avx512); using avx2".into())
        );
    }
}
