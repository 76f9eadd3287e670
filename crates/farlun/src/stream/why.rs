//! Why a stream was not faster: which limit was in force, from what both ends said.
//!
//! Order matters: an end without CPU time to spare also fills its buffers, and a window that is too small also keeps the
//! network from being filled. What is left when no host limits anything is the network. What could be known before the
//! stream began is in `ceiling`.

use event::Bytes;
use serde::Serialize;

use super::account::End;

/// Share of the time from which on a limit of TCP is *the* limit.
const MOSTLY: f64 = 0.2;
/// Share of one CPU from which on a single thread has no time left.
const NO_TIME: f64 = 0.9;
/// TCP's window is at most 65 535 × 2^14 bytes (RFC 7323, section 2.3).
pub(super) const WINDOW_MAX_BYTES: u64 = 65_535 << 14;

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
    pub(super) sender: End,
    pub(super) receiver: End,
    /// Which hosts these are: `near` or `far`.
    pub(super) sender_host: &'static str,
    pub(super) receiver_host: &'static str,
    /// CPU time that all streams of the run took at each end.
    pub(super) sender_cpu_ns: u64,
    pub(super) receiver_cpu_ns: u64,
}

impl Seen {
    /// The limit, and the sentence that says so.
    pub(super) fn limit(&self) -> (Limit, String) {
        let limit = self.decide();
        (limit, self.sentence(limit))
    }

    /// Share of the time in which the sender's thread was at work, or all of its CPUs were, whichever is more.
    fn sender_cpu(&self) -> f64 {
        self.cpu(&self.sender, self.sender_cpu_ns)
    }

    fn receiver_cpu(&self) -> f64 {
        self.cpu(&self.receiver, self.receiver_cpu_ns)
    }

    fn cpu(&self, end: &End, all_ns: u64) -> f64 {
        let elapsed_ns = self.elapsed_ns.max(1) as f64;
        let of_all = all_ns as f64 / end.limits.cpus.max(1) as f64;
        (end.account.cpu_ns as f64).max(of_all) / elapsed_ns
    }

    fn decide(&self) -> Limit {
        let share = |ns: u64| ns as f64 / self.elapsed_ns.max(1) as f64;
        let (sender, receiver) = (&self.sender, &self.receiver);
        if is_strained(sender) || is_strained(receiver) {
            Limit::TcpMem
        } else if share(sender.account.rwnd_limited_ns) >= MOSTLY
            || fills(self.product_bytes(), sender.account.peer_window_max_bytes)
        {
            match self.product_bytes() {
                product if product >= WINDOW_MAX_BYTES / 10 * 9 => Limit::WindowFormat,
                // Linux offers about half of a buffer as window, or more.
                product if near(product * 2, receiver.limits.receive_bytes[2]) => Limit::TcpRmem,
                _ if self.receiver_cpu() >= NO_TIME => Limit::ReceiverCpu,
                _ => Limit::Receiver,
            }
        } else if (share(sender.account.sndbuf_limited_ns) >= MOSTLY
            && near(self.product_bytes() * 2, sender.limits.send_bytes[2]))
            || fills(self.product_bytes(), sender.limits.send_bytes[2])
        {
            Limit::TcpWmem
        } else if self.sender_cpu() >= NO_TIME {
            Limit::SenderCpu
        } else if self.receiver_cpu() >= NO_TIME {
            Limit::ReceiverCpu
        } else {
            Limit::Network
        }
    }

