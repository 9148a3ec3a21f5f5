//! Formulas written as formulas: `emit(b, (m * beta + g) / below)` records what it says, in the order it says it.
use rtx_core::{Arith, Comparison, Function, Result};
use rtx_ir::{Builder, Term, ValueId};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A value of the graph in a formula.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Var(pub ValueId);

/// Pointwise arithmetic that is not recorded yet.
#[derive(Clone, Debug)]
pub(crate) enum Formula {
    Term(Term),
    Unary(Function, Box<Formula>),
    Binary(Arith, Box<[Formula; 2]>),
    Compare(Comparison, Box<[Formula; 2]>),
    Select(Box<[Formula; 3]>),
}

/// Records a formula.
pub(crate) fn emit(b: &mut Builder<'_>, formula: impl Into<Formula>) -> Result<Var> {
    match term(b, formula.into())? {
        Term::Value(v) => Ok(Var(v)),
        Term::Number(x) => Err(rtx_core::Error::new(rtx_core::Kind::Internal, format!("the formula is a number, {x}"))),
    }
}
fn term(b: &mut Builder<'_>, formula: Formula) -> Result<Term> {
    Ok(Term::Value(match formula {
        Formula::Term(t) => return Ok(t),
        Formula::Unary(f, x) => {
            let x = emit(b, *x)?;
            b.unary(f, x.0)?
        }
        Formula::Binary(f, pair) => {
            let [x, y] = *pair;
            let (x, y) = (term(b, x)?, term(b, y)?);
            b.binary(f, x, y)?
        }
        Formula::Compare(f, pair) => {
            let [x, y] = *pair;
            let (x, y) = (term(b, x)?, term(b, y)?);
            b.compare(f, x, y)?
        }
        Formula::Select(parts) => {
            let [c, x, y] = *parts;
            let (c, x, y) = (emit(b, c)?, term(b, x)?, term(b, y)?);
            b.select(c.0, x, y)?
        }
    }))
}

impl From<Var> for Formula {
    fn from(v: Var) -> Self {
        Formula::Term(Term::Value(v.0))
    }
}
impl From<f64> for Formula {
    fn from(x: f64) -> Self {
        Formula::Term(Term::Number(x))
    }
}

macro_rules! operators { ($($Op:ident $f:ident),*) => { $(
    operators!(@ $Op $f [] Var);
    operators!(@ $Op $f [] Formula);
    impl $Op<Var> for f64 {
        type Output = Formula;
        fn $f(self, y: Var) -> Formula {
            Formula::Binary(Arith::$Op, Box::new([self.into(), y.into()]))
        }
    }
    impl $Op<Formula> for f64 {
        type Output = Formula;
        fn $f(self, y: Formula) -> Formula {
            Formula::Binary(Arith::$Op, Box::new([self.into(), y]))
        }
    }
)* };
    (@ $Op:ident $f:ident [] $L:ty) => {
        impl<R: Into<Formula>> $Op<R> for $L {
            type Output = Formula;
            fn $f(self, y: R) -> Formula {
                Formula::Binary(Arith::$Op, Box::new([self.into(), y.into()]))
            }
        }
    };
}
operators!(Add add, Sub sub, Mul mul, Div div);

macro_rules! methods { ($L:ty: $($f:ident $F:ident),*; $($g:ident $G:ident),*; $($h:ident $H:ident),*) => {
    #[allow(dead_code, reason = "a formula is read more easily when its words are all there")]
    impl $L {
        $(pub(crate) fn $f(self) -> Formula {
            Formula::Unary(Function::$F, Box::new(self.into()))
        })*
        $(pub(crate) fn $g(self, y: impl Into<Formula>) -> Formula {
            Formula::Binary(Arith::$G, Box::new([self.into(), y.into()]))
        })*
        $(pub(crate) fn $h(self, y: impl Into<Formula>) -> Formula {
            Formula::Compare(Comparison::$H, Box::new([self.into(), y.into()]))
        })*
        /// Where this bool is true the first, else the second.
        pub(crate) fn choose(self, yes: impl Into<Formula>, no: impl Into<Formula>) -> Formula {
            Formula::Select(Box::new([self.into(), yes.into(), no.into()]))
        }
    }
    impl Neg for $L {
        type Output = Formula;
        fn neg(self) -> Formula {
            Formula::Unary(Function::Neg, Box::new(self.into()))
        }
    }
} }
methods!(Var: sqrt Sqrt, abs Abs, sign Sign, exp Exp, expm1 Expm1, log Log, log1p Log1p, sin Sin, cos Cos, tanh Tanh, erf Erf, floor Floor, trunc Trunc; pow Pow, max Max, min Min; equals Eq, below Lt, at_most Le);
methods!(Formula: sqrt Sqrt, abs Abs, sign Sign, exp Exp, expm1 Expm1, log Log, log1p Log1p, sin Sin, cos Cos, tanh Tanh, erf Erf, floor Floor, trunc Trunc; pow Pow, max Max, min Min; equals Eq, below Lt, at_most Le);
