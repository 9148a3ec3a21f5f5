//! What every op means, one element at a time in wide numbers: obviously right, slow, for tests only (contract C6).
//!
//! Integers are `i128`, floats `f64`; each result is rounded once to the node's dtype. Composites are what their
//! bodies are.
use crate::{Body, Builder, Convolution, Graph, Op, Prim, Program, ScatterOp, Type, rules};
use rtx_core::{Class, DType, Dim, Error, Extremum, Fold, Kind, Location, Result, Shape, SymId};

mod element;
mod factor;
mod fourier;
mod philox;
mod scan;

pub use element::Value;
use element::{arith, cast, compare, fma, fold, fold_start, function, precedes};
pub use philox::philox4x32;

/// A dense tensor in row-major order; every dim a number.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its type.
    pub ty: Type,
    /// Its elements.
    pub elements: Vec<Value>,
}

impl Tensor {
    /// From elements, each rounded to the dtype.
    ///
    /// # Panics
    /// When their number is not the shape's.
    pub fn new(ty: Type, elements: Vec<Value>) -> Self {
        assert_eq!(ty.shape.numel(), elements.len(), "{ty}");
        let elements = elements.into_iter().map(|v| cast(v, ty.dtype)).collect();
        Self { ty, elements }
    }
    /// A tensor of floats.
    ///
    /// # Panics
    /// As [`Tensor::new`].
    pub fn floats(dtype: DType, shape: impl Into<Shape>, elements: impl IntoIterator<Item = f64>) -> Self {
        Self::new(Type::new(dtype, shape), elements.into_iter().map(Value::Float).collect())
    }
    /// A tensor of integers.
    ///
    /// # Panics
    /// As [`Tensor::new`].
    pub fn ints(dtype: DType, shape: impl Into<Shape>, elements: impl IntoIterator<Item = i64>) -> Self {
        Self::new(Type::new(dtype, shape), elements.into_iter().map(|x| Value::Int(x.into())).collect())
    }
    /// From the bytes of a dense tensor, native order.
    ///
    /// # Errors
    /// [`Kind::Argument`] when the length is wrong.
    pub fn from_bytes(ty: Type, bytes: &[u8]) -> Result<Self> {
        let size = ty.dtype.size();
        if bytes.len() != ty.shape.numel() * size {
            return Err(Error::new(Kind::Argument, format!("{ty} takes {} bytes, got {}", ty.bytes(), bytes.len())));
        }
        let word = |c: &[u8]| c.iter().enumerate().fold(0, |w, (i, &b)| w | u128::from(b) << (8 * native(i, size)));
        let elements = bytes.chunks_exact(size).map(|c| Value::from_word(ty.dtype, word(c))).collect();
        Ok(Self { ty, elements })
    }
    /// The bytes of a dense tensor, native order.
    pub fn to_bytes(&self) -> Vec<u8> {
        let size = self.ty.dtype.size();
        let mut out = Vec::with_capacity(self.ty.bytes());
        for e in &self.elements {
            let word = e.to_word(self.ty.dtype);
            out.extend((0..size).map(|i| (word >> (8 * native(i, size))) as u8));
        }
        out
    }
    fn sizes(&self) -> Vec<usize> {
        self.ty.shape.sizes().to_vec()
    }
    fn at(&self, index: &[usize]) -> Value {
        self.elements[offset(&self.sizes(), index)]
    }
    /// The only element, as a position.
    fn position(&self) -> i128 {
        self.elements[0].int()
    }
}

/// Which byte of a little-endian word byte `i` of a native one is.
fn native(i: usize, size: usize) -> usize {
    if cfg!(target_endian = "little") { i } else { size - 1 - i }
}
fn offset(sizes: &[usize], index: &[usize]) -> usize {
    sizes.iter().zip(index).fold(0, |o, (&n, &i)| o * n + i)
}
/// Every index of a shape in row-major order.
fn indices(sizes: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..sizes.iter().product::<usize>()).map(move |mut at| {
        let mut index = vec![0; sizes.len()];
        for (i, &n) in index.iter_mut().zip(sizes).rev() {
            *i = at % n;
            at /= n;
        }
        index
    })
}
fn build(ty: Type, f: impl FnMut(Vec<usize>) -> Value) -> Tensor {
    let sizes = ty.shape.sizes();
    let elements = indices(&sizes).map(f).collect();
    Tensor { ty, elements }
}

