//! A convolutional network tells circles, squares and crosses apart, wherever they are in a noisy picture.
use rustytorch::{self as torch, prelude::*};

const SIDE: i64 = 16;
const SHAPES: usize = 3;

/// Pictures `[n, 1, SIDE, SIDE]` with one shape each, and which shape it is.
fn pictures(n: usize) -> (Tensor, Tensor) {
    let labels = torch::randint(0..SHAPES as i64, n);
    let place = |_: &str| (torch::rand([n, 1, 1]) * 8.0 + 4.0).round();
    let size = (torch::rand([n, 1, 1]) * 2.0 + 2.0).round();
    let line = torch::arange(0..SIDE).to(F32);
    // How far each pixel is from the middle, down and across.
    let dy = (line.reshape((1, SIDE, 1)) - place("down")).abs();
    let dx = (line.reshape((1, 1, SIDE)) - place("across")).abs();
    let far = (&dy * &dy + &dx * &dx).sqrt();
    let rim = |distance: &Tensor| (distance - &size).abs().lt(0.6);
    let larger = dy.maximum(&dx);
    let circle = rim(&far);
    let square = rim(&larger);
    let cross = dy.minimum(&dx).lt(0.5).logical_and(larger.le(&size));
    let which = |k: i64| labels.eq(k).reshape((n, 1, 1));
    let shape = which(0).if_else(circle, which(1).if_else(square, cross)).to(F32);
    let noise = torch::randn(shape.shape()) * 0.2;
    ((shape + noise).unsqueeze(1), labels)
}

#[derive(Module)]
struct Net {
    features: nn::Sequential,
    head: nn::Linear,
}
impl Net {
    fn new() -> Self {
        let features = seq![
            nn::Conv2d::new(1, 8, 3).padding(1).no_bias(),
            nn::BatchNorm2d::new(8),
            nn::ReLU,
            nn::MaxPool2d::new(2),
            nn::Conv2d::new(8, 16, 3).padding(1),
            nn::ReLU,
            nn::MaxPool2d::new(2),
            nn::Flatten::new()
        ];
        Self { features, head: nn::Linear::new(16 * 4 * 4, SHAPES) }
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        self.head.forward(&self.features.forward(x))
    }
}

/// The part of new pictures that it names right.
fn accuracy(net: &Net) -> Result<f32> {
    net.eval();
    let (x, labels) = pictures(256);
    let right = torch::no_grad(|| net.forward(&x).argmax(-1).eq(&labels).to(F32).mean(..));
    net.train();
    right.item()
}

fn main() -> Result<()> {
    torch::manual_seed(0);
    let net = Net::new();
    println!("{} parameters", net.num_parameters());
    let mut opt = optim::AdamW::new(net.parameters(), 3e-3);
    for step in 0..150 {
        let (x, labels) = pictures(32);
        let loss = F::cross_entropy(&net.forward(&x), &labels);
        opt.zero_grad();
        loss.backward();
        opt.step()?;
        if step % 50 == 49 {
            println!("step {:3}  loss {:.3}  right {:.1} %", step + 1, loss.item::<f32>()?, 100.0 * accuracy(&net)?);
        }
    }
    let right = accuracy(&net)?;
    assert!(right > 0.9, "shapes are told apart: {right}");
    Ok(())
}
