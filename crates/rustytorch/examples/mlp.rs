//! An MLP learns which of two spirals a point lies on; prints its accuracy.
use rustytorch::{self as torch, prelude::*};

/// Points of two spirals that wind around each other, and which one each belongs to.
fn spirals(n: usize) -> (Tensor, Tensor) {
    let turn = torch::arange(0..n as i64).to(F32) / n as f64;
    let points = |sign: f64| {
        let angle = (&turn * 7.0).sqrt() * 3.0;
        let radius = (&turn * 7.0).sqrt() * sign;
        torch::stack(&[&radius * angle.cos(), &radius * angle.sin()], 1)
    };
    let labels = torch::cat(&[torch::zeros(n), torch::ones(n)], 0).to(I64);
    (torch::cat(&[points(1.0), points(-1.0)], 0), labels)
}

fn main() -> Result<()> {
    torch::manual_seed(0);
    let (x, y) = spirals(200);
    let net = seq![nn::Linear::new(2, 64), nn::Tanh, nn::Linear::new(64, 64), nn::Tanh, nn::Linear::new(64, 2)];
    let steps = 400;
    let lr = optim::Cosine::new(1e-2, steps).warmup(20);
    let mut opt = optim::AdamW::new(net.parameters(), lr.at(0));
    for step in 0..steps {
        opt.set_lr(lr.at(step));
        let loss = F::cross_entropy(&net.forward(&x), &y);
        opt.zero_grad();
        loss.backward();
        opt.step()?;
        if step % 100 == 99 {
            println!("step {:3}  loss {:.4}", step + 1, loss.item::<f32>()?);
        }
    }
    let right: f32 = net.forward(&x).argmax(-1).eq(&y).to(F32).mean(..).item()?;
    println!("{:.1} % of the points are right", 100.0 * right);
    assert!(right > 0.97, "the spirals are learned: {right}");
    Ok(())
}
