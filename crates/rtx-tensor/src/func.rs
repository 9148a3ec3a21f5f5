//! `torch.func`: transformations of functions of tensors. They nest in any order, and with `backward()`.
//!
//! A function takes tensors by reference and returns tensors. For several arguments there is a twin that takes an
//! array: `grad` and `grad_n`.
//!
//! ```
//! use rtx_tensor::{self as torch, func::{grad, hessian, vmap}, tensor};
//! # fn main() -> torch::Result<()> {
//! let cube = |x: &torch::Tensor| x.pow(3).sum(..);
//! let x = tensor!([1., 2.]);
//! assert_eq!(grad(cube)(&x).to_vec::<f32>()?, [3.0, 12.0]);
//! assert_eq!(hessian(cube)(&x).to_vec::<f32>()?, [6.0, 0.0, 0.0, 12.0]);
//! let rows = tensor!([[1., 2.], [3., 4.]]);
//! assert_eq!(vmap(grad(cube))(&rows).to_vec::<f32>()?, [3.0, 12.0, 27.0, 48.0]); // a gradient an example
//! # Ok(()) }
//! ```
use crate::{
    Location, Result, Tensor,
    backward::{Options, Walk},
    eye,
    failure::OrPanic,
    tape::{self, Edge, Leaf, Record, Traced, is_taping, with_taping},
    zeros_like,
};
use rtx_core::{Error, Kind};
use std::{collections::HashSet, sync::Arc};

mod check;
mod vmap;

pub use check::{GradCheck, gradcheck, gradgradcheck};
pub use rtx_autograd::Randomness;
pub use vmap::{Vmap, vmap, vmap_n, vmap_with};

/// The gradient of a function that returns one number.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let f = |x: &torch::Tensor| (x * x).sum(..);
/// assert_eq!(func::grad(f)(&tensor!([1., 2.])).to_vec::<f32>()?, [2., 4.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn grad(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    move |x| grad_and_value(&f)(x).0
}
/// The gradients in all arguments of a function that returns one number.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let f = |[x, y]: [&torch::Tensor; 2]| (x * y).sum(..);
/// let [gx, gy] = func::grad_n(f)([&tensor!(2.), &tensor!(3.)]);
/// assert_eq!((gx.item::<f32>()?, gy.item::<f32>()?), (3., 2.));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn grad_n<const N: usize>(f: impl Fn([&Tensor; N]) -> Tensor) -> impl Fn([&Tensor; N]) -> [Tensor; N] {
    move |x| grad_and_value_n(&f)(x).0
}
/// The gradient of a function that returns one number, and the number.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let f = |x: &torch::Tensor| (x * x).sum(..);
/// let (g, y) = func::grad_and_value(f)(&tensor!([1., 2.]));
/// assert_eq!((g.to_vec::<f32>()?, y.item::<f32>()?), (vec![2., 4.], 5.));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn grad_and_value(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> (Tensor, Tensor) {
    move |x| {
        let ([g], y) = grad_and_value_n(|[x]: [&Tensor; 1]| f(x))([x]);
        (g, y)
    }
}
/// The gradients in all arguments of a function that returns one number, and the number.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let f = |[x, y]: [&torch::Tensor; 2]| (x * y).sum(..);
/// let ([gx, _], value) = func::grad_and_value_n(f)([&tensor!(2.), &tensor!(3.)]);
/// assert_eq!((gx.item::<f32>()?, value.item::<f32>()?), (3., 6.));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn grad_and_value_n<const N: usize>(
    f: impl Fn([&Tensor; N]) -> Tensor,
) -> impl Fn([&Tensor; N]) -> ([Tensor; N], Tensor) {
    move |x| {
        let (level, [y]) = Level::call("grad", x, |x| [f(x)]).or_panic();
        if y.numel() != 1 {
            let what = format!("grad: the function returns one number, got shape {:?}", y.shape());
            Err::<(), _>(Error::new(Kind::Autograd, what)).or_panic();
        }
        let one = crate::ones_like(&y);
        let found = level.pull([&y], [&one]).or_panic();
        (found, level.result(y))
    }
}

