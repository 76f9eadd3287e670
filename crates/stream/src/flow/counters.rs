//! Counters of one end of a stream: CPU time, limits of its TCP, and the limits of its host.

use std::time::Duration;

use net::tcp;
use net::tcp_info::TcpInfo;
use serde::Serialize;

use crate::limits::host::HostLimits;

/// Counters of one end. A receiver's TCP sends next to nothing: only CPU time and memory have a meaning there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct EndCounters {
    /// CPU time of the thread, ns.
    pub(crate) cpu_ns: u64,
    /// Time with data to send, ns.
    pub(crate) busy_ns: u64,
    /// Part of it limited by the peer's receive window, ns.
    pub(crate) rwnd_limited_ns: u64,
    /// Part of it limited by the send buffer, ns.
    pub(crate) sndbuf_limited_ns: u64,
    /// Packets retransmitted.
    pub(crate) retransmitted: u64,
    /// Largest congestion window.
    pub(crate) window_max_bytes: u64,
    /// Largest window advertised by the peer.
    pub(crate) peer_window_max_bytes: u64,
    /// Time until the congestion window was within 5 % of its later size, ns; 0 if not known.
    pub(crate) full_window_ns: u64,
    /// Smallest round-trip time, ns; 0 if not known.
    pub(crate) min_rtt_ns: u64,
    /// Largest memory of all TCP of the host.
    pub(crate) memory_max_bytes: u64,
    /// State of sending without a copy: a word of [`super::source::ZeroCopy`].
    #[serde(skip)]
    pub(crate) zero_copy: u64,
}

/// Counters and host limits of one end, as documents have them; for several streams the sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct EndReport {
    #[serde(flatten)]
    pub(crate) counters: EndCounters,
    /// Limit of a receive buffer (`tcp_rmem`); 0 if not known.
    receive_buffer_limit_bytes: u64,
    /// Limit of a send buffer (`tcp_wmem`).
    send_buffer_limit_bytes: u64,
    /// Memory pressure of TCP (`tcp_mem`).
    memory_pressure_bytes: u64,
    #[serde(skip)]
    pub(crate) limits: HostLimits,
}

impl EndCounters {
    /// Fields on the wire.
    pub(crate) const WORDS: usize = 11;

    /// Takes the values of TCP_INFO, which count from the connection's start.
    pub(crate) fn update(&mut self, info: &TcpInfo) {
        let ns = |time: Duration| time.as_nanos() as u64;
        self.busy_ns = ns(info.busy);
        self.rwnd_limited_ns = ns(info.receive_window_limited);
        self.sndbuf_limited_ns = ns(info.send_buffer_limited);
        self.retransmitted = info.retransmitted_packets.into();
        let window_bytes = u64::from(info.cwnd_packets) * u64::from(info.mss_bytes);
        self.window_max_bytes = self.window_max_bytes.max(window_bytes);
        self.peer_window_max_bytes = self.peer_window_max_bytes.max(info.snd_wnd_bytes.into());
        self.min_rtt_ns = info.min_rtt.map_or(self.min_rtt_ns, ns);
    }

    /// Takes the memory of all TCP of the host; it is in files, which cost more to read.
    pub(crate) fn update_memory(&mut self) {
        if let Some((used, _)) = tcp::memory() {
            self.memory_max_bytes = self.memory_max_bytes.max(used);
        }
    }

    pub(crate) fn words(mut self) -> [u64; EndCounters::WORDS] {
        self.fields().map(|field| *field)
    }

    pub(crate) fn from_words(words: [u64; EndCounters::WORDS]) -> EndCounters {
        let mut counters = EndCounters::default();
        for (field, word) in counters.fields().into_iter().zip(words) {
            *field = word;
        }
        counters
    }

    /// Fields in the order of the wire.
    fn fields(&mut self) -> [&mut u64; EndCounters::WORDS] {
        [
            &mut self.cpu_ns,
            &mut self.busy_ns,
            &mut self.rwnd_limited_ns,
            &mut self.sndbuf_limited_ns,
            &mut self.retransmitted,
            &mut self.window_max_bytes,
            &mut self.peer_window_max_bytes,
            &mut self.full_window_ns,
            &mut self.min_rtt_ns,
            &mut self.memory_max_bytes,
            &mut self.zero_copy,
        ]
    }
}

impl EndReport {
    pub(crate) fn new(counters: EndCounters, limits: HostLimits) -> EndReport {
        EndReport {
            counters,
            receive_buffer_limit_bytes: limits.receive_bytes[2],
            send_buffer_limit_bytes: limits.send_bytes[2],
            memory_pressure_bytes: limits.pressure_bytes(),
            limits,
        }
    }

    /// Sum over the streams' ends at one host: times, windows and packets added, the smallest round trip, the latest full
    /// window. Limits of the host count once.
    pub(crate) fn together(ends: &[EndReport]) -> EndReport {
        let Some(first) = ends.first() else { return EndReport::default() };
        let all = |field: fn(&EndCounters) -> u64| ends.iter().map(move |end| field(&end.counters));
        let sum = |field| all(field).sum::<u64>();
        let is_known = all(|counters| counters.full_window_ns).all(|ns| ns > 0);
        let counters = EndCounters {
            cpu_ns: sum(|counters| counters.cpu_ns),
            busy_ns: sum(|counters| counters.busy_ns),
            rwnd_limited_ns: sum(|counters| counters.rwnd_limited_ns),
            sndbuf_limited_ns: sum(|counters| counters.sndbuf_limited_ns),
            retransmitted: sum(|counters| counters.retransmitted),
            window_max_bytes: sum(|counters| counters.window_max_bytes),
            peer_window_max_bytes: sum(|counters| counters.peer_window_max_bytes),
            full_window_ns: all(|counters| counters.full_window_ns).max().filter(|_| is_known).unwrap_or(0),
            min_rtt_ns: all(|counters| counters.min_rtt_ns).filter(|ns| *ns > 0).min().unwrap_or(0),
            memory_max_bytes: all(|counters| counters.memory_max_bytes).max().unwrap_or(0),
            zero_copy: first.counters.zero_copy,
        };
        EndReport::new(counters, first.limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_ends_of_a_host_are_added_up() {
        let one = EndCounters {
            cpu_ns: 1,
            retransmitted: 2,
            full_window_ns: 9,
            min_rtt_ns: 7,
            memory_max_bytes: 5,
            ..EndCounters::default()
        };
        let other = EndCounters { cpu_ns: 10, min_rtt_ns: 3, full_window_ns: 4, ..one };
        let limits = HostLimits {
            receive_bytes: [1, 2, 3],
            memory_pages: [1, 2, 3],
            page_bytes: 10,
            ..HostLimits::default()
        };
        let [a, b] = [one, other].map(|counters| EndReport::new(counters, limits));
        let both = EndReport::together(&[a, b]);
        let expected = EndCounters {
            cpu_ns: 11,
            retransmitted: 4,
            full_window_ns: 9,
            min_rtt_ns: 3,
            memory_max_bytes: 5,
            ..one
        };
        assert_eq!(
            (both.counters, both.receive_buffer_limit_bytes, both.memory_pressure_bytes),
            (expected, 3, 20)
        );
        let unknown = EndReport::new(EndCounters { full_window_ns: 0, min_rtt_ns: 0, ..one }, limits);
        let counters = EndReport::together(&[a, unknown]).counters;
        assert_eq!((counters.full_window_ns, counters.min_rtt_ns), (0, 7));
    }
}
