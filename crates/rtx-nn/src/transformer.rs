//! The transformer (Vaswani et al., arXiv:1706.03762) in PyTorch's layers and names.
use crate::{AttentionMasks, Dropout, LayerNorm, Linear, Module, MultiheadAttention, functional as F, init};
use rtx_tensor::Tensor;
use std::fmt;

/// A function of one tensor, as a setting.
#[derive(Clone, Copy)]
struct Activation(fn(&Tensor) -> Tensor);
impl fmt::Debug for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("activation")
    }
}

/// What layers of an encoder look at.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::TransformerEncoderLayer::new(8, 2).batch_first();
/// let masks = nn::EncoderMasks { causal: true, ..Default::default() };
/// assert_eq!(layer.forward_with(&torch::randn([1, 5, 8]), masks).shape(), [1, 5, 8]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EncoderMasks<'a> {
    /// [`AttentionMasks::attention`] of the sequence to itself.
    pub src: Option<&'a Tensor>,
    /// [`AttentionMasks::key_padding`] of the sequence.
    pub src_key_padding: Option<&'a Tensor>,
    /// May a position look only at itself and what came before?
    pub causal: bool,
}

/// What layers of a decoder look at.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::TransformerDecoderLayer::new(8, 2).batch_first();
/// let (x, memory, ahead) = (torch::randn([1, 5, 8]), torch::randn([1, 7, 8]), nn::causal_mask(5));
/// let masks = nn::DecoderMasks { tgt: Some(&ahead), ..Default::default() };
/// assert_eq!(layer.forward_with(&x, &memory, masks).shape(), [1, 5, 8]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DecoderMasks<'a> {
    /// [`AttentionMasks::attention`] of the sequence to itself.
    pub tgt: Option<&'a Tensor>,
    /// [`AttentionMasks::attention`] of the sequence to the encoder's.
    pub memory: Option<&'a Tensor>,
    /// [`AttentionMasks::key_padding`] of the sequence.
    pub tgt_key_padding: Option<&'a Tensor>,
    /// [`AttentionMasks::key_padding`] of the encoder's.
    pub memory_key_padding: Option<&'a Tensor>,
    /// May a position look only at itself and what came before?
    pub causal: bool,
}

/// Setters that encoder and decoder layers share.
macro_rules! layer_setters { ($($norm:ident)*; $($dropout:ident)*; $($attention:ident)*) => {
    /// The width of the layer between: 2048 at first.
    #[must_use]
    pub fn feedforward(self, width: usize) -> Self {
        let outside = self.linear2.weight.size(0);
        Self { linear1: Linear::new(outside, width), linear2: Linear::new(width, outside), ..self }
    }
    /// Dropout in training, 0.1 at first.
    #[must_use]
    pub fn dropout_p(self, p: f64) -> Self {
        Self {
            dropout: Dropout::new(p),
            $($dropout: Dropout::new(p),)*
            $($attention: self.$attention.dropout(p),)*
            ..self
        }
    }
    /// Between the linear layers; ReLU at first.
    #[must_use]
    pub fn activation(self, activation: fn(&Tensor) -> Tensor) -> Self {
        Self { activation: Activation(activation), ..self }
    }
    /// Normalizes before each part, not after it.
    #[must_use]
    pub fn norm_first(self) -> Self {
        Self { norm_first: true, ..self }
    }
    /// Tensors are `[batch, time, width]`.
    #[must_use]
    pub fn batch_first(self) -> Self {
        Self { $($attention: self.$attention.batch_first(),)* ..self }
    }
    /// Of the norms; 1e-5 at first.
    #[must_use]
    pub fn layer_norm_eps(self, eps: f64) -> Self {
        Self { $($norm: self.$norm.eps(eps),)* ..self }
    }
    /// Without biases.
    #[must_use]
    pub fn no_bias(self) -> Self {
        Self {
            linear1: self.linear1.no_bias(),
            linear2: self.linear2.no_bias(),
            $($norm: self.$norm.no_bias(),)*
            $($attention: self.$attention.no_bias(),)*
            ..self
        }
    }
    #[track_caller]
    fn feed_forward(&self, x: &Tensor, last: &Dropout) -> Tensor {
        let between = (self.activation.0)(&self.linear1.forward(x));
        last.forward(&self.linear2.forward(&self.dropout.forward(&between)))
    }
} }