/// Every value of a graph, in order of their ids. `inputs` are in order of [`Graph::inputs`], dense; where their
/// types name symbols, the sizes given bind them.
///
/// # Errors
/// What the graph does wrong when it runs: an index out of range, a ghost that is read, inputs that do not fit.
pub fn eval(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let symbols = bind(graph, inputs)?;
    let mut values: Vec<Tensor> = Vec::with_capacity(graph.value_count());
    let (mut inputs, mut params) = (inputs.iter(), graph.params().iter());
    for node in graph.nodes() {
        match &node.op {
            // `bind` has counted the inputs.
            Op::Input => values.extend(inputs.next().cloned()),
            Op::Ghost => return Err(Error::new(Kind::Internal, "oracle: a ghost has no value")),
            Op::Prim(Prim::Param { dtype }) => {
                let value = Value::from_bits(*dtype, params.next().copied().unwrap_or_default());
                values.push(Tensor::new(Type::new(*dtype, []), vec![value]));
            }
            op => {
                let operands: Vec<&Tensor> = node.inputs.iter().map(|v| &values[v.index()]).collect();
                let outs = eval_node(&resolve_op(op, &symbols), &operands)?;
                values.extend(outs);
            }
        }
    }
    Ok(values)
}

/// The values of the symbols, read off the sizes of the inputs.
fn bind(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<(SymId, u64)>> {
    let wrong = |what: String| Error::new(Kind::Argument, format!("oracle: {what}"));
    if graph.inputs().count() != inputs.len() {
        return Err(wrong(format!("the graph takes {} inputs, got {}", graph.inputs().count(), inputs.len())));
    }
    let mut symbols: Vec<(SymId, u64)> = Vec::new();
    for (v, given) in graph.inputs().zip(inputs) {
        let ty = graph.ty(v);
        if ty.dtype != given.ty.dtype || ty.rank() != given.ty.rank() {
            return Err(wrong(format!("an input is {ty}, got {}", given.ty)));
        }
        for (want, have) in ty.shape.iter().zip(given.ty.shape.sizes()) {
            let fits = match want {
                Dim::Const(n) => n == have as u64,
                Dim::Sym { id, max } => {
                    let bound = symbols.iter().find(|s| s.0 == id).map_or(have as u64, |s| s.1);
                    symbols.push((id, bound));
                    bound == have as u64 && bound <= max
                }
            };
            if !fits {
                return Err(wrong(format!("an input is {ty}, got {}", given.ty)));
            }
        }
    }
    Ok(symbols)
}

/// An op with numbers where its attributes name symbols.
fn resolve_op(op: &Op, symbols: &[(SymId, u64)]) -> Op {
    let dim = |d: Dim| match d {
        Dim::Sym { id, .. } => symbols.iter().find(|s| s.0 == id).map_or(d, |s| Dim::Const(s.1)),
        known => known,
    };
    let shape = |s: &Shape| Shape::from_iter(s.iter().map(dim));
    let mut op = op.clone();
    if let Op::Prim(p) = &mut op {
        match p {
            Prim::Reshape(s) | Prim::Expand(s) | Prim::Iota { shape: s, .. } | Prim::RandomBits { shape: s } => {
                *s = shape(s);
            }
            Prim::Slice { len, .. } => *len = dim(*len),
            _ => {}
        }
    }
    op
}

/// The outputs of one node on given operands.
///
/// # Errors
/// As [`eval`].
pub fn eval_node(op: &Op, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let Some(def) = op.def() else { return Err(Error::new(Kind::Internal, "oracle: not an op")) };
    let types: Vec<&Type> = inputs.iter().map(|t| &t.ty).collect();
    let outs = (def.infer)(op, &types)?;
    match op {
        Op::Prim(Prim::Sort { axis, descending }) => Ok(scan::sort(*axis, *descending, inputs[0])),
        Op::Prim(Prim::Factor(f)) => factor::factor(*f, inputs[0], outs),
        Op::Prim(Prim::Loop(body)) => eval_loop(body, inputs),
        Op::Prim(Prim::If { then, otherwise }) => {
            eval_program(if inputs[0].elements[0].bool() { then } else { otherwise }, inputs[1..].iter().copied())
        }
        Op::Prim(Prim::CustomCall { name, .. }) if **name == *"identity" => {
            Ok(inputs.iter().map(|t| (*t).clone()).collect())
        }
        Op::Prim(p) => Ok(vec![eval_prim(
            p,
            inputs,
            outs.into_iter().next().ok_or_else(|| Error::new(Kind::Internal, "oracle: no result"))?,
        )?]),
        _ => eval_body(op, &def.body, inputs),
    }
}

fn eval_program<'a>(program: &Program, inputs: impl Iterator<Item = &'a Tensor>) -> Result<Vec<Tensor>> {
    let given: Vec<Tensor> = inputs.cloned().collect();
    let values = eval(program.graph(), &given)?;
    Ok(program.outputs().iter().map(|v| values[v.index()].clone()).collect())
}

