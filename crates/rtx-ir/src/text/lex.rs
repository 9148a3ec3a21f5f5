//! Words of the text form.
use rtx_core::{DType, Dim, Scalar, SymId};

/// The bits of a number in a dtype; `None` when it is none or does not fit.
pub(super) fn number_bits(dtype: DType, text: &str) -> Option<u64> {
    let size = 8 * dtype.size() as u32;
    if let Some(hex) = text.strip_prefix("0x") {
        let bits = u64::from_str_radix(hex, 16).ok()?;
        return (size >= 64 || bits >> size == 0).then_some(bits);
    }
    match dtype {
        DType::Bool => text.parse::<bool>().ok().map(u64::from),
        DType::F64 => text.parse::<f64>().ok().map(f64::to_bits),
        // Parsed as f32, so that no number is rounded twice.
        DType::F32 => text.parse::<f32>().ok().map(|x| x.to_bits().into()),
        DType::F16 | DType::BF16 => Some(Scalar::from(text.parse::<f32>().ok()?).to_bits(dtype)),
        DType::F8E4M3 | DType::F8E5M2 => Some(Scalar::from(text.parse::<f64>().ok()?).to_bits(dtype)),
        // A real number; others are written as their bits.
        DType::C64 => text.parse::<f32>().ok().map(|x| x.to_bits().into()),
        DType::C128 => text.parse::<f64>().ok().map(f64::to_bits),
        d if d.is_int() => {
            let i = text.parse::<i128>().ok()?;
            let bits = i as u64 & (u64::MAX >> (64 - size));
            (crate::oracle::Value::from_bits(d, bits).int() == i).then_some(bits)
        }
        _ => None,
    }
}

/// `3` or `s1<=64`.
pub(super) fn dim(text: &str) -> Option<Dim> {
    match text.strip_prefix('s') {
        Some(sym) => {
            let (id, max) = sym.split_once("<=")?;
            Some(Dim::Sym { id: SymId(id.parse().ok()?), max: max.parse().ok()? })
        }
        None => text.parse().ok().map(Dim::Const),
    }
}

/// The parts of `[a, b]`; none of `[]`.
pub(super) fn list(text: &str) -> Option<Vec<&str>> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?.trim();
    Some(if inside.is_empty() { Vec::new() } else { inside.split(',').map(str::trim).collect() })
}

/// Splits at commas outside brackets and quotes.
pub(super) fn split_top(text: &str) -> Vec<&str> {
    split_at(text, ',')
}

/// Splits at a sign outside brackets and quotes.
pub(super) fn split_at(text: &str, at: char) -> Vec<&str> {
    let (mut depth, mut quoted, mut escaped, mut from, mut out) = (0i32, false, false, 0, Vec::new());
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' | '(' | '{' if !quoted => depth += 1,
            ']' | ')' | '}' if !quoted => depth -= 1,
            c if c == at && !quoted && depth == 0 => {
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

/// A quoted word; only words without escapes are written.
pub(super) fn quoted(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    (!inside.contains(['"', '\\'])).then_some(inside)
}

/// A quoted sentence, escapes taken back.
pub(super) fn sentence(text: &str) -> Option<String> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut out = String::new();
    let mut rest = inside.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => return None,
            '\\' => out.push(escaped(&mut rest)?),
            c => out.push(c),
        }
    }
    Some(out)
}
/// What follows a backslash.
fn escaped(rest: &mut std::str::Chars<'_>) -> Option<char> {
    match rest.next()? {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'u' => {
            let (hex, after) = rest.as_str().strip_prefix('{')?.split_once('}')?;
            *rest = after.chars();
            char::from_u32(u32::from_str_radix(hex, 16).ok()?)
        }
        c @ ('\\' | '"' | '\'') => Some(c),
        _ => None,
    }
}
