//! One direction of a connection that is like TCP: a window that grows by slow start up to a maximum, a
//! cumulative acknowledgement for every arrival, round-trip times measured from them.
//!
//! Left out: loss and everything that follows from it, because the paths under it never drop; pacing; a
//! receive window; delayed acknowledgements; Nagle's algorithm, which the product switches off. Packets are
//! super-packets of whole segments, as Linux hands them to a device.

use std::collections::VecDeque;
use std::time::Duration;

use event::Instant;
use link::{Handle, Packet, wire_bytes};

/// TCP payload of a packet at MTU 1500 with timestamps, and the headers in front of it.
pub const MSS_BYTES: u32 = 1448;
const HEADER_BYTES: u32 = 52;
/// Segments of a super-packet at most.
const SEGMENTS_MAX: u32 = 10;
/// Window at the beginning (RFC 6928).
const WINDOW_FIRST_BYTES: u64 = 10 * MSS_BYTES as u64;
/// Bytes that the application may have written and that are not sent: TCP_NOTSENT_LOWAT of the product.
const NOTSENT_BYTES: usize = 128 << 10;

/// What a packet says, apart from its payload, which arrives in the order in which it was written.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// Bytes of payload.
    pub len_bytes: u32,
    /// All payload of the other direction that has arrived.
    pub ack_bytes: u64,
}

/// The sender of one direction, and what of its payload has not arrived.
#[derive(Debug)]
pub struct Pipe {
    window_bytes: u64,
    window_max_bytes: u64,
    /// Written and not arrived, the bytes in flight first.
    bytes: VecDeque<u8>,
    in_flight: usize,
    sent_bytes: u64,
    acked_bytes: u64,
    most_in_flight: u64,
    /// When which byte was sent, for what is not acknowledged.
    sent_at: VecDeque<(u64, Instant)>,
    rtt: Duration,
    min_rtt: Option<Duration>,
}

impl Pipe {
    /// A pipe that nothing has been written to, with a window that grows up to `window_max_bytes`.
    pub fn new(window_max_bytes: u64) -> Pipe {
        Pipe {
            window_bytes: WINDOW_FIRST_BYTES.min(window_max_bytes),
            window_max_bytes,
            bytes: VecDeque::new(),
            in_flight: 0,
            sent_bytes: 0,
            acked_bytes: 0,
            most_in_flight: 0,
            sent_at: VecDeque::new(),
            rtt: Duration::ZERO,
            min_rtt: None,
        }
    }

    /// Where the application writes; see [`Pipe::wants_bytes`].
    pub fn writer(&mut self) -> &mut VecDeque<u8> {
        &mut self.bytes
    }

    /// Whether so little waits that the application should write.
    pub fn wants_bytes(&self) -> bool {
        self.notsent_bytes() < NOTSENT_BYTES
    }

    /// Written and not sent.
    pub fn notsent_bytes(&self) -> usize {
        self.bytes.len() - self.in_flight
    }

    /// Payload whose arrival is known here.
    pub fn acked_bytes(&self) -> u64 {
        self.acked_bytes
    }

    /// The last and the smallest round-trip time.
    pub fn rtt(&self) -> (Duration, Option<Duration>) {
        (self.rtt, self.min_rtt)
    }

    /// How long the next packet is that the window lets go; it counts as sent.
    pub fn send(&mut self, now: Instant) -> Option<u32> {
        let under_way = self.sent_bytes - self.acked_bytes;
        let room = self.window_bytes.saturating_sub(under_way).min(self.notsent_bytes() as u64);
        let len_bytes = room.min(u64::from(SEGMENTS_MAX * MSS_BYTES)) as u32;
        // A window with less room than a segment waits for more, unless this is all there is.
        if len_bytes == 0 || (len_bytes < MSS_BYTES && u64::from(len_bytes) < self.notsent_bytes() as u64) {
            return None;
        }
        self.in_flight += len_bytes as usize;
        self.sent_bytes += u64::from(len_bytes);
        self.most_in_flight = self.most_in_flight.max(under_way + u64::from(len_bytes));
        self.sent_at.push_back((self.sent_bytes, now));
        Some(len_bytes)
    }

    /// Takes the next `len_bytes` of payload out: they have arrived.
    pub fn arrive(&mut self, len_bytes: u32, into: &mut Vec<u8>) {
        self.in_flight -= len_bytes as usize;
        into.clear();
        into.extend(self.bytes.drain(..len_bytes as usize));
    }

    /// Takes an acknowledgement.
    pub fn acknowledge(&mut self, now: Instant, ack_bytes: u64) {
        let fresh = ack_bytes.saturating_sub(self.acked_bytes);
        if fresh == 0 {
            return;
        }
        self.acked_bytes = ack_bytes;
        while let Some((end, at)) = self.sent_at.front().copied().filter(|(end, _)| *end <= ack_bytes) {
            self.sent_at.pop_front();
            if end == ack_bytes {
                self.rtt = now.since(at);
                self.min_rtt = Some(self.min_rtt.map_or(self.rtt, |least| least.min(self.rtt)));
            }
        }
        // Slow start; a window that is not used does not grow (RFC 7661 says why).
        if self.window_bytes < 2 * self.most_in_flight {
            self.window_bytes = (self.window_bytes + fresh).min(self.window_max_bytes);
        }
    }
}

/// A packet of so many bytes of payload; of none it is a bare acknowledgement.
pub fn packet(arrived: Instant, len_bytes: u32) -> Packet {
    let ip_bytes = HEADER_BYTES + len_bytes;
    let segments = len_bytes.div_ceil(MSS_BYTES).max(1) as u16;
    let wire_bytes = wire_bytes(ip_bytes, segments, HEADER_BYTES);
    Packet::new(Handle(0), arrived, ip_bytes, wire_bytes, segments)
}
