//! A session of several connections at the target: one order of commands, and for each connection its own answers.

use proto::params::Params;
use proto::target::{ConnectionId, Event};
use sim::{Far, Kind, Order, content};
use wire::iscsi::{
    DataOut, LogoutRequest, Lun, NopOut, Pdu, RESERVED_TAG, ScsiCommand, TaskManagementRequest, TextRequest,
    reject_reason, task_function,
};

use crate::pair::{CMD_SN, STAT_SN, Terms};
use crate::windows::command;

const FIRST: ConnectionId = ConnectionId::LEADING;
const READ: Order = Order { kind: Kind::Read, address: 0, len_bytes: 4096 };
const WRITE: Order = Order { kind: Kind::Write, address: 0, len_bytes: 4096 };
const NOTHING: Order = Order { kind: Kind::Nothing, address: 0, len_bytes: 0 };
/// StatSN that the second connection begins with.
const SECOND_STAT_SN: u32 = 1000;

fn params(segment_len: u32) -> Params {
    Params {
        our_max_recv_data_segment_len: 8192,
        peer_max_recv_data_segment_len: segment_len,
        ..Params::RFC_DEFAULT
    }
}

/// A target with a second connection, which its initiator calls 7.
fn pair(terms: Terms) -> (Far, ConnectionId) {
    let mut far = terms.far();
    let second = far.session().join(7, params(512), SECOND_STAT_SN);
    assert_ne!(second, FIRST);
    (far, second)
}

#[track_caller]
fn take(far: &mut Far, at: ConnectionId, pdu: impl Into<Pdu>, data: &[u8]) {
    let mut header = [0; 48];
    pdu.into().emit(&mut header);
    far.take_on(at, &header, data).expect("within the protocol");
}

fn answers(far: &mut Far, at: ConnectionId) -> Vec<Pdu> {
    let sent = std::iter::from_fn(|| far.poll_transmit_on(at));
    sent.map(|sent| Pdu::parse(&sent.header).expect("a target sends PDUs")).collect()
}

fn tags(far: &mut Far, at: ConnectionId) -> Vec<u32> {
    answers(far, at).iter().map(Pdu::itt).collect()
}

fn nop(index: u32, immediate: bool) -> NopOut {
    NopOut {
        immediate,
        data_segment_len: 0,
        lun: Lun(0),
        itt: index,
        ttt: RESERVED_TAG,
        cmd_sn: CMD_SN.wrapping_add(index),
        exp_stat_sn: 0,
    }
}

fn manage(function: u8, referenced: u32, next: u32) -> TaskManagementRequest {
    TaskManagementRequest {
        immediate: true,
        function,
        lun: Lun(0),
        itt: 0x7777,
        referenced_itt: referenced,
        cmd_sn: CMD_SN.wrapping_add(next),
        exp_stat_sn: 0,
        ref_cmd_sn: CMD_SN.wrapping_add(referenced),
        exp_data_sn: 0,
    }
}

fn logout(reason: u8, cid: u16) -> LogoutRequest {
    LogoutRequest { immediate: true, reason, itt: 0x8888, cid, cmd_sn: CMD_SN, exp_stat_sn: 0 }
}

#[test]
fn commands_run_in_the_order_of_the_session() {
    let (mut far, second) = pair(Terms::default());
    for index in [1, 3, 5] {
        take(&mut far, second, command(index, NOTHING, 0), &[]);
    }
    take(&mut far, second, nop(7, false), &[]);
    assert_eq!(answers(&mut far, second), vec![], "those before them are missing");
    for (index, expected) in [(0, vec![1]), (2, vec![3]), (4, vec![5]), (6, vec![7])] {
        take(&mut far, FIRST, command(index, NOTHING, 0), &[]);
        assert_eq!((tags(&mut far, FIRST), tags(&mut far, second)), (vec![index], expected));
    }
}

#[test]
fn each_connection_has_its_own_numbers_and_segments() {
    let (mut far, second) = pair(Terms::default());
    take(&mut far, FIRST, command(0, READ, 4096), &[]);
    take(&mut far, second, command(1, READ, 4096), &[]);
    let (one, other) = (answers(&mut far, FIRST), answers(&mut far, second));
    assert_eq!((one.len(), other.len()), (1, 8), "512 bytes at a time on the second");
    let [Some(Pdu::DataIn(one)), Some(Pdu::DataIn(other))] = [one.last(), other.last()] else { panic!() };
    assert_eq!((one.itt, one.stat_sn), (0, STAT_SN));
    assert_eq!((other.itt, other.stat_sn), (1, SECOND_STAT_SN));
    assert_eq!(one.exp_cmd_sn, CMD_SN.wrapping_add(2));
    assert_eq!(one.exp_cmd_sn, other.exp_cmd_sn);
}

