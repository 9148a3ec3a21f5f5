//! PyTorch's golden training runs: what they hold, and a loop that is compared with them step by step.
use rtx_core::{Error, Kind};
use rustytorch::prelude::*;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// How far a run may be from PyTorch's float64 run.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of each loss, relative.
    pub loss: f64,
    /// Of each gradient norm, relative.
    pub norm: f64,
    /// Of each last tensor, relative, absolutely.
    pub weight: f64,
    /// And in units of PyTorch's own float32 error on it.
    pub own: f64,
}

/// A run in float32: a few times what PyTorch's own float32 run is off by.
pub(super) const SINGLE: Limits = Limits { loss: 2e-6, norm: 2e-6, weight: 1e-6, own: 5.0 };

/// What was compared, of one dtype.
#[derive(Debug)]
pub struct Run {
    dtype: DType,
    limits: Limits,
    /// (our loss, PyTorch's, our gradient norm, PyTorch's).
    steps: Vec<[f64; 4]>,
    /// (name, relative error, what is allowed).
    weights: Vec<(String, f64, f64)>,
}

impl Run {
    /// The worst relative differences of the losses and of the gradient norms; infinite where something is no number.
    fn worst(&self) -> [f64; 2] {
        let largest = |at: usize| {
            let errors = self.steps.iter().map(|s| ((s[at] - s[at + 1]) / s[at + 1]).abs());
            errors.fold(0.0, |worst: f64, e| if e.is_nan() { f64::INFINITY } else { worst.max(e) })
        };
        [largest(0), largest(2)]
    }
    fn passed(&self) -> bool {
        let [loss, norm] = self.worst();
        !self.steps.is_empty()
            && !self.weights.is_empty()
            && loss <= self.limits.loss
            && norm <= self.limits.norm
            && self.weights.iter().all(|(_, error, limit)| error <= limit)
    }
}

/// What was compared, dtype by dtype.
#[derive(Debug)]
pub struct Report(pub(super) Vec<Run>);

impl Report {
    /// Is everything within its tolerance?
    pub fn passed(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(Run::passed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |good: bool| if good { "ok  " } else { "FAIL" };
        for run in &self.0 {
            let Run { dtype, limits, .. } = run;
            for (name, error, limit) in &run.weights {
                writeln!(f, "{} {dtype} {name:28} error {error:.2e}, allowed {limit:.2e}", mark(error <= limit))?;
            }
            let [loss, norm] = run.worst();
            writeln!(
                f,
                "{} {dtype} {} losses, worst {loss:.2e}, allowed {:.0e}; gradient norms, worst {norm:.2e}, allowed {:.0e}",
                mark(loss <= limits.loss && norm <= limits.norm),
                run.steps.len(),
                limits.loss,
                limits.norm
            )?;
        }
        Ok(())
    }
}

/// The files of a golden run.
pub(super) struct Golden {
    said: Trajectory,
    first: nn::StateDict,
    batches: nn::StateDict,
    last: nn::StateDict,
}

/// What a run trains, and what it carries along.
pub(super) struct State {
    params: BTreeMap<String, Param>,
    /// Running statistics and counts.
    pub buffers: nn::StateDict,
}

impl State {
    /// A trained tensor by its name in the files.
    pub fn param(&self, name: &str) -> Result<Tensor> {
        find(&self.params, name).map(Param::tensor)
    }
}

impl Golden {
    pub fn read(dir: &Path) -> Result<Self> {
        Ok(Golden {
            said: Trajectory::read(&dir.join("trajectory.json"))?,
            first: nn::load_file(dir.join("init.safetensors"))?,
            batches: nn::load_file(dir.join("batches.safetensors"))?,
            last: nn::load_file(dir.join("final_f64.safetensors"))?,
        })
    }

    /// A tensor of the batch of a step.
    pub fn batch(&self, step: usize, what: &str) -> Result<&Tensor> {
        find(&self.batches, &format!("{step}.{what}"))
    }

