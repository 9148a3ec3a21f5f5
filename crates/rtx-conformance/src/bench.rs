//! `cargo xtask bench`: our time beside PyTorch's, in one run, in alternating rounds; ratios of medians.
//!
//! With `--peers` PyTorch is asked through the Python that `RTX_PEER_PYTHON` names, eager and compiled; without it only
//! our times are printed. Machines are noisy: a ratio within a tenth of 1 is a tie.
use rows::{ROWS, Row};
use rtx_core::{Error, Kind};
use rustytorch::{self as torch, prelude::*};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

mod report;
mod rows;

pub use report::write_doc;

/// Rounds of each row on each side.
const ROUNDS: usize = 5;
/// How long the machine rests before a side is timed: the other sides' threads go on spinning after their last kernel
/// (GNU OpenMP's, which PyTorch uses, for about 10 ms), and short rows would be timed beside them.
const REST: Duration = Duration::from_millis(20);

/// PyTorch, waiting for names of rows.
struct Peer {
    child: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &Path, mode: &str) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers/torch_rows.py");
        let mut command = Command::new(python);
        command.arg(script).env("RTX_PEER_MODE", mode).env("RTX_THREADS", torch::get_num_threads().to_string());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(ask), Some(answer)) = pipes else { return Err(Error::new(Kind::Io, "the peer has no pipes")) };
        Ok(Self { child, ask, answer: BufReader::new(answer) })
    }

    /// Milliseconds of one iteration; `None` where PyTorch fails.
    fn time_ms(&mut self, row: &Row) -> Result<Option<f64>> {
        std::thread::sleep(REST);
        writeln!(self.ask, "{} {}", row.name, row.iterations)?;
        let mut line = String::new();
        self.answer.read_line(&mut line)?;
        if line.trim() == "-" {
            return Ok(None);
        }
        line.trim()
            .parse()
            .map(Some)
            .map_err(|_| Error::new(Kind::Format, format!("the peer answered `{}` for {}", line.trim(), row.name)))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// A row's times: ours, eager PyTorch's, compiled PyTorch's.
struct Reading {
    row: &'static Row,
    ours: f64,
    peers: [Option<f64>; 2],
}

impl Reading {
    fn take(row: &'static Row, peers: &mut [Peer]) -> Result<Self> {
        torch::manual_seed(0);
        let mut work = (row.make)();
        (0..3).try_for_each(|_| work())?;
        let (mut ours, mut theirs) = (Vec::new(), [Vec::new(), Vec::new()]);
        for _ in 0..ROUNDS {
            std::thread::sleep(REST);
            let from = Instant::now();
            (0..row.iterations).try_for_each(|_| work())?;
            torch::default_device().synchronize()?;
            ours.push(from.elapsed().as_secs_f64() * 1e3 / f64::from(row.iterations));
            for (peer, times) in peers.iter_mut().zip(&mut theirs) {
                times.extend(peer.time_ms(row)?);
            }
        }
        let peers = theirs.map(|times| (!times.is_empty()).then(|| median(times)));
        Ok(Self { row, ours: median(ours), peers })
    }
    /// Ours over the better peer: above 1 we are faster.
    fn ratio(&self) -> Option<f64> {
        self.peers.iter().flatten().copied().reduce(f64::min).map(|best| best / self.ours)
    }
}

/// Times every row whose name contains one of `filters` (all without filters), prints a table, writes `json`.
///
/// # Errors
/// [`Kind::Io`] when the peer or the file fails, [`Kind::Argument`] for peers without `RTX_PEER_PYTHON`.
pub fn run(filters: &[&str], with_peers: bool, json: Option<&Path>) -> Result<()> {
    let mut peers = Vec::new();
    if with_peers {
        let python = std::env::var_os("RTX_PEER_PYTHON").map(PathBuf::from).ok_or_else(|| {
            Error::new(Kind::Argument, "bench --peers: RTX_PEER_PYTHON names no Python that has PyTorch")
        })?;
        for mode in ["eager", "compile"] {
            peers.push(Peer::start(&python, mode)?);
        }
    }
    println!("{} · median of {ROUNDS} alternating rounds", report::target());
    println!("{:18} {:>5} {:>10} {:>10} {:>10} {:>7}", "row", "unit", "ours", "eager", "compiled", "ratio");
    let mut readings = Vec::new();
    for row in ROWS.iter().filter(|r| filters.is_empty() || filters.iter().any(|f| r.name.contains(f))) {
        let reading = Reading::take(row, &mut peers)?;
        let shown = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.3}"));
        let ([eager, compiled], ratio) = (reading.peers.map(shown), shown(reading.ratio()));
        println!("{:18} {:>5} {:>10.3} {eager:>10} {compiled:>10} {ratio:>7}", row.name, row.unit, reading.ours);
        readings.push(reading);
    }
    json.map_or(Ok(()), |path| report::write_json(&readings, path))
}
