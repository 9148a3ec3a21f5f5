//! From text to a graph. The text may come from anywhere: every size is checked before it is used, and whatever is
//! wrong is one error with its line.
use super::{VERSION, lex, prim_of};
use crate::{Attr, Attrs, Graph, Op, OpDef, Program, Type, Types, ValueId, verify};
use rtx_core::{DType, Dim, Error, Kind, Location, Result, Shape};
use smallvec::SmallVec;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Finds a composite by what follows `call`; composites live above this crate.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<&'static OpDef>;

/// What a `.rtxir` file holds.
#[derive(Clone, Debug)]
pub struct File {
    /// The program.
    pub graph: Graph,
    /// What it returns.
    pub outputs: Vec<ValueId>,
    /// The numerics version it was written under; other versions may give other bits.
    pub numerics: u32,
}

/// More dims than any program has.
const MAX_RANK: usize = 64;
/// More elements than any memory has.
const MAX_ELEMENTS: u64 = 1 << 48;

/// Programs within programs within programs: more than anyone writes.
const MAX_DEPTH: usize = 8;

/// How a text is read.
#[derive(Clone, Copy)]
struct Reader<'a> {
    lookup: Lookup<'a>,
    /// In how many programs this one stands.
    depth: usize,
}

/// A program within a program, as [`super::print_program`] printed it.
///
/// # Errors
/// What is wrong, without saying where.
pub fn parse_program(text: &str, lookup: Lookup<'_>) -> Result<Program, String> {
    Reader { lookup, depth: 0 }.program(text)
}

/// Types parted by semicolons.
///
/// # Errors
/// The first that is none.
pub fn parse_types(text: &str) -> Result<Types, String> {
    text.split(';').map(str::trim).filter(|t| !t.is_empty()).map(parse_type).collect()
}

impl Reader<'_> {
    fn program(self, text: &str) -> Result<Program, String> {
        let inside = text.strip_prefix('(').and_then(|t| t.strip_suffix(')'));
        let inside = inside.ok_or("a program stands in parentheses")?;
        if self.depth >= MAX_DEPTH {
            return Err("programs within programs, too deep".into());
        }
        let inner = Reader { depth: self.depth + 1, ..self };
        let lines = lex::split_at(inside, ';');
        let (last, nodes) = lines.split_last().ok_or("an empty program")?;
        let mut graph = Graph::new();
        nodes.iter().try_for_each(|line| inner.add_line(&mut graph, line))?;
        let outputs = last.strip_prefix("return").ok_or("a program ends with return")?;
        let outputs = outputs.split_whitespace().map(|v| value(&graph, v)).collect::<Result<Vec<_>, String>>()?;
        verify(&graph).map_err(|e| e.message().to_string())?;
        Program::new(graph, outputs).map_err(|e| e.message().to_string())
    }
}

/// The graph that [`super::print`] printed.
///
/// # Errors
/// [`Kind::Format`], `graph text: line 3: …`.
pub fn parse(text: &str, lookup: Lookup<'_>) -> Result<Graph> {
    let mut graph = Graph::new();
    for (i, line) in text.lines().enumerate() {
        Reader { lookup, depth: 0 }.add_line(&mut graph, line).map_err(|what| at_line("graph text", i + 1, &what))?;
    }
    check(graph, "graph text")
}

/// A `.rtxir` file.
///
/// # Errors
/// [`Kind::Format`], `rtxir: line 3: …`, for anything that [`super::write_file`] did not write.
pub fn read_file(bytes: &[u8], lookup: Lookup<'_>) -> Result<File> {
    let wrong = |what: &str| Error::new(Kind::Format, format!("rtxir: {what}"));
    let text = std::str::from_utf8(bytes).map_err(|_| wrong("not text"))?;
    let (header, body) = text.split_once('\n').ok_or_else(|| wrong("no header line"))?;
    let numerics = parse_header(header).map_err(|what| wrong(&what))?;
    let body = body.strip_suffix('\n').ok_or_else(|| wrong("cut off: the last line has no end"))?;
    let (nodes, last) = body.rsplit_once('\n').unwrap_or(("", body));
    let outputs = last.strip_prefix("return").ok_or_else(|| wrong("cut off: no return line"))?;
    let mut graph = Graph::new();
    for (i, line) in nodes.lines().enumerate() {
        Reader { lookup, depth: 0 }.add_line(&mut graph, line).map_err(|what| at_line("rtxir", i + 2, &what))?;
    }
    let outputs = outputs.split_whitespace().map(|v| value(&graph, v));
    let outputs = outputs.collect::<Result<Vec<_>, String>>().map_err(|what| wrong(&format!("return: {what}")))?;
    Ok(File { graph: check(graph, "rtxir")?, outputs, numerics })
}

