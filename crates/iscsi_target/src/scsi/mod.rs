//! Meaning of a SCSI command for a LUN: decided here, executed by the serving loop.
//!
//! [`execute`] reads no socket and touches no block. It takes a command and returns an [`Outcome`]: a status, data to
//! send, or an order to move or change bytes in a range that was checked completely. A command with parameter data is
//! decided in two steps: [`execute`] checks the CDB and returns the length of the data, [`execute_with`] decides with
//! the data. One file per group of commands; formats are in `wire::scsi`. The session computes residuals (expected
//! against actual length).
//!
//! Order of checks (SAM-5 sections 5.14 and 5.15): existence of the LUN, pending unit attention, known operation code,
//! reservation conflict, valid fields. INQUIRY, REPORT LUNS and REQUEST SENSE are answered for any LUN and are not held
//! up by a unit attention.

mod access;
mod capacity;
mod compare;
mod failure;
mod inquiry;
mod mode;
mod opcodes;
mod provision;
mod report;
mod reserve;
mod transfer;

#[cfg(test)]
mod tests;

use block::Composite;
use wire::scsi::{BlockForm, Cdb, Lun as Address, Sense};

use crate::lun::{Attention, Lun, Luns, Nexus, Save};
use transfer::Blocks;

pub use failure::sense_of;

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
    /// Receive so many bytes, then [`execute_with`] them. The initiator has to expect just as many.
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

/// Operation codes of the commands that are answered for any LUN, even a missing one.
const ALWAYS_ANSWERED: [u8; 3] = [REQUEST_SENSE, INQUIRY, REPORT_LUNS];
const REQUEST_SENSE: u8 = 0x03;
const INQUIRY: u8 = 0x12;
const REPORT_LUNS: u8 = 0xa0;

/// Decides the outcome of `cdb`, sent by `nexus` to the LUN at `address`.
///
/// A unit attention in the outcome is cleared at the LUN: each is reported once.
pub fn execute(luns: &mut Luns, address: Address, nexus: Nexus, cdb: &[u8; 16]) -> Outcome {
    if !ALWAYS_ANSWERED.contains(&cdb[0]) {
        let found = luns.lun_mut(address).filter(|lun| !lun.is_leaving());
        let Some(lun) = found else { return Outcome::Check(Sense::LUN_NOT_SUPPORTED) };
        if let Some(attention) = lun.take_attention(nexus) {
            return Outcome::Check(attention.into());
        }
    }
    let parsed = match Cdb::parse(cdb) {
        Ok(parsed) => parsed,
        Err(error) => return Outcome::Check(error.into()),
    };
    if luns.lun(address).is_some_and(|lun| lun.reservations().conflict(nexus, access::need(&parsed))) {
        return Outcome::Conflict;
    }
    decide(luns, address, nexus, parsed, None).unwrap_or_else(Outcome::Check)
}

/// Decides the outcome of a command for which [`execute`] required `data`.
pub fn execute_with(luns: &mut Luns, address: Address, nexus: Nexus, cdb: &[u8; 16], data: &[u8]) -> Outcome {
    let parsed = Cdb::parse(cdb).map_err(Sense::from);
    parsed.and_then(|cdb| decide(luns, address, nexus, cdb, Some(data))).unwrap_or_else(Outcome::Check)
}

fn decide(
    luns: &mut Luns,
    address: Address,
    nexus: Nexus,
    cdb: Cdb,
    data: Option<&[u8]>,
) -> Result<Outcome, Sense> {
    match cdb {
        Cdb::Inquiry { page, allocation_len } => {
            return inquiry::inquiry(luns.lun(address).filter(|lun| lun.is_open_to(nexus)), page)
                .map(cut(allocation_len.into()));
        }
        Cdb::ReportLuns { select, allocation_len } => {
            let data = report::luns(luns, nexus, select)?;
            luns.forget_changed(nexus);
            return Ok(cut(allocation_len)(data));
        }
        Cdb::RequestSense { descriptor, allocation_len } => {
            let lun = luns.lun_mut(address).filter(|lun| lun.is_open_to(nexus));
            let data = report::sense(lun, nexus, descriptor);
            return Ok(cut(allocation_len.into())(data));
        }
        _ => {}
    }
    let lun = luns.lun_mut(address).ok_or(Sense::LUN_NOT_SUPPORTED)?;
    match cdb {
        Cdb::ModeSelect { form, page_format, save, list_len } => {
            let list = mode::List { form, page_format, save, len: list_len };
            mode::select(lun, nexus, list, data)
        }
        Cdb::PersistentReserveOut { action, scope, kind, list_len } => {
            reserve::write(lun, nexus, reserve::Out { action, scope, kind, list_len }, data)
        }
        Cdb::Reserve { .. } => {
            lun.reservations_mut().reserve(nexus);
            Ok(Outcome::Good)
        }
        Cdb::Release { .. } => {
            lun.reservations_mut().release(nexus);
            Ok(Outcome::Good)
        }
        _ => on_medium(lun, cdb, data),
    }
}

