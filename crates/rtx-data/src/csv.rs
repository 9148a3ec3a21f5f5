//! Tables in CSV files: a line of names, then rows; numbers and words are taken out column by column.
use rtx_core::{Error, Kind, Result};
use rtx_tensor::{Tensor, from_slice};
use std::path::{Path, PathBuf};

/// A CSV file in memory.
///
/// # Example
/// ```
/// use rtx_data::Csv;
/// # fn main() -> rtx_core::Result<()> {
/// let table = Csv::parse("length,width,kind\n1.5,2,cat\n3,4,\"a dog\"\n")?;
/// assert_eq!(table.tensor(&["length", "width"])?.shape(), [2, 2]);
/// let (labels, kinds) = table.labels("kind")?;
/// assert_eq!((labels.to_vec::<i64>()?, kinds), (vec![1, 0], vec!["a dog".to_owned(), "cat".to_owned()]));
/// # Ok(()) }
/// ```
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let table = data::Csv::parse("height,width,kind\n1,2,cat\n3,4,dog\n")?; // or open(path)
/// assert_eq!((table.len(), table.is_empty(), table.names().len()), (2, false, 3));
/// assert_eq!(table.tensor(&["height", "width"])?.shape(), [2, 2]);
/// let (ids, words) = table.labels("kind")?;
/// assert_eq!((ids.to_vec::<i64>()?, words), (vec![0, 1], vec!["cat".to_owned(), "dog".to_owned()]));
/// assert_eq!(table.column("kind")?.len(), 2);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Csv {
    path: PathBuf,
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Csv {
    /// Reads a file whose first line names the columns.
    ///
    /// # Errors
    /// When the file cannot be read, is no text, or a row is longer or shorter than the first.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let bytes = rtx_io::read_plain_or_gz(path)?;
        let text = String::from_utf8(bytes).map_err(|_| bad(path, "not a text file (its bytes are not UTF-8)"))?;
        Self::of(path, &text)
    }
    /// Reads a text whose first line names the columns.
    ///
    /// # Errors
    /// When a row is longer or shorter than the first, or there is none.
    pub fn parse(text: &str) -> Result<Self> {
        Self::of(Path::new("csv"), text)
    }
    fn of(path: &Path, text: &str) -> Result<Self> {
        let mut rows = split(text).map_err(|line| bad(path, &format!("line {line}: a quote is not closed")))?;
        if rows.is_empty() {
            return Err(bad(path, "no line with the names of the columns"));
        }
        let (_, names) = rows.remove(0);
        if let Some((line, row)) = rows.iter().find(|(_, row)| row.len() != names.len()) {
            return Err(bad(
                path,
                &format!("line {line} has {} fields, the first line has {}", row.len(), names.len()),
            ));
        }
        Ok(Self { path: path.to_path_buf(), names, rows: rows.into_iter().map(|(_, row)| row).collect() })
    }

    /// The columns' names.
    pub fn names(&self) -> &[String] {
        &self.names
    }
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    /// Are there no rows?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    /// One column as text.
    ///
    /// # Errors
    /// When there is no such column.
    pub fn column(&self, name: &str) -> Result<impl ExactSizeIterator<Item = &str>> {
        let i = self.names.iter().position(|n| n == name).ok_or_else(|| {
            bad(&self.path, &format!("no column {name:?}")).hint(format!("there are: {}", self.names.join(", ")))
        })?;
        Ok(self.rows.iter().map(move |row| row[i].as_str()))
    }
    /// Columns of numbers, side by side: `[rows, names]`, f32. An empty field is NaN.
    ///
    /// # Errors
    /// When a column is missing or a field is no number.
    pub fn tensor(&self, names: &[&str]) -> Result<Tensor> {
        let columns = names.iter().map(|name| self.numbers(name)).collect::<Result<Vec<_>>>()?;
        let values: Vec<f32> = (0..self.len()).flat_map(|row| columns.iter().map(move |c| c[row])).collect();
        Ok(from_slice(&values, [self.len(), names.len()]))
    }
    fn numbers(&self, name: &str) -> Result<Vec<f32>> {
        let read = |(i, field): (usize, &str)| match field.trim() {
            "" => Ok(f32::NAN),
            number => number
                .parse()
                .map_err(|_| bad(&self.path, &format!("row {}, column {name:?}: {field:?} is not a number", i + 1))),
        };
        self.column(name)?.enumerate().map(read).collect()
    }
    /// A column of words as numbers, and the words in the order of their numbers (sorted).
    ///
    /// # Errors
    /// When there is no such column.
    pub fn labels(&self, name: &str) -> Result<(Tensor, Vec<String>)> {
        let words: Vec<&str> = self.column(name)?.collect();
        let mut classes: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        classes.sort_unstable();
        classes.dedup();
        let number = |w: &&str| classes.binary_search_by(|c| c.as_str().cmp(w)).unwrap_or(0) as i64;
        let labels: Vec<i64> = words.iter().map(number).collect();
        Ok((from_slice(&labels, labels.len()), classes))
    }
}