/// Attention of a sequence to itself, and a layer between, each added to what came in.
///
/// # Shape
/// `[time, batch, width]` to the same; see [`MultiheadAttention`].
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::TransformerEncoderLayer::new(8, 2).feedforward(16).dropout_p(0.).activation(|x| x.gelu()).batch_first();
/// let layer = layer.norm_first().layer_norm_eps(1e-5).no_bias();
/// let x = torch::randn([2, 5, 8]); // batch, time, width
/// assert_eq!(layer.forward(&x).shape(), [2, 5, 8]);
/// let masks = nn::EncoderMasks { causal: true, ..Default::default() };
/// assert_eq!(layer.forward_with(&x, masks).shape(), [2, 5, 8]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct TransformerEncoderLayer {
    /// The sequence to itself.
    pub self_attn: MultiheadAttention,
    /// To the width between.
    pub linear1: Linear,
    dropout: Dropout,
    /// And back.
    pub linear2: Linear,
    /// Around the attention.
    pub norm1: LayerNorm,
    /// Around the layers between.
    pub norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    #[module(skip)]
    activation: Activation,
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// `heads` must divide `width`.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> Self {
        let dropout = || Dropout::new(0.1);
        Self {
            self_attn: MultiheadAttention::new(width, heads).dropout(0.1),
            linear1: Linear::new(width, 2048),
            dropout: dropout(),
            linear2: Linear::new(2048, width),
            norm1: LayerNorm::new(width),
            norm2: LayerNorm::new(width),
            dropout1: dropout(),
            dropout2: dropout(),
            activation: Activation(F::relu),
            norm_first: false,
        }
    }
    layer_setters!(norm1 norm2; dropout1 dropout2; self_attn);
    /// Applies the layer.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        self.forward_with(x, EncoderMasks::default())
    }
    /// [`TransformerEncoderLayer::forward`] with masks.
    #[track_caller]
    pub fn forward_with(&self, x: &Tensor, masks: EncoderMasks<'_>) -> Tensor {
        let masks = AttentionMasks { key_padding: masks.src_key_padding, attention: masks.src, causal: masks.causal };
        let attend = |x: &Tensor| self.dropout1.forward(&self.self_attn.forward_with(x, x, x, masks));
        if self.norm_first {
            let x = x + attend(&self.norm1.forward(x));
            return &x + self.feed_forward(&self.norm2.forward(&x), &self.dropout2);
        }
        let x = self.norm1.forward(&(x + attend(x)));
        self.norm2.forward(&(&x + self.feed_forward(&x, &self.dropout2)))
    }
}
impl crate::Layer for TransformerEncoderLayer {
    fn forward(&self, x: &Tensor) -> Tensor {
        TransformerEncoderLayer::forward(self, x)
    }
}

/// Encoder layers one after the other.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::TransformerEncoderLayer::new(8, 2).batch_first();
/// let encoder = nn::TransformerEncoder::new(layer, 2).norm(nn::LayerNorm::new(8));
/// let x = torch::randn([2, 5, 8]);
/// assert_eq!(encoder.forward(&x).shape(), [2, 5, 8]);
/// assert_eq!(encoder.forward_with(&x, nn::EncoderMasks::default()).shape(), [2, 5, 8]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// After the last one.
    pub norm: Option<LayerNorm>,
}

impl TransformerEncoder {
    /// `count` copies of `layer`, each with parameters of its own that start equal, as in PyTorch.
    pub fn new(layer: TransformerEncoderLayer, count: usize) -> Self {
        Self { layers: (0..count).map(|_| layer.clone()).collect(), norm: None }
    }
    /// Normalizes after the last layer.
    #[must_use]
    pub fn norm(self, norm: LayerNorm) -> Self {
        Self { norm: Some(norm), ..self }
    }
    /// Applies the layers.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        self.forward_with(x, EncoderMasks::default())
    }
    /// [`TransformerEncoder::forward`] with masks.
    #[track_caller]
    pub fn forward_with(&self, x: &Tensor, masks: EncoderMasks<'_>) -> Tensor {
        let mut x = x.alias();
        for layer in &self.layers {
            x = layer.forward_with(&x, masks);
        }
        match &self.norm {
            Some(norm) => norm.forward(&x),
            None => x,
        }
    }
}
impl crate::Layer for TransformerEncoder {
    fn forward(&self, x: &Tensor) -> Tensor {
        TransformerEncoder::forward(self, x)
    }
}

