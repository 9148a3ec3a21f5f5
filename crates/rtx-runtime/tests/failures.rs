//! Laws of failure: what goes wrong poisons results, leaves state as it was, and is never swallowed (contract R5, R6).
mod mock;
use mock::{floats, mock};
use rtx_core::{Kind, Location};
use rtx_runtime::Value;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn an_index_out_of_range_names_op_line_and_index_at_every_read() {
    let m = mock();
    let (table, at) = (m.vector(&[1.0, 2.0, 3.0]), m.indices(&[0, 7, -1]));
    let line = Location::caller().line() + 1;
    let y = m.gather(&table, &at);
    let z = m.add(&y, &y);
    let e = z.read().expect_err("out of range");
    assert_eq!((e.kind(), e.message()), (Kind::Index, "gather: index 7 is outside 0..3"));
    assert_eq!(e.recorded().map(Location::line), Some(line));
    for again in [y.read(), z.read(), m.add(&y, &table).read()] {
        assert_eq!(again.expect_err("poisoned").to_string(), e.to_string());
    }
    assert_eq!(floats(&m.add(&table, &table)), [2.0, 4.0, 6.0], "the next region is none the worse");
    assert_eq!(floats(&m.gather(&table, &m.indices(&[2, 1, 0]))), [3.0, 2.0, 1.0]);
}

#[test]
fn an_error_found_later_says_where_in_the_model() {
    let m = mock();
    let (table, at) = (m.vector(&[1.0, 2.0]), m.indices(&[5]));
    let y = {
        let _gpt = rtx_runtime::scope("gpt");
        let _block = rtx_runtime::scope("blocks.3");
        m.gather(&table, &at)
    };
    let z = m.gather(&y, &m.indices(&[0]));
    let e = z.read().expect_err("out of range").to_string();
    assert!(e.ends_with("in: gpt.blocks.3"), "{e}");
}

#[test]
fn poison_reaches_what_depends_on_it_and_nothing_else() {
    let m = mock();
    let (table, at) = (m.vector(&[1.0, 2.0]), m.indices(&[5, 0]));
    let bad = m.gather(&table, &at);
    bad.read().expect_err("out of range");
    let (worse, good) = (m.mul(&bad, &table), m.mul(&table, &table));
    assert_eq!(floats(&good), [1.0, 4.0]);
    assert_eq!(worse.read().expect_err("poisoned").kind(), Kind::Index);
}

/// Two parameters updated, a loss: the results.
fn step(m: &mock::Mock, params: &mut [Value; 2], x: &Value) -> Value {
    let loss = m.mul(&m.add(&params[0], &params[1]), x);
    for p in params.iter_mut() {
        *p = m.record(|r| {
            let (old, loss) = (r.import(p), r.import(&loss));
            let new = r.builder().add(old, loss).expect("adds");
            r.replaces(new, old);
            r.export(new)
        });
    }
    loss
}

#[test]
fn a_failed_allocation_at_every_point_leaves_parameters_as_they_were() {
    let mut failures = 0;
    for k in 1..20 {
        let m = mock();
        let x = m.vector(&[1.0; 32]);
        let mut params = [m.vector(&[2.0; 32]), m.vector(&[3.0; 32])];
        m.device.fail_in.store(k, SeqCst);
        let loss = step(&m, &mut params, &x);
        m.executor.seal_step().expect("closes");
        let read = loss.read();
        m.device.fail_in.store(0, SeqCst);
        if read.is_ok() {
            assert_eq!((floats(&params[0]), floats(&params[1])), (vec![7.0; 32], vec![8.0; 32]), "k = {k}");
            continue;
        }
        failures += 1;
        let e = read.expect_err("no memory");
        assert_eq!((e.kind(), loss.read().expect_err("the same").message()), (Kind::Memory, e.message()));
        assert_eq!((floats(&params[0]), floats(&params[1])), (vec![2.0; 32], vec![3.0; 32]), "k = {k}");
        let loss = step(&m, &mut params, &x);
        assert_eq!((floats(&loss), floats(&params[1])), (vec![5.0; 32], vec![8.0; 32]), "the next step runs");
    }
    assert!(failures >= 2, "the arena and the loss are allocated");
}

#[test]
fn state_born_in_a_step_that_fails_is_as_it_was_born() {
    let m = mock();
    let (w, x) = (m.vector(&[2.0; 32]), m.vector(&[1.0; 32]));
    let update = |old: &Value, by: &Value| {
        m.record(|r| {
            let (old, by) = (r.import(old), r.import(by));
            let new = r.builder().add(old, by).expect("adds");
            r.replaces(new, old);
            r.export(new)
        })
    };
    let mut moment = update(&m.plus(&x, 9.0), &w);
    moment = update(&moment, &w);
    let w = update(&w, &moment);
    m.executor.seal_step().expect("closes");
    m.device.exhausted.store(true, SeqCst);
    assert_eq!(w.read().expect_err("no memory").kind(), Kind::Memory);
    m.device.exhausted.store(false, SeqCst);
    assert_eq!((floats(&w), floats(&moment)), (vec![2.0; 32], vec![10.0; 32]));
    m.executor.seal_step().expect("told once");
}

