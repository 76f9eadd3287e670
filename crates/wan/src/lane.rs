//! One direction: reads packets from the sending host's device, gives them to the model, hands over what is due.
//!
//! Super-packets are cut here if the path wants single packets: their bytes stay whole, the model gets the pieces, and
//! each piece is written with headers made for it. Pieces of one super-packet that are due by the time one of them is
//! written are written together, as a receiving card does that coalesces; the table still has a row for each.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use event::{BitRate, Direction, Fate, Instant, Packet, Tcp};
use link::{Cutter, Dice, Handle, Path, Stage, TCP_CHECKSUM, wire_bytes};
use net::clock;
use net::tun::{Cut, HEADER_BYTES, MAX_BYTES, Offload};

use crate::Spec;
use crate::arena::{Arena, limit_bytes};
use crate::collect::Feed;
use crate::headers::tcp_of;
use crate::host::Host;
use crate::watch::Watch;

/// Packets delivered or read before something else gets its turn.
const BATCH: usize = 16;
/// Packets that are taken out of a device's ring before the line has room for them, so that the thread need not wake for
/// each; the ring itself is that much shorter.
pub(crate) const READ_AHEAD_PACKETS: u32 = 16;

/// One direction of a running path.
pub(crate) struct Lane {
    direction: Direction,
    from: Arc<Host>,
    to: Arc<Host>,
    path: Path,
    arena: Arena,
    feed: Feed,
    segment: bool,
    ring: Option<Ring>,
    watch: Watch,
    /// Pieces in a row that are written next, and what was found behind them.
    run: Vec<(Instant, link::Packet)>,
    found: Option<(Instant, link::Packet)>,
}

/// The sending device's ring empties only as fast as the line takes packets.
struct Ring {
    rate: BitRate,
    ahead: Duration,
    /// When to read again.
    resume: Option<Instant>,
}

impl Lane {
    /// The way from one host to the other.
    pub(crate) fn new(direction: Direction, [from, to]: [&Arc<Host>; 2], spec: &Spec, feed: Feed) -> Lane {
        let line = match direction {
            Direction::NearToFar => &spec.near,
            Direction::FarToNear => &spec.far,
        };
        let rate = line.shape.rate;
        let ring = spec.ring_packets.map(|_| Ring {
            rate,
            ahead: rate.time_for(u64::from(READ_AHEAD_PACKETS) * spec.packet_bytes()),
            resume: None,
        });
        Lane {
            direction,
            from: from.clone(),
            to: to.clone(),
            path: Path::of(line, Dice::new(spec.seed, direction as u64)),
            arena: Arena::new(limit_bytes(line)),
            feed,
            segment: spec.segment,
            ring,
            watch: Watch::new(clock::now()),
            run: Vec::new(),
            found: None,
        }
    }

