//! `rtx`: trains, runs and inspects models from the command line.

mod args;
mod bench;
mod doctor;
mod generate;
mod gpt;
mod inspect;
mod interrupt;
mod job;
mod machine;
mod pictures;
mod plot;
mod report;
mod run_folder;
mod sampler;
mod settings;
mod train;
mod words;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// What a command that was not refused ended with.
pub enum Outcome {
    /// All that was asked for.
    Done,
    /// Stopped by Ctrl-C, after a checkpoint was written.
    Interrupted,
}

/// Exit codes are listed in `rtx --help`; the command line's own mistakes end in clap.
fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let done = |()| Outcome::Done;
    let outcome = match &cli.command {
        args::Command::Train(args) => train::train(args),
        args::Command::Generate(args) => generate::generate(args).map(done),
        args::Command::Inspect(args) => inspect::inspect(args).map(done),
        args::Command::Doctor => doctor::doctor().map(done),
        args::Command::Bench(args) => bench::bench(args).map(done),
        args::Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut args::Cli::command(), "rtx", &mut report::Quiet);
            Ok(Outcome::Done)
        }
    };
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Interrupted) => ExitCode::from(interrupt::EXIT_CODE),
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
