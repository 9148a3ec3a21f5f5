//! `x.i((.., 1..3, -1))`: PyTorch's `x[:, 1:3, -1]`.
use crate::{Tensor, shape::Int};
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// One index.
#[derive(Clone, Debug)]
pub enum Ix {
    /// A position; the dim goes away.
    At(i64),
    /// A range; the dim stays.
    Span {
        /// Where it starts.
        start: Option<i64>,
        /// Where it ends, exclusive.
        end: Option<i64>,
        /// How far apart; not 0.
        step: i64,
    },
    /// As many full ranges as are missing.
    Ellipsis,
    /// A new dim of size 1.
    NewAxis,
    /// Positions from a tensor of integers, or where a mask holds.
    Tensor(Tensor),
}

/// `...` of Python.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::zeros([2, 3, 4]).i((torch::Ellipsis, 0)).shape(), [2, 3]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Ellipsis;
/// `None` of Python.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::zeros([2, 3]).i((.., torch::NewAxis)).shape(), [2, 1, 3]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct NewAxis;

/// `a:b:n` of Python: `step(.., -1)` reverses.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::arange(0..6).i(torch::step(.., 2)).to_vec::<i64>()?, [0, 2, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn step(range: impl IntoIx, by: i64) -> Ix {
    match range.ix() {
        Ix::Span { start, end, .. } => Ix::Span { start, end, step: by },
        other => other,
    }
}

/// What can stand as one index.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot index a tensor",
    note = "an index is an integer, a range, `step(range, n)`, `NewAxis`, `Ellipsis` or a `&Tensor` of integers or bools"
)]
pub trait IntoIx {
    /// The index.
    fn ix(self) -> Ix;
}
fn span(start: Option<i64>, end: Option<i64>) -> Ix {
    Ix::Span { start, end, step: 1 }
}
/// The end after an inclusive one: `..=-1` goes to the end.
fn after(last: i64) -> Option<i64> {
    if last == -1 { None } else { Some(last + 1) }
}
impl<T: Int> IntoIx for T {
    fn ix(self) -> Ix {
        Ix::At(self.int())
    }
}
impl IntoIx for RangeFull {
    fn ix(self) -> Ix {
        span(None, None)
    }
}
impl<T: Int> IntoIx for Range<T> {
    fn ix(self) -> Ix {
        span(Some(self.start.int()), Some(self.end.int()))
    }
}
impl<T: Int> IntoIx for RangeFrom<T> {
    fn ix(self) -> Ix {
        span(Some(self.start.int()), None)
    }
}
impl<T: Int> IntoIx for RangeTo<T> {
    fn ix(self) -> Ix {
        span(None, Some(self.end.int()))
    }
}
impl<T: Int> IntoIx for RangeInclusive<T> {
    fn ix(self) -> Ix {
        span(Some(self.start().int()), after(self.end().int()))
    }
}
impl<T: Int> IntoIx for RangeToInclusive<T> {
    fn ix(self) -> Ix {
        span(None, after(self.end.int()))
    }
}
impl IntoIx for Ellipsis {
    fn ix(self) -> Ix {
        Ix::Ellipsis
    }
}
impl IntoIx for NewAxis {
    fn ix(self) -> Ix {
        Ix::NewAxis
    }
}
impl IntoIx for Ix {
    fn ix(self) -> Ix {
        self
    }
}
impl IntoIx for &Tensor {
    fn ix(self) -> Ix {
        Ix::Tensor(self.alias())
    }
}

/// One index or a tuple of them.
pub trait IntoIndex {
    /// The indices in order.
    fn index(self) -> Vec<Ix>;
}
impl<T: IntoIx> IntoIndex for T {
    fn index(self) -> Vec<Ix> {
        vec![self.ix()]
    }
}
impl IntoIndex for Vec<Ix> {
    fn index(self) -> Vec<Ix> {
        self
    }
}
macro_rules! tuples { ($($($T:ident)+;)*) => { $(
    impl<$($T: IntoIx),+> IntoIndex for ($($T,)+) {
        #[allow(non_snake_case, reason = "one name for a type and its value")]
        fn index(self) -> Vec<Ix> { let ($($T,)+) = self; vec![$($T.ix()),+] }
    }
)* } }
tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E G; }
