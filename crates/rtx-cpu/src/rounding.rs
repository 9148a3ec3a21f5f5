//! Floating-point control: kernels run with round-to-nearest and denormals kept, whatever the calling thread has set.

/// MXCSR as every Rust thread starts: round to nearest, no flush to zero, all exceptions masked.
#[cfg(target_arch = "x86_64")]
const DEFAULT: u32 = 0x1f80;
/// The bits that change results; the six below them only say what happened.
#[cfg(target_arch = "x86_64")]
const CONTROL: u32 = !0x3f;

/// Runs `f` under the default floating-point control and then restores the thread's own. The compiler knows nothing
/// of the control word: arithmetic that must see the change belongs in a call that it cannot inline, as kernels are.
pub fn with_default_rounding<R>(f: impl FnOnce() -> R) -> R {
    let _restore = Restore::new();
    f()
}

#[cfg(target_arch = "x86_64")]
struct Restore(Option<u32>);

#[cfg(target_arch = "x86_64")]
impl Restore {
    fn new() -> Self {
        let before = control();
        let differs = before & CONTROL != DEFAULT;
        if differs {
            set_control(DEFAULT);
        }
        Self(differs.then_some(before))
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Restore {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            set_control(before);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn control() -> u32 {
    let mut value = 0u32;
    // SAFETY: stores four bytes into `value`.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
    value
}

#[cfg(target_arch = "x86_64")]
fn set_control(value: u32) {
    // SAFETY: reads four bytes of `value`, which is a control word read before or the default: no reserved bit is set.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack, preserves_flags)) };
}

/// Other machines: the default is what threads have.
#[cfg(not(target_arch = "x86_64"))]
struct Restore;

#[cfg(not(target_arch = "x86_64"))]
impl Restore {
    fn new() -> Self {
        Self
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Not inlined: the compiler may move arithmetic past a change of control, but not a call.
    #[inline(never)]
    fn half() -> f32 {
        black_box(f32::MIN_POSITIVE) * black_box(0.5)
    }

    #[test]
    fn a_thread_that_flushes_denormals_still_gets_them_inside() {
        let before = control();
        set_control(DEFAULT | 0x8040);
        let (outside, inside) = (half(), with_default_rounding(half));
        let again = half();
        set_control(before);
        assert_eq!((outside, inside, again), (0.0, f32::MIN_POSITIVE / 2.0, 0.0));
    }
}
