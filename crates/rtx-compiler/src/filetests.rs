//! Every pass on small programs: a file holds the program and, below a line `---`, what the pass makes of it.
//!
//! A folder of `filetests/` is a pass. Lines before the program: what it shows (`; …`), `claims dot` (`bare dot`: without an
//! epilogue), `takes sort i64` (a kernel for that and no other type), `donated 0`, `alias 1 0` (input 1 shares the memory
//! of input 0), `strides 0 [1, 4]`. `RTX_BLESS=1 cargo test -p rtx-compiler
//! filetests` writes what the passes make now; the difference is read like any other.
use crate::fuse::{Fused, Unit, fuse};
use crate::lower::{Argument, Launch, Lowered, Mem, lower};
use crate::memory::plan_memory;
use crate::schedule::{Steps, schedule};
use crate::views::{Strided, resolve};
use crate::work::Work;
use crate::{Compiler, Fusion, import, layout};
use rtx_core::{DType, Layout, NUMERICS_VERSION};
use rtx_hal::Target;
use rtx_ir::{Graph, NodeId, OpDef, ValueId, text};
use rtx_plan::{Claim, Claimed, Compile, Grouped, InputFact, Plan, Request, SizeExpr};
use smallvec::smallvec;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[path = "../tests/executor/dot.rs"]
mod dot;

/// The folders, in the order in which the passes run; the first three are one pass, the import.
const PASSES: [(&str, fn(&File) -> String); 10] = [
    ("import", |f| working_graph(&f.work())),
    ("simplify", |f| working_graph(&f.work())),
    ("canonical", |f| working_graph(&f.work())),
    ("layout", layouts),
    ("views", views),
    ("fuse", |f| f.passes().units()),
    ("lower", |f| f.passes().launches()),
    ("schedule", |f| f.passes().order()),
    ("memory", |f| f.passes().homes()),
    ("assemble", |f| f.plan().to_string()),
];
const TARGET: Target = Target { family: "test", isa: "scalar", threads: 2 };

