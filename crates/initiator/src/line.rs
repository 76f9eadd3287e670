//! One connection of a session at work: its socket, what is known of it, and when it is to be looked at.

use std::time::Duration;

use engine::{BlackHole, Connection, Progress, SAMPLE_EVERY, Scratch, Span, Stop};
use event::{Host, Instant, SocketSample};
use net::{Poll, Ready, tcp_info};

use crate::error::Error;
use crate::pulse::{Pulse, Verdict};
use crate::request::Body;
use crate::side::{AtPort, Payload, Place, Port, Side};
use crate::watch::is_flushing;

/// Acknowledged bytes that show that a target takes what it is sent; a ping and its like are fewer.
const TAKEN_BYTES: u64 = 4096;
/// Data of an answer that come in large packets.
const LARGE_BYTES: usize = 1_220;

/// A connection.
pub(crate) struct Line {
    pub(crate) connection: Connection<Place, Payload>,
    pub(crate) port: Port,
    readable: bool,
    next_sample: Instant,
    /// Whether its host had acknowledged all that was under way, at the last look.
    is_acked: bool,
    /// What it had acknowledged when that was last taken for a sign of life.
    taken_bytes: u64,
    /// Of the last look.
    rtt: Duration,
    rtt_var: Duration,
    min_rtt: Option<Duration>,
}

impl Line {
    pub(crate) fn new(connection: Connection<Place, Payload>, cid: u16, now: Instant) -> Line {
        Line {
            connection,
            port: Port { cid, pulse: Pulse::new(now), pdu: None, span: Span::default() },
            // What followed the last response of the login has been read already.
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

    /// Smoothed round-trip time and its mean deviation at the last look; `None` before the first one.
    pub(crate) fn rtt(&self) -> Option<(Duration, Duration)> {
        (self.rtt > Duration::ZERO).then_some((self.rtt, self.rtt_var))
    }

    /// Smallest round-trip time at the last look.
    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// Payload that has come in.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.connection.received_payload_bytes()
    }

    /// What the other end's TCP had acknowledged at the last look.
    pub(crate) fn acked_bytes(&self) -> u64 {
        self.connection.acked_bytes()
    }

    /// When to come back at the latest.
    pub(crate) fn next_at(&self) -> Instant {
        self.connection.resume_at().map_or(self.next_sample, |at| at.min(self.next_sample))
    }

    pub(crate) fn receive(&mut self, side: &mut Side, scratch: &mut Scratch) -> Result<Progress, Error> {
        if let Some(trail) = &mut side.trail {
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

    pub(crate) fn send(&mut self, side: &mut Side, poll: &Poll) -> Result<Progress, Error> {
        let address = side.address;
        let failed = |source| Error::Socket { address, source };
        let unsent_bytes = side.session.unsent_payload_bytes(self.port.cid);
        let sent = self.connection.send(poll, &mut AtPort { side, port: &mut self.port }, unsent_bytes);
        let sent = sent.map_err(failed)?;
        if let Some(trail) = &mut side.trail {
            self.connection.departed().for_each(|departed| trail.departed(&departed));
        }
        // A target that asks and never listens must not fill our memory with answers.
        let is_reading = !side.session.is_backed_up(self.port.cid);
        self.connection.set_reading(poll, is_reading).map_err(failed)?;
        // What was sent may have made room for what is there to be read.
        Ok(if is_reading && self.readable { Progress::More } else { sent })
    }

    /// Shows the policy what the kernel says of the connection, and whether the session has others.
    pub(crate) fn look(
        &mut self,
        side: &mut Side,
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
        // A large request takes its time on a slow path; what arrives there is a sign of life, however slowly it does.
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

    /// A target that says nothing is asked for a sign, and counts as dead in the end.
    pub(crate) fn check_alive(&mut self, side: &mut Side, now: Instant) -> Result<(), Error> {
        // Its host is there: what was sent, which is the ping as well if there is room for it, is acknowledged.
        let is_at_work = self.is_acked && is_flushing(&side.open);
        match self.port.pulse.check(now, side.timeout, is_at_work) {
            Verdict::Alive => Ok(()),
            Verdict::Ask => {
                side.session.ping(self.port.cid);
                Ok(())
            }
            // Unlike one whose host is gone, it would be as silent in another session.
            Verdict::Dead(after) if is_at_work => Err(Error::Stuck { address: side.address, after }),
            Verdict::Dead(after) => {
                Err(Error::Silent { address: side.address, after, hole: self.black_hole(side) })
            }
        }
    }

    /// Path MTU black hole that may be why the target says nothing; loopback has none.
    pub(crate) fn black_hole(&self, side: &Side) -> Option<BlackHole> {
        let awaits_large = side.question.is_some()
            || side.open.iter().any(
                |(_, open)| matches!(&open.request.body, Body::Read(buffer) if buffer.len() >= LARGE_BYTES),
            );
        let is_possible = !side.address.ip().is_loopback();
        let info = is_possible.then(|| tcp_info::read(self.connection.stream()).ok())??;
        let received = || awaits_large.then(|| BlackHole::of_received(&info)).flatten();
        BlackHole::of_sent_at_last(&info).or_else(received)
    }
}
