//! Cumulative counters, read between their samples. Values between two samples are interpolated.

use std::collections::BTreeMap;
use std::path::Path;

use event::{Direction, Fate, Host, Op, Packet};
use tables::{Ios, Sockets, TableError};

use crate::Span;

/// Columns of the table `packets` that are needed here.
const COLUMNS: [&str; 9] = [
    "egress_t_ns",
    "direction",
    "fate",
    "src_host",
    "dst_host",
    "src_port",
    "dst_port",
    "seq",
    "payload_bytes",
];
/// Packets are counted together for so long.
const STEP_NS: u64 = 1_000_000;

/// The sum of one counter over all connections of one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter {
    /// Per connection: (time, bytes so far), in order of time.
    tracks: Vec<Vec<(u64, u64)>>,
}

impl Counter {
    /// Application payload that `host` has received, from the table `sockets`.
    pub(crate) fn received(sockets: &Sockets, host: Host) -> Counter {
        let mut numbers: Vec<u32> = Vec::new();
        let mut tracks: Vec<Vec<(u64, u64)>> = Vec::new();
        for row in (0..sockets.t_ns.len()).filter(|row| sockets.host[*row] == host) {
            let number = sockets.connection[row];
            let place = numbers.iter().position(|n| *n == number).unwrap_or_else(|| {
                numbers.push(number);
                tracks.push(Vec::new());
                numbers.len() - 1
            });
            tracks[place].push((sockets.t_ns[row], sockets.app_rx_bytes[row]));
        }
        tracks.iter_mut().for_each(|track| track.sort_unstable());
        Counter { tracks }
    }

    /// Payload that the path delivered in one direction, each byte once, from the table `packets`.
    pub(crate) fn handed_over(dir: &Path, direction: Direction) -> Result<Counter, TableError> {
        let mut connections: BTreeMap<[u32; 4], HandedOver> = BTreeMap::new();
        tables::read_pieces::<Packet>(dir, Some(&COLUMNS), |packets| {
            for row in 0..packets.seq.len() {
                let counts = packets.direction[row] == direction
                    && packets.fate[row] == Fate::Delivered
                    && packets.payload_bytes[row] > 0;
                if counts {
                    let ends = [packets.src_host[row], packets.dst_host[row]];
                    let ports = [packets.src_port[row], packets.dst_port[row]];
                    let connection = connections.entry([ends[0], ends[1], ports[0], ports[1]]).or_default();
                    connection.add(packets.egress_t_ns[row], packets.seq[row], packets.payload_bytes[row]);
                }
            }
        })?;
        Ok(Counter { tracks: connections.into_values().map(|connection| connection.track).collect() })
    }

    /// Bytes of requests that ended well, from the table `io`.
    pub(crate) fn completed(io: &Ios, op: Op) -> Counter {
        let wanted = |row: &usize| io.op[*row] == op && io.status[*row] == 0;
        let rows = (0..io.op.len()).filter(wanted);
        let mut done: Vec<(u64, u64)> =
            rows.map(|row| (io.completed_t_ns[row], u64::from(io.len_bytes[row]))).collect();
        done.sort_unstable();
        let mut total = 0;
        for (_, bytes) in &mut done {
            total += *bytes;
            *bytes = total;
        }
        Counter { tracks: vec![done] }
    }

    /// From the first sample to the last; `None` without two of them.
    pub(crate) fn span(&self) -> Option<Span> {
        let start_ns = self.tracks.iter().filter_map(|t| t.first()).map(|(t, _)| *t).min()?;
        let end_ns = self.tracks.iter().filter_map(|t| t.last()).map(|(t, _)| *t).max()?;
        (start_ns < end_ns).then_some(Span { start_ns, end_ns })
    }

    /// Bytes at a time; a connection keeps its first value before its first sample and its last after.
    pub(crate) fn at(&self, t_ns: u64) -> f64 {
        self.tracks.iter().map(|track| interpolate(track, t_ns)).sum()
    }

    /// Bits per second between two times; 0 if they are equal.
    pub(crate) fn rate(&self, span: Span) -> f64 {
        match span.length_s() {
            length if length > 0.0 => (self.at(span.end_ns) - self.at(span.start_ns)).max(0.0) * 8.0 / length,
            _ => 0.0,
        }
    }
}

/// Delivered bytes of one connection.
#[derive(Debug, Default)]
struct HandedOver {
    /// Sequence number behind the last byte so far.
    next: Option<u32>,
    bytes: u64,
    track: Vec<(u64, u64)>,
}

impl HandedOver {
    /// A packet; a retransmission lies before the last byte and adds nothing. A hole counts with the packet behind it.
    fn add(&mut self, t_ns: u64, seq: u32, payload_bytes: u32) {
        let end = seq.wrapping_add(payload_bytes);
        let new = self.next.map_or(payload_bytes as i32, |next| end.wrapping_sub(next) as i32);
        if new > 0 {
            self.next = Some(end);
            self.bytes += u64::from(new.unsigned_abs());
        }
        let total = self.bytes;
        match &mut self.track[..] {
            // The first sample is the beginning, before anything had come.
            [] => self.track.extend([(t_ns, 0), (t_ns, total)]),
            [_, _, .., (last_ns, bytes)] if t_ns < *last_ns + STEP_NS => *bytes = total,
            _ => self.track.push((t_ns, total)),
        }
    }
}

fn interpolate(track: &[(u64, u64)], t_ns: u64) -> f64 {
    let after = track.partition_point(|(t, _)| *t <= t_ns);
    match (after.checked_sub(1).map(|i| track[i]), track.get(after)) {
        (None, None) => 0.0,
        (Some((_, bytes)), None) => bytes as f64,
        (None, Some((_, bytes))) => *bytes as f64,
        (Some((t0, b0)), Some((t1, b1))) => {
            let share = (t_ns - t0) as f64 / (t1 - t0) as f64;
            b0 as f64 + share * (*b1 as f64 - b0 as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_that_was_handed_over_counts_once() {
        let mut connection = HandedOver::default();
        // Sequence numbers wrap, one packet is sent again, and one comes out of order behind a later one.
        let begin = u32::MAX - 999;
        for (ms, offset, bytes) in
            [(0, 0, 1000), (10, 1000, 1000), (20, 0, 1000), (30, 3000, 1000), (40, 2000, 1000)]
        {
            connection.add(ms * 1_000_000, begin.wrapping_add(offset), bytes);
        }
        let counter = Counter { tracks: vec![connection.track] };
        assert_eq!(counter.at(0), 1000.0);
        assert_eq!(counter.at(25_000_000), 3000.0, "half way to the packet that comes at 30 ms");
        assert_eq!(counter.at(50_000_000), 4000.0);
    }

    #[test]
    fn between_samples_it_is_interpolated_and_outside_it_stays() {
        let counter =
            Counter { tracks: vec![vec![(10, 0), (20, 100), (20, 110), (40, 150)], vec![(30, 7)], vec![]] };
        for (t, bytes) in [(0, 7.0), (10, 7.0), (15, 57.0), (20, 117.0), (30, 137.0), (99, 157.0)] {
            assert_eq!(counter.at(t), bytes, "at {t}");
        }
        assert_eq!(counter.span(), Some(Span { start_ns: 10, end_ns: 40 }));
        assert_eq!(counter.rate(Span { start_ns: 20, end_ns: 20 }), 0.0);
    }
}
