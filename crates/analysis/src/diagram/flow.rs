//! TCP connections in the table `packets`, and the position of a packet's bytes in the stream.

use std::collections::HashMap;

use event::Direction;
use tables::Packets;

/// SYN of `tcp_flags`.
pub(super) const SYN: u32 = 2;

/// A connection, named from the near host's side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
pub struct Flow {
    /// Number of the near host.
    pub near_host: u32,
    /// Port of the near host.
    pub near_port: u32,
    /// Number of the far host.
    pub far_host: u32,
    /// Port of the far host.
    pub far_port: u32,
}

/// Hosts of the measured traffic: the first ones at each end. Others are competing traffic.
#[derive(Clone, Copy, Debug)]
pub struct Hosts {
    /// Number of the host at the near end, from 1.
    pub near: u32,
    /// Number at the far end.
    pub far: u32,
}

/// Number of the first far host.
const FIRST_FAR: u32 = 100;

/// Columns of `packets` that are needed here.
pub(super) const COLUMNS: [&str; 14] = [
    "ingress_t_ns",
    "egress_t_ns",
    "direction",
    "fate",
    "ip_bytes",
    "segments",
    "src_host",
    "dst_host",
    "src_port",
    "dst_port",
    "seq",
    "ack",
    "payload_bytes",
    "tcp_flags",
];

/// Connections found in a walk over all packets.
#[derive(Default)]
pub(crate) struct Flows {
    found: HashMap<Flow, u64>,
}

/// One direction of a connection: converts sequence numbers to stream offsets.
#[derive(Clone, Copy, Default)]
pub(super) struct Stream {
    /// Sequence number of the stream's first byte, once the SYN is seen.
    first: Option<u32>,
    /// The furthest byte seen so far.
    reached: u64,
}

impl Hosts {
    /// True if a row is between two of them.
    pub(crate) fn have(self, packets: &Packets, row: usize) -> bool {
        let (src, dst) = (packets.src_host[row], packets.dst_host[row]);
        let (near, far) = match packets.direction[row] {
            Direction::NearToFar => (src, dst),
            Direction::FarToNear => (dst, src),
        };
        self.are(near, far)
    }

    /// True if these are two of them, one at each end.
    pub(crate) fn has(self, host: u32, peer: u32) -> bool {
        self.are(host, peer) || self.are(peer, host)
    }

    fn are(self, near: u32, far: u32) -> bool {
        near < self.near.max(1) && (FIRST_FAR..FIRST_FAR.saturating_add(self.far.max(1))).contains(&far)
    }
}

impl Flow {
    /// Connection of a row; `None` if it is not TCP.
    pub(crate) fn of(packets: &Packets, row: usize) -> Option<Flow> {
        let [src, dst] =
            [(packets.src_host[row], packets.src_port[row]), (packets.dst_host[row], packets.dst_port[row])];
        let (near, far) = match packets.direction[row] {
            Direction::NearToFar => (src, dst),
            Direction::FarToNear => (dst, src),
        };
        let flow = Flow { near_host: near.0, near_port: near.1, far_host: far.0, far_port: far.1 };
        (src.1 > 0 && dst.1 > 0).then_some(flow)
    }
}

impl Flows {
    pub(crate) fn add(&mut self, packets: &Packets, row: usize) {
        if let Some(flow) = Flow::of(packets, row) {
            *self.found.entry(flow).or_default() += u64::from(packets.payload_bytes[row]);
        }
    }

    /// The connection with most bytes.
    pub(super) fn busiest(&self) -> Option<Flow> {
        self.busiest_with_bytes().map(|(flow, _)| flow)
    }

    /// The connection with most bytes, and their number.
    pub(crate) fn busiest_with_bytes(&self) -> Option<(Flow, u64)> {
        let most = self.found.iter().max_by_key(|(flow, bytes)| (**bytes, std::cmp::Reverse(**flow)));
        most.map(|(flow, bytes)| (*flow, *bytes))
    }
}

impl Stream {
    /// Takes a packet in order of time; returns where its payload begins, if the beginning of the stream is
    /// known, and whether it was sent before.
    pub(super) fn place(&mut self, seq: u32, payload_bytes: u32, flags: u32) -> Option<(u64, bool)> {
        if flags & SYN != 0 {
            *self = Stream { first: Some(seq.wrapping_add(1)), reached: 0 };
            return Some((0, false));
        }
        let begin = self.unwrap(seq)?;
        let end = begin + u64::from(payload_bytes);
        let again = payload_bytes > 0 && end <= self.reached;
        self.reached = self.reached.max(end);
        Some((begin, again))
    }

    /// Stream offset of a sequence number near the highest one.
    pub(super) fn unwrap(&self, seq: u32) -> Option<u64> {
        let first = self.first?;
        // Two's complement: how far it lies before or behind the furthest byte, in 2^31 each way.
        let step = seq.wrapping_sub(first).wrapping_sub(self.reached as u32).cast_signed();
        Some(self.reached.saturating_add_signed(i64::from(step)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_go_on_behind_the_end_of_the_numbers() {
        let mut stream = Stream::default();
        assert_eq!(stream.place(7, 10, 0), None, "without the SYN nobody knows");
        assert_eq!(stream.place(u32::MAX - 999, 0, SYN), Some((0, false)));
        let mut seq = u32::MAX - 998;
        for i in 0..200_000_u64 {
            assert_eq!(stream.place(seq, 60_000, 16), Some((i * 60_000, false)));
            seq = seq.wrapping_add(60_000);
        }
        let again = seq.wrapping_sub(120_000);
        assert_eq!(stream.place(again, 60_000, 16), Some((199_998 * 60_000, true)));
        assert_eq!(stream.unwrap(seq), Some(200_000 * 60_000));
    }
}
