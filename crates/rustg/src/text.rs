//! Nests as text, one instruction a line, and back.
//!
//! ```text
//! nest 1                              how many sizes a launch brings
//! axis s0                             an axis: its extent is size 0
//! walk 128                            the walk axis, of extent 128
//! buffer f32
//! buffer f32 written
//! %0 = load f32 b0 +0 a0*s0 a1*1     offset, then axis*stride, then [%index*stride<bound], `!` when checked
//! %1 = reduce.sum f32 %0
//! store b1 +0 a0*1 = %1
//! ```
use crate::{Axis, AxisId, BufferDecl, BufferId, Id, Indexed, Instr, Nest, Size, Store, View};
use rtx_core::{Arith, Comparison, DType, Extremum, Fold, Function};
use std::fmt::{self, Write};

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Const(n) => write!(f, "{n}"),
            Size::Arg(i) => write!(f, "s{i}"),
        }
    }
}
impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{} +{}", self.buffer.0, self.offset)?;
        for (axis, stride) in &self.strides {
            write!(f, " a{}*{stride}", axis.0)?;
        }
        for i in &self.indexed {
            write!(f, " [%{}*{}<{}{}]", i.index.0, i.stride, i.bound, if i.checked { "!" } else { "" })?;
        }
        Ok(())
    }
}

/// Writes everything but the instructions and stores.
pub(crate) fn print_header(out: &mut String, word: &str, nest: &Nest) {
    _ = writeln!(out, "{word} {}", nest.sizes);
    for axis in &nest.axes {
        _ = writeln!(out, "{} {}", if axis.walk { "walk" } else { "axis" }, axis.extent);
    }
    for buffer in &nest.buffers {
        _ = writeln!(out, "buffer {}{}", buffer.dtype, if buffer.written { " written" } else { "" });
    }
}
/// Writes one instruction's line.
pub(crate) fn print_instr(out: &mut String, id: usize, instr: &Instr, dtype: DType) {
    _ = write!(out, "%{id} = ");
    let name = match instr {
        Instr::Const { .. } => "const",
        Instr::Load(_) => "load",
        Instr::Iota(_) => "iota",
        Instr::Sized(_) => "sized",
        Instr::Unary(f, _) => f.name(),
        Instr::Binary(f, ..) => f.name(),
        Instr::Compare(f, ..) => f.name(),
        Instr::Fma(..) => "fma",
        Instr::Select(..) => "select",
        Instr::Cast(..) => "cast",
        Instr::Bitcast(..) => "bitcast",
        Instr::Reduce(f, _) => f.name(),
        Instr::ArgReduce(f, _) => f.name(),
        Instr::Random { .. } => "random",
    };
    let family = match instr {
        Instr::Reduce(..) => "reduce.",
        Instr::ArgReduce(..) => "arg.",
        _ => "",
    };
    _ = write!(out, "{family}{name} {dtype}");
    _ = match instr {
        Instr::Const { bits, .. } => write!(out, " {bits:#x}"),
        Instr::Load(view) => write!(out, " {view}"),
        Instr::Iota(axis) => write!(out, " a{}", axis.0),
        Instr::Sized(size) => write!(out, " {size}"),
        _ => instr.operands().iter().try_for_each(|a| write!(out, " %{}", a.0)),
    };
    out.push('\n');
}
/// Writes one store's line.
pub(crate) fn print_store(out: &mut String, store: &Store) {
    _ = writeln!(out, "store {} = %{}", store.view, store.value.0);
}

impl Nest {
    /// The nest as text; [`Nest::parse`] is its inverse.
    pub fn print(&self) -> String {
        let mut out = String::new();
        print_header(&mut out, "nest", self);
        for (i, (instr, dtype)) in self.instrs.iter().zip(self.dtypes()).enumerate() {
            print_instr(&mut out, i, instr, dtype);
        }
        self.stores.iter().for_each(|s| print_store(&mut out, s));
        out
    }
    /// Reads a nest and verifies it.
    ///
    /// # Errors
    /// What is wrong and in which line.
    pub fn parse(text: &str) -> Result<Nest, String> {
        parse(text, "nest").map(|(nest, _)| nest)
    }
}

