//! Serial numbers of 32 bits (TCP sequence numbers, CmdSN) extended to 64 bits, so that they do not wrap.

/// Offset of the first number of a sequence: numbers slightly below it do not underflow.
const BASE: u64 = 1 << 40;

/// Extends the first number of a sequence.
pub(crate) fn first(value: u32) -> u64 {
    BASE | u64::from(value)
}

/// Extends `value` to the number nearest to `reference`.
pub(crate) fn near(reference: u64, value: u32) -> u64 {
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
