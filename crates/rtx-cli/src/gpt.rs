//! A small GPT, written as any user of the library would write it.
use rustytorch::{self as torch, prelude::*};

/// Sizes of a [`Gpt`].
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens are numbers below this.
    pub vocabulary: usize,
    /// Positions it sees.
    pub context: usize,
    /// Blocks.
    pub layers: usize,
    /// Numbers a position.
    pub width: usize,
    /// Heads of attention.
    pub heads: usize,
}

/// A transformer that predicts the next token at every position.
#[derive(Module)]
pub struct Gpt {
    tok: nn::Embedding,
    pos: nn::Embedding,
    blocks: Vec<Block>,
    ln: nn::LayerNorm,
    head: nn::Linear,
}

#[derive(Module)]
struct Block {
    ln1: nn::LayerNorm,
    #[module(flatten)]
    attention: nn::CausalSelfAttention,
    ln2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
}

impl Block {
    fn new(sizes: &Sizes) -> Self {
        let width = sizes.width;
        Self {
            ln1: nn::LayerNorm::new(width),
            attention: nn::CausalSelfAttention::new(width, sizes.heads),
            ln2: nn::LayerNorm::new(width),
            up: nn::Linear::new(width, 4 * width),
            down: nn::Linear::new(4 * width, width),
        }
    }
    fn mlp(&self, x: &Tensor) -> Tensor {
        let hidden = F::gelu_tanh(&self.up.forward(&self.ln2.forward(x)));
        self.down.forward(&hidden)
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x + self.attention.forward(&self.ln1.forward(x));
        &x + self.mlp(&x)
    }
    fn forward_cached(&self, x: &Tensor, cache: &nn::KvCache, start: usize) -> Tensor {
        let x = x + self.attention.forward_cached(&self.ln1.forward(x), cache, start);
        &x + self.mlp(&x)
    }
}

impl Gpt {
    /// Weights from N(0, `std`²), those that end a residual branch smaller by √(2 · layers); biases zero.
    pub fn new(sizes: &Sizes, std: f64) -> Self {
        let model = Self {
            tok: nn::Embedding::new(sizes.vocabulary, sizes.width),
            pos: nn::Embedding::new(sizes.context, sizes.width),
            blocks: (0..sizes.layers).map(|_| Block::new(sizes)).collect(),
            ln: nn::LayerNorm::new(sizes.width),
            head: nn::Linear::new(sizes.width, sizes.vocabulary).no_bias(),
        };
        let residual = std / (2.0 * sizes.layers as f64).sqrt();
        for (name, p) in model.named_parameters() {
            if name.ends_with("bias") {
                nn::init::zeros_(&p);
            } else if p.rank() > 1 {
                let ends_branch = name.ends_with("proj.weight") || name.ends_with("down.weight");
                nn::init::normal_(&p, 0.0, if ends_branch { residual } else { std });
            }
        }
        model
    }

    /// Logits of the positions from `from` on: `[batch, time - from, vocabulary]` for ids `[batch, time]`.
    pub fn forward(&self, ids: &Tensor, from: usize) -> Tensor {
        let time = ids.size(1);
        let mut x = self.tok.forward(ids) + self.pos.weight.narrow(0, 0, time);
        for block in &self.blocks {
            x = block.forward(&x);
        }
        self.head.forward(&self.ln.forward(&x.i((.., from..))))
    }

    /// The mean loss of predicting each row's tokens from number `from` + 1 on. A function of its own, so that the
    /// logits end here and are never stored.
    pub fn loss(&self, rows: &Tensor, from: usize) -> Tensor {
        let logits = self.forward(&rows.i((.., ..-1)), from);
        F::cross_entropy(&logits.flatten(0, 1), &rows.i((.., from + 1..)).flatten(0, 1))
    }

    /// Decodes one sequence: see [`Decoder`].
    pub fn decoder(&self) -> Decoder<'_> {
        let context = self.pos.weight.size(0);
        let caches = self.blocks.iter().map(|b| b.attention.cache(1, context)).collect();
        Decoder { model: self, caches, context, length: 0 }
    }

    /// Logits `[1, vocabulary]` of the last of `count` ids `[1, time]` that stand from `start` on.
    fn decode(&self, ids: &Tensor, caches: &[nn::KvCache], start: usize, count: usize) -> Tensor {
        let mut x = self.tok.forward(ids) + self.pos.weight.narrow(0, start, ids.size(1));
        for (block, cache) in self.blocks.iter().zip(caches) {
            x = block.forward_cached(&x, cache, start);
        }
        let last = x.narrow(1, count - 1, 1).flatten(0, 1);
        self.head.forward(&self.ln.forward(&last))
    }
}

/// Continues one sequence. Two plans serve every length: one reads a prompt (padded to the whole context), one adds
/// a token; both write the cache in place.
pub struct Decoder<'a> {
    model: &'a Gpt,
    caches: Vec<nn::KvCache>,
    context: usize,
    length: usize,
}

impl Decoder<'_> {
    /// Reads a prompt, of which the last `context` ids count, and gives the logits of what comes next.
    pub fn prompt(&mut self, ids: &[i64]) -> Result<Vec<f32>> {
        let ids = &ids[ids.len().saturating_sub(self.context)..];
        let mut padded = ids.to_vec();
        padded.resize(self.context, 0);
        self.length = ids.len();
        self.run(&padded, 0, ids.len())
    }

    /// Adds one token. When the context is full, the older half is forgotten: `recent` are the ids up to now.
    pub fn next(&mut self, recent: &[i64]) -> Result<Vec<f32>> {
        if self.length == self.context {
            return self.prompt(&recent[recent.len() - (self.context / 2).max(1)..]);
        }
        self.length += 1;
        self.run(&recent[recent.len() - 1..], self.length - 1, 1)
    }

    fn run(&self, ids: &[i64], start: usize, count: usize) -> Result<Vec<f32>> {
        torch::no_grad(|| {
            let ids = torch::from_slice(ids, (1, ids.len()));
            self.model.decode(&ids, &self.caches, start, count).to_vec()
        })
    }
}
