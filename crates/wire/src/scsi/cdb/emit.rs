//! Writing CDBs.

use super::{BlockForm, Cdb, ModeForm, opcode};
use crate::be;

impl Cdb {
    /// Writes the CDB, zero behind its end.
    ///
    /// # Panics
    /// If a value does not fit into its field, such as an address above 2^32 − 1 in ten bytes, or the command
    /// has no such form.
    pub fn emit(&self) -> [u8; 16] {
        let mut cdb = [0; 16];
        match *self {
            Self::TestUnitReady => cdb[0] = opcode::TEST_UNIT_READY,
            Self::RequestSense { descriptor, allocation_len } => {
                cdb[0] = opcode::REQUEST_SENSE;
                cdb[1] = u8::from(descriptor);
                cdb[4] = allocation_len;
            }
            Self::Inquiry { page, allocation_len } => {
                cdb[0] = opcode::INQUIRY;
                cdb[1] = u8::from(page.is_some());
                cdb[2] = page.unwrap_or(0);
                be::put_u16(&mut cdb, 3, allocation_len);
            }
            Self::ModeSense { form, dbd, llbaa, page_control, page, subpage, allocation_len } => {
                assert!(page < 0x40, "mode page {page:#04x}");
                assert!(!llbaa || form == ModeForm::Ten, "LLBAA in MODE SENSE (6)");
                put_mode(&mut cdb, [opcode::MODE_SENSE_6, opcode::MODE_SENSE_10], form, allocation_len);
                cdb[1] = u8::from(dbd) << 3 | u8::from(llbaa) << 4;
                cdb[2] = (page_control as u8) << 6 | page;
                cdb[3] = subpage;
            }
            Self::ModeSelect { form, page_format, save, list_len } => {
                put_mode(&mut cdb, [opcode::MODE_SELECT_6, opcode::MODE_SELECT_10], form, list_len);
                cdb[1] = u8::from(page_format) << 4 | u8::from(save);
            }
            Self::ReadCapacity10 => cdb[0] = opcode::READ_CAPACITY_10,
            Self::ReadCapacity16 { allocation_len } => {
                cdb[..2].copy_from_slice(&[opcode::SERVICE_ACTION_IN_16, opcode::READ_CAPACITY_16]);
                be::put_u32(&mut cdb, 10, allocation_len);
            }
            Self::GetLbaStatus { lba, allocation_len } => {
                cdb[..2].copy_from_slice(&[opcode::SERVICE_ACTION_IN_16, opcode::GET_LBA_STATUS]);
                be::put_u64(&mut cdb, 2, lba);
                be::put_u32(&mut cdb, 10, allocation_len);
            }
            Self::ReportLuns { select, allocation_len } => {
                cdb[0] = opcode::REPORT_LUNS;
                cdb[2] = select;
                be::put_u32(&mut cdb, 6, allocation_len);
            }
            Self::ReportOpcodes { timeouts, options, opcode, service_action, allocation_len } => {
                assert!(options < 8, "reporting options {options}");
                cdb[..2].copy_from_slice(&[opcode::MAINTENANCE_IN, opcode::REPORT_SUPPORTED_OPERATION_CODES]);
                cdb[2] = u8::from(timeouts) << 7 | options;
                cdb[3] = opcode;
                be::put_u16(&mut cdb, 4, service_action);
                be::put_u32(&mut cdb, 6, allocation_len);
            }
            Self::ReportTaskManagement { extended, allocation_len } => {
                cdb[0] = opcode::MAINTENANCE_IN;
                cdb[1] = opcode::REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS;
                cdb[2] = u8::from(extended) << 7;
                be::put_u32(&mut cdb, 6, allocation_len);
            }
            Self::Unmap { list_len } => {
                cdb[0] = opcode::UNMAP;
                be::put_u16(&mut cdb, 7, list_len);
            }
            Self::CompareAndWrite { lba, blocks, dpo, fua } => {
                cdb[0] = opcode::COMPARE_AND_WRITE;
                cdb[1] = u8::from(dpo) << 4 | u8::from(fua) << 3;
                be::put_u64(&mut cdb, 2, lba);
                cdb[13] = blocks;
            }
            Self::OrWrite { lba, blocks, dpo, fua } => {
                cdb[0] = opcode::ORWRITE_16;
                cdb[1] = u8::from(dpo) << 4 | u8::from(fua) << 3;
                be::put_u64(&mut cdb, 2, lba);
                be::put_u32(&mut cdb, 10, blocks);
            }
            Self::StartStop { immed, power_condition, load_eject, start } => {
                assert!(power_condition < 16, "power condition {power_condition}");
                cdb[0] = opcode::START_STOP_UNIT;
                cdb[1] = u8::from(immed);
                cdb[4] = power_condition << 4 | u8::from(load_eject) << 1 | u8::from(start);
            }
            Self::PreventAllow { prevent } => {
                assert!(prevent < 4, "prevent {prevent}");
                cdb[0] = opcode::PREVENT_ALLOW_MEDIUM_REMOVAL;
                cdb[4] = prevent;
            }
            Self::Reserve { form: ModeForm::Six } => cdb[0] = opcode::RESERVE_6,
            Self::Reserve { form: ModeForm::Ten } => cdb[0] = opcode::RESERVE_10,
            Self::Release { form: ModeForm::Six } => cdb[0] = opcode::RELEASE_6,
            Self::Release { form: ModeForm::Ten } => cdb[0] = opcode::RELEASE_10,
            Self::PersistentReserveIn { action, allocation_len } => {
                cdb[..2].copy_from_slice(&[opcode::PERSISTENT_RESERVE_IN, action as u8]);
                be::put_u16(&mut cdb, 7, allocation_len);
            }
            Self::PersistentReserveOut { action, scope, kind, list_len } => {
                assert!(scope < 16 && kind < 16, "scope {scope}, type {kind}");
                cdb[..3].copy_from_slice(&[opcode::PERSISTENT_RESERVE_OUT, action as u8, scope << 4 | kind]);
                be::put_u32(&mut cdb, 5, list_len);
            }
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Verify { .. }
            | Self::WriteAndVerify { .. }
            | Self::PreFetch { .. }
            | Self::SynchronizeCache { .. }
            | Self::WriteSame { .. } => self.put_blocks(&mut cdb),
        }
        cdb
    }

