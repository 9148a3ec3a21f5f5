//! Times on an NVIDIA GPU: row kernels against a copy, products, training steps. Each is checked by `cuda samples`
//! and `goldens train --device cuda`; here only the clock runs.
use crate::goldens::gpt::{Gpt, Sizes};
use rustytorch::{self as torch, Device, prelude::*};
use std::sync::Arc;
use std::time::Instant;

/// One thing to time: a name, bytes moved and operations done in one run, and how to make it.
struct Row {
    name: &'static str,
    work: fn() -> Work,
}

struct Work {
    bytes: f64,
    flops: f64,
    /// Tokens, samples, or 0.
    items: f64,
    rounds: usize,
    run: Box<dyn FnMut() -> Result<()>>,
}

const ROWS: &[Row] = &[
    Row { name: "copy_f32", work: || pointwise(F32, 2.0, |x| x + 1.0) },
    Row { name: "copy_bf16", work: || pointwise(BF16, 2.0, |x| x + 1.0) },
    Row { name: "gelu_bf16", work: || pointwise(BF16, 2.0, |x| F::gelu_tanh(x)) },
    Row { name: "chain8_bf16", work: || pointwise(BF16, 2.0, chain8) },
    Row { name: "softmax_f32", work: || pointwise(F32, 2.0, |x| x.softmax(-1)) },
    Row { name: "softmax_bf16", work: || pointwise(BF16, 2.0, |x| x.softmax(-1)) },
    Row { name: "layer_norm_bf16", work: || pointwise(BF16, 2.0, |x| F::layer_norm(x, 4096, None, None, 1e-5)) },
    Row { name: "row_sum_f32", work: || pointwise(F32, 1.0, |x| x.sum(-1)) },
    Row { name: "column_sum_f32", work: || pointwise(F32, 1.0, |x| x.sum(0)) },
    Row { name: "sum_all_f32", work: || pointwise(F32, 1.0, |x| x.sum(..)) },
    Row { name: "gemm_f32_4096", work: || gemm(F32, 4096) },
    Row { name: "gemm_bf16_4096", work: || gemm(BF16, 4096) },
    Row { name: "gemm_bf16_8192", work: || gemm(BF16, 8192) },
    Row { name: "mlp_mnist_step", work: mlp },
    Row { name: "gpt2_124m_train", work: || gpt2(false) },
    Row { name: "gpt2_124m_train_bf16", work: || gpt2(true) },
];

fn chain8(x: &Tensor) -> Tensor {
    let mut y = x + 0.0;
    for _ in 0..3 {
        y = &(&y * 1.01) + 0.5;
    }
    y
}

/// An op over 16384 × 4096 numbers; `passes` times their bytes is what has to move.
fn pointwise(dtype: DType, passes: f64, f: fn(&Tensor) -> Tensor) -> Work {
    let x = torch::randn([16384, 4096]).to(dtype);
    let bytes = 16384.0 * 4096.0 * dtype.size() as f64 * passes;
    let run = Box::new(move || {
        let _y = f(&x);
        torch::flush()
    });
    Work { bytes, flops: 0.0, items: 0.0, rounds: 20, run }
}

fn gemm(dtype: DType, n: usize) -> Work {
    let (a, b) = (torch::randn([n, n]).to(dtype), torch::randn([n, n]).to(dtype));
    let run = Box::new(move || {
        let _c = a.matmul(&b);
        torch::flush()
    });
    Work { bytes: 0.0, flops: 2.0 * (n as f64).powi(3), items: 0.0, rounds: 10, run }
}

fn mlp() -> Work {
    let net = seq![nn::Linear::new(784, 256), nn::ReLU, nn::Linear::new(256, 10)];
    let mut opt = optim::AdamW::new(net.parameters(), 1e-3);
    let x = torch::randn([64, 784]);
    let y = torch::from_slice(&(0..64).map(|i| i % 10).collect::<Vec<i64>>(), 64);
    let run = Box::new(move || {
        let loss = F::cross_entropy(&net.forward(&x), &y);
        opt.zero_grad();
        loss.backward();
        opt.step()
    });
    Work { bytes: 0.0, flops: 0.0, items: 64.0, rounds: 300, run }
}

fn gpt2(autocast: bool) -> Work {
    let batch = std::env::var("RTX_GPT2_BATCH").ok().and_then(|b| b.parse().ok()).unwrap_or(16);
    gpt(autocast, batch, Sizes { vocabulary: 50304, context: 1024, layers: 12, width: 768, heads: 12 })
}

fn gpt(autocast: bool, batch: usize, sizes: Sizes) -> Work {
    let model = Gpt::with(sizes);
    let mut opt = optim::AdamW::new(model.parameters(), 6e-4).betas(0.9, 0.95);
    let ids: Vec<i64> = (0..batch * (sizes.context + 1)).map(|i| (i * 7919 % sizes.vocabulary) as i64).collect();
    let tokens = torch::from_slice(&ids, [batch, sizes.context + 1]);
    let run = Box::new(move || {
        let loss = if autocast { torch::autocast(BF16, || model.loss(&tokens)) } else { model.loss(&tokens) };
        opt.zero_grad();
        loss.backward();
        nn::clip_grad_norm_(&model.parameters(), 1.0);
        opt.step()
    });
    let n = (batch * sizes.context) as f64;
    // Six times the parameters that multiply, and attention.
    let flops = n * (6.0 * 124e6 + 12.0 * 12.0 * 768.0 * 1024.0);
    Work { bytes: 0.0, flops, items: n, rounds: 5, run }
}

