//! The small text in which samples write their arguments (see [`rtx_ir::Sample::args`]).
use crate::Random;
use rtx_core::{DType, Location, Scalar};
use rtx_ir::oracle::{Tensor, Value};
use rtx_ir::{Arg, Bound, Graph, Parameter, Signature, Type, ValueId};

/// One argument, drawn.
#[derive(Clone, Debug)]
pub enum Drawn {
    /// A tensor.
    Tensor(Tensor),
    /// A list of tensors.
    Tensors(Vec<Tensor>),
    /// Anything else.
    Plain(Arg),
}

impl Drawn {
    /// The tensors in it.
    pub fn tensors(&self) -> &[Tensor] {
        match self {
            Drawn::Tensor(t) => std::slice::from_ref(t),
            Drawn::Tensors(v) => v,
            Drawn::Plain(_) => &[],
        }
    }
    /// The same with f64 in place of every float type, for finite differences.
    pub fn in_f64(self) -> Drawn {
        self.with_floats(DType::F64)
    }
    /// The same with `dtype` in place of every float type; for integers the numbers are rounded away from zero, and
    /// without a sign where there is none.
    pub fn with_floats(self, dtype: DType) -> Drawn {
        let whole = |x: f64| match dtype {
            DType::Bool => Value::Int(i128::from(x > 0.0)),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => Value::Int(x.abs().ceil() as i128),
            _ => Value::Int((x.signum() * x.abs().ceil()) as i128),
        };
        let wide = |t: Tensor| match t.ty.dtype.is_float() {
            true if dtype.is_float() => Tensor::new(Type::new(dtype, t.ty.shape), t.elements),
            true => Tensor::new(Type::new(dtype, t.ty.shape), t.elements.iter().map(|e| whole(e.float())).collect()),
            false => t,
        };
        match self {
            Drawn::Tensor(t) => Drawn::Tensor(wide(t)),
            Drawn::Tensors(v) => Drawn::Tensors(v.into_iter().map(wide).collect()),
            Drawn::Plain(Arg::DType(d)) if d.is_float() => Drawn::Plain(Arg::DType(dtype)),
            plain => plain,
        }
    }
}

/// Draws the arguments of a call; what the text leaves out has the signature's default.
///
/// # Errors
/// What in the text is no argument.
pub fn draw(sig: &'static str, text: &'static str, random: &mut Random) -> Result<Vec<Drawn>, String> {
    let sig = Signature::parse(sig).ok_or_else(|| format!("{sig:?} is no signature"))?;
    let parts = rtx_ir::split_list(text);
    if parts.len() > sig.parameters.len() {
        return Err(format!("{text:?}: {} arguments, {} takes {}", parts.len(), sig.name, sig.parameters.len()));
    }
    let mut out = Vec::new();
    for (i, p) in sig.parameters.iter().enumerate() {
        out.push(match parts.get(i) {
            Some(part) => argument(p, part, random).ok_or_else(|| format!("{part:?} is no {}", p.ty))?,
            None => default(p).ok_or_else(|| format!("{text:?}: {} is missing", p.name))?,
        });
    }
    Ok(out)
}

/// Tensors become inputs of the graph, in order.
pub fn record(graph: &mut Graph, drawn: &[Drawn]) -> (Bound, Vec<ValueId>) {
    record_with(graph, drawn, Type::clone)
}

/// The same, the inputs declared with other types.
pub fn record_with(graph: &mut Graph, drawn: &[Drawn], declare: impl Fn(&Type) -> Type) -> (Bound, Vec<ValueId>) {
    let mut inputs = Vec::new();
    let mut input = |t: &Tensor| {
        let v = graph.push_input(declare(&t.ty), Location::caller());
        inputs.push(v);
        v
    };
    let args = drawn.iter().map(|d| match d {
        Drawn::Tensor(t) => Arg::Value(input(t)),
        Drawn::Tensors(ts) => Arg::Values(ts.iter().map(&mut input).collect()),
        Drawn::Plain(a) => a.clone(),
    });
    let bound = Bound(args.collect());
    (bound, inputs)
}

fn default(p: &Parameter) -> Option<Drawn> {
    match p.default {
        Some(text) => plain(p, text).map(Drawn::Plain),
        None if p.is_optional() => Some(Drawn::Plain(Arg::None)),
        None => None,
    }
}

fn argument(p: &Parameter, text: &'static str, random: &mut Random) -> Option<Drawn> {
    if p.is_tensor() && p.ty.contains("[]") {
        let parts = rtx_ir::split_list(text.strip_prefix('[')?.strip_suffix(']')?);
        return parts.into_iter().map(|t| tensor(t, random)).collect::<Option<Vec<_>>>().map(Drawn::Tensors);
    }
    match tensor(text, random) {
        Some(t) => Some(Drawn::Tensor(t)),
        None => plain(p, text).map(Drawn::Plain),
    }
}