#[test]
fn data_belongs_to_the_connection_of_its_command() {
    let (mut far, second) = pair(Terms { initial_r2t: true, ..Terms::default() });
    take(&mut far, second, command(0, WRITE, 4096), &[]);
    assert_eq!(answers(&mut far, FIRST), vec![]);
    let [Pdu::R2t(r2t)] = answers(&mut far, second)[..] else { panic!("the data is sent for") };
    let data = DataOut {
        is_final: true,
        data_segment_len: 4096,
        lun: Lun(0),
        itt: 0,
        ttt: r2t.ttt,
        exp_stat_sn: 0,
        data_sn: 0,
        buffer_offset: 0,
    };
    let bytes = content(4096, 3);
    take(&mut far, FIRST, data, &bytes);
    let [Pdu::Reject(reject)] = answers(&mut far, FIRST)[..] else { panic!("not here") };
    assert_eq!(reject.reason, reject_reason::INVALID_PDU_FIELD);
    take(&mut far, second, data, &bytes);
    assert!(matches!(answers(&mut far, second)[..], [Pdu::ScsiResponse(_)]));
    assert!(far.memory()[..4096] == bytes);
}

#[test]
fn a_lost_connection_takes_its_own_tasks_with_it() {
    let (mut far, second) = pair(Terms { window: 8, ..Terms::default() });
    far.set_slow(true);
    take(&mut far, FIRST, command(0, READ, 4096), &[]);
    take(&mut far, second, command(1, READ, 4096), &[]);
    // Ahead of their turn, with data that is kept.
    let early = ScsiCommand { data_segment_len: 512, ..command(3, WRITE, 4096) };
    take(&mut far, second, early, &content(512, 1));
    take(&mut far, second, NopOut { data_segment_len: 8, ..nop(4, false) }, &[1; 8]);
    assert_eq!(far.session().early_bytes(), 512 + 8);
    far.lose(second);
    assert_eq!(far.session().connections().len(), 1);
    assert_eq!(far.session().early_bytes(), 0);
    // The initiator fills the CmdSN of the lost command; commands that had arrived count as received.
    take(&mut far, FIRST, manage(task_function::ABORT_TASK, 2, 5), &[]);
    let answered = answers(&mut far, FIRST);
    assert!(matches!(answered[..], [Pdu::TaskManagementResponse(it)] if it.response == 0), "{answered:?}");
    while far.release(0) {}
    assert_eq!(tags(&mut far, FIRST), [0], "nothing of the other's");
    take(&mut far, FIRST, command(5, NOTHING, 0), &[]);
    let [Pdu::ScsiResponse(last)] = answers(&mut far, FIRST)[..] else { panic!("in turn") };
    assert_eq!((last.itt, far.session().open_commands()), (5, 0));
    assert_eq!(last.exp_cmd_sn, CMD_SN.wrapping_add(6));
    assert_eq!(last.max_cmd_sn, CMD_SN.wrapping_add(6 + 8 - 1), "the window is as wide as before");
}

#[test]
fn a_reset_waits_for_commands_that_are_slower_than_it() {
    let (mut far, second) = pair(Terms::default());
    far.set_slow(true);
    take(&mut far, FIRST, manage(task_function::LOGICAL_UNIT_RESET, RESERVED_TAG, 2), &[]);
    take(&mut far, second, command(1, READ, 4096), &[]);
    assert_eq!(answers(&mut far, FIRST), vec![]);
    take(&mut far, second, command(0, READ, 4096), &[]);
    while far.release(0) {}
    assert!(matches!(answers(&mut far, FIRST)[..], [Pdu::TaskManagementResponse(_)]));
    assert_eq!(answers(&mut far, second), vec![], "both have ended");
    // One connection's requests can be ended on another, too.
    take(&mut far, second, command(2, READ, 4096), &[]);
    take(&mut far, FIRST, manage(task_function::ABORT_TASK, 2, 3), &[]);
    while far.release(0) {}
    assert!(matches!(answers(&mut far, FIRST)[..], [Pdu::TaskManagementResponse(it)] if it.response == 0));
    assert_eq!((answers(&mut far, second), far.session().open_commands()), (vec![], 0));
}

#[test]
fn a_reset_behind_a_window_that_is_used_up_waits_as_well() {
    let window = 8;
    let (mut far, second) = pair(Terms { window, ..Terms::default() });
    far.set_slow(true);
    take(&mut far, FIRST, manage(task_function::LOGICAL_UNIT_RESET, RESERVED_TAG, window), &[]);
    for index in 0..window {
        assert_eq!(answers(&mut far, FIRST), vec![], "{index} has not come");
        take(&mut far, second, command(index, READ, 4096), &[]);
    }
    while far.release(0) {}
    assert!(matches!(answers(&mut far, FIRST)[..], [Pdu::TaskManagementResponse(_)]));
    assert_eq!(answers(&mut far, second), vec![], "all have ended");
}