/// Attention of a sequence to itself and to an encoder's, and a layer between, each added to what came in.
///
/// # Shape
/// `[time, batch, width]` to the same; see [`MultiheadAttention`].
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::TransformerDecoderLayer::new(8, 2).feedforward(16).dropout_p(0.).activation(|x| x.gelu()).batch_first();
/// let layer = layer.norm_first().layer_norm_eps(1e-5).no_bias();
/// let x = torch::randn([2, 5, 8]); // batch, time, width
/// let memory = torch::randn([2, 7, 8]); // what the encoder made
/// assert_eq!(layer.forward(&x, &memory).shape(), [2, 5, 8]);
/// assert_eq!(layer.forward_with(&x, &memory, nn::DecoderMasks::default()).shape(), [2, 5, 8]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct TransformerDecoderLayer {
    /// The sequence to itself.
    pub self_attn: MultiheadAttention,
    /// The sequence to the encoder's.
    pub multihead_attn: MultiheadAttention,
    /// To the width between.
    pub linear1: Linear,
    dropout: Dropout,
    /// And back.
    pub linear2: Linear,
    /// Around the first attention.
    pub norm1: LayerNorm,
    /// Around the second attention.
    pub norm2: LayerNorm,
    /// Around the layers between.
    pub norm3: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    dropout3: Dropout,
    #[module(skip)]
    activation: Activation,
    norm_first: bool,
}

impl TransformerDecoderLayer {
    /// `heads` must divide `width`.
    ///
    /// # Panics
    /// When it does not.
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> Self {
        let dropout = || Dropout::new(0.1);
        let attention = || MultiheadAttention::new(width, heads).dropout(0.1);
        Self {
            self_attn: attention(),
            multihead_attn: attention(),
            linear1: Linear::new(width, 2048),
            dropout: dropout(),
            linear2: Linear::new(2048, width),
            norm1: LayerNorm::new(width),
            norm2: LayerNorm::new(width),
            norm3: LayerNorm::new(width),
            dropout1: dropout(),
            dropout2: dropout(),
            dropout3: dropout(),
            activation: Activation(F::relu),
            norm_first: false,
        }
    }
    layer_setters!(norm1 norm2 norm3; dropout1 dropout2 dropout3; self_attn multihead_attn);
    /// Applies the layer; `memory` is what an encoder made.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor) -> Tensor {
        self.forward_with(x, memory, DecoderMasks::default())
    }
    /// [`TransformerDecoderLayer::forward`] with masks.
    #[track_caller]
    pub fn forward_with(&self, x: &Tensor, memory: &Tensor, masks: DecoderMasks<'_>) -> Tensor {
        let own = AttentionMasks { key_padding: masks.tgt_key_padding, attention: masks.tgt, causal: masks.causal };
        let across = AttentionMasks { key_padding: masks.memory_key_padding, attention: masks.memory, causal: false };
        let attend = |x: &Tensor| self.dropout1.forward(&self.self_attn.forward_with(x, x, x, own));
        let look = |x: &Tensor| self.dropout2.forward(&self.multihead_attn.forward_with(x, memory, memory, across));
        if self.norm_first {
            let x = x + attend(&self.norm1.forward(x));
            let x = &x + look(&self.norm2.forward(&x));
            return &x + self.feed_forward(&self.norm3.forward(&x), &self.dropout3);
        }
        let x = self.norm1.forward(&(x + attend(x)));
        let x = self.norm2.forward(&(&x + look(&x)));
        self.norm3.forward(&(&x + self.feed_forward(&x, &self.dropout3)))
    }
}

/// Decoder layers one after the other.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let layer = nn::TransformerDecoderLayer::new(8, 2).batch_first();
/// let decoder = nn::TransformerDecoder::new(layer, 2).norm(nn::LayerNorm::new(8));
/// let (x, memory) = (torch::randn([2, 5, 8]), torch::randn([2, 7, 8]));
/// assert_eq!(decoder.forward(&x, &memory).shape(), [2, 5, 8]);
/// assert_eq!(decoder.forward_with(&x, &memory, nn::DecoderMasks::default()).shape(), [2, 5, 8]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct TransformerDecoder {
    /// The layers.
    pub layers: Vec<TransformerDecoderLayer>,
    /// After the last one.
    pub norm: Option<LayerNorm>,
}

