//! Path MTU black hole of a connection: the time that it took and the numbers that show it.

use diagnosis::Evidence;
use dissect::{BlackHole, ConnectionEvent, ConnectionSummary as Connection, TimeUse};

/// Time in seconds that segments too large for the path held a connection up, and the evidence; `None` without one.
pub(super) fn of(connection: &Connection, time: TimeUse) -> Option<(f64, Vec<Evidence>)> {
    let found = connection.directions.iter().filter_map(|direction| direction.black_hole);
    let found = found.max_by(|one, other| one.stalled_s.total_cmp(&other.stalled_s))?;
    let mut shown = evidence(found);
    shown.extend(reports(connection));
    Some((found.stalled_s.min(time.recovery_s), shown))
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

/// ICMP reports of a path MTU, and the smallest MTU in them.
fn reports(connection: &Connection) -> Vec<Evidence> {
    let reports = || {
        connection.events.iter().filter_map(|event| match event.event {
            ConnectionEvent::PacketTooBig { mtu_bytes } => Some((event.count, mtu_bytes)),
            _ => None,
        })
    };
    let count = reports().map(|(count, _)| count).sum::<u64>();
    if count == 0 {
        return Vec::new();
    }
    let mtu = reports().filter_map(|(_, mtu_bytes)| mtu_bytes).min();
    let seen = "connections.events";
    let mut shown = vec![Evidence::new("ICMP messages, packet too big", count as f64, "packets", seen)];
    shown.extend(mtu.map(|bytes| {
        Evidence::new(
            "MTU of the next hop in them",
            f64::from(bytes),
            "bytes",
            "connections.events.mtu_bytes",
        )
    }));
    shown
}
