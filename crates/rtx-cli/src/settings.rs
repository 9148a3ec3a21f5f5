//! The settings of a run: defaults of the task, then a file, then the command line; written to `config.toml`.
use rustytorch::{Error, Kind, Result};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// What is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Three-digit sums.
    Sums,
    /// The bytes of a text.
    Text,
    /// Pictures of clothes, in ten classes.
    Fashion,
}

impl Task {
    const ALL: [Task; 3] = [Task::Sums, Task::Text, Task::Fashion];

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Task::Sums => "sums",
            Task::Text => "text",
            Task::Fashion => "fashion-mnist",
        }
    }
    /// The task of a name.
    ///
    /// # Errors
    /// With the names there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|t| t.name() == name).ok_or_else(|| "tasks: sums, text, fashion-mnist".to_owned())
    }
}

/// Sizes of the GPT that learns text, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Seconds to a minute.
    Nano,
    /// Ten minutes on two cores.
    Mini,
    /// The sizes of GPT-2 (124M), over bytes.
    Gpt2,
}

impl Preset {
    const ALL: [Preset; 3] = [Preset::Nano, Preset::Mini, Preset::Gpt2];

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Nano => "nano",
            Preset::Mini => "mini",
            Preset::Gpt2 => "gpt2",
        }
    }
    /// The preset of a name.
    ///
    /// # Errors
    /// With the names there are.
    pub fn parse(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| "presets: nano, mini, gpt2".to_owned())
    }
}

/// A setting's type in `config.toml`.
trait Entry: Sized {
    const WHAT: &'static str;
    fn read(value: &Value) -> Option<Self>;
    fn write(&self) -> Option<Value>;
}
impl Entry for u64 {
    const WHAT: &'static str = "a whole number";
    fn read(value: &Value) -> Option<Self> {
        value.as_integer().and_then(|i| i.try_into().ok())
    }
    fn write(&self) -> Option<Value> {
        i64::try_from(*self).ok().map(Value::Integer)
    }
}
impl Entry for usize {
    const WHAT: &'static str = "a whole number";
    fn read(value: &Value) -> Option<Self> {
        value.as_integer().and_then(|i| i.try_into().ok())
    }
    fn write(&self) -> Option<Value> {
        i64::try_from(*self).ok().map(Value::Integer)
    }
}
impl Entry for f64 {
    const WHAT: &'static str = "a number";
    fn read(value: &Value) -> Option<Self> {
        value.as_float().or_else(|| value.as_integer().map(|i| i as f64))
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Float(*self))
    }
}
impl Entry for Task {
    const WHAT: &'static str = "\"sums\", \"text\" or \"fashion-mnist\"";
    fn read(value: &Value) -> Option<Self> {
        Task::parse(value.as_str()?).ok()
    }
    fn write(&self) -> Option<Value> {
        Some(Value::String(self.name().to_owned()))
    }
}
impl Entry for Option<Preset> {
    const WHAT: &'static str = "\"nano\", \"mini\" or \"gpt2\"";
    fn read(value: &Value) -> Option<Self> {
        Preset::parse(value.as_str()?).ok().map(Some)
    }
    fn write(&self) -> Option<Value> {
        self.map(|p| Value::String(p.name().to_owned()))
    }
}
impl Entry for String {
    const WHAT: &'static str = "a text";
    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(str::to_owned)
    }
    fn write(&self) -> Option<Value> {
        Some(Value::String(self.clone()))
    }
}
impl Entry for Option<PathBuf> {
    const WHAT: &'static str = "a path";
    fn read(value: &Value) -> Option<Self> {
        value.as_str().map(|s| Some(PathBuf::from(s)))
    }
    fn write(&self) -> Option<Value> {
        self.as_ref().map(|p| Value::String(p.to_string_lossy().into_owned()))
    }
}

