//! Philox4x32-10: ten rounds of multiplying and mixing turn a counter and a key into four random words.
//!
//! Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Four random words for a key at the counter (`index`, `ordinal`), low words first.
pub fn philox4x32(key: u64, index: u64, ordinal: u64) -> [u32; 4] {
    let mut k = [key as u32, (key >> 32) as u32];
    let mut c = [index as u32, (index >> 32) as u32, ordinal as u32, (ordinal >> 32) as u32];
    for _ in 0..10 {
        let p0 = u64::from(MULTIPLIERS[0]) * u64::from(c[0]);
        let p1 = u64::from(MULTIPLIERS[1]) * u64::from(c[2]);
        c = [(p1 >> 32) as u32 ^ c[1] ^ k[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ k[1], p0 as u32];
        k = [k[0].wrapping_add(WEYL[0]), k[1].wrapping_add(WEYL[1])];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::philox4x32;

    /// The known answers of Random123's `kat_vectors`.
    #[test]
    fn known_answers() {
        assert_eq!(philox4x32(0, 0, 0), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32(u64::MAX, u64::MAX, u64::MAX), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32(0x299f_31d0_a409_3822, 0x85a3_08d3_243f_6a88, 0x0370_7344_1319_8a2e),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }
}
