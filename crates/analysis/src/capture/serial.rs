//! Numbers that wrap after 32 bits, put in line: TCP's sequence numbers and iSCSI's.

/// Where the count of a direction begins, so that a little before its first number is no underflow.
const BASE: u64 = 1 << 40;

/// The first number of a direction.
pub(super) fn first(value: u32) -> u64 {
    BASE | u64::from(value)
}

/// The number near `reference` that ends in `value`.
pub(super) fn near(reference: u64, value: u32) -> u64 {
    let distance = value.wrapping_sub(reference as u32) as i32;
    reference.saturating_add_signed(i64::from(distance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_over_the_wrap_and_back() {
        let start = first(0xffff_fff0);
        let later = near(start, 0x10);
        assert_eq!(later - start, 0x20);
        assert_eq!(near(later, 0xffff_fff0), start);
    }
}
