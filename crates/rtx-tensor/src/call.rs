//! Calls of the op table: arguments in, tensors out, one stretch of recording each.
use crate::{
    Tensor, amp, engine,
    operand::Operand,
    tape::{Trace, Traced, is_taping},
};
use rtx_core::{DType, Error, Kind, Location, Result, Scalar};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs, Type, ValueId};
use smallvec::SmallVec;

/// An argument of a call by name.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A tensor.
    Tensor(Tensor),
    /// A list of tensors.
    Tensors(Vec<Tensor>),
    /// A number.
    Scalar(Scalar),
    /// Integers: sizes, dims.
    Ints(Vec<i64>),
    /// An element type.
    DType(DType),
    /// A word.
    Str(&'static str),
    /// Left out.
    None,
}

impl<T: Operand> From<T> for Argument {
    fn from(x: T) -> Self {
        x.argument()
    }
}
impl From<DType> for Argument {
    fn from(d: DType) -> Self {
        Argument::DType(d)
    }
}
impl From<&'static str> for Argument {
    fn from(s: &'static str) -> Self {
        Argument::Str(s)
    }
}
impl From<Vec<i64>> for Argument {
    fn from(v: Vec<i64>) -> Self {
        Argument::Ints(v)
    }
}
impl From<Vec<Tensor>> for Argument {
    fn from(v: Vec<Tensor>) -> Self {
        Argument::Tensors(v)
    }
}
impl<T: Into<Argument>> From<Option<T>> for Argument {
    fn from(x: Option<T>) -> Self {
        x.map_or(Argument::None, Into::into)
    }
}

/// Calls an op of the table by its name: `call("softmax", &[x.into(), (-1).into()], &[])`. Keyword arguments are
/// bound by the names of the signature; what is left out takes its default.
///
/// # Errors
/// [`Kind::Unsupported`] for a name that is not in the table, and what the op refuses.
#[track_caller]
pub fn call(name: &str, args: &[Argument], kwargs: &[(&str, Argument)]) -> Result<Vec<Tensor>> {
    call_all(find(name)?, args, kwargs)
}

/// The same for an op of which only the first result is wanted.
#[track_caller]
pub(crate) fn call_bound(def: &'static OpDef, args: &[Argument], kwargs: &[(&str, Argument)]) -> Result<Tensor> {
    one(call_all(def, args, kwargs)?)
}

#[track_caller]
fn call_all(def: &'static OpDef, args: &[Argument], kwargs: &[(&str, Argument)]) -> Result<Vec<Tensor>> {
    let (mut tensors, mut plain, mut named) = (Vec::new(), Vec::new(), Vec::new());
    args.iter().try_for_each(|a| Slot::of(a, &mut tensors).map(|s| plain.push(s)))?;
    for (name, a) in kwargs {
        named.push((*name, Slot::of(a, &mut tensors)?));
    }
    record(Location::caller(), &tensors, |trace, ids| {
        let ids = &amp::cast(&mut trace.recorder.builder(), def, ids)?;
        let args: Vec<Arg> = plain.into_iter().map(|s| s.arg(ids)).collect();
        let kwargs: Vec<(&str, Arg)> = named.into_iter().map(|(n, s)| (n, s.arg(ids))).collect();
        let bound = rtx_ops::bind(def, &args, &kwargs)?;
        trace.recorder.builder().call(def, bound)
    })
}

fn find(name: &str) -> Result<&'static OpDef> {
    rtx_ops::find(name).ok_or_else(|| Error::new(Kind::Unsupported, format!("{name}: there is no op of this name")))
}

/// The definition of an op, looked up once.
macro_rules! op {
    ($name:literal) => {{
        static DEF: std::sync::OnceLock<&'static rtx_ir::OpDef> = std::sync::OnceLock::new();
        *DEF.get_or_init(|| rtx_ops::find($name).expect("the methods are generated from the table"))
    }};
}
pub(crate) use op;

