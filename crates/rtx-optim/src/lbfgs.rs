//! L-BFGS: a quasi-Newton method that asks for the loss several times a step.
use rtx_core::{Error, Kind, Result};
use rtx_nn::{Param, StateDict};
use rtx_tensor::{DType, Tensor, cat, end_step, from_slice, no_grad, stack};
use std::collections::VecDeque;

/// L-BFGS with the two-loop recursion (Nocedal and Wright, Numerical Optimization, algorithms 7.4 and 3.5), step by step
/// as `torch.optim.LBFGS` does it. It works on all parameters as one vector, so there are no groups, and it wants the
/// loss as a function, which it calls up to `max_eval` times a step.
///
/// ```
/// use rtx_nn::Param;
/// use rtx_optim::LBFGS;
/// # fn main() -> rtx_core::Result<()> {
/// let w = Param::new(rtx_tensor::tensor!([-1.5, 2.0]));
/// let mut opt = LBFGS::new(vec![w.tie()], 1.0).strong_wolfe();
/// for _ in 0..5 {
///     opt.step(|| {
///         let (x, y) = (w.i(0), w.i(1)); // Rosenbrock's valley
///         (1.0 - &x).square() + 100.0 * (y - x.square()).square()
///     })?;
/// }
/// assert!(w.to_vec::<f32>()?.iter().all(|x| (x - 1.0).abs() < 1e-2));
/// # Ok(()) }
/// ```
///
/// ```
/// # use rtx_optim::{self as optim, Optimizer, Schedule, schedule};
/// # use rtx_nn::{self as nn, Layer, Module, functional as F};
/// # use rtx_tensor::{self as torch, tensor};
/// let w = nn::Param::new(torch::ones([2]));
/// let mut opt = optim::LBFGS::new(vec![w.tie()], 1.).max_iter(10).history_size(5).tolerance_grad(1e-7).tolerance_change(1e-9).max_eval(50).strong_wolfe();
/// let before = opt.step(|| (&w - tensor!([3., 4.])).square().sum(..))?; // the loss may be asked for many times
/// assert_eq!(before.item::<f32>()?, 13.);
/// assert!((w.to_vec::<f32>()?[1] - 4.).abs() < 1e-3);
/// opt.set_lr(opt.lr() / 2.);
/// opt.zero_grad();
/// let saved = opt.state_dict();
/// opt.load_state_dict(&saved)?;
/// assert_eq!(opt.params().len(), 1);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Debug)]
pub struct LBFGS {
    params: Vec<Param>,
    lr: f64,
    max_iter: usize,
    max_eval: Option<usize>,
    tolerance_grad: f64,
    tolerance_change: f64,
    history_size: usize,
    strong_wolfe: bool,
    maximize: bool,
    state: Memory,
}

/// What is remembered from one step to the next.
#[derive(Debug, Default)]
struct Memory {
    evaluations: i64,
    iterations: i64,
    /// The last direction, and how far it went.
    direction: Option<Tensor>,
    length: f64,
    /// Differences of gradients and of points, and 1 / their product; the oldest first.
    history: VecDeque<[Tensor; 3]>,
    /// What the inverse Hessian starts from.
    scale: Option<Tensor>,
    gradient: Option<Tensor>,
    loss: f64,
}

/// A loss and its gradient, all parameters in a row.
#[derive(Clone)]
struct Evaluation {
    loss: f64,
    gradient: Tensor,
}

impl LBFGS {
    /// Over these parameters; PyTorch's defaults: at most 20 iterations a step and 25 evaluations, a history of 100.
    pub fn new(params: Vec<Param>, lr: f64) -> Self {
        Self {
            params,
            lr,
            max_iter: 20,
            max_eval: None,
            tolerance_grad: 1e-7,
            tolerance_change: 1e-9,
            history_size: 100,
            strong_wolfe: false,
            maximize: false,
            state: Memory::default(),
        }
    }
    /// Iterations a step.
    #[must_use]
    pub fn max_iter(self, max_iter: usize) -> Self {
        Self { max_iter, ..self }
    }
    /// Evaluations a step; 1.25 times the iterations at first.
    #[must_use]
    pub fn max_eval(self, max_eval: usize) -> Self {
        Self { max_eval: Some(max_eval), ..self }
    }
    /// A step ends when no element of the gradient is larger.
    #[must_use]
    pub fn tolerance_grad(self, tolerance_grad: f64) -> Self {
        Self { tolerance_grad, ..self }
    }
    /// A step ends when the loss moves by less, or no parameter by more.
    #[must_use]
    pub fn tolerance_change(self, tolerance_change: f64) -> Self {
        Self { tolerance_change, ..self }
    }
    /// How many iterations are remembered.
    #[must_use]
    pub fn history_size(self, history_size: usize) -> Self {
        Self { history_size, ..self }
    }
    /// Looks for a length along each direction that meets the strong Wolfe conditions, in place of `lr`.
    #[must_use]
    pub fn strong_wolfe(self) -> Self {
        Self { strong_wolfe: true, ..self }
    }
    /// Goes up.
    #[must_use]
    pub fn maximize(self) -> Self {
        Self { maximize: true, ..self }
    }
    /// The learning rate.
    pub fn lr(&self) -> f64 {
        self.lr
    }
    /// Sets the learning rate.
    pub fn set_lr(&mut self, lr: f64) {
        self.lr = lr;
    }
    /// Its parameters.
    pub fn params(&self) -> Vec<Param> {
        self.params.iter().map(Param::tie).collect()
    }
    /// Forgets the gradients.
    pub fn zero_grad(&mut self) {
        self.params.iter().for_each(|p| p.set_grad(None));
    }

