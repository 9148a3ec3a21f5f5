//! Every operator of PyTorch's OpInfo list, called by name through the dynamic entry: values, then gradients by
//! `backward`. What is missing or refused counts as failed, with its reason; nothing is skipped silently.
use super::archive::{self, Golden};
use super::call_tree::{Inputs, Node};
use super::closeness::{Tolerance, difference};
use rtx_core::{DType, Error, Kind, Result, Scalar};
use rtx_io::Array;
use rtx_tensor::{Argument, Backward, Tensor};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

mod classes;
mod gauge;

/// A sample that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Operators whose results depend on the generator, and on memory that nobody set: left out, and counted apart.
const RNG_DEPENDENT: &str = include_str!("../../goldens/opinfo/rng_dependent.txt");
const NONDETERMINISTIC: &str = include_str!("../../goldens/opinfo/nondeterministic.txt");

/// Which set of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Set {
    #[default]
    F32,
    BF16,
    I64,
}
impl Set {
    fn name(self) -> &'static str {
        match self {
            Set::F32 => "f32",
            Set::BF16 => "bf16",
            Set::I64 => "i64",
        }
    }
}
impl std::str::FromStr for Set {
    type Err = String;
    fn from_str(s: &str) -> std::result::Result<Self, String> {
        [Set::F32, Set::BF16, Set::I64]
            .into_iter()
            .find(|d| d.name() == s)
            .ok_or(format!("{s} is not f32, bf16 or i64"))
    }
}

/// What to run and what to print.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where `opinfo_f32.tar.zst` or unpacked files lie.
    pub dir: PathBuf,
    /// Only this operator, with or without its variant.
    pub op: Option<String>,
    /// Which samples.
    pub dtype: Set,
    /// Print each failing sample.
    pub failures: bool,
}
impl Default for Options {
    fn default() -> Self {
        Self { dir: super::default_dir().join("opinfo"), op: None, dtype: Set::F32, failures: false }
    }
}

/// What became of one sample.
#[derive(Clone, Debug, Default)]
struct Outcome {
    /// Why its values are wrong.
    values: Option<String>,
    /// Why its gradients are wrong; said only where the values are right.
    gradients: Option<String>,
    /// Has it gradients?
    differentiable: bool,
}
impl Outcome {
    fn reason(&self) -> Option<&str> {
        self.values.as_deref().or(self.gradients.as_deref())
    }
}

