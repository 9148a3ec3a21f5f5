//! Batches from a dataset: in any sampler's order, resumable at any batch, fetched ahead by threads on request.
use crate::sampler::{BatchSampler, Batching, Sampler, Sequential, Shuffled};
use crate::{Collate, Dataset, Stream};
use rtx_core::{Error, Kind, Result};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

/// What the streams of single items are for.
const ITEM: u32 = 4;
/// Batches that one thread fetches ahead.
const AHEAD: usize = 2;

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
///
/// // Shuffled, fetched ahead by two threads, every batch of one size: the same batches for every number of threads.
/// let loader = DataLoader::new(Squares, 4).shuffle(7).workers(2).drop_last();
/// assert_eq!((loader.len(), loader.is_empty(), loader.dataset().len()), (2, false, 10));
/// assert_eq!(loader.epoch(3).count(), 2);
/// // From the second batch of pass 0 on, pass after pass: what a resumed run does.
/// let mut rest = loader.endless(rtx_data::Position { epoch: 0, batch: 1 });
/// assert!(rest.next().is_some_and(|batch| batch.is_ok()));
///
/// // Six items that are drawn with weights; what items draw themselves comes from the seed.
/// let weights = rtx_data::Weighted::new(&[1.0; 10], 6, 1).unwrap();
/// assert_eq!(DataLoader::new(Squares, 3).sampler(weights).seed(5).len(), 2);
/// ```
pub struct DataLoader<D> {
    source: Arc<Source<D>>,
    batching: Batching<Arc<dyn Sampler>>,
    workers: usize,
    epoch: AtomicU32,
}

/// What threads share: the items, which of them form a batch, and the seed of the items' streams.
struct Source<D> {
    set: Arc<D>,
    order: Order,
    seed: u64,
}

#[derive(Clone)]
enum Order {
    Items(Batching<Arc<dyn Sampler>>),
    Batches(Arc<dyn BatchSampler>),
}
impl Order {
    fn sampler(&self) -> &dyn BatchSampler {
        match self {
            Order::Items(batching) => batching,
            Order::Batches(batches) => &**batches,
        }
    }
    fn len(&self) -> usize {
        self.sampler().len()
    }
}

impl<D> fmt::Debug for DataLoader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataLoader({} batches, {} workers)", self.source.order.len(), self.workers)
    }
}

impl<D: Dataset<Item: Collate + Send + 'static> + 'static> DataLoader<D> {
    /// Batches of `batch` items (1 at least), in the order of the dataset, the last one smaller if need be.
    pub fn new(set: D, batch: usize) -> Self {
        let sampler: Arc<dyn Sampler> = Arc::new(Sequential { len: set.len() });
        let batching = Batching { sampler, size: batch.max(1), drop_last: false };
        let source = Source { set: Arc::new(set), order: Order::Items(batching.clone()), seed: 0 };
        Self { source: Arc::new(source), batching, workers: 0, epoch: AtomicU32::new(0) }
    }
    fn with(self, order: Order, seed: u64) -> Self {
        let source = Source { set: self.source.set.clone(), order, seed };
        Self { source: Arc::new(source), ..self }
    }
    /// In an order that depends on `seed` and the pass, and on nothing else. Items that draw random numbers
    /// ([`Dataset::draw`]) draw them from the same seed.
    pub fn shuffle(self, seed: u64) -> Self {
        let sampler = Shuffled { len: self.source.set.len(), seed };
        self.sampler(sampler).seed(seed)
    }
    /// In the order that `sampler` gives.
    pub fn sampler(mut self, sampler: impl Sampler + 'static) -> Self {
        self.batching.sampler = Arc::new(sampler);
        let (order, seed) = (Order::Items(self.batching.clone()), self.source.seed);
        self.with(order, seed)
    }
    /// In the batches that `batches` gives; the batch size of [`DataLoader::new`] then means nothing.
    pub fn batch_sampler(self, batches: impl BatchSampler + 'static) -> Self {
        let seed = self.source.seed;
        self.with(Order::Batches(Arc::new(batches)), seed)
    }
    /// The seed of the streams that items draw from.
    pub fn seed(self, seed: u64) -> Self {
        let order = self.source.order.clone();
        self.with(order, seed)
    }
    /// Without a last batch that is smaller than the others (not for [`DataLoader::batch_sampler`]): every batch has one shape, so one plan serves all.
    pub fn drop_last(mut self) -> Self {
        self.batching.drop_last = true;
        let (order, seed) = (Order::Items(self.batching.clone()), self.source.seed);
        self.with(order, seed)
    }
    /// Fetches batches ahead, on `n` threads. The batches are the same for every number of threads, none included:
    /// each item draws from a stream of its own.
    pub fn workers(self, n: usize) -> Self {
        Self { workers: n, ..self }
    }
    /// The dataset.
    pub fn dataset(&self) -> &D {
        &self.source.set
    }
    /// Batches in one pass.
    pub fn len(&self) -> usize {
        self.source.order.len()
    }
    /// Is one pass without batches?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The next pass over the data; each one is shuffled anew.
    pub fn iter(&self) -> Batches<D> {
        self.epoch(self.epoch.fetch_add(1, Relaxed))
    }
    /// Pass number `epoch`.
    pub fn epoch(&self, epoch: u32) -> Batches<D> {
        self.batches(Position { epoch, batch: 0 }, false)
    }
    /// Pass after pass without an end, from `position` on. A dataset too small for one batch gives none.
    pub fn endless(&self, position: Position) -> Batches<D> {
        self.batches(position, !self.is_empty())
    }
    fn batches(&self, at: Position, endless: bool) -> Batches<D> {
        let walk = Walk { source: self.source.clone(), batches: Arc::default(), loaded: None, at, endless };
        let workers = (self.workers > 0).then(|| start_workers(&walk, self.workers));
        Batches { walk, workers, given: 0 }
    }
}

