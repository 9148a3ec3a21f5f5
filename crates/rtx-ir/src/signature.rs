//! PyTorch's schema strings, taken apart.

/// A signature: `softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// `softmax`.
    pub name: &'static str,
    /// `int`; empty when there is none.
    pub overload: &'static str,
    /// What the call takes, in order.
    pub parameters: Vec<Parameter>,
    /// Types of the results: `Tensor`, or several.
    pub returns: Vec<&'static str>,
}

/// One parameter of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// `Tensor`, `int[]`, `ScalarType?`.
    pub ty: &'static str,
    /// `self`, `dim`.
    pub name: &'static str,
    /// What it is when left out: `None`, `1`.
    pub default: Option<&'static str>,
    /// Does it stand after the `*`?
    pub keyword_only: bool,
}

impl Parameter {
    /// May it be left out or `None`?
    pub fn is_optional(&self) -> bool {
        self.default.is_some() || self.ty.ends_with('?')
    }
    /// Is it a tensor or a list of tensors?
    pub fn is_tensor(&self) -> bool {
        self.ty.starts_with("Tensor")
    }
}

impl Signature {
    /// Takes a schema string apart; `None` when it is none.
    pub fn parse(text: &'static str) -> Option<Signature> {
        let (head, rest) = text.split_once('(')?;
        let (inside, returns) = rest.rsplit_once(") -> ").or_else(|| rest.rsplit_once(") ->"))?;
        let (name, overload) = head.split_once('.').unwrap_or((head, ""));
        let mut keyword_only = false;
        let mut parameters = Vec::new();
        for part in split_list(inside) {
            match part {
                "*" => keyword_only = true,
                part => parameters.push(parameter(part, keyword_only)?),
            }
        }
        let returns = returns.trim();
        let several = returns.strip_prefix('(').and_then(|r| r.strip_suffix(')'));
        let returns = split_list(several.unwrap_or(returns)).into_iter().map(|r| r.split(' ').next().unwrap_or(r));
        is_word(name).then_some(Signature { name, overload, parameters, returns: returns.collect() })
    }
}

/// `ScalarType? dtype=None`.
fn parameter(part: &'static str, keyword_only: bool) -> Option<Parameter> {
    let (typed, default) = part.split_once('=').map_or((part, None), |(t, d)| (t, Some(d.trim())));
    let (ty, name) = typed.trim().rsplit_once(' ')?;
    is_word(name).then_some(Parameter { ty: ty.trim(), name, default, keyword_only })
}

fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

/// The parts of a list as signatures and samples write it: split at commas outside brackets and quotes; nothing has no parts.
pub fn split_list(text: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut from, mut out) = (0i32, false, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            ',' if depth == 0 && !quoted => {
                out.push(text[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    out.push(text[from..].trim());
    out.retain(|p| !p.is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let s = Signature::parse("softmax.int(Tensor self, int[2] dim=[0, 1], *, ScalarType? dtype=None) -> Tensor");
        let s = s.expect("a schema");
        assert_eq!((s.name, s.overload, s.returns.as_slice()), ("softmax", "int", &["Tensor"][..]));
        let names: Vec<_> = s.parameters.iter().map(|p| (p.ty, p.name, p.default, p.keyword_only)).collect();
        assert_eq!(
            names,
            [
                ("Tensor", "self", None, false),
                ("int[2]", "dim", Some("[0, 1]"), false),
                ("ScalarType?", "dtype", Some("None"), true)
            ]
        );
        let two = Signature::parse("max.dim(Tensor self, int dim) -> (Tensor values, Tensor indices)").expect("two");
        assert_eq!(two.returns, ["Tensor", "Tensor"]);
        assert_eq!(Signature::parse("f() -> ()").map(|s| s.returns.len()), Some(0));
        assert_eq!(Signature::parse("no schema"), None);
    }
}