/// Commands that do not change the LUN itself.
fn on_medium(lun: &Lun, cdb: Cdb, data: Option<&[u8]>) -> Result<Outcome, Sense> {
    match cdb {
        Cdb::TestUnitReady => Ok(Outcome::Good),
        Cdb::ReadCapacity10 => Ok(Outcome::DataIn(capacity::ten(lun))),
        Cdb::ReadCapacity16 { allocation_len } => Ok(cut(allocation_len)(capacity::sixteen(lun))),
        Cdb::GetLbaStatus { lba, allocation_len } => provision::lba_status(lun, lba).map(cut(allocation_len)),
        Cdb::ModeSense { form, dbd, llbaa, page_control, page, subpage, allocation_len } => {
            let wanted = mode::Wanted { form, dbd, llbaa, page_control, page, subpage };
            mode::sense(lun, wanted).map(cut(allocation_len.into()))
        }
        Cdb::ReportOpcodes { timeouts, options, opcode, service_action, allocation_len } => {
            let wanted = opcodes::Wanted { timeouts, options, opcode, service_action };
            opcodes::report(wanted).map(cut(allocation_len))
        }
        Cdb::ReportTaskManagement { extended, allocation_len } => {
            Ok(cut(allocation_len)(opcodes::task_management(extended)))
        }
        Cdb::PersistentReserveIn { action, allocation_len } => {
            Ok(cut(allocation_len.into())(reserve::read(lun, action, allocation_len)))
        }
        Cdb::Read { form, lba, blocks, fua, .. } => transfer::read(lun, Blocks { form, lba, blocks }, fua),
        Cdb::Write { form, lba, blocks, fua, .. } => transfer::write(lun, Blocks { form, lba, blocks }, fua),
        // Written to the medium without a comparison: a read would come from the cache in front of the medium and prove
        // nothing.
        Cdb::WriteAndVerify { form, lba, blocks, .. } => {
            transfer::write(lun, Blocks { form, lba, blocks }, true)
        }
        Cdb::Verify { form, lba, blocks, check, .. } => {
            compare::verify(lun, Blocks { form, lba, blocks }, check, data)
        }
        Cdb::CompareAndWrite { lba, blocks, fua, .. } => {
            compare::compare_and_write(lun, lba, blocks, fua, data)
        }
        Cdb::OrWrite { lba, blocks, fua, .. } => {
            compare::or_write(lun, Blocks { form: BlockForm::Sixteen, lba, blocks }, fua, data)
        }
        Cdb::PreFetch { form, lba, blocks, .. } => transfer::pre_fetch(lun, Blocks { form, lba, blocks }),
        Cdb::SynchronizeCache { form, lba, blocks, .. } => {
            transfer::synchronize(lun, Blocks { form, lba, blocks })
        }
        Cdb::WriteSame { form, lba, blocks, unmap, no_data } => {
            let same = provision::Same { unmap, no_data };
            provision::write_same(lun, Blocks { form, lba, blocks }, same, data)
        }
        Cdb::Unmap { list_len } => provision::unmap(lun, list_len, data),
        // There is nothing to load or eject, and nothing that spins; to stop is to have everything stored.
        Cdb::StartStop { load_eject: true, .. } => Err(Sense::invalid_field(4, Some(1))),
        Cdb::StartStop { start: true, .. } => Ok(Outcome::Good),
        Cdb::StartStop { .. } => Ok(transfer::flush(lun)),
        Cdb::PreventAllow { prevent: 0 | 1 } => Ok(Outcome::Good),
        Cdb::PreventAllow { .. } => Err(Sense::invalid_field(4, Some(1))),
        Cdb::Inquiry { .. }
        | Cdb::ReportLuns { .. }
        | Cdb::RequestSense { .. }
        | Cdb::ModeSelect { .. }
        | Cdb::PersistentReserveOut { .. }
        | Cdb::Reserve { .. }
        | Cdb::Release { .. } => unreachable!("decided before"),
    }
}

/// The data of a command, `None` if it is still to come. Another amount than it has to be is refused.
fn whole(data: Option<&[u8]>, len_bytes: u32) -> Result<Option<&[u8]>, Sense> {
    match data {
        Some(data) if data.len() != len_bytes as usize => Err(Sense::INVALID_FIELD_IN_CDB),
        data => Ok(data),
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
            Attention::Replaced => Sense::LUN_NOT_SUPPORTED,
            Attention::PowerOn => Sense::POWER_ON,
            Attention::Reset => Sense::RESET,
            Attention::Cleared => Sense::CLEARED_BY_ANOTHER,
            Attention::ModeChanged => Sense::MODE_PARAMETERS_CHANGED,
            Attention::CapacityChanged => Sense::CAPACITY_CHANGED,
            Attention::ReservationsPreempted => Sense::RESERVATIONS_PREEMPTED,
            Attention::ReservationsReleased => Sense::RESERVATIONS_RELEASED,
            Attention::RegistrationsPreempted => Sense::REGISTRATIONS_PREEMPTED,
            Attention::LunsChanged => Sense::REPORTED_LUNS_CHANGED,
        }
    }
}
