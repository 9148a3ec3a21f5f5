//! Numbers of the oracle and the scalar functions on them.
use rtx_core::{Arith, Class, Comparison, DType, Extremum, Fold, Function};

/// One element, in the widest number of its class.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Value {
    Bool(bool),
    Int(i128),
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
}
/// Equal bit by bit, except that all NaN are one (contract N6).
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => same(*a, *b),
            (Value::Complex(a, b), Value::Complex(c, d)) => same(*a, *c) && same(*b, *d),
            _ => false,
        }
    }
}
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

impl Value {
    /// As a float; of a complex number the real part.
    pub fn float(self) -> f64 {
        match self {
            Value::Bool(b) => f64::from(u8::from(b)),
            Value::Int(i) => i as f64,
            Value::Float(x) | Value::Complex(x, _) => x,
        }
    }
    /// As an integer, toward zero; NaN is 0.
    pub fn int(self) -> i128 {
        match self {
            Value::Bool(b) => b.into(),
            Value::Int(i) => i,
            Value::Float(x) | Value::Complex(x, _) => x as i128,
        }
    }
    /// Is it other than zero?
    pub fn bool(self) -> bool {
        match self {
            Value::Bool(b) => b,
            Value::Int(i) => i != 0,
            Value::Float(x) => x != 0.0,
            Value::Complex(re, im) => re != 0.0 || im != 0.0,
        }
    }
    /// The imaginary part.
    pub fn imaginary(self) -> f64 {
        if let Value::Complex(_, im) = self { im } else { 0.0 }
    }
    /// From the bits of an element; of 16 bytes the lower 8, the rest being 0.
    pub fn from_bits(dtype: DType, bits: u64) -> Value {
        Value::from_word(dtype, bits.into())
    }
    /// From the bits of an element.
    pub fn from_word(dtype: DType, word: u128) -> Value {
        use DType::*;
        let bits = word as u64;
        match dtype {
            Bool => Value::Bool(bits != 0),
            U8 => Value::Int((bits as u8).into()),
            I8 => Value::Int((bits as i8).into()),
            I16 => Value::Int((bits as i16).into()),
            U16 => Value::Int((bits as u16).into()),
            I32 => Value::Int((bits as i32).into()),
            U32 => Value::Int((bits as u32).into()),
            I64 => Value::Int((bits as i64).into()),
            U64 => Value::Int(bits.into()),
            F16 => Value::Float(half::f16::from_bits(bits as u16).to_f64()),
            BF16 => Value::Float(half::bf16::from_bits(bits as u16).to_f64()),
            F32 => Value::Float(f32::from_bits(bits as u32).into()),
            F64 => Value::Float(f64::from_bits(bits)),
            F8E4M3 => Value::Float(rtx_core::F8E4M3::from_bits(bits as u8).to_f64()),
            F8E5M2 => Value::Float(rtx_core::F8E5M2::from_bits(bits as u8).to_f64()),
            C64 => Value::Complex(f32::from_bits(bits as u32).into(), f32::from_bits((bits >> 32) as u32).into()),
            C128 => Value::Complex(f64::from_bits(bits), f64::from_bits((word >> 64) as u64)),
        }
    }
    /// The bits of an element, zero-extended.
    pub fn to_word(self, dtype: DType) -> u128 {
        use DType::*;
        let single = |x: f64| u128::from((x as f32).to_bits());
        let double = |x: f64| u128::from(x.to_bits());
        match (cast(self, dtype), dtype) {
            (Value::Bool(b), _) => b.into(),
            (Value::Int(i), _) => i as u128 & (u128::MAX >> (128 - 8 * dtype.size())),
            (Value::Float(x), F16) => rtx_core::f16_from_f64(x).to_bits().into(),
            (Value::Float(x), BF16) => rtx_core::bf16_from_f64(x).to_bits().into(),
            (Value::Float(x), F8E4M3) => rtx_core::F8E4M3::from_f64(x).to_bits().into(),
            (Value::Float(x), F8E5M2) => rtx_core::F8E5M2::from_f64(x).to_bits().into(),
            (Value::Float(x), F64) => double(x),
            (Value::Float(x), _) => single(x),
            (Value::Complex(re, im), C64) => single(re) | single(im) << 32,
            (Value::Complex(re, im), _) => double(re) | double(im) << 64,
        }
    }
}

