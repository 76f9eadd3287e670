//! Reactions of an initiator to the answers of a scripted target, right ones and wrong ones.

use std::sync::Arc;

use proto::Fault;
use proto::initiator::Event;
use sim::{Kind, Near, Order, content};
use wire::iscsi::{
    AsyncMessage, DataIn, DataOut, Lun, NopIn, NopOut, Pdu, R2t, RESERVED_TAG, Reject, ScsiCommand,
    ScsiResponse, TextResponse, put_sense,
};

use crate::pair::{CMD_SN, STAT_SN, Terms};

const WRITE: Order = Order { kind: Kind::Write, address: 0, len_bytes: 4096 };
const READ: Order = Order { kind: Kind::Read, address: 0, len_bytes: 4096 };

fn take(near: &mut Near, pdu: impl Into<Pdu>, data: &[u8]) -> Result<(), Fault> {
    let pdu = pdu.into();
    assert_eq!(pdu.data_segment_len() as usize, data.len());
    let mut header = [0; 48];
    pdu.emit(&mut header);
    near.take(&header, data)
}

/// Asserts that the connection is dropped, and that the reason has these words.
fn dropped(near: &mut Near, pdu: impl Into<Pdu>, data: &[u8], words: &str) {
    let fault = take(near, pdu, data).expect_err(words);
    assert!(fault.to_string().contains(words), "{fault} should say '{words}'");
}

fn sent(near: &mut Near) -> Vec<Pdu> {
    let sent = std::iter::from_fn(|| near.poll_transmit());
    sent.map(|sent| Pdu::parse(&sent.header).expect("an initiator sends PDUs")).collect()
}

fn response(itt: u32, status: u8, data_segment_len: u32) -> ScsiResponse {
    ScsiResponse {
        bidi_overflow: false,
        bidi_underflow: false,
        overflow: false,
        underflow: false,
        response: 0,
        status,
        data_segment_len,
        itt,
        snack_tag: 0,
        stat_sn: STAT_SN,
        exp_cmd_sn: CMD_SN.wrapping_add(1),
        max_cmd_sn: CMD_SN.wrapping_add(16),
        exp_data_sn: 0,
        bidi_residual: 0,
        residual: 0,
    }
}

fn r2t(itt: u32, ttt: u32, buffer_offset: u32, desired_len: u32) -> R2t {
    R2t {
        lun: Lun(0),
        itt,
        ttt,
        stat_sn: STAT_SN,
        exp_cmd_sn: CMD_SN.wrapping_add(1),
        max_cmd_sn: CMD_SN.wrapping_add(16),
        r2t_sn: 0,
        buffer_offset,
        desired_len,
    }
}

fn data_in(itt: u32, data_sn: u32, buffer_offset: u32, len: u32, status: Option<u8>) -> DataIn {
    DataIn {
        is_final: status.is_some(),
        acknowledge: false,
        overflow: false,
        underflow: false,
        status,
        data_segment_len: len,
        lun: Lun(0),
        itt,
        ttt: RESERVED_TAG,
        stat_sn: if status.is_some() { STAT_SN } else { 0 },
        exp_cmd_sn: CMD_SN.wrapping_add(1),
        max_cmd_sn: CMD_SN.wrapping_add(16),
        data_sn,
        buffer_offset,
        residual: 0,
    }
}

/// An initiator that has sent one write on these terms, without polling the data behind its command.
fn writing(terms: &Terms) -> (Near, ScsiCommand) {
    let mut near = terms.near();
    near.write(WRITE, Arc::new(content(4096, 1)));
    let sent = near.poll_transmit().expect("the command");
    let Ok(Pdu::ScsiCommand(command)) = Pdu::parse(&sent.header) else { panic!("a command is sent first") };
    (near, command)
}

fn reading() -> (Near, u32) {
    let mut near = Terms::default().near();
    near.read(READ, 4096);
    let itt = sent(&mut near)[0].itt();
    (near, itt)
}

const SOLICITED: fn() -> Terms = || Terms { initial_r2t: true, immediate_data: false, ..Terms::default() };

