//! Errors of a device as errors of the NBD protocol.

use block::{ErrorKind, OperationError};
use wire::nbd::error_number;

/// Error number of a reply for an error of the device.
pub(crate) fn error_number(error: &OperationError) -> u32 {
    let Some(error) = error.device_error() else { return error_number::EIO };
    match error.kind {
        ErrorKind::NoSpace => error_number::ENOSPC,
        // A reservation of another host, like a write-protected medium: the operation is not permitted.
        ErrorKind::Protected | ErrorKind::Conflict => error_number::EPERM,
        ErrorKind::OutOfRange | ErrorKind::Invalid => error_number::EINVAL,
        ErrorKind::Unsupported => error_number::ENOTSUP,
        ErrorKind::Medium
        | ErrorKind::Gone
        | ErrorKind::NotReady
        | ErrorKind::TimedOut
        | ErrorKind::Cancelled => error_number::EIO,
    }
}

#[cfg(test)]
mod tests {
    use block::BlockError;

    use super::*;

    #[test]
    fn each_kind_has_a_number() {
        for (kind, expected) in [
            (ErrorKind::Medium, 5),
            (ErrorKind::NoSpace, 28),
            (ErrorKind::Gone, 5),
            (ErrorKind::NotReady, 5),
            (ErrorKind::Protected, 1),
            (ErrorKind::OutOfRange, 22),
            (ErrorKind::Invalid, 22),
            (ErrorKind::Unsupported, 95),
            (ErrorKind::Conflict, 1),
            (ErrorKind::TimedOut, 5),
            (ErrorKind::Cancelled, 5),
        ] {
            let error = BlockError::new(kind, "");
            assert_eq!(error_number(&OperationError::Read(error.clone())), expected, "{kind:?}");
            assert_eq!(error_number(&OperationError::Write(error)), expected, "{kind:?}");
        }
        assert_eq!(error_number(&OperationError::Miscompare { offset_bytes: None }), 5);
    }
}
