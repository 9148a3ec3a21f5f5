//! When the calling thread runs ops before it must: eager mode, and flushes at random points for tests.
use rtx_ir::{Graph, ValueId};
use std::cell::{Cell, RefCell};

/// Is shown a graph and the values wanted of it.
type Observer = fn(&Graph, &[ValueId]);

thread_local! {
    static EAGER: Cell<Option<bool>> = const { Cell::new(None) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    static OBSERVER: Cell<Option<Observer>> = const { Cell::new(None) };
    static BUDGET: Cell<Option<u64>> = const { Cell::new(None) };
    static MISSES: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// Notes that this thread found no plan for a region, and what was new about it.
pub(crate) fn note_miss(why: &str) {
    MISSES.with_borrow_mut(|(count, last)| {
        *count += 1;
        why.clone_into(last);
    })
}

/// How often this thread found no plan, and what was new about the last region.
pub(crate) fn misses() -> (u64, String) {
    MISSES.with_borrow(|seen| seen.clone())
}

/// Shows every region that this thread runs, before it runs: its graph, and the values wanted of it. For tests.
pub fn set_observer(observer: Option<fn(&Graph, &[ValueId])>) {
    OBSERVER.set(observer)
}

/// Shows a graph that is about to run.
pub(crate) fn observe(graph: &Graph, wanted: &[ValueId]) {
    if let Some(observer) = OBSERVER.get() {
        observer(graph, wanted)
    }
}

/// How many bytes a region of this thread may take when it runs, its inputs and results included; `None` for no bound.
/// Where the plan takes more, values are computed again instead of kept. Returns what it was before.
pub fn set_memory_budget(bytes: Option<u64>) -> Option<u64> {
    BUDGET.replace(bytes)
}

/// This thread's memory budget.
pub(crate) fn memory_budget() -> Option<u64> {
    BUDGET.get()
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