/// Reads a nest whose first line begins with `word`, and the phase of each instruction.
pub(crate) fn parse(text: &str, word: &str) -> Result<(Nest, Vec<u32>), String> {
    let mut reader = Reader { nest: Nest::default(), phases: vec![], phase: 0, begun: false };
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        reader.line(line, word).map_err(|e| format!("line {}: {e}: `{line}`", i + 1))?;
    }
    if !reader.begun {
        return Err(format!("line 1: `{word}` expected"));
    }
    reader.nest.verify()?;
    let (nest, phases) = (reader.nest, reader.phases);
    Ok((nest, phases))
}

struct Reader {
    nest: Nest,
    phases: Vec<u32>,
    phase: u32,
    begun: bool,
}

impl Reader {
    fn line(&mut self, line: &str, word: &str) -> Result<(), String> {
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        if !self.begun {
            self.begun = head == word;
            self.nest.sizes = number(rest)?;
            return if self.begun { Ok(()) } else { Err(format!("`{word}` expected")) };
        }
        match head {
            "axis" | "walk" => self.nest.axes.push(Axis { extent: size(rest)?, walk: head == "walk" }),
            "buffer" => {
                let (name, written) = rest.split_once(' ').map_or((rest, false), |(n, w)| (n, w == "written"));
                self.nest.buffers.push(BufferDecl { dtype: dtype(name)?, written });
            }
            "phase" => self.phase = number(rest)?,
            "store" => {
                let (view, value) = rest.split_once(" = ").ok_or("` = ` expected")?;
                let mut tokens = view.split_whitespace();
                let view = self.view(&mut tokens)?;
                self.nest.stores.push(Store { view, value: Id(marked(value, '%')?) });
            }
            _ => self.instr(line)?,
        }
        Ok(())
    }

    fn instr(&mut self, line: &str) -> Result<(), String> {
        let (id, rest) = line.split_once(" = ").ok_or("an instruction expected")?;
        if marked(id, '%')? as usize != self.nest.instrs.len() {
            return Err(format!("%{} expected", self.nest.instrs.len()));
        }
        let mut tokens = rest.split_whitespace();
        let name = tokens.next().ok_or("an instruction's name expected")?;
        let printed = dtype(tokens.next().ok_or("a type expected")?)?;
        let instr = self.body(name, printed, &mut tokens)?;
        if let Some(extra) = tokens.next() {
            return Err(format!("`{extra}` is too much"));
        }
        let at = self.nest.instrs.len() as u32;
        if let Some(late) = instr.operands().into_iter().find(|a| a.0 >= at) {
            return Err(format!("%{} does not come before %{at}", late.0));
        }
        let id = self.nest.push(instr);
        self.phases.push(self.phase);
        let found = self.nest.dtype(id);
        if found != printed { Err(format!("the type is {found}, not {printed}")) } else { Ok(()) }
    }

    fn body<'a>(
        &self,
        name: &str,
        printed: DType,
        tokens: &mut impl Iterator<Item = &'a str>,
    ) -> Result<Instr, String> {
        let mut next = || tokens.next().ok_or("an operand is missing".to_string());
        Ok(match name {
            "const" => {
                let digits = next()?;
                let hex = digits.strip_prefix("0x").ok_or("hexadecimal bits expected")?;
                let bits = u64::from_str_radix(hex, 16).map_err(|e| format!("`{digits}`: {e}"))?;
                Instr::Const { dtype: printed, bits }
            }
            "load" => Instr::Load(self.view(tokens)?),
            "iota" => Instr::Iota(AxisId(marked(next()?, 'a')?)),
            "sized" => Instr::Sized(size(next()?)?),
            _ => {
                let mut id = || -> Result<Id, String> { Ok(Id(marked(next()?, '%')?)) };
                if let Some(f) = Function::parse(name) {
                    Instr::Unary(f, id()?)
                } else if let Some(f) = Arith::parse(name) {
                    Instr::Binary(f, id()?, id()?)
                } else if let Some(f) = Comparison::parse(name) {
                    Instr::Compare(f, id()?, id()?)
                } else if let Some(f) = name.strip_prefix("reduce.").and_then(Fold::parse) {
                    Instr::Reduce(f, id()?)
                } else if let Some(f) = name.strip_prefix("arg.").and_then(Extremum::parse) {
                    Instr::ArgReduce(f, id()?)
                } else {
                    match name {
                        "fma" => Instr::Fma(id()?, id()?, id()?),
                        "select" => Instr::Select(id()?, id()?, id()?),
                        "cast" => Instr::Cast(printed, id()?),
                        "bitcast" => Instr::Bitcast(printed, id()?),
                        "random" => Instr::Random { key: id()?, ordinal: id()?, index: id()? },
                        _ => return Err(format!("no instruction `{name}`")),
                    }
                }
            }
        })
    }

    fn view<'a>(&self, tokens: &mut impl Iterator<Item = &'a str>) -> Result<View, String> {
        let buffer = BufferId(marked(tokens.next().ok_or("a buffer expected")?, 'b')?);
        if buffer.index() >= self.nest.buffers.len() {
            return Err(format!("no buffer b{}", buffer.0));
        }
        let offset = tokens.next().and_then(|t| t.strip_prefix('+')).ok_or("`+offset` expected")?;
        let mut view = View { buffer, strides: vec![], offset: size(offset)?, indexed: vec![] };
        for token in tokens {
            if let Some(inner) = token.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
                view.indexed.push(indexed(inner)?);
            } else {
                let (axis, stride) = token.split_once('*').ok_or(format!("`{token}`: axis*stride expected"))?;
                view.strides.push((AxisId(marked(axis, 'a')?), size(stride)?));
            }
        }
        Ok(view)
    }
}