impl TransformerDecoder {
    /// `count` copies of `layer`, each with parameters of its own that start equal, as in PyTorch.
    pub fn new(layer: TransformerDecoderLayer, count: usize) -> Self {
        Self { layers: (0..count).map(|_| layer.clone()).collect(), norm: None }
    }
    /// Normalizes after the last layer.
    #[must_use]
    pub fn norm(self, norm: LayerNorm) -> Self {
        Self { norm: Some(norm), ..self }
    }
    /// Applies the layers; `memory` is what an encoder made.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, memory: &Tensor) -> Tensor {
        self.forward_with(x, memory, DecoderMasks::default())
    }
    /// [`TransformerDecoder::forward`] with masks.
    #[track_caller]
    pub fn forward_with(&self, x: &Tensor, memory: &Tensor, masks: DecoderMasks<'_>) -> Tensor {
        let mut x = x.alias();
        for layer in &self.layers {
            x = layer.forward_with(&x, memory, masks);
        }
        match &self.norm {
            Some(norm) => norm.forward(&x),
            None => x,
        }
    }
}

/// An encoder, and a decoder that looks at what it made.
///
/// ```
/// use rtx_nn::{Transformer, TransformerDecoderLayer, TransformerEncoderLayer};
/// let model = Transformer::of(
///     TransformerEncoderLayer::new(8, 2).feedforward(16).batch_first(),
///     TransformerDecoderLayer::new(8, 2).feedforward(16).batch_first(),
///     1,
///     1,
/// );
/// let (from, to) = (rtx_tensor::ones([3, 5, 8]), rtx_tensor::ones([3, 4, 8]));
/// assert_eq!(model.forward(&from, &to).shape(), [3, 4, 8]);
/// ```
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let encoder = nn::TransformerEncoderLayer::new(8, 2).feedforward(16).batch_first();
/// let decoder = nn::TransformerDecoderLayer::new(8, 2).feedforward(16).batch_first();
/// let model = nn::Transformer::of(encoder, decoder, 1, 1); // new(512, 8) is the paper's
/// let (src, tgt) = (torch::randn([2, 7, 8]), torch::randn([2, 5, 8]));
/// assert_eq!(model.forward(&src, &tgt).shape(), [2, 5, 8]);
/// let causal = nn::DecoderMasks { tgt: Some(&nn::causal_mask(5)), ..Default::default() };
/// assert_eq!(model.forward_with(&src, &tgt, nn::EncoderMasks::default(), causal).shape(), [2, 5, 8]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Transformer {
    /// Reads.
    pub encoder: TransformerEncoder,
    /// Writes.
    pub decoder: TransformerDecoder,
}

impl Transformer {
    /// Six layers each, PyTorch's defaults.
    ///
    /// # Panics
    /// When `heads` does not divide `width`.
    #[track_caller]
    pub fn new(width: usize, heads: usize) -> Self {
        Self::of(TransformerEncoderLayer::new(width, heads), TransformerDecoderLayer::new(width, heads), 6, 6)
    }
    /// Copies of these layers, and a norm after each stack that is like theirs. Matrices are drawn anew, each its own,
    /// from Glorot's uniform distribution.
    pub fn of(
        encoder: TransformerEncoderLayer,
        decoder: TransformerDecoderLayer,
        encoder_count: usize,
        decoder_count: usize,
    ) -> Self {
        let norms = [encoder.norm2.clone(), decoder.norm3.clone()];
        let [a, b] = norms;
        let all = Self {
            encoder: TransformerEncoder::new(encoder, encoder_count).norm(a),
            decoder: TransformerDecoder::new(decoder, decoder_count).norm(b),
        };
        all.parameters().iter().filter(|p| p.rank() > 1).for_each(|p| init::xavier_uniform_(p));
        all
    }
    /// Applies both.
    #[track_caller]
    pub fn forward(&self, src: &Tensor, tgt: &Tensor) -> Tensor {
        self.forward_with(src, tgt, EncoderMasks::default(), DecoderMasks::default())
    }
    /// [`Transformer::forward`] with masks.
    #[track_caller]
    pub fn forward_with(
        &self,
        src: &Tensor,
        tgt: &Tensor,
        of_src: EncoderMasks<'_>,
        of_tgt: DecoderMasks<'_>,
    ) -> Tensor {
        self.decoder.forward_with(tgt, &self.encoder.forward_with(src, of_src), of_tgt)
    }
}
