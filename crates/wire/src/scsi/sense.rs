//! Sense data, fixed and descriptor format: SPC-5 section 4.4.
//!
//! Of the sense-key specific data only the field pointer is kept, of the descriptors only information and
//! sense-key specific.

use super::{CdbError, sense_names};
use crate::be;

/// Sense key, the class of an error: SPC-5 section 4.4.3 table 49.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names of SPC-5")]
pub enum SenseKey {
    NoSense = 0x0,
    RecoveredError = 0x1,
    NotReady = 0x2,
    MediumError = 0x3,
    HardwareError = 0x4,
    IllegalRequest = 0x5,
    UnitAttention = 0x6,
    DataProtect = 0x7,
    BlankCheck = 0x8,
    VendorSpecific = 0x9,
    CopyAborted = 0xa,
    AbortedCommand = 0xb,
    Reserved = 0xc,
    VolumeOverflow = 0xd,
    Miscompare = 0xe,
    Completed = 0xf,
}

impl SenseKey {
    const ALL: [(Self, &'static str); 16] = [
        (Self::NoSense, "NO SENSE"),
        (Self::RecoveredError, "RECOVERED ERROR"),
        (Self::NotReady, "NOT READY"),
        (Self::MediumError, "MEDIUM ERROR"),
        (Self::HardwareError, "HARDWARE ERROR"),
        (Self::IllegalRequest, "ILLEGAL REQUEST"),
        (Self::UnitAttention, "UNIT ATTENTION"),
        (Self::DataProtect, "DATA PROTECT"),
        (Self::BlankCheck, "BLANK CHECK"),
        (Self::VendorSpecific, "VENDOR SPECIFIC"),
        (Self::CopyAborted, "COPY ABORTED"),
        (Self::AbortedCommand, "ABORTED COMMAND"),
        (Self::Reserved, "RESERVED"),
        (Self::VolumeOverflow, "VOLUME OVERFLOW"),
        (Self::Miscompare, "MISCOMPARE"),
        (Self::Completed, "COMPLETED"),
    ];

    /// The key in the low four bits of a byte.
    pub const fn from_low_bits(byte: u8) -> Self {
        Self::ALL[(byte & 0x0f) as usize].0
    }
}

/// Position of an illegal field: SPC-5 section 4.4.2.4.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldPointer {
    /// The field's first byte.
    pub byte: u16,
    /// Its most significant bit, 0 … 7, if it is less than a byte.
    pub bit: Option<u8>,
    /// In the CDB, else in the parameter list.
    pub in_cdb: bool,
}

/// Sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sense {
    /// Sense key.
    pub key: SenseKey,
    /// Additional sense code.
    pub asc: u8,
    /// Additional sense code qualifier.
    pub ascq: u8,
    /// True for a deferred error: it is about an earlier command, whose status was sent already.
    pub deferred: bool,
    /// Position of the illegal field, of an ILLEGAL REQUEST.
    pub field: Option<FieldPointer>,
    /// INFORMATION: usually the first LBA that failed.
    pub information: Option<u64>,
}

/// Sense data that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SenseError {
    /// Too short to hold a sense key.
    #[error("sense data has {found} bytes, expected at least {expected}")]
    Truncated {
        /// Bytes up to the sense key.
        expected: usize,
        /// Bytes that are there.
        found: usize,
    },
    /// Neither fixed nor descriptor format.
    #[error("sense data has response code {found:02X}h, expected 70h to 73h")]
    ResponseCode {
        /// The seven-bit code.
        found: u8,
    },
}

