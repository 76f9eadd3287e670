//! A session state without sockets: results of commands, and state that a reconnect resets.

use std::sync::Arc;

use engine::trace::Sampling;
use engine::{Outgoing, Sender, Span};
use event::{WindowKind, WindowNotice};
use proto::initiator::Completion;
use proto::params::Params;
use wire::scsi::{BlockForm, Capacity16, Cdb, Sense, SenseKey, Status};

use super::*;
use crate::disk::Geometry;
use crate::error::Failure;
use crate::request::Completed;
use crate::session::dead_peer::Pulse;
use crate::session::lun::identity::{CAPACITY16_BYTES, Known};
use crate::session::pdu_exchange::{AtPort, Port};
use crate::session::requests::Open;

const BLOCK: u32 = 512;

fn session() -> Session {
    let params = Params { peer_software: Some("farlun/1".to_owned()), ..Params::default() };
    Session::new(params, 1, 128, 1)
}

fn side() -> SessionState {
    let address = SocketAddr::from(([127, 0, 0, 1], 3260));
    let tables = Tables::create(None, Sampling::default()).expect("no table is asked for");
    SessionState::new((session(), address), (tables, None), Duration::from_secs(30), Instant::ZERO)
}

/// Issues a request and returns its token.
fn issue(side: &mut SessionState, request: Request) -> usize {
    side.requests.outstanding_bytes += request.len_bytes();
    let (issued, submitted) = (side.now, side.now);
    let open = Open { request, issued, submitted, itt: 0, attentions: 0, question: None };
    let token = side.requests.open.insert(open);
    side.submit(token);
    token
}

fn write(side: &SessionState) -> Request {
    let mut buffer = side.buffers.take(BLOCK as usize);
    (0..).zip(buffer.iter_mut()).for_each(|(n, byte): (u32, _)| *byte = (n * 7) as u8);
    Geometry::of(BLOCK, BlockForm::Ten).write(0, Arc::new(buffer))
}

#[test]
fn a_write_carries_the_bytes_of_its_buffer() {
    let mut side = side();
    let request = write(&side);
    let Body::Write(buffer) = &request.body else { panic!("{request:?}") };
    let buffer = Arc::clone(buffer);
    issue(&mut side, request);
    let pulse = Pulse::new(Instant::ZERO);
    let mut port = Port { cid: 0, pulse, pdu: None, span: Span::default() };
    let mut at_port = AtPort { side: &mut side, port: &mut port };
    let Some(Outgoing { data: Some(data), is_payload: true, .. }) = at_port.next() else {
        panic!("immediate data are agreed on")
    };
    assert!(at_port.bytes(&data) == &buffer[..]);
    assert!(at_port.next().is_none());
}

#[test]
fn a_command_has_failed_unless_its_status_or_its_sense_data_say_otherwise() {
    let flush = |_: &SessionState| Geometry::of(BLOCK, BlockForm::Ten).flush();
    let no_sense = Sense::new(SenseKey::NoSense, 0, 0);
    let recovered = Sense::new(SenseKey::RecoveredError, 0x18, 0x00);
    let deferred = Sense { deferred: true, ..recovered };
    let checked = |sense| (Status::CHECK_CONDITION, Some(sense));
    let good = (Status::GOOD, None);
    let conflict = (Status::RESERVATION_CONFLICT, None);
    type Make<'a> = &'a dyn Fn(&SessionState) -> Request;
    let (write, flush): (Make<'_>, Make<'_>) = (&write, &flush);
    for (request, (status, sense), response, (moved, overflow), is_good, is_without_flush) in [
        (write, good, 0, (BLOCK, 0), true, false),
        (write, good, 0, (BLOCK - 1, 0), false, false),
        (write, good, 0, (BLOCK, 1), false, false),
        (write, good, 1, (BLOCK, 0), false, false),
        (write, conflict, 0, (BLOCK, 0), false, false),
        (write, checked(recovered), 0, (BLOCK, 0), true, false),
        (write, checked(no_sense), 0, (BLOCK, 0), true, false),
        (write, checked(deferred), 0, (BLOCK, 0), false, false),
        (write, checked(recovered), 0, (0, 0), false, false),
        (write, checked(Sense::WRITE_ERROR), 0, (BLOCK, 0), false, false),
        (write, checked(Sense::INVALID_OPCODE), 0, (BLOCK, 0), false, false),
        (flush, good, 0, (0, 0), true, false),
        (flush, checked(Sense::WRITE_ERROR), 0, (0, 0), false, false),
        // A LUN without the command has no volatile cache.
        (flush, checked(Sense::INVALID_OPCODE), 0, (0, 0), true, true),
        (flush, checked(Sense::INVALID_OPCODE), 1, (0, 0), false, false),
    ] {
        let mut side = side();
        let request = request(&side);
        let what = format!("{} {status} {sense:?} {response} {moved} {overflow}", request.name());
        let token = issue(&mut side, request) as u64;
        let completion = Completion {
            token,
            cid: 0,
            status: status.0,
            response,
            transferred_bytes: moved,
            overflow_bytes: overflow,
            sense: sense.map_or_else(Vec::new, |sense| sense.emit_fixed().to_vec()),
        };
        side.complete(&completion).expect("the session goes on");
        let Some(Some(Completed { result, .. })) = side.requests.finished.pop_front() else {
            panic!("{what}")
        };
        assert_eq!((result.is_ok(), side.lun.is_without_flush), (is_good, is_without_flush), "{what}");
        if let Err(failure) = result {
            let found = (failure.status, failure.sense, failure.response);
            assert_eq!(found, (status, sense, response), "{what}");
        }
        assert_eq!((side.requests.open.len(), side.requests.outstanding_bytes), (0, 0), "{what}");
    }
}

