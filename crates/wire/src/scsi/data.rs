//! Errors of the data that a command returns, and text fields.

/// Data that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// The data is cut off: ask again with an allocation length of at least `expected`.
    #[error("{what} has {found} bytes, expected at least {expected}")]
    Truncated {
        /// The data.
        what: &'static str,
        /// Bytes that its lengths announce, or its least.
        expected: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// A value that the data cannot have.
    #[error("{what} has {found:#04x} in byte {at}, expected {expected}")]
    Value {
        /// The data.
        what: &'static str,
        /// Offset in bytes.
        at: usize,
        /// Value expected there.
        expected: &'static str,
        /// The value.
        found: u64,
    },
}

/// Fails if `bytes` are fewer than `expected`.
pub(super) fn need(what: &'static str, bytes: &[u8], expected: usize) -> Result<(), DataError> {
    if bytes.len() < expected {
        return Err(DataError::Truncated { what, expected, found: bytes.len() });
    }
    Ok(())
}

/// A left-aligned ASCII field (SPC-5 section 4.3.1) as text; unprintable characters become question marks.
pub(super) fn ascii(field: &[u8]) -> String {
    let text = field.iter().map(|&byte| match byte {
        0x20..=0x7e => char::from(byte),
        0 => ' ',
        _ => '?',
    });
    text.collect::<String>().trim_end().to_owned()
}

/// Fills a left-aligned ASCII field with `text`, cut off or padded with spaces.
pub(super) fn put_ascii(text: &str, field: &mut [u8]) {
    field.fill(b' ');
    for (byte, letter) in field.iter_mut().zip(text.chars()) {
        *byte = if matches!(letter, ' '..='~') { letter as u8 } else { b'?' };
    }
}