/// Additional sense codes with a name in code, and their words in SPC-5 annex F; `sense_names` has further ones.
macro_rules! conditions {
    ($($(#[$meta:meta])* $name:ident = $key:ident, $asc:literal, $ascq:literal, $text:literal;)+) => {
        impl Sense {
            $($(#[$meta])* pub const $name: Self = Self::new(SenseKey::$key, $asc, $ascq);)+
        }

        /// The words of a code.
        fn condition(asc: u8, ascq: u8) -> Option<&'static str> {
            match (asc, ascq) {
                $(($asc, $ascq) => Some($text),)+
                _ => sense_names::text(asc, ascq),
            }
        }
    };
}

conditions! {
    /// No sense: nothing to report.
    NO_SENSE = NoSense, 0x00, 0x00, "no additional sense information";
    /// The logical unit is becoming ready.
    BECOMING_READY = NotReady, 0x04, 0x01, "logical unit is in process of becoming ready";
    /// Data could not be written.
    WRITE_ERROR = MediumError, 0x0c, 0x00, "write error";
    /// Data could not be read.
    READ_ERROR = MediumError, 0x11, 0x00, "unrecovered read error";
    /// A parameter list is shorter than its length field.
    PARAMETER_LIST_LENGTH = IllegalRequest, 0x1a, 0x00, "parameter list length error";
    /// The blocks differ from the initiator's data; [`Sense::with_information`] has the offset.
    MISCOMPARE = Miscompare, 0x1d, 0x00, "miscompare during verify operation";
    /// Unknown operation code.
    INVALID_OPCODE = IllegalRequest, 0x20, 0x00, "invalid command operation code";
    /// Blocks behind the end.
    LBA_OUT_OF_RANGE = IllegalRequest, 0x21, 0x00, "logical block address out of range";
    /// A field of the CDB; [`Sense::invalid_field`] adds its position.
    INVALID_FIELD_IN_CDB = IllegalRequest, 0x24, 0x00, "invalid field in CDB";
    /// No such logical unit.
    LUN_NOT_SUPPORTED = IllegalRequest, 0x25, 0x00, "logical unit not supported";
    /// A field of the parameter list.
    INVALID_FIELD_IN_PARAMETER_LIST = IllegalRequest, 0x26, 0x00, "invalid field in parameter list";
    /// A persistent reservation is released by other means than it was made.
    INVALID_RELEASE = IllegalRequest, 0x26, 0x04, "invalid release of persistent reservation";
    /// The logical unit is read-only.
    WRITE_PROTECTED = DataProtect, 0x27, 0x00, "write protected";
    /// The store behind a thin logical unit is full.
    SPACE_ALLOCATION_FAILED = DataProtect, 0x27, 0x07, "space allocation failed write protect";
    /// The first command of a new session.
    POWER_ON = UnitAttention, 0x29, 0x00, "power on, reset, or bus device reset occurred";
    /// The logical unit was reset.
    RESET = UnitAttention, 0x29, 0x03, "bus device reset function occurred";
    /// The session that held tasks was lost.
    NEXUS_LOSS = UnitAttention, 0x29, 0x07, "I_T nexus loss occurred";
    /// MODE SELECT of another session changed something.
    MODE_PARAMETERS_CHANGED = UnitAttention, 0x2a, 0x01, "mode parameters changed";
    /// The session's persistent reservation was taken by another.
    RESERVATIONS_PREEMPTED = UnitAttention, 0x2a, 0x03, "reservations preempted";
    /// A persistent reservation that let registered sessions pass was released.
    RESERVATIONS_RELEASED = UnitAttention, 0x2a, 0x04, "reservations released";
    /// The session's registration was removed by another.
    REGISTRATIONS_PREEMPTED = UnitAttention, 0x2a, 0x05, "registrations preempted";
    /// The size changed.
    CAPACITY_CHANGED = UnitAttention, 0x2a, 0x09, "capacity data has changed";
    /// Another initiator aborted the task.
    CLEARED_BY_ANOTHER = UnitAttention, 0x2f, 0x00, "commands cleared by another initiator";
    /// Mode pages cannot be saved.
    SAVING_NOT_SUPPORTED = IllegalRequest, 0x39, 0x00, "saving parameters not supported";
    /// Medium not present.
    MEDIUM_NOT_PRESENT = NotReady, 0x3a, 0x00, "medium not present";
    /// The set of LUNs has changed.
    REPORTED_LUNS_CHANGED = UnitAttention, 0x3f, 0x0e, "reported LUNs data has changed";
    /// The store behind the logical unit failed.
    INTERNAL_FAILURE = HardwareError, 0x44, 0x00, "internal target failure";
    /// A data digest was wrong (RFC 7143 section 11.4.7.2).
    PROTOCOL_SERVICE_CRC_ERROR = AbortedCommand, 0x47, 0x05, "protocol service CRC error";
    /// The direction of the command's data contradicts the initiator's flags.
    WRONG_DIRECTION = IllegalRequest, 0x0e, 0x03, "invalid field in command information unit";
    /// Data did not arrive whole.
    DATA_PHASE_ERROR = AbortedCommand, 0x4b, 0x00, "data phase error";
    /// Two tasks with one tag.
    OVERLAPPED_COMMANDS = AbortedCommand, 0x4e, 0x00, "overlapped commands attempted";
    /// Out of memory or tasks.
    INSUFFICIENT_RESOURCES = IllegalRequest, 0x55, 0x03, "insufficient resources";
    /// No room for another registration.
    INSUFFICIENT_REGISTRATION_RESOURCES = IllegalRequest, 0x55, 0x04, "insufficient registration resources";
    /// Unsolicited data that was not allowed (RFC 7143 section 11.4.7.2).
    UNEXPECTED_UNSOLICITED_DATA = AbortedCommand, 0x0c, 0x0c, "write error - unexpected unsolicited data";
    /// Another amount of data than announced (RFC 7143 section 11.4.7.2).
    NOT_ENOUGH_UNSOLICITED_DATA = AbortedCommand, 0x0c, 0x0d, "write error - not enough unsolicited data";
}

/// Sense-key specific data of a field pointer: the three bytes of SPC-5 table 30.
const VALID: u8 = 0x80;
const IN_CDB: u8 = 0x40;
const BIT_VALID: u8 = 0x08;

const INFORMATION_DESCRIPTOR: u8 = 0x00;
const SENSE_KEY_SPECIFIC_DESCRIPTOR: u8 = 0x02;

impl Sense {
    /// Bytes of fixed format as [`Sense::emit_fixed`] writes it.
    pub const FIXED_LEN: usize = 18;

    /// Sense data of the current command, without field pointer and information.
    pub const fn new(key: SenseKey, asc: u8, ascq: u8) -> Self {
        Self { key, asc, ascq, deferred: false, field: None, information: None }
    }

    /// ILLEGAL REQUEST, invalid field in CDB, with a pointer: the field's first byte, and its most significant
    /// bit if it is not a whole byte.
    pub const fn invalid_field(byte: u16, bit: Option<u8>) -> Self {
        let field = Some(FieldPointer { byte, bit, in_cdb: true });
        Self { field, ..Self::INVALID_FIELD_IN_CDB }
    }

    /// ILLEGAL REQUEST, invalid field in parameter list, with a pointer like that of [`Sense::invalid_field`].
    pub const fn invalid_parameter(byte: u16, bit: Option<u8>) -> Self {
        let field = Some(FieldPointer { byte, bit, in_cdb: false });
        Self { field, ..Self::INVALID_FIELD_IN_PARAMETER_LIST }
    }

    /// The same sense with INFORMATION, usually the first LBA that failed.
    pub const fn with_information(self, information: u64) -> Self {
        Self { information: Some(information), ..self }
    }

    /// Fixed format: SPC-5 section 4.4.3. Information above 2^32 − 1 does not fit and is left out.
    pub fn emit_fixed(&self) -> [u8; Self::FIXED_LEN] {
        let mut bytes = [0; Self::FIXED_LEN];
        bytes[0] = 0x70 | u8::from(self.deferred);
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            bytes[0] |= VALID;
            be::put_u32(&mut bytes, 3, information);
        }
        bytes[2] = self.key as u8;
        bytes[7] = (Self::FIXED_LEN - 8) as u8;
        bytes[12] = self.asc;
        bytes[13] = self.ascq;
        if let Some(field) = self.field {
            bytes[15..18].copy_from_slice(&field.emit());
        }
        bytes
    }

    /// Descriptor format: SPC-5 section 4.4.2.
    pub fn emit_descriptor(&self) -> Vec<u8> {
        let mut bytes = vec![0x72 | u8::from(self.deferred), self.key as u8, self.asc, self.ascq, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend_from_slice(&[INFORMATION_DESCRIPTOR, 10, VALID, 0]);
            bytes.extend_from_slice(&information.to_be_bytes());
        }
        if let Some(field) = self.field {
            bytes.extend_from_slice(&[SENSE_KEY_SPECIFIC_DESCRIPTOR, 6, 0, 0]);
            bytes.extend_from_slice(&field.emit());
            bytes.push(0);
        }
        bytes[7] = (bytes.len() - 8) as u8;
        bytes
    }

    /// Reads either format. Data truncated behind the sense key yield the fields that are there.
    ///
    /// # Errors
    /// [`SenseError`] if there is no sense key.
    pub fn parse(bytes: &[u8]) -> Result<Self, SenseError> {
        let truncated = |expected| SenseError::Truncated { expected, found: bytes.len() };
        let code = bytes.first().ok_or(truncated(1))? & 0x7f;
        let mut sense = match code {
            0x70 | 0x71 => parse_fixed(bytes).ok_or(truncated(3))?,
            0x72 | 0x73 => parse_descriptor(bytes).ok_or(truncated(2))?,
            found => return Err(SenseError::ResponseCode { found }),
        };
        sense.deferred = code & 0x01 != 0;
        Ok(sense)
    }
}

impl From<CdbError> for Sense {
    fn from(error: CdbError) -> Self {
        match error {
            CdbError::UnsupportedOpcode(_) => Self::INVALID_OPCODE,
            CdbError::InvalidField { byte, bit } => Self::invalid_field(byte, bit),
        }
    }
}

impl std::fmt::Display for SenseKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

impl std::fmt::Display for Sense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, ", self.key)?;
        match condition(self.asc, self.ascq) {
            Some(text) => f.write_str(text)?,
            None => write!(f, "additional sense {:02X}h/{:02X}h", self.asc, self.ascq)?,
        }
        match self.field {
            Some(FieldPointer { byte, bit: Some(bit), .. }) => write!(f, " (byte {byte} bit {bit})")?,
            Some(FieldPointer { byte, bit: None, .. }) => write!(f, " (byte {byte})")?,
            None => (),
        }
        if let Some(information) = self.information {
            write!(f, " (at {information})")?;
        }
        if self.deferred {
            f.write_str(" (of an earlier command)")?;
        }
        Ok(())
    }
}

