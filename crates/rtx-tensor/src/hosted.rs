//! Calls whose results depend on values: they read on the host, so they are no nodes of a graph (contract S4).
use crate::{
    Result, Tensor,
    call::{self, Argument},
    index::Ix,
};
use rtx_core::{DType, Error, Kind, Scalar, Shape};

/// One such call.
pub(crate) struct Hosted {
    /// PyTorch's schema.
    pub sig: &'static str,
    /// Arguments in its order, bound and converted.
    pub run: fn(&[Argument]) -> Result<Vec<Tensor>>,
}

impl Hosted {
    /// The name up to the overload.
    pub fn name(&self) -> &'static str {
        self.sig.split(['(', '.']).next().unwrap_or(self.sig)
    }
}

/// The families, each a list.
pub(crate) static ALL: &[&[Hosted]] = &[COMPARISONS];

/// Questions with one answer, and selections.
const COMPARISONS: &[Hosted] = &[
    Hosted {
        sig: "equal(Tensor self, Tensor other) -> bool",
        run: |a| Ok(vec![crate::from_slice(&[crate::equal(tensor(a, 0)?, tensor(a, 1)?)?], ())]),
    },
    Hosted {
        sig: "masked_select(Tensor self, Tensor mask) -> Tensor",
        run: |a| Ok(vec![tensor(a, 0)?.masked_select(tensor(a, 1)?)?]),
    },
    Hosted { sig: "nonzero(Tensor self) -> Tensor", run: |a| Ok(vec![tensor(a, 0)?.nonzero()?]) },
    Hosted {
        sig: "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
        run: |a| Ok(vec![repeat_each(tensor(a, 0)?, tensor(a, 1)?, a.get(2), a.get(3))?]),
    },
    Hosted { sig: "item(Tensor self) -> Scalar", run: |a| Ok(vec![one_element(tensor(a, 0)?)?]) },
];

fn one_element(x: &Tensor) -> Result<Tensor> {
    if x.numel() == 1 {
        return Ok(x.reshape(()));
    }
    Err(Error::new(Kind::Shape, format!("item: needs one element, shape is {:?}", x.shape())))
}

/// Each slice as often as `repeats` says.
fn repeat_each(x: &Tensor, repeats: &Tensor, dim: Option<&Argument>, size: Option<&Argument>) -> Result<Tensor> {
    let refuse = |what: String| Error::new(Kind::Argument, format!("repeat_interleave: {what}"));
    let (x, dim) = match dim {
        Some(Argument::Scalar(Scalar::Int(d))) => (x.alias(), *d),
        _ => (x.reshape(-1), 0),
    };
    let n = x.size(dim);
    let counts: Option<Vec<usize>> = repeats
        .numbers()?
        .iter()
        .map(|n| if let Scalar::Int(n) = n.scalar() { usize::try_from(n).ok() } else { None })
        .collect();
    let mut counts = counts.ok_or_else(|| refuse("repeats are integers that are not negative".into()))?;
    if let [all] = counts.as_slice() {
        counts = vec![*all; n];
    }
    if counts.len() != n {
        return Err(refuse(format!("{} repeats for {n} slices", counts.len())));
    }
    let ids: Vec<i64> = (0i64..).zip(&counts).flat_map(|(i, &k)| std::iter::repeat_n(i, k)).collect();
    if let Some(Argument::Scalar(Scalar::Int(want))) = size
        && *want != ids.len() as i64
    {
        return Err(refuse(format!("the repeats add up to {}, not {want}", ids.len())));
    }
    let ids = crate::from_slice(&ids, ids.len());
    call::call_one(call::op!("index_select"), &[Argument::Tensor(x), dim.into(), Argument::Tensor(ids)])
}

/// Argument `i` as a tensor.
pub(crate) fn tensor(args: &[Argument], i: usize) -> Result<&Tensor> {
    match args.get(i) {
        Some(Argument::Tensor(t)) => Ok(t),
        _ => Err(Error::new(Kind::Argument, format!("argument {i} takes a tensor"))),
    }
}

