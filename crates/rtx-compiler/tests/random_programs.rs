//! Random programs: fused, unfused and the oracle agree bit by bit; nothing is read that is not written, nothing
//! overwritten that is still read.
mod executor;

use executor::{Case, run};
use rtx_compiler::Fusion;
use rtx_core::{Arith, Comparison, DType, Extremum, Fold, Function, Layout, Shape};
use rtx_ir::oracle::{Tensor, eval};
use rtx_ir::{Prim, ValueId};
use smallvec::SmallVec;

struct Random(u64);
impl Random {
    fn next(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.next(list.len())]
    }
}

struct Program {
    case: Case,
    random: Random,
    values: Vec<ValueId>,
}

impl Program {
    fn ty(&self, v: ValueId) -> (DType, Vec<usize>) {
        let ty = self.case.graph.ty(v);
        (ty.dtype, ty.shape.sizes().to_vec())
    }
    fn any(&mut self, fits: impl Fn(&(DType, Vec<usize>)) -> bool) -> Option<ValueId> {
        let found: Vec<ValueId> = self.values.iter().copied().filter(|&v| fits(&self.ty(v))).collect();
        // Prefer recent values, so that chains grow.
        (!found.is_empty()).then(|| {
            let n = found.len();
            let back = self.random.next(n).min(self.random.next(n));
            found[n - 1 - back]
        })
    }
    fn input(&mut self) {
        let rank = self.random.next(4);
        let shape: Vec<usize> = (0..rank).map(|_| self.random.pick(&[1, 2, 3, 4, 5, 6, 2, 3, 0])).collect();
        let n: usize = shape.iter().product();
        let seed = self.random.next(1000) as u64;
        let t = if self.random.next(4) == 0 {
            Tensor::ints(DType::I64, shape.as_slice(), (0..n as u64).map(|i| executor::draw(seed + i) as i64))
        } else {
            Tensor::floats(DType::F32, shape.as_slice(), (0..n as u64).map(|i| executor::draw(seed + i)))
        };
        let mut layout = Layout::contiguous(&shape);
        if self.random.next(4) == 0 && rank > 1 {
            // Column-major, or with a gap.
            let mut step = 1;
            for (s, &n) in layout.strides.iter_mut().zip(&shape) {
                *s = step;
                step *= n.max(1) as isize;
            }
        }
        let dense = layout.is_contiguous(&shape);
        let v = self.case.strided(t, layout);
        let donated = dense && self.random.next(2) == 0;
        self.case.facts.last_mut().expect("just added").donated = donated;
        self.values.push(v);
    }

    fn op(&mut self) -> Option<ValueId> {
        match self.random.next(17) {
            0..=2 => self.unary(),
            3..=5 => self.binary(),
            6 => self.reduce(),
            7 => self.reshape(),
            8 => self.permute(),
            9 => self.expand(),
            10 => self.slice(),
            11 => self.assemble(),
            12 => self.gather(),
            13 => self.select(),
            14 => self.source(),
            15 => self.statistics(),
            _ => self.contract(),
        }
    }

