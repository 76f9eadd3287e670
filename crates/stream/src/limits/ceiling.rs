//! Rates that the hosts allow a stream, before anything is sent: the window within each limit, and its rate over the round
//! trip. The rate of the path is known only afterwards (`limiter`).

use std::time::Duration;

use diagnosis::Limiter;
use event::{BitRate, Bytes, format_delay};
use serde::Serialize;

use super::host::{HostLimits, WINDOW_MAX_BYTES};

/// Largest rate with advice.
const FASTEST: BitRate = BitRate(100_000_000_000);
/// Common rates of lines.
const RATES: [BitRate; 3] = [BitRate(1_000_000_000), BitRate(10_000_000_000), FASTEST];
/// Part of a full send buffer in flight. Linux wakes up the writer when a third of the buffer is free
/// (`__sk_stream_is_writeable`: as much room as half of the queued bytes). With paced sending the unsent part swings
/// between a third and nothing, and the rest is in flight.
const SEND_PART: Part = Part { of: 2, among: 3 };
/// The same without pacing: that third leaves at once, and all but bookkeeping is in flight.
const SEND_PART_UNPACED: Part = Part { of: 9, among: 10 };
/// Part of a receive buffer advertised as window. Linux counts the memory of packets, not their bytes, and measures the
/// ratio on the first packets of full size (`tcp_measure_rcv_mss`, `scaling_ratio`): 1448 bytes of payload take 2304 of
/// memory, two merged packets 4352. Cards that use a page per packet leave less.
const RECEIVE_PART: Part = Part { of: 2, among: 3 };

/// Part of a buffer: `of` in `among`.
#[derive(Clone, Copy, Debug)]
struct Part {
    of: u64,
    among: u64,
}

/// Rate within one limit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Ceiling {
    limit: Limiter,
    /// Host of the limit: `near` or `far`; null for TCP's own.
    host: Option<&'static str>,
    /// The limit itself.
    limit_bytes: u64,
    /// Largest sum of the windows of all streams within it.
    window_bytes: u64,
    /// Rate of these windows.
    bits_per_s: f64,
    /// The next common rate, or the requested one.
    goal_bits_per_s: f64,
    /// Command for that rate; null if the limit allows it.
    change: Option<String>,
}

/// A run about to begin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forecast {
    pub(crate) sender: HostLimits,
    pub(crate) receiver: HostLimits,
    pub(crate) sender_host: &'static str,
    pub(crate) receiver_host: &'static str,
    pub(crate) rtt: Duration,
    pub(crate) streams: u64,
    /// True for a paced sender.
    pub(crate) is_paced: bool,
    /// Requested rate of all streams, if any.
    pub(crate) goal: Option<BitRate>,
}

impl Forecast {
    /// All known limits, the lowest first.
    pub(crate) fn ceilings(&self) -> Vec<Ceiling> {
        let (sender, receiver) = (&self.sender, &self.receiver);
        let part = |bytes: u64, Part { of, among }| (bytes / among).saturating_mul(of * self.streams);
        let send_part = if self.is_paced { SEND_PART } else { SEND_PART_UNPACED };
        let send = sender.send_bytes[2];
        let receive = receiver.receive_bytes[2];
        let mut ceilings = vec![
            self.ceiling(Limiter::SendBuffer, Some(self.sender_host), send, part(send, send_part)),
            self.ceiling(
                Limiter::ReceiveWindow,
                Some(self.receiver_host),
                receive,
                part(receive, RECEIVE_PART),
            ),
            self.ceiling(Limiter::WindowScale, None, WINDOW_MAX_BYTES, WINDOW_MAX_BYTES * self.streams),
        ];
        for (host, limits) in [(self.sender_host, sender), (self.receiver_host, receiver)] {
            let pressure_bytes = limits.pressure_bytes();
            ceilings.push(self.ceiling(Limiter::TcpMemory, Some(host), pressure_bytes, pressure_bytes));
        }
        // 0: not known.
        ceilings.retain(|ceiling| ceiling.limit_bytes > 0);
        ceilings.sort_by(|a, b| a.bits_per_s.total_cmp(&b.bits_per_s));
        ceilings
    }

