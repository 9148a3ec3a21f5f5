//! `rtx bench`: a small table of how fast this machine is, in one process and under a minute.
use crate::args;
use crate::gpt::{Gpt, Sizes};
use crate::machine;
use crate::report::print_now;
use crate::words::{bytes, count};
use rustytorch::{self as torch, Kind, prelude::*};
use std::time::{Duration, Instant};

/// What a row counts.
enum Work {
    /// Multiplications and additions of one run.
    Flops(f64),
    /// Bytes that one run must read and write.
    Bytes(f64),
    /// Tokens or rows of one run, and their name.
    Items(f64, &'static str),
}

/// Runs the table.
///
/// # Errors
/// When the work fails.
pub fn bench(args: &args::Bench) -> Result<()> {
    if let Some(n) = args.threads {
        torch::set_num_threads(n);
    }
    if !(args.seconds.is_finite() && args.seconds > 0.0) {
        return Err(Error::new(Kind::Argument, format!("--seconds must be above 0, not {}", args.seconds)));
    }
    torch::manual_seed(1);
    let threads = torch::get_num_threads();
    print_now(&format!(
        "{} · {} · {} · strict\n\n{:<34}{:>12}   rate\n",
        machine::cpu_name(),
        count(threads as u64, "thread", "threads"),
        machine::isa_name(),
        "",
        "time"
    ));
    let limit = Duration::from_secs_f64(args.seconds);
    let stream = machine::stream_bandwidth(threads);
    print_now(&format!("{:<34}{:>12}   {}/s\n", "copy, 64 MiB a thread", "", bytes(stream as u64)));
    for n in [256usize, 1024] {
        let (a, b) = (torch::randn([n, n]), torch::randn([n, n]));
        let work = Work::Flops(2.0 * (n as f64).powi(3));
        row(&format!("matmul {n} × {n} × {n}"), work, limit, || a.matmul(&b).finish())?;
    }
    let x = torch::randn([1024, 1024]);
    let moved = || Work::Bytes(2.0 * 4.0 * 1024.0 * 1024.0);
    row("gelu 1024 × 1024", moved(), limit, || F::gelu(&x).finish())?;
    row("softmax 1024 × 1024, rows", moved(), limit, || F::softmax(&x, -1).finish())?;
    row("layer_norm 1024 × 1024, rows", moved(), limit, || F::layer_norm(&x, 1024, None, None, 1e-5).finish())?;
    train_gpt(limit)?;
    generate_gpt(limit)
}

/// Runs what was recorded and forgets the result.
trait Finish {
    fn finish(self) -> Result<()>;
}
impl Finish for Tensor {
    fn finish(self) -> Result<()> {
        torch::flush()
    }
}

fn small_gpt() -> Gpt {
    Gpt::new(&Sizes { vocabulary: 256, context: 64, layers: 2, width: 128, heads: 4 }, 0.05)
}

fn train_gpt(limit: Duration) -> Result<()> {
    const ROWS: usize = 32;
    let model = small_gpt();
    let mut optimizer = optim::AdamW::new(model.parameters(), 1e-3);
    let rows = torch::randint(0..256, [ROWS, 65]);
    torch::flush()?;
    row("gpt 2×128, a training step", Work::Items(ROWS as f64 * 64.0, "tokens"), limit, || {
        let loss = model.loss(&rows, 0);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step()?;
        loss.item::<f32>().map(drop)
    })
}

fn generate_gpt(limit: Duration) -> Result<()> {
    let model = small_gpt();
    let mut decoder = model.decoder();
    let mut ids = vec![1i64; 8];
    decoder.prompt(&ids)?;
    row("gpt 2×128, a token generated", Work::Items(1.0, "tokens"), limit, || {
        ids.push(1);
        decoder.next(&ids).map(drop)
    })
}

/// The median of as many runs as fit into `limit`, three at least, after one that compiles.
fn row(name: &str, work: Work, limit: Duration, mut run: impl FnMut() -> Result<()>) -> Result<()> {
    run()?;
    run()?;
    let (from, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || (from.elapsed() < limit && times.len() < 10_000) {
        let start = Instant::now();
        run()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let time = times[times.len() / 2];
    let rate = match work {
        Work::Flops(n) => format!("{:.1} GFLOP/s", n / time / 1e9),
        Work::Bytes(n) => format!("{}/s", bytes((n / time) as u64)),
        Work::Items(n, what) => format!("{} {what}/s", crate::words::thousands((n / time) as u64)),
    };
    print_now(&format!("{name:<34}{:>12}   {rate}\n", milliseconds(time)));
    Ok(())
}

fn milliseconds(seconds: f64) -> String {
    if seconds < 1e-3 { format!("{:.1} µs", seconds * 1e6) } else { format!("{:.2} ms", seconds * 1e3) }
}
