//! What a SCSI command means for a LUN: decided here, carried out by the serving loop.
//!
//! [`execute`] reads no socket and touches no block. It takes a command and answers with an [`Outcome`]:
//! a status, data to send, or an order to move a range of bytes that was checked completely. One file per
//! group of commands; formats are in `wire::scsi`. Residuals (expected against actual length) are the
//! session's.
//!
//! What is looked at first (SAM-5 sections 5.14 and 5.15): is there such a LUN, has the session something
//! to be told, is the command known, are its fields valid. INQUIRY, REPORT LUNS and REQUEST SENSE are
//! answered for any LUN and are not held up by a unit attention.

mod capacity;
mod failure;
mod inquiry;
mod mode;
mod report;
mod transfer;

#[cfg(test)]
mod tests;

use wire::scsi::{Cdb, Lun as Address, Sense};

use crate::lun::{Attention, Luns, Nexus};

pub use failure::{read_failed, write_failed};
pub use transfer::TRANSFER_MAX_BYTES;

/// What the serving loop has to do for one command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Status GOOD, no data.
    Good,
    /// Status GOOD with this data, already cut to the allocation length; it may be empty.
    DataIn(Vec<u8>),
    /// Send this range, then GOOD.
    Read(Transfer),
    /// Receive this range and store it, then GOOD.
    Write(Transfer),
    /// Sync the store, then GOOD. Only for a LUN that has a write cache, hence never for one in memory.
    Sync,
    /// Status CHECK CONDITION with this sense data.
    Check(Sense),
}

/// A range of bytes that lies within its LUN, is not empty and is at most [`TRANSFER_MAX_BYTES`] long.
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

/// Operation codes of the commands that every LUN answers, even one that is not there.
const ALWAYS_ANSWERED: [u8; 3] = [REQUEST_SENSE, INQUIRY, REPORT_LUNS];
const REQUEST_SENSE: u8 = 0x03;
const INQUIRY: u8 = 0x12;
const REPORT_LUNS: u8 = 0xa0;

/// Decides what `cdb`, sent by `nexus` to the LUN at `address`, does.
///
/// A unit attention that is reported by the outcome is taken from the LUN: it is told once.
pub fn execute(luns: &mut Luns, address: Address, nexus: Nexus, cdb: &[u8; 16]) -> Outcome {
    if !ALWAYS_ANSWERED.contains(&cdb[0]) {
        let Some(lun) = luns.lun_mut(address) else { return Outcome::Check(Sense::LUN_NOT_SUPPORTED) };
        if let Some(attention) = lun.take_attention(nexus) {
            return Outcome::Check(attention.into());
        }
    }
    let outcome = Cdb::parse(cdb).map_err(Sense::from).and_then(|cdb| decide(luns, address, nexus, cdb));
    outcome.unwrap_or_else(Outcome::Check)
}

fn decide(luns: &mut Luns, address: Address, nexus: Nexus, cdb: Cdb) -> Result<Outcome, Sense> {
    let disk = || luns.lun(address).ok_or(Sense::LUN_NOT_SUPPORTED);
    match cdb {
        Cdb::Inquiry { page, allocation_len } => {
            inquiry::inquiry(luns.lun(address), page).map(cut(allocation_len.into()))
        }
        Cdb::ReportLuns { select, allocation_len } => report::luns(luns, select).map(cut(allocation_len)),
        Cdb::RequestSense { descriptor, allocation_len } => {
            let data = report::sense(luns.lun_mut(address), nexus, descriptor);
            Ok(cut(allocation_len.into())(data))
        }
        Cdb::TestUnitReady => disk().map(|_| Outcome::Good),
        Cdb::ReadCapacity10 => disk().map(capacity::ten).map(Outcome::DataIn),
        Cdb::ReadCapacity16 { allocation_len } => disk().map(capacity::sixteen).map(cut(allocation_len)),
        Cdb::ModeSense { form, dbd, llbaa, page_control, page, subpage, allocation_len } => {
            let wanted = mode::Wanted { form, dbd, llbaa, page_control, page, subpage };
            mode::sense(disk()?, wanted).map(cut(allocation_len.into()))
        }
        Cdb::Read { form, lba, blocks, fua, .. } => transfer::read(disk()?, form, lba, blocks, fua),
        Cdb::Write { form, lba, blocks, fua, .. } => transfer::write(disk()?, form, lba, blocks, fua),
        Cdb::SynchronizeCache { lba, blocks, .. } => transfer::synchronize(disk()?, lba, blocks),
    }
}

/// Cuts data off at the allocation length, in bytes (SPC-4 section 4.2.5.6).
fn cut(allocation_len: u32) -> impl FnOnce(Vec<u8>) -> Outcome {
    move |mut data| {
        data.truncate(allocation_len as usize);
        Outcome::DataIn(data)
    }
}

impl From<Attention> for Sense {
    fn from(attention: Attention) -> Sense {
        match attention {
            Attention::PowerOn => Sense::POWER_ON,
            Attention::Reset => Sense::RESET,
        }
    }
}