impl FieldPointer {
    fn emit(self) -> [u8; 3] {
        let [high, low] = self.byte.to_be_bytes();
        let mut first = VALID;
        if self.in_cdb {
            first |= IN_CDB;
        }
        if let Some(bit) = self.bit {
            assert!(bit < 8, "a byte has no bit {bit}");
            first |= BIT_VALID | bit;
        }
        [first, high, low]
    }

    /// None unless the bytes are a field pointer of an illegal request; other keys have other contents there.
    fn parse(key: SenseKey, bytes: &[u8]) -> Option<Self> {
        let &[first, high, low] = bytes.first_chunk()?;
        (key == SenseKey::IllegalRequest && first & VALID != 0).then(|| Self {
            byte: u16::from_be_bytes([high, low]),
            bit: (first & BIT_VALID != 0).then_some(first & 0x07),
            in_cdb: first & IN_CDB != 0,
        })
    }
}

fn parse_fixed(bytes: &[u8]) -> Option<Sense> {
    let key = SenseKey::from_low_bits(*bytes.get(2)?);
    // Nothing counts behind the additional sense length.
    let end = bytes.get(7).map_or(bytes.len(), |&len| bytes.len().min(8 + usize::from(len)));
    let bytes = &bytes[..end];
    let mut sense = Sense::new(key, bytes.get(12).copied().unwrap_or(0), bytes.get(13).copied().unwrap_or(0));
    if bytes[0] & VALID != 0 && bytes.len() >= 7 {
        sense.information = Some(u64::from(be::u32_at(bytes, 3)));
    }
    sense.field = bytes.get(15..18).and_then(|specific| FieldPointer::parse(key, specific));
    Some(sense)
}

