//! Sense data of a failed operation (SPC-4 section 4.5, SBC-4 section 4.7.3.6).
//!
//! There is no INFORMATION field for a failed store: it would name the first block that failed, and a store says only
//! that a block of the range did.

use block::{ErrorKind, OperationError};
use wire::scsi::Sense;

/// Sense data of a failure.
pub fn sense_of(failure: &OperationError) -> Sense {
    match failure {
        OperationError::Read(error) => match error.kind {
            ErrorKind::Medium | ErrorKind::NoSpace => Sense::READ_ERROR,
            kind => unit_sense(kind),
        },
        OperationError::Write(error) => match error.kind {
            ErrorKind::Medium => Sense::WRITE_ERROR,
            ErrorKind::NoSpace => Sense::SPACE_ALLOCATION_FAILED,
            kind => unit_sense(kind),
        },
        OperationError::Miscompare { offset_bytes: Some(offset) } => {
            Sense::MISCOMPARE.with_information(*offset)
        }
        OperationError::Miscompare { offset_bytes: None } => Sense::MISCOMPARE,
    }
}

/// Sense data of an error that does not depend on the direction of the transfer.
fn unit_sense(kind: ErrorKind) -> Sense {
    match kind {
        ErrorKind::NotReady => Sense::BECOMING_READY,
        ErrorKind::Protected => Sense::WRITE_PROTECTED,
        ErrorKind::OutOfRange => Sense::LBA_OUT_OF_RANGE,
        ErrorKind::Invalid => Sense::INVALID_FIELD_IN_CDB,
        ErrorKind::Unsupported => Sense::INVALID_OPCODE,
        ErrorKind::Medium
        | ErrorKind::NoSpace
        | ErrorKind::Gone
        | ErrorKind::Conflict
        | ErrorKind::TimedOut
        | ErrorKind::Cancelled => Sense::INTERNAL_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use block::BlockError;

    use super::*;

    #[test]
    fn operating_system_errors_become_sense_data() {
        let check = |errno, read: (u8, u8, u8), write: (u8, u8, u8)| {
            let error = BlockError::from(io::Error::from_raw_os_error(errno));
            let codes = |failure: OperationError| {
                let sense = sense_of(&failure);
                (sense.key as u8, sense.asc, sense.ascq)
            };
            let found =
                (codes(OperationError::Read(error.clone())), codes(OperationError::Write(error.clone())));
            assert_eq!(found, (read, write), "{error}");
        };
        check(5, (3, 0x11, 0), (3, 0x0c, 0)); // EIO
        check(28, (3, 0x11, 0), (7, 0x27, 7)); // ENOSPC
        check(122, (3, 0x11, 0), (7, 0x27, 7)); // EDQUOT
        check(19, (4, 0x44, 0), (4, 0x44, 0)); // ENODEV
    }
}
