//! PyTorch's schedulers as schedules, and their tables of rates.
use super::*;
use schedule::{Anneal, CyclicMode, Plateau, Schedule, Threshold};

/// All cases of `schedulers.json`.
pub(super) fn run(path: &Path) -> Result<Vec<Outcome>> {
    let text = std::fs::read_to_string(path).map_err(|e| bad(format_args!("{}: {e}", path.display())))?;
    let json: Value = serde_json::from_str(&text).map_err(|e| bad(format_args!("{}: {e}", path.display())))?;
    let cases = json["cases"].as_array().ok_or_else(|| bad("schedulers.json has no cases"))?;
    let outcomes = cases.iter().enumerate().map(|(i, case)| {
        let name = case["scheduler"]["name"].as_str().unwrap_or("?");
        Outcome { name: format!("{name} {i}"), fault: compare(case).err().map(|e| e.message().to_owned()) }
    });
    Ok(outcomes.collect())
}

fn numbers(json: &Value) -> Vec<f64> {
    json.as_array().map(|l| l.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
}

fn compare(case: &Value) -> Result<()> {
    let groups = case["lr"].as_array().ok_or_else(|| bad("a case without rates"))?;
    let initial = numbers(&case["initial_lr"]);
    for (group, want) in groups.iter().enumerate() {
        let want = numbers(want);
        let lr = initial.get(group).copied().ok_or_else(|| bad("a group without a first rate"))?;
        if case["scheduler"]["name"] == "ReduceLROnPlateau" {
            follow(&want, &plateau(&case["scheduler"]["kwargs"], lr, case)?)?;
            continue;
        }
        let schedule = build(&case["scheduler"], lr, &numbers(&case["lambda_values"][group]))?;
        let got: Vec<f64> = (0..want.len()).map(|t| schedule.at(t as u64)).collect();
        follow(&want, &got)?;
        let momentum = numbers(&case["momentum"][group]);
        let got: Option<Vec<f64>> = (0..momentum.len()).map(|t| schedule.momentum_at(t as u64)).collect();
        follow(&momentum, &got.ok_or_else(|| bad("this schedule moves no momentum"))?)?;
    }
    Ok(())
}

fn follow(want: &[f64], got: &[f64]) -> Result<()> {
    match want.iter().zip(got).position(|(w, g)| !EXACT.holds(*g, *w)) {
        _ if want.len() != got.len() => Err(bad(format_args!("{} numbers, should be {}", got.len(), want.len()))),
        None => Ok(()),
        Some(t) => Err(bad(format_args!("step {t}: {:e}, should be {:e}", got[t], want[t]))),
    }
}

/// Keyword arguments of a scheduler.
struct Kwargs<'a>(&'a Value);
impl Kwargs<'_> {
    fn f(&self, name: &str, default: f64) -> f64 {
        self.0[name].as_f64().unwrap_or(default)
    }
    fn n(&self, name: &str, default: u64) -> u64 {
        self.0[name].as_u64().unwrap_or(default)
    }
    fn word(&self, name: &str) -> &str {
        self.0[name].as_str().unwrap_or_default()
    }
    fn steps(&self, name: &str) -> Vec<u64> {
        self.0[name].as_array().map(|l| l.iter().filter_map(Value::as_u64).collect()).unwrap_or_default()
    }
}

