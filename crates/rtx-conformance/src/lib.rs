//! What holds across crates: golden training runs, benchmarks, and (in `tests/`) the contracts on whole programs.

pub mod bench;
pub mod coverage;
pub mod cuda;
pub mod cuda_bench;
pub mod cuda_check;
pub mod cuda_texts;
pub mod goldens;
pub mod on_device;
pub mod programs;
