//! A run's folder: settings, logs, picture, sample and checkpoints.
use crate::plot::{self, Axis, Curve};
use crate::settings::Settings;
use rtx_io::{make_dir, point_link, write_file};
use rustytorch::{Error, Kind, Result};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// A run on disk.
pub struct RunFolder {
    path: PathBuf,
    log: File,
    times: File,
}

/// An earlier run and its latest checkpoint, read and not yet touched.
pub struct Found {
    path: PathBuf,
    /// What the run was started with.
    pub settings: Settings,
    /// Where the checkpoint stands.
    pub state: State,
    /// The checkpoint's folder.
    pub checkpoint: PathBuf,
}

impl Found {
    /// Looks for an earlier run.
    ///
    /// # Errors
    /// When there is no run, no checkpoint, or one of another version of the numerics.
    pub fn at(path: &Path) -> Result<Self> {
        let checkpoint = latest(path)?;
        let settings = Settings::from_file(&path.join("config.toml"), None)?;
        settings.check()?;
        let state = read_state(&checkpoint)?;
        let log = path.join("log.jsonl");
        let length = fs::metadata(&log).map_err(|e| failed(&log, "read", &e))?.len();
        if length < state.log_bytes {
            let what = format!("{}: has {length} bytes, the checkpoint saw {}", log.display(), state.log_bytes);
            return Err(Error::new(Kind::Format, what));
        }
        Ok(Self { path: path.to_path_buf(), settings, state, checkpoint })
    }
    /// Goes on with it: its log is cut to what the checkpoint has seen.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn open(self) -> Result<RunFolder> {
        RunFolder::open(self.path, self.state.log_bytes)
    }
}

/// Where a checkpoint stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// Steps done.
    pub step: u64,
    /// The loader's next batch: pass and batch.
    pub position: (u32, usize),
    /// Seed and ordinal of the random stream that ops draw from.
    pub random: (u64, u64),
    /// Is there nothing left to do?
    pub finished: bool,
    /// Bytes of log.jsonl that belong to these steps.
    pub log_bytes: u64,
}

impl RunFolder {
    /// A new run: `path`, or the first free `runs/TASK-N`.
    ///
    /// # Errors
    /// When the folder holds a run already or cannot be made.
    pub fn create(path: Option<&Path>, settings: &Settings) -> Result<Self> {
        let path = path.map_or_else(|| free_name(settings.task.name()), Path::to_path_buf);
        if path.join("config.toml").exists() {
            return Err(Error::new(Kind::Argument, format!("{}: holds a run already", path.display()))
                .hint(format!("go on with it: rtx train --resume {}", path.display())));
        }
        fs::create_dir_all(&path).map_err(|e| failed(&path, "make", &e))?;
        let mut table = settings.to_table();
        table.insert("rtx".to_owned(), env!("CARGO_PKG_VERSION").into());
        table.insert("numerics".to_owned(), i64::from(rustytorch::NUMERICS_VERSION).into());
        table.insert("device".to_owned(), "cpu".into());
        write_file(&path.join("config.toml"), table.to_string().as_bytes())?;
        Self::open(path, 0)
    }

    fn open(path: PathBuf, log_bytes: u64) -> Result<Self> {
        let append = |name: &str| {
            let file = path.join(name);
            let opened = OpenOptions::new().create(true).append(true).open(&file);
            opened.map_err(|e| failed(&file, "write", &e))
        };
        let (log, times) = (append("log.jsonl")?, append("times.jsonl")?);
        log.set_len(log_bytes).map_err(|e| failed(&path.join("log.jsonl"), "write", &e))?;
        Ok(Self { path, log, times })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a line without a clock: the log of a resumed run equals that of an uninterrupted one.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn log(&mut self, line: &Value) -> Result<()> {
        writeln!(self.log, "{line}").map_err(|e| failed(&self.path.join("log.jsonl"), "write", &e))
    }

    /// Appends a line with a clock.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn time(&mut self, step: u64, seconds: f64) -> Result<()> {
        let line = json!({ "step": step, "seconds": (seconds * 1000.0).round() / 1000.0 });
        writeln!(self.times, "{line}").map_err(|e| failed(&self.path.join("times.jsonl"), "write", &e))
    }

    /// Writes the checkpoint of `step` as one folder that is whole or absent, and points `latest` at it. `fill` puts
    /// the model and the optimizer there.
    ///
    /// # Errors
    /// When `fill` fails or the disk refuses; then the checkpoint before stays the latest.
    pub fn checkpoint(&mut self, mut state: State, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let log = self.path.join("log.jsonl");
        self.log.sync_all().map_err(|e| failed(&log, "write", &e))?;
        state.log_bytes = self.log.metadata().map_err(|e| failed(&log, "read", &e))?.len();
        let name = format!("step-{:06}", state.step);
        make_dir(&self.path.join(&name), |folder| {
            fill(folder)?;
            write_file(&folder.join("state.json"), format!("{:#}\n", state.to_json()).as_bytes())
        })?;
        point_link(&self.path.join("latest"), &name)
    }

