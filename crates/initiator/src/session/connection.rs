//! One connection of a session: its socket, its statistics, and the time of its next sample.

use std::time::Duration;

use engine::{BlackHole, Connection, Progress, SAMPLE_EVERY, Scratch, Span, Stop};
use event::{Host, Instant, SocketSample};
use net::{Poll, Ready, tcp_info};

use crate::error::Error;
use crate::request::Body;
use crate::session::command_timeout::is_flushing;
use crate::session::dead_peer::{Pulse, Verdict};
use crate::session::payload::{Payload, Place};
use crate::session::pdu_exchange::{AtPort, Port};
use crate::session::state::SessionState;

/// Acknowledged bytes that prove that a target reads; a ping and similar PDUs are shorter.
const TAKEN_BYTES: u64 = 4096;
/// Minimum length of response data that arrive in large packets.
const LARGE_BYTES: usize = 1_220;

/// A connection of a session.
pub(crate) struct Line {
    pub(crate) connection: Connection<Place, Payload>,
    pub(crate) port: Port,
    readable: bool,
    next_sample: Instant,
    /// The peer's TCP had acknowledged all sent data at the last sample.
    is_acked: bool,
    /// Acknowledged bytes at the time when they were last taken for a sign of life.
    taken_bytes: u64,
    /// Smoothed round-trip time at the last sample.
    rtt: Duration,
    rtt_var: Duration,
    min_rtt: Option<Duration>,
}

impl Line {
    pub(crate) fn new(connection: Connection<Place, Payload>, cid: u16, now: Instant) -> Line {
        Line {
            connection,
            port: Port { cid, pulse: Pulse::new(now), pdu: None, span: Span::default() },
            // Data after the last login response may have been read already.
            readable: true,
            next_sample: now,
            is_acked: true,
            taken_bytes: 0,
            rtt: Duration::ZERO,
            rtt_var: Duration::ZERO,
            min_rtt: None,
        }
    }

    pub(crate) fn ready(&mut self, ready: Ready) {
        self.readable |= self.connection.ready(ready).readable;
    }

    pub(crate) fn next_sample(&self) -> Instant {
        self.next_sample
    }

    /// Smoothed round-trip time and its mean deviation at the last sample; `None` before the first sample.
    pub(crate) fn rtt(&self) -> Option<(Duration, Duration)> {
        (self.rtt > Duration::ZERO).then_some((self.rtt, self.rtt_var))
    }

    /// Smallest round-trip time at the last sample.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// Received payload in bytes.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.connection.received_payload_bytes()
    }

    /// Bytes that the peer's TCP had acknowledged at the last sample.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.connection.acked_bytes()
    }

    /// Latest time of the next turn.
    pub(crate) fn next_at(&self) -> Instant {
        self.connection.resume_at().map_or(self.next_sample, |at| at.min(self.next_sample))
    }

    pub(crate) fn receive(
        &mut self,
        side: &mut SessionState,
        scratch: &mut Scratch,
    ) -> Result<Progress, Error> {
        if let Some(trail) = &mut side.records.trail {
            self.connection.stamped().for_each(|stamped| trail.stamped(&stamped));
        }
        if !self.readable || side.session.is_backed_up(self.port.cid) {
            return Ok(Progress::Waits);
        }
        let address = side.address;
        let received = self.connection.receive(scratch, &mut AtPort { side, port: &mut self.port });
        let progress = received.map_err(|stop| match stop {
            Stop::Closed => Error::Closed { address, when: "before everything was done" },
            Stop::Io(source) => Error::Socket { address, source },
            Stop::Refused(error) => error,
        })?;
        self.readable = progress == Progress::More;
        Ok(progress)
    }

    pub(crate) fn send(&mut self, side: &mut SessionState, poll: &Poll) -> Result<Progress, Error> {
        let address = side.address;
        let failed = |source| Error::Socket { address, source };
        let unsent_bytes = side.session.unsent_payload_bytes(self.port.cid);
        let sent = self.connection.send(poll, &mut AtPort { side, port: &mut self.port }, unsent_bytes);
        let sent = sent.map_err(failed)?;
        if let Some(trail) = &mut side.records.trail {
            self.connection.departed().for_each(|departed| trail.departed(&departed));
        }
        // A target that sends requests but reads no responses must not fill the memory.
        let is_reading = !side.session.is_backed_up(self.port.cid);
        self.connection.set_reading(poll, is_reading).map_err(failed)?;
        // Sending may have made room to read further data.
        Ok(if is_reading && self.readable { Progress::More } else { sent })
    }

    /// Passes the kernel's statistics to the policy, with the fact of other connections in the session.
    pub(crate) fn look(
        &mut self,
        side: &mut SessionState,
        now: Instant,
        request_bytes: u64,
        has_company: bool,
    ) -> Result<SocketSample, Error> {
        let address = side.address;
        let failed = |source| Error::Socket { address, source };
        let unsent_bytes = side.session.unsent_payload_bytes(self.port.cid);
        let looked = self.connection.look(now, Host::Near, unsent_bytes, request_bytes, has_company);
        let (mut sample, decision) = looked.map_err(failed)?;
        if let Some(hole) = self.connection.take_black_hole() {
            return Err(Error::LargePackets { address, hole });
        }
        sample.command_window = side.session.command_window();
        // A large request takes long on a slow path; acknowledged data are a sign of life at any rate.
        if self.connection.acked_bytes() >= self.taken_bytes + TAKEN_BYTES {
            self.taken_bytes = self.connection.acked_bytes();
            self.port.pulse.hear(now);
            side.watch.progress(self.port.cid, now);
        }
        self.is_acked = sample.unacked_packets == 0;
        self.rtt = Duration::from_nanos(sample.rtt_ns);
        self.rtt_var = Duration::from_nanos(sample.rtt_var_ns);
        self.min_rtt = Some(Duration::from_nanos(sample.min_rtt_ns)).filter(|rtt| !rtt.is_zero());
        self.port.pulse.set_rtt(self.rtt);
        self.next_sample = now + decision.look_again.min(SAMPLE_EVERY);
        Ok(sample)
    }

    /// Pings a silent target, and returns an error when it must be regarded as dead.
    pub(crate) fn check_alive(&mut self, side: &mut SessionState, now: Instant) -> Result<(), Error> {
        // The host is alive: sent data, including the ping if the window has room, are acknowledged.
        let is_at_work = self.is_acked && is_flushing(&side.requests.open);
        match self.port.pulse.check(now, side.timeout, is_at_work) {
            Verdict::Alive => Ok(()),
            Verdict::Ask => {
                side.session.ping(self.port.cid);
                Ok(())
            }
            // Unlike a target with a dead host, this one would be silent in another session too.
            Verdict::Dead(after) if is_at_work => Err(Error::Stuck { address: side.address, after }),
            Verdict::Dead(after) => {
                Err(Error::Silent { address: side.address, after, hole: self.black_hole(side) })
            }
        }
    }

    /// Path MTU black hole that may explain the silence; `None` on loopback.
    pub(crate) fn black_hole(&self, side: &SessionState) -> Option<BlackHole> {
        let awaits_large = side.text.request.is_some()
            || side.requests.open.iter().any(
                |(_, open)| matches!(&open.request.body, Body::Read(buffer) if buffer.len() >= LARGE_BYTES),
            );
        let is_possible = !side.address.ip().is_loopback();
        let info = is_possible.then(|| tcp_info::read(self.connection.stream()).ok())??;
        let received = || awaits_large.then(|| BlackHole::of_received(&info)).flatten();
        BlackHole::of_sent_at_last(&info).or_else(received)
    }
}
