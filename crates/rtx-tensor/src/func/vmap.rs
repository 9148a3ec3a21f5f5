//! `vmap`: a function of one example, called once for many. Its ops are recorded for one and rewritten for all.
use super::Randomness;
use crate::{
    Location, Result, Tensor, cat, engine,
    failure::OrPanic,
    frame::{self, Purpose, Recorded},
    shape::wrap_dim,
    tape::{Edge, Leaf, Trace, Traced, is_taping},
};
use rtx_autograd::{Batcher, Lane};
use rtx_core::{Dim, Error, Kind};
use rtx_ir::{NodeId, Type, ValueId};

/// Options of [`vmap_with`]: `N` arguments, `M` results. The defaults are PyTorch's.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let columns = func::Vmap { in_dims: [Some(1)], ..Default::default() };
/// let f = func::vmap_with(columns, |[x]: [&torch::Tensor; 1]| [x.sum(..)]);
/// let [y] = f([&tensor!([[1., 2.], [3., 4.]])]);
/// assert_eq!(y.to_vec::<f32>()?, [4., 6.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Vmap<const N: usize, const M: usize> {
    /// Along which dim the examples of each argument lie; `None` for one that is the same for all.
    pub in_dims: [Option<i64>; N],
    /// Along which dim the examples of each result lie; `None` for one that is the same for all.
    pub out_dims: [Option<i64>; M],
    /// What random ops give to each example.
    pub randomness: Randomness,
    /// So many examples at a time.
    pub chunk_size: Option<usize>,
}
impl<const N: usize, const M: usize> Default for Vmap<N, M> {
    fn default() -> Self {
        Vmap { in_dims: [Some(0); N], out_dims: [Some(0); M], randomness: Randomness::Error, chunk_size: None }
    }
}

/// A function of one example becomes one of many, along dim 0.
///
/// # Panics
/// In the call: when the argument has no dim 0, or an op inside is not batched; the message names it.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let norms = func::vmap(|row| (row * row).sum(..)); // written for one row
/// assert_eq!(norms(&tensor!([[1., 2.], [3., 4.]])).to_vec::<f32>()?, [5., 25.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn vmap(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    move |x| {
        let [y] = vmap_with(Vmap::default(), |[x]: [&Tensor; 1]| [f(x)])([x]);
        y
    }
}
/// The same for several arguments, all of them batched along dim 0.
///
/// # Panics
/// As [`vmap`], and when the arguments have different numbers of examples.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let dots = func::vmap_n(|[a, b]: [&torch::Tensor; 2]| (a * b).sum(..));
/// let x = tensor!([[1., 2.], [3., 4.]]);
/// assert_eq!(dots([&x, &x]).to_vec::<f32>()?, [5., 25.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn vmap_n<const N: usize>(f: impl Fn([&Tensor; N]) -> Tensor) -> impl Fn([&Tensor; N]) -> Tensor {
    move |x| {
        let [y] = vmap_with(Vmap::default(), |x: [&Tensor; N]| [f(x)])(x);
        y
    }
}
/// The same with options.
///
/// # Panics
/// As [`vmap_n`].
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let shared = func::Vmap { in_dims: [Some(0), None], ..Default::default() }; // one b for all
/// let f = func::vmap_with(shared, |[a, b]: [&torch::Tensor; 2]| [(a * b).sum(..)]);
/// let [y] = f([&tensor!([[1., 2.], [3., 4.]]), &tensor!([1., 10.])]);
/// assert_eq!(y.to_vec::<f32>()?, [21., 43.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn vmap_with<const N: usize, const M: usize>(
    options: Vmap<N, M>,
    f: impl Fn([&Tensor; N]) -> [Tensor; M],
) -> impl Fn([&Tensor; N]) -> [Tensor; M] {
    move |x| call(&options, x, &f).or_panic()
}

