//! Binding: which argument of a call goes to which parameter of which overload.
use rtx_core::{DType, Error, IdMap, Kind, Result, Scalar};
use rtx_ir::{Arg, Bound, Parameter, Signature, ValueId, rules};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::{Mutex, OnceLock};

/// Reads the numbers of a tensor that stands where a number does: the only way in which a value decides a call.
pub type Read<'a> = &'a dyn Fn(ValueId) -> Result<Vec<Scalar>>;

/// How an argument meets its parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// Not at all.
    No,
    /// As Python lets it through: a number for a tensor, a tensor of one number for a number.
    Loose,
    /// It is of the parameter's type.
    Exact,
}

/// Keyword arguments that ask for what is so anyway, or for what is the plan's affair: where memory lies.
const WITHOUT_EFFECT: &[&str] = &["layout", "pin_memory", "memory_format", "non_blocking", "requires_grad", "out"];

/// Chooses among overloads, given by their signatures: the first whose parameters take the arguments as they are, else
/// the first that takes them by Python's conversions.
///
/// # Errors
/// [`Kind::Argument`]: too many, unknown, given twice, missing; where no overload fits, what the first one says.
pub fn choose(
    sigs: &[&'static str],
    args: &[Arg],
    kwargs: &[(&str, Arg)],
    read: Option<Read<'_>>,
) -> Result<(usize, Bound)> {
    let parsed = sigs.iter().map(|s| parsed(s)).collect::<Result<SmallVec<[_; 4]>>>()?;
    for wanted in [Fit::Exact, Fit::Loose] {
        for (i, signature) in parsed.iter().enumerate() {
            let reader = read.filter(|_| wanted == Fit::Loose);
            if let Ok((fit, bound)) = bind_fitting(signature, args, kwargs, reader)
                && fit >= wanted
            {
                return Ok((i, bound));
            }
        }
    }
    let Some(first) = parsed.first() else { return Err(Error::new(Kind::Internal, "a call of nothing")) };
    let mut refusal = None;
    for (i, signature) in parsed.iter().enumerate() {
        match bind_fitting(signature, args, kwargs, read) {
            // What does not fit is refused by the op, in its own words.
            Ok((_, bound)) if parsed.len() == 1 => return Ok((i, bound)),
            Ok(_) => {}
            Err(e) => refusal = refusal.or(Some(e)),
        }
    }
    Err(refusal
        .unwrap_or_else(|| rules::refuse(first.signature.name, Kind::Argument, "no overload takes these arguments")))
}

/// A signature, and what its parameters are when left out.
struct Parsed {
    signature: Signature,
    defaults: Vec<Option<Arg>>,
}

thread_local! {
    /// The signatures that this thread has bound calls to, by address and length: they are parts of the table.
    static PARSED: RefCell<IdMap<(usize, usize), Rc<Parsed>>> = RefCell::default();
}

/// Signatures are taken apart once a thread, without a lock.
fn parsed(sig: &'static str) -> Result<Rc<Parsed>> {
    PARSED.with_borrow_mut(|known| {
        let place = (sig.as_ptr() as usize, sig.len());
        if let Some(found) = known.get(&place) {
            return Ok(found.clone());
        }
        let parsed = Rc::new(parse(sig)?);
        known.insert(place, parsed.clone());
        Ok(parsed)
    })
}

fn parse(sig: &'static str) -> Result<Parsed> {
    let signature =
        Signature::parse(sig).ok_or_else(|| Error::new(Kind::Internal, format!("`{sig}` is no signature")))?;
    let defaults = signature.parameters.iter().map(|p| Some(default_value(p.ty, p.default?))).collect();
    Ok(Parsed { signature, defaults })
}

/// Arguments in the order of one signature, defaults filled in, and how well they fit at worst.
fn bind_fitting(
    Parsed { signature, defaults }: &Parsed,
    args: &[Arg],
    kwargs: &[(&str, Arg)],
    read: Option<Read<'_>>,
) -> Result<(Fit, Bound)> {
    let refuse = |what: String| rules::refuse(signature.name, Kind::Argument, what);
    let params = &signature.parameters;
    let positional = params.iter().filter(|p| !p.keyword_only).count();
    let args = gather(&params[..positional], args);
    if args.len() > positional {
        return Err(refuse(format!("takes at most {positional} positional arguments, got {}", args.len())));
    }
    let mut given: SmallVec<[Option<&Arg>; 8]> = params.iter().map(|_| None).collect();
    for (slot, arg) in given.iter_mut().zip(&args) {
        *slot = Some(arg);
    }
    for (name, arg) in kwargs {
        let Some(i) = place_of(params, name) else {
            if is_without_effect(name, arg)? {
                continue;
            }
            return Err(refuse(format!("no argument `{name}`")));
        };
        if given[i].replace(arg).is_some() {
            return Err(refuse(format!("argument `{name}` is given twice")));
        }
    }
    let mut worst = Fit::Exact;
    let mut bound = SmallVec::new();
    for ((p, arg), default) in params.iter().zip(given).zip(defaults) {
        let arg = match (arg, default) {
            (Some(arg), _) => {
                let (fit, arg) = fit(p, arg, read)?;
                worst = worst.min(fit);
                arg
            }
            (None, Some(default)) => default.clone(),
            (None, None) => return Err(refuse(format!("argument `{}` is missing", p.name))),
        };
        bound.push(arg);
    }
    Ok((worst, Bound(bound)))
}

/// The parameter of this name, under NumPy's name too.
fn place_of(params: &[Parameter], name: &str) -> Option<usize> {
    let place = |n: &str| params.iter().position(|p| p.name == n);
    place(name).or_else(|| match name {
        "input" => place("self").filter(|i| *i == 0),
        "axis" => place("dim"),
        "keepdims" => place("keepdim"),
        _ => None,
    })
}

/// May this keyword argument be passed over?
fn is_without_effect(name: &str, arg: &Arg) -> Result<bool> {
    if name == "device" {
        return match arg {
            Arg::None | Arg::Str("cpu") => Ok(true),
            other => Err(Error::new(Kind::Unsupported, format!("device {other:?} is not chosen by a call"))),
        };
    }
    let asks = matches!(arg, Arg::Bool(true) | Arg::Scalar(Scalar::Bool(true)) | Arg::Value(_));
    Ok(WITHOUT_EFFECT.contains(&name) && !(asks && matches!(name, "requires_grad" | "out")))
}

/// `x.permute(2, 0, 1)`: what is left for the last parameter becomes a list where it takes one.
fn gather(params: &[Parameter], args: &[Arg]) -> Vec<Arg> {
    let Some(last) = params.len().checked_sub(1) else { return args.to_vec() };
    let rest = args.get(last..).unwrap_or_default();
    let is_list = Type::of(params[last].ty).list;
    let single = |a: &Arg| matches!(a, Arg::Value(_) | Arg::Scalar(_));
    let gathers = is_list && rest.iter().all(single) && (rest.len() > 1 || matches!(rest, [Arg::Value(_)]));
    if !gathers {
        return args.to_vec();
    }
    let mut out = args[..last].to_vec();
    // One tensor where integers are listed holds them itself.
    if rest.len() == 1 && !params[last].ty.starts_with("Tensor") {
        out.push(rest[0].clone());
    } else {
        out.push(Arg::List(rest.to_vec()));
    }
    out
}

/// A type of a signature, taken apart.
struct Type<'a> {
    /// `Tensor`, `int`, `float`.
    base: &'a str,
    /// May elements be left out: `Tensor?[]`?
    optional_elements: bool,
    list: bool,
    /// `int[2]`: one number stands for all.
    sized: bool,
    optional: bool,
}

