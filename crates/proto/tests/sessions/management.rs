//! Task management: the task of a request, tasks that end without a response, and lost data.

use proto::target::ConnectionId;
use sim::{Far, Kind, Order, content};
use wire::iscsi::{
    DataOut, Lun, Pdu, RESERVED_TAG, ScsiCommand, TaskManagementRequest, reject_reason, task_function,
};

use crate::pair::{CMD_SN, Terms};
use crate::windows::{answers, command, take};

const READ: Order = Order { kind: Kind::Read, address: 0, len_bytes: 4096 };
const WRITE: Order = Order { kind: Kind::Write, address: 0, len_bytes: 4096 };
const NOTHING: Order = Order { kind: Kind::Nothing, address: 0, len_bytes: 0 };
const TAG: u32 = 0x7777;

/// An immediate request about the task that [`command`] makes of `index`, sent when `next` commands were.
fn request(function: u8, index: u32, next: u32) -> TaskManagementRequest {
    TaskManagementRequest {
        immediate: true,
        function,
        lun: Lun(0),
        itt: TAG,
        referenced_itt: if function == task_function::ABORT_TASK { index } else { RESERVED_TAG },
        cmd_sn: CMD_SN.wrapping_add(next),
        exp_stat_sn: 0,
        ref_cmd_sn: CMD_SN.wrapping_add(index),
        exp_data_sn: 0,
    }
}

/// The response to a request, which must be all that is sent.
#[track_caller]
fn response(far: &mut Far) -> u8 {
    let answers = answers(far);
    let [Pdu::TaskManagementResponse(response)] = answers[..] else { panic!("one response: {answers:?}") };
    assert_eq!(response.itt, TAG);
    response.response
}

fn data_out(itt: u32, ttt: u32, buffer_offset: u32, len: u32, data_sn: u32) -> DataOut {
    DataOut {
        is_final: false,
        data_segment_len: len,
        lun: Lun(0),
        itt,
        ttt,
        exp_stat_sn: 0,
        data_sn,
        buffer_offset,
    }
}

/// A target that has solicited the data of the write `index`. Returns the target transfer tag.
fn soliciting(far: &mut Far, index: u32) -> u32 {
    take(far, command(index, WRITE, 4096), &[]).expect("in turn");
    let [Pdu::R2t(r2t)] = answers(far)[..] else { panic!("the data is sent for") };
    r2t.ttt
}

#[test]
fn a_read_that_the_store_is_at_ends_without_an_answer_and_the_store_is_waited_for() {
    let mut far = Terms::default().far();
    far.set_slow(true);
    take(&mut far, command(0, READ, 4096), &[]).expect("in turn");
    take(&mut far, command(1, READ, 4096), &[]).expect("in turn");
    take(&mut far, request(task_function::ABORT_TASK, 0, 2), &[]).expect("a request");
    assert_eq!(answers(&mut far), vec![], "the store has not let go");
    far.release(0);
    assert_eq!(response(&mut far), 0);
    far.release(0);
    let rest = answers(&mut far);
    assert!(!rest.is_empty() && rest.iter().all(|pdu| pdu.itt() == 1), "{rest:?}");
    assert_eq!(far.session().open_commands(), 0);
}

#[test]
fn a_read_that_is_being_sent_stops() {
    let mut far = Terms { segment_len: (512, 512), ..Terms::default() }.far();
    take(&mut far, command(0, READ, 4096), &[]).expect("in turn");
    let first = far.poll_transmit().expect("data");
    assert!(matches!(Pdu::parse(&first.header), Ok(Pdu::DataIn(_))));
    take(&mut far, request(task_function::ABORT_TASK_SET, 0, 1), &[]).expect("a request");
    assert_eq!(response(&mut far), 0);
    assert_eq!(
        (far.session().unsent_payload_bytes(ConnectionId::LEADING), far.session().open_commands()),
        (0, 0)
    );
}

#[test]
fn a_write_ends_and_the_rest_of_its_data_is_forgotten() {
    let mut far = Terms { initial_r2t: true, ..Terms::default() }.far();
    let before = far.memory().to_vec();
    let ttt = soliciting(&mut far, 0);
    take(&mut far, request(task_function::ABORT_TASK, 0, 1), &[]).expect("a request");
    assert_eq!(response(&mut far), 0);
    take(&mut far, data_out(0, ttt, 0, 512, 0), &[0xee; 512]).expect("taken and forgotten");
    assert_eq!(answers(&mut far), vec![]);
    // The tag is free again, and data sent under it belongs to the new task.
    let again = ScsiCommand { itt: 0, ..command(1, WRITE, 4096) };
    take(&mut far, again, &[]).expect("in turn");
    let [Pdu::R2t(r2t)] = answers(&mut far)[..] else { panic!("the data is sent for") };
    take(&mut far, data_out(0, ttt, 0, 512, 0), &[0xee; 512]).expect("rejected");
    let [Pdu::Reject(reject)] = answers(&mut far)[..] else { panic!("no data of this task") };
    assert_eq!(reject.reason, reject_reason::INVALID_PDU_FIELD);
    assert!(far.memory() == before, "nothing of the old task is laid down");
    let all = DataOut { is_final: true, ..data_out(0, r2t.ttt, 0, 4096, 0) };
    take(&mut far, all, &content(4096, 9)).expect("data of the new task");
    assert!(matches!(answers(&mut far)[..], [Pdu::ScsiResponse(_)]));
}

