//! Lists and dictionaries of modules and parameters, and layers that only change a shape.
use crate::{Field, Layer, Module, Param, Visitor};
use rtx_tensor::Tensor;
use std::ops::{Deref, DerefMut};

/// A list of modules, under `0`, `1`, …. A `Vec` of modules in a field does the same.
///
/// ```
/// use rtx_nn::{Linear, Module, ModuleList};
/// let list: ModuleList<Linear> = (0..3).map(|_| Linear::new(4, 4)).collect();
/// assert_eq!(list.named_parameters()[2].0, "1.weight");
/// ```
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let blocks = nn::ModuleList(vec![nn::Linear::new(3, 3), nn::Linear::new(3, 3)]);
/// let y = blocks.0.iter().fold(torch::ones([2, 3]), |x, block| block.forward(&x));
/// assert_eq!(y.shape(), [2, 3]);
/// assert_eq!(blocks.named_parameters()[2].0, "1.weight");
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ModuleList<M>(pub Vec<M>);

/// A list of parameters, under `0`, `1`, ….
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let list = nn::ParameterList(vec![nn::Param::new(torch::zeros([2])), nn::Param::new(torch::ones([3]))]);
/// assert_eq!(list.named_parameters()[1].0, "1");
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ParameterList(pub Vec<Param>);

/// Modules by name, in the order in which they were put there.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let mut heads = nn::ModuleDict::default();
/// assert!(heads.is_empty());
/// heads.insert("colour", nn::Linear::new(8, 3));
/// heads.insert("size", nn::Linear::new(8, 1));
/// assert_eq!(heads.len(), 2);
/// assert!(heads.get("colour").is_some());
/// assert_eq!(heads.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["colour", "size"]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModuleDict<M>(Vec<(String, M)>);
impl<M> Default for ModuleDict<M> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Parameters by name, in the order in which they were put there.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let mut scales = nn::ParameterDict::default();
/// assert!(scales.is_empty());
/// scales.insert("left", nn::Param::new(torch::ones([2])));
/// assert_eq!(scales.len(), 1);
/// assert!(scales.get("left").is_some());
/// assert_eq!(scales.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["left"]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ParameterDict(Vec<(String, Param)>);

macro_rules! lists { ($($T:ident $([$M:ident])? : $Item:ty;)*) => { $(
    impl $(<$M: Module>)? Module for $T $(<$M>)? {
        fn visit(&self, visitor: &mut Visitor<'_>) {
            self.0.iter().enumerate().for_each(|(i, item)| item.visit_field(&i.to_string(), visitor));
        }
    }
    impl $(<$M>)? Deref for $T $(<$M>)? {
        type Target = Vec<$Item>;
        fn deref(&self) -> &Self::Target {
            &self.0
        }
    }
    impl $(<$M>)? DerefMut for $T $(<$M>)? {
        fn deref_mut(&mut self) -> &mut Self::Target {
            &mut self.0
        }
    }
    impl $(<$M>)? FromIterator<$Item> for $T $(<$M>)? {
        fn from_iter<I: IntoIterator<Item = $Item>>(items: I) -> Self {
            Self(items.into_iter().collect())
        }
    }
)* } }
lists! { ModuleList[M]: M; ParameterList: Param; }

macro_rules! dictionaries { ($($T:ident $([$M:ident])? : $Item:ty;)*) => { $(
    impl $(<$M: Module>)? Module for $T $(<$M>)? {
        fn visit(&self, visitor: &mut Visitor<'_>) {
            self.0.iter().for_each(|(name, item)| item.visit_field(name, visitor));
        }
    }
    impl $(<$M>)? $T $(<$M>)? {
        /// What is called `name`.
        pub fn get(&self, name: &str) -> Option<&$Item> {
            self.0.iter().find(|(n, _)| n == name).map(|(_, item)| item)
        }
        /// Puts it under `name`; what was there comes back.
        pub fn insert(&mut self, name: impl Into<String>, item: $Item) -> Option<$Item> {
            let name = name.into();
            match self.0.iter_mut().find(|(n, _)| *n == name) {
                Some((_, old)) => Some(std::mem::replace(old, item)),
                None => {
                    self.0.push((name, item));
                    None
                }
            }
        }
        /// Names and what is under them.
        pub fn iter(&self) -> impl Iterator<Item = (&str, &$Item)> {
            self.0.iter().map(|(name, item)| (name.as_str(), item))
        }
        /// How many there are.
        pub fn len(&self) -> usize {
            self.0.len()
        }
        /// Are there none?
        pub fn is_empty(&self) -> bool {
            self.0.is_empty()
        }
    }
    impl $(<$M>)? FromIterator<(String, $Item)> for $T $(<$M>)? {
        fn from_iter<I: IntoIterator<Item = (String, $Item)>>(items: I) -> Self {
            Self(items.into_iter().collect())
        }
    }
)* } }
dictionaries! { ModuleDict[M]: M; ParameterDict: Param; }

/// Dims `start` to `end` as one: `[batch, 3, 4]` becomes `[batch, 12]`.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let x = torch::ones([2, 3, 4]);
/// assert_eq!(nn::Flatten::new().forward(&x).shape(), [2, 12]);
/// assert_eq!(nn::Flatten::dims(0, 1).forward(&x).shape(), [6, 4]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Module)]
pub struct Flatten {
    start: i64,
    end: i64,
}
impl Flatten {
    /// All dims but the first.
    pub fn new() -> Self {
        Self { start: 1, end: -1 }
    }
    /// These dims, both included.
    pub fn dims(start: i64, end: i64) -> Self {
        Self { start, end }
    }
}
impl Default for Flatten {
    fn default() -> Self {
        Self::new()
    }
}
impl Layer for Flatten {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.flatten(self.start, self.end)
    }
}

/// One dim as several: the inverse of [`Flatten`].
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let y = nn::Unflatten::new(1, [3, 4]).forward(&torch::ones([2, 12]));
/// assert_eq!(y.shape(), [2, 3, 4]);
/// # Ok::<(), torch::Error>(())
/// ```
#[derive(Clone, Debug, Module)]
pub struct Unflatten {
    dim: i64,
    sizes: Vec<i64>,
}
impl Unflatten {
    /// This dim, as these sizes; one of them may be -1.
    pub fn new(dim: i64, sizes: impl Into<Vec<i64>>) -> Self {
        Self { dim, sizes: sizes.into() }
    }
}
impl Layer for Unflatten {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.unflatten(self.dim, self.sizes.as_slice())
    }
}
