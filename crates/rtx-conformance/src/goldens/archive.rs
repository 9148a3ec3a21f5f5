//! Golden files, from a folder or from the packed form that the repository carries.
use rtx_core::{Error, Kind, Result};
use rtx_io::{Contents, parse_safetensors};
use std::io::Read;
use std::path::{Path, PathBuf};

/// One safetensors file of a set.
pub struct Golden {
    /// The file's name without its ending: `div.trunc_rounding.float32`.
    pub name: String,
    /// Its arrays and notes.
    pub file: Contents,
}

/// The safetensors files that lie in `dir` or in its `packed` archive (`.tar.zst`), by name.
///
/// # Errors
/// When there are none, or one cannot be read.
pub fn read_set(dir: &Path, packed: &str) -> Result<Vec<Golden>> {
    let loose = loose_files(dir)?;
    let mut set = if loose.is_empty() { unpack(&find_archive(dir, packed)?)? } else { loose };
    set.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(set)
}

fn io(path: &Path, e: impl std::fmt::Display) -> Error {
    Error::new(Kind::Io, format!("{}: cannot read: {e}", path.display()))
}

fn find_archive(dir: &Path, packed: &str) -> Result<PathBuf> {
    let path = if dir.is_file() { dir.to_owned() } else { dir.join(packed) };
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::new(Kind::Io, format!("{}: neither {packed} nor safetensors files are there", dir.display())))
}

const ENDING: &str = ".safetensors";

fn loose_files(dir: &Path) -> Result<Vec<Golden>> {
    let mut out = Vec::new();
    if dir.is_file() {
        return Ok(out);
    }
    for entry in std::fs::read_dir(dir).map_err(|e| io(dir, e))? {
        let path = entry.map_err(|e| io(dir, e))?.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()?.strip_suffix(ENDING)) else { continue };
        out.push(Golden { name: name.to_owned(), file: rtx_io::read_safetensors(&path)? });
    }
    Ok(out)
}

fn unpack(path: &Path) -> Result<Vec<Golden>> {
    let file = std::fs::File::open(path).map_err(|e| io(path, e))?;
    let decoder = ruzstd::decoding::StreamingDecoder::new(std::io::BufReader::new(file)).map_err(|e| io(path, e))?;
    let mut archive = tar::Archive::new(decoder);
    let mut out = Vec::new();
    for entry in archive.entries().map_err(|e| io(path, e))? {
        let mut entry = entry.map_err(|e| io(path, e))?;
        let inside = entry.path().map_err(|e| io(path, e))?.into_owned();
        let Some(name) = inside.file_name().and_then(|n| n.to_str()?.strip_suffix(ENDING)) else { continue };
        let name = name.to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(|e| io(path, e))?;
        out.push(Golden { name, file: parse_safetensors(&inside, &bytes)? });
    }
    Ok(out)
}
