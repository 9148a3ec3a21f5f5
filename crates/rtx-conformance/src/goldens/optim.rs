//! `cargo xtask goldens optim`: every optimizer on given gradients, every scheduler's rates, against PyTorch's.
//!
//! A configuration whose optimizer, option or scheduler is not there counts as failed.
use super::archive::{Golden, read_set};
use super::closeness::{Tolerance, difference};
use rtx_core::{DType, Error, Kind, Result};
use rtx_io::Contents;
use rustytorch::{
    self as torch,
    optim::{self, Group, Optimizer, schedule},
    prelude::*,
};
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;

mod build;
mod schedulers;

/// The steps after which parameters are compared.
const SEEN: [usize; 5] = [1, 2, 5, 10, 20];
/// Steps of a configuration.
const STEPS: usize = 20;
const EXACT: Tolerance = Tolerance::new(1e-12, 1e-13);

/// What one configuration came to.
pub struct Outcome {
    /// `AdamW 4 amsgrad`, `OneCycleLR 24`.
    pub name: String,
    /// Why it failed, if it did.
    pub fault: Option<String>,
}

/// What all configurations came to.
pub struct Report {
    /// In the order of the files.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Names of what passed.
    pub fn passed(&self) -> impl Iterator<Item = &str> {
        self.outcomes.iter().filter(|o| o.fault.is_none()).map(|o| o.name.as_str())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut families: Vec<(&str, usize, usize)> = Vec::new();
        for o in &self.outcomes {
            let family = o.name.split(' ').next().unwrap_or_default();
            if families.last().is_none_or(|(name, ..)| *name != family) {
                families.push((family, 0, 0));
            }
            if let Some((_, passed, all)) = families.last_mut() {
                *passed += usize::from(o.fault.is_none());
                *all += 1;
            }
        }
        for (name, passed, all) in families {
            writeln!(f, "{name:28} {passed:3} of {all}")?;
        }
        for o in &self.outcomes {
            if let Some(fault) = &o.fault {
                writeln!(f, "  {}: {fault}", o.name)?;
            }
        }
        writeln!(f, "optim: {} of {} configurations are PyTorch's", self.passed().count(), self.outcomes.len())
    }
}

fn bad(what: impl fmt::Display) -> Error {
    Error::new(Kind::Format, format!("goldens optim: {what}"))
}

/// Runs everything in `dir`: `optim_f64.tar.zst` (or its files) and `schedulers.json`.
///
/// # Errors
/// When the data cannot be read.
pub fn run(dir: &Path) -> Result<Report> {
    let mut outcomes = Vec::new();
    for golden in read_set(dir, "optim_f64.tar.zst")? {
        outcomes.extend(optimizer(&golden)?);
    }
    outcomes.extend(schedulers::run(&dir.join("schedulers.json"))?);
    Ok(Report { outcomes })
}

fn note(golden: &Golden, key: &str) -> Result<Value> {
    let text = golden.file.notes.get(key).ok_or_else(|| bad(format_args!("{}: no {key}", golden.name)))?;
    serde_json::from_str(text).map_err(|e| bad(format_args!("{}: {key}: {e}", golden.name)))
}

/// All configurations of one optimizer.
fn optimizer(golden: &Golden) -> Result<Vec<Outcome>> {
    let defaults = note(golden, "defaults")?;
    let configs = note(golden, "configs")?;
    let configs = configs.as_array().ok_or_else(|| bad("configs is no list"))?;
    let outcomes = configs.iter().enumerate().map(|(i, config)| {
        let desc = config["desc"].as_str().unwrap_or_default();
        let case = Case { golden, number: i, config, defaults: &defaults };
        Outcome { name: format!("{} {i} {desc}", golden.name), fault: case.run().err().map(|e| e.message().to_owned()) }
    });
    Ok(outcomes.collect())
}

/// One configuration.
struct Case<'a> {
    golden: &'a Golden,
    number: usize,
    config: &'a Value,
    defaults: &'a Value,
}

