//! The commands of `cargo xtask` that need the op table.
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["goldens", "train", "gpt", rest @ ..] => directory(rest).and_then(|dir| goldens_gpt(&dir)),
        ["bench", rest @ ..] => bench(rest),
        _ => Err("goldens train gpt [--dir DIR]\nbench [ROW ...] [--json FILE]".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Rows by name, and where to write them.
fn bench(rest: &[&str]) -> Result<(), String> {
    let at = rest.iter().position(|w| *w == "--json");
    let json = at.map(|i| rest.get(i + 1).ok_or("--json takes a file")).transpose()?.map(std::path::Path::new);
    let names = &rest[..at.unwrap_or(rest.len())];
    rtx_conformance::bench::run(names, json).map_err(|e| e.to_string())
}

/// The folder after `--dir`, or the copies beside this crate.
fn directory(rest: &[&str]) -> Result<PathBuf, String> {
    match rest {
        [] => Ok(rtx_conformance::goldens::default_dir()),
        ["--dir", dir] => Ok(PathBuf::from(dir)),
        other => Err(format!("unknown arguments {other:?}; takes --dir DIR")),
    }
}

fn goldens_gpt(dir: &std::path::Path) -> Result<(), String> {
    let report = rtx_conformance::goldens::gpt::run(&dir.join("train/gpt")).map_err(|e| e.to_string())?;
    print!("{report}");
    if report.passed() { Ok(()) } else { Err("gpt differs from PyTorch's run".into()) }
}
