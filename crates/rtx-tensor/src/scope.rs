//! Where in a model the thread is: the `in: layer 3` at the end of a message.
use std::cell::RefCell;

thread_local! { static STACK: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) } }

/// Leaves the scope, on unwinding too.
struct Leave;
impl Drop for Leave {
    fn drop(&mut self) {
        STACK.with_borrow_mut(|s| s.pop());
    }
}

/// Runs `f` under a name that messages of mistakes made inside end with.
pub fn in_scope<T>(name: impl Into<String>, f: impl FnOnce() -> T) -> T {
    STACK.with_borrow_mut(|s| s.push(name.into()));
    let _leave = Leave;
    f()
}

/// The names from the outermost to the innermost; `None` outside all.
pub fn current_scope() -> Option<String> {
    STACK.with_borrow(|s| (!s.is_empty()).then(|| s.join(", ")))
}
