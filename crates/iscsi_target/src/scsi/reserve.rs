//! PERSISTENT RESERVE IN and OUT: SPC-4 sections 6.15 and 6.16. Rights are the LUN's (`lun/reservation.rs`).
//!
//! Not done: registering others (SPEC_I_PT), and REGISTER AND MOVE; REPORT CAPABILITIES says so. APTPL keeps
//! reservations over a restart of the target in `lun/persistent/reservation_file.rs`, if the LUN has a file for them.

use wire::scsi::{ReservationType, ReserveCapabilities, ReserveIn, ReserveOut, ReserveParameters, Sense};

use super::inquiry::RELATIVE_PORT;
use super::outcome::{Outcome, whole};
use crate::lun::{Lun, Nexus, Request, ReserveError, Reserved};

/// Reservations are of the whole LUN.
const WHOLE_LUN: u8 = 0;

pub(super) fn read(lun: &Lun, action: ReserveIn, allocation_len: u16) -> Vec<u8> {
    let reservations = lun.reservations();
    match action {
        ReserveIn::ReadKeys => reservations.keys(),
        ReserveIn::ReadReservation => reservations.reservation(),
        // The only port is all ports.
        ReserveIn::ReportCapabilities => {
            let capabilities = ReserveCapabilities {
                compatible: false,
                all_ports: true,
                can_persist: lun.can_persist(),
                persists: reservations.persist(),
            };
            capabilities.emit().to_vec()
        }
        ReserveIn::ReadFullStatus => reservations.full_status(RELATIVE_PORT, allocation_len),
    }
}

/// The fields of a PERSISTENT RESERVE OUT; see `wire::scsi::Cdb`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    pub(super) action: ReserveOut,
    pub(super) scope: u8,
    pub(super) kind: u8,
    pub(super) list_len: u32,
}

pub(super) fn write(lun: &mut Lun, nexus: Nexus, out: Out, data: Option<&[u8]>) -> Result<Outcome, Sense> {
    if out.list_len != ReserveParameters::LEN as u32 {
        return Err(Sense::PARAMETER_LIST_LENGTH);
    }
    let kind = match ReservationType::from_code(out.kind) {
        _ if out.scope != WHOLE_LUN => Err(Sense::invalid_field(2, Some(7))),
        kind => kind.ok_or(Sense::invalid_field(2, Some(3))),
    };
    // PREEMPT may make no reservation, and then ignores scope and type (SPC-4 5.12.11.2.4).
    if matches!(out.action, ReserveOut::Reserve | ReserveOut::Release) {
        kind?;
    }
    let Some(data) = whole(data, out.list_len)? else {
        return Ok(Outcome::Parameters { len_bytes: out.list_len });
    };
    let list = ReserveParameters::parse(data).map_err(|_| Sense::PARAMETER_LIST_LENGTH)?;
    if list.for_others {
        return Err(Sense::invalid_parameter(20, Some(3)));
    }
    let registers = matches!(out.action, ReserveOut::Register | ReserveOut::RegisterAndIgnore);
    if list.persist && registers && !lun.can_persist() {
        return Err(Sense::invalid_parameter(20, Some(0)));
    }
    let persist = registers.then_some(list.persist);
    let request = Request { action: out.action, kind, key: list.key, action_key: list.action_key, persist };
    match lun.persistent_reserve(nexus, request) {
        Ok(Reserved { preempted, save }) if request.action == ReserveOut::PreemptAndAbort => {
            Ok(Outcome::Preempted { sessions: preempted, save })
        }
        Ok(Reserved { save: None, .. }) => Ok(Outcome::Good),
        Ok(Reserved { save: Some(save), .. }) => Ok(Outcome::Keep(save)),
        Err(ReserveError::Conflict) => Ok(Outcome::Conflict),
        Err(ReserveError::Full) => Ok(Outcome::Full),
        Err(ReserveError::Check(sense)) => Err(sense),
    }
}
