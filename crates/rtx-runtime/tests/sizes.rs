//! Laws of sizes: the third size on an axis turns it symbolic, with the same bits (contract S1).
mod mock;
use mock::{floats, mock};
use std::sync::atomic::Ordering::SeqCst;

fn program(m: &mock::Mock, n: usize) -> Vec<f32> {
    let x: Vec<f32> = (0..2 * n).map(|i| i as f32).collect();
    let x = m.tensor(&[2, n], &x);
    let y = m.transpose(&m.scale(&x, 2.0));
    floats(&m.plus(&y, 1.0))
}

fn expected(n: usize) -> Vec<f32> {
    (0..2 * n).map(|i| ((i % 2) * n + i / 2) as f32 * 2.0 + 1.0).collect()
}

#[test]
fn the_third_size_makes_one_plan_for_all() {
    let m = mock();
    for n in [5, 7, 6] {
        assert_eq!(program(&m, n), expected(n));
    }
    let c = m.executor.counters();
    assert_eq!((c.plans_compiled, c.symbolic_plans), (3, 1));
    m.executor
        .no_new_plans(|| [2, 3, 4, 5, 6, 7, 8].iter().for_each(|&n| assert_eq!(program(&m, n), expected(n))))
        .expect("sizes up to the next power of two");
    assert_eq!(program(&m, 9), expected(9), "past it there is a new one");
    assert_eq!(program(&m, 1), expected(1), "1 is a size of its own");
    assert_eq!(m.executor.counters().symbolic_plans, 2);
    m.executor.no_new_plans(|| assert_eq!(program(&m, 16), expected(16))).expect("up to 16");
}

#[test]
fn a_compiler_that_refuses_symbols_is_asked_once() {
    let m = mock();
    m.compiler.static_only.store(true, SeqCst);
    for n in [5, 7, 6, 8, 9] {
        assert_eq!(program(&m, n), expected(n));
    }
    let c = m.executor.counters();
    assert_eq!((c.plans_compiled, c.symbolic_plans, c.symbolic_refusals), (5, 0, 1));
}

#[test]
fn plans_are_dropped_when_there_are_too_many() {
    let m = mock::mock_with(rtx_runtime::Limits { plan_bytes: 4000, eager: false, ..Default::default() });
    m.compiler.static_only.store(true, SeqCst);
    for n in 2..30 {
        assert_eq!(program(&m, n), expected(n));
    }
    assert!(m.executor.counters().plans_evicted > 10);
    m.executor.no_new_plans(|| program(&m, 29)).expect("the newest stays");
}
