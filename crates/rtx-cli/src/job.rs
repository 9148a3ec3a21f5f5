//! What a run learns from and is judged by: one [`Job`] a task.
use crate::generate::{self, Draw};
use crate::gpt::{Gpt, Sizes};
use crate::pictures::Pictures;
use crate::report::Score;
use crate::settings::{Settings, Task};
use crate::words::{self, count, thousands};
use rustytorch::data::{Batches, Collate, Corpus, Position, Sums};
use rustytorch::{self as torch, Kind, prelude::*};

/// Rows of text that a check reads at most, and in one batch.
const CHECK_ROWS: usize = 512;
const CHECK_BATCH: usize = 64;
/// A run stops when this part of the sums kept aside is right.
const GOOD_ENOUGH: f64 = 0.999;
/// Bytes of text in `sample.txt`.
const SAMPLE_BYTES: usize = 600;

/// A task: its data, its model, what it is judged by.
pub trait Job {
    /// One line that says what is learned.
    fn title(&self) -> &str;
    /// The model, in a word and its sizes.
    fn architecture(&self) -> String;
    /// The model's parameters and state.
    fn module(&self) -> &dyn Module;
    /// Goes to a place in the data.
    fn seek(&mut self, position: Position);
    /// The next batch's place in the data.
    fn position(&self) -> Position;
    /// The loss of the next batch.
    ///
    /// # Errors
    /// When the batch cannot be read.
    fn loss(&mut self) -> Result<Tensor>;
    /// How the model does on data set aside.
    ///
    /// # Errors
    /// When the work fails.
    fn score(&self) -> Result<Score>;
    /// Is nothing more to be won?
    fn is_good_enough(&self, _: Score) -> bool {
        false
    }
    /// What is said when all is done.
    ///
    /// # Errors
    /// When the work fails.
    fn close(&self, score: Option<Score>) -> Result<Closing>;
}

/// A run's last words.
pub struct Closing {
    /// What it came to.
    pub said: String,
    /// The contents of `sample.txt`.
    pub sample: Vec<u8>,
    /// What to try next: options of `rtx`, after the run's folder.
    pub next: &'static str,
}

/// Makes or reads the data, and makes the model.
///
/// # Errors
/// When there is no data, or too little.
pub fn open(settings: &Settings) -> Result<Box<dyn Job>> {
    torch::set_default_device(&crate::settings::device(&settings.device)?);
    match settings.task {
        Task::Sums => Ok(Box::new(Addition::open(settings)?)),
        Task::Text => Ok(Box::new(Text::open(settings)?)),
        Task::Fashion => Ok(Box::new(Pictures::open(settings)?)),
    }
}

/// The GPT that settings describe.
///
/// # Errors
/// When the task has none.
pub fn gpt(settings: &Settings) -> Result<Gpt> {
    let vocabulary = match settings.task {
        Task::Sums => Sums::VOCABULARY,
        Task::Text => 256,
        Task::Fashion => return Err(Error::new(Kind::Argument, "a fashion-mnist run has no language model")),
    };
    let Settings { context, layers, width, heads, .. } = *settings;
    Ok(Gpt::new(&Sizes { vocabulary, context, layers, width, heads }, settings.init))
}

fn architecture(settings: &Settings) -> String {
    format!("gpt {}×{}", settings.layers, settings.width)
}

/// The error of a loader that has nothing to give.
pub fn too_little_data() -> Error {
    Error::new(Kind::Argument, "there is not one whole batch of data").hint("try a smaller --batch")
}

type Rows = DataLoader<Box<dyn Dataset<Item = Vec<i64>>>>;

/// Rows of ids to learn from, whatever they stand for.
struct Feed {
    loader: Rows,
    batches: Batches<Box<dyn Dataset<Item = Vec<i64>>>>,
}

impl Feed {
    fn new(set: impl Dataset<Item = Vec<i64>> + 'static, settings: &Settings) -> Self {
        let set: Box<dyn Dataset<Item = Vec<i64>>> = Box::new(set);
        let loader = DataLoader::new(set, settings.batch).shuffle(settings.seed).drop_last();
        Self { batches: loader.endless(Position::default()), loader }
    }
    fn seek(&mut self, position: Position) {
        if position != self.batches.position() {
            self.batches = self.loader.endless(position);
        }
    }
    fn next(&mut self) -> Result<Tensor> {
        self.batches.next().ok_or_else(too_little_data)?
    }
}

/// A GPT learns to add.
struct Addition {
    sums: Sums,
    title: String,
    architecture: String,
    feed: Feed,
    held_out: Tensor,
    model: Gpt,
}

impl Addition {
    /// A row's tokens are predicted from number `FROM` + 1 on.
    const FROM: usize = Sums::PROMPT - 1;

    fn open(settings: &Settings) -> Result<Self> {
        let sums = Sums::new(settings.seed);
        let held_out = sums.held_out();
        let title = format!(
            "sums: \"417+586=\" → \"3001\", the answer backwards · {} sums are kept aside",
            thousands(held_out.len() as u64)
        );
        let (feed, held_out) = (Feed::new(sums.clone(), settings), Collate::collate(&held_out)?);
        torch::manual_seed(settings.seed);
        Ok(Self { sums, title, architecture: architecture(settings), feed, held_out, model: gpt(settings)? })
    }
}

