//! Batches from a dataset: in order or shuffled by (seed, epoch), resumable at any batch.
use crate::{Collate, Dataset, Stream};
use rtx_core::Result;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What the stream that shuffles is for.
const PURPOSE: u32 = 0;

/// Where a loader stands: the next batch it will give. A checkpoint holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The pass over the data, from 0.
    pub epoch: u32,
    /// The batch of this pass, from 0.
    pub batch: usize,
}

/// Groups the items of a dataset into batches.
///
/// # Example
/// ```
/// use rtx_data::{DataLoader, Dataset};
/// struct Squares;
/// impl Dataset for Squares {
///     type Item = f32;
///     fn len(&self) -> usize { 10 }
///     fn get(&self, i: usize) -> rtx_core::Result<f32> { Ok((i * i) as f32) }
/// }
/// let loader = DataLoader::new(Squares, 4);
/// let sizes: Vec<usize> = loader.iter().map(|batch| batch.unwrap().numel()).collect();
/// assert_eq!(sizes, [4, 4, 2]);
/// ```
#[derive(Debug)]
pub struct DataLoader<D> {
    set: D,
    batch: usize,
    shuffle: Option<u64>,
    drop_last: bool,
    epoch: AtomicU32,
}

impl<D: Dataset<Item: Collate>> DataLoader<D> {
    /// Batches of `batch` items (1 at least), in the order of the dataset, the last one smaller if need be.
    pub fn new(set: D, batch: usize) -> Self {
        Self { set, batch: batch.max(1), shuffle: None, drop_last: false, epoch: AtomicU32::new(0) }
    }
    /// In an order that depends on `seed` and the pass, and on nothing else.
    pub fn shuffle(self, seed: u64) -> Self {
        Self { shuffle: Some(seed), ..self }
    }
    /// Without a last batch that is smaller than the others: every batch has one shape, so one plan serves all.
    pub fn drop_last(self) -> Self {
        Self { drop_last: true, ..self }
    }
    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.set
    }
    /// Batches in one pass.
    pub fn len(&self) -> usize {
        if self.drop_last { self.set.len() / self.batch } else { self.set.len().div_ceil(self.batch) }
    }
    /// Is one pass without batches?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The next pass over the data; each one is shuffled anew.
    pub fn iter(&self) -> Batches<'_, D> {
        self.epoch(self.epoch.fetch_add(1, Relaxed))
    }
    /// Pass number `epoch`.
    pub fn epoch(&self, epoch: u32) -> Batches<'_, D> {
        Batches { loader: self, order: self.order(epoch), at: Position { epoch, batch: 0 }, endless: false }
    }
    /// Pass after pass without an end, from `position` on. A dataset too small for one batch gives none.
    pub fn endless(&self, position: Position) -> Batches<'_, D> {
        Batches { loader: self, order: self.order(position.epoch), at: position, endless: !self.is_empty() }
    }

    fn order(&self, epoch: u32) -> Option<Vec<u32>> {
        self.shuffle.map(|seed| {
            let mut order: Vec<u32> = (0..self.set.len() as u32).collect();
            Stream::new(seed, PURPOSE, epoch, 0).shuffle(&mut order);
            order
        })
    }
}

/// The batches of one pass, or of all passes.
#[derive(Debug)]
pub struct Batches<'a, D> {
    loader: &'a DataLoader<D>,
    /// `None`: as the dataset has it.
    order: Option<Vec<u32>>,
    at: Position,
    endless: bool,
}

impl<D: Dataset<Item: Collate>> Batches<'_, D> {
    /// The batch that comes next: [`DataLoader::endless`] goes on from here.
    pub fn position(&self) -> Position {
        self.at
    }

    fn load(&self, batch: usize) -> Result<<D::Item as Collate>::Batch> {
        let (size, set) = (self.loader.batch, &self.loader.set);
        let items = (batch * size..set.len().min((batch + 1) * size))
            .map(|i| set.get(self.order.as_ref().map_or(i, |order| order[i] as usize)))
            .collect::<Result<Vec<_>>>()?;
        D::Item::collate(&items)
    }
}

impl<D: Dataset<Item: Collate>> Iterator for Batches<'_, D> {
    type Item = Result<<D::Item as Collate>::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at.batch >= self.loader.len() {
            if !self.endless {
                return None;
            }
            self.at = Position { epoch: self.at.epoch + 1, batch: 0 };
            self.order = self.loader.order(self.at.epoch);
        }
        let batch = self.load(self.at.batch);
        self.at.batch += 1;
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.loader.len().saturating_sub(self.at.batch);
        if self.endless { (usize::MAX, None) } else { (left, Some(left)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count(usize);
    impl Dataset for Count {
        type Item = i64;
        fn len(&self) -> usize {
            self.0
        }
        fn get(&self, i: usize) -> Result<i64> {
            Ok(i as i64)
        }
    }
    /// What a loader gives, as numbers.
    fn values<'a>(batches: impl Iterator<Item = Result<rtx_tensor::Tensor>> + 'a) -> Vec<Vec<i64>> {
        batches.map(|b| b.and_then(|b| b.to_vec()).expect("a batch")).collect()
    }

    #[test]
    fn every_item_comes_once_a_pass() {
        let loader = DataLoader::new(Count(10), 4).shuffle(3);
        assert_eq!(loader.len(), 3);
        let (first, second) = (values(loader.iter()), values(loader.iter()));
        assert_ne!(first, second, "each pass is shuffled anew");
        for pass in [&first, &second] {
            let mut all = pass.concat();
            all.sort_unstable();
            assert_eq!(all, (0..10).collect::<Vec<_>>());
        }
        assert_eq!(first, values(loader.epoch(0)), "seed and pass decide the order");
        assert_eq!(values(DataLoader::new(Count(10), 4).drop_last().iter()), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    }

    #[test]
    fn a_position_resumes_exactly() {
        let loader = DataLoader::new(Count(10), 3).shuffle(5).drop_last();
        let whole = values(loader.endless(Position::default()).take(8));
        for n in 0..8 {
            let mut first = loader.endless(Position::default());
            let before = values(first.by_ref().take(n));
            let after = values(loader.endless(first.position()).take(8 - n));
            assert_eq!([before, after].concat(), whole, "resumed after {n}");
        }
    }

    #[test]
    fn a_set_smaller_than_a_batch_ends() {
        let loader = DataLoader::new(Count(2), 3).drop_last();
        assert!(loader.is_empty());
        assert!(loader.endless(Position::default()).next().is_none());
    }
}
