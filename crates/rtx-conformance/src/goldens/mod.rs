//! PyTorch's answers, from data beside this crate: training runs, operators, modules, optimizers.
pub mod archive;
pub mod call_tree;
pub mod closeness;
pub mod cnn;
pub mod gpt;
pub mod lstm;
pub mod modules;
pub mod opinfo;
pub mod optim;
pub mod trajectory;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The copies of PyTorch's answers that this repository carries.
pub fn default_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens")
}

/// `f` of each item, on every core; the results in the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    f: impl Fn(&T) -> rtx_core::Result<R> + Sync,
) -> rtx_core::Result<Vec<R>> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get());
    let work = || loop {
        let i = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(i) else { return };
        let result = f(item);
        found.lock().unwrap_or_else(PoisonError::into_inner).insert(i, result);
    };
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}
