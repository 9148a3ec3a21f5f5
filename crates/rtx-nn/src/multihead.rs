//! Attention with heads, as PyTorch's `nn.MultiheadAttention`: its parameters' names, masks and options.
use crate::{Linear, Mode, Module, Param, functional as F, init};
use rtx_core::DType;
use rtx_tensor::{Tensor, cat, full, zeros};

/// softmax(Q Kᵀ / √d) V for several heads at once, each of `width / heads` numbers (Vaswani et al., arXiv:1706.03762).
///
/// # Shape
/// Query `[time, batch, width]`, key and value `[keys, batch, ..]`; with [`batch_first`](Self::batch_first) the first two
/// dims change places; without a batch dim all have two.
///
/// ```
/// use rtx_nn::MultiheadAttention;
/// let attention = MultiheadAttention::new(8, 2).batch_first();
/// let x = rtx_tensor::ones([4, 5, 8]);
/// assert_eq!(attention.forward(&x, &x, &x).shape(), [4, 5, 8]);
/// ```
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = torch::randn([2, 5, 8]); // batch, time, width
/// let attention = nn::MultiheadAttention::new(8, 2).batch_first().dropout(0.).no_bias().bias_kv().zero_attention();
/// assert_eq!(attention.forward(&x, &x, &x).shape(), [2, 5, 8]);
/// let attention = nn::MultiheadAttention::new(8, 2).batch_first().sizes(6, 4); // keys of 6 features, values of 4
/// let (keys, values) = (torch::randn([2, 7, 6]), torch::randn([2, 7, 4]));
/// let masks = || nn::AttentionMasks::default();
/// assert_eq!(attention.forward_with(&x, &keys, &values, masks()).shape(), [2, 5, 8]);
/// let (y, weights) = attention.forward_with_weights(&x, &keys, &values, masks());
/// assert_eq!(y.shape(), [2, 5, 8]);
/// assert_eq!(weights.shape()[2], 7);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct MultiheadAttention {
    /// Queries, keys and values at once, `[3 · width, width]`; or none where keys or values have sizes of their own.
    pub in_proj_weight: Option<Param>,
    /// `[width, width]`, where keys or values have sizes of their own.
    pub q_proj_weight: Option<Param>,
    /// `[width, keys' size]`.
    pub k_proj_weight: Option<Param>,
    /// `[width, values' size]`.
    pub v_proj_weight: Option<Param>,
    /// `[3 · width]`, zeros at first; or none.
    pub in_proj_bias: Option<Param>,
    /// One more key, `[1, 1, width]`; or none.
    pub bias_k: Option<Param>,
    /// One more value, `[1, 1, width]`; or none.
    pub bias_v: Option<Param>,
    /// From the heads back to the width.
    pub out_proj: Linear,
    width: usize,
    heads: usize,
    batch_first: bool,
    zero_attention: bool,
    dropout: f64,
    mode: Mode,
}

/// What attention may look at.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = torch::randn([2, 5, 8]);
/// let attention = nn::MultiheadAttention::new(8, 2).batch_first();
/// let masks = nn::AttentionMasks { causal: true, ..Default::default() }; // nobody looks ahead
/// assert_eq!(attention.forward_with(&x, &x, &x, masks).shape(), [2, 5, 8]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionMasks<'a> {
    /// Bool `[batch, keys]`: true where a key is padding, and is not looked at.
    pub key_padding: Option<&'a Tensor>,
    /// `[time, keys]` or `[batch · heads, time, keys]`: bool, true where a key is not looked at; or floats, added to the
    /// scores.
    pub attention: Option<&'a Tensor>,
    /// May a position look only at itself and what came before?
    pub causal: bool,
}