/// What became of one operator.
#[derive(Clone, Debug)]
struct Row {
    /// The file's name: the operator and its variant.
    name: String,
    samples: Vec<Outcome>,
}
impl Row {
    fn passed(&self) -> usize {
        self.samples.iter().filter(|s| s.reason().is_none()).count()
    }
    fn values(&self) -> usize {
        self.samples.iter().filter(|s| s.values.is_none()).count()
    }
    /// Right gradients, and how many samples have some.
    fn gradients(&self) -> (usize, usize) {
        let wanted = self.samples.iter().filter(|s| s.differentiable);
        (wanted.clone().filter(|s| s.reason().is_none()).count(), wanted.count())
    }
    fn first_reason(&self) -> Option<&str> {
        self.samples.iter().find_map(Outcome::reason)
    }
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct Report {
    set: Set,
    rows: Vec<Row>,
    left_out: Vec<(String, usize)>,
}

/// Runs the samples that the options name.
///
/// # Errors
/// When the files cannot be read or no operator has the name.
pub fn run(options: &Options) -> Result<Report> {
    let set = archive::read_set(&options.dir, &format!("opinfo_{}.tar.zst", options.dtype.name()))?;
    let is_wanted = |g: &Golden| match &options.op {
        None => true,
        Some(op) => name_of(g) == op || g.file.notes.get("op") == Some(op),
    };
    let left_out_names: HashSet<&str> = RNG_DEPENDENT.lines().chain(NONDETERMINISTIC.lines()).collect();
    let (left_out, run): (Vec<Golden>, Vec<Golden>) =
        set.into_iter().filter(is_wanted).partition(|g| left_out_names.contains(name_of(g)));
    if run.is_empty() && left_out.is_empty() {
        return Err(Error::new(Kind::Argument, format!("no operator is called {:?}", options.op)));
    }
    let mut skipped = Vec::new();
    for g in &left_out {
        skipped.push((name_of(g).to_owned(), calls_of(g)?.1.len()));
    }
    let run: Vec<Arc<Golden>> = run.into_iter().map(Arc::new).collect();
    let rows = quietly(|| super::in_parallel(&run, run_operator))?;
    Ok(Report { set: options.dtype, rows, left_out: skipped })
}

/// `div.trunc_rounding` of `div.trunc_rounding.float32`.
fn name_of(g: &Golden) -> &str {
    g.name.rsplit_once('.').map_or(&g.name, |(name, _)| name)
}

/// The text of a file's calls, and the calls.
fn calls_of(g: &Golden) -> Result<(&str, Vec<serde_json::Value>)> {
    let text = g.file.notes.get("calls").map_or("[]", String::as_str);
    let bad = |e| Error::new(Kind::Format, format!("{}: its calls are no JSON: {e}", g.name));
    Ok((text, serde_json::from_str(text).map_err(bad)?))
}

/// Without the messages of panics: they are reasons of failures, not news.
pub(super) fn quietly<T>(f: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let out = f();
    std::panic::set_hook(hook);
    out
}

/// Each sample in a thread of its own: what it leaves behind ends with it.
fn run_operator(golden: &Arc<Golden>) -> Result<Row> {
    let (_, calls) = calls_of(golden)?;
    let samples = (0..calls.len()).map(|i| in_a_thread(golden.clone(), i, calls[i].clone())).collect();
    Ok(Row { name: name_of(golden).to_owned(), samples })
}

/// A sample that panics or hangs has failed.
fn in_a_thread(golden: Arc<Golden>, i: usize, call: serde_json::Value) -> Outcome {
    let differentiable = call["grad"].as_array().is_some_and(|g| !g.is_empty());
    let failed = |why: String| Outcome { values: Some(why), differentiable, ..Outcome::default() };
    let (send, receive) = channel();
    let sample = move || {
        let outcome = std::panic::catch_unwind(|| Sample { golden: &golden, i, call: &call }.run());
        let _ = send.send(outcome.map_err(|panic| panic_text(&*panic)));
    };
    let thread = std::thread::Builder::new().stack_size(16 << 20).spawn(sample);
    let thread = match thread {
        Ok(thread) => thread,
        Err(e) => return failed(format!("no thread: {e}")),
    };
    let received = receive.recv_timeout(PATIENCE);
    match received {
        Ok(Ok(outcome)) => {
            let _ = thread.join();
            Outcome { differentiable, ..outcome }
        }
        Ok(Err(why)) => {
            let _ = thread.join();
            failed(format!("panicked: {why}"))
        }
        Err(RecvTimeoutError::Timeout) => failed(format!("took more than {} s", PATIENCE.as_secs())),
        Err(RecvTimeoutError::Disconnected) => failed("its thread died".into()),
    }
}

pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

struct Sample<'a> {
    golden: &'a Golden,
    i: usize,
    call: &'a serde_json::Value,
}

