//! Reactions of a target to protocol violations: PDUs that are rejected, and faults that drop the connection.

use proto::Fault;
use sim::{Far, Kind, Order, content};
use wire::iscsi::{
    DataOut, Lun, NopIn, Pdu, R2t, RESERVED_TAG, ScsiCommand, SnackRequest, TaskManagementRequest,
};

use crate::pair::{CMD_SN, Terms};
use crate::windows::{answers, command, take};

const WRITE: Order = Order { kind: Kind::Write, address: 0, len_bytes: 4096 };

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

/// The reason of the one Reject that answers, and that it brings the refused header.
fn rejected(far: &mut Far, pdu: impl Into<Pdu>, data: &[u8]) -> Option<u8> {
    let pdu = pdu.into();
    take(far, pdu, data).expect("rejected, and the connection goes on");
    let sent = far.poll_transmit()?;
    let Ok(Pdu::Reject(reject)) = Pdu::parse(&sent.header) else { panic!("a Reject answers {pdu:?}") };
    assert_eq!(sent.data.first_chunk().map(Pdu::parse), Some(Ok(pdu)));
    Some(reject.reason)
}

/// Asserts that the connection is dropped, and that the reason has these words.
fn dropped(far: &mut Far, pdu: impl Into<Pdu>, data: &[u8], words: &str) {
    let fault = take(far, pdu, data).expect_err(words);
    assert!(fault.to_string().contains(words), "{fault} should say '{words}'");
}

/// A target with a write that it has sent R2Ts for; the transfer tag of the first.
fn soliciting() -> (Far, u32) {
    let terms = Terms { initial_r2t: true, max_burst_len: 1024, max_outstanding_r2t: 1, ..Terms::default() };
    let mut far = terms.far();
    take(&mut far, command(0, WRITE, 4096), &[]).expect("in turn");
    let [Pdu::R2t(r2t)] = answers(&mut far)[..] else { panic!("one R2T at a time") };
    (far, r2t.ttt)
}

#[test]
fn data_of_unknown_tasks_and_transfers_is_rejected() {
    let (mut far, ttt) = soliciting();
    for (itt, ttt) in [(5, ttt), (5, RESERVED_TAG), (0, ttt + 1), (0, RESERVED_TAG)] {
        let stray = data_out(itt, ttt, 0, 3, 0);
        assert_eq!(rejected(&mut far, stray, b"abc"), Some(0x09), "task {itt}, transfer {ttt:#x}");
    }
    assert_ne!(far.memory()[..3], *b"abc");
    take(&mut far, data_out(0, ttt, 0, 512, 0), &[1; 512]).expect("the write itself goes on");
}

#[test]
fn data_at_the_wrong_place_drops_the_connection() {
    for (offset, len) in [(1, 512), (512, 512), (0, 1025), (u32::MAX, 512)] {
        let (mut far, ttt) = soliciting();
        let before = far.memory().to_vec();
        let wrong = data_out(0, ttt, offset, len, 0);
        dropped(&mut far, wrong, &vec![0xee; len as usize], "Data-Out out of order or beyond its burst");
        assert!(far.memory() == before, "nothing is laid down at {offset}");
    }
    let (mut far, ttt) = soliciting();
    let short = DataOut { is_final: true, ..data_out(0, ttt, 0, 1000, 0) };
    dropped(&mut far, short, &[0; 1000], "Data-Out out of order or beyond its burst");
}

#[test]
fn a_tag_in_use_drops_the_connection() {
    let (mut far, _) = soliciting();
    dropped(&mut far, ScsiCommand { itt: 0, ..command(1, WRITE, 1) }, &[], "already in use");
    let mut far = Terms::default().far();
    dropped(&mut far, ScsiCommand { itt: RESERVED_TAG, ..command(0, WRITE, 1) }, &[], "already in use");
}

#[test]
fn a_segment_longer_than_declared_drops_the_connection() {
    let mut far = Terms { segment_len: (1000, 8192), ..Terms::default() }.far();
    let long = ScsiCommand { data_segment_len: 1001, ..command(0, WRITE, 4096) };
    let fault = take(&mut far, long, &[0; 1001]);
    assert_eq!(fault, Err(Fault::SegmentTooLong { found_bytes: 1001, limit_bytes: 1000 }));
}

