//! Vital product data: the frame of every page, and the small pages: SPC-5 section 7.7, SBC-4 section 6.6.
//!
//! Pages are written for a connected direct access block device (byte 0 is zero).

use super::DataError;
use super::data::{ascii, need};
use crate::be;

/// Page codes.
pub mod page {
    /// Supported VPD pages.
    pub const SUPPORTED_PAGES: u8 = 0x00;
    /// Serial number.
    pub const UNIT_SERIAL_NUMBER: u8 = 0x80;
    /// Device identification.
    pub const DEVICE_IDENTIFICATION: u8 = 0x83;
    /// Task attributes and caches.
    pub const EXTENDED_INQUIRY: u8 = 0x86;
    /// Transfer sizes.
    pub const BLOCK_LIMITS: u8 = 0xb0;
    /// Rotation rate and form.
    pub const BLOCK_DEVICE_CHARACTERISTICS: u8 = 0xb1;
    /// Logical block provisioning: support of unmapping, and data of unmapped blocks.
    pub const LOGICAL_BLOCK_PROVISIONING: u8 = 0xb2;
}

/// A vital product data page.
pub trait VpdPage: Sized {
    /// Page code.
    const CODE: u8;

    /// Appends the bytes behind the four bytes of page header.
    fn emit_body(&self, bytes: &mut Vec<u8>);

    /// Reads the bytes behind the page header.
    ///
    /// # Errors
    /// [`DataError`] if the contents are truncated or contradict themselves; offsets count from the body.
    fn parse_body(body: &[u8]) -> Result<Self, DataError>;

    /// The whole page; a caller cuts it off at the allocation length.
    ///
    /// # Panics
    /// If the page is longer than 65535 bytes.
    fn emit(&self) -> Vec<u8> {
        let mut bytes = vec![0, Self::CODE, 0, 0];
        self.emit_body(&mut bytes);
        let len = u16::try_from(bytes.len() - 4).expect("a page has at most 65535 bytes");
        be::put_u16(&mut bytes, 2, len);
        bytes
    }

    /// Reads a whole page.
    ///
    /// # Errors
    /// [`DataError`] if it is another page, or cut off.
    fn parse(bytes: &[u8]) -> Result<Self, DataError> {
        const WHAT: &str = "vital product data page";
        need(WHAT, bytes, 4)?;
        if bytes[1] != Self::CODE {
            let found = u64::from(bytes[1]);
            return Err(DataError::Value {
                what: WHAT,
                at: 1,
                expected: "the page code that was asked for",
                found,
            });
        }
        let end = 4 + usize::from(be::u16_at(bytes, 2));
        need(WHAT, bytes, end)?;
        Self::parse_body(&bytes[4..end])
    }
}

/// Page 00h: SPC-5 section 7.7.16.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupportedPages {
    /// Page codes, ascending.
    pub pages: Vec<u8>,
}

impl VpdPage for SupportedPages {
    const CODE: u8 = page::SUPPORTED_PAGES;

    fn emit_body(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.pages);
    }

    fn parse_body(body: &[u8]) -> Result<Self, DataError> {
        Ok(Self { pages: body.to_vec() })
    }
}

/// Page 80h: SPC-5 section 7.7.19.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSerialNumber {
    /// ASCII.
    pub serial: String,
}

impl VpdPage for UnitSerialNumber {
    const CODE: u8 = page::UNIT_SERIAL_NUMBER;

    fn emit_body(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.serial.as_bytes());
    }

    fn parse_body(body: &[u8]) -> Result<Self, DataError> {
        // Some pad on the left.
        Ok(Self { serial: ascii(body).trim_start().to_owned() })
    }
}

/// Page 86h: SPC-5 section 7.7.7. Only the fields that this project sets; the rest is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedInquiry {
    /// SIMPSUP: tasks with the attribute SIMPLE.
    pub simple_tasks: bool,
    /// V_SUP: volatile cache supported.
    pub volatile_cache: bool,
}

impl VpdPage for ExtendedInquiry {
    const CODE: u8 = page::EXTENDED_INQUIRY;

    fn emit_body(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&[0, u8::from(self.simple_tasks), u8::from(self.volatile_cache)]);
        bytes.extend_from_slice(&[0; 57]);
    }

    fn parse_body(body: &[u8]) -> Result<Self, DataError> {
        need("extended INQUIRY data page", body, 3)?;
        Ok(Self { simple_tasks: body[1] & 0x01 != 0, volatile_cache: body[2] & 0x01 != 0 })
    }
}

/// Page B1h: SBC-4 section 6.6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDeviceCharacteristics {
    /// Rotations per minute; 0 not reported, 1 no rotating medium.
    pub rotation_rate: u16,
    /// Nominal form factor, 4 bits; 0 not reported.
    pub form_factor: u8,
}

impl VpdPage for BlockDeviceCharacteristics {
    const CODE: u8 = page::BLOCK_DEVICE_CHARACTERISTICS;

    fn emit_body(&self, bytes: &mut Vec<u8>) {
        assert!(self.form_factor < 16, "form factor {}", self.form_factor);
        bytes.extend_from_slice(&self.rotation_rate.to_be_bytes());
        bytes.extend_from_slice(&[0, self.form_factor]);
        bytes.extend_from_slice(&[0; 56]);
    }

    fn parse_body(body: &[u8]) -> Result<Self, DataError> {
        need("block device characteristics page", body, 4)?;
        Ok(Self { rotation_rate: be::u16_at(body, 0), form_factor: body[3] & 0x0f })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{bytes, check};

    #[test]
    fn small_pages() {
        let pages = SupportedPages { pages: vec![0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2] };
        // As tgt has it.
        check("00000006 008083b0b1b2", &pages, SupportedPages::parse, SupportedPages::emit);
        let serial = UnitSerialNumber { serial: "f00d".into() };
        check("00800004 66303064", &serial, UnitSerialNumber::parse, UnitSerialNumber::emit);
        assert_eq!(UnitSerialNumber::parse(&bytes("00800006 202066303064")), Ok(serial));
        let extended = ExtendedInquiry { simple_tasks: true, volatile_cache: true };
        let hex = ["0086003c 000101", &"00".repeat(57)].concat();
        check(&hex, &extended, ExtendedInquiry::parse, ExtendedInquiry::emit);
        let solid = BlockDeviceCharacteristics { rotation_rate: 1, form_factor: 0 };
        let hex = ["00b1003c 0001", &"00".repeat(58)].concat();
        check(&hex, &solid, BlockDeviceCharacteristics::parse, BlockDeviceCharacteristics::emit);
    }

    #[test]
    fn another_page_and_a_cut_off_one_are_refused() {
        let error = UnitSerialNumber::parse(&[0, 0, 0, 0]).expect_err("page 0");
        let text = "vital product data page has 0x00 in byte 1, expected the page code that was asked for";
        assert_eq!(error.to_string(), text);
        let error = SupportedPages::parse(&[0, 0, 1, 0, 0]).expect_err("cut off");
        assert_eq!(error.to_string(), "vital product data page has 5 bytes, expected at least 260");
    }
}