impl MultiheadAttention {
    /// `heads` must divide `width`. Weights as PyTorch draws them: Glorot's uniform, zero biases.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> Self {
        assert!(heads > 0 && width.is_multiple_of(heads), "attention: {heads} heads do not divide a width of {width}");
        let out_proj = Linear::new(width, width);
        out_proj.bias.iter().for_each(|bias| init::zeros_(bias));
        Self {
            in_proj_weight: Some(glorot(3 * width, width)),
            q_proj_weight: None,
            k_proj_weight: None,
            v_proj_weight: None,
            in_proj_bias: Some(Param::new(init::constant(&[3 * width], 0.0))),
            bias_k: None,
            bias_v: None,
            out_proj,
            width,
            heads,
            batch_first: false,
            zero_attention: false,
            dropout: 0.0,
            mode: Mode::default(),
        }
    }
    /// Tensors are `[batch, time, ..]`.
    #[must_use]
    pub fn batch_first(self) -> Self {
        Self { batch_first: true, ..self }
    }
    /// Dropout of the weights, in training.
    #[must_use]
    pub fn dropout(self, p: f64) -> Self {
        Self { dropout: p, ..self }
    }
    /// Without biases.
    #[must_use]
    pub fn no_bias(self) -> Self {
        Self { in_proj_bias: None, out_proj: self.out_proj.no_bias(), ..self }
    }
    /// With one more key and value, both trained.
    #[must_use]
    pub fn bias_kv(self) -> Self {
        let draw = || {
            let bias = Param::new(init::constant(&[1, 1, self.width], 0.0));
            init::xavier_normal_(&bias, 1.0);
            Some(bias)
        };
        Self { bias_k: draw(), bias_v: draw(), ..self }
    }
    /// With one more key and value, both zero.
    #[must_use]
    pub fn zero_attention(self) -> Self {
        Self { zero_attention: true, ..self }
    }
    /// Keys and values of sizes of their own.
    #[must_use]
    pub fn sizes(self, keys: usize, values: usize) -> Self {
        let width = self.width;
        Self {
            in_proj_weight: None,
            q_proj_weight: Some(glorot(width, width)),
            k_proj_weight: Some(glorot(width, keys)),
            v_proj_weight: Some(glorot(width, values)),
            ..self
        }
    }

    /// What each query finds.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Tensor {
        self.forward_with(query, key, value, AttentionMasks::default())
    }
    /// [`MultiheadAttention::forward`] with masks.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward_with(&self, query: &Tensor, key: &Tensor, value: &Tensor, masks: AttentionMasks<'_>) -> Tensor {
        let plain = masks.key_padding.is_none() && masks.attention.is_none();
        if !plain || self.bias_k.is_some() || self.zero_attention {
            return self.forward_with_weights(query, key, value, masks).0;
        }
        // Nothing but causality and dropout: one op.
        let heads = self.split(query, key, value);
        let dropout = if self.mode.is_training() { self.dropout } else { 0.0 };
        let options = F::Attention { causal: masks.causal, dropout, ..Default::default() };
        let y = F::scaled_dot_product_attention(&heads.q, &heads.k, &heads.v, options);
        self.join(&y, heads.batched)
    }
    /// What each query finds, and how much it looked at each key: `[batch, time, keys]`, the mean over heads.
    ///
    /// # Panics
    /// When shapes do not fit.
    #[track_caller]
    pub fn forward_with_weights(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        masks: AttentionMasks<'_>,
    ) -> (Tensor, Tensor) {
        let Heads { q, k, v, batched } = self.split(query, key, value);
        let [batch, _, time, size] = q.dims();
        let keys = k.size(2);
        let scores = (q * (1.0 / (size as f64).sqrt())).matmul(k.transpose(-2, -1));
        let scores = match self.mask(masks, [batch, time, keys], scores.dtype()) {
            Some(mask) => scores + mask,
            None => scores,
        };
        let weights = scores.softmax(-1);
        let dropout = if self.mode.is_training() { self.dropout } else { 0.0 };
        let y = if dropout > 0.0 { F::dropout(&weights, dropout) } else { weights.alias() }.matmul(&v);
        let mean = weights.mean(1);
        (self.join(&y, batched), if batched { mean } else { mean.squeeze(0) })
    }

    /// Queries, keys and values `[batch, heads, time, size]`.
    #[track_caller]
    fn split(&self, query: &Tensor, key: &Tensor, value: &Tensor) -> Heads {
        let batched = query.rank() == 3;
        // From here on the batch comes first.
        let place = |x: &Tensor| match (batched, self.batch_first) {
            (false, _) => x.unsqueeze(0),
            (true, true) => x.alias(),
            (true, false) => x.transpose(0, 1),
        };
        let bias = |i: usize| self.in_proj_bias.as_ref().map(|b| b.narrow(0, i * self.width, self.width));
        let weight = |i: usize, own: &Option<Param>| match (own, &self.in_proj_weight) {
            (Some(own), _) => own.tensor(),
            (None, Some(all)) => all.narrow(0, i * self.width, self.width),
            (None, None) => panic!("attention: projection {i} has no weight"),
        };
        let project =
            |i: usize, x: &Tensor, own: &Option<Param>| F::linear(&place(x), &weight(i, own), bias(i).as_ref());
        let q = project(0, query, &self.q_proj_weight);
        let k = with_more(project(1, key, &self.k_proj_weight), self.bias_k.as_ref());
        let v = with_more(project(2, value, &self.v_proj_weight), self.bias_v.as_ref());
        let heads = |x: Tensor, zero: bool| {
            let [batch, time, _] = x.dims();
            let x = x.reshape((batch, time, self.heads, -1)).transpose(1, 2);
            if !zero {
                return x;
            }
            let more = zeros((batch, self.heads, 1usize, self.width / self.heads)).to(x.dtype());
            cat(&[x, more], 2)
        };
        Heads { q: heads(q, false), k: heads(k, self.zero_attention), v: heads(v, self.zero_attention), batched }
    }

    /// Back from heads, in the caller's order of dims.
    #[track_caller]
    fn join(&self, y: &Tensor, batched: bool) -> Tensor {
        let [batch, _, time, _] = y.dims();
        let y = self.out_proj.forward(&y.transpose(1, 2).reshape((batch, time, self.width)));
        match (batched, self.batch_first) {
            (false, _) => y.squeeze(0),
            (true, true) => y,
            (true, false) => y.transpose(0, 1),
        }
    }

    /// All masks as numbers to add, `[batch or 1, heads or 1, time or 1, keys]`. What was appended to the keys may always
    /// be looked at.
    #[track_caller]
    fn mask(&self, masks: AttentionMasks<'_>, [batch, time, keys]: [usize; 3], dtype: DType) -> Option<Tensor> {
        let grown = |mask: Tensor| {
            let more = keys - mask.size(-1);
            if more == 0 {
                return mask;
            }
            let mut shape = mask.shape();
            *shape.last_mut().expect("a mask has dims") = more;
            cat(&[mask, zeros(shape).to(dtype)], -1)
        };
        let padding = masks.key_padding.map(|m| grown(added(m, dtype).reshape((batch, 1usize, 1usize, -1))));
        let attention = masks.attention.map(|m| match m.rank() {
            2 => grown(added(m, dtype)).reshape((1usize, 1usize, time, keys)),
            _ => grown(added(m, dtype)).reshape((batch, self.heads, time, keys)),
        });
        let causal = masks.causal.then(|| {
            let before = causal_mask(time).to(dtype);
            grown(before).reshape((1usize, 1usize, time, keys))
        });
        [padding, attention, causal].into_iter().flatten().reduce(|a, b| a + b)
    }
}