    /// A step: `loss` computes the loss from the parameters, as they are when it is called; gradients are forgotten
    /// before and taken after it. Gives the loss of the first call.
    ///
    /// # Errors
    /// When a plan cannot be made or a kernel fails.
    pub fn step(&mut self, mut loss: impl FnMut() -> Tensor) -> Result<Tensor> {
        let (first, mut now) = self.evaluate(&mut loss)?;
        self.state.evaluations += 1;
        if largest(&now.gradient)? > self.tolerance_grad {
            self.iterate(&mut loss, &mut now)?;
        }
        end_step()?;
        Ok(first)
    }

    fn iterate(&mut self, loss: &mut impl FnMut() -> Tensor, now: &mut Evaluation) -> Result<()> {
        let max_eval = self.max_eval.unwrap_or(self.max_iter * 5 / 4);
        let mut evaluations = 1;
        for iteration in 1..=self.max_iter {
            self.state.iterations += 1;
            let direction = no_grad(|| self.direction(&now.gradient))?;
            let before = now.loss;
            self.state.gradient = Some(now.gradient.alias());
            self.state.loss = before;
            let first = self.state.iterations == 1;
            let mut length = if first { self.lr * (1.0 / sum_of_sizes(&now.gradient)?).min(1.0) } else { self.lr };
            let slope = dot(&now.gradient, &direction)?;
            self.state.direction = Some(direction.alias());
            self.state.length = length;
            if slope > -self.tolerance_change {
                break;
            }
            let mut asked = 0;
            if self.strong_wolfe {
                let start = Point { at: 0.0, value: now.clone(), slope };
                let from = self.params.iter().map(|p| p.detach().clone()).collect::<Vec<_>>();
                let found = line_search(&direction, length, &start, |t| {
                    asked += 1;
                    self.go(&direction, t);
                    let (_, there) = self.evaluate(loss)?;
                    self.params.iter().zip(&from).for_each(|(p, old)| p.set_data(old));
                    Ok(there)
                })?;
                (*now, length) = (found.value, found.at);
                self.go(&direction, length);
            } else {
                self.go(&direction, length);
                if iteration != self.max_iter {
                    *now = self.evaluate(loss)?.1;
                    asked = 1;
                }
            }
            self.state.length = length;
            evaluations += asked;
            self.state.evaluations += asked as i64;
            let is_flat = largest(&now.gradient)? <= self.tolerance_grad;
            let stands = length.abs() * largest(&direction)? <= self.tolerance_change;
            let same = (now.loss - before).abs() < self.tolerance_change;
            if evaluations >= max_eval || is_flat || stands || same {
                break;
            }
        }
        Ok(())
    }

    /// The loss as it was given, and what is made smaller with its gradient.
    fn evaluate(&self, loss: &mut impl FnMut() -> Tensor) -> Result<(Tensor, Evaluation)> {
        self.params.iter().for_each(|p| p.set_grad(None));
        let given = loss();
        given.backward();
        let sign = if self.maximize { -1.0 } else { 1.0 };
        let gradient = no_grad(|| {
            let rows = self.params.iter().map(|p| match p.grad() {
                Some(g) => g.reshape(-1),
                None => p.new_zeros(p.numel()),
            });
            let all = cat(&rows.collect::<Vec<_>>(), 0);
            if self.maximize { -all } else { all }
        });
        let value: f64 = given.to(DType::F64).item()?;
        Ok((given.detach(), Evaluation { loss: sign * value, gradient }))
    }

