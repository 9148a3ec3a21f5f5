//! Lists of tensors made one, one tensor made a list, and methods that PyTorch spells in a way of its own.
use crate::{
    Result, Tensor,
    call::{self, Argument, op},
    failure::OrPanic,
    linalg::list,
    number::IntoScalar,
    shape::{Int, IntoShape},
};
use rtx_core::{DType, Error, Kind};

macro_rules! joins { ($($(#[$doc:meta])* $name:ident $example:literal;)*) => { $(
    $(#[$doc])*
    ///
    /// # Panics
    /// When there are none, or they do not fit.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    #[doc = $example]
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn $name<T: AsRef<Tensor>>(parts: &[T]) -> Tensor {
        call::call_one(op!(stringify!($name)), &[list(parts)]).or_panic()
    }
)* } }
joins! {
    /// Tensors beside each other: along dim 1, vectors along dim 0.
    hstack "assert_eq!(torch::hstack(&[tensor!([1, 2]), tensor!([3])]).to_vec::<i64>()?, [1, 2, 3]);";
    /// Tensors under each other: along dim 0, vectors as rows.
    vstack "assert_eq!(torch::vstack(&[tensor!([1, 2]), tensor!([3, 4])]).shape(), [2, 2]);";
    /// Tensors behind each other: along dim 2.
    dstack "assert_eq!(torch::dstack(&[tensor!([1, 2]), tensor!([3, 4])]).shape(), [1, 2, 2]);";
    /// Vectors as columns, matrices beside each other.
    column_stack "assert_eq!(torch::column_stack(&[tensor!([1, 2]), tensor!([3, 4])]).to_vec::<i64>()?, [1, 3, 2, 4]);";
    /// Matrices along a diagonal, zeros elsewhere.
    block_diag "assert_eq!(torch::block_diag(&[tensor!([[1]]), tensor!([[2]])]).to_vec::<i64>()?, [1, 0, 0, 2]);";
}

/// Sums of products by Einstein's convention: each letter is a dim, letters that the result does not name are summed.
///
/// # Panics
/// When the equation does not fit the tensors.
///
/// ```
/// # use rtx_tensor::{self as torch, tensor};
/// let (a, b) = (torch::ones([2, 3, 4]), torch::ones([2, 4, 5]));
/// assert_eq!(torch::einsum("bij,bjk->bik", &[a, b]).shape(), [2, 3, 5]);
/// ```
#[track_caller]
pub fn einsum<T: AsRef<Tensor>>(equation: &str, parts: &[T]) -> Tensor {
    let args = [Argument::from(equation.to_owned()), list(parts)];
    call::call_bound(op!("einsum"), &args, &[]).or_panic()
}
/// Tensors expanded to the shape that they have together.
///
/// # Panics
/// When their shapes do not broadcast.
///
/// ```
/// # use rtx_tensor::{self as torch, tensor};
/// let both = torch::broadcast_tensors(&[tensor!([[1], [2]]), tensor!([5, 6, 7])]);
/// assert_eq!((both[0].shape(), both[1].shape()), (vec![2, 3], vec![2, 3]));
/// ```
#[track_caller]
pub fn broadcast_tensors<T: AsRef<Tensor>>(parts: &[T]) -> Vec<Tensor> {
    call::call("broadcast_tensors", &[list(parts)], &[]).or_panic()
}
/// `steps` numbers from base^start to base^end, their exponents evenly spaced, `f32`.
///
/// ```
/// # use rtx_tensor::{self as torch, tensor};
/// assert_eq!(torch::logspace(0., 2., 3, 2.).to_vec::<f32>()?, [1., 2., 4.]);
/// # Ok::<(), torch::Error>(())
/// ```
#[track_caller]
pub fn logspace(start: f64, end: f64, steps: usize, base: f64) -> Tensor {
    call::call_bound(op!("logspace"), &[start.into(), end.into(), steps.into(), base.into()], &[]).or_panic()
}

macro_rules! conversions { ($($name:ident $T:ident $literal:literal;)*) => { impl Tensor { $(
    #[doc = concat!("The same numbers as `", $literal, "`.\n\n```\n# use rtx_tensor::{DType, tensor};\n\
        assert_eq!(tensor!([1, 0]).", stringify!($name), "().dtype(), DType::", stringify!($T), ");\n```")]
    #[track_caller]
    pub fn $name(&self) -> Tensor {
        self.to(DType::$T)
    }
)* } } }
conversions! {
    bool Bool "bool";
    byte U8 "u8";
    char I8 "i8";
    short I16 "i16";
    int I32 "i32";
    long I64 "i64";
    half F16 "f16";
    bfloat16 BF16 "bf16";
    float F32 "f32";
    double F64 "f64";
}

impl Tensor {
    /// All elements in one dim, row after row.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// assert_eq!(tensor!([[1, 2], [3, 4]]).ravel().to_vec::<i64>()?, [1, 2, 3, 4]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn ravel(&self) -> Tensor {
        self.reshape(-1)
    }
    /// [`Tensor::expand`] to a shape.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// assert_eq!(tensor!([1, 2]).broadcast_to([3, 2]).shape(), [3, 2]);
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, size: impl IntoShape) -> Tensor {
        self.expand(size)
    }
    /// [`Tensor::reshape`] to another tensor's shape.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// assert_eq!(torch::arange(0..4).reshape_as(&torch::zeros([2, 2])).shape(), [2, 2]);
    /// ```
    #[track_caller]
    pub fn reshape_as(&self, other: &Tensor) -> Tensor {
        self.reshape(other.shape())
    }
    /// [`Tensor::view`] with another tensor's shape.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// assert_eq!(torch::arange(0..4).view_as(&torch::zeros([2, 2])).shape(), [2, 2]);
    /// ```
    #[track_caller]
    pub fn view_as(&self, other: &Tensor) -> Tensor {
        self.view(other.shape())
    }
    /// The last two dims exchanged: PyTorch's attribute `mT`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// assert_eq!(torch::zeros([5, 2, 3]).mT().shape(), [5, 3, 2]);
    /// ```
    #[track_caller]
    #[allow(non_snake_case, reason = "PyTorch's name")]
    pub fn mT(&self) -> Tensor {
        self.transpose(-2, -1)
    }
    /// The last two dims exchanged, complex numbers conjugated; also `mH`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// assert_eq!(tensor!([[1, 2], [3, 4]]).adjoint().to_vec::<i64>()?, [1, 3, 2, 4]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn adjoint(&self) -> Tensor {
        call::call_one(op!("adjoint"), &[self.into()]).or_panic()
    }
    /// [`Tensor::adjoint`] under the name of PyTorch's attribute.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// assert_eq!(torch::zeros([5, 2, 3]).mH().shape(), [5, 3, 2]);
    /// ```
    #[track_caller]
    #[allow(non_snake_case, reason = "PyTorch's name")]
    pub fn mH(&self) -> Tensor {
        self.adjoint()
    }
    /// The elements at (i, i + offset) of the first two dims, in a new last dim.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// assert_eq!(tensor!([[1, 2], [3, 4]]).diagonal(0).to_vec::<i64>()?, [1, 4]);
    /// assert_eq!(tensor!([[1, 2], [3, 4]]).diagonal(1).to_vec::<i64>()?, [2]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn diagonal(&self, offset: impl Int) -> Tensor {
        call::call_bound(op!("diagonal"), &[self.into(), offset.int().into()], &[]).or_panic()
    }
    /// Parts along a dim, one for each of these sizes.
    ///
    /// # Panics
    /// When the sizes do not add up to the dim's.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// let parts = torch::arange(0..5).split_with_sizes([2, 3], 0);
    /// assert_eq!(parts[1].to_vec::<i64>()?, [2, 3, 4]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn split_with_sizes(&self, sizes: impl IntoShape, dim: impl Int) -> Vec<Tensor> {
        call::call("split_with_sizes", &[self.into(), sizes.sizes().into(), dim.int().into()], &[]).or_panic()
    }
    /// As many parts along a dim as asked for; the first ones are larger by 1 where it does not come out even.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// let parts = torch::arange(0..5).tensor_split(2, 0);
    /// assert_eq!((parts[0].numel(), parts[1].numel()), (3, 2));
    /// ```
    #[track_caller]
    pub fn tensor_split(&self, sections: usize, dim: impl Int) -> Vec<Tensor> {
        call::call("tensor_split", &[self.into(), sections.into(), dim.int().into()], &[]).or_panic()
    }
    /// Are all elements within `atol + rtol · |other|` of the other's?
    ///
    /// # Errors
    /// What went wrong while the tensors were computed, or shapes that do not broadcast.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// assert!(tensor!([1., 2.]).allclose(&tensor!([1., 2.00001]), 1e-5, 1e-8)?);
    /// # Ok::<(), torch::Error>(())
    /// ```
    pub fn allclose(&self, other: &Tensor, rtol: f64, atol: f64) -> Result<bool> {
        let outs = call::call("allclose", &[self.into(), other.into(), rtol.into(), atol.into()], &[])?;
        let out = outs.first().ok_or_else(|| Error::new(Kind::Internal, "allclose: no result"))?;
        out.item::<bool>()
    }
    /// A number in each place of `index` along `dim`, joined with what is there: `sum`, `prod`, `mean`, `amax`, `amin`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// let y = torch::zeros(2).scatter_reduce(0, &tensor!([0, 0, 1]), &tensor!([1., 2., 5.]), "sum");
    /// assert_eq!(y.to_vec::<f32>()?, [3., 5.]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn scatter_reduce(&self, dim: impl Int, index: &Tensor, src: &Tensor, reduce: &'static str) -> Tensor {
        let args = [self.into(), dim.int().into(), index.into(), src.into(), reduce.into()];
        call::call_bound(op!("scatter_reduce"), &args, &[]).or_panic()
    }
    /// Slices of `source` at the places of `index` along `dim`, joined with what is there: `prod`, `mean`, `amax`, `amin`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, tensor};
    /// let y = torch::ones(2).index_reduce(0, &tensor!([0, 0]), &tensor!([3., 5.]), "prod");
    /// assert_eq!(y.to_vec::<f32>()?, [15., 1.]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    #[track_caller]
    pub fn index_reduce(&self, dim: impl Int, index: &Tensor, source: &Tensor, reduce: &'static str) -> Tensor {
        let args = [self.into(), dim.int().into(), index.into(), source.into(), reduce.into()];
        call::call_bound(op!("index_reduce"), &args, &[]).or_panic()
    }
}

/// A number as a tensor of rank 0.
///
/// ```
/// # use rtx_tensor::{self as torch, tensor};
/// assert_eq!(torch::scalar_tensor(2.5).item::<f32>()?, 2.5);
/// # Ok::<(), torch::Error>(())
/// ```
#[track_caller]
pub fn scalar_tensor(value: impl IntoScalar) -> Tensor {
    call::call_bound(op!("scalar_tensor"), &[value.into()], &[]).or_panic()
}
