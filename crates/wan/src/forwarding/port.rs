//! Devices of the sending hosts of a direction, each read no faster than its card's wire.
//!
//! With `--ring` a device is read only at the rate of a network card with the line's rate: the backlog waits in the
//! TUN's queue, which drops on overflow. A card does not wait for a reader: after an interval without a poll, the
//! packets that it would have sent are read at once (and `relief.rs` reads on in a long one). Before a veth pair a
//! queue of the kernel does that; the backlog between it and the emulator waits as well, so that the line sees no
//! burst after a time in which the emulator had no processor. Every host has its own card; behind a switch several
//! cards together may be faster than the line, whose queue then fills.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use event::Instant;
use net::{Events, Interest, Poll, clock};

use super::relief::{Rings, Taken};
use super::ring::Ring;
use super::watch::Watch;
use crate::Spec;
use crate::namespaces::{Device, Host};

/// The device of a sending host.
pub(crate) struct Port {
    pub(crate) host: Arc<Host>,
    pub(crate) watch: Watch,
}

/// All ports of a direction, with a descriptor that is readable when an open one has input.
pub(crate) struct Ports {
    all: Vec<Port>,
    /// Not needed for a single one.
    poll: Option<Poll>,
    /// Ports in the interest set of `poll`.
    watched: Vec<bool>,
    events: Events,
    /// Ports with input: always the one, if there is one.
    found: Vec<usize>,
    rings: Option<Arc<Rings>>,
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
        let all =
            hosts.iter().map(|host| Port { host: host.clone(), watch: Watch::new(clock::now()) }).collect();
        let rings = spec.ring_packets.map(|packets| {
            let rate = |host: &Arc<Host>| spec.line(host.name.side()).shape.rate;
            let ring = |host| Ring::new(rate(host), packets, spec.packet_bytes());
            Arc::new(Rings::new(hosts.to_vec(), hosts.iter().map(ring).collect()))
        });
        Ok(Ports {
            all,
            poll,
            watched: vec![true; hosts.len()],
            events: Events::new(),
            found: vec![0],
            rings,
        })
    }

    /// The rings, if the devices are TUNs: those of veth pairs are emptied by the kernel.
    pub(crate) fn rings(&self) -> Option<&Arc<Rings>> {
        self.rings.as_ref().filter(|_| matches!(self.all[0].host.device, Device::Tun(_)))
    }

    /// True if the ring of host `at` is closed. `line_through` is the end of the line's work, if it has no other
    /// host's packets.
    pub(crate) fn is_closed(&mut self, at: usize, now: Instant, line_through: Option<Instant>) -> bool {
        let Some(rings) = &self.rings else { return false };
        let ring = &mut rings.hold().rings[at];
        let is_closed = ring.is_closed(now, line_through);
        if is_closed {
            self.all[at].watch.looked_until(ring.wants_at());
        }
        is_closed
    }

    /// Accounts for a packet of host `at`, read at `now`, of `wire_bytes` on its card's wire; returns the time since
    /// the last poll.
    pub(crate) fn takes(&self, at: usize, now: Instant, wire_bytes: u64) -> u64 {
        let unseen_ns = self.all[at].watch.unseen_ns();
        if let Some(rings) = &self.rings {
            rings.hold().rings[at].takes(now - Duration::from_nanos(unseen_ns), wire_bytes);
        }
        unseen_ns
    }

    /// True if packets that the relief thread took from a ring wait.
    pub(crate) fn has_buffered(&self) -> bool {
        self.rings.as_ref().is_some_and(|rings| rings.has_buffered())
    }

    /// The next of these packets, copied into `room`, with its length.
    pub(crate) fn take_buffered(&mut self, room: &mut [u8]) -> Option<(Taken, usize)> {
        let (taken, bytes) = self.rings.as_ref()?.take(room)?;
        self.all[taken.from].watch.looked_until(taken.at);
        Some((taken, bytes))
    }

    /// Reads one packet of host `at` into `room`, unless older ones wait in the relief buffer.
    pub(crate) fn read(&self, at: usize, room: &mut [u8]) -> io::Result<Option<usize>> {
        let held = self.rings.as_ref().map(|rings| (rings.hold(), rings.has_buffered()));
        if held.as_ref().is_some_and(|(_, has_buffered)| *has_buffered) {
            return Ok(None);
        }
        self.all[at].host.device.read(room)
    }

    /// True if devices are read no faster than their wires.
    pub(crate) fn has_rings(&self) -> bool {
        self.rings.is_some()
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

    /// Time at which the first closed ring is to be read again.
    pub(crate) fn resumes_at(&self) -> Option<Instant> {
        self.rings.as_ref()?.hold().rings.iter().filter_map(Ring::resumes_at).min()
    }

    /// Readable when a packet arrives; `None` while the only ring is closed.
    pub(crate) fn input(&self) -> Option<BorrowedFd<'_>> {
        match &self.poll {
            Some(poll) => Some(poll.as_fd()),
            None => self.resumes_at().is_none().then(|| self.all[0].host.device.as_fd()),
        }
    }

    /// Polls for ports with input that are open. With several hosts most are idle most of the time; reading each of
    /// eight to find that out took a tenth of the thread's time.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        if self.poll.is_none() {
            return Ok(());
        }
        let now = clock::now();
        for at in 0..self.all.len() {
            let open = !self.is_closed(at, now, None);
            self.look_at(at, open)?;
        }
        if let Some(poll) = &self.poll {
            poll.wait(&mut self.events, Some(Duration::ZERO))?;
        }
        self.found.clear();
        self.found.extend(self.events.iter().map(|ready| ready.token as usize));
        for at in (0..self.all.len()).filter(|at| self.watched[*at] && !self.found.contains(at)) {
            self.all[at].watch.look(now);
            self.all[at].watch.found_nothing();
        }
        Ok(())
    }

    /// Port number `index` of those that the last poll found.
    pub(crate) fn found(&self, index: usize) -> Option<usize> {
        self.found.get(index).copied()
    }

    /// Sets whether `at` is in the interest set.
    fn look_at(&mut self, at: usize, open: bool) -> io::Result<()> {
        if let Some(poll) = &self.poll
            && self.watched[at] != open
        {
            let interest = if open { Interest::READ } else { Interest { readable: false, writable: false } };
            poll.modify(self.all[at].host.device.as_fd(), at as u64, interest)?;
            self.watched[at] = open;
        }
        Ok(())
    }

    /// Records that the inputs were watched until `t`.
    pub(crate) fn looked_until(&mut self, t: Instant) {
        self.all.iter_mut().for_each(|port| port.watch.looked_until(t));
    }
}
