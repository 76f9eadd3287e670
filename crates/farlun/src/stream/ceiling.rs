//! What the hosts allow a stream before anything was sent: the window that each limit leaves, and how much that carries
//! over the round trip that is there. What the network allows is known only afterwards (`why`).

use std::time::Duration;

use event::{BitRate, Bytes, format_delay};
use serde::Serialize;

use super::limits::Limits;
use super::why::{Limit, WINDOW_MAX_BYTES};

/// Nobody needs advice for more than this.
const FASTEST: BitRate = BitRate(100_000_000_000);
/// Rates that people buy.
const RATES: [BitRate; 3] = [BitRate(1_000_000_000), BitRate(10_000_000_000), FASTEST];
/// Of a full send buffer two thirds are in flight. Linux wakes up whoever writes when a third of it is free
/// (`__sk_stream_is_writeable`: as much room as half of what is queued), so what is not sent yet swings between a third and
/// nothing if it leaves evenly, as a paced sender sends, and what is in flight is the rest.
const SEND_PART: Part = Part { of: 2, among: 3 };
/// A sender that is not paced sends that third at once: then all but bookkeeping may be in flight.
const SEND_PART_UNPACED: Part = Part { of: 9, among: 10 };
/// Of a receive buffer two thirds are offered as window. Linux counts the memory of packets and not their bytes, and takes
/// the relation of both from the first packets of full size (`tcp_measure_rcv_mss`, `scaling_ratio`): 1448 bytes of payload
/// have 2304 of memory, two of them that come as one 4352. Cards that spend a page on each packet leave less.
const RECEIVE_PART: Part = Part { of: 2, among: 3 };

/// What of a buffer is for the window.
#[derive(Clone, Copy, Debug)]
struct Part {
    of: u64,
    among: u64,
}

/// One limit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Ceiling {
    limit: Limit,
    /// Whose limit it is: `near` or `far`; null of TCP's own.
    host: Option<&'static str>,
    /// What the limit is.
    limit_bytes: u64,
    /// The windows of all streams together that it leaves, at most.
    window_bytes: u64,
    /// What these carry.
    bits_per_s: f64,
    /// The next rate that people buy, or the one that was asked for.
    goal_bits_per_s: f64,
    /// What to do for that; null if this is enough for it.
    change: Option<String>,
}

/// A run as it is about to begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prospect {
    pub(super) sender: Limits,
    pub(super) receiver: Limits,
    pub(super) sender_host: &'static str,
    pub(super) receiver_host: &'static str,
    pub(super) rtt: Duration,
    pub(super) streams: u64,
    /// Whether the sender is paced.
    pub(super) is_paced: bool,
    /// What all streams together are paced to at most, if that was asked for.
    pub(super) goal: Option<BitRate>,
}

impl Prospect {
    /// All limits that are known, the lowest first.
    pub(super) fn ceilings(&self) -> Vec<Ceiling> {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let part = |bytes: u64, Part { of, among }| (bytes / among).saturating_mul(of * self.streams);
        let send_part = if self.is_paced { SEND_PART } else { SEND_PART_UNPACED };
        let send = sender.send_bytes[2];
        let receive = receiver.receive_bytes[2];
        let mut ceilings = vec![
            self.ceiling(Limit::TcpWmem, Some(self.sender_host), send, part(send, send_part)),
            self.ceiling(Limit::TcpRmem, Some(self.receiver_host), receive, part(receive, RECEIVE_PART)),
            self.ceiling(Limit::WindowFormat, None, WINDOW_MAX_BYTES, WINDOW_MAX_BYTES * self.streams),
        ];
        for (host, limits) in [(self.sender_host, sender), (self.receiver_host, receiver)] {
            let pressure_bytes = limits.pressure_bytes();
            ceilings.push(self.ceiling(Limit::TcpMem, Some(host), pressure_bytes, pressure_bytes));
        }
        // 0 is a limit that is not known.
        ceilings.retain(|ceiling| ceiling.limit_bytes > 0);
        ceilings.sort_by(|a, b| a.bits_per_s.total_cmp(&b.bits_per_s));
        ceilings
    }

    fn ceiling(
        &self,
        limit: Limit,
        host: Option<&'static str>,
        limit_bytes: u64,
        window_bytes: u64,
    ) -> Ceiling {
        let rtt_s = self.rtt.as_secs_f64().max(1e-9);
        let bits_per_s = window_bytes as f64 * 8.0 / rtt_s;
        let next = RATES.into_iter().find(|rate| rate.0 as f64 > bits_per_s).unwrap_or(FASTEST);
        let goal = self.goal.unwrap_or(next);
        let product_bytes = goal.bytes_in(self.rtt);
        let each_bytes = product_bytes / self.streams.max(1);
        let change = (bits_per_s < goal.0 as f64).then(|| match (limit, host) {
            (Limit::TcpWmem, _) => self.sender.send_line(each_bytes),
            (Limit::TcpRmem, _) => self.receiver.receive_line(each_bytes),
            (Limit::TcpMem, Some(host)) if host == self.sender_host => self.sender.memory_line(product_bytes),
            (Limit::TcpMem, _) => self.receiver.memory_line(product_bytes),
            _ => format!("--streams {}", product_bytes.div_ceil(WINDOW_MAX_BYTES)),
        });
        let goal_bits_per_s = goal.0 as f64;
        Ceiling { limit, host, limit_bytes, window_bytes, bits_per_s, goal_bits_per_s, change }
    }

