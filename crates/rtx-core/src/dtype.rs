//! Element types, their sizes, classes and promotion.
use std::fmt;

/// An element type.
///
/// ```
/// # use rtx_core::{DType, Element, Error, Kind, Location, Scalar};
/// assert_eq!(DType::parse("bf16").map(DType::name), Some("bf16"));
/// assert_eq!(DType::BF16.size(), 2);
/// assert_eq!(DType::I64.promote(DType::F16), DType::F16); // PyTorch's rule: the class decides first
/// assert!(DType::F32.is_float() && DType::F32.is_differentiable() && !DType::F32.is_int());
/// assert!(DType::F32.class() < DType::C64.class());
/// assert_eq!((DType::F32.complex(), DType::C128.real()), (DType::C64, DType::F64));
/// assert!(DType::ALL.iter().filter(|d| d.has_arithmetic()).count() > 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum DType {
    Bool,
    U8,
    I8,
    I16,
    I32,
    I64,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    F8E4M3,
    F8E5M2,
    C64,
    C128,
}

/// What kind of number an element type holds; classes promote upwards in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Class {
    Bool,
    Int,
    Float,
    Complex,
}

impl DType {
    /// Every element type, in declaration order.
    pub const ALL: [DType; 17] = {
        use DType::*;
        [Bool, U8, I8, I16, I32, I64, U16, U32, U64, F16, BF16, F32, F64, F8E4M3, F8E5M2, C64, C128]
    };

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        use DType::*;
        match self {
            Bool | U8 | I8 | F8E4M3 | F8E5M2 => 1,
            I16 | U16 | F16 | BF16 => 2,
            I32 | U32 | F32 => 4,
            I64 | U64 | F64 | C64 => 8,
            C128 => 16,
        }
    }

    /// The short name: `f32`, `i64`, `bool`.
    pub const fn name(self) -> &'static str {
        use DType::*;
        match self {
            Bool => "bool",
            U8 => "u8",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U16 => "u16",
            U32 => "u32",
            U64 => "u64",
            F16 => "f16",
            BF16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            F8E4M3 => "f8e4m3",
            F8E5M2 => "f8e5m2",
            C64 => "c64",
            C128 => "c128",
        }
    }

    /// The inverse of [`DType::name`].
    pub fn parse(name: &str) -> Option<DType> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bool, integer, float or complex.
    pub const fn class(self) -> Class {
        use DType::*;
        match self {
            Bool => Class::Bool,
            U8 | I8 | I16 | I32 | I64 | U16 | U32 | U64 => Class::Int,
            F16 | BF16 | F32 | F64 | F8E4M3 | F8E5M2 => Class::Float,
            C64 | C128 => Class::Complex,
        }
    }

    /// Is it a floating-point type?
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float)
    }
    /// Do gradients flow through values of it? Through floats and complex numbers.
    pub const fn is_differentiable(self) -> bool {
        matches!(self.class(), Class::Float | Class::Complex)
    }
    /// Is it an integer type (bool is not)?
    pub const fn is_int(self) -> bool {
        matches!(self.class(), Class::Int)
    }

    /// The type of a complex type's parts; a real type itself.
    pub const fn real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            real => real,
        }
    }
    /// The complex type with parts of this type, if it is f32 or f64; any other type itself.
    pub const fn complex(self) -> DType {
        match self {
            DType::F32 => DType::C64,
            DType::F64 => DType::C128,
            other => other,
        }
    }
    /// Is there arithmetic on it, or is it only stored, moved and cast? Complex numbers and 8-bit floats have none.
    pub const fn has_arithmetic(self) -> bool {
        use DType::*;
        !matches!(self, F8E4M3 | F8E5M2 | C64 | C128)
    }

    /// The type two tensors meet in (PyTorch's `promote_types`). PyTorch refuses an 8-bit float beside another float
    /// type, and `u16`, `u32` or `u64` beside another integer type; here the former meet in the larger type (both
    /// 8-bit floats in f16, which holds them), the latter as `u8` does: in the next signed type, `i64` at most.
    pub fn promote(self, other: DType) -> DType {
        use DType::*;
        if self == other {
            return self;
        }
        let (a, b) = if self.class() <= other.class() { (self, other) } else { (other, self) };
        if a.class() < b.class() {
            return match (a, b) {
                (F64, C64) => C128,
                _ => b,
            };
        }
        match (a, b) {
            (F16, BF16) | (BF16, F16) => F32,
            (F8E4M3, F8E5M2) | (F8E5M2, F8E4M3) => F16,
            _ if a.class() == Class::Int => promote_ints(a, b),
            _ => {
                if a.size() >= b.size() {
                    a
                } else {
                    b
                }
            }
        }
    }
}