fn eval_loop(body: &Program, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let mut state: Vec<Tensor> = inputs[1..].iter().map(|t| (*t).clone()).collect();
    for round in 0..inputs[0].position() {
        let round = Tensor::new(inputs[0].ty.clone(), vec![Value::Int(round)]);
        state = eval_program(body, std::iter::once(&round).chain(&state))?;
    }
    Ok(state)
}

fn eval_body(op: &Op, body: &Body, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
    let Body::Composite(body) = body else { return Err(Error::new(Kind::Internal, "oracle: not a composite")) };
    let mut graph = Graph::new();
    let here = Location::caller();
    let operands: Vec<_> = inputs.iter().map(|t| graph.push_input(t.ty.clone(), here)).collect();
    let outs = body(&mut Builder::new(&mut graph, here), op.attrs(), &operands)?;
    let given: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
    let values = eval(&graph, &given)?;
    Ok(outs.iter().map(|v| values[v.index()].clone()).collect())
}

/// A primitive's meaning. `ty` is the type of the result.
fn eval_prim(p: &Prim, x: &[&Tensor], ty: Type) -> Result<Tensor> {
    let d = ty.dtype;
    Ok(match p {
        Prim::Constant { dtype, bits } => Tensor { ty, elements: vec![Value::from_bits(*dtype, *bits)] },
        Prim::Param { .. } => return Err(Error::new(Kind::Internal, "oracle: a run-time number has no value here")),
        Prim::Iota { axis, .. } => build(ty, |i| Value::Int(i[*axis] as i128)),
        Prim::RandomBits { .. } => {
            let (key, ordinal) = (x[0].position() as u64, x[1].position() as u64);
            let elements = (0..ty.shape.numel() as u64).map(|i| Value::Int(philox4x32(key, i, ordinal)[0].into()));
            Tensor { elements: elements.collect(), ty }
        }
        Prim::Unary(f) => build(ty, |i| function(*f, x[0].at(&i), d)),
        Prim::Binary(f) => build(ty, |i| arith(*f, x[0].at(&i), x[1].at(&i), d)),
        Prim::Compare(f) => build(ty, |i| Value::Bool(compare(*f, x[0].at(&i), x[1].at(&i)))),
        Prim::Fma => build(ty, |i| fma(x[0].at(&i), x[1].at(&i), x[2].at(&i), d)),
        Prim::Select => build(ty, |i| if x[0].at(&i).bool() { x[1].at(&i) } else { x[2].at(&i) }),
        Prim::Cast(_) => build(ty, |i| cast(x[0].at(&i), d)),
        Prim::Bitcast(_) => {
            let from = x[0].ty.dtype;
            let turn = |v: &Value| Value::from_word(d, v.to_word(from));
            Tensor { elements: x[0].elements.iter().map(turn).collect(), ty }
        }
        Prim::Reshape(_) | Prim::Barrier => {
            if ty.shape.numel() != x[0].elements.len() {
                return Err(rules::refuse("reshape", Kind::Shape, format_args!("{} does not fit {ty}", x[0].ty)));
            }
            Tensor { ty, elements: x[0].elements.clone() }
        }
        Prim::Permute(order) => build(ty, |i| {
            let mut from = vec![0; i.len()];
            order.iter().zip(&i).for_each(|(&o, &at)| from[o] = at);
            x[0].at(&from)
        }),
        Prim::Expand(_) => build(ty, |i| {
            let sizes = x[0].sizes();
            let lead = i.len() - sizes.len();
            let from: Vec<usize> = sizes.iter().zip(&i[lead..]).map(|(&n, &at)| if n == 1 { 0 } else { at }).collect();
            x[0].at(&from)
        }),
        Prim::Slice { axis, step, .. } => {
            let line = Line::clamped(x[1].position(), ty.shape.dim(*axis), x[0].sizes()[*axis], *step);
            build(ty, |mut i| {
                i[*axis] = line.at(i[*axis]);
                x[0].at(&i)
            })
        }
        Prim::UpdateSlice { axis, step } => {
            let line = Line::clamped(x[2].position(), x[1].ty.shape.dim(*axis), x[0].sizes()[*axis], *step);
            let (mut out, sizes, update) = (x[0].clone(), x[0].sizes(), x[1].sizes());
            for i in indices(&update) {
                let mut to = i.clone();
                to[*axis] = line.at(i[*axis]);
                out.elements[offset(&sizes, &to)] = x[1].at(&i);
            }
            out
        }
        Prim::Pad { axis, before, .. } => {
            let n = x[0].sizes()[*axis];
            build(ty, |mut i| match i[*axis].checked_sub(*before as usize) {
                Some(at) if at < n => {
                    i[*axis] = at;
                    x[0].at(&i)
                }
                _ => x[1].elements[0],
            })
        }
        Prim::Concat { axis } => build(ty, |mut i| {
            let mut part = 0;
            while i[*axis] >= x[part].sizes()[*axis] {
                i[*axis] -= x[part].sizes()[*axis];
                part += 1;
            }
            x[part].at(&i)
        }),
        Prim::Gather { axis } => {
            check_indices("take_along", x[1], x[0].sizes()[*axis])?;
            build(ty, |i| x[0].at(&gathered_index(&i, *axis, x[1])))
        }
        Prim::Scatter { axis, op } => {
            check_indices("scatter_along", x[1], x[0].sizes()[*axis])?;
            let (mut out, sizes, updates) = (x[0].clone(), x[0].sizes(), x[2].sizes());
            for i in indices(&updates) {
                let to = offset(&sizes, &gathered_index(&i, *axis, x[1]));
                out.elements[to] = combine(*op, out.elements[to], x[2].at(&i), d);
            }
            out
        }
        Prim::Reduce { fold: f, axes } => reduce(*f, axes, x[0], ty),
        Prim::ArgReduce { extremum, axis } => arg_reduce(*extremum, *axis, x[0], ty)?,
        Prim::Scan { fold, axis, reverse } => scan::scan(*fold, *axis, *reverse, x[0], ty),
        Prim::LinearScan { axis, reverse } => scan::linear_scan(*axis, *reverse, x, ty),
        Prim::Sort { .. } => return Err(Error::new(Kind::Internal, "oracle: a sort has two results")),
        Prim::Dot { batch, contract } => dot(batch, contract, x, ty),
        Prim::Windows { axis, stride, dilation, .. } => build(ty, |mut i| {
            let k = i.pop().unwrap_or(0);
            i[*axis] = i[*axis] * *stride as usize + k * *dilation as usize;
            x[0].at(&i)
        }),
        Prim::OverlapAdd { axis, stride, dilation, .. } => {
            overlap_add(*axis, *stride as usize, *dilation as usize, x[0], ty)
        }
        Prim::Conv(c) => convolve(c, x, ty),
        Prim::TriangularSolve { upper, transpose, unit } => {
            Tensor::new(ty, factor::solve(*upper, *transpose, *unit, x[0], x[1]))
        }
        Prim::Fft(f) => fourier::transform(*f, x[0], ty),
        Prim::Collective { members: 1, .. } => x[0].clone(),
        Prim::Check(message) => {
            if x[1].elements.iter().any(|v| !v.bool()) {
                return Err(Error::new(Kind::Argument, &**message));
            }
            x[0].clone()
        }
        Prim::Factor(_) | Prim::Loop(_) | Prim::If { .. } | Prim::Collective { .. } | Prim::CustomCall { .. } => {
            return Err(Error::new(
                Kind::Unsupported,
                format!("oracle: {} has no meaning here", crate::prims::name(p)),
            ));
        }
    })
}

