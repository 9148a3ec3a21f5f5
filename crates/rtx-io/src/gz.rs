//! Compressed files: gzip, and the zip archives that NumPy writes.
use flate2::read::{DeflateDecoder, MultiGzDecoder};
use rtx_core::{Error, Kind, Result};
use std::fs;
use std::io::Read;
use std::path::Path;

/// The most that a compressed file may unfold to, in bytes: a small file cannot fill the memory.
const LARGEST: u64 = 16 << 30;

pub(crate) fn bad(path: &Path, what: &str) -> Error {
    Error::new(Kind::Format, format!("{}: {what}", path.display()))
}
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Error::new(Kind::Io, format!("{}: cannot read: {e}", path.display())))
}

/// A file's bytes, unpacked when it is gzipped (its first bytes say so, not its name).
///
/// # Errors
/// When the file cannot be read or its compression is damaged: the sentence names it.
pub fn read_plain_or_gz(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return Ok(bytes);
    }
    let mut out = Vec::new();
    let unpacked = MultiGzDecoder::new(bytes.as_slice()).take(LARGEST).read_to_end(&mut out);
    unpacked.map_err(|e| bad(path, &format!("damaged gzip file: {e} (truncated copy?)")))?;
    Ok(out)
}

/// One file of an archive.
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// The files of a zip archive, stored or deflated (APPNOTE.TXT of PKWARE, sections 4.3.7, 4.3.12, 4.3.16).
pub(crate) fn unzip(path: &Path) -> Result<Vec<Entry>> {
    let bytes = read(path)?;
    unzip_bytes(&bytes).map_err(|what| bad(path, &what))
}

fn unzip_bytes(bytes: &[u8]) -> Result<Vec<Entry>, String> {
    const END: &[u8] = b"PK\x05\x06";
    let tail = bytes.len().saturating_sub(22 + 0xffff);
    let end = bytes[tail..].windows(4).rposition(|w| w == END).map(|i| tail + i);
    let end = end.ok_or("not a whole zip archive (truncated copy?)")?;
    let (count, mut at) = (int(bytes, end + 10, 2)?, int(bytes, end + 16, 4)?);
    (0..count).map(|_| entry(bytes, &mut at)).collect()
}

/// The entry whose record in the directory stands at `at`, which then moves to the next.
fn entry(bytes: &[u8], at: &mut usize) -> Result<Entry, String> {
    let record = *at;
    if bytes.get(record..record + 4) != Some(b"PK\x01\x02") {
        return Err("damaged zip archive: its directory is not where it should be".to_owned());
    }
    let field = |offset, size| int(bytes, record + offset, size);
    let (method, crc, name_len, extra_len) = (field(10, 2)?, field(16, 4)?, field(28, 2)?, field(30, 2)?);
    let (mut packed, mut size, mut local) = (field(20, 4)?, field(24, 4)?, field(42, 4)?);
    let name = bytes.get(record + 46..record + 46 + name_len).ok_or("damaged zip archive: cut off in a name")?;
    let name = String::from_utf8_lossy(name).into_owned();
    let extra = record + 46 + name_len;
    // Sizes past 4 GB stand in the extra field number 1, in this order, each only if its place says so.
    let mut wide = find_extra(bytes, extra, extra_len)?;
    for value in [&mut size, &mut packed, &mut local] {
        if let (0xffff_ffff, Some(place)) = (*value, wide.as_mut()) {
            *value = int(bytes, *place, 8)?;
            *place += 8;
        }
    }
    *at = extra + extra_len + field(32, 2)?;
    let data = local.saturating_add(30 + int(bytes, local.saturating_add(26), 2)? + int(bytes, local + 28, 2)?);
    let cut = || format!("damaged zip archive: {name} is cut off");
    let packed = bytes.get(data..data.saturating_add(packed)).ok_or_else(cut)?;
    let unpacked = match method {
        0 => packed.to_vec(),
        8 => inflate(packed, size).ok_or_else(cut)?,
        other => return Err(format!("{name}: compression method {other} is not known")),
    };
    if unpacked.len() != size || crc32(&unpacked) as usize != crc {
        return Err(format!("damaged zip archive: {name} is not what was packed"));
    }
    Ok(Entry { name, bytes: unpacked })
}

fn find_extra(bytes: &[u8], mut at: usize, len: usize) -> Result<Option<usize>, String> {
    let end = at + len;
    while at + 4 <= end {
        let (id, size) = (int(bytes, at, 2)?, int(bytes, at + 2, 2)?);
        if id == 1 {
            return Ok(Some(at + 4));
        }
        at += 4 + size;
    }
    Ok(None)
}

fn inflate(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    DeflateDecoder::new(packed).take((size as u64).min(LARGEST)).read_to_end(&mut out).ok()?;
    Some(out)
}

/// A little-endian number.
fn int(bytes: &[u8], at: usize, size: usize) -> Result<usize, String> {
    let field = at.checked_add(size).and_then(|end| bytes.get(at..end));
    let field = field.ok_or("damaged zip archive: cut off")?;
    Ok(field.iter().rev().fold(0, |n, b| n << 8 | usize::from(*b)))
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// An archive of stored files; every date in it is the first that the format knows, so the same files give the same
/// bytes.
pub(crate) fn zip(entries: &[Entry]) -> Result<Vec<u8>, String> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for entry in entries {
        let small = |n: usize| u32::try_from(n).map_err(|_| format!("{}: over 4 GB", entry.name));
        let (size, at) = (small(entry.bytes.len())?, small(out.len())?);
        let name_len = entry.name.len() as u16;
        let mut head = Vec::new();
        [20u16, 0, 0, 0, 0x21].iter().for_each(|v| head.extend(v.to_le_bytes()));
        [crc32(&entry.bytes), size, size].iter().for_each(|v| head.extend(v.to_le_bytes()));
        head.extend(name_len.to_le_bytes());
        head.extend(0u16.to_le_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&head);
        out.extend(entry.name.as_bytes());
        out.extend(&entry.bytes);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&head);
        directory.extend([0; 10]);
        directory.extend(at.to_le_bytes());
        directory.extend(entry.name.as_bytes());
    }
    let (count, size) = (entries.len() as u16, directory.len() as u32);
    let start = u32::try_from(out.len()).map_err(|_| "an archive over 4 GB is not written".to_owned())?;
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    [count, count].iter().for_each(|v| out.extend(v.to_le_bytes()));
    [size, start].iter().for_each(|v| out.extend(v.to_le_bytes()));
    out.extend([0; 2]);
    Ok(out)
}
