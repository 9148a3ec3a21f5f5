//! Tolerances.
use rtx_core::{DType, Fold};
use rtx_ir::oracle::{self, Tensor, Value};
use rtx_ir::{Op, Prim, ScatterOp, Type};

/// Compares a result with the oracle's: integers and bools exactly, floats within `ulps` units in the last place of
/// their dtype, relative to the larger of the element and a thousandth of the largest one (a sum's cancellation), each
/// part of a complex number relative to its magnitude; 0 means bit by bit. NaN equals NaN.
///
/// # Errors
/// The first element that is off.
pub fn compare(got: &Tensor, want: &Tensor, ulps: u32) -> Result<(), String> {
    compare_within(got, want, ulps, PLAIN)
}

/// What part of the largest element an element's own size is at least taken for.
const PLAIN: f64 = 1e-3;
/// The same where results are sums of numbers as large as the largest: `y (g - sum g y)` of a softmax's gradient has
/// small elements with the roundings of large ones, and so have factors and transforms, whose error is relative to the
/// norm of all they read.
const SUMMED: f64 = 0.0625;

fn compare_within(got: &Tensor, want: &Tensor, ulps: u32, part: f64) -> Result<(), String> {
    if got.ty != want.ty {
        return Err(format!("is {}, should be {}", got.ty, want.ty));
    }
    let size = |v: &Value| if let Value::Complex(a, b) = v { a.hypot(*b) } else { v.float().abs() };
    let finite = |v: &Value| Some(size(v)).filter(|x| x.is_finite());
    let largest = want.elements.iter().filter_map(finite).fold(0.0, f64::max);
    for (i, (g, w)) in got.elements.iter().zip(&want.elements).enumerate() {
        if !close(*g, *w, ulps, want.ty.dtype, largest * part) {
            return Err(format!("element {i} is {g:?}, should be {w:?} within {ulps} ulps"));
        }
    }
    Ok(())
}

/// Compares what a back end made of one node with the oracle on the same operands: sums within rounding of the sum of
/// magnitudes, everything else within what the definition's samples allow (twice that in f64, where the oracle rounds
/// too).
///
/// # Errors
/// The first element that is off, or what the oracle refuses.
pub fn compare_node(op: &Op, operands: &[&Tensor], got: &[Tensor]) -> Result<(), String> {
    let part = if matches!(op.prim(), Some(Prim::Factor(_) | Prim::Fft(_))) { SUMMED } else { PLAIN };
    compare_node_within(op, operands, got, part)
}

/// [`compare_node`] for composites of a gradient, on operands that no sample of theirs has: small elements may have the
/// roundings of large ones.
///
/// # Errors
/// The first element that is off, or what the oracle refuses.
pub fn compare_node_as_sum(op: &Op, operands: &[&Tensor], got: &[Tensor]) -> Result<(), String> {
    compare_node_within(op, operands, got, SUMMED)
}

fn compare_node_within(op: &Op, operands: &[&Tensor], got: &[Tensor], part: f64) -> Result<(), String> {
    let want = oracle::eval_node(op, operands).map_err(|e| e.to_string())?;
    if want.len() != got.len() {
        return Err(format!("{} results, should be {}", got.len(), want.len()));
    }
    let check = |(i, w): (usize, &Tensor)| match sum_terms(op, operands) {
        Some(terms) if w.ty.dtype.is_float() => compare_sum(op, operands, &got[i], w, terms),
        // Which of two zeros is the extremum depends on the tree.
        _ if matches!(op.prim(), Some(Prim::Reduce { fold: Fold::Max | Fold::Min, .. })) => {
            compare(&without_negative_zeros(&got[i]), &without_negative_zeros(w), 0)
        }
        _ => compare_within(&got[i], w, if w.ty.dtype == DType::F64 { 2 * ulps(op) } else { ulps(op) }, part),
    };
    want.iter().enumerate().try_for_each(check).map_err(|what| format!("{}: {what}", op.name()))
}

/// The most that a sample of the op allows; products of many factors allow as much for each.
fn ulps(op: &Op) -> u32 {
    op.def().and_then(|d| d.samples.iter().map(|s| s.ulps).max()).unwrap_or(0)
}

