//! Pooling layers.
use crate::{Layer, Module};
use rtx_tensor::{Tensor, options, shape::IntoShape};

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
    MaxPool1d MaxPool1d max_pool1d_with {
        /// How far apart a window's elements are.
        dilation: Vec<i64> = dilation;
    }
    /// The largest of each window, over two dims.
    MaxPool2d MaxPool2d max_pool2d_with {
        /// How far apart a window's elements are.
        dilation: Vec<i64> = dilation;
    }
    /// The largest of each window, over three dims.
    MaxPool3d MaxPool3d max_pool3d_with {
        /// How far apart a window's elements are.
        dilation: Vec<i64> = dilation;
    }
    /// The mean of each window, over one dim.
    AvgPool1d AvgPool1d avg_pool1d_with {
        /// Does padding count in the mean?
        count_include_pad: bool = count_include_pad;
    }
    /// The mean of each window, over two dims.
    AvgPool2d AvgPool2d avg_pool2d_with {
        /// Does padding count in the mean?
        count_include_pad: bool = count_include_pad;
        /// Divides by this number instead of the window's size.
        divisor_override: Option<i64> = divisor_override;
    }
    /// The mean of each window, over three dims.
    AvgPool3d AvgPool3d avg_pool3d_with {
        /// Does padding count in the mean?
        count_include_pad: bool = count_include_pad;
        /// Divides by this number instead of the window's size.
        divisor_override: Option<i64> = divisor_override;
    }
}

macro_rules! adaptive {
    ($($(#[$doc:meta])* $T:ident |$x:ident, $size:ident| $call:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Module)]
        pub struct $T {
            size: Vec<i64>,
        }
        impl $T {
            /// To a result of this size.
            pub fn new(size: impl IntoShape) -> Self {
                Self { size: list(size) }
            }
            /// Applies the layer.
            #[track_caller]
            pub fn forward(&self, $x: &Tensor) -> Tensor {
                let $size = self.size.as_slice();
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
    AdaptiveAvgPool1d |x, size| x.adaptive_avg_pool1d(size);
    /// Means of as many windows as asked for, over two dims.
    AdaptiveAvgPool2d |x, size| x.adaptive_avg_pool2d(size);
    /// Means of as many windows as asked for, over three dims.
    AdaptiveAvgPool3d |x, size| x.adaptive_avg_pool3d(size);
    /// The largest of as many windows as asked for, over one dim.
    AdaptiveMaxPool1d |x, size| x.adaptive_max_pool1d(size).0;
    /// The largest of as many windows as asked for, over two dims.
    AdaptiveMaxPool2d |x, size| x.adaptive_max_pool2d(size).0;
    /// The largest of as many windows as asked for, over three dims.
    AdaptiveMaxPool3d |x, size| x.adaptive_max_pool3d(size).0;
}
