//! Training steps as plans: one region a step, replayed, updated in place. A file of its own: counters are the
//! process's.
use rtx_tensor::{
    self as torch, Result, Tensor, counters, end_step, functional as F, memory, no_grad, no_new_plans, tensor,
};
use std::sync::{Mutex, MutexGuard};

/// Counters are the process's, so these tests run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

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
    let _alone = alone();
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
    let _alone = alone();
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

/// Loss and gradients of a small network, and the most memory that it took; the loss is read before or after
/// `backward()`.
fn network_step(read_between: bool) -> Result<(f32, Vec<Vec<u8>>, u64)> {
    let layers: Vec<Tensor> =
        (0..6).map(|i| torch::fork(&[4, i], || torch::randn([64, 64]) * 0.1).requires_grad_()).collect();
    let x = torch::fork(&[5], || torch::randn([512, 64]));
    layers.iter().chain([&x]).try_for_each(|t| t.read_bytes().map(drop))?;
    torch::empty_cache();
    torch::reset_peak_memory();
    let before = memory().live_bytes;
    let y = layers.iter().fold(x.alias(), |h, w| F::gelu(&F::linear(&h, w, None)));
    let loss = y.pow(2).mean(..);
    drop(y);
    let early = read_between.then(|| loss.item::<f32>()).transpose()?;
    loss.backward();
    let grads = layers.iter().map(|w| w.grad().expect("it has one")).collect::<Vec<_>>();
    torch::flush()?;
    let bytes = grads.iter().map(Tensor::read_bytes).collect::<Result<_>>()?;
    let peak = memory().peak_bytes - before;
    Ok((early.map_or_else(|| loss.item(), Ok)?, bytes, peak))
}

#[test]
fn a_loss_read_before_backward_changes_no_bits_and_costs_little_memory() -> Result<()> {
    let _alone = alone();
    network_step(false)?;
    let (loss, grads, peak) = network_step(false)?;
    let (loss_read, grads_read, peak_read) = network_step(true)?;
    assert_eq!((loss.to_bits(), grads), (loss_read.to_bits(), grads_read));
    assert!(peak_read as f64 <= 1.3 * peak as f64, "{peak_read} bytes against {peak}");
    Ok(())
}

#[test]
fn a_loss_still_in_scope_keeps_no_activations() -> Result<()> {
    let _alone = alone();
    let w = torch::fork(&[9], || torch::randn([64, 64])).requires_grad_();
    let x = torch::ones([1024, 64]);
    w.read_bytes()?;
    x.read_bytes()?;
    torch::empty_cache();
    let before = memory().live_bytes;
    let loss = (0..8).fold(x.alias(), |h, _| F::gelu(&h.matmul(&w))).mean(..);
    loss.backward();
    torch::flush()?;
    torch::empty_cache();
    let held = memory().live_bytes - before;
    // The loss and one gradient of 16 KB; the activations would be 4 MB.
    assert!(held < 64 << 10, "{held} bytes held");
    assert!(w.grad().is_some());
    Ok(())
}

#[test]
fn a_step_that_finds_no_memory_leaves_parameters_as_they_were() -> Result<()> {
    let _alone = alone();
    let w = torch::fork(&[11], || torch::randn([33, 7])).requires_grad_();
    let before = w.to_vec::<f32>()?;
    let x = torch::ones([5, 33]);
    x.read_bytes()?;
    let mut failures = 0;
    for k in 1.. {
        x.matmul(&w).exp().sum(..).backward();
        no_grad(|| w.set_data(&(&w - w.grad().expect("it has one"))));
        w.set_grad(None);
        torch::empty_cache();
        rtx_device::cpu_driver().fail_allocation_after(Some(k));
        let outcome = torch::flush();
        rtx_device::cpu_driver().fail_allocation_after(None);
        let Err(e) = outcome else { break };
        assert_eq!(e.kind(), torch::Kind::Memory, "{e}");
        assert_eq!(w.to_vec::<f32>()?, before, "after failure {k}");
        failures += 1;
    }
    assert!(failures > 0, "some allocation failed");
    assert_ne!(w.to_vec::<f32>()?, before, "the step that found memory was made");
    Ok(())
}