#[test]
fn a_write_whose_answer_waits_for_unwanted_data_ends_at_once() {
    let mut far = Terms { segment_len: (1024, 8192), ..Terms::default() }.far();
    let refuse = Order { kind: Kind::Refuse, ..WRITE };
    let write =
        ScsiCommand { write: true, is_final: false, data_segment_len: 1024, ..command(0, refuse, 4096) };
    take(&mut far, write, &[0xee; 1024]).expect("in turn");
    take(&mut far, request(task_function::ABORT_TASK, 0, 1), &[]).expect("a request");
    assert_eq!(response(&mut far), 0);
    take(&mut far, data_out(0, RESERVED_TAG, 1024, 1024, 0), &[0xee; 1024]).expect("taken and forgotten");
    assert_eq!((answers(&mut far), far.session().open_commands()), (vec![], 0));
}

#[test]
fn which_tasks_are_there() {
    let check = |index, next, words: &str, expected| {
        let mut far = Terms::default().far();
        take(&mut far, command(0, NOTHING, 0), &[]).expect("in turn");
        take(&mut far, command(3, NOTHING, 0), &[]).expect("early");
        answers(&mut far);
        take(&mut far, request(task_function::ABORT_TASK, index, next), &[]).expect("a request");
        assert_eq!(response(&mut far), expected, "{words}");
    };
    check(0, 4, "done already", 1);
    check(u32::MAX, 4, "before all", 1);
    check(100, 200, "outside the window", 1);
    check(5, 4, "not before the request", 1);
    check(1, 4, "the next one, which has not come", 0);
    check(2, 4, "a missing one", 0);
    check(3, 4, "one that waits for its turn", 0);
    let mut far = Terms::default().far();
    far.set_slow(true);
    take(&mut far, command(0, READ, 4096), &[]).expect("in turn");
    let elsewhere =
        TaskManagementRequest { lun: Lun::from_number(1), ..request(task_function::ABORT_TASK, 0, 1) };
    take(&mut far, elsewhere, &[]).expect("a request");
    assert_eq!(response(&mut far), 1, "on another unit");
}

#[test]
fn a_missing_command_counts_as_received() {
    let mut far = Terms::default().far();
    for index in [3, 4] {
        take(&mut far, command(index, NOTHING, 0), &[]).expect("early");
    }
    for index in [1, 0, 3] {
        take(&mut far, request(task_function::ABORT_TASK, index, 5), &[]).expect("a request");
        assert_eq!(response(&mut far), 0, "{index}");
    }
    // The late one is ignored, and the one that was not ended runs when its turn has come.
    take(&mut far, command(1, NOTHING, 0), &[]).expect("ignored");
    assert_eq!(answers(&mut far), vec![]);
    take(&mut far, command(2, NOTHING, 0), &[]).expect("in turn");
    let answers = answers(&mut far);
    assert_eq!(answers.iter().map(Pdu::itt).collect::<Vec<_>>(), [2, 4]);
    let Some(Pdu::ScsiResponse(last)) = answers.last() else { panic!("{answers:?}") };
    let (exp, max) = (CMD_SN.wrapping_add(5), CMD_SN.wrapping_add(5 + 16 - 1));
    assert_eq!((last.exp_cmd_sn, last.max_cmd_sn), (exp, max), "the window is as wide as before");
}

#[test]
fn functions_of_a_unit_leave_other_units_alone() {
    for function in [
        task_function::ABORT_TASK_SET,
        task_function::CLEAR_TASK_SET,
        task_function::LOGICAL_UNIT_RESET,
        task_function::TARGET_WARM_RESET,
    ] {
        let mut far = Terms::default().far();
        far.set_slow(true);
        take(&mut far, command(0, READ, 4096), &[]).expect("in turn");
        let elsewhere = ScsiCommand { lun: Lun::from_number(1), ..command(1, READ, 4096) };
        take(&mut far, elsewhere, &[]).expect("in turn");
        take(&mut far, request(function, 0, 2), &[]).expect("a request");
        while far.release(0) {}
        let left: Vec<_> = answers(&mut far).iter().map(Pdu::itt).filter(|itt| *itt != TAG).collect();
        let expected = if function == task_function::TARGET_WARM_RESET { 0 } else { 1 };
        assert_eq!(left.iter().filter(|itt| **itt == 1).count(), expected, "function {function}: {left:?}");
        assert!(!left.contains(&0), "function {function}");
    }
}