/// Training steps of the models that are timed, small ones: in f32 and in halves.
///
/// # Errors
/// What the device says.
pub(crate) fn training_programs() -> Result<()> {
    let sizes = Sizes { vocabulary: 1024, context: 128, layers: 2, width: 256, heads: 4 };
    for autocast in [false, true] {
        (gpt(autocast, 4, sizes).run)()?;
    }
    (mlp().run)()
}

/// Times every row whose name contains one of `filters`.
///
/// # Errors
/// What the device says.
pub fn run(filters: &[&str]) -> Result<()> {
    let device = Device::cuda(0)?;
    torch::set_default_device(&device);
    device.describe().iter().for_each(|line| println!("{line}"));
    println!("{:22} {:>11} {:>11} {:>9} {:>9} {:>12}", "row", "first ms", "ms", "GB/s", "TFLOP/s", "items/s");
    for row in ROWS.iter().filter(|r| filters.is_empty() || filters.contains(&r.name)) {
        if let Err(e) = time(row, &device) {
            println!("{:22} {e}", row.name);
        }
        torch::empty_cache();
    }
    Ok(())
}

fn time(row: &Row, device: &Device) -> Result<()> {
    torch::manual_seed(0);
    let mut work = (row.work)();
    device.synchronize()?;
    let from = Instant::now();
    (work.run)()?;
    device.synchronize()?;
    let first = from.elapsed().as_secs_f64();
    for _ in 0..3 {
        (work.run)()?;
    }
    device.synchronize()?;
    let driver = rtx_device::cuda_driver(0)?;
    driver.take_profile();
    if std::env::var_os("RTX_CUDA_PROFILE").is_some() {
        (work.run)()?;
        device.synchronize()?;
        let all = driver.take_profile();
        println!("{}: {:.2} ms in kernels", row.name, all.iter().map(|k| k.2).sum::<f64>());
        all.iter().for_each(|(name, count, ms)| println!("  {ms:>9.3} ms {count:>4} x {name}"));
        return Ok(());
    }
    let before = torch::counters();
    let mut times = Vec::new();
    for _ in 0..5 {
        let from = Instant::now();
        for _ in 0..work.rounds {
            (work.run)()?;
        }
        device.synchronize()?;
        times.push(from.elapsed().as_secs_f64() / work.rounds as f64);
    }
    times.sort_by(f64::total_cmp);
    let s = times[times.len() / 2];
    let c = torch::counters();
    let launches = (c.kernel_runs - before.kernel_runs) as f64 / (5 * work.rounds) as f64;
    println!(
        "{:22} {:>11.2} {:>11.4} {:>9.0} {:>9.1} {:>12.0}  {launches:.0} launches, peak {:.2} GiB",
        row.name,
        first * 1e3,
        s * 1e3,
        work.bytes / s / 1e9,
        work.flops / s / 1e12,
        work.items / s,
        torch::memory().peak_bytes as f64 / f64::from(1 << 30)
    );
    torch::reset_peak_memory();
    Ok(())
}

/// What a step of GPT-2 124 M in bf16 launches, on a GPU that need not be there, the most bytes first; and how many regions
/// it is. The process's default device is another one meanwhile.
///
/// # Errors
/// What has no plan on a GPU.
pub fn counted() -> Result<(Vec<rtx_cuda::Counted>, u64)> {
    let driver = Arc::new(rtx_cuda::PaperDevice::new("sm_90a", 132, rtx_kernel_cuda::templates()));
    let executor = rtx_runtime::Executor::new(driver.clone(), Arc::new(rtx_device::cuda_compiler()));
    let device = Device::from(executor.clone());
    let before = torch::default_device();
    torch::set_default_device(&device);
    let mut work = gpt2(true);
    let mut regions = 0;
    for _ in 0..3 {
        device.synchronize()?;
        driver.take();
        regions = executor.counters().flushes.iter().sum();
        (work.run)()?;
    }
    device.synchronize()?;
    regions = executor.counters().flushes.iter().sum::<u64>() - regions;
    torch::set_default_device(&before);
    Ok((driver.take(), regions))
}

/// Prints what a step of GPT-2 124 M in bf16 launches: a line a kernel and its sizes, the most bytes first. Needs no GPU.
///
/// # Errors
/// What has no plan on a GPU.
pub fn launches() -> Result<()> {
    let (all, regions) = counted()?;
    let (launches, bytes) = all.iter().fold((0, 0), |(n, b), c| (n + c.launches, b + c.runs * c.bytes));
    println!("{launches} launches in {regions} regions, {:.1} GB in tile programs", bytes as f64 / 1e9);
    for c in all {
        println!("  {:>9.1} MB {:>4} x {:>2} {}", c.bytes as f64 / 1e6, c.runs, c.launches / c.runs, c.name);
    }
    Ok(())
}
