//! Reading: the calls that run work, so the ones that return `Result` (contract R5).
use crate::{Result, Tensor};
use rtx_core::{Class, Complex, DType, Element, Error, Kind, Scalar};

impl Tensor {
    /// The elements, row-major, in native order.
    ///
    /// # Errors
    /// What went wrong while they were computed, with the line that recorded the op.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(tensor!([1; 1]).to(DType::U8).read_bytes()?, [1]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn read_bytes(&self) -> Result<Vec<u8>> {
        self.traced()?.value.read()
    }
    /// The elements, row-major.
    ///
    /// # Errors
    /// When the element type is another one, or something went wrong while they were computed.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!((torch::ones(2) * 3.).to_vec::<f32>()?, [3., 3.]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let dtype = self.dtype();
        if dtype != T::DTYPE {
            let what = format!("to_vec: the tensor is {dtype}, asked for {}", T::DTYPE);
            return Err(Error::new(Kind::DType, what).hint(format!("convert it first: .to({:?})", T::DTYPE)));
        }
        Ok(self.read_bytes()?.chunks_exact(dtype.size()).map(T::read).collect())
    }
    /// The one element, converted where that loses nothing of its class: integers become floats, floats no integers.
    ///
    /// # Errors
    /// When there is not exactly one element, it does not convert, or something went wrong while it was computed.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(tensor!([1, 2, 3]).sum(..).item::<i64>()?, 6);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        if self.numel() != 1 {
            return Err(Error::new(Kind::Shape, format!("item: needs one element, shape is {:?}", self.shape())));
        }
        let (from, to) = (self.dtype(), T::DTYPE);
        if from.class() > to.class() {
            return Err(Error::new(Kind::DType, format!("item: the tensor is {from}, asked for {to}")));
        }
        let bytes = self.read_bytes()?;
        if from == to {
            return Ok(T::read(&bytes));
        }
        Ok(T::read(&element(from, &bytes).to_word(to).to_ne_bytes()[..to.size()]))
    }
    /// Is anything left to run before it can be read? Never runs it.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones(2) + 1.;
    /// x.to_vec::<f32>()?; // runs what it waits for
    /// assert!(x.is_ready());
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn is_ready(&self) -> bool {
        self.traced().is_ok_and(|t| t.value.is_ready())
    }
    /// The elements where a mask holds, as one row. Its size depends on values, so this runs the work.
    ///
    /// # Errors
    /// When the shapes do not broadcast, or something went wrong while the mask was computed.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = tensor!([1, 5, 3]);
    /// assert_eq!(x.masked_select(&x.gt(2))?.to_vec::<i64>()?, [5, 3]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn masked_select(&self, mask: &Tensor) -> Result<Tensor> {
        if mask.dtype() != DType::Bool {
            return Err(Error::new(Kind::DType, format!("masked_select: the mask is bool, got {}", mask.dtype())));
        }
        let shapes = rtx_ir::rules::broadcast_shapes(&[self.dims_of(), mask.dims_of()]);
        let shape = shapes.map_err(|e| Error::new(Kind::Shape, format!("masked_select: {}", e.message())))?;
        let sizes = shape.sizes().to_vec();
        let held = mask.expand(sizes.clone()).to_vec::<bool>()?;
        let ids: Vec<i64> = (0i64..).zip(held).filter(|(_, h)| *h).map(|(i, _)| i).collect();
        Ok(self.expand(sizes).reshape(-1).i(&crate::from_slice(&ids, ids.len())))
    }
    /// The positions of what is not 0, one row each, `i64`. Their number depends on values, so this runs the work.
    ///
    /// # Errors
    /// What went wrong while the tensor was computed.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(tensor!([0, 5, 3]).nonzero()?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        let (dtype, shape) = (self.dtype(), self.shape());
        let bytes = self.read_bytes()?;
        let mut rows = Vec::new();
        let mut n = 0;
        for (i, e) in bytes.chunks_exact(dtype.size()).enumerate() {
            if element(dtype, e).is_nonzero() {
                rows.extend(position(i, &shape));
                n += 1;
            }
        }
        crate::from_slice(&rows, (n as usize, shape.len())).try_to_place((&self.device()).into())
    }
    /// All elements as host numbers.
    pub(crate) fn numbers(&self) -> Result<Vec<Number>> {
        let dtype = self.dtype();
        Ok(self.read_bytes()?.chunks_exact(dtype.size()).map(|e| element(dtype, e)).collect())
    }
}

/// Row-major position `i` as one index for each dim.
fn position(i: usize, shape: &[usize]) -> Vec<i64> {
    let strides = rtx_core::contiguous_strides(shape);
    shape.iter().zip(&strides).map(|(&n, &s)| (i / s as usize % n) as i64).collect()
}

/// One element, in the widest number of its class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Bool(bool),
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

impl Number {
    /// As a float; of a complex number the real part.
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Bool(b) => u8::from(b).into(),
            Number::Int(i) => i as f64,
            Number::Float(x) | Number::Complex(x, _) => x,
        }
    }
    /// The imaginary part.
    pub fn imaginary(self) -> f64 {
        if let Number::Complex(_, im) = self { im } else { 0.0 }
    }
    /// As a number of the host; of a complex number the real part.
    pub fn scalar(self) -> Scalar {
        match self {
            Number::Bool(b) => Scalar::Bool(b),
            Number::Int(i) => Scalar::Int(i as i64),
            other => Scalar::Float(other.to_f64()),
        }
    }
    fn is_nonzero(self) -> bool {
        self.to_f64() != 0.0 || self.imaginary() != 0.0
    }
    /// The bits as an element of `to`, zero-extended.
    fn to_word(self, to: DType) -> u128 {
        let real = match self {
            Number::Bool(b) => Scalar::Bool(b),
            Number::Int(i) if to.class() <= Class::Int => Scalar::Int(i as i64),
            other => Scalar::Float(other.to_f64()),
        };
        let imaginary = if to.class() == Class::Complex { self.imaginary() } else { 0.0 };
        let part = to.real();
        u128::from(real.to_bits(part)) | u128::from(Scalar::Float(imaginary).to_bits(part)) << (8 * part.size() % 128)
    }
}

/// One element as a host number.
pub(crate) fn element(dtype: DType, bytes: &[u8]) -> Number {
    use DType::*;
    match dtype {
        Bool => Number::Bool(bool::read(bytes)),
        U8 => Number::Int(u8::read(bytes).into()),
        I8 => Number::Int(i8::read(bytes).into()),
        I16 => Number::Int(i16::read(bytes).into()),
        I32 => Number::Int(i32::read(bytes).into()),
        I64 => Number::Int(i64::read(bytes).into()),
        U16 => Number::Int(u16::read(bytes).into()),
        U32 => Number::Int(u32::read(bytes).into()),
        U64 => Number::Int(u64::read(bytes).into()),
        F16 => Number::Float(half::f16::read(bytes).to_f64()),
        BF16 => Number::Float(half::bf16::read(bytes).to_f64()),
        F32 => Number::Float(f32::read(bytes).into()),
        F64 => Number::Float(f64::read(bytes)),
        F8E4M3 => Number::Float(rtx_core::F8E4M3::read(bytes).to_f64()),
        F8E5M2 => Number::Float(rtx_core::F8E5M2::read(bytes).to_f64()),
        C64 => {
            let z = Complex::<f32>::read(bytes);
            Number::Complex(z.re.into(), z.im.into())
        }
        C128 => {
            let z = Complex::<f64>::read(bytes);
            Number::Complex(z.re, z.im)
        }
    }
}
