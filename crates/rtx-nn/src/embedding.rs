//! Rows of a table, by number.
use crate::call::one;
use crate::{Layer, Module, Param, functional as F};
use rtx_tensor::{Argument, Tensor, call, no_grad, randn};

/// A table of `rows` vectors; the forward pass picks rows.
///
/// # Shape
/// `[..]` of integers to `[.., width]`; weight `[rows, width]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let table = nn::Embedding::new(10, 4).padding(0); // row 0 is zeros and stays so
/// let y = table.forward(&tensor!([[1, 2], [3, 0]]));
/// assert_eq!(y.shape(), [2, 2, 4]);
/// let ready = nn::Embedding::from_pretrained(tensor!([[1., 2.], [3., 4.]]));
/// assert_eq!(ready.forward(&tensor!(1)).to_vec::<f32>()?, [3., 4.]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Embedding {
    /// `[rows, width]`.
    pub weight: Param,
    padding: Option<usize>,
}

impl Embedding {
    /// A table drawn from N(0, 1), as PyTorch draws it.
    pub fn new(rows: usize, width: usize) -> Self {
        Self { weight: Param::new(randn([rows, width])), padding: None }
    }
    /// This row is zero at first and gets no gradient.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    #[track_caller]
    pub fn padding(self, row: usize) -> Self {
        no_grad(|| {
            self.weight.i(row).fill_(0);
        });
        Self { padding: Some(row), ..self }
    }
    /// The table is `weight`: pre-trained vectors.
    #[must_use]
    pub fn from_pretrained(weight: Tensor) -> Self {
        Self { weight: Param::new(weight), padding: None }
    }
    /// The rows that `ids` name.
    #[track_caller]
    pub fn forward(&self, ids: &Tensor) -> Tensor {
        let rows = F::embedding(ids, &self.weight);
        let Some(padding) = self.padding else { return rows };
        // The padding row's gradient ends here: its values go on without it.
        let keep = ids.ne(padding).unsqueeze(-1);
        keep.if_else(&rows, rows.detach())
    }
}
impl Layer for Embedding {
    fn forward(&self, x: &Tensor) -> Tensor {
        Embedding::forward(self, x)
    }
}

/// How [`EmbeddingBag`] makes one vector of several.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let bags = nn::EmbeddingBag::new(10, 4).mode(nn::BagMode::Max); // or Sum, or Mean
/// assert_eq!(bags.forward(&tensor!([[1, 2, 3]])).shape(), [1, 4]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    #[default]
    Mean,
    /// The largest of each element.
    Max,
}

impl BagMode {
    const fn word(self) -> &'static str {
        match self {
            BagMode::Sum => "sum",
            BagMode::Mean => "mean",
            BagMode::Max => "max",
        }
    }
}

/// What [`EmbeddingBag::forward_with`] takes beside the ids.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let bags = nn::EmbeddingBag::new(10, 4);
/// let offsets = tensor!([0, 3]); // the bags 1 2 3 and 4
/// let y = bags.forward_with(&tensor!([1, 2, 3, 4]), nn::Bags { offsets: Some(&offsets), weights: None });
/// assert_eq!(y.shape(), [2, 4]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Bags<'a> {
    /// Where each bag begins in ids of one dim, `[bags]`.
    pub offsets: Option<&'a Tensor>,
    /// A weight for each id, of their shape; for sums only.
    pub weights: Option<&'a Tensor>,
}

/// Sums, means or maxima of rows of a table: one vector for each bag of ids, zeros for an empty one.
///
/// # Shape
/// `[bags, ids]` of integers, or `[ids]` and offsets `[bags]`, to `[bags, width]`; weight `[rows, width]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let bags = nn::EmbeddingBag::new(10, 4).mode(nn::BagMode::Sum);
/// let ids = tensor!([[1, 2], [3, 4]]); // two bags
/// assert_eq!(bags.forward(&ids).shape(), [2, 4]);
/// assert_eq!(bags.forward_weighted(&ids, &tensor!([[1., 0.5], [1., 0.]])).shape(), [2, 4]);
/// // The same bags in one line, with where each begins and where the last one ends; row 0 counts nothing.
/// let (line, offsets) = (tensor!([1, 2, 3, 4]), tensor!([0, 2, 4]));
/// let bags = bags.padding(0).include_last_offset();
/// assert_eq!(bags.forward_with(&line, nn::Bags { offsets: Some(&offsets), weights: None }).shape(), [2, 4]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct EmbeddingBag {
    /// `[rows, width]`.
    pub weight: Param,
    #[module(skip)]
    mode: BagMode,
    padding: Option<usize>,
    last_offset: bool,
}

impl EmbeddingBag {
    /// A table drawn from N(0, 1), and means.
    pub fn new(rows: usize, width: usize) -> Self {
        let weight = Param::new(randn([rows, width]));
        Self { weight, mode: BagMode::default(), padding: None, last_offset: false }
    }
    /// Another way to make one vector of several.
    #[must_use]
    pub fn mode(self, mode: BagMode) -> Self {
        Self { mode, ..self }
    }
    /// This row is zero at first, counts nothing and gets no gradient.
    ///
    /// # Panics
    /// When there is no such row.
    #[must_use]
    #[track_caller]
    pub fn padding(self, row: usize) -> Self {
        no_grad(|| {
            self.weight.i(row).fill_(0);
        });
        Self { padding: Some(row), ..self }
    }
    /// The last offset is where the last bag ends.
    #[must_use]
    pub fn include_last_offset(self) -> Self {
        Self { last_offset: true, ..self }
    }
    /// One vector for each bag.
    #[track_caller]
    pub fn forward(&self, bags: &Tensor) -> Tensor {
        self.forward_with(bags, Bags::default())
    }
    /// Sums with a weight for each id, `[bags, ids]`.
    ///
    /// # Panics
    /// When the mode is not [`BagMode::Sum`], or shapes differ.
    #[track_caller]
    pub fn forward_weighted(&self, bags: &Tensor, weights: &Tensor) -> Tensor {
        self.forward_with(bags, Bags { weights: Some(weights), offsets: None })
    }
    /// Bags of any size, with weights or without.
    ///
    /// # Panics
    /// When ids of one dim come without offsets, weights are not for sums, or shapes differ.
    #[track_caller]
    pub fn forward_with(&self, ids: &Tensor, bags: Bags<'_>) -> Tensor {
        let kwargs: [(&str, Argument); 5] = [
            ("offsets", bags.offsets.into()),
            ("mode", self.mode.word().into()),
            ("per_sample_weights", bags.weights.into()),
            ("include_last_offset", self.last_offset.into()),
            ("padding_idx", self.padding.into()),
        ];
        one(call("python_embedding_bag", &[(&*self.weight).into(), ids.into()], &kwargs))
    }
}
impl Layer for EmbeddingBag {
    fn forward(&self, x: &Tensor) -> Tensor {
        EmbeddingBag::forward(self, x)
    }
}
