//! Status and sense data of a failed operation (SAM-6 section 5.3, SPC-4 section 4.5, SBC-4 section 4.7.3.6).
//!
//! There is no INFORMATION field for a failed store: it would name the first block that failed, and a store says only
//! that a block of the range did.

use block::{ErrorKind, OperationError};
use wire::scsi::{Sense, SenseKey, Status};

/// Status of a failure, with the sense data of a CHECK CONDITION.
pub fn status_of(failure: &OperationError) -> (Status, Option<Sense>) {
    let sense = match failure {
        OperationError::Read(error) => match error.kind {
            ErrorKind::Medium | ErrorKind::NoSpace => Sense::READ_ERROR,
            kind => return of_unit(kind),
        },
        OperationError::Write(error) => match error.kind {
            ErrorKind::Medium => Sense::WRITE_ERROR,
            ErrorKind::NoSpace => Sense::SPACE_ALLOCATION_FAILED,
            kind => return of_unit(kind),
        },
        OperationError::Miscompare { offset_bytes: Some(offset) } => {
            Sense::MISCOMPARE.with_information(*offset)
        }
        OperationError::Miscompare { offset_bytes: None } => Sense::MISCOMPARE,
    };
    (Status::CHECK_CONDITION, Some(sense))
}

/// Status of an error that does not depend on the direction of the transfer.
fn of_unit(kind: ErrorKind) -> (Status, Option<Sense>) {
    let sense = match kind {
        // Initiators issue the command again later.
        ErrorKind::TimedOut => return (Status::BUSY, None),
        ErrorKind::Conflict => return (Status::RESERVATION_CONFLICT, None),
        ErrorKind::NotReady => Sense::BECOMING_READY,
        ErrorKind::Protected => Sense::WRITE_PROTECTED,
        ErrorKind::OutOfRange => Sense::LBA_OUT_OF_RANGE,
        ErrorKind::Invalid => Sense::INVALID_FIELD_IN_CDB,
        ErrorKind::Unsupported => Sense::INVALID_OPCODE,
        ErrorKind::Cancelled => Sense::new(SenseKey::AbortedCommand, 0, 0),
        // Linux issues a command with a write error again: a flush would succeed then, and hide the loss.
        ErrorKind::Lost | ErrorKind::Hardware | ErrorKind::Medium | ErrorKind::NoSpace | ErrorKind::Gone => {
            Sense::INTERNAL_FAILURE
        }
    };
    (Status::CHECK_CONDITION, Some(sense))
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
                let (status, sense) = status_of(&failure);
                let sense = sense.expect("sense data");
                assert_eq!(status, Status::CHECK_CONDITION);
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
    #[test]
    fn errors_of_the_unit_have_a_status_or_a_sense_key_of_their_own() {
        let check = |kind, status, key: Option<SenseKey>| {
            for failure in [OperationError::Read, OperationError::Write] {
                let (found, sense) = status_of(&failure(BlockError::new(kind, "")));
                assert_eq!((found, sense.map(|sense| sense.key)), (status, key), "{kind:?}");
            }
        };
        check(ErrorKind::TimedOut, Status::BUSY, None);
        check(ErrorKind::Conflict, Status::RESERVATION_CONFLICT, None);
        check(ErrorKind::Cancelled, Status::CHECK_CONDITION, Some(SenseKey::AbortedCommand));
        check(ErrorKind::NotReady, Status::CHECK_CONDITION, Some(SenseKey::NotReady));
        check(ErrorKind::Lost, Status::CHECK_CONDITION, Some(SenseKey::HardwareError));
        check(ErrorKind::Hardware, Status::CHECK_CONDITION, Some(SenseKey::HardwareError));
        check(ErrorKind::Gone, Status::CHECK_CONDITION, Some(SenseKey::HardwareError));
    }
}
