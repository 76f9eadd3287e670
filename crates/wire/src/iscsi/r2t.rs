//! Ready To Transfer: RFC 7143 section 11.8.

use super::Lun;
use super::field::*;

pdu! {
    /// Asks the initiator for a part of a write's data.
    R2t, fixed [1: 0x80];
    /// Logical unit.
    lun: Lun = LUN,
    /// Initiator task tag of the command.
    itt: u32 = ITT,
    /// Target transfer tag that the Data-Out PDUs repeat.
    ttt: u32 = TTT,
    /// The next StatSN; an R2T does not consume it.
    stat_sn: u32 = STAT_SN,
    /// ExpCmdSN.
    exp_cmd_sn: u32 = EXP_CMD_SN,
    /// MaxCmdSN.
    max_cmd_sn: u32 = MAX_CMD_SN,
    /// Number of this R2T among the command's, from 0.
    r2t_sn: u32 = DATA_SN,
    /// Offset of the requested part in the command's data, in bytes.
    buffer_offset: u32 = BUFFER_OFFSET,
    /// Bytes wanted: 1 … MaxBurstLength.
    desired_len: u32 = RESIDUAL,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn the_second_of_tgt() {
        check(
            "31800000 00000000 00010000 00000000 3c99a683 80f33620 \
             0000000c 78a0ab19 78a0ab99 00000001 00042000 00040000",
            R2t {
                lun: Lun::from_number(1),
                itt: 0x3c99_a683,
                ttt: 0x80f3_3620,
                stat_sn: 12,
                exp_cmd_sn: 0x78a0_ab19,
                max_cmd_sn: 0x78a0_ab99,
                r2t_sn: 1,
                buffer_offset: 0x42000,
                desired_len: 0x40000,
            },
        );
    }
}