fn parse_header(line: &str) -> Result<u32, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["rtxir", version, "numerics", numerics] = words.as_slice() else {
        return Err("not an rtxir file".into());
    };
    if version.parse() != Ok(VERSION) {
        return Err(format!("format {version:?} is not known, only {VERSION}"));
    }
    numerics.parse().map_err(|_| format!("numerics version {numerics:?} is no number"))
}

fn at_line(form: &str, line: usize, what: &str) -> Error {
    Error::new(Kind::Format, format!("{form}: line {line}: {what}"))
}
fn check(graph: Graph, form: &str) -> Result<Graph> {
    // A program may print with ghosts in it; it reads none.
    verify(&graph).map_err(|e| Error::new(Kind::Format, format!("{form}: {}", e.message())))?;
    Ok(graph)
}

impl Reader<'_> {
    /// One node: `%3: f32 [2, 3] = add %1 %2 {…} @1`.
    fn add_line(self, graph: &mut Graph, line: &str) -> Result<(), String> {
        let (results, rest) = line.split_once(" = ").ok_or("not a node")?;
        let types = parse_results(graph, results)?;
        let (rest, generation) = match rest.rsplit_once(" @") {
            Some((rest, g)) if !g.contains(['}', '"', ')']) => {
                (rest, g.parse().map_err(|_| "a generation is a number")?)
            }
            _ => (rest, 0),
        };
        let (head, fields) = match rest.split_once(" {") {
            Some((head, f)) => (head, lex::split_top(f.strip_suffix('}').ok_or("a brace is left open")?)),
            None => (rest, Vec::new()),
        };
        let mut words = head.split_whitespace();
        let name = words.next().ok_or("no op")?;
        let call = if name == "call" { Some(words.next().ok_or("call what?")?) } else { None };
        let inputs = words.map(|w| value(graph, w)).collect::<Result<SmallVec<[ValueId; 4]>, String>>()?;
        let fields = Fields { parts: fields, reader: self };
        let first = types.first().ok_or("a node makes a value")?;
        let here = Location::caller();
        let alone = inputs.is_empty() && types.len() == 1;
        let op = match (call, name) {
            (None, "input" | "ghost" | "param") if !alone => return Err(format!("{name} takes no operands")),
            (Some(call), _) => {
                let def = (self.lookup)(call).ok_or_else(|| format!("no op is called {call:?}"))?;
                Op::Composite(def, fields.attrs()?)
            }
            (None, "input") => {
                graph.push_input(first.clone(), here);
                return Ok(());
            }
            (None, "ghost") => {
                graph.push_ghost(first.clone(), here);
                return Ok(());
            }
            (None, "param") => {
                graph.push_param(first.dtype, fields.bits(first.dtype)?, here);
                return Ok(());
            }
            (None, name) => Op::Prim(prim_of(name, &types, &fields)?),
        };
        check_types(graph, &op, &inputs, &types)?;
        graph.push(op, inputs, types, here, generation);
        Ok(())
    }
}

/// The declared types are those that inference gives.
fn check_types(graph: &Graph, op: &Op, inputs: &[ValueId], declared: &Types) -> Result<(), String> {
    let Some(def) = op.def() else { return Err("not an op".into()) };
    let operands: SmallVec<[&Type; 4]> = inputs.iter().map(|&v| graph.ty(v)).collect();
    // A definition trusts the table it stands in; a file is no table, so a panic here is the file's mistake.
    let inferred = catch_unwind(AssertUnwindSafe(|| (def.infer)(op, &operands)))
        .map_err(|_| format!("{}: operands or attributes do not fit", op.name()))?
        .map_err(|e| e.message().to_string())?;
    if inferred == *declared { Ok(()) } else { Err(format!("{}: the types are not what it makes", op.name())) }
}

/// `%3: f32 [2], %4: i64 [2]`: the next values.
fn parse_results(graph: &Graph, text: &str) -> Result<Types, String> {
    let mut types = Types::new();
    for (i, part) in lex::split_top(text).into_iter().enumerate() {
        let (id, ty) = part.split_once(": ").ok_or("a result is a value and its type")?;
        let next = graph.value_count() + i;
        if id.strip_prefix('%').and_then(|n| n.parse().ok()) != Some(next) {
            return Err(format!("the next value is %{next}, not {id:?}"));
        }
        types.push(parse_type(ty)?);
    }
    Ok(types)
}

fn parse_type(text: &str) -> Result<Type, String> {
    let wrong = || format!("{text:?} is no type");
    let (dtype, shape) = text.split_once(' ').ok_or_else(wrong)?;
    let dtype = DType::parse(dtype).ok_or_else(wrong)?;
    let dims = lex::list(shape).ok_or_else(wrong)?;
    let dims = dims.into_iter().map(lex::dim).collect::<Option<SmallVec<[Dim; 4]>>>().ok_or_else(wrong)?;
    let size = |d: &Dim| match d {
        Dim::Const(n) => *n,
        Dim::Sym { max, .. } => *max,
    };
    // Zeros do not hide an absurd size beside them.
    let elements = dims.iter().try_fold(1u64, |n, d| n.checked_mul(size(d).max(1)).filter(|n| *n <= MAX_ELEMENTS));
    if dims.len() > MAX_RANK || elements.is_none() {
        return Err(format!("{text:?} is too large"));
    }
    Ok(Type { dtype, shape: Shape::from_iter(dims) })
}

