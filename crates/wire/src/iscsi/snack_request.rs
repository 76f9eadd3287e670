//! SNACK Request: RFC 7143 section 11.16.

use super::Lun;
use super::field::*;

pdu! {
    /// Asks for PDUs again, or acknowledges data (error recovery level above 0).
    SnackRequest, fixed [1: 0x80];
    /// One of [`snack_kind`](crate::iscsi::snack_kind); 4 bits.
    kind: u8 = Bits { at: 1, shift: 0, mask: 0x0f },
    /// Logical unit, of a DataACK.
    lun: Lun = LUN,
    /// Initiator task tag of the command, else the reserved tag.
    itt: u32 = ITT,
    /// Target transfer tag of a DataACK, SNACK tag of an R-Data SNACK, else the reserved tag.
    ttt: u32 = TTT,
    /// ExpStatSN.
    exp_stat_sn: u32 = EXP_STAT_SN,
    /// First missing DataSN, R2TSN or StatSN.
    beg_run: u32 = At(40),
    /// Number of missing PDUs; 0 means all from there on.
    run_length: u32 = At(44),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn for_three_data_pdus() {
        check(
            "10800000 00000000 00000000 00000000 00000015 ffffffff \
             00000000 00000019 00000000 00000000 00000004 00000003",
            SnackRequest {
                kind: 0,
                lun: Lun(0),
                itt: 0x15,
                ttt: 0xffff_ffff,
                exp_stat_sn: 0x19,
                beg_run: 4,
                run_length: 3,
            },
        );
    }
}