/// Steps through batches: of one pass, or of all passes.
struct Walk<D> {
    source: Arc<Source<D>>,
    /// The batches of pass `loaded`; threads share them.
    batches: Arc<Mutex<Passes>>,
    loaded: Option<(u32, Arc<Vec<Vec<usize>>>)>,
    at: Position,
    endless: bool,
}
/// The passes that were asked for last.
type Passes = Vec<(u32, Arc<Vec<Vec<usize>>>)>;

impl<D> Clone for Walk<D> {
    fn clone(&self) -> Self {
        let (source, batches, loaded) = (self.source.clone(), self.batches.clone(), self.loaded.clone());
        Self { source, batches, loaded, at: self.at, endless: self.endless }
    }
}

impl<D: Dataset> Walk<D> {
    /// Where the next batch is, if there is one; then the walk stands behind it.
    fn step(&mut self) -> Option<Position> {
        if self.at.batch >= self.source.order.len() {
            if !self.endless {
                return None;
            }
            self.at = Position { epoch: self.at.epoch + 1, batch: 0 };
        }
        let at = self.at;
        self.at.batch += 1;
        Some(at)
    }

    fn pass(&mut self, epoch: u32) -> Arc<Vec<Vec<usize>>> {
        if let Some((_, batches)) = self.loaded.as_ref().filter(|(loaded, _)| *loaded == epoch) {
            return batches.clone();
        }
        let mut passes = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let known = passes.iter().find(|(known, _)| *known == epoch).map(|(_, batches)| batches.clone());
        let batches = known.unwrap_or_else(|| {
            passes.retain(|(known, _)| known + 1 == epoch); // a thread may still be in the pass before
            passes.push((epoch, Arc::new(self.source.order.sampler().batches(epoch))));
            passes[passes.len() - 1].1.clone()
        });
        drop(passes);
        self.loaded = Some((epoch, batches.clone()));
        batches
    }

    /// The items of the batch at `at`, each with its own stream.
    fn fetch(&mut self, at: Position) -> Result<Vec<D::Item>> {
        let pass = self.pass(at.epoch);
        let items = pass.get(at.batch).map_or(&[][..], Vec::as_slice);
        let source = &self.source;
        let fetch = |i: &usize| source.set.draw(*i, &mut Stream::new(source.seed, ITEM, at.epoch, *i as u32));
        items.iter().map(fetch).collect()
    }
}

/// One channel a thread; batch number `n` comes through channel `n` modulo their number.
type Workers<T> = Vec<Receiver<Result<Vec<T>>>>;

/// Thread `w` of `n` fetches the batches `w`, `w + n`, …; it ends when nobody listens any more.
fn start_workers<D>(walk: &Walk<D>, n: usize) -> Workers<D::Item>
where
    D: Dataset<Item: Send + 'static> + 'static,
{
    let start = |w: usize| {
        let (sender, receiver) = sync_channel(AHEAD);
        let mut walk = walk.clone();
        for _ in 0..w {
            walk.step();
        }
        std::thread::spawn(move || run_worker(&mut walk, n, &sender));
        receiver
    };
    (0..n).map(start).collect()
}

fn run_worker<D: Dataset>(walk: &mut Walk<D>, n: usize, sender: &SyncSender<Result<Vec<D::Item>>>) {
    while let Some(at) = walk.step() {
        if sender.send(walk.fetch(at)).is_err() {
            return;
        }
        for _ in 1..n {
            walk.step();
        }
    }
}