#[test]
fn passes_make_what_their_files_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let bless = std::env::var("RTX_BLESS").is_ok_and(|v| v == "1");
    let mut faults = Vec::new();
    for (pass, run) in PASSES {
        let files = files(&folder.join(pass));
        assert!(!files.is_empty(), "no file for {pass}");
        for path in files {
            let text = fs::read_to_string(&path).expect("a readable file");
            let (before, want) = text.split_once("---\n").unwrap_or((&text, ""));
            let got = run(&File::read(before).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
            if bless {
                fs::write(&path, format!("{before}---\n{got}")).expect("a file that can be written");
            } else if got != want {
                faults.push(format!("{}\nwant\n{want}\ngot\n{got}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "RTX_BLESS=1 accepts what is there now\n{}", faults.join("\n"));
}

#[test]
fn every_folder_is_a_pass() {
    let folder = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests")).expect("the folder");
    let mut names: Vec<String> =
        folder.map(|e| e.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    let mut passes = PASSES.map(|p| p.0);
    passes.sort_unstable();
    assert_eq!(names, passes);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// A program with what is known of its inputs.
struct File {
    program: text::File,
    facts: Vec<InputFact>,
    wanted: Vec<ValueId>,
    claims: Vec<Arc<dyn Claim>>,
}

impl File {
    fn read(text: &str) -> Result<Self, String> {
        let is_node = |line: &str| line.starts_with(['%', 'r']);
        let start = text.lines().take_while(|l| !is_node(l)).map(|l| l.len() + 1).sum();
        let (options, program) = text.split_at_checked(start).ok_or("there is no program")?;
        let program = format!("rtxir 1 numerics {NUMERICS_VERSION}\n{program}");
        let lookup = |name: &str| -> Option<&'static OpDef> {
            rtx_ops::ALL.iter().copied().find(|d| text::call_name(d) == name)
        };
        let program = text::read_file(program.as_bytes(), &lookup).map_err(|e| e.to_string())?;
        let dense = |v: ValueId| Layout::contiguous(&program.graph.ty(v).shape.sizes());
        let facts = program.graph.inputs().map(|v| InputFact { layout: dense(v), donated: false, alias: None });
        let mut wanted = program.outputs.clone();
        wanted.sort_unstable();
        let mut file = Self { facts: facts.collect(), wanted, program, claims: vec![] };
        options
            .lines()
            .filter(|l| !l.starts_with(';'))
            .try_for_each(|line| file.option(line).ok_or_else(|| format!("no such option: {line}")))?;
        Ok(file)
    }

    fn option(&mut self, line: &str) -> Option<()> {
        let (word, rest) = line.split_once(' ')?;
        if word == "claims" {
            let epilogue = match rest {
                "dot" => true,
                "bare dot" => false,
                _ => return None,
            };
            self.claims.push(Arc::new(dot::TestDot { epilogue }));
            return Some(());
        }
        if word == "takes" {
            let (op, dtype) = rest.split_once(' ')?;
            self.claims.push(Arc::new(Takes { op: op.to_owned(), dtype: DType::parse(dtype)? }));
            return Some(());
        }
        let (input, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let fact = self.facts.get_mut(input.parse::<usize>().ok()?)?;
        match word {
            "donated" => fact.donated = true,
            "alias" => fact.alias = Some(rest.parse().ok()?),
            "strides" => {
                let numbers = rest.strip_prefix('[')?.strip_suffix(']')?.split(", ");
                fact.layout.strides = numbers.map(|n| n.parse().ok()).collect::<Option<_>>()?;
            }
            _ => return None,
        }
        Some(())
    }

    fn request(&self) -> Request<'_> {
        Request { graph: &self.program.graph, inputs: &self.facts, wanted: &self.wanted, target: &TARGET }
    }
    fn work(&self) -> Work {
        import::import(&self.request(), &self.claims).expect("imports").0
    }
    fn passes(&self) -> Passes {
        let mut work = self.work();
        layout::choose_layouts(&mut work);
        layout::choose_parts(&mut work);
        let fused = fuse(&work, Fusion::Full).expect("fuses");
        let lowered = lower(&work, &fused.units).expect("lowers");
        let steps = schedule(&work, &lowered);
        Passes { work, fused, lowered, steps }
    }
    fn plan(&self) -> Plan {
        let mut plan = Compiler::new(self.claims.clone()).compile(&self.request()).expect("compiles");
        plan.counters.clear();
        plan
    }
}

/// A kernel for one op in one element type.
struct Takes {
    op: String,
    dtype: DType,
}

impl Claim for Takes {
    fn name(&self) -> &'static str {
        "test"
    }
    fn claim(&self, graph: &Graph, id: NodeId, _: &Target) -> Option<Claimed> {
        let node = graph.node(id);
        let takes = node.op.name() == self.op && graph.ty(*node.inputs.first()?).dtype == self.dtype;
        let each = |value: ValueId| {
            let rank = graph.ty(value).rank();
            Grouped { value, groups: (0..rank).map(|i| smallvec![i]).collect() }
        };
        takes.then(|| Claimed {
            text: format!("test {}", self.op),
            dims: vec![],
            operands: node.inputs.iter().copied().map(each).collect(),
            outputs: node.outs().map(each).collect(),
            epilogue: false,
            in_place: vec![],
        })
    }
}

/// What the passes made, one after the other.
struct Passes {
    work: Work,
    fused: Fused,
    lowered: Lowered,
    steps: Steps,
}

/// The working graph, what is claimed in it, what is wanted.
fn working_graph(work: &Work) -> String {
    let mut out = text::print(&work.graph);
    for (id, node) in work.graph.iter() {
        if let Some(granted) = work.claims.get(&id) {
            line(&mut out, format_args!("claimed by {}: %{}", granted.name, node.first.0));
        }
    }
    line(&mut out, format_args!("wanted {}", list(&work.wanted)));
    out
}

fn layouts(file: &File) -> String {
    let work = file.passes().work;
    let mut out = working_graph(&work);
    for v in (0..work.graph.value_count() as u32).map(ValueId) {
        if let Some(strides) = work.layouts.get(&v) {
            line(&mut out, format_args!("%{} lies {}", v.0, sizes(strides)));
        }
    }
    out
}

/// For every movement the deepest memory that it is a view of.
fn views(file: &File) -> String {
    let work = file.work();
    let mut out = String::new();
    for v in (0..work.graph.value_count() as u32).map(ValueId).filter(|&v| work.is_view(v)) {
        let views = resolve(&work, v);
        let shown = views.iter().find(|s| s.base != v).map_or("a copy".to_owned(), view);
        line(&mut out, format_args!("%{}: {shown}", v.0));
    }
    out
}

impl Passes {
    fn units(&self) -> String {
        let mut out = working_graph(&self.work);
        let mut units: Vec<&Unit> = self.fused.units.iter().collect();
        units.sort_by_key(|u| u.stores.first().copied());
        for unit in units {
            if let Some((a, b)) = unit.alias {
                line(&mut out, format_args!("unit: %{} is %{}", a.0, b.0));
                continue;
            }
            let kind = if unit.native.is_some() { "native unit" } else { "unit" };
            line(&mut out, format_args!("{kind}: {} stores {}", self.nodes(&unit.nodes), list(&unit.stores)));
        }
        for (v, shown) in self.work.wanted.iter().zip(&self.fused.views) {
            if let Some(shown) = shown {
                line(&mut out, format_args!("%{} views {}", v.0, view(shown)));
            }
        }
        out
    }

    fn launches(&self) -> String {
        let mut out = String::new();
        for launch in &self.lowered.launches {
            let written = launch.arguments.iter().filter(|a| a.written);
            line(&mut out, format_args!("launch for {}", joined(written.map(|a| memory(a.mem)))));
            line(&mut out, format_args!("arguments {}", joined(launch.arguments.iter().map(argument))));
            line(&mut out, format_args!("sizes {}", sizes(&launch.sizes)));
            if let Some(native) = &launch.native {
                line(&mut out, format_args!("native {native}"));
            }
            if let Some((from, to)) = launch.copies {
                line(&mut out, format_args!("copies {} to {}", memory(from), memory(to)));
            }
            out.push_str(&launch.nest.as_ref().map_or(String::new(), rustg::Nest::print));
        }
        out
    }

    fn order(&self) -> String {
        let mut out = String::new();
        for members in &self.steps {
            let launches = members.iter().map(|&i| self.launch(&self.lowered.launches[i]));
            line(&mut out, format_args!("step: {}", launches.collect::<Vec<_>>().join("; ")));
        }
        out
    }

    fn homes(&self) -> String {
        let homes = plan_memory(&self.work, &self.lowered, &self.steps, &self.fused.views);
        let mut out = String::new();
        for (i, launch) in self.lowered.launches.iter().enumerate() {
            let word = if homes.elided[i] { "not needed" } else { "runs" };
            line(&mut out, format_args!("{word}: {}", self.launch(launch)));
            for &(read, written) in &homes.in_place[i] {
                let at = |k: usize| memory(launch.arguments[k].mem);
                line(&mut out, format_args!("{} overwrites {}", at(written), at(read)));
            }
        }
        let mut places: Vec<_> = homes.place.iter().collect();
        places.sort_by_key(|p| *p.0);
        places.iter().for_each(|(mem, place)| line(&mut out, format_args!("{} in {place}", memory(**mem))));
        for (v, (place, layout)) in self.work.wanted.iter().zip(&homes.outputs) {
            line(&mut out, format_args!("result %{}: {place}, {} {:?}", v.0, layout.offset, layout.strides.as_slice()));
        }
        line(&mut out, format_args!("arena {}", homes.arena_bytes));
        out
    }

    fn launch(&self, launch: &Launch) -> String {
        let written = launch.arguments.iter().filter(|a| a.written);
        format!("{} for {}", self.nodes(&launch.nodes), joined(written.map(|a| memory(a.mem))))
    }

    /// Nodes by name, in recorded order.
    fn nodes(&self, nodes: &[NodeId]) -> String {
        let mut nodes = nodes.to_vec();
        nodes.sort_unstable();
        nodes.dedup();
        joined(nodes.iter().map(|&id| self.work.graph.node(id)).map(|n| format!("{} %{}", n.op.name(), n.first.0)))
    }
}

fn line(out: &mut String, what: std::fmt::Arguments<'_>) {
    writeln!(out, "{what}").expect("a string takes any text");
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}
fn list(values: &[ValueId]) -> String {
    joined(values.iter().map(|v| format!("%{}", v.0)))
}
fn sizes(sizes: &[SizeExpr]) -> String {
    format!("[{}]", joined(sizes.iter().map(ToString::to_string)))
}
fn view(s: &Strided) -> String {
    format!("%{} from {} by {}", s.base.0, s.offset, sizes(&s.strides))
}
fn memory(mem: Mem) -> String {
    match mem {
        Mem::Value(v) => format!("%{}", v.0),
        Mem::Temp(t) => format!("temp {t}"),
    }
}
fn argument(a: &Argument) -> String {
    let word = match (a.read, a.written) {
        (true, true) => "in and out ",
        (false, true) => "out ",
        _ => "",
    };
    let offset = if a.offset.known() == Some(0) { String::new() } else { format!(" from {}", a.offset) };
    format!("{word}{}{offset}", memory(a.mem))
}
