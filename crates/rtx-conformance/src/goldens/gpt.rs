//! A small GPT trained from PyTorch's first weights on PyTorch's batches: losses, gradient norms and last weights.
//!
//! The configuration: two pre-norm blocks, width 64, four heads, context 64, tied head; mean cross-entropy over 8 × 64
//! tokens; gradients clipped to norm 1; AdamW (0.9, 0.95), eps 1e-8, decay 0.1 on every parameter; learning rate 5e-3
//! after ten steps of warm-up.
use super::trajectory::{Trajectory, find, relative_error};
use rustytorch::prelude::*;
use std::fmt;
use std::path::Path;

/// Tokens of the golden run are below this.
pub const VOCABULARY: usize = 96;

/// Sizes of a [`Gpt`].
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens are below it.
    pub vocabulary: usize,
    /// Positions.
    pub context: usize,
    /// Blocks.
    pub layers: usize,
    /// Numbers a position.
    pub width: usize,
    /// Heads of attention.
    pub heads: usize,
}

/// The golden run's.
const SIZES: Sizes = Sizes { vocabulary: VOCABULARY, context: 64, layers: 2, width: 64, heads: 4 };

/// How far a loss may be from PyTorch's float64 run.
const LOSS_TOLERANCE: f64 = 5e-6;
/// How far a final tensor may be, in units of PyTorch's own float32 error on it, and absolutely.
const WEIGHT_FACTOR: f64 = 5.0;
const WEIGHT_SLACK: f64 = 1e-6;

#[derive(Module)]
struct Block {
    heads: usize,
    ln1: nn::LayerNorm,
    qkv: nn::Linear,
    proj: nn::Linear,
    ln2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
}

/// The model: names as in the golden files.
#[derive(Module)]
pub struct Gpt {
    tok: nn::Embedding,
    pos: nn::Embedding,
    blocks: Vec<Block>,
    ln: nn::LayerNorm,
}

impl Block {
    fn new(Sizes { width, heads, .. }: Sizes) -> Self {
        Block {
            heads,
            ln1: nn::LayerNorm::new(width),
            qkv: nn::Linear::new(width, 3 * width),
            proj: nn::Linear::new(width, width),
            ln2: nn::LayerNorm::new(width),
            up: nn::Linear::new(width, 4 * width),
            down: nn::Linear::new(4 * width, width),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let [b, t, d] = x.dims();
        let qkv = self
            .qkv
            .forward(&self.ln1.forward(x))
            .reshape((b, t, 3, self.heads, d / self.heads))
            .permute([2, 0, 3, 1, 4]);
        let causal = F::Attention { causal: true, ..default() };
        let qkv = qkv.unbind(0);
        let y = F::scaled_dot_product_attention(&qkv[0], &qkv[1], &qkv[2], causal);
        let x = x + self.proj.forward(&y.transpose(1, 2).reshape((b, t, d)));
        let up = F::gelu_tanh(&self.up.forward(&self.ln2.forward(&x)));
        &x + self.down.forward(&up)
    }
}

impl Gpt {
    /// The golden run's model with fresh weights.
    #[allow(clippy::new_without_default, reason = "it draws random numbers")]
    pub fn new() -> Self {
        Self::with(SIZES)
    }

    /// A model of other sizes.
    pub fn with(sizes: Sizes) -> Self {
        Gpt {
            tok: nn::Embedding::new(sizes.vocabulary, sizes.width),
            pos: nn::Embedding::new(sizes.context, sizes.width),
            blocks: (0..sizes.layers).map(|_| Block::new(sizes)).collect(),
            ln: nn::LayerNorm::new(sizes.width),
        }
    }

    /// Mean cross-entropy of each next token of `tokens` `i64 [b, t + 1]`.
    pub fn loss(&self, tokens: &Tensor) -> Tensor {
        let (ids, next) = (tokens.i((.., ..-1)), tokens.i((.., 1..)));
        let t = ids.size(1);
        let mut x = self.tok.forward(&ids) + self.pos.weight.i(..t);
        for block in &self.blocks {
            x = block.forward(&x);
        }
        let logits = self.ln.forward(&x).matmul(self.tok.weight.t());
        F::cross_entropy(&logits.flatten(0, 1), &next.flatten(0, 1))
    }
}

/// What was compared.
#[derive(Debug)]
pub struct Report {
    /// (step, our loss, PyTorch's float64 loss, gradient norm, PyTorch's).
    steps: Vec<(usize, f64, f64, f64, f64)>,
    /// (name, relative error, PyTorch's own float32 error).
    weights: Vec<(String, f64, f64)>,
}

impl Report {
    /// Is everything within its tolerance?
    pub fn passed(&self) -> bool {
        let losses = self.steps.iter().all(|s| (s.1 - s.2).abs() <= LOSS_TOLERANCE);
        !self.steps.is_empty()
            && !self.weights.is_empty()
            && losses
            && self.weights.iter().all(|w| w.1 <= WEIGHT_FACTOR * w.2 + WEIGHT_SLACK)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worst = self.steps.iter().map(|s| (s.1 - s.2).abs()).fold(0.0, f64::max);
        let norm = self.steps.iter().map(|s| (s.3 - s.4).abs()).fold(0.0, f64::max);
        for (name, error, own) in &self.weights {
            let limit = WEIGHT_FACTOR * own + WEIGHT_SLACK;
            writeln!(
                f,
                "{} {name:24} error {error:.2e}, allowed {limit:.2e}",
                if *error <= limit { "ok  " } else { "FAIL" }
            )?;
        }
        let mark = if worst <= LOSS_TOLERANCE { "ok  " } else { "FAIL" };
        writeln!(
            f,
            "{mark} {} losses, worst difference {worst:.2e}, allowed {LOSS_TOLERANCE:.0e}; gradient norms {norm:.2e}",
            self.steps.len()
        )
    }
}

/// Trains and compares.
///
/// # Errors
/// For files in `dir` that are missing or of another form.
pub fn run(dir: &Path) -> Result<Report> {
    let golden = Trajectory::read(&dir.join("trajectory.json"))?;
    let batches = nn::load_file(dir.join("batches.safetensors"))?;
    let model = Gpt::new();
    model.load(dir.join("init.safetensors"))?;
    let mut opt = optim::AdamW::new(model.parameters(), 5e-3).betas(0.9, 0.95).eps(1e-8).weight_decay(0.1);
    let mut steps = Vec::new();
    for step in 0..golden.loss.len() {
        let loss = model.loss(find(&batches, &format!("{step}.tokens"))?);
        opt.zero_grad();
        loss.backward();
        let norm = nn::clip_grad_norm_(&model.parameters(), 1.0);
        opt.set_lr(5e-3 * (1.0f64).min((step + 1) as f64 / 10.0));
        opt.step()?;
        steps.push((step, loss.item::<f64>()?, golden.loss[step], norm.item::<f64>()?, golden.norm[step]));
    }
    let last = nn::load_file(dir.join("final_f64.safetensors"))?;
    let mut weights = Vec::new();
    for (name, ours) in model.state_dict() {
        let error = relative_error(&ours, find(&last, &name)?)?;
        let own = golden.own_error.get(&name).copied().unwrap_or(0.0);
        weights.push((name, error, own));
    }
    Ok(Report { steps, weights })
}
