//! Asynchronous Message: RFC 7143 section 11.9.

use super::Lun;
use super::field::*;

pdu! {
    /// Reports an event to the initiator: RFC 7143 section 11.9.
    AsyncMessage, fixed [1: 0x80, 16: 0xff, 17: 0xff, 18: 0xff, 19: 0xff];
    /// One of [`async_event`](crate::iscsi::async_event).
    event: u8 = At(36),
    /// AsyncVCode, if the event is vendor-specific.
    vendor_code: u8 = At(37),
    /// Bytes of SenseLength, sense data and event data.
    data_segment_len: u32 = DataSegmentLen,
    /// Logical unit, of a SCSI event.
    lun: Lun = LUN,
    /// StatSN.
    stat_sn: u32 = STAT_SN,
    /// ExpCmdSN.
    exp_cmd_sn: u32 = EXP_CMD_SN,
    /// MaxCmdSN.
    max_cmd_sn: u32 = MAX_CMD_SN,
    /// Connection id, of events 2 and 3.
    parameter1: u16 = At(38),
    /// Time2Wait in seconds, of events 2 and 3.
    parameter2: u16 = At(40),
    /// Time2Retain, or the time to act in event 1 or 4, in seconds.
    parameter3: u16 = At(42),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::check::check;

    #[test]
    fn a_dropped_connection() {
        check(
            "32800000 00000000 00000000 00000000 ffffffff 00000000 \
             00000019 00000100 0000011f 02000001 00020014 00000000",
            AsyncMessage {
                event: 2,
                vendor_code: 0,
                data_segment_len: 0,
                lun: Lun(0),
                stat_sn: 0x19,
                exp_cmd_sn: 0x100,
                max_cmd_sn: 0x11f,
                parameter1: 1,
                parameter2: 2,
                parameter3: 20,
            },
        );
    }
}