fn parse_descriptor(bytes: &[u8]) -> Option<Sense> {
    let key = SenseKey::from_low_bits(*bytes.get(1)?);
    let mut sense = Sense::new(key, bytes.get(2).copied().unwrap_or(0), bytes.get(3).copied().unwrap_or(0));
    let len = bytes.get(7).map_or(0, |&len| usize::from(len));
    let mut rest = bytes.get(8..).unwrap_or(&[]);
    rest = &rest[..rest.len().min(len)];
    while let &[kind, len, ..] = rest {
        let Some((descriptor, behind)) = rest.split_at_checked(2 + usize::from(len)) else { break };
        match (kind, descriptor.len()) {
            (INFORMATION_DESCRIPTOR, 12..) if descriptor[2] & VALID != 0 => {
                sense.information = Some(be::u64_at(descriptor, 4));
            }
            (SENSE_KEY_SPECIFIC_DESCRIPTOR, 7..) => sense.field = FieldPointer::parse(key, &descriptor[4..]),
            _ => (),
        }
        rest = behind;
    }
    Some(sense)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{bytes, check};

    #[track_caller]
    fn check_fixed(hex: &str, sense: Sense) {
        check(hex, &sense, Sense::parse, |sense| sense.emit_fixed().to_vec());
    }

    #[test]
    fn fixed_format() {
        // Tgt's answer to the first command of a session.
        check_fixed("700006000000000a 00000000 2900 00000000", Sense::POWER_ON);
        check_fixed("700005000000000a 00000000 2400 00c00002", Sense::invalid_field(2, None));
        check_fixed("700005000000000a 00000000 2400 00cf0001", Sense::invalid_field(1, Some(7)));
        check_fixed("f00003000010000a 00000000 1100 00000000", Sense::READ_ERROR.with_information(0x1000));
        check_fixed(
            "710003000000000a 00000000 0c00 00000000",
            Sense { deferred: true, ..Sense::WRITE_ERROR },
        );
        let parsed = Sense::parse(&bytes("7000050000000006 00000000 2000 00c00002"));
        assert_eq!(parsed, Ok(Sense::INVALID_OPCODE), "bytes behind the additional length do not count");
    }

    #[test]
    fn descriptor_format() {
        let check = |hex, sense: Sense| check(hex, &sense, Sense::parse, Sense::emit_descriptor);
        check("7205200000000000", Sense::INVALID_OPCODE);
        check("7205240000000008 02060000 ca0008 00", Sense::invalid_field(8, Some(2)));
        check("720311000000000c 000a8000 0000000100000000", Sense::READ_ERROR.with_information(1 << 32));
        check("7303110000000000", Sense { deferred: true, ..Sense::READ_ERROR });
    }

    #[test]
    fn unknown_descriptors_are_skipped() {
        let parsed = Sense::parse(&bytes("7205240000000010 03020000 8002ff00 02060000 c0000100"));
        assert_eq!(parsed, Ok(Sense::invalid_field(1, None)));
    }

    #[test]
    fn fixed_format_has_no_room_for_large_information() {
        let sense = Sense::READ_ERROR.with_information(1 << 32);
        assert_eq!(Sense::parse(&sense.emit_fixed()), Ok(Sense::READ_ERROR));
    }

    #[test]
    fn cut_off_data_gives_what_is_there() {
        assert_eq!(Sense::parse(&[0x70, 0, 2]), Ok(Sense::new(SenseKey::NotReady, 0, 0)));
        assert_eq!(Sense::parse(&[0x72, 2, 0x3a]), Ok(Sense::MEDIUM_NOT_PRESENT));
        assert_eq!(Sense::parse(&[]), Err(SenseError::Truncated { expected: 1, found: 0 }));
        assert_eq!(Sense::parse(&[0x70, 0]), Err(SenseError::Truncated { expected: 3, found: 2 }));
        assert_eq!(Sense::parse(&[0x7f; 18]), Err(SenseError::ResponseCode { found: 0x7f }));
    }

    #[test]
    fn other_keys_have_no_field_pointer() {
        let mut bytes = Sense::invalid_field(2, None).emit_fixed();
        bytes[2] = SenseKey::NotReady as u8;
        assert_eq!(Sense::parse(&bytes).map(|sense| sense.field), Ok(None));
    }

    #[test]
    fn text_names_key_condition_and_place() {
        let text = Sense::invalid_field(2, None).to_string();
        assert_eq!(text, "ILLEGAL REQUEST, invalid field in CDB (byte 2)");
        let text = Sense::from(CdbError::InvalidField { byte: 1, bit: Some(7) }).to_string();
        assert_eq!(text, "ILLEGAL REQUEST, invalid field in CDB (byte 1 bit 7)");
        let text = Sense { deferred: true, ..Sense::WRITE_ERROR.with_information(7) }.to_string();
        assert_eq!(text, "MEDIUM ERROR, write error (at 7) (of an earlier command)");
        let text = Sense::new(SenseKey::VendorSpecific, 0x81, 0x0f).to_string();
        assert_eq!(text, "VENDOR SPECIFIC, additional sense 81h/0Fh");
    }
}
