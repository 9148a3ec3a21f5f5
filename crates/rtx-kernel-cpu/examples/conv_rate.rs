//! Prints GFLOP/s of convolutions and of their gradients on one thread, by the time that it really ran:
//! `cargo run --release -p rtx-kernel-cpu --example conv_rate`.
#![allow(unsafe_code, reason = "launches take raw buffers")]

use rtx_cpu::{CpuDevice, pool};
use rtx_hal::{Device, ErrorSlot, KernelSource, Lang, Launch};
use std::time::Instant;

/// Seconds that this thread ran; the clock's where Linux does not say.
fn seconds(start: Instant) -> f64 {
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = ran.and_then(|t| t.split_whitespace().next()?.parse::<f64>().ok());
    ran.map_or(start.elapsed().as_secs_f64(), |ns| ns * 1e-9)
}

/// Images `[n, groups · c, s, s]`, weights `[groups · o, c, w, w]`.
struct Shape {
    name: &'static str,
    groups: i64,
    n: i64,
    c: i64,
    o: i64,
    s: i64,
    w: i64,
    stride: i64,
    low: i64,
    high: i64,
    base: i64,
    dilation: i64,
}
const PLAIN: Shape =
    Shape { name: "", groups: 1, n: 8, c: 64, o: 64, s: 56, w: 3, stride: 1, low: 1, high: 1, base: 1, dilation: 1 };

const SHAPES: &[Shape] = &[
    Shape { name: "basic block", ..PLAIN },
    Shape { name: "basic block, dw", n: 64, c: 8, w: 56, ..PLAIN },
    Shape { name: "128, 28x28", c: 128, o: 128, s: 28, ..PLAIN },
    Shape { name: "128, 28x28, dw", n: 128, c: 8, o: 128, s: 28, w: 28, ..PLAIN },
    Shape { name: "256, 14x14", c: 256, o: 256, s: 14, ..PLAIN },
    Shape { name: "512, 7x7", c: 512, o: 512, s: 7, ..PLAIN },
    Shape { name: "512, 7x7, dw", n: 512, c: 8, o: 512, s: 7, w: 7, ..PLAIN },
    Shape { name: "64 to 128, by 2", o: 128, stride: 2, ..PLAIN },
    Shape { name: "64 to 128, by 2, dx", c: 128, o: 64, s: 28, base: 2, low: 1, high: 2, ..PLAIN },
    Shape { name: "64 to 128, by 2, dw", n: 64, c: 8, o: 128, w: 28, dilation: 2, high: 0, ..PLAIN },
    Shape { name: "64 to 256, 1x1", o: 256, w: 1, low: 0, high: 0, ..PLAIN },
    Shape { name: "first, 7x7 by 2", c: 3, s: 224, w: 7, stride: 2, low: 3, high: 3, ..PLAIN },
    Shape { name: "1 to 32, 28x28", n: 128, c: 1, o: 32, s: 28, ..PLAIN },
    Shape { name: "1 to 32, dw", n: 1, c: 128, o: 32, s: 28, w: 28, ..PLAIN },
    Shape { name: "32 to 64, 14x14", n: 128, c: 32, s: 14, ..PLAIN },
    Shape { name: "32 to 64, dx", n: 128, c: 64, o: 32, s: 14, ..PLAIN },
    Shape { name: "32 to 64, dw", n: 32, c: 128, s: 14, w: 14, ..PLAIN },
    Shape { name: "depthwise", groups: 64, c: 1, o: 1, ..PLAIN },
    Shape { name: "depthwise, dw", groups: 64, n: 1, c: 8, o: 1, w: 56, ..PLAIN },
    Shape { name: "means of 2x2", n: 2048, c: 1, o: 1, s: 28, w: 2, stride: 2, low: 0, high: 0, ..PLAIN },
    Shape { name: "means of 2x2, dx", n: 2048, c: 1, o: 1, s: 14, w: 2, base: 2, ..PLAIN },
];

fn main() {
    let device = CpuDevice::new(rtx_kernel_cpu::natives());
    pool::set_threads(1);
    let start = Instant::now();
    let filter = std::env::args().nth(1).unwrap_or_default();
    for s in SHAPES.iter().filter(|s| s.name.contains(&filter)) {
        let out = ((s.s - 1) * s.base + s.low + s.high - (s.w - 1) * s.dilation) / s.stride + 1;
        let twice = |n: i64| format!("{n} {n} ");
        let text = format!(
            "conv f32 2 {} {}{}{}{}",
            s.groups,
            twice(s.stride),
            twice(s.low),
            twice(s.base),
            twice(s.dilation)
        );
        let code = device.load(&KernelSource { name: s.name.into(), lang: Lang::Native, text }).expect("loads");
        let (image, window, points) = (s.s * s.s, s.w * s.w, out * out);
        let outs = s.groups * s.o;
        let sizes = [
            s.n,
            outs,
            s.c,
            s.s,
            s.s,
            s.w,
            s.w,
            out,
            out,
            s.groups * s.c * image,
            image,
            s.s,
            1,
            s.c * window,
            window,
            s.w,
            1,
            outs * points,
            points,
            1,
        ];
        let buffer = |n: i64| (0..n).map(|i| (i % 17) as f32 - 8.0).collect::<Vec<f32>>();
        let (mut x, mut w) = (buffer(s.n * s.groups * s.c * image), buffer(outs * s.c * window));
        let mut y = buffer(s.n * outs * points);
        let buffers = [x.as_mut_ptr().cast(), w.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
        let error = ErrorSlot::default();
        let launch = Launch { buffers: &buffers, sizes: &sizes, error: &error };
        let mut best = f64::MAX;
        for _ in 0..8 {
            let from = seconds(start);
            // SAFETY: the buffers are what the sizes say.
            unsafe { device.launch(&*code, &launch) }.expect("runs");
            best = best.min(seconds(start) - from);
        }
        let flops = 2 * s.n * outs * points * s.c * window;
        println!("{:22} {:8.3} ms {:7.1} GFLOP/s", s.name, best * 1e3, flops as f64 / best / 1e9);
    }
}
