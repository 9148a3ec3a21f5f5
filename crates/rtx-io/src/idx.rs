//! IDX: the format of MNIST and its relatives, gzipped or not (Y. LeCun, The MNIST database, file formats).
use crate::Array;
use crate::gz::{bad, read_plain_or_gz};
use rtx_core::{DType, Result};
use std::path::Path;

/// Reads an IDX file: two zero bytes, the element type, the number of dims, the sizes, then the elements, all
/// numbers big-endian.
///
/// # Errors
/// With the file's name and one sentence.
pub fn read_idx(path: &Path) -> Result<Array> {
    parse(&read_plain_or_gz(path)?).map_err(|what| bad(path, &what))
}

fn parse(bytes: &[u8]) -> Result<Array, String> {
    let [0, 0, code, rank, rest @ ..] = bytes else { return Err("not an IDX file".to_owned()) };
    let dtype = match code {
        0x08 => DType::U8,
        0x09 => DType::I8,
        0x0b => DType::I16,
        0x0c => DType::I32,
        0x0d => DType::F32,
        0x0e => DType::F64,
        _ => return Err(format!("element type {code:#04x} is not one of IDX")),
    };
    let (sizes, data) =
        rest.split_at_checked(4 * usize::from(*rank)).ok_or("cut off in its header (truncated copy?)")?;
    let shape: Vec<usize> = sizes.chunks_exact(4).map(|s| s.iter().fold(0, |n, b| n << 8 | usize::from(*b))).collect();
    let size = shape.iter().try_fold(dtype.size(), |n, s| n.checked_mul(*s));
    let size = size.ok_or("a shape larger than any memory")?;
    if data.len() != size {
        return Err(format!("its header says {size} bytes, the file has {} (truncated copy?)", data.len()));
    }
    let mut bytes = data.to_vec();
    bytes.chunks_mut(dtype.size()).for_each(<[u8]>::reverse);
    Ok(Array { dtype, shape, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_become_little_endian() {
        let got = parse(&[0, 0, 0x0b, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 0, 3]).expect("an IDX file");
        assert_eq!(got, Array { dtype: DType::I16, shape: vec![1, 2], bytes: vec![0, 1, 3, 0] });
    }

    #[test]
    fn each_fault_has_its_sentence() {
        let sentence = |bytes: &[u8]| parse(bytes).expect_err("refused");
        assert_eq!(sentence(b"hello"), "not an IDX file");
        assert_eq!(sentence(&[0, 0, 7, 0]), "element type 0x07 is not one of IDX");
        assert_eq!(sentence(&[0, 0, 8, 1, 0]), "cut off in its header (truncated copy?)");
        let short = [0, 0, 8, 1, 0, 0, 0, 3, 1, 2];
        assert_eq!(sentence(&short), "its header says 3 bytes, the file has 2 (truncated copy?)");
    }

    #[test]
    fn a_damaged_gzip_file_is_named() {
        let path = std::env::temp_dir().join(format!("rtx-io-idx-{}.gz", std::process::id()));
        std::fs::write(&path, [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 99, 96]).expect("file");
        let e = read_idx(&path).expect_err("cut");
        assert!(e.message().contains(": damaged gzip file: ") && e.message().ends_with("(truncated copy?)"), "{e}");
    }
}
