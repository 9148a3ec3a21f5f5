//! When the calling thread runs ops before it must: eager mode, and flushes at random points for tests.
use std::cell::Cell;

thread_local! {
    static EAGER: Cell<Option<bool>> = const { Cell::new(None) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// Makes every op of this thread run at once (`Some(true)`) or not (`Some(false)`); `None` goes back to what the
/// executor was made with (the environment's `RTX_EAGER=1`).
pub fn set_eager(eager: Option<bool>) {
    EAGER.set(eager)
}

/// Flushes this thread's regions at random points between record calls, one in four; `None` stops that. For tests.
pub fn set_random_flush(seed: Option<u64>) {
    RANDOM.set(seed.map_or(0, |s| s.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1))
}

/// This thread's own choice of eager mode.
pub(crate) fn eager() -> Option<bool> {
    EAGER.get()
}

/// Is this a point to flush at? Advances the thread's random sequence (xorshift).
pub(crate) fn flush_here() -> bool {
    let mut x = RANDOM.get();
    if x == 0 {
        return false;
    }
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    RANDOM.set(x);
    (x >> 32) & 3 == 0
}
