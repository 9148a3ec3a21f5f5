//! What the table's samples show on the device, for every op and element type: values, gradients, second order, and that
//! deferred and eager give the same bits.
use crate::on_device::{self, is_refusal};
use rtx_core::{DType, Kind, Location, Result};
use rtx_ir::{Builder, Graph, OpDef, Sample, ValueId, prims, text};
use rtx_testkit::graphs::RandomGraph;
use rtx_testkit::{Drawn, Random, draw, record};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::thread;

/// The element types that have kernels, as the page shows them.
const COLUMNS: [DType; 8] = {
    use DType::*;
    [Bool, U8, I32, I64, F16, BF16, F32, F64]
};
/// Threads that walk the table.
const WALKERS: usize = 2;

/// What has been seen of an op in one element type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    /// No sample has it.
    #[default]
    Nothing,
    /// Refused by name when it is recorded: the op does not take that type.
    Refused,
    /// Recorded, and refused by name when it runs: no kernel takes it.
    NoKernel,
    /// Each node is the oracle's, whole is node by node.
    Value,
    /// So is the gradient.
    Gradient,
    /// And the gradient of the gradient.
    Second,
}

impl Seen {
    fn cell(self) -> &'static str {
        match self {
            Seen::Nothing => "",
            Seen::Refused => "–",
            Seen::NoKernel => "no kernel",
            Seen::Value => "ve",
            Seen::Gradient => "vge",
            Seen::Second => "vgse",
        }
    }
}

type Row = [Seen; COLUMNS.len()];

/// The result of a walk over the table.
#[derive(Debug)]
pub struct Coverage {
    primitives: BTreeMap<String, Row>,
    composites: BTreeMap<String, Row>,
    /// What is wrong, one line a sample and element type.
    pub faults: Vec<String>,
}

impl Coverage {
    /// Runs every sample of every definition, as it is written and with its floats as each type that has kernels.
    ///
    /// # Panics
    /// When a walker does.
    pub fn walk() -> Self {
        let (primitives, mut faults) = walk(prims::ALL);
        let (composites, more) = walk(rtx_ops::ALL);
        faults.extend(more);
        Self { primitives, composites, faults }
    }

    /// `docs/coverage.md`.
    pub fn page(&self) -> String {
        let mut out = String::from(HEAD);
        self.totals(&mut out);
        for (title, rows) in [("Primitives", &self.primitives), ("Composites and spellings", &self.composites)] {
            push(&mut out, format_args!("\n## {title}\n\n| op |{}\n|---|{}\n", names(), "---|".repeat(COLUMNS.len())));
            for (name, row) in rows {
                let cells: Vec<&str> = row.iter().map(|s| s.cell()).collect();
                push(&mut out, format_args!("| `{name}` | {} |\n", cells.join(" | ")));
            }
        }
        out
    }

    fn totals(&self, out: &mut String) {
        push(out, format_args!("\n| ops with |{}\n|---|{}\n", names(), "---|".repeat(COLUMNS.len())));
        let least = [("values", Seen::Value), ("gradients", Seen::Gradient), ("second order", Seen::Second)];
        for (what, least) in least {
            let rows = || self.primitives.values().chain(self.composites.values());
            let count = |i: usize| rows().filter(|row| row[i] >= least).count().to_string();
            let cells: Vec<String> = (0..COLUMNS.len()).map(count).collect();
            push(out, format_args!("| {what} | {} |\n", cells.join(" | ")));
        }
    }
}

const HEAD: &str = "# Coverage

Made by `cargo xtask coverage`, which runs every sample of the op table on the processor as it is written and with its
floats as each of these types; CI does the same and compares. A letter is a test that passed:

- **v** each node has the oracle's value, on the operands that it really had
- **g** so do the nodes of its gradient (that the gradient is the slope, the laws show by differences, in f64)
- **s** so do those of the gradient of its gradient; there is none where the gradient is the same everywhere (`add`), and
  it is not asked for where a sample's elements are given, which stand on kinks
- **e** run as one region, all of these have the bits that they have node by node: deferred is eager
- **–** refused by name when it is recorded: the op does not take that type
- **no kernel** recorded, and refused by name when it runs

An empty cell has no sample: ops that take only integers have samples in i64 only. The other element types (i8, i16, u16,
u32, u64, f8e4m3, f8e5m2, complex64, complex128) have storage, casts and text, and no kernels.
";

fn names() -> String {
    COLUMNS.iter().map(|d| format!(" {d} |")).collect()
}

/// Writing to a `String` cannot fail.
fn push(out: &mut String, what: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(what);
}

fn walk(table: &'static [&'static OpDef]) -> (BTreeMap<String, Row>, Vec<String>) {
    let part = |first: usize| {
        let defs = table.iter().skip(first).step_by(WALKERS);
        defs.map(|def| (text::call_name(def).to_owned(), row(def))).collect::<Vec<_>>()
    };
    let done = thread::scope(|s| {
        let walkers: Vec<_> = (0..WALKERS).map(|i| s.spawn(move || part(i))).collect();
        walkers.into_iter().flat_map(|w| w.join().unwrap_or_else(|p| std::panic::resume_unwind(p))).collect::<Vec<_>>()
    });
    let (mut rows, mut faults) = (BTreeMap::new(), Vec::new());
    for (name, (row, mut wrong)) in done {
        faults.append(&mut wrong);
        rows.insert(name, row);
    }
    (rows, faults)
}

