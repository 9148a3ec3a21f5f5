//! Where in a model the thread is: the `in: layer 3` at the end of a message.

/// Runs `f` under a name: messages of mistakes made inside end with it, and errors found later say it too.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let name = torch::in_scope("layer 3", torch::current_scope);
/// assert_eq!(name.as_deref(), Some("layer 3")); // errors say it
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn in_scope<T>(name: impl AsRef<str>, f: impl FnOnce() -> T) -> T {
    let _scope = rtx_runtime::scope(name.as_ref());
    f()
}

/// The names from the outermost to the innermost; `None` outside all.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::current_scope(), None);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn current_scope() -> Option<String> {
    rtx_runtime::scope_path().map(|path| path.to_string())
}
