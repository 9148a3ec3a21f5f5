//! `rtx train`: a plain loop, its log, its checkpoints, its closing lines.
use crate::interrupt::Interrupt;
use crate::job::{self, Job};
use crate::machine;
use crate::report::{Progress, Score, print_now};
use crate::run_folder::{RunFolder, State, load_model};
use crate::settings::Settings;
use crate::words::{bytes, count, thousands};
use crate::{Outcome, args};
use rustytorch::data::Position;
use rustytorch::{self as torch, Counters, Kind, prelude::*};
use serde_json::{Map, Value};
use std::path::Path;

/// Trains, from the start or from a checkpoint.
///
/// # Errors
/// With one sentence; then nothing is half-written.
pub fn train(args: &args::Train) -> Result<Outcome> {
    if let Some(n) = args.threads {
        torch::set_num_threads(n);
    }
    let mut run = match &args.resume {
        Some(path) => Run::resume(path)?,
        None => Run::start(args)?,
    };
    let interrupt = Interrupt::listen()?;
    run.print_header();
    let stopped = run.steps(&interrupt).map_err(|e| run.explain(e))?;
    if stopped {
        return Ok(Outcome::Interrupted);
    }
    run.close(args.stats)?;
    Ok(Outcome::Done)
}

struct Run {
    settings: Settings,
    job: Box<dyn Job>,
    optimizer: optim::AdamW,
    folder: RunFolder,
    step: u64,
    /// The step of the latest checkpoint.
    saved: Option<u64>,
    score: Option<Score>,
    meter: Meter,
}

impl Run {
    fn start(args: &args::Train) -> Result<Self> {
        let settings = args.settings()?;
        let (job, optimizer) = Self::make(&settings)?;
        let folder = RunFolder::create(args.run.as_deref(), &settings)?;
        Ok(Self { settings, job, optimizer, folder, step: 0, saved: None, score: None, meter: Meter::default() })
    }

    fn resume(path: &Path) -> Result<Self> {
        let (folder, found) = RunFolder::resume(path)?;
        let settings = found.settings.clone();
        let checkpoint = found.checkpoint().ok();
        if let Some(state) = checkpoint.as_ref().map(|c| &c.state).filter(|s| s.finished && folder.is_closed()) {
            let what = format!("{}: is finished after {} steps", path.display(), state.step);
            return Err(Error::new(Kind::Argument, what));
        }
        let (mut job, mut optimizer) = Self::make(&settings)?;
        let mut step = 0;
        if let Some(checkpoint) = &checkpoint {
            let state = &checkpoint.state;
            load_model(&checkpoint.folder, job.module())?;
            let moments = checkpoint.folder.join("optimizer.safetensors");
            let named = |e: Error| Error::new(e.kind(), format!("{}: {}", moments.display(), e.message()));
            optimizer.load_state_dict(&nn::load_file(&moments)?).map_err(named)?;
            let (seed, ordinal) = state.random;
            torch::generator().set_state(torch::RandomState { seed, ordinal });
            job.seek(Position { epoch: state.position.0, batch: state.position.1 });
            step = state.step;
        }
        let saved = checkpoint.as_ref().map(|c| c.state.step);
        let mut run = Self { settings, job, optimizer, folder, step, saved, score: None, meter: Meter::default() };
        if checkpoint.is_some_and(|c| c.state.finished) {
            run.score = Some(run.job.score()?); // killed before its last words
        }
        Ok(run)
    }

    /// Data, model and optimizer: nothing is written yet.
    fn make(settings: &Settings) -> Result<(Box<dyn Job>, optim::AdamW)> {
        let job = job::open(settings)?;
        torch::flush()?; // first weights are made here, so that the first step is the same plan as all others
        // Matrices decay, biases and gains do not.
        let (matrices, rest): (Vec<_>, Vec<_>) = job.module().parameters().into_iter().partition(|p| p.rank() > 1);
        let groups = [
            optim::Group::new(matrices).weight_decay(settings.weight_decay),
            optim::Group::new(rest).weight_decay(0.0),
        ];
        let optimizer = optim::AdamW::groups(groups, settings.lr).betas(0.9, 0.95);
        Ok((job, optimizer))
    }

    fn print_header(&self) {
        let s = &self.settings;
        let parameters = thousands(self.job.module().num_parameters() as u64);
        print_now(&format!(
            "cpu · {} · {} · strict (same bits on every run)\ntask   {}\nmodel  {} · {parameters} parameters · \
             {} steps × {} · seed {}\nrun    {}{}\n\n",
            count(torch::get_num_threads() as u64, "thread", "threads"),
            machine::isa_name(),
            self.job.title(),
            self.job.architecture(),
            thousands(s.steps),
            s.batch,
            s.seed,
            self.folder.path().display(),
            if self.step > 0 { format!(", from step {}", self.step) } else { String::new() },
        ));
    }