    /// Writes the sample.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sample(&self, text: &[u8]) -> Result<()> {
        write_file(&self.path.join("sample.txt"), text)
    }

    /// Draws `loss.svg` from the log.
    ///
    /// # Errors
    /// When the log cannot be read or the disk refuses.
    pub fn draw(&self, title: &str) -> Result<()> {
        let log = self.path.join("log.jsonl");
        let file = File::open(&log).map_err(|e| failed(&log, "read", &e))?;
        let (mut loss, mut held, mut exact) = (Vec::new(), Vec::new(), Vec::new());
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|e| failed(&log, "read", &e))?;
            let Ok(entry) = serde_json::from_str::<Value>(&line) else { continue };
            let Some(step) = entry["step"].as_f64() else { continue };
            let into = [("loss", &mut loss), ("held_out_loss", &mut held), ("exact", &mut exact)];
            into.into_iter().for_each(|(key, points)| points.extend(entry[key].as_f64().map(|y| (step, y))));
        }
        let curves = [
            Curve { name: "loss", points: &loss, axis: Axis::Left },
            Curve { name: "exact", points: &exact, axis: Axis::Percent },
            Curve { name: "loss on held-out text", points: &held, axis: Axis::Left },
        ];
        let shown: Vec<Curve<'_>> = curves.into_iter().filter(|c| !c.points.is_empty()).collect();
        write_file(&self.path.join("loss.svg"), plot::draw(title, &shown).as_bytes())
    }
}

/// The folder of a run's latest checkpoint.
///
/// # Errors
/// When there is none.
pub fn latest(run: &Path) -> Result<PathBuf> {
    let link = run.join("latest");
    match fs::canonicalize(&link) {
        Ok(folder) => Ok(folder),
        Err(_) if !run.exists() => Err(Error::new(Kind::Argument, format!("{}: no such run", run.display()))),
        Err(_) => Err(Error::new(Kind::Argument, format!("{}: has no checkpoint yet", run.display()))),
    }
}

fn read_state(checkpoint: &Path) -> Result<State> {
    let path = checkpoint.join("state.json");
    let text = fs::read_to_string(&path).map_err(|e| failed(&path, "read", &e))?;
    let bad = |what: &str| Error::new(Kind::Format, format!("{}: {what}", path.display()));
    let value: Value = serde_json::from_str(&text).map_err(|e| bad(&format!("not JSON: {e}")))?;
    if value["numerics"].as_u64() != Some(u64::from(rustytorch::NUMERICS_VERSION)) {
        let what = format!("written by numerics {}, this is {}", value["numerics"], rustytorch::NUMERICS_VERSION);
        return Err(bad(&what).hint("going on would not give the same bits; start a new run"));
    }
    State::from_json(&value).ok_or_else(|| bad("a field is missing or of the wrong type"))
}

impl State {
    fn to_json(&self) -> Value {
        json!({
            "step": self.step,
            "epoch": self.position.0,
            "batch": self.position.1,
            "seed": self.random.0,
            "ordinal": self.random.1,
            "finished": self.finished,
            "log_bytes": self.log_bytes,
            "numerics": rustytorch::NUMERICS_VERSION,
        })
    }
    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            step: value["step"].as_u64()?,
            position: (value["epoch"].as_u64()?.try_into().ok()?, value["batch"].as_u64()?.try_into().ok()?),
            random: (value["seed"].as_u64()?, value["ordinal"].as_u64()?),
            finished: value["finished"].as_bool()?,
            log_bytes: value["log_bytes"].as_u64()?,
        })
    }
}

fn free_name(task: &str) -> PathBuf {
    (1..).map(|n| PathBuf::from(format!("runs/{task}-{n}"))).find(|p| !p.exists()).unwrap_or_default()
}

fn failed(path: &Path, what: &str, e: &std::io::Error) -> Error {
    Error::new(Kind::Io, format!("{}: cannot {what}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Task;

    fn fresh(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("rtx-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }
    fn state(step: u64) -> State {
        State { step, position: (1, 7), random: (9, u64::MAX), finished: false, log_bytes: 0 }
    }

    #[test]
    fn resume_cuts_the_log_to_the_checkpoint() {
        let (dir, settings) = (fresh("resume"), Settings { seed: 4, ..Settings::of(Task::Sums) });
        let mut run = RunFolder::create(Some(&dir), &settings).expect("made");
        run.log(&json!({ "step": 1, "loss": 2.5 })).expect("logged");
        run.checkpoint(state(1), |f| write_file(&f.join("model.safetensors"), b"one")).expect("saved");
        run.log(&json!({ "step": 2, "loss": 2.0 })).expect("logged");
        run.checkpoint(state(2), |_| Err(Error::new(Kind::Io, "disk full"))).expect_err("refused");
        drop(run);
        let found = Found::at(&dir).expect("resumes");
        assert_eq!((&found.settings, found.state.step, found.state.position), (&settings, 1, (1, 7)));
        assert_eq!(found.state.random, (9, u64::MAX));
        let mut run = found.open().expect("opens");
        assert_eq!(fs::read_to_string(dir.join("log.jsonl")).expect("log"), "{\"loss\":2.5,\"step\":1}\n");
        assert_eq!(fs::read(latest(&dir).expect("latest").join("model.safetensors")).expect("model"), b"one");
        run.log(&json!({ "step": 2, "loss": 1.0, "exact": 0.5 })).expect("logged");
        run.draw("test").expect("drawn");
        assert!(fs::read_to_string(dir.join("loss.svg")).expect("svg").contains("<polyline"));
    }

    #[test]
    fn a_folder_is_refused_with_a_sentence() {
        let (dir, settings) = (fresh("refused"), Settings::of(Task::Sums));
        let message = |e: Error| e.message().replace(&dir.display().to_string(), "DIR");
        assert_eq!(message(latest(&dir).expect_err("absent")), "DIR: no such run");
        RunFolder::create(Some(&dir), &settings).map(drop).expect("made");
        assert_eq!(message(latest(&dir).expect_err("empty")), "DIR: has no checkpoint yet");
        let e = RunFolder::create(Some(&dir), &settings).map(drop).expect_err("taken");
        assert_eq!(message(e), "DIR: holds a run already");
    }
}
