//! Contracts that need the whole house: what a training step leaves after a failure, what folding and merging may not do.
use rtx_compiler::Compiler;
use rtx_conformance::goldens::gpt::{Gpt, VOCABULARY};
use rtx_core::{DType, Dim, Location};
use rtx_ir::{Builder, Graph, Type};
use rtx_plan::{Compile, OutputPlace, Request};
use rustytorch::{self as torch, prelude::*};
use std::sync::Mutex;

/// Launches of one training step of the golden GPT.
const KERNELS_A_STEP: u64 = 61;

/// These tests break the device and read its counters: one at a time.
static DEVICE: Mutex<()> = Mutex::new(());

fn tokens(step: i64) -> Tensor {
    let ids: Vec<i64> = (0..2 * 17).map(|i| (i * 31 + step * 7) % VOCABULARY as i64).collect();
    torch::from_slice(&ids, [2, 17])
}

fn train(model: &Gpt, opt: &mut optim::AdamW, step: i64) -> Result<f32> {
    let loss = model.loss(&tokens(step));
    opt.zero_grad();
    loss.backward();
    nn::clip_grad_norm_(&model.parameters(), 1.0);
    opt.step()?;
    loss.item()
}

fn bytes_of(model: &Gpt) -> Result<Vec<Vec<u32>>> {
    let bits = |t: Tensor| Ok(t.to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect());
    model.state_dict().into_values().map(bits).collect()
}

/// R6: whichever allocation of a step fails, parameters are as they were, the error is told, and training goes on to
/// the same bits as a run that nothing happened to.
#[test]
fn a_failed_allocation_leaves_parameters_unchanged() -> Result<()> {
    let _alone = DEVICE.lock().unwrap_or_else(|e| e.into_inner());
    let reference = || -> Result<Vec<Vec<u32>>> {
        torch::manual_seed(3);
        let model = Gpt::new();
        let mut opt = optim::AdamW::new(model.parameters(), 1e-3);
        for step in 0..3 {
            train(&model, &mut opt, step)?;
        }
        bytes_of(&model)
    };
    let want = reference()?;
    let mut failures = 0;
    for k in 1.. {
        torch::manual_seed(3);
        let model = Gpt::new();
        let mut opt = optim::AdamW::new(model.parameters(), 1e-3);
        train(&model, &mut opt, 0)?;
        train(&model, &mut opt, 1)?;
        let before = bytes_of(&model)?;
        let batch = tokens(2);
        torch::flush()?;
        // Nothing is kept for reuse, so that the step has to ask the device.
        rtx_device::cpu().trim();
        rtx_device::cpu_driver().fail_allocation_after(Some(k));
        let failed = (|| {
            let loss = model.loss(&batch);
            opt.zero_grad();
            loss.backward();
            nn::clip_grad_norm_(&model.parameters(), 1.0);
            opt.step()?;
            loss.item::<f32>()
        })();
        rtx_device::cpu_driver().fail_allocation_after(None);
        match failed {
            Ok(_) => {
                assert!(failures > 0, "a step allocates nothing: the test tests nothing");
                assert_eq!(bytes_of(&model)?, want);
                return Ok(());
            }
            Err(e) => {
                assert!(e.message().contains("out of memory on cpu"), "{e}");
                assert_eq!(bytes_of(&model)?, before, "allocation {k} failed and parameters changed");
                failures += 1;
                train(&model, &mut opt, 2)?;
                assert_eq!(bytes_of(&model)?, want, "after the failure of allocation {k} training went elsewhere");
            }
        }
    }
    Ok(())
}

/// M3, A6: after the first step no memory is asked for, and state stays where it is.
#[test]
fn a_step_replays_without_allocating() -> Result<()> {
    let _alone = DEVICE.lock().unwrap_or_else(|e| e.into_inner());
    torch::manual_seed(3);
    let model = Gpt::new();
    let mut opt = optim::AdamW::new(model.parameters(), 1e-3);
    for step in 0..2 {
        train(&model, &mut opt, step)?;
    }
    let before = torch::counters();
    for step in 2..12 {
        opt.set_lr(1e-3 / step as f64);
        train(&model, &mut opt, step)?;
    }
    let during = torch::counters() - before;
    assert_eq!((during.plans_compiled, during.device_allocations, during.copies), (0, 0, 0));
    assert_eq!((during.regions_run, during.replays), (10, 10), "one region a step");
    assert_eq!(during.launches, 10 * KERNELS_A_STEP, "kernels a step; fewer is better: then lower the number");
    // Parameters, two moments of each, and the step count: everything that a step leaves but the loss is state.
    let state = 3 * model.parameters().len() as u64;
    assert!(during.donations / 10 >= state, "{} of {state} are updated in place", during.donations / 10);
    Ok(())
}

