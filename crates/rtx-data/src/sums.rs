//! The sums task: `417+586=` is continued by `3001`, the answer written backwards.
//!
//! A row has a fixed length: numbers stand right-aligned in three places, so the digits of one weight always have
//! the same distance, and a short answer is filled up with line ends. Written backwards, each digit of the answer
//! depends on two digits and one carry: that is what makes it learnable in a minute.
use crate::{Dataset, Stream};
use rtx_core::{Error, Kind, Result};

/// Numbers run from 0 to one below this.
const RANGE: u32 = 1000;
/// How many sums are kept aside.
const HELD_OUT: usize = 1000;
/// The characters, by their id.
const ALPHABET: &[u8] = b"\n +=0123456789";
/// What the stream that chooses the held-out sums is for.
const PURPOSE: u32 = 1;

/// All sums of two numbers below 1,000, split into those trained on and 1,000 kept aside.
///
/// Unstable: the default task of `rtx train`, which may change.
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let row = data::Sums::row(417, 586);
/// assert_eq!(row.len(), data::Sums::ROW);
/// assert_eq!(data::Sums::text(&data::Sums::prompt("417+586=")?), "417+586=");
/// let sums = data::Sums::new(1);
/// assert_eq!(sums.held_out().len(), 1000);
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sums {
    held_out: Vec<u32>,
    /// The held-out pairs and their mirror images (`b+a` would give `a+b` away), sorted.
    excluded: Vec<u32>,
}

impl Sums {
    /// Characters of `417+586=`.
    pub const PROMPT: usize = 8;
    /// Characters of the answer: four digits at most.
    pub const ANSWER: usize = 4;
    /// Characters of a whole row.
    pub const ROW: usize = Self::PROMPT + Self::ANSWER;
    /// Ids in use are below this; a multiple of 16, so that rows of logits fill whole vectors.
    pub const VOCABULARY: usize = 16;

    /// The split that `seed` chooses.
    pub fn new(seed: u64) -> Self {
        let mut stream = Stream::new(seed, PURPOSE, 0, 0);
        let mut held_out: Vec<u32> = Vec::with_capacity(HELD_OUT);
        let mut excluded = std::collections::BTreeSet::new();
        while held_out.len() < HELD_OUT {
            let (a, b) = (stream.below(RANGE), stream.below(RANGE));
            if excluded.insert(a * RANGE + b) {
                excluded.insert(b * RANGE + a);
                held_out.push(a * RANGE + b);
            }
        }
        Self { held_out, excluded: excluded.into_iter().collect() }
    }

    /// The sums kept aside, as rows of ids.
    pub fn held_out(&self) -> Vec<Vec<i64>> {
        self.held_out.iter().map(|&p| Self::row(p / RANGE, p % RANGE)).collect()
    }

    /// One sum as ids: `417+586=3001`.
    pub fn row(a: u32, b: u32) -> Vec<i64> {
        let answer: String = (a + b).to_string().chars().rev().collect();
        let text = format!("{a:>3}+{b:>3}={answer:\n<4}");
        text.bytes().map(|c| id_of(c).unwrap_or(0)).collect()
    }

    /// The ids of a prompt a person wrote: `7+8=` is aligned as the rows are.
    ///
    /// # Errors
    /// When the prompt is not a sum of two numbers below 1,000.
    pub fn prompt(text: &str) -> Result<Vec<i64>> {
        let (a, b) = parse_sum(text).ok_or_else(|| {
            Error::new(Kind::Argument, format!("{text:?} is not a sum of two numbers from 0 to {}", RANGE - 1))
                .hint("write it like 123+456=")
        })?;
        Ok(Self::row(a, b)[..Self::PROMPT].to_vec())
    }

    /// The digits that a model's ids stand for, up to the first line end, in the order it wrote them.
    pub fn text(ids: &[i64]) -> String {
        let chars = ids.iter().map(|&i| ALPHABET.get(i as usize).map_or('?', |&c| c as char));
        chars.take_while(|&c| c != '\n').collect()
    }

    /// The number that an answer written backwards means, as text.
    pub fn read_answer(ids: &[i64]) -> String {
        Self::text(ids).chars().rev().collect()
    }

    /// The held-out sum number `i`: its two numbers.
    pub fn held_out_pair(&self, i: usize) -> (u32, u32) {
        (self.held_out[i] / RANGE, self.held_out[i] % RANGE)
    }
}

/// The sums that may be trained on.
impl Dataset for Sums {
    type Item = Vec<i64>;

    fn len(&self) -> usize {
        (RANGE * RANGE) as usize - self.excluded.len()
    }

    /// The `i`-th pair that is not excluded: before excluded pair number `j` there are `excluded[j] - j` kept ones.
    fn get(&self, i: usize) -> Result<Vec<i64>> {
        if i >= self.len() {
            return Err(Error::new(Kind::Index, format!("sums: index {i} is outside 0..{}", self.len())));
        }
        let (mut low, mut high) = (0, self.excluded.len());
        while low < high {
            let j = (low + high) / 2;
            if self.excluded[j] as usize - j <= i { low = j + 1 } else { high = j }
        }
        let pair = (i + low) as u32;
        Ok(Self::row(pair / RANGE, pair % RANGE))
    }
}

fn id_of(c: u8) -> Option<i64> {
    ALPHABET.iter().position(|&a| a == c).map(|i| i as i64)
}

fn parse_sum(text: &str) -> Option<(u32, u32)> {
    let (a, b) = text.trim().strip_suffix('=').unwrap_or(text.trim()).split_once('+')?;
    let (a, b) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
    (a < RANGE && b < RANGE).then_some((a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_as_written() {
        assert_eq!(Sums::text(&Sums::row(417, 586)), "417+586=3001");
        assert_eq!(Sums::text(&Sums::row(7, 8)), "  7+  8=51");
        assert_eq!(Sums::read_answer(&Sums::row(7, 8)[8..]), "15");
        assert!((0..1000).all(|a| Sums::row(a, 999 - a).len() == Sums::ROW));
        assert!(Sums::row(999, 999).iter().all(|&i| (i as usize) < Sums::VOCABULARY));
    }

    #[test]
    fn prompts_are_aligned_or_refused() {
        for text in ["7+8=", " 7 + 8 =", "7+8"] {
            assert_eq!(Sums::prompt(text).expect("a sum"), Sums::row(7, 8)[..8], "{text}");
        }
        for text in ["", "7-8=", "1000+1=", "a+b=", "-1+2="] {
            let e = Sums::prompt(text).expect_err("not a sum");
            assert_eq!(e.message(), format!("{text:?} is not a sum of two numbers from 0 to 999"));
        }
    }

    #[test]
    fn held_out_sums_are_never_trained_on() {
        let sums = Sums::new(1);
        let held: std::collections::HashSet<Vec<i64>> = sums.held_out().into_iter().collect();
        assert_eq!(held.len(), 1000);
        let mut seen = 0;
        for i in 0..sums.len() {
            let row = sums.get(i).expect("in range");
            assert!(!held.contains(&row), "sum {i} is kept aside");
            seen += 1;
        }
        assert_eq!(seen + sums.excluded.len(), 1_000_000);
        assert!(sums.get(sums.len()).is_err());
    }

    #[test]
    fn the_seed_decides_the_split() {
        assert_eq!(Sums::new(3).held_out, Sums::new(3).held_out);
        assert_ne!(Sums::new(3).held_out, Sums::new(4).held_out);
        let sums = Sums::new(3);
        assert!((0..1000).any(|i| sums.held_out_pair(i).0 != sums.held_out_pair(i).1));
    }
}