#[test]
fn a_reset_spares_commands_that_come_after_it() {
    for immediate in [true, false] {
        let (mut far, second) = pair(Terms::default());
        far.set_slow(true);
        take(&mut far, FIRST, command(0, READ, 4096), &[]);
        // Ahead of its turn, since another is missing between it and the reset.
        take(&mut far, second, command(3, READ, 4096), &[]);
        let reset = manage(task_function::LOGICAL_UNIT_RESET, RESERVED_TAG, 1);
        take(&mut far, FIRST, TaskManagementRequest { immediate, ..reset }, &[]);
        while far.release(0) {}
        assert!(
            matches!(answers(&mut far, FIRST)[..], [Pdu::TaskManagementResponse(_)]),
            "the first has ended"
        );
        far.set_slow(false);
        let missing = if immediate { 1..3 } else { 2..3 };
        for index in missing.clone() {
            take(&mut far, FIRST, command(index, NOTHING, 0), &[]);
        }
        assert_eq!(tags(&mut far, FIRST), missing.collect::<Vec<_>>());
        let last = answers(&mut far, second).last().map(Pdu::itt);
        assert_eq!((last, far.session().open_commands()), (Some(3), 0));
    }
}

#[test]
fn a_reset_spares_commands_that_overtake_it() {
    let (mut far, second) = pair(Terms::default());
    far.set_slow(true);
    take(&mut far, second, command(0, READ, 4096), &[]);
    take(&mut far, second, command(1, READ, 4096), &[]);
    // Sent between the two, over a connection that is slower: it covers the first only.
    take(&mut far, FIRST, manage(task_function::LOGICAL_UNIT_RESET, RESERVED_TAG, 1), &[]);
    while far.release(0) {}
    assert!(matches!(answers(&mut far, FIRST)[..], [Pdu::TaskManagementResponse(_)]));
    let last = answers(&mut far, second).last().map(Pdu::itt);
    assert_eq!((last, far.session().open_commands()), (Some(1), 0));
}

#[test]
fn requests_that_wait_for_their_turn_are_bounded() {
    let (mut far, second) = pair(Terms { window: 4096, ..Terms::default() });
    let text = |index: u32| TextRequest {
        immediate: false,
        is_final: true,
        is_continued: false,
        data_segment_len: 8192,
        lun: Lun(0),
        itt: index,
        ttt: RESERVED_TAG,
        cmd_sn: CMD_SN.wrapping_add(index),
        exp_stat_sn: 0,
    };
    let fault = (1..4096).find_map(|index| {
        let mut header = [0; 48];
        Pdu::from(text(index)).emit(&mut header);
        far.take_on(second, &header, &[b'a'; 8192]).err()
    });
    assert!(fault.expect("there is a limit").to_string().contains("too much data"));
    // The fault drops the connection, and its resources are free again.
    far.lose(second);
    assert_eq!(far.session().open_commands(), 0);
    // The same number twice is one request, and the number of resets that wait for missing commands is bounded.
    let (mut far, second) = pair(Terms::default());
    take(&mut far, second, nop(1, false), &[]);
    take(&mut far, second, NopOut { itt: 99, ..nop(1, false) }, &[]);
    for _ in 0..65 {
        take(&mut far, FIRST, manage(task_function::ABORT_TASK_SET, RESERVED_TAG, 2), &[]);
    }
    let [Pdu::TaskManagementResponse(refused)] = answers(&mut far, FIRST)[..] else { panic!("one too many") };
    assert_eq!(refused.response, 255);
    take(&mut far, FIRST, command(0, NOTHING, 0), &[]);
    assert_eq!(tags(&mut far, second), [1]);
    assert_eq!(answers(&mut far, FIRST).len(), 65);
    assert_eq!(far.faults(), []);
}

#[test]
fn which_connection_a_logout_ends() {
    let check = |reason, cid, response, expected: Option<Option<ConnectionId>>| {
        let mut session = proto::target::Session::new(3, params(512), CMD_SN, STAT_SN, 8);
        let second = session.join(7, params(512), SECOND_STAT_SN);
        let pdu = Pdu::from(logout(reason, cid));
        let mut header = [0; 48];
        pdu.emit(&mut header);
        session.begin(second, &pdu).expect("a request");
        session.handle(second, &pdu, &header, &[]).expect("a request");
        let sent = session.poll_transmit(second).expect("an answer");
        let Ok(Pdu::LogoutResponse(answer)) = Pdu::parse(&sent.header()) else { panic!("a logout response") };
        assert_eq!(answer.response, response);
        let ends = session.poll_event().map(|event| match event {
            Event::Logout { connection, ends } if connection == second => ends,
            other => panic!("{other:?}"),
        });
        assert_eq!(ends, expected, "reason {reason}, connection {cid}");
        let is_over = expected.is_some_and(|ends| ends != Some(FIRST));
        assert_eq!(session.begin(second, &pdu).is_err(), is_over);
    };
    let second = ConnectionId::LEADING;
    check(0, 9, 0, Some(None));
    check(1, 3, 0, Some(Some(second)));
    check(1, 9, 1, None);
    check(2, 7, 2, None);
    let mut session = proto::target::Session::new(3, params(512), CMD_SN, STAT_SN, 8);
    let own = session.join(7, params(512), 0);
    assert_eq!((session.connection_of(7), session.connection_of(3)), (Some(own), Some(FIRST)));
    assert_eq!(session.connection_of(9), None);
}

