//! Services other than commands, between initiator and target: pings, text, messages, logout.

use event::{WindowKind, WindowNotice};
use proto::initiator::Event;
use proto::notification::{self, Notification};
use proto::target::ConnectionId;
use sim::{Far, Kind, Order, content};
use wire::iscsi::{
    Lun, NopOut, Pdu, RESERVED_TAG, TaskManagementRequest, TextRequest, reject_reason, task_function,
};

use crate::pair::{CMD_SN, Pair, STAT_SN, Terms};
use crate::windows::{answers, command, take};

fn text_request(len: usize, is_continued: bool, ttt: u32) -> TextRequest {
    TextRequest {
        immediate: true,
        is_final: !is_continued,
        is_continued,
        data_segment_len: len as u32,
        lun: Lun(0),
        itt: 5,
        ttt,
        cmd_sn: CMD_SN,
        exp_stat_sn: 0,
    }
}

#[test]
fn a_ping_of_the_initiator_is_answered_with_its_data() {
    let mut pair = Pair::new(&Terms::default(), 1);
    pair.near.session().ping(0);
    assert_eq!(pair.settle().len(), 0);
    assert_eq!((pair.near.event(), pair.near.event()), (Some(Event::Pong), None));

    let mut far = Terms { segment_len: (8192, 512), ..Terms::default() }.far();
    let data = content(600, 2);
    for (immediate, exp_cmd_sn) in [(true, CMD_SN), (false, CMD_SN.wrapping_add(1))] {
        let nop = NopOut {
            immediate,
            data_segment_len: 600,
            lun: Lun(0),
            itt: 4,
            ttt: RESERVED_TAG,
            cmd_sn: CMD_SN,
            exp_stat_sn: 0,
        };
        take(&mut far, nop, &data).expect("a ping");
        let echo = far.poll_transmit().expect("an answer");
        let Ok(Pdu::NopIn(answer)) = Pdu::parse(&echo.header) else { panic!("a NOP-In answers") };
        assert_eq!(echo.data, data[..512], "as much as the initiator takes");
        assert_eq!((answer.itt, answer.ttt, answer.exp_cmd_sn), (4, RESERVED_TAG, exp_cmd_sn));
        // The answer to a ping of the target's asks for nothing.
        take(&mut far, NopOut { itt: RESERVED_TAG, ttt: 1, immediate: true, ..nop }, &data)
            .expect("a NOP-Out");
        assert!(far.poll_transmit().is_none());
    }
}

#[test]
fn a_ping_of_the_target_takes_no_status_number_and_messages_do() {
    let mut far = Terms::default().far();
    far.session().ping(ConnectionId::LEADING);
    far.session().request_logout(ConnectionId::LEADING, 3);
    far.session().announce_drop(ConnectionId::LEADING);
    let sent = answers(&mut far);
    let [Pdu::NopIn(ping), Pdu::AsyncMessage(logout), Pdu::AsyncMessage(last)] = sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!((ping.itt, ping.stat_sn), (RESERVED_TAG, STAT_SN));
    assert_ne!(ping.ttt, RESERVED_TAG);
    assert_eq!((logout.event, logout.parameter3, logout.stat_sn), (1, 3, STAT_SN));
    assert_eq!((last.event, last.parameter2, last.stat_sn), (3, 2, STAT_SN.wrapping_add(1)));

    let mut pair = Pair::new(&Terms::default(), 1);
    pair.far.session().ping(ConnectionId::LEADING);
    assert_eq!(pair.settle().len(), 0, "our initiator answers, and nothing comes of it");
}

#[test]
fn text_and_its_answer_in_many_parts() {
    for (segment_len, answer_bytes) in [(512, 0), (512, 1), (512, 512), (512, 513), (700, 20_000)] {
        for seed in 0..5 {
            println!("answer of {answer_bytes} bytes in {segment_len}, seed {seed}");
            let terms = Terms { segment_len: (8192, segment_len), ..Terms::default() };
            let mut pair = Pair::new(&terms, seed);
            let answer = content(answer_bytes, 3);
            pair.far.set_text_answer(answer.clone());
            for _ in 0..2 {
                pair.near.session().send_text(b"SendTargets=All\0".to_vec());
                pair.near.read(Order { kind: Kind::Read, address: 0, len_bytes: 2000 }, 2000);
                assert_eq!(pair.settle().len(), 1);
                assert_eq!((pair.near.event(), pair.near.event()), (Some(Event::Text(answer.clone())), None));
            }
            assert_eq!(pair.far.texts(), [b"SendTargets=All\0", b"SendTargets=All\0"]);
        }
    }
}

