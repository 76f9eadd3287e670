//! Windows of both ends of a load: the sender's congestion window, the receiver's advertised window.
//!
//! Both from the sender's TCP, over the window of the figures. And those of the study of a stream around the world, for
//! a table of both.

use std::collections::BTreeMap;

use event::{Direction, Host, Op};
use tables::Sockets;
use tables::manifest::Load;

use crate::{Span, Spread};

/// Windows of the connection that sent most.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Windows {
    /// The middle congestion window of its sender, in bytes.
    pub sender_bytes: f64,
    /// Median window that its receiver advertised; `None` if the kernel does not report it.
    pub receiver_bytes: Option<f64>,
}

/// A row of the study's table: TCP/IPv6 over an emulated path at 10 Gb/s, packets of 9198 bytes, BIC.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Published {
    /// Round trip.
    pub rtt_ms: u32,
    /// The sender's window as the study set it.
    pub sender_bytes: f64,
    /// The receiver's window as the study set it.
    pub receiver_bytes: f64,
    /// The rate it reached, which the hosts' bus limited.
    pub bits_per_s: f64,
    /// Time until the window was full.
    pub full_s: f64,
    /// CPU time of its sender and its receiver: 1 is a whole processor. It gives one figure for all round trips.
    pub cpu: [f64; 2],
}

/// The study's table.
const PUBLISHED: [Published; 7] = [
    published(0, [1e6, 1e6], 7.13e9, 0.0),
    published(50, [40e6, 50e6], 7.12e9, 4.0),
    published(100, [80e6, 100e6], 7.12e9, 8.0),
    published(200, [160e6, 200e6], 7.12e9, 17.0),
    published(300, [240e6, 300e6], 7.12e9, 33.0),
    published(400, [320e6, 400e6], 7.12e9, 40.0),
    published(500, [400e6, 500e6], 7.12e9, 50.0),
];

const fn published(
    rtt_ms: u32,
    [sender_bytes, receiver_bytes]: [f64; 2],
    bits_per_s: f64,
    full_s: f64,
) -> Published {
    Published { rtt_ms, sender_bytes, receiver_bytes, bits_per_s, full_s, cpu: [1.0, 0.6] }
}

/// The study's windows at a round trip, if it has them.
pub fn published_at(rtt_s: f64) -> Option<&'static Published> {
    PUBLISHED.iter().find(|row| (rtt_s * 1e3 - f64::from(row.rtt_ms)).abs() < 0.5)
}

/// The end that sends most bytes of a load; `None` for a stream without a direction.
pub fn sender(load: &Load) -> Option<Host> {
    match (load.op.as_str(), load.direction.as_deref()) {
        (op, _) if op == Op::Read.name() => Some(Host::Far),
        (op, _) if op == Op::Write.name() => Some(Host::Near),
        (_, Some(way)) if way == Direction::NearToFar.name() => Some(Host::Near),
        (_, Some(way)) if way == Direction::FarToNear.name() => Some(Host::Far),
        _ => None,
    }
}

/// Samples of one connection at the sender.
#[derive(Default)]
struct Seen {
    acked: Vec<u64>,
    own: Vec<f64>,
    offered: Vec<f64>,
}

/// The windows of the connection by which this host sent most during a window; `None` if it recorded none.
pub fn windows(table: &Sockets, sender: Host, window: Span) -> Option<Windows> {
    let mut connections: BTreeMap<u32, Seen> = BTreeMap::new();
    for row in 0..table.t_ns.len() {
        if table.host[row] != sender || !(window.start_ns..=window.end_ns).contains(&table.t_ns[row]) {
            continue;
        }
        let seen = connections.entry(table.connection[row]).or_default();
        seen.acked.push(table.acked_bytes[row]);
        seen.own.push(f64::from(table.cwnd_packets[row]) * f64::from(table.mss_bytes[row]));
        seen.offered.extend(Some(f64::from(table.snd_wnd_bytes[row])).filter(|bytes| *bytes > 0.0));
    }
    let grown = |seen: &Seen| {
        let (least, most) = (seen.acked.iter().min(), seen.acked.iter().max());
        least.zip(most).map_or(0, |(least, most)| most - least)
    };
    let busiest = connections.into_values().max_by_key(grown)?;
    let middle = |values: &[f64]| Spread::of(values).map(|spread| spread.median);
    Some(Windows { sender_bytes: middle(&busiest.own)?, receiver_bytes: middle(&busiest.offered) })
}

#[cfg(test)]
mod tests {
    use event::SocketSample;
    use tables::Row;

    use super::*;
    use crate::tcp::sockets::tests::sample;

    #[test]
    fn windows_are_those_of_the_connection_that_sent_most() {
        let mut table = Sockets::default();
        for i in 0..10u64 {
            for (connection, acked_bytes, cwnd_packets) in [(1, i * 1_000, 10), (2, i * 9_000, 40)] {
                let far = sample(i * 1_000, Host::Far, 0);
                // It offers more once it has learnt how much is needed.
                let snd_wnd_bytes = if i < 5 { 65_536 } else { 500_000 };
                SocketSample { connection, acked_bytes, cwnd_packets, snd_wnd_bytes, ..far }.push(&mut table);
            }
            sample(i * 1_000, Host::Near, i * 10_000).push(&mut table);
        }
        let seen = windows(&table, Host::Far, Span { start_ns: 5_000, end_ns: 9_000 }).unwrap();
        assert_eq!(seen, Windows { sender_bytes: 40.0 * 1448.0, receiver_bytes: Some(500_000.0) });
        let near = windows(&table, Host::Near, Span { start_ns: 0, end_ns: 9_000 }).unwrap();
        assert_eq!(near.receiver_bytes, None, "the kernel said nothing");
        assert_eq!(windows(&table, Host::Far, Span { start_ns: 20_000, end_ns: 30_000 }), None);
    }

    #[test]
    fn the_study_is_found_by_its_round_trip() {
        assert_eq!(published_at(0.5).map(|row| (row.bits_per_s, row.full_s)), Some((7.12e9, 50.0)));
        assert_eq!(published_at(0.0).map(|row| row.receiver_bytes), Some(1e6));
        assert_eq!(published_at(0.8), None);
    }

    #[test]
    fn who_sends() {
        let load = |op: &str, way: Option<&str>| Load {
            op: op.to_owned(),
            direction: way.map(str::to_owned),
            ..Load::default()
        };
        assert_eq!(sender(&load("read", None)), Some(Host::Far));
        assert_eq!(sender(&load("write", None)), Some(Host::Near));
        assert_eq!(sender(&load("stream", Some("far-to-near"))), Some(Host::Far));
        assert_eq!(sender(&load("stream", Some("near-to-far"))), Some(Host::Near));
        assert_eq!(sender(&load("stream", None)), None);
    }
}
