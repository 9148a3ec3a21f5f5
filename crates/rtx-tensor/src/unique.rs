//! Distinct elements and slices: their number depends on values, so these calls run the work (contract S4).
use crate::{Result, Tensor, read::Number};
use rtx_core::{Class, Error, Kind};
use std::cmp::Ordering;

/// Options of [`Tensor::unique_with`] and [`Tensor::unique_consecutive_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unique {
    /// The dim whose slices are compared; without it the elements of all dims are.
    pub dim: Option<i64>,
}

/// What is distinct, and where it came from.
#[derive(Debug)]
pub struct Distinct {
    /// The distinct elements, or the tensor with the distinct slices along the dim.
    pub values: Tensor,
    /// For each element, or slice, its place among the distinct ones; `i64`.
    pub inverse: Tensor,
    /// How often each occurs; `i64`.
    pub counts: Tensor,
}

impl Tensor {
    /// The distinct elements in ascending order. NaN equals nothing, itself neither.
    ///
    /// # Errors
    /// What went wrong while the tensor was computed, or complex elements.
    ///
    /// # Example
    /// ```
    /// use rtx_tensor::{self as torch, tensor};
    /// # fn main() -> torch::Result<()> {
    /// assert_eq!(tensor!([3, 1, 3, 2]).unique()?.to_vec::<i64>()?, [1, 2, 3]);
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn unique(&self) -> Result<Tensor> {
        Ok(self.unique_with(Unique::default())?.values)
    }
    /// Distinct elements or slices in ascending order, where each of the tensor is among them, and how often.
    ///
    /// # Errors
    /// What went wrong while the tensor was computed, complex elements, or a dim that does not exist.
    #[track_caller]
    pub fn unique_with(&self, options: Unique) -> Result<Distinct> {
        let lines = Lines::of(self, "unique", options.dim)?;
        let mut order: Vec<usize> = (0..lines.count).collect();
        order.sort_by(|&a, &b| lines.compare(a, b));
        lines.distinct(&order)
    }
    /// The elements without those that equal the one before.
    ///
    /// # Errors
    /// What went wrong while the tensor was computed, or complex elements.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(tensor!([3, 3, 1, 3]).unique_consecutive()?.to_vec::<i64>()?, [3, 1, 3]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn unique_consecutive(&self) -> Result<Tensor> {
        Ok(self.unique_consecutive_with(Unique::default())?.values)
    }
    /// Elements or slices without those that equal the one before, where each of the tensor is among them, and how long
    /// each run is.
    ///
    /// # Errors
    /// What went wrong while the tensor was computed, complex elements, or a dim that does not exist.
    #[track_caller]
    pub fn unique_consecutive_with(&self, options: Unique) -> Result<Distinct> {
        let lines = Lines::of(self, "unique_consecutive", options.dim)?;
        let order: Vec<usize> = (0..lines.count).collect();
        lines.distinct(&order)
    }
    /// Where the elements are not 0, a row each: [`Tensor::nonzero`].
    ///
    /// # Errors
    /// What went wrong while the tensor was computed.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(tensor!([0, 5, 3]).argwhere()?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn argwhere(&self) -> Result<Tensor> {
        self.nonzero()
    }
}

/// What is compared: elements, or slices along a dim.
struct Lines {
    /// With the compared dim in front.
    tensor: Tensor,
    dim: Option<i64>,
    /// The shape of the inverse.
    shape: Vec<usize>,
    elements: Vec<Number>,
    count: usize,
    length: usize,
}

impl Lines {
    fn of(x: &Tensor, op: &str, dim: Option<i64>) -> Result<Lines> {
        if x.dtype().class() == Class::Complex {
            return Err(Error::new(Kind::DType, format!("{op}: complex numbers have no order")));
        }
        let x = x.detach();
        let Some(dim) = dim else {
            let (shape, count) = (x.shape().to_vec(), x.numel());
            let tensor = x.reshape(-1);
            return Ok(Lines { elements: tensor.numbers()?, tensor, dim, shape, count, length: 1 });
        };
        if x.rank() == 0 && matches!(dim, -1 | 0) {
            return Ok(Lines {
                elements: x.numbers()?,
                tensor: x.reshape(-1),
                dim: None,
                shape: vec![1],
                count: 1,
                length: 1,
            });
        }
        let at = rtx_ir::rules::check_dim(op, dim, x.rank())?;
        let count = x.shape()[at];
        if x.numel() == 0 && count > 0 {
            let what = format!("{op}: slices of a tensor without elements, {:?}, are not compared", x.shape());
            return Err(Error::new(Kind::Shape, what));
        }
        let tensor = x.movedim(at as i64, 0);
        let length = x.numel() / count.max(1);
        Ok(Lines { elements: tensor.numbers()?, tensor, dim: Some(at as i64), shape: vec![count], count, length })
    }
    fn line(&self, i: usize) -> &[Number] {
        &self.elements[i * self.length..(i + 1) * self.length]
    }
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let pairs = self.line(a).iter().zip(self.line(b));
        pairs.map(|(a, b)| order(*a, *b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }
    fn equal(&self, a: usize, b: usize) -> bool {
        self.line(a).iter().zip(self.line(b)).all(|(a, b)| a == b)
    }
    /// Runs of equal lines in an order.
    fn distinct(&self, order: &[usize]) -> Result<Distinct> {
        let (mut first, mut counts): (Vec<i64>, Vec<i64>) = (Vec::new(), Vec::new());
        let mut inverse = vec![0i64; self.count];
        for (k, &i) in order.iter().enumerate() {
            match counts.last_mut() {
                Some(n) if self.equal(order[k - 1], i) => *n += 1,
                _ => {
                    first.push(i as i64);
                    counts.push(1);
                }
            }
            inverse[i] = counts.len() as i64 - 1;
        }
        let here = |t: Tensor| t.try_to_place((&self.tensor.device()).into());
        let ids = here(crate::from_slice(&first, first.len()))?;
        let values = self.tensor.i(&ids);
        Ok(Distinct {
            values: self.dim.map_or(values.alias(), |d| values.movedim(0, d)),
            inverse: here(crate::from_slice(&inverse, self.shape.clone()))?,
            counts: here(crate::from_slice(&counts, counts.len()))?,
        })
    }
}

/// Ascending, NaN last.
fn order(a: Number, b: Number) -> Ordering {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a.cmp(&b),
        _ => {
            let (a, b) = (a.to_f64(), b.to_f64());
            a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
    }
}
