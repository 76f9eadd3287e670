//! Errors of a device from the status and sense data of a command, and from the end of a session.

use block::{BlockError, ErrorKind};
use wire::scsi::{Sense, SenseKey, Status};

use crate::error::{Error, Failure};

/// Error of a command that the target ended without success (SPC-5 section 4.4, SAM-6 section 5.3). The session has
/// retried commands that the target did not execute; what is left of these has lasted for too long.
pub(super) fn of_command(name: &str, failure: &Failure) -> BlockError {
    let kind = match (failure.response, failure.status, &failure.sense) {
        (0, Status::RESERVATION_CONFLICT, _) => ErrorKind::Conflict,
        (0, Status::BUSY | Status::TASK_SET_FULL | Status::TASK_ABORTED, _) => ErrorKind::TimedOut,
        (0, Status::CHECK_CONDITION, Some(sense)) => of_sense(sense),
        // Another status or amount of data than the command permits, or a target that could not execute it.
        _ => ErrorKind::Hardware,
    };
    BlockError::new(kind, format!("{name}: {failure}"))
}

fn of_sense(sense: &Sense) -> ErrorKind {
    match (sense.key, sense.asc, sense.ascq) {
        (SenseKey::NotReady | SenseKey::UnitAttention, ..) => ErrorKind::NotReady,
        (SenseKey::AbortedCommand, ..) => ErrorKind::TimedOut,
        (SenseKey::DataProtect, 0x27, 0x07) => ErrorKind::NoSpace,
        (SenseKey::DataProtect, ..) => ErrorKind::Protected,
        (SenseKey::IllegalRequest, 0x20, _) => ErrorKind::Unsupported,
        (SenseKey::IllegalRequest, 0x21, _) => ErrorKind::OutOfRange,
        (SenseKey::IllegalRequest, 0x25, _) => ErrorKind::Gone,
        (SenseKey::IllegalRequest, ..) => ErrorKind::Invalid,
        (SenseKey::MediumError | SenseKey::RecoveredError | SenseKey::BlankCheck, ..) => ErrorKind::Medium,
        _ => ErrorKind::Hardware,
    }
}

/// Error of all requests after the end of a session that is not re-established.
pub(super) fn of_session(error: &Error) -> BlockError {
    let kind = match error {
        Error::GaveUp { .. } | Error::Away { .. } | Error::Unanswered { .. } => ErrorKind::TimedOut,
        _ => ErrorKind::Gone,
    };
    BlockError::new(kind, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_data_become_the_kind_that_they_mean() {
        let failure =
            |status, sense| Failure { status, response: 0, sense, short_bytes: None, overflow_bytes: None };
        let check = |sense, kind| {
            let error = of_command("READ", &failure(Status::CHECK_CONDITION, Some(sense)));
            assert_eq!(error.kind, kind, "{error}");
        };
        check(Sense::READ_ERROR, ErrorKind::Medium);
        check(Sense::WRITE_ERROR, ErrorKind::Medium);
        check(Sense::INTERNAL_FAILURE, ErrorKind::Hardware);
        check(Sense::RESET, ErrorKind::NotReady);
        check(Sense::DATA_PHASE_ERROR, ErrorKind::TimedOut);
        check(Sense::BECOMING_READY, ErrorKind::NotReady);
        check(Sense::SPACE_ALLOCATION_FAILED, ErrorKind::NoSpace);
        check(Sense::WRITE_PROTECTED, ErrorKind::Protected);
        check(Sense::INVALID_OPCODE, ErrorKind::Unsupported);
        check(Sense::LBA_OUT_OF_RANGE, ErrorKind::OutOfRange);
        check(Sense::LUN_NOT_SUPPORTED, ErrorKind::Gone);
        check(Sense::INVALID_FIELD_IN_CDB, ErrorKind::Invalid);
        let kind = |status| of_command("WRITE", &failure(status, None)).kind;
        assert_eq!(kind(Status::RESERVATION_CONFLICT), ErrorKind::Conflict);
        assert_eq!(kind(Status::BUSY), ErrorKind::TimedOut);
        assert_eq!(kind(Status::TASK_ABORTED), ErrorKind::TimedOut);
        assert_eq!(kind(Status::CHECK_CONDITION), ErrorKind::Hardware);
    }
}
