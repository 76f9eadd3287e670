//! Path MTU black hole of a connection: the time that it took and the numbers that show it.

use diagnosis::Evidence;
use dissect::{BlackHole, ConnectionSummary as Connection, TimeUse};

/// Time in seconds that segments too large for the path held a connection up, and the evidence; `None` without one.
pub(super) fn of(connection: &Connection, time: TimeUse) -> Option<(f64, Vec<Evidence>)> {
    let found = connection.directions.iter().filter_map(|direction| direction.black_hole);
    let found = found.max_by(|one, other| one.stalled_s.total_cmp(&other.stalled_s))?;
    Some((found.stalled_s.min(time.recovery_s), evidence(found)))
}

fn evidence(found: BlackHole) -> Vec<Evidence> {
    let BlackHole { segment_bytes, arrived_bytes, retransmissions, stalled_s, .. } = found;
    let bytes = |name, value, source| Evidence::new(name, value as f64, "bytes", source);
    vec![
        bytes("smallest segment that never arrived", segment_bytes, "directions.black_hole.segment_bytes"),
        bytes("largest segment that arrived", arrived_bytes, "directions.black_hole.arrived_bytes"),
        Evidence::new(
            "retransmissions in vain",
            retransmissions as f64,
            "packets",
            "directions.black_hole.retransmissions",
        ),
        Evidence::new("time without progress", stalled_s, "s", "directions.black_hole.stalled_s"),
    ]
}