#[test]
fn a_write_that_is_answered_early_sends_no_more() {
    let unsolicited = Terms { immediate_data: false, segment_len: (512, 512), ..Terms::default() };
    let (mut near, command) = writing(&unsolicited);
    near.write(WRITE, Arc::new(content(4096, 2)));
    let first = near.poll_transmit().expect("data of the first write");
    assert!(matches!(Pdu::parse(&first.header), Ok(Pdu::DataOut(DataOut { itt, .. })) if itt == command.itt));
    let mut sense = Vec::new();
    put_sense(&[0x70, 0, 5], &mut sense);
    take(&mut near, response(command.itt, 2, sense.len() as u32), &sense).expect("a status at any time");
    let done = near.done().expect("the write is over");
    assert_eq!((done.completion.status, done.completion.sense), (2, vec![0x70, 0, 5]));
    let rest = sent(&mut near);
    assert!(rest.iter().all(|pdu| pdu.itt() != command.itt), "nothing of the first write: {rest:?}");
    assert_eq!(rest.len(), 1 + 8, "the second write goes out whole");
    assert_eq!(near.session().unsent_payload_bytes(0), 0);
    // A late R2T of the first task is a fault.
    dropped(&mut near, r2t(command.itt, 1, 0, 512), &[], "not open");
}

