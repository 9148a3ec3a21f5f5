//! Instructions as expressions of C++, and the functions that they call.
use crate::{Arith, Comparison, Extremum, Fold, Function, Id, Instr};
use rtx_core::DType;
use std::collections::BTreeSet;

const PRELUDE: &str = include_str!("prelude.cu");
const MATH: &str = include_str!("math.cu");

/// The text before every kernel: types, arithmetic, conversions, and the parts of the mathematics that are named.
pub fn prelude<'a>(functions: impl IntoIterator<Item = &'a str>) -> String {
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    let mut ask: Vec<&str> = functions.into_iter().collect();
    while let Some(name) = ask.pop() {
        if let Some((part, needs, _)) = parts().find(|(part, ..)| *part == name)
            && wanted.insert(part)
        {
            ask.extend(needs.split_whitespace());
        }
    }
    let mut out = PRELUDE.to_owned();
    // In the order of the file: needs come first.
    parts().filter(|(name, ..)| wanted.contains(name)).for_each(|(_, _, text)| out.push_str(text));
    out
}

/// The parts of the mathematics: name, what it needs, text.
fn parts() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    MATH.split("//# ").skip(1).map(|part| {
        let (head, text) = part.split_once('\n').unwrap_or((part, ""));
        let (name, needs) = head.split_once(':').unwrap_or((head, ""));
        (name.trim(), needs, text)
    })
}

/// The type of an element.
pub fn c_type(t: DType) -> &'static str {
    match t {
        // A byte, 0 or 1.
        DType::Bool | DType::U8 => "u8",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::U16 => "u16",
        DType::U32 => "u32",
        DType::U64 => "u64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::F8E4M3 => "e4m3",
        DType::F8E5M2 => "e5m2",
        DType::C64 => "c64",
        DType::C128 => "c128",
    }
}

/// A number by its bits.
pub(super) fn number(t: DType, bits: u64) -> String {
    match t {
        DType::C128 => format!("c128{{__longlong_as_double(0x{bits:x}ll), 0.}}"),
        _ => format!("From<{}>::raw(0x{bits:x}ull)", c_type(t)),
    }
}

/// The name of a function in the mathematics, if it is there and not built in.
pub(super) fn function_name(f: Function, t: DType) -> Option<String> {
    use Function::*;
    let name = match f {
        Exp => "exp",
        Expm1 => "expm1",
        Log => "log",
        Log1p => "log1p",
        Sin => "sin",
        Cos => "cos",
        Tanh => "tanh",
        Erf => "erf",
        Erfc => "erfc",
        Lgamma => "lgamma",
        Digamma => "digamma",
        Neg | Abs | Sign | Floor | Ceil | Trunc | RoundEven | Sqrt | Not | Real | Imag => return None,
    };
    Some(format!("{name}_{}", c_type(t)))
}
/// As [`function_name`].
pub(super) fn arith_name(f: Arith, t: DType) -> Option<String> {
    match f {
        Arith::Pow if t.is_float() => Some(format!("pow_{}", c_type(t))),
        Arith::Atan2 => Some(format!("atan2_{}", c_type(t))),
        _ => None,
    }
}

fn unary(f: Function, t: DType, x: &str) -> String {
    use Function::*;
    let long = t == DType::F64;
    match f {
        Neg => format!("neg({x})"),
        Abs => format!("absolute({x})"),
        Sign => format!("sign({x})"),
        Floor => format!("{}({x})", if long { "floor" } else { "floorf" }),
        Ceil => format!("{}({x})", if long { "ceil" } else { "ceilf" }),
        Trunc => format!("{}({x})", if long { "trunc" } else { "truncf" }),
        RoundEven => format!("{}({x})", if long { "rint" } else { "rintf" }),
        Sqrt => format!("{}({x})", if long { "__dsqrt_rn" } else { "__fsqrt_rn" }),
        Not if t == DType::Bool => format!("(u8)({x} ^ 1)"),
        Not => format!("({})~{x}", c_type(t)),
        Real => format!("{x}.re"),
        Imag => format!("{x}.im"),
        Exp | Expm1 | Log | Log1p | Sin | Cos | Tanh | Erf | Erfc | Lgamma | Digamma => {
            format!("{}({x})", function_name(f, t).unwrap_or_default())
        }
    }
}

fn binary(f: Arith, t: DType, a: &str, b: &str) -> String {
    let c = c_type(t);
    let call = |name: &str| format!("{name}({a}, {b})");
    match f {
        Arith::Add => call("add"),
        Arith::Sub => call("sub"),
        Arith::Mul => call("mul"),
        Arith::Div => call("quotient"),
        Arith::Rem => call("modulo"),
        Arith::Pow if t.is_float() => call(&format!("pow_{c}")),
        Arith::Pow => call("power"),
        Arith::Atan2 => call(&format!("atan2_{c}")),
        Arith::Max => call("greatest"),
        Arith::Min => call("least"),
        Arith::And => format!("({c})({a} & {b})"),
        Arith::Or => format!("({c})({a} | {b})"),
        Arith::Xor => format!("({c})({a} ^ {b})"),
        Arith::Shl => call("shift_left"),
        Arith::Shr => call("shift_right"),
        Arith::Complex => format!("{}{{{a}, {b}}}", if t == DType::F64 { "c128" } else { "c64" }),
    }
}