/// How many numbers an element of the result is a sum or product of, where order or fusing may change its rounding.
fn sum_terms(op: &Op, operands: &[&Tensor]) -> Option<usize> {
    let sizes = |t: &Tensor| t.ty.shape.sizes();
    match op.prim()? {
        Prim::Reduce { fold: Fold::Sum | Fold::Prod, axes } => {
            Some(axes.iter().map(|&a| sizes(operands[0])[a]).product())
        }
        Prim::Dot { contract, .. } => Some(contract.iter().map(|p| sizes(operands[0])[p.0]).product()),
        Prim::Scan { fold: Fold::Sum | Fold::Prod, axis, .. } => Some(sizes(operands[0])[*axis]),
        Prim::LinearScan { axis, .. } => Some(2 * sizes(operands[0])[*axis]),
        Prim::Conv(_) => Some(sizes(operands[1])[1..].iter().product()),
        Prim::OverlapAdd { .. } => sizes(operands[0]).last().copied(),
        Prim::Scatter { op: ScatterOp::Add | ScatterOp::Mul, .. } => Some(1 + operands[1].elements.len()),
        _ => None,
    }
}

/// Within `terms` roundings of the same sum of magnitudes (for products: of the product).
fn compare_sum(op: &Op, operands: &[&Tensor], got: &Tensor, want: &Tensor, terms: usize) -> Result<(), String> {
    if got.ty != want.ty {
        return Err(format!("is {}, should be {}", got.ty, want.ty));
    }
    let absolute: Vec<Tensor> = operands.iter().map(|t| magnitude(t)).collect();
    let scale = oracle::eval_node(op, &absolute.iter().collect::<Vec<_>>()).map_err(|e| e.to_string())?;
    let allowed = |i: usize| (terms + 2) as f64 * epsilon(want.ty.dtype) * scale[0].elements[i].float();
    for (i, (g, w)) in got.elements.iter().zip(&want.elements).enumerate() {
        let (g, w) = (g.float(), w.float());
        // Where the magnitudes overflow, so may partial sums: any result is as good.
        let fine = g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= allowed(i) || !allowed(i).is_finite();
        if !fine && (g - w).abs() > least(want.ty.dtype) * (terms + 2) as f64 {
            return Err(format!("element {i} is {g:e}, should be {w:e} within {:e}", allowed(i)));
        }
    }
    Ok(())
}

fn without_negative_zeros(t: &Tensor) -> Tensor {
    let one_zero = |v: &Value| if let Value::Float(x) = v { Value::Float(x + 0.0) } else { *v };
    Tensor::new(Type::new(t.ty.dtype, t.ty.shape.clone()), t.elements.iter().map(one_zero).collect())
}

fn magnitude(t: &Tensor) -> Tensor {
    let absolute = |v: &Value| if let Value::Float(x) = v { Value::Float(x.abs()) } else { *v };
    Tensor::new(Type::new(t.ty.dtype, t.ty.shape.clone()), t.elements.iter().map(absolute).collect())
}

fn close(got: Value, want: Value, ulps: u32, dtype: DType, least_size: f64) -> bool {
    if let (Value::Complex(a, b), Value::Complex(c, d), true) = (got, want, ulps > 0) {
        let room = allowed(ulps, dtype.real(), c.hypot(d), least_size);
        let near = |g: f64, w: f64| g == w || (g.is_nan() && w.is_nan()) || (g - w).abs() <= room;
        return near(a, c) && near(b, d);
    }
    let (Value::Float(g), Value::Float(w), true) = (got, want, ulps > 0) else { return got == want };
    if g == w || (g.is_nan() && w.is_nan()) {
        return true;
    }
    // At the edge of overflow one side may have gone over it.
    if g.is_infinite() != w.is_infinite() {
        return g.signum() == w.signum() && g.abs().min(w.abs()) > 0.99 * greatest(dtype);
    }
    (g - w).abs() <= allowed(ulps, dtype, w.abs(), least_size)
}

/// How far an element of some magnitude may be off.
fn allowed(ulps: u32, dtype: DType, magnitude: f64, least_size: f64) -> f64 {
    f64::from(ulps) * (epsilon(dtype) * magnitude.max(least_size) + least(dtype))
}

/// The distance from 1 to the next number.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    }
}
/// The smallest number above 0.
fn least(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(1),
        DType::F16 => 2f64.powi(-24),
        _ => f64::from(f32::from_bits(1)),
    }
}
/// The largest number.
fn greatest(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::MAX,
        DType::F16 => 65504.0,
        _ => f64::from(f32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_ulps_is_bit_by_bit() {
        let t = |x: f64| Tensor::floats(DType::F32, [1], [x]);
        assert!(compare(&t(f64::NAN), &t(f64::NAN), 0).is_ok());
        assert!(compare(&t(0.0), &t(-0.0), 0).is_err());
        assert!(compare(&t(0.0), &t(-0.0), 1).is_ok());
        assert!(compare(&t(1.0 + 2.0 * f64::from(f32::EPSILON)), &t(1.0), 2).is_ok());
        assert!(compare(&t(1.0 + 4.0 * f64::from(f32::EPSILON)), &t(1.0), 2).is_err());
    }
}
