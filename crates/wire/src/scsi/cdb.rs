//! Command descriptor blocks: SPC-5 sections 4.2.5 and 6, SBC-4 section 5.
//!
//! iSCSI carries every CDB in 16 bytes; those behind a shorter CDB are not looked at.

use crate::be;

mod opcode {
    pub(super) const TEST_UNIT_READY: u8 = 0x00;
    pub(super) const REQUEST_SENSE: u8 = 0x03;
    pub(super) const INQUIRY: u8 = 0x12;
    pub(super) const MODE_SENSE_6: u8 = 0x1a;
    pub(super) const READ_CAPACITY_10: u8 = 0x25;
    pub(super) const READ_10: u8 = 0x28;
    pub(super) const WRITE_10: u8 = 0x2a;
    pub(super) const SYNCHRONIZE_CACHE_10: u8 = 0x35;
    pub(super) const MODE_SENSE_10: u8 = 0x5a;
    pub(super) const READ_16: u8 = 0x88;
    pub(super) const WRITE_16: u8 = 0x8a;
    pub(super) const SYNCHRONIZE_CACHE_16: u8 = 0x91;
    pub(super) const SERVICE_ACTION_IN_16: u8 = 0x9e;
    pub(super) const REPORT_LUNS: u8 = 0xa0;
}

/// The service action of SERVICE ACTION IN (16) that is READ CAPACITY (16).
const READ_CAPACITY_16: u8 = 0x10;

/// A command. Allocation lengths are in bytes, block counts and addresses in logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields carry the names of SPC-5 and SBC-4")]
pub enum Cdb {
    /// TEST UNIT READY: SPC-5 section 6.47.
    TestUnitReady,
    /// REQUEST SENSE: SPC-5 section 6.39. `descriptor` asks for descriptor format.
    RequestSense { descriptor: bool, allocation_len: u8 },
    /// INQUIRY: SPC-5 section 6.7. `page` is the vital product data page, None asks for standard data.
    Inquiry { page: Option<u8>, allocation_len: u16 },
    /// MODE SENSE: SPC-5 sections 6.14 and 6.15. `dbd` asks for no block descriptors, `llbaa` allows long ones
    /// (only in the form of ten bytes).
    ModeSense {
        form: ModeForm,
        dbd: bool,
        llbaa: bool,
        page_control: PageControl,
        page: u8,
        subpage: u8,
        allocation_len: u16,
    },
    /// READ CAPACITY (10): SBC-4 section 5.20.
    ReadCapacity10,
    /// READ CAPACITY (16): SBC-4 section 5.21.
    ReadCapacity16 { allocation_len: u32 },
    /// REPORT LUNS: SPC-5 section 6.33. `select` is the SELECT REPORT field.
    ReportLuns { select: u8, allocation_len: u32 },
    /// READ: SBC-4 sections 5.15 and 5.17.
    Read { form: BlockForm, lba: u64, blocks: u32, dpo: bool, fua: bool },
    /// WRITE: SBC-4 sections 5.40 and 5.42.
    Write { form: BlockForm, lba: u64, blocks: u32, dpo: bool, fua: bool },
    /// SYNCHRONIZE CACHE: SBC-4 sections 5.33 and 5.34. `blocks` 0 means to the end; `immed` asks for the status
    /// before it is done.
    SynchronizeCache { form: BlockForm, lba: u64, blocks: u32, immed: bool },
}

/// Bytes of a CDB that addresses blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockForm {
    /// 32-bit addresses, 16-bit counts.
    Ten,
    /// 64-bit addresses, 32-bit counts.
    Sixteen,
}

impl BlockForm {
    /// The shortest form that holds an address and a count.
    pub const fn for_range(lba: u64, blocks: u32) -> Self {
        if lba <= u32::MAX as u64 && blocks <= u16::MAX as u32 { Self::Ten } else { Self::Sixteen }
    }
}

/// Bytes of a MODE SENSE CDB, which also decide the header of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModeForm {
    /// Up to 255 bytes of data.
    Six,
    /// Up to 65535 bytes of data.
    Ten,
}

/// Which values of mode pages are asked for: SPC-5 section 6.14.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageControl {
    /// In effect now.
    Current = 0,
    /// A mask of what MODE SELECT can change.
    Changeable = 1,
    /// As delivered.
    Default = 2,
    /// Kept over a power cycle.
    Saved = 3,
}

