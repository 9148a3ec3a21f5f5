//! Where in a model ops are recorded, so that an error found later can say it (contract R5).
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    static PATHS: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
}

/// Names the part of a model that this thread is in until the guard goes: `scope("blocks.3")` within `scope("gpt")`
/// is `gpt.blocks.3`. It is no part of the program: plans do not depend on it.
#[must_use = "the scope ends where the guard is dropped"]
pub fn scope(name: &str) -> Scope {
    PATHS.with_borrow_mut(|paths| {
        let path = paths.last().map_or_else(|| name.into(), |outer| format!("{outer}.{name}").into());
        paths.push(path);
    });
    Scope(PhantomData)
}

/// Ends a [`scope`]; stays on its thread.
pub struct Scope(PhantomData<*const ()>);

impl Drop for Scope {
    fn drop(&mut self) {
        PATHS.with_borrow_mut(Vec::pop);
    }
}

/// The path that this thread is in.
pub fn path() -> Option<Arc<str>> {
    PATHS.with_borrow(|paths| paths.last().cloned())
}