impl Sample<'_> {
    fn run(&self) -> Outcome {
        let mut inputs = Inputs::new(&self.golden.file);
        let outs = self.outputs(&mut inputs).and_then(|outs| self.aligned(&inputs, outs));
        let outs = match outs {
            Ok(outs) => outs,
            Err(e) => return Outcome { values: Some(e.message().to_owned()), ..Outcome::default() },
        };
        let values = match self.value_difference(&inputs, &outs) {
            Ok(found) => found,
            Err(e) => Some(e.message().to_owned()),
        };
        if values.is_some() {
            return Outcome { values, ..Outcome::default() };
        }
        let gradients = match self.gradient_difference(inputs, &outs) {
            Ok(found) => found,
            Err(e) => Some(format!("backward: {}", e.message())),
        };
        Outcome { values, gradients, ..Outcome::default() }
    }

    fn op(&self) -> &str {
        self.golden.file.notes.get("op").map_or("", String::as_str)
    }

    fn outputs(&self, inputs: &mut Inputs<'_>) -> Result<Vec<Tensor>> {
        let (args, kwargs) = (Node::parse(&self.call["args"])?, Node::parse(&self.call["kwargs"])?);
        let args = args.elements().iter().map(|n| inputs.argument(n)).collect::<Result<Vec<Argument>>>()?;
        let args = classes::as_variant(name_of(self.golden), classes::as_pytorch(self.op(), args))?;
        let args = if is_in_place(self.op()) { args.into_iter().map(cloned).collect() } else { args };
        let mut named = Vec::new();
        for (name, node) in kwargs.entries() {
            named.push((name.as_str(), inputs.argument(node)?));
        }
        if let Some(outs) = classes::as_composed(self.op(), &args, &named)? {
            return Ok(outs);
        }
        Ok(classes::as_handed_on(name_of(self.golden), rtx_tensor::call(self.op(), &args, &named)?))
    }

    /// Results that are fixed only up to a sign, with PyTorch's: see [`gauge`].
    fn aligned(&self, inputs: &Inputs<'_>, outs: Vec<Tensor>) -> Result<Vec<Tensor>> {
        let tree = Node::parse(&self.call["out"])?;
        let mut wanted = Vec::new();
        for leaf in tree.leaves() {
            let Node::Tensor { key, .. } = leaf else { return Ok(outs) };
            wanted.push(inputs.array(key)?);
        }
        gauge::aligned(self.op(), outs, &wanted)
    }

    /// The first result that is not PyTorch's.
    fn value_difference(&self, inputs: &Inputs<'_>, outs: &[Tensor]) -> Result<Option<String>> {
        let tree = Node::parse(&self.call["out"])?;
        let leaves = tree.leaves();
        // `broadcast_shapes` gives sizes, here one row of them.
        if let [sizes] = outs
            && (!leaves.is_empty() || self.op() == "broadcast_shapes")
            && leaves.iter().all(|l| matches!(l, Node::Number(Scalar::Int(_))))
            && sizes.shape() == [leaves.len()]
        {
            let want = leaves.iter().filter_map(|l| if let Node::Number(Scalar::Int(n)) = l { Some(*n) } else { None });
            let same = sizes.to_vec::<i64>()? == want.collect::<Vec<_>>();
            return Ok((!same).then(|| "the sizes differ".to_owned()));
        }
        if leaves.len() != outs.len() {
            return Ok(Some(format!("{} results, should be {}", outs.len(), leaves.len())));
        }
        let longest = inputs.longest();
        for (i, (got, want)) in outs.iter().zip(leaves).enumerate() {
            let found = match want {
                Node::Tensor { key, .. } => {
                    let want = inputs.array(key)?;
                    let folded = longest / want.shape.iter().product::<usize>().max(1);
                    difference(got, want, classes::tolerance(self.op(), want.dtype).for_length(folded))
                }
                Node::Number(s) => number_difference(got, *s)?,
                other => Some(format!("result {i} should be {other:?}")),
            };
            if let Some(what) = found {
                return Ok(Some(if outs.len() == 1 { what } else { format!("result {i}: {what}") }));
            }
        }
        Ok(None)
    }

    /// The first gradient that is not PyTorch's.
    fn gradient_difference(&self, mut inputs: Inputs<'_>, outs: &[Tensor]) -> Result<Option<String>> {
        let present: Vec<usize> = self.call["grad"]
            .as_array()
            .map(|g| g.iter().filter_map(|i| i.as_u64().map(|i| i as usize)).collect())
            .unwrap_or_default();
        if present.is_empty() {
            return Ok(None);
        }
        let cotangents: Vec<&Array> = (0..).map_while(|i| inputs.array(&format!("s{}/cot/{i}", self.i)).ok()).collect();
        let mut differentiable: Vec<&Tensor> = outs.iter().filter(|t| t.dtype().is_differentiable()).collect();
        if differentiable.len() != cotangents.len() {
            let tracked: Vec<&Tensor> = differentiable.iter().copied().filter(|t| t.requires_grad()).collect();
            // Results that are not tracked, such as empty ones, may come with a cotangent all the same.
            if tracked.len() >= cotangents.len() {
                differentiable = tracked;
            } else {
                differentiable.truncate(cotangents.len());
            }
        }
        if differentiable.len() != cotangents.len() {
            return Ok(Some(format!(
                "{} results have gradients, should be {}",
                differentiable.len(),
                cotangents.len()
            )));
        }
        for (out, cotangent) in differentiable.iter().zip(&cotangents) {
            if !out.requires_grad() {
                continue; // Its gradient is zero everywhere, which the comparison below checks.
            }
            let cotangent = super::call_tree::tensor_of(cotangent)?;
            if cotangent.shape() != out.shape() {
                return Ok(Some(format!("a cotangent is {:?}, a result {:?}", cotangent.shape(), out.shape())));
            }
            out.backward_with(Backward { gradient: Some(&cotangent), retain_graph: true, ..Backward::default() });
        }
        // JSON objects have no order; the text of the calls has.
        let (text, _) = calls_of(self.golden)?;
        let mut wanted = std::mem::take(&mut inputs.with_gradient);
        wanted.sort_by_key(|(key, _)| text.find(&format!("\"{key}\"")));
        for i in present {
            let want = inputs.array(&format!("s{}/grad/{i}", self.i))?;
            let (_, input) = wanted.get(i).ok_or_else(|| Error::new(Kind::Format, format!("there is no input {i}")))?;
            let folded = inputs.longest() / want.shape.iter().product::<usize>().max(1);
            let tolerance = classes::gradient_tolerance(self.op(), want.dtype).for_length(folded);
            let found = match input.grad() {
                Some(grad) => difference(&grad, want, tolerance),
                None => difference(&rtx_tensor::zeros_like(input), want, Tolerance::new(0.0, 0.0))
                    .map(|_| "no gradient reaches it".to_owned()),
            };
            if let Some(what) = found {
                return Ok(Some(format!("gradient {i}: {what}")));
            }
        }
        Ok(None)
    }
}

