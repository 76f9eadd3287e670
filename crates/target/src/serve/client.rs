//! One connection at the target: its socket, its turn in the loop, and what the policy makes of it.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use engine::{Connection, Digests, Progress, Quantum, Stop};
use event::{Host, Instant, SocketSample};
use net::{Poll, Ready, tcp_info};
use proto::login::{LoginPolicy, Target as Login};
use proto::params::Digest;
use slab::Slab;

use super::alive::{Alive, Verdict};
use super::end::End;
use super::exchange::Active;
use super::jobs::Done;
use super::manage::{Others, Reply};
use super::side::{Phase, Side};
use super::transfer::{Payload, Place};
use super::{LOGIN_TIMEOUT, Shared, log, with_scratch};
use crate::lun::Nexus;

/// One connection.
pub(super) struct Client {
    connection: Connection<Place, Payload>,
    side: Side,
    readable: bool,
    is_reading: bool,
    is_broken: bool,
    /// It is in the list of clients with something to do.
    pub(super) is_dirty: bool,
    seen_bytes: u64,
    alive: Alive,
}

impl Client {
    pub(super) fn new(
        stream: TcpStream,
        peer: SocketAddr,
        poll: &Poll,
        index: usize,
        nexus: Nexus,
        login: LoginPolicy,
        accepted: Instant,
    ) -> io::Result<Client> {
        let local = stream.local_addr()?;
        Ok(Client {
            connection: Connection::new(stream, poll, index as u64)?,
            side: Side {
                index,
                nexus,
                peer,
                local,
                name: peer.to_string(),
                phase: Phase::Login {
                    login: Box::new(Login::new(login)),
                    deadline: accepted + LOGIN_TIMEOUT,
                },
                transfers: Slab::new(),
                held_bytes: 0,
                filling: 0,
                window_max: u32::MAX,
                commands: 0,
                command_bytes: 0,
                pdu: None,
                landing: None,
                end: None,
            },
            readable: false,
            is_reading: true,
            is_broken: false,
            is_dirty: false,
            seen_bytes: 0,
            alive: Alive::new(accepted),
        })
    }

    pub(super) fn index(&self) -> usize {
        self.side.index
    }

    pub(super) fn nexus(&self) -> Nexus {
        self.side.nexus
    }

