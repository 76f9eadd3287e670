//! Errors of a device, by their meaning to its user.

use std::fmt;
use std::io;

/// Error of a device operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockError {
    /// Meaning of the error.
    pub kind: ErrorKind,
    /// Cause, in words.
    pub text: String,
}

/// Meaning of a device's error. Each protocol has a code of its own for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorKind {
    /// The medium failed for this range; others may work.
    Medium,
    /// The device failed, not a range of its medium.
    Hardware,
    /// Acknowledged writes are lost: a device lost its volatile cache before they were flushed. Reported by the flush
    /// that was to cover them; the next one says nothing of them.
    Lost,
    /// The space behind a thinly provisioned device is used up; more space cures it.
    NoSpace,
    /// The device is not the one that was opened: cut short, unplugged, a stale handle.
    Gone,
    /// Temporarily not ready.
    NotReady,
    /// The device is write-protected.
    Protected,
    /// The range ends behind the device.
    OutOfRange,
    /// The request is not valid: no whole blocks, or beyond a limit.
    Invalid,
    /// The device does not have the operation.
    Unsupported,
    /// A reservation of another initiator refuses the request.
    Conflict,
    /// The transport was away for longer than permitted, or the device is busy for too long.
    TimedOut,
    /// The request was withdrawn before it was executed.
    Cancelled,
}

/// OperationError of an operation on a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OperationError {
    /// The device could not read.
    Read(BlockError),
    /// The device could not write or flush.
    Write(BlockError),
    /// The data found are not those expected.
    Miscompare {
        /// Offset of the first byte that differs within the data compared, if the protocol reports it.
        offset_bytes: Option<u64>,
    },
}

impl OperationError {
    /// Result of an operation that was withdrawn.
    pub(crate) fn cancelled(is_read: bool) -> OperationError {
        let error = BlockError::new(ErrorKind::Cancelled, "its request was withdrawn");
        if is_read { OperationError::Read(error) } else { OperationError::Write(error) }
    }

    /// Error of the device, if it has one.
    pub fn device_error(&self) -> Option<&BlockError> {
        match self {
            OperationError::Read(error) | OperationError::Write(error) => Some(error),
            OperationError::Miscompare { .. } => None,
        }
    }
}

impl BlockError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, text: impl Into<String>) -> BlockError {
        BlockError { kind, text: text.into() }
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = match self.kind {
            ErrorKind::Medium => "the storage failed",
            ErrorKind::Hardware => "the storage device failed",
            ErrorKind::Lost => "acknowledged writes are lost",
            ErrorKind::NoSpace => "no space is left in the storage",
            ErrorKind::Gone => "the storage is gone",
            ErrorKind::NotReady => "the storage is not ready",
            ErrorKind::Protected => "writes are refused",
            ErrorKind::OutOfRange => "no such blocks",
            ErrorKind::Invalid => "the request is not valid",
            ErrorKind::Unsupported => "there is no such operation",
            ErrorKind::Conflict => "another initiator has reserved the storage",
            ErrorKind::TimedOut => "the storage did not answer in time",
            ErrorKind::Cancelled => "the request was not executed",
        };
        write!(f, "{meaning}: {}", self.text)
    }
}

impl std::error::Error for BlockError {}

impl From<io::Error> for BlockError {
    fn from(error: io::Error) -> BlockError {
        /// "No such device or address": reads of an unplugged device. Std has no kind for it.
        const ENXIO: i32 = 6;
        /// "No such device": the driver went away.
        const ENODEV: i32 = 19;

        let text = error.to_string();
        let kind = match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge, _) => {
                ErrorKind::NoSpace
            }
            (io::ErrorKind::UnexpectedEof | io::ErrorKind::StaleNetworkFileHandle, _)
            | (_, Some(ENXIO | ENODEV)) => ErrorKind::Gone,
            _ => ErrorKind::Medium,
        };
        BlockError::new(kind, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operating_system_errors_keep_their_meaning() {
        let check = |errno: i32, kind: ErrorKind| {
            let error = io::Error::from_raw_os_error(errno);
            let text = error.to_string();
            assert_eq!(BlockError::from(error), BlockError::new(kind, text), "errno {errno}");
        };
        check(28, ErrorKind::NoSpace); // ENOSPC
        check(122, ErrorKind::NoSpace); // EDQUOT
        check(27, ErrorKind::NoSpace); // EFBIG
        check(5, ErrorKind::Medium); // EIO
        check(30, ErrorKind::Medium); // EROFS: remounted read-only after an error
        check(116, ErrorKind::Gone); // ESTALE
        check(6, ErrorKind::Gone); // ENXIO
        check(19, ErrorKind::Gone); // ENODEV
        let text = BlockError::from(io::Error::from_raw_os_error(5)).to_string();
        assert!(text.contains("Input/output error"), "{text}");
    }
}
