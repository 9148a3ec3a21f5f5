//! `rtx`: trains and runs models from the command line.

mod args;
mod generate;
mod gpt;
mod job;
mod plot;
mod report;
mod run_folder;
mod settings;
mod train;

use clap::Parser;
use std::process::ExitCode;

/// 0 when all went well, 1 with `error: …` on stderr when something was refused or failed, 2 for a command line that
/// makes no sense.
fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let done = match &cli.command {
        args::Command::Train(args) => train::train(args),
        args::Command::Generate(args) => generate::generate(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
