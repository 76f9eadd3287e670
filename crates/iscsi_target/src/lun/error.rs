//! Errors of opening a LUN and of PERSISTENT RESERVE OUT.

use std::path::PathBuf;

use thiserror::Error;
use wire::scsi::Sense;

use super::persistent::reservation_file::KeptError;
use super::persistent::store_identity::LabelError;
use super::spec::{LUNS_MAX, LunSpec};
use block::{FaultRule, MemoryError, OpenError};

/// Reason for which a LUN cannot be served.
#[derive(Debug, Error)]
pub enum LunError {
    /// The file or device cannot be opened.
    #[error("LUN {number} ({spec}): {source}")]
    File {
        /// LUN number.
        number: usize,
        /// Specification of the LUN.
        spec: Box<LunSpec>,
        /// Cause: the file cannot be opened.
        source: OpenError,
    },
    /// The kept reservations cannot be restored.
    #[error("LUN {number} ({spec}): {source}")]
    Reservations {
        /// LUN number.
        number: usize,
        /// Specification of the LUN.
        spec: Box<LunSpec>,
        /// Cause: the kept reservations cannot be read.
        source: KeptError,
    },
    /// The identity cannot be read or kept.
    #[error("LUN {number} ({spec}): {source}")]
    Label {
        /// LUN number.
        number: usize,
        /// Specification of the LUN.
        spec: Box<LunSpec>,
        /// The reason.
        source: LabelError,
    },
    /// Two LUNs have one identity, and multipath would take them for one disk.
    #[error(
        "LUN {number} and LUN {other} have the same {what}, {value}, and initiators would take them for one disk; give one \
         of them another {option}="
    )]
    SharedIdentity {
        /// The second.
        number: u16,
        /// The first.
        other: u16,
        /// Serial number or NAA designator.
        what: &'static str,
        /// Value of the serial number or designator.
        value: String,
        /// The option that sets it.
        option: &'static str,
    },
    /// Two LUNs would keep their reservations in one file.
    #[error("LUN {number} and LUN {other} both keep their reservations in {}; give each its own", path.display())]
    SharedReservations {
        /// The second.
        number: u16,
        /// The first.
        other: u16,
        /// The file.
        path: PathBuf,
    },
    /// The system has not enough memory.
    #[error("LUN {number} ({spec}): {source}")]
    Memory {
        /// LUN number.
        number: usize,
        /// Specification of the LUN.
        spec: Box<LunSpec>,
        /// Cause: the memory cannot be allocated.
        source: MemoryError,
    },
    /// The size of a memory LUN is no positive multiple of the block size.
    #[error(
        "LUN {number} ({spec}): {len_bytes} bytes is not a positive multiple of the block size of {block_len_bytes} bytes"
    )]
    Size {
        /// LUN number.
        number: usize,
        /// Specification of the LUN.
        spec: Box<LunSpec>,
        /// The size found.
        len_bytes: u64,
        /// Bytes per block.
        block_len_bytes: u32,
    },
    /// A fault of blocks that are not there.
    #[error(
        "LUN {number} ({spec}): fault={rule} is for blocks that are not there: its {blocks} blocks are numbered from 0"
    )]
    FaultRange {
        /// LUN number.
        number: usize,
        /// Specification of the LUN.
        spec: Box<LunSpec>,
        /// Fault rule beyond the end of the LUN.
        rule: FaultRule,
        /// Size of the LUN in blocks.
        blocks: u64,
    },
    /// More LUNs than can be numbered.
    #[error("there is no LUN {number}: they are numbered from 0, {LUNS_MAX} at most; start a second target")]
    TooMany {
        /// Number of the refused LUN.
        number: u16,
    },
}

/// Reason for which PERSISTENT RESERVE OUT was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReserveError {
    /// RESERVATION CONFLICT: the sender has no such right.
    Conflict,
    /// TASK SET FULL: too many changes are on their way to stable storage.
    Full,
    /// CHECK CONDITION.
    Check(Sense),
}