/// Positions along an axis: `start + i * step`, the start moved so that all lie inside.
struct Line {
    start: i128,
    step: i128,
}
impl Line {
    fn clamped(start: i128, len: Dim, size: usize, step: i64) -> Line {
        let (step, size) = (i128::from(step), size as i128);
        let reach = (len.bound() as i128 - 1).max(0) * step.abs();
        let (low, high) = if step > 0 { (0, size - 1 - reach) } else { (reach, size - 1) };
        Line { start: start.min(high).max(low), step }
    }
    fn at(&self, i: usize) -> usize {
        (self.start + i as i128 * self.step) as usize
    }
}

fn check_indices(op: &str, index: &Tensor, size: usize) -> Result<()> {
    match index.elements.iter().map(|v| v.int()).find(|&i| i < 0 || i >= size as i128) {
        Some(i) => Err(rules::refuse(op, Kind::Index, format_args!("index {i} is outside 0..{size}"))),
        None => Ok(()),
    }
}

/// Where in the operand the element at `i` of a gather lies.
fn gathered_index(i: &[usize], axis: usize, index: &Tensor) -> Vec<usize> {
    let rank = index.ty.rank();
    let at = index.at(&i[axis..axis + rank]).int() as usize;
    i[..axis].iter().copied().chain([at]).chain(i[axis + rank..].iter().copied()).collect()
}

