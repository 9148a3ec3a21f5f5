//! One model served from four threads: each thread records and runs its own work, and all get the same bits.
use rustytorch::{self as torch, prelude::*};
use std::sync::Arc;

fn main() -> Result<()> {
    torch::manual_seed(0);
    let net = Arc::new(seq![nn::Linear::new(16, 64), nn::GELU, nn::Linear::new(64, 4), nn::Softmax::new(-1)]);
    net.eval();
    let requests: Vec<Vec<f32>> =
        (0..32).map(|i| (0..16).map(|j| ((i * 7 + j * 3) % 11) as f32 / 11.0).collect()).collect();
    let answer = |request: &[f32]| -> Result<Vec<f32>> {
        torch::no_grad(|| net.forward(&torch::from_slice(request, [1, 16])).to_vec())
    };
    let answer = &answer;
    let alone: Vec<Vec<f32>> = requests.iter().map(|r| answer(r)).collect::<Result<_>>()?;
    let together: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = requests
            .chunks(8)
            .map(|part| scope.spawn(move || part.iter().map(|r| answer(r)).collect::<Result<Vec<_>>>()))
            .collect();
        threads.into_iter().map(|t| t.join().expect("a thread answers")).collect::<Result<Vec<_>>>()
    })?
    .concat();
    assert_eq!(alone, together, "bit for bit");
    println!("4 threads answered {} requests, with the bits of one thread", together.len());
    Ok(())
}
