//! Device identification VPD page 83h: SPC-5 section 7.7.6.

use super::DataError;
use super::data::{ascii, need, put_ascii};
use super::vpd::{VpdPage, page};
use crate::be;

const WHAT: &str = "designation descriptor";

/// Code sets: SPC-5 table 597.
const BINARY: u8 = 1;
const ASCII: u8 = 2;
const UTF8: u8 = 3;

/// The names of a logical unit, its target and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceIdentification {
    /// In the order of the page.
    pub designators: Vec<Designator>,
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Designator {
    /// The named object.
    pub association: Association,
    /// Protocol identifier of a target or port name; 5 is iSCSI.
    pub protocol: Option<u8>,
    /// The name.
    pub id: DesignatorId,
}

/// Object that a designator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Association {
    /// The addressed logical unit.
    LogicalUnit = 0,
    /// The target port that received the command.
    TargetPort = 1,
    /// The target device.
    TargetDevice = 2,
    /// Not assigned.
    Reserved = 3,
}

/// A name by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesignatorId {
    /// Type 1.
    T10VendorId {
        /// T10 vendor identification, 8 bytes of ASCII.
        vendor: String,
        /// Identifier that is unique for the vendor.
        id: String,
    },
    /// Type 2: an EUI-64 based identifier of 8, 12 or 16 bytes.
    Eui64(Vec<u8>),
    /// Type 3: a network address authority identifier of 8 or 16 bytes.
    Naa(Vec<u8>),
    /// Type 4: relative target port identifier.
    RelativePort(u16),
    /// Type 5: target port group.
    TargetPortGroup(u16),
    /// Type 8: a name such as an IQN, in UTF-8.
    ScsiName(String),
    /// Any other.
    Other {
        /// Designator type, 4 bits.
        kind: u8,
        /// Code set, 4 bits.
        code_set: u8,
        /// The designator.
        bytes: Vec<u8>,
    },
}

impl VpdPage for DeviceIdentification {
    const CODE: u8 = page::DEVICE_IDENTIFICATION;

    fn emit_body(&self, bytes: &mut Vec<u8>) {
        for designator in &self.designators {
            designator.emit(bytes);
        }
    }

    fn parse_body(mut body: &[u8]) -> Result<Self, DataError> {
        let mut designators = Vec::new();
        while !body.is_empty() {
            need(WHAT, body, 4)?;
            let len = 4 + usize::from(body[3]);
            need(WHAT, body, len)?;
            let (descriptor, rest) = body.split_at(len);
            designators.push(Designator::parse(descriptor));
            body = rest;
        }
        Ok(Self { designators })
    }
}

impl Designator {
    fn emit(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        let (kind, code_set) = self.id.emit(bytes);
        let protocol = self.protocol.unwrap_or(0);
        assert!(kind < 16 && code_set < 16 && protocol < 16, "not a designator: {self:?}");
        let len = bytes.len() - start - 4;
        bytes[start] = protocol << 4 | code_set;
        bytes[start + 1] = u8::from(self.protocol.is_some()) << 7 | (self.association as u8) << 4 | kind;
        bytes[start + 3] = u8::try_from(len).expect("a designator has at most 255 bytes");
    }

    /// Reads a whole descriptor, whose length was checked.
    fn parse(bytes: &[u8]) -> Self {
        let kind = bytes[1] & 0x0f;
        let has_protocol = bytes[1] & 0x80 != 0;
        Self {
            association: match bytes[1] >> 4 & 0x03 {
                0 => Association::LogicalUnit,
                1 => Association::TargetPort,
                2 => Association::TargetDevice,
                _ => Association::Reserved,
            },
            protocol: has_protocol.then_some(bytes[0] >> 4),
            id: DesignatorId::parse(kind, bytes[0] & 0x0f, &bytes[4..]),
        }
    }
}

