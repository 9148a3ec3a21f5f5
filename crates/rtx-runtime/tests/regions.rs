//! Laws of regions: what is recorded, when it runs, what is computed, and what a key depends on.
mod mock;
use mock::{floats, mock, mock_with};
use rtx_core::{DType, Kind};
use rtx_runtime::{FlushReason, Limits, Value, set_eager, set_random_flush};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn nothing_runs_before_a_read_and_all_of_it_at_once() {
    let m = mock();
    let x = m.vector(&[1.0, 2.0]);
    let y = m.add(&x, &x);
    let z = m.mul(&y, &x);
    assert!(!y.is_ready() && m.executor.counters().regions_run == 0);
    assert_eq!(floats(&z), [2.0, 8.0]);
    assert!(y.is_ready());
    assert_eq!(floats(&y), [2.0, 4.0]);
    let c = m.executor.counters();
    assert_eq!((c.regions_run, c.plans_compiled, c.launches, c.nodes_recorded), (1, 1, 2, 3));
    assert_eq!(c.flushes_for(FlushReason::Read), 1);
}

#[test]
fn an_equal_program_is_a_hit_whatever_its_numbers() {
    let m = mock();
    let run = |x: f32, by: f32| floats(&m.scale(&m.vector(&[x, x]), by));
    assert_eq!(run(1.0, 3.0), [3.0, 3.0]);
    let before = m.executor.counters();
    let again = m.executor.no_new_plans(|| run(5.0, 0.5)).expect("a hit");
    assert_eq!(again, [2.5, 2.5]);
    let c = m.executor.counters() - before;
    assert_eq!((c.replays, c.plans_compiled, c.kernels_loaded, c.device_allocations), (1, 0, 0, 0));
}

#[test]
fn a_key_holds_constants_sizes_and_operands() {
    let m = mock();
    let x = m.vector(&[1.0, 2.0]);
    let miss = |f: &dyn Fn() -> Value| {
        let e = m.executor.no_new_plans(|| f().read().expect("runs")).expect_err("a miss");
        e.message().split("because ").nth(1).expect("a reason").to_string()
    };
    assert_eq!(miss(&|| m.plus(&x, 1.0)), "it is the first");
    assert!(miss(&|| m.plus(&x, 2.0)).starts_with("`constant` recorded at "));
    let longer = m.vector(&[1.0, 2.0, 3.0]);
    assert!(miss(&|| m.plus(&longer, 2.0)).starts_with("size 2 became 3 at `input` recorded at"));
    let y = m.vector(&[0.0, 1.0]);
    assert!(miss(&|| m.mul(&x, &y)).starts_with("`input` recorded at"), "another operand follows");
    assert!(miss(&|| m.mul(&x, &x)).starts_with("`mul` recorded at"));
}

#[test]
fn a_key_holds_strides_donation_and_aliases() {
    let m = mock();
    let x = m.tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let t = m.transpose(&x);
    t.wait().expect("runs");
    assert!(t.shares_memory_with(&x), "a view costs nothing");
    assert_eq!(floats(&t), [1.0, 3.0, 2.0, 4.0]);
    assert_eq!(floats(&m.plus(&x, 1.0)), [2.0, 3.0, 4.0, 5.0]);
    let e = m.executor.no_new_plans(|| assert_eq!(floats(&m.plus(&t, 1.0)), [2.0, 4.0, 3.0, 5.0]));
    assert!(e.expect_err("other strides").message().ends_with("input 0 (f32 [2, 2]) lies in another layout"));
    let e = m.executor.no_new_plans(|| {
        let own = m.tensor(&[2, 2], &[0.0; 4]);
        let sum = m.plus(&own, 1.0);
        drop(own);
        floats(&sum)
    });
    assert!(e.expect_err("donated").message().contains("input 0 (f32 [2, 2]) may be overwritten"));
    let other = m.tensor(&[2, 2], &[0.0; 4]);
    m.add(&x, &other).wait().expect("runs");
    let alias = m.record(|r| {
        let id = r.import(&x);
        let twice = r.builder().permute(id, &[1, 0]).and_then(|t| r.builder().permute(t, &[1, 0])).expect("permutes");
        r.export(twice)
    });
    alias.wait().expect("runs");
    assert!(alias.shares_memory_with(&x));
    let e = m.executor.no_new_plans(|| floats(&m.add(&x, &alias)));
    assert!(e.expect_err("one memory twice").message().contains("input 1 (f32 [2, 2]) shares its memory"));
}

