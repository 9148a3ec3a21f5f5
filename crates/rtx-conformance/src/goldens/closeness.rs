//! How near a result must be to PyTorch's: `|a - b| <= atol + rtol |b|`, NaN equal to NaN, all else exact.
use rtx_core::{DType, Element};
use rtx_io::Array;
use rtx_tensor::Tensor;

/// A relative and an absolute tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// In units of the expected value.
    pub rtol: f64,
    /// In units of nothing.
    pub atol: f64,
}

impl Tolerance {
    /// These two.
    pub const fn new(rtol: f64, atol: f64) -> Self {
        Self { rtol, atol }
    }
    /// The absolute part widened for a sum of so many numbers: by the root of what is above 32.
    pub fn for_length(self, n: usize) -> Self {
        Self { atol: self.atol * (n as f64 / 32.0).max(1.0).sqrt(), ..self }
    }
    /// Is `got` near `want`?
    pub fn holds(self, got: f64, want: f64) -> bool {
        got == want || (got.is_nan() && want.is_nan()) || (got - want).abs() <= self.atol + self.rtol * want.abs()
    }
}

/// What distinguishes a tensor from the array that it should be, in one sentence; `None` when nothing does.
pub fn difference(got: &Tensor, want: &Array, tolerance: Tolerance) -> Option<String> {
    let shape: Vec<usize> = got.shape().to_vec();
    if got.dtype() != want.dtype {
        return Some(format!("the dtype is {}, should be {}", got.dtype(), want.dtype));
    }
    if shape != want.shape {
        return Some(format!("the shape is {shape:?}, should be {:?}", want.shape));
    }
    let bytes = match got.read_bytes() {
        Ok(bytes) => bytes,
        Err(e) => return Some(e.message().to_owned()),
    };
    byte_difference(want.dtype, &bytes, &want.bytes, tolerance)
}

/// The first element that differs, of arrays of one dtype and length.
fn byte_difference(dtype: DType, got: &[u8], want: &[u8], tolerance: Tolerance) -> Option<String> {
    if got == want {
        return None;
    }
    let part = match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    };
    let (size, n) = (part.size(), want.len() / part.size());
    let mut worst = None;
    let mut wrong = 0;
    for i in 0..n {
        let (g, w) = (&got[i * size..(i + 1) * size], &want[i * size..(i + 1) * size]);
        let Some((g, w)) = float(part, g).zip(float(part, w)) else {
            if g != w {
                return Some(format!("element {i} differs"));
            }
            continue;
        };
        if !tolerance.holds(g, w) {
            wrong += 1;
            worst.get_or_insert((i, g, w));
        }
    }
    worst.map(|(i, g, w)| format!("element {i} is {g:e}, should be {w:e}; {wrong} of {n} differ"))
}

/// A float, or nothing for what is compared exactly.
fn float(dtype: DType, bytes: &[u8]) -> Option<f64> {
    Some(match dtype {
        DType::F16 => half::f16::read(bytes).to_f64(),
        DType::BF16 => half::bf16::read(bytes).to_f64(),
        DType::F32 => f32::read(bytes).into(),
        DType::F64 => f64::read(bytes),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(x: &[f32]) -> Array {
        Array { dtype: DType::F32, shape: vec![x.len()], bytes: x.iter().flat_map(|x| x.to_ne_bytes()).collect() }
    }

    #[test]
    fn near_is_near_and_far_is_said() {
        let t = Tolerance::new(1e-5, 1e-6);
        let x = rtx_tensor::from_slice(&[1.0f32, f32::NAN, f32::INFINITY], 3);
        assert_eq!(difference(&x, &array(&[1.000001, f32::NAN, f32::INFINITY]), t), None);
        let far = difference(&x, &array(&[1.1, f32::NAN, f32::INFINITY]), t).expect("far");
        assert!(far.starts_with("element 0 is 1e0, should be 1.1") && far.ends_with("1 of 3 differ"), "{far}");
        assert!(difference(&x, &array(&[1.0, 2.0, f32::INFINITY]), t).is_some(), "NaN is not 2");
        assert_eq!(difference(&x, &array(&[1.0]), t).as_deref(), Some("the shape is [3], should be [1]"));
        assert_eq!(t.for_length(128).atol, 2e-6);
    }
}
