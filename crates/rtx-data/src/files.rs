//! Arrays in files: IDX, NumPy's `.npy` and `.npz`.
use rtx_core::{Error, Result};
use rtx_io::Array;
use rtx_tensor::{Tensor, from_bytes};
use std::collections::BTreeMap;
use std::path::Path;

fn tensor(path: &Path, array: &Array) -> Result<Tensor> {
    let named = |e: Error| Error::new(e.kind(), format!("{}: {}", path.display(), e.message()));
    from_bytes(array.dtype, &array.shape, &array.bytes).map_err(named)
}
fn array(tensor: &Tensor) -> Result<Array> {
    Ok(Array { dtype: tensor.dtype(), shape: tensor.shape(), bytes: tensor.read_bytes()? })
}

/// Reads an IDX file, gzipped or not: the format of MNIST and its relatives.
///
/// # Errors
/// When the file cannot be read or is damaged: the sentence names it.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let path = std::env::temp_dir().join(format!("rtx-doc-idx-{}", std::process::id()));
/// std::fs::write(&path, [0, 0, 8, 1, 0, 0, 0, 2, 5, 6]).expect("written"); // two bytes in one dim
/// assert_eq!(data::load_idx(&path)?.to_vec::<u8>()?, [5, 6]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn load_idx(path: impl AsRef<Path>) -> Result<Tensor> {
    tensor(path.as_ref(), &rtx_io::read_idx(path.as_ref())?)
}

/// Reads an array that `numpy.save` wrote.
///
/// # Errors
/// When the file cannot be read, is damaged, or holds Python objects.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let path = std::env::temp_dir().join(format!("rtx-doc-load_npy-{}", std::process::id()));
/// data::save_npy(&tensor!([1, 2]), &path)?;
/// assert_eq!(data::load_npy(&path)?.to_vec::<i64>()?, [1, 2]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn load_npy(path: impl AsRef<Path>) -> Result<Tensor> {
    tensor(path.as_ref(), &rtx_io::read_npy(path.as_ref())?)
}

/// Reads the arrays that `numpy.savez` or `numpy.savez_compressed` wrote.
///
/// # Errors
/// When the file cannot be read, is damaged, or holds Python objects.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let path = std::env::temp_dir().join(format!("rtx-doc-load_npz-{}", std::process::id()));
/// data::save_npz(&[("x".to_owned(), tensor!([1, 2]))].into(), &path)?;
/// assert_eq!(data::load_npz(&path)?["x"].to_vec::<i64>()?, [1, 2]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn load_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    let path = path.as_ref();
    rtx_io::read_npz(path)?.iter().map(|(name, a)| Ok((name.clone(), tensor(path, a)?))).collect()
}

/// Writes a tensor as `numpy.load` reads it, whole or not at all.
///
/// # Errors
/// When work that the values depend on has failed, the dtype has no name in NumPy, or the disk refuses.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let path = std::env::temp_dir().join(format!("rtx-doc-save_npy-{}", std::process::id()));
/// data::save_npy(&tensor!([1, 2]), &path)?;
/// assert_eq!(data::load_npy(&path)?.to_vec::<i64>()?, [1, 2]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn save_npy(tensor: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    rtx_io::write_npy(path.as_ref(), &array(tensor)?)
}

/// Writes tensors by name as `numpy.load` reads them, whole or not at all.
///
/// # Errors
/// When work that the values depend on has failed, a dtype has no name in NumPy, or the disk refuses.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let path = std::env::temp_dir().join(format!("rtx-doc-save_npz-{}", std::process::id()));
/// data::save_npz(&[("x".to_owned(), tensor!([1, 2]))].into(), &path)?;
/// assert_eq!(data::load_npz(&path)?["x"].to_vec::<i64>()?, [1, 2]);
/// # std::fs::remove_file(path).ok();
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
pub fn save_npz(tensors: &BTreeMap<String, Tensor>, path: impl AsRef<Path>) -> Result<()> {
    let arrays = tensors.iter().map(|(name, t)| Ok((name.clone(), array(t)?))).collect::<Result<_>>()?;
    rtx_io::write_npz(path.as_ref(), &arrays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_come_back() {
        let dir = std::env::temp_dir();
        let path = |name: &str| dir.join(format!("rtx-data-files-{}-{name}", std::process::id()));
        let (x, y) = (rtx_tensor::rand([2, 3]), rtx_tensor::arange(0..4));
        save_npy(&x, path("x.npy")).expect("writes");
        let back = load_npy(path("x.npy")).expect("reads");
        assert!(rtx_tensor::equal(&x, &back).expect("compares"));
        let both = BTreeMap::from([("x".to_owned(), x), ("y".to_owned(), y)]);
        save_npz(&both, path("both.npz")).expect("writes");
        let back = load_npz(path("both.npz")).expect("reads");
        assert_eq!(back.keys().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(back["y"].to_vec::<i64>().expect("reads"), [0, 1, 2, 3]);
    }
}