#[test]
fn a_question_in_many_parts() {
    let mut far = Terms::default().far();
    far.set_text_answer(b"Answer=1\0".to_vec());
    let mut ttt = RESERVED_TAG;
    for part in [&b"Long"[..], b"", b"Key="] {
        take(&mut far, text_request(part.len(), true, ttt), part).expect("a part");
        let [Pdu::TextResponse(response)] = answers(&mut far)[..] else { panic!("each part is answered") };
        assert!(!response.is_final && !response.is_continued && response.data_segment_len == 0);
        assert_ne!(response.ttt, RESERVED_TAG, "a tag to go on with");
        assert_eq!(far.texts().len(), 0);
        ttt = response.ttt;
    }
    take(&mut far, text_request(2, false, ttt), b"1\0").expect("the last part");
    let last = far.poll_transmit().expect("the answer");
    let Ok(Pdu::TextResponse(response)) = Pdu::parse(&last.header) else { panic!("a Text Response") };
    assert!(response.is_final && response.ttt == RESERVED_TAG && last.data == b"Answer=1\0");
    assert_eq!(far.texts(), [b"LongKey=1\0"]);
}

#[test]
fn a_question_that_was_given_up_does_not_mix_with_the_next() {
    let mut far = Terms::default().far();
    take(&mut far, text_request(4, true, RESERVED_TAG), b"Lost").expect("a part");
    take(&mut far, text_request(4, false, RESERVED_TAG), b"A=1\0").expect("a new question");
    assert_eq!(far.texts(), [b"A=1\0"]);
}

#[test]
fn a_question_that_was_not_begun_does_not_go_on() {
    let mut far = Terms::default().far();
    let reject = |far: &mut Far| {
        let [Pdu::Reject(reject)] = answers(far)[..] else { panic!("there is nothing to go on with") };
        assert_eq!(reject.reason, reject_reason::PROTOCOL_ERROR);
    };
    take(&mut far, text_request(4, false, 77), b"A=1\0").expect("a request");
    reject(&mut far);
    // Nor does one that has been answered.
    take(&mut far, text_request(2, true, RESERVED_TAG), b"A=").expect("a part");
    let [Pdu::TextResponse(first)] = answers(&mut far)[..] else { panic!("each part is answered") };
    take(&mut far, text_request(2, false, first.ttt.wrapping_add(1)), b"2\0").expect("a request");
    reject(&mut far);
    take(&mut far, text_request(2, false, first.ttt), b"1\0").expect("the last part");
    assert!(matches!(answers(&mut far)[..], [Pdu::TextResponse(last)] if last.is_final));
    take(&mut far, text_request(4, false, first.ttt), b"A=3\0").expect("a request");
    reject(&mut far);
    assert_eq!(far.texts(), [b"A=1\0"]);
}

#[test]
fn a_question_without_end_drops_the_connection() {
    let mut far = Terms::default().far();
    let mut ttt = RESERVED_TAG;
    let fault = (0..100).find_map(|_| {
        let fault = take(&mut far, text_request(8192, true, ttt), &[b'a'; 8192]).err();
        if let Some(Pdu::TextResponse(response)) = answers(&mut far).first() {
            ttt = response.ttt;
        }
        fault
    });
    assert!(fault.expect("there is a limit").to_string().contains("text without end"));
}

/// RFC 7143 section 13.12: at any time, for this connection alone, and for transfers in progress as well.
#[test]
fn a_segment_that_is_declared_anew_is_what_is_sent() {
    let mut far = Terms { segment_len: (8192, 4096), ..Terms::default() }.far();
    let read = Order { kind: Kind::Read, address: 0, len_bytes: 8192 };
    take(&mut far, command(0, read, 8192), &[]).expect("in turn");
    let lengths = |sent: Vec<Pdu>| -> Vec<u32> { sent.iter().map(Pdu::data_segment_len).collect() };
    let first = far.poll_transmit().expect("data");
    assert_eq!(first.data.len(), 4096);
    far.session().declare_segment(ConnectionId::LEADING, 1024);
    assert_eq!(lengths(answers(&mut far)), [1024; 4]);
    far.session().declare_segment(ConnectionId::LEADING, 1 << 20);
    take(&mut far, command(1, read, 8192), &[]).expect("in turn");
    assert_eq!(lengths(answers(&mut far)), [8192]);
}

#[test]
fn a_message_of_the_vendors_own() {
    let mut pair = Pair::new(&Terms::default(), 1);
    pair.far.session().notify(ConnectionId::LEADING, 5, b"rate 3");
    pair.far.session().notify(ConnectionId::LEADING, 6, b"");
    pair.near.read(Order { kind: Kind::Read, address: 0, len_bytes: 2000 }, 2000);
    assert_eq!(pair.settle().len(), 1, "the rules saw a StatSN for each");
    let vendor = |code, data: &[u8]| Some(Event::Vendor { cid: 0, code, data: data.to_vec() });
    assert_eq!((pair.near.event(), pair.near.event()), (vendor(5, b"rate 3"), vendor(6, b"")));
}

