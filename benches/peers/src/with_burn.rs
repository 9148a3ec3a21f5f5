//! The rows in burn, on its back end `flex`.
use crate::{Result, Work, integers};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{LayerNormConfig, Linear, LinearConfig};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer, SgdConfig};
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData, activation};
use std::hint::black_box;

/// What a row runs; `None` for a row that is not here.
pub fn row(name: &str) -> Result<Option<Work>> {
    let image = [4096, 1024];
    Ok(Some(match name {
        "gemm_1024" => gemm(1024, 1024, 1024),
        "gemm_128" => gemm(128, 128, 128),
        "gemm_64x256x784" => gemm(64, 256, 784),
        "chain8" => {
            let (x, y) = (drawn(image), drawn(image));
            each(move || {
                let first = (x.clone() * 1.5 + y.clone()).tanh() * activation::sigmoid(y.clone());
                first + x.clone().abs().sqrt()
            })
        }
        "gelu" => over(drawn(image), activation::gelu_approximate),
        "softmax" => over(drawn(image), |x| activation::softmax(x, 1)),
        "layer_norm" => {
            let (x, norm) = (drawn(image), LayerNormConfig::new(1024).init(&Device::flex()));
            each(move || norm.forward(x.clone()))
        }
        "mlp_sgd" => mlp(SgdConfig::new().init(), 0.1),
        "mlp_adamw" => mlp(AdamWConfig::new().init(), 1e-3),
        _ => return Ok(None),
    }))
}

fn drawn(shape: [usize; 2]) -> Tensor<2> {
    Tensor::random(shape, Distribution::Normal(0.0, 1.0), &Device::flex())
}

fn each(f: impl Fn() -> Tensor<2> + 'static) -> Work {
    Box::new(move || {
        black_box(f());
        Ok(())
    })
}

fn over(x: Tensor<2>, f: fn(Tensor<2>) -> Tensor<2>) -> Work {
    each(move || f(x.clone()))
}

fn gemm(m: usize, n: usize, k: usize) -> Work {
    let (a, b) = (drawn([m, k]), drawn([k, n]));
    each(move || a.clone().matmul(b.clone()))
}

#[derive(Module, Debug)]
struct Mlp {
    first: Linear,
    second: Linear,
}

/// A training step of 784-256-10.
fn mlp(mut optimizer: ModuleOptimizer, rate: f64) -> Work {
    let device = Device::flex().autodiff();
    let (first, second) = (LinearConfig::new(784, 256).init(&device), LinearConfig::new(256, 10).init(&device));
    let mut net = Some(Mlp { first, second });
    let x: Tensor<2> = Tensor::random([64, 784], Distribution::Normal(0.0, 1.0), &device);
    let y: Tensor<1, Int> = Tensor::from_data(TensorData::from(integers(64, 10).as_slice()), &device);
    let loss = CrossEntropyLossConfig::new().init(&device);
    Box::new(move || {
        let model = net.take().ok_or("the step before failed")?;
        let logits = model.second.forward(activation::relu(model.first.forward(x.clone())));
        let value = loss.forward(logits, y.clone());
        let gradients = GradientsParams::from_grads(value.backward(), &model);
        net = Some(optimizer.step(rate, model, gradients));
        black_box(value.into_scalar::<f32>());
        Ok(())
    })
}
