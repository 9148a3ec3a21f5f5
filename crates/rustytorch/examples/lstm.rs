//! An LSTM learns a rhyme letter by letter, and says it again from its first letters.
use rustytorch::{self as torch, prelude::*};

const RHYME: &str = "the owl sat high upon the oak, the owl saw much and little spoke; \
                     the less he spoke the more he heard, why are we not like that old bird? ";
const PIECE: usize = 32;
const BATCH: usize = 16;

#[derive(Module)]
struct Speaker {
    letters: nn::Embedding,
    lstm: nn::LSTM,
    head: nn::Linear,
}
impl Speaker {
    fn new(letters: usize) -> Self {
        Self {
            letters: nn::Embedding::new(letters, 16),
            lstm: nn::LSTM::new(16, 96).batch_first(),
            head: nn::Linear::new(96, letters),
        }
    }
    /// Logits of the next letter after each one, and the states at the end.
    fn forward(&self, ids: &Tensor, states: Option<[&Tensor; 2]>) -> (Tensor, [Tensor; 2]) {
        let (y, states) = self.lstm.forward(&self.letters.forward(ids), states);
        (self.head.forward(&y), states)
    }
    /// Goes on from a beginning, the likeliest letter each time; the states carry what was said.
    fn speak(&self, beginning: &[i64], letters: usize) -> Result<Vec<i64>> {
        let mut said = beginning.to_vec();
        let (mut logits, mut states) = self.forward(&torch::from_slice(beginning, (1, beginning.len())), None);
        while said.len() < letters {
            let next: i64 = logits.i((0, -1)).argmax(-1).item()?;
            said.push(next);
            let [h, c] = &states;
            (logits, states) = self.forward(&torch::from_slice(&[next], (1, 1)), Some([h, c]));
        }
        Ok(said)
    }
}

fn main() -> Result<()> {
    torch::manual_seed(0);
    let mut alphabet: Vec<char> = RHYME.chars().collect();
    alphabet.sort_unstable();
    alphabet.dedup();
    let number = |c: char| alphabet.iter().position(|&a| a == c).unwrap_or(0) as i64;
    let ids: Vec<i64> = RHYME.chars().chain(RHYME.chars()).map(number).collect();
    let length = ids.len() / 2;
    let all = torch::from_slice(&ids, ids.len());

    let net = Speaker::new(alphabet.len());
    let mut opt = optim::Adam::new(net.parameters(), 1e-2);
    for step in 0..150 {
        // Pieces of the rhyme from anywhere, and the letters that follow theirs.
        let starts = torch::randint(0..length as i64, (BATCH, 1));
        let places = starts + torch::arange(0..PIECE as i64);
        let (x, y) = (all.take(&places), all.take(places + 1));
        let (logits, _) = net.forward(&x, None);
        let loss = F::cross_entropy(&logits.reshape((-1, alphabet.len())), &y.reshape(-1));
        opt.zero_grad();
        loss.backward();
        nn::clip_grad_norm_(&net.parameters(), 1.0);
        opt.step()?;
        if step % 50 == 49 {
            println!("step {:3}  loss {:.3}", step + 1, loss.item::<f32>()?);
        }
    }
    net.eval();
    let said = torch::no_grad(|| net.speak(&ids[..8], length))?;
    let said: String = said.iter().map(|&i| alphabet[i as usize]).collect();
    println!("{said}");
    let right = said.chars().zip(RHYME.chars()).filter(|(a, b)| a == b).count();
    assert!(right * 10 > length * 9, "the rhyme is known: {right} of {length} letters");
    Ok(())
}
