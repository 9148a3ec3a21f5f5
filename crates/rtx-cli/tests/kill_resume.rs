//! A run that is killed at any moment and resumed ends as one that was not: the same log, the same checkpoint, byte
//! for byte. `RTX_KILLS=20 RTX_KILL_STEPS=60` asks for more than the few kills of a test run.
#![cfg(unix)]
mod program;
use program::{SMALL, command, folder, names, ran};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn killed_at_any_moment_it_ends_the_same() {
    let dir = folder("kill");
    let (kills, steps) = (from_env("RTX_KILLS", 5), from_env("RTX_KILL_STEPS", 60));
    fs::write(dir.join("small.toml"), format!("{SMALL}steps = {steps}\n")).expect("file");
    let from = Instant::now();
    ran(&dir, "train --config small.toml --run whole");
    let whole = from.elapsed();
    for kill in 0..kills {
        // Spread over the run, each at a random place of its part, before the first checkpoint and after the last too.
        let jitter = u64::from(std::process::id()).wrapping_mul(0x9e37_79b9).wrapping_add(kill * 7919) % 1000;
        let at = whole.mul_f64((kill as f64 + jitter as f64 / 1000.0) / kills as f64);
        let run = format!("killed-{kill}");
        let step = kill_after(&dir, &run, at);
        go_on(&dir, &run);
        same(&dir.join("whole"), &dir.join(&run));
        println!("killed after {:.2} s, at the checkpoint of step {step}: the same", at.as_secs_f64());
    }
}

/// Starts a run, kills it after a while, and tells the checkpoint that it had come to.
fn kill_after(dir: &Path, run: &str, time: Duration) -> String {
    let mut child =
        command(dir, &format!("train --config small.toml --run {run}")).stdout(Stdio::null()).spawn().expect("starts");
    std::thread::sleep(time);
    child.kill().expect("SIGKILL");
    child.wait().expect("ended");
    let latest = fs::read_link(dir.join(run).join("latest"));
    latest.map_or("none".to_owned(), |l| l.to_string_lossy().into_owned())
}

/// Resumes, or starts where the kill left nothing to resume.
fn go_on(dir: &Path, run: &str) {
    if !dir.join(run).join("config.toml").exists() {
        ran(dir, &format!("train --config small.toml --run {run}"));
        return;
    }
    let out = command(dir, &format!("train --resume {run}")).output().expect("starts");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() || said.contains(": is finished after "), "{said}");
}

fn same(whole: &Path, killed: &Path) {
    let checkpoint = fs::read_link(whole.join("latest")).expect("a checkpoint");
    assert_eq!(fs::read_link(killed.join("latest")).expect("a checkpoint"), checkpoint);
    let mut files = vec!["log.jsonl".into(), "sample.txt".into(), "loss.svg".into()];
    files.extend(names(&whole.join(&checkpoint)).into_iter().map(|name| checkpoint.join(name)));
    for file in files {
        let (a, b) = (fs::read(whole.join(&file)), fs::read(killed.join(&file)));
        assert!(a.expect("whole") == b.expect("killed"), "{}: {} differs", killed.display(), file.display());
    }
    let left: Vec<String> = names(killed).into_iter().filter(|n| n.ends_with(".tmp")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let dir = folder("ctrl-c");
    fs::write(dir.join("long.toml"), format!("{SMALL}steps = 60\n").replace("save = 4", "save = 1000")).expect("file");
    ran(&dir, "train --config long.toml --run whole");
    let child = command(&dir, "train --config long.toml --run r").stdout(Stdio::piped()).spawn().expect("starts");
    while fs::metadata(dir.join("r/log.jsonl")).map_or(true, |m| m.len() == 0) {
        std::thread::sleep(Duration::from_millis(5));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("sent");
    let out = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(130), "{said}");
    assert!(
        said.contains("\nstopped after step ") && said.ends_with(", saved. Go on: rtx train --resume r\n"),
        "{said}"
    );
    assert!(ran(&dir, "train --resume r").contains("run    r, from step "));
    same(&dir.join("whole"), &dir.join("r"));
}
