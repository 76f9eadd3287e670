//! What the line carries while it is busy, from `packets`: of two packets that follow each other without a gap, the
//! second took the line for just as long as they are apart.

use std::path::Path;

use event::{Direction, Fate, Packet};
use store::tables::{self, Packets, TableError};

use super::super::facts::Facts;
use crate::Span;

/// Below this the clocks are too coarse.
const NOISE_NS: u64 = 1_000;
/// So long must the line have been seen busy.
const LEAST_BUSY_NS: u64 = 1_000_000;

const COLUMNS: &[&str] = &["ingress_t_ns", "scheduled_t_ns", "direction", "fate", "payload_bytes"];

#[derive(Default)]
struct Seen {
    /// When the packet before was out of the line, at its far end.
    before_ns: u64,
    back_to_back_ns: u64,
    back_to_back_bytes: u64,
    payload_bytes: u64,
}

/// Adds the rate of the line in the direction of the data, and for how much of the time it was busy.
pub(super) fn fill(dir: &Path, window: Span, is_write: bool, facts: &mut Facts) -> Result<(), TableError> {
    let direction = if is_write { Direction::NearToFar } else { Direction::FarToNear };
    let mut way_ns = u64::MAX;
    tables::read_pieces::<Packet>(dir, Some(COLUMNS), |piece| {
        let rows = delivered(&piece, direction, window);
        let least = rows.map(|row| piece.scheduled_t_ns[row].saturating_sub(piece.ingress_t_ns[row])).min();
        way_ns = way_ns.min(least.unwrap_or(u64::MAX));
    })?;
    if way_ns == u64::MAX {
        return Ok(());
    }
    let mut seen = Seen::default();
    tables::read_pieces::<Packet>(dir, Some(COLUMNS), |piece| {
        for row in delivered(&piece, direction, window) {
            let (came, out) = (piece.ingress_t_ns[row], piece.scheduled_t_ns[row]);
            let gap = out.saturating_sub(seen.before_ns);
            let follows = seen.before_ns > 0 && came + way_ns + NOISE_NS < seen.before_ns && gap > 0;
            if follows {
                seen.back_to_back_ns += gap;
                seen.back_to_back_bytes += u64::from(piece.payload_bytes[row]);
            }
            seen.payload_bytes += u64::from(piece.payload_bytes[row]);
            seen.before_ns = out;
        }
    })?;
    if seen.back_to_back_ns < LEAST_BUSY_NS || seen.payload_bytes == 0 {
        return Ok(());
    }
    let line = seen.back_to_back_bytes as f64 / (seen.back_to_back_ns as f64 / 1e9);
    let carried = seen.payload_bytes as f64 / window.length_s().max(1e-9);
    // Headers of PDUs, and what was sent twice, are no application's bytes.
    let useful = (facts.current.bytes_per_s / carried.max(1.0)).clamp(0.5, 1.0);
    facts.line_bytes_per_s = Some(line * useful);
    facts.line_busy = Some((carried / line).min(1.0));
    Ok(())
}

fn delivered(piece: &Packets, direction: Direction, window: Span) -> impl Iterator<Item = usize> {
    let inside = move |row: &usize| {
        let is_in = (window.start_ns..window.end_ns).contains(&piece.scheduled_t_ns[*row]);
        piece.direction[*row] == direction && piece.fate[*row] == Fate::Delivered && is_in
    };
    (0..piece.direction.len()).filter(inside)
}
