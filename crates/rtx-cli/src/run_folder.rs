//! A run's folder: settings, logs, picture, sample and checkpoints. One process at a time writes to it.
use crate::plot::{self, Axis, Curve};
use crate::settings::Settings;
use rtx_io::{make_dir, point_link, write_file};
use rustytorch::nn::Module;
use rustytorch::{Error, Kind, Result};
use serde_json::{Value, json};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// A run on disk, ours alone until it is dropped.
pub struct RunFolder {
    path: PathBuf,
    log: Log,
    times: Log,
    keep: usize,
    _lock: Lock,
}

/// An earlier run, read and not touched.
pub struct Found {
    path: PathBuf,
    /// What the run was started with.
    pub settings: Settings,
    latest: Option<Checkpoint>,
}

/// A checkpoint's folder, and where it stands.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The folder.
    pub folder: PathBuf,
    /// Where it stands.
    pub state: State,
}

impl Found {
    /// Looks for an earlier run.
    ///
    /// # Errors
    /// When there is no run, or its checkpoint is damaged or of another version of the numerics.
    pub fn at(path: &Path) -> Result<Self> {
        let argument = |what: &str| Err(Error::new(Kind::Argument, format!("{}: {what}", path.display())));
        if !path.exists() {
            return argument("no such run");
        }
        let config = path.join("config.toml");
        if !config.exists() {
            return argument("not a run's folder (no config.toml there)");
        }
        let settings = Settings::from_file(&config, None)?;
        settings.check().map_err(|e| Error::new(e.kind(), format!("{}: {e}", config.display())))?;
        let latest = match fs::canonicalize(path.join("latest")) {
            Ok(target) => {
                let folder = path.join(target.file_name().unwrap_or_default());
                Some(Checkpoint { state: read_state(&folder)?, folder })
            }
            Err(_) => None,
        };
        Ok(Self { path: path.to_path_buf(), settings, latest })
    }

    /// The latest checkpoint.
    ///
    /// # Errors
    /// When there is none yet.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let none = || Error::new(Kind::Argument, format!("{}: has no checkpoint yet", self.path.display()));
        self.latest.clone().ok_or_else(none)
    }

    /// Reads a checkpoint's weights into a model.
    ///
    /// # Errors
    /// When the file is damaged or another model's.
    pub fn load(&self, from: &Checkpoint, model: &dyn Module) -> Result<()> {
        load_model(&from.folder, model)
    }
}

/// Reads a checkpoint's weights into a model.
///
/// # Errors
/// When the file is damaged or another model's.
pub fn load_model(checkpoint: &Path, model: &dyn Module) -> Result<()> {
    let file = checkpoint.join("model.safetensors");
    let weights = rustytorch::nn::load_file(&file)?;
    model.load_state_dict(&weights).map_err(|e| {
        let lines = e.message().split_once('\n').map_or("", |(_, lines)| lines);
        let what = format!("{}: is another architecture's than config.toml describes\n{lines}", file.display());
        Error::new(Kind::Format, what)
    })
}

/// Held while a process writes to a run. The system takes it back when the process ends, however it ends.
struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Lock {
    fn take(path: &Path) -> Result<Self> {
        let name = path.join(".lock");
        let failed = |e: std::io::Error| failed(&name, "write", &e);
        let file = OpenOptions::new().create(true).append(true).read(true).open(&name).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let who = fs::read_to_string(&name).unwrap_or_default();
                let who = if who.trim().is_empty() { String::new() } else { format!(" ({})", who.trim()) };
                let what = format!("{}: in use by another process{who}", path.display());
                return Err(Error::new(Kind::Argument, what));
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
        // Whose it is, for the sentence above; the lock does not depend on it.
        let _ = file.set_len(0).and_then(|()| writeln!(&file, "{}", std::process::id()));
        Ok(Self(file))
    }
}