fn cast(from: DType, to: DType, x: &str) -> String {
    let complex = |t: DType| matches!(t, DType::C64 | DType::C128);
    match (from, to) {
        (f, t) if f == t => x.into(),
        (f, DType::Bool) if complex(f) => format!("(u8)({x}.re != 0 || {x}.im != 0)"),
        (_, DType::Bool) => format!("(u8)(wide({x}) != 0)"),
        (DType::C64, DType::C128) => format!("c128{{(f64){x}.re, (f64){x}.im}}"),
        (DType::C128, DType::C64) => format!("c64{{(f32){x}.re, (f32){x}.im}}"),
        (_, t) => format!("To<{}>::of(wide({x}))", c_type(t)),
    }
}

fn compare(f: Comparison, a: &str, b: &str) -> String {
    let sign = match f {
        Comparison::Eq => "==",
        Comparison::Lt => "<",
        Comparison::Le => "<=",
    };
    format!("(u8)({a} {sign} {b})")
}

/// An instruction that is one expression: neither a load, a position nor a reduction.
pub(super) fn expression(
    instr: &Instr,
    types: &[DType],
    of: impl Fn(Id) -> String,
    size: impl Fn(crate::Size) -> String,
) -> Option<String> {
    let t = |a: &Id| types[a.index()];
    Some(match instr {
        Instr::Const { dtype, bits } => number(*dtype, *bits),
        Instr::Sized(s) => format!("(i64){}", size(*s)),
        Instr::Unary(f, a) => unary(*f, t(a), &of(*a)),
        Instr::Binary(f, a, b) => binary(*f, t(a), &of(*a), &of(*b)),
        Instr::Compare(f, a, b) => compare(*f, &of(*a), &of(*b)),
        Instr::Fma(a, b, c) => format!("fused({}, {}, {})", of(*a), of(*b), of(*c)),
        Instr::Select(c, a, b) => format!("{} ? {} : {}", of(*c), of(*a), of(*b)),
        Instr::Cast(to, a) => cast(t(a), *to, &of(*a)),
        Instr::Bitcast(to, a) => format!("From<{}>::raw(raw({}))", c_type(*to), of(*a)),
        Instr::Random { key, ordinal, index } => {
            format!("random_u32({}, {}, {})", of(*key), of(*ordinal), of(*index))
        }
        Instr::Load(_) | Instr::Iota(_) | Instr::Reduce(..) | Instr::ArgReduce(..) => return None,
    })
}

/// Two partial results of a fold as one.
pub(super) fn fold(f: Fold, t: DType, a: &str, b: &str) -> String {
    match (f, t) {
        (Fold::Max, DType::Bool) => format!("(u8)({a} | {b})"),
        (Fold::Min, DType::Bool) => format!("(u8)({a} & {b})"),
        (Fold::Sum, _) => format!("add({a}, {b})"),
        (Fold::Prod, _) => format!("mul({a}, {b})"),
        (Fold::Max, _) => format!("greatest({a}, {b})"),
        (Fold::Min, _) => format!("least({a}, {b})"),
    }
}

/// What changes nothing when it is folded in.
pub(super) fn identity(f: Fold, t: DType) -> String {
    let all = if t.size() == 8 { u64::MAX } else { (1 << (8 * t.size())) - 1 };
    let top = 1u64 << (8 * t.size() - 1);
    let signed = matches!(t, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    let bits = match (f, t) {
        (Fold::Sum, _) | (Fold::Max, DType::Bool) => 0,
        (Fold::Prod, DType::F32) => 1f32.to_bits() as u64,
        (Fold::Prod, DType::F64) => 1f64.to_bits(),
        (Fold::Prod, _) | (Fold::Min, DType::Bool) => 1,
        (Fold::Max, DType::F32) => f32::NEG_INFINITY.to_bits() as u64,
        (Fold::Max, DType::F64) => f64::NEG_INFINITY.to_bits(),
        (Fold::Min, DType::F32) => f32::INFINITY.to_bits() as u64,
        (Fold::Min, DType::F64) => f64::INFINITY.to_bits(),
        (Fold::Max, _) if signed => top,
        (Fold::Max, _) => 0,
        (Fold::Min, _) if signed => top - 1,
        (Fold::Min, _) => all,
    };
    number(t, bits)
}

/// Does candidate `b` take the place of `a`? Positions settle ties, so the order of candidates does not matter. A NaN
/// wins over numbers, the first of them over later ones.
pub(super) fn wins(f: Extremum, t: DType, (b, b_at): (&str, &str), (a, a_at): (&str, &str)) -> String {
    let sign = match f {
        Extremum::Max => ">",
        Extremum::Min => "<",
    };
    if matches!(t, DType::F32 | DType::F64) {
        let (an, bn) = (format!("({a} != {a})"), format!("({b} != {b})"));
        return format!(
            "({an} || {bn} ? {bn} && (!{an} || {b_at} < {a_at}) : {b} {sign} {a} || ({b} == {a} && {b_at} < {a_at}))"
        );
    }
    format!("({b} {sign} {a} || ({b} == {a} && {b_at} < {a_at}))")
}
