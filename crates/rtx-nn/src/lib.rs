//! Layers: modules whose fields are parameters, buffers and other modules, under PyTorch's names.
//!
//! ```
//! use rtx_nn::{Layer, Linear, Module, ReLU, seq};
//! let net = seq![Linear::new(8, 16), ReLU, Linear::new(16, 2)];
//! assert_eq!(net.forward(&rtx_tensor::ones([4, 8])).shape(), [4, 2]);
//! assert_eq!(net.named_parameters()[0].0, "0.weight");
//! ```

// The derive writes `::rustytorch::nn::…`, and this crate lies below `rustytorch`.
extern crate self as rustytorch;
#[doc(hidden)]
pub mod nn {
    pub use crate::*;
}

mod activation;
mod adaptive_softmax;
mod attention;
mod call;
mod channel_norm;
mod clip;
mod container;
mod conv;
mod distance;
mod dropout;
mod embedding;
mod fractional;
mod hooks;
pub mod init;
mod lazy;
mod leaf;
mod linear;
mod loss;
mod module;
mod multihead;
mod norm;
mod pad;
mod parametrize;
mod pool;
mod recurrent;
mod resize;
mod sequential;
mod state;
mod transformer;
mod weight_norm;

pub use activation::{
    CELU, ELU, GELU, GELUTanh, GLU, Hardshrink, Hardsigmoid, Hardswish, Hardtanh, Identity, LeakyReLU, LogSigmoid,
    LogSoftmax, Mish, PReLU, RReLU, ReLU, ReLU6, SELU, SiLU, Sigmoid, Softmax, Softmax2d, Softmin, Softplus,
    Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
pub use adaptive_softmax::AdaptiveLogSoftmaxWithLoss;
pub use attention::{CausalSelfAttention, KvCache};
pub use channel_norm::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, LocalResponseNorm,
};
pub use clip::{clip_grad_norm_, clip_grad_value_};
pub use container::{Flatten, ModuleDict, ModuleList, ParameterDict, ParameterList, Unflatten};
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, PaddingMode};
pub use distance::{CosineSimilarity, PairwiseDistance};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout};
pub use embedding::{BagMode, Bags, Embedding, EmbeddingBag};
pub use fractional::{FractionalMaxPool2d, FractionalMaxPool3d};
pub use hooks::Hooked;
pub use lazy::{
    Lazy, LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d, LazyConv1d, LazyConv2d, LazyConv3d, LazyConvTranspose1d,
    LazyConvTranspose2d, LazyConvTranspose3d, LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d, LazyLinear,
};
pub use leaf::{Buffer, Mode, Param};
pub use linear::{Bilinear, Linear};
pub use loss::{
    BCELoss, BCEWithLogitsLoss, CTCLoss, CosineEmbeddingLoss, CrossEntropyLoss, GaussianNLLLoss, HingeEmbeddingLoss,
    HuberLoss, KLDivLoss, L1Loss, LinearCrossEntropyLoss, MSELoss, MarginRankingLoss, MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss, MultiMarginLoss, NLLLoss, PoissonNLLLoss, SmoothL1Loss, SoftMarginLoss,
    TripletMarginLoss, TripletMarginWithDistanceLoss,
};
pub use module::{Field, Layer, Leaf, Module, Unmatched, Visitor};
pub use multihead::{AttentionMasks, MultiheadAttention, causal_mask};
pub use norm::{LayerNorm, RMSNorm};
pub use pad::{
    CircularPad1d, CircularPad2d, CircularPad3d, ConstantPad1d, ConstantPad2d, ConstantPad3d, ReflectionPad1d,
    ReflectionPad2d, ReflectionPad3d, ReplicationPad1d, ReplicationPad2d, ReplicationPad3d, ZeroPad1d, ZeroPad2d,
    ZeroPad3d,
};
pub use parametrize::{Parametrization, Parametrized, SpectralNorm, functional_call};
pub use pool::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d, AdaptiveMaxPool3d,
    AvgPool1d, AvgPool2d, AvgPool3d, LPPool1d, LPPool2d, LPPool3d, MaxPool1d, MaxPool2d, MaxPool3d, MaxUnpool1d,
    MaxUnpool2d, MaxUnpool3d,
};
pub use recurrent::{GRU, GRUCell, LSTM, LSTMCell, RNN, RNNCell};
pub use resize::{ChannelShuffle, Fold, PixelShuffle, PixelUnshuffle, Unfold, Upsample};
pub use rtx_macros::Module;
pub use rtx_tensor::functional;
pub use sequential::Sequential;
pub use state::{StateDict, load_file, save_file};
pub use transformer::{
    DecoderMasks, EncoderMasks, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer,
};
pub use weight_norm::{WeightNorm, Weighted};
