//! SCSI Data-In: RFC 7143 section 11.7.

use super::field::*;
use super::header::Header;
use super::{Error, Lun};

pdu! {
    /// Carries read data to the initiator; the last one may end the command with a good status.
    DataIn, fixed [];
    /// F: the last PDU of its sequence.
    is_final: bool = FINAL,
    /// A: the target asks for a DataACK SNACK (error recovery level above 0).
    acknowledge: bool = Bit { at: 1, mask: 0x40 },
    /// O: `residual` bytes did not fit into the expected length. Valid with a status.
    overflow: bool = Bit { at: 1, mask: 0x04 },
    /// U: `residual` bytes of the expected length were not moved. Valid with a status.
    underflow: bool = Bit { at: 1, mask: 0x02 },
    /// S and the SCSI status: given if this PDU ends the command and no Response follows.
    status: Option<u8> = Status,
    /// Bytes of data.
    data_segment_len: u32 = DataSegmentLen,
    /// Logical unit, if `acknowledge` is set.
    lun: Lun = LUN,
    /// Initiator task tag of the command.
    itt: u32 = ITT,
    /// Target transfer tag for the DataACK, else the reserved tag.
    ttt: u32 = TTT,
    /// StatSN, of meaning only with a status.
    stat_sn: u32 = STAT_SN,
    /// ExpCmdSN.
    exp_cmd_sn: u32 = EXP_CMD_SN,
    /// MaxCmdSN.
    max_cmd_sn: u32 = MAX_CMD_SN,
    /// Number of this PDU among the command's, from 0.
    data_sn: u32 = DATA_SN,
    /// Offset in the command's data, in bytes.
    buffer_offset: u32 = BUFFER_OFFSET,
    /// Residual count in bytes; see `overflow` and `underflow`.
    residual: u32 = RESIDUAL,
}

struct Status;

impl Place<Option<u8>> for Status {
    fn load(&self, header: &Header) -> Result<Option<u8>, Error> {
        Ok((header[1] & 0x01 != 0).then_some(header[3]))
    }

    fn store(&self, value: Option<u8>, header: &mut Header) {
        if let Some(status) = value {
            header[1] |= 0x01;
            header[3] = status;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn a_short_read_that_ends_with_its_status() {
        check(
            "25830000 0000000a 00000000 00000000 6e09db4e ffffffff \
             00000003 19037562 190375e2 00000000 00000000 00000036",
            DataIn {
                is_final: true,
                acknowledge: false,
                overflow: false,
                underflow: true,
                status: Some(0),
                data_segment_len: 10,
                lun: Lun(0),
                itt: 0x6e09_db4e,
                ttt: 0xffff_ffff,
                stat_sn: 3,
                exp_cmd_sn: 0x1903_7562,
                max_cmd_sn: 0x1903_75e2,
                data_sn: 0,
                buffer_offset: 0,
                residual: 54,
            },
        );
    }

    #[test]
    fn the_status_counts_only_with_the_s_bit() {
        let mut header = [0; 48];
        header[..4].copy_from_slice(&[0x25, 0x80, 0, 0x28]);
        assert_eq!(DataIn::parse(&header).map(|pdu| pdu.status), Ok(None));
        header[1] |= 0x01;
        assert_eq!(DataIn::parse(&header).map(|pdu| pdu.status), Ok(Some(0x28)));
    }
}