    fn sentence(&self, limit: Limit) -> String {
        // What is wanted is at least twice what there was.
        let (product, wanted) = (self.product_bytes(), self.product_bytes().saturating_mul(2));
        let in_flight = Bytes(product);
        let (sender, receiver) = (&self.sender, &self.receiver);
        let busy = |share: f64| format!("it was busy for {:.0} % of the time", share * 100.0);
        match limit {
            Limit::SenderCpu => format!("the sender's CPU: {}", busy(self.sender_cpu())),
            Limit::ReceiverCpu => format!("the receiver's CPU: {}", busy(self.receiver_cpu())),
            Limit::WindowFormat => {
                format!("TCP's window, which is at most 1GiB: {in_flight} were in flight; use --streams")
            }
            Limit::TcpRmem => format!(
                "the receiver's buffer: net.ipv4.tcp_rmem lets it grow to {}, {in_flight} were in flight, and it needs \
                 up to twice that; at the {} host: {}",
                Bytes(receiver.limits.receive_bytes[2]),
                self.receiver_host,
                receiver.limits.receive_line(wanted)
            ),
            Limit::TcpWmem => format!(
                "the sender's buffer: net.ipv4.tcp_wmem lets it grow to {}, {in_flight} were in flight, and it needs \
                 up to twice that; at the {} host: {}",
                Bytes(sender.limits.send_bytes[2]),
                self.sender_host,
                sender.limits.send_line(wanted)
            ),
            Limit::TcpMem => {
                let (host, end) = match is_strained(sender) {
                    true => (self.sender_host, sender),
                    false => (self.receiver_host, receiver),
                };
                format!(
                    "the memory that a host gives to TCP: net.ipv4.tcp_mem makes it frugal from {} on; at the {host} \
                     host: {}",
                    Bytes(end.limits.pressure_bytes()),
                    end.limits.memory_line(end.account.memory_max_bytes)
                )
            }
            Limit::Receiver => {
                "the receiver's window, though its limits would let it grow: it reads too slowly, or \
                                its kernel has not let it grow yet"
                    .to_owned()
            }
            Limit::Network => format!(
                "the network: neither host was at a limit; the window was up to {}, {} packets were sent again",
                Bytes(sender.account.window_max_bytes),
                sender.account.retransmitted
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

/// Whether what is in flight takes up more of a window or a buffer than it does when the kernel is free to let that grow:
/// then it is half. The kernel's own account of who waited is silent while a sender that is paced waits for its pace, and of
/// send buffers in which little waits unsent. Of a full buffer about two thirds are in flight (`ceiling` says why).
fn fills(bytes: u64, whole: u64) -> bool {
    whole > 0 && bytes >= whole / 10 * 6
}

/// Whether TCP had so much memory that it was frugal.
fn is_strained(end: &End) -> bool {
    let pressure_bytes = end.limits.pressure_bytes();
    pressure_bytes > 0 && end.account.memory_max_bytes >= pressure_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::account::Account;
    use crate::stream::limits::Limits;

    const SECOND: u64 = 1_000_000_000;

    /// Ten seconds at 1 Gb/s over 100 ms: 12.5 MB in flight, with plenty of everything.
    fn plenty() -> Seen {
        let account = Account {
            busy_ns: 10 * SECOND,
            cpu_ns: SECOND,
            memory_max_bytes: 20 << 20,
            window_max_bytes: 13_000_000,
            ..Account::default()
        };
        let limits = Limits {
            receive_bytes: [4096, 131_072, 1 << 30],
            send_bytes: [4096, 16_384, 1 << 30],
            memory_pages: [3 << 16, 1 << 18, 3 << 17],
            page_bytes: 4096,
            cpus: 2,
        };
        let end = End::new(account, limits);
        Seen {
            elapsed_ns: 10 * SECOND,
            bytes_per_s: 125e6,
            rtt_ns: SECOND / 10,
            sender: end,
            receiver: end,
            sender_host: "near",
            receiver_host: "far",
            sender_cpu_ns: SECOND,
            receiver_cpu_ns: SECOND,
        }
    }

    /// What is said then contains `words`.
    #[track_caller]
    fn check(expected: Limit, words: &str, change: impl FnOnce(&mut Seen)) {
        let mut seen = plenty();
        change(&mut seen);
        let (limit, sentence) = seen.limit();
        assert_eq!(limit, expected, "{sentence}");
        assert!(sentence.contains(words), "{sentence}");
    }

    #[test]
    fn each_limit_is_named() {
        check(Limit::Network, "0 packets", |_| {});
        check(Limit::SenderCpu, "95 %", |seen| seen.sender.account.cpu_ns = 9_500_000_000);
        check(Limit::ReceiverCpu, "95 %", |seen| seen.receiver.account.cpu_ns = 9_500_000_000);
        // Four streams of which none has a CPU for itself.
        check(Limit::SenderCpu, "98 %", |seen| seen.sender_cpu_ns = 19_500_000_000);
        check(Limit::Network, "the network", |seen| {
            seen.sender_cpu_ns = 19_500_000_000;
            seen.sender.limits.cpus = 4;
        });
        let memory = "at the far host: sysctl -w net.ipv4.tcp_mem=\"393216 524288 786432\"";
        check(Limit::TcpMem, memory, |seen| seen.receiver.account.memory_max_bytes = 1 << 30);
        let closed = |seen: &mut Seen| seen.sender.account.rwnd_limited_ns = 6 * SECOND;
        check(Limit::Receiver, "reads too slowly", closed);
        check(
            Limit::TcpRmem,
            "at the far host: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 67108864\"",
            |seen| {
                closed(seen);
                seen.receiver.limits.receive_bytes[2] = 26_000_000;
            },
        );
        check(Limit::ReceiverCpu, "100 %", |seen| {
            closed(seen);
            seen.receiver.account.cpu_ns = 10 * SECOND;
        });
        check(Limit::WindowFormat, "--streams", |seen| {
            closed(seen);
            (seen.bytes_per_s, seen.rtt_ns) = (2.1e9, SECOND / 2);
        });
        check(
            Limit::TcpWmem,
            "at the near host: sysctl -w net.ipv4.tcp_wmem=\"4096 16384 67108864\"",
            |seen| {
                seen.sender.account.sndbuf_limited_ns = 5 * SECOND;
                seen.sender.limits.send_bytes[2] = 26_000_000;
            },
        );
        // A paced sender does not know that it waits.
        check(Limit::TcpRmem, "at the far host", |seen| {
            seen.sender.account.peer_window_max_bytes = 16_000_000;
            seen.receiver.limits.receive_bytes[2] = 26_000_000;
        });
        check(Limit::TcpWmem, "at the near host", |seen| seen.sender.limits.send_bytes[2] = 16_000_000);
        check(Limit::Network, "0 packets", |seen| {
            seen.sender.account.peer_window_max_bytes = 26_000_000;
            seen.receiver.limits.receive_bytes[2] = 52_000_000;
            seen.sender.limits.send_bytes[2] = 26_000_000;
        });
        // A send buffer that is empty because there is time is no limit.
        check(Limit::Network, "0 packets", |seen| seen.sender.account.sndbuf_limited_ns = 5 * SECOND);
    }
}
