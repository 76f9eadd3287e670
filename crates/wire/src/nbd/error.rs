//! Errors in NBD messages.

/// An NBD message that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NbdFormatError {
    /// Another magic number than the message has.
    #[error("{message} has the magic number {found:#x}, expected {expected:#x}")]
    Magic {
        /// The message that was expected.
        message: &'static str,
        /// Its magic number.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// A message whose length is not that of its contents.
    #[error("{message} has {found} bytes, which is not the length of its contents")]
    Length {
        /// The message.
        message: &'static str,
        /// Its length in bytes.
        found: usize,
    },
}
