//! Plans as text, and back: what is printed parses to an equal plan.
//!
//! ```text
//! plan 1
//! arena 4096
//! params 2
//! constants 0000803f00000000
//! symbol s1 64
//! kernel tile add_tanh                     in order; the text follows, each line behind `| `
//! | tile 1
//! step 0 origins 3 4                       which kernel, which recorded nodes
//! run input0 slot1@16 arena64 : 24 3*s1+2  buffers (a place, bytes to skip), then sizes
//! output %7 slot 96 0 [3, 1] f32 [2, 3]    value, where, offset, strides, type
//! counter steps 1
//! ```
use crate::{BufferArg, Instance, Output, OutputPlace, Place, Plan, SizeExpr, Step};
use rtx_core::{DType, Dim, Error, Kind, Layout, Result, Shape, SymId};
use rtx_hal::{KernelSource, Lang};
use rtx_ir::{NodeId, Type, ValueId};
use smallvec::SmallVec;
use std::fmt::{self, Display, Write};
use std::str::FromStr;

/// Version of the format.
const VERSION: u32 = 1;

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Input(i) => write!(f, "input{i}"),
            Place::Slot(i) => write!(f, "slot{i}"),
            Place::Arena(at) => write!(f, "arena{at}"),
            Place::Param(i) => write!(f, "param{i}"),
            Place::Constant(at) => write!(f, "constant{at}"),
        }
    }
}
impl Display for BufferArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if self.offset_bytes.known() == Some(0) { Ok(()) } else { write!(f, "@{}", self.offset_bytes) }
    }
}
impl Display for OutputPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputPlace::Slot(bytes) => write!(f, "slot {bytes}"),
            OutputPlace::Donated(i) => write!(f, "donated {i}"),
            OutputPlace::Input(i) => write!(f, "input {i}"),
            OutputPlace::Output(i) => write!(f, "output {i}"),
        }
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan {VERSION}\narena {}\nparams {}", self.arena_bytes, self.params)?;
        if !self.constants.is_empty() {
            writeln!(f, "constants {}", hex(&self.constants))?;
        }
        for (id, max) in &self.symbols {
            writeln!(f, "symbol s{} {max}", id.0)?;
        }
        for k in &self.kernels {
            let lang = match k.lang {
                Lang::Tile => "tile",
                Lang::Native => "native",
            };
            writeln!(f, "kernel {lang} {}", k.name)?;
            k.text.split('\n').try_for_each(|line| writeln!(f, "| {line}"))?;
        }
        for s in &self.steps {
            writeln!(f, "step {} origins{}", s.kernel, spaced(s.origins.iter().map(|n| n.0)))?;
            for i in &s.instances {
                writeln!(f, "run{} :{}", spaced(&i.buffers), spaced(&i.sizes))?;
            }
        }
        for o in &self.outputs {
            let strides = o.layout.strides.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            writeln!(f, "output %{} {} {} [{strides}] {}", o.value.0, o.place, o.layout.offset, o.ty)?;
        }
        self.counters.iter().try_for_each(|(name, n)| writeln!(f, "counter {name} {n}"))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, b| {
        _ = write!(out, "{b:02x}");
        out
    })
}

fn spaced<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().fold(String::new(), |mut out, x| {
        _ = write!(out, " {x}");
        out
    })
}

impl Plan {
    /// Reads what [`Plan`]'s `Display` writes.
    ///
    /// # Errors
    /// [`Kind::Format`] with the number of the first line that is not as it should be.
    pub fn parse(text: &str) -> Result<Plan> {
        let mut plan = Plan {
            kernels: vec![],
            steps: vec![],
            outputs: vec![],
            arena_bytes: 0,
            constants: vec![],
            params: 0,
            symbols: vec![],
            counters: vec![],
        };
        let mut lines = text.lines().enumerate().peekable();
        if lines.next().map(|l| l.1) != Some(&*format!("plan {VERSION}")) {
            return Err(Error::new(Kind::Format, format!("plan: the first line is not `plan {VERSION}`")));
        }
        while let Some((i, line)) = lines.next() {
            let wrong = || Error::new(Kind::Format, format!("plan: line {}: `{line}`", i + 1));
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            if word == "kernel" {
                let (lang, name) = rest.split_once(' ').ok_or_else(wrong)?;
                let lang = match lang {
                    "tile" => Lang::Tile,
                    "native" => Lang::Native,
                    _ => return Err(wrong()),
                };
                let mut body: Vec<&str> = vec![];
                while let Some((_, line)) = lines.next_if(|l| l.1.starts_with("| ")) {
                    body.push(&line[2..]);
                }
                plan.kernels.push(KernelSource { name: name.into(), lang, text: body.join("\n") });
                continue;
            }
            parse_line(&mut plan, word, rest).ok_or_else(wrong)?;
        }
        check(&plan)?;
        Ok(plan)
    }
}

