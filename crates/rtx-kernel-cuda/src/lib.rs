//! Hand-written kernels for NVIDIA GPUs: what claims run that no tile program says.
//!
//! Each computes what the CPU's kernel of the same name computes, in the same order of operations, so that results are
//! the same bit for bit: sums in chunks of 512, trees of 16 lanes, updates in ascending order. Their text is CUDA C++
//! over the prelude that printed kernels have.

mod attention;
mod gemm;
mod gemm_groups;
mod hopper;
mod lines;
mod scatter;
mod windows;

use rtx_core::{DType, Result};
use rtx_cuda::Template;
use rtx_hal::malformed;
use std::sync::Arc;

/// Every kernel of this crate, for `CudaDevice::open`.
pub fn templates() -> Vec<Arc<dyn Template>> {
    vec![
        Arc::new(gemm::Gemm),
        Arc::new(attention::Attention),
        Arc::new(attention::AttentionBackward),
        Arc::new(scatter::Scatter),
        Arc::new(scatter::Check),
        Arc::new(lines::Scan),
        Arc::new(lines::LinearScan),
        Arc::new(lines::Sort),
        Arc::new(windows::Conv),
        Arc::new(windows::OverlapAdd),
    ]
}

/// The claims whose kernels are here, by name; what else a device claims has no kernel on a GPU yet.
pub const CLAIMS: &[&str] = &[
    "gemm",
    "attention",
    "attention_backward",
    "scatter",
    "embedding_grad",
    "check",
    "scan",
    "linear_scan",
    "sort",
    "conv",
    "overlap_add",
];

/// An element type of a kernel's text, as C++ calls it.
fn type_of(kernel: &str, word: &str, text: &str) -> Result<&'static str> {
    DType::parse(word).map(rustg::cuda::c_type).ok_or_else(|| malformed(kernel, text))
}
/// The first line and the epilogue after it.
fn head_and_epilogue(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}
/// How many points some of the sizes make.
fn product(sizes: &[i64]) -> i64 {
    sizes.iter().map(|n| n.max(&0)).product()
}
