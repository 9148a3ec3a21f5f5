//! One pool of threads for the whole process: static splits, so results never depend on how many there are.
use crate::rounding::with_default_rounding;
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a thread that waits looks without a pause: longer than the gap between two kernels of a plan.
const SPIN: Duration = Duration::from_micros(20);
/// How long an idle worker looks for the next job before it parks: longer than the recording of a small step. After
/// [`SPIN`] it lets every thread that wants its processor run between two looks.
const STAY: Duration = Duration::from_micros(500);
/// More threads than this is a mistake in a setting.
const MOST_THREADS: usize = 1024;

/// 0 is "not set": the default holds.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Threads that a job may use, the caller included: what [`set_threads`] said, else `RTX_THREADS`, else the
/// processors that this process may run on.
pub fn threads() -> usize {
    match THREADS.load(Relaxed) {
        0 => default_threads(),
        n => n,
    }
}

/// Sets how many threads later jobs may use, the caller included; 0 goes back to the default.
pub fn set_threads(n: usize) {
    THREADS.store(n.min(MOST_THREADS), Relaxed)
}

fn default_threads() -> usize {
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        let available = std::thread::available_parallelism().map_or(1, |n| n.get());
        let Ok(asked) = std::env::var("RTX_THREADS") else { return available };
        match asked.parse() {
            Ok(n) if (1..=MOST_THREADS).contains(&n) => n,
            _ => {
                eprintln!("RTX_THREADS: `{asked}` is not a number from 1 to {MOST_THREADS}; using {available}");
                available
            }
        }
    })
}

/// Runs `f(0)`, …, `f(parts - 1)`, each once, and returns when all are done. Each thread takes one run of neighbours;
/// the caller is one of the threads, and takes over the run of a thread that does not come in time. A call from inside a job, or while another thread's job runs, does all parts in
/// the calling thread.
///
/// # Panics
/// When a part panics: with the payload of the first such part, after every part that had begun is over.
pub fn run(parts: usize, f: &(dyn Fn(usize) + Sync)) {
    let width = threads().min(parts);
    if width > 1 && pool().try_run(width, parts, f) {
        return;
    }
    (0..parts).for_each(f);
}

/// Parts of thread `index` of `width`.
fn share(index: usize, width: usize, parts: usize) -> std::ops::Range<usize> {
    parts * index / width..parts * (index + 1) / width
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(Pool::default)
}

/// A job as workers see it. `f` lives as long as the call of [`Pool::try_run`] that made the job.
#[derive(Clone, Copy)]
struct Job {
    f: *const (dyn Fn(usize) + Sync),
    width: usize,
    parts: usize,
}

/// What the caller and the workers share.
#[derive(Default)]
struct Shared {
    job: UnsafeCell<Option<Job>>,
    /// Workers that have not finished the job.
    left: AtomicUsize,
    /// The first panic among them.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}
// SAFETY: `job` is written by the one caller that holds `Pool::busy`, before the offers that let workers read it.
unsafe impl Sync for Shared {}
// SAFETY: the pointer inside is only followed while the caller waits.
unsafe impl Send for Shared {}

#[derive(Default)]
struct Pool {
    busy: AtomicBool,
    shared: Arc<Shared>,
    /// Only touched by the holder of `busy`; a mutex so that this need not be argued.
    workers: Mutex<Vec<Worker>>,
}

struct Worker {
    door: Arc<Door>,
    thread: Thread,
}

/// Where a worker waits for work.
#[derive(Default)]
struct Door {
    /// Is there a share of the job that nobody has taken yet? The worker takes it, or the caller does when it is
    /// done with its own and the worker has not come.
    offered: AtomicBool,
    parked: AtomicBool,
}

impl Door {
    /// Takes the share, if it is there.
    fn take(&self) -> bool {
        self.offered.compare_exchange(true, false, AcqRel, Relaxed).is_ok()
    }
}

/// Ends the caller's hold on the pool, also when a part panics.
struct Busy<'a>(&'a AtomicBool);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release)
    }
}