    fn ceiling(
        &self,
        limit: Limiter,
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
            (Limiter::SendBuffer, _) => self.sender.send_command(each_bytes),
            (Limiter::ReceiveWindow, _) => self.receiver.receive_command(each_bytes),
            (Limiter::TcpMemory, Some(host)) if host == self.sender_host => {
                self.sender.memory_command(product_bytes)
            }
            (Limiter::TcpMemory, _) => self.receiver.memory_command(product_bytes),
            _ => format!("--streams {}", product_bytes.div_ceil(WINDOW_MAX_BYTES)),
        });
        let goal_bits_per_s = goal.0 as f64;
        Ceiling { limit, host, limit_bytes, window_bytes, bits_per_s, goal_bits_per_s, change }
    }

    /// The lowest limit as a sentence.
    pub(crate) fn sentence(&self, ceilings: &[Ceiling]) -> String {
        let rtt = format_delay(self.rtt);
        let Some(lowest) = ceilings.first() else {
            return format!("round trip {rtt}; the limits of neither host are known");
        };
        let (limit, window) = (Bytes(lowest.limit_bytes), Bytes(lowest.window_bytes));
        let rate = BitRate(lowest.bits_per_s as u64);
        let (host, name) = (lowest.host.unwrap_or_default(), lowest.limit.name());
        let why = match lowest.limit {
            Limiter::SendBuffer => {
                format!("net.ipv4.tcp_wmem of the {host} host lets a send buffer grow to {limit}")
            }
            Limiter::ReceiveWindow => {
                format!("net.ipv4.tcp_rmem of the {host} host lets a receive buffer grow to {limit}")
            }
            Limiter::TcpMemory => {
                format!("net.ipv4.tcp_mem puts TCP of the {host} host under pressure from {limit} on")
            }
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
            1 => format!(
                "round trip {rtt}: a window of up to {window} carries {rate}, since {why} ({name}){more}"
            ),
            n => format!(
                "round trip {rtt}: windows of up to {window} in {n} streams carry {rate}, since {why} ({name}){more}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast() -> Forecast {
        let limits = HostLimits {
            receive_bytes: [4096, 131_072, 30_000_000],
            send_bytes: [4096, 16_384, 6_000_000],
            memory_pages: [3 << 16, 1 << 18, 3 << 17],
            page_bytes: 4096,
            cpus: 2,
        };
        Forecast {
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

    /// Checks the lowest limit, its rate in Mbit/s and its command.
    #[track_caller]
    fn check(forecast: Forecast, limit: Limiter, mbit_per_s: f64, change: Option<&str>) {
        let ceilings = forecast.ceilings();
        let lowest = &ceilings[0];
        assert_eq!((lowest.limit, lowest.bits_per_s.round() / 1e6), (limit, mbit_per_s), "{ceilings:?}");
        assert_eq!(lowest.change.as_deref(), change);
        let sentence = forecast.sentence(&ceilings);
        assert!(sentence.contains(change.unwrap_or("carr")), "{sentence}");
    }

    #[test]
    fn the_lowest_limit_binds() {
        let line = "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 33554432\"";
        check(forecast(), Limiter::SendBuffer, 320.0, Some(line));
        let mut roomy = forecast();
        roomy.sender.send_bytes[2] = 1 << 30;
        let line = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 268435456\"";
        check(roomy, Limiter::ReceiveWindow, 1600.0, Some(line));
        check(Forecast { streams: 4, ..forecast() }, Limiter::SendBuffer, 1280.0, {
            Some("sysctl -w net.ipv4.tcp_wmem=\"4096 16384 67108864\"")
        });
        // A limit above the requested rate needs no change.
        check(Forecast { goal: Some(BitRate(100_000_000)), ..forecast() }, Limiter::SendBuffer, 320.0, None);
        check(
            Forecast { is_paced: false, ..forecast() },
            Limiter::SendBuffer,
            432.0,
            Some("sysctl -w net.ipv4.tcp_wmem=\"4096 16384 33554432\""),
        );
        let all = forecast().ceilings();
        assert_eq!(all.len(), 5);
        assert!(all.is_sorted_by(|a, b| a.bits_per_s <= b.bits_per_s));
        let text = forecast().sentence(&all);
        let start = "round trip 100ms: a window of up to 3.81MiB carries 320mbit, since net.ipv4.tcp_wmem of the near \
                     host lets a send buffer grow to 5.72MiB (send-buffer); for 1gbit, at the near host: sysctl";
        assert!(text.starts_with(start), "{text}");
    }

    #[test]
    fn what_no_sysctl_helps_needs_several_streams() {
        let limits = HostLimits {
            receive_bytes: [4096, 131_072, i32::MAX as u64],
            send_bytes: [4096, 16_384, i32::MAX as u64],
            ..HostLimits::default()
        };
        let slow = Forecast { sender: limits, receiver: limits, rtt: Duration::from_secs(1), ..forecast() };
        check(slow, Limiter::WindowScale, WINDOW_MAX_BYTES as f64 * 8.0 / 1e6, Some("--streams 2"));
        // In a network namespace the memory of all TCP is not known.
        assert_eq!(slow.ceilings().len(), 3);
        let unknown = HostLimits::default();
        let blind = Forecast { sender: unknown, receiver: unknown, ..forecast() };
        check(blind, Limiter::WindowScale, WINDOW_MAX_BYTES as f64 * 80.0 / 1e6, Some("--streams 2"));
    }
}
