//! Element types that Rust lacks beside halves: 8-bit floats and complex numbers.
use crate::{DType, Element};
use std::fmt;

/// A float of a sign, 4 bits of exponent and 3 of mantissa, without infinities (Micikevicius et al. 2022, "FP8 formats
/// for deep learning").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct F8E4M3(u8);

/// A float of a sign, 5 bits of exponent and 2 of mantissa (Micikevicius et al. 2022, "FP8 formats for deep learning").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct F8E5M2(u8);

/// A complex number.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

/// The code of `|x|` in a format of `mantissa` bits whose exponents begin at `lowest`; it grows with `|x|`, past the
/// format's last code where `x` is too large. Half to even.
fn code(x: f64, mantissa: i32, lowest: i32) -> u32 {
    let exponent = ((x.abs().to_bits() >> 52) as i32 - 1023).clamp(lowest, 1000);
    // Exact, and so is what follows but for the one rounding.
    let units = (x.abs() * 2f64.powi(mantissa - exponent)).round_ties_even();
    (units as u32).saturating_add(((exponent - lowest) as u32) << mantissa)
}
/// The number of a code.
fn number(code: u8, mantissa: i32, lowest: i32) -> f64 {
    let (exponent, rest) = (i32::from(code >> mantissa), i32::from(code) & ((1 << mantissa) - 1));
    let (units, exponent) =
        if exponent == 0 { (rest, lowest) } else { (rest + (1 << mantissa), lowest + exponent - 1) };
    f64::from(units) * 2f64.powi(exponent - mantissa)
}
/// The nearest half, half to even, rounded once.
pub fn f16_from_f64(x: f64) -> half::f16 {
    let code = if x.is_nan() { 0x7e00 } else { code(x, 10, -14).min(0x7c00) };
    half::f16::from_bits(code as u16 | u16::from(sign(x)) << 8)
}
/// The nearest bfloat16, half to even, rounded once.
pub fn bf16_from_f64(x: f64) -> half::bf16 {
    let code = if x.is_nan() { 0x7fc0 } else { code(x, 7, -126).min(0x7f80) };
    half::bf16::from_bits(code as u16 | u16::from(sign(x)) << 8)
}
fn sign(x: f64) -> u8 {
    if x.is_sign_negative() { 0x80 } else { 0 }
}

impl F8E4M3 {
    /// From its bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
    /// Its bits.
    pub const fn to_bits(self) -> u8 {
        self.0
    }
    /// The nearest number, half to even; what rounds beyond 448 is NaN.
    pub fn from_f64(x: f64) -> Self {
        let code = if x.is_nan() { 0x7f } else { self::code(x, 3, -6).min(0x7f) };
        Self(code as u8 | sign(x))
    }
    /// Exact.
    pub fn to_f64(self) -> f64 {
        let x = if self.0 & 0x7f == 0x7f { f64::NAN } else { number(self.0 & 0x7f, 3, -6) };
        if self.0 & 0x80 != 0 { -x } else { x }
    }
}

impl F8E5M2 {
    /// From its bits.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
    /// Its bits.
    pub const fn to_bits(self) -> u8 {
        self.0
    }
    /// The nearest number, half to even; what rounds beyond 57344 is infinite.
    pub fn from_f64(x: f64) -> Self {
        let code = if x.is_nan() { 0x7f } else { self::code(x, 2, -14).min(0x7c) };
        Self(code as u8 | sign(x))
    }
    /// Exact.
    pub fn to_f64(self) -> f64 {
        let x = match self.0 & 0x7f {
            0x7c => f64::INFINITY,
            0x7d.. => f64::NAN,
            code => number(code, 2, -14),
        };
        if self.0 & 0x80 != 0 { -x } else { x }
    }
}

/// As Python writes it: `1+2i`.
impl<T: fmt::Display + PartialOrd + Default> fmt::Display for Complex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}i", self.re, if self.im < T::default() { "" } else { "+" }, self.im)
    }
}

macro_rules! bytes { ($($T:ident)*) => { $(
    impl Element for $T {
        const DTYPE: DType = DType::$T;
        fn write(self, out: &mut Vec<u8>) {
            out.push(self.0)
        }
        fn read(bytes: &[u8]) -> Self {
            Self(bytes[0])
        }
    }
)* } }
bytes!(F8E4M3 F8E5M2);
macro_rules! complex { ($($T:ident $D:ident),*) => { $(
    impl Element for Complex<$T> {
        const DTYPE: DType = DType::$D;
        fn write(self, out: &mut Vec<u8>) {
            self.re.write(out);
            self.im.write(out);
        }
        fn read(bytes: &[u8]) -> Self {
            let (re, im) = bytes.split_at(size_of::<$T>());
            Self { re: <$T>::read(re), im: <$T>::read(im) }
        }
    }
)* } }
complex!(f32 C64, f64 C128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_a_number_and_rounds_to_itself() {
        for bits in 0..=u8::MAX {
            let (a, b) = (F8E4M3::from_bits(bits), F8E5M2::from_bits(bits));
            assert!(a.to_f64().is_nan() || F8E4M3::from_f64(a.to_f64()) == a, "{bits:#x}");
            assert!(b.to_f64().is_nan() || F8E5M2::from_f64(b.to_f64()) == b, "{bits:#x}");
        }
        assert_eq!((F8E4M3::from_bits(0x7e).to_f64(), F8E4M3::from_bits(1).to_f64()), (448.0, 2f64.powi(-9)));
        assert_eq!((F8E5M2::from_bits(0x7b).to_f64(), F8E5M2::from_bits(1).to_f64()), (57344.0, 2f64.powi(-16)));
    }

    #[test]
    fn rounding_is_to_the_nearest_and_halves_to_even() {
        let e4m3 = |x: f64| F8E4M3::from_f64(x).to_bits();
        assert_eq!((e4m3(464.0), e4m3(464.1), e4m3(-1e300), e4m3(f64::NAN)), (0x7e, 0x7f, 0xff, 0x7f));
        assert_eq!((e4m3(2f64.powi(-10)), e4m3(1.01 * 2f64.powi(-10)), e4m3(-0.0)), (0, 1, 0x80));
        let e5m2 = |x: f64| F8E5M2::from_f64(x).to_bits();
        assert_eq!((e5m2(61439.0), e5m2(61440.0), e5m2(f64::NEG_INFINITY)), (0x7b, 0x7c, 0xfc));
        assert_eq!(Complex { re: 1.5, im: -2.0 }.to_string(), "1.5-2i");
        // A little beyond the middle of two numbers.
        assert_eq!(bf16_from_f64(1.0 + 2f64.powi(-8) + 2f64.powi(-40)).to_bits(), 0x3f81);
        assert_eq!((bf16_from_f64(1.0 + 2f64.powi(-8)).to_bits(), bf16_from_f64(-1e300).to_bits()), (0x3f80, 0xff80));
        assert_eq!(
            (f16_from_f64(1.0 + 2f64.powi(-11) + 2f64.powi(-40)).to_bits(), f16_from_f64(65519.9).to_bits()),
            (0x3c01, 0x7bff)
        );
        assert_eq!((f16_from_f64(2f64.powi(-24)).to_bits(), f16_from_f64(f64::NAN).is_nan()), (1, true));
    }
}