/// `add_`, which writes into its first argument; `__and__` does not.
fn is_in_place(op: &str) -> bool {
    op.ends_with('_') && !op.ends_with("__")
}
/// OpInfo writes into clones: leaves are not written.
fn cloned(a: Argument) -> Argument {
    if let Argument::Tensor(t) = a { Argument::Tensor(t.clone()) } else { a }
}

impl Inputs<'_> {
    /// Elements of the largest tensor that wants a gradient: an upper bound of what one result sums up.
    fn longest(&self) -> usize {
        self.with_gradient.iter().map(|(_, t)| t.numel()).max().unwrap_or(1)
    }
}

/// A result that is a number in Python.
fn number_difference(got: &Tensor, want: Scalar) -> Result<Option<String>> {
    if got.numel() != 1 {
        return Ok(Some(format!("the shape is {:?}, should be one number", got.shape())));
    }
    let (got, want) = match got.dtype() {
        DType::Bool => (f64::from(u8::from(got.item::<bool>()?)), want.to_f64()),
        _ => (got.item::<f64>()?, want.to_f64()),
    };
    let near = Tolerance::new(1.3e-6, 1e-5).holds(got, want);
    Ok((!near).then(|| format!("is {got}, should be {want}")))
}

impl Report {
    /// Samples that pass, and all that were run.
    pub fn totals(&self) -> (usize, usize) {
        (self.rows.iter().map(Row::passed).sum(), self.rows.iter().map(|r| r.samples.len()).sum())
    }

