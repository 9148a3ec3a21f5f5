//! Calls of the op table: arguments in, tensors out, one stretch of recording each.
use crate::{
    Tensor, amp, engine,
    hosted::{self, Hosted},
    operand::Operand,
    tape::{Trace, Traced, is_taping},
};
use rtx_core::{DType, Error, Kind, Location, Result, Scalar};
use rtx_ir::{Arg, Bound, Builder, OpDef, Outs, Type, ValueId};
use smallvec::SmallVec;

/// An argument of a call by name.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let sizes = torch::Argument::Ints(vec![2, 3]); // numbers, tensors and dtypes convert by into()
/// assert_eq!(torch::call("zeros", &[sizes], &[])?[0].shape(), [2, 3]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
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
    /// A list of anything else: floats, bools, tensors of which some are left out.
    List(Vec<Argument>),
    /// `start:stop:step`, in an index.
    Slice(Option<i64>, Option<i64>, Option<i64>),
    /// `...`, in an index.
    Ellipsis,
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
impl From<String> for Argument {
    fn from(s: String) -> Self {
        Argument::Str(rtx_ops::bind::intern(&s))
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

/// Calls an op by its name: `call("softmax", &[x.into(), (-1).into()], &[])`. Names are PyTorch's, with or without
/// the module: `linalg.norm`, `nn.functional.gelu`, `__radd__`. Arguments bind by the names of the signature; what is
/// left out takes its default. Of several overloads the first that takes the arguments is called. A tensor that stands
/// where integers do is read, which runs what it waits for. `add_` is `add`, written into its first argument.
///
/// # Errors
/// [`Kind::Unsupported`] for a name that is not there, and what the op refuses.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let y = torch::call("softmax", &[torch::zeros(2).into(), 0.into()], &[])?;
/// assert_eq!(y[0].to_vec::<f32>()?, [0.5, 0.5]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn call(name: &str, args: &[Argument], kwargs: &[(&str, Argument)]) -> Result<Vec<Tensor>> {
    match name {
        "__getitem__" => return hosted::get_item(args),
        "broadcast_shapes" => return hosted::broadcast_shapes(args),
        _ => {}
    }
    let (names, swapped) = rtx_ops::aliases::names(name);
    let found = names.iter().find_map(|n| Targets::of(n));
    let Some(targets) = found else {
        return match name.strip_suffix('_').filter(|n| !n.ends_with('_')) {
            Some(plain) => call_in_place(plain, args, kwargs),
            None => Err(Error::new(Kind::Unsupported, format!("{name}: there is no op of this name"))),
        };
    };
    let mut handles = Vec::new();
    let mut plain = args.iter().map(|a| outline(a, &mut handles)).collect::<Result<Vec<Arg>>>()?;
    if swapped && plain.len() > 1 {
        plain.swap(0, 1);
    }
    let mut named = Vec::with_capacity(kwargs.len());
    for (name, a) in kwargs {
        named.push((*name, outline(a, &mut handles)?));
    }
    let read = |v: ValueId| Ok(handles[v.index()].numbers()?.into_iter().map(|n| n.scalar()).collect());
    let (i, mut bound) = rtx_ops::bind::choose(&targets.sigs(), &plain, &named, Some(&read))?;
    bound.0.iter_mut().try_for_each(|a| expand_masks(a, &mut handles))?;
    match targets.at(i) {
        Target::Op(def) => {
            draw_for(def, &mut bound, &mut handles)?;
            call_outlined(def, &bound, &handles)
        }
        Target::Hosted(hosted) => {
            let args = bound.0.iter().map(|a| filled(a, &handles)).collect::<Vec<_>>();
            (hosted.run)(&args)
        }
    }
}

/// The result of a call, written into its first argument.
#[track_caller]
fn call_in_place(plain: &str, args: &[Argument], kwargs: &[(&str, Argument)]) -> Result<Vec<Tensor>> {
    let outs = call(plain, args, kwargs)?;
    let (Some(Argument::Tensor(x)), [out]) = (args.first(), outs.as_slice()) else {
        return Err(Error::new(Kind::Argument, format!("{plain}_: takes a tensor to write into")));
    };
    let update = out.traced()?;
    x.write("in-place call", |trace, _| trace.import(&update))?;
    Ok(vec![x.alias()])
}

/// What one name may call.
struct Targets {
    ops: SmallVec<[&'static OpDef; 4]>,
    hosted: SmallVec<[&'static Hosted; 2]>,
}
enum Target {
    Op(&'static OpDef),
    Hosted(&'static Hosted),
}
impl Targets {
    fn of(name: &str) -> Option<Targets> {
        let ops: SmallVec<[_; 4]> = rtx_ops::aliases::overloads(name).into();
        let hosted: SmallVec<[_; 2]> = hosted::ALL.iter().copied().flatten().filter(|h| h.name() == name).collect();
        (ops.len() + hosted.len() > 0).then_some(Targets { ops, hosted })
    }
    fn sigs(&self) -> SmallVec<[&'static str; 4]> {
        self.ops.iter().map(|d| d.sig).chain(self.hosted.iter().map(|h| h.sig)).collect()
    }
    fn at(&self, i: usize) -> Target {
        match self.ops.get(i) {
            Some(def) => Target::Op(def),
            None => Target::Hosted(self.hosted[i - self.ops.len()]),
        }
    }
}

/// An argument whose tensors are named by their place in `handles`.
fn outline(a: &Argument, handles: &mut Vec<Tensor>) -> Result<Arg> {
    let mut hold = |t: &Tensor| {
        handles.push(t.alias());
        ValueId(handles.len() as u32 - 1)
    };
    Ok(match a {
        Argument::Tensor(t) => Arg::Value(hold(t)),
        Argument::Tensors(list) => Arg::Values(list.iter().map(hold).collect()),
        Argument::Scalar(s) => Arg::Scalar(*s),
        Argument::Ints(v) => Arg::Ints(v.as_slice().into()),
        Argument::DType(d) => Arg::DType(*d),
        Argument::Str(s) => Arg::Str(s),
        Argument::List(v) => Arg::List(v.iter().map(|a| outline(a, handles)).collect::<Result<_>>()?),
        Argument::Slice(..) | Argument::Ellipsis => {
            return Err(Error::new(Kind::Argument, "slices and ellipses stand in an index only"));
        }
        Argument::None => Arg::None,
    })
}

/// Masks in a list of indices become positions, whose number depends on values.
fn expand_masks(arg: &mut Arg, handles: &mut Vec<Tensor>) -> Result<()> {
    let Arg::List(list) = arg else { return Ok(()) };
    let mut out = Vec::with_capacity(list.len());
    for a in list.drain(..) {
        match a {
            Arg::Value(v) if handles[v.index()].dtype() == DType::Bool => {
                for t in hosted::positions(&handles[v.index()])? {
                    handles.push(t);
                    out.push(Arg::Value(ValueId(handles.len() as u32 - 1)));
                }
            }
            other => out.push(other),
        }
    }
    *list = out;
    Ok(())
}

/// The names under which an op takes key and ordinal of its random bits, where a caller may leave them out.
const DRAWN: [[&str; 2]; 2] = [["key", "ordinal"], ["random_key", "random_ordinal"]];

/// Draws for a call of an op that drops something and was not told by which random bits.
fn draw_for(def: &'static OpDef, bound: &mut Bound, handles: &mut Vec<Tensor>) -> Result<()> {
    if !def.sig.contains("ordinal=None") {
        return Ok(());
    }
    let names = rtx_ir::rules::parameter_names(def.sig);
    let place = |name: &str| names.iter().position(|n| *n == name);
    let number = |i: usize| if let Arg::Scalar(s) = bound.get(i) { s.to_f64() } else { 0.0 };
    let drops = place("p").or_else(|| place("dropout_p")).is_some_and(|i| number(i) > 0.0);
    let places = DRAWN.iter().find_map(|d| Some([place(d[0])?, place(d[1])?]));
    let Some(places) = places.filter(|p| drops && p.iter().all(|&i| *bound.get(i) == Arg::None)) else { return Ok(()) };
    for (i, drawn) in places.into_iter().zip(crate::random::draw()?) {
        if bound.0.len() <= i {
            bound.0.resize(i + 1, Arg::None);
        }
        bound.0[i] = outline(&drawn, handles)?;
    }
    Ok(())
}

/// The inverse of [`outline`].
fn filled(a: &Arg, handles: &[Tensor]) -> Argument {
    let tensor = |v: &ValueId| handles[v.index()].alias();
    match a {
        Arg::Value(v) => Argument::Tensor(tensor(v)),
        Arg::Values(v) => Argument::Tensors(v.iter().map(tensor).collect()),
        Arg::Scalar(s) => Argument::Scalar(*s),
        Arg::Bool(x) => Argument::Scalar(Scalar::Bool(*x)),
        Arg::Ints(v) => Argument::Ints(v.to_vec()),
        Arg::Dims(v) => Argument::Ints(v.iter().map(|d| d.bound() as i64).collect()),
        Arg::DType(d) => Argument::DType(*d),
        Arg::Str(s) => Argument::Str(s),
        Arg::List(v) => Argument::List(v.iter().map(|a| filled(a, handles)).collect()),
        Arg::None => Argument::None,
    }
}

/// An outlined argument in the region being recorded.
fn placed(a: &Arg, ids: &[ValueId]) -> Arg {
    match a {
        Arg::Value(v) => Arg::Value(ids[v.index()]),
        Arg::Values(v) => Arg::Values(v.iter().map(|v| ids[v.index()]).collect()),
        Arg::List(v) => Arg::List(v.iter().map(|a| placed(a, ids)).collect()),
        other => other.clone(),
    }
}

#[track_caller]
fn call_outlined(def: &'static OpDef, bound: &Bound, handles: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::with_capacity(handles.len());
    for t in handles {
        tensors.push(t.traced()?);
    }
    record(Location::caller(), &tensors, |trace, ids| {
        let ids = &amp::cast(&mut trace.recorder.builder(), def, ids)?;
        let bound = Bound(bound.0.iter().map(|a| placed(a, ids)).collect());
        trace.recorder.builder().call(def, bound)
    })
}

/// The same for an op of which only the first result is wanted.
#[track_caller]
pub(crate) fn call_bound(def: &'static OpDef, args: &[Argument], kwargs: &[(&str, Argument)]) -> Result<Tensor> {
    let mut handles = Vec::new();
    let plain = args.iter().map(|a| outline(a, &mut handles)).collect::<Result<Vec<Arg>>>()?;
    let mut named = Vec::with_capacity(kwargs.len());
    for (name, a) in kwargs {
        named.push((*name, outline(a, &mut handles)?));
    }
    let bound = rtx_ops::bind(def, &plain, &named)?;
    one(call_outlined(def, &bound, &handles)?)
}

/// The definition of an op, looked up once.
macro_rules! op {
    ($name:expr) => {{
        static DEF: std::sync::OnceLock<&'static rtx_ir::OpDef> = std::sync::OnceLock::new();
        *DEF.get_or_init(|| rtx_ops::find($name).expect("the methods are generated from the table"))
    }};
}
pub(crate) use op;

/// Calls this definition and no other of its name, with its arguments in the order of the signature.
///
/// Unstable: a door to the op table, whose definitions may change.
///
/// # Errors
/// What the op refuses.
#[track_caller]
pub fn call_definition(def: &'static OpDef, args: &[Argument]) -> Result<Vec<Tensor>> {
    call_op(def, args)
}

/// Records a call with its arguments in the order of the signature.
#[track_caller]
pub(crate) fn call_op(def: &'static OpDef, args: &[Argument]) -> Result<Vec<Tensor>> {
    let Slots { tensors, slots } = &mut Slots::default();
    fill(args, tensors, slots)?;
    record(Location::caller(), tensors, |trace, ids| call_slots(trace, ids, def, slots))
}

/// The same, for an op of one result.
#[track_caller]
pub(crate) fn call_one(def: &'static OpDef, args: &[Argument]) -> Result<Tensor> {
    let Slots { tensors, slots } = &mut Slots::default();
    fill(args, tensors, slots)?;
    record_first(Location::caller(), tensors, |trace, ids| call_slots(trace, ids, def, slots))
}

/// The same, for two tensors: what most operators come to.
#[track_caller]
pub(crate) fn call_two(def: &'static OpDef, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let tensors = [a.traced()?, b.traced()?];
    record_first(Location::caller(), &tensors, |trace, ids| {
        let mut b = trace.recorder.builder();
        let ids = amp::cast(&mut b, def, ids)?;
        b.call(def, [Arg::Value(ids[0]), Arg::Value(ids[1])])
    })
}

/// Tensors in the order of a call, and the arguments that name them by position.
#[derive(Default)]
struct Slots {
    tensors: SmallVec<[Traced; 4]>,
    slots: SmallVec<[Slot; 4]>,
}

/// Written in place: what a call takes is some hundred bytes, and every op makes it.
#[track_caller]
fn fill(args: &[Argument], tensors: &mut SmallVec<[Traced; 4]>, slots: &mut SmallVec<[Slot; 4]>) -> Result<()> {
    for a in args {
        slots.push(Slot::of(a, tensors)?);
    }
    Ok(())
}

fn call_slots(trace: &mut Trace<'_, '_>, ids: &[ValueId], def: &'static OpDef, slots: &[Slot]) -> Result<Outs> {
    let ids = &amp::cast(&mut trace.recorder.builder(), def, ids)?;
    let mut bound = Bound::default();
    slots.iter().for_each(|s| bound.0.push(s.arg(ids)));
    trace.recorder.builder().call(def, bound)
}
/// The same, for an op of several results.
#[track_caller]
pub(crate) fn call_many<const N: usize>(def: &'static OpDef, args: &[Argument]) -> Result<[Tensor; N]> {
    let outs = call_op(def, args)?;
    <[Tensor; N]>::try_from(outs).map_err(|_| Error::new(Kind::Internal, "an op with another number of results"))
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
    let Slots { tensors: traced, slots } = &mut Slots::default();
    fill(tensors, traced, slots)?;
    record_first(Location::caller(), traced, |trace, ids| {
        Ok([f(&mut trace.recorder.builder(), ids)?].into_iter().collect())
    })
}

fn record(
    at: Location,
    tensors: &[Traced],
    f: impl FnOnce(&mut Trace<'_, '_>, &[ValueId]) -> Result<Outs>,
) -> Result<Vec<Tensor>> {
    record_with(at, tensors, f, |trace, outs| {
        outs.into_iter().map(|v| Ok(Tensor::from_traced(trace.export(v)?))).collect()
    })
}

/// The same, of which only the first result is wanted.
fn record_first(
    at: Location,
    tensors: &[Traced],
    f: impl FnOnce(&mut Trace<'_, '_>, &[ValueId]) -> Result<Outs>,
) -> Result<Tensor> {
    let none = || Error::new(Kind::Internal, "an op without a result");
    let first = |trace: &mut Trace<'_, '_>, outs: Outs| trace.export(*outs.first().ok_or_else(none)?);
    Ok(Tensor::from_traced(record_with(at, tensors, f, first)?))
}

fn record_with<T>(
    at: Location,
    tensors: &[Traced],
    f: impl FnOnce(&mut Trace<'_, '_>, &[ValueId]) -> Result<Outs>,
    export: impl FnOnce(&mut Trace<'_, '_>, Outs) -> Result<T>,
) -> Result<T> {
    let taping = is_taping();
    engine::record_where(tensors.iter().map(|t| &t.value), at, |r| {
        let mut trace = Trace::new(r, taping);
        let mut ids: SmallVec<[ValueId; 4]> = SmallVec::with_capacity(tensors.len());
        for t in tensors {
            ids.push(trace.import(t)?);
        }
        let outs = f(&mut trace, &ids)?;
        export(&mut trace, outs)
    })
}

/// An argument whose tensors are named by position.
enum Slot {
    Tensor(usize),
    Tensors(usize, usize),
    /// The first tensor's place, and the list with its tensors marked.
    List(usize, Vec<Arg>),
    Plain(Arg),
}
impl Slot {
    #[track_caller]
    fn of(a: &Argument, tensors: &mut SmallVec<[Traced; 4]>) -> Result<Slot> {
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
            Argument::List(list) => {
                for a in list {
                    if let Argument::Tensor(t) = a {
                        tensors.push(t.traced()?);
                    }
                }
                Slot::List(from, list.iter().map(|a| outline(a, &mut Vec::new())).collect::<Result<_>>()?)
            }
            Argument::Slice(..) | Argument::Ellipsis => {
                return Err(Error::new(Kind::Argument, "slices and ellipses stand in an index only"));
            }
            Argument::None => Slot::Plain(Arg::None),
        })
    }
    fn arg(&self, ids: &[ValueId]) -> Arg {
        match self {
            Slot::Tensor(i) => Arg::Value(ids[*i]),
            Slot::Tensors(i, j) => Arg::Values(ids[*i..*j].into()),
            Slot::List(at, list) => {
                let mut at = *at;
                let place = |a: &Arg| match a {
                    Arg::Value(_) => {
                        at += 1;
                        Arg::Value(ids[at - 1])
                    }
                    other => other.clone(),
                };
                Arg::List(list.iter().map(place).collect())
            }
            Slot::Plain(a) => a.clone(),
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
