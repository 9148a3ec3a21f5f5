//! safetensors: named arrays with a JSON header. A file is checked before a tensor is taken from it.
use rtx_core::{DType, Error, Kind, Result};
use safetensors::tensor::{Dtype as Stored, SafeTensorError, SafeTensors, TensorView, serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The longest header that is believed, in bytes (the format's own limit).
const HEADER_LIMIT: u64 = 100_000_000;
/// Bytes of the header's length field.
const LENGTH_FIELD: u64 = 8;

/// One array: element type, sizes, little-endian bytes in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Element type.
    pub dtype: DType,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// The elements.
    pub bytes: Vec<u8>,
}

/// A file's arrays by name, and its free-form notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The arrays.
    pub arrays: BTreeMap<String, Array>,
    /// The header's `__metadata__`.
    pub notes: BTreeMap<String, String>,
}

/// Writes arrays and notes to `path`, whole or not at all. The same contents give the same bytes.
///
/// # Errors
/// When an element type has no name in the format or the disk refuses.
pub fn write_safetensors(path: &Path, contents: &Contents) -> Result<()> {
    let mut views = Vec::with_capacity(contents.arrays.len());
    for (name, a) in &contents.arrays {
        let dtype =
            stored(a.dtype).ok_or_else(|| bad(path, &format!("tensor {name}: {} cannot be stored", a.dtype)))?;
        let view = TensorView::new(dtype, a.shape.clone(), &a.bytes);
        views.push((name, view.map_err(|e| bad(path, &format!("tensor {name}: {e}")))?));
    }
    // The format's own map of notes has no order; one entry at most keeps the bytes the same at every run.
    let notes =
        (!contents.notes.is_empty()).then(|| [(NOTES.to_owned(), join_notes(&contents.notes))].into_iter().collect());
    let bytes = serialize(views, notes).map_err(|e| bad(path, &e.to_string()))?;
    crate::write_file(path, &bytes)
}

const NOTES: &str = "rtx";

fn join_notes(notes: &BTreeMap<String, String>) -> String {
    notes.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join("\n")
}

/// Reads a whole file.
///
/// # Errors
/// With the file's name and one sentence: not there, truncated, header too large, overlapping tensors, …
pub fn read_safetensors(path: &Path) -> Result<Contents> {
    parse_checked(path, &read_checked(path)?)
}

/// Reads a whole file from memory; `path` names it in messages.
///
/// # Errors
/// As [`read_safetensors`].
pub fn parse_safetensors(path: &Path, bytes: &[u8]) -> Result<Contents> {
    let length = bytes.len() as u64;
    let Some((field, rest)) = bytes.split_first_chunk() else {
        return Err(bad(path, &format!("{} is too short for a safetensors file", size(length))));
    };
    let header = u64::from_le_bytes(*field);
    if header > rest.len() as u64 {
        return Err(truncated(path, header.saturating_add(LENGTH_FIELD), length));
    }
    check_extent(path, bytes, header as usize)?;
    parse_checked(path, bytes)
}

fn parse_checked(path: &Path, bytes: &[u8]) -> Result<Contents> {
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| bad(path, &explain(&e)))?;
    let mut out = Contents::default();
    for (name, view) in tensors.iter() {
        let dtype = loaded(view.dtype())
            .ok_or_else(|| bad(path, &format!("tensor {name}: element type {} is not supported", view.dtype())))?;
        out.arrays.insert(name.to_owned(), Array { dtype, shape: view.shape().to_vec(), bytes: view.data().to_vec() });
    }
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| bad(path, &explain(&e)))?;
    for (key, value) in header.metadata().iter().flatten() {
        if key == NOTES {
            let pairs = value.lines().filter_map(|l| l.split_once('='));
            out.notes.extend(pairs.map(|(k, v)| (k.to_owned(), v.to_owned())));
        } else {
            out.notes.insert(key.clone(), value.clone());
        }
    }
    Ok(out)
}

