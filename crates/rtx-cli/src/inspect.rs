//! `rtx inspect`: what is inside a checkpoint, a run's folder or a program.
use crate::args;
use crate::report::print_now;
use crate::run_folder::{Found, checkpoints, read_log, read_state};
use crate::words::{bytes, count, thousands};
use rtx_io::{Array, read_safetensors};
use rustytorch::{DType, Error, Kind, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Tells what a path holds.
///
/// # Errors
/// With one sentence, when it is damaged or nothing that is known.
pub fn inspect(args: &args::Inspect) -> Result<()> {
    let path = args.path.as_path();
    let is = |ending: &str| path.extension().is_some_and(|e| e == ending);
    let text = if !path.exists() {
        Err(Error::new(Kind::Argument, format!("{}: no such file or folder", path.display())))
    } else if path.is_dir() && path.join("config.toml").exists() {
        run(path)
    } else if path.is_dir() && path.join("state.json").exists() {
        checkpoint(path)
    } else if path.is_file() && is("safetensors") {
        tensors(path)
    } else if path.is_file() && is("rtxir") {
        program(path)
    } else {
        let what = "is no .safetensors file, no checkpoint's folder, no run's folder and no .rtxir file";
        Err(Error::new(Kind::Argument, format!("{}: {what}", path.display())))
    };
    print_now(&text?);
    Ok(())
}

/// Lines of columns, as wide as their widest entry.
fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, w)| format!("{cell:<w$}"));
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    out
}

/// A run: its settings, how far it came, its checkpoints.
fn run(path: &Path) -> Result<String> {
    let found = Found::at(path)?;
    let mut out = format!("run     {}\n", path.display());
    let settings = found.settings.to_table();
    let words: Vec<String> = settings.iter().map(|(key, value)| format!("{key} {value}")).collect();
    for (i, line) in words.chunks(6).enumerate() {
        out += &format!("{:<8}{}\n", if i == 0 { "config" } else { "" }, line.join(" · "));
    }
    let log = read_log(path)?;
    if let Some(last) = log.last() {
        out += &format!("log     {}, the last {last}\n", count(log.len() as u64, "line", "lines"));
    }
    let latest = found.checkpoint().ok().map(|c| c.folder);
    for (i, (_, folder)) in checkpoints(path)?.iter().enumerate() {
        let state = read_state(folder)?;
        let notes = [(Some(folder) == latest.as_ref()).then_some("latest"), state.finished.then_some("finished")];
        let notes: Vec<&str> = notes.into_iter().flatten().collect();
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        out += &format!(
            "{:<8}{name}  {}  {}\n",
            if i == 0 { "saved" } else { "" },
            bytes(size_of(folder)),
            notes.join(", ")
        );
    }
    if latest.is_none() {
        out += "saved   nothing yet\n";
    }
    Ok(out)
}

fn size_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum()
}

/// A checkpoint: where it stands, and its model.
fn checkpoint(path: &Path) -> Result<String> {
    let state = read_state(path)?;
    let mut out = format!(
        "step    {}{}\ndata    pass {}, batch {}\nrandom  seed {}, {} drawn\n",
        thousands(state.step),
        if state.finished { ", finished" } else { "" },
        state.position.0,
        state.position.1,
        state.random.0,
        count(state.random.1, "op", "ops"),
    );
    let optimizer = read_safetensors(&path.join("optimizer.safetensors"))?;
    let stored: u64 = optimizer.arrays.values().map(|a| a.bytes.len() as u64).sum();
    let arrays = count(optimizer.arrays.len() as u64, "tensor", "tensors");
    out += &format!("moments {arrays}, {}\n\n", bytes(stored));
    Ok(out + &tensors(&path.join("model.safetensors"))?)
}

/// The tensors of a file, each with what its numbers look like.
fn tensors(path: &Path) -> Result<String> {
    let contents = read_safetensors(path)?;
    let head = ["tensor", "dtype", "shape", "size", "mean", "deviation", "least", "most"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let (mut elements, mut size) = (0, 0);
    for (name, array) in &contents.arrays {
        elements += array.shape.iter().product::<usize>() as u64;
        size += array.bytes.len() as u64;
        let mut row =
            vec![name.clone(), array.dtype.to_string(), format!("{:?}", array.shape), bytes(array.bytes.len() as u64)];
        row.extend(numbers(array));
        rows.push(row);
    }
    let notes: Vec<String> = contents.notes.iter().map(|(k, v)| format!(" · {k} {v}")).collect();
    let tensors = count(contents.arrays.len() as u64, "tensor", "tensors");
    Ok(format!("{}\n{tensors} · {} numbers · {}{}\n", table(&rows), thousands(elements), bytes(size), notes.concat()))
}

/// Mean, deviation, least and most of floats; what is not a number is counted instead.
fn numbers(array: &Array) -> [String; 4] {
    let values: Vec<f64> = match array.dtype {
        DType::F32 => array.bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect(),
        DType::F64 => array.bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
        _ => Vec::new(),
    };
    if values.is_empty() {
        return Default::default();
    }
    let bad = values.iter().filter(|x| !x.is_finite()).count();
    if bad > 0 {
        return [format!("{} not finite", thousands(bad as u64)), String::new(), String::new(), String::new()];
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    [mean, deviation, least, most].map(|x| format!("{x:>8.4}"))
}

/// A program in the tensor language: what goes in, what comes out, which ops it is made of.
fn program(path: &Path) -> Result<String> {
    let named = |e: Error| Error::new(e.kind(), format!("{}: {}", path.display(), e.message()));
    let file = fs::read(path).map_err(|e| Error::new(Kind::Io, format!("{}: cannot read: {e}", path.display())))?;
    let lookup = |name: &str| rtx_ops::ALL.iter().copied().find(|def| rtx_ir::text::call_name(def) == name);
    let program = rtx_ir::text::read_file(&file, &lookup).map_err(named)?;
    let graph = &program.graph;
    let (mut inputs, mut ops) = (Vec::new(), BTreeMap::<String, u64>::new());
    for node in graph.nodes() {
        match &node.op {
            rtx_ir::Op::Input => inputs.extend(node.outs().map(|v| graph.ty(v).to_string())),
            op => *ops.entry(op.name().to_owned()).or_default() += 1,
        }
    }
    let outputs: Vec<String> = program.outputs.iter().map(|v| graph.ty(*v).to_string()).collect();
    let mut ops: Vec<(String, u64)> = ops.into_iter().collect();
    ops.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let ops: Vec<String> = ops.into_iter().map(|(name, n)| if n == 1 { name } else { format!("{n} {name}") }).collect();
    Ok(format!(
        "program  {}, numerics {}{}\ntakes    {}\ngives    {}\nops      {}\n",
        count(graph.nodes().len() as u64, "node", "nodes"),
        program.numerics,
        if program.numerics == rustytorch::NUMERICS_VERSION { "" } else { " (this rtx has another: other bits)" },
        if inputs.is_empty() { "nothing".to_owned() } else { inputs.join(", ") },
        outputs.join(", "),
        ops.join(", ")
    ))
}
