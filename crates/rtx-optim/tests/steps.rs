//! Optimizers against PyTorch's formulas in plain f64; state on the device, saved and taken back.
use rtx_core::{DType, Error};
use rtx_nn::{Param, StateDict};
use rtx_optim::{Adam, AdamW, Group, Optimizer, SGD};
use rtx_tensor::{self as torch};

const FIRST: [f64; 3] = [1.0, -2.0, 0.5];

fn param() -> Param {
    Param::new(torch::from_slice(&FIRST, 3))
}
/// A gradient that changes with the step.
fn gradient(t: usize) -> [f64; 3] {
    [0.3, -0.1, 0.7].map(|g| g * (1.0 + t as f64) - 0.2 * t as f64)
}
/// Runs `steps` steps and reads the parameter.
fn run(optimizer: &mut impl Optimizer, p: &Param, steps: std::ops::Range<usize>) -> Vec<f64> {
    for t in steps {
        p.set_grad(Some(torch::from_slice(&gradient(t), 3)));
        optimizer.step().expect("steps");
        optimizer.zero_grad();
        assert!(p.grad().is_none());
    }
    p.to_vec().expect("runs")
}
fn assert_close(got: &[f64], want: &[f64]) {
    assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12), "{got:?} is not {want:?}");
}

fn adam(steps: usize, lr: f64, (b1, b2): (f64, f64), decay: f64, decoupled: bool) -> Vec<f64> {
    let (mut p, mut m, mut v) = (FIRST, [0.0; 3], [0.0; 3]);
    for t in 0..steps {
        for i in 0..3 {
            let mut g = gradient(t)[i];
            if decoupled {
                p[i] *= 1.0 - lr * decay
            } else {
                g += decay * p[i]
            }
            m[i] += (g - m[i]) * (1.0 - b1);
            v[i] = v[i] * b2 + g * g * (1.0 - b2);
            let (c1, c2) = (1.0 - b1.powi(t as i32 + 1), 1.0 - b2.powi(t as i32 + 1));
            p[i] -= lr / c1 * m[i] / (f64::sqrt(v[i]) / c2.sqrt() + 1e-8);
        }
    }
    p.to_vec()
}

#[test]
fn adam_and_adamw_follow_the_formula() {
    let p = param();
    let mut optimizer = AdamW::new(vec![p.tie()], 0.1).betas(0.9, 0.95).weight_decay(0.2);
    assert_close(&run(&mut optimizer, &p, 0..5), &adam(5, 0.1, (0.9, 0.95), 0.2, true));
    let p = param();
    let mut optimizer = Adam::new(vec![p.tie()], 0.1).weight_decay(0.2);
    assert_close(&run(&mut optimizer, &p, 0..5), &adam(5, 0.1, (0.9, 0.999), 0.2, false));
}

#[test]
fn sgd_follows_the_formula() {
    for (momentum, dampening, nesterov) in [(0.0, 0.0, false), (0.9, 0.0, false), (0.9, 0.0, true), (0.5, 0.3, false)] {
        let p = param();
        let mut optimizer = SGD::new(vec![p.tie()], 0.1).momentum(momentum).dampening(dampening).weight_decay(0.01);
        if nesterov {
            optimizer = optimizer.nesterov();
        }
        let (mut want, mut buffer) = (FIRST, [0.0; 3]);
        for t in 0..4 {
            for i in 0..3 {
                let g = gradient(t)[i] + 0.01 * want[i];
                buffer[i] = if t == 0 { g } else { momentum * buffer[i] + (1.0 - dampening) * g };
                let way = match (momentum == 0.0, nesterov) {
                    (true, _) => g,
                    (_, true) => g + momentum * buffer[i],
                    _ => buffer[i],
                };
                want[i] -= 0.1 * way;
            }
        }
        assert_close(&run(&mut optimizer, &p, 0..4), &want);
    }
}

