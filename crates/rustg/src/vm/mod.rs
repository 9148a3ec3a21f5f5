//! The tile VM: runs tile programs on the CPU, a tile at a time, every inner loop a vectorized kernel.
mod args;
mod bind;
mod calls;
mod fuse;
mod lanes;
mod maps;
mod moves;
mod reduce;
mod run;
pub(crate) mod space;
mod tile_size;

pub use run::Scratch;
pub(crate) use run::{Bindings, check_supported};
