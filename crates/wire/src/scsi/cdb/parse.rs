//! Reading CDBs.

use super::{BlockForm, ByteCheck, Cdb, CdbError, ModeForm, PageControl, ReserveIn, ReserveOut, opcode};
use crate::be;

const SERVICE_ACTION: CdbError = invalid(1, Some(4));

const fn invalid(byte: u16, bit: Option<u8>) -> CdbError {
    CdbError::InvalidField { byte, bit }
}

impl Cdb {
    /// Reads a CDB.
    ///
    /// # Errors
    /// [`CdbError::UnsupportedOpcode`] for commands that are not here; [`CdbError::InvalidField`] for protection
    /// information, NACA, an unknown service action, CMDDT, a page code without EVPD, ANCHOR, obsolete ways of
    /// WRITE SAME and RESERVE.
    pub fn parse(cdb: &[u8; 16]) -> Result<Self, CdbError> {
        let command = match cdb[0] {
            opcode::TEST_UNIT_READY => Self::TestUnitReady,
            opcode::REQUEST_SENSE => {
                Self::RequestSense { descriptor: cdb[1] & 0x01 != 0, allocation_len: cdb[4] }
            }
            opcode::INQUIRY => Self::Inquiry { page: inquiry_page(cdb)?, allocation_len: be::u16_at(cdb, 3) },
            opcode::MODE_SENSE_6 => mode_sense(cdb, ModeForm::Six, u16::from(cdb[4])),
            opcode::MODE_SENSE_10 => mode_sense(cdb, ModeForm::Ten, be::u16_at(cdb, 7)),
            opcode::MODE_SELECT_6 => mode_select(cdb, ModeForm::Six, u16::from(cdb[4])),
            opcode::MODE_SELECT_10 => mode_select(cdb, ModeForm::Ten, be::u16_at(cdb, 7)),
            opcode::READ_CAPACITY_10 => Self::ReadCapacity10,
            opcode::SERVICE_ACTION_IN_16 => {
                let allocation_len = be::u32_at(cdb, 10);
                match cdb[1] & 0x1f {
                    opcode::READ_CAPACITY_16 => Self::ReadCapacity16 { allocation_len },
                    opcode::GET_LBA_STATUS => Self::GetLbaStatus { lba: be::u64_at(cdb, 2), allocation_len },
                    _ => return Err(SERVICE_ACTION),
                }
            }
            opcode::REPORT_LUNS => Self::ReportLuns { select: cdb[2], allocation_len: be::u32_at(cdb, 6) },
            opcode::MAINTENANCE_IN => maintenance_in(cdb)?,
            opcode::UNMAP => {
                refuse(cdb, 0x01, 0)?;
                Self::Unmap { list_len: be::u16_at(cdb, 7) }
            }
            opcode::COMPARE_AND_WRITE => {
                refuse(cdb, 0xe0, 7)?;
                let (dpo, fua) = (cdb[1] & 0x10 != 0, cdb[1] & 0x08 != 0);
                Self::CompareAndWrite { lba: be::u64_at(cdb, 2), blocks: cdb[13], dpo, fua }
            }
            opcode::START_STOP_UNIT => Self::StartStop {
                immed: cdb[1] & 0x01 != 0,
                power_condition: cdb[4] >> 4,
                load_eject: cdb[4] & 0x02 != 0,
                start: cdb[4] & 0x01 != 0,
            },
            opcode::PREVENT_ALLOW_MEDIUM_REMOVAL => Self::PreventAllow { prevent: cdb[4] & 0x03 },
            opcode::RESERVE_6 | opcode::RESERVE_10 | opcode::RELEASE_6 | opcode::RELEASE_10 => reserve(cdb)?,
            opcode::PERSISTENT_RESERVE_IN => Self::PersistentReserveIn {
                action: reserve_in(cdb[1] & 0x1f)?,
                allocation_len: be::u16_at(cdb, 7),
            },
            opcode::PERSISTENT_RESERVE_OUT => Self::PersistentReserveOut {
                action: reserve_out(cdb[1] & 0x1f)?,
                scope: cdb[2] >> 4,
                kind: cdb[2] & 0x0f,
                list_len: be::u32_at(cdb, 5),
            },
            _ => blocks(cdb)?,
        };
        let control = cdb_len(cdb[0]) - 1;
        if cdb[control] & 0x04 != 0 {
            return Err(invalid(control as u16, Some(2)));
        }
        Ok(command)
    }
}

