//! `cargo xtask tidy`: the house rules that a program can check.
use crate::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates in which `unsafe` may stand (style: Unsafe).
const UNSAFE: &[&str] = &["rtx-hal", "rtx-cpu", "rtx-kernel-cpu", "rustg", "rtx-runtime"];
/// Module names that say nothing.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "misc", "base"];
/// A file is one subject.
const MAX_LINES: usize = 1000;

pub(crate) fn run() -> Result<(), String> {
    let mut faults = floors()?;
    let mut files = Vec::new();
    walk(&root().join("crates"), &mut files);
    walk(&root().join("xtask"), &mut files);
    for file in &files {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        faults.extend(check_file(file, &text));
    }
    if faults.is_empty() {
        println!("tidy: {} files", files.len());
        return Ok(());
    }
    Err(faults.join("\n"))
}

fn check_file(file: &Path, text: &str) -> Vec<String> {
    let shown = file.strip_prefix(root()).unwrap_or(file).display().to_string();
    let mut faults = Vec::new();
    let mut fault = |what: String| faults.push(format!("{shown}: {what}"));
    if !text.starts_with("//!") {
        fault("does not open with a `//!` sentence that says what it is for".into());
    }
    let lines = text.lines().count();
    if lines > MAX_LINES {
        fault(format!("has {lines} lines; is it still one subject?"));
    }
    let stem = file.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
    if EMPTY_NAMES.contains(&stem) {
        fault(format!("`{stem}` says nothing"));
    }
    let krate = shown.split('/').nth(1).unwrap_or_default();
    // The words are put together here so that this file does not hold them.
    for (word, why) in [("todo", "a stub"), ("unimplemented", "a stub"), ("dbg", "left from debugging")] {
        if text.contains(&format!("{word}!(")) {
            fault(format!("`{word}!` is {why}"));
        }
    }
    let keyword = ["un", "safe "].concat();
    if !UNSAFE.contains(&krate)
        && text.lines().any(|l| l.trim_start().starts_with(&keyword) || l.contains(&format!("= {keyword}")))
    {
        fault("unsafe code outside the crates that may have it".into());
    }
    faults
}

fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for p in paths {
        if p.is_dir() {
            walk(&p, out);
        } else if p.extension().is_some_and(|e| e == "rs") {
            out.push(p);
        }
    }
}

struct Manifest {
    floor: Option<u32>,
    dependencies: Vec<String>,
    dev_dependencies: Vec<String>,
}

/// A crate depends only on crates of a strictly lower floor; tests may also look sideways at the test kit.
fn floors() -> Result<Vec<String>, String> {
    let crates = root().join("crates");
    let mut manifests = BTreeMap::new();
    for entry in fs::read_dir(&crates).map_err(|e| format!("{}: {e}", crates.display()))?.flatten() {
        let path = entry.path().join("Cargo.toml");
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        manifests.insert(entry.file_name().to_string_lossy().into_owned(), parse_manifest(&text));
    }
    let mut faults = Vec::new();
    for (name, m) in &manifests {
        let Some(floor) = m.floor else {
            faults.push(format!("{name}: no [package.metadata.rtx] floor"));
            continue;
        };
        let higher = |d: &&String| manifests.get(*d).and_then(|x| x.floor).is_some_and(|f| f >= floor);
        for d in m.dependencies.iter().filter(higher) {
            faults.push(format!("{name} (floor {floor}) depends on {d}, which is not on a lower floor"));
        }
        for d in m.dev_dependencies.iter().filter(higher).filter(|d| *d != "rtx-testkit") {
            faults.push(format!("{name} (floor {floor}) tests with {d}, which is not on a lower floor"));
        }
    }
    Ok(faults)
}

/// Reads the little of a manifest that tidy needs; our manifests keep one dependency a line.
fn parse_manifest(text: &str) -> Manifest {
    let mut m = Manifest { floor: None, dependencies: Vec::new(), dev_dependencies: Vec::new() };
    let mut section = "";
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        } else if let Some((key, value)) = line.split_once('=') {
            let name = key.trim().split('.').next().unwrap_or_default().to_owned();
            match section {
                "package.metadata.rtx" if name == "floor" => m.floor = value.trim().parse().ok(),
                "dependencies" => m.dependencies.push(name),
                "dev-dependencies" => m.dev_dependencies.push(name),
                _ => {}
            }
        }
    }
    m
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_manifest() {
        let m = parse_manifest(
            "[package.metadata.rtx]\nfloor = 3\n[dependencies]\nrtx-ir.workspace = true\n[dev-dependencies]\nx = \"1\"",
        );
        assert_eq!((m.floor, m.dependencies, m.dev_dependencies), (Some(3), vec!["rtx-ir".into()], vec!["x".into()]));
    }

    #[test]
    fn finds_what_it_looks_for() {
        let bad = check_file(&root().join("crates/rtx-ir/src/utils.rs"), &format!("fn f() {{ {}!() }}", "todo"));
        assert_eq!(bad.len(), 3, "{bad:?}");
    }
}
