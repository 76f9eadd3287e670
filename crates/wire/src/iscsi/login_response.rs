//! Login Response: RFC 7143 section 11.13.

use super::field::*;

pdu! {
    /// Answers a Login Request.
    LoginResponse, fixed [];
    /// T: the target agrees to leave the current stage for `nsg`.
    transit: bool = FINAL,
    /// C: the text continues in the next response.
    is_continued: bool = CONTINUE,
    /// Current stage, one of [`login_stage`](crate::iscsi::login_stage); 2 bits.
    csg: u8 = Bits { at: 1, shift: 2, mask: 0x03 },
    /// Next stage, of meaning only with `transit`; 2 bits.
    nsg: u8 = Bits { at: 1, shift: 0, mask: 0x03 },
    /// Highest protocol version the target knows.
    version_max: u8 = At(2),
    /// The version in use.
    version_active: u8 = At(3),
    /// Bytes of text.
    data_segment_len: u32 = DataSegmentLen,
    /// The initiator's part of the session id.
    isid: [u8; 6] = At(8),
    /// The target's part of the session id, given with the last response of a login.
    tsih: u16 = At(14),
    /// Initiator task tag of the request.
    itt: u32 = ITT,
    /// StatSN.
    stat_sn: u32 = STAT_SN,
    /// ExpCmdSN.
    exp_cmd_sn: u32 = EXP_CMD_SN,
    /// MaxCmdSN.
    max_cmd_sn: u32 = MAX_CMD_SN,
    /// Status class: 0 success, 1 redirection, 2 initiator error, 3 target error.
    status_class: u8 = At(36),
    /// Status detail; see [`login_status`](crate::iscsi::login_status).
    status_detail: u8 = At(37),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn of_tgt() {
        check(
            "23870000 0000012c 809ce6cd 00000100 35eedad9 00000000 \
             00000000 735175b5 735175b6 00000000 00000000 00000000",
            LoginResponse {
                transit: true,
                is_continued: false,
                csg: 1,
                nsg: 3,
                version_max: 0,
                version_active: 0,
                data_segment_len: 300,
                isid: [0x80, 0x9c, 0xe6, 0xcd, 0, 0],
                tsih: 0x100,
                itt: 0x35ee_dad9,
                stat_sn: 0,
                exp_cmd_sn: 0x7351_75b5,
                max_cmd_sn: 0x7351_75b6,
                status_class: 0,
                status_detail: 0,
            },
        );
    }

    #[test]
    fn a_refusal_tells_class_and_detail() {
        let mut header = [0; 48];
        header[0] = 0x23;
        header[36..38].copy_from_slice(&[2, 3]);
        let pdu = LoginResponse::parse(&header).expect("a response");
        let text = crate::iscsi::login_status::text(pdu.status_class, pdu.status_detail);
        assert_eq!(text, Some("target not found"));
    }
}
