//! `cargo xtask ci`: the gates, in the order in which they are cheap.
use crate::{cargo, root, sabotage, tidy};
use std::process::Command;
use std::time::Instant;

/// Of the kernels that samples have on a GPU, one in this many is compiled here; of whole programs' all are.
const SAMPLED: &str = "100";
/// Held-out sums that the default run must get right, in percent.
const EXACT_PERCENT: f64 = 99.0;
/// Seconds that the default run may take on two cores, build not included.
const TRAIN_SECONDS: f64 = 180.0;

pub(crate) fn run() -> Result<(), String> {
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    step("tidy", tidy::run)?;
    step("clippy", || cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    step("public api", || crate::public_api::run(&["--check".to_owned()]))?;
    step("tests", || cargo(&["test", "--workspace"]))?;
    step("sabotage", || sabotage::run(&[]))?;
    step("counters", || crate::conformance("bench", &["check".to_owned()]))?;
    step("operators", || crate::conformance("goldens", &["opinfo".to_owned()]))?;
    step("modules", || crate::conformance("goldens", &["modules".to_owned()]))?;
    step("cuda kernels", || crate::cuda::run(&["compile".to_owned(), "--every".to_owned(), SAMPLED.to_owned()]))?;
    step("examples", examples)?;
    step("the main job", main_job)
}

fn step(name: &str, f: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    println!("── {name}");
    let from = Instant::now();
    f().map_err(|e| format!("{name}: {e}"))?;
    println!("── {name}: {:.0} s", from.elapsed().as_secs_f64());
    Ok(())
}

/// Every example runs to its end: each checks what it prints.
fn examples() -> Result<(), String> {
    let folder = root().join("crates/rustytorch/examples");
    let listed = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names: Vec<String> =
        listed.filter_map(|e| e.ok()?.file_name().to_str()?.strip_suffix(".rs").map(str::to_owned)).collect();
    names.sort();
    names
        .iter()
        .try_for_each(|name| cargo(&["run", "--release", "--quiet", "--package", "rustytorch", "--example", name]))
}

/// `cargo run --release -- train` learns to add, and `generate` answers a sum.
fn main_job() -> Result<(), String> {
    cargo(&["build", "--release", "--quiet"])?;
    let run = std::env::temp_dir().join(format!("rtx-ci-{}", std::process::id()));
    let run = run.to_str().ok_or("the temporary folder has a name that is not text")?;
    let from = Instant::now();
    let printed = rtx(&["train", "--run", run])?;
    let seconds = from.elapsed().as_secs_f64();
    let exact = exact_percent(&printed).ok_or("train printed no `N of M sums` line")?;
    println!("exact {exact:.1} % in {seconds:.0} s");
    if exact < EXACT_PERCENT {
        return Err(format!("{exact} % of the held-out sums are right, {EXACT_PERCENT} % are asked for"));
    }
    if seconds > TRAIN_SECONDS {
        return Err(format!("the run took {seconds:.0} s, {TRAIN_SECONDS} s are allowed"));
    }
    let answer = rtx(&["generate", "--run", run, "--prompt", "123+456="])?;
    if !answer.contains("579") && !answer.contains("975") {
        return Err(format!("generate does not know 123+456: {answer}"));
    }
    std::fs::remove_dir_all(run).map_err(|e| format!("{run}: {e}"))
}

/// Runs the release binary, shows what it prints, and returns it.
fn rtx(args: &[&str]) -> Result<String, String> {
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), Into::into);
    let out = Command::new(target.join("release/rtx")).args(args).output().map_err(|e| format!("rtx: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    print!("{text}{}", String::from_utf8_lossy(&out.stderr));
    if out.status.success() { Ok(text) } else { Err(format!("failed: rtx {}", args.join(" "))) }
}

/// Of `1,000 of 1,000 sums it never saw are right.`
fn exact_percent(text: &str) -> Option<f64> {
    let line = text.lines().find(|l| l.contains(" sums it never saw are right"))?;
    let number = |w: &str| w.replace(',', "").parse::<f64>().ok();
    let mut words = line.split_whitespace();
    let right = number(words.next()?)?;
    let all = number(words.nth(1)?)?;
    Some(100.0 * right / all)
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_the_closing_line() {
        assert_eq!(super::exact_percent("x\n998 of 1,000 sums it never saw are right.   1+1 → 2"), Some(99.8));
        assert_eq!(super::exact_percent("nothing"), None);
    }
}