/// Range of an integer type.
fn range(d: DType) -> (i128, i128) {
    use DType::*;
    let bits = 8 * d.size() as u32;
    match d {
        I8 | I16 | I32 | I64 => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}
/// The integer that an integer type keeps of a wider one.
fn wrap(i: i128, d: DType) -> i128 {
    let (low, high) = range(d);
    (i.wrapping_sub(low)).rem_euclid(high - low + 1) + low
}
/// The nearest number of a float type, halves to even. What is narrower than f32 is computed in f32 (contract N1).
fn round(x: f64, d: DType) -> f64 {
    match d {
        DType::F64 => x,
        DType::F16 => half::f16::from_f32(x as f32).to_f64(),
        DType::BF16 => half::bf16::from_f32(x as f32).to_f64(),
        DType::F8E4M3 => rtx_core::F8E4M3::from_f64(x).to_f64(),
        DType::F8E5M2 => rtx_core::F8E5M2::from_f64(x).to_f64(),
        _ => (x as f32).into(),
    }
}

/// Conversion. A float to a narrow float rounds once; float to integer truncates and saturates, NaN gives 0.
pub(super) fn cast(v: Value, d: DType) -> Value {
    match (d.class(), v) {
        (Class::Bool, v) => Value::Bool(v.bool()),
        (Class::Complex, v) => Value::Complex(cast_float(v, d.real()), round(v.imaginary(), d.real())),
        (Class::Int, Value::Float(x) | Value::Complex(x, _)) => {
            let (low, high) = range(d);
            Value::Int((x as i128).clamp(low, high))
        }
        (Class::Int, v) => Value::Int(wrap(v.int(), d)),
        (Class::Float, v) => Value::Float(cast_float(v, d)),
    }
}
fn cast_float(v: Value, d: DType) -> f64 {
    match (d, v) {
        (DType::F32, Value::Int(i)) => (i as f32).into(),
        (DType::F16, v) => rtx_core::f16_from_f64(v.float()).to_f64(),
        (DType::BF16, v) => rtx_core::bf16_from_f64(v.float()).to_f64(),
        (d, v) => round(v.float(), d),
    }
}

pub(super) fn function(f: Function, v: Value, d: DType) -> Value {
    match (f, v) {
        (Function::Real, v) => Value::Float(v.float()),
        (Function::Imag, v) => Value::Float(v.imaginary()),
        (_, Value::Float(x)) => Value::Float(round(float_function(f, x), d)),
        (_, v) => int_function(f, v, d),
    }
}
fn float_function(f: Function, x: f64) -> f64 {
    match f {
        Function::Neg => -x,
        Function::Abs => x.abs(),
        // Of both zeros 0.
        Function::Sign => {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                x.abs()
            }
        }
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Trunc => x.trunc(),
        Function::RoundEven => x.round_ties_even(),
        Function::Sqrt => x.sqrt(),
        Function::Exp => x.exp(),
        Function::Expm1 => x.exp_m1(),
        Function::Log => x.ln(),
        Function::Log1p => x.ln_1p(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Tanh => x.tanh(),
        Function::Erf => erf(x),
        Function::Erfc => erfc(x),
        Function::Lgamma => lgamma(x),
        Function::Digamma => digamma(x),
        Function::Real | Function::Imag | Function::Not => f64::NAN,
    }
}
fn int_function(f: Function, v: Value, d: DType) -> Value {
    let i = v.int();
    let r = match f {
        Function::Neg => -i,
        Function::Abs => i.abs(),
        Function::Sign => i.signum(),
        Function::Not => {
            if d == DType::Bool {
                i128::from(i == 0)
            } else {
                !i
            }
        }
        // Steps leave integers as they are; inference refuses the rest.
        _ => i,
    };
    cast(Value::Int(r), d)
}

/// The error function: its series where that converges fast, the continued fraction of its tail elsewhere.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() || x == 0.0 {
        return x;
    }
    if a > 6.0 {
        return 1f64.copysign(x);
    }
    if a < 2.5 {
        // Σ x (2x²)^n / (1·3·…·(2n+1)) · 2 e^(-x²) / √π: all terms positive; smallest first.
        let mut terms = vec![a];
        (1..80).for_each(|n| terms.push(terms[n - 1] * (2.0 * a * a / (2 * n + 1) as f64)));
        let sum: f64 = terms.iter().rev().sum();
        return (std::f64::consts::FRAC_2_SQRT_PI * sum * exp_minus_square(a)).copysign(x);
    }
    // erfc(x) = e^(-x²)/√π / (x + 1/2/(x + 2/2/(x + 3/2/…))).
    let tail = (1..=80).rev().fold(a, |t, n| a + f64::from(n) / 2.0 / t);
    (1.0 - exp_minus_square(a) / tail * std::f64::consts::FRAC_2_SQRT_PI / 2.0).copysign(x)
}
/// `e^(-a²)` with what rounding takes from the square put back.
fn exp_minus_square(a: f64) -> f64 {
    let square = a * a;
    (-square).exp() * (1.0 - a.mul_add(a, -square))
}

