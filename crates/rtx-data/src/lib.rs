//! Datasets, samplers, loaders, readers of files, and progress: what feeds a training loop.

mod collate;
mod csv;
mod fashion;
mod files;
mod image;
mod loader;
mod progress;
mod random;
mod sampler;
mod sets;
mod sums;
mod text;

pub use collate::Collate;
pub use csv::Csv;
pub use fashion::{FashionMnist, Picture};
pub use files::{load_idx, load_npy, load_npz, save_npy, save_npz};
pub use image::{Image, ImageFolder};
pub use loader::{Batches, DataLoader, Position};
pub use progress::{Bar, Meter, Progress};
pub use random::Stream;
pub use sampler::{BatchSampler, Batching, Distributed, Sampler, Sequential, Shuffled, Weighted};
pub use sets::{Concat, Map, Row, Subset, TensorDataset, random_split};
pub use sums::Sums;
pub use text::{Corpus, Windows};

use rtx_core::Result;
use std::sync::Arc;

/// Things that can be counted and fetched by number.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// struct Squares(usize);
/// impl Dataset for Squares {
///     type Item = (f32, i64);
///     fn len(&self) -> usize {
///         self.0
///     }
///     fn get(&self, i: usize) -> rtx_tensor::Result<(f32, i64)> {
///         Ok(((i * i) as f32, i as i64))
///     }
/// }
/// let loader = DataLoader::new(Squares(10), 4).shuffle(1).drop_last().workers(2);
/// assert_eq!((loader.len(), loader.is_empty(), loader.dataset().len()), (2, false, 10));
/// for batch in loader.epoch(3) {
///     let (x, y) = batch?;
///     assert_eq!((x.shape(), y.shape()), (vec![4], vec![4]));
/// }
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub trait Dataset: Send + Sync {
    /// What one fetch gives.
    type Item;
    /// How many there are.
    fn len(&self) -> usize;
    /// Number `i`.
    ///
    /// # Errors
    /// When `i` is out of range or the item cannot be read.
    fn get(&self, i: usize) -> Result<Self::Item>;
    /// Number `i` with what is random about it (a crop, a flip), drawn from `stream`. A loader calls this, with a
    /// stream for each item that depends on (seed, pass, `i`) and on nothing else: threads change nothing.
    ///
    /// # Errors
    /// When `i` is out of range or the item cannot be read.
    fn draw(&self, i: usize, stream: &mut Stream) -> Result<Self::Item> {
        let _ = stream; // most items have nothing random
        self.get(i)
    }
    /// Are there none?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Lets every item go through `f` as it is fetched; `f` may draw from the item's stream.
    fn map<T, F>(self, f: F) -> Map<Self, F>
    where
        Self: Sized,
        F: Fn(Self::Item, &mut Stream) -> Result<T> + Send + Sync,
    {
        Map { set: self, f }
    }
}

macro_rules! pointers { ($($P:ident)*) => { $(
    impl<D: Dataset + ?Sized> Dataset for $P<D> {
        type Item = D::Item;
        fn len(&self) -> usize {
            (**self).len()
        }
        fn get(&self, i: usize) -> Result<D::Item> {
            (**self).get(i)
        }
        fn draw(&self, i: usize, stream: &mut Stream) -> Result<D::Item> {
            (**self).draw(i, stream)
        }
    }
)* } }
pointers!(Box Arc);
