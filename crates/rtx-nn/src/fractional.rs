//! Max pooling over windows at random places.
use crate::{Buffer, Module, Visitor};
use rtx_tensor::{DType, Tensor, arange, rand, shape::IntoShape};

/// Where windows of one dim begin, for each plane: `[n, c, windows]` from one number in [0, 1) each, `[n, c, 1]`.
fn starts(u: &Tensor, input: usize, kernel: usize, output: usize) -> Tensor {
    let last = input.saturating_sub(kernel) as i64;
    if output <= 1 {
        return u.to(DType::I64).full_like(last);
    }
    // In f32, as PyTorch works them out: an element more or less hangs on the last bit.
    let step = (last as f32) / ((output - 1) as f32);
    let i = arange(0..output as i64).to(u.device());
    let is_last = i.eq(output as i64 - 1);
    let i = i.to(DType::F32);
    let u = u.to(DType::F32);
    let places = ((i + &u) * step).trunc() - (u * step).trunc();
    is_last.if_else(last, places.to(DType::I64))
}

/// The largest element of each window over the last `N` dims of `[n, c, ..]`, and where it is, row after row.
fn pool<const N: usize>(x: &Tensor, kernel: [usize; N], output: [usize; N], samples: &Tensor) -> (Tensor, Tensor) {
    let shape = x.shape();
    let (n, c, sizes) = (shape[0], shape[1], &shape[2..]);
    // Places of windows' elements in one dim after the other: [n, c, outputs.., elements..].
    let mut places: Option<Tensor> = None;
    for d in 0..N {
        // PyTorch draws the last of two dims first, and three in their order.
        let sample = if N == 2 { N - 1 - d } else { d };
        let begin = starts(&samples.narrow(2, sample, 1), sizes[d], kernel[d], output[d]);
        let mut wide = vec![n, c];
        wide.extend((0..2 * N).map(|k| if k == d { output[d] } else { 1 }));
        let mut inside = vec![1; 2 + 2 * N];
        inside[2 + N + d] = kernel[d];
        let here = begin.reshape(wide) + arange(0..kernel[d] as i64).to(x.device()).reshape(inside);
        places = Some(match places {
            None => here,
            Some(before) => before * (sizes[d] as i64) + here,
        });
    }
    let windows: usize = output.iter().product();
    let places = places.unwrap_or_else(|| x.new_zeros(1).to(DType::I64)).reshape((n, c, windows, -1));
    let elements = x.flatten(2, -1).gather(2, places.flatten(2, -1)).reshape(places.shape());
    let largest = elements.detach().argmax(-1).unsqueeze(-1);
    let mut out = vec![n, c];
    out.extend(output);
    (elements.gather(3, &largest).reshape(out.as_slice()), places.gather(3, &largest).reshape(out))
}

