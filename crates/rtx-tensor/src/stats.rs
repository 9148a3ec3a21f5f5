//! What the executor has done, and when its work runs.
use crate::{Result, engine};
pub use rtx_runtime::{BudgetReport, Counters, HeldValue};

/// What has happened so far on the usual device; subtract two snapshots for what happened between them.
///
/// Unstable: what is counted follows the runtime.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let before = torch::counters();
/// (torch::ones(2) + 1.).to_vec::<f32>()?;
/// assert!(torch::counters().flushes > before.flushes);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn counters() -> Counters {
    engine::executor().counters()
}
/// Bytes of values and plans now, and the most there have been since [`reset_peak_memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// In use now.
    pub live_bytes: u64,
    /// The most that has been in use.
    pub peak_bytes: u64,
    /// Freed and kept for reuse.
    pub cached_bytes: u64,
}
/// Memory now.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert!(torch::memory().peak_bytes >= torch::memory().live_bytes);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn memory() -> Memory {
    let c = counters();
    Memory { live_bytes: c.bytes_live, peak_bytes: c.bytes_peak, cached_bytes: c.bytes_cached }
}
/// The `n` largest tensors in memory, the largest first, with the line that recorded each: what a variable that is
/// still in scope keeps alive is found here.
///
/// Unstable: for reports; may get another form.
///
/// # Example
/// ```
/// let logits = rtx_tensor::zeros([64, 1000]);
/// rtx_tensor::flush().unwrap();
/// let held = &rtx_tensor::largest_values(1)[0];
/// assert_eq!((held.ty.to_string().as_str(), held.bytes), ("f32 [64, 1000]", 256_000));
/// # drop(logits);
/// ```
pub fn largest_values(n: usize) -> Vec<HeldValue> {
    engine::executor().largest_values(n)
}
/// What the device's driver counts since the process began, by name: how much code was printed, and what was left to
/// the tile VM.
///
/// Unstable: names and numbers follow the drivers.
pub fn device_details() -> Vec<(&'static str, u64)> {
    engine::executor().device_details()
}
/// Starts a new measurement of the peak.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// torch::reset_peak_memory(); // the peak starts from what is alive
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn reset_peak_memory() {
    engine::executor().reset_peak()
}
/// Gives memory that is kept for reuse back to the system.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// torch::empty_cache(); // memory that nothing uses goes back to the system
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn empty_cache() {
    engine::executor().trim()
}
/// What the last plan that was made inside [`crate::autograd::memory_budget`] came to.
///
/// Unstable: for reports; may get another form.
pub fn budget_report() -> Option<BudgetReport> {
    engine::executor().budget_report()
}
/// Runs everything that this thread has recorded.
///
/// # Errors
/// What went wrong while it ran, with the line that recorded the op.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = torch::ones(2) + 1.;
/// torch::flush()?; // everything that waits runs
/// assert!(x.is_ready());
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn flush() -> Result<()> {
    engine::executor().flush()
}
/// The end of a training step: what was recorded is one region. It runs when the next op is recorded or value read,
/// so that gradients dropped until then are never stored. Optimizers call this.
///
/// # Errors
/// What went wrong in an earlier region of which no value tells.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = torch::ones(2) + 1.;
/// torch::end_step()?; // what an optimizer's step does at its end
/// assert_eq!(x.to_vec::<f32>()?, [2., 2.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn end_step() -> Result<()> {
    engine::executor().seal_step()
}
/// Runs `f`, which must find every plan it needs. What other threads compile meanwhile does not count.
///
/// Unstable: for tests and servers that must not compile; may get another form.
///
/// # Errors
/// When this thread compiled a plan meanwhile; the message says for what.
pub fn no_new_plans<R>(f: impl FnOnce() -> R) -> Result<R> {
    engine::executor().no_new_plans(f)
}