    /// Where to go from a point with this gradient; remembers what the way there has shown.
    fn direction(&mut self, gradient: &Tensor) -> Result<Tensor> {
        let memory = &mut self.state;
        let (Some(before), Some(last)) = (&memory.gradient, &memory.direction) else {
            memory.history.clear();
            memory.scale = Some(gradient.new_ones(()));
            return Ok(-gradient);
        };
        let (y, s) = (gradient - before, last * memory.length);
        let product = y.dot(&s);
        if product.to(DType::F64).item::<f64>()? > 1e-10 {
            if memory.history.len() == self.history_size {
                memory.history.pop_front();
            }
            memory.scale = Some(&product / y.dot(&y));
            memory.history.push_back([y, s, 1.0 / product]);
        }
        let mut q = -gradient;
        let mut shares = Vec::with_capacity(memory.history.len());
        for [y, s, rho] in memory.history.iter().rev() {
            let share = s.dot(&q) * rho;
            q = &q - y * &share;
            shares.push(share);
        }
        let mut r = match &memory.scale {
            Some(scale) => q * scale,
            None => q,
        };
        for ([y, s, rho], share) in memory.history.iter().zip(shares.iter().rev()) {
            let back = y.dot(&r) * rho;
            r = &r + s * (share - back);
        }
        Ok(r)
    }

    /// Moves the parameters along a direction.
    fn go(&self, direction: &Tensor, length: f64) {
        no_grad(|| {
            let mut from = 0;
            for p in &self.params {
                let part = direction.narrow(0, from, p.numel()).reshape(p.shape());
                p.set_data(&(&**p + part * length));
                from += p.numel();
            }
        });
    }

    /// Everything that is remembered, under PyTorch's names; all of it belongs to the first parameter.
    pub fn state_dict(&self) -> StateDict {
        let mut all = StateDict::new();
        let memory = &self.state;
        let mut put = |name: &str, t: Tensor| drop(all.insert(format!("{name}.0"), t));
        put("func_evals", from_slice(&[memory.evaluations], ()));
        put("n_iter", from_slice(&[memory.iterations], ()));
        let tensors = [("d", &memory.direction), ("H_diag", &memory.scale), ("prev_flat_grad", &memory.gradient)];
        tensors.into_iter().for_each(|(name, t)| t.iter().for_each(|t| put(name, t.alias())));
        if memory.direction.is_some() {
            put("t", from_slice(&[memory.length], ()));
            put("prev_loss", from_slice(&[memory.loss], ()));
        }
        if !memory.history.is_empty() {
            for (i, name) in HISTORY.into_iter().enumerate() {
                put(name, stack(&memory.history.iter().map(|h| h[i].alias()).collect::<Vec<_>>(), 0));
            }
        }
        all
    }
    /// Takes the values of `from`.
    ///
    /// # Errors
    /// When names or shapes differ; then nothing is changed.
    pub fn load_state_dict(&mut self, from: &StateDict) -> Result<()> {
        let size: usize = self.params.iter().map(|p| p.numel()).sum();
        let differs = |what: String| Error::new(Kind::Format, format!("LBFGS: state and parameters differ: {what}"));
        let known = ["func_evals", "n_iter", "d", "H_diag", "prev_flat_grad", "t", "prev_loss"];
        let is_known = |name: &str| known.iter().chain(&HISTORY).any(|k| name.strip_suffix(".0") == Some(k));
        if let Some(name) = from.keys().find(|name| !is_known(name)) {
            return Err(differs(format!("unexpected {name}")));
        }
        let optional = |name: &str, shape: &[usize]| match from.get(&format!("{name}.0")) {
            Some(t) if t.shape() != shape => {
                Err(differs(format!("{name}: parameters {shape:?}, file {:?}", t.shape())))
            }
            found => Ok(found.cloned()),
        };
        let number = |name: &str| -> Result<f64> { optional(name, &[])?.map_or(Ok(0.0), |t| t.to(DType::F64).item()) };
        let count = from.get("old_dirs.0").map_or(0, |t| t.shape().first().copied().unwrap_or(0));
        let mut history = VecDeque::with_capacity(count);
        if count > 0 {
            let shapes = [vec![count, size], vec![count, size], vec![count]];
            let mut lists = Vec::with_capacity(3);
            for (name, shape) in HISTORY.into_iter().zip(&shapes) {
                lists.push(optional(name, shape)?.ok_or_else(|| differs(format!("{name} is missing")))?);
            }
            history.extend((0..count).map(|i| std::array::from_fn(|k| lists[k].select(0, i).clone())));
        }
        self.state = Memory {
            evaluations: number("func_evals")? as i64,
            iterations: number("n_iter")? as i64,
            direction: optional("d", &[size])?,
            length: number("t")?,
            history,
            scale: optional("H_diag", &[])?,
            gradient: optional("prev_flat_grad", &[size])?,
            loss: number("prev_loss")?,
        };
        Ok(())
    }
}

