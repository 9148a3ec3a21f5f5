//! Prints GFLOP/s of gemm on the shapes of training, beside the fma rate of the same cores in the same run:
//! `cargo run --release -p rtx-kernel-cpu --example gemm_rate [NAME | MxNxK[nn|nt|tn]]…`.
#![allow(unsafe_code, reason = "launches take raw buffers, and the peak is measured with intrinsics")]

use rtx_cpu::{CpuDevice, pool};
use rtx_hal::{Block, Code, Device, ErrorSlot, KernelSource, Lang, Launch};
use std::sync::Arc;
use std::time::Instant;

/// Rounds of one measurement; the fastest is printed, because other programs only ever slow a round down.
const ROUNDS: usize = 15;
/// A round lasts at least this long.
const ROUND_SECONDS: f64 = 0.01;

/// `C[b, m, n] = A[b, m, k] · B[b, k, n]`, each operand row-major or transposed.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    batch: i64,
    m: i64,
    n: i64,
    k: i64,
    a_transposed: bool,
    b_transposed: bool,
}

const fn shape(name: &'static str, batch: i64, [m, n, k]: [i64; 3], layout: [bool; 2]) -> Shape {
    Shape { name, batch, m, n, k, a_transposed: layout[0], b_transposed: layout[1] }
}

const NN: [bool; 2] = [false, false];
const NT: [bool; 2] = [false, true];
const TN: [bool; 2] = [true, false];

const SHAPES: &[Shape] = &[
    shape("Y = X Wt", 1, [3072, 512, 128], NT),
    shape("dX = dY W", 1, [3072, 128, 512], NN),
    shape("dW = dYt X", 1, [512, 128, 3072], TN),
    shape("Y = X Wt, square", 1, [3072, 128, 128], NT),
    shape("Y = X Wt, down", 1, [3072, 128, 512], NT),
    shape("dW, down", 1, [128, 512, 3072], TN),
    shape("dW, square", 1, [128, 128, 3072], TN),
    shape("logits", 1, [3072, 16, 128], NT),
    shape("dX, logits", 1, [3072, 128, 16], NN),
    shape("dW, logits", 1, [16, 128, 3072], TN),
    shape("dW, 14 rows", 1, [14, 128, 3072], TN),
    shape("nano qkv", 1, [2048, 384, 128], NT),
    shape("nano qkv dX", 1, [2048, 128, 384], NN),
    shape("nano qkv dW", 1, [384, 128, 2048], TN),
    shape("nano proj", 1, [2048, 128, 128], NT),
    shape("nano proj dX", 1, [2048, 128, 128], NN),
    shape("nano proj dW", 1, [128, 128, 2048], TN),
    shape("nano up", 1, [2048, 512, 128], NT),
    shape("nano up dX", 1, [2048, 128, 512], NN),
    shape("nano up dW", 1, [512, 128, 2048], TN),
    shape("nano down", 1, [2048, 128, 512], NT),
    shape("nano down dX", 1, [2048, 512, 128], NN),
    shape("nano down dW", 1, [128, 512, 2048], TN),
    shape("mini qkv", 1, [2048, 1152, 384], NT),
    shape("mini qkv dX", 1, [2048, 384, 1152], NN),
    shape("mini qkv dW", 1, [1152, 384, 2048], TN),
    shape("mini up", 1, [2048, 1536, 384], NT),
    shape("mini up dX", 1, [2048, 384, 1536], NN),
    shape("mini up dW", 1, [1536, 384, 2048], TN),
    shape("mlp", 1, [64, 256, 784], NT),
    shape("mlp dW", 1, [256, 784, 64], TN),
    shape("mlp out", 1, [64, 10, 256], NT),
    shape("mlp out dX", 1, [64, 256, 10], NN),
    shape("mlp out dW", 1, [10, 256, 64], TN),
    shape("flat", 1, [64, 256, 784], NN),
    shape("small", 1, [48, 48, 48], NN),
    shape("small", 1, [64, 64, 64], NN),
    shape("small", 1, [96, 96, 96], NN),
    shape("small", 1, [128, 128, 128], NN),
    shape("scores", 512, [24, 24, 32], NT),
    shape("weighted", 512, [24, 32, 24], NN),
    shape("dK", 512, [24, 32, 24], TN),
    shape("square", 1, [1024, 1024, 1024], NN),
    shape("square Wt", 1, [1024, 1024, 1024], NT),
    shape("large", 1, [2048, 2048, 2048], NN),
    shape("gpt-2 up", 1, [512, 3072, 768], NT),
    shape("f64 Y = X Wt", 1, [3072, 512, 128], NT),
    shape("f64 dW", 1, [512, 128, 3072], TN),
    shape("f64 square", 1, [1024, 1024, 1024], NN),
    shape("row, Wt", 1, [1, 512, 128], NT),
    shape("row, W", 1, [1, 512, 128], NN),
    shape("long row, Wt", 1, [1, 4096, 4096], NT),
    shape("long row, W", 1, [1, 4096, 4096], NN),
];

