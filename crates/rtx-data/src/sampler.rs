//! Which items come, in which order, and which of them form a batch. Every order is a function of the pass, so a
//! loader resumes at any batch without having given the ones before.
use crate::Stream;
use rtx_core::{Error, Kind, Result};
use std::sync::Arc;

/// What the stream that shuffles is for.
const SHUFFLE: u32 = 0;
/// What the stream that draws by weight is for.
const WEIGHTED: u32 = 3;

/// An order of items for each pass over the data. It depends on its settings and the pass, and on nothing else.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// struct Backwards(usize); // an order of one's own
/// impl Sampler for Backwards {
///     fn len(&self) -> usize {
///         self.0
///     }
///     fn order(&self, _epoch: u32) -> Vec<usize> {
///         (0..self.0).rev().collect()
///     }
/// }
/// assert_eq!((Backwards(3).order(0), Backwards(3).is_empty()), (vec![2, 1, 0], false));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub trait Sampler: Send + Sync {
    /// Items in one pass.
    fn len(&self) -> usize;
    /// The items of pass number `epoch`.
    fn order(&self, epoch: u32) -> Vec<usize>;
    /// Does a pass give nothing?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<S: Sampler + ?Sized> Sampler for Arc<S> {
    fn len(&self) -> usize {
        (**self).len()
    }
    fn order(&self, epoch: u32) -> Vec<usize> {
        (**self).order(epoch)
    }
}

/// All items, in the order of the dataset.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// assert_eq!(data::Sequential { len: 3 }.order(7), [0, 1, 2]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sequential {
    /// How many items there are.
    pub len: usize,
}
impl Sampler for Sequential {
    fn len(&self) -> usize {
        self.len
    }
    fn order(&self, _: u32) -> Vec<usize> {
        (0..self.len).collect()
    }
}

/// All items, each pass in an order of its own.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let sampler = data::Shuffled { len: 100, seed: 1 };
/// assert_eq!(sampler.order(0), sampler.order(0)); // each pass has its order, and keeps it
/// assert_ne!(sampler.order(0), sampler.order(1));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shuffled {
    /// How many items there are.
    pub len: usize,
    /// Decides the orders.
    pub seed: u64,
}
impl Sampler for Shuffled {
    fn len(&self) -> usize {
        self.len
    }
    fn order(&self, epoch: u32) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.len).collect();
        Stream::new(self.seed, SHUFFLE, epoch, 0).shuffle(&mut order);
        order
    }
}

/// Items drawn in proportion to their weights (PyTorch's `WeightedRandomSampler`).
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let sampler = data::Weighted::new(&[0., 1., 3.], 5, 1)?; // five draws; the first item never
/// assert!(sampler.order(0).iter().all(|&i| i > 0));
/// let all = data::Weighted::new(&[1., 1., 3.], 3, 1)?.without_replacement()?;
/// assert_eq!(all.order(0).len(), 3);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Weighted {
    weights: Vec<f64>,
    draws: usize,
    replacement: bool,
    seed: u64,
}
impl Weighted {
    /// `draws` items a pass, each drawn anew from all of them.
    ///
    /// # Errors
    /// When a weight is negative or no number, or all are 0.
    pub fn new(weights: &[f64], draws: usize, seed: u64) -> Result<Self> {
        if let Some((i, w)) = weights.iter().enumerate().find(|(_, w)| !(w.is_finite() && **w >= 0.0)) {
            return Err(Error::new(Kind::Argument, format!("Weighted: weight {i} is {w}, not 0 or more")));
        }
        if weights.iter().sum::<f64>() <= 0.0 {
            return Err(Error::new(Kind::Argument, "Weighted: no weight is above 0"));
        }
        Ok(Self { weights: weights.to_vec(), draws, replacement: true, seed })
    }
    /// No item twice in a pass.
    ///
    /// # Errors
    /// When fewer items have a weight than are drawn.
    pub fn without_replacement(self) -> Result<Self> {
        let able = self.weights.iter().filter(|w| **w > 0.0).count();
        if able < self.draws {
            let what = format!("Weighted: cannot draw {} different items from {able} with a weight", self.draws);
            return Err(Error::new(Kind::Argument, what));
        }
        Ok(Self { replacement: false, ..self })
    }

    fn with_replacement(&self, stream: &mut Stream) -> Vec<usize> {
        let mut sum = 0.0;
        let sums: Vec<f64> = self.weights.iter().map(|w| *add(&mut sum, *w)).collect();
        // The last item with a weight takes what rounding leaves over.
        let last = self.weights.iter().rposition(|w| *w > 0.0).unwrap_or(0);
        let draw = |_| {
            let at = unit(stream) * sum;
            sums.partition_point(|s| *s <= at).min(last)
        };
        (0..self.draws).map(draw).collect()
    }

