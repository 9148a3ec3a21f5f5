//! The rows of the table: what is timed here, by the names that `benches/peers/torch_rows.py` has for PyTorch's side.
use crate::goldens::gpt::{Gpt, Sizes};
use rtx_core::Kind;
use rustytorch::{self as torch, Stack, prelude::*};

/// Something to run again and again.
pub(super) type Work = Box<dyn FnMut() -> Result<()>>;

/// One thing to time.
pub(super) struct Row {
    pub name: &'static str,
    /// Of the number that is printed.
    pub unit: &'static str,
    /// Calls in one reading.
    pub iterations: u32,
    pub make: fn() -> Work,
}

/// Additions in a chain.
const CHAIN: u32 = 100_000;

impl Row {
    /// Parts of a call, where the number that is printed is that of one part.
    pub(super) fn parts(&self) -> u32 {
        if self.name == "add_chain" { CHAIN } else { 1 }
    }
}

/// Kernels first, then layers, then training steps.
pub(super) const ROWS: &[Row] = &[
    Row { name: "gemm_1024", unit: "ms", iterations: 10, make: || gemm([1024, 1024, 1024], F32) },
    Row { name: "gemm_2048", unit: "ms", iterations: 3, make: || gemm([2048, 2048, 2048], F32) },
    Row { name: "gemm_512x3072x768", unit: "ms", iterations: 10, make: || gemm([512, 3072, 768], F32) },
    Row { name: "gemm_64x256x784", unit: "ms", iterations: 200, make: || gemm([64, 256, 784], F32) },
    Row { name: "gemm_128", unit: "ms", iterations: 500, make: || gemm([128, 128, 128], F32) },
    Row { name: "gemv_4096", unit: "ms", iterations: 20, make: || gemm([1, 4096, 4096], F32) },
    Row { name: "gemm_bf16_1024", unit: "ms", iterations: 10, make: || gemm([1024, 1024, 1024], BF16) },
    Row {
        name: "chain8",
        unit: "ms",
        iterations: 10,
        make: || over(&[&[4096, 1024], &[4096, 1024]], |t| chain8(&t[0], &t[1])),
    },
    Row { name: "gelu", unit: "ms", iterations: 10, make: || over(&[&[4096, 1024]], |t| F::gelu_tanh(&t[0])) },
    Row { name: "softmax", unit: "ms", iterations: 10, make: || over(&[&[4096, 1024]], |t| t[0].softmax(-1)) },
    Row {
        name: "softmax_fb",
        unit: "ms",
        iterations: 5,
        make: || slopes(&[&[4096, 1024], &[1024]], |t| t[0].softmax(-1) * &t[1]),
    },
    Row {
        name: "layer_norm",
        unit: "ms",
        iterations: 10,
        make: || over(&[&[4096, 1024]], |t| F::layer_norm(&t[0], 1024, None, None, 1e-5)),
    },
    Row {
        name: "layer_norm_fb",
        unit: "ms",
        iterations: 5,
        make: || {
            slopes(&[&[4096, 1024], &[1024], &[1024]], |t| {
                F::layer_norm(&t[0], 1024, Some(&t[1]), Some(&t[2]), 1e-5).square()
            })
        },
    },
    Row {
        name: "attention_fb",
        unit: "ms",
        iterations: 5,
        make: || slopes(&[&[1usize, 8, 512, 64][..]; 3], attention),
    },
    Row {
        name: "cross_entropy_fb",
        unit: "ms",
        iterations: 5,
        make: || {
            let y = integers(128, 50_000);
            slopes(&[&[128, 50_000]], move |t| F::cross_entropy(&t[0], &y))
        },
    },
    Row {
        name: "embedding_fb",
        unit: "ms",
        iterations: 20,
        make: || {
            let ids = integers(4096, 10_000);
            slopes(&[&[10_000, 256]], move |t| F::embedding(&ids, &t[0]))
        },
    },
    Row {
        name: "dropout_fb",
        unit: "ms",
        iterations: 5,
        make: || slopes(&[&[4096, 1024]], |t| F::dropout(&t[0], 0.1)),
    },
    Row {
        name: "max_pool_fb",
        unit: "ms",
        iterations: 10,
        make: || slopes(&[&[64, 32, 28, 28]], |t| t[0].max_pool2d(2)),
    },
    Row {
        name: "avg_pool_fb",
        unit: "ms",
        iterations: 10,
        make: || slopes(&[&[64, 32, 28, 28]], |t| t[0].avg_pool2d(2).square()),
    },
    Row {
        name: "batch_norm_fb",
        unit: "ms",
        iterations: 10,
        make: || {
            let norm = nn::BatchNorm2d::new(64);
            slopes_of(&[&[8, 64, 56, 56]], norm.parameters(), move |t| norm.forward(&t[0]))
        },
    },
    Row {
        name: "depthwise_fb",
        unit: "ms",
        iterations: 10,
        make: || {
            let conv = nn::Conv2d::new(64, 64, 3).padding(1).groups(64).no_bias();
            slopes_of(&[&[8, 64, 56, 56]], conv.parameters(), move |t| conv.forward(&t[0]))
        },
    },
    Row { name: "basic_block", unit: "ms", iterations: 3, make: basic_block },
    Row { name: "lstm_fb", unit: "ms", iterations: 5, make: lstm },
    Row { name: "add_chain", unit: "us", iterations: 1, make: add_chain },
    Row { name: "mlp_sgd", unit: "ms", iterations: 100, make: || mlp(|p| Box::new(optim::SGD::new(p, 0.1))) },
    Row { name: "mlp_adamw", unit: "ms", iterations: 100, make: || mlp(|p| Box::new(optim::AdamW::new(p, 1e-3))) },
    Row { name: "cnn_adamw", unit: "ms", iterations: 5, make: cnn },
    Row {
        name: "gpt_sums",
        unit: "ms",
        iterations: 10,
        make: || gpt(Sizes { vocabulary: 16, context: 12, layers: 2, width: 128, heads: 4 }, 256),
    },
    Row {
        name: "gpt_text",
        unit: "ms",
        iterations: 10,
        make: || gpt(Sizes { vocabulary: 256, context: 64, layers: 2, width: 128, heads: 4 }, 32),
    },
    Row {
        name: "gpt_nano",
        unit: "ms",
        iterations: 3,
        make: || gpt(Sizes { vocabulary: 256, context: 128, layers: 4, width: 128, heads: 4 }, 16),
    },
    Row {
        name: "gpt_mini",
        unit: "ms",
        iterations: 1,
        make: || gpt(Sizes { vocabulary: 256, context: 256, layers: 6, width: 384, heads: 6 }, 8),
    },
];