    /// What binds, in a sentence.
    pub(super) fn sentence(&self, ceilings: &[Ceiling]) -> String {
        let rtt = format_delay(self.rtt);
        let Some(lowest) = ceilings.first() else {
            return format!("round trip {rtt}; the limits of neither host are known");
        };
        let (limit, window) = (Bytes(lowest.limit_bytes), Bytes(lowest.window_bytes));
        let rate = BitRate(lowest.bits_per_s as u64);
        let host = lowest.host.unwrap_or_default();
        let why = match lowest.limit {
            Limit::TcpWmem => {
                format!("net.ipv4.tcp_wmem of the {host} host lets a send buffer grow to {limit}")
            }
            Limit::TcpRmem => {
                format!("net.ipv4.tcp_rmem of the {host} host lets a receive buffer grow to {limit}")
            }
            Limit::TcpMem => format!("net.ipv4.tcp_mem makes the {host} host frugal from {limit} on"),
            _ => "a window of TCP has no more".to_owned(),
        };
        let more = match (&lowest.change, lowest.host) {
            (None, _) => String::new(),
            (Some(change), None) => format!("; for {}: {change}", BitRate(lowest.goal_bits_per_s as u64)),
            (Some(change), Some(host)) => {
                let goal = BitRate(lowest.goal_bits_per_s as u64);
                format!("; for {goal}, at the {host} host: {change}")
            }
        };
        match self.streams {
            1 => format!("round trip {rtt}: a window of up to {window} carries {rate}, since {why}{more}"),
            n => format!(
                "round trip {rtt}: windows of up to {window} in {n} streams carry {rate}, since {why}{more}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prospect() -> Prospect {
        let limits = Limits {
            receive_bytes: [4096, 131_072, 30_000_000],
            send_bytes: [4096, 16_384, 6_000_000],
            memory_pages: [3 << 16, 1 << 18, 3 << 17],
            page_bytes: 4096,
            cpus: 2,
        };
        Prospect {
            sender: limits,
            receiver: limits,
            sender_host: "near",
            receiver_host: "far",
            rtt: Duration::from_millis(100),
            streams: 1,
            is_paced: true,
            goal: None,
        }
    }

    /// The limit that binds, what it carries in Mbit/s, and what to do.
    #[track_caller]
    fn check(prospect: Prospect, limit: Limit, mbit_per_s: f64, change: Option<&str>) {
        let ceilings = prospect.ceilings();
        let lowest = &ceilings[0];
        assert_eq!((lowest.limit, lowest.bits_per_s.round() / 1e6), (limit, mbit_per_s), "{ceilings:?}");
        assert_eq!(lowest.change.as_deref(), change);
        let sentence = prospect.sentence(&ceilings);
        assert!(sentence.contains(change.unwrap_or("carr")), "{sentence}");
    }

    #[test]
    fn the_lowest_limit_binds() {
        let line = "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 33554432\"";
        check(prospect(), Limit::TcpWmem, 320.0, Some(line));
        let mut roomy = prospect();
        roomy.sender.send_bytes[2] = 1 << 30;
        let line = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 268435456\"";
        check(roomy, Limit::TcpRmem, 1600.0, Some(line));
        check(Prospect { streams: 4, ..prospect() }, Limit::TcpWmem, 1280.0, {
            Some("sysctl -w net.ipv4.tcp_wmem=\"4096 16384 67108864\"")
        });
        // What is enough for the rate that was asked for needs no change.
        check(Prospect { goal: Some(BitRate(100_000_000)), ..prospect() }, Limit::TcpWmem, 320.0, None);
        check(
            Prospect { is_paced: false, ..prospect() },
            Limit::TcpWmem,
            432.0,
            Some("sysctl -w net.ipv4.tcp_wmem=\"4096 16384 33554432\""),
        );
        let all = prospect().ceilings();
        assert_eq!(all.len(), 5);
        assert!(all.is_sorted_by(|a, b| a.bits_per_s <= b.bits_per_s));
        let text = prospect().sentence(&all);
        let start = "round trip 100ms: a window of up to 3.81MiB carries 320mbit, since net.ipv4.tcp_wmem of the near \
                     host lets a send buffer grow to 5.72MiB; for 1gbit, at the near host: sysctl";
        assert!(text.starts_with(start), "{text}");
    }

    #[test]
    fn what_no_sysctl_helps_needs_several_streams() {
        let limits = Limits {
            receive_bytes: [4096, 131_072, i32::MAX as u64],
            send_bytes: [4096, 16_384, i32::MAX as u64],
            ..Limits::default()
        };
        let slow = Prospect { sender: limits, receiver: limits, rtt: Duration::from_secs(1), ..prospect() };
        check(slow, Limit::WindowFormat, WINDOW_MAX_BYTES as f64 * 8.0 / 1e6, Some("--streams 2"));
        // In a network namespace the memory of all TCP is not known.
        assert_eq!(slow.ceilings().len(), 3);
        let unknown = Limits::default();
        let blind = Prospect { sender: unknown, receiver: unknown, ..prospect() };
        check(blind, Limit::WindowFormat, WINDOW_MAX_BYTES as f64 * 80.0 / 1e6, Some("--streams 2"));
    }
}