    /// Trains in a dtype from the first weights: a loss a step, and a learning rate a step.
    pub fn train(
        &self,
        (dtype, limits): (DType, Limits),
        opt: impl FnOnce(Vec<Param>) -> Box<dyn Optimizer>,
        lr: impl Fn(usize) -> f64,
        mut loss: impl FnMut(&mut State, usize) -> Result<Tensor>,
    ) -> Result<Run> {
        let is_buffer = |name: &str| name.contains(".running_") || name.ends_with(".num_batches_tracked");
        let mut state = State { params: BTreeMap::new(), buffers: BTreeMap::new() };
        for (name, first) in &self.first {
            if !is_buffer(name) {
                state.params.insert(name.clone(), Param::new(first.to(dtype)));
            } else if first.dtype() == I64 {
                state.buffers.insert(name.clone(), first.alias());
            } else {
                state.buffers.insert(name.clone(), first.to(dtype));
            }
        }
        let params = || state.params.values().map(Param::tie).collect::<Vec<_>>();
        let (mut opt, params) = (opt(params()), params());
        let mut steps = Vec::new();
        for (step, (&want, &want_norm)) in self.said.loss.iter().zip(&self.said.norm).enumerate() {
            let loss = loss(&mut state, step)?;
            opt.zero_grad();
            loss.backward();
            let norm = nn::clip_grad_norm_(&params, f64::INFINITY);
            opt.set_lr(lr(step));
            opt.step()?;
            steps.push([loss.to(F64).item()?, want, norm.to(F64).item()?, want_norm]);
        }
        let mut weights = Vec::new();
        for (name, want) in &self.last {
            let ours = state.param(name).or_else(|_| find(&state.buffers, name).map(Tensor::alias))?;
            let own = self.said.own_error.get(name).copied().unwrap_or(0.0);
            weights.push((name.clone(), relative_error(&ours, want)?, limits.own * own + limits.weight));
        }
        Ok(Run { dtype, limits, steps, weights })
    }
}

/// A tensor by its name.
pub(super) fn find<'a, T>(all: &'a BTreeMap<String, T>, name: &str) -> Result<&'a T> {
    all.get(name).ok_or_else(|| Error::new(Kind::Format, format!("the goldens have no {name}")))
}

/// Distance over length, in float64.
pub(super) fn relative_error(ours: &Tensor, want: &Tensor) -> Result<f64> {
    let (a, b) = (ours.to(F64).to_vec::<f64>()?, want.to(F64).to_vec::<f64>()?);
    let distance: f64 = a.iter().zip(&b).map(|(x, y)| (x - y) * (x - y)).sum();
    let length: f64 = b.iter().map(|y| y * y).sum();
    Ok((distance / length).sqrt())
}

/// What PyTorch's run said.
pub(super) struct Trajectory {
    /// The loss of each step, in float64.
    pub loss: Vec<f64>,
    /// The raw global gradient norm of each step, in float64.
    pub norm: Vec<f64>,
    /// For each last tensor, how far PyTorch's own float32 run is from its float64 run.
    pub own_error: BTreeMap<String, f64>,
}

impl Trajectory {
    pub fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).map_err(|e| Error::new(Kind::Io, format!("{}: {e}", path.display())))?;
        let json: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| Error::new(Kind::Format, format!("{}: {e}", path.display())))?;
        let list = |v: &serde_json::Value| {
            v.as_array().map(|a| a.iter().filter_map(serde_json::Value::as_f64).collect()).unwrap_or_default()
        };
        let own = json["torch_f32_vs_f64_rel_weight_error"].as_object();
        Ok(Trajectory {
            loss: list(&json["float64"]["loss"]),
            norm: list(&json["float64"]["grad_norm"]),
            own_error: own
                .map(|o| o.iter().filter_map(|(k, v)| Some((k.clone(), v.as_f64()?))).collect())
                .unwrap_or_default(),
        })
    }
}
