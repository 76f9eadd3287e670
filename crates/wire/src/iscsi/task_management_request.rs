//! Task Management Function Request: RFC 7143 section 11.5.

use super::Lun;
use super::field::*;

pdu! {
    /// Asks a target to abort or reassign tasks, or to reset.
    TaskManagementRequest, fixed [1: 0x80];
    /// I: delivered outside the order of CmdSN.
    immediate: bool = IMMEDIATE,
    /// One of [`task_function`](crate::iscsi::task_function); 7 bits.
    function: u8 = Bits { at: 1, shift: 0, mask: 0x7f },
    /// Logical unit, for the functions that name one.
    lun: Lun = LUN,
    /// Initiator task tag of this request.
    itt: u32 = ITT,
    /// Initiator task tag of the task to abort or reassign, else the reserved tag.
    referenced_itt: u32 = At(20),
    /// CmdSN.
    cmd_sn: u32 = CMD_SN,
    /// ExpStatSN.
    exp_stat_sn: u32 = EXP_STAT_SN,
    /// CmdSN of the task to abort.
    ref_cmd_sn: u32 = At(32),
    /// The next DataSN or R2TSN that the initiator expects, for a reassignment.
    exp_data_sn: u32 = DATA_SN,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn an_abort() {
        check(
            "42810000 00000000 00010000 00000000 00000011 00000010 \
             00000200 00000300 000001ff 00000000 00000000 00000000",
            TaskManagementRequest {
                immediate: true,
                function: 1,
                lun: Lun::from_number(1),
                itt: 0x11,
                referenced_itt: 0x10,
                cmd_sn: 0x200,
                exp_stat_sn: 0x300,
                ref_cmd_sn: 0x1ff,
                exp_data_sn: 0,
            },
        );
    }
}
