//! Causal self-attention, and the cache that makes decoding one step at a time cheap.
use crate::{Linear, Module, functional as F, init};
use rtx_tensor::Tensor;

/// Multi-head attention of a sequence to itself and its past.
///
/// # Shape
/// `[batch, time, width]` to the same.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let attention = nn::CausalSelfAttention::new(8, 2);
/// let x = torch::randn([1, 5, 8]);
/// let all = attention.forward(&x);
/// // One position after the other, with what was seen kept:
/// let cache = attention.cache(1, 5);
/// let first = attention.forward_cached(&x.i((.., 0..1)), &cache, 0);
/// assert_eq!((all.shape(), first.shape()), (vec![1, 5, 8], vec![1, 1, 8]));
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct CausalSelfAttention {
    /// Queries, keys and values at once: `[3 · width, width]`, each of the three in heads.
    pub qkv: Linear,
    /// From the heads back to the width.
    pub proj: Linear,
    heads: usize,
}

impl CausalSelfAttention {
    /// `heads` must divide `width`.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> Self {
        assert!(heads > 0 && width.is_multiple_of(heads), "attention: {heads} heads do not divide a width of {width}");
        Self { qkv: Linear::new(width, 3 * width), proj: Linear::new(width, width), heads }
    }

    /// Every position sees itself and what came before.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let [q, k, v] = self.split_heads(x);
        let y = F::scaled_dot_product_attention(&q, &k, &v, F::Attention { causal: true, ..Default::default() });
        self.join_heads(&y)
    }

    /// The same for the positions from `start` on, with what came before in the cache. `start` is a number that the
    /// plan reads when it runs: one plan serves every position.
    #[track_caller]
    pub fn forward_cached(&self, x: &Tensor, cache: &KvCache, start: usize) -> Tensor {
        let [q, k, v] = self.split_heads(x);
        cache.write(&k, &v, start);
        self.join_heads(&cache.attend(&q, start))
    }

    /// An empty cache for `batch` sequences of at most `length` positions.
    pub fn cache(&self, batch: usize, length: usize) -> KvCache {
        let width = self.proj.weight.size(0);
        let shape = [batch, self.heads, length, width / self.heads];
        let zeros = || init::constant(&shape, 0.0).to(self.proj.weight.dtype());
        KvCache { k: zeros(), v: zeros() }
    }

    /// Queries, keys and values `[batch, heads, time, width / heads]`.
    fn split_heads(&self, x: &Tensor) -> [Tensor; 3] {
        let [b, t, _] = x.dims();
        let parts = self.qkv.forward(x).chunk(3, -1);
        [0, 1, 2].map(|i| parts[i].reshape((b, t, self.heads, -1)).transpose(1, 2))
    }

    fn join_heads(&self, y: &Tensor) -> Tensor {
        let [b, _, t, _] = y.dims();
        self.proj.forward(&y.transpose(1, 2).reshape((b, t, -1)))
    }
}

/// Keys and values of all positions up to the full length. It is state: written in place, never copied (contract S5).
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let attention = nn::CausalSelfAttention::new(8, 2);
/// assert_eq!(attention.cache(1, 16).capacity(), 16); // for one text of up to 16 positions
/// # Ok::<(), torch::Error>(())
/// ```
pub struct KvCache {
    k: Tensor,
    v: Tensor,
}

impl KvCache {
    /// Positions it has room for.
    pub fn capacity(&self) -> usize {
        self.k.size(2)
    }
    fn write(&self, k: &Tensor, v: &Tensor, start: usize) {
        let time = k.size(2);
        self.k.narrow(2, start, time).copy_(k);
        self.v.narrow(2, start, time).copy_(v);
    }
    /// Attention of the queries that stand from `start` on to all that is in the cache up to each of them.
    #[track_caller]
    fn attend(&self, q: &Tensor, start: usize) -> Tensor {
        let length = rtx_tensor::full((), start + q.size(2));
        let options = F::Attention { causal: true, kv_len: Some(&length), ..Default::default() };
        F::scaled_dot_product_attention(q, &self.k, &self.v, options)
    }
}
