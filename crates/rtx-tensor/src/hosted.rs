//! Calls whose results depend on values: they read on the host, so they are no nodes of a graph (contract S4).
use crate::{Result, Tensor, call::Argument, index::Ix};
use rtx_core::{DType, Error, Kind, Scalar};

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
    Hosted { sig: "item(Tensor self) -> Scalar", run: |a| Ok(vec![one_element(tensor(a, 0)?)?]) },
];

fn one_element(x: &Tensor) -> Result<Tensor> {
    if x.numel() == 1 {
        return Ok(x.reshape(()));
    }
    Err(Error::new(Kind::Shape, format!("item: needs one element, shape is {:?}", x.shape())))
}

/// Argument `i` as a tensor.
pub(crate) fn tensor(args: &[Argument], i: usize) -> Result<&Tensor> {
    match args.get(i) {
        Some(Argument::Tensor(t)) => Ok(t),
        _ => Err(Error::new(Kind::Argument, format!("argument {i} takes a tensor"))),
    }
}

/// `x[index]` as Python writes it: one index or a list of them.
#[track_caller]
pub(crate) fn get_item(args: &[Argument]) -> Result<Vec<Tensor>> {
    let x = tensor(args, 0)?;
    let index = match args.get(1) {
        Some(Argument::List(list)) => list.iter().map(index_of).collect::<Result<Vec<_>>>()?,
        Some(one) => vec![index_of(one)?],
        None => return Err(Error::new(Kind::Argument, "__getitem__: the index is missing")),
    };
    Ok(vec![x.read_index(index)?])
}

fn index_of(a: &Argument) -> Result<Ix> {
    Ok(match a {
        Argument::Scalar(Scalar::Int(i)) => Ix::At(*i),
        Argument::Slice(start, end, step) => Ix::Span { start: *start, end: *end, step: step.unwrap_or(1) },
        Argument::Ellipsis => Ix::Ellipsis,
        Argument::None => Ix::NewAxis,
        Argument::Tensor(t) if t.dtype() != DType::Bool => Ix::Tensor(t.alias()),
        Argument::Ints(v) => Ix::Tensor(crate::from_slice(v, v.len())),
        other => {
            return Err(Error::new(Kind::Unsupported, format!("__getitem__: an index {other:?} is not built yet")));
        }
    })
}
