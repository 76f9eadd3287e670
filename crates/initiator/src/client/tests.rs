//! A session over loopback with a silent peer.

use std::net::{TcpListener, TcpStream};

use engine::trace::Sampling;
use engine::{Connection, Course, Scratch, Turn};
use event::Instant;
use net::{Poll, clock};
use proto::initiator::Session;
use proto::login::Session as Kind;
use proto::params::Params;
use wire::scsi::{BlockForm, Cdb};

use super::Client;
use super::turn::CHECK_EVERY;
use crate::error::Error;
use crate::login::establishment::{Arrived, Destination};
use crate::options::Options;
use crate::request::{Body, Completed, Request, Workload};
use crate::tables::Tables;

/// A session of one connection, and the peer's end of it.
pub(crate) fn session(options: &Options, params: Params) -> (Client, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nonblocking(true).unwrap();
    let (peer, _) = listener.accept().unwrap();
    let poll = Poll::new().unwrap();
    let connection = Connection::new(stream, &poll, 0, Course::default()).unwrap();
    let destination = Destination::plain(Kind::Normal { target_name: "iqn.a".to_owned() });
    let arrived = Arrived {
        session: Session::new(params, 1, 128, 1),
        address,
        tsih: 1,
        connections: vec![connection],
        destination: destination.clone(),
    };
    let tables = Tables::create(None, Sampling::default()).unwrap();
    (Client::new(poll, arrived, &destination, 0, options, tables), peer)
}

/// A workload without a request for the moment.
struct Idle;

impl Workload for Idle {
    type Error = Error;

    fn depth(&self) -> Option<usize> {
        Some(1)
    }

    fn next(&mut self, _now: Instant) -> Option<Request> {
        None
    }

    fn done(&mut self, _completed: Completed) -> Result<(), Error> {
        Ok(())
    }

    fn is_over(&self, _now: Instant) -> bool {
        false
    }
}

#[test]
fn a_session_that_has_nothing_to_do_waits() {
    let (mut client, _peer) = session(&Options::plain(), Params::default());
    let mut scratch = Scratch::new();
    let mut now = clock::now();
    client.start(now);
    for _ in 0..4 {
        let turn = loop {
            match client.turn(&mut Idle, &mut scratch, now).unwrap() {
                Turn::Again => {}
                turn => break turn,
            }
        };
        let Turn::WaitUntil(at) = turn else { panic!("{turn:?}") };
        assert!(at > now && at <= now + CHECK_EVERY, "it waits from {now:?} until {at:?}");
        now = at;
    }
}

/// A workload with one flush.
struct Flush(Option<Request>);

impl Workload for Flush {
    type Error = Error;

    fn depth(&self) -> Option<usize> {
        Some(1)
    }

    fn next(&mut self, _now: Instant) -> Option<Request> {
        self.0.take()
    }

    fn done(&mut self, _completed: Completed) -> Result<(), Error> {
        Ok(())
    }

    fn is_over(&self, _now: Instant) -> bool {
        false
    }
}

/// Writes in between succeed, so that the time limit of recovery would never expire.
#[test]
fn a_session_that_every_flush_ends_is_given_up() {
    let (mut client, _peer) = session(&Options::plain(), Params::default());
    let now = clock::now();
    client.start(now);
    let cdb = Cdb::SynchronizeCache { form: BlockForm::Ten, lba: 0, blocks: 0, immed: false };
    let mut work = Flush(Some(Request { cdb, body: Body::None, offset_bytes: 0, tag: 0 }));
    client.turn(&mut work, &mut Scratch::new(), now).unwrap();
    assert!(work.0.is_none(), "it is issued");
    let address = client.side.address;
    for lost in 1.. {
        // A write has completed since the last loss.
        client.trouble = None;
        match client.lose(Error::Closed { address, when: "in a test" }, None, now) {
            Ok(()) => assert!(lost < 16),
            Err(error) => {
                assert!(matches!(error, Error::FlushesLost { flushes: 16, .. }) && lost == 16, "{error}");
                assert!(
                    error.to_string().contains("during 16 SYNCHRONIZE CACHE commands in a row"),
                    "{error}"
                );
                break;
            }
        }
    }
}