/// Why a CDB is refused. Both become ILLEGAL REQUEST; see the conversion to [`Sense`](super::Sense).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CdbError {
    /// An operation code that [`Cdb`] does not have.
    #[error("operation code {0:02X}h is not supported")]
    UnsupportedOpcode(u8),
    /// A field with a value that is not supported.
    #[error("byte {byte} of the CDB has a value that is not supported")]
    InvalidField {
        /// The field's first byte.
        byte: u16,
        /// Its most significant bit, if it is not a whole byte.
        bit: Option<u8>,
    },
}

impl Cdb {
    /// Reads a CDB.
    ///
    /// # Errors
    /// [`CdbError::UnsupportedOpcode`] for commands that are not here; [`CdbError::InvalidField`] for protection
    /// information, NACA, an unknown service action, CMDDT, and a page code without EVPD.
    pub fn parse(cdb: &[u8; 16]) -> Result<Self, CdbError> {
        let command = match cdb[0] {
            opcode::TEST_UNIT_READY => Self::TestUnitReady,
            opcode::REQUEST_SENSE => {
                Self::RequestSense { descriptor: cdb[1] & 0x01 != 0, allocation_len: cdb[4] }
            }
            opcode::INQUIRY => Self::Inquiry { page: inquiry_page(cdb)?, allocation_len: be::u16_at(cdb, 3) },
            opcode::MODE_SENSE_6 => mode_sense(cdb, ModeForm::Six, u16::from(cdb[4])),
            opcode::MODE_SENSE_10 => mode_sense(cdb, ModeForm::Ten, be::u16_at(cdb, 7)),
            opcode::READ_CAPACITY_10 => Self::ReadCapacity10,
            opcode::SERVICE_ACTION_IN_16 if cdb[1] & 0x1f == READ_CAPACITY_16 => {
                Self::ReadCapacity16 { allocation_len: be::u32_at(cdb, 10) }
            }
            opcode::SERVICE_ACTION_IN_16 => return Err(CdbError::InvalidField { byte: 1, bit: Some(4) }),
            opcode::REPORT_LUNS => Self::ReportLuns { select: cdb[2], allocation_len: be::u32_at(cdb, 6) },
            opcode::READ_10 | opcode::READ_16 | opcode::WRITE_10 | opcode::WRITE_16 => transfer(cdb)?,
            opcode::SYNCHRONIZE_CACHE_10 | opcode::SYNCHRONIZE_CACHE_16 => {
                let (form, lba, blocks) = range(cdb);
                Self::SynchronizeCache { form, lba, blocks, immed: cdb[1] & 0x02 != 0 }
            }
            code => return Err(CdbError::UnsupportedOpcode(code)),
        };
        let control = cdb_len(cdb[0]) - 1;
        if cdb[control] & 0x04 != 0 {
            return Err(CdbError::InvalidField { byte: control as u16, bit: Some(2) });
        }
        Ok(command)
    }

    /// Writes the CDB, zero behind its end.
    ///
    /// # Panics
    /// If a value does not fit into its field, such as an address above 2^32 − 1 in ten bytes.
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
                cdb[1] = u8::from(dbd) << 3;
                cdb[2] = (page_control as u8) << 6 | page;
                cdb[3] = subpage;
                match form {
                    ModeForm::Six => {
                        assert!(!llbaa, "LLBAA in MODE SENSE (6)");
                        cdb[0] = opcode::MODE_SENSE_6;
                        cdb[4] =
                            u8::try_from(allocation_len).expect("MODE SENSE (6) returns at most 255 bytes");
                    }
                    ModeForm::Ten => {
                        cdb[0] = opcode::MODE_SENSE_10;
                        cdb[1] |= u8::from(llbaa) << 4;
                        be::put_u16(&mut cdb, 7, allocation_len);
                    }
                }
            }
            Self::ReadCapacity10 => cdb[0] = opcode::READ_CAPACITY_10,
            Self::ReadCapacity16 { allocation_len } => {
                cdb[0] = opcode::SERVICE_ACTION_IN_16;
                cdb[1] = READ_CAPACITY_16;
                be::put_u32(&mut cdb, 10, allocation_len);
            }
            Self::ReportLuns { select, allocation_len } => {
                cdb[0] = opcode::REPORT_LUNS;
                cdb[2] = select;
                be::put_u32(&mut cdb, 6, allocation_len);
            }
            Self::Read { form, lba, blocks, dpo, fua } => {
                put_range(&mut cdb, [opcode::READ_10, opcode::READ_16], form, lba, blocks);
                cdb[1] = u8::from(dpo) << 4 | u8::from(fua) << 3;
            }
            Self::Write { form, lba, blocks, dpo, fua } => {
                put_range(&mut cdb, [opcode::WRITE_10, opcode::WRITE_16], form, lba, blocks);
                cdb[1] = u8::from(dpo) << 4 | u8::from(fua) << 3;
            }
            Self::SynchronizeCache { form, lba, blocks, immed } => {
                let opcodes = [opcode::SYNCHRONIZE_CACHE_10, opcode::SYNCHRONIZE_CACHE_16];
                put_range(&mut cdb, opcodes, form, lba, blocks);
                cdb[1] = u8::from(immed) << 1;
            }
        }
        cdb
    }
}