impl<'a> Type<'a> {
    fn of(ty: &'a str) -> Self {
        let base = ty.split(['(', '[', '?']).next().unwrap_or(ty);
        let (elements, list) = match ty.find('[') {
            Some(at) => (&ty[..at], Some(&ty[at..])),
            None => ("", None),
        };
        Type {
            base: if base == "SymInt" { "int" } else { base },
            optional_elements: elements.ends_with('?'),
            list: list.is_some(),
            sized: list.is_some_and(|l| l.contains(|c: char| c.is_ascii_digit())),
            optional: ty.ends_with('?'),
        }
    }
}

/// An argument as its parameter takes it. What does not fit stays as it is.
fn fit(p: &Parameter, arg: &Arg, read: Option<Read<'_>>) -> Result<(Fit, Arg)> {
    let ty = Type::of(p.ty);
    match arg {
        Arg::None if ty.optional || p.default == Some("None") => Ok((Fit::Exact, Arg::None)),
        Arg::None => Ok((if p.default.is_some() { Fit::Loose } else { Fit::No }, Arg::None)),
        // torch.nn.functional takes the word, its operators the number that stands for it.
        Arg::Str(_) if p.name == "reduction" => Ok((Fit::Exact, arg.clone())),
        _ if ty.list => fit_list(&ty, arg, read),
        _ => fit_one(ty.base, arg, read),
    }
}

