//! The commands of `cargo xtask` that need the op table.
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["goldens", "opinfo", rest @ ..] => goldens_opinfo(rest),
        ["goldens", "train", name @ ("cnn" | "gpt" | "lstm"), rest @ ..] => {
            directory(rest).and_then(|dir| goldens_train(name, &dir))
        }
        ["goldens", "modules", rest @ ..] => goldens_modules(rest),
        ["goldens", "optim", rest @ ..] => directory_of(rest, "optim").and_then(|dir| goldens_optim(&dir)),
        ["bench", rest @ ..] => bench(rest),
        _ => Err("goldens train cnn|gpt|lstm [--dir DIR]\n\
            goldens opinfo [--dir DIR] [--op NAME] [--dtype f32|bf16|i64] [--failures] [--json FILE] [--bless]\n\
            goldens modules [--dir DIR] [--module NAME] [--failures] [--bless]\n\
            goldens optim [--dir DIR]\n\
            bench [ROW ...] [--json FILE]"
            .to_owned()),
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

/// Every nn module of PyTorch's list, by its class name.
fn goldens_modules(rest: &[&str]) -> Result<(), String> {
    use rtx_conformance::goldens::modules;
    let (mut options, mut bless) = (modules::Options::default(), false);
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or_else(|| format!("{word} takes a value"));
        match *word {
            "--dir" => options.dir = PathBuf::from(value()?),
            "--module" => options.module = Some(value()?.to_owned()),
            "--failures" => options.failures = true,
            "--bless" => bless = true,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    let report = modules::run(&options).map_err(|e| e.to_string())?;
    print!("{}", report.text(&options));
    if bless {
        return report.bless().map_err(|e| e.to_string());
    }
    match report.regressions().map_err(|e| e.to_string())?.as_slice() {
        [] => Ok(()),
        fewer => Err(format!("samples that passed do not any more:\n{}", fewer.join("\n"))),
    }
}

/// The folder of one kind of goldens: the one given, or the copy beside this crate.
fn directory_of(rest: &[&str], kind: &str) -> Result<PathBuf, String> {
    let dir = directory(rest)?;
    Ok(if rest.is_empty() { dir.join(kind) } else { dir })
}

/// Every optimizer and scheduler; one that differs fails.
fn goldens_optim(dir: &std::path::Path) -> Result<(), String> {
    let report = rtx_conformance::goldens::optim::run(dir).map_err(|e| e.to_string())?;
    print!("{report}");
    match report.outcomes.iter().filter(|o| o.fault.is_some()).count() {
        0 => Ok(()),
        n => Err(format!("{n} configurations differ from PyTorch's")),
    }
}

/// Every operator of PyTorch's list, called by name.
fn goldens_opinfo(rest: &[&str]) -> Result<(), String> {
    use rtx_conformance::goldens::opinfo;
    let mut options = opinfo::Options::default();
    let (mut json, mut bless) = (None, false);
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().copied().ok_or_else(|| format!("{word} takes a value"));
        match *word {
            "--dir" => options.dir = PathBuf::from(value()?),
            "--op" => options.op = Some(value()?.to_owned()),
            "--dtype" => options.dtype = value()?.parse()?,
            "--json" => json = Some(PathBuf::from(value()?)),
            "--failures" => options.failures = true,
            "--bless" => bless = true,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    let report = opinfo::run(&options).map_err(|e| e.to_string())?;
    print!("{}", report.text(&options));
    if let Some(path) = json {
        rtx_io::write_file(&path, report.json().as_bytes()).map_err(|e| e.to_string())?;
    }
    if bless {
        return report.bless().map_err(|e| e.to_string());
    }
    match report.regressions().map_err(|e| e.to_string())?.as_slice() {
        [] => Ok(()),
        fewer => Err(format!("fewer samples pass than before:\n{}", fewer.join("\n"))),
    }
}

/// A training run; one that differs fails.
fn goldens_train(name: &str, dir: &std::path::Path) -> Result<(), String> {
    use rtx_conformance::goldens::{cnn, gpt, lstm};
    let dir = dir.join("train").join(name);
    let report = match name {
        "cnn" => cnn::run(&dir).map(|r| (r.to_string(), r.passed())),
        "lstm" => lstm::run(&dir).map(|r| (r.to_string(), r.passed())),
        _ => gpt::run(&dir).map(|r| (r.to_string(), r.passed())),
    };
    let (text, passed) = report.map_err(|e| e.to_string())?;
    print!("{text}");
    if passed { Ok(()) } else { Err(format!("{name} differs from PyTorch's run")) }
}
