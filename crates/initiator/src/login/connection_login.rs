//! One connection on its way into a session: connects and logs in within one deadline. Its owner's event loop drives
//! it; the choice of the address, and the handling of a failure, are up to the owner.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use engine::{Connection, Course, Landing, Outgoing, Receiver, RouteMemory, Scratch, Sender, Stop};
use event::Instant;
use net::{Interest, Poll, Ready, tcp};
use proto::Fault;
use proto::login::{Initiator as Login, LoggedIn, SEGMENT_BYTES};
use wire::iscsi::{BHS_LEN, Bhs, Pdu};

use crate::error::Error;
use crate::login::local_end::NearEnd;
use crate::options::Options;
use crate::session::payload::{Payload, Place};

/// A connection attempt in progress.
pub(crate) struct Dial {
    address: SocketAddr,
    token: u64,
    course: Course,
    routes: RouteMemory,
    stage: Stage,
    deadline: Instant,
    timeout: Duration,
}

enum Stage {
    Connecting { stream: TcpStream, login: Box<Login>, is_ready: bool },
    LoggingIn { connection: Box<Connection<Place, Payload>>, side: Box<LoginState>, is_readable: bool },
    Over,
}

/// A connection that has logged in.
pub(crate) struct Dialled {
    pub(crate) connection: Connection<Place, Payload>,
    pub(crate) logged_in: LoggedIn,
}

impl Dial {
    /// Starts to connect; the socket is registered in `poll` as `token`.
    pub(crate) fn start(
        poll: &Poll,
        token: u64,
        address: SocketAddr,
        login: Login,
        options: &Options,
        (deadline, timeout): (Instant, Duration),
    ) -> Result<Dial, Error> {
        let failed = |source| Error::Connect { address, source };
        let NearEnd { source, congestion, max_segment_bytes, .. } = &options.near;
        let (source, congestion) = (source.as_ref(), congestion.name());
        let stream = tcp::start_connect_from(source, address, congestion, *max_segment_bytes);
        let stream = stream.map_err(failed)?;
        // Unsent data of a session that is given up must not reach the target later: another session may have written
        // the same blocks by then.
        tcp::abandon_on_close(&stream, true)?;
        poll.add(stream.as_fd(), token, Interest::WRITE)?;
        let stage = Stage::Connecting { stream, login: Box::new(login), is_ready: false };
        let (course, routes) = (options.course(), options.routes.clone());
        Ok(Dial { address, token, course, routes, stage, deadline, timeout })
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    pub(crate) fn ready(&mut self, ready: Ready) {
        match &mut self.stage {
            Stage::Connecting { is_ready, .. } => *is_ready |= ready.writable,
            Stage::LoggingIn { is_readable, .. } => *is_readable |= ready.readable,
            Stage::Over => {}
        }
    }

    /// Makes progress without blocking; returns the connection when it is in the full feature phase.
    pub(crate) fn turn(
        &mut self,
        poll: &Poll,
        scratch: &mut Scratch,
        now: Instant,
    ) -> Result<Option<Dialled>, Error> {
        let address = self.address;
        if let Stage::Connecting { stream, is_ready: true, .. } = &self.stage {
            if let Some(source) = stream.take_error()? {
                return Err(Error::Connect { address, source });
            }
            let stage = std::mem::replace(&mut self.stage, Stage::Over);
            let Stage::Connecting { stream, login, .. } = stage else { unreachable!("just matched") };
            poll.remove(stream.as_fd())?;
            let mut connection = Box::new(Connection::new(stream, poll, self.token, self.course)?);
            connection.share_routes(self.routes.clone());
            let side = Box::new(LoginState { login: *login, response: None, address });
            self.stage = Stage::LoggingIn { connection, side, is_readable: true };
        }
        let mut what = "accept a connection";
        if let Stage::LoggingIn { connection, side, is_readable } = &mut self.stage {
            what = "answer the login";
            if std::mem::take(is_readable) {
                connection.receive(scratch, &mut **side).map_err(|stop| match stop {
                    Stop::Closed => Error::Closed { address, when: "during the login" },
                    Stop::Io(source) => Error::Socket { address, source },
                    Stop::Refused(error) => error,
                })?;
            }
            let sent = connection.send(poll, &mut **side, 0);
            sent.map_err(|source| Error::Socket { address, source })?;
            if let Some(logged_in) = side.login.outcome().cloned() {
                let stage = std::mem::replace(&mut self.stage, Stage::Over);
                let Stage::LoggingIn { connection, .. } = stage else { unreachable!("just matched") };
                return Ok(Some(Dialled { connection: *connection, logged_in }));
            }
        }
        if now >= self.deadline {
            return Err(Error::Timeout { address, what, after: self.timeout });
        }
        Ok(None)
    }
}

struct LoginState {
    login: Login,
    response: Option<Pdu>,
    address: SocketAddr,
}

impl Receiver for LoginState {
    type Place = Place;
    type Error = Error;

