//! Pooling layers.
use crate::{Layer, Module, call::one};
use rtx_tensor::{Tensor, call, options, shape::IntoShape};

fn list(sizes: impl IntoShape) -> Vec<i64> {
    sizes.sizes().to_vec()
}

macro_rules! windows {
    ($($(#[$doc:meta])* $T:ident $O:ident $function:ident { $($(#[$fdoc:meta])* $field:ident: $ty:ty = $take:expr;)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            kernel: Vec<i64>,
            #[module(skip)]
            options: options::$O,
        }
        impl $T {
            /// Windows of a size, side by side.
            pub fn new(kernel: impl IntoShape) -> Self {
                Self { kernel: list(kernel), options: options::$O::default() }
            }
            /// How far apart windows are.
            #[must_use]
            pub fn stride(mut self, stride: impl IntoShape) -> Self {
                self.options.stride = list(stride);
                self
            }
            /// Elements before and after that count as nothing.
            #[must_use]
            pub fn padding(mut self, padding: impl IntoShape) -> Self {
                self.options.padding = list(padding);
                self
            }
            /// Do windows that reach over the end count?
            #[must_use]
            pub fn ceil_mode(mut self, yes: bool) -> Self {
                self.options.ceil_mode = yes;
                self
            }
            $($(#[$fdoc])*
            #[must_use]
            pub fn $field(mut self, $field: $ty) -> Self {
                self.options.$field = $take;
                self
            })*
            /// Applies the layer.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                windows!(@ $function x.$function(self.kernel.as_slice(), self.options.clone()))
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
    )* };
    (@ $function:ident $call:expr) => { $call };
}

windows! {
    /// The largest of each window, over one dim.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 2, 8]);
    /// assert_eq!(nn::MaxPool1d::new(2).forward(&x).shape(), [1, 2, 4]);
    /// let pool = nn::MaxPool1d::new(3).stride(2).padding(1).dilation(vec![1]).ceil_mode(false);
    /// let (y, indices) = pool.forward_with_indices(&x); // what MaxUnpool1d takes
    /// assert_eq!((y.shape(), indices.shape()), (vec![1, 2, 4], vec![1, 2, 4]));
    /// # Ok::<(), torch::Error>(())
    /// ```
    MaxPool1d MaxPool1d max_pool1d_with {
        /// How far apart a window's elements are.
        dilation: Vec<i64> = dilation;
    }
    /// The largest of each window, over two dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 2, 8, 8]);
    /// assert_eq!(nn::MaxPool2d::new(2).forward(&x).shape(), [1, 2, 4, 4]);
    /// let pool = nn::MaxPool2d::new(3).stride(2).padding(1).dilation(vec![1]).ceil_mode(false);
    /// let (y, indices) = pool.forward_with_indices(&x); // what MaxUnpool2d takes
    /// assert_eq!((y.shape(), indices.shape()), (vec![1, 2, 4, 4], vec![1, 2, 4, 4]));
    /// # Ok::<(), torch::Error>(())
    /// ```
    MaxPool2d MaxPool2d max_pool2d_with {
        /// How far apart a window's elements are.
        dilation: Vec<i64> = dilation;
    }
    /// The largest of each window, over three dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 2, 8, 8, 8]);
    /// assert_eq!(nn::MaxPool3d::new(2).forward(&x).shape(), [1, 2, 4, 4, 4]);
    /// let pool = nn::MaxPool3d::new(3).stride(2).padding(1).dilation(vec![1]).ceil_mode(false);
    /// let (y, indices) = pool.forward_with_indices(&x); // what MaxUnpool3d takes
    /// assert_eq!((y.shape(), indices.shape()), (vec![1, 2, 4, 4, 4], vec![1, 2, 4, 4, 4]));
    /// # Ok::<(), torch::Error>(())
    /// ```
    MaxPool3d MaxPool3d max_pool3d_with {
        /// How far apart a window's elements are.
        dilation: Vec<i64> = dilation;
    }
    /// The mean of each window, over one dim.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 2, 8]);
    /// assert_eq!(nn::AvgPool1d::new(2).forward(&x).shape(), [1, 2, 4]);
    /// let pool = nn::AvgPool1d::new(3).stride(2).padding(1).count_include_pad(false).ceil_mode(false);
    /// assert!(pool.forward(&x).eq(1).all(..).item::<bool>()?);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AvgPool1d AvgPool1d avg_pool1d_with {
        /// Does padding count in the mean?
        count_include_pad: bool = count_include_pad;
    }
    /// The mean of each window, over two dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 2, 8, 8]);
    /// assert_eq!(nn::AvgPool2d::new(2).forward(&x).shape(), [1, 2, 4, 4]);
    /// let pool = nn::AvgPool2d::new(3).stride(2).padding(1).count_include_pad(false).ceil_mode(false).divisor_override(None);
    /// assert!(pool.forward(&x).eq(1).all(..).item::<bool>()?);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AvgPool2d AvgPool2d avg_pool2d_with {
        /// Does padding count in the mean?
        count_include_pad: bool = count_include_pad;
        /// Divides by this number instead of the window's size.
        divisor_override: Option<i64> = divisor_override;
    }
    /// The mean of each window, over three dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::ones([1, 2, 8, 8, 8]);
    /// assert_eq!(nn::AvgPool3d::new(2).forward(&x).shape(), [1, 2, 4, 4, 4]);
    /// let pool = nn::AvgPool3d::new(3).stride(2).padding(1).count_include_pad(false).ceil_mode(false).divisor_override(None);
    /// assert!(pool.forward(&x).eq(1).all(..).item::<bool>()?);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AvgPool3d AvgPool3d avg_pool3d_with {
        /// Does padding count in the mean?
        count_include_pad: bool = count_include_pad;
        /// Divides by this number instead of the window's size.
        divisor_override: Option<i64> = divisor_override;
    }
}

