//! `cargo xtask bench`: our time beside others', in one run, in alternating rounds; ratios of medians.
//!
//! With `--peers` PyTorch is asked through the Python that `RTX_PEER_PYTHON` names, eager and compiled; `bench crates`
//! asks candle and burn; without peers only our times are printed. Machines are noisy: a ratio within a tenth of 1 is
//! a tie.
use peer::{Peer, Peers};
use rows::{ROWS, Row};
use rtx_core::{Error, Kind};
use rtx_cpu::Yardstick;
use rustytorch::{self as torch, prelude::*};
use std::path::Path;
use std::time::{Duration, Instant};

mod baseline;
mod check;
mod goals;
mod page;
mod peer;
mod process;
mod programs;
mod report;
mod rows;

pub use check::{check, replay};
pub use page::write_doc;
pub use process::once;

/// Rounds of each row on each side.
const ROUNDS: usize = 5;
/// How long the machine rests before a side is timed: the other sides' threads go on spinning after their last kernel
/// (GNU OpenMP's, which PyTorch uses, for about 10 ms), and short rows would be timed beside them.
const REST: Duration = Duration::from_millis(20);

/// Whom we stand beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Nobody.
    Nobody,
    /// PyTorch, eager and compiled.
    PyTorch,
    /// Two frameworks of our own language: candle and burn.
    Crates,
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A row's numbers: ours, and each peer's.
struct Reading {
    name: &'static str,
    unit: &'static str,
    ours: f64,
    /// By the peer's name; `None` where it has no such thing.
    peers: Vec<(&'static str, Option<f64>)>,
    /// Which part of what the machine can do, measured in the same rounds.
    share: Option<f64>,
}

impl Reading {
    /// Rounds of the row, each after a look at what the machine can do and followed by each peer's.
    fn take(row: &'static Row, peers: &mut [Peer], yardstick: &mut Yardstick) -> Result<Self> {
        torch::manual_seed(0);
        let mut work = (row.make)();
        (0..3).try_for_each(|_| work())?;
        let limit = goals::of(row.name).and_then(|goal| goal.share);
        let (mut ours, mut limits) = (Vec::new(), Vec::new());
        let mut theirs = vec![Vec::new(); peers.len()];
        for _ in 0..ROUNDS {
            std::thread::sleep(REST);
            limits.extend(limit.map(|share| share.of.measure(yardstick)));
            let from = Instant::now();
            (0..row.iterations).try_for_each(|_| work())?;
            torch::default_device().synchronize()?;
            ours.push(from.elapsed().as_secs_f64() * 1e3 / f64::from(row.iterations));
            for (peer, times) in peers.iter_mut().zip(&mut theirs) {
                times.extend(peer.ask(row.name, row.iterations)?);
            }
        }
        let ours = median(ours);
        let share = limit.map(|share| share.work / (ours * 1e-3) / median(limits));
        // Milliseconds of a call are microseconds of a part.
        let scale = if row.unit == "us" { 1e3 / f64::from(row.parts()) } else { 1.0 };
        let of = |times: Vec<f64>| (!times.is_empty()).then(|| scale * median(times));
        let peers = peers.iter().map(|p| p.name).zip(theirs.into_iter().map(of)).collect();
        Ok(Self { name: row.name, unit: row.unit, ours: scale * ours, peers, share })
    }

    /// Ours over the better peer: above 1 we are faster, or smaller.
    fn ratio(&self) -> Option<f64> {
        self.peers.iter().filter_map(|(_, time)| *time).reduce(f64::min).map(|best| best / self.ours)
    }

    fn print(&self) {
        let shown = |x: Option<f64>| x.map_or("-".to_owned(), |x| format!("{x:.3}"));
        let peers: String = self.peers.iter().map(|(_, time)| format!(" {:>10}", shown(*time))).collect();
        let share = self.share.zip(goals::of(self.name).and_then(|g| g.share));
        let share = share.map_or(String::new(), |(x, of)| format!("  {:.0} % of {}", 100.0 * x, of.of.name()));
        println!("{:20} {:>5} {:>10.3}{peers} {:>7}{share}", self.name, self.unit, self.ours, shown(self.ratio()));
    }
}

/// Measures every row whose name contains one of `filters` (all without filters), prints a table, and writes the rows
/// into `json`, where they take the place of older ones of their names.
///
/// # Errors
/// [`Kind::Io`] when a peer or the file fails, [`Kind::Argument`] for PyTorch without `RTX_PEER_PYTHON`.
pub fn run(filters: &[&str], beside: Beside, json: Option<&Path>) -> Result<()> {
    let mut peers = Peers::new(beside)?;
    println!("{} · median of {ROUNDS} alternating rounds", report::target());
    let columns: String = peers.names().iter().map(|name| format!(" {name:>10}")).collect();
    println!("{:20} {:>5} {:>10}{columns} {:>7}", "row", "unit", "ours", "ratio");
    let chosen = |name: &str| filters.is_empty() || filters.iter().any(|f| name.contains(f));
    let known = |name: &str| beside != Beside::Crates || peer::CRATES_ROWS.contains(&name);
    let (mut readings, mut yardstick) = (Vec::new(), Yardstick::default());
    for row in ROWS.iter().filter(|r| chosen(r.name) && known(r.name)) {
        let reading = Reading::take(row, peers.started()?, &mut yardstick)?;
        reading.print();
        readings.push(reading);
    }
    for row in process::ROWS.iter().filter(|r| chosen(r.name) && beside != Beside::Crates) {
        let reading = (row.take)(row, &mut peers)?;
        reading.print();
        readings.push(reading);
    }
    if readings.is_empty() {
        return Err(Error::new(Kind::Argument, format!("bench: no row is called {}", filters.join(", "))));
    }
    json.map_or(Ok(()), |path| report::merge_json(&readings, path))
}
