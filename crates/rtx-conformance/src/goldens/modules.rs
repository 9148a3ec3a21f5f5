//! `cargo xtask goldens modules`: every nn module of PyTorch's list, made by its class name, its state loaded, called:
//! results, gradients of inputs and parameters, and buffers afterwards. What is missing counts as failed.
use super::archive::{Golden, read_set};
use super::call_tree::{Inputs, Node, tensor_of};
use super::closeness::{Tolerance, difference};
use rtx_core::{Error, Kind, Result};
use rustytorch::{Backward, nn::StateDict, prelude::*};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

mod arguments;
mod build;
mod recurrent;
mod spatial;

use arguments::Arguments;

/// Advised by the goldens' makers for f32 modules, and for their gradients.
const VALUES: Tolerance = Tolerance::new(1e-5, 1e-5);
const GRADIENTS: Tolerance = Tolerance::new(1e-4, 1e-5);

/// What to run and what to print.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `modules_f32.tar.zst` or unpacked files lie.
    pub dir: PathBuf,
    /// Only this module, `nn.Linear` or `Linear`.
    pub module: Option<String>,
    /// Print each failing sample.
    pub failures: bool,
}
impl Default for Options {
    fn default() -> Self {
        Self { dir: super::default_dir().join("modules"), module: None, failures: false }
    }
}

/// What became of one module's samples: why each failed, if it did.
struct Row {
    name: String,
    samples: Vec<Option<String>>,
}
impl Row {
    fn passed(&self) -> usize {
        self.samples.iter().filter(|s| s.is_none()).count()
    }
}

/// What a run found.
pub struct Report {
    rows: Vec<Row>,
}

/// Runs the samples that the options name.
///
/// # Errors
/// When the files cannot be read or no module has the name.
pub fn run(options: &Options) -> Result<Report> {
    let set = read_set(&options.dir, "modules_f32.tar.zst")?;
    let wanted = |g: &Golden| match &options.module {
        None => true,
        Some(name) => class_of(g) == name || class_of(g).strip_prefix("nn.") == Some(name),
    };
    let set: Vec<Golden> = set.into_iter().filter(wanted).collect();
    if set.is_empty() {
        return Err(Error::new(Kind::Argument, format!("no module is called {:?}", options.module)));
    }
    let rows = super::opinfo::quietly(|| super::in_parallel(&set, run_module))?;
    Ok(Report { rows })
}

fn class_of(g: &Golden) -> &str {
    g.file.notes.get("module").map_or("", String::as_str)
}

fn run_module(golden: &Golden) -> Result<Row> {
    let calls = golden.file.notes.get("calls").map_or("[]", String::as_str);
    let bad = |e| Error::new(Kind::Format, format!("{}: its calls are no JSON: {e}", golden.name));
    let calls: Vec<Value> = serde_json::from_str(calls).map_err(bad)?;
    let run = |(number, call): (usize, &Value)| {
        let sample = Sample { golden, number, call };
        match std::panic::catch_unwind(|| sample.run()) {
            Ok(Ok(found)) => found,
            Ok(Err(e)) => Some(e.message().to_owned()),
            Err(panic) => Some(format!("panicked: {}", super::opinfo::panic_text(&*panic))),
        }
    };
    Ok(Row { name: class_of(golden).to_owned(), samples: calls.iter().enumerate().map(run).collect() })
}

struct Sample<'a> {
    golden: &'a Golden,
    number: usize,
    call: &'a Value,
}

