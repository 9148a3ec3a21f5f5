//! First values of parameters: PyTorch's `torch.nn.init`.
//!
//! A weight is `[outputs, inputs, ..]`; what stands under the first two dims (a convolution's window) counts to both.
use rtx_core::Result;
use rtx_tensor::{Tensor, from_slice, no_grad, rand, randn};

/// Uniform in `low..high`.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = nn::init::uniform(&[2, 3], -0.5, 0.5);
/// assert!(w.abs().le(0.5).all(..).item::<bool>()?);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn uniform(shape: &[usize], low: f64, high: f64) -> Tensor {
    rand(shape) * (high - low) + low
}

/// One number everywhere. Made on the host, so that each parameter has memory of its own from the start: equal
/// constants of a region would share theirs, and the first training step would need a plan that copies them.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// assert_eq!(nn::init::constant(&[2], 0.5).to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn constant(shape: &[usize], value: f64) -> Tensor {
    from_slice(&vec![value as f32; shape.iter().product()], shape)
}

/// Fills `t` from the normal distribution. What it held before is never computed.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::normal_(&w, 0., 0.02);
/// assert!(w.abs().sum(..).item::<f32>()? > 0.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn normal_(t: &Tensor, mean: f64, std: f64) {
    fill(t, randn(t.shape()) * std + mean);
}

/// Fills `t` uniformly in `low..high`.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::uniform_(&w, -0.5, 0.5);
/// assert!(w.abs().le(0.5).all(..).item::<bool>()?);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn uniform_(t: &Tensor, low: f64, high: f64) {
    fill(t, uniform(&t.shape(), low, high));
}

/// Fills `t` from the normal distribution, cut off below `low` and above `high`: by the inverse of the distribution
/// function, as PyTorch's first version did it.
///
/// # Errors
/// When random numbers cannot be read.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::trunc_normal_(&w, 0., 1., -2., 2.)?;
/// assert!(w.abs().le(2).all(..).item::<bool>()?);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn trunc_normal_(t: &Tensor, mean: f64, std: f64, low: f64, high: f64) -> Result<()> {
    let [from, to] = [low, high].map(|x| rational_cdf((x - mean) / std));
    let parts = rand(t.shape()).to_vec::<f32>()?;
    let values: Vec<f32> = parts
        .iter()
        .map(|&u| (mean + std * normal_quantile(from + f64::from(u) * (to - from))).clamp(low, high) as f32)
        .collect();
    fill(t, from_slice(&values, t.shape()));
    Ok(())
}

/// Φ⁻¹(p), by halving.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-12.0, 12.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if rational_cdf(middle) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Φ(x) to 1.5e-7 (Abramowitz and Stegun, 26.2.17).
fn rational_cdf(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let sum =
        t * (0.319_381_530 + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt() * sum;
    if x < 0.0 { tail } else { 1.0 - tail }
}

/// Fills `t` with one number.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::constant_(&w, 2.);
/// assert_eq!(w.sum(..).item::<f32>()?, 48.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn constant_(t: &Tensor, value: f64) {
    fill(t, constant(&t.shape(), value));
}

/// Fills `t` with zeros.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::zeros_(&w);
/// assert_eq!(w.sum(..).item::<f32>()?, 0.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn zeros_(t: &Tensor) {
    constant_(t, 0.0);
}

/// Fills `t` with ones.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::ones_(&w);
/// assert_eq!(w.sum(..).item::<f32>()?, 24.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn ones_(t: &Tensor) {
    constant_(t, 1.0);
}

/// Fills a matrix with the identity's rows.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::eye_(&w);
/// assert_eq!(w.sum(..).item::<f32>()?, 4.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn eye_(t: &Tensor) {
    let [rows, columns] = t.dims();
    set(t, (0..rows.min(columns)).map(|i| i * columns + i));
}

