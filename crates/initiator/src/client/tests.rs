//! A session over loopback with a peer that says nothing.

use std::net::{TcpListener, TcpStream};

use engine::trace::Sampling;
use engine::{Connection, Course};
use proto::initiator::Session;
use proto::params::Params;

use super::*;
use crate::request::Completed;

/// A session of one connection, and the peer's end of that.
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

/// A workload that has nothing to do yet.
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
