//! The scalar functions that tensors and kernels share: what is computed at one element.
use crate::DType;

/// Functions of one number. Floats unless noted; each transcendental has one definition in `rustg::math`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Function {
    /// Every number; wraps for integers.
    Neg,
    /// Every number; wraps for integers.
    Abs,
    /// Every number: -1, 0, 1; NaN stays NaN.
    Sign,
    Floor,
    Ceil,
    Trunc,
    /// Half to even.
    RoundEven,
    Sqrt,
    Exp,
    Expm1,
    Log,
    Log1p,
    Sin,
    Cos,
    Tanh,
    Erf,
    /// `1 - erf(x)` without cancellation.
    Erfc,
    /// `log |Γ(x)|`.
    Lgamma,
    /// The derivative of [`Function::Lgamma`].
    Digamma,
    /// The real part of a complex number; the result is real.
    Real,
    /// The imaginary part of a complex number; the result is real.
    Imag,
    /// Bitwise for integers, logical for bool.
    Not,
}

/// Functions of two numbers of one dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Arith {
    Add,
    Sub,
    Mul,
    /// IEEE for floats; toward zero for integers, where x / 0 is 0 and MIN / -1 wraps.
    Div,
    /// Sign of the divisor (Python's %); x % 0 is 0 for integers.
    Rem,
    /// Floats: powf with IEEE special cases. Integers: by squaring, wrapping; a negative exponent gives 0, 1 or -1.
    Pow,
    Atan2,
    /// NaN if either is NaN.
    Max,
    /// NaN if either is NaN.
    Min,
    /// Bool and integers.
    And,
    Or,
    Xor,
    /// Integers; a shift of the width or more gives 0 (left, and right of unsigned) or the sign (right of signed).
    Shl,
    Shr,
    /// The complex number of a real and an imaginary part, f32 or f64.
    Complex,
}

impl Function {
    /// The type of the result for an operand of type `t`.
    pub const fn result(self, t: DType) -> DType {
        match self {
            Function::Real | Function::Imag => t.real(),
            _ => t,
        }
    }
}
impl Arith {
    /// The type of the result for operands of type `t`.
    pub const fn result(self, t: DType) -> DType {
        match self {
            Arith::Complex => t.complex(),
            _ => t,
        }
    }
}

/// Comparisons; the result is bool. NaN compares false.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Comparison {
    Eq,
    Lt,
    Le,
}

/// What a reduction does to two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Fold {
    /// From 0; integers wrap. Not for bool.
    Sum,
    /// From 1.
    Prod,
    /// From the least value; NaN wins. Bool: any.
    Max,
    /// From the greatest value; NaN wins. Bool: all.
    Min,
}

/// Which extremum an arg-reduction looks for. The first of equal ones; the first NaN wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it all")]
pub enum Extremum {
    Max,
    Min,
}

/// Gives an enum its list and its names in text.
macro_rules! named { ($($T:ident { $($V:ident $name:literal)* })*) => { $(
    impl $T {
        /// Every one, in declaration order.
        pub const ALL: &[$T] = &[$($T::$V),*];
        /// The name in text forms.
        pub const fn name(self) -> &'static str { match self { $($T::$V => $name),* } }
        /// The inverse of `name`.
        pub fn parse(name: &str) -> Option<Self> { match name { $($name => Some($T::$V),)* _ => None } }
    }
)* } }
named! {
    Function { Neg "neg" Abs "abs" Sign "sign" Floor "floor" Ceil "ceil" Trunc "trunc" RoundEven "round_even" Sqrt "sqrt" Exp "exp" Expm1 "expm1" Log "log" Log1p "log1p" Sin "sin" Cos "cos" Tanh "tanh" Erf "erf" Erfc "erfc" Lgamma "lgamma" Digamma "digamma" Real "real" Imag "imag" Not "not" }
    Arith { Add "add" Sub "sub" Mul "mul" Div "div" Rem "rem" Pow "pow" Atan2 "atan2" Max "max" Min "min" And "and" Or "or" Xor "xor" Shl "shl" Shr "shr" Complex "complex" }
    Comparison { Eq "eq" Lt "lt" Le "le" }
    Fold { Sum "sum" Prod "prod" Max "max" Min "min" }
    Extremum { Max "max" Min "min" }
}