/// Signed meets unsigned of the same or larger size: the next larger signed type, `i64` at most.
fn promote_ints(a: DType, b: DType) -> DType {
    use DType::*;
    let signed = |d: DType| matches!(d, I8 | I16 | I32 | I64);
    let (large, small) = if a.size() >= b.size() { (a, b) } else { (b, a) };
    if signed(large) == signed(small) || (signed(large) && large.size() > small.size()) {
        return large;
    }
    match large.size() {
        1 => I16,
        2 => I32,
        _ => I64,
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is an element type. Bytes go in and out in native order.
///
/// ```
/// # use rtx_core::{DType, Element, Error, Kind, Location, Scalar};
/// let mut bytes = Vec::new();
/// 2.5_f32.write(&mut bytes);
/// assert_eq!((f32::read(&bytes), f32::DTYPE), (2.5, DType::F32));
/// ```
pub trait Element: Copy + Send + Sync + 'static {
    /// Its element type.
    const DTYPE: DType;
    /// Appends the element's bytes.
    fn write(self, out: &mut Vec<u8>);
    /// Reads an element from exactly `size` bytes.
    fn read(bytes: &[u8]) -> Self;
}

macro_rules! elements { ($($T:ty => $D:ident),* $(,)?) => { $(
    impl Element for $T {
        const DTYPE: DType = DType::$D;
        fn write(self, out: &mut Vec<u8>) { out.extend_from_slice(&self.to_ne_bytes()) }
        fn read(bytes: &[u8]) -> Self { let mut b = [0; size_of::<$T>()]; b.copy_from_slice(bytes); <$T>::from_ne_bytes(b) }
    }
)* } }
elements!(u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u16 => U16, u32 => U32, u64 => U64, half::f16 => F16, half::bf16 => BF16, f32 => F32, f64 => F64);
impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn write(self, out: &mut Vec<u8>) {
        out.push(self as u8)
    }
    fn read(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }
}

#[cfg(test)]
mod tests {
    use super::DType::{self, *};

    /// The documented table (torch.promote_types; c10/core/ScalarType.cpp): the row meets the column.
    #[test]
    fn promotion_is_pytorchs() {
        let types = [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64, C128];
        let table = [
            "bool u8 i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128",
            "u8 u8 i16 i16 i32 i64 f16 bf16 f32 f64 c64 c128",
            "i8 i16 i8 i16 i32 i64 f16 bf16 f32 f64 c64 c128",
            "i16 i16 i16 i16 i32 i64 f16 bf16 f32 f64 c64 c128",
            "i32 i32 i32 i32 i32 i64 f16 bf16 f32 f64 c64 c128",
            "i64 i64 i64 i64 i64 i64 f16 bf16 f32 f64 c64 c128",
            "f16 f16 f16 f16 f16 f16 f16 f32 f32 f64 c64 c128",
            "bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64 c64 c128",
            "f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 c64 c128",
            "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128",
            "c64 c64 c64 c64 c64 c64 c64 c64 c64 c128 c64 c128",
            "c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128",
        ];
        for (a, row) in types.into_iter().zip(table) {
            for (b, want) in types.into_iter().zip(row.split(' ')) {
                assert_eq!(a.promote(b).name(), want, "{a} with {b}");
            }
        }
        // Unsigned integers that PyTorch only stores: beside bool and floats as there.
        for u in [U16, U32, U64] {
            let met = [Bool, F16, BF16, F32, F64, C64, u].map(|t| u.promote(t));
            assert_eq!(met, [u, F16, BF16, F32, F64, C64, u], "{u}");
        }
        assert_eq!((U16.promote(I16), U32.promote(I32), U64.promote(I64), U8.promote(U16)), (I32, I64, I64, U16));
        assert_eq!((F8E4M3.promote(F8E5M2), F8E4M3.promote(BF16), I64.promote(F8E5M2)), (F16, BF16, F8E5M2));
    }

    #[test]
    fn promotion_is_symmetric_and_names_parse() {
        for a in DType::ALL {
            assert_eq!(DType::parse(a.name()), Some(a));
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a), "{a} with {b}");
            }
        }
    }
}
