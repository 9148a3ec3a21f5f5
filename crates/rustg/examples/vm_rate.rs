//! How fast the tile VM runs the kernels of a training step, beside memcpy in the same run: `vm_rate [threads] [part of a name]`.
#![allow(unsafe_code, reason = "runs kernels on raw pointers")]

use rustg::{Isa, Scratch, TileProg};
use std::time::Instant;

/// A kernel as text, its launch, and how many bytes it has to move.
struct Case {
    name: &'static str,
    text: String,
    sizes: Vec<i64>,
    /// Elements of each buffer.
    buffers: Vec<usize>,
    elements: usize,
    bytes: usize,
}

fn main() {
    let threads: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    let isa = Isa::from_env();
    println!("{} on {threads} thread(s)", isa.name());
    let copy = memcpy_rate();
    println!("memcpy 16 MiB: {copy:.1} GB/s (read + written)");
    let only = std::env::args().nth(2).unwrap_or_default();
    for case in cases().into_iter().filter(|c| c.name.contains(&only)) {
        let prog = TileProg::parse(&case.text).unwrap_or_else(|e| panic!("{}: {e}\n{}", case.name, case.text));
        let mut memory: Vec<Vec<Line>> = case.buffers.iter().enumerate().map(|(i, &n)| lines(n, i)).collect();
        let seconds = best_time(&prog, &mut memory, &case.sizes, isa, threads);
        let rate = case.bytes as f64 / seconds / 1e9;
        println!(
            "{:<28} {:>8.1} us  {:>6.2} Gelem/s  {:>6.1} GB/s  {:>4.0} % of memcpy",
            case.name,
            seconds * 1e6,
            case.elements as f64 / seconds / 1e9,
            rate,
            100.0 * rate / copy
        );
    }
}

fn fill(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + seed * 104729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

/// A cache line: kernels are given memory that begins with one.
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "read through pointers")] [f32; 16]);
fn lines(n: usize, seed: usize) -> Vec<Line> {
    fill(n.next_multiple_of(16), seed).as_chunks().0.iter().map(|&x| Line(x)).collect()
}

fn best_time(prog: &TileProg, memory: &mut [Vec<Line>], sizes: &[i64], isa: Isa, threads: usize) -> f64 {
    struct Buffers(Vec<*mut u8>);
    // SAFETY: items of one run write different elements.
    unsafe impl Sync for Buffers {}
    let buffers = Buffers(memory.iter_mut().map(|m| m.as_mut_ptr() as *mut u8).collect());
    let buffers = &buffers;
    let work = prog.work(sizes);
    let mut scratch: Vec<Scratch> = (0..threads).map(|_| Scratch::new()).collect();
    let part = |t: usize| work * t as i64 / threads as i64..work * (t as i64 + 1) / threads as i64;
    // SAFETY: the buffers are as large as the cases say.
    let run = |t: usize, s: &mut Scratch| unsafe { prog.run(&buffers.0, sizes, part(t), isa, s, &|_, _| {}) };
    time(threads == 1, || {
        if threads == 1 {
            return run(0, &mut scratch[0]);
        }
        std::thread::scope(|scope| {
            scratch.iter_mut().enumerate().for_each(|(t, s)| {
                scope.spawn(move || run(t, s));
            });
        });
    })
}

/// Seconds of one call: the least wall time or, for one thread, the mean time on a core: a busy machine lies less.
fn time(alone: bool, mut call: impl FnMut()) -> f64 {
    call();
    let (begin, core) = (Instant::now(), on_core());
    let (mut best, mut calls) = (f64::MAX, 0);
    while calls < 5 || begin.elapsed().as_secs_f64() < 0.6 {
        let start = Instant::now();
        call();
        best = best.min(start.elapsed().as_secs_f64());
        calls += 1;
    }
    match (core, on_core()) {
        (Some(from), Some(to)) if alone => (to - from) as f64 / 1e9 / calls as f64,
        _ => best,
    }
}
/// Nanoseconds that this thread has been on a core, where the system tells.
fn on_core() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

fn memcpy_rate() -> f64 {
    let src = fill(4 << 20, 1);
    let mut dst = vec![0f32; 4 << 20];
    let seconds = time(true, || {
        dst.copy_from_slice(&src);
        std::hint::black_box(&mut dst);
    });
    2.0 * 4.0 * (4 << 20) as f64 / seconds / 1e9
}

