//! Modules by their class names, with PyTorch's constructor arguments.
use super::*;
use nn::{AttentionMasks, DecoderMasks, EncoderMasks};

/// A module that can be called.
pub(super) trait Built {
    fn module(&self) -> &dyn Module;
    fn call(&self, arguments: &mut Arguments, inputs: &mut Inputs<'_>) -> Result<Vec<Tensor>>;
}

/// A module and how its call reads its arguments.
struct Of<M, F>(M, F);
impl<M: Module, F: Fn(&M, &mut Arguments, &mut Inputs<'_>) -> Result<Vec<Tensor>>> Built for Of<M, F> {
    fn module(&self) -> &dyn Module {
        &self.0
    }
    fn call(&self, arguments: &mut Arguments, inputs: &mut Inputs<'_>) -> Result<Vec<Tensor>> {
        (self.1)(&self.0, arguments, inputs)
    }
}

pub(super) type Found = Result<Box<dyn Built>>;

/// A layer: one tensor in, one out.
pub(super) fn layer<L: Layer + 'static>(layer: L) -> Found {
    custom(layer, |l, a, inputs| Ok(vec![l.forward(&a.tensor(inputs, 0, "input")?)]))
}
pub(super) fn custom<M: Module + 'static>(
    module: M,
    call: impl Fn(&M, &mut Arguments, &mut Inputs<'_>) -> Result<Vec<Tensor>> + 'static,
) -> Found {
    Ok(Box::new(Of(module, call)))
}

/// `x` with a setting where it is wanted.
pub(super) fn when<T>(wanted: bool, x: T, set: impl FnOnce(T) -> T) -> T {
    if wanted { set(x) } else { x }
}

/// Makes a module of this class.
pub(super) fn module(class: &str, a: &mut Arguments, inputs: &Inputs<'_>) -> Found {
    let name = class.strip_prefix("nn.").unwrap_or(class);
    let families = [activation, linear, loss, attention, super::spatial::spatial, super::recurrent::recurrent];
    for family in families {
        if let Some(built) = family(name, a, inputs) {
            return built;
        }
    }
    Err(Error::new(Kind::Unsupported, format!("{class}: there is no such module")))
}

fn activation(name: &str, a: &mut Arguments, _: &Inputs<'_>) -> Option<Found> {
    Some(match name {
        "ReLU" => layer(nn::ReLU),
        "ReLU6" => layer(nn::ReLU6),
        "GELU" => match a.word(0, "approximate").as_deref() {
            Some("tanh") => layer(nn::GELUTanh),
            _ => layer(nn::GELU),
        },
        "Tanh" => layer(nn::Tanh),
        "Sigmoid" => layer(nn::Sigmoid),
        "SiLU" => layer(nn::SiLU),
        "Mish" => layer(nn::Mish),
        "LogSigmoid" => layer(nn::LogSigmoid),
        "Softsign" => layer(nn::Softsign),
        "Tanhshrink" => layer(nn::Tanhshrink),
        "Hardsigmoid" => layer(nn::Hardsigmoid),
        "Hardswish" => layer(nn::Hardswish),
        "SELU" => layer(nn::SELU),
        "Identity" => layer(nn::Identity),
        "Softmax2d" => layer(nn::Softmax2d),
        "ELU" => layer(nn::ELU::new().alpha(a.float_or(0, "alpha", 1.0))),
        "CELU" => layer(nn::CELU::new().alpha(a.float_or(0, "alpha", 1.0))),
        "LeakyReLU" => layer(nn::LeakyReLU::new().negative_slope(a.float_or(0, "negative_slope", 0.01))),
        "Softplus" => {
            let beta = a.float_or(0, "beta", 1.0);
            layer(nn::Softplus::new().beta(beta).threshold(a.float_or(1, "threshold", 20.0)))
        }
        "Hardtanh" => {
            let least = a.float_or(0, "min_val", -1.0);
            layer(nn::Hardtanh::new().min_val(least).max_val(a.float_or(1, "max_val", 1.0)))
        }
        "Hardshrink" => layer(nn::Hardshrink::new().lambd(a.float_or(0, "lambd", 0.5))),
        "Softshrink" => layer(nn::Softshrink::new().lambd(a.float_or(0, "lambd", 0.5))),
        "Threshold" => {
            let threshold = a.float_or(0, "threshold", f64::NAN);
            layer(nn::Threshold::new(threshold, a.float_or(1, "value", f64::NAN)))
        }
        "GLU" => layer(nn::GLU::new(a.int(0, "dim").unwrap_or(-1))),
        "PReLU" => {
            let slopes = a.int(0, "num_parameters").unwrap_or(1) as usize;
            layer(nn::PReLU::new(slopes).init(a.float_or(1, "init", 0.25)))
        }
        "Softmax" | "LogSoftmax" | "Softmin" => {
            let dim = a.int(0, "dim")?;
            match name {
                "Softmax" => layer(nn::Softmax::new(dim)),
                "LogSoftmax" => layer(nn::LogSoftmax::new(dim)),
                _ => layer(nn::Softmin::new(dim)),
            }
        }
        _ => return None,
    })
}

