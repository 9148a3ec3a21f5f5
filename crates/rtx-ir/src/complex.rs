//! Arithmetic of complex numbers: no primitive computes with them, so their calls are recorded by their parts.
use crate::{Builder, ValueId, rules};
use rtx_core::{Arith, Class, Comparison, Function, Kind, Result};

/// Real and imaginary part.
type Parts = [ValueId; 2];

impl Builder<'_> {
    /// Is there something to do by parts?
    pub(crate) fn is_complex(&self, x: ValueId) -> bool {
        self.dtype(x).class() == Class::Complex
    }
    /// Real and imaginary part of a complex tensor.
    ///
    /// # Errors
    /// Where it is real.
    pub fn parts(&mut self, x: ValueId) -> Result<Parts> {
        Ok([self.real(x)?, self.imag(x)?])
    }
    /// A sum of products of parts: `(a b) ± (c d)`.
    fn products(&mut self, f: Arith, [a, b]: Parts, [c, d]: Parts) -> Result<ValueId> {
        let (l, r) = (self.mul(a, b)?, self.mul(c, d)?);
        self.binary(f, l, r)
    }
    /// `√(re² + im²)`, by the larger part, so that no square overflows.
    fn magnitude(&mut self, [re, im]: Parts) -> Result<ValueId> {
        let (a, b) = (self.abs(re)?, self.abs(im)?);
        let (large, small) = (self.max(a, b)?, self.min(a, b)?);
        let zero = self.eq(large, 0.0)?;
        let safe = self.select(zero, 1.0, large)?;
        let ratio = self.div(small, safe)?;
        let square = self.mul(ratio, ratio)?;
        let sum = self.add(square, 1.0)?;
        let root = self.sqrt(sum)?;
        let y = self.mul(large, root)?;
        let infinite = self.eq(large, f64::INFINITY)?;
        self.select(infinite, large, y)
    }
    /// A function of one complex number.
    pub(crate) fn complex_unary(&mut self, f: Function, x: ValueId) -> Result<ValueId> {
        let [re, im] = self.parts(x)?;
        match f {
            Function::Abs => self.magnitude([re, im]),
            Function::Neg => {
                let (re, im) = (self.neg(re)?, self.neg(im)?);
                self.complex(re, im)
            }
            Function::Exp => {
                let (size, cos, sin) = (self.exp(re)?, self.cos(im)?, self.sin(im)?);
                let (re, im) = (self.mul(size, cos)?, self.mul(size, sin)?);
                self.complex(re, im)
            }
            Function::Log => {
                let size = self.magnitude([re, im])?;
                let (log, angle) = (self.log(size)?, self.atan2(im, re)?);
                self.complex(log, angle)
            }
            _ => Err(rules::stored_only(f.name(), self.ty(x))),
        }
    }
    /// An operation on two complex numbers of one type and shape.
    pub(crate) fn complex_binary(&mut self, f: Arith, x: ValueId, y: ValueId) -> Result<ValueId> {
        let ([a, b], [c, d]) = (self.parts(x)?, self.parts(y)?);
        match f {
            Arith::Add | Arith::Sub => {
                let (re, im) = (self.binary(f, a, c)?, self.binary(f, b, d)?);
                self.complex(re, im)
            }
            Arith::Mul => {
                let re = self.products(Arith::Sub, [a, c], [b, d])?;
                let im = self.products(Arith::Add, [a, d], [b, c])?;
                self.complex(re, im)
            }
            Arith::Div => self.quotient([a, b], [c, d]),
            _ => Err(rules::stored_only(f.name(), self.ty(x))),
        }
    }
    /// `(a + ib) / (c + id)`, the divisor scaled by its larger part (Smith 1962, Communications of the ACM 5, 435).
    fn quotient(&mut self, [a, b]: Parts, [c, d]: Parts) -> Result<ValueId> {
        let (size_c, size_d) = (self.abs(c)?, self.abs(d)?);
        let turned = self.lt(size_c, size_d)?;
        // By i where the imaginary part is the larger one: (b - ia) / (d - ic).
        let minus_a = self.neg(a)?;
        let minus_c = self.neg(c)?;
        let (a, b) = (self.select(turned, b, a)?, self.select(turned, minus_a, b)?);
        let (c, d) = (self.select(turned, d, c)?, self.select(turned, minus_c, d)?);
        let ratio = self.div(d, c)?;
        let part = self.mul(d, ratio)?;
        let below = self.add(c, part)?;
        let (br, ar) = (self.mul(b, ratio)?, self.mul(a, ratio)?);
        let (re, im) = (self.add(a, br)?, self.sub(b, ar)?);
        let (re, im) = (self.div(re, below)?, self.div(im, below)?);
        self.complex(re, im)
    }
    /// Whether two complex numbers are equal; they have no order.
    pub(crate) fn complex_compare(&mut self, f: Comparison, x: ValueId, y: ValueId) -> Result<ValueId> {
        if f != Comparison::Eq {
            let what = format_args!("complex numbers have no order, got {}", self.ty(x));
            return Err(rules::refuse(f.name(), Kind::DType, what));
        }
        let ([a, b], [c, d]) = (self.parts(x)?, self.parts(y)?);
        let (re, im) = (self.eq(a, c)?, self.eq(b, d)?);
        self.and(re, im)
    }
}