fn cases() -> Vec<Case> {
    let n = 4 << 20;
    let (rows, cols) = (4096, 1024);
    vec![
        pointwise("8 ops, 4M", n, CHAIN),
        pointwise("8 ops, 32k (in cache)", 32 << 10, CHAIN),
        pointwise("gelu (tanh), 4M", n, GELU),
        pointwise("gelu (tanh), 32k (in cache)", 32 << 10, GELU),
        Case {
            name: "bias + residual, 4096x1024",
            text: BIAS.into(),
            sizes: vec![rows, cols],
            buffers: vec![n, 1024, n, n],
            elements: n,
            bytes: 12 * n,
        },
        Case {
            name: "softmax, 4096x1024",
            text: SOFTMAX.into(),
            sizes: vec![rows, cols],
            buffers: vec![n, n],
            elements: n,
            bytes: 8 * n,
        },
        Case {
            name: "softmax, 64x50257",
            text: SOFTMAX.into(),
            sizes: vec![64, 50257],
            buffers: vec![64 * 50257; 2],
            elements: 64 * 50257,
            bytes: 8 * 64 * 50257,
        },
        Case {
            name: "layer norm, 4096x1024",
            text: LAYER_NORM.into(),
            sizes: vec![rows, cols],
            buffers: vec![n, 1024, 1024, n],
            elements: n,
            bytes: 8 * n,
        },
        Case {
            name: "layer norm, 3072x128",
            text: LAYER_NORM.into(),
            sizes: vec![3072, 128],
            buffers: vec![3072 * 128, 128, 128, 3072 * 128],
            elements: 3072 * 128,
            bytes: 8 * 3072 * 128,
        },
        columns("column sum, 4096x1024", 4096, 1024),
        columns("column sum, 3072x128", 3072, 128),
        Case {
            name: "column sum of dy*(x-m)*r",
            text: NORM_COLUMNS.into(),
            sizes: vec![3072, 128],
            buffers: vec![3072 * 128, 3072 * 128, 3072, 3072, 128, 128],
            elements: 3072 * 128,
            bytes: 8 * 3072 * 128,
        },
        Case {
            name: "adamw in place, 4M",
            text: ADAMW.into(),
            sizes: vec![n as i64],
            buffers: vec![n; 4],
            elements: n,
            bytes: 28 * n,
        },
        Case {
            name: "sum of squares, 4M",
            text: SQUARES.into(),
            sizes: vec![n as i64],
            buffers: vec![n, 1],
            elements: n,
            bytes: 4 * n,
        },
        Case {
            name: "transpose, 2048x2048",
            text: TRANSPOSE.into(),
            sizes: vec![2048, 2048],
            buffers: vec![n; 2],
            elements: n,
            bytes: 8 * n,
        },
        Case {
            name: "dropout, 4M",
            text: DROPOUT.into(),
            sizes: vec![n as i64],
            buffers: vec![n; 2],
            elements: n,
            bytes: 8 * n,
        },
    ]
}
fn pointwise(name: &'static str, n: usize, text: &str) -> Case {
    Case { name, text: text.into(), sizes: vec![n as i64], buffers: vec![n; 2], elements: n, bytes: 8 * n }
}
fn columns(name: &'static str, rows: usize, cols: usize) -> Case {
    Case {
        name,
        text: COLUMN_SUM.into(),
        sizes: vec![rows as i64, cols as i64],
        buffers: vec![rows * cols, cols],
        elements: rows * cols,
        bytes: 4 * rows * cols,
    }
}

