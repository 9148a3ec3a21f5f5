//! Random user programs: tensors made, combined, viewed, written in place, dropped, differentiated. A program is a
//! function of its seed and of shapes alone, never of values, so every way of running it makes the same calls.
use rtx_testkit::Random;
use rustytorch::{self as torch, prelude::*};

/// Sizes that dims are drawn from: empty, one, primes, a power of two, more than a vector.
const SIZES: [usize; 8] = [1, 2, 3, 5, 7, 16, 17, 33];
/// Live tensors at most.
const POOL: usize = 10;
/// Elements of a tensor at most.
const MAX_ELEMENTS: usize = 20_000;

/// Runs program `seed` and returns the bytes of everything it still holds at its end, and of every value that it
/// read on the way.
///
/// # Errors
/// What a read returns: a correct program has none.
pub fn run(seed: u64, calls: usize) -> Result<Vec<Vec<u8>>> {
    torch::manual_seed(seed);
    let mut p = Program { random: Random::new(seed), pool: Vec::new(), seen: Vec::new() };
    for _ in 0..3 {
        p.create();
    }
    for _ in 0..calls {
        p.call()?;
    }
    let held = std::mem::take(&mut p.pool);
    for t in &held {
        p.see(t)?;
    }
    Ok(p.seen)
}

struct Program {
    random: Random,
    pool: Vec<Tensor>,
    seen: Vec<Vec<u8>>,
}

impl Program {
    /// A number in -2..2 that is no round one.
    fn user_number(&mut self) -> f64 {
        self.random.float(-2.0, 2.0)
    }

    fn see(&mut self, t: &Tensor) -> Result<()> {
        let bytes = match t.dtype() {
            F64 => t.to_vec::<f64>()?.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect(),
            F32 => t.to_vec::<f32>()?.iter().flat_map(|x| x.to_bits().to_le_bytes()).collect(),
            I64 => t.to_vec::<i64>()?.iter().flat_map(|x| x.to_le_bytes()).collect(),
            _ => t.to_vec::<bool>()?.iter().map(|&x| x as u8).collect(),
        };
        self.seen.push(bytes);
        Ok(())
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
        if t.numel() > MAX_ELEMENTS {
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
        let t = match self.random.below(7) {
            0 => torch::zeros(shape),
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
        match self.random.below(16) {
            0 => self.create(),
            1 | 2 => self.pointwise(),
            3 | 4 => self.binary(),
            5 => self.number(),
            6 => self.reduction(),
            7 => self.rows(),
            8 => self.product(),
            9 | 10 => self.view(),
            11 | 12 => self.write(),
            13 => self.move_elements(),
            14 => self.gradient()?,
            _ => self.drop_or_read()?,
        }
        Ok(())
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
            9 => x.to(F64),
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
