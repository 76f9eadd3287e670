//! Chance that can be repeated: a number for every seed and count, whichever thread asks first.

/// A number from all of 64 bits, each as likely as another (SplitMix64).
pub(super) fn draw(seed: u64, nth: u64) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut value = seed.wrapping_mul(STEP) ^ nth.wrapping_add(1).wrapping_mul(STEP.rotate_left(32) | 1);
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)] {
        value = (value ^ (value >> shift)).wrapping_mul(factor);
    }
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_even() {
        for seed in [0, 1, 42, u64::MAX] {
            let mut buckets = [0; 16];
            (0..16_000).for_each(|nth| buckets[(draw(seed, nth) >> 60) as usize] += 1);
            assert!(buckets.iter().all(|count| (850..1150).contains(count)), "seed {seed}: {buckets:?}");
        }
    }
}
