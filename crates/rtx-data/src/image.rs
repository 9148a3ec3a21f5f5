//! Pictures: PNG, PPM and PGM files, and folders of them with a folder a class.
use crate::{Collate, Dataset};
use rtx_core::{Error, Kind, Result};
use rtx_tensor::{Tensor, from_slice};
use std::fs;
use std::path::{Path, PathBuf};

/// More pixels than any picture that is a training item.
const MAX_PIXELS: usize = 1 << 28;

/// A picture: 8 bits a channel, rows from the top, channels side by side.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let image = data::Image { height: 2, width: 2, channels: 1, pixels: vec![1, 2, 3, 4] }; // or open(path)
/// assert_eq!(image.flip_horizontal().pixels, [2, 1, 4, 3]);
/// assert_eq!(image.crop(1, 0, 1, 2)?.pixels, [3, 4]);
/// assert_eq!(image.resize_nearest(1, 1).pixels.len(), 1);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Pixels from top to bottom.
    pub height: usize,
    /// Pixels from left to right.
    pub width: usize,
    /// 1 (grey), 2 (grey and alpha), 3 (red, green, blue) or 4 (and alpha).
    pub channels: usize,
    /// `height` × `width` × `channels` values.
    pub pixels: Vec<u8>,
}

impl Image {
    /// Reads a PNG, PPM (`P6`, `P3`) or PGM (`P5`, `P2`) file; which one it is, the first bytes say.
    ///
    /// # Errors
    /// When the file cannot be read, is damaged, or is of another format.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes =
            fs::read(path).map_err(|e| Error::new(Kind::Io, format!("{}: cannot read: {e}", path.display())))?;
        let image = match bytes.get(..2) {
            Some([0x89, b'P']) => parse_png(&bytes),
            Some([b'P', b'2' | b'3' | b'5' | b'6']) => parse_pnm(&bytes),
            Some([0xff, 0xd8]) => Err("JPEG is not read (PNG, PPM and PGM are)".to_owned()),
            _ => Err("not a picture that is read (PNG, PPM and PGM are)".to_owned()),
        };
        image.map_err(|what| Error::new(Kind::Format, format!("{}: {what}", path.display())))
    }
    /// Mirrored, left to right.
    #[must_use]
    pub fn flip_horizontal(&self) -> Self {
        let rows = self.pixels.chunks(self.width * self.channels);
        let pixels = rows.flat_map(|row| row.chunks(self.channels).rev().flatten().copied());
        Self { pixels: pixels.collect(), ..*self }
    }
    /// The part of `height` × `width` pixels whose first is at (`top`, `left`).
    ///
    /// # Errors
    /// When it reaches over the border.
    pub fn crop(&self, top: usize, left: usize, height: usize, width: usize) -> Result<Self> {
        if top + height > self.height || left + width > self.width {
            let what =
                format!("crop: {height}×{width} at ({top}, {left}) does not fit into {}×{}", self.height, self.width);
            return Err(Error::new(Kind::Argument, what));
        }
        let rows = self.pixels.chunks(self.width * self.channels).skip(top).take(height);
        let pixels = rows.flat_map(|row| &row[left * self.channels..(left + width) * self.channels]).copied();
        Ok(Self { height, width, pixels: pixels.collect(), ..*self })
    }
    /// To `height` × `width`, each pixel the one nearest to its centre.
    #[must_use]
    pub fn resize_nearest(&self, height: usize, width: usize) -> Self {
        let near = |i: usize, to: usize, from: usize| (2 * i + 1) * from / (2 * to);
        let mut pixels = Vec::with_capacity(height * width * self.channels);
        for y in 0..height {
            for x in 0..width {
                let at = (near(y, height, self.height) * self.width + near(x, width, self.width)) * self.channels;
                pixels.extend_from_slice(&self.pixels[at..at + self.channels]);
            }
        }
        Self { height, width, pixels, ..*self }
    }
}

/// Pictures of one size become `[batch, channels, height, width]`, f32 from 0 to 1.
impl Collate for Image {
    type Batch = Tensor;
    fn collate(items: &[Self]) -> Result<Tensor> {
        let Some(first) = items.first() else { return Err(Error::new(Kind::Argument, "collate: no pictures")) };
        let size = |i: &Image| (i.height, i.width, i.channels);
        if let Some(other) = items.iter().find(|i| size(i) != size(first)) {
            let words = |i: &Image| format!("{}×{}×{}", i.height, i.width, i.channels);
            let what = format!("collate: pictures of {} and {} do not form a batch", words(first), words(other));
            return Err(Error::new(Kind::Shape, what).hint("resize or crop them in `map`"));
        }
        let (height, width, channels) = size(first);
        let mut values = Vec::with_capacity(items.len() * first.pixels.len());
        for item in items {
            for c in 0..channels {
                values.extend(item.pixels.iter().skip(c).step_by(channels).map(|v| f32::from(*v) / 255.0));
            }
        }
        Ok(from_slice(&values, [items.len(), channels, height, width]))
    }
}

