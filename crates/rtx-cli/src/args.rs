//! The command line.
use crate::settings::{Settings, Task};
use clap::{Args, Parser, Subcommand};
use rustytorch::Result;
use std::path::PathBuf;

/// Trains and runs models.
#[derive(Debug, Parser)]
#[command(
    name = "rtx",
    version,
    about = "rtx: train and run models",
    after_help = "Every option of a run is in its config.toml; `rtx train --config FILE` does it again, bit for bit.\n\
                  RTX_EAGER=1 runs op by op, RTX_CPU=avx2|scalar forces an instruction set."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// A small GPT learns to add (seconds); --text FOLDER learns your text
    Train(Train),
    /// Continue a prompt, as it is written
    Generate(Generate),
}

/// Options of `rtx train`.
#[derive(Args, Debug, Default)]
pub struct Train {
    /// Learn the bytes of this text (UTF-8 files over 1 KB)
    #[arg(long, value_name = "FILE|FOLDER")]
    pub text: Option<PathBuf>,
    /// Steps at most
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Rows a step
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// The highest learning rate
    #[arg(long, value_name = "X")]
    pub lr: Option<f64>,
    /// Seed of weights and data
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// CPU threads; results do not depend on them
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Where the run is kept (runs/TASK-N by default)
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// Go on with a run from its latest checkpoint
    #[arg(long, value_name = "DIR", conflicts_with_all = ["text", "steps", "batch", "lr", "seed", "run", "config"])]
    pub resume: Option<PathBuf>,
    /// Take settings from a run's config.toml
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say more about plans, kernels and memory at the end
    #[arg(long)]
    pub stats: bool,
}

/// Options of `rtx generate`.
#[derive(Args, Debug)]
pub struct Generate {
    /// The run to take the model from
    #[arg(long, value_name = "DIR")]
    pub run: PathBuf,
    /// What to continue
    #[arg(long, value_name = "TEXT")]
    pub prompt: String,
    /// Bytes to write at most, for text
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub length: usize,
    /// How freely text is drawn; 0 always takes the most likely byte
    #[arg(long, value_name = "X", default_value_t = 0.8)]
    pub temperature: f64,
    /// Seed of the draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// CPU threads
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
}

impl Train {
    /// Defaults, then the file, then the flags.
    ///
    /// # Errors
    /// When the file or a value is refused.
    pub fn settings(&self) -> Result<Settings> {
        let task = self.text.as_ref().map(|_| Task::Text);
        let mut settings = match &self.config {
            Some(path) => Settings::from_file(path, task)?,
            None => Settings::of(task.unwrap_or(Task::Sums)),
        };
        if self.text.is_some() {
            settings.text.clone_from(&self.text);
        }
        settings.steps = self.steps.unwrap_or(settings.steps);
        settings.batch = self.batch.unwrap_or(settings.batch);
        settings.lr = self.lr.unwrap_or(settings.lr);
        settings.seed = self.seed.unwrap_or(settings.seed);
        settings.check()?;
        Ok(settings)
    }
}