fn row(def: &'static OpDef) -> (Row, Vec<String>) {
    let (mut row, mut faults) = (Row::default(), Vec::new());
    for sample in def.samples {
        let Ok(drawn) = draw(def.sig, sample.args, &mut Random::new(2)) else {
            faults.push(format!("{}({}): no arguments", def.name(), sample.args));
            continue;
        };
        let written = written_type(def, &drawn);
        let has_floats = drawn.iter().flat_map(Drawn::tensors).any(|t| t.ty.dtype.is_float());
        let others = COLUMNS.iter().copied().filter(|d| has_floats && Some(*d) != written);
        for dtype in written.into_iter().chain(others) {
            let as_written = Some(dtype) == written;
            let drawn =
                if as_written { drawn.clone() } else { drawn.iter().map(|d| d.clone().with_floats(dtype)).collect() };
            match seen(def, sample, &drawn) {
                Ok(seen) => {
                    if let Some(i) = COLUMNS.iter().position(|c| *c == dtype) {
                        row[i] = row[i].max(seen);
                    }
                    if as_written && seen <= Seen::NoKernel && COLUMNS.contains(&dtype) && !has_no_kernel(def) {
                        faults.push(format!("{}({}): refused", def.name(), sample.args));
                    }
                }
                Err(e) => faults.push(format!("{}({}) in {dtype}: {e}", def.name(), sample.args)),
            }
        }
    }
    (row, faults)
}

/// The element type of a sample as it is written: of its first tensor of floats, of its first tensor, or of the first
/// result.
fn written_type(def: &'static OpDef, drawn: &[Drawn]) -> Option<DType> {
    let types = || drawn.iter().flat_map(Drawn::tensors).map(|t| t.ty.dtype);
    types().find(|d| d.is_float()).or_else(|| types().next()).or_else(|| {
        let mut graph = Graph::new();
        let (bound, _) = record(&mut graph, drawn);
        let outs = Builder::new(&mut graph, Location::caller()).call(def, bound).ok()?;
        outs.first().map(|&v| graph.ty(v).dtype)
    })
}

/// Checks a call with as many of its derivatives as there are.
fn seen(def: &'static OpDef, sample: &Sample, drawn: &[Drawn]) -> Result<Seen, String> {
    let derivatives = match (sample.grad, sample.args.contains('=')) {
        (false, _) => 0,
        // Given elements sit on kinks.
        (true, true) => 1,
        (true, false) => 2,
    };
    let mut refused = Seen::Refused;
    for wanted in (0..=derivatives).rev() {
        let (graph, derived, found) = match call(def, drawn, wanted) {
            Ok(made) => made,
            Err(e) if e.kind() == Kind::Internal => return Err(e.to_string()),
            Err(_) => continue,
        };
        match on_device::check_with(rtx_device::cpu(), &graph, derived) {
            Ok(()) => return Ok([Seen::Value, Seen::Gradient, Seen::Second][found]),
            Err(e) if is_refusal(&e) => refused = Seen::NoKernel,
            Err(e) => return Err(e),
        }
    }
    Ok(refused)
}

/// The call in a graph, with up to so many derivatives of its float results in its float operands; the node from which
/// on they stand, and how many there are.
fn call(def: &'static OpDef, drawn: &[Drawn], derivatives: usize) -> Result<(RandomGraph, usize, usize)> {
    let mut graph = Graph::new();
    let mut inputs: Vec<_> = drawn.iter().flat_map(|d| d.tensors().iter().cloned()).collect();
    let (bound, mut wrt) = record(&mut graph, drawn);
    let outs = Builder::new(&mut graph, Location::caller()).call(def, bound)?;
    let derived = graph.nodes().len();
    let mut outputs = outs.to_vec();
    let is_float = |graph: &Graph, v: &ValueId| graph.ty(*v).dtype.is_float();
    wrt.retain(|v| is_float(&graph, v));
    let (mut random, mut last, mut found) = (Random::new(5), outs.to_vec(), 0);
    while found < derivatives {
        last.retain(|v| is_float(&graph, v));
        let mut seeds = Vec::new();
        for &v in &last {
            let seed = rtx_testkit::random_like(&graph, v, &mut random);
            seeds.push(graph.push_input(seed.ty.clone(), Location::caller()));
            inputs.push(seed);
        }
        let grads = rtx_autograd::gradient(&mut Builder::new(&mut graph, Location::caller()), &last, &seeds, &wrt)?;
        last = grads.into_iter().flatten().collect();
        if last.is_empty() {
            break;
        }
        outputs.extend_from_slice(&last);
        found += 1;
    }
    outputs.sort_unstable();
    outputs.dedup();
    Ok((RandomGraph { graph, inputs, outputs }, derived, found))
}

/// Primitives that the processor has no kernel for, and what is made of them.
fn has_no_kernel(def: &OpDef) -> bool {
    WITHOUT_KERNEL.contains(&def.name())
}

/// Primitives that no kernel takes: a region that wants one is refused by name.
pub const WITHOUT_KERNEL: &[&str] = &["loop", "if", "collective", "custom_call"];
