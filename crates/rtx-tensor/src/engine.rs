//! The one place that touches the runtime: which device ops are recorded for, and recording into this thread's region.
use rtx_core::{Error, Kind, Location, Result};
use rtx_runtime::Executor;
pub(crate) use rtx_runtime::{Recorder, Value};
use std::sync::{PoisonError, RwLock};

/// Where tensors are made when nothing says otherwise; `None` is the processor.
static DEFAULT: RwLock<Option<Executor>> = RwLock::new(None);

/// What runs ops where tensors are made when nothing says otherwise.
pub(crate) fn executor() -> Executor {
    DEFAULT.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_else(|| rtx_device::cpu().clone())
}

/// From here on tensors are made there.
pub(crate) fn set_default(executor: Executor) {
    *DEFAULT.write().unwrap_or_else(PoisonError::into_inner) = Some(executor);
}

/// Appends to this thread's region on the usual device, all under one line of the user's program.
pub(crate) fn record<T>(at: Location, f: impl FnOnce(&mut Recorder<'_>) -> Result<T>) -> Result<T> {
    rtx_runtime::record(&executor(), at, f)
}

/// Appends to this thread's region on the device where these values are. Host numbers are everywhere.
///
/// # Errors
/// [`Kind::Device`] where they are on several.
pub(crate) fn record_where<'a, T>(
    values: impl IntoIterator<Item = &'a Value>,
    at: Location,
    f: impl FnOnce(&mut Recorder<'_>) -> Result<T>,
) -> Result<T> {
    let mut there: Option<&Executor> = None;
    for value in values.into_iter().filter(|v| !v.is_number()) {
        match there {
            Some(e) if e != value.executor() => {
                let what = format!("tensors are on {} and on {}", e.name(), value.executor().name());
                return Err(Error::new(Kind::Device, what).hint("move one of them: x.to(&device)"));
            }
            _ => there = Some(value.executor()),
        }
    }
    match there {
        Some(e) => rtx_runtime::record(e, at, f),
        None => record(at, f),
    }
}
