//! A session over several connections: distribution of commands, and numbers of a connection and of the session.

use proto::initiator::{Command, Completion, Event, Function, Session, Transfer};
use proto::params::Params;
use proto::{Data, Segment};
use wire::iscsi::{DataIn, Lun, NopIn, Pdu, R2t, RESERVED_TAG, ScsiCommand, ScsiResponse, TaskAttribute};

/// Connections 0, 1 and 2, which take segments of 512, 1024 and 2048 bytes, with room for `window` commands.
fn three(window: u32) -> Session {
    let params = |len| Params {
        peer_max_recv_data_segment_len: len,
        our_max_recv_data_segment_len: len,
        ..Params::RFC_DEFAULT
    };
    let mut session = Session::new(params(512), 1, window, 100);
    for (cid, len, stat_sn) in [(1, 1024, 200), (2, 2048, 300)] {
        assert_eq!((session.next_cid(), session.cmd_sn()), (cid, 1));
        session.join(&params(len), stat_sn, 1, window);
    }
    session
}

fn submit(session: &mut Session, token: u64, transfer: Transfer) {
    let attribute = TaskAttribute::Simple;
    session.submit(Command { token, lun: Lun(0), cdb: [0; 16], transfer, attribute });
}

fn sent(session: &mut Session, cid: u16) -> Vec<(Pdu, Data)> {
    let mut sent = Vec::new();
    while session.wants_transmit(cid) {
        let transmit = session.poll_transmit(cid).expect("what it wants");
        let pdu = Pdu::parse(&transmit.header()).expect("an initiator sends PDUs");
        assert_eq!(pdu, transmit.pdu);
        sent.push((pdu, transmit.data));
    }
    assert_eq!(session.poll_transmit(cid), None);
    sent
}

fn commands(session: &mut Session, cid: u16) -> Vec<ScsiCommand> {
    let pdus = sent(session, cid).into_iter().filter_map(|(pdu, _)| match pdu {
        Pdu::ScsiCommand(command) => Some(command),
        _ => None,
    });
    pdus.collect()
}

fn good(command: &ScsiCommand, stat_sn: u32, max_cmd_sn: u32) -> Pdu {
    let response = ScsiResponse {
        bidi_overflow: false,
        bidi_underflow: false,
        overflow: false,
        underflow: false,
        response: 0,
        status: 0,
        data_segment_len: 0,
        itt: command.itt,
        snack_tag: 0,
        stat_sn,
        exp_cmd_sn: max_cmd_sn,
        max_cmd_sn,
        exp_data_sn: 0,
        bidi_residual: 0,
        residual: 0,
    };
    response.into()
}

#[test]
fn commands_go_where_the_least_is_outstanding() {
    let mut session = three(64);
    submit(&mut session, 0, Transfer::In(1 << 20));
    (1..9).for_each(|token| submit(&mut session, token, Transfer::In(256 << 10)));
    let lens: Vec<Vec<u32>> = (0..3)
        .map(|cid| commands(&mut session, cid).iter().map(|sent| sent.expected_data_transfer_len).collect())
        .collect();
    assert_eq!(lens, [vec![1 << 20], vec![256 << 10; 4], vec![256 << 10; 4]]);
}

#[test]
fn cmd_sn_belongs_to_the_session_and_stat_sn_to_the_connection() {
    let mut session = three(64);
    (0..3).for_each(|token| submit(&mut session, token, Transfer::None));
    let numbers = [2, 0, 1].map(|cid| {
        let [command] = commands(&mut session, cid)[..] else { panic!("one command each") };
        session.handle(cid, &good(&command, 7 + u32::from(cid), 64), &[]).expect("an answer");
        session.ping(cid);
        let [(Pdu::NopOut(nop), _)] = sent(&mut session, cid)[..] else { panic!("a ping") };
        (command.cmd_sn, command.exp_stat_sn, nop.cmd_sn, nop.exp_stat_sn)
    });
    assert_eq!(numbers, [(1, 300, 2, 10), (2, 100, 3, 8), (3, 200, 4, 9)]);
}

#[test]
fn a_small_window_leaves_no_connection_behind() {
    let mut session = three(2);
    (0..30).for_each(|token| submit(&mut session, token, Transfer::In(4096)));
    let mut max_cmd_sn = 2;
    let mut done = Vec::new();
    // The first connection is always polled first.
    while done.len() < 30 {
        let before = done.len();
        for cid in 0..3 {
            for command in commands(&mut session, cid) {
                max_cmd_sn += 1;
                session.handle(cid, &good(&command, 1, max_cmd_sn), &[]).expect("an answer");
                while let Some(Event::Completed(Completion { token, .. })) = session.poll_event() {
                    done.push(token);
                }
            }
        }
        assert!(done.len() > before, "something waits for ever: {done:?}");
    }
    let in_order: Vec<u64> = (0..30).collect();
    assert_eq!(done, in_order, "with equal requests nothing is overtaken by more than a round");
}

