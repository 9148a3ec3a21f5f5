//! From items to one batch: numbers and rows are put together on the host, tensors are stacked.
use rtx_core::{Element, Error, Kind, Result};
use rtx_tensor::{Tensor, from_slice, stack};

/// What a loader can put together (PyTorch's `default_collate`).
pub trait Collate: Sized {
    /// A batch of them.
    type Batch;
    /// Puts items together along a new first dim.
    ///
    /// # Errors
    /// When the items' sizes differ.
    fn collate(items: &[Self]) -> Result<Self::Batch>;
}

macro_rules! numbers { ($($T:ty)*) => { $(
    impl Collate for $T {
        type Batch = Tensor;
        fn collate(items: &[Self]) -> Result<Tensor> { Ok(from_slice(items, items.len())) }
    }
)* } }
numbers!(f32 f64 i64 u8 bool);

/// Rows of equal length become a matrix.
impl<T: Element> Collate for Vec<T> {
    type Batch = Tensor;
    fn collate(items: &[Self]) -> Result<Tensor> {
        let length = items.first().map_or(0, Vec::len);
        if let Some(other) = items.iter().find(|row| row.len() != length) {
            let what = format!("collate: rows of {length} and {} elements do not form a batch", other.len());
            return Err(Error::new(Kind::Shape, what));
        }
        Ok(from_slice(&items.concat(), [items.len(), length]))
    }
}

impl Collate for Tensor {
    type Batch = Tensor;
    fn collate(items: &[Self]) -> Result<Tensor> {
        let Some(first) = items.first() else { return Err(Error::new(Kind::Argument, "collate: no tensors")) };
        if let Some(other) = items.iter().find(|t| t.shape() != first.shape()) {
            let what = format!("collate: shapes {:?} and {:?} do not form a batch", first.shape(), other.shape());
            return Err(Error::new(Kind::Shape, what));
        }
        Ok(stack(items, 0))
    }
}

macro_rules! tuples { ($($($T:ident $i:tt)+;)*) => { $(
    impl<$($T: Collate + Clone),+> Collate for ($($T,)+) {
        type Batch = ($($T::Batch,)+);
        fn collate(items: &[Self]) -> Result<Self::Batch> {
            Ok(($($T::collate(&items.iter().map(|item| item.$i.clone()).collect::<Vec<_>>())?,)+))
        }
    }
)* } }
tuples! { A 0 B 1; A 0 B 1 C 2; }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_of_rows_and_numbers() {
        let items = [(vec![1f32, 2.0], 7i64), (vec![3.0, 4.0], 8)];
        let (x, y) = <(Vec<f32>, i64)>::collate(&items).expect("fits");
        assert_eq!((x.shape(), y.shape()), (vec![2, 2], vec![2]));
        assert_eq!(x.to_vec::<f32>().expect("reads"), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(y.to_vec::<i64>().expect("reads"), [7, 8]);
    }

    #[test]
    fn ragged_rows_are_refused() {
        let e = Vec::<f32>::collate(&[vec![1.0], vec![]]).expect_err("ragged");
        assert_eq!(e.message(), "collate: rows of 1 and 0 elements do not form a batch");
    }
}
