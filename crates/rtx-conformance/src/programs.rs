//! Random user programs: tensors made, combined, viewed, written in place, dropped, differentiated, transformed, and any
//! op of the table. A program is a function of its seed and of shapes alone, never of values, so every way of running it
//! makes the same calls. Each call draws from a generator of its own, so that one may be left out.
use rtx_ir::{Arg, Body, Builder, Graph, Op, OpDef, Sample, ValueId};
use rtx_testkit::{Drawn, Random};
use rustytorch::{self as torch, autograd, func, prelude::*};
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Sizes that dims are drawn from: empty, one, primes, a power of two, more than a vector.
const SIZES: [usize; 8] = [1, 2, 3, 5, 7, 16, 17, 33];
/// Live tensors at most.
const POOL: usize = 10;
/// Elements of a tensor at most.
const MAX_ELEMENTS: usize = 20_000;
/// What the other calls take.
const USED: [torch::DType; 7] = [Bool, U8, I64, F16, BF16, F32, F64];
/// Elements of a sample's tensors at most.
const SAMPLE_ELEMENTS: usize = 2_000;

/// Which calls a program makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// What everything is drawn from.
    pub seed: u64,
    /// The numbers of its calls.
    pub calls: Vec<u32>,
}

impl Program {
    /// The program of a seed, whole.
    pub fn new(seed: u64, calls: u32) -> Self {
        Self { seed, calls: (0..calls).collect() }
    }

    /// Runs it, and returns the bytes of everything that it still holds at its end, and of every value that it read on
    /// the way. All NaNs are one.
    ///
    /// # Errors
    /// What a read returns: a correct program has none.
    pub fn run(&self) -> Result<Vec<Vec<u8>>> {
        self.trace().map(|run| run.seen)
    }

    /// What it does, a line a call.
    pub fn describe(&self) -> String {
        match self.trace() {
            Ok(run) => run.said.join("\n"),
            Err(e) => format!("it fails: {e}"),
        }
    }

    /// The smallest program found, by leaving calls out, that still fails.
    pub fn shrink(&self, fails: impl Fn(&Program) -> bool) -> Program {
        let mut small = self.clone();
        let mut at = small.calls.len();
        while at > 0 {
            at -= 1;
            let mut less = small.clone();
            less.calls.remove(at);
            if fails(&less) {
                small = less;
                at = at.min(small.calls.len());
            }
        }
        small
    }

    fn trace(&self) -> Result<Run> {
        // Finding out what is usable runs samples, which draw random bits: not within the program.
        usable();
        // The usual stream is the whole process's; programs run side by side.
        torch::with_generator(&torch::Generator::new(self.seed), || self.trace_here())
    }

    fn trace_here(&self) -> Result<Run> {
        let mut run = Run { random: Random::new(self.seed), pool: Vec::new(), seen: Vec::new(), said: Vec::new() };
        for _ in 0..3 {
            run.create();
        }
        for &call in &self.calls {
            run.random = Random::new(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ u64::from(call + 1));
            run.call()?;
        }
        let held = std::mem::take(&mut run.pool);
        for t in &held {
            run.see(t)?;
        }
        Ok(run)
    }
}

/// A definition with those of its samples that run alone on this device.
#[expect(missing_debug_implementations)]
pub struct Usable {
    /// The definition.
    pub def: &'static OpDef,
    /// Never empty.
    pub samples: Vec<&'static Sample>,
}

/// What programs call by definition.
#[expect(missing_debug_implementations)]
pub struct Table {
    /// Primitives.
    pub primitives: Vec<Usable>,
    /// Composites.
    pub composites: Vec<Usable>,
}

/// The definitions that run on this device, found once by running each of their samples alone.
pub fn usable() -> &'static Table {
    static USABLE: OnceLock<Table> = OnceLock::new();
    let samples = |def: &'static OpDef| def.samples.iter().filter(|s| runs_alone(def, s).is_some()).collect();
    let usable = |table: &[&'static OpDef]| {
        let all = table.iter().map(|&def| Usable { def, samples: samples(def) });
        all.filter(|u| !u.samples.is_empty()).collect()
    };
    USABLE.get_or_init(|| Table { primitives: usable(rtx_ir::prims::ALL), composites: usable(rtx_ops::ALL) })
}

