//! Rust numbers as host scalars.
use rtx_core::Scalar;

/// A Rust number that becomes a [`Scalar`]. It never decides the dtype of a tensor beyond its class (PyTorch's rule)
/// and is never part of a plan's key.
pub trait IntoScalar: Copy {
    /// The number.
    fn scalar(self) -> Scalar;
}
macro_rules! numbers { ($($T:ty)*) => { $(impl IntoScalar for $T { fn scalar(self) -> Scalar { Scalar::from(self) } })* } }
numbers!(f32 f64 i32 i64 u8 u32 usize bool);
impl IntoScalar for Scalar {
    fn scalar(self) -> Scalar {
        self
    }
}
