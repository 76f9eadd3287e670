//! One direction: reads packets from the sending hosts' devices, gives them to the model, delivers those that are
//! due.
//!
//! If the path needs single packets, super-packets are segmented here: their bytes stay whole, the model gets the
//! segments, and each segment is written with headers of its own. Adjacent packets that are due together are written
//! together (`due.rs`); the table still has a row for each.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use event::{BitRate, Direction, Fate, Host as End, Instant, Packet, Tcp};
use link::{Cutter, Dice, Handle, Joint, Path, Stage, TCP_CHECKSUM, wire_bytes};
use net::clock;
use net::tun::{Cut, HEADER_BYTES, MAX_BYTES, Offload, PAYLOADS_MAX};
use wire::inet::{Headers, stays_on_link};

use super::due::{Due, Group, Member};
use super::headers::tcp_of;
use super::port::Ports;
use super::relief::Rings;
use super::switch::{Route, Switch};
use super::taps::Taps;
use crate::buffers::{Arena, payload_of};
use crate::namespaces::Host;
use crate::recording::Feed;
use crate::{Side, Spec};

/// Packets delivered or read before the other direction gets its turn.
const BATCH: usize = 16;
/// The same with rings, which fill during a delivery: its time is limited, and more packets are read. A thread that
/// is behind uses its whole turn each time, and 16 packets in it are fewer than a gigabit brings; a full wire closes
/// the ring earlier.
const RING_TURN: Duration = Duration::from_micros(100);
const RING_BATCH: usize = 64;

/// One direction of a running path.
pub(crate) struct Lane {
    direction: Direction,
    from: Ports,
    to: Vec<Arc<Host>>,
    switch: Switch,
    rate: BitRate,
    path: Path,
    arena: Arena,
    feed: Feed,
    segment: bool,
    due: Due,
    /// Longest delivery before the other direction gets its turn.
    turn: Duration,
    /// Last time at which due packets were taken from the model.
    polled_at: Instant,
    /// Segments of the last super-packet that the model took; a buffer that is reused.
    taken: Vec<u16>,
}

/// A packet that was just read, or a piece of one.
#[derive(Clone, Copy)]
struct Arrival {
    now: Instant,
    handle: Handle,
    from: u8,
    to: u8,
    unseen_ns: u64,
}

impl Lane {
    /// The direction from the hosts of one end to those of the other.
    pub(crate) fn new(
        direction: Direction,
        [from, to]: [&[Arc<Host>]; 2],
        spec: &Spec,
        feed: Feed,
    ) -> std::io::Result<Lane> {
        let side = side_of(direction);
        let line = spec.line(side);
        Ok(Lane {
            direction,
            from: Ports::new(from, spec)?,
            to: to.to_vec(),
            switch: Switch { side, here: from.len(), there: to.len() },
            rate: line.shape.rate,
            path: Path::of(line, Dice::new(spec.seed, direction as u64)),
            arena: Arena::new(line.memory_bytes()),
            feed,
            segment: spec.segment,
            due: Due::new(to.len()),
            turn: if spec.ring_packets.is_some() { RING_TURN } else { Duration::MAX },
            polled_at: Instant::ZERO,
            taken: Vec::new(),
        })
    }

