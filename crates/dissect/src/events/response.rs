//! Data segments that tell more of an event than the header: sense data, the header that a Reject is about.

use wire::iscsi::Opcode;
use wire::scsi::Sense;

use crate::events::event::SenseCodes;
use crate::iscsi::digests::DIGEST_LEN;
use crate::iscsi::pdu::FramedPdu;

/// Bytes of a data segment with sense data that are kept: SenseLength, and the most that SPC-5 section 4.4.1 allows.
pub(crate) const SENSE_MAX: usize = 2 + 252;
/// Bits of a header's first byte with the opcode.
const OPCODE: u8 = 0x3f;
/// Bytes of fixed format (SPC-5 section 4.4.3) up to the additional sense code qualifier.
const FIXED_LEN: usize = 14;
/// The same in descriptor format (section 4.4.2).
const DESCRIPTOR_LEN: usize = 4;

/// Content of the data segment of a target's response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum ResponseData {
    /// Of no event, or the capture ends within it.
    #[default]
    Unknown,
    Sense(SenseCodes),
    /// No sense data, or damaged.
    NoSense,
    /// Opcode of the PDU that a Reject is about.
    Refused(u8),
}

impl ResponseData {
    /// Reads the known beginning of the data segment of `pdu`. While digests are not known, that may be a header digest.
    pub(crate) fn parse(pdu: &FramedPdu, known: &[u8], has_known_digests: bool) -> Self {
        match pdu.opcode {
            Opcode::ScsiResponse => match sense(pdu.data_len, known) {
                found if has_known_digests || matches!(found, Self::Sense(_)) => found,
                found => {
                    let behind = sense(pdu.data_len, known.get(DIGEST_LEN..).unwrap_or_default());
                    if matches!(behind, Self::Sense(_)) { behind } else { found }
                }
            },
            Opcode::Reject if has_known_digests => {
                known.first().map_or(Self::Unknown, |byte| Self::Refused(byte & OPCODE))
            }
            _ => Self::Unknown,
        }
    }
}

fn sense(data_len: u64, known: &[u8]) -> ResponseData {
    if data_len < 2 {
        return ResponseData::NoSense;
    }
    let Some((len, rest)) = known.split_first_chunk() else { return ResponseData::Unknown };
    let len = usize::from(u16::from_be_bytes(*len));
    let sense = &rest[..rest.len().min(len)];
    let needed = match sense.first() {
        None if len == 0 => return ResponseData::NoSense,
        None => return ResponseData::Unknown,
        Some(0x72 | 0x73) => DESCRIPTOR_LEN,
        Some(_) => FIXED_LEN,
    };
    let is_damaged = 2 + len as u64 > data_len;
    match Sense::parse(sense) {
        Ok(found) if !is_damaged && sense.len() >= needed.min(len) => ResponseData::Sense(found.into()),
        Ok(_) if !is_damaged => ResponseData::Unknown,
        // Of a cut segment the beginning may be somewhere else.
        _ if (known.len() as u64) < data_len.min(SENSE_MAX as u64) => ResponseData::Unknown,
        _ => ResponseData::NoSense,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_data_that_is_cut_is_unknown() {
        let mut data = vec![0, 18];
        data.extend(Sense::INVALID_FIELD_IN_CDB.emit_fixed());
        let expected = SenseCodes { key: 5, asc: 0x24, ascq: 0 };
        for known in 0..=data.len() {
            let found = sense(20, &data[..known]);
            let is_enough = known >= 2 + FIXED_LEN;
            assert_eq!(
                found,
                if is_enough { ResponseData::Sense(expected) } else { ResponseData::Unknown },
                "{known}"
            );
        }
        let mut data = vec![0, 8];
        data.extend(Sense::INVALID_FIELD_IN_CDB.emit_descriptor());
        assert_eq!(sense(10, &data[..6]), ResponseData::Sense(expected));
        assert_eq!(sense(10, &data[..5]), ResponseData::Unknown);
    }

    #[test]
    fn a_response_without_sense_data_has_none() {
        assert_eq!(sense(0, &[]), ResponseData::NoSense);
        assert_eq!(sense(4, &[0, 0, 0, 0]), ResponseData::NoSense);
        assert_eq!(sense(5, &[0, 3, 0x13, 0, 0]), ResponseData::NoSense, "an unknown response code");
        assert_eq!(sense(6, &[0xff, 0xff, 0x70, 0, 5, 0]), ResponseData::NoSense, "longer than its segment");
    }
}
