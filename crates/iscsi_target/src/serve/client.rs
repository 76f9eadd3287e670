//! One connection at the target: its socket, its turn in the loop, and what the policy makes of it.

mod leaving;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use control::{Arrived, BULK_BYTES, Claim, Met};
use engine::{Connection, Digests, Progress, Quantum, SAMPLE_EVERY, Span, Stop};
use event::{Granted, Host, Instant, SocketSample};
use net::{Poll, Ready, TcpInfo, clock, tcp_info};
use proto::login::{Candidate, LoginPolicy, Target as Login};
use proto::params::Digest;
use proto::target::ConnectionId;
use slab::Slab;
use wire::iscsi::Pdu;

use super::alive::{Alive, DISCOVERY_PATIENCE, Verdict};
use super::end::End;
use super::exchange::Active;
use super::side::Side;
use super::slots::Ticket;
use super::trail::Trail;
use super::transfer::{Payload, Place};
use super::unread::Unread;
use super::{LOGIN_TIMEOUT, Shared, log, with_scratch};

/// Everything of a connection that is neither its socket nor its session's.
pub(super) struct Link {
    pub(super) index: usize,
    pub(super) peer: SocketAddr,
    /// Our address on it.
    pub(super) local: SocketAddr,
    pub(super) name: String,
    pub(super) phase: Phase,
    /// Its place in a session that it has joined and was not told of yet.
    pub(super) joining: Option<(usize, ConnectionId)>,
    /// What its initiator calls it.
    pub(super) cid: u16,
    /// The PDU whose data segment is being received, and where it lies, as soon as all of it is there.
    pub(super) pdu: Option<Pdu>,
    pub(super) span: Span,
    pub(super) end: Option<End>,
}

pub(super) enum Phase {
    Login {
        login: Box<Login>,
        deadline: Instant,
    },
    /// In the full feature phase, as a connection of a session.
    Full {
        side: usize,
        connection: ConnectionId,
    },
}

impl Link {
    /// See [`Side::may_read`].
    pub(super) fn may_read(&self, sides: &Slab<Side>, shared: &Shared) -> bool {
        self.end.is_none()
            && match self.phase {
                Phase::Login { .. } => true,
                Phase::Full { side, connection } => sides[side].may_read(connection, shared),
            }
    }

    /// Where the requests of its session are followed, if anywhere.
    fn trail<'a>(&self, sides: &'a mut Slab<Side>) -> Option<&'a mut Trail> {
        match self.phase {
            Phase::Full { side, .. } => sides[side].trail.as_mut(),
            Phase::Login { .. } => None,
        }
    }

    /// It belongs to a session from now on.
    pub(super) fn joined(&mut self, side: usize, connection: ConnectionId, candidate: &Candidate) {
        self.name = format!("{} ({})", candidate.initiator_name, self.peer);
        self.cid = candidate.cid;
        self.phase = Phase::Full { side, connection };
        self.joining = None;
    }
}

/// One connection.
pub(super) struct Client {
    connection: Connection<Place, Payload>,
    pub(super) link: Link,
    readable: bool,
    is_reading: bool,
    is_broken: bool,
    /// It is in the list of clients with something to do.
    pub(super) is_dirty: bool,
    seen_bytes: u64,
    /// There has been a lot to send. And it has not been looked at since.
    had_bulk: bool,
    wants_look: bool,
    /// That was seen, and nothing of it yet: what had been acknowledged by then, all there is before it was seen.
    beginning: Option<u64>,
    /// Something was under way at the last look, and how soon the policy wanted the next.
    is_under_way: bool,
    look_again: Duration,
    alive: Alive,
    /// Memory of what its peer has not finished or not read, as it was counted last.
    unread: Unread,
    /// Its place among the slots.
    pub(super) ticket: Option<Ticket>,
}

impl Client {
    pub(super) fn new(
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
    pub(super) fn join_stamped_writes(&mut self) {
        self.connection.join_stamped_writes();
    }

    /// Its session, and its place there.
    pub(super) fn place(&self) -> Option<(usize, ConnectionId)> {
        match self.link.phase {
            Phase::Full { side, connection } => Some((side, connection)),
            Phase::Login { .. } => None,
        }
    }

    /// The handle of the new session that its login is about to become.
    pub(super) fn next_tsih(&self) -> Option<u16> {
        match &self.link.phase {
            Phase::Full { .. } => None,
            Phase::Login { login, .. } => {
                login.outcome().filter(|admitted| !admitted.joins).map(|admitted| admitted.tsih)
            }
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.link.name
    }

    pub(super) fn mark(&mut self, ready: Ready, now: Instant) {
        let ready = self.connection.ready(ready);
        if ready.readable {
            self.alive.heard(now);
        }
        self.readable |= ready.readable;
        // A connection that is not read is still told of when it breaks, and only then.
        if ready.readable && !self.is_reading {
            self.is_broken = true;
        }
    }

    pub(super) fn awaits_login(&self) -> bool {
        matches!(self.link.phase, Phase::Login { .. })
    }

    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self.link.phase, Phase::Login { deadline, .. } if now >= deadline)
    }

