//! Those we stand beside: processes that wait for a row's name and answer with a number.
use super::{Beside, REST};
use rtx_core::{Error, Kind, Result};
use rustytorch as torch;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The rows that `benches/peers/src` has.
pub(super) const CRATES_ROWS: &[&str] =
    &["gemm_1024", "gemm_64x256x784", "gemm_128", "chain8", "gelu", "softmax", "layer_norm", "mlp_sgd", "mlp_adamw"];

/// A process that waits for names of rows.
pub(super) struct Peer {
    pub name: &'static str,
    child: Child,
    ask: ChildStdin,
    answer: BufReader<ChildStdout>,
}

impl Peer {
    fn start(name: &'static str, mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let (Some(ask), Some(answer)) = pipes else { return Err(Error::new(Kind::Io, "the peer has no pipes")) };
        Ok(Self { name, child, ask, answer: BufReader::new(answer) })
    }

    /// Milliseconds of one iteration, or what else the row counts; `None` where the peer fails.
    pub(super) fn ask(&mut self, row: &str, iterations: u32) -> Result<Option<f64>> {
        std::thread::sleep(REST);
        writeln!(self.ask, "{row} {iterations}")?;
        let mut line = String::new();
        self.answer.read_line(&mut line)?;
        if line.trim() == "-" {
            return Ok(None);
        }
        let wrong = || Error::new(Kind::Format, format!("{} answered `{}` for {row}", self.name, line.trim()));
        line.trim().parse().map(Some).map_err(|_| wrong())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The peers of a run, started when they are first asked.
pub(super) struct Peers {
    beside: Beside,
    python: PathBuf,
    started: Vec<Peer>,
}

impl Peers {
    pub(super) fn new(beside: Beside) -> Result<Self> {
        let python = std::env::var_os("RTX_PEER_PYTHON").map(PathBuf::from);
        let python = match (beside, python) {
            (Beside::PyTorch, None) => {
                let message = "bench --peers: RTX_PEER_PYTHON names no Python that has PyTorch";
                return Err(Error::new(Kind::Argument, message));
            }
            (_, python) => python.unwrap_or_default(),
        };
        Ok(Self { beside, python, started: Vec::new() })
    }

    pub(super) fn names(&self) -> &'static [&'static str] {
        match self.beside {
            Beside::Nobody => &[],
            Beside::PyTorch => &["eager", "compiled"],
            Beside::Crates => &["candle", "burn"],
        }
    }

    /// All of them, waiting.
    pub(super) fn started(&mut self) -> Result<&mut [Peer]> {
        for &name in &self.names()[self.started.len()..] {
            let command = self.command(name);
            self.started.push(Peer::start(name, command).map_err(|e| self.explain(e))?);
        }
        Ok(&mut self.started)
    }

    /// How one of them is started, with as many threads as we have.
    pub(super) fn command(&self, name: &str) -> Command {
        let benches = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/peers");
        let mut command = match self.beside {
            Beside::Crates => {
                let target = std::env::var_os("CARGO_TARGET_DIR").map(|t| PathBuf::from(t).join("peers"));
                Command::new(target.unwrap_or_else(|| benches.join("target")).join("release/rtx-peers"))
            }
            _ => {
                let mut python = Command::new(&self.python);
                python.arg(benches.join("torch_rows.py"));
                python
            }
        };
        let threads = torch::get_num_threads().to_string();
        command.env("RTX_PEER_MODE", name).env("RTX_THREADS", &threads).env("RAYON_NUM_THREADS", threads);
        command
    }

    fn explain(&self, e: Error) -> Error {
        match self.beside {
            Beside::Crates => e.hint("cargo xtask bench crates builds it first"),
            _ => e,
        }
    }
}
