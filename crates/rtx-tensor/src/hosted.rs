//! Calls whose results depend on values: they read on the host, so they are no nodes of a graph (contract S4).
use crate::{
    Result, Tensor,
    call::{self, Argument},
    index::Ix,
    unique::{Distinct, Unique},
};
use rtx_core::{Error, Kind, Scalar, Shape};

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
pub(crate) static ALL: &[&[Hosted]] = &[COMPARISONS, DISTINCT];

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
    Hosted { sig: "argwhere(Tensor self) -> Tensor", run: |a| Ok(vec![tensor(a, 0)?.nonzero()?]) },
    Hosted { sig: "nonzero_numpy(Tensor self) -> Tensor[]", run: |a| by_dim(tensor(a, 0)?) },
    // As Python's function has it.
    Hosted {
        sig: "nonzero.as_tuple(Tensor self, *, bool as_tuple=False) -> Tensor[]",
        run: |a| {
            let x = tensor(a, 0)?;
            if flag(a, 1) { by_dim(x) } else { Ok(vec![x.nonzero()?]) }
        },
    },
    Hosted {
        sig: "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
        run: |a| {
            let (x, r) = (tensor(a, 0)?, usize::try_from(int(a, 1).unwrap_or(2)));
            let r = r.map_err(|_| Error::new(Kind::Argument, "combinations: r is not negative"))?;
            if x.rank() != 1 {
                let what = format!("combinations: needs one dim, got {:?}", x.shape());
                return Err(Error::new(Kind::Shape, what));
            }
            Ok(vec![crate::combinations(x, r, flag(a, 2))])
        },
    },
    Hosted {
        sig: "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor",
        run: |a| Ok(vec![repeat_each(tensor(a, 0)?, tensor(a, 1)?, a.get(2), a.get(3))?]),
    },
    Hosted { sig: "item(Tensor self) -> Scalar", run: |a| Ok(vec![one_element(tensor(a, 0)?)?]) },
];

/// Distinct elements and slices.
const DISTINCT: &[Hosted] = &[
    // As Python's functions have it: only what is asked for.
    Hosted {
        sig: "unique(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False, int? dim=None) -> Tensor[]",
        run: |a| {
            let found = tensor(a, 0)?.unique_with(Unique { dim: int(a, 4) })?;
            Ok(wanted(found, [flag(a, 2), flag(a, 3)]))
        },
    },
    Hosted {
        sig: "unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> Tensor[]",
        run: |a| {
            let found = tensor(a, 0)?.unique_consecutive_with(Unique { dim: int(a, 3) })?;
            Ok(wanted(found, [flag(a, 1), flag(a, 2)]))
        },
    },
    Hosted {
        sig: "_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
        run: |a| Ok(wanted(tensor(a, 0)?.unique_with(Unique::default())?, [true; 2])),
    },
    Hosted {
        sig: "unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
        run: |a| Ok(wanted(tensor(a, 0)?.unique_with(Unique { dim: int(a, 1) })?, [true; 2])),
    },
    Hosted {
        sig: "unique_dim_consecutive(Tensor self, int dim, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)",
        run: |a| Ok(wanted(tensor(a, 0)?.unique_consecutive_with(Unique { dim: int(a, 1) })?, [true; 2])),
    },
];

/// The distinct ones, then where they are and how often, as far as asked.
fn wanted(found: Distinct, [inverse, counts]: [bool; 2]) -> Vec<Tensor> {
    let rest = [(inverse, found.inverse), (counts, found.counts)].into_iter().filter(|(asked, _)| *asked);
    [found.values].into_iter().chain(rest.map(|(_, t)| t)).collect()
}
/// Where the elements are not 0, one row of positions for each dim; a number is a vector of one.
fn by_dim(x: &Tensor) -> Result<Vec<Tensor>> {
    let x = if x.rank() == 0 { x.reshape(-1) } else { x.alias() };
    Ok(x.nonzero()?.unbind(1))
}
/// Argument `i` as an integer, where it is one.
fn int(args: &[Argument], i: usize) -> Option<i64> {
    if let Some(Argument::Scalar(Scalar::Int(n))) = args.get(i) { Some(*n) } else { None }
}
/// Is argument `i` true?
fn flag(args: &[Argument], i: usize) -> bool {
    matches!(args.get(i), Some(Argument::Scalar(Scalar::Bool(true))))
}

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
    Ok(vec![x.read_index(items.iter().map(index_of).collect::<Result<Vec<_>>>()?)?])
}
/// Where a mask holds: one tensor of positions for each of its dims.
pub(crate) fn positions(mask: &Tensor) -> Result<Vec<Tensor>> {
    Ok(mask.nonzero()?.unbind(1))
}

fn index_of(a: &Argument) -> Result<Ix> {
    Ok(match a {
        Argument::Scalar(Scalar::Int(i)) => Ix::At(*i),
        Argument::Ints(v) => Ix::Tensor(crate::from_slice(v, v.len())),
        Argument::Tensor(t) => Ix::Tensor(t.alias()),
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