/// `x[index]` as Python writes it: one index, or a list of them for a tuple. Integers in a list name elements, as a
/// tensor of them does.
#[track_caller]
pub(crate) fn get_item(args: &[Argument]) -> Result<Vec<Tensor>> {
    let x = tensor(args, 0)?;
    let items: &[Argument] = match args.get(1) {
        Some(Argument::List(list)) => list,
        Some(_) => &args[1..2],
        None => return Err(Error::new(Kind::Argument, "__getitem__: the index is missing")),
    };
    let picks = |a: &Argument| matches!(a, Argument::Tensor(_) | Argument::Ints(_));
    if !items.iter().any(picks) {
        let basic = items.iter().map(basic_index).collect::<Result<Vec<_>>>()?;
        return Ok(vec![x.read_index(basic)?]);
    }
    let mut index = Picked { basic: Vec::new(), tensors: Vec::new() };
    for item in items {
        index.push(item, x, items)?;
    }
    let y = x.read_index(index.basic)?;
    call::call_op(call::op!("index"), &[Argument::Tensor(y), Argument::List(index.tensors)])
}

/// An index in two steps: first what makes a view, then what picks elements.
struct Picked {
    basic: Vec<Ix>,
    /// For each dim of the view a tensor of positions, or nothing.
    tensors: Vec<Argument>,
}

impl Picked {
    fn push(&mut self, item: &Argument, x: &Tensor, all: &[Argument]) -> Result<()> {
        match item {
            Argument::Scalar(Scalar::Int(i)) => self.pick(crate::from_slice(&[*i], ())),
            Argument::Ints(v) => self.pick(crate::from_slice(v, v.len())),
            Argument::Tensor(t) if t.dtype() == DType::Bool => positions(t)?.into_iter().for_each(|t| self.pick(t)),
            Argument::Tensor(t) => self.pick(t.alias()),
            Argument::Ellipsis => {
                let named: usize = all.iter().map(dims_named).sum();
                (named..x.rank()).for_each(|_| self.keep(whole()));
            }
            other => self.keep(basic_index(other)?),
        }
        Ok(())
    }
    fn pick(&mut self, t: Tensor) {
        self.basic.push(whole());
        self.tensors.push(Argument::Tensor(t));
    }
    fn keep(&mut self, ix: Ix) {
        self.basic.push(ix);
        self.tensors.push(Argument::None);
    }
}
fn whole() -> Ix {
    Ix::Span { start: None, end: None, step: 1 }
}
/// How many dims one index takes.
fn dims_named(a: &Argument) -> usize {
    match a {
        Argument::Ellipsis | Argument::None => 0,
        Argument::Tensor(t) if t.dtype() == DType::Bool => t.rank(),
        _ => 1,
    }
}
/// Where a mask holds: one tensor of positions for each of its dims.
pub(crate) fn positions(mask: &Tensor) -> Result<Vec<Tensor>> {
    Ok(mask.nonzero()?.unbind(1))
}

fn basic_index(a: &Argument) -> Result<Ix> {
    Ok(match a {
        Argument::Scalar(Scalar::Int(i)) => Ix::At(*i),
        Argument::Slice(start, end, step) => Ix::Span { start: *start, end: *end, step: step.unwrap_or(1) },
        Argument::Ellipsis => Ix::Ellipsis,
        Argument::None => Ix::NewAxis,
        other => return Err(Error::new(Kind::Argument, format!("__getitem__: {other:?} is no index"))),
    })
}

/// The sizes in which shapes meet, as a row of integers.
pub(crate) fn broadcast_shapes(args: &[Argument]) -> Result<Vec<Tensor>> {
    let number = |a: &Argument| if let Argument::Scalar(Scalar::Int(n)) = a { usize::try_from(*n).ok() } else { None };
    let sizes = |a: &Argument| match a {
        Argument::Ints(v) => v.iter().map(|&n| usize::try_from(n).ok()).collect(),
        Argument::List(v) => v.iter().map(number).collect(),
        one => number(one).map(|n| vec![n]),
    };
    let shapes: Option<Vec<Shape>> = args.iter().map(|a| sizes(a).map(|s| Shape::of(&s))).collect();
    let Some(shapes) = shapes else {
        return Err(Error::new(Kind::Argument, "broadcast_shapes: takes shapes"));
    };
    let met = rtx_ir::rules::broadcast_for("broadcast_shapes", &shapes.iter().collect::<Vec<_>>())?;
    let row: Vec<i64> = met.sizes().iter().map(|&n| n as i64).collect();
    Ok(vec![crate::from_slice(&row, row.len())])
}