/// `%3`, made before.
fn value(graph: &Graph, word: &str) -> Result<ValueId, String> {
    let id = word.strip_prefix('%').and_then(|n| n.parse::<u32>().ok()).ok_or(format!("{word:?} is no value"))?;
    if (id as usize) < graph.value_count() { Ok(ValueId(id)) } else { Err(format!("%{id} is not made yet")) }
}

/// What stands in the braces.
pub(super) struct Fields<'a> {
    parts: Vec<&'a str>,
    reader: Reader<'a>,
}

impl Fields<'_> {
    fn get(&self, key: &str) -> Result<&str, String> {
        let of = |f: &&str| f.split_once(": ").is_some_and(|(k, _)| k == key);
        let field = self.parts.iter().find(|f| of(f)).ok_or_else(|| format!("{key} is missing"))?;
        Ok(field.split_once(": ").map_or("", |(_, v)| v))
    }
    fn read<T>(&self, key: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, String> {
        let text = self.get(key)?;
        parse(text).ok_or_else(|| format!("{key} is {text:?}"))
    }
    pub(super) fn int(&self, key: &str) -> Result<i64, String> {
        self.read(key, |t| t.parse().ok())
    }
    /// A size or a position, far from where arithmetic overflows.
    pub(super) fn size(&self, key: &str) -> Result<usize, String> {
        self.read(key, |t| t.parse().ok().filter(|n| *n as u64 <= MAX_ELEMENTS))
    }
    pub(super) fn flag(&self, key: &str) -> Result<bool, String> {
        self.read(key, |t| t.parse().ok())
    }
    pub(super) fn dim(&self, key: &str) -> Result<Dim, String> {
        self.read(key, |t| lex::dim(t).filter(|d| d.bound() as u64 <= MAX_ELEMENTS))
    }
    pub(super) fn sizes(&self, key: &str) -> Result<SmallVec<[usize; 4]>, String> {
        self.read(key, |t| lex::list(t)?.into_iter().map(|n| n.parse().ok()).collect())
    }
    /// Integers far from where arithmetic overflows.
    pub(super) fn ints(&self, key: &str) -> Result<SmallVec<[i64; 4]>, String> {
        let int = |t: &str| t.parse::<i64>().ok().filter(|n| n.unsigned_abs() <= MAX_ELEMENTS);
        self.read(key, |t| lex::list(t)?.into_iter().map(int).collect())
    }
    pub(super) fn pairs(&self, key: &str) -> Result<SmallVec<[(usize, usize); 2]>, String> {
        let pair = |t: &str| t.split_once(':').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        self.read(key, |t| lex::list(t)?.into_iter().map(pair).collect())
    }
    pub(super) fn word(&self, key: &str) -> Result<&str, String> {
        self.get(key)
    }
    /// What stands between quotes.
    pub(super) fn sentence(&self, key: &str) -> Result<String, String> {
        self.read(key, lex::sentence)
    }
    pub(super) fn program(&self, key: &str) -> Result<Program, String> {
        self.reader.program(self.get(key)?)
    }
    pub(super) fn bits(&self, dtype: DType) -> Result<u64, String> {
        let [text] = self.parts.as_slice() else { return Err("one number is missing".into()) };
        lex::number_bits(dtype, text).ok_or_else(|| format!("{text:?} is no {dtype}"))
    }
    fn attrs(&self) -> Result<Attrs, String> {
        self.parts.iter().map(|t| parse_attr(t).ok_or_else(|| format!("{t:?} is no attribute"))).collect()
    }
}

fn parse_attr(t: &str) -> Option<Attr> {
    Some(match t {
        "none" => Attr::None,
        "true" => Attr::Bool(true),
        "false" => Attr::Bool(false),
        t if t.starts_with('[') => {
            Attr::Ints(lex::list(t)?.into_iter().map(|n| n.parse().ok()).collect::<Option<_>>()?)
        }
        t if t.starts_with('"') => Attr::Str(intern(lex::quoted(t)?)),
        t => match (DType::parse(t), t.parse::<i64>()) {
            (Some(d), _) => Attr::DType(d),
            (None, Ok(i)) => Attr::Int(i),
            (None, Err(_)) => Attr::Float(t.parse().ok()?),
        },
    })
}

/// A word that lives as long as the program, once.
fn intern(word: &str) -> &'static str {
    static WORDS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut words = WORDS.lock().unwrap_or_else(|e| e.into_inner());
    let words = words.get_or_insert_default();
    match words.get(word) {
        Some(known) => known,
        None => {
            let kept: &'static str = Box::leak(word.into());
            words.insert(kept);
            kept
        }
    }
}
