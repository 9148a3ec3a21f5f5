//! The CPU driver: instruction sets, one thread pool, scratch memory, and [`CpuDevice`].
//!
//! Absent here: tensors, graphs, ops by name. Kernels arrive as text; hand-written ones are given to
//! [`CpuDevice::new`] by whoever puts a device together.
#![allow(unsafe_code, reason = "device memory is raw memory, and workers borrow the caller's closure")]

mod driver;
mod isa;
mod memory;
mod null;
pub mod pool;
mod rounding;
mod scratch;
mod tile;
mod yardstick;

pub use driver::CpuDevice;
pub use isa::{Isa, isa, set_isa};
pub use null::NullDevice;
pub use rounding::with_default_rounding;
pub use rustg::{Jit, JitCounters, jit_counters, set_jit};
pub use scratch::with_scratch;
pub use tile::TileCode;
pub use yardstick::Yardstick;
