//! Login Request: RFC 7143 section 11.12.

use super::field::*;

pdu! {
    /// Opens a connection step by step: security, then operational negotiation. Always immediate.
    LoginRequest, fixed [0: 0x40];
    /// T: ready to leave the current stage for `nsg`.
    transit: bool = FINAL,
    /// C: the text continues in the next request.
    is_continued: bool = CONTINUE,
    /// Current stage, one of [`login_stage`](crate::iscsi::login_stage); 2 bits.
    csg: u8 = Bits { at: 1, shift: 2, mask: 0x03 },
    /// Next stage, of meaning only with `transit`; 2 bits.
    nsg: u8 = Bits { at: 1, shift: 0, mask: 0x03 },
    /// Highest protocol version offered; RFC 7143 has only 0.
    version_max: u8 = At(2),
    /// Lowest protocol version offered.
    version_min: u8 = At(3),
    /// Bytes of text.
    data_segment_len: u32 = DataSegmentLen,
    /// The initiator's part of the session id.
    isid: [u8; 6] = At(8),
    /// The target's part of the session id: 0 asks for a new session.
    tsih: u16 = At(14),
    /// Initiator task tag, the same throughout a login.
    itt: u32 = ITT,
    /// Connection id, unique in the session.
    cid: u16 = At(20),
    /// CmdSN: the session's first, if `tsih` is 0.
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
            "43870000 0000018b 809ce6cd 00000000 35eedad9 00000000 \
             735175b5 00000001 00000000 00000000 00000000 00000000",
            LoginRequest {
                transit: true,
                is_continued: false,
                csg: 1,
                nsg: 3,
                version_max: 0,
                version_min: 0,
                data_segment_len: 395,
                isid: [0x80, 0x9c, 0xe6, 0xcd, 0, 0],
                tsih: 0,
                itt: 0x35ee_dad9,
                cid: 0,
                cmd_sn: 0x7351_75b5,
                exp_stat_sn: 1,
            },
        );
    }
}
