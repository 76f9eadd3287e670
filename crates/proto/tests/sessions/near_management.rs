//! Task management as an initiator asks for it, with the answers of a scripted target.

use proto::initiator::{Event, Function, Session};
use proto::params::Params;
use wire::iscsi::{
    Lun, Pdu, RESERVED_TAG, ScsiCommand, ScsiResponse, TaskAttribute, TaskManagementRequest,
    TaskManagementResponse, task_function, task_response,
};

use proto::initiator::{Command, Transfer};

const UNITS: [u16; 4] = [0, 0, 1, 0];

/// A session with four commands, of which three fit the window and one waits.
fn four_commands() -> (Session, Vec<ScsiCommand>) {
    let mut session = Session::new(Params::RFC_DEFAULT, u32::MAX, 1, 7);
    for (token, unit) in UNITS.into_iter().enumerate() {
        let (lun, transfer) = (Lun::from_number(unit), Transfer::In(512));
        let attribute = TaskAttribute::Simple;
        session.submit(Command { token: token as u64, lun, cdb: [0; 16], transfer, attribute });
    }
    let commands = sent(&mut session).into_iter().map(|pdu| match pdu {
        Pdu::ScsiCommand(command) => command,
        other => panic!("{other:?}"),
    });
    let commands: Vec<_> = commands.collect();
    assert_eq!(commands.len(), 3);
    (session, commands)
}

fn sent(session: &mut Session) -> Vec<Pdu> {
    let sent = std::iter::from_fn(|| session.poll_transmit(0));
    sent.map(|sent| Pdu::parse(&sent.header()).expect("an initiator sends PDUs")).collect()
}

/// Requests a function and answers the request. Returns the request and the events.
fn ask(session: &mut Session, function: Function, response: u8) -> (TaskManagementRequest, Vec<Event>) {
    session.manage(function);
    let [Pdu::TaskManagementRequest(request)] = sent(session)[..] else { panic!("a request") };
    // The window stays as it is.
    let answer =
        TaskManagementResponse { response, itt: request.itt, stat_sn: 7, exp_cmd_sn: 2, max_cmd_sn: 1 };
    session.handle(0, &answer.into(), &[]).expect("an answer to what was asked");
    (request, std::iter::from_fn(|| session.poll_event()).collect())
}

#[test]
fn an_abort_names_its_task_and_ends_it() {
    for response in [task_response::COMPLETE, task_response::NO_SUCH_TASK] {
        let (mut session, commands) = four_commands();
        let function = Function::AbortTask { token: 1 };
        let (request, events) = ask(&mut session, function, response);
        assert_eq!((request.function, request.immediate), (task_function::ABORT_TASK, true));
        assert_eq!((request.referenced_itt, request.ref_cmd_sn), (commands[1].itt, commands[1].cmd_sn));
        assert_eq!((request.cmd_sn, request.exp_stat_sn), (2, 7));
        assert_eq!(
            events,
            [Event::Aborted { token: 1, is_fenced: true }, Event::Managed { function, response }]
        );
        assert_eq!(session.open_commands(), 3);
        session.ping(0);
        let [Pdu::NopOut(nop)] = sent(&mut session)[..] else { panic!("a ping") };
        assert_eq!(nop.exp_stat_sn, 8, "the answer consumes a StatSN");
    }
}

#[test]
fn an_abort_does_not_meet_the_next_command_of_the_same_name() {
    let (mut session, commands) = four_commands();
    let function = Function::AbortTask { token: 1 };
    session.manage(function);
    let [Pdu::TaskManagementRequest(request)] = sent(&mut session)[..] else { panic!("a request") };
    let answered = ScsiResponse {
        bidi_overflow: false,
        bidi_underflow: false,
        overflow: false,
        underflow: false,
        response: 0,
        status: 0,
        data_segment_len: 0,
        itt: commands[1].itt,
        snack_tag: 0,
        stat_sn: 7,
        exp_cmd_sn: 2,
        max_cmd_sn: 9,
        exp_data_sn: 0,
        bidi_residual: 0,
        residual: 0,
    };
    session.handle(0, &answered.into(), &[]).expect("an answer in time");
    let (lun, transfer, attribute) = (Lun(0), Transfer::None, TaskAttribute::Simple);
    session.submit(Command { token: 1, lun, cdb: [0; 16], transfer, attribute });
    assert_eq!(sent(&mut session).len(), 2);
    let (response, itt) = (task_response::NO_SUCH_TASK, request.itt);
    let answer = TaskManagementResponse { response, itt, stat_sn: 8, exp_cmd_sn: 4, max_cmd_sn: 9 };
    session.handle(0, &answer.into(), &[]).expect("an answer to what was asked");
    let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
    assert!(matches!(events[0], Event::Completed(_)), "{events:?}");
    assert_eq!(events[1..], [Event::Managed { function, response }]);
}