fn fit_one(base: &str, arg: &Arg, read: Option<Read<'_>>) -> Result<(Fit, Arg)> {
    let keep = |fit| Ok((fit, arg.clone()));
    match (base, arg) {
        // What Python takes in more than one form: an order of a norm, dims in two lists.
        ("Any", _) => keep(Fit::Exact),
        ("Tensor", Arg::Value(_)) => keep(Fit::Exact),
        ("Tensor", Arg::Scalar(_)) => keep(Fit::Loose),
        ("Tensor", Arg::Bool(x)) => Ok((Fit::Loose, Arg::Scalar(Scalar::Bool(*x)))),
        ("int", Arg::Scalar(Scalar::Int(_))) => keep(Fit::Exact),
        ("int", Arg::Scalar(Scalar::Bool(x)) | Arg::Bool(x)) => {
            Ok((Fit::Loose, Arg::Scalar(Scalar::Int(i64::from(*x)))))
        }
        ("int", Arg::Dims(d)) if d.len() == 1 => keep(Fit::Exact),
        ("float", Arg::Scalar(Scalar::Int(_) | Scalar::Float(_))) => keep(Fit::Exact),
        ("Scalar", Arg::Scalar(_)) => keep(Fit::Exact),
        ("float" | "Scalar", Arg::Bool(x)) => Ok((Fit::Exact, Arg::Scalar(Scalar::Bool(*x)))),
        ("bool", Arg::Bool(_)) => keep(Fit::Exact),
        ("bool", Arg::Scalar(Scalar::Bool(x))) => Ok((Fit::Exact, Arg::Bool(*x))),
        ("bool", Arg::Scalar(Scalar::Int(n))) => Ok((Fit::Loose, Arg::Bool(*n != 0))),
        ("ScalarType", Arg::DType(_)) | ("str", Arg::Str(_)) => keep(Fit::Exact),
        ("Layout" | "Device" | "MemoryFormat" | "Generator", Arg::Str(_)) => keep(Fit::Exact),
        ("int" | "float" | "Scalar" | "bool", Arg::Value(v)) => match read {
            None => keep(Fit::No),
            Some(read) => match read(*v)?.as_slice() {
                [one] => fit_one(base, &Arg::Scalar(*one), None).map(|(fit, a)| (fit.min(Fit::Loose), a)),
                _ => keep(Fit::No),
            },
        },
        _ => keep(Fit::No),
    }
}

fn fit_list(ty: &Type<'_>, arg: &Arg, read: Option<Read<'_>>) -> Result<(Fit, Arg)> {
    let elements: Vec<Arg> = match arg {
        Arg::Dims(_) if ty.base == "int" => return Ok((Fit::Exact, arg.clone())),
        Arg::Ints(v) => v.iter().map(|&n| Arg::Scalar(Scalar::Int(n))).collect(),
        Arg::Values(v) => v.iter().map(|&v| Arg::Value(v)).collect(),
        Arg::List(v) => v.clone(),
        Arg::Value(v) if ty.base != "Tensor" => match read {
            None => return Ok((Fit::No, arg.clone())),
            Some(read) => {
                let numbers = read(*v)?.into_iter().map(Arg::Scalar).collect();
                return fit_list(ty, &Arg::List(numbers), None).map(|(fit, a)| (fit.min(Fit::Loose), a));
            }
        },
        // Whether one integer or a list was given matters to some ops: `split`.
        Arg::Scalar(Scalar::Int(_)) if !ty.sized => return Ok((Fit::Loose, arg.clone())),
        one => {
            let (fit, one) = fit_one(ty.base, one, read)?;
            let fit = if ty.sized { fit } else { fit.min(Fit::Loose) };
            return Ok((fit, if fit == Fit::No { arg.clone() } else { joined(ty, vec![one]) }));
        }
    };
    let mut worst = Fit::Exact;
    let mut out = Vec::with_capacity(elements.len());
    for e in &elements {
        let (fit, e) = match e {
            Arg::None => (if ty.optional_elements { Fit::Exact } else { Fit::No }, Arg::None),
            e => fit_one(ty.base, e, read)?,
        };
        worst = worst.min(fit);
        out.push(e);
    }
    if worst == Fit::No {
        return Ok((Fit::No, arg.clone()));
    }
    Ok((worst, joined(ty, out)))
}

/// A list in the form that ops read it in.
fn joined(ty: &Type<'_>, elements: Vec<Arg>) -> Arg {
    let int = |a: &Arg| if let Arg::Scalar(Scalar::Int(n)) = a { Some(*n) } else { None };
    let value = |a: &Arg| if let Arg::Value(v) = a { Some(*v) } else { None };
    match ty.base {
        "int" => elements.iter().map(int).collect::<Option<_>>().map_or(Arg::List(elements), Arg::Ints),
        "Tensor" if !ty.optional_elements => {
            elements.iter().map(value).collect::<Option<_>>().map_or(Arg::List(elements), Arg::Values)
        }
        _ => Arg::List(elements),
    }
}