fn linear(name: &str, a: &mut Arguments, _: &Inputs<'_>) -> Option<Found> {
    Some(match name {
        "Linear" => (|| {
            let (inputs, outputs) = (a.size(0, "in_features")?, a.size(1, "out_features")?);
            let bias = a.flag(2, "bias", true);
            layer(when(!bias, nn::Linear::new(inputs, outputs), |l| l.no_bias()))
        })(),
        "Bilinear" => (|| {
            let (x1, x2) = (a.size(0, "in1_features")?, a.size(1, "in2_features")?);
            let all = nn::Bilinear::new(x1, x2, a.size(2, "out_features")?);
            let bias = a.flag(3, "bias", true);
            custom(when(!bias, all, |l| l.no_bias()), |l, a, inputs| {
                let (x1, x2) = (a.tensor(inputs, 0, "input1")?, a.tensor(inputs, 1, "input2")?);
                Ok(vec![l.forward(&x1, &x2)])
            })
        })(),
        "Embedding" => (|| {
            let all = nn::Embedding::new(a.size(0, "num_embeddings")?, a.size(1, "embedding_dim")?);
            layer(match a.int(2, "padding_idx") {
                Some(row) => all.padding(row as usize),
                None => all,
            })
        })(),
        "LayerNorm" => {
            let all = nn::LayerNorm::new(a.ints(0, "normalized_shape").unwrap_or_default());
            let all = all.eps(a.float_or(1, "eps", 1e-5));
            let (affine, bias) = (a.flag(2, "elementwise_affine", true), a.flag(3, "bias", true));
            layer(when(!affine, when(!bias, all, |l| l.no_bias()), |l| l.no_affine()))
        }
        "RMSNorm" => {
            let all = nn::RMSNorm::new(a.ints(0, "normalized_shape").unwrap_or_default());
            let all = match a.float(1, "eps") {
                Some(eps) => all.eps(eps),
                None => all,
            };
            let affine = a.flag(2, "elementwise_affine", true);
            layer(when(!affine, all, |l| l.no_affine()))
        }
        "Flatten" => layer(nn::Flatten::dims(a.int(0, "start_dim").unwrap_or(1), a.int(1, "end_dim").unwrap_or(-1))),
        _ => return None,
    })
}

/// A word that lives as long as the program, as options take it.
fn reduction(a: &mut Arguments) -> &'static str {
    match a.word(usize::MAX, "reduction").as_deref() {
        Some("sum") => "sum",
        Some("none") => "none",
        Some("batchmean") => "batchmean",
        _ => "mean",
    }
}

