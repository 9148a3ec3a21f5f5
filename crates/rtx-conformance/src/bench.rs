//! `cargo xtask bench`: our time beside PyTorch's, in one run, in alternating rounds; ratios of medians.
//!
//! PyTorch is asked through the Python that `RTX_PEER_PYTHON` names; without it only our times are printed. Machines
//! are noisy: a ratio within a tenth of 1 is a tie.
use rows::{ROWS, Row};
use rtx_core::{Error, Kind};
use rustytorch::{self as torch, prelude::*};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

mod rows;

/// Rounds of each row on each side.
const ROUNDS: usize = 5;

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

    fn time_ms(&mut self, row: &Row) -> Result<f64> {
        writeln!(self.ask, "{} {}", row.name, row.iterations)?;
        let mut line = String::new();
        self.answer.read_line(&mut line)?;
        line.trim()
            .parse()
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

/// Times every row whose name contains one of `filters` (all without filters), prints a table, writes `json`.
///
/// # Errors
/// [`Kind::Io`] when the peer or the file fails.
pub fn run(filters: &[&str], json: Option<&Path>) -> Result<()> {
    let python = std::env::var_os("RTX_PEER_PYTHON").map(PathBuf::from);
    let mut peers = Vec::new();
    for mode in ["eager", "compile"] {
        if let Some(python) = &python {
            peers.push(Peer::start(python, mode)?);
        }
    }
    println!(
        "{} · {} threads · {} · strict · median of {ROUNDS} alternating rounds",
        torch::default_device(),
        torch::get_num_threads(),
        torch::cpu_capability()
    );
    println!("{:12} {:>10} {:>10} {:>10} {:>7}", "row", "ours ms", "eager ms", "compiled", "ratio");
    let mut rows = Vec::new();
    for row in ROWS.iter().filter(|r| filters.is_empty() || filters.iter().any(|f| r.name.contains(f))) {
        torch::manual_seed(0);
        let mut work = (row.make)();
        (0..3).try_for_each(|_| work())?;
        let mut times = vec![Vec::new(); 1 + peers.len()];
        for _ in 0..ROUNDS {
            let from = Instant::now();
            (0..row.iterations).try_for_each(|_| work())?;
            torch::default_device().synchronize()?;
            times[0].push(from.elapsed().as_secs_f64() * 1e3 / f64::from(row.iterations));
            for (peer, t) in peers.iter_mut().zip(&mut times[1..]) {
                t.push(peer.time_ms(row)?);
            }
        }
        let ms: Vec<f64> = times.into_iter().map(median).collect();
        let ratio = ms[1..].iter().copied().reduce(f64::min).map(|best| best / ms[0]);
        let shown = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.3}"));
        let (eager, compiled) = (ms.get(1).copied(), ms.get(2).copied());
        println!(
            "{:12} {:>10.3} {:>10} {:>10} {:>7}",
            row.name,
            ms[0],
            shown(eager),
            shown(compiled),
            ratio.map_or("-".into(), |r| format!("{r:.2}"))
        );
        rows.push((row.name, ms[0], eager, compiled, ratio));
    }
    let Some(path) = json else { return Ok(()) };
    let number = |x: Option<f64>| x.map_or("null".to_owned(), |x| format!("{x:.4}"));
    let (threads, isa) = (torch::get_num_threads(), torch::cpu_capability());
    let mut text = format!("{{\"target\": \"cpu, {threads} threads, {isa}, strict\", \"rows\": [\n");
    for (i, (name, ours, eager, compiled, ratio)) in rows.iter().enumerate() {
        let comma = if i + 1 < rows.len() { "," } else { "" };
        let _ = writeln!(
            text,
            "  {{\"name\": \"{name}\", \"unit\": \"ms\", \"ours\": {ours:.4}, \"eager\": {}, \"compiled\": {}, \"ratio\": {}}}{comma}",
            number(*eager),
            number(*compiled),
            number(*ratio)
        );
    }
    text.push_str("]}\n");
    rtx_io::write_file(path, text.as_bytes())
}