/// Kernels that steps name exist, steps run at least once, outputs name earlier ones.
fn check(plan: &Plan) -> Result<()> {
    let kernels = plan.steps.iter().all(|s| (s.kernel as usize) < plan.kernels.len() && !s.instances.is_empty());
    let earlier = |(k, o): (usize, &Output)| !matches!(o.place, OutputPlace::Output(j) if j as usize >= k);
    let outputs = plan.outputs.iter().enumerate().all(earlier);
    if kernels && outputs {
        return Ok(());
    }
    Err(Error::new(Kind::Format, "plan: a step or an output names what is not there"))
}

fn parse_line(plan: &mut Plan, word: &str, rest: &str) -> Option<()> {
    match word {
        "arena" => plan.arena_bytes = number(rest)?,
        "params" => plan.params = number(rest)?,
        "constants" => plan.constants = unhex(rest)?,
        "symbol" => {
            let (id, max) = rest.split_once(' ')?;
            plan.symbols.push((symbol(id)?, number(max)?));
        }
        "step" => {
            let (kernel, origins) = rest.split_once(" origins")?;
            let origins = origins.split_whitespace().map(|n| Some(NodeId(number(n)?))).collect::<Option<_>>()?;
            plan.steps.push(Step { kernel: number(kernel)?, instances: vec![], origins });
        }
        "run" => {
            let (buffers, sizes) = rest.split_once(':')?;
            let buffers = buffers.split_whitespace().map(buffer).collect::<Option<_>>()?;
            let sizes = sizes.split_whitespace().map(size).collect::<Option<_>>()?;
            plan.steps.last_mut()?.instances.push(Instance { buffers, sizes });
        }
        "output" => plan.outputs.push(output(rest)?),
        "counter" => {
            let (name, n) = rest.rsplit_once(' ')?;
            plan.counters.push((name.to_string().into(), number(n)?));
        }
        _ => return None,
    }
    Some(())
}

fn number<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn symbol(text: &str) -> Option<SymId> {
    Some(SymId(number(text.strip_prefix('s')?)?))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|p| p[0] << 4 | p[1]).collect())
}

/// `3*s1+-2`
fn size(text: &str) -> Option<SizeExpr> {
    let term = |t: &str| {
        let mut parts = t.split('*');
        let coefficient = number(parts.next()?)?;
        Some((coefficient, parts.map(symbol).collect::<Option<SmallVec<[SymId; 2]>>>()?))
    };
    Some(SizeExpr::from_terms(text.split('+').map(term).collect::<Option<Vec<_>>>()?))
}

fn buffer(text: &str) -> Option<BufferArg> {
    let (at, offset) = text.split_once('@').unwrap_or((text, "0"));
    let digits = at.find(|c: char| c.is_ascii_digit())?;
    let place = match &at[..digits] {
        "input" => Place::Input(number(&at[digits..])?),
        "slot" => Place::Slot(number(&at[digits..])?),
        "arena" => Place::Arena(number(&at[digits..])?),
        "param" => Place::Param(number(&at[digits..])?),
        "constant" => Place::Constant(number(&at[digits..])?),
        _ => return None,
    };
    Some(BufferArg { place, offset_bytes: size(offset)? })
}

