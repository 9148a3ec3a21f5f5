//! Layers that put elements around a tensor.
use crate::{Layer, Module};
use rtx_tensor::{Tensor, options, shape::IntoShape};

/// Elements before and after each of the last dims, the last dim first: one number stands for all.
fn around(padding: impl IntoShape, dims: usize) -> Vec<i64> {
    match padding.sizes().as_slice() {
        &[all] => vec![all; 2 * dims],
        list => list.to_vec(),
    }
}

macro_rules! pads {
    ($($(#[$doc:meta])* $T:ident $dims:literal $mode:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// The padding is one number, or one before and one after each dim, the last dim first. A negative one takes
        /// elements away.
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            padding: Vec<i64>,
        }
        impl $T {
            /// So many elements on each side.
            pub fn new(padding: impl IntoShape) -> Self {
                Self { padding: around(padding, $dims) }
            }
            /// Applies the layer.
            ///
            /// # Panics
            /// When the padding does not fit the tensor.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.pad_with(self.padding.as_slice(), options::Pad { mode: $mode, value: None })
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
    )* };
}
pads! {
    /// Zeros before and after the last dim.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ZeroPad1d::new(1);
    /// let x = tensor!([[[1., 2., 3.]]]);
    /// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [0.0, 1.0, 2.0, 3.0, 0.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ZeroPad1d 1 "constant";
    /// Zeros around the last two dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ZeroPad2d::new(1); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4])).shape(), [1, 1, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ZeroPad2d 2 "constant";
    /// Zeros around the last three dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ZeroPad3d::new(1); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4, 4])).shape(), [1, 1, 6, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ZeroPad3d 3 "constant";
    /// The last dim goes on mirrored, its border element once.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ReflectionPad1d::new(1);
    /// let x = tensor!([[[1., 2., 3.]]]);
    /// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [2.0, 1.0, 2.0, 3.0, 2.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ReflectionPad1d 1 "reflect";
    /// The last two dims go on mirrored, border elements once.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ReflectionPad2d::new(1); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4])).shape(), [1, 1, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ReflectionPad2d 2 "reflect";
    /// The last three dims go on mirrored, border elements once.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ReflectionPad3d::new(1); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4, 4])).shape(), [1, 1, 6, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ReflectionPad3d 3 "reflect";
    /// The border elements of the last dim, again and again.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ReplicationPad1d::new(1);
    /// let x = tensor!([[[1., 2., 3.]]]);
    /// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [1.0, 1.0, 2.0, 3.0, 3.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ReplicationPad1d 1 "replicate";
    /// The border elements of the last two dims, again and again.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ReplicationPad2d::new(1); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4])).shape(), [1, 1, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ReplicationPad2d 2 "replicate";
    /// The border elements of the last three dims, again and again.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ReplicationPad3d::new(1); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4, 4])).shape(), [1, 1, 6, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ReplicationPad3d 3 "replicate";
    /// The last dim goes round.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::CircularPad1d::new(1);
    /// let x = tensor!([[[1., 2., 3.]]]);
    /// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [3.0, 1.0, 2.0, 3.0, 1.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    CircularPad1d 1 "circular";
    /// The last two dims go round.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::CircularPad2d::new(1); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4])).shape(), [1, 1, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    CircularPad2d 2 "circular";
    /// The last three dims go round.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::CircularPad3d::new(1); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4, 4])).shape(), [1, 1, 6, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    CircularPad3d 3 "circular";
}

macro_rules! constants {
    ($($(#[$doc:meta])* $T:ident $dims:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// The padding is one number, or one before and one after each dim, the last dim first.
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            padding: Vec<i64>,
            value: f64,
        }
        impl $T {
            /// So many elements of this value on each side.
            pub fn new(padding: impl IntoShape, value: f64) -> Self {
                Self { padding: around(padding, $dims), value }
            }
            /// Applies the layer.
            ///
            /// # Panics
            /// When the padding does not fit the tensor.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                x.pad_with(self.padding.as_slice(), options::Pad { mode: "constant", value: Some(self.value) })
            }
        }
        impl Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
    )* };
}
constants! {
    /// A number before and after the last dim.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ConstantPad1d::new(1, -1.);
    /// let x = tensor!([[[1., 2., 3.]]]);
    /// assert_eq!(layer.forward(&x).to_vec::<f32>()?, [-1.0, 1.0, 2.0, 3.0, -1.0]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ConstantPad1d 1;
    /// A number around the last two dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ConstantPad2d::new(1, -1.); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4])).shape(), [1, 1, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ConstantPad2d 2;
    /// A number around the last three dims.
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let layer = nn::ConstantPad3d::new(1, -1.); // one more on each side
    /// assert_eq!(layer.forward(&torch::ones([1, 1, 4, 4, 4])).shape(), [1, 1, 6, 6, 6]);
    /// # Ok::<(), torch::Error>(())
    /// ```
    ConstantPad3d 3;
}
