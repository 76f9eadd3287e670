//! The common test of all returned data.

/// Bytes in hexadecimal, with any spaces.
#[track_caller]
pub(super) fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.split_whitespace().collect::<String>();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

/// The bytes `hex` read as `value`, `value` writes the same bytes, and no shorter or disturbed data panics.
#[track_caller]
pub(super) fn check<T: PartialEq + std::fmt::Debug, E: std::fmt::Debug>(
    hex: &str,
    value: &T,
    parse: impl Fn(&[u8]) -> Result<T, E>,
    emit: impl Fn(&T) -> Vec<u8>,
) {
    let bytes = bytes(hex);
    assert_eq!(&parse(&bytes).expect("whole data"), value);
    assert_eq!(emit(value), bytes);
    for len in 0..bytes.len() {
        let _ = parse(&bytes[..len]);
        let mut disturbed = bytes.clone();
        disturbed[len] ^= 0xff;
        let _ = parse(&disturbed);
    }
}
