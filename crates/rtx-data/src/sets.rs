//! Datasets made of datasets: parts, chains, changed items; and rows of tensors.
use crate::{Collate, Dataset, Stream};
use rtx_core::{DType, Error, Kind, Result};
use rtx_tensor::{Tensor, from_bytes};
use std::sync::Arc;

fn outside(what: &str, i: usize, len: usize) -> Error {
    Error::new(Kind::Index, format!("{what}: index {i} is outside 0..{len}"))
}

/// Some items of a dataset, by their numbers.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let set = data::TensorDataset::new([torch::arange(0..10)])?;
/// assert_eq!(data::Subset::new(set, vec![7, 3]).len(), 2);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Subset<D> {
    set: Arc<D>,
    indices: Vec<usize>,
}
impl<D: Dataset> Subset<D> {
    /// The items `indices` of `set`, in this order.
    pub fn new(set: impl Into<Arc<D>>, indices: Vec<usize>) -> Self {
        Self { set: set.into(), indices }
    }
    fn index(&self, i: usize) -> Result<usize> {
        self.indices.get(i).copied().ok_or_else(|| outside("Subset", i, self.indices.len()))
    }
}
impl<D: Dataset> Dataset for Subset<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        self.indices.len()
    }
    fn get(&self, i: usize) -> Result<D::Item> {
        self.set.get(self.index(i)?)
    }
    fn draw(&self, i: usize, stream: &mut Stream) -> Result<D::Item> {
        self.set.draw(self.index(i)?, stream)
    }
}

/// What the stream that splits is for.
const SPLIT: u32 = 5;

/// Cuts a dataset at random into parts of the given sizes; `seed` decides which item goes where.
///
/// # Errors
/// When the sizes do not add up to the dataset's.
///
/// # Example
/// ```
/// use rtx_data::{Dataset, TensorDataset, random_split};
/// let set = TensorDataset::new([rtx_tensor::arange(0..10)]).unwrap();
/// let parts = random_split(set, &[8, 2], 1).unwrap();
/// assert_eq!((parts[0].len(), parts[1].len()), (8, 2));
/// ```
pub fn random_split<D: Dataset>(set: D, sizes: &[usize], seed: u64) -> Result<Vec<Subset<D>>> {
    let sum: usize = sizes.iter().sum();
    if sum != set.len() {
        let what = format!("random_split: parts of {sizes:?} are {sum} items, the dataset has {}", set.len());
        return Err(Error::new(Kind::Argument, what));
    }
    let mut order: Vec<usize> = (0..set.len()).collect();
    Stream::new(seed, SPLIT, 0, 0).shuffle(&mut order);
    let set = Arc::new(set);
    let mut rest = order.as_slice();
    let mut take = |n: usize| {
        let (part, after) = rest.split_at(n);
        rest = after;
        Subset { set: set.clone(), indices: part.to_vec() }
    };
    Ok(sizes.iter().map(|n| take(*n)).collect())
}

/// One dataset after the other (PyTorch's `ConcatDataset`).
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let set = |n: i64| data::TensorDataset::new([torch::arange(0..n)]);
/// assert_eq!(data::Concat::new(vec![set(3)?, set(4)?]).len(), 7);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Concat<D> {
    sets: Vec<D>,
}
impl<D: Dataset> Concat<D> {
    /// `sets`, in this order.
    pub fn new(sets: Vec<D>) -> Self {
        Self { sets }
    }
    fn find(&self, i: usize) -> Result<(&D, usize)> {
        let mut left = i;
        for set in &self.sets {
            match left.checked_sub(set.len()) {
                Some(rest) => left = rest,
                None => return Ok((set, left)),
            }
        }
        Err(outside("Concat", i, self.len()))
    }
}
impl<D: Dataset> Dataset for Concat<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        self.sets.iter().map(Dataset::len).sum()
    }
    fn get(&self, i: usize) -> Result<D::Item> {
        let (set, i) = self.find(i)?;
        set.get(i)
    }
    fn draw(&self, i: usize, stream: &mut Stream) -> Result<D::Item> {
        let (set, i) = self.find(i)?;
        set.draw(i, stream)
    }
}

/// A dataset whose items go through a function as they are fetched: made by [`Dataset::map`].
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let set = data::TensorDataset::new([torch::arange(0..4)])?;
/// let set = set.map(|_item, stream| Ok(stream.unit())); // a stream of random numbers for each item
/// let first: f32 = set.get(0)?;
/// assert!((0. ..1.).contains(&first));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Map<D, F> {
    pub(crate) set: D,
    pub(crate) f: F,
}
impl<D, F, T> Dataset for Map<D, F>
where
    D: Dataset,
    F: Fn(D::Item, &mut Stream) -> Result<T> + Send + Sync,
{
    type Item = T;
    fn len(&self) -> usize {
        self.set.len()
    }
    /// Without a loader there is one stream, the same for every pass.
    fn get(&self, i: usize) -> Result<T> {
        self.draw(i, &mut Stream::new(0, SPLIT, 0, i as u32))
    }
    fn draw(&self, i: usize, stream: &mut Stream) -> Result<T> {
        (self.f)(self.set.draw(i, stream)?, stream)
    }
}