/// The value of a function, and what takes a cotangent of it back to one of its argument.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let (y, back) = func::vjp(|x: &torch::Tensor| x * x, &tensor!([1., 2.]));
/// assert_eq!(y.to_vec::<f32>()?, [1., 4.]);
/// assert_eq!(back(&tensor!([1., 10.])).to_vec::<f32>()?, [2., 40.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn vjp<F>(f: F, x: &Tensor) -> (Tensor, impl Fn(&Tensor) -> Tensor + use<F>)
where
    F: FnOnce(&Tensor) -> Tensor,
{
    let ([y], pull) = vjp_n(|[x]: [&Tensor; 1]| [f(x)], [x]);
    (y, move |u: &Tensor| {
        let [g] = pull([u]);
        g
    })
}
/// The values of a function of several arguments, and what takes cotangents of them back to those of the arguments.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let f = |[x]: [&torch::Tensor; 1]| [x * x];
/// let ([y], back) = func::vjp_n(f, [&tensor!([1., 2.])]);
/// let [g] = back([&tensor!([1., 10.])]);
/// assert_eq!((y.to_vec::<f32>()?, g.to_vec::<f32>()?), (vec![1., 4.], vec![2., 40.]));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn vjp_n<F, const N: usize, const M: usize>(
    f: F,
    x: [&Tensor; N],
) -> ([Tensor; M], impl Fn([&Tensor; M]) -> [Tensor; N] + use<F, N, M>)
where
    F: FnOnce([&Tensor; N]) -> [Tensor; M],
{
    let (level, y) = Level::call("vjp", x, f).or_panic();
    let results = y.each_ref().map(|y| level.result(y.alias()));
    (results, move |u: [&Tensor; M]| level.pull(y.each_ref(), u).or_panic())
}

/// The value of a function, and its slope along a tangent.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let (y, slope) = func::jvp(|x: &torch::Tensor| x * x, &tensor!([1., 2.]), &tensor!([1., 0.]));
/// assert_eq!((y.to_vec::<f32>()?, slope.to_vec::<f32>()?), (vec![1., 4.], vec![2., 0.]));
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn jvp(f: impl FnOnce(&Tensor) -> Tensor, x: &Tensor, tangent: &Tensor) -> (Tensor, Tensor) {
    let ([y], [t]) = jvp_n(|[x]: [&Tensor; 1]| [f(x)], [x], [tangent]);
    (y, t)
}
/// The values of a function of several arguments, and their slopes where all move along their tangents.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let f = |[x]: [&torch::Tensor; 1]| [x * x];
/// let ([_], [slope]) = func::jvp_n(f, [&tensor!([1., 2.])], [&tensor!([1., 0.])]);
/// assert_eq!(slope.to_vec::<f32>()?, [2., 0.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn jvp_n<const N: usize, const M: usize>(
    f: impl FnOnce([&Tensor; N]) -> [Tensor; M],
    x: [&Tensor; N],
    tangents: [&Tensor; N],
) -> ([Tensor; M], [Tensor; M]) {
    let (y, push) = linearize_n(f, x);
    let slopes = push(tangents);
    (y, slopes)
}

/// The value of a function, and what takes a tangent of its argument to its slope.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let (_, push) = func::linearize(|x: &torch::Tensor| x * x, &tensor!([1., 2.]));
/// assert_eq!(push(&tensor!([1., 1.])).to_vec::<f32>()?, [2., 4.]); // as often as wanted
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn linearize<F>(f: F, x: &Tensor) -> (Tensor, impl Fn(&Tensor) -> Tensor + use<F>)
where
    F: FnOnce(&Tensor) -> Tensor,
{
    let ([y], push) = linearize_n(|[x]: [&Tensor; 1]| [f(x)], [x]);
    (y, move |t: &Tensor| {
        let [s] = push([t]);
        s
    })
}
/// The same for several arguments.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let f = |[x]: [&torch::Tensor; 1]| [x * x];
/// let ([_], push) = func::linearize_n(f, [&tensor!([1., 2.])]);
/// let [slope] = push([&tensor!([1., 1.])]);
/// assert_eq!(slope.to_vec::<f32>()?, [2., 4.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn linearize_n<F, const N: usize, const M: usize>(
    f: F,
    x: [&Tensor; N],
) -> ([Tensor; M], impl Fn([&Tensor; N]) -> [Tensor; M] + use<F, N, M>)
where
    F: FnOnce([&Tensor; N]) -> [Tensor; M],
{
    let (level, y) = Level::call("jvp", x, f).or_panic();
    let results = y.each_ref().map(|y| level.result(y.alias()));
    let linear = level.linear(&y).or_panic();
    (results, move |t: [&Tensor; N]| linear.push(t).or_panic())
}