#[test]
fn only_what_is_held_is_computed() {
    let m = mock();
    let x = m.vector(&[1.0]);
    let (a, b) = (m.add(&x, &x), m.mul(&x, &x));
    drop(b);
    assert_eq!(floats(&a), [2.0]);
    assert_eq!((m.executor.counters().launches, m.compiler.last_outputs.load(SeqCst)), (1, 1));
    drop((m.add(&x, &x), a));
    m.executor.flush().expect("nothing to do");
    assert_eq!((m.executor.counters().launches, m.executor.counters().regions_dropped), (1, 1));
}

#[test]
fn a_plan_that_gives_more_than_is_wanted_is_a_hit() {
    let m = mock();
    let x = m.vector(&[3.0]);
    let program = |hold_both: bool| {
        let a = m.add(&x, &x);
        let b = m.mul(&a, &x);
        let a = hold_both.then_some(a);
        assert_eq!(floats(&b), [18.0]);
        drop(a);
    };
    program(true);
    m.executor.no_new_plans(|| program(false)).expect("a hit");
}

#[test]
fn one_handle_a_value_and_one_input_a_value() {
    let m = mock();
    let x = m.vector(&[1.0]);
    let (a, b) = m.record(|r| {
        let id = r.import(&x);
        assert_eq!(r.import(&x), id);
        assert_eq!(r.graph().inputs().count(), 1);
        let out = r.builder().add(id, id).expect("adds");
        let a = r.export(out);
        assert_eq!(r.import(&a), out);
        (a, r.export(out))
    });
    assert!(m.executor == *a.executor());
    a.wait().expect("runs");
    assert!(a.shares_memory_with(&b) && b.is_ready());
}

#[test]
fn a_number_is_recorded_anew_and_never_an_output() {
    let m = mock();
    let x = m.vector(&[2.0, 4.0]);
    let lr = Value::number(&m.executor, DType::F32, 0.5).expect("a number");
    let held = m.record(|r| {
        let id = r.import(&lr);
        let own = r.builder().param(DType::F32, 3.0.into()).expect("a number");
        assert!(r.export(id).is_number());
        r.export(own)
    });
    assert!(held.is_number() && held.is_ready());
    m.executor.flush().expect("runs");
    assert_eq!(floats(&m.mul(&x, &lr)), [1.0, 2.0]);
    assert_eq!(m.compiler.last_outputs.load(SeqCst), 1);
    assert_eq!((floats(&lr), floats(&held)), (vec![0.5], vec![3.0]));
    let one = Value::number(&m.executor, DType::F32, 1.0).expect("a number");
    let same = m.executor.no_new_plans(|| floats(&m.mul(&x, &one)));
    assert_eq!(same.expect("another number, the same plan"), [2.0, 4.0]);
}

#[test]
fn what_nobody_holds_is_overwritten_and_what_somebody_holds_is_not() {
    let m = mock();
    let x = m.plus(&m.vector(&[1.0; 100]), 0.0);
    x.wait().expect("runs");
    let held = x.clone();
    let y = m.plus(&x, 1.0);
    assert_eq!((floats(&y)[0], floats(&held)[0], m.executor.counters().copies), (2.0, 1.0, 0));
    drop((x, held));
    let mut before = m.executor.counters();
    let mut y = y;
    for i in 0..4 {
        y = m.record(|r| {
            let old = r.import(&y);
            let mut b = r.builder();
            let one = b.constant(DType::F32, 1.0).expect("a constant");
            let new = b.add(old, one).expect("adds");
            r.replaces(new, old);
            r.export(new)
        });
        y.wait().expect("runs");
        if i == 0 {
            before = m.executor.counters();
        }
    }
    let c = m.executor.counters() - before;
    assert_eq!((floats(&y)[0], c.donations, c.copies, c.device_allocations), (6.0, 3, 0, 0));
}

