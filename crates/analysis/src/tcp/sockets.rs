//! The sender's TCP over time: congestion window, round-trip time, retransmissions.

use event::Host;
use serde::Serialize;
use tables::Sockets;

use super::cuts::Cuts;
use crate::{Sample, Span};

/// One connection at one host, over a load.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Connection {
    /// `near` or `far`.
    pub host: String,
    /// Number within its process.
    pub connection: u32,
    /// Congestion window, bytes.
    pub cwnd_bytes: Vec<Sample>,
    /// Length of a request in bytes: the policy's decision, or the caller's length if the policy leaves it. Empty
    /// without a policy, or for a load without requests.
    pub block_bytes: Vec<Sample>,
    /// Smoothed round-trip time, seconds.
    pub rtt_s: Vec<Sample>,
    /// Pacing rate, bits per second; empty while unpaced.
    pub pacing_bits_per_s: Vec<Sample>,
    /// Packets retransmitted during the load.
    pub retransmitted_packets: u64,
    /// Number of window cuts during the load, by reason.
    pub cuts: Cuts,
    /// Application payload sent during the load.
    pub sent_bytes: u64,
}

/// Connections with samples during the load, the one with most bytes sent first. `block_bytes` is the caller's.
pub fn connections(table: &Sockets, load: Span, block_bytes: Option<u64>) -> Vec<Connection> {
    let mut found: Vec<(Host, u32, Vec<usize>)> = Vec::new();
    for row in 0..table.t_ns.len() {
        if !(load.start_ns..=load.end_ns).contains(&table.t_ns[row]) {
            continue;
        }
        let (host, number) = (table.host[row], table.connection[row]);
        match found.iter_mut().find(|(h, n, _)| (*h, *n) == (host, number)) {
            Some((_, _, rows)) => rows.push(row),
            None => found.push((host, number, vec![row])),
        }
    }
    let mut connections: Vec<Connection> = found
        .into_iter()
        .map(|(host, number, mut rows)| {
            rows.sort_unstable_by_key(|row| table.t_ns[*row]);
            connection(table, host, number, &rows, load, block_bytes)
        })
        .collect();
    connections.sort_by_key(|c| std::cmp::Reverse(c.sent_bytes));
    connections
}

fn connection(
    table: &Sockets,
    host: Host,
    number: u32,
    rows: &[usize],
    load: Span,
    block_bytes: Option<u64>,
) -> Connection {
    let at = |row: usize| (table.t_ns[row] - load.start_ns) as f64 / 1e9;
    let grown = |column: &dyn Fn(usize) -> u64| match (rows.first(), rows.last()) {
        (Some(first), Some(last)) => column(*last).saturating_sub(column(*first)),
        _ => 0,
    };
    let cwnd = |row: usize| f64::from(table.cwnd_packets[row]) * f64::from(table.mss_bytes[row]);
    let paced = |row: &&usize| table.pacing_rate_bytes_per_s[**row] != u64::MAX;
    let pacing = |row: usize| table.pacing_rate_bytes_per_s[row] as f64 * 8.0;
    Connection {
        host: host.name().to_owned(),
        connection: number,
        cwnd_bytes: rows.iter().map(|row| (at(*row), cwnd(*row))).collect(),
        block_bytes: blocks(table, rows, load, block_bytes),
        rtt_s: rows.iter().map(|row| (at(*row), table.rtt_ns[*row] as f64 / 1e9)).collect(),
        pacing_bits_per_s: rows.iter().filter(paced).map(|row| (at(*row), pacing(*row))).collect(),
        retransmitted_packets: grown(&|row| u64::from(table.retransmitted_packets[row])),
        cuts: Cuts::among(table, rows),
        sent_bytes: grown(&|row| table.app_tx_bytes[row]),
    }
}

