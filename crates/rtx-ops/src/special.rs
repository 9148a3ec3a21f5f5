//! Special functions (`torch.special`).
use crate::formula::{Formula, Var, emit};
use rtx_core::Result;
use rtx_ir::{Builder, OpDef, ValueId};
use smallvec::smallvec;

pub mod bessel;
mod coefficients;
pub mod gamma;
pub mod normal;
pub mod polynomial;

/// `Σ c_k T_k(t)`, t in [-1, 1], by Clenshaw's recurrence.
fn chebyshev(b: &mut Builder<'_>, t: Formula, c: &[f64]) -> Result<Var> {
    let t = emit(b, t)?;
    let twice = emit(b, t + t)?;
    let (last, rest) = c.split_last().map_or((0.0, c), |(l, r)| (*l, r));
    let (mut older, mut newer): (Formula, Formula) = (0.0.into(), last.into());
    for &c in rest.iter().skip(1).rev() {
        let next = emit(b, twice * newer.clone() - older + c)?;
        (older, newer) = (newer, next.into());
    }
    emit(b, t * newer - older + c[0])
}

/// `Σ c_k x^k` by Horner's rule.
fn polynomial(b: &mut Builder<'_>, x: Var, c: &[f64]) -> Result<Var> {
    let (last, rest) = c.split_last().map_or((0.0, c), |(l, r)| (*l, r));
    let mut y: Formula = last.into();
    for &c in rest.iter().rev() {
        y = emit(b, x * y + c)?.into();
    }
    emit(b, y)
}

/// Another function of the table at x.
fn at(b: &mut Builder<'_>, def: &'static OpDef, x: Var) -> Result<Var> {
    Ok(Var(b.composite(def, smallvec![], &[x.0])?[0]))
}

/// A body of one number in formulas.
fn body(
    b: &mut Builder<'_>,
    v: &[ValueId],
    f: impl FnOnce(&mut Builder<'_>, Var) -> Result<Var>,
) -> Result<rtx_ir::Outs> {
    crate::elementwise::in_float(b, v, |b, v| f(b, Var(v[0])).map(|y| y.0))
}

/// A rule `dx = dy · slope(x)` in formulas.
fn slope(
    b: &mut Builder<'_>,
    cx: &rtx_ir::GradCx<'_>,
    f: impl Fn(&mut Builder<'_>, Var) -> Result<Var>,
) -> Result<rtx_ir::Grads> {
    crate::elementwise::by_slope(b, cx, |b, x| f(b, Var(x)).map(|y| y.0))
}
