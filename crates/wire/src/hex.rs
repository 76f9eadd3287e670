//! Bytes of a test, written as hexadecimal digits.

/// The bytes of these digits; spaces may stand between bytes.
#[track_caller]
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.split_whitespace().collect::<String>();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}
