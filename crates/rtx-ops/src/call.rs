//! The dynamic entry: a name, positional and keyword arguments become a call, bound by the op's signature.
use rtx_core::{Error, Kind, Result, Scalar};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs, Signature, rules};
use smallvec::SmallVec;

/// Records a call by name.
///
/// # Errors
/// [`Kind::Unsupported`] for a name that is not in the table, [`Kind::Argument`] for arguments that do not bind, and
/// whatever the op refuses.
pub fn call(b: &mut Builder<'_>, name: &str, args: &[Arg], kwargs: &[(&str, Arg)]) -> Result<Outs> {
    let Some(def) = crate::find(name) else {
        return Err(Error::new(Kind::Unsupported, format!("{name}: no such op")));
    };
    let bound = bind(def, args, kwargs)?;
    b.call(def, bound)
}

/// Puts arguments in the order of the signature and fills in defaults.
///
/// # Errors
/// [`Kind::Argument`]: too many, unknown, given twice, missing.
pub fn bind(def: &'static OpDef, args: &[Arg], kwargs: &[(&str, Arg)]) -> Result<Bound> {
    let refuse = |what: String| rules::refuse(def.name(), Kind::Argument, what);
    let signature = Signature::parse(def.sig).ok_or_else(|| refuse(format!("`{}` is no signature", def.sig)))?;
    let params = signature.parameters;
    let positional = params.iter().filter(|p| !p.keyword_only).count();
    if args.len() > positional {
        return Err(refuse(format!("takes at most {positional} positional arguments, got {}", args.len())));
    }
    let mut bound: SmallVec<[Arg; 4]> = params.iter().map(|_| Arg::None).collect();
    let mut given = vec![false; params.len()];
    for (i, arg) in args.iter().enumerate() {
        bound[i] = arg.clone();
        given[i] = true;
    }
    for (name, arg) in kwargs {
        let Some(i) = params.iter().position(|p| p.name == *name) else {
            return Err(refuse(format!("no argument `{name}`")));
        };
        if std::mem::replace(&mut given[i], true) {
            return Err(refuse(format!("argument `{name}` is given twice")));
        }
        bound[i] = arg.clone();
    }
    for (i, p) in params.iter().enumerate().filter(|(i, _)| !given[*i]) {
        bound[i] = match p.default {
            Some(text) => default_value(text),
            None => return Err(refuse(format!("argument `{}` is missing", p.name))),
        };
    }
    Ok(Bound(bound))
}

/// A default as it stands in a signature.
fn default_value(text: &'static str) -> Arg {
    let text = text.trim();
    if let Some(list) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return Arg::Ints(list.split(',').filter_map(|n| n.trim().parse().ok()).collect());
    }
    match text {
        "None" => Arg::None,
        "True" => Arg::Bool(true),
        "False" => Arg::Bool(false),
        _ => {
            if let Ok(n) = text.parse::<i64>() {
                return Arg::Scalar(Scalar::Int(n));
            }
            match text.parse::<f64>() {
                Ok(x) => Arg::Scalar(Scalar::Float(x)),
                Err(_) => Arg::Str(text.trim_matches('"')),
            }
        }
    }
}
