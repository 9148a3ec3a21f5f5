//! Fashion-MNIST: 70,000 grey pictures of clothes, 28 × 28, in ten classes (Xiao, Rasul, Vollgraf, 2017).
use crate::{Collate, Dataset, Stream};
use rtx_core::{Error, Kind, Result};
use rtx_tensor::{Tensor, from_slice};
use std::path::{Path, PathBuf};

/// Pixels from top to bottom and from left to right.
const SIDE: usize = 28;
/// Mean and deviation of the training pixels, 0 to 1.
const MEAN: f32 = 0.2860;
const DEVIATION: f32 = 0.3530;
/// The most pixels by which a picture is moved.
const SHIFT: u32 = 1;

/// One of its two parts: pictures and labels, in the order of the files.
#[derive(Clone, Debug)]
pub struct FashionMnist {
    pixels: Vec<u8>,
    labels: Vec<u8>,
    vary: bool,
}

/// One item: pixels with mean 0 and deviation 1, and the class.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// 28 rows of 28.
    pub pixels: Vec<f32>,
    /// The class.
    pub label: i64,
}

impl FashionMnist {
    /// What the classes are.
    pub const CLASSES: [&'static str; 10] =
        ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"];

    /// The 60,000 pictures to learn from, in the folder of the four IDX files, gzipped or not. A loader gets each
    /// mirrored or not and moved by a pixel or not, as its stream decides.
    ///
    /// # Errors
    /// When a file is missing, damaged, or not what it should be.
    pub fn train(folder: impl AsRef<Path>) -> Result<Self> {
        Ok(Self { vary: true, ..Self::read(folder.as_ref(), "train")? })
    }
    /// The 10,000 pictures to be judged by.
    ///
    /// # Errors
    /// When a file is missing, damaged, or not what it should be.
    pub fn test(folder: impl AsRef<Path>) -> Result<Self> {
        Self::read(folder.as_ref(), "t10k")
    }
    fn read(folder: &Path, part: &str) -> Result<Self> {
        let images = find(folder, &format!("{part}-images-idx3-ubyte"))?;
        let labels = find(folder, &format!("{part}-labels-idx1-ubyte"))?;
        let wrong = |path: &Path, what: String| Error::new(Kind::Format, format!("{}: {what}", path.display()));
        let (x, y) = (rtx_io::read_idx(&images)?, rtx_io::read_idx(&labels)?);
        let (dtype, &[n, SIDE, SIDE]) = (x.dtype, x.shape.as_slice()) else {
            return Err(wrong(&images, format!("holds {} {:?}, not pictures of 28 × 28", x.dtype, x.shape)));
        };
        if dtype != rtx_core::DType::U8 || y.dtype != dtype || y.shape != [n] || n == 0 {
            return Err(wrong(
                &labels,
                format!("holds {} {:?}, not a label for each of {n} pictures", y.dtype, y.shape),
            ));
        }
        if let Some(label) = y.bytes.iter().find(|l| **l > 9) {
            return Err(wrong(&labels, format!("label {label} is not a class from 0 to 9")));
        }
        Ok(Self { pixels: x.bytes, labels: y.bytes, vary: false })
    }

    /// The picture, read through a window that is moved and mirrored; outside is black.
    fn picture(&self, i: usize, mirrored: bool, down: isize, right: isize) -> Result<Picture> {
        let Some(label) = self.labels.get(i) else {
            return Err(Error::new(Kind::Index, format!("FashionMnist: index {i} is outside 0..{}", self.len())));
        };
        let from = &self.pixels[i * SIDE * SIDE..(i + 1) * SIDE * SIDE];
        let pixel = |at: usize| {
            let (y, x) = (at / SIDE, at % SIDE);
            let x = if mirrored { SIDE - 1 - x } else { x };
            let (y, x) = (y.checked_add_signed(down), x.checked_add_signed(right));
            let value = match (y.filter(|y| *y < SIDE), x.filter(|x| *x < SIDE)) {
                (Some(y), Some(x)) => from[y * SIDE + x],
                _ => 0,
            };
            (f32::from(value) / 255.0 - MEAN) / DEVIATION
        };
        Ok(Picture { pixels: (0..SIDE * SIDE).map(pixel).collect(), label: i64::from(*label) })
    }
}

impl Dataset for FashionMnist {
    type Item = Picture;
    fn len(&self) -> usize {
        self.labels.len()
    }
    fn get(&self, i: usize) -> Result<Picture> {
        self.picture(i, false, 0, 0)
    }
    fn draw(&self, i: usize, stream: &mut Stream) -> Result<Picture> {
        if !self.vary {
            return self.get(i);
        }
        let mut shift = || stream.below(2 * SHIFT + 1) as isize - SHIFT as isize;
        let (down, right) = (shift(), shift());
        self.picture(i, stream.below(2) == 1, down, right)
    }
}

/// Pictures `[batch, 1, 28, 28]` and labels `[batch]`.
impl Collate for Picture {
    type Batch = (Tensor, Tensor);
    fn collate(items: &[Self]) -> Result<(Tensor, Tensor)> {
        let pixels: Vec<f32> = items.iter().flat_map(|p| &p.pixels).copied().collect();
        let labels: Vec<i64> = items.iter().map(|p| p.label).collect();
        if pixels.len() != items.len() * SIDE * SIDE {
            return Err(Error::new(Kind::Shape, "collate: a picture is not 28 × 28"));
        }
        Ok((from_slice(&pixels, [items.len(), 1, SIDE, SIDE]), from_slice(&labels, items.len())))
    }
}

/// `name` or `name.gz`, whichever is there.
fn find(folder: &Path, name: &str) -> Result<PathBuf> {
    let names = [name.to_owned(), format!("{name}.gz")];
    names.iter().map(|n| folder.join(n)).find(|p| p.is_file()).ok_or_else(|| {
        Error::new(Kind::Argument, format!("{}: no {name} there, gzipped or not", folder.display()))
            .hint("Debian has them: apt-get install dataset-fashion-mnist")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataLoader;
    use std::fs;

    /// A folder with `n` pictures in which pixel (2, 3) is white.
    fn folder(name: &str, n: u8) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("rtx-data-fashion-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("the test's folder");
        let mut images = vec![0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 28, 0, 0, 0, 28];
        for _ in 0..n {
            let mut picture = [0; SIDE * SIDE];
            picture[2 * SIDE + 3] = 255;
            images.extend(picture);
        }
        let labels: Vec<u8> = [0, 0, 8, 1, 0, 0, 0, n].into_iter().chain((0..n).map(|i| i % 10)).collect();
        for part in ["train", "t10k"] {
            fs::write(dir.join(format!("{part}-images-idx3-ubyte")), &images).expect("file");
            fs::write(dir.join(format!("{part}-labels-idx1-ubyte")), &labels).expect("file");
        }
        dir
    }
    fn white(picture: &Picture) -> (usize, usize) {
        let at = picture.pixels.iter().position(|p| *p > 1.0).expect("a white pixel");
        (at / SIDE, at % SIDE)
    }

    #[test]
    fn pictures_vary_only_in_training() {
        let dir = folder("vary", 40);
        let (train, test) = (FashionMnist::train(&dir).expect("reads"), FashionMnist::test(&dir).expect("reads"));
        assert!((0..40).all(|i| white(&test.draw(i, &mut Stream::new(1, 0, 0, i as u32)).expect("reads")) == (2, 3)));
        let seen: std::collections::BTreeSet<(usize, usize)> =
            (0..40).map(|i| white(&train.draw(i, &mut Stream::new(1, 0, 0, i as u32)).expect("reads"))).collect();
        let mirrored = |x: usize| SIDE - 1 - x;
        assert!(
            seen.iter().all(|(y, x)| (1..=3).contains(y) && ((2..=4).contains(x) || (2..=4).contains(&mirrored(*x))))
        );
        assert!(seen.len() > 12, "{seen:?}");
        let (x, y) = DataLoader::new(test, 3).iter().next().expect("one").expect("reads");
        assert_eq!((x.shape(), y.to_vec::<i64>().expect("reads")), (vec![3, 1, 28, 28], vec![0, 1, 2]));
    }

    #[test]
    fn each_fault_has_its_sentence() {
        let e = FashionMnist::train("no/such").map(drop).expect_err("absent");
        assert_eq!(e.message(), "no/such: no train-images-idx3-ubyte there, gzipped or not");
        let dir = folder("faults", 2);
        let labels = dir.join("train-labels-idx1-ubyte");
        fs::write(&labels, [0, 0, 8, 1, 0, 0, 0, 2, 3, 10]).expect("file");
        let e = FashionMnist::train(&dir).map(drop).expect_err("label 10");
        assert!(e.message().ends_with(": label 10 is not a class from 0 to 9"), "{e}");
        fs::write(&labels, [0, 0, 8, 1, 0, 0, 0, 1, 3]).expect("file");
        let e = FashionMnist::train(&dir).map(drop).expect_err("one label");
        assert!(e.message().ends_with(": holds u8 [1], not a label for each of 2 pictures"), "{e}");
    }
}