#[test]
fn groups_have_settings_of_their_own() {
    let (a, b) = (param(), param());
    let groups = [Group::new([a.tie()]).lr(0.5), Group::new([b.tie()])];
    let mut optimizer = SGD::groups(groups, 0.1);
    optimizer.set_lr(0.2);
    for p in [&a, &b] {
        p.set_grad(Some(torch::ones(3).to(DType::F64)));
    }
    optimizer.step().expect("steps");
    assert_close(&a.to_vec().expect("runs"), &FIRST.map(|x| x - 0.5));
    assert_close(&b.to_vec().expect("runs"), &FIRST.map(|x| x - 0.2));
}

#[test]
fn state_comes_back_exactly() {
    let p = param();
    let mut whole = AdamW::new(vec![p.tie()], 0.1);
    let want = run(&mut whole, &p, 0..6);

    let p = param();
    let mut first = AdamW::new(vec![p.tie()], 0.1);
    run(&mut first, &p, 0..3);
    let state: StateDict = first.state_dict();
    assert_eq!(state.keys().collect::<Vec<_>>(), ["exp_avg.0", "exp_avg_sq.0", "step.0"]);
    let mut second = AdamW::new(vec![p.tie()], 0.1);
    second.load_state_dict(&state).expect("fits");
    assert_eq!(run(&mut second, &p, 3..6), want, "bit for bit");
}

#[test]
fn state_that_does_not_fit_is_refused() {
    let message = |from: StateDict| -> String {
        let mut optimizer = AdamW::new(vec![param()], 0.1);
        let e: Error = optimizer.load_state_dict(&from).expect_err("refused");
        e.message().strip_prefix("AdamW: state and parameters differ: ").expect("its own words").to_owned()
    };
    let moment = |n: usize| torch::zeros(n).to(DType::F64);
    let state = |n: usize| {
        StateDict::from([
            ("step.0".to_owned(), torch::full((), 3)),
            ("exp_avg.0".to_owned(), moment(n)),
            ("exp_avg_sq.0".to_owned(), moment(n)),
        ])
    };
    assert_eq!(message(state(4)), "exp_avg.0: parameter [3], file [4]");
    let mut lacks = state(3);
    lacks.remove("exp_avg_sq.0");
    assert_eq!(message(lacks), "exp_avg_sq.0 is missing");
    let mut more = state(3);
    more.insert("step.1".to_owned(), torch::full((), 3));
    assert_eq!(message(more), "unexpected step.1");
}

/// PyTorch counts the steps of each parameter: one that had no gradient for a while does not fall behind in bias
/// correction.
#[test]
fn steps_are_counted_for_each_parameter() {
    let (always, sometimes) = (param(), param());
    let mut optimizer = AdamW::new(vec![always.tie(), sometimes.tie()], 0.1).weight_decay(0.0);
    let mut count = 0;
    for t in 0..6 {
        always.set_grad(Some(torch::from_slice(&gradient(t), 3)));
        sometimes.set_grad((t % 3 != 1).then(|| torch::from_slice(&gradient(count), 3)));
        count += usize::from(t % 3 != 1);
        optimizer.step().expect("steps");
        optimizer.zero_grad();
    }
    assert_close(&always.to_vec().expect("runs"), &adam(6, 0.1, (0.9, 0.999), 0.0, true));
    assert_close(&sometimes.to_vec().expect("runs"), &adam(4, 0.1, (0.9, 0.999), 0.0, true));
    let steps = [0, 1].map(|i| optimizer.state_dict()[&format!("step.{i}")].item::<i64>().expect("runs"));
    assert_eq!(steps, [6, 4]);
}

/// A learning rate is a number that the plan reads: it never makes a new plan.
#[test]
fn a_new_learning_rate_is_no_new_plan() {
    let p = param();
    let mut optimizer = AdamW::new(vec![p.tie()], 0.1);
    run(&mut optimizer, &p, 0..2);
    let plans = torch::no_new_plans(|| {
        optimizer.set_lr(0.05);
        run(&mut optimizer, &p, 2..5)
    });
    assert!(plans.is_ok(), "{plans:?}");
}
