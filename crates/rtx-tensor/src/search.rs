//! `torch.searchsorted` and its kin: functions of the table whose first argument is no `self`.
use crate::{
    Error, Kind, Tensor,
    call::{self, Argument, op},
    failure::OrPanic,
    operand::Operand,
    shape::Int,
};

/// Options of [`searchsorted_with`].
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let right = torch::SearchSorted { right: true, ..Default::default() };
/// assert_eq!(torch::searchsorted_with(&tensor!([1., 3.]), tensor!([3.]), right).to_vec::<i64>()?, [2]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SearchSorted {
    /// Count what is not greater, instead of what is less.
    pub right: bool,
    /// An order that sorts the sequence.
    pub sorter: Option<Tensor>,
}

/// How many elements of each sorted line are less than each value: where it would be inserted.
///
/// # Panics
/// When the leading dims differ.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::searchsorted(&tensor!([1., 3., 5.]), tensor!([3., 4.])).to_vec::<i64>()?, [1, 2]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn searchsorted(sequence: &Tensor, values: impl Operand) -> Tensor {
    searchsorted_with(sequence, values, SearchSorted::default())
}
/// [`searchsorted`] with options.
///
/// # Panics
/// When the leading dims differ.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let right = torch::SearchSorted { right: true, ..Default::default() };
/// assert_eq!(torch::searchsorted_with(&tensor!([1., 3., 5.]), tensor!([3., 4.]), right).to_vec::<i64>()?, [2, 2]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn searchsorted_with(sequence: &Tensor, values: impl Operand, options: SearchSorted) -> Tensor {
    let kwargs = [("right", options.right.into()), ("sorter", options.sorter.as_ref().into())];
    call::call_bound(op!("searchsorted"), &[sequence.into(), values.argument()], &kwargs).or_panic()
}
/// Is each element among the test elements?
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::isin(tensor!([1, 2, 3]), tensor!([2, 9])).to_vec::<bool>()?, [false, true, false]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn isin(elements: impl Operand, test_elements: impl Operand) -> Tensor {
    call::call_bound(op!("isin"), &[elements.argument(), test_elements.argument()], &[]).or_panic()
}
/// The integral along a dim by the trapezoid rule with steps of `dx`.
///
/// # Panics
/// When there is no such dim.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::trapezoid(&tensor!([1., 3., 5.]), 1., -1).item::<f32>()?, 6.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn trapezoid(y: &Tensor, dx: f64, dim: impl Int) -> Tensor {
    call::call_bound(op!("trapezoid"), &[y.into()], &[("dx", dx.into()), ("dim", dim.int().into())]).or_panic()
}
/// [`trapezoid`] under NumPy's name.
///
/// # Panics
/// When there is no such dim.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::trapz(&tensor!([1., 3., 5.]), 1., -1).item::<f32>()?, 6.);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn trapz(y: &Tensor, dx: f64, dim: impl Int) -> Tensor {
    trapezoid(y, dx, dim)
}
/// Running sums of [`trapezoid`].
///
/// # Panics
/// When there is no such dim.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::cumulative_trapezoid(&tensor!([1., 3., 5.]), 1., -1).to_vec::<f32>()?, [2., 6.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn cumulative_trapezoid(y: &Tensor, dx: f64, dim: impl Int) -> Tensor {
    let kwargs = [("dx", dx.into()), ("dim", dim.int().into())];
    call::call_bound(op!("cumulative_trapezoid"), &[y.into()], &kwargs).or_panic()
}
/// Every tuple of one element of each tensor, a row each.
///
/// # Panics
/// When a tensor has not one dim.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::cartesian_prod(&[tensor!([1, 2]), tensor!([5, 6])]).to_vec::<i64>()?, [1, 5, 1, 6, 2, 5, 2, 6]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn cartesian_prod<T: AsRef<Tensor>>(parts: &[T]) -> Tensor {
    let parts = Argument::Tensors(parts.iter().map(|t| t.as_ref().alias()).collect());
    call::call_one(op!("cartesian_prod"), &[parts]).or_panic()
}

/// Rows and columns of the lower triangle of a matrix, `i64` `[2, n]`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::tril_indices(2, 2, 0).to_vec::<i64>()?, [0, 1, 1, 0, 0, 1]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn tril_indices(rows: usize, columns: usize, offset: i64) -> Tensor {
    triangle(rows, columns, |r, c| c <= r + offset)
}
/// Rows and columns of the upper triangle of a matrix, `i64` `[2, n]`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::triu_indices(2, 2, 0).to_vec::<i64>()?, [0, 0, 1, 0, 1, 1]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn triu_indices(rows: usize, columns: usize, offset: i64) -> Tensor {
    triangle(rows, columns, |r, c| c >= r + offset)
}
fn triangle(rows: usize, columns: usize, keep: impl Fn(i64, i64) -> bool) -> Tensor {
    let places = || (0..rows as i64).flat_map(|r| (0..columns as i64).map(move |c| (r, c)));
    let kept: Vec<(i64, i64)> = places().filter(|&(r, c)| keep(r, c)).collect();
    let both: Vec<i64> = kept.iter().map(|p| p.0).chain(kept.iter().map(|p| p.1)).collect();
    crate::from_slice(&both, (2usize, kept.len()))
}

/// Every choice of `r` elements of a line in their order, a row each; with replacement an element may be chosen again.
///
/// # Panics
/// When the tensor has not one dim.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::combinations(&tensor!([1, 2, 3]), 2, false).to_vec::<i64>()?, [1, 2, 1, 3, 2, 3]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn combinations(x: &Tensor, r: usize, with_replacement: bool) -> Tensor {
    let [n] = x.shape()[..] else {
        let what = format!("combinations: needs one dim, got {:?}", x.shape());
        return Err(Error::new(Kind::Shape, what)).or_panic();
    };
    let (chosen, rows) = choices(n, r, with_replacement);
    x.i(&crate::from_slice(&chosen, chosen.len())).reshape((rows, r))
}
/// The choices one after the other, and how many there are.
fn choices(n: usize, r: usize, with_replacement: bool) -> (Vec<i64>, usize) {
    let mut row: Vec<usize> = (0..r).map(|i| if with_replacement { 0 } else { i }).collect();
    let end = |i: usize| if with_replacement { n } else { (n + i + 1).saturating_sub(r) };
    let (mut all, mut rows) = (Vec::new(), 0);
    if (0..r).any(|i| row[i] >= end(i)) {
        return (all, rows);
    }
    loop {
        all.extend(row.iter().map(|&i| i as i64));
        rows += 1;
        let Some(at) = (0..r).rev().find(|&i| row[i] + 1 < end(i)) else { return (all, rows) };
        row[at] += 1;
        for i in at + 1..r {
            row[i] = row[i - 1] + usize::from(!with_replacement);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::choices;

    #[test]
    fn choices_are_counted() {
        assert_eq!(choices(3, 2, false), (vec![0, 1, 0, 2, 1, 2], 3));
        assert_eq!(choices(2, 2, true), (vec![0, 0, 0, 1, 1, 1], 3));
        assert_eq!(choices(1, 2, false), (vec![], 0));
        assert_eq!(choices(2, 0, false), (vec![], 1));
    }
}