/// The Jacobian, row by row: shape of the result, then shape of the argument.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let j = func::jacrev(|x: &torch::Tensor| x * x)(&tensor!([1., 2.]));
/// assert_eq!(j.to_vec::<f32>()?, [2., 0., 0., 4.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn jacrev(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    move |x| {
        let (y, pull) = vjp(&f, x);
        let rows = vmap(pull)(&basis(&y));
        rows.reshape([y.shape(), x.shape()].concat().as_slice())
    }
}
/// The Jacobian, column by column: shape of the result, then shape of the argument.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let j = func::jacfwd(|x: &torch::Tensor| x * x)(&tensor!([1., 2.]));
/// assert_eq!(j.to_vec::<f32>()?, [2., 0., 0., 4.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn jacfwd(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    move |x| {
        let (y, push) = linearize(&f, x);
        let columns = vmap(push)(&basis(x));
        columns.movedim(0, -1).reshape([y.shape(), x.shape()].concat().as_slice())
    }
}
/// The second derivatives of a function, `jacfwd(jacrev(f))`: shape of the result, then twice the shape of the argument.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let h = func::hessian(|x: &torch::Tensor| (x * x * x).sum(..))(&tensor!([1., 2.]));
/// assert_eq!(h.to_vec::<f32>()?, [6., 0., 0., 12.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn hessian(f: impl Fn(&Tensor) -> Tensor) -> impl Fn(&Tensor) -> Tensor {
    jacfwd(jacrev(f))
}

/// For each element of a tensor, ones and zeros of its shape with the one there.
fn basis(like: &Tensor) -> Tensor {
    let n = like.numel();
    eye(n).to(like.dtype()).reshape([vec![n], like.shape()].concat().as_slice())
}

/// One transformation that is being carried out: its variables stand for the arguments.
struct Level<const N: usize> {
    name: &'static str,
    variables: [Tensor; N],
    edges: [Edge; N],
    /// Is what it makes to be differentiated from outside?
    from_outside: bool,
    at: Location,
}

impl<const N: usize> Level<N> {
    /// Calls a function of variables.
    fn call<T: AsRef<[Tensor]>>(
        name: &'static str,
        x: [&Tensor; N],
        f: impl FnOnce([&Tensor; N]) -> T,
    ) -> Result<(Self, T)> {
        let at = Location::caller();
        let since = tape::next_id();
        let outer = is_taping();
        let mut from_outside = false;
        let (mut variables, mut edges) = (Vec::new(), Vec::new());
        for (i, x) in x.into_iter().enumerate() {
            if !x.dtype().is_float() {
                let what = format!("{name}: only floats have gradients, argument {i} is {}", x.ty());
                return Err(Error::new(Kind::Autograd, what));
            }
            let is_traced = outer && x.requires_grad();
            from_outside |= is_traced;
            let t = if is_traced { x.clone().traced()? } else { variable(x)? };
            edges.extend(t.edge.clone());
            variables.push(Tensor::from_traced(t));
        }
        let lost = || Error::new(Kind::Internal, format!("{name}: a variable is lost"));
        let variables: [Tensor; N] = variables.try_into().map_err(|_| lost())?;
        let edges: [Edge; N] = edges.try_into().map_err(|_| lost())?;
        let y = with_taping(true, || f(variables.each_ref()));
        if outer && !from_outside {
            let mut roots = Vec::new();
            for y in y.as_ref() {
                roots.extend(y.traced()?.edge);
            }
            from_outside = reach_outside(roots, since);
        }
        Ok((Level { name, variables, edges, from_outside, at }, y))
    }

    /// A result as the caller sees it.
    fn result(&self, y: Tensor) -> Tensor {
        if self.from_outside { y } else { y.detach() }
    }

    fn options(&self, create_graph: bool) -> Options {
        Options { create_graph, retain_graph: true, at: self.at }
    }