#[test]
fn one_connection_alone_has_no_requests_before_their_turn() {
    let mut far = Terms::default().far();
    let mut header = [0; 48];
    Pdu::from(nop(1, false)).emit(&mut header);
    let fault = far.take_on(FIRST, &header, &[]).expect_err("it will never have its turn");
    assert!(fault.to_string().contains("requests before it are missing"), "{fault}");
    let early = ScsiCommand { ..command(1, NOTHING, 0) };
    take(&mut far, FIRST, early, &[]);
}

#[test]
fn the_turn_of_a_command_comes_while_its_data_does() {
    // Immediate data, and Data-Out behind it: its first PDU is in flight when the command is due.
    let whole = content(4096, 9);
    let (mut far, second) = pair(Terms { initial_r2t: false, ..Terms::default() });
    let early = ScsiCommand { is_final: false, data_segment_len: 1024, ..command(1, WRITE, 4096) };
    let mut header = [0; 48];
    Pdu::from(early).emit(&mut header);
    let segment = far.begin_on(second, &header).expect("ahead of its turn");
    take(&mut far, FIRST, command(0, NOTHING, 0), &[]);
    far.finish_on(second, &header, segment, &whole[..1024]).expect("in its turn");
    let rest = DataOut {
        is_final: true,
        data_segment_len: 3072,
        lun: Lun(0),
        itt: 1,
        ttt: RESERVED_TAG,
        exp_stat_sn: 0,
        data_sn: 0,
        buffer_offset: 1024,
    };
    take(&mut far, second, rest, &whole[1024..]);
    assert_eq!((tags(&mut far, FIRST), tags(&mut far, second)), (vec![0], vec![1]));
    assert!(far.memory()[..4096] == whole[..], "all of it is where it belongs");
    // The same when the data is one that follows the command.
    let whole = content(4096, 10);
    let early = ScsiCommand { is_final: false, data_segment_len: 1024, ..command(3, WRITE, 4096) };
    take(&mut far, second, early, &whole[..1024]);
    Pdu::from(DataOut { itt: 3, ..rest }).emit(&mut header);
    let segment = far.begin_on(second, &header).expect("ahead of its turn");
    take(&mut far, FIRST, command(2, NOTHING, 0), &[]);
    far.finish_on(second, &header, segment, &whole[1024..]).expect("in its turn");
    assert_eq!((tags(&mut far, FIRST), tags(&mut far, second)), (vec![2], vec![3]));
    assert!(far.memory()[..4096] == whole[..], "all of it is where it belongs");
}

#[test]
fn data_beyond_what_a_command_moves_is_nobodys_also_when_its_turn_comes_while_it_arrives() {
    // A command that announces 4096 bytes and writes a block of 512.
    let short = Order { len_bytes: 512, ..WRITE };
    let (mut far, second) = pair(Terms { initial_r2t: false, ..Terms::default() });
    let early = ScsiCommand { is_final: false, data_segment_len: 1024, ..command(1, short, 4096) };
    let (whole, behind) = (content(4096, 11), far.memory()[512..4096].to_vec());
    take(&mut far, second, early, &whole[..1024]);
    let rest = DataOut {
        is_final: true,
        data_segment_len: 3072,
        lun: Lun(0),
        itt: 1,
        ttt: RESERVED_TAG,
        exp_stat_sn: 0,
        data_sn: 0,
        buffer_offset: 1024,
    };
    let mut header = [0; 48];
    Pdu::from(rest).emit(&mut header);
    let segment = far.begin_on(second, &header).expect("ahead of its turn");
    take(&mut far, FIRST, command(0, NOTHING, 0), &[]);
    far.finish_on(second, &header, segment, &whole[1024..]).expect("in its turn");
    assert_eq!((tags(&mut far, FIRST), tags(&mut far, second)), (vec![0], vec![1]));
    assert!(far.memory()[..512] == whole[..512] && far.memory()[512..4096] == behind[..]);
}