fn runs_alone(def: &'static OpDef, sample: &Sample) -> Option<()> {
    let drawn = rtx_testkit::draw(def.sig, sample.args, &mut Random::new(1)).ok()?;
    let elements: usize = drawn.iter().flat_map(Drawn::tensors).map(|t| t.elements.len()).sum();
    if elements > SAMPLE_ELEMENTS {
        return None;
    }
    let (args, _) = arguments(&drawn)?;
    let outs = torch::call_definition(def, &args).ok()?;
    let fits = |t: &Tensor| t.numel() <= MAX_ELEMENTS && t.read_bytes().is_ok();
    (!outs.is_empty() && outs.iter().all(fits)).then_some(())
}

/// Drawn arguments as a call takes them, and the tensors among them that can have gradients.
fn arguments(drawn: &[Drawn]) -> Option<(Vec<torch::Argument>, Vec<Tensor>)> {
    let mut floats = Vec::new();
    let mut tensor = |t: &rtx_ir::oracle::Tensor| -> Option<Tensor> {
        let sizes = t.ty.shape.sizes();
        let made = torch::from_bytes(t.ty.dtype, &sizes[..], &t.to_bytes()).ok()?;
        let made = if made.dtype().is_float() { made.requires_grad_() } else { made };
        if made.requires_grad() {
            floats.push(made.alias());
        }
        Some(made)
    };
    let mut args = Vec::new();
    for d in drawn {
        args.push(match d {
            Drawn::Tensor(t) => torch::Argument::Tensor(tensor(t)?),
            Drawn::Tensors(list) => torch::Argument::Tensors(list.iter().map(&mut tensor).collect::<Option<_>>()?),
            Drawn::Plain(Arg::Scalar(s)) => torch::Argument::Scalar(*s),
            Drawn::Plain(Arg::Bool(x)) => torch::Argument::Scalar((*x).into()),
            Drawn::Plain(Arg::Ints(v)) => torch::Argument::Ints(v.to_vec()),
            Drawn::Plain(Arg::DType(d)) => torch::Argument::DType(*d),
            Drawn::Plain(Arg::Str(s)) => torch::Argument::Str(s),
            Drawn::Plain(Arg::None) => torch::Argument::None,
            Drawn::Plain(_) => return None,
        });
    }
    Some((args, floats))
}

/// How often each primitive has run while it was counted, on any thread.
static COUNTS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Counts the primitives that this thread runs from now on: of every region those that its results need, composites
/// opened.
pub fn count_primitives(on: bool) {
    rtx_runtime::set_observer(on.then_some(count_region as fn(&Graph, &[ValueId])));
}

/// How often each primitive has run while it was counted.
pub fn primitive_counts() -> BTreeMap<&'static str, u64> {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn count_region(graph: &Graph, wanted: &[ValueId]) {
    count_graph(graph, wanted, &mut COUNTS.lock().unwrap_or_else(PoisonError::into_inner));
}

fn count_graph(graph: &Graph, wanted: &[ValueId], counts: &mut BTreeMap<&'static str, u64>) {
    let mut needed = vec![false; graph.nodes().len()];
    wanted.iter().for_each(|&v| needed[graph.value(v).node.index()] = true);
    for (id, node) in graph.iter().rev().collect::<Vec<_>>() {
        if !needed[id.index()] {
            continue;
        }
        node.inputs.iter().for_each(|&v| needed[graph.value(v).node.index()] = true);
        match &node.op {
            Op::Input | Op::Ghost => {}
            Op::Prim(_) => *counts.entry(node.op.def().map_or("", OpDef::name)).or_default() += 1,
            Op::Composite(def, attrs) => {
                let Body::Composite(body) = def.body else { continue };
                let mut inner = Graph::new();
                let inputs: Vec<ValueId> =
                    node.inputs.iter().map(|&v| inner.push_input(graph.ty(v).clone(), node.location)).collect();
                let outs = body(&mut Builder::new(&mut inner, node.location), attrs, &inputs);
                outs.iter().for_each(|outs| count_graph(&inner, outs, counts));
            }
        }
    }
}

type Call = fn(&mut Run) -> Result<()>;
/// A call that nothing refuses.
macro_rules! always {
    ($call:ident) => {
        |r| {
            r.$call();
            Ok(())
        }
    };
}
/// Every kind of call: its name, how often it is drawn, what it does.
const CALLS: &[(&str, usize, Call)] = &[
    ("create", 1, always!(create)),
    ("pointwise", 2, always!(pointwise)),
    ("binary", 2, always!(binary)),
    ("number", 1, always!(number)),
    ("reduction", 1, always!(reduction)),
    ("rows", 1, always!(rows)),
    ("product", 1, always!(product)),
    ("view", 2, always!(view)),
    ("write", 2, always!(write)),
    ("move", 1, always!(move_elements)),
    ("gradient", 1, |r| r.gradient()),
    ("transform", 1, always!(transform)),
    ("primitive", 6, |r| r.of_table(&usable().primitives)),
    ("composite", 1, |r| r.of_table(&usable().composites)),
    ("drop or read", 2, |r| r.drop_or_read()),
];

