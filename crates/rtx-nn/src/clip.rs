//! Clipping gradients.
use crate::Param;
use rtx_tensor::{Tensor, no_grad, zeros};

/// Scales all gradients so that their common 2-norm is `max_norm` at most: g · min(1, max_norm / (norm + 1e-6)), as
/// PyTorch does it. Returns the norm before; nothing is read, so nothing waits.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let w = nn::Param::new(torch::ones([2]));
/// (&w * tensor!([3., 4.])).sum(..).backward();
/// let norm = nn::clip_grad_norm_(&[w.tie()], 1.);
/// assert_eq!(norm.item::<f32>()?, 5.); // it was 5; now the gradient is [0.6, 0.8]
/// # Ok::<(), torch::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_norm_(params: &[Param], max_norm: f64) -> Tensor {
    no_grad(|| {
        let grads: Vec<(&Param, Tensor)> = params.iter().filter_map(|p| Some((p, p.grad()?))).collect();
        let squares = grads.iter().map(|(_, g)| (g * g).sum(..));
        let norm = squares.reduce(|a, b| a + b).unwrap_or_else(|| zeros(())).sqrt();
        let scale = (max_norm / (&norm + 1e-6)).minimum(1.0);
        for (p, g) in grads {
            p.set_grad(Some(g * &scale));
        }
        norm
    })
}

/// Cuts each number of all gradients to within `max` of 0. Nothing is read, so nothing waits.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let w = nn::Param::new(torch::ones([2]));
/// (&w * tensor!([3., -4.])).sum(..).backward();
/// nn::clip_grad_value_(&[w.tie()], 1.);
/// assert_eq!(w.grad().expect("of w").to_vec::<f32>()?, [1., -1.]);
/// # Ok::<(), torch::Error>(())
/// ```
#[track_caller]
pub fn clip_grad_value_(params: &[Param], max: f64) {
    no_grad(|| {
        for (p, g) in params.iter().filter_map(|p| Some((p, p.grad()?))) {
            p.set_grad(Some(g.clamp(-max, max)));
        }
    });
}
