//! The target `session`: a machine of the login phase, and a peer that says anything.

use proto::login::{
    Candidate, Directory, Existing, Initiator, LoginPolicy, Request, SEGMENT_BYTES, Security, Session,
    Status, Target,
};
use proto::params::{Params, Wishes};
use wire::iscsi::{LoginRequest, LoginResponse, Pdu, login_status};

use crate::input::Input;

/// A target that lets everybody in but those with a long name.
struct Door;

impl Directory for Door {
    fn admit(&mut self, candidate: &Candidate) -> Result<(), Status> {
        match candidate.initiator_name.len() {
            0..64 => Ok(()),
            _ => Err(Status::new(login_status::AUTHORIZATION_FAILURE)),
        }
    }

    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill(0x5a);
    }

    fn join(&mut self, _: &Candidate, tsih: u16) -> Result<Existing, Status> {
        let (params, exp_cmd_sn, max_cmd_sn) = (Params::RFC_DEFAULT, 7, 70);
        match tsih {
            1 => Ok(Existing { params, exp_cmd_sn, max_cmd_sn }),
            _ => Err(login_status::SESSION_DOES_NOT_EXIST.into()),
        }
    }

    fn assign_tsih(&mut self, _: &Candidate) -> Result<u16, Status> {
        Ok(2)
    }
}

fn wishes(pick: u8) -> Wishes {
    Wishes {
        initial_r2t: pick & 1 != 0,
        immediate_data: pick & 2 != 0,
        error_recovery_level: pick >> 2 & 1,
        ..Wishes::default()
    }
}

/// A login PDU of `like`'s kind, with flags, segment length and some bytes of the input.
fn header(input: &mut Input<'_>, like: impl Into<Pdu>) -> [u8; 48] {
    let mut header = [0; 48];
    like.into().emit(&mut header);
    header[1] = input.byte();
    header[6] = input.byte() & 3;
    header[7] = input.byte();
    input.disturb(&mut header);
    header
}

fn check(pdu: impl Into<Pdu>, data: &[u8]) {
    let pdu = pdu.into();
    let mut header = [0; 48];
    pdu.emit(&mut header);
    assert_eq!(Pdu::parse(&header), Ok(pdu));
    assert!(data.len() <= SEGMENT_BYTES && pdu.data_segment_len() as usize == data.len());
}

/// The target's machine.
pub(crate) fn target(pick: u8, input: &mut Input<'_>) {
    let mut login = Target::new(LoginPolicy { wishes: wishes(pick), ..LoginPolicy::default() });
    while !input.is_empty() {
        let like = LoginRequest {
            transit: false,
            is_continued: false,
            csg: 0,
            nsg: 0,
            version_max: 0,
            version_min: 0,
            data_segment_len: 0,
            isid: [0x80, 0, 0, 0, 0, 1],
            tsih: 0,
            itt: 7,
            cid: 0,
            cmd_sn: 1,
            exp_stat_sn: 0,
        };
        let header = header(input, like);
        let data = input.segment(&header);
        let is_over = match Pdu::parse(&header) {
            Ok(Pdu::LoginRequest(request)) => login.handle_request(&request, &data, &mut Door).is_err(),
            Ok(other) => {
                login.handle_other(other.itt());
                login.is_closed()
            }
            Err(_) => return,
        };
        if let Some((response, data)) = login.poll_transmit() {
            check(response, &data);
        }
        assert!(!is_over || login.is_closed());
    }
}

/// The initiator's machine.
pub(crate) fn initiator(pick: u8, input: &mut Input<'_>) {
    let target_name = "iqn.2026-11.io.farlun:far".to_owned();
    let is_discovery = pick & 8 != 0;
    let mut login = Initiator::new(Request {
        session: if is_discovery { Session::Discovery } else { Session::Normal { target_name } },
        initiator_name: "iqn.2026-11.io.farlun:near".to_owned(),
        initiator_alias: None,
        isid: [0x80, 0, 0, 0, 0, 1],
        cid: 0,
        wishes: wishes(pick),
        security: if pick & 16 == 0 { Security::Skip } else { Security::OfferNone },
        private_key: pick & 32 == 0,
    });
    while !input.is_empty() {
        if let Some((request, data)) = login.poll_transmit() {
            check(request, &data);
        }
        let like = LoginResponse {
            transit: false,
            is_continued: false,
            csg: 0,
            nsg: 0,
            version_max: 0,
            version_active: 0,
            data_segment_len: 0,
            isid: [0x80, 0, 0, 0, 0, 1],
            tsih: 1,
            itt: 0,
            stat_sn: 0,
            exp_cmd_sn: 1,
            max_cmd_sn: 1,
            status_class: 0,
            status_detail: 0,
        };
        let header = header(input, like);
        let data = input.segment(&header);
        let Ok(Pdu::LoginResponse(response)) = Pdu::parse(&header) else { return };
        if login.handle_response(&response, &data).is_err() {
            return;
        }
    }
}