fn main() {
    let cpu: Arc<dyn Device> = Arc::new(CpuDevice::new(rtx_kernel_cpu::natives()));
    println!("{} threads, {}", pool::threads(), rtx_cpu::isa().name());
    println!("{:<18} {:>5} {:>19}  {:>16} {:>16}", "f32, unless f64", "batch", "m x n x k", "1 thread", "2 threads");
    let peaks = [1, 2].map(|threads| with_threads(threads, || fma_peak(threads)));
    println!("{:<44}  {:>9.1} GFLOP/s {:>8.1} GFLOP/s", "fma peak", peaks[0], peaks[1]);
    let streams = [1, 2].map(|threads| with_threads(threads, || read_stream(threads)));
    println!("{:<44}  {:>9.1} GB/s {:>11.1} GB/s", "reading 64 MB", streams[0], streams[1]);
    let hand_off = with_threads(2, || seconds(|| pool::run(2, &|_| ())));
    println!("{:<44}  {:>43.2} us", "an empty job", hand_off * 1e6);
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let given = asked.iter().filter_map(|text| parse(text));
    let named = SHAPES.iter().filter(|s| asked.is_empty() || asked.iter().any(|name| s.name.contains(name.as_str())));
    for s in named.copied().chain(given) {
        let product = Product::new(&cpu, &s);
        let rates = [1, 2].map(|threads| with_threads(threads, || product.gflops()));
        let size = format!("{} x {} x {}", s.m, s.n, s.k);
        let share = |i: usize| 100.0 * rates[i] / peaks[i];
        let row = s.m == 1 && s.n * s.k >= 16 << 20;
        let of_stream =
            if row { format!(" ({:.0} % of the stream)", 200.0 * rates[1] / streams[1]) } else { String::new() };
        let micros = product.flops / rates[1] * 1e-3;
        let (one, two) = (share(0), share(1));
        let [a, b] = rates;
        println!(
            "{:<18} {:>5} {size:>19}  {a:>8.1} ({one:>3.0} %) {b:>8.1} ({two:>3.0} %) {micros:>9.1} us{of_stream}",
            s.name, s.batch
        );
    }
}

/// `MxNxK`, and `nt` where B lies transposed, `tn` where A does.
fn parse(text: &str) -> Option<Shape> {
    let (size, layout) = text.split_at(text.find(['n', 't']).unwrap_or(text.len()));
    let sizes: Vec<i64> = size.split('x').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let layout = match layout {
        "nn" | "" => NN,
        "nt" => NT,
        "tn" => TN,
        _ => return None,
    };
    Some(shape("given", 1, sizes.try_into().ok()?, layout))
}

fn with_threads<R>(threads: usize, f: impl FnOnce() -> R) -> R {
    pool::set_threads(threads);
    let result = f();
    pool::set_threads(0);
    result
}

/// Seconds of one call of `f` in the fastest round.
fn seconds(mut f: impl FnMut()) -> f64 {
    let mut time = |repeats: usize| {
        let start = Instant::now();
        (0..repeats).for_each(|_| f());
        start.elapsed().as_secs_f64()
    };
    time(1);
    let repeats = (ROUND_SECONDS / time(1).max(1e-7)).ceil() as usize;
    (0..ROUNDS).map(|_| time(repeats) / repeats as f64).fold(f64::INFINITY, f64::min)
}

struct Product {
    cpu: Arc<dyn Device>,
    code: Arc<dyn Code>,
    blocks: [Block; 3],
    sizes: Vec<i64>,
    flops: f64,
}

impl Product {
    fn new(cpu: &Arc<dyn Device>, s: &Shape) -> Self {
        let dtype = if s.name.starts_with("f64") { "f64" } else { "f32" };
        let source = KernelSource { name: s.name.into(), lang: Lang::Native, text: format!("gemm {dtype}") };
        let code = cpu.load(&source).expect("gemm is registered");
        let block = |elements: i64| {
            let values = (0..elements).map(|i| (i % 251) as f32 / 251.0 - 0.5);
            let values: Vec<u8> = match dtype {
                "f64" => values.flat_map(|x| f64::from(x).to_ne_bytes()).collect(),
                _ => values.flat_map(f32::to_ne_bytes).collect(),
            };
            let block = Block::new(cpu, values.len()).expect("memory for the example");
            // SAFETY: the block has room for the values.
            unsafe { cpu.write(block.ptr(), &values) }.expect("the CPU writes");
            block
        };
        let strides = |transposed: bool, rows: i64, columns: i64| {
            let [row, column] = if transposed { [1, rows] } else { [columns, 1] };
            [0, rows * columns, row, column]
        };
        let (a, b) = (strides(s.a_transposed, s.m, s.k), strides(s.b_transposed, s.k, s.n));
        let sizes = [&[1, s.batch, s.m, s.n, s.k], &a[..], &b[..], &strides(false, s.m, s.n)].concat();
        let blocks = [block(s.batch * s.m * s.k), block(s.batch * s.k * s.n), block(s.batch * s.m * s.n)];
        let flops = 2.0 * (s.batch * s.m * s.n * s.k) as f64;
        Self { cpu: cpu.clone(), code, blocks, sizes, flops }
    }

