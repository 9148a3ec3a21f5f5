//! `rtx train`: a plain loop, its log, its checkpoints, its closing lines.
use crate::args;
use crate::generate;
use crate::gpt::Gpt;
use crate::job::{self, Job, Loader};
use crate::report::{self, Progress, Score, megabytes, print_now, thousands};
use crate::run_folder::{Found, RunFolder, State};
use crate::settings::{Settings, Task};
use rustytorch::data::Position;
use rustytorch::{self as torch, Counters, Kind, prelude::*};
use serde_json::{Map, Value};
use std::path::Path;

/// A run stops when this part of the sums kept aside is right.
const GOOD_ENOUGH: f64 = 0.999;
/// Bytes of text in `sample.txt`.
const SAMPLE_BYTES: usize = 600;

/// Trains, from the start or from a checkpoint.
///
/// # Errors
/// With one sentence; then nothing is half-written.
pub fn train(args: &args::Train) -> Result<()> {
    if let Some(n) = args.threads {
        torch::set_num_threads(n);
    }
    let (mut run, loader) = match &args.resume {
        Some(path) => Run::resume(path)?,
        None => Run::start(args)?,
    };
    run.print_header();
    run.steps(&loader)?;
    run.close(args.stats)
}

struct Run {
    settings: Settings,
    job: Job,
    model: Gpt,
    optimizer: optim::AdamW,
    folder: RunFolder,
    step: u64,
    position: Position,
    score: Option<Score>,
    meter: Meter,
}

impl Run {
    fn start(args: &args::Train) -> Result<(Self, Loader)> {
        let settings = args.settings()?;
        let (job, loader, model, optimizer) = Self::make(&settings)?;
        let folder = RunFolder::create(args.run.as_deref(), &settings)?;
        Ok((Self::at(settings, job, model, optimizer, folder, &State::default()), loader))
    }

    fn resume(path: &Path) -> Result<(Self, Loader)> {
        let found = Found::at(path)?;
        if found.state.finished {
            let what = format!("{}: is finished after {} steps", path.display(), found.state.step);
            return Err(Error::new(Kind::Argument, what));
        }
        let (settings, state) = (found.settings.clone(), found.state.clone());
        let (job, loader, model, mut optimizer) = Self::make(&settings)?;
        model.load(found.checkpoint.join("model.safetensors"))?;
        optimizer.load_state_dict(&nn::load_file(found.checkpoint.join("optimizer.safetensors"))?)?;
        let (seed, ordinal) = state.random;
        torch::generator().set_state(torch::RandomState { seed, ordinal });
        Ok((Self::at(settings, job, model, optimizer, found.open()?, &state), loader))
    }

    /// Data, model and optimizer: nothing is written yet.
    fn make(settings: &Settings) -> Result<(Job, Loader, Gpt, optim::AdamW)> {
        let (job, loader) = Job::open(settings)?;
        torch::manual_seed(settings.seed);
        let model = job::model(settings);
        torch::flush()?; // first weights are made here, so that the first step is the same plan as all others
        // Matrices decay, biases and gains do not.
        let (matrices, rest): (Vec<_>, Vec<_>) = model.parameters().into_iter().partition(|p| p.rank() > 1);
        let groups = [
            optim::Group::new(matrices).weight_decay(settings.weight_decay),
            optim::Group::new(rest).weight_decay(0.0),
        ];
        let optimizer = optim::AdamW::groups(groups, settings.lr).betas(0.9, 0.95);
        Ok((job, loader, model, optimizer))
    }

    fn at(settings: Settings, job: Job, model: Gpt, optimizer: optim::AdamW, folder: RunFolder, at: &State) -> Self {
        let position = Position { epoch: at.position.0, batch: at.position.1 };
        Self { settings, job, model, optimizer, folder, step: at.step, position, score: None, meter: Meter::default() }
    }

