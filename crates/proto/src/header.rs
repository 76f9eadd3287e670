//! Helpers for PDU headers.

use wire::iscsi::Pdu;

/// Fills in the numbers that every PDU of the target carries, at the moment of sending.
pub(crate) fn set_numbers(pdu: &mut Pdu, stat_sn: u32, exp_cmd_sn: u32, max_cmd_sn: u32) {
    macro_rules! set {
        ($($name:ident),+) => {
            match pdu {
                $(Pdu::$name(pdu) => {
                    (pdu.stat_sn, pdu.exp_cmd_sn, pdu.max_cmd_sn) = (stat_sn, exp_cmd_sn, max_cmd_sn);
                })+
                other => unreachable!("a target never sends {:?}", other.opcode()),
            }
        };
    }
    set!(
        NopIn,
        ScsiResponse,
        TaskManagementResponse,
        LoginResponse,
        TextResponse,
        DataIn,
        LogoutResponse,
        R2t,
        AsyncMessage,
        Reject
    );
}