    /// Cotangents of the variables; zeros where nothing depends on them.
    fn pull<const M: usize>(&self, y: [&Tensor; M], cotangents: [&Tensor; M]) -> Result<[Tensor; N]> {
        let create_graph = is_taping() && (self.from_outside || cotangents.iter().any(|u| u.requires_grad()));
        let mut roots = Vec::new();
        for (i, (y, u)) in y.into_iter().zip(cotangents).enumerate() {
            if y.shape() != u.shape() {
                let what =
                    format!("{}: result {i} has shape {:?}, its cotangent {:?}", self.name, y.shape(), u.shape());
                return Err(Error::new(Kind::Autograd, what));
            }
            if let Some(edge) = y.traced()?.edge {
                let u = if u.dtype() == y.dtype() { u.alias() } else { u.to(y.dtype()) };
                roots.push((edge, u.traced()?));
            }
        }
        let walk = Walk::run(roots, &self.edges, self.options(create_graph))?;
        let found = |i: usize| walk.found(i).map_or_else(|| zeros_like(&self.variables[i]), Tensor::from_traced);
        Ok(std::array::from_fn(found))
    }

    /// The gradient as a linear function of its cotangents, to be transposed.
    fn linear<const M: usize>(self, y: &[Tensor; M]) -> Result<Linear<N, M>> {
        let (mut roots, mut seeds) = (Vec::new(), Vec::new());
        for y in y {
            let zeros = variable(&with_taping(false, || zeros_like(y)))?;
            if let Some(edge) = y.traced()?.edge {
                roots.push((edge, zeros.clone()));
            }
            seeds.push(zeros);
        }
        let walk = with_taping(true, || Walk::run(roots, &self.edges, self.options(true)))?;
        let gradient = std::array::from_fn(|i| walk.found(i));
        let lost = |_| Error::new(Kind::Internal, "jvp: a cotangent is lost");
        Ok(Linear { level: self, gradient, seeds: seeds.try_into().map_err(lost)? })
    }
}

/// A gradient that is linear in its cotangents, which are zero: its own gradient in them is forward mode.
struct Linear<const N: usize, const M: usize> {
    level: Level<N>,
    gradient: [Option<Traced>; N],
    seeds: [Traced; M],
}

impl<const N: usize, const M: usize> Linear<N, M> {
    fn push(&self, tangents: [&Tensor; N]) -> Result<[Tensor; M]> {
        let level = &self.level;
        let create_graph = is_taping() && (level.from_outside || tangents.iter().any(|t| t.requires_grad()));
        let mut roots = Vec::new();
        for (i, (g, t)) in self.gradient.iter().zip(tangents).enumerate() {
            let x = &level.variables[i];
            if x.shape() != t.shape() {
                let what = format!("jvp: argument {i} has shape {:?}, its tangent {:?}", x.shape(), t.shape());
                return Err(Error::new(Kind::Autograd, what));
            }
            if let Some(edge) = g.as_ref().and_then(|g| g.edge.clone()) {
                let t = if t.dtype() == x.dtype() { t.alias() } else { t.to(x.dtype()) };
                roots.push((edge, t.traced()?));
            }
        }
        let edges: Vec<Edge> = self.seeds.iter().filter_map(|s| s.edge.clone()).collect();
        let walk = Walk::run(roots, &edges, level.options(create_graph))?;
        let zeros = |i: usize| zeros_like(&Tensor::from_traced(Traced { edge: None, ..self.seeds[i].clone() }));
        Ok(std::array::from_fn(|i| walk.found(i).map_or_else(|| zeros(i), Tensor::from_traced)))
    }
}

/// A value as a variable of its own.
fn variable(x: &Tensor) -> Result<Traced> {
    Ok(Traced { value: x.traced()?.value, edge: Some(Edge::Leaf(Leaf::variable())) })
}

/// Does a gradient from these edges reach what was there before?
fn reach_outside(roots: Vec<Edge>, since: u64) -> bool {
    let mut seen: HashSet<u64> = HashSet::new();
    let mut open = roots;
    while let Some(edge) = open.pop() {
        if edge.sequence() < since {
            return true;
        }
        if let Edge::Node(record, _) = edge
            && seen.insert(record.sequence)
        {
            open.extend(next_edges(&record));
        }
    }
    false
}
fn next_edges(record: &Arc<Record>) -> Vec<Edge> {
    record.payload().map_or_else(|_| Vec::new(), |p| p.edges.iter().flatten().cloned().collect())
}