/// A program that is running.
struct Run {
    random: Random,
    pool: Vec<Tensor>,
    seen: Vec<Vec<u8>>,
    said: Vec<String>,
}

impl Run {
    /// A number in -2..2 that is no round one.
    fn user_number(&mut self) -> f64 {
        self.random.float(-2.0, 2.0)
    }

    /// Reads a tensor, with every NaN the same.
    fn see(&mut self, t: &Tensor) -> Result<()> {
        let t = t.detach();
        // What is only stored has the bits that it got.
        let computed = t.dtype().is_float() && USED.contains(&t.dtype());
        let t = if computed { t.isnan().if_else(torch::full_like(&t, f64::NAN), &t) } else { t };
        self.seen.push(t.read_bytes()?);
        Ok(())
    }

    fn say(&mut self, what: impl std::fmt::Display) {
        self.said.push(what.to_string());
    }

    fn shape(&mut self) -> Vec<usize> {
        if self.random.one_in(20) {
            return vec![4099 + self.random.below(3)];
        }
        let rank = self.random.below(4);
        let mut shape: Vec<usize> = (0..rank).map(|_| *self.random.pick(&SIZES)).collect();
        if rank > 0 && self.random.one_in(25) {
            let at = self.random.below(rank);
            shape[at] = 0;
        }
        shape
    }

    fn keep(&mut self, t: Tensor) {
        if t.numel() > MAX_ELEMENTS || !USED.contains(&t.dtype()) {
            return;
        }
        if self.pool.len() >= POOL {
            let at = self.random.below(self.pool.len());
            self.pool.swap_remove(at);
        }
        self.pool.push(t);
    }

    fn create(&mut self) {
        let shape = self.shape();
        let shape = shape.as_slice();
        let t = match self.random.below(8) {
            0 => torch::zeros(shape),
            5 => torch::randn(shape).to(BF16),
            1 => torch::rand(shape),
            2 => torch::randn(shape).to(F64),
            3 => torch::full(shape, self.user_number()),
            4 => torch::arange(0..shape.iter().product::<usize>() as i64).reshape(shape),
            _ => torch::randn(shape),
        };
        self.keep(t);
    }

    fn any(&mut self) -> Tensor {
        let at = self.random.below(self.pool.len());
        self.pool[at].alias()
    }

    fn float(&mut self) -> Tensor {
        let t = self.any();
        if t.dtype().is_float() { t } else { t.to(F32) }
    }

    /// A float tensor that broadcasts with `x` to `x`'s shape.
    fn partner(&mut self, x: &Tensor) -> Tensor {
        let same: Vec<usize> = (0..self.pool.len())
            .filter(|&i| self.pool[i].shape() == x.shape() && self.pool[i].dtype().is_float())
            .collect();
        if !same.is_empty() && !self.random.one_in(3) {
            return self.pool[*self.random.pick(&same)].to(x.dtype());
        }
        let lead = self.random.below(x.rank() + 1);
        let shape: Vec<usize> = x.shape()[lead..].iter().map(|&n| if self.random.one_in(3) { 1 } else { n }).collect();
        torch::randn(shape.as_slice()).to(x.dtype())
    }

    fn call(&mut self) -> Result<()> {
        let before = self.seen.len();
        let mut at = self.random.below(CALLS.iter().map(|c| c.1).sum());
        let Some(&(name, _, call)) = CALLS.iter().find(|c| {
            at < c.1 || {
                at -= c.1;
                false
            }
        }) else {
            return Ok(());
        };
        call(self)?;
        let held = self.pool.last().map(|t| format!("{t:?}")).unwrap_or_default();
        let read = self.seen.len() - before;
        self.say(format_args!("{name}: the last of {} is {held}, {read} read", self.pool.len()));
        Ok(())
    }

