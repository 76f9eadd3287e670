//! Reject: RFC 7143 section 11.17.

use super::field::*;

pdu! {
    /// Refuses a PDU; its header is in the data segment.
    Reject, fixed [1: 0x80, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff];
    /// One of [`reject_reason`](crate::iscsi::reject_reason).
    reason: u8 = At(2),
    /// Bytes of the refused header.
    data_segment_len: u32 = DataSegmentLen,
    /// StatSN.
    stat_sn: u32 = STAT_SN,
    /// ExpCmdSN.
    exp_cmd_sn: u32 = EXP_CMD_SN,
    /// MaxCmdSN.
    max_cmd_sn: u32 = MAX_CMD_SN,
    /// The next DataSN or R2TSN, if a DataACK SNACK is refused.
    data_sn: u32 = DATA_SN,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn of_a_command_not_supported() {
        check(
            "3f800500 00000030 00000000 00000000 ffffffff 00000000 \
             00000019 00000100 0000011f 00000007 00000000 00000000",
            Reject {
                reason: 5,
                data_segment_len: 48,
                stat_sn: 0x19,
                exp_cmd_sn: 0x100,
                max_cmd_sn: 0x11f,
                data_sn: 7,
            },
        );
    }
}