/// Fills a convolution's weight so that it passes its input on, channel by channel: 1 in the middle of the window, for
/// each of `groups`.
///
/// # Panics
/// When the weight has fewer than 3 dims or `groups` does not divide its outputs.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([2, 2, 3]);
/// nn::init::dirac_(&w, 1);
/// assert_eq!(w.to_vec::<f32>()?, [0., 1., 0., 0., 0., 0., 0., 0., 0., 0., 1., 0.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn dirac_(t: &Tensor, groups: usize) {
    let shape = t.shape();
    assert!(shape.len() > 2, "dirac_: a convolution's weight has 3 dims or more, this has {shape:?}");
    assert!(shape[0].is_multiple_of(groups), "dirac_: {groups} groups do not divide {} outputs", shape[0]);
    let outputs = shape[0] / groups;
    let strides: Vec<usize> = (0..shape.len()).map(|i| shape[i + 1..].iter().product()).collect();
    let middle: usize = (2..shape.len()).map(|i| shape[i] / 2 * strides[i]).sum();
    let channels = outputs.min(shape[1]);
    let at = |(g, d): (usize, usize)| (g * outputs + d) * strides[0] + d * strides[1] + middle;
    set(t, (0..groups).flat_map(|g| (0..channels).map(move |d| (g, d))).map(at));
}

/// Zeros, and ones at these places.
fn set(t: &Tensor, ones: impl Iterator<Item = usize>) {
    let mut values = vec![0f32; t.numel()];
    ones.for_each(|i| values[i] = 1.0);
    fill(t, from_slice(&values, t.shape()));
}

/// Numbers that go into each output of a weight, and outputs that each input goes to.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// assert_eq!(nn::init::fan_in_and_out(&torch::zeros([8, 3, 5, 5])), (75, 200));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn fan_in_and_out(t: &Tensor) -> (usize, usize) {
    let shape = t.shape();
    assert!(shape.len() > 1, "fan: a weight has 2 dims or more, this has {shape:?}");
    let window: usize = shape[2..].iter().product();
    (shape[1] * window, shape[0] * window)
}

/// By which factor a layer's weights are larger so that what follows it keeps the variance; PyTorch's `calculate_gain`.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// assert_eq!(nn::init::Gain::ReLU.factor(), 2_f64.sqrt());
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gain {
    /// Nothing, or a sigmoid: 1.
    Linear,
    /// 5/3.
    Tanh,
    /// √2.
    ReLU,
    /// √(2 / (1 + slope²)).
    LeakyReLU(f64),
    /// 3/4.
    SELU,
}
impl Gain {
    /// The factor.
    pub fn factor(self) -> f64 {
        match self {
            Gain::Linear => 1.0,
            Gain::Tanh => 5.0 / 3.0,
            Gain::ReLU => 2f64.sqrt(),
            Gain::LeakyReLU(slope) => (2.0 / (1.0 + slope * slope)).sqrt(),
            Gain::SELU => 0.75,
        }
    }
}

/// Which side of a layer keeps its variance.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::kaiming_normal_with_(&w, nn::init::Gain::ReLU, nn::init::Fan::Out);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fan {
    /// What goes forward.
    #[default]
    In,
    /// What goes backward.
    Out,
}
impl Fan {
    #[track_caller]
    fn of(self, t: &Tensor) -> f64 {
        let (inputs, outputs) = fan_in_and_out(t);
        (if self == Fan::In { inputs } else { outputs }).max(1) as f64
    }
}

/// Fills a weight uniformly within √(6 / (inputs + outputs)) (Glorot and Bengio, 2010).
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::xavier_uniform_(&w);
/// assert!(w.abs().sum(..).item::<f32>()? > 0.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn xavier_uniform_(t: &Tensor) {
    let (inputs, outputs) = fan_in_and_out(t);
    let bound = (6.0 / (inputs + outputs) as f64).sqrt();
    uniform_(t, -bound, bound);
}

/// Fills a weight from N(0, gain² · 2 / (inputs + outputs)) (Glorot and Bengio, 2010).
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::xavier_normal_(&w, 1.);
/// assert!(w.abs().sum(..).item::<f32>()? > 0.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn xavier_normal_(t: &Tensor, gain: f64) {
    let (inputs, outputs) = fan_in_and_out(t);
    normal_(t, 0.0, gain * (2.0 / (inputs + outputs) as f64).sqrt());
}

/// Fills a weight from N(0, 2 / inputs), for layers that ReLU follows (He et al., arXiv:1502.01852).
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::kaiming_normal_(&w);
/// assert!(w.abs().sum(..).item::<f32>()? > 0.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn kaiming_normal_(t: &Tensor) {
    kaiming_normal_with_(t, Gain::ReLU, Fan::In);
}

