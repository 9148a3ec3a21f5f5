//! The loaders' random stream: Philox4x32-10, forked by what it is for, never by who asks first.

/// Random numbers that depend on (seed, purpose, epoch, index) and on nothing else (contract M7).
///
/// ```
/// # use rtx_data::{self as data, BatchSampler, Collate, DataLoader, Dataset, Progress, Sampler};
/// # use rtx_tensor::{self as torch, tensor};
/// let mut stream = data::Stream::new(1, 9, 0, 42); // seed, purpose, pass, item: the same numbers on every machine
/// let mut items = [1, 2, 3];
/// stream.shuffle(&mut items);
/// assert!(stream.below(6) < 6 && stream.unit() < 1.);
/// assert_eq!(data::Stream::new(1, 9, 0, 7).next_u32(), data::Stream::new(1, 9, 0, 7).next_u32());
/// # Ok::<(), rtx_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    key: [u32; 2],
    counter: [u32; 4],
    block: [u32; 4],
    used: usize,
}

impl Stream {
    /// The stream for one `purpose` (a constant of the caller) at one `epoch` and `index`.
    pub fn new(seed: u64, purpose: u32, epoch: u32, index: u32) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32], counter: [0, purpose, epoch, index], block: [0; 4], used: 4 }
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            self.block = philox(self.key, self.counter);
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.used = 0;
        }
        self.used += 1;
        self.block[self.used - 1]
    }

    /// A number below `n`, by multiplying and shifting (bias below `n` / 2^32).
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(n)) >> 32) as u32
    }

    /// A number in 0..1 with 24 bits.
    pub fn unit(&mut self) -> f32 {
        (self.next_u32() >> 8) as f32 / (1 << 24) as f32
    }

    /// Every order equally likely (Fisher and Yates, from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u32 + 1) as usize);
        }
    }
}

/// Ten rounds of Philox4x32 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).
fn philox(mut key: [u32; 2], mut c: [u32; 4]) -> [u32; 4] {
    for _ in 0..10 {
        let (a, b) = (u64::from(c[0]) * 0xD251_1F53, u64::from(c[2]) * 0xCD9E_8D57);
        c = [(b >> 32) as u32 ^ c[1] ^ key[0], b as u32, (a >> 32) as u32 ^ c[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the authors' own test suite (Random123, kat_vectors).
    #[test]
    fn philox_is_the_published_one() {
        assert_eq!(philox([0; 2], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 2], [u32::MAX; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
    }

    #[test]
    fn shuffling_keeps_every_item_and_depends_on_the_epoch() {
        let order = |epoch| {
            let mut v: Vec<u32> = (0..100).collect();
            Stream::new(7, 0, epoch, 0).shuffle(&mut v);
            v
        };
        let (a, b) = (order(0), order(1));
        assert_eq!(a, order(0));
        assert_ne!(a, b);
        let mut sorted = b;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