    /// The smallest of -ln(u) / w come first (Efraimidis, Spirakis, Weighted random sampling with a reservoir, 2006).
    fn without(&self, stream: &mut Stream) -> Vec<usize> {
        let keys = self.weights.iter().map(|w| -(1.0 - unit(stream)).ln() / w);
        let mut keyed: Vec<(f64, usize)> =
            keys.enumerate().map(|(i, key)| (key, i)).filter(|(_, i)| self.weights[*i] > 0.0).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        keyed.into_iter().take(self.draws).map(|(_, i)| i).collect()
    }
}
fn add(sum: &mut f64, w: f64) -> &f64 {
    *sum += w;
    sum
}
/// A number in 0..1 with 53 bits.
fn unit(stream: &mut Stream) -> f64 {
    let bits = u64::from(stream.next_u32()) << 32 | u64::from(stream.next_u32());
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
impl Sampler for Weighted {
    fn len(&self) -> usize {
        self.draws
    }
    fn order(&self, epoch: u32) -> Vec<usize> {
        let mut stream = Stream::new(self.seed, WEIGHTED, epoch, 0);
        if self.replacement { self.with_replacement(&mut stream) } else { self.without(&mut stream) }
    }
}

/// One process's part of another sampler's order: every `world`-th item from number `rank` on. The order starts over
/// at its end until all parts are equally long, as PyTorch's `DistributedSampler` does.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let part = |rank| data::Distributed::new(data::Sequential { len: 6 }, rank, 2);
/// assert_eq!((part(0)?.order(0), part(1)?.order(0)), (vec![0, 2, 4], vec![1, 3, 5]));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Distributed<S> {
    inner: S,
    rank: usize,
    world: usize,
}
impl<S: Sampler> Distributed<S> {
    /// The part of process `rank` of `world`.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn new(inner: S, rank: usize, world: usize) -> Result<Self> {
        if rank >= world {
            return Err(Error::new(Kind::Argument, format!("Distributed: no rank {rank} among {world} processes")));
        }
        Ok(Self { inner, rank, world })
    }
}
impl<S: Sampler> Sampler for Distributed<S> {
    fn len(&self) -> usize {
        self.inner.len().div_ceil(self.world)
    }
    fn order(&self, epoch: u32) -> Vec<usize> {
        let order = self.inner.order(epoch);
        order.iter().copied().cycle().skip(self.rank).step_by(self.world).take(self.len()).collect()
    }
}

/// Groups of items, one a batch, for each pass over the data.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let batches = data::Batching { sampler: data::Sequential { len: 5 }, size: 2, drop_last: false };
/// assert_eq!((batches.batches(0), batches.len()), (vec![vec![0, 1], vec![2, 3], vec![4]], 3));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub trait BatchSampler: Send + Sync {
    /// Batches in one pass.
    fn len(&self) -> usize;
    /// The batches of pass number `epoch`.
    fn batches(&self, epoch: u32) -> Vec<Vec<usize>>;
    /// Does a pass give nothing?
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Batches of one size, cut from a sampler's order.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let batches = data::Batching { sampler: data::Sequential { len: 5 }, size: 2, drop_last: true };
/// assert_eq!(batches.batches(0), [[0, 1], [2, 3]]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batching<S> {
    /// Gives the order.
    pub sampler: S,
    /// Items a batch, 1 at least.
    pub size: usize,
    /// Leaves out a last batch that is smaller than the others.
    pub drop_last: bool,
}
impl<S: Sampler> BatchSampler for Batching<S> {
    fn len(&self) -> usize {
        let (items, size) = (self.sampler.len(), self.size.max(1));
        if self.drop_last { items / size } else { items.div_ceil(size) }
    }
    fn batches(&self, epoch: u32) -> Vec<Vec<usize>> {
        let order = self.sampler.order(epoch);
        order.chunks(self.size.max(1)).take(self.len()).map(<[usize]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_decide_how_often() {
        let draw = Weighted::new(&[1.0, 0.0, 3.0], 4000, 1).expect("weights");
        let order = draw.order(0);
        let count = |i| order.iter().filter(|x| **x == i).count();
        assert_eq!(count(1), 0);
        assert!((900..1100).contains(&count(0)), "{}", count(0));
        assert_eq!(order, draw.order(0));
        assert_ne!(order, draw.order(1));
        let few = Weighted::new(&[1.0, 0.0, 3.0, 2.0], 3, 1).and_then(Weighted::without_replacement).expect("3 of 3");
        let mut order = few.order(5);
        order.sort_unstable();
        assert_eq!(order, [0, 2, 3]);
    }

    #[test]
    fn impossible_weights_have_sentences() {
        let sentence = |w: &[f64]| Weighted::new(w, 2, 1).map(drop).expect_err("refused").message().to_owned();
        assert_eq!(sentence(&[1.0, -1.0]), "Weighted: weight 1 is -1, not 0 or more");
        assert_eq!(sentence(&[0.0]), "Weighted: no weight is above 0");
        let e = Weighted::new(&[1.0], 2, 1).and_then(Weighted::without_replacement).map(drop).expect_err("too few");
        assert_eq!(e.message(), "Weighted: cannot draw 2 different items from 1 with a weight");
    }

    #[test]
    fn processes_share_a_pass() {
        let all = Shuffled { len: 10, seed: 4 };
        let parts: Vec<Vec<usize>> =
            (0..3).map(|rank| Distributed::new(all, rank, 3).expect("a rank").order(2)).collect();
        assert!(parts.iter().all(|p| p.len() == 4));
        let mut seen = parts.concat();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        let e = Distributed::new(all, 3, 3).map(drop).expect_err("refused");
        assert_eq!(e.message(), "Distributed: no rank 3 among 3 processes");
    }

    #[test]
    fn batches_are_cut_from_the_order() {
        let batching = |drop_last| Batching { sampler: Sequential { len: 5 }, size: 2, drop_last };
        assert_eq!(batching(false).batches(0), [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(batching(true).batches(0).len(), batching(true).len());
    }
}