#[test]
fn what_a_poisoned_update_leaves_in_place_is_not_overwritten() {
    let m = mock();
    let w = m.plus(&m.vector(&[2.0; 32]), 0.0);
    let bad = m.gather(&m.vector(&[1.0; 32]), &m.indices(&[99; 32]));
    w.wait().expect_err("both are in one region");
    let w = m.plus(&m.vector(&[2.0; 32]), 0.0);
    w.wait().expect("runs");
    let (new, other) = m.record(|r| {
        let (w, bad) = (r.import(&w), r.import(&bad));
        let new = r.builder().add(w, bad).expect("adds");
        let other = r.builder().add(w, 5.0).expect("adds");
        r.replaces(new, w);
        (r.export(new), r.export(other))
    });
    drop(w);
    assert_eq!((floats(&other), floats(&new)), (vec![7.0; 32], vec![2.0; 32]));
    assert_eq!(m.executor.seal_step().expect_err("the update was poisoned").kind(), Kind::Index);
}

#[test]
fn a_failure_that_no_value_tells_of_is_told_at_the_next_step() {
    let m = mock();
    let mut params = [m.vector(&[2.0; 32]), m.vector(&[3.0; 32])];
    let x = m.vector(&[1.0; 32]);
    drop(step(&m, &mut params, &x));
    m.executor.seal_step().expect("closes");
    m.device.exhausted.store(true, SeqCst);
    let y = m.add(&params[0], &params[0]);
    m.device.exhausted.store(false, SeqCst);
    assert_eq!(m.executor.seal_step().expect_err("the step failed").kind(), Kind::Memory);
    assert_eq!(floats(&y), [4.0; 32], "the parameter is as it was");
    m.executor.flush().expect("told once");
}

#[test]
fn freed_memory_is_given_back_before_an_allocation_fails() {
    let m = mock();
    drop(m.vector(&[0.0; 1000]));
    m.device.fail_in.store(1, SeqCst);
    assert_eq!(floats(&m.vector(&[1.0])), [1.0]);
    assert_eq!(m.executor.counters().bytes_cached, 64);
}

#[test]
fn a_compiler_that_refuses_or_panics_leaves_an_error_and_no_lock() {
    let m = mock();
    let x = m.vector(&[1.0]);
    let y = m.record(|r| {
        let x = r.import(&x);
        let out = r.builder().sub(x, x).expect("subtracts");
        r.export(out)
    });
    let e = y.read().expect_err("not built");
    assert_eq!((e.kind(), e.message()), (Kind::Unsupported, "mock: sub"));
    m.compiler.panics.store(true, SeqCst);
    let z = m.add(&x, &x);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| z.read()));
    assert!(caught.is_err());
    assert_eq!(z.read().expect_err("poisoned").kind(), Kind::Internal);
    m.compiler.panics.store(false, SeqCst);
    assert_eq!(floats(&m.add(&x, &x)), [2.0]);
}

#[test]
fn a_mistake_within_a_record_call_leaves_the_region_usable() {
    let m = mock();
    let (x, y) = (m.vector(&[1.0]), m.vector(&[1.0, 2.0, 3.0]));
    let z = m.add(&x, &x);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| m.mul(&y, &m.vector(&[1.0, 2.0]))));
    assert!(caught.is_err());
    assert_eq!(floats(&z), [2.0]);
    assert_eq!(floats(&m.add(&z, &x)), [3.0]);
}

#[test]
fn what_kernels_report_later_is_told_when_a_value_is_read() {
    let m = mock();
    m.device.late.store(true, SeqCst);
    m.device.busy.store(true, SeqCst);
    let (table, at) = (m.vector(&[1.0, 2.0, 3.0]), m.indices(&[0, 7, -1]));
    let line = Location::caller().line() + 1;
    let y = m.gather(&table, &at);
    m.executor.flush().expect("nobody knows yet");
    let z = m.add(&y, &y);
    let e = z.read().expect_err("out of range");
    assert_eq!((e.kind(), e.message()), (Kind::Index, "gather: index 7 is outside 0..3"));
    assert_eq!(e.recorded().map(Location::line), Some(line));
    for again in [y.read(), z.read(), m.add(&y, &table).read()] {
        assert_eq!(again.expect_err("poisoned").to_string(), e.to_string());
    }
    assert_eq!(floats(&m.add(&table, &table)), [2.0, 4.0, 6.0], "the next region is none the worse");
}

#[test]
fn what_kernels_report_later_is_told_at_a_step_s_end() {
    let m = mock();
    m.device.late.store(true, SeqCst);
    m.device.busy.store(true, SeqCst);
    let table = m.vector(&[1.0, 2.0]);
    let bad = m.gather(&table, &m.indices(&[5]));
    m.executor.flush().expect("nobody knows yet");
    let after = m.add(&table, &table);
    m.executor.flush().expect("nobody knows yet");
    m.device.busy.store(false, SeqCst);
    assert_eq!(m.executor.seal_step().expect_err("now it is known").kind(), Kind::Index);
    m.executor.seal_step().expect("told once");
    // What came after the failure may have read what it left.
    for value in [&bad, &after] {
        assert_eq!(value.read().expect_err("poisoned").kind(), Kind::Index);
    }
    assert_eq!(floats(&m.add(&table, &table)), [2.0, 4.0]);
}

#[test]
fn few_regions_are_owed() {
    let m = mock();
    m.device.late.store(true, SeqCst);
    m.device.busy.store(true, SeqCst);
    let table = m.vector(&[1.0, 2.0]);
    let bad = m.gather(&table, &m.indices(&[5]));
    m.executor.flush().expect("nobody knows yet");
    let told = (0..40).position(|_| {
        let _sum = m.add(&table, &table);
        m.executor.flush().is_err()
    });
    assert!(told.is_some_and(|n| n < 20), "{told:?}");
    assert_eq!(bad.read().expect_err("poisoned").kind(), Kind::Index);
}
