//! How users' calls become nodes: reading arguments, promotion, broadcasting, and refusals in the user's words.
use crate::{Arg, Bound, Builder, OpDef, Outs, ValueId, rules};
use rtx_core::{Class, DType, Dim, Error, Kind, Result, Scalar, Shape};
use smallvec::{SmallVec, smallvec};
use std::borrow::Cow;

/// What a pointwise op does to the dtype in which its operands meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotion {
    /// Nothing: PyTorch's promotion as it is.
    Meet,
    /// Bool and integers become f32.
    Float,
}

/// Operands of a pointwise call in the dtype and shape they meet in.
pub struct Met {
    /// The operands, equal in type.
    pub values: SmallVec<[ValueId; 4]>,
    /// In which dtype the op computes: wider than `result` where a number stands beside f16 or bf16 (contract S3).
    pub compute: DType,
    /// To which dtype the result is rounded.
    pub result: DType,
}

/// Promotes and broadcasts tensors and numbers. Numbers become run-time numbers.
///
/// # Errors
/// Where there is no tensor, an argument is neither, or shapes do not broadcast.
pub fn meet(b: &mut Builder<'_>, def: &OpDef, args: &[Arg], promotion: Promotion) -> Result<Met> {
    let result = meeting_dtype(b, def, args, promotion)?;
    let numbers = args.iter().any(|a| matches!(a, Arg::Scalar(_)));
    let compute = if numbers { rules::number_dtype(result) } else { result };
    let values = meet_in(b, def, args, compute)?;
    Ok(Met { values, compute, result })
}

/// The dtype in which tensors and numbers meet.
///
/// # Errors
/// Where there is no tensor.
pub fn meeting_dtype(b: &Builder<'_>, def: &OpDef, args: &[Arg], promotion: Promotion) -> Result<DType> {
    let met = rules::promote(b, args)
        .ok_or_else(|| rules::refuse(def.name(), Kind::Argument, "needs at least one tensor, got only numbers"))?;
    Ok(if promotion == Promotion::Float && met.class() < Class::Float { DType::F32 } else { met })
}

/// Tensors and numbers in a given dtype and the shape they meet in.
///
/// # Errors
/// Where an argument is neither tensor nor number, or shapes do not broadcast.
pub fn meet_in(b: &mut Builder<'_>, def: &OpDef, args: &[Arg], dtype: DType) -> Result<SmallVec<[ValueId; 4]>> {
    if let Some(met) = already_met(b, args, dtype) {
        return Ok(met);
    }
    let shape = {
        let shapes: SmallVec<[&Shape; 4]> =
            args.iter().filter_map(|a| if let Arg::Value(v) = a { Some(&b.ty(*v).shape) } else { None }).collect();
        rules::broadcast_for(def.name(), &shapes)?
    };
    let place = |(i, a): (usize, &Arg)| {
        let v = match a {
            Arg::Value(v) => b.cast(*v, dtype)?,
            Arg::Scalar(s) => b.param(dtype, *s)?,
            other => return Err(wrong(def, i, "a tensor or a number", other)),
        };
        b.expand(v, &shape)
    };
    args.iter().enumerate().map(place).collect()
}

/// Tensors of one type need nothing: the common case, decided without a copy.
fn already_met(b: &Builder<'_>, args: &[Arg], dtype: DType) -> Option<SmallVec<[ValueId; 4]>> {
    let mut met = SmallVec::new();
    for a in args {
        let Arg::Value(v) = a else { return None };
        let ty = b.ty(*v);
        if ty.dtype != dtype || met.first().is_some_and(|&first| b.ty(first).shape != ty.shape) {
            return None;
        }
        met.push(*v);
    }
    Some(met)
}

