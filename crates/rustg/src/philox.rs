//! Philox4x32-10: random bits as a function of a key and a counter (contract M7).
//!
//! Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

/// Four random words.
#[inline(always)]
pub fn philox4x32(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
        }
        let (p, q) = (counter[0] as u64 * 0xd251_1f53, counter[2] as u64 * 0xcd9e_8d57);
        counter = [(q >> 32) as u32 ^ counter[1] ^ key[0], q as u32, (p >> 32) as u32 ^ counter[3] ^ key[1], p as u32];
    }
    counter
}

/// Word 0 for a 64-bit key and the counter (`index`, `ordinal`), low words first.
#[inline(always)]
pub fn random_u32(key: i64, ordinal: i64, index: i64) -> u32 {
    let halves = |x: i64| [x as u32, (x >> 32) as u32];
    let ([i0, i1], [o0, o1]) = (halves(index), halves(ordinal));
    philox4x32(halves(key), [i0, i1, o0, o1])[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Random123's `kat_vectors`.
    #[test]
    fn known_answers() {
        let cases = [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (counter, key, want) in cases {
            assert_eq!(philox4x32(key, counter), want);
        }
        assert_eq!(random_u32(0x299f31d0_a4093822, 0x03707344_13198a2e, 0x85a308d3_243f6a88_u64 as i64), 0xd16cfe09);
    }
}