impl Case<'_> {
    fn file(&self) -> &Contents {
        &self.golden.file
    }
    fn tensor(&self, key: &str) -> Result<Tensor> {
        let a = self.file().arrays.get(key).ok_or_else(|| bad(format_args!("no tensor {key}")))?;
        torch::from_bytes(a.dtype, &a.shape, &a.bytes)
    }
    /// Which parameters the configuration has.
    fn params(&self) -> Vec<usize> {
        let list = self.config["params"].as_array();
        list.map(|l| l.iter().filter_map(|v| v.as_u64()).map(|i| i as usize).collect()).unwrap_or_default()
    }
    /// The defaults with the configuration's own settings.
    fn settings(&self) -> Map<String, Value> {
        let mut all = self.defaults.as_object().cloned().unwrap_or_default();
        all.extend(self.config["kwargs"].as_object().cloned().unwrap_or_default());
        all
    }

    fn run(&self) -> Result<()> {
        let numbers = self.params();
        let params: Vec<Param> =
            numbers.iter().map(|i| Ok(Param::new(self.tensor(&format!("init/p{i}"))?))).collect::<Result<_>>()?;
        if self.golden.name == "LBFGS" {
            return self.run_on_function(&params);
        }
        let groups = self.groups(&numbers, &params)?;
        let mut optimizer = build::optimizer(&self.golden.name, &self.settings(), groups)?;
        for t in 1..=STEPS {
            for (i, p) in numbers.iter().zip(&params) {
                p.set_grad(Some(self.tensor(&format!("grad/{t}/p{i}"))?));
            }
            optimizer.step()?;
            if SEEN.contains(&t) {
                let keys = numbers.iter().map(|i| format!("c{}/p{i}/{t}", self.number));
                keys.zip(&params).try_for_each(|(key, p)| self.compare(&key, p))?;
            }
        }
        self.compare_state(&numbers, &optimizer.state_dict())
    }

    /// One group, or those of the configuration.
    fn groups(&self, numbers: &[usize], params: &[Param]) -> Result<Vec<Group>> {
        let Some(list) = self.config["groups"].as_array() else {
            return Ok(vec![Group::new(params.iter().map(Param::tie))]);
        };
        list.iter()
            .map(|group| build::group(group, |i| params[numbers.iter().position(|n| *n == i).unwrap_or(0)].tie()))
            .collect()
    }

    /// What a step runs in is part of what is compared: Muon's steps are made in bfloat16.
    fn tolerance(&self, key: &str) -> Tolerance {
        match self.golden.name.as_str() {
            // Of the update, which is what moves a parameter: steps of lr times the matrix's factor.
            "Muon" if !key.contains("state") => Tolerance::new(0.0, 2e-2 * self.muon_update()),
            "LBFGS" => Tolerance::new(1e-7, 1e-9),
            _ => EXACT,
        }
    }
    /// The largest distance that a parameter went.
    fn muon_update(&self) -> f64 {
        let read = |key: &str| self.tensor(key).and_then(|t| t.to_vec::<f64>()).unwrap_or_default();
        let (from, to) = (read("init/p0"), read(&format!("c{}/p0/{STEPS}", self.number)));
        from.iter().zip(&to).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    fn compare(&self, key: &str, got: &Tensor) -> Result<()> {
        let want = self.file().arrays.get(key).ok_or_else(|| bad(format_args!("no tensor {key}")))?;
        match difference(got, want, self.tolerance(key)) {
            None => Ok(()),
            Some(fault) => Err(Error::new(Kind::Format, format!("{key}: {fault}"))),
        }
    }

    /// Everything that PyTorch keeps is kept here too, by its name.
    fn compare_state(&self, numbers: &[usize], state: &nn::StateDict) -> Result<()> {
        for (place, i) in numbers.iter().enumerate() {
            let prefix = format!("c{}/state/p{i}/", self.number);
            let names = self.file().arrays.keys().filter_map(|key| key.strip_prefix(&prefix));
            for name in names {
                let missing = || Error::new(Kind::Format, format!("the state has no {name}.{place}"));
                let got = state.get(&format!("{name}.{place}")).ok_or_else(missing)?;
                // Steps are counted in whole numbers here.
                let got = if name == "step" { got.to(DType::F64) } else { got.alias() };
                self.compare(&format!("{prefix}{name}"), &got)?;
            }
        }
        Ok(())
    }

    /// LBFGS asks for values: `x'Ax/2 - b'x + c Σ x⁴/4` of all parameters in a row; their negative with `maximize`.
    fn run_on_function(&self, params: &[Param]) -> Result<()> {
        let [a, b, c] = ["quad/A", "quad/b", "quad/c"].map(|key| self.tensor(key));
        let (a, b, c) = (a?, b?, c?);
        let settings = self.settings();
        let sign = if settings.get("maximize").and_then(Value::as_bool) == Some(true) { -1.0 } else { 1.0 };
        let mut optimizer = build::lbfgs(&settings, params)?;
        let mut losses = Vec::with_capacity(STEPS);
        for t in 1..=STEPS {
            let loss = optimizer.step(|| {
                let rows: Vec<Tensor> = params.iter().map(|p| p.reshape(-1)).collect();
                let x = torch::cat(&rows, 0);
                let fourth = x.square().square().sum(..) * &c / 4.0;
                (a.matmul(&x).dot(&x) / 2.0 - b.dot(&x) + fourth) * sign
            })?;
            losses.push(loss.item::<f64>()?);
            if SEEN.contains(&t) {
                let keys = self.params().into_iter().map(|i| format!("c{}/p{i}/{t}", self.number));
                keys.zip(params).try_for_each(|(key, p)| self.compare(&key, p))?;
            }
        }
        self.compare(&format!("c{}/loss", self.number), &torch::from_slice(&losses, STEPS))?;
        self.compare_state(&[0], &optimizer.state_dict())
    }
}
