//! From a URL to a session: resolve, connect, log in. Everything has a deadline.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::Duration;

use engine::{Connection, Landing, Outgoing, Receiver, Scratch, Sender, Service, Stop, Turn};
use event::Instant;
use net::{Events, Interest, Poll, Ready, clock, tcp};
use proto::Fault;
use proto::login::{Initiator as Login, LoggedIn, LoginError, RANDOM_BYTES, Request, SEGMENT_BYTES, Status};
use wire::iscsi::{BHS_LEN, Bhs, Pdu, login_status};

use crate::client::{Client, Options, TOKEN};
use crate::error::Error;
use crate::side::{Payload, Place};

/// Redirections that are followed.
const REDIRECTIONS_MAX: usize = 4;

/// Connects and logs in; follows redirections, and tries again without the private key if the peer
/// drops the connection over it, and without SHA-256 if the peer takes that for another algorithm.
pub(crate) fn session(host: &str, port: u16, request: &Request, options: &Options) -> Result<Client, Error> {
    let mut request = request.clone();
    let (mut host, mut port) = (host.to_owned(), port);
    for _ in 0..REDIRECTIONS_MAX {
        match once(&host, port, &request, options) {
            Err(Error::Login { source: LoginError::Redirected { address, .. }, .. }) => {
                (host, port) = (address.host, address.port);
            }
            Err(Error::Login { source: LoginError::Refused { status, .. }, .. })
                if status == Status::new(login_status::INITIATOR_ERROR)
                    && request.security.leave_out_sha256() => {}
            Err(Error::Closed { .. } | Error::Socket { .. }) if request.private_key => {
                request.private_key = false;
            }
            result => return result,
        }
    }
    once(&host, port, &request, options)
}

fn once(host: &str, port: u16, request: &Request, options: &Options) -> Result<Client, Error> {
    let resolved = (host, port).to_socket_addrs();
    let resolved = resolved.map_err(|source| Error::Resolve { host: host.to_owned(), source })?;
    let mut last = None;
    for address in resolved {
        match connect(address, options) {
            Ok(stream) => return log_in(stream, address, request, options),
            Err(error) => last = Some(error),
        }
    }
    let nothing = || std::io::Error::other("the name stands for no address");
    Err(last.unwrap_or_else(|| Error::Resolve { host: host.to_owned(), source: nothing() }))
}

/// Connects within the time that `options` allow.
pub fn connect(address: SocketAddr, options: &Options) -> Result<TcpStream, Error> {
    let failed = |source| Error::Connect { address, source };
    let stream = tcp::start_connect(address, options.congestion.as_deref()).map_err(failed)?;
    let poll = Poll::new()?;
    poll.add(stream.as_fd(), TOKEN, Interest::WRITE)?;
    let deadline = clock::now() + options.timeout;
    let mut events = Events::new();
    loop {
        let left = deadline.since(clock::now());
        if left == Duration::ZERO {
            return Err(Error::Timeout { address, what: "accept a connection", after: options.timeout });
        }
        poll.wait(&mut events, Some(left))?;
        if events.iter().any(|ready| ready.writable) {
            return match stream.take_error()? {
                None => Ok(stream),
                Some(source) => Err(failed(source)),
            };
        }
    }
}

fn log_in(
    stream: TcpStream,
    address: SocketAddr,
    request: &Request,
    options: &Options,
) -> Result<Client, Error> {
    let poll = Poll::new()?;
    // Every connection has a challenge of its own.
    let mut random = [0; RANDOM_BYTES];
    net::random::fill(&mut random);
    let mut login = LoggingIn {
        connection: Connection::new(stream, &poll, TOKEN)?,
        poll,
        scratch: Scratch::new(),
        side: Side { login: Login::with_random(request.clone(), random), response: None, address },
        deadline: clock::now() + options.timeout,
        timeout: options.timeout,
    };
    engine::run(&mut login)?;
    let Some(LoggedIn { params, cmd_sn, exp_stat_sn, max_cmd_sn, .. }) = login.side.login.outcome().cloned()
    else {
        unreachable!("the loop ends with an error or with an outcome");
    };
    let session = proto::initiator::Session::new(params, cmd_sn, max_cmd_sn, exp_stat_sn);
    Client::new(login.poll, login.connection, login.scratch, session, address, options)
}

struct LoggingIn {
    poll: Poll,
    connection: Connection<Place, Payload>,
    scratch: Scratch,
    side: Side,
    deadline: Instant,
    timeout: Duration,
}

struct Side {
    login: Login,
    response: Option<Pdu>,
    address: SocketAddr,
}

impl Service for LoggingIn {
    type Error = Error;

    fn poll(&self) -> &Poll {
        &self.poll
    }

    fn ready(&mut self, ready: Ready, _now: Instant) -> Result<(), Error> {
        let address = self.side.address;
        if ready.readable {
            let received = self.connection.receive(&mut self.scratch, &mut self.side);
            received.map_err(|stop| match stop {
                Stop::Closed => Error::Closed { address, when: "during the login" },
                Stop::Io(source) => Error::Socket { address, source },
                Stop::Refused(error) => error,
            })?;
        }
        Ok(())
    }

    fn turn(&mut self, now: Instant) -> Result<Turn, Error> {
        let address = self.side.address;
        let sent = self.connection.send(&self.poll, &mut self.side);
        sent.map_err(|source| Error::Socket { address, source })?;
        if self.side.login.outcome().is_some() {
            return Ok(Turn::Stop);
        }
        if now >= self.deadline {
            return Err(Error::Timeout { address, what: "answer the login", after: self.timeout });
        }
        Ok(Turn::WaitUntil(self.deadline))
    }
}

impl Receiver for Side {
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

impl Sender for Side {
    type Data = Payload;

    fn next(&mut self) -> Option<Outgoing<Payload>> {
        let (request, text) = self.login.poll_transmit()?;
        let mut header = [0; BHS_LEN];
        request.emit(&mut header);
        Some(Outgoing { header, data: Some(Payload::Owned(text)), is_payload: false })
    }

    fn bytes<'a>(&'a self, data: &'a Payload) -> &'a [u8] {
        data.bytes()
    }
}