    /// Enters the list of clients with something to do.
    pub(super) fn become_dirty(&mut self, list: &mut Vec<usize>) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            list.push(self.link.index);
        }
    }

    /// See [`Side::may_read`].
    pub(super) fn may_read(&self, sides: &Slab<Side>, shared: &Shared) -> bool {
        self.link.may_read(sides, shared)
    }

    /// Whether it has stopped reading for want of buffers.
    pub(super) fn is_paused(&self) -> bool {
        !self.is_reading
    }

    /// How long its turns are from now on.
    pub(super) fn set_quantum(&mut self, quantum: Quantum) {
        self.connection.set_quantum(quantum);
    }

    /// Returns true while others come first, since its session's requests have cost so much time.
    pub(super) fn rests(&self, now: Instant, sides: &Slab<Side>) -> bool {
        self.place().is_some_and(|(side, _)| sides[side].debt.rests(now))
    }

    /// Memory of what its peer has not finished or not read.
    pub(super) fn unread(&self) -> Unread {
        self.unread
    }

    fn count_unread(&mut self, sides: &Slab<Side>, shared: &mut Shared) {
        let own_bytes = self.connection.held_bytes();
        let unread = match &self.link.phase {
            Phase::Login { login, .. } => Unread::Login(own_bytes + login.held_bytes()),
            Phase::Full { side, connection } => {
                Unread::Answers(own_bytes + sides[*side].session.made_bytes(*connection))
            }
        };
        if unread != self.unread {
            shared.unread.change(self.link.peer.ip().into(), self.unread, unread);
            self.unread = unread;
        }
    }

    /// Reads, runs and sends what there is.
    pub(super) fn turn(
        &mut self,
        poll: &Poll,
        sides: &mut Slab<Side>,
        shared: &mut Shared,
    ) -> Result<Progress, End> {
        let result = self.read_and_send(poll, sides, shared);
        self.count_unread(sides, shared);
        result
    }

    fn read_and_send(
        &mut self,
        poll: &Poll,
        sides: &mut Slab<Side>,
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
            // What goes out before the policy has seen it goes out unsteered.
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
                shared.slots.log_in(self.link.peer.ip(), ticket);
            }
            // The last response of the login is the last PDU without digests, and nothing follows it
            // before the initiator has asked for something.
            let is_on = |digest| digest == Digest::Crc32c;
            let params = sides[side].session.params_of(connection);
            let (header, data) = (params.header_digest, params.data_digest);
            self.connection.set_digests(Digests { header: is_on(header), data: is_on(data) });
            if let Some(tracer) = &shared.tracer {
                let agreed = sides[side].recorded(connection);
                if let Ok(row) = self.connection.login(clock::now(), agreed) {
                    tracer.login(&row);
                }
                if tracer.sampling().pdus > 0 {
                    // Without the kernel's times the others are good all the same.
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
        // Asked last: what was sent has made room.
        self.is_reading = self.link.may_read(sides, shared);
        self.connection.set_reading(poll, self.is_reading).map_err(End::Io)?;
        Ok(if self.is_reading || sent == Progress::More { progress } else { Progress::Waits })
    }

    /// Payload that waits to be polled.
    fn unsent_bytes(&self, sides: &Slab<Side>) -> u64 {
        self.place().map_or(0, |(side, connection)| sides[side].session.unsent_payload_bytes(connection))
    }

    /// When it has something to send again although nothing has happened.
    pub(super) fn resume_at(&self) -> Option<Instant> {
        self.connection.resume_at()
    }

    /// Whether its session has something to send on it.
    pub(super) fn has_to_send(&self, sides: &Slab<Side>) -> bool {
        self.place().is_some_and(|(side, connection)| sides[side].session.wants_transmit(connection))
    }

    /// Whether it has to be looked at before anything else is sent; once.
    pub(super) fn take_wants_look(&mut self) -> bool {
        std::mem::take(&mut self.wants_look)
    }

    /// How soon to look at it after it has been at rest.
    pub(super) fn look_again(&self) -> Duration {
        self.look_again
    }

    /// What it claims of the line.
    pub(super) fn claim(&self) -> Option<Claim> {
        self.connection.claim()
    }

    /// What it shows of the device that takes its blocks.
    pub(super) fn met(&self) -> Option<Met> {
        self.connection.met()
    }

    /// What its initiator claims of the line by what it sends.
    pub(super) fn claim_of_peer(&self) -> Option<Claim> {
        self.connection.claim_of_peer()
    }

    /// The last train of its data.
    pub(super) fn arrived(&self) -> Option<Arrived> {
        self.connection.arrived()
    }

    /// Tells its initiator, so far away, what is new of its window, or what the initiator is left of the line.
    pub(super) fn tell(&mut self, now: Instant, rtt: Duration, part: Granted, sides: &mut Slab<Side>) {
        let window = self.connection.take_notice();
        if let Some((side, connection)) = self.place() {
            sides[side].tell(connection, now, rtt, window, part);
        }
    }

    /// What it is left of the line.
    pub(super) fn grant(&mut self, bytes_per_s: Option<u64>) {
        self.connection.grant(bytes_per_s);
    }

    /// The row of the table for a connection that has moved data since the last look, and how soon to look
    /// again; the policy has seen it, and whether others move data too, and its decisions are in force, with a command window
    /// of at most `most`. One that has not moved any gives memory back.
    pub(super) fn sample(
        &mut self,
        now: Instant,
        sides: &mut Slab<Side>,
        most: u32,
        has_company: bool,
    ) -> io::Result<Option<(SocketSample, Duration)>> {
        let Some((side, connection)) = self.place() else { return Ok(None) };
        let side = &mut sides[side];
        let moved = self.connection.received_payload_bytes() + self.connection.sent_payload_bytes();
        // What is under way tells of the path until it has arrived, and what is sent counts as moved when a PDU is out, which
        // takes a new window some round trips, and for ever where large packets do not get through. Who sends to us claims its
        // part for a while, although nothing comes.
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
        side.set_window(connection, decision.command_window, most);
        // One that is paced so slowly that all of it has arrived between two packets must not stay so for want of a look.
        self.is_under_way = sample.unacked_packets > 0 || sample.notsent_bytes > 0 || sample.unsent_bytes > 0;
        self.look_again = decision.look_again;
        // On a short path all of it may have arrived between two looks.
        self.beginning = self
            .beginning
            .map(|acked_bytes| acked_bytes.min(sample.acked_bytes))
            .filter(|&acked_bytes| !self.is_under_way && sample.acked_bytes == acked_bytes);
        sample.command_window = side.session.command_window();
        Ok(Some((sample, decision.look_again)))
    }

    /// The row of the table for the end of a connection that has moved data.
    pub(super) fn last_sample(&self, now: Instant) -> Option<SocketSample> {
        let sample = self.connection.sample(now, Host::Far).ok()?;
        (sample.app_rx_bytes + sample.app_tx_bytes > 0).then_some(sample)
    }

    /// Whether anything that it has to send lies in the memory of a LUN.
    pub(super) fn sends_from(&self, number: u16) -> bool {
        let is_sent =
            |data: &Payload| matches!(data, Payload::Memory { lun, .. } if lun.number() == Some(number));
        self.connection.unsent_data().any(is_sent)
    }

    /// Whether its peer is still there, as far as that can be said; one that is worth it is pinged. A discovery
    /// session is not: it has no pings (RFC 7143 section 4.3), and ends when it asks nothing for a while.
    pub(super) fn judge(&mut self, now: Instant, sides: &mut Slab<Side>) -> Verdict {
        let Some((side, connection)) = self.place() else { return Verdict::Fine };
        let side = &mut sides[side];
        if side.iqn.is_none() {
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

    /// TCP_INFO of its connection, if the kernel tells.
    pub(super) fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info::read(self.connection.stream()).ok()
    }

    /// Asks its initiator to log out.
    pub(super) fn request_logout(&mut self, within_s: u16, sides: &mut Slab<Side>) {
        if let Some((side, connection)) = self.place()
            && sides[side].iqn.is_some()
        {
            sides[side].session.request_logout(connection, within_s);
        }
    }

    /// Whether it has nothing under way, and has not been told to go.
    pub(super) fn is_quiet(&self, sides: &Slab<Side>) -> bool {
        let Some((side, connection)) = self.place() else { return false };
        let session = &sides[side].session;
        self.link.end.is_none() && session.open_commands() == 0 && !session.wants_transmit(connection)
    }

    /// Ends it as soon as what waits to be sent is sent.
    pub(super) fn end_with(&mut self, end: End) {
        self.link.end = Some(end);
    }
}

#[cfg(test)]
mod tests;