/// Bytes of a CDB by the group of its operation code: SPC-5 section 4.2.5.1. Only for codes in [`opcode`].
fn cdb_len(opcode: u8) -> usize {
    match opcode >> 5 {
        0 => 6,
        1 | 2 => 10,
        5 => 12,
        _ => 16,
    }
}

fn inquiry_page(cdb: &[u8; 16]) -> Result<Option<u8>, CdbError> {
    match (cdb[1] & 0x01 != 0, cdb[1] & 0x02 != 0, cdb[2]) {
        (_, true, _) => Err(CdbError::InvalidField { byte: 1, bit: Some(1) }),
        (true, false, page) => Ok(Some(page)),
        (false, false, 0) => Ok(None),
        (false, false, _) => Err(CdbError::InvalidField { byte: 2, bit: None }),
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

fn transfer(cdb: &[u8; 16]) -> Result<Cdb, CdbError> {
    // RDPROTECT or WRPROTECT: logical units here are formatted without protection information.
    if cdb[1] & 0xe0 != 0 {
        return Err(CdbError::InvalidField { byte: 1, bit: Some(7) });
    }
    let (form, lba, blocks) = range(cdb);
    let (dpo, fua) = (cdb[1] & 0x10 != 0, cdb[1] & 0x08 != 0);
    Ok(match cdb[0] {
        opcode::READ_10 | opcode::READ_16 => Cdb::Read { form, lba, blocks, dpo, fua },
        _ => Cdb::Write { form, lba, blocks, dpo, fua },
    })
}

fn range(cdb: &[u8; 16]) -> (BlockForm, u64, u32) {
    match cdb_len(cdb[0]) {
        10 => (BlockForm::Ten, u64::from(be::u32_at(cdb, 2)), u32::from(be::u16_at(cdb, 7))),
        _ => (BlockForm::Sixteen, be::u64_at(cdb, 2), be::u32_at(cdb, 10)),
    }
}

fn put_range(cdb: &mut [u8; 16], opcodes: [u8; 2], form: BlockForm, lba: u64, blocks: u32) {
    match form {
        BlockForm::Ten => {
            cdb[0] = opcodes[0];
            be::put_u32(cdb, 2, u32::try_from(lba).expect("ten bytes hold addresses up to 2^32 - 1"));
            be::put_u16(cdb, 7, u16::try_from(blocks).expect("ten bytes hold counts up to 65535"));
        }
        BlockForm::Sixteen => {
            cdb[0] = opcodes[1];
            be::put_u64(cdb, 2, lba);
            be::put_u32(cdb, 10, blocks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The CDB `hex` reads as `expected`, which writes the same bytes.
    #[track_caller]
    fn check(hex: &str, expected: Cdb) {
        let cdb = cdb(hex);
        assert_eq!(Cdb::parse(&cdb), Ok(expected));
        assert_eq!(expected.emit(), cdb);
    }

    fn cdb(hex: &str) -> [u8; 16] {
        let mut cdb = [0; 16];
        let bytes = crate::scsi::check::bytes(hex);
        cdb[..bytes.len()].copy_from_slice(&bytes);
        cdb
    }

    #[track_caller]
    fn refused(hex: &str, byte: u16, bit: Option<u8>) {
        assert_eq!(Cdb::parse(&cdb(hex)), Err(CdbError::InvalidField { byte, bit }));
    }

    #[test]
    fn commands_of_six_bytes() {
        check("00", Cdb::TestUnitReady);
        check("03 01 00 00 fc", Cdb::RequestSense { descriptor: true, allocation_len: 252 });
        check("12 00 00 00 40", Cdb::Inquiry { page: None, allocation_len: 64 });
        check("12 01 83 01 00", Cdb::Inquiry { page: Some(0x83), allocation_len: 256 });
        check(
            "1a 08 3f 00 ff",
            Cdb::ModeSense {
                form: ModeForm::Six,
                dbd: true,
                llbaa: false,
                page_control: PageControl::Current,
                page: 0x3f,
                subpage: 0,
                allocation_len: 255,
            },
        );
    }

    #[test]
    fn commands_of_ten_and_twelve_bytes() {
        check(
            "5a 10 88 02 00 00 00 10 00",
            Cdb::ModeSense {
                form: ModeForm::Ten,
                dbd: false,
                llbaa: true,
                page_control: PageControl::Default,
                page: 8,
                subpage: 2,
                allocation_len: 4096,
            },
        );
        check("25", Cdb::ReadCapacity10);
        let form = BlockForm::Ten;
        check(
            "28 10 00 00 10 00 00 10 00",
            Cdb::Read { form, lba: 4096, blocks: 4096, dpo: true, fua: false },
        );
        check(
            "2a 08 ff ff ff ff 00 00 01",
            Cdb::Write { form, lba: 0xffff_ffff, blocks: 1, dpo: false, fua: true },
        );
        check("35 02 00 00 00 08", Cdb::SynchronizeCache { form, lba: 8, blocks: 0, immed: true });
        check("a0 00 02 00 00 00 00 00 10", Cdb::ReportLuns { select: 2, allocation_len: 0x1000 });
    }

    #[test]
    fn commands_of_sixteen_bytes() {
        check("9e 10 00 00 00 00 00 00 00 00 00 00 00 20", Cdb::ReadCapacity16 { allocation_len: 32 });
        let (form, lba, blocks) = (BlockForm::Sixteen, 1 << 32, 0x1_0000);
        check("88 00 00 00 00 01 00 00 00 00 00 01", Cdb::Read { form, lba, blocks, dpo: false, fua: false });
        check("8a 18 00 00 00 01 00 00 00 00 00 01", Cdb::Write { form, lba, blocks, dpo: true, fua: true });
        check(
            "91 00 00 00 00 01 00 00 00 00 00 01",
            Cdb::SynchronizeCache { form, lba, blocks, immed: false },
        );
        assert_eq!(BlockForm::for_range(lba, 1), form);
        assert_eq!(BlockForm::for_range(lba - 1, blocks - 1), BlockForm::Ten);
    }

    #[test]
    fn what_is_not_supported_is_pointed_at() {
        assert_eq!(Cdb::parse(&cdb("04")), Err(CdbError::UnsupportedOpcode(0x04)));
        refused("28 20", 1, Some(7));
        refused("8a 80", 1, Some(7));
        refused("9e 12", 1, Some(4));
        refused("12 00 80", 2, None);
        refused("12 02", 1, Some(1));
        refused("00 00 00 00 00 04", 5, Some(2));
        refused("2a 00 00 00 00 00 00 00 00 04", 9, Some(2));
        refused("a0 00 00 00 00 00 00 00 00 00 00 04", 11, Some(2));
        refused("88 00 00 00 00 00 00 00 00 00 00 00 00 00 00 04", 15, Some(2));
    }

    #[test]
    fn reserved_and_obsolete_bits_are_ignored() {
        // RARC, FUA_NV, RELADR, the group number, and bytes behind the CDB.
        let read = Cdb::parse(&cdb("28 07 00 00 00 00 1f 00 01 c0 ff ff ff ff ff ff"));
        assert_eq!(read, Ok(Cdb::Read { form: BlockForm::Ten, lba: 0, blocks: 1, dpo: false, fua: false }));
    }
}