fn bad(path: &Path, what: &str) -> Error {
    Error::new(Kind::Format, format!("{}: {what}", path.display()))
}

/// Fields of RFC 4180: commas, line ends, quotes around either, a doubled quote for one. Empty lines are passed over.
/// The number of the line where an unclosed quote opened is the error.
fn split(text: &str) -> Result<Vec<(usize, Vec<String>)>, usize> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut begun) = (1, 1);
    let (mut quoted, mut was_quoted) = (None, false);
    let mut chars = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    while let Some(c) = chars.next() {
        line += usize::from(c == '\n');
        match c {
            '"' if quoted.is_some() && chars.peek() == Some(&'"') => field.push(chars.next().unwrap_or('"')),
            '"' if quoted.is_some() => quoted = None,
            c if quoted.is_some() => field.push(c),
            '"' if field.is_empty() => (quoted, was_quoted) = (Some(line), true),
            ',' => row.push(std::mem::take(&mut field)),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' => {
                if !(row.is_empty() && field.is_empty() && !was_quoted) {
                    row.push(std::mem::take(&mut field));
                    rows.push((begun, std::mem::take(&mut row)));
                }
                (begun, was_quoted) = (line, false);
            }
            c => field.push(c),
        }
    }
    if let Some(line) = quoted {
        return Err(line);
    }
    if !(row.is_empty() && field.is_empty() && !was_quoted) {
        row.push(field);
        rows.push((begun, row));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_line_ends_and_empty_fields() {
        let t = Csv::parse("\u{feff}a,\"b \"\"x\"\"\"\r\n1,\"two, and\nmore\"\r\n\n,3").expect("a table");
        assert_eq!(t.names(), ["a", "b \"x\""]);
        assert_eq!(t.column("b \"x\"").expect("there").collect::<Vec<_>>(), ["two, and\nmore", "3"]);
        let a = t.tensor(&["a"]).and_then(|t| t.to_vec::<f32>()).expect("numbers");
        assert!(a[0] == 1.0 && a[1].is_nan());
    }

    #[test]
    fn each_fault_has_its_sentence() {
        let sentence = |text: &str| Csv::parse(text).map(drop).expect_err("refused").message().to_owned();
        assert_eq!(sentence(""), "csv: no line with the names of the columns");
        assert_eq!(sentence("a,b\n1,2\n3\n"), "csv: line 3 has 1 fields, the first line has 2");
        assert_eq!(sentence("a\n\"1\n2\n"), "csv: line 2: a quote is not closed");
        let t = Csv::parse("a,b\n1,x\n").expect("a table");
        assert_eq!(t.tensor(&["b"]).expect_err("text").message(), "csv: row 1, column \"b\": \"x\" is not a number");
        let e = t.column("c").map(drop).expect_err("absent");
        assert_eq!(e.to_string(), "csv: no column \"c\"\n  hint: there are: a, b");
        let e = Csv::open("no/such.csv").map(drop).expect_err("absent");
        assert!(e.message().starts_with("no/such.csv: cannot read: "), "{e}");
    }
}
