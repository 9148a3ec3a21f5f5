//! First values of parameters: PyTorch's `torch.nn.init`.
use rtx_tensor::{Tensor, from_slice, no_grad, rand, randn};

/// Uniform in `low..high`.
pub fn uniform(shape: &[usize], low: f64, high: f64) -> Tensor {
    rand(shape) * (high - low) + low
}

/// One number everywhere. Made on the host, so that each parameter has memory of its own from the start: equal
/// constants of a region would share theirs, and the first training step would need a plan that copies them.
pub fn constant(shape: &[usize], value: f64) -> Tensor {
    from_slice(&vec![value as f32; shape.iter().product()], shape)
}

/// Fills `t` from the normal distribution. What it held before is never computed.
pub fn normal_(t: &Tensor, mean: f64, std: f64) {
    fill(t, randn(t.shape()) * std + mean);
}

/// Fills `t` uniformly in `low..high`.
pub fn uniform_(t: &Tensor, low: f64, high: f64) {
    fill(t, uniform(&t.shape(), low, high));
}

/// Fills `t` with one number.
pub fn constant_(t: &Tensor, value: f64) {
    fill(t, constant(&t.shape(), value));
}

/// Fills `t` with zeros.
pub fn zeros_(t: &Tensor) {
    constant_(t, 0.0);
}

/// Fills a weight `[outputs, inputs]` uniformly within √(6 / (inputs + outputs)) (Glorot and Bengio, 2010).
#[track_caller]
pub fn xavier_uniform_(t: &Tensor) {
    let [outputs, inputs] = t.dims();
    let bound = (6.0 / (inputs + outputs) as f64).sqrt();
    uniform_(t, -bound, bound);
}

/// Fills a weight `[outputs, inputs]` from N(0, 2 / inputs), for layers that ReLU follows (He et al., 2015).
#[track_caller]
pub fn kaiming_normal_(t: &Tensor) {
    let [_, inputs] = t.dims();
    normal_(t, 0.0, (2.0 / inputs as f64).sqrt());
}

fn fill(t: &Tensor, value: Tensor) {
    no_grad(|| t.set_data(&value.to(t.dtype())));
}