    fn print_header(&self) {
        let s = &self.settings;
        let parameters = thousands(self.model.num_parameters() as u64);
        print_now(&format!(
            "cpu · {} · {} · strict (same bits on every run)\ntask   {}\nmodel  gpt {}×{} · {parameters} parameters · \
             {} steps × {} · seed {}\nrun    {}{}\n\n",
            match torch::get_num_threads() {
                1 => "1 thread".to_owned(),
                n => format!("{n} threads"),
            },
            match torch::cpu_capability() {
                "avx512" => "AVX-512",
                "avx2" => "AVX2",
                other => other,
            },
            self.job.title,
            s.layers,
            s.width,
            thousands(s.steps),
            s.batch,
            s.seed,
            self.folder.path().display(),
            if self.step > 0 { format!(", from step {}", self.step) } else { String::new() },
        ));
    }

    fn steps(&mut self, loader: &Loader) -> Result<()> {
        let Settings { steps, clip, report, check, save, .. } = self.settings;
        let schedule = optim::Cosine::new(self.settings.lr, steps).warmup(self.settings.warmup);
        let parameters = self.model.parameters();
        let mut progress = Progress::new(self.step, steps);
        let mut batches = loader.endless(self.position);
        while !self.is_finished() {
            let rows = batches.next().ok_or_else(too_little_data)??;
            self.position = batches.position();
            let loss = self.model.loss(&rows, self.job.from);
            self.optimizer.zero_grad();
            loss.backward();
            nn::clip_grad_norm_(&parameters, clip);
            self.optimizer.set_lr(schedule.at(self.step)); // a number: nothing recompiles
            self.optimizer.step()?; // forward, backward and update run as one plan
            self.optimizer.zero_grad(); // before it runs, so that no gradient is kept
            self.step += 1;
            let due = |every: u64| self.step.is_multiple_of(every) || self.step == steps;
            let (check, save) = (due(check), due(save));
            // The first step is reported too: its plan, which gives the loss, then serves all others.
            if check || self.step == 1 || due(report) {
                self.report(&loss, check, &mut progress)?;
            }
            if save || self.is_finished() {
                self.save()?;
            }
        }
        Ok(())
    }

    /// All steps done, or as good as it gets.
    fn is_finished(&self) -> bool {
        self.step == self.settings.steps || matches!(self.score, Some(Score::Exact(x)) if x >= GOOD_ENOUGH)
    }

    /// Reads the loss, checks if it is time to, and writes both down.
    fn report(&mut self, loss: &Tensor, check: bool, progress: &mut Progress) -> Result<()> {
        let loss: f32 = loss.item()?;
        self.meter.steps_are_done(self.step);
        if !loss.is_finite() {
            let what = format!("the loss is {loss} after {} steps: the learning rate may be too high", self.step);
            return Err(Error::new(Kind::Argument, what).hint(format!("it was {}; try --lr", self.settings.lr)));
        }
        let mut line = Map::new();
        line.insert("step".to_owned(), self.step.into());
        line.insert("loss".to_owned(), short(loss.into()));
        let score = if check { Some(self.job.score(&self.model)?) } else { None };
        match score {
            Some(Score::Exact(x)) => drop(line.insert("exact".to_owned(), short(x))),
            Some(Score::Loss(x)) => drop(line.insert("held_out_loss".to_owned(), short(x))),
            None => {}
        }
        if check {
            self.meter.pause();
        }
        self.folder.log(&Value::Object(line))?;
        self.folder.time(self.step, progress.seconds())?;
        self.score = score.or(self.score);
        progress.show(self.step, loss.into(), score, self.is_finished());
        Ok(())
    }

    fn save(&mut self) -> Result<()> {
        let random = torch::generator().state();
        let state = State {
            step: self.step,
            position: (self.position.epoch, self.position.batch),
            random: (random.seed, random.ordinal),
            finished: self.is_finished(),
            log_bytes: 0,
        };
        let (model, optimizer) = (&self.model, &self.optimizer);
        self.meter.pause();
        self.folder.checkpoint(state, |folder| {
            model.save(folder.join("model.safetensors"))?;
            nn::save_file(&optimizer.state_dict(), folder.join("optimizer.safetensors"))
        })
    }

