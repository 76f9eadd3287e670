//! REPORT LUNS and REQUEST SENSE: SPC-4 sections 6.33 and 6.39.
//!
//! Sense data of a failed command is part of its response (autosense); REQUEST SENSE only reports pending conditions.

use wire::scsi::{Lun as Address, ReportLuns, Sense};

use crate::lun::{Lun, Luns, Nexus};

/// SELECT REPORT (SPC-4 table 281): all but well-known LUNs, well-known ones only, all.
const ORDINARY: u8 = 0;
const WELL_KNOWN: u8 = 1;
const ALL: u8 = 2;

/// The LUNs that are open to `nexus`. There are no well-known ones.
pub(super) fn luns(luns: &Luns, nexus: Nexus, select: u8) -> Result<Vec<u8>, Sense> {
    let list = match select {
        ORDINARY | ALL => {
            let open = luns.iter().filter(|lun| lun.is_open_to(nexus));
            open.map(|lun| Address::from_number(lun.number())).collect()
        }
        WELL_KNOWN => Vec::new(),
        _ => return Err(Sense::invalid_field(2, None)),
    };
    Ok(ReportLuns { luns: list }.emit())
}

/// Pending unit attention of `nexus` at a LUN, which is cleared; LOGICAL UNIT NOT SUPPORTED for a missing LUN.
pub(super) fn sense(lun: Option<&mut Lun>, nexus: Nexus, descriptor: bool) -> Vec<u8> {
    let sense = match lun {
        None => Sense::LUN_NOT_SUPPORTED,
        Some(lun) => lun.take_attention(nexus).map_or(Sense::NO_SENSE, Sense::from),
    };
    if descriptor { sense.emit_descriptor() } else { sense.emit_fixed().to_vec() }
}