impl Sample<'_> {
    /// What is not PyTorch's; `None` where all is.
    fn run(&self) -> Result<Option<String>> {
        let mut inputs = Inputs::new(&self.golden.file);
        let mut constructor = Arguments::parse(&self.call["ctor"]["args"], &self.call["ctor"]["kwargs"])?;
        let built = build::module(class_of(self.golden), &mut constructor, &inputs)?;
        constructor.all_taken(class_of(self.golden))?;
        if self.golden.file.notes.get("lazy").is_some_and(|lazy| lazy == "1") {
            // The first call makes its parameters.
            let mut inputs = Inputs::new(&self.golden.file);
            built.call(&mut Arguments::parse(&self.call["args"], &self.call["kwargs"])?, &mut inputs)?;
        }
        built.module().load_state_dict(&self.tensors("state/")?)?;
        if self.call["training"] == false {
            built.module().eval();
        }
        let mut arguments = Arguments::parse(&self.call["args"], &self.call["kwargs"])?;
        let outs = built.call(&mut arguments, &mut inputs)?;
        arguments.all_taken(class_of(self.golden))?;
        if let Some(found) = self.value_difference(&inputs, &outs)? {
            return Ok(Some(found));
        }
        if let Some(found) = self.gradient_difference(&inputs, built.module(), &outs)? {
            return Ok(Some(found));
        }
        self.state_difference(built.module())
    }

    fn prefix(&self, rest: &str) -> String {
        format!("s{}/{rest}", self.number)
    }

    /// All tensors under a name.
    fn tensors(&self, under: &str) -> Result<StateDict> {
        let prefix = self.prefix(under);
        let all = self.golden.file.arrays.iter();
        all.filter_map(|(key, a)| Some((key.strip_prefix(&prefix)?.to_owned(), a)))
            .map(|(name, a)| Ok((name, tensor_of(a)?)))
            .collect()
    }

    fn value_difference(&self, inputs: &Inputs<'_>, outs: &[Tensor]) -> Result<Option<String>> {
        let tree = Node::parse(&self.call["out"])?;
        let leaves: Vec<&Node> = tree.leaves().into_iter().filter(|l| **l != Node::None).collect();
        if leaves.len() != outs.len() {
            return Ok(Some(format!("{} results, should be {}", outs.len(), leaves.len())));
        }
        for (i, (got, want)) in outs.iter().zip(leaves).enumerate() {
            let Node::Tensor { key, .. } = want else { return Ok(Some(format!("result {i} should be {want:?}"))) };
            if let Some(what) = difference(got, inputs.array(key)?, VALUES.for_length(longest(inputs))) {
                return Ok(Some(format!("result {i}: {what}")));
            }
        }
        Ok(None)
    }

    fn gradient_difference(&self, inputs: &Inputs<'_>, module: &dyn Module, outs: &[Tensor]) -> Result<Option<String>> {
        let names = |key: &str| -> Vec<&str> {
            self.call[key].as_array().map(|l| l.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
        };
        let tree = Node::parse(&self.call["out"])?;
        let keys: Vec<&Node> = tree.leaves().into_iter().filter(|l| **l != Node::None).collect();
        for (i, path) in names("cot").iter().enumerate() {
            let key = self.prefix(path);
            let at = keys.iter().position(|n| matches!(n, Node::Tensor { key: k, .. } if *k == key));
            let Some(out) = at.and_then(|i| outs.get(i)).filter(|out| out.requires_grad()) else { continue };
            let cotangent = tensor_of(inputs.array(&self.prefix(&format!("cot/{i}")))?)?;
            out.backward_with(Backward { gradient: Some(&cotangent), retain_graph: true, ..Backward::default() });
        }
        let mut found: Vec<(String, Tensor)> = inputs
            .with_gradient
            .iter()
            .filter_map(|(key, t)| Some((format!("in/{}", key.strip_prefix(&self.prefix("in/"))?), t.alias())))
            .collect();
        found.extend(module.named_parameters().into_iter().map(|(name, p)| (format!("param/{name}"), p.tensor())));
        let wanted = names("grad_in").into_iter().map(|n| format!("in/{n}"));
        for name in wanted.chain(names("grad_param").into_iter().map(|n| format!("param/{n}"))) {
            let want = inputs.array(&self.prefix(&format!("grad/{name}")))?;
            let Some((_, tensor)) = found.iter().find(|(n, _)| *n == name) else {
                return Ok(Some(format!("there is no {name}")));
            };
            let Some(grad) = tensor.grad() else {
                if want.bytes.iter().all(|b| *b == 0) {
                    continue;
                }
                return Ok(Some(format!("no gradient reaches {name}")));
            };
            if let Some(what) = difference(&grad, want, GRADIENTS.for_length(longest(inputs))) {
                return Ok(Some(format!("gradient of {name}: {what}")));
            }
        }
        Ok(None)
    }

    fn state_difference(&self, module: &dyn Module) -> Result<Option<String>> {
        let state = module.state_dict();
        let prefix = self.prefix("after/");
        let after = self.golden.file.arrays.iter().filter_map(|(key, a)| Some((key.strip_prefix(&prefix)?, a)));
        for (name, want) in after {
            let Some(got) = state.get(name) else { return Ok(Some(format!("there is no {name}"))) };
            if let Some(what) = difference(got, want, VALUES) {
                return Ok(Some(format!("{name} afterwards: {what}")));
            }
        }
        Ok(None)
    }
}

