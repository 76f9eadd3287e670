//! What the sender's TCP did over time: congestion window, round-trip time, retransmissions.

use event::Host;
use serde::Serialize;
use store::tables::Sockets;

use crate::{Sample, Span, local_cut};

/// One connection at one host, over a load.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Connection {
    /// `near` or `far`.
    pub host: String,
    /// Its number within its process.
    pub connection: u32,
    /// Congestion window, bytes.
    pub cwnd_bytes: Vec<Sample>,
    /// Smoothed round-trip time, seconds.
    pub rtt_s: Vec<Sample>,
    /// Pacing rate, bits per second; empty while unpaced.
    pub pacing_bits_per_s: Vec<Sample>,
    /// Packets retransmitted during the load.
    pub retransmitted_packets: u64,
    /// Times that this host itself cut the window: its device was full, nothing was lost.
    pub local_cuts: u64,
    /// Application payload sent during the load.
    pub sent_bytes: u64,
}

/// Every connection that has samples during the load, the one that sent most first.
pub fn connections(table: &Sockets, load: Span) -> Vec<Connection> {
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
            connection(table, host, number, &rows, load)
        })
        .collect();
    connections.sort_by_key(|c| std::cmp::Reverse(c.sent_bytes));
    connections
}

fn connection(table: &Sockets, host: Host, number: u32, rows: &[usize], load: Span) -> Connection {
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
        rtt_s: rows.iter().map(|row| (at(*row), table.rtt_ns[*row] as f64 / 1e9)).collect(),
        pacing_bits_per_s: rows.iter().filter(paced).map(|row| (at(*row), pacing(*row))).collect(),
        retransmitted_packets: grown(&|row| u64::from(table.retransmitted_packets[row])),
        local_cuts: local_cut::count(table, rows),
        sent_bytes: grown(&|row| table.app_tx_bytes[row]),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use event::{CongestionState, Instant, SocketSample};
    use store::tables::Row;

    use super::*;

    /// A sample of connection 1 that has received so much.
    pub(crate) fn sample(t_ns: u64, host: Host, app_rx_bytes: u64) -> SocketSample {
        SocketSample {
            t: Instant::from_nanos(t_ns),
            host,
            connection: 1,
            app_rx_bytes,
            app_tx_bytes: 0,
            cwnd_packets: 10,
            ssthresh_packets: u32::MAX,
            mss_bytes: 1448,
            state: CongestionState::Open,
            rtt_ns: 16_000_000,
            min_rtt_ns: 16_000_000,
            unacked_packets: 0,
            retransmitted_packets: 0,
            delivery_rate_bytes_per_s: 0,
            pacing_rate_bytes_per_s: u64::MAX,
            notsent_bytes: 0,
            unsent_bytes: 0,
            peer_window_bytes: 0,
            busy_ns: 0,
            receive_window_limited_ns: 0,
            send_buffer_limited_ns: 0,
            command_window: 0,
            loop_idle_ns: 0,
            loop_cpu_ns: 0,
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
        let found = connections(&table, Span { start_ns: 2000, end_ns: 8000 });
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].host.as_str(), found[0].sent_bytes, found[0].retransmitted_packets),
            ("far", 600, 6)
        );
        assert_eq!(found[0].cwnd_bytes[0], (0.0, 14_480.0));
        assert_eq!((found[0].pacing_bits_per_s.len(), found[1].pacing_bits_per_s.len()), (7, 0));
    }
}
