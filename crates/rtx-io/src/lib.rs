//! Files: safetensors, NumPy's and IDX, checked before they are believed; writes that are whole or absent.

mod atomic;
mod gz;
mod idx;
mod npy;
mod safe;

pub use atomic::{make_dir, point_link, write_file};
pub use gz::read_plain_or_gz;
pub use idx::read_idx;
pub use npy::{read_npy, read_npz, write_npy, write_npz};
pub use safe::{Array, Contents, parse_safetensors, read_safetensors, write_safetensors};