    /// The handle of its session, or of the one that its login is about to become.
    pub(super) fn tsih(&self) -> Option<u16> {
        match &self.side.phase {
            Phase::Full { tsih, .. } => Some(*tsih),
            Phase::Login { login, .. } => login.outcome().map(|admitted| admitted.tsih),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.side.name
    }

    pub(super) fn mark(&mut self, ready: Ready, now: Instant) {
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
        matches!(self.side.phase, Phase::Login { .. })
    }

    pub(super) fn is_overdue(&self, now: Instant) -> bool {
        matches!(self.side.phase, Phase::Login { deadline, .. } if now >= deadline)
    }

    /// Enters the list of clients with something to do.
    pub(super) fn become_dirty(&mut self, list: &mut Vec<usize>) {
        if !std::mem::replace(&mut self.is_dirty, true) {
            list.push(self.index());
        }
    }

    /// See [`Side::may_read`].
    pub(super) fn may_read(&self, shared: &Shared) -> bool {
        self.side.may_read(shared)
    }

    /// Whether it has stopped reading for want of buffers.
    pub(super) fn is_paused(&self) -> bool {
        !self.is_reading
    }

    /// How long its turns are from now on.
    pub(super) fn set_quantum(&mut self, quantum: Quantum) {
        self.connection.set_quantum(quantum);
    }

    /// Reads, runs and sends what there is.
    pub(super) fn turn(&mut self, poll: &Poll, shared: &mut Shared) -> Result<Progress, End> {
        if self.is_broken {
            return Err(End::Closed);
        }
        let mut progress = Progress::Waits;
        if self.readable && self.side.may_read(shared) {
            let mut receiver = Active { side: &mut self.side, shared };
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
        let mut sender = Active { side: &mut self.side, shared };
        let sent = self.connection.send(poll, &mut sender).map_err(End::Io)?;
        if let (true, Phase::Full { session, .. }) = (was_login, &self.side.phase) {
            // The last response of the login is the last PDU without digests, and nothing follows it
            // before the initiator has asked for something.
            let is_on = |digest| digest == Digest::Crc32c;
            let (header, data) = (session.params().header_digest, session.params().data_digest);
            self.connection.set_digests(Digests { header: is_on(header), data: is_on(data) });
        }
        if sent == Progress::More {
            progress = Progress::More;
        }
        if !self.connection.has_unsent()
            && sent == Progress::Waits
            && let Some(end) = self.side.end.take()
        {
            return Err(end);
        }
        // Asked last: what was sent has made room.
        self.is_reading = self.side.may_read(shared);
        self.connection.set_reading(poll, self.is_reading).map_err(End::Io)?;
        Ok(if self.is_reading || sent == Progress::More { progress } else { Progress::Waits })
    }

    /// See [`Side::end_tasks`].
    pub(super) fn end_tasks(&mut self, others: &Others, shared: &mut Shared) -> bool {
        self.side.end_tasks(others, shared)
    }

    /// See [`Side::finish_managing`].
    pub(super) fn finish_managing(&mut self, reply: Reply) {
        self.side.finish_managing(reply);
    }

    /// Goes on with a command whose store has answered.
    pub(super) fn finish_job(&mut self, done: Done, shared: &mut Shared) {
        self.side.finish_job(done, shared);
    }

    /// The row of the table for a connection that has moved data since the last look, and how soon to look
    /// again; the policy has seen it and its decisions are in force. One that has not gives memory back.
    pub(super) fn sample(&mut self, now: Instant) -> io::Result<Option<(SocketSample, Duration)>> {
        let moved = self.connection.received_payload_bytes() + self.connection.sent_payload_bytes();
        let side = &mut self.side;
        if moved == self.seen_bytes {
            if let (Phase::Full { session, .. }, true) = (&mut side.phase, side.transfers.is_empty()) {
                side.transfers.shrink_to_fit();
                session.rest();
                self.connection.rest();
            }
            return Ok(None);
        }
        self.seen_bytes = moved;
        let Phase::Full { session, .. } = &mut side.phase else { return Ok(None) };
        let request_bytes = side.command_bytes / side.commands.max(1);
        (side.commands, side.command_bytes) = (0, 0);
        let unsent_bytes = session.unsent_payload_bytes();
        let (sample, decision) = self.connection.look(now, Host::Far, unsent_bytes, request_bytes)?;
        session.set_command_window(decision.command_window.min(side.window_max));
        Ok(Some((sample, decision.look_again)))
    }

    /// The row of the table for the end of a connection that has moved data.
    pub(super) fn last_sample(&self, now: Instant) -> Option<SocketSample> {
        let sample = self.connection.sample(now, Host::Far).ok()?;
        (sample.app_rx_bytes + sample.app_tx_bytes > 0).then_some(sample)
    }

    /// Whether anything is under way on a LUN.
    pub(super) fn uses(&self, number: u16) -> bool {
        let is_sent =
            |data: &Payload| matches!(data, Payload::Memory { lun, .. } if lun.number() == Some(number));
        let mut transfers = self.side.transfers.iter();
        transfers.any(|(_, transfer)| transfer.lun.number() == Some(number))
            || self.connection.unsent_data().any(is_sent)
    }

    /// Whether its peer is still there, as far as that can be said; one that is worth it is pinged. A discovery
    /// session is not: it has no pings (RFC 7143 section 4.3), and TCP's probes have to do.
    pub(super) fn judge(&mut self, now: Instant) -> Verdict {
        let Phase::Full { session, iqn: Some(_), .. } = &mut self.side.phase else { return Verdict::Fine };
        if !self.is_reading {
            self.alive.heard(now);
        }
        if !self.alive.is_silent(now) {
            return Verdict::Fine;
        }
        let Ok(info) = tcp_info::read(self.connection.stream()) else { return Verdict::Gone };
        let verdict = self.alive.judge(now, info.rtt, info.acked_bytes);
        if verdict == Verdict::Ping {
            session.ping();
        }
        verdict
    }

    /// The round-trip time of its connection, zero if it is not known.
    pub(super) fn rtt(&self) -> Duration {
        tcp_info::read(self.connection.stream()).map_or(Duration::ZERO, |info| info.rtt)
    }

    /// Asks its initiator to log out.
    pub(super) fn request_logout(&mut self, within_s: u16) {
        if let Phase::Full { session, iqn: Some(_), .. } = &mut self.side.phase {
            session.request_logout(within_s);
        }
    }

    /// Whether it has nothing under way, and has not been told to go.
    pub(super) fn is_quiet(&self) -> bool {
        let Phase::Full { session, .. } = &self.side.phase else { return false };
        self.side.end.is_none() && session.open_commands() == 0 && !session.wants_transmit()
    }

    /// Ends it as soon as what waits to be sent is sent; its initiator is told.
    pub(super) fn end_with(&mut self, end: End) {
        if let Phase::Full { session, iqn: Some(_), .. } = &mut self.side.phase {
            session.announce_drop();
        }
        self.side.end = Some(end);
    }

    /// Takes the connection's traces out of what all share.
    pub(super) fn leave(&mut self, shared: &mut Shared) {
        if let Some(advice) = self.connection.advice() {
            log(format_args!("{}: {advice}", self.side.name));
        }
        shared.stats.received_bytes += self.connection.received_payload_bytes();
        shared.stats.sent_bytes += self.connection.sent_payload_bytes();
        self.side.leave_orphans(shared);
        match &self.side.phase {
            Phase::Full { tsih, .. } => {
                shared.sessions.close(*tsih);
                shared.luns.end(self.side.nexus);
                shared.open_sessions -= 1;
            }
            // Admitted, and closed before it was told.
            Phase::Login { login, .. } => {
                if let Some(admitted) = login.outcome() {
                    shared.sessions.close(admitted.tsih);
                }
            }
        }
    }
}
