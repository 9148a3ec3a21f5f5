//! Rows that are not one call again and again: processes from their start, and memory.
use super::peer::Peers;
use super::rows::{self, Work};
use super::{Reading, median};
use rtx_core::{Error, Kind};
use rustytorch::{self as torch, prelude::*};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

/// A row with its own way of being measured.
pub(super) struct Special {
    pub name: &'static str,
    pub unit: &'static str,
    pub take: fn(&Special, &mut Peers) -> Result<Reading>,
}

pub(super) const ROWS: &[Special] = &[
    Special { name: "gpt_mini_peak", unit: "MB", take: peak },
    Special { name: "gpt_mini_start", unit: "s", take: |row, peers| fresh(row, peers, |run| run.first_loss) },
    Special { name: "gpt_mini_first_step", unit: "s", take: |row, peers| fresh(row, peers, |run| run.extra) },
    Special { name: "train_sums", unit: "s", take: train_sums },
];

/// Starts of our process; a peer is started once, it takes long.
const STARTS: usize = 3;

/// The most memory that values take in steps after the first two: ours as the runtime counts it, eager PyTorch's as
/// the storages that live after each operation.
fn peak(row: &Special, peers: &mut Peers) -> Result<Reading> {
    let mut work = gpt_mini();
    (0..2).try_for_each(|_| work())?;
    torch::reset_peak_memory();
    (0..3).try_for_each(|_| work())?;
    let ours = torch::memory().peak_bytes as f64 / 1e6;
    let peers = peers.started()?.iter_mut().map(|p| Ok((p.name, p.ask(row.name, 3)?)));
    Ok(Reading { name: row.name, unit: row.unit, ours, peers: peers.collect::<Result<_>>()?, share: None })
}

fn gpt_mini() -> Work {
    let row = rows::ROWS.iter().find(|r| r.name == "gpt_mini").expect("the table has it");
    (row.make)()
}

/// Seconds of a process that was started for it.
struct Fresh {
    /// From its start to its first loss.
    first_loss: f64,
    /// Its first step minus a steady one.
    extra: f64,
}

fn fresh(row: &Special, peers: &Peers, of: fn(&Fresh) -> f64) -> Result<Reading> {
    let ours = |_| {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "once"]).env("RTX_THREADS", torch::get_num_threads().to_string());
        Ok(of(&Fresh::run(command)?))
    };
    let ours = median((0..STARTS).map(ours).collect::<Result<_>>()?);
    let cache = std::env::temp_dir().join(format!("rtx-peer-{}", std::process::id()));
    let peer = |&name: &&'static str| {
        let mut command = peers.command(name);
        command.arg("--once").env("TORCHINDUCTOR_CACHE_DIR", &cache);
        Ok((name, Some(of(&Fresh::run(command)?))))
    };
    let peers = peers.names().iter().map(peer).collect::<Result<_>>();
    let _ = std::fs::remove_dir_all(&cache);
    Ok(Reading { name: row.name, unit: row.unit, ours, peers: peers?, share: None })
}

impl Fresh {
    /// Runs a process that prints a line after its first loss, then the seconds of its first step and of a steady one.
    fn run(mut command: Command) -> Result<Self> {
        let from = Instant::now();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().ok_or_else(|| Error::new(Kind::Io, "a child without output"))?;
        let mut lines = BufReader::new(out).lines();
        let mut line = || lines.next().unwrap_or_else(|| Ok(String::new()));
        let _loss = line()?;
        let first_loss = from.elapsed().as_secs_f64();
        let times = line()?;
        let numbers: Vec<f64> = times.split_whitespace().filter_map(|w| w.parse().ok()).collect();
        child.wait()?;
        match numbers[..] {
            [first, steady] => Ok(Self { first_loss, extra: first - steady }),
            _ => Err(Error::new(Kind::Format, format!("a process started for its first step printed `{times}`"))),
        }
    }
}

/// What [`Fresh::run`] starts: `gpt_mini` in this process.
///
/// # Errors
/// When a step fails.
pub fn once() -> Result<()> {
    let mut work = gpt_mini();
    let mut time = || {
        let from = Instant::now();
        work().map(|()| from.elapsed().as_secs_f64())
    };
    let first = time()?;
    println!("loss");
    (0..3).try_for_each(|_| time().map(drop))?;
    let steady = median((0..3).map(|_| time()).collect::<Result<_>>()?);
    println!("{first} {steady}");
    Ok(())
}

/// The default job of the program `rtx` beside this one.
fn train_sums(row: &Special, peers: &mut Peers) -> Result<Reading> {
    let rtx: PathBuf = std::env::current_exe()?.with_file_name("rtx");
    let run = std::env::temp_dir().join(format!("rtx-bench-{}", std::process::id()));
    let from = Instant::now();
    let out = Command::new(&rtx).arg("train").arg("--run").arg(&run).stdin(Stdio::null()).output();
    let ours = from.elapsed().as_secs_f64();
    let _ = std::fs::remove_dir_all(&run);
    let out = out.map_err(|e| Error::from(e).hint("cargo build --release makes the program `rtx`"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let right =
        text.lines().find_map(|l| l.split_once(" of 1,000 sums it never saw are right")?.0.split(' ').next_back());
    let right: Option<f64> = right.and_then(|n| n.replace(',', "").parse().ok());
    match right {
        Some(n) if n >= 990.0 => {
            let peers = peers.names().iter().map(|&name| (name, None)).collect();
            Ok(Reading { name: row.name, unit: row.unit, ours, peers, share: None })
        }
        _ => Err(Error::new(Kind::Internal, format!("rtx train: {right:?} of 1,000 held-out sums are right"))),
    }
}
