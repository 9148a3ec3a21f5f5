//! How many plans the GPT's loops take: one for every training step, two for all that is generated. In a
//! process of its own, because the counters are the process's.
#[allow(dead_code, reason = "the program uses the rest")]
#[path = "../src/gpt.rs"]
mod gpt;

use gpt::{Gpt, Sizes};
use rustytorch::{self as torch, prelude::*};

fn step(model: &Gpt, optimizer: &mut optim::AdamW, rows: &Tensor, lr: f64) -> Result<Tensor> {
    let loss = model.loss(rows, 3);
    optimizer.zero_grad();
    loss.backward();
    nn::clip_grad_norm_(&model.parameters(), 1.0);
    optimizer.set_lr(lr);
    optimizer.step()?;
    Ok(loss)
}

#[test]
fn plans_of_a_gpt() -> Result<()> {
    a_step_is_one_plan_and_decoding_two()?;
    decoding_is_the_whole_forward()
}

fn a_step_is_one_plan_and_decoding_two() -> Result<()> {
    torch::manual_seed(1);
    let model = Gpt::new(&Sizes { vocabulary: 16, context: 11, layers: 2, width: 32, heads: 4 }, 0.05);
    let rows: Vec<i64> = (0..4 * 12).map(|i| i * 7 % 16).collect();
    let rows = |shift: i64| torch::from_slice(&rows.iter().map(|i| (i + shift) % 16).collect::<Vec<_>>(), [4, 12]);
    let mut optimizer = optim::AdamW::new(model.parameters(), 1e-3);
    torch::flush()?;

    let first: f32 = step(&model, &mut optimizer, &rows(0), 1e-3)?.item()?;
    let before = torch::counters();
    let mut last = 0f32;
    torch::no_new_plans(|| -> Result<()> {
        for i in 1..8 {
            last = step(&model, &mut optimizer, &rows(i), 1e-3 / i as f64)?.item()?;
        }
        Ok(())
    })??;
    let during = torch::counters() - before;
    assert_eq!((during.regions_run, during.replays), (7, 7), "one region a step");
    assert_eq!(during.device_allocations, 0, "no allocation in replay");
    assert!(first.is_finite() && last.is_finite());

    let before = torch::counters();
    let mut decoder = model.decoder();
    let mut ids = vec![1, 2];
    decoder.prompt(&ids)?;
    ids.push(3);
    decoder.next(&ids)?;
    let compiled = (torch::counters() - before.clone()).plans_compiled;
    assert!(compiled <= 2, "{compiled} plans");
    torch::no_new_plans(|| -> Result<()> {
        // Past the context: the older half is forgotten, and a prompt is read again.
        for i in 0..20 {
            ids.push(i % 16);
            decoder.next(&ids)?;
        }
        model.decoder().prompt(&[1, 2, 3, 4, 5])?;
        Ok(())
    })??;
    assert_eq!((torch::counters() - before).copies, 0, "the cache is written in place");
    Ok(())
}

/// The decoder's logits are the model's.
fn decoding_is_the_whole_forward() -> Result<()> {
    let model = Gpt::new(&Sizes { vocabulary: 16, context: 8, layers: 2, width: 32, heads: 4 }, 0.3);
    let ids = [3_i64, 1, 4, 1, 5, 9, 2, 6];
    let whole = torch::no_grad(|| model.forward(&torch::from_slice(&ids, [1, 8]), 0)).to_vec::<f32>()?;
    let mut decoder = model.decoder();
    let mut got = decoder.prompt(&ids[..3])?;
    for n in 4..=8 {
        let close = got.iter().zip(&whole[(n - 2) * 16..]).all(|(g, w)| (g - w).abs() < 1e-4);
        assert!(close, "after {} ids: {got:?}", n - 1);
        got = decoder.next(&ids[..n])?;
    }
    Ok(())
}