#[test]
fn an_update_of_a_value_still_held_is_a_copy_and_counted() {
    let m = mock();
    let x = m.vector(&[1.0]);
    let y = m.record(|r| {
        let old = r.import(&x);
        let new = r.builder().add(old, old).expect("adds");
        r.replaces(new, old);
        r.export(new)
    });
    assert_eq!((floats(&y), floats(&x)), (vec![2.0], vec![1.0]));
    assert_eq!((m.executor.counters().copies, m.executor.counters().donations), (1, 0));
}

#[test]
fn a_closed_step_waits_so_that_handles_dropped_after_it_are_dead() {
    let m = mock();
    let w = m.vector(&[1.0]);
    let mut grad = Some(m.add(&w, &w));
    let new = m.scale(grad.as_ref().expect("there"), 0.5);
    m.executor.seal_step().expect("closes");
    assert!(!new.is_ready());
    grad.take();
    let next = m.add(&new, &new);
    assert!(new.is_ready(), "the next op submits the step");
    assert_eq!(m.compiler.last_outputs.load(SeqCst), 1, "the gradient was dead");
    assert_eq!((floats(&new), floats(&next)), (vec![1.0], vec![2.0]));
    assert_eq!(m.executor.counters().flushes_for(FlushReason::Step), 1);
    let last = m.add(&new, &next);
    m.executor.seal_step().expect("closes");
    m.executor.seal_step().expect("there is nothing more to close");
    assert_eq!(floats(&last), [3.0]);
}

#[test]
fn a_region_past_its_limit_is_cut() {
    let m = mock_with(Limits { region_nodes: 10, eager: false, ..Limits::default() });
    let mut x = m.vector(&[0.0]);
    for _ in 0..100 {
        x = m.plus(&x, 1.0);
    }
    assert_eq!(floats(&x), [100.0]);
    assert!(m.executor.counters().flushes_for(FlushReason::Limit) > 20);
    let m = mock_with(Limits { region_bytes: 100, eager: false, ..Limits::default() });
    let y = m.plus(&m.vector(&[0.0; 20]), 1.0);
    assert!(y.is_ready());
}

#[test]
fn eager_runs_every_op_at_once() {
    let m = mock();
    let x = m.vector(&[1.0]);
    set_eager(Some(true));
    let y = m.add(&x, &x);
    assert!(y.is_ready());
    set_eager(None);
    assert_eq!(floats(&y), [2.0]);
    assert_eq!(m.executor.counters().flushes_for(FlushReason::Eager), 1);
}

/// A program drawn from a seed: values held and dropped, updates, views, reads in between.
fn random_program(m: &mock::Mock, seed: u64) -> Vec<Vec<f32>> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut draw = |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % n
    };
    let mut values =
        vec![m.tensor(&[3, 3], &[1.0; 9]), m.tensor(&[3, 3], &[0.5, 1.0, 2.0, 0.25, 1.5, 3.0, 0.75, 0.1, 1.25])];
    let mut seen = Vec::new();
    for _ in 0..40 {
        let (a, b) = (values[draw(values.len())].clone(), values[draw(values.len())].clone());
        let new = match draw(6) {
            0 => m.add(&a, &b),
            1 => m.mul(&a, &b),
            2 => m.transpose(&a),
            3 => m.scale(&a, draw(8) as f32 / 4.0),
            4 => m.plus(&a, draw(3) as f64),
            _ => {
                seen.push(floats(&a));
                m.scale(&b, 0.5)
            }
        };
        drop((a, b));
        match draw(3) {
            0 if values.len() > 2 => drop(values.swap_remove(draw(values.len()))),
            1 => {
                let at = draw(values.len());
                values[at] = new;
                continue;
            }
            _ => (),
        }
        values.push(new);
    }
    seen.extend(values.iter().map(floats));
    seen
}

