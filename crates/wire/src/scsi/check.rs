//! The common test of all returned data.

pub(super) use crate::hex::bytes;

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
