//! Regions of recorded ops, the plan cache, memory, replay: what runs a program without knowing how it is compiled.
//!
//! Ops are appended by [`record`] to the calling thread's pending region, which is a graph of `rtx-ir`. A region
//! runs when one of its values is read, at a step's end, at [`Executor::flush`], or past a limit (contract R3). Its
//! key finds a plan; a hit replays it, a miss asks the compiler (contract R2).
//!
//! Absent here: compilers (one is given as `dyn Compile`), concrete drivers (one is given as `dyn Device`), ops by
//! name.

mod budget;
mod cache;
mod counters;
mod executor;
mod facts;
mod frame;
mod held;
mod key;
mod launch;
mod memory;
mod miss;
mod mode;
mod owed;
mod prepared;
mod record;
mod region;
mod run;
mod runner;
mod scope;
mod symbolic;
mod value;

pub use budget::BudgetReport;
pub use counters::{Counters, FlushReason};
pub use executor::{Executor, Limits};
pub use frame::{Frame, Program};
pub use held::HeldValue;
pub use mode::{set_eager, set_memory_budget, set_observer, set_random_flush};
pub use record::{Recorder, record};
pub use scope::{Scope, path as scope_path, scope};
pub use value::Value;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. A panic elsewhere (in a user's closure while recording, say) leaves our data whole, so it is no obstacle.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