/// Fills a weight uniformly within √(6 / inputs), for layers that ReLU follows (He et al., arXiv:1502.01852).
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::kaiming_uniform_(&w);
/// assert!(w.abs().sum(..).item::<f32>()? > 0.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn kaiming_uniform_(t: &Tensor) {
    kaiming_uniform_with_(t, Gain::ReLU, Fan::In);
}

/// [`kaiming_normal_`] for what follows, and for one side of the layer.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::kaiming_normal_with_(&w, nn::init::Gain::Tanh, nn::init::Fan::Out);
/// assert!(w.abs().sum(..).item::<f32>()? > 0.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn kaiming_normal_with_(t: &Tensor, gain: Gain, fan: Fan) {
    normal_(t, 0.0, gain.factor() / fan.of(t).sqrt());
}

/// [`kaiming_uniform_`] for what follows, and for one side of the layer.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::kaiming_uniform_with_(&w, nn::init::Gain::LeakyReLU(0.2), nn::init::Fan::In);
/// assert!(w.abs().sum(..).item::<f32>()? > 0.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn kaiming_uniform_with_(t: &Tensor, gain: Gain, fan: Fan) {
    let bound = gain.factor() * (3.0 / fan.of(t)).sqrt();
    uniform_(t, -bound, bound);
}

/// Fills a matrix (or the rows of a weight with more dims) with orthogonal rows or columns, whichever are fewer, times
/// `gain` (Saxe et al., arXiv:1312.6120): random directions made orthogonal one by one, in f64, on the host.
///
/// # Errors
/// When random numbers cannot be read.
///
/// # Panics
/// When it has fewer than 2 dims.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::orthogonal_(&w, 1.)?;
/// assert!((w.matmul(w.t()) - torch::eye(4)).abs().lt(1e-5).all(..).item::<bool>()?);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn orthogonal_(t: &Tensor, gain: f64) -> Result<()> {
    let shape = t.shape();
    assert!(shape.len() > 1, "orthogonal_: a weight has 2 dims or more, this has {shape:?}");
    let (rows, columns) = (shape[0], shape[1..].iter().product::<usize>());
    let (count, length) = (rows.min(columns), rows.max(columns));
    let draws: Vec<f64> = randn([count, length]).to_vec::<f32>()?.into_iter().map(f64::from).collect();
    let mut vectors: Vec<Vec<f64>> = draws.chunks(length.max(1)).map(<[f64]>::to_vec).collect();
    for i in 0..vectors.len() {
        // Twice: what the first pass leaves for rounding, the second takes.
        for _ in 0..2 {
            for j in 0..i {
                let (before, now) = vectors.split_at_mut(i);
                let part: f64 = before[j].iter().zip(&now[0]).map(|(a, b)| a * b).sum();
                now[0].iter_mut().zip(&before[j]).for_each(|(x, y)| *x -= part * y);
            }
        }
        let norm = vectors[i].iter().map(|x| x * x).sum::<f64>().sqrt();
        vectors[i].iter_mut().for_each(|x| *x /= norm);
    }
    let at = |row: usize, column: usize| if rows <= columns { vectors[row][column] } else { vectors[column][row] };
    let values: Vec<f32> = (0..rows * columns).map(|i| (gain * at(i / columns, i % columns)) as f32).collect();
    fill(t, from_slice(&values, shape));
    Ok(())
}

/// Fills a matrix from N(0, std²) with a part `sparsity` of each column zero (Martens, 2010).
///
/// # Errors
/// When random numbers cannot be read.
///
/// ```
/// # use rtx_nn::{self as nn, Module};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = torch::zeros([4, 6]);
/// nn::init::sparse_(&w, 0.5, 0.01)?;
/// assert_eq!(w.eq(0).to(torch::DType::I64).sum(..).item::<i64>()?, 12); // half of each column
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn sparse_(t: &Tensor, sparsity: f64, std: f64) -> Result<()> {
    let [rows, columns] = t.dims();
    let mut values = (randn([rows, columns]) * std).to_vec::<f32>()?;
    let zeros = ((sparsity * rows as f64).ceil() as usize).min(rows);
    for column in 0..columns {
        let order = rtx_tensor::randperm(rows).to_vec::<i64>()?;
        order[..zeros].iter().for_each(|&row| values[row as usize * columns + column] = 0.0);
    }
    fill(t, from_slice(&values, [rows, columns]));
    Ok(())
}

fn fill(t: &Tensor, value: Tensor) {
    no_grad(|| t.set_data(&value.to(t.dtype())));
}
