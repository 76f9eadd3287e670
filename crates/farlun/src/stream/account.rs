//! What one end of a stream knows of itself at its end: CPU time, what its TCP was limited by, and the limits of its host.

use std::time::Duration;

use net::tcp;
use net::tcp_info::TcpInfo;
use serde::Serialize;

/// One end. A receiver's TCP sends next to nothing, so that only CPU time and limits mean something there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Account {
    /// CPU time of the process.
    pub(super) cpu_ns: u64,
    /// Time with something to send.
    pub(super) busy_ns: u64,
    /// Part of it in which the peer's receive window was the limit.
    pub(super) rwnd_limited_ns: u64,
    /// Part of it in which the own send buffer was.
    pub(super) sndbuf_limited_ns: u64,
    /// Packets that were sent again.
    pub(super) retransmitted: u64,
    /// The largest congestion window.
    pub(super) window_max_bytes: u64,
    /// The smallest round trip.
    pub(super) min_rtt_ns: u64,
    /// How far `tcp_rmem` lets a receive buffer grow; 0 if that is not known.
    pub(super) receive_buffer_limit_bytes: u64,
    /// How far `tcp_wmem` lets a send buffer grow.
    pub(super) send_buffer_limit_bytes: u64,
    /// The most memory that all of the host's TCP had.
    pub(super) memory_max_bytes: u64,
    /// From where on `tcp_mem` makes TCP frugal.
    pub(super) memory_pressure_bytes: u64,
}

impl Account {
    /// Fields on the wire.
    pub(super) const WORDS: usize = 11;

    /// Before anything was sent.
    pub(super) fn new() -> Account {
        let (receive, send) = tcp::autotuning_limits().unwrap_or((0, 0));
        Account { receive_buffer_limit_bytes: receive, send_buffer_limit_bytes: send, ..Account::default() }
    }

    /// Takes another look; the kernel's counters run from the connection's start.
    pub(super) fn look(&mut self, info: &TcpInfo) {
        let ns = |time: Duration| time.as_nanos() as u64;
        self.busy_ns = ns(info.busy);
        self.rwnd_limited_ns = ns(info.receive_window_limited);
        self.sndbuf_limited_ns = ns(info.send_buffer_limited);
        self.retransmitted = info.retransmitted_packets.into();
        let window_bytes = u64::from(info.cwnd_packets) * u64::from(info.mss_bytes);
        self.window_max_bytes = self.window_max_bytes.max(window_bytes);
        self.min_rtt_ns = info.min_rtt.map_or(self.min_rtt_ns, ns);
    }

    /// The same for the memory of the host, which is in files and costs more to look at.
    pub(super) fn look_at_memory(&mut self) {
        if let Some((used, pressure)) = tcp::memory() {
            self.memory_max_bytes = self.memory_max_bytes.max(used);
            self.memory_pressure_bytes = pressure;
        }
    }

    pub(super) const fn words(&self) -> [u64; Account::WORDS] {
        [
            self.cpu_ns,
            self.busy_ns,
            self.rwnd_limited_ns,
            self.sndbuf_limited_ns,
            self.retransmitted,
            self.window_max_bytes,
            self.min_rtt_ns,
            self.receive_buffer_limit_bytes,
            self.send_buffer_limit_bytes,
            self.memory_max_bytes,
            self.memory_pressure_bytes,
        ]
    }

    pub(super) const fn from_words(words: [u64; Account::WORDS]) -> Account {
        let [
            cpu_ns,
            busy_ns,
            rwnd_limited_ns,
            sndbuf_limited_ns,
            retransmitted,
            window_max_bytes,
            min_rtt_ns,
            receive_buffer_limit_bytes,
            send_buffer_limit_bytes,
            memory_max_bytes,
            memory_pressure_bytes,
        ] = words;
        Account {
            cpu_ns,
            busy_ns,
            rwnd_limited_ns,
            sndbuf_limited_ns,
            retransmitted,
            window_max_bytes,
            min_rtt_ns,
            receive_buffer_limit_bytes,
            send_buffer_limit_bytes,
            memory_max_bytes,
            memory_pressure_bytes,
        }
    }
}