    fn unary(&mut self) -> Option<ValueId> {
        let x = self.any(|t| t.0 != DType::Bool)?;
        let p = if self.ty(x).0 == DType::F32 {
            let f = [Function::Neg, Function::Exp, Function::Tanh, Function::Abs, Function::Sqrt, Function::Floor];
            match self.random.next(8) {
                0 => Prim::Cast(DType::I64),
                1 => Prim::Cast(DType::F64),
                _ => Prim::Unary(self.random.pick(&f)),
            }
        } else if self.ty(x).0 == DType::F64 {
            Prim::Cast(DType::F32)
        } else {
            if self.random.next(2) == 0 { Prim::Cast(DType::F32) } else { Prim::Unary(Function::Neg) }
        };
        self.case.b().prim(p, &[x]).ok()
    }
    fn binary(&mut self) -> Option<ValueId> {
        let x = self.any(|t| t.0 != DType::Bool)?;
        let (dtype, shape) = self.ty(x);
        let y = self.any(|t| t.0 == dtype && broadcasts(&t.1, &shape))?;
        let f = self.random.pick(&[Arith::Add, Arith::Sub, Arith::Mul, Arith::Max, Arith::Min, Arith::Div]);
        self.case.b().binary(f, x, y).ok()
    }
    fn reduce(&mut self) -> Option<ValueId> {
        let x = self.any(|t| t.0 != DType::Bool && !t.1.is_empty())?;
        let (dtype, shape) = self.ty(x);
        let axes: Vec<usize> = (0..shape.len()).filter(|_| self.random.next(2) == 0).collect();
        if self.random.next(6) == 0 {
            let axis = self.random.next(shape.len());
            if shape[axis] > 0 {
                let extremum = self.random.pick(&[Extremum::Max, Extremum::Min]);
                return self.case.b().prim(Prim::ArgReduce { extremum, axis }, &[x]).ok();
            }
        }
        let folds =
            if dtype == DType::F32 { vec![Fold::Sum, Fold::Max, Fold::Min] } else { vec![Fold::Sum, Fold::Max] };
        let fold = self.random.pick(&folds);
        self.case.b().reduce(fold, x, &axes).ok()
    }
    /// `x - fold(x)` along some axes: what fuses into rows.
    fn statistics(&mut self) -> Option<ValueId> {
        let x = self.any(|t| t.0 == DType::F32 && !t.1.is_empty())?;
        let rank = self.ty(x).1.len();
        let first = self.random.next(rank);
        let axes: Vec<usize> = (first..rank).collect();
        let fold = self.random.pick(&[Fold::Sum, Fold::Max]);
        let mut b = self.case.b();
        let s = b.reduce_keep(fold, x, &axes).ok()?;
        let s = if first.is_multiple_of(2) { b.mul(s, 0.5).ok()? } else { b.tanh(s).ok()? };
        b.sub(x, s).ok()
    }
    fn reshape(&mut self) -> Option<ValueId> {
        let x = self.any(|_| true)?;
        let (_, shape) = self.ty(x);
        let n: usize = shape.iter().product();
        let mut to: Vec<usize> = vec![];
        let mut rest = n;
        if n == 0 {
            to = vec![0, self.random.next(3)];
        } else {
            for d in [2, 3, 4, 5, 6] {
                if rest.is_multiple_of(d) && self.random.next(2) == 0 {
                    to.push(d);
                    rest /= d;
                }
            }
            if rest > 1 || self.random.next(3) == 0 {
                let at = self.random.next(to.len() + 1);
                to.insert(at, rest);
            }
        }
        self.case.b().reshape(x, &Shape::of(&to)).ok()
    }
    fn permute(&mut self) -> Option<ValueId> {
        let x = self.any(|t| t.1.len() > 1)?;
        let rank = self.ty(x).1.len();
        let mut order: Vec<usize> = (0..rank).collect();
        (0..rank).for_each(|i| order.swap(i, self.random.next(rank)));
        self.case.b().permute(x, &order).ok()
    }
    fn expand(&mut self) -> Option<ValueId> {
        let x = self.any(|t| t.1.len() < 3 && t.1.iter().product::<usize>() < 20)?;
        let mut shape = self.ty(x).1;
        shape.iter_mut().filter(|n| **n == 1).for_each(|n| *n = 3);
        shape.insert(0, self.random.pick(&[1, 2, 3]));
        self.case.b().expand(x, &Shape::of(&shape)).ok()
    }
    fn start(&mut self) -> ValueId {
        let n = self.random.next(8) as i64 - 2;
        if self.random.next(2) == 0 {
            self.case.b().constant(DType::I64, n).expect("a constant")
        } else {
            self.case.b().param(DType::I64, n.into()).expect("a number")
        }
    }
    fn slice(&mut self) -> Option<ValueId> {
        let x = self.any(|t| !t.1.is_empty())?;
        let shape = self.ty(x).1;
        let axis = self.random.next(shape.len());
        let step = self.random.pick(&[1i64, 1, 2, -1, -2]);
        let most = shape[axis].div_ceil(step.unsigned_abs() as usize);
        let len = if most == 0 { 0 } else { 1 + self.random.next(most) };
        let start = self.start();
        self.case.b().slice_at(x, axis, start, len, step).ok()
    }
    fn assemble(&mut self) -> Option<ValueId> {
        let x = self.any(|t| !t.1.is_empty())?;
        let (dtype, shape) = self.ty(x);
        let axis = self.random.next(shape.len());
        let alike = |t: &(DType, Vec<usize>)| {
            t.0 == dtype && t.1.len() == shape.len() && (0..shape.len()).all(|i| i == axis || t.1[i] == shape[i])
        };
        match self.random.next(3) {
            0 => {
                let y = self.any(alike)?;
                self.case.b().prim(Prim::Concat { axis }, &[x, y, x]).ok()
            }
            1 => {
                let u = self.any(|t| alike(t) && t.1[axis] <= shape[axis])?;
                let len = self.ty(u).1[axis];
                let step = self.random.pick(&[1i64, 2, -1]);
                let start = self.start();
                let fits = len == 0 || (len - 1) * (step.unsigned_abs() as usize) < shape[axis];
                fits.then(|| self.case.b().prim(Prim::UpdateSlice { axis, step }, &[x, u, start]).ok()).flatten()
            }
            _ => {
                let fill = self.any(|t| t.0 == dtype && t.1.is_empty())?;
                let (before, after) = (self.random.next(3) as u64, self.random.next(2) as u64);
                self.case.b().prim(Prim::Pad { axis, before, after }, &[x, fill]).ok()
            }
        }
    }
    fn gather(&mut self) -> Option<ValueId> {
        let x = self.any(|t| t.1.len() == 2 && t.1[0] > 0)?;
        let n = self.ty(x).1[0];
        let k = self.random.next(4);
        let at: Vec<i64> = (0..k).map(|_| self.random.next(n) as i64).collect();
        let i = self.case.input(Tensor::ints(DType::I64, [k], at));
        self.case.b().prim(Prim::Gather { axis: 0 }, &[x, i]).ok()
    }
    fn select(&mut self) -> Option<ValueId> {
        let x = self.any(|t| t.0 == DType::F32)?;
        let shape = self.ty(x).1;
        let y = self.any(|t| t.0 == DType::F32 && t.1 == shape)?;
        let f = self.random.pick(&[Comparison::Lt, Comparison::Le, Comparison::Eq]);
        let mut b = self.case.b();
        let c = b.compare(f, x, 0.25).ok()?;
        b.select(c, x, y).ok()
    }
    fn source(&mut self) -> Option<ValueId> {
        let shape = Shape::of(&[2, 3][..1 + self.random.next(2)]);
        let axis = self.random.next(shape.rank());
        let mut b = Self::builder(&mut self.case);
        let i = b.prim(Prim::Iota { shape: shape.clone(), axis }, &[]).ok()?;
        match self.random.next(4) {
            0 => {
                let key = self.start();
                let bits = self.case.b().prim(Prim::RandomBits { shape }, &[key, key]).ok()?;
                self.case.b().cast(bits, DType::I64).ok()
            }
            1 => self.case.b().prim(Prim::Barrier, &[i]).ok(),
            2 => self.case.b().full(DType::F32, &shape, 1.5).ok(),
            _ => Some(i),
        }
    }
    fn builder(case: &mut Case) -> rtx_ir::Builder<'_> {
        case.b()
    }
    fn contract(&mut self) -> Option<ValueId> {
        let x = self.any(|t| t.0 == DType::F32 && t.1.len() >= 2)?;
        let xs = self.ty(x).1;
        let y = self.any(|t| t.0 == DType::F32 && t.1.len() == 2 && t.1.contains(&xs[xs.len() - 1]))?;
        let at = self.ty(y).1.iter().position(|&n| n == xs[xs.len() - 1])?;
        let contract = SmallVec::from_slice(&[(xs.len() - 1, at)]);
        self.case.b().prim(Prim::Dot { batch: SmallVec::new(), contract }, &[x, y]).ok()
    }
}

