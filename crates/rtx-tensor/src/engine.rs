//! The one place that touches the runtime: recording into this thread's region on the processor.
use rtx_core::{Location, Result};
pub(crate) use rtx_runtime::{Recorder, Value};

/// The processor's executor.
pub(crate) fn cpu() -> &'static rtx_runtime::Executor {
    rtx_device::cpu()
}

/// Appends to this thread's region, all under one line of the user's program.
pub(crate) fn record<T>(at: Location, f: impl FnOnce(&mut Recorder<'_>) -> Result<T>) -> Result<T> {
    rtx_runtime::record(cpu(), at, f)
}