#[test]
fn what_cannot_be_done() {
    let check = |function, expected| {
        let mut far = Terms::default().far();
        take(&mut far, request(function, 0, 0), &[]).expect("a request");
        assert_eq!(response(&mut far), expected, "function {function}");
    };
    check(task_function::CLEAR_ACA, 5);
    check(task_function::TASK_REASSIGN, 4);
    check(0x55, 5);
    // A request beyond those that may be under way.
    let mut far = Terms::default().far();
    far.set_slow(true);
    take(&mut far, command(0, READ, 4096), &[]).expect("in turn");
    for _ in 0..64 {
        take(&mut far, request(task_function::ABORT_TASK_SET, 0, 1), &[]).expect("a request");
    }
    assert_eq!(answers(&mut far), vec![]);
    take(&mut far, request(task_function::ABORT_TASK_SET, 0, 1), &[]).expect("a request");
    assert_eq!(response(&mut far), 255);
    far.release(0);
    assert_eq!(answers(&mut far).len(), 64);
}

#[test]
fn a_gap_in_data_sn_fails_the_write_when_all_is_sent() {
    let check = |numbers: &[u32], laid_down: usize| {
        let terms = Terms { initial_r2t: true, immediate_data: false, ..Terms::default() };
        let mut far = terms.far();
        let before = far.memory().to_vec();
        let ttt = soliciting(&mut far, 0);
        for (index, &data_sn) in numbers.iter().enumerate() {
            assert_eq!(answers(&mut far), vec![], "not answered before the last PDU of the burst");
            let (offset, is_final) = (index as u32 * 1024, index + 1 == numbers.len());
            let part = DataOut { is_final, ..data_out(0, ttt, offset, 1024, data_sn) };
            take(&mut far, part, &[0xee; 1024]).expect("taken");
        }
        let [Pdu::ScsiResponse(response)] = answers(&mut far)[..] else { panic!("one response") };
        assert_eq!((response.response, response.status), (0, 2), "{numbers:?}");
        assert!(far.memory()[..laid_down].iter().all(|byte| *byte == 0xee));
        assert!(far.memory()[laid_down..] == before[laid_down..], "{numbers:?}: nothing behind the gap");
        take(&mut far, command(1, NOTHING, 0), &[]).expect("the session goes on");
        assert_eq!(answers(&mut far).len(), 1);
    };
    check(&[0, 0, 0, 0], 1024);
    check(&[27, 1, 2, 3], 0);
    check(&[u32::MAX, 0, 1, 2], 0);
    check(&[0, 1, 3, 2], 2048);
}

#[test]
fn a_gap_in_the_data_of_an_early_write_fails_it_in_its_turn() {
    let mut far = Terms::default().far();
    let before = far.memory().to_vec();
    let early = ScsiCommand { is_final: false, ..command(1, WRITE, 4096) };
    take(&mut far, early, &[]).expect("early");
    let last = DataOut { is_final: true, ..data_out(1, RESERVED_TAG, 0, 4096, 1) };
    take(&mut far, last, &[0xee; 4096]).expect("taken");
    take(&mut far, command(0, NOTHING, 0), &[]).expect("in turn");
    let statuses: Vec<_> = answers(&mut far)
        .iter()
        .map(|pdu| match pdu {
            Pdu::ScsiResponse(response) => (response.itt, response.status),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(statuses, [(0, 0), (1, 2)]);
    assert!(far.memory() == before);
}

#[test]
fn a_reset_in_its_turn_leaves_what_comes_after_it() {
    let mut far = Terms::default().far();
    take(&mut far, command(1, NOTHING, 0), &[]).expect("ahead of its turn");
    let write = Order { len_bytes: 512, ..WRITE };
    let write = ScsiCommand { data_segment_len: 512, ..command(2, write, 512) };
    take(&mut far, write, &[0xee; 512]).expect("ahead of its turn");
    let reset = TaskManagementRequest {
        immediate: false,
        cmd_sn: CMD_SN,
        ..request(task_function::LOGICAL_UNIT_RESET, 0, 0)
    };
    take(&mut far, reset, &[]).expect("in turn");
    let mut tags: Vec<u32> = answers(&mut far).iter().map(Pdu::itt).collect();
    tags.sort_unstable();
    assert_eq!(tags, [1, 2, TAG], "all three are answered");
    assert_eq!(far.session().open_commands(), 0);
}