/// Pools that also say where the largest elements were, for [`MaxUnpool2d`] and its kin.
macro_rules! indexed {
    ($($T:ident $function:ident $O:ident;)*) => { $(
        impl $T {
            /// Applies the layer; also where in the last dims the largest elements are, row after row.
            #[track_caller]
            pub fn forward_with_indices(&self, x: &Tensor) -> (Tensor, Tensor) {
                let options::$T { stride, padding, dilation, ceil_mode, .. } = self.options.clone();
                let options = options::$O { stride, padding, dilation, ceil_mode };
                x.$function(self.kernel.as_slice(), options)
            }
        }
    )* };
}
indexed! {
    MaxPool1d max_pool1d_with_indices_with MaxPool1dWithIndices;
    MaxPool2d max_pool2d_with_indices_with MaxPool2dWithIndices;
    MaxPool3d max_pool3d_with_indices_with MaxPool3dWithIndices;
}

/// Sizes of the last `dims` dims: one number stands for all, and -1 for the size that is there.
fn adapted(size: &[i64], x: &Tensor, dims: usize) -> Vec<i64> {
    let shape = x.shape();
    let there = &shape[shape.len().saturating_sub(dims)..];
    let wanted = (0..dims).map(|i| size.get(i).or(size.last()).copied().unwrap_or(-1));
    wanted.zip(there).map(|(want, &n)| if want < 0 { n as i64 } else { want }).collect()
}

macro_rules! adaptive_max {
    ($($T:ident $function:ident $dims:literal;)*) => { $(
        impl $T {
            /// Applies the layer; also where in the last dims the largest elements are, row after row.
            #[track_caller]
            pub fn forward_with_indices(&self, x: &Tensor) -> (Tensor, Tensor) {
                x.$function(adapted(&self.size, x, $dims))
            }
        }
    )* };
}
adaptive_max! {
    AdaptiveMaxPool1d adaptive_max_pool1d 1;
    AdaptiveMaxPool2d adaptive_max_pool2d 2;
    AdaptiveMaxPool3d adaptive_max_pool3d 3;
}