/// The file's bytes, once its length and the sizes that its header promises agree: a lying header is found before
/// anything of its size is read or allocated.
fn read_checked(path: &Path) -> Result<Vec<u8>> {
    let io = |e: std::io::Error| Error::new(Kind::Io, format!("{}: cannot read: {e}", path.display()));
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    if length < LENGTH_FIELD {
        return Err(bad(path, &format!("{} is too short for a safetensors file", size(length))));
    }
    let mut field = [0; LENGTH_FIELD as usize];
    file.read_exact(&mut field).map_err(io)?;
    let header = u64::from_le_bytes(field);
    if header > length - LENGTH_FIELD {
        return Err(truncated(path, header.saturating_add(LENGTH_FIELD), length));
    }
    if header > HEADER_LIMIT {
        return Err(bad(path, &format!("header of {} is over the limit of {}", size(header), size(HEADER_LIMIT))));
    }
    let mut bytes = field.to_vec();
    file.take(length - LENGTH_FIELD).read_to_end(&mut bytes).map_err(io)?;
    check_extent(path, &bytes, header as usize)?;
    Ok(bytes)
}

/// Compares what the header promises with what is there, for the sentence a person can act on.
fn check_extent(path: &Path, bytes: &[u8], header: usize) -> Result<()> {
    let text = &bytes[LENGTH_FIELD as usize..LENGTH_FIELD as usize + header];
    let Ok(entries) = serde_json::from_slice::<BTreeMap<String, serde_json::Value>>(text) else {
        return Ok(()); // `deserialize` says what is wrong with it
    };
    let ends = entries.values().filter_map(|e| e.get("data_offsets")?.get(1)?.as_u64());
    let promised = ends.max().unwrap_or(0).saturating_add(LENGTH_FIELD + header as u64);
    let length = bytes.len() as u64;
    if promised > length {
        return Err(truncated(path, promised, length));
    }
    if promised < length {
        return Err(bad(path, &format!("{} more than its header says", size(length - promised))));
    }
    Ok(())
}

fn truncated(path: &Path, promised: u64, length: u64) -> Error {
    bad(path, &format!("header says {}, the file has {} (truncated copy?)", size(promised), size(length)))
}

fn bad(path: &Path, what: &str) -> Error {
    Error::new(Kind::Format, format!("{}: {what}", path.display()))
}

fn explain(e: &SafeTensorError) -> String {
    match e {
        SafeTensorError::InvalidOffset(name) => {
            format!("tensor {name} overlaps another or leaves a gap before it")
        }
        SafeTensorError::TensorInvalidInfo => "a tensor's shape and byte range differ".to_owned(),
        SafeTensorError::InvalidHeader(_) | SafeTensorError::InvalidHeaderDeserialization(_) => {
            format!("not a safetensors file: {e}")
        }
        other => other.to_string(),
    }
}

/// Bytes as a person reads them: `9.1 GB`, `2.3 MB`, `12 bytes`.
fn size(bytes: u64) -> String {
    let b = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", b / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", b / 1e6),
        _ => format!("{:.1} GB", b / 1e9),
    }
}

/// Pairs of names, ours and the format's.
const NAMES: [(DType, Stored); 16] = [
    (DType::Bool, Stored::BOOL),
    (DType::U8, Stored::U8),
    (DType::I8, Stored::I8),
    (DType::I16, Stored::I16),
    (DType::I32, Stored::I32),
    (DType::I64, Stored::I64),
    (DType::U16, Stored::U16),
    (DType::U32, Stored::U32),
    (DType::U64, Stored::U64),
    (DType::F16, Stored::F16),
    (DType::BF16, Stored::BF16),
    (DType::F32, Stored::F32),
    (DType::F64, Stored::F64),
    (DType::F8E4M3, Stored::F8_E4M3),
    (DType::F8E5M2, Stored::F8_E5M2),
    (DType::C64, Stored::C64),
];

