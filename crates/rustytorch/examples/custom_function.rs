//! A function with a gradient of its own: rounding that lets gradients through trains weights of -1 and 1.
use rustytorch::{
    self as torch,
    autograd::{Function, Saved},
    prelude::*,
};

/// The sign going forward; going back, the gradient passes where the weight is within 1 of 0.
struct Binarize;
impl Function<1> for Binarize {
    fn forward(&self, saved: &mut Saved, [w]: [&Tensor; 1]) -> Tensor {
        saved.save(w);
        w.ge(0).if_else(torch::ones_like(w), -1.0)
    }
    fn backward(&self, saved: &Saved, grad: &Tensor) -> [Option<Tensor>; 1] {
        [Some(saved.get(0).abs().le(1.0).if_else(grad, 0.0))]
    }
}

fn main() -> Result<()> {
    torch::manual_seed(0);
    let target = tensor!([1., -1., -1., 1., -1., 1., 1., -1.]);
    let weight = Param::new(torch::rand(8) - 0.5);
    let mut opt = optim::SGD::new(vec![weight.tie()], 0.05);
    for _ in 0..200 {
        let x = torch::randn([32, 8]);
        let w = Binarize.apply([&weight]);
        let loss = F::mse_loss(&(&x * w).sum(-1), &(&x * &target).sum(-1));
        opt.zero_grad();
        loss.backward();
        opt.step()?;
    }
    let found = Binarize.apply([&weight]).to_vec::<f32>()?;
    println!("found {found:?}");
    assert_eq!(found, target.to_vec::<f32>()?);
    Ok(())
}
