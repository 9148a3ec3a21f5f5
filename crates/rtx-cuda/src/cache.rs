//! Compiled kernels in the user's cache folder, by source, flags, architecture and compiler version.
//!
//! A file is written under a name of its own and renamed, so that processes never see a part of one; what is damaged is
//! compiled again. `RTX_CACHE_DIR` names another folder; an empty one turns the cache off.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// Bytes above which the files longest unused go.
const MOST_BYTES: u64 = 1 << 30;
/// Writes between two looks at how much there is.
const LOOK_EVERY: u64 = 256;
const MAGIC: &[u8; 8] = b"rtxcub01";

/// Writes of this process, by all its caches: what tells its unfinished files apart.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// The folder.
pub struct CodeCache {
    folder: Option<PathBuf>,
}

impl CodeCache {
    /// The user's.
    pub fn of_user() -> Self {
        let named = std::env::var_os("RTX_CACHE_DIR").map(PathBuf::from);
        let usual = || {
            let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
            xdg.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"))).map(|p| p.join("rustytorch"))
        };
        let folder = named.or_else(usual).filter(|p| !p.as_os_str().is_empty());
        Self::new(folder.map(|p| p.join("cuda")))
    }

    /// One in a folder, or none.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// Where code of these parts is kept.
    fn path(&self, parts: &[&str]) -> Option<PathBuf> {
        self.folder.as_ref().map(|f| f.join(format!("{:032x}.cubin", Fnv::of(parts).0)))
    }

    /// The code, if it is there and whole.
    pub fn get(&self, parts: &[&str]) -> Option<Vec<u8>> {
        let path = self.path(parts)?;
        let file = fs::read(&path).ok()?;
        let code = unpack(parts, &file)?.to_vec();
        // Its time says when it was last used; one that cannot be set is only sooner forgotten.
        _ = fs::File::open(&path).and_then(|f| f.set_modified(SystemTime::now()));
        Some(code)
    }

    /// Keeps code. A cache that cannot be written to costs time only.
    pub fn put(&self, parts: &[&str], code: &[u8]) {
        let (Some(path), Some(folder)) = (self.path(parts), &self.folder) else { return };
        let writes = WRITES.fetch_add(1, Relaxed);
        let own = folder.join(format!("{}-{writes}.tmp", std::process::id()));
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&own, pack(parts, code)));
        if written.and_then(|()| fs::rename(&own, &path)).is_err() {
            _ = fs::remove_file(&own);
        }
        if writes.is_multiple_of(LOOK_EVERY) {
            trim(folder, MOST_BYTES);
        }
    }
}

/// Of the code and of what it is for: code under another's name is none.
fn sum(parts: &[&str], code: &[u8]) -> [u8; 16] {
    let mut hash = Fnv::of(parts);
    hash.take(code);
    hash.0.to_le_bytes()
}
fn pack(parts: &[&str], code: &[u8]) -> Vec<u8> {
    [MAGIC.as_slice(), &sum(parts, code), code].concat()
}
fn unpack<'f>(parts: &[&str], file: &'f [u8]) -> Option<&'f [u8]> {
    let (stored, code) = file.strip_prefix(MAGIC)?.split_at_checked(16)?;
    (stored == sum(parts, code)).then_some(code)
}

/// Removes the files longest unused while there are more bytes than that.
fn trim(folder: &Path, most: u64) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter_map(|e| e.metadata().ok().and_then(|m| Some((m.modified().ok()?, m.len(), e.path()))))
        .collect();
    files.sort();
    let mut total: u64 = files.iter().map(|f| f.1).sum();
    for (_, bytes, path) in files {
        if total <= most {
            break;
        }
        if fs::remove_file(path).is_ok() {
            total -= bytes;
        }
    }
}

/// FNV-1a of 128 bits: file names, not secrets.
struct Fnv(u128);
impl Default for Fnv {
    fn default() -> Self {
        Self(0x6c62272e07bb014262b821756295c58d)
    }
}
impl Fnv {
    /// Of parts that do not run into each other.
    fn of(parts: &[&str]) -> Self {
        let mut hash = Self::default();
        for part in parts {
            hash.take(part.as_bytes());
            hash.take(&(part.len() as u64).to_le_bytes());
        }
        hash
    }
    fn take(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u128::from(*b)).wrapping_mul(0x0000000001000000000000000000013b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_kept_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("rtx-code-cache-{}", std::process::id()));
        let cache = CodeCache::new(Some(folder.clone()));
        let parts = ["text", "sm_90a", "13.0"];
        assert_eq!(cache.get(&parts), None);
        cache.put(&parts, b"machine code");
        assert_eq!(cache.get(&parts).as_deref(), Some(b"machine code".as_slice()));
        assert_eq!(cache.get(&["text", "sm_80", "13.0"]), None, "another architecture is another file");
        assert_eq!(cache.get(&["texts", "m_90a", "13.0"]), None, "parts do not run into each other");
        let path = cache.path(&parts).expect("there is a folder");
        let other = ["text", "sm_80", "13.0"];
        fs::copy(&path, cache.path(&other).expect("there is a folder")).expect("copies");
        assert_eq!(cache.get(&other), None, "code under another's name is none");
        fs::remove_file(cache.path(&other).expect("there is a folder")).expect("goes");
        fs::write(&path, &fs::read(&path).expect("is there")[..30]).expect("writes");
        assert_eq!(cache.get(&parts), None, "a part of a file is no code");
        trim(&folder, 0);
        assert!(!path.exists());
        fs::remove_dir_all(folder).expect("ends empty");
    }
}