fn broadcasts(a: &[usize], b: &[usize]) -> bool {
    a.iter().rev().zip(b.iter().rev()).all(|(x, y)| x == y || *x == 1 || *y == 1)
}

fn program(seed: u64) -> Case {
    let mut p = Program { case: Case::new(), random: Random(seed.wrapping_mul(0x9e37_79b9) + 1), values: vec![] };
    (0..3).for_each(|_| p.input());
    let n = 4 + p.random.next(24);
    for _ in 0..n {
        if let Some(v) = p.op()
            && p.case.graph.ty(v).shape.numel() <= 600
            && p.case.graph.ty(v).rank() <= 4
        {
            p.values.push(v);
        }
    }
    let last = *p.values.last().expect("inputs are values");
    p.case.want(last);
    for i in 0..p.values.len() {
        if p.random.next(5) == 0 {
            let v = p.values[i];
            p.case.want(v);
        }
    }
    p.case
}

fn check(seed: u64) {
    let case = program(seed);
    let oracle = eval(&case.graph, &case.inputs).expect("the oracle evaluates");
    for fusion in [Fusion::Off, Fusion::Full] {
        let plan = case.compile(fusion);
        let got = run(&plan, &case);
        for (k, v) in case.wanted.iter().enumerate() {
            assert_eq!(got[k], oracle[v.index()], "program {seed}, {fusion:?}, output {k} ({v:?})");
        }
    }
}

#[test]
fn random_programs_agree_with_the_oracle() {
    let only = std::env::var("SEED").ok().and_then(|s| s.parse().ok());
    let n = std::env::var("PROGRAMS").ok().and_then(|s| s.parse().ok()).unwrap_or(600);
    match only {
        Some(seed) => check(seed),
        None => (0..n).for_each(|seed| {
            if let Err(e) = std::panic::catch_unwind(|| check(seed)) {
                eprintln!("program {seed}:\n{}", rtx_ir::text::print(&program(seed).graph));
                std::panic::resume_unwind(e);
            }
        }),
    }
}