/// The batches of one pass, or of all passes.
pub struct Batches<D: Dataset> {
    walk: Walk<D>,
    workers: Option<Workers<D::Item>>,
    given: usize,
}

impl<D: Dataset<Item: Collate>> Batches<D> {
    /// The batch that comes next: [`DataLoader::endless`] goes on from here.
    pub fn position(&self) -> Position {
        self.walk.at
    }
}

impl<D: Dataset<Item: Collate>> Iterator for Batches<D> {
    type Item = Result<<D::Item as Collate>::Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.walk.step()?;
        let items = match &self.workers {
            None => self.walk.fetch(at),
            Some(workers) => workers[self.given % workers.len()].recv().unwrap_or_else(|_| {
                let what = format!("a thread of the loader ended in batch {} of pass {}", at.batch, at.epoch);
                Err(Error::new(Kind::Internal, what).hint("the dataset panicked; its message stands above"))
            }),
        };
        self.given += 1;
        Some(items.and_then(|items| D::Item::collate(&items)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.walk.source.order.len().saturating_sub(self.walk.at.batch);
        if self.walk.endless { (usize::MAX, None) } else { (left, Some(left)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Weighted;

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
    fn values(batches: impl Iterator<Item = Result<rtx_tensor::Tensor>>) -> Vec<Vec<i64>> {
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
        for workers in [0, 2] {
            let loader = DataLoader::new(Count(10), 3).shuffle(5).drop_last().workers(workers);
            let whole = values(loader.endless(Position::default()).take(8));
            for n in 0..8 {
                let mut first = loader.endless(Position::default());
                let before = values(first.by_ref().take(n));
                let after = values(loader.endless(first.position()).take(8 - n));
                assert_eq!([before, after].concat(), whole, "resumed after {n}");
            }
        }
    }

    #[test]
    fn a_set_smaller_than_a_batch_ends() {
        let loader = DataLoader::new(Count(2), 3).drop_last();
        assert!(loader.is_empty());
        assert!(loader.endless(Position::default()).next().is_none());
    }

    /// Items with a random part, some slower than others.
    struct Noisy;
    impl Dataset for Noisy {
        type Item = i64;
        fn len(&self) -> usize {
            23
        }
        fn get(&self, i: usize) -> Result<i64> {
            Ok(i as i64)
        }
        fn draw(&self, i: usize, stream: &mut Stream) -> Result<i64> {
            std::thread::sleep(std::time::Duration::from_micros((i as u64 * 37) % 90));
            Ok(i as i64 * 1000 + i64::from(stream.below(1000)))
        }
    }

    #[test]
    fn threads_change_nothing() {
        let of = |workers| {
            let loader = DataLoader::new(Noisy, 4).shuffle(7).workers(workers);
            [values(loader.iter()), values(loader.endless(Position { epoch: 1, batch: 2 }).take(20))]
        };
        let none = of(0);
        assert_eq!(none[0].len(), 6, "the smaller last batch comes too");
        for workers in [1, 2, 3, 8] {
            assert_eq!(of(workers), none, "{workers} threads");
        }
        assert_ne!(none[0], values(DataLoader::new(Noisy, 4).shuffle(7).seed(8).iter()), "another seed, other draws");
    }

    #[test]
    fn samplers_and_batches_of_ones_own() {
        let weighted = Weighted::new(&[0.0, 1.0, 0.0], 5, 1).expect("weights");
        assert_eq!(values(DataLoader::new(Count(3), 2).sampler(weighted).iter()), [vec![1, 1], vec![1, 1], vec![1]]);
        struct ByLength;
        impl BatchSampler for ByLength {
            fn len(&self) -> usize {
                2
            }
            fn batches(&self, _: u32) -> Vec<Vec<usize>> {
                vec![vec![0, 2], vec![1]]
            }
        }
        assert_eq!(values(DataLoader::new(Count(3), 1).batch_sampler(ByLength).iter()), [vec![0, 2], vec![1]]);
    }

    struct Breaks;
    impl Dataset for Breaks {
        type Item = i64;
        fn len(&self) -> usize {
            4
        }
        fn get(&self, i: usize) -> Result<i64> {
            if i == 1 { Err(Error::new(Kind::Format, "item 1 is damaged")) } else { Ok(0) }
        }
    }

    #[test]
    fn an_item_that_cannot_be_read_is_an_error_of_its_batch() {
        for workers in [0, 2] {
            let got: Vec<_> = DataLoader::new(Breaks, 2).workers(workers).iter().collect();
            assert_eq!(got[0].as_ref().expect_err("damaged").message(), "item 1 is damaged");
            assert!(got[1].is_ok(), "the others come all the same");
        }
    }
}
