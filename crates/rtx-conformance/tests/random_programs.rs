//! Random user programs give the same bits however they are run (contracts N and the proof at their end).
use rtx_conformance::coverage::WITHOUT_KERNEL;
use rtx_conformance::programs::{Program, count_primitives, primitive_counts, usable};
use rtx_cpu::{Isa, Jit, jit_counters, pool, set_isa, set_jit};
use rtx_runtime::{set_eager, set_memory_budget, set_random_flush};
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

/// Programs in one run of the test; `RTX_PROGRAMS=100000` runs more.
fn count() -> u64 {
    std::env::var("RTX_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(FULL)
}
/// The seed of the first; `RTX_SEED=700` starts there.
fn first() -> u64 {
    std::env::var("RTX_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0)
}
/// As many make every primitive run [`EACH`] times.
const FULL: u64 = 10_000;
const CALLS: u32 = 7;
/// How often every primitive runs at least.
const EACH: u64 = 100;

/// Programs that are run in one way before the next way is set.
const BATCH: u64 = 50;
/// Threads that run programs, one each.
const RUNNERS: u64 = 2;
/// A program in so many is run in little memory too, where many plans are made for each region.
const TIGHT: u64 = 50;
/// Less than most regions of a program take.
const BUDGET: u64 = 8 << 10;

/// A way of running a program: what is set for the process, and for the thread.
struct Way {
    name: &'static str,
    process: fn(),
    thread: fn(u64),
}

/// Deferred, two threads, the best instruction set, the tile VM.
const DEFERRED: Way = Way { name: "deferred", process: || {}, thread: |_| {} };
/// Every program is run in each of these.
const WAYS: [Way; 7] = [
    Way { name: "eager", thread: |_| set_eager(Some(true)), ..DEFERRED },
    Way { name: "flushes at random points", thread: |seed| set_random_flush(Some(seed)), ..DEFERRED },
    Way { name: "printed code", process: || set_jit(Some(Jit::Always)), ..DEFERRED },
    Way {
        name: "code printed for AVX2",
        process: || {
            set_isa(Some(Isa::Avx2));
            set_jit(Some(Jit::Always));
        },
        ..DEFERRED
    },
    Way { name: "one thread", process: || pool::set_threads(1), ..DEFERRED },
    Way { name: "AVX2", process: || set_isa(Some(Isa::Avx2)), ..DEFERRED },
    Way { name: "scalar", process: || set_isa(Some(Isa::Scalar)), ..DEFERRED },
];
const IN_LITTLE_MEMORY: Way =
    Way { name: "a memory budget", thread: |_| _ = set_memory_budget(Some(BUDGET)), ..DEFERRED };

impl Way {
    fn set_process(&self) {
        pool::set_threads(2);
        set_isa(None);
        set_jit(Some(Jit::Never));
        (self.process)();
    }

    fn set_thread(&self, seed: u64) {
        set_eager(Some(false));
        set_random_flush(None);
        set_memory_budget(None);
        (self.thread)(seed);
    }

    /// What a program gives; a panic or an error as a text.
    fn outcome(&self, program: &Program) -> Outcome {
        self.set_thread(program.seed);
        let done = catch_unwind(AssertUnwindSafe(|| program.run()));
        DEFERRED.set_thread(program.seed);
        match done {
            Ok(Ok(bytes)) => Ok(bytes),
            Ok(Err(e)) => Err(e.to_string()),
            Err(panic) => Err(said(&*panic)),
        }
    }

    /// What programs give, run by several threads.
    fn outcomes(&self, seeds: Range<u64>) -> Vec<Outcome> {
        self.set_process();
        let part = |first: u64| {
            count_primitives(self.name == DEFERRED.name);
            let seeds = (seeds.start + first..seeds.end).step_by(RUNNERS as usize);
            seeds.map(|seed| self.outcome(&Program::new(seed, CALLS))).collect::<Vec<_>>()
        };
        let parts: Vec<Vec<Outcome>> = thread::scope(|s| {
            let runners: Vec<_> = (0..RUNNERS).map(|i| s.spawn(move || part(i))).collect();
            runners.into_iter().map(|r| r.join().unwrap_or_else(|p| resume_unwind(p))).collect()
        });
        let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
        let in_order = (0..seeds.end - seeds.start).filter_map(|i| parts[(i % RUNNERS) as usize].next());
        in_order.collect()
    }
}

type Outcome = Result<Vec<Vec<u8>>, String>;

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic").to_owned()
}

/// What is wrong with a program in one way of running it.
fn fault(program: &Program, way: &Way) -> Option<String> {
    DEFERRED.set_process();
    let want = DEFERRED.outcome(program);
    way.set_process();
    let got = way.outcome(program);
    DEFERRED.set_process();
    difference(&got, &want)
}

fn difference(got: &Outcome, want: &Outcome) -> Option<String> {
    match (want, got) {
        (Err(e), _) => Some(format!("deferred: {e}")),
        (_, Err(e)) => Some(e.clone()),
        (Ok(a), Ok(b)) if a.len() != b.len() => Some(format!("{} results, deferred {}", b.len(), a.len())),
        (Ok(a), Ok(b)) => {
            let i = a.iter().zip(b).position(|(a, b)| a != b)?;
            let (a, b) = (&a[i], &b[i]);
            let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or_default();
            let around = |v: &[u8]| format!("{:02x?}", &v[at / 8 * 8..v.len().min(at / 8 * 8 + 8)]);
            Some(format!("result {i}, byte {at} of {}: {}, deferred {}", a.len(), around(b), around(a)))
        }
    }
}

/// The smallest program that still fails in this way, and what it does.
fn report(seed: u64, way: &Way, got: &Outcome, want: &Outcome) -> String {
    let program = Program::new(seed, CALLS);
    let Some(what) = fault(&program, way) else {
        let what = difference(got, want).unwrap_or_default();
        return format!("program {seed}, {}: {what}; alone it does not fail again\n{}", way.name, program.describe());
    };
    let small = program.shrink(|p| fault(p, way).is_some());
    format!(
        "program {seed}, {}: {what}\nsmallest: {:?}, {}\n{}",
        way.name,
        small.calls,
        fault(&small, way).unwrap_or_default(),
        small.describe()
    )
}

#[test]
fn every_way_of_running_gives_the_same_bits() {
    usable();
    for start in (first()..first() + count()).step_by(BATCH as usize) {
        let seeds = start..(start + BATCH).min(first() + count());
        let want = DEFERRED.outcomes(seeds.clone());
        let hold = |way: &Way, seeds: Range<u64>, want: &[Outcome]| {
            for ((seed, got), want) in seeds.clone().zip(way.outcomes(seeds)).zip(want) {
                assert!(want.is_ok() && got == *want, "{}", report(seed, way, &got, want));
            }
        };
        WAYS.iter().for_each(|way| hold(way, seeds.clone(), &want));
        if start.is_multiple_of(TIGHT) {
            hold(&IN_LITTLE_MEMORY, start..start + 1, &want[..1]);
        }
    }
    DEFERRED.set_process();
    let (printed, avx2) = (jit_counters().printed, jit_counters().loops_avx2);
    assert!(Isa::detect() < Isa::Avx2 || avx2 > count() / 8, "only {avx2} loops were printed for AVX2");
    assert!(Isa::detect() < Isa::Avx512 || printed > count(), "only {printed} instructions were printed");
    let counts = primitive_counts();
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    let drawn: Vec<(u64, &str)> = usable().primitives.iter().map(|u| (of(u.def.name()), u.def.name())).collect();
    println!("{} programs; how often each primitive ran:", count());
    drawn.iter().for_each(|(n, name)| println!("{n:>8} {name}"));
    let rare: Vec<_> = drawn.iter().filter(|(n, _)| *n < EACH).collect();
    assert!(count() < FULL || rare.is_empty(), "primitives that ran less than {EACH} times: {rare:?}");
}

#[test]
fn every_primitive_with_a_kernel_is_drawn() {
    let drawn: Vec<&str> = usable().primitives.iter().map(|u| u.def.name()).collect();
    let missing: Vec<&str> = rtx_ir::prims::ALL.iter().map(|d| d.name()).filter(|name| !drawn.contains(name)).collect();
    assert_eq!(missing, WITHOUT_KERNEL, "primitives of which no sample runs");
}
