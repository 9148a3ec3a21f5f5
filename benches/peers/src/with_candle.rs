//! The rows in candle.
use crate::{Result, Work, integers};
use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Optimizer, SGD, VarBuilder, VarMap, linear, loss, ops};
use std::hint::black_box;

/// What a row runs; `None` for a row that is not here.
pub fn row(name: &str) -> Result<Option<Work>> {
    let image = (4096, 1024);
    Ok(Some(match name {
        "gemm_1024" => gemm(1024, 1024, 1024)?,
        "gemm_128" => gemm(128, 128, 128)?,
        "gemm_64x256x784" => gemm(64, 256, 784)?,
        "chain8" => {
            let (x, y) = (drawn(image)?, drawn(image)?);
            each(move || {
                let first = ((x.affine(1.5, 0.0)? + &y)?.tanh()? * ops::sigmoid(&y)?)?;
                first + x.abs()?.sqrt()?
            })
        }
        "gelu" => over(drawn(image)?, Tensor::gelu),
        "softmax" => over(drawn(image)?, ops::softmax_last_dim),
        "layer_norm" => {
            let (x, device) = (drawn(image)?, Device::Cpu);
            let (ones, zeros) = (Tensor::ones(1024, DType::F32, &device)?, Tensor::zeros(1024, DType::F32, &device)?);
            each(move || ops::layer_norm(&x, &ones, &zeros, 1e-5))
        }
        "mlp_sgd" => mlp(|vars| SGD::new(vars.all_vars(), 0.1))?,
        "mlp_adamw" => mlp(|vars| AdamW::new_lr(vars.all_vars(), 1e-3))?,
        _ => return Ok(None),
    }))
}

fn drawn(shape: (usize, usize)) -> candle_core::Result<Tensor> {
    Tensor::randn(0f32, 1f32, shape, &Device::Cpu)
}

fn each(f: impl Fn() -> candle_core::Result<Tensor> + 'static) -> Work {
    Box::new(move || {
        black_box(f()?);
        Ok(())
    })
}

fn over(x: Tensor, f: fn(&Tensor) -> candle_core::Result<Tensor>) -> Work {
    each(move || f(&x))
}

fn gemm(m: usize, n: usize, k: usize) -> Result<Work> {
    let (a, b) = (drawn((m, k))?, drawn((k, n))?);
    Ok(each(move || a.matmul(&b)))
}

/// A training step of 784-256-10.
fn mlp<O: Optimizer + 'static>(make: fn(&VarMap) -> candle_core::Result<O>) -> Result<Work> {
    let vars = VarMap::new();
    let builder = VarBuilder::from_varmap(&vars, DType::F32, &Device::Cpu);
    let (first, second) = (linear(784, 256, builder.pp("first"))?, linear(256, 10, builder.pp("second"))?);
    let mut optimizer = make(&vars)?;
    let x = drawn((64, 784))?;
    let y = Tensor::new(integers(64, 10), &Device::Cpu)?;
    Ok(Box::new(move || {
        let logits = second.forward(&first.forward(&x)?.relu()?)?;
        let value = loss::cross_entropy(&logits, &y)?;
        optimizer.backward_step(&value)?;
        black_box(value.to_scalar::<f32>()?);
        Ok(())
    }))
}
