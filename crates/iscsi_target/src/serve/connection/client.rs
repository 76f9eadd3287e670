//! One connection at the target: its socket, its turn in the loop, and the decisions of the policy for it.

mod closing;
mod held;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use control::{Arrived, BULK_BYTES, Claim, Met};
use engine::{Connection, Digests, Progress, Quantum, SAMPLE_EVERY, Scratch, Span, Stop};
use event::{Granted, Host, Instant, SocketSample};
use net::{Poll, Ready, TcpInfo, clock, tcp_info};
use proto::login::{LoginPolicy, Target as Login};
use proto::params::Digest;
use proto::target::ConnectionId;
use slab::Slab;

use crate::serve::connection::end_reason::End;
use crate::serve::connection::link::{Link, Phase};
use crate::serve::connection::liveness::{Alive, DISCOVERY_PATIENCE, Verdict};
use crate::serve::connection::pdu_exchange::Active;
use crate::serve::limits::slots::Ticket;
use crate::serve::limits::turns::PeerDebts;
use crate::serve::limits::unread::Unread;
use crate::serve::session::state::SessionState;
use crate::serve::session::transfer::{Payload, Place};
use crate::serve::{Shared, log};

/// Time for a login; a connection that takes longer is closed.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(15);

/// A connection.
pub(crate) struct Client {
    connection: Connection<Place, Payload>,
    pub(crate) link: Link,
    readable: bool,
    is_reading: bool,
    is_broken: bool,
    /// The client is in the list of clients with work.
    pub(crate) is_dirty: bool,
    seen_bytes: u64,
    /// Bulk data has been queued; `wants_look` until the policy has looked at the connection since.
    had_bulk: bool,
    wants_look: bool,
    /// Bytes acknowledged when bulk data was first seen, until more are; `u64::MAX` before the first look.
    beginning: Option<u64>,
    /// Data was in flight at the last look; interval that the policy wanted before the next.
    is_under_way: bool,
    look_again: Duration,
    alive: Alive,
    /// Memory for requests that the peer has not finished and responses that it has not read, at the last count.
    unread: Unread,
    /// Position among the connection slots.
    pub(crate) ticket: Option<Ticket>,
}

impl Client {
    pub(crate) fn new(
        connection: Connection<Place, Payload>,
        peer: SocketAddr,
        index: usize,
        login: LoginPolicy,
        accepted: Instant,
    ) -> io::Result<Client> {
        let local = connection.stream().local_addr()?;
        Ok(Client {
            connection,
            link: Link {
                index,
                peer,
                local,
                name: peer.to_string(),
                phase: Phase::Login {
                    login: Box::new(Login::new(login)),
                    deadline: accepted + LOGIN_TIMEOUT,
                },
                joining: None,
                cid: 0,
                pdu: None,
                span: Span::default(),
                end: None,
            },
            readable: false,
            is_reading: true,
            is_broken: false,
            is_dirty: false,
            seen_bytes: 0,
            had_bulk: false,
            wants_look: false,
            beginning: None,
            is_under_way: false,
            look_again: SAMPLE_EVERY,
            alive: Alive::new(accepted),
            unread: Unread::Login(0),
            ticket: None,
        })
    }

    /// See [`Connection::join_stamped_writes`].
    pub(crate) fn join_stamped_writes(&mut self) {
        self.connection.join_stamped_writes();
    }

    /// Session and connection within it; `None` before the end of the login.
    pub(crate) fn place(&self) -> Option<(usize, ConnectionId)> {
        match self.link.phase {
            Phase::Full { side, connection } => Some((side, connection)),
            Phase::Login { .. } => None,
        }
    }

