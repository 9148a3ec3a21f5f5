//! `+ - * /` for every mixture of owned, borrowed and number.
use crate::{
    Result, Tensor,
    call::{self, Argument, op},
    failure::OrPanic,
    number::IntoScalar,
};
use rtx_ir::OpDef;
use std::ops::{Add, AddAssign, BitAnd, BitOr, BitXor, Div, DivAssign, Mul, MulAssign, Neg, Not, Rem, Sub, SubAssign};

/// A tensor or a number, owned or borrowed. `rtx-nn` adds its `&Param` and `&Buffer`.
#[diagnostic::on_unimplemented(message = "`{Self}` is not a tensor or a number")]
pub trait Operand {
    /// As an argument of a call.
    fn argument(self) -> Argument;
    /// The tensor itself, where it is one.
    ///
    /// ```
    /// use rtx_tensor::{Operand, zeros};
    /// assert!(zeros([2, 3]).as_tensor().is_some());
    /// assert!(2.0.as_tensor().is_none());
    /// ```
    fn as_tensor(&self) -> Option<&Tensor> {
        None
    }
}
impl Operand for Tensor {
    fn as_tensor(&self) -> Option<&Tensor> {
        Some(self)
    }
    fn argument(self) -> Argument {
        Argument::Tensor(self)
    }
}
impl Operand for &Tensor {
    fn as_tensor(&self) -> Option<&Tensor> {
        Some(self)
    }
    fn argument(self) -> Argument {
        Argument::Tensor(self.alias())
    }
}
impl<S: IntoScalar> Operand for S {
    fn argument(self) -> Argument {
        Argument::Scalar(self.scalar())
    }
}

#[track_caller]
fn binary(def: &'static OpDef, a: impl Operand, b: impl Operand) -> Result<Tensor> {
    match (a.as_tensor(), b.as_tensor()) {
        (Some(a), Some(b)) => call::call_two(def, a, b),
        _ => call::call_one(def, &[a.argument(), b.argument()]),
    }
}

macro_rules! left { ($($Op:ident $f:ident $name:literal;)*) => { $(
    impl<R: Operand> $Op<R> for Tensor {
        type Output = Tensor;
        #[track_caller]
        fn $f(self, rhs: R) -> Tensor { binary(op!($name), self, rhs).or_panic() }
    }
    impl<R: Operand> $Op<R> for &Tensor {
        type Output = Tensor;
        #[track_caller]
        fn $f(self, rhs: R) -> Tensor { binary(op!($name), self, rhs).or_panic() }
    }
)* } }
left! {
    Add add "add";
    Sub sub "sub";
    Mul mul "mul";
    Div div "div";
    Rem rem "remainder";
    BitAnd bitand "bitwise_and";
    BitOr bitor "bitwise_or";
    BitXor bitxor "bitwise_xor";
}

/// One float and one integer type only: with two, `(2.0 * &x).sum(..)` no longer infers.
macro_rules! number_left { ($($S:ty)* : $ops:tt) => { $(number_left!(@ $S $ops);)* };
    (@ $S:ty [$($Op:ident $f:ident $name:literal;)*]) => { $(
        impl $Op<Tensor> for $S {
            type Output = Tensor;
            #[track_caller]
            fn $f(self, rhs: Tensor) -> Tensor { binary(op!($name), self, rhs).or_panic() }
        }
        impl $Op<&Tensor> for $S {
            type Output = Tensor;
            #[track_caller]
            fn $f(self, rhs: &Tensor) -> Tensor { binary(op!($name), self, rhs).or_panic() }
        }
    )* }
}
number_left!(f64 i32: [Add add "add"; Sub sub "sub"; Mul mul "mul"; Div div "div";]);

macro_rules! assign { ($($Op:ident $f:ident $write:ident;)*) => { $(
    impl<R: Operand> $Op<R> for Tensor {
        #[track_caller]
        fn $f(&mut self, rhs: R) { self.$write(rhs); }
    }
)* } }
assign! { AddAssign add_assign add_; SubAssign sub_assign sub_; MulAssign mul_assign mul_; DivAssign div_assign div_; }

macro_rules! sign { ($($Op:ident $f:ident $name:literal;)*) => { $(
    impl $Op for Tensor {
        type Output = Tensor;
        #[track_caller]
        fn $f(self) -> Tensor { call::call_one(op!($name), &[self.argument()]).or_panic() }
    }
    impl $Op for &Tensor {
        type Output = Tensor;
        #[track_caller]
        fn $f(self) -> Tensor { call::call_one(op!($name), &[self.argument()]).or_panic() }
    }
)* } }
sign! { Neg neg "neg"; Not not "bitwise_not"; }
