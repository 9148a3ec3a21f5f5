//! [`IdMap`]: a hash map for keys that are small numbers of our own, looked up at every recorded op.
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map from ids or addresses. Its hash is one multiplication a word, so it is not for keys from outside.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Multiplies by a number near 2^64 / φ after each word.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        // The map takes its bucket from the low bits, and those of a product hang on few bits of the factor.
        self.0.rotate_left(26)
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn neighbours_and_addresses_spread() {
        let low_bits = |keys: &mut dyn Iterator<Item = usize>| {
            let bucket = |n: usize| {
                let mut h = IdHasher::default();
                h.write_usize(n);
                h.finish() % 4096
            };
            keys.map(bucket).collect::<HashSet<_>>().len()
        };
        // 4096 balls thrown at random into 4096 boxes leave some 2,590 occupied.
        assert!(low_bits(&mut (0..4096)) > 2400);
        assert!(low_bits(&mut (0..4096).map(|i| 0x7f12_3400_0000 + 64 * i)) > 2400);
        assert!(low_bits(&mut (0..4096).map(|i| 0x7f12_3400_0000 + 4096 * i)) > 2400);
    }
}