fn combine(op: ScatterOp, old: Value, new: Value, d: DType) -> Value {
    use rtx_core::Arith;
    match op {
        ScatterOp::Set => new,
        ScatterOp::Add => arith(Arith::Add, old, new, d),
        ScatterOp::Mul => arith(Arith::Mul, old, new, d),
        ScatterOp::Min => arith(Arith::Min, old, new, d),
        ScatterOp::Max => arith(Arith::Max, old, new, d),
    }
}

/// Folds in f64 (or i128) in row-major order, rounding once at the end.
fn reduce(f: Fold, axes: &[usize], x: &Tensor, ty: Type) -> Tensor {
    let kept: Vec<usize> = (0..x.ty.rank()).filter(|i| !axes.contains(i)).collect();
    let sizes = ty.shape.sizes();
    let mut sums = vec![fold_start(f, ty.dtype); ty.shape.numel()];
    for (i, &v) in indices(&x.sizes()).zip(&x.elements) {
        let to: Vec<usize> = kept.iter().map(|&k| i[k]).collect();
        let sum = &mut sums[offset(&sizes, &to)];
        *sum = fold(f, *sum, v);
    }
    Tensor::new(ty, sums)
}

fn arg_reduce(e: Extremum, axis: usize, x: &Tensor, ty: Type) -> Result<Tensor> {
    if x.sizes()[axis] == 0 && !x.sizes().iter().enumerate().any(|(i, &n)| i != axis && n == 0) {
        return Err(rules::refuse("arg_reduce", Kind::Shape, "nothing has no extremum"));
    }
    Ok(build(ty, |mut i| {
        i.insert(axis, 0);
        let mut best = (x.at(&i), 0);
        for at in 1..x.sizes()[axis] {
            i[axis] = at;
            let v = x.at(&i);
            if precedes(e, v, best.0) {
                best = (v, at);
            }
        }
        Value::Int(best.1 as i128)
    }))
}

