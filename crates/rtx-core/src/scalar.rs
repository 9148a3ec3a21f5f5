//! A number from the host, with Python's three kinds.
use crate::DType;
use std::fmt;

/// A host number. Weakly typed: it takes part in promotion by its kind, not its size.
///
/// ```
/// # use rtx_core::{DType, Element, Error, Kind, Location, Scalar};
/// let two = Scalar::from(2);
/// assert_eq!((two.to_f64(), two.to_i64(), two.dtype()), (2.0, 2, DType::I64));
/// assert_eq!(two.promote(DType::F16), DType::F16);
/// assert_eq!(two.to_bits(DType::F32), u64::from(2_f32.to_bits()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    Float(f64),
}

impl Scalar {
    /// As a float.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(b) => b as u8 as f64,
            Scalar::Int(i) => i as f64,
            Scalar::Float(x) => x,
        }
    }
    /// As an integer; floats are truncated toward zero.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(b) => b as i64,
            Scalar::Int(i) => i,
            Scalar::Float(x) => x as i64,
        }
    }
    /// The type PyTorch gives a tensor made of this number.
    pub fn dtype(self) -> DType {
        match self {
            Scalar::Bool(_) => DType::Bool,
            Scalar::Int(_) => DType::I64,
            Scalar::Float(_) => DType::F32,
        }
    }
    /// The type of a tensor of `dtype` combined with this number: the number's class matters, its size does not.
    pub fn promote(self, dtype: DType) -> DType {
        if self.dtype().class() > dtype.class() { self.dtype() } else { dtype }
    }
    /// The bits of this number as one element of `dtype`, zero-extended; of 16 bytes the lower 8, the rest being 0.
    pub fn to_bits(self, dtype: DType) -> u64 {
        use DType::*;
        match dtype {
            Bool => (self.to_f64() != 0.0) as u64,
            U8 | I8 => self.to_i64() as u8 as u64,
            I16 | U16 => self.to_i64() as u16 as u64,
            I32 | U32 => self.to_i64() as u32 as u64,
            I64 | U64 => self.to_i64() as u64,
            F16 => crate::f16_from_f64(self.to_f64()).to_bits() as u64,
            BF16 => crate::bf16_from_f64(self.to_f64()).to_bits() as u64,
            F8E4M3 => crate::F8E4M3::from_f64(self.to_f64()).to_bits() as u64,
            F8E5M2 => crate::F8E5M2::from_f64(self.to_f64()).to_bits() as u64,
            F32 | C64 => (self.to_f64() as f32).to_bits() as u64,
            F64 | C128 => self.to_f64().to_bits(),
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(b) => write!(f, "{b}"),
            Scalar::Int(i) => write!(f, "{i}"),
            Scalar::Float(x) => write!(f, "{x:?}"),
        }
    }
}

macro_rules! from { ($($T:ty => $V:ident as $U:ty),* $(,)?) => { $(impl From<$T> for Scalar { fn from(x: $T) -> Self { Scalar::$V(x as $U) } })* } }
from!(i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64, u8 => Int as i64, u16 => Int as i64, u32 => Int as i64, u64 => Int as i64, usize => Int as i64, f32 => Float as f64, f64 => Float as f64);
impl From<bool> for Scalar {
    fn from(x: bool) -> Self {
        Scalar::Bool(x)
    }
}