macro_rules! adaptive {
    ($($(#[$doc:meta])* $T:ident $dims:literal |$x:ident, $size:ident| $call:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            size: Vec<i64>,
        }
        impl $T {
            /// To a result of this size: one number for every dim, -1 for the size that is there.
            pub fn new(size: impl IntoShape) -> Self {
                Self { size: list(size) }
            }
            /// Applies the layer.
            #[track_caller]
            pub fn forward(&self, $x: &Tensor) -> Tensor {
                let $size = adapted(&self.size, $x, $dims);
                $call
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
    )* };
}

adaptive! {
    /// Means of as many windows as asked for, over one dim.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let pool = nn::AdaptiveAvgPool1d::new(3); // whatever the size was
    /// assert_eq!(pool.forward(&torch::ones([1, 2, 8])).shape(), [1, 2, 3]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AdaptiveAvgPool1d 1 |x, size| x.adaptive_avg_pool1d(size);
    /// Means of as many windows as asked for, over two dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let pool = nn::AdaptiveAvgPool2d::new(3); // whatever the size was
    /// assert_eq!(pool.forward(&torch::ones([1, 2, 8, 8])).shape(), [1, 2, 3, 3]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AdaptiveAvgPool2d 2 |x, size| x.adaptive_avg_pool2d(size);
    /// Means of as many windows as asked for, over three dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let pool = nn::AdaptiveAvgPool3d::new(3); // whatever the size was
    /// assert_eq!(pool.forward(&torch::ones([1, 2, 8, 8, 8])).shape(), [1, 2, 3, 3, 3]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AdaptiveAvgPool3d 3 |x, size| x.adaptive_avg_pool3d(size);
    /// The largest of as many windows as asked for, over one dim.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let pool = nn::AdaptiveMaxPool1d::new(3); // whatever the size was
    /// let x = torch::ones([1, 2, 8]);
    /// assert_eq!(pool.forward(&x).shape(), [1, 2, 3]);
    /// let (_, indices) = pool.forward_with_indices(&x);
    /// assert_eq!(indices.shape(), [1, 2, 3]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AdaptiveMaxPool1d 1 |x, size| x.adaptive_max_pool1d(size).0;
    /// The largest of as many windows as asked for, over two dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let pool = nn::AdaptiveMaxPool2d::new(3); // whatever the size was
    /// let x = torch::ones([1, 2, 8, 8]);
    /// assert_eq!(pool.forward(&x).shape(), [1, 2, 3, 3]);
    /// let (_, indices) = pool.forward_with_indices(&x);
    /// assert_eq!(indices.shape(), [1, 2, 3, 3]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AdaptiveMaxPool2d 2 |x, size| x.adaptive_max_pool2d(size).0;
    /// The largest of as many windows as asked for, over three dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let pool = nn::AdaptiveMaxPool3d::new(3); // whatever the size was
    /// let x = torch::ones([1, 2, 8, 8, 8]);
    /// assert_eq!(pool.forward(&x).shape(), [1, 2, 3, 3, 3]);
    /// let (_, indices) = pool.forward_with_indices(&x);
    /// assert_eq!(indices.shape(), [1, 2, 3, 3, 3]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    AdaptiveMaxPool3d 3 |x, size| x.adaptive_max_pool3d(size).0;
}

macro_rules! norms {
    ($($(#[$doc:meta])* $T:ident $op:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            p: f64,
            kernel: Vec<i64>,
            stride: Vec<i64>,
            ceil_mode: bool,
        }
        impl $T {
            /// The p-norm of windows of a size, side by side.
            pub fn new(p: f64, kernel: impl IntoShape) -> Self {
                Self { p, kernel: list(kernel), stride: Vec::new(), ceil_mode: false }
            }
            /// How far apart windows are.
            #[must_use]
            pub fn stride(self, stride: impl IntoShape) -> Self {
                Self { stride: list(stride), ..self }
            }
            /// Do windows that reach over the end count?
            #[must_use]
            pub fn ceil_mode(self, ceil_mode: bool) -> Self {
                Self { ceil_mode, ..self }
            }
            /// Applies the layer.
            ///
            /// # Panics
            /// When a window does not fit.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                let stride = (!self.stride.is_empty()).then(|| self.stride.clone());
                let args = [x.into(), self.p.into(), self.kernel.clone().into(), stride.into(), self.ceil_mode.into()];
                one(call($op, &args, &[]))
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
    )* };
}
norms! {
    /// `(Σ xᵖ)^(1/p)` of each window, over one dim.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let pool = nn::LPPool1d::new(2., 2).stride(2).ceil_mode(false); // square root of the sum of squares
    /// assert_eq!(pool.forward(&torch::ones([1, 2, 8])).shape(), [1, 2, 4]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    LPPool1d "lp_pool1d";
    /// `(Σ xᵖ)^(1/p)` of each window, over two dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let pool = nn::LPPool2d::new(2., 2).stride(2).ceil_mode(false); // square root of the sum of squares
    /// assert_eq!(pool.forward(&torch::ones([1, 2, 8, 8])).shape(), [1, 2, 4, 4]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    LPPool2d "lp_pool2d";
    /// `(Σ xᵖ)^(1/p)` of each window, over three dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let pool = nn::LPPool3d::new(2., 2).stride(2).ceil_mode(false); // square root of the sum of squares
    /// assert_eq!(pool.forward(&torch::ones([1, 2, 8, 8, 8])).shape(), [1, 2, 4, 4, 4]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    LPPool3d "lp_pool3d";
}

macro_rules! unpools {
    ($($(#[$doc:meta])* $T:ident $op:literal;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            kernel: Vec<i64>,
            stride: Vec<i64>,
            padding: Vec<i64>,
        }
        impl $T {
            /// The way back from windows of a size, side by side.
            pub fn new(kernel: impl IntoShape) -> Self {
                Self { kernel: list(kernel), stride: Vec::new(), padding: vec![0] }
            }
            /// How far apart windows were.
            #[must_use]
            pub fn stride(self, stride: impl IntoShape) -> Self {
                Self { stride: list(stride), ..self }
            }
            /// Elements before and after that counted as nothing.
            #[must_use]
            pub fn padding(self, padding: impl IntoShape) -> Self {
                Self { padding: list(padding), ..self }
            }
            /// Puts elements where the pool found them, zeros elsewhere.
            ///
            /// # Panics
            /// When indices and elements differ in shape.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, indices: &Tensor) -> Tensor {
                self.put(x, indices, None)
            }
            /// The same, to a result of this size: several sizes pool to one.
            ///
            /// # Panics
            /// When indices and elements differ in shape, or no pool leads from this size to theirs.
            #[track_caller]
            pub fn forward_to(&self, x: &Tensor, indices: &Tensor, size: impl IntoShape) -> Tensor {
                self.put(x, indices, Some(list(size)))
            }
            #[track_caller]
            fn put(&self, x: &Tensor, indices: &Tensor, size: Option<Vec<i64>>) -> Tensor {
                let stride = (!self.stride.is_empty()).then(|| self.stride.clone());
                let args = [
                    x.into(), indices.into(), self.kernel.clone().into(), stride.into(), self.padding.clone().into(), size.into(),
                ];
                one(call($op, &args, &[]))
            }
        }
    )* };
}
unpools! {
    /// The way back from [`MaxPool1d`], over one dim.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::rand([1, 2, 8]);
    /// let (y, indices) = nn::MaxPool1d::new(2).forward_with_indices(&x);
    /// let back = nn::MaxUnpool1d::new(2).stride(2).padding(0);
    /// assert_eq!(back.forward(&y, &indices).shape(), [1, 2, 8]);
    /// assert_eq!(back.forward_to(&y, &indices, [1, 2, 8]).shape(), [1, 2, 8]); // where the size is not clear
    /// # Ok::<(), torch::Error>(())
    /// ```
    MaxUnpool1d "nn_functional_max_unpool1d";
    /// The way back from [`MaxPool2d`], over two dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::rand([1, 2, 8, 8]);
    /// let (y, indices) = nn::MaxPool2d::new(2).forward_with_indices(&x);
    /// let back = nn::MaxUnpool2d::new(2).stride(2).padding(0);
    /// assert_eq!(back.forward(&y, &indices).shape(), [1, 2, 8, 8]);
    /// assert_eq!(back.forward_to(&y, &indices, [1, 2, 8, 8]).shape(), [1, 2, 8, 8]); // where the size is not clear
    /// # Ok::<(), torch::Error>(())
    /// ```
    MaxUnpool2d "nn_functional_max_unpool2d";
    /// The way back from [`MaxPool3d`], over three dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::rand([1, 2, 8, 8, 8]);
    /// let (y, indices) = nn::MaxPool3d::new(2).forward_with_indices(&x);
    /// let back = nn::MaxUnpool3d::new(2).stride(2).padding(0);
    /// assert_eq!(back.forward(&y, &indices).shape(), [1, 2, 8, 8, 8]);
    /// assert_eq!(back.forward_to(&y, &indices, [1, 2, 8, 8, 8]).shape(), [1, 2, 8, 8, 8]); // where the size is not clear
    /// # Ok::<(), torch::Error>(())
    /// ```
    MaxUnpool3d "nn_functional_max_unpool3d";
}
