//! Tensors from nothing: free functions, as `torch.zeros`. Creation is deferred, so `zeros(n).to(BF16)` makes no f32.
use crate::{
    Place, Result, Tensor,
    call::{self, Argument, op},
    engine::{self, Value},
    failure::OrPanic,
    number::IntoScalar,
    shape::{Int, IntoShape, check_sizes, wrap_dim},
};
use rtx_core::{DType, Element, Error, Kind, Scalar, Shape};
use rtx_ir::Type;
use std::ops::Range;

/// Zeros, `f32`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::zeros([2]).to_vec::<f32>()?, [0., 0.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn zeros(shape: impl IntoShape) -> Tensor {
    call::call_one(op!("zeros"), &[shape.sizes().into()]).or_panic()
}
/// Ones, `f32`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::ones((1, 2)).to_vec::<f32>()?, [1., 1.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn ones(shape: impl IntoShape) -> Tensor {
    call::call_one(op!("ones"), &[shape.sizes().into()]).or_panic()
}
/// A number, repeated. Floats make `f32`, integers `i64`, as in PyTorch.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::full(2, 7).to_vec::<i64>()?, [7, 7]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn full(shape: impl IntoShape, value: impl IntoScalar) -> Tensor {
    call::call_one(op!("full"), &[shape.sizes().into(), value.into()]).or_panic()
}
/// Zeros of another tensor's shape and dtype.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::zeros_like(&tensor!([5, 6])).to_vec::<i64>()?, [0, 0]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn zeros_like(x: &Tensor) -> Tensor {
    full_constant(x, 0.0).or_panic()
}
/// Ones of another tensor's shape and dtype.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::ones_like(&tensor!([5, 6])).to_vec::<i64>()?, [1, 1]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn ones_like(x: &Tensor) -> Tensor {
    full_constant(x, 1.0).or_panic()
}
#[track_caller]
fn full_constant(x: &Tensor, value: f64) -> Result<Tensor> {
    let ty = x.ty();
    call::record_one(&[], |b, _| b.full(ty.dtype, &ty.shape, value))
}
/// A number of another tensor's shape and dtype.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::full_like(&tensor!([5., 6.]), 2).to_vec::<f32>()?, [2., 2.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn full_like(x: &Tensor, value: impl IntoScalar) -> Tensor {
    let (ty, value) = (x.ty(), value.scalar());
    call::record_one(&[], |b, _| {
        let number = b.param(ty.dtype, value)?;
        b.expand(number, &ty.shape)
    })
    .or_panic()
}
/// A run-time number as a tensor of rank 0, on every device: it is recorded only where an op reads it, once a region.
///
/// Unstable: for settings that many calls share, as an optimizer's do.
///
/// # Errors
/// The device's, for what is wider than a parameter's 8 bytes.
#[doc(hidden)]
pub fn run_time_number(value: impl IntoScalar, dtype: DType) -> Result<Tensor> {
    scalar(value.scalar(), dtype)
}
/// A run-time number as a tensor of rank 0.
pub(crate) fn scalar(value: Scalar, dtype: DType) -> Result<Tensor> {
    if dtype.size() > size_of::<u64>() {
        return from_numbers(&[value], dtype, vec![]);
    }
    Ok(Tensor::from_value(Value::number(&engine::executor(), dtype, value)?))
}
/// The integers of a range, `i64`. Where it starts makes no new plan.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::arange(2..5).to_vec::<i64>()?, [2, 3, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn arange<T: Int>(range: Range<T>) -> Tensor {
    arange_step(range, 1)
}
/// The integers of a range, `step` apart, `i64`.
///
/// # Panics
/// When the step is 0.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::arange_step(5..0, -2).to_vec::<i64>()?, [5, 3, 1]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn arange_step<T: Int>(range: Range<T>, step: i64) -> Tensor {
    let (start, end) = (range.start.int(), range.end.int());
    let reach = end.saturating_sub(start);
    let reach = if reach.signum() == step.signum() || step == 0 { reach } else { 0 };
    let count = call::call_one(op!("arange"), &[0.into(), reach.into(), step.into()]).or_panic();
    if start == 0 { count } else { count + start }
}
/// `steps` numbers from `start` to `end`, both included, `f32`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::linspace(0., 1., 3).to_vec::<f32>()?, [0., 0.5, 1.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn linspace(start: f64, end: f64, steps: usize) -> Tensor {
    call::call_one(op!("linspace"), &[start.into(), end.into(), steps.into()]).or_panic()
}
/// The identity matrix, `f32`.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::eye(2).to_vec::<f32>()?, [1., 0., 0., 1.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn eye(n: usize) -> Tensor {
    call::call_one(op!("eye"), &[n.into()]).or_panic()
}

