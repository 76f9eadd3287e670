//! Outcome of the decision on a command, and the checks of its data and its allocation length.

use block::Composite;
use wire::scsi::Sense;

use crate::lun::{Nexus, Save};

/// Work of the serving loop for one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Status GOOD, no data.
    Good,
    /// Status CONDITION MET.
    ConditionMet,
    /// Status RESERVATION CONFLICT.
    Conflict,
    /// Status TASK SET FULL.
    Full,
    /// Status GOOD with this data, already cut to the allocation length; it may be empty.
    DataIn(Vec<u8>),
    /// Send this range, then GOOD.
    Read(Transfer),
    /// Receive this range and store it, then GOOD.
    Write(Transfer),
    /// Sync the store, then GOOD. Only for a LUN that has a write cache, hence never for one in memory.
    Sync,
    /// Put the reservations on stable storage, then GOOD. Never for a LUN in memory.
    Keep(Save),
    /// Receive so many bytes, then [`execute_with`](super::execute_with) them. The initiator has to expect just as many.
    Parameters {
        /// Length of the data in bytes.
        len_bytes: u32,
    },
    /// Carry it out, then GOOD.
    Composite(Composite),
    /// End the commands of other sessions on the LUN, then GOOD.
    Preempted {
        /// Sessions concerned.
        sessions: Vec<Nexus>,
        /// The reservations, if they are to be on stable storage before that.
        save: Option<Save>,
    },
    /// Status CHECK CONDITION with this sense data.
    Check(Sense),
}

/// A range of bytes that lies within its LUN, is not empty and is at most [`block::TRANSFER_MAX_BYTES`] long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub len_bytes: u32,
    /// The medium is meant, not a cache: sync before a read, and after a write before its status. Never
    /// set for a LUN without a write cache.
    pub fua: bool,
}

/// The data of a command, `None` if it is still to come. Another amount than it has to be is refused.
pub(super) fn whole(data: Option<&[u8]>, len_bytes: u32) -> Result<Option<&[u8]>, Sense> {
    match data {
        Some(data) if data.len() != len_bytes as usize => Err(Sense::INVALID_FIELD_IN_CDB),
        data => Ok(data),
    }
}

/// Cuts data off at the allocation length, in bytes (SPC-4 section 4.2.5.6).
pub(super) fn cut(allocation_len: u32) -> impl FnOnce(Vec<u8>) -> Outcome {
    move |mut data| {
        data.truncate(allocation_len as usize);
        Outcome::DataIn(data)
    }
}