#[test]
fn an_abort_that_is_refused_ends_nothing() {
    let (mut session, _) = four_commands();
    let function = Function::AbortTask { token: 1 };
    for response in [task_response::NOT_SUPPORTED, task_response::REJECTED, 77] {
        let (_, events) = ask(&mut session, function, response);
        assert_eq!(events, [Event::Managed { function, response }]);
        assert_eq!(session.open_commands(), 4);
    }
}

#[test]
fn a_command_that_was_not_sent_is_given_up_without_a_word() {
    let (mut session, _) = four_commands();
    let function = Function::AbortTask { token: 3 };
    for (response, open) in [(task_response::COMPLETE, 3), (task_response::NO_SUCH_TASK, 3)] {
        session.manage(function);
        if response == task_response::COMPLETE {
            assert_eq!(session.poll_event(), Some(Event::Aborted { token: 3, is_fenced: true }));
        }
        assert_eq!(session.poll_event(), Some(Event::Managed { function, response }));
        assert_eq!((sent(&mut session), session.open_commands()), (vec![], open));
    }
}

#[test]
fn functions_for_many_end_what_was_sent_before_them() {
    let unit = Lun::from_number(0);
    for (function, code, ended) in [
        (Function::AbortTaskSet { lun: unit }, 2, &[0, 1][..]),
        (Function::ClearAca { lun: unit }, 3, &[]),
        (Function::ClearTaskSet { lun: unit }, 4, &[0, 1]),
        (Function::LogicalUnitReset { lun: unit }, 5, &[0, 1]),
        (Function::TargetWarmReset, 6, &[0, 1, 2]),
        (Function::TargetColdReset, 7, &[0, 1, 2]),
    ] {
        let (mut session, _) = four_commands();
        let (request, events) = ask(&mut session, function, task_response::NOT_AUTHORIZED);
        assert_eq!((request.function, request.referenced_itt), (code, RESERVED_TAG));
        assert_eq!(events, [Event::Managed { function, response: task_response::NOT_AUTHORIZED }]);
        let (_, events) = ask(&mut session, function, task_response::COMPLETE);
        let mut expected: Vec<_> =
            ended.iter().map(|&token| Event::Aborted { token, is_fenced: true }).collect();
        expected.push(Event::Managed { function, response: task_response::COMPLETE });
        assert_eq!(events, expected, "{function:?}");
        assert_eq!(session.open_commands(), 4 - ended.len());
    }
}

#[test]
fn an_answer_that_nobody_asked_for_drops_the_connection() {
    let (mut session, _) = four_commands();
    let answer = |itt| TaskManagementResponse { response: 0, itt, stat_sn: 7, exp_cmd_sn: 2, max_cmd_sn: 1 };
    let fault = session.handle(0, &answer(5).into(), &[]).expect_err("nothing was asked");
    assert!(fault.to_string().contains("not asked for"), "{fault}");
    let (request, _) = ask(&mut session, Function::TargetWarmReset, task_response::NOT_SUPPORTED);
    session.handle(0, &answer(request.itt).into(), &[]).expect_err("it is answered once");
}

#[test]
fn a_reset_that_one_connection_tells_of_leaves_data_of_the_other_on_its_way() {
    let mut session = Session::new(Params::RFC_DEFAULT, 1, 9, 7);
    session.join(&Params::RFC_DEFAULT, 7, 1, 9);
    let unit = Lun::from_number(0);
    for token in 0..2 {
        let (transfer, attribute) = (Transfer::In(512), TaskAttribute::Simple);
        session.submit(Command { token, lun: unit, cdb: [0; 16], transfer, attribute });
    }
    let mut cids = Vec::new();
    for cid in [0, 1] {
        while let Some(sent) = session.poll_transmit(cid) {
            let Ok(Pdu::ScsiCommand(command)) = Pdu::parse(&sent.header()) else { panic!("a command") };
            cids.push((command.itt, cid));
        }
    }
    assert_eq!(cids.iter().map(|(_, cid)| *cid).collect::<Vec<_>>(), [0, 1], "one on each");
    session.manage(Function::LogicalUnitReset { lun: unit });
    let [Pdu::TaskManagementRequest(request)] = sent(&mut session)[..] else { panic!("a request") };
    let answer = TaskManagementResponse {
        response: task_response::COMPLETE,
        itt: request.itt,
        stat_sn: 7,
        exp_cmd_sn: 3,
        max_cmd_sn: 9,
    };
    session.handle(1, &answer.into(), &[]).expect_err("it was asked on the other connection");
    session.handle(0, &answer.into(), &[]).expect("an answer to what was asked");
    let mut fences: Vec<bool> = Vec::new();
    while let Some(Event::Aborted { is_fenced, .. }) = session.poll_event() {
        fences.push(is_fenced);
    }
    fences.sort_unstable();
    assert_eq!(fences, [false, true]);
}