/// Tensors one after the other along a dim.
///
/// # Panics
/// When there are none, or they do not fit.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let y = torch::cat(&[tensor!([1, 2]), tensor!([3])], 0);
/// assert_eq!(y.to_vec::<i64>()?, [1, 2, 3]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn cat<T: AsRef<Tensor>>(parts: &[T], dim: impl Int) -> Tensor {
    let parts = Argument::Tensors(parts.iter().map(|t| t.as_ref().alias()).collect());
    call::call_one(op!("cat"), &[parts, dim.int().into()]).or_panic()
}
/// Tensors of one shape under a new dim.
///
/// # Panics
/// When there are none, or they do not fit.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let y = torch::stack(&[tensor!([1, 2]), tensor!([3, 4])], 1);
/// assert_eq!(y.to_vec::<i64>()?, [1, 3, 2, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn stack<T: AsRef<Tensor>>(parts: &[T], dim: impl Int) -> Tensor {
    let parts = Argument::Tensors(parts.iter().map(|t| t.as_ref().alias()).collect());
    call::call_one(op!("stack"), &[parts, dim.int().into()]).or_panic()
}
/// Are shapes, dtypes and all elements equal?
///
/// # Errors
/// What went wrong while the tensors were computed.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert!(torch::equal(&tensor!([1, 2]), &torch::arange(1..3))?);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn equal(a: &Tensor, b: &Tensor) -> Result<bool> {
    Ok(a.shape() == b.shape() && a.dtype() == b.dtype() && a.read_bytes()? == b.read_bytes()?)
}

/// Typed data keeps its type: `from_slice(&[1.0f64], 1)` is `f64`. (Numbers in `tensor!` are Python's: `f32`, `i64`.)
///
/// # Panics
/// When the numbers do not fill the shape, or memory is short.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::from_slice(&[1_f64, 2.], 2).dtype(), DType::F64);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn from_slice<T: Element>(data: &[T], shape: impl IntoShape) -> Tensor {
    from_elements(data, &shape.sizes()).or_panic()
}
fn from_elements<T: Element>(data: &[T], sizes: &[i64]) -> Result<Tensor> {
    let mut bytes = Vec::with_capacity(size_of_val(data));
    data.iter().for_each(|x| x.write(&mut bytes));
    let shape = check_sizes("from_slice", sizes)?;
    if shape.iter().product::<usize>() != data.len() {
        return Err(Error::new(Kind::Shape, format!("from_slice: {} numbers for shape {shape:?}", data.len())));
    }
    from_bytes(T::DTYPE, shape, &bytes)
}
/// A tensor from its bytes, row-major, in native order.
///
/// # Errors
/// When the bytes do not fill the shape, or memory is short.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::from_bytes(DType::U8, 2, &[3, 4])?.to_vec::<u8>()?, [3, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn from_bytes(dtype: DType, shape: impl IntoShape, bytes: &[u8]) -> Result<Tensor> {
    let ty = Type::new(dtype, Shape::of(&check_sizes("from_bytes", &shape.sizes())?));
    if ty.bytes() != bytes.len() {
        return Err(Error::new(Kind::Shape, format!("from_bytes: {} bytes for {ty}", bytes.len())));
    }
    Ok(Tensor::from_value(Value::from_bytes(&engine::executor(), ty, bytes)?))
}

