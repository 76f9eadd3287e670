//! Capacity of the busy line, from `packets`. Of two back-to-back packets the second occupied the line for the time
//! between them; and a packet that finds the line free takes longer than one without payload by the serialisation of
//! its payload.

use std::path::Path;

use diagnosis::Facts;
use event::{Direction, Fate, Packet};
use tables::{Packets, TableError};

use crate::Span;
use crate::diagram::Hosts;
use crate::path::line::ETHERNET_BYTES;

/// Below this the clocks are too coarse.
const NOISE_NS: u64 = 1_000;
/// Least busy time of the line for an estimate.
const LEAST_BUSY_NS: u64 = 1_000_000;

/// Packets with less payload take too little time for the clocks.
const LONE_BYTES: u32 = 1000;
const MOST_LONE: usize = 1 << 16;

const COLUMNS: &[&str] = &[
    "ingress_t_ns",
    "scheduled_t_ns",
    "direction",
    "fate",
    "ip_bytes",
    "segments",
    "src_host",
    "dst_host",
    "payload_bytes",
];

#[derive(Default)]
struct Seen {
    /// End of the previous packet at the far end of the line.
    before_ns: u64,
    back_to_back_ns: u64,
    back_to_back_bytes: u64,
    /// Bytes per second of packets that found the line free.
    lone: Vec<f64>,
    payload_bytes: u64,
    /// Bytes of these that belong to the load.
    own_bytes: u64,
}

/// The fastest packet: its one-way time and its frames.
#[derive(Clone, Copy)]
struct Quickest {
    way_ns: u64,
    frames_bytes: u32,
}

/// Adds the capacity left by other traffic in the direction of the data, and the share of time with a busy line.
/// `hosts` is the number of the load's own hosts at the near and at the far end.
pub(super) fn fill(
    dir: &Path,
    window: Span,
    hosts: Option<[u32; 2]>,
    facts: &mut Facts,
) -> Result<(), TableError> {
    let hosts = hosts.map(|[near, far]| Hosts { near, far });
    let direction = if facts.is_write { Direction::NearToFar } else { Direction::FarToNear };
    let Some(quickest) = quickest(dir, direction)? else { return Ok(()) };
    let mut seen = Seen::default();
    tables::read_pieces::<Packet>(dir, Some(COLUMNS), |piece| {
        for row in delivered(&piece, direction, window) {
            seen.add(&piece, row, quickest);
            if hosts.is_none_or(|hosts| hosts.have(&piece, row)) {
                seen.own_bytes += u64::from(piece.payload_bytes[row]);
            }
        }
    })?;
    if seen.payload_bytes == 0 {
        return Ok(());
    }
    let line = match seen.back_to_back_ns {
        LEAST_BUSY_NS.. => seen.back_to_back_bytes as f64 / (seen.back_to_back_ns as f64 / 1e9),
        _ => match lone(&mut seen.lone) {
            Some(line) => line,
            None => return Ok(()),
        },
    };
    let per_s = |bytes: u64| bytes as f64 / window.length_s().max(1e-9);
    let (carried, own) = (per_s(seen.payload_bytes), per_s(seen.own_bytes));
    // Headers of PDUs and retransmissions are not application bytes.
    let useful = (facts.current.bytes_per_s / own.max(1.0)).clamp(0.5, 1.0);
    facts.path.line_bytes_per_s = Some((line - (carried - own)).max(own) * useful);
    facts.path.line_busy = Some((carried / line).min(1.0));
    Ok(())
}

/// From all records: a packet without payload always exists, from the connection's beginning.
fn quickest(dir: &Path, direction: Direction) -> Result<Option<Quickest>, TableError> {
    let always = Span { start_ns: 0, end_ns: u64::MAX };
    let mut found: Option<Quickest> = None;
    tables::read_pieces::<Packet>(dir, Some(COLUMNS), |piece| {
        for row in delivered(&piece, direction, always) {
            let way_ns = piece.scheduled_t_ns[row].saturating_sub(piece.ingress_t_ns[row]);
            if found.is_none_or(|least| way_ns < least.way_ns) {
                found = Some(Quickest { way_ns, frames_bytes: frames(&piece, row) });
            }
        }
    })?;
    Ok(found)
}

impl Seen {
    fn add(&mut self, piece: &Packets, row: usize, quickest: Quickest) {
        let (came, out) = (piece.ingress_t_ns[row], piece.scheduled_t_ns[row]);
        let payload = piece.payload_bytes[row];
        // When it would be out if the line took it as soon as it came, and no longer than the quickest.
        let soonest_ns = came.saturating_add(quickest.way_ns);
        let gap_ns = out.saturating_sub(self.before_ns);
        if self.before_ns > soonest_ns.saturating_add(NOISE_NS) && gap_ns > 0 {
            self.back_to_back_ns += gap_ns;
            self.back_to_back_bytes += u64::from(payload);
        }
        let own_ns = out.saturating_sub(soonest_ns);
        let is_lone = self.before_ns <= soonest_ns && payload >= LONE_BYTES && own_ns >= NOISE_NS;
        if is_lone && self.lone.len() < MOST_LONE {
            let frames = frames(piece, row);
            let rate = f64::from(frames.saturating_sub(quickest.frames_bytes)) / (own_ns as f64 / 1e9);
            self.lone.push(rate * f64::from(payload) / f64::from(frames.max(1)));
        }
        self.payload_bytes += u64::from(payload);
        self.before_ns = out;
    }
}

/// Bytes of a packet on the line.
fn frames(piece: &Packets, row: usize) -> u32 {
    piece.ip_bytes[row].saturating_add(piece.segments[row].saturating_mul(ETHERNET_BYTES))
}

/// Rate of the line from packets that had it to themselves. Every other effect delays a packet, so the best ones are
/// right.
fn lone(rates: &mut [f64]) -> Option<f64> {
    rates.sort_unstable_by(f64::total_cmp);
    rates.get((rates.len() as f64 * 0.9) as usize).copied()
}

fn delivered(piece: &Packets, direction: Direction, window: Span) -> impl Iterator<Item = usize> {
    let inside = move |row: &usize| {
        let is_in = (window.start_ns..window.end_ns).contains(&piece.scheduled_t_ns[*row]);
        piece.direction[*row] == direction && piece.fate[*row] == Fate::Delivered && is_in
    };
    (0..piece.direction.len()).filter(inside)
}
