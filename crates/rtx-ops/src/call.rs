//! The dynamic entry: a name, positional and keyword arguments become a call, bound by the op's signature.
use crate::{aliases, bind as binding};
use rtx_core::{Error, Kind, Result};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs};

/// Records a call by name.
///
/// # Errors
/// [`Kind::Unsupported`] for a name that is not in the table, [`Kind::Argument`] for arguments that do not bind, and
/// whatever the op refuses.
pub fn call(b: &mut Builder<'_>, name: &str, args: &[Arg], kwargs: &[(&str, Arg)]) -> Result<Outs> {
    let (defs, swapped) = aliases::candidates(name);
    if defs.is_empty() {
        return Err(Error::new(Kind::Unsupported, format!("{name}: no such op")));
    }
    let sigs: Vec<&'static str> = defs.iter().map(|d| d.sig).collect();
    let mut args = args.to_vec();
    if swapped && args.len() > 1 {
        args.swap(0, 1);
    }
    let (i, bound) = binding::choose(&sigs, &args, kwargs, None)?;
    b.call(defs[i], bound)
}

/// Puts arguments in the order of the signature and fills in defaults.
///
/// # Errors
/// [`Kind::Argument`]: too many, unknown, given twice, missing.
pub fn bind(def: &'static OpDef, args: &[Arg], kwargs: &[(&str, Arg)]) -> Result<Bound> {
    binding::choose(&[def.sig], args, kwargs, None).map(|(_, bound)| bound)
}
