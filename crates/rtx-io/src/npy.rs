//! NumPy's files: `.npy` (one array) and `.npz` (an archive of them). Format: numpy.lib.format, versions 1 to 3.
use crate::gz::{Entry, bad, read, unzip, zip};
use crate::{Array, write_file};
use rtx_core::{DType, Result};
use std::collections::BTreeMap;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// NumPy's names of element types, without the byte order.
const NAMES: [(&str, DType); 14] = [
    ("b1", DType::Bool),
    ("u1", DType::U8),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
    ("c8", DType::C64),
    ("c16", DType::C128),
];

/// Reads a `.npy` file.
///
/// # Errors
/// With the file's name and one sentence.
pub fn read_npy(path: &Path) -> Result<Array> {
    parse(&read(path)?).map_err(|what| bad(path, &what))
}

/// Reads the arrays of a `.npz` file by name, packed or not.
///
/// # Errors
/// With the file's name and one sentence.
pub fn read_npz(path: &Path) -> Result<BTreeMap<String, Array>> {
    let array = |entry: Entry| {
        let name = entry.name.strip_suffix(".npy").unwrap_or(&entry.name).to_owned();
        let array = parse(&entry.bytes).map_err(|what| bad(path, &format!("{}: {what}", entry.name)))?;
        Ok((name, array))
    };
    unzip(path)?.into_iter().map(array).collect()
}

/// Writes a `.npy` file, whole or not at all.
///
/// # Errors
/// When NumPy has no name for the element type or the disk refuses.
pub fn write_npy(path: &Path, array: &Array) -> Result<()> {
    write_file(path, &print(array).map_err(|what| bad(path, &what))?)
}

/// Writes a `.npz` file (not packed), whole or not at all. The same arrays give the same bytes.
///
/// # Errors
/// When NumPy has no name for an element type or the disk refuses.
pub fn write_npz(path: &Path, arrays: &BTreeMap<String, Array>) -> Result<()> {
    let entry = |(name, array): (&String, &Array)| Ok(Entry { name: format!("{name}.npy"), bytes: print(array)? });
    let entries: Result<Vec<_>, String> = arrays.iter().map(entry).collect();
    let bytes = entries.and_then(|entries| zip(&entries)).map_err(|what| bad(path, &what))?;
    write_file(path, &bytes)
}

fn print(array: &Array) -> Result<Vec<u8>, String> {
    let name = NAMES.iter().find(|(_, d)| *d == array.dtype).map(|(name, _)| *name);
    let name = name.ok_or_else(|| format!("NumPy has no element type {}", array.dtype))?;
    let order = if array.dtype.size() == 1 { '|' } else { '<' };
    let comma = if array.shape.len() == 1 { "," } else { "" };
    let sizes: Vec<String> = array.shape.iter().map(usize::to_string).collect();
    let mut header =
        format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({}{comma}), }}", sizes.join(", "));
    // The data starts at a multiple of 64.
    let room = (MAGIC.len() + 4 + header.len() + 1).next_multiple_of(64);
    header += &" ".repeat(room - MAGIC.len() - 4 - header.len() - 1);
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| "too many dims".to_owned())?;
    Ok([MAGIC, &[1, 0], &length.to_le_bytes(), header.as_bytes(), &array.bytes].concat())
}

fn parse(bytes: &[u8]) -> Result<Array, String> {
    if !bytes.starts_with(MAGIC) {
        return Err("not a .npy file".to_owned());
    }
    let cut = || "cut off in its header (truncated copy?)".to_owned();
    let field = |at: usize, n: usize| bytes.get(at..at + n).ok_or_else(cut);
    let number = |b: &[u8]| b.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
    let (start, length): (usize, usize) = match field(6, 1)?[0] {
        1 => (10, number(field(8, 2)?)),
        2 | 3 => (12, number(field(8, 4)?)),
        other => return Err(format!("version {other} of the format is not known")),
    };
    let header = bytes.get(start..start.saturating_add(length)).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is no text".to_owned())?;
    let header = Header::parse(header).ok_or_else(|| format!("its header is not understood: {}", header.trim()))?;
    header.take(&bytes[start + length..])
}

struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`
    fn parse(text: &str) -> Option<Self> {
        let after = |key: &str| Some(text.split_once(key)?.1.trim_start().strip_prefix(':')?.trim_start());
        let descr = after("'descr'")?;
        // A list of fields: a table of records.
        let descr = descr.strip_prefix('\'').and_then(|d| d.split_once('\'')).map_or("records", |d| d.0);
        let fortran = after("'fortran_order'")?.starts_with("True");
        let shape = after("'shape'")?.strip_prefix('(')?.split_once(')')?.0;
        let sizes = shape.split(',').map(str::trim).filter(|s| !s.is_empty());
        Some(Self { descr: descr.to_owned(), fortran, shape: sizes.map(|s| s.parse().ok()).collect::<Option<_>>()? })
    }

    fn take(self, data: &[u8]) -> Result<Array, String> {
        let (order, name) = self.descr.split_at(self.descr.len().min(1));
        let dtype = NAMES.iter().find(|(n, _)| *n == name).map(|(_, d)| *d);
        let dtype = match dtype {
            Some(dtype) if ["<", ">", "|", "="].contains(&order) => dtype,
            _ => return Err(format!("element type {} is not supported", self.descr)),
        };
        let size = self.shape.iter().try_fold(dtype.size(), |n, s| n.checked_mul(*s));
        let size = size.ok_or("a shape larger than any memory")?;
        if data.len() != size {
            return Err(format!("its header says {size} bytes, the file has {} (truncated copy?)", data.len()));
        }
        let mut bytes = data.to_vec();
        if order == ">" {
            // Complex numbers are two.
            let width = if matches!(dtype, DType::C64 | DType::C128) { dtype.size() / 2 } else { dtype.size() };
            bytes.chunks_mut(width).for_each(<[u8]>::reverse);
        }
        if self.fortran {
            bytes = to_row_major(&bytes, &self.shape, dtype.size());
        }
        Ok(Array { dtype, shape: self.shape, bytes })
    }
}

/// From first index fastest to last index fastest.
fn to_row_major(bytes: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    for _ in 0..bytes.len() / width.max(1) {
        let at = index.iter().zip(shape).rev().fold(0, |n, (i, s)| n * s + i) * width;
        out.extend_from_slice(&bytes[at..at + width]);
        for (i, s) in index.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *s {
                break;
            }
            *i = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("rtx-io-npy-{}-{name}", std::process::id()))
    }
    fn sample() -> Array {
        Array { dtype: DType::I16, shape: vec![2, 3], bytes: (0u8..12).collect() }
    }
    /// A version 1 file with this header.
    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
    }

    #[test]
    fn what_was_written_is_read() {
        let path = file("a.npy");
        write_npy(&path, &sample()).expect("writes");
        assert_eq!(read_npy(&path).expect("reads"), sample());
        assert_eq!(std::fs::read(&path).expect("bytes").len(), 128 + 12, "the data is aligned");
        let scalar = Array { dtype: DType::Bool, shape: vec![], bytes: vec![1] };
        let all = BTreeMap::from([("x".to_owned(), sample()), ("y z".to_owned(), scalar)]);
        let path = file("a.npz");
        write_npz(&path, &all).expect("writes");
        assert_eq!(read_npz(&path).expect("reads"), all);
    }

    /// `np.savez_compressed(f, x=np.arange(3, dtype='<u2'))`, NumPy 2.
    #[test]
    fn a_packed_archive_is_read() {
        let inner = print(&Array { dtype: DType::U16, shape: vec![3], bytes: vec![0, 0, 1, 0, 2, 0] }).expect("prints");
        let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packed, &inner).expect("packs");
        let packed = packed.finish().expect("packs");
        let mut archive = zip(&[Entry { name: "x.npy".to_owned(), bytes: packed.clone() }]).expect("archives");
        // The same archive, as one that says "deflated", with the sizes and the sum of what was packed.
        let mut crc = flate2::Crc::new();
        crc.update(&inner);
        let directory = 30 + 5 + packed.len();
        archive[directory + 10] = 8;
        archive[directory + 16..directory + 20].copy_from_slice(&crc.sum().to_le_bytes());
        archive[directory + 24..directory + 28].copy_from_slice(&(inner.len() as u32).to_le_bytes());
        let path = file("packed.npz");
        std::fs::write(&path, &archive).expect("file");
        assert_eq!(read_npz(&path).expect("reads")["x"].bytes, [0, 0, 1, 0, 2, 0]);
        std::fs::write(&path, &archive[..archive.len() - 30]).expect("file");
        assert!(read_npz(&path).expect_err("cut").message().ends_with(": not a whole zip archive (truncated copy?)"));
    }

    #[test]
    fn other_orders_become_ours() {
        let big = parse(&npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", &[0, 1, 0, 2]));
        assert_eq!(big.expect("reads").bytes, [1, 0, 2, 0]);
        let columns = parse(&npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", &[0, 3, 1, 4, 2, 5]));
        assert_eq!(columns.expect("reads").bytes, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn each_fault_has_its_sentence() {
        let sentence = |bytes: &[u8]| parse(bytes).expect_err("refused");
        assert_eq!(sentence(b"hello"), "not a .npy file");
        let shape = "'fortran_order': False, 'shape': (2,), }";
        let fault = |descr: &str, data: &[u8]| sentence(&npy(&format!("{{'descr': {descr}, {shape}"), data));
        assert_eq!(fault("'<f4'", &[0; 7]), "its header says 8 bytes, the file has 7 (truncated copy?)");
        assert_eq!(fault("'|O'", &[0; 8]), "element type |O is not supported");
        assert_eq!(fault("[('a', '<f4')]", &[0; 8]), "element type records is not supported");
        assert_eq!(sentence(&npy("{}", &[])), "its header is not understood: {}");
        assert_eq!(sentence(&MAGIC[..6]), "cut off in its header (truncated copy?)");
        let huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999, 9999999999, 99), }";
        assert_eq!(sentence(&npy(huge, &[])), "a shape larger than any memory");
    }
}
