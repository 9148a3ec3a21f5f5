//! Which values are in memory because somebody holds them: asked for when memory is short or a run is looked at.
use crate::value::{Inner, State, Value};
use crate::{Executor, lock};
use rtx_core::Location;
use rtx_ir::Type;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};

/// The list is swept when it has doubled, so that a steady loop pays a push for each value and no more.
const FIRST_SWEEP: usize = 1024;

/// A value in memory.
///
/// Unstable: for reports; may get another form.
#[derive(Clone, Debug)]
pub struct HeldValue {
    /// Element type and shape.
    pub ty: Type,
    /// Bytes of its elements.
    pub bytes: usize,
    /// The line that recorded it, if an op made it.
    pub location: Option<Location>,
}

/// Values that have come to memory and may have left it.
#[derive(Default)]
pub(crate) struct Register {
    values: Mutex<(Vec<Weak<Inner>>, usize)>,
}

impl Register {
    /// Values are in memory from here on.
    pub(crate) fn note<'a>(&self, new: impl IntoIterator<Item = &'a Arc<Inner>>) {
        let (values, sweep_at) = &mut *lock(&self.values);
        if values.len() >= (*sweep_at).max(FIRST_SWEEP) {
            values.retain(|v| v.strong_count() > 0);
            *sweep_at = 2 * values.len();
        }
        values.extend(new.into_iter().map(Arc::downgrade));
    }

    fn held(&self) -> Vec<Value> {
        lock(&self.values).0.iter().filter_map(Weak::upgrade).map(Value).collect()
    }
}

impl Executor {
    /// What the device's driver counts, by name.
    pub fn device_details(&self) -> Vec<(&'static str, u64)> {
        self.device().details()
    }
    /// The `n` largest values in memory, the largest first. What several handles share is listed once.
    pub fn largest_values(&self, n: usize) -> Vec<HeldValue> {
        let mut seen = HashSet::new();
        let of = |value: &Value| {
            let State::Ready(storage) = value.state() else { return None };
            let first = seen.insert(Arc::as_ptr(&storage.memory).addr());
            first.then(|| HeldValue { ty: value.ty().clone(), bytes: value.ty().bytes(), location: value.location() })
        };
        let mut found: Vec<HeldValue> = self.register().held().iter().filter_map(of).collect();
        found.sort_by_key(|v| std::cmp::Reverse(v.bytes));
        found.truncate(n);
        found
    }
}
