//! Random graphs over every primitive: typed, of odd sizes, with views, updates, computed addresses, random bits and
//! gradients. A graph is a function of its seed.
use crate::Random;
use rtx_core::{Arith, Comparison, DType, Dim, Extremum, Fold, Function, Location, Result, Shape};
use rtx_ir::oracle::{Tensor, Value};
use rtx_ir::{Builder, ConvDim, Convolution, Graph, Op, Prim, ScatterOp, Type, ValueId};

/// What a graph is drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Steps; each records one node or a few.
    pub steps: usize,
    /// Elements of a value at most.
    pub elements: usize,
    /// Are gradients recorded too?
    pub backward: bool,
}
impl Default for Options {
    fn default() -> Self {
        Self { steps: 12, elements: 20_000, backward: true }
    }
}

/// A program with the values of its inputs.
#[derive(Clone, Debug)]
pub struct RandomGraph {
    /// The nodes.
    pub graph: Graph,
    /// In order of the graph's inputs.
    pub inputs: Vec<Tensor>,
    /// Some of the values, ascending.
    pub outputs: Vec<ValueId>,
}

/// Sizes that dims are drawn from: one, primes, a power of two, more than a vector.
const SIZES: [usize; 9] = [1, 2, 3, 5, 7, 16, 17, 31, 1];
/// Types that values are of, the usual ones more often.
const DTYPES: [DType; 16] = {
    use DType::*;
    [F32, F32, F32, F64, F64, I64, I64, I64, Bool, Bool, BF16, BF16, F16, I32, U8, I16]
};
const FLOATS: [DType; 6] = [DType::F32, DType::F32, DType::F64, DType::F64, DType::BF16, DType::F16];
/// Types that values pass through: what is stored and has no arithmetic, and integers that are rare.
const STORED: [DType; 8] = {
    use DType::*;
    [F8E4M3, F8E5M2, C64, C128, I8, U16, U32, U64]
};

/// The graph of a seed.
///
/// # Panics
/// When inference refuses what was meant to be right: a mistake here or there.
pub fn random_graph(seed: u64, options: Options) -> RandomGraph {
    let mut graph = Graph::new();
    let mut maker = Maker {
        b: Builder::new(&mut graph, Location::caller()),
        random: Random::new(seed),
        options,
        inputs: Vec::new(),
        pool: Vec::new(),
    };
    let made = maker.make();
    let (inputs, outputs) = (std::mem::take(&mut maker.inputs), made.unwrap_or_else(|e| panic!("graph {seed}: {e}")));
    RandomGraph { graph, inputs, outputs }
}

struct Maker<'g> {
    b: Builder<'g>,
    random: Random,
    options: Options,
    inputs: Vec<Tensor>,
    pool: Vec<ValueId>,
}