    /// The closing lines, the sample and the picture.
    fn close(&mut self, stats: bool) -> Result<()> {
        self.model.eval();
        let (said, sample) = match self.settings.task {
            Task::Sums => self.close_sums()?,
            Task::Text => self.close_text()?,
        };
        self.folder.sample(&sample)?;
        self.folder.draw(&format!("{} · {} steps", self.settings.task.name(), self.step))?;
        let counters = torch::counters();
        let run = self.folder.path().display();
        print_now(&format!("\n{said}\n{}\n", self.meter.plans(&counters)));
        print_now(&match self.settings.task {
            Task::Sums => format!("next   rtx generate --run {run} --prompt \"123+456=\"      rtx train --text .\n"),
            Task::Text => format!("next   rtx generate --run {run} --prompt \"The \"\n"),
        });
        if stats {
            print_now(&format!("\n{counters}"));
        }
        Ok(())
    }

    fn close_sums(&self) -> Result<(String, Vec<u8>)> {
        let Some(sums) = &self.job.sums else { return Ok((String::new(), Vec::new())) };
        let mut sample = String::new();
        let mut shown = Vec::new();
        for i in 0..10 {
            let (a, b) = sums.held_out_pair(i);
            let answer = generate::answer(&self.model, &format!("{a}+{b}="))?.1;
            let verdict = if answer == (a + b).to_string() { "right" } else { "wrong" };
            sample += &format!("{a}+{b} → {answer}   {verdict}\n");
            shown.push(format!("{a}+{b} → {answer}"));
        }
        let Some(Score::Exact(exact)) = self.score else { return Ok((shown.join("   "), sample.into_bytes())) };
        let right = thousands((exact * 1000.0).round() as u64);
        Ok((format!("{right} of 1,000 sums it never saw are right.   {}", shown[..3].join("   ")), sample.into_bytes()))
    }

    fn close_text(&self) -> Result<(String, Vec<u8>)> {
        let mut sample = Vec::new();
        let draw = generate::Draw { temperature: 0.8, seed: self.settings.seed, length: SAMPLE_BYTES };
        generate::continue_text(&self.model, b"\n", &draw, |byte| sample.push(byte))?;
        let said = match self.score {
            Some(Score::Loss(x)) => {
                let bits = x / std::f64::consts::LN_2;
                format!("{} nats ({bits:.2} bits) a byte on text it never saw.", report::loss(x))
            }
            _ => String::new(),
        };
        let shown = String::from_utf8_lossy(&sample[..sample.len().min(200)]).into_owned();
        Ok((format!("{said}\n\n{}\n", shown.trim()), sample))
    }
}

fn too_little_data() -> Error {
    Error::new(Kind::Argument, "there is not one whole batch of data").hint("try a smaller --batch")
}

/// A number as short as it can be told apart from its neighbours in f32.
fn short(x: f64) -> Value {
    format!("{}", x as f32).parse::<f64>().map_or(Value::Null, Value::from)
}

/// Counts kernels a step between two readings with nothing but steps between them.
#[derive(Default)]
struct Meter {
    since: Option<(u64, Counters)>,
    kernels_a_step: Option<u64>,
}

impl Meter {
    fn steps_are_done(&mut self, step: u64) {
        let now = torch::counters();
        if let Some((then, before)) = self.since.take()
            && step > then
        {
            self.kernels_a_step = Some((now.launches - before.launches) / (step - then));
        }
        self.since = Some((step, now));
    }
    fn pause(&mut self) {
        self.since = None;
    }
    fn plans(&self, c: &Counters) -> String {
        let kernels = self.kernels_a_step.map_or(String::new(), |n| format!(" · {} kernels a step", thousands(n)));
        format!(
            "plans  {} compiled, {} of {} runs replayed{kernels} · {} peak",
            c.plans_compiled,
            thousands(c.replays),
            thousands(c.regions_run),
            megabytes(c.bytes_peak),
        )
    }
}
