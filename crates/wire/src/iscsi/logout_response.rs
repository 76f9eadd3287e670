//! Logout Response: RFC 7143 section 11.15.

use super::field::*;

pdu! {
    /// Answers a Logout Request.
    LogoutResponse, fixed [1: 0x80];
    /// One of [`logout_response_code`](crate::iscsi::logout_response_code).
    response: u8 = At(2),
    /// Initiator task tag of the request.
    itt: u32 = ITT,
    /// StatSN.
    stat_sn: u32 = STAT_SN,
    /// ExpCmdSN.
    exp_cmd_sn: u32 = EXP_CMD_SN,
    /// MaxCmdSN.
    max_cmd_sn: u32 = MAX_CMD_SN,
    /// Seconds to wait before logging in again.
    time2wait: u16 = At(40),
    /// Seconds after that for which the target keeps the tasks.
    time2retain: u16 = At(42),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn a_recovery_not_supported() {
        check(
            "26800200 00000000 00000000 00000000 00000015 00000000 \
             00000019 00000100 0000011f 00000000 00020014 00000000",
            LogoutResponse {
                response: 2,
                itt: 0x15,
                stat_sn: 0x19,
                exp_cmd_sn: 0x100,
                max_cmd_sn: 0x11f,
                time2wait: 2,
                time2retain: 20,
            },
        );
    }
}