/// Bytes of a CDB by the group of its operation code: SPC-5 section 4.2.5.1. Only for codes in [`opcode`].
pub fn cdb_len(opcode: u8) -> usize {
    match opcode >> 5 {
        0 => 6,
        1 | 2 => 10,
        5 => 12,
        _ => 16,
    }
}

/// Fails if one of the bits of byte 1 is set; `bit` is the highest.
fn refuse(cdb: &[u8; 16], bits: u8, bit: u8) -> Result<(), CdbError> {
    if cdb[1] & bits == 0 { Ok(()) } else { Err(invalid(1, Some(bit))) }
}

fn inquiry_page(cdb: &[u8; 16]) -> Result<Option<u8>, CdbError> {
    match (cdb[1] & 0x01 != 0, cdb[1] & 0x02 != 0, cdb[2]) {
        (_, true, _) => Err(invalid(1, Some(1))),
        (true, false, page) => Ok(Some(page)),
        (false, false, 0) => Ok(None),
        (false, false, _) => Err(invalid(2, None)),
    }
}

fn mode_sense(cdb: &[u8; 16], form: ModeForm, allocation_len: u16) -> Cdb {
    Cdb::ModeSense {
        form,
        dbd: cdb[1] & 0x08 != 0,
        llbaa: form == ModeForm::Ten && cdb[1] & 0x10 != 0,
        page_control: match cdb[2] >> 6 {
            0 => PageControl::Current,
            1 => PageControl::Changeable,
            2 => PageControl::Default,
            _ => PageControl::Saved,
        },
        page: cdb[2] & 0x3f,
        subpage: cdb[3],
        allocation_len,
    }
}

fn mode_select(cdb: &[u8; 16], form: ModeForm, list_len: u16) -> Cdb {
    Cdb::ModeSelect { form, page_format: cdb[1] & 0x10 != 0, save: cdb[1] & 0x01 != 0, list_len }
}

fn maintenance_in(cdb: &[u8; 16]) -> Result<Cdb, CdbError> {
    let allocation_len = be::u32_at(cdb, 6);
    let flag = cdb[2] & 0x80 != 0;
    Ok(match cdb[1] & 0x1f {
        opcode::REPORT_SUPPORTED_OPERATION_CODES => Cdb::ReportOpcodes {
            timeouts: flag,
            options: cdb[2] & 0x07,
            opcode: cdb[3],
            service_action: be::u16_at(cdb, 4),
            allocation_len,
        },
        opcode::REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS => {
            Cdb::ReportTaskManagement { extended: flag, allocation_len }
        }
        _ => return Err(SERVICE_ACTION),
    })
}

/// Reservations for others (3RDPTY) and of extents are obsolete.
fn reserve(cdb: &[u8; 16]) -> Result<Cdb, CdbError> {
    refuse(cdb, 0x11, 4)?;
    Ok(match cdb[0] {
        opcode::RESERVE_6 => Cdb::Reserve { form: ModeForm::Six },
        opcode::RESERVE_10 => Cdb::Reserve { form: ModeForm::Ten },
        opcode::RELEASE_6 => Cdb::Release { form: ModeForm::Six },
        _ => Cdb::Release { form: ModeForm::Ten },
    })
}

fn reserve_in(action: u8) -> Result<ReserveIn, CdbError> {
    Ok(match action {
        0 => ReserveIn::ReadKeys,
        1 => ReserveIn::ReadReservation,
        2 => ReserveIn::ReportCapabilities,
        3 => ReserveIn::ReadFullStatus,
        _ => return Err(SERVICE_ACTION),
    })
}

fn reserve_out(action: u8) -> Result<ReserveOut, CdbError> {
    Ok(match action {
        0 => ReserveOut::Register,
        1 => ReserveOut::Reserve,
        2 => ReserveOut::Release,
        3 => ReserveOut::Clear,
        4 => ReserveOut::Preempt,
        5 => ReserveOut::PreemptAndAbort,
        6 => ReserveOut::RegisterAndIgnore,
        _ => return Err(SERVICE_ACTION),
    })
}

