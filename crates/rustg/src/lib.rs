//! rustg: the kernel language and compiler.
//!
//! A kernel begins as a [`Nest`]: its mathematics in an index space, with no loops, threads or registers. A schedule
//! makes a tile program of it, which a printer spells for a device or the CPU's tile VM runs. rustg knows no
//! tensors, no devices, and no op by name.
#![allow(unsafe_code, reason = "the tile VM reads and writes kernel arguments through pointers")]

pub mod cuda;
mod halves;
mod isa;
mod jit;
pub mod math;
mod nest;
mod number;
mod philox;
mod text;
mod tile;
mod verify;
mod vm;

pub use isa::Isa;
pub use jit::{Jit, JitCounters, jit, jit_counters, set_jit};
pub use nest::{Axis, AxisId, BufferDecl, BufferId, Id, Indexed, Instr, Nest, Size, Store, View};
pub use philox::{philox4x32, random_u32};
pub use rtx_core::{Arith, Comparison, Extremum, Fold, Function};
pub use tile::{TileProg, schedule};
pub use verify::AxisSet;
pub use vm::Scratch;
