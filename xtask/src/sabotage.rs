//! `cargo xtask sabotage [NAME]`: breaks each contract in a copy of the source and expects a named test to fail.
//!
//! A test that cannot fail proves nothing. Each row edits one line in a way that keeps the program compiling and
//! breaks one promise; the test named beside it must notice.
use crate::root;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One broken contract.
struct Sabotage {
    name: &'static str,
    /// What is broken, and which contract that is.
    breaks: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
    /// Package, test target, test.
    test: [&'static str; 3],
}

const PROGRAMS: [&str; 3] = ["rtx-conformance", "random_programs", "every_way_of_running_gives_the_same_bits"];

const SABOTAGES: &[Sabotage] = &[
    Sabotage {
        name: "contraction",
        breaks: "N2: a fused kernel multiplies and adds with one rounding",
        file: "crates/rtx-compiler/src/lower.rs",
        find: "            Prim::Binary(f) => Instr::Binary(*f, at[0], at[1]),",
        replace: "            Prim::Binary(rtx_core::Arith::Add) if self.work.graph.ty(v).dtype.is_float() && matches!(self.protos.get(at[0].index()), Some(Proto::Plain(Instr::Binary(rtx_core::Arith::Mul, ..)))) => {
                let Some(Proto::Plain(Instr::Binary(_, x, y))) = self.protos.get(at[0].index()).cloned() else { unreachable!() };
                Instr::Fma(x, y, at[1])
            }
            Prim::Binary(f) => Instr::Binary(*f, at[0], at[1]),",
        test: PROGRAMS,
    },
    Sabotage {
        name: "tree",
        breaks: "N3: the reduction tree has other blocks",
        file: "crates/rustg/src/vm/reduce.rs",
        find: "const BLOCK: usize = 4096;",
        replace: "const BLOCK: usize = 2048;",
        test: ["rustg", "vm", ""],
    },
    Sabotage {
        name: "donation",
        breaks: "M2: memory that somebody still reads is overwritten",
        file: "crates/rtx-runtime/src/facts.rs",
        find: "    let unshared = value.is_unshared();",
        replace: "    let unshared = true;",
        test: ["rtx-runtime", "regions", "what_nobody_holds_is_overwritten_and_what_somebody_holds_is_not"],
    },
    Sabotage {
        name: "saves",
        breaks: "A1: a gradient rule reads a value that it did not declare",
        file: "crates/rtx-ir/src/prims/index.rs",
        find: "saves: Saves::Only { inputs: &[1], outputs: &[] },",
        replace: "saves: Saves::NONE,",
        test: ["rtx-testkit", "primitives", "rules_read_what_they_save"],
    },
    Sabotage {
        name: "alias",
        breaks: "M2: the key does not say which inputs share memory",
        file: "crates/rtx-runtime/src/facts.rs",
        find: "    let alias = first.map(|(i, _)| *i);",
        replace: "    let alias = first.map(|(i, _)| *i).filter(|_| false);",
        test: ["rtx-runtime", "regions", "a_key_holds_strides_donation_and_aliases"],
    },
    Sabotage {
        name: "ordinal",
        breaks: "M7: random ops are numbered when a region runs, not when they are recorded",
        file: "crates/rtx-tensor/src/random.rs",
        find: "ordinal: self.0.ordinal.fetch_add(1, Relaxed)",
        replace: "ordinal: rtx_device::cpu().counters().flushes.iter().sum()",
        test: PROGRAMS,
    },
    Sabotage {
        name: "casts",
        breaks: "N1: a pair of casts that rounds is dropped",
        file: "crates/rtx-compiler/src/simplify.rs",
        find: "    holds(middle, from) && (!saturates || holds(to, from))",
        replace: "    (holds(middle, from) || middle.is_float()) && (!saturates || holds(to, from))",
        test: PROGRAMS,
    },
    Sabotage {
        name: "recomputation",
        breaks: "A4: equal nodes of two generations are merged",
        file: "crates/rtx-compiler/src/simplify.rs",
        find: "let key = key(&op, inputs, at.generation);",
        replace: "let at = Origin { generation: 0, ..at };\n        let key = key(&op, inputs, at.generation);",
        test: ["rtx-conformance", "contracts", "nodes_of_two_generations_are_not_merged"],
    },
    Sabotage {
        name: "folding",
        breaks: "N6: a constant is folded in the host's arithmetic",
        file: "crates/rtx-compiler/src/simplify.rs",
        find: "            Prim::Select => self.splat(x)",
        replace: "            Prim::Unary(Function::Exp) if ty.dtype == DType::F32 && ty.rank() == 0 && self.splat(x).is_some() => {
                let bits = f32::from_bits(self.splat(x)? as u32);
                let bits = ((f64::from(bits).exp() * (1.0 + 1e-7)) as f32).to_bits() as u64;
                Some(self.add_prim(Prim::Constant { dtype: DType::F32, bits }, &[], ty, at))
            }
            Prim::Select => self.splat(x)",
        test: ["rtx-conformance", "contracts", "constants_are_computed_by_kernels"],
    },
    Sabotage {
        name: "strides",
        breaks: "R2: the key does not say how inputs lie in memory",
        file: "crates/rtx-runtime/src/runner.rs",
        find: "        if !contiguous {\n            self.dims.extend",
        replace: "        if false {\n            self.dims.extend",
        test: ["rtx-conformance", "contracts", "a_key_tells_strides_apart"],
    },
    Sabotage {
        name: "slots",
        breaks: "M3: a result's memory is reused while somebody still holds the result",
        file: "crates/rtx-runtime/src/prepared.rs",
        find: "OutputPlace::Slot(bytes) => executor.pool().take(*bytes as usize).map(|m| Some(Arc::new(m))),",
        replace: "OutputPlace::Slot(bytes) => {
                thread_local! { static KEPT: std::cell::RefCell<std::collections::HashMap<u64, Arc<Memory>>> = std::cell::RefCell::default(); }
                let kept = KEPT.with_borrow(|k| k.get(bytes).cloned());
                let memory = match kept { Some(m) => m, None => Arc::new(executor.pool().take(*bytes as usize)?) };
                KEPT.with_borrow_mut(|k| k.insert(*bytes, memory.clone()));
                Ok(Some(memory))
            }",
        test: PROGRAMS,
    },
    Sabotage {
        name: "errors",
        breaks: "R5: what kernels report is not looked at",
        file: "crates/rtx-runtime/src/prepared.rs",
        find: "        match self.error.take() {",
        replace: "        match self.error.take().filter(|_| false) {",
        test: ["rtx-device", "cpu", "an_index_out_of_range_names_the_op_and_the_line"],
    },
];

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let chosen: Vec<&Sabotage> = match args {
        [] => SABOTAGES.iter().collect(),
        names => names.iter().map(|n| find(n)).collect::<Result<_, _>>()?,
    };
    let copy = Copy::make()?;
    let mut survivors = Vec::new();
    for s in chosen {
        let caught = copy.try_one(s)?;
        println!("{} {:14} {}", if caught { "caught  " } else { "SURVIVED" }, s.name, s.breaks);
        if !caught {
            survivors.push(s.name);
        }
    }
    if survivors.is_empty() { Ok(()) } else { Err(format!("no test noticed: {}", survivors.join(", "))) }
}

