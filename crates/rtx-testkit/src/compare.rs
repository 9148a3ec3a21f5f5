//! Tolerances.
use rtx_core::DType;
use rtx_ir::oracle::{Tensor, Value};

/// Compares a result with the oracle's: integers and bools exactly, floats within `ulps` units in the last place of
/// their dtype, relative to the larger of the element and a thousandth of the largest one; 0 means bit by bit. NaN
/// equals NaN.
///
/// # Errors
/// The first element that is off.
pub fn compare(got: &Tensor, want: &Tensor, ulps: u32) -> Result<(), String> {
    if got.ty != want.ty {
        return Err(format!("is {}, should be {}", got.ty, want.ty));
    }
    let finite = |v: &Value| Some(v.float().abs()).filter(|x| x.is_finite());
    let largest = want.elements.iter().filter_map(finite).fold(0.0, f64::max);
    for (i, (g, w)) in got.elements.iter().zip(&want.elements).enumerate() {
        if !close(*g, *w, ulps, want.ty.dtype, largest) {
            return Err(format!("element {i} is {g:?}, should be {w:?} within {ulps} ulps"));
        }
    }
    Ok(())
}

fn close(got: Value, want: Value, ulps: u32, dtype: DType, largest: f64) -> bool {
    let (Value::Float(g), Value::Float(w), true) = (got, want, ulps > 0) else { return got == want };
    if g == w || (g.is_nan() && w.is_nan()) {
        return true;
    }
    (g - w).abs() <= f64::from(ulps) * epsilon(dtype) * w.abs().max(largest * 1e-3)
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
