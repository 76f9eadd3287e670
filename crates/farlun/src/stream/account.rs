//! What one end of a stream knows of itself at its end: CPU time, what its TCP was limited by, and the limits of its host.

use std::time::Duration;

use net::tcp;
use net::tcp_info::TcpInfo;
use serde::Serialize;

use super::limits::Limits;

/// One end. A receiver's TCP sends next to nothing, so that only CPU time and memory mean something there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct Account {
    /// CPU time of the thread.
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
    /// The largest window that the peer offered.
    pub(super) peer_window_max_bytes: u64,
    /// When the congestion window had become about what it then was; 0 if that is not known.
    pub(super) full_window_ns: u64,
    /// The smallest round trip.
    pub(super) min_rtt_ns: u64,
    /// The most memory that all of the host's TCP had.
    pub(super) memory_max_bytes: u64,
    /// What came of sending without a copy: a [`super::outlet::ZeroCopy`].
    #[serde(skip)]
    pub(super) zero_copy: u64,
}

/// One end and its host, as documents have it; of several streams the sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(super) struct End {
    #[serde(flatten)]
    pub(super) account: Account,
    /// How far `tcp_rmem` lets a receive buffer grow; 0 if that is not known.
    receive_buffer_limit_bytes: u64,
    /// How far `tcp_wmem` lets a send buffer grow.
    send_buffer_limit_bytes: u64,
    /// From where on `tcp_mem` makes TCP frugal.
    memory_pressure_bytes: u64,
    #[serde(skip)]
    pub(super) limits: Limits,
}

impl Account {
    /// Fields on the wire.
    pub(super) const WORDS: usize = 11;

    /// Takes another look; the kernel's counters run from the connection's start.
    pub(super) fn look(&mut self, info: &TcpInfo) {
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

    /// The same for the memory of the host, which is in files and costs more to look at.
    pub(super) fn look_at_memory(&mut self) {
        if let Some((used, _)) = tcp::memory() {
            self.memory_max_bytes = self.memory_max_bytes.max(used);
        }
    }

    pub(super) fn words(mut self) -> [u64; Account::WORDS] {
        self.fields().map(|field| *field)
    }

    pub(super) fn from_words(words: [u64; Account::WORDS]) -> Account {
        let mut account = Account::default();
        for (field, word) in account.fields().into_iter().zip(words) {
            *field = word;
        }
        account
    }

    /// In the order of the wire.
    fn fields(&mut self) -> [&mut u64; Account::WORDS] {
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

impl End {
    pub(super) fn new(account: Account, limits: Limits) -> End {
        End {
            account,
            receive_buffer_limit_bytes: limits.receive_bytes[2],
            send_buffer_limit_bytes: limits.send_bytes[2],
            memory_pressure_bytes: limits.pressure_bytes(),
            limits,
        }
    }

    /// All streams' ends at one host: times, windows and packets added up, the smallest round trip, the last window to be
    /// full. What the host has once stays as it is.
    pub(super) fn together(ends: &[End]) -> End {
        let Some(first) = ends.first() else { return End::default() };
        let all = |field: fn(&Account) -> u64| ends.iter().map(move |end| field(&end.account));
        let sum = |field| all(field).sum::<u64>();
        let is_known = all(|account| account.full_window_ns).all(|ns| ns > 0);
        let account = Account {
            cpu_ns: sum(|account| account.cpu_ns),
            busy_ns: sum(|account| account.busy_ns),
            rwnd_limited_ns: sum(|account| account.rwnd_limited_ns),
            sndbuf_limited_ns: sum(|account| account.sndbuf_limited_ns),
            retransmitted: sum(|account| account.retransmitted),
            window_max_bytes: sum(|account| account.window_max_bytes),
            peer_window_max_bytes: sum(|account| account.peer_window_max_bytes),
            full_window_ns: all(|account| account.full_window_ns).max().filter(|_| is_known).unwrap_or(0),
            min_rtt_ns: all(|account| account.min_rtt_ns).filter(|ns| *ns > 0).min().unwrap_or(0),
            memory_max_bytes: all(|account| account.memory_max_bytes).max().unwrap_or(0),
            zero_copy: first.account.zero_copy,
        };
        End::new(account, first.limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_ends_of_a_host_are_added_up() {
        let one = Account {
            cpu_ns: 1,
            retransmitted: 2,
            full_window_ns: 9,
            min_rtt_ns: 7,
            memory_max_bytes: 5,
            ..Account::default()
        };
        let other = Account { cpu_ns: 10, min_rtt_ns: 3, full_window_ns: 4, ..one };
        let limits =
            Limits { receive_bytes: [1, 2, 3], memory_pages: [1, 2, 3], page_bytes: 10, ..Limits::default() };
        let [a, b] = [one, other].map(|account| End::new(account, limits));
        let both = End::together(&[a, b]);
        let expected = Account {
            cpu_ns: 11,
            retransmitted: 4,
            full_window_ns: 9,
            min_rtt_ns: 3,
            memory_max_bytes: 5,
            ..one
        };
        assert_eq!(
            (both.account, both.receive_buffer_limit_bytes, both.memory_pressure_bytes),
            (expected, 3, 20)
        );
        let unknown = End::new(Account { full_window_ns: 0, min_rtt_ns: 0, ..one }, limits);
        let account = End::together(&[a, unknown]).account;
        assert_eq!((account.full_window_ns, account.min_rtt_ns), (0, 7));
    }
}
