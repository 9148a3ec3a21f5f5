//! Text as bytes: the UTF-8 files of a folder, cut into windows.
use crate::Dataset;
use rtx_core::{Error, Kind, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Smaller files are passed over when a folder is read.
const SMALLEST: usize = 1_000;
/// Windows start this many bytes apart.
const STRIDE: usize = 16;
/// Text is set aside in blocks of this many bytes, …
const BLOCK: usize = 8_192;
/// … one in so many.
const EVERY: usize = 16;

/// The bytes of one file or of all text files of a folder, in the order of their paths.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// The text, files separated by a line end.
    pub bytes: Vec<u8>,
    /// How many files it came from.
    pub files: usize,
}

/// What was passed over, for the sentence that says why nothing was found.
#[derive(Default)]
struct PassedOver {
    images: usize,
    small: usize,
    other: usize,
}

impl Corpus {
    /// Reads a file, or a folder with all below it. Hidden names, links and what tools make (`target`,
    /// `node_modules`, `runs`) are passed over.
    ///
    /// # Errors
    /// When there is no text, or less than the 1 KB that makes training on it sensible.
    pub fn open(path: &Path) -> Result<Self> {
        let about = fs::metadata(path).map_err(|e| bad(path, &format!("cannot read: {e}")))?;
        if about.is_dir() { Self::open_folder(path) } else { Self::open_file(path) }
    }

    fn open_file(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(|e| bad(path, &format!("cannot read: {e}")))?;
        if bytes.len() < SMALLEST {
            return Err(bad(path, &format!("{} bytes are too little text to learn from (1 KB at least)", bytes.len())));
        }
        if std::str::from_utf8(&bytes).is_err() {
            return Err(bad(path, "not a text file (its bytes are not UTF-8)"));
        }
        Ok(Self { bytes, files: 1 })
    }

    fn open_folder(path: &Path) -> Result<Self> {
        let mut paths = Vec::new();
        list(path, &mut paths)?;
        let (mut corpus, mut passed) = (Self { bytes: Vec::new(), files: 0 }, PassedOver::default());
        for file in &paths {
            let bytes = fs::read(file).map_err(|e| bad(file, &format!("cannot read: {e}")))?;
            if is_image(file) {
                passed.images += 1;
            } else if std::str::from_utf8(&bytes).is_err() {
                passed.other += 1;
            } else if bytes.len() < SMALLEST {
                passed.small += 1;
            } else {
                corpus.bytes.extend_from_slice(&bytes);
                corpus.bytes.push(b'\n');
                corpus.files += 1;
            }
        }
        if corpus.files == 0 {
            let what = format!("no text files there (looked for UTF-8 files over 1 KB, found {})", passed.words());
            return Err(bad(path, &what));
        }
        Ok(corpus)
    }

    /// Windows to train on, and windows of blocks set aside from all over the text.
    ///
    /// # Errors
    /// When the text is shorter than one window.
    pub fn split(&self, context: usize) -> Result<(Windows, Windows)> {
        let (mut train, mut held) = (Vec::new(), Vec::new());
        if self.bytes.len() < BLOCK * EVERY {
            let cut = self.bytes.len() - self.bytes.len() / EVERY;
            train.extend_from_slice(&self.bytes[..cut]);
            held.extend_from_slice(&self.bytes[cut..]);
        } else {
            for (i, block) in self.bytes.chunks(BLOCK).enumerate() {
                if i % EVERY == EVERY - 1 { held.extend_from_slice(block) } else { train.extend_from_slice(block) }
            }
        }
        let window = |bytes: Vec<u8>, stride| Windows { bytes, context, stride };
        let (train, held) = (window(train, STRIDE), window(held, context));
        if train.is_empty() || held.is_empty() {
            let what = format!("{} bytes of text are too few for a context of {context}", self.bytes.len());
            return Err(Error::new(Kind::Argument, what));
        }
        Ok((train, held))
    }
}

