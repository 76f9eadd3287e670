//! Lateness of the emulated path's deliveries, and its drops, from the table `packets`.

use event::Fate;
use serde::Serialize;
use tables::Packets;

use crate::load::latency::percentile;

/// Lateness (of delivery, and of reading it first) over all delivered packets of a cell, and the fates of all.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Lateness {
    /// Median.
    pub p50_s: f64,
    /// 99th percentile.
    pub p99_s: f64,
    /// Largest.
    pub max_s: f64,
    /// Packets and super-packets delivered.
    pub delivered: u64,
    /// Dropped by the model: its queue was full.
    pub dropped_queue_full: u64,
    /// Dropped by the emulator or a device.
    pub dropped_unasked: u64,
}

/// Lateness of a cell; all zero if nothing was delivered.
pub fn of(packets: &Packets) -> Lateness {
    let fate = |wanted: Fate| packets.fate.iter().filter(|fate| **fate == wanted).count() as u64;
    let delivered = (0..packets.fate.len()).filter(|row| packets.fate[*row] == Fate::Delivered);
    let mut late_ns: Vec<u64> = delivered
        .map(|row| {
            let late_ns = packets.egress_t_ns[row].saturating_sub(packets.scheduled_t_ns[row]);
            late_ns.saturating_add(packets.unseen_ns[row])
        })
        .collect();
    late_ns.sort_unstable();
    let s = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / 1e9);
    Lateness {
        p50_s: s(percentile(&late_ns, 0.5)),
        p99_s: s(percentile(&late_ns, 0.99)),
        max_s: s(late_ns.last().copied()),
        delivered: late_ns.len() as u64,
        dropped_queue_full: fate(Fate::QueueFull),
        dropped_unasked: fate(Fate::NoBuffer) + fate(Fate::DeviceRefused),
    }
}

#[cfg(test)]
mod tests {
    use event::{Direction, Instant, Packet};
    use tables::Row;

    use super::*;

    #[test]
    fn only_what_was_delivered_can_be_late() {
        let mut packets = Packets::default();
        for i in 0..100u64 {
            let scheduled = Instant::from_nanos(1_000_000);
            Packet {
                ingress: Instant::ZERO,
                scheduled,
                egress: Instant::from_nanos(1_000_000 + i * 1000),
                direction: Direction::NearToFar,
                number: 1,
                fate: if i == 99 { Fate::QueueFull } else { Fate::Delivered },
                ip_bytes: 1500,
                segments: 1,
                src_host: 0,
                dst_host: 100,
                tcp: None,
                unseen_ns: i % 2 * 1000,
            }
            .push(&mut packets);
        }
        let lateness = of(&packets);
        assert_eq!((lateness.p50_s, lateness.max_s), (50e-6, 98e-6));
        assert_eq!((lateness.delivered, lateness.dropped_queue_full, lateness.dropped_unasked), (99, 1, 0));
        assert_eq!(of(&Packets::default()), Lateness::default());
        (packets.egress_t_ns[0], packets.unseen_ns[0]) = (u64::MAX, u64::MAX);
        assert_eq!(of(&packets).max_s, u64::MAX as f64 / 1e9, "a file that is not ours");
    }
}
