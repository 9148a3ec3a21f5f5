//! What an executor has done so far, readable from code.
use std::fmt;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Why a region ran.
///
/// Unstable: what is counted follows the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushReason {
    /// A value was read.
    Read,
    /// A step's end.
    Step,
    /// A call of `flush`.
    Flush,
    /// Another thread took part in a value.
    Thread,
    /// Too many nodes or bytes since the last semantic point.
    Limit,
    /// Every op runs at once.
    Eager,
    /// A test asked for flushes at random points.
    Random,
}

impl FlushReason {
    /// Every reason.
    pub const ALL: [FlushReason; 7] = {
        use FlushReason::*;
        [Read, Step, Flush, Thread, Limit, Eager, Random]
    };
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            FlushReason::Read => "read",
            FlushReason::Step => "step",
            FlushReason::Flush => "flush",
            FlushReason::Thread => "thread",
            FlushReason::Limit => "limit",
            FlushReason::Eager => "eager",
            FlushReason::Random => "random",
        }
    }
}

macro_rules! counters { ($($(#[$meta:meta])* $name:ident,)*) => {
    /// A snapshot. `later - earlier` is what happened in between; the gauges (`bytes_*`) keep the later value.
    ///
    /// Unstable: what is counted follows the runtime.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Counters {
        $($(#[$meta])* pub $name: u64,)*
        /// Regions flushed, by [`FlushReason`] in the order of [`FlushReason::ALL`].
        pub flushes: [u64; 7],
        /// Successful allocations of the device.
        pub device_allocations: u64,
        /// Gauge: bytes of values, arena and constants in use.
        pub bytes_live: u64,
        /// Gauge: the most that `bytes_live` has been.
        pub bytes_peak: u64,
        /// Gauge: freed bytes kept for reuse.
        pub bytes_cached: u64,
        /// Gauge: bytes that the plan that ran last takes: its inputs, its results and what lies between them.
        pub plan_peak_bytes: u64,
    }
    /// The running totals behind [`Counters`].
    #[derive(Default)]
    pub(crate) struct Totals { $(pub(crate) $name: AtomicU64,)* flushes: [AtomicU64; 7], pub(crate) plan_peak: AtomicU64 }

    impl Totals {
        /// The totals; gauges are left at 0 for their owner to fill in.
        pub(crate) fn snapshot(&self) -> Counters {
            let mut flushes = [0; 7];
            flushes.iter_mut().zip(&self.flushes).for_each(|(to, from)| *to = from.load(Relaxed));
            let plan_peak_bytes = self.plan_peak.load(Relaxed);
            Counters { $($name: self.$name.load(Relaxed),)* flushes, plan_peak_bytes, ..Counters::default() }
        }
    }
    impl Sub for Counters {
        type Output = Counters;
        fn sub(mut self, earlier: Counters) -> Counters {
            $(self.$name -= earlier.$name;)*
            self.flushes.iter_mut().zip(earlier.flushes).for_each(|(a, b)| *a -= b);
            self.device_allocations -= earlier.device_allocations;
            self
        }
    }
    impl fmt::Display for Counters {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            $(writeln!(f, "{} {}", stringify!($name), self.$name)?;)*
            for reason in FlushReason::ALL {
                writeln!(f, "flushes.{} {}", reason.name(), self.flushes_for(reason))?;
            }
            writeln!(f, "device_allocations {}", self.device_allocations)?;
            writeln!(f, "bytes_live {}", self.bytes_live)?;
            writeln!(f, "bytes_peak {}", self.bytes_peak)?;
            writeln!(f, "bytes_cached {}", self.bytes_cached)?;
            writeln!(f, "plan_peak_bytes {}", self.plan_peak_bytes)
        }
    }
} }

counters! {
    /// Nodes recorded.
    nodes_recorded,
    /// Nodes in regions that ran.
    nodes_run,
    /// Regions that ran because somebody held a result.
    regions_run,
    /// Regions that nobody wanted anything of.
    regions_dropped,
    /// Plans compiled.
    plans_compiled,
    /// Of these, plans for symbolic sizes.
    symbolic_plans,
    /// Symbolic plans that the compiler refused; sizes stayed static.
    symbolic_refusals,
    /// Runs of a plan that was there already.
    replays,
    /// Plans dropped to keep the cache in bounds.
    plans_evicted,
    /// Kernels loaded by the device.
    kernels_loaded,
    /// Launches.
    launches,
    /// Kernel runs: the instances of all launches.
    kernel_runs,
    /// Inputs whose memory was handed over to a run.
    donations,
    /// Replaced values that somebody still held, so that the update could not be in place.
    copies,
    /// Regions that failed.
    failures,
}

impl Counters {
    /// Regions flushed for one reason.
    pub fn flushes_for(&self, reason: FlushReason) -> u64 {
        self.flushes[reason as usize]
    }
}

impl Totals {
    /// One flush for a reason.
    pub(crate) fn flushed(&self, reason: FlushReason) {
        self.flushes[reason as usize].fetch_add(1, Relaxed);
    }
}

/// Adds to a total.
pub(crate) fn add(total: &AtomicU64, n: usize) {
    total.fetch_add(n as u64, Relaxed);
}