impl Pool {
    /// Runs a job if no other one is running; says whether it did.
    fn try_run(&self, width: usize, parts: usize, f: &(dyn Fn(usize) + Sync)) -> bool {
        if self.busy.swap(true, Acquire) {
            return false;
        }
        let _busy = Busy(&self.busy);
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let width = width.min(1 + self.grow(&mut workers, width - 1));
        // SAFETY: only the lifetime changes. Workers follow the pointer only until `left` is 0, and this call waits
        // for that before it returns or unwinds.
        let f_static = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(f) };
        // SAFETY: no worker reads the job now: the last one to do so left `left` at 0, and `busy` keeps callers out.
        unsafe { *self.shared.job.get() = Some(Job { f: f_static, width, parts }) };
        self.shared.left.store(width - 1, Relaxed);
        let helpers = &workers[..width - 1];
        helpers.iter().for_each(Worker::offer);
        let own = catch_unwind(AssertUnwindSafe(|| {
            share(0, width, parts).for_each(f);
            // A worker whose processor is busy elsewhere may come late: do its share rather than wait for it.
            helpers.iter().enumerate().filter(|(_, worker)| worker.door.take()).for_each(|(i, _)| {
                let _done = Counted(&self.shared.left);
                share(i + 1, width, parts).for_each(f);
            });
        }));
        self.wait();
        let theirs = self.shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(workers);
        if let Some(payload) = own.err().or(theirs) {
            resume_unwind(payload);
        }
        true
    }

    /// Starts workers until there are `wanted`, or the system refuses; returns how many there are.
    fn grow(&self, workers: &mut Vec<Worker>, wanted: usize) -> usize {
        while workers.len() < wanted {
            let (door, index) = (Arc::new(Door::default()), workers.len() + 1);
            let (theirs, shared) = (door.clone(), self.shared.clone());
            let started =
                std::thread::Builder::new().name(format!("rtx-{index}")).spawn(move || work(index, &theirs, &shared));
            let Ok(handle) = started else { break };
            workers.push(Worker { door, thread: handle.thread().clone() });
        }
        workers.len()
    }

    /// Waits until every worker is done; on a busy machine lets others run.
    fn wait(&self) {
        look(None, || self.shared.left.load(Acquire) == 0);
    }
}

/// Counts a share as done, also when it panics.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Release);
    }
}

impl Worker {
    fn offer(&self) {
        self.door.offered.store(true, SeqCst);
        if self.door.parked.load(SeqCst) {
            self.thread.unpark();
        }
    }
}

/// A worker's life: wait for a share, do it, say so.
fn work(index: usize, door: &Door, shared: &Shared) {
    loop {
        wait_for_offer(door);
        if !door.take() {
            continue;
        }
        let _done = Counted(&shared.left);
        // SAFETY: the offer came after the job was written, and the caller waits for `left` before it goes on.
        let Some(job) = (unsafe { *shared.job.get() }) else { continue };
        // SAFETY: as above: the closure lives until this worker has counted itself out.
        let f = unsafe { &*job.f };
        let run = || with_default_rounding(|| share(index, job.width, job.parts).for_each(f));
        if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
            shared.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }
}

fn wait_for_offer(door: &Door) {
    if look(Some(STAY), || door.offered.load(Acquire)) {
        return;
    }
    door.parked.store(true, SeqCst);
    while !door.offered.load(SeqCst) {
        std::thread::park();
    }
    door.parked.store(false, SeqCst);
}

/// Looks until something is there, or for some time; says whether it is.
fn look(limit: Option<Duration>, is_there: impl Fn() -> bool) -> bool {
    if is_there() {
        return true;
    }
    let start = Instant::now();
    loop {
        for _ in 0..32 {
            std::hint::spin_loop();
            if is_there() {
                return true;
            }
        }
        let waited = start.elapsed();
        if limit.is_some_and(|limit| waited >= limit) {
            return false;
        }
        if waited >= SPIN {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serializes the tests that set the number of threads.
    static SETTING: Mutex<()> = Mutex::new(());

    fn with_threads(n: usize, f: impl FnOnce()) {
        let _guard = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
        set_threads(n);
        f();
        set_threads(0);
    }

    fn count_parts(parts: usize) {
        let seen: Vec<_> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
        run(parts, &|i| {
            seen[i].fetch_add(1, Relaxed);
        });
        assert!(seen.iter().all(|n| n.load(Relaxed) == 1), "{parts} parts on {} threads", threads());
    }

    #[test]
    fn every_part_runs_once() {
        for n in [1, 2, 3, 8] {
            with_threads(n, || [0, 1, 2, 3, 7, 100].into_iter().for_each(count_parts));
        }
    }

    #[test]
    fn nested_calls_run() {
        with_threads(3, || {
            let total = AtomicUsize::new(0);
            run(4, &|_| {
                run(5, &|_| {
                    total.fetch_add(1, Relaxed);
                });
            });
            assert_eq!(total.load(Relaxed), 20);
        });
    }

    #[test]
    fn calls_from_several_threads_run() {
        with_threads(2, || {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..200).for_each(count_parts));
                }
            });
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        with_threads(2, || {
            for bad in [0, 1] {
                let caught = catch_unwind(|| run(2, &|i| assert!(i != bad, "part {bad}")));
                let message = caught.expect_err("the part panics");
                assert_eq!(message.downcast_ref::<String>().map(String::as_str), Some(&*format!("part {bad}")));
                count_parts(2);
            }
        });
    }

    #[test]
    fn parked_workers_wake() {
        with_threads(2, || {
            for _ in 0..5 {
                std::thread::sleep(Duration::from_millis(2));
                count_parts(2);
            }
        });
    }
}
