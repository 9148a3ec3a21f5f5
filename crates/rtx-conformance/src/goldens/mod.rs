//! PyTorch's answers, from data beside this crate: training runs, operators, modules, optimizers.
pub mod archive;
pub mod call_tree;
pub mod closeness;
pub mod cnn;
pub mod gpt;
pub mod lstm;
pub mod modules;
pub mod opinfo;
pub mod optim;
pub mod trajectory;

use std::path::{Path, PathBuf};

/// The copies of PyTorch's answers that this repository carries.
pub fn default_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens")
}
