//! Views and indexing: movement shares the cell, so writes go through.
use crate::{
    Result, Tensor, call,
    failure::OrPanic,
    index::IntoIndex,
    shape::{Int, IntoShape, infer_reshape, wrap_dim},
    view::Start,
};
use rtx_core::{Error, Kind, Shape};

fn refuse<T>(kind: Kind, what: String) -> Result<T> {
    Err(Error::new(kind, what))
}

impl Tensor {
    /// A view of another shape, where that needs no copy; a copy otherwise, which writes do not go through. `-1`
    /// stands for the size that is left over.
    ///
    /// # Panics
    /// When the number of elements differs.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::arange(0..6).reshape((2, -1)).shape(), [2, 3]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl IntoShape) -> Tensor {
        self.try_reshape_to(&shape.sizes()).or_panic()
    }
    #[track_caller]
    pub(crate) fn try_reshape_to(&self, want: &[i64]) -> Result<Tensor> {
        let shape = infer_reshape(&self.shape(), want)?;
        match self.view_map().reshape(&shape) {
            Some(view) => Ok(self.with_view(view)),
            None => call::record_one(&[self.into()], |b, x| b.reshape(x[0], &Shape::of(&shape))),
        }
    }
    /// A view of another shape.
    ///
    /// # Panics
    /// When the number of elements differs, or the elements would have to move.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::arange(0..6).view([3, 2]).shape(), [3, 2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn view(&self, shape: impl IntoShape) -> Tensor {
        self.try_view_as(&shape.sizes()).or_panic()
    }
    pub(crate) fn try_view_as(&self, want: &[i64]) -> Result<Tensor> {
        let shape = infer_reshape(&self.shape(), want)?;
        match self.view_map().reshape(&shape) {
            Some(view) => Ok(self.with_view(view)),
            None => Err(Error::new(
                Kind::Shape,
                format!("view: {:?} is not laid out to be seen as {shape:?}", self.shape()),
            )
            .hint("reshape() copies where it must")),
        }
    }
    /// Dims in another order.
    ///
    /// # Panics
    /// When it is no order of the dims.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert_eq!(x.permute([1, 0]).shape(), [3, 2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn permute(&self, dims: impl IntoShape) -> Tensor {
        self.try_permute_to(&dims.sizes()).or_panic()
    }
    pub(crate) fn try_permute_to(&self, dims: &[i64]) -> Result<Tensor> {
        let rank = self.rank();
        let order = dims.iter().map(|&d| wrap_dim("permute", d, rank)).collect::<Result<Vec<_>>>()?;
        let mut seen = order.clone();
        seen.sort_unstable();
        if !seen.iter().copied().eq(0..rank) {
            return refuse(Kind::Argument, format!("permute: {dims:?} is no order of the dims of {:?}", self.shape()));
        }
        Ok(self.with_view(self.view_map().permute(&order)))
    }
    /// Two dims swapped.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert_eq!(x.transpose(0, 1).to_vec::<i64>()?, [0, 3, 1, 4, 2, 5]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn transpose(&self, dim0: impl Int, dim1: impl Int) -> Tensor {
        let swap = |rank| Ok((wrap_dim("transpose", dim0.int(), rank)?, wrap_dim("transpose", dim1.int(), rank)?));
        let (a, b) = Result::or_panic(swap(self.rank()));
        if self.rank() == 0 {
            return self.alias();
        }
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(a, b);
        self.with_view(self.view_map().permute(&order))
    }
    /// One dim to another place.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::zeros([2, 3, 4]).movedim(0, -1).shape(), [3, 4, 2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn movedim(&self, from: impl Int, to: impl Int) -> Tensor {
        let rank = self.rank();
        let (from, to) =
            (wrap_dim("movedim", from.int(), rank).or_panic(), wrap_dim("movedim", to.int(), rank).or_panic());
        let mut order: Vec<usize> = (0..rank).filter(|&d| d != from).collect();
        order.insert(to.min(order.len()), from.min(rank.saturating_sub(1)));
        if rank == 0 { self.alias() } else { self.with_view(self.view_map().permute(&order)) }
    }
    /// A matrix transposed; vectors and numbers stay.
    ///
    /// # Panics
    /// For more than two dims: write `transpose(-2, -1)`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert_eq!(x.t().shape(), [3, 2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn t(&self) -> Tensor {
        match self.rank() {
            0 | 1 => self.alias(),
            2 => self.transpose(0, 1),
            _ => {
                refuse(Kind::Shape, format!("t: needs at most 2 dims, got {:?}; write transpose(-2, -1)", self.shape()))
                    .or_panic()
            }
        }
    }
    /// Dims of size 1 repeated; `-1` keeps a size. What is repeated cannot be written.
    ///
    /// # Panics
    /// When the shape does not broadcast.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(tensor!([[1], [2]]).expand([2, 2]).to_vec::<i64>()?, [1, 1, 2, 2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn expand(&self, shape: impl IntoShape) -> Tensor {
        self.try_expand_to(&shape.sizes()).or_panic()
    }
    pub(crate) fn try_expand_to(&self, want: &[i64]) -> Result<Tensor> {
        let from = self.shape();
        let wrong = || Error::new(Kind::Shape, format!("expand: {from:?} does not broadcast to {want:?}"));
        let lead = want.len().checked_sub(from.len()).ok_or_else(wrong)?;
        let size = |i: usize| match (want[i], i.checked_sub(lead).map(|j| from[j])) {
            (-1, Some(n)) => Ok(n),
            (n, Some(1) | None) if n >= 0 => Ok(n as usize),
            (n, Some(m)) if n == m as i64 => Ok(m),
            _ => Err(wrong()),
        };
        let shape = (0..want.len()).map(size).collect::<Result<Vec<_>>>()?;
        Ok(self.with_view(self.view_map().expand(&shape)))
    }
    /// [`Tensor::expand`] to another tensor's shape.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(tensor!([1, 2]).expand_as(&torch::zeros([3, 2])).shape(), [3, 2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn expand_as(&self, other: &Tensor) -> Tensor {
        self.expand(other.shape())
    }
    /// A new dim of size 1 before `dim`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert_eq!(x.unsqueeze(-1).shape(), [2, 3, 1]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn unsqueeze(&self, dim: impl Int) -> Tensor {
        let at = wrap_dim("unsqueeze", dim.int(), self.rank() + 1).or_panic();
        let mut shape = self.shape();
        shape.insert(at, 1);
        self.reshape(shape)
    }
    /// A dim away, if its size is 1.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::zeros([2, 1]).squeeze(1).shape(), [2]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn squeeze(&self, dim: impl Int) -> Tensor {
        let at = wrap_dim("squeeze", dim.int(), self.rank()).or_panic();
        let mut shape = self.shape();
        if shape.get(at) != Some(&1) {
            return self.alias();
        }
        shape.remove(at);
        self.reshape(shape)
    }
    /// The dims from `start` to `end`, inclusive, as one.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::zeros([2, 3, 4]).flatten(1, -1).shape(), [2, 12]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn flatten(&self, start: impl Int, end: impl Int) -> Tensor {
        let rank = self.rank();
        let dims = |()| Ok((wrap_dim("flatten", start.int(), rank)?, wrap_dim("flatten", end.int(), rank)?));
        let (a, b) = Result::or_panic(dims(()));
        let mut shape = self.shape();
        if shape.is_empty() {
            return self.reshape(1);
        }
        if a > b {
            let what = format!("flatten: dim {a} is after dim {b}");
            return refuse(Kind::Argument, what).or_panic();
        }
        let merged = shape[a..=b].iter().product();
        shape.splice(a..=b, [merged]);
        self.reshape(shape)
    }
    /// A dim split into several; `-1` stands for the size that is left over.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// assert_eq!(torch::zeros([2, 12]).unflatten(1, [3, 4]).shape(), [2, 3, 4]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn unflatten(&self, dim: impl Int, sizes: impl IntoShape) -> Tensor {
        let shape = self.shape();
        let at = wrap_dim("unflatten", dim.int(), shape.len()).or_panic();
        let parts = infer_reshape(&shape[at..=at], &sizes.sizes()).or_panic();
        let mut to = shape;
        to.splice(at..=at, parts);
        self.reshape(to)
    }
    /// `length` elements of a dim from `start`.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert_eq!(x.narrow(1, 1, 2).to_vec::<i64>()?, [1, 2, 4, 5]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn narrow(&self, dim: impl Int, start: impl Int, length: usize) -> Tensor {
        self.try_narrow_to(dim.int(), start.int(), length).or_panic()
    }
    pub(crate) fn try_narrow_to(&self, dim: i64, start: i64, length: usize) -> Result<Tensor> {
        let shape = self.shape();
        let at = wrap_dim("narrow", dim, shape.len())?;
        let size = shape.get(at).copied().unwrap_or(0) as i64;
        let from = if start < 0 { start + size } else { start };
        if from < 0 || from + length as i64 > size {
            return refuse(
                Kind::Index,
                format!("narrow: {length} elements from {start} are outside dim {at} of {shape:?}"),
            );
        }
        Ok(self.with_view(self.view_map().slice(at, Start::Runtime(from), length, 1)))
    }
    /// One position of a dim, which goes away.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert_eq!(x.select(0, -1).to_vec::<i64>()?, [3, 4, 5]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn select(&self, dim: impl Int, index: impl Int) -> Tensor {
        let select = |dim: i64| {
            let at = wrap_dim("select", dim, self.rank())?;
            self.view_map().select("select", at, index.int())
        };
        let view = Result::or_panic(select(dim.int()));
        self.with_view(view)
    }
    /// Every position of a dim, as tensors without it.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert_eq!(x.unbind(0)[1].to_vec::<i64>()?, [3, 4, 5]);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn unbind(&self, dim: impl Int) -> Vec<Tensor> {
        let at = wrap_dim("unbind", dim.int(), self.rank()).or_panic();
        let piece = |i| self.view_map().slice(at, Start::Static(i), 1, 1).drop_dim(at);
        (0..self.size(at) as i64).map(|i| self.with_view(piece(i))).collect()
    }
    /// Pieces of `size` along a dim; the last one may be smaller.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// let parts = x.split(2, 1);
    /// assert_eq!((parts[0].shape(), parts[1].shape()), (vec![2, 2], vec![2, 1]));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn split(&self, size: usize, dim: impl Int) -> Vec<Tensor> {
        let at = wrap_dim("split", dim.int(), self.rank()).or_panic();
        let n = self.size(at);
        if size == 0 && n > 0 {
            return refuse(Kind::Argument, "split: the size of a piece is 0".into()).or_panic();
        }
        let piece = |s: usize| self.view_map().slice(at, Start::Static(s as i64), size.min(n - s), 1);
        (0..n.max(1)).step_by(size.max(1)).map(|s| self.with_view(piece(s))).collect()
    }
    /// At most `chunks` pieces of one size along a dim; the last one may be smaller.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert_eq!(x.chunk(3, 1).len(), 3);
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn chunk(&self, chunks: usize, dim: impl Int) -> Vec<Tensor> {
        self.split(self.size(dim).div_ceil(chunks.max(1)).max(1), dim)
    }
    /// Are its elements in row-major order without gaps?
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert!(x.is_contiguous() && !x.t().is_contiguous());
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn is_contiguous(&self) -> bool {
        self.view_map().is_contiguous()
    }
    /// How far apart neighbours along each dim are in the cell, as PyTorch counts.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert_eq!((x.stride(), x.t().stride()), (vec![3, 1], vec![1, 3]));
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    pub fn stride(&self) -> Vec<isize> {
        self.view_map().strides().to_vec()
    }
    /// Itself where its elements are in row-major order; a copy otherwise, which writes do not go through.
    ///
    /// ```
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::arange(0..6).reshape([2, 3]);
    /// assert!(x.t().contiguous().is_contiguous());
    /// # Ok::<(), rtx_tensor::Error>(())
    /// ```
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        if self.is_contiguous() { self.alias() } else { self.clone() }
    }

    /// Python's `x[…]`. A view when every index is a number or a range; a copy with tensors. Tensors of positions
    /// broadcast against each other, and their dims stand where they stand, in front where a range or a new axis is
    /// between them; a number takes its dim away before, as in PyTorch (NumPy counts it among the tensors). A mask is as
    /// many tensors of positions as it has dims: how many elements it keeps depends on values, so it is read, which runs
    /// the work.
    ///
    /// # Example
    /// ```
    /// use rtx_tensor::{self as torch, Ellipsis, step, tensor};
    /// # fn main() -> torch::Result<()> {
    /// let x = torch::arange(0..24).reshape((2, 3, 4));
    /// assert_eq!(x.i((.., 1..3, -1)).to_vec::<i64>()?, [7, 11, 19, 23]); // x[:, 1:3, -1]
    /// assert_eq!(x.i((0, 0, step(.., -1))).to_vec::<i64>()?, [3, 2, 1, 0]); // x[0, 0, ::-1]
    /// assert_eq!(x.i((Ellipsis, &tensor!([3, 0]))).shape(), [2, 3, 2]); // x[..., [3, 0]]
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// For an index outside its dim, or too many of them, and when a mask cannot be read (`try_i` returns that).
    /// Positions in a tensor are checked when the work runs.
    #[track_caller]
    pub fn i(&self, index: impl IntoIndex) -> Tensor {
        self.read_index(index.index()).or_panic()
    }
}