type Step = fn(&mut Maker<'_>) -> Result<()>;
/// Every kind of step; the common ones stand more than once.
const STEPS: &[Step] = &[
    |m| m.input(),
    |m| m.number(),
    |m| m.iota(),
    |m| m.random_bits(),
    |m| m.unary(),
    |m| m.unary(),
    |m| m.unary(),
    |m| m.unary(),
    |m| m.unary(),
    |m| m.binary(),
    |m| m.binary(),
    |m| m.binary(),
    |m| m.binary(),
    |m| m.binary(),
    |m| m.binary(),
    |m| m.compare(),
    |m| m.select(),
    |m| m.fma(),
    |m| m.cast(),
    |m| m.complex(),
    |m| m.complex(),
    |m| m.bitcast(),
    |m| m.reshape(),
    |m| m.permute(),
    |m| m.permute(),
    |m| m.expand(),
    |m| m.slice(),
    |m| m.slice(),
    |m| m.pad(),
    |m| m.concat(),
    |m| m.update_slice(),
    |m| m.update_slice(),
    |m| m.gather(),
    |m| m.scatter(),
    |m| m.reduce(),
    |m| m.reduce(),
    |m| m.arg_reduce(),
    |m| m.scan(),
    |m| m.linear_scan(),
    |m| m.sort(),
    |m| m.dot(),
    |m| m.windows(),
    |m| m.overlap_add(),
    |m| m.conv(),
    |m| m.barrier(),
];

impl Maker<'_> {
    fn make(&mut self) -> Result<Vec<ValueId>> {
        for _ in 0..3 {
            self.input()?;
        }
        for _ in 0..self.options.steps {
            let step = *self.random.pick(STEPS);
            step(self)?;
        }
        if self.options.backward && self.random.one_in(2) {
            self.backward()?;
        }
        let last = self.pool[self.pool.len() - 1];
        let mut outputs: Vec<ValueId> = self.pool.iter().copied().filter(|_| self.random.one_in(3)).collect();
        outputs.push(last);
        outputs.sort_unstable();
        outputs.dedup();
        Ok(outputs)
    }

    // Sources.

    fn shape(&mut self) -> Shape {
        if self.random.one_in(12) {
            // Over one block of a reduction, and not a multiple of it.
            return Shape::from([4099 + self.random.below(4200)]);
        }
        let rank = self.random.below(4);
        let mut sizes: Vec<usize> = (0..rank).map(|_| *self.random.pick(&SIZES)).collect();
        if rank > 0 && self.random.one_in(20) {
            sizes[self.random.below(rank)] = 0;
        }
        Shape::of(&sizes)
    }
    fn element(&mut self, dtype: DType) -> Value {
        match dtype {
            DType::Bool => Value::Bool(self.random.one_in(2)),
            d if d.is_int() => Value::Int(self.random.int(-20, 20).into()),
            _ if self.random.one_in(50) => Value::Float(*self.random.pick(&[0.0, -0.0, 1.0, f64::INFINITY, f64::NAN])),
            _ => Value::Float(self.random.float(-2.0, 2.0)),
        }
    }
    fn new_input(&mut self, dtype: DType, shape: &Shape) -> ValueId {
        let ty = Type::new(dtype, shape.clone());
        let elements = (0..shape.numel()).map(|_| self.element(dtype)).collect();
        self.inputs.push(Tensor::new(ty.clone(), elements));
        self.b.graph_mut().push_input(ty, Location::caller())
    }
    fn input(&mut self) -> Result<()> {
        let (dtype, shape) = (*self.random.pick(&DTYPES), self.shape());
        let v = self.new_input(dtype, &shape);
        self.keep(v)
    }
    /// A number of rank 0: of the program, or of the run.
    fn scalar(&mut self, dtype: DType) -> Result<ValueId> {
        let number = match self.element(dtype) {
            Value::Bool(x) => x.into(),
            Value::Int(i) => (i as i64).into(),
            Value::Float(x) | Value::Complex(x, _) => x.into(),
        };
        if self.random.one_in(2) { self.b.param(dtype, number) } else { self.b.constant(dtype, number) }
    }
    fn number(&mut self) -> Result<()> {
        let dtype = *self.random.pick(&DTYPES);
        let v = self.scalar(dtype)?;
        self.keep(v)
    }
    fn iota(&mut self) -> Result<()> {
        let mut shape = self.shape();
        if shape.rank() == 0 {
            shape.push(5usize);
        }
        let axis = self.random.below(shape.rank());
        let v = self.b.prim(Prim::Iota { shape, axis }, &[])?;
        self.keep(v)
    }
    fn random_bits(&mut self) -> Result<()> {
        let (key, ordinal) = (self.scalar(DType::I64)?, self.scalar(DType::I64)?);
        let shape = self.shape();
        let bits = self.b.prim(Prim::RandomBits { shape }, &[key, ordinal])?;
        let v = self.b.cast(bits, *[DType::I64, DType::F64].get(self.random.below(2)).unwrap_or(&DType::I64))?;
        self.keep(v)
    }

    // What steps are made of.

    /// Remembers a value that is not too large.
    fn keep(&mut self, v: ValueId) -> Result<()> {
        if self.b.ty(v).shape.numel() <= self.options.elements {
            self.pool.push(v);
        }
        Ok(())
    }
    /// A value, more likely one made lately.
    fn any(&mut self) -> ValueId {
        let n = self.pool.len();
        let back = self.random.below(n).min(self.random.below(n));
        self.pool[n - 1 - back]
    }
    fn of(&mut self, wanted: &[DType]) -> Result<ValueId> {
        let fit: Vec<ValueId> = self.pool.iter().copied().filter(|&v| wanted.contains(&self.b.dtype(v))).collect();
        if !fit.is_empty() {
            return Ok(*self.random.pick(&fit));
        }
        let (v, dtype) = (self.any(), *self.random.pick(wanted));
        self.b.cast(v, dtype)
    }
    /// A value with at least one dim.
    fn ranked(&mut self) -> Result<ValueId> {
        let v = self.any();
        if self.b.rank(v) > 0 { Ok(v) } else { self.b.reshape(v, &Shape::from([1])) }
    }
    /// A value of a type: one that is there, a cast, a number repeated, or an input.
    fn like(&mut self, dtype: DType, shape: &Shape) -> Result<ValueId> {
        let fit: Vec<ValueId> = self.pool.iter().copied().filter(|&v| self.b.ty(v).shape == *shape).collect();
        if !fit.is_empty() && !self.random.one_in(4) {
            let v = *self.random.pick(&fit);
            return self.b.cast(v, dtype);
        }
        if self.random.one_in(3) {
            let v = self.scalar(dtype)?;
            return self.b.expand(v, shape);
        }
        Ok(self.new_input(dtype, shape))
    }
    /// A start that may lie outside: of the program, of the run, or computed.
    fn start(&mut self, size: usize) -> Result<ValueId> {
        let at = self.random.int(-2, size as i64 + 2);
        match self.random.below(3) {
            0 => self.b.constant(DType::I64, at),
            1 => self.b.param(DType::I64, at.into()),
            _ => {
                let v = self.of(&[DType::I64])?;
                let all: Vec<usize> = (0..self.b.rank(v)).collect();
                self.b.reduce(Fold::Min, v, &all)
            }
        }
    }
    fn step(&mut self) -> i64 {
        *self.random.pick(&[1, 1, 1, 2, 3, -1, -2])
    }
    /// How many steps fit into a size.
    fn steps_within(&mut self, size: usize, step: i64) -> usize {
        let most = size.div_ceil(step.unsigned_abs() as usize);
        self.random.below(most + 1)
    }
    /// Indices into a dim of `size`, which is not 0.
    fn indices(&mut self, size: usize) -> Result<ValueId> {
        let v = self.of(&[DType::I64])?;
        let v = if self.b.ty(v).shape.numel() > 64 { self.new_input(DType::I64, &Shape::from([7])) } else { v };
        let n = self.b.full(DType::I64, &self.b.shape(v), size)?;
        self.b.rem(v, n)
    }

    // Steps.

    fn unary(&mut self) -> Result<()> {
        let v = self.any();
        let f = match self.b.dtype(v) {
            DType::Bool => Function::Not,
            d if d.is_int() => *self.random.pick(&[Function::Neg, Function::Abs, Function::Sign, Function::Not]),
            _ => {
                let of_complex = |f: &Function| matches!(f, Function::Not | Function::Real | Function::Imag);
                let all: Vec<Function> = Function::ALL.iter().copied().filter(|f| !of_complex(f)).collect();
                *self.random.pick(&all)
            }
        };
        let v = match f {
            // Sine and cosine are of no use far out.
            Function::Sin | Function::Cos => self.b.rem(v, 7.0)?,
            // Away from zeros, beside which only the absolute error is small.
            Function::Lgamma | Function::Digamma => {
                let above = self.b.abs(v)?;
                self.b.add(above, 2.5)?
            }
            _ => v,
        };
        let y = self.b.unary(f, v)?;
        self.keep(y)
    }
    fn binary(&mut self) -> Result<()> {
        use Arith::*;
        let x = self.any();
        let Type { dtype, shape } = self.b.ty(x).clone();
        let y = self.like(dtype, &shape)?;
        let f = match dtype {
            DType::Bool => *self.random.pick(&[Max, Min, And, Or, Xor]),
            d if d.is_int() => *self.random.pick(&[Add, Sub, Mul, Div, Rem, Pow, Max, Min, And, Or, Xor, Shl, Shr]),
            _ => *self.random.pick(&[Add, Add, Sub, Mul, Mul, Div, Rem, Pow, Atan2, Max, Min]),
        };
        let y = self.b.binary(f, x, y)?;
        self.keep(y)
    }
    fn compare(&mut self) -> Result<()> {
        let x = self.any();
        let Type { dtype, shape } = self.b.ty(x).clone();
        let y = self.like(dtype, &shape)?;
        let y = self.b.compare(*self.random.pick(Comparison::ALL), x, y)?;
        self.keep(y)
    }
    fn select(&mut self) -> Result<()> {
        let x = self.any();
        let Type { dtype, shape } = self.b.ty(x).clone();
        let (c, y) = (self.like(DType::Bool, &shape)?, self.like(dtype, &shape)?);
        let y = self.b.select(c, x, y)?;
        self.keep(y)
    }
    fn fma(&mut self) -> Result<()> {
        let x = self.of(&FLOATS)?;
        let Type { dtype, shape } = self.b.ty(x).clone();
        let (y, z) = (self.like(dtype, &shape)?, self.like(dtype, &shape)?);
        let y = self.b.fma(x, y, z)?;
        self.keep(y)
    }
    fn cast(&mut self) -> Result<()> {
        let (mut v, to) = (self.any(), *self.random.pick(&DTYPES));
        if self.random.one_in(4) {
            v = self.b.cast(v, *self.random.pick(&STORED))?;
        }
        let y = self.b.cast(v, to)?;
        self.keep(y)
    }
    /// A complex number and its parts.
    fn complex(&mut self) -> Result<()> {
        let x = self.of(&[DType::F32, DType::F64])?;
        let Type { dtype, shape } = self.b.ty(x).clone();
        let y = self.like(dtype, &shape)?;
        let z = self.b.complex(x, y)?;
        let (re, im) = (self.b.real(z)?, self.b.imag(z)?);
        self.keep(re)?;
        self.keep(im)
    }
    fn bitcast(&mut self) -> Result<()> {
        let v = self.of(&[DType::F64, DType::I64])?;
        let to = if self.b.dtype(v) == DType::F64 { DType::I64 } else { DType::F64 };
        let y = self.b.prim(Prim::Bitcast(to), &[v])?;
        self.keep(y)
    }
    fn reshape(&mut self) -> Result<()> {
        let v = self.any();
        let mut sizes = self.b.shape(v).sizes().to_vec();
        match self.random.below(4) {
            0 => sizes = vec![sizes.iter().product()],
            1 => sizes.insert(self.random.below(sizes.len() + 1), 1),
            2 => sizes.reverse(),
            _ => split_a_factor(&mut sizes),
        }
        let y = self.b.reshape(v, &Shape::of(&sizes))?;
        self.keep(y)
    }
    fn permute(&mut self) -> Result<()> {
        let v = self.any();
        let mut order: Vec<usize> = (0..self.b.rank(v)).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, self.random.below(i + 1));
        }
        let y = self.b.permute(v, &order)?;
        self.keep(y)
    }
    fn expand(&mut self) -> Result<()> {
        let v = self.any();
        let mut shape = self.b.shape(v);
        for i in 0..shape.rank() {
            if shape.dim(i).is_one() && !self.random.one_in(3) {
                shape.set(i, *self.random.pick(&SIZES));
            }
        }
        if self.random.one_in(2) && shape.rank() < 4 {
            shape.insert(0, *self.random.pick(&SIZES));
        }
        if shape.numel() <= self.options.elements {
            let y = self.b.expand(v, &shape)?;
            self.keep(y)?;
        }
        Ok(())
    }
    fn slice(&mut self) -> Result<()> {
        let v = self.ranked()?;
        let axis = self.random.below(self.b.rank(v));
        let size = self.b.shape(v).sizes()[axis];
        let step = self.step();
        let len = self.steps_within(size, step);
        let start = self.start(size)?;
        let y = self.b.slice_at(v, axis, start, len, step)?;
        self.keep(y)
    }
    fn pad(&mut self) -> Result<()> {
        let v = self.ranked()?;
        let axis = self.random.below(self.b.rank(v));
        let fill = self.scalar(self.b.dtype(v))?;
        let (before, after) = (self.random.below(4) as u64, self.random.below(4) as u64);
        let y = self.b.prim(Prim::Pad { axis, before, after }, &[v, fill])?;
        self.keep(y)
    }
    fn concat(&mut self) -> Result<()> {
        let v = self.ranked()?;
        let axis = self.random.below(self.b.rank(v));
        let Type { dtype, mut shape } = self.b.ty(v).clone();
        shape.set(axis, *self.random.pick(&[0usize, 1, 2, 5]));
        let other = self.like(dtype, &shape)?;
        let parts = if self.random.one_in(3) { vec![v, other, v] } else { vec![other, v] };
        let y = self.b.prim(Prim::Concat { axis }, &parts)?;
        self.keep(y)
    }
    fn update_slice(&mut self) -> Result<()> {
        let v = self.ranked()?;
        let axis = self.random.below(self.b.rank(v));
        let Type { dtype, mut shape } = self.b.ty(v).clone();
        let (size, step) = (shape.sizes()[axis], self.step());
        shape.set(axis, self.steps_within(size, step));
        let (update, start) = (self.like(dtype, &shape)?, self.start(size)?);
        let y = self.b.prim(Prim::UpdateSlice { axis, step }, &[v, update, start])?;
        self.keep(y)
    }
    /// A value with a dim that is not empty, and that dim.
    fn indexable(&mut self) -> Result<Option<(ValueId, usize)>> {
        let v = self.ranked()?;
        let axis = self.random.below(self.b.rank(v));
        Ok((self.b.ty(v).shape.dim(axis) != Dim::Const(0)).then_some((v, axis)))
    }
    fn gather(&mut self) -> Result<()> {
        let Some((v, axis)) = self.indexable()? else { return Ok(()) };
        let index = self.indices(self.b.shape(v).sizes()[axis])?;
        let y = self.b.prim(Prim::Gather { axis }, &[v, index])?;
        self.keep(y)
    }
    fn scatter(&mut self) -> Result<()> {
        let Some((v, axis)) = self.indexable()? else { return Ok(()) };
        let Type { dtype, shape } = self.b.ty(v).clone();
        let index = self.indices(shape.sizes()[axis])?;
        let places = self.b.shape(index);
        let updates: Shape = shape.iter().take(axis).chain(places.iter()).chain(shape.iter().skip(axis + 1)).collect();
        if updates.numel() > self.options.elements {
            return Ok(());
        }
        let updates = self.like(dtype, &updates)?;
        let op = match dtype {
            DType::Bool => ScatterOp::Set,
            _ => *self.random.pick(&[
                ScatterOp::Set,
                ScatterOp::Add,
                ScatterOp::Add,
                ScatterOp::Mul,
                ScatterOp::Min,
                ScatterOp::Max,
            ]),
        };
        let y = self.b.prim(Prim::Scatter { axis, op }, &[v, index, updates])?;
        self.keep(y)
    }
    fn reduce(&mut self) -> Result<()> {
        let v = self.any();
        let axes: Vec<usize> = (0..self.b.rank(v)).filter(|_| !self.random.one_in(3)).collect();
        let fold = match self.b.dtype(v) {
            DType::Bool => *self.random.pick(&[Fold::Max, Fold::Min]),
            _ => *self.random.pick(&[Fold::Sum, Fold::Sum, Fold::Prod, Fold::Max, Fold::Min]),
        };
        let y = self.b.reduce(fold, v, &axes)?;
        self.keep(y)
    }
    fn arg_reduce(&mut self) -> Result<()> {
        let Some((v, axis)) = self.indexable()? else { return Ok(()) };
        if self.b.dtype(v) == DType::Bool {
            return Ok(());
        }
        let extremum = *self.random.pick(Extremum::ALL);
        let y = self.b.prim(Prim::ArgReduce { extremum, axis }, &[v])?;
        self.keep(y)
    }
    fn scan(&mut self) -> Result<()> {
        let v = self.ranked()?;
        let (axis, reverse) = (self.random.below(self.b.rank(v)), self.random.one_in(3));
        let fold = match self.b.dtype(v) {
            DType::Bool => *self.random.pick(&[Fold::Max, Fold::Min]),
            _ => *self.random.pick(&[Fold::Sum, Fold::Sum, Fold::Prod, Fold::Max, Fold::Min]),
        };
        let y = self.b.prim(Prim::Scan { fold, axis, reverse }, &[v])?;
        self.keep(y)
    }
    fn linear_scan(&mut self) -> Result<()> {
        let v = self.ranked()?;
        let (axis, reverse) = (self.random.below(self.b.rank(v)), self.random.one_in(3));
        let Type { dtype, shape } = self.b.ty(v).clone();
        let dtype = if dtype == DType::Bool { DType::F32 } else { dtype };
        let (a, v) = (self.like(dtype, &shape)?, self.b.cast(v, dtype)?);
        let mut rest = shape;
        rest.remove(axis);
        let start = self.like(dtype, &rest)?;
        let y = self.b.prim(Prim::LinearScan { axis, reverse }, &[a, v, start])?;
        self.keep(y)
    }
    fn sort(&mut self) -> Result<()> {
        let v = self.ranked()?;
        let axis = self.random.below(self.b.rank(v));
        let descending = self.random.one_in(2);
        let outs = self.b.apply(Op::Prim(Prim::Sort { axis, descending }), &[v])?;
        outs.into_iter().try_for_each(|y| self.keep(y))
    }
    fn dot(&mut self) -> Result<()> {
        let dtype = *self.random.pick(&FLOATS);
        let k = *self.random.pick(&[0usize, 1, 5, 16, 17, 600]);
        let (m, n) = (*self.random.pick(&SIZES), *self.random.pick(&SIZES));
        let batch = self.random.one_in(2).then(|| *self.random.pick(&[1usize, 2, 3]));
        let dims = |a: usize, c: usize| batch.into_iter().chain([a, c]).collect::<Shape>();
        let (left, right) = match self.random.below(3) {
            0 => (dims(m, k), dims(k, n)),
            1 => (dims(m, k), dims(n, k)),
            _ => (dims(k, m), dims(k, n)),
        };
        let lead = usize::from(batch.is_some());
        let at = |s: &Shape| if s.dim(lead) == Dim::from(k) { lead } else { lead + 1 };
        let contract = [(at(&left), at(&right))].into_iter().collect();
        let batch = (0..lead).map(|i| (i, i)).collect();
        let (l, r) = (self.like(dtype, &left)?, self.like(dtype, &right)?);
        let y = self.b.prim(Prim::Dot { batch, contract }, &[l, r])?;
        self.keep(y)
    }
    fn windows(&mut self) -> Result<()> {
        let Some((v, axis)) = self.indexable()? else { return Ok(()) };
        let n = self.b.shape(v).sizes()[axis];
        let size = 1 + self.random.below(n.min(4));
        let most = if size > 1 { (n - 1) / (size - 1) } else { 2 };
        let (stride, dilation) = (1 + self.random.below(3) as u64, 1 + self.random.below(most.min(2)) as u64);
        if self.b.rank(v) < 5 {
            let y = self.b.prim(Prim::Windows { axis, size: size as u64, stride, dilation }, &[v])?;
            self.keep(y)?;
        }
        Ok(())
    }
    fn overlap_add(&mut self) -> Result<()> {
        let v = self.ranked()?;
        let v = if self.b.dtype(v) == DType::Bool { self.b.cast(v, DType::F32)? } else { v };
        let v = if self.b.rank(v) > 1 {
            v
        } else {
            let n = self.b.shape(v).sizes()[0];
            self.b.reshape(v, &Shape::from([n, 1]))?
        };
        let sizes = self.b.shape(v).sizes();
        let (count, size) = (&sizes[..sizes.len() - 1], sizes[sizes.len() - 1]);
        let axis = self.random.below(count.len());
        let (stride, dilation) = (1 + self.random.below(3), 1 + self.random.below(2));
        let reach = match (count[axis], size) {
            (0, _) | (_, 0) => 0,
            (n, k) => (n - 1) * stride + (k - 1) * dilation + 1,
        };
        let len = (reach + self.random.below(3)) as u64;
        let op = Prim::OverlapAdd { axis, len, stride: stride as u64, dilation: dilation as u64 };
        let y = self.b.prim(op, &[v])?;
        self.keep(y)
    }
    fn conv(&mut self) -> Result<()> {
        let dtype = *self.random.pick(&FLOATS);
        let spatial = 1 + self.random.below(3);
        let groups = *self.random.pick(&[1usize, 1, 2, 3]);
        // Sometimes more than one chunk of a sum.
        let channels = if self.random.one_in(8) { 200 } else { 1 + self.random.below(3) };
        let outs = *self.random.pick(&[1usize, 2, 5, 9]);
        let sizes: &[usize] = [&[1, 5, 17, 60][..], &[1, 4, 7], &[1, 2, 3]][spatial - 1];
        let (mut x, mut w) = (vec![1 + self.random.below(3), groups * channels], vec![groups * outs, channels]);
        let mut dims = Vec::new();
        for _ in 0..spatial {
            x.push(*self.random.pick(sizes));
            w.push(1 + self.random.below(3));
            let (low, high) = (self.random.int(-1, 3), self.random.int(-1, 3));
            let step = |r: &mut Random| *r.pick(&[1u64, 1, 2, 3]);
            let (stride, base, dilation) = (step(&mut self.random), step(&mut self.random), step(&mut self.random));
            dims.push(ConvDim { stride, low, high, base, dilation });
        }
        let (x, w) = (self.like(dtype, &Shape::of(&x))?, self.like(dtype, &Shape::of(&w))?);
        let conv = Convolution { dims: dims.into_iter().collect(), groups };
        let y = self.b.prim(Prim::Conv(Box::new(conv)), &[x, w])?;
        self.keep(y)
    }
    fn barrier(&mut self) -> Result<()> {
        let v = self.any();
        let y = self.b.prim(Prim::Barrier, &[v])?;
        self.keep(y)
    }
    /// The gradient of a sum in every float input; sometimes of that gradient too.
    fn backward(&mut self) -> Result<()> {
        let v = self.of(&FLOATS)?;
        let all: Vec<usize> = (0..self.b.rank(v)).collect();
        let mut loss = self.b.reduce(Fold::Sum, v, &all)?;
        let wrt: Vec<ValueId> = self.b.graph().inputs().filter(|&v| self.b.dtype(v).is_float()).collect();
        for _ in 0..1 + self.random.below(2) {
            let one = self.b.constant(self.b.dtype(loss), 1.0)?;
            let found = rtx_autograd::gradient(&mut self.b, &[loss], &[one], &wrt)?;
            let found: Vec<ValueId> = found.into_iter().flatten().collect();
            let Some(&g) = found.last() else { return Ok(()) };
            found.iter().try_for_each(|&g| self.keep(g))?;
            let all: Vec<usize> = (0..self.b.rank(g)).collect();
            loss = self.b.reduce(Fold::Sum, g, &all)?;
        }
        Ok(())
    }
}

/// The first size with a small factor becomes two.
fn split_a_factor(sizes: &mut Vec<usize>) {
    for i in 0..sizes.len() {
        for f in [2, 3, 5, 7] {
            if sizes[i] > f && sizes[i].is_multiple_of(f) {
                sizes[i] /= f;
                sizes.insert(i, f);
                return;
            }
        }
    }
}