/// Nested arrays and vectors of numbers.
///
/// Unstable: what `tensor!` is made of; write literals by the macro.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let rows: Vec<[f32; 2]> = vec![[1., 2.]]; // arrays and vectors in each other
/// assert_eq!(tensor!(rows).shape(), [1, 2]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub trait Literal {
    /// The element type: Python's for its literals.
    const DTYPE: DType;
    /// Appends the sizes, outermost first; `None` for a ragged literal.
    fn sizes(&self, out: &mut Vec<usize>) -> Option<()>;
    /// Appends the numbers, row-major.
    fn numbers(&self, out: &mut Vec<Scalar>);
}
macro_rules! literals { ($($T:ty => $D:ident),*) => { $(impl Literal for $T {
    const DTYPE: DType = DType::$D;
    fn sizes(&self, _: &mut Vec<usize>) -> Option<()> { Some(()) }
    fn numbers(&self, out: &mut Vec<Scalar>) { out.push(self.scalar()) }
})* } }
literals!(f32 => F32, f64 => F32, i32 => I64, i64 => I64, u8 => I64, usize => I64, bool => Bool);
impl<T: Literal, const N: usize> Literal for [T; N] {
    const DTYPE: DType = T::DTYPE;
    fn sizes(&self, out: &mut Vec<usize>) -> Option<()> {
        sizes_of(self, out)
    }
    fn numbers(&self, out: &mut Vec<Scalar>) {
        self.iter().for_each(|x| x.numbers(out))
    }
}
impl<T: Literal> Literal for Vec<T> {
    const DTYPE: DType = T::DTYPE;
    fn sizes(&self, out: &mut Vec<usize>) -> Option<()> {
        sizes_of(self, out)
    }
    fn numbers(&self, out: &mut Vec<Scalar>) {
        self.iter().for_each(|x| x.numbers(out))
    }
}
fn sizes_of<T: Literal>(rows: &[T], out: &mut Vec<usize>) -> Option<()> {
    let mut inner = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let mut sizes = Vec::new();
        row.sizes(&mut sizes)?;
        if i > 0 && sizes != inner {
            return None;
        }
        inner = sizes;
    }
    out.push(rows.len());
    out.extend(inner);
    Some(())
}
/// What `tensor!` calls: `f32`, `i64` or `bool` from nested arrays.
///
/// Unstable: what `tensor!` is made of; use the macro.
///
/// # Panics
/// When vectors inside have different lengths.
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// assert_eq!(torch::literal(vec![vec![1, 2], vec![3, 4]]).shape(), [2, 2]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn literal<L: Literal>(data: L) -> Tensor {
    literal_of(data, L::DTYPE)
}
#[track_caller]
fn literal_of<L: Literal>(data: L, dtype: DType) -> Tensor {
    let (mut sizes, mut numbers) = (Vec::new(), Vec::new());
    if data.sizes(&mut sizes).is_none() {
        Err(Error::new(Kind::Shape, "tensor!: rows have different lengths")).or_panic()
    }
    data.numbers(&mut numbers);
    from_numbers(&numbers, dtype, sizes).or_panic()
}
/// What `tensor!` calls with a place: numbers are rounded once, to the dtype asked for.
///
/// Unstable: what `tensor!` is made of; use the macro.
///
/// # Panics
/// When vectors inside have different lengths.
///
/// ```
/// # use rtx_tensor::{DType, tensor};
/// assert_eq!(tensor!([0.1]; DType::F64).to_vec::<f64>()?, [0.1]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn literal_at<L: Literal>(data: L, place: impl Into<Place>) -> Tensor {
    let place = place.into();
    literal_of(data, place.dtype.unwrap_or(L::DTYPE)).to(place)
}
fn from_numbers(numbers: &[Scalar], dtype: DType, shape: Vec<usize>) -> Result<Tensor> {
    let mut bytes = Vec::with_capacity(numbers.len() * dtype.size());
    for n in numbers {
        bytes.extend_from_slice(&u128::from(n.to_bits(dtype)).to_le_bytes()[..dtype.size()]);
    }
    from_bytes(dtype, shape, &bytes)
}
/// A tensor of the numbers as they are written: f32 where they have a point, i64 where not, or of the type that is named.
///
/// ```
/// use rtx_tensor::{DType::*, tensor};
/// let x = tensor!([[1., 2.], [3., 4.]]);
/// assert_eq!((x.shape(), x.dtype()), (vec![2, 2], F32));
/// assert_eq!(tensor!(2.5).item::<f32>()?, 2.5); // rank 0
/// assert_eq!(tensor!([1, 2]).dtype(), I64);
/// assert_eq!(tensor!([1, 2]; F64).to_vec::<f64>()?, [1.0, 2.0]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[macro_export]
macro_rules! tensor {
    ($data:expr; $place:expr) => {
        $crate::literal_at($data, $place)
    };
    ($data:expr) => {
        $crate::literal($data)
    };
}

/// Copies of grids of coordinates: rows of the first, columns of the second (`indexing="ij"`).
///
/// ```
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let [rows, columns] = torch::meshgrid(&tensor!([1, 2]), &tensor!([5, 6]));
/// assert_eq!(rows.to_vec::<i64>()?, [1, 1, 2, 2]);
/// assert_eq!(columns.to_vec::<i64>()?, [5, 6, 5, 6]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn meshgrid(a: &Tensor, b: &Tensor) -> [Tensor; 2] {
    let shape = [a.numel(), b.numel()];
    wrap_dim("meshgrid", 0, a.rank()).or_panic();
    [a.reshape((-1, 1)).expand(shape), b.reshape((1, -1)).expand(shape)]
}
