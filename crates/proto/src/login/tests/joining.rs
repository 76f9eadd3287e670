//! A further connection of a session: the keys that its login contains and omits (RFC 7143 sections 6.3.1 and 13).

use wire::iscsi::{LoginResponse, login_stage};

use super::super::{Initiator, Joined, RANDOM_BYTES, Request, Security, Session};
use crate::params::{Digest, Params, Wishes};

#[test]
fn only_what_a_connection_has_of_its_own_is_negotiated() {
    let request = request();
    let mut login = Initiator::joining(request, [0; RANDOM_BYTES], Joined { tsih: 77, cmd_sn: 900 });
    let (sent, text) = login.poll_transmit().expect("the first request");
    assert_eq!((sent.tsih, sent.cid, sent.cmd_sn, sent.isid), (77, 3, 900, [0x80, 1, 2, 3, 4, 5]));
    let text = String::from_utf8(text).expect("text");
    let keys: Vec<&str> = text.split_terminator('\0').filter_map(|pair| pair.split('=').next()).collect();
    assert_eq!(keys, ["InitiatorName", "TargetName", "AuthMethod"]);
    let none = b"AuthMethod=None\0";
    let response = LoginResponse {
        csg: login_stage::SECURITY,
        nsg: login_stage::OPERATIONAL,
        data_segment_len: none.len() as u32,
        stat_sn: 49,
        ..answered(sent.isid)
    };
    login.handle_response(&response, none).expect("no security");
    let (sent, text) = login.poll_transmit().expect("the second request");
    let text = String::from_utf8(text).expect("text");
    let keys: Vec<&str> = text.split_terminator('\0').filter_map(|pair| pair.split('=').next()).collect();
    assert_eq!(keys, ["HeaderDigest", "DataDigest", "MaxRecvDataSegmentLength"]);
    let answer = b"HeaderDigest=CRC32C\0DataDigest=None\0MaxRecvDataSegmentLength=4096\0";
    let response = LoginResponse { data_segment_len: answer.len() as u32, ..answered(sent.isid) };
    login.handle_response(&response, answer).expect("a good answer");
    let joined = login.outcome().expect("the connection is in");
    assert_eq!((joined.tsih, joined.cid, joined.cmd_sn), (77, 3, 900));
    assert_eq!((joined.exp_stat_sn, joined.max_cmd_sn), (51, 931));
    let Params { header_digest, data_digest, peer_max_recv_data_segment_len, .. } = joined.params;
    assert_eq!((header_digest, data_digest), (Digest::Crc32c, Digest::None));
    assert_eq!(peer_max_recv_data_segment_len, 4096);
}

#[test]
fn a_connection_that_becomes_another_session_is_no_use() {
    let request = request();
    let mut login = Initiator::joining(request, [0; RANDOM_BYTES], Joined { tsih: 77, cmd_sn: 900 });
    let (sent, _) = login.poll_transmit().expect("the first request");
    let response = LoginResponse { tsih: 78, csg: login_stage::SECURITY, nsg: 1, ..answered(sent.isid) };
    let error = login.handle_response(&response, b"").expect_err("that is another session");
    assert!(error.to_string().contains("TSIH is 78, expected 77"), "{error}");
}

fn request() -> Request {
    Request {
        session: Session::Normal { target_name: "iqn.2026-11.org.example:t".to_owned() },
        initiator_name: "iqn.2026-11.org.example:i".to_owned(),
        initiator_alias: None,
        isid: [0x80, 1, 2, 3, 4, 5],
        cid: 3,
        wishes: Wishes::default().with_digests(Wishes::DIGEST_IF_POSSIBLE),
        security: Security::Skip,
        private_key: true,
    }
}

/// The end of the operational stage.
fn answered(isid: [u8; 6]) -> LoginResponse {
    LoginResponse {
        transit: true,
        is_continued: false,
        csg: login_stage::OPERATIONAL,
        nsg: login_stage::FULL_FEATURE,
        version_max: 0,
        version_active: 0,
        data_segment_len: 0,
        isid,
        tsih: 77,
        itt: 0,
        stat_sn: 50,
        exp_cmd_sn: 900,
        max_cmd_sn: 931,
        status_class: 0,
        status_detail: 0,
    }
}
