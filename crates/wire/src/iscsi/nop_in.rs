//! NOP-In: RFC 7143 section 11.19.

use super::Lun;
use super::field::*;

pdu! {
    /// Answers a NOP-Out (`itt` given), requests one (`ttt` given), or only updates the command window.
    NopIn, fixed [1: 0x80];
    /// Bytes of ping data.
    data_segment_len: u32 = DataSegmentLen,
    /// Logical unit, to be repeated with `ttt`.
    lun: Lun = LUN,
    /// Initiator task tag of the NOP-Out that is answered, else the reserved tag.
    itt: u32 = ITT,
    /// Target transfer tag if an answer is wanted, else the reserved tag.
    ttt: u32 = TTT,
    /// StatSN; consumed only by an answer.
    stat_sn: u32 = STAT_SN,
    /// ExpCmdSN.
    exp_cmd_sn: u32 = EXP_CMD_SN,
    /// MaxCmdSN.
    max_cmd_sn: u32 = MAX_CMD_SN,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn a_ping() {
        check(
            "20800000 00000004 00010000 00000000 ffffffff 00000077 \
             00000019 00000100 0000011f 00000000 00000000 00000000",
            NopIn {
                data_segment_len: 4,
                lun: Lun::from_number(1),
                itt: 0xffff_ffff,
                ttt: 0x77,
                stat_sn: 0x19,
                exp_cmd_sn: 0x100,
                max_cmd_sn: 0x11f,
            },
        );
    }
}