/// Request length decided by the policy, over time.
fn blocks(table: &Sockets, rows: &[usize], load: Span, callers_bytes: Option<u64>) -> Vec<Sample> {
    let decided = &table.steered.decided;
    let of_row = |row: &usize| {
        let is_asked = decided.decided_outstanding_bytes[*row] > 0;
        let block_bytes = Some(decided.decided_block_bytes[*row]).filter(|bytes| *bytes > 0);
        let bytes = block_bytes.or(callers_bytes).filter(|_| is_asked)?;
        Some(((table.t_ns[*row] - load.start_ns) as f64 / 1e9, bytes as f64))
    };
    rows.iter().filter_map(of_row).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use event::{Decided, Granted, Instant, SocketSample, Steered};
    use tables::Row;

    use super::*;

    /// A sample of connection 1 that has received so much.
    pub(crate) fn sample(t_ns: u64, host: Host, app_rx_bytes: u64) -> SocketSample {
        SocketSample {
            app_rx_bytes,
            cwnd_packets: 10,
            mss_bytes: 1448,
            rtt_ns: 16_000_000,
            min_rtt_ns: 16_000_000,
            ..SocketSample::new(Instant::from_nanos(t_ns), host, 1)
        }
    }

    #[test]
    fn the_busiest_connection_comes_first_and_only_the_load_counts() {
        let mut table = Sockets::default();
        for i in 0..10u64 {
            let base = sample(i * 1000, Host::Near, 0);
            SocketSample { app_tx_bytes: i, ..base }.push(&mut table);
            let far = SocketSample {
                host: Host::Far,
                app_tx_bytes: i * 100,
                retransmitted_packets: i as u32,
                ..base
            };
            SocketSample { pacing_rate_bytes_per_s: 5, ..far }.push(&mut table);
        }
        let found = connections(&table, Span { start_ns: 2000, end_ns: 8000 }, None);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].host.as_str(), found[0].sent_bytes, found[0].retransmitted_packets),
            ("far", 600, 6)
        );
        assert_eq!(found[0].cwnd_bytes[0], (0.0, 14_480.0));
        assert_eq!((found[0].pacing_bits_per_s.len(), found[1].pacing_bits_per_s.len()), (7, 0));
        assert!(found.iter().all(|connection| connection.block_bytes.is_empty()), "nobody was asked");
    }

    #[test]
    fn a_block_is_the_policys_or_the_callers() {
        let decided = |block_bytes| Decided {
            block_bytes,
            outstanding_bytes: 1 << 20,
            commands: 1,
            pacing_bytes_per_s: u64::MAX,
            burst_bytes_per_s: u64::MAX,
            burst_depth_bytes: 0,
            held_bytes: u64::MAX,
            thresholds_forgotten: 0,
            congestion: event::CongestionDecision::HOSTS,
            look_ns: 0,
        };
        let steered = |block_bytes| Steered {
            burst_bytes: 0,
            was_spaced: false,
            handed_bytes_per_s: 0,
            has_company: false,
            paces_itself: false,
            may_change: event::MayChange::Unasked,
            remembered_ppm: 0,
            paced_one_by_one: false,
            forgets_freely: false,
            granted: Granted::Unsaid,
            told: None,
            decided: decided(block_bytes),
        };
        let mut table = Sockets::default();
        for (n, block_bytes) in [Some(0), None, Some(296_448)].into_iter().enumerate() {
            let base = sample(1_000_000_000 + n as u64 * 500_000_000, Host::Near, 0);
            SocketSample { steered: block_bytes.map(steered), ..base }.push(&mut table);
        }
        let load = Span { start_ns: 1_000_000_000, end_ns: 3_000_000_000 };
        let blocks = |caller| connections(&table, load, caller).remove(0).block_bytes;
        assert_eq!(blocks(Some(1 << 20)), [(0.0, 1_048_576.0), (1.0, 296_448.0)]);
        assert_eq!(blocks(None), [(1.0, 296_448.0)], "a stream has no requests");
    }
}
