//! Random user programs give the same bits however they are run (contracts N and the proof at their end).
use rtx_conformance::programs::run;
use rtx_cpu::{Isa, Jit, jit_counters, pool, set_isa, set_jit};
use rtx_runtime::{set_eager, set_random_flush};

/// Programs in one run of the test; `RTX_PROGRAMS=100000` runs more.
fn count() -> u64 {
    std::env::var("RTX_PROGRAMS").ok().and_then(|n| n.parse().ok()).unwrap_or(3000)
}
const CALLS: usize = 14;

/// One way of running a program.
struct Way {
    name: &'static str,
    set: fn(u64),
}

const WAYS: [Way; 6] = [
    Way { name: "printed code", set: |_| set_jit(Some(Jit::Always)) },
    Way { name: "eager", set: |_| set_eager(Some(true)) },
    Way { name: "flushes at random points", set: |seed| set_random_flush(Some(seed)) },
    Way { name: "one thread", set: |_| pool::set_threads(1) },
    Way { name: "AVX2", set: |_| set_isa(Some(Isa::Avx2)) },
    Way { name: "scalar", set: |_| set_isa(Some(Isa::Scalar)) },
];

/// Deferred, two threads, the best instruction set, the tile VM.
fn plain() {
    set_eager(Some(false));
    set_random_flush(None);
    pool::set_threads(2);
    set_isa(None);
    set_jit(Some(Jit::Never));
}

#[test]
fn every_way_of_running_gives_the_same_bits() {
    for seed in 0..count() {
        plain();
        let want = run(seed, CALLS).unwrap_or_else(|e| panic!("program {seed}: {e}"));
        for way in &WAYS {
            plain();
            (way.set)(seed);
            let got = run(seed, CALLS).unwrap_or_else(|e| panic!("program {seed}, {}: {e}", way.name));
            assert_eq!(got.len(), want.len());
            let differs = got.iter().zip(&want).position(|(a, b)| !same(a, b));
            assert_eq!(differs, None, "program {seed}: {} differs from deferred in result {differs:?}", way.name);
        }
    }
    plain();
    let printed = jit_counters().printed;
    assert!(Isa::detect() < Isa::Avx512 || printed > count(), "only {printed} instructions were printed");
}

/// Equal bytes. NaN payloads are outside the contract, so all NaNs of a float are equal; results are f32 or f64 where
/// they can hold one, told apart by what both sides agree on.
fn same(a: &[u8], b: &[u8]) -> bool {
    if a == b {
        return true;
    }
    let words = |v: &[u8], n: usize| v.chunks(n).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let nan32 = |w: &[u8]| w.len() == 4 && f32::from_le_bytes([w[0], w[1], w[2], w[3]]).is_nan();
    let nan64 =
        |w: &[u8]| w.len() == 8 && f64::from_le_bytes([w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]]).is_nan();
    let equal = |n: usize, nan: &dyn Fn(&[u8]) -> bool| {
        a.len() == b.len()
            && a.len().is_multiple_of(n)
            && words(a, n).iter().zip(&words(b, n)).all(|(x, y)| x == y || (nan(x) && nan(y)))
    };
    equal(4, &nan32) || equal(8, &nan64)
}