fn call<const N: usize, const M: usize>(
    options: &Vmap<N, M>,
    x: [&Tensor; N],
    f: &dyn Fn([&Tensor; N]) -> [Tensor; M],
) -> Result<[Tensor; M]> {
    let (count, front) = examples(options, x)?;
    let Some(chunk) = options.chunk_size.filter(|&n| n > 0 && n < count) else {
        return together(options, count, &front, f);
    };
    if options.out_dims.contains(&None) {
        let what = "vmap: in chunks every result lies along a dim; out_dims has None";
        return Err(Error::new(Kind::Argument, what));
    }
    let mut parts: [Vec<Tensor>; M] = std::array::from_fn(|_| Vec::new());
    for first in (0..count).step_by(chunk) {
        let len = chunk.min(count - first);
        let part = |(t, is_batched): &(Tensor, bool)| {
            (if *is_batched { t.narrow(0, first, len) } else { t.alias() }, *is_batched)
        };
        let ys = together(options, len, &front.each_ref().map(part), f)?;
        parts.iter_mut().zip(ys).for_each(|(p, y)| p.push(y));
    }
    let dims = options.out_dims.map(|d| d.unwrap_or(0));
    Ok(std::array::from_fn(|i| cat(&parts[i].iter().collect::<Vec<_>>(), dims[i])))
}

/// How many examples there are, and the arguments with the examples in front.
fn examples<const N: usize, const M: usize>(
    options: &Vmap<N, M>,
    x: [&Tensor; N],
) -> Result<(usize, [(Tensor, bool); N])> {
    let mut sizes = Vec::new();
    for (i, (x, dim)) in x.into_iter().zip(options.in_dims).enumerate() {
        if let Some(d) = dim {
            if x.rank() == 0 {
                let what = format!("vmap: argument {i} has rank 0, and so no dim {d} with examples");
                return Err(Error::new(Kind::Shape, what));
            }
            sizes.push(x.shape()[wrap_dim("vmap", d, x.rank())?]);
        }
    }
    let Some(&count) = sizes.first() else {
        return Err(Error::new(Kind::Argument, "vmap: no argument is batched, in_dims are all None"));
    };
    if sizes.iter().any(|&n| n != count) {
        let what = format!("vmap: the arguments have different numbers of examples: {sizes:?}");
        return Err(Error::new(Kind::Shape, what));
    }
    let front = std::array::from_fn(|i| match options.in_dims[i] {
        Some(d) => (x[i].movedim(d, 0), true),
        None => (x[i].alias(), false),
    });
    Ok((count, front))
}

fn together<const N: usize, const M: usize>(
    options: &Vmap<N, M>,
    count: usize,
    front: &[(Tensor, bool); N],
    f: &dyn Fn([&Tensor; N]) -> [Tensor; M],
) -> Result<[Tensor; M]> {
    let given: Vec<Traced> = front.iter().filter(|a| a.1).map(|(t, _)| t.traced()).collect::<Result<_>>()?;
    let taping = is_taping();
    let variable = |t: &Traced| t.edge.as_ref().filter(|_| taping).map(|_| Edge::Leaf(Leaf::variable()));
    let types: Vec<(Type, Option<Edge>)> = given.iter().map(|t| (one_of(t.value.ty()), variable(t))).collect();
    let recorded = frame::within(Purpose::Batch, &types, |placeholders| {
        let ids: Vec<Traced> = placeholders.clone();
        let mut placeholders = placeholders.into_iter();
        let own = |(t, is_batched): &(Tensor, bool)| match placeholders.next().filter(|_| *is_batched) {
            Some(p) => Tensor::from_traced(p),
            None => t.alias(),
        };
        let args = arguments(front, own);
        let outs = f(args.each_ref());
        let traced = outs.iter().map(Tensor::traced).collect::<Result<Vec<Traced>>>()?;
        Ok((ids, traced))
    })?;
    let outs =
        Rewrite { options: (options.randomness, &options.out_dims), count, given: &given, at: Location::caller() }
            .run(recorded)?;
    let mut placed = Vec::with_capacity(M);
    for (t, dim) in outs.into_iter().zip(options.out_dims) {
        let t = Tensor::from_traced(t);
        placed.push(match dim {
            None | Some(0) => t,
            Some(d) => t.movedim(0, d),
        });
    }
    placed.try_into().map_err(|_| Error::new(Kind::Internal, "vmap: a result is lost"))
}