    /// A definition, each as likely as the others, on the arguments of one of its samples, drawn anew.
    fn of_table(&mut self, table: &[Usable]) -> Result<()> {
        let &Usable { def, ref samples } = self.random.pick(table);
        let sample = *self.random.pick(samples);
        let drawn = rtx_testkit::draw(def.sig, sample.args, &mut self.random);
        let Some((args, floats)) = drawn.ok().and_then(|d| arguments(&d)) else { return Ok(()) };
        self.say(format_args!("{}({})", def.name(), sample.args));
        let outs = torch::call_definition(def, &args)?;
        let own = outs.iter().filter(|t| t.requires_grad()).map(|t| t.to(F64).sum(..)).reduce(|a, b| a + b);
        if let Some(sum) = own.filter(|_| sample.grad && self.random.one_in(3)) {
            let wrt: Vec<&Tensor> = floats.iter().collect();
            let twice = self.random.one_in(2);
            let grad = torch::Grad::of(&sum);
            let found = if twice { grad.create_graph() } else { grad }.find(&wrt)?;
            let found: Vec<Tensor> = found.into_iter().flatten().collect();
            let again = found.iter().filter(|t| t.requires_grad()).map(|t| t.to(F64).pow(2).sum(..));
            if let Some(again) = again.reduce(|a, b| a + b) {
                torch::Grad::of(&again).find(&wrt)?.into_iter().flatten().for_each(|g| self.keep(g));
            }
            found.into_iter().for_each(|g| self.keep(g.detach()));
        }
        for t in outs {
            // What the other calls do not take is read here, or nothing would.
            if USED.contains(&t.dtype()) { self.keep(t.detach()) } else { self.see(&t)? }
        }
        Ok(())
    }

    /// A transformation, or a checkpoint with random bits inside.
    fn transform(&mut self) {
        let x = self.float().detach();
        if x.rank() == 0 || x.numel() == 0 || x.numel() > 2_000 {
            return;
        }
        let w = torch::randn([x.size(-1), 3]).to(x.dtype());
        let f = |x: &Tensor| x.matmul(&w).tanh().softmax(-1);
        let y = match self.random.below(4) {
            0 if x.rank() > 1 => func::vmap(f)(&x),
            1 if x.rank() > 1 => func::vmap(func::grad(|x| f(x).amax(-1).sum(..)))(&x),
            2 => func::jvp(f, &x, &torch::ones_like(&x)).1,
            _ => {
                let x = x.clone().requires_grad_();
                let y = autograd::checkpoint(|| F::dropout(&f(&x), 0.3) * x.sum(keep(-1)));
                y.pow(2).sum(..).backward();
                self.pool.extend(x.grad());
                y.detach()
            }
        };
        self.keep(y);
    }

    fn pointwise(&mut self) {
        let x = self.float();
        let y = match self.random.below(15) {
            0 => -&x,
            1 => x.abs(),
            2 => x.tanh().exp(),
            3 => x.abs().sqrt(),
            4 => F::relu(&x),
            5 => F::gelu(&x),
            6 => x.sigmoid(),
            7 => x.sin() + x.cos(),
            8 => (x.abs() + 1).log(),
            9 => x.to(*self.random.pick(&[F64, BF16, F16])),
            10 => x.to(F32),
            11 => x.gt(0).if_else(&x, 0),
            12 => x.clone(),
            // Rounds on the way.
            13 => (x.to(F64) * 1.1).to(F32).to(F64),
            _ => x.erf(),
        };
        self.keep(y);
    }

    fn binary(&mut self) {
        let x = self.float();
        let y = self.partner(&x);
        let z = match self.random.below(7) {
            0 => &x + &y,
            1 => &x - &y,
            2 => &x * &y,
            3 => &x / (y.abs() + 1),
            4 => x.maximum(&y),
            5 => x.minimum(&y),
            _ => &y * &x + &x,
        };
        self.keep(z);
    }

    fn number(&mut self) {
        let x = self.float();
        let c = self.user_number();
        let y = match self.random.below(4) {
            0 => &x * c,
            1 => &x + c,
            2 => c - &x,
            _ => x.clamp(-1, 1) * c,
        };
        self.keep(y);
    }

    fn reduction(&mut self) {
        let x = self.float();
        if x.rank() == 0 || x.numel() == 0 {
            return;
        }
        let dim = self.random.below(x.rank()) as i64;
        let y = match self.random.below(7) {
            0 => x.sum(dim),
            1 => x.mean(keep(dim)),
            2 => x.amax(dim),
            3 => x.amin(keep(dim)),
            4 => x.sum(..),
            5 => x.argmax(dim),
            _ => x.var(dim),
        };
        self.keep(y);
    }

