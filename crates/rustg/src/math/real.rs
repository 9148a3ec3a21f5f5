//! What a definition of [`crate::math`] is evaluated on: numbers, in the tile VM, or registers, when code is printed.
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A real number of one type, or what stands for it. Every method rounds once, as IEEE says, or is exact.
pub(crate) trait Real:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Neg<Output = Self>
{
    /// A number as it is written in a definition.
    type Lit: Copy;
    /// The integer of the same size.
    type Bits: Whole<Truth = Self::Truth>;
    /// What a comparison gives.
    type Truth: Copy;

    /// A number of the same kind as `self`.
    fn lit(self, c: Self::Lit) -> Self;
    /// `self * b + c`, rounded once.
    fn fma(self, b: Self, c: Self) -> Self;
    /// Without its sign.
    fn abs(self) -> Self;
    /// With the sign of another.
    fn copysign(self, sign: Self) -> Self;
    /// `if self > b { self } else { b }`.
    fn above(self, b: Self) -> Self;
    /// `if self < b { self } else { b }`.
    fn below(self, b: Self) -> Self;
    /// `self < b`.
    fn lt(self, b: Self) -> Self::Truth;
    /// `self <= b`.
    fn le(self, b: Self) -> Self::Truth;
    /// `self == b`.
    fn eq(self, b: Self) -> Self::Truth;
    /// `self != self`.
    fn is_nan(self) -> Self::Truth;
    /// `if c { a } else { b }`.
    fn pick(c: Self::Truth, a: Self, b: Self) -> Self;
    /// The same bits.
    fn bits(self) -> Self::Bits;
    /// The same bits.
    fn from_bits(bits: Self::Bits) -> Self;
    /// The nearest number.
    fn from_whole(n: Self::Bits) -> Self;

    /// `self * 2^n`, rounded once, `n` whole; `None` where no instruction does it.
    #[inline(always)]
    fn scaled(self, n: Self) -> Option<Self> {
        _ = n;
        None
    }
    /// Within `lo..=hi`; NaN stays.
    #[inline(always)]
    fn within(self, lo: Self::Lit, hi: Self::Lit) -> Self {
        self.lit(hi).below(self.lit(lo).above(self))
    }
}

/// A real number that has a longer kind.
pub(crate) trait Short: Real {
    /// The longer kind.
    type Long: Real;
    /// Exact.
    fn lengthen(self) -> Self::Long;
    /// Rounded.
    fn shorten(long: Self::Long) -> Self;
    /// The low half of the longer kind's bits.
    fn low_bits(long: Self::Long) -> Self::Bits;
}

/// A signed integer, or what stands for it. Arithmetic wraps.
pub(crate) trait Whole: Copy {
    /// What a comparison gives.
    type Truth: Copy;
    /// An integer of the same kind as `self`.
    fn lit(self, c: i32) -> Self;
    /// Sum.
    fn add(self, b: Self) -> Self;
    /// Difference.
    fn sub(self, b: Self) -> Self;
    /// Each bit of both.
    fn and(self, b: Self) -> Self;
    /// Each bit of one of the two.
    fn xor(self, b: Self) -> Self;
    /// Zeros come in.
    fn shl(self, n: u32) -> Self;
    /// The sign comes in.
    fn sar(self, n: u32) -> Self;
    /// `self == b`.
    fn eq(self, b: Self) -> Self::Truth;
    /// `self < b`.
    fn lt(self, b: Self) -> Self::Truth;
    /// `if c { a } else { b }`.
    fn pick(c: Self::Truth, a: Self, b: Self) -> Self;
}

macro_rules! numbers {
    ($F:ident $I:ident) => {
        impl Real for $F {
            type Lit = $F;
            type Bits = $I;
            type Truth = bool;
            #[inline(always)]
            fn lit(self, c: $F) -> $F {
                c
            }
            #[inline(always)]
            fn fma(self, b: $F, c: $F) -> $F {
                self.mul_add(b, c)
            }
            #[inline(always)]
            fn abs(self) -> $F {
                <$F>::abs(self)
            }
            #[inline(always)]
            fn copysign(self, sign: $F) -> $F {
                <$F>::copysign(self, sign)
            }
            #[inline(always)]
            fn above(self, b: $F) -> $F {
                if self > b { self } else { b }
            }
            #[inline(always)]
            fn below(self, b: $F) -> $F {
                if self < b { self } else { b }
            }
            #[inline(always)]
            fn lt(self, b: $F) -> bool {
                self < b
            }
            #[inline(always)]
            fn le(self, b: $F) -> bool {
                self <= b
            }
            #[inline(always)]
            fn eq(self, b: $F) -> bool {
                self == b
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
            #[inline(always)]
            fn pick(c: bool, a: $F, b: $F) -> $F {
                if c { a } else { b }
            }
            #[inline(always)]
            fn bits(self) -> $I {
                self.to_bits() as $I
            }
            #[inline(always)]
            fn from_bits(bits: $I) -> $F {
                <$F>::from_bits(bits as _)
            }
            #[inline(always)]
            fn from_whole(n: $I) -> $F {
                n as $F
            }
        }
        impl Whole for $I {
            type Truth = bool;
            #[inline(always)]
            fn lit(self, c: i32) -> $I {
                c as $I
            }
            #[inline(always)]
            fn add(self, b: $I) -> $I {
                self.wrapping_add(b)
            }
            #[inline(always)]
            fn sub(self, b: $I) -> $I {
                self.wrapping_sub(b)
            }
            #[inline(always)]
            fn and(self, b: $I) -> $I {
                self & b
            }
            #[inline(always)]
            fn xor(self, b: $I) -> $I {
                self ^ b
            }
            #[inline(always)]
            fn shl(self, n: u32) -> $I {
                self << n
            }
            #[inline(always)]
            fn sar(self, n: u32) -> $I {
                self >> n
            }
            #[inline(always)]
            fn eq(self, b: $I) -> bool {
                self == b
            }
            #[inline(always)]
            fn lt(self, b: $I) -> bool {
                self < b
            }
            #[inline(always)]
            fn pick(c: bool, a: $I, b: $I) -> $I {
                if c { a } else { b }
            }
        }
    };
}
numbers!(f32 i32);
numbers!(f64 i64);

impl Short for f32 {
    type Long = f64;
    #[inline(always)]
    fn lengthen(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn shorten(long: f64) -> f32 {
        long as f32
    }
    #[inline(always)]
    fn low_bits(long: f64) -> i32 {
        long.to_bits() as i32
    }
}