    /// Trains until all is done, or until it is asked to stop: then true.
    fn steps(&mut self, interrupt: &Interrupt) -> Result<bool> {
        let Settings { steps, clip, report, check, save, .. } = self.settings;
        let schedule = optim::Cosine::new(self.settings.lr, steps).warmup(self.settings.warmup);
        let parameters = self.job.module().parameters();
        let mut progress = Progress::new(self.step, steps);
        while !self.is_finished() {
            let loss = self.job.loss()?;
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
            let stop = interrupt.is_asked() && !self.is_finished();
            if save || stop || self.is_finished() {
                self.save()?;
            }
            if stop {
                progress.leave();
                let run = self.folder.path().display();
                print_now(&format!("\nstopped after step {}, saved. Go on: rtx train --resume {run}\n", self.step));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All steps done, or as good as it gets.
    fn is_finished(&self) -> bool {
        self.step == self.settings.steps || self.score.is_some_and(|s| self.job.is_good_enough(s))
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
        let score = if check { Some(self.job.score()?) } else { None };
        if let Some((name, value)) = score.map(Score::entry) {
            line.insert(name.to_owned(), short(value));
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
        if self.saved == Some(self.step) {
            return Ok(());
        }
        let (random, position) = (torch::generator().state(), self.job.position());
        let state = State {
            step: self.step,
            position: (position.epoch, position.batch),
            random: (random.seed, random.ordinal),
            finished: self.is_finished(),
            log_bytes: 0,
        };
        let (module, optimizer) = (self.job.module(), &self.optimizer);
        self.meter.pause();
        self.folder.checkpoint(state, |folder| {
            nn::save_file(&module.state_dict(), folder.join("model.safetensors"))?;
            nn::save_file(&optimizer.state_dict(), folder.join("optimizer.safetensors"))
        })?;
        self.saved = Some(self.step);
        Ok(())
    }

    /// A disk that refuses is no end of the run.
    fn explain(&self, e: Error) -> Error {
        match self.saved {
            Some(step) if e.kind() == Kind::Io => {
                e.hint(format!("step {step} is saved; go on: rtx train --resume {}", self.folder.path().display()))
            }
            _ => e,
        }
    }

    /// The closing lines, the sample and the picture.
    fn close(&mut self, stats: bool) -> Result<()> {
        self.job.module().eval();
        let closing = self.job.close(self.score)?;
        self.folder.draw(&format!("{} · {} steps", self.settings.task.name(), thousands(self.step)))?;
        self.folder.sample(&closing.sample)?;
        let counters = torch::counters();
        let run = self.folder.path().display();
        print_now(&format!("\n{}\n{}\n", closing.said, self.meter.plans(&counters)));
        print_now(&match closing.next {
            "" => format!("next   rtx inspect {run}\n"),
            options => format!("next   rtx generate --run {run} {options}\n"),
        });
        if stats {
            print_now(&format!("\n{}", self.meter.stats(&counters)));
        }
        Ok(())
    }
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
            bytes(c.bytes_peak),
        )
    }
    /// All counters, one a line, those that are 0 left out.
    fn stats(&self, c: &Counters) -> String {
        let mut out = String::from("stats\n");
        if let Some(n) = self.kernels_a_step {
            out += &format!("  {:<24}{}\n", "kernels a step", thousands(n));
        }
        for line in c.to_string().lines() {
            let Some((name, value)) = line.split_once(' ') else { continue };
            let Ok(n @ 1..) = value.parse::<u64>() else { continue };
            let value = if name.starts_with("bytes_") { bytes(n) } else { thousands(n) };
            out += &format!("  {:<24}{value}\n", name.replace('_', " ").replace('.', " · "));
        }
        for (name, n) in torch::device_details().into_iter().filter(|&(_, n)| n > 0) {
            out += &format!("  {:<24}{}\n", name.replace('_', " "), thousands(n));
        }
        let part = 100.0 * c.replays as f64 / c.regions_run.max(1) as f64;
        out += &format!("  {:<24}{part:.1} % of {} runs\n", "plan hits", thousands(c.regions_run));
        out += "largest values held\n";
        for held in torch::largest_values(8) {
            let line = held.location.map_or(String::new(), |at| format!("   {at}"));
            out += &format!("  {:<10}{:<24}{line}\n", bytes(held.bytes as u64), held.ty.to_string());
        }
        out
    }
}