/// What is no tensor.
fn plain(p: &Parameter, text: &'static str) -> Option<Arg> {
    let truth = |x: bool| if p.ty.starts_with("bool") { Arg::Bool(x) } else { Arg::Scalar(Scalar::Bool(x)) };
    Some(match text {
        "none" | "None" => Arg::None,
        "true" | "True" => truth(true),
        "false" | "False" => truth(false),
        t if t.starts_with('[') => {
            let parts = rtx_ir::split_list(t.strip_prefix('[')?.strip_suffix(']')?);
            Arg::Ints(parts.into_iter().map(|n| n.parse().ok()).collect::<Option<_>>()?)
        }
        t if t.starts_with(['"', '\'']) => Arg::Str(t.trim_matches(['"', '\''])),
        t => match (DType::parse(t), t.parse::<i64>()) {
            (Some(d), _) => Arg::DType(d),
            // One number where a list of a known length is taken stands for the list, as in PyTorch.
            (None, Ok(i)) if p.ty.contains(|c: char| c.is_ascii_digit()) => Arg::Ints([i].into_iter().collect()),
            (None, Ok(i)) if p.ty.starts_with("float") => Arg::Scalar(Scalar::Float(i as f64)),
            (None, Ok(i)) => Arg::Scalar(Scalar::Int(i)),
            (None, Err(_)) => match t.parse::<f64>() {
                Ok(x) => Arg::Scalar(Scalar::Float(x)),
                Err(_) if p.ty.starts_with("str") => Arg::Str(t),
                Err(_) => return None,
            },
        },
    })
}

/// `f32[2,3] in -2..2`, `bool[2]`, `f32[3] = 1 -0 nan`.
fn tensor(text: &str, random: &mut Random) -> Option<Tensor> {
    let (dtype, rest) = text.split_once('[')?;
    let dtype = DType::parse(dtype)?;
    let (sizes, rest) = rest.split_once(']')?;
    let sizes = split_plain(sizes, ',').map(|n| n.parse().ok()).collect::<Option<Vec<usize>>>()?;
    let ty = Type::new(dtype, sizes.as_slice());
    let count = ty.shape.numel();
    let rest = rest.trim();
    if let Some(elements) = rest.strip_prefix('=') {
        let elements = split_plain(elements, ' ').map(|t| element(dtype, t)).collect::<Option<Vec<_>>>()?;
        return (elements.len() == count).then(|| Tensor::new(ty, elements));
    }
    let (low, high) = match rest.strip_prefix("in ") {
        Some(interval) => {
            let (low, high) = interval.split_once("..")?;
            (low.trim().parse().ok()?, high.trim().parse().ok()?)
        }
        None if rest.is_empty() => {
            if dtype.is_float() {
                (-2.0, 2.0)
            } else {
                (0.0, 10.0)
            }
        }
        None => return None,
    };
    let elements = (0..count).map(|_| match dtype {
        DType::Bool => Value::Bool(random.one_in(2)),
        d if d.is_int() => Value::Int(random.int(low as i64, high as i64).into()),
        _ => Value::Float(random.float(low, high)),
    });
    Some(Tensor::new(ty, elements.collect()))
}

fn element(dtype: DType, text: &str) -> Option<Value> {
    Some(match dtype {
        DType::Bool => Value::Bool(matches!(text, "true" | "1")),
        d if d.is_int() => Value::Int(text.parse().ok()?),
        _ => Value::Float(text.parse().ok()?),
    })
}

fn split_plain(text: &str, at: char) -> impl Iterator<Item = &str> {
    text.split(at).map(str::trim).filter(|t| !t.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_text() {
        let sig = "op(Tensor self, Tensor[] list, int[] dim, Scalar x=1, *, bool flag=False, str how='a') -> Tensor";
        let text = "f32[2,3] in 1..2, [i64[2] in 0..5, f32[2] = -0 nan], [0, -1], 0.5";
        let d = draw(sig, text, &mut Random::new(1)).expect("arguments");
        assert!(d[0].tensors()[0].elements.iter().all(|v| (1.0..2.0).contains(&v.float())));
        assert_eq!(d[1].tensors()[1].elements, [Value::Float(-0.0), Value::Float(f64::NAN)]);
        let plain: Vec<Arg> =
            d[2..].iter().filter_map(|d| if let Drawn::Plain(a) = d { Some(a.clone()) } else { None }).collect();
        assert_eq!(
            plain,
            [
                Arg::Ints([0, -1].into_iter().collect()),
                Arg::Scalar(Scalar::Float(0.5)),
                Arg::Bool(false),
                Arg::Str("a")
            ]
        );
        assert_eq!(draw(sig, "7", &mut Random::new(1)).err().as_deref(), Some("\"7\": list is missing"));
    }
}
