//! Errors of a device as errors of the NBD protocol.

use block::{ErrorKind, OperationError};
use proto::nbd::NbdError;

/// Error of a reply for an error of the device.
pub(crate) fn nbd_error(error: &OperationError) -> NbdError {
    let Some(error) = error.device_error() else { return NbdError::Eio };
    match error.kind {
        ErrorKind::NoSpace => NbdError::Enospc,
        // A reservation of another host, like a write-protected medium: the operation is not permitted.
        ErrorKind::Protected | ErrorKind::Conflict => NbdError::Eperm,
        ErrorKind::OutOfRange | ErrorKind::Invalid => NbdError::Einval,
        ErrorKind::Unsupported => NbdError::Enotsup,
        ErrorKind::Medium
        | ErrorKind::Hardware
        | ErrorKind::Lost
        | ErrorKind::Gone
        | ErrorKind::NotReady
        | ErrorKind::TimedOut
        | ErrorKind::Cancelled => NbdError::Eio,
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
            (ErrorKind::Hardware, 5),
            (ErrorKind::Lost, 5),
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
            assert_eq!(nbd_error(&OperationError::Read(error.clone())).code(), expected, "{kind:?}");
            assert_eq!(nbd_error(&OperationError::Write(error)).code(), expected, "{kind:?}");
        }
        assert_eq!(nbd_error(&OperationError::Miscompare { offset_bytes: None }), NbdError::Eio);
    }
}