macro_rules! settings { ($($(#[$doc:meta])* $name:ident: $T:ty,)*) => {
    /// Everything that decides what a run computes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Settings { $($(#[$doc])* pub $name: $T,)* }

    impl Settings {
        /// As a table of `config.toml`.
        pub fn to_table(&self) -> Table {
            let mut table = Table::new();
            $(if let Some(value) = self.$name.write() && self.task.has(stringify!($name)) {
                table.insert(stringify!($name).to_owned(), value);
            })*
            table
        }
        /// Takes what a table says.
        ///
        /// # Errors
        /// When a key is unknown or a value is of the wrong type.
        fn take(&mut self, table: &Table) -> Result<()> {
            for (key, value) in table {
                match key.as_str() {
                    $(stringify!($name) => self.$name = <$T>::read(value).ok_or_else(|| {
                        bad(format!("{key} = {value} should be {}", <$T>::WHAT))
                    })?,)*
                    // Written for people and checks; not a setting.
                    "rtx" | "numerics" => {}
                    _ => return Err(bad(format!("unknown setting {key}")).hint(format!("known: {}", KEYS.join(", ")))),
                }
            }
            Ok(())
        }
    }
    const KEYS: &[&str] = &[$(stringify!($name)),*];
} }
settings! {
    /// What is learned.
    task: Task,
    /// The text to learn, for the task `text`.
    text: Option<PathBuf>,
    /// The folder of the IDX files, for the task `fashion-mnist`.
    data: Option<PathBuf>,
    /// Where the sizes below come from, unless they are changed.
    preset: Option<Preset>,
    /// Where it runs.
    device: String,
    /// Steps at most.
    steps: u64,
    /// Rows a step.
    batch: usize,
    /// The highest learning rate.
    lr: f64,
    /// Steps until it is reached.
    warmup: u64,
    /// AdamW's weight decay.
    weight_decay: f64,
    /// The largest norm of a gradient.
    clip: f64,
    /// Seed of the weights, the order of the data and the sums kept aside.
    seed: u64,
    /// Blocks of the GPT.
    layers: usize,
    /// Width of the GPT, or channels of the first convolution.
    width: usize,
    /// Heads of attention.
    heads: usize,
    /// Positions the model sees.
    context: usize,
    /// Deviation of the first weights.
    init: f64,
    /// Part of the activations that training leaves out, in the net for pictures.
    dropout: f64,
    /// Steps between two lines of the log.
    report: u64,
    /// Steps between two checks on data set aside.
    check: u64,
    /// Steps between two checkpoints.
    save: u64,
    /// Checkpoints that are kept.
    keep: usize,
}

impl Task {
    /// Does a setting mean anything for it?
    fn has(self, key: &str) -> bool {
        match key {
            "text" | "preset" => self == Task::Text,
            "data" | "dropout" => self == Task::Fashion,
            "layers" | "heads" | "context" | "init" => self != Task::Fashion,
            _ => true,
        }
    }
}

impl Settings {
    /// A task's own settings.
    pub fn of(task: Task) -> Self {
        let sums = Self {
            task,
            text: None,
            data: None,
            preset: None,
            device: "cpu".to_owned(),
            steps: 500,
            batch: 256,
            lr: 2e-3,
            warmup: 50,
            weight_decay: 0.1,
            clip: 1.0,
            seed: 1,
            layers: 2,
            width: 128,
            heads: 4,
            context: rustytorch::data::Sums::ROW - 1,
            init: 0.07,
            dropout: 0.0,
            report: 10,
            check: 25,
            save: 250,
            keep: 3,
        };
        match task {
            Task::Sums => sums,
            Task::Text => {
                Self { steps: 2500, batch: 32, lr: 3e-3, context: 64, init: 0.05, report: 25, check: 100, ..sums }
            }
            Task::Fashion => Self {
                data: Some(FASHION_FOLDER.into()),
                steps: 4000,
                batch: 128,
                lr: 3e-3,
                warmup: 100,
                weight_decay: 0.05,
                width: 32,
                dropout: 0.2,
                report: 25,
                check: 400,
                save: 400,
                ..sums
            },
        }
    }

    /// Takes the sizes of a preset, and the rates and counts that go with them.
    pub fn take_preset(&mut self, preset: Preset) {
        let nano = Self::of(Task::Text);
        let sized = match preset {
            Preset::Nano => nano,
            Preset::Mini => Self {
                steps: 1900,
                lr: 3e-3,
                warmup: 100,
                layers: 4,
                width: 192,
                heads: 6,
                context: 128,
                init: 0.04,
                save: 500,
                ..nano
            },
            Preset::Gpt2 => Self {
                steps: 20_000,
                batch: 8,
                lr: 6e-4,
                warmup: 500,
                layers: 12,
                width: 768,
                heads: 12,
                context: 1024,
                init: 0.02,
                save: 500,
                ..nano
            },
        };
        let kept = Self { task: self.task, text: self.text.take(), seed: self.seed, ..sized };
        *self = Self { preset: Some(preset), device: std::mem::take(&mut self.device), ..kept };
    }

    /// Defaults of the task that the file names (or `task`), then what the file says.
    ///
    /// # Errors
    /// When the file cannot be read, is no TOML, or has unknown or mistyped settings: the sentence names it.
    pub fn from_file(path: &Path, task: Option<Task>) -> Result<Self> {
        let named = |e: Error| Error::new(e.kind(), format!("{}: {}", path.display(), e));
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::new(Kind::Io, format!("{}: cannot read: {e}", path.display())))?;
        let table: Table =
            text.parse().map_err(|e: toml::de::Error| named(bad(format!("not TOML: {}", e.message()))))?;
        let own = table.get("task").and_then(Task::read);
        let mut settings = Self::of(task.or(own).unwrap_or(Task::Sums));
        if let Some(Some(preset)) = table.get("preset").map(<Option<Preset>>::read) {
            preset.into_iter().for_each(|p| settings.take_preset(p));
        }
        settings.take(&table).map_err(named)?;
        settings.task = task.unwrap_or(settings.task);
        Ok(settings)
    }

    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// With the setting's name and what it must be.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("steps", self.steps as usize),
            ("batch", self.batch),
            ("layers", self.layers),
            ("width", self.width),
            ("heads", self.heads),
            ("context", self.context),
            ("report", self.report as usize),
            ("check", self.check as usize),
            ("save", self.save as usize),
            ("keep", self.keep),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, n)| *n == 0) {
            return Err(bad(format!("{name} must be 1 at least")));
        }
        for (name, value) in [("lr", self.lr), ("clip", self.clip), ("init", self.init)] {
            if !(value.is_finite() && value > 0.0) {
                return Err(bad(format!("{name} must be a number above 0, not {value}")));
            }
        }
        if !(self.weight_decay.is_finite() && self.weight_decay >= 0.0) {
            return Err(bad(format!("weight_decay must be 0 at least, not {}", self.weight_decay)));
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return Err(bad(format!("dropout must be 0 or more and below 1, not {}", self.dropout)));
        }
        device(&self.device)?;
        if self.width > MOST || self.layers > MOST || self.context > MOST || self.batch > MOST {
            return Err(bad(format!("width, layers, context and batch are {MOST} at most")));
        }
        if self.task != Task::Fashion && !self.width.is_multiple_of(self.heads) {
            return Err(bad(format!("heads must divide width: {} heads, width {}", self.heads, self.width)));
        }
        if self.task == Task::Text && self.text.is_none() {
            return Err(bad("the task text needs a text".to_owned()).hint("--text FILE or --text FOLDER"));
        }
        if self.task == Task::Sums && self.context != rustytorch::data::Sums::ROW - 1 {
            return Err(bad(format!("a sum takes a context of {}", rustytorch::data::Sums::ROW - 1)));
        }
        Ok(())
    }
}

