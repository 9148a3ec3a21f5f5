//! The processor end to end: recorded, compiled, run, replayed.
use rtx_core::{DType, Fold, Kind, Location, Result};
use rtx_device::cpu;
use rtx_ir::{Builder, Type, ValueId};
use rtx_runtime::{Executor, Value, record};
use std::sync::Mutex;

/// Counters and failing allocations are the device's: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn tensor(shape: &[usize], x: &[f32]) -> Value {
    let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_ne_bytes()).collect();
    Value::from_bytes(cpu(), Type::new(DType::F32, shape), &bytes).expect("memory")
}

fn floats(value: &Value) -> Vec<f32> {
    let bytes = value.read().expect("reads");
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_ne_bytes(*b)).collect()
}

/// Records `f` of one value.
#[track_caller]
fn apply(x: &Value, f: impl FnOnce(&mut Builder<'_>, ValueId) -> Result<ValueId>) -> Value {
    record(cpu(), Location::caller(), |r| {
        let x = r.import(x);
        let out = f(&mut r.builder(), x).expect("records");
        r.export(out)
    })
}

fn executor() -> &'static Executor {
    cpu()
}

#[test]
fn a_chain_with_a_reduction_runs_and_replays_without_allocating() {
    let _alone = alone();
    let program = |x: &[f32], by: f64| {
        let x = tensor(&[2, 3], x);
        let y = apply(&x, |b, x| {
            let by = b.param(DType::F32, by.into())?;
            let y = b.mul(x, by)?;
            let y = b.add(y, 1.0)?;
            b.reduce(Fold::Sum, y, &[1])
        });
        floats(&y)
    };
    assert_eq!(program(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2.0), [15.0, 33.0]);
    let before = executor().counters();
    let again = executor().no_new_plans(|| program(&[1.0; 6], 0.5)).expect("a hit");
    let c = executor().counters() - before;
    assert_eq!((again, c.device_allocations, c.replays), (vec![4.5, 4.5], 0, 1));
}

#[test]
fn a_product_of_matrices_and_a_view() {
    let _alone = alone();
    let a = tensor(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let t = apply(&a, |b, a| b.transpose_last(a));
    assert_eq!(floats(&t), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let p = record(cpu(), Location::caller(), |r| {
        let (a, t) = (r.import(&a), r.import(&t));
        let p = r.builder().matmul(a, t).expect("multiplies");
        r.export(p)
    });
    assert_eq!(floats(&p), [14.0, 32.0, 32.0, 77.0]);
}

#[test]
fn an_index_out_of_range_names_the_op_and_the_line() {
    let _alone = alone();
    let table = tensor(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let ids = [0i64, 3].iter().flat_map(|i| i.to_ne_bytes()).collect::<Vec<u8>>();
    let ids = Value::from_bytes(cpu(), Type::new(DType::I64, [2]), &ids).expect("memory");
    let line = line!() + 1;
    let rows = record(cpu(), Location::caller(), |r| {
        let (table, ids) = (r.import(&table), r.import(&ids));
        let rows = r.builder().prim(rtx_ir::Prim::Gather { axis: 0 }, &[table, ids]).expect("looks up");
        r.export(rows)
    });
    let e = apply(&rows, |b, x| b.exp(x)).read().expect_err("3 is outside");
    assert_eq!((e.kind(), e.message()), (Kind::Index, "gather: index 3 is outside 0..3"));
    assert_eq!(e.recorded().map(Location::line), Some(line));
}

#[test]
fn sizes_turn_symbolic_with_the_same_bits() {
    let _alone = alone();
    let program = |n: usize| {
        let x: Vec<f32> = (0..3 * n).map(|i| i as f32 * 0.37).collect();
        let y = apply(&tensor(&[n, 3], &x), |b, x| {
            let e = b.exp(x)?;
            let s = b.reduce_keep(Fold::Sum, e, &[1])?;
            b.div(e, s)
        });
        y.read().expect("reads")
    };
    let before = executor().counters();
    let first: Vec<Vec<u8>> = [5, 9, 7].into_iter().map(program).collect();
    let c = executor().counters() - before;
    assert_eq!((c.symbolic_plans, c.symbolic_refusals), (1, 0));
    let again = executor().no_new_plans(|| [5, 9, 7, 16, 2].map(program)).expect("one plan for all");
    assert_eq!(first[..], again[..3]);
}

#[test]
fn state_is_updated_in_place_and_survives_a_failed_allocation() {
    let _alone = alone();
    let update = |w: &Value| {
        record(cpu(), Location::caller(), |r| {
            let old = r.import(w);
            let mut b = r.builder();
            let g = b.mul(old, 0.5).expect("multiplies");
            let s = b.reduce(Fold::Sum, g, &[0]).expect("sums");
            let new = b.sub(old, g).expect("subtracts");
            r.replaces(new, old);
            (r.export(new), r.export(s))
        })
    };
    let mut w = tensor(&[1000], &[8.0; 1000]);
    let before = executor().counters();
    let (new, loss) = update(&w);
    w = new;
    assert_eq!((floats(&loss), floats(&w)[999]), (vec![4000.0], 4.0));
    assert_eq!((executor().counters() - before).donations, 1);
    executor().trim();
    let (new, loss) = update(&w);
    w = new;
    rtx_device::cpu_driver().fail_allocation_after(Some(1));
    let read = loss.read();
    rtx_device::cpu_driver().fail_allocation_after(None);
    assert_eq!(read.expect_err("no memory").kind(), Kind::Memory);
    assert_eq!(floats(&w)[999], 4.0);
    let (w, loss) = update(&w);
    assert_eq!((floats(&loss), floats(&w)[0]), (vec![2000.0], 2.0));
}

/// Sizes turn symbolic, strides do not: an element repeated along an axis stays one element at every size.
#[test]
fn a_repeated_element_is_summed_at_every_size() {
    let _alone = alone();
    for rank in 1..6 {
        // The views are made by regions of different ranks, so that only the sum's size turns symbolic.
        let n = 4 + rank;
        let (mut ones, mut repeated) = (vec![1; rank], vec![1; rank]);
        (ones[rank - 1], repeated[rank - 1]) = (2, n);
        let pair = tensor(&ones, &[3.0, 5.0]);
        let many = apply(&pair, |b, x| {
            let one = b.slice(x, rank - 1, 0, 1usize)?;
            let many = b.expand(one, &repeated.as_slice().into())?;
            b.reshape(many, &[n].into())
        });
        many.wait().expect("runs");
        let sum = apply(&many, |b, x| b.reduce(Fold::Sum, x, &[0]));
        assert_eq!(floats(&sum), [3.0 * n as f32]);
    }
}

/// A temporary that lies in another order than a claim's result is not overwritten by it.
#[test]
fn a_scatter_into_a_transposed_temporary() {
    let _alone = alone();
    let x = tensor(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let updates = tensor(&[2, 1], &[10.0, 20.0]);
    let y = record(cpu(), Location::caller(), |r| {
        let (x, updates) = (r.import(&x), r.import(&updates));
        let mut b = r.builder();
        let index = b.full(DType::I64, &[1].into(), 1i64).expect("records");
        let turned = b.neg(x).and_then(|x| b.permute(x, &[1, 0])).expect("records");
        let scatter = rtx_ir::Prim::Scatter { axis: 1, op: rtx_ir::ScatterOp::Add };
        let y = b.prim(scatter, &[turned, index, updates]).expect("records");
        r.export(y)
    });
    assert_eq!(floats(&y), [-1.0, 7.0, -5.0, -2.0, 16.0, -6.0]);
}