/// A folder with a folder of pictures for each class (torchvision's `ImageFolder`). Items are a picture and the
/// number of its class.
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    files: Vec<(PathBuf, i64)>,
}

impl ImageFolder {
    /// Lists the folder. Classes and files are sorted by name; hidden ones, and files that are not named as pictures
    /// that are read, are passed over. Pictures are read when they are fetched.
    ///
    /// # Errors
    /// When the folder cannot be read or holds no class with a picture.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let (mut classes, mut files) = (Vec::new(), Vec::new());
        for folder in list(path)?.into_iter().filter(|p| p.is_dir()) {
            let pictures: Vec<PathBuf> = list(&folder)?.into_iter().filter(|p| is_read(p)).collect();
            if pictures.is_empty() {
                continue;
            }
            files.extend(pictures.into_iter().map(|p| (p, classes.len() as i64)));
            classes.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        if classes.is_empty() {
            let what = "no pictures there (looked for folders, one a class, of PNG, PPM or PGM files)";
            return Err(Error::new(Kind::Argument, format!("{}: {what}", path.display())));
        }
        Ok(Self { classes, files })
    }
    /// The names of the classes, in the order of their numbers.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }
}
impl Dataset for ImageFolder {
    type Item = (Image, i64);
    fn len(&self) -> usize {
        self.files.len()
    }
    fn get(&self, i: usize) -> Result<(Image, i64)> {
        let (path, class) = self.files.get(i).ok_or_else(|| {
            Error::new(Kind::Index, format!("ImageFolder: index {i} is outside 0..{}", self.files.len()))
        })?;
        Ok((Image::open(path)?, *class))
    }
}

fn is_read(path: &Path) -> bool {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    ["png", "ppm", "pgm", "pnm"].contains(&ending.as_str())
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let io = |e: std::io::Error| Error::new(Kind::Io, format!("{}: cannot read: {e}", folder.display()));
    let entries = fs::read_dir(folder).map_err(io)?.collect::<std::io::Result<Vec<_>>>().map_err(io)?;
    let visible = entries.into_iter().filter(|e| !e.file_name().to_string_lossy().starts_with('.'));
    let mut paths: Vec<PathBuf> = visible.map(|e| e.path()).collect();
    paths.sort();
    Ok(paths)
}

