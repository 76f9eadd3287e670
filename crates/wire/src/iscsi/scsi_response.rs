//! SCSI Response: RFC 7143 section 11.4, and its data segment (11.4.7).

use super::Error;
use super::field::*;
use crate::be;

pdu! {
    /// Ends a SCSI command with its status, and sense data in the data segment.
    ScsiResponse, fixed [1: 0x80];
    /// o: the read part of a bidirectional command had `bidi_residual` bytes more than expected.
    bidi_overflow: bool = Bit { at: 1, mask: 0x10 },
    /// u: the read part of a bidirectional command had `bidi_residual` bytes fewer than expected.
    bidi_underflow: bool = Bit { at: 1, mask: 0x08 },
    /// O: `residual` bytes did not fit into the expected length.
    overflow: bool = Bit { at: 1, mask: 0x04 },
    /// U: `residual` bytes of the expected length were not moved.
    underflow: bool = Bit { at: 1, mask: 0x02 },
    /// Response code: 0 completed at the target, 1 target failure, 0x80 and up are vendor-specific.
    response: u8 = At(2),
    /// SCSI status, of meaning only if `response` is 0.
    status: u8 = At(3),
    /// Bytes of SenseLength, sense data and response data.
    data_segment_len: u32 = DataSegmentLen,
    /// Initiator task tag.
    itt: u32 = ITT,
    /// SNACK tag: 0, or the one of an R-Data SNACK.
    snack_tag: u32 = At(20),
    /// StatSN.
    stat_sn: u32 = STAT_SN,
    /// ExpCmdSN.
    exp_cmd_sn: u32 = EXP_CMD_SN,
    /// MaxCmdSN.
    max_cmd_sn: u32 = MAX_CMD_SN,
    /// Data-In and R2T PDUs that the target sent for the command.
    exp_data_sn: u32 = DATA_SN,
    /// Residual count in bytes of the read direction; see `bidi_overflow` and `bidi_underflow`.
    bidi_residual: u32 = At(40),
    /// Residual count in bytes; see `overflow` and `underflow`.
    residual: u32 = RESIDUAL,
}

/// Splits the data segment of a SCSI Response into sense data and the response data behind it.
/// An empty segment has neither.
///
/// # Errors
/// [`Error::SenseLength`] if the segment is shorter than its SenseLength says.
pub fn split_sense(data_segment: &[u8]) -> Result<(&[u8], &[u8]), Error> {
    let found = data_segment.len();
    if found == 0 {
        return Ok((&[], &[]));
    }
    let (len, rest) = data_segment.split_first_chunk().ok_or(Error::SenseLength { expected: 2, found })?;
    let len = usize::from(u16::from_be_bytes(*len));
    rest.split_at_checked(len).ok_or(Error::SenseLength { expected: 2 + len, found })
}

/// Appends SenseLength and `sense` to the data segment of a SCSI Response.
///
/// # Panics
/// If `sense` is longer than 65535 bytes; SPC-5 allows 252.
pub fn put_sense(sense: &[u8], data_segment: &mut Vec<u8>) {
    let at = data_segment.len();
    data_segment.extend_from_slice(&[0; 2]);
    be::put_u16(data_segment, at, u16::try_from(sense.len()).expect("sense data has at most 252 bytes"));
    data_segment.extend_from_slice(sense);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn a_check_condition_of_tgt() {
        check(
            "21800002 00000014 00000000 00000000 6e09db4c 00000000 \
             00000001 19037560 190375e0 00000000 00000000 00000000",
            ScsiResponse {
                bidi_overflow: false,
                bidi_underflow: false,
                overflow: false,
                underflow: false,
                response: 0,
                status: 2,
                data_segment_len: 20,
                itt: 0x6e09_db4c,
                snack_tag: 0,
                stat_sn: 1,
                exp_cmd_sn: 0x1903_7560,
                max_cmd_sn: 0x1903_75e0,
                exp_data_sn: 0,
                bidi_residual: 0,
                residual: 0,
            },
        );
    }

    #[test]
    fn residuals_have_their_own_flags() {
        let mut header = [0; 48];
        header[0] = 0x21;
        for (mask, expected) in [0x10, 0x08, 0x04, 0x02].into_iter().zip(0..) {
            header[1] = 0x80 | mask;
            let pdu = ScsiResponse::parse(&header).expect("a response");
            let flags = [pdu.bidi_overflow, pdu.bidi_underflow, pdu.overflow, pdu.underflow];
            assert_eq!(flags.iter().position(|&flag| flag), Some(expected));
        }
    }

    #[test]
    fn sense_data_has_its_length_in_front() {
        let mut segment = Vec::new();
        put_sense(&[0x70, 0, 6], &mut segment);
        segment.push(0xee);
        assert_eq!(segment, [0, 3, 0x70, 0, 6, 0xee]);
        assert_eq!(split_sense(&segment), Ok((&[0x70, 0, 6][..], &[0xee][..])));
        assert_eq!(split_sense(&[]), Ok((&[][..], &[][..])));
        assert_eq!(split_sense(&segment[..1]), Err(Error::SenseLength { expected: 2, found: 1 }));
        assert_eq!(split_sense(&segment[..4]), Err(Error::SenseLength { expected: 5, found: 4 }));
    }
}