    fn gflops(&self) -> f64 {
        let buffers = [0, 1, 2].map(|i| self.blocks[i].ptr());
        let error = ErrorSlot::default();
        let launch = Launch { buffers: &buffers, sizes: &self.sizes, error: &error };
        // SAFETY: the blocks are as large as the sizes say.
        let run = || unsafe { self.cpu.launch(&*self.code, &launch) }.expect("the CPU launches");
        self.flops / seconds(run) * 1e-9
    }
}

/// GB/s of reading 64 MB once, each thread its share in eight streams.
fn read_stream(threads: usize) -> f64 {
    const FLOATS: usize = 16 << 20;
    let cpu: Arc<dyn Device> = Arc::new(CpuDevice::new(vec![]));
    let block = Block::new(&cpu, FLOATS * 4).expect("memory for the example");
    // SAFETY: the block has room for so many floats, and zero bytes are floats.
    let floats = unsafe {
        block.ptr().write_bytes(0, FLOATS * 4);
        std::slice::from_raw_parts(block.ptr().cast::<f32>(), FLOATS)
    };
    let read = |part: usize| {
        let share = &floats[FLOATS / threads * part..][..FLOATS / threads];
        #[cfg(target_arch = "x86_64")]
        if rtx_cpu::isa() == rtx_cpu::Isa::Avx512 {
            // SAFETY: the machine has the instruction set.
            std::hint::black_box(unsafe { sum_avx512(share) });
            return;
        }
        std::hint::black_box(sum(share));
    };
    FLOATS as f64 * 4e-9 / seconds(|| pool::run(threads, &read))
}

/// Eight streams, 256 bytes of each in turn, with what comes 4 KB later asked for.
#[inline(always)]
fn sum(share: &[f32]) -> [f32; 64] {
    let mut sums = [0f32; 64];
    let streams: Vec<&[f32]> = share.chunks_exact(share.len() / 8).collect();
    for at in (0..share.len() / 8).step_by(64) {
        for stream in &streams {
            #[cfg(target_arch = "x86_64")]
            for line in (0..64).step_by(16) {
                use std::arch::x86_64::*;
                // SAFETY: a prefetch never faults.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(stream.as_ptr().wrapping_add(at + 1024 + line).cast()) }
            }
            for (sum, x) in sums.iter_mut().zip(&stream[at..at + 64]) {
                *sum += x;
            }
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn sum_avx512(share: &[f32]) -> [f32; 64] {
    sum(share)
}

/// Steps of the loop that measures the peak.
const PEAK_STEPS: usize = 200_000;

/// GFLOP/s of nothing but fmas on registers.
fn fma_peak(threads: usize) -> f64 {
    let flops = std::sync::Mutex::new(0.0);
    let time = seconds(|| {
        pool::run(threads, &|_| {
            let done = fmas();
            *flops.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = done;
        })
    });
    let each = *flops.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    threads as f64 * each / time * 1e-9
}

/// Runs the loop; how many operations that was.
fn fmas() -> f64 {
    #[cfg(target_arch = "x86_64")]
    match rtx_cpu::isa() {
        // SAFETY: the machine has the instruction set.
        rtx_cpu::Isa::Avx512 => return unsafe { fmas_avx512() },
        // SAFETY: as above.
        rtx_cpu::Isa::Avx2 => return unsafe { fmas_avx2() },
        rtx_cpu::Isa::Scalar => (),
    }
    let mut x = [1f32; 8];
    for _ in 0..PEAK_STEPS {
        x = std::hint::black_box(x).map(|x| x.mul_add(0.999, 0.001));
    }
    (2 * 8 * PEAK_STEPS) as f64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn fmas_avx512() -> f64 {
    use std::arch::x86_64::*;
    let mut x = std::hint::black_box([_mm512_set1_ps(1.0); 24]);
    let (by, plus) = (_mm512_set1_ps(0.999), _mm512_set1_ps(0.001));
    for _ in 0..PEAK_STEPS / 24 {
        for x in &mut x {
            *x = _mm512_fmadd_ps(*x, by, plus);
        }
    }
    std::hint::black_box(x);
    (2 * 16 * 24 * (PEAK_STEPS / 24)) as f64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn fmas_avx2() -> f64 {
    use std::arch::x86_64::*;
    let mut x = std::hint::black_box([_mm256_set1_ps(1.0); 12]);
    let (by, plus) = (_mm256_set1_ps(0.999), _mm256_set1_ps(0.001));
    for _ in 0..PEAK_STEPS / 12 {
        for x in &mut x {
            *x = _mm256_fmadd_ps(*x, by, plus);
        }
    }
    std::hint::black_box(x);
    (2 * 8 * 12 * (PEAK_STEPS / 12)) as f64
}