/// A file of lines that only grows. A line that cannot be written whole leaves nothing.
struct Log {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Log {
    /// Opens the file and cuts it to `length` bytes.
    fn open(path: PathBuf, length: u64) -> Result<Self> {
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        let cut = opened.and_then(|file| file.set_len(length).map(|()| file));
        let file = cut.map_err(|e| failed(&path, "write", &e))?;
        Ok(Self { path, file, length })
    }
    fn append(&mut self, line: &Value) -> Result<()> {
        let line = format!("{line}\n");
        if let Err(e) = self.file.write_all(line.as_bytes()) {
            let _ = self.file.set_len(self.length); // best effort: the error that matters is the first one
            return Err(failed(&self.path, "write", &e));
        }
        self.length += line.len() as u64;
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|e| failed(&self.path, "write", &e))
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
    /// When the folder holds a run already, is in use, or cannot be made; then nothing is left behind.
    pub fn create(path: Option<&Path>, settings: &Settings) -> Result<Self> {
        let (path, made) = match path {
            Some(path) => (path.to_path_buf(), make_folder(path)?),
            None => (make_numbered(settings.task.name())?, true),
        };
        let run = Self::fill(&path, settings);
        if run.is_err() && made {
            let _ = fs::remove_dir_all(&path); // best effort: the error that matters is the first one
        }
        run
    }

    fn fill(path: &Path, settings: &Settings) -> Result<Self> {
        let lock = Lock::take(path)?;
        if path.join("config.toml").exists() {
            return Err(Error::new(Kind::Argument, format!("{}: holds a run already", path.display()))
                .hint(format!("go on with it: rtx train --resume {}", path.display())));
        }
        let mut table = settings.to_table();
        table.insert("rtx".to_owned(), env!("CARGO_PKG_VERSION").into());
        table.insert("numerics".to_owned(), i64::from(rustytorch::NUMERICS_VERSION).into());
        let run = Self::open(path, lock, [0, 0], settings)?;
        write_file(&path.join("config.toml"), table.to_string().as_bytes())?;
        Ok(run)
    }

    /// Goes on with an earlier run: its logs are cut to what the latest checkpoint has seen. A run that was killed
    /// before its first checkpoint starts over.
    ///
    /// # Errors
    /// When there is no run, it is in use, or it is damaged.
    pub fn resume(path: &Path) -> Result<(Self, Found)> {
        Found::at(path)?; // a folder without a run gets no lock
        let lock = Lock::take(path)?;
        let found = Found::at(path)?;
        let state = found.latest.as_ref().map_or_else(State::default, |c| c.state.clone());
        let log = path.join("log.jsonl");
        let length = fs::metadata(&log).map(|m| m.len()).unwrap_or(0);
        if length < state.log_bytes {
            let what = format!("{}: has {length} bytes, the checkpoint saw {}", log.display(), state.log_bytes);
            return Err(Error::new(Kind::Format, what));
        }
        remove_leftovers(path)?;
        let times = times_until(&path.join("times.jsonl"), state.step);
        let run = Self::open(path, lock, [state.log_bytes, times], &found.settings)?;
        Ok((run, found))
    }

    fn open(path: &Path, lock: Lock, [log, times]: [u64; 2], settings: &Settings) -> Result<Self> {
        let (log, times) = (Log::open(path.join("log.jsonl"), log)?, Log::open(path.join("times.jsonl"), times)?);
        Ok(Self { path: path.to_path_buf(), log, times, keep: settings.keep, _lock: lock })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has the run said its last words?
    pub fn is_closed(&self) -> bool {
        ["sample.txt", "loss.svg"].iter().all(|name| self.path.join(name).exists())
    }

    /// Appends a line without a clock: the log of a resumed run equals that of an uninterrupted one.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn log(&mut self, line: &Value) -> Result<()> {
        self.log.append(line)
    }

    /// Appends a line with a clock.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn time(&mut self, step: u64, seconds: f64) -> Result<()> {
        self.times.append(&json!({ "step": step, "seconds": (seconds * 1000.0).round() / 1000.0 }))
    }