fn build(json: &Value, lr: f64, table: &[f64]) -> Result<Box<dyn Schedule>> {
    let k = Kwargs(&json["kwargs"]);
    let table = table.to_vec();
    let factor = move |step: u64| table.get(step as usize).copied().unwrap_or(f64::NAN);
    let anneal = if k.word("anneal_strategy") == "linear" { Anneal::Linear } else { Anneal::Cosine };
    Ok(match json["name"].as_str().unwrap_or_default() {
        "LambdaLR" => Box::new(schedule::Lambda::new(lr, factor)),
        "MultiplicativeLR" => Box::new(schedule::Multiplicative::new(lr, factor)),
        "StepLR" => Box::new(schedule::Step::new(lr, k.n("step_size", 1)).gamma(k.f("gamma", 0.1))),
        "MultiStepLR" => Box::new(schedule::MultiStep::new(lr, k.steps("milestones")).gamma(k.f("gamma", 0.1))),
        "ConstantLR" => {
            Box::new(schedule::Constant::new(lr).factor(k.f("factor", 1.0 / 3.0)).steps(k.n("total_iters", 5)))
        }
        "LinearLR" => {
            let all = schedule::Linear::new(lr, k.n("total_iters", 5));
            Box::new(all.from(k.f("start_factor", 1.0 / 3.0)).to(k.f("end_factor", 1.0)))
        }
        "ExponentialLR" => Box::new(schedule::Exponential::new(lr, k.f("gamma", f64::NAN))),
        "PolynomialLR" => Box::new(schedule::Polynomial::new(lr, k.n("total_iters", 5)).power(k.f("power", 1.0))),
        "CosineAnnealingLR" => {
            Box::new(schedule::Cosine::new(lr, k.n("T_max", 1)).floor(k.f("eta_min", 0.0)).repeating())
        }
        "CosineAnnealingWarmRestarts" => {
            let all = schedule::WarmRestarts::new(lr, k.n("T_0", 1));
            Box::new(all.times(k.n("T_mult", 1)).floor(k.f("eta_min", 0.0)))
        }
        "CyclicLR" => {
            let up = k.n("step_size_up", 2000);
            let all = schedule::Cyclic::new(k.f("base_lr", f64::NAN), k.f("max_lr", f64::NAN), up);
            let mode = match k.word("mode") {
                "triangular2" => CyclicMode::Triangular2,
                "exp_range" => CyclicMode::ExpRange(k.f("gamma", 1.0)),
                _ => CyclicMode::Triangular,
            };
            let all = all.down(k.n("step_size_down", up)).mode(mode);
            Box::new(all.momentum(k.f("base_momentum", 0.8), k.f("max_momentum", 0.9)))
        }
        "OneCycleLR" => {
            let steps = k.n("total_steps", k.n("epochs", 0) * k.n("steps_per_epoch", 0));
            let all = schedule::OneCycle::new(k.f("max_lr", f64::NAN), steps).rise(k.f("pct_start", 0.3));
            let all = all.anneal(anneal).div_factors(k.f("div_factor", 25.0), k.f("final_div_factor", 1e4));
            let all = if k.0["three_phase"] == true { all.three_phases() } else { all };
            Box::new(if k.0["cycle_momentum"] == false { all.no_momentum() } else { all })
        }
        "SWALR" => {
            let all = schedule::Swa::new(lr, k.f("swa_lr", f64::NAN), k.n("anneal_epochs", 10));
            Box::new(all.anneal(anneal))
        }
        "SequentialLR" => {
            let mut parts = parts(json, lr)?;
            let mut all = schedule::Sequential::new(parts.remove(0));
            for (from, part) in k.steps("milestones").into_iter().zip(parts) {
                all = all.then(from, part);
            }
            Box::new(all)
        }
        "ChainedScheduler" => {
            let mut parts = parts(json, lr)?;
            let first = schedule::Chained::new(parts.remove(0));
            Box::new(parts.into_iter().fold(first, |all, part| all.with(part)))
        }
        other => return Err(Error::new(Kind::Unsupported, format!("there is no scheduler {other}"))),
    })
}

/// The schedulers that another one is made of, at least one.
fn parts(json: &Value, lr: f64) -> Result<Vec<Box<dyn Schedule>>> {
    let list = json["schedulers"].as_array().filter(|l| !l.is_empty());
    list.ok_or_else(|| bad("a scheduler of no schedulers"))?.iter().map(|part| build(part, lr, &[])).collect()
}

/// The rates that follow the case's metrics.
fn plateau(kwargs: &Value, lr: f64, case: &Value) -> Result<Vec<f64>> {
    let k = Kwargs(kwargs);
    let by = k.f("threshold", 1e-4);
    let threshold = if k.word("threshold_mode") == "abs" { Threshold::Absolute(by) } else { Threshold::Relative(by) };
    let all = Plateau::new(lr).factor(k.f("factor", 0.1)).patience(k.n("patience", 10)).threshold(threshold);
    let all = all.cooldown(k.n("cooldown", 0)).least(k.f("min_lr", 0.0)).eps(k.f("eps", 1e-8));
    let mut all = if k.word("mode") == "max" { all.rising() } else { all };
    let metrics = numbers(if case["metrics"].is_null() { &case["scheduler"]["metrics"] } else { &case["metrics"] });
    Ok(std::iter::once(lr).chain(metrics.into_iter().map(|m| all.report(m))).collect())
}
