//! A critic whose slope is held under 1 (Gulrajani et al., arXiv:1704.00028): a gradient inside a loss.
use rustytorch::{self as torch, Grad, prelude::*};

fn main() -> Result<()> {
    torch::manual_seed(0);
    let critic = seq![nn::Linear::new(1, 32), nn::Tanh, nn::Linear::new(32, 1)];
    let mut opt = optim::Adam::new(critic.parameters(), 1e-2);
    // Two heaps of numbers, 3 apart: the critic that is 1 steeper at most tells them apart by 3.
    let (a, b) = (torch::randn([256, 1]) * 0.1, torch::randn([256, 1]) * 0.1 + 3.0);
    for _ in 0..300 {
        let part = torch::rand([256, 1]);
        let between = (&a * &part + &b * (1.0 - &part)).requires_grad_();
        let [slope] = Grad::of(&critic.forward(&between).sum(..)).create_graph().wrt([&between]);
        // One-sided: a critic that starts with the wrong sign has no barrier to cross.
        let penalty = (slope.abs() - 1.0).relu().square().mean(..);
        let loss = critic.forward(&a).mean(..) - critic.forward(&b).mean(..) + penalty * 20.0;
        opt.zero_grad();
        loss.backward();
        opt.step()?;
    }
    let distance = (critic.forward(&b).mean(..) - critic.forward(&a).mean(..)).item::<f32>()?;
    println!("the critic says that they are {distance:.2} apart (3 is right)");
    assert!((distance - 3.0).abs() < 0.4, "{distance}");
    Ok(())
}