/// N6: a constant goes through the same arithmetic as a value of the same bits.
#[test]
fn constants_are_computed_by_kernels() -> Result<()> {
    let _alone = DEVICE.lock().unwrap_or_else(|e| e.into_inner());
    for x in [0.3, -1.7, 5.0, 0.8125] {
        let constant = rtx_runtime::record(rtx_device::cpu(), Location::caller(), |r| {
            let mut b = r.builder();
            let c = b.constant(DType::F32, x)?;
            let y = b.exp(c)?;
            Ok::<_, Error>(r.export(y))
        })?;
        let value = torch::tensor!([0.0]) + x;
        torch::flush()?;
        assert_eq!(constant.read()?, value.exp().to_vec::<f32>()?[0].to_ne_bytes(), "exp({x})");
    }
    Ok(())
}

/// A4: what is recomputed under another generation is not merged with the first computation.
#[test]
fn nodes_of_two_generations_are_not_merged() -> Result<()> {
    let mut graph = Graph::new();
    let x =
        graph.push_input(Type { dtype: DType::F32, shape: [Dim::Const(8)].into_iter().collect() }, Location::caller());
    let once = Builder::new(&mut graph, Location::caller()).exp(x)?;
    let equal = Builder::new(&mut graph, Location::caller()).exp(x)?;
    let again = Builder::with_generation(&mut graph, Location::caller(), 1).exp(x)?;
    let compiler = Compiler::new(rtx_kernel_cpu::claims());
    let fact = rtx_plan::InputFact { layout: rtx_core::Layout::contiguous(&[8]), donated: false, alias: None };
    let target = rtx_device::cpu().device().target().clone();
    let plan = compiler.compile(&Request {
        graph: &graph,
        inputs: &[fact],
        wanted: &[once, equal, again],
        target: &target,
    })?;
    let slots = plan.outputs.iter().filter(|o| matches!(o.place, OutputPlace::Slot(_))).count();
    assert_eq!(slots, 2, "one for the merged pair, one for the recomputation: {:?}", plan.outputs);
    Ok(())
}

/// R2: two inputs of one shape that lie differently, neither of them dense, are two plans.
#[test]
fn a_key_tells_strides_apart() -> Result<()> {
    let _alone = DEVICE.lock().unwrap_or_else(|e| e.into_inner());
    let memory = |rows: usize, columns: usize| {
        let bytes: Vec<u8> = (0..rows * columns).flat_map(|i| (i as f32).to_ne_bytes()).collect();
        rtx_runtime::Value::from_bytes(rtx_device::cpu(), Type::new(DType::F32, [rows, columns]), &bytes)
    };
    let (tall, wide) = (memory(3, 2)?, memory(2, 6)?);
    let turned = rtx_runtime::record(rtx_device::cpu(), Location::caller(), |r| {
        let x = r.import(&tall);
        let y = r.builder().permute(x, &[1, 0])?;
        Ok::<_, Error>(r.export(y))
    })?;
    let half = rtx_runtime::record(rtx_device::cpu(), Location::caller(), |r| {
        let x = r.import(&wide);
        let y = r.builder().slice(x, 1, 0, 3usize)?;
        Ok::<_, Error>(r.export(y))
    })?;
    turned.wait()?;
    half.wait()?;
    assert!(turned.shares_memory_with(&tall) && half.shares_memory_with(&wide), "views of ready memory are not copied");
    let doubled = |x: &rtx_runtime::Value| -> Result<Vec<f32>> {
        let y = rtx_runtime::record(rtx_device::cpu(), Location::caller(), |r| {
            let x = r.import(x);
            let y = r.builder().mul(x, 2.0)?;
            Ok::<_, Error>(r.export(y))
        })?;
        Ok(y.read()?.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect())
    };
    assert_eq!(doubled(&turned)?, [0.0, 4.0, 8.0, 2.0, 6.0, 10.0]);
    assert_eq!(doubled(&half)?, [0.0, 2.0, 4.0, 12.0, 14.0, 16.0]);
    Ok(())
}
