//! Examples of generated methods: a sample of the definition with plain numbers, run here, printed with what came out.
//!
//! The result is checked again by the documentation's tests, so an example cannot go stale.
use super::{Op, Parameter, field_type};
use rtx_core::{DType, Element, Scalar};
use rtx_ir::{OpDef, split_list};
use rtx_tensor::{Argument, Tensor, call_definition, from_bytes, linspace, manual_seed};
use std::fmt::Write;

/// A literal of more elements than this is spelled as evenly spaced numbers.
const LITERAL: usize = 12;
/// Of a result with more elements than this only the shape is shown.
const SHOWN: usize = 12;

/// An argument: as Rust spells it, and as the table takes it.
struct Spelled {
    /// A line before the call, for a tensor.
    line: Option<String>,
    text: String,
    value: Argument,
}

/// An example, and how little it shows: the least is printed.
struct Example {
    hidden: usize,
    text: String,
}

/// Documentation lines with an example of `name`, or of `name_with`; empty where no sample can be spelled.
pub(super) fn lines(def: &'static OpDef, op: &Op, with_options: bool) -> String {
    let examples = def.samples.iter().filter_map(|sample| example(def, op, sample.args, with_options));
    let best = examples.min_by_key(|e| e.hidden).map(|e| e.text).unwrap_or_default();
    let mut out = String::new();
    if best.is_empty() {
        return out;
    }
    out += "    ///\n    /// ```\n    /// # use rtx_tensor::{self as torch, DType, keep, tensor};\n";
    best.lines().for_each(|line| out.extend(["    /// ", line, "\n"]));
    out + "    /// # Ok::<(), torch::Error>(())\n    /// ```\n"
}

fn example(def: &'static OpDef, op: &Op, sample: &'static str, with_options: bool) -> Option<Example> {
    let parts = split_list(sample);
    let this = Parameter { ty: "Tensor".into(), name: "x".into(), default: None };
    let x = spell(&this, parts.first()?, 0)?;
    let (mut before, mut passed, mut fields) = (x.line.iter().cloned().collect::<Vec<_>>(), vec![], vec![]);
    let mut arguments = vec![x.value];
    for (i, p) in op.params.iter().enumerate() {
        let given = parts.get(i + 1).copied();
        let keeps = op.has_axes() && p.name == "keepdim";
        let optional = p.default.is_some() && !keeps && !op.is_axes(p);
        let default = default_text(p);
        let text = given.filter(|_| !optional || with_options).or(default)?;
        let spelled = spell(p, text, i + 1)?;
        match () {
            () if keeps && matches!(text, "true" | "True") => {
                let dim = passed.pop()?;
                passed.push(format!("keep({dim})"));
            }
            () if keeps => {}
            () if optional && given.is_some_and(|t| Some(t) != default) && with_options => {
                before.extend(spelled.line);
                fields.push(format!("{}: {}", p.name, field(p, text, &spelled.text)?));
            }
            () if optional => {}
            () if op.is_axes(p) => {
                passed.push(if matches!(text, "none" | "None" | "[]") { "..".into() } else { spelled.text })
            }
            () if matches!(text, "none" | "None" | "[]") => return None,
            () => {
                passed.push(if spelled.line.is_some() { format!("&{}", spelled.text) } else { spelled.text });
                before.extend(spelled.line);
            }
        }
        arguments.push(spelled.value);
    }
    let name = op.name;
    let call = match with_options {
        false => format!("x.{name}({})", passed.join(", ")),
        true => {
            passed.push(options(op, &fields));
            format!("x.{name}_with({})", passed.join(", "))
        }
    };
    let run = |seed| {
        manual_seed(seed);
        call_definition(def, &arguments).ok().map(|outs| outs.iter().map(shown).collect::<Vec<_>>())
    };
    let results = run(1)?;
    if results.len() != op.outputs {
        return None;
    }
    if results != run(2)? {
        before.insert(0, "torch::manual_seed(1);".into());
    }
    let names = if op.outputs == 1 { "y".to_owned() } else { format!("({})", &"y, z, w"[..op.outputs * 3 - 2]) };
    let mut text = before.join("\n") + &format!("\nlet {names} = {call};\n");
    let mut hidden = 2 * usize::from(with_options && fields.is_empty());
    for (result, name) in results.iter().zip(["y", "z", "w"]) {
        let _ = match result {
            Shown::Item(ty, value) => writeln!(text, "assert_eq!({name}.item::<{ty}>()?, {value});"),
            Shown::Vector(ty, values) => writeln!(text, "assert_eq!({name}.to_vec::<{ty}>()?, {values});"),
            Shown::Tensor(shape, ty, values) => {
                writeln!(text, "assert_eq!({name}.shape(), {shape});\nassert_eq!({name}.to_vec::<{ty}>()?, {values});")
            }
            Shown::Shape(shape) => {
                hidden += 4;
                writeln!(text, "assert_eq!({name}.shape(), {shape});")
            }
        };
    }
    hidden += usize::from(text.contains("linspace")) + usize::from(text.contains("DType::"));
    Some(Example { hidden, text })
}