/// PyTorch's names of what [`Memory::history`] holds.
const HISTORY: [&str; 3] = ["old_dirs", "old_stps", "ro"];

fn number(t: Tensor) -> Result<f64> {
    t.to(DType::F64).item()
}
fn largest(t: &Tensor) -> Result<f64> {
    if t.numel() == 0 { Ok(0.0) } else { number(t.detach().abs().amax(..)) }
}
fn sum_of_sizes(t: &Tensor) -> Result<f64> {
    number(t.detach().abs().sum(..))
}
fn dot(a: &Tensor, b: &Tensor) -> Result<f64> {
    number(a.detach().dot(b.detach()))
}

/// A place along a direction: how far it is, what is there, and how the loss rises along the direction.
#[derive(Clone)]
struct Point {
    at: f64,
    value: Evaluation,
    slope: f64,
}
impl Point {
    fn loss(&self) -> f64 {
        self.value.loss
    }
}

/// Sufficient decrease and curvature of the strong Wolfe conditions.
const DECREASE: f64 = 1e-4;
const CURVATURE: f64 = 0.9;
/// Below this distance of two points the search ends, and after this many evaluations.
const NEAR: f64 = 1e-9;
const MOST: usize = 25;

/// A point that meets the strong Wolfe conditions: lengths grow until two of them bracket one, then the bracket shrinks
/// (Nocedal and Wright, algorithms 3.5 and 3.6).
fn line_search(
    direction: &Tensor,
    first: f64,
    start: &Point,
    mut evaluate: impl FnMut(f64) -> Result<Evaluation>,
) -> Result<Point> {
    let size = largest(direction)?;
    let mut at = |t: f64| -> Result<Point> {
        let value = evaluate(t)?;
        let slope = dot(&value.gradient, direction)?;
        Ok(Point { at: t, value, slope })
    };
    let falls = |p: &Point| p.loss() <= start.loss() + DECREASE * p.at * start.slope;
    let is_flat = |p: &Point| p.slope.abs() <= -CURVATURE * start.slope;
    let (mut before, mut now) = (start.clone(), at(first)?);
    let mut searched = 0;
    let mut bracket = loop {
        if searched == MOST {
            break [start.clone(), now];
        }
        if !falls(&now) || searched > 1 && now.loss() >= before.loss() {
            break [before, now];
        }
        if is_flat(&now) {
            return Ok(now);
        }
        if now.slope >= 0.0 {
            break [before, now];
        }
        let bounds = (now.at + 0.01 * (now.at - before.at), now.at * 10.0);
        let next = at(cubic_minimum(&before, &now, bounds))?;
        before = std::mem::replace(&mut now, next);
        searched += 1;
    };
    let mut stuck = false;
    let mut low = usize::from(bracket[0].loss() > bracket[1].loss());
    while searched < MOST && (bracket[1].at - bracket[0].at).abs() * size >= NEAR {
        let (least, most) = (bracket[0].at.min(bracket[1].at), bracket[0].at.max(bracket[1].at));
        let mut t = cubic_minimum(&bracket[0], &bracket[1], (least, most));
        // Near a border it must move away from it, at the second time or when it lies on it.
        let margin = 0.1 * (most - least);
        let is_near = (most - t).min(t - least) < margin;
        if is_near && (stuck || t >= most || t <= least) {
            t = if (t - most).abs() < (t - least).abs() { most - margin } else { least + margin };
            stuck = false;
        } else {
            stuck = is_near;
        }
        let new = at(t)?;
        searched += 1;
        if !falls(&new) || new.loss() >= bracket[low].loss() {
            bracket[1 - low] = new;
            low = usize::from(bracket[0].loss() > bracket[1].loss());
            continue;
        }
        let done = is_flat(&new);
        if !done && new.slope * (bracket[1 - low].at - bracket[low].at) >= 0.0 {
            bracket[1 - low] = bracket[low].clone();
        }
        bracket[low] = new;
        if done {
            break;
        }
    }
    let [a, b] = bracket;
    Ok(if low == 0 { a } else { b })
}

/// Where the cubic through two points with their slopes is least, within bounds; the middle where it has no minimum.
fn cubic_minimum(a: &Point, b: &Point, (least, most): (f64, f64)) -> f64 {
    let d1 = a.slope + b.slope - 3.0 * (a.loss() - b.loss()) / (a.at - b.at);
    let square = d1 * d1 - a.slope * b.slope;
    if square.is_nan() || square < 0.0 {
        return (least + most) / 2.0;
    }
    let d2 = square.sqrt();
    let at = if a.at <= b.at {
        b.at - (b.at - a.at) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2))
    } else {
        a.at - (a.at - b.at) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2.0 * d2))
    };
    at.max(least).min(most)
}
