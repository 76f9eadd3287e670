//! Task management by one session: which tasks end, who is told, and that nothing of theirs is laid down afterwards.

use std::io::Write;
use std::time::Duration;

use e2e::ours::Target;
use e2e::{farlun, run};
use wire::iscsi::{
    BHS_LEN, Lun, Pdu, RESERVED_TAG, ScsiCommand, TaskManagementRequest, split_sense, task_function,
    task_response,
};
use wire::scsi::{Cdb, ReserveOut, ReserveParameters, Sense};

use crate::peers::pdu;
use crate::peers::raw_initiator::{
    Flow, Session, connect, data_out, login_request, ping, read, until_closed, write,
};

const TAG: u32 = 0x5000_0000;
const RESET: (u8, u8) = (0x29, 0x03);
const CLEARED: (u8, u8) = (0x2f, 0x00);

fn request(session: &Session, function: u8, lun: u16) -> TaskManagementRequest {
    TaskManagementRequest {
        immediate: true,
        function,
        lun: Lun::from_number(lun),
        itt: TAG,
        referenced_itt: RESERVED_TAG,
        cmd_sn: session.cmd_sn,
        exp_stat_sn: 0,
        ref_cmd_sn: 0,
        exp_data_sn: 0,
    }
}

fn abort(session: &Session, task: &ScsiCommand) -> TaskManagementRequest {
    TaskManagementRequest {
        referenced_itt: task.itt,
        ref_cmd_sn: task.cmd_sn,
        lun: task.lun,
        ..request(session, task_function::ABORT_TASK, 0)
    }
}

/// Sends a request; what is answered to it, before which nothing else may come.
#[track_caller]
fn manage(session: &mut Session, request: TaskManagementRequest) -> u8 {
    session.send(request, &[]);
    match session.receive() {
        (Pdu::TaskManagementResponse(response), _) if response.itt == request.itt => response.response,
        found => panic!("no response to the request: {found:?}"),
    }
}

/// A write whose data has been sent for and does not come; the tag to send it with.
#[track_caller]
fn open_write(session: &mut Session, lun: u16) -> (ScsiCommand, u32) {
    let command = session.command(lun, write(0, 4096), Flow::Out(4096));
    session.send(command, &[]);
    let (Pdu::R2t(r2t), _) = session.receive() else { panic!("the data is not sent for") };
    (command, r2t.ttt)
}

/// What TEST UNIT READY is answered: the additional sense, if there is any.
#[track_caller]
fn attention(session: &mut Session, lun: u16) -> Option<(u8, u8)> {
    let command = session.command(lun, Cdb::TestUnitReady, Flow::Nothing);
    session.send(command, &[]);
    let (Pdu::ScsiResponse(response), data) = session.receive() else { panic!("no answer") };
    assert_eq!(response.itt, command.itt);
    (response.status != 0).then(|| {
        let sense = Sense::parse(split_sense(&data).expect("sense data").0).expect("sense data");
        (sense.asc, sense.ascq)
    })
}

