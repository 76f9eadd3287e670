//! Establishment of a session with all its connections: resolves the name, dials one address after the other, logs in,
//! follows redirections, retries with fewer features if the peer rejects them, and adds the further connections. The
//! event loop of the caller drives it; one deadline bounds it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use engine::{Connection, Digests, Scratch};
use event::Instant;
use net::{Poll, Ready};
use proto::initiator::Session;
use proto::login::{
    Initiator as Login, Joined, LoggedIn, LoginError, RANDOM_BYTES, Request as LoginRequest, Session as Kind,
    Status,
};
use proto::params::{Digest, Params};
use wire::iscsi::login_status;

use crate::error::Error;
use crate::login::connection_login::{Dial, Dialled};
use crate::login::name_resolution::Lookup;
use crate::options::Options;
use crate::session::payload::{Payload, Place};

/// Maximum number of redirections and of logins with fewer features.
const REDIRECTIONS_MAX: usize = 4;
/// Maximum number of addresses among which the time is divided.
const ADDRESSES_MAX: usize = 8;

/// Address and login parameters of a session.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Login request; its MaxConnections is the maximum number of connections at any time.
    pub(crate) request: LoginRequest,
    /// Number of connections to start with, if the target permits as many.
    pub(crate) connections: u16,
}

impl Destination {
    /// Gives the session another ISID, so that the login does not reinstate the previous session.
    pub(crate) fn renew_isid(&mut self) {
        self.request.isid = random_isid();
    }
}

/// Random ISID (RFC 7143 section 11.12.5). A target ends an existing session with the same ISID, so ISIDs of different
/// processes must never collide.
pub(crate) fn random_isid() -> [u8; 6] {
    let mut isid = [0; 6];
    net::random::fill(&mut isid[1..]);
    isid[0] = 0x80;
    isid
}

/// A session being made.
pub(crate) struct Approach {
    destination: Destination,
    /// Name resolution in progress, and its deadline.
    lookup: Option<(Lookup, Option<Instant>)>,
    addresses: VecDeque<SocketAddr>,
    redirections: usize,
    dial: Option<Dial>,
    first: Option<First>,
    /// Error of the last address.
    last: Option<Error>,
    /// Refusal of a discovery login with CHAP; the login is retried without CHAP.
    refused: Option<Error>,
    first_token: u64,
    deadline: Instant,
}

/// The session, as soon as its leading connection has logged in.
struct First {
    session: Session,
    address: SocketAddr,
    tsih: u16,
    connections: Vec<Connection<Place, Payload>>,
    is_complete: bool,
}

/// A session with its connections in the order of their CIDs.
pub(crate) struct Arrived {
    pub(crate) session: Session,
    pub(crate) address: SocketAddr,
    pub(crate) tsih: u16,
    pub(crate) connections: Vec<Connection<Place, Payload>>,
    /// Destination with the login parameters that the target accepted.
    pub(crate) destination: Destination,
}