#[test]
fn a_lun_with_a_volatile_cache_may_not_refuse_to_flush_it() {
    for needs_flush in [false, true] {
        let mut side = side();
        side.lun.needs_flush = needs_flush;
        let token = issue(&mut side, Geometry::of(BLOCK, BlockForm::Ten).flush()) as u64;
        let completion = Completion {
            token,
            cid: 0,
            status: Status::CHECK_CONDITION.0,
            response: 0,
            transferred_bytes: 0,
            overflow_bytes: 0,
            sense: Sense::INVALID_OPCODE.emit_fixed().to_vec(),
        };
        side.complete(&completion).expect("the session goes on");
        let Some(Some(Completed { result, .. })) = side.requests.finished.pop_front() else {
            panic!("no status")
        };
        assert_eq!((result.is_err(), side.lun.is_without_flush), (needs_flush, !needs_flush));
    }
}

#[test]
fn a_lun_that_says_something_else_is_not_written_to() {
    let capacity = |last_lba, block_len| Capacity16 { last_lba, block_len, ..Capacity16::default() }.emit();
    let no_lun = Sense::new(SenseKey::IllegalRequest, 0x25, 0x00);
    for (answer, goes_on, is_about_the_lun) in [
        (Ok(capacity(99, 512)), true, false),
        (Ok(capacity(100, 512)), true, false),
        (Ok(capacity(98, 512)), false, true),
        (Ok(capacity(99, 4096)), false, true),
        // The LUN supported the command before.
        (Err(Sense::INVALID_OPCODE), false, true),
        (Err(no_lun), false, false),
        (Err(Sense::MEDIUM_NOT_PRESENT), false, false),
    ] {
        for is_first in [true, false] {
            let mut side = side();
            side.lun.known = vec![Known::capacity16(&capacity(99, 512))];
            if is_first {
                side.ask_first();
            } else {
                side.ask();
            }
            let mut buffer = side.buffers.take(CAPACITY16_BYTES);
            let result =
                answer.map(|answer| buffer.copy_from_slice(&answer)).map_err(|sense: Sense| Failure {
                    status: Status::CHECK_CONDITION,
                    response: 0,
                    sense: Some(sense),
                    short_bytes: None,
                    overflow_bytes: None,
                });
            let cdb = Cdb::ReadCapacity16 { allocation_len: CAPACITY16_BYTES as u32 };
            let request = Request { cdb, body: Body::Read(buffer), offset_bytes: 0, tag: 0 };
            let (issued, completed) = (side.now, side.now);
            let transferred_bytes = CAPACITY16_BYTES as u32;
            let found = side.answered(0, Completed { request, issued, completed, transferred_bytes, result });
            let what = format!("{answer:02x?} {is_first}: {found:?}");
            match found {
                Ok(()) => assert!(goes_on, "{what}"),
                Err(Error::OtherLun { .. }) => assert!(!goes_on && is_about_the_lun && is_first, "{what}"),
                Err(Error::ChangedLun { .. }) => assert!(!goes_on && is_about_the_lun && !is_first, "{what}"),
                Err(Error::Command { .. }) => assert!(!goes_on && !is_about_the_lun, "{what}"),
                Err(_) => panic!("{what}"),
            }
        }
    }
}

#[test]
fn what_an_old_session_was_told_is_not_for_the_connections_of_the_next() {
    let mut side = side();
    let notice = WindowNotice { kind: WindowKind::CutByLoss, cwnd_packets: 9, mss_bytes: 1448 };
    let words = [Notification::Part(Some(131_072)), Notification::Window(notice)];
    for word in &words {
        let (code, data) = notification::emit(word);
        side.hear(0, code, &data);
    }
    assert_eq!(side.told, words.map(|word| (0, word)));
    let address = side.address;
    side.begin_again(session(), address);
    assert_eq!(side.told, []);
}
