//! Datasets, loaders and progress: what feeds a training loop.

mod collate;
mod loader;
mod progress;
mod random;
mod sums;
mod text;

pub use collate::Collate;
pub use loader::{Batches, DataLoader, Position};
pub use progress::{Bar, Meter, Progress};
pub use random::Stream;
pub use sums::Sums;
pub use text::{Corpus, Windows};

use rtx_core::Result;

/// Things that can be counted and fetched by number.
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
    /// Are there none?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<D: Dataset + ?Sized> Dataset for Box<D> {
    type Item = D::Item;
    fn len(&self) -> usize {
        (**self).len()
    }
    fn get(&self, i: usize) -> Result<D::Item> {
        (**self).get(i)
    }
}