#[test]
fn deferred_eager_and_random_flushes_agree() {
    for seed in 1..150 {
        let deferred = random_program(&mock(), seed);
        set_eager(Some(true));
        let eager = random_program(&mock(), seed);
        set_eager(None);
        set_random_flush(Some(seed));
        let random = random_program(&mock(), seed);
        let warm = mock();
        let (_, again) = (random_program(&warm, seed), random_program(&warm, seed));
        set_random_flush(None);
        assert!(deferred == eager && deferred == random && deferred == again, "seed {seed}");
    }
}

#[test]
fn values_go_between_threads() {
    let m = mock();
    let x = m.vector(&[1.0]);
    let y = m.add(&x, &x);
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(floats(&y), [2.0], "another thread may run the region"));
    });
    let z = m.add(&y, &y);
    let in_thread = std::thread::scope(|s| s.spawn(|| m.mul(&z, &z)).join().expect("no panic"));
    assert!(z.is_ready(), "its region was closed and run");
    let after = m.add(&z, &x);
    assert_eq!((floats(&in_thread), floats(&after)), (vec![16.0], vec![5.0]));
    assert_eq!(m.executor.counters().flushes_for(FlushReason::Thread), 1);
}

#[test]
fn two_threads_that_trade_values_neither_stop_nor_err() {
    let m = Arc::new(mock());
    let shared = Arc::new(std::sync::Mutex::new(vec![m.vector(&[1.0]); 4]));
    let workers: Vec<_> = (0..4)
        .map(|t| {
            let (m, shared) = (m.clone(), shared.clone());
            std::thread::spawn(move || {
                for i in 0..300usize {
                    let pick = shared.lock().expect("no panic")[(i + t) % 4].clone();
                    let own = m.scale(&pick, 1.0);
                    let new = m.mul(&own, &pick);
                    shared.lock().expect("no panic")[(i * 7 + t) % 4] = new;
                    if i % 50 == 0 {
                        assert_eq!(floats(&pick), [1.0]);
                    }
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|w| w.join().expect("no panic"));
    shared.lock().expect("no panic").iter().for_each(|v| assert_eq!(floats(v), [1.0]));
}

#[test]
fn a_thread_that_ends_leaves_its_values_readable() {
    let m = mock();
    let x = m.vector(&[2.0]);
    let y = std::thread::scope(|s| s.spawn(|| m.mul(&x, &x)).join().expect("no panic"));
    assert_eq!(floats(&y), [4.0]);
}

#[test]
fn a_long_chain_keeps_memory_flat() {
    let m = mock();
    let mut ring: Vec<Value> = (0..100).map(|_| m.vector(&[1.0; 16])).collect();
    let mut x = ring[0].clone();
    let mut warm = None;
    for i in 0..100_000 {
        x = m.scale(&x, 1.0);
        ring[i % 100] = x.clone();
        if i == 20_000 {
            warm = Some(m.executor.counters());
        }
    }
    assert_eq!(floats(&x), [1.0; 16]);
    let end = m.executor.counters();
    let c = end.clone() - warm.expect("a long chain");
    assert_eq!((c.device_allocations, end.bytes_live < 1 << 20), (0, true), "{end}");
}

#[test]
fn reading_within_a_record_call_is_refused() {
    let m = mock();
    let x = m.vector(&[1.0]);
    let y = m.add(&x, &x);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| m.record(|_| y.read())));
    assert!(caught.is_err());
    assert_eq!(floats(&y), [2.0], "the region is whole");
}

#[test]
fn bytes_that_do_not_fit_are_refused() {
    let m = mock();
    let e = Value::from_bytes(&m.executor, rtx_ir::Type::new(DType::F32, [2, 3]), &[0; 20]).expect_err("too few");
    assert_eq!((e.kind(), e.message()), (Kind::Argument, "from_bytes: f32 [2, 3] takes 24 bytes, got 20"));
}
