//! The task `fashion-mnist`: a net tells clothes apart.
use crate::job::{Closing, Job, too_little_data};
use crate::report::Score;
use crate::settings::Settings;
use crate::words::thousands;
use rustytorch::data::{Batches, Collate, FashionMnist, Position};
use rustytorch::{self as torch, Kind, prelude::*};

/// Pictures of one check's batch.
const CHECK_BATCH: usize = 500;
/// Threads that fetch pictures ahead; the batches do not depend on them.
const WORKERS: usize = 1;

/// The net: two convolutions of 3×3, each with the largest of 2×2 kept, then two linear layers.
#[derive(Module)]
struct Net {
    first: nn::Conv2d,
    second: nn::Conv2d,
    hidden: nn::Linear,
    out: nn::Linear,
    pool: nn::MaxPool2d,
    dropout: nn::Dropout,
}

impl Net {
    fn new(width: usize, dropout: f64) -> Self {
        Self {
            first: nn::Conv2d::new(1, width, 3).padding(1),
            second: nn::Conv2d::new(width, 2 * width, 3).padding(1),
            hidden: nn::Linear::new(7 * 7 * 2 * width, 8 * width),
            out: nn::Linear::new(8 * width, FashionMnist::CLASSES.len()),
            pool: nn::MaxPool2d::new(2),
            dropout: nn::Dropout::new(dropout),
        }
    }
    /// `[batch, 1, 28, 28]` to `[batch, 10]`.
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.pool.forward(&F::relu(&self.first.forward(x)));
        let x = self.pool.forward(&F::relu(&self.second.forward(&x)));
        let x = self.dropout.forward(&x.flatten(1, -1));
        self.out.forward(&self.dropout.forward(&F::relu(&self.hidden.forward(&x))))
    }
}

/// Pictures to learn from, pictures to be judged by, and the net.
pub struct Pictures {
    title: String,
    width: usize,
    loader: DataLoader<FashionMnist>,
    batches: Batches<FashionMnist>,
    test: Vec<(Tensor, Tensor)>,
    test_size: usize,
    model: Net,
}

impl Pictures {
    /// Reads the data and makes the net.
    ///
    /// # Errors
    /// When a file is missing or damaged.
    pub fn open(settings: &Settings) -> Result<Self> {
        let folder = settings.data.clone().unwrap_or_default();
        let named = |e: Error| Error::new(e.kind(), format!("--data {e}"));
        let (train, test) = (FashionMnist::train(&folder).map_err(named)?, FashionMnist::test(&folder).map_err(named)?);
        if train.len() < settings.batch {
            let what =
                format!("--data {}: has {} pictures, a batch takes {}", folder.display(), train.len(), settings.batch);
            return Err(Error::new(Kind::Argument, what).hint("try a smaller --batch"));
        }
        let title = format!(
            "fashion-mnist: {} pictures of 28×28 in 10 classes · {} to be judged by",
            thousands(train.len() as u64),
            thousands(test.len() as u64)
        );
        let items = (0..test.len()).map(|i| test.get(i)).collect::<Result<Vec<_>>>()?;
        let test_size = items.len();
        let test = items.chunks(CHECK_BATCH).map(Collate::collate).collect::<Result<_>>()?;
        let loader = DataLoader::new(train, settings.batch).shuffle(settings.seed).drop_last().workers(WORKERS);
        let batches = loader.endless(Position::default());
        torch::manual_seed(settings.seed);
        let model = Net::new(settings.width, settings.dropout);
        Ok(Self { title, width: settings.width, loader, batches, test, test_size, model })
    }

    /// The model's answers for a batch, while nothing is left out.
    fn answers(&self, x: &Tensor) -> Tensor {
        torch::no_grad(|| self.model.forward(x).argmax(-1))
    }
}

impl Job for Pictures {
    fn title(&self) -> &str {
        &self.title
    }
    fn architecture(&self) -> String {
        format!("cnn {}-{}", self.width, 2 * self.width)
    }
    fn module(&self) -> &dyn Module {
        &self.model
    }
    fn seek(&mut self, position: Position) {
        if position != self.batches.position() {
            self.batches = self.loader.endless(position);
        }
    }
    fn position(&self) -> Position {
        self.batches.position()
    }
    fn loss(&mut self) -> Result<Tensor> {
        let (x, y) = self.batches.next().ok_or_else(too_little_data)??;
        Ok(F::cross_entropy(&self.model.forward(&x), &y))
    }
    fn score(&self) -> Result<Score> {
        self.model.eval();
        let count = |(x, y): &(Tensor, Tensor)| self.answers(x).eq(y).to(F32).sum(..).item::<f32>();
        let right = self.test.iter().map(count).sum::<Result<f32>>();
        self.model.train();
        Ok(Score::Accuracy(f64::from(right?) / self.test_size as f64))
    }
    fn close(&self, score: Option<Score>) -> Result<Closing> {
        let class = |i: i64| FashionMnist::CLASSES.get(i as usize).copied().unwrap_or("?");
        let mut sample = String::new();
        if let Some((x, y)) = self.test.first() {
            let (answers, labels) = (self.answers(x).to_vec::<i64>()?, y.to_vec::<i64>()?);
            for (i, (a, l)) in answers.iter().zip(&labels).enumerate().take(20) {
                let verdict = if a == l { "right".to_owned() } else { format!("wrong, it is a {}", class(*l)) };
                sample += &format!("test picture {i}: {}   {verdict}\n", class(*a));
            }
        }
        let said = match score {
            Some(Score::Accuracy(x)) => {
                let right = thousands((x * self.test_size as f64).round() as u64);
                let all = thousands(self.test_size as u64);
                format!("{right} of {all} test pictures are right ({:.2} %).", x * 100.0)
            }
            _ => String::new(),
        };
        Ok(Closing { said, sample: sample.into_bytes(), next: "" })
    }
}
