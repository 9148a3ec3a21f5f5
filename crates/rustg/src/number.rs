//! Element types as numbers: conversions and what integers do where machines differ.
pub(crate) use rtx_core::Complex;

/// IEEE half precision, as its bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Half(pub u16);
/// The upper half of an f32, as its bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct BFloat(pub u16);
/// A sign, 4 bits of exponent, 3 of mantissa, as its bits: no infinity, one NaN of each sign.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct F8E4M3(pub u8);
/// The upper half of an IEEE half, as its bits.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct F8E5M2(pub u8);
/// A bool as its byte, 0 or 1.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Truth(pub u8);

/// Conversions: float to integer truncates and saturates, NaN gives 0; integers wrap; to bool is `!= 0`.
pub(crate) trait Number: Copy {
    /// The number of another type that is nearest or, among integers, congruent.
    fn from_number<T: Number>(x: T) -> Self;
    fn to_i64(self) -> i64;
    fn to_i32(self) -> i32;
    fn to_u64(self) -> u64;
    fn to_u32(self) -> u32;
    fn to_i16(self) -> i16;
    fn to_u16(self) -> u16;
    fn to_i8(self) -> i8;
    fn to_u8(self) -> u8;
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    /// Rounded to odd: a second rounding to a shorter type is then right.
    fn to_f32_odd(self) -> f32;
    fn is_nonzero(self) -> bool;
    fn widen(self) -> Wide;
    /// 0 of real numbers.
    #[inline(always)]
    fn imaginary(self) -> f64 {
        0.0
    }
}

/// A number of any type, without loss.
#[derive(Clone, Copy)]
pub(crate) enum Wide {
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Complex(Complex<f64>),
}

