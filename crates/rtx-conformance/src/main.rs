//! The commands of `cargo xtask` that need the op table.
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut words: Vec<&str> = args.iter().map(String::as_str).collect();
    if let Some(at) = words.iter().position(|w| *w == "--device").filter(|at| at + 1 < words.len()) {
        let name = words.drain(at..at + 2).next_back().unwrap_or_default();
        match name.parse() {
            Ok(device) => rustytorch::set_default_device(&device),
            Err(e) => {
                eprintln!("{e}");
                return ExitCode::FAILURE;
            }
        }
    }
    let result = match words.as_slice() {
        ["goldens", "opinfo", rest @ ..] => goldens_opinfo(rest),
        ["goldens", "train", name @ ("cnn" | "gpt" | "lstm"), rest @ ..] => {
            directory(rest).and_then(|dir| goldens_train(name, &dir))
        }
        ["goldens", "modules", rest @ ..] => goldens_modules(rest),
        ["goldens", "optim", rest @ ..] => directory_of(rest, "optim").and_then(|dir| goldens_optim(&dir)),
        ["bench", rest @ ..] => bench(rest),
        ["cuda", "compile", rest @ ..] => cuda_compile(rest),
        ["cuda", "samples", rest @ ..] => cuda_samples(rest),
        ["cuda", "bench", rest @ ..] => rtx_conformance::cuda_bench::run(rest).map_err(|e| e.to_string()),
        ["cuda", "launches"] => rtx_conformance::cuda_bench::launches().map_err(|e| e.to_string()),
        ["cuda", "check"] => {
            rtx_conformance::cuda_check::run().map_err(|e| e.to_string()).and_then(|right| match right {
                true => Ok(()),
                false => Err("wrong results".to_owned()),
            })
        }
        _ => Err("every command takes --device cpu|cuda:0\n\
            goldens train cnn|gpt|lstm [--dir DIR]\n\
            goldens opinfo [--dir DIR] [--op NAME] [--dtype f32|bf16|i64] [--failures] [--json FILE] [--bless]\n\
            goldens modules [--dir DIR] [--module NAME] [--failures] [--bless]\n\
            goldens optim [--dir DIR]\n\
            bench [cpu] [ROW ...] [--peers] [--json FILE]\n\
            bench crates [ROW ...] [--json FILE]\n\
            bench check [--bless]\n\
            bench doc FILE [FILE of crates]\n\
            cuda compile [--arch sm_90a,...] [--every N] [--texts DIR]\n\
            cuda samples [--shard I/N] [--dtype f32|bf16|f16] [--op NAME]\n\
            cuda check\n\
            cuda launches\n\
            cuda bench [ROW ...]"
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

/// Words as `--name value` pairs with these names.
fn options<'a>(rest: &[&'a str], names: &[&str]) -> Result<std::collections::HashMap<&'a str, &'a str>, String> {
    let mut out = std::collections::HashMap::new();
    for pair in rest.chunks(2) {
        match pair {
            [name, value] if names.contains(name) => _ = out.insert(*name, *value),
            other => return Err(format!("unknown arguments {other:?}; takes {}", names.join(", "))),
        }
    }
    Ok(out)
}

