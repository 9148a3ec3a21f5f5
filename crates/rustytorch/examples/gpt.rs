//! A small GPT learns to reverse its input; prints what it answers.
use rustytorch::{self as torch, prelude::*};

const LENGTH: usize = 6;
const WIDTH: usize = 48;
/// Digits, and a mark between the question and the answer.
const VOCABULARY: usize = 11;

#[derive(Module)]
struct Block {
    ln1: nn::LayerNorm,
    attention: nn::CausalSelfAttention,
    ln2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
}
impl Block {
    fn new() -> Self {
        Self {
            ln1: nn::LayerNorm::new(WIDTH),
            attention: nn::CausalSelfAttention::new(WIDTH, 4),
            ln2: nn::LayerNorm::new(WIDTH),
            up: nn::Linear::new(WIDTH, 4 * WIDTH),
            down: nn::Linear::new(4 * WIDTH, WIDTH),
        }
    }
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x + self.attention.forward(&self.ln1.forward(x));
        &x + self.down.forward(&F::gelu(&self.up.forward(&self.ln2.forward(&x))))
    }
}

#[derive(Module)]
struct Gpt {
    tok: nn::Embedding,
    pos: nn::Embedding,
    blocks: Vec<Block>,
    norm: nn::LayerNorm,
    head: nn::Linear,
}
impl Gpt {
    fn new() -> Self {
        Self {
            tok: nn::Embedding::new(VOCABULARY, WIDTH),
            pos: nn::Embedding::new(2 * LENGTH, WIDTH),
            blocks: (0..2).map(|_| Block::new()).collect(),
            norm: nn::LayerNorm::new(WIDTH),
            head: nn::Linear::new(WIDTH, VOCABULARY).no_bias(),
        }
    }
    fn forward(&self, ids: &Tensor) -> Tensor {
        let [_, time] = ids.dims();
        let mut x = self.tok.forward(ids) + self.pos.forward(&torch::arange(0..time as i64));
        for block in &self.blocks {
            x = block.forward(&x);
        }
        self.head.forward(&self.norm.forward(&x))
    }
}

/// `[batch, 2 · LENGTH]`: digits, the mark, the digits backwards but for the last, which is only asked for.
fn questions(batch: usize) -> (Tensor, Tensor) {
    let digits = torch::randint(0..10, [batch, LENGTH]);
    let mark = torch::full([batch, 1], 10);
    let whole = torch::cat(&[&digits, &mark, &digits.flip([1])], 1);
    (whole.narrow(1, 0, 2 * LENGTH), whole.narrow(1, LENGTH + 1, LENGTH))
}

fn main() -> Result<()> {
    torch::manual_seed(0);
    let model = Gpt::new();
    let steps = 400;
    let lr = optim::Cosine::new(3e-3, steps).warmup(20);
    let mut opt = optim::AdamW::new(model.parameters(), lr.at(0)).betas(0.9, 0.95);
    for step in 0..steps {
        opt.set_lr(lr.at(step));
        let (ids, answers) = questions(64);
        let logits = model.forward(&ids).narrow(1, LENGTH, LENGTH);
        let loss = F::cross_entropy(&logits.reshape((-1, VOCABULARY)), &answers.reshape(-1));
        opt.zero_grad();
        loss.backward();
        nn::clip_grad_norm_(&model.parameters(), 1.0);
        opt.step()?;
        if step % 100 == 99 {
            println!("step {:3}  loss {:.4}", step + 1, loss.item::<f32>()?);
        }
    }
    let question = [3i64, 1, 4, 1, 5, 9];
    let mut ids: Vec<i64> = question.into_iter().chain([10]).collect();
    torch::no_grad(|| {
        while ids.len() <= 2 * LENGTH {
            let logits = model.forward(&torch::from_slice(&ids, [1, ids.len()]));
            ids.push(logits.i((0, -1)).argmax(-1).item::<i64>()?);
        }
        Ok::<_, Error>(())
    })?;
    let answer = &ids[LENGTH + 1..];
    println!("{question:?} backwards is {answer:?}");
    assert!(answer.iter().rev().eq(&question), "it reverses what it never saw");
    Ok(())
}