    /// Commands on a range of blocks.
    fn put_blocks(&self, cdb: &mut [u8; 16]) {
        let bit = |set: bool, bit: u8| u8::from(set) << bit;
        let (opcodes, form, lba, blocks, flags) = match *self {
            Self::Read { form, lba, blocks, dpo, fua } => (
                [opcode::READ_6, opcode::READ_10, opcode::READ_12, opcode::READ_16],
                form,
                lba,
                blocks,
                bit(dpo, 4) | bit(fua, 3),
            ),
            Self::Write { form, lba, blocks, dpo, fua } => (
                [opcode::WRITE_6, opcode::WRITE_10, opcode::WRITE_12, opcode::WRITE_16],
                form,
                lba,
                blocks,
                bit(dpo, 4) | bit(fua, 3),
            ),
            Self::Verify { form, lba, blocks, dpo, check } => (
                [NONE, opcode::VERIFY_10, opcode::VERIFY_12, opcode::VERIFY_16],
                form,
                lba,
                blocks,
                bit(dpo, 4) | (check as u8) << 1,
            ),
            Self::WriteAndVerify { form, lba, blocks, dpo, compare } => (
                [NONE, opcode::WRITE_AND_VERIFY_10, opcode::WRITE_AND_VERIFY_12, opcode::WRITE_AND_VERIFY_16],
                form,
                lba,
                blocks,
                bit(dpo, 4) | bit(compare, 1),
            ),
            Self::PreFetch { form, lba, blocks, immed } => {
                ([NONE, opcode::PRE_FETCH_10, NONE, opcode::PRE_FETCH_16], form, lba, blocks, bit(immed, 1))
            }
            Self::SynchronizeCache { form, lba, blocks, immed } => (
                [NONE, opcode::SYNCHRONIZE_CACHE_10, NONE, opcode::SYNCHRONIZE_CACHE_16],
                form,
                lba,
                blocks,
                bit(immed, 1),
            ),
            Self::WriteSame { form, lba, blocks, unmap, no_data } => {
                assert!(!no_data || form == BlockForm::Sixteen, "NDOB in WRITE SAME (10)");
                let flags = bit(unmap, 3) | bit(no_data, 0);
                ([NONE, opcode::WRITE_SAME_10, NONE, opcode::WRITE_SAME_16], form, lba, blocks, flags)
            }
            _ => unreachable!("only commands on a range of blocks come here"),
        };
        put_range(cdb, opcodes, form, lba, blocks);
        cdb[1] |= flags;
    }
}

/// In place of the operation code of a form that a command does not have.
const NONE: u8 = 0xff;

fn put_mode(cdb: &mut [u8; 16], opcodes: [u8; 2], form: ModeForm, len: u16) {
    match form {
        ModeForm::Six => {
            cdb[0] = opcodes[0];
            cdb[4] = u8::try_from(len).expect("the form of six bytes moves at most 255 bytes");
        }
        ModeForm::Ten => {
            cdb[0] = opcodes[1];
            be::put_u16(cdb, 7, len);
        }
    }
}

fn put_range(cdb: &mut [u8; 16], opcodes: [u8; 4], form: BlockForm, lba: u64, blocks: u32) {
    let short_lba = || u32::try_from(lba).expect("ten and twelve bytes hold addresses up to 2^32 - 1");
    match form {
        BlockForm::Six => {
            assert!(lba < 1 << 21 && (1..=256).contains(&blocks), "{blocks} blocks at {lba} in six bytes");
            be::put_u24(cdb, 1, lba as u32);
            cdb[4] = blocks as u8; // 256 is written as 0.
        }
        BlockForm::Ten => {
            be::put_u32(cdb, 2, short_lba());
            be::put_u16(cdb, 7, u16::try_from(blocks).expect("ten bytes hold counts up to 65535"));
        }
        BlockForm::Twelve => {
            be::put_u32(cdb, 2, short_lba());
            be::put_u32(cdb, 6, blocks);
        }
        BlockForm::Sixteen => {
            be::put_u64(cdb, 2, lba);
            be::put_u32(cdb, 10, blocks);
        }
    }
    cdb[0] = opcodes[form as usize];
    assert_ne!(cdb[0], NONE, "the command has no form of {form:?} bytes");
}