/// `count` integers below `end`, in no order.
fn integers(count: i64, end: i64) -> Tensor {
    torch::from_slice(&(0..count).map(|i| i * 7919 % end).collect::<Vec<i64>>(), count as usize)
}
fn drawn(shapes: &[&[usize]]) -> Vec<Tensor> {
    shapes.iter().map(|s| torch::randn(*s)).collect()
}

/// A value that is computed and left where it is.
fn over(shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Tensor + 'static) -> Work {
    let operands = drawn(shapes);
    Box::new(move || {
        let _y = f(&operands);
        torch::flush()
    })
}
/// The gradients of a sum in every operand, as new tensors.
fn slopes(shapes: &[&[usize]], f: impl Fn(&[Tensor]) -> Tensor + 'static) -> Work {
    slopes_of(shapes, vec![], f)
}
/// The gradients of a sum in every operand and in parameters.
fn slopes_of(shapes: &[&[usize]], parameters: Vec<nn::Param>, f: impl Fn(&[Tensor]) -> Tensor + 'static) -> Work {
    let operands: Vec<Tensor> = drawn(shapes).into_iter().map(Tensor::requires_grad_).collect();
    Box::new(move || {
        let parameters: Vec<Tensor> = parameters.iter().map(|p| p.alias()).collect();
        let wrt: Vec<&Tensor> = operands.iter().chain(&parameters).collect();
        let _grads = torch::Grad::of(&f(&operands).sum(..)).find(&wrt)?;
        torch::flush()
    })
}

fn gemm([m, n, k]: [usize; 3], dtype: DType) -> Work {
    let (a, b) = (torch::randn([m, k]).to(dtype), torch::randn([k, n]).to(dtype));
    Box::new(move || {
        let _c = a.matmul(&b);
        torch::flush()
    })
}
fn chain8(x: &Tensor, y: &Tensor) -> Tensor {
    (x * 1.5 + y).tanh() * y.sigmoid() + x.abs().sqrt()
}
fn attention(t: &[Tensor]) -> Tensor {
    F::scaled_dot_product_attention(&t[0], &t[1], &t[2], F::Attention { causal: true, ..Default::default() })
}

