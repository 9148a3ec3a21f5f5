//! The generated methods are fresh, and every op of the table can be reached.
#[path = "../codegen/generate.rs"]
mod generate;

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

fn formatted(text: &str) -> String {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path", concat!(env!("CARGO_MANIFEST_DIR"), "/../..")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt runs");
    rustfmt.stdin.take().expect("piped").write_all(text.as_bytes()).expect("rustfmt reads");
    String::from_utf8(rustfmt.wait_with_output().expect("rustfmt ends").stdout).expect("text")
}

#[test]
fn methods_are_fresh() {
    let committed = include_str!("../src/methods.rs");
    assert!(
        committed == formatted(&generate::generate(&generate::table())),
        "src/methods.rs is stale: run `cargo run -p rtx-tensor --example codegen`"
    );
}

/// Ops without a method are called by name in hand-written code: functions, views, spellings of their own. Those that
/// only `call` reaches stand in a list, which is to become shorter.
#[test]
fn every_op_is_reachable() {
    let sources: String = fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
        .expect("sources")
        .map(|f| f.expect("a file").path())
        .filter(|path| path.is_file())
        .map(|path| fs::read_to_string(path).expect("text"))
        .collect();
    let written = |name: &str| {
        ["pub fn {}(", "pub fn {}<", "op!(\"{}\")", "\n    {}(", "pub fn {}_(", "fn {}(", "\n    {} "]
            .iter()
            .any(|p| sources.contains(&p.replace("{}", name)))
    };
    // Gradients of composites, the optimizers' own ops, and what PyTorch keeps to itself: called by name.
    let internal = |name: &str| {
        name == "attention"
            || name.starts_with('_')
            || ["_backward", "_grad", "_step", "_layer", "_weighted"].iter().any(|end| name.ends_with(end))
    };
    let mut missing: Vec<&str> =
        rtx_ops::ALL.iter().map(|d| d.name()).filter(|n| !internal(n) && !written(n)).collect();
    missing.sort_unstable();
    missing.dedup();
    let known: Vec<&str> = include_str!("by_name_only.txt").lines().collect();
    assert_eq!(missing, known, "what only `call` reaches is listed in by_name_only.txt; a method is better");
}
