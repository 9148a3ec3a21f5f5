//! Training steps as plans: one region a step, replayed, updated in place. A file of its own: counters are the
//! process's.
use rtx_tensor::{self as torch, Result, Tensor, counters, end_step, functional as F, no_grad, no_new_plans, tensor};

/// One step of gradient descent by hand.
fn step(w: &Tensor, b: &Tensor, x: &Tensor, y: &Tensor, lr: f64) -> Result<()> {
    let loss = F::cross_entropy(&F::linear(x, w, Some(b)), y);
    loss.backward();
    no_grad(|| {
        for p in [w, b] {
            p.sub_(p.grad().expect("it has one") * lr);
            p.set_grad(None);
        }
    });
    drop(loss);
    end_step()
}

#[test]
fn a_step_is_one_plan_replayed_in_place() -> Result<()> {
    let (w, b) = torch::fork(&[1], || (torch::randn([10, 8]).requires_grad_(), torch::zeros(10).requires_grad_()));
    let batch = |i: u64| torch::fork(&[2, i], || (torch::randn([16, 8]), torch::randint(0..10, 16)));
    let batches: Vec<_> = (0..8).map(batch).collect();
    for (x, y) in &batches {
        x.read_bytes()?;
        y.read_bytes()?;
    }
    step(&w, &b, &batches[0].0, &batches[0].1, 0.1)?;
    step(&w, &b, &batches[1].0, &batches[1].1, 0.1)?;
    torch::flush()?;
    let before = counters();
    no_new_plans(|| {
        for (i, (x, y)) in batches.iter().enumerate().skip(2) {
            // The rate changes with every step: it is a number of the plan's run, not of the plan.
            step(&w, &b, x, y, 0.1 / (i as f64 + 1.0))?;
        }
        torch::flush()
    })??;
    let spent = counters() - before;
    assert_eq!((spent.regions_run, spent.replays, spent.copies), (6, 6, 0), "{spent}");
    assert_eq!(spent.donations, 12, "both parameters, every step: {spent}");
    Ok(())
}

#[test]
fn a_value_overwritten_while_it_is_saved_costs_a_copy_that_is_counted() -> Result<()> {
    let x = tensor!([1.0, 2.0]).requires_grad_();
    let a = tensor!([3.0, 4.0]);
    a.add_(0);
    torch::flush()?;
    let before = counters();
    let held = a.clone();
    a.add_(1);
    let y = &x * &held;
    torch::flush()?;
    assert!((counters() - before).copies >= 1);
    y.sum(..).backward();
    assert_eq!(x.grad().expect("it has one").to_vec::<f32>()?, [3.0, 4.0]);
    Ok(())
}
