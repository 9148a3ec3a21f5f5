//! The printer for CUDA C++: a tile program as one header-free kernel.
//!
//! A [`Grid`] says how a program lies over a grid of threads for certain sizes; it is settled by the driver when it
//! first meets them, as the tile VM settles its tiles. Its text takes sizes and strides as arguments, so one kernel
//! serves every size that makes the same grid (contract S0). Grids change speed, never bits: threads walk the tree of
//! contract N3, and every function is the tile VM's, operation by operation (contracts N2, N7). Compile with
//! [`FLAGS`].
mod grid;
mod print;
mod scalar;

pub use grid::{Grid, Launch, Part, Walk};
pub use print::print;
pub use scalar::{c_type, prelude};

/// What every kernel is compiled with: no contraction, no flushing, division and square root rounded once.
pub const FLAGS: [&str; 5] = ["--std=c++17", "-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true"];
/// The name of the kernel in the text.
pub const ENTRY: &str = "kernel";
