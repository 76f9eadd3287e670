//! Why a stream was not faster: which limit was in force, from what both ends said.
//!
//! Order matters: an end without CPU time to spare also fills its buffers, and a window that is too small also keeps the
//! network from being filled. What is left when no host limits anything is the network.

use event::Bytes;
use serde::Serialize;

use super::account::Account;

/// Share of the time from which on a limit of TCP is *the* limit.
const MOSTLY: f64 = 0.2;
/// Share of one CPU from which on a single thread has no time left.
const NO_TIME: f64 = 0.9;
/// TCP's window is at most 65 535 × 2^14 bytes (RFC 7323, section 2.3).
const WINDOW_MAX_BYTES: u64 = 65_535 << 14;

/// What limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Limit {
    /// The sender's CPU.
    SenderCpu,
    /// The receiver's CPU.
    ReceiverCpu,
    /// TCP's window, 1 GiB at most.
    WindowFormat,
    /// The receiver's `tcp_rmem`.
    TcpRmem,
    /// The sender's `tcp_wmem`.
    TcpWmem,
    /// A host's `tcp_mem`.
    TcpMem,
    /// The receiver opened its window no further, for another reason.
    Receiver,
    /// The line, or TCP's opinion of it.
    Network,
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) elapsed_ns: u64,
    pub(super) bytes_per_s: f64,
    pub(super) rtt_ns: u64,
    pub(super) sender: Account,
    pub(super) receiver: Account,
}

impl Seen {
    /// The limit, and the sentence that says so.
    pub(super) fn limit(&self) -> (Limit, String) {
        let limit = self.decide();
        (limit, self.sentence(limit))
    }

    fn decide(&self) -> Limit {
        let share = |ns: u64| ns as f64 / self.elapsed_ns.max(1) as f64;
        let (sender, receiver) = (&self.sender, &self.receiver);
        let strained = |end: &Account| {
            end.memory_pressure_bytes > 0 && end.memory_max_bytes >= end.memory_pressure_bytes
        };
        if strained(sender) || strained(receiver) {
            Limit::TcpMem
        } else if share(sender.rwnd_limited_ns) >= MOSTLY {
            match self.product_bytes() {
                product if product >= WINDOW_MAX_BYTES / 10 * 9 => Limit::WindowFormat,
                // Linux offers about half of a buffer as window.
                product if near(product * 2, receiver.receive_buffer_limit_bytes) => Limit::TcpRmem,
                _ if share(receiver.cpu_ns) >= NO_TIME => Limit::ReceiverCpu,
                _ => Limit::Receiver,
            }
        } else if share(sender.sndbuf_limited_ns) >= MOSTLY
            && near(self.product_bytes() * 2, sender.send_buffer_limit_bytes)
        {
            Limit::TcpWmem
        } else if share(sender.cpu_ns) >= NO_TIME {
            Limit::SenderCpu
        } else if share(receiver.cpu_ns) >= NO_TIME {
            Limit::ReceiverCpu
        } else {
            Limit::Network
        }
    }

    fn sentence(&self, limit: Limit) -> String {
        let product = Bytes(self.product_bytes());
        let (sender, receiver) = (&self.sender, &self.receiver);
        let cpu =
            |end: &Account| format!("{:.0} %", end.cpu_ns as f64 / self.elapsed_ns.max(1) as f64 * 100.0);
        match limit {
            Limit::SenderCpu => format!("the sender's CPU: it was busy for {} of the time", cpu(sender)),
            Limit::ReceiverCpu => {
                format!("the receiver's CPU: it was busy for {} of the time", cpu(receiver))
            }
            Limit::WindowFormat => {
                format!("TCP's window, which is at most 1GiB: {product} were in flight; use several streams")
            }
            Limit::TcpRmem => format!(
                "the receiver's buffer: net.ipv4.tcp_rmem lets it grow to {}, {product} were in flight, and it needs \
                 twice that",
                Bytes(receiver.receive_buffer_limit_bytes)
            ),
            Limit::TcpWmem => format!(
                "the sender's buffer: net.ipv4.tcp_wmem lets it grow to {}, {product} were in flight, and it needs \
                 twice that",
                Bytes(sender.send_buffer_limit_bytes)
            ),
            Limit::TcpMem => {
                "the memory that a host gives to TCP (net.ipv4.tcp_mem): it was frugal with buffers"
                    .to_owned()
            }
            Limit::Receiver => {
                "the receiver's window, though its limits would let it grow: it reads too slowly, or its \
                                kernel has not let it grow yet"
                    .to_owned()
            }
            Limit::Network => format!(
                "the network: neither host was at a limit; the window was up to {}, {} packets were sent again",
                Bytes(sender.window_max_bytes),
                sender.retransmitted
            ),
        }
    }

    /// What was in flight: rate × round trip.
    fn product_bytes(&self) -> u64 {
        (self.bytes_per_s * self.rtt_ns as f64 / 1e9) as u64
    }
}

/// Whether something fills most of a limit that is known.
fn near(bytes: u64, limit: u64) -> bool {
    limit > 0 && bytes >= limit / 10 * 8
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Ten seconds at 1 Gb/s over 100 ms: 12.5 MB in flight, with plenty of everything.
    fn plenty() -> Seen {
        let end = Account {
            busy_ns: 10 * SECOND,
            cpu_ns: SECOND,
            receive_buffer_limit_bytes: 1 << 30,
            send_buffer_limit_bytes: 1 << 30,
            memory_max_bytes: 20 << 20,
            memory_pressure_bytes: 1 << 30,
            window_max_bytes: 13_000_000,
            ..Account::default()
        };
        let (elapsed_ns, rtt_ns) = (10 * SECOND, SECOND / 10);
        Seen { elapsed_ns, bytes_per_s: 125e6, rtt_ns, sender: end, receiver: end }
    }

    fn check(expected: Limit, change: impl FnOnce(&mut Seen)) {
        let mut seen = plenty();
        change(&mut seen);
        let (limit, sentence) = seen.limit();
        assert_eq!(limit, expected, "{sentence}");
        assert!(!sentence.is_empty());
    }

    #[test]
    fn each_limit_is_named() {
        check(Limit::Network, |_| {});
        check(Limit::SenderCpu, |seen| seen.sender.cpu_ns = 9_500_000_000);
        check(Limit::ReceiverCpu, |seen| seen.receiver.cpu_ns = 9_500_000_000);
        check(Limit::TcpMem, |seen| seen.receiver.memory_max_bytes = 1 << 30);
        let closed = |seen: &mut Seen| seen.sender.rwnd_limited_ns = 6 * SECOND;
        check(Limit::Receiver, closed);
        check(Limit::TcpRmem, |seen| {
            closed(seen);
            seen.receiver.receive_buffer_limit_bytes = 26_000_000;
        });
        check(Limit::ReceiverCpu, |seen| {
            closed(seen);
            seen.receiver.cpu_ns = 10 * SECOND;
        });
        check(Limit::WindowFormat, |seen| {
            closed(seen);
            (seen.bytes_per_s, seen.rtt_ns) = (2.1e9, SECOND / 2);
        });
        check(Limit::TcpWmem, |seen| {
            seen.sender.sndbuf_limited_ns = 5 * SECOND;
            seen.sender.send_buffer_limit_bytes = 26_000_000;
        });
        // A send buffer that is empty because there is time is no limit.
        check(Limit::Network, |seen| seen.sender.sndbuf_limited_ns = 5 * SECOND);
    }
}