#[test]
fn a_window_is_told_as_the_document_has_it() {
    let mut far = Terms::default().far();
    let notice = WindowNotice { kind: WindowKind::CutHere, cwnd_packets: 205, mss_bytes: 1448 };
    let (code, data) = notification::emit(&Notification::Window(notice));
    for stat_sn in [STAT_SN, STAT_SN.wrapping_add(1)] {
        far.session().notify(ConnectionId::LEADING, code, &data);
        let sent = far.poll_transmit().expect("the message");
        let Ok(Pdu::AsyncMessage(message)) = Pdu::parse(&sent.header) else { panic!("{:?}", sent.header) };
        assert_eq!((message.event, message.vendor_code, message.stat_sn), (255, 1, stat_sn));
        assert_eq!((sent.header[16..20].to_vec(), message.data_segment_len), (vec![0xff; 4], 14));
        assert_eq!(sent.data, [0, 0, 1, 1, 0, 0, 0, 0, 0, 205, 0, 0, 5, 0xa8]);
    }
    let mut pair = Pair::new(&Terms::default(), 1);
    pair.far.session().notify(ConnectionId::LEADING, code, &data);
    pair.settle();
    let Some(Event::Vendor { cid: 0, code, data }) = pair.near.event() else { panic!("a message") };
    assert_eq!(notification::read(code, &data), Some(Notification::Window(notice)));
}

#[test]
fn a_logout_is_answered_and_nothing_comes_after_it() {
    let mut pair = Pair::new(&Terms::default(), 1);
    pair.near.session().logout();
    pair.settle();
    assert_eq!(pair.near.event(), Some(Event::LoggedOut { time2wait_s: 2 }));
    let mut far = pair.far;
    let nothing = Order { kind: Kind::Nothing, address: 0, len_bytes: 0 };
    assert!(take(&mut far, command(0, nothing, 0), &[]).is_err(), "no request after the logout");
    far.session().notify(ConnectionId::LEADING, 5, b"rate 3");
    far.session().ping(ConnectionId::LEADING);
    far.session().request_logout(ConnectionId::LEADING, 3);
    far.session().announce_drop(ConnectionId::LEADING);
    assert!(answers(&mut far).iter().all(|pdu| matches!(pdu, Pdu::LogoutResponse(_))), "nor a message");
}

#[test]
fn data_that_a_slow_store_brings_after_the_logout_is_not_sent() {
    let mut pair = Pair::new(&Terms::default(), 1);
    pair.far.set_slow(true);
    let read = Order { kind: Kind::Read, address: 0, len_bytes: 2000 };
    for index in 0..2 {
        take(&mut pair.far, command(index, read, 2000), &[]).expect("in turn");
    }
    pair.far.release(0);
    pair.near.session().logout();
    let logout = pair.near.poll_transmit().expect("the logout");
    pair.far.take(&logout.header, &[]).expect("a logout at any time");
    pair.far.release(0);
    let sent = answers(&mut pair.far);
    let [Pdu::LogoutResponse(response)] = sent[..] else { panic!("only the answer to the logout: {sent:?}") };
    assert_eq!((response.response, response.stat_sn), (0, STAT_SN));
    assert_eq!(pair.far.session().unsent_payload_bytes(ConnectionId::LEADING), 0);
}

#[test]
fn a_peer_that_asks_and_never_listens_is_noticed() {
    let mut far = Terms::default().far();
    let nop = NopOut {
        immediate: true,
        data_segment_len: 8192,
        lun: Lun(0),
        itt: 4,
        ttt: RESERVED_TAG,
        cmd_sn: CMD_SN,
        exp_stat_sn: 0,
    };
    let taken = (0..10_000).take_while(|_| {
        take(&mut far, nop, &[1; 8192]).expect("a ping");
        !far.session().is_backed_up(ConnectionId::LEADING)
    });
    assert!(taken.count() * 8192 <= 1 << 20);
    while far.poll_transmit().is_some() {}
    assert!(!far.session().is_backed_up(ConnectionId::LEADING));
}

#[test]
fn an_initiator_that_asks_and_does_not_listen_has_little_made_for_it() {
    let window = 4096;
    let made = Order { kind: Kind::Hand, address: 0, len_bytes: 8192 };
    let until_full = |expected_bytes| {
        let mut far = Terms { window, ..Terms::default() }.far();
        let is_free = |index: &u32| {
            take(&mut far, command(*index, made, expected_bytes), &[]).expect("a command");
            !far.session().is_backed_up(ConnectionId::LEADING)
        };
        let taken = (0..window).take_while(is_free).count();
        while far.poll_transmit().is_some() {}
        assert!(!far.session().is_backed_up(ConnectionId::LEADING));
        taken
    };
    assert_eq!(until_full(8192), (1 << 20) / 8192 - 1);
    assert_eq!(until_full(8), window as usize, "what is not wanted is not kept");
    // Data of ended commands is not kept either.
    let mut far = Terms { window, ..Terms::default() }.far();
    (0..window / 2).for_each(|index| take(&mut far, command(index, made, 8192), &[]).expect("a command"));
    assert!(far.session().is_backed_up(ConnectionId::LEADING));
    let reset = TaskManagementRequest {
        immediate: true,
        function: task_function::LOGICAL_UNIT_RESET,
        lun: Lun(0),
        itt: RESERVED_TAG - 1,
        referenced_itt: RESERVED_TAG,
        cmd_sn: CMD_SN.wrapping_add(window / 2),
        exp_stat_sn: 0,
        ref_cmd_sn: 0,
        exp_data_sn: 0,
    };
    take(&mut far, reset, &[]).expect("a reset");
    assert!(!far.session().is_backed_up(ConnectionId::LEADING));
}