/// A pointwise call: operands meet, `emit` records the primitive, the result is rounded.
///
/// # Errors
/// Those of [`meet`] and `emit`.
pub fn pointwise(
    b: &mut Builder<'_>,
    def: &OpDef,
    args: &[Arg],
    promotion: Promotion,
    emit: impl FnOnce(&mut Builder<'_>, &Met) -> Result<ValueId>,
) -> Result<Outs> {
    let met = meet(b, def, args, promotion)?;
    let y = emit(b, &met)?;
    // A result that is no float (a comparison's) is not rounded.
    let y = if b.dtype(y) == met.compute { b.cast(y, met.result)? } else { y };
    Ok(smallvec![y])
}

/// The arguments from `0` to `n`, [`Arg::None`] where the call left some out.
pub fn first<const N: usize>(a: &Bound) -> Cow<'_, [Arg]> {
    match a.0.get(..N) {
        Some(all) => all.into(),
        None => (0..N).map(|i| a.get(i).clone()).collect(),
    }
}

/// Argument `i` as a tensor.
///
/// # Errors
/// When it is something else.
pub fn tensor(def: &OpDef, a: &Bound, i: usize) -> Result<ValueId> {
    if let Arg::Value(v) = a.get(i) { Ok(*v) } else { Err(wrong(def, i, "a tensor", a.get(i))) }
}

/// Argument `i` as tensors.
///
/// # Errors
/// When it is something else.
pub fn tensors<'a>(def: &OpDef, a: &'a Bound, i: usize) -> Result<&'a [ValueId]> {
    if let Arg::Values(v) = a.get(i) { Ok(v) } else { Err(wrong(def, i, "a list of tensors", a.get(i))) }
}

/// Argument `i` as a tensor, a number becoming a run-time number of `dtype`.
///
/// # Errors
/// When it is something else.
pub fn tensor_or_number(b: &mut Builder<'_>, def: &OpDef, a: &Bound, i: usize, dtype: DType) -> Result<ValueId> {
    match a.get(i) {
        Arg::Value(v) => Ok(*v),
        Arg::Scalar(s) => b.param(dtype, *s),
        other => Err(wrong(def, i, "a tensor or a number", other)),
    }
}

/// Argument `i` as an integer.
///
/// # Errors
/// When it is something else.
pub fn int(def: &OpDef, a: &Bound, i: usize) -> Result<i64> {
    match a.get(i) {
        Arg::Scalar(Scalar::Int(n)) => Ok(*n),
        other => Err(wrong(def, i, "an integer", other)),
    }
}

/// Argument `i` as a number.
///
/// # Errors
/// When it is something else.
pub fn number(def: &OpDef, a: &Bound, i: usize) -> Result<Scalar> {
    match a.get(i) {
        Arg::Scalar(s) => Ok(*s),
        Arg::Bool(x) => Ok(Scalar::Bool(*x)),
        other => Err(wrong(def, i, "a number", other)),
    }
}

/// Argument `i` as integers.
///
/// # Errors
/// When it is something else.
pub fn ints<'a>(def: &OpDef, a: &'a Bound, i: usize) -> Result<&'a [i64]> {
    if let Arg::Ints(v) = a.get(i) { Ok(v) } else { Err(wrong(def, i, "a list of integers", a.get(i))) }
}

/// Argument `i` as a dim of tensor `x`, counted from the end when negative.
///
/// # Errors
/// When it is something else or outside.
pub fn dim(b: &Builder<'_>, def: &OpDef, a: &Bound, i: usize, x: ValueId) -> Result<usize> {
    rules::check_dim(def.name(), int(def, a, i)?, b.rank(x))
}

/// Argument `i` as different dims of tensor `x`, ascending.
///
/// # Errors
/// When it is something else, outside, or names a dim twice.
pub fn dims(b: &Builder<'_>, def: &OpDef, a: &Bound, i: usize, x: ValueId) -> Result<SmallVec<[usize; 4]>> {
    let list = ints(def, a, i)?;
    let mut out =
        list.iter().map(|&d| rules::check_dim(def.name(), d, b.rank(x))).collect::<Result<SmallVec<[usize; 4]>>>()?;
    out.sort_unstable();
    if out.windows(2).any(|w| w[0] == w[1]) {
        return Err(rules::refuse(def.name(), Kind::Argument, format_args!("a dim is named twice in {list:?}")));
    }
    Ok(out)
}

