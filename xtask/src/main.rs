//! Automation of the repository: `cargo xtask <command>`. Depends on nothing but the standard library.
mod ci;
mod cuda;
mod new_op;
mod public_api;
mod sabotage;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "cargo xtask <command>

  ci                     everything that CI runs: format, clippy, tidy, tests, sabotage, the main job
  tidy                   the house rules that a program can check
  codegen [--check]      derive the committed listings from the op table (--check: only compare)
  coverage               run every sample of the op table on the processor and write docs/coverage.md
  goldens WHAT [--dir D] compare with PyTorch's answers: train cnn|gpt|lstm, opinfo, modules, optim
  public-api [--check]   list what a program can name, in docs/public-api.txt (--check: only compare)
  bench cpu [ROW ...]    time kernels and training steps; --peers: beside PyTorch, --json FILE writes the rows into it
  bench crates [ROW ...] some of them beside candle and burn, which it builds first
  bench doc FILE [FILE]  docs/performance.md from such files: beside PyTorch, beside candle and burn
  bench check [--bless]  plans, launches, allocations, printed code and (with valgrind) instructions against
                         benches/baseline.json (--bless: write it)
  cuda compile           every kernel compiles for every GPU, with no GPU here (--every N: of the samples' one in N)
  sabotage [NAME ...]    break each contract in a copy and see that a test notices
  new-op NAME            add an op: one literal and one list line";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let rest = args.get(1..).unwrap_or_default();
    let result = match args.first().map(String::as_str) {
        Some("ci") => ci::run(),
        Some("tidy") => tidy::run(),
        Some("codegen") => codegen(rest),
        Some("public-api") => public_api::run(rest),
        Some("coverage") => coverage(),
        Some("goldens") => conformance("goldens", rest),
        Some("bench") => bench(rest),
        Some("cuda") => cuda::run(rest),
        Some("sabotage") => sabotage::run(rest),
        Some("new-op") => new_op::run(rest),
        Some("--help" | "-h" | "help") => {
            println!("{HELP}");
            Ok(())
        }
        Some(other) => Err(format!("unknown command `{other}`\n\n{HELP}")),
        None => Err(HELP.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The methods of `Tensor`, from the op table; their freshness is a test of `rtx-tensor`.
fn codegen(rest: &[String]) -> Result<(), String> {
    match rest {
        [] => cargo(&["run", "--quiet", "--package", "rtx-tensor", "--example", "codegen"]),
        [check] if check == "--check" => cargo(&["test", "--quiet", "--package", "rtx-tensor", "--test", "generated"]),
        other => Err(format!("unknown arguments {other:?}; takes --check")),
    }
}

/// The page is made by the test that compares it.
fn coverage() -> Result<(), String> {
    let args = ["test", "--quiet", "--package", "rtx-conformance", "--test", "samples"];
    let status = cargo_command(&args).env("RTX_BLESS", "1").status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err("a sample fails: the page was not written".to_owned()) }
}

/// Rows need programs that are built first: `rtx` for its training run, or candle and burn.
fn bench(rest: &[String]) -> Result<(), String> {
    match rest.first().map(String::as_str) {
        Some("doc" | "check") => {}
        Some("crates") => {
            let peers = root().join("benches/peers");
            let mut build = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
            build.args(["build", "--release", "--quiet"]).current_dir(&peers);
            let target = std::env::var_os("CARGO_TARGET_DIR").map(|t| PathBuf::from(t).join("peers"));
            build.arg("--target-dir").arg(target.unwrap_or_else(|| peers.join("target")));
            let status = build.status().map_err(|e| format!("cargo: {e}"))?;
            if !status.success() {
                return Err("benches/peers does not build".to_owned());
            }
        }
        _ => cargo(&["build", "--release", "--quiet", "--package", "rtx-cli"])?,
    }
    conformance("bench", rest)
}

/// What needs the op table runs in `rtx-conformance`.
fn conformance(command: &str, rest: &[String]) -> Result<(), String> {
    let mut args = vec!["run", "--quiet", "--release", "--package", "rtx-conformance", "--", command];
    args.extend(rest.iter().map(String::as_str));
    cargo(&args)
}

/// Runs cargo in the repository's root and fails with its command line.
fn cargo(args: &[&str]) -> Result<(), String> {
    let status = cargo_command(args).status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("failed: cargo {}", args.join(" "))) }
}

fn cargo_command(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command.args(args).current_dir(root());
    command
}

/// The repository's root.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
