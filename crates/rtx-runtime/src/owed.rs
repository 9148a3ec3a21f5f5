//! Regions queued on a device whose kernels report later. Their values are ready at once; what their kernels report is
//! asked for before a value is read, when the next region runs, and at a step's end (contract R5).
use crate::counters::add;
use crate::prepared::{Prepared, reported};
use crate::region::Body;
use crate::runner::name_step;
use crate::value::{Inner, State};
use crate::{Executor, Value, lock};
use rtx_core::Error;
use rtx_hal::{DeviceError, Receipt};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

/// Regions that may be owed before the oldest is waited for.
const MOST_OWED: usize = 16;

/// Regions whose reports have not been seen, the oldest first.
#[derive(Default)]
pub(crate) struct Owed(Mutex<VecDeque<Debt>>);

/// A region that was queued.
pub(crate) struct Debt {
    pub(crate) receipt: Receipt,
    /// For the names of what failed; without its inputs.
    pub(crate) body: Box<Body>,
    pub(crate) prepared: Arc<Prepared>,
    /// What it made.
    pub(crate) values: Vec<Weak<Inner>>,
}

impl Debt {
    /// The error of its line and module.
    fn name(&self, e: &DeviceError) -> Error {
        let plan = &self.prepared.plan;
        name_step(&self.body, plan, e.step as usize, &reported(plan, e))
    }

    fn poison(&self, error: &Error) {
        for value in self.values.iter().filter_map(Weak::upgrade) {
            Value(value).set_state(State::Poisoned(error.clone()));
        }
    }
}

impl Executor {
    /// Notes a region that was queued.
    pub(crate) fn owe(&self, debt: Debt) {
        lock(&self.owed().0).push_back(debt);
    }

    /// Sees what has been reported, all of it where the caller waits. What was made by the region that failed and by
    /// those after it is poisoned; the failure is returned once.
    pub(crate) fn look_back(&self, wait: bool) -> Option<Error> {
        let mut owed = lock(&self.owed().0);
        while let Some(first) = owed.front() {
            let wait = wait || owed.len() > MOST_OWED;
            let error = match self.device().redeem(first.receipt, wait) {
                Ok(None) => return None,
                Ok(Some(None)) => {
                    if let Some(debt) = owed.pop_front() {
                        self.keep_body(debt.body);
                    }
                    continue;
                }
                Ok(Some(Some(report))) => first.name(&report),
                Err(lost) => lost,
            };
            add(&self.totals().failures, 1);
            owed.drain(..).for_each(|debt| debt.poison(&error));
            return Some(error);
        }
        None
    }

    /// As [`Executor::look_back`], for a caller who cannot tell: the failure is kept for the next step's end.
    pub(crate) fn look_back_unheard(&self, wait: bool) {
        if let Some(error) = self.look_back(wait) {
            self.keep_failure(error)
        }
    }
}
