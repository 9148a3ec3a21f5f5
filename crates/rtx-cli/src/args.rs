//! The command line.
use crate::settings::{Preset, Settings, Task};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use rustytorch::{Error, Kind, Result};
use std::path::PathBuf;

/// Trains, runs and inspects models.
#[derive(Debug, Parser)]
#[command(
    name = "rtx",
    version,
    max_term_width = 100,
    about = "rtx: train, run and inspect models",
    after_help = "Every option of a run is in its config.toml; `rtx train --config FILE` does it again,\n\
                  bit for bit. RTX_EAGER=1 runs op by op, RTX_DUMP=graph,plan,kernel,source shows the\n\
                  four stages, RTX_CPU=avx2|scalar forces an instruction set, RTX_JIT=0 prints no loops.\n\n\
                  Exit codes: 0 done · 1 refused or failed, with one sentence on stderr · 2 a command\n\
                  line that makes no sense · 130 stopped by Ctrl-C after a checkpoint was saved"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// A small GPT learns to add (about a minute); --text FOLDER learns your text
    Train(Train),
    /// Continue a prompt, as it is written
    Generate(Generate),
    /// What is inside a checkpoint, a run or a program
    Inspect(Inspect),
    /// What this machine has and what rtx will use
    Doctor,
    /// Time a few kernels and training steps on this machine
    Bench(Bench),
    /// Print the completions of a shell: rtx completions bash > rtx.bash
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// Options of `rtx train`.
#[derive(Args, Debug, Default)]
#[command(after_help = "\
Tasks: sums, a GPT adds numbers of three digits (the default); text, a GPT learns the bytes of\n\
--text; fashion-mnist, a convolutional net tells clothes apart (--data, by default where Debian's\n\
package dataset-fashion-mnist puts them).\n\
Presets: nano 2×128 (a minute or two), mini 4×192 (ten minutes on two cores), gpt2 12×768.\n\n\
A run is a folder: config.toml, log.jsonl (no clock in it), times.jsonl, loss.svg, sample.txt, and\n\
checkpoints step-NNNNNN, of which `latest` is the last. Ctrl-C saves one and ends; a second Ctrl-C\n\
ends at once. --resume goes on bit for bit, after a kill too.\n\n\
Exit codes: 0 done · 1 refused or failed · 2 a bad command line · 130 stopped by Ctrl-C, saved")]
pub struct Train {
    /// What is learned: sums, text or fashion-mnist
    #[arg(long, value_name = "TASK", value_parser = Task::parse)]
    pub task: Option<Task>,
    /// Learn the bytes of this text (UTF-8 files over 1 KB)
    #[arg(long, value_name = "FILE|FOLDER")]
    pub text: Option<PathBuf>,
    /// Where the pictures are: IDX files, gzipped or not
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Sizes of the GPT that learns text: nano, mini or gpt2
    #[arg(long, value_name = "NAME", value_parser = Preset::parse)]
    pub preset: Option<Preset>,
    /// Steps at most
    #[arg(long, value_name = "N")]
    pub steps: Option<u64>,
    /// Rows a step
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// The highest learning rate
    #[arg(long, allow_negative_numbers = true, value_name = "X")]
    pub lr: Option<f64>,
    /// Seed of weights and data
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// CPU threads; results do not depend on them
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Where it runs: cpu, cuda or cuda:N (rtx doctor shows what there is)
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// Where the run is kept [default: runs/TASK-N]
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// Go on with a run from its latest checkpoint
    #[arg(long, value_name = "DIR", conflicts_with_all = ["task", "text", "data", "preset", "steps", "batch", "lr",
                                                          "seed", "device", "run", "config"])]
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
#[command(after_help = "Text is written as it is drawn. The same seed gives the same text.")]
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
    #[arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = 0.8)]
    pub temperature: f64,
    /// Draw from the K most likely bytes only [default: all]
    #[arg(long, value_name = "K")]
    pub top_k: Option<usize>,
    /// Draw from the fewest bytes that have this probability together
    #[arg(long, allow_negative_numbers = true, value_name = "P", default_value_t = 1.0)]
    pub top_p: f64,
    /// Above 1: bytes of the last 64 become less likely
    #[arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = 1.0)]
    pub repetition_penalty: f64,
    /// Seed of the draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// CPU threads
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
}

/// Options of `rtx inspect`.
#[derive(Args, Debug)]
pub struct Inspect {
    /// A .safetensors file, a checkpoint's folder, a run's folder or an .rtxir file
    pub path: PathBuf,
}

/// Options of `rtx bench`.
#[derive(Args, Debug)]
pub struct Bench {
    /// CPU threads
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<usize>,
    /// Seconds a row takes at most
    #[arg(long, allow_negative_numbers = true, value_name = "X", default_value_t = 0.5)]
    pub seconds: f64,
}

fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=4096) => Ok(n),
        _ => Err("1 to 4096 threads".to_owned()),
    }
}

impl Train {
    /// Defaults of the task and the preset, then the file, then the flags.
    ///
    /// # Errors
    /// When the file or a value is refused, or flags contradict each other.
    pub fn settings(&self) -> Result<Settings> {
        let task = self.task.or(self.text.as_ref().map(|_| Task::Text)).or(self.data.as_ref().map(|_| Task::Fashion));
        let mut settings = match &self.config {
            Some(path) => Settings::from_file(path, task)?,
            None => Settings::of(task.unwrap_or(Task::Sums)),
        };
        let task = settings.task;
        let only_for = |flag: &str, wanted: Task| {
            let what = format!("{flag} goes with --task {}, not with --task {}", wanted.name(), task.name());
            Err(Error::new(Kind::Argument, what))
        };
        if self.text.is_some() && task != Task::Text {
            return only_for("--text", Task::Text);
        }
        if self.data.is_some() && task != Task::Fashion {
            return only_for("--data", Task::Fashion);
        }
        if let Some(preset) = self.preset {
            if task != Task::Text {
                return only_for("--preset", Task::Text);
            }
            settings.take_preset(preset);
        }
        settings.text = self.text.clone().or(settings.text);
        settings.data = self.data.clone().or(settings.data);
        settings.steps = self.steps.unwrap_or(settings.steps);
        settings.batch = self.batch.unwrap_or(settings.batch);
        settings.lr = self.lr.unwrap_or(settings.lr);
        settings.seed = self.seed.unwrap_or(settings.seed);
        settings.device = self.device.clone().unwrap_or(settings.device);
        settings.check()?;
        Ok(settings)
    }
}