impl DesignatorId {
    /// Appends the designator; returns its type and code set.
    fn emit(&self, bytes: &mut Vec<u8>) -> (u8, u8) {
        match self {
            Self::T10VendorId { vendor, id } => {
                let mut field = [0; 8];
                put_ascii(vendor, &mut field);
                bytes.extend_from_slice(&field);
                bytes.extend_from_slice(id.as_bytes());
                (1, ASCII)
            }
            Self::Eui64(id) => {
                bytes.extend_from_slice(id);
                (2, BINARY)
            }
            Self::Naa(id) => {
                bytes.extend_from_slice(id);
                (3, BINARY)
            }
            Self::RelativePort(port) => {
                bytes.extend_from_slice(&[0, 0]);
                bytes.extend_from_slice(&port.to_be_bytes());
                (4, BINARY)
            }
            Self::TargetPortGroup(group) => {
                bytes.extend_from_slice(&[0, 0]);
                bytes.extend_from_slice(&group.to_be_bytes());
                (5, BINARY)
            }
            Self::ScsiName(name) => {
                // Ended by at least one NUL, padded to a multiple of four: SPC-5 section 7.7.6.11.
                bytes.extend_from_slice(name.as_bytes());
                bytes.resize(bytes.len() + 4 - name.len() % 4, 0);
                (8, UTF8)
            }
            Self::Other { kind, code_set, bytes: id } => {
                bytes.extend_from_slice(id);
                (*kind, *code_set)
            }
        }
    }

    /// A designator that is not of the form of its type becomes [`DesignatorId::Other`].
    fn parse(kind: u8, code_set: u8, bytes: &[u8]) -> Self {
        let other = || Self::Other { kind, code_set, bytes: bytes.to_vec() };
        match (kind, code_set, bytes.len()) {
            (1, ASCII, 8..) => Self::T10VendorId { vendor: ascii(&bytes[..8]), id: ascii(&bytes[8..]) },
            (2, BINARY, 8 | 12 | 16) => Self::Eui64(bytes.to_vec()),
            (3, BINARY, 8 | 16) => Self::Naa(bytes.to_vec()),
            (4, BINARY, 4) => Self::RelativePort(be::u16_at(bytes, 2)),
            (5, BINARY, 4) => Self::TargetPortGroup(be::u16_at(bytes, 2)),
            (8, UTF8, _) => {
                let name = bytes.split(|&byte| byte == 0).next().unwrap_or(&[]);
                match str::from_utf8(name) {
                    // Longer names do not fit with the NUL that ends them.
                    Ok(name) if name.len() < 252 => Self::ScsiName(name.to_owned()),
                    _ => other(),
                }
            }
            _ => other(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::check::{bytes, check};

    fn of_unit(id: DesignatorId) -> Designator {
        Designator { association: Association::LogicalUnit, protocol: None, id }
    }

    #[test]
    fn every_kind_of_name() {
        let port = |id| Designator { association: Association::TargetPort, protocol: Some(5), id };
        let identification = DeviceIdentification {
            designators: vec![
                of_unit(DesignatorId::T10VendorId { vendor: "FARLUN".into(), id: "x".into() }),
                of_unit(DesignatorId::Eui64(vec![1, 2, 3, 4, 5, 6, 7, 8])),
                of_unit(DesignatorId::Naa(vec![0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])),
                port(DesignatorId::RelativePort(1)),
                port(DesignatorId::TargetPortGroup(2)),
                port(DesignatorId::ScsiName("iqn.x,t,0x0001".into())),
                of_unit(DesignatorId::Other { kind: 7, code_set: 1, bytes: vec![9] }),
            ],
        };
        let hex = "00830056 02010009 4641524c554e2020 78 01020008 0102030405060708 \
                   01030010 60000000000000000000000000000001 51940004 00000001 51950004 00000002 \
                   53980010 69716e2e782c742c3078303030310000 01070001 09";
        check(hex, &identification, DeviceIdentification::parse, DeviceIdentification::emit);
    }

    #[test]
    fn names_of_tgt() {
        let hex = "00830048 02010024 4945542020202020 3030303130303031 0000000000000000000000000000000000000000 \
                   01030008 3000000100000001 01030010 60000000000000000e00000000010001";
        let expected = [
            DesignatorId::T10VendorId { vendor: "IET".into(), id: "00010001".into() },
            DesignatorId::Naa(vec![0x30, 0, 0, 1, 0, 0, 0, 1]),
            DesignatorId::Naa(vec![0x60, 0, 0, 0, 0, 0, 0, 0, 0x0e, 0, 0, 0, 0, 1, 0, 1]),
        ];
        let page = DeviceIdentification::parse(&bytes(hex));
        assert_eq!(page, Ok(DeviceIdentification { designators: expected.map(of_unit).into() }));
    }

    #[test]
    fn a_designator_behind_the_end_is_refused() {
        let error = DeviceIdentification::parse(&bytes("00830006 01030008 3000")).expect_err("cut off");
        assert_eq!(error.to_string(), "designation descriptor has 6 bytes, expected at least 12");
    }
}
