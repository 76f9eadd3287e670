//! Task Management Function Response: RFC 7143 section 11.6.

use super::field::*;

pdu! {
    /// Ends a task management function.
    TaskManagementResponse, fixed [1: 0x80];
    /// One of [`task_response`](crate::iscsi::task_response).
    response: u8 = At(2),
    /// Initiator task tag of the request.
    itt: u32 = ITT,
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
    fn an_unknown_task() {
        check(
            "22800100 00000000 00000000 00000000 00000011 00000000 \
             00000300 00000200 00000240 00000000 00000000 00000000",
            TaskManagementResponse {
                response: 1,
                itt: 0x11,
                stat_sn: 0x300,
                exp_cmd_sn: 0x200,
                max_cmd_sn: 0x240,
            },
        );
    }
}