/// Beyond 1 the continued fraction of its tail; there is no cancellation before.
fn erfc(x: f64) -> f64 {
    if x < 1.0 || x.is_nan() {
        return 1.0 - erf(x);
    }
    let tail = (1..=500).rev().fold(x, |t, n| x + f64::from(n) / 2.0 / t);
    if x > 30.0 { 0.0 } else { exp_minus_square(x) / tail * std::f64::consts::FRAC_2_SQRT_PI / 2.0 }
}

/// `log |Γ(x)|` by Lanczos's approximation (g = 7, n = 9; P. Godfrey's coefficients), below 1/2 by reflection.
fn lgamma(x: f64) -> f64 {
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x.is_nan() {
        return x;
    }
    if x.is_infinite() || (x <= 0.0 && x == x.floor()) {
        return f64::INFINITY;
    }
    if x < 0.5 {
        let r = x - x.round();
        return (std::f64::consts::PI / (std::f64::consts::PI * r).sin().abs()).ln() - lgamma(1.0 - x);
    }
    // Around both zeros their own series: Σ (-e)^k (ζ(k) - 1) / k + e (1 - γ), from 2; a logarithm less from 1.
    if x < 2.5 {
        let e = if x < 1.5 { x - 1.0 } else { x - 2.0 };
        let series: f64 = (2..60).rev().map(|k| (-e).powi(k) * zeta_less_1(k) / f64::from(k)).sum();
        return series + e * (1.0 - EULER_GAMMA) - if x < 1.5 { e.ln_1p() } else { 0.0 };
    }
    let y = x - 1.0;
    let t = y + 7.5;
    let sum = (1..9).fold(C[0], |s, i| s + C[i] / (y + i as f64));
    0.5 * (2.0 * std::f64::consts::PI).ln() + (y + 0.5) * t.ln() - t + sum.ln()
}

const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;
/// `ζ(k) - 1`: its terms to 20, the rest by the formula of Euler and Maclaurin.
fn zeta_less_1(k: i32) -> f64 {
    let (n, s) = (20f64, f64::from(k));
    let rising = |terms: i32| (0..terms).map(|i| s + f64::from(i)).product::<f64>() * n.powi(-k - terms);
    let rest = n.powi(1 - k) / (s - 1.0) - n.powi(-k) / 2.0 + rising(1) / 12.0 - rising(3) / 720.0
        + rising(5) / 30_240.0
        - rising(7) / 1_209_600.0;
    (2..=20).rev().map(|m| f64::from(m).powi(-k)).sum::<f64>() + rest
}

/// By the series for large arguments (Abramowitz and Stegun 6.3.18), reached by recurrence; below 0 by reflection.
fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        return f64::NEG_INFINITY.copysign(-x);
    }
    if x < 0.0 {
        if x == x.floor() {
            return f64::NAN;
        }
        let r = std::f64::consts::PI * (x - x.round());
        return digamma(1.0 - x) - std::f64::consts::PI / r.tan();
    }
    let (mut y, mut sum) = (x, 0.0);
    while y < 30.0 {
        sum += 1.0 / y;
        y += 1.0;
    }
    let z = 1.0 / (y * y);
    let series = z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z / 132.0))));
    y.ln() - 0.5 / y - series - sum
}

