//! Writes that are whole or absent: a temporary name, synced, renamed once, the folder synced.
use rtx_core::{Error, Kind, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// An I/O error that names the file.
fn failed(path: &Path, what: &str, e: &std::io::Error) -> Error {
    Error::new(Kind::Io, format!("{}: cannot {what}: {e}", path.display()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    }
}

/// A rename is durable only after its folder is synced.
fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(|e| failed(folder, "sync", &e))
}

/// Replaces the file at `path` by `bytes`: readers see the old file or the new one, never a part.
///
/// # Errors
/// When the file cannot be written; then nothing is left behind and an older file stays as it was.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = beside(path, ".tmp");
    let written = File::create(&temporary).and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_all()));
    if let Err(e) = written.and_then(|()| fs::rename(&temporary, path)) {
        let _ = fs::remove_file(&temporary); // best effort: the error that matters is the first one
        return Err(failed(path, "write", &e));
    }
    sync_folder(folder_of(path))
}

/// Makes the folder `path` with all that `fill` puts into it, or nothing: `fill` gets `path.tmp`, which is synced
/// and renamed once. A folder that is there already is replaced.
///
/// # Errors
/// When `fill` fails or the disk does; then `path.tmp` is removed and an older folder stays as it was.
pub fn make_dir(path: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let temporary = beside(path, ".tmp");
    remove_dir(&temporary)?;
    fs::create_dir(&temporary).map_err(|e| failed(&temporary, "make", &e))?;
    let made = fill(&temporary).and_then(|()| sync_files(&temporary)).and_then(|()| {
        // `rename` replaces only an empty folder.
        remove_dir(path)?;
        fs::rename(&temporary, path).map_err(|e| failed(path, "write", &e))
    });
    if made.is_err() {
        let _ = fs::remove_dir_all(&temporary);
    }
    made.and_then(|()| sync_folder(folder_of(path)))
}

fn remove_dir(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed(path, "remove", &e)),
        _ => Ok(()),
    }
}

fn sync_files(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| failed(folder, "read", &e))? {
        let path = entry.map_err(|e| failed(folder, "read", &e))?.path();
        File::open(&path).and_then(|f| f.sync_all()).map_err(|e| failed(&path, "sync", &e))?;
    }
    sync_folder(folder)
}

/// Lets the symbolic link `link` name `target` (relative to the link's folder), replacing it in one step.
///
/// # Errors
/// When the link cannot be made or replaced.
pub fn point_link(link: &Path, target: &str) -> Result<()> {
    let temporary = beside(link, ".tmp");
    let _ = fs::remove_file(&temporary); // left by a killed run
    make_link(target, &temporary).and_then(|()| fs::rename(&temporary, link)).map_err(|e| failed(link, "write", &e))?;
    sync_folder(folder_of(link))
}

#[cfg(unix)]
fn make_link(target: &str, link: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}
#[cfg(windows)]
fn make_link(target: &str, link: &Path) -> std::io::Result<()> {
    std::os::windows::fs::symlink_dir(target, link)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("rtx-io-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("the test's folder");
        dir
    }
    fn names(dir: &Path) -> Vec<String> {
        let mut v: Vec<String> = fs::read_dir(dir)
            .expect("listing")
            .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        v.sort();
        v
    }

    #[test]
    fn a_file_is_replaced_and_no_temporary_stays() {
        let dir = fresh("file");
        let path = dir.join("a.txt");
        write_file(&path, b"one").expect("write");
        write_file(&path, b"two").expect("write");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(names(&dir), ["a.txt"]);
    }

    #[test]
    fn a_failed_folder_leaves_the_old_one() {
        let dir = fresh("dir");
        let path = dir.join("step-000001");
        make_dir(&path, |tmp| write_file(&tmp.join("a"), b"old")).expect("first");
        let e = make_dir(&path, |tmp| {
            write_file(&tmp.join("a"), b"new")?;
            Err(Error::new(Kind::Io, "disk full"))
        });
        assert_eq!(e.expect_err("fails").message(), "disk full");
        assert_eq!(fs::read(path.join("a")).expect("read"), b"old");
        assert_eq!(names(&dir), ["step-000001"]);
        make_dir(&path, |tmp| write_file(&tmp.join("b"), b"new")).expect("replaced");
        assert_eq!(names(&path), ["b"]);
    }

    #[test]
    fn a_link_moves() {
        let dir = fresh("link");
        for target in ["step-1", "step-2"] {
            point_link(&dir.join("latest"), target).expect("link");
            assert_eq!(fs::read_link(dir.join("latest")).expect("link"), Path::new(target));
        }
        assert_eq!(names(&dir), ["latest"]);
    }

    #[test]
    fn the_sentence_names_the_file() {
        let e = write_file(Path::new("/nowhere/at/all"), b"x").expect_err("no such folder");
        assert!(e.message().starts_with("/nowhere/at/all: cannot write: "), "{e}");
    }
}
