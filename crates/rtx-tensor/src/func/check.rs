//! `gradcheck`: gradients against central differences.
use crate::{Grad, Result, Tensor, from_slice, no_grad, randn, zeros_like};
use rtx_core::{DType, Error, Kind};

/// Options of [`gradcheck`]; the defaults are PyTorch's.
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let loose = func::GradCheck { rtol: 1e-2, ..Default::default() };
/// let x = tensor!([1., 2.]; torch::DType::F64);
/// func::gradcheck(|[x]: [&torch::Tensor; 1]| [x.exp()], [&x], loose)?;
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GradCheck {
    /// Half the distance over which differences are taken.
    pub eps: f64,
    /// How far a slope may be off.
    pub atol: f64,
    /// How far it may be off for each unit of its size.
    pub rtol: f64,
}
impl Default for GradCheck {
    fn default() -> Self {
        GradCheck { eps: 1e-6, atol: 1e-5, rtol: 1e-3 }
    }
}

/// `torch.autograd.gradcheck`: compares the gradients of a function in its f64 arguments with central differences,
/// element by element of every result.
///
/// # Errors
/// The first slope that is off; [`Kind::DType`] for an argument that is not f64.
///
/// # Example
/// ```
/// use rtx_tensor::{self as torch, DType::F64, func::{GradCheck, gradcheck}, tensor};
/// # fn main() -> torch::Result<()> {
/// let x = tensor!([0.5, 1.5]).to(F64);
/// gradcheck(|[x]| [x.sin() * x], [&x], GradCheck::default())?;
/// # Ok(()) }
/// ```
pub fn gradcheck<const N: usize, const M: usize>(
    f: impl Fn([&Tensor; N]) -> [Tensor; M],
    x: [&Tensor; N],
    options: GradCheck,
) -> Result<()> {
    if let Some(i) = x.iter().position(|x| x.dtype() != DType::F64) {
        let what = format!("gradcheck: argument {i} is {}, differences need f64", x[i].dtype());
        return Err(Error::new(Kind::DType, what));
    }
    let x = x.map(|x| x.detach().clone().requires_grad_());
    let y = f(x.each_ref());
    for (k, y) in y.iter().enumerate().filter(|(_, y)| y.dtype().is_float()) {
        for e in 0..y.numel() {
            let found = match y.requires_grad() {
                true => Grad::of(&y.reshape(-1).select(0, e)).retain_graph().find(&x.each_ref())?,
                false => x.iter().map(|_| None).collect(),
            };
            for (i, g) in found.into_iter().enumerate() {
                let got = g.unwrap_or_else(|| zeros_like(&x[i])).to_vec::<f64>()?;
                for (j, &got) in got.iter().enumerate() {
                    let want = difference(&f, &x, (i, j), (k, e), options.eps)?;
                    let off = (got - want).abs();
                    if off.is_nan() || off > options.atol + options.rtol * want.abs() {
                        let what = format!(
                            "gradcheck: result {k} [{e}] in argument {i} [{j}]: the gradient is {got}, differences say {want}"
                        );
                        return Err(Error::new(Kind::Autograd, what));
                    }
                }
            }
        }
    }
    Ok(())
}

/// `torch.autograd.gradgradcheck`: the same for the gradients, as functions of arguments and random cotangents.
///
/// # Errors
/// As [`gradcheck`].
///
/// ```
/// # use rtx_tensor::{self as torch, func, tensor};
/// let x = tensor!([1., 2.]; torch::DType::F64);
/// func::gradgradcheck(|[x]: [&torch::Tensor; 1]| x * x * x, [&x], func::GradCheck::default())?;
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn gradgradcheck<const N: usize>(
    f: impl Fn([&Tensor; N]) -> Tensor,
    x: [&Tensor; N],
    options: GradCheck,
) -> Result<()> {
    let y = no_grad(|| f(x));
    let cotangent = randn(y.shape().as_slice()).to(DType::F64);
    for k in 0..N {
        let gradient = |u: [&Tensor; 1]| -> [Tensor; 1] { [along(&f, x, k, &cotangent, u[0])] };
        gradcheck(gradient, [x[k]], options)?;
    }
    let in_cotangent = |u: [&Tensor; 1]| -> [Tensor; N] {
        let args = x.map(|x| x.detach().clone().requires_grad_());
        gradients(&f, &args, u[0])
    };
    gradcheck(in_cotangent, [&cotangent], options)
}

/// The gradients of all arguments, one after the other in one row, with argument `k` in place.
fn along<const N: usize>(
    f: &impl Fn([&Tensor; N]) -> Tensor,
    x: [&Tensor; N],
    k: usize,
    cotangent: &Tensor,
    at: &Tensor,
) -> Tensor {
    let args: [Tensor; N] =
        std::array::from_fn(|i| if i == k { at.clone() } else { x[i].detach().clone().requires_grad_() });
    let all = gradients(f, &args, cotangent).map(|g| g.reshape(-1));
    crate::cat(&all.each_ref(), 0)
}
fn gradients<const N: usize>(
    f: &impl Fn([&Tensor; N]) -> Tensor,
    args: &[Tensor; N],
    cotangent: &Tensor,
) -> [Tensor; N] {
    let args = args.each_ref().map(|a| if a.requires_grad() { a.alias() } else { a.detach().clone().requires_grad_() });
    let y = f(args.each_ref());
    let found = Grad::of(&y).gradient(cotangent).create_graph().find(&args.each_ref());
    let mut found = found.unwrap_or_default().into_iter();
    std::array::from_fn(|i| found.next().flatten().unwrap_or_else(|| zeros_like(&args[i])))
}

fn difference<const N: usize, const M: usize>(
    f: &impl Fn([&Tensor; N]) -> [Tensor; M],
    x: &[Tensor; N],
    (i, j): (usize, usize),
    (k, e): (usize, usize),
    eps: f64,
) -> Result<f64> {
    let at = |by: f64| -> Result<f64> {
        let mut elements = x[i].detach().to_vec::<f64>()?;
        elements[j] += by;
        let moved = from_slice(&elements, x[i].shape().as_slice());
        let args: [Tensor; N] = std::array::from_fn(|n| if n == i { moved.alias() } else { x[n].detach() });
        let y = f(args.each_ref());
        y[k].detach().reshape(-1).select(0, e).item()
    };
    Ok((at(eps)? - at(-eps)?) / (2.0 * eps))
}
