//! Sizes as users write them: `5`, `[2, 3]`, `(b, t, -1)`; dims as `-1`, `[0, 1]`, `..`, `keep(-1)`.
use rtx_core::{Error, Kind, Result};

/// An integer of any of the usual widths.
pub trait Int: Copy {
    /// The number.
    fn int(self) -> i64;
}
macro_rules! ints { ($($T:ty)*) => { $(impl Int for $T { fn int(self) -> i64 { self as i64 } })* } }
ints!(usize i32 i64 u32);

/// What stands for the sizes of a tensor.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a shape",
    note = "write `5`, `[2, 3]`, `(b, t, -1)` or `&x.shape()`"
)]
pub trait IntoShape {
    /// The sizes, `-1` where one is left to be found.
    fn sizes(self) -> Vec<i64>;
}
impl<T: Int> IntoShape for T {
    fn sizes(self) -> Vec<i64> {
        vec![self.int()]
    }
}
impl<T: Int, const N: usize> IntoShape for [T; N] {
    fn sizes(self) -> Vec<i64> {
        self.iter().map(|n| n.int()).collect()
    }
}
impl<T: Int, const N: usize> IntoShape for &[T; N] {
    fn sizes(self) -> Vec<i64> {
        self.iter().map(|n| n.int()).collect()
    }
}
impl<T: Int> IntoShape for &[T] {
    fn sizes(self) -> Vec<i64> {
        self.iter().map(|n| n.int()).collect()
    }
}
impl<T: Int> IntoShape for Vec<T> {
    fn sizes(self) -> Vec<i64> {
        self.as_slice().sizes()
    }
}
impl<T: Int> IntoShape for &Vec<T> {
    fn sizes(self) -> Vec<i64> {
        self.as_slice().sizes()
    }
}
impl IntoShape for () {
    fn sizes(self) -> Vec<i64> {
        Vec::new()
    }
}
macro_rules! tuples { ($($($T:ident)+;)*) => { $(
    impl<$($T: Int),+> IntoShape for ($($T,)+) {
        #[allow(non_snake_case, reason = "one name for a type and its value")]
        fn sizes(self) -> Vec<i64> { let ($($T,)+) = self; vec![$($T.int()),+] }
    }
)* } }
tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E G; }

/// Dims of a reduction, and whether they stay as size 1.
#[derive(Clone, Debug)]
pub struct Axes {
    /// `None`: all of them.
    pub(crate) dims: Option<Vec<i64>>,
    pub(crate) keep: bool,
}
impl Axes {
    /// The dims as an argument.
    pub(crate) fn list(&self) -> crate::Argument {
        self.dims.clone().into()
    }
}

/// What names the dims of a reduction.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name dims",
    note = "write `-1`, `[0, 1]`, `..` for all, `keep(-1)` to keep them as size 1"
)]
pub trait IntoAxes {
    /// The dims.
    fn axes(self) -> Axes;
}
impl<T: Int> IntoAxes for T {
    fn axes(self) -> Axes {
        Axes { dims: Some(vec![self.int()]), keep: false }
    }
}
impl<T: Int, const N: usize> IntoAxes for [T; N] {
    fn axes(self) -> Axes {
        Axes { dims: Some(self.sizes()), keep: false }
    }
}
impl<T: Int> IntoAxes for &[T] {
    fn axes(self) -> Axes {
        Axes { dims: Some(self.sizes()), keep: false }
    }
}
impl IntoAxes for std::ops::RangeFull {
    fn axes(self) -> Axes {
        Axes { dims: None, keep: false }
    }
}
impl IntoAxes for Axes {
    fn axes(self) -> Axes {
        self
    }
}
/// PyTorch's `keepdim=True`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::ones([2, 3]).sum(torch::keep(-1)).shape(), [2, 1]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn keep(axes: impl IntoAxes) -> Axes {
    Axes { keep: true, ..axes.axes() }
}

/// A dim counted from the end when negative.
pub(crate) fn wrap_dim(op: &str, dim: i64, rank: usize) -> Result<usize> {
    rtx_ir::rules::check_dim(op, dim, rank)
}

/// Sizes of a tensor that is made: none may be negative.
pub(crate) fn check_sizes(op: &str, sizes: &[i64]) -> Result<Vec<usize>> {
    sizes
        .iter()
        .map(|&n| usize::try_from(n))
        .collect::<Result<_, _>>()
        .map_err(|_| Error::new(Kind::Shape, format!("{op}: a size is negative: {sizes:?}")))
}

/// The sizes that `numel` elements of `from` take when one of `want` may be left open.
pub(crate) fn infer_reshape(from: &[usize], want: &[i64]) -> Result<Vec<usize>> {
    let numel: usize = from.iter().product();
    let refuse =
        || Error::new(Kind::Shape, format!("reshape: {from:?} has {numel} elements, {want:?} cannot hold them"));
    let open = want.iter().filter(|&&n| n == -1).count();
    if open > 1 || want.iter().any(|&n| n < -1) {
        return Err(Error::new(Kind::Shape, format!("reshape: only one size may be -1, and none below it: {want:?}")));
    }
    let known: usize = want.iter().filter(|&&n| n >= 0).map(|&n| n as usize).product();
    if open == 1 && (known == 0 || !numel.is_multiple_of(known)) || open == 0 && known != numel {
        return Err(refuse());
    }
    Ok(want.iter().map(|&n| if n == -1 { numel / known } else { n as usize }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshape_finds_the_open_size() {
        assert_eq!(infer_reshape(&[2, 6], &[3, -1]).ok(), Some(vec![3, 4]));
        assert_eq!(infer_reshape(&[0, 3], &[3, 0]).ok(), Some(vec![3, 0]));
        for wrong in [&[5, -1][..], &[-1, -1], &[-2, 6], &[0, -1], &[12, 2]] {
            assert!(infer_reshape(&[2, 6], wrong).is_err(), "{wrong:?}");
        }
    }
}