#[test]
fn an_answer_on_another_connection_is_wrong() {
    let mut session = three(64);
    submit(&mut session, 0, Transfer::In(512));
    let [command] = commands(&mut session, 0)[..] else { panic!("one command") };
    let data = DataIn {
        is_final: true,
        acknowledge: false,
        overflow: false,
        underflow: false,
        status: None,
        data_segment_len: 512,
        lun: Lun(0),
        itt: command.itt,
        ttt: RESERVED_TAG,
        stat_sn: 0,
        exp_cmd_sn: 2,
        max_cmd_sn: 64,
        data_sn: 0,
        buffer_offset: 0,
        residual: 0,
    };
    assert!(session.segment(1, &data.into()).is_err());
    assert!(session.handle(2, &good(&command, 1, 64), &[]).is_err());
    let segment = session.segment(0, &data.into());
    assert_eq!(segment, Ok(Segment::Payload { token: 0, offset_bytes: 0, len_bytes: 512 }));
}

#[test]
fn no_command_is_sent_after_a_logout_and_what_was_sent_has_its_data() {
    let mut session = three(64);
    submit(&mut session, 0, Transfer::Out(4096));
    let first = session.poll_transmit(0).map(|transmit| transmit.pdu);
    assert!(matches!(first, Some(Pdu::ScsiCommand(_))), "{first:?}");
    (1..9).for_each(|token| submit(&mut session, token, Transfer::In(512)));
    session.logout();
    let after: Vec<Pdu> = (0..3).flat_map(|cid| sent(&mut session, cid)).map(|(pdu, _)| pdu).collect();
    let [Pdu::LogoutRequest(_), ref data @ ..] = after[..] else { panic!("the logout first: {after:?}") };
    assert!(data.iter().all(|pdu| matches!(pdu, Pdu::DataOut(_))), "{data:?}");
}

#[test]
fn data_goes_out_where_its_command_did_in_segments_of_that_connection() {
    let mut session = three(64);
    for token in 0..3 {
        submit(&mut session, token, Transfer::Out(4096));
    }
    for (cid, len) in [(0, 512), (1, 1024), (2, 2048)] {
        let [(Pdu::ScsiCommand(command), _)] = sent(&mut session, cid)[..] else { panic!("a command") };
        assert_eq!(command.data_segment_len, len, "immediate data of connection {cid}");
        let r2t = R2t {
            lun: Lun(0),
            itt: command.itt,
            ttt: 9,
            stat_sn: 0,
            exp_cmd_sn: 4,
            max_cmd_sn: 64,
            r2t_sn: 0,
            buffer_offset: len,
            desired_len: 4096 - len,
        };
        session.handle(cid, &r2t.into(), &[]).expect("a call for the rest");
        assert!((0..3).all(|other| session.wants_transmit(other) == (other >= cid)));
        let lens: Vec<u32> = sent(&mut session, cid).iter().map(|(pdu, _)| pdu.data_segment_len()).collect();
        assert_eq!(lens, vec![len; (4096 / len) as usize - 1]);
        assert_eq!(session.unsent_payload_bytes(cid), 0);
    }
}

#[test]
fn services_keep_to_their_connection() {
    let mut session = three(64);
    (0..3).for_each(|token| submit(&mut session, token, Transfer::None));
    let last = (0..3).map(|cid| commands(&mut session, cid)[0].itt).last();
    // A task is aborted where it lives.
    session.manage(Function::AbortTask { token: 2 });
    let [(Pdu::TaskManagementRequest(abort), _)] = sent(&mut session, 2)[..] else { panic!("an abort") };
    assert_eq!(Some(abort.referenced_itt), last);
    // A ping is answered where it came.
    let ping = NopIn {
        data_segment_len: 0,
        lun: Lun(0),
        itt: RESERVED_TAG,
        ttt: 5,
        stat_sn: 200,
        exp_cmd_sn: 4,
        max_cmd_sn: 64,
    };
    session.handle(1, &ping.into(), &[]).expect("a ping");
    assert_eq!([0, 1, 2].map(|cid| sent(&mut session, cid).len()), [0, 1, 0]);
    session.logout();
    assert_eq!([0, 1, 2].map(|cid| sent(&mut session, cid).len()), [1, 0, 0]);
}