    /// Sets the origin of schedules.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.path.begin(now);
    }

    /// Time at which the next packet is due, or an earlier instant at which to call again.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.path.next_at()
    }

    /// Time at which to read a ring again, if one is closed. Its wire has work until well after that.
    pub(crate) fn resumes_at(&self) -> Option<Instant> {
        self.from.resumes_at()
    }

    /// Readable when a packet arrives; `None` while rings are closed.
    pub(crate) fn input(&self) -> Option<BorrowedFd<'_>> {
        self.from.input()
    }

    /// Checks that all devices still exist: the error of one that was removed. For an input that was readable without
    /// a packet.
    pub(crate) fn check(&self) -> std::io::Result<()> {
        (0..self.from.count()).try_for_each(|at| self.from.host(at).device.check())
    }

    /// The rings of its sending hosts that this end empties, if their cards have some.
    pub(crate) fn rings(&self) -> Option<Arc<Rings>> {
        self.from.rings().cloned()
    }

    /// Records that the inputs were watched until `t`, as in a sleep that they would have ended.
    pub(crate) fn looked_until(&mut self, t: Instant) {
        self.from.looked_until(t);
    }

    /// Writes packets that are due.
    pub(crate) fn deliver(&mut self, mut taps: Option<&mut Taps>) -> usize {
        let begun = clock::now();
        let mut now = begun;
        for count in 0..BATCH {
            // Packets that were taken from a ring are older than any that is due now.
            let taken = self.take_buffered(taps.as_deref_mut());
            self.polled_at = now;
            let Some((group, at)) = self.due.next(&mut self.path, &self.arena, now) else {
                return count + taken;
            };
            self.hand_over(now, &group, at, taps.as_deref_mut());
            now = clock::now();
            if now.since(begun) > self.turn {
                return count + 1;
            }
        }
        BATCH
    }

    /// Writes a group, whose members are at place `at` and behind it.
    fn hand_over(&mut self, now: Instant, group: &Group, at: usize, mut taps: Option<&mut Taps>) {
        let first = group.first;
        let bytes = self.arena.bytes(first.handle);
        let to = &self.to[usize::from(first.to)];
        let pieces = first.piece.map(|piece| piece..piece + group.count as u16);
        let written = match (&group.joint, &pieces) {
            (Some(joint), _) => self.write_joined(to, joint, at..at + group.count),
            (None, Some(pieces)) => write_pieces(to, bytes, pieces.clone()),
            (None, None) => to.device.write(bytes),
        };
        if let (Some(taps), Ok(())) = (&mut taps, &written) {
            let end = ends(self.direction)[1];
            match &group.joint {
                None => taps.went(now, end, bytes, pieces),
                Some(_) => (at..at + group.count).for_each(|at| {
                    taps.went(now, end, self.arena.bytes(self.due.member(at).packet.handle), None);
                }),
            }
        }
        for at in at..at + group.count {
            let Member { scheduled, packet, .. } = *self.due.member(at);
            let (egress, fate) = match (&written, packet.again) {
                (Ok(()), true) => (now, Fate::Duplicate),
                (Ok(()), false) => (now, Fate::Delivered),
                (Err(_), _) => (scheduled, Fate::DeviceRefused),
            };
            self.note(&packet, scheduled, egress, fate);
            if !packet.again {
                self.arena.release(packet.handle);
            }
        }
    }

    /// Writes packets of one stream as the super-packet that they make.
    fn write_joined(&self, to: &Host, joint: &Joint, members: Range<usize>) -> std::io::Result<()> {
        let ip = |at: usize| &self.arena.bytes(self.due.member(at).packet.handle)[HEADER_BYTES..];
        let headers_len = joint.cutter().headers_len();
        let mut payloads = [&[][..]; PAYLOADS_MAX];
        for (payload, at) in payloads.iter_mut().zip(members.clone()) {
            *payload = &ip(at)[headers_len..];
        }
        let headers = joint.headers(ip(members.start));
        to.device.write_parts(&offload(joint.cutter(), true), headers.bytes(), &payloads[..members.len()])
    }

    /// Reads the packets that have arrived and gives them to the model.
    pub(crate) fn read(&mut self, mut taps: Option<&mut Taps>) -> std::io::Result<usize> {
        let turn = match self.from.has_rings() {
            true => RING_BATCH,
            false => (BATCH / self.from.count()).max(1),
        };
        let mut moved = self.take_buffered(taps.as_deref_mut());
        self.from.look()?;
        let mut index = 0;
        while let Some(from) = self.from.found(index) {
            moved += self.read_from(from, turn, taps.as_deref_mut())?;
            index += 1;
        }
        Ok(moved)
    }

    /// Reads at most `turn` packets that host number `from` sent.
    fn read_from(&mut self, from: usize, turn: usize, mut taps: Option<&mut Taps>) -> std::io::Result<usize> {
        for count in 0..turn {
            let now = clock::now();
            let line_through = self.line_through(now);
            if self.from.is_closed(from, now, line_through) {
                return Ok(count);
            }
            let port = self.from.port(from);
            port.watch.look(now);
            let Some(room) = self.arena.room() else {
                return Ok(count + usize::from(self.refuse_one(from)?));
            };
            let Some(bytes) = self.from.read(from, room)? else {
                self.from.port(from).watch.found_nothing();
                return Ok(count);
            };
            let now = clock::now();
            let unseen_ns = self.from.takes(from, now, wire_bytes_of(&room[..bytes]).into());
            self.take(bytes, (from, now, unseen_ns), taps.as_deref_mut());
        }
        Ok(turn)
    }

    /// Gives the model the packets that the relief thread took from rings; their number.
    fn take_buffered(&mut self, mut taps: Option<&mut Taps>) -> usize {
        let mut count = 0;
        while self.from.has_buffered() {
            let Some(room) = self.arena.room() else { break };
            let Some((taken, bytes)) = self.from.take_buffered(room) else { break };
            let now = taken.at.max(self.polled_at);
            self.take(bytes, (taken.from, now, taken.unseen_ns), taps.as_deref_mut());
            count += 1;
        }
        count
    }

    /// Gives the model the packet of `bytes` bytes in the arena's room, with its sender, its arrival and the
    /// uncertainty of that.
    fn take(&mut self, bytes: usize, (from, now, unseen_ns): (usize, Instant, u64), taps: Option<&mut Taps>) {
        let room = self.arena.room().expect("the packet lies there");
        let ip = &room[HEADER_BYTES..bytes];
        if Headers::parse(ip).is_ok_and(|headers| stays_on_link(ip, &headers)) {
            return;
        }
        let to = match self.switch.route(ip) {
            Route::Line(to) => to,
            Route::Switch(to) => {
                // As on a switch with a full port: TCP finds the loss.
                let _ = self.from.host(to.into()).device.write(&room[..bytes]);
                return;
            }
        };
        let cut = Cut::of(&room[..bytes]);
        let ip_bytes = ip.len() as u32;
        let wants = self.segment && cut.segments > 1;
        let cutter = wants.then(|| Cutter::new(ip, cut.payload_bytes as usize)).flatten();
        if let Some(taps) = taps {
            taps.came(now, ends(self.direction)[0], ip, cutter.as_ref());
        }
        let handle = self.arena.keep(bytes);
        let arrival = Arrival { now, handle, from: from as u8, to, unseen_ns };
        let taken = match cutter {
            Some(cutter) => self.push_pieces(arrival, &cutter),
            None => {
                let wire_bytes = wire_bytes(ip_bytes, cut.segments, cut.header_bytes);
                self.push(arrival.packet(ip_bytes, wire_bytes, cut.segments))
            }
        };
        // The reference that `keep` made; each packet that was taken has one of its own.
        match taken {
            true => self.arena.release(handle),
            false => self.arena.take_back(handle),
        }
    }

    /// End of the line's work, if a single host sends.
    fn line_through(&self, now: Instant) -> Option<Instant> {
        let waiting = || self.rate.time_for(self.path.waiting_bytes());
        let through = || self.path.busy_until().map_or(now, |on_wire| on_wire + waiting());
        (self.from.count() == 1).then(through)
    }

    /// Gives the segments of a super-packet to the model; true if it took any.
    fn push_pieces(&mut self, arrival: Arrival, cutter: &Cutter) -> bool {
        let mut taken = std::mem::take(&mut self.taken);
        taken.clear();
        for piece in 0..cutter.pieces() {
            let ip_bytes = cutter.ip_bytes(piece);
            let packet = arrival.packet(ip_bytes, wire_bytes(ip_bytes, 1, 0), 1);
            if self.push(link::Packet { piece: Some(piece), ..packet }) {
                taken.push(piece);
            }
        }
        let any = !taken.is_empty();
        if any {
            self.arena.keep_pieces(arrival.handle, cutter, &taken);
        }
        self.taken = taken;
        any
    }

    /// Gives one packet that has just arrived to the model; true if it took it.
    fn push(&mut self, packet: link::Packet) -> bool {
        let now = packet.arrived;
        match self.path.push(now, packet) {
            Ok(()) => {
                self.arena.share(packet.handle);
                true
            }
            Err(dropped) => {
                self.note(&dropped.packet, now, now, dropped.fate);
                false
            }
        }
    }

    /// Reads a packet and drops it, since the arena is full.
    #[cold]
    fn refuse_one(&mut self, from: usize) -> std::io::Result<bool> {
        let mut lost = vec![0; MAX_BYTES];
        let Some(bytes) = self.from.host(from).device.read(&mut lost)? else { return Ok(false) };
        let now = clock::now();
        let ip = &lost[HEADER_BYTES..bytes];
        // Link-local packets do not cross the line, so they are no loss.
        if Headers::parse(ip).is_ok_and(|headers| stays_on_link(ip, &headers)) {
            return Ok(true);
        }
        let to = match self.switch.route(ip) {
            Route::Line(to) => to,
            Route::Switch(to) => {
                let _ = self.from.host(to.into()).device.write(&lost[..bytes]);
                return Ok(true);
            }
        };
        let arrival = Arrival { now, handle: Handle(0), from: from as u8, to, unseen_ns: 0 };
        let packet = arrival.packet(ip.len() as u32, 0, Cut::of(&lost[..bytes]).segments);
        self.record(&packet, now, now, Fate::NoBuffer, tcp_of(&lost[..bytes], None));
        Ok(true)
    }

    /// Records the fate of a packet whose bytes are in the arena.
    fn note(&mut self, packet: &link::Packet, scheduled: Instant, egress: Instant, fate: Fate) {
        let wants = self.feed.is_traced();
        let tcp = wants.then(|| tcp_of(self.arena.bytes(packet.handle), packet.piece)).flatten();
        self.record(packet, scheduled, egress, fate, tcp);
    }

    fn record(
        &mut self,
        packet: &link::Packet,
        scheduled: Instant,
        egress: Instant,
        fate: Fate,
        tcp: Option<Tcp>,
    ) {
        self.feed.record(Packet {
            ingress: packet.arrived,
            scheduled,
            egress,
            direction: self.direction,
            number: packet.number,
            fate,
            ip_bytes: packet.ip_bytes,
            segments: packet.segments,
            src_host: self.from.host(packet.from.into()).name.number(),
            dst_host: self.to[usize::from(packet.to)].name.number(),
            tcp,
            unseen_ns: packet.unseen_ns,
        });
    }
}

