//! Logout Request: RFC 7143 section 11.14.

use super::field::*;

pdu! {
    /// Closes a session or a connection in order.
    LogoutRequest, fixed [1: 0x80];
    /// I: delivered outside the order of CmdSN.
    immediate: bool = IMMEDIATE,
    /// One of [`logout_reason`](crate::iscsi::logout_reason); 7 bits.
    reason: u8 = Bits { at: 1, shift: 0, mask: 0x7f },
    /// Initiator task tag.
    itt: u32 = ITT,
    /// Connection to close, unless the session is.
    cid: u16 = At(20),
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
    fn of_libiscsi() {
        check(
            "46800000 00000000 00000000 00000000 35eedadb 00000000 \
             735175b5 00000002 00000000 00000000 00000000 00000000",
            LogoutRequest {
                immediate: true,
                reason: 0,
                itt: 0x35ee_dadb,
                cid: 0,
                cmd_sn: 0x7351_75b5,
                exp_stat_sn: 2,
            },
        );
    }
}