/// Debian's `dataset-fashion-mnist` puts its files here.
const FASHION_FOLDER: &str = "/usr/share/datasets/fashion-mnist";
/// Sizes above this are slips of the keyboard.
const MOST: usize = 1 << 20;

/// The device that a name stands for.
///
/// # Errors
/// What the machine lacks.
pub fn device(name: &str) -> Result<rustytorch::Device> {
    let known = |kind: &str| matches!(kind, "rocm" | "hip" | "metal" | "mps" | "vulkan");
    let hint = "rtx doctor shows what this machine has and what rtx uses";
    let refuse = |what: String| Err(Error::new(Kind::Device, what).hint(hint));
    match name.split(':').next() {
        Some("cpu" | "cuda") => name.parse().map_err(|e: Error| {
            let hinted = Error::new(e.kind(), format!("--device {name}: {}", e.message()));
            hinted.hint(hint)
        }),
        Some(kind) if known(kind) => refuse(format!("--device {name}: this build runs on cpu and cuda")),
        _ => refuse(format!("--device {name}: no such device")),
    }
}

fn bad(what: String) -> Error {
    Error::new(Kind::Argument, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_text(text: &str) -> Result<Settings> {
        let mut settings = Settings::of(Task::Sums);
        settings.take(&text.parse().expect("TOML"))?;
        Ok(settings)
    }

    #[test]
    fn what_is_written_is_read() {
        for task in Task::ALL {
            let mut settings = Settings { seed: 9, lr: 0.1, ..Settings::of(task) };
            if task == Task::Text {
                settings.take_preset(Preset::Mini);
                settings = Settings { text: Some("a folder/ä".into()), width: 64, ..settings };
            }
            let text = toml::to_string(&settings.to_table()).expect("prints");
            let file = std::env::temp_dir().join(format!("rtx-settings-{}-{}", task.name(), std::process::id()));
            std::fs::write(&file, text).expect("file");
            assert_eq!(Settings::from_file(&file, None).expect("reads"), settings);
        }
    }

    #[test]
    fn mistakes_have_sentences() {
        let e = from_text("stepz = 4").expect_err("unknown");
        assert!(e.to_string().starts_with("unknown setting stepz\n  hint: known: task, text, data, preset,"), "{e}");
        assert_eq!(from_text("steps = \"x\"").expect_err("type").message(), "steps = \"x\" should be a whole number");
        assert_eq!(from_text("steps = -4").expect_err("sign").message(), "steps = -4 should be a whole number");
        let check = |edit: fn(&mut Settings)| {
            let mut s = Settings::of(Task::Sums);
            edit(&mut s);
            s.check().expect_err("refused").message().to_owned()
        };
        assert_eq!(check(|s| s.batch = 0), "batch must be 1 at least");
        assert_eq!(check(|s| s.lr = f64::NAN), "lr must be a number above 0, not NaN");
        assert_eq!(check(|s| s.heads = 3), "heads must divide width: 3 heads, width 128");
        assert_eq!(check(|s| s.task = Task::Text), "the task text needs a text");
        assert!(Settings::of(Task::Sums).check().is_ok());
    }
}
