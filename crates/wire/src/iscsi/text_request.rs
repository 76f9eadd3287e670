//! Text Request: RFC 7143 section 11.10.

use super::Lun;
use super::field::*;

pdu! {
    /// Carries keys of a negotiation in full-feature phase, such as SendTargets.
    TextRequest, fixed [];
    /// I: delivered outside the order of CmdSN.
    immediate: bool = IMMEDIATE,
    /// F: the initiator ends the negotiation.
    is_final: bool = FINAL,
    /// C: the text continues in the next request.
    is_continued: bool = CONTINUE,
    /// Bytes of text.
    data_segment_len: u32 = DataSegmentLen,
    /// Logical unit, as the target gave it together with `ttt`.
    lun: Lun = LUN,
    /// Initiator task tag, the same throughout a negotiation.
    itt: u32 = ITT,
    /// Target transfer tag of the response that is continued, else the reserved tag.
    ttt: u32 = TTT,
    /// CmdSN.
    cmd_sn: u32 = CMD_SN,
    /// ExpStatSN.
    exp_stat_sn: u32 = EXP_STAT_SN,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn send_targets_of_libiscsi() {
        check(
            "44800000 00000010 00000000 00000000 35eedada ffffffff \
             735175b5 00000001 00000000 00000000 00000000 00000000",
            TextRequest {
                immediate: true,
                is_final: true,
                is_continued: false,
                data_segment_len: 16,
                lun: Lun(0),
                itt: 0x35ee_dada,
                ttt: 0xffff_ffff,
                cmd_sn: 0x7351_75b5,
                exp_stat_sn: 1,
            },
        );
    }
}