fn loss(name: &str, a: &mut Arguments, inputs: &Inputs<'_>) -> Option<Found> {
    /// A loss with options by name: `number default`, `@ weight`; and the names of its inputs.
    macro_rules! loss { ($T:ident($($input:literal),+) $($method:ident $take:ident $default:expr),* $(; $($weight:ident),+)?) => {{
        let loss = nn::$T::new().reduction(reduction(a));
        $(let loss = loss.$method(loss!(@ $take a, stringify!($method), $default));)*
        $($(let loss = match a.setting(inputs, usize::MAX, stringify!($weight)) {
            Ok(Some(weight)) => loss.$weight(weight),
            Ok(None) => loss,
            Err(e) => return Some(Err(e)),
        };)+)?
        custom(loss, |loss, a, inputs| {
            let mut i = 0;
            Ok(vec![loss.forward($(&{ i += 1; a.tensor(inputs, i - 1, $input)? }),+)])
        })
    }};
        (@ float $a:ident, $name:expr, $default:expr) => { $a.float_or(usize::MAX, $name, $default) };
        (@ int $a:ident, $name:expr, $default:expr) => { $a.int(usize::MAX, $name).unwrap_or($default) };
        (@ flag $a:ident, $name:expr, $default:expr) => { $a.flag(usize::MAX, $name, $default) };
    }
    Some(match name {
        "L1Loss" => loss!(L1Loss("input", "target")),
        "MSELoss" => loss!(MSELoss("input", "target")),
        "SmoothL1Loss" => loss!(SmoothL1Loss("input", "target") beta float 1.0),
        "HuberLoss" => loss!(HuberLoss("input", "target") delta float 1.0),
        "BCELoss" => loss!(BCELoss("input", "target"); weight),
        "BCEWithLogitsLoss" => loss!(BCEWithLogitsLoss("input", "target"); weight, pos_weight),
        "NLLLoss" => loss!(NLLLoss("input", "target") ignore_index int -100; weight),
        "CrossEntropyLoss" => {
            loss!(CrossEntropyLoss("input", "target") ignore_index int -100, label_smoothing float 0.0; weight)
        }
        "KLDivLoss" => loss!(KLDivLoss("input", "target") log_target flag false),
        "HingeEmbeddingLoss" => loss!(HingeEmbeddingLoss("input", "target") margin float 1.0),
        "MarginRankingLoss" => loss!(MarginRankingLoss("input1", "input2", "target") margin float 0.0),
        "CosineEmbeddingLoss" => loss!(CosineEmbeddingLoss("input1", "input2", "target") margin float 0.0),
        "SoftMarginLoss" => loss!(SoftMarginLoss("input", "target")),
        "MultiLabelMarginLoss" => loss!(MultiLabelMarginLoss("input", "target")),
        "MultiLabelSoftMarginLoss" => loss!(MultiLabelSoftMarginLoss("input", "target"); weight),
        "MultiMarginLoss" => loss!(MultiMarginLoss("input", "target") p int 1, margin float 1.0; weight),
        "PoissonNLLLoss" => {
            loss!(PoissonNLLLoss("input", "target") log_input flag true, full flag false, eps float 1e-8)
        }
        "GaussianNLLLoss" => loss!(GaussianNLLLoss("input", "target", "var") full flag false, eps float 1e-6),
        "TripletMarginLoss" => {
            loss!(TripletMarginLoss("anchor", "positive", "negative") margin float 1.0, p float 2.0, eps float 1e-6, swap flag false)
        }
        "CTCLoss" => {
            loss!(CTCLoss("log_probs", "targets", "input_lengths", "target_lengths") blank int 0, zero_infinity flag false)
        }
        "LinearCrossEntropyLoss" => linear_cross_entropy(a, inputs),
        _ => return None,
    })
}

fn linear_cross_entropy(a: &mut Arguments, inputs: &Inputs<'_>) -> Found {
    let all = nn::LinearCrossEntropyLoss::new(a.size(0, "in_features")?, a.size(1, "num_classes")?);
    let outputs = a.ints(2, "out_features").unwrap_or_default();
    let all = when(!outputs.is_empty(), all, |l| {
        l.outputs(outputs.iter().filter_map(|n| usize::try_from(*n).ok()).collect::<Vec<_>>())
    });
    // How the work is cut into pieces changes no value.
    a.take(usize::MAX, "options");
    let bias = a.flag(3, "bias", false);
    let loss = nn::CrossEntropyLoss::new().reduction(reduction(a));
    let loss = loss.ignore_index(a.int(usize::MAX, "ignore_index").unwrap_or(-100));
    let loss = loss.label_smoothing(a.float_or(usize::MAX, "label_smoothing", 0.0));
    let loss = match a.setting(inputs, usize::MAX, "weight")? {
        Some(weight) => loss.weight(weight),
        None => loss,
    };
    custom(when(bias, all, |l| l.bias()).loss(loss), |l, a, inputs| {
        let (x, target) = (a.tensor(inputs, 0, "input")?, a.tensor(inputs, 1, "target")?);
        Ok(vec![l.forward(&x, &target)])
    })
}

