//! Optimizers from PyTorch's keyword arguments.
use super::*;

/// Settings that do not change what is computed.
const IGNORED: [&str; 5] = ["foreach", "fused", "capturable", "differentiable", "params"];

/// Settings that are read one by one, so that none is passed over.
struct Settings(Map<String, Value>);
impl Settings {
    fn number(&mut self, name: &str) -> f64 {
        self.0.remove(name).and_then(|v| v.as_f64()).unwrap_or(f64::NAN)
    }
    fn pair(&mut self, name: &str) -> (Option<f64>, f64) {
        let value = self.0.remove(name).unwrap_or(Value::Null);
        (value[0].as_f64(), value[1].as_f64().unwrap_or(f64::NAN))
    }
    fn flag(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some_and(|v| v.as_bool() == Some(true))
    }
    fn value(&mut self, name: &str) -> Value {
        self.0.remove(name).unwrap_or(Value::Null)
    }
}

/// `x` with a setting where it is wanted.
fn when<T>(wanted: bool, x: T, set: impl FnOnce(T) -> T) -> T {
    if wanted { set(x) } else { x }
}

pub(super) fn optimizer(name: &str, settings: &Map<String, Value>, groups: Vec<Group>) -> Result<Box<dyn Optimizer>> {
    let mut s = Settings(settings.clone());
    IGNORED.iter().for_each(|name| drop(s.0.remove(*name)));
    let lr = s.number("lr");
    let made = make(name, lr, &mut s, groups)?;
    match s.0.keys().next() {
        None => Ok(made),
        Some(left) => Err(Error::new(Kind::Unsupported, format!("{name} has no setting {left}"))),
    }
}

pub(super) fn lbfgs(settings: &Map<String, Value>, params: &[Param]) -> Result<optim::LBFGS> {
    let mut s = Settings(settings.clone());
    IGNORED.iter().for_each(|name| drop(s.0.remove(*name)));
    let params = params.iter().map(Param::tie).collect();
    let o = optim::LBFGS::new(params, s.number("lr")).max_iter(s.number("max_iter") as usize);
    // Left out everywhere; the default in the file is what follows from the default `max_iter`.
    s.value("max_eval");
    let o = o.tolerance_grad(s.number("tolerance_grad")).tolerance_change(s.number("tolerance_change"));
    let o = o.history_size(s.number("history_size") as usize);
    let o = when(s.flag("maximize"), o, |o| o.maximize());
    let o = when(s.value("line_search_fn") == "strong_wolfe", o, |o| o.strong_wolfe());
    match s.0.keys().next() {
        None => Ok(o),
        Some(left) => Err(Error::new(Kind::Unsupported, format!("LBFGS has no setting {left}"))),
    }
}