macro_rules! pools {
    ($($(#[$doc:meta])* $T:ident $dims:literal;)*) => { $(
        $(#[$doc])*
        /// (Graham, arXiv:1412.6071). The batch's dim may be left out.
        #[derive(Clone, Debug)]
        pub struct $T {
            kernel: [usize; $dims],
            output: Output<$dims>,
            samples: Option<Buffer>,
        }
        impl $T {
            /// Windows of a size, as many as asked for in each dim.
            pub fn to_size(kernel: impl IntoShape, output: impl IntoShape) -> Self {
                Self { kernel: each(kernel), output: Output::Size(each(output)), samples: None }
            }
            /// Windows of a size, as many as this part of the places in each dim.
            pub fn by(kernel: impl IntoShape, ratio: f64) -> Self {
                Self { kernel: each(kernel), output: Output::Ratio(ratio), samples: None }
            }
            #[doc = concat!("Windows begin where these numbers in [0, 1) say, `[n, channels, ", $dims, "]`, in place of new ones at each call.")]
            #[must_use]
            pub fn samples(self, samples: Tensor) -> Self {
                Self { samples: Some(Buffer::new(samples)), ..self }
            }
            /// Applies the layer.
            ///
            /// # Panics
            /// When a window does not fit.
            #[track_caller]
            pub fn forward(&self, x: &Tensor) -> Tensor {
                self.forward_with_indices(x).0
            }
            /// Applies the layer; also where in the last dims the largest elements are, row after row.
            ///
            /// # Panics
            /// When a window does not fit.
            #[track_caller]
            pub fn forward_with_indices(&self, x: &Tensor) -> (Tensor, Tensor) {
                let name = stringify!($T);
                assert!([$dims + 1, $dims + 2].contains(&x.rank()), "{name}: takes {} or {} dims, got {:?}", $dims + 1, $dims + 2, x.shape());
                if x.rank() == $dims + 1 {
                    let (y, places) = self.forward_with_indices(&x.unsqueeze(0));
                    return (y.squeeze(0), places.squeeze(0));
                }
                let shape = x.shape();
                let sizes: [usize; $dims] = std::array::from_fn(|d| shape[2 + d]);
                let output = self.output.of(sizes);
                for d in 0..$dims {
                    let fits = output[d] + self.kernel[d] <= sizes[d] + 1 && output[d] > 0;
                    assert!(fits, "{name}: {} windows of {} in {} places", output[d], self.kernel[d], sizes[d]);
                }
                let drawn = || rand([shape[0], shape[1], $dims]).to(x.device());
                // One sample stands for all that are in the batch: PyTorch's unbatched call takes those of the first.
                let samples = self.samples.as_ref().map_or_else(drawn, |s| s.narrow(0, 0, shape[0]));
                pool(x, self.kernel, output, &samples)
            }
        }
        impl Module for $T {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                if let Some(samples) = &self.samples {
                    visitor.leaf("_random_samples", crate::Leaf::Buffer(samples));
                }
            }
        }
        impl crate::Layer for $T {
            fn forward(&self, x: &Tensor) -> Tensor {
                $T::forward(self, x)
            }
        }
    )* };
}
pools! {
    /// The largest elements of windows at random places over two dims
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::rand([1, 2, 8, 8]);
    /// assert_eq!(nn::FractionalMaxPool2d::by(2, 0.5).forward(&x).shape(), [1, 2, 4, 4]);
    /// let (y, indices) = nn::FractionalMaxPool2d::to_size(2, 3).forward_with_indices(&x);
    /// assert_eq!((y.shape(), indices.shape()), (vec![1, 2, 3, 3], vec![1, 2, 3, 3]));
    /// // The same windows each time, as tests want them:
    /// let fixed = nn::FractionalMaxPool2d::to_size(2, 3).samples(torch::full([1, 2, 2], 0.5));
    /// assert!(torch::equal(&fixed.forward(&x), &fixed.forward(&x))?);
    /// # Ok::<(), torch::Error>(())
    /// ```
    FractionalMaxPool2d 2;
    /// The largest elements of windows at random places over three dims
    ///
    /// ```
    /// # use rtx_nn::{self as nn, Layer, Module};
    /// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
    /// let x = torch::rand([1, 2, 8, 8, 8]);
    /// assert_eq!(nn::FractionalMaxPool3d::by(2, 0.5).forward(&x).shape(), [1, 2, 4, 4, 4]);
    /// let (y, indices) = nn::FractionalMaxPool3d::to_size(2, 3).forward_with_indices(&x);
    /// assert_eq!((y.shape(), indices.shape()), (vec![1, 2, 3, 3, 3], vec![1, 2, 3, 3, 3]));
    /// // The same windows each time, as tests want them:
    /// let fixed = nn::FractionalMaxPool3d::to_size(2, 3).samples(torch::full([1, 2, 3], 0.5));
    /// assert!(torch::equal(&fixed.forward(&x), &fixed.forward(&x))?);
    /// # Ok::<(), torch::Error>(())
    /// ```
    FractionalMaxPool3d 3;
}

/// How many windows there are in each dim.
#[derive(Clone, Copy, Debug)]
enum Output<const N: usize> {
    Size([usize; N]),
    /// Of the places.
    Ratio(f64),
}
impl<const N: usize> Output<N> {
    fn of(&self, sizes: [usize; N]) -> [usize; N] {
        match self {
            Output::Size(size) => *size,
            Output::Ratio(ratio) => sizes.map(|n| (n as f64 * ratio) as usize),
        }
    }
}

/// Sizes for each dim: one number stands for all.
fn each<const N: usize>(sizes: impl IntoShape) -> [usize; N] {
    let sizes = sizes.sizes();
    std::array::from_fn(|i| usize::try_from(sizes.get(i).or(sizes.last()).copied().unwrap_or(1)).unwrap_or(0))
}
