//! The program as tests run it: in a folder of their own, with its sentences.
#![allow(dead_code, reason = "each test file uses a part")]
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A fresh folder for one test.
pub fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("rtx-cli-test-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("the test's folder");
    dir
}
/// `rtx` in `dir`, not yet started.
pub fn command(dir: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rtx"));
    command.current_dir(dir).args(words(line));
    command
}
/// Runs `rtx` in `dir`.
pub fn rtx(dir: &Path, line: &str) -> Output {
    command(dir, line).output().expect("starts")
}
/// Words; `'…'` is one.
pub fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(i, part)| match i % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        })
        .collect()
}
/// The sentence of a refusal.
pub fn refused(dir: &Path, line: &str) -> String {
    let out = rtx(dir, line);
    assert!(out.stdout.is_empty(), "{line}: {}", String::from_utf8_lossy(&out.stdout));
    sentence(&out)
}
/// The sentence of a run that failed after it had begun.
pub fn sentence(out: &Output) -> String {
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    String::from_utf8_lossy(&out.stderr).trim_end().to_owned()
}
/// What `rtx` prints when all goes well.
pub fn ran(dir: &Path, line: &str) -> String {
    let out = rtx(dir, line);
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}
/// The names in a folder, sorted.
pub fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("listing");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
/// Settings of a run that takes a second.
pub const SMALL: &str = "width = 16\nheads = 2\nlayers = 1\nbatch = 8\nreport = 2\ncheck = 20\nsave = 4\n";
