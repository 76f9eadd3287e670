//! Standard INQUIRY data: SPC-5 section 6.7.2.

use super::DataError;
use super::data::{ascii, need, put_ascii};
use crate::be;

const WHAT: &str = "standard INQUIRY data";

/// Standard INQUIRY data of a logical unit. Text fields are ASCII without the spaces that pad them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandardInquiry {
    /// Peripheral qualifier, 3 bits: 0 connected, 1 not connected, 3 no such logical unit.
    pub qualifier: u8,
    /// Peripheral device type, 5 bits: 0 direct access block device, 0x1f unknown.
    pub device_type: u8,
    /// RMB: the medium can be removed.
    pub removable: bool,
    /// Version: 6 is SPC-4, 7 is SPC-5.
    pub version: u8,
    /// HISUP: LUNs are assigned by the hierarchical model.
    pub hierarchical: bool,
    /// PROTECT: protection information can be enabled.
    pub protect: bool,
    /// CMDQUE: several tasks at once.
    pub command_queue: bool,
    /// T10 vendor identification, 8 bytes.
    pub vendor: String,
    /// Product identification, 16 bytes.
    pub product: String,
    /// Product revision level, 4 bytes.
    pub revision: String,
    /// Standards that the logical unit claims; 0 is none.
    pub version_descriptors: [u16; 8],
}

impl StandardInquiry {
    /// Bytes that [`StandardInquiry::emit`] writes.
    pub const LEN: usize = 96;

    /// Least bytes that SPC-5 asks of a logical unit.
    const LEN_MIN: usize = 36;

    /// Writes all 96 bytes; a caller cuts them off at the allocation length.
    ///
    /// # Panics
    /// If the qualifier or the device type does not fit.
    pub fn emit(&self) -> [u8; Self::LEN] {
        assert!(self.qualifier < 8 && self.device_type < 32, "not a peripheral: {self:?}");
        let mut bytes = [0; Self::LEN];
        bytes[0] = self.qualifier << 5 | self.device_type;
        bytes[1] = u8::from(self.removable) << 7;
        bytes[2] = self.version;
        // Response data format 2, the only one since SPC.
        bytes[3] = u8::from(self.hierarchical) << 4 | 0x02;
        bytes[4] = (Self::LEN - 5) as u8;
        bytes[5] = u8::from(self.protect);
        bytes[7] = u8::from(self.command_queue) << 1;
        put_ascii(&self.vendor, &mut bytes[8..16]);
        put_ascii(&self.product, &mut bytes[16..32]);
        put_ascii(&self.revision, &mut bytes[32..36]);
        for (index, &descriptor) in self.version_descriptors.iter().enumerate() {
            be::put_u16(&mut bytes, 58 + 2 * index, descriptor);
        }
        bytes
    }

    /// Reads 36 bytes or more.
    ///
    /// # Errors
    /// [`DataError::Truncated`] below 36 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, DataError> {
        need(WHAT, bytes, Self::LEN_MIN)?;
        let mut version_descriptors = [0; 8];
        for (descriptor, field) in
            version_descriptors.iter_mut().zip(bytes.get(58..).unwrap_or(&[]).chunks_exact(2))
        {
            *descriptor = be::u16_at(field, 0);
        }
        Ok(Self {
            qualifier: bytes[0] >> 5,
            device_type: bytes[0] & 0x1f,
            removable: bytes[1] & 0x80 != 0,
            version: bytes[2],
            hierarchical: bytes[3] & 0x10 != 0,
            protect: bytes[5] & 0x01 != 0,
            command_queue: bytes[7] & 0x02 != 0,
            vendor: ascii(&bytes[8..16]),
            product: ascii(&bytes[16..32]),
            revision: ascii(&bytes[32..36]),
            version_descriptors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{bytes, check};

    fn farlun() -> StandardInquiry {
        StandardInquiry {
            qualifier: 0,
            device_type: 0,
            removable: false,
            version: 6,
            hierarchical: true,
            protect: false,
            command_queue: true,
            vendor: "FARLUN".into(),
            product: "MEMORY".into(),
            revision: "0.1".into(),
            version_descriptors: [0x04c0, 0x0960, 0x0460, 0, 0, 0, 0, 0],
        }
    }

    #[test]
    fn writes_what_it_reads() {
        let head = "00000612 5b000002 4641524c554e2020 4d454d4f525920202020202020202020 302e3120";
        let hex = [head, &"00".repeat(22), "04c0 0960 0460", &"00".repeat(32)].concat();
        check(&hex, &farlun(), StandardInquiry::parse, |inquiry| inquiry.emit().to_vec());
    }

    #[test]
    fn reads_a_disk_of_tgt() {
        let head = "000005123d00000249455420202020205649525455414c2d4449534b2020202030303031";
        let hex = [head, &"00".repeat(22), "04c009600300 0000"].concat();
        let inquiry = StandardInquiry::parse(&bytes(&hex)).expect("66 bytes");
        assert_eq!((inquiry.version, inquiry.hierarchical, inquiry.command_queue), (5, true, true));
        assert_eq!(
            (&*inquiry.vendor, &*inquiry.product, &*inquiry.revision),
            ("IET", "VIRTUAL-DISK", "0001")
        );
        assert_eq!(inquiry.version_descriptors[..4], [0x04c0, 0x0960, 0x0300, 0]);
    }

    #[test]
    fn text_that_does_not_fit_is_cut_off_and_made_ascii() {
        let inquiry = StandardInquiry { vendor: "Bärenstark".into(), ..farlun() };
        assert_eq!(inquiry.emit()[8..16], *b"B?rensta");
    }

    #[test]
    fn impossible_length() {
        let error = StandardInquiry::parse(&[0; 35]).expect_err("too short");
        assert_eq!(error.to_string(), "standard INQUIRY data has 35 bytes, expected at least 36");
    }
}
