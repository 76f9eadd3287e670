//! Row of the table `pdus` for a header.

use event::PduKind;
use wire::iscsi::Pdu;

/// The fields of one row that come from the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fields {
    pub(super) kind: PduKind,
    pub(super) has_status: bool,
    pub(super) stat_sn: u32,
    pub(super) data_sn: u32,
    pub(super) offset_bytes: u32,
    pub(super) len_bytes: u32,
}

pub(super) fn fields(pdu: &Pdu) -> Fields {
    let plain = |kind, stat_sn| Fields {
        kind,
        has_status: false,
        stat_sn,
        data_sn: 0,
        offset_bytes: 0,
        len_bytes: pdu.data_segment_len(),
    };
    match pdu {
        Pdu::ScsiCommand(_) => plain(PduKind::Command, 0),
        Pdu::ScsiResponse(response) => {
            Fields { has_status: true, ..plain(PduKind::Response, response.stat_sn) }
        }
        Pdu::DataIn(data) => Fields {
            has_status: data.status.is_some(),
            data_sn: data.data_sn,
            offset_bytes: data.buffer_offset,
            ..plain(PduKind::DataIn, if data.status.is_some() { data.stat_sn } else { 0 })
        },
        Pdu::DataOut(data) => {
            Fields { data_sn: data.data_sn, offset_bytes: data.buffer_offset, ..plain(PduKind::DataOut, 0) }
        }
        Pdu::R2t(r2t) => Fields {
            data_sn: r2t.r2t_sn,
            offset_bytes: r2t.buffer_offset,
            len_bytes: r2t.desired_len,
            ..plain(PduKind::R2t, 0)
        },
        Pdu::TaskManagementRequest(_) => plain(PduKind::Management, 0),
        Pdu::TaskManagementResponse(response) => plain(PduKind::Management, response.stat_sn),
        Pdu::NopOut(_) => plain(PduKind::Nop, 0),
        Pdu::NopIn(nop) => plain(PduKind::Nop, nop.stat_sn),
        Pdu::TextRequest(_) => plain(PduKind::Text, 0),
        Pdu::TextResponse(text) => plain(PduKind::Text, text.stat_sn),
        Pdu::LogoutRequest(_) => plain(PduKind::Logout, 0),
        Pdu::LogoutResponse(logout) => plain(PduKind::Logout, logout.stat_sn),
        Pdu::AsyncMessage(message) => plain(PduKind::Async, message.stat_sn),
        Pdu::Reject(reject) => plain(PduKind::Reject, reject.stat_sn),
        Pdu::LoginRequest(_) | Pdu::LoginResponse(_) | Pdu::SnackRequest(_) => plain(PduKind::Other, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::iscsi::{BHS_LEN, Bhs};

    #[test]
    fn headers_say_what_they_are() {
        let parse = |fill: u8, opcode: u8, status: u8| {
            let mut header = [fill; BHS_LEN];
            (header[0], header[1], header[3]) = (opcode, status, 0);
            let len = Bhs::new(&header).data_segment_len() as u32;
            (fields(&Pdu::parse(&header).expect("a header")), len)
        };
        let number = u32::from_be_bytes([3; 4]);
        let (data, len) = parse(3, 0x25, 0x80);
        let expected = Fields {
            kind: PduKind::DataIn,
            has_status: false,
            stat_sn: 0,
            data_sn: number,
            offset_bytes: number,
            len_bytes: len,
        };
        assert_eq!(data, expected);
        let (data, _) = parse(3, 0x25, 0x81);
        assert_eq!(data, Fields { has_status: true, stat_sn: number, ..expected });
        let (r2t, _) = parse(3, 0x31, 0x80);
        assert_eq!((r2t.kind, r2t.offset_bytes, r2t.len_bytes), (PduKind::R2t, number, number));
        let (response, _) = parse(0, 0x21, 0x80);
        assert_eq!((response.kind, response.has_status, response.len_bytes), (PduKind::Response, true, 0));
    }
}
