//! Scratch memory: a thread's own blocks, kept and grown, so that kernels allocate nothing once they are warm.
use crate::memory;
use std::cell::RefCell;

thread_local! {
    /// Blocks not in use. The outermost user of a thread takes the last one, a nested user the one before, so each
    /// nesting depth finds the block that it used before.
    static FREE: RefCell<Vec<Scratch>> = const { RefCell::new(Vec::new()) };
}

struct Scratch {
    ptr: *mut u8,
    bytes: usize,
}

impl Scratch {
    fn new(bytes: usize) -> Self {
        let bytes = bytes.next_power_of_two().max(4096);
        let ptr = memory::take(bytes).unwrap_or_else(|| panic!("out of memory on cpu: {bytes} bytes of scratch"));
        Self { ptr, bytes }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: `ptr` came from `take(bytes)` in `new` and is given back once.
        unsafe { memory::give(self.ptr, self.bytes) }
    }
}

/// Puts the block back when its user is done, also when the user panics.
struct InUse(Option<Scratch>);

impl Drop for InUse {
    fn drop(&mut self) {
        // A thread that is ending has no list any more; then the block is freed.
        let _ = FREE.try_with(|free| free.borrow_mut().extend(self.0.take()));
    }
}

/// Calls `f` with `bytes` of memory, 64-byte aligned, contents unspecified. Calls may nest; the memory is `f`'s alone
/// until it returns.
///
/// # Panics
/// When the machine has no memory left.
pub fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    let kept = FREE.with(|free| free.borrow_mut().pop()).filter(|scratch| scratch.bytes >= bytes);
    let scratch = kept.unwrap_or_else(|| Scratch::new(bytes));
    let ptr = scratch.ptr;
    let _in_use = InUse(Some(scratch));
    f(ptr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_blocks_are_apart_aligned_and_kept() {
        let both = || with_scratch(100, |outer| with_scratch(200, |inner| (outer, inner)));
        let (outer, inner) = both();
        assert_ne!(outer, inner);
        assert_eq!((outer as usize % 64, inner as usize % 64), (0, 0));
        assert_eq!(both(), (outer, inner));
    }

    #[test]
    fn a_block_grows_to_what_is_asked() {
        with_scratch(10, |_| ());
        with_scratch(1 << 20, |ptr| {
            // SAFETY: the block has a MiB.
            unsafe { ptr.write_bytes(7, 1 << 20) }
        });
    }
}
