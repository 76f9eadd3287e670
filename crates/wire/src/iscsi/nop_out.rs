//! NOP-Out: RFC 7143 section 11.18.

use super::Lun;
use super::field::*;

pdu! {
    /// Asks for a NOP-In (`itt` given), answers one (`ttt` given), or only confirms ExpStatSN.
    NopOut, fixed [1: 0x80];
    /// I: delivered outside the order of CmdSN.
    immediate: bool = IMMEDIATE,
    /// Bytes of ping data, which the answer repeats.
    data_segment_len: u32 = DataSegmentLen,
    /// Logical unit, as the target gave it together with `ttt`.
    lun: Lun = LUN,
    /// Initiator task tag, or the reserved tag if no answer is wanted.
    itt: u32 = ITT,
    /// Target transfer tag of the NOP-In that is answered, else the reserved tag.
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
    fn an_answer() {
        check(
            "40800000 00000000 00010000 00000000 ffffffff 00000077 \
             00000100 00000019 00000000 00000000 00000000 00000000",
            NopOut {
                immediate: true,
                data_segment_len: 0,
                lun: Lun::from_number(1),
                itt: 0xffff_ffff,
                ttt: 0x77,
                cmd_sn: 0x100,
                exp_stat_sn: 0x19,
            },
        );
    }
}