    fn rows(&mut self) {
        let x = self.float();
        if x.rank() == 0 || x.numel() == 0 {
            return;
        }
        let last = x.size(-1);
        let y = match self.random.below(4) {
            0 => x.softmax(-1),
            1 => x.log_softmax(self.random.below(x.rank()) as i64),
            2 => F::layer_norm(&x, last, None, None, 1e-5),
            _ => &x - x.logsumexp(keep(-1)),
        };
        self.keep(y);
    }

    fn product(&mut self) {
        let x = self.float();
        if x.rank() < 1 {
            return;
        }
        let k = x.size(-1);
        let n = *self.random.pick(&SIZES);
        let y = match self.random.below(3) {
            0 => x.matmul(torch::randn([k, n]).to(x.dtype())),
            1 => F::linear(&x, &torch::randn([n, k]).to(x.dtype()), None),
            _ if x.rank() >= 2 => x.matmul(x.transpose(-1, -2)),
            _ => x.matmul(&x),
        };
        self.keep(y);
    }

    fn view(&mut self) {
        let x = self.any();
        if x.rank() == 0 {
            let y = x.unsqueeze(0);
            return self.keep(y);
        }
        let dim = self.random.below(x.rank());
        let n = x.size(dim);
        let y = match self.random.below(6) {
            0 => x.transpose(dim, self.random.below(x.rank())),
            1 => x.reshape(-1),
            2 if n > 0 => x.select(dim, self.random.below(n)),
            3 if n > 1 => {
                let start = self.random.below(n - 1);
                x.narrow(dim, start, 1 + self.random.below(n - start))
            }
            4 => x.unsqueeze(dim),
            _ => x.i((Ellipsis, step(.., 2))),
        };
        self.keep(y);
    }

    /// In place: whole tensors and through views.
    fn write(&mut self) {
        let x = self.any();
        if x.requires_grad() || !x.dtype().is_float() {
            return;
        }
        match self.random.below(5) {
            0 => drop(x.mul_(self.user_number()).alias()),
            1 => drop(x.fill_(self.user_number()).alias()),
            2 => {
                let y = self.partner(&x);
                drop(x.add_(&y).alias());
            }
            3 if x.rank() > 0 && x.size(0) > 0 => x.set(self.random.below(x.size(0)), self.user_number()),
            _ if x.rank() > 0 && x.size(-1) > 1 => x.set((Ellipsis, 1..), self.user_number()),
            _ => {}
        }
    }

    fn move_elements(&mut self) {
        let x = self.any();
        if x.rank() == 0 {
            return;
        }
        let n = x.size(0);
        let y = match self.random.below(4) {
            0 => torch::cat(&[&x, &x], 0),
            1 => torch::stack(&[&x, &x], -1),
            2 if n > 0 => x.index_select(0, (torch::arange(0..5) * 3).remainder(n)),
            _ if x.dtype().is_float() => F::dropout(&x, 0.3),
            _ => x.alias(),
        };
        self.keep(y);
    }

    /// First or second order, of a small network on what there is.
    fn gradient(&mut self) -> Result<()> {
        let x = self.float();
        if x.rank() == 0 || x.numel() == 0 || x.numel() > 2_000 {
            return Ok(());
        }
        let x = x.detach().clone().requires_grad_();
        let w = torch::randn([x.size(-1), 4]).to(x.dtype()).requires_grad_();
        let h = x.matmul(&w).tanh();
        let y = match self.random.below(3) {
            0 => h.softmax(-1).log().mean(..),
            1 => F::gelu(&h).pow(2).sum(..),
            _ => (h.sigmoid() * 2).amax(-1).sum(..),
        };
        if self.random.one_in(2) {
            y.backward();
            for g in [x.grad(), w.grad()].into_iter().flatten() {
                self.keep(g);
            }
        } else {
            let [g] = torch::Grad::of(&y).create_graph().wrt([&x]);
            g.pow(2).sum(..).backward();
            if self.random.one_in(2) {
                self.see(&y)?;
            }
            self.pool.extend(w.grad());
        }
        Ok(())
    }

    fn drop_or_read(&mut self) -> Result<()> {
        let at = self.random.below(self.pool.len());
        if self.random.one_in(2) && self.pool.len() > 2 {
            self.pool.swap_remove(at);
            return Ok(());
        }
        let t = self.pool[at].alias();
        self.see(&t)
    }
}