    /// Writes the checkpoint of `step` as one folder that is whole or absent, and points `latest` at it; then the
    /// oldest go, until `keep` are left. `fill` puts the model and the optimizer there.
    ///
    /// # Errors
    /// When `fill` fails or the disk refuses; then the checkpoint before stays the latest.
    pub fn checkpoint(&mut self, mut state: State, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        self.log.sync()?;
        state.log_bytes = self.log.length;
        let name = format!("step-{:06}", state.step);
        make_dir(&self.path.join(&name), |folder| {
            fill(folder)?;
            write_file(&folder.join("state.json"), format!("{:#}\n", state.to_json()).as_bytes())
        })?;
        point_link(&self.path.join("latest"), &name)?;
        let older = checkpoints(&self.path)?.into_iter().filter(|(step, _)| *step < state.step);
        let older: Vec<PathBuf> = older.map(|(_, folder)| folder).collect();
        for folder in &older[..(older.len() + 1).saturating_sub(self.keep)] {
            fs::remove_dir_all(folder).map_err(|e| failed(folder, "remove", &e))?;
        }
        Ok(())
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
        let entries = read_log(&self.path)?;
        let points = |key: &str| -> Vec<(f64, f64)> {
            entries.iter().filter_map(|e| Some((e["step"].as_f64()?, e[key].as_f64()?))).collect()
        };
        let curve = |name, key, axis| Curve { name, points: points(key), axis };
        let curves = [
            curve("loss", "loss", Axis::Left),
            curve("exact", "exact", Axis::Percent),
            curve("right on test pictures", "accuracy", Axis::Percent),
            curve("loss on text set aside", "held_out_loss", Axis::Left),
        ];
        let shown: Vec<Curve<'_>> = curves.into_iter().filter(|c| !c.points.is_empty()).collect();
        write_file(&self.path.join("loss.svg"), plot::draw(title, &shown).as_bytes())
    }
}