impl Job for Addition {
    fn title(&self) -> &str {
        &self.title
    }
    fn architecture(&self) -> String {
        self.architecture.clone()
    }
    fn module(&self) -> &dyn Module {
        &self.model
    }
    fn seek(&mut self, position: Position) {
        self.feed.seek(position);
    }
    fn position(&self) -> Position {
        self.feed.batches.position()
    }
    fn loss(&mut self) -> Result<Tensor> {
        Ok(self.model.loss(&self.feed.next()?, Self::FROM))
    }
    fn score(&self) -> Result<Score> {
        torch::no_grad(|| {
            let rows = &self.held_out;
            let answers = self.model.forward(&rows.i((.., ..-1)), Self::FROM).argmax(-1);
            let right = answers.eq(rows.i((.., Self::FROM + 1..))).all(-1);
            Ok(Score::Exact(right.to(F32).mean(..).item::<f32>()?.into()))
        })
    }
    fn is_good_enough(&self, score: Score) -> bool {
        matches!(score, Score::Exact(x) if x >= GOOD_ENOUGH)
    }
    fn close(&self, score: Option<Score>) -> Result<Closing> {
        let mut sample = String::new();
        let mut shown = Vec::new();
        for i in 0..10 {
            let (a, b) = self.sums.held_out_pair(i);
            let answer = generate::answer(&self.model, &format!("{a}+{b}="))?.1;
            let verdict = if answer == (a + b).to_string() { "right" } else { "wrong" };
            sample += &format!("{a}+{b} → {answer}   {verdict}\n");
            shown.push(format!("{a}+{b} → {answer}"));
        }
        let few = shown[..3].join("   ");
        let said = match score {
            Some(Score::Exact(exact)) => {
                let right = thousands((exact * 1000.0).round() as u64);
                format!("{right} of 1,000 sums it never saw are right.   {few}")
            }
            _ => few,
        };
        let next = "--prompt \"123+456=\"      rtx train --text .";
        Ok(Closing { said, sample: sample.into_bytes(), next })
    }
}

/// A GPT learns the bytes of a text.
struct Text {
    title: String,
    architecture: String,
    feed: Feed,
    /// Batches of rows set aside.
    held_out: Vec<Tensor>,
    model: Gpt,
    seed: u64,
}

impl Text {
    fn open(settings: &Settings) -> Result<Self> {
        let path = settings.text.as_deref().unwrap_or_else(|| std::path::Path::new("."));
        let named = |e: Error| Error::new(e.kind(), format!("--text {e}"));
        let corpus = Corpus::open(path).map_err(named)?;
        let split = corpus.split(settings.context);
        let (train, held) = split.map_err(|e| Error::new(e.kind(), format!("--text {}: {e}", path.display())))?;
        if train.len() < settings.batch {
            let windows = count(train.len() as u64, "window", "windows");
            let what = format!("--text {}: has {windows}, a batch takes {}", path.display(), settings.batch);
            return Err(Error::new(Kind::Argument, what).hint("try a smaller --batch"));
        }
        let step = held.len().div_ceil(CHECK_ROWS).max(1);
        let rows = (0..held.len()).step_by(step).map(|i| held.get(i)).collect::<Result<Vec<_>>>()?;
        // Whole batches only, unless there is less than one: one shape, so one plan.
        let batch = CHECK_BATCH.min(rows.len());
        let held_out = rows.chunks_exact(batch).map(Collate::collate).collect::<Result<_>>()?;
        let title = format!(
            "text: {} in {}, one block in 16 set aside",
            words::bytes(corpus.bytes.len() as u64),
            count(corpus.files as u64, "file", "files")
        );
        let (architecture, feed) = (architecture(settings), Feed::new(train, settings));
        torch::manual_seed(settings.seed);
        Ok(Self { title, architecture, feed, held_out, model: gpt(settings)?, seed: settings.seed })
    }
}

impl Job for Text {
    fn title(&self) -> &str {
        &self.title
    }
    fn architecture(&self) -> String {
        self.architecture.clone()
    }
    fn module(&self) -> &dyn Module {
        &self.model
    }
    fn seek(&mut self, position: Position) {
        self.feed.seek(position);
    }
    fn position(&self) -> Position {
        self.feed.batches.position()
    }
    fn loss(&mut self) -> Result<Tensor> {
        Ok(self.model.loss(&self.feed.next()?, 0))
    }
    fn score(&self) -> Result<Score> {
        torch::no_grad(|| {
            let mut sum = 0.0;
            for rows in &self.held_out {
                sum += f64::from(self.model.loss(rows, 0).item::<f32>()?);
            }
            Ok(Score::Loss(sum / self.held_out.len() as f64))
        })
    }
    fn close(&self, score: Option<Score>) -> Result<Closing> {
        let mut sample = Vec::new();
        let draw = Draw { temperature: 0.8, seed: self.seed, length: SAMPLE_BYTES, ..Draw::default() };
        generate::continue_text(&self.model, b"\n", &draw, |byte| sample.push(byte))?;
        let said = match score {
            Some(Score::Loss(x)) => {
                format!("{:.3} bits a byte on text it never saw ({} nats).", x / std::f64::consts::LN_2, words::loss(x))
            }
            _ => String::new(),
        };
        let shown = String::from_utf8_lossy(&sample[..sample.len().min(240)]).into_owned();
        Ok(Closing { said: format!("{said}\n\n{}\n", shown.trim()), sample, next: "--prompt \"The \"" })
    }
}
