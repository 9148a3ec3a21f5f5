//! Hand-written kernels for the CPU that claims in the compiler refer to by name.
//!
//! Each is tested bit for bit against a plain loop that says what it computes, on every instruction set and for one
//! and two threads.
#![allow(unsafe_code, reason = "kernels read and write raw device memory, with intrinsics")]

mod attention;
mod claims;
mod conv;
mod ctc;
mod epilogue;
mod factor;
mod fft;
mod gemm;
mod grid;
mod loss;
mod overlap;
mod real;
mod recurrent;
mod row;
mod scan;
mod scatter;
mod simd;
mod sort;
mod window_claims;
mod windowed;

pub use claims::claims;
pub use gemm::{Gemm, SIZES as GEMM_SIZES};
use rtx_hal::NativeKernel;
use std::sync::Arc;

/// Every kernel of this crate, for `CpuDevice::new`.
pub fn natives() -> Vec<Arc<dyn NativeKernel>> {
    vec![
        Arc::new(Gemm),
        Arc::new(attention::Attention),
        Arc::new(attention::AttentionBackward),
        Arc::new(loss::CrossEntropy),
        Arc::new(loss::CrossEntropyBackward),
        Arc::new(ctc::CtcKernel),
        Arc::new(ctc::CtcBackwardKernel),
        Arc::new(scatter::Scatter),
        Arc::new(scan::Scan),
        Arc::new(scan::LinearScan),
        Arc::new(sort::Sort),
        Arc::new(factor::FactorKernel),
        Arc::new(fft::FftKernel),
        Arc::new(factor::SolveKernel),
        Arc::new(factor::CheckKernel),
        Arc::new(conv::Conv),
        Arc::new(overlap::OverlapAdd),
        Arc::new(windowed::WindowedMax),
        Arc::new(windowed::ScatterWindows),
        Arc::new(recurrent::Recurrent),
    ]
}
