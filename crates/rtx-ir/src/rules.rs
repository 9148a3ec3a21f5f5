//! Rules that definitions share: shape and dtype inference, recording of calls. An op writes its own only when none fits.
use crate::{Arg, Attr, Attrs, Bound, Builder, Op, OpDef, Outs, Prim, ScatterOp, Type, Types, ValueId};
use rtx_core::{Class, DType, Dim, Error, Function, IdMap, Kind, Result, Shape};
use smallvec::{SmallVec, smallvec};
use std::cell::RefCell;

/// `op: what is wrong`.
pub fn refuse(op: &str, kind: Kind, what: impl std::fmt::Display) -> Error {
    Error::new(kind, format!("{op}: {what}"))
}

/// Types as messages show them: `f32 [2, 3], f32 [4]`.
pub fn show(types: &[&Type]) -> String {
    types.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Wrong number of operands: only a program that does not go through the table can do that.
pub fn check_arity(op: &Op, inputs: &[&Type], n: usize) -> Result<()> {
    if inputs.len() == n {
        return Ok(());
    }
    Err(refuse(op.name(), Kind::Argument, format_args!("takes {n} operands, got {}", inputs.len())))
}

/// All operands have one type; the result has it too.
pub fn infer_same(op: &Op, inputs: &[&Type]) -> Result<Types> {
    check_equal(op, inputs)?;
    Ok(smallvec![inputs[0].clone()])
}

/// All operands have one type.
pub fn check_equal(op: &Op, inputs: &[&Type]) -> Result<()> {
    if let [first, rest @ ..] = inputs
        && rest.iter().all(|t| t == first)
    {
        return Ok(());
    }
    Err(refuse(op.name(), Kind::Shape, format_args!("operands differ: {}", show(inputs))))
}

/// The operand is a float; `f32 [2]` stands for it in the message.
pub fn check_float(op: &str, ty: &Type) -> Result<()> {
    if ty.dtype.is_float() {
        return Ok(());
    }
    Err(refuse(op, Kind::DType, format_args!("needs a float tensor, got {ty}")))
}

/// The operand is of a type that is only stored, moved and cast: 8-bit floats and complex numbers.
pub fn stored_only(op: &str, ty: &Type) -> Error {
    let cast = if ty.dtype.class() == Class::Complex { "take its real and imaginary parts" } else { "cast it to f32" };
    refuse(op, Kind::DType, format_args!("{} is stored, moved and cast, not computed with; got {ty}", ty.dtype))
        .hint(format!("{cast} first"))
}

/// There is arithmetic on the type.
pub fn check_arithmetic(op: &str, ty: &Type) -> Result<()> {
    if ty.dtype.has_arithmetic() { Ok(()) } else { Err(stored_only(op, ty)) }
}

/// A primitive that computes with its operands has arithmetic for them all; moving, choosing and casting need none.
pub fn check_computes(op: &Op, inputs: &[&Type]) -> Result<()> {
    let computes = match op.prim() {
        None => false,
        Some(p) => match p {
            Prim::Constant { .. }
            | Prim::Param { .. }
            | Prim::Iota { .. }
            | Prim::RandomBits { .. }
            | Prim::Select
            | Prim::Cast(_)
            | Prim::Bitcast(_)
            | Prim::Reshape(_)
            | Prim::Permute(_)
            | Prim::Expand(_)
            | Prim::Slice { .. }
            | Prim::Pad { .. }
            | Prim::Concat { .. }
            | Prim::UpdateSlice { .. }
            | Prim::Gather { .. }
            | Prim::Scatter { op: ScatterOp::Set, .. }
            | Prim::Windows { .. }
            | Prim::Fft(_)
            | Prim::Loop(_)
            | Prim::If { .. }
            | Prim::CustomCall { .. }
            | Prim::Check(_)
            | Prim::Barrier
            | Prim::Unary(Function::Real | Function::Imag) => false,
            Prim::Unary(_)
            | Prim::Binary(_)
            | Prim::Compare(_)
            | Prim::Fma
            | Prim::Scatter { .. }
            | Prim::Reduce { .. }
            | Prim::ArgReduce { .. }
            | Prim::Scan { .. }
            | Prim::LinearScan { .. }
            | Prim::Sort { .. }
            | Prim::Dot { .. }
            | Prim::Factor(_)
            | Prim::TriangularSolve { .. }
            | Prim::Collective { .. }
            | Prim::OverlapAdd { .. }
            | Prim::Conv(_) => true,
        },
    };
    if computes { inputs.iter().try_for_each(|t| check_arithmetic(op.name(), t)) } else { Ok(()) }
}

/// An axis counted from the end when negative.
pub fn check_dim(op: &str, dim: i64, rank: usize) -> Result<usize> {
    let r = rank.max(1) as i64;
    if -r <= dim && dim < r {
        return Ok(dim.rem_euclid(r) as usize);
    }
    Err(refuse(op, Kind::Argument, format_args!("dim {dim} is outside {}..{r} for a tensor of rank {rank}", -r)))
}

/// The shape in which shapes meet by NumPy's rule.
pub fn broadcast_shapes(shapes: &[&Shape]) -> Result<Shape> {
    meet_shapes(None, shapes)
}

/// The shape in which the operands of `op` meet, or a refusal in its name.
pub fn broadcast_for(op: &str, shapes: &[&Shape]) -> Result<Shape> {
    meet_shapes(Some(op), shapes)
}

fn meet_shapes(op: Option<&str>, shapes: &[&Shape]) -> Result<Shape> {
    if let [first, rest @ ..] = shapes
        && rest.iter().all(|s| s == first)
    {
        return Ok((*first).clone());
    }
    let rank = shapes.iter().map(|s| s.rank()).max().unwrap_or(0);
    let mut out: Shape = (0..rank).map(|_| Dim::Const(1)).collect();
    for s in shapes {
        for i in 0..s.rank() {
            let at = rank - s.rank() + i;
            match (out.dim(at), s.dim(i)) {
                (a, b) if a == b || b.is_one() => {}
                (a, b) if a.is_one() => out.set(at, b),
                (a, b) => {
                    let prefix = op.map_or(String::new(), |op| format!("{op}: "));
                    let message = format!("{prefix}shapes do not broadcast: {}", show_sides(shapes));
                    return Err(Error::new(Kind::Shape, message).hint(format!("dim {at}: {a} against {b}")));
                }
            }
        }
    }
    Ok(out)
}

/// `lhs [2, 3], rhs [4]` for two, the bare shapes for more.
fn show_sides(shapes: &[&Shape]) -> String {
    match shapes {
        [l, r] => format!("lhs {l}, rhs {r}"),
        more => more.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The type in which a call's tensors and numbers meet (PyTorch's rule): numbers count by their class only, and
/// rank-0 tensors only where they are of a higher class than those with dims.
pub fn promote(b: &Builder<'_>, args: &[Arg]) -> Option<DType> {
    let (mut dims, mut scalars, mut numbers) = (None, None, None);
    let join = |slot: &mut Option<DType>, d: DType| *slot = Some(slot.map_or(d, |s| s.promote(d)));
    for a in args {
        match a {
            Arg::Value(v) if b.rank(*v) == 0 => join(&mut scalars, b.dtype(*v)),
            Arg::Value(v) => join(&mut dims, b.dtype(*v)),
            Arg::Scalar(s) => join(&mut numbers, s.dtype()),
            _ => {}
        }
    }
    if dims.is_none() && scalars.is_none() {
        return None;
    }
    outrank(outrank(dims, scalars), numbers)
}

/// The type of what has priority, unless `lower` is of a higher class: then that class, as wide as `higher` is.
fn outrank(higher: Option<DType>, lower: Option<DType>) -> Option<DType> {
    let (Some(h), Some(l)) = (higher, lower) else { return higher.or(lower) };
    Some(match (h.class(), l.class()) {
        (h_class, l_class) if l_class <= h_class => h,
        (Class::Float, _) => h.promote(DType::C64),
        _ => h.promote(l),
    })
}

/// The dtype in which a run-time number stands beside a tensor of `dtype`: compute precision (contract S3).
pub fn number_dtype(dtype: DType) -> DType {
    use DType::*;
    match dtype {
        F16 | BF16 | F8E4M3 | F8E5M2 => F32,
        other => other,
    }
}

/// A call of a composite without promotion: tensors are operands in order, then run-time numbers (named in
/// `runtime`) in the compute precision of the first float operand, and everything else is an attribute.
pub fn record_direct(b: &mut Builder<'_>, def: &'static OpDef, args: &Bound) -> Result<Outs> {
    let mut inputs: SmallVec<[ValueId; 4]> = SmallVec::new();
    let mut attrs = Attrs::new();
    let runtime = runtime_places(def);
    let float = args
        .0
        .iter()
        .find_map(|a| if let Arg::Value(v) = a { Some(b.dtype(*v)).filter(|d| d.is_float()) } else { None });
    for (i, a) in args.0.iter().enumerate() {
        match a {
            Arg::Value(v) => inputs.push(*v),
            Arg::Values(vs) => inputs.extend_from_slice(vs),
            Arg::Scalar(s) if runtime >> i & 1 == 1 => {
                let dtype = float.map_or(s.dtype(), number_dtype);
                inputs.push(b.param(dtype, *s)?);
            }
            Arg::List(_) => {
                let name = parameter_names(def.sig).get(i).copied().unwrap_or("?");
                return Err(refuse(def.name(), Kind::Argument, format_args!("`{name}` does not take a mixed list")));
            }
            other => attrs.push(attr_of(other)),
        }
    }
    b.composite(def, attrs, &inputs)
}

thread_local! {
    /// Run-time parameters of the definitions that this thread has recorded, by address: definitions are statics.
    static RUNTIME: RefCell<IdMap<*const OpDef, u64>> = RefCell::default();
}

/// Bit `i` is set where parameter `i` is a run-time number. Signatures are read once a thread, without a lock.
fn runtime_places(def: &'static OpDef) -> u64 {
    if def.runtime.is_empty() {
        return 0;
    }
    let read = || {
        let names = parameter_names(def.sig);
        let places = names.iter().enumerate().filter(|(_, name)| def.runtime.contains(name));
        places.fold(0, |mask, (i, _)| mask | 1 << i)
    };
    RUNTIME.with_borrow_mut(|known| *known.entry(std::ptr::from_ref(def)).or_insert_with(read))
}

/// A static argument as an attribute.
fn attr_of(a: &Arg) -> Attr {
    match a {
        Arg::Scalar(rtx_core::Scalar::Int(i)) => Attr::Int(*i),
        Arg::Scalar(rtx_core::Scalar::Bool(x)) | Arg::Bool(x) => Attr::Bool(*x),
        Arg::Scalar(rtx_core::Scalar::Float(x)) => Attr::Float(*x),
        Arg::Ints(v) => Attr::Ints(v.clone()),
        Arg::Dims(v) => Attr::Ints(v.iter().map(|d| d.bound() as i64).collect()),
        Arg::DType(d) => Attr::DType(*d),
        Arg::Str(s) => Attr::Str(s),
        Arg::None | Arg::Value(_) | Arg::Values(_) | Arg::List(_) => Attr::None,
    }
}

/// The names of a signature's parameters, in order.
pub fn parameter_names(sig: &'static str) -> SmallVec<[&'static str; 8]> {
    let Some((inside, _)) = sig.split_once('(').and_then(|(_, rest)| rest.rsplit_once(") ->")) else {
        return SmallVec::new();
    };
    crate::split_list(inside)
        .into_iter()
        .filter(|p| *p != "*")
        .map(|p| p.split('=').next().unwrap_or(p).trim().rsplit(' ').next().unwrap_or(p))
        .collect()
}
