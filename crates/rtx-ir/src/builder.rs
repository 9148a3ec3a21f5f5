//! The only way to append to a graph by meaning: types are inferred, then the node is recorded.
use crate::{Attrs, Bound, Graph, Op, OpDef, Outs, Prim, Type, ValueId};
use rtx_core::{Arith, Comparison, DType, Dim, Error, Fold, Function, Kind, Location, Result, Scalar, Shape};
use smallvec::{SmallVec, smallvec};

/// Appends ops to a graph, all under one line of the user's program.
pub struct Builder<'g> {
    graph: &'g mut Graph,
    location: Location,
    generation: u32,
}

/// An operand of the pointwise helpers: a value, or a number that is part of the program.
#[derive(Clone, Copy, Debug)]
pub enum Term {
    /// A value of the graph.
    Value(ValueId),
    /// A constant; it takes the dtype and shape of the other operand.
    Number(f64),
}
impl From<ValueId> for Term {
    fn from(v: ValueId) -> Self {
        Term::Value(v)
    }
}
impl From<f64> for Term {
    fn from(x: f64) -> Self {
        Term::Number(x)
    }
}

impl<'g> Builder<'g> {
    /// Appends to `graph` for the user's line `location`.
    pub fn new(graph: &'g mut Graph, location: Location) -> Self {
        Self { graph, location, generation: 0 }
    }
    /// The same, for nodes that must not be merged with equal ones of another generation (contract A4).
    pub fn with_generation(graph: &'g mut Graph, location: Location, generation: u32) -> Self {
        Self { graph, location, generation }
    }
    /// The graph so far.
    pub fn graph(&self) -> &Graph {
        self.graph
    }
    /// The graph itself.
    pub fn graph_mut(&mut self) -> &mut Graph {
        self.graph
    }
    /// The user's line.
    pub fn location(&self) -> Location {
        self.location
    }
    /// Under which generation nodes are recorded.
    pub fn generation(&self) -> u32 {
        self.generation
    }
    /// A builder for the same graph and generation under another line of the user's program.
    pub fn at(&mut self, location: Location) -> Builder<'_> {
        Builder { graph: self.graph, location, generation: self.generation }
    }
    /// The type of a value.
    pub fn ty(&self, v: ValueId) -> &Type {
        self.graph.ty(v)
    }
    /// The element type of a value.
    pub fn dtype(&self, v: ValueId) -> DType {
        self.graph.ty(v).dtype
    }
    /// The shape of a value.
    pub fn shape(&self, v: ValueId) -> Shape {
        self.graph.ty(v).shape.clone()
    }
    /// The rank of a value.
    pub fn rank(&self, v: ValueId) -> usize {
        self.graph.ty(v).rank()
    }

    /// Infers the types and records the node.
    ///
    /// # Errors
    /// What the definition's rule refuses, in the op's own name.
    pub fn apply(&mut self, op: Op, inputs: &[ValueId]) -> Result<Outs> {
        let Some(def) = op.def() else { return Err(Error::new(Kind::Internal, "an input is not applied")) };
        let ty = |v: ValueId| self.graph.ty(v);
        let types = match *inputs {
            [a] => (def.infer)(&op, &[ty(a)])?,
            [a, b] => (def.infer)(&op, &[ty(a), ty(b)])?,
            _ => (def.infer)(&op, &inputs.iter().map(|&v| ty(v)).collect::<SmallVec<[&Type; 8]>>())?,
        };
        if inputs.iter().any(|&v| !self.dtype(v).has_arithmetic()) {
            crate::rules::check_computes(&op, &inputs.iter().map(|&v| self.ty(v)).collect::<SmallVec<[&Type; 4]>>())?;
            self.check_body(&op, inputs)?;
        }
        let node = self.graph.push(op, SmallVec::from_slice(inputs), types, self.location, self.generation);
        let node = self.graph.node(node);
        let mut outs = Outs::new();
        node.outs().for_each(|v| outs.push(v));
        Ok(outs)
    }
    /// Refuses in a composite's own name what its body would refuse: no kernel is there for what is only stored.
    fn check_body(&self, op: &Op, inputs: &[ValueId]) -> Result<()> {
        let Op::Composite(def, attrs) = op else { return Ok(()) };
        let crate::Body::Composite(body) = &def.body else { return Ok(()) };
        let mut scratch = Graph::new();
        let operands: SmallVec<[ValueId; 4]> =
            inputs.iter().map(|&v| scratch.push_input(self.ty(v).clone(), self.location)).collect();
        let result = body(&mut Builder::new(&mut scratch, self.location), attrs, &operands);
        let stored = inputs.iter().map(|&v| self.ty(v)).find(|t| !t.dtype.has_arithmetic());
        match (result, stored) {
            (Err(_), Some(ty)) => Err(crate::rules::stored_only(def.name(), ty)),
            _ => Ok(()),
        }
    }
    /// Records a primitive.
    ///
    /// # Errors
    /// As [`Builder::apply`].
    pub fn prim(&mut self, prim: Prim, inputs: &[ValueId]) -> Result<ValueId> {
        Ok(self.apply(Op::Prim(prim), inputs)?[0])
    }
    /// Records a composite as one node.
    ///
    /// # Errors
    /// As [`Builder::apply`].
    pub fn composite(&mut self, def: &'static OpDef, attrs: Attrs, inputs: &[ValueId]) -> Result<Outs> {
        self.apply(Op::Composite(def, attrs), inputs)
    }
    /// Records a user's call: promotion, broadcasting and refusals as the definition says.
    ///
    /// # Errors
    /// What the definition refuses.
    pub fn call(&mut self, def: &'static OpDef, args: impl Into<Bound>) -> Result<Outs> {
        (def.record)(self, def, &args.into())
    }

    /// A run-time number: its value is no part of the program. What is wider than a parameter's 8 bytes is cast to.
    pub fn param(&mut self, dtype: DType, number: Scalar) -> Result<ValueId> {
        if dtype == DType::C128 {
            let real = self.param(DType::F64, number)?;
            return self.cast(real, dtype);
        }
        Ok(self.graph.push_param(dtype, number.to_bits(dtype), self.location))
    }
    /// A rank-0 constant of the program.
    pub fn constant(&mut self, dtype: DType, number: impl Into<Scalar>) -> Result<ValueId> {
        self.prim(Prim::Constant { dtype, bits: number.into().to_bits(dtype) }, &[])
    }
    /// A constant repeated to a shape.
    pub fn full(&mut self, dtype: DType, shape: &Shape, number: impl Into<Scalar>) -> Result<ValueId> {
        let c = self.constant(dtype, number)?;
        self.expand(c, shape)
    }
    /// A term beside `other`: numbers become constants of its dtype.
    fn term(&mut self, t: Term, other: Option<ValueId>) -> Result<ValueId> {
        match (t, other) {
            (Term::Value(v), _) => Ok(v),
            (Term::Number(x), Some(o)) => {
                let dtype = self.dtype(o);
                self.constant(dtype, x)
            }
            (Term::Number(_), None) => Err(Error::new(Kind::Internal, "two numbers make no tensor op")),
        }
    }
    fn pair(&mut self, a: Term, b: Term) -> Result<[ValueId; 2]> {
        let of = |t: Term| if let Term::Value(v) = t { Some(v) } else { None };
        let (a, b) = (self.term(a, of(b))?, self.term(b, of(a))?);
        self.broadcast_pair(a, b)
    }
    /// Both operands, expanded to the shape they meet in.
    ///
    /// # Errors
    /// [`Kind::Shape`] when they do not broadcast; the caller's op adds its name.
    pub fn broadcast_pair(&mut self, a: ValueId, b: ValueId) -> Result<[ValueId; 2]> {
        if self.graph.ty(a).shape == self.graph.ty(b).shape {
            return Ok([a, b]);
        }
        let shape = crate::rules::broadcast_shapes(&[&self.graph.ty(a).shape, &self.graph.ty(b).shape])?;
        Ok([self.expand(a, &shape)?, self.expand(b, &shape)?])
    }
    /// An arithmetic op; shapes broadcast, dtypes must agree. Of complex numbers it is recorded by their parts.
    pub fn binary(&mut self, f: Arith, a: impl Into<Term>, b: impl Into<Term>) -> Result<ValueId> {
        let [a, b] = self.pair(a.into(), b.into())?;
        if self.is_complex(a) && self.dtype(a) == self.dtype(b) {
            return self.complex_binary(f, a, b);
        }
        self.prim(Prim::Binary(f), &[a, b])
    }
    /// A comparison; shapes broadcast, dtypes must agree.
    pub fn compare(&mut self, f: Comparison, a: impl Into<Term>, b: impl Into<Term>) -> Result<ValueId> {
        let [a, b] = self.pair(a.into(), b.into())?;
        if self.is_complex(a) && self.dtype(a) == self.dtype(b) {
            return self.complex_compare(f, a, b);
        }
        self.prim(Prim::Compare(f), &[a, b])
    }
    /// A function of one number.
    pub fn unary(&mut self, f: Function, x: ValueId) -> Result<ValueId> {
        if self.is_complex(x) && !matches!(f, Function::Real | Function::Imag) {
            return self.complex_unary(f, x);
        }
        self.prim(Prim::Unary(f), &[x])
    }
    /// `if cond { a } else { b }`; shapes broadcast.
    pub fn select(&mut self, cond: ValueId, a: impl Into<Term>, b: impl Into<Term>) -> Result<ValueId> {
        let [a, b] = self.pair(a.into(), b.into())?;
        let [cond, a] = self.broadcast_pair(cond, a)?;
        let [cond, b] = self.broadcast_pair(cond, b)?;
        let [a, b] = self.broadcast_pair(a, b)?;
        self.prim(Prim::Select, &[cond, a, b])
    }
    /// `a * b + c`, rounded once; shapes broadcast.
    pub fn fma(&mut self, a: impl Into<Term>, b: impl Into<Term>, c: ValueId) -> Result<ValueId> {
        let [a, b] = self.pair(a.into(), b.into())?;
        let [a, c] = self.broadcast_pair(a, c)?;
        let [b, c] = self.broadcast_pair(b, c)?;
        self.prim(Prim::Fma, &[a, b, c])
    }
    /// Conversion; the value itself when it already has the dtype.
    pub fn cast(&mut self, x: ValueId, dtype: DType) -> Result<ValueId> {
        if self.dtype(x) == dtype { Ok(x) } else { self.prim(Prim::Cast(dtype), &[x]) }
    }
    /// Broadcast to a shape; the value itself when it already has it.
    pub fn expand(&mut self, x: ValueId, shape: &Shape) -> Result<ValueId> {
        if self.ty(x).shape == *shape { Ok(x) } else { self.prim(Prim::Expand(shape.clone()), &[x]) }
    }
    /// Another shape of as many elements; the value itself when it already has it.
    pub fn reshape(&mut self, x: ValueId, shape: &Shape) -> Result<ValueId> {
        if self.ty(x).shape == *shape { Ok(x) } else { self.prim(Prim::Reshape(shape.clone()), &[x]) }
    }
    /// Dims reordered; the value itself when the order is the identity.
    pub fn permute(&mut self, x: ValueId, order: &[usize]) -> Result<ValueId> {
        if order.iter().enumerate().all(|(i, &o)| i == o) {
            Ok(x)
        } else {
            self.prim(Prim::Permute(order.into()), &[x])
        }
    }
    /// The last two dims swapped.
    pub fn transpose_last(&mut self, x: ValueId) -> Result<ValueId> {
        let r = self.rank(x);
        let mut order: SmallVec<[usize; 4]> = (0..r).collect();
        order.swap(r - 1, r - 2);
        self.permute(x, &order)
    }
    /// `len` elements along `axis` from a start that is part of the program.
    pub fn slice(&mut self, x: ValueId, axis: usize, start: i64, len: impl Into<Dim>) -> Result<ValueId> {
        let start = self.constant(DType::I64, start)?;
        self.slice_at(x, axis, start, len, 1)
    }
    /// `len` elements along `axis`, `step` apart, from a start known when the plan runs.
    pub fn slice_at(
        &mut self,
        x: ValueId,
        axis: usize,
        start: ValueId,
        len: impl Into<Dim>,
        step: i64,
    ) -> Result<ValueId> {
        self.prim(Prim::Slice { axis, len: len.into(), step }, &[x, start])
    }
    /// Axes folded away.
    pub fn reduce(&mut self, fold: Fold, x: ValueId, axes: &[usize]) -> Result<ValueId> {
        let mut axes: SmallVec<[usize; 4]> = axes.into();
        axes.sort_unstable();
        axes.dedup();
        if axes.is_empty() {
            return Ok(x);
        }
        if self.is_complex(x) && fold == Fold::Sum {
            let [re, im] = self.parts(x)?;
            let (re, im) = (self.reduce(fold, re, &axes)?, self.reduce(fold, im, &axes)?);
            return self.complex(re, im);
        }
        self.prim(Prim::Reduce { fold, axes }, &[x])
    }
    /// Axes folded to size 1.
    pub fn reduce_keep(&mut self, fold: Fold, x: ValueId, axes: &[usize]) -> Result<ValueId> {
        let mut shape = self.shape(x);
        let y = self.reduce(fold, x, axes)?;
        axes.iter().for_each(|&a| shape.set(a, 1));
        self.reshape(y, &shape)
    }
    /// Sum of all that broadcasting to `like`'s shape would have repeated: the transpose of [`Builder::expand`].
    pub fn sum_to(&mut self, x: ValueId, shape: &Shape) -> Result<ValueId> {
        let from = self.shape(x);
        let lead = from.rank() - shape.rank();
        let axes: SmallVec<[usize; 4]> =
            (0..from.rank()).filter(|&i| i < lead || (shape.dim(i - lead).is_one() && !from.dim(i).is_one())).collect();
        let y = self.reduce(Fold::Sum, x, &axes)?;
        self.reshape(y, shape)
    }
    /// Matrix product of the last two dims; leading dims are batch dims and equal.
    pub fn matmul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        let (ra, rb) = (self.rank(a), self.rank(b));
        let batch = (0..ra.min(rb).saturating_sub(2)).map(|i| (i, i)).collect();
        self.prim(Prim::Dot { batch, contract: smallvec![(ra - 1, rb - 2)] }, &[a, b])
    }
}