/// The arguments of one example.
fn arguments<const N: usize>(
    front: &[(Tensor, bool); N],
    mut own: impl FnMut(&(Tensor, bool)) -> Tensor,
) -> [Tensor; N] {
    std::array::from_fn(|i| if front[i].1 { own(&front[i]) } else { front[i].0.alias() })
}

/// The type of one example.
fn one_of(ty: &Type) -> Type {
    let mut shape = ty.shape.clone();
    shape.remove(0);
    Type { dtype: ty.dtype, shape }
}

/// Records the program of one example for all.
struct Rewrite<'a> {
    options: (Randomness, &'a [Option<i64>]),
    count: usize,
    /// The batched arguments, examples in front.
    given: &'a [Traced],
    at: Location,
}

impl Rewrite<'_> {
    fn run(&self, recorded: Recorded<(Vec<Traced>, Vec<Traced>)>) -> Result<Vec<Traced>> {
        let Recorded { result: (placeholders, mut outs), program, notes, written } = recorded;
        let cells = written.now();
        let results = outs.len();
        outs.extend(cells.iter().map(|c| c.now.clone()));
        let ids: Vec<Option<ValueId>> = outs.iter().map(|t| program.id(&t.value)).collect();
        let wanted: Vec<ValueId> = ids.iter().flatten().copied().collect();
        let taping = is_taping();
        let flows = taping && self.given.iter().chain(notes.captured.iter().map(|c| &c.1)).any(|t| t.edge.is_some());
        if let Some(custom) = notes.custom.as_ref().filter(|_| flows) {
            let what = format!("vmap: {custom} has a gradient of its own, and is differentiated from outside");
            return Err(Error::new(Kind::Unsupported, what).hint("differentiate inside: vmap(grad(f))"));
        }
        let (randomness, out_dims) = self.options;
        let made = engine::record_where(self.given.iter().map(|t| &t.value), self.at, |r| {
            let mut trace = Trace::new(r, taping);
            let mut batcher = Batcher::new(&program.graph, Dim::from(self.count), randomness);
            for (p, t) in placeholders.iter().zip(self.given) {
                let v = trace.import(t)?;
                if let Some(id) = program.id(&p.value) {
                    batcher.give(id, Lane::batched(v));
                }
            }
            for (id, t) in &notes.captured {
                batcher.give(*id, Lane::shared(trace.import(t)?));
            }
            for (id, value) in &program.captured {
                let t = Traced { value: value.clone(), edge: None };
                batcher.give(*id, Lane::shared(trace.import(&t)?));
            }
            for node in batcher.needed(&wanted) {
                step(&mut trace, &mut batcher, node, !taping || notes.flows(node))?;
            }
            let mut made = Vec::new();
            for (i, (t, id)) in outs.iter().zip(&ids).enumerate() {
                let mut lane = match id {
                    Some(id) => batcher.lane(*id)?,
                    None => Lane::shared(trace.import(t)?),
                };
                if i >= results && lane.is_batched {
                    let what = "vmap: writes to a tensor from outside what differs from example to example";
                    return Err(Error::new(Kind::Argument, what).hint("write to a clone, and return it"));
                }
                match out_dims.get(i) {
                    Some(None) if lane.is_batched => {
                        let what = format!("vmap: result {i} differs from example to example, its out_dim is None");
                        return Err(Error::new(Kind::Argument, what));
                    }
                    Some(Some(_)) if !lane.is_batched => {
                        let mut b = trace.recorder.builder();
                        let mut shape = b.shape(lane.value);
                        shape.insert(0, self.count);
                        lane = Lane::batched(b.expand(lane.value, &shape)?);
                    }
                    _ => {}
                }
                made.push(trace.export(lane.value)?);
            }
            Ok(made)
        });
        let mut made = made?;
        let after = made.split_off(results);
        written.replace(&cells, after);
        Ok(made)
    }
}

/// One node, with records or without.
fn step(trace: &mut Trace<'_, '_>, batcher: &mut Batcher<'_>, node: NodeId, flows: bool) -> Result<()> {
    if flows {
        return batcher.step(&mut trace.recorder.builder(), node);
    }
    trace.without_records(|trace| batcher.step(&mut trace.recorder.builder(), node))
}
