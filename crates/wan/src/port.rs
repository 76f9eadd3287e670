//! Where a lane reads: the device of one sending host, as fast as its wire takes packets, and the devices of several.
//!
//! With `--ring` a device is read only as fast as a network card of the line's rate would send: what waits then waits in
//! a TUN, which drops what it has no room for. Before a veth pair a queue of the kernel's does that; what lies between
//! it and us waits as well, so that no time of ours without a processor looks like a burst to the line. Every host has
//! its own card; behind a switch several cards together may be faster than the line, whose queue then fills.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use event::{BitRate, Instant};
use net::{Interest, Poll, clock};

use crate::Spec;
use crate::host::Host;
use crate::watch::Watch;

/// Packets that are taken out of a device's ring before its wire has room for them, so that the thread need not wake for
/// each; the ring itself is that much shorter.
pub(crate) const READ_AHEAD_PACKETS: u32 = 16;

/// The device of a sending host.
pub(crate) struct Port {
    pub(crate) host: Arc<Host>,
    pub(crate) watch: Watch,
    ring: Option<Ring>,
}

/// The host's card.
struct Ring {
    rate: BitRate,
    ahead: Duration,
    /// When the card's wire is through with what was taken so far.
    through: Instant,
    /// When to read again.
    resume: Option<Instant>,
}

/// All ports of a lane, and a descriptor that is readable when one of those that may be read is.
pub(crate) struct Ports {
    all: Vec<Port>,
    /// Not needed for a single one.
    poll: Option<Poll>,
    /// Those that `poll` looks at.
    watched: Vec<bool>,
}

impl Port {
    fn new(host: Arc<Host>, spec: &Spec) -> Port {
        let rate = spec.line(host.name.side()).shape.rate;
        let ring = spec.ring_packets.map(|_| Ring {
            rate,
            ahead: rate.time_for(u64::from(READ_AHEAD_PACKETS) * spec.packet_bytes()),
            through: Instant::ZERO,
            resume: None,
        });
        Port { host, watch: Watch::new(clock::now()), ring }
    }

    /// Whether the ring must wait. `line_through` is when the line is through with what it has, if no other host's
    /// packets are among that.
    pub(crate) fn is_closed(&mut self, now: Instant, line_through: Option<Instant>) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        if ring.is_closed(now, line_through) {
            self.watch.looked_until(ring.wants_at());
            return true;
        }
        false
    }

    /// A packet was read that takes `wire_bytes` on the card's wire.
    pub(crate) fn takes(&mut self, now: Instant, wire_bytes: u64) {
        if let Some(ring) = &mut self.ring {
            ring.through = ring.through.max(now) + ring.rate.time_for(wire_bytes);
        }
    }

    fn resumes_at(&self) -> Option<Instant> {
        self.ring.as_ref().and_then(|ring| ring.resume)
    }
}

impl Ring {
    /// When the wire has nothing left to do, if nobody reads before that.
    fn wants_at(&self) -> Instant {
        self.resume.map_or(Instant::ZERO, |resume| resume + self.ahead / 2)
    }

    /// Whether the wire has so much before it that the ring must wait.
    fn is_closed(&mut self, now: Instant, line_through: Option<Instant>) -> bool {
        if self.resume.is_some_and(|resume| now < resume) {
            return true;
        }
        let through = line_through.unwrap_or(self.through);
        // The ring opens again when half of that is gone.
        self.resume = (through.since(now) >= self.ahead).then(|| through - self.ahead / 2);
        self.resume.is_some()
    }
}

impl Ports {
    /// The ports of these hosts.
    pub(crate) fn new(hosts: &[Arc<Host>], spec: &Spec) -> io::Result<Ports> {
        let poll = (hosts.len() > 1).then(Poll::new).transpose()?;
        if let Some(poll) = &poll {
            for (at, host) in hosts.iter().enumerate() {
                poll.add(host.device.as_fd(), at as u64, Interest::READ)?;
            }
        }
        let all = hosts.iter().map(|host| Port::new(host.clone(), spec)).collect();
        Ok(Ports { all, poll, watched: vec![true; hosts.len()] })
    }

    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn host(&self, at: usize) -> &Host {
        &self.all[at].host
    }

    pub(crate) fn port(&mut self, at: usize) -> &mut Port {
        &mut self.all[at]
    }

    /// When the first ring that waits is to be read again.
    pub(crate) fn resumes_at(&self) -> Option<Instant> {
        self.all.iter().filter_map(Port::resumes_at).min()
    }

    /// Where packets come in, unless none is wanted now.
    pub(crate) fn input(&self) -> Option<BorrowedFd<'_>> {
        match &self.poll {
            Some(poll) => Some(poll.as_fd()),
            None => self.resumes_at().is_none().then(|| self.all[0].host.device.as_fd()),
        }
    }

    /// Looks only at ports that may be read; to be called when `at` was found open or closed.
    pub(crate) fn look_at(&mut self, at: usize, open: bool) -> io::Result<()> {
        if let Some(poll) = &self.poll
            && self.watched[at] != open
        {
            let interest = if open { Interest::READ } else { Interest { readable: false, writable: false } };
            poll.modify(self.all[at].host.device.as_fd(), at as u64, interest)?;
            self.watched[at] = open;
        }
        Ok(())
    }

    /// Whoever sleeps looked at the inputs until `t`.
    pub(crate) fn looked_until(&mut self, t: Instant) {
        self.all.iter_mut().for_each(|port| port.watch.looked_until(t));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_read_at_the_rate_of_its_wire() {
        let rate = BitRate(1_000_000_000);
        let ahead = rate.time_for(16 * 1538);
        let mut ring = Ring { rate, ahead, through: Instant::ZERO, resume: None };
        let mut now = Instant::from_nanos(1_000_000);
        let (mut taken, began) = (0u32, now);
        while taken < 10_000 {
            if ring.is_closed(now, None) {
                now = ring.resume.expect("it says when it opens");
                continue;
            }
            ring.through = ring.through.max(now) + rate.time_for(1538);
            taken += 1;
        }
        let wire = rate.time_for(1538 * 10_000);
        assert!(
            now.since(began) <= wire && wire - now.since(began) <= ahead,
            "{:?} of {wire:?}",
            now.since(began)
        );
    }

    #[test]
    fn a_line_that_is_the_hosts_alone_is_its_wire() {
        let rate = BitRate(1_000_000_000);
        let ahead = rate.time_for(16 * 1538);
        let mut ring = Ring { rate, ahead, through: Instant::ZERO, resume: None };
        let now = Instant::from_nanos(1_000_000);
        assert!(!ring.is_closed(now, Some(now)), "an idle line");
        assert!(ring.is_closed(now, Some(now + ahead)), "a line that has enough");
        assert!(ring.is_closed(now + ahead / 4, Some(now)), "it stays so for a while");
        assert!(!ring.is_closed(now + ahead / 2, Some(now + ahead)));
    }
}
