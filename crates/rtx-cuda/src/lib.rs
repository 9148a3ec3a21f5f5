//! The CUDA driver: NVIDIA's libraries opened at run time, memory, kernels compiled and kept, launches.
//!
//! Nothing of NVIDIA's is needed to build: [`CudaDevice::open`] finds `libcuda` and NVRTC or says what is missing.
//! Kernels arrive as text: tile programs, which `rustg` prints as CUDA C++ for the grid that their sizes make, and
//! names of [`Template`]s, which whoever puts a device together brings along.
//!
//! Absent here: tensors, graphs, ops by name.
#![allow(unsafe_code, reason = "a foreign library, and device memory is raw memory")]

mod cache;
mod code;
mod device;
mod fast;
mod graph;
mod library;
mod nvrtc;
mod paper;
mod profile;
mod reports;
mod staging;
mod sys;
mod template;

pub use cache::CodeCache;
pub use code::{Text, texts};
pub use device::{CudaDevice, Facts};
pub use nvrtc::{Compiled, Nvrtc};
pub use paper::{Counted, PaperDevice};
pub use rustg::cuda::FLAGS;
pub use template::{Epilogue, Fast, FastPlan, Grid, Program, Shot, Stage, Template, TensorMap};
