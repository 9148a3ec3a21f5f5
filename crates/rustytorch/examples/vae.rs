//! A variational autoencoder (Kingma and Welling, arXiv:1312.6114) of bars of light; prints its loss and a sample.
use rustytorch::{self as torch, prelude::*};

const SIDE: usize = 8;
const HIDDEN: usize = 4;

#[derive(Module)]
struct Vae {
    encoder: nn::Sequential,
    mean: nn::Linear,
    log_variance: nn::Linear,
    decoder: nn::Sequential,
}
impl Vae {
    fn new() -> Self {
        Self {
            encoder: seq![nn::Linear::new(SIDE * SIDE, 64), nn::ReLU],
            mean: nn::Linear::new(64, HIDDEN),
            log_variance: nn::Linear::new(64, HIDDEN),
            decoder: seq![nn::Linear::new(HIDDEN, 64), nn::ReLU, nn::Linear::new(64, SIDE * SIDE)],
        }
    }
    /// The bound on -log p(x) that is trained, per picture.
    fn loss(&self, x: &Tensor) -> Tensor {
        let h = self.encoder.forward(x);
        let (mean, log_variance) = (self.mean.forward(&h), self.log_variance.forward(&h));
        // The draw is apart from what is trained: mean + deviation · noise.
        let z = &mean + (&log_variance * 0.5).exp() * torch::randn(mean.shape());
        let logits = self.decoder.forward(&z);
        let reconstruction = (logits.softplus() - x * &logits).sum(-1);
        let divergence = (&mean * &mean + log_variance.exp() - &log_variance - 1.0).sum(-1) * 0.5;
        (reconstruction + divergence).mean(..)
    }
}

/// Pictures with one bright row or column each.
fn bars(batch: usize) -> Tensor {
    let lines = F::one_hot(&torch::randint(0..SIDE as i64, batch), SIDE).to(F32);
    let across = torch::rand([batch, 1, 1]).lt(0.5);
    let (rows, columns) = (lines.reshape((batch, SIDE, 1)), lines.reshape((batch, 1, SIDE)));
    across.if_else(rows, columns).expand([batch, SIDE, SIDE]).reshape((batch, -1))
}

fn main() -> Result<()> {
    torch::manual_seed(0);
    let model = Vae::new();
    let mut opt = optim::Adam::new(model.parameters(), 3e-3);
    let mut first = None;
    let mut last = 0.0;
    for step in 0..600 {
        let loss = model.loss(&bars(64));
        opt.zero_grad();
        loss.backward();
        opt.step()?;
        if step % 150 == 0 || step == 599 {
            last = loss.item::<f32>()?;
            first.get_or_insert(last);
            println!("step {step:3}  loss {last:.2}");
        }
    }
    let sample = model.decoder.forward(&torch::randn([1, HIDDEN])).sigmoid().to_vec::<f32>()?;
    for row in sample.chunks(SIDE) {
        println!("{}", row.iter().map(|&p| if p > 0.5 { "█" } else { "·" }).collect::<String>());
    }
    assert!(last < 0.5 * first.unwrap_or(0.0), "pictures are told apart: {last}");
    Ok(())
}