/// The lines of a run's log; a line that is being written is passed over.
///
/// # Errors
/// When the log cannot be read.
pub fn read_log(run: &Path) -> Result<Vec<Value>> {
    let log = run.join("log.jsonl");
    let io = |e: std::io::Error| failed(&log, "read", &e);
    let lines = BufReader::new(File::open(&log).map_err(io)?).lines();
    let lines = lines.collect::<std::io::Result<Vec<_>>>().map_err(io)?;
    Ok(lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// A run's checkpoints by step, the oldest first.
///
/// # Errors
/// When the folder cannot be read.
pub fn checkpoints(run: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let mut found: Vec<(u64, PathBuf)> = names(run)?
        .into_iter()
        .filter_map(|name| Some((name.strip_prefix("step-")?.parse().ok()?, run.join(&name))))
        .collect();
    found.sort();
    Ok(found)
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let io = |e: std::io::Error| failed(folder, "read", &e);
    let entries = fs::read_dir(folder).map_err(io)?.collect::<std::io::Result<Vec<_>>>().map_err(io)?;
    Ok(entries.iter().map(|e| e.file_name().to_string_lossy().into_owned()).collect())
}

/// What a killed process was about to write.
fn remove_leftovers(run: &Path) -> Result<()> {
    for name in names(run)?.into_iter().filter(|n| n.ends_with(".tmp")) {
        let path = run.join(name);
        let is_folder = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir());
        let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(|e| failed(&path, "remove", &e))?;
    }
    Ok(())
}

/// Bytes of the whole lines up to `step`.
fn times_until(path: &Path, step: u64) -> u64 {
    let text = fs::read_to_string(path).unwrap_or_default();
    let of = |line: &str| serde_json::from_str::<Value>(line).ok().and_then(|v| v["step"].as_u64());
    let kept = text.split_inclusive('\n').take_while(|l| l.ends_with('\n') && of(l).is_some_and(|s| s <= step));
    kept.map(str::len).sum::<usize>() as u64
}

/// Where the checkpoint in a folder stands.
///
/// # Errors
/// When its `state.json` is missing or damaged, or of another version of the numerics.
pub fn read_state(checkpoint: &Path) -> Result<State> {
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

/// Makes a folder; was it not there before?
fn make_folder(path: &Path) -> Result<bool> {
    let there = path.is_dir();
    fs::create_dir_all(path).map_err(|e| failed(path, "make", &e))?;
    Ok(!there)
}

/// The first of `runs/TASK-1`, `runs/TASK-2`, … that is free; two processes never get the same.
fn make_numbered(task: &str) -> Result<PathBuf> {
    let runs = Path::new("runs");
    make_folder(runs)?;
    let mut n = 1;
    loop {
        let path = runs.join(format!("{task}-{n}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => n += 1,
            Err(e) => return Err(failed(&path, "make", &e)),
        }
    }
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
        run.time(1, 0.5).expect("logged");
        run.checkpoint(state(1), |f| write_file(&f.join("model.safetensors"), b"one")).expect("saved");
        run.log(&json!({ "step": 2, "loss": 2.0 })).expect("logged");
        run.time(2, 0.7).expect("logged");
        run.checkpoint(state(2), |_| Err(Error::new(Kind::Io, "disk full"))).expect_err("refused");
        drop(run);
        fs::create_dir(dir.join("step-000002.tmp")).expect("left by a kill");
        let (mut run, found) = RunFolder::resume(&dir).expect("resumes");
        let at = found.checkpoint().expect("one");
        assert_eq!((&found.settings, at.state.step, at.state.position), (&settings, 1, (1, 7)));
        assert_eq!(at.state.random, (9, u64::MAX));
        assert_eq!(fs::read_to_string(dir.join("log.jsonl")).expect("log"), "{\"loss\":2.5,\"step\":1}\n");
        assert_eq!(fs::read_to_string(dir.join("times.jsonl")).expect("times").lines().count(), 1);
        assert_eq!(fs::read(at.folder.join("model.safetensors")).expect("model"), b"one");
        assert!(!dir.join("step-000002.tmp").exists());
        run.log(&json!({ "step": 2, "loss": 1.0, "exact": 0.5 })).expect("logged");
        run.draw("test").expect("drawn");
        assert!(fs::read_to_string(dir.join("loss.svg")).expect("svg").contains("<polyline"));
    }

    #[test]
    fn the_oldest_checkpoints_go() {
        let (dir, settings) = (fresh("keep"), Settings { keep: 2, ..Settings::of(Task::Sums) });
        let mut run = RunFolder::create(Some(&dir), &settings).expect("made");
        for step in 1..=4 {
            run.checkpoint(state(step), |_| Ok(())).expect("saved");
        }
        let steps: Vec<u64> = checkpoints(&dir).expect("lists").into_iter().map(|(step, _)| step).collect();
        assert_eq!(steps, [3, 4]);
    }

    #[test]
    fn a_folder_is_refused_with_a_sentence() {
        let (dir, settings) = (fresh("refused"), Settings::of(Task::Sums));
        let message = |e: Error| e.message().replace(&dir.display().to_string(), "DIR");
        assert_eq!(message(Found::at(&dir).map(drop).expect_err("absent")), "DIR: no such run");
        let run = RunFolder::create(Some(&dir), &settings).expect("made");
        let found = Found::at(&dir).expect("a run");
        assert_eq!(message(found.checkpoint().expect_err("empty")), "DIR: has no checkpoint yet");
        let e = RunFolder::resume(&dir).map(drop).expect_err("in use");
        assert_eq!(message(e), format!("DIR: in use by another process ({})", std::process::id()));
        drop(run);
        let e = RunFolder::create(Some(&dir), &settings).map(drop).expect_err("taken");
        assert_eq!(message(e), "DIR: holds a run already");
        assert!(RunFolder::resume(&dir).is_ok(), "a run without a checkpoint starts over");
    }
}