    /// What a person reads.
    pub fn text(&self, options: &Options) -> String {
        let mut out = String::new();
        let mut incomplete: Vec<&Row> = self.rows.iter().filter(|r| r.passed() < r.samples.len()).collect();
        if options.failures {
            for r in &incomplete {
                for (i, reason) in r.samples.iter().enumerate().filter_map(|(i, s)| Some((i, s.reason()?))) {
                    let _ = writeln!(out, "{} {i}: {reason}", r.name);
                }
            }
        }
        if options.op.is_some() {
            let _ = writeln!(out, "{:40} {:>7} {:>7} {:>9}", "operator", "samples", "values", "gradients");
            for r in &self.rows {
                let (right, wanted) = r.gradients();
                let reason = r.first_reason().unwrap_or("");
                let counts = (r.samples.len(), r.values(), format!("{right}/{wanted}"));
                let _ = writeln!(out, "{:40} {:>7} {:>7} {:>9} {reason}", r.name, counts.0, counts.1, counts.2);
            }
        } else {
            incomplete.sort_by_key(|r| std::cmp::Reverse(r.samples.len() - r.passed()));
            let _ = writeln!(out, "top missing:");
            for r in incomplete.iter().take(40) {
                let failing = r.samples.len() - r.passed();
                let _ = writeln!(out, "{failing:>5} {:40} {}", r.name, r.first_reason().unwrap_or(""));
            }
        }
        let (passed, all) = self.totals();
        let whole = self.rows.iter().filter(|r| r.passed() == r.samples.len()).count();
        let left: usize = self.left_out.iter().map(|(_, n)| n).sum();
        let percent = 100.0 * passed as f64 / all.max(1) as f64;
        let _ = writeln!(
            out,
            "{}: {} of {} samples ({percent:.1} %), values and gradients; {whole} of {} operators whole",
            self.set.name(),
            thousands(passed),
            thousands(all),
            self.rows.len()
        );
        let _ = writeln!(
            out,
            "{left} samples of {} operators are left out: their results depend on the generator or on unset memory",
            self.left_out.len()
        );
        out
    }

    /// The table as JSON.
    pub fn json(&self) -> String {
        let rows: Vec<serde_json::Value> = self
            .rows
            .iter()
            .map(|r| {
                let (right, wanted) = r.gradients();
                serde_json::json!({
                    "op": r.name, "samples": r.samples.len(), "passed": r.passed(), "values": r.values(),
                    "gradients": right, "gradients_wanted": wanted, "reason": r.first_reason(),
                })
            })
            .collect();
        let (passed, all) = self.totals();
        let left: Vec<&str> = self.left_out.iter().map(|(n, _)| n.as_str()).collect();
        let whole = serde_json::json!({
            "set": self.set.name(), "passed": passed, "samples": all, "left_out": left, "rows": rows,
        });
        format!("{whole:#}\n")
    }

    fn passing_list(&self) -> PathBuf {
        super::default_dir().join(format!("opinfo/passing_{}.txt", self.set.name()))
    }

    /// Stores what passes: one line an operator, with the number of its samples.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn bless(&self) -> Result<()> {
        let path = self.passing_list();
        let mut stored = read_passing(&path)?;
        for r in &self.rows {
            stored.insert(r.name.clone(), r.passed());
        }
        let lines: String = stored.iter().filter(|(_, n)| **n > 0).map(|(name, n)| format!("{name} {n}\n")).collect();
        rtx_io::write_file(&path, lines.as_bytes())
    }

    /// Operators of which fewer samples pass than the stored list says: one line each.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub fn regressions(&self) -> Result<Vec<String>> {
        let stored = read_passing(&self.passing_list())?;
        let fewer = |r: &Row| {
            let before = *stored.get(&r.name)?;
            let reason = r.first_reason().unwrap_or("");
            (r.passed() < before).then(|| format!("{}: {} of {before} ({reason})", r.name, r.passed()))
        };
        Ok(self.rows.iter().filter_map(fewer).collect())
    }
}

/// Passing samples by operator; none where there is no list yet.
fn read_passing(path: &std::path::Path) -> Result<BTreeMap<String, usize>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(Error::new(Kind::Io, format!("{}: cannot read: {e}", path.display()))),
    };
    let line = |l: &str| l.rsplit_once(' ').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok()?)));
    Ok(text.lines().filter_map(line).collect())
}

/// `7,920`.
fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        assert_eq!(
            [thousands(7), thousands(920), thousands(7920), thousands(1_234_567)],
            ["7", "920", "7,920", "1,234,567"]
        );
    }

    #[test]
    fn a_few_operators_run() {
        let options = Options { op: Some("add".into()), ..Options::default() };
        let report = run(&options).expect("the goldens are in the repository");
        assert_eq!(report.totals().0, report.totals().1, "{}", report.text(&options));
        let missing = Options { op: Some("no such operator".into()), ..Options::default() };
        assert!(run(&missing).is_err());
    }
}