fn attention(name: &str, a: &mut Arguments, _: &Inputs<'_>) -> Option<Found> {
    Some(match name {
        "MultiheadAttention" => multihead(a),
        "TransformerEncoderLayer" => encoder_layer(a).and_then(|layer| {
            custom(layer, |l, a, inputs| {
                let x = a.tensor(inputs, 0, "src")?;
                let src = a.tensor_or_none(inputs, 1, "src_mask")?;
                let padding = a.tensor_or_none(inputs, 2, "src_key_padding_mask")?;
                let masks = EncoderMasks {
                    src: src.as_ref(),
                    src_key_padding: padding.as_ref(),
                    causal: a.flag(3, "is_causal", false),
                };
                Ok(vec![l.forward_with(&x, masks)])
            })
        }),
        "TransformerDecoderLayer" => decoder_layer(a).and_then(|layer| {
            custom(layer, |l, a, inputs| {
                let (x, memory) = (a.tensor(inputs, 0, "tgt")?, a.tensor(inputs, 1, "memory")?);
                let tgt = a.tensor_or_none(inputs, 2, "tgt_mask")?;
                let across = a.tensor_or_none(inputs, 3, "memory_mask")?;
                let padding = a.tensor_or_none(inputs, 4, "tgt_key_padding_mask")?;
                let memory_padding = a.tensor_or_none(inputs, 5, "memory_key_padding_mask")?;
                let masks = DecoderMasks {
                    tgt: tgt.as_ref(),
                    memory: across.as_ref(),
                    tgt_key_padding: padding.as_ref(),
                    memory_key_padding: memory_padding.as_ref(),
                    causal: false,
                };
                Ok(vec![l.forward_with(&x, &memory, masks)])
            })
        }),
        "TransformerEncoder" => encoder(a),
        "Transformer" => transformer(a),
        _ => return None,
    })
}

fn multihead(a: &mut Arguments) -> Found {
    let (width, heads) = (a.size(0, "embed_dim")?, a.size(1, "num_heads")?);
    let all = nn::MultiheadAttention::new(width, heads).dropout(a.float_or(2, "dropout", 0.0));
    let (bias, bias_kv) = (a.flag(3, "bias", true), a.flag(4, "add_bias_kv", false));
    let (zero, sizes) = (a.flag(5, "add_zero_attn", false), (a.int(6, "kdim"), a.int(7, "vdim")));
    let all = when(!bias, all, |l| l.no_bias());
    let all = when(bias_kv, all, |l| l.bias_kv());
    let all = when(zero, all, |l| l.zero_attention());
    let all = when(a.flag(8, "batch_first", false), all, |l| l.batch_first());
    let all = match sizes {
        (None, None) => all,
        (k, v) => all.sizes(k.map_or(width, |n| n as usize), v.map_or(width, |n| n as usize)),
    };
    custom(all, |l, a, inputs| {
        let query = a.tensor(inputs, 0, "query")?;
        let (key, value) = (a.tensor(inputs, 1, "key")?, a.tensor(inputs, 2, "value")?);
        let padding = a.tensor_or_none(inputs, 3, "key_padding_mask")?;
        let need_weights = a.flag(4, "need_weights", true);
        let attention = a.tensor_or_none(inputs, 5, "attn_mask")?;
        let masks = AttentionMasks { key_padding: padding.as_ref(), attention: attention.as_ref(), causal: false };
        if !need_weights {
            return Ok(vec![l.forward_with(&query, &key, &value, masks)]);
        }
        let (y, weights) = l.forward_with_weights(&query, &key, &value, masks);
        Ok(vec![y, weights])
    })
}

/// What encoder and decoder layers take.
macro_rules! layer_of {
    ($T:ident, $a:ident) => {{
        let all = nn::$T::new($a.size(0, "d_model")?, $a.size(1, "nhead")?);
        let all = all.feedforward($a.int(2, "dim_feedforward").unwrap_or(2048) as usize);
        let all = all.dropout_p($a.float_or(3, "dropout", 0.1));
        let all = match activation_of($a.take(4, "activation"))? {
            Some(f) => all.activation(f),
            None => all,
        };
        let all = all.layer_norm_eps($a.float_or(5, "layer_norm_eps", 1e-5));
        let all = when($a.flag(6, "batch_first", false), all, |l| l.batch_first());
        let all = when($a.flag(7, "norm_first", false), all, |l| l.norm_first());
        let bias = $a.flag(8, "bias", true);
        when(!bias, all, |l| l.no_bias())
    }};
}

