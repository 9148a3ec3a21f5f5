//! State dicts in files: names to tensors, as safetensors.
use rtx_core::{Error, NUMERICS_VERSION, Result};
use rtx_io::{Array, Contents, read_safetensors, write_safetensors};
use rtx_tensor::{Tensor, from_bytes};
use std::collections::BTreeMap;
use std::path::Path;

/// Tensors by name.
pub type StateDict = BTreeMap<String, Tensor>;

/// Writes tensors to a safetensors file, whole or not at all, with the version of the numerics (contract N8).
///
/// # Errors
/// When work that a value depends on has failed, or the disk refuses.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let path = std::env::temp_dir().join(format!("rtx-doc-save-{}.safetensors", std::process::id()));
/// nn::save_file(&nn::Linear::new(3, 2).state_dict(), &path)?;
/// assert_eq!(nn::load_file(&path)?["weight"].shape(), [2, 3]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), torch::Error>(())
/// ```
pub fn save_file(state: &StateDict, path: impl AsRef<Path>) -> Result<()> {
    let mut contents = Contents::default();
    for (name, tensor) in state {
        let array = Array { dtype: tensor.dtype(), shape: tensor.shape(), bytes: tensor.read_bytes()? };
        contents.arrays.insert(name.clone(), array);
    }
    contents.notes.insert("numerics".to_owned(), NUMERICS_VERSION.to_string());
    write_safetensors(path.as_ref(), &contents)
}

/// Reads the tensors of a safetensors file.
///
/// # Errors
/// When the file cannot be read or is damaged: the sentence names it.
///
/// ```
/// # use rtx_nn::{self as nn, Layer, Module};
/// # use rtx_tensor::{self as torch, DType, Tensor, tensor};
/// let path = std::env::temp_dir().join(format!("rtx-doc-load-{}.safetensors", std::process::id()));
/// nn::Linear::new(3, 2).save(&path)?;
/// assert_eq!(nn::load_file(&path)?.keys().collect::<Vec<_>>(), ["bias", "weight"]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), torch::Error>(())
/// ```
pub fn load_file(path: impl AsRef<Path>) -> Result<StateDict> {
    let path = path.as_ref();
    let tensors = read_safetensors(path)?.arrays.into_iter().map(|(name, array)| {
        let tensor = from_bytes(array.dtype, &array.shape, &array.bytes)
            .map_err(|e| Error::new(e.kind(), format!("{}: tensor {name}: {}", path.display(), e.message())))?;
        Ok((name, tensor))
    });
    tensors.collect()
}