    /// TSIH of the new session that a successful login is about to open.
    pub(crate) fn next_tsih(&self) -> Option<u16> {
        match &self.link.phase {
            Phase::Full { .. } => None,
            Phase::Login { login, .. } => {
                login.outcome().filter(|admitted| !admitted.joins).map(|admitted| admitted.tsih)
            }
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.link.name
    }

    pub(crate) fn mark(&mut self, ready: Ready, now: Instant) {
        let ready = self.connection.ready(ready);
        if ready.readable {
            self.alive.heard(now);
        }
        self.readable |= ready.readable;
        // With reading switched off, the poll reports readable only when the connection breaks.
        if ready.readable && !self.is_reading {
            self.is_broken = true;
        }
    }

    pub(crate) fn awaits_login(&self) -> bool {
        matches!(self.link.phase, Phase::Login { .. })
    }

    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self.link.phase, Phase::Login { deadline, .. } if now >= deadline)
    }

    /// Enters the list of clients with work.
    pub(crate) fn become_dirty(&mut self, list: &mut Vec<usize>) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            list.push(self.link.index);
        }
    }

    /// See [`SessionState::may_read`].
    pub(crate) fn may_read(&self, sides: &Slab<SessionState>, shared: &Shared) -> bool {
        self.link.may_read(sides, shared)
    }

    /// Returns true if the connection has stopped reading for want of buffers.
    pub(crate) fn is_paused(&self) -> bool {
        !self.is_reading
    }

    /// Sets the length of later turns.
    pub(crate) fn set_quantum(&mut self, quantum: Quantum) {
        self.connection.set_quantum(quantum);
    }

    /// Returns true while others come first, since requests of this session, or logins of this address, have used too
    /// much time.
    pub(crate) fn rests(&self, now: Instant, sides: &Slab<SessionState>, debts: &PeerDebts) -> bool {
        match self.place() {
            Some((side, _)) => sides[side].debt.rests(now),
            None => debts.rests(self.link.peer.ip().into(), now),
        }
    }

    /// Receives PDUs, executes commands and sends responses.
    pub(crate) fn turn(
        &mut self,
        poll: &Poll,
        sides: &mut Slab<SessionState>,
        shared: &mut Shared,
    ) -> Result<Progress, End> {
        let result = self.read_and_send(poll, sides, shared);
        self.count_held(sides, shared);
        result
    }

    fn read_and_send(
        &mut self,
        poll: &Poll,
        sides: &mut Slab<SessionState>,
        shared: &mut Shared,
    ) -> Result<Progress, End> {
        if self.is_broken {
            return Err(End::Closed);
        }
        if let Some(trail) = self.link.trail(sides) {
            trail.look(clock::now());
            self.connection.stamped().for_each(|stamped| trail.stamped(&stamped));
        }
        let mut progress = Progress::Waits;
        if self.readable && self.link.may_read(sides, shared) {
            let mut receiver = Active { link: &mut self.link, sides, shared };
            let connection = &mut self.connection;
            let received = with_scratch(|scratch| connection.receive(scratch, &mut receiver));
            progress = received.map_err(|stop| match stop {
                Stop::Closed => End::Closed,
                Stop::Io(error) => End::Io(error),
                Stop::Refused(end) => end,
            })?;
            self.readable = progress == Progress::More;
        }
        let was_login = self.awaits_login();
        let unsent_bytes = self.unsent_bytes(sides);
        if unsent_bytes >= BULK_BYTES && !std::mem::replace(&mut self.had_bulk, true) {
            // Data sent before the first look of the policy leaves unpaced.
            (self.wants_look, self.beginning) = (true, Some(u64::MAX));
            return Ok(Progress::More);
        }
        if let Some(burst) = self.connection.next_burst(unsent_bytes) {
            let start = shared.crowd.begin(self.link.index, clock::now(), burst);
            self.connection.start_burst(burst, start);
        }
        let mut sender = Active { link: &mut self.link, sides, shared };
        let sent = self.connection.send(poll, &mut sender, unsent_bytes).map_err(End::Io)?;
        if let Some(trail) = self.link.trail(sides) {
            self.connection.departed().for_each(|departed| trail.departed(&departed));
        }
        if let (true, Some((side, connection))) = (was_login, self.place()) {
            if let Some(ticket) = self.ticket {
                shared.admission.slots.log_in(self.link.peer.ip(), ticket);
            }
            // The last Login Response is the last PDU without digests; the target sends nothing else before the
            // initiator's next request.
            let is_on = |digest| digest == Digest::Crc32c;
            let params = sides[side].session.params_of(connection);
            let (header, data) = (params.header_digest, params.data_digest);
            self.connection.set_digests(Digests { header: is_on(header), data: is_on(data) });
            if let Some(tracer) = &shared.report.tracer {
                let agreed = sides[side].recorded(connection);
                if let Ok(row) = self.connection.login(clock::now(), agreed) {
                    tracer.login(&row);
                }
                if tracer.sampling().pdus > 0 {
                    // Times of the target itself are recorded even without the kernel's timestamps.
                    let _ = self.connection.start_stamping();
                }
            }
        }
        if sent == Progress::More {
            progress = Progress::More;
        }
        if !self.connection.has_unsent()
            && sent == Progress::Waits
            && let Some(end) = self.link.end.take()
        {
            return Err(end);
        }
        // Evaluated last: sending has freed buffers.
        self.is_reading = self.link.may_read(sides, shared);
        self.connection.set_reading(poll, self.is_reading).map_err(End::Io)?;
        Ok(if self.is_reading || sent == Progress::More { progress } else { Progress::Waits })
    }

    /// Payload in bytes that waits to be sent.
    fn unsent_bytes(&self, sides: &Slab<SessionState>) -> u64 {
        self.place().map_or(0, |(side, connection)| sides[side].session.unsent_payload_bytes(connection))
    }

    /// Time at which the connection continues to send without an event.
    pub(crate) fn resume_at(&self) -> Option<Instant> {
        self.connection.resume_at()
    }

    /// Returns true if the session has PDUs to send on this connection.
    pub(crate) fn has_to_send(&self, sides: &Slab<SessionState>) -> bool {
        self.place().is_some_and(|(side, connection)| sides[side].session.wants_transmit(connection))
    }

    /// Returns true, once, if the policy must look at the connection before more is sent.
    pub(crate) fn take_wants_look(&mut self) -> bool {
        std::mem::take(&mut self.wants_look)
    }

    /// Interval to the next look after a time at rest.
    pub(crate) fn look_again(&self) -> Duration {
        self.look_again
    }

    /// Claim of the outbound direction to its line.
    pub(crate) fn claim(&self) -> Option<Claim> {
        self.connection.claim()
    }

    /// Measurement of the sending device, if the connection sends lone bursts.
    pub(crate) fn met(&self) -> Option<Met> {
        self.connection.met()
    }

    /// Claim of the inbound direction to its line, by the data that the initiator sends.
    pub(crate) fn claim_of_peer(&self) -> Option<Claim> {
        self.connection.claim_of_peer()
    }

    /// Last packet train of received data.
    pub(crate) fn arrived(&self) -> Option<Arrived> {
        self.connection.arrived()
    }

    /// Reports to an initiator at this RTT a changed send window, or the rate allocated to the inbound direction.
    pub(crate) fn tell(
        &mut self,
        now: Instant,
        rtt: Duration,
        part: Granted,
        sides: &mut Slab<SessionState>,
    ) {
        let window = self.connection.take_notice();
        if let Some((side, connection)) = self.place() {
            sides[side].tell(connection, now, rtt, window, part);
        }
    }

    /// Sets the rate allocated to the outbound direction.
    pub(crate) fn grant(&mut self, bytes_per_s: Option<u64>) {
        self.connection.grant(bytes_per_s);
    }

    /// Samples a connection that has moved data since the last look: returns its row of the table, and the interval to
    /// the next look. The policy gets the sample and `has_company` (other connections move data too); its decisions
    /// take effect, with a command window of at most `most`. A connection that has moved no data releases memory.
    pub(crate) fn sample(
        &mut self,
        now: Instant,
        sides: &mut Slab<SessionState>,
        most: u32,
        has_company: bool,
    ) -> io::Result<Option<(SocketSample, Duration)>> {
        let Some((side, connection)) = self.place() else { return Ok(None) };
        let side = &mut sides[side];
        let moved = self.connection.received_payload_bytes() + self.connection.sent_payload_bytes();
        // In-flight data yields samples of the path until it has arrived. Sent bytes count as moved only when a whole
        // PDU is out, which takes a new window several round trips, and never happens in an MTU black hole. A sending
        // peer keeps its claim for a while after its data stops.
        let is_sending = self.is_under_way || self.beginning.is_some() || self.connection.is_sending();
        let is_at_rest = !is_sending && self.connection.claim_of_peer().is_none();
        if moved == self.seen_bytes && is_at_rest {
            if side.transfers.is_empty() {
                side.transfers.shrink_to_fit();
                side.session.rest();
                self.connection.rest();
            }
            return Ok(None);
        }
        self.seen_bytes = moved;
        let request_bytes = side.take_request_bytes(connection);
        let unsent_bytes = side.session.unsent_payload_bytes(connection);
        let (mut sample, decision) =
            self.connection.look(now, Host::Far, unsent_bytes, request_bytes, has_company)?;
        if let Some(hole) = self.connection.take_black_hole() {
            log(format_args!("{}: {hole}", self.link.name));
        }
        if let Some(change) = self.connection.take_congestion_change() {
            log(format_args!("{}: {change}", self.link.name));
        }
        side.set_window(connection, decision.command_window, most);
        // A slowly paced connection may have nothing in flight between two packets, and still needs looks.
        self.is_under_way = sample.unacked_packets > 0 || sample.notsent_bytes > 0 || sample.unsent_bytes > 0;
        self.look_again = decision.look_again;
        // On a short path all data may have arrived between two looks.
        self.beginning = self
            .beginning
            .map(|acked_bytes| acked_bytes.min(sample.acked_bytes))
            .filter(|&acked_bytes| !self.is_under_way && sample.acked_bytes == acked_bytes);
        sample.command_window = side.session.command_window();
        Ok(Some((sample, decision.look_again)))
    }

    /// The row of the table for the end of a connection that has moved data.
    pub(crate) fn last_sample(&self, now: Instant) -> Option<SocketSample> {
        let sample = self.connection.sample(now, Host::Far).ok()?;
        (sample.app_rx_bytes + sample.app_tx_bytes > 0).then_some(sample)
    }

    /// Returns true if unsent payload lies in the memory of LUN `number`.
    pub(crate) fn sends_from(&self, number: u16) -> bool {
        let is_sent =
            |data: &Payload| matches!(data, Payload::Memory { lun, .. } if lun.number() == Some(number));
        self.connection.unsent_data().any(is_sent)
    }

    /// Judges the liveness of the peer, and sends a ping to a silent one. A discovery session has no pings (RFC 7143
    /// section 4.3), and ends after a time without requests.
    pub(crate) fn judge(&mut self, now: Instant, sides: &mut Slab<SessionState>) -> Verdict {
        let Some((side, connection)) = self.place() else { return Verdict::Fine };
        let side = &mut sides[side];
        if side.identity.iqn.is_none() {
            let is_idle = self.alive.silent_for(now) >= DISCOVERY_PATIENCE;
            return if is_idle { Verdict::Idle } else { Verdict::Fine };
        }
        if !self.alive.is_silent(now) {
            return Verdict::Fine;
        }
        let Ok(info) = tcp_info::read(self.connection.stream()) else { return Verdict::Gone };
        let verdict = self.alive.judge(now, info.rtt, info.acked_bytes, self.is_reading);
        if verdict == Verdict::Ping {
            side.session.ping(connection);
        }
        verdict
    }

    /// TCP_INFO of the connection; `None` if the kernel returns an error.
    pub(crate) fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info::read(self.connection.stream()).ok()
    }

    /// Sends an Async Message that requests a logout.
    pub(crate) fn request_logout(&mut self, within_s: u16, sides: &mut Slab<SessionState>) {
        if let Some((side, connection)) = self.place()
            && sides[side].identity.iqn.is_some()
        {
            sides[side].session.request_logout(connection, within_s);
        }
    }

    /// Returns true if no command is open, nothing waits to be sent, and no end is scheduled.
    pub(crate) fn is_quiet(&self, sides: &Slab<SessionState>) -> bool {
        let Some((side, connection)) = self.place() else { return false };
        let session = &sides[side].session;
        self.link.end.is_none() && session.open_commands() == 0 && !session.wants_transmit(connection)
    }

    /// Ends the connection as soon as the queued PDUs are sent.
    pub(crate) fn end_with(&mut self, end: End) {
        self.link.end = Some(end);
    }
}

/// The thread's scratch buffer, lent to one client at a time.
fn with_scratch<T>(use_it: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local!(static SCRATCH: std::cell::RefCell<Scratch> = Scratch::new().into());
    SCRATCH.with_borrow_mut(use_it)
}

#[cfg(test)]
mod tests;