/// Commands on a range of blocks.
fn blocks(cdb: &[u8; 16]) -> Result<Cdb, CdbError> {
    let (form, lba, blocks) = range(cdb);
    let (immed, fua, dpo) = (cdb[1] & 0x02 != 0, cdb[1] & 0x08 != 0, cdb[1] & 0x10 != 0);
    match cdb[0] {
        // Byte 1 holds a part of the address.
        opcode::READ_6 => return Ok(Cdb::Read { form, lba, blocks, dpo: false, fua: false }),
        opcode::WRITE_6 => return Ok(Cdb::Write { form, lba, blocks, dpo: false, fua: false }),
        opcode::PRE_FETCH_10 | opcode::PRE_FETCH_16 => {
            return Ok(Cdb::PreFetch { form, lba, blocks, immed });
        }
        opcode::SYNCHRONIZE_CACHE_10 | opcode::SYNCHRONIZE_CACHE_16 => {
            return Ok(Cdb::SynchronizeCache { form, lba, blocks, immed });
        }
        _ => {}
    }
    // RDPROTECT, WRPROTECT or VRPROTECT: logical units here are formatted without protection information.
    let unprotected = |command| refuse(cdb, 0xe0, 7).map(|()| command);
    match cdb[0] {
        opcode::READ_10 | opcode::READ_12 | opcode::READ_16 => {
            unprotected(Cdb::Read { form, lba, blocks, dpo, fua })
        }
        opcode::WRITE_10 | opcode::WRITE_12 | opcode::WRITE_16 => {
            unprotected(Cdb::Write { form, lba, blocks, dpo, fua })
        }
        opcode::ORWRITE_16 => unprotected(Cdb::OrWrite { lba, blocks, dpo, fua }),
        opcode::VERIFY_10 | opcode::VERIFY_12 | opcode::VERIFY_16 => {
            let check = match cdb[1] >> 1 & 0x03 {
                0 => ByteCheck::Nothing,
                1 => ByteCheck::Blocks,
                3 => ByteCheck::OneBlock,
                _ => return Err(invalid(1, Some(2))),
            };
            unprotected(Cdb::Verify { form, lba, blocks, dpo, check })
        }
        opcode::WRITE_AND_VERIFY_10 | opcode::WRITE_AND_VERIFY_12 | opcode::WRITE_AND_VERIFY_16 => {
            if cdb[1] & 0x04 != 0 {
                return Err(invalid(1, Some(2)));
            }
            unprotected(Cdb::WriteAndVerify { form, lba, blocks, dpo, compare: cdb[1] & 0x02 != 0 })
        }
        opcode::WRITE_SAME_10 | opcode::WRITE_SAME_16 => {
            // ANCHOR, and the obsolete PBDATA and LBDATA, which would write something else.
            refuse(cdb, 0x10, 4)?;
            refuse(cdb, 0x06, 2)?;
            let no_data = form == BlockForm::Sixteen && cdb[1] & 0x01 != 0;
            unprotected(Cdb::WriteSame { form, lba, blocks, unmap: cdb[1] & 0x08 != 0, no_data })
        }
        code => Err(CdbError::UnsupportedOpcode(code)),
    }
}

fn range(cdb: &[u8; 16]) -> (BlockForm, u64, u32) {
    match cdb_len(cdb[0]) {
        6 => {
            let blocks = if cdb[4] == 0 { 256 } else { u32::from(cdb[4]) };
            (BlockForm::Six, u64::from(be::u24_at(cdb, 1) & 0x1f_ffff), blocks)
        }
        10 => (BlockForm::Ten, u64::from(be::u32_at(cdb, 2)), u32::from(be::u16_at(cdb, 7))),
        12 => (BlockForm::Twelve, u64::from(be::u32_at(cdb, 2)), be::u32_at(cdb, 6)),
        _ => (BlockForm::Sixteen, be::u64_at(cdb, 2), be::u32_at(cdb, 10)),
    }
}
