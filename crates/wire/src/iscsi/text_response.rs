//! Text Response: RFC 7143 section 11.11.

use super::Lun;
use super::field::*;

pdu! {
    /// Answers a Text Request.
    TextResponse, fixed [];
    /// F: the negotiation is over.
    is_final: bool = FINAL,
    /// C: the text continues in the next response.
    is_continued: bool = CONTINUE,
    /// Bytes of text.
    data_segment_len: u32 = DataSegmentLen,
    /// Logical unit, repeated by the initiator together with `ttt`.
    lun: Lun = LUN,
    /// Initiator task tag of the request.
    itt: u32 = ITT,
    /// Target transfer tag: given if the target continues, else the reserved tag.
    ttt: u32 = TTT,
    /// StatSN.
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
    fn targets_of_tgt() {
        check(
            "24800000 00000044 00000000 00000000 35eedada ffffffff \
             00000001 735175b5 735175b6 00000000 00000000 00000000",
            TextResponse {
                is_final: true,
                is_continued: false,
                data_segment_len: 68,
                lun: Lun(0),
                itt: 0x35ee_dada,
                ttt: 0xffff_ffff,
                stat_sn: 1,
                exp_cmd_sn: 0x7351_75b5,
                max_cmd_sn: 0x7351_75b6,
            },
        );
    }
}