pub(super) fn arith(f: Arith, a: Value, b: Value, d: DType) -> Value {
    match (a, b) {
        (Value::Float(re), Value::Float(im)) if f == Arith::Complex => Value::Complex(re, im),
        (Value::Float(a), Value::Float(b)) => Value::Float(round(float_arith(f, a, b, d), d)),
        (a, b) => cast(Value::Int(int_arith(f, a.int(), b.int(), d)), d),
    }
}
fn float_arith(f: Arith, a: f64, b: f64, d: DType) -> f64 {
    match f {
        Arith::Add => a + b,
        Arith::Sub => a - b,
        Arith::Mul => a * b,
        Arith::Div => a / b,
        Arith::Rem => {
            let r = a % b;
            if r != 0.0 && (r < 0.0) != (b < 0.0) { round(r, d) + b } else { r }
        }
        Arith::Pow => a.powf(b),
        Arith::Atan2 => a.atan2(b),
        Arith::Max => {
            if a.is_nan() || a > b {
                a
            } else {
                b
            }
        }
        Arith::Min => {
            if a.is_nan() || a < b {
                a
            } else {
                b
            }
        }
        Arith::And | Arith::Or | Arith::Xor | Arith::Shl | Arith::Shr | Arith::Complex => f64::NAN,
    }
}
fn int_arith(f: Arith, a: i128, b: i128, d: DType) -> i128 {
    let width = 8 * d.size() as i128;
    match f {
        Arith::Add => a + b,
        Arith::Sub => a - b,
        Arith::Mul => a.wrapping_mul(b),
        Arith::Div => {
            if b == 0 {
                0
            } else {
                a / b
            }
        }
        Arith::Rem => {
            if b == 0 {
                0
            } else {
                a - b * floor_div(a, b)
            }
        }
        Arith::Pow => int_pow(a, b, d),
        Arith::Atan2 | Arith::Complex => 0,
        Arith::Max => a.max(b),
        Arith::Min => a.min(b),
        Arith::And => a & b,
        Arith::Or => a | b,
        Arith::Xor => a ^ b,
        Arith::Shl => {
            if (0..width).contains(&b) {
                a << b
            } else {
                0
            }
        }
        Arith::Shr => a >> if (0..width).contains(&b) { b } else { 127 },
    }
}
fn floor_div(a: i128, b: i128) -> i128 {
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}
/// By squaring, wrapping; a negative exponent gives what is left of `1 / a^-n` as an integer.
fn int_pow(a: i128, n: i128, d: DType) -> i128 {
    if n < 0 {
        return match a {
            1 => 1,
            -1 => {
                if n % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut square, mut left, mut r) = (a, n, 1i128);
    while left > 0 {
        if left % 2 == 1 {
            r = wrap(r.wrapping_mul(square), d);
        }
        square = wrap(square.wrapping_mul(square), d);
        left /= 2;
    }
    r
}

pub(super) fn compare(f: Comparison, a: Value, b: Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => match f {
            Comparison::Eq => a == b,
            Comparison::Lt => a < b,
            Comparison::Le => a <= b,
        },
        (a, b) => match f {
            Comparison::Eq => a.int() == b.int(),
            Comparison::Lt => a.int() < b.int(),
            Comparison::Le => a.int() <= b.int(),
        },
    }
}

/// `a * b + c`, rounded once in the dtype of the computation.
pub(super) fn fma(a: Value, b: Value, c: Value, d: DType) -> Value {
    let (a, b, c) = (a.float(), b.float(), c.float());
    Value::Float(match d {
        DType::F64 => a.mul_add(b, c),
        d => round((a as f32).mul_add(b as f32, c as f32).into(), d),
    })
}
/// `a * b + sum` in the wide number.
pub(super) fn multiply_add(a: Value, b: Value, sum: Value) -> Value {
    match sum {
        Value::Float(s) => Value::Float(a.float().mul_add(b.float(), s)),
        s => Value::Int(a.int().wrapping_mul(b.int()).wrapping_add(s.int())),
    }
}

/// What a fold of nothing is.
pub(super) fn fold_start(f: Fold, d: DType) -> Value {
    match (f, d.class()) {
        (Fold::Sum, Class::Float) => Value::Float(0.0),
        (Fold::Prod, Class::Float) => Value::Float(1.0),
        (Fold::Max, Class::Float) => Value::Float(f64::NEG_INFINITY),
        (Fold::Min, Class::Float) => Value::Float(f64::INFINITY),
        (Fold::Sum, _) => Value::Int(0),
        (Fold::Prod, _) => Value::Int(1),
        (Fold::Max, Class::Bool) => Value::Bool(false),
        (Fold::Min, Class::Bool) => Value::Bool(true),
        (Fold::Max, _) => Value::Int(range(d).0),
        (Fold::Min, _) => Value::Int(range(d).1),
    }
}
pub(super) fn fold(f: Fold, sum: Value, v: Value) -> Value {
    let op = match f {
        Fold::Sum => Arith::Add,
        Fold::Prod => Arith::Mul,
        Fold::Max => Arith::Max,
        Fold::Min => Arith::Min,
    };
    match (sum, v) {
        (Value::Float(s), v) => Value::Float(float_arith(op, s, v.float(), DType::F64)),
        // Nothing is folded into a complex number.
        (Value::Complex(..), _) => sum,
        (Value::Bool(s), v) => Value::Bool(if f == Fold::Max { s | v.bool() } else { s & v.bool() }),
        (Value::Int(s), v) if f == Fold::Prod => Value::Int(s.wrapping_mul(v.int())),
        (Value::Int(s), v) => Value::Int(int_arith(op, s, v.int(), DType::I64)),
    }
}

/// Does `v`, found later, take the place of `best`? The first of equal ones stays; the first NaN wins.
pub(super) fn precedes(e: Extremum, v: Value, best: Value) -> bool {
    match (v, best) {
        (Value::Float(v), Value::Float(b)) if v.is_nan() || b.is_nan() => !b.is_nan(),
        _ => match e {
            Extremum::Max => compare(Comparison::Lt, best, v),
            Extremum::Min => compare(Comparison::Lt, v, best),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Value::{Bool, Float, Int};

    #[test]
    fn integers_wrap_and_divide_as_documented() {
        let i = |f, a: i128, b: i128, d| arith(f, Int(a), Int(b), d).int();
        assert_eq!(i(Arith::Add, i64::MAX.into(), 1, DType::I64), i64::MIN.into());
        assert_eq!(i(Arith::Mul, 200, 2, DType::U8), 144);
        assert_eq!(i(Arith::Mul, u64::MAX.into(), u64::MAX.into(), DType::U64), 1);
        assert_eq!((i(Arith::Div, 7, 0, DType::I64), i(Arith::Div, -7, 2, DType::I64)), (0, -3));
        assert_eq!(i(Arith::Div, i64::MIN.into(), -1, DType::I64), i64::MIN.into());
        let rem = [(5, 3, 2), (-5, 3, 1), (5, -3, -1), (-5, -3, -2), (5, 0, 0), (-6, 3, 0)];
        rem.iter().for_each(|&(a, b, r)| assert_eq!(i(Arith::Rem, a, b, DType::I64), r, "{a} % {b}"));
        let pow = [(2, 10, 1024), (-2, 3, -8), (0, 0, 1), (3, -1, 0), (-1, -3, -1), (1, -9, 1), (2, 64, 0)];
        pow.iter().for_each(|&(a, b, r)| assert_eq!(i(Arith::Pow, a, b, DType::I64), r, "{a} ^ {b}"));
        let shl = [(1, 63, i64::MIN.into()), (1, 64, 0), (1, -1, 0), (-1, 1, -2)];
        shl.iter().for_each(|&(a, b, r)| assert_eq!(i(Arith::Shl, a, b, DType::I64), r, "{a} << {b}"));
        let shr = [(-8, 1, -4), (-8, 64, -1), (8, 99, 0), (-8, -1, -1)];
        shr.iter().for_each(|&(a, b, r)| assert_eq!(i(Arith::Shr, a, b, DType::I64), r, "{a} >> {b}"));
        assert_eq!(i(Arith::Shr, 255, 9, DType::U8), 0);
        assert_eq!(function(Function::Not, Int(5), DType::U8), Int(250));
        assert_eq!(function(Function::Not, Bool(true), DType::Bool), Bool(false));
        assert_eq!(function(Function::Abs, Int(i64::MIN.into()), DType::I64), Int(i64::MIN.into()));
    }

    #[test]
    fn casts_truncate_saturate_and_wrap() {
        let c = |v, d| cast(v, d);
        assert_eq!(c(Float(-3.99), DType::I64), Int(-3));
        assert_eq!(c(Float(1e30), DType::I64), Int(i64::MAX.into()));
        assert_eq!(c(Float(f64::NAN), DType::I32), Int(0));
        assert_eq!(c(Float(-1.0), DType::U8), Int(0));
        assert_eq!(c(Int(-1), DType::U8), Int(255));
        assert_eq!(c(Float(f64::NAN), DType::Bool), Bool(true));
        assert_eq!(c(Float(-0.0), DType::Bool), Bool(false));
        assert_eq!(c(Int(16_777_217), DType::F32), Float(16_777_216.0));
        assert_eq!(c(Float(1.0 + 2f64.powi(-9)), DType::BF16), Float(1.0));
        assert_eq!(c(Float(65520.0), DType::F16), Float(f64::INFINITY));
    }

    #[test]
    fn floats_keep_their_special_cases() {
        let f = |f, a, b| arith(f, Float(a), Float(b), DType::F32).float();
        assert!(f(Arith::Max, f64::NAN, 1.0).is_nan() && f(Arith::Min, 1.0, f64::NAN).is_nan());
        assert_eq!(f(Arith::Rem, -5.5, 2.0), 0.5);
        assert_eq!(f(Arith::Pow, 0.0, 0.0), 1.0);
        assert_eq!(f(Arith::Add, 1.0, 2f64.powi(-25)), 1.0);
        assert!(!compare(Comparison::Le, Float(f64::NAN), Float(f64::NAN)));
        assert!(precedes(Extremum::Max, Float(f64::NAN), Float(9.0)));
        assert!(!precedes(Extremum::Min, Float(f64::NAN), Float(f64::NAN)));
        // One rounding: of the product alone nothing would be left.
        let eps = f64::from(f32::EPSILON);
        assert_eq!(fma(Float(1.0 + eps), Float(1.0 + eps), Float(-1.0 - 2.0 * eps), DType::F32), Float(eps * eps));
    }

    /// Values of erf from Abramowitz and Stegun, table 7.1, and the tail from mpmath.
    #[test]
    fn erf_is_right() {
        let table = [
            (0.5, 0.520_499_877_813_046_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (2.5, 0.999_593_047_982_555),
            (3.0, 0.999_977_909_503_001_4),
        ];
        for (x, want) in table {
            assert!((erf(x) - want).abs() < 3e-16, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
        assert_eq!((erf(9.0), erf(f64::INFINITY)), (1.0, 1.0));
    }

    /// Values from Abramowitz and Stegun, tables 6.1, 6.3 and 7.2, and mpmath.
    #[test]
    fn the_gamma_family_is_right() {
        let near = |got: f64, want: f64| assert!((got - want).abs() <= 1e-14 * want.abs().max(1.0), "{got} for {want}");
        near(lgamma(0.5), 0.572_364_942_924_700_1);
        near(lgamma(10.0), 12.801_827_480_081_469);
        near(lgamma(-0.5), 1.265_512_123_484_645_4);
        near(lgamma(1.5), -0.120_782_237_635_245_22);
        assert!((lgamma(1.468_75) + 0.121_461_830_587_650_7).abs() < 1e-15, "the zeta function to all its digits");
        near(digamma(1.0), -0.577_215_664_901_532_9);
        near(digamma(0.5), -1.963_510_026_021_423_5);
        near(digamma(-1.5), 0.703_156_640_645_243_2);
        near(erfc(0.5), 0.479_500_122_186_953_5);
        assert!((erfc(3.0) / 2.209_049_699_858_544e-5 - 1.0).abs() < 1e-14);
        assert_eq!((erfc(f64::INFINITY), erfc(f64::NEG_INFINITY), lgamma(-3.0)), (0.0, 2.0, f64::INFINITY));
    }

    #[test]
    fn eighths_and_complex_numbers_have_words() {
        let z = Value::Complex(1.0, -2.0);
        for d in [DType::C64, DType::C128] {
            assert_eq!(Value::from_word(d, z.to_word(d)), z);
        }
        assert_eq!(cast(Float(0.3), DType::F8E4M3), Float(0.3125));
        assert_eq!((cast(z, DType::F64), cast(Int(3), DType::C64)), (Float(1.0), Value::Complex(3.0, 0.0)));
        assert_eq!(cast(Value::Complex(0.0, 1.0), DType::Bool), Bool(true));
    }
}