fn output(text: &str) -> Option<Output> {
    let mut words = text.splitn(5, ' ');
    let value = ValueId(number(words.next()?.strip_prefix('%')?)?);
    let (place, n) = (words.next()?, words.next()?);
    let place = match place {
        "slot" => OutputPlace::Slot(number(n)?),
        "donated" => OutputPlace::Donated(number(n)?),
        "input" => OutputPlace::Input(number(n)?),
        "output" => OutputPlace::Output(number(n)?),
        _ => return None,
    };
    let offset = number(words.next()?)?;
    let (strides, ty) = words.next()?.strip_prefix('[')?.split_once("] ")?;
    let strides = listed(strides).map(number).collect::<Option<_>>()?;
    let (dtype, shape) = ty.split_once(' ')?;
    let dims = listed(shape.strip_prefix('[')?.strip_suffix(']')?).map(dim).collect::<Option<Shape>>()?;
    Some(Output { value, ty: Type::new(DType::parse(dtype)?, dims), place, layout: Layout { offset, strides } })
}

/// The items between commas.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(", ").filter(|t| !t.is_empty())
}

fn dim(text: &str) -> Option<Dim> {
    match text.split_once("<=") {
        Some((id, max)) => Some(Dim::Sym { id: symbol(id)?, max: number(max)? }),
        None => Some(Dim::Const(number(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Plan {
        let s = Dim::Sym { id: SymId(1), max: 64 };
        let e = &(&SizeExpr::from(s) * &SizeExpr::constant(3)) + &SizeExpr::constant(-2);
        let at = |place, offset_bytes| BufferArg { place, offset_bytes };
        Plan {
            kernels: vec![
                KernelSource { name: "add_tanh".into(), lang: Lang::Tile, text: "tile 1\n\naxis s0\n".into() },
                KernelSource { name: "gemm".into(), lang: Lang::Native, text: "gemm f32".into() },
            ],
            steps: vec![Step {
                kernel: 1,
                instances: vec![Instance {
                    buffers: vec![
                        at(Place::Input(0), SizeExpr::default()),
                        at(Place::Slot(1), e.clone()),
                        at(Place::Arena(64), SizeExpr::constant(16)),
                        at(Place::Param(2), SizeExpr::default()),
                        at(Place::Constant(8), SizeExpr::default()),
                    ],
                    sizes: vec![SizeExpr::constant(-24), e, SizeExpr::default()],
                }],
                origins: vec![NodeId(3), NodeId(4)],
            }],
            outputs: vec![
                Output {
                    value: ValueId(7),
                    ty: Type::new(DType::F32, Shape::from_iter([s, Dim::Const(3)])),
                    place: OutputPlace::Slot(96),
                    layout: Layout { offset: 5, strides: SmallVec::from_slice(&[-3, 1]) },
                },
                Output {
                    value: ValueId(9),
                    ty: Type::new(DType::I64, []),
                    place: OutputPlace::Output(0),
                    layout: Layout::default(),
                },
            ],
            arena_bytes: 128,
            constants: vec![0, 0x80, 0x3f, 255],
            params: 3,
            symbols: vec![(SymId(1), 64)],
            counters: vec![("steps".into(), 1)],
        }
    }

    #[test]
    fn what_is_printed_parses_back() {
        let plan = example();
        let text = plan.to_string();
        assert_eq!(Plan::parse(&text).expect("parses"), plan, "{text}");
        assert!(text.contains("run input0 slot1@-2+3*s1 arena64@16 param2 constant8 : -24 -2+3*s1 0\n"), "{text}");
        assert!(text.contains("output %7 slot 96 5 [-3, 1] f32 [s1<=64, 3]\n"), "{text}");
    }

    #[test]
    fn every_damaged_line_is_one_error() {
        let text = example().to_string();
        for i in 0..text.len() {
            // Neither a cut nor a changed byte may panic.
            _ = Plan::parse(&text[..i]);
            let mut bytes = text.clone().into_bytes();
            bytes[i] = b'?';
            _ = Plan::parse(std::str::from_utf8(&bytes).expect("ASCII"));
        }
        let error = Plan::parse(&text.replace("slot 96", "shelf 96")).expect_err("no such place");
        assert_eq!(error.message(), "plan: line 15: `output %7 shelf 96 5 [-3, 1] f32 [s1<=64, 3]`");
        assert!(Plan::parse("plan 2\n").is_err());
    }
}
