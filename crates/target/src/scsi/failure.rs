//! What a failure of the store means to the initiator (SPC-4 section 4.5, SBC-4 section 4.7.3.6).
//!
//! No INFORMATION field is given: it would have to name the first block that failed, and a store only
//! says that one in the range did.

use wire::scsi::Sense;

use crate::backend::BackendError;

/// Sense data for a read that the store could not do.
pub fn read_failed(error: &BackendError) -> Sense {
    match error {
        BackendError::Io(_) | BackendError::NoSpace(_) => Sense::READ_ERROR,
        BackendError::Gone(_) => Sense::INTERNAL_FAILURE,
    }
}

/// Sense data for a write or a sync that the store could not do.
pub fn write_failed(error: &BackendError) -> Sense {
    match error {
        BackendError::NoSpace(_) => Sense::SPACE_ALLOCATION_FAILED,
        BackendError::Io(_) => Sense::WRITE_ERROR,
        BackendError::Gone(_) => Sense::INTERNAL_FAILURE,
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
            let codes = |sense: Sense| (sense.key as u8, sense.asc, sense.ascq);
            assert_eq!((codes(read_failed(&error)), codes(write_failed(&error))), (read, write), "{error}");
        };
        check(5, (3, 0x11, 0), (3, 0x0c, 0)); // EIO
        check(28, (3, 0x11, 0), (7, 0x27, 7)); // ENOSPC
        check(122, (3, 0x11, 0), (7, 0x27, 7)); // EDQUOT
        check(19, (4, 0x44, 0), (4, 0x44, 0)); // ENODEV
    }
}