impl PassedOver {
    fn words(&self) -> String {
        let count = |n: usize, one: &str, many: &str| match n {
            0 => None,
            1 => Some(format!("1 {one}")),
            _ => Some(format!("{n} {many}")),
        };
        let parts = [
            count(self.images, "image", "images"),
            count(self.small, "smaller file", "smaller files"),
            count(self.other, "other file", "other files"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    }
}

/// Overlapping pieces of `context + 1` bytes, as ids: a model reads all but the last and predicts all but the first.
#[derive(Clone, Debug)]
pub struct Windows {
    bytes: Vec<u8>,
    context: usize,
    stride: usize,
}

impl Dataset for Windows {
    type Item = Vec<i64>;

    fn len(&self) -> usize {
        self.bytes.len().checked_sub(self.context + 1).map_or(0, |room| room / self.stride + 1)
    }

    fn get(&self, i: usize) -> Result<Vec<i64>> {
        if i >= self.len() {
            return Err(Error::new(Kind::Index, format!("text: index {i} is outside 0..{}", self.len())));
        }
        let start = i * self.stride;
        Ok(self.bytes[start..=start + self.context].iter().map(|&b| i64::from(b)).collect())
    }
}

fn bad(path: &Path, what: &str) -> Error {
    Error::new(Kind::Argument, format!("{}: {what}", path.display()))
}

/// All files below `folder`, sorted, so that the same text gives the same run.
fn list(folder: &Path, out: &mut Vec<PathBuf>) -> Result<()> {
    let io = |e: std::io::Error| bad(folder, &format!("cannot read: {e}"));
    let mut entries = fs::read_dir(folder).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, kind) = (entry.file_name(), entry.file_type().map_err(io)?);
        let name = name.to_string_lossy();
        if name.starts_with('.') {
            continue;
        }
        if kind.is_file() {
            out.push(entry.path());
        } else if kind.is_dir() && !["target", "node_modules", "runs"].contains(&&*name) {
            list(&entry.path(), out)?;
        }
    }
    Ok(())
}

fn is_image(path: &Path) -> bool {
    const IMAGES: [&str; 9] = ["png", "jpg", "jpeg", "gif", "webp", "bmp", "tiff", "svg", "ico"];
    path.extension().and_then(|e| e.to_str()).is_some_and(|e| IMAGES.contains(&e.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("rtx-data-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("the test's folder");
        for (file, bytes) in files {
            let path = dir.join(file);
            fs::create_dir_all(path.parent().expect("inside")).expect("folder");
            fs::write(path, bytes).expect("file");
        }
        dir
    }
    fn sentence(path: &Path) -> String {
        let e = Corpus::open(path).expect_err("no text");
        e.message().replace(&path.display().to_string(), "notes")
    }

    #[test]
    fn each_absence_of_text_has_its_sentence() {
        let images = folder("images", &[("a.png", &[137]), ("b.PNG", &[1]), ("c.jpg", &[2])]);
        assert_eq!(sentence(&images), "notes: no text files there (looked for UTF-8 files over 1 KB, found 3 images)");
        let mixed = folder("mixed", &[("a", b"short"), ("b.bin", &[255; 2000]), ("target/x", &[b'a'; 5000])]);
        assert_eq!(
            sentence(&mixed),
            "notes: no text files there (looked for UTF-8 files over 1 KB, found 1 smaller file, 1 other file)"
        );
        assert!(sentence(&folder("none", &[])).ends_with("found nothing)"));
        assert_eq!(sentence(&mixed.join("a")), "notes: 5 bytes are too little text to learn from (1 KB at least)");
        assert!(sentence(&mixed.join("b.bin")).ends_with(": not a text file (its bytes are not UTF-8)"));
        assert!(sentence(&mixed.join("absent")).contains(": cannot read: "));
    }

    #[test]
    fn files_come_in_the_order_of_their_paths() {
        let dir = folder("order", &[("b.txt", &[b'b'; 1500]), ("a/z.txt", &[b'a'; 1500]), (".git/x", &[b'g'; 1500])]);
        let corpus = Corpus::open(&dir).expect("text");
        assert_eq!((corpus.files, corpus.bytes.len()), (2, 3002));
        assert_eq!((corpus.bytes[0], corpus.bytes[1501]), (b'a', b'b'));
    }

    #[test]
    fn blocks_set_aside_are_not_trained_on() {
        let bytes: Vec<u8> = (0..BLOCK * EVERY * 2).map(|i| (i / BLOCK) as u8).collect();
        let (train, held) = Corpus { bytes, files: 1 }.split(64).expect("long enough");
        let blocks: std::collections::BTreeSet<i64> =
            (0..held.len()).flat_map(|i| held.get(i).expect("in range")).collect();
        assert_eq!(blocks.into_iter().collect::<Vec<_>>(), [15, 31]);
        assert!((0..train.len()).all(|i| train.get(i).expect("in range").iter().all(|b| b % 16 != 15)));
        assert_eq!(train.get(0).expect("in range").len(), 65);
        assert!(train.get(train.len()).is_err());
    }

    #[test]
    fn too_little_text_is_refused() {
        let corpus = Corpus { bytes: vec![b'x'; 1200], files: 1 };
        assert_eq!(
            corpus.split(128).expect_err("short").message(),
            "1200 bytes of text are too few for a context of 128"
        );
    }
}