#[test]
fn an_aborted_write_leaves_nothing_behind() {
    let target = Target::serve(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    let (command, ttt) = open_write(&mut session, 0);
    let request = abort(&session, &command);
    assert_eq!(manage(&mut session, request), task_response::COMPLETE);
    session.send_bytes(&data_out(command.itt, ttt, 0, &[9; 4096]));
    assert!(session.until_pong().is_empty(), "its data is taken and forgotten");
    assert_eq!(session.read(0, 0, 4096), [0; 4096]);
    assert_eq!(attention(&mut session, 0), None);
    assert_eq!(manage(&mut session, request), task_response::NO_SUCH_TASK);
}

#[test]
fn units_and_tasks_that_are_not_there() {
    let target = Target::serve(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    for (function, lun, expected) in [
        (task_function::ABORT_TASK_SET, 7, task_response::NO_SUCH_LUN),
        (task_function::CLEAR_TASK_SET, 7, task_response::NO_SUCH_LUN),
        (task_function::LOGICAL_UNIT_RESET, 7, task_response::NO_SUCH_LUN),
        (task_function::ABORT_TASK, 0, task_response::NO_SUCH_TASK),
        (task_function::CLEAR_ACA, 0, task_response::NOT_SUPPORTED),
        (task_function::TASK_REASSIGN, 0, task_response::REASSIGN_NOT_SUPPORTED),
        (task_function::ABORT_TASK_SET, 0, task_response::COMPLETE),
    ] {
        let request = request(&session, function, lun);
        assert_eq!(manage(&mut session, request), expected, "function {function}, LUN {lun}");
    }
}

#[test]
fn who_loses_tasks_and_who_is_told() {
    for (function, of_others, for_all) in [
        (task_function::ABORT_TASK_SET, None, false),
        (task_function::CLEAR_TASK_SET, Some(CLEARED), false),
        (task_function::LOGICAL_UNIT_RESET, Some(RESET), true),
        (task_function::TARGET_WARM_RESET, Some(RESET), true),
    ] {
        let target = Target::serve(&["memory:1MiB", "memory:1MiB"]);
        let [mut session, mut other, mut idle] = [(); 3].map(|()| Session::open(&target));
        open_write(&mut session, 0);
        let (lost, lost_ttt) = open_write(&mut other, 0);
        let (kept, kept_ttt) = open_write(&mut other, 1);
        let request = request(&session, function, 0);
        assert_eq!(manage(&mut session, request), task_response::COMPLETE);
        let of_idle = of_others.filter(|_| for_all);
        assert_eq!(
            attention(&mut session, 0),
            of_idle,
            "function {function}: who asks is told like all others"
        );
        assert_eq!(attention(&mut idle, 0), of_idle, "function {function}");
        assert_eq!(attention(&mut other, 0), of_others, "function {function}");
        assert_eq!(attention(&mut other, 0), None, "told once");
        // Data of tasks that have ended is forgotten, that of others is not.
        other.send_bytes(&data_out(lost.itt, lost_ttt, 0, &[9; 4096]));
        other.send_bytes(&data_out(kept.itt, kept_ttt, 0, &[9; 4096]));
        let done: Vec<u32> = other.until_pong().iter().map(|(pdu, _)| pdu.itt()).collect();
        let expected = match function {
            task_function::ABORT_TASK_SET => vec![lost.itt, kept.itt],
            task_function::TARGET_WARM_RESET => vec![],
            _ => vec![kept.itt],
        };
        assert_eq!(done, expected, "function {function}");
        let laid_down = if done.contains(&lost.itt) { 9 } else { 0 };
        assert_eq!(idle.read(0, 0, 4096), [laid_down; 4096], "function {function}");
    }
}

#[test]
fn a_reset_in_the_middle_of_a_pdu_of_another_session() {
    const HALF: usize = BHS_LEN + 2048;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = folder.path().join("image");
    std::fs::write(&image, [0; 1 << 20]).expect("an image");
    let target = Target::serve(&["memory:1MiB", &format!("file:{}", image.display())]);
    for lun in [0, 1] {
        let [mut session, mut other] = [(); 2].map(|()| Session::open(&target));
        let (command, ttt) = open_write(&mut other, lun);
        let mut header_and_data = data_out(command.itt, ttt, 0, &[9; 4096]);
        let late = header_and_data.split_off(HALF);
        // The pong does not come before the half PDU is in.
        other.send_bytes(&[&ping(1, b"x")[..], &header_and_data].concat());
        assert!(matches!(other.receive(), (Pdu::NopIn(_), _)));
        let request = request(&session, task_function::LOGICAL_UNIT_RESET, lun);
        assert_eq!(manage(&mut session, request), task_response::COMPLETE);
        assert_eq!(attention(&mut session, lun), Some(RESET));
        let fresh = session.command(lun, write(0, 4096), Flow::Out(4096));
        session.send(fresh, &[5; 4096]);
        assert!(matches!(session.receive(), (Pdu::ScsiResponse(it), _) if it.status == 0));
        other.send_bytes(&late);
        assert_eq!(attention(&mut other, lun), Some(RESET));
        assert_eq!(other.read(lun, 0, 4096), [5; 4096], "LUN {lun}: what came late is laid down");
    }
}

#[test]
fn a_read_that_is_being_sent_stops() {
    const MIB: u32 = 1 << 20;
    let target = Target::serve(&["memory:64MiB"]);
    let mut session = Session::open(&target);
    let commands: Vec<_> =
        (0..64).map(|_| session.command(0, read(0, 16 * MIB), Flow::In(16 * MIB))).collect();
    commands.iter().for_each(|command| session.send(*command, &[]));
    session.wait_for_a_byte();
    let request = request(&session, task_function::ABORT_TASK_SET, 0);
    session.send(request, &[]);
    let mut received_bytes = 0;
    loop {
        match session.receive() {
            (Pdu::DataIn(_), data) => received_bytes += data.len(),
            (Pdu::TaskManagementResponse(response), _) => break assert_eq!(response.response, 0),
            other => panic!("{other:?}"),
        }
    }
    assert!(received_bytes < 512 << 20, "{received_bytes} bytes came all the same");
    assert!(session.until_pong().is_empty(), "nothing follows the response");
    assert_eq!(session.read(0, 0, 4096), [0; 4096]);
}

/// Nobody closes the connections of others, unless that is a right of its own.
#[test]
fn a_cold_reset_is_for_who_is_alone() {
    let target = Target::serve(&["memory:1MiB"]);
    let [mut session, mut other] = [(); 2].map(|()| Session::open(&target));
    let request = request(&session, task_function::TARGET_COLD_RESET, 0);
    assert_eq!(manage(&mut session, request), task_response::NOT_AUTHORIZED);
    assert_eq!(other.read(0, 0, 4096), [0; 4096]);
    other.log_out();
    assert_eq!(manage(&mut session, request), task_response::COMPLETE);
    assert!(session.until_closed().is_empty());
}

#[test]
fn a_cold_reset_closes_every_connection() {
    let right = ["--cold-reset", "iqn.2026-11.org.example:RAW"];
    let target = Target::serve_with(&["memory:1MiB"], &right);
    let [mut session, mut other] = [(); 2].map(|()| Session::open(&target));
    let mut waiting = connect(&target);
    let request = request(&session, task_function::TARGET_COLD_RESET, 0);
    assert_eq!(manage(&mut session, request), task_response::COMPLETE);
    assert!(session.until_closed().is_empty());
    let _ = other.until_closed();
    let _ = until_closed(&mut waiting);
    // The target still serves.
    let mut again = connect(&target);
    again.write_all(&login_request(&target, 0)).expect("the target reads");
    let answer = pdu::read(&mut again).expect("an answer to the login");
    assert!(matches!(answer, Some((Pdu::LoginResponse(it), _)) if it.status_class == 0));
    run(&mut farlun(["inquiry", &target.url(0)]), Duration::from_secs(60)).expect_code(0);
}

/// PERSISTENT RESERVE OUT; its status.
#[track_caller]
fn reserve(session: &mut Session, action: ReserveOut, key: u64, action_key: u64) -> u8 {
    let list = ReserveParameters { key, action_key, ..ReserveParameters::default() }.emit();
    let len = list.len() as u32;
    let kind = if action == ReserveOut::RegisterAndIgnore { 0 } else { 3 };
    let cdb = Cdb::PersistentReserveOut { action, scope: 0, kind, list_len: len };
    let command = session.command(0, cdb, Flow::Out(len));
    session.send(command, &list);
    let (Pdu::ScsiResponse(response), _) = session.receive() else { panic!("no answer") };
    response.status
}

#[test]
fn preempt_and_abort_ends_the_tasks_of_the_preempted() {
    let target = Target::serve(&["memory:1MiB"]);
    let [mut session, mut preempted, mut third] = [(); 3].map(|()| Session::open(&target));
    assert_eq!(reserve(&mut session, ReserveOut::RegisterAndIgnore, 0, 1), 0);
    assert_eq!(reserve(&mut preempted, ReserveOut::RegisterAndIgnore, 0, 2), 0);
    let (lost, lost_ttt) = open_write(&mut preempted, 0);
    let (kept, kept_ttt) = open_write(&mut third, 0);
    assert_eq!(reserve(&mut session, ReserveOut::PreemptAndAbort, 1, 2), 0);
    preempted.send_bytes(&data_out(lost.itt, lost_ttt, 0, &[9; 4096]));
    assert!(preempted.until_pong().is_empty(), "its write has ended");
    let told = [attention(&mut preempted, 0), attention(&mut preempted, 0), attention(&mut preempted, 0)];
    assert_eq!(told, [Some(CLEARED), Some((0x2a, 0x05)), None]);
    third.send_bytes(&data_out(kept.itt, kept_ttt, 0, &[7; 4096]));
    assert!(matches!(third.receive(), (Pdu::ScsiResponse(it), _) if it.status == 0));
    assert_eq!(session.read(0, 0, 4096), [7; 4096]);
}

#[test]
fn a_connection_that_goes_away_half_way_is_no_harm() {
    let target = Target::serve(&["memory:1MiB"]);
    let [mut session, mut other] = [(); 2].map(|()| Session::open(&target));
    let (command, ttt) = open_write(&mut other, 0);
    let half = data_out(command.itt, ttt, 0, &[9; 4096])[..BHS_LEN + 100].to_vec();
    other.send_bytes(&half);
    let request = request(&session, task_function::CLEAR_TASK_SET, 0);
    assert_eq!(manage(&mut session, request), task_response::COMPLETE);
    let mut stream = other.into_stream();
    stream.shutdown(std::net::Shutdown::Write).expect("a socket");
    let _ = until_closed(&mut stream);
    assert_eq!(manage(&mut session, request), task_response::COMPLETE);
    session.read(0, 0, 4096);
}
