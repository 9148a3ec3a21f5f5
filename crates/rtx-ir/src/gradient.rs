//! What gradient rules are written with.
use crate::{Builder, GradCx, Grads, ValueId, rules};
use rtx_core::{Class, DType, Result, Shape};

impl GradCx<'_> {
    /// One cotangent for each operand that wants one, made by `f(operand)`.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn each(&self, mut f: impl FnMut(usize) -> Result<ValueId>) -> Result<Grads> {
        self.wants.iter().enumerate().map(|(i, &w)| w.then(|| f(i)).transpose()).collect()
    }

    /// A rule in compute precision: `f(b, operand, cotangent, reads)` sees the cotangent and what it reads widened
    /// (f16 and bf16 to f32), and its result is rounded once to the operand's dtype.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn wide<const N: usize>(
        &self,
        b: &mut Builder<'_>,
        reads: [ValueId; N],
        f: impl Fn(&mut Builder<'_>, usize, ValueId, [ValueId; N]) -> Result<ValueId>,
    ) -> Result<Grads> {
        let g = widen(b, self.ct())?;
        let mut wide = reads;
        for v in &mut wide {
            *v = widen(b, *v)?;
        }
        self.each(|i| {
            let r = f(b, i, g, wide)?;
            let dtype = b.dtype(self.inputs[i]);
            b.cast(r, dtype)
        })
    }

    /// Zeros for every operand that wants a cotangent: the derivative of a step function.
    ///
    /// # Errors
    /// Where no constant of the dtype can be made.
    pub fn zeros(&self, b: &mut Builder<'_>) -> Result<Grads> {
        self.each(|i| b.zeros_like(self.inputs[i]))
    }
}

/// A float in compute precision; other values as they are.
fn widen(b: &mut Builder<'_>, v: ValueId) -> Result<ValueId> {
    let dtype = b.dtype(v);
    b.cast(v, rules::number_dtype(dtype))
}

impl Builder<'_> {
    /// The sum of two cotangents of one value; what has no arithmetic is added by its parts, or in f32.
    ///
    /// # Errors
    /// Where their types differ.
    pub fn add_cotangents(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        let dtype = self.dtype(a);
        if dtype.class() == Class::Complex {
            let (re, im) = ([self.real(a)?, self.real(b)?], [self.imag(a)?, self.imag(b)?]);
            let (re, im) = (self.add(re[0], re[1])?, self.add(im[0], im[1])?);
            return self.complex(re, im);
        }
        if !dtype.has_arithmetic() {
            let (x, y) = (widen(self, a)?, widen(self, b)?);
            let sum = self.add(x, y)?;
            return self.cast(sum, dtype);
        }
        self.add(a, b)
    }
    /// Zeros of a dtype and shape.
    ///
    /// # Errors
    /// Where no constant of the dtype can be made.
    pub fn zeros(&mut self, dtype: DType, shape: &Shape) -> Result<ValueId> {
        self.full(dtype, shape, 0i64)
    }
    /// Zeros of a value's type; the value may be a ghost.
    ///
    /// # Errors
    /// As [`Builder::zeros`].
    pub fn zeros_like(&mut self, v: ValueId) -> Result<ValueId> {
        let ty = self.ty(v).clone();
        self.zeros(ty.dtype, &ty.shape)
    }
}
