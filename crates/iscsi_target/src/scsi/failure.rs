//! What a failure of the store means to the initiator (SPC-4 section 4.5, SBC-4 section 4.7.3.6).
//!
//! No INFORMATION field is given for a failed store: it would have to name the first block that failed, and
//! a store only says that one in the range did.

use wire::scsi::Sense;

use crate::backend::BackendError;

/// Why a command on the medium came to nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The store could not read.
    Read(BackendError),
    /// The store could not write or sync.
    Write(BackendError),
    /// What is there is not what the initiator says.
    Miscompare {
        /// The first byte that differs, of the data that was sent, where the initiator is to be told.
        offset_bytes: Option<u64>,
    },
}

impl Failure {
    /// What the initiator is told.
    pub fn sense(&self) -> Sense {
        match self {
            Failure::Read(BackendError::Io(_) | BackendError::NoSpace(_)) => Sense::READ_ERROR,
            Failure::Write(BackendError::NoSpace(_)) => Sense::SPACE_ALLOCATION_FAILED,
            Failure::Write(BackendError::Io(_)) => Sense::WRITE_ERROR,
            Failure::Read(BackendError::Gone(_)) | Failure::Write(BackendError::Gone(_)) => {
                Sense::INTERNAL_FAILURE
            }
            Failure::Read(BackendError::NotReady(_)) | Failure::Write(BackendError::NotReady(_)) => {
                Sense::BECOMING_READY
            }
            Failure::Miscompare { offset_bytes: Some(offset) } => Sense::MISCOMPARE.with_information(*offset),
            Failure::Miscompare { offset_bytes: None } => Sense::MISCOMPARE,
        }
    }

    /// What is wrong with the store, if anything is.
    pub fn store_error(&self) -> Option<&BackendError> {
        match self {
            Failure::Read(error) | Failure::Write(error) => Some(error),
            Failure::Miscompare { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn operating_system_errors_become_sense_data() {
        let check = |errno, read: (u8, u8, u8), write: (u8, u8, u8)| {
            let error = BackendError::from(io::Error::from_raw_os_error(errno));
            let codes = |failure: Failure| {
                let sense = failure.sense();
                (sense.key as u8, sense.asc, sense.ascq)
            };
            let found = (codes(Failure::Read(error.clone())), codes(Failure::Write(error.clone())));
            assert_eq!(found, (read, write), "{error}");
        };
        check(5, (3, 0x11, 0), (3, 0x0c, 0)); // EIO
        check(28, (3, 0x11, 0), (7, 0x27, 7)); // ENOSPC
        check(122, (3, 0x11, 0), (7, 0x27, 7)); // EDQUOT
        check(19, (4, 0x44, 0), (4, 0x44, 0)); // ENODEV
    }
}