#[test]
fn unsolicited_data_that_was_not_agreed_on_drops_the_connection() {
    let check = |terms: Terms, command: ScsiCommand, words: &str| {
        let data = vec![0; command.data_segment_len as usize];
        dropped(&mut terms.far(), command, &data, words);
    };
    let write = |len| ScsiCommand { data_segment_len: len, ..command(0, WRITE, 4096) };
    let none = Terms { immediate_data: false, ..Terms::default() };
    check(none, write(1), "ImmediateData=No");
    check(Terms { first_burst_len: 512, ..Terms::default() }, write(513), "FirstBurstLength");
    let short = ScsiCommand { expected_data_transfer_len: 99, ..write(100) };
    check(Terms::default(), short, "the expected length");
    let announced = ScsiCommand { is_final: false, ..write(100) };
    check(Terms { initial_r2t: true, ..Terms::default() }, announced, "InitialR2T=Yes");
    let read = Order { kind: Kind::Read, ..WRITE };
    check(Terms::default(), ScsiCommand { data_segment_len: 1, ..command(0, read, 4096) }, "writes nothing");
    check(Terms::default(), ScsiCommand { is_final: false, ..command(0, read, 4096) }, "nothing is written");
}

#[test]
fn an_unsolicited_burst_may_end_early_and_the_rest_is_sent_for() {
    let data = content(4096, 3);
    let mut far = Terms::default().far();
    let write = ScsiCommand { is_final: false, data_segment_len: 100, ..command(0, WRITE, 4096) };
    take(&mut far, write, &data[..100]).expect("in turn");
    assert_eq!(answers(&mut far), vec![], "no R2T before the unsolicited data has ended");
    let last = DataOut { is_final: true, ..data_out(0, RESERVED_TAG, 100, 400, 0) };
    take(&mut far, last, &data[100..500]).expect("the end of it");
    let [Pdu::R2t(r2t)] = answers(&mut far)[..] else { panic!("an R2T for the rest") };
    assert_eq!((r2t.buffer_offset, r2t.desired_len, r2t.r2t_sn), (500, 3596, 0));
    let rest = DataOut { is_final: true, ..data_out(0, r2t.ttt, 500, 3596, 0) };
    take(&mut far, rest, &data[500..]).expect("the rest");
    assert_eq!((answers(&mut far).len(), &far.memory()[..4096]), (1, &data[..]));
}

#[test]
fn a_write_that_fails_takes_its_unsolicited_data_before_it_is_answered() {
    let mut far = Terms { segment_len: (1024, 8192), ..Terms::default() }.far();
    let refuse = Order { kind: Kind::Refuse, ..WRITE };
    let write =
        ScsiCommand { write: true, is_final: false, data_segment_len: 1024, ..command(0, refuse, 4096) };
    let before = far.memory().to_vec();
    take(&mut far, write, &[0xee; 1024]).expect("in turn");
    for (index, offset) in [1024, 2048, 3072].into_iter().enumerate() {
        assert_eq!(answers(&mut far), vec![], "not answered while data is on its way");
        let data =
            DataOut { is_final: offset == 3072, ..data_out(0, RESERVED_TAG, offset, 1024, index as u32) };
        take(&mut far, data, &[0xee; 1024]).expect("taken and forgotten");
    }
    let [Pdu::ScsiResponse(response)] = answers(&mut far)[..] else { panic!("one response") };
    assert_eq!((response.status, response.underflow, response.residual), (2, true, 4096));
    assert!(far.memory() == before);
}

#[test]
fn snack_and_task_management_are_answered() {
    let mut far = Terms::default().far();
    let snack = SnackRequest {
        kind: 0,
        lun: Lun(0),
        itt: 1,
        ttt: RESERVED_TAG,
        exp_stat_sn: 0,
        beg_run: 0,
        run_length: 0,
    };
    assert_eq!(rejected(&mut far, snack, &[]), Some(0x03));
    for immediate in [true, false] {
        let abort = TaskManagementRequest {
            immediate,
            function: 3,
            lun: Lun(0),
            itt: 2,
            referenced_itt: 1,
            cmd_sn: CMD_SN,
            exp_stat_sn: 0,
            ref_cmd_sn: 0,
            exp_data_sn: 0,
        };
        take(&mut far, abort, &[]).expect("answered");
        let [Pdu::TaskManagementResponse(response)] = answers(&mut far)[..] else { panic!("one response") };
        assert_eq!((response.response, response.itt), (5, 2));
        assert_eq!(response.exp_cmd_sn, CMD_SN.wrapping_add(u32::from(!immediate)));
    }
}

#[test]
fn what_only_a_target_sends_drops_the_connection() {
    let (stat_sn, exp_cmd_sn, max_cmd_sn) = (0, 0, 0);
    let nop = NopIn {
        data_segment_len: 0,
        lun: Lun(0),
        itt: 1,
        ttt: RESERVED_TAG,
        stat_sn,
        exp_cmd_sn,
        max_cmd_sn,
    };
    let r2t = R2t {
        lun: Lun(0),
        itt: 1,
        ttt: 1,
        stat_sn,
        exp_cmd_sn,
        max_cmd_sn,
        r2t_sn: 0,
        buffer_offset: 0,
        desired_len: 1,
    };
    for pdu in [Pdu::from(nop), Pdu::from(r2t)] {
        dropped(&mut Terms::default().far(), pdu, &[], "has no place here");
    }
}
