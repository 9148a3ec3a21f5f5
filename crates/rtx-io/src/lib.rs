//! Files: safetensors in and out, checked before they are believed; writes that are whole or absent.

mod atomic;
mod safe;

pub use atomic::{make_dir, point_link, write_file};
pub use safe::{Array, Contents, read_safetensors, write_safetensors};
