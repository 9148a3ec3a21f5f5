//! Where a composite computes in more precision than it stores (contract N1), and sizes as numbers.
use rtx_core::{DType, Dim, Fold, Result, Scalar, Shape};
use rtx_ir::{Builder, ValueId, rules};

/// The value in compute precision: f32 for halves, itself otherwise.
pub(crate) fn widen(b: &mut Builder<'_>, x: ValueId) -> Result<ValueId> {
    let dtype = rules::number_dtype(b.dtype(x));
    b.cast(x, dtype)
}

/// The float type in which a function of an integer or bool tensor is computed.
pub(crate) fn float_of(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}

/// The product of these dims of a shape as a rank-0 number: a constant, or a sum of ones where a size is a symbol.
pub(crate) fn count(b: &mut Builder<'_>, dtype: DType, shape: &Shape, axes: &[usize]) -> Result<ValueId> {
    let dims: Shape = axes.iter().map(|&a| shape.dim(a)).collect();
    if dims.is_static() {
        return b.constant(dtype, Scalar::Float(dims.numel() as f64));
    }
    let ones = b.full(dtype, &dims, 1.0)?;
    let all: Vec<usize> = (0..dims.rank()).collect();
    b.reduce(Fold::Sum, ones, &all)
}

/// The mean over axes, kept as dims of size 1: `sum / n` (contract N3).
pub(crate) fn mean_keep(b: &mut Builder<'_>, x: ValueId, axes: &[usize]) -> Result<ValueId> {
    let shape = b.shape(x);
    let sum = b.reduce_keep(Fold::Sum, x, axes)?;
    let n = count(b, b.dtype(x), &shape, axes)?;
    b.div(sum, n)
}

/// The shape with these axes of size 1, or without them.
pub(crate) fn folded_shape(shape: &Shape, axes: &[usize], keep: bool) -> Shape {
    (0..shape.rank())
        .filter(|i| keep || !axes.contains(i))
        .map(|i| if axes.contains(&i) { Dim::Const(1) } else { shape.dim(i) })
        .collect()
}

/// The number that loses against every other where the largest wins.
pub(crate) fn lowest(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(false),
        d if d.is_float() => Scalar::Float(f64::NEG_INFINITY),
        DType::I64 => Scalar::Int(i64::MIN),
        DType::I32 => Scalar::Int(i64::from(i32::MIN)),
        DType::I16 => Scalar::Int(i64::from(i16::MIN)),
        DType::I8 => Scalar::Int(i64::from(i8::MIN)),
        _ => Scalar::Int(0),
    }
}

/// The number that loses against every other where the smallest wins.
pub(crate) fn highest(dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(true),
        d if d.is_float() => Scalar::Float(f64::INFINITY),
        DType::I32 => Scalar::Int(i64::from(i32::MAX)),
        DType::I16 => Scalar::Int(i64::from(i16::MAX)),
        DType::I8 => Scalar::Int(i64::from(i8::MAX)),
        DType::U8 => Scalar::Int(i64::from(u8::MAX)),
        DType::U16 => Scalar::Int(i64::from(u16::MAX)),
        DType::U32 => Scalar::Int(i64::from(u32::MAX)),
        _ => Scalar::Int(i64::MAX),
    }
}