fn basic_block() -> Work {
    let conv = || nn::Conv2d::new(64, 64, 3).padding(1).no_bias();
    let (conv1, conv2) = (conv(), conv());
    let (norm1, norm2) = (nn::BatchNorm2d::new(64), nn::BatchNorm2d::new(64));
    let parameters =
        [conv1.parameters(), norm1.parameters(), conv2.parameters(), norm2.parameters()].into_iter().flatten();
    slopes_of(&[&[8, 64, 56, 56]], parameters.collect(), move |t| {
        let y = norm1.forward(&conv1.forward(&t[0])).relu();
        (norm2.forward(&conv2.forward(&y)) + &t[0]).relu()
    })
}

/// Two layers of 256 over 64 steps of 16 examples.
pub(super) fn lstm() -> Work {
    let bound = 1.0 / 16.0;
    let mut shapes: Vec<&[usize]> = vec![&[64, 16, 256]];
    (0..2).for_each(|_| shapes.extend([&[1024, 256][..], &[1024, 256], &[1024], &[1024]]));
    slopes(&shapes, move |t| {
        let params = t[1..].iter().map(|p| p * bound).collect();
        let zero = torch::zeros((2, 16, 256));
        let stack = Stack { params, has_biases: true, num_layers: 2, bidirectional: false, batch_first: false };
        torch::lstm(&t[0], [&zero, &zero], stack).expect("the sizes fit").0
    })
}

/// Additions, each of the result before, and every one of them is run.
fn add_chain() -> Work {
    let operands = drawn(&[&[16], &[16]]);
    Box::new(move || {
        let before = torch::counters();
        let mut b = operands[1].alias();
        (0..CHAIN).for_each(|_| b = &b + &operands[0]);
        b.to_vec::<f32>()?;
        match (torch::counters() - before).nodes_run {
            n if n >= u64::from(CHAIN) => Ok(()),
            n => Err(Error::new(Kind::Internal, format!("add_chain: {n} of {CHAIN} nodes were run"))),
        }
    })
}

type Make = fn(Vec<nn::Param>) -> Box<dyn Optimizer>;

pub(super) fn mlp(optimizer: Make) -> Work {
    let net = seq![nn::Linear::new(784, 256), nn::ReLU, nn::Linear::new(256, 10)];
    let x = torch::randn([64, 784]);
    classifier(net.parameters(), optimizer, integers(64, 10), move || net.forward(&x))
}
pub(super) fn cnn() -> Work {
    let conv = |from, to| nn::Conv2d::new(from, to, 3).padding(1);
    let net = seq![
        conv(1, 32),
        nn::ReLU,
        nn::MaxPool2d::new(2),
        conv(32, 64),
        nn::ReLU,
        nn::MaxPool2d::new(2),
        nn::Flatten::new(),
        nn::Linear::new(3136, 128),
        nn::ReLU,
        nn::Linear::new(128, 10)
    ];
    let x = torch::randn([128, 1, 28, 28]);
    classifier(net.parameters(), |p| Box::new(optim::AdamW::new(p, 1e-3)), integers(128, 10), move || net.forward(&x))
}
/// One training step.
fn classifier(parameters: Vec<nn::Param>, make: Make, y: Tensor, logits: impl Fn() -> Tensor + 'static) -> Work {
    let mut opt = make(parameters);
    Box::new(move || {
        let loss = F::cross_entropy(&logits(), &y);
        opt.zero_grad();
        loss.backward();
        opt.step()?;
        loss.item::<f32>().map(drop)
    })
}

pub(super) fn gpt(sizes: Sizes, batch: usize) -> Work {
    let model = Gpt::with(sizes);
    let mut opt = optim::AdamW::new(model.parameters(), 1e-3).betas(0.9, 0.95);
    let ids: Vec<i64> = (0..batch * (sizes.context + 1)).map(|i| (i * 7919 % sizes.vocabulary) as i64).collect();
    let tokens = torch::from_slice(&ids, [batch, sizes.context + 1]);
    Box::new(move || {
        let loss = model.loss(&tokens);
        opt.zero_grad();
        loss.backward();
        nn::clip_grad_norm_(&model.parameters(), 1.0);
        opt.step()?;
        loss.item::<f32>().map(drop)
    })
}