fn find(name: &str) -> Result<&'static Sabotage, String> {
    let known = || SABOTAGES.iter().map(|s| s.name).collect::<Vec<_>>().join(", ");
    SABOTAGES.iter().find(|s| s.name == name).ok_or_else(|| format!("no sabotage `{name}`; there are {}", known()))
}

/// A copy of the tracked files, built in a target folder of its own that is kept between runs.
struct Copy {
    dir: PathBuf,
    target: PathBuf,
}

impl Copy {
    fn make() -> Result<Self, String> {
        let target = root().join("target/sabotage");
        let dir = target.join("source");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let listed = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(root())
            .output()
            .map_err(|e| format!("git: {e}"))?;
        for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|n| !n.is_empty()) {
            let (from, to) = (root().join(name), dir.join(name));
            to.parent().map_or(Ok(()), fs::create_dir_all).map_err(|e| format!("{name}: {e}"))?;
            if from.is_file() {
                fs::copy(&from, &to).map_err(|e| format!("{name}: {e}"))?;
            }
        }
        Ok(Self { dir, target: target.join("build") })
    }

    /// Is the sabotage noticed? Its test must pass before and fail after; a copy that does not build is our mistake.
    fn try_one(&self, s: &Sabotage) -> Result<bool, String> {
        let path = self.dir.join(s.file);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", s.file))?;
        if !text.contains(s.find) {
            return Err(format!("{}: {} has no line `{}`", s.name, s.file, s.find.trim()));
        }
        write(&path, &text.replacen(s.find, s.replace, 1))?;
        let built = self.cargo(s, &["--no-run"]);
        let passed = built && self.cargo(s, &[]);
        write(&path, &text)?;
        if built { Ok(!passed) } else { Err(format!("{}: the sabotaged copy does not build", s.name)) }
    }

    fn cargo(&self, s: &Sabotage, more: &[&str]) -> bool {
        let [package, target, test] = s.test;
        let mut args = vec!["test", "--quiet", "--package", package, "--test", target];
        args.extend(more);
        if more.is_empty() && !test.is_empty() {
            args.extend(["--", "--exact", test]);
        }
        let quiet = if more.is_empty() { Stdio::null() } else { Stdio::inherit() };
        Command::new("cargo")
            .args(&args)
            .current_dir(&self.dir)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("RTX_PROGRAMS", "400")
            .stdout(Stdio::null())
            .stderr(quiet)
            .status()
            .is_ok_and(|s| s.success())
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sabotage_still_finds_its_line() {
        for s in SABOTAGES {
            let text = fs::read_to_string(root().join(s.file)).unwrap_or_default();
            assert!(text.contains(s.find), "{}: {} has no line `{}`", s.name, s.file, s.find.trim());
        }
    }
}