/// Every kernel of the table compiled for GPUs that need not be there.
fn cuda_compile(rest: &[&str]) -> Result<(), String> {
    use rtx_conformance::cuda_texts as cuda;
    let options = options(rest, &["--arch", "--every", "--texts"])?;
    if let Some(dir) = options.get("--texts") {
        std::fs::create_dir_all(dir).map_err(|e| e.to_string())?;
        let mut texts = cuda::of_samples()?;
        texts.extend(cuda::of_programs()?);
        for (i, (text, name)) in texts.into_iter().enumerate() {
            let file = format!("{dir}/{i:05}_{}.cu", name.replace(|c: char| !c.is_alphanumeric(), "_"));
            std::fs::write(file, text.text).map_err(|e| e.to_string())?;
        }
        return Ok(());
    }
    let architectures: Vec<&str> =
        options.get("--arch").map_or_else(|| cuda::ARCHITECTURES.to_vec(), |a| a.split(',').collect());
    let every = options.get("--every").map_or(Ok(1), |n| n.parse()).map_err(|_| "--every takes a number")?;
    let start = std::time::Instant::now();
    let done = cuda::compile(&architectures, every)?;
    println!(
        "{} kernels compiled in {:.1} s, {} faults",
        done.kernels,
        start.elapsed().as_secs_f64(),
        done.faults.len()
    );
    match done.faults.as_slice() {
        [] => Ok(()),
        faults => Err(faults.iter().take(40).cloned().collect::<Vec<_>>().join("\n")),
    }
}

/// Every sample on GPU 0 beside the CPU.
fn cuda_samples(rest: &[&str]) -> Result<(), String> {
    use rtx_core::DType;
    let options = options(rest, &["--shard", "--dtype", "--op"])?;
    let shard = options.get("--shard").map(|s| {
        let (i, n) = s.split_once('/').unwrap_or(("0", s));
        i.parse().ok().zip(n.parse().ok()).ok_or("--shard takes I/N")
    });
    let floats = match options.get("--dtype") {
        None => vec![None, Some(DType::BF16), Some(DType::F16)],
        Some(&"f32") => vec![None],
        Some(name) => vec![Some(DType::parse(name).ok_or("--dtype takes f32, bf16 or f16")?)],
    };
    let start = std::time::Instant::now();
    let shard = shard.transpose()?.unwrap_or((0, 1));
    let done = rtx_conformance::cuda::run_samples(shard, &floats, options.get("--op").copied())?;
    println!(
        "{} samples with the CPU's bits, {} ops within tolerance, {} refused, {} faults, {:.1} s",
        done.same,
        done.close.len(),
        done.refused.len(),
        done.faults.len(),
        start.elapsed().as_secs_f64()
    );
    println!("  within tolerance: {}", done.close.iter().copied().collect::<Vec<_>>().join(" "));
    println!("  refused: {}", done.refused.iter().cloned().collect::<Vec<_>>().join(" "));
    match done.faults.as_slice() {
        [] => Ok(()),
        faults => Err(faults.join("\n")),
    }
}

/// Rows by name, who is asked, and where to write them; the page made of what was written; the gates.
fn bench(rest: &[&str]) -> Result<(), String> {
    use rtx_conformance::bench::{self, Beside};
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md");
    let done = match rest {
        ["doc", json] => bench::write_doc(json.as_ref(), None, &page),
        ["doc", json, crates] => bench::write_doc(json.as_ref(), Some(crates.as_ref()), &page),
        ["check"] => bench::check(false),
        ["check", "--bless"] => bench::check(true),
        ["once"] => bench::once(),
        ["replay", program] => bench::replay(program),
        ["crates", rest @ ..] => return bench_rows(rest, Beside::Crates),
        ["cpu", rest @ ..] => return bench_rows(rest, Beside::Nobody),
        rest => return bench_rows(rest, Beside::Nobody),
    };
    done.map_err(|e| e.to_string())
}

fn bench_rows(rest: &[&str], mut beside: rtx_conformance::bench::Beside) -> Result<(), String> {
    let (mut names, mut json) = (vec![], None);
    let mut words = rest.iter();
    while let Some(&word) = words.next() {
        match word {
            "--peers" => beside = rtx_conformance::bench::Beside::PyTorch,
            "--json" => json = Some(std::path::Path::new(*words.next().ok_or("--json takes a file")?)),
            name if name.starts_with("--") => return Err(format!("unknown argument {name}")),
            name => names.push(name),
        }
    }
    rtx_conformance::bench::run(&names, beside, json).map_err(|e| e.to_string())
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