fn stored(dtype: DType) -> Option<Stored> {
    NAMES.iter().find(|(ours, _)| *ours == dtype).map(|(_, s)| *s)
}

fn loaded(dtype: Stored) -> Option<DType> {
    NAMES.iter().find(|(_, s)| *s == dtype).map(|(ours, _)| *ours)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("rtx-io-{name}-{}.safetensors", std::process::id()))
    }
    fn sample() -> Contents {
        let array =
            |dtype, shape: &[usize], bytes: &[u8]| Array { dtype, shape: shape.to_vec(), bytes: bytes.to_vec() };
        Contents {
            arrays: BTreeMap::from([
                ("b.weight".to_owned(), array(DType::F32, &[2], &[0, 0, 128, 63, 0, 0, 0, 64])),
                ("a".to_owned(), array(DType::Bool, &[], &[1])),
            ]),
            notes: BTreeMap::from([("numerics".to_owned(), "1".to_owned()), ("rtx".to_owned(), "0.1.0".to_owned())]),
        }
    }
    /// The sentence for a file with these bytes, without its path.
    fn sentence(name: &str, bytes: &[u8]) -> String {
        let path = file(name);
        std::fs::write(&path, bytes).expect("write");
        let e = read_safetensors(&path).expect_err("must be refused");
        let _ = std::fs::remove_file(&path);
        e.message().strip_prefix(&format!("{}: ", path.display())).expect("names the file").to_owned()
    }
    fn with_header(json: &str, data: usize) -> Vec<u8> {
        let mut b = (json.len() as u64).to_le_bytes().to_vec();
        b.extend_from_slice(json.as_bytes());
        b.resize(b.len() + data, 0);
        b
    }

    #[test]
    fn what_was_written_is_read() {
        let path = file("round");
        write_safetensors(&path, &sample()).expect("write");
        assert_eq!(read_safetensors(&path).expect("read"), sample());
        let first = std::fs::read(&path).expect("bytes");
        write_safetensors(&path, &sample()).expect("write");
        assert_eq!(std::fs::read(&path).expect("bytes"), first, "same contents, same bytes");
        let _ = std::fs::remove_file(&path);
    }

    #[test]
    fn each_fault_has_its_sentence() {
        let whole = {
            let path = file("whole");
            write_safetensors(&path, &sample()).expect("write");
            std::fs::read(&path).expect("bytes")
        };
        let cut = sentence("cut", &whole[..whole.len() - 3]);
        assert!(cut.ends_with(&format!("the file has {} bytes (truncated copy?)", whole.len() - 3)), "{cut}");
        assert_eq!(sentence("empty", b""), "0 bytes is too short for a safetensors file");
        let mut huge = whole.clone();
        huge[..8].copy_from_slice(&9_100_000_000u64.to_le_bytes());
        assert!(sentence("huge", &huge).starts_with("header says 9.1 GB, the file has "));
        let mut longer = whole.clone();
        longer.extend_from_slice(b"rest");
        assert_eq!(sentence("longer", &longer), "4 bytes more than its header says");
        assert!(sentence("text", &with_header("hello world", 4)).starts_with("not a safetensors file: "));
        let overlap = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}}"#;
        assert_eq!(
            sentence("overlap", &with_header(overlap, 6)),
            "tensor b overlaps another or leaves a gap before it"
        );
        let shape = r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,4]}}"#;
        assert_eq!(sentence("shape", &with_header(shape, 4)), "a tensor's shape and byte range differ");
        let odd = r#"{"a":{"dtype":"F8_E8M0","shape":[4],"data_offsets":[0,4]}}"#;
        assert_eq!(sentence("odd", &with_header(odd, 4)), "tensor a: element type F8_E8M0 is not supported");
    }

    #[test]
    fn a_missing_file_is_named() {
        let e = read_safetensors(Path::new("no/such.safetensors")).expect_err("absent");
        assert!(e.message().starts_with("no/such.safetensors: cannot read: "), "{e}");
    }
}
