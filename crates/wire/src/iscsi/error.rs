//! Errors of an iSCSI header.

use super::Opcode;

/// A header that cannot be read. The answer of a session is usually a Reject PDU or a closed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No PDU has this code.
    #[error("opcode {found:#04x} in byte 0 is not assigned by RFC 7143")]
    UnknownOpcode {
        /// The six-bit code.
        found: u8,
    },
    /// Another PDU than the caller reads.
    #[error("found a {found:?} PDU where {expected:?} was expected")]
    WrongOpcode {
        /// PDU that the caller reads.
        expected: Opcode,
        /// PDU of the header.
        found: Opcode,
    },
    /// The data segment of a SCSI response is shorter than the sense data it announces.
    #[error("the data segment of a SCSI response has {found} bytes, expected at least {expected}")]
    SenseLength {
        /// Bytes of SenseLength and of the sense data that it announces.
        expected: usize,
        /// Bytes of the data segment.
        found: usize,
    },
}