/// Adds up in f64 (or i128), rounding once at the end.
fn overlap_add(axis: usize, stride: usize, dilation: usize, x: &Tensor, ty: Type) -> Tensor {
    let sizes = ty.shape.sizes();
    let mut sums = vec![fold_start(Fold::Sum, ty.dtype); ty.shape.numel()];
    for (mut i, &v) in indices(&x.sizes()).zip(&x.elements) {
        let k = i.pop().unwrap_or(0);
        i[axis] = i[axis] * stride + k * dilation;
        let sum = &mut sums[offset(&sizes, &i)];
        *sum = fold(Fold::Sum, *sum, v);
    }
    Tensor::new(ty, sums)
}

/// Sums products in f64 (or i128), the zeros of the padding among them, rounding once at the end.
fn convolve(c: &Convolution, x: &[&Tensor], ty: Type) -> Tensor {
    let (sizes, window) = (x[0].sizes(), x[1].sizes());
    let (channels, outs) = (window[1], window[0] / c.groups);
    let zero = if ty.dtype.class() == Class::Float { Value::Float(0.0) } else { Value::Int(0) };
    let dtype = ty.dtype;
    build(ty, |i| {
        let mut sum = zero;
        for k in indices(&window[1..]) {
            let mut from = vec![i[0], i[1] / outs * channels + k[0]];
            for (d, dim) in c.dims.iter().enumerate() {
                let at = (i[2 + d] as u64 * dim.stride + k[1 + d] as u64 * dim.dilation) as i64 - dim.low;
                let (step, n) = (dim.base as i64, sizes[2 + d] as i64);
                if at >= 0 && at % step == 0 && at / step < n {
                    from.push((at / step) as usize);
                }
            }
            let value = if from.len() == sizes.len() { x[0].at(&from) } else { zero };
            let weight: Vec<usize> = [i[1]].into_iter().chain(k).collect();
            sum = element::multiply_add(value, x[1].at(&weight), sum);
        }
        cast(sum, dtype)
    })
}

/// Sums products in f64 (or i128), rounding once at the end.
fn dot(batch: &[(usize, usize)], contract: &[(usize, usize)], x: &[&Tensor], ty: Type) -> Tensor {
    let pairs = || batch.iter().chain(contract);
    let free = |rank: usize, side: fn(&(usize, usize)) -> usize| -> Vec<usize> {
        (0..rank).filter(|d| pairs().all(|p| side(p) != *d)).collect()
    };
    let (free_l, free_r) = (free(x[0].ty.rank(), |p| p.0), free(x[1].ty.rank(), |p| p.1));
    let summed: Vec<usize> = contract.iter().map(|p| x[0].sizes()[p.0]).collect();
    let zero = if ty.dtype.class() == Class::Float { Value::Float(0.0) } else { Value::Int(0) };
    let dtype = ty.dtype;
    build(ty, |i| {
        let (mut l, mut r) = (vec![0; x[0].ty.rank()], vec![0; x[1].ty.rank()]);
        let (b, rest) = i.split_at(batch.len());
        let (fl, fr) = rest.split_at(free_l.len());
        batch.iter().zip(b).for_each(|(p, &at)| (l[p.0], r[p.1]) = (at, at));
        free_l.iter().zip(fl).for_each(|(&d, &at)| l[d] = at);
        free_r.iter().zip(fr).for_each(|(&d, &at)| r[d] = at);
        let mut sum = zero;
        for k in indices(&summed) {
            contract.iter().zip(&k).for_each(|(p, &at)| (l[p.0], r[p.1]) = (at, at));
            sum = element::multiply_add(x[0].at(&l), x[1].at(&r), sum);
        }
        cast(sum, dtype)
    })
}
