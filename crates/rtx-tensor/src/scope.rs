//! Where in a model the thread is: the `in: layer 3` at the end of a message.

/// Runs `f` under a name: messages of mistakes made inside end with it, and errors found later say it too.
pub fn in_scope<T>(name: impl AsRef<str>, f: impl FnOnce() -> T) -> T {
    let _scope = rtx_runtime::scope(name.as_ref());
    f()
}

/// The names from the outermost to the innermost; `None` outside all.
pub fn current_scope() -> Option<String> {
    rtx_runtime::scope_path().map(|path| path.to_string())
}
