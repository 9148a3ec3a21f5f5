//! `cargo xtask bench check`: counters that must not grow, and instructions of record → key → replay under callgrind.
//!
//! Hardware counters are not to be had on shared machines and clocks are noise, so what is gated is exact: the plans
//! of canonical programs on a device whose kernels do nothing, the machine code printed for them, and the instructions
//! that valgrind counts for a step, as a ratio to a yardstick of fixed work counted in the same run.
use super::baseline::Baseline;
use super::programs::{PROGRAMS, Ready, STEPS};
use super::rows::Work;
use rtx_core::{Error, Kind, Result};
use rtx_cpu::{Isa, Jit};
use rustytorch::{self as torch, Device};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::{Command, Stdio};

/// Instruction counts may grow by so much.
const SLACK: f64 = 1.05;
/// The name of the fixed work among the programs.
const YARDSTICK: &str = "yardstick";

/// Compares with the baseline, or writes it with `bless`.
///
/// # Errors
/// [`Kind::Argument`] with every counter that grew.
pub fn check(bless: bool) -> Result<()> {
    let mut now = Baseline::default();
    println!("counters of plans and steps");
    for (name, make) in PROGRAMS {
        let counts = Ready::new(*make)?.count()?;
        println!("  {name:14} {}", shown(&counts));
        now.set("counters", name, counts.iter().map(|(name, n)| (*name, *n as f64)));
    }
    if rtx_cpu::isa() == Isa::Avx512 {
        println!("machine code printed for their loops");
        printed(&mut now)?;
    } else {
        println!("machine code printed for their loops: not compared, this processor has no AVX-512");
    }
    match callgrind(&mut now)? {
        true => {}
        false => println!("instructions of a step: NOT COUNTED, there is no valgrind here (apt-get install valgrind)"),
    }
    if bless {
        let mut all = Baseline::read().unwrap_or_default();
        all.0.extend(now.0);
        return all.write();
    }
    let slack = |section: &str| if section == "instructions" { SLACK } else { 1.0 };
    let (worse, better) = Baseline::read()?.compare(&now, slack);
    better.iter().for_each(|line| println!("better: {line}"));
    if !better.is_empty() {
        println!("cargo xtask bench check --bless keeps it");
    }
    match worse.as_slice() {
        [] => {
            println!("nothing grew");
            Ok(())
        }
        worse => Err(Error::new(Kind::Argument, format!("bench check: more than before\n{}", worse.join("\n")))
            .hint("if that is meant, cargo xtask bench check --bless writes the new baseline")),
    }
}

fn shown(counts: &BTreeMap<&'static str, u64>) -> String {
    let some = counts.iter().filter(|(_, n)| **n > 0);
    some.map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
}

/// Steps of the programs on the processor itself, with every loop printed.
fn printed(now: &mut Baseline) -> Result<()> {
    torch::set_default_device(&Device::cpu());
    rtx_cpu::set_jit(Some(Jit::Always));
    for (name, make) in PROGRAMS {
        torch::manual_seed(0);
        let mut work = make();
        torch::flush()?;
        let before = rtx_cpu::jit_counters();
        (0..2).try_for_each(|_| work())?;
        let after = rtx_cpu::jit_counters();
        let counts = BTreeMap::from([
            ("loops", after.loops - before.loops),
            ("instructions", after.printed - before.printed),
            ("left_to_the_vm", after.left - before.left),
            ("bytes", after.bytes - before.bytes),
        ]);
        println!("  {name:14} {}", shown(&counts));
        now.set("printed_avx512", name, counts.iter().map(|(name, n)| (*name, *n as f64)));
    }
    rtx_cpu::set_jit(None);
    Ok(())
}

/// Counts instructions with valgrind; `false` where there is none.
fn callgrind(now: &mut Baseline) -> Result<bool> {
    if !Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok_and(|s| s.success()) {
        return Ok(false);
    }
    let yardstick = count_instructions(YARDSTICK)?;
    println!("instructions of a step, and their ratio to a yardstick of {} million", yardstick / 1_000_000);
    for (name, _) in PROGRAMS {
        let step = count_instructions(name)? as f64 / STEPS as f64;
        let ratio = step / yardstick as f64;
        println!("  {name:14} {step:>10.0}   {ratio:.5}");
        now.set("instructions", name, [("ratio_to_yardstick", ratio)]);
    }
    Ok(true)
}

/// Instructions of [`counted_by_callgrind`] in a process of its own.
fn count_instructions(program: &str) -> Result<u64> {
    let profile = std::env::temp_dir().join(format!("rtx-callgrind-{}", std::process::id()));
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*counted_by_callgrind*"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(std::env::current_exe()?)
        .args(["bench", "replay", program])
        .output()?;
    let text = std::fs::read_to_string(&profile);
    let _ = std::fs::remove_file(&profile);
    if !out.status.success() {
        return Err(Error::new(Kind::Internal, format!("callgrind: {}", String::from_utf8_lossy(&out.stderr))));
    }
    let text = text?;
    let total = text.lines().find_map(|l| l.strip_prefix("summary:")).and_then(|t| t.trim().parse().ok());
    match total {
        Some(n) if n > 0 => Ok(n),
        _ => Err(Error::new(Kind::Internal, format!("callgrind counted nothing for {program}"))),
    }
}

/// What callgrind runs: the yardstick, or steps of a program on a null device.
///
/// # Errors
/// When a step fails, or there is no such program.
pub fn replay(program: &str) -> Result<()> {
    if program == YARDSTICK {
        return counted_by_callgrind(&mut || {
            black_box(fixed_work());
            Ok(())
        });
    }
    let found = PROGRAMS.iter().find(|(name, _)| *name == program);
    let unknown = || Error::new(Kind::Argument, format!("bench replay: no program is called {program}"));
    let (_, make) = found.ok_or_else(unknown)?;
    let mut work: Work = Ready::new(*make)?.work;
    counted_by_callgrind(&mut || (0..STEPS).try_for_each(|_| work()))
}

/// Callgrind counts while this function runs, and writes what it counted when it ends.
#[inline(never)]
fn counted_by_callgrind(f: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    f()
}

/// Work of the kind that the runtime does: small allocations, hashes, sorted maps.
fn fixed_work() -> usize {
    let mut map = BTreeMap::new();
    for i in 0..20_000u64 {
        let text = format!("{}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40);
        map.entry(text).or_insert_with(Vec::new).push(i);
    }
    map.values().map(Vec::len).sum()
}
