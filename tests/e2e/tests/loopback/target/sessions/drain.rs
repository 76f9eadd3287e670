//! The end of a target: initiators are asked to log out, what is under way is finished, nobody can hold it up; and
//! initiators that are there no more.

use std::net::TcpStream;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use e2e::ours::Target;
use wire::iscsi::{LogoutRequest, NopOut, Pdu, RESERVED_TAG, async_event, logout_reason};
use wire::scsi::{Cdb, Status};

use crate::peers::raw_initiator::{Flow, Session, data_out, write};

/// Asks the target to end; its exit code.
fn end(mut target: Target) -> JoinHandle<i32> {
    thread::spawn(move || target.service.terminate())
}

/// The next PDU, which must be an Async Message: its event and third parameter.
#[track_caller]
fn told(session: &mut Session) -> (u8, u16) {
    match session.receive() {
        (Pdu::AsyncMessage(message), _) => (message.event, message.parameter3),
        found => panic!("no Async Message: {found:?}"),
    }
}

#[test]
fn a_session_without_work_is_asked_and_then_dropped() {
    let target = Target::serve(&["memory:1MiB"]);
    let address = target.address().to_owned();
    let mut session = Session::open(&target);
    let ended = end(target);
    assert_eq!(told(&mut session), (async_event::LOGOUT_REQUESTED, 2));
    assert!(TcpStream::connect(&address).is_err(), "nobody new comes in");
    assert_eq!(told(&mut session).0, async_event::SESSION_DROP);
    assert!(session.until_closed().is_empty());
    assert_eq!(ended.join().expect("its exit code"), 0);
}

#[test]
fn a_session_that_logs_out_is_not_dropped() {
    let target = Target::serve(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    let ended = end(target);
    assert_eq!(told(&mut session).0, async_event::LOGOUT_REQUESTED);
    let (immediate, reason, cmd_sn) = (true, logout_reason::CLOSE_SESSION, session.cmd_sn);
    session.send(LogoutRequest { immediate, reason, itt: 7, cid: 0, cmd_sn, exp_stat_sn: 0 }, &[]);
    let rest = session.until_closed();
    assert!(matches!(rest[..], [(Pdu::LogoutResponse(_), _)]), "{rest:?}");
    assert_eq!(ended.join().expect("its exit code"), 0);
}

#[test]
fn what_is_under_way_is_finished_and_nothing_is_begun() {
    let target = Target::serve(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    let command = session.command(0, write(0, 4096), Flow::Out(4096));
    session.send(command, &[]);
    let (Pdu::R2t(r2t), _) = session.receive() else { panic!("the data is not sent for") };
    let ended = end(target);
    assert_eq!(told(&mut session).0, async_event::LOGOUT_REQUESTED);
    let late = session.command(0, Cdb::TestUnitReady, Flow::Nothing);
    session.send(late, &[]);
    let answer = session.receive();
    assert!(matches!(answer, (Pdu::ScsiResponse(it), _) if it.status == Status::BUSY.0), "{answer:?}");
    session.send_bytes(&data_out(command.itt, r2t.ttt, 0, &[1; 4096]));
    let answer = session.receive();
    assert!(matches!(answer, (Pdu::ScsiResponse(it), _) if it.itt == command.itt && it.status == 0));
    assert_eq!(told(&mut session).0, async_event::SESSION_DROP);
    assert!(session.until_closed().is_empty());
    assert_eq!(ended.join().expect("its exit code"), 0);
}

#[test]
fn work_that_never_ends_does_not_hold_it_up() {
    let target = Target::serve(&["memory:1MiB"]);
    let mut session = Session::open(&target);
    let command = session.command(0, write(0, 4096), Flow::Out(4096));
    session.send(command, &[]);
    assert!(matches!(session.receive(), (Pdu::R2t(_), _)));
    let ended = end(target);
    assert_eq!(told(&mut session).0, async_event::LOGOUT_REQUESTED);
    assert_eq!(told(&mut session).0, async_event::SESSION_DROP);
    assert!(session.until_closed().is_empty());
    assert_eq!(ended.join().expect("its exit code"), 0);
}

#[test]
fn a_silent_initiator_is_pinged_and_given_up_if_it_does_not_answer() {
    const MOST: Duration = Duration::from_secs(60);
    let target = Target::serve(&["memory:1MiB"]);
    let [mut answers, mut silent] = [(); 2].map(|()| Session::open(&target));
    let began = Instant::now();
    let one = thread::spawn(move || {
        let rest = silent.until_closed();
        assert!(matches!(rest[..], [(Pdu::NopIn(it), _)] if it.itt == RESERVED_TAG), "{rest:?}");
        assert!(began.elapsed() < MOST, "after {:?}", began.elapsed());
    });
    while !one.is_finished() {
        let (Pdu::NopIn(ping), _) = answers.receive() else { panic!("no ping") };
        assert_eq!(ping.itt, RESERVED_TAG);
        assert_ne!(ping.ttt, RESERVED_TAG, "it wants an answer");
        let (immediate, itt, cmd_sn) = (true, RESERVED_TAG, answers.cmd_sn);
        let (lun, ttt) = (ping.lun, ping.ttt);
        let pong = NopOut { immediate, data_segment_len: 0, lun, itt, ttt, cmd_sn, exp_stat_sn: 0 };
        answers.send(pong, &[]);
    }
    one.join().expect("the silent one is closed");
    assert!(answers.until_pong().is_empty(), "who answers stays");
}