impl Approach {
    /// Starts with the name resolution. The sockets get epoll tokens from `first_token` on.
    pub(crate) fn new(destination: Destination, first_token: u64, deadline: Instant) -> Approach {
        Approach {
            lookup: Some((Lookup::start(&destination.host, destination.port), None)),
            destination,
            addresses: VecDeque::new(),
            redirections: 0,
            dial: None,
            first: None,
            last: None,
            refused: None,
            first_token,
            deadline,
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        match &self.lookup {
            Some((lookup, _)) => lookup.look_at(),
            None => self.dial.as_ref().map_or(self.deadline, Dial::deadline),
        }
    }

    pub(crate) fn ready(&mut self, ready: Ready) {
        if let Some(dial) = &mut self.dial {
            dial.ready(ready);
        }
    }

    /// Makes progress without blocking; returns the session when it is complete.
    pub(crate) fn turn(
        &mut self,
        poll: &Poll,
        scratch: &mut Scratch,
        options: &Options,
        now: Instant,
    ) -> Result<Option<Arrived>, Error> {
        loop {
            if self.first.as_ref().is_some_and(|first| first.is_complete) {
                let Some(First { session, address, tsih, connections, .. }) = self.first.take() else {
                    unreachable!("it is complete");
                };
                let destination = self.destination.clone();
                return Ok(Some(Arrived { session, address, tsih, connections, destination }));
            }
            if let Some((lookup, until)) = &mut self.lookup {
                let until = *until.get_or_insert((now + options.timeout).min(self.deadline));
                let Some(addresses) = lookup.poll(now, until)? else { return Ok(None) };
                (self.addresses, self.lookup) = (addresses, None);
            }
            let result = match &mut self.dial {
                Some(dial) => dial.turn(poll, scratch, now),
                None => {
                    self.dial = self.next(poll, options, now)?;
                    continue;
                }
            };
            match result {
                Ok(None) => return Ok(None),
                Ok(Some(dialled)) => self.arrived(dialled),
                Err(error) => self.failed(error, options)?,
            }
        }
    }

    /// Dials the next connection. An immediate failure is handled like a later one.
    fn next(&mut self, poll: &Poll, options: &Options, now: Instant) -> Result<Option<Dial>, Error> {
        let request = &self.destination.request;
        let (address, login) = match &self.first {
            Some(first) => (first.address, joining(request, &first.session, first.tsih)),
            None => {
                let Some(&address) = self.addresses.front() else {
                    let (host, nothing) = (self.destination.host.clone(), "the name stands for no address");
                    let source = std::io::Error::other(nothing);
                    let known = self.refused.take().or(self.last.take());
                    return Err(known.unwrap_or(Error::Resolve { host, source }));
                };
                (address, Login::with_random(request.clone(), random()))
            }
        };
        let token = self.first_token + self.first.as_ref().map_or(0, |first| first.connections.len() as u64);
        // A silent address must leave time for the others.
        let addresses = if self.first.is_some() { 1 } else { self.addresses.len().clamp(1, ADDRESSES_MAX) };
        let time = options.timeout.min(self.deadline.since(now) / addresses as u32);
        match Dial::start(poll, token, address, login, options, (now + time, time)) {
            Ok(dial) => Ok(Some(dial)),
            Err(error) => self.failed(error, options).map(|()| None),
        }
    }

    fn arrived(&mut self, dialled: Dialled) {
        let address = self.addresses.front().copied();
        self.dial = None;
        let Dialled { mut connection, logged_in } = dialled;
        let LoggedIn { mut params, tsih, cmd_sn, exp_stat_sn, exp_cmd_sn, max_cmd_sn, .. } = logged_in;
        connection.set_digests(digests(&params));
        params.initial_r2t |= must_solicit(&params, self.destination.connections);
        match (&mut self.first, address) {
            (Some(first), _) => {
                first.session.join(&params, exp_stat_sn, exp_cmd_sn, max_cmd_sn);
                first.connections.push(connection);
            }
            (None, Some(address)) => {
                let session = Session::new(params, cmd_sn, max_cmd_sn, exp_stat_sn);
                let connections = vec![connection];
                self.first = Some(First { session, address, tsih, connections, is_complete: false });
            }
            (None, None) => unreachable!("the first connection was made to the first address"),
        }
        if let Some(first) = &mut self.first {
            let agreed = first.session.params().max_connections;
            let most = agreed.min(self.destination.connections);
            first.is_complete = first.session.next_cid() >= most;
        }
    }

    /// Handles a failed connection: continues with another address, another login or fewer connections, or fails.
    fn failed(&mut self, error: Error, options: &Options) -> Result<(), Error> {
        self.dial = None;
        if let Some(first) = &mut self.first {
            // The target has granted more connections, and works with those it accepted.
            (options.notice)(&format!("works with {} connections: {error}", first.connections.len()));
            first.is_complete = true;
            return Ok(());
        }
        let request = &mut self.destination.request;
        let may_change = self.redirections < REDIRECTIONS_MAX;
        let refusal = match &error {
            Error::Login { source, .. } => source.refusal(),
            _ => None,
        };
        let is_closed = matches!(error, Error::Closed { .. } | Error::Socket { .. });
        match error {
            Error::Connect { .. } | Error::Timeout { what: "accept a connection", .. } => {
                self.addresses.pop_front();
                self.last = Some(error);
            }
            Error::Login { source: LoginError::Redirected { address, .. }, .. } if may_change => {
                self.redirections += 1;
                self.lookup = Some((Lookup::start(&address.host, address.port), None));
                (self.destination.host, self.destination.port) = (address.host, address.port);
            }
            Error::Login { source: LoginError::Unchallenged { is_choice: true, .. }, .. }
                if may_change && request.security.offer_md5_alone() =>
            {
                self.redirections += 1;
            }
            Error::Login { source: LoginError::Refused { .. }, .. }
                if may_change
                    && refusal == Some(Status::new(login_status::INITIATOR_ERROR))
                    && request.security.leave_out_sha256() =>
            {
                self.redirections += 1;
            }
            // Many targets require CHAP in normal sessions only, and have no credentials for discovery sessions.
            Error::Login { .. }
                if may_change
                    && refusal == Some(Status::new(login_status::AUTHENTICATION_FAILURE))
                    && request.session == Kind::Discovery
                    && request.security.leave_out_chap() =>
            {
                self.redirections += 1;
                (options.notice)(&format!("{error}; discovery is tried without CHAP"));
                self.refused = Some(error);
            }
            // A target that answered a previous login accepts the key.
            _ if is_closed && may_change && request.private_key && self.refused.is_none() => {
                self.redirections += 1;
                request.private_key = false;
            }
            // The earlier refusal with CHAP is more informative than this one. LIO closes the connection instead.
            _ if (is_closed || refusal.is_some()) && request.session == Kind::Discovery => {
                return Err(with_origin(self.refused.take().unwrap_or(error), options));
            }
            error => return Err(with_origin(error, options)),
        }
        Ok(())
    }
}

/// Adds the origin of the initiator name to a refusal of that name.
fn with_origin(error: Error, options: &Options) -> Error {
    match error {
        Error::Login { address, source: LoginError::Refused { status, reason } }
            if status == Status::new(login_status::AUTHORIZATION_FAILURE) =>
        {
            let reason = format!("{reason}; {}", options.near.name.origin());
            Error::Login { address, source: LoginError::Refused { status, reason } }
        }
        error => error,
    }
}

/// Login of a further connection of a session.
pub(crate) fn joining(request: &LoginRequest, session: &Session, tsih: u16) -> Login {
    let request = LoginRequest { cid: session.next_cid(), ..request.clone() };
    Login::joining(request, random(), Joined { tsih, cmd_sn: session.cmd_sn() })
}

/// Returns true if writes have to wait for R2Ts although the target takes unsolicited data: with several connections,
/// LIO never completes a write whose unsolicited data come before a command of another connection that is due first.
fn must_solicit(params: &Params, connections: u16) -> bool {
    params.peer_software.is_none() && connections > 1 && params.max_connections > 1
}

/// Random bytes of a connection's CHAP challenge.
fn random() -> [u8; RANDOM_BYTES] {
    let mut random = [0; RANDOM_BYTES];
    net::random::fill(&mut random);
    random
}

pub(crate) fn digests(params: &Params) -> Digests {
    let is_on = |digest| digest == Digest::Crc32c;
    Digests { header: is_on(params.header_digest), data: is_on(params.data_digest) }
}

#[cfg(test)]
impl Destination {
    /// A destination for tests without a network.
    pub(crate) fn plain(session: Kind) -> Destination {
        let request = LoginRequest {
            session,
            initiator_name: "iqn.2026-11.org.example:me".to_owned(),
            initiator_alias: None,
            isid: [0x80, 0, 0, 0, 0, 1],
            cid: 0,
            wishes: Default::default(),
            security: proto::login::Security::Skip,
            private_key: true,
        };
        Destination { host: "192.0.2.1".to_owned(), port: 3260, request, connections: 1 }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    const ADDRESS: ([u8; 4], u16) = ([192, 0, 2, 1], 3260);

    fn approach(session: Kind) -> Approach {
        Approach::new(Destination::plain(session), 0, Instant::FAR_FUTURE)
    }

    fn refusal(status: (u8, u8)) -> Error {
        let source = LoginError::Refused { status: status.into(), reason: "no".to_owned() };
        Error::Login { address: ADDRESS.into(), source }
    }

    #[test]
    fn a_renewed_isid_is_another_one_of_the_random_kind() {
        let mut destination = approach(Kind::Discovery).destination;
        let mut seen = vec![destination.request.isid];
        for _ in 0..3 {
            destination.renew_isid();
            let isid = destination.request.isid;
            assert!(isid[0] == 0x80 && !seen.contains(&isid), "{isid:02x?} after {seen:02x?}");
            seen.push(isid);
        }
    }

    #[test]
    fn a_refusal_counts_more_than_an_address_where_nobody_is() {
        let (options, mut approach) = (Options::plain(), approach(Kind::Discovery));
        let source = io::Error::from(io::ErrorKind::ConnectionRefused);
        let nobody = Error::Connect { address: ADDRESS.into(), source };
        approach.failed(nobody, &options).expect("there may be other addresses");
        let error = approach.failed(refusal(login_status::AUTHORIZATION_FAILURE), &options);
        let error = error.expect_err("it is refused");
        assert!(error.is_refusal(), "{error}");
    }

    #[test]
    fn a_refusal_of_our_name_tells_its_origin() {
        for session in [Kind::Discovery, Kind::Normal { target_name: "iqn.a".to_owned() }] {
            let error =
                approach(session).failed(refusal(login_status::AUTHORIZATION_FAILURE), &Options::plain());
            let error = error.expect_err("it is refused").to_string();
            assert!(error.contains("that of --initiator-name"), "{error}");
        }
    }

    #[test]
    fn several_connections_to_others_send_nothing_unsolicited() {
        let params = |max_connections, peer: Option<&str>| Params {
            max_connections,
            peer_software: peer.map(str::to_owned),
            ..Params::RFC_DEFAULT
        };
        assert!(must_solicit(&params(4, None), 4));
        assert!(!must_solicit(&params(1, None), 4), "there is only one");
        assert!(!must_solicit(&params(4, None), 1), "one is enough");
        assert!(!must_solicit(&params(4, Some("farlun/0.1.0")), 4));
    }
}