const CHAIN: &str = "tile 1
axis s0
buffer f32
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*1
%1 = const f32 0x3f8ccccd
%2 = mul f32 %0 %1
%3 = add f32 %2 %1
%4 = mul f32 %3 %0
%5 = sub f32 %4 %0
%6 = max f32 %5 %1
%7 = mul f32 %6 %3
%8 = add f32 %7 %4
%9 = mul f32 %8 %1
store b1 +0 a0*1 = %9
";
const GELU: &str = "tile 1
axis s0
buffer f32
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*1
%1 = const f32 0x3d372713
%2 = const f32 0x3f4c422a
%3 = const f32 0x3f000000
%4 = const f32 0x3f800000
%5 = mul f32 %0 %0
%6 = mul f32 %5 %0
%7 = mul f32 %6 %1
%8 = add f32 %0 %7
%9 = mul f32 %8 %2
%10 = tanh f32 %9
%11 = add f32 %10 %4
%12 = mul f32 %0 %3
%13 = mul f32 %12 %11
store b1 +0 a0*1 = %13
";
const BIAS: &str = "tile 2
axis s0
axis s1
buffer f32
buffer f32
buffer f32
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*s1 a1*1
%1 = load f32 b1 +0 a1*1
%2 = load f32 b2 +0 a0*s1 a1*1
%3 = add f32 %0 %1
%4 = add f32 %3 %2
store b3 +0 a0*s1 a1*1 = %4
";
const SOFTMAX: &str = "tile 2
axis s0
walk s1
buffer f32
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*s1 a1*1
%1 = reduce.max f32 %0
phase 1
%2 = sub f32 %0 %1
%3 = exp f32 %2
%4 = reduce.sum f32 %3
phase 2
%5 = div f32 %3 %4
store b1 +0 a0*s1 a1*1 = %5
";
const LAYER_NORM: &str = "tile 2
axis s0
walk s1
buffer f32
buffer f32
buffer f32
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*s1 a1*1
%1 = reduce.sum f32 %0
phase 1
%2 = sized i64 s1
%3 = cast f32 %2
%4 = div f32 %1 %3
%5 = sub f32 %0 %4
%6 = mul f32 %5 %5
%7 = reduce.sum f32 %6
phase 2
%8 = div f32 %7 %3
%9 = const f32 0x3727c5ac
%10 = add f32 %8 %9
%11 = sqrt f32 %10
%12 = const f32 0x3f800000
%13 = div f32 %12 %11
%14 = mul f32 %5 %13
%15 = load f32 b1 +0 a1*1
%16 = load f32 b2 +0 a1*1
%17 = mul f32 %14 %15
%18 = add f32 %17 %16
store b3 +0 a0*s1 a1*1 = %18
";
const COLUMN_SUM: &str = "tile 2
axis s1
walk s0
buffer f32
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*1 a1*s1
%1 = reduce.sum f32 %0
store b1 +0 a0*1 = %1
";
const NORM_COLUMNS: &str = "tile 2
axis s1
walk s0
buffer f32
buffer f32
buffer f32
buffer f32
buffer f32 written
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*1 a1*s1
%1 = load f32 b1 +0 a0*1 a1*s1
%2 = load f32 b2 +0 a1*1
%3 = load f32 b3 +0 a1*1
%4 = sub f32 %1 %2
%5 = mul f32 %4 %3
%6 = mul f32 %5 %0
%7 = reduce.sum f32 %6
%8 = reduce.sum f32 %0
store b4 +0 a0*1 = %7
store b5 +0 a0*1 = %8
";
const ADAMW: &str = "tile 1
axis s0
buffer f32 written
buffer f32 written
buffer f32 written
buffer f32
phase 0
%0 = load f32 b0 +0 a0*1
%1 = load f32 b1 +0 a0*1
%2 = load f32 b2 +0 a0*1
%3 = load f32 b3 +0 a0*1
%4 = const f32 0x3f666666
%5 = const f32 0x3dcccccd
%6 = const f32 0x3f7fbe77
%7 = const f32 0x3a83126f
%8 = mul f32 %1 %4
%9 = mul f32 %3 %5
%10 = add f32 %8 %9
%11 = mul f32 %2 %6
%12 = mul f32 %3 %3
%13 = mul f32 %12 %7
%14 = add f32 %11 %13
%15 = abs f32 %14
%16 = sqrt f32 %15
%17 = add f32 %16 %7
%18 = div f32 %10 %17
%19 = mul f32 %18 %7
%20 = mul f32 %0 %6
%21 = sub f32 %20 %19
store b0 +0 a0*1 = %21
store b1 +0 a0*1 = %10
store b2 +0 a0*1 = %14
";
const SQUARES: &str = "tile 1
walk s0
buffer f32
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*1
%1 = mul f32 %0 %0
%2 = reduce.sum f32 %1
store b1 +0 = %2
";
const TRANSPOSE: &str = "tile 2
axis s0
axis s1
buffer f32
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*1 a1*s0
store b1 +0 a0*s1 a1*1 = %0
";
const DROPOUT: &str = "tile 1
axis s0
buffer f32
buffer f32 written
phase 0
%0 = load f32 b0 +0 a0*1
%1 = iota i64 a0
%2 = const i64 0x2a
%3 = const i64 0x7
%4 = random u32 %2 %3 %1
%5 = const u32 0x1999999a
%6 = lt bool %4 %5
%7 = const f32 0x0
%8 = const f32 0x3f8e38e4
%9 = mul f32 %0 %8
%10 = select f32 %6 %7 %9
store b1 +0 a0*1 = %10
";