/// A function by name, as a word or a function.
fn activation_of(node: Option<Node>) -> Result<Option<fn(&Tensor) -> Tensor>> {
    let name = match &node {
        None => return Ok(None),
        Some(Node::Word(word)) => word.as_str(),
        Some(Node::Other(_, value)) => value.as_str().unwrap_or_default(),
        Some(_) => "",
    };
    match name.rsplit('.').next().unwrap_or_default() {
        "relu" => Ok(Some(F::relu)),
        "gelu" => Ok(Some(F::gelu)),
        other => Err(Error::new(Kind::Unsupported, format!("there is no activation {other}"))),
    }
}

fn encoder_layer(a: &mut Arguments) -> Result<nn::TransformerEncoderLayer> {
    Ok(layer_of!(TransformerEncoderLayer, a))
}
fn decoder_layer(a: &mut Arguments) -> Result<nn::TransformerDecoderLayer> {
    Ok(layer_of!(TransformerDecoderLayer, a))
}

fn encoder(a: &mut Arguments) -> Found {
    let Some(Node::Other(_, json)) = a.take(0, "encoder_layer") else {
        return Err(Error::new(Kind::Format, "an encoder without a layer"));
    };
    let mut inner = Arguments::parse(&json["args"], &json["kwargs"])?;
    let layer = encoder_layer(&mut inner)?;
    inner.all_taken("nn.TransformerEncoderLayer")?;
    a.take(usize::MAX, "enable_nested_tensor");
    let all = nn::TransformerEncoder::new(layer, a.size(1, "num_layers")?);
    custom(all, |l, a, inputs| {
        let x = a.tensor(inputs, 0, "src")?;
        let src = a.tensor_or_none(inputs, 1, "mask")?;
        let padding = a.tensor_or_none(inputs, 2, "src_key_padding_mask")?;
        let masks = EncoderMasks { src: src.as_ref(), src_key_padding: padding.as_ref(), causal: false };
        Ok(vec![l.forward_with(&x, masks)])
    })
}

fn transformer(a: &mut Arguments) -> Found {
    // The arguments of a layer, with the counts between them.
    let (width, heads) = (a.int(0, "d_model").unwrap_or(512) as usize, a.int(1, "nhead").unwrap_or(8) as usize);
    let count = |n: Option<i64>| n.unwrap_or(6) as usize;
    let (encoders, decoders) = (count(a.int(2, "num_encoder_layers")), count(a.int(3, "num_decoder_layers")));
    let between = a.int(4, "dim_feedforward").unwrap_or(2048) as usize;
    let dropout = a.float_or(5, "dropout", 0.1);
    let batch_first = a.flag(usize::MAX, "batch_first", false);
    let (norm_first, bias) = (a.flag(usize::MAX, "norm_first", false), a.flag(usize::MAX, "bias", true));
    macro_rules! of {
        ($T:ident) => {{
            let all = nn::$T::new(width, heads).feedforward(between).dropout_p(dropout);
            let all = when(batch_first, all, |l| l.batch_first());
            let all = when(norm_first, all, |l| l.norm_first());
            when(!bias, all, |l| l.no_bias())
        }};
    }
    let all = nn::Transformer::of(of!(TransformerEncoderLayer), of!(TransformerDecoderLayer), encoders, decoders);
    custom(all, |l, a, inputs| {
        let (x, y) = (a.tensor(inputs, 0, "src")?, a.tensor(inputs, 1, "tgt")?);
        let src = a.tensor_or_none(inputs, 2, "src_mask")?;
        let tgt = a.tensor_or_none(inputs, 3, "tgt_mask")?;
        let memory = a.tensor_or_none(inputs, 4, "memory_mask")?;
        let src_padding = a.tensor_or_none(inputs, 5, "src_key_padding_mask")?;
        let tgt_padding = a.tensor_or_none(inputs, 6, "tgt_key_padding_mask")?;
        let memory_padding = a.tensor_or_none(inputs, 7, "memory_key_padding_mask")?;
        let of_src = EncoderMasks { src: src.as_ref(), src_key_padding: src_padding.as_ref(), causal: false };
        let of_tgt = DecoderMasks {
            tgt: tgt.as_ref(),
            memory: memory.as_ref(),
            tgt_key_padding: tgt_padding.as_ref(),
            memory_key_padding: memory_padding.as_ref(),
            causal: false,
        };
        Ok(vec![l.forward_with(&x, &y, of_src, of_tgt)])
    })
}
