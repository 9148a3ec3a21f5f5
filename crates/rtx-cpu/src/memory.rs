//! Raw memory: 64-byte aligned, large blocks on huge pages.
use std::alloc::{Layout, alloc, dealloc};

/// Every block starts on a cache line, and on the widest vector's alignment.
const ALIGN: usize = 64;
/// Blocks of at least this size ask for huge pages.
const LARGE: usize = 4 << 20;
/// A huge page.
const HUGE_PAGE: usize = 2 << 20;

/// How a block of `bytes` is laid out; `None` if no address space could hold it.
fn layout(bytes: usize) -> Option<Layout> {
    let align = if bytes >= LARGE { HUGE_PAGE } else { ALIGN };
    Layout::from_size_align(bytes.max(ALIGN), align).ok()
}

/// Takes `bytes` of memory, contents unspecified; `None` when there is none.
pub(crate) fn take(bytes: usize) -> Option<*mut u8> {
    let layout = layout(bytes)?;
    // SAFETY: the size is at least 64, so not zero.
    let ptr = unsafe { alloc(layout) };
    if ptr.is_null() {
        return None;
    }
    if layout.align() == HUGE_PAGE {
        advise_huge_pages(ptr, bytes);
    }
    Some(ptr)
}

/// Gives memory back.
///
/// # Safety
/// `ptr` came from `take(bytes)` and nothing uses it any more.
pub(crate) unsafe fn give(ptr: *mut u8, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: `take` used the same layout for the same number of bytes.
        unsafe { dealloc(ptr, layout) }
    }
}

/// Asks for huge pages. A refusal costs speed only, so it is not looked at.
fn advise_huge_pages(ptr: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range lies inside one block of ours, and the advice changes no contents.
    unsafe {
        libc::madvise(ptr.cast(), bytes / HUGE_PAGE * HUGE_PAGE, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (ptr, bytes);
}
