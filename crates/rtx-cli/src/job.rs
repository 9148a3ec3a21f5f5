//! What a run learns from and is judged by.
use crate::gpt::{Gpt, Sizes};
use crate::report::{Score, thousands};
use crate::settings::{Settings, Task};
use rustytorch::data::{Collate, Corpus, Sums};
use rustytorch::{self as torch, prelude::*};

/// Rows of text that a check reads at most, and in one batch.
const CHECK_ROWS: usize = 256;
const CHECK_BATCH: usize = 64;

/// Gives rows of ids to learn from, whatever they stand for.
pub type Loader = DataLoader<Box<dyn Dataset<Item = Vec<i64>>>>;

/// A task, and what it is judged by.
pub struct Job {
    /// The sums kept aside.
    pub sums: Option<Sums>,
    /// One line that says what is learned.
    pub title: String,
    /// Batches of rows set aside.
    held_out: Vec<Tensor>,
    /// A row's tokens are predicted from number `from` + 1 on.
    pub from: usize,
}

impl Job {
    /// Makes or reads the data, and the loader of that which is learned.
    ///
    /// # Errors
    /// When there is no text, or too little.
    pub fn open(settings: &Settings) -> Result<(Self, Loader)> {
        match settings.task {
            Task::Sums => Self::sums(settings),
            Task::Text => Self::text(settings),
        }
    }

    fn sums(settings: &Settings) -> Result<(Self, Loader)> {
        let sums = Sums::new(settings.seed);
        let held_out = sums.held_out();
        let title = format!(
            "sums: \"417+586=\" → \"3001\", the answer backwards · {} sums are kept aside",
            thousands(held_out.len() as u64)
        );
        let loader = loader(sums.clone(), settings);
        let held_out = vec![Collate::collate(&held_out)?];
        Ok((Self { sums: Some(sums), title, held_out, from: Sums::PROMPT - 1 }, loader))
    }

    fn text(settings: &Settings) -> Result<(Self, Loader)> {
        let path = settings.text.as_deref().unwrap_or_else(|| std::path::Path::new("."));
        let named = |e: Error| Error::new(e.kind(), format!("--text {e}"));
        let corpus = Corpus::open(path).map_err(named)?;
        let (train, held) = corpus.split(settings.context)?;
        if train.len() < settings.batch {
            let what =
                format!("--text {}: has {} windows, a batch takes {}", path.display(), train.len(), settings.batch);
            return Err(Error::new(torch::Kind::Argument, what));
        }
        let step = held.len().div_ceil(CHECK_ROWS).max(1);
        let rows = (0..held.len()).step_by(step).map(|i| held.get(i)).collect::<Result<Vec<_>>>()?;
        // Whole batches only, unless there is less than one: one shape, so one plan.
        let batch = CHECK_BATCH.min(rows.len());
        let held_out = rows.chunks_exact(batch).map(Collate::collate).collect::<Result<_>>()?;
        let files = if corpus.files == 1 { "1 file".to_owned() } else { format!("{} files", corpus.files) };
        let title =
            format!("text: {} bytes of {files}, one block in 16 set aside", thousands(corpus.bytes.len() as u64));
        Ok((Self { sums: None, title, held_out, from: 0 }, loader(train, settings)))
    }

    /// How the model does on rows set aside.
    ///
    /// # Errors
    /// When the work fails.
    pub fn score(&self, model: &Gpt) -> Result<Score> {
        torch::no_grad(|| match self.sums {
            Some(_) => {
                let rows = &self.held_out[0];
                let answers = model.forward(&rows.i((.., ..-1)), self.from).argmax(-1);
                let right = answers.eq(rows.i((.., self.from + 1..))).all(-1);
                Ok(Score::Exact(right.to(F32).mean(..).item::<f32>()?.into()))
            }
            None => {
                let mut sum = 0.0;
                for rows in &self.held_out {
                    sum += f64::from(model.loss(rows, self.from).item::<f32>()?);
                }
                Ok(Score::Loss(sum / self.held_out.len() as f64))
            }
        })
    }
}

fn loader(set: impl Dataset<Item = Vec<i64>> + 'static, settings: &Settings) -> Loader {
    let set: Box<dyn Dataset<Item = Vec<i64>>> = Box::new(set);
    DataLoader::new(set, settings.batch).shuffle(settings.seed).drop_last()
}

/// The model that settings describe.
pub fn model(settings: &Settings) -> Gpt {
    let vocabulary = match settings.task {
        Task::Sums => Sums::VOCABULARY,
        Task::Text => 256,
    };
    let Settings { context, layers, width, heads, .. } = *settings;
    Gpt::new(&Sizes { vocabulary, context, layers, width, heads }, settings.init)
}