macro_rules! unary { ($($name:ident $F:ident),* $(,)?) => { impl Builder<'_> { $(
    #[doc = concat!("`", stringify!($name), "(x)`, element by element.")]
    pub fn $name(&mut self, x: ValueId) -> Result<ValueId> { self.unary(Function::$F, x) }
)* } } }
unary!(neg Neg, abs Abs, sign Sign, floor Floor, ceil Ceil, trunc Trunc, round_even RoundEven, sqrt Sqrt, exp Exp, expm1 Expm1, log Log, log1p Log1p, sin Sin, cos Cos, tanh Tanh, erf Erf, erfc Erfc, lgamma Lgamma, digamma Digamma, real Real, imag Imag, not Not);

macro_rules! binary { ($($name:ident $F:ident),* $(,)?) => { impl Builder<'_> { $(
    #[doc = concat!("`", stringify!($name), "(a, b)`, element by element; shapes broadcast.")]
    pub fn $name(&mut self, a: impl Into<Term>, b: impl Into<Term>) -> Result<ValueId> { self.binary(Arith::$F, a, b) }
)* } } }
binary!(add Add, sub Sub, mul Mul, div Div, rem Rem, pow Pow, atan2 Atan2, max Max, min Min, and And, or Or, xor Xor, shl Shl, shr Shr, complex Complex);

macro_rules! compare { ($($name:ident $F:ident),* $(,)?) => { impl Builder<'_> { $(
    #[doc = concat!("`", stringify!($name), "(a, b)`, element by element; shapes broadcast.")]
    pub fn $name(&mut self, a: impl Into<Term>, b: impl Into<Term>) -> Result<ValueId> { self.compare(Comparison::$F, a, b) }
)* } } }
compare!(eq Eq, lt Lt, le Le);