/// Argument `i` as an element type.
///
/// # Errors
/// When it is something else.
pub fn dtype(def: &OpDef, a: &Bound, i: usize) -> Result<DType> {
    if let Arg::DType(d) = a.get(i) { Ok(*d) } else { Err(wrong(def, i, "an element type", a.get(i))) }
}

/// Argument `i` as a flag; false when it is left out.
///
/// # Errors
/// When it is something else.
pub fn flag(def: &OpDef, a: &Bound, i: usize) -> Result<bool> {
    match a.get(i) {
        Arg::Bool(x) | Arg::Scalar(Scalar::Bool(x)) => Ok(*x),
        Arg::None => Ok(false),
        other => Err(wrong(def, i, "true or false", other)),
    }
}

/// Argument `i` as a word.
///
/// # Errors
/// When it is something else.
pub fn word(def: &OpDef, a: &Bound, i: usize) -> Result<&'static str> {
    if let Arg::Str(s) = a.get(i) { Ok(s) } else { Err(wrong(def, i, "a word", a.get(i))) }
}

/// Argument `i` as sizes; `None` stands for -1.
///
/// # Errors
/// When it is something else or a size is below -1.
pub fn open_sizes(def: &OpDef, a: &Bound, i: usize) -> Result<SmallVec<[Option<Dim>; 4]>> {
    let size = |n: i64| match u64::try_from(n) {
        Ok(n) => Ok(Some(Dim::Const(n))),
        Err(_) if n == -1 => Ok(None),
        Err(_) => Err(rules::refuse(def.name(), Kind::Argument, format_args!("size {n} is negative"))),
    };
    match a.get(i) {
        Arg::Ints(v) => v.iter().map(|&n| size(n)).collect(),
        Arg::Dims(v) => Ok(v.iter().map(|d| Some(*d)).collect()),
        Arg::Scalar(Scalar::Int(n)) => Ok(smallvec![size(*n)?]),
        other => Err(wrong(def, i, "a list of sizes", other)),
    }
}

/// Argument `i` as a shape.
///
/// # Errors
/// When it is something else or a size is negative.
pub fn shape(def: &OpDef, a: &Bound, i: usize) -> Result<Shape> {
    let closed = |d: Option<Dim>| d.ok_or_else(|| rules::refuse(def.name(), Kind::Argument, "size -1 is negative"));
    open_sizes(def, a, i)?.into_iter().map(closed).collect::<Result<SmallVec<[Dim; 4]>>>().map(Shape::from_iter)
}

/// Argument `i` is not what the signature says.
fn wrong(def: &OpDef, i: usize, want: &str, got: &Arg) -> Error {
    let name = rules::parameter_names(def.sig).get(i).copied().unwrap_or("?");
    rules::refuse(def.name(), Kind::Argument, format_args!("{name} takes {want}, got {}", describe(got)))
}

/// What an argument is, in a user's words.
fn describe(a: &Arg) -> String {
    match a {
        Arg::Value(_) => "a tensor".into(),
        Arg::Values(_) => "a list of tensors".into(),
        Arg::Scalar(s) => s.to_string(),
        Arg::Ints(v) => format!("{v:?}"),
        Arg::Dims(v) => Shape::from_iter(v.iter().copied()).to_string(),
        Arg::Bool(x) => x.to_string(),
        Arg::DType(d) => d.to_string(),
        Arg::Str(s) => format!("{s:?}"),
        Arg::List(v) => format!("[{}]", v.iter().map(describe).collect::<Vec<_>>().join(", ")),
        Arg::None => "nothing".into(),
    }
}
