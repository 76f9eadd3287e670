//! Command descriptor blocks: SPC-5 sections 4.2.5 and 6, SBC-4 section 5.
//!
//! iSCSI carries every CDB in 16 bytes; those behind a shorter CDB are not looked at. `parse` and `emit` are
//! the two directions, `opcode` the numbers.

mod emit;
pub mod opcode;
mod parse;

#[cfg(test)]
mod tests;

pub use parse::cdb_len;

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
    /// MODE SELECT: SPC-5 sections 6.12 and 6.13. `save` asks to keep the values over a power cycle.
    ModeSelect { form: ModeForm, page_format: bool, save: bool, list_len: u16 },
    /// READ CAPACITY (10): SBC-4 section 5.20.
    ReadCapacity10,
    /// READ CAPACITY (16): SBC-4 section 5.21.
    ReadCapacity16 { allocation_len: u32 },
    /// GET LBA STATUS: SBC-4 section 5.9.
    GetLbaStatus { lba: u64, allocation_len: u32 },
    /// REPORT LUNS: SPC-5 section 6.33. `select` is the SELECT REPORT field.
    ReportLuns { select: u8, allocation_len: u32 },
    /// REPORT SUPPORTED OPERATION CODES: SPC-5 section 6.35. `options` is the REPORTING OPTIONS field,
    /// `timeouts` asks for timeouts descriptors.
    ReportOpcodes { timeouts: bool, options: u8, opcode: u8, service_action: u16, allocation_len: u32 },
    /// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS: SPC-5 section 6.36. `extended` asks for the long form.
    ReportTaskManagement { extended: bool, allocation_len: u32 },
    /// READ: SBC-4 sections 5.14 to 5.17. In six bytes there are 1 to 256 blocks.
    Read { form: BlockForm, lba: u64, blocks: u32, dpo: bool, fua: bool },
    /// WRITE: SBC-4 sections 5.39 to 5.42. In six bytes there are 1 to 256 blocks.
    Write { form: BlockForm, lba: u64, blocks: u32, dpo: bool, fua: bool },
    /// VERIFY: SBC-4 sections 5.35 to 5.37.
    Verify { form: BlockForm, lba: u64, blocks: u32, dpo: bool, check: ByteCheck },
    /// WRITE AND VERIFY: SBC-4 sections 5.44 to 5.46. `compare` requests a comparison of the written blocks.
    WriteAndVerify { form: BlockForm, lba: u64, blocks: u32, dpo: bool, compare: bool },
    /// PRE-FETCH: SBC-4 sections 5.10 and 5.11. `blocks` 0 means to the end.
    PreFetch { form: BlockForm, lba: u64, blocks: u32, immed: bool },
    /// SYNCHRONIZE CACHE: SBC-4 sections 5.33 and 5.34. `blocks` 0 means to the end; `immed` asks for the status
    /// before it is done.
    SynchronizeCache { form: BlockForm, lba: u64, blocks: u32, immed: bool },
    /// WRITE SAME: SBC-4 sections 5.48 and 5.49. `no_data` (NDOB) sends no block and means zeros.
    WriteSame { form: BlockForm, lba: u64, blocks: u32, unmap: bool, no_data: bool },
    /// COMPARE AND WRITE: SBC-4 section 5.3.
    CompareAndWrite { lba: u64, blocks: u8, dpo: bool, fua: bool },
    /// ORWRITE (16): SBC-4 section 5.12. Bitwise OR of the sent and the stored data.
    OrWrite { lba: u64, blocks: u32, dpo: bool, fua: bool },
    /// UNMAP: SBC-4 section 5.32.
    Unmap { list_len: u16 },
    /// START STOP UNIT: SBC-4 section 5.31.
    StartStop { immed: bool, power_condition: u8, load_eject: bool, start: bool },
    /// PREVENT ALLOW MEDIUM REMOVAL: SBC-4 section 5.13. `prevent` has two bits.
    PreventAllow { prevent: u8 },
    /// RESERVE: SPC-2 sections 7.21 and 7.22, the whole logical unit for the sender.
    Reserve { form: ModeForm },
    /// RELEASE: SPC-2 sections 7.16 and 7.17.
    Release { form: ModeForm },
    /// PERSISTENT RESERVE IN: SPC-5 section 6.16.
    PersistentReserveIn { action: ReserveIn, allocation_len: u16 },
    /// PERSISTENT RESERVE OUT: SPC-5 section 6.17. `scope` and `kind` have four bits each.
    PersistentReserveOut { action: ReserveOut, scope: u8, kind: u8, list_len: u32 },
}

/// Bytes of a CDB that addresses blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockForm {
    /// 21-bit addresses, 8-bit counts.
    Six,
    /// 32-bit addresses, 16-bit counts.
    Ten,
    /// 32-bit addresses, 32-bit counts.
    Twelve,
    /// 64-bit addresses, 32-bit counts.
    Sixteen,
}

impl BlockForm {
    /// The shorter form of ten and sixteen bytes that holds an address and a count.
    pub const fn for_range(lba: u64, blocks: u32) -> Self {
        if lba <= u32::MAX as u64 && blocks <= u16::MAX as u32 { Self::Ten } else { Self::Sixteen }
    }

    /// Offset of the number of blocks.
    pub const fn blocks_byte(self) -> u16 {
        match self {
            Self::Six => 4,
            Self::Ten => 7,
            Self::Twelve => 6,
            Self::Sixteen => 10,
        }
    }
}

/// BYTCHK of VERIFY: the data that the blocks are compared with (SBC-4 table 122).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ByteCheck {
    /// No data: the blocks must be readable.
    Nothing = 0,
    /// Equal number of blocks from the initiator.
    Blocks = 1,
    /// One block from the initiator, for each of the blocks.
    OneBlock = 3,
}

/// Service actions of PERSISTENT RESERVE IN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names of SPC-5 table 237")]
pub enum ReserveIn {
    ReadKeys = 0,
    ReadReservation = 1,
    ReportCapabilities = 2,
    ReadFullStatus = 3,
}

/// Service actions of PERSISTENT RESERVE OUT that are known here; REGISTER AND MOVE and REPLACE LOST
/// RESERVATION are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names of SPC-5 table 249")]
pub enum ReserveOut {
    Register = 0,
    Reserve = 1,
    Release = 2,
    Clear = 3,
    Preempt = 4,
    PreemptAndAbort = 5,
    RegisterAndIgnore = 6,
}

/// Length of a CDB with a form of six and one of ten bytes; for MODE SENSE and MODE SELECT it also decides the header
/// of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ModeForm {
    /// Up to 255 bytes of data.
    Six,
    /// Up to 65535 bytes of data.
    Ten,
}

/// PC of MODE SENSE, the kind of mode page values: SPC-5 section 6.14.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageControl {
    /// In effect now.
    Current = 0,
    /// Mask of the bits that MODE SELECT can change.
    Changeable = 1,
    /// Default values.
    Default = 2,
    /// Kept over a power cycle.
    Saved = 3,
}

/// Reasons why a CDB is refused. Both become ILLEGAL REQUEST; see the conversion to [`Sense`](super::Sense).
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
        /// Its most significant bit, if it is less than a byte.
        bit: Option<u8>,
    },
}