/// Bytes on the wire of a packet that a device gave.
fn wire_bytes_of(packet: &[u8]) -> u32 {
    let cut = Cut::of(packet);
    wire_bytes((packet.len() - HEADER_BYTES) as u32, cut.segments, cut.header_bytes)
}

/// Writes some pieces in a row of the super-packet that a device gave as `packet`.
fn write_pieces(to: &Host, packet: &[u8], pieces: Range<u16>) -> std::io::Result<()> {
    let ip = &packet[HEADER_BYTES..];
    let cutter = Cutter::new(ip, Cut::of(packet).payload_bytes as usize).expect("it was cut when it came");
    let headers = cutter.headers(ip, pieces.clone());
    let offload = offload(&cutter, pieces.len() > 1);
    to.device.write_parts(&offload, headers.bytes(), &[payload_of(packet, &cutter, pieces)])
}

/// Offloads left to the receiving host, for a packet or for several in one.
fn offload(cutter: &Cutter, are_several: bool) -> Offload {
    Offload {
        transport_at: cutter.transport_at() as u16,
        checksum_at: TCP_CHECKSUM as u16,
        header_bytes: cutter.headers_len() as u16,
        // A payload fits: an IP packet is limited to 64 KiB.
        cut: are_several.then_some(cutter.payload_per_piece() as u16),
        version: cutter.version(),
    }
}

impl Arrival {
    const fn packet(self, ip_bytes: u32, wire_bytes: u32, segments: u16) -> link::Packet {
        let Arrival { now, handle, from, to, unseen_ns } = self;
        let packet = link::Packet::new(handle, now, ip_bytes, wire_bytes, segments);
        link::Packet { from, to, unseen_ns, ..packet }
    }
}

/// Sending and receiving end of a direction.
const fn ends(direction: Direction) -> [End; 2] {
    match direction {
        Direction::NearToFar => [End::Near, End::Far],
        Direction::FarToNear => [End::Far, End::Near],
    }
}

/// Sending side of a direction.
const fn side_of(direction: Direction) -> Side {
    match direction {
        Direction::NearToFar => Side::Near,
        Direction::FarToNear => Side::Far,
    }
}