/// Records a call with its arguments in the order of the signature.
#[track_caller]
pub(crate) fn call_op(def: &'static OpDef, args: &[Argument]) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    let slots = args.iter().map(|a| Slot::of(a, &mut tensors)).collect::<Result<SmallVec<[Slot; 4]>>>()?;
    record(Location::caller(), &tensors, |trace, ids| {
        let ids = &amp::cast(&mut trace.recorder.builder(), def, ids)?;
        let bound = Bound(slots.into_iter().map(|s| s.arg(ids)).collect());
        trace.recorder.builder().call(def, bound)
    })
}

/// The same, for an op of one result.
#[track_caller]
pub(crate) fn call_one(def: &'static OpDef, args: &[Argument]) -> Result<Tensor> {
    one(call_op(def, args)?)
}
fn one(outs: Vec<Tensor>) -> Result<Tensor> {
    outs.into_iter().next().ok_or_else(|| Error::new(Kind::Internal, "an op without a result"))
}

/// Records nodes of any kind with tensors as operands.
#[track_caller]
pub(crate) fn record_one(
    tensors: &[Argument],
    f: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<ValueId>,
) -> Result<Tensor> {
    let mut traced = Vec::new();
    tensors.iter().try_for_each(|a| Slot::of(a, &mut traced).map(drop))?;
    one(record(Location::caller(), &traced, |trace, ids| {
        Ok([f(&mut trace.recorder.builder(), ids)?].into_iter().collect())
    })?)
}

fn record(
    at: Location,
    tensors: &[Traced],
    f: impl FnOnce(&mut Trace<'_, '_>, &[ValueId]) -> Result<Outs>,
) -> Result<Vec<Tensor>> {
    let taping = is_taping();
    engine::record(at, |r| {
        let mut trace = Trace::new(r, taping);
        let ids = tensors.iter().map(|t| trace.import(t)).collect::<Result<SmallVec<[ValueId; 4]>>>()?;
        let outs = f(&mut trace, &ids)?;
        outs.into_iter().map(|v| Ok(Tensor::from_traced(trace.export(v)?))).collect()
    })
}

/// An argument whose tensors are named by position.
enum Slot {
    Tensor(usize),
    Tensors(usize, usize),
    Plain(Arg),
}
impl Slot {
    #[track_caller]
    fn of(a: &Argument, tensors: &mut Vec<Traced>) -> Result<Slot> {
        let from = tensors.len();
        Ok(match a {
            Argument::Tensor(t) => {
                tensors.push(t.traced()?);
                Slot::Tensor(from)
            }
            Argument::Tensors(list) => {
                for t in list {
                    tensors.push(t.traced()?);
                }
                Slot::Tensors(from, tensors.len())
            }
            Argument::Scalar(s) => Slot::Plain(Arg::Scalar(*s)),
            Argument::Ints(v) => Slot::Plain(Arg::Ints(v.as_slice().into())),
            Argument::DType(d) => Slot::Plain(Arg::DType(*d)),
            Argument::Str(s) => Slot::Plain(Arg::Str(s)),
            Argument::None => Slot::Plain(Arg::None),
        })
    }
    fn arg(self, ids: &[ValueId]) -> Arg {
        match self {
            Slot::Tensor(i) => Arg::Value(ids[i]),
            Slot::Tensors(i, j) => Arg::Values(ids[i..j].into()),
            Slot::Plain(a) => a,
        }
    }
}

/// A result written into a tensor of another type: broadcast to its shape, converted to its dtype where the class
/// allows it.
pub(crate) fn fit(b: &mut Builder<'_>, op: &str, update: ValueId, to: &Type) -> Result<ValueId> {
    let from = b.ty(update).clone();
    if from.dtype.class() > to.dtype.class() {
        let what = format!("{op}: a result of {} does not go into a tensor of {}", from.dtype, to.dtype);
        return Err(Error::new(Kind::DType, what));
    }
    let joined = rtx_ir::rules::broadcast_shapes(&[&from.shape, &to.shape]);
    if joined.ok().as_ref() != Some(&to.shape) {
        let what = format!("{op}: a result of shape {} does not go into a tensor of shape {}", from.shape, to.shape);
        return Err(Error::new(Kind::Shape, what));
    }
    let update = b.cast(update, to.dtype)?;
    b.expand(update, &to.shape)
}