/// Elements of the largest input: an upper bound of what one result sums up.
fn longest(inputs: &Inputs<'_>) -> usize {
    inputs.with_gradient.iter().map(|(_, t)| t.numel()).max().unwrap_or(1)
}

impl Report {
    /// Samples that pass, and all that were run.
    pub fn totals(&self) -> (usize, usize) {
        (self.rows.iter().map(Row::passed).sum(), self.rows.iter().map(|r| r.samples.len()).sum())
    }

    /// What a person reads.
    pub fn text(&self, options: &Options) -> String {
        let mut out = String::new();
        let missing = |r: &&Row| r.passed() < r.samples.len();
        for r in self.rows.iter().filter(missing) {
            let faults = r.samples.iter().enumerate().filter_map(|(i, s)| Some((i, s.as_ref()?)));
            if options.failures || options.module.is_some() {
                for (i, why) in faults {
                    let _ = writeln!(out, "{} {i}: {why}", r.name);
                }
                continue;
            }
            let first = r.samples.iter().flatten().next().map_or("", String::as_str);
            let _ = writeln!(out, "{:32} {:3} of {:3}  {first}", r.name, r.passed(), r.samples.len());
        }
        let (passed, all) = self.totals();
        let whole = self.rows.iter().filter(|r| r.passed() == r.samples.len()).count();
        let percent = 100.0 * passed as f64 / all.max(1) as f64;
        let modules = self.rows.len();
        let _ =
            writeln!(out, "modules: {passed} of {all} samples ({percent:.1} %); {whole} of {modules} modules whole");
        out
    }

    /// Stores what passes: one line a module, with the numbers of its samples.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn bless(&self) -> Result<()> {
        let mut stored = read_passing()?;
        for r in &self.rows {
            stored.insert(r.name.clone(), passing(r));
        }
        let line = |(name, samples): (&String, &BTreeSet<usize>)| {
            let numbers: Vec<String> = samples.iter().map(usize::to_string).collect();
            format!("{name} {}\n", numbers.join(" "))
        };
        let lines: String = stored.iter().filter(|(_, samples)| !samples.is_empty()).map(line).collect();
        rtx_io::write_file(&passing_list(), lines.as_bytes())
    }

    /// Samples that the stored list says pass, and that do not: one line each.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn regressions(&self) -> Result<Vec<String>> {
        let stored = read_passing()?;
        let mut lines = Vec::new();
        for r in &self.rows {
            let before = stored.get(&r.name).into_iter().flatten();
            for &i in before {
                match r.samples.get(i) {
                    Some(None) => {}
                    Some(Some(why)) => lines.push(format!("{} {i}: {why}", r.name)),
                    None => lines.push(format!("{} {i}: there is no such sample", r.name)),
                }
            }
        }
        Ok(lines)
    }
}

fn passing(r: &Row) -> BTreeSet<usize> {
    r.samples.iter().enumerate().filter(|(_, s)| s.is_none()).map(|(i, _)| i).collect()
}

fn passing_list() -> PathBuf {
    super::default_dir().join("modules/passing.txt")
}

/// Passing samples by module; none where there is no list yet.
fn read_passing() -> Result<BTreeMap<String, BTreeSet<usize>>> {
    let path: &Path = &passing_list();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(Error::new(Kind::Io, format!("{}: cannot read: {e}", path.display()))),
    };
    let line = |l: &str| {
        let (name, numbers) = l.split_once(' ')?;
        Some((name.to_owned(), numbers.split(' ').filter_map(|n| n.parse().ok()).collect()))
    };
    Ok(text.lines().filter_map(line).collect())
}
