//! Images in another size, sampled at computed places, and as patches: functions of `torch.nn.functional`.
use crate::{
    Tensor,
    call::{self, Argument, op},
    failure::OrPanic,
};

/// Options of [`interpolate`]; what is empty is left out.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let options = F::Interpolate { scale_factor: vec![2.], mode: "nearest", ..Default::default() };
/// assert_eq!(F::interpolate(&tensor!([[[1., 2.]]]), &options).to_vec::<f32>()?, [1., 1., 2., 2.]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Interpolate {
    /// The sizes of the dims after images and channels, or one for all.
    pub size: Vec<i64>,
    /// Instead of sizes: factors, or one for all.
    pub scale_factor: Vec<f64>,
    /// `nearest`, `nearest-exact`, `linear`, `bilinear`, `trilinear`, `bicubic` or `area`.
    pub mode: &'static str,
    /// Do the centers of the outer elements meet, instead of the edges? Only linear and cubic modes know of it.
    pub align_corners: Option<bool>,
    /// Is the step worked out from the sizes, instead of from the factor?
    pub recompute_scale_factor: bool,
    /// Is the filter as wide as the step, where that is above 1?
    pub antialias: bool,
}
impl Default for Interpolate {
    fn default() -> Self {
        Self {
            size: vec![],
            scale_factor: vec![],
            mode: "nearest",
            align_corners: None,
            recompute_scale_factor: false,
            antialias: false,
        }
    }
}

/// The dims after images and channels in another size.
///
/// # Panics
/// When the mode does not know the number of dims, or neither sizes nor factors are given.
///
/// # Example
/// ```
/// use rtx_tensor::functional::{Interpolate, interpolate};
/// # fn main() -> rtx_tensor::Result<()> {
/// let x = rtx_tensor::tensor!([[[1.0, 3.0]]]);
/// let options = Interpolate { size: vec![4], mode: "linear", ..Interpolate::default() };
/// assert_eq!(interpolate(&x, &options).to_vec::<f32>()?, [1.0, 1.5, 2.5, 3.0]);
/// # Ok(()) }
/// ```
#[track_caller]
pub fn interpolate(x: &Tensor, options: &Interpolate) -> Tensor {
    let factors: Vec<Argument> = options.scale_factor.iter().map(|f| (*f).into()).collect();
    let size = if options.size.is_empty() { Argument::None } else { options.size.clone().into() };
    let factor = if factors.is_empty() { Argument::None } else { Argument::List(factors) };
    let args = [x.into(), size, factor, options.mode.into(), options.align_corners.into()];
    let kwargs =
        [("recompute_scale_factor", options.recompute_scale_factor.into()), ("antialias", options.antialias.into())];
    call::call_bound(op!("interpolate"), &args, &kwargs).or_panic()
}

/// Options of [`grid_sample`].
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let (x, grid) = (torch::ones([1, 1, 4, 4]), torch::zeros([1, 2, 2, 2])); // everywhere the middle
/// let options = F::GridSample { align_corners: true, ..Default::default() };
/// assert_eq!(F::grid_sample(&x, &grid, options).shape(), [1, 1, 2, 2]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridSample {
    /// `bilinear`, `nearest` or `bicubic`.
    pub mode: &'static str,
    /// What is outside: `zeros`, `border` or `reflection`.
    pub padding_mode: &'static str,
    /// Are −1 and 1 the centers of the outer elements, instead of the edges?
    pub align_corners: bool,
}
impl Default for GridSample {
    fn default() -> Self {
        Self { mode: "bilinear", padding_mode: "zeros", align_corners: false }
    }
}

/// Images `[n, c, h, w]` at the places `[n, .., 2]` of a grid that goes from −1 to 1 over them, x first.
///
/// # Panics
/// When shapes or dtypes do not fit, or a word is none of its kind.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let (x, grid) = (torch::ones([1, 1, 4, 4]), torch::zeros([1, 2, 2, 2]));
/// assert_eq!(F::grid_sample(&x, &grid, F::GridSample::default()).to_vec::<f32>()?, [1.; 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn grid_sample(x: &Tensor, grid: &Tensor, options: GridSample) -> Tensor {
    let words = [x.into(), grid.into(), options.mode.into(), options.padding_mode.into(), options.align_corners.into()];
    call::call_bound(op!("grid_sample"), &words, &[]).or_panic()
}

/// The grid of the affine maps theta `[n, 2, 3]` for images of a size `[n, c, h, w]`, or with a depth.
///
/// # Panics
/// When theta does not fit the size.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let same = tensor!([[[1., 0., 0.], [0., 1., 0.]]]);
/// assert_eq!(F::affine_grid(&same, &[1, 1, 4, 4], false).shape(), [1, 4, 4, 2]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn affine_grid(theta: &Tensor, size: &[i64], align_corners: bool) -> Tensor {
    call::call_bound(op!("affine_grid"), &[theta.into(), size.to_vec().into(), align_corners.into()], &[]).or_panic()
}

/// Where patches of two dims lie: a number for each, or one for both.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let patches = F::Patches { stride: vec![2, 2], ..Default::default() };
/// assert_eq!(F::unfold(&torch::ones([1, 3, 4, 4]), &[2, 2], &patches).shape(), [1, 12, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patches {
    /// How far apart a patch's elements are.
    pub dilation: Vec<i64>,
    /// Zeros on both sides.
    pub padding: Vec<i64>,
    /// How far apart patches are.
    pub stride: Vec<i64>,
}
impl Default for Patches {
    fn default() -> Self {
        Self { dilation: vec![1], padding: vec![0], stride: vec![1] }
    }
}
impl Patches {
    fn keywords(&self) -> [(&'static str, Argument); 3] {
        [
            ("dilation", self.dilation.clone().into()),
            ("padding", self.padding.clone().into()),
            ("stride", self.stride.clone().into()),
        ]
    }
}

/// Patches of images `[n, c, h, w]` as columns `[n, c · kh · kw, patches]`.
///
/// # Panics
/// When a patch does not fit.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// assert_eq!(F::unfold(&torch::ones([1, 3, 4, 4]), &[2, 2], &F::Patches::default()).shape(), [1, 12, 9]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn unfold(x: &Tensor, kernel_size: &[i64], patches: &Patches) -> Tensor {
    let args = [x.into(), kernel_size.to_vec().into()];
    call::call_bound(op!("nn_functional_unfold"), &args, &patches.keywords()).or_panic()
}
/// The transpose of [`unfold`]: columns as patches of images of a size, added up where they overlap.
///
/// # Panics
/// When the columns are not those of such images.
///
/// ```
/// # use rtx_tensor::{self as torch, functional as F, tensor};
/// let patches = F::Patches { stride: vec![2, 2], ..Default::default() };
/// assert_eq!(F::fold(&torch::ones([1, 12, 4]), &[4, 4], &[2, 2], &patches).shape(), [1, 3, 4, 4]);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[track_caller]
pub fn fold(x: &Tensor, output_size: &[i64], kernel_size: &[i64], patches: &Patches) -> Tensor {
    let args = [x.into(), output_size.to_vec().into(), kernel_size.to_vec().into()];
    call::call_bound(op!("fold"), &args, &patches.keywords()).or_panic()
}
