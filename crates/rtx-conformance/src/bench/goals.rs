//! What each row is, in a sentence, and what is wanted of it.
use rtx_cpu::Yardstick;

/// What the machine can do at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// f32 multiplications and additions a second.
    Fma,
    /// Bytes a second of the best copy of 16 MiB, read and written.
    Copy,
    /// Bytes a second of reading 64 MiB.
    Read,
}

impl Limit {
    pub(super) fn name(self) -> &'static str {
        match self {
            Limit::Fma => "FMA peak",
            Limit::Copy => "copy",
            Limit::Read => "read stream",
        }
    }
    pub(super) fn measure(self, yardstick: &mut Yardstick) -> f64 {
        match self {
            Limit::Fma => yardstick.flops(),
            Limit::Copy => yardstick.copied(),
            Limit::Read => yardstick.read(),
        }
    }
}

/// Which part of a limit a row uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub of: Limit,
    /// Operations of one call, or bytes that it must at least read and write.
    pub work: f64,
    /// The wanted part; 0 where it is only shown.
    pub wanted: f64,
}

/// A row's sentence and goals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub name: &'static str,
    pub about: &'static str,
    /// Of the better peer's number to ours.
    pub ratio: Option<f64>,
    /// Is the ratio the one to eager PyTorch?
    pub to_eager: bool,
    pub share: Option<Share>,
    /// Of our number, in the row's unit.
    pub at_most: Option<f64>,
}

const fn row(name: &'static str, about: &'static str) -> Goal {
    Goal { name, about, ratio: None, to_eager: false, share: None, at_most: None }
}
impl Goal {
    const fn ratio(mut self, at_least: f64) -> Self {
        self.ratio = Some(at_least);
        self
    }
    const fn eager(mut self, at_least: f64) -> Self {
        (self.ratio, self.to_eager) = (Some(at_least), true);
        self
    }
    const fn share(mut self, of: Limit, work: f64, wanted: f64) -> Self {
        self.share = Some(Share { of, work, wanted });
        self
    }
    /// A product of matrices of f32.
    const fn product(self, [m, n, k]: [u32; 3], wanted: f64) -> Self {
        self.share(Limit::Fma, 2.0 * m as f64 * n as f64 * k as f64, wanted)
    }
    /// So many passes over 4096 × 1024 numbers of f32.
    const fn passes(self, n: u32, wanted: f64) -> Self {
        self.share(Limit::Copy, n as f64 * 4.0 * 4096.0 * 1024.0, wanted)
    }
    const fn at_most(mut self, number: f64) -> Self {
        self.at_most = Some(number);
        self
    }
}

/// In the order of the page.
pub(super) const GOALS: &[Goal] = &[
    row("gemm_1024", "product of two matrices of f32, 1024 × 1024 × 1024").ratio(1.0).product([1024, 1024, 1024], 0.75),
    row("gemm_2048", "the same, 2048 × 2048 × 2048").ratio(1.0).product([2048, 2048, 2048], 0.75),
    row("gemm_512x3072x768", "the same, 512 × 768 by 768 × 3072").ratio(1.0).product([512, 3072, 768], 0.75),
    row("gemm_64x256x784", "the same, 64 × 784 by 784 × 256").ratio(1.0).product([64, 256, 784], 0.0),
    row("gemm_128", "the same, 128 × 128 × 128").ratio(1.0).product([128, 128, 128], 0.0),
    row("gemv_4096", "a row by a matrix, 1 × 4096 by 4096 × 4096").ratio(2.0).share(
        Limit::Read,
        4.0 * 4096.0 * 4096.0,
        0.85,
    ),
    row("gemm_bf16_1024", "product of two matrices of bf16, 1024 × 1024 × 1024").ratio(1.0),
    row("gemm_int8_1024", "product of two matrices of 8-bit integers, summed in 32 bits, 1024 × 1024 × 1024")
        .ratio(1.0),
    row("chain8", "`tanh(1.5 x + y) · sigmoid(y) + sqrt(abs(x))`, 4096 × 1024").ratio(1.8).passes(3, 0.75),
    row("gelu", "gelu with tanh, 4096 × 1024").passes(2, 0.8),
    row("softmax", "softmax of 4096 rows of 1024").passes(2, 0.9),
    row("softmax_fb", "the same times a row of weights, and its gradients").ratio(1.5),
    row("layer_norm", "layer norm of 4096 rows of 1024").passes(2, 0.9),
    row("layer_norm_fb", "the same with weights, squared, and its gradients").ratio(1.5),
    row("attention_fb", "causal attention, 8 heads of 64, length 512, and its gradients").ratio(1.3),
    row("cross_entropy_fb", "cross-entropy of 128 rows over 50,000 classes, and its gradient").ratio(1.3),
    row("embedding_fb", "4096 rows of a table of 10,000 × 256, and the table's gradient").ratio(1.3),
    row("dropout_fb", "dropout of 4096 × 1024, and its gradient").ratio(1.3),
    row("max_pool_fb", "max pooling 2 × 2 of 64 × 32 × 28 × 28, and its gradient"),
    row("avg_pool_fb", "mean pooling 2 × 2 of the same, squared, and its gradient"),
    row("batch_norm_fb", "batch norm of 8 × 64 × 56 × 56 in training, and its gradients"),
    row("depthwise_fb", "convolution 3 × 3 of each of 64 channels by itself, 56 × 56, batch 8, and its gradients"),
    row("basic_block", "ResNet's basic block, 64 channels, 56 × 56, batch 8, and its gradients").ratio(1.1),
    row("lstm_fb", "LSTM, 2 layers of 256, 64 steps, batch 16, and its gradients").ratio(1.1),
    row("add_chain", "`b = b + a` of 16 numbers, 100,000 in a chain, then read; a single one").at_most(0.4),
    row("mlp_sgd", "a training step of 784-256-10, batch 64, SGD").eager(3.0),
    row("mlp_adamw", "the same with AdamW").eager(5.0),
    row("cnn_adamw", "a training step of a small CNN on 28 × 28, batch 128, AdamW"),
    row("gpt_sums", "a training step of the GPT that learns sums: 2 layers of 128, context 12, batch 256"),
    row("gpt_text", "a training step of the GPT that learns bytes: 2 layers of 128, context 64, batch 32"),
    row("gpt_nano", "a training step of a GPT: 4 layers of 128, context 128, batch 16, AdamW, clipped").ratio(1.8),
    row("gpt_mini", "the same: 6 layers of 384, context 256, batch 8").ratio(1.4),
    row("gpt_mini_peak", "the most bytes of living tensors in three of its steps, parameters and moments included")
        .ratio(1.0),
    row("gpt_mini_start", "from the start of a process to the first loss of `gpt_mini`, nothing cached on disk")
        .at_most(1.5),
    row("gpt_mini_first_step", "its first step minus a steady one, nothing cached on disk").at_most(0.3),
    row("train_sums", "`rtx train`, from the start of the process to its end, with 99 % of held-out sums right")
        .at_most(60.0),
];

/// The goal of a row.
pub(super) fn of(name: &str) -> Option<&'static Goal> {
    GOALS.iter().find(|goal| goal.name == name)
}

#[cfg(test)]
mod tests {
    use super::super::{process, rows};

    #[test]
    fn every_row_says_what_it_is() {
        let rows = rows::ROWS.iter().map(|r| r.name).chain(process::ROWS.iter().map(|r| r.name));
        rows.for_each(|name| assert!(super::of(name).is_some(), "{name} has no line in goals.rs"));
    }
}