/// One item of a [`TensorDataset`]: a tensor on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub shape: Vec<usize>,
    /// The elements in row-major order.
    pub bytes: Vec<u8>,
}
impl Collate for Row {
    type Batch = Tensor;
    fn collate(items: &[Self]) -> Result<Tensor> {
        let Some(first) = items.first() else { return Err(Error::new(Kind::Argument, "collate: no rows")) };
        if let Some(other) = items.iter().find(|r| (r.dtype, &r.shape) != (first.dtype, &first.shape)) {
            let what = format!(
                "collate: {} {:?} and {} {:?} do not form a batch",
                first.dtype, first.shape, other.dtype, other.shape
            );
            return Err(Error::new(Kind::Shape, what));
        }
        let bytes: Vec<u8> = items.iter().flat_map(|r| &r.bytes).copied().collect();
        from_bytes(first.dtype, [&[items.len()][..], &first.shape].concat(), &bytes)
    }
}

/// Tensors whose first dim counts the items: a batch is one tensor of each (PyTorch's `TensorDataset`).
///
/// # Example
/// ```
/// use rtx_data::{DataLoader, TensorDataset};
/// let (x, y) = (rtx_tensor::rand([10, 3]), rtx_tensor::arange(0..10));
/// let loader = DataLoader::new(TensorDataset::new([x, y]).unwrap(), 4);
/// let [x, y] = loader.iter().next().unwrap().unwrap();
/// assert_eq!((x.shape(), y.shape()), (vec![4, 3], vec![4]));
/// ```
#[derive(Clone, Debug)]
pub struct TensorDataset<const N: usize> {
    len: usize,
    tensors: [Row; N],
}
impl<const N: usize> TensorDataset<N> {
    /// Reads the tensors to the host.
    ///
    /// # Errors
    /// When their first dims differ or a value cannot be read.
    pub fn new(tensors: [Tensor; N]) -> Result<Self> {
        let shapes: Vec<Vec<usize>> = tensors.iter().map(|t| t.shape()).collect();
        let len = shapes.first().and_then(|s| s.first()).copied().unwrap_or(0);
        if shapes.iter().any(|s| s.first() != Some(&len)) {
            let what = format!("TensorDataset: first dims differ: {shapes:?}");
            return Err(Error::new(Kind::Shape, what));
        }
        let read =
            tensors.map(|t| Ok(Row { dtype: t.dtype(), shape: t.shape()[1..].to_vec(), bytes: t.read_bytes()? }));
        let rows: Vec<Row> = read.into_iter().collect::<Result<_>>()?;
        let tensors = rows.try_into().map_err(|_| Error::new(Kind::Internal, "TensorDataset: lost a tensor"))?;
        Ok(Self { len, tensors })
    }
}
impl<const N: usize> Dataset for TensorDataset<N> {
    type Item = [Row; N];
    fn len(&self) -> usize {
        self.len
    }
    fn get(&self, i: usize) -> Result<[Row; N]> {
        if i >= self.len {
            return Err(outside("TensorDataset", i, self.len));
        }
        Ok(self.tensors.each_ref().map(|t| {
            let size = t.bytes.len() / self.len;
            Row { bytes: t.bytes[i * size..(i + 1) * size].to_vec(), shape: t.shape.clone(), ..*t }
        }))
    }
}
impl<T: Collate + Clone, const N: usize> Collate for [T; N] {
    type Batch = [T::Batch; N];
    fn collate(items: &[Self]) -> Result<Self::Batch> {
        let field = |i: usize| T::collate(&items.iter().map(|item| item[i].clone()).collect::<Vec<_>>());
        let fields: Vec<T::Batch> = (0..N).map(field).collect::<Result<_>>()?;
        fields.try_into().map_err(|_| Error::new(Kind::Internal, "collate: lost a field"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtx_tensor::{arange, rand};

    fn numbers(n: i64) -> TensorDataset<1> {
        TensorDataset::new([arange(0..n)]).expect("reads")
    }
    fn value(set: &impl Dataset<Item = [Row; 1]>, i: usize) -> i64 {
        let [row] = set.get(i).expect("in range");
        i64::from_le_bytes(row.bytes.try_into().expect("8 bytes"))
    }

    #[test]
    fn a_split_has_every_item_once() {
        let parts = random_split(numbers(10), &[7, 3], 3).expect("adds up");
        let mut all: Vec<i64> = parts.iter().flat_map(|p| (0..p.len()).map(|i| value(p, i))).collect();
        assert_ne!(all, (0..10).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        let e = random_split(numbers(10), &[7, 4], 3).map(drop).expect_err("11");
        assert_eq!(e.message(), "random_split: parts of [7, 4] are 11 items, the dataset has 10");
        assert_eq!(parts[1].get(3).expect_err("3 items").message(), "Subset: index 3 is outside 0..3");
    }

    #[test]
    fn chains_and_maps() {
        let chain = Concat::new(vec![numbers(2), numbers(3)]);
        assert_eq!((0..chain.len()).map(|i| value(&chain, i)).collect::<Vec<_>>(), [0, 1, 0, 1, 2]);
        assert_eq!(chain.get(5).expect_err("5 items").message(), "Concat: index 5 is outside 0..5");
        let twice = numbers(3).map(|[row], _| Ok(row.bytes[0] as f32 * 2.0));
        assert_eq!(twice.get(2).expect("in range"), 4.0);
    }

    #[test]
    fn tensors_must_agree_on_the_number_of_items() {
        let e = TensorDataset::new([rand([3, 2]), rand([4])]).map(drop).expect_err("3 and 4");
        assert_eq!(e.message(), "TensorDataset: first dims differ: [[3, 2], [4]]");
    }
}