    /// What happens at set times counts from `now`.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.path.begin(now);
    }

    /// When the next packet is due, or an earlier instant at which to ask again.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.path.next_at()
    }

    /// When the ring is to be read again, if it waits. The line has something to do until well after that.
    pub(crate) fn resumes_at(&self) -> Option<Instant> {
        self.ring.as_ref().and_then(|ring| ring.resume)
    }

    /// Where packets come in, unless none is wanted now.
    pub(crate) fn input(&self) -> Option<BorrowedFd<'_>> {
        self.resumes_at().is_none().then(|| self.from.tun.as_fd())
    }

    /// Whoever sleeps looked at the input until `t`.
    pub(crate) fn looked_until(&mut self, t: Instant) {
        self.watch.looked_until(t);
    }

    /// Writes packets that are due.
    pub(crate) fn deliver(&mut self) -> usize {
        for count in 0..BATCH {
            let now = clock::now();
            let Some(first) = self.found.take().or_else(|| self.path.pop(now)) else { return count };
            self.run.clear();
            self.run.push(first);
            let (_, mut last) = first;
            while let Some(after) = last.piece.filter(|_| !last.again) {
                let Some(next) = self.path.pop(now) else { break };
                if next.1.handle != last.handle || next.1.piece != after.checked_add(1) || next.1.again {
                    self.found = Some(next);
                    break;
                }
                self.run.push(next);
                last = next.1;
            }
            self.hand_over(now);
        }
        BATCH
    }

    /// Writes what is in `run`: one packet, or pieces of one super-packet in a row.
    fn hand_over(&mut self, now: Instant) {
        let (_, first) = self.run[0];
        let bytes = self.arena.bytes(first.handle);
        let written = match first.piece {
            None => self.to.tun.write(bytes),
            Some(piece) => write_pieces(&self.to, bytes, piece, self.run.len() as u16),
        };
        for at in 0..self.run.len() {
            let (scheduled, packet) = self.run[at];
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

    /// Reads packets that have come in and gives them to the model.
    pub(crate) fn read(&mut self) -> std::io::Result<usize> {
        for count in 0..BATCH {
            let now = clock::now();
            if let Some(ring) = &mut self.ring
                && ring.is_closed(now, &self.path)
            {
                self.watch.looked_until(ring.wants_at());
                return Ok(count);
            }
            self.watch.look(now);
            let Some(room) = self.arena.room() else {
                return Ok(count + usize::from(self.refuse_one()?));
            };
            let Some(bytes) = self.from.tun.read(room)? else {
                self.watch.found_nothing();
                return Ok(count);
            };
            let now = clock::now();
            let cut = Cut::of(&room[..bytes]);
            let ip = &room[HEADER_BYTES..bytes];
            let wants = self.segment && cut.segments > 1;
            let cutter = wants.then(|| Cutter::new(ip, cut.payload_bytes as usize)).flatten();
            let handle = self.arena.keep(bytes);
            let taken = match cutter {
                Some(cutter) => self.push_pieces(now, handle, &cutter),
                None => {
                    let ip_bytes = (bytes - HEADER_BYTES) as u32;
                    let wire_bytes = wire_bytes(ip_bytes, cut.segments, cut.header_bytes);
                    self.push(link::Packet::new(handle, now, ip_bytes, wire_bytes, cut.segments))
                }
            };
            // The reference that `keep` made; each packet that was taken has one of its own.
            match taken {
                true => self.arena.release(handle),
                false => self.arena.take_back(handle),
            }
        }
        Ok(BATCH)
    }

    /// Gives the pieces of a super-packet to the model; whether it took any.
    fn push_pieces(&mut self, now: Instant, handle: Handle, cutter: &Cutter) -> bool {
        let mut last_taken = None;
        for piece in 0..cutter.pieces() {
            let ip_bytes = cutter.ip_bytes(piece);
            let packet = link::Packet::new(handle, now, ip_bytes, wire_bytes(ip_bytes, 1, 0), 1);
            if self.push(link::Packet { piece: Some(piece), ..packet }) {
                last_taken = Some(piece);
            }
        }
        if let Some(piece) = last_taken {
            self.arena.shorten(handle, HEADER_BYTES + cutter.payload(piece..piece + 1).end);
        }
        last_taken.is_some()
    }

    /// Gives one packet that has just come to the model; whether it took it.
    fn push(&mut self, packet: link::Packet) -> bool {
        let now = packet.arrived;
        match self.path.push(now, link::Packet { unseen_ns: self.watch.unseen_ns(), ..packet }) {
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

    /// There is no memory for another packet: takes one off the device and drops it.
    #[cold]
    fn refuse_one(&mut self) -> std::io::Result<bool> {
        let mut lost = vec![0; MAX_BYTES];
        let Some(bytes) = self.from.tun.read(&mut lost)? else { return Ok(false) };
        let now = clock::now();
        let ip_bytes = (bytes - HEADER_BYTES) as u32;
        let packet = link::Packet::new(Handle(0), now, ip_bytes, 0, Cut::of(&lost[..bytes]).segments);
        self.record(&packet, now, now, Fate::NoBuffer, tcp_of(&lost[..bytes], None));
        Ok(true)
    }

    /// What became of a packet whose bytes are in the arena.
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
            src_host: self.from.side.number(),
            dst_host: self.to.side.number(),
            tcp,
            unseen_ns: packet.unseen_ns,
        });
    }
}

/// Writes `count` pieces, from number `piece`, of the super-packet that a device gave as `packet`.
fn write_pieces(to: &Host, packet: &[u8], piece: u16, count: u16) -> std::io::Result<()> {
    let payload_bytes = Cut::of(packet).payload_bytes;
    let ip = &packet[HEADER_BYTES..];
    let cutter = Cutter::new(ip, payload_bytes as usize).expect("it was cut when it came");
    let pieces = piece..piece + count;
    let offload = Offload {
        transport_at: cutter.transport_at() as u16,
        checksum_at: TCP_CHECKSUM as u16,
        header_bytes: cutter.headers_len() as u16,
        // One payload is at most what a packet holds.
        cut: (count > 1).then_some(payload_bytes as u16),
        version: cutter.version(),
    };
    let headers = cutter.headers(ip, pieces.clone());
    to.tun.write_parts(&offload, headers.bytes(), &ip[cutter.payload(pieces)])
}

impl Ring {
    /// When the line has nothing left to do, if nobody reads before that.
    fn wants_at(&self) -> Instant {
        self.resume.map_or(Instant::ZERO, |resume| resume + self.ahead / 2)
    }

    /// Whether the line has so much before it that the ring must wait.
    fn is_closed(&mut self, now: Instant, path: &Path) -> bool {
        if self.resume.is_some_and(|resume| now < resume) {
            return true;
        }
        let free_at = path.busy_until().map(|through| through + self.rate.time_for(path.waiting_bytes()));
        // The ring opens again when half of that is gone.
        self.resume = free_at.filter(|free| free.since(now) >= self.ahead).map(|free| free - self.ahead / 2);
        self.resume.is_some()
    }
}