/// A default as it stands in a signature.
fn default_value(ty: &str, text: &'static str) -> Arg {
    let text = text.trim();
    if let Some(list) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return Arg::Ints(list.split(',').filter_map(|n| n.trim().parse().ok()).collect());
    }
    match text {
        "None" => Arg::None,
        "True" => Arg::Bool(true),
        "False" => Arg::Bool(false),
        _ => match (text.parse::<i64>(), text.parse::<f64>(), DType::parse(text)) {
            // `int[2] stride=1`: one number stands for all.
            (Ok(n), ..) if Type::of(ty).list => Arg::Ints([n].into_iter().collect()),
            (Ok(n), ..) => Arg::Scalar(Scalar::Int(n)),
            (_, Ok(x), _) => Arg::Scalar(Scalar::Float(x)),
            (_, _, Some(d)) if ty.starts_with("ScalarType") => Arg::DType(d),
            _ => Arg::Str(text.trim_matches(['"', '\''])),
        },
    }
}

/// A word that lives as long as the program: words of calls are few (modes, equations), and each is kept once.
pub fn intern(word: &str) -> &'static str {
    static WORDS: OnceLock<Mutex<HashSet<&'static str>>> = OnceLock::new();
    let words = WORDS.get_or_init(Default::default);
    let mut words = words.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    match words.get(word) {
        Some(w) => w,
        None => {
            let kept: &'static str = Box::leak(word.to_owned().into_boxed_str());
            words.insert(kept);
            kept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTS: &str = "view(Tensor self, SymInt[] size) -> Tensor";
    const TYPE: &str = "view.dtype(Tensor self, ScalarType dtype) -> Tensor";
    const WINDOW: &str =
        "pool(Tensor self, int[2] kernel, int[2] stride=1, float[]? scale=None, *, bool ceil=False) -> Tensor";
    const PICK: &str = "index(Tensor self, Tensor?[] indices) -> Tensor";

    fn int(n: i64) -> Arg {
        Arg::Scalar(Scalar::Int(n))
    }
    fn ints(v: &[i64]) -> Arg {
        Arg::Ints(v.into())
    }
    fn of(sigs: &[&'static str], args: &[Arg], kwargs: &[(&str, Arg)]) -> Result<(usize, Vec<Arg>)> {
        let read: Read<'_> = &|v| Ok(vec![Scalar::Int(v.index() as i64)]);
        choose(sigs, args, kwargs, Some(read)).map(|(i, b)| (i, b.0.to_vec()))
    }

    #[test]
    fn overloads_are_chosen_by_type() {
        let x = Arg::Value(ValueId(7));
        let sigs = [INTS, TYPE];
        assert_eq!(
            of(&sigs, &[x.clone(), int(2), int(3)], &[]).expect("gathered"),
            (0, vec![x.clone(), ints(&[2, 3])])
        );
        let as_f64 = Arg::DType(DType::F64);
        assert_eq!(of(&sigs, &[x.clone(), as_f64.clone()], &[]).expect("dtype"), (1, vec![x.clone(), as_f64]));
        let read = of(&sigs, std::slice::from_ref(&x), &[("size", x.clone())]).expect("read");
        assert_eq!(read, (0, vec![x.clone(), ints(&[7])]), "a tensor of integers is read");
        let none = of(&sigs, &[x.clone(), Arg::Str("f")], &[]).expect_err("neither");
        assert_eq!(none.message(), "view: no overload takes these arguments");
    }

    #[test]
    fn lists_take_the_form_of_their_type() {
        let x = Arg::Value(ValueId(7));
        let scale = Arg::List(vec![Arg::Scalar(Scalar::Float(0.5)), int(2)]);
        let kwargs =
            [("scale", scale.clone()), ("layout", Arg::Str("strided")), ("ceil", Arg::Scalar(Scalar::Bool(true)))];
        let (_, bound) = of(&[WINDOW], &[x.clone(), int(3)], &kwargs).expect("binds");
        assert_eq!(bound, [x.clone(), ints(&[3]), ints(&[1]), scale, Arg::Bool(true)]);
        let some = Arg::List(vec![Arg::None, x.clone()]);
        assert_eq!(of(&[PICK], &[x.clone(), some.clone()], &[]).expect("optional"), (0, vec![x.clone(), some]));
        let e = of(&[WINDOW], &[x.clone(), int(3)], &[("stride", int(1)), ("stride", int(2))]).expect_err("twice");
        assert_eq!(e.message(), "pool: argument `stride` is given twice");
        assert_eq!(of(&[WINDOW], &[], &[("axes", x)]).expect_err("unknown").message(), "pool: no argument `axes`");
    }
}