fn parse_png(bytes: &[u8]) -> Result<Image, String> {
    let wrong = |e: png::DecodingError| format!("not a whole PNG file: {e}");
    let mut decoder = png::Decoder::new(std::io::Cursor::new(bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(wrong)?;
    let size = reader.output_buffer_size().filter(|n| *n <= MAX_PIXELS).ok_or("too large a picture")?;
    let mut pixels = vec![0; size];
    let info = reader.next_frame(&mut pixels).map_err(wrong)?;
    pixels.truncate(info.buffer_size());
    let (height, width) = (info.height as usize, info.width as usize);
    Ok(Image { height, width, channels: info.color_type.samples(), pixels })
}

/// `P5 WIDTH HEIGHT MOST` and then a byte a value; `P2` writes the values as words; `#` starts a remark.
fn parse_pnm(bytes: &[u8]) -> Result<Image, String> {
    let channels = if matches!(bytes[1], b'3' | b'6') { 3 } else { 1 };
    let mut at = 2;
    let mut header = [0; 3];
    for n in &mut header {
        *n = number(bytes, &mut at).ok_or("its header is not width, height and largest value")?;
    }
    let [width, height, most] = header;
    let size = width.checked_mul(height).and_then(|n| n.checked_mul(channels)).filter(|n| *n <= MAX_PIXELS);
    let size = size.ok_or("too large a picture")?;
    if !(1..=255).contains(&most) {
        return Err(format!("its largest value is {most}; 1 to 255 are read"));
    }
    let short = || format!("its header says {size} values, the file has fewer (truncated copy?)");
    let values: Vec<u8> = if matches!(bytes[1], b'5' | b'6') {
        bytes.get(at + 1..at + 1 + size).ok_or_else(short)?.to_vec()
    } else {
        (0..size).map(|_| number(bytes, &mut at).map(|n| n.min(255) as u8)).collect::<Option<_>>().ok_or_else(short)?
    };
    let scale = |v: u8| (usize::from(v).min(most) * 255 / most) as u8;
    Ok(Image { height, width, channels, pixels: values.into_iter().map(scale).collect() })
}

/// The next whole number after white space and remarks.
fn number(bytes: &[u8], at: &mut usize) -> Option<usize> {
    while let Some(c) = bytes.get(*at) {
        match c {
            b'#' => *at += bytes[*at..].iter().position(|c| *c == b'\n')?,
            c if c.is_ascii_whitespace() => *at += 1,
            _ => break,
        }
    }
    let digits = bytes[*at..].iter().take_while(|c| c.is_ascii_digit()).count();
    let word = std::str::from_utf8(&bytes[*at..*at + digits]).ok()?;
    *at += digits;
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataLoader;

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("rtx-data-image-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("the test's folder");
        dir
    }
    fn png(height: u32, width: u32, pixels: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.write_header().and_then(|mut w| w.write_image_data(pixels)).expect("encodes");
        out
    }

    #[test]
    fn pictures_of_three_formats_are_one() {
        let dir = folder("formats");
        let pixels = [255, 0, 0, 0, 51, 255];
        fs::write(dir.join("a.png"), png(1, 2, &pixels)).expect("file");
        fs::write(dir.join("b.ppm"), [b"P6 # remark\n2 1\n255\n".as_slice(), &pixels].concat()).expect("file");
        fs::write(dir.join("c.ppm"), "P3 2 1 5\n5 0 0\n0 1 5\n").expect("file");
        let want = Image { height: 1, width: 2, channels: 3, pixels: pixels.to_vec() };
        for name in ["a.png", "b.ppm", "c.ppm"] {
            assert_eq!(Image::open(dir.join(name)).expect("reads"), want, "{name}");
        }
        assert_eq!(want.flip_horizontal().pixels, [0, 51, 255, 255, 0, 0]);
        assert_eq!(want.crop(0, 1, 1, 1).expect("fits").pixels, [0, 51, 255]);
        assert_eq!(want.crop(0, 2, 1, 1).expect_err("outside").message(), "crop: 1×1 at (0, 2) does not fit into 1×2");
        assert_eq!(want.resize_nearest(2, 1).pixels.len(), 6);
    }

    #[test]
    fn a_folder_of_classes_is_a_dataset() {
        let dir = folder("classes");
        for (class, files) in [("dog", ["1.png", "2.png"]), ("cat", ["x.pgm", "y.txt"])] {
            fs::create_dir(dir.join(class)).expect("folder");
            for file in files {
                let bytes = if file.ends_with("png") { png(1, 1, &[255, 0, 51]) } else { b"P5 1 1 255\n\x33".to_vec() };
                fs::write(dir.join(class).join(file), bytes).expect("file");
            }
        }
        let set = ImageFolder::open(&dir).expect("two classes");
        assert_eq!((set.len(), set.classes()), (3, &["cat".to_owned(), "dog".to_owned()][..]));
        let (image, class) = set.get(0).expect("reads");
        assert_eq!((image.pixels, class), (vec![0x33], 0));
        let dogs = crate::Subset::new(set, vec![1, 2]);
        let (x, y) = DataLoader::new(dogs, 2).workers(1).iter().next().expect("one").expect("reads");
        assert_eq!((x.shape(), y.to_vec::<i64>().expect("reads")), (vec![2, 3, 1, 1], vec![1, 1]));
        assert_eq!(x.to_vec::<f32>().expect("reads")[..3], [1.0, 0.0, 0.2]);
    }

    #[test]
    fn each_fault_has_its_sentence() {
        let dir = folder("faults");
        let sentence = |bytes: &[u8]| {
            let path = dir.join("x");
            fs::write(&path, bytes).expect("file");
            let e = Image::open(&path).expect_err("refused");
            e.message().strip_prefix(&format!("{}: ", path.display())).expect("names it").to_owned()
        };
        assert_eq!(sentence(&[0xff, 0xd8, 0xff]), "JPEG is not read (PNG, PPM and PGM are)");
        assert_eq!(sentence(b"hello"), "not a picture that is read (PNG, PPM and PGM are)");
        assert_eq!(sentence(b"P5 2 2 255\nabc"), "its header says 4 values, the file has fewer (truncated copy?)");
        assert_eq!(sentence(b"P5 2 x"), "its header is not width, height and largest value");
        assert_eq!(sentence(b"P5 1 1 65535\nab"), "its largest value is 65535; 1 to 255 are read");
        assert_eq!(sentence(b"P6 99999999 99999999 255\n"), "too large a picture");
        let whole = png(4, 4, &[7; 48]);
        assert!(sentence(&whole[..whole.len() / 2]).starts_with("not a whole PNG file: "));
        let e = ImageFolder::open(&dir).map(drop).expect_err("no classes");
        assert!(e.message().ends_with("(looked for folders, one a class, of PNG, PPM or PGM files)"), "{e}");
    }
}