/// What an example says of a result.
#[derive(PartialEq)]
enum Shown {
    Item(&'static str, String),
    Vector(&'static str, String),
    Tensor(String, &'static str, String),
    Shape(String),
}

fn shown(t: &Tensor) -> Shown {
    let shape = t.shape();
    let shape_text = if shape.is_empty() { "[0; 0]".to_owned() } else { format!("{shape:?}") };
    let numbers = match t.dtype() {
        DType::F32 => numbers::<f32>("f32", t),
        DType::F64 => numbers::<f64>("f64", t),
        DType::I64 => numbers::<i64>("i64", t),
        DType::I32 => numbers::<i32>("i32", t),
        DType::U8 => numbers::<u8>("u8", t),
        DType::Bool => numbers::<bool>("bool", t),
        _ => None,
    };
    match (numbers, shape.len()) {
        (Some((ty, mut values)), 0) => Shown::Item(ty, values.swap_remove(0)),
        (Some((ty, values)), 1) => Shown::Vector(ty, format!("[{}]", values.join(", "))),
        (Some((ty, values)), _) => Shown::Tensor(shape_text, ty, format!("[{}]", values.join(", "))),
        (None, _) => Shown::Shape(shape_text),
    }
}
fn numbers<T: Element + std::fmt::Debug>(ty: &'static str, t: &Tensor) -> Option<(&'static str, Vec<String>)> {
    if t.numel() == 0 || t.numel() > SHOWN {
        return None;
    }
    let values: Vec<String> = t.to_vec::<T>().ok()?.iter().map(|v| format!("{v:?}")).collect();
    if values.iter().any(|v| v == "NaN") {
        return None;
    }
    let infinite = |v: String| match v.as_str() {
        "inf" => format!("{ty}::INFINITY"),
        "-inf" => format!("{ty}::NEG_INFINITY"),
        _ => v,
    };
    Some((ty, values.into_iter().map(infinite).collect()))
}

fn options(op: &Op, fields: &[String]) -> String {
    let name = format!("torch::options::{}", op.struct_name());
    match fields.len() {
        0 => format!("{name}::default()"),
        n if n == op.optional().count() => format!("{name} {{ {} }}", fields.join(", ")),
        _ => format!("{name} {{ {}, ..Default::default() }}", fields.join(", ")),
    }
}

/// The text of a parameter's default, as a sample would give it.
fn default_text(p: &Parameter) -> Option<&'static str> {
    match &p.default {
        Some(text) => Some(String::leak(text.clone())),
        None if p.ty.ends_with('?') => Some("none"),
        None => None,
    }
}

/// An option's value, as its field takes it.
fn field(p: &Parameter, text: &str, spelled: &str) -> Option<String> {
    let ty = field_type(&p.ty)?;
    if matches!(text, "none" | "None") {
        return Some("None".into());
    }
    let inner = ty.strip_prefix("Option<").and_then(|t| t.strip_suffix('>')).unwrap_or(ty);
    let value = match inner {
        "f64" => format!("{:?}", text.parse::<f64>().ok()?),
        "bool" => text.to_lowercase(),
        "Scalar" => match text.parse::<i64>() {
            Ok(n) => format!("torch::Scalar::Int({n})"),
            Err(_) => format!("torch::Scalar::Float({:?})", text.parse::<f64>().ok()?),
        },
        "Vec<i64>" if text.starts_with('[') => format!("vec!{text}"),
        "Vec<i64>" => format!("vec![{text}]"),
        _ => spelled.to_owned(),
    };
    Some(if inner == ty { value } else { format!("Some({value})") })
}

/// One argument of a sample's text.
fn spell(p: &Parameter, text: &'static str, at: usize) -> Option<Spelled> {
    if text.split_once('[').is_some_and(|(head, _)| DType::parse(head).is_some()) {
        let name = if p.name == "self" { "x" } else { &p.name };
        let (literal, tensor) = tensor(text, at)?;
        let line = Some(format!("let {name} = {literal};"));
        return Some(Spelled { line, text: name.to_owned(), value: tensor.into() });
    }
    let truth = |x: bool| Argument::Scalar(Scalar::Bool(x));
    let (text, value): (String, Argument) = match text {
        "none" | "None" => ("None".into(), Argument::None),
        "true" | "True" => ("true".into(), truth(true)),
        "false" | "False" => ("false".into(), truth(false)),
        t if t.starts_with('[') => {
            let parts = split_list(t.strip_prefix('[')?.strip_suffix(']')?);
            let numbers = parts.into_iter().map(|n| n.parse().ok()).collect::<Option<Vec<i64>>>()?;
            (format!("{numbers:?}"), Argument::Ints(numbers))
        }
        t if t.starts_with(['"', '\'']) => {
            let word = t.trim_matches(['"', '\'']);
            (format!("{word:?}"), Argument::Str(word))
        }
        t => match (DType::parse(t), t.parse::<i64>()) {
            (Some(d), _) => (format!("DType::{d:?}"), Argument::DType(d)),
            (None, Ok(i)) if p.ty.contains(|c: char| c.is_ascii_digit()) => (t.into(), Argument::Ints(vec![i])),
            (None, Ok(i)) if p.ty.starts_with("float") => {
                (format!("{:?}", i as f64), Argument::Scalar(Scalar::Float(i as f64)))
            }
            (None, Ok(i)) => (t.into(), Argument::Scalar(Scalar::Int(i))),
            (None, Err(_)) => {
                let x = t.parse::<f64>().ok().filter(|x| x.is_finite())?;
                (format!("{x:?}"), Argument::Scalar(Scalar::Float(x)))
            }
        },
    };
    Some(Spelled { line: None, text, value })
}

/// `f32[2,3] in -2..2` with plain numbers: a literal where they are few, else evenly spaced ones.
fn tensor(text: &str, at: usize) -> Option<(String, Tensor)> {
    let (dtype, rest) = text.split_once('[')?;
    let dtype = DType::parse(dtype)?;
    let (sizes, rest) = rest.split_once(']')?;
    let words = |t: &str, at: char| t.split(at).map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect();
    let sizes: Vec<String> = words(sizes, ',');
    let sizes = sizes.iter().map(|n| n.parse().ok()).collect::<Option<Vec<usize>>>()?;
    let count: usize = sizes.iter().product();
    if count == 0 || matches!(dtype, DType::C64 | DType::C128) {
        return None;
    }
    let given = rest.trim().strip_prefix('=').map(|t| -> Vec<String> { words(t, ' ') });
    let (low, high) = match rest.trim().strip_prefix("in ") {
        Some(interval) => {
            let (low, high) = interval.split_once("..")?;
            (low.trim().parse().ok()?, high.trim().parse().ok()?)
        }
        None if dtype.is_float() => (-2.0, 2.0),
        None => (0.0, 10.0),
    };
    if given.is_none() && dtype == DType::F32 && count > LITERAL {
        let literal = format!("torch::linspace({low:?}, {high:?}, {count}).reshape({sizes:?})");
        return Some((literal, linspace(low, high, count).reshape(sizes)));
    }
    if count > 4 * LITERAL {
        return None;
    }
    let numbers: Vec<Scalar> = match given {
        Some(words) => words.iter().map(|w| number(dtype, w)).collect::<Option<_>>()?,
        None => (0..count).map(|i| drawn(dtype, low, high, i, at, count)).collect(),
    };
    if numbers.len() != count || numbers.iter().any(|n| !n.to_f64().is_finite()) {
        return None;
    }
    let mut bytes = Vec::new();
    numbers.iter().for_each(|n| bytes.extend_from_slice(&u128::from(n.to_bits(dtype)).to_le_bytes()[..dtype.size()]));
    let tensor = from_bytes(dtype, sizes.clone(), &bytes).ok()?;
    let nested = nested(&numbers, &sizes);
    let plain = matches!(dtype, DType::F32 | DType::I64 | DType::Bool);
    Some((if plain { format!("tensor!({nested})") } else { format!("tensor!({nested}; DType::{dtype:?})") }, tensor))
}

fn number(dtype: DType, word: &str) -> Option<Scalar> {
    Some(match dtype {
        DType::Bool => Scalar::Bool(matches!(word, "true" | "1")),
        d if d.is_int() => Scalar::Int(word.parse().ok()?),
        _ => Scalar::Float(word.parse().ok()?),
    })
}

/// Numbers spread over the interval, different ones in different arguments, short to write.
fn drawn(dtype: DType, low: f64, high: f64, i: usize, at: usize, count: usize) -> Scalar {
    if dtype == DType::Bool {
        return Scalar::Bool((i + at) % 3 != 1);
    }
    if dtype.is_int() {
        let (low, width) = (low as i64, ((high - low) as i64).max(1));
        let step = if width % 3 == 0 { 1 } else { 3 };
        return Scalar::Int(low + (i as i64 * step + at as i64) % width);
    }
    let cells = if count > 8 { 16 } else { 8 };
    let part = (((i * 5 + 3 + 3 * at) % cells) as f64 + 0.5) / cells as f64;
    Scalar::Float(((low + (high - low) * part) * 1000.0).round() / 1000.0)
}

fn nested(numbers: &[Scalar], sizes: &[usize]) -> String {
    let Some((&first, rest)) = sizes.split_first() else {
        return match numbers.first() {
            Some(Scalar::Bool(b)) => b.to_string(),
            Some(Scalar::Int(i)) => i.to_string(),
            Some(Scalar::Float(x)) => format!("{x:?}"),
            None => String::new(),
        };
    };
    let parts: Vec<String> = numbers.chunks(numbers.len() / first).map(|part| nested(part, rest)).collect();
    format!("[{}]", parts.join(", "))
}