    fn header(&mut self, header: &[u8; BHS_LEN], _ahs: &[u8]) -> Result<Landing<Place>, Error> {
        let fault = |source| Error::Fault { address: self.address, source };
        let pdu = Pdu::parse(header).map_err(|error| fault(error.into()))?;
        let found_bytes = Bhs::new(header).data_segment_len() as u32;
        if found_bytes as usize > SEGMENT_BYTES {
            let limit_bytes = SEGMENT_BYTES as u32;
            return Err(fault(Fault::SegmentTooLong { found_bytes, limit_bytes }));
        }
        self.response = Some(pdu);
        Ok(Landing::Collect)
    }

    fn space(&mut self, _place: &Place, _offset_bytes: usize, _len_bytes: usize) -> &mut [u8] {
        unreachable!("nothing is placed during a login")
    }

    fn pdu(&mut self, _header: &[u8; BHS_LEN], collected: &[u8]) -> Result<(), Error> {
        let address = self.address;
        match self.response.take() {
            Some(Pdu::LoginResponse(response)) => self
                .login
                .handle_response(&response, collected)
                .map_err(|source| Error::Login { address, source }),
            other => {
                let found = other.map_or(wire::iscsi::Opcode::Reject, |pdu| pdu.opcode());
                Err(Error::Fault { address, source: Fault::Unexpected { found } })
            }
        }
    }

    fn bad_header(&mut self) -> Error {
        unreachable!("there are no digests during a login")
    }

    fn bad_data(&mut self, _header: &[u8; BHS_LEN]) -> Result<(), Error> {
        unreachable!("there are no digests during a login")
    }

    fn wants_more(&self) -> bool {
        self.login.outcome().is_none()
    }
}

impl Sender for LoginState {
    type Data = Payload;

    fn next(&mut self) -> Option<Outgoing<Payload>> {
        let (request, text) = self.login.poll_transmit()?;
        let mut header = [0; BHS_LEN];
        request.emit(&mut header);
        Some(Outgoing {
            header,
            data: Some(Payload::Owned(text)),
            is_payload: false,
            mark: None,
            is_alone: false,
        })
    }

    fn bytes<'a>(&'a self, data: &'a Payload) -> &'a [u8] {
        data.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use net::Events;
    use proto::login::{RANDOM_BYTES, Session as Kind};

    use super::*;
    use crate::login::establishment::Destination;

    #[test]
    fn a_login_that_is_not_answered_ends_with_its_time_and_not_before() {
        let (poll, mut events, mut scratch) = (Poll::new().unwrap(), Events::new(), Scratch::new());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (options, request) = (Options::plain(), Destination::plain(Kind::Discovery).request);
        let (begun, timeout) = (Instant::from_nanos(5), Duration::from_secs(1));
        let limits = (begun + timeout, timeout);
        let login = Login::with_random(request, [0; RANDOM_BYTES]);
        let address = listener.local_addr().unwrap();
        let mut dial = Dial::start(&poll, 7, address, login, &options, limits).unwrap();
        let mut expect_timeout = |dial: &mut Dial, expected| {
            for early in [begun, dial.deadline() - Duration::from_nanos(1)] {
                assert!(matches!(dial.turn(&poll, &mut scratch, early), Ok(None)), "{expected} at {early:?}");
            }
            let Err(error) = dial.turn(&poll, &mut scratch, dial.deadline()) else { panic!("{expected}") };
            assert!(matches!(error, Error::Timeout { what, .. } if what == expected), "{error}");
        };
        expect_timeout(&mut dial, "accept a connection");
        poll.wait(&mut events, None).unwrap();
        events.iter().for_each(|ready| dial.ready(ready));
        expect_timeout(&mut dial, "answer the login");
    }
}