struct Heads {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// Has the caller's query a batch dim?
    batched: bool,
}

fn glorot(outputs: usize, inputs: usize) -> Param {
    let bound = (6.0 / (outputs + inputs) as f64).sqrt();
    Param::new(init::uniform(&[outputs, inputs], -bound, bound))
}

/// Keys or values `[batch, keys, width]` with a trained one after them.
#[track_caller]
fn with_more(x: Tensor, more: Option<&Param>) -> Tensor {
    let Some(more) = more else { return x };
    let batch = x.size(0);
    let width = x.size(2);
    cat(&[x, more.expand((batch, 1usize, width))], 1)
}

/// A mask as numbers to add: minus infinity where a bool is true.
#[track_caller]
fn added(mask: &Tensor, dtype: DType) -> Tensor {
    if mask.dtype() == DType::Bool {
        return mask.if_else(full((), f64::NEG_INFINITY).to(dtype), 0.0);
    }
    mask.to(dtype)
}

/// Where a position may not look at what comes after it: `[time, time]`, 0 and minus infinity.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(nn::causal_mask(2).shape(), [2, 2]); // row 0 does not see column 1
/// # Ok::<(), torch::Error>(())
/// ```
pub fn causal_mask(time: usize) -> Tensor {
    full((time, time), f64::NEG_INFINITY).triu_with(rtx_tensor::options::Triu { diagonal: 1 })
}