#[test]
fn r2ts_are_answered_as_asked_for() {
    let terms = Terms { segment_len: (1000, 8192), max_outstanding_r2t: 3, ..SOLICITED() };
    let (mut near, ScsiCommand { itt, .. }) = writing(&terms);
    assert_eq!(sent(&mut near), vec![], "no data before an R2T");
    for (ttt, offset, len) in [(7, 0, 2048), (8, 2048, 2000), (9, 4048, 5)] {
        take(&mut near, r2t(itt, ttt, offset, len), &[]).expect("within the expected length");
    }
    let told: Vec<_> = sent(&mut near)
        .iter()
        .map(|pdu| match pdu {
            Pdu::DataOut(data) => {
                (data.ttt, data.data_sn, data.buffer_offset, data.data_segment_len, data.is_final)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        told,
        [
            (7, 0, 0, 1000, false),
            (7, 1, 1000, 1000, false),
            (7, 2, 2000, 48, true),
            (8, 0, 2048, 1000, false),
            (8, 1, 3048, 1000, true),
            (9, 0, 4048, 5, true),
        ]
    );
    assert_eq!(near.session().unsent_payload_bytes(0), 43);
    // The status comes although no R2T solicited the rest.
    take(&mut near, response(itt, 0, 0), &[]).expect("a status at any time");
    let done = near.done().expect("the write is over");
    assert_eq!((done.completion.status, done.completion.transferred_bytes), (0, 4053));
    assert_eq!(near.session().unsent_payload_bytes(0), 0);
}

#[test]
fn wrong_r2ts_drop_the_connection() {
    for (offset, len) in [(0, 0), (0, 4097), (4096, 1), (u32::MAX, 2)] {
        let (mut near, command) = writing(&SOLICITED());
        dropped(&mut near, r2t(command.itt, 1, offset, len), &[], "outside the expected length");
    }
    let (mut near, command) = writing(&SOLICITED());
    dropped(&mut near, r2t(command.itt ^ 0x10_0000, 1, 0, 1), &[], "not open");
    for ttt in 0..5 {
        let _ = take(&mut near, r2t(command.itt, ttt, ttt, 1), &[]);
    }
    dropped(&mut near, r2t(command.itt, 6, 2, 1), &[], "MaxOutstandingR2T");
    for again in [0, 1, 513] {
        let (mut near, command) = writing(&SOLICITED());
        take(&mut near, r2t(command.itt, 1, 0, 512), &[]).expect("the first");
        let _ = sent(&mut near);
        dropped(&mut near, r2t(command.itt, 2, again, 512), &[], "out of order");
    }
    let (mut near, itt) = reading();
    dropped(&mut near, r2t(itt, 1, 0, 1), &[], "writes nothing");
}

#[test]
fn wrong_data_drops_the_connection() {
    let (mut near, itt) = reading();
    take(&mut near, data_in(itt, 0, 0, 512, None), &[1; 512]).expect("the beginning");
    dropped(&mut near, data_in(itt, 1, 4000, 97, None), &[0; 97], "beyond the expected length");
    dropped(&mut near, data_in(itt, 1, u32::MAX, 97, None), &[0; 97], "beyond the expected length");
    dropped(&mut near, data_in(itt, 1, 513, 97, None), &[0; 97], "out of order");
    dropped(&mut near, data_in(itt, 1, 0, 97, None), &[0; 97], "out of order");
    dropped(&mut near, data_in(itt, 2, 512, 97, None), &[0; 97], "out of order");
    dropped(&mut near, data_in(itt ^ 0x10_0000, 0, 0, 97, None), &[0; 97], "not open");
    let long = data_in(itt, 1, 512, 8193, None);
    let fault = take(&mut near, long, &vec![0; 8193]);
    assert_eq!(fault, Err(Fault::SegmentTooLong { found_bytes: 8193, limit_bytes: 8192 }));
    let (mut near, command) = writing(&SOLICITED());
    dropped(&mut near, data_in(command.itt, 0, 0, 1, None), &[0], "reads nothing");
}

#[test]
fn a_status_with_or_behind_the_data_ends_a_read() {
    for with_data in [true, false] {
        let (mut near, itt) = reading();
        take(&mut near, data_in(itt, 0, 0, 512, None), &[1; 512]).expect("the beginning");
        let status = with_data.then_some(8);
        take(&mut near, data_in(itt, 1, 512, 100, status), &[2; 100]).expect("more");
        if !with_data {
            take(&mut near, response(itt, 8, 0), &[]).expect("a status");
        }
        let done = near.done().expect("the read is over");
        assert_eq!((done.completion.status, done.completion.transferred_bytes), (8, 612));
        assert!(done.placed.is_exactly(612) && done.buffer[512..612] == [2; 100]);
        dropped(&mut near, response(itt, 0, 0), &[], "not open");
    }
}

#[test]
fn sense_data_shorter_than_it_says_drops_the_connection() {
    let (mut near, itt) = reading();
    dropped(&mut near, response(itt, 2, 3), &[0, 2, 0x70], "malformed");
}

#[test]
fn nothing_answers_a_command_that_has_not_been_sent() {
    let mut near = Terms::default().near();
    near.read(READ, 4096);
    dropped(&mut near, response(0x1_0000, 0, 0), &[], "not open");
}

#[test]
fn a_reject_names_the_command_it_is_about() {
    let (mut near, command) = writing(&SOLICITED());
    let reject = Reject {
        reason: 9,
        data_segment_len: 48,
        stat_sn: STAT_SN,
        exp_cmd_sn: CMD_SN.wrapping_add(1),
        max_cmd_sn: CMD_SN.wrapping_add(16),
        data_sn: 0,
    };
    let mut header = [0; 48];
    Pdu::from(command).emit(&mut header);
    take(&mut near, reject, &header).expect("rejected");
    assert!(matches!(near.event(), Some(Event::Rejected { reason: 9, token: Some(0) })));
    take(&mut near, Reject { data_segment_len: 3, ..reject }, &header[..3]).expect("rejected");
    assert_eq!(near.event(), Some(Event::Rejected { reason: 9, token: None }));
}

#[test]
fn a_ping_of_the_target_is_answered_with_its_data() {
    let mut near = Terms { segment_len: (512, 8192), ..Terms::default() }.near();
    let ping = NopIn {
        data_segment_len: 600,
        lun: Lun::from_number(3),
        itt: RESERVED_TAG,
        ttt: 0x77,
        stat_sn: 99,
        exp_cmd_sn: CMD_SN,
        max_cmd_sn: CMD_SN,
    };
    let data = content(600, 4);
    take(&mut near, ping, &data).expect("a ping");
    let echo = near.poll_transmit().expect("an answer");
    assert_eq!(echo.data, data[..512], "as much as the target takes");
    let expected = NopOut {
        immediate: true,
        data_segment_len: 512,
        lun: Lun::from_number(3),
        itt: RESERVED_TAG,
        ttt: 0x77,
        cmd_sn: CMD_SN,
        // A NOP-In that asks does not consume the StatSN it carries.
        exp_stat_sn: STAT_SN,
    };
    assert_eq!(Pdu::parse(&echo.header), Ok(expected.into()));
    // One that neither asks nor answers only tells the window.
    take(&mut near, NopIn { ttt: RESERVED_TAG, data_segment_len: 0, ..ping }, &[]).expect("a sign of life");
    assert!(near.poll_transmit().is_none());
}

#[test]
fn messages_of_the_target_reach_the_caller() {
    let check = |event, data: &[u8], expected: Option<Event>| {
        let mut near = Terms::default().near();
        let message = AsyncMessage {
            event,
            vendor_code: 5,
            data_segment_len: data.len() as u32,
            lun: Lun(0),
            stat_sn: STAT_SN,
            exp_cmd_sn: CMD_SN,
            max_cmd_sn: CMD_SN,
            parameter1: 3,
            parameter2: 4,
            parameter3: 5,
        };
        take(&mut near, message, data).expect("a message");
        assert_eq!(near.event(), expected, "event {event}");
        near.session().ping(0);
        let [Pdu::NopOut(nop)] = sent(&mut near)[..] else { panic!("a ping") };
        assert_eq!(nop.exp_stat_sn, STAT_SN.wrapping_add(1), "an Async Message consumes a StatSN");
    };
    check(255, b"\0\x02ssdata", Some(Event::Vendor { cid: 0, code: 5, data: b"data".to_vec() }));
    for nothing in [&b""[..], b"x", b"evt: all is well"] {
        check(255, nothing, Some(Event::Vendor { cid: 0, code: 5, data: vec![] }));
    }
    check(1, b"", Some(Event::LogoutRequested { within_s: 5 }));
    check(2, b"", Some(Event::Dropping { cid: Some(3), time2wait_s: 4 }));
    check(3, b"", Some(Event::Dropping { cid: None, time2wait_s: 4 }));
    check(4, b"", Some(Event::LogoutRequested { within_s: 5 }));
    check(0, b"", None);
    check(5, b"", None);
}

#[test]
fn what_only_an_initiator_sends_drops_the_connection() {
    let (mut near, command) = writing(&SOLICITED());
    dropped(&mut near, command, &[], "has no place here");
}

#[test]
fn tags_of_pings_are_never_those_of_commands() {
    let mut near = Terms { window: 1 << 20, ..Terms::default() }.near();
    while near.session().has_room() {
        near.command(Order { kind: Kind::Nothing, address: 0, len_bytes: 0 });
    }
    near.session().ping(0);
    near.session().send_text(b"SendTargets=\0".to_vec());
    let mut tags: Vec<_> = sent(&mut near).iter().map(Pdu::itt).collect();
    near.session().logout();
    tags.extend(sent(&mut near).iter().map(Pdu::itt));
    let count = tags.len();
    assert!(count > 65_000 && !tags.contains(&RESERVED_TAG));
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), count);
}

#[test]
fn text_answers_the_question_that_was_asked() {
    let answer = |itt| TextResponse {
        is_final: true,
        is_continued: false,
        data_segment_len: 4,
        lun: Lun(0),
        itt,
        ttt: RESERVED_TAG,
        stat_sn: STAT_SN,
        exp_cmd_sn: CMD_SN,
        max_cmd_sn: CMD_SN.wrapping_add(16),
    };
    let mut near = Terms::default().near();
    dropped(&mut near, answer(0x2000_ffff), b"A=1\0", "text that was not sent");
    near.session().send_text(b"Q\0".to_vec());
    let itt = sent(&mut near)[0].itt();
    dropped(&mut near, answer(itt ^ 0x1_0000), b"A=1\0", "text that was not sent");
    take(&mut near, answer(itt), b"A=1\0").expect("the answer");
    assert_eq!(near.event(), Some(Event::Text(b"A=1\0".to_vec())));
    dropped(&mut near, answer(itt), b"A=1\0", "text that was not sent");
}