macro_rules! conversions {
    ($($to:ident $T:ident),*) => { $(#[inline(always)] fn $to(self) -> $T { self as $T })* };
}
macro_rules! plain_number {
    ($($T:ident $back:ident $Wide:ident),*) => { $(
        impl Number for $T {
            #[inline(always)]
            fn from_number<U: Number>(x: U) -> $T { x.$back() }
            conversions!(to_i64 i64, to_i32 i32, to_u64 u64, to_u32 u32, to_i16 i16, to_u16 u16, to_i8 i8, to_u8 u8,
                to_f32 f32, to_f64 f64);
            #[inline(always)]
            fn to_f32_odd(self) -> f32 { round_to_odd(self as f64) }
            #[inline(always)]
            fn is_nonzero(self) -> bool { self != 0 as $T }
            #[inline(always)]
            fn widen(self) -> Wide { Wide::$Wide(self as _) }
        }
    )* };
}
plain_number!(u8 to_u8 Int, i8 to_i8 Int, i16 to_i16 Int, i32 to_i32 Int, i64 to_i64 Int, u16 to_u16 Int, u32 to_u32 Int,
    u64 to_u64 Unsigned, f32 to_f32 Float, f64 to_f64 Float);

/// Types that convert by way of another.
macro_rules! by_way_of {
    ($T:ident, $U:ident, |$x:ident| $there:expr, |$y:ident: $V:ident| $back:expr) => {
        impl Number for $T {
            #[inline(always)]
            fn from_number<V: Number>($y: V) -> $T { $back }
            by_way_of!(@ $x $there; to_i64 i64, to_i32 i32, to_u64 u64, to_u32 u32, to_i16 i16, to_u16 u16, to_i8 i8,
                to_u8 u8, to_f32 f32, to_f64 f64, to_f32_odd f32, is_nonzero bool, widen Wide);
        }
    };
    (@ $x:ident $there:expr; $($to:ident $V:ident),*) => { $(
        #[inline(always)]
        fn $to(self) -> $V { let $x = self; Number::$to($there) }
    )* };
}
by_way_of!(Half, f32, |x| half_to_f32(x.0), |y: V| Half(f32_to_half(y.to_f32_odd())));
by_way_of!(BFloat, f32, |x| f32::from_bits((x.0 as u32) << 16), |y: V| BFloat(f32_to_bfloat(y.to_f32_odd())));
by_way_of!(F8E4M3, f32, |x| e4m3_to_f32(x.0), |y: V| F8E4M3(f32_to_e4m3(y.to_f32_odd())));
by_way_of!(F8E5M2, f32, |x| half_to_f32((x.0 as u16) << 8), |y: V| F8E5M2(f32_to_e5m2(y.to_f32_odd())));
by_way_of!(Truth, u8, |x| x.0, |y: V| Truth(y.is_nonzero() as u8));

/// A complex number made of a real one has no imaginary part; a real number made of a complex one is its real part.
macro_rules! complex_number {
    ($($T:ident $to:ident),*) => { $(
        impl Number for Complex<$T> {
            #[inline(always)]
            fn from_number<U: Number>(x: U) -> Self { Complex { re: x.$to(), im: x.imaginary() as $T } }
            complex_number!(@ to_i64 i64, to_i32 i32, to_u64 u64, to_u32 u32, to_i16 i16, to_u16 u16, to_i8 i8,
                to_u8 u8, to_f32 f32, to_f64 f64, to_f32_odd f32);
            #[inline(always)]
            fn is_nonzero(self) -> bool { (self.re != 0.0) | (self.im != 0.0) }
            #[inline(always)]
            fn widen(self) -> Wide { Wide::Complex(Complex { re: self.re as f64, im: self.im as f64 }) }
            #[inline(always)]
            fn imaginary(self) -> f64 { self.im as f64 }
        }
    )* };
    (@ $($to:ident $V:ident),*) => { $(
        #[inline(always)]
        fn $to(self) -> $V { Number::$to(self.re) }
    )* };
}
complex_number!(f32 to_f32, f64 to_f64);

/// An f64 rounded to f32 so that a lost part leaves the last bit set.
#[inline(always)]
fn round_to_odd(x: f64) -> f32 {
    let y = x as f32;
    let back = y as f64;
    // Toward zero first, then the sticky bit.
    let bits = y.to_bits().wrapping_sub((back.abs() > x.abs()) as u32);
    let lost = (back != x) & !x.is_nan() & (x.abs() != f64::INFINITY);
    f32::from_bits(if lost { bits | 1 } else { y.to_bits() })
}

/// Half to even; NaN stays NaN.
#[inline(always)]
fn f32_to_bfloat(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    (if x.is_nan() { bits | 0x0040_0000 } else { rounded } >> 16) as u16
}

/// Exact.
#[inline(always)]
fn half_to_f32(h: u16) -> f32 {
    let magnitude = ((h & 0x7fff) as u32) << 13;
    // 2^112 moves the exponent's bias, subnormals included.
    let finite = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let bits = if h & 0x7c00 == 0x7c00 { magnitude | 0x7f80_0000 } else { finite.to_bits() };
    f32::from_bits(bits | ((h & 0x8000) as u32) << 16)
}

/// Half to even; NaN stays NaN.
#[inline(always)]
fn f32_to_half(x: f32) -> u16 {
    let sign = ((x.to_bits() >> 16) & 0x8000) as u16;
    let bits = x.to_bits() & 0x7fff_ffff;
    // Subnormal halves: adding 1/2 aligns their last place with an f32's.
    let small = (f32::from_bits(bits) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    // Normal ones: move the bias, round at bit 13.
    let normal = bits.wrapping_sub(112 << 23).wrapping_add(0xfff + ((bits >> 13) & 1)) >> 13;
    let magnitude = if bits < 113 << 23 { small } else { normal };
    let magnitude = if bits >= 143 << 23 { 0x7c00 } else { magnitude };
    sign | if bits > 0x7f80_0000 { 0x7e00 } else { magnitude as u16 }
}

/// Exact.
#[inline(always)]
fn e4m3_to_f32(x: u8) -> f32 {
    let magnitude = ((x & 0x7f) as u32) << 20;
    // 2^120 moves the exponent's bias, subnormals included.
    let finite = f32::from_bits(magnitude) * f32::from_bits((127 + 120) << 23);
    let bits = if x & 0x7f == 0x7f { 0x7fc0_0000 } else { finite.to_bits() };
    f32::from_bits(bits | ((x & 0x80) as u32) << 24)
}
/// Half to even; what rounds beyond 448 is NaN.
#[inline(always)]
fn f32_to_e4m3(x: f32) -> u8 {
    let sign = ((x.to_bits() >> 24) & 0x80) as u8;
    let bits = x.to_bits() & 0x7fff_ffff;
    // Subnormals: adding 2^14 aligns their last place, 2^-9, with an f32's.
    let small = (f32::from_bits(bits) + 16384.0).to_bits().wrapping_sub(16384f32.to_bits());
    let normal = bits.wrapping_sub(120 << 23).wrapping_add(0x7_ffff + ((bits >> 20) & 1)) >> 20;
    let magnitude = if bits < 121 << 23 { small } else { normal };
    sign | if bits >= 480f32.to_bits() { 0x7f } else { magnitude as u8 }
}
/// Half to even; NaN stays NaN, and what rounds beyond 57344 is infinite.
#[inline(always)]
fn f32_to_e5m2(x: f32) -> u8 {
    let sign = ((x.to_bits() >> 24) & 0x80) as u8;
    let bits = x.to_bits() & 0x7fff_ffff;
    // Subnormals: adding 2^7 aligns their last place, 2^-16, with an f32's.
    let small = (f32::from_bits(bits) + 128.0).to_bits().wrapping_sub(128f32.to_bits());
    let normal = bits.wrapping_sub(112 << 23).wrapping_add(0xf_ffff + ((bits >> 21) & 1)) >> 21;
    let magnitude = if bits < 113 << 23 { small } else { normal };
    let magnitude = if bits >= 143 << 23 { 0x7c } else { magnitude as u8 };
    sign | if bits > 0x7f80_0000 { 0x7f } else { magnitude }
}

/// What integers do where machines differ or Rust panics.
pub(crate) trait Integer: Copy {
    fn magnitude(self) -> Self;
    fn sign(self) -> Self;
    /// Toward zero; x / 0 is 0, MIN / -1 wraps.
    fn quotient(self, b: Self) -> Self;
    /// Sign of the divisor; x % 0 is 0.
    fn remainder(self, b: Self) -> Self;
    /// Wraps; a negative exponent gives 0, 1 or -1.
    fn power(self, b: Self) -> Self;
    /// 0 from the width on.
    fn shift_left(self, b: Self) -> Self;
    /// 0 or the sign from the width on.
    fn shift_right(self, b: Self) -> Self;
}
macro_rules! integers {
    ($($T:ident $signed:literal),*) => { $(
        #[allow(unused_comparisons, reason = "unsigned types share the text")]
        impl Integer for $T {
            #[inline(always)]
            fn magnitude(self) -> $T { if self < 0 { self.wrapping_neg() } else { self } }
            #[inline(always)]
            fn sign(self) -> $T { if self > 0 { 1 } else if self < 0 { (0 as $T).wrapping_sub(1) } else { 0 } }
            #[inline(always)]
            fn quotient(self, b: $T) -> $T { if b == 0 { 0 } else { self.wrapping_div(b) } }
            #[inline(always)]
            fn remainder(self, b: $T) -> $T {
                if b == 0 { return 0; }
                let r = self.wrapping_rem(b);
                if r != 0 && (r < 0) != (b < 0) { r.wrapping_add(b) } else { r }
            }
            #[inline(always)]
            fn power(self, b: $T) -> $T {
                if b < 0 {
                    let odd = b & 1 != 0;
                    return if self == 1 { 1 } else if $signed && self == (0 as $T).wrapping_sub(1) {
                        if odd { self } else { 1 }
                    } else { 0 };
                }
                let (mut y, mut base, mut n) = (1 as $T, self, b);
                while n > 0 {
                    if n & 1 != 0 { y = y.wrapping_mul(base); }
                    base = base.wrapping_mul(base);
                    n >>= 1;
                }
                y
            }
            #[inline(always)]
            fn shift_left(self, b: $T) -> $T {
                if b < 0 || b as u64 >= $T::BITS as u64 { 0 } else { self << b }
            }
            #[inline(always)]
            fn shift_right(self, b: $T) -> $T {
                let most = ($T::BITS - 1) as $T;
                if b >= 0 && b <= most { self >> b } else if $signed { self >> most } else { 0 }
            }
        }
    )* };
}
integers!(u8 false, i8 true, i16 true, i32 true, i64 true, u16 false, u32 false, u64 false);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_and_bfloat_round_once() {
        for h in 0..=u16::MAX {
            let x = half_to_f32(h);
            if x == x {
                assert_eq!(f32_to_half(x), h, "{x}");
                assert_eq!(<Half as Number>::from_number(x as f64).0, h);
            }
        }
        // Halfway between two halves, and a little more, in f64.
        assert_eq!(<Half as Number>::from_number(1.0 + 2f64.powi(-11)).0, 0x3c00);
        assert_eq!(<Half as Number>::from_number(1.0 + 2f64.powi(-11) + 2f64.powi(-40)).0, 0x3c01);
        assert_eq!(<BFloat as Number>::from_number(1.0 + 2f64.powi(-8) + 2f64.powi(-40)).0, 0x3f81);
        assert_eq!((f32_to_half(65519.0), f32_to_half(65520.0), f32_to_half(-1e30)), (0x7bff, 0x7c00, 0xfc00));
        assert_eq!(f32_to_half(2f32.powi(-24)), 1);
        assert!(half_to_f32(f32_to_half(f32::NAN)).is_nan());
        assert_eq!(half_to_f32(0xfc00), f32::NEG_INFINITY);
    }

    #[test]
    fn eighth_bytes_round_once() {
        for b in 0..=u8::MAX {
            let (x, y) = (e4m3_to_f32(b), half_to_f32((b as u16) << 8));
            assert!(x.is_nan() || f32_to_e4m3(x) == b, "{x}");
            assert!(y.is_nan() || f32_to_e5m2(y) == b, "{y}");
        }
        let e4m3 = |x: f64| <F8E4M3 as Number>::from_number(x).0;
        // The largest number; halfway to what there is not, and beyond.
        assert_eq!(
            (e4m3(448.0), e4m3(464.0), e4m3(464.1), e4m3(-1e30), e4m3(f64::INFINITY)),
            (0x7e, 0x7e, 0x7f, 0xff, 0x7f)
        );
        assert_eq!((e4m3(2f64.powi(-10)), e4m3(2f64.powi(-10) * 1.01), e4m3(1.0625 + 2f64.powi(-40))), (0, 1, 0x39));
        let e5m2 = |x: f64| <F8E5M2 as Number>::from_number(x).0;
        assert_eq!((e5m2(57344.0), e5m2(61439.0), e5m2(61440.0), e5m2(-1e30)), (0x7b, 0x7b, 0x7c, 0xfc));
        assert!(e4m3_to_f32(0x7f).is_nan() && half_to_f32((e5m2(f64::NAN) as u16) << 8).is_nan());
    }

    #[test]
    fn complex_numbers_convert_by_their_real_part() {
        let z = Complex { re: 2.5f64, im: -1.0 };
        assert_eq!(<Complex<f32> as Number>::from_number(z), Complex { re: 2.5, im: -1.0 });
        assert_eq!((<i32 as Number>::from_number(z), <Complex<f64> as Number>::from_number(3u8).re), (2, 3.0));
        assert_eq!(Truth::from_number(Complex { re: 0f32, im: 1.0 }).0, 1);
    }

    #[test]
    fn conversions_saturate_or_wrap() {
        assert_eq!((i32::from_number(1e10f32), u8::from_number(-3.7f64), i64::from_number(f32::NAN)), (i32::MAX, 0, 0));
        assert_eq!((u8::from_number(-1i64), i8::from_number(200u32), u32::from_number(Truth(1))), (255, -56, 1));
        assert_eq!((Truth::from_number(f32::NAN).0, Truth::from_number(-0.0f64).0), (1, 0));
    }

    #[test]
    fn integers_at_their_edges() {
        assert_eq!(
            (7i32.quotient(0), i32::MIN.quotient(-1), 7i32.remainder(0), (-7i32).remainder(3)),
            (0, i32::MIN, 0, 2)
        );
        assert_eq!((7i32.remainder(-3), i32::MIN.remainder(-1), 7u8.remainder(4)), (-2, 0, 3));
        assert_eq!((3i64.power(4), 2i64.power(-1), (-1i64).power(-3), 1i64.power(-9), 2u8.power(9)), (81, 0, -1, 1, 0));
        assert_eq!(
            (1i32.shift_left(32), (-8i32).shift_right(40), 8u32.shift_right(40), 8i32.shift_right(1)),
            (0, -1, 0, 4)
        );
        assert_eq!(i64::MIN.magnitude(), i64::MIN);
    }
}
