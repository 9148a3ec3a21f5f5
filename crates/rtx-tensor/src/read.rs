//! Reading: the calls that run work, so the ones that return `Result` (contract R5).
use crate::{Result, Tensor};
use rtx_core::{Class, DType, Element, Error, Kind, Scalar};

impl Tensor {
    /// The elements, row-major, in native order.
    ///
    /// # Errors
    /// What went wrong while they were computed, with the line that recorded the op.
    #[track_caller]
    pub fn read_bytes(&self) -> Result<Vec<u8>> {
        self.traced()?.value.read()
    }
    /// The elements, row-major.
    ///
    /// # Errors
    /// When the element type is another one, or something went wrong while they were computed.
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
        let bits = element(from, &bytes).and_then(|s| s.to_bits(to));
        let bits =
            bits.ok_or_else(|| Error::new(Kind::Unsupported, format!("item: {from} as {to} is not built yet")))?;
        Ok(T::read(&bits.to_ne_bytes()[..to.size()]))
    }
    /// Is anything left to run before it can be read? Never runs it.
    pub fn is_ready(&self) -> bool {
        self.traced().is_ok_and(|t| t.value.is_ready())
    }
    /// The elements where a mask holds, as one row. Its size depends on values, so this runs the work.
    ///
    /// # Errors
    /// When the shapes do not broadcast, or something went wrong while the mask was computed.
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
    #[track_caller]
    pub fn nonzero(&self) -> Result<Tensor> {
        let (dtype, shape) = (self.dtype(), self.shape());
        let bytes = self.read_bytes()?;
        let mut rows = Vec::new();
        let mut n = 0;
        for (i, e) in bytes.chunks_exact(dtype.size()).enumerate() {
            let value = element(dtype, e)
                .ok_or_else(|| Error::new(Kind::Unsupported, format!("nonzero: {dtype} is not built yet")))?;
            if value.to_f64() != 0.0 {
                rows.extend(position(i, &shape));
                n += 1;
            }
        }
        Ok(crate::from_slice(&rows, (n as usize, shape.len())))
    }
    /// All elements as host numbers.
    pub(crate) fn numbers(&self) -> Result<Vec<Scalar>> {
        let dtype = self.dtype();
        let numbers: Option<Vec<Scalar>> =
            self.read_bytes()?.chunks_exact(dtype.size()).map(|e| element(dtype, e)).collect();
        numbers.ok_or_else(|| Error::new(Kind::Unsupported, format!("reading {dtype} as numbers is not built yet")))
    }
}

/// Row-major position `i` as one index for each dim.
fn position(i: usize, shape: &[usize]) -> Vec<i64> {
    let strides = rtx_core::contiguous_strides(shape);
    shape.iter().zip(&strides).map(|(&n, &s)| (i / s as usize % n) as i64).collect()
}

/// One element as a host number.
pub(crate) fn element(dtype: DType, bytes: &[u8]) -> Option<Scalar> {
    use DType::*;
    Some(match dtype {
        Bool => Scalar::Bool(bool::read(bytes)),
        U8 => Scalar::Int(u8::read(bytes).into()),
        I8 => Scalar::Int(i8::read(bytes).into()),
        I16 => Scalar::Int(i16::read(bytes).into()),
        I32 => Scalar::Int(i32::read(bytes).into()),
        I64 => Scalar::Int(i64::read(bytes)),
        U16 => Scalar::Int(u16::read(bytes).into()),
        U32 => Scalar::Int(u32::read(bytes).into()),
        U64 => Scalar::Int(i64::try_from(u64::read(bytes)).ok()?),
        F16 => Scalar::Float(half::f16::read(bytes).to_f64()),
        BF16 => Scalar::Float(half::bf16::read(bytes).to_f64()),
        F32 => Scalar::Float(f32::read(bytes).into()),
        F64 => Scalar::Float(f64::read(bytes)),
        F8E4M3 | F8E5M2 | C64 | C128 => return None,
    })
    .filter(|_| dtype.class() < Class::Complex)
}
