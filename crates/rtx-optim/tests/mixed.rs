//! Mixed precision: halves train, and steps whose gradients overflow are skipped on the device.
use rtx_core::DType::{self, BF16, F16, F32};
use rtx_nn::Param;
use rtx_optim::{AdamW, GradScaler, Optimizer, SGD};
use rtx_tensor::{self as torch, Tensor, autocast};

/// A small network with fixed weights: 4 inputs, 8 hidden, 1 output.
struct Net {
    w: [Param; 2],
    b: [Param; 2],
}
impl Net {
    fn new(dtype: DType) -> Self {
        let matrix = |rows: usize, cols: usize| {
            let values: Vec<f32> = (0..rows * cols).map(|i| ((i * 37 % 19) as f32 - 9.0) / 18.0).collect();
            Param::new(torch::from_slice(&values, (rows, cols)).to(dtype))
        };
        let zeros = |n: usize| Param::new(torch::zeros(n).to(dtype));
        Net { w: [matrix(8, 4), matrix(1, 8)], b: [zeros(8), zeros(1)] }
    }
    fn params(&self) -> Vec<Param> {
        self.w.iter().chain(&self.b).map(Param::tie).collect()
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let hidden = torch::functional::linear(x, &self.w[0], Some(&self.b[0])).tanh();
        torch::functional::linear(&hidden, &self.w[1], Some(&self.b[1]))
    }
}
fn data() -> (Tensor, Tensor) {
    let x: Vec<f32> = (0..64).map(|i| ((i * 29 % 31) as f32 - 15.0) / 15.0).collect();
    let y: Vec<f32> = x.chunks(4).map(|r| 0.5 * r[0] - r[1] * r[2] + 0.25 * r[3]).collect();
    (torch::from_slice(&x, (16, 4)), torch::from_slice(&y, (16, 1)))
}
fn loss(net: &Net, low: DType) -> Tensor {
    let (x, y) = data();
    let predicted = autocast(low, || net.forward(&x));
    assert_eq!(predicted.dtype(), low);
    (predicted.to(F32) - y).square().mean(..)
}

#[test]
fn a_small_network_trains_in_both_halves() {
    for low in [BF16, F16] {
        let net = Net::new(F32);
        let mut optimizer = AdamW::new(net.params(), 0.02);
        let mut scaler = GradScaler::new().init_scale(1024.0);
        let first: f32 = loss(&net, low).item().expect("runs");
        for _ in 0..80 {
            optimizer.zero_grad();
            scaler.scale(&loss(&net, low)).backward();
            scaler.step(&mut optimizer).expect("steps");
            scaler.update().expect("updates");
        }
        let last: f32 = loss(&net, low).item().expect("runs");
        assert!(last < 0.2 * first, "{low}: from {first} to {last}");
        assert!(net.params().iter().all(|p| p.dtype() == F32));
    }
}

#[test]
fn parameters_that_are_halves_train_too() {
    let net = Net::new(BF16);
    let mut optimizer = SGD::new(net.params(), 0.1).momentum(0.9);
    let (x, y) = data();
    let loss = || (net.forward(&x.to(BF16)).to(F32) - &y).square().mean(..);
    let first: f32 = loss().item().expect("runs");
    for _ in 0..60 {
        optimizer.zero_grad();
        loss().backward();
        optimizer.step().expect("steps");
    }
    let last: f32 = loss().item().expect("runs");
    assert!(last < 0.3 * first, "from {first} to {last}");
    assert!(net.params().iter().all(|p| p.dtype() == BF16 && p.to(F32).isfinite().all(..).item().expect("runs")));
}

#[test]
fn an_overflow_skips_the_step_and_halves_the_scale() {
    let net = Net::new(F32);
    let mut optimizer = AdamW::new(net.params(), 0.02);
    let mut scaler = GradScaler::new().init_scale(f64::from(f32::MAX)).growth_interval(3);
    let read = || net.params().iter().map(|p| p.to_vec::<f32>().expect("runs")).collect::<Vec<_>>();
    let before = read();
    let mut train = |scaler: &mut GradScaler| {
        optimizer.zero_grad();
        scaler.scale(&loss(&net, F16)).backward();
        scaler.step(&mut optimizer).expect("steps");
        scaler.update().expect("updates");
        optimizer.state_dict()["step.0"].item::<i64>().expect("runs")
    };
    assert_eq!(train(&mut scaler), 0, "a skipped step is not counted");
    assert_eq!(read(), before);
    assert_eq!(scaler.get_scale().expect("runs"), f32::MAX / 2.0);
    // Down to where gradients fit; then three good steps, and the scale grows.
    scaler = GradScaler::new().init_scale(256.0).growth_interval(3);
    assert_eq!((train(&mut scaler), train(&mut scaler), train(&mut scaler)), (1, 2, 3));
    assert_ne!(read(), before);
    assert_eq!(scaler.get_scale().expect("runs"), 512.0);
    let state = scaler.state_dict();
    let mut other = GradScaler::new();
    other.load_state_dict(&state).expect("fits");
    assert_eq!(other.get_scale().expect("runs"), 512.0);
}

#[test]
fn what_is_used_wrongly_says_so() {
    let net = Net::new(F32);
    let (mut optimizer, mut scaler) = (SGD::new(net.params(), 0.1), GradScaler::new());
    assert_eq!(scaler.update().expect_err("no step").message(), "update: no step was made since the last one");
    scaler.scale(&loss(&net, F16)).backward();
    scaler.unscale(&optimizer).expect("once");
    let twice = scaler.unscale(&optimizer).expect_err("twice");
    assert_eq!(twice.message(), "unscale: the gradients are unscaled already");
    scaler.step(&mut optimizer).expect("steps");
}
