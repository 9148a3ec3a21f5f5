//! Long runs: records dropped by a loop, and memory that stays flat.
use rtx_tensor::{self as torch, Tensor, memory, tensor};
use std::collections::VecDeque;

const STEPS: usize = 1_000_000;

#[test]
fn a_chain_of_records_is_dropped_without_recursion() {
    let x = tensor!([1.0]).requires_grad_();
    let mut y = x.clone();
    for _ in 0..STEPS {
        y = &y + 1.0;
    }
    drop(y);
}

/// x = x c + 1 with a ring of 100 handles.
#[test]
fn memory_is_flat_and_the_result_is_right() -> torch::Result<()> {
    let mut x = torch::ones([256]);
    let mut ring: VecDeque<Tensor> = VecDeque::new();
    let mut want = 1f32;
    let mut early = None;
    for i in 0..STEPS {
        x = &x * 0.5 + 1.0;
        want = want * 0.5 + 1.0;
        ring.push_back(x.alias());
        if ring.len() > 100 {
            ring.pop_front();
        }
        if i == STEPS / 10 {
            torch::flush()?;
            early = Some(memory());
        }
    }
    torch::flush()?;
    let (early, late) = (early.expect("taken"), memory());
    assert!(late.live_bytes <= early.live_bytes + (1 << 16), "{early:?} then {late:?}");
    assert_eq!(x.to_vec::<f32>()?, vec![want; 256]);
    Ok(())
}