fn make(name: &str, lr: f64, s: &mut Settings, groups: Vec<Group>) -> Result<Box<dyn Optimizer>> {
    let maximize = s.flag("maximize");
    /// `climb(optimizer)`: with `maximize` where it is set.
    macro_rules! climb {
        ($o:expr) => {
            Box::new(when(maximize, $o, |o| o.maximize()))
        };
    }
    let betas = |s: &mut Settings| {
        let (beta1, beta2) = s.pair("betas");
        (beta1.unwrap_or(f64::NAN), beta2)
    };
    Ok(match name {
        "SGD" => {
            let o = optim::SGD::groups(groups, lr).momentum(s.number("momentum")).dampening(s.number("dampening"));
            let o = when(s.flag("nesterov"), o, |o| o.nesterov());
            climb!(o.weight_decay(s.number("weight_decay")))
        }
        "Adam" => {
            let (b1, b2) = betas(s);
            let o = optim::Adam::groups(groups, lr).betas(b1, b2).eps(s.number("eps"));
            let o = when(s.flag("decoupled_weight_decay"), o, |o| o.decoupled_weight_decay());
            let o = when(s.flag("amsgrad"), o, |o| o.amsgrad());
            climb!(o.weight_decay(s.number("weight_decay")))
        }
        "AdamW" => {
            let (b1, b2) = betas(s);
            s.flag("decoupled_weight_decay");
            let o = optim::AdamW::groups(groups, lr).betas(b1, b2).eps(s.number("eps"));
            let o = when(s.flag("amsgrad"), o, |o| o.amsgrad());
            climb!(o.weight_decay(s.number("weight_decay")))
        }
        "Adamax" => {
            let (b1, b2) = betas(s);
            let o = optim::Adamax::groups(groups, lr).betas(b1, b2).eps(s.number("eps"));
            climb!(o.weight_decay(s.number("weight_decay")))
        }
        "NAdam" => {
            let (b1, b2) = betas(s);
            let o = optim::NAdam::groups(groups, lr).betas(b1, b2).eps(s.number("eps"));
            let o = o.momentum_decay(s.number("momentum_decay"));
            let o = when(s.flag("decoupled_weight_decay"), o, |o| o.decoupled_weight_decay());
            climb!(o.weight_decay(s.number("weight_decay")))
        }
        "RAdam" => {
            let (b1, b2) = betas(s);
            let o = optim::RAdam::groups(groups, lr).betas(b1, b2).eps(s.number("eps"));
            let o = when(s.flag("decoupled_weight_decay"), o, |o| o.decoupled_weight_decay());
            climb!(o.weight_decay(s.number("weight_decay")))
        }
        "Adagrad" => {
            let o = optim::Adagrad::groups(groups, lr).lr_decay(s.number("lr_decay")).eps(s.number("eps"));
            let o = o.initial_accumulator_value(s.number("initial_accumulator_value"));
            climb!(o.weight_decay(s.number("weight_decay")))
        }
        "Adadelta" => {
            let o = optim::Adadelta::groups(groups, lr).rho(s.number("rho")).eps(s.number("eps"));
            climb!(o.weight_decay(s.number("weight_decay")))
        }
        "RMSprop" => {
            let o = optim::RMSprop::groups(groups, lr).alpha(s.number("alpha")).eps(s.number("eps"));
            let o = when(s.flag("centered"), o.momentum(s.number("momentum")), |o| o.centered());
            climb!(o.weight_decay(s.number("weight_decay")))
        }
        "Adafactor" => {
            let (eps1, eps2) = s.pair("eps");
            let o = optim::Adafactor::groups(groups, lr).eps(eps1.unwrap_or(-1.0), eps2).d(s.number("d"));
            climb!(o.beta2_decay(s.number("beta2_decay")).weight_decay(s.number("weight_decay")))
        }
        "ASGD" => {
            let o = optim::ASGD::groups(groups, lr).lambd(s.number("lambd")).alpha(s.number("alpha"));
            climb!(o.t0(s.number("t0")).weight_decay(s.number("weight_decay")))
        }
        "Rprop" => {
            let ((minus, plus), (least, most)) = (s.pair("etas"), s.pair("step_sizes"));
            let o = optim::Rprop::groups(groups, lr).etas(minus.unwrap_or(f64::NAN), plus);
            climb!(o.step_sizes(least.unwrap_or(f64::NAN), most))
        }
        "Muon" => {
            let c = s.value("ns_coefficients");
            let c = [0, 1, 2].map(|i| c[i].as_f64().unwrap_or(f64::NAN));
            let o = optim::Muon::groups(groups, lr).momentum(s.number("momentum")).eps(s.number("eps"));
            let o = o.ns_coefficients(c[0], c[1], c[2]).ns_steps(s.number("ns_steps") as usize);
            let o = when(!s.flag("nesterov"), o, |o| o.no_nesterov());
            let o = match s.value("adjust_lr_fn").as_str() {
                Some("match_rms_adamw") => o.adjust_lr("match_rms_adamw"),
                Some("spectral_unclamped") => o.adjust_lr("spectral_unclamped"),
                _ => o,
            };
            Box::new(o.weight_decay(s.number("weight_decay")))
        }
        other => return Err(Error::new(Kind::Unsupported, format!("there is no optimizer {other}"))),
    })
}

/// A group with settings of its own.
pub(super) fn group(json: &Value, param: impl Fn(usize) -> Param) -> Result<Group> {
    let numbers = json["params"].as_array().ok_or_else(|| bad("a group without parameters"))?;
    let mut group = Group::new(numbers.iter().filter_map(Value::as_u64).map(|i| param(i as usize)));
    for (name, value) in json.as_object().into_iter().flatten().filter(|(name, _)| *name != "params") {
        let value = value.as_f64().ok_or_else(|| bad(format_args!("a group's {name} is no number")))?;
        group = match name.as_str() {
            "lr" => group.lr(value),
            "weight_decay" => group.weight_decay(value),
            other => return Err(Error::new(Kind::Unsupported, format!("groups have no setting {other}"))),
        };
    }
    Ok(group)
}