fn indexed(text: &str) -> Result<Indexed, String> {
    let (text, checked) = text.strip_suffix('!').map_or((text, false), |t| (t, true));
    let parts = text.split_once('*').and_then(|(i, rest)| rest.split_once('<').map(|(s, b)| (i, s, b)));
    let (index, stride, bound) = parts.ok_or(format!("`{text}`: %index*stride<bound expected"))?;
    Ok(Indexed { index: Id(marked(index, '%')?), stride: size(stride)?, bound: size(bound)?, checked })
}
fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a number"))
}
fn marked(text: &str, mark: char) -> Result<u32, String> {
    text.strip_prefix(mark)
        .and_then(|n| n.parse().ok())
        .ok_or_else(|| format!("`{text}`: {mark} and a number expected"))
}
fn size(text: &str) -> Result<Size, String> {
    Ok(if text.starts_with('s') { Size::Arg(marked(text, 's')?) } else { Size::Const(number(text)?) })
}
fn dtype(name: &str) -> Result<DType, String> {
    DType::parse(name).ok_or_else(|| format!("no type `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW_SUM: &str = "nest 2
axis s0
walk s1
buffer f32
buffer i64
buffer f32 written
%0 = iota i64 a0
%1 = load i64 b1 +3 a0*1
%2 = load f32 b0 +0 a1*1 [%1*s1<s0!] [%0*2<7]
%3 = const f32 0x3f800000
%4 = fma f32 %2 %3 %3
%5 = lt bool %4 %3
%6 = select f32 %5 %4 %3
%7 = reduce.sum f32 %6
%8 = arg.max i64 %6
%9 = random u32 %8 %0 %1
%10 = cast f32 %9
%11 = add f32 %10 %7
store b2 +0 a0*1 = %11
";

    #[test]
    fn text_round_trips() {
        let nest = Nest::parse(ROW_SUM).unwrap();
        assert_eq!(nest.print(), ROW_SUM);
        assert_eq!(nest.axes_of(Id(6)), [AxisId(0), AxisId(1)]);
        assert_eq!((nest.axes_of(Id(7)), nest.dtype(Id(5))), (vec![AxisId(0)], DType::Bool));
    }

    #[test]
    fn errors_name_the_line() {
        let wrong = |from: &str, to: &str| Nest::parse(&ROW_SUM.replace(from, to)).unwrap_err();
        assert_eq!(wrong("%6 = select", "%6 = selekt"), "line 13: no instruction `selekt`: `%6 = selekt f32 %5 %4 %3`");
        assert_eq!(wrong("lt bool %4", "lt bool %9"), "line 12: %9 does not come before %5: `%5 = lt bool %9 %3`");
        assert_eq!(
            wrong("reduce.sum f32", "reduce.sum f64"),
            "line 14: the type is f32, not f64: `%7 = reduce.sum f64 %6`"
        );
        assert_eq!(wrong("walk s1", "axis s1"), "%7: a reduction without a walk axis");
        assert_eq!(
            wrong("store b2 +0 a0*1", "store b2 +0"),
            "store 0: %11 varies over axes that the view does not name"
        );
        assert_eq!(wrong("a1*1 [", "a1*0 ["), "%2: a stride of 0 along a1");
        assert_eq!(wrong("walk s1", "walk s2"), "axis 1: s2 is not among 2 sizes");
    }
}
