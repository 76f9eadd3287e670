//! A logout while much is under way: its answer is the last that is said.

use wire::iscsi::{LogoutRequest, logout_reason};

use super::{MIB, expect_unharmed, file_lun, set_up, sparse_file};
use crate::peers::pdu;
use crate::peers::raw_initiator::{Flow, Session, read};

fn logout(itt: u32) -> Vec<u8> {
    let logout = LogoutRequest {
        immediate: true,
        reason: logout_reason::CLOSE_SESSION,
        itt,
        cid: 0,
        cmd_sn: 0,
        exp_stat_sn: 0,
    };
    pdu::bytes(logout, &[])
}

/// Reads to the end of the connection, which must be the answer to the logout.
#[track_caller]
fn expect_logout_response_last(session: &mut Session) {
    let kinds: Vec<_> = session.until_closed().iter().map(|(pdu, _)| pdu.opcode()).collect();
    let place = kinds.iter().position(|kind| *kind == wire::iscsi::Opcode::LogoutResponse);
    let place = place.unwrap_or_else(|| panic!("the logout is not answered; {} PDUs came", kinds.len()));
    assert_eq!(place + 1, kinds.len(), "behind the answer to the logout: {:?}", &kinds[place + 1..]);
}

#[test]
fn nothing_follows_the_answer_to_a_logout() {
    let (mut target, mut bystander) = set_up(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    for _ in 0..64 {
        let command = session.command(0, read(0, MIB), Flow::In(MIB));
        session.send(command, &[]);
    }
    session.wait_for_a_byte();
    session.send_bytes(&logout(0x999));
    expect_logout_response_last(&mut session);
    expect_unharmed(&mut target, &mut bystander);
}

#[test]
fn what_a_store_answers_after_a_logout_is_not_sent() {
    let file = sparse_file(MIB);
    let (mut target, mut bystander) = set_up(&["memory:1MiB", &file_lun(&file)]);
    let mut session = Session::open(&target);
    // The socket is full of these, so that the answer to the logout has to wait …
    for _ in 0..64 {
        let command = session.command(0, read(0, MIB), Flow::In(MIB));
        session.send(command, &[]);
    }
    session.wait_for_a_byte();
    // … while the store is still at work on those.
    let mut last = Vec::new();
    for _ in 0..8 {
        let command = session.command(1, read(0, MIB), Flow::In(MIB));
        last.extend(pdu::bytes(command, &[]));
    }
    last.extend(logout(0x999));
    session.send_bytes(&last);
    // The workers take calls in order, so theirs are done when as many later ones are.
    for _ in 0..16 {
        bystander.read(1, 0, MIB);
    }
    expect_logout_response_last(&mut session);
    expect_unharmed(&mut target, &mut bystander);
}
